//! Another program's file: read whole, written whole or not at all, and kept as it was before relay's first change. It must not know
//! what is in it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use super::json::Flaw;
use crate::cli::work_tree::{read_file, without_dots};
use crate::process::Process;

/// Most bytes of a file: a hundred times what Claude Code has gathered in its own after a year.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How many links a path may lead through, as Linux has it.
const LINKS_MAX: usize = 40;

/// The name of a file that says of the directory after which its own is called that it is made for another program's file.
const MADE: &str = ".made";

/// What some editors put before all text.
pub const MARK: char = '\u{feff}';

/// Why a file was not read, changed or kept.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system does not let it be read, or it is no file.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// It is longer than any such file.
    #[error("cannot read {}: it has more than {FILE_BYTES_MAX} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It is not what its program would read, or has something else where relay's part would be.
    #[error("{}: {flaw}", path.display())]
    Flawed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        flaw: Flaw,
    },
    /// A project's file is one outside of the project.
    #[error(
        "{} leads out of its project, to {}; accepted: a file of the project's own in its place, or --global",
        path.display(), end.display()
    )]
    LeadsOut {
        /// The file.
        path: PathBuf,
        /// Where it leads.
        end: PathBuf,
    },
    /// What is to be relay's as a whole leads to something else.
    #[error(
        "{} is a link to {}, which is not relay's; accepted: no link in its place",
        path.display(), end.display()
    )]
    Linked {
        /// The file.
        path: PathBuf,
        /// Where it leads.
        end: PathBuf,
    },
    /// The system does not take it.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// It was changed by somebody else since it was read.
    #[error("{} was changed by another program just now; try again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// There is no place for what it was before.
    #[error("cannot keep {} as it is now, or was once: {error}", path.display())]
    Backup {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// It begins with a byte order mark.
    mark: bool,
    /// What follows.
    pub text: String,
}

impl Whole {
    /// Returns its bytes with another text.
    pub fn bytes_with(&self, text: &str) -> String {
        if self.mark {
            return format!("{MARK}{text}");
        }
        text.to_owned()
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> String {
        self.bytes_with(&self.text)
    }
}

/// Returns where a path leads: the end of its links, whether there is a file or not. A path that is no link stays as it is; there is no
/// `..` in what is returned.
pub fn target(path: &Path) -> PathBuf {
    let mut target = plain(path);
    for _ in 0..LINKS_MAX {
        let Ok(next) = fs::read_link(&target) else {
            break;
        };
        let directory = target.parent().unwrap_or(Path::new("/"));
        // A `..` in a link counts from where its directory really is.
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        target = plain(&directory.join(next));
    }
    target
}

/// Returns where a path leads, through the links among its directories as well, as far as they are there.
pub fn real(path: &Path) -> PathBuf {
    let target = target(path);
    for above in target.ancestors().skip(1) {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), target.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    target
}

/// Takes `..` out of a path: as the system goes it as far as it is there, and by its text from there on.
fn plain(path: &Path) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path.to_owned();
    }
    let Some(name) = path.file_name() else {
        return path.canonicalize().unwrap_or_else(|_| without_dots(path));
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    let directory = directory.canonicalize().unwrap_or_else(|_| plain(directory));
    directory.join(name)
}

/// Reads a file; nothing if there is none.
///
/// # Errors
///
/// [`FileError::Read`], [`FileError::TooLong`], or [`FileError::Flawed`] for one that is no UTF-8.
pub fn read(path: &Path) -> Result<Option<Whole>, FileError> {
    let path = path.to_owned();
    let bytes = match read_file(&path, FILE_BYTES_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(FileError::TooLong { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::Read { path, error }),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
        FileError::Flawed {
            path,
            flaw: Flaw::at(&before, at, "this is no UTF-8".to_owned()),
        }
    })?;
    Ok(Some(match text.strip_prefix(MARK) {
        Some(rest) => Whole {
            mark: true,
            text: rest.to_owned(),
        },
        None => Whole { mark: false, text },
    }))
}

/// Keeps what was read from a file, readable for nobody who could not read the file.
///
/// # Errors
///
/// [`FileError::Backup`].
pub fn keep(path: &Path, was: &Whole, backup: &Path) -> Result<(), FileError> {
    let keep = || {
        let directory = backup.parent().unwrap_or(Path::new("/"));
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(directory)?;
        put(
            backup,
            was.bytes().as_bytes(),
            Some(path.metadata()?.permissions()),
        )
    };
    keep().map_err(|error| FileError::Backup {
        path: path.to_owned(),
        error,
    })
}

/// Returns the name of a file beside another one, that with a number behind it: of one in which this is, or of one that is not there.
pub fn beside(path: &Path, whole: &Whole) -> PathBuf {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let is_free = |name: &PathBuf| name.symlink_metadata().is_err();
    let has_it = |name: &PathBuf| read(name).is_ok_and(|there| there.as_ref() == Some(whole));
    let mut names = (1..).map(numbered);
    names
        .find(|name| is_free(name) || has_it(name))
        .expect("a directory does not hold four billion files")
}

/// Gives a file that is kept another name.
///
/// # Errors
///
/// [`FileError::Backup`], for the file that it is kept of.
pub fn set_aside(path: &Path, from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(|error| FileError::Backup {
        path: path.to_owned(),
        error,
    })
}

/// Writes a file in one step, with the mode that it has; its directory is made if it is not there. Whoever reads it at the same time
/// finds what was there before, or this whole.
///
/// # Errors
///
/// [`FileError::Changed`] if it is not any more what was read; [`FileError::Write`]. What is there stays as it is.
pub fn write(path: &Path, was: Option<&Whole>, bytes: &str) -> Result<(), FileError> {
    check_unchanged(path, was)?;
    let write = || {
        let target = target(path);
        fs::create_dir_all(target.parent().unwrap_or(Path::new("/")))?;
        let mode = match target.metadata() {
            Ok(data) => Some(data.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        put(&target, bytes.as_bytes(), mode)
    };
    write().map_err(|error| FileError::Write {
        path: path.to_owned(),
        error,
    })
}

/// Writes a program that everybody may run, in one step; its directory is made if it is not there.
///
/// # Errors
///
/// [`FileError::Write`]. What is there stays as it is.
pub fn write_program(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        put(path, bytes, Some(Permissions::from_mode(0o755)))
    };
    write().map_err(|error| FileError::Write {
        path: path.to_owned(),
        error,
    })
}

/// Returns the directories that are made for a file when it is written, those within others first.
pub fn missing(path: &Path) -> Vec<PathBuf> {
    let target = target(path);
    let above = target.ancestors().skip(1);
    let missing = above.take_while(|above| above.symlink_metadata().is_err());
    missing.map(Path::to_owned).collect()
}

/// Removes a file.
///
/// # Errors
///
/// As [`write`].
pub fn remove(path: &Path, was: &Whole) -> Result<(), FileError> {
    check_unchanged(path, Some(was))?;
    fs::remove_file(target(path)).map_err(|error| FileError::Write {
        path: path.to_owned(),
        error,
    })
}

/// Removes the directories that a file was alone in, up to the first one that stays, or that somebody else has made; `made` is where it is written down
/// which ones are made for other programs' files.
pub fn remove_empty(path: &Path, made: &Path) {
    for directory in target(path).ancestors().skip(1) {
        let mark = mark_of(directory, made);
        // One that holds something else is not removed.
        if mark.symlink_metadata().is_err() || fs::remove_dir(directory).is_err() {
            break;
        }
        let _ = fs::remove_file(&mark);
        let data = made.parent();
        for directory in mark
            .ancestors()
            .skip(1)
            .take_while(|above| data.is_some_and(|data| above.starts_with(data)))
        {
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
    }
}

/// Writes down that directories are made; what is not written down stays.
pub fn mark(directories: &[PathBuf], made: &Path) {
    for directory in directories {
        let mark = mark_of(directory, made);
        let _ = fs::create_dir_all(mark.parent().unwrap_or(made));
        let _ = fs::write(mark, "");
    }
}

fn mark_of(directory: &Path, made: &Path) -> PathBuf {
    let directory = real(&directory.join(MADE));
    made.join(directory.strip_prefix("/").unwrap_or(&directory))
}

fn check_unchanged(path: &Path, was: Option<&Whole>) -> Result<(), FileError> {
    if read(path)?.as_ref() != was {
        let path = path.to_owned();
        return Err(FileError::Changed { path });
    }
    Ok(())
}

/// Writes a file beside the one that it replaces, and puts it into its place once it is on the disk.
fn put(path: &Path, bytes: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    clear(path);
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if mode.is_some() {
            // Until it has the mode of the other.
            options.mode(0o600);
        }
        let mut file = options.open(&new)?;
        file.write_all(bytes)?;
        if let Some(mode) = mode {
            // Not the bits that give a file's rights to who runs it.
            file.set_permissions(Permissions::from_mode(mode.mode() & 0o777))?;
        }
        file.sync_all()?;
        fs::rename(&new, path)
    };
    let result = write();
    if result.is_err() {
        // Nobody reads it under this name.
        let _ = fs::remove_file(&new);
    }
    result
}

/// Removes what [`put`] has left behind where it was killed.
fn clear(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let begins = format!(".{name}.");
    let directory = path.parent().unwrap_or(Path::new("/"));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let number = file.strip_prefix(&begins);
        let number = number.and_then(|rest| rest.strip_suffix(".new"));
        let process = number
            .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(Process::named);
        let is_over =
            |process: Process| !process.is_alive() || process.number == std::process::id().to_string();
        if process.is_some_and(is_over) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

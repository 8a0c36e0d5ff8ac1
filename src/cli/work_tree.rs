//! Files that a directory tree may hold for relay, and the main work tree of a git repository, whose files count for the others too.
//! It runs no git, and must not know what is in the files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Reads a file of at most so many bytes; `None` if it has more.
///
/// # Errors
///
/// The system's; [`io::ErrorKind::InvalidInput`] for what is no file. A pipe is not opened: it might be waited for without end.
pub fn read_file(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max);
    Ok(fits.then_some(bytes))
}

/// Tells whether an error says that a file is not there.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Returns the root of the work tree of git that a directory is in, if it is not the root itself.
pub fn root_above(directory: &Path) -> Option<PathBuf> {
    let is_root = |directory: &&Path| directory.join(".git").exists();
    let root = directory.ancestors().find(is_root)?;
    (root != directory).then(|| root.to_owned())
}

/// Returns the main work tree of the repository of which `root` is the root of another work tree: there `.git` is a file that names a
/// directory, in which `commondir` names the one that all of them share. `read` gives what is in a file, if it is there.
/// <https://git-scm.com/docs/gitrepository-layout>
pub fn main_work_tree(root: &Path, read: impl Fn(&Path) -> Option<Vec<u8>>) -> Option<PathBuf> {
    let line = |file: &Path| {
        let mut line = read(file)?;
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            line.pop();
        }
        Some(line)
    };
    let own = line(&root.join(".git"))?;
    let own = root.join(OsStr::from_bytes(own.strip_prefix(b"gitdir: ")?));
    let shared = line(&own.join("commondir"))?;
    let shared = without_dots(&own.join(OsStr::from_bytes(&shared)));
    let main = shared.parent()?;
    shared.ends_with(".git").then(|| main.to_owned())
}

/// Returns the directory to which Thrum leads from another by the file `.thrum/redirect`, which names the `.thrum` of the main checkout.
pub fn redirected(from: &Path, read: impl Fn(&Path) -> Option<Vec<u8>>) -> Option<PathBuf> {
    let named = read(&from.join(".thrum/redirect"))?;
    let named = from.join(OsStr::from_bytes(named.trim_ascii()));
    let main = without_dots(&named);
    main.ends_with(".thrum")
        .then(|| main.parent().map(Path::to_owned))?
}

/// Takes `.` and `..` out of a path by its text.
pub fn without_dots(path: &Path) -> PathBuf {
    use std::path::Component::{CurDir, Normal, ParentDir, Prefix, RootDir};

    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            CurDir => {}
            ParentDir => {
                plain.pop();
            }
            Normal(_) | Prefix(_) | RootDir => plain.push(part),
        }
    }
    plain
}

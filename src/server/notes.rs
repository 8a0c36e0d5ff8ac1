//! Notes in a file of this user's runtime directory.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::NOTES_PATIENCE;
use super::orphans::Notes;

/// How often it is looked whether another relay still has the file.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A file that only this user can read. One relay has it at a time: who wants to have it waits until the one before, which
/// may have freed its port already, has written its last and ended.
pub struct FileNotes {
    file: File,
    path: PathBuf,
    /// What is noted there.
    of: &'static str,
    /// Told once, then it goes on without.
    failed: bool,
}

impl FileNotes {
    /// Opens the notes of the relay at `address`, in [`runtime_directory`].
    ///
    /// # Errors
    ///
    /// The system's; also when the directory belongs to somebody else, or another relay keeps the file for
    /// [`NOTES_PATIENCE`].
    pub async fn open(address: std::net::SocketAddr) -> io::Result<Self> {
        let directory = runtime_directory()?;
        let name = format!("waits-{}-{}", address.ip(), address.port()).replace(':', "_");
        Self::open_at(directory.join(name), "which calls wait").await
    }

    /// Opens the notes on which agents have had a session, in the directory of a relay's socket, which it has for itself.
    ///
    /// # Errors
    ///
    /// The system's; also when another relay keeps the file for [`NOTES_PATIENCE`].
    pub async fn open_agents(directory: &Path) -> io::Result<Self> {
        Self::open_at(directory.join("agents"), "which agents have had a session").await
    }

    async fn open_at(path: PathBuf, of: &'static str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let file = options.open(&path).map_err(|error| naming(&path, &error))?;
        let locked = lock(&file).await;
        locked.map_err(|error| naming(&path, &error))?;
        let failed = false;
        Ok(Self {
            file,
            path,
            of,
            failed,
        })
    }

    fn tell(&mut self, result: io::Result<()>) {
        let Err(error) = result else { return };
        if !std::mem::replace(&mut self.failed, true) {
            tracing::warn!(path = %self.path.display(), %error, "cannot note {}", self.of);
        }
    }
}

impl Notes for FileNotes {
    fn read(&mut self) -> String {
        let mut bytes = Vec::new();
        let result = self
            .file
            .rewind()
            .and_then(|()| self.file.read_to_end(&mut bytes));
        self.tell(result.map(drop));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn append(&mut self, text: &str) {
        let result = self.file.write_all(text.as_bytes());
        self.tell(result);
    }

    fn rewrite(&mut self, text: &str) {
        // Appending goes to the end, which is the beginning now. A kill in between loses notes, not messages.
        let result = self
            .file
            .set_len(0)
            .and_then(|()| self.file.write_all(text.as_bytes()));
        self.tell(result);
    }
}

/// Waits for the end of another relay that has the file.
async fn lock(file: &File) -> io::Result<()> {
    let until = Instant::now() + NOTES_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < until => tokio::time::sleep(LOOK_EVERY).await,
            Err(TryLockError::WouldBlock) => {
                let reason = format!(
                    "another relay has it, for more than {} s",
                    NOTES_PATIENCE.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::WouldBlock, reason));
            }
        }
    }
}

/// Returns the directory of this user's for what no other run needs, which is made if need be: `relay` of `$XDG_RUNTIME_DIR`, or
/// `relay-<user id>` of the directory for temporary files.
///
/// # Errors
///
/// The system's; also when the directory belongs to somebody else.
pub fn runtime_directory() -> io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let directory = match given.filter(|path| path.is_absolute()) {
        Some(path) => path.join("relay"),
        None => std::env::temp_dir().join(format!("relay-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(naming(&directory, &error)),
        Ok(()) | Err(_) => {}
    }
    check_ours(&directory, user)?;
    Ok(directory)
}

/// Adds to an error what it is about.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Refuses a directory that another user could have made, or a link.
fn check_ours(directory: &Path, user: u32) -> io::Result<()> {
    let metadata = std::fs::symlink_metadata(directory).map_err(|error| naming(directory, &error))?;
    if metadata.is_dir() && metadata.uid() == user && metadata.mode() & 0o022 == 0 {
        return Ok(());
    }
    let reason = format!(
        "{} is not a directory that is this user's alone",
        directory.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notes_are_there_when_the_file_is_opened_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notes");
        let mut notes = FileNotes::open_at(path.clone(), "this").await.expect("a file");
        assert_eq!(notes.read(), "");
        notes.append("one\n");
        notes.append("two\n");
        drop(notes);
        let mut notes = FileNotes::open_at(path.clone(), "this").await.expect("a file");
        assert_eq!(notes.read(), "one\ntwo\n");
        notes.rewrite("three\n");
        notes.append("four\n");
        assert_eq!(notes.read(), "three\nfour\n");
        drop(notes);
        let mut notes = FileNotes::open_at(path.clone(), "this").await.expect("a file");
        assert_eq!(notes.read(), "three\nfour\n");
        let mode = std::fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test(start_paused = true)]
    async fn notes_that_another_relay_has_are_waited_for_and_not_for_ever() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notes");
        let notes = FileNotes::open_at(path.clone(), "this").await.expect("a file");
        let started = Instant::now();
        let Err(error) = FileNotes::open_at(path.clone(), "this").await else {
            panic!("another relay has them");
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(started.elapsed() >= NOTES_PATIENCE);
        let ending = async {
            tokio::time::sleep(NOTES_PATIENCE / 2).await;
            drop(notes);
        };
        let (opened, ()) = tokio::join!(FileNotes::open_at(path, "this"), ending);
        assert!(opened.is_ok());
    }

    #[tokio::test]
    async fn an_error_names_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("none").join("notes");
        let Err(error) = FileNotes::open_at(path.clone(), "this").await else {
            panic!("there is no such directory");
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(
            error.to_string().starts_with(&format!("{}: ", path.display())),
            "{error}"
        );
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let user = rustix::process::getuid().as_raw();
        assert!(check_ours(directory.path(), user).is_ok());
        assert!(check_ours(directory.path(), user + 1).is_err());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).expect("a link");
        assert!(check_ours(&link, user).is_err());
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open).expect("ours");
        assert!(check_ours(directory.path(), user).is_err());
    }
}

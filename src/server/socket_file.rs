//! A unix socket in a directory of this user's: who may listen there, and what is done with one that is left behind.
//!
//! It must not know what is served there.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;

/// The name of the lock beside a socket.
const LOCK: &str = "relay.lock";

/// Why there is no socket. Nothing of anybody else's was changed.
#[derive(Debug, thiserror::Error)]
pub enum SocketFileError {
    /// A system takes about a hundred bytes.
    #[error(
        "the path of the unix socket {} has {} bytes, more than the system takes; name a shorter directory with XDG_DATA_HOME",
        path.display(),
        path.as_os_str().len()
    )]
    TooLong {
        /// Where it would be.
        path: PathBuf,
    },
    /// Another process listens there, or is about to.
    #[error(
        "another relay has the unix socket {}; give this one a socket of its own with --project (or RELAY_PROJECT)",
        path.display()
    )]
    Taken {
        /// Where.
        path: PathBuf,
    },
    /// Somebody else could put another socket there.
    #[error("{} is not a directory of this user's; relay makes it anew once it is removed", directory.display())]
    NotOurs {
        /// Where the socket would be.
        directory: PathBuf,
    },
    /// Whatever it is, relay has not made it.
    #[error("{} is no socket; relay listens there once it is removed", path.display())]
    NoSocket {
        /// What is there.
        path: PathBuf,
    },
    /// The system does not allow it.
    #[error("{}: {error}", path.display())]
    System {
        /// What it is about.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

impl SocketFileError {
    /// Says what a reason of the system's is about.
    fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::System { path, error }
    }
}

/// A socket that this process listens on. As long as it lives, no other relay takes its place, and when it is dropped, the
/// file goes if it is still the one that was made.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    _lock: File,
}

impl SocketFile {
    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Listens at `path`. Its directory is made, for this user alone, and so is the socket. A socket that is there already is
    /// replaced if it refuses connections, which shows that its process is gone.
    ///
    /// # Errors
    ///
    /// [`SocketFileError`].
    pub fn listen(path: &Path) -> Result<(Self, UnixListener), SocketFileError> {
        let too_long = std::os::unix::net::SocketAddr::from_pathname(path).is_err();
        let Some(directory) = path.parent().filter(|_| !too_long) else {
            return Err(SocketFileError::TooLong {
                path: path.to_owned(),
            });
        };
        make_own(directory)?;
        let lock = lock(&directory.join(LOCK), path)?;
        remove_dead(path)?;
        let listener = UnixListener::bind(path).map_err(SocketFileError::of(path))?;
        let made = std::fs::symlink_metadata(path).map_err(SocketFileError::of(path))?;
        let file = Self {
            path: path.to_owned(),
            device: made.dev(),
            inode: made.ino(),
            _lock: lock,
        };
        // Until here nobody else gets to it through the directory.
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(SocketFileError::of(path))?;
        Ok((file, listener))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = std::fs::symlink_metadata(&self.path);
        // The listener still lives, so no other file has been given the number of its own.
        if !found.is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode)) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove the unix socket");
        }
    }
}

/// Tells whether a process listens on a socket; also where it has so much to do that it accepts nothing for the moment.
pub fn is_live(path: &Path) -> bool {
    matches!(knock(path), Ok(true))
}

/// Connects, and hangs up. Returns whether a process listens there, be it that it accepts nothing for the moment.
///
/// # Errors
///
/// The system's: it does not tell.
fn knock(path: &Path) -> io::Result<bool> {
    match connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        connected => connected.map(|()| true),
    }
}

/// Connects, without waiting, and hangs up.
fn connect(path: &Path) -> io::Result<()> {
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&address)
}

/// Makes a directory that only this user can look into.
fn make_own(directory: &Path) -> Result<(), SocketFileError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(SocketFileError::of(directory))?;
    let found = std::fs::symlink_metadata(directory).map_err(SocketFileError::of(directory))?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        let directory = directory.to_owned();
        return Err(SocketFileError::NotOurs { directory });
    }
    if found.mode() & 0o777 == 0o700 {
        return Ok(());
    }
    std::fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(SocketFileError::of(directory))
}

/// Takes the lock of those who listen at `socket`, so that of two that start only one looks at what is there.
fn lock(path: &Path, socket: &Path) -> Result<File, SocketFileError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(SocketFileError::of(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SocketFileError::Taken {
            path: socket.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(SocketFileError::of(path)(error)),
    }
}

/// Removes a socket that nobody listens on; there may be none.
fn remove_dead(path: &Path) -> Result<(), SocketFileError> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketFileError::of(path)(error)),
    };
    let path_there = path.to_owned();
    // A connection to a file that is no socket is refused like one to a dead socket.
    if !found.file_type().is_socket() {
        return Err(SocketFileError::NoSocket { path: path_there });
    }
    if knock(path).map_err(SocketFileError::of(path))? {
        return Err(SocketFileError::Taken { path: path_there });
    }
    std::fs::remove_file(path).map_err(SocketFileError::of(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of a test's own, and a socket's place two directories below it.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory
            .path()
            .join("projects")
            .join("default")
            .join("relay.sock");
        (directory, path)
    }

    /// Leaves a socket behind that nobody listens on.
    fn leave_dead(path: &Path) {
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
        drop(std::os::unix::net::UnixListener::bind(path).expect("nothing is there"));
        assert!(path.exists() && !is_live(path));
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).expect("it is there").mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_and_its_directory_are_this_users_alone() {
        let (_directory, path) = place();
        let parent = path.parent().expect("it has one");
        std::fs::create_dir_all(parent).expect("there is room");
        std::fs::set_permissions(parent, Permissions::from_mode(0o755)).expect("ours");
        let _listens = SocketFile::listen(&path).expect("nobody is there");
        assert_eq!((mode(parent), mode(&path)), (0o700, 0o600));
        assert!(is_live(&path));
    }

    #[tokio::test]
    async fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let (_directory, path) = place();
        leave_dead(&path);
        let first = SocketFile::listen(&path).expect("it is dead");
        let second = SocketFile::listen(&path);
        assert!(matches!(second, Err(SocketFileError::Taken { .. })), "{second:?}");
        // Not even where the lock is gone with which the first has it.
        std::fs::remove_file(path.with_file_name(LOCK)).expect("it is there");
        let second = SocketFile::listen(&path);
        assert!(matches!(second, Err(SocketFileError::Taken { .. })), "{second:?}");
        assert!(is_live(&path));
        drop(first);
        assert!(!path.exists());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_socket_whose_relay_accepts_nothing_for_the_moment_is_live() {
        let (_directory, path) = place();
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
        let busy = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        let address = SockAddr::unix(&path).expect("it is short");
        busy.bind(&address).expect("nothing is there");
        busy.listen(0).expect("it is bound");
        while connect(&path).is_ok() {}
        let full = connect(&path).expect_err("it accepts nothing");
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        assert!(is_live(&path));
        let second = SocketFile::listen(&path);
        assert!(matches!(second, Err(SocketFileError::Taken { .. })), "{second:?}");
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_socket_that_does_not_tell_whether_somebody_listens_stays_and_the_reason_is_told() {
        let (_directory, path) = place();
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
        let _other_kind = std::os::unix::net::UnixDatagram::bind(&path).expect("nothing is there");
        let refused = SocketFile::listen(&path);
        assert!(
            matches!(&refused, Err(SocketFileError::System { path: about, .. }) if *about == path),
            "{refused:?}"
        );
        assert!(path.exists());
    }

    #[test]
    fn a_directory_of_another_users_is_not_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("own");
        std::fs::create_dir(&path).expect("there is room");
        let other = rustix::process::geteuid().as_raw() + 1;
        // Who may not give a directory away has one of the system's.
        let given = std::os::unix::fs::chown(&path, Some(other), None);
        let others = given.map_or_else(|_| PathBuf::from("/"), |()| path);
        let refused = make_own(&others);
        assert!(
            matches!(refused, Err(SocketFileError::NotOurs { .. })),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn who_holds_the_lock_is_not_raced_for_a_dead_socket() {
        let (_directory, path) = place();
        leave_dead(&path);
        let starting = lock(&path.with_file_name(LOCK), &path).expect("nobody has it");
        let other = SocketFile::listen(&path);
        assert!(matches!(other, Err(SocketFileError::Taken { .. })), "{other:?}");
        assert!(path.exists());
        drop(starting);
        SocketFile::listen(&path).expect("nobody has it");
    }

    #[tokio::test]
    async fn a_socket_that_another_has_put_there_stays() {
        let (_directory, path) = place();
        let ours = SocketFile::listen(&path).expect("nobody is there");
        std::fs::remove_file(&path).expect("it is there");
        let _theirs = std::os::unix::net::UnixListener::bind(&path).expect("nothing is there");
        drop(ours);
        assert!(is_live(&path));
    }

    #[tokio::test]
    async fn what_is_no_socket_stays() {
        let (_directory, path) = place();
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
        std::fs::write(&path, "mine").expect("there is room");
        let refused = SocketFile::listen(&path);
        assert!(
            matches!(refused, Err(SocketFileError::NoSocket { .. })),
            "{refused:?}"
        );
        assert_eq!(std::fs::read(&path).expect("it is there"), b"mine");
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_is_named_and_nothing_is_made() {
        let directory = tempfile::tempdir().expect("a directory");
        let long = directory.path().join("d".repeat(100));
        let refused = SocketFile::listen(&long.join("relay.sock")).expect_err("it is too long");
        let said = refused.to_string();
        let bytes = long.as_os_str().len() + "/relay.sock".len();
        assert!(said.contains(&format!("relay.sock has {bytes} bytes")), "{said}");
        assert!(!long.exists());
    }

    #[tokio::test]
    async fn a_link_to_a_directory_is_not_taken_for_one() {
        let (directory, path) = place();
        let parent = path.parent().expect("it has one");
        std::fs::create_dir_all(parent.parent().expect("it has one")).expect("there is room");
        std::os::unix::fs::symlink(directory.path(), parent).expect("a link");
        let refused = SocketFile::listen(&path);
        assert!(
            matches!(refused, Err(SocketFileError::NotOurs { .. })),
            "{refused:?}"
        );
    }
}

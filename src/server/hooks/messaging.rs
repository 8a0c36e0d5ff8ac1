//! How the messaging sockets of programs on this machine are reached: an argument, so that the simulation has its own.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::pin::Pin;

use crate::process::{self, Process};
use crate::server::pushes::{Socket, System};

type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// The programs of this machine.
pub trait Messaging: Send + Sync + 'static {
    /// Tells whether the process of a program runs, by the name that its hooks give it; so it does where the name does not tell.
    fn runs(&self, process: &str) -> bool;

    /// Tells whether the number of a process means the same to a hook as here: it names the namespace that it has the number from.
    fn shares(&self, namespace: &str) -> bool;

    /// Connects to the messaging socket of a program.
    ///
    /// # Errors
    ///
    /// The system's; or it is none of this user's own, in a directory that nobody else can change.
    fn connect<'a>(&'a self, path: &'a Path) -> Later<'a, Box<dyn Socket>>;
}

impl Messaging for System {
    fn runs(&self, process: &str) -> bool {
        Process::named(process).is_none_or(|process| process.is_alive())
    }

    fn shares(&self, namespace: &str) -> bool {
        process::namespace().as_deref() == Some(namespace)
    }

    fn connect<'a>(&'a self, path: &'a Path) -> Later<'a, Box<dyn Socket>> {
        Box::pin(async move {
            check(path)?;
            let socket = tokio::net::UnixStream::connect(path).await?;
            Ok(Box::new(socket) as Box<dyn Socket>)
        })
    }
}

/// The directory in which Claude Code has its messaging sockets, wherever that is.
const DIRECTORY: &str = "cc-socks";

/// Checks that a path, which anybody may have named, is that of a messaging socket of a program of this user's.
fn check(path: &Path) -> io::Result<()> {
    let no = |why: &str| {
        let reason = format!("{} is no messaging socket: {why}", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
    };
    let user = rustix::process::getuid().as_raw();
    let Some(directory) = path.parent().filter(|directory| directory.ends_with(DIRECTORY)) else {
        return no("its directory is not named cc-socks");
    };
    let around = std::fs::symlink_metadata(directory)?;
    if !around.is_dir() || around.uid() != user || around.mode() & 0o022 != 0 {
        return no("its directory is not this user's alone");
    }
    let socket = std::fs::symlink_metadata(path)?;
    if !socket.file_type().is_socket() || socket.uid() != user {
        return no("it is no socket of this user's");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_number_of_a_process_means_the_same_in_its_own_namespace_alone() {
        let own = process::namespace();
        assert_eq!(own.is_some(), cfg!(target_os = "linux"), "the system tells");
        assert!(own.as_deref().is_none_or(|own| System.shares(own)));
        // Those of containers on one machine have the start of the system in common.
        let boot = own
            .as_deref()
            .and_then(|own| own.split_once('.'))
            .map(|(boot, _)| boot);
        for other in ["", "elsewhere", boot.unwrap_or_default()] {
            assert!(!System.shares(other), "{other}");
        }
        let link = std::fs::read_link("/proc/self/ns/pid").ok();
        let named = link.map(|link| link.to_string_lossy().replace("pid:[", ".").replace(']', ""));
        assert!(named.is_none_or(|named| own.is_some_and(|own| own.ends_with(&named))));
    }

    #[test]
    fn a_messaging_socket_is_one_of_this_user_s_own_in_a_directory_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("cc-socks");
        std::fs::create_dir(&directory).expect("it is made");
        let allow = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&directory, permissions).expect("it is this user's");
        };
        allow(0o700);
        let path = directory.join("1.sock");
        let _listener = UnixListener::bind(&path).expect("it is bound");
        check(&path).expect("it is one");

        let elsewhere = folder.path().join("1.sock");
        let _other = UnixListener::bind(&elsewhere).expect("it is bound");
        assert!(check(&elsewhere).is_err(), "its directory has another name");
        let file = directory.join("file");
        std::fs::write(&file, "").expect("it is written");
        assert!(check(&file).is_err(), "it is no socket");
        let link = directory.join("link");
        symlink(&elsewhere, &link).expect("it is made");
        assert!(check(&link).is_err(), "it leads elsewhere");
        assert!(check(&directory.join("none")).is_err(), "it is not there");
        let around = folder.path().join("around");
        std::fs::create_dir(&around).expect("it is made");
        let linked = around.join("cc-socks");
        symlink(&directory, &linked).expect("it is made");
        assert!(
            check(&linked.join("1.sock")).is_err(),
            "its directory leads elsewhere"
        );
        for others in [0o720, 0o702, 0o777] {
            allow(others);
            assert!(check(&path).is_err(), "others could change it: {others:o}");
        }
    }
}

//! Connections to the unix socket of this user's relay.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::Instant;

use super::client::CONNECT_PATIENCE;

/// How soon a connection is tried again to a socket that takes no more for the moment.
const CONNECT_AGAIN: Duration = Duration::from_millis(10);

/// Connects to a unix socket. One whose relay has accepted nothing for a moment takes no more connections; it is tried again
/// until [`CONNECT_PATIENCE`] is over.
///
/// # Errors
///
/// The system's, or that another user's process listens there, who could read what is said.
pub async fn connect_to_socket(socket: &Path) -> io::Result<UnixStream> {
    let until = Instant::now() + CONNECT_PATIENCE;
    let stream = loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= until {
                    let reason = format!("it has accepted nothing for {} s", CONNECT_PATIENCE.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
                }
                tokio::time::sleep(CONNECT_AGAIN).await;
            }
            connected => break connected?,
        }
    };
    let listener = stream.peer_cred()?.uid();
    let own = rustix::process::geteuid().as_raw();
    if listener == own {
        return Ok(stream);
    }
    let reason =
        format!("user {listener} listens there, not user {own}; relay asks its own user's relay only");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Tells whether a connection to a unix socket failed because nobody listens there.
pub fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::NotADirectory
    )
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_takes_no_more_for_the_moment_is_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("relay.sock");
        let busy =
            socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
        busy.bind(&socket2::SockAddr::unix(&path).expect("it is short"))
            .expect("nothing is there");
        busy.listen(0).expect("it is bound");
        let began = Instant::now();
        let mut waiting = Vec::new();
        let error = loop {
            match connect_to_socket(&path).await {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error.to_string(), "it has accepted nothing for 5 s");
        assert!(!is_nobody(&error), "nobody is to start a relay beside it");
        assert_eq!(began.elapsed(), CONNECT_PATIENCE);
        let accepting = async {
            tokio::time::sleep(CONNECT_PATIENCE / 2).await;
            busy.accept().expect("one waits")
        };
        let (_accepted, connected) = tokio::join!(accepting, connect_to_socket(&path));
        connected.expect("there is room");
    }

    #[tokio::test]
    async fn nobody_listens_where_no_socket_is_whatever_is_there_in_its_stead() {
        let directory = tempfile::tempdir().expect("a directory");
        let [none, left, file] = ["none", "left", "file"].map(|name| directory.path().join(name));
        std::fs::write(&file, "").expect("there is room");
        drop(std::os::unix::net::UnixListener::bind(&left).expect("nothing is there"));
        for path in [&none, &left, &file, &file.join("relay.sock")] {
            let error = connect_to_socket(path).await.expect_err("nobody listens");
            assert!(is_nobody(&error), "{}: {error}", path.display());
        }
    }
}

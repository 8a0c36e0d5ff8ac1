//! Connections to the relay that is found: at the place that was named, or by looking for it. With it is found which project the agent
//! belongs to.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::connection::{Connect, Connection, Sought};
use super::held::Held;
use super::system::Tcp;
use crate::cli::discover::{DiscoverError, Found, Source, Way, discover_here, project_of_agent_here};
use crate::cli::place::Place;
use crate::cli::project::Project;
use crate::cli::socket::{connect_to_socket, is_nobody};

/// Why no relay can be asked, and what is to be done, in words for an agent.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoneFound {
    /// Nobody listens on the socket that was found.
    #[error("{reason}")]
    NotRunning {
        /// The same in words, with what is to be done.
        reason: String,
        /// What starts a relay there, and what else there is to do.
        start: String,
    },
    /// It is not known which relay is meant, or there is no way to it.
    #[error("{0}")]
    NoWay(String),
}

/// Finds the relay. It is looked for anew whenever nobody listens any more where it was found before, so that one that was
/// started later, or elsewhere, is found too. But one that was found as the only live one is waited for: another that
/// runs alone now may be another project's.
pub struct Finder {
    asked: Asked,
    /// Where a relay is that is reached over a port.
    address: SocketAddr,
    /// The command that is this program.
    program: String,
    last: Mutex<Option<Last>>,
}

/// What the agent was started with.
pub struct Asked {
    /// Where its relay is, so that no other is looked for.
    pub place: Option<Place>,
    /// Its project.
    pub project: Option<Project>,
}

/// What was found last.
#[derive(Clone)]
struct Last {
    found: Found,
    /// The project that the agent belongs to.
    project: Option<Project>,
}

impl Finder {
    /// Looks for nothing yet.
    pub fn new(asked: Asked, address: SocketAddr, program: String) -> Self {
        let last = Mutex::default();
        Self {
            asked,
            address,
            program,
            last,
        }
    }

    /// Finds out which relay is meant now, where another was found before, and in which project.
    fn look(&self, last: Option<Last>) -> Result<Last, DiscoverError> {
        let asked = self.asked.project.as_ref();
        let found = match (discover_here(self.asked.place.clone(), asked), last) {
            // Where nothing names a relay, one that happens to be alone is not another's substitute.
            (
                Ok(Found {
                    source: Source::Scan | Source::Port,
                    ..
                })
                | Err(DiscoverError::Several { .. }),
                Some(last),
            ) if last.found.source == Source::Scan => last.found,
            (found, _) => found?,
        };
        let project = project_of_agent_here(asked, &found)?;
        Ok(Last { found, project })
    }

    /// Connects to the relay that was found last, or else to the one that `look` finds then. One that is there and was not reached is not
    /// tried a second time.
    async fn connect_by(
        &self,
        look: impl FnOnce(Option<Last>) -> Result<Last, DiscoverError>,
    ) -> io::Result<Stream> {
        let last = self.last().clone();
        let way = last.as_ref().map(|last| last.found.way.clone());
        let failed = match &way {
            None => None,
            Some(way) => match self.open(way).await {
                Ok(stream) => return Ok(stream),
                Err(error) => Some(error).filter(|error| !is_nobody(error)),
            },
        };
        let looked = look(last);
        let looked = looked.map_err(|error| io::Error::other(NoneFound::NoWay(error.to_string())))?;
        let opened = match failed.filter(|_| way.as_ref() == Some(&looked.found.way)) {
            Some(error) => Err(error),
            None => self.open(&looked.found.way).await,
        };
        let stream = opened.map_err(|error| self.explained(&looked.found, error))?;
        *self.last() = Some(looked);
        Ok(stream)
    }

    async fn open(&self, way: &Way) -> io::Result<Stream> {
        match way {
            Way::Tcp(_) => Tcp(self.address).connect().await.map(Stream::Tcp),
            Way::Unix(socket) => {
                let stream = connect_to_socket(socket).await?;
                Ok(Stream::Unix(Held::new(stream)))
            }
        }
    }

    /// Explains why a relay that was found over a socket is not reached; an error over a port says that by itself.
    fn explained(&self, found: &Found, error: io::Error) -> io::Error {
        let Found { way, source, .. } = found;
        let how = match source {
            Source::Scan => "found as the only live one".to_owned(),
            Source::Socket | Source::Option | Source::Project | Source::Config(_) | Source::Port => {
                format!("named by {source}")
            }
        };
        if matches!(way, Way::Tcp(_)) {
            return error;
        }
        io::Error::other(if is_nobody(&error) {
            let advice = found.advice(&self.program);
            let start = found.start(&self.program).unwrap_or_else(|| {
                let again = format!("{} serve, as that relay was started before", self.program);
                format!("{again}: it is to listen on {way}, {how}; or {}", Found::OTHER)
            });
            NoneFound::NotRunning {
                reason: format!("Relay is not running on {way}, {how}; {advice}"),
                start,
            }
        } else {
            NoneFound::NoWay(format!("relay cannot be reached at {way}, {how}: {error}"))
        })
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connect for Finder {
    type Connection = Stream;

    async fn connect(&self) -> io::Result<Stream> {
        self.connect_by(|last| self.look(last)).await
    }

    fn project(&self) -> Option<Project> {
        self.last().as_ref()?.project.clone()
    }

    fn sought(&self) -> Option<Sought> {
        let last = self.last().clone();
        Some(match self.look(last) {
            Ok(Last { found, project }) => Sought {
                place: Some(found.way.to_string()),
                project: project.or(found.project),
            },
            Err(_) => Sought {
                place: None,
                project: self.asked.project.clone(),
            },
        })
    }
}

/// A connection over either way.
pub enum Stream {
    /// Over a port.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(Held),
}

impl Connection for Stream {
    fn break_off_when_dropped(&self, yes: bool) {
        match self {
            Self::Tcp(stream) => stream.break_off_when_dropped(yes),
            Self::Unix(stream) => stream.break_off_when_dropped(yes),
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_open(),
            Self::Unix(stream) => stream.is_open(),
        }
    }

    async fn ended(&self) {
        match self {
            Self::Tcp(stream) => stream.ended().await,
            Self::Unix(stream) => stream.ended().await,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::{Path, PathBuf};

    use tokio::net::{UnixListener, UnixStream};
    use tokio::time::Instant;

    use super::*;
    use crate::cli::client::CONNECT_PATIENCE;

    fn at(socket: &Path) -> Last {
        let found = Found {
            way: Way::Unix(socket.to_owned()),
            source: Source::Socket,
            project: None,
            of_file: None,
        };
        Last { found, project: None }
    }

    /// A finder that has found a relay on a socket.
    fn finder(socket: &Path) -> Finder {
        let asked = Asked {
            place: None,
            project: None,
        };
        let address = "127.0.0.1:7331".parse().expect("an address");
        let finder = Finder::new(asked, address, "relay".to_owned());
        *finder.last() = Some(at(socket));
        finder
    }

    /// Makes a socket that takes no more connections.
    async fn full(socket: &Path) -> (socket2::Socket, Vec<UnixStream>) {
        let busy =
            socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
        busy.bind(&socket2::SockAddr::unix(socket).expect("it is short"))
            .expect("nothing is there");
        busy.listen(0).expect("it is bound");
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(socket).await {
            waiting.push(stream);
        }
        (busy, waiting)
    }

    fn sockets() -> (tempfile::TempDir, [PathBuf; 2]) {
        let directory = tempfile::tempdir().expect("a directory");
        let sockets = ["relay.sock", "other.sock"].map(|name| directory.path().join(name));
        (directory, sockets)
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_accepts_nothing_is_waited_for_once() {
        let (_directory, [socket, other]) = sockets();
        let _busy = full(&socket).await;
        let finder = finder(&socket);
        let began = Instant::now();
        let failed = finder.connect_by(|_| Ok(at(&socket))).await;
        let said = failed.err().expect("nobody accepts").to_string();
        let begin = format!("relay cannot be reached at {}, named by", socket.display());
        assert!(
            said.starts_with(&begin) && said.ends_with(": it has accepted nothing for 5 s"),
            "{said}"
        );
        assert_eq!(began.elapsed(), CONNECT_PATIENCE);
        let _listener = UnixListener::bind(&other).expect("nothing is there");
        let connected = finder.connect_by(|_| Ok(at(&other))).await;
        connected
            .map(drop)
            .expect("another that is named is asked in its stead");
    }

    #[tokio::test]
    async fn a_relay_that_is_started_where_nobody_listened_is_found_there_again() {
        let (_directory, [socket, _]) = sockets();
        let mut started = None;
        let finder = finder(&socket);
        let connected = finder.connect_by(|_| {
            started = Some(UnixListener::bind(&socket).expect("nothing is there"));
            Ok(at(&socket))
        });
        connected.await.map(drop).expect("it is asked again");
        drop(started);
    }

    #[tokio::test]
    async fn a_relay_that_was_never_reached_is_no_reason_to_look_for_no_other() {
        let (_directory, [socket, other]) = sockets();
        let finder = finder(&socket);
        *finder.last() = None;
        let failed = finder.connect_by(|_| Ok(at(&socket))).await;
        failed.err().expect("nobody listens");
        let _both = [&socket, &other].map(|path| UnixListener::bind(path).expect("nothing is there"));
        let connected = finder.connect_by(|_| Ok(at(&other))).await;
        connected.map(drop).expect("it listens");
        let found = finder.last().clone().expect("one was reached");
        assert_eq!(found.found.way, Way::Unix(other));
    }
}

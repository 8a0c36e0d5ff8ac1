//! What the bridge has of the system: TCP, and a stdout that knows whether it has a reader.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

use super::connection::{Connect, Connection};
use crate::server::ACKNOWLEDGE_PATIENCE;

/// How long a relay on another machine may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long a silent connection stands before the system asks whether the relay's machine is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Connects over TCP.
pub struct Tcp(pub SocketAddr);

impl Connect for Tcp {
    type Connection = TcpStream;

    async fn connect(&self) -> io::Result<TcpStream> {
        let connecting = tokio::time::timeout(CONNECT_PATIENCE, TcpStream::connect(self.0));
        let stream = connecting.await.map_err(|_| {
            let reason = format!("no answer within {} s", CONNECT_PATIENCE.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, reason)
        })??;
        stream.break_off_when_dropped(true);
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE))?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(ACKNOWLEDGE_PATIENCE))?;
        Ok(stream)
    }
}

impl Connection for TcpStream {
    fn break_off_when_dropped(&self, yes: bool) {
        let linger = yes.then_some(Duration::ZERO);
        if let Err(error) = SockRef::from(self).set_linger(linger) {
            tracing::debug!(%error, "cannot set SO_LINGER");
        }
    }

    fn is_open(&self) -> bool {
        // The socket itself is asked: what tokio knows of it may be older.
        let peeked = SockRef::from(self).peek(&mut [MaybeUninit::uninit()]);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// The process's stdout. Its flush fails once nobody can read what was written.
pub struct Stdout(tokio::io::Stdout);

impl Stdout {
    /// Takes the process's stdout.
    pub fn new() -> Self {
        Self(tokio::io::stdout())
    }
}

/// Tells whether the reading end of stdout, a pipe or a socket, is closed.
fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

impl AsyncWrite for Stdout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_flush(cx))?;
        if reader_is_gone() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

//! What the bridge has of the system: TCP, and a stdout that knows whether it has a reader.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;

use super::connection::{Connect, Connection};
use crate::server::ACKNOWLEDGE_PATIENCE;

/// How long a relay on another machine may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long a silent connection stands before the system asks whether the relay's machine is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Most bytes that are written at once: so many a pipe takes without waiting if it says that it has room.
/// <https://man7.org/linux/man-pages/man7/pipe.7.html>
const AT_ONCE_MAX: usize = if cfg!(target_os = "linux") { 4_096 } else { 512 };

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

    async fn ended(&self) {
        let looked = || match self.is_open() {
            true => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            false => Ok(()),
        };
        while self.readable().await.is_ok() && self.try_io(Interest::READABLE, looked).is_err() {}
    }
}

/// The process's stdout. Its flush fails once nobody can read what was written.
///
/// What a pipe or a socket has room for is written at once: tokio has another thread write it, which has to be woken first. So
/// does whatever may have to wait.
pub struct Stdout {
    by_thread: tokio::io::Stdout,
    /// The thread may still have something to write.
    is_behind: bool,
    /// It is a pipe or a socket, which says whether it has room.
    tells_room: bool,
}

impl Stdout {
    /// Takes the process's stdout.
    pub fn new() -> Self {
        let kind = fstat(rustix::stdio::stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        Self {
            by_thread: tokio::io::stdout(),
            is_behind: false,
            tells_room: matches!(kind, Ok(FileType::Fifo | FileType::Socket)),
        }
    }

    fn takes_at_once(&self, bytes: usize) -> bool {
        let may = self.tells_room && !self.is_behind && bytes <= AT_ONCE_MAX;
        may && polled(PollFlags::OUT) == PollFlags::OUT
    }
}

/// Asks what stdout, a pipe or a socket, is ready for; beside that it tells of errors, and that its reading end is closed.
fn polled(asked: PollFlags) -> PollFlags {
    let stdout = rustix::stdio::stdout();
    let mut fds = [PollFd::new(&stdout, asked)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(_) => fds[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.takes_at_once(buf.len()) {
            match rustix::io::write(rustix::stdio::stdout(), buf) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                written => return Poll::Ready(Ok(written?)),
            }
        }
        self.is_behind = true;
        Pin::new(&mut self.by_thread).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_behind {
            ready!(Pin::new(&mut self.by_thread).poll_flush(cx))?;
            self.is_behind = false;
        }
        if polled(PollFlags::empty()).intersects(PollFlags::ERR | PollFlags::HUP) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.by_thread).poll_shutdown(cx)
    }
}

//! The doors of a relay on one machine: a TCP port, at one address or at both loopback addresses, and, where the system has one, a unix
//! socket beside it.
//!
//! Behind both is the same server. What a unix socket's peer has read is known to this machine's kernel, and who it is too.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{Instant, Sleep};

use super::connections::Listener;
use super::limits::{ACKNOWLEDGE_PATIENCE, LOOK_AT_SLOW};
use super::peer::unread_by_peer;
use super::socket_file::SocketFile;
use super::wire::SocketState;

/// Where a relay listens.
pub struct Doors {
    /// Dropped before the port is free, so that the next relay on the port finds the socket's place free too.
    local: Option<LocalDoor>,
    tcp: Ports,
}

/// A port at each address that it is listened on.
struct Ports {
    listeners: Vec<TcpListener>,
    /// Which of them is asked first: none waits for what comes in at another.
    first: usize,
}

impl Ports {
    /// Waits for a connection at any of them.
    async fn accept(&mut self) -> io::Result<TcpStream> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let Self { listeners, first } = self;
        let (before, behind) = listeners.split_at(*first);
        for listener in behind.iter().chain(before) {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                *first = (*first + 1) % listeners.len();
                return Poll::Ready(accepted.map(|(stream, _)| stream));
            }
        }
        Poll::Pending
    }
}

/// A unix socket for one user's processes.
struct LocalDoor {
    /// Dropped before the listener.
    _file: SocketFile,
    listener: UnixListener,
    /// The user's id.
    user: u32,
}

impl Doors {
    /// Listens on a port at each of some addresses, and on a unix socket if there is one.
    pub fn new(listeners: Vec<TcpListener>, local: Option<(SocketFile, UnixListener)>) -> Self {
        let tcp = Ports { listeners, first: 0 };
        let local = local.map(|(file, listener)| LocalDoor {
            _file: file,
            listener,
            user: rustix::process::geteuid().as_raw(),
        });
        Self { local, tcp }
    }
}

impl LocalDoor {
    /// Waits for a connection; none if it is another user's, which is closed then.
    async fn accept(&self) -> io::Result<Option<Local>> {
        let (stream, _) = self.listener.accept().await?;
        // One whose user the system does not tell is nobody's.
        let peer = stream.peer_cred().map(|peer| peer.uid());
        if matches!(peer, Ok(user) if user == self.user) {
            return Ok(Some(Local::new(stream)));
        }
        tracing::debug!(?peer, "another user's connection was closed");
        Ok(None)
    }
}

impl Listener for Doors {
    type Io = DoorIo;

    async fn accept(&mut self) -> io::Result<DoorIo> {
        let Self { local, tcp } = self;
        let Some(local) = local else {
            return Ok(DoorIo::Tcp(tcp.accept().await?));
        };
        loop {
            tokio::select! {
                accepted = tcp.accept() => return Ok(DoorIo::Tcp(accepted?)),
                accepted = local.accept() => {
                    if let Some(stream) = accepted? {
                        return Ok(DoorIo::Local(stream));
                    }
                }
            }
        }
    }
}

/// A connection that came in through one of the doors.
pub enum DoorIo {
    /// Over the port.
    Tcp(TcpStream),
    /// Over the unix socket, from a process of the relay's own user.
    Local(Local),
}

/// A connection over the unix socket. A peer that takes nothing for [`ACKNOWLEDGE_PATIENCE`] has broken it: what
/// `TCP_USER_TIMEOUT` is to a port.
pub struct Local {
    stream: UnixStream,
    /// There is no room for what is to be written.
    stuck: Option<Stuck>,
}

/// A write that waits for room. There is some once a good part of what was written before is taken: a slow peer may be
/// longer at that, and is looked at meanwhile.
struct Stuck {
    /// When the peer is looked at again.
    timer: Pin<Box<Sleep>>,
    /// When the peer was last seen to have taken something, at first when the write began to wait. The kernel frees what was taken by
    /// the piece, as it was written: a piece of tens of kilobytes that is not taken whole is not taken.
    taken_at: Instant,
    /// What it had not taken when it was last looked at, at first when the write began to wait, if the system tells.
    unread: Option<u32>,
}

impl Local {
    fn new(stream: UnixStream) -> Self {
        Self { stream, stuck: None }
    }

    /// Bounds how long a write is waited for.
    fn in_time(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Stuck {
            timer: Box::pin(tokio::time::sleep(LOOK_AT_SLOW)),
            taken_at: Instant::now(),
            unread: unread_by_peer(&self.stream),
        });
        while stuck.timer.as_mut().poll(cx).is_ready() {
            let before = std::mem::replace(&mut stuck.unread, unread_by_peer(&self.stream));
            if stuck.unread.zip(before).is_some_and(|(now, before)| now < before) {
                stuck.taken_at = Instant::now();
            }
            if stuck.taken_at.elapsed() >= ACKNOWLEDGE_PATIENCE {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            stuck.timer.as_mut().reset(Instant::now() + LOOK_AT_SLOW);
        }
        Poll::Pending
    }
}

impl SocketState for Local {
    /// Linux answers bytes that a closed peer left unread with a reset. Other systems do not tell, so that an end there shows
    /// nothing.
    fn left_bytes_unread(&self) -> bool {
        cfg!(not(target_os = "linux"))
            || !matches!(socket2::SockRef::from(&self.stream).take_error(), Ok(None))
    }

    /// A peer that has sent its last byte and has read all that was sent to it is as good as closed.
    fn peer_has_closed(&self) -> bool {
        super::peer::has_read_all(&self.stream)
    }

    fn arrived_bytes(&self) -> u64 {
        // As over TCP: where the system cannot tell, nothing is confirmed by what comes.
        rustix::io::ioctl_fionread(&self.stream).unwrap_or(u64::MAX)
    }

    fn prepare(&self) {}

    fn is_own_user(&self) -> bool {
        true
    }
}

impl SocketState for DoorIo {
    fn left_bytes_unread(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.left_bytes_unread(),
            Self::Local(stream) => stream.left_bytes_unread(),
        }
    }

    fn peer_has_closed(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.peer_has_closed(),
            Self::Local(stream) => stream.peer_has_closed(),
        }
    }

    fn arrived_bytes(&self) -> u64 {
        match self {
            Self::Tcp(stream) => stream.arrived_bytes(),
            Self::Local(stream) => stream.arrived_bytes(),
        }
    }

    fn prepare(&self) {
        match self {
            Self::Tcp(stream) => stream.prepare(),
            Self::Local(stream) => stream.prepare(),
        }
    }

    fn is_own_user(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_own_user(),
            Self::Local(stream) => stream.is_own_user(),
        }
    }
}

impl AsyncRead for DoorIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Local(local) => Pin::new(&mut local.stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for DoorIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Local(local) => {
                let written = Pin::new(&mut local.stream).poll_write(cx, buf);
                local.in_time(cx, written)
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Local(local) => {
                let written = Pin::new(&mut local.stream).poll_write_vectored(cx, bufs);
                local.in_time(cx, written)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Local(local) => local.stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Local(local) => Pin::new(&mut local.stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Local(local) => Pin::new(&mut local.stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests;

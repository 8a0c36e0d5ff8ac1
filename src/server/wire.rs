//! Connections, watched: which replies have been passed to the socket, and how a connection ended.
//!
//! Knows bytes and receipts; knows nothing of HTTP or MCP. hyper flushes a connection only when its write
//! buffer is empty, so a flush that succeeds means that all replies written before have left this process.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::owner::{Owner, Receipt};
use crate::engine::{AgentName, Carrier, Ending, Refusal, SessionId};

/// Most connections at a time: one more is closed at once. Every stream has one, and its calls come over a second.
const CONNECTIONS_MAX: usize = 10_000;

/// How long bytes may stay unacknowledged before a connection counts as broken: less than the engine's doubt, so
/// that a reply which a dead network has swallowed is taken back, not counted as read.
pub const ACKNOWLEDGE_PATIENCE: Duration = Duration::from_secs(10);

/// How long relay waits, after it has closed its own end behind a reply that matters, for the peer to close its own.
const LINGER: Duration = Duration::from_secs(1);

/// How many slices hyper writes at once, at the most: <https://docs.rs/hyper/1/src/hyper/proto/h1/io.rs.html>.
const SLICES_MAX: usize = 64;

/// What a socket knows of its peer's end.
pub trait Evidence {
    /// Tells, once the peer has closed the connection, whether it left bytes unread that were sent to it.
    ///
    /// A kernel answers such bytes with a reset. On loopback the reset is there before the close is seen.
    fn left_bytes_unread(&self) -> bool;

    /// Asks the socket to send small writes at once, and to give up a peer that acknowledges nothing for a while.
    fn prepare(&self);
}

impl Evidence for tokio::net::TcpStream {
    fn left_bytes_unread(&self) -> bool {
        !matches!(socket2::SockRef::from(self).take_error(), Ok(None))
    }

    fn prepare(&self) {
        if let Err(error) = self.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        #[cfg(target_os = "linux")]
        if let Err(error) = socket2::SockRef::from(self).set_tcp_user_timeout(Some(ACKNOWLEDGE_PATIENCE)) {
            tracing::debug!(%error, "cannot set TCP_USER_TIMEOUT");
        }
    }
}

/// A listener whose connections are watched.
pub(super) struct WireListener<L> {
    inner: L,
    owner: Arc<Owner>,
    open: Arc<AtomicUsize>,
}

impl<L> WireListener<L> {
    pub fn new(inner: L, owner: Arc<Owner>) -> Self {
        Self {
            inner,
            owner,
            open: Arc::default(),
        }
    }
}

impl<L> Listener for WireListener<L>
where
    L: Listener,
    L::Io: Evidence,
{
    type Io = Wire<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (io, addr) = self.inner.accept().await;
            if self.open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                tracing::warn!(CONNECTIONS_MAX, "too many connections: closed a new one");
                continue;
            }
            self.open.fetch_add(1, Ordering::Relaxed);
            io.prepare();
            let link = Link(Arc::new(Connection {
                owner: Arc::clone(&self.owner),
                has_receipts: AtomicBool::new(false),
                in_doubt: AtomicBool::new(false),
                state: Mutex::default(),
            }));
            let open = Arc::clone(&self.open);
            let wire = Wire {
                io,
                link,
                open,
                linger: None,
            };
            return (wire, addr);
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

/// A handle on the connection that a request came over.
#[derive(Clone)]
pub struct Link(Arc<Connection>);

struct Connection {
    owner: Arc<Owner>,
    /// Spares the lock on every write that has nothing to report.
    has_receipts: AtomicBool,
    /// The latest exchange carried something whose arrival matters.
    in_doubt: AtomicBool,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    /// Of replies whose last byte is in hyper's write buffer.
    receipts: Vec<Receipt>,
    /// The sessions of the calls that this connection carried, by the agent that was asked for.
    sessions: Vec<(Option<String>, SessionId, Option<AgentName>)>,
    ending: Option<Ending>,
}

impl<L> Connected<IncomingStream<'_, WireListener<L>>> for Link
where
    L: Listener,
    L::Io: Evidence,
{
    fn connect_info(stream: IncomingStream<'_, WireListener<L>>) -> Self {
        stream.io().link.clone()
    }
}

impl Link {
    /// Takes the receipt of a reply whose last byte hyper has just taken.
    pub(super) fn sent(&self, receipt: Receipt) {
        self.state().receipts.push(receipt);
        self.0.has_receipts.store(true, Ordering::Release);
    }

    /// Returns the session of this connection's calls for an agent, or for none in particular; opens it if need be.
    ///
    /// # Errors
    ///
    /// The engine's refusal of a new session.
    pub(super) fn session(&self, agent: Option<String>) -> Result<(SessionId, Option<AgentName>), Refusal> {
        self.0.in_doubt.store(false, Ordering::Relaxed);
        let mut state = self.state();
        if let Some((_, session, bound)) = state.sessions.iter().find(|(asked, _, _)| *asked == agent) {
            return Ok((*session, bound.clone()));
        }
        let (session, bound) = self.0.owner.open(Carrier::Exchange, agent.clone())?;
        state.sessions.push((agent, session, bound.clone()));
        Ok((session, bound))
    }

    /// Waits until a reply whose bytes may have left already is reported, so that a next call finds it so.
    pub(super) fn settle(&self) {
        if self.0.has_receipts.load(Ordering::Acquire) {
            drop(self.state());
        }
    }

    /// Writes, and reports the replies in hyper's buffer if all of it was written; nobody who has read one of them
    /// gets past [`Self::settle`] before that.
    fn write(
        &self,
        bytes: usize,
        write: impl FnOnce() -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let reporting = self.0.has_receipts.load(Ordering::Acquire).then(|| self.state());
        let polled = write();
        match &polled {
            Poll::Ready(Ok(written)) if *written == bytes => {
                if let Some(mut state) = reporting {
                    self.report(&mut state);
                }
            }
            Poll::Ready(Ok(_)) | Poll::Pending => {}
            Poll::Ready(Err(_)) => {
                drop(reporting);
                self.ends(Ending::Broken);
            }
        }
        polled
    }

    fn flushed(&self) {
        if self.0.has_receipts.load(Ordering::Acquire) {
            self.report(&mut self.state());
        }
    }

    fn report(&self, state: &mut ConnectionState) {
        if !state.receipts.is_empty() {
            self.0.in_doubt.store(true, Ordering::Relaxed);
        }
        state.receipts.drain(..).for_each(Receipt::flushed);
        // Only now: who finds it cleared in [`Self::settle`] must find the replies reported.
        self.0.has_receipts.store(false, Ordering::Release);
    }

    /// Remembers the first sign of the end.
    fn ends(&self, ending: Ending) {
        self.state().ending.get_or_insert(ending);
    }

    fn closed(&self) {
        let ConnectionState {
            receipts,
            sessions,
            ending,
        } = std::mem::take(&mut *self.state());
        drop(receipts);
        let ending = ending.unwrap_or(Ending::Broken);
        for (_, session, _) in sessions {
            self.0.owner.close(session, ending);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ConnectionState> {
        self.0
            .state
            .lock()
            .expect("nothing panics while it holds a connection's state")
    }
}

/// A connection's bytes, watched.
pub(super) struct Wire<S> {
    io: S,
    link: Link,
    open: Arc<AtomicUsize>,
    /// How long the peer's end is still waited for.
    linger: Option<Pin<Box<Sleep>>>,
}

impl<S> Drop for Wire<S> {
    fn drop(&mut self) {
        self.link.closed();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Evidence + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let had_room = buf.remaining() > 0;
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        match &polled {
            Poll::Ready(Ok(())) if had_room && buf.filled().len() == before => {
                let broken = self.io.left_bytes_unread();
                self.link
                    .ends(if broken { Ending::Broken } else { Ending::Orderly });
            }
            Poll::Ready(Err(_)) => self.link.ends(Ending::Broken),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Evidence + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { io, link, .. } = &mut *self;
        link.write(buf.len(), || Pin::new(io).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // With as many slices as hyper ever passes, there may be more in its buffer.
        let all = bufs.len() < SLICES_MAX;
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        let Self { io, link, .. } = &mut *self;
        let bytes = if all { bytes } else { usize::MAX };
        link.write(bytes, || Pin::new(io).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        match &polled {
            Poll::Ready(Ok(())) => self.link.flushed(),
            Poll::Ready(Err(_)) => self.link.ends(Ending::Broken),
            Poll::Pending => {}
        }
        polled
    }

    /// Closes this end; if the last reply matters, waits a little for the peer's end to tell whether it was read.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
            self.linger = Some(Box::pin(tokio::time::sleep(LINGER)));
        }
        // hyper shuts down only what it has flushed, or what it gives up; receipts that are left are lost.
        let waits = self.link.0.in_doubt.load(Ordering::Relaxed) && self.link.state().ending.is_none();
        if !waits {
            self.link.ends(Ending::Orderly);
            return Poll::Ready(Ok(()));
        }
        let mut scratch = [MaybeUninit::uninit(); 1024];
        loop {
            let mut buf = ReadBuf::uninit(&mut scratch);
            match self.as_mut().poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        let linger = self.linger.as_mut().expect("set above");
        ready!(linger.as_mut().poll(cx));
        self.link.ends(Ending::Orderly);
        Poll::Ready(Ok(()))
    }
}

//! Connections, watched: which replies have been passed to the socket, what came after them, and how a connection ended.
//!
//! Knows bytes, receipts and the sessions of its requests; knows nothing of HTTP or MCP. hyper flushes a connection only when
//! its write buffer is empty, so a flush that succeeds means that all replies written before have left this process.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::budget::Account;
use super::limits::{ACKNOWLEDGE_PATIENCE, CLIENTS_MAX, LINGER, LOOK_AGAIN, LOOKS_MAX};
use super::orphans::Ticket;
use super::owner::{Owner, Receipt};
use crate::engine::{AgentName, Carrier, ClientId, Ending, HandoverId, Input, Refusal, SessionId, Sign, Who};

/// How many slices hyper writes at once, at the most: <https://docs.rs/hyper/1/src/hyper/proto/h1/io.rs.html>.
const SLICES_MAX: usize = 64;

/// Most bytes that are written as one slice, however many hyper has them in: a kernel takes several slices more slowly than one.
const TOGETHER_MAX: usize = 2_048;

/// What a socket knows of its peer's end.
pub trait SocketState {
    /// Tells, once the peer has closed the connection, whether it left bytes unread that were sent to it.
    ///
    /// A kernel answers such bytes with a reset. On loopback the reset is there before the close is seen.
    fn left_bytes_unread(&self) -> bool;

    /// Tells, once the peer has sent its last byte, whether its process has closed the connection, and not only said that
    /// it will send no more: only then does it read no more either. False where that cannot be known.
    fn peer_has_closed(&self) -> bool;

    /// Returns how many bytes have come from the peer that were not read here yet.
    fn arrived_bytes(&self) -> u64;

    /// Asks the socket to send small writes at once, and to give up a peer that takes nothing for
    /// [`ACKNOWLEDGE_PATIENCE`].
    fn prepare(&self);

    /// Tells whether the system vouches that the peer is a process of the relay's own user.
    fn is_own_user(&self) -> bool {
        false
    }
}

impl SocketState for tokio::net::TcpStream {
    fn left_bytes_unread(&self) -> bool {
        !matches!(socket2::SockRef::from(self).take_error(), Ok(None))
    }

    fn peer_has_closed(&self) -> bool {
        let (Ok(own), Ok(peer)) = (self.local_addr(), self.peer_addr()) else {
            // It was reset.
            return false;
        };
        super::peer::has_closed(peer, own)
    }

    fn arrived_bytes(&self) -> u64 {
        // Where the system cannot tell, everything that ever comes may have been there: nothing is confirmed by it.
        rustix::io::ioctl_fionread(self).unwrap_or(u64::MAX)
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

/// What is to be reported once bytes are passed to the socket.
pub enum Sent {
    /// The reply of an exchange.
    Reply(Receipt),
    /// An answer in a stream, with the note that its call is not answered, if there is one.
    Streamed(Option<Receipt>, Option<Ticket>),
    /// A keep-alive in the stream of a session.
    KeepAlive(SessionId),
}

/// A handle on the connection that a request came over.
#[derive(Clone)]
pub struct Link(Arc<Connection>);

struct Connection {
    owner: Arc<Owner>,
    /// What waits for its peer to take it.
    account: Arc<Account>,
    /// The system vouches that the peer is a process of the relay's own user.
    is_own_user: bool,
    /// How many bytes have come.
    bytes_in: AtomicU64,
    /// How many requests have come.
    requests: AtomicUsize,
    /// How many of them are not answered yet.
    under_way: AtomicUsize,
    /// How many bytes had come when the latest was answered.
    bytes_answered: AtomicU64,
    /// Spares the lock on every write that has nothing to report.
    has_sent: AtomicBool,
    /// Spares the lock on every read that proves nothing.
    has_passed: AtomicBool,
    /// A reply whose arrival matters was passed, and nothing has shown that it was read.
    in_doubt: AtomicBool,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    /// What goes with bytes that hyper has, up to the last one.
    sent: Vec<Sent>,
    /// Replies of exchanges that were passed, each with how many bytes had come until then, read or not.
    passed: Vec<(HandoverId, u64)>,
    /// The hand-over in the latest answer to a hook, whose session does not end with this connection.
    shown: Option<HandoverId>,
    /// One was passed that no bytes can prove to be read any more.
    unprovable: bool,
    /// The sessions of the calls that this connection carried.
    sessions: Vec<Opened>,
    ending: Option<Ending>,
}

/// A session of a connection's calls.
struct Opened {
    /// For whom it was opened.
    who: Who,
    /// What its client calls itself, once it has done so.
    client: Option<Arc<str>>,
    session: SessionId,
    bound: Option<AgentName>,
}

impl ConnectionState {
    /// Tells whether the reply of an exchange is about to be passed, of which what comes behind it is the sign.
    fn sends_reply(&self) -> bool {
        self.sent.iter().any(|sent| matches!(sent, Sent::Reply(_)))
    }
}

/// A connection on which nothing is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// How many requests have come.
    pub requests: usize,
    /// Whether bytes have come behind the latest.
    pub head_begun: bool,
}

/// A request that is being answered; it is over when this is dropped.
pub struct UnderWay(Link);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let connection = &*self.0.0;
        let bytes = connection.bytes_in.load(Ordering::Relaxed);
        connection.bytes_answered.store(bytes, Ordering::Relaxed);
        connection.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    /// Takes what is to be reported behind bytes of which hyper has just taken the last one.
    pub fn sent(&self, sent: Sent) {
        self.state().sent.push(sent);
        self.0.has_sent.store(true, Ordering::Release);
    }

    /// Has a hand-over undone if this connection breaks before anything comes over it behind its answer, whatever session it belongs to.
    pub fn shows(&self, handover: HandoverId) {
        self.state().shown = Some(handover);
    }

    /// Takes note that the peer has kept the connection open for long: what was shown over it has come to where it was to come.
    pub fn rests(&self) {
        self.state().shown = None;
    }

    /// Tells whether its requests come from a process of the relay's own user, for which the system vouches.
    pub fn is_own_user(&self) -> bool {
        self.0.is_own_user
    }

    /// Returns the account of what waits for its peer to take it.
    pub fn account(&self) -> &Arc<Account> {
        &self.0.account
    }

    /// Counts a request.
    pub fn begin(&self) -> UnderWay {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    /// Tells what has come; nothing while a request is being answered.
    pub fn idle(&self) -> Option<Idle> {
        let connection = &*self.0;
        let bytes_answered = connection.bytes_answered.load(Ordering::Relaxed);
        (connection.under_way.load(Ordering::Relaxed) == 0).then(|| Idle {
            requests: connection.requests.load(Ordering::Relaxed),
            head_begun: connection.bytes_in.load(Ordering::Relaxed) > bytes_answered,
        })
    }

    /// Returns the session of this connection's calls for an agent, for none in particular, or for the person, of a client that
    /// names itself or does not; opens it if need be.
    ///
    /// # Errors
    ///
    /// The engine's refusal of a new session.
    pub fn session(
        &self,
        who: Who,
        client: Option<&Arc<str>>,
    ) -> Result<(SessionId, Option<AgentName>), Refusal> {
        let mut state = self.state();
        let is_its = |opened: &&Opened| opened.who == who && opened.client.as_ref() == client;
        if let Some(opened) = state.sessions.iter().find(is_its) {
            return Ok((opened.session, opened.bound.clone()));
        }
        let client = client.filter(|_| state.sessions.len() < CLIENTS_MAX);
        let owner = &self.0.owner;
        let is_free = |opened: &Opened| opened.who == who && opened.client.is_none();
        let place = match state.sessions.iter().position(is_free) {
            Some(place) => place,
            None => {
                let (session, bound) = match owner.open(Carrier::Exchange, who.clone()) {
                    Ok(opened) => opened,
                    Err(refusal) => {
                        // What another client has is better than nothing, where what it was opened for is the same.
                        let is_shared = |opened: &&Opened| opened.who == who && who != Who::Unnamed;
                        let other = state.sessions.iter().find(is_shared);
                        let other = other.map(|other| (other.session, other.bound.clone()));
                        return other.ok_or(refusal);
                    }
                };
                state.sessions.push(Opened {
                    who,
                    client: None,
                    session,
                    bound,
                });
                state.sessions.len() - 1
            }
        };
        let opened = &mut state.sessions[place];
        if let Some(client) = client {
            opened.client = Some(Arc::clone(client));
            owner.name_client(opened.session, ClientId(Arc::clone(client)));
        }
        Ok((opened.session, opened.bound.clone()))
    }

    /// Waits until a reply whose bytes may have left already is reported, so that a next call finds it so.
    pub fn settle(&self) {
        if self.0.has_sent.load(Ordering::Acquire) {
            drop(self.state());
        }
    }

    /// Writes, and reports what goes with the bytes in hyper's buffer if all of it was written; nobody who has read one of
    /// them gets past [`Self::settle`] before that.
    fn write<S: SocketState + Unpin>(
        &self,
        mut io: Pin<&mut S>,
        bytes: usize,
        write: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let reporting = self.0.has_sent.load(Ordering::Acquire).then(|| self.state());
        let is_asked = reporting.as_ref().is_some_and(|state| state.sends_reply());
        let arrived_before = if is_asked { io.arrived_bytes() } else { 0 };
        let polled = write(io.as_mut());
        match &polled {
            Poll::Ready(Ok(written)) if *written == bytes => {
                if let Some(mut state) = reporting {
                    self.report(&mut state, &*io, arrived_before);
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

    fn all_passed(&self, io: &impl SocketState) {
        if self.0.has_sent.load(Ordering::Acquire) {
            self.report(&mut self.state(), io, 0);
        }
    }

    /// Reports what goes with bytes that were passed; `arrived_before` is how many had arrived, unread, just before.
    fn report(&self, state: &mut ConnectionState, io: &impl SocketState, arrived_before: u64) {
        let ConnectionState {
            sent,
            passed,
            unprovable,
            ..
        } = state;
        for sent in sent.drain(..) {
            match sent {
                Sent::Reply(receipt) => {
                    self.0.in_doubt.store(true, Ordering::Relaxed);
                    let handover = receipt.passed();
                    // A peer that sends its next request too early may send the rest of it at any time, unread reply or
                    // not: no bytes of this connection prove this one any more. And what is here by now was sent by
                    // somebody who may not have read the reply.
                    if arrived_before == 0 {
                        let here = self.0.bytes_in.load(Ordering::Relaxed);
                        passed.push((handover, here.saturating_add(io.arrived_bytes())));
                        self.0.has_passed.store(true, Ordering::Relaxed);
                    } else {
                        *unprovable = true;
                    }
                }
                Sent::Streamed(receipt, ticket) => {
                    receipt.map(Receipt::passed);
                    ticket.into_iter().for_each(Ticket::passed);
                }
                Sent::KeepAlive(session) => self.0.owner.report(Input::KeptAlive { session }),
            }
        }
        // Only now: who finds it cleared in [`Self::settle`] must find the replies reported.
        self.0.has_sent.store(false, Ordering::Release);
    }

    /// Counts bytes that were read, and reports the replies that they came after.
    fn read(&self, bytes: usize) {
        let connection = &self.0;
        let all = connection.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if !connection.has_passed.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        let ConnectionState {
            passed,
            shown,
            unprovable,
            ..
        } = &mut *state;
        passed.retain(|&(handover, here)| {
            let followed = all > here;
            if followed {
                let sign = Sign::Followed;
                connection.owner.report(Input::Signed { handover, sign });
                shown.take_if(|shown| *shown == handover);
            }
            !followed
        });
        let left = !passed.is_empty();
        connection.has_passed.store(left, Ordering::Relaxed);
        connection.in_doubt.store(left || *unprovable, Ordering::Relaxed);
    }

    /// Remembers the first sign of the end.
    fn ends(&self, ending: Ending) {
        self.state().ending.get_or_insert(ending);
    }

    fn closed(&self) {
        let ConnectionState {
            sent,
            passed: _,
            shown,
            unprovable: _,
            sessions,
            ending,
        } = std::mem::take(
            &mut *self
                .0
                .state
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        drop(sent);
        let ending = ending.unwrap_or(Ending::Broken);
        for Opened { session, .. } in sessions {
            self.0.owner.close(session, ending);
        }
        if let Some(handover) = shown.filter(|_| ending == Ending::Broken) {
            let sign = Sign::Lost;
            self.0.owner.report(Input::Signed { handover, sign });
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.0
            .state
            .lock()
            .expect("nothing panics while it holds a connection's state")
    }
}

/// A connection's bytes, watched.
pub struct Wire<S> {
    io: S,
    link: Link,
    /// How long the peer's end is still waited for.
    linger: Option<Pin<Box<Sleep>>>,
    /// When it is looked for again, after the peer has sent its last byte, and how often it was.
    look_again: Option<(Pin<Box<Sleep>>, u32)>,
}

impl<S: SocketState> Wire<S> {
    /// Watches a connection that was just accepted.
    pub fn new(io: S, owner: Arc<Owner>) -> Self {
        io.prepare();
        let link = Link(Arc::new(Connection {
            account: owner.budget().open(),
            owner,
            is_own_user: io.is_own_user(),
            bytes_in: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            bytes_answered: AtomicU64::new(0),
            has_sent: AtomicBool::new(false),
            has_passed: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
            state: Mutex::default(),
        }));
        Self {
            io,
            link,
            linger: None,
            look_again: None,
        }
    }

    /// Returns a handle on the connection.
    pub fn link(&self) -> Link {
        self.link.clone()
    }
}

impl<S: SocketState> Wire<S> {
    /// Notes how the connection ended, now that the peer has sent its last byte. With a reply in doubt that is known only
    /// once its process has closed the connection too; hyper would close it at once, so it is not told before.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.io.left_bytes_unread() {
                self.link.ends(Ending::Broken);
                return Poll::Ready(());
            }
            let in_doubt = self.link.0.in_doubt.load(Ordering::Relaxed);
            // Behind relay's own end, a kernel keeps nothing of a peer that has closed.
            if !in_doubt || self.linger.is_some() || self.io.peer_has_closed() {
                // A reset may have come between the two looks.
                let broken = self.io.left_bytes_unread();
                self.link
                    .ends(if broken { Ending::Broken } else { Ending::Orderly });
                return Poll::Ready(());
            }
            let (again, looks) = self
                .look_again
                .get_or_insert_with(|| (Box::pin(tokio::time::sleep(LOOK_AGAIN)), 0));
            ready!(again.as_mut().poll(cx));
            *looks += 1;
            if *looks > LOOKS_MAX {
                // The engine's doubt is over; whatever comes now changes nothing.
                self.link.ends(Ending::Broken);
                return Poll::Ready(());
            }
            again.as_mut().reset(Instant::now() + LOOK_AGAIN);
        }
    }
}

impl<S> Drop for Wire<S> {
    fn drop(&mut self) {
        self.link.closed();
    }
}

impl<S: AsyncRead + SocketState + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let had_room = buf.remaining() > 0;
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        match &polled {
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                self.link.read(buf.filled().len() - before);
            }
            Poll::Ready(Ok(())) if had_room => ready!(self.poll_end(cx)),
            Poll::Ready(Err(_)) => self.link.ends(Ending::Broken),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + SocketState + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { io, link, .. } = &mut *self;
        link.write(Pin::new(io), buf.len(), |io| io.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // With as many slices as hyper ever passes, there may be more in its buffer.
        let all = bufs.len() < SLICES_MAX;
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        if all && bytes <= TOGETHER_MAX {
            let mut room = [MaybeUninit::uninit(); TOGETHER_MAX];
            let mut together = ReadBuf::uninit(&mut room);
            for buf in bufs {
                together.put_slice(buf);
            }
            return self.poll_write(cx, together.filled());
        }
        let bytes = if all { bytes } else { usize::MAX };
        let Self { io, link, .. } = &mut *self;
        link.write(Pin::new(io), bytes, |io| io.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, link, .. } = &mut *self;
        let polled = Pin::new(&mut *io).poll_flush(cx);
        match &polled {
            Poll::Ready(Ok(())) => link.all_passed(io),
            Poll::Ready(Err(_)) => link.ends(Ending::Broken),
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
        self.link.ends(Ending::Broken);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;

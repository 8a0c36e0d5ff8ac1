//! Connections, from the moment they are accepted: how many there may be, and how long one may say nothing.
//!
//! Knows bytes and requests, and nothing of what they ask for.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::limits::{
    ACCEPT_PAUSE, COMPLAINT_EVERY, CONNECTIONS_MAX, HEAD_PATIENCE, IDLE_ROUNDS_MAX, STOP_PATIENCE,
};
use super::owner::Owner;
use super::wire::{Idle, Link, SocketState, UnderWay, Wire};

/// Where connections come from. Production listens on TCP and on a unix socket; the simulation brings its own.
pub trait Listener: Send {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + SocketState + Send + Unpin + 'static;

    /// Waits for the next connection.
    ///
    /// # Errors
    ///
    /// The system's. It is asked again after a pause.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

impl Listener for tokio::net::TcpListener {
    type Io = tokio::net::TcpStream;

    async fn accept(&mut self) -> io::Result<Self::Io> {
        let (stream, _) = Self::accept(self).await?;
        Ok(stream)
    }
}

/// Accepts connections and has their requests answered, until `stop` is cancelled and what is under way then has had its time.
pub(super) async fn serve<L, A, F, B>(mut listener: L, answer: A, owner: Arc<Owner>, stop: CancellationToken)
where
    L: Listener,
    A: Fn(Link, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error = axum::Error> + Send + Unpin + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let tasks = TaskTracker::new();
    let mut complaints = Complaints::default();
    while let Some(io) = stop
        .run_until_cancelled(accept(&mut listener, &room, &mut complaints))
        .await
    {
        let (io, place) = io;
        let wire = Wire::new(io, Arc::clone(&owner));
        let connection = drive(wire, answer.clone(), stop.clone());
        tasks.spawn(async move {
            connection.await;
            drop(place);
        });
    }
    drop(listener);
    tasks.close();
    let _ = tokio::time::timeout(STOP_PATIENCE, tasks.wait()).await;
}

/// Waits for a place, and then for a connection that takes it.
async fn accept<L: Listener>(
    listener: &mut L,
    room: &Arc<Semaphore>,
    complaints: &mut Complaints,
) -> (L::Io, tokio::sync::OwnedSemaphorePermit) {
    if room.available_permits() == 0 {
        complaints.tell(format_args!(
            "{CONNECTIONS_MAX} connections are open, as many as are accepted; new ones wait"
        ));
    }
    let place = Arc::clone(room).acquire_owned().await;
    let place = place.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok(io) => return (io, place),
            // The peer was gone before it was accepted.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            Err(error) => {
                complaints.tell(format_args!("cannot accept connections for the moment: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Tells a person of what happens over and over, now and then.
#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
}

impl Complaints {
    fn tell(&mut self, what: std::fmt::Arguments<'_>) {
        let now = Instant::now();
        if self.last.is_none_or(|last| now >= last + COMPLAINT_EVERY) {
            self.last = Some(now);
            tracing::warn!("{what}");
        }
    }
}

/// Serves one connection until it ends, rests for too long, or the relay stops.
async fn drive<S, A, F, B>(wire: Wire<S>, answer: A, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + SocketState + Send + Unpin + 'static,
    A: Fn(Link, Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes, Error = axum::Error> + Unpin + 'static,
{
    let link = wire.link();
    let service = service_fn(|request| {
        let under_way = link.begin();
        let (link, answer) = (&link, &answer);
        // Called in here, so that its future is made in its place and is not moved into it.
        async move {
            let response = answer(link.clone(), request).await;
            Ok::<_, Infallible>(response.map(|body| Answer {
                body,
                _under_way: under_way,
            }))
        }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(wire), service)
        // Those of nodes become WebSockets.
        .with_upgrades();
    tokio::pin!(connection);
    let stopped = stop.cancelled();
    tokio::pin!(stopped);
    let cut = link.account().cut().cancelled();
    tokio::pin!(cut);
    let mut rounds = tokio::time::interval_at(Instant::now() + HEAD_PATIENCE, HEAD_PATIENCE);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rest = Rest::default();
    let mut stopping = false;
    let mut interruption: Option<(Arc<Interruption>, Waker)> = None;
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke");
                }
                return Poll::Ready(());
            }
            let (interruption, waker) = interruption.get_or_insert_with(|| Interruption::of(cx));
            if !interruption.take() {
                return Poll::Pending;
            }
            let cx = &mut Context::from_waker(waker);
            if cut.as_mut().poll(cx).is_ready() {
                // What is left unread is broken off, so that what is in it comes back.
                return Poll::Ready(());
            }
            if !stopping && stopped.as_mut().poll(cx).is_ready() {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            } else if rounds.poll_tick(cx).is_pending() {
                return Poll::Pending;
            } else if rest.is_too_long(link.idle()) {
                tracing::debug!("a connection said nothing for too long");
                link.rests();
                return Poll::Ready(());
            }
            // Both are to be polled until they say that they will wake it.
            interruption.is_due.store(true, Ordering::Release);
        }
    })
    .await;
}

/// What wakes a connection's task beside the connection. Its timer and the relay's end are polled only if one of them did: at
/// each request they would cost as much as a step of the engine, and take locks that all connections share.
struct Interruption {
    is_due: AtomicBool,
    task: Waker,
}

impl Interruption {
    /// Makes that of a task, which stays the same as long as it runs; due, so that both are polled once.
    fn of(cx: &Context<'_>) -> (Arc<Self>, Waker) {
        let interruption = Arc::new(Self {
            is_due: AtomicBool::new(true),
            task: cx.waker().clone(),
        });
        let waker = Waker::from(Arc::clone(&interruption));
        (interruption, waker)
    }

    /// Tells whether it is due, which it is not any more then.
    fn take(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Interruption {
    fn wake(self: Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// How long a connection has said nothing, in rounds of [`HEAD_PATIENCE`].
#[derive(Debug, Default)]
struct Rest {
    rounds: u32,
    before: Option<Idle>,
}

impl Rest {
    /// Counts a round, and tells whether it is one too many.
    fn is_too_long(&mut self, idle: Option<Idle>) -> bool {
        let Some(now) = idle else {
            *self = Self::default();
            return false;
        };
        let is_new = now.requests == 0;
        self.rounds = match self.before.replace(now) {
            Some(before) if before == now => self.rounds + 1,
            // A first request is waited for since the connection was accepted.
            Some(_) | None => u32::from(is_new),
        };
        let rounds_max = if is_new || now.head_begun {
            1
        } else {
            IDLE_ROUNDS_MAX
        };
        self.rounds >= rounds_max
    }
}

/// A response's body, which is the last of its request.
struct Answer<B> {
    body: B,
    _under_way: UnderWay,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use std::time::Duration;

    use super::*;
    use crate::server::recorder::recorded;

    const BUSY: Option<Idle> = None;

    fn idle(requests: usize, head_begun: bool) -> Option<Idle> {
        Some(Idle { requests, head_begun })
    }

    /// Tells after how many rounds a connection is closed that is as it is in `first`, and from then on as in `then`.
    fn closed_after(first: &[Option<Idle>], then: Option<Idle>) -> Option<usize> {
        let mut rest = Rest::default();
        let mut rounds = first.iter().copied().chain(std::iter::repeat_n(then, 1_000));
        rounds.position(|idle| rest.is_too_long(idle)).map(|at| at + 1)
    }

    #[test]
    fn a_connection_that_asks_for_nothing_is_closed_after_one_round() {
        assert_eq!(closed_after(&[], idle(0, false)), Some(1));
        assert_eq!(closed_after(&[], idle(0, true)), Some(1));
    }

    #[test]
    fn a_connection_that_is_answered_is_never_closed() {
        assert_eq!(closed_after(&[], BUSY), None);
        assert_eq!(closed_after(&[idle(1, false)], BUSY), None);
    }

    #[test]
    fn a_connection_may_rest_between_requests_for_some_minutes() {
        let rounds = IDLE_ROUNDS_MAX as usize + 1;
        assert_eq!(closed_after(&[], idle(1, false)), Some(rounds));
        assert_eq!(
            closed_after(&[BUSY, idle(1, false), BUSY], idle(2, false)),
            Some(rounds + 3)
        );
        let quick: Vec<_> = (1..500).map(|requests| idle(requests, false)).collect();
        assert_eq!(closed_after(&quick, BUSY), None);
    }

    #[test]
    fn a_head_that_has_begun_must_end_within_a_round_or_two() {
        assert_eq!(
            closed_after(&[idle(1, false), idle(1, false)], idle(1, true)),
            Some(4)
        );
        assert_eq!(closed_after(&[idle(1, true), BUSY], idle(2, true)), Some(4));
    }

    /// Accepts one connection.
    struct Once(Option<DuplexStream>);

    impl Listener for Once {
        type Io = DuplexStream;

        async fn accept(&mut self) -> io::Result<DuplexStream> {
            match self.0.take() {
                Some(io) => Ok(io),
                None => std::future::pending().await,
            }
        }
    }

    impl SocketState for DuplexStream {
        fn left_bytes_unread(&self) -> bool {
            false
        }

        fn peer_has_closed(&self) -> bool {
            true
        }

        fn arrived_bytes(&self) -> u64 {
            0
        }

        fn prepare(&self) {}
    }

    /// Tells how long a connection that sends `bytes` and then nothing is kept open.
    async fn kept_open(bytes: &[u8]) -> Duration {
        let (mut client, io) = tokio::io::duplex(1_024);
        let (owner, _) = recorded();
        let answer = async |_link, _request| Response::new(axum::body::Body::empty());
        tokio::spawn(serve(Once(Some(io)), answer, owner, CancellationToken::new()));
        let began = Instant::now();
        client.write_all(bytes).await.expect("it is taken");
        while client.read(&mut [0; 1_024]).await.expect("it is closed in order") > 0 {}
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_closed_in_time_though_nothing_comes_that_has_it_looked_at() {
        assert_eq!(kept_open(b"").await, HEAD_PATIENCE);
        assert_eq!(kept_open(b"GET / HTTP/1.1\r\n").await, HEAD_PATIENCE);
        let rested = kept_open(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(rested, HEAD_PATIENCE * (IDLE_ROUNDS_MAX + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_rests_does_not_hold_up_the_end() {
        let (mut client, io) = tokio::io::duplex(1_024);
        let (owner, _) = recorded();
        let stop = CancellationToken::new();
        let answer = async |_link, _request| Response::new(axum::body::Body::empty());
        let serving = tokio::spawn(serve(Once(Some(io)), answer, owner, stop.clone()));
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        client.write_all(request).await.expect("it is taken");
        let answered = client.read(&mut [0; 1_024]).await.expect("an answer");
        assert!(answered > 0);
        let before = Instant::now();
        stop.cancel();
        serving.await.expect("no panic");
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_at_the_end_is_answered_before_it() {
        let (mut client, io) = tokio::io::duplex(1_024);
        let (owner, _) = recorded();
        let stop = CancellationToken::new();
        let answer = |_link, _request| async {
            tokio::time::sleep(STOP_PATIENCE / 2).await;
            Response::new(axum::body::Body::empty())
        };
        tokio::spawn(serve(Once(Some(io)), answer, owner, stop.clone()));
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        client.write_all(request).await.expect("it is taken");
        tokio::time::sleep(STOP_PATIENCE / 4).await;
        stop.cancel();
        let mut answered = Vec::new();
        let read = client.read_to_end(&mut answered).await;
        read.expect("it is closed in order");
        assert!(answered.starts_with(b"HTTP/1.1 200 OK"), "{answered:?}");
    }
}

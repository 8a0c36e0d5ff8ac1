//! A relay inside the test's own process, with connections in memory: the production server on tokio's clock.
//!
//! A test that pauses that clock (`start_paused`) has what takes minutes happen at once and exactly on time. No task may
//! block then, and whatever is waited for has to come from this process.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use relay::engine::limits::Bounds;
use relay::engine::{Engine, Roster, Timestamp};
use relay::server::{Clock, Config, Guard, KEEP_ALIVE, Listener, Messaging, Random, SocketState, serve};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// When a relay is started.
const START: Timestamp = Timestamp::from_millis(1_777_732_200_000);

/// How many bytes a connection holds that were not read yet, for each direction.
const BUFFER_BYTES: usize = 64 * 1024;

/// A running relay. It ends with the test's runtime.
pub struct Relay {
    connections: UnboundedSender<End>,
}

impl Relay {
    /// Starts a relay with the default roles and the settings of `relay serve`.
    pub fn start() -> Self {
        Self::start_beside(Arc::new(relay::server::System))
    }

    /// Starts one beside programs that it wakes by their messaging sockets.
    pub fn start_beside(messaging: Arc<dyn Messaging>) -> Self {
        let (connections, accepted) = unbounded_channel();
        let started = Instant::now();
        let clock = Clock::from(move || {
            START.plus_millis(i64::try_from(started.elapsed().as_millis()).expect("a test is short"))
        });
        let engine = Engine::new(clock(), Roster::default(), Bounds::default(), [7; 16]);
        let config = Config {
            engine: Box::new(engine),
            roster: Roster::default(),
            clock,
            message_random: counting(),
            stream_random: counting(),
            token_random: counting(),
            log: Box::new(relay::server::NoLog),
            notes: Box::new(String::new()),
            agents: relay::server::KnownAgents::default(),
            guard: Guard {
                port: 7331,
                token: None,
            },
            keep_alive: KEEP_ALIVE,
            network: Arc::new(relay::server::System),
            messaging,
            push_allow: Vec::new(),
            starter: Arc::new(relay::server::NoStarter),
        };
        tokio::spawn(serve(Accepted(accepted), config, CancellationToken::new()));
        Self { connections }
    }

    pub fn connect(&self) -> Connection {
        let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
        let [to_relay, to_client] = [(); 2].map(|()| Arc::new(Flow::default()));
        let end = |io, into: &Arc<Flow>, out: &Arc<Flow>| End {
            io,
            into: Arc::clone(into),
            out: Arc::clone(out),
        };
        let accepted = self.connections.send(end(theirs, &to_relay, &to_client));
        assert!(accepted.is_ok(), "the relay has ended");
        Connection {
            end: end(ours, &to_client, &to_relay),
            unread: Vec::new(),
        }
    }
}

/// Makes a source of bytes that are never the same twice.
fn counting() -> Random {
    let mut drawn = 0_u128;
    Box::new(move || {
        drawn += 1;
        drawn.to_be_bytes()
    })
}

/// Where the relay gets its connections.
struct Accepted(UnboundedReceiver<End>);

impl Listener for Accepted {
    type Io = End;

    async fn accept(&mut self) -> io::Result<End> {
        match self.0.recv().await {
            Some(end) => Ok(end),
            None => std::future::pending().await,
        }
    }
}

/// How many bytes have gone in one direction.
#[derive(Default)]
struct Flow {
    written: AtomicU64,
    read: AtomicU64,
}

impl Flow {
    fn under_way(&self) -> u64 {
        self.written.load(Ordering::Relaxed) - self.read.load(Ordering::Relaxed)
    }
}

/// One end of a connection.
pub struct End {
    io: DuplexStream,
    into: Arc<Flow>,
    out: Arc<Flow>,
}

impl SocketState for End {
    fn left_bytes_unread(&self) -> bool {
        self.out.under_way() > 0
    }

    /// No client here says that it sends no more and reads on.
    fn peer_has_closed(&self) -> bool {
        true
    }

    fn arrived_bytes(&self) -> u64 {
        self.into.under_way()
    }

    fn prepare(&self) {}
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let count = buf.filled().len() - before;
        self.into.read.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.out.written.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// What comes next over a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// All up to what was listened for, and that too.
    Text(String),
    /// The relay has closed the connection, after nothing more than this.
    End(String),
    /// It has not, but nothing more than this came in time.
    Silence(String),
}

/// A client's end. Dropping it closes the connection.
pub struct Connection {
    end: End,
    /// Received and not yet taken.
    unread: Vec<u8>,
}

impl Connection {
    /// Returns its end, for whoever speaks another protocol over it.
    pub fn into_end(self) -> End {
        self.end
    }

    /// Sends bytes.
    ///
    /// # Panics
    ///
    /// When the connection does not take them.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.end
            .write_all(bytes)
            .await
            .expect("the connection takes the bytes");
    }

    /// Listens until some text has come, and takes all up to its end.
    pub async fn hear(&mut self, text: &str, patience: Duration) -> Heard {
        let deadline = Instant::now() + patience;
        let taken = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what comes is text");
        loop {
            if let Some(at) = memchr::memmem::find(&self.unread, text.as_bytes()) {
                return Heard::Text(taken(self.unread.drain(..at + text.len()).collect()));
            }
            let arriving = self.end.read_buf(&mut self.unread);
            match tokio::time::timeout_at(deadline, arriving).await {
                Ok(Ok(1..)) => {}
                Ok(Ok(0) | Err(_)) => return Heard::End(taken(std::mem::take(&mut self.unread))),
                Err(_) => return Heard::Silence(taken(std::mem::take(&mut self.unread))),
            }
        }
    }

    /// Sends a request and waits for the response, which is text of an announced length.
    ///
    /// # Panics
    ///
    /// When there is none soon, or not all of it.
    pub async fn exchange(&mut self, request: &[u8]) -> (u16, String) {
        self.send(request).await;
        let head = self.hear("\r\n\r\n", super::PATIENCE).await;
        let Heard::Text(head) = head else {
            panic!("no response, but {head:?}");
        };
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().expect("a length"));
        while self.unread.len() < length {
            let more = self.end.read_buf(&mut self.unread).await.expect("it stands");
            assert!(more > 0, "the response is cut off");
        }
        let body = self.unread.drain(..length).collect();
        (
            status.expect("a status"),
            String::from_utf8(body).expect("it is text"),
        )
    }
}

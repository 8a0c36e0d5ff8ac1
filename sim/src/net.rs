//! Sockets that know what their kernel would.
//!
//! turmoil's TCP neither resets a connection whose closed end is sent more bytes in time for its peer to know,
//! nor gives up a peer that acknowledges nothing. On loopback a kernel does both, and relay's contract rests
//! on it (docs/CONTRACT.md), so a ledger of written and read bytes stands in for the kernels' own.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use axum::serve::Listener;
use relay::server::{ACKNOWLEDGE_PATIENCE, Evidence};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use turmoil::net::{TcpListener, TcpStream};

/// What the kernels of all machines know of all connections, by the client's address.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<SocketAddr, Flow>>>);

/// One connection, in the direction of its replies.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// Bytes that the server has written.
    written: u64,
    /// Bytes that the client's process has read.
    read: u64,
    /// The client's process does not read, but its kernel still acknowledges.
    stalled: bool,
    /// The client's process is gone, whatever it had read.
    aborted: bool,
}

impl Ledger {
    fn flow<T>(&self, client: SocketAddr, change: impl FnOnce(&mut Flow) -> T) -> T {
        change(self.flows().entry(client).or_default())
    }

    /// Says that all processes of a machine are gone, whatever they had read.
    pub fn abort_all(&self, machine: IpAddr) {
        let mut flows = self.flows();
        for (_, flow) in flows.iter_mut().filter(|(client, _)| client.ip() == machine) {
            flow.aborted = true;
        }
    }

    fn flows(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Flow>> {
        self.0.lock().expect("a run has one thread")
    }
}

/// The server's listener.
pub struct SimListener {
    inner: TcpListener,
    ledger: Ledger,
}

impl SimListener {
    /// Listens on a port of the current host.
    ///
    /// # Errors
    ///
    /// turmoil's, when the port is taken.
    pub async fn bind(port: u16, ledger: Ledger) -> io::Result<Self> {
        let inner = TcpListener::bind(("0.0.0.0", port)).await?;
        Ok(Self { inner, ledger })
    }
}

impl Listener for SimListener {
    type Io = ServerIo;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (ServerIo, SocketAddr) {
        loop {
            if let Ok((stream, client)) = self.inner.accept().await {
                let io = ServerIo {
                    stream,
                    client,
                    ledger: self.ledger.clone(),
                    unacknowledged: VecDeque::new(),
                    patience: Box::pin(tokio::time::sleep(ACKNOWLEDGE_PATIENCE)),
                };
                return (io, client);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// The server's end of a connection.
pub struct ServerIo {
    stream: TcpStream,
    client: SocketAddr,
    ledger: Ledger,
    /// How much was written by when, until it is acknowledged.
    unacknowledged: VecDeque<(u64, Instant)>,
    patience: Pin<Box<Sleep>>,
}

impl ServerIo {
    /// Tells whether bytes have been unacknowledged for longer than a kernel bears.
    fn gives_up(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            let flow = self.ledger.flow(self.client, |flow| *flow);
            while self
                .unacknowledged
                .front()
                .is_some_and(|(total, _)| flow.stalled || *total <= flow.read)
            {
                self.unacknowledged.pop_front();
            }
            let Some((_, since)) = self.unacknowledged.front() else {
                return false;
            };
            let until = *since + ACKNOWLEDGE_PATIENCE;
            if until <= Instant::now() {
                return true;
            }
            self.patience.as_mut().reset(until);
            if self.patience.as_mut().poll(cx).is_pending() {
                return false;
            }
        }
    }

    fn wrote(&mut self, bytes: usize) {
        let total = self.ledger.flow(self.client, |flow| {
            flow.written += bytes as u64;
            flow.written
        });
        self.unacknowledged.push_back((total, Instant::now()));
    }
}

impl Evidence for ServerIo {
    fn left_bytes_unread(&self) -> bool {
        self.ledger
            .flow(self.client, |flow| flow.aborted || flow.written > flow.read)
    }

    fn prepare(&self) {}
}

impl AsyncRead for ServerIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.gives_up(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ServerIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = polled {
            self.wrote(bytes);
            // hyper may not read again before something happens: the timer must wake it.
            let _ = self.gives_up(cx);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A client's end of a connection.
pub struct ClientIo {
    stream: TcpStream,
    local: SocketAddr,
    ledger: Ledger,
}

impl ClientIo {
    /// Connects to the server.
    ///
    /// # Errors
    ///
    /// turmoil's, when nothing listens or the network is cut.
    pub async fn connect(server: (&str, u16), ledger: Ledger) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        let local = stream.local_addr()?;
        Ok(Self {
            stream,
            local,
            ledger,
        })
    }

    /// Returns a handle that says whether this end's process reads.
    pub fn stall(&self) -> Stall {
        Stall {
            local: self.local,
            ledger: self.ledger.clone(),
        }
    }
}

/// Says whether a client's process reads what its kernel has.
#[derive(Clone)]
pub struct Stall {
    local: SocketAddr,
    ledger: Ledger,
}

impl Stall {
    /// Says that the process is gone, whatever it had read.
    pub fn abort(&self) {
        self.ledger.flow(self.local, |flow| flow.aborted = true);
    }

    /// Says it.
    pub fn set(&self, stalled: bool) {
        self.ledger.flow(self.local, |flow| flow.stalled = stalled);
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let bytes = buf.filled().len() - before;
        self.ledger.flow(self.local, |flow| flow.read += bytes as u64);
        polled
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

//! Sockets that know what their kernel would.
//!
//! turmoil's TCP neither resets a connection whose closed end is sent more bytes in time for its peer to know,
//! nor gives up a peer that acknowledges nothing. On loopback a kernel does both, and relay's contract rests
//! on it (docs/CONTRACT.md), so a ledger of written and read bytes stands in for the kernels' own.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use relay::server::{ACKNOWLEDGE_PATIENCE, Listener, SocketState};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Instant, Sleep};
use turmoil::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use turmoil::net::{TcpListener, TcpStream};

use crate::marks::Marks;

/// What the kernels of all machines know of all connections, by the client's address.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<SocketAddr, Flow>>>);

/// How many bytes a client's kernel takes for a process that does not read; then it shuts its window.
pub const WINDOW_BYTES: usize = 64 * 1024;

/// One connection, in the direction of its replies.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// Bytes that the server has written.
    written: u64,
    /// Bytes that the client's kernel has taken, and so acknowledged.
    acknowledged: u64,
    /// Bytes that the client's process has read.
    read: u64,
    /// Bytes that the client has sent.
    sent: u64,
    /// Bytes that the server has taken.
    taken: u64,
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
    marks: Marks,
}

impl SimListener {
    /// Listens on a port of the current host.
    ///
    /// # Errors
    ///
    /// turmoil's, when the port is taken.
    pub async fn bind(port: u16, ledger: Ledger, marks: Marks) -> io::Result<Self> {
        let inner = TcpListener::bind(("0.0.0.0", port)).await?;
        Ok(Self { inner, ledger, marks })
    }
}

impl Listener for SimListener {
    type Io = ServerIo;

    async fn accept(&mut self) -> io::Result<ServerIo> {
        let (stream, client) = self.inner.accept().await?;
        Ok(ServerIo {
            stream,
            client,
            ledger: self.ledger.clone(),
            marks: self.marks.clone(),
            unacknowledged: VecDeque::new(),
            patience: Box::pin(tokio::time::sleep(ACKNOWLEDGE_PATIENCE)),
        })
    }
}

/// The server's end of a connection.
pub struct ServerIo {
    stream: TcpStream,
    client: SocketAddr,
    ledger: Ledger,
    marks: Marks,
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
                .is_some_and(|(total, _)| *total <= flow.acknowledged)
            {
                self.unacknowledged.pop_front();
            }
            let Some((_, since)) = self.unacknowledged.front() else {
                return false;
            };
            let until = *since + ACKNOWLEDGE_PATIENCE;
            if until <= Instant::now() {
                let full = flow.acknowledged - flow.read >= WINDOW_BYTES as u64;
                self.marks.hit(if full {
                    "given up: the window stayed shut"
                } else {
                    "given up: nothing was acknowledged"
                });
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

impl SocketState for ServerIo {
    fn left_bytes_unread(&self) -> bool {
        self.ledger
            .flow(self.client, |flow| flow.aborted || flow.written > flow.read)
    }

    /// A simulated client never says that it will send no more while it still reads.
    fn peer_has_closed(&self) -> bool {
        true
    }

    /// Counts bytes that are still under way too: none of them were sent by somebody who has read what is passed now.
    fn arrived_bytes(&self) -> u64 {
        self.ledger.flow(self.client, |flow| flow.sent - flow.taken)
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
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let bytes = (buf.filled().len() - before) as u64;
        self.ledger.flow(self.client, |flow| flow.taken += bytes);
        polled
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

/// A client's end of a connection: what its process has, in front of what its kernel does by itself.
pub struct ClientIo {
    write: OwnedWriteHalf,
    kernel: Arc<Mutex<Kernel>>,
    local: SocketAddr,
    ledger: Ledger,
    /// None until it has begun.
    receiving: Option<AbortHandle>,
}

/// What a client's kernel has taken for its process.
#[derive(Default)]
struct Kernel {
    bytes: VecDeque<u8>,
    /// Nothing comes any more, for this reason if it is not an orderly one.
    end: Option<Option<io::ErrorKind>>,
    /// The process, where it waits for bytes.
    reader: Option<Waker>,
    /// The kernel's own work, where it waits for room.
    receiver: Option<Waker>,
}

impl ClientIo {
    /// Connects to the server.
    ///
    /// # Errors
    ///
    /// turmoil's, when nothing listens or the network is cut.
    pub async fn connect(server: (&str, u16), ledger: Ledger) -> io::Result<Self> {
        let (mut client, receiving) = Self::open(server, ledger).await?;
        client.receiving = Some(spawn_local(receiving).abort_handle());
        Ok(client)
    }

    /// Connects to the server from a task that may run on any thread, of which the host has one.
    ///
    /// # Errors
    ///
    /// turmoil's, when nothing listens or the network is cut.
    pub async fn connect_from_anywhere(server: (&str, u16), ledger: Ledger) -> io::Result<Self> {
        let (mut client, receiving) = Self::open(server, ledger).await?;
        client.receiving = Some(tokio::spawn(receiving).abort_handle());
        Ok(client)
    }

    /// Connects; the future is what the kernel does from then on.
    async fn open(
        server: (&str, u16),
        ledger: Ledger,
    ) -> io::Result<(Self, impl Future<Output = ()> + Send + use<>)> {
        let stream = TcpStream::connect(server).await?;
        let local = stream.local_addr()?;
        let (read, write) = stream.into_split();
        let kernel = Arc::<Mutex<Kernel>>::default();
        let receiving = receive(read, Arc::clone(&kernel), local, ledger.clone());
        let client = Self {
            write,
            kernel,
            local,
            ledger,
            receiving: None,
        };
        Ok((client, receiving))
    }

    /// Tells whether the server has kept its end open and has sent nothing that was not read, as far as is known here.
    pub fn is_open(&self) -> bool {
        let kernel = locked(&self.kernel);
        kernel.bytes.is_empty() && kernel.end.is_none()
    }

    /// Returns a handle that says what becomes of this end's process.
    pub fn process(&self) -> Process {
        Process {
            local: self.local,
            ledger: self.ledger.clone(),
        }
    }
}

impl Drop for ClientIo {
    fn drop(&mut self) {
        self.receiving.iter().for_each(AbortHandle::abort);
    }
}

fn locked(kernel: &Mutex<Kernel>) -> MutexGuard<'_, Kernel> {
    kernel.lock().expect("a run has one thread")
}

/// Takes what comes, and acknowledges it, while there is room; the process may sleep meanwhile.
async fn receive(mut from: OwnedReadHalf, kernel: Arc<Mutex<Kernel>>, local: SocketAddr, ledger: Ledger) {
    let mut bytes = vec![0; WINDOW_BYTES];
    loop {
        let room = poll_fn(|cx| {
            let mut kernel = locked(&kernel);
            let room = WINDOW_BYTES - kernel.bytes.len();
            if room > 0 {
                return Poll::Ready(room);
            }
            kernel.receiver = Some(cx.waker().clone());
            Poll::Pending
        });
        let room = room.await;
        let read = from.read(&mut bytes[..room]).await;
        let mut kernel = locked(&kernel);
        match read {
            Ok(0) => kernel.end = Some(None),
            Ok(count) => {
                kernel.bytes.extend(&bytes[..count]);
                ledger.flow(local, |flow| flow.acknowledged += count as u64);
            }
            Err(error) => kernel.end = Some(Some(error.kind())),
        }
        kernel.reader.take().into_iter().for_each(Waker::wake);
        if kernel.end.is_some() {
            return;
        }
    }
}

/// Says what becomes of a client's process.
#[derive(Clone)]
pub struct Process {
    local: SocketAddr,
    ledger: Ledger,
}

impl Process {
    /// Says that it is gone, whatever it had read.
    pub fn abort(&self) {
        self.ledger.flow(self.local, |flow| flow.aborted = true);
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut kernel = locked(&self.kernel);
        if kernel.bytes.is_empty() {
            return match kernel.end {
                None => {
                    kernel.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
                Some(None) => Poll::Ready(Ok(())),
                Some(Some(error)) => Poll::Ready(Err(error.into())),
            };
        }
        let (first, _) = kernel.bytes.as_slices();
        let count = first.len().min(buf.remaining());
        buf.put_slice(&first[..count]);
        kernel.bytes.drain(..count);
        kernel.receiver.take().into_iter().for_each(Waker::wake);
        self.ledger.flow(self.local, |flow| flow.read += count as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.write).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = polled {
            self.ledger.flow(self.local, |flow| flow.sent += bytes as u64);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(cx)
    }
}

//! Agents on stdio: lines of JSON-RPC over pipes in memory to the very bridge that `relay mcp` runs, which connects
//! over simulated TCP.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use relay::cli::mcp::{self, Connect, Connection};
use relay::engine::AgentName;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadBuf, duplex,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::client::{Answer, SERVER, Settings, now_ms};
use crate::history::{Incarnation, Log};
use crate::net::{ClientIo, Ledger, Process};
use crate::plan::projects::project;
use crate::plan::team;
use crate::tap::Bug;
use crate::team::instance;

/// What a pipe holds, in bytes: as much as Linux gives it.
const PIPE_BYTES: usize = 64 * 1024;

/// How long a connection may take to come about, as in `relay mcp`.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The id of the handshake; calls have others.
const HANDSHAKE_ID: u64 = 0;

/// How the bridge's own errors begin, which are no answers of relay's, and what they are called in the history.
const TROUBLES: [(&str, &str); 6] = [
    ("Relay is not running", "relay is not running"),
    ("Error: relay went away during the call", "relay went away"),
    ("Error: relay cannot be reached", "relay cannot be reached"),
    ("Error: Relay daemon is not running", "relay is not running"),
    (
        "Error: Connection error: relay went away during the call",
        "relay went away",
    ),
    (
        "Error: Connection error: relay cannot be reached",
        "relay cannot be reached",
    ),
];

/// Tells whether a call ended with an error of the bridge's, after which its agent goes on.
pub fn is_trouble(why: &str) -> bool {
    TROUBLES.iter().any(|(_, name)| *name == why)
}

/// One agent process and the bridge that it has started. Dropped, the agent dies: its stdin and its stdout are gone.
pub struct Stdio {
    state: Rc<State>,
    lines: mpsc::UnboundedSender<String>,
    pipe: Arc<Pipe>,
    incarnation: Incarnation,
    settings: Settings,
    ends_in_order: Cell<bool>,
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    pending: RefCell<BTreeMap<u64, oneshot::Sender<Value>>>,
    /// Ids whose answers are ignored, if they come at all.
    ignored: RefCell<BTreeMap<u64, ()>>,
    stalled_ms: Cell<u64>,
}

/// What both ends of stdout know.
#[derive(Default)]
struct Pipe {
    written: AtomicU64,
    read: AtomicU64,
    reader_is_gone: AtomicBool,
}

impl Stdio {
    /// Starts a bridge, and makes the handshake.
    pub fn open(settings: Settings) -> Self {
        let incarnation = settings.log.opened(now_ms());
        let pipe = Arc::new(Pipe::default());
        let (stdin, bridge_stdin) = duplex(PIPE_BYTES);
        let (bridge_stdout, stdout) = duplex(PIPE_BYTES);
        let bridge_stdout = Stdout {
            inner: bridge_stdout,
            pipe: Arc::clone(&pipe),
        };
        let connect = SimTcp {
            ledger: settings.ledger.clone(),
            never_breaks_off: settings.bug == Some(Bug::BridgeNeverBreaksOff),
        };
        let mate = settings.mate;
        let own = mate.map(|mate| team::mate(mate.number));
        let own = own.or_else(|| settings.bound_to.clone());
        let label = |crew: usize| team::crew(crew).parse().expect("a word and a number are a role");
        let bridge = mcp::Settings {
            program: "relay".to_owned(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, SERVER.1)),
            identity: own
                .map(|own| mcp::Identity::named(AgentName::new(&own).expect("the plan's names are legal")))
                .map(|own| mcp::Identity {
                    role: mate.map(|mate| label(mate.crew)),
                    ..own
                }),
            project: mate
                .filter(|mate| mate.project > 0)
                .map(|mate| project(mate.project).parse().expect("a word is a project")),
            toolsets: mate.map_or(relay::tools::DEFAULT, |mate| {
                mate.tools.name().parse().expect("there are such tools")
            }),
            directory: None,
            instance: mate.map_or(Uuid::nil(), instance),
            token: None,
            reply_max: Some(settings.reply_max),
            session: Uuid::from_u128(incarnation.0 as u128),
        };
        tokio::spawn(mcp::run(bridge_stdin, bridge_stdout, bridge, connect));
        let state = Rc::<State>::default();
        let (lines, queue) = mpsc::unbounded_channel();
        let (greeted, answered) = oneshot::channel();
        let hearing = hear(
            stdout,
            Rc::clone(&state),
            Arc::clone(&pipe),
            greeted,
            settings.log.clone(),
        );
        Self {
            state,
            lines,
            pipe,
            incarnation,
            settings,
            ends_in_order: Cell::new(false),
            writer: spawn_local(say(stdin, queue, answered)),
            reader: spawn_local(hearing),
        }
    }

    /// Makes a call.
    pub async fn call(&self, id: u64, message: &Value, patience: Duration) -> (Option<Incarnation>, Answer) {
        let (sender, answer) = oneshot::channel();
        self.settings.marks.hit("stdio call");
        self.state.ignored.borrow_mut().remove(&id);
        self.state.pending.borrow_mut().insert(id, sender);
        self.say(message);
        let answer = match timeout(patience, answer).await {
            Ok(Ok(answer)) => without_trouble(answer),
            Ok(Err(_)) => Err("the bridge ended"),
            Err(_) => Err("no answer in time"),
        };
        (Some(self.incarnation), answer)
    }

    /// Cancels a call, which may have its answer already.
    pub fn cancel(&self, id: u64) {
        self.settings.marks.hit("stdio call cancelled");
        self.state.pending.borrow_mut().remove(&id);
        self.state.ignored.borrow_mut().insert(id, ());
        self.say(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
        }));
    }

    /// Reads nothing for a while.
    pub fn stall(&self, ms: u64) {
        self.state.stalled_ms.set(ms);
    }

    /// Lets stdin end when this is dropped, and reads what is still to come.
    pub fn end_in_order(&self) {
        self.ends_in_order.set(true);
    }

    fn say(&self, message: &Value) {
        // A bridge that is gone takes nothing; its agent hears that from stdout.
        let _ = self.lines.send(format!("{message}\n"));
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.settings.log.closed(now_ms(), self.incarnation);
        if self.ends_in_order.get() {
            return;
        }
        self.pipe.reader_is_gone.store(true, Ordering::Relaxed);
        if self.pipe.written.load(Ordering::Relaxed) > self.pipe.read.load(Ordering::Relaxed) {
            self.settings.marks.hit("stdio agent died with an answer unread");
        }
        self.writer.abort();
        self.reader.abort();
    }
}

/// Tells the bridge's own errors from relay's answers.
fn without_trouble(answer: Value) -> Answer {
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default();
    if answer["result"]["isError"] == true
        && let Some((_, name)) = TROUBLES.iter().find(|(begin, _)| text.starts_with(begin))
    {
        return Err(name);
    }
    Ok(answer)
}

/// Writes the handshake, then whatever the agent says, and lets stdin end after that.
async fn say(
    mut stdin: DuplexStream,
    mut queue: mpsc::UnboundedReceiver<String>,
    greeted: oneshot::Receiver<()>,
) {
    let client = json!({"name": "sim", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": HANDSHAKE_ID, "method": "initialize", "params": params});
    if stdin.write_all(format!("{hello}\n").as_bytes()).await.is_err() || greeted.await.is_err() {
        return;
    }
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let mut line = format!("{ready}\n");
    while stdin.write_all(line.as_bytes()).await.is_ok() {
        let Some(next) = queue.recv().await else {
            return;
        };
        line = next;
    }
}

/// Reads stdout to its end.
async fn hear(
    stdout: DuplexStream,
    state: Rc<State>,
    pipe: Arc<Pipe>,
    greeted: oneshot::Sender<()>,
    log: Log,
) {
    let mut greeted = Some(greeted);
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    loop {
        line.clear();
        if !matches!(stdout.read_line(&mut line).await, Ok(1..)) {
            // Nobody is answered any more.
            state.pending.borrow_mut().clear();
            return;
        }
        // What was read is in the process, but it looks at nothing.
        sleep(Duration::from_millis(state.stalled_ms.take())).await;
        pipe.read.fetch_add(line.len() as u64, Ordering::Relaxed);
        let message: Value = serde_json::from_str(&line).expect("the bridge's lines are JSON");
        let id = message["id"].as_u64();
        if id == Some(HANDSHAKE_ID)
            && let Some(greeted) = greeted.take()
        {
            // The writer may be gone with its agent.
            let _ = greeted.send(());
            continue;
        }
        let waiting = id.and_then(|id| state.pending.borrow_mut().remove(&id));
        match waiting {
            Some(sender) => drop(sender.send(message)),
            None if id.is_some_and(|id| state.ignored.borrow().contains_key(&id)) => {}
            None => log
                .history()
                .stray_answers
                .push(format!("{} from a bridge", line.trim_end())),
        }
    }
}

/// The bridge's stdout. Its flush fails once nobody can read what was written.
struct Stdout {
    inner: DuplexStream,
    pipe: Arc<Pipe>,
}

impl AsyncWrite for Stdout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.pipe.written.fetch_add(bytes as u64, Ordering::Relaxed);
        Poll::Ready(Ok(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pipe.reader_is_gone.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Connects over simulated TCP.
struct SimTcp {
    ledger: Ledger,
    never_breaks_off: bool,
}

impl Connect for SimTcp {
    type Connection = BridgeIo;

    async fn connect(&self) -> io::Result<BridgeIo> {
        let connecting = ClientIo::connect_from_anywhere(SERVER, self.ledger.clone());
        let io = timeout(CONNECT_PATIENCE, connecting)
            .await
            .map_err(|_| io::ErrorKind::TimedOut)??;
        Ok(BridgeIo {
            process: io.process(),
            io,
            breaks_off: AtomicBool::new(!self.never_breaks_off),
            never_breaks_off: self.never_breaks_off,
        })
    }
}

/// How often a bridge looks whether a connection that rests has ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The bridge's end of a connection.
struct BridgeIo {
    io: ClientIo,
    process: Process,
    breaks_off: AtomicBool,
    never_breaks_off: bool,
}

impl BridgeIo {
    fn io(&mut self) -> Pin<&mut ClientIo> {
        Pin::new(&mut self.io)
    }
}

impl Drop for BridgeIo {
    fn drop(&mut self) {
        if *self.breaks_off.get_mut() {
            self.process.abort();
        }
    }
}

impl Connection for BridgeIo {
    fn break_off_when_dropped(&self, yes: bool) {
        self.breaks_off
            .store(yes && !self.never_breaks_off, Ordering::Relaxed);
    }

    fn is_open(&self) -> bool {
        self.io.is_open()
    }

    /// A connection of the simulation wakes nobody by its end who does not read.
    async fn ended(&self) {
        loop {
            sleep(LOOK_EVERY).await;
            if !self.is_open() {
                return;
            }
        }
    }
}

impl AsyncRead for BridgeIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(cx, buf)
    }
}

impl AsyncWrite for BridgeIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(cx)
    }
}

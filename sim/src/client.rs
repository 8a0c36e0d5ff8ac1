//! MCP sessions as clients keep them: over HTTP+SSE with an event source that reconnects by itself, and over
//! streamable HTTP with connections that are kept or not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};

use crate::history::{Incarnation, Log};
use crate::marks::Marks;
use crate::net::{ClientIo, Ledger, Stall};
use crate::plan::Transport;

/// Where the server is.
pub const SERVER: (&str, u16) = ("relay", 7331);

/// What a client waits before it opens its stream anew: what relay asks for.
const RETRY: Duration = Duration::from_millis(200);

/// How long a client waits for the answer to anything that does not wait by itself.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a session needs to know.
#[derive(Clone)]
pub struct Settings {
    /// How it connects.
    pub transport: Transport,
    /// The role that it is bound to.
    pub bound_to: Option<String>,
    /// A stream that is mute for longer is dropped.
    pub mute_max: Duration,
    /// Where sockets tell what they do.
    pub ledger: Ledger,
    /// Where connections are noted.
    pub log: Log,
    /// Where what happened is counted.
    pub marks: Marks,
}

thread_local! {
    /// The time of the step that the run is in, for what happens between the hosts' turns.
    static STEP_MS: Cell<u64> = const { Cell::new(0) };
}

/// Says what time it is between the hosts' turns, in milliseconds.
pub fn set_step_ms(ms: u64) {
    STEP_MS.set(ms);
}

/// Returns the simulated time, in milliseconds.
pub fn now_ms() -> u64 {
    match turmoil::sim_elapsed() {
        Some(elapsed) => u64::try_from(elapsed.as_millis()).expect("a run is short"),
        None => STEP_MS.get(),
    }
}

/// Ends a task with whatever it holds.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection for one exchange at a time.
struct Exchanger {
    sender: SendRequest<Full<Bytes>>,
    incarnation: Incarnation,
    stall: Stall,
    log: Log,
    _task: Task,
}

impl Drop for Exchanger {
    fn drop(&mut self) {
        self.log.closed(now_ms(), self.incarnation);
    }
}

impl Exchanger {
    async fn connect(settings: &Settings) -> Option<Self> {
        let io = ClientIo::connect(SERVER, settings.ledger.clone()).await.ok()?;
        let stall = io.stall();
        let (sender, connection) = handshake(TokioIo::new(io)).await.ok()?;
        let task = spawn_local(async move {
            let _ = connection.await;
        });
        Some(Self {
            sender,
            incarnation: settings.log.opened(now_ms()),
            stall,
            log: settings.log.clone(),
            _task: Task(task),
        })
    }
}

/// Says that a connection's process is gone without having read what its kernel has; drop it then.
struct Abort(Option<Stall>);

impl Drop for Abort {
    fn drop(&mut self) {
        if let Some(stall) = self.0.take() {
            stall.abort();
        }
    }
}

/// One MCP session.
pub struct Session {
    settings: Settings,
    ids: Cell<u64>,
    idle: RefCell<Vec<Exchanger>>,
    stream: Option<Stream>,
}

/// The stream of a session over HTTP+SSE.
struct Stream {
    shared: Rc<StreamState>,
    _task: Task,
}

struct StreamState {
    endpoint: watch::Sender<Option<(String, Incarnation)>>,
    pending: RefCell<BTreeMap<u64, oneshot::Sender<Value>>>,
    /// Ids that had their answer, or will not have one.
    done: RefCell<BTreeMap<u64, &'static str>>,
    stalled_ms: Cell<u64>,
    drop_stream: tokio::sync::Notify,
}

/// What came back from a call.
pub type Answer = Result<Value, &'static str>;

impl Session {
    /// Makes a session; a stream is opened at once and kept open.
    pub fn open(settings: Settings) -> Self {
        let stream = (settings.transport == Transport::Sse).then(|| Stream::open(settings.clone()));
        Self {
            settings,
            ids: Cell::new(0),
            idle: RefCell::default(),
            stream,
        }
    }

    /// Draws the id of a next call.
    pub fn next_id(&self) -> u64 {
        self.ids.set(self.ids.get() + 1);
        self.ids.get()
    }

    /// Calls a tool and returns its answer, with the connection that the server takes for the session.
    pub async fn call(
        &self,
        id: u64,
        tool: &str,
        arguments: Value,
        patience: Duration,
    ) -> (Option<Incarnation>, Answer) {
        let message = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments},
        });
        match &self.stream {
            None => self.exchange(&message, patience).await,
            Some(stream) => self.call_into(stream, id, &message, patience).await,
        }
    }

    /// Cancels a call; returns whether the server has taken note.
    pub async fn cancel(&self, id: u64) -> bool {
        let Some(stream) = &self.stream else {
            return false;
        };
        stream.shared.done.borrow_mut().insert(id, "cancelled");
        stream.shared.pending.borrow_mut().remove(&id);
        let message = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
        });
        let Some((path, _)) = stream.endpoint().await else {
            return false;
        };
        let posted = timeout(PATIENCE, self.post(&path, &message)).await;
        matches!(posted, Ok(Some((202, _))))
    }

    /// Drops all connections; a stream comes back under its old id.
    pub fn reconnect(&self) {
        self.idle.borrow_mut().clear();
        if let Some(stream) = &self.stream {
            stream.shared.drop_stream.notify_one();
        }
    }

    /// Reads nothing for a while.
    pub fn stall(&self, ms: u64) {
        if let Some(stream) = &self.stream {
            stream.shared.stalled_ms.set(ms);
        }
    }

    /// Posts into a stream and waits there for the answer.
    async fn call_into(
        &self,
        stream: &Stream,
        id: u64,
        message: &Value,
        patience: Duration,
    ) -> (Option<Incarnation>, Answer) {
        let Ok(Some((path, incarnation))) = timeout(PATIENCE, stream.endpoint()).await else {
            return (None, Err("no stream"));
        };
        let (sender, answer) = oneshot::channel();
        stream.shared.done.borrow_mut().remove(&id);
        stream.shared.pending.borrow_mut().insert(id, sender);
        let forget = Forget {
            state: Rc::clone(&stream.shared),
            id,
        };
        let called = async {
            match self.post(&path, message).await {
                Some((202, _)) => {}
                Some(_) => return Err("not accepted"),
                None => return Err("the connection broke"),
            }
            answer.await.map_err(|_| "the stream broke")
        };
        let answer = timeout(patience, called)
            .await
            .unwrap_or(Err("no answer in time"));
        drop(forget);
        // The stream may have come back under its old id between the call and its answer.
        let answered_over = stream
            .shared
            .endpoint
            .borrow()
            .as_ref()
            .map(|(_, incarnation)| *incarnation);
        (answered_over.or(Some(incarnation)), answer)
    }

    /// Posts into the address of a stream.
    async fn post(&self, path: &str, message: &Value) -> Option<(u16, Bytes)> {
        let idle = self.idle.borrow_mut().pop();
        let mut exchanger = match idle.filter(|exchanger| exchanger.sender.is_ready()) {
            Some(exchanger) => exchanger,
            None => Exchanger::connect(&self.settings).await?,
        };
        let answered = exchanger.request(path, message).await?;
        self.idle.borrow_mut().push(exchanger);
        Some(answered)
    }

    /// Calls over streamable HTTP.
    async fn exchange(&self, message: &Value, patience: Duration) -> (Option<Incarnation>, Answer) {
        let query = self
            .settings
            .bound_to
            .as_ref()
            .map(|role| format!("?agent={role}"))
            .unwrap_or_default();
        let idle = self.idle.borrow_mut().pop();
        let connected = match idle.filter(|exchanger| exchanger.sender.is_ready()) {
            Some(exchanger) => Some(exchanger),
            None => timeout(PATIENCE, Exchanger::connect(&self.settings))
                .await
                .ok()
                .flatten(),
        };
        let Some(mut exchanger) = connected else {
            return (None, Err("no connection"));
        };
        let incarnation = exchanger.incarnation;
        let mut abort = Abort(Some(exchanger.stall.clone()));
        let path = format!("/mcp{query}");
        let answer = match timeout(patience, exchanger.request(&path, message)).await {
            Ok(Some((200, body))) => serde_json::from_slice(&body).map_err(|_| "no JSON"),
            Ok(Some(_)) => Err("not accepted"),
            Ok(None) => Err("the connection broke"),
            Err(_) => Err("no answer in time"),
        };
        if answer.is_ok() {
            abort.0 = None;
            if self.settings.transport == Transport::Http {
                self.idle.borrow_mut().push(exchanger);
            }
        }
        (Some(incarnation), answer)
    }
}

impl Exchanger {
    async fn request(&mut self, path: &str, message: &Value) -> Option<(u16, Bytes)> {
        let request = Request::post(path)
            .header("host", "localhost:7331")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Full::new(Bytes::from(message.to_string())))
            .expect("a request");
        let response = self.sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?;
        Some((status, body.to_bytes()))
    }

    /// Asks for the server's health.
    async fn health(&mut self) -> Option<Value> {
        let request = Request::get("/health")
            .header("host", "localhost:7331")
            .body(Full::default())
            .expect("a request");
        let response = self.sender.send_request(request).await.ok()?;
        let body = response.into_body().collect().await.ok()?;
        serde_json::from_slice(&body.to_bytes()).ok()
    }
}

/// Asks a server for its health over a connection of its own.
pub async fn health(settings: &Settings) -> Option<Value> {
    let mut exchanger = Exchanger::connect(settings).await?;
    timeout(PATIENCE, exchanger.health()).await.ok().flatten()
}

/// Forgets a call whose client does not wait for it any more.
struct Forget {
    state: Rc<StreamState>,
    id: u64,
}

impl Drop for Forget {
    fn drop(&mut self) {
        if self.state.pending.borrow_mut().remove(&self.id).is_some() {
            self.state.done.borrow_mut().insert(self.id, "given up");
        }
    }
}

impl Stream {
    fn open(settings: Settings) -> Self {
        let shared = Rc::new(StreamState {
            endpoint: watch::Sender::new(None),
            pending: RefCell::default(),
            done: RefCell::default(),
            stalled_ms: Cell::new(0),
            drop_stream: tokio::sync::Notify::new(),
        });
        let task = spawn_local(keep_open(settings, Rc::clone(&shared)));
        Self {
            shared,
            _task: Task(task),
        }
    }

    /// Returns the address to post to, once there is one.
    async fn endpoint(&self) -> Option<(String, Incarnation)> {
        let mut endpoint = self.shared.endpoint.subscribe();
        let known = endpoint.wait_for(Option::is_some).await.ok()?;
        known.clone()
    }
}

/// A stream that is open; its end is noted however it comes.
struct Open {
    incarnation: Incarnation,
    log: Log,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.log.closed(now_ms(), self.incarnation);
    }
}

/// Keeps a stream open, as an event source does: for ever.
async fn keep_open(settings: Settings, state: Rc<StreamState>) {
    let mut last_event_id = None;
    loop {
        let ended = tokio::select! {
            () = state.drop_stream.notified() => "dropped",
            () = read_stream(&settings, &state, &mut last_event_id) => "broke",
        };
        let gone = state.endpoint.borrow().clone();
        if let Some((_, incarnation)) = gone {
            settings
                .log
                .trace(now_ms(), format_args!("stream {} {ended}", incarnation.0));
        }
        // What was under way has no answer; what is called next goes to the old address, if it is quick.
        let broken = std::mem::take(&mut *state.pending.borrow_mut());
        state
            .done
            .borrow_mut()
            .extend(broken.into_keys().map(|id| (id, "broken")));
        sleep(RETRY).await;
    }
}

async fn read_stream(settings: &Settings, state: &StreamState, last_event_id: &mut Option<String>) {
    let Some((mut body, stall, _task)) = open_stream(settings, last_event_id.as_deref()).await else {
        return;
    };
    let open = Open {
        incarnation: settings.log.opened(now_ms()),
        log: settings.log.clone(),
    };
    let incarnation = open.incarnation;
    let mut text = String::new();
    loop {
        let stalled_ms = state.stalled_ms.take();
        if stalled_ms > 0 {
            stall.set(true);
            sleep(Duration::from_millis(stalled_ms)).await;
            stall.set(false);
        }
        let Ok(Some(Ok(frame))) = timeout(settings.mute_max, body.frame()).await else {
            return;
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        text.push_str(std::str::from_utf8(&data).expect("relay's events are whole in a frame, and UTF-8"));
        while let Some((event, rest)) = text.split_once("\n\n") {
            take_event(settings, state, incarnation, event, last_event_id);
            text = rest.to_owned();
        }
    }
}

fn take_event(
    settings: &Settings,
    state: &StreamState,
    incarnation: Incarnation,
    event: &str,
    id: &mut Option<String>,
) {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    if let Some(new) = field("id: ") {
        *id = Some(new.to_owned());
    }
    let Some(data) = field("data: ") else {
        return;
    };
    if field("event: ") == Some("endpoint") {
        settings
            .log
            .trace(now_ms(), format_args!("stream {} opened", incarnation.0));
        let before = state.endpoint.send_replace(Some((data.to_owned(), incarnation)));
        if before.is_some_and(|(address, _)| address == data) {
            settings.marks.hit("stream came back under its old id");
        }
        return;
    }
    let message: Value = serde_json::from_str(data).expect("relay's messages are JSON");
    let id = message["id"]
        .as_u64()
        .expect("relay answers, and asks for nothing");
    let waiting = state.pending.borrow_mut().remove(&id);
    let done = state.done.borrow_mut().insert(id, "answered");
    match (waiting, done) {
        (Some(sender), _) => drop(sender.send(message)),
        (None, Some("cancelled" | "given up" | "broken")) => {}
        (None, _) => settings
            .log
            .history()
            .stray_answers
            .push(format!("{} over {}", data, incarnation.0)),
    }
}

async fn open_stream(settings: &Settings, last_event_id: Option<&str>) -> Option<(Incoming, Stall, Task)> {
    let io = ClientIo::connect(SERVER, settings.ledger.clone()).await.ok()?;
    let stall = io.stall();
    let (mut sender, connection) = handshake::<_, Full<Bytes>>(TokioIo::new(io)).await.ok()?;
    let task = Task(spawn_local(async move {
        let _ = connection.await;
    }));
    let query = settings
        .bound_to
        .as_ref()
        .map(|role| format!("?agent={role}"))
        .unwrap_or_default();
    let mut request = Request::get(format!("/sse{query}")).header("host", "localhost:7331");
    if let Some(id) = last_event_id {
        request = request.header("last-event-id", id);
    }
    let request = request.body(Full::default()).expect("a request");
    let response = timeout(settings.mute_max, sender.send_request(request))
        .await
        .ok()?
        .ok()?;
    // hyper closes a connection whose sender is gone only when the exchange is over.
    (response.status() == 200).then(|| (response.into_body(), stall, task))
}

//! MCP sessions as clients keep them: over HTTP+SSE with an event source that reconnects by itself, and over
//! streamable HTTP with connections that are kept or not.

mod exchange;
mod pipe;
mod stream;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use relay::tools::ReplyBytes;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use exchange::health;
pub use pipe::Pipe;
pub use stream::RETRY as STREAM_RETRY;

use crate::history::{Incarnation, Log, Loss, TOLD};
use crate::marks::Marks;
use crate::net::Ledger;
use crate::plan::team::Mate;
use crate::plan::{Dialect, Transport};
use crate::stdio::Stdio;
use crate::tap::Bug;
use exchange::{Abort, Exchanged, Exchanger};
use stream::{Forget, Pending, Stream, is_orphan};

/// Where the server is.
pub const SERVER: (&str, u16) = ("relay", 7331);

/// How long a client waits for the answer to anything that does not wait by itself.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Room for all that an inbox of a run holds.
pub const ROOM_FOR_ALL: ReplyBytes = ReplyBytes::kb(ReplyBytes::KB_MAX);

/// What a session needs to know.
#[derive(Clone)]
pub struct Settings {
    /// How it connects.
    pub transport: Transport,
    /// Which protocol it speaks.
    pub dialect: Dialect,
    /// The role that it is bound to, or the agent that it registers.
    pub bound_to: Option<String>,
    /// Who registers by it.
    pub mate: Option<Mate>,
    /// What its address says in the place of these, not over stdio.
    pub address: Option<String>,
    /// How much of a reply it shows.
    pub reply_max: ReplyBytes,
    /// A stream that is mute for longer is dropped.
    pub mute_max: Duration,
    /// Where sockets tell what they do.
    pub ledger: Ledger,
    /// Where connections are noted.
    pub log: Log,
    /// Where what happened is counted.
    pub marks: Marks,
    /// What is wrong on purpose.
    pub bug: Option<Bug>,
}

impl Settings {
    /// Returns what is behind the path of a transport's address.
    fn query(&self) -> String {
        let query = match (self.mate, &self.address, &self.bound_to) {
            (Some(mate), _, _) => format!("{}&", crate::team::query(mate)),
            (None, Some(address), _) => format!("?{address}&"),
            (None, None, Some(role)) => format!("?agent={role}&"),
            (None, None, None) => "?".to_owned(),
        };
        format!("{query}reply_kb={}", self.reply_max)
    }

    /// Notes that a call was told of progress; `told` is none if it did not ask for it, or is none of this session's.
    fn tell(&self, told: Option<&Told>, message: &Value) {
        if self.bug == Some(Bug::ProgressLost) {
            return;
        }
        self.marks.hit("progress told");
        match told {
            Some(told) => told.0.borrow_mut().push(now_ms()),
            None => self.log.history().stray_progress.push(message.to_string()),
        }
    }
}

/// What a call ends with that is not let in, as a later instance has taken its agent over.
pub const FENCED: &str = "not let in: taken over";

/// How long the client's connection may take to say that a call was taken whose answer is there already.
const ACCEPTED_LATE: Duration = Duration::from_secs(2);

/// When a call was told of progress, in milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Told(pub Rc<RefCell<Vec<u64>>>);

/// Each time that a call lost its stream while it waited.
#[derive(Debug, Clone, Default)]
pub struct Losses(pub Rc<RefCell<Vec<Loss>>>);

/// A request.
pub struct Ask {
    /// Its id, and its token if it asks for progress.
    pub id: u64,
    /// The method.
    pub method: &'static str,
    /// The parameters.
    pub params: Value,
    /// How long the client waits for the answer: longer than [`PATIENCE`] by what the server may wait.
    pub patience: Duration,
    /// Where it is noted that progress was told; none if it does not ask for that.
    pub told: Option<Told>,
    /// Where it is noted that a wait lost its stream.
    pub losses: Losses,
}

impl Ask {
    /// Tells whether the server may take its time to answer.
    fn waits(&self) -> bool {
        self.patience > PATIENCE
    }
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

/// One MCP session.
pub struct Session {
    settings: Settings,
    ids: Cell<u64>,
    idle: RefCell<Vec<Exchanger>>,
    stream: Option<Stream>,
    /// What relay gave out at the handshake, over streamable HTTP.
    id: RefCell<Option<String>>,
    stdio: RefCell<Option<Rc<Stdio>>>,
}

/// What came back from a call.
pub type Answer = Result<Value, &'static str>;

impl Session {
    /// Makes a session; a stream is opened at once and kept open, and a bridge is started at once.
    pub fn open(settings: Settings) -> Self {
        let stream = (settings.transport == Transport::Sse).then(|| Stream::open(settings.clone()));
        let stdio = (settings.transport == Transport::Stdio).then(|| Rc::new(Stdio::open(settings.clone())));
        Self {
            settings,
            stdio: RefCell::new(stdio),
            ids: Cell::new(0),
            idle: RefCell::default(),
            stream,
            id: RefCell::default(),
        }
    }

    /// Draws the id of a next call.
    pub fn next_id(&self) -> u64 {
        self.ids.set(self.ids.get() + 1);
        self.ids.get()
    }

    /// Tells whether relay knows the session by an id that it gave out or that the bridge has drawn, or by its stream, so that a request can be
    /// cancelled.
    pub fn can_cancel(&self) -> bool {
        self.stream.is_some() || self.id.borrow().is_some() || self.stdio.borrow().is_some()
    }

    /// Tells whether relay gave out an id for the session.
    pub fn has_id(&self) -> bool {
        self.id.borrow().is_some()
    }

    /// Asks, and returns the answer with the connection that the server takes for the session.
    pub async fn ask(&self, ask: &Ask) -> (Option<Incarnation>, Answer) {
        let panics = self.settings.bug == Some(Bug::Panics) && ask.id == 5;
        assert!(!panics, "a seeded panic");
        let message = self.message(ask);
        let stdio = self.stdio.borrow().clone();
        if let Some(stdio) = stdio {
            return stdio.call(ask.id, &message, ask.patience).await;
        }
        match &self.stream {
            None => self.exchange(ask, &message).await,
            Some(stream) => self.call_into(stream, ask, &message).await,
        }
    }

    /// Writes two requests at once; none if there is no connection. Only over streamable HTTP.
    pub async fn pipeline(&self, asks: &[Ask; 2]) -> Option<Pipe> {
        let messages = asks.each_ref().map(|ask| self.message(ask));
        let path = format!("/mcp{}", self.settings.query());
        let headers = self.headers(None);
        let open = Pipe::open(&self.settings, &path, &headers, &messages);
        timeout(PATIENCE, open).await.ok().flatten()
    }

    /// Cancels a call; returns whether the server has taken note. Over stdio nobody says so.
    pub async fn cancel(&self, id: u64) -> bool {
        if let Some(stdio) = &*self.stdio.borrow() {
            stdio.cancel(id);
            return false;
        }
        let params = json!({"requestId": id});
        if let Some(stream) = &self.stream {
            stream.shared.done.borrow_mut().insert(id, "cancelled");
            stream.shared.pending.borrow_mut().remove(&id);
        }
        self.notify("notifications/cancelled", &params).await
    }

    /// Sends a notification; returns whether the server has taken note.
    pub async fn notify(&self, method: &str, params: &Value) -> bool {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let path = match &self.stream {
            None => format!("/mcp{}", self.settings.query()),
            Some(stream) => match stream.endpoint().await {
                None => return false,
                Some((path, _)) => path,
            },
        };
        let posted = timeout(PATIENCE, self.post(&path, &message)).await;
        matches!(posted, Ok(Some(Exchanged { status: 202, .. })))
    }

    /// Drops all connections; a stream comes back under its old id, and a bridge after the orderly end of the one before.
    pub fn reconnect(&self) {
        if let Some(stdio) = &mut *self.stdio.borrow_mut() {
            stdio.end_in_order();
            *stdio = Rc::new(Stdio::open(self.settings.clone()));
        }
        self.idle.borrow_mut().clear();
        if let Some(stream) = &self.stream {
            stream.shared.drop_stream.notify_one();
        }
    }

    /// Lets the session end in order when this is dropped, where there is another way.
    pub fn leave(&self) {
        if let Some(stdio) = &*self.stdio.borrow() {
            stdio.end_in_order();
        }
    }

    /// Reads nothing for a while.
    pub fn stall(&self, ms: u64) {
        if let Some(stdio) = &*self.stdio.borrow() {
            stdio.stall(ms);
        }
        if let Some(stream) = &self.stream {
            stream.shared.stalled_ms.set(ms);
        }
    }

    fn message(&self, ask: &Ask) -> Value {
        let mut params = ask.params.clone();
        if ask.told.is_some() {
            params["_meta"]["progressToken"] = json!(ask.id);
        }
        if self.settings.dialect == Dialect::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(Dialect::Modern.version());
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        json!({"jsonrpc": "2.0", "id": ask.id, "method": ask.method, "params": params})
    }

    /// Returns the headers of a request to `/mcp`.
    fn headers(&self, ask: Option<&Ask>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        let greeted = self.id.borrow();
        if let Some(id) = greeted.as_ref() {
            headers.push(("mcp-session-id", id.clone()));
        }
        let dialect = self.settings.dialect;
        if dialect == Dialect::Modern || greeted.is_some() {
            headers.push(("mcp-protocol-version", dialect.version().to_owned()));
        }
        if let (Dialect::Modern, Some(ask)) = (dialect, ask) {
            headers.push(("mcp-method", ask.method.to_owned()));
            if let Some(name) = ask.params["name"].as_str() {
                headers.push(("mcp-name", name.to_owned()));
            }
        }
        headers
    }

    /// Posts into a stream and waits there for the answer.
    async fn call_into(&self, stream: &Stream, ask: &Ask, message: &Value) -> (Option<Incarnation>, Answer) {
        let Ok(Some((path, incarnation))) = timeout(PATIENCE, stream.endpoint()).await else {
            return (None, Err("no stream"));
        };
        let (sender, mut answer) = oneshot::channel();
        stream.shared.done.borrow_mut().remove(&ask.id);
        let pending = Pending {
            answer: sender,
            sent_ms: now_ms(),
            told: ask.told.clone(),
            losses: ask.waits().then(|| ask.losses.clone()),
            accepted_ms: None,
        };
        stream.shared.pending.borrow_mut().insert(ask.id, pending);
        let forget = Forget {
            state: Rc::clone(&stream.shared),
            id: ask.id,
        };
        let called = async {
            let mut posting = pin!(self.post(&path, message));
            let answer = tokio::select! {
                biased;
                posted = &mut posting => match posted {
                    Some(Exchanged { status: 202, .. }) => {
                        stream.shared.accepted(ask.id);
                        answer.await
                    }
                    Some(_) => return Err("not accepted"),
                    None => return Err("the connection broke"),
                },
                answered = &mut answer => {
                    // It has its answer, whatever becomes of the request.
                    let _ = timeout(ACCEPTED_LATE, posting).await;
                    answered
                }
            };
            match answer {
                Ok(message) if is_orphan(&message) => Err(TOLD),
                Ok(message) => Ok(message),
                Err(_) => Err("the stream broke"),
            }
        };
        let answer = timeout(ask.patience, called)
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

    /// Posts something that nothing comes back from but that it was taken.
    async fn post(&self, path: &str, message: &Value) -> Option<Exchanged> {
        let mut exchanger = self.connection().await?;
        let headers = match &self.stream {
            None => self.headers(None),
            Some(_) => Vec::new(),
        };
        let posted = exchanger.post(path, &headers, message, |_| {}).await?;
        self.keep(exchanger);
        Some(posted)
    }

    /// Asks over streamable HTTP.
    async fn exchange(&self, ask: &Ask, message: &Value) -> (Option<Incarnation>, Answer) {
        let connected = timeout(PATIENCE, self.connection()).await;
        let Some(mut exchanger) = connected.ok().flatten() else {
            return (None, Err("no connection"));
        };
        let incarnation = exchanger.incarnation;
        let mut abort = Abort(Some(exchanger.process.clone()));
        let path = format!("/mcp{}", self.settings.query());
        let mut answers = Vec::new();
        let headers = self.headers(Some(ask));
        let exchanging = exchanger.post(&path, &headers, message, |message| {
            if message["method"] == "notifications/progress" {
                let own = message["params"]["progressToken"] == ask.id;
                self.settings.marks.hit("progress told over HTTP");
                self.settings.tell(ask.told.as_ref().filter(|_| own), &message);
            } else {
                answers.push(message);
            }
        });
        let exchanged = timeout(ask.patience, exchanging).await;
        let answer = match exchanged {
            Ok(Some(Exchanged { status: 200, session })) => {
                if session.is_some() {
                    *self.id.borrow_mut() = session;
                }
                // Its stream has begun, and says no more.
                if answers.is_empty() {
                    abort.0 = None;
                    self.keep(exchanger);
                    return (Some(incarnation), Err("its stream ended"));
                }
                self.only(ask, answers)
            }
            // Taken back by a cancellation, which is all that there is to say.
            Ok(Some(Exchanged { status: 202, .. })) => {
                abort.0 = None;
                self.keep(exchanger);
                return (Some(incarnation), Err("taken back"));
            }
            Ok(Some(Exchanged { status: 409, .. })) => Err(FENCED),
            Ok(Some(_)) => Err("not accepted"),
            Ok(None) => Err("the connection broke"),
            Err(_) => Err("no answer in time"),
        };
        if answer.is_ok() {
            abort.0 = None;
            self.keep(exchanger);
        }
        (Some(incarnation), answer)
    }

    /// Takes the one answer that an exchange must have.
    fn only(&self, ask: &Ask, mut answers: Vec<Value>) -> Answer {
        let answer = answers.pop().ok_or("no JSON")?;
        let mut history = self.settings.log.history();
        let strays = answers.into_iter().map(|stray| stray.to_string());
        history.stray_answers.extend(strays);
        if answer["id"] != ask.id {
            history.stray_answers.push(answer.to_string());
        }
        Ok(answer)
    }

    /// Takes a connection that is idle, or makes one.
    async fn connection(&self) -> Option<Exchanger> {
        let idle = self.idle.borrow_mut().pop();
        match idle.filter(|exchanger| exchanger.sender.is_ready()) {
            Some(exchanger) => Some(exchanger),
            None => Exchanger::connect(&self.settings).await,
        }
    }

    /// Keeps a connection for the next exchange, unless there is one for each.
    fn keep(&self, exchanger: Exchanger) {
        if self.settings.transport != Transport::HttpOnce {
            self.idle.borrow_mut().push(exchanger);
        }
    }
}

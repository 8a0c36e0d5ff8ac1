//! The stream of a session over HTTP+SSE, kept open as an event source does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::{Losses, SERVER, Settings, Task, Told, now_ms};
use crate::history::{Incarnation, Log, Loss};
use crate::net::ClientIo;
use crate::tap::Bug;

/// What a client waits before it opens its stream anew: what relay asks for.
pub const RETRY: Duration = Duration::from_millis(200);

/// For how long a call that comes with the id of one of which relay has told counts as that one, in milliseconds: docs/CONTRACT.md.
const ON_ITS_WAY_MS: u64 = 1_000;

/// The stream of a session over HTTP+SSE.
pub(super) struct Stream {
    pub shared: Rc<StreamState>,
    _task: Task,
}

pub(super) struct StreamState {
    pub endpoint: watch::Sender<Option<(String, Incarnation)>>,
    pub pending: RefCell<BTreeMap<u64, Pending>>,
    /// Ids that had their answer, or will not have one.
    pub done: RefCell<BTreeMap<u64, &'static str>>,
    pub stalled_ms: Cell<u64>,
    /// When the stream was asked for that is open.
    asked_ms: Cell<u64>,
    pub drop_stream: tokio::sync::Notify,
}

/// A call that has no answer yet.
pub(super) struct Pending {
    pub answer: oneshot::Sender<Value>,
    pub sent_ms: u64,
    pub told: Option<Told>,
    /// Where it is noted that it lost its stream; none if it does not wait.
    pub losses: Option<Losses>,
    /// When the server had taken it, in milliseconds.
    pub accepted_ms: Option<u64>,
}

impl Pending {
    /// Notes the end of its stream; returns whether its client goes on waiting, as Claude Code and the TypeScript SDK do.
    fn lose_stream(&self) -> bool {
        let (Some(losses), Some(accepted_ms)) = (&self.losses, self.accepted_ms) else {
            return false;
        };
        let mut losses = losses.0.borrow_mut();
        if losses.last().is_none_or(|loss| loss.opened_ms.is_some()) {
            losses.push(Loss {
                accepted_ms,
                broke_ms: now_ms(),
                opened_ms: None,
            });
        }
        true
    }

    /// Notes that there is a stream again.
    fn find_stream(&self) {
        self.note_loss(|loss| loss.opened_ms = loss.opened_ms.or(Some(now_ms())));
    }

    /// Notes that the stream which is there again is not read for a while.
    fn stall(&self, stalled_ms: u64) {
        self.note_loss(|loss| loss.opened_ms = loss.opened_ms.map(|_| now_ms() + stalled_ms));
    }

    fn note_loss(&self, note: impl FnOnce(&mut Loss)) {
        let Some(losses) = &self.losses else { return };
        if let Some(loss) = losses.0.borrow_mut().last_mut() {
            note(loss);
        }
    }
}

impl StreamState {
    /// Notes that the server has taken a call.
    pub fn accepted(&self, id: u64) {
        if let Some(pending) = self.pending.borrow_mut().get_mut(&id) {
            pending.accepted_ms = Some(now_ms());
        }
    }

    /// Notes the end of the stream: what was under way has no answer, but for waits.
    fn lose_stream(&self) {
        let mut done = self.done.borrow_mut();
        self.pending.borrow_mut().retain(|id, call| {
            let stays = call.lose_stream();
            if !stays {
                done.insert(*id, "broken");
            }
            stays
        });
    }
}

/// Forgets a call whose client does not wait for it any more.
pub(super) struct Forget {
    pub state: Rc<StreamState>,
    pub id: u64,
}

impl Drop for Forget {
    fn drop(&mut self) {
        if self.state.pending.borrow_mut().remove(&self.id).is_some() {
            self.state.done.borrow_mut().insert(self.id, "given up");
        }
    }
}

impl Stream {
    pub fn open(settings: Settings) -> Self {
        let shared = Rc::new(StreamState {
            endpoint: watch::Sender::new(None),
            pending: RefCell::default(),
            done: RefCell::default(),
            stalled_ms: Cell::new(0),
            asked_ms: Cell::new(0),
            drop_stream: tokio::sync::Notify::new(),
        });
        let task = spawn_local(keep_open(settings, Rc::clone(&shared)));
        Self {
            shared,
            _task: Task(task),
        }
    }

    /// Returns the address to post to, once there is one.
    pub async fn endpoint(&self) -> Option<(String, Incarnation)> {
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
        // What is called next goes to the old address, if it is quick.
        state.lose_stream();
        sleep(RETRY).await;
    }
}

async fn read_stream(settings: &Settings, state: &StreamState, last_event_id: &mut Option<String>) {
    state.asked_ms.set(now_ms());
    let Some((mut body, _task)) = open_stream(settings, last_event_id.as_deref()).await else {
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
            state
                .pending
                .borrow()
                .values()
                .for_each(|call| call.stall(stalled_ms));
        }
        sleep(Duration::from_millis(stalled_ms)).await;
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
        state.pending.borrow().values().for_each(Pending::find_stream);
        return;
    }
    let message: Value = serde_json::from_str(data).expect("relay's messages are JSON");
    take_message(settings, state, incarnation, &message);
    if settings.bug == Some(Bug::AnsweredTwice) {
        take_message(settings, state, incarnation, &message);
    }
}

fn take_message(settings: &Settings, state: &StreamState, incarnation: Incarnation, message: &Value) {
    if let Some(token) = message["params"]["progressToken"].as_u64() {
        let told = match state.pending.borrow().get(&token) {
            Some(pending) => pending.told.clone(),
            // It crossed with the end of its call.
            None if state
                .done
                .borrow()
                .get(&token)
                .is_some_and(|why| *why != "answered") =>
            {
                return;
            }
            None => None,
        };
        return settings.tell(told.as_ref(), message);
    }
    let id = message["id"]
        .as_u64()
        .expect("relay answers, and asks for nothing");
    let waiting = state.pending.borrow_mut().remove(&id);
    // Of a call that was made over this stream, it is the news of another one with its id.
    let is_of_another = waiting
        .as_ref()
        .is_some_and(|pending| is_orphan(message) && pending.sent_ms >= state.asked_ms.get());
    let how = if is_of_another {
        "told of another"
    } else {
        "answered"
    };
    let done = state.done.borrow_mut().insert(id, how);
    match (waiting, done) {
        (Some(pending), _) => drop(pending.answer.send(message.clone())),
        // relay takes it for that one only if it comes soon.
        (None, Some("told of another")) if now_ms() > state.asked_ms.get() + ON_ITS_WAY_MS => {
            settings.marks.hit("answered after its id was told of");
        }
        (None, Some("cancelled" | "given up" | "broken")) => {}
        // relay cannot tell whose calls lost their streams, so it tells everybody who came back.
        (None, _) if is_orphan(message) => settings.marks.hit("told of a call that lost its stream"),
        (None, _) => settings
            .log
            .history()
            .stray_answers
            .push(format!("{message} over {}", incarnation.0)),
    }
}

/// Tells whether an answer says that its call lost the stream that it was made over.
pub(super) fn is_orphan(message: &Value) -> bool {
    let text = message["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default();
    message["result"]["isError"] == true && text.contains("while this call was under way")
}

async fn open_stream(settings: &Settings, last_event_id: Option<&str>) -> Option<(Incoming, Task)> {
    let io = ClientIo::connect(SERVER, settings.ledger.clone()).await.ok()?;
    let (mut sender, connection) = handshake::<_, Full<Bytes>>(TokioIo::new(io)).await.ok()?;
    let task = Task(spawn_local(async move {
        let _ = connection.await;
    }));
    let query = settings.query();
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
    (response.status() == 200).then(|| (response.into_body(), task))
}

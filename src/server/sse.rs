//! HTTP+SSE of protocol version 2024-11-05: `GET /sse` opens a stream, `POST /message?sessionId=` calls into it.
//!
//! No handshake is asked for: a client whose stream broke, or whose relay was started anew, goes on with its
//! next call. The stream's id is also its event id, so that a client that reconnects names it
//! (`Last-Event-ID`) and finds its old address working, whoever gave it out.
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

mod calls;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::budget::Account;
use super::changes::Changes;
use super::limits::{
    HANDSHAKE_PATIENCE, ON_ITS_WAY_MAX, PREFIX_BYTES_MAX, STREAM_PATIENCE, UNREAD_BYTES_MAX,
    UNREAD_EVENTS_MAX,
};
use super::offers::updated;
use super::orphans::{News, Ticket, Why};
use super::query::Asked;
use super::quirks::Quirk;
use super::random::Random;
use super::requests::Scope;
use super::rpc::Caller;
use super::tool_calls::{self, Done, Shape};
use super::wire::{Link, Sent};
use super::{Shared, refuse, refuse_as};
use crate::engine::watches::Watched;
use crate::engine::{AgentName, Carrier, ClientId, Ending, SessionId, Who, uuid_v4};
use crate::tools::{Client, Offer, Served};

pub(super) use calls::message;

/// How long a client is asked to wait before it reconnects, in milliseconds.
const RETRY_MS: u32 = 200;

/// Room for what stands around a message in an event, in bytes.
const EVENT_BYTES: usize = 32;

/// What is said of a stream of events. nginx, and those that do as it does, keep what goes through them until there is more of it unless
/// they are told not to: <https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_buffering>.
pub(super) const OF_STREAMS: [(HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/event-stream"),
    (header::CACHE_CONTROL, "no-cache"),
    (HeaderName::from_static("x-accel-buffering"), "no"),
];

/// All open streams.
pub(super) struct Streams {
    by_id: Mutex<BTreeMap<Uuid, Arc<Stream>>>,
    opened: Notify,
    random: Mutex<Random>,
}

/// One client's stream.
struct Stream {
    id: Uuid,
    /// Its client has named it: it has come back.
    named: bool,
    session: SessionId,
    agent: Option<AgentName>,
    /// What its address asks for.
    offer: Offer,
    /// Within what the ids of its requests mean one request.
    scope: Scope,
    /// None once the relay stops: the stream ends when the calls that still hold a clone are answered.
    outbox: Mutex<Option<Outbox>>,
    /// Whether the client is new or has come back.
    client: Mutex<Met>,
    /// Which one it is, once it has made a handshake, if it is known.
    known: OnceLock<Client>,
    /// What its client is to be told of beside answers.
    changes: Arc<Changes>,
    /// The connection that the stream goes over.
    link: Link,
    /// Cancelled when there is nothing left to write to.
    closed: CancellationToken,
}

/// What is known of a stream's client.
enum Met {
    /// It has not said anything yet.
    NotYet,
    /// It has made a handshake, or nothing is to be told to anybody.
    New,
    /// It has come back, and was told at that time that the calls with these ids have lost their stream.
    Back(Instant, BTreeMap<Box<str>, Why>),
}

/// The way into a stream.
#[derive(Clone)]
struct Outbox {
    events: mpsc::UnboundedSender<Event>,
    unread: Arc<Unread>,
    account: Arc<Account>,
}

/// What hyper has not taken yet.
#[derive(Default)]
struct Unread {
    bytes: AtomicUsize,
    events: AtomicUsize,
}

/// What goes into a stream at once.
struct Event {
    bytes: Bytes,
    sent: Option<Sent>,
}

impl Streams {
    /// Makes an empty table; `random` gives the ids.
    pub fn new(random: Random) -> Self {
        Self {
            by_id: Mutex::default(),
            opened: Notify::new(),
            random: Mutex::new(random),
        }
    }

    /// Ends all streams once what is in them is written.
    pub fn end_all(&self) {
        self.table().values().for_each(|stream| stream.end());
    }

    /// Draws an id that nobody guesses.
    pub fn draw_id(&self) -> Uuid {
        let mut random = self.random.lock().expect("drawing bytes does not panic");
        uuid_v4(random())
    }

    fn find(&self, id: Uuid) -> Option<Arc<Stream>> {
        self.table().get(&id).cloned()
    }

    /// Finds a stream, or waits a little for its client to reconnect.
    async fn await_stream(&self, id: Uuid) -> Option<Arc<Stream>> {
        let patience = tokio::time::sleep(STREAM_PATIENCE);
        tokio::pin!(patience);
        loop {
            let opened = self.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            if let Some(stream) = self.find(id) {
                return Some(stream);
            }
            tokio::select! {
                () = opened => {}
                () = &mut patience => return None,
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<Stream>>> {
        self.by_id
            .lock()
            .expect("nothing panics while it holds the table")
    }
}

impl Outbox {
    /// Sends a JSON-RPC message; returns whether the stream still takes it. What goes with it is dropped if not.
    fn send(&self, json: &[u8], sent: Option<Sent>) -> bool {
        self.write(json.len() + EVENT_BYTES, sent, |event| {
            event.extend_from_slice(json)
        })
    }

    /// Sends the message that `write` puts behind what is there, for which about that much room is made.
    fn write(&self, room: usize, sent: Option<Sent>, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut bytes = Vec::with_capacity(room);
        bytes.extend_from_slice(b"event: message\ndata: ");
        write(&mut bytes);
        bytes.extend_from_slice(b"\n\n");
        let bytes = self.account.charged(bytes);
        self.unread.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        self.unread.events.fetch_add(1, Ordering::Relaxed);
        self.events.send(Event { bytes, sent }).is_ok()
    }

    /// Sends the response of a tool call, which may have waited.
    fn respond(&self, id: &RawValue, done: Done, quirk: Option<Quirk>, ticket: Option<Ticket>) -> bool {
        let Done { result, receipt } = done;
        let is_followed = receipt.is_some() || ticket.is_some();
        let sent = is_followed.then_some(Sent::Streamed(receipt, ticket));
        self.write(tool_calls::RESPONSE_BYTES, sent, |event| {
            tool_calls::write_response(event, id, Shape::SessionBased, &result, quirk);
        })
    }

    fn has_room(&self) -> bool {
        self.unread.bytes.load(Ordering::Relaxed) < UNREAD_BYTES_MAX
            && self.unread.events.load(Ordering::Relaxed) < UNREAD_EVENTS_MAX
    }
}

impl Stream {
    /// Takes no more calls, and ends when those that it has are answered.
    fn end(&self) {
        self.outbox_slot().take();
    }

    fn outbox(&self) -> Option<Outbox> {
        self.outbox_slot().clone()
    }

    fn outbox_slot(&self) -> MutexGuard<'_, Option<Outbox>> {
        self.outbox
            .lock()
            .expect("nothing panics while it holds the outbox")
    }

    fn caller(&self) -> Caller {
        Caller::new(
            self.session,
            self.agent.clone(),
            Some(self.scope.clone()),
            self.offer,
        )
        .with_client(self.known.get().copied())
        .with_changes(Arc::clone(&self.changes))
        .with_quirk(self.quirk())
    }

    /// Writes the events that tell of a change.
    fn updates(&self, what: Watched) -> Bytes {
        let updated = self.offer.toolsets.changed_with(what).map(updated);
        let events = updated.map(|message| format!("event: message\ndata: {message}\n\n"));
        events.collect::<String>().into()
    }

    /// The agent that its client asked to be bound to.
    fn asked_agent(&self) -> Option<String> {
        self.agent.as_ref().map(ToString::to_string)
    }

    fn quirk(&self) -> Option<Quirk> {
        self.known.get().copied().and_then(Quirk::of_client)
    }

    /// Returns what its client is served now.
    fn served(&self) -> Served {
        self.offer.to(self.known.get().copied())
    }

    fn client(&self) -> MutexGuard<'_, Met> {
        self.client
            .lock()
            .expect("nothing panics while it holds what is known of a client")
    }

    /// Settles that the client is new: it makes a handshake. If that took it so long that it was told of another's calls, its own
    /// calls with the same ids are not those.
    fn meet_new(&self) {
        let mut client = self.client();
        match &mut *client {
            Met::NotYet => *client = Met::New,
            Met::Back(_, told) => told.clear(),
            Met::New => {}
        }
    }

    /// Tells a client that has come back, unless it is settled already, which of its calls have lost their stream.
    ///
    /// `call` is the id of the call that it makes now. Returns why that call is not to be made: another client's has the same
    /// id, so it was answered while it was on its way.
    fn meet_again(&self, shared: &Shared, call: Option<&RawValue>) -> Option<Why> {
        let call = call.map(RawValue::get);
        let mut client = self.client();
        match &mut *client {
            Met::New => None,
            Met::Back(at, told) if at.elapsed() < ON_ITS_WAY_MAX => told.remove(call?),
            Met::Back(_, told) => {
                told.clear();
                None
            }
            Met::NotYet => {
                let agent = self.agent.as_ref().map(AgentName::as_str);
                let mut told = BTreeMap::new();
                for News { id, why, ticket } in shared.orphans.of_client(self.named.then_some(self.id), agent)
                {
                    if call == Some(id.get()) {
                        // Its client has made it anew.
                        ticket.into_iter().for_each(Ticket::settled);
                    } else if let Some(outbox) = self.outbox() {
                        outbox.respond(&id, Done::error(why.as_str()), None, ticket);
                        told.insert(Box::from(id.get()), why);
                    }
                }
                *client = Met::Back(Instant::now(), told);
                None
            }
        }
    }
}

/// Meets the client of a stream that has not said anything in time.
async fn meet(shared: Arc<Shared>, stream: Arc<Stream>) {
    tokio::select! {
        () = tokio::time::sleep(HANDSHAKE_PATIENCE) => {
            stream.meet_again(&shared, None);
        }
        () = stream.closed.cancelled() => {}
    }
}

/// `GET /sse`: opens a stream, under its old id if the client names one.
pub(super) async fn open(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let asked = match Asked::by(&uri, shared.toolsets) {
        Ok(asked) => asked,
        Err(response) => return *response,
    };
    let prefix = match prefix_of(&headers) {
        Ok(prefix) => prefix,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, reason),
    };
    let Asked { who, offer } = asked;
    let is_unnamed = who == Who::Unnamed;
    if shared.stop.is_cancelled() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "relay is stopping");
    }
    let (session, agent) = match shared.owner.open(Carrier::Stream, who) {
        Ok(opened) => opened,
        Err(refusal) => return refuse_as(offer.toolsets, &refusal),
    };
    let old_id = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok());
    let id: Uuid = old_id.unwrap_or_else(|| shared.streams.draw_id());
    if is_unnamed {
        // By it a client that comes back has the agent that it was given.
        let client = ClientId(format!("sse:{id}").into());
        shared.owner.name_client(session, client);
    }
    let (events, receiver) = mpsc::unbounded_channel();
    let unread = Arc::new(Unread::default());
    let stream = Arc::new(Stream {
        id,
        named: old_id.is_some(),
        session,
        agent,
        offer,
        scope: Scope::Stream(id),
        outbox: Mutex::new(Some(Outbox {
            events,
            unread: Arc::clone(&unread),
            account: Arc::clone(link.account()),
        })),
        client: Mutex::new(Met::NotYet),
        known: OnceLock::new(),
        changes: Arc::default(),
        link: link.clone(),
        closed: CancellationToken::new(),
    });
    let mut table = shared.streams.table();
    let replaced = table.insert(id, Arc::clone(&stream));
    if replaced.is_some() {
        // Before anybody finds the new one: its client may call at once.
        shared.orphans.lose_stream(id);
    }
    drop(table);
    if replaced.is_some() || !shared.orphans.is_empty() {
        tokio::spawn(meet(Arc::clone(&shared), Arc::clone(&stream)));
    } else {
        stream.meet_new();
    }
    if let Some(replaced) = replaced {
        replaced.end();
        replaced.closed.cancel();
    }
    shared.streams.opened.notify_waiters();
    if shared.stop.is_cancelled() {
        stream.end();
    }
    let hello =
        format!("event: endpoint\ndata: {prefix}/message?sessionId={id}\nid: {id}\nretry: {RETRY_MS}\n\n");
    let body = StreamBody {
        hello: Some(hello.into()),
        events: receiver,
        keep_alive: KeepAlive::every(shared.keep_alive),
        unread,
        stream,
        link,
        shared,
    };
    (OF_STREAMS, Body::new(body)).into_response()
}

/// Reads what proxies have taken off the path, each its part, so that the client posts to where it comes through them. A client takes the
/// address of calls from the stream as a path of the same server, which is what nothing else than this may make of it.
fn prefix_of(headers: &HeaderMap) -> Result<String, String> {
    let mut prefix = String::new();
    for value in headers.get_all("x-forwarded-prefix") {
        let value = String::from_utf8_lossy(value.as_bytes());
        for part in value.split(',') {
            let part = part.trim().trim_end_matches('/');
            let is_path = part.is_empty() || part.starts_with('/');
            if !is_path || part.contains("//") || !part.bytes().all(is_of_path) {
                let part = crate::engine::shown(part);
                return Err(format!(
                    "X-Forwarded-Prefix is {part:?}; accepted: a path, such as \"/relay\", or several with commas between them"
                ));
            }
            prefix += part;
        }
    }
    if prefix.len() > PREFIX_BYTES_MAX {
        let bytes = prefix.len();
        return Err(format!(
            "X-Forwarded-Prefix has {bytes} bytes; accepted: at most {PREFIX_BYTES_MAX}"
        ));
    }
    Ok(prefix)
}

/// Tells whether a byte may stand in a path as it is: <https://www.rfc-editor.org/rfc/rfc3986#section-3.3>.
fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&byte)
}

/// What hyper writes of a stream.
struct StreamBody {
    hello: Option<Bytes>,
    events: mpsc::UnboundedReceiver<Event>,
    keep_alive: KeepAlive,
    unread: Arc<Unread>,
    stream: Arc<Stream>,
    link: Link,
    shared: Arc<Shared>,
}

/// When a stream is written to, to find out whether its client is still there.
struct KeepAlive {
    period: Duration,
    sleep: Pin<Box<Sleep>>,
    /// The connection's task, which is always the same, is woken at that time.
    is_armed: bool,
}

impl KeepAlive {
    fn every(period: Duration) -> Self {
        Self {
            period,
            sleep: Box::pin(tokio::time::sleep(period)),
            is_armed: false,
        }
    }

    /// Waits for the next time. Asked behind each event, so the timer is polled no more often than it has to be.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_armed && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.is_armed = true;
        ready!(self.sleep.as_mut().poll(cx));
        self.is_armed = false;
        let next = self.sleep.deadline() + self.period;
        self.sleep.as_mut().reset(next);
        Poll::Ready(())
    }
}

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(hello) = self.hello.take() {
            return Poll::Ready(Some(Ok(Frame::data(hello))));
        }
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(Event { bytes, sent })) => {
                self.unread.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
                self.unread.events.fetch_sub(1, Ordering::Relaxed);
                if let Some(sent) = sent {
                    self.link.sent(sent);
                }
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        // Taken up only when hyper asks for more: so long as the client does not read, changes come together here. That a client has
        // subscribed is answered by an event, behind which this is asked again.
        if let Poll::Ready(what) = self.stream.changes.poll_next(cx) {
            return Poll::Ready(Some(Ok(Frame::data(self.stream.updates(what)))));
        }
        if self.keep_alive.poll(cx).is_ready() {
            self.shared.orphans.stays_open(self.stream.id);
            self.link.sent(Sent::KeepAlive(self.stream.session));
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": keep-alive\n\n")))));
        }
        Poll::Pending
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let mut table = self.shared.streams.table();
        // A client that reconnected has put its new stream under the same id.
        if table
            .get(&self.stream.id)
            .is_some_and(|current| Arc::ptr_eq(current, &self.stream))
        {
            table.remove(&self.stream.id);
            // Before its client opens another: that one is told of what this one did not bring.
            self.shared.orphans.lose_stream(self.stream.id);
        }
        drop(table);
        self.stream.closed.cancel();
        self.shared.owner.close(self.stream.session, Ending::Broken);
    }
}

#[cfg(test)]
mod tests;

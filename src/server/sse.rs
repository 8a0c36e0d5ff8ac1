//! HTTP+SSE of protocol version 2024-11-05: `GET /sse` opens a stream, `POST /message?sessionId=` calls into it.
//!
//! No handshake is asked for: a client whose stream broke, or whose relay was started anew, goes on with its
//! next call. The stream's id is also its event id, so that a client that reconnects names it
//! (`Last-Event-ID`) and finds its old address working, whoever gave it out.
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use http_body::Frame;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, JsonRpcMessage};
use rmcp::transport::OneshotTransport;
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::express::{self, Called, Done, Envelope, Read, ToolCall};
use super::http::{collect, is_json, not_a_message, not_json};
use super::owner::{Parked, Receipt};
use super::recent::RecentReads;
use super::rpc::{Caller, Rpc, progress_ticks};
use super::wire::Link;
use super::{Shared, agent_of, refuse, refuse_session};
use crate::engine::{AgentName, Carrier, Ending, RandomBytes, SessionId, uuid_v4};

/// How long a client is asked to wait before it reconnects, in milliseconds.
const RETRY_MS: u32 = 200;

/// How long a call waits for its stream to come back: a few times what a client waits before it reconnects.
const STREAM_PATIENCE: Duration = Duration::from_secs(1);

/// How many bytes may wait for a client that does not read its stream before its calls are refused.
const UNREAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many events may wait for a client that does not read its stream before its calls are refused.
const UNREAD_EVENTS_MAX: usize = 1_024;

/// How many of a stream's latest reads can still be cancelled.
const CANCELLABLE_MAX: usize = 64;

/// All open streams.
pub(super) struct Streams {
    by_id: Mutex<BTreeMap<Uuid, Arc<Stream>>>,
    opened: Notify,
    random: Mutex<RandomBytes>,
}

/// One client's stream.
struct Stream {
    session: SessionId,
    agent: Option<AgentName>,
    /// None once the relay stops: the stream ends when the calls that still hold a clone are answered.
    outbox: Mutex<Option<Outbox>>,
    /// Has no sessions: a stream is one.
    reads: Arc<RecentReads>,
    /// The connection that the stream goes over.
    link: Link,
    /// Cancelled when there is nothing left to write to.
    closed: CancellationToken,
}

/// The way into a stream.
#[derive(Clone)]
struct Outbox {
    events: mpsc::UnboundedSender<Event>,
    unread: Arc<Unread>,
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
    receipt: Option<Receipt>,
}

impl Streams {
    /// Makes an empty table; `random` gives the ids.
    pub fn new(random: RandomBytes) -> Self {
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
        uuid_v4(&mut self.random.lock().expect("drawing bytes does not panic"))
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
    /// Sends a JSON-RPC message.
    fn send(&self, json: &[u8], receipt: Option<Receipt>) {
        let mut bytes = BytesMut::with_capacity(json.len() + 24);
        bytes.put_slice(b"event: message\ndata: ");
        bytes.put_slice(json);
        bytes.put_slice(b"\n\n");
        let bytes = bytes.freeze();
        self.unread.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        self.unread.events.fetch_add(1, Ordering::Relaxed);
        // A stream that has just closed drops the event, and with it the receipt.
        let _ = self.events.send(Event { bytes, receipt });
    }

    /// Sends the response of a tool call.
    fn respond(&self, id: &RawValue, done: Done) {
        self.send(&express::response(id, &done.result), done.receipt);
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
            Some(Arc::from("")),
            Arc::clone(&self.reads),
        )
    }
}

/// `GET /sse`: opens a stream, under its old id if the client names one.
pub(super) async fn open(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let agent = match agent_of(&uri) {
        Ok(agent) => agent,
        Err(response) => return *response,
    };
    if shared.stop.is_cancelled() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "relay is stopping");
    }
    let (session, agent) = match shared.owner.open(Carrier::Stream, agent) {
        Ok(opened) => opened,
        Err(refusal) => return refuse_session(&refusal),
    };
    let old_id = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok());
    let id = old_id.unwrap_or_else(|| shared.streams.draw_id());
    let (events, receiver) = mpsc::unbounded_channel();
    let unread = Arc::new(Unread::default());
    let stream = Arc::new(Stream {
        session,
        agent,
        outbox: Mutex::new(Some(Outbox {
            events,
            unread: Arc::clone(&unread),
        })),
        reads: Arc::new(RecentReads::new(CANCELLABLE_MAX)),
        link: link.clone(),
        closed: CancellationToken::new(),
    });
    let replaced = shared.streams.table().insert(id, Arc::clone(&stream));
    if let Some(replaced) = replaced {
        replaced.end();
        replaced.closed.cancel();
    }
    shared.streams.opened.notify_waiters();
    let hello = format!("retry: {RETRY_MS}\nid: {id}\nevent: endpoint\ndata: /message?sessionId={id}\n\n");
    let first_tick = Instant::now() + shared.keep_alive;
    let body = StreamBody {
        hello: Some(hello.into()),
        events: receiver,
        keep_alive: tokio::time::interval_at(first_tick, shared.keep_alive),
        unread,
        id,
        stream,
        link,
        shared,
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::new(body)).into_response()
}

/// `POST /message?sessionId=`: takes one JSON-RPC message; its answer, if it has one, goes into the stream.
pub(super) async fn message(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let stream = match find_stream(&shared, &parts.uri).await {
        Ok(stream) => stream,
        Err(response) => return *response,
    };
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if !is_json(content_type) {
        let reason = format!("content type {content_type:?} is not accepted; accepted: application/json");
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason);
    }
    let body = match collect(body).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let Some(outbox) = stream.outbox() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "relay is stopping");
    };
    if !outbox.has_room() {
        let reason = "this session does not read its stream; read what is in it, then call again";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, reason);
    }
    match express::read(&body) {
        Read::NotJson(error) => not_json(&error),
        Read::OtherJson(error) => not_a_message(error),
        Read::Message(envelope) => accept(&shared, &stream, outbox, &envelope, &body),
    }
}

/// Finds the stream that a call is for.
async fn find_stream(shared: &Shared, uri: &Uri) -> Result<Arc<Stream>, Box<Response>> {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let given = query
        .into_iter()
        .find(|(key, _)| key == "sessionId")
        .map(|(_, value)| value);
    let Some(given) = given else {
        let reason = "missing query parameter \"sessionId\"; GET /sse tells the address to post to";
        return Err(Box::new(refuse(StatusCode::BAD_REQUEST, reason)));
    };
    let stream = match given.parse() {
        Ok(id) => shared.streams.await_stream(id).await,
        Err(_) => None,
    };
    stream.ok_or_else(|| {
        let reason = format!("unknown session {given:?}; GET /sse opens one");
        Box::new(refuse(StatusCode::NOT_FOUND, reason))
    })
}

fn accept(
    shared: &Arc<Shared>,
    stream: &Arc<Stream>,
    outbox: Outbox,
    envelope: &Envelope<'_>,
    body: &Bytes,
) -> Response {
    // A client that calls again has read what it was sent.
    stream.link.settle();
    match envelope.tool_call() {
        None => {}
        Some(Ok(call)) => {
            call_tool(shared, stream, outbox, call);
            return StatusCode::ACCEPTED.into_response();
        }
        Some(Err(error)) if error.is_data() => {
            outbox.send(&envelope.invalid_params(&error), None);
            return StatusCode::ACCEPTED.into_response();
        }
        Some(Err(error)) => return not_a_message(error),
    }
    match (envelope.method.as_deref(), envelope.id) {
        (Some(_), Some(_)) => match serde_json::from_slice(body) {
            Ok(request) => {
                tokio::spawn(serve_by_rmcp(
                    Arc::clone(shared),
                    Arc::clone(stream),
                    outbox,
                    request,
                ));
                StatusCode::ACCEPTED.into_response()
            }
            Err(error) => not_a_message(error),
        },
        (Some("notifications/cancelled"), None) => {
            let call = express::cancelled_id(envelope).and_then(|id| stream.reads.cancel("", id));
            call.into_iter().for_each(|call| shared.owner.cancel(call));
            StatusCode::ACCEPTED.into_response()
        }
        // Other notifications, and responses to requests that relay never makes, ask for nothing.
        (_, None) | (None, Some(_)) => StatusCode::ACCEPTED.into_response(),
    }
}

fn call_tool(shared: &Arc<Shared>, stream: &Arc<Stream>, outbox: Outbox, call: ToolCall<'_>) {
    let caller = stream.caller();
    match caller.call(&shared.owner, call.id.get(), &call.name, call.arguments) {
        None => {}
        Some(Called::Done(done)) => outbox.respond(call.id, done),
        Some(Called::Parked(parked)) => {
            let progress_token = call.progress_token.map(ToOwned::to_owned);
            let closed = stream.closed.clone();
            tokio::spawn(wait(closed, outbox, parked, call.id.to_owned(), progress_token));
        }
    }
}

/// Waits for the answer to a parked call, telling of progress where the client asked for it.
async fn wait(
    closed: CancellationToken,
    outbox: Outbox,
    mut parked: Parked,
    id: Box<RawValue>,
    progress_token: Option<Box<RawValue>>,
) {
    let started = Instant::now();
    let mut ticks = progress_ticks();
    loop {
        tokio::select! {
            biased;
            answer = parked.answered() => {
                if let Some(answer) = answer {
                    outbox.respond(&id, Done::new(parked.complete(answer)));
                }
                return;
            }
            // Dropping the parked call cancels it.
            () = closed.cancelled() => return,
            _ = ticks.tick(), if progress_token.is_some() => {
                let token = progress_token.as_deref().expect("a tick is for a token");
                let waited_s = started.elapsed().as_secs();
                let notification = serde_json::json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": waited_s, "message": "waiting for a message"},
                });
                outbox.send(notification.to_string().as_bytes(), None);
            }
        }
    }
}

/// Has rmcp answer one request, as it does for each request over streamable HTTP.
async fn serve_by_rmcp(
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    outbox: Outbox,
    mut request: ClientJsonRpcMessage,
) {
    let caller = stream.caller();
    if let ClientJsonRpcMessage::Request(request) = &mut request {
        request.request.extensions_mut().insert(caller.clone());
    }
    let (transport, mut messages) = OneshotTransport::new(request);
    let cancellation = stream.closed.child_token();
    let running = rmcp::service::serve_directly_with_ct(Rpc::new(shared), transport, None, cancellation);
    while let Some(message) = messages.recv().await {
        let json = serde_json::to_vec(&message).expect("rmcp's messages are JSON");
        let is_response = matches!(message, JsonRpcMessage::Response(_));
        outbox.send(&json, is_response.then(|| caller.take_receipt()).flatten());
    }
    drop(running);
}

/// What hyper writes of a stream.
struct StreamBody {
    hello: Option<Bytes>,
    events: mpsc::UnboundedReceiver<Event>,
    keep_alive: Interval,
    unread: Arc<Unread>,
    id: Uuid,
    stream: Arc<Stream>,
    link: Link,
    shared: Arc<Shared>,
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
            Poll::Ready(Some(Event { bytes, receipt })) => {
                self.unread.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
                self.unread.events.fetch_sub(1, Ordering::Relaxed);
                if let Some(receipt) = receipt {
                    self.link.sent(receipt);
                }
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        if self.keep_alive.poll_tick(cx).is_ready() {
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
            .get(&self.id)
            .is_some_and(|current| Arc::ptr_eq(current, &self.stream))
        {
            table.remove(&self.id);
        }
        drop(table);
        self.stream.closed.cancel();
        self.shared.owner.close(self.stream.session, Ending::Broken);
    }
}

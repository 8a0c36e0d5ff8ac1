//! Streamable HTTP at `/mcp`: each request is an exchange of its own, and no session has to be there before it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full, Limited};
use rmcp::model::{ClientJsonRpcMessage, ProtocolVersion, RequestId};
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde::Deserialize as _;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, Interval};
use uuid::Uuid;

use super::accept::{self, Accepted, is_json};
use super::express::{self, Called, Done, Shape, ToolCall};
use super::json_rpc::{self, Envelope, Invalid};
use super::orphans::Why;
use super::owner::Receipt;
use super::requests::{REQUEST_ID_BYTES_MAX, Request as Cancellable, RequestKey, Scope};
use super::rpc::{Caller, Rpc};
use super::wire::{Link, Sent};
use super::{REQUEST_BYTES_MAX, REQUEST_PATIENCE, Shared, agent_of, refuse, refuse_session};
use crate::engine::Who;
use crate::tools::ToolResult;

/// rmcp's service for everything that does not take the short way.
pub(super) type RmcpService = StreamableHttpService<Rpc, NeverSessionManager>;

/// The versions of the protocol whose plain calls look alike; 2026-07-28 asks for more in request and response.
const SESSION_BASED_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// How long a client that lost a stream is asked to wait before it asks for the rest, in milliseconds: time enough to start relay
/// again. The TypeScript and the Python SDK ask twice, then the one never answers its caller; Claude Code asks once and
/// then says that the connection has closed.
const RESUME_MS: u32 = 2_000;

/// Given out at the handshake and accepted whatever it is: nothing depends on it but which request a client cancels,
/// since it does so over another connection. A relay that was started anew takes the old ones.
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Answers one HTTP request at `/mcp`.
pub(super) async fn exchange(
    State((shared, service)): State<(Arc<Shared>, RmcpService)>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    if request.method() == Method::GET
        && let Some(lost) = LostCall::named_in(request.headers())
    {
        return lost.resume(&shared, request.headers());
    }
    if request.method() != Method::POST {
        let reason = format!("{} is not for \"/mcp\"; accepted: POST", request.method());
        let allow = [(header::ALLOW, "POST")];
        return (
            allow,
            Invalid::http(reason).response(StatusCode::METHOD_NOT_ALLOWED),
        )
            .into_response();
    }
    let accepted = match Accepted::by(request.headers()) {
        Ok(accepted) => accepted,
        Err(response) => return *response,
    };
    let caller = match agent_of(request.uri()) {
        Err(response) => return *response,
        Ok(agent) => match link.session(Who::Agent(agent)) {
            Err(refusal) => return refuse_session(&refusal),
            Ok((session, agent)) => {
                let scope = session_id(request.headers()).and_then(Scope::named);
                Caller::new(session, agent, scope, shared.toolset)
            }
        },
    };
    let (mut parts, body) = request.into_parts();
    let body = match collect(body).await {
        Err(response) => return *response,
        Ok(body) => body,
    };
    if is_session_based(&parts.headers)
        && let Some(call) = ToolCall::plain(&body)
        && call.version.is_none()
        && !(accepted.events && streams(&caller, &call))
    {
        return answer(&shared, &link, &caller, call).await;
    }
    let envelope = match json_rpc::read(&body) {
        Ok(envelope) => envelope,
        Err(invalid) => return invalid.into_response(),
    };
    if envelope.method.is_none() {
        let reason = "it is a response, and relay asks for none here; accepted: a request or a notification";
        return Invalid::not_a_message(reason).into_response();
    }
    if is_session_based(&parts.headers) {
        match envelope.tool_call() {
            Some(Ok(call)) if !(accepted.events && streams(&caller, &call)) => {
                return answer(&shared, &link, &caller, call).await;
            }
            Some(Err(invalid)) => return invalid.into_response(),
            Some(Ok(_)) | None => {}
        }
    }
    let mut message = match envelope.checked(&body) {
        Ok(message) => message,
        Err(invalid) => return invalid.into_response(),
    };
    cancel(&shared, &caller, &envelope);
    let is_handshake = envelope.method.as_deref() == Some("initialize");
    // rmcp would say that the content type is wrong.
    if ClientJsonRpcMessage::deserialize(&message).is_err() {
        return Invalid::not_a_message("it is no request or notification of MCP").into_response();
    }
    let body = if accepted.events || !forgo_progress(&mut message) {
        body.clone()
    } else {
        message.to_string().into()
    };
    let is_call = envelope.method.as_deref() == Some("tools/call");
    let lost = envelope.id.filter(|_| is_call).map(|id| LostCall {
        boot: shared.boot,
        id: id.to_owned(),
    });
    parts.extensions.insert(caller.clone());
    parts.headers.insert(header::ACCEPT, accept::BOTH);
    let response = service.handle(Request::from_parts(parts, Full::new(body))).await;
    if is_in_plain_words(&response) {
        return in_json_rpc(response).await;
    }
    let is_stream = is_event_stream(response.headers());
    let first = lost.filter(|_| is_stream).map(|lost| lost.first_fields());
    let keep_alive = is_stream.then(|| {
        let every = shared.keep_alive;
        tokio::time::interval_at(Instant::now() + every, every)
    });
    let mut response = response.map(|inner| {
        Body::new(Followed {
            inner,
            first,
            keep_alive,
            caller,
            link,
        })
    });
    if is_handshake && response.status().is_success() {
        let id = shared.streams.draw_id().to_string();
        response
            .headers_mut()
            .insert(SESSION_ID, id.try_into().expect("a uuid is a header's value"));
    }
    response
}

/// A call whose answer comes in a stream of events, as the id of the stream's first event names it: for a client that lost the
/// stream and asks for the rest of it.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>; Claude Code does so
/// with 2026-07-28 too, which knows nothing of it. The rest is always the same, so nothing has to be kept for it.
struct LostCall {
    /// The boot id of the relay that it was made to.
    boot: Uuid,
    /// The request's id as it was written.
    id: Box<RawValue>,
}

impl LostCall {
    /// Writes the fields that go before the stream's first event.
    fn first_fields(&self) -> Bytes {
        let id = form_urlencoded::Serializer::new(String::new())
            .append_pair("boot", &self.boot.to_string())
            .append_pair("request", self.id.get())
            .finish();
        format!("id: {id}\nretry: {RESUME_MS}\n").into()
    }

    /// Reads [`Self::first_fields`]; none if nothing that was written there is named.
    fn named_in(headers: &HeaderMap) -> Option<Self> {
        let named = headers.get("last-event-id")?.as_bytes();
        let fields: Vec<_> = form_urlencoded::parse(named).collect();
        let [(boot_name, boot), (id_name, id)] = &*fields else {
            return None;
        };
        // Who names a call that it never made gets an answer to it, which harms nobody.
        let is_id = id.len() <= REQUEST_ID_BYTES_MAX && serde_json::from_str::<RequestId>(id).is_ok();
        if boot_name != "boot" || id_name != "request" || !is_id {
            return None;
        }
        Some(Self {
            boot: boot.parse().ok()?,
            id: RawValue::from_string(id.to_string()).ok()?,
        })
    }

    /// Answers the call by the error that says what happened.
    fn resume(&self, shared: &Shared, headers: &HeaderMap) -> Response {
        let why = if self.boot == shared.boot {
            // Its old connection may not be seen to be broken yet: it must not take what comes meanwhile.
            let scope = session_id(headers).and_then(Scope::named);
            let key = scope.and_then(|scope| RequestKey::of_json(&scope, self.id.get()));
            key.into_iter().for_each(|key| shared.owner.cancel(key));
            Why::StreamEnd
        } else {
            Why::Restart
        };
        let result = ToolResult::error(why.as_str());
        let shape = if is_session_based(headers) {
            Shape::SessionBased
        } else {
            Shape::Stateless
        };
        let response = express::response(&self.id, shape, &result);
        let event = [b"data: ", &*response, b"\n\n"].concat();
        let kind = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (kind, event).into_response()
    }
}

/// Cancels what a client does not want any more, if it says which session it took up at its handshake.
fn cancel(shared: &Shared, caller: &Caller, envelope: &Envelope<'_>) {
    if let (Some(scope), Some(id)) = (&caller.scope, express::cancelled_id(envelope))
        && let Some(key) = RequestKey::of_json(scope, id)
    {
        shared.owner.cancel(key);
    }
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

/// Answers a call the short way.
async fn answer(shared: &Arc<Shared>, link: &Link, caller: &Caller, call: ToolCall<'_>) -> Response {
    let request = caller
        .scope
        .as_ref()
        .map(|scope| Cancellable::Json(scope, call.id.get()));
    let called = express::call_tool(&shared.owner, caller, &call.name, call.arguments, request);
    let done = match called {
        Some(Called::Done(done)) => Some(done),
        Some(Called::Parked(mut parked)) => parked.answered().await,
        None => None,
    };
    // There is no response to a cancelled request, but there is one to an exchange.
    let Some(done) = done else {
        return StatusCode::ACCEPTED.into_response();
    };
    json_response(call.id, done, link)
}

fn json_response(id: &RawValue, done: Done, link: &Link) -> Response {
    let response = express::response(id, Shape::SessionBased, &done.result);
    receipted(response, done.receipt, link)
}

/// Answers with JSON, and follows its bytes if something hangs on their arrival.
pub(super) fn receipted(bytes: Bytes, receipt: Option<Receipt>, link: &Link) -> Response {
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    match receipt {
        None => (json, bytes).into_response(),
        Some(receipt) => {
            let body = Receipted {
                bytes: Some(bytes),
                receipt: Some(receipt),
                link: link.clone(),
            };
            (json, Body::new(body)).into_response()
        }
    }
}

/// Tells whether a request is of a version whose plain calls look alike, as it is if none is named.
fn is_session_based(headers: &HeaderMap) -> bool {
    let version = headers
        .get(VERSION)
        .map(|value| value.to_str().unwrap_or_default());
    version.is_none_or(|version| SESSION_BASED_VERSIONS.contains(&version))
}

/// Takes out the wish for progress, which can be told in a stream of events only, and tells whether there was one.
fn forgo_progress(message: &mut Value) -> bool {
    let meta = message
        .pointer_mut("/params/_meta")
        .and_then(Value::as_object_mut);
    meta.is_some_and(|meta| meta.remove("progressToken").is_some())
}

/// Tells whether rmcp has refused a request in plain words.
fn is_in_plain_words<B>(response: &axum::http::Response<B>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_json = kind.and_then(|kind| kind.to_str().ok()).is_some_and(is_json);
    (response.status().is_client_error() || response.status().is_server_error()) && !is_json
}

/// Puts rmcp's plain words into the form of all errors of this route.
async fn in_json_rpc<B>(response: axum::http::Response<B>) -> Response
where
    B: http_body::Body<Data = Bytes, Error = Infallible>,
{
    let (parts, body) = response.into_parts();
    let Ok(words) = body.collect().await;
    let words = words.to_bytes();
    let words = String::from_utf8_lossy(&words);
    let versions = ProtocolVersion::KNOWN_VERSIONS
        .iter()
        .map(ProtocolVersion::as_str);
    let accepted = match words.contains("MCP-Protocol-Version") {
        true => format!("; accepted: {}", versions.collect::<Vec<_>>().join(", ")),
        false => String::new(),
    };
    Invalid::http(format_args!("{words}{accepted}")).response(parts.status)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    content_type.is_some_and(|kind| kind == "text/event-stream")
}

/// Tells whether a call's progress is told in a stream of events, which is rmcp's to write.
fn streams(caller: &Caller, call: &ToolCall<'_>) -> bool {
    call.progress_token.is_some() && call.may_wait(caller.toolset)
}

/// Gathers a request's body within its bounds of length and time.
pub(super) async fn collect(body: Body) -> Result<Bytes, Box<Response>> {
    let limited = Limited::new(body, REQUEST_BYTES_MAX).collect();
    match tokio::time::timeout(REQUEST_PATIENCE, limited).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let reason =
                format!("the request has more than {REQUEST_BYTES_MAX} bytes, the most that is accepted");
            Err(Box::new(refuse(StatusCode::PAYLOAD_TOO_LARGE, reason)))
        }
        Ok(Err(error)) => {
            let reason = format!("the request could not be read: {error}");
            Err(Box::new(refuse(StatusCode::BAD_REQUEST, reason)))
        }
        Err(_) => {
            let reason = format!(
                "the request took more than {} s to arrive",
                REQUEST_PATIENCE.as_secs()
            );
            Err(Box::new(refuse(StatusCode::REQUEST_TIMEOUT, reason)))
        }
    }
}

/// A body of known bytes, with the receipt of the reply that they are.
struct Receipted {
    bytes: Option<Bytes>,
    receipt: Option<Receipt>,
    link: Link,
}

impl http_body::Body for Receipted {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(receipt) = self.receipt.take() {
            self.link.sent(Sent::Reply(receipt));
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// A body that rmcp writes. Once hyper has taken all of it, the receipt that its call has left goes to the connection.
struct Followed<B> {
    inner: B,
    /// Goes before the first bytes.
    first: Option<Bytes>,
    /// In a stream of events, which is silent for long. rmcp would keep it alive by another clock than tokio's.
    keep_alive: Option<Interval>,
    caller: Caller,
    link: Link,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Followed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        let ended = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.inner.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if ended && let Some(receipt) = self.caller.take_receipt() {
            self.link.sent(Sent::Reply(receipt));
        }
        match (&polled, &mut self.keep_alive) {
            (Poll::Ready(_), Some(keep_alive)) => keep_alive.reset(),
            (Poll::Pending, Some(keep_alive)) => {
                ready!(keep_alive.poll_tick(cx));
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))));
            }
            (_, None) => {}
        }
        polled.map_ok(|frame| {
            frame.map_data(|data| match self.first.take() {
                None => data,
                Some(first) => [first, data].concat().into(),
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

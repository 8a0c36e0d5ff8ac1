//! Streamable HTTP at `/mcp`: each request is an exchange of its own, and no session has to be there before it.

mod rmcp_body;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use rmcp::model::{ClientJsonRpcMessage, ProtocolVersion, RequestId};
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde::Deserialize as _;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use uuid::Uuid;

use self::rmcp_body::RmcpBody;
use super::accept::{self, Accepted, is_json};
use super::dispatch::{self, ResponseBody};
use super::headers;
use super::json_id::IdFinder;
use super::json_rpc::{self, Envelope, Invalid};
use super::limits::{
    PASSED_OVER_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_ID_BYTES_MAX, REQUEST_PATIENCE, ROOM_BYTES,
};
use super::orphans::Why;
use super::query::Asked;
use super::quirks::{Quirk, client_of_handshake, session_id};
use super::requests::{Request as Cancellable, RequestKey, Scope};
use super::rpc::{Caller, Rpc};
use super::sse::OF_STREAMS;
use super::tool_calls::{self, Called, Done, Shape, ToolCall};
use super::wire::Link;
use super::{Shared, refuse, refuse_as, rmcp_service, stateless};
use crate::engine::SessionId;
use crate::tools::{Served, ToolResult, Toolsets};

/// rmcp's service for everything that does not take the short way.
pub(super) type RmcpService = StreamableHttpService<Rpc, NeverSessionManager>;

/// The versions of the protocol whose plain calls look alike; 2026-07-28 asks for more in request and response.
const SESSION_BASED_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

pub(super) const VERSION: &str = "mcp-protocol-version";

/// How long a client that lost a stream is asked to wait before it asks for the rest, in milliseconds: time enough to start relay
/// again. The TypeScript and the Python SDK ask twice, then the one never answers its caller; Claude Code asks once and
/// then says that the connection has closed.
const RESUME_MS: u32 = 2_000;

/// Given out at the handshake and accepted whatever it is: nothing depends on it but which request a client cancels,
/// since it does so over another connection. A relay that was started anew takes the old ones.
const SESSION_ID: &str = "mcp-session-id";

static SESSION_AND_VERSION: [HeaderName; 2] = [
    HeaderName::from_static(SESSION_ID),
    HeaderName::from_static(VERSION),
];

/// What every `POST` is looked through for.
static LOOKED_AT: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    HeaderName::from_static(SESSION_ID),
    HeaderName::from_static(VERSION),
];

/// Answers a `POST`.
pub(super) async fn exchange(
    shared: &Arc<Shared>,
    service: &RmcpService,
    link: &Link,
    request: axum::http::Request<Incoming>,
) -> axum::http::Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    // Before anything is refused but by the guard, which reads nothing: with a body unread, the connection could not go on.
    let body = match dispatch::read(body).await {
        Err(unread) => return unread.into_response().map(ResponseBody::routed),
        Ok(body) => body,
    };
    let [content_type, accept, session_id, version] = headers::find(&parts.headers, &LOOKED_AT);
    let accepted = match Accepted::by(&parts.headers, content_type, accept) {
        Ok(accepted) => accepted,
        Err(response) => return response.map(ResponseBody::routed),
    };
    let scope = scope_of(session_id);
    let in_session = is_session_based(version);
    let response = 'answered: {
        let asked = match Asked::by(&parts.uri, shared.toolsets) {
            Err(response) => break 'answered response.map(ResponseBody::routed),
            Ok(asked) => asked,
        };
        let client = scope.as_ref().and_then(Scope::client);
        let quirk = client.and_then(Quirk::of_client);
        let offer = asked.offer;
        let toolsets = offer.toolsets;
        let (session, agent) = match link.session(asked.who, scope.as_ref().and_then(Scope::name)) {
            Err(refusal) => break 'answered refuse_as(toolsets, &refusal).map(ResponseBody::routed),
            Ok(opened) => opened,
        };
        let is_short = |call: &ToolCall<'_>| !(accepted.events && streams(toolsets, call));
        if in_session {
            if let Some(call) = ToolCall::plain(&body)
                && call.version.is_none()
                && is_short(&call)
            {
                let id = call.id;
                let done = answer(shared, (session, offer.to(client)), scope.as_ref(), call).await;
                break 'answered in_session_response(id, done, quirk, link, parts.headers);
            }
        } else if let Some(call) = stateless::plain_call(&parts.headers, &body)
            && is_short(&call)
        {
            let id = call.id;
            let served = offer.to(call.client.or(client));
            let response = match answer(shared, (session, served), scope.as_ref(), call).await {
                Some(done) => {
                    let response = tool_calls::response(id, Shape::Stateless, &done.result, quirk);
                    break 'answered ResponseBody::json(response, done.receipt, link, parts.headers);
                }
                None => stateless::cancelled(id),
            };
            break 'answered ResponseBody::json(response, None, link, parts.headers);
        }
        let envelope = match json_rpc::read(&body) {
            Ok(envelope) => envelope,
            Err(invalid) => break 'answered invalid.into_response().map(ResponseBody::routed),
        };
        if envelope.method.is_none() {
            let reason =
                "it is a response, and relay asks for none here; accepted: a request or a notification";
            break 'answered Invalid::not_a_message(reason)
                .into_response()
                .map(ResponseBody::routed);
        }
        if in_session {
            match envelope.tool_call() {
                Some(Ok(call)) if is_short(&call) => {
                    let id = call.id;
                    let done = answer(shared, (session, offer.to(client)), scope.as_ref(), call).await;
                    break 'answered in_session_response(id, done, quirk, link, parts.headers);
                }
                Some(Err(invalid)) => break 'answered invalid.into_response().map(ResponseBody::routed),
                Some(Ok(_)) | None => {}
            }
        }
        let exchange = Exchange {
            parts,
            in_session,
            accepted,
            caller: Caller::new(session, agent, scope, offer)
                .with_quirk(quirk)
                .with_client(client),
            link: link.clone(),
        };
        // Boxed, so that the future of a plain call does not have room for it.
        Box::pin(exchange.serve_by_rmcp(shared, service, &envelope, &body))
            .await
            .map(ResponseBody::routed)
    };
    if accepted.json {
        response
    } else {
        as_event(response)
    }
}

/// Answers a client that takes nothing but events by one, where the answer is one message.
#[cold]
fn as_event(response: axum::http::Response<ResponseBody>) -> axum::http::Response<ResponseBody> {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_message = kind.and_then(|kind| kind.to_str().ok()).is_some_and(is_json);
    if response.status() != StatusCode::OK || !is_message {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    for (name, value) in OF_STREAMS {
        parts.headers.insert(name, HeaderValue::from_static(value));
    }
    axum::http::Response::from_parts(parts, body.into_event())
}

/// A request that is not answered the short way.
struct Exchange {
    parts: Parts,
    /// Of a version in which a cancelled request is not answered.
    in_session: bool,
    accepted: Accepted,
    caller: Caller,
    link: Link,
}

impl Exchange {
    async fn serve_by_rmcp(
        self,
        shared: &Arc<Shared>,
        service: &RmcpService,
        envelope: &Envelope<'_>,
        body: &Bytes,
    ) -> Response {
        let Self {
            mut parts,
            in_session,
            accepted,
            caller,
            link,
        } = self;
        let mut message = match envelope.checked(body) {
            Ok(message) => message,
            Err(invalid) => return invalid.into_response(),
        };
        cancel(shared, &caller, envelope);
        let is_handshake = envelope.method.as_deref() == Some("initialize");
        let client = is_handshake.then(|| client_of_handshake(&message)).flatten();
        // rmcp would say that the content type is wrong.
        if ClientJsonRpcMessage::deserialize(&message).is_err() {
            return envelope
                .not_a_message("it is no request or notification of MCP")
                .into_response();
        }
        let body = if accepted.events || !forgo_progress(&mut message) {
            body.clone()
        } else {
            message.to_string().into()
        };
        let listens = envelope.method.as_deref() == Some("subscriptions/listen");
        if listens && !accepted.events {
            let reason = "subscriptions/listen is answered by a stream of events; accepted: text/event-stream in Accept";
            return Invalid::http(reason).response(StatusCode::NOT_ACCEPTABLE);
        }
        let of_listener = listens.then(|| {
            let listener = caller.clone().with_changes(Arc::default());
            rmcp_service(shared, Some(listener))
        });
        let service = of_listener.as_ref().unwrap_or(service);
        let is_call = envelope.method.as_deref() == Some("tools/call");
        let lost = envelope.id.filter(|_| is_call).map(|id| LostCall {
            boot: shared.boot,
            id: id.to_owned(),
        });
        parts.extensions.insert(caller.clone());
        parts.headers.insert(header::ACCEPT, accept::BOTH.clone());
        let response = service.handle(Request::from_parts(parts, Full::new(body))).await;
        if is_in_plain_words(&response) {
            return in_json_rpc(response).await;
        }
        let is_stream = is_event_stream(response.headers());
        if in_session && caller.is_cancelled() && !is_stream {
            return StatusCode::ACCEPTED.into_response();
        }
        let mut response = response;
        if is_stream {
            for (name, value) in OF_STREAMS {
                response
                    .headers_mut()
                    .insert(name, HeaderValue::from_static(value));
            }
        }
        let first = lost.filter(|_| is_stream).map(|lost| lost.first_fields());
        let keep_alive = is_stream.then(|| {
            let every = shared.keep_alive;
            tokio::time::interval_at(Instant::now() + every, every)
        });
        let mut response = response.map(|inner| {
            Body::new(RmcpBody {
                inner,
                first,
                keep_alive,
                in_session,
                is_over: false,
                caller,
                link,
            })
        });
        if is_handshake && response.status().is_success() {
            let id = session_id(shared.streams.draw_id(), client);
            response
                .headers_mut()
                .insert(SESSION_ID, id.try_into().expect("a uuid is a header's value"));
        }
        response
    }
}

/// Answers what is no `POST`: a client that asks for the rest of a stream which it lost, or a mistake.
pub(super) async fn resume(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    if method == Method::GET
        && let Some(lost) = LostCall::named_in(&headers)
    {
        return lost.resume(&shared, &headers);
    }
    let reason = format!("{method} is not for \"/mcp\"; accepted: POST");
    let allow = [(header::ALLOW, "POST")];
    let response = Invalid::http(reason).response(StatusCode::METHOD_NOT_ALLOWED);
    (allow, response).into_response()
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
        let [session_id, version] = headers::find(headers, &SESSION_AND_VERSION);
        let why = if self.boot == shared.boot {
            // Its old connection may not be seen to be broken yet: it must not take what comes meanwhile.
            let scope = scope_of(session_id);
            let key = scope.and_then(|scope| RequestKey::of_json(&scope, self.id.get()));
            key.into_iter().for_each(|key| shared.owner.cancel(key, None));
            Why::StreamEnd
        } else {
            Why::Restart
        };
        let result = ToolResult::error(why.as_str());
        let shape = if is_session_based(version) {
            Shape::SessionBased
        } else {
            Shape::Stateless
        };
        let response = tool_calls::response(&self.id, shape, &result, None);
        let event = [b"data: ", &*response, b"\n\n"].concat();
        (OF_STREAMS, event).into_response()
    }
}

/// Cancels what a client does not want any more, if it says which session it took up at its handshake.
fn cancel(shared: &Shared, caller: &Caller, envelope: &Envelope<'_>) {
    if let (Some(scope), Some(id)) = (&caller.scope, tool_calls::cancelled_id(envelope))
        && let Some(key) = RequestKey::of_json(scope, id)
    {
        shared.owner.cancel(key, caller.quirk);
    }
}

/// Reads within what a request can be cancelled by its id.
fn scope_of(session_id: headers::Values<'_>) -> Option<Scope> {
    Scope::named(session_id.first()?.to_str().ok()?)
}

/// Calls a tool and waits for its answer; there is none if the request was cancelled.
async fn answer(
    shared: &Arc<Shared>,
    (session, served): (SessionId, Served),
    scope: Option<&Scope>,
    call: ToolCall<'_>,
) -> Option<Done> {
    let request = scope.map(|scope| Cancellable::Json(scope, call.id.get()));
    match tool_calls::call_tool(
        &shared.owner,
        served,
        session,
        &call.name,
        call.arguments,
        request,
    )? {
        Called::Done(done) => Some(done),
        Called::Parked(mut parked) => parked.answered().await,
    }
}

/// Answers a call of a tool as the session-based versions have it.
fn in_session_response(
    id: &RawValue,
    done: Option<Done>,
    quirk: Option<Quirk>,
    link: &Link,
    headers: HeaderMap,
) -> axum::http::Response<ResponseBody> {
    match done {
        Some(done) => {
            let response = tool_calls::response(id, Shape::SessionBased, &done.result, quirk);
            ResponseBody::json(response, done.receipt, link, headers)
        }
        // There is no response to a cancelled request, but there is one to an exchange.
        None => StatusCode::ACCEPTED.into_response().map(ResponseBody::routed),
    }
}

/// Tells whether a request is of a version whose plain calls look alike, as it is if none is named.
fn is_session_based(version: headers::Values<'_>) -> bool {
    let version = version.first().map(|value| value.to_str().unwrap_or_default());
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
fn streams(toolsets: Toolsets, call: &ToolCall<'_>) -> bool {
    call.progress_token.is_some() && call.may_wait(toolsets)
}

/// Why a request's body was not taken.
pub(super) struct Unread {
    status: StatusCode,
    reason: String,
    /// Of the request that it was to be, where one was made out in what came.
    pub id: Option<Box<RawValue>>,
}

impl Unread {
    /// Makes the error that answers the request in a stream.
    pub fn into_invalid(self) -> Invalid {
        Invalid::too_long(self.reason).answering(self.id)
    }
}

impl IntoResponse for Unread {
    fn into_response(self) -> Response {
        let status = self.status;
        if self.id.is_none() {
            return refuse(status, self.reason);
        }
        self.into_invalid().response(status)
    }
}

/// Gathers a request's body within its bounds of length and time.
pub(super) async fn collect(body: Body) -> Result<Bytes, Box<Response>> {
    collect_message(body)
        .await
        .map_err(|Unread { status, reason, .. }| Box::new(refuse(status, reason)))
}

/// The same; what is wrong is a status and a reason.
pub(super) async fn collect_body(body: Body) -> Result<Bytes, (StatusCode, String)> {
    collect_message(body)
        .await
        .map_err(|Unread { status, reason, .. }| (status, reason))
}

/// The same of a message of JSON-RPC, whose id is looked for if it is too long: some clients write it last, so one that is announced to end
/// soon is read to its end, and not kept.
pub(super) async fn collect_message(mut body: Body) -> Result<Bytes, Unread> {
    let announced = body.size_hint().upper();
    let ends_soon = announced.is_some_and(|bytes| bytes <= PASSED_OVER_BYTES_MAX);
    let mut kept = BytesMut::with_capacity(announced.map_or(0, |bytes| {
        usize::try_from(bytes).map_or(0, |bytes| bytes.min(ROOM_BYTES))
    }));
    let mut finder = None;
    let gathering = async {
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            if finder.is_none() && kept.len() + data.len() > REQUEST_BYTES_MAX {
                let mut looks = IdFinder::new();
                looks.push(&kept);
                kept = BytesMut::new();
                finder = Some(looks);
            }
            match &mut finder {
                None => kept.extend_from_slice(&data),
                Some(finder) => {
                    finder.push(&data);
                    if !ends_soon {
                        break;
                    }
                }
            }
        }
        Ok::<_, axum::Error>(())
    };
    let gathered = tokio::time::timeout(REQUEST_PATIENCE, gathering).await;
    let (status, reason) = match (gathered, &finder) {
        (Ok(Ok(())), None) => return Ok(kept.freeze()),
        (Err(_), None) => {
            let patience_s = REQUEST_PATIENCE.as_secs();
            let reason = format!("the request took more than {patience_s} s to arrive");
            (StatusCode::REQUEST_TIMEOUT, reason)
        }
        (Ok(Err(error)), None) => {
            let reason = format!("the request could not be read: {error}");
            (StatusCode::BAD_REQUEST, reason)
        }
        (_, Some(_)) => {
            let reason =
                format!("the request has more than {REQUEST_BYTES_MAX} bytes, the most that is accepted");
            (StatusCode::PAYLOAD_TOO_LARGE, reason)
        }
    };
    let id = finder.and_then(IdFinder::id);
    Err(Unread { status, reason, id })
}

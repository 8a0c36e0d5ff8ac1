//! Streamable HTTP at `/mcp`: each request is an exchange of its own, and no session has to be there before it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full, Limited};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde_json::value::RawValue;

use super::express::{self, Called, Done, Envelope, Read, ToolCall};
use super::owner::Receipt;
use super::rpc::{Caller, Rpc};
use super::wire::Link;
use super::{REQUEST_BYTES_MAX, REQUEST_PATIENCE, Shared, agent_of, refuse, refuse_session};

/// rmcp's service for everything that does not take the short way.
pub(super) type RmcpService = StreamableHttpService<Rpc, NeverSessionManager>;

/// The versions of the protocol whose plain calls look alike; 2026-07-28 asks for more in request and response.
const SESSION_BASED_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Given out at the handshake and accepted whatever it is: nothing depends on it but which request a client cancels,
/// since it does so over another connection. A relay that was started anew takes the old ones.
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Answers one HTTP request at `/mcp`.
pub(super) async fn exchange(
    State((shared, service)): State<(Arc<Shared>, RmcpService)>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    if request.method() != Method::POST {
        return service.handle(request).await.into_response();
    }
    let caller = match agent_of(request.uri()) {
        Err(response) => return *response,
        Ok(agent) => match link.session(agent) {
            Err(refusal) => return refuse_session(&refusal),
            Ok((session, agent)) => {
                let cancel_key = session_id(request.headers()).map(Arc::from);
                Caller::new(session, agent, cancel_key, Arc::clone(&shared.reads))
            }
        },
    };
    let (mut parts, body) = request.into_parts();
    let body = match collect(body).await {
        Err(response) => return *response,
        Ok(body) => body,
    };
    let envelope = match express::read(&body) {
        Read::NotJson(error) => return not_json(&error),
        Read::OtherJson(error) => return not_a_message(error),
        Read::Message(envelope) => envelope,
    };
    if has_plain_headers(&parts.headers) {
        match envelope.tool_call() {
            Some(Ok(call)) if !streams(&call) => return answer(&shared, &link, &caller, call).await,
            Some(Err(error)) if error.is_data() => {
                let json = [(header::CONTENT_TYPE, "application/json")];
                return (json, envelope.invalid_params(&error)).into_response();
            }
            Some(Err(error)) => return not_a_message(error),
            Some(Ok(_)) | None => {}
        }
    }
    cancel(&shared, &caller, &envelope);
    let is_handshake = envelope.method.as_deref() == Some("initialize");
    // rmcp would say that the content type is wrong.
    if let Err(error) = serde_json::from_slice::<ClientJsonRpcMessage>(&body) {
        return not_a_message(error);
    }
    parts.extensions.insert(caller.clone());
    let response = service.handle(Request::from_parts(parts, Full::new(body))).await;
    let mut response = response.map(|inner| Body::new(Followed { inner, caller, link }));
    if is_handshake && response.status().is_success() {
        let id = shared.streams.draw_id().to_string();
        response
            .headers_mut()
            .insert(SESSION_ID, id.try_into().expect("a uuid is a header's value"));
    }
    response
}

/// Cancels what a client does not want any more, if it says which session it took up at its handshake.
fn cancel(shared: &Shared, caller: &Caller, envelope: &Envelope<'_>) {
    if let (Some(key), Some(id)) = (&caller.cancel_key, express::cancelled_id(envelope))
        && let Some(call) = shared.reads.cancel(key, id)
    {
        shared.owner.cancel(call);
    }
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

/// Answers a call the short way.
async fn answer(shared: &Arc<Shared>, link: &Link, caller: &Caller, call: ToolCall<'_>) -> Response {
    let called = caller.call(&shared.owner, call.id.get(), &call.name, call.arguments);
    let done = match called {
        Some(Called::Done(done)) => Some(done),
        Some(Called::Parked(mut parked)) => parked
            .answered()
            .await
            .map(|answer| Done::new(parked.complete(answer))),
        None => None,
    };
    // There is no response to a cancelled request, but there is one to an exchange.
    let Some(done) = done else {
        return StatusCode::ACCEPTED.into_response();
    };
    json_response(call.id, done, link)
}

fn json_response(id: &RawValue, done: Done, link: &Link) -> Response {
    let bytes = express::response(id, &done.result);
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    match done.receipt {
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

/// Tells whether the headers are those of a plain call. rmcp finds the words for what is wrong with others.
fn has_plain_headers(headers: &HeaderMap) -> bool {
    let value = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let version = value(VERSION).is_none_or(|version| SESSION_BASED_VERSIONS.contains(&version));
    let content_type = value(header::CONTENT_TYPE).is_some_and(is_json);
    let accept = value(header::ACCEPT).unwrap_or_default();
    // A weight of zero would take one of them back.
    let accepts = ["application/json", "text/event-stream"]
        .iter()
        .all(|kind| accept.contains(kind));
    version && content_type && accepts && !accept.contains("q=")
}

/// Tells whether a content type is JSON, whatever its parameters are.
pub(super) fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Tells whether a call's progress is told in a stream of events, which is rmcp's to write.
fn streams(call: &ToolCall<'_>) -> bool {
    call.progress_token.is_some() && call.arguments.contains_key("wait_seconds")
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

/// The JSON-RPC answer to bytes that are no JSON: <https://www.jsonrpc.org/specification#error_object>.
pub(super) fn not_json(error: &serde_json::Error) -> Response {
    let body = serde_json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32700, "message": format!("the request is no JSON: {error}")},
    });
    (StatusCode::BAD_REQUEST, axum::Json(body)).into_response()
}

/// The JSON-RPC answer to JSON that is no message of it.
pub(super) fn not_a_message(reason: impl std::fmt::Display) -> Response {
    let body = serde_json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32600, "message": format!("the request is no JSON-RPC 2.0 message: {reason}")},
    });
    (StatusCode::BAD_REQUEST, axum::Json(body)).into_response()
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
            self.link.sent(receipt);
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
    caller: Caller,
    link: Link,
}

impl<B: http_body::Body + Unpin> http_body::Body for Followed<B> {
    type Data = B::Data;
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
            self.link.sent(receipt);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

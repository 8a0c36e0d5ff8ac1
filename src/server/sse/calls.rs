//! `POST /message?sessionId=`: what comes into a stream's session, and what goes into the stream because of it.

use std::sync::Arc;

use axum::http::{Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Incoming;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions, JsonRpcMessage, ProgressToken};
use rmcp::transport::OneshotTransport;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Outbox, Stream};
use crate::server::accept::json_body;
use crate::server::dispatch;
use crate::server::json_rpc::{self, Envelope, Invalid};
use crate::server::orphans::{Passed, Ticket};
use crate::server::query::refuse_twice;
use crate::server::quirks::{Quirk, client_of_handshake};
use crate::server::requests::{Request as Cancellable, RequestKey};
use crate::server::rpc::{Rpc, progress, progress_ticks};
use crate::server::tool_calls::{self, Called, Done, Parked, ToolCall};
use crate::server::wire::Sent;
use crate::server::{Shared, refuse};
use crate::tools::{Scalar, Toolsets};

/// `POST /message?sessionId=`: takes one JSON-RPC message; its answer, if it has one, goes into the stream.
pub(in crate::server) async fn message(shared: &Arc<Shared>, request: Request<Incoming>) -> Response {
    let (parts, body) = request.into_parts();
    // Before anything is refused but by the guard, which reads nothing: with a body unread, the connection could not go on.
    let body = dispatch::read(body).await;
    let body = match body {
        Ok(body) => Ok(body),
        Err(unread) if unread.id.is_some() => Err(unread),
        Err(unread) => return unread.into_response(),
    };
    if let Err(reason) = json_body(&parts.headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason);
    }
    // Only now: while the body arrived, the client may have come back with a stream anew.
    let (stream, outbox) = loop {
        let stream = match find_stream(shared, &parts.uri).await {
            Ok(stream) => stream,
            Err(response) => return *response,
        };
        if let Some(outbox) = stream.outbox() {
            break (stream, outbox);
        }
        if shared.stop.is_cancelled() {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "relay is stopping");
        }
        // It is being replaced at this very moment, and the new one is in the table already.
    };
    let body = match body {
        Ok(body) => body,
        Err(unread) => return refuse_message(&outbox, unread.into_invalid()),
    };
    if !outbox.has_room() {
        let reason = "this session does not read its stream; read what is in it, then call again";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, reason);
    }
    if let Some(call) = ToolCall::plain(&body)
        && call.version.is_none()
    {
        let mut response = accept_call(shared, &stream, outbox, call);
        if response.headers().is_empty() {
            *response.headers_mut() = dispatch::emptied(parts.headers);
        }
        return response;
    }
    match json_rpc::read(&body) {
        Err(invalid) => refuse_message(&outbox, invalid),
        Ok(envelope) => accept(shared, &stream, outbox, &envelope, &body),
    }
}

/// Finds the stream that a call is for.
async fn find_stream(shared: &Shared, uri: &Uri) -> Result<Arc<Stream>, Box<Response>> {
    // Written as relay has given it out, there is nothing to decode; and almost always the stream is there.
    let given = uri.query().and_then(|query| query.strip_prefix("sessionId="));
    match given.and_then(|id| shared.streams.find(id.parse().ok()?)) {
        Some(stream) => Ok(stream),
        None => Box::pin(await_stream(shared, uri)).await,
    }
}

async fn await_stream(shared: &Shared, uri: &Uri) -> Result<Arc<Stream>, Box<Response>> {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let mut given = query
        .into_iter()
        .filter(|(key, _)| key == "sessionId")
        .map(|(_, value)| value);
    let (given, second) = (given.next(), given.next());
    if let (Some(first), Some(second)) = (&given, second) {
        return Err(Box::new(refuse_twice("sessionId", first, Some(&second))));
    }
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
    let bad_call = match envelope.tool_call() {
        Some(Ok(call)) => return accept_call(shared, stream, outbox, call),
        Some(Err(invalid)) => Some(invalid),
        None => None,
    };
    let passed = hear(shared, stream);
    match envelope.method.as_deref() {
        Some("initialize" | "server/discover") => stream.meet_new(),
        Some(_) | None => drop(stream.meet_again(shared, envelope.id)),
    }
    if let Some(invalid) = bad_call {
        return refuse_message(&outbox, invalid);
    }
    let message = match envelope.checked(body) {
        Ok(message) => message,
        Err(invalid) => return refuse_message(&outbox, invalid),
    };
    if envelope.method.as_deref() == Some("initialize")
        && let Some(client) = client_of_handshake(&message)
    {
        // A client has one name, however often it says it.
        stream.known.get_or_init(|| client);
    }
    match (envelope.method.as_deref(), envelope.id) {
        (Some(method), Some(id)) => match serde_json::from_value(message) {
            Ok(request) => {
                let waits = method == "tools/call" && asks_to_wait(stream.offer.toolsets, &request);
                let ticket = waits.then(|| shared.orphans.wait(stream.id, stream.asked_agent(), id));
                if method == "tools/call" {
                    shared.orphans.read(passed);
                }
                tokio::spawn(serve_by_rmcp(
                    Arc::clone(shared),
                    Arc::clone(stream),
                    outbox,
                    request,
                    ticket,
                ));
                StatusCode::ACCEPTED.into_response()
            }
            Err(_) => refuse_message(&outbox, envelope.not_a_message("it is no request of MCP")),
        },
        (Some("notifications/cancelled"), None) => {
            let key =
                tool_calls::cancelled_id(envelope).and_then(|id| RequestKey::of_json(&stream.scope, id));
            key.into_iter()
                .for_each(|key| shared.owner.cancel(key, stream.quirk()));
            StatusCode::ACCEPTED.into_response()
        }
        // Other notifications, and responses to requests that relay never makes, ask for nothing.
        (_, None) | (None, Some(_)) => StatusCode::ACCEPTED.into_response(),
    }
}

/// Takes a plain call.
fn accept_call(shared: &Arc<Shared>, stream: &Arc<Stream>, outbox: Outbox, call: ToolCall<'_>) -> Response {
    let passed = hear(shared, stream);
    match stream.meet_again(shared, Some(call.id)) {
        None => accepted(call_tool(shared, stream, outbox, call, passed)),
        // The client may have taken that answer for this call's, and ignore the next; or it may not.
        Some(why) => accepted(outbox.respond(call.id, Done::error(why.as_str()), None, None)),
    }
}

/// Takes note that a client calls again: it has read what it was sent, which is returned. Not what its call has it told,
/// so this comes first.
fn hear(shared: &Shared, stream: &Stream) -> Passed {
    stream.link.settle();
    shared.orphans.passed(stream.id)
}

/// Answers a POST whose answer goes into the stream.
fn accepted(stream_took_it: bool) -> Response {
    if stream_took_it {
        return StatusCode::ACCEPTED.into_response();
    }
    let reason = "the stream of this session has ended, and the answer with it; GET /sse opens one";
    refuse(StatusCode::NOT_FOUND, reason)
}

/// Tells what is wrong with a message: in the stream, if it is a request whose answer belongs there.
fn refuse_message(outbox: &Outbox, invalid: Invalid) -> Response {
    if !invalid.answers_request() {
        return invalid.into_response();
    }
    accepted(outbox.send(&invalid.bytes(), None))
}

/// Calls a tool, whose client has read what was passed before; returns whether the stream still takes the answer.
fn call_tool(
    shared: &Arc<Shared>,
    stream: &Arc<Stream>,
    outbox: Outbox,
    call: ToolCall<'_>,
    passed: Passed,
) -> bool {
    let waits = call.may_wait(stream.offer.toolsets);
    let command = match tool_calls::command(stream.served(), &call.name, call.arguments) {
        Ok(command) => command,
        Err(invalid) => return outbox.respond(call.id, Done::error(invalid), None, None),
    };
    shared.orphans.read(passed);
    // Before the call is made: whatever becomes of it, its client may wait for the answer for as long as it asked to.
    let ticket = waits.then(|| shared.orphans.wait(stream.id, stream.asked_agent(), call.id));
    let request = Some(Cancellable::Json(&stream.scope, call.id.get()));
    match tool_calls::ask(&shared.owner, stream.session, command, request) {
        // Dropping the ticket says that its client knows nothing of that.
        None if stream.closed.is_cancelled() => false,
        None => {
            ticket.into_iter().for_each(Ticket::settled);
            true
        }
        Some(Called::Done(done)) => outbox.respond(call.id, done, stream.quirk(), ticket),
        Some(Called::Parked(parked)) => {
            let progress_token = call.progress_token.map(RawValue::get);
            let progress_token = progress_token.and_then(|token| serde_json::from_str(token).ok());
            let closed = stream.closed.clone();
            let id = call.id.to_owned();
            tokio::spawn(wait(
                closed,
                outbox,
                parked,
                (stream.quirk(), ticket),
                id,
                progress_token,
            ));
            true
        }
    }
}

/// Waits for the answer to a parked call, telling of progress where the client asked for it.
async fn wait(
    closed: CancellationToken,
    outbox: Outbox,
    mut parked: Parked,
    (quirk, ticket): (Option<Quirk>, Option<Ticket>),
    id: Box<RawValue>,
    progress_token: Option<ProgressToken>,
) {
    let started = Instant::now();
    let mut ticks = progress_ticks();
    loop {
        tokio::select! {
            biased;
            // Before the end of its session cancels the call. Dropping the ticket says that its client knows nothing of that.
            () = closed.cancelled() => return,
            answered = parked.answered() => {
                match answered {
                    Some(done) => drop(outbox.respond(&id, done, quirk, ticket)),
                    // Its client does not want an answer.
                    None => ticket.into_iter().for_each(Ticket::settled),
                }
                return;
            }
            _ = ticks.tick(), if progress_token.is_some() => {
                let token = progress_token.clone().expect("a tick is for a token");
                let notification = serde_json::json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": progress(token, started.elapsed()),
                });
                outbox.send(notification.to_string().as_bytes(), None);
            }
        }
    }
}

/// Tells whether a tool call asks to wait for its answer.
fn asks_to_wait(toolsets: Toolsets, message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else {
        return false;
    };
    let ClientRequest::CallToolRequest(call) = &request.request else {
        return false;
    };
    let arguments = call.params.arguments.as_ref();
    let given = |name: &str| arguments?.get(name).map(Scalar::from);
    toolsets.wait(&call.params.name, given).is_some()
}

/// Has rmcp answer one request, as it does for each request over streamable HTTP.
async fn serve_by_rmcp(
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    outbox: Outbox,
    mut request: ClientJsonRpcMessage,
    mut ticket: Option<Ticket>,
) {
    let caller = stream.caller();
    if let ClientJsonRpcMessage::Request(request) = &mut request {
        request.request.extensions_mut().insert(caller.clone());
    }
    let (transport, mut messages) = OneshotTransport::new(request);
    let cancellation = stream.closed.child_token();
    let running =
        rmcp::service::serve_directly_with_ct(Rpc::new(shared, None), transport, None, cancellation);
    while let Some(message) = messages.recv().await {
        let json = serde_json::to_vec(&message).expect("rmcp's messages are JSON");
        let answers = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        if answers && caller.is_cancelled() {
            break;
        }
        let sent = answers.then(|| Sent::Streamed(caller.take_receipt(), ticket.take()));
        outbox.send(&json, sent);
    }
    // Without an answer, its client wants none, or has lost its stream.
    if !stream.closed.is_cancelled() {
        ticket.into_iter().for_each(Ticket::settled);
    }
    drop(running);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::Ending;
    use crate::server::sse::tests::{Scene, scene};

    const WAIT: &str = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"read_messages","arguments":{"for":"pm","wait_seconds":60}}}"#;

    /// A stream that has ended while a call into it was on its way, and what that call has found.
    async fn ended() -> (Scene, Outbox) {
        let scene = scene(Duration::from_secs(60)).await;
        let stream = &scene.body.stream;
        let outbox = stream.outbox().expect("it was open");
        stream.closed.cancel();
        scene.body.shared.owner.close(stream.session, Ending::Broken);
        (scene, outbox)
    }

    #[tokio::test]
    async fn a_wait_that_finds_its_stream_ended_is_refused_and_told_of_later() {
        let (scene, outbox) = ended().await;
        let shared = &scene.body.shared;
        let call = ToolCall::plain(WAIT.as_bytes()).expect("a plain call");
        let response = accept_call(shared, &scene.body.stream, outbox, call);
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert!(!shared.orphans.is_empty(), "it has lost its stream");
    }

    #[tokio::test]
    async fn a_wait_by_rmcp_that_finds_its_stream_ended_is_told_of_later() {
        let (scene, outbox) = ended().await;
        let (shared, stream) = (&scene.body.shared, &scene.body.stream);
        let id = RawValue::from_string("5".to_owned()).expect("JSON");
        let ticket = shared.orphans.wait(stream.id, None, &id);
        let request = serde_json::from_str(WAIT).expect("a request");
        let (shared, stream) = (Arc::clone(shared), Arc::clone(stream));
        serve_by_rmcp(shared, stream, outbox, request, Some(ticket)).await;
        assert!(!scene.body.shared.orphans.is_empty(), "it has lost its stream");
    }
}

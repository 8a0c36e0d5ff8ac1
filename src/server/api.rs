//! The person's way in: what the subcommands that ask a relay ask for, as JSON over HTTP.
//!
//! Thin: JSON to a command, a reply to JSON. That the person's inbox is reached from here alone keeps agents from taking
//! it by mistake; it is no lock. Whatever program may reach the port may call these addresses too.

pub(super) mod directory;
pub(super) mod holds;
pub(super) mod workers;

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::accept::json_body;
use super::dispatch::ResponseBody;
use super::http::collect;
use super::owner::{Answered, Outcome};
use super::pieces::{self, Pieces, Waiting};
use super::wire::Link;
use super::{Shared, refuse, refuse_as};
use crate::engine::handling::Mode;
use crate::engine::limits::WAIT_SECONDS_MAX;
use crate::engine::mail::{Command, PostOptions, ReadOptions, Reply, Second};
use crate::engine::trace::ShownTo;
use crate::engine::{self, DEFAULT_PROJECT, Kind, Timestamp, Who, agents, receipts, shown};
use crate::tools::messages::Posted;
use crate::tools::text::{Json, Object};
use crate::tools::{self, messages, traces};

/// All addresses of the person's to which something is posted, here and in [`super::v1`].
pub(super) const POSTED: [&str; 23] = [
    "/api/send",
    "/api/read",
    "/api/peek",
    "/api/pending",
    "/api/flush",
    "/api/mode",
    "/api/trace",
    "/api/show",
    "/api/hold",
    "/api/allow",
    "/api/drop",
    "/api/agents",
    "/api/groups",
    "/api/channels",
    "/api/group",
    "/api/channel",
    "/api/retire",
    "/api/spawn",
    "/api/release",
    "/api/workers",
    "/api/key",
    "/api/redrive",
    "/api/dead-letters",
];

/// What `POST /api/send` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    /// The person itself, if it is left out.
    from: Option<String>,
    to: String,
    /// Free, if it is left out.
    kind: Option<String>,
    body: String,
    /// The thread that it belongs to.
    thread: Option<String>,
    /// The id of the message that it answers.
    reply_to: Option<String>,
    /// When it is to be shown.
    mode: Option<String>,
}

/// What `POST /api/read` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    /// The person itself, if it is left out.
    r#for: Option<String>,
    wait_seconds: Option<f64>,
    /// Only those that one agent sent, if it is named.
    from: Option<String>,
    /// How many at the most; all if it is left out.
    limit: Option<NonZeroUsize>,
}

/// What `POST /api/peek` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peek {
    /// The person itself, if it is left out.
    r#for: Option<String>,
}

/// What `POST /api/mode` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetMode {
    /// The person itself, if it is left out.
    r#for: Option<String>,
    /// Stays as it is, if it is left out.
    mode: Option<String>,
}

/// What `POST /api/trace` and `POST /api/show` take.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    /// Its id, or the first digits of it.
    message: String,
}

/// `POST /api/send`: puts a message into an inbox and answers `{"id": …}`, with a `"note"` if nobody got it, or is there to read it.
pub(super) async fn send(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let Send {
        from,
        to,
        kind,
        body,
        thread,
        reply_to,
        mode,
    } = match asked(request).await {
        Ok(asked) => asked,
        Err(response) => return *response,
    };
    let kind = kind.as_deref().unwrap_or(Kind::Free.as_str());
    let Some(kind) = Kind::parse(kind) else {
        let known = Kind::ALL.map(Kind::as_str).join(", ");
        let reason = format!("unknown kind {:?}; known kinds: {known}", shown(kind));
        return refuse(StatusCode::BAD_REQUEST, reason);
    };
    let mode = match mode.as_deref().map(Mode::named).transpose() {
        Ok(mode) => mode,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, reason),
    };
    let says_more = thread.is_some() || reply_to.is_some() || mode.is_some();
    let command = Command::Post {
        from,
        to,
        kind,
        body,
        options: says_more.then(|| {
            Box::new(PostOptions {
                thread,
                reply_to,
                handling: mode.into(),
                ..PostOptions::default()
            })
        }),
    };
    answer(&shared, &link, command).await
}

/// `POST /api/read`: takes all messages out of an inbox and answers `{"messages": […], "restarted": …}`, where the
/// latter is the time of the start if the reader had not been told of it, else null.
pub(super) async fn read(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let Read {
        r#for: agent,
        wait_seconds,
        from,
        limit,
    } = match asked(request).await {
        Ok(asked) => asked,
        Err(response) => return *response,
    };
    let wait_seconds = wait_seconds.unwrap_or(0.0);
    if !(0.0..=f64::from(WAIT_SECONDS_MAX)).contains(&wait_seconds) {
        let reason = format!("\"wait_seconds\" is {wait_seconds}; accepted: 0 to {WAIT_SECONDS_MAX}");
        return refuse(StatusCode::BAD_REQUEST, reason);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be in 0 to 280,000"
    )]
    let wait_ms = (wait_seconds * 1_000.0).round() as u32;
    let command = Command::Read {
        agent,
        options: Some(Box::new(ReadOptions {
            from,
            limit,
            ..ReadOptions::default()
        })),
        room: None,
        wait_ms,
        second: Second::Supersedes,
    };
    answer(&shared, &link, command).await
}

/// `POST /api/pending`: answers how many messages wait and what each is for, `{"count": n, "kinds": [kind…]}`, and takes nothing.
pub(super) async fn pending(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Peek { r#for: agent }) => answer(&shared, &link, Command::Pending { agent }).await,
        Err(response) => *response,
    }
}

/// `POST /api/peek`: answers `{"messages": […]}` and takes nothing. One that the person holds has `"held"`, and for which hold.
pub(super) async fn peek(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Peek { r#for: agent }) => answer(&shared, &link, Command::Peek { agent, limit: None }).await,
        Err(response) => *response,
    }
}

/// `POST /api/flush`: has what is held for an agent brought to it, and answers `{"flushed": n}`.
pub(super) async fn flush(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Peek { r#for: agent }) => answer(&shared, &link, receipts::Command::Flush { agent }).await,
        Err(response) => *response,
    }
}

/// `POST /api/mode`: sets in which mode an agent is brought what its senders say nothing of, if one is given, and answers `{"mode": …}`.
pub(super) async fn mode(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let SetMode { r#for: agent, mode } = match asked(request).await {
        Ok(asked) => asked,
        Err(response) => return *response,
    };
    match mode.as_deref().map(Mode::named).transpose() {
        Ok(mode) => answer(&shared, &link, agents::Command::Mode { agent, mode }).await,
        Err(reason) => refuse(StatusCode::BAD_REQUEST, reason),
    }
}

/// `POST /api/trace`: answers what happened to a message, as [`traces::write`] writes it.
pub(super) async fn trace(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Trace { message }) => {
            let shown_to = ShownTo::Person;
            let asked = engine::trace::Command::Trace { message, shown_to };
            answer(&shared, &link, asked).await
        }
        Err(response) => *response,
    }
}

/// `POST /api/show`: answers `{"message": …}`, the whole of it.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Trace { message }) => answer(&shared, &link, engine::trace::Command::Show { message }).await,
        Err(response) => *response,
    }
}

/// Reads what a request asks for.
async fn asked<T: DeserializeOwned>(request: Request) -> Result<T, Box<Response>> {
    let (parts, body) = request.into_parts();
    // Before anything is refused but by the guard, which reads nothing: with a body unread, the connection could not go on.
    let body = collect(body).await?;
    if let Some(query) = parts.uri.query().filter(|query| !query.is_empty()) {
        let (query, path) = (shown(query), parts.uri.path());
        let reason = format!("query {query:?} is not taken; {path} takes JSON in its body");
        return Err(Box::new(refuse(StatusCode::BAD_REQUEST, reason)));
    }
    json_body(&parts.headers)
        .map_err(|reason| Box::new(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason)))?;
    serde_json::from_slice(&body).map_err(|error| Box::new(not_taken(&parts.uri, &error)))
}

fn not_taken(uri: &Uri, error: &serde_json::Error) -> Response {
    let takes = match uri.path() {
        "/api/send" => {
            r#"{"from": role, "to": role, "kind": kind, "body": text, "thread": thread, "reply_to": id, "mode": mode}"#
        }
        "/api/read" => r#"{"for": role, "wait_seconds": number, "from": role, "limit": number}"#,
        "/api/trace" | "/api/show" => r#"{"message": id}"#,
        "/api/group" => {
            r#"{"do": "make" or "remove", "group": name, "description": text}, or {"do": "join" or "leave", "group": name, "agent": name or "role": role}"#
        }
        "/api/channel" => {
            r#"{"do": "make", "join", "leave" or "remove", "channel": name, "topic": text, "agents": [name, …]}"#
        }
        "/api/agents" => r#"{"project": project, "active_only": boolean}"#,
        "/api/retire" => r#"{"agent": name}"#,
        "/api/groups" | "/api/channels" => r#"{"project": project, "name": name}"#,
        "/api/hold" => r#"{"agent": role, "all": true or false}"#,
        "/api/allow" => r#"{"message": id}, {"agent": role}, or {"all": true}"#,
        "/api/drop" => r#"{"message": id}"#,
        "/api/mode" => r#"{"for": role, "mode": mode}"#,
        "/api/spawn" => {
            r#"{"from": role, "name": name, "cli": cli, "task": text, "model": model, "cwd": directory}"#
        }
        "/api/release" => r#"{"from": role, "name": name, "reason": text}"#,
        "/api/workers" => "{}",
        _ => r#"{"for": role}"#,
    };
    let reason = format!("{} takes the JSON {takes}: {error}", uri.path());
    refuse(StatusCode::BAD_REQUEST, reason)
}

/// Carries a command of the person's out.
async fn answer(shared: &Arc<Shared>, link: &Link, command: impl Into<engine::Command>) -> Response {
    let called = call(shared, link, command);
    answer_of(shared, link, called).await
}

/// What a call has come to: none if it was cancelled.
type Called = Result<Option<Outcome>, engine::Refusal>;

/// Calls the engine for the person.
fn call(shared: &Arc<Shared>, link: &Link, command: impl Into<engine::Command>) -> Called {
    let (session, _) = link.session(Who::Person, None)?;
    Ok(shared.owner.call(session, command.into(), None))
}

/// Answers what a call has come to, once it has.
async fn answer_of(shared: &Arc<Shared>, link: &Link, called: Called) -> Response {
    let outcome = match called {
        Ok(outcome) => outcome,
        Err(refusal) => return refuse_as(tools::DEFAULT, &refusal),
    };
    let (answered, waited) = match outcome {
        Some(Outcome::Answered(answered)) => (Some(answered), false),
        Some(Outcome::Parked(mut parked)) => (parked.answered().await, true),
        None => (None, false),
    };
    let Some(Answered { answer, receipt }) = answered else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the call was cancelled");
    };
    let reply = match answer {
        Err(refusal) => return refuse_as(tools::DEFAULT, &refusal),
        Ok(reply) => reply,
    };
    if let Some((messages, end)) = in_pieces(&reply) {
        return Pieces::response(messages, &end, receipt, link);
    }
    let json = match reply {
        engine::Reply::Trace(engine::trace::Reply::Traced(traced)) => {
            object(|object| traces::write(&traced, object))
        }
        engine::Reply::Trace(engine::trace::Reply::Shown(message)) => object(|object| {
            let member = object.member("message");
            member.object(|object| messages::write_message(&message, DEFAULT_PROJECT, object));
        }),
        engine::Reply::Holds(reply) => object(|object| tools::holds::write(&reply, object)),
        engine::Reply::Receipts(receipts::Reply::Flushed(count)) => {
            object(|object| object.member("flushed").number(count))
        }
        engine::Reply::Workers(reply) => workers::write(&reply),
        engine::Reply::Mail(reply) => {
            if waited && is_in_vain(&reply) && shared.stop.is_cancelled() {
                return refuse(StatusCode::SERVICE_UNAVAILABLE, "relay is stopping");
            }
            mail(&reply)
        }
        engine::Reply::Agents(reply) => directory::agents(&reply),
        engine::Reply::Groups(reply) => directory::groups(&reply),
        engine::Reply::Channels(reply) => directory::channels(&reply),
        engine::Reply::Watches(_)
        | engine::Reply::Actions(_)
        | engine::Reply::Receipts(_)
        | engine::Reply::Records(_)
        | engine::Reply::Surfacing(_)
        | engine::Reply::AfterStart { .. }
        | engine::Reply::Nodes(_) => {
            unreachable!("what is asked for here is answered with {reply:?}")
        }
    };
    ResponseBody::json(json.into(), receipt, link, HeaderMap::new()).map(Body::new)
}

/// Returns the messages of an answer that is better made in pieces, and what stands behind them.
fn in_pieces(reply: &engine::Reply) -> Option<(Vec<Waiting>, Vec<u8>)> {
    let engine::Reply::Mail(reply) = reply else {
        return None;
    };
    let (messages, end) = match reply {
        Reply::Seen { deliveries, held, .. } => (pieces::inbox(deliveries, held), b"}".to_vec()),
        Reply::Messages {
            deliveries,
            restarted,
            ..
        } => {
            let mut end = object(|object| write_restarted(*restarted, object));
            // It is no object of its own.
            end[0] = b',';
            (pieces::taken(deliveries), end)
        }
        Reply::Posted { .. } | Reply::Found { .. } | Reply::Pending { .. } => return None,
    };
    Pieces::are_for(&messages).then_some((messages, end))
}

fn write_restarted(restarted: Option<Timestamp>, object: &mut Object<'_>) {
    match restarted {
        Some(at) => messages::write_time(at, object.member("restarted")),
        None => object.member("restarted").null(),
    }
}

/// Tells whether a read was answered with nothing.
fn is_in_vain(reply: &Reply) -> bool {
    matches!(reply, Reply::Messages { deliveries, restarted: None, .. } if deliveries.is_empty())
}

/// Writes an answer that is about messages.
fn mail(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Posted {
            id,
            given,
            warnings,
            absence,
            ..
        } => object(|object| {
            object.member("id").string(&id.to_string());
            let posted = Posted {
                given,
                warnings,
                absence: absence.as_deref(),
            };
            messages::write_note(&posted, object);
        }),
        Reply::Found { .. } => unreachable!("no address here asks for one message"),
        Reply::Pending { kinds } => object(|object| {
            object.member("count").number(kinds.len());
            let each = object.member("kinds");
            each.array(kinds, |json, kind| json.plain(kind.as_str()));
        }),
        Reply::Seen { deliveries, held, .. } => object(|object| {
            tools::holds::write_inbox(deliveries, held, object.member("messages"));
        }),
        Reply::Messages {
            deliveries,
            restarted,
            ..
        } => object(|object| {
            // Whosever inbox it is, the person reads it, who is in the default project.
            messages::write(deliveries, DEFAULT_PROJECT, object.member("messages"));
            write_restarted(*restarted, object);
        }),
    }
}

fn object(write: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    Json::document(&mut bytes).object(write);
    bytes
}

//! The shell: bytes to engine inputs, engine effects to bytes.
//!
//! It must not decide anything about messages: who may read what, what is full and when a message counts as
//! read are the engine's to say. A transport reports what it saw (a call, a reply that was passed, a closed
//! connection) and carries out what it is told.
//!
//! # One call
//!
//! Bytes arrive through the doors of [`unix`], over [`connections`] and [`wire`]; `guard` checks where they come from; [`dispatch`] hands what calls tools
//! to [`sse`] or [`http`]. A plain `tools/call` is read by [`plain_call`] and goes through [`tool_calls`] straight to the
//! [`owner`], also one of protocol version 2026-07-28 that [`stateless`] finds to be plain; all the rest of MCP goes
//! through rmcp's service and its handler in [`rpc`], which calls the same owner. What the person's own commands ask for
//! comes in under [`api`], what the clients of Agent Relay ask for under [`v1`]. The reply's bytes carry a receipt with them, and `wire` reports it to the engine when the last
//! of them is passed to the socket.

mod accept;
mod api;
mod budget;
mod changes;
mod clock;
mod connections;
mod dispatch;
mod guard;
mod headers;
mod health;
pub mod hooks;
mod http;
#[cfg(all(test, feature = "interleavings"))]
mod interleavings;
mod json;
pub(crate) mod json_id;
mod json_reader;
pub(crate) mod json_rpc;
mod known_agents;
mod limits;
mod log;
mod machine;
mod nodes;
mod notes;
mod observers;
pub(crate) mod offers;
mod orphans;
mod owner;
mod peer;
mod pieces;
mod plain_call;
mod pushes;
mod query;
pub(crate) mod quirks;
mod random;
#[cfg(test)]
mod recorder;
mod requests;
pub(crate) mod rpc;
mod socket_file;
mod sse;
mod stateless;
mod sync;
mod tool_calls;
mod unix;
mod v1;
#[cfg(test)]
mod walk;
mod websocket;
mod wire;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use clock::{Clock, wall_clock};
pub use connections::Listener;
pub use guard::{Guard, Token};
pub use hooks::Messaging;
pub use known_agents::KnownAgents;
pub use limits::{ACKNOWLEDGE_PATIENCE, HEALTH_BYTES_MAX, KEEP_ALIVE};
pub use log::{Line, Lines, LogEnd, MessageLog, NoLog, line, stdout_log};
pub use machine::Machine;
pub use notes::{FileNotes, runtime_directory};
pub use orphans::Notes;
pub use owner::Unread;
pub use pushes::{Network, Socket, System};
pub use random::Random;
pub use socket_file::{SocketFile, SocketFileError, is_live};
pub use unix::{DoorIo, Doors};
pub use v1::reference as api_reference;
pub use wire::SocketState;
pub use workers::{NoStarter, Reports, Starter};

use crate::engine::address::Home;
use crate::engine::{Class, Overview, Refusal, Roster, Timestamp};
use crate::tools::{self, Toolsets};
use dispatch::Dispatch;
use http::RmcpService;
use limits::{REQUEST_BYTES_MAX, STOP_PATIENCE, WORKERS_PATIENCE};
use orphans::Orphans;
use owner::Owner;
use rpc::{Caller, Rpc};

/// What a relay is started with.
pub struct Config {
    /// The engine, just made.
    pub engine: Box<dyn Machine>,
    /// The agents that it knows.
    pub roster: Roster,
    /// Where the time comes from.
    pub clock: Clock,
    /// Where the ids of messages come from.
    pub message_random: Random,
    /// Where the ids of streams come from, which nobody may guess.
    pub stream_random: Random,
    /// Where the tokens of the API come from, which nobody may guess either.
    pub token_random: Random,
    /// Where accepted messages are shown.
    pub log: Box<dyn MessageLog>,
    /// Which calls wait is noted here, so that a next life of the relay can tell their clients.
    pub notes: Box<dyn Notes>,
    /// Which agents have had a session is noted here, so that the next run of relay knows who may have lost something.
    pub agents: KnownAgents,
    /// Who may connect.
    pub guard: Guard,
    /// How often an idle stream is written to, to find out whether its client is still there.
    pub keep_alive: Duration,
    /// How the targets of pushes are reached.
    pub network: Arc<dyn Network>,
    /// How programs on this machine are reached.
    pub messaging: Arc<dyn Messaging>,
    /// The hosts beside this machine that they may be on.
    pub push_allow: Vec<String>,
    /// How the programs of workers are started.
    pub starter: Arc<dyn Starter>,
}

/// What every request needs.
struct Shared {
    owner: Arc<Owner>,
    /// The id of this life of the relay.
    boot: Uuid,
    /// When it began.
    started_at: Timestamp,
    api: Arc<v1::Api>,
    streams: sse::Streams,
    orphans: Arc<Orphans>,
    guard: Guard,
    roster: Roster,
    /// Which project's own the relay is.
    home: Home,
    /// Of a session that asks for none.
    toolsets: Toolsets,
    keep_alive: Duration,
    pushes: pushes::Pushes,
    doors: hooks::Doors,
    clis: hooks::Clis,
    messaging: Arc<dyn Messaging>,
    stop: CancellationToken,
    /// Connections that have become WebSockets.
    sockets: TaskTracker,
}

/// Why a relay ended without being asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a panic has passed through the engine, whose state cannot be trusted any more; start relay again")]
pub struct Broken;

/// Serves a relay until `stop` is cancelled, then ends in order: waits are answered, streams closed. Returns what was
/// unread when it was cancelled.
///
/// # Errors
///
/// [`Broken`], as soon as a panic has passed through the engine.
pub async fn serve<L: Listener>(
    listener: L,
    config: Config,
    stop: CancellationToken,
) -> Result<Unread, Broken> {
    let api = Arc::new(v1::Api::new(config.token_random));
    let owner = Owner::new(config.engine, config.clock, config.message_random, config.log);
    let owner = owner
        .telling_who_goes(api.forgetting())
        .noting_agents(config.agents);
    let owner = Arc::new(owner);
    let Overview { boot, home, .. } = owner.overview().1;
    let shared = Arc::new(Shared {
        boot: boot.id,
        started_at: boot.started_at,
        api,
        owner: Arc::clone(&owner),
        streams: sse::Streams::new(config.stream_random),
        orphans: Arc::new(Orphans::new(config.notes)),
        guard: config.guard,
        toolsets: tools::DEFAULT,
        roster: config.roster,
        home,
        keep_alive: config.keep_alive,
        pushes: pushes::Pushes::new(config.push_allow, config.network),
        doors: hooks::Doors::default(),
        clis: hooks::Clis::default(),
        messaging: config.messaging,
        stop: stop.clone(),
        sockets: TaskTracker::new(),
    });
    let timers = tokio::spawn(Arc::clone(&owner).run_timers());
    let wanted = owner.take_up_workers();
    let starting = tokio::spawn(workers::pass_on(Arc::clone(&owner), wanted, config.starter));
    // What connections wait for: they end only once all that waits is answered.
    let stopped = CancellationToken::new();
    let ending = {
        let (stopped, shared) = (stopped.clone(), Arc::clone(&shared));
        async move {
            stop.cancelled().await;
            shared.owner.stop();
            // The next relay finds the port free once there is none of them any more.
            let _ = tokio::time::timeout(WORKERS_PATIENCE, shared.owner.without_workers()).await;
            shared.streams.end_all();
            stopped.cancel();
            std::future::pending().await
        }
    };
    let orphans = Arc::clone(&shared.orphans);
    let sockets = shared.sockets.clone();
    let rmcp = rmcp_service(&shared, None);
    let dispatch = Arc::new(Dispatch::new(shared, rmcp));
    let answer = move |link, request| Arc::clone(&dispatch).answer(link, request);
    let serving = connections::serve(listener, answer, Arc::clone(&owner), stopped);
    let result = tokio::select! {
        biased;
        () = owner.broken() => Err(Broken),
        () = ending => unreachable!("it waits for the connections' end"),
        () = serving => {
            sockets.close();
            let _ = tokio::time::timeout(STOP_PATIENCE, sockets.wait()).await;
            orphans.forget_lost();
            Ok(())
        }
    };
    timers.abort();
    starting.abort();
    result.map(|()| owner.unread_at_stop())
}

/// Makes rmcp's service: of all requests, or of the one with which a client listens.
fn rmcp_service(shared: &Arc<Shared>, listener: Option<Caller>) -> RmcpService {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .disable_allowed_origins()
        // Streams are kept alive by relay, on tokio's clock.
        .with_sse_keep_alive(None)
        // rmcp's own cancellation token would cut waiting calls off; relay answers them, and then they end.
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let handler = Rpc::new(Arc::clone(shared), listener);
    StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    )
}

/// Routes what [`dispatch`] leaves: all but the `POST`s to `/mcp` and `/message` that are let in.
fn router(shared: Arc<Shared>) -> Router {
    let guard = axum::middleware::from_fn_with_state(Arc::clone(&shared), guard::check);
    routes().layer(guard).with_state(shared)
}

fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/sse", get(sse::open).head(unknown_method))
        // As some clients, and proxies, write them.
        .route("/sse/", get(sse::open).head(unknown_method))
        .route("/mcp/", any(http::resume))
        .route("/message", any(unknown_method))
        .route("/mcp", any(http::resume))
        .route("/health", get(health::health))
        .route("/api/send", post(api::send))
        .route("/api/read", post(api::read))
        .route("/api/peek", post(api::peek))
        .route("/api/pending", post(api::pending))
        .route("/api/flush", post(api::flush))
        .route("/api/mode", post(api::mode))
        .route("/api/trace", post(api::trace))
        .route("/api/show", post(api::show))
        .route("/api/agents", post(api::directory::list_agents))
        .route("/api/groups", post(api::directory::list_groups))
        .route("/api/channels", post(api::directory::list_channels))
        .route("/api/group", post(api::directory::change_group))
        .route("/api/channel", post(api::directory::change_channel))
        .route("/api/retire", post(api::directory::retire))
        .route("/api/hold", post(api::holds::hold))
        .route("/api/allow", post(api::holds::allow))
        .route("/api/drop", post(api::holds::drop))
        .route("/api/spawn", post(api::workers::spawn))
        .route("/api/release", post(api::workers::release))
        .route("/api/workers", post(api::workers::list))
        .route("/hooks/{program}", post(hooks::event))
        .route("/hooks/{program}/wait", post(hooks::wait))
        .merge(v1::routes())
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
}

/// An answer that is an error of HTTP: `{"error": reason}`.
fn refuse(status: StatusCode, reason: impl std::fmt::Display) -> Response {
    let body = serde_json::json!({"error": reason.to_string()});
    (status, axum::Json(body)).into_response()
}

/// An answer that is the engine's refusal, in the words of a toolsets.
fn refuse_as(toolsets: Toolsets, refusal: &Refusal) -> Response {
    refuse(status_of(refusal.class()), toolsets.refused(refusal))
}

/// What a refusal is in HTTP. Not 404, with which streamable HTTP says that a session is gone and is to be begun anew.
fn status_of(class: Class) -> StatusCode {
    match class {
        Class::Bad | Class::Unknown => StatusCode::BAD_REQUEST,
        Class::Fenced | Class::Conflict => StatusCode::CONFLICT,
        Class::Full => StatusCode::SERVICE_UNAVAILABLE,
        Class::Unsupported => StatusCode::NOT_IMPLEMENTED,
    }
}

async fn unknown_path(uri: Uri, request: Request) -> Response {
    if v1::is_under(&uri) {
        return v1::unknown_path(request).await;
    }
    let reason = format!(
        "nothing at {:?}; there are /sse, /message, /mcp, /health, {}, /api/tail, /hooks/claude, /hooks/codex, /hooks/gemini and /hooks/opencode, and what docs/API.md lists under /v1",
        uri.path(),
        api::POSTED.join(", ")
    );
    refuse(StatusCode::NOT_FOUND, reason)
}

async fn unknown_method(method: Method, uri: Uri, request: Request) -> Response {
    if v1::is_under(&uri) {
        return v1::unknown_method(request).await;
    }
    let accepted = match uri.path() {
        "/message" => "POST",
        path if api::POSTED.contains(&path) || path.starts_with("/hooks/") => "POST",
        _ => "GET",
    };
    let reason = format!("{method} is not for {:?}; accepted: {accepted}", uri.path());
    let allow = [(axum::http::header::ALLOW, accepted)];
    (allow, refuse(StatusCode::METHOD_NOT_ALLOWED, reason)).into_response()
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_route_contradicts_another() {
        // axum panics if one does, and relay makes its routes only once it is asked for one.
        drop(super::routes());
    }
}

//! The shell: bytes to engine inputs, engine effects to bytes.
//!
//! It must not decide anything about messages: who may read what, what is full and when a message counts as
//! read are the engine's to say. A transport reports what it saw (a call, a flushed reply, a closed
//! connection) and carries out what it is told.
//!
//! # One call
//!
//! Bytes arrive over [`wire`]; `guard` checks where they come from; [`sse`] or [`http`] reads the JSON-RPC
//! message. A plain `tools/call` goes through [`express`] straight to the [`owner`]; all the rest of MCP goes
//! through rmcp's service and its handler in [`rpc`], which calls the same owner. The reply's bytes carry a
//! receipt with them, and `wire` reports it to the engine when the last of them is passed to the socket.

mod clock;
mod express;
mod guard;
mod http;
mod log;
mod owner;
mod recent;
pub(crate) mod rpc;
mod sse;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::serve::Listener;
use rmcp::model::Tool;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Serialize;
use serde::ser::SerializeMap;
use tokio_util::sync::CancellationToken;

pub use clock::{Clock, wall_clock};
pub use guard::{Guard, Token};
pub use log::{LogEnd, MessageLog, line, stdout_log};
pub use owner::Machine;
pub use wire::{ACKNOWLEDGE_PATIENCE, Evidence, Link};

use crate::engine::{AgentName, RandomBytes, Refusal, Roster, Status};
use owner::Owner;
use recent::RecentReads;
use rpc::Rpc;
use wire::WireListener;

/// Longest request body, in bytes: a message body of 1 MiB may take six bytes for each of its own in JSON.
const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a request body may take to arrive, so that a trickling client does not hold its buffer for ever.
const REQUEST_PATIENCE: Duration = Duration::from_secs(30);

/// How long the end of a relay waits for its connections to finish.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How many of the latest reads over streamable HTTP can still be cancelled: every wait that can be parked, and as
/// many reads that passed it by.
const CANCELLABLE_MAX: usize = 8_192;

/// What a relay is started with.
pub struct Config {
    /// The engine, just made.
    pub engine: Box<dyn Machine>,
    /// The agents that it knows.
    pub roster: Roster,
    /// Where the time comes from.
    pub clock: Clock,
    /// Where the ids of streams come from, which nobody may guess.
    pub stream_random: RandomBytes,
    /// Where accepted messages are shown.
    pub log: MessageLog,
    /// Who may connect.
    pub guard: Guard,
    /// How often an idle stream is written to, to find out whether its client is still there.
    pub keep_alive: Duration,
}

/// What every request needs.
struct Shared {
    owner: Arc<Owner>,
    streams: sse::Streams,
    /// Of streamable HTTP, by the ids that it gives out; each stream of HTTP+SSE has its own.
    reads: Arc<RecentReads>,
    guard: Guard,
    roster: Roster,
    /// As a session sees them that is not bound.
    tools: Vec<Tool>,
    keep_alive: Duration,
    stop: CancellationToken,
}

/// Serves a relay until `stop` is cancelled, then ends in order: waits are answered, streams closed.
///
/// # Errors
///
/// Whatever the listener fails with.
pub async fn serve<L>(listener: L, config: Config, stop: CancellationToken) -> std::io::Result<()>
where
    L: Listener,
    L::Io: Evidence,
    L::Addr: std::fmt::Debug,
{
    let owner = Arc::new(Owner::new(config.engine, config.clock, config.log));
    let shared = Arc::new(Shared {
        owner: Arc::clone(&owner),
        streams: sse::Streams::new(config.stream_random),
        reads: Arc::new(RecentReads::new(CANCELLABLE_MAX)),
        guard: config.guard,
        tools: rpc::tools_for(&config.roster, None),
        roster: config.roster,
        keep_alive: config.keep_alive,
        stop: stop.clone(),
    });
    let timers = tokio::spawn(Arc::clone(&owner).run_timers());
    let service = router(Arc::clone(&shared)).into_make_service_with_connect_info::<Link>();
    let listener = WireListener::new(listener, Arc::clone(&owner));
    let ending = {
        let (stop, shared) = (stop.clone(), Arc::clone(&shared));
        async move {
            stop.cancelled().await;
            shared.owner.stop();
            shared.streams.end_all();
        }
    };
    let serving = axum::serve(listener, service)
        .with_graceful_shutdown(ending)
        .into_future();
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(STOP_PATIENCE).await;
    };
    let result = tokio::select! {
        result = serving => result,
        () = late => Ok(()),
    };
    timers.abort();
    result
}

fn router(shared: Arc<Shared>) -> Router {
    let rmcp_config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_sse_keep_alive(Some(shared.keep_alive))
        // rmcp's own cancellation token would cut waiting calls off; relay answers them, and then they end.
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let handler = Rpc::new(Arc::clone(&shared));
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(NeverSessionManager::default()),
        rmcp_config,
    );
    Router::new()
        .route("/sse", get(sse::open))
        .route("/message", post(sse::message))
        .route(
            "/mcp",
            any(http::exchange).with_state((Arc::clone(&shared), service)),
        )
        .route("/health", get(health))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(axum::middleware::from_fn_with_state(
            Arc::clone(&shared),
            guard::check,
        ))
        .with_state(shared)
}

/// An answer that is an error of HTTP: `{"error": reason}`.
fn refuse(status: StatusCode, reason: impl std::fmt::Display) -> Response {
    let body = serde_json::json!({"error": reason.to_string()});
    (status, axum::Json(body)).into_response()
}

/// The HTTP face of a refused session.
fn refuse_session(refusal: &Refusal) -> Response {
    let status = match refusal {
        Refusal::TooManySessions { .. } => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::UnknownAgent { .. }
        | Refusal::NotYou { .. }
        | Refusal::Anonymous { .. }
        | Refusal::BodyTooLong { .. }
        | Refusal::InboxFull { .. }
        | Refusal::TooManyWaits { .. } => StatusCode::BAD_REQUEST,
    };
    refuse(status, refusal)
}

/// Reads the query of a transport's address: `agent` is all that there is, and an empty one is none.
fn agent_of(uri: &Uri) -> Result<Option<String>, Box<Response>> {
    let mut agent = None;
    for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        if key != "agent" {
            let reason = format!("unknown query parameter {key:?}; accepted: agent");
            return Err(Box::new(refuse(StatusCode::BAD_REQUEST, reason)));
        }
        agent = Some(value.into_owned()).filter(|name| !name.is_empty());
    }
    Ok(agent)
}

async fn unknown_path(uri: Uri) -> Response {
    let reason = format!(
        "nothing at {:?}; there are /sse, /message, /mcp and /health",
        uri.path()
    );
    refuse(StatusCode::NOT_FOUND, reason)
}

async fn unknown_method(method: Method, uri: Uri) -> Response {
    let accepted = match uri.path() {
        "/message" => "POST",
        _ => "GET",
    };
    let reason = format!("{method} is not for {:?}; accepted: {accepted}", uri.path());
    let allow = [(axum::http::header::ALLOW, accepted)];
    (allow, refuse(StatusCode::METHOD_NOT_ALLOWED, reason)).into_response()
}

async fn health(State(shared): State<Arc<Shared>>) -> axum::Json<Health> {
    axum::Json(Health(shared.owner.status()))
}

/// What `GET /health` answers.
struct Health(Status);

impl Serialize for Health {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Status {
            boot,
            sessions,
            pending,
        } = &self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", "relay")?;
        map.serialize_entry("version", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("boot", &boot.id)?;
        map.serialize_entry("started_at", &boot.started_at.to_string())?;
        map.serialize_entry("sessions", sessions)?;
        map.serialize_entry("pending", &PendingCounts(pending))?;
        map.end()
    }
}

/// How many messages wait for each agent, in the order of the roster.
struct PendingCounts<'a>(&'a [(AgentName, usize)]);

impl Serialize for PendingCounts<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(agent, count)| (agent.as_str(), count)))
    }
}

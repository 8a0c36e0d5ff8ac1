//! rmcp's view of relay: handshake, discovery, the tool list, and the calls that do not take the short way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ContentBlock, ErrorData, Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use tokio::time::Instant;

use super::Shared;
use super::express::{Called, Done, call_tool};
use super::owner::{Owner, Parked, Receipt};
use super::recent::RecentReads;
use crate::engine::{AgentName, Roster, SessionId};
use crate::tools::{ToolResult, lift};

/// When a waiting call first tells that it is alive, and how often after that, where its client asked for it.
///
/// Claude Code gives up on a call after five silent minutes; the TypeScript SDK after one.
const PROGRESS_FIRST: Duration = Duration::from_secs(1);
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The handler that rmcp calls.
#[derive(Clone)]
pub struct Rpc {
    shared: Arc<Shared>,
}

/// On whose behalf rmcp calls: put into a request's extensions by the transport that received it.
#[derive(Clone)]
pub struct Caller {
    /// The engine's session.
    pub session: SessionId,
    /// The agent that it is bound to.
    pub agent: Option<AgentName>,
    /// What the transport takes for the session, where its client can cancel a request by its id.
    pub cancel_key: Option<Arc<str>>,
    /// Where reads are remembered for that.
    pub reads: Arc<RecentReads>,
    /// Where the receipt of the reply is left for the transport.
    receipt: Arc<Mutex<Option<Receipt>>>,
}

impl Caller {
    /// Makes the caller of one request.
    pub fn new(
        session: SessionId,
        agent: Option<AgentName>,
        cancel_key: Option<Arc<str>>,
        reads: Arc<RecentReads>,
    ) -> Self {
        Self {
            session,
            agent,
            cancel_key,
            reads,
            receipt: Arc::default(),
        }
    }

    /// Calls a tool, and remembers the call if it can be cancelled; returns nothing if it was cancelled already.
    /// All ways to a tool end here.
    pub fn call(
        &self,
        owner: &Arc<Owner>,
        request_id: &str,
        tool: &str,
        arguments: serde_json::Map<String, serde_json::Value>,
    ) -> Option<Called> {
        let Some(key) = &self.cancel_key else {
            return Some(call_tool(owner, self.session, tool, arguments));
        };
        if self.reads.was_cancelled(key, request_id) {
            return None;
        }
        let called = call_tool(owner, self.session, tool, arguments);
        if let Some(call) = called.cancellable() {
            self.reads.remember(key, request_id, call);
        }
        Some(called)
    }

    /// Takes the receipt that the call has left, if any.
    pub fn take_receipt(&self) -> Option<Receipt> {
        self.receipt
            .lock()
            .expect("nothing panics while it holds a receipt")
            .take()
    }
}

/// Returns when a waiting call tells that it is alive.
pub fn progress_ticks() -> tokio::time::Interval {
    tokio::time::interval_at(Instant::now() + PROGRESS_FIRST, PROGRESS_EVERY)
}

impl Rpc {
    /// Makes the handler of a relay.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Waits for the answer to a parked call, telling of progress where the client asked for it.
    async fn wait(&self, mut parked: Parked, context: &RequestContext<RoleServer>) -> Option<Done> {
        let started = Instant::now();
        let token = context.meta.get_progress_token();
        let mut ticks = progress_ticks();
        loop {
            tokio::select! {
                answer = parked.answered() => {
                    return Some(Done::new(parked.complete(answer?)));
                }
                () = context.ct.cancelled() => return None,
                _ = ticks.tick(), if token.is_some() => {
                    let token = token.clone().expect("a tick is for a token");
                    let progress = progress(token, started.elapsed());
                    if context.peer.notify_progress(progress).await.is_err() {
                        return None;
                    }
                }
            }
        }
    }
}

/// Says how long a call has waited.
pub fn progress(token: ProgressToken, waited: Duration) -> ProgressNotificationParam {
    ProgressNotificationParam::new(token, waited.as_secs_f64().round()).with_message("waiting for a message")
}

/// Says what relay is and has, to every client that asks.
pub fn server_info() -> ServerConfig {
    let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
    info.server_info = Implementation::new("relay", env!("CARGO_PKG_VERSION"));
    info.with_instructions(lift::INSTRUCTIONS)
}

/// Returns the tools as a session sees them that is bound to `agent`, or to none.
pub fn tools_for(roster: &Roster, agent: Option<&AgentName>) -> Vec<Tool> {
    let definitions = lift::definitions(roster, agent);
    serde_json::from_value(definitions).expect("the definitions are tools")
}

/// Wraps a result as rmcp has it.
fn wrapped(result: ToolResult) -> CallToolResult {
    let blocks = result.texts.into_iter().map(ContentBlock::text).collect();
    if result.is_error {
        CallToolResult::error(blocks)
    } else {
        CallToolResult::success(blocks)
    }
}

/// Finds the caller that the transport has put into a request.
fn caller_of(context: &RequestContext<RoleServer>) -> Option<&Caller> {
    let parts = context.extensions.get::<axum::http::request::Parts>();
    let from_http = parts.and_then(|parts| parts.extensions.get::<Caller>());
    from_http.or_else(|| context.extensions.get::<Caller>())
}

impl ServerHandler for Rpc {
    fn get_info(&self) -> ServerConfig {
        server_info()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = match caller_of(&context).and_then(|caller| caller.agent.as_ref()) {
            None => self.shared.tools.clone(),
            Some(agent) => tools_for(&self.shared.roster, Some(agent)),
        };
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(caller) = caller_of(&context) else {
            return Err(ErrorData::internal_error("the transport named no caller", None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let id = serde_json::to_string(&context.id).expect("an id is JSON");
        let done = match caller.call(&self.shared.owner, &id, &request.name, arguments) {
            Some(Called::Done(done)) => Some(done),
            Some(Called::Parked(parked)) => self.wait(parked, &context).await,
            None => None,
        };
        let Some(Done { result, receipt }) = done else {
            return Err(ErrorData::internal_error("the call was cancelled", None));
        };
        *caller
            .receipt
            .lock()
            .expect("nothing panics while it holds a receipt") = receipt;
        Ok(CallToolResponse::from(wrapped(result)))
    }

    // rmcp answers these with empty lists by default; what was not advertised is not there.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}

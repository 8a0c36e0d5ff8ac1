//! rmcp's view of relay: handshake, discovery, the tool list, and the calls that do not take the short way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    DiscoverResult, ErrorData, InitializeRequestParams, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ReadResourceRequestParams,
    ReadResourceResponse, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use tokio::time::Instant;

use super::Shared;
use super::offers::{
    self, HasToolsets, find_resource, not_a_method, offer_what_toolsets_have, server_info, unknown_method,
};
use super::owner::{Answered, Outcome, Receipt};
use super::requests::{Request, Scope};
use super::tool_calls::{Called, Done, Parked, call_tool};
use crate::engine::{AgentName, Roster, SessionId};
use crate::tools::text::Json;
use crate::tools::{ToolResult, Toolsets};

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
    /// Within what the ids of its requests mean one request, where its client can cancel one.
    pub scope: Option<Scope>,
    /// The tools that it has.
    pub toolsets: Toolsets,
    /// Where the receipt of the reply is left for the transport.
    receipt: Arc<Mutex<Option<Receipt>>>,
    /// Whether its client has cancelled the request, and wants no answer.
    is_cancelled: Arc<AtomicBool>,
}

impl Caller {
    /// Makes the caller of one request.
    pub fn new(
        session: SessionId,
        agent: Option<AgentName>,
        scope: Option<Scope>,
        toolsets: Toolsets,
    ) -> Self {
        Self {
            session,
            agent,
            scope,
            toolsets,
            receipt: Arc::default(),
            is_cancelled: Arc::default(),
        }
    }

    /// Tells whether its client has cancelled the request. rmcp writes an error all the same.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
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
                answered = parked.answered() => return answered,
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

/// Says how long a call has waited, in whole seconds: whatever way a client comes, it is told the same.
pub fn progress(token: ProgressToken, waited: Duration) -> ProgressNotificationParam {
    ProgressNotificationParam::new(token, waited.as_secs_f64().round()).with_message("waiting for a message")
}

/// Returns the tools as a session sees them that is bound to `agent`, or to none.
pub fn tools_for(toolsets: Toolsets, roster: &Roster, agent: Option<&AgentName>) -> Vec<Tool> {
    let definitions = toolsets.definitions(roster, agent);
    serde_json::from_value(definitions).expect("the definitions are tools")
}

/// Wraps a result as rmcp has it.
pub fn wrapped(result: &ToolResult) -> CallToolResult {
    let (texts, data) = result.texts_and_data();
    let blocks = texts.into_iter().map(ContentBlock::text).collect();
    let mut wrapped = if result.is_error() {
        CallToolResult::error(blocks)
    } else {
        CallToolResult::success(blocks)
    };
    wrapped.structured_content = data;
    wrapped
}

/// Finds the caller that the transport has put into a request.
fn caller_of(context: &RequestContext<RoleServer>) -> Option<&Caller> {
    let parts = context.extensions.get::<axum::http::request::Parts>();
    let from_http = parts.and_then(|parts| parts.extensions.get::<Caller>());
    from_http.or_else(|| context.extensions.get::<Caller>())
}

impl HasToolsets for Rpc {
    fn toolsets_of(&self, context: &RequestContext<RoleServer>) -> Toolsets {
        caller_of(context).map_or(self.shared.toolsets, |caller| caller.toolsets)
    }
}

impl ServerHandler for Rpc {
    fn get_info(&self) -> ServerConfig {
        server_info(self.shared.toolsets)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let Some(caller) = caller_of(&context) else {
            return Err(unnamed_caller());
        };
        let tools = tools_for(caller.toolsets, &self.shared.roster, caller.agent.as_ref());
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(caller) = caller_of(&context) else {
            return Err(unnamed_caller());
        };
        let arguments = request.arguments.unwrap_or_default().into();
        let id = caller
            .scope
            .as_ref()
            .map(|scope| Request::Rmcp(scope, &context.id));
        let called = call_tool(
            &self.shared.owner,
            caller.toolsets,
            caller.session,
            &request.name,
            arguments,
            id,
        );
        let done = match called {
            Some(Called::Done(done)) => Some(done),
            Some(Called::Parked(parked)) => self.wait(parked, &context).await,
            None => None,
        };
        let Some(Done { result, receipt }) = done else {
            caller.is_cancelled.store(true, Ordering::Relaxed);
            return Err(ErrorData::internal_error("the call was cancelled", None));
        };
        *caller
            .receipt
            .lock()
            .expect("nothing panics while it holds a receipt") = receipt;
        Ok(CallToolResponse::from(wrapped(&result)))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let InitializeResult { protocol_version, .. } = self.negotiate_initialize(&request)?;
        let mut info = server_info(self.toolsets_of(&context));
        info.protocol_version = protocol_version;
        Ok(info)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let info = server_info(self.toolsets_of(&context));
        Ok(DiscoverResult::from_server_info(versions, info))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(caller) = caller_of(&context) else {
            return Err(unnamed_caller());
        };
        let Some(found) = find_resource(caller.toolsets, &request.uri) else {
            return Err(unknown_method("resources/read", caller.toolsets, &context));
        };
        let resource = found?;
        let asked = self
            .shared
            .owner
            .call(caller.session, (resource.to_command)(), None);
        let Some(Outcome::Answered(Answered { answer, .. })) = asked else {
            return Err(ErrorData::internal_error(
                "reading a resource does not wait",
                None,
            ));
        };
        let reply = answer.map_err(|refusal| {
            let reason = (caller.toolsets.of_resource(resource).refused)(&refusal);
            ErrorData::invalid_params(reason, None)
        })?;
        let mut json = Vec::new();
        (resource.to_json)(&reply, &mut Json::document(&mut json));
        let json = String::from_utf8(json).expect("what is written here is UTF-8");
        Ok(offers::contents(resource.uri, json).into())
    }

    offer_what_toolsets_have!();

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(not_a_method(
            &request.method,
            self.toolsets_of(&context),
            &context,
        ))
    }
}

fn unnamed_caller() -> ErrorData {
    ErrorData::internal_error("the transport named no caller", None)
}

//! rmcp's view of relay: handshake, discovery, the tool list, and the calls that do not take the short way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ConstString, ContentBlock, CustomRequest, CustomResult, ErrorCode, ErrorData,
    GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ReadResourceRequestMethod,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestMethod,
    SubscribeRequestMethod, SubscribeRequestParams, Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams,
};
use rmcp::service::RequestContext;
use tokio::time::Instant;

use super::Shared;
use super::owner::Receipt;
use super::requests::{Request, Scope};
use super::tool_calls::{Called, Done, Parked, call_tool};
use crate::engine::{AgentName, Roster, SessionId, shown};
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

/// Says what relay is and has, to every client that asks.
pub fn server_info(toolsets: Toolsets) -> ServerConfig {
    let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
    info.server_info = Implementation::new("relay", env!("CARGO_PKG_VERSION"));
    info.with_instructions(toolsets.instructions())
}

/// Returns the tools as a session sees them that is bound to `agent`, or to none.
pub fn tools_for(toolsets: Toolsets, roster: &Roster, agent: Option<&AgentName>) -> Vec<Tool> {
    let definitions = toolsets.definitions(roster, agent);
    serde_json::from_value(definitions).expect("the definitions are tools")
}

/// Wraps a result as rmcp has it.
pub fn wrapped(result: &ToolResult) -> CallToolResult {
    let blocks = result.texts().into_iter().map(ContentBlock::text).collect();
    if result.is_error() {
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

    // rmcp answers these with empty lists by default; what was not advertised is not there.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(unknown_method(ListPromptsRequestMethod::VALUE, &context))
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(unknown_method(ListResourcesRequestMethod::VALUE, &context))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(unknown_method(
            ListResourceTemplatesRequestMethod::VALUE,
            &context,
        ))
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(unknown_method(CompleteRequestMethod::VALUE, &context))
    }

    async fn get_prompt(
        &self,
        _request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Err(unknown_method(GetPromptRequestMethod::VALUE, &context))
    }

    async fn read_resource(
        &self,
        _request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Err(unknown_method(ReadResourceRequestMethod::VALUE, &context))
    }

    #[expect(deprecated, reason = "clients of older versions ask for it")]
    async fn set_level(
        &self,
        _request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Err(unknown_method(SetLevelRequestMethod::VALUE, &context))
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Err(unknown_method(SubscribeRequestMethod::VALUE, &context))
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Err(unknown_method(UnsubscribeRequestMethod::VALUE, &context))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // rmcp takes a method that it knows for one that it does not, if the parameters are not those of it.
        if known_methods(&context).contains(&request.method.as_str()) {
            let reason = format!(
                "params of {}: a value in them is not of the type that MCP gives it",
                request.method
            );
            return Err(ErrorData::invalid_params(reason, None));
        }
        Err(unknown_method(&request.method, &context))
    }
}

fn unnamed_caller() -> ErrorData {
    ErrorData::internal_error("the transport named no caller", None)
}

/// The methods that relay has, first those of the versions with a handshake.
const METHODS: [&str; 5] = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "server/discover",
];

/// Returns the methods that the version of a request has.
fn known_methods(context: &RequestContext<RoleServer>) -> &'static [&'static str] {
    // Only versions without a handshake are named in each request.
    let names_version = context.meta.protocol_version().is_some();
    if names_version { &METHODS[2..] } else { &METHODS }
}

/// Says that there is no such method, and which there are.
fn unknown_method(method: &str, context: &RequestContext<RoleServer>) -> ErrorData {
    let known = known_methods(context).join(", ");
    let reason = format!("unknown method {:?}; known methods: {known}", shown(method));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None)
}

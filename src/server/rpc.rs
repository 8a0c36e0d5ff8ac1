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
    ReadResourceResponse, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSendError};
use tokio::time::Instant;

use super::Shared;
use super::changes::Changes;
use super::offers::{
    self, HasToolsets, cannot_subscribe, find_resource, not_a_method, offer_what_toolsets_have, server_info,
    unknown_method,
};
use super::owner::{Answered, Outcome, Receipt};
use super::quirks::Quirk;
use super::requests::{Request, Scope};
use super::tool_calls::{Called, Done, Parked, call_tool};
use crate::engine::watches::{self, Watched};
use crate::engine::{AgentName, Command, Roster, SessionId};
use crate::tools::text::Json;
use crate::tools::{Client, Offer, Resource, Served, ToolResult, Toolsets};

/// When a waiting call first tells that it is alive, and how often after that, where its client asked for it.
///
/// Claude Code gives up on a call after five silent minutes; the TypeScript SDK after one.
const PROGRESS_FIRST: Duration = Duration::from_secs(1);
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The handler that rmcp calls.
#[derive(Clone)]
pub struct Rpc {
    shared: Arc<Shared>,
    /// On whose behalf the one request is made by which a client listens. All other requests name their callers by themselves.
    listener: Option<Caller>,
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
    /// What the address of its session asks for.
    pub offer: Offer,
    /// Its client, if that has said at a handshake which it is.
    client: Option<Client>,
    /// What is peculiar to its client.
    pub quirk: Option<Quirk>,
    /// Where what changes for it is put down, if there is a stream in which it can be told.
    changes: Option<Arc<Changes>>,
    /// Where the receipt of the reply is left for the transport.
    receipt: Arc<Mutex<Option<Receipt>>>,
    /// Whether its client has cancelled the request, and wants no answer.
    is_cancelled: Arc<AtomicBool>,
}

impl Caller {
    /// Makes the caller of one request.
    pub fn new(session: SessionId, agent: Option<AgentName>, scope: Option<Scope>, offer: Offer) -> Self {
        Self {
            session,
            agent,
            scope,
            offer,
            client: None,
            quirk: None,
            changes: None,
            receipt: Arc::default(),
            is_cancelled: Arc::default(),
        }
    }

    /// Says what is peculiar to its client.
    pub fn with_quirk(self, quirk: Option<Quirk>) -> Self {
        Self { quirk, ..self }
    }

    /// Says which client it is, if that is known.
    pub fn with_client(self, client: Option<Client>) -> Self {
        Self { client, ..self }
    }

    /// Returns what one of its requests is served: in the versions without a handshake it says which client it is of.
    fn served(&self, context: &RequestContext<RoleServer>) -> Served {
        let client = context.meta.client_info();
        let client = client.and_then(|client| Client::of_name(&client.name));
        self.offer.to(client.or(self.client))
    }

    /// Says where what changes for it is put down, for a stream in which it is told.
    pub fn with_changes(self, changes: Arc<Changes>) -> Self {
        let changes = Some(changes);
        Self { changes, ..self }
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
    /// Makes the handler of a relay: of all requests, or of the one by which a client listens.
    pub(super) fn new(shared: Arc<Shared>, listener: Option<Caller>) -> Self {
        Self { shared, listener }
    }

    /// Has a listener told of the changes of a resource; tells whether it is.
    fn listens_to(&self, listener: &Caller, uri: &str) -> bool {
        let Some(Ok(resource)) = find_resource(listener.offer.toolsets, uri) else {
            return false;
        };
        self.set_watch(listener, resource, watches::Command::Watch)
            .is_ok()
    }

    /// Has a caller told of the changes of a resource, or not any more.
    fn set_watch(
        &self,
        caller: &Caller,
        resource: &Resource,
        command: fn(Watched) -> watches::Command,
    ) -> Result<(), ErrorData> {
        let Some(changes) = &caller.changes else {
            return Err(cannot_subscribe());
        };
        let Some(what) = resource.changes_with else {
            return Ok(());
        };
        // There is nobody to answer where the session is closed.
        let watched = self.shared.owner.watch(caller.session, command(what), changes);
        watched.unwrap_or(Ok(())).map_err(|refusal| {
            let reason = (caller.offer.toolsets.of_resource(resource).refused)(&refusal);
            ErrorData::invalid_params(reason, None)
        })
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
pub fn wrapped(result: &ToolResult, quirk: Option<Quirk>) -> CallToolResult {
    let (texts, data) = result.texts_and_data();
    let mut blocks = texts.into_iter().map(ContentBlock::text).collect();
    Quirk::head(quirk, &mut blocks);
    let mut wrapped = if result.is_error() {
        CallToolResult::error(blocks)
    } else {
        CallToolResult::success(blocks)
    };
    wrapped.structured_content = data;
    wrapped
}

/// Tells whether a request's client has a stream in which it is told of changes.
fn has_stream(context: &RequestContext<RoleServer>) -> bool {
    caller_of(context).is_some_and(|caller| caller.changes.is_some())
}

/// Finds the caller that the transport has put into a request.
fn caller_of(context: &RequestContext<RoleServer>) -> Option<&Caller> {
    let parts = context.extensions.get::<axum::http::request::Parts>();
    let from_http = parts.and_then(|parts| parts.extensions.get::<Caller>());
    from_http.or_else(|| context.extensions.get::<Caller>())
}

impl HasToolsets for Rpc {
    fn toolsets_of(&self, context: &RequestContext<RoleServer>) -> Toolsets {
        caller_of(context).map_or(self.shared.toolsets, |caller| caller.offer.toolsets)
    }

    /// The versions with a handshake need a stream that is always there; those without open one for it over streamable HTTP.
    fn can_subscribe(&self, context: &RequestContext<RoleServer>) -> bool {
        has_stream(context) != context.meta.protocol_version().is_some()
    }
}

impl ServerHandler for Rpc {
    fn get_info(&self) -> ServerConfig {
        match &self.listener {
            Some(listener) => server_info(listener.offer.toolsets, true),
            None => server_info(self.shared.toolsets, false),
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let Some(caller) = caller_of(&context) else {
            return Err(unnamed_caller());
        };
        let tools = tools_for(caller.offer.toolsets, &self.shared.roster, caller.agent.as_ref());
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
            caller.served(&context),
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
        Ok(CallToolResponse::from(wrapped(&result, caller.quirk)))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let InitializeResult { protocol_version, .. } = self.negotiate_initialize(&request)?;
        let mut info = server_info(self.toolsets_of(&context), has_stream(&context));
        info.protocol_version = protocol_version;
        Ok(info)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let info = server_info(self.toolsets_of(&context), !has_stream(&context));
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
        let Some(found) = find_resource(caller.offer.toolsets, &request.uri) else {
            return Err(unknown_method("resources/read", self, &context));
        };
        let resource = found?;
        let command = Command::Resource(Box::new((resource.to_command)()));
        let asked = self.shared.owner.call(caller.session, command, None);
        let Some(Outcome::Answered(Answered { answer, .. })) = asked else {
            return Err(ErrorData::internal_error(
                "reading a resource does not wait",
                None,
            ));
        };
        let reply = answer.map_err(|refusal| {
            let reason = (caller.offer.toolsets.of_resource(resource).refused)(&refusal);
            ErrorData::invalid_params(reason, None)
        })?;
        let mut json = Vec::new();
        let Served { reply_max, .. } = caller.served(&context);
        (resource.to_json)(&reply, reply_max, &mut Json::document(&mut json));
        let json = String::from_utf8(json).expect("what is written here is UTF-8");
        Ok(offers::contents(resource.uri, json).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let Some(caller) = caller_of(&context) else {
            return Err(unnamed_caller());
        };
        match find_resource(caller.offer.toolsets, &request.uri) {
            Some(found) => self.set_watch(caller, found?, watches::Command::Watch),
            None => Err(unknown_method("resources/subscribe", self, &context)),
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let Some(caller) = caller_of(&context) else {
            return Err(unnamed_caller());
        };
        match find_resource(caller.offer.toolsets, &request.uri) {
            Some(found) => self.set_watch(caller, found?, watches::Command::Unwatch),
            None => Err(unknown_method("resources/unsubscribe", self, &context)),
        }
    }

    /// Begins to watch what a listener asks for, before it is told that this was accepted: of what changes from then on it hears.
    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let listener = self.listener.as_ref()?;
        listener.offer.toolsets.resources().next()?;
        let asked = requested.resource_subscriptions.iter().flatten();
        let watched = asked.filter(|uri| self.listens_to(listener, uri)).cloned();
        let mut accepted = SubscriptionFilter::new();
        accepted.resource_subscriptions = Some(watched.collect());
        Some(accepted)
    }

    /// Tells of changes until the client ends its stream, or relay stops.
    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let listener = self.listener.as_ref().ok_or_else(unnamed_caller)?;
        let changes = listener.changes.as_ref().ok_or_else(unnamed_caller)?;
        loop {
            let what = tokio::select! {
                biased;
                () = subscription.cancelled() => return Ok(()),
                () = self.shared.stop.cancelled() => return Ok(()),
                what = changes.next() => what,
            };
            for uri in listener.offer.toolsets.changed_with(what) {
                // What its client does not take holds this up, and nothing else: changes come together meanwhile.
                match subscription.sink().notify_resource_updated(uri).await {
                    Ok(()) | Err(SubscriptionSendError::NotificationNotAccepted(_)) => {}
                    Err(_) => return Ok(()),
                }
            }
        }
    }

    offer_what_toolsets_have!();

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(not_a_method(&request.method, self, &context))
    }
}

fn unnamed_caller() -> ErrorData {
    ErrorData::internal_error("the transport named no caller", None)
}

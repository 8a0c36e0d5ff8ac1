//! What an agent's requests come to: rmcp's handler, which asks the relay.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, DiscoverResult,
    ErrorData, InitializeRequestParams, InitializeResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, RequestMetaObject, ResultType,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::calls::Calls;
use super::connection::Connect;
use super::relay::{AskError, Relay};
use super::subscriptions::{Subscriptions, Told, follow};
use crate::engine::Roster;
use crate::server::offers::{
    HasToolsets, find_resource, not_a_method, offer_what_toolsets_have, server_info, unknown_method,
};
use crate::server::quirks::Quirk;
use crate::server::rpc::{progress, progress_ticks, tools_for};
use crate::tools::{Client, Scalar, Toolsets};

/// How long a call that may wait holds up the next one: it is answered by then if something was there.
const TURN: Duration = Duration::from_millis(100);

/// Longest time that a call may wait; one that asks for more is refused.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The handler that rmcp calls.
pub struct Bridge<C: Connect> {
    calls: Arc<Calls<C::Connection>>,
    relay: Arc<Relay<C>>,
    subscriptions: Subscriptions,
}

/// What is asked of the relay.
struct Question {
    method: &'static str,
    params: Value,
    /// How long the relay is asked to wait for something to answer, if it is.
    wait: Option<Duration>,
}

impl Question {
    /// The answer may be a long time in coming.
    fn waits(&self) -> bool {
        self.wait.is_some()
    }
}

impl<C: Connect> Bridge<C> {
    /// Makes the handler of one agent.
    pub fn new(calls: Arc<Calls<C::Connection>>, relay: Arc<Relay<C>>) -> Self {
        let subscriptions = Subscriptions::default();
        Self {
            calls,
            relay,
            subscriptions,
        }
    }

    fn toolsets(&self) -> Toolsets {
        self.relay.settings().toolsets
    }

    /// Takes note of which program the agent is, if it has made no handshake: it says so in each of its requests, and need not ask
    /// first what it is connected to.
    fn meet(&self, meta: &RequestMetaObject) {
        if meta.protocol_version().is_some() && !self.relay.is_introduced() {
            let client = meta.client_info();
            self.relay
                .introduce(&client.map(|client| client.name).unwrap_or_default());
        }
    }

    /// Asks the relay when the turn comes, and tells of progress where the agent asked for it.
    ///
    /// # Errors
    ///
    /// An error that nobody reads: the call was cancelled, or the agent is gone.
    async fn answer<T: DeserializeOwned>(
        &self,
        question: &Question,
        context: &RequestContext<RoleServer>,
    ) -> Result<Result<T, AskError>, ErrorData> {
        self.meet(&context.meta);
        let answer = self.asked(question, context).await?;
        if matches!(answer, Err(AskError::StdinEnded)) {
            // The connection of the call is broken off by now.
            self.relay.cancel(&context.id).await;
        }
        Ok(answer)
    }

    async fn asked<T: DeserializeOwned>(
        &self,
        question: &Question,
        context: &RequestContext<RoleServer>,
    ) -> Result<Result<T, AskError>, ErrorData> {
        let started = Instant::now();
        let mut ticks = progress_ticks();
        let token = context.meta.get_progress_token();
        let mut asking = pin!(self.ask_in_turn(question, context));
        let mut given_up = pin!(self.calls.given_up(question.waits()));
        loop {
            tokio::select! {
                biased;
                answer = &mut asking => return Ok(answer),
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the call was cancelled", None));
                }
                () = self.calls.over() => {
                    return Err(ErrorData::internal_error("nobody reads the answers any more", None));
                }
                () = &mut given_up => {
                    let trouble = if question.waits() { AskError::StdinEnded } else { AskError::TooLate };
                    return Ok(Err(trouble));
                }
                _ = ticks.tick(), if token.is_some() => {
                    let token = token.clone().expect("a tick is for a token");
                    let told = context.peer.notify_progress(progress(token, started.elapsed())).await;
                    if told.is_err() {
                        return Err(ErrorData::internal_error("nobody hears of progress any more", None));
                    }
                }
            }
        }
    }

    async fn ask_in_turn<T: DeserializeOwned>(
        &self,
        question: &Question,
        context: &RequestContext<RoleServer>,
    ) -> Result<T, AskError> {
        let id = &context.id;
        let open = self.calls.turn(id, question.waits()).await;
        let wait = question.wait.unwrap_or_default();
        let asking = self.relay.ask(open, id, question.method, &question.params, wait);
        let mut asking = pin!(asking);
        let answer = if question.waits() {
            tokio::select! {
                biased;
                answer = &mut asking => answer,
                () = sleep(TURN) => {
                    self.calls.pass_turn(id);
                    asking.await
                }
            }
        } else {
            asking.await
        };
        let (result, connection) = answer?;
        self.calls.answered(id, connection);
        Ok(result)
    }
}

impl<C: Connect> HasToolsets for Bridge<C> {
    fn toolsets_of(&self, _context: &RequestContext<RoleServer>) -> Toolsets {
        self.toolsets()
    }

    fn can_subscribe(&self, _context: &RequestContext<RoleServer>) -> bool {
        true
    }
}

impl<C: Connect> ServerHandler for Bridge<C> {
    fn get_info(&self) -> ServerConfig {
        server_info(self.toolsets(), true)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        self.relay.introduce(&request.client_info.name);
        self.negotiate_initialize(&request)
    }

    /// Stands for the handshake in the versions that have none, for clients that want to know what they are connected to.
    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.meet(&context.meta);
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()))
    }

    /// Lists the tools of the running relay; while there is none, those of a relay with the default roles.
    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        #[derive(Deserialize)]
        struct Listed {
            tools: Vec<Tool>,
        }
        let question = Question {
            method: "tools/list",
            params: json!({}),
            wait: None,
        };
        let tools = match self.answer(&question, &context).await? {
            Ok(Listed { tools }) => tools,
            Err(_) => tools_for(
                self.toolsets(),
                &Roster::default(),
                self.relay.settings().identity.as_ref().map(|own| &own.name),
            ),
        };
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let given = |name: &str| arguments.get(name).map(Scalar::from);
        let wait = self.toolsets().wait(&request.name, given);
        let question = Question {
            method: "tools/call",
            wait: wait.map(|wait| wait.min(WAIT_MAX)),
            params: json!({"name": request.name, "arguments": arguments}),
        };
        let answer: Result<CallToolResult, AskError> = self.answer(&question, &context).await?;
        let toolset = self.toolsets().of_tool(&request.name);
        let mut result = answer.unwrap_or_else(|trouble| self.relay.tell(&trouble, toolset, &request.name));
        // The relay was asked in a version that does not have it; rmcp strips it for agents that do not either.
        result.result_type = Some(ResultType::COMPLETE);
        let client = context.peer.peer_info();
        let client = client.and_then(|client| Client::of_name(&client.client_info.name));
        let quirk = client.and_then(Quirk::of_client);
        Quirk::head(quirk, &mut result.content);
        Ok(CallToolResponse::from(result))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let toolsets = self.toolsets();
        let Some(found) = find_resource(toolsets, &request.uri) else {
            return Err(unknown_method("resources/read", self, &context));
        };
        let resource = found?;
        let question = Question {
            method: "resources/read",
            params: json!({"uri": resource.uri}),
            wait: None,
        };
        let answer: Result<ReadResourceResult, AskError> = self.answer(&question, &context).await?;
        let mut result = answer.map_err(|trouble| {
            let told = self.relay.words(&trouble, toolsets.of_resource(resource));
            ErrorData::internal_error(told, None)
        })?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let toolsets = self.toolsets();
        let Some(found) = find_resource(toolsets, &request.uri) else {
            return Err(unknown_method("resources/subscribe", self, &context));
        };
        let resource = found?;
        let subscribing = self
            .subscriptions
            .subscribe(&self.relay, resource.uri, context.peer.clone());
        let subscribed = tokio::select! {
            biased;
            subscribed = subscribing => subscribed,
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("the request was cancelled", None));
            }
        };
        subscribed.map_err(|trouble| {
            let told = self.relay.words(&trouble, toolsets.of_resource(resource));
            ErrorData::internal_error(told, None)
        })
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let Some(found) = find_resource(self.toolsets(), &request.uri) else {
            return Err(unknown_method("resources/unsubscribe", self, &context));
        };
        self.subscriptions.unsubscribe(found?.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let asked = requested.resource_subscriptions.iter().flatten();
        let known = |uri: &&String| find_resource(self.toolsets(), uri).is_some_and(|found| found.is_ok());
        let mut accepted = SubscriptionFilter::new();
        accepted.resource_subscriptions = Some(asked.filter(known).cloned().collect());
        self.toolsets().resources().next().map(|_| accepted)
    }

    /// Tells of changes until the agent does not want it any more, or leaves.
    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.meet(&subscription.request_context().meta);
        let accepted = &subscription.accepted().resource_subscriptions;
        let following = async {
            let Some(uris) = accepted else {
                return std::future::pending().await;
            };
            let told = Told::Listener(subscription.sink().clone());
            follow(&self.relay, uris, None, &told).await;
        };
        tokio::select! {
            () = following => {}
            () = subscription.cancelled() => {}
            () = self.calls.over() => {}
            () = self.calls.ended() => {}
        }
        Ok(())
    }

    offer_what_toolsets_have!();

    /// Is called for requests that have no other place, a `tools/call` with other parameters among them.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == "tools/call" {
            let reason = "params of tools/call are not {\"name\": text, \"arguments\": object}";
            return Err(ErrorData::invalid_params(reason, None));
        }
        Err(not_a_method(&request.method, self, &context))
    }
}

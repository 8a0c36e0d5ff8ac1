//! What a session's toolsets offer beside tools: instructions, prompts and resources; and how what they do not offer is refused, in
//! the same words whichever way it is asked for.

use rmcp::RoleServer;
use rmcp::model::{
    ConstString as _, ErrorCode, ErrorData, GetPromptResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, Prompt, PromptMessage, ReadResourceResult, Resource,
    ResourceContents, ResourceUpdatedNotificationMethod, Role, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::engine::shown;
use crate::tools::{self, Toolsets};

/// The methods that relay always has, first those of the versions with a handshake.
const METHODS: [&str; 5] = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "server/discover",
];

/// Those that it has for a session with prompts.
const OF_PROMPTS: [&str; 2] = ["prompts/list", "prompts/get"];

/// Those that it has for a session with resources.
const OF_RESOURCES: [&str; 3] = ["resources/list", "resources/templates/list", "resources/read"];

/// Those by which such a session is told of changes, in the versions with a handshake.
const OF_SUBSCRIBERS: [&str; 2] = ["resources/subscribe", "resources/unsubscribe"];

/// And in those without.
const OF_LISTENERS: [&str; 1] = ["subscriptions/listen"];

/// The type of what a resource holds.
const JSON: &str = "application/json";

/// Knows which toolsets the caller of a request has.
pub trait HasToolsets {
    /// Returns them.
    fn toolsets_of(&self, context: &RequestContext<RoleServer>) -> Toolsets;

    /// Tells whether its client can be told of changes, by the methods that the version of the request has for it.
    fn can_subscribe(&self, context: &RequestContext<RoleServer>) -> bool;
}

/// Says what relay is and has, to every client that asks, and whether that one can be told of changes.
pub fn server_info(toolsets: Toolsets, can_subscribe: bool) -> ServerConfig {
    let mut capabilities = ServerCapabilities::builder().enable_tools().build();
    if has_prompts(toolsets) {
        capabilities.prompts = Some(rmcp::model::PromptsCapability::default());
    }
    if has_resources(toolsets) {
        let mut resources = rmcp::model::ResourcesCapability::default();
        resources.subscribe = can_subscribe.then_some(true);
        capabilities.resources = Some(resources);
    }
    let mut info = ServerConfig::new(capabilities);
    info.server_info = Implementation::new("relay", env!("CARGO_PKG_VERSION"));
    info.with_instructions(toolsets.instructions())
}

fn has_prompts(toolsets: Toolsets) -> bool {
    toolsets.prompts().next().is_some()
}

fn has_resources(toolsets: Toolsets) -> bool {
    toolsets.resources().next().is_some()
}

/// Lists the prompts; none if there are none to list.
pub fn list_prompts(toolsets: Toolsets) -> Option<ListPromptsResult> {
    let prompts = toolsets.prompts();
    let prompts = prompts.map(|prompt| Prompt::new(prompt.name, Some(prompt.description), None));
    has_prompts(toolsets).then(|| ListPromptsResult::with_all_items(prompts.collect()))
}

/// Finds a prompt; none if there are none at all.
pub fn get_prompt(toolsets: Toolsets, name: &str) -> Option<Result<GetPromptResult, ErrorData>> {
    let found = toolsets.prompts().find(|prompt| prompt.name == name);
    let result = found.map(|prompt| {
        let message = PromptMessage::new_text(Role::User, prompt.text);
        GetPromptResult::new(vec![message]).with_description(prompt.description)
    });
    has_prompts(toolsets).then(|| {
        result.ok_or_else(|| {
            let known = toolsets.prompts().map(|prompt| prompt.name);
            let known = known.collect::<Vec<_>>().join(", ");
            let reason = format!("unknown prompt {:?}; known prompts: {known}", shown(name));
            ErrorData::invalid_params(reason, None)
        })
    })
}

/// Lists the resources; none if there are none to list.
pub fn list_resources(toolsets: Toolsets) -> Option<ListResourcesResult> {
    let resources = toolsets.resources().map(|resource| {
        Resource::new(resource.uri, resource.name)
            .with_description(resource.description)
            .with_mime_type(JSON)
    });
    has_resources(toolsets).then(|| ListResourcesResult::with_all_items(resources.collect()))
}

/// Lists the templates of resources, of which there are none, to a session that has resources.
pub fn list_resource_templates(toolsets: Toolsets) -> Option<ListResourceTemplatesResult> {
    has_resources(toolsets).then(ListResourceTemplatesResult::default)
}

/// Finds a resource; none if there are none at all.
pub fn find_resource(toolsets: Toolsets, uri: &str) -> Option<Result<&'static tools::Resource, ErrorData>> {
    let found = toolsets.resources().find(|resource| resource.uri == uri);
    has_resources(toolsets).then(|| {
        found.ok_or_else(|| {
            let known = toolsets.resources().map(|resource| resource.uri);
            let known = known.collect::<Vec<_>>().join(", ");
            let reason = format!("unknown resource {:?}; known resources: {known}", shown(uri));
            ErrorData::resource_not_found(reason, None)
        })
    })
}

/// Wraps what a resource holds, as JSON.
pub fn contents(uri: &str, json: String) -> ReadResourceResult {
    ReadResourceResult::new(vec![ResourceContents::text(json, uri).with_mime_type(JSON)])
}

/// Makes the notification that a resource has changed.
/// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>
pub fn updated(uri: &str) -> Value {
    let method = ResourceUpdatedNotificationMethod::VALUE;
    json!({"jsonrpc": "2.0", "method": method, "params": {"uri": uri}})
}

/// Says that the client of a connection cannot be told of changes.
pub fn cannot_subscribe() -> ErrorData {
    let reason = "this connection carries nothing but the answers to requests, so its client cannot be told of changes; \
                  accepted: resources/subscribe over stdio (relay mcp) and HTTP+SSE (/sse), and subscriptions/listen of 2026-07-28";
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None)
}

/// Says that there is no such method, and which there are.
pub fn unknown_method(
    method: &str,
    handler: &impl HasToolsets,
    context: &RequestContext<RoleServer>,
) -> ErrorData {
    let known = known_methods(handler, context).join(", ");
    let reason = format!("unknown method {:?}; known methods: {known}", shown(method));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None)
}

/// Says what is wrong with a request for which rmcp has no other place.
pub fn not_a_method(
    method: &str,
    handler: &impl HasToolsets,
    context: &RequestContext<RoleServer>,
) -> ErrorData {
    // rmcp takes a method that it knows for one that it does not, if the parameters are not those of it.
    if known_methods(handler, context).contains(&method) {
        let reason = format!("params of {method}: a value in them is not of the type that MCP gives it");
        return ErrorData::invalid_params(reason, None);
    }
    unknown_method(method, handler, context)
}

/// Returns the methods that the version of a request has, and the toolsets of its session.
fn known_methods(handler: &impl HasToolsets, context: &RequestContext<RoleServer>) -> Vec<&'static str> {
    let toolsets = handler.toolsets_of(context);
    // Only versions without a handshake are named in each request.
    let names_version = context.meta.protocol_version().is_some();
    let mut methods = Vec::from(if names_version { &METHODS[2..] } else { &METHODS });
    if has_prompts(toolsets) {
        methods.extend(OF_PROMPTS);
    }
    if has_resources(toolsets) {
        methods.extend(OF_RESOURCES);
        if handler.can_subscribe(context) {
            methods.extend(if names_version {
                &OF_LISTENERS[..]
            } else {
                &OF_SUBSCRIBERS
            });
        }
    }
    methods
}

/// Writes what a handler that [`HasToolsets`] has for the methods that rmcp answers by default, some of them with empty lists: what
/// was not advertised is not there. Only how a resource is read, and how a client is told that it has changed, is the handler's own.
macro_rules! offer_what_toolsets_have {
    () => {
        async fn list_prompts(
            &self,
            _request: Option<rmcp::model::PaginatedRequestParams>,
            context: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::ListPromptsResult, rmcp::model::ErrorData> {
            use $crate::server::offers::{HasToolsets as _, list_prompts, unknown_method};
            let toolsets = self.toolsets_of(&context);
            list_prompts(toolsets).ok_or_else(|| unknown_method("prompts/list", self, &context))
        }

        async fn get_prompt(
            &self,
            request: rmcp::model::GetPromptRequestParams,
            context: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::GetPromptResponse, rmcp::model::ErrorData> {
            use $crate::server::offers::{HasToolsets as _, get_prompt, unknown_method};
            let toolsets = self.toolsets_of(&context);
            match get_prompt(toolsets, &request.name) {
                Some(prompt) => prompt.map(Into::into),
                None => Err(unknown_method("prompts/get", self, &context)),
            }
        }

        async fn list_resources(
            &self,
            _request: Option<rmcp::model::PaginatedRequestParams>,
            context: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::ListResourcesResult, rmcp::model::ErrorData> {
            use $crate::server::offers::{HasToolsets as _, list_resources, unknown_method};
            let toolsets = self.toolsets_of(&context);
            list_resources(toolsets).ok_or_else(|| unknown_method("resources/list", self, &context))
        }

        async fn list_resource_templates(
            &self,
            _request: Option<rmcp::model::PaginatedRequestParams>,
            context: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::ListResourceTemplatesResult, rmcp::model::ErrorData> {
            use $crate::server::offers::{HasToolsets as _, list_resource_templates, unknown_method};
            let toolsets = self.toolsets_of(&context);
            list_resource_templates(toolsets)
                .ok_or_else(|| unknown_method("resources/templates/list", self, &context))
        }

        $crate::server::offers::offer_what_toolsets_have! {
            complete(rmcp::model::CompleteRequestParams) -> rmcp::model::CompleteResult: CompleteRequestMethod;
            #[expect(deprecated, reason = "clients of older versions ask for it")]
            set_level(rmcp::model::SetLevelRequestParams) -> (): SetLevelRequestMethod;
        }
    };
    ($($(#[$attribute:meta])* $name:ident($params:ty) -> $result:ty: $method:ident;)+) => {$(
        $(#[$attribute])*
        async fn $name(
            &self,
            _request: $params,
            context: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<$result, rmcp::model::ErrorData> {
            use $crate::server::offers::unknown_method;
            let method = <rmcp::model::$method as rmcp::model::ConstString>::VALUE;
            Err(unknown_method(method, self, &context))
        }
    )+};
}

pub(crate) use offer_what_toolsets_have;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_offered_listed_and_given_where_a_toolset_has_some_and_nowhere_else() {
        for toolsets in ["lift", "thrum", "agent-relay", "all"] {
            let toolsets: Toolsets = toolsets.parse().expect("toolsets");
            let names: Vec<&str> = toolsets.prompts().map(|prompt| prompt.name).collect();
            let has_some = !names.is_empty();
            let offered = server_info(toolsets, false).capabilities.prompts;
            assert_eq!(offered.is_some(), has_some, "{toolsets}");
            let listed = list_prompts(toolsets).map(|listed| listed.prompts);
            let listed = listed.map(|all| all.into_iter().map(|prompt| prompt.name).collect::<Vec<_>>());
            assert_eq!(
                listed,
                has_some.then(|| names.iter().map(|&name| name.to_owned()).collect())
            );
            for name in &names {
                assert!(matches!(get_prompt(toolsets, name), Some(Ok(_))), "{name}");
            }
            let refused = get_prompt(toolsets, "none").map(|got| got.expect_err("there is none").message);
            let reason = format!("unknown prompt \"none\"; known prompts: {}", names.join(", "));
            assert_eq!(refused, has_some.then(|| reason.into()));
        }
        let all: Toolsets = "all".parse().expect("toolsets");
        assert!(all.prompts().next().is_some(), "one of them has some");
    }
}

//! What MCP has and relay does not, and how it is refused: in the same words whichever way it is asked for.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::RequestContext;

use crate::engine::shown;

/// The methods that relay has, first those of the versions with a handshake.
const METHODS: [&str; 5] = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "server/discover",
];

/// Says that there is no such method, and which there are.
pub fn unknown_method(method: &str, context: &RequestContext<RoleServer>) -> ErrorData {
    let known = known_methods(context).join(", ");
    let reason = format!("unknown method {:?}; known methods: {known}", shown(method));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None)
}

/// Says what is wrong with a request for which rmcp has no other place.
pub fn not_a_method(method: &str, context: &RequestContext<RoleServer>) -> ErrorData {
    // rmcp takes a method that it knows for one that it does not, if the parameters are not those of it.
    if known_methods(context).contains(&method) {
        let reason = format!("params of {method}: a value in them is not of the type that MCP gives it");
        return ErrorData::invalid_params(reason, None);
    }
    unknown_method(method, context)
}

/// Returns the methods that the version of a request has.
fn known_methods(context: &RequestContext<RoleServer>) -> &'static [&'static str] {
    // Only versions without a handshake are named in each request.
    let names_version = context.meta.protocol_version().is_some();
    if names_version { &METHODS[2..] } else { &METHODS }
}

/// Writes what a handler has of its own for the methods that rmcp answers by default, some of them with empty lists: what was
/// not advertised is not there.
macro_rules! refuse_what_is_not_offered {
    () => {
        $crate::server::not_offered::refuse_what_is_not_offered! {
            list_prompts(Option<rmcp::model::PaginatedRequestParams>)
                -> rmcp::model::ListPromptsResult: ListPromptsRequestMethod;
            get_prompt(rmcp::model::GetPromptRequestParams)
                -> rmcp::model::GetPromptResponse: GetPromptRequestMethod;
            list_resources(Option<rmcp::model::PaginatedRequestParams>)
                -> rmcp::model::ListResourcesResult: ListResourcesRequestMethod;
            list_resource_templates(Option<rmcp::model::PaginatedRequestParams>)
                -> rmcp::model::ListResourceTemplatesResult: ListResourceTemplatesRequestMethod;
            read_resource(rmcp::model::ReadResourceRequestParams)
                -> rmcp::model::ReadResourceResponse: ReadResourceRequestMethod;
            subscribe(rmcp::model::SubscribeRequestParams) -> (): SubscribeRequestMethod;
            unsubscribe(rmcp::model::UnsubscribeRequestParams) -> (): UnsubscribeRequestMethod;
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
            let method = <rmcp::model::$method as rmcp::model::ConstString>::VALUE;
            Err($crate::server::not_offered::unknown_method(method, &context))
        }
    )+};
}

pub(crate) use refuse_what_is_not_offered;

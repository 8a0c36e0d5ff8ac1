//! The API that Agent Relay's own clients speak, under `/v1`: JSON to commands of the engine, its replies to JSON.
//!
//! It decides nothing about messages: they are posted as those of any tool are, and read with any. It keeps what the engine has
//! no use for: tokens, when workspaces were made, what an agent says of itself, and where an own message went.

mod agents;
mod asked;
mod channels;
mod deliveries;
mod envelope;
mod messages;
mod nodes;
mod reference;
mod tokens;
mod trace;
mod unsupported;
mod workspaces;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on, post};

use super::Shared;
use super::http::collect_body;
use super::random::Random;
use crate::engine::AgentName;
pub(super) use asked::Shown;
pub(super) use envelope::Failure;
pub use reference::reference;
use tokens::{Holder, Tokens};
use unsupported::UNSUPPORTED;

/// What is kept for the API.
pub(super) struct Api {
    tokens: Tokens,
    workspaces: workspaces::Workspaces,
    cards: agents::Cards,
    posted: messages::Posted,
}

impl Api {
    /// Keeps nothing yet; tokens are made of `random`.
    pub fn new(random: Random) -> Self {
        Self {
            tokens: Tokens::new(random),
            workspaces: workspaces::Workspaces::default(),
            cards: agents::Cards::default(),
            posted: messages::Posted::default(),
        }
    }
}

/// For nodes, which register agents over their connections.
impl Api {
    /// Makes a new token of an agent; the one before is not good any more.
    pub fn agent_token(&self, agent: &AgentName) -> String {
        self.tokens.issue(Holder::Agent(agent.clone())).reveal()
    }
}

/// Whose token an address wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    Nothing,
    Workspace,
    Agent,
    Either,
    Node,
}

/// An address of the API.
struct Route {
    method: &'static str,
    path: &'static str,
    wants: Wants,
    /// What is sent, as the documents show it.
    takes: &'static str,
    /// What is answered as `data`.
    answers: &'static str,
    /// What else is to be known.
    note: &'static str,
    to: fn() -> MethodRouter<Arc<Shared>>,
}

const ROUTES: &[Route] = &[
    Route {
        method: "POST",
        path: "/v1/workspaces",
        wants: Wants::Nothing,
        takes: "`{name}`",
        answers: "`{workspace_id, api_key, created_at}`",
        note: "201; 200 if it was there. Each call makes a new key; those before stay good. A workspace is a project: its name is one.",
        to: || post(workspaces::create),
    },
    Route {
        method: "GET",
        path: "/v1/workspaces/by-name/{name}",
        wants: Wants::Nothing,
        takes: "",
        answers: "`{id, name, created_at}`",
        note: "",
        to: || get(workspaces::by_name),
    },
    Route {
        method: "GET",
        path: "/v1/workspace",
        wants: Wants::Either,
        takes: "",
        answers: "`{id, name, system_prompt, plan, created_at, metadata}`",
        note: "`system_prompt` is null, `plan` is `free`, `metadata` is empty: relay has none of them.",
        to: || get(workspaces::info),
    },
    Route {
        method: "POST",
        path: "/v1/agents",
        wants: Wants::Workspace,
        takes: "`{name, type?, persona?, metadata?, auto_join_general?}`",
        answers: "`{id, name, token, status, created_at}`",
        note: "Every agent is in `general`, whatever it says. 201; 409 `agent_already_exists`, and then `rotate-token` gives a token of the agent that is there. `type` is `agent`, `human` or `system`.",
        to: || post(agents::register),
    },
    Route {
        method: "GET",
        path: "/v1/agents",
        wants: Wants::Either,
        takes: "`?status=online\\|offline\\|away\\|all`",
        answers: "a list of `{id, name, type, status, persona, metadata, last_seen, created_at}`",
        note: "All agents of the workspace, however they came. `online` is who did something in the last two minutes, or waits; relay calls nobody `away`.",
        to: || get(agents::list),
    },
    Route {
        method: "GET",
        path: "/v1/agents/{name}",
        wants: Wants::Either,
        takes: "",
        answers: "the same, with `channels[{id, name, role, joined_at}]`",
        note: "",
        to: || get(agents::get),
    },
    Route {
        method: "GET",
        path: "/v1/agent",
        wants: Wants::Agent,
        takes: "",
        answers: "the same of the token's own agent",
        note: "",
        to: || get(agents::me),
    },
    Route {
        method: "POST",
        path: "/v1/agents/{name}/rotate-token",
        wants: Wants::Workspace,
        takes: "",
        answers: "`{name, token}`",
        note: "The token before is not good any more.",
        to: || post(agents::rotate),
    },
    Route {
        method: "POST",
        path: "/v1/agents/heartbeat",
        wants: Wants::Agent,
        takes: "",
        answers: "`{agent_id, agent_name, status}`",
        note: "The agent is `online` for two more minutes, as after anything that it does.",
        to: || post(agents::heartbeat),
    },
    Route {
        method: "POST",
        path: "/v1/agents/disconnect",
        wants: Wants::Agent,
        takes: "",
        answers: "`{agent_id, agent_name, status}`",
        note: "Ends nothing, since nothing is open: the status is what it is, `offline` two minutes after the agent's last call.",
        to: || post(agents::disconnect),
    },
    Route {
        method: "POST",
        path: "/v1/dm",
        wants: Wants::Agent,
        takes: "`{to, text, mode?}`",
        answers: "`{conversation_id, message{id, agent_id, agent_name, text, injection_mode, attachments}, created_at, warnings}`",
        note: "201. `to` is an agent, a role, a group, or `user`, the person; `project:` before it names another workspace's. The id of the conversation is made of the two names.",
        to: || post(messages::dm),
    },
    Route {
        method: "POST",
        path: "/v1/channels",
        wants: Wants::Agent,
        takes: "`{name, topic?}`",
        answers: "`{id, name, topic, created_at, is_archived, member_count}`",
        note: "201, with the agent as its first member; 409 `channel_already_exists`.",
        to: || post(channels::create),
    },
    Route {
        method: "GET",
        path: "/v1/channels",
        wants: Wants::Either,
        takes: "`?include_archived=true\\|false`",
        answers: "a list of them",
        note: "None is ever archived. `general` is always there, with all agents.",
        to: || get(channels::list),
    },
    Route {
        method: "GET",
        path: "/v1/channels/{name}",
        wants: Wants::Either,
        takes: "",
        answers: "one of them, with `members`",
        note: "",
        to: || get(channels::get),
    },
    Route {
        method: "POST",
        path: "/v1/channels/{name}/join",
        wants: Wants::Agent,
        takes: "",
        answers: "`{channel, agent_id, already_member}`",
        note: "Makes the channel if it is not there.",
        to: || post(channels::join),
    },
    Route {
        method: "POST",
        path: "/v1/channels/{name}/leave",
        wants: Wants::Agent,
        takes: "",
        answers: "`{channel, agent_id}`",
        note: "A channel that nobody is left in is gone. 409 `not_a_member`; 400 `channel_of_all` for `general`.",
        to: || post(channels::leave),
    },
    Route {
        method: "GET",
        path: "/v1/channels/{name}/members",
        wants: Wants::Either,
        takes: "",
        answers: "a list of `{agent_id, agent_name, role, joined_at}`",
        note: "",
        to: || get(channels::members),
    },
    Route {
        method: "POST",
        path: "/v1/channels/{name}/messages",
        wants: Wants::Agent,
        takes: "`{text, mode?, blocks?, data?}`",
        answers: "`{id, channel_id, agent_id, agent_name, text, blocks, metadata, injection_mode, has_attachments, thread_id, attachments, created_at, reply_count, reactions, read_by_count, warnings}`",
        note: "201. Makes the channel if it is not there; its sender joins it. `blocks` and `data` go with the message as its metadata.",
        to: || post(messages::to_channel),
    },
    Route {
        method: "POST",
        path: "/v1/messages/{id}/replies",
        wants: Wants::Agent,
        takes: "`{text, mode?, blocks?, data?}`",
        answers: "the same, `thread_id` set",
        note: "201. A reply to what one agent got goes to its sender, any other to all whom the message went to. It is one that the agent got and relay knows still, or one of the latest that it posted here; else 404 `message_not_found`.",
        to: || post(messages::reply),
    },
    Route {
        method: "GET",
        path: "/v1/messages/{id}/trace",
        wants: Wants::Either,
        takes: "",
        answers: "`{id, from, to, kind, accepted_at, steps[{at, agent, seq, step, session?, over?, by?, reason?, retryable?, until?}]}`",
        note: "What became of a message, as `relay trace --json` has it: all of it for its sender, and for who got it their own deliveries; with the workspace's key, the same of all its agents. Names have their project before them, but those of the default one. 404 `message_not_found` for all others, for an id that is not whole, and for what is forgotten: the latest steps of all messages are kept.",
        to: || get(trace::trace),
    },
    Route {
        method: "GET",
        path: "/v1/deliveries",
        wants: Wants::Agent,
        takes: "`?limit=`",
        answers: "a list of `{id, message_id, channel_id, agent_id, status, redelivered, mode, reason, available_at, created_at, message{id, channel_id, agent_id, agent_name, text, thread_id, created_at}}`",
        note: "What the agent has given no receipt for, the oldest first, 2,000 at the most: `queued` is in its inbox or on its way, `delivered` it has. It gives a receipt for each that it was shown. What is deferred is not shown before its time. [DELIVERY.md](DELIVERY.md) has the rules.",
        to: || get(deliveries::list),
    },
    Route {
        method: "POST",
        path: "/v1/deliveries/{id}/ack",
        wants: Wants::Agent,
        takes: "",
        answers: "`{id, message_id, agent_id, status, available_at}`",
        note: "The agent is done with it. What has arrived before stays what it is, also for the two below: `status` says what that is. 404 `delivery_not_found`.",
        to: || post(deliveries::ack),
    },
    Route {
        method: "POST",
        path: "/v1/deliveries/{id}/fail",
        wants: Wants::Agent,
        takes: "`{error?, retryable?}`, or nothing",
        answers: "the same",
        note: "It failed. relay does not send it again; the trace of the message has both.",
        to: || post(deliveries::fail),
    },
    Route {
        method: "POST",
        path: "/v1/deliveries/{id}/defer",
        wants: Wants::Agent,
        takes: "`{available_at, reason?}`",
        answers: "the same",
        note: "The agent wants it at that time, within a day, and is sent it then; what comes after it passes.",
        to: || post(deliveries::defer),
    },
    Route {
        method: "POST",
        path: "/v1/agent/node-token",
        wants: Wants::Agent,
        takes: "",
        answers: "`{node_id, node_name, token}`",
        note: "The agent's own node, which is made if need be, with a new token; the one before is not good any more. 409 `agent_bound_to_node` if another node has the agent.",
        to: || post(nodes::own),
    },
    Route {
        method: "GET",
        path: "/v1/node/ws",
        wants: Wants::Node,
        takes: "`?token=`, and what else the client says of itself",
        answers: "a WebSocket, whose frames [DELIVERY.md](DELIVERY.md) lists",
        note: "The token may stand in `Authorization: Bearer` as well.",
        to: || get(nodes::socket),
    },
    Route {
        method: "POST",
        path: "/v1/nodes",
        wants: Wants::Workspace,
        takes: "`{name, max_agents?, node_id?, kind?, role?, capabilities?, tags?, version?, machine_id?}`",
        answers: "`{id, name, kind, role, status, live, handlers_live, delivery_adapter, capabilities, tags, version, load, active_agents, max_agents, created_at, last_heartbeat_at, token}`",
        note: "201, with a new token; the one before is not good any more. `kind` is `ws`, `role` is `broker`; `max_agents` 0 is any number. `id` is `node_id`, or relay makes it of the name; 409 `node_name_conflict` if the node is there with another. What else it says of itself is not kept: `capabilities` and `tags` are empty, `version` too, `load` is null.",
        to: || post(nodes::create),
    },
    Route {
        method: "GET",
        path: "/v1/nodes",
        wants: Wants::Workspace,
        takes: "",
        answers: "a list of them, without tokens",
        note: "",
        to: || get(nodes::list),
    },
    Route {
        method: "GET",
        path: "/v1/nodes/{name}",
        wants: Wants::Workspace,
        takes: "",
        answers: "one of them, by its name or id",
        note: "",
        to: || get(nodes::get),
    },
    Route {
        method: "GET",
        path: "/v1/nodes/{name}/agents",
        wants: Wants::Workspace,
        takes: "",
        answers: "a list of `{agent_id, agent_name}`",
        note: "",
        to: || get(nodes::agents),
    },
    Route {
        method: "POST",
        path: "/v1/nodes/{name}/agents",
        wants: Wants::Workspace,
        takes: "`{agent_name, session_ref?, priority?}`",
        answers: "`{id, agent_id, agent_name, node_id, node_name, node_kind, node_role, status, session_ref, priority, created_at, updated_at, delivery_ack_seq}`",
        note: "201. Whichever node had the agent has it no more. `session_ref` and `priority` are answered as they came, and not kept; the times are those of the answer. 409 `node_capacity_exceeded`.",
        to: || post(nodes::bind),
    },
    Route {
        method: "DELETE",
        path: "/v1/nodes/{name}/agents/{agent}",
        wants: Wants::Workspace,
        takes: "",
        answers: "",
        note: "204. The agent's own node has it again, if it has one.",
        to: || axum::routing::delete(nodes::unbind),
    },
];

/// Makes the routes, and the one by which the person asks for a key.
pub(super) fn routes() -> Router<Arc<Shared>> {
    let routes = ROUTES.iter().map(|route| (route.path, (route.to)()));
    let unsupported = UNSUPPORTED.iter().flat_map(|entry| {
        let routes = entry.routes.iter();
        routes.map(|(method, path)| {
            (
                *path,
                on(filter(method), async |request| decline(entry, request).await),
            )
        })
    });
    let all = routes.chain(unsupported);
    let of_person = Router::new().route("/api/key", post(workspaces::key));
    all.fold(of_person, |router, (path, to)| router.route(path, to))
}

fn filter(method: &str) -> MethodFilter {
    match method {
        "GET" => MethodFilter::GET,
        "POST" => MethodFilter::POST,
        "PUT" => MethodFilter::PUT,
        "PATCH" => MethodFilter::PATCH,
        _ => MethodFilter::DELETE,
    }
}

async fn decline(entry: &unsupported::Unsupported, request: Request) -> Response {
    drain(request).await;
    Failure::not_supported(entry.name, entry.why).into_response()
}

/// Reads what a request brings, so that its connection goes on.
async fn drain(request: Request) {
    drop(collect_body(request.into_body()).await);
}

/// Tells whether an address belongs to the API.
pub(super) fn is_under(uri: &Uri) -> bool {
    uri.path() == "/v1" || uri.path().starts_with("/v1/")
}

/// Answers for an address that is not there.
pub(super) async fn unknown_path(request: Request) -> Response {
    let path = crate::engine::shown(request.uri().path());
    drain(request).await;
    let reason = format!("nothing at {path:?}; docs/API.md lists what there is");
    Failure::new(StatusCode::NOT_FOUND, "not_found", reason).into_response()
}

/// Answers for a method that an address does not have.
pub(super) async fn unknown_method(request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    drain(request).await;
    let routes = ROUTES.iter().map(|route| (route.method, route.path));
    let unsupported = UNSUPPORTED.iter().flat_map(|entry| entry.routes.iter().copied());
    let accepted = routes
        .chain(unsupported)
        .filter(|(_, template)| matches(template, &path));
    let accepted: Vec<&str> = accepted.map(|(method, _)| method).collect();
    let accepted = accepted.join(", ");
    let path = crate::engine::shown(&path);
    let method: Method = method;
    Failure::method(
        format!("{method} is not for {path:?}; accepted: {accepted}"),
        accepted,
    )
    .into_response()
}

/// Tells whether a path is one of a template's. A part of the path that has a name goes before one that is a parameter, so that the
/// answer may list a method too many, never one too few.
fn matches(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(part), Some(_)) if part.starts_with("{*") => return true,
            (Some(part), Some(found)) if part.starts_with('{') || part == found => {}
            _ => return false,
        }
    }
}

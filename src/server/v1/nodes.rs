//! Nodes of a workspace, and their tokens. What they say and are told over their connections is in [`crate::server::nodes`].

use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, FromRequestParts as _, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions;
use super::asked::{Asked, Shown};
use super::envelope::{Answer, Data, Failure};
use super::tokens::{Holder, Kind};
use crate::engine::actions::{ActionView, HandlerView};
use crate::engine::nodes::{BindingView, Command, NodeView, Refusal, Reply};
use crate::engine::{self, AgentName, NodeId, Who, shown};
use crate::server::Shared;
use crate::server::nodes::{self, Named};
use crate::server::wire::Link;

/// What `POST /v1/nodes` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
    node_id: Option<String>,
    kind: Option<String>,
    role: Option<String>,
    delivery: Option<Value>,
    #[serde(rename = "capabilities")]
    _capabilities: Option<Vec<Value>>,
    max_agents: Option<usize>,
    #[serde(rename = "tags")]
    _tags: Option<Vec<String>>,
    #[serde(rename = "version")]
    _version: Option<String>,
    #[serde(rename = "machine_id")]
    _machine_id: Option<String>,
}

/// What `POST /v1/nodes/:name/agents` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bind {
    agent_name: String,
    session_ref: Option<String>,
    priority: Option<i64>,
}

/// `POST /v1/agent/node-token`: the node of the token's own agent, with a new token.
pub(super) async fn own(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    asked.nothing()?;
    let reply = asked.call_as(&agent, Command::Own).await;
    let view = match reply {
        Ok(reply) => node(reply),
        Err(failure) if failure.is("agent_location_conflict") => {
            return Err(failure.renamed("agent_bound_to_node"));
        }
        Err(failure) => return Err(failure),
    };
    let (id, name) = (nodes::node_id(&view), nodes::node_name(&view));
    let token = asked.shared.api.tokens.issue(Holder::Node(Named::from(&view)));
    Ok(Data::ok(
        json!({"node_id": id, "node_name": name, "token": token.reveal()}),
    ))
}

/// `POST /v1/nodes`: a node for several agents, with a new token.
pub(super) async fn create(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    let Create {
        name,
        node_id,
        kind,
        role,
        delivery,
        max_agents,
        ..
    } = asked.json()?;
    let target = match (kind.as_deref(), delivery) {
        (None | Some("ws"), None) => None,
        (None | Some("ws"), Some(_)) => {
            let reason = "\"delivery\" is for \"kind\": \"http_push\" alone";
            return Err(Failure::invalid(reason));
        }
        (Some("http_push"), Some(delivery)) => {
            let target = asked.shared.pushes.target(delivery);
            Some(
                target.map_err(|reason| {
                    Failure::new(StatusCode::BAD_REQUEST, "invalid_node_delivery", reason)
                })?,
            )
        }
        (Some("http_push"), None) => {
            let reason = "\"delivery\" is missing; accepted: {\"url\": …, \"ack_mode\"?, \"auth\"?}";
            return Err(Failure::invalid(reason));
        }
        (Some("poll"), _) => {
            let why = "an agent reads with its tools, or lists its deliveries, whichever node it has";
            return Err(Failure::not_supported("a node of kind \"poll\"", why));
        }
        (Some(kind), _) => {
            let kind = shown(kind);
            let reason =
                format!("\"kind\" is {kind:?}; accepted: \"ws\", \"http_push\", or none, which is \"ws\"");
            return Err(Failure::invalid(reason));
        }
    };
    let usual = if target.is_some() { "direct" } else { "broker" };
    if let Some(role) = role.filter(|role| role != usual) {
        let role = shown(&role);
        let reason = format!(
            "\"role\" is {role:?}; accepted: {usual:?}, or none; an agent's own node is made by POST /v1/agent/node-token"
        );
        return Err(Failure::invalid(reason));
    }
    let create = Command::Create {
        project: workspace,
        name,
        label: node_id,
        agents_max: match max_agents {
            None => target.as_ref().map(|_| 1),
            Some(max) => Some(max).filter(|max| *max > 0),
        },
        pushes: target.is_some(),
    };
    let view = node(asked.call(Who::Person, create).await?);
    if let Some(target) = target {
        asked.shared.push_to(view.node, target)?;
        let offers = Offers::of_workspace(&asked, &view.project).await?;
        // Nothing connects in its name.
        let mut json = shown_node(&asked, &view, &offers);
        json["token"] = Value::Null;
        return Ok(Data::created(json));
    }
    let token = asked.shared.api.tokens.issue(Holder::Node(Named::from(&view)));
    let offers = Offers::of_workspace(&asked, &view.project).await?;
    let mut json = shown_node(&asked, &view, &offers);
    json["token"] = token.reveal().into();
    Ok(Data::created(json))
}

/// `GET /v1/nodes`: all of them, or those of a name and those that offer an action.
pub(super) async fn list(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    let [name, capability] = asked.query([
        ("name", "the name of a node"),
        ("capability", "the name of an action"),
    ])?;
    let offers = Offers::of_workspace(&asked, &workspace).await?;
    if let Some(capability) = &capability {
        offers.may_tell(capability)?;
    }
    let mut all = of_workspace(&asked, workspace).await?;
    if let Some(name) = name {
        all.retain(|view| nodes::node_name(view) == name);
    }
    if let Some(capability) = capability {
        all.retain(|view| offers.has(view, &capability));
    }
    let shown = all.iter().map(|view| shown_node(&asked, view, &offers));
    Ok(Data::ok(shown.collect()))
}

/// `GET /v1/nodes/:name`.
pub(super) async fn get(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    asked.nothing()?;
    let offers = Offers::of_workspace(&asked, &workspace).await?;
    let view = named(&asked, workspace).await?;
    Ok(Data::ok(shown_node(&asked, &view, &offers)))
}

/// The actions that the nodes of a workspace carry out: what is kept of their capabilities.
struct Offers(Vec<(NodeId, String)>);

impl Offers {
    async fn of_workspace(asked: &Asked, workspace: &str) -> Result<Self, Failure> {
        let all = actions::of_workspace(asked, workspace).await?;
        let of_node = |action: ActionView| match action.handler {
            HandlerView::Node(node) => Some((node.node, action.name)),
            HandlerView::Agent(_) => None,
        };
        Ok(Self(all.into_iter().filter_map(of_node).collect()))
    }

    /// Sees to it that who can do this is known: of a capacity it is not, unless it is the name of an action, too.
    fn may_tell(&self, capability: &str) -> Result<(), Failure> {
        if !nodes::is_capacity(capability) || self.0.iter().any(|(_, name)| name == capability) {
            return Ok(());
        }
        let what = format!("to look for nodes by the capacity {:?}", shown(capability));
        let why =
            "it keeps the actions of nodes alone, and starts agents as workers: relay_spawn, relay spawn";
        Err(Failure::not_supported(&what, why))
    }

    fn has(&self, view: &NodeView, capability: &str) -> bool {
        self.of(view).any(|name| name == capability)
    }

    fn of(&self, view: &NodeView) -> impl Iterator<Item = &str> {
        let number = view.node;
        let own = self.0.iter().filter(move |(node, _)| *node == number);
        own.map(|(_, name)| name.as_str())
    }
}

/// `GET /v1/nodes/:name/agents`.
pub(super) async fn agents(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    asked.nothing()?;
    let view = named(&asked, workspace).await?;
    let bindings = Command::Bindings { node: view.node };
    let engine::Reply::Nodes(reply) = asked.call(Who::Person, bindings).await? else {
        unreachable!("bindings are asked for")
    };
    let Reply::Has(bindings) = *reply else {
        unreachable!("bindings are asked for")
    };
    Ok(Data::ok(bindings.iter().map(binding).collect()))
}

fn binding(view: &BindingView) -> Value {
    let BindingView {
        agent,
        acknowledged,
        failing,
        dead,
    } = view;
    let failing = failing.as_ref();
    json!({
        "agent_id": nodes::agent_id(agent),
        "agent_name": agent.local(),
        "delivery_ack_seq": acknowledged,
        "failing_since": failing.map(|failing| failing.since.to_string()),
        "dispatch_attempts": failing.map_or(0, |failing| failing.attempts),
        "last_dispatch_error": failing.map(|failing| &*failing.error),
        "next_attempt_at": failing.and_then(|failing| failing.again_at).map(|at| at.to_string()),
        "dead_letters": dead,
    })
}

/// Shows a node, with the actions that it offers and the target that relay pushes to.
fn shown_node(asked: &Asked, view: &NodeView, offers: &Offers) -> Value {
    let mut json = nodes::shown_node(view);
    let actions = offers
        .of(view)
        .map(|name| json!({"name": name, "kind": nodes::ACTION}));
    json["capabilities"] = actions.collect();
    if view.pushes {
        let pushes = &asked.shared.pushes;
        json["delivery"] = pushes.shown(view.node).unwrap_or_default();
        json["delivery_adapter"] = pushes.adapter(view.node).into();
    }
    json
}

/// `POST /v1/nodes/:name/agents`: the node takes the deliveries of an agent from now on.
pub(super) async fn bind(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    let Bind {
        agent_name,
        session_ref,
        priority,
    } = asked.json()?;
    let view = named(&asked, workspace).await?;
    let bind = Command::Bind {
        node: view.node,
        agent: agent_name,
    };
    let engine::Reply::Nodes(reply) = asked.call(Who::Person, bind).await? else {
        unreachable!("a binding is asked for")
    };
    let Reply::Bound(BindingView {
        agent, acknowledged, ..
    }) = *reply
    else {
        unreachable!("a binding is asked for")
    };
    let now = asked.shared.owner.now().to_string();
    Ok(Data::created(json!({
        "id": format!("bnd_{}", nodes::agent_id(&agent)),
        "agent_id": nodes::agent_id(&agent),
        "agent_name": agent.local(),
        "node_id": nodes::node_id(&view),
        "node_name": nodes::node_name(&view),
        "node_kind": if view.pushes { "http_push" } else { "ws" },
        "node_role": if view.own.is_some() || view.pushes { "direct" } else { "broker" },
        "status": "active",
        "session_ref": session_ref,
        "priority": priority.unwrap_or(0),
        "created_at": now,
        "updated_at": now,
        "delivery_ack_seq": acknowledged,
    })))
}

/// `DELETE /v1/nodes/:name/agents/:agent`: its own node has the agent again, if it has one.
pub(super) async fn unbind(asked: Asked) -> Result<StatusCode, Failure> {
    let workspace = asked.workspace()?;
    asked.nothing()?;
    let view = named(&asked, workspace).await?;
    let agent = asked.second().to_owned();
    let unbind = Command::Unbind {
        node: view.node,
        agent: agent.clone(),
    };
    let engine::Reply::Nodes(reply) = asked.call(Who::Person, unbind).await? else {
        unreachable!("an end of a binding is asked for")
    };
    let Reply::Unbound { was_bound } = *reply else {
        unreachable!("an end of a binding is asked for")
    };
    if !was_bound {
        return Err(Refusal::NotBound { agent }.into());
    }
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /v1/node/ws`: the connection of a node.
pub(super) async fn socket(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let (mut parts, _) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let mut query = form_urlencoded::parse(query.as_bytes());
    let in_query = query
        .find(|(name, _)| name == "token")
        .map(|(_, token)| token.into_owned());
    let shown = parts.extensions.get::<Shown>().cloned().unwrap_or_default();
    let token = in_query.as_deref().map(str::as_bytes).or(shown.token());
    let holder = token.and_then(|token| shared.api.tokens.holder(token));
    let Some(Holder::Node(named)) = holder else {
        let reason = format!(
            "this address wants {}, as ?token= or as Authorization: Bearer; POST /v1/agent/node-token or POST /v1/nodes gives one",
            Kind::Node.words()
        );
        return Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", reason).into_response();
    };
    match WebSocketUpgrade::from_request_parts(&mut parts, &shared).await {
        Ok(socket) => nodes::upgrade(shared, named, &link, socket),
        Err(rejection) => {
            Failure::new(rejection.status(), "not_a_websocket", rejection.body_text()).into_response()
        }
    }
}

async fn of_workspace(asked: &Asked, project: String) -> Result<Vec<NodeView>, Failure> {
    let engine::Reply::Nodes(reply) = asked.call(Who::Person, Command::List { project }).await? else {
        unreachable!("a list of nodes is asked for")
    };
    let Reply::Listed(all) = *reply else {
        unreachable!("a list of nodes is asked for")
    };
    Ok(all)
}

async fn named(asked: &Asked, workspace: String) -> Result<NodeView, Failure> {
    named_node(asked, &workspace, asked.named()).await
}

/// Finds a node by its name or its id.
pub(super) async fn named_node(asked: &Asked, workspace: &str, name: &str) -> Result<NodeView, Failure> {
    for by in nodes::named_by(workspace, name) {
        let project = workspace.to_owned();
        let reply = asked.call(Who::Person, Command::Find { project, by }).await?;
        let engine::Reply::Nodes(reply) = reply else {
            unreachable!("a node is looked up, not {reply:?}")
        };
        let Reply::Found(found) = *reply else {
            unreachable!("a node is looked up, not {reply:?}")
        };
        let is_it = |view: &NodeView| nodes::node_name(view) == name || nodes::node_id(view) == name;
        if let Some(view) = found.filter(is_it) {
            return Ok(view);
        }
    }
    let reason = format!("no node {:?}; make it by POST /v1/nodes", shown(name));
    Err(Failure::new(StatusCode::NOT_FOUND, "node_not_found", reason))
}

/// Finds an agent of a node's by its name.
pub(super) async fn agent_of(asked: &Asked, node: &Named, name: &str) -> Result<AgentName, Failure> {
    let binding = Command::Binding {
        node: node.number(),
        agent: name.to_owned(),
    };
    let engine::Reply::Nodes(reply) = asked.call(Who::Person, binding).await? else {
        unreachable!("a binding is asked for")
    };
    let Reply::Bound(BindingView { agent, .. }) = *reply else {
        unreachable!("a binding is asked for")
    };
    Ok(agent)
}

fn node(reply: engine::Reply) -> NodeView {
    let engine::Reply::Nodes(reply) = reply else {
        unreachable!("a node is asked for, not {reply:?}")
    };
    let Reply::Node(view) = *reply else {
        unreachable!("a node is asked for, not {reply:?}")
    };
    view
}

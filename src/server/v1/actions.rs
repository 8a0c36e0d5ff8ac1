//! Actions: what agents and nodes offer to do, and what other agents ask of them.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::asked::Asked;
use super::envelope::{Answer, Data, Failure};
use super::nodes::named_node;
use super::tokens::Holder;
use crate::engine::actions::{ActionView, Command, Description, HandlerView, Named, Refusal, Reply};
use crate::engine::invocations::{InvocationView, Progress};
use crate::engine::{self, Timestamp, Who, shown};
use crate::server::nodes::{self, invocations};

/// What `POST /v1/actions` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    name: String,
    description: Option<String>,
    handler_agent: Option<String>,
    handler_node: Option<String>,
    input_schema: Option<Map<String, Value>>,
    output_schema: Option<Map<String, Value>>,
    available_to: Option<Vec<String>>,
}

/// What `POST /v1/actions/:name/invoke` takes.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Invoke {
    input: Option<Value>,
}

/// What `POST /v1/actions/:name/invocations/:id/complete` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Complete {
    /// Null is an output, too.
    #[serde(default, deserialize_with = "said")]
    output: Option<Value>,
    error: Option<String>,
    #[serde(rename = "duration_ms")]
    _duration_ms: Option<f64>,
}

/// Reads a value that is there, be it null.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// `POST /v1/actions`.
pub(super) async fn register(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    let Register {
        name,
        description,
        handler_agent,
        handler_node,
        input_schema,
        output_schema,
        available_to,
    } = asked.json()?;
    let handler = match (handler_agent, handler_node) {
        (Some(agent), None) => Named::Agent(agent),
        (None, Some(node)) => Named::Node(named_node(&asked, holder.workspace(), &node).await?.node),
        (Some(_), Some(_)) | (None, None) => {
            let reason = "accepted: \"handler_agent\", the name of an agent, or \"handler_node\", that of a node: one of them";
            return Err(Failure::invalid(reason));
        }
    };
    let text = |schema: Map<String, Value>| Value::Object(schema).to_string().into_boxed_str();
    let description = Description {
        project: holder.workspace().to_owned(),
        name,
        text: description.unwrap_or_default(),
        handler,
        input_schema: input_schema.map(text),
        output_schema: output_schema.map(text),
        available_to,
    };
    let command = Command::Register(Box::new(description));
    let Reply::Registered { action, is_new } = call(&asked, who(&holder), command).await? else {
        unreachable!("an action is registered")
    };
    let row = row(&action);
    Ok(if is_new { Data::created(row) } else { Data::ok(row) })
}

/// `GET /v1/actions`.
pub(super) async fn list(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    asked.nothing()?;
    let all = of_workspace(&asked, holder.workspace()).await?;
    Ok(Data::ok(all.iter().map(row).collect()))
}

/// Returns all actions of a workspace, those that nodes offer as capabilities among them.
pub(super) async fn of_workspace(asked: &Asked, workspace: &str) -> Result<Vec<ActionView>, Failure> {
    let project = workspace.to_owned();
    let Reply::Listed(all) = call(asked, Who::Person, Command::List { project }).await? else {
        unreachable!("a list of actions is asked for")
    };
    Ok(all)
}

/// `GET /v1/actions/:name`.
pub(super) async fn get(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    asked.nothing()?;
    let command = Command::Get {
        project: holder.workspace().to_owned(),
        name: asked.named().to_owned(),
    };
    let Reply::Is(action) = call(&asked, Who::Person, command).await? else {
        unreachable!("an action is asked for")
    };
    Ok(Data::ok(row(&action)))
}

/// `DELETE /v1/actions/:name`.
pub(super) async fn remove(asked: Asked) -> Answer {
    let project = asked.workspace()?;
    asked.nothing()?;
    let name = asked.named().to_owned();
    let Reply::Removed = call(&asked, Who::Person, Command::Remove { project, name }).await? else {
        unreachable!("an action is removed")
    };
    Ok(Data::nothing())
}

/// `POST /v1/actions/:name/invoke`.
pub(super) async fn invoke(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    let Invoke { input } = asked.json_or_nothing()?;
    let command = Command::Invoke {
        action: asked.named().to_owned(),
        input: input.unwrap_or_else(|| json!({})).to_string().into(),
    };
    let invocation = invocation(call(&asked, who(&Holder::Agent(agent)), command).await?);
    let (agent, node) = handler(&invocation.handler);
    Ok(Data::created(json!({
        "invocation_id": invocation.id.to_string(),
        "action_name": invocation.action,
        "handler_agent_id": agent,
        "handler_node_id": node,
        "input": invocations::json(&invocation.input),
        "status": invocations::status(&invocation.progress),
        "created_at": invocation.made_at.to_string(),
    })))
}

/// `GET /v1/actions/:name/invocations/:id`.
pub(super) async fn show(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    asked.nothing()?;
    Ok(Data::ok(invocation_row(&known(&asked, &holder).await?)))
}

/// `POST /v1/actions/:name/invocations/:id/complete`.
pub(super) async fn complete(asked: Asked) -> Answer {
    let holder = Holder::Agent(asked.agent()?);
    let Complete { output, error, .. } = asked.json()?;
    let result = match (output, error) {
        (Some(output), None) => Ok(output.to_string().into()),
        (None, Some(error)) => Err(error.into()),
        // That nothing came of it but that it is done.
        (None, None) => Ok("null".into()),
        (Some(_), Some(_)) => {
            let reason = "accepted: \"output\", or \"error\", which is a text: one of them";
            return Err(Failure::invalid(reason));
        }
    };
    // Of another action it is none of this one's.
    let InvocationView { id, .. } = known(&asked, &holder).await?;
    let command = Command::End {
        invocation: id.to_string(),
        result,
    };
    let invocation = invocation(call(&asked, who(&holder), command).await?);
    Ok(Data::ok(invocation_row(&invocation)))
}

/// Returns the invocation that the path names, if it is one of the path's action.
async fn known(asked: &Asked, holder: &Holder) -> Result<InvocationView, Failure> {
    let (action, id) = (asked.named(), asked.second());
    let command = Command::Show {
        project: holder.workspace().to_owned(),
        invocation: id.to_owned(),
    };
    let known = invocation(call(asked, who(holder), command).await?);
    if *known.action != *action {
        let given = shown(id);
        return Err(engine::Refusal::from(Refusal::UnknownInvocation { given }).into());
    }
    Ok(known)
}

/// Returns in whose name the engine is asked.
fn who(holder: &Holder) -> Who {
    match holder {
        Holder::Agent(agent) => Who::Api(agent.to_string()),
        Holder::Workspace(_) | Holder::Node(_) | Holder::Observer { .. } => Who::Person,
    }
}

async fn call(asked: &Asked, who: Who, command: Command) -> Result<Reply, Failure> {
    match asked.call(who, command).await? {
        engine::Reply::Actions(reply) => Ok(*reply),
        reply @ (engine::Reply::Mail(_)
        | engine::Reply::Agents(_)
        | engine::Reply::Groups(_)
        | engine::Reply::Channels(_)
        | engine::Reply::Watches(_)
        | engine::Reply::Nodes(_)
        | engine::Reply::Receipts(_)
        | engine::Reply::Trace(_)
        | engine::Reply::Holds(_)
        | engine::Reply::Surfacing(_)
        | engine::Reply::Workers(_)
        | engine::Reply::AfterStart { .. }
        | engine::Reply::Records(_)) => {
            unreachable!("an action is asked about, and the answer is {reply:?}")
        }
    }
}

fn invocation(reply: Reply) -> InvocationView {
    let Reply::Invocation(invocation) = reply else {
        unreachable!("an invocation is asked about, and the answer is {reply:?}")
    };
    invocation
}

/// Returns the id of the agent and that of the node that is a handler: one of them.
fn handler(handler: &HandlerView) -> (Option<String>, Option<String>) {
    match handler {
        HandlerView::Agent(agent) => (Some(nodes::agent_id(agent)), None),
        HandlerView::Node(node) => (None, Some(nodes::node_id(node))),
    }
}

fn row(action: &ActionView) -> Value {
    let (_, node_id) = handler(&action.handler);
    let (agent, node) = match &action.handler {
        HandlerView::Agent(agent) => (Some(agent.local()), None),
        HandlerView::Node(node) => (None, Some(nodes::node_name(node))),
    };
    let schema = |schema: &Option<std::sync::Arc<str>>| match schema {
        Some(schema) => invocations::json(schema),
        None => json!({}),
    };
    let available_to = action.available_to.as_ref();
    json!({
        "id": format!("act_{}", action.name),
        "name": action.name,
        "description": action.text,
        "handler_agent": agent,
        "handler_node": node,
        "handler_node_id": node_id,
        "input_schema": schema(&action.input_schema),
        "output_schema": schema(&action.output_schema),
        "available_to": available_to.map(|to| to.iter().map(|agent| agent.local()).collect::<Vec<_>>()),
        "is_active": action.is_live,
        "created_at": action.created_at.to_string(),
    })
}

fn invocation_row(invocation: &InvocationView) -> Value {
    let (agent, node) = handler(&invocation.handler);
    let (output, error) = invocations::result(&invocation.progress);
    let ended = match &invocation.progress {
        Progress::Ended { at, .. } => Some(*at),
        Progress::Waits | Progress::Sent { .. } => None,
    };
    json!({
        "invocation_id": invocation.id.to_string(),
        "action_name": invocation.action,
        "caller_id": nodes::agent_id(&invocation.caller),
        "caller_name": invocation.caller.local(),
        "handler_agent_id": agent,
        "handler_node_id": node,
        "input": invocations::json(&invocation.input),
        "output": output,
        "status": invocations::status(&invocation.progress),
        "error": error,
        "duration_ms": ended.map(|at: Timestamp| at.as_millis() - invocation.made_at.as_millis()),
        "created_at": invocation.made_at.to_string(),
        "completed_at": ended.map(|at| at.to_string()),
    })
}

//! What is pushed to the target of a node, as JSON: the same as goes over the connections of others, in another envelope.

use serde_json::{Value, json};

use super::outgoing::{data, parts, wire_mode};
use super::{agent_id, delivery_id, invocations};
use crate::engine::actions::HandlerView;
use crate::engine::invocations::InvocationView;
use crate::engine::{AgentName, Frame, Timestamp, Told};

/// What is pushed.
pub struct PushBody {
    /// Its type.
    pub event: String,
    /// The id of the delivery, if it is one.
    pub delivery: Option<String>,
    /// What it is known by: the same each time that it is pushed.
    pub id: String,
    /// When, as it is shown.
    pub timestamp: String,
    /// The same in seconds since 1970.
    pub seconds: i64,
    /// All of it.
    pub json: String,
}

/// Writes a delivery.
pub fn pushed_frame(frame: &Frame, now: Timestamp) -> PushBody {
    let Frame {
        agent,
        number,
        delivery,
        handover: _,
    } = frame;
    let message = &delivery.message;
    let (event, data) = data(agent, delivery);
    let id = delivery_id(message, agent);
    let json = json!({
        "type": event,
        "workspace_id": workspace_id(agent),
        "delivery_id": id,
        "message_id": message.id.to_string(),
        "agent_id": agent_id(agent),
        "agent_name": agent.local(),
        "seq": number,
        "mode": wire_mode(delivery.mode),
        "timestamp": now.to_string(),
        "data": data,
    });
    body(event, Some(id.clone()), id, now, &json)
}

/// Writes what is no delivery.
pub fn pushed_news(told: &Told, now: Timestamp) -> PushBody {
    let part = parts(told);
    let id = part.id(&told.agent);
    ephemeral(&told.agent, part.event, id, part.data, now)
}

/// Writes what an agent is to do; a node that is pushed to does nothing itself.
pub fn pushed_invocation(invocation: &InvocationView, now: Timestamp) -> PushBody {
    let agent = match &invocation.handler {
        HandlerView::Agent(agent) => agent,
        HandlerView::Node(_) => &invocation.caller,
    };
    let id = invocation.id.to_string();
    ephemeral(agent, "action.invoked", id, invocations::invoked(invocation), now)
}

fn ephemeral(agent: &AgentName, event: &str, id: String, data: Value, now: Timestamp) -> PushBody {
    let json = json!({
        "type": event,
        "workspace_id": workspace_id(agent),
        "timestamp": now.to_string(),
        "agent_ids": [agent_id(agent)],
        "data": data,
    });
    body(event, None, id, now, &json)
}

fn body(event: &str, delivery: Option<String>, id: String, now: Timestamp, json: &Value) -> PushBody {
    PushBody {
        event: event.to_owned(),
        delivery,
        id,
        timestamp: now.to_string(),
        seconds: now.as_millis() / 1_000,
        json: json.to_string(),
    }
}

fn workspace_id(agent: &AgentName) -> String {
    format!("ws_{}", agent.project())
}

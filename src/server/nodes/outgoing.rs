//! What a node is told: answers, errors, and frames of what is delivered, as JSON.

use serde::Serialize;
use serde_json::{Value, json};

use super::{agent_id, conversation_id, delivery_id, invocations, metadata};
use crate::engine::actions::HandlerView;
use crate::engine::handling::Mode;
use crate::engine::invocations::InvocationView;
use crate::engine::nodes::{BindingView, NodeView};
use crate::engine::{AgentName, Delivery, Frame, Message, News, ResolvedBy, Told};

/// Says that a frame was carried out.
pub fn reply(id: &str, data: &Value) -> String {
    json!({"v": 1, "type": "reply", "id": id, "ok": true, "data": data}).to_string()
}

/// Says why a frame was not carried out.
pub fn error(id: &str, code: &str, message: &str) -> String {
    json!({"v": 1, "type": "error", "id": id, "ok": false, "code": code, "message": message}).to_string()
}

/// Shows a node as whoever asks about it reads it. What it says of itself is not kept, and so nothing is there.
pub fn node(view: &NodeView) -> Value {
    let own = view.own.as_ref();
    json!({
        "id": super::node_id(view),
        "name": super::node_name(view),
        "kind": if view.pushes { "http_push" } else { "ws" },
        "role": if own.is_some() || view.pushes { "direct" } else { "broker" },
        "status": if view.is_live { "online" } else { "offline" },
        "live": view.is_live,
        "handlers_live": false,
        "delivery_adapter": "ws.node.v1",
        "capabilities": [],
        "tags": [],
        "version": "",
        "load": null,
        "active_agents": view.agents.len(),
        "max_agents": view.agents_max.unwrap_or(0),
        "created_at": view.created_at.to_string(),
        "last_heartbeat_at": view.last_contact.map(|at| at.to_string()),
    })
}

/// Shows a binding as the node reads it.
pub fn binding(view: &BindingView) -> Value {
    json!({
        "agent_id": agent_id(&view.agent),
        "name": view.agent.local(),
        "delivery_ack_seq": view.acknowledged,
    })
}

/// A frame on the wire. The published parser of `@relaycast/types` takes no other fields than these.
#[derive(Serialize)]
struct Deliver<'a> {
    v: u8,
    r#type: &'static str,
    delivery_id: String,
    agent_id: String,
    agent: &'a str,
    msg_id: String,
    seq: u64,
    mode: &'static str,
    payload: Payload<'a>,
}

#[derive(Serialize)]
struct Payload<'a> {
    r#type: &'static str,
    data: Data<'a>,
}

/// What is delivered.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Data<'a> {
    Direct {
        conversation_id: String,
        message: Body<'a>,
        created_at: String,
        id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        from_agent_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<&'a str>,
        text: &'a str,
        injection_mode: &'static str,
        attachments: [(); 0],
        from_name: String,
    },
    Channel {
        id: String,
        channel_id: String,
        agent_id: String,
        agent_name: String,
        text: &'a str,
        blocks: (),
        metadata: Option<Value>,
        has_attachments: bool,
        thread_id: Option<&'a str>,
        created_at: String,
        mentions: Vec<&'a str>,
        attachments: [(); 0],
        injection_mode: &'static str,
        channel_name: String,
        from_name: String,
    },
}

/// What a direct message says.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    id: String,
    agent_id: String,
    agent_name: String,
    text: &'a str,
    injection_mode: &'static str,
    attachments: [(); 0],
    metadata: Option<Value>,
}

/// The words for modes on the wire, which knows but two.
pub const WIRE_MODES: [(&str, Mode); 2] = [("wait", Mode::Immediate), ("steer", Mode::NextToolCall)];

/// Returns the word for a mode on the wire: for one that it does not know, the first.
pub fn wire_mode(mode: Mode) -> &'static str {
    let known = WIRE_MODES.iter().find(|(_, known)| *known == mode);
    known.unwrap_or(&WIRE_MODES[0]).0
}

/// Writes a frame.
pub fn deliver(frame: &Frame) -> String {
    let Frame {
        agent,
        number,
        delivery,
        handover: _,
    } = frame;
    let message = &delivery.message;
    let (r#type, data) = data(agent, delivery);
    let deliver = Deliver {
        v: 1,
        r#type: "deliver",
        delivery_id: delivery_id(message, agent),
        agent_id: agent_id(agent),
        agent: agent.local(),
        msg_id: message.id.to_string(),
        seq: *number,
        mode: wire_mode(delivery.mode),
        payload: Payload { r#type, data },
    };
    serde_json::to_string(&deliver).expect("it is plain data")
}

/// The news of a delivery on the wire.
#[derive(Serialize)]
struct Accepted {
    v: u8,
    r#type: &'static str,
    topic: &'static str,
    event: &'static str,
    channel_id: (),
    agent_ids: [String; 1],
    data: AcceptedDelivery,
}

#[derive(Serialize)]
struct AcceptedDelivery {
    delivery_id: String,
    message_id: String,
    reason: &'static str,
}

/// Writes the news that a delivery is about to go out, which clients of a direct node wait for.
pub fn accepted(frame: &Frame) -> String {
    let Frame { agent, delivery, .. } = frame;
    let message = &delivery.message;
    let accepted = Accepted {
        v: 1,
        r#type: "context.update",
        topic: "agent",
        event: "delivery.accepted",
        channel_id: (),
        agent_ids: [agent_id(agent)],
        data: AcceptedDelivery {
            delivery_id: delivery_id(message, agent),
            message_id: message.id.to_string(),
            reason: reason(message, agent),
        },
    };
    serde_json::to_string(&accepted).expect("it is plain data")
}

/// Writes what is no delivery: a frame without a number, which is not sent again.
pub fn news(told: &Told) -> String {
    let Part {
        event,
        about,
        key,
        data,
    } = parts(told);
    unnumbered(&told.agent, event, &about, &key, &data)
}

/// What is no delivery, in its parts.
pub(super) struct Part {
    /// What it is.
    pub event: &'static str,
    /// The id of what it is about.
    about: String,
    /// What makes it another than others of its kind, in characters that a header takes.
    key: String,
    /// What it says.
    pub data: Value,
}

impl Part {
    /// Returns what it is known by.
    pub fn id(&self, agent: &AgentName) -> String {
        format!("evt_{}_{}_{}", self.event, self.key, agent_id(agent))
    }
}

/// Takes it apart.
pub(super) fn parts(told: &Told) -> Part {
    let Told { agent, at, news } = told;
    let (event, about, key, data) = match news {
        News::Read { message, by } => (
            "message.read",
            message.id.to_string(),
            format!("{}_{}", message.id, agent_id(by)),
            json!({
                "message_id": message.id.to_string(),
                "agent_id": agent_id(by),
                "agent_name": by.seen_from(agent.project()),
                "read_at": at.to_string(),
            }),
        ),
        News::Reacted {
            message,
            by,
            emoji,
            given,
        } => (
            "message.reacted",
            message.id.to_string(),
            format!(
                "{}_{}_{}_{}",
                message.id,
                agent_id(by),
                in_ascii(emoji),
                at.as_millis()
            ),
            json!({
                "message_id": message.id.to_string(),
                "agent_id": agent_id(by),
                "agent_name": by.seen_from(agent.project()),
                "emoji": emoji,
                "channel_name": message.to.channel_name(),
                "action": if *given { "added" } else { "removed" },
                "created_at": at.to_string(),
            }),
        ),
        News::Ended(invocation) => {
            let id = invocation.id.to_string();
            let (event, data) = invocations::ended(invocation);
            (event, id.clone(), id, data)
        }
        News::Denied { action } => (
            "action.denied",
            format!("{action}_{}", at.as_millis()),
            format!("{}_{}", in_ascii(action), at.as_millis()),
            invocations::denied(action, agent),
        ),
    };
    Part {
        event,
        about,
        key,
        data: metadata::with_reason(data, news_reason(news)),
    }
}

/// Says why an agent gets what is no delivery.
fn news_reason(news: &News) -> &'static str {
    match news {
        News::Read { .. } | News::Reacted { .. } => "notification",
        News::Ended(_) | News::Denied { .. } => "action-result",
    }
}

/// Writes what an agent has chosen in characters that a header takes: it stands in ids.
fn in_ascii(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Writes a frame without a number, about something that has an id.
fn unnumbered(agent: &AgentName, event: &str, about: &str, key: &str, data: &Value) -> String {
    json!({
        "v": 1,
        "type": "deliver",
        "delivery_id": format!("evt_{event}_{key}_{}", agent_id(agent)),
        "agent_id": agent_id(agent),
        "agent": agent.local(),
        "msg_id": about,
        "seq": 0,
        "mode": wire_mode(Mode::default()),
        "payload": {"type": event, "data": data},
    })
    .to_string()
}

/// Writes what the handler of an action is to do. The client of an agent's own node does not say to its program who asks, unless the
/// frame is one of those that have no number.
pub fn invoke(invocation: &InvocationView, is_own: bool) -> String {
    let (id, input) = (invocation.id.to_string(), invocations::json(&invocation.input));
    let HandlerView::Agent(agent) = &invocation.handler else {
        return json!({
            "v": 1,
            "type": "action.invoke",
            "invocation_id": id,
            "action": invocation.action,
            "input": input,
        })
        .to_string();
    };
    if is_own {
        let data = invocations::invoked(invocation);
        return unnumbered(agent, "action.invoked", &id, &id, &data);
    }
    json!({
        "v": 1,
        "type": "action.invoke",
        "invocation_id": id,
        "action": invocation.action,
        "agent_id": agent_id(agent),
        "agent_name": agent.local(),
        "input": input,
    })
    .to_string()
}

/// Says why an agent gets a message.
pub fn reason(message: &Message, agent: &AgentName) -> &'static str {
    match message.to.by() {
        _ if message.from.is_relay() => "notification",
        _ if message.is_reply() => "thread-reply",
        ResolvedBy::Name => "dm",
        _ if message.mentions_agent(agent) => "mention",
        ResolvedBy::Role
        | ResolvedBy::Group
        | ResolvedBy::Channel
        | ResolvedBy::Broadcast
        | ResolvedBy::List => "message",
    }
}

pub(super) fn data<'a>(agent: &'a AgentName, delivery: &'a Delivery) -> (&'static str, Data<'a>) {
    let message = &*delivery.message;
    let from_name = message.from.seen_from(agent.project()).into_owned();
    let (id, created_at) = (message.id.to_string(), message.ts.to_string());
    let text = message.body.as_str();
    let by = message.to.by();
    let is_direct = by == ResolvedBy::Name;
    let (kind, says) = match by {
        ResolvedBy::Channel if message.is_reply() => ("thread.reply", "thread-reply"),
        ResolvedBy::Channel => ("message.created", "message"),
        ResolvedBy::Name => ("dm.received", "dm"),
        ResolvedBy::Role | ResolvedBy::Group | ResolvedBy::Broadcast | ResolvedBy::List => {
            ("group_dm.received", "message")
        }
    };
    let reason = reason(message, agent);
    let metadata = metadata::shown(delivery, (reason != says).then_some(reason));
    if by == ResolvedBy::Channel {
        let name = message.to.channel_name().unwrap_or_default();
        let data = Data::Channel {
            id,
            channel_id: super::channel_id(&message.to),
            agent_id: agent_id(&message.from),
            agent_name: from_name.clone(),
            text,
            blocks: (),
            metadata,
            has_attachments: false,
            thread_id: message.thread(),
            created_at,
            mentions: message.mentions().collect(),
            attachments: [],
            injection_mode: wire_mode(delivery.mode),
            channel_name: name.to_owned(),
            from_name,
        };
        return (kind, data);
    }
    let from_id = agent_id(&message.from);
    let data = Data::Direct {
        conversation_id: conversation_id(message),
        message: Body {
            id: id.clone(),
            agent_id: from_id.clone(),
            agent_name: from_name.clone(),
            text,
            injection_mode: wire_mode(delivery.mode),
            attachments: [],
            metadata,
        },
        created_at,
        id,
        from_agent_id: is_direct.then(|| from_id.clone()),
        agent_id: (!is_direct).then_some(from_id),
        to: is_direct.then(|| agent.local()),
        text,
        injection_mode: wire_mode(delivery.mode),
        attachments: [],
        from_name,
    };
    (kind, data)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::{Kind, MessageId, Recipient, Seq, Timestamp};

    #[test]
    fn what_relay_itself_tells_is_a_notification() {
        let bob = AgentName::new("bob").expect("a name");
        let message = Message {
            id: MessageId(uuid::Uuid::nil()),
            from: AgentName::relay(),
            to: Recipient::agent(&bob),
            kind: Kind::Status,
            body: "a worker has ended".to_owned(),
            ts: Timestamp::from_millis(0),
            context: None,
        };
        assert_eq!(reason(&message, &bob), "notification");
        let delivery = Delivery {
            seq: Seq(0),
            message: Arc::new(message),
            mode: Mode::Immediate,
            redelivered: false,
        };
        let (kind, data) = data(&bob, &delivery);
        let data = serde_json::to_value(&data).expect("it is plain data");
        let added = &data["message"]["metadata"]["relay"];
        assert_eq!((kind, added), ("dm.received", &json!({"reason": "notification"})));
    }
}

//! What an event looks like to whoever observes: flat, as Agent Relay has it, and which scope and place it belongs to.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::entry::{About, Entry, Step, What};
use super::journal::Of;
use super::view::Scope;
use crate::engine::actions::HandlerView;
use crate::engine::invocations::Progress;
use crate::engine::workers::{Became, Transition};
use crate::engine::{AgentName, ChannelName, Message, Recipient, ResolvedBy};
use crate::server::nodes::{self, agent_id, conversation_of, invocations};
use crate::tools::traces;

/// Where something was said.
pub(super) enum Place {
    /// In a channel.
    Channel { id: String, name: String },
    /// Between two, or to several who are no channel.
    Conversation(String),
    /// It is about nothing that was said.
    Nowhere,
}

impl Place {
    fn of(from: &AgentName, to: &Recipient) -> Self {
        match to.by() {
            ResolvedBy::Channel => Self::Channel {
                id: nodes::channel_id(to),
                name: to.channel_name().unwrap_or_default().to_owned(),
            },
            ResolvedBy::Name
            | ResolvedBy::Role
            | ResolvedBy::Group
            | ResolvedBy::Broadcast
            | ResolvedBy::List => Self::Conversation(conversation_of(from, to.as_str())),
        }
    }

    fn of_channel(channel: &ChannelName) -> Self {
        Self::Channel {
            id: nodes::channel_id(&Recipient::channel(channel)),
            name: channel.local().to_owned(),
        }
    }

    /// Returns the id of it, if there is one.
    fn id(self) -> Option<String> {
        match self {
            Self::Channel { id, .. } | Self::Conversation(id) => Some(id),
            Self::Nowhere => None,
        }
    }
}

impl Entry {
    /// Returns the type of the event.
    pub(super) fn kind(&self) -> Cow<'static, str> {
        Cow::Borrowed(match &self.what {
            What::Session(event) => return format!("harness.{}", event.kind).into(),
            What::Message { message, .. } => match message.to.by() {
                ResolvedBy::Channel if message.is_reply() => "thread.reply",
                ResolvedBy::Channel => "message.created",
                ResolvedBy::Name => "dm.received",
                ResolvedBy::Role | ResolvedBy::Group | ResolvedBy::Broadcast | ResolvedBy::List => {
                    "group_dm.received"
                }
            },
            What::Delivery { step, .. } => match step {
                Step::Accepted => "delivery.accepted",
                Step::Delivered { .. } => "delivery.delivered",
                Step::Undone { .. } => "delivery.undone",
                Step::AskedAgain { .. } => "delivery.asked_again",
                Step::Deferred { .. } => "delivery.deferred",
                Step::Failed { .. } => "delivery.failed",
                Step::Held { .. } => "delivery.held",
                Step::Allowed => "delivery.allowed",
                Step::Dropped => "delivery.dropped",
                Step::Expired => "delivery.expired",
            },
            What::HandedOn { .. } => "delivery.handed_on",
            What::Worker(transition) => return format!("worker.{}", transition.became.as_str()).into(),
            What::Read { .. } => "message.read",
            What::Reacted { .. } => "message.reacted",
            What::Agent { is_there: true, .. } => "agent.status.active",
            What::Agent { is_there: false, .. } => "agent.status.offline",
            What::TakenOver { .. } => "agent.taken_over",
            What::Member { is_in: true, .. } => "member.joined",
            What::Member { is_in: false, .. } => "member.left",
            What::Invocation(invocation) => match &invocation.progress {
                Progress::Waits | Progress::Sent { .. } => "action.invoked",
                Progress::Ended { .. } => invocations::ended(invocation).0,
            },
            What::Denied { .. } => "action.denied",
            What::Node { node, .. } if node.is_live => "node.status.online",
            What::Node { .. } => "node.status.offline",
        })
    }

    /// Returns the scope that it needs, beside that of the stream and that of direct messages if it is about one.
    pub(super) fn scope(&self) -> Scope {
        match &self.what {
            What::Message { message, .. } => match message.to.by() {
                ResolvedBy::Channel if message.is_reply() => Scope::Threads,
                ResolvedBy::Channel => Scope::Messages,
                ResolvedBy::Name
                | ResolvedBy::Role
                | ResolvedBy::Group
                | ResolvedBy::Broadcast
                | ResolvedBy::List => Scope::Dms,
            },
            What::Delivery { .. } | What::HandedOn { .. } => Scope::Deliveries,
            What::Read { .. } => Scope::Messages,
            What::Reacted { .. } => Scope::Reactions,
            What::Agent { .. } | What::TakenOver { .. } | What::Worker(_) => Scope::Agents,
            What::Member { .. } => Scope::Channels,
            What::Session(_) | What::Invocation(_) | What::Denied { .. } => Scope::Activity,
            What::Node { .. } => Scope::Nodes,
        }
    }

    /// Returns where that was said which it is about.
    pub(super) fn place(&self) -> Place {
        match &self.what {
            What::Message { message, .. } => Place::of(&message.from, &message.to),
            What::Delivery { of, .. }
            | What::Read { of, .. }
            | What::Reacted { of, .. }
            | What::HandedOn { of, .. } => Place::of(&of.from, &of.to),
            What::Member { channel, .. } => Place::of_channel(channel),
            What::Agent { .. }
            | What::TakenOver { .. }
            | What::Worker(_)
            | What::Session(_)
            | What::Invocation(_)
            | What::Denied { .. }
            | What::Node { .. } => Place::Nowhere,
        }
    }

    /// Tells whether it is about something that an agent, by its id, has done or got.
    pub(super) fn concerns(&self, id: &str) -> bool {
        let is = |agent: &AgentName| agent_id(agent) == id;
        match &self.what {
            What::Message { message, agents } => is(&message.from) || agents.iter().any(is),
            What::Delivery { of, agent, .. } => is(&of.from) || is(agent),
            What::Read { of, by } | What::Reacted { of, by, .. } => is(&of.from) || is(by),
            What::Agent { agent, .. } | What::TakenOver { agent } | What::Member { agent, .. } => is(agent),
            What::HandedOn { of, from, to } => is(&of.from) || is(from) || is(to),
            What::Worker(transition) => is(&transition.agent) || is(&transition.parent),
            What::Session(event) => is(&event.agent),
            What::Invocation(invocation) => {
                is(&invocation.caller)
                    || match &invocation.handler {
                        HandlerView::Agent(agent) => is(agent),
                        HandlerView::Node(_) => false,
                    }
            }
            What::Denied { caller, .. } => is(caller),
            What::Node { node, .. } => node.agents.iter().any(is),
        }
    }

    /// Writes it as it goes over a stream: flat, its number among the rest.
    pub(super) fn frame(&self, of: &Of, number: u64) -> Value {
        let mut frame = self.payload(of);
        frame["seq"] = number.into();
        frame["created_at"] = self.at.to_string().into();
        frame
    }

    /// Writes it as it is listed: what it says on its own.
    pub(in crate::server) fn row(&self, of: &Of, number: u64) -> Value {
        json!({
            "seq": number,
            "type": self.kind(),
            "channel_id": self.place().id(),
            "payload": self.payload(of),
            "created_at": self.at.to_string(),
        })
    }

    fn payload(&self, of: &Of) -> Value {
        let kind = &*self.kind();
        let name = |agent: &AgentName| match of {
            Of::All => agent.as_str().to_owned(),
            Of::Workspace(workspace) => agent.seen_from(workspace).into_owned(),
        };
        match &self.what {
            What::Message { message, .. } => said(kind, message, &name),
            What::Delivery { of, agent, step } => became(kind, of, agent, step, &name),
            What::HandedOn { of, from, to } => json!({
                "type": kind,
                "delivery_id": nodes::delivery_of(of.id, to),
                "message_id": of.id.to_string(),
                "agent_id": agent_id(to),
                "agent_name": name(to),
                "handed_on_by": name(from),
            }),
            What::Worker(transition) => worker(kind, transition, &name),
            What::Read { of, by } => json!({
                "type": kind,
                "message_id": of.id.to_string(),
                "agent_id": agent_id(by),
                "agent_name": name(by),
                "read_at": self.at.to_string(),
            }),
            What::Reacted { of, by, emoji, given } => json!({
                "type": kind,
                "message_id": of.id.to_string(),
                "agent_id": agent_id(by),
                "agent_name": name(by),
                "emoji": **emoji,
                "action": if *given { "added" } else { "removed" },
            }),
            What::Agent { agent, is_there } => json!({
                "type": kind,
                "agent": {"id": agent_id(agent), "name": name(agent)},
                "status": if *is_there { "active" } else { "offline" },
            }),
            What::TakenOver { agent } => json!({
                "type": kind,
                "agent": {"id": agent_id(agent), "name": name(agent)},
            }),
            What::Member { channel, agent, .. } => json!({
                "type": kind,
                "channel": channel.local(),
                "agent_id": agent_id(agent),
                "agent_name": name(agent),
            }),
            What::Session(event) => json!({
                "type": kind,
                "agent_id": agent_id(&event.agent),
                "agent_name": name(&event.agent),
                "event": {
                    "id": event.id(),
                    "type": event.kind,
                    "payload": event.payload,
                    "sequence": event.number,
                },
            }),
            What::Invocation(invocation) => {
                let mut data = match &invocation.progress {
                    Progress::Waits | Progress::Sent { .. } => invocations::invoked(invocation),
                    Progress::Ended { .. } => invocations::ended(invocation).1,
                };
                data["type"] = kind.into();
                data["caller_name"] = name(&invocation.caller).into();
                data["handler_name"] = match &invocation.handler {
                    HandlerView::Agent(agent) => name(agent),
                    HandlerView::Node(node) => nodes::node_name(node),
                }
                .into();
                data
            }
            What::Denied { action, caller } => {
                let mut data = invocations::denied(action, caller);
                data["type"] = kind.into();
                data["caller_name"] = name(caller).into();
                data
            }
            What::Node { node, is_held } => json!({
                "type": kind,
                "node": {"id": nodes::node_id(node), "name": nodes::node_name(node), "workspace": node.project},
                "status": if node.is_live { "online" } else { "offline" },
                "holds_agents": is_held,
                "agents": node.agents.iter().map(name).collect::<Vec<String>>(),
            }),
        }
    }
}

fn said(kind: &str, message: &Message, name: &impl Fn(&AgentName) -> String) -> Value {
    let id = message.id.to_string();
    let mut said = json!({
        "type": kind,
        "id": id,
        "to": message.to.as_str(),
        "kind": message.kind.as_str(),
        "message": {
            "id": id,
            "agent_id": agent_id(&message.from),
            "agent_name": name(&message.from),
            "text": message.body,
            "attachments": [],
            "thread_id": message.thread(),
        },
    });
    match Place::of(&message.from, &message.to) {
        Place::Channel { name, .. } => said["channel"] = name.into(),
        Place::Conversation(id) => said["conversation_id"] = id.into(),
        Place::Nowhere => {}
    }
    if let Some(answered) = message.answers() {
        said["parent_id"] = answered.to_string().into();
    }
    said
}

fn worker(kind: &str, transition: &Transition, name: &impl Fn(&AgentName) -> String) -> Value {
    let Transition {
        worker,
        agent,
        parent,
        became,
        told,
    } = transition;
    let mut data = json!({
        "type": kind,
        "worker": worker.0,
        "agent": {"id": agent_id(agent), "name": name(agent)},
        "parent_name": name(parent),
        "parent_told": told,
    });
    match became {
        Became::Started | Became::Ready | Became::Late | Became::Silent => {}
        Became::Asked { cli } => data["cli"] = cli.as_str().into(),
        Became::Failed { reason } => data["reason"] = reason.as_str().into(),
        Became::Released { by, reason } => {
            data["released_by"] = name(by).into();
            data["reason"] = reason.as_deref().into();
        }
        Became::Exited {
            status,
            last_lines,
            expected,
        } => {
            data["status"] = status.to_string().into();
            data["last_lines"] = last_lines.as_str().into();
            data["expected"] = (*expected).into();
        }
    }
    data
}

fn became(
    kind: &str,
    of: &About,
    agent: &AgentName,
    step: &Step,
    name: &impl Fn(&AgentName) -> String,
) -> Value {
    let mut became = json!({
        "type": kind,
        "delivery_id": nodes::delivery_of(of.id, agent),
        "message_id": of.id.to_string(),
        "channel_id": Place::of(&of.from, &of.to).id(),
        "agent_id": agent_id(agent),
        "agent_name": name(agent),
        "from_name": name(&of.from),
    });
    match step {
        Step::Accepted | Step::Allowed | Step::Dropped | Step::Expired => {}
        Step::Held { by } => became["by"] = by.as_str().into(),
        Step::Delivered { by } | Step::Undone { by } => became["by"] = traces::sign(*by).into(),
        Step::AskedAgain { after } => became["after"] = after.to_string().into(),
        Step::Deferred { until, reason } => {
            became["available_at"] = until.to_string().into();
            became["reason"] = reason.as_deref().into();
        }
        Step::Failed { reason, retryable } => {
            became["error"] = reason.as_deref().into();
            became["retryable"] = (*retryable).into();
        }
    }
    became
}

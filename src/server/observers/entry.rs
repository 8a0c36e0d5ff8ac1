//! An event as it is kept: what it was, and in which workspaces it is told.

use std::borrow::Cow;

use serde_json::Value;

use crate::engine::holds::HeldBy;
use crate::engine::invocations::InvocationView;
use crate::engine::nodes::NodeView;
use crate::engine::workers::{Became, Transition};
use crate::engine::{
    AgentName, ChannelName, DEFAULT_PROJECT, Message, MessageId, Recipient, ResolvedBy, Sign, Timestamp,
};
use crate::server::nodes::agent_id;
use crate::server::sync::Arc;

/// An event.
#[derive(Debug, Clone)]
pub(in crate::server) struct Entry {
    /// When it was.
    pub at: Timestamp,
    /// What it was.
    pub what: What,
    /// In which workspaces it is told, and its number there.
    pub(super) places: Places,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The place of the workspace among all.
    pub workspace: usize,
    pub number: u64,
}

#[derive(Debug, Clone)]
pub(super) enum Places {
    One(Place),
    Many(Arc<[Place]>),
}

/// What has happened.
#[derive(Debug, Clone)]
pub(in crate::server) enum What {
    /// A message was accepted.
    Message {
        message: std::sync::Arc<Message>,
        /// Whose inboxes it is in.
        agents: Vec<AgentName>,
    },
    /// Something became of a delivery.
    Delivery { of: About, agent: AgentName, step: Step },
    /// An agent has said that it has read a message.
    Read { of: About, by: AgentName },
    /// An agent has shown how it takes a message, or shows it no more.
    Reacted {
        of: About,
        by: AgentName,
        emoji: std::sync::Arc<str>,
        given: bool,
    },
    /// An agent is there that was not, or the other way round.
    Agent { agent: AgentName, is_there: bool },
    /// A later instance has taken an agent over.
    TakenOver { agent: AgentName },
    /// An agent is in a channel, or not any more.
    Member {
        channel: ChannelName,
        agent: AgentName,
        is_in: bool,
    },
    /// An agent has said something of its session.
    Session(std::sync::Arc<SessionEvent>),
    /// An agent has asked for an action, or what it has asked for has ended.
    Invocation(Box<InvocationView>),
    /// An agent has asked for an action that is not for it.
    Denied {
        action: std::sync::Arc<str>,
        caller: AgentName,
    },
    /// What a worker that was released had not read is another agent's.
    HandedOn {
        of: About,
        from: AgentName,
        to: AgentName,
    },
    /// Something has become of a worker.
    Worker(Box<Transition>),
    /// A node is connected, or not any more, or holds its agents no more.
    Node { node: Box<NodeView>, is_held: bool },
}

impl What {
    /// Returns the project of the channel that it is about, if it is about one.
    pub(super) fn channel_project(&self) -> Option<Cow<'static, str>> {
        let to = match self {
            Self::Member { channel, .. } => return Some(channel.project().to_owned().into()),
            Self::Message { message, .. } => &message.to,
            Self::Delivery { of, .. }
            | Self::Read { of, .. }
            | Self::Reacted { of, .. }
            | Self::HandedOn { of, .. } => &of.to,
            Self::Agent { .. }
            | Self::TakenOver { .. }
            | Self::Session(_)
            | Self::Worker(_)
            | Self::Invocation(_)
            | Self::Denied { .. }
            | Self::Node { .. } => return None,
        };
        if to.by() != ResolvedBy::Channel {
            return None;
        }
        Some(match to.as_str().split_once(":#") {
            Some((project, _)) => project.to_owned().into(),
            None => DEFAULT_PROJECT.into(),
        })
    }
}

/// The message that an event is about, without its text.
#[derive(Debug, Clone)]
pub(in crate::server) struct About {
    pub id: MessageId,
    pub from: AgentName,
    pub to: Recipient,
}

impl From<&Message> for About {
    fn from(message: &Message) -> Self {
        Self {
            id: message.id,
            from: message.from.clone(),
            to: message.to.clone(),
        }
    }
}

/// What an agent says of its own session.
#[derive(Debug, PartialEq)]
pub(in crate::server) struct SessionEvent {
    pub agent: AgentName,
    /// The how-manieth of the agent it is, from 1.
    pub number: u64,
    /// Its type, which relay does not know.
    pub kind: String,
    /// What else is in it, as JSON.
    pub payload: Value,
    pub at: Timestamp,
}

impl SessionEvent {
    /// Returns its id.
    pub fn id(&self) -> String {
        format!("evt_{}_{}", agent_id(&self.agent), self.number)
    }

    /// Returns the bytes that the bounds count, about.
    pub fn bytes(&self) -> usize {
        self.kind.len() + bytes(&self.payload)
    }
}

fn bytes(json: &Value) -> usize {
    // What a value takes beside its text.
    let own = size_of::<Value>();
    own + match json {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(bytes).sum(),
        Value::Object(all) => all
            .iter()
            .map(|(name, value)| name.len() + own + bytes(value))
            .sum(),
    }
}

/// What became of a delivery.
#[derive(Debug, Clone)]
pub(in crate::server) enum Step {
    /// It is in the inbox.
    Accepted,
    /// It is known to have arrived.
    Delivered { by: Sign },
    /// It is back in the inbox.
    Undone { by: Sign },
    /// It is back in the inbox though it had arrived: its agent has asked for what it was handed behind a message.
    AskedAgain { after: MessageId },
    /// Its agent does not want it yet.
    Deferred {
        until: Timestamp,
        reason: Option<Box<str>>,
    },
    /// The person holds it.
    Held { by: HeldBy },
    /// The person has let it pass.
    Allowed,
    /// The person has dropped it.
    Dropped,
    /// Nobody was handed it before its deadline.
    Expired,
    /// Its agent could not do what was to be done.
    Failed {
        reason: Option<Box<str>>,
        retryable: bool,
    },
}

impl Step {
    fn bytes(&self) -> usize {
        match self {
            Self::Deferred { reason, .. } | Self::Failed { reason, .. } => {
                reason.as_deref().map_or(0, str::len)
            }
            Self::Accepted
            | Self::Held { .. }
            | Self::Allowed
            | Self::Dropped
            | Self::Expired
            | Self::Delivered { .. }
            | Self::Undone { .. }
            | Self::AskedAgain { .. } => 0,
        }
    }
}

/// Whose events are read: of one workspace, by its place, or of all.
pub(super) type Whose = Option<usize>;

impl Entry {
    /// Makes what is told of a message out of nothing but that: it has no place, and is kept nowhere.
    pub(super) fn of_message(message: &std::sync::Arc<Message>) -> Self {
        Self {
            at: message.ts,
            what: What::Message {
                message: std::sync::Arc::clone(message),
                agents: message.to.as_agent().into_iter().collect(),
            },
            places: Places::Many([].into()),
        }
    }

    /// Returns the number that it has for whoever reads those events; none if it is not one of them. `number` is the one that it has
    /// among all.
    pub(super) fn number(&self, whose: Whose, number: u64) -> Option<u64> {
        let Some(workspace) = whose else {
            return Some(number);
        };
        let places = match &self.places {
            Places::One(place) => std::slice::from_ref(place),
            Places::Many(places) => places,
        };
        let place = places.iter().find(|place| place.workspace == workspace);
        place.map(|place| place.number)
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.what {
            What::Message { message, .. } => message.bytes(),
            What::Session(event) => event.bytes(),
            What::Invocation(invocation) => invocation.bytes(),
            What::Node { node, .. } => node.agents.len() * size_of::<AgentName>(),
            What::Delivery { step, .. } => step.bytes(),
            What::Worker(transition) => worker_bytes(&transition.became),
            What::Read { .. }
            | What::HandedOn { .. }
            | What::Reacted { .. }
            | What::Agent { .. }
            | What::TakenOver { .. }
            | What::Member { .. }
            | What::Denied { .. } => 0,
        }
    }
}

fn worker_bytes(became: &Became) -> usize {
    match became {
        Became::Asked { cli } => cli.len(),
        Became::Failed { reason } => reason.len(),
        Became::Exited { last_lines, .. } => last_lines.len(),
        Became::Released { reason, .. } => reason.as_ref().map_or(0, String::len),
        Became::Started | Became::Ready | Became::Late | Became::Silent => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NodeId;

    fn bytes_of(what: What) -> usize {
        let (at, places) = (Timestamp::from_millis(0), Places::Many([].into()));
        Entry { at, what, places }.bytes()
    }

    fn node_with(agents: &[&str]) -> What {
        let agent = |name: &&str| AgentName::new(name).expect("a name");
        let node = NodeView {
            node: NodeId(1),
            project: DEFAULT_PROJECT.to_owned(),
            name: "fleet".to_owned(),
            own: None,
            label: None,
            agents_max: None,
            agents: agents.iter().map(agent).collect(),
            pushes: false,
            is_live: true,
            created_at: Timestamp::from_millis(0),
            last_contact: None,
        };
        What::Node {
            node: Box::new(node),
            is_held: false,
        }
    }

    #[test]
    fn an_event_of_a_session_counts_for_its_kind_and_for_each_value_in_it() {
        let event = |payload| SessionEvent {
            agent: AgentName::new("a").expect("a name"),
            number: 1,
            kind: "tool".to_owned(),
            payload,
            at: Timestamp::from_millis(0),
        };
        let one = size_of::<Value>();
        for (payload, bytes) in [
            (Value::Null, one),
            ("text".into(), one + 4),
            (serde_json::json!([true, 7]), 3 * one),
            (serde_json::json!({"key": "text"}), 3 * one + 3 + 4),
        ] {
            assert_eq!(event(payload.clone()).bytes(), "tool".len() + bytes, "{payload}");
        }
    }

    #[test]
    fn an_event_of_a_node_counts_for_each_of_its_agents() {
        let one = bytes_of(node_with(&["a"]));
        assert_eq!(bytes_of(node_with(&[])), 0);
        assert_eq!(one, size_of::<AgentName>());
        assert_eq!(bytes_of(node_with(&["a", "b", "c"])), 3 * one);
    }

    fn agent(name: &str) -> AgentName {
        AgentName::in_project("web", name).expect("a name")
    }

    fn entry(what: What) -> Entry {
        let (at, places) = (Timestamp::from_millis(0), Places::Many([].into()));
        Entry { at, what, places }
    }

    fn handed_on() -> What {
        What::HandedOn {
            of: About {
                id: MessageId(uuid::Uuid::nil()),
                from: agent("sender"),
                to: Recipient::agent(&agent("worker")),
            },
            from: agent("worker"),
            to: agent("parent"),
        }
    }

    #[test]
    fn what_becomes_of_a_worker_and_of_its_inbox_concerns_all_who_have_a_part_in_it() {
        let ready = Transition {
            worker: crate::engine::WorkerId(1),
            agent: agent("worker"),
            parent: agent("parent"),
            became: Became::Ready,
            told: false,
        };
        let denied = What::Denied {
            action: "sum".into(),
            caller: agent("sender"),
        };
        for (what, concerned) in [
            (What::Worker(Box::new(ready)), &["worker", "parent"][..]),
            (handed_on(), &["sender", "worker", "parent"]),
            (denied, &["sender"]),
        ] {
            let entry = entry(what);
            let all = ["sender", "worker", "parent", "other"].into_iter();
            let found: Vec<&str> = all
                .filter(|name| entry.concerns(&agent_id(&agent(name))))
                .collect();
            assert_eq!(found, concerned, "{entry:?}");
        }
    }

    #[test]
    fn what_is_handed_on_is_told_as_a_delivery_to_who_has_it_now() {
        let row = entry(handed_on()).row(&crate::server::observers::Of::All, 1);
        let told = ["delivery_id", "agent_name", "handed_on_by"].map(|name| row["payload"][name].clone());
        let delivery = format!("del_{}_agt_web:parent", uuid::Uuid::nil());
        assert_eq!(
            told,
            [delivery.as_str(), "web:parent", "web:worker"].map(Value::from)
        );
    }

    #[test]
    fn what_becomes_of_a_worker_is_told_with_all_that_there_is_to_say_of_it() {
        use serde_json::json;

        use crate::engine::workers::ExitStatus;
        let released = |reason: Option<&str>| Became::Released {
            by: agent("boss"),
            reason: reason.map(str::to_owned),
        };
        let (cli, reason, last_lines) = ("codex".to_owned(), "no codex".to_owned(), "bye".to_owned());
        for (became, kind, bytes, more) in [
            (Became::Asked { cli }, "worker.asked", 5, json!({"cli": "codex"})),
            (Became::Started, "worker.started", 0, json!({})),
            (Became::Ready, "worker.ready", 0, json!({})),
            (Became::Late, "worker.late", 0, json!({})),
            (Became::Silent, "worker.silent", 0, json!({})),
            (
                Became::Failed { reason },
                "worker.failed",
                8,
                json!({"reason": "no codex"}),
            ),
            (
                released(Some("done")),
                "worker.released",
                4,
                json!({"released_by": "web:boss", "reason": "done"}),
            ),
            (
                released(None),
                "worker.released",
                0,
                json!({"released_by": "web:boss", "reason": null}),
            ),
            (
                Became::Exited {
                    status: ExitStatus::Code(1),
                    last_lines,
                    expected: true,
                },
                "worker.exited",
                3,
                json!({"status": "exit code 1", "last_lines": "bye", "expected": true}),
            ),
        ] {
            let entry = entry(What::Worker(Box::new(Transition {
                worker: crate::engine::WorkerId(1),
                agent: agent("worker"),
                parent: agent("parent"),
                became,
                told: true,
            })));
            let mut expected = json!({
                "type": kind, "worker": 1, "agent": {"id": "agt_web:worker", "name": "web:worker"},
                "parent_name": "web:parent", "parent_told": true,
            });
            for (member, value) in more.as_object().expect("an object") {
                expected[member] = value.clone();
            }
            let row = entry.row(&crate::server::observers::Of::All, 1);
            assert_eq!((entry.bytes(), &row["payload"]), (bytes, &expected));
        }
    }
}

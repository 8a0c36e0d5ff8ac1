//! What comes from a relay, as it is read: events of its stream, what it says of itself, and answers. Knows nothing of connections.

use std::collections::BTreeMap;

use chrono::DateTime;
use serde::Deserialize;

use super::actions::Action;
use crate::cli::health::Health;
use crate::cli::tail;
use crate::engine::Timestamp;

/// Something that has come.
#[derive(Debug)]
pub enum News {
    /// A relay is there, and events follow.
    Connected {
        /// Where it is.
        place: String,
        /// What it says of itself.
        health: Box<Health>,
        /// What is in its inboxes, and in no event.
        inboxes: Vec<Message>,
    },
    /// What the relay says of itself now.
    Health(Box<Health>),
    /// What its agents have said of themselves.
    Agents(Vec<Agent>),
    /// Something has happened.
    Event(Event),
    /// The connection is gone, and why.
    Lost(String),
    /// What has become of a message, or why it is not told.
    Traced {
        /// Its id.
        id: String,
        /// What was answered.
        answer: Result<Traced, String>,
    },
    /// What the person wanted was done, or why it was not.
    Done {
        /// What it wanted.
        action: Action,
        /// What there is to say.
        outcome: Result<String, String>,
    },
}

/// A message, as far as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// Who sent it.
    pub from: String,
    /// Where it was sent.
    pub to: String,
    /// What it is for.
    pub kind: String,
    /// The text.
    pub body: String,
    /// When it was accepted.
    pub at: Timestamp,
    /// In whose inbox it is known to be, and how far it has come there.
    pub inbox: Option<(String, Step)>,
}

/// Something that has happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A message was accepted.
    Message(Message),
    /// Something became of a delivery.
    Became {
        /// Of which message.
        id: String,
        /// To whom.
        agent: String,
        /// What.
        step: Step,
    },
    /// What one agent had not read waits for another one now.
    HandedOn {
        /// Which message.
        id: String,
        /// Who had it.
        from: String,
        /// Who has it now.
        to: String,
    },
    /// Something else, in words.
    Note {
        /// When.
        at: Timestamp,
        /// What.
        text: String,
    },
    /// Some of what has happened is not told.
    Missed,
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It is in the inbox.
    Waits,
    /// The person holds it.
    Held,
    /// Its agent wants it later.
    Deferred,
    /// It is on its way to somebody, or nobody knows that it has arrived.
    HandedOver,
    /// It has arrived.
    Delivered,
    /// Its agent says that it has read it.
    Read,
    /// The person has dropped it.
    Dropped,
    /// Nobody was handed it before its deadline.
    Expired,
    /// It could not be done, or its target did not take it.
    Failed,
    /// It is another agent's now.
    HandedOn,
}

impl Step {
    /// Returns the word that stands for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Held => "held",
            Self::Deferred => "deferred",
            Self::HandedOver => "handed over",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Dropped => "dropped",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::HandedOn => "handed on",
        }
    }

    /// Tells whether a message that has come so far is lost where its relay ends.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Waits | Self::Held | Self::Deferred | Self::HandedOver => true,
            Self::Delivered | Self::Read | Self::Dropped | Self::Expired | Self::Failed | Self::HandedOn => {
                false
            }
        }
    }

    /// What becomes of one's delivery by what is handed on to it: who has not read its own copy yet gets no other.
    pub fn of_heir(known: Option<Self>) -> Self {
        known.filter(|step| step.is_open()).unwrap_or(Self::Waits)
    }

    /// Reads a step of a trace; none if it says nothing of how far a delivery has come.
    fn of_trace(step: &str) -> Option<Self> {
        Some(match step {
            "queued" | "undone" | "asked_again" | "allowed" => Self::Waits,
            "held" => Self::Held,
            "dropped" => Self::Dropped,
            "deferred" => Self::Deferred,
            "handed_over" | "read" | "receipt_awaited" => Self::HandedOver,
            "delivered" | "receipted" => Self::Delivered,
            "expired" => Self::Expired,
            "failed" | "given_up" => Self::Failed,
            _ => return None,
        })
    }
}

/// What an agent has said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: Option<String>,
    /// The program that it is.
    pub cli: Option<String>,
    /// A session did something in its name a moment ago.
    pub active: bool,
    /// Relay has started it as a worker, and it has not ended.
    pub is_worker: bool,
}

/// What has become of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Traced {
    /// All of it in lines, as `relay trace` has them.
    pub text: String,
    /// How far it has come for each of its recipients.
    pub steps: BTreeMap<String, Step>,
}

impl Traced {
    /// Reads an answer, and takes what is in it in words.
    pub fn of(answer: &[u8], text: String) -> Option<Self> {
        #[derive(Deserialize)]
        struct Answer {
            steps: Vec<Told>,
        }
        #[derive(Deserialize)]
        struct Told {
            agent: String,
            step: String,
            /// Who had it before it was handed on; of other steps, who has sent it.
            from: Option<String>,
        }
        let Answer { steps: told } = serde_json::from_slice(answer).ok()?;
        let mut steps = BTreeMap::new();
        for Told { agent, step, from } in told {
            if step == "handed_on" {
                steps.insert(from.unwrap_or_default(), Step::HandedOn);
                let step = Step::of_heir(steps.get(&agent).copied());
                steps.insert(agent, step);
            } else if let Some(step) = Step::of_trace(&step) {
                steps.insert(agent, step);
            }
        }
        Some(Self { text, steps })
    }
}

/// What is read of an event. What is not there is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Frame {
    r#type: String,
    seq: Option<u64>,
    created_at: String,
    id: String,
    to: String,
    kind: String,
    message: Body,
    message_id: String,
    agent_name: String,
    handed_on_by: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    agent_name: String,
    text: String,
}

/// Reads an event of the stream; returns its number and what is shown of it, if it is shown.
pub fn event(json: &str) -> Option<(Option<u64>, Option<Event>)> {
    let frame: Frame = serde_json::from_str(json).ok()?;
    let at = moment(&frame.created_at);
    let became = |step| Event::Became {
        id: frame.message_id.clone(),
        agent: frame.agent_name.clone(),
        step,
    };
    let event = match frame.r#type.as_str() {
        "events.missed" => Some(Event::Missed),
        "delivery.accepted" | "delivery.undone" | "delivery.asked_again" | "delivery.allowed" => {
            Some(became(Step::Waits))
        }
        "delivery.handed_on" => Some(Event::HandedOn {
            id: frame.message_id,
            from: frame.handed_on_by,
            to: frame.agent_name,
        }),
        "delivery.held" => Some(became(Step::Held)),
        "delivery.dropped" => Some(became(Step::Dropped)),
        "delivery.deferred" => Some(became(Step::Deferred)),
        "delivery.delivered" => Some(became(Step::Delivered)),
        "delivery.expired" => Some(became(Step::Expired)),
        "delivery.failed" => Some(became(Step::Failed)),
        "message.read" => Some(became(Step::Read)),
        _ if !frame.kind.is_empty() && !frame.id.is_empty() => Some(Event::Message(Message {
            id: frame.id,
            from: frame.message.agent_name,
            to: frame.to,
            kind: frame.kind,
            body: frame.message.text,
            at,
            inbox: None,
        })),
        _ => tail::note(json).map(|text| Event::Note { at, text }),
    };
    Some((frame.seq, event))
}

/// Reads what is in an inbox: what waits there, and what the person holds.
pub fn inbox(answer: &[u8], agent: &str) -> Option<Vec<Message>> {
    #[derive(Deserialize)]
    struct Answer {
        messages: Vec<Told>,
    }
    #[derive(Deserialize)]
    struct Told {
        id: String,
        from: String,
        to: String,
        kind: String,
        body: String,
        ts: String,
        /// For which hold, if it is held.
        held: Option<String>,
    }
    let Answer { messages } = serde_json::from_slice(answer).ok()?;
    let messages = messages.into_iter().map(|told| Message {
        id: told.id,
        from: told.from,
        to: told.to,
        kind: told.kind,
        body: told.body,
        at: moment(&told.ts),
        inbox: Some((
            agent.to_owned(),
            if told.held.is_some() {
                Step::Held
            } else {
                Step::Waits
            },
        )),
    });
    Some(messages.collect())
}

/// Reads what agents have said of themselves.
pub fn agents(answer: &[u8]) -> Option<Vec<Agent>> {
    #[derive(Deserialize)]
    struct Answer {
        agents: Vec<Told>,
    }
    #[derive(Deserialize)]
    struct Told {
        agent: String,
        role: Option<String>,
        cli: Option<String>,
        status: String,
    }
    let Answer { agents } = serde_json::from_slice(answer).ok()?;
    let agents = agents.into_iter().map(|told| Agent {
        name: told.agent,
        role: told.role,
        cli: told.cli,
        active: told.status == "active",
        is_worker: false,
    });
    Some(agents.collect())
}

/// Reads which agents are workers that have not ended.
pub fn workers(answer: &[u8]) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Answer {
        workers: Vec<Told>,
    }
    #[derive(Deserialize)]
    struct Told {
        name: String,
        state: String,
    }
    let Answer { workers } = serde_json::from_slice(answer).ok()?;
    let has_ended = |told: &Told| matches!(told.state.as_str(), "ending" | "failed" | "exited");
    let live = workers.into_iter().filter(|told| !has_ended(told));
    Some(live.map(|told| told.name).collect())
}

/// Reads a time.
pub fn moment(text: &str) -> Timestamp {
    let at = DateTime::parse_from_rfc3339(text);
    Timestamp::from_millis(at.map_or(0, |at| at.timestamp_millis()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_read_for_what_is_shown_of_it() {
        let read = |frame: serde_json::Value| event(&frame.to_string());
        let message = json!({"type": "dm.received", "seq": 7, "created_at": "1970-01-01T00:00:01.500Z", "id": "3f2a", "to": "pm",
            "kind": "status", "message": {"agent_name": "dev-b", "text": "done"}});
        let expected = Event::Message(Message {
            id: "3f2a".to_owned(),
            from: "dev-b".to_owned(),
            to: "pm".to_owned(),
            kind: "status".to_owned(),
            body: "done".to_owned(),
            at: Timestamp::from_millis(1_500),
            inbox: None,
        });
        assert_eq!(read(message), Some((Some(7), Some(expected))));
        for (kind, step) in [
            ("delivery.accepted", Step::Waits),
            ("delivery.undone", Step::Waits),
            ("delivery.asked_again", Step::Waits),
            ("delivery.held", Step::Held),
            ("delivery.allowed", Step::Waits),
            ("delivery.dropped", Step::Dropped),
            ("delivery.deferred", Step::Deferred),
            ("delivery.delivered", Step::Delivered),
            ("delivery.expired", Step::Expired),
            ("delivery.failed", Step::Failed),
            ("message.read", Step::Read),
        ] {
            let became = json!({"type": kind, "seq": 8, "message_id": "3f2a", "agent_name": "pm"});
            let (id, agent) = ("3f2a".to_owned(), "pm".to_owned());
            assert_eq!(
                read(became),
                Some((Some(8), Some(Event::Became { id, agent, step })))
            );
        }
        let there = json!({"type": "agent.status.active", "seq": 9, "created_at": "1970-01-01T00:00:00Z", "agent": {"name": "bob"}});
        let (at, text) = (Timestamp::from_millis(0), "bob is there".to_owned());
        assert_eq!(read(there), Some((Some(9), Some(Event::Note { at, text }))));
        let missed = json!({"type": "events.missed", "seq": 3});
        assert_eq!(read(missed), Some((Some(3), Some(Event::Missed))));
        let unknown = json!({"type": "of.another.version", "seq": 4});
        assert_eq!(read(unknown), Some((Some(4), None)));
        assert_eq!(event("no JSON"), None);
    }

    #[test]
    fn what_is_in_an_inbox_waits_there_or_is_held() {
        let told = |id: &str| json!({"id": id, "from": "dev-b", "to": "@everyone", "kind": "free", "body": "one", "ts": "1970-01-01T00:00:01Z"});
        let mut held = told("b");
        held["held"] = "to".into();
        let answer = json!({"messages": [told("a"), held]});
        let expected = [("a", Step::Waits), ("b", Step::Held)].map(|(id, step)| Message {
            id: id.to_owned(),
            from: "dev-b".to_owned(),
            to: "@everyone".to_owned(),
            kind: "free".to_owned(),
            body: "one".to_owned(),
            at: Timestamp::from_millis(1_000),
            inbox: Some(("pm".to_owned(), step)),
        });
        let read = inbox(answer.to_string().as_bytes(), "pm");
        assert_eq!(read.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn agents_are_read_with_what_they_have_said_of_themselves() {
        let answer = json!({"agents": [
            {"agent": "pm", "cli": "codex", "status": "active", "last_contact": "now"},
            {"agent": "web:bob", "role": "tester", "status": "offline", "last_contact": null},
        ]});
        let expected = [
            Agent {
                name: "pm".to_owned(),
                role: None,
                cli: Some("codex".to_owned()),
                active: true,
                is_worker: false,
            },
            Agent {
                name: "web:bob".to_owned(),
                role: Some("tester".to_owned()),
                cli: None,
                active: false,
                is_worker: false,
            },
        ];
        assert_eq!(
            agents(answer.to_string().as_bytes()).as_deref(),
            Some(&expected[..])
        );
    }

    #[test]
    fn workers_are_those_that_have_not_ended() {
        let states = ["starting", "started", "ready", "ending", "failed", "exited"];
        let list: Vec<_> = states
            .iter()
            .map(|state| json!({"name": state, "state": state}))
            .collect();
        let live = workers(json!({"workers": list}).to_string().as_bytes());
        let expected = ["starting", "started", "ready"].map(str::to_owned);
        assert_eq!(live.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn a_trace_says_how_far_a_message_has_come_for_each_recipient() {
        let steps = json!({"id": "3f2a", "steps": [
            {"agent": "pm", "step": "queued"}, {"agent": "bob", "step": "queued"}, {"agent": "pm", "step": "handed_over"},
            {"agent": "pm", "step": "marked_read"}, {"agent": "bob", "step": "handed_over"}, {"agent": "bob", "step": "undone"},
            {"agent": "tom", "step": "queued"}, {"agent": "tom", "step": "read"},
            {"agent": "ann", "step": "delivered"}, {"agent": "ann", "step": "asked_again"},
        ]});
        let traced = Traced::of(steps.to_string().as_bytes(), String::new()).expect("a trace");
        let expected = [
            ("ann", Step::Waits),
            ("bob", Step::Waits),
            ("pm", Step::HandedOver),
            ("tom", Step::HandedOver),
        ];
        assert_eq!(
            traced.steps,
            expected.map(|(agent, step)| (agent.to_owned(), step)).into()
        );
    }

    #[test]
    fn each_step_of_a_trace_says_how_far_a_delivery_has_come_or_nothing() {
        for (step, expected) in [
            ("queued", Some(Step::Waits)),
            ("undone", Some(Step::Waits)),
            ("asked_again", Some(Step::Waits)),
            ("allowed", Some(Step::Waits)),
            ("held", Some(Step::Held)),
            ("dropped", Some(Step::Dropped)),
            ("deferred", Some(Step::Deferred)),
            ("handed_over", Some(Step::HandedOver)),
            ("read", Some(Step::HandedOver)),
            ("receipt_awaited", Some(Step::HandedOver)),
            ("delivered", Some(Step::Delivered)),
            ("receipted", Some(Step::Delivered)),
            ("expired", Some(Step::Expired)),
            ("failed", Some(Step::Failed)),
            ("given_up", Some(Step::Failed)),
            ("push_failed", None),
            ("marked_read", None),
            ("mode_of_agent", None),
        ] {
            assert_eq!(Step::of_trace(step), expected, "{step}");
        }
        let handed_on = json!({"type": "delivery.handed_on", "seq": 8, "message_id": "3f2a", "agent_name": "pm", "handed_on_by": "w1"});
        let expected = Event::HandedOn {
            id: "3f2a".to_owned(),
            from: "w1".to_owned(),
            to: "pm".to_owned(),
        };
        assert_eq!(event(&handed_on.to_string()), Some((Some(8), Some(expected))));
        let steps = json!({"steps": [
            {"agent": "w1", "step": "queued", "from": "dev-a"}, {"agent": "dev-b", "step": "queued", "from": "dev-a"},
            {"agent": "pm", "step": "handed_on", "from": "w1"}, {"agent": "dev-c", "step": "held"},
            {"agent": "dev-c", "step": "handed_on", "from": "w2"}, {"agent": "dev-d", "step": "delivered"},
            {"agent": "dev-d", "step": "handed_on", "from": "w2"},
        ]});
        let traced = Traced::of(steps.to_string().as_bytes(), String::new()).expect("a trace");
        let expected = [
            ("dev-b", Step::Waits),
            ("dev-c", Step::Held),
            ("dev-d", Step::Waits),
            ("pm", Step::Waits),
            ("w1", Step::HandedOn),
            ("w2", Step::HandedOn),
        ];
        let expected = expected.map(|(agent, step)| (agent.to_owned(), step));
        assert_eq!(traced.steps, expected.into());
    }
}

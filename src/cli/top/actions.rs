//! What the person wants done: which door of the relay is asked for it and how, and what is said of what comes of it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::messages::with_local_times;
use super::state::Draft;

/// Something that the person wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A message is to be sent. What was written is kept until the relay has it.
    Send(Draft),
    /// What an agent gets and sends is to be held, or all messages.
    Hold(Option<String>),
    /// That is to be held no more.
    Lift(Option<String>),
    /// A message that is held is to pass.
    Allow(String),
    /// One is to come to nobody for whom it is held.
    Drop(String),
    /// A worker is to end.
    Release(String),
}

impl Action {
    /// Returns the path that is asked.
    pub fn path(&self) -> &'static str {
        match self {
            Self::Send(_) => "/api/send",
            Self::Hold(_) => "/api/hold",
            Self::Lift(_) | Self::Allow(_) => "/api/allow",
            Self::Drop(_) => "/api/drop",
            Self::Release(_) => "/api/release",
        }
    }

    /// Returns what is asked there.
    pub fn body(&self) -> Value {
        match self {
            Self::Send(draft) => json!({
                "to": draft.to.text().trim(),
                "kind": draft.kind.as_str(),
                "body": draft.body.text(),
            }),
            Self::Hold(Some(agent)) | Self::Lift(Some(agent)) => json!({"agent": agent}),
            Self::Hold(None) | Self::Lift(None) => json!({"all": true}),
            Self::Allow(message) | Self::Drop(message) => json!({"message": message}),
            Self::Release(name) => json!({"name": name}),
        }
    }

    /// Says that it is under way.
    pub fn begun(&self) -> String {
        match self {
            Self::Send(draft) => format!("sending to {} …", draft.to.text().trim()),
            Self::Hold(_) | Self::Lift(_) | Self::Allow(_) | Self::Drop(_) | Self::Release(_) => {
                "asking relay …".to_owned()
            }
        }
    }

    /// Says what came of it.
    pub fn done(&self, answer: &[u8]) -> String {
        /// What the relay answers to a message.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Sent {
            id: String,
            /// Why the message may wait for long, if it may.
            note: Option<String>,
        }
        /// What it answers to the others: how many deliveries, or which message, and to whom.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Held {
            deliveries: u64,
            id: String,
            agents: Vec<String>,
        }
        let held = || serde_json::from_slice::<Held>(answer).unwrap_or_default();
        let whom = |agent: &Option<String>| match agent {
            Some(agent) => format!("what {agent} gets and sends is"),
            None => "all messages are".to_owned(),
        };
        let counted = |one: &str, several: &str| match held().deliveries {
            0 => String::new(),
            1 => format!("; 1 delivery {one}"),
            deliveries => format!("; {deliveries} deliveries {several}"),
        };
        let short = |id: &str| id.chars().take(8).collect::<String>();
        match self {
            Self::Hold(agent) => format!("{} held{}", whom(agent), counted("is", "are")),
            Self::Lift(agent) => format!("{} held no more{}", whom(agent), counted("passes", "pass")),
            Self::Allow(_) => {
                let Held { id, agents, .. } = held();
                format!("{} passes to {}", short(&id), agents.join(", "))
            }
            Self::Drop(_) => {
                let Held { id, agents, .. } = held();
                format!(
                    "{} is dropped, and will not come to {}",
                    short(&id),
                    agents.join(", ")
                )
            }
            Self::Release(name) => format!("{name} released"),
            Self::Send(draft) => {
                let Sent { id, note } = serde_json::from_slice(answer).unwrap_or_default();
                let to = draft.to.text().trim();
                let id: String = id.chars().take(8).collect();
                match note {
                    Some(note) => format!("sent to {to} ({id}); {}", with_local_times(&note)),
                    None => format!("sent to {to} ({id})"),
                }
            }
        }
    }
}

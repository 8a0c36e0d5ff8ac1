//! What the person wants done: which door of the relay is asked for it and how, and what is said of what comes of it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::state::Draft;

/// Something that the person wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A message is to be sent. What was written is kept until the relay has it.
    Send(Draft),
}

impl Action {
    /// Returns the path that is asked.
    pub fn path(&self) -> &'static str {
        match self {
            Self::Send(_) => "/api/send",
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
        }
    }

    /// Says that it is under way.
    pub fn begun(&self) -> String {
        match self {
            Self::Send(draft) => format!("sending to {} …", draft.to.text().trim()),
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
        match self {
            Self::Send(draft) => {
                let Sent { id, note } = serde_json::from_slice(answer).unwrap_or_default();
                let to = draft.to.text().trim();
                let id: String = id.chars().take(8).collect();
                match note {
                    Some(note) => format!("sent to {to} ({id}); {note}"),
                    None => format!("sent to {to} ({id})"),
                }
            }
        }
    }
}

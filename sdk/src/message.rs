//! What is delivered, and why.

use std::time::SystemTime;

use serde_json::Value;

/// A message as its recipient gets it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RelayMessage {
    /// Its id.
    pub id: String,
    /// Who sent it. In an answer to another project's agent, `project:name`.
    pub from: String,
    /// The channel that it was sent to, without `#`; none if it was not sent to a channel.
    pub channel: Option<String>,
    /// The thread that it belongs to, if it belongs to one.
    pub thread: Option<String>,
    /// The text.
    pub text: String,
    /// What else its sender gave; null if nothing.
    pub metadata: Value,
    /// When it was accepted, as relay writes it (RFC 3339).
    pub created_at: String,
}

/// When a message is to be shown to the session. relay asks for [`DeliveryMode::NextMessage`] today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeliveryMode {
    /// Now, even if that interrupts.
    Immediate,
    /// Before the next message of a user.
    NextMessage,
    /// Before the next call of a tool.
    NextToolCall,
    /// Once the session is idle.
    OnIdle,
    /// Once somebody asks for what is held.
    Manual,
}

/// Why an agent gets a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It was sent to a channel, a role, a group or everyone.
    Message,
    /// It was sent to that agent alone.
    Dm,
    /// It answers another one.
    ThreadReply,
}

/// Why the message is there, and how it came.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageContext {
    /// The delivery's id, which is also the key by which it is recognised when it comes again.
    pub id: String,
    /// When to show it.
    pub mode: DeliveryMode,
    /// Why it came.
    pub reason: Reason,
    /// It may have been seen before: a hand-over of it was undone.
    pub redelivered: bool,
    /// How often the target has failed with it before, by an error.
    pub attempts: u32,
}

/// Writes a moment as relay reads it.
pub(crate) fn written(at: SystemTime) -> String {
    let at = chrono::DateTime::<chrono::Utc>::from(at);
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

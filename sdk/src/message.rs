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

/// When a message is to be shown to the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeliveryMode {
    /// Now, even if that interrupts.
    #[default]
    Immediate,
    /// Before the next message of a user.
    NextMessage,
    /// Before the next call of a tool.
    NextToolCall,
    /// Once the session is idle.
    OnIdle,
    /// Once the agent asks for what is held: by [`crate::Agent::flush`], or by reading with a tool.
    Manual,
}

impl DeliveryMode {
    const ALL: [Self; 5] = [
        Self::Immediate,
        Self::NextMessage,
        Self::NextToolCall,
        Self::OnIdle,
        Self::Manual,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::NextMessage => "next-message",
            Self::NextToolCall => "next-tool-call",
            Self::OnIdle => "on-idle",
            Self::Manual => "manual",
        }
    }
}

/// How urgent a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// As most are.
    #[default]
    Normal,
    /// More than that. It comes in its order all the same.
    Urgent,
}

/// How a message is to be brought to whoever gets it. The default is that of a message of which its sender says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handling {
    /// When it is to be shown.
    pub mode: DeliveryMode,
    /// How urgent it is.
    pub priority: Priority,
    /// From when on nobody is to be handed it, to the millisecond; relay refuses one that is over.
    pub deadline: Option<SystemTime>,
}

impl Handling {
    /// Says it in a post.
    pub(crate) fn write(&self, post: &mut Value) {
        let Self {
            mode,
            priority,
            deadline,
        } = *self;
        if mode != DeliveryMode::default() {
            post["mode"] = mode.word().into();
        }
        if priority == Priority::Urgent {
            post["priority"] = "urgent".into();
        }
        if let Some(deadline) = deadline {
            post["deadline"] = written(deadline).into();
        }
    }

    /// Reads it from what relay adds to a frame, which has it whole only where it says more than the mode on the wire.
    pub(crate) fn read(frame: &Value, added: &Value) -> Self {
        let said = &added["handling"];
        let mut known = DeliveryMode::ALL.into_iter();
        let named = |mode: &DeliveryMode| said["mode"] == mode.word();
        let mode = known.find(named).unwrap_or(match frame["mode"].as_str() {
            Some("steer") => DeliveryMode::NextToolCall,
            _ => DeliveryMode::Immediate,
        });
        let deadline = said["deadline"].as_str();
        let deadline = deadline.and_then(|at| chrono::DateTime::parse_from_rfc3339(at).ok());
        Self {
            mode,
            priority: match said["priority"] == "urgent" {
                true => Priority::Urgent,
                false => Priority::Normal,
            },
            deadline: deadline.map(SystemTime::from),
        }
    }
}

/// Why an agent gets a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It was sent to a channel, a role, a group or everyone.
    Message,
    /// It was sent to that agent alone.
    Dm,
    /// It was sent to a channel, a role, a group or everyone, and names the agent (`@name`).
    Mention,
    /// It answers another one.
    ThreadReply,
    /// It says what an action ended with that the agent has asked for.
    ActionResult,
    /// Relay itself tells something: what became of a worker, say.
    Notification,
}

impl Reason {
    /// Reads it from what relay adds to a delivery, which has it where its kind does not say it.
    pub(crate) fn read(kind: &str, added: &Value) -> Self {
        match added["reason"].as_str() {
            Some("dm") => Self::Dm,
            Some("mention") => Self::Mention,
            Some("thread-reply") => Self::ThreadReply,
            Some("action-result") => Self::ActionResult,
            Some("notification") => Self::Notification,
            Some(_) => Self::Message,
            None => match kind {
                "dm.received" => Self::Dm,
                "thread.reply" => Self::ThreadReply,
                _ => Self::Message,
            },
        }
    }
}

/// Why the message is there, and how it came.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageContext {
    /// The delivery's id, which is also the key by which it is recognised when it comes again.
    pub id: String,
    /// When to show it.
    pub mode: DeliveryMode,
    /// How urgent it is.
    pub priority: Priority,
    /// From when on it was not to be handed to anybody, if its sender said so.
    pub deadline: Option<SystemTime>,
    /// Why it came.
    pub reason: Reason,
    /// The key by which its sender recognises it, if it gave one.
    pub idempotency_key: Option<String>,
    /// What its sender gave with it, as the message has it; null if nothing.
    pub metadata: Value,
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

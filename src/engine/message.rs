//! What is sent, and what of it an inbox keeps.

use std::fmt;
use std::sync::Arc;

use super::handling::{Handling, Mode};
use super::limits::FRAME_BYTES_MAX;
use super::names::{AgentName, MessageId, Recipient, ResolvedBy, Seq};
use super::time::Timestamp;

/// What a message is for: the blocks of the coordination protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Kind {
    /// `## STATUS UPDATE`: a task is done, blocked or ready for review.
    Status,
    /// `## QUESTION`: the sender needs an answer.
    Question,
    /// `## DIRECTIVE`: proceed, hold, rescope, approve.
    Directive,
    /// Anything else.
    Free,
}

impl Kind {
    /// All kinds, in the order in which they are listed to callers.
    pub const ALL: [Self; 4] = [Self::Status, Self::Question, Self::Directive, Self::Free];

    /// Returns the word that stands for the kind on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Question => "question",
            Self::Directive => "directive",
            Self::Free => "free",
        }
    }

    /// Finds the kind for a word from the wire.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message as its sender gave it, with what the engine added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Message {
    /// Drawn on acceptance.
    pub id: MessageId,
    /// Who sent it.
    pub from: AgentName,
    /// Where it was sent.
    pub to: Recipient,
    /// What it is for.
    pub kind: Kind,
    /// The text, as it came.
    pub body: String,
    /// When it was accepted.
    pub ts: Timestamp,
    /// What it belongs to, and how it is to be brought; none if there is nothing to say, as of most.
    pub context: Option<Box<Context>>,
}

/// What a message belongs to, and how it is to be brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Context {
    /// The thread, as its first sender named it, or the id of the message that was first replied to.
    pub thread: Option<String>,
    /// The message that it answers.
    pub reply_to: Option<MessageId>,
    /// What else its sender gave, as JSON: an object.
    pub metadata: Option<String>,
    /// The key by which its sender recognises it, as it gave it with its post.
    pub idempotency_key: Option<Box<str>>,
    /// How many times the senders took turns before it, in its thread or along its replies, since the person last said
    /// something there.
    pub hops: u32,
    /// How it is to be brought to whoever gets it.
    pub handling: Handling,
}

impl Message {
    /// Returns the bytes that the bounds count: those of the body and the metadata.
    pub fn bytes(&self) -> usize {
        let metadata = self
            .context
            .as_ref()
            .and_then(|context| context.metadata.as_ref());
        self.body.len() + metadata.map_or(0, String::len)
    }

    /// Returns no fewer bytes than it takes where a model is shown it, in its frame: there each line has a mark before it, and what could frame
    /// something, or steer a terminal, is written out.
    pub fn framed_bytes(&self) -> usize {
        let written = |c: char| match c {
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => 3,
            '<' | '[' => 2,
            c if c.is_control() => 8,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => 8,
            '\u{e0000}'..='\u{e007f}' => 9,
            c => c.len_utf8(),
        };
        let body = self.body.chars().map(written).sum::<usize>();
        // One name is counted among what frames it.
        let names = match self.to.by() {
            ResolvedBy::List => self.to.bytes_seen_max(),
            ResolvedBy::Name
            | ResolvedBy::Role
            | ResolvedBy::Group
            | ResolvedBy::Channel
            | ResolvedBy::Broadcast => 0,
        };
        FRAME_BYTES_MAX + names + body + self.thread().map_or(0, quoted_bytes)
    }

    /// Returns the thread that it belongs to, if it belongs to one.
    pub fn thread(&self) -> Option<&str> {
        self.context.as_ref()?.thread.as_deref()
    }

    /// Returns what else goes with it, as JSON, if anything does.
    pub fn metadata(&self) -> Option<&str> {
        self.context.as_ref()?.metadata.as_deref()
    }

    /// Returns the key by which its sender recognises it, if it gave one.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.context.as_ref()?.idempotency_key.as_deref()
    }

    /// Returns the message that it is a reply to: the one whose thread it belongs to, or else the one that it answers.
    pub fn answers(&self) -> Option<MessageId> {
        let context = self.context.as_ref()?;
        let thread = context.thread.as_deref().and_then(|thread| thread.parse().ok());
        thread.map(MessageId).or(context.reply_to)
    }

    /// Tells whether it is said in reply to another message.
    pub fn is_reply(&self) -> bool {
        self.answers().is_some()
    }

    /// Returns the names that are in it as `@name` or `@project:name`, whoever has them. What stands right behind another part of a word, or
    /// `\`, is none. A dot behind a name ends the sentence.
    pub fn mentions(&self) -> impl Iterator<Item = &str> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name_at = move |text: &str| {
            let end = text.find(|c| !is_of_name(c) && c != '.').unwrap_or(text.len());
            text[..end].trim_end_matches('.').len()
        };
        let mut before = '\n';
        let mut rest = self.body.as_str();
        std::iter::from_fn(move || {
            loop {
                let (head, tail) = rest.split_once('@')?;
                let last = head.chars().next_back().unwrap_or(before);
                let mut end = name_at(tail);
                if let Some(of_project) = tail[end..].strip_prefix(':').map(name_at)
                    && of_project > 0
                {
                    end += 1 + of_project;
                }
                (before, rest) = ('@', tail);
                if !tail.starts_with([':', '.']) && end > 0 && !is_of_name(last) && last != '\\' {
                    return Some(&tail[..end]);
                }
            }
        })
    }

    /// Tells whether an agent is among them: by its name, or by that with its project.
    pub fn mentions_agent(&self, agent: &AgentName) -> bool {
        self.mentions().any(|name| match name.split_once(':') {
            Some((project, name)) => project == agent.project() && name == agent.local(),
            None => name == agent.local(),
        })
    }

    /// Returns how many times the senders took turns before it.
    pub fn hops(&self) -> u32 {
        self.context.as_ref().map_or(0, |context| context.hops)
    }
}

/// Returns no fewer bytes than a text takes that a frame has in quotes, on one line.
fn quoted_bytes(text: &str) -> usize {
    let written = |c: char| match c {
        '<' | '[' => 3,
        c if c.is_control() => 9,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => 9,
        '\u{e0000}'..='\u{e007f}' => 10,
        c => c.len_utf8().max(c.escape_debug().len()),
    };
    text.chars().map(written).sum()
}

/// One message on its way to one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Delivery {
    /// Its place in the inbox.
    pub seq: Seq,
    /// Shared with the log line and with every reply that shows it.
    pub message: Arc<Message>,
    /// When it is to be shown: as its sender said, or else as its agent had it when it came.
    pub mode: Mode,
    /// True once a hand-over of it was undone: it may have been seen already.
    pub redelivered: bool,
}

//! How a message is to be brought to whoever gets it: when it is to be shown, how urgent it is, and until when it is worth anything.
//!
//! When it is shown is for the program that shows it, which is told the mode; relay hands everything over at once, but for what is held
//! ([`Mode::Manual`]). That waits in its inbox until its agent reads it, or has all that is held sent to its node. What is
//! urgent is told of as such, and keeps its place: the messages of an agent stay in order.
//!
//! A message with a deadline *expires*: from then on nobody is handed it who was not before. What is on its way to somebody, or was deferred, or
//! is a dead letter, expires when it comes back; a number that a connected node waits for is kept.

use std::fmt;

use super::events::Event;
use super::mail::Refusal;
use super::message::{Delivery, Message};
use super::names::{AgentName, Seq, shown};
use super::time::Timestamp;
use super::{Engine, Step};

/// How a message is to be brought to whoever gets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Handling {
    /// When it is to be shown; as its agent has it ([`super::agents::Command::Mode`]) if its sender does not say.
    pub mode: Option<Mode>,
    /// How urgent it is.
    pub priority: Priority,
    /// From when on nobody is to be handed it, if there is such a moment.
    pub deadline: Option<Timestamp>,
}

/// When a message is to be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Mode {
    /// Now.
    #[default]
    Immediate,
    /// With the next message of a user.
    NextMessage,
    /// Before the next call of a tool.
    NextToolCall,
    /// Once the agent is idle.
    OnIdle,
    /// Once somebody asks for it.
    Manual,
}

impl Mode {
    /// All modes, in the order in which they are listed to callers.
    pub const ALL: [Self; 5] = [
        Self::Immediate,
        Self::NextMessage,
        Self::NextToolCall,
        Self::OnIdle,
        Self::Manual,
    ];

    /// The words that stand for them.
    pub const WORDS: [&'static str; Self::ALL.len()] = {
        let mut words = [""; Self::ALL.len()];
        let mut at = 0;
        while at < words.len() {
            words[at] = Self::ALL[at].as_str();
            at += 1;
        }
        words
    };

    /// Returns the word that stands for the mode.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::NextMessage => "next-message",
            Self::NextToolCall => "next-tool-call",
            Self::OnIdle => "on-idle",
            Self::Manual => "manual",
        }
    }

    /// Finds the mode for a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }

    /// The same.
    ///
    /// # Errors
    ///
    /// Says which words there are.
    pub fn named(word: &str) -> Result<Self, String> {
        Self::parse(word).ok_or_else(|| {
            let (word, known) = (shown(word), Self::WORDS.join(", "));
            format!("unknown mode {word:?}; known modes: {known}")
        })
    }
}

/// How urgent a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Priority {
    /// As most are.
    #[default]
    Normal,
    /// More than that.
    Urgent,
}

impl Priority {
    /// All priorities, in the order in which they are listed to callers.
    pub const ALL: [Self; 2] = [Self::Normal, Self::Urgent];

    /// Returns the word that stands for the priority.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Urgent => "urgent",
        }
    }

    /// Finds the priority for a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == word)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Mode> for Handling {
    /// In that mode, and else as most are.
    fn from(mode: Mode) -> Self {
        Some(mode).into()
    }
}

impl From<Option<Mode>> for Handling {
    /// In that mode, or as its agent has it, and else as most are.
    fn from(mode: Option<Mode>) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

impl Handling {
    /// Checks it, as a post brings it.
    pub(super) fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        match self.deadline {
            Some(deadline) if deadline <= now => Err(Refusal::DeadlineOver { deadline, now }),
            Some(_) | None => Ok(()),
        }
    }
}

impl Message {
    /// Returns how it is to be brought to whoever gets it.
    pub fn handling(&self) -> Handling {
        let context = self.context.as_ref();
        context.map_or_else(Handling::default, |context| context.handling)
    }
}

impl Engine {
    /// Has a delivery that is in an inbox expire at its deadline, or at once if that is over.
    pub(super) fn mind_deadline(&mut self, agent: &AgentName, seq: Seq, message: &Message) {
        if let Some(deadline) = message.handling().deadline
            && !self.is_kept_for_node(agent, seq)
        {
            self.timers.expire(deadline, agent.clone(), seq);
        }
    }

    /// Forgets the deadlines of what is in an inbox no more.
    pub(super) fn forget_deadlines(&mut self, agent: &AgentName, deliveries: &[Delivery]) {
        for delivery in deliveries {
            if let Some(deadline) = delivery.message.handling().deadline {
                self.timers.unexpire(deadline, agent.clone(), delivery.seq);
            }
        }
    }

    /// Tells whether a delivery has a number that its node waits for before it takes any later one. A target that is pushed to waits for none.
    pub(super) fn is_kept_for_node(&self, agent: &AgentName, seq: Seq) -> bool {
        let inbox = &self.inboxes[agent];
        let binding = inbox.binding.as_ref();
        binding.is_some_and(|binding| !self.nodes.get(binding.node).pushes) && inbox.has_number(seq)
    }

    /// Takes out of the inboxes what is past its deadline.
    pub(super) fn expire(&mut self, step: &mut Step<'_>) {
        while let Some((deadline, agent, seq)) = self.timers.expired(step.wall) {
            self.gives_up_number(&agent, |sent| sent.seq == seq);
            let delivery = self.inbox_mut(&agent).expire(seq);
            self.timers.unexpire(deadline, agent.clone(), seq);
            self.inbox_changes(&agent, step);
            step.note(Event::Expired { agent, delivery });
        }
    }

    /// Has all that is held in an inbox go to its agent's node, as what is not held does. Returns how much that is.
    pub(super) fn flush(&mut self, agent: &AgentName, step: &mut Step<'_>) -> usize {
        let flushed = self.inbox_mut(agent).flush();
        if flushed > 0 {
            step.wakes(agent.clone());
        }
        flushed
    }
}

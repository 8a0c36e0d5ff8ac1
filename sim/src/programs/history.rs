//! What senders and programs saw, and what the tap did.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use relay::engine::MessageId;
use relay::engine::handling::Mode;
use serde_json::Value;

use super::plan::Key;
use crate::laws::Violation;

/// All of a run, in order.
#[derive(Debug, Default)]
pub struct History {
    /// The lives of the server: from when, and until when if it ended.
    pub boots: Vec<(u64, Option<u64>)>,
    /// What was posted.
    pub posts: BTreeMap<Key, Post>,
    /// What models were shown.
    pub shown: Vec<Showing>,
    /// Exchanges of programs whose answers did not come whole.
    pub unheard: Vec<Unheard>,
    /// When what is held was asked for.
    pub flushes: Vec<Flush>,
    /// What was accepted in the last life of the server, as the tap saw it.
    pub accepted: Vec<Accepted>,
    /// What happened to it, as the tap saw it.
    pub steps: BTreeMap<MessageId, Vec<StepSeen>>,
    /// When what was handed over was, and to whom.
    pub handed: Vec<Handed>,
    /// Who was left asleep when all had been well for long.
    pub asleep: Option<Vec<String>>,
    /// What never came.
    pub missing: Option<Vec<String>>,
    /// What relay says happened to each message, and how many steps of it there were then.
    pub traces: Vec<Trace>,
    /// What the tap found to be wrong.
    pub seen_by_tap: Vec<Violation>,
    /// The run has ended.
    pub is_over: bool,
    /// All of it, line by line.
    pub trace: Vec<String>,
}

/// A post.
#[derive(Debug, Clone)]
pub struct Post {
    /// To which agent.
    pub to: usize,
    /// When it is to be shown, if its sender says that.
    pub mode: Option<Mode>,
    /// How long it is.
    pub bytes: usize,
    /// When it was asked for.
    pub sent_ms: u64,
    /// It was accepted, under that id.
    pub id: Option<String>,
    /// It was refused, in these words.
    pub refused: Option<String>,
}

/// A message, as a model is shown it.
#[derive(Debug, Clone)]
pub struct Showing {
    /// Whose model.
    pub agent: usize,
    /// In which place its program runs.
    pub place: usize,
    /// Which program, of all that were started.
    pub run: u64,
    /// Which turn of it.
    pub turn: u64,
    /// Where.
    pub at: At,
    /// The message.
    pub id: String,
    /// Which one it is, if its text is that of one.
    pub key: Option<Key>,
    /// It is said to have been shown before, maybe.
    pub is_marked: bool,
    /// When it was asked for.
    pub asked_ms: u64,
    /// When.
    pub at_ms: u64,
}

/// Where a model is shown something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// A turn that a person began.
    Said,
    /// A turn that began by itself.
    Begun,
    /// A tool has returned.
    Returned,
    /// A turn has ended, and goes on.
    Ended,
    /// Something else that a hook was told of.
    Elsewhere,
    /// A wake, in the turn that it begins.
    Wake,
    /// A wake, after another turn has begun.
    LateWake,
    /// A tool for reading.
    Tool,
}

/// An exchange whose answer did not come whole.
#[derive(Debug, Clone, Copy)]
pub struct Unheard {
    /// Whose program's.
    pub agent: usize,
    /// When it was asked.
    pub from_ms: u64,
    /// When it was given up.
    pub until_ms: u64,
}

/// What is held was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Flush {
    /// Whose.
    pub agent: usize,
    /// When it was asked.
    pub from_ms: u64,
    /// When it was answered; none if nobody knows when it was carried out.
    pub until_ms: Option<u64>,
}

/// A message that was accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Its id.
    pub id: MessageId,
    /// Which one it is.
    pub key: Key,
    /// To which agent.
    pub agent: usize,
    /// Its place in that inbox.
    pub place: u64,
    /// How it is brought, as its sender has said.
    pub given: Option<Mode>,
    /// The same, or as its agent has it.
    pub mode: Mode,
    /// How long it is.
    pub bytes: usize,
}

/// A step of a delivery: in the words of relay's own trace, if it says them right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSeen {
    /// What happened.
    pub step: &'static str,
    /// How it travels.
    pub over: Option<&'static str>,
    /// What said so.
    pub by: Option<&'static str>,
}

/// A hand-over of a message.
#[derive(Debug, Clone, Copy)]
pub struct Handed {
    /// The message.
    pub id: MessageId,
    /// When.
    pub at_ms: u64,
    /// It was undone, and goes out again.
    pub is_undone: bool,
    /// Which one it is.
    pub handover: u64,
}

/// What relay says of a message.
#[derive(Debug)]
pub struct Trace {
    /// Which one.
    pub id: MessageId,
    /// All of it.
    pub said: Value,
    /// What the tap had seen by then.
    pub seen: Vec<StepSeen>,
    /// When it was asked.
    pub asked_ms: u64,
}

/// What all hosts write into.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<History>>);

impl Log {
    /// The history until now.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.0.lock().expect("a run has one thread")
    }

    /// Adds a line to the trace.
    pub fn trace(&self, at_ms: u64, line: impl std::fmt::Display) {
        self.history().trace.push(format!("{at_ms:>7} {line}"));
    }
}

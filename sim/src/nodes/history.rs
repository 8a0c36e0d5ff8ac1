//! What posters and targets saw, and what the tap did.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::laws::Violation;

/// All of a run, in order.
#[derive(Debug, Default)]
pub struct History {
    /// The lives of the server: from when, and until when if it ended.
    pub boots: Vec<(u64, Option<u64>)>,
    /// What was posted.
    pub posts: Vec<Post>,
    /// What targets got.
    pub shown: Vec<Shown>,
    /// What there was to be told in each life of the server.
    pub told: Vec<Told>,
    /// The run has ended.
    pub is_over: bool,
    /// What observers were told.
    pub observed: Vec<Observed>,
    /// The receipts that programs know relay to have.
    pub receipts: Vec<Given>,
    /// The deliveries whose last receipt relay has, whether a program has lived to hear of that or not.
    pub settled: BTreeSet<String>,
    /// What has expired, by the texts and the agents.
    pub expired: BTreeSet<(String, String)>,
    /// The deliveries that have arrived, as relay says.
    pub arrived: BTreeSet<String>,
    /// What the tap found to be wrong.
    pub seen_by_tap: Vec<Violation>,
    /// All of it, line by line.
    pub trace: Vec<String>,
}

/// A post.
#[derive(Debug, Clone)]
pub struct Post {
    /// Its poster.
    pub poster: usize,
    /// To which node; to the channel of all if there is none.
    pub to: Option<usize>,
    /// Its text.
    pub text: String,
    /// When it was asked for.
    pub sent_ms: u64,
    /// When its answer came.
    pub ended_ms: u64,
    /// It was accepted, refused, or nobody knows.
    pub outcome: Posted,
}

/// What came of a post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// It was accepted.
    Accepted,
    /// It was refused, with these words.
    Refused(String),
    /// Nobody knows.
    Unknown,
}

/// A message, as a target gets it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Whose node's.
    pub node: usize,
    /// Which start of the node's program, of all of them.
    pub process: u64,
    /// Its text.
    pub text: String,
    /// Its delivery.
    pub delivery: String,
    /// It is said to have come before.
    pub redelivered: bool,
    /// How often the target failed with it.
    pub attempts: u32,
    /// When.
    pub at_ms: u64,
}

/// What there was to be told in a life of the server, in order.
#[derive(Debug)]
pub struct Told {
    /// What the numbers of events are counted from.
    pub base: u64,
    /// The events.
    pub events: Vec<String>,
    /// How many of them there were some seconds before the end: what comes after them may still be on its way then.
    pub settled: usize,
}

/// An event, as an observer was told of it.
#[derive(Debug, Clone)]
pub struct Observed {
    /// Who was.
    pub observer: usize,
    /// Its number.
    pub seq: u64,
    /// Which it was.
    pub what: String,
}

/// A receipt that relay is known to have.
#[derive(Debug, Clone)]
pub struct Given {
    /// Whose node's.
    pub node: usize,
    /// The delivery.
    pub delivery: String,
    /// Nothing more is to come of it.
    pub is_final: bool,
    /// When it was known to be there.
    pub at_ms: u64,
}

impl History {
    /// Counts the posts that were accepted.
    pub fn accepted(&self) -> usize {
        let accepted = self.posts.iter().filter(|post| post.outcome == Posted::Accepted);
        accepted.count()
    }
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

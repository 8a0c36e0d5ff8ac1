//! What posters and targets saw, and what the tap did.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

use super::actions::Of;
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
    /// Where nodes for several agents were told that frames go on, and which frames came, in order.
    pub numbered: Vec<Numbered>,
    /// What was asked of actions, and accepted.
    pub invocations: Vec<Invocation>,
    /// What handlers said of it.
    pub said: Vec<SaidOf>,
    /// What its caller saw.
    pub seen: Vec<Seen>,
    /// What was in lists of deliveries.
    pub listed: Vec<Listed>,
    /// What those who list do not want yet.
    pub deferrals: Vec<Deferral>,
    /// The receipts that programs know relay to have.
    pub receipts: Vec<Given>,
    /// The deliveries whose last receipt relay has, whether a program has lived to hear of that or not.
    pub settled: BTreeSet<String>,
    /// What has expired, by the texts and the agents.
    pub expired: BTreeSet<(String, String)>,
    /// What the person held at some time, by the texts and the agents.
    pub held: BTreeSet<(String, String)>,
    /// What it has dropped.
    pub dropped: BTreeSet<(String, String)>,
    /// The deliveries that have arrived, as relay says.
    pub arrived: BTreeSet<String>,
    /// The deliveries whose first push ended with what served their web hook, and of which nothing unmarked has gone out since.
    pub broken_off: BTreeSet<String>,
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

/// Tells whether what is delivered is said to have come before: in the data of a frame, or in that of what is pushed.
pub fn is_redelivered(data: &Value) -> bool {
    let metadata = |of: &Value| of["metadata"]["relay"]["redelivered"] == true;
    metadata(data) || metadata(&data["message"])
}

/// What a node for several agents was told of the numbers of one of them.
#[derive(Debug, Clone, Copy)]
pub struct Numbered {
    /// Over which connection, of all of them.
    pub connection: u64,
    /// The node takes an agent's frames only once it has named it.
    pub names_first: bool,
    /// Which agent.
    pub agent: usize,
    /// What.
    pub step: Step,
    /// When.
    pub at_ms: u64,
}

/// A step in the numbers of an agent's frames.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// The node has named the agent, and its frames go on behind this number.
    Named(u64),
    /// A frame came.
    Frame(u64),
}

/// Something that is asked of an action.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Its id.
    pub id: String,
    /// Whom.
    pub of: Of,
    /// When it was asked for. That it was accepted may have become known much later, by the answer of a server that is gone.
    pub asked_ms: u64,
}

/// What a handler says of it, which may not arrive.
#[derive(Debug, Clone)]
pub struct SaidOf {
    /// Its id.
    pub id: String,
    /// What: no other answer is the same.
    pub result: String,
}

impl SaidOf {
    /// Tells whether it is what an invocation of such a status came to.
    pub fn is_of(&self, status: &str) -> bool {
        match status {
            "completed" => self.result.starts_with("output"),
            _ => self.result.starts_with("error"),
        }
    }
}

/// What a caller sees of what it has asked.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its id.
    pub id: String,
    /// How far it has come.
    pub status: String,
    /// What it came to, or why to nothing, if it has ended.
    pub result: Option<String>,
    /// When.
    pub at_ms: u64,
}

impl Seen {
    /// Reads an answer.
    pub fn read(id: &str, answer: &Value, at_ms: u64) -> Self {
        let text = |field: &str| answer[field].as_str().map(str::to_owned);
        Self {
            id: id.to_owned(),
            status: text("status").unwrap_or_default(),
            result: text("output").or_else(|| text("error")),
            at_ms,
        }
    }
}

/// A delivery that was in a list.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Which one.
    pub delivery: String,
    /// When the list was asked for.
    pub asked_ms: u64,
    /// When it was there.
    pub at_ms: u64,
}

/// A delivery that its agent does not want yet.
#[derive(Debug, Clone)]
pub struct Deferral {
    /// Which one.
    pub delivery: String,
    /// Since when relay is known to know it.
    pub from_ms: u64,
    /// Until when.
    pub until_ms: u64,
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

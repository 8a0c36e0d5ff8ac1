//! What processes, agents and the person did and saw in a run, and what the tap saw relay accept.

use std::sync::{Arc, Mutex, MutexGuard};

use relay::engine::WorkerId;

use crate::client::now_ms;

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// The person.
    Person,
    /// An agent that is no worker.
    Lead(usize),
    /// A process, of all that were started.
    Worker(usize),
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A message is sent.
    Post,
    /// A message is sent, and its answer waited for.
    Ask,
    /// An inbox is read.
    Read,
    /// A worker of that name is asked for.
    Spawn(String),
    /// A worker of that name is released.
    Release(String),
}

/// What came of a call for who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// No answer, or none that was waited for.
    Unknown,
    /// It was done.
    Done,
    /// It was refused, in these words.
    Refused(String),
}

/// A call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Who made it.
    pub by: By,
    /// What was asked.
    pub what: What,
    /// When it was made.
    pub sent_ms: u64,
    /// When it ended; none if who made it was gone before.
    pub ended_ms: Option<u64>,
    /// What came of it.
    pub came: Came,
}

/// A message, as its reader saw it.
#[derive(Debug, Clone)]
pub struct Showing {
    /// Who read it.
    pub to: By,
    /// In whose inbox.
    pub of: String,
    /// Its id; empty where the answer does not tell it.
    pub id: String,
    /// Its text.
    pub body: String,
    /// It is said to have been shown before, maybe.
    pub is_marked: bool,
}

/// A message that relay accepted, as the tap saw it.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Its id.
    pub id: String,
    /// Who has sent it.
    pub from: String,
    /// For whom it is.
    pub to: String,
    /// Its text.
    pub body: String,
    /// When.
    pub at_ms: u64,
    /// In which life of the server.
    pub boot: usize,
    /// The last worker that its sender's name was asked for as by then.
    pub from_worker: Option<Latest>,
    /// The same of its recipient's.
    pub to_worker: Option<Latest>,
}

/// The last worker of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latest {
    /// Which one.
    pub worker: WorkerId,
    /// Its name was gone with it, and is nobody's or another's.
    pub is_gone: bool,
}

/// How a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By itself.
    Itself,
    /// It was told to.
    Told,
    /// Its relay was gone.
    Orphaned,
    /// With its machine.
    Machine,
    /// It was never begun.
    Never,
}

/// A process of a worker.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub parent: String,
    /// Its number in that life of the server.
    pub worker: WorkerId,
    /// In which life it was asked for.
    pub boot: usize,
    /// On which machine it runs.
    pub on: usize,
    /// When it was asked for.
    pub asked_ms: u64,
    /// When it was reported to run.
    pub started_ms: Option<u64>,
    /// When it called relay first.
    pub said_ms: Option<u64>,
    /// When it had its first answer.
    pub heard_ms: Option<u64>,
    /// Each time that it was told to end.
    pub told_ms: Vec<u64>,
    /// When it ended, and how.
    pub ended: Option<(u64, How)>,
    /// When its end was reported.
    pub reported_ms: Option<u64>,
}

/// A life of the server.
#[derive(Debug, Clone, Default)]
pub struct Boot {
    /// When it was asked to end in order.
    pub asked_ms: Option<u64>,
    /// When it had ended in order.
    pub ended_ms: Option<u64>,
    /// When it was killed.
    pub killed_ms: Option<u64>,
}

/// All of a run.
#[derive(Debug, Default)]
pub struct History {
    /// The lives of the server.
    pub boots: Vec<Boot>,
    /// All processes, by their numbers over the run.
    pub processes: Vec<Process>,
    /// All calls, in the order in which they were made.
    pub calls: Vec<Call>,
    /// Who sent what, by the number that its text begins with.
    pub posts: Vec<By>,
    /// All that was read.
    pub shown: Vec<Showing>,
    /// All that was accepted.
    pub accepted: Vec<Accepted>,
    /// From when on the inboxes were read until they were empty.
    pub drained_ms: Option<u64>,
    /// The run has ended.
    pub is_over: bool,
}

impl History {
    /// Returns the name under which somebody calls.
    pub fn name(&self, by: By) -> String {
        match by {
            By::Person => "user".to_owned(),
            By::Lead(number) => lead_name(number),
            By::Worker(number) => self.processes[number].name.clone(),
        }
    }
}

/// Names an agent that is no worker.
pub fn lead_name(number: usize) -> String {
    format!("lead-{number}")
}

/// Reads which post a text is; none if it is relay's own.
pub fn number_of(body: &str) -> Option<usize> {
    body.strip_prefix('m')?.split(' ').next()?.parse().ok()
}

/// What all hosts write into: what happened, and the trace of it.
#[derive(Clone, Default)]
pub struct Log {
    history: Arc<Mutex<History>>,
    /// The trace, and what the clients of sessions note.
    pub sessions: crate::history::Log,
}

impl Log {
    /// The history until now.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("a run has one thread")
    }

    /// Adds a line to the trace.
    pub fn trace(&self, line: impl std::fmt::Display) {
        if !self.history().is_over {
            self.sessions.trace(now_ms(), line);
        }
    }

    /// Changes a process.
    pub fn process<T>(&self, number: usize, change: impl FnOnce(&mut Process) -> T) -> T {
        change(&mut self.history().processes[number])
    }

    /// Notes a call that is made. Returns its place.
    pub fn calls(&self, by: By, what: What) -> usize {
        let mut history = self.history();
        history.calls.push(Call {
            by,
            what,
            sent_ms: now_ms(),
            ended_ms: None,
            came: Came::Unknown,
        });
        if let By::Worker(number) = by {
            history.processes[number].said_ms.get_or_insert(now_ms());
        }
        let place = history.calls.len() - 1;
        let line = format!("call {place} of {by:?}: {:?}", history.calls[place].what);
        drop(history);
        self.trace(line);
        place
    }

    /// Notes what came of a call.
    pub fn came(&self, place: usize, came: Came) {
        let mut history = self.history();
        if let (By::Worker(number), true) = (history.calls[place].by, came == Came::Done) {
            history.processes[number].heard_ms.get_or_insert(now_ms());
        }
        let call = &mut history.calls[place];
        (call.ended_ms, call.came) = (Some(now_ms()), came);
        let line = format!("call {place} of {:?}: {:?}", call.by, call.came);
        drop(history);
        self.trace(line);
    }

    /// Notes what was read.
    pub fn shown(&self, showing: Showing) {
        self.trace(format_args!("{showing:?}"));
        self.history().shown.push(showing);
    }

    /// Makes the text of a message that nobody else writes.
    pub fn writes(&self, by: By) -> String {
        let mut history = self.history();
        history.posts.push(by);
        format!("m{} of {by:?}", history.posts.len() - 1)
    }
}

//! Workers: agents for which the relay has a process started, and ended. What is asked about them is carried out in [`calls`]; how one goes
//! on from there is in [`lives`], and what becomes of what it has not read in [`handing_on`]; what must hold of them is in [`laws`].
//!
//! - A worker is an agent with a parent, which is told what becomes of it. It takes its name as a new generation: whatever session had that
//!   name before is fenced.
//! - At most one worker of a name lives. What is neither the name of a worker that has ended nor free is not taken: an agent of the roster, or
//!   one that others have registered, is nobody's worker.
//! - The call that asks for a worker waits until that has started, or has not. The worker goes on if nobody waits for that any more.
//! - Its parent ends it, or one of those above that, or the person.

mod calls;
mod handing_on;
mod laws;
mod lives;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use uuid::Uuid;

use super::io;
#[cfg(doc)]
use super::limits::{LAST_LINES_MAX, REASON_BYTES_MAX, WORKER_SILENT_MS, WORKER_START_MS};
use super::names::{AgentName, CallId, RandomBytes, SessionId, WorkerId};
use super::time::Timestamp;

/// What may be asked about workers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Starts a worker. Answered once it has started, or has not; at the latest after [`WORKER_START_MS`].
    Spawn(Box<Asked>),
    /// Ends a worker. Answered at once.
    Release {
        /// Who asks; may be left out by a bound session and by the person's.
        from: Option<String>,
        /// The worker's name.
        name: String,
        /// Why.
        reason: Option<String>,
    },
    /// Lists the workers that are known: all of them to the person, those of their project to others.
    List,
}

/// A worker as it is asked for. Nothing of it is checked yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Asked {
    /// Whose worker it is to be; may be left out by a bound session and by the person's.
    pub from: Option<String>,
    /// Its name: in its parent's project; the person may name another one before it, as in `web:tester`.
    pub name: String,
    /// Which agent CLI it is to be.
    pub cli: String,
    /// What it is to do.
    pub task: String,
    /// The model that it is to have; that of the CLI if it is left out.
    pub model: Option<String>,
    /// Where it is to work; where whoever starts it sees fit, if it is left out.
    pub cwd: Option<String>,
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Workers(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It has started.
    Spawned {
        /// Its name.
        agent: AgentName,
        /// Whose it is.
        parent: AgentName,
        /// Its number.
        worker: WorkerId,
    },
    /// It ends.
    Released {
        /// Its name.
        agent: AgentName,
        /// Whose it is.
        parent: AgentName,
        /// Its number.
        worker: WorkerId,
    },
    /// All that live, and those that have ended and whose agents are still there, in the order of their names.
    Listed(Vec<WorkerView>),
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Workers(reply)
    }
}

/// A worker as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    /// Its number.
    pub worker: WorkerId,
    /// Its name.
    pub agent: AgentName,
    /// Whose it is.
    pub parent: AgentName,
    /// Which agent CLI it is.
    pub cli: Option<String>,
    /// When it was asked for.
    pub spawned_at: Timestamp,
    /// How far it has come.
    pub state: WorkerState,
}

/// How far a worker has come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum WorkerState {
    /// It is being started.
    Starting,
    /// It has started, and not spoken to the relay yet.
    Started,
    /// It has spoken.
    Ready,
    /// It is being ended.
    Ending,
    /// It was not started.
    Failed {
        /// Why.
        reason: String,
    },
    /// It has ended.
    Exited {
        /// How.
        status: ExitStatus,
    },
}

impl WorkerState {
    /// Returns the word that stands for it on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Started => "started",
            Self::Ready => "ready",
            Self::Ending => "ending",
            Self::Failed { .. } => "failed",
            Self::Exited { .. } => "exited",
        }
    }
}

/// A worker as it is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Start {
    /// Its number, by which all that becomes of it is reported.
    pub worker: WorkerId,
    /// Its name.
    pub agent: AgentName,
    /// The instance that its sessions are of, unless they have a later one of their own: none of an earlier worker has it.
    pub instance: Uuid,
    /// Whose it is.
    pub parent: AgentName,
    /// Which agent CLI it is to be: one line of text.
    pub cli: String,
    /// What it is to do.
    pub task: String,
    /// The model that it is to have, if one was named: one line of text.
    pub model: Option<String>,
    /// Where it is to work, if that was said: one line of text.
    pub cwd: Option<String>,
    /// Where its parent works, as far as that has said it.
    pub parent_cwd: Option<String>,
}

/// What happens to the process of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Happened {
    /// It runs.
    Started,
    /// It does not, and will not.
    FailedToStart {
        /// Why: a line of text, of which no more is kept than [`REASON_BYTES_MAX`].
        reason: String,
    },
    /// It has ended, and nothing of it runs any more.
    Exited {
        /// How.
        status: ExitStatus,
        /// What it has written last, of which no more is kept than [`LAST_LINES_MAX`] lines.
        last_lines: String,
    },
}

/// How a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ExitStatus {
    /// By itself, with that code.
    Code(i32),
    /// By that signal.
    Signal(i32),
    /// Nobody saw how.
    Unseen,
}

/// As it is said of a process that has ended so: `exit code 1`.
impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unseen => f.write_str("nobody saw how"),
        }
    }
}

/// What has become of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Its number.
    pub worker: WorkerId,
    /// Its name.
    pub agent: AgentName,
    /// Whose it is.
    pub parent: AgentName,
    /// What.
    pub became: Became,
    /// A message that says so is in its parent's inbox.
    pub told: bool,
}

/// What becomes of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Became {
    /// It was asked for, and is being started.
    Asked {
        /// Which agent CLI it is to be.
        cli: String,
    },
    /// It runs.
    Started,
    /// It has spoken to the relay for the first time.
    Ready,
    /// It has not started within [`WORKER_START_MS`], and is to end.
    Late,
    /// It was started, and has said nothing for [`WORKER_SILENT_MS`].
    Silent,
    /// It was not started, which is its end.
    Failed {
        /// Why.
        reason: String,
    },
    /// It is to end.
    Released {
        /// Who has asked for that.
        by: AgentName,
        /// Why.
        reason: Option<String>,
    },
    /// It has ended.
    Exited {
        /// How.
        status: ExitStatus,
        /// What it has written last.
        last_lines: String,
        /// It had been told to.
        expected: bool,
    },
}

impl Became {
    /// Returns the word that stands for it on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Asked { .. } => "asked",
            Self::Started => "started",
            Self::Ready => "ready",
            Self::Late => "late",
            Self::Silent => "silent",
            Self::Failed { .. } => "failed",
            Self::Released { .. } => "released",
            Self::Exited { .. } => "exited",
        }
    }
}

/// Why a [`Command`] was not carried out. Nothing was changed by it, but where it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// This relay starts no workers.
    Off,
    /// The name is the person's.
    ThePersons {
        /// As given, cut if it is long.
        given: String,
    },
    /// The name is that of an agent which is nobody's worker.
    NotAWorker {
        /// Its name.
        agent: AgentName,
    },
    /// The worker of that name lives.
    Lives {
        /// Its name.
        agent: AgentName,
        /// Whose it is.
        parent: AgentName,
        /// It has been told to end, and has not yet.
        is_ending: bool,
    },
    /// As many workers live as may.
    TooMany {
        /// How many live.
        workers: usize,
    },
    /// Workers have started workers as often as they may.
    TooDeep {
        /// How often.
        depth: usize,
    },
    /// A text is empty that says what is to be done.
    Empty {
        /// Which one.
        what: &'static str,
    },
    /// A text is longer than it may be.
    TooLong {
        /// Which one.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// A text is not one line.
    NotALine {
        /// Which one.
        what: &'static str,
        /// As given, cut if it is long.
        given: String,
    },
    /// An agent has named another project than its own.
    OtherProject {
        /// As given, cut if it is long.
        given: String,
        /// The agent's own.
        own: String,
    },
    /// It was not started. That it was asked for is not undone by it: its agent is there.
    Failed {
        /// Why.
        reason: String,
    },
    /// There is no such worker.
    Unknown {
        /// As given, cut if it is long.
        given: String,
        /// The names of those that live, as they are seen from where it was asked.
        known: Vec<String>,
    },
    /// It has ended already.
    Ended {
        /// Its name.
        agent: AgentName,
    },
    /// It is not for this agent to end it.
    NotYours {
        /// Its name.
        agent: AgentName,
        /// Whose it is.
        parent: AgentName,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::Off => io::Class::Unsupported,
            Self::NotAWorker { .. } | Self::Lives { .. } | Self::Ended { .. } | Self::Failed { .. } => {
                io::Class::Conflict
            }
            Self::TooMany { .. } => io::Class::Full,
            Self::Unknown { .. } => io::Class::Unknown,
            Self::ThePersons { .. }
            | Self::TooDeep { .. }
            | Self::Empty { .. }
            | Self::TooLong { .. }
            | Self::NotALine { .. }
            | Self::OtherProject { .. }
            | Self::NotYours { .. } => io::Class::Bad,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Workers(refusal)
    }
}

/// All workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Workers {
    /// Those that live.
    pub all: BTreeMap<WorkerId, Worker>,
    /// The last worker of each agent that is, or was, one and is still there.
    pub last: BTreeMap<AgentName, Last>,
    /// Those of them that were released, or have never run, and may have something unread that is handed on.
    pub leaving: BTreeSet<AgentName>,
    /// How many there were: the number of the last one.
    pub made: u64,
}

/// A worker that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Worker {
    pub agent: AgentName,
    pub stage: Stage,
}

/// What is known of the last worker of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Last {
    pub worker: WorkerId,
    /// Its parent first, then that one's, as it was when the worker was asked for. The last one is nobody's worker.
    pub above: Vec<AgentName>,
    pub spawned_at: Timestamp,
    /// Its name was nobody's before, or that of one of which nothing was to stay, and it has not run.
    pub leaves_nothing: bool,
    /// What the one before has not read was to be handed on, and it has not run.
    pub hands_on: bool,
    /// Somebody has asked for its end.
    pub is_released: bool,
    /// How it has ended, if it has.
    pub ended: Option<WorkerState>,
    /// Of which the ids of the messages about it are made.
    pub random: RandomBytes,
    /// How many messages there were about it.
    pub news: u32,
}

impl Last {
    pub fn parent(&self) -> &AgentName {
        self.above.first().expect("a worker has a parent")
    }
}

/// How far a worker that lives has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Stage {
    Starting {
        /// The call that waits for it, if one still does, and its session.
        call: Option<(CallId, SessionId)>,
        /// When it has taken too long.
        until: Timestamp,
        /// It has spoken before it was said to run.
        spoke: bool,
    },
    Runs {
        spoke: bool,
        /// When its parent is told that it says nothing; none if it has spoken, or that was told.
        until: Option<Timestamp>,
    },
    Ending,
}

impl From<Stage> for WorkerState {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Starting { .. } => Self::Starting,
            Stage::Runs { spoke: false, .. } => Self::Started,
            Stage::Runs { spoke: true, .. } => Self::Ready,
            Stage::Ending => Self::Ending,
        }
    }
}

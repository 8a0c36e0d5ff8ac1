//! What relay and a supervisor say to each other: a line of JSON each.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Files;

/// How many files a program may have open at a time, as `ulimit -n` says it; none if as many as the system does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFiles(pub Option<u64>);

/// What is to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What relay calls the CLI, as errors and the configuration name it.
    pub cli: String,
    /// The program, by name or path, and its arguments.
    pub argv: Vec<String>,
    /// What is other in its environment than in relay's own; a variable without a value is taken out.
    pub env: BTreeMap<String, Option<String>>,
    /// Where it works: a directory that is there.
    #[serde(with = "super::path")]
    pub cwd: PathBuf,
    /// Where its log and its socket are.
    pub files: Files,
    /// It is given a terminal. Without one it reads nothing, and writes into a pipe.
    pub in_terminal: bool,
    /// How many files it may have open; as many as the supervisor, if that is not said.
    #[serde(default)]
    pub open_files: Option<OpenFiles>,
    /// How many rows its terminal has until somebody is attached, at least 1.
    pub rows: u16,
    /// How many columns.
    pub cols: u16,
}

/// What a supervisor is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Told {
    /// Start this; the first line.
    Start(Box<Order>),
    /// End it.
    End,
}

/// What a supervisor tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Report {
    /// The program runs.
    Started {
        /// Its process.
        pid: i32,
    },
    /// It could not be started, and nothing of it is left.
    Failed {
        /// Why, and what to do.
        reason: String,
    },
    /// It has ended, and with it all that it has started.
    Exited {
        /// How the program ended.
        status: Status,
        /// The last lines that its terminal showed, without what steers a terminal.
        last_lines: Vec<String>,
    },
    /// Something goes on without what it should have.
    Trouble {
        /// What, and why.
        reason: String,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// As a sentence goes on behind "it has ended with": `exit code 1`, `signal 9`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

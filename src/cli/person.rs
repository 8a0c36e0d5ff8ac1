//! Whether it is the person who calls a command that is theirs. This guards against accidents, not against malice.

use std::ffi::OsString;
use std::fs::File;

use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

use crate::process::cli;

/// What agent CLIs set in the shell that they give to their model; and what relay sets for its workers.
const VARIABLES: [&str; 5] = [
    "CLAUDECODE",
    "CODEX_THREAD_ID",
    "GEMINI_CLI",
    "OPENCODE",
    "RELAY_PARENT",
];

/// The programs of agents, as they are called. An editor is none, whose agents have a terminal as its person has.
const PROGRAMS: [&str; 10] = [
    "aider",
    "amp",
    "claude",
    "codex",
    "copilot",
    "cursor-agent",
    "droid",
    "gemini",
    "opencode",
    "qwen",
];

/// By which a script without a terminal says that it is the person's.
const IS_PERSON: &str = "RELAY_PERSON";

/// Most processes that are looked at, one above the other.
const ANCESTORS_MAX: usize = 64;

/// Why a command is not the person's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotThePerson {
    /// An agent's program has set this variable.
    #[error("this is an agent's own shell ({0} is set)")]
    Variable(&'static str),
    /// An agent's program has started it, or what has started it.
    #[error("this is an agent's own shell (process {pid} above it is {program})")]
    Below {
        /// Which one, of [`PROGRAMS`].
        program: &'static str,
        /// Its process.
        pid: u32,
    },
    /// Nobody sits there.
    #[error("this runs without a terminal (what a script of yours sets is in docs/COMMANDS.md)")]
    NoTerminal,
}

/// Refuses what is the person's, unless a person sits there or a script of theirs says that it is one.
///
/// # Errors
///
/// Why it is not the person.
pub fn require_person() -> Result<(), NotThePerson> {
    require_no_agent()?;
    // Whoever the input and the output are: a script may be piped into, by somebody who sits there.
    if is_persons_script() || File::open("/dev/tty").is_ok() {
        return Ok(());
    }
    Err(NotThePerson::NoTerminal)
}

/// Refuses what is no agent's.
///
/// # Errors
///
/// Why it is an agent who calls.
pub fn require_no_agent() -> Result<(), NotThePerson> {
    let set = |variable: &&str| std::env::var_os(variable).is_some();
    if let Some(variable) = VARIABLES.into_iter().find(set) {
        return Err(NotThePerson::Variable(variable));
    }
    if is_persons_script() {
        return Ok(());
    }
    match agent_above() {
        Some((program, pid)) => Err(NotThePerson::Below { program, pid }),
        None => Ok(()),
    }
}

fn is_persons_script() -> bool {
    std::env::var_os(IS_PERSON).is_some_and(|value| value == "1")
}

/// Finds an agent's program among the processes above this one.
fn agent_above() -> Option<(&'static str, u32)> {
    let mut system = System::new();
    let mut pid = sysinfo::get_current_pid().ok()?;
    for _ in 0..ANCESTORS_MAX {
        pid = look_at(&mut system, pid)?.parent()?;
        if let Some(program) = agent(look_at(&mut system, pid)?) {
            return Some((program, pid.as_u32()));
        }
    }
    None
}

fn look_at(system: &mut System, pid: Pid) -> Option<&Process> {
    let what = ProcessRefreshKind::nothing().with_cmd(UpdateKind::OnlyIfNotSet);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
    system.process(pid)
}

/// Returns which agent's program a process is: by its name, or by its command.
fn agent(process: &Process) -> Option<&'static str> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let named = [text(&process.name().to_owned())];
    let command: Vec<String> = process.cmd().iter().map(text).collect();
    cli(&named, &PROGRAMS).or_else(|| cli(&command, &PROGRAMS))
}

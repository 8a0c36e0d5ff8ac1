//! `relay hook`: what the hooks of agent CLIs run. It carries an event to the relay and its answer back, and decides nothing.
//!
//! A program must not suffer from its hook: whatever fails, the exit code says that nothing is wrong. Where no relay answers, nothing
//! is said either.

#![expect(
    clippy::disallowed_methods,
    reason = "a hook is over within a time, whatever keeps its stdin open"
)]

mod codex;
mod detached;
mod event;
mod gemini;
mod latest;
mod tmux;
mod wait;

use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, json};
use tokio::time::timeout;

use self::detached::Waiter;
use self::wait::{is_interactive, settles, stand_by};
use super::client::{At, Client, ClientError};
use super::discover::{discover_here, project_of_agent_here};
use super::install::has_claude_hooks;
use super::messages::{check_stdout, write_stdout};
use super::or_none::OrNone;
use super::project::Project;
use super::{End, Failure, block_on, no_thread, say};
use crate::engine::handling;
use crate::process::{Process, namespace};
use crate::server::hooks;

pub use self::wait::WAKES;

/// How long an event may take in all: its program waits for it. What comes later is not taken, and comes again.
const PATIENCE: Duration = Duration::from_secs(1);

/// `relay hook`.
#[derive(Debug, clap::Args)]
pub struct Hook {
    /// Whose hook it is.
    program: Program,

    /// Stand by until the program is to begin a turn, in place of carrying an event.
    #[arg(value_enum)]
    mode: Option<Mode>,

    /// The agent that the program is.
    #[arg(
        long,
        value_name = "NAME",
        env = "RELAY_AGENT",
        default_value = "",
        hide_default_value = true
    )]
    agent: String,

    /// The project that the agent belongs to, and whose own relay it asks, unless a port, a host or RELAY_SOCKET names another.
    #[arg(long, env = "RELAY_PROJECT", default_value = "", hide_default_value = true)]
    project: OrNone<Project>,

    /// Do nothing where `relay install` has put hooks into the settings of Claude Code, which runs those of its plugins beside them.
    #[arg(long)]
    plugin: bool,

    /// It is a hook that relay has given its worker: with `RELAY_HOOKS=worker` others do nothing, such as those of the worker's project.
    #[arg(long, hide = true)]
    worker: bool,

    /// How the agent is to be brought what its senders say nothing of; as it was, if it is left out.
    #[arg(
        long = "mode",
        id = "brings",
        value_name = "MODE",
        env = "RELAY_MODE",
        default_value = "",
        hide_default_value = true
    )]
    brings: String,

    #[command(flatten)]
    at: At,
}

/// Most characters of what names an agent that are passed on: more than a name has. The environment may say much more than fits into a
/// request.
const AGENT_CHARACTERS_MAX: usize = 1_024;

/// Most bytes of the path of a program's socket: a system takes about a hundred.
const SOCKET_BYTES_MAX: usize = 1_024;

/// The programs whose hooks relay knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
}

/// What a hook does beside carrying an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// It stands by.
    Wait,
}

/// Carries an event, or stands by.
pub fn run(args: &Hook) -> End {
    let carried = std::panic::catch_unwind(AssertUnwindSafe(|| carried(args)));
    // What has panicked has said so.
    carried.unwrap_or(Ok(End::Done)).unwrap_or_else(|failure| {
        say(&failure.text);
        End::Done
    })
}

fn carried(args: &Hook) -> Result<End, Failure> {
    let has_own = std::env::var_os("RELAY_HOOKS").is_some_and(|whose| whose == "worker");
    if args.plugin && has_claude_hooks() || has_own && !args.worker {
        return Ok(End::Done);
    }
    let process = args.program.process();
    match args.mode {
        None => {
            let started = Instant::now();
            match read_event() {
                Ok(event) => {
                    let event = Bytes::from(hooks::slimmed(event));
                    let is_start_of_claude = || args.program == Program::Claude && starts_session(&event);
                    let mut is_wrong = Vec::new();
                    if let Err(reason) = args.mode() {
                        let reason = format!("{reason} (RELAY_MODE, or --mode); the agent's stays as it is");
                        say(&format!("relay hook: {reason}"));
                        is_wrong.push(format!("relay: {reason}"));
                    }
                    let patience = PATIENCE.saturating_sub(started.elapsed());
                    let name = process.as_ref().map(Process::name);
                    let carried = carry(args, name.as_deref(), event.clone());
                    let carried = block_on(async { timeout(patience, carried).await })?;
                    if matches!(carried, Ok(Ok(()))) {
                        match args.program {
                            Program::Claude => {}
                            Program::Codex => codex::follow(&event),
                            Program::Gemini => gemini::follow(&event),
                        }
                    }
                    let done = carried.unwrap_or(Ok(()));
                    if let Err(error) = &done
                        && can_be_mended(error)
                    {
                        is_wrong.push(shows_nothing(args, error));
                    }
                    if !is_wrong.is_empty() && is_start_of_claude() {
                        tell_person(&is_wrong.join("\n"));
                    }
                    tell(done);
                }
                Err(error) => say(&format!("relay hook: cannot read the event from stdin: {error}")),
            }
            Ok(End::Done)
        }
        Some(Mode::Wait) => match (args.program, process) {
            // Elsewhere nobody reads what a waiter says, and the program would not end before it.
            (Program::Claude, Some(process)) if is_interactive() => {
                let settles = read_event().map_or(Duration::ZERO, |event| settles(&event));
                block_on(stand_by(args, &process, settles))
            }
            (Program::Claude, _) => Ok(End::Done),
            (Program::Codex | Program::Gemini, _) => {
                let Some(waiter) = read_event().ok().and_then(|said| Waiter::read(&said)) else {
                    return Ok(End::Done);
                };
                block_on(async {
                    if args.program == Program::Codex {
                        codex::stand_by(waiter, args).await
                    } else {
                        gemini::stand_by(waiter, args).await
                    }
                })
            }
        },
    }
}

/// Reads the event that the program gives its hook. One that is not there in time is not waited for.
fn read_event() -> std::io::Result<Vec<u8>> {
    let (read, whole) = mpsc::channel();
    let reads = move || {
        let event = event::read(std::io::stdin().lock());
        let _nobody_waits = read.send(event);
    };
    std::thread::Builder::new().spawn(reads).map_err(no_thread)?;
    whole.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let reason = format!("no whole event came within {} s", PATIENCE.as_secs());
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, reason))
    })
}

impl Hook {
    /// Connects to the relay that is meant, and finds out which project the agent belongs to there; none where nobody is named, as
    /// `relay mcp` says none then.
    async fn relay(&self) -> Result<(Client, Option<Project>), ClientError> {
        let asked = self.project.0.as_ref();
        let found = discover_here(self.at.named(), asked)?;
        let project = match &*self.agent {
            "" => None,
            _ => project_of_agent_here(asked, &found)?,
        };
        Ok((Client::reach(found, self.at.token()).await?, project))
    }

    /// Returns how the agent is to be brought what its senders say nothing of, if that is said.
    fn mode(&self) -> Result<Option<handling::Mode>, String> {
        let said = Some(self.brings.as_str()).filter(|said| !said.is_empty());
        said.map(handling::Mode::named).transpose()
    }
}

impl Program {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Returns what tells the process of the program from others of it; none if only its events do.
    fn process(self) -> Option<Process> {
        match self {
            Self::Claude => {
                let process = std::env::var_os("CLAUDE_PID")?.into_string().ok()?;
                // What is no number is not one of a process, and may be of any length.
                Process::named(&process).map(|process| Process::of(process.number))
            }
            Self::Codex | Self::Gemini => None,
        }
    }
}

impl Program {
    /// Names the process of the agent CLI whose hook this is, so that what its model was shown is back once that is gone; none if nothing
    /// tells which it is.
    fn cli(self, process: Option<&str>) -> Option<String> {
        match self {
            Self::Claude => process
                .filter(|name| Process::named(name).is_some_and(|process| process.is_certain()))
                .map(str::to_owned)
                .or_else(|| Process::of_cli(&["claude"]).map(|process| process.name())),
            Self::Codex => Process::of_cli(&["codex"]).map(|process| process.name()),
            Self::Gemini => Process::of_cli(&["gemini"]).map(|process| process.name()),
        }
    }
}

/// Says why something was not done, if somebody could do something about it.
fn tell(done: Result<(), ClientError>) {
    if let Err(error) = done
        && can_be_mended(&error)
    {
        say(&format!("relay hook: {error}"));
    }
}

/// Tells whether somebody could do something about it: not where no relay answers, which may be as it is meant to be.
fn can_be_mended(error: &ClientError) -> bool {
    let says_what_to_do = matches!(
        error,
        ClientError::Unknown(_) | ClientError::Elsewhere { .. } | ClientError::NoPort { .. }
    );
    says_what_to_do || !error.is_away()
}

/// Tells whether an event is that a session starts.
fn starts_session(event: &[u8]) -> bool {
    let event: Result<Value, _> = serde_json::from_slice(event);
    event.is_ok_and(|event| event["hook_event_name"] == "SessionStart")
}

/// Says something to the person, who is not shown what a hook of Claude Code says on stderr when nothing is wrong.
fn tell_person(what: &str) {
    // Where nobody takes it, nobody is told.
    let _ = write_stdout(&json!({"systemMessage": what}).to_string());
}

fn shows_nothing(args: &Hook, error: &ClientError) -> String {
    let advice = if matches!(error, ClientError::Refused { .. }) && !args.agent.is_empty() {
        "; the session's agent is named by RELAY_AGENT, or by --agent in the hook's command, and its project by --project, RELAY_PROJECT or the .relay/config.json that says which relay is asked"
    } else {
        ""
    };
    format!("relay shows this session no messages: {error}{advice}")
}

fn path(args: &Hook, project: Option<&Project>, what: &str, process: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(process) = process {
        query.append_pair("process", process);
    }
    if !args.agent.is_empty() {
        // relay refuses what is far too long for a name, and says so, as long as there is room for the question.
        let agent: String = args.agent.chars().take(AGENT_CHARACTERS_MAX).collect();
        query.append_pair("agent", &agent);
    }
    if let Some(project) = project {
        query.append_pair("project", project.as_str());
    }
    if let Ok(Some(mode)) = args.mode() {
        query.append_pair("mode", mode.as_str());
    }
    if let (Some(cli), Some(namespace)) = (args.program.cli(process), namespace()) {
        query
            .append_pair("cli", &cli)
            .append_pair("namespace", &namespace);
    }
    // A run with `-p` has one too, and would not end before what is said there.
    if args.program == Program::Claude
        && is_interactive()
        && let Some(socket) = std::env::var_os("CLAUDE_CODE_MESSAGING_SOCKET")
        && let Some(socket) = socket
            .to_str()
            .filter(|socket| (1..=SOCKET_BYTES_MAX).contains(&socket.len()))
    {
        query.append_pair("socket", socket);
    }
    format!("/hooks/{}{what}?{}", args.program.as_str(), query.finish())
}

/// Carries an event there and the answer back. What is in that has arrived once stdout has it.
async fn carry(args: &Hook, process: Option<&str>, event: Bytes) -> Result<(), ClientError> {
    let is_seen = check_stdout().is_ok();
    let (mut client, project) = args.relay().await?;
    let path = path(args, project.as_ref(), "", process);
    let answer = client.post(&path, event, Duration::ZERO).await?;
    let text = String::from_utf8_lossy(&answer);
    if text.is_empty() || (is_seen && write_stdout(&text).is_ok()) {
        client.done();
    }
    Ok(())
}

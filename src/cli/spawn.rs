//! `relay spawn`: starts an agent as a worker of the person's, and answers once it runs.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::{At, Client, ClientError};
use super::messages::{json_line, write_stdout};
use super::person::{NotThePerson, require_person};
use super::{End, Failure, block_on, stdin};
use crate::engine::limits::{TASK_BYTES_MAX, WORKER_START_MS};
use crate::terminal::visible;

/// `relay spawn`.
#[derive(Debug, clap::Args)]
pub struct Spawn {
    /// The name of the worker, with its project before it if that is not the default one: web:tester.
    name: String,

    /// Which agent CLI it is to be: claude, codex, gemini, droid or opencode.
    #[arg(long)]
    cli: String,

    /// What it is to do; - takes it from stdin.
    #[arg(long)]
    task: String,

    /// The model that it is to have; without it, that of its CLI.
    #[arg(long)]
    model: Option<String>,

    /// Where it is to work; without it, here.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Print the answer as JSON: {"worker": number, "name": name, "parent": parent}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was started, or it was not said.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A task was to come from stdin, and nobody has put one there.
    #[error("--task - takes the task from stdin, which is a terminal; write it behind --task")]
    NoTask,
    /// stdin could not be read, or is no text.
    #[error("cannot read the task from stdin: {0}")]
    Stdin(io::Error),
    /// stdin has more than a task may have.
    #[error("the task from stdin has more than {TASK_BYTES_MAX} bytes, the most that is accepted")]
    TooLong,
    /// There is no such directory.
    #[error("cannot use --cwd {}: {error}; accepted: a directory that is there", directory.display())]
    Directory {
        /// As it was given, or the one that this is.
        directory: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The name of a directory is no text.
    #[error("--cwd {} is not UTF-8, and goes to relay as text; name it otherwise", .0.display())]
    NoText(PathBuf),
    /// An agent may run it, and its worker would be the person's.
    #[error("{0}, and what is started from here is the person's; use relay_spawn")]
    NotThePerson(NotThePerson),
    /// The relay did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        let text = format!("relay spawn: {error}");
        match error {
            SpawnError::NoTask | SpawnError::NotThePerson(_) => Self::usage(text),
            SpawnError::Stdin(_)
            | SpawnError::TooLong
            | SpawnError::Directory { .. }
            | SpawnError::NoText(_)
            | SpawnError::Client(_) => Self::error(text),
        }
    }
}

/// What the relay answers.
#[derive(Deserialize)]
pub(super) struct Answer {
    /// Whose name it has.
    pub name: String,
}

/// Starts it.
pub fn run(args: &Spawn) -> Result<End, Failure> {
    require_person().map_err(SpawnError::NotThePerson)?;
    let task = match args.task.as_str() {
        "-" => from_stdin()?,
        task => task.to_owned(),
    };
    let directory = args.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
    let directory = match directory.canonicalize() {
        Ok(found) if found.is_dir() => found,
        Ok(_) => {
            let error = io::ErrorKind::NotADirectory.into();
            return Err(SpawnError::Directory { directory, error }.into());
        }
        Err(error) => return Err(SpawnError::Directory { directory, error }.into()),
    };
    let Some(cwd) = directory.to_str() else {
        return Err(SpawnError::NoText(directory).into());
    };
    let asked = json!({
        "name": args.name,
        "cli": args.cli,
        "task": task,
        "model": args.model,
        "cwd": cwd,
    });
    let wait = Duration::from_millis(WORKER_START_MS.unsigned_abs());
    let (answer, Answer { name }) = block_on(async {
        let mut client = Client::find(&args.at).await?;
        let answer = client.ask("/api/spawn", &asked, wait).await?;
        let Ok(told) = serde_json::from_slice::<Answer>(&answer) else {
            return Err(client.not_understood());
        };
        client.done();
        Ok((answer, told))
    })?
    .map_err(SpawnError::Client)?;
    let told = if args.json {
        json_line(&String::from_utf8_lossy(&answer))
    } else {
        let name = visible(&name);
        format!("{name} runs; relay tells you when it is ready: relay read\n")
    };
    // It runs, whoever reads that.
    let _ = write_stdout(&told);
    Ok(End::Done)
}

/// Reads a task, without the space at its end.
fn from_stdin() -> Result<String, SpawnError> {
    if io::stdin().is_terminal() {
        return Err(SpawnError::NoTask);
    }
    let task = stdin::text(TASK_BYTES_MAX).map_err(SpawnError::Stdin)?;
    let task = task.ok_or(SpawnError::TooLong)?;
    let task = task.trim_end();
    if task.len() > TASK_BYTES_MAX {
        return Err(SpawnError::TooLong);
    }
    Ok(task.to_owned())
}

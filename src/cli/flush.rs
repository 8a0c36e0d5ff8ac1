//! `relay flush`: has what is held for an agent brought to it.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::agents::in_agents_shell;
use super::client::{At, Client, ClientError};
use super::messages::write_stdout;
use super::{End, Failure, block_on, say};
use crate::engine::PERSON;

/// `relay flush`.
#[derive(Debug, clap::Args)]
pub struct Flush {
    /// The agent whose held messages are brought to it.
    #[arg(default_value = PERSON)]
    role: String,

    /// Print the answer as JSON: {"flushed": n}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was flushed, or it was not said.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    /// An agent runs it, and what is there is the person's.
    #[error(
        "this is an agent's own shell ({variable} is set), and what is held for user is the person's; name an agent: relay flush ROLE"
    )]
    InAgent {
        /// What says so.
        variable: &'static str,
    },
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<FlushError> for Failure {
    fn from(error: FlushError) -> Self {
        let text = format!("relay flush: {error}");
        match error {
            FlushError::InAgent { .. } => Self::usage(text),
            FlushError::Stdout(_) | FlushError::Client(_) => Self::error(text),
        }
    }
}

/// What the relay answers.
#[derive(Deserialize)]
struct Flushed {
    flushed: u64,
}

/// Flushes.
pub fn run(args: &Flush) -> Result<End, Failure> {
    Ok(block_on(flush(args))?)
}

async fn flush(args: &Flush) -> Result<End, FlushError> {
    if args.role == PERSON
        && let Some(variable) = in_agents_shell()
    {
        return Err(FlushError::InAgent { variable });
    }
    let mut client = Client::find(&args.at).await?;
    let asked = json!({"for": args.role});
    let answer = client.ask("/api/flush", &asked, Duration::ZERO).await?;
    let Ok(Flushed { flushed }) = serde_json::from_slice(&answer) else {
        return Err(client.not_understood().into());
    };
    client.done();
    if args.json {
        write_stdout(&format!("{}\n", String::from_utf8_lossy(&answer)))?;
    } else if flushed > 0 {
        let messages = if flushed == 1 { "message" } else { "messages" };
        write_stdout(&format!("{flushed} {messages} for {} held no more\n", args.role))?;
    }
    if flushed > 0 {
        return Ok(End::Done);
    }
    say(&format!("nothing is held for {}", args.role));
    Ok(End::Nothing)
}

//! `relay mode`: how an agent is brought what its senders say nothing of.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::{At, Client, ClientError};
use super::messages::write_stdout;
use super::{End, Failure, block_on};
use crate::engine::handling::Mode as Brings;

/// `relay mode`.
#[derive(Debug, clap::Args)]
pub struct Mode {
    /// The agent.
    role: String,

    /// How it is brought what its senders say nothing of, from now on; without it, relay tells how it is.
    #[arg(value_parser = Brings::named)]
    mode: Option<Brings>,

    /// Print the answer as JSON: {"mode": mode}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was set, or it was not said.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<ModeError> for Failure {
    fn from(error: ModeError) -> Self {
        Self::error(format!("relay mode: {error}"))
    }
}

/// What the relay answers.
#[derive(Deserialize)]
struct Answer {
    mode: String,
}

/// Sets it, or tells it.
pub fn run(args: &Mode) -> Result<End, Failure> {
    Ok(block_on(ask(args))?)
}

async fn ask(args: &Mode) -> Result<End, ModeError> {
    let mut client = Client::find(&args.at).await?;
    let asked = json!({"for": args.role, "mode": args.mode.map(Brings::as_str)});
    let answer = client.ask("/api/mode", &asked, Duration::ZERO).await?;
    let Ok(Answer { mode }) = serde_json::from_slice(&answer) else {
        return Err(client.not_understood().into());
    };
    client.done();
    if args.json {
        write_stdout(&format!("{}\n", String::from_utf8_lossy(&answer)))?;
    } else {
        write_stdout(&format!("{}: {mode}\n", args.role))?;
    }
    Ok(End::Done)
}

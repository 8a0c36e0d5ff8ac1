//! `relay peek`: shows the messages in an inbox and takes none.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::client::{At, Client, ClientError};
use super::messages::{Messages, write_stdout};
use super::person::require_no_agent;
use super::{End, Failure, block_on, say};
use crate::engine::PERSON;

/// `relay peek`.
#[derive(Debug, clap::Args)]
pub struct Peek {
    /// Whose inbox is looked at.
    #[arg(default_value = PERSON)]
    role: String,

    /// Print the messages as JSON, an array like the one of read_messages.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was shown.
#[derive(Debug, thiserror::Error)]
pub enum PeekError {
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not give it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<PeekError> for Failure {
    fn from(error: PeekError) -> Self {
        Self::error(format!("relay peek: {error}"))
    }
}

/// Looks.
pub fn run(args: &Peek) -> Result<End, Failure> {
    Ok(block_on(peek(args))??)
}

async fn peek(args: &Peek) -> Result<End, PeekError> {
    let mut client = Client::find(&args.at).await?;
    let asked = json!({"for": args.role});
    let mut answer = client.ask("/api/peek", &asked, Duration::ZERO).await?;
    if require_no_agent().is_err() {
        answer = without_held(&answer).unwrap_or(answer);
    }
    let shown = Messages::of(&answer).and_then(|messages| messages.shown(args.json));
    let Ok((text, any)) = shown else {
        return Err(client.not_understood().into());
    };
    client.done();
    write_stdout(&text)?;
    if any {
        return Ok(End::Done);
    }
    say(&format!("nothing for {}", args.role));
    Ok(End::Nothing)
}

/// Leaves out what the person holds, which an agent is not to see; nothing if there is none of it.
fn without_held(answer: &[u8]) -> Option<Bytes> {
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    let messages = answer.get_mut("messages")?.as_array_mut()?;
    let all = messages.len();
    messages.retain(|message| message.get("held").is_none());
    (messages.len() < all).then(|| answer.to_string().into())
}

//! `relay key`: a key of a workspace, for programs that speak the API.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::{At, Client, ClientError};
use super::messages::write_stdout;
use super::{End, Failure, block_on};
use crate::engine::DEFAULT_PROJECT;

/// `relay key`.
#[derive(Debug, clap::Args)]
pub struct Key {
    /// The workspace, which is a project; it is made if it is not there.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT)]
    workspace: String,

    #[command(flatten)]
    at: At,
}

/// Why no key was printed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not give it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::error(format!("relay key: {error}"))
    }
}

/// What the relay answers.
#[derive(Deserialize)]
struct Answer {
    key: String,
}

/// Asks for a new key and prints it; the ones before stay good.
pub fn run(args: &Key) -> Result<End, Failure> {
    Ok(block_on(key(args))?)
}

async fn key(args: &Key) -> Result<End, KeyError> {
    let mut client = Client::find(&args.at).await?;
    let asked = json!({"workspace": args.workspace});
    let answer = client.ask("/api/key", &asked, Duration::ZERO).await?;
    let Ok(Answer { key }) = serde_json::from_slice(&answer) else {
        return Err(client.not_understood().into());
    };
    client.done();
    write_stdout(&format!("{key}\n"))?;
    Ok(End::Done)
}

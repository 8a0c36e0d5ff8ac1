//! `relay release`: ends a worker, whosever it is.

use std::time::Duration;

use serde_json::json;

use super::client::{At, Client, ClientError};
use super::messages::{json_line, write_stdout};
use super::person::{NotThePerson, require_person};
use super::spawn::Answer;
use super::{End, Failure, block_on};
use crate::terminal::visible;

/// `relay release`.
#[derive(Debug, clap::Args)]
pub struct Release {
    /// The name of the worker, with its project before it if that is not the default one.
    name: String,

    /// Why, for its parent and the log.
    #[arg(long)]
    reason: Option<String>,

    /// Print the answer as JSON: {"worker": number, "name": name, "parent": parent}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was ended.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// An agent may run it, and would end what others have started.
    #[error("{0}, and any worker is ended from here; use relay_release")]
    NotThePerson(NotThePerson),
    /// The relay did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        let text = format!("relay release: {error}");
        match error {
            ReleaseError::NotThePerson(_) => Self::usage(text),
            ReleaseError::Client(_) => Self::error(text),
        }
    }
}

/// Ends it.
pub fn run(args: &Release) -> Result<End, Failure> {
    require_person().map_err(ReleaseError::NotThePerson)?;
    let asked = json!({"name": args.name, "reason": args.reason});
    let (answer, Answer { name }) = block_on(async {
        let mut client = Client::find(&args.at).await?;
        let answer = client.ask("/api/release", &asked, Duration::ZERO).await?;
        let Ok(told) = serde_json::from_slice::<Answer>(&answer) else {
            return Err(client.not_understood());
        };
        client.done();
        Ok((answer, told))
    })?
    .map_err(ReleaseError::Client)?;
    let told = if args.json {
        json_line(&String::from_utf8_lossy(&answer))
    } else {
        format!("{} released\n", visible(&name))
    };
    // It ends, whoever reads that.
    let _ = write_stdout(&told);
    Ok(End::Done)
}

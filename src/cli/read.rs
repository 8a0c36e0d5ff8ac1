//! `relay read`: takes the messages out of an inbox, the person's own if no other is named.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::agents::in_agents_shell;
use super::client::{At, Client, ClientError};
use super::messages::{Messages, check_stdout, local_time, write_stdout};
use super::{End, Failure, block_on, say};
use crate::engine::PERSON;
use crate::engine::limits::WAIT_SECONDS_MAX;

/// Longest time that a read may wait, in seconds: a day.
const WAIT_MAX: u32 = 86_400;

/// `relay read`.
#[derive(Debug, clap::Args)]
pub struct Read {
    /// Whose inbox is emptied; an agent whose inbox this is will not see these messages.
    #[arg(default_value = PERSON)]
    role: String,

    /// Wait for a message if there is none, up to that many seconds, 0 to 86400.
    #[arg(long, value_name = "SECONDS", value_parser = wait)]
    wait: Option<Duration>,

    /// Print the messages as JSON, an array like the one of read_messages.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why the messages were not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An agent runs it, and what is there is the person's.
    #[error(
        "this is an agent's own shell ({variable} is set), and the inbox of user is the person's; name your own: relay read ROLE, or take nothing: relay peek"
    )]
    InAgent {
        /// What says so.
        variable: &'static str,
    },
    /// stdout did not take them, so the relay takes them back.
    #[error("cannot write to stdout: {0}; the messages are not read, and will be shown again")]
    Stdout(#[from] io::Error),
    /// The relay did not give them.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let text = format!("relay read: {error}");
        match error {
            ReadError::InAgent { .. } => Self::usage(text),
            ReadError::Stdout(_) | ReadError::Client(_) => Self::error(text),
        }
    }
}

/// Reads.
pub fn run(args: &Read) -> Result<End, Failure> {
    Ok(block_on(read(args))?)
}

async fn read(args: &Read) -> Result<End, ReadError> {
    if args.role == PERSON
        && let Some(variable) = in_agents_shell()
    {
        return Err(ReadError::InAgent { variable });
    }
    check_stdout()?;
    let mut client = Client::find(&args.at).await?;
    let until = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let left = until.map_or(Duration::ZERO, |until| until.duration_since(Instant::now()));
        let wait = left.min(Duration::from_secs(u64::from(WAIT_SECONDS_MAX)));
        let asked = json!({"for": args.role, "wait_seconds": wait.as_secs_f64()});
        let answer = client.ask("/api/read", &asked, wait).await?;
        let Ok(messages) = Messages::of(&answer) else {
            return Err(client.not_understood().into());
        };
        let Ok((text, any)) = messages.shown(args.json) else {
            return Err(client.not_understood().into());
        };
        if let Some(at) = &messages.restarted {
            let at = local_time(at);
            say(&format!(
                "relay started at {at}; what was unread before that is gone"
            ));
        }
        // What was waited for may still come; the next call confirms that the news of the start has arrived.
        if !any && until.is_some_and(|until| Instant::now() < until) {
            continue;
        }
        write_stdout(&text)?;
        client.done();
        return Ok(match (any, args.wait) {
            (true, _) => End::Done,
            (false, None) => {
                say(&format!("nothing for {}", args.role));
                End::Nothing
            }
            (false, Some(wait)) => {
                say(&format!("nothing for {} in {} s", args.role, wait.as_secs_f64()));
                End::TimedOut
            }
        });
    }
}

fn wait(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=f64::from(WAIT_MAX)).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) | Err(_) => Err(format!("a wait is a number of seconds from 0 to {WAIT_MAX}")),
    }
}

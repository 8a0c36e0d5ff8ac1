//! `relay read` and `relay wait`: take messages out of an inbox, the person's own if no other is named.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::client::{At, Client, ClientError};
use super::messages::{Messages, check_stdout, local_time, write_stdout};
use super::person::{NotThePerson, require_person};
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

/// `relay wait`.
#[derive(Debug, clap::Args)]
pub struct Wait {
    /// Whose inbox it is taken from; an agent whose inbox this is will not see the message.
    #[arg(default_value = PERSON)]
    role: String,

    /// Wait for a message of this sender, and leave others where they are.
    #[arg(long, value_name = "ROLE")]
    from: Option<String>,

    /// Wait up to that many seconds, 0 to 86400.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = wait)]
    timeout: Duration,

    /// Print the message as JSON, in an array like the one of read_messages.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// What is taken out of whose inbox.
struct Taking<'a> {
    role: &'a str,
    from: Option<&'a str>,
    limit: Option<usize>,
    wait: Option<Duration>,
    json: bool,
    at: &'a At,
}

/// Why the messages were not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An agent may run it, and what is there is the person's.
    #[error(
        "{why}, and the inbox of user is the person's; name your own: relay {subcommand} ROLE, or take nothing: relay peek"
    )]
    NotThePerson {
        /// What says so.
        why: NotThePerson,
        /// What was asked for.
        subcommand: &'static str,
    },
    /// stdout did not take them, so the relay takes them back.
    #[error("cannot write to stdout: {0}; the messages are not read, and will be shown again")]
    Stdout(#[from] io::Error),
    /// The relay did not give them.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl ReadError {
    fn of(self, subcommand: &str) -> Failure {
        let text = format!("relay {subcommand}: {self}");
        match self {
            Self::NotThePerson { .. } => Failure::usage(text),
            Self::Stdout(_) | Self::Client(_) => Failure::error(text),
        }
    }
}

/// Takes all that is there.
pub fn run(args: &Read) -> Result<End, Failure> {
    let taking = Taking {
        role: &args.role,
        from: None,
        limit: None,
        wait: args.wait,
        json: args.json,
        at: &args.at,
    };
    run_as("read", &taking)
}

/// Takes one message, and waits for it if there is none.
pub fn wait_for_one(args: &Wait) -> Result<End, Failure> {
    let taking = Taking {
        role: &args.role,
        from: args.from.as_deref(),
        limit: Some(1),
        wait: Some(args.timeout),
        json: args.json,
        at: &args.at,
    };
    run_as("wait", &taking)
}

fn run_as(subcommand: &'static str, taking: &Taking<'_>) -> Result<End, Failure> {
    if taking.role == PERSON
        && let Err(why) = require_person()
    {
        let error = ReadError::NotThePerson { why, subcommand };
        return Err(error.of(subcommand));
    }
    block_on(take(taking)).map_err(|error| error.of(subcommand))
}

async fn take(args: &Taking<'_>) -> Result<End, ReadError> {
    check_stdout()?;
    let mut client = Client::find(args.at).await?;
    let until = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let left = until.map_or(Duration::ZERO, |until| until.duration_since(Instant::now()));
        let wait = left.min(Duration::from_secs(u64::from(WAIT_SECONDS_MAX)));
        let asked = json!({"for": args.role, "wait_seconds": wait.as_secs_f64(), "from": args.from, "limit": args.limit});
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

//! `relay read` and `relay wait`: take messages out of an inbox, the person's own if no other is named.

use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::client::{At, Client, ClientError};
use super::messages::{Messages, One, check_stdout, local_time, write_stdout};
use super::person::{NotThePerson, require_person};
use super::reader;
use super::{End, Failure, block_on, say};
use crate::engine::PERSON;
use crate::engine::limits::WAIT_SECONDS_MAX;

/// Longest time that a read may wait, in seconds: a day.
const WAIT_MAX: u32 = 86_400;

/// How long stdout's reader may take for a message before relay takes it back: half the time after which it counts as read.
const READER_PATIENCE: Duration = Duration::from_secs(10);

/// `relay read`.
#[derive(Debug, clap::Args)]
pub struct Read {
    /// Whose inbox is emptied; an agent whose inbox this is will not see these messages.
    #[arg(default_value = PERSON)]
    role: String,

    /// Wait for a message if there is none, up to that many seconds, 0 to 86400.
    #[arg(long, value_name = "SECONDS", value_parser = wait)]
    wait: Option<Duration>,

    /// Take that many messages at the most, the oldest first; all if it is left out.
    #[arg(short = 'n', value_name = "N")]
    number: Option<NonZeroUsize>,

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
    limit: Option<NonZeroUsize>,
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
        limit: args.number,
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
        limit: Some(NonZeroUsize::MIN),
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
    block_on(take(taking))?.map_err(|error| error.of(subcommand))
}

/// Takes one message after the other: each is taken, written, and read once stdout's reader has it, which the next call confirms, or the
/// orderly end.
async fn take(args: &Taking<'_>) -> Result<End, ReadError> {
    check_stdout()?;
    let mut client = Client::find(args.at).await?;
    let until = args.wait.map(|wait| Instant::now() + wait);
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    let mut taken = 0;
    // The reader has it, but relay has taken it back meanwhile.
    let mut has: Option<String> = None;
    while has.is_some() || taken < limit && !(taken > 0 && reader::is_gone()) {
        let left = until.filter(|_| taken == 0);
        let left = left.map_or(Duration::ZERO, |until| until.duration_since(Instant::now()));
        let wait = left.min(Duration::from_secs(u64::from(WAIT_SECONDS_MAX)));
        let asked =
            json!({"for": args.role, "wait_seconds": wait.as_secs_f64(), "from": args.from, "limit": 1});
        let answer = client.ask("/api/read", &asked, wait).await?;
        let Ok(messages) = Messages::of(&answer) else {
            return Err(client.not_understood().into());
        };
        let Ok(one) = messages.one(args.json) else {
            return Err(client.not_understood().into());
        };
        if let Some(at) = &messages.restarted {
            let at = local_time(at);
            say(&format!(
                "relay started at {at}; what was unread before that is gone"
            ));
        }
        let Some(One { id, text }) = one else {
            // What was waited for may still come; the next call confirms that the news of the start has arrived.
            if taken == 0 && until.is_some_and(|until| Instant::now() < until) {
                continue;
            }
            break;
        };
        if has.take().is_some_and(|has| has == id) {
            continue;
        }
        if taken == limit {
            // Somebody else has taken that one, and this one is not asked for: the end of the connection gives it back.
            drop(write_stdout(if args.json { "]\n" } else { "" }));
            return Ok(End::Done);
        }
        let before = match (args.json, taken) {
            (true, 0) => "[",
            (true, _) => ",",
            (false, 0) => "",
            (false, _) => "\n",
        };
        let mut writing = spawn_blocking({
            let text = format!("{before}{text}");
            move || reader::hand(&text)
        });
        let written = match timeout(READER_PATIENCE, &mut writing).await {
            Ok(written) => written,
            Err(_) => {
                // Its end breaks the connection off: relay would take the message for read before long.
                drop(client);
                let written = writing.await;
                client = Client::find(args.at).await?;
                has = Some(id);
                written
            }
        };
        match written.map_err(io::Error::other)? {
            Ok(()) => taken += 1,
            Err(error) if taken > 0 && error.kind() == io::ErrorKind::BrokenPipe => return Ok(End::Done),
            Err(error) => return Err(error.into()),
        }
    }
    let end = match (args.json, taken) {
        (true, 0) => "[]\n",
        (true, _) => "]\n",
        (false, _) => "",
    };
    let ended = write_stdout(end);
    client.done();
    match (taken, args.wait) {
        // Whoever has all of them may be gone.
        (1.., _) => Ok(End::Done),
        (0, wait) => {
            ended?;
            Ok(match wait {
                None => {
                    say(&format!("nothing for {}", args.role));
                    End::Nothing
                }
                Some(wait) => {
                    say(&format!("nothing for {} in {} s", args.role, wait.as_secs_f64()));
                    End::TimedOut
                }
            })
        }
    }
}

fn wait(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=f64::from(WAIT_MAX)).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) | Err(_) => Err(format!("a wait is a number of seconds from 0 to {WAIT_MAX}")),
    }
}

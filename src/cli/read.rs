//! `relay read` and `relay wait`: take messages out of an inbox, the person's own if no other is named.

use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::client::{At, Client, ClientError};
use super::messages::{Messages, One, check_stdout, local_time, write_stdout};
use super::person::{NotThePerson, require_person};
use super::reader;
use super::stops::{Stops, stop};
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
    /// Whose inbox is read, one message after the other; an agent whose inbox this is will not see them.
    #[arg(default_value = PERSON)]
    role: String,

    /// Wait for a message if there is none, up to that many seconds, 0 to 86400.
    #[arg(long, value_name = "SECONDS", value_parser = wait)]
    wait: Option<Duration>,

    /// Take that many messages at the most, the oldest first; all that are there at the start if it is left out.
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
    #[error("cannot write to stdout: {0}; what was not written is not read, and will be shown again")]
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

/// Takes one message after the other, and says so where there is none.
async fn take(args: &Taking<'_>) -> Result<End, ReadError> {
    check_stdout()?;
    let mut reading = Reading::begin(args)?;
    let read = reading.read().await;
    let taken = reading.taken;
    let is_cut = matches!(read, Err(ReadError::Stdout(_)));
    // Whatever has ended it, what is written is one array.
    let ended = match (args.json, taken) {
        (true, 0) if read.is_ok() => write_stdout("[]\n"),
        (true, 1..) if !is_cut => write_stdout("]\n"),
        (_, _) => Ok(()),
    };
    match read {
        Ok(Last::Taken) => reading.done(),
        // The end of the connection gives it back.
        Ok(Last::NotAskedFor) => {}
        // Whoever has as much as it wanted may be gone.
        Err(ReadError::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(End::Done),
        Err(error) => return Err(error),
    }
    if taken > 0 {
        return Ok(End::Done);
    }
    ended?;
    let role = args.role;
    Ok(match args.wait {
        None => {
            say(&format!("nothing for {role}"));
            End::Nothing
        }
        Some(wait) => {
            say(&format!("nothing for {role} in {} s", wait.as_secs_f64()));
            End::TimedOut
        }
    })
}

/// What was handed over last.
enum Last {
    /// Whoever reads stdout has it, or there was nothing.
    Taken,
    /// It is not to be shown.
    NotAskedFor,
}

/// A read under way: each message is taken, written, and read once stdout's reader has it, which the next call confirms, or the orderly end.
struct Reading<'a> {
    args: &'a Taking<'a>,
    /// None before the first call, and where relay was to take back what it had handed over.
    client: Option<Client>,
    stops: Stops,
    until: Option<Instant>,
    /// How many messages are taken at the most.
    limit: usize,
    taken: usize,
    /// What the reader has already, though relay has taken it back.
    shown_already: Option<String>,
}

impl<'a> Reading<'a> {
    fn begin(args: &'a Taking<'a>) -> io::Result<Self> {
        Ok(Self {
            args,
            client: None,
            stops: Stops::listen()?,
            until: args.wait.map(|wait| Instant::now() + wait),
            limit: args.limit.map_or(usize::MAX, NonZeroUsize::get),
            taken: 0,
            shown_already: None,
        })
    }

    async fn read(&mut self) -> Result<Last, ReadError> {
        while self.shown_already.is_some() || self.taken < self.limit && !self.is_left() {
            let Some(one) = self.next().await? else {
                // What was waited for may still come; the next call confirms that the news of the start has arrived.
                if self.taken == 0 && self.until.is_some_and(|until| Instant::now() < until) {
                    continue;
                }
                break;
            };
            if self.shown_already.take().is_some_and(|shown| shown == one.id) {
                continue;
            }
            if self.taken == self.limit {
                // Somebody else has taken the one that was shown.
                return Ok(Last::NotAskedFor);
            }
            self.write(one).await?;
            if self.taken == 1 && self.args.limit.is_none() {
                // What comes from now on is for the next read, or it might never end.
                let is_back = self.shown_already.is_some();
                self.limit = self.pending().await? + usize::from(!is_back);
            }
        }
        Ok(Last::Taken)
    }

    /// Tells whether nobody reads on.
    fn is_left(&self) -> bool {
        self.taken > 0 && reader::is_gone()
    }

    /// Takes the next message, if there is one.
    async fn next(&mut self) -> Result<Option<One>, ReadError> {
        let answer = self.ask("/api/read", |args, wait| {
            json!({"for": args.role, "wait_seconds": wait.as_secs_f64(), "from": args.from, "limit": 1})
        });
        let answer = answer.await?;
        let messages = self.understood(Messages::of(&answer))?;
        let one = self.understood(messages.one(self.args.json))?;
        if let Some(at) = &messages.restarted {
            let at = local_time(at);
            say(&format!(
                "relay started at {at}; what was unread before that is gone"
            ));
        }
        Ok(one)
    }

    /// Asks how many messages are there.
    async fn pending(&mut self) -> Result<usize, ReadError> {
        #[derive(serde::Deserialize)]
        struct Pending {
            count: usize,
        }
        let answer = self
            .ask("/api/pending", |args, _| json!({"for": args.role}))
            .await?;
        let Pending { count } = self.understood(serde_json::from_slice(&answer))?;
        Ok(count)
    }

    /// Asks, and once more each time that this process was stopped meanwhile: nobody would see what relay hands over then.
    async fn ask(
        &mut self,
        path: &str,
        what: fn(&Taking<'_>, Duration) -> Value,
    ) -> Result<Bytes, ReadError> {
        loop {
            let wait = self.wait();
            let what = what(self.args, wait);
            let client = match &mut self.client {
                Some(client) => client,
                none => none.insert(Client::find(self.args.at).await?),
            };
            tokio::select! {
                answer = client.ask(path, &what, wait) => return Ok(answer?),
                () = self.stops.next() => {}
            }
            self.break_off().await;
            stop();
        }
    }

    /// Returns how long the next call may wait: once something has come, nothing more is waited for.
    fn wait(&self) -> Duration {
        let until = self.until.filter(|_| self.taken == 0);
        let left = until.map_or(Duration::ZERO, |until| until.duration_since(Instant::now()));
        left.min(Duration::from_secs(u64::from(WAIT_SECONDS_MAX)))
    }

    /// Hands a message to the reader of stdout. If that takes long, or this process is stopped, relay takes it back meanwhile: before long it
    /// would count as read.
    async fn write(&mut self, One { id, text }: One) -> Result<(), ReadError> {
        let before = match (self.args.json, self.taken) {
            (true, 0) => "[",
            (true, _) => ",",
            (false, 0) => "",
            (false, _) => "\n",
        };
        let text = format!("{before}{text}");
        let mut writing = spawn_blocking(move || reader::hand(&text));
        let late = sleep(READER_PATIENCE);
        tokio::pin!(late);
        let written = loop {
            let is_stopped = tokio::select! {
                written = &mut writing => break written,
                () = self.stops.next() => true,
                () = &mut late, if self.client.is_some() => false,
            };
            self.break_off().await;
            self.shown_already = Some(id.clone());
            if is_stopped {
                stop();
            }
        };
        written.map_err(io::Error::other)??;
        self.taken += 1;
        Ok(())
    }

    /// Has relay take back what it has handed over.
    async fn break_off(&mut self) {
        if let Some(client) = self.client.take() {
            client.break_off().await;
        }
    }

    fn understood<T>(&self, answer: serde_json::Result<T>) -> Result<T, ReadError> {
        match (answer, &self.client) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Some(client)) => Err(client.not_understood().into()),
            (Err(error), None) => Err(io::Error::from(error).into()),
        }
    }

    /// Lets the connection end in order.
    fn done(self) {
        if let Some(client) = self.client {
            client.done();
        }
    }
}

fn wait(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=f64::from(WAIT_MAX)).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) | Err(_) => Err(format!("a wait is a number of seconds from 0 to {WAIT_MAX}")),
    }
}

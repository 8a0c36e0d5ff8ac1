//! `relay send`: a message from the command line.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::{At, Client, ClientError};
use super::messages::{json_line, write_stdout};
use super::person::{NotThePerson, require_person};
use super::{End, Failure, block_on, say, stdin};
use crate::engine::handling::Mode;
use crate::engine::limits::Bounds;
use crate::engine::{Kind, PERSON, shown};

/// `relay send`.
#[derive(Debug, clap::Args)]
pub struct Send {
    /// The role that the message is for.
    to: String,

    /// The message, in one word or in several, with a space between any two; read from stdin if it is "-", or if it is left out and
    /// stdin is no terminal.
    body: Vec<String>,

    /// What the message is for: status, question, directive or free.
    #[arg(long, default_value_t = Kind::Free, value_parser = kind)]
    kind: Kind,

    /// The role that the message is from.
    #[arg(long, value_name = "ROLE", default_value = PERSON)]
    from: String,

    /// The thread that the message belongs to.
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,

    /// The id of the message that it answers, or its first 8 or more digits, as relay read shows them.
    #[arg(long, value_name = "ID")]
    reply_to: Option<String>,

    /// When it is shown to whom it is for: immediate, next-message, next-tool-call, on-idle or manual [default: as its agent has it].
    #[arg(long, value_parser = Mode::named)]
    mode: Option<Mode>,

    /// Print the answer as JSON: {"id": "<uuid>"}, with a "note" if nobody got it, or is there to read it.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// There is no message.
    #[error("the message is missing; give it as the last argument, or pipe it in")]
    NoBody,
    /// stdin could not be read, or is no text.
    #[error("cannot read the message from stdin: {0}")]
    Stdin(#[from] io::Error),
    /// stdin has more than a message may have.
    #[error("the message from stdin has more than {bytes_max} bytes, the most that is accepted")]
    TooLong {
        /// The bound.
        bytes_max: usize,
    },
    /// An agent may run it, and would speak as the person.
    #[error("{0}, and a message without --from is the person's; say whose it is: --from ROLE")]
    NotThePerson(NotThePerson),
    /// The relay did not take it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let text = format!("relay send: {error}");
        match error {
            SendError::NoBody | SendError::NotThePerson(_) => Self::usage(text),
            SendError::Stdin(_) | SendError::TooLong { .. } | SendError::Client(_) => Self::error(text),
        }
    }
}

/// What the relay answers.
#[derive(Deserialize)]
struct Sent {
    /// Why the message may wait for long, if it may, or that nobody got it.
    note: Option<String>,
}

/// Sends.
pub fn run(args: Send) -> Result<End, Failure> {
    let body = body(&args.body)?;
    if args.from == PERSON
        && let Err(why) = require_person()
    {
        return Err(SendError::NotThePerson(why).into());
    }
    let mut message = json!({
        "from": args.from,
        "to": args.to,
        "kind": args.kind.as_str(),
        "body": body,
        "thread": args.thread,
        "reply_to": args.reply_to,
    });
    // One that is not said is not sent: an older relay does not know it.
    if let Some(mode) = args.mode {
        message["mode"] = mode.as_str().into();
    }
    let answer = block_on(async {
        let mut client = Client::find(&args.at).await?;
        let answer = client.ask("/api/send", &message, Duration::ZERO).await?;
        client.done();
        Ok::<_, ClientError>(answer)
    })?
    .map_err(SendError::Client)?;
    let told = if args.json {
        json_line(&String::from_utf8_lossy(&answer))
    } else {
        format!("sent to {}\n", args.to)
    };
    // It is sent, whoever reads that.
    let _ = write_stdout(&told);
    let noted = serde_json::from_slice::<Sent>(&answer).ok();
    if let Some(note) = noted.and_then(|sent| sent.note)
        && !args.json
    {
        say(&format!("note: {note}"));
    }
    Ok(End::Done)
}

/// Returns the message that some words are, or that is on stdin.
pub(super) fn body(words: &[String]) -> Result<String, SendError> {
    match words {
        [word] if word == "-" => from_stdin(),
        [] if io::stdin().is_terminal() => Err(SendError::NoBody),
        // Nothing at all is no message that anybody meant to send.
        [] => Some(from_stdin()?)
            .filter(|body| !body.is_empty())
            .ok_or(SendError::NoBody),
        words => Ok(words.join(" ")),
    }
}

/// Reads a message, without the line break at its end that most programs write.
fn from_stdin() -> Result<String, SendError> {
    let bytes_max = Bounds::default().body_bytes_max;
    let mut body = stdin::text(bytes_max)?.ok_or(SendError::TooLong { bytes_max })?;
    if body.ends_with('\n') {
        body.pop();
        if body.ends_with('\r') {
            body.pop();
        }
    }
    if body.len() > bytes_max {
        return Err(SendError::TooLong { bytes_max });
    }
    Ok(body)
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::parse(text).ok_or_else(|| {
        let known = Kind::ALL.map(Kind::as_str).join(", ");
        format!("unknown kind {:?}; known kinds: {known}", shown(text))
    })
}

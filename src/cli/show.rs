//! `relay show` and `relay reply`: one message, by its id, and an answer to it.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::{At, Client, ClientError};
use super::messages::{json_line, one_shown, write_stdout};
use super::person::{NotThePerson, require_no_agent, require_person};
use super::send::{self, SendError};
use super::{End, Failure, block_on, say};
use crate::engine::{Kind, PERSON};
use crate::terminal::visible;

/// `relay show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// The id of the message, or its first 8 or more digits, as relay read shows them.
    id: String,

    /// Print it as JSON: {"message": message}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// `relay reply`.
#[derive(Debug, clap::Args)]
pub struct Reply {
    /// The id of the message that is answered, or its first 8 or more digits, as relay read shows them.
    id: String,

    /// The answer, in one word or in several; read from stdin as by relay send.
    body: Vec<String>,

    /// Print the answer as JSON, as relay send does.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was shown or answered.
#[derive(Debug, thiserror::Error)]
enum ShowError {
    /// An agent may run it, whom others' messages are nothing to.
    #[error("{0}, and only the person may look at any message; read your own inbox")]
    NotShown(NotThePerson),
    /// An agent may run it, and would speak as the person.
    #[error(
        "{0}, and relay reply speaks as the person; answer as yourself: relay send TO --from ROLE --reply-to ID"
    )]
    NotThePerson(NotThePerson),
    /// There is no answer.
    #[error(transparent)]
    Body(SendError),
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl ShowError {
    fn of(self, command: &str) -> Failure {
        let text = format!("relay {command}: {self}");
        match self {
            Self::NotShown(_) | Self::NotThePerson(_) | Self::Body(SendError::NoBody) => Failure::usage(text),
            Self::Body(_) | Self::Stdout(_) | Self::Client(_) => Failure::error(text),
        }
    }
}

/// What the relay tells of a message that is answered.
#[derive(Deserialize)]
struct Shown {
    message: Answered,
}

#[derive(Deserialize)]
struct Answered {
    id: String,
    from: String,
    to: String,
}

/// What the relay answers to the answer.
#[derive(Deserialize)]
struct Sent {
    note: Option<String>,
}

/// Shows a message.
pub fn run(args: &Show) -> Result<End, Failure> {
    block_on(show(args))?.map_err(|error| error.of("show"))
}

async fn show(args: &Show) -> Result<End, ShowError> {
    require_no_agent().map_err(ShowError::NotShown)?;
    let mut client = Client::find(&args.at).await?;
    let asked = json!({"message": args.id});
    let answer = client.ask("/api/show", &asked, Duration::ZERO).await?;
    let Some(text) = one_shown(&answer) else {
        return Err(client.not_understood().into());
    };
    client.done();
    if args.json {
        write_stdout(&json_line(&String::from_utf8_lossy(&answer)))?;
    } else {
        write_stdout(&text)?;
    }
    Ok(End::Done)
}

/// Answers a message.
pub fn reply(args: &Reply) -> Result<End, Failure> {
    let said = || {
        let body = send::body(&args.body).map_err(ShowError::Body)?;
        require_person().map_err(ShowError::NotThePerson)?;
        Ok(body)
    };
    let body = said().map_err(|error: ShowError| error.of("reply"))?;
    block_on(answer(args, &body))?.map_err(|error| error.of("reply"))
}

async fn answer(args: &Reply, body: &str) -> Result<End, ShowError> {
    let mut client = Client::find(&args.at).await?;
    let asked = json!({"message": args.id});
    let shown = client.ask("/api/show", &asked, Duration::ZERO).await?;
    let Ok(Shown {
        message: Answered { id, from, to },
    }) = serde_json::from_slice(&shown)
    else {
        return Err(client.not_understood().into());
    };
    // To what one has said oneself one adds, for the same ones.
    let to = if from == PERSON { to } else { from };
    let message = json!({"to": to, "kind": Kind::Free.as_str(), "body": body, "reply_to": id});
    let answer = client.ask("/api/send", &message, Duration::ZERO).await?;
    client.done();
    let told = if args.json {
        json_line(&String::from_utf8_lossy(&answer))
    } else {
        format!("sent to {}\n", visible(&to))
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

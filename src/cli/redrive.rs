//! `relay redrive`: what was pushed in vain goes out again.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::{At, Client, ClientError};
use super::messages::{json_line, write_stdout};
use super::trace::moment;
use super::{End, Failure, block_on};
use crate::engine::limits::ID_DIGITS_MIN;
use crate::terminal::{preview, visible};

/// How much of a message a line shows, in characters as a reader counts them.
const BODY_CHARACTERS: usize = 60;

/// `relay redrive`.
#[derive(Debug, clap::Args)]
pub struct Redrive {
    /// The agent whose deliveries are meant; all agents' if it is left out.
    agent: Option<String>,

    /// List what was given up, and send nothing.
    #[arg(long)]
    list: bool,

    /// Print what relay answers, as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum RedriveError {
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<RedriveError> for Failure {
    fn from(error: RedriveError) -> Self {
        Self::error(format!("relay redrive: {error}"))
    }
}

/// What the relay answers.
#[derive(Deserialize)]
struct Redriven {
    redriven: usize,
    /// An older relay does not say it.
    #[serde(default)]
    hastened: usize,
}

#[derive(Deserialize)]
struct Listed {
    dead_letters: Vec<DeadLetter>,
}

#[derive(Deserialize)]
struct DeadLetter {
    agent: String,
    id: String,
    from: String,
    given_up_at: String,
    error: String,
    body: String,
}

/// Lists what was given up, or has it sent again.
pub fn run(args: &Redrive) -> Result<End, Failure> {
    Ok(block_on(redrive(args))??)
}

async fn redrive(args: &Redrive) -> Result<End, RedriveError> {
    let mut client = Client::find(&args.at).await?;
    let asked = json!({"agent": args.agent});
    let path = if args.list {
        "/api/dead-letters"
    } else {
        "/api/redrive"
    };
    let answer = client.ask(path, &asked, Duration::ZERO).await?;
    let said = if args.list {
        serde_json::from_slice(&answer).map(|listed| shown(&listed))
    } else {
        serde_json::from_slice(&answer).map(|redriven| counted(&redriven))
    };
    let Ok((text, any)) = said else {
        return Err(client.not_understood().into());
    };
    client.done();
    if args.json {
        write_stdout(&json_line(&String::from_utf8_lossy(&answer)))?;
    } else {
        write_stdout(&text)?;
    }
    Ok(if any { End::Done } else { End::Nothing })
}

fn counted(Redriven { redriven, hastened }: &Redriven) -> (String, bool) {
    let mut text = match redriven {
        0 => String::new(),
        1 => "1 delivery goes out again\n".to_owned(),
        count => format!("{count} deliveries go out again\n"),
    };
    match hastened {
        0 => {}
        1 => text += "the pause after failures is over for 1 agent\n",
        count => text += &format!("the pause after failures is over for {count} agents\n"),
    }
    let any = !text.is_empty();
    if !any {
        text += "nothing was given up, and nothing waits for its next attempt\n";
    }
    (text, any)
}

fn shown(Listed { dead_letters }: &Listed) -> (String, bool) {
    let mut text = String::new();
    for letter in dead_letters {
        let DeadLetter {
            agent,
            id,
            from,
            given_up_at,
            error,
            body,
        } = letter;
        let id = id.get(..ID_DIGITS_MIN).unwrap_or(id);
        let at = moment(given_up_at, "%Y-%m-%d %H:%M:%S");
        let mut body_shown = String::new();
        preview(body, BODY_CHARACTERS, &mut body_shown);
        let _ = writeln!(
            text,
            "{} ← {} {}  given up {}: {}\n  {}",
            visible(agent),
            visible(from),
            visible(id),
            visible(&at),
            visible(error),
            visible(&body_shown)
        );
    }
    if dead_letters.is_empty() {
        text.push_str("nothing was given up\n");
    }
    (text, !dead_letters.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_listed_with_its_reason_and_steers_no_terminal() {
        let listed = r#"{"dead_letters": [{"agent": "dev-a", "id": "3f2a91c0-5d1e-4a7b-9c3d-1f2e3d4c5b6a", "from": "pm", "kind": "free",
            "given_up_at": "not a time", "error": "HTTP 503", "body": "please\u001b[31m review\nit"}]}"#;
        let (text, any) = shown(&serde_json::from_str(listed).expect("an answer"));
        assert_eq!(
            text,
            "dev-a ← pm 3f2a91c0  given up not a time: HTTP 503\n  please\\u{1b}[31m review it\n"
        );
        assert!(any);
        let (text, any) = shown(&serde_json::from_str(r#"{"dead_letters": []}"#).expect("an answer"));
        assert_eq!((text.as_str(), any), ("nothing was given up\n", false));
        let told = |redriven, hastened| counted(&Redriven { redriven, hastened });
        let nothing = "nothing was given up, and nothing waits for its next attempt\n";
        assert_eq!(told(0, 0), (nothing.to_owned(), false));
        assert_eq!(told(1, 0), ("1 delivery goes out again\n".to_owned(), true));
        assert_eq!(
            told(0, 1),
            ("the pause after failures is over for 1 agent\n".to_owned(), true)
        );
        let both = "2 deliveries go out again\nthe pause after failures is over for 2 agents\n";
        assert_eq!(told(2, 2), (both.to_owned(), true));
    }
}

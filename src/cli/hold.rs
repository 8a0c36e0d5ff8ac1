//! `relay hold`, `relay allow` and `relay drop`: the person stops deliveries, looks, and lets them pass or not.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::{At, Client, ClientError};
use super::messages::{json_line, shown, write_stdout};
use super::person::{NotThePerson, require_person};
use super::{End, Failure, block_on, say};
use crate::engine::limits::ID_DIGITS_MIN;
use crate::terminal::visible;

/// `relay hold`.
#[derive(Debug, clap::Args)]
pub struct Hold {
    /// The agent that is handed nothing any more, and whose messages are handed to nobody, until you let them pass. Without one, what
    /// is held is listed.
    agent: Option<String>,

    /// Hold all messages of all agents.
    #[arg(long, conflicts_with = "agent")]
    all: bool,

    /// Print what relay answers, as JSON: {"all", "agents", "messages"}, or {"deliveries": n}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// `relay allow`.
#[derive(Debug, clap::Args)]
#[group(id = "what", required = true, multiple = false, args = ["id", "agent", "all"])]
pub struct Allow {
    /// A held message that is to pass, by its id or the first 8 or more digits of that, as relay hold shows them; or an agent whose hold
    /// is to end.
    #[arg(value_name = "ID|AGENT")]
    id: Option<String>,

    /// End the hold on that agent, whose name could be an id, and let pass what is held for that alone.
    #[arg(long)]
    agent: Option<String>,

    /// End the hold on all messages, and let pass what is held for that alone.
    #[arg(long)]
    all: bool,

    /// Print what relay answers, as JSON: {"id", "agents"}, or {"lifted", "deliveries"}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// `relay drop`.
#[derive(Debug, clap::Args)]
pub struct Drop {
    /// The id of a held message that nobody for whom it is held is to get, or its first 8 or more digits, as relay hold shows them.
    id: String,

    /// Print what relay answers, as JSON: {"id", "agents"}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was done, or it was not said.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// An agent may run it, and what is held is the person's to decide.
    #[error("{0}, and only the person says what is held, what passes and what is dropped; ask them")]
    NotThePerson(NotThePerson),
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl HoldError {
    fn of(self, command: &str) -> Failure {
        let text = format!("relay {command}: {self}");
        match self {
            Self::NotThePerson(_) => Failure::usage(text),
            Self::Stdout(_) | Self::Client(_) => Failure::error(text),
        }
    }
}

/// What the relay answers to a question about what is held.
#[derive(Deserialize)]
struct Listed<'a> {
    all: bool,
    agents: Vec<String>,
    #[serde(borrow)]
    messages: &'a RawValue,
}

/// How many deliveries are held for what was asked, or pass by it.
#[derive(Deserialize)]
struct Counted {
    deliveries: u64,
    /// Said where a hold was to be lifted.
    #[serde(default)]
    lifted: bool,
}

/// What the relay answers about one message.
#[derive(Deserialize)]
struct One {
    id: String,
    agents: Vec<String>,
}

/// What is to be said, and how it ended.
type Said = serde_json::Result<(String, End)>;

/// Holds, or lists what is held.
pub fn hold(args: &Hold) -> Result<End, Failure> {
    let Hold { agent, all, .. } = args;
    let asked = json!({"agent": agent, "all": all});
    let say = |answer: &[u8]| -> Said {
        if agent.is_none() && !all {
            return listed(answer);
        }
        let Counted { deliveries, .. } = serde_json::from_slice(answer)?;
        let what = match agent {
            Some(agent) => format!("what {} gets and sends is held", visible(agent)),
            None => "all messages are held".to_owned(),
        };
        let now = match deliveries {
            0 => String::new(),
            1 => "; 1 delivery is: relay hold shows it".to_owned(),
            _ => format!("; {deliveries} deliveries are: relay hold shows them"),
        };
        Ok((format!("{what}{now}\n"), End::Done))
    };
    let done = block_on(ask(&args.at, "/api/hold", &asked, args.json, say))?;
    let end = done.map_err(|error| error.of("hold"))?;
    if end == End::Nothing {
        self::say("nothing is held");
    }
    Ok(end)
}

/// Lets a message pass, or lifts a hold.
pub fn allow(args: &Allow) -> Result<End, Failure> {
    let Allow { id, agent, all, .. } = args;
    let (id, named) = match id {
        Some(id) if is_id(id) => (Some(id), None),
        other => (None, other.as_ref()),
    };
    let agent = agent.as_ref().or(named);
    let asked = json!({"message": id, "agent": agent, "all": all});
    let what = match agent {
        Some(agent) => format!("what {} gets and sends is", visible(agent)),
        None => "all messages are".to_owned(),
    };
    let say = |answer: &[u8]| -> Said {
        if id.is_some() {
            return one(answer, "passes to");
        }
        let Counted { deliveries, lifted } = serde_json::from_slice(answer)?;
        let passes = match deliveries {
            0 => String::new(),
            1 => "; 1 delivery passes".to_owned(),
            _ => format!("; {deliveries} deliveries pass"),
        };
        Ok(match lifted {
            true => (format!("{what} held no more{passes}\n"), End::Done),
            false => (String::new(), End::Nothing),
        })
    };
    let done = block_on(ask(&args.at, "/api/allow", &asked, args.json, say))?;
    let end = done.map_err(|error| error.of("allow"))?;
    if end == End::Nothing {
        self::say(&format!("{what} not held"));
    }
    Ok(end)
}

/// Tells whether a word is an id or the beginning of one. An agent whose name looks like one is named by its option.
fn is_id(word: &str) -> bool {
    let digits = || word.chars().filter(|c| *c != '-');
    digits().all(|c| c.is_ascii_hexdigit()) && digits().count() >= ID_DIGITS_MIN
}

/// Drops a message.
pub fn drop(args: &Drop) -> Result<End, Failure> {
    let asked = json!({"message": args.id});
    let say = |answer: &[u8]| one(answer, "is dropped, and will not come to");
    let done = block_on(ask(&args.at, "/api/drop", &asked, args.json, say))?;
    done.map_err(|error| error.of("drop"))
}

/// Asks a relay, and writes its answer, or what that says.
async fn ask(
    at: &At,
    path: &str,
    asked: &Value,
    json: bool,
    say: impl Fn(&[u8]) -> Said,
) -> Result<End, HoldError> {
    require_person().map_err(HoldError::NotThePerson)?;
    let mut client = Client::find(at).await?;
    let answer = client.ask(path, asked, Duration::ZERO).await?;
    let Ok((text, end)) = say(&answer) else {
        return Err(client.not_understood().into());
    };
    client.done();
    if json {
        write_stdout(&json_line(&String::from_utf8_lossy(&answer)))?;
    } else {
        write_stdout(&text)?;
    }
    Ok(end)
}

/// Writes the holds that there are, and behind an empty line what is held.
fn listed(answer: &[u8]) -> Said {
    let Listed {
        all,
        agents,
        messages,
    } = serde_json::from_slice(answer)?;
    let mut text = String::new();
    if all {
        text.push_str("all messages are held\n");
    }
    for agent in &agents {
        let _ = writeln!(text, "what {} gets and sends is held", visible(agent));
    }
    let (blocks, any) = shown(messages)?;
    if any {
        let _ = write!(text, "\n{blocks}");
    }
    // Nothing is held without a hold.
    let end = if text.is_empty() { End::Nothing } else { End::Done };
    Ok((text, end))
}

fn one(answer: &[u8], becomes: &str) -> Said {
    let One { id, agents } = serde_json::from_slice(answer)?;
    let id: String = id.chars().take(ID_DIGITS_MIN).collect();
    let agents: Vec<_> = agents.iter().map(|agent| visible(agent)).collect();
    let text = format!("{} {becomes} {}\n", visible(&id), agents.join(", "));
    Ok((text, End::Done))
}

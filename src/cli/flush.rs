//! `relay flush`: has what is held for an agent brought to it.

use serde::Deserialize;
use serde_json::json;

use super::ask::{Ask, Told};
use super::client::At;
use super::person::require_person;
use super::{End, Failure};
use crate::engine::PERSON;

/// `relay flush`.
#[derive(Debug, clap::Args)]
pub struct Flush {
    /// The agent whose held messages are brought to it.
    #[arg(default_value = PERSON)]
    role: String,

    /// Print the answer as JSON: {"flushed": n}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// What the relay answers.
#[derive(Deserialize)]
struct Flushed {
    flushed: u64,
}

/// Flushes.
pub fn run(args: &Flush) -> Result<End, Failure> {
    if args.role == PERSON
        && let Err(why) = require_person()
    {
        return Err(Failure::usage(format!(
            "relay flush: {why}, and what is held for user is the person's; name an agent: relay flush ROLE"
        )));
    }
    let ask = Ask {
        subcommand: "flush",
        at: &args.at,
        path: "/api/flush",
        what: json!({"for": args.role}),
        json: args.json,
    };
    ask.tell(|Flushed { flushed }| match flushed {
        0 => Told::Nothing(format!("nothing is held for {}", args.role)),
        1 => Told::Text(format!("1 message for {} held no more\n", args.role)),
        count => Told::Text(format!("{count} messages for {} held no more\n", args.role)),
    })
}

//! `relay mode`: how an agent is brought what its senders say nothing of.

use serde::Deserialize;
use serde_json::json;

use super::ask::{Ask, Told};
use super::client::At;
use super::{End, Failure};
use crate::engine::handling::Mode as Brings;
use crate::terminal::visible;

/// `relay mode`.
#[derive(Debug, clap::Args)]
pub struct Mode {
    /// The agent.
    role: String,

    /// How it is brought what its senders say nothing of, from now on; without it, relay tells how it is.
    #[arg(value_parser = Brings::named)]
    mode: Option<Brings>,

    /// Print the answer as JSON: {"mode": mode}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// What the relay answers.
#[derive(Deserialize)]
struct Answer {
    mode: String,
}

/// Sets it, or tells it.
pub fn run(args: &Mode) -> Result<End, Failure> {
    let ask = Ask {
        subcommand: "mode",
        at: &args.at,
        path: "/api/mode",
        what: json!({"for": args.role, "mode": args.mode.map(Brings::as_str)}),
        json: args.json,
    };
    ask.tell(|Answer { mode }| Told::Text(format!("{}: {}\n", args.role, visible(&mode))))
}

//! `relay key`: a key of a workspace, for programs that speak the API.

use serde::Deserialize;
use serde_json::json;

use super::ask::{Ask, Told};
use super::client::At;
use super::{End, Failure};
use crate::engine::DEFAULT_PROJECT;
use crate::terminal::visible;

/// `relay key`.
#[derive(Debug, clap::Args)]
pub struct Key {
    /// The workspace, which is a project; it is made if it is not there.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT)]
    workspace: String,

    /// Print the answer as JSON: {"key": key}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// What the relay answers.
#[derive(Deserialize)]
struct Answer {
    key: String,
}

/// Asks for a new key and prints it; the ones before stay good.
pub fn run(args: &Key) -> Result<End, Failure> {
    let ask = Ask {
        subcommand: "key",
        at: &args.at,
        path: "/api/key",
        what: json!({"workspace": args.workspace}),
        json: args.json,
    };
    ask.tell(|Answer { key }| Told::Text(format!("{}\n", visible(&key))))
}

//! `relay pending`: how many messages wait in an inbox, and what they are for.

use serde::Deserialize;
use serde_json::json;

use super::ask::{Ask, Told};
use super::client::At;
use super::{End, Failure};
use crate::engine::PERSON;
use crate::terminal::visible;

/// `relay pending`.
#[derive(Debug, clap::Args)]
pub struct Pending {
    /// Whose inbox is looked at.
    #[arg(default_value = PERSON)]
    role: String,

    /// Print the answer as JSON: {"count": n, "kinds": [kind…]}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// What the relay answers.
#[derive(Deserialize)]
struct Answer {
    count: usize,
    kinds: Vec<String>,
}

/// Counts.
pub fn run(args: &Pending) -> Result<End, Failure> {
    let ask = Ask {
        subcommand: "pending",
        at: &args.at,
        path: "/api/pending",
        what: json!({"for": args.role}),
        json: args.json,
    };
    ask.tell(|answer| told(&args.role, &answer))
}

fn told(role: &str, answer: &Answer) -> Told {
    if answer.count == 0 {
        return Told::Nothing(format!("nothing for {role}"));
    }
    // In the order in which the first of each has come.
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for kind in &answer.kinds {
        match counts.iter_mut().find(|(known, _)| known == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((kind, 1)),
        }
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(kind, count)| format!("{count} {}", visible(kind)))
        .collect();
    Told::Text(format!("{} for {role}: {}\n", answer.count, counts.join(", ")))
}

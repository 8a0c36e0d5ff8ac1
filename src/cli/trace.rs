//! `relay trace`: tells what happened to a message.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use chrono::{DateTime, Local};
use serde::Deserialize;
use serde_json::json;

use super::client::{At, Client, ClientError};
use super::messages::{json_line, write_stdout};
use super::person::{NotThePerson, require_no_agent};
use super::{End, Failure, block_on};
use crate::terminal::visible;

/// Widest name with its place that stands before a line; a wider one has a line of its own, so that those of all others fit into 80
/// columns.
const LABEL_WIDTH_MAX: usize = 16;

/// `relay trace`.
#[derive(Debug, clap::Args)]
pub struct Trace {
    /// The id of the message, or its first 8 or more digits, as relay read shows them.
    id: String,

    /// Print it as JSON: {"id", "from", "to", "kind", "accepted_at", "mode", "priority", "deadline", "steps"}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing was shown.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// An agent may run it, to whom it would tell what the person holds.
    #[error("{0}, and what happened to a message is shown to the person alone; ask them")]
    NotShown(NotThePerson),
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay did not give it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        let text = format!("relay trace: {error}");
        match error {
            TraceError::NotShown(_) => Self::usage(text),
            TraceError::Stdout(_) | TraceError::Client(_) => Self::error(text),
        }
    }
}

/// What the relay answers.
#[derive(Deserialize)]
struct Traced {
    id: String,
    from: String,
    to: String,
    kind: String,
    accepted_at: String,
    /// Neither is said by a relay of an older version.
    mode: Option<String>,
    priority: Option<String>,
    deadline: Option<String>,
    steps: Vec<Step>,
}

#[derive(Clone, Deserialize)]
struct Step {
    at: String,
    agent: String,
    seq: u64,
    step: String,
    session: Option<u64>,
    over: Option<String>,
    /// Who took it out of another's inbox.
    taken_by: Option<String>,
    by: Option<String>,
    mode: Option<String>,
    reason: Option<String>,
    retryable: Option<bool>,
    until: Option<String>,
    /// Whose it was.
    from: Option<String>,
    /// The last message that its agent had seen.
    after: Option<String>,
}

/// Asks and tells.
pub fn run(args: &Trace) -> Result<End, Failure> {
    Ok(block_on(trace(args))??)
}

async fn trace(args: &Trace) -> Result<End, TraceError> {
    require_no_agent().map_err(TraceError::NotShown)?;
    let mut client = Client::find(&args.at).await?;
    let asked = json!({"message": args.id});
    let answer = client.ask("/api/trace", &asked, Duration::ZERO).await?;
    let Ok(traced) = serde_json::from_slice::<Traced>(&answer) else {
        return Err(client.not_understood().into());
    };
    client.done();
    let text = if args.json {
        json_line(&String::from_utf8_lossy(&answer))
    } else {
        shown(&traced)
    };
    write_stdout(&text)?;
    Ok(End::Done)
}

/// Writes what a relay answers to who asks for a trace; nothing if that is no trace.
pub(super) fn told(answer: &[u8]) -> Option<String> {
    serde_json::from_slice(answer).ok().map(|traced| shown(&traced))
}

/// Writes who sent what to whom and when, and then what happened to it, for one recipient after the other in the order in which they
/// got it.
fn shown(traced: &Traced) -> String {
    let Traced {
        id,
        from,
        to,
        kind,
        accepted_at,
        mode,
        priority,
        deadline,
        steps,
    } = traced;
    let mut text = format!(
        "{}  {}  {} → {}\naccepted {}\n",
        visible(id),
        visible(kind),
        visible(from),
        visible(to),
        visible(&moment(accepted_at, "%Y-%m-%d %H:%M:%S%.3f")),
    );
    // Of how its agents have it, where its sender did not say, their steps tell.
    let mode = mode.as_deref().unwrap_or("immediate");
    if let Some(priority) = priority
        && (mode, priority.as_str()) != ("immediate", "normal")
    {
        let _ = writeln!(text, "{}, {}", visible(mode), visible(priority));
    }
    if let Some(deadline) = deadline {
        let deadline = moment(deadline, "%Y-%m-%d %H:%M:%S%.3f");
        let _ = writeln!(text, "for nobody from {} on", visible(&deadline));
    }
    if steps.is_empty() {
        text.push_str("it went to nobody\n");
    }
    let day = |ts: &str| moment(ts, "%Y-%m-%d");
    let one_day = steps.iter().all(|step| day(&step.at) == day(accepted_at));
    let format = if one_day {
        "%H:%M:%S%.3f"
    } else {
        "%Y-%m-%d %H:%M:%S%.3f"
    };
    // Who was handed on what a worker had not read is one from then on.
    let mut named = std::collections::BTreeSet::new();
    let mut recipients: Vec<&Step> = Vec::new();
    for step in steps {
        if (step.step == "queued" || step.step == "handed_on") && named.insert(&step.agent) {
            recipients.push(step);
        }
    }
    let recipients: Vec<(&Step, String)> = recipients
        .into_iter()
        .map(|step| (step, format!("{} #{}", visible(&step.agent), step.seq)))
        .collect();
    let widths = recipients.iter().map(|(_, label)| label.chars().count());
    let width = widths
        .filter(|width| *width <= LABEL_WIDTH_MAX)
        .max()
        .unwrap_or(0);
    for (recipient, label) in &recipients {
        let mut label = label.as_str();
        if label.chars().count() > width {
            let _ = writeln!(text, "  {label}");
            label = "";
        }
        let mut before = "";
        let mut is_taken = false;
        for step in steps.iter().filter(|step| step.agent == recipient.agent) {
            let at = moment(&step.at, format);
            if step.step == "handed_over" {
                is_taken = step.taken_by.is_some();
            }
            let said = said(step, before, is_taken);
            let _ = writeln!(text, "  {label:width$}  {}  {}", visible(&at), visible(&said));
            label = "";
            if step.step != "marked_read" {
                before = &step.step;
            }
        }
    }
    text
}

/// Says what happened, behind another step. What the person took out of an agent's inbox, that agent does not have.
fn said(step: &Step, before: &str, is_taken: bool) -> String {
    let why = step.by.as_deref().map(sign);
    match (step.step.as_str(), why) {
        ("mode_of_agent", _) => format!(
            "brought {}, as its agent has it",
            step.mode.as_deref().unwrap_or("otherwise")
        ),
        ("handed_over", _) if is_taken => format!("you took it from {}'s inbox", step.agent),
        ("delivered", _) if is_taken => "taken by you: its agent will not see it".to_owned(),
        ("handed_over", _) => format!(
            "handed over to session {} ({})",
            step.session.unwrap_or_default(),
            step.over.as_deref().unwrap_or_default()
        ),
        ("receipt_awaited", _) => "its agent has it; a receipt is awaited".to_owned(),
        ("receipted", _) => "its agent is done with it".to_owned(),
        ("accepted", _) => {
            let again = if step.retryable == Some(true) {
                " (it might be done another time)"
            } else {
                ""
            };
            format!("its agent has taken responsibility for it, and has not shown it yet{again}")
        }
        ("delivered", _) if before == "accepted" => "arrived: it is its agent's to show".to_owned(),
        ("held", Some(by)) => format!("held: {by}"),
        ("allowed", _) => "let pass by you".to_owned(),
        ("dropped", _) => "dropped by you: nobody will be handed it".to_owned(),
        ("expired", _) => "expired: nobody was handed it before its deadline".to_owned(),
        ("handed_on", _) => {
            let from = step.from.as_deref().unwrap_or_default();
            format!("handed on: {from} was released or did not start, and had not read it")
        }
        ("asked_again", _) => {
            let after = step.after.as_deref().unwrap_or_default();
            let after = after.get(..8).unwrap_or(after);
            format!("back in the inbox: its agent asked for what came after {after}")
        }
        ("marked_read", _) => "its agent says that it has read it".to_owned(),
        ("failed", _) => {
            let again = if step.retryable == Some(true) {
                " (it might be done another time)"
            } else {
                ""
            };
            format!("failed{again}{}", because(step))
        }
        ("push_failed", _) => {
            let again = moment(step.until.as_deref().unwrap_or_default(), "%H:%M:%S");
            format!("its target did not take it{}; again at {again}", because(step))
        }
        ("given_up", _) => format!("given up{}; relay redrive sends it again", because(step)),
        ("deferred", _) => {
            let until = step.until.as_deref().unwrap_or_default();
            format!(
                "deferred until {}{}",
                moment(until, "%Y-%m-%d %H:%M:%S%.3f"),
                because(step)
            )
        }
        ("undone", _) if step.by.as_deref() == Some("doubt_over") => {
            "undone: nothing was heard of it for too long".to_owned()
        }
        // By what was said to have been read, or by the receipt.
        ("delivered", Some(_)) if before == "read" || before == "receipted" => "delivered".to_owned(),
        (step, Some(why)) => format!("{step}: {why}"),
        (step, None) => step.to_owned(),
    }
}

/// Says what a sign means.
pub(super) fn sign(by: &str) -> &str {
    match by {
        "all" => "you hold all messages",
        "to" => "you hold what its agent gets",
        "from" => "you hold what its sender sends",
        "followed" => "more came over its connection",
        "called_again" => "the session called again",
        "acknowledged" => "it was acknowledged",
        "kept_alive" => "a keep-alive followed",
        "not_taken" => "its target did not take it",
        "given_up" => "its target did not take it, however often",
        "seen" => "its agent names a message of it as seen",
        "unseen" => "its agent has not seen it",
        "redriven" => "you have asked for it",
        "doubt_over" => "its connection lived on",
        "ended" => "its connection was closed",
        "broken" => "its connection broke",
        "taken_over" => "its reader holds it no more",
        "cancelled" => "its call was cancelled",
        "lost" => "it did not get there",
        "receipted" => "its agent is done with it",
        "deferral_over" => "its agent wants it from now on",
        other => other,
    }
}

/// Says why, if its agent did.
fn because(step: &Step) -> String {
    step.reason
        .as_deref()
        .map_or_else(String::new, |reason| format!(": {reason}"))
}

/// Writes a moment as this machine's clock shows it.
pub(super) fn moment(ts: &str, format: &str) -> String {
    match DateTime::parse_from_rfc3339(ts) {
        Ok(time) => time.with_timezone(&Local).format(format).to_string(),
        Err(_) => ts.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: &str, agent: &str, step: &str, by: Option<&str>) -> Step {
        Step {
            at: at.to_owned(),
            agent: agent.to_owned(),
            seq: 7,
            step: step.to_owned(),
            session: Some(12_345),
            over: Some("http".to_owned()),
            taken_by: None,
            by: by.map(str::to_owned),
            mode: None,
            reason: None,
            retryable: None,
            until: None,
            from: None,
            after: None,
        }
    }

    fn traced(steps: Vec<Step>) -> Traced {
        Traced {
            id: "3f2a91c0-5d1e-4a7b-9c3d-1f2e3d4c5b6a".to_owned(),
            from: "pm".to_owned(),
            to: "@everyone".to_owned(),
            kind: "question".to_owned(),
            accepted_at: "no time".to_owned(),
            mode: None,
            priority: None,
            deadline: None,
            steps,
        }
    }

    #[test]
    fn who_was_handed_on_what_a_worker_had_not_read_has_a_block_too() {
        let handed_on = Step {
            from: Some("w1".to_owned()),
            ..step("t1", "dev-a", "handed_on", None)
        };
        let steps = vec![
            step("t0", "w1", "queued", None),
            step("t0", "dev-b", "queued", None),
            handed_on.clone(),
            Step {
                agent: "dev-b".to_owned(),
                ..handed_on
            },
            step("t2", "dev-a", "delivered", Some("called_again")),
        ];
        let shown = shown(&traced(steps));
        let expected = "  w1 #7     t0  queued\n  dev-b #7  t0  queued\n            t1  handed on: w1 was released or did not start, and had not read it\n  \
                        dev-a #7  t1  handed on: w1 was released or did not start, and had not read it\n            t2  delivered";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn each_recipient_has_a_block_and_a_long_name_a_line_of_its_own() {
        let long = "a-name-of-quite-some-length";
        let steps = vec![
            step("t0", "dev-a", "queued", None),
            step("t0", "dev-b", "queued", None),
            step("t0", long, "queued", None),
            step("t1", "dev-b", "handed_over", None),
            step("t2", "dev-a", "handed_over", None),
            step("t3", "dev-b", "read", Some("called_again")),
            step("t4", "dev-a", "undone", Some("broken")),
            step("t4", "dev-b", "marked_read", None),
            step("t5", "dev-b", "delivered", Some("called_again")),
            step("t6", "dev-a", "delivered", Some("new\u{1b}")),
        ];
        let expected = "\
3f2a91c0-5d1e-4a7b-9c3d-1f2e3d4c5b6a  question  pm → @everyone
accepted no time
  dev-a #7  t0  queued
            t2  handed over to session 12345 (http)
            t4  undone: its connection broke
            t6  delivered: new\\u{1b}
  dev-b #7  t0  queued
            t1  handed over to session 12345 (http)
            t3  read: the session called again
            t4  its agent says that it has read it
            t5  delivered
  a-name-of-quite-some-length #7
            t0  queued
";
        assert_eq!(shown(&traced(steps)), expected);
        assert!(shown(&traced(Vec::new())).ends_with("accepted no time\nit went to nobody\n"));
    }

    #[test]
    fn what_an_agent_or_a_target_says_stands_behind_what_became_of_it() {
        let words = |kind: &str, retryable: Option<bool>, reason: Option<&str>| {
            let step = Step {
                reason: reason.map(str::to_owned),
                retryable,
                until: Some("later".to_owned()),
                ..step("t0", "dev-a", kind, None)
            };
            said(&step, "handed_over", false)
        };
        assert_eq!(words("failed", Some(false), Some("no")), "failed: no");
        assert_eq!(words("failed", None, None), "failed");
        assert_eq!(
            words("failed", Some(true), Some("no")),
            "failed (it might be done another time): no"
        );
        assert_eq!(
            words("deferred", None, Some("busy")),
            "deferred until later: busy"
        );
        assert_eq!(
            words("push_failed", None, Some("HTTP 500")),
            "its target did not take it: HTTP 500; again at later"
        );
        assert_eq!(
            words("given_up", None, Some("HTTP 500")),
            "given up: HTTP 500; relay redrive sends it again"
        );
    }

    #[test]
    fn what_came_back_from_the_person_and_was_handed_to_its_agent_is_its_agents() {
        let taken = Step {
            taken_by: Some("user".to_owned()),
            ..step("t1", "dev-a", "handed_over", None)
        };
        let shown = shown(&traced(vec![
            step("t0", "dev-a", "queued", None),
            taken,
            step("t2", "dev-a", "undone", Some("broken")),
            step("t3", "dev-a", "handed_over", None),
            step("t4", "dev-a", "delivered", None),
        ]));
        let expected = "  dev-a #7  t0  queued\n            t1  you took it from dev-a's inbox\n            t2  undone: its connection broke\n            \
                        t3  handed over to session 12345 (http)\n            t4  delivered\n";
        assert!(shown.ends_with(expected), "{shown}");
    }

    #[test]
    fn it_says_by_which_message_an_agent_asked_for_another_again() {
        let asked = Step {
            after: Some("3f2a91c0-5d1e-4a7b-9c3d-1f2e3d4c5b6a".to_owned()),
            ..step("t0", "dev-a", "asked_again", None)
        };
        assert_eq!(
            said(&asked, "delivered", false),
            "back in the inbox: its agent asked for what came after 3f2a91c0"
        );
        let undone = step("t0", "dev-a", "undone", Some("unseen"));
        assert_eq!(
            said(&undone, "handed_over", false),
            "undone: its agent has not seen it"
        );
    }

    #[test]
    fn it_says_how_a_message_was_to_be_brought_where_there_is_more_to_say() {
        let plain = traced(vec![
            step("t0", "dev-a", "queued", None),
            step("t1", "dev-a", "expired", None),
        ]);
        let held = Traced {
            mode: Some("manual".to_owned()),
            priority: Some("normal".to_owned()),
            deadline: Some("t1".to_owned()),
            ..plain
        };
        let expected = "\
3f2a91c0-5d1e-4a7b-9c3d-1f2e3d4c5b6a  question  pm → @everyone
accepted no time
manual, normal
for nobody from t1 on
  dev-a #7  t0  queued
            t1  expired: nobody was handed it before its deadline
";
        assert_eq!(shown(&held), expected);
        let usual = Traced {
            mode: Some("immediate".to_owned()),
            priority: Some("normal".to_owned()),
            ..traced(Vec::new())
        };
        assert_eq!(shown(&usual), shown(&traced(Vec::new())));
    }

    #[test]
    fn the_longest_lines_fit_into_80_columns_and_name_the_day_where_it_is_another() {
        let days = ["2026-05-02T12:00:00.000Z", "2026-05-04T12:00:00.000Z"];
        let words = [
            "followed",
            "called_again",
            "kept_alive",
            "doubt_over",
            "ended",
            "broken",
            "taken_over",
            "cancelled",
            "lost",
        ];
        let mut steps = vec![step(days[0], "fourteen-chars", "queued", None)];
        steps.push(step(days[1], "fourteen-chars", "handed_over", None));
        for by in words {
            steps.push(step(days[1], "fourteen-chars", "read", Some(by)));
            steps.push(step(days[1], "fourteen-chars", "undone", Some(by)));
        }
        steps.push(step(days[1], "fourteen-chars", "delivered", Some("doubt_over")));
        steps.push(step(days[1], "fourteen-chars", "delivered", Some("kept_alive")));
        let mut traced = traced(steps);
        traced.accepted_at = days[0].to_owned();
        for line in shown(&traced).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(shown(&traced).contains("  2026-05-0"));
        traced.steps.truncate(1);
        assert!(!shown(&traced).contains("  2026-05-0"));
    }

    #[test]
    fn each_sign_and_each_step_has_its_words() {
        for (by, words) in [
            ("all", "you hold all messages"),
            ("to", "you hold what its agent gets"),
            ("from", "you hold what its sender sends"),
            ("followed", "more came over its connection"),
            ("called_again", "the session called again"),
            ("acknowledged", "it was acknowledged"),
            ("kept_alive", "a keep-alive followed"),
            ("not_taken", "its target did not take it"),
            ("given_up", "its target did not take it, however often"),
            ("seen", "its agent names a message of it as seen"),
            ("unseen", "its agent has not seen it"),
            ("redriven", "you have asked for it"),
            ("doubt_over", "its connection lived on"),
            ("ended", "its connection was closed"),
            ("broken", "its connection broke"),
            ("taken_over", "its reader holds it no more"),
            ("cancelled", "its call was cancelled"),
            ("lost", "it did not get there"),
            ("receipted", "its agent is done with it"),
            ("deferral_over", "its agent wants it from now on"),
            ("of_another_version", "of_another_version"),
        ] {
            assert_eq!(sign(by), words);
        }
        for (kind, by, before, words) in [
            (
                "receipt_awaited",
                None,
                "handed_over",
                "its agent has it; a receipt is awaited",
            ),
            ("receipted", None, "receipt_awaited", "its agent is done with it"),
            ("delivered", Some("receipted"), "receipted", "delivered"),
            (
                "accepted",
                None,
                "receipt_awaited",
                "its agent has taken responsibility for it, and has not shown it yet",
            ),
            (
                "delivered",
                Some("receipted"),
                "accepted",
                "arrived: it is its agent's to show",
            ),
            (
                "delivered",
                Some("ended"),
                "handed_over",
                "delivered: its connection was closed",
            ),
            ("held", Some("all"), "queued", "held: you hold all messages"),
            ("allowed", None, "held", "let pass by you"),
            (
                "undone",
                Some("doubt_over"),
                "handed_over",
                "undone: nothing was heard of it for too long",
            ),
        ] {
            assert_eq!(
                said(&step("t0", "dev-a", kind, by), before, false),
                words,
                "{kind}"
            );
        }
    }

    #[test]
    fn a_name_that_just_fits_stands_before_its_line_and_what_is_urgent_is_said_to_be() {
        let urgent = Traced {
            priority: Some("high".to_owned()),
            ..traced(vec![step("t0", "thirteen-char", "queued", None)])
        };
        let shown = shown(&urgent);
        let expected = "accepted no time\nimmediate, high\n  thirteen-char #7  t0  queued\n";
        assert!(shown.ends_with(expected), "{shown}");
    }
}

//! `relay tail`: what happens, as it does, in any terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use chrono::{DateTime, Local};
use futures_util::StreamExt as _;
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::client::{At, Client, ClientError};
use super::messages::{check_stdout, json_line, with_local_times, write_stdout};
use super::person::{NotThePerson, require_no_agent};
use super::trace::{moment, sign};
use super::{End, Failure, block_on, say};
use crate::engine::limits::ID_DIGITS_MIN;
use crate::engine::{Kind, Timestamp};
use crate::server::{Line, Lines};
use crate::terminal::{preview, visible};

/// How long nothing may come, not even a ping, before the connection counts as broken: relay pings every 15 s.
const SILENCE: Duration = Duration::from_secs(60);

/// How often a relay is looked for that has gone away.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How much of a reason a line shows, in characters as a reader counts them.
const REASON_CHARACTERS: usize = 60;

/// `relay tail`.
#[derive(Debug, clap::Args)]
pub struct Tail {
    /// Print each event as JSON, one a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why nothing more is shown.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// An agent may run it, to whom it would tell what others say, and what the person holds.
    #[error("{0}, and all that is said is shown to the person alone; read your own inbox")]
    NotShown(NotThePerson),
    /// stdout did not take it.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] io::Error),
    /// The relay does not show it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<TailError> for Failure {
    fn from(error: TailError) -> Self {
        let text = format!("relay tail: {error}");
        match error {
            TailError::NotShown(_) => Self::usage(text),
            TailError::Stdout(_) | TailError::Client(_) => Self::error(text),
        }
    }
}

/// Shows what happens until it is interrupted, or nobody reads it any more.
pub fn run(args: &Tail) -> Result<End, Failure> {
    match block_on(tail(args))? {
        Err(TailError::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(End::Done),
        Err(error) => Err(error.into()),
        Ok(never) => match never {},
    }
}

/// How far a reader has come.
#[derive(Default)]
struct Had {
    /// In which life of the relay.
    boot: Option<String>,
    /// The number of the latest event, or of the one behind which it began.
    seq: Option<u64>,
}

impl Had {
    /// Says what is asked for of a relay, so that nothing is shown twice and nothing is left out.
    fn path(&self) -> String {
        match self.seq {
            None => "/api/tail".to_owned(),
            Some(since) => format!("/api/tail?since={since}"),
        }
    }
}

async fn tail(args: &Tail) -> Result<std::convert::Infallible, TailError> {
    require_no_agent().map_err(TailError::NotShown)?;
    check_stdout()?;
    let mut shown = Shown {
        json: args.json,
        is_another: false,
        lines: Lines::new(Local, io::stdout().is_terminal()),
    };
    let mut had = Had::default();
    let mut ended = follow(&args.at, &mut had, &mut shown).await?;
    loop {
        say(&format!(
            "relay tail: {}; it goes on as soon as relay answers",
            visible(&ended)
        ));
        loop {
            sleep(LOOK_EVERY).await;
            match follow(&args.at, &mut had, &mut shown).await {
                Ok(reason) => {
                    ended = reason;
                    break;
                }
                Err(TailError::Client(error)) if error.is_away() => {}
                // It counts from a clock that was set back.
                Err(TailError::Client(ClientError::Refused { .. })) if had.seq.is_some_and(|seq| seq > 0) => {
                    had.seq = Some(0);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Shows what comes over one connection, until it ends; returns why.
async fn follow(at: &At, had: &mut Had, shown: &mut Shown) -> Result<String, TailError> {
    let client = Client::find(at).await?;
    let boot = client.health.boot.clone();
    let (mut socket, seq) = client.listen(&had.path()).await?;
    had.seq = had.seq.or(seq);
    shown.is_another = had.boot.is_some() && had.boot != boot;
    had.boot = boot;
    if shown.is_another && !shown.json {
        write_stdout("[relay] relay was started anew\n")?;
    }
    // What has come is written together, so that a burst costs one write.
    let mut text = String::new();
    let mut ended = "the connection to relay has ended".to_owned();
    while let Ok(Some(Ok(message))) = timeout(SILENCE, socket.next()).await {
        let mut next = Some(message);
        while let Some(message) = next {
            match message {
                Message::Text(json) => had.seq = shown.write(&json, &mut text).or(had.seq),
                Message::Close(Some(close)) => ended = close.reason.to_string(),
                Message::Close(None)
                | Message::Binary(_)
                | Message::Ping(_)
                | Message::Pong(_)
                | Message::Frame(_) => {}
            }
            next = match futures_util::poll!(socket.next()) {
                std::task::Poll::Ready(Some(Ok(message))) => Some(message),
                std::task::Poll::Ready(_) | std::task::Poll::Pending => None,
            };
        }
        if !text.is_empty() {
            write_stdout(&text)?;
            text.clear();
        }
    }
    Ok(ended)
}

/// How events are shown.
struct Shown {
    json: bool,
    /// The relay is another one than before.
    is_another: bool,
    lines: Lines<Local>,
}

/// What is read of an event. What is not there is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    r#type: String,
    seq: Option<u64>,
    created_at: String,
    id: String,
    to: String,
    kind: String,
    message: Body,
    message_id: String,
    agent_name: String,
    from_name: String,
    by: String,
    available_at: String,
    reason: Option<String>,
    error: Option<String>,
    emoji: String,
    action: String,
    action_name: String,
    caller_name: String,
    handler_name: String,
    channel: String,
    agent: Named,
    node: Named,
    holds_agents: bool,
    handed_on_by: String,
    parent_name: String,
    released_by: String,
    status: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    agent_name: String,
    text: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

impl Shown {
    /// Writes an event, if it is one that is shown, and returns its number.
    fn write(&mut self, json: &str, text: &mut String) -> Option<u64> {
        let event: Event = serde_json::from_str(json).ok()?;
        if self.json {
            text.push_str(&json_line(json));
            return event.seq;
        }
        let at = DateTime::parse_from_rfc3339(&event.created_at);
        let at = Timestamp::from_millis(at.map_or(0, |at| at.timestamp_millis()));
        if event.r#type == "events.missed" {
            // Of another one that is told already, and it is all that there is to it.
            if !self.is_another {
                text.push_str("[relay] some of what has happened is forgotten, and not shown\n");
            }
        } else if let Some(kind) = Kind::parse(&event.kind) {
            let line = Line {
                from: &visible(&event.message.agent_name),
                to: &visible(&event.to),
                kind,
                body: &event.message.text,
                at,
            };
            self.lines.write(&line, text);
            let _ = writeln!(text, "  {}", short(&event.id));
        } else if let Some(said) = said(&event) {
            let _ = writeln!(
                text,
                "[{}]   {}",
                self.lines.time(at),
                visible(&with_local_times(&said))
            );
        }
        event.seq
    }
}

/// Says in words what an event is about that is no message and none of its deliveries; nothing if it is one of these, or not shown.
pub(super) fn note(json: &str) -> Option<String> {
    let event: Event = serde_json::from_str(json).ok()?;
    let is_of_message = event.r#type.starts_with("delivery.") || !event.kind.is_empty();
    let said = (!is_of_message).then(|| said(&event)).flatten()?;
    Some(with_local_times(&said).into_owned())
}

/// Says what has happened, but that a message was accepted; nothing for what goes as it should and is not at its end.
fn said(event: &Event) -> Option<String> {
    let Event {
        agent_name,
        from_name,
        by,
        emoji,
        channel,
        ..
    } = event;
    let id = short(&event.message_id);
    let delivery = || format!("{agent_name} ← {from_name} {id}");
    Some(match event.r#type.as_str() {
        "delivery.delivered" => format!("{} delivered", delivery()),
        "delivery.undone" => format!("{} waits again: {}", delivery(), sign(by)),
        "delivery.asked_again" => format!("{} waits again: its agent asked for it", delivery()),
        "delivery.deferred" => {
            let until = moment(&event.available_at, "%Y-%m-%d %H:%M:%S");
            format!(
                "{} deferred until {until}{}",
                delivery(),
                because(event.reason.as_deref())
            )
        }
        "delivery.held" => format!("{} held: {}", delivery(), sign(by)),
        "delivery.allowed" => format!("{} let pass by you", delivery()),
        "delivery.dropped" => format!("{} dropped by you", delivery()),
        "delivery.expired" => format!("{} expired: nobody was handed it before its deadline", delivery()),
        "delivery.failed" => format!("{} failed{}", delivery(), because(event.error.as_deref())),
        "message.read" => format!("{agent_name} says that it has read {id}"),
        "message.reacted" if event.action == "removed" => {
            format!("{agent_name} takes {emoji} back from {id}")
        }
        "message.reacted" => format!("{agent_name} puts {emoji} to {id}"),
        "action.invoked" => format!(
            "{} asks {} for {}",
            event.caller_name, event.handler_name, event.action_name
        ),
        "action.completed" => format!(
            "{} has done {} for {}",
            event.handler_name, event.action_name, event.caller_name
        ),
        "action.failed" => format!(
            "{} for {} failed{}",
            event.action_name,
            event.caller_name,
            because(event.error.as_deref())
        ),
        "action.denied" => format!("{} is not available to {}", event.action_name, event.caller_name),
        "delivery.handed_on" => format!(
            "{agent_name} gets {id}, which {} had not read",
            event.handed_on_by
        ),
        "worker.asked" => format!("{} is to be a worker of {}", event.agent.name, event.parent_name),
        "worker.started" => format!("worker {} runs", event.agent.name),
        "worker.ready" => format!("worker {} is ready", event.agent.name),
        "worker.silent" => format!("worker {} has not spoken yet", event.agent.name),
        "worker.late" => format!("worker {} has not started in time", event.agent.name),
        "worker.failed" => format!(
            "worker {} has not started{}",
            event.agent.name,
            because(event.reason.as_deref())
        ),
        "worker.released" => format!(
            "{} releases worker {}{}",
            event.released_by,
            event.agent.name,
            because(event.reason.as_deref())
        ),
        "worker.exited" => format!("worker {} has ended ({})", event.agent.name, event.status),
        "agent.status.active" => format!("{} is there", event.agent.name),
        "agent.status.offline" => format!("{} is gone", event.agent.name),
        "agent.taken_over" => format!("{} was taken over by a later instance", event.agent.name),
        "member.joined" => format!("{agent_name} has joined #{channel}"),
        "member.left" => format!("{agent_name} has left #{channel}"),
        "node.status.online" => format!("node {} is connected", event.node.name),
        "node.status.offline" if event.holds_agents => {
            format!("node {} has lost its connection", event.node.name)
        }
        "node.status.offline" => format!(
            "node {} is gone; what it did not acknowledge is in the inboxes",
            event.node.name
        ),
        _ => return None,
    })
}

fn because(reason: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(reason) = reason {
        text.push_str(": ");
        preview(reason, REASON_CHARACTERS, &mut text);
    }
    text
}

/// Returns as much of an id as names a message.
fn short(id: &str) -> &str {
    id.get(..ID_DIGITS_MIN).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(kind: &str, mut event: Value) -> Option<String> {
        event["type"] = kind.into();
        said(&serde_json::from_value(event).expect("an event"))
    }

    #[test]
    fn a_time_in_what_is_said_is_that_of_this_machines_clock() {
        let moment = "2026-05-02T14:30:00.000Z";
        let event = json!({
            "type": "worker.failed", "created_at": moment, "agent": {"name": "w1"},
            "reason": format!("busy since {moment}"),
        });
        let local = crate::cli::messages::local_time(moment);
        let said = format!("worker w1 has not started: busy since {local}");
        assert_eq!(note(&event.to_string()).as_ref(), Some(&said));
        let mut shown = Shown {
            json: false,
            is_another: false,
            lines: Lines::new(Local, false),
        };
        let mut text = String::new();
        shown.write(&event.to_string(), &mut text);
        assert_eq!(text, format!("[{}]   {said}\n", &local[11..]));
    }

    #[test]
    fn each_event_has_its_words() {
        let delivery = |more: Value| {
            let mut event = json!({"agent_name": "bob", "from_name": "pm", "message_id": "3f2a91c0-5d1e-4a7b-9c3d-1f2e3d4c5b6a"});
            for (field, value) in more.as_object().expect("an object") {
                event[field] = value.clone();
            }
            event
        };
        let action = json!({"caller_name": "pm", "handler_name": "bob", "action_name": "sum", "error": "no"});
        let agent = json!({"agent": {"name": "bob"}});
        let member = json!({"agent_name": "bob", "channel": "ops"});
        let node = |holds: bool| json!({"node": {"name": "fleet"}, "holds_agents": holds});
        for (kind, event, words) in [
            (
                "delivery.delivered",
                delivery(json!({})),
                "bob ← pm 3f2a91c0 delivered",
            ),
            (
                "delivery.undone",
                delivery(json!({"by": "lost"})),
                "bob ← pm 3f2a91c0 waits again: it did not get there",
            ),
            (
                "delivery.asked_again",
                delivery(json!({})),
                "bob ← pm 3f2a91c0 waits again: its agent asked for it",
            ),
            (
                "delivery.deferred",
                delivery(json!({"available_at": "later", "reason": "busy"})),
                "bob ← pm 3f2a91c0 deferred until later: busy",
            ),
            (
                "delivery.expired",
                delivery(json!({})),
                "bob ← pm 3f2a91c0 expired: nobody was handed it before its deadline",
            ),
            (
                "delivery.failed",
                delivery(json!({"error": "HTTP 500"})),
                "bob ← pm 3f2a91c0 failed: HTTP 500",
            ),
            ("delivery.failed", delivery(json!({})), "bob ← pm 3f2a91c0 failed"),
            (
                "message.read",
                delivery(json!({})),
                "bob says that it has read 3f2a91c0",
            ),
            (
                "message.reacted",
                delivery(json!({"emoji": "👍", "action": "added"})),
                "bob puts 👍 to 3f2a91c0",
            ),
            (
                "message.reacted",
                delivery(json!({"emoji": "👍", "action": "removed"})),
                "bob takes 👍 back from 3f2a91c0",
            ),
            ("action.invoked", action.clone(), "pm asks bob for sum"),
            ("action.completed", action.clone(), "bob has done sum for pm"),
            ("action.failed", action.clone(), "sum for pm failed: no"),
            ("action.denied", action, "sum is not available to pm"),
            ("agent.status.active", agent.clone(), "bob is there"),
            ("agent.status.offline", agent.clone(), "bob is gone"),
            (
                "agent.taken_over",
                agent,
                "bob was taken over by a later instance",
            ),
            ("member.joined", member.clone(), "bob has joined #ops"),
            ("member.left", member, "bob has left #ops"),
            ("node.status.online", node(true), "node fleet is connected"),
            (
                "node.status.offline",
                node(true),
                "node fleet has lost its connection",
            ),
            (
                "node.status.offline",
                node(false),
                "node fleet is gone; what it did not acknowledge is in the inboxes",
            ),
        ] {
            assert_eq!(told(kind, event).as_deref(), Some(words), "{kind}");
        }
        for kind in ["delivery.accepted", "harness.turn.started", "of.another.version"] {
            assert_eq!(told(kind, json!({})), None, "{kind}");
        }
    }

    #[test]
    fn that_something_is_forgotten_is_told_unless_another_start_was_told_of_already() {
        let missed = json!({"type": "events.missed", "seq": 3, "created_at": "2026-05-02T14:30:00.000Z"});
        let told = "[relay] some of what has happened is forgotten, and not shown\n";
        for (is_another, expected) in [(false, told), (true, "")] {
            let mut shown = Shown {
                json: false,
                is_another,
                lines: Lines::new(Local, false),
            };
            let mut text = String::new();
            assert_eq!(shown.write(&missed.to_string(), &mut text), Some(3));
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn each_event_of_a_worker_and_of_a_hold_has_its_words() {
        let delivery = |more: Value| {
            let mut event = json!({"agent_name": "bob", "from_name": "pm", "message_id": "3f2a91c0-5d1e-4a7b-9c3d-1f2e3d4c5b6a"});
            for (field, value) in more.as_object().expect("an object") {
                event[field] = value.clone();
            }
            event
        };
        let worker = json!({
            "agent": {"name": "w1"}, "parent_name": "pm", "released_by": "user", "status": "exit code 3", "reason": "enough",
        });
        for (kind, event, words) in [
            (
                "delivery.held",
                delivery(json!({"by": "all"})),
                "bob ← pm 3f2a91c0 held: you hold all messages",
            ),
            (
                "delivery.allowed",
                delivery(json!({})),
                "bob ← pm 3f2a91c0 let pass by you",
            ),
            (
                "delivery.dropped",
                delivery(json!({})),
                "bob ← pm 3f2a91c0 dropped by you",
            ),
            (
                "delivery.handed_on",
                delivery(json!({"handed_on_by": "w1"})),
                "bob gets 3f2a91c0, which w1 had not read",
            ),
            ("worker.asked", worker.clone(), "w1 is to be a worker of pm"),
            ("worker.started", worker.clone(), "worker w1 runs"),
            ("worker.ready", worker.clone(), "worker w1 is ready"),
            ("worker.silent", worker.clone(), "worker w1 has not spoken yet"),
            ("worker.late", worker.clone(), "worker w1 has not started in time"),
            (
                "worker.failed",
                worker.clone(),
                "worker w1 has not started: enough",
            ),
            (
                "worker.released",
                worker.clone(),
                "user releases worker w1: enough",
            ),
            ("worker.exited", worker, "worker w1 has ended (exit code 3)"),
        ] {
            assert_eq!(told(kind, event).as_deref(), Some(words), "{kind}");
        }
    }
}

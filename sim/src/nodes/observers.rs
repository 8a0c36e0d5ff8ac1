//! Observers: programs that look on over `/api/tail`, come back where they were, and must be told of each event once and in order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use relay::engine::invocations::Progress;
use relay::engine::nodes::NodeView;
use relay::engine::receipts::Receipt;
use relay::engine::{AgentName, Effect, Event, Message, ResolvedBy, Sign};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::bug::Bug;
use super::history::{Log, Observed};
use crate::client::{SERVER, now_ms};
use crate::marks::Marks;
use crate::net::{ClientIo, Ledger};

/// How long nothing may come before the connection counts as broken: relay pings every 15 s.
const SILENCE: Duration = Duration::from_secs(40);

/// How long an observer waits before it comes back.
const ASK_AGAIN: Duration = Duration::from_millis(700);

/// The number of the latest event that each observer has had: on its disk, so that it is there when its machine comes back.
pub type Had = Arc<Vec<Mutex<Option<u64>>>>;

/// The program of an observer.
pub async fn observer(number: usize, had: Had, log: Log, marks: Marks, ledger: Ledger) {
    loop {
        let since = *had[number].lock().expect("a run has one thread");
        follow(number, since, &had, &log, &marks, &ledger).await;
        sleep(ASK_AGAIN).await;
    }
}

/// Looks on over one connection, until it ends.
async fn follow(number: usize, since: Option<u64>, had: &Had, log: &Log, marks: &Marks, ledger: &Ledger) {
    let query = since.map_or_else(String::new, |since| format!("?since={since}"));
    let url = format!("ws://localhost:{}/api/tail{query}", SERVER.1);
    let Ok(io) = ClientIo::connect_from_anywhere(SERVER, ledger.clone()).await else {
        return;
    };
    let Ok(Ok((mut socket, _))) = timeout(SILENCE, client_async(url, io)).await else {
        return;
    };
    log.trace(
        now_ms(),
        format_args!("observer {number} looks on from {since:?}"),
    );
    let mut is_first = true;
    while let Ok(Some(Ok(frame))) = timeout(SILENCE, socket.next()).await {
        let Frame::Text(text) = frame else { continue };
        let event: Value = serde_json::from_str(&text).expect("an event is JSON");
        let seq = event["seq"].as_u64().expect("each has its number");
        if event["type"] == "events.missed" {
            marks.hit("observer missed events");
            *had[number].lock().expect("a run has one thread") = Some(seq);
            continue;
        }
        marks.hit_if(
            is_first && since.is_some_and(|since| seq == since + 1),
            "observer went on where it was",
        );
        is_first = false;
        *had[number].lock().expect("a run has one thread") = Some(seq);
        let observed = Observed {
            observer: number,
            seq,
            what: read(&event),
        };
        log.trace(now_ms(), format_args!("{observed:?}"));
        log.history().observed.push(observed);
    }
}

/// Names an event as it came.
fn read(event: &Value) -> String {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str);
    let words = [
        "/type",
        "/id",
        "/message_id",
        "/channel",
        "/agent_name",
        "/agent/name",
        "/node/name",
        "/invocation_id",
    ];
    let is_message = event.pointer("/message").is_some();
    let words = words
        .iter()
        .filter(|path| !(is_message && **path == "/channel"))
        .filter_map(|path| text(path));
    words.collect::<Vec<&str>>().join(" ")
}

/// Names what an observer is to be told of an event of the engine's, in the same words.
pub fn told(event: &Event) -> Vec<String> {
    let step =
        |kind: &str, message: &Message, agent: &AgentName| format!("delivery.{kind} {} {agent}", message.id);
    let node = |kind: &str, node: &NodeView| {
        let name = match &node.own {
            Some(own) => format!("direct-agt_{own}"),
            None => node.name.clone(),
        };
        format!("node.status.{kind} {name}")
    };
    match event {
        Event::Accepted { message, agents, .. } => {
            let kind = match message.to.by() {
                ResolvedBy::Channel => "message.created",
                ResolvedBy::Name => "dm.received",
                ResolvedBy::Role | ResolvedBy::Group | ResolvedBy::Broadcast | ResolvedBy::List => {
                    "group_dm.received"
                }
            };
            let first = format!("{kind} {}", message.id);
            let accepted = agents.iter().map(|agent| step("accepted", message, agent));
            std::iter::once(first).chain(accepted).collect()
        }
        Event::Confirmed { by: Sign::Failed, .. } => Vec::new(),
        Event::Confirmed {
            agent, deliveries, ..
        } => {
            let all = deliveries.iter();
            all.map(|delivery| step("delivered", &delivery.message, agent))
                .collect()
        }
        Event::Undone {
            agent, deliveries, ..
        } => {
            let all = deliveries.iter();
            all.map(|delivery| step("undone", &delivery.message, agent))
                .collect()
        }
        Event::Receipt {
            agent,
            deliveries,
            receipt,
            ..
        } => {
            let kind = match receipt {
                Receipt::Done | Receipt::Accepted { .. } => return Vec::new(),
                Receipt::Failed { .. } => "failed",
                Receipt::Deferred { .. } => "deferred",
            };
            let all = deliveries.iter();
            all.map(|delivery| step(kind, &delivery.message, agent)).collect()
        }
        Event::AskedAgain {
            agent, deliveries, ..
        } => {
            let all = deliveries.iter();
            all.map(|delivery| step("asked_again", &delivery.message, agent))
                .collect()
        }
        Event::Held { agent, delivery, .. } => vec![step("held", &delivery.message, agent)],
        Event::Allowed { agent, delivery } => vec![step("allowed", &delivery.message, agent)],
        Event::Dropped { agent, delivery } => vec![step("dropped", &delivery.message, agent)],
        Event::Expired { agent, delivery } => vec![step("expired", &delivery.message, agent)],
        Event::Registered { agent } => vec![format!("agent.status.active {agent}")],
        Event::Gone { agent } => vec![format!("agent.status.offline {agent}")],
        Event::TakenOver { agent } => vec![format!("agent.taken_over {agent}")],
        Event::Joined { channel, agent } => vec![format!("member.joined {} {agent}", channel.local())],
        Event::Left { channel, agent } => vec![format!("member.left {} {agent}", channel.local())],
        Event::NodeCame { node: came, .. } => vec![node("online", came)],
        Event::NodeLeft { node: left } => vec![node("offline", left)],
        Event::NodeLapsed { node: lapsed } => vec![node("offline", lapsed)],
        // None is given up within a run.
        Event::PushFailed { .. } => Vec::new(),
        Event::Invoked { invocation } => vec![format!("action.invoked {}", invocation.id)],
        Event::InvocationEnded { invocation } => {
            let kind = match &invocation.progress {
                Progress::Ended { result: Err(_), .. } => "failed",
                Progress::Ended { result: Ok(_), .. } | Progress::Sent { .. } | Progress::Waits => {
                    "completed"
                }
            };
            vec![format!("action.{kind} {}", invocation.id)]
        }
        Event::Marked { .. } | Event::Reacted { .. } | Event::ActionDenied { .. } => {
            unreachable!("nobody does so here")
        }
        Event::Opened { .. }
        | Event::Closed { .. }
        | Event::Parked { .. }
        | Event::WaitEnded { .. }
        | Event::StandsBy { .. }
        | Event::BroughtAsItsAgentHasIt { .. }
        | Event::Does { .. }
        | Event::Recognised { .. }
        | Event::HandedOver { .. }
        | Event::Passed { .. }
        | Event::KeptAlive { .. }
        | Event::Overdue { .. }
        | Event::Read { .. }
        | Event::Awaited { .. }
        | Event::Holds { .. }
        | Event::HeldBack { .. }
        | Event::Bound { .. }
        | Event::Unbound { .. }
        | Event::SpawnWaits { .. }
        | Event::Worker(_)
        | Event::HandedOn { .. }
        | Event::Stopping => Vec::new(),
    }
}

/// Breaks what observers are told of: one acceptance in five is left out, told twice, or told behind the next.
#[derive(Default)]
pub struct Spoiler {
    seen: u64,
    kept: Option<Effect>,
}

impl Spoiler {
    /// Breaks the effects of a step.
    pub fn spoil(&mut self, bug: Option<Bug>, out: &mut Vec<Effect>) {
        let is_of_these = |bug| matches!(bug, Bug::EventLeftOut | Bug::EventTwice | Bug::EventsSwapped);
        let Some(bug) = bug.filter(|bug| is_of_these(*bug)) else {
            return;
        };
        let mut spoilt = Vec::new();
        for effect in out.drain(..) {
            if !matches!(effect, Effect::Note(Event::Accepted { .. })) {
                spoilt.push(effect);
                continue;
            }
            self.seen += 1;
            let strikes = self.seen.is_multiple_of(5);
            if strikes && bug == Bug::EventsSwapped {
                self.kept = Some(effect);
                continue;
            }
            if strikes && bug == Bug::EventTwice {
                spoilt.push(effect.clone());
            }
            if !(strikes && bug == Bug::EventLeftOut) {
                spoilt.push(effect);
            }
            spoilt.extend(self.kept.take());
        }
        *out = spoilt;
    }
}

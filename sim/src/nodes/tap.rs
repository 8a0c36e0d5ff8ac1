//! Stands between the server and its engine: counts what happens, finds what only it can see, and breaks the engine on purpose
//! where a seeded bug is switched on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use relay::engine::nodes::Said;
use relay::engine::receipts::{Receipt, Reply as Receipted, State};
use relay::engine::{
    AgentName, CallId, Command, Effect, Engine, Event, Frame, HandoverId, Input, MessageId, Overview, Reason,
    Reply, SessionId, Sign, Status, Timestamp, mail, nodes, receipts,
};
use relay::server::Machine;

use super::actions::tap::Invocations;
use super::bug::Bug;
use super::fleets::bindings::Bindings;
use super::history::{Log, Told};
use super::holds::tap::Held;
use super::laws::{LATE, NUMBERS, PUSHED, SENT_AGAIN};
use super::observers::{Spoiler, told};
use crate::laws::Violation;
use crate::marks::Marks;

/// How long it may take at the most until it is known what became of a push, in milliseconds: relay gives up waiting after ten seconds.
const PUSH_MS_MAX: i64 = 12_000;

/// The frames of an agent, in this life of the server.
#[derive(Default)]
struct Frames {
    highest: u64,
    acknowledged: u64,
    of: BTreeMap<u64, MessageId>,
}

/// The engine, watched.
pub struct NodeTap {
    engine: Engine,
    marks: Marks,
    bug: Option<Bug>,
    log: Log,
    frames: BTreeMap<AgentName, Frames>,
    /// Who speaks in a session.
    speakers: BTreeMap<SessionId, AgentName>,
    /// Receipts that are asked about, by the message's id.
    asked: BTreeMap<CallId, (AgentName, String)>,
    /// What has its receipt.
    done: BTreeSet<(AgentName, String)>,
    /// The deadlines of what was posted, by its text.
    deadlines: BTreeMap<String, Timestamp>,
    /// By which sessions relay pushes.
    pushing: BTreeSet<SessionId>,
    /// What is being pushed, since when.
    pushes: BTreeMap<HandoverId, Timestamp>,
    /// Which nodes have been there.
    came: BTreeSet<String>,
    /// Acknowledgements that are not answered yet.
    acknowledging: BTreeMap<CallId, (AgentName, u64)>,
    bindings: Bindings,
    invocations: Invocations,
    held: Held,
    /// Counts what a bug may hit, and what it keeps.
    hits: u64,
    kept: Option<(SessionId, Box<Frame>)>,
    spoiler: Spoiler,
}

impl NodeTap {
    /// Watches an engine that starts now.
    pub fn new(engine: Engine, now: Timestamp, marks: Marks, bug: Option<Bug>, log: Log) -> Self {
        let base = u64::try_from(now.as_millis()).expect("after the epoch") * 1_000;
        let events = Vec::new();
        log.history().told.push(Told {
            base,
            events,
            settled: 0,
        });
        Self {
            engine,
            marks,
            bug,
            log,
            frames: BTreeMap::new(),
            speakers: BTreeMap::new(),
            asked: BTreeMap::new(),
            done: BTreeSet::new(),
            deadlines: BTreeMap::new(),
            pushing: BTreeSet::new(),
            pushes: BTreeMap::new(),
            came: BTreeSet::new(),
            acknowledging: BTreeMap::new(),
            bindings: Bindings::default(),
            invocations: Invocations::default(),
            held: Held::default(),
            hits: 0,
            kept: None,
            spoiler: Spoiler::default(),
        }
    }

    /// Tells whether a bug strikes now: one time in so many.
    fn strikes(&mut self, bug: Bug, one_in: u64) -> bool {
        if self.bug != Some(bug) {
            return false;
        }
        self.hits += 1;
        self.hits.is_multiple_of(one_in)
    }

    fn broken(&self, law: &'static str, detail: String) {
        self.log.history().seen_by_tap.push(Violation { law, detail });
    }

    /// Looks at what comes in, and breaks it. Returns what is answered in the engine's stead, if a bug does so.
    fn look(&mut self, input: &mut Input) -> Option<Effect> {
        let highest = |agent: &AgentName| self.frames.get(agent).map_or(0, |frames| frames.highest);
        self.bindings.look(input, self.bug, highest, &self.marks);
        self.held.look(input, self.bug);
        let answer = self.invocations.look(input, self.bug);
        if answer.is_some() {
            return answer;
        }
        let Input::Call {
            session,
            call,
            command,
            random: _,
        } = input
        else {
            if let Input::Closed { session, .. } = input {
                self.speakers.remove(session);
            }
            return None;
        };
        match command {
            Command::Receipts(receipts::Command::Give { message, receipt, .. }) => {
                let speaker = self.speakers.get(session)?.clone();
                let answer = match receipt {
                    Receipt::Deferred { until, .. } if self.strikes(Bug::DeferralForgotten, 2) => {
                        Some(State::Deferred { until: *until })
                    }
                    Receipt::Failed { .. } if self.bug == Some(Bug::ReceiptsForgotten) => Some(State::Failed),
                    Receipt::Done if self.bug == Some(Bug::ReceiptsForgotten) => Some(State::Done),
                    Receipt::Accepted { .. } if self.bug == Some(Bug::ReceiptsForgotten) => {
                        Some(State::Accepted)
                    }
                    Receipt::Done
                    | Receipt::Accepted { .. }
                    | Receipt::Failed { .. }
                    | Receipt::Deferred { .. } => None,
                };
                if answer.is_none() {
                    self.asked.insert(*call, (speaker, message.clone()));
                }
                answer.map(|state| Effect::Reply {
                    call: *call,
                    result: Ok(Receipted::Is(state).into()),
                    handover: None,
                })
            }
            Command::Nodes(nodes::Command::Says(Said::Acknowledges { agent, up_to })) => {
                if self.bug == Some(Bug::ReceiptsForgotten) {
                    // What was acknowledged before, if anything, it may be told again.
                    *up_to = 0;
                }
                let found = self.frames.iter().find(|(name, _)| name.local() == agent);
                if let Some((name, frames)) = found
                    && *up_to <= frames.highest
                {
                    self.acknowledging.insert(*call, (name.clone(), *up_to));
                    let highest = frames.highest;
                    if self.strikes(Bug::AcknowledgedTooFar, 2) {
                        *up_to = highest;
                    }
                }
                None
            }
            Command::Nodes(nodes::Command::Says(Said::Failed { agent, number, .. })) => {
                if self.strikes(Bug::PushTakenForGranted, 2) {
                    let (agent, up_to) = (agent.clone(), *number);
                    *command = Said::Acknowledges { agent, up_to }.into();
                } else if self.strikes(Bug::PushForgotten, 2) {
                    *number = u64::MAX;
                }
                None
            }
            Command::Mail(mail::Command::Post {
                body,
                options: Some(options),
                ..
            }) => {
                if let Some(deadline) = options.handling.deadline {
                    self.deadlines.insert(body.clone(), deadline);
                }
                if self.bug == Some(Bug::DeadlineForgotten) {
                    options.handling.deadline = None;
                }
                None
            }
            Command::Mail(_)
            | Command::Agents(_)
            | Command::Groups(_)
            | Command::Channels(_)
            | Command::Watches(_)
            | Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Trace(_)
            | Command::Workers(_)
            | Command::Surfacing(_)
            | Command::Actions(_)
            | Command::Holds(_)
            | Command::Records(_)
            | Command::Resource(_) => None,
        }
    }

    /// Breaks what goes out.
    fn spoil(&mut self, out: &mut Vec<Effect>) {
        if self.bug.is_none() {
            return;
        }
        self.held.spoil(self.bug, out);
        self.invocations.spoil(self.bug, out);
        let mut spoilt = Vec::new();
        let mut first: Option<usize> = None;
        for mut effect in out.drain(..) {
            if let Effect::Deliver { session, frame } = &mut effect {
                if self.strikes(Bug::FrameLost, 7) {
                    continue;
                }
                let id = delivery_of(frame.delivery.message.id, &frame.agent);
                let is_broken_off = self.log.history().broken_off.contains(&id);
                if self.bug == Some(Bug::MarkMissing)
                    || self.bug == Some(Bug::MarkMissingOfBrokenOff) && is_broken_off
                {
                    frame.delivery.redelivered = false;
                }
                if self.strikes(Bug::Astray, 5)
                    && let Some((_, kept)) = &self.kept
                    && kept.agent != frame.agent
                {
                    frame.delivery = kept.delivery.clone();
                }
                if self.bug == Some(Bug::Astray) {
                    self.kept = Some((*session, frame.clone()));
                }
                if self.bug == Some(Bug::SentAfterReceipt) {
                    let id = frame.delivery.message.id.to_string();
                    if self.kept.is_none() && !self.done.contains(&(frame.agent.clone(), id)) {
                        self.kept = Some((*session, frame.clone()));
                    }
                }
                if self.strikes(Bug::SentToOldNode, 2)
                    && let Some(before) = self.bindings.of_before(frame)
                {
                    *session = before;
                }
                match first {
                    None => first = Some(spoilt.len()),
                    Some(at) if self.bug == Some(Bug::Overtaken) => {
                        spoilt.insert(at, effect);
                        continue;
                    }
                    Some(_) => {}
                }
            }
            if let Effect::Reply {
                result: Ok(Reply::Receipts(Receipted::Listed(rows))),
                ..
            } = &mut effect
                && self.bug == Some(Bug::ListedInPart)
            {
                let is_low = |id: MessageId| id.to_string().ends_with(|last: char| last < '4');
                rows.retain(|(delivery, _)| !is_low(delivery.message.id));
            }
            if let Effect::Reply {
                result: Ok(Reply::Nodes(reply)),
                ..
            } = &mut effect
                && let nodes::Reply::Bound(view) = &mut **reply
                && view.acknowledged > 0
                && self.strikes(Bug::CursorTooLow, 2)
            {
                view.acknowledged -= 1;
            }
            spoilt.push(effect);
        }
        if self.bug == Some(Bug::SentAfterReceipt)
            && let Some((session, frame)) = &self.kept
        {
            let id = frame.delivery.message.id.to_string();
            if self.done.contains(&(frame.agent.clone(), id)) {
                let (session, mut frame) = (*session, frame.clone());
                frame.delivery.redelivered = true;
                self.kept = None;
                spoilt.push(Effect::Deliver { session, frame });
            }
        }
        *out = spoilt;
    }

    /// Looks at what goes out, and at what does not.
    fn see(&mut self, now: Timestamp, out: &[Effect]) {
        if let Some((handover, since)) = self
            .pushes
            .iter()
            .find(|(_, since)| since.plus_millis(PUSH_MS_MAX) < now)
        {
            self.broken(
                PUSHED,
                format!("{handover:?} is under way since {since}, at {now}"),
            );
            self.pushes.clear();
        }
        for Violation { law, detail } in self.held.see(out, &self.log, &self.marks) {
            self.broken(law, detail);
        }
        for effect in out {
            let bindings = self.bindings.see(effect, &self.marks);
            let invocations = self.invocations.see(effect, &self.marks);
            for Violation { law, detail } in bindings.into_iter().chain(invocations) {
                self.broken(law, detail);
            }
            match effect {
                Effect::Opened {
                    session,
                    result: Ok(Some(agent)),
                } => drop(self.speakers.insert(*session, agent.clone())),
                Effect::Reply { call, result, .. } => {
                    if let Some((agent, up_to)) = self.acknowledging.remove(call)
                        && result.is_ok()
                        && let Some(frames) = self.frames.get_mut(&agent)
                    {
                        frames.acknowledged = frames.acknowledged.max(up_to);
                    }
                    let Some((agent, message)) = self.asked.remove(call) else {
                        continue;
                    };
                    if let Ok(Reply::Receipts(Receipted::Is(state))) = result {
                        self.given(agent, message, *state);
                    }
                }
                Effect::Deliver { frame, .. } => self.sent(now, frame),
                Effect::Superseded { .. } => self.marks.hit("node superseded"),
                Effect::Note(event) => self.note(now, event),
                Effect::Opened { .. }
                | Effect::Changed { .. }
                | Effect::Tell { .. }
                | Effect::StartWorker(_)
                | Effect::EndWorker { .. }
                | Effect::Invoke { .. } => {}
            }
        }
    }

    fn given(&mut self, agent: AgentName, message: String, state: State) {
        match state {
            State::Done => self.marks.hit("receipt: done"),
            State::Accepted => self.marks.hit("receipt: accepted"),
            State::Failed => self.marks.hit("receipt: failed"),
            State::Deferred { .. } => self.marks.hit("receipt: deferred"),
            State::Queued | State::Delivered | State::GivenUp | State::Expired => {}
        }
        if matches!(state, State::Done | State::Accepted | State::Failed) {
            self.log.history().settled.insert(delivery_of(&message, &agent));
            self.done.insert((agent, message));
        }
    }

    fn sent(&mut self, now: Timestamp, frame: &Frame) {
        let Frame {
            agent,
            number,
            delivery,
            handover: _,
        } = frame;
        let id = delivery.message.id;
        if !delivery.redelivered {
            self.log.history().broken_off.remove(&delivery_of(id, agent));
        }
        if self.done.contains(&(agent.clone(), id.to_string())) {
            self.broken(SENT_AGAIN, format!("frame {number} of {agent}"));
        }
        let was_sent = self
            .frames
            .get(agent)
            .is_some_and(|frames| frames.of.values().any(|other| *other == id));
        let name = (delivery.message.body.clone(), agent.local().to_owned());
        let has_expired = self.log.history().expired.contains(&name);
        let deadline = self.deadlines.get(&delivery.message.body);
        // What was sent before keeps its number, which its node waits for.
        let is_new = !was_sent && deadline.is_some_and(|deadline| *deadline <= now);
        if has_expired || is_new {
            self.broken(LATE, format!("frame {number} of {agent}"));
        }
        let frames = self.frames.entry(agent.clone()).or_default();
        let wrong = if *number <= frames.highest {
            self.marks.hit("frame sent again");
            let is_another = frames.of.get(number) != Some(&id);
            (is_another || *number <= frames.acknowledged).then_some("is used up")
        } else {
            self.marks.hit_if(was_sent, "frame sent with a new number");
            (*number != frames.highest + 1).then_some("leaves a gap")
        };
        frames.highest = frames.highest.max(*number);
        frames.of.insert(*number, id);
        if let Some(wrong) = wrong {
            self.broken(NUMBERS, format!("number {number} of {agent} {wrong}"));
        }
    }

    /// The node does not hold an agent any more: what it did not acknowledge comes with other numbers, if at all.
    fn numbers_given_up(&mut self, agent: &AgentName) {
        if let Some(frames) = self.frames.get_mut(agent) {
            frames.acknowledged = frames.highest;
        }
    }

    fn note(&mut self, now: Timestamp, event: &Event) {
        let mut history = self.log.history();
        if history.is_over {
            return;
        }
        let life = history.told.last_mut().expect("it has begun");
        life.events.extend(told(event));
        drop(history);
        match event {
            Event::NodeCame { node, session } => {
                if node.pushes {
                    self.pushing.insert(*session);
                }
                let again = !self.came.insert(format!("{:?}", node.node));
                self.marks
                    .hit(if again { "node came again" } else { "node came" });
            }
            Event::NodeLapsed { node } => {
                self.marks.hit("node lapsed");
                for agent in &node.agents {
                    self.numbers_given_up(agent);
                }
            }
            Event::Unbound { agent, .. } => self.numbers_given_up(agent),
            Event::PushFailed { .. } => self.marks.hit("push failed"),
            Event::Expired { agent, delivery } => {
                self.marks.hit("delivery expired");
                let name = (delivery.message.body.clone(), agent.local().to_owned());
                self.log.history().expired.insert(name);
            }
            Event::HandedOver {
                handover, session, ..
            } => {
                if self.pushing.contains(session) {
                    self.pushes.insert(*handover, now);
                }
            }
            Event::Read { handover, .. } => drop(self.pushes.remove(handover)),
            Event::Undone {
                handover,
                by,
                agent,
                deliveries,
            } => {
                let was_pushed = self.pushes.remove(handover).is_some();
                if was_pushed && matches!(by, Sign::Ended(_)) {
                    let first = deliveries.iter().filter(|delivery| !delivery.redelivered);
                    let ids = first.map(|delivery| delivery_of(delivery.message.id, agent));
                    self.log.history().broken_off.extend(ids);
                }
            }
            Event::Confirmed {
                agent,
                deliveries,
                handover,
                ..
            } => {
                self.pushes.remove(handover);
                let ids = deliveries
                    .iter()
                    .map(|delivery| delivery_of(delivery.message.id, agent));
                self.log.history().arrived.extend(ids);
            }
            Event::AskedAgain {
                agent, deliveries, ..
            } => {
                // They may arrive once more.
                for delivery in deliveries.iter() {
                    let id = delivery.message.id;
                    self.done.remove(&(agent.clone(), id.to_string()));
                    self.log.history().arrived.remove(&delivery_of(id, agent));
                }
            }
            Event::Opened { .. }
            | Event::Closed { .. }
            | Event::Registered { .. }
            | Event::TakenOver { .. }
            | Event::Gone { .. }
            | Event::Left { .. }
            | Event::Joined { .. }
            | Event::Accepted { .. }
            | Event::Parked { .. }
            | Event::WaitEnded { .. }
            | Event::SpawnWaits { .. }
            | Event::Worker(_)
            | Event::HandedOn { .. }
            | Event::StandsBy { .. }
            | Event::BroughtAsItsAgentHasIt { .. }
            | Event::Does { .. }
            | Event::Recognised { .. }
            | Event::Passed { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::Awaited { .. }
            | Event::Holds { .. }
            | Event::Held { .. }
            | Event::Allowed { .. }
            | Event::Dropped { .. }
            | Event::HeldBack { .. }
            | Event::Receipt { .. }
            | Event::Marked { .. }
            | Event::Reacted { .. }
            | Event::Invoked { .. }
            | Event::InvocationEnded { .. }
            | Event::ActionDenied { .. }
            | Event::NodeLeft { .. }
            | Event::Bound { .. }
            | Event::Stopping => {}
        }
    }
}

/// Names the delivery of a message to an agent, as relay does.
fn delivery_of(message: impl Display, agent: &AgentName) -> String {
    format!("del_{message}_agt_{agent}")
}

impl Machine for NodeTap {
    fn handle(&mut self, now: Timestamp, mut input: Input, out: &mut Vec<Effect>) {
        let from = out.len();
        match self.look(&mut input) {
            Some(answer) => out.push(answer),
            None => self.engine.handle(now, input, out),
        }
        let mut new = out.split_off(from);
        self.spoil(&mut new);
        self.see(now, &new);
        self.spoiler.spoil(self.bug, &mut new);
        out.append(&mut new);
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.engine.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let from = out.len();
        self.engine.handle_timeout(now, out);
        let mut new = out.split_off(from);
        self.spoil(&mut new);
        self.see(now, &new);
        self.spoiler.spoil(self.bug, &mut new);
        out.append(&mut new);
    }

    fn status(&self) -> Status {
        self.engine.status()
    }

    fn overview(&self) -> Overview {
        self.engine.overview()
    }

    fn take_newly_seen(&mut self) -> Option<relay::engine::AgentName> {
        self.engine.take_newly_seen()
    }
}

//! The reference model: the delivery contract as flat lists that are searched from end to end.
//!
//! Written from the contract, not from the engine. It shares the engine's plain values and none of its code, keeps
//! every message for ever, and never cares how long anything takes.
//!
//! Where the contract leaves an order open, the model takes this one: arguments are judged in the order in which a
//! command lists them, then the body, then the room; of what is due at the same moment, or ends with the relay,
//! waits come before doubts and lower call numbers before higher ones; a closed session's agents are served in the
//! order of their names.

use std::collections::VecDeque;
use std::sync::Arc;

use relay::engine::limits::{Bounds, DOUBT_MS};
use relay::engine::{
    AgentName, Boot, CallId, Carrier, Command, Delivery, Effect, Ending, Input, Kind, Message, MessageId,
    Reason, Refusal, Reply, Roster, Seq, SessionId, Status, Timestamp,
};

use crate::marks::{Mark, Marks};
use crate::random::SplitMix;

/// The whole state, as naive as it can be.
pub struct Model {
    boot: Boot,
    bounds: Bounds,
    roster: Roster,
    random: SplitMix,
    /// Every message that was ever accepted, in the order of acceptance.
    messages: Vec<Kept>,
    /// For each agent, the news that the relay started.
    notices: Vec<Notice>,
    sessions: Vec<Open>,
    /// In the order in which they were parked.
    waits: Vec<Parked>,
    /// Replies with messages or news that are not known to have arrived.
    doubts: Vec<Doubt>,
    stopping: bool,
    /// What was reached.
    pub marks: Marks,
}

/// Where a message, or the news of the start, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Handed(CallId),
    Read,
}

#[derive(Debug)]
struct Kept {
    delivery: Delivery,
    state: State,
}

#[derive(Debug)]
struct Notice {
    agent: AgentName,
    state: State,
    undone: bool,
}

#[derive(Debug, Clone)]
struct Open {
    session: SessionId,
    carrier: Carrier,
    agent: Option<AgentName>,
}

#[derive(Debug, Clone)]
struct Parked {
    call: CallId,
    session: SessionId,
    agent: AgentName,
    expires_at: Timestamp,
}

#[derive(Debug, Clone)]
struct Doubt {
    call: CallId,
    session: SessionId,
    flushed_at: Option<Timestamp>,
}

impl Kept {
    fn is_for(&self, agent: &AgentName) -> bool {
        self.delivery.message.to == *agent
    }

    fn waits_for(&self, agent: &AgentName) -> bool {
        self.is_for(agent) && self.state == State::Waiting
    }

    fn bytes(&self) -> usize {
        self.delivery.message.body.len()
    }
}

impl Doubt {
    fn ends_at(&self) -> Option<Timestamp> {
        self.flushed_at.map(|at| at.plus_millis(DOUBT_MS))
    }
}

/// What the engine offers, too.
impl Model {
    pub fn new(now: Timestamp, roster: Roster, bounds: Bounds, mut random: SplitMix) -> Self {
        let id = version_4(random.bytes());
        let notice = |agent: &AgentName| Notice {
            agent: agent.clone(),
            state: State::Waiting,
            undone: false,
        };
        Self {
            boot: Boot { id, started_at: now },
            bounds,
            notices: roster.names().iter().map(notice).collect(),
            roster,
            random,
            messages: Vec::new(),
            sessions: Vec::new(),
            waits: Vec::new(),
            doubts: Vec::new(),
            stopping: false,
            marks: Marks::default(),
        }
    }

    pub fn handle(&mut self, now: Timestamp, input: Input) -> Vec<Effect> {
        match input {
            Input::Opened {
                session,
                carrier,
                agent,
            } => {
                let result = self.open(session, carrier, agent.as_deref());
                vec![Effect::Opened { session, result }]
            }
            Input::Closed { session, ending } => self.close(now, session, ending),
            Input::Call {
                session,
                call,
                command,
            } => self.call(now, session, call, command),
            Input::Flushed { call } => {
                self.flushed(now, call);
                Vec::new()
            }
            Input::Cancelled { call } => self.cancelled(now, call),
            Input::Lost { call } => self.lost(now, call),
            Input::Stopping => self.stop(),
        }
    }

    pub fn handle_timeout(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut too_early = !self.due().is_empty();
        while let Some((at, reason, call)) = self.due().into_iter().min()
            && at <= now
        {
            too_early = false;
            let together = self.due().into_iter().filter(|due| due.0 == at);
            let kinds = together.map(|due| due.1).collect::<Vec<_>>();
            let both = kinds.contains(&Reason::WaitExpires) && kinds.contains(&Reason::DoubtEnds);
            self.marks.reach_if(both, Mark::WaitAndDoubtDueTogether);
            match reason {
                Reason::WaitExpires => {
                    let on_time = if at == now {
                        Mark::ExpiryOnTime
                    } else {
                        Mark::ExpiryLate
                    };
                    self.marks.reach(on_time);
                    let wait = self.unpark(call).expect("it is due");
                    effects.push(self.hand_over(wait.session, call, &wait.agent));
                }
                Reason::DoubtEnds => {
                    self.marks.reach(Mark::ConfirmByDoubtEnd);
                    self.confirm(call);
                }
            }
        }
        self.marks.reach_if(too_early, Mark::TimeoutTooEarly);
        effects
    }

    pub fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.due().into_iter().min().map(|(at, reason, _)| (at, reason))
    }

    pub fn status(&self) -> Status {
        let count = |agent: &AgentName| self.messages.iter().filter(|m| m.waits_for(agent)).count();
        let names = self.roster.names().iter();
        Status {
            boot: self.boot,
            sessions: self.sessions.len(),
            pending: names.map(|agent| (agent.clone(), count(agent))).collect(),
        }
    }
}

/// Sessions.
impl Model {
    fn open(
        &mut self,
        session: SessionId,
        carrier: Carrier,
        agent: Option<&str>,
    ) -> Result<Option<AgentName>, Refusal> {
        let agent = match agent.map(|name| self.known(name)) {
            None => None,
            Some(Ok(agent)) => Some(agent),
            Some(Err(refusal)) => {
                self.marks.reach(Mark::UnknownAtOpen);
                return Err(refusal);
            }
        };
        let sessions = self.sessions.len();
        if sessions == self.bounds.sessions_max {
            self.marks.reach(Mark::TooManySessions);
            return Err(Refusal::TooManySessions { sessions });
        }
        self.sessions.push(Open {
            session,
            carrier,
            agent: agent.clone(),
        });
        Ok(agent)
    }

    fn close(&mut self, now: Timestamp, session: SessionId, ending: Ending) -> Vec<Effect> {
        let Some(open) = self.session(session) else {
            self.marks.reach(Mark::CloseOfClosed);
            return Vec::new();
        };
        let waited = self.waits.iter().any(|wait| wait.session == session);
        self.marks.reach_if(waited, Mark::WaitClosed);
        self.waits.retain(|wait| wait.session != session);
        for doubt in self.doubts.clone() {
            if doubt.session != session {
                continue;
            }
            match (open.carrier, ending, doubt.flushed_at) {
                (Carrier::Exchange, Ending::Orderly, Some(_)) => {
                    self.marks.reach(Mark::ConfirmByOrderlyExchangeEnd);
                    self.confirm(doubt.call);
                    continue;
                }
                (Carrier::Exchange, Ending::Orderly, None) => {
                    self.marks.reach(Mark::UndoByOrderlyEndUnflushed);
                }
                (Carrier::Stream, Ending::Orderly, flushed_at) => {
                    self.marks
                        .reach_if(flushed_at.is_some(), Mark::UndoByOrderlyStreamEnd);
                }
                (Carrier::Exchange | Carrier::Stream, Ending::Broken, _) => {
                    self.marks.reach(Mark::UndoByBrokenEnd);
                }
            }
            self.undo(doubt.call);
        }
        self.sessions.retain(|other| other.session != session);
        let effects = self.wake_all(now);
        self.marks
            .reach_if(effects.len() > 1, Mark::RedeliveredToTwoWaits);
        effects
    }

    fn session(&self, session: SessionId) -> Option<Open> {
        self.sessions.iter().find(|open| open.session == session).cloned()
    }
}

/// Calls.
impl Model {
    fn call(&mut self, now: Timestamp, session: SessionId, call: CallId, command: Command) -> Vec<Effect> {
        let Some(open) = self.session(session) else {
            self.marks.reach(Mark::CallOnClosed);
            return Vec::new();
        };
        let full_before = self.roster.names().iter().filter(|agent| self.is_full(agent));
        let full_before: Vec<AgentName> = full_before.cloned().collect();
        let mut confirmed = false;
        for doubt in self.doubts.clone() {
            if doubt.session != session {
                continue;
            }
            if doubt.flushed_at.is_none() {
                self.marks.reach(Mark::UnflushedAtCall);
                continue;
            }
            confirmed = true;
            self.marks.reach(Mark::ConfirmByCall);
            self.confirm(doubt.call);
        }
        let done = match command {
            Command::Post { from, to, kind, body } => {
                let into_full = full_before.iter().any(|agent| agent.as_str() == to);
                let done = self.post(now, &open, call, from.as_deref(), &to, kind, body);
                self.marks
                    .reach_if(into_full && done.is_ok(), Mark::RoomByConfirmingCall);
                done
            }
            Command::Read { agent, wait_ms } => self.read(now, &open, call, agent.as_deref(), wait_ms),
            Command::Pending { agent } => self.pending(&open, call, agent.as_deref()),
        };
        match done {
            Ok(effects) => effects,
            Err(refusal) => {
                self.marks.reach_if(confirmed, Mark::ConfirmByRefusedCall);
                vec![Effect::Reply {
                    call,
                    result: Err(refusal),
                }]
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a post has four of its own")]
    fn post(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        from: Option<&str>,
        to: &str,
        kind: Kind,
        body: String,
    ) -> Result<Vec<Effect>, Refusal> {
        let from = self.speaker(open, "from", from)?;
        let to = match self.known(to) {
            Ok(to) => to,
            Err(refusal) => {
                self.marks.reach(Mark::UnknownRecipient);
                return Err(refusal);
            }
        };
        self.judge_body(&body)?;
        self.judge_room(&to, body.len())?;
        let message = Arc::new(Message {
            id: MessageId(version_4(self.random.bytes())),
            from,
            to: to.clone(),
            kind,
            body,
            ts: now,
        });
        let before = self.messages.iter().filter(|m| m.is_for(&to)).count();
        self.messages.push(Kept {
            delivery: Delivery {
                seq: Seq(before as u64),
                message: Arc::clone(&message),
                redelivered: false,
            },
            state: State::Waiting,
        });
        let mut effects = vec![
            Effect::Reply {
                call,
                result: Ok(Reply::Posted { id: message.id }),
            },
            Effect::Log { message },
        ];
        effects.extend(self.wake_all(now));
        Ok(effects)
    }

    fn judge_body(&mut self, body: &str) -> Result<(), Refusal> {
        let bytes_max = self.bounds.body_bytes_max;
        self.marks.reach_if(body.len() == bytes_max, Mark::BodyAtLimit);
        if body.len() <= bytes_max {
            return Ok(());
        }
        self.marks
            .reach_if(body.len() == bytes_max + 1, Mark::BodyOneOver);
        self.marks
            .reach_if(body.chars().count() <= bytes_max, Mark::BodyTooLongInBytesOnly);
        Err(Refusal::BodyTooLong {
            bytes: body.len(),
            bytes_max,
        })
    }

    /// Counts what was accepted and is not known to have been read.
    fn judge_room(&mut self, to: &AgentName, more_bytes: usize) -> Result<(), Refusal> {
        let held = self.messages.iter();
        let held = held.filter(|m| m.is_for(to) && m.state != State::Read);
        let messages = held.clone().count();
        let bytes = held.clone().map(Kept::bytes).sum::<usize>();
        let waiting = held.filter(|m| m.state == State::Waiting);
        let messages_waiting = waiting.clone().count();
        let bytes_waiting = waiting.map(Kept::bytes).sum::<usize>();
        let Bounds {
            inbox_messages_max: messages_max,
            inbox_bytes_max: bytes_max,
            ..
        } = self.bounds;
        let fits = |messages: usize, bytes: usize| messages < messages_max && bytes + more_bytes <= bytes_max;
        if fits(messages, bytes) {
            self.marks
                .reach_if(bytes + more_bytes == bytes_max, Mark::InboxFilledToTheByte);
            self.marks
                .reach_if(messages + 1 == messages_max, Mark::InboxFilledToThePlace);
            return Ok(());
        }
        let full_of = if messages == messages_max {
            Mark::InboxFullOfMessages
        } else {
            Mark::InboxFullOfBytes
        };
        self.marks.reach(full_of);
        self.marks
            .reach_if(fits(messages_waiting, bytes_waiting), Mark::InboxFullOfHandovers);
        Err(Refusal::InboxFull {
            agent: to.to_string(),
            messages,
            bytes,
            messages_max,
            bytes_max,
        })
    }

    fn is_full(&self, agent: &AgentName) -> bool {
        let held = self.messages.iter();
        let held = held.filter(|m| m.is_for(agent) && m.state != State::Read);
        held.count() == self.bounds.inbox_messages_max
    }

    fn read(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        agent: Option<&str>,
        wait_ms: u32,
    ) -> Result<Vec<Effect>, Refusal> {
        let agent = self.speaker(open, "for", agent)?;
        let empty = !self.messages.iter().any(|m| m.waits_for(&agent));
        self.marks
            .reach_if(wait_ms > 0 && empty && self.stopping, Mark::ReadWhileStopping);
        if wait_ms == 0 || !empty || self.stopping {
            return Ok(vec![self.hand_over(open.session, call, &agent)]);
        }
        let same = |wait: &&Parked| wait.session == open.session && wait.agent == agent;
        let older = self.waits.iter().find(same).map(|wait| wait.call);
        let waits = self.waits.len();
        let at_the_bound = waits == self.bounds.waits_max;
        let mut effects = Vec::new();
        match older {
            Some(older) => {
                self.marks.reach(Mark::Supersede);
                self.marks.reach_if(at_the_bound, Mark::SupersedeAtTheBound);
                self.unpark(older);
                effects.push(self.hand_over(open.session, older, &agent));
            }
            None if at_the_bound => {
                self.marks.reach(Mark::TooManyWaits);
                return Err(Refusal::TooManyWaits { waits });
            }
            None => {}
        }
        let in_line = self.waits.iter().any(|wait| wait.agent == agent);
        self.marks.reach_if(in_line, Mark::StandsInLine);
        let elsewhere = self.waits.iter().any(|wait| wait.session == open.session);
        self.marks.reach_if(elsewhere, Mark::WaitsForTwo);
        self.waits.push(Parked {
            call,
            session: open.session,
            agent,
            expires_at: now.plus_millis(i64::from(wait_ms)),
        });
        Ok(effects)
    }

    fn pending(&mut self, open: &Open, call: CallId, agent: Option<&str>) -> Result<Vec<Effect>, Refusal> {
        let agent = self.speaker(open, "for", agent)?;
        let waiting = self.messages.iter().filter(|m| m.waits_for(&agent));
        let kinds = waiting.map(|m| m.delivery.message.kind).collect();
        Ok(vec![Effect::Reply {
            call,
            result: Ok(Reply::Pending { kinds }),
        }])
    }

    fn speaker(
        &mut self,
        open: &Open,
        argument: &'static str,
        given: Option<&str>,
    ) -> Result<AgentName, Refusal> {
        let posting = argument == "from";
        let Some(name) = given else {
            let Some(bound) = &open.agent else {
                self.marks.reach(if posting {
                    Mark::AnonymousPost
                } else {
                    Mark::AnonymousRead
                });
                return Err(Refusal::Anonymous {
                    argument,
                    known: self.roster.clone(),
                });
            };
            self.marks.reach(Mark::BoundLeftOut);
            return Ok(bound.clone());
        };
        let agent = match self.known(name) {
            Ok(agent) => agent,
            Err(refusal) => {
                self.marks.reach(if posting {
                    Mark::UnknownSender
                } else {
                    Mark::UnknownReader
                });
                return Err(refusal);
            }
        };
        let Some(bound) = &open.agent else {
            return Ok(agent);
        };
        if agent == *bound {
            self.marks.reach(Mark::BoundNamedItself);
            return Ok(agent);
        }
        self.marks.reach(if posting {
            Mark::NotYouPosting
        } else {
            Mark::NotYouReading
        });
        Err(Refusal::NotYou {
            argument,
            name: name.to_owned(),
            bound: bound.to_string(),
        })
    }

    fn known(&self, name: &str) -> Result<AgentName, Refusal> {
        let mut names = self.roster.names().iter();
        let found = names.find(|agent| agent.as_str() == name).cloned();
        found.ok_or(Refusal::UnknownAgent {
            name: name.to_owned(),
            known: self.roster.clone(),
        })
    }
}

/// What becomes of a reply.
impl Model {
    fn flushed(&mut self, now: Timestamp, call: CallId) {
        let Some(doubt) = self.doubts.iter_mut().find(|doubt| doubt.call == call) else {
            let parked = self.waits.iter().any(|wait| wait.call == call);
            self.marks.reach_if(parked, Mark::FlushedWhileParked);
            self.marks.reach(Mark::FlushedForNothing);
            return;
        };
        if doubt.flushed_at.is_some() {
            self.marks.reach(Mark::FlushedAgain);
            return;
        }
        doubt.flushed_at = Some(now);
    }

    fn cancelled(&mut self, now: Timestamp, call: CallId) -> Vec<Effect> {
        if self.unpark(call).is_some() {
            self.marks.reach(Mark::WaitCancelled);
            return Vec::new();
        }
        self.fail(now, call, Mark::UndoByCancel, Mark::CancelledForNothing)
    }

    /// A parked call has no reply yet; that it could not be written ends the wait all the same.
    fn lost(&mut self, now: Timestamp, call: CallId) -> Vec<Effect> {
        if self.unpark(call).is_some() {
            self.marks.reach(Mark::WaitLost);
            return Vec::new();
        }
        self.fail(now, call, Mark::UndoByLoss, Mark::LostForNothing)
    }

    fn fail(&mut self, now: Timestamp, call: CallId, undone: Mark, nothing: Mark) -> Vec<Effect> {
        let Some(doubt) = self.doubts.iter().find(|doubt| doubt.call == call) else {
            self.marks.reach(nothing);
            return Vec::new();
        };
        self.marks.reach(undone);
        self.marks
            .reach_if(doubt.flushed_at.is_some(), Mark::UndoAfterFlush);
        self.undo(call);
        self.wake_all(now)
    }

    fn hand_over(&mut self, session: SessionId, call: CallId, agent: &AgentName) -> Effect {
        let mut deliveries = VecDeque::new();
        for kept in &mut self.messages {
            if kept.waits_for(agent) {
                kept.state = State::Handed(call);
                deliveries.push_back(kept.delivery.clone());
            }
        }
        let mut restarted = None;
        for notice in &mut self.notices {
            if notice.agent == *agent && notice.state == State::Waiting {
                notice.state = State::Handed(call);
                restarted = Some(self.boot.started_at);
                self.marks.reach(Mark::NoticeTold);
                self.marks.reach_if(deliveries.is_empty(), Mark::NoticeAlone);
                self.marks.reach_if(notice.undone, Mark::NoticeToldAgain);
            }
        }
        if !deliveries.is_empty() || restarted.is_some() {
            self.doubts.push(Doubt {
                call,
                session,
                flushed_at: None,
            });
        }
        Effect::Reply {
            call,
            result: Ok(Reply::Messages {
                deliveries: Arc::new(deliveries),
                restarted,
            }),
        }
    }

    fn confirm(&mut self, call: CallId) {
        self.doubts.retain(|doubt| doubt.call != call);
        for kept in &mut self.messages {
            if kept.state == State::Handed(call) {
                kept.state = State::Read;
            }
        }
        for notice in &mut self.notices {
            if notice.state == State::Handed(call) {
                notice.state = State::Read;
            }
        }
    }

    fn undo(&mut self, call: CallId) {
        self.mark_places(call);
        self.doubts.retain(|doubt| doubt.call != call);
        for kept in &mut self.messages {
            if kept.state == State::Handed(call) {
                kept.state = State::Waiting;
                self.marks.reach_if(kept.delivery.redelivered, Mark::UndoAgain);
                kept.delivery.redelivered = true;
            }
        }
        for notice in &mut self.notices {
            if notice.state == State::Handed(call) {
                notice.state = State::Waiting;
                notice.undone = true;
            }
        }
    }

    /// Looks where the messages of a hand-over that is about to be undone will go.
    fn mark_places(&mut self, call: CallId) {
        let handed = self.messages.iter().filter(|m| m.state == State::Handed(call));
        let undone: Vec<Seq> = handed.clone().map(|m| m.delivery.seq).collect();
        let Some(agent) = handed.map(|m| m.delivery.message.to.clone()).next() else {
            return;
        };
        let waiting = self.messages.iter().filter(|m| m.waits_for(&agent));
        let waiting: Vec<Seq> = waiting.map(|m| m.delivery.seq).collect();
        let in_front = !waiting.is_empty() && waiting.iter().all(|w| undone.iter().all(|u| u < w));
        let behind = waiting.iter().any(|w| undone.iter().any(|u| u > w));
        let between = |w: &Seq| undone.iter().any(|u| u < w) && undone.iter().any(|u| u > w);
        let interleaves = waiting.iter().any(between);
        self.marks.reach_if(in_front, Mark::UndoInFront);
        self.marks.reach_if(behind, Mark::UndoBehind);
        self.marks.reach_if(interleaves, Mark::UndoInterleaves);
    }
}

/// Waits.
impl Model {
    fn unpark(&mut self, call: CallId) -> Option<Parked> {
        let at = self.waits.iter().position(|wait| wait.call == call)?;
        Some(self.waits.remove(at))
    }

    /// Ends all waits, lower call numbers first.
    fn stop(&mut self) -> Vec<Effect> {
        self.stopping = true;
        let mut waits = std::mem::take(&mut self.waits);
        self.marks.reach_if(waits.len() > 1, Mark::StopWithWaits);
        waits.sort_by_key(|wait| wait.call);
        let answer = |wait: Parked| self.hand_over(wait.session, wait.call, &wait.agent);
        waits.into_iter().map(answer).collect()
    }

    /// Serves every agent that has something and is waited for, in the order of their names.
    fn wake_all(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut names = self.roster.names().to_vec();
        names.sort();
        let mut effects = Vec::new();
        for agent in names {
            let waiting = self.messages.iter().filter(|m| m.waits_for(&agent));
            let waiting: Vec<bool> = waiting.map(|m| m.delivery.redelivered).collect();
            let mut in_line = self.waits.iter().filter(|wait| wait.agent == agent);
            let (Some(wait), false) = (in_line.next(), waiting.is_empty()) else {
                continue;
            };
            self.marks.reach(Mark::Wake);
            self.marks
                .reach_if(in_line.next().is_some(), Mark::WakeOfTheLongest);
            self.marks
                .reach_if(wait.expires_at < now, Mark::WakeAfterTheDeadline);
            self.marks
                .reach_if(waiting.contains(&true), Mark::RedeliveredToWait);
            let wait = wait.clone();
            self.unpark(wait.call);
            effects.push(self.hand_over(wait.session, wait.call, &agent));
        }
        effects
    }

    /// Lists all that ends by itself.
    fn due(&self) -> Vec<(Timestamp, Reason, CallId)> {
        let waits = self.waits.iter();
        let waits = waits.map(|wait| (wait.expires_at, Reason::WaitExpires, wait.call));
        let doubts = self.doubts.iter();
        let doubts = doubts.filter_map(|doubt| doubt.ends_at().map(|at| (at, Reason::DoubtEnds, doubt.call)));
        waits.chain(doubts).collect()
    }
}

/// Sets the version and the variant as RFC 9562 says in section 5.4.
fn version_4(mut bytes: [u8; 16]) -> uuid::Uuid {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    uuid::Uuid::from_bytes(bytes)
}

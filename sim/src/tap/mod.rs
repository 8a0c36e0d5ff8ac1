//! Stands between the server and its engine: notes for the marks what passes, and breaks it on purpose where a
//! seeded bug is switched on.

mod bugs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay::engine::limits::Bounds;
use relay::engine::{
    CallId, Carrier, Command, Delivery, Effect, Ending, Engine, Input, Overview, Reason, Refusal, Reply,
    SessionId, Status, Timestamp, Who,
};
use relay::server::Machine;

pub use bugs::Bug;

use crate::marks::Marks;

/// The engine, watched.
pub struct Tap {
    engine: Engine,
    marks: Marks,
    bug: Option<Bug>,
    started_at: Timestamp,
    sessions: BTreeMap<SessionId, (Carrier, Option<String>)>,
    waits: BTreeMap<CallId, Wait>,
    standing: BTreeMap<CallId, Standing>,
    /// What a bug keeps to show it again.
    kept: Vec<(String, Delivery)>,
    /// Numbers the calls that a bug makes up, and chooses what it hits.
    made_up: u64,
    /// Whose inbox the call at hand reads.
    reads: Option<String>,
    /// Whose readers have gone while they waited.
    left_waiting: BTreeSet<String>,
    /// Whose first post was refused.
    refused: BTreeSet<String>,
    knows: Knows,
    at_stake: AtStake,
}

/// What a seeded bug knows of the run, so that it breaks one law and not others.
#[derive(Debug, Clone, Copy)]
pub struct Knows {
    /// The engine's bounds.
    pub bounds: Bounds,
    /// When all agents are gone and the inboxes are being drained.
    pub drained_from: Timestamp,
}

/// A parked read.
struct Wait {
    session: SessionId,
    /// Whose inbox.
    of: Option<String>,
}

struct Standing {
    session: SessionId,
    flushed_at: Option<Timestamp>,
    /// A keep-alive was written behind it.
    kept_alive: bool,
    notice: bool,
    deliveries: Arc<VecDeque<Delivery>>,
}

impl Tap {
    /// Watches an engine that starts now.
    pub fn new(engine: Engine, marks: Marks, bug: Option<Bug>, knows: Knows, at_stake: AtStake) -> Self {
        Self {
            started_at: engine.status().boot.started_at,
            engine,
            marks,
            bug,
            sessions: BTreeMap::new(),
            waits: BTreeMap::new(),
            standing: BTreeMap::new(),
            kept: Vec::new(),
            made_up: 0,
            reads: None,
            left_waiting: BTreeSet::new(),
            refused: BTreeSet::new(),
            knows,
            at_stake,
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Finds whose inbox an input reads.
    fn reads(&self, input: &Input) -> Option<String> {
        let Input::Call {
            session,
            command: Command::Read { agent, .. },
            ..
        } = input
        else {
            return None;
        };
        let bound = || self.sessions.get(session)?.1.clone();
        agent.clone().or_else(bound)
    }

    /// Counts up, for a bug that hits only now and then.
    fn every(&mut self, times: u64) -> bool {
        self.made_up += 1;
        self.made_up.is_multiple_of(times)
    }

    /// Notes what an input means for the marks.
    fn note_input(&mut self, now: Timestamp, input: &Input) {
        match input {
            Input::Opened {
                session,
                carrier,
                who,
            } => {
                let agent = match who {
                    Who::Agent(agent) => agent.clone(),
                    Who::Person => None,
                };
                self.sessions.insert(*session, (*carrier, agent));
            }
            Input::Call { session, .. } => {
                let is_stream = self
                    .sessions
                    .get(session)
                    .is_some_and(|(carrier, _)| *carrier == Carrier::Stream);
                let flushed = |standing: &Standing| {
                    is_stream && standing.session == *session && standing.flushed_at.is_some()
                };
                let before = self.standing.len();
                self.standing.retain(|_, standing| !flushed(standing));
                (self.standing.len()..before).for_each(|_| self.marks.hit("confirmed: next call"));
            }
            Input::Flushed { call } => {
                if let Some(standing) = self.standing.get_mut(call) {
                    standing.flushed_at.get_or_insert(now);
                }
            }
            Input::Followed { call } => {
                let before = self.standing.len();
                self.standing
                    .retain(|other, standing| other != call || standing.flushed_at.is_none());
                (self.standing.len()..before).for_each(|_| self.marks.hit("confirmed: next bytes"));
            }
            Input::KeptAlive { session } => {
                for standing in self.standing.values_mut().filter(|s| s.session == *session) {
                    standing.kept_alive |= standing.flushed_at.is_some();
                }
                self.end_doubts(now);
            }
            Input::Cancelled { call } => self.undone(*call, "undone: cancelled"),
            Input::Lost { call } => self.undone(*call, "undone: reply lost"),
            Input::Closed { session, ending } => self.note_closed(*session, *ending),
            Input::Stopping => {}
        }
    }

    /// Notes the replies whose doubt has ended.
    fn end_doubts(&mut self, now: Timestamp) {
        let doubt_ms = relay::engine::limits::DOUBT_MS;
        let sessions = &self.sessions;
        let is_over = |standing: &Standing| {
            let is_exchange = sessions
                .get(&standing.session)
                .is_some_and(|(carrier, _)| *carrier == Carrier::Exchange);
            let in_time = standing
                .flushed_at
                .is_some_and(|at| at.plus_millis(doubt_ms) <= now);
            in_time && (is_exchange || standing.kept_alive)
        };
        let before = self.standing.len();
        self.standing.retain(|_, standing| !is_over(standing));
        (self.standing.len()..before).for_each(|_| self.marks.hit("confirmed: doubt ended"));
    }

    fn note_closed(&mut self, session: SessionId, ending: Ending) {
        let Some((carrier, _)) = self.sessions.remove(&session) else {
            return;
        };
        let waits: Vec<CallId> = self
            .waits
            .iter()
            .filter(|(_, wait)| wait.session == session)
            .map(|(call, _)| *call)
            .collect();
        for call in waits {
            self.waits.remove(&call);
            self.marks.hit("wait cancelled");
        }
        let calls = self
            .standing
            .iter()
            .filter(|(_, standing)| standing.session == session);
        let calls: Vec<(CallId, bool)> = calls.map(|(call, s)| (*call, s.flushed_at.is_some())).collect();
        for (call, flushed) in calls {
            match (carrier, ending) {
                (Carrier::Exchange, Ending::Orderly) if flushed => {
                    self.standing.remove(&call);
                    self.marks.hit("confirmed: orderly end");
                }
                (Carrier::Exchange, _) => self.undone(call, "undone: exchange broke"),
                (Carrier::Stream, _) => self.undone(call, "undone: stream ended"),
            }
        }
    }

    fn undone(&mut self, call: CallId, mark: &'static str) {
        if self.waits.remove(&call).is_some() {
            self.marks.hit("wait cancelled");
        }
        let Some(standing) = self.standing.remove(&call) else {
            return;
        };
        self.marks.hit(mark);
        if standing.notice {
            self.marks.hit("notice undone");
        }
    }

    /// Notes what the effects of an input mean for the marks.
    fn note_effects(&mut self, own: Option<(SessionId, CallId)>, stopping: bool, effects: &[Effect]) {
        let mut own_answered = false;
        for effect in effects {
            let Effect::Reply { call, result } = effect else {
                continue;
            };
            own_answered |= own.is_some_and(|(_, own)| own == *call);
            let waited = self.waits.remove(call).map(|wait| wait.session);
            let session = waited.or_else(|| own.filter(|(_, own)| own == call).map(|(session, _)| session));
            match result {
                Ok(Reply::Messages {
                    deliveries,
                    restarted,
                }) => {
                    let Some(session) = session else { continue };
                    self.note_messages(session, *call, deliveries, restarted.is_some());
                    if waited.is_none() {
                        continue;
                    }
                    let by_same_session = own.is_some_and(|(s, _)| s == session);
                    if stopping {
                        self.marks.hit("wait answered by a stop");
                        continue;
                    }
                    match (deliveries.front(), by_same_session) {
                        (Some(first), _) => {
                            self.marks.hit("wait woken");
                            if first.redelivered {
                                self.marks.hit("wait woken by a redelivery");
                            }
                        }
                        (None, true) => self.marks.hit("wait superseded"),
                        (None, false) => self.marks.hit("wait expired"),
                    }
                }
                Ok(Reply::Posted { .. } | Reply::Pending { .. } | Reply::Seen { .. }) => {}
                Err(Refusal::InboxFull { .. }) => self.marks.hit("refused: inbox full"),
                Err(Refusal::TooManyWaits { .. }) => self.marks.hit("refused: too many waits"),
                Err(_) => self.marks.hit("refused: legal form, illegal call"),
            }
        }
        if let Some((session, call)) = own.filter(|_| !own_answered)
            && self.sessions.contains_key(&session)
        {
            let of = self.reads.clone();
            self.waits.insert(call, Wait { session, of });
        }
    }

    fn note_messages(
        &mut self,
        session: SessionId,
        call: CallId,
        deliveries: &Arc<VecDeque<Delivery>>,
        notice: bool,
    ) {
        if notice {
            self.marks.hit("notice read");
        }
        if deliveries.iter().any(|delivery| delivery.redelivered) {
            self.marks.hit("read redelivered");
        }
        if notice || !deliveries.is_empty() {
            let standing = Standing {
                session,
                flushed_at: None,
                kept_alive: false,
                notice,
                deliveries: Arc::clone(deliveries),
            };
            self.standing.insert(call, standing);
        }
    }

    /// Says what a crash would take with it now.
    fn note_stakes(&self) {
        let unread: usize = self.engine.status().pending.iter().map(|(_, count)| count).sum();
        self.at_stake.unread.store(unread, Ordering::Relaxed);
        self.at_stake
            .in_doubt
            .store(self.standing.len(), Ordering::Relaxed);
        self.at_stake.parked.store(self.waits.len(), Ordering::Relaxed);
    }
}

/// What a crash takes with it.
#[derive(Debug, Clone, Default)]
pub struct AtStake {
    unread: Arc<AtomicUsize>,
    in_doubt: Arc<AtomicUsize>,
    parked: Arc<AtomicUsize>,
}

impl AtStake {
    /// Counts what is about to be lost.
    pub fn note_crash(&self, marks: &Marks) {
        let counts = [
            (&self.unread, "fault bit: crash with unread messages"),
            (&self.in_doubt, "fault bit: crash with a hand-over in doubt"),
            (&self.parked, "fault bit: crash with parked waits"),
        ];
        for (count, mark) in counts {
            if count.swap(0, Ordering::Relaxed) > 0 {
                marks.hit(mark);
            }
        }
    }
}

impl Machine for Tap {
    fn handle(&mut self, now: Timestamp, mut input: Input, out: &mut Vec<Effect>) {
        let own = if let Input::Call { session, call, .. } = &input {
            Some((*session, *call))
        } else {
            None
        };
        self.reads = self.reads(&input);
        if self.bug.is_some() {
            if !self.spoil_input(now, &mut input) {
                return;
            }
            if let Some(refused) = self.refuses(&input) {
                out.push(refused);
                return;
            }
        }
        self.note_input(now, &input);
        let start = out.len();
        let refused_post = if let Input::Call { command, .. } = &input
            && matches!(command, Command::Post { .. })
        {
            Some(command.clone())
        } else {
            None
        };
        let stopping = input == Input::Stopping;
        self.engine.handle(now, input, out);
        let mut effects = out.split_off(start);
        self.note_effects(own, stopping, &effects);
        if self.bug.is_some() {
            self.spoil_effects(now, own, refused_post, &mut effects);
        }
        out.append(&mut effects);
        self.note_stakes();
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.engine.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let start = out.len();
        self.engine.handle_timeout(now, out);
        let mut effects = out.split_off(start);
        self.note_effects(None, false, &effects);
        self.end_doubts(now);
        if self.bug.is_some() {
            self.spoil_effects(now, None, None, &mut effects);
        }
        out.append(&mut effects);
        self.note_stakes();
    }

    fn status(&self) -> Status {
        self.engine.status()
    }

    fn overview(&self) -> Overview {
        self.engine.overview()
    }
}

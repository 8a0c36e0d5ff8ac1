//! Stands between the server and its engine: notes for the marks what passes, and breaks it on purpose where a
//! seeded bug is switched on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay::engine::{
    CallId, Carrier, Command, Delivery, Effect, Ending, Engine, Input, MessageId, Reason, Refusal, Reply,
    SessionId, Status, Timestamp,
};
use relay::server::Machine;

use crate::marks::Marks;

/// A way in which an engine may be wrong. Each must be caught within a stated number of seeds (`tests/bugs.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// Replies show the newest message first.
    Lifo,
    /// An undone hand-over is forgotten.
    DropOnUndo,
    /// An undone hand-over comes back twice.
    DuplicateOnUndo,
    /// An undone hand-over goes behind the newer messages.
    UndoOutOfOrder,
    /// A redelivered message is not marked.
    UndoUnmarked,
    /// A cancelled wait still takes the next message.
    WaitNotCancelled,
    /// A wait ends a second early.
    WaitEndsEarly,
    /// A woken wait is not answered.
    WakeUpLost,
    /// A hand-over is confirmed when its reply is made, not when it has arrived.
    ConfirmedTooEarly,
    /// A confirmed message is shown once more.
    ConfirmedComesBack,
    /// A read sometimes takes another role's messages.
    LeakToOtherRole,
    /// A bound session may speak for any role.
    BindingIgnored,
    /// A post into a full inbox is answered with an id.
    SilentDropWhenFull,
    /// A post that is refused for its length is accepted all the same.
    RefusedButPosted,
    /// No read tells of a start.
    NoticeMissing,
    /// Every read tells of a start.
    NoticeRepeated,
    /// Closed sessions are kept.
    SessionLeak,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Lifo,
        Self::DropOnUndo,
        Self::DuplicateOnUndo,
        Self::UndoOutOfOrder,
        Self::UndoUnmarked,
        Self::WaitNotCancelled,
        Self::WaitEndsEarly,
        Self::WakeUpLost,
        Self::ConfirmedTooEarly,
        Self::ConfirmedComesBack,
        Self::LeakToOtherRole,
        Self::BindingIgnored,
        Self::SilentDropWhenFull,
        Self::RefusedButPosted,
        Self::NoticeMissing,
        Self::NoticeRepeated,
        Self::SessionLeak,
    ];
}

/// The engine, watched.
pub struct Tap {
    engine: Engine,
    marks: Marks,
    bug: Option<Bug>,
    started_at: Timestamp,
    sessions: BTreeMap<SessionId, (Carrier, Option<String>)>,
    waits: BTreeMap<CallId, SessionId>,
    standing: BTreeMap<CallId, Standing>,
    /// What a bug keeps to show it again.
    kept: Vec<(String, Delivery)>,
    /// Numbers the calls that a bug makes up, and chooses what it hits.
    made_up: u64,
    at_stake: AtStake,
}

struct Standing {
    session: SessionId,
    flushed_at: Option<Timestamp>,
    notice: bool,
    deliveries: Arc<VecDeque<Delivery>>,
}

impl Tap {
    /// Watches an engine that starts now.
    pub fn new(engine: Engine, marks: Marks, bug: Option<Bug>, at_stake: AtStake) -> Self {
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
            at_stake,
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
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
                agent,
            } => {
                self.sessions.insert(*session, (*carrier, agent.clone()));
            }
            Input::Call { session, .. } => {
                let flushed =
                    |standing: &Standing| standing.session == *session && standing.flushed_at.is_some();
                let before = self.standing.len();
                self.standing.retain(|_, standing| !flushed(standing));
                (self.standing.len()..before).for_each(|_| self.marks.hit("confirmed: next call"));
            }
            Input::Flushed { call } => {
                if let Some(standing) = self.standing.get_mut(call) {
                    standing.flushed_at.get_or_insert(now);
                }
            }
            Input::Cancelled { call } => self.undone(*call, "undone: cancelled"),
            Input::Lost { call } => self.undone(*call, "undone: reply lost"),
            Input::Closed { session, ending } => self.note_closed(*session, *ending),
            Input::Stopping => {}
        }
    }

    fn note_closed(&mut self, session: SessionId, ending: Ending) {
        let Some((carrier, _)) = self.sessions.remove(&session) else {
            return;
        };
        let waits: Vec<CallId> = self
            .waits
            .iter()
            .filter(|(_, s)| **s == session)
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
    fn note_effects(&mut self, own: Option<(SessionId, CallId)>, effects: &[Effect]) {
        let mut own_answered = false;
        for effect in effects {
            let Effect::Reply { call, result } = effect else {
                continue;
            };
            own_answered |= own.is_some_and(|(_, own)| own == *call);
            let waited = self.waits.remove(call);
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
                Ok(Reply::Posted { .. } | Reply::Pending { .. }) => {}
                Err(Refusal::InboxFull { .. }) => self.marks.hit("refused: inbox full"),
                Err(Refusal::TooManyWaits { .. }) => self.marks.hit("refused: too many waits"),
                Err(_) => self.marks.hit("refused: legal form, illegal call"),
            }
        }
        if let Some((session, call)) = own.filter(|_| !own_answered)
            && self.sessions.contains_key(&session)
        {
            self.waits.insert(call, session);
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
        let own = match &input {
            Input::Call { session, call, .. } => Some((*session, *call)),
            Input::Opened { .. }
            | Input::Closed { .. }
            | Input::Flushed { .. }
            | Input::Cancelled { .. }
            | Input::Lost { .. }
            | Input::Stopping => None,
        };
        if self.bug.is_some() && !self.spoil_input(now, &mut input) {
            return;
        }
        self.note_input(now, &input);
        let start = out.len();
        let refused_post = match &input {
            Input::Call {
                command: command @ Command::Post { .. },
                ..
            } => Some(command.clone()),
            Input::Opened { .. }
            | Input::Closed { .. }
            | Input::Call { .. }
            | Input::Flushed { .. }
            | Input::Cancelled { .. }
            | Input::Lost { .. }
            | Input::Stopping => None,
        };
        self.engine.handle(now, input, out);
        let mut effects = out.split_off(start);
        self.note_effects(own, &effects);
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
        self.note_effects(None, &effects);
        let doubt_ms = relay::engine::limits::DOUBT_MS;
        let before = self.standing.len();
        self.standing
            .retain(|_, s| s.flushed_at.is_none_or(|at| at.plus_millis(doubt_ms) > now));
        (self.standing.len()..before).for_each(|_| self.marks.hit("confirmed: doubt ended"));
        if self.bug.is_some() {
            self.spoil_effects(now, None, None, &mut effects);
        }
        out.append(&mut effects);
        self.note_stakes();
    }

    fn status(&self) -> Status {
        self.engine.status()
    }
}

/// The seeded bugs.
impl Tap {
    /// Spoils an input; returns whether it is to happen at all.
    fn spoil_input(&mut self, now: Timestamp, input: &mut Input) -> bool {
        match input {
            Input::Call { session, command, .. } => self.spoil_call(*session, command),
            Input::Cancelled { call } | Input::Lost { call } => {
                let call = *call;
                if self.has(Bug::WaitNotCancelled) && self.waits.contains_key(&call) {
                    return false;
                }
                self.spoil_undo(now, &BTreeSet::from([call]));
            }
            Input::Closed { session, ending } => {
                if self.has(Bug::SessionLeak) && self.every(3) {
                    return false;
                }
                let session = *session;
                let orderly = *ending == Ending::Orderly
                    && self
                        .sessions
                        .get(&session)
                        .is_some_and(|(carrier, _)| *carrier == Carrier::Exchange);
                let standing = self.standing.iter().filter(|(_, s)| s.session == session);
                let undone = standing.filter(|(_, s)| !(orderly && s.flushed_at.is_some()));
                let calls = undone.map(|(call, _)| *call).collect();
                self.spoil_undo(now, &calls);
            }
            Input::Opened { .. } | Input::Flushed { .. } | Input::Stopping => {}
        }
        true
    }

    fn spoil_call(&mut self, session: SessionId, command: &mut Command) {
        let bound = self.sessions.get(&session).and_then(|(_, agent)| agent.clone());
        match command {
            Command::Post { from, .. } if self.has(Bug::BindingIgnored) && bound.is_some() => *from = bound,
            Command::Read { agent, .. } if self.has(Bug::LeakToOtherRole) && bound.is_none() => {
                if self.every(4) {
                    let pending = self.engine.status().pending;
                    let full = pending.into_iter().find(|(_, count)| *count > 0);
                    *agent = full.map(|(name, _)| name.to_string()).or_else(|| agent.take());
                }
            }
            Command::Read { wait_ms, .. } if self.has(Bug::WaitEndsEarly) && *wait_ms > 1_500 => {
                *wait_ms -= 1_000
            }
            Command::Post { .. } | Command::Read { .. } | Command::Pending { .. } => {}
        }
    }

    /// Does something else to the hand-overs that are about to be undone.
    fn spoil_undo(&mut self, now: Timestamp, calls: &BTreeSet<CallId>) {
        for call in calls {
            let Some(standing) = self.standing.get(call) else {
                continue;
            };
            let (session, deliveries) = (standing.session, Arc::clone(&standing.deliveries));
            if self.has(Bug::DropOnUndo) {
                self.confirm(now, session, *call);
            }
            if self.has(Bug::DuplicateOnUndo) {
                let again = deliveries.iter().map(|d| {
                    (
                        d.message.to.to_string(),
                        Delivery {
                            redelivered: true,
                            ..d.clone()
                        },
                    )
                });
                self.kept.extend(again);
            }
        }
    }

    /// Makes the engine believe that a reply has arrived, by a call that nobody made.
    fn confirm(&mut self, now: Timestamp, session: SessionId, call: CallId) {
        self.made_up += 1;
        let made_up = CallId(u64::MAX - self.made_up);
        let mut ignored = Vec::new();
        self.engine.handle(now, Input::Flushed { call }, &mut ignored);
        let look = Input::Call {
            session,
            call: made_up,
            command: Command::Pending { agent: None },
        };
        self.engine.handle(now, look, &mut ignored);
    }

    fn spoil_effects(
        &mut self,
        now: Timestamp,
        own: Option<(SessionId, CallId)>,
        post: Option<Command>,
        effects: &mut Vec<Effect>,
    ) {
        if self.has(Bug::WakeUpLost) {
            let own = own.map(|(_, call)| call);
            let every = self.every(2);
            effects.retain(|effect| !every || !matches!(effect, Effect::Reply { call, result: Ok(Reply::Messages { .. }) } if Some(*call) != own));
        }
        for effect in effects.iter_mut() {
            let Effect::Reply { call, mut result } = effect.clone() else {
                continue;
            };
            match &mut result {
                Ok(Reply::Messages {
                    deliveries,
                    restarted,
                }) => {
                    let mut shown = VecDeque::clone(deliveries);
                    self.spoil_reply(&mut shown);
                    *deliveries = Arc::new(shown);
                    match self.bug {
                        Some(Bug::NoticeMissing) => *restarted = None,
                        Some(Bug::NoticeRepeated) => *restarted = Some(self.started_at),
                        _ => {}
                    }
                    if self.has(Bug::ConfirmedTooEarly)
                        && let Some(session) = self.standing.get(&call).map(|standing| standing.session)
                    {
                        self.confirm(now, session, call);
                    }
                }
                Err(Refusal::InboxFull { .. }) if self.has(Bug::SilentDropWhenFull) => {
                    result = Ok(Reply::Posted {
                        id: MessageId(uuid::Uuid::nil()),
                    });
                }
                Err(Refusal::BodyTooLong { .. }) if self.has(Bug::RefusedButPosted) => {
                    self.post_anyway(now, own, post.clone());
                }
                Ok(Reply::Posted { .. } | Reply::Pending { .. }) | Err(_) => {}
            }
            *effect = Effect::Reply { call, result };
        }
    }

    fn spoil_reply(&mut self, shown: &mut VecDeque<Delivery>) {
        match self.bug {
            Some(Bug::Lifo) => shown.make_contiguous().reverse(),
            Some(Bug::UndoUnmarked) => shown.iter_mut().for_each(|delivery| delivery.redelivered = false),
            Some(Bug::UndoOutOfOrder) => shown
                .make_contiguous()
                .sort_by_key(|delivery| delivery.redelivered),
            Some(Bug::DuplicateOnUndo) => {
                let Some(to) = shown.front().map(|delivery| delivery.message.to.to_string()) else {
                    return;
                };
                let again: Vec<Delivery> = self
                    .kept
                    .iter()
                    .filter(|(of, _)| *of == to)
                    .map(|(_, d)| d.clone())
                    .collect();
                self.kept.retain(|(of, _)| *of != to);
                shown.extend(again);
            }
            Some(Bug::ConfirmedComesBack) => {
                let Some(first) = shown.front().cloned() else {
                    return;
                };
                let to = first.message.to.to_string();
                let at = self.kept.iter().position(|(of, _)| *of == to);
                if let Some((_, old)) = at.map(|at| self.kept.remove(at)) {
                    shown.push_front(Delivery {
                        redelivered: true,
                        ..old
                    });
                }
                self.kept.push((to, first));
            }
            _ => {}
        }
    }

    fn post_anyway(&mut self, now: Timestamp, own: Option<(SessionId, CallId)>, post: Option<Command>) {
        let (Some((session, _)), Some(Command::Post { from, to, kind, .. })) = (own, post) else {
            return;
        };
        self.made_up += 1;
        let call = CallId(u64::MAX - self.made_up);
        let command = Command::Post {
            from,
            to,
            kind,
            body: "illegal".to_owned(),
        };
        let mut ignored = Vec::new();
        self.engine.handle(
            now,
            Input::Call {
                session,
                call,
                command,
            },
            &mut ignored,
        );
    }
}

//! The one owner of the engine: inputs go in one at a time, and all effects of one are carried out before the next.
//!
//! The engine sits behind a lock rather than behind a task: a step takes about a microsecond and never waits,
//! while a hand-over to another thread and back takes longer than the step.
//!
//! # Locks
//!
//! Each line in the order in which its locks may be taken while those before them are held:
//!
//! - the names of the API ([`super::v1`]), a connection's state ([`super::wire`]), the engine's ([`Owner::lock`]), the reports' queue;
//! - the processes of agent CLIs ([`super::hooks`]), the engine's, or the doors;
//! - a connection's state, the calls that wait ([`super::orphans`]);
//! - what is known of a stream's client ([`super::sse`]), or the table of streams, then the stream's outbox, or the calls that wait;
//! - the engine's, the lines for stdout, then how they are written ([`super::log`]), under which nothing else is locked;
//! - the engine's, what has changed for a session ([`super::changes`]), under which nothing else is locked;
//! - the engine's, which agents have had a session ([`super::known_agents`]), under which nothing else is locked;
//! - the engine's, what agents say of their sessions ([`super::v1`]), what observers read ([`super::observers`]), under which nothing else is locked;
//! - the names, or the engine's, or what is known of observers, then the tokens, or the cards, under which nothing else is locked;
//! - each other table of the API alone, with none held before it or after it.
//!
//! What a connection saw goes through the queue: [`Owner::report`] may be called from a `Drop`, also by a thread that holds
//! the engine's lock, and never waits for it. Whoever holds that lock carries out what is in the queue, before its own
//! step and once more after it has let go; so a report is never left lying.

mod answers;
mod gone;
mod nodes;
mod programs;
mod timers;
mod watching;
mod workers;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::budget::Budget;
use super::changes::Changes;
use super::clock::Clock;
use super::known_agents::{self, KnownAgents};
use super::limits::{FREE_BYTES, WAITING_BYTES_MAX};
use super::log::MessageLog;
use super::machine::Machine;
use super::observers::Journal;
use super::quirks::Quirk;
use super::random::Random;
use super::requests::{Cancelled, Request, RequestKey, Requests};
use super::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, TryLockError};
use crate::engine::{
    AgentName, CallId, Carrier, ClientId, Command, Delivery, Effect, Ending, Event, HandoverId, Input,
    Refusal, Reply, SessionId, Sign, Timestamp, WaitEnd, Who,
};

pub use answers::{Answered, Outcome, Parked, Receipt};
pub use gone::Gone;
pub use nodes::Outgoing;
pub use programs::ProgramKey;
pub use workers::Wanted;

/// What the engine says to a call.
pub type Answer = Result<Reply, Refusal>;

/// Owns the engine.
pub struct Owner {
    state: Mutex<State>,
    /// What connections saw, in order, until the next step.
    reports: Mutex<Vec<Input>>,
    clock: Clock,
    log: Box<dyn MessageLog>,
    journal: Journal,
    gone: Gone,
    /// Under which nothing else is locked.
    agents: std::sync::Mutex<KnownAgents>,
    /// What waits for clients, whose connections come to nobody but the engine for all else.
    budget: std::sync::Arc<Budget>,
    rearm: Notify,
    numbers: AtomicU64,
    broken: CancellationToken,
}

struct State {
    engine: Box<dyn Machine>,
    random: Random,
    /// When the lock was taken.
    now: Timestamp,
    /// How far the clock that people read is ahead of that, as the engine knows it.
    wall_ahead_ms: i64,
    /// Emptied by each step; kept for its room.
    effects: Vec<Effect>,
    /// Empty; gives its room to the reports while others are carried out.
    reported: Vec<Input>,
    /// Something was logged that is to be written when the lock is let go.
    has_logged: bool,
    /// Messages that have arrived, to be freed when the lock is let go.
    spent: Vec<Arc<Vec<Delivery>>>,
    /// Calls that were not answered in their own step.
    parked: BTreeMap<CallId, Waiter>,
    /// Which calls can be cancelled by the ids of their requests.
    requests: Requests,
    /// Where what has changed is put down for the sessions that watch something.
    watching: BTreeMap<SessionId, Arc<Changes>>,
    nodes: nodes::Connections,
    programs: programs::Programs,
    workers: workers::Wants,
    /// When the timer task wakes up by itself.
    armed_for: Option<Timestamp>,
    /// What was unread when the relay was told to stop.
    unread_at_stop: Unread,
}

/// Whose inboxes were not empty, and how many messages each of them held, in the order of the roster.
pub type Unread = Vec<(AgentName, usize)>;

/// Who waits for the answer to a parked call.
struct Waiter {
    answer: oneshot::Sender<(Answer, Option<HandoverId>)>,
    key: Option<RequestKey>,
}

/// The engine's lock. If a panic passes it, the engine's state cannot be trusted any more: the relay ends.
struct Locked<'a> {
    state: MutexGuard<'a, State>,
    broken: &'a CancellationToken,
    /// A thread may get here while it unwinds from a panic that has nothing to do with the engine.
    panicked_before: bool,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.panicked_before {
            self.broken.cancel();
        }
    }
}

impl Owner {
    /// Takes over an engine; `random` gives what it makes the ids of messages of.
    pub fn new(engine: Box<dyn Machine>, clock: Clock, random: Random, log: Box<dyn MessageLog>) -> Self {
        let now = clock();
        let state = State {
            now,
            wall_ahead_ms: 0,
            engine,
            random,
            effects: Vec::new(),
            reported: Vec::new(),
            has_logged: false,
            spent: Vec::new(),
            parked: BTreeMap::new(),
            requests: Requests::default(),
            watching: BTreeMap::new(),
            nodes: nodes::Connections::default(),
            programs: programs::Programs::default(),
            workers: workers::Wants::default(),
            armed_for: None,
            unread_at_stop: Unread::new(),
        };
        Self {
            state: Mutex::new(state),
            reports: Mutex::new(Vec::new()),
            clock,
            log,
            journal: Journal::new(now),
            gone: Box::new(|_| {}),
            agents: std::sync::Mutex::default(),
            budget: Budget::new(WAITING_BYTES_MAX, FREE_BYTES),
            rearm: Notify::new(),
            numbers: AtomicU64::new(0),
            broken: CancellationToken::new(),
        }
    }

    /// Has the agents that have a session noted.
    pub fn noting_agents(self, agents: KnownAgents) -> Self {
        let agents = std::sync::Mutex::new(agents);
        Self { agents, ..self }
    }

    /// Returns what all connections together may leave unread.
    pub fn budget(&self) -> &std::sync::Arc<Budget> {
        &self.budget
    }

    /// Opens a session and returns it with the agent that it is bound to.
    ///
    /// # Errors
    ///
    /// The engine's refusal: the agent is unknown, or too many sessions are open.
    pub fn open(&self, carrier: Carrier, who: Who) -> Result<(SessionId, Option<AgentName>), Refusal> {
        let session = SessionId(self.number());
        let opened = self.step(Input::Opened {
            session,
            carrier,
            who,
        });
        let Some(StepAnswer::Opened(result)) = opened else {
            unreachable!("the engine answers every opened session");
        };
        result.map(|agent| (session, agent))
    }

    /// Says whose a session is.
    pub fn name_client(&self, session: SessionId, client: ClientId) {
        self.step(Input::Named { session, client });
    }

    /// Calls a tool; returns nothing if the request was cancelled before it came, or its session is closed.
    pub fn call(
        self: &Arc<Self>,
        session: SessionId,
        command: Command,
        request: Option<Request<'_>>,
    ) -> Option<Outcome> {
        let call = CallId(self.number());
        self.with(|state| {
            if state.requests.was_cancelled(state.now, request) {
                return None;
            }
            let input = Input::Call {
                session,
                call,
                random: (state.random)(),
                command,
            };
            match self.step_locked(state, input)? {
                StepAnswer::Answer(answer, handover) => {
                    if let Some(handover) = handover {
                        state.requests.answer_at_once(request, call, handover);
                    }
                    let receipt = self.receipt(handover);
                    return Some(Outcome::Answered(Answered { answer, receipt }));
                }
                StepAnswer::Parked => {}
                StepAnswer::Opened(_) => unreachable!("a call opens no session"),
            }
            let (sender, answer) = oneshot::channel();
            let key = state.requests.park(request, call);
            let waiter = Waiter { answer: sender, key };
            state.parked.insert(call, waiter);
            Some(Outcome::Parked(Parked::new(self, call, answer)))
        })
    }

    /// Makes what follows the bytes of a reply, if something is handed over in it.
    fn receipt(self: &Arc<Self>, handover: Option<HandoverId>) -> Option<Receipt> {
        handover.map(|handover| Receipt::new(self, handover))
    }

    /// Takes note that a client does not want the answer to a request any more: its call is dropped, or the hand-over in its
    /// answer undone; if the request is yet to come, it will not be carried out.
    pub fn cancel(&self, key: RequestKey, quirk: Option<Quirk>) {
        self.with(|state| {
            let input = match state.requests.cancel(state.now, key) {
                None => return,
                Some(Cancelled::Wait(call)) => Input::Cancelled { call },
                Some(Cancelled::Handover(handover)) => {
                    let sign = Quirk::sign_of_cancellation(quirk);
                    Input::Signed { handover, sign }
                }
            };
            self.step_locked(state, input);
        });
    }

    /// Reports the end of a session. Never waits for the engine's lock.
    pub fn close(&self, session: SessionId, ending: Ending) {
        self.report(Input::Closed { session, ending });
    }

    /// Answers all that waits; nothing waits and nothing is posted from here on.
    pub fn stop(&self) {
        self.with(|state| {
            self.step_locked(state, Input::Stopping);
            // Now, because what has been read a moment ago is put back when its stream is ended.
            let mut unread = state.engine.status().pending;
            unread.retain(|(_, count)| *count > 0);
            state.unread_at_stop = unread;
        });
    }

    /// Returns what was unread at [`Self::stop`].
    pub fn unread_at_stop(&self) -> Unread {
        self.with(|state| state.unread_at_stop.clone())
    }

    /// Returns what has happened, for observers.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the time by the clock that people read. Takes no lock: observers ask for it with each event.
    pub fn now(&self) -> Timestamp {
        (self.clock)().plus_millis(self.clock.wall_ahead_ms())
    }

    /// Returns how many messages wait in all inboxes, without carrying out what was reported.
    #[cfg(all(test, feature = "interleavings"))]
    pub fn pending_now(&self) -> usize {
        let state = self.state.lock().expect("no panic");
        state.engine.status().pending.iter().map(|(_, count)| count).sum()
    }

    /// Waits until a panic has passed the engine's lock.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// Takes note of what a connection saw. Never waits for the engine's lock.
    pub fn report(&self, input: Input) {
        self.reports().push(input);
        self.settle();
    }

    fn step(&self, input: Input) -> Option<StepAnswer> {
        self.with(|state| self.step_locked(state, input))
    }

    /// Takes the engine's lock for a piece of work, and looks after the reports before and after it.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = work(&mut state);
        self.let_go(state);
        self.settle();
        result
    }

    /// Lets the lock go, and only then writes what was logged and frees the messages that have arrived.
    fn let_go(&self, mut state: Locked<'_>) {
        let spent = std::mem::take(&mut state.spent);
        let has_logged = std::mem::take(&mut state.has_logged);
        drop(state);
        drop(spent);
        if has_logged {
            self.log.write();
        }
    }

    /// Carries out what was reported meanwhile, unless another thread is at it.
    fn settle(&self) {
        while !self.reports().is_empty() {
            match self.state.try_lock() {
                Ok(state) => {
                    let mut state = self.guarded(state);
                    self.catch_up(&mut state);
                    self.let_go(state);
                }
                // It looks again when it has let go.
                Err(TryLockError::WouldBlock) => return,
                // The relay ends.
                Err(TryLockError::Poisoned(_)) => return,
            }
        }
    }

    /// Tells the engine that the clock was set which people read, if it was; then carries out all that was reported.
    fn catch_up(&self, state: &mut State) {
        let ahead_ms = self.clock.wall_ahead_ms();
        if ahead_ms != state.wall_ahead_ms {
            state.wall_ahead_ms = ahead_ms;
            self.step_locked(state, Input::WallClock { ahead_ms });
        }
        let mut reported = std::mem::take(&mut state.reported);
        loop {
            std::mem::swap(&mut *self.reports(), &mut reported);
            if reported.is_empty() {
                break;
            }
            for report in reported.drain(..) {
                self.step_locked(state, report);
            }
        }
        state.reported = reported;
    }

    fn step_locked(&self, state: &mut State, input: Input) -> Option<StepAnswer> {
        let own_call = match &input {
            Input::Call { call, .. } => Some(*call),
            Input::Opened { .. }
            | Input::Named { .. }
            | Input::Closed { .. }
            | Input::Cancelled { .. }
            | Input::Signed { .. }
            | Input::KeptAlive { .. }
            | Input::Worker { .. }
            | Input::WallClock { .. }
            | Input::Stopping => None,
        };
        let State {
            engine, effects, now, ..
        } = state;
        engine.handle(*now, input, effects);
        if let Some(agent) = engine.take_newly_seen() {
            self.agents().has_session(&agent);
        }
        let own = self.carry_out(state, own_call);
        self.arm(state);
        own
    }

    /// Carries out all effects in order, and returns what concerns the input's own call or session.
    fn carry_out(&self, state: &mut State, own_call: Option<CallId>) -> Option<StepAnswer> {
        let mut own = None;
        let State {
            now,
            wall_ahead_ms,
            effects,
            has_logged,
            spent,
            parked,
            requests,
            watching,
            nodes,
            programs,
            workers,
            ..
        } = state;
        self.journal.note(now.plus_millis(*wall_ahead_ms), effects);
        for effect in effects.drain(..) {
            if let Effect::Note(event) = &effect
                && let Some(agent) = known_agents::to_whom_one_is_bound(event)
            {
                self.agents().has_session(agent);
            }
            match effect {
                Effect::Opened { result, .. } => own = Some(StepAnswer::Opened(result)),
                Effect::Reply {
                    call,
                    result,
                    handover,
                } if Some(call) == own_call => own = Some(StepAnswer::Answer(result, handover)),
                Effect::Reply {
                    call,
                    result,
                    handover,
                } => {
                    let Some(Waiter { answer, key }) = parked.remove(&call) else {
                        continue;
                    };
                    if let Some(key) = key {
                        requests.forget(key.clone(), call);
                        if let Some(handover) = handover {
                            requests.answer(key, call, handover);
                        }
                    }
                    if let Err((_, Some(handover))) = answer.send((result, handover)) {
                        // The reader has just gone. Carried out when this step is done.
                        let sign = Sign::Lost;
                        self.reports().push(Input::Signed { handover, sign });
                    }
                }
                Effect::Changed { session, what } => {
                    if let Some(changes) = watching.get(&session) {
                        changes.add(what);
                    }
                }
                Effect::Deliver { session, frame } => nodes.deliver(session, frame),
                Effect::Invoke { session, invocation } => nodes.invoke(session, invocation),
                Effect::Tell { session, told } => nodes.tell(session, told),
                Effect::Superseded { session } => nodes.supersede(session),
                Effect::StartWorker(start) => workers.start(start),
                Effect::EndWorker { worker } => workers.end(worker),
                Effect::Note(Event::Worker(transition)) => workers.note(&transition),
                Effect::Note(Event::Closed { session, .. }) => {
                    watching.remove(&session);
                    nodes.closed(session);
                    programs.closed(session);
                }
                Effect::Note(Event::Accepted { message, .. }) => {
                    self.log.add(&message);
                    *has_logged = true;
                }
                Effect::Note(Event::Gone { agent }) => {
                    self.agents().is_gone(&agent);
                    (self.gone)(&agent);
                }
                Effect::Note(
                    Event::Parked { call, .. }
                    | Event::StandsBy { call, .. }
                    | Event::SpawnWaits { call, .. },
                ) if Some(call) == own_call => {
                    own = Some(StepAnswer::Parked);
                }
                Effect::Note(Event::WaitEnded {
                    call,
                    by: WaitEnd::Cancelled,
                }) => {
                    if let Some(Waiter { key: Some(key), .. }) = parked.remove(&call) {
                        requests.forget(key, call);
                    }
                }
                Effect::Note(Event::Confirmed {
                    handover, deliveries, ..
                }) => {
                    requests.ended(handover);
                    nodes.ended(handover, false);
                    spent.push(deliveries);
                }
                Effect::Note(Event::Undone { handover, .. }) => {
                    requests.ended(handover);
                    nodes.ended(handover, true);
                }
                Effect::Note(_) => {}
            }
        }
        own
    }

    /// Takes the engine's lock, and carries out what was reported before.
    fn lock(&self) -> Locked<'_> {
        let state = self
            .state
            .lock()
            .expect("a panic of the engine has ended this relay");
        let mut state = self.guarded(state);
        self.catch_up(&mut state);
        state
    }

    /// Reads the clock, once for all that is done until the lock is let go.
    fn guarded<'a>(&'a self, state: MutexGuard<'a, State>) -> Locked<'a> {
        let mut locked = Locked {
            state,
            broken: &self.broken,
            panicked_before: std::thread::panicking(),
        };
        locked.now = locked.now.max((self.clock)());
        locked
    }

    fn reports(&self) -> MutexGuard<'_, Vec<Input>> {
        self.reports
            .lock()
            .expect("nothing panics while it holds the reports")
    }

    fn agents(&self) -> std::sync::MutexGuard<'_, KnownAgents> {
        self.agents
            .lock()
            .expect("nothing panics while it holds the names of agents")
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a step says to whoever made it.
enum StepAnswer {
    Answer(Answer, Option<HandoverId>),
    Parked,
    Opened(Result<Option<AgentName>, Refusal>),
}

#[cfg(test)]
#[cfg(not(feature = "interleavings"))]
mod tests;

//! The one owner of the engine: inputs go in one at a time, and all effects of one are carried out before the next.
//!
//! The engine sits behind a lock rather than behind a task: a step takes about a microsecond and never waits,
//! while a hand-over to another thread and back takes longer than the step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::clock::Clock;
use super::log::MessageLog;
use crate::engine::{
    AgentName, CallId, Carrier, Command, Effect, Ending, Engine, Input, Reason, Refusal, Reply, SessionId,
    Status, Timestamp,
};

/// What the engine says to a call.
pub type Answer = Result<Reply, Refusal>;

/// A state machine like the engine. Production runs the engine itself; the simulation puts one around it that
/// watches what passes, or breaks it on purpose.
pub trait Machine: Send {
    /// See [`Engine::handle`].
    fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>);

    /// See [`Engine::poll_timeout`].
    fn poll_timeout(&self) -> Option<(Timestamp, Reason)>;

    /// See [`Engine::handle_timeout`].
    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>);

    /// See [`Engine::status`].
    fn status(&self) -> Status;
}

impl Machine for Engine {
    fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>) {
        Engine::handle(self, now, input, out);
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        Engine::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        Engine::handle_timeout(self, now, out);
    }

    fn status(&self) -> Status {
        Engine::status(self)
    }
}

/// Owns the engine.
pub struct Owner {
    state: Mutex<State>,
    clock: Clock,
    log: MessageLog,
    rearm: Notify,
    numbers: AtomicU64,
}

struct State {
    engine: Box<dyn Machine>,
    now: Timestamp,
    /// Emptied by each step; kept for its room.
    effects: Vec<Effect>,
    /// Calls that were not answered in their own step.
    parked: BTreeMap<CallId, oneshot::Sender<Answer>>,
    /// When the timer task wakes up by itself.
    armed_for: Option<Timestamp>,
}

/// What came of a call.
pub enum Outcome {
    /// It is answered.
    Answered(Answered),
    /// It waits.
    Parked(Parked),
}

/// An answer, with what must happen to its reply.
pub struct Answered {
    /// What the engine says.
    pub answer: Answer,
    /// Goes with the reply's bytes, if anything hangs on their arrival.
    pub receipt: Option<Receipt>,
}

/// A call that waits. Dropping it cancels the call.
pub struct Parked {
    answer: oneshot::Receiver<Answer>,
    receipt: Receipt,
}

/// Follows the bytes of one reply. Dropped before [`Receipt::flushed`], it reports the reply as lost.
pub struct Receipt {
    owner: Arc<Owner>,
    call: CallId,
    open: bool,
}

impl Owner {
    /// Takes over an engine.
    pub fn new(engine: Box<dyn Machine>, clock: Clock, log: MessageLog) -> Self {
        let state = State {
            now: clock(),
            engine,
            effects: Vec::new(),
            parked: BTreeMap::new(),
            armed_for: None,
        };
        Self {
            state: Mutex::new(state),
            clock,
            log,
            rearm: Notify::new(),
            numbers: AtomicU64::new(0),
        }
    }

    /// Opens a session and returns it with the agent that it is bound to.
    ///
    /// # Errors
    ///
    /// The engine's refusal: the agent is unknown, or too many sessions are open.
    pub fn open(
        &self,
        carrier: Carrier,
        agent: Option<String>,
    ) -> Result<(SessionId, Option<AgentName>), Refusal> {
        let session = SessionId(self.number());
        let opened = self.step(Input::Opened {
            session,
            carrier,
            agent,
        });
        let Some(Own::Opened(result)) = opened else {
            unreachable!("the engine answers every opened session");
        };
        result.map(|agent| (session, agent))
    }

    /// Reports the end of a session.
    pub fn close(&self, session: SessionId, ending: Ending) {
        self.step(Input::Closed { session, ending });
    }

    /// Calls a tool.
    pub fn call(self: &Arc<Self>, session: SessionId, command: Command) -> Outcome {
        let call = CallId(self.number());
        let receipt = matches!(command, Command::Read { .. }).then(|| Receipt {
            owner: Arc::clone(self),
            call,
            open: true,
        });
        let mut state = self.lock();
        let own = self.step_locked(
            &mut state,
            Input::Call {
                session,
                call,
                command,
            },
        );
        if let Some(Own::Answer(answer)) = own {
            return Outcome::Answered(Answered { answer, receipt });
        }
        let (sender, answer) = oneshot::channel();
        state.parked.insert(call, sender);
        let receipt = receipt.unwrap_or_else(|| Receipt {
            owner: Arc::clone(self),
            call,
            open: true,
        });
        Outcome::Parked(Parked { answer, receipt })
    }

    /// Reports that a call's client does not want its answer any more.
    pub fn cancel(&self, call: CallId) {
        let mut state = self.lock();
        state.parked.remove(&call);
        self.step_locked(&mut state, Input::Cancelled { call });
    }

    /// Answers all that waits; nothing waits from here on.
    pub fn stop(&self) {
        self.step(Input::Stopping);
    }

    /// Returns what a person may know of the state.
    pub fn status(&self) -> Status {
        self.lock().engine.status()
    }

    /// Tells the engine when its time has come, for ever.
    pub async fn run_timers(self: Arc<Self>) {
        loop {
            match self.fire() {
                None => self.rearm.notified().await,
                Some(rest) => {
                    tokio::select! {
                        () = tokio::time::sleep(rest) => {}
                        () = self.rearm.notified() => {}
                    }
                }
            }
        }
    }

    /// Does all that is due and returns how long nothing will be.
    fn fire(&self) -> Option<Duration> {
        let mut state = self.lock();
        let now = self.now(&mut state);
        let State { engine, effects, .. } = &mut *state;
        engine.handle_timeout(now, effects);
        self.carry_out(&mut state, None);
        state.armed_for = state.engine.poll_timeout().map(|(at, _)| at);
        let rest_ms = state.armed_for?.as_millis() - now.as_millis();
        Some(Duration::from_millis(u64::try_from(rest_ms).unwrap_or(0)))
    }

    fn step(&self, input: Input) -> Option<Own> {
        self.step_locked(&mut self.lock(), input)
    }

    fn step_locked(&self, state: &mut State, input: Input) -> Option<Own> {
        let own_call = match &input {
            Input::Call { call, .. } => Some(*call),
            Input::Opened { .. }
            | Input::Closed { .. }
            | Input::Flushed { .. }
            | Input::Cancelled { .. }
            | Input::Lost { .. }
            | Input::Stopping => None,
        };
        let now = self.now(state);
        let State { engine, effects, .. } = state;
        engine.handle(now, input, effects);
        let own = self.carry_out(state, own_call);
        self.arm(state);
        own
    }

    /// Carries out all effects in order, and returns what concerns the input's own call or session.
    fn carry_out(&self, state: &mut State, own_call: Option<CallId>) -> Option<Own> {
        let mut own = None;
        for effect in state.effects.drain(..) {
            match effect {
                Effect::Opened { result, .. } => own = Some(Own::Opened(result)),
                Effect::Reply { call, result } if Some(call) == own_call => own = Some(Own::Answer(result)),
                Effect::Reply { call, result } => {
                    let parked = state.parked.remove(&call);
                    // A reader that has just gone drops its receipt, which reports the reply as lost.
                    let _ = parked.map(|sender| sender.send(result));
                }
                Effect::Log { message } => (self.log)(message),
            }
        }
        own
    }

    /// Wakes the timer task if something is due before it would wake up by itself.
    fn arm(&self, state: &mut State) {
        let Some((at, _)) = state.engine.poll_timeout() else {
            return;
        };
        if state.armed_for.is_none_or(|armed| at < armed) {
            state.armed_for = Some(at);
            self.rearm.notify_one();
        }
    }

    fn now(&self, state: &mut State) -> Timestamp {
        state.now = state.now.max((self.clock)());
        state.now
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the engine does not panic")
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a step says to whoever made it.
enum Own {
    Answer(Answer),
    Opened(Result<Option<AgentName>, Refusal>),
}

impl Parked {
    /// Returns the call's number, for a cancellation.
    pub fn call(&self) -> CallId {
        self.receipt.call
    }

    /// Waits for the answer; none comes if the call was cancelled or its session closed.
    pub async fn answered(&mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()
    }

    /// Puts the answer that came together with what goes with its reply.
    pub fn complete(self, answer: Answer) -> Answered {
        Answered {
            answer,
            receipt: Some(self.receipt),
        }
    }
}

impl Receipt {
    /// Returns the call's number, for a cancellation.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// Reports that the reply's last byte was passed to the peer's socket.
    pub fn flushed(mut self) {
        self.open = false;
        self.owner.step(Input::Flushed { call: self.call });
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let mut state = self.owner.lock();
        state.parked.remove(&self.call);
        self.owner
            .step_locked(&mut state, Input::Lost { call: self.call });
    }
}

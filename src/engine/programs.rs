//! The programs of agents, as their hooks show them: an agent CLI such as Claude Code, which shows its model what it is handed, and is
//! told by nobody but itself when it may.
//!
//! A program has a session of its own beside those of its MCP connections. It is open from its first event until it says that it has
//! ended, or has been silent for [`PROGRAM_GONE_MS`] and cannot be woken; its next event opens another.

use std::collections::{BTreeMap, BTreeSet};

use super::agents::{Agent, Refusal};
use super::events::{Event, WaitEnd};
use super::handling::Mode;
use super::io::{self, Carrier, Effect, Ending, Sign};
use super::limits::{PROGRAM_GONE_MS, PROGRAMS_MAX, SURFACED_BYTES_MAX};
use super::message::Delivery;
use super::names::{AgentName, CallId, Seq, SessionId};
use super::sessions::Session;
use super::time::Timestamp;
use super::timers::Timer;
use super::{Engine, Step};

/// What a program can do: at which boundaries its model can be shown something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Abilities {
    /// When a turn begins.
    pub at_prompts: bool,
    /// When a tool has returned.
    pub at_tools: bool,
    /// When a turn ends.
    pub at_ends: bool,
}

impl Abilities {
    /// Those of a program that can do all of it.
    pub const ALL: Self = Self {
        at_prompts: true,
        at_tools: true,
        at_ends: true,
    };

    /// Those of a program that can do nothing of it.
    const NONE: Self = Self {
        at_prompts: false,
        at_tools: false,
        at_ends: false,
    };

    /// Tells whether there is a boundary for what is to be brought so.
    const fn bring(self, mode: Mode) -> bool {
        match mode {
            Mode::Immediate | Mode::Manual => true,
            Mode::NextMessage => self.at_prompts,
            Mode::NextToolCall => self.at_tools,
            Mode::OnIdle => self.at_ends,
        }
    }
}

/// What a program does, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Activity {
    /// Nothing, until somebody says something to its model, or it is woken.
    Idle,
    /// Its model has a turn.
    Busy,
    /// It waits for its person to allow something.
    Asks,
}

impl Activity {
    /// Returns the word that stands for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Asks => "asks",
        }
    }
}

/// A program, in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Program {
    pub abilities: Abilities,
    pub activity: Activity,
    /// It said whose it is when it appeared, and is nobody else's.
    pub is_named: bool,
    /// The project from which its model names agents.
    pub project: String,
    /// How its agent is to be brought what its senders say nothing of, if it has said that.
    pub mode: Option<Mode>,
    /// How many wakes in a row have come to nothing.
    pub wakes_in_vain: u8,
    /// The call that is answered once it is to begin a turn.
    pub waiter: Option<CallId>,
    /// Its turn goes on because something was shown at its end, and it has not called a tool since.
    pub went_on: bool,
    /// How many bytes of bodies its model was shown in this turn.
    pub shown_bytes: usize,
    /// What its model was told of.
    pub told_to: ToldTo,
    /// Since when nothing has shown that something may stand by for it soon: it has appeared or said something, or its waiter has ended.
    pub silent_since: Timestamp,
    /// When it last said what it has come to; none if it has said nothing, and only its waiter is there.
    pub heard_at: Option<Timestamp>,
    /// When its silence ends its session, unless it can be woken then.
    pub gone_at: Timestamp,
    /// It was a worker's, of whose name another one has been started since: it speaks for nobody any more.
    pub is_over: bool,
}

/// Up to which place of an inbox a model was told of what is there, for each mode: what is brought otherwise is told of at other times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct ToldTo([Seq; Mode::ALL.len()]);

impl ToldTo {
    fn of(&self, delivery: &Delivery) -> Seq {
        self.0[delivery.mode as usize]
    }

    /// Takes note that the model was told of a delivery, and of those before it that are brought like it.
    pub fn tell_of(&mut self, delivery: &Delivery) {
        let to = &mut self.0[delivery.mode as usize];
        *to = (*to).max(Seq(delivery.seq.0 + 1));
    }

    /// Forgets that it was told of what has a place from that one on.
    fn forget(&mut self, from: Seq) {
        for to in &mut self.0 {
            *to = (*to).min(from);
        }
    }
}

impl Program {
    /// Makes one that has just appeared.
    pub fn new(
        abilities: Abilities,
        is_named: bool,
        project: String,
        mode: Option<Mode>,
        now: Timestamp,
    ) -> Self {
        Self {
            abilities,
            activity: Activity::Idle,
            is_named,
            project,
            mode,
            wakes_in_vain: 0,
            waiter: None,
            went_on: false,
            shown_bytes: 0,
            told_to: ToldTo::default(),
            silent_since: now,
            heard_at: None,
            gone_at: now.plus_millis(PROGRAM_GONE_MS),
            is_over: false,
        }
    }

    pub fn was_not_told_of(&self, delivery: &Delivery) -> bool {
        delivery.seq >= self.told_to.of(delivery)
    }

    /// Takes note that its model knows nothing of what one before was told.
    pub fn starts(&mut self) {
        self.told_to = ToldTo::default();
    }

    /// Gives its model room for what it is shown in a turn, and has it told once more of what it has not read. A turn that a wake begins
    /// starts with that.
    pub fn begins_turn(&mut self) {
        self.shown_bytes = 0;
        self.told_to = ToldTo::default();
    }
}

impl Engine {
    pub(super) fn set_activity(&mut self, session: SessionId, activity: Activity, step: &mut Step<'_>) {
        let program = self.program_mut(session);
        if program.activity != activity {
            program.activity = activity;
            step.note(Event::Does { session, activity });
        }
    }

    /// Takes note that a program has said something: it is there.
    pub(super) fn hears(&mut self, session: SessionId, step: &Step<'_>) {
        let program = self.program_mut(session);
        program.heard_at = Some(step.now);
        program.silent_since = step.now;
        program.wakes_in_vain = 0;
        self.stays_until(session, step.now.plus_millis(PROGRAM_GONE_MS));
    }

    /// Sets when a program's silence ends its session.
    fn stays_until(&mut self, session: SessionId, at: Timestamp) {
        let before = std::mem::replace(&mut self.program_mut(session).gone_at, at);
        self.timers.disarm(before, Timer::ProgramGone(session));
        self.timers.arm(at, Timer::ProgramGone(session));
    }

    /// Ends the session of a program that has been silent for long, unless it can be woken.
    pub(super) fn program_gone(&mut self, session: SessionId, step: &mut Step<'_>) {
        if self.program(session).waiter.is_some() {
            self.stays_until(session, step.now.plus_millis(PROGRAM_GONE_MS));
        } else {
            self.close(session, Ending::Broken, step);
        }
    }

    /// Has the program go that was silent the longest, if there are as many as there may be; one that can be woken only if all can.
    pub(super) fn make_room_for_program(&mut self, step: &mut Step<'_>) {
        let programs = self.sessions.iter();
        let programs = programs.filter_map(|(session, state)| Some((*session, state.program.as_ref()?)));
        if programs.clone().count() < PROGRAMS_MAX {
            return;
        }
        let last = programs.min_by_key(|(_, program)| (program.waiter.is_some(), program.heard_at));
        if let Some((session, _)) = last {
            self.close(session, Ending::Broken, step);
        }
    }

    /// Finds out whose a program is by the name for which its model has spoken, unless it said so itself.
    pub(super) fn recognise(&mut self, session: SessionId, name: &str, step: &mut Step<'_>) {
        let state = &self.sessions[&session];
        let is_named = self.program(session).is_named;
        let Some(agent) = self
            .known_in(&self.program(session).project, name)
            .ok()
            .filter(|agent| !is_named && !agent.is_person())
        else {
            return;
        };
        if state.agent.as_ref() == Some(&agent) {
            return;
        }
        if let Some(before) = state.agent.clone() {
            self.sign_all(session, Sign::Fenced, step);
            // It may have gone, of a program that was fenced.
            if let Some(inbox) = self.inboxes.get_mut(&before) {
                inbox.waiters.remove(&session);
            }
            self.leaves(&before, session, true, step);
        }
        let state = self.session_mut(session);
        state.agent = Some(agent.clone());
        state.fenced = false;
        self.program_mut(session).told_to = ToldTo::default();
        self.joins(&agent, session, step);
        self.brings_as_program_says(session, &agent);
        if self.program(session).waiter.is_some() {
            self.inbox_mut(&agent).waiters.insert(session);
        }
        step.note(Event::Recognised { session, agent });
    }

    /// Has an agent brought what its senders say nothing of as its program has said, if it has.
    pub(super) fn brings_as_program_says(&mut self, session: SessionId, agent: &AgentName) {
        let program = self.sessions[&session].program.as_ref();
        if let Some(mode) = program.and_then(|program| program.mode) {
            self.inbox_mut(agent).mode = mode;
        }
    }

    /// Lets a program whose agent was taken over be its agent's again: it cannot tell when the connections of its own instance come, so
    /// the one that was heard of last goes on. One that has said nothing may be a waiter that has outlived its program.
    pub(super) fn rejoin(&mut self, session: SessionId, step: &mut Step<'_>) -> Result<(), Refusal> {
        let Session {
            fenced: true,
            agent: Some(agent),
            ..
        } = &self.sessions[&session]
        else {
            return Ok(());
        };
        let agent = agent.clone();
        let of_agent = self.sessions.iter();
        let of_agent = of_agent.filter(|(_, state)| state.agent.as_ref() == Some(&agent));
        let programs =
            of_agent.filter_map(|(session, state)| Some((state.program.as_ref()?.heard_at, *session)));
        let last = programs.max().map(|(_, session)| session);
        let is_over = self.program(session).is_over;
        if is_over || last != Some(session) || !self.agents.contains_key(&agent) {
            return Err(Refusal::Fenced { agent });
        }
        self.session_mut(session).fenced = false;
        self.joins(&agent, session, step);
        Ok(())
    }

    /// Has a call stand by for a program.
    pub(super) fn park_waiter(&mut self, session: SessionId, call: CallId, step: &mut Step<'_>) {
        self.program_mut(session).waiter = Some(call);
        self.waiters.insert(call, session);
        if let Some(agent) = self.sessions[&session].agent.clone() {
            self.inbox_mut(&agent).waiters.insert(session);
        }
        step.note(Event::StandsBy { call, session });
    }

    /// Has none stand by any more. Returns the call that did.
    pub(super) fn unpark_waiter(
        &mut self,
        session: SessionId,
        by: WaitEnd,
        step: &mut Step<'_>,
    ) -> Option<CallId> {
        let state = self.session_mut(session);
        let program = state.program.as_mut()?;
        let call = program.waiter.take()?;
        program.silent_since = step.now;
        let agent = state.agent.clone();
        self.waiters.remove(&call);
        if let Some(inbox) = agent.and_then(|agent| self.inboxes.get_mut(&agent)) {
            inbox.waiters.remove(&session);
        }
        step.note(Event::WaitEnded { call, by });
        Some(call)
    }

    /// Answers the call that stands by for a program, if one does.
    pub(super) fn end_waiter(
        &mut self,
        session: SessionId,
        by: WaitEnd,
        result: Result<io::Reply, io::Refusal>,
        step: &mut Step<'_>,
    ) {
        if let Some(call) = self.unpark_waiter(session, by, step) {
            step.out.push(Effect::Reply {
                call,
                result,
                handover: None,
            });
        }
    }

    /// Takes note that what was handed over is back in an agent's inbox, from that place on: its programs are told of it again.
    pub(super) fn tells_again(&mut self, agent: &AgentName, from: Seq) {
        let Some(state) = self.agents.get(agent) else {
            return;
        };
        for session in &state.sessions {
            if let Some(program) = self
                .sessions
                .get_mut(session)
                .and_then(|state| state.program.as_mut())
            {
                program.told_to.forget(from);
            }
        }
    }

    /// Goes through the programs of an agent that are not fenced.
    pub(super) fn programs_of(&self, agent: &Agent) -> impl Iterator<Item = (SessionId, &Program)> {
        let sessions = agent.sessions.iter();
        sessions.filter_map(|session| Some((*session, self.sessions[session].program.as_deref()?)))
    }

    /// Tells whether what comes for an agent can be brought so, as far as that is known.
    pub(super) fn can_bring(&self, agent: &AgentName, mode: Mode) -> bool {
        // Most are brought in a mode that any program can, and the person has none.
        if Abilities::NONE.bring(mode) {
            return true;
        }
        let Some(agent) = self.agents.get(agent) else {
            return true;
        };
        let mut programs = self.programs_of(agent).peekable();
        programs.peek().is_none() || programs.any(|(_, program)| program.abilities.bring(mode))
    }

    pub(super) fn program(&self, session: SessionId) -> &Program {
        let program = self.sessions[&session].program.as_deref();
        program.expect("the session is a program's")
    }

    pub(super) fn program_mut(&mut self, session: SessionId) -> &mut Program {
        let program = self.session_mut(session).program.as_deref_mut();
        program.expect("the session is a program's")
    }

    /// Panics with the broken law, if one is.
    pub(super) fn check_programs(&self) {
        let standing_by = |(session, state): (&SessionId, &Session)| {
            let call = state.program.as_ref()?.waiter?;
            Some((call, *session))
        };
        let calls = self.sessions.iter().filter_map(standing_by);
        assert!(
            calls.collect::<BTreeMap<_, _>>() == self.waiters,
            "a call stands by for a program whose session is open"
        );
        let of_agents = self.waiters.values().filter_map(|session| {
            let agent = self.sessions[session].agent.as_ref()?;
            Some((agent, *session))
        });
        let of_inboxes = self.inboxes.iter();
        let of_inboxes =
            of_inboxes.flat_map(|(agent, inbox)| inbox.waiters.iter().map(move |session| (agent, *session)));
        assert!(
            of_agents.collect::<BTreeSet<_>>() == of_inboxes.collect(),
            "an inbox knows which programs can be woken for it"
        );
        for session in self.waiters.values() {
            assert!(
                !self.would_wake(*session),
                "nobody stands by for what is there: {session:?}"
            );
            assert!(
                !self.sessions[session].fenced,
                "nobody stands by for a fenced program: {session:?}"
            );
        }
        for (session, state) in &self.sessions {
            let on_the_way = state.handovers.iter().map(|id| self.handovers[id].carrier);
            let wakes = on_the_way.filter(|carrier| *carrier == Carrier::Wake).count();
            assert!(wakes <= 1, "one wake of a program is on its way: {session:?}");
            let bytes = state.program.as_ref().map_or(0, |program| program.shown_bytes);
            assert!(
                bytes <= SURFACED_BYTES_MAX,
                "a model is shown no more in a turn than the bound: {session:?}"
            );
        }
    }
}

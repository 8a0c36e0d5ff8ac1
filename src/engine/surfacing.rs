//! When a message is put in front of an agent's model, and by which way: what its program has come to, against how the message is to be
//! brought.
//!
//! The program of an agent ([`super::programs`]) says by its hooks what it has come to, and shows its model what it is answered. One that
//! is idle may have a *waiter* stand by: a call that is answered when there is something for which the program is to begin a turn. The
//! program says of a turn which wake has begun it; one of which that is not said begins without what the waiter was answered, which is
//! shown in it.
//!
//! | mode | a person begins a turn | a tool has returned | a turn ends | idle, and a waiter stands by |
//! |---|---|---|---|---|
//! | immediate | shown | shown | shown, and the turn goes on | wakes |
//! | next-message | shown | - | - | - |
//! | next-tool-call | - | shown | - | - |
//! | on-idle | - | - | shown, and the turn goes on | wakes |
//! | manual, once flushed | shown | shown | shown, and the turn goes on | wakes |
//!
//! A turn that begins by itself is one that a person begins, but for next-message. One that goes on because something was shown at its end
//! is not made to do so again before it has called a tool. One wake of a program is on its way at a time: what comes meanwhile is shown in the turn that begins. No more than
//! [`SURFACED_BYTES_MAX`] bytes are shown in a turn; of what is left the model is told that it is there, once, and nobody is woken for
//! it again. A program that was woken so often in vain ([`WAKES_IN_VAIN_MAX`]) is not woken again until it has been heard of.
//!
//! What was shown is handed over like anything else. [`super::signs`] says what confirms it.

use std::sync::Arc;

use super::events::WaitEnd;
use super::handling::Mode;
use super::handover::Content;
use super::io::{self, Answer, Carrier, Effect, Outcome, Sign};
use super::limits::{SURFACED_BYTES_MAX, WAKES_IN_VAIN_MAX};
use super::message::Delivery;
use super::names::{AgentName, CallId, HandoverId, Seq, SessionId};
use super::programs::Activity;
use super::{Engine, Step};

/// What the session of a program may say and ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// It has come to something, and asks what is to be shown to its model there.
    Comes {
        /// To what.
        to: Boundary,
        /// For whom its model speaks, where a call of a tool has shown that.
        speaks_as: Option<String>,
        /// The wake that has begun the turn, where what was said to the model shows that.
        woken_by: Option<HandoverId>,
    },
    /// It can be woken: answered once it is to begin a turn. One call of a session stands by; a later one takes its place.
    StandsBy,
    /// The same, but only where no other call stands by: it has come by a way that is not as good.
    StandsIn,
}

/// What a program has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Boundary {
    /// It has started, or begins a conversation anew.
    Started,
    /// A turn begins, or goes on, since something was said to its model.
    Prompted {
        /// By its person, and not by the program itself.
        by_person: bool,
    },
    /// A tool has returned, and what it gave goes to the model next.
    Returned,
    /// A turn ends.
    Ended,
    /// It waits for its person to allow something.
    Asks,
    /// It has been waiting for its person to say something.
    Rests,
    /// Something else has happened: it is there, and goes on with what it did.
    Goes,
}

impl Boundary {
    /// Tells whether the program has gone on: its model has what its hooks were answered before.
    pub(super) const fn goes_on(self) -> bool {
        match self {
            Self::Prompted { .. } | Self::Returned | Self::Ended => true,
            Self::Started | Self::Asks | Self::Rests | Self::Goes => false,
        }
    }

    /// Returns what the program does from there on, if nothing is shown to its model; none if it goes on as before.
    const fn activity(self) -> Option<Activity> {
        match self {
            Self::Prompted { .. } | Self::Returned => Some(Activity::Busy),
            Self::Started | Self::Ended | Self::Rests => Some(Activity::Idle),
            Self::Asks => Some(Activity::Asks),
            Self::Goes => None,
        }
    }

    /// The table: tells whether what is to be brought so is shown there.
    const fn shows(self, mode: Mode) -> bool {
        match (self, mode) {
            (Self::Prompted { .. } | Self::Returned | Self::Ended, Mode::Immediate | Mode::Manual)
            | (Self::Prompted { by_person: true }, Mode::NextMessage)
            | (Self::Returned, Mode::NextToolCall)
            | (Self::Ended, Mode::OnIdle) => true,
            (Self::Prompted { .. } | Self::Returned | Self::Ended, _)
            | (Self::Started | Self::Asks | Self::Rests | Self::Goes, _) => false,
        }
    }
}

/// The last column of the table: tells whether a program is woken for what is to be brought so.
const fn wakes(mode: Mode) -> bool {
    match mode {
        Mode::Immediate | Mode::Manual | Mode::OnIdle => true,
        Mode::NextMessage | Mode::NextToolCall => false,
    }
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Surfacing(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// There is nothing to be shown.
    Nothing,
    /// What the model is to be shown.
    Shown(Shown),
    /// Another call stands by in the place of this one.
    Superseded,
}

/// What a model is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// To whom it was sent.
    pub agent: AgentName,
    /// Oldest first; may be none if `left` is not 0.
    pub deliveries: Arc<Vec<Delivery>>,
    /// How many more wait that the model has not been told of; 0 if it was told of all of them before.
    pub left: usize,
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Surfacing(reply)
    }
}

/// Why a [`Command`] was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session is not that of a program's hooks.
    NoProgram,
}

impl Refusal {
    pub(super) fn class(self) -> io::Class {
        match self {
            Self::NoProgram => io::Class::Bad,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Surfacing(refusal)
    }
}

impl Engine {
    /// Carries a command out.
    pub(super) fn about_surfacing(
        &mut self,
        session: SessionId,
        call: CallId,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Outcome, io::Refusal> {
        if self.sessions[&session].program.is_none() {
            return Err(Refusal::NoProgram.into());
        }
        if self.stopping && matches!(command, Command::StandsBy | Command::StandsIn) {
            return Err(io::Refusal::Stopping);
        }
        if let Command::Comes {
            speaks_as: Some(name),
            ..
        } = &command
        {
            self.recognise(session, name, step);
        }
        self.rejoin(session, step)?;
        match command {
            Command::Comes { to, woken_by, .. } => {
                self.hears(session, step);
                if to == Boundary::Started {
                    // Nothing of what was on its way is in the conversation that begins.
                    self.sign_all(session, Sign::Lost, step);
                    self.program_mut(session).starts();
                }
                let by_person = match to {
                    Boundary::Prompted { by_person } => {
                        let is_by_wake = self.begins_turn(session, woken_by, step);
                        Some(by_person && !is_by_wake)
                    }
                    Boundary::Started
                    | Boundary::Returned
                    | Boundary::Ended
                    | Boundary::Asks
                    | Boundary::Rests
                    | Boundary::Goes => None,
                };
                // A program may frame what woke it so that it looks like its person's.
                let to = by_person.map_or(to, |by_person| Boundary::Prompted { by_person });
                Ok(self.comes(session, to, step))
            }
            Command::StandsIn if self.program(session).waiter.is_some() => Ok(Reply::Superseded.into()),
            Command::StandsBy | Command::StandsIn => Ok(self.stands_by(session, call, step)),
        }
    }

    fn comes(&mut self, session: SessionId, to: Boundary, step: &mut Step<'_>) -> Outcome {
        let ends_again = to == Boundary::Ended && self.program(session).went_on;
        let agent = self.sessions[&session].agent.clone();
        let shown = agent.and_then(|agent| {
            self.acts(session, &agent, step);
            // What keeps it from being woken may be over.
            step.wakes(agent.clone());
            let shows = |mode| to.shows(mode) && !ends_again;
            self.show(session, &agent, Carrier::Hook, shows, step)
        });
        if let Some(activity) = to.activity() {
            let goes_on = to == Boundary::Ended && shown.is_some();
            self.program_mut(session).went_on = goes_on;
            self.set_activity(session, if goes_on { Activity::Busy } else { activity }, step);
        }
        shown.map_or_else(|| Reply::Nothing.into(), in_answer)
    }

    fn stands_by(&mut self, session: SessionId, call: CallId, step: &mut Step<'_>) -> Outcome {
        self.end_waiter(session, WaitEnd::Superseded, Ok(Reply::Superseded.into()), step);
        if self.would_wake(session) {
            return in_answer(self.wake_up(session, step));
        }
        self.park_waiter(session, call, step);
        Outcome::Parked
    }

    /// Wakes the programs of an agent for what is in its inbox, one after the other: first the one that was heard of last, which its
    /// person is at.
    pub(super) fn wake_programs(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        while let Some(session) = self.to_be_woken(agent) {
            let call = self.unpark_waiter(session, WaitEnd::Woken, step);
            let (shown, handover) = self.wake_up(session, step);
            step.out.push(Effect::Reply {
                call: call.expect("it stands by"),
                result: Ok(Reply::Shown(shown).into()),
                handover: Some(handover),
            });
        }
    }

    fn to_be_woken(&self, agent: &AgentName) -> Option<SessionId> {
        let waiters = self.inboxes[agent].waiters.iter().copied();
        let meant = waiters.filter(|session| self.would_wake(*session));
        meant.max_by_key(|session| (self.program(*session).heard_at, *session))
    }

    /// Tells whether a program is to be woken, if it can be: something is there for which it is, and nothing keeps it from that.
    pub(super) fn would_wake(&self, session: SessionId) -> bool {
        let state = &self.sessions[&session];
        let (Some(program), Some(agent)) = (&state.program, &state.agent) else {
            return false;
        };
        program.activity == Activity::Idle
            && program.wakes_in_vain < WAKES_IN_VAIN_MAX
            && !self.is_being_woken(session)
            && self
                .surfaceable(agent, wakes)
                .any(|delivery| program.was_not_told_of(delivery))
    }

    /// Tells whether a wake of a program is on its way.
    pub(super) fn is_being_woken(&self, session: SessionId) -> bool {
        self.wake_of(session).is_some()
    }

    /// Returns the wake of a program that is on its way.
    fn wake_of(&self, session: SessionId) -> Option<HandoverId> {
        let mut on_the_way = self.sessions[&session].handovers.iter();
        on_the_way
            .find(|id| self.handovers[id].carrier == Carrier::Wake)
            .copied()
    }

    /// Takes note that a turn begins: the wake on its way has begun it, or has come to nothing. Tells whether it has begun it.
    fn begins_turn(&mut self, session: SessionId, woken_by: Option<HandoverId>, step: &mut Step<'_>) -> bool {
        let wake = self.wake_of(session);
        let is_by_wake = wake.is_some() && wake == woken_by;
        if let Some(wake) = wake {
            let sign = if is_by_wake {
                Sign::Acknowledged
            } else {
                Sign::Lost
            };
            self.sign(wake, sign, step);
        }
        if !is_by_wake {
            self.program_mut(session).begins_turn();
        }
        is_by_wake
    }

    /// Hands over what a program is woken with.
    fn wake_up(&mut self, session: SessionId, step: &mut Step<'_>) -> Handed {
        let agent = self.sessions[&session].agent.clone();
        let agent = agent.expect("who is woken is somebody");
        self.program_mut(session).begins_turn();
        let shown = self.show(session, &agent, Carrier::Wake, wakes, step);
        shown.expect("it is woken for something")
    }

    /// Goes through what is in an agent's inbox and is to be brought so, oldest first; nothing where a node has it.
    fn surfaceable(
        &self,
        agent: &AgentName,
        is_meant: impl Fn(Mode) -> bool,
    ) -> impl Iterator<Item = &Delivery> {
        let inbox = &self.inboxes[agent];
        let waiting = (!self.is_held(agent)).then(|| inbox.waiting());
        let waiting = waiting.into_iter().flatten();
        waiting.filter(move |delivery| is_meant(delivery.mode) && !inbox.holds(delivery))
    }

    /// Takes out of an inbox what is to be shown to a program's model; nothing if there is none of it, and of what is left nothing that
    /// the model was not told of.
    fn show(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        carrier: Carrier,
        is_meant: impl Fn(Mode) -> bool,
        step: &mut Step<'_>,
    ) -> Option<Handed> {
        let program = self.program(session);
        let mut room = SURFACED_BYTES_MAX.saturating_sub(program.shown_bytes);
        let meant: Vec<&Delivery> = self.surfaceable(agent, is_meant).collect();
        let fits = |delivery: &&&Delivery| {
            let bytes = delivery.message.framed_bytes();
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let whole = meant.iter().take_while(fits).count();
        let (whole, rest) = meant.split_at(whole);
        let is_news = rest.iter().any(|delivery| program.was_not_told_of(delivery));
        if whole.is_empty() && !is_news {
            return None;
        }
        let mut told_to = program.told_to;
        for delivery in &meant {
            told_to.tell_of(delivery);
        }
        let left = if is_news { rest.len() } else { 0 };
        let places: Vec<Seq> = whole.iter().map(|delivery| delivery.seq).collect();
        let inbox = self.inbox_mut(agent);
        let deliveries: Vec<Delivery> = places.into_iter().map(|seq| inbox.take_one(seq)).collect();
        let program = self.program_mut(session);
        program.told_to = told_to;
        program.shown_bytes += deliveries
            .iter()
            .map(|delivery| delivery.message.framed_bytes())
            .sum::<usize>();
        let deliveries = Arc::new(deliveries);
        // Followed though there may be nothing in it: what the model was told of is told of again, if that was lost.
        let content = Content::Deliveries(Arc::clone(&deliveries));
        let handover = self.stand(session, carrier, agent, content, false, step);
        let agent = agent.clone();
        Some((
            Shown {
                agent,
                deliveries,
                left,
            },
            handover,
        ))
    }
}

/// What a model is to be shown, with the hand-over in it.
type Handed = (Shown, HandoverId);

fn in_answer((shown, handover): Handed) -> Outcome {
    let (reply, handover) = (Reply::Shown(shown).into(), Some(handover));
    Outcome::Answered(Answer { reply, handover })
}

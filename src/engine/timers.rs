//! What ends by itself, and when.

use std::collections::BTreeSet;

use super::limits::SETTLE_SLACK_MS;
use super::names::{AgentName, CallId, HandoverId, InvocationId, NodeId, Seq, SessionId, WorkerId};
use super::time::Timestamp;

/// Something that ends by itself. Of what is due at the same moment, waits come first, then lower numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Timer {
    /// A parked read, which ends empty-handed.
    WaitExpires(CallId),
    /// The doubt in a reply that was passed.
    DoubtEnds(HandoverId),
    /// A node that is gone holds its agents no more.
    NodeLapses(NodeId),
    /// The time before which an agent does not want a delivery.
    DeferralEnds(HandoverId),
    /// The time that the handler of an action has to answer.
    InvocationEnds(InvocationId),
    /// The pause after a push to an agent's target has failed.
    PushResumes(AgentName),
    /// The session of a program that has been silent for long.
    ProgramGone(SessionId),
    /// The time that a worker has to start.
    WorkerStarts(WorkerId),
    /// The time in which a worker that was started is to speak.
    WorkerSilent(WorkerId),
}

/// What the engine waits for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A parked read ends empty-handed.
    WaitExpires,
    /// A reply that was passed has been in doubt for as long as any is.
    DoubtEnds,
    /// A node that is gone holds its agents no more.
    NodeLapses,
    /// An agent wants a delivery from now on.
    DeferralEnds,
    /// An invocation has taken too long.
    InvocationEnds,
    /// A push that has failed is tried again.
    PushResumes,
    /// A program has been silent for long.
    ProgramGone,
    /// A worker has not started in time.
    WorkerStarts,
    /// A worker was started, and says nothing.
    WorkerSilent,
    /// A delivery that nobody was handed is past its deadline.
    DeadlinePasses,
    /// A transient agent goes, and somebody is to be told of that.
    AgentLeaves,
}

/// All timers that run, the earliest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timers {
    exact: BTreeSet<(Timestamp, Timer)>,
    /// What was read, with the moment from which on the next input confirms it.
    settling: BTreeSet<(Timestamp, HandoverId)>,
    /// What is in an inbox and has a deadline, which is one of the clock that people read.
    expiring: BTreeSet<Deadline>,
}

/// When the delivery at a place of an agent's inbox expires.
pub(super) type Deadline = (Timestamp, AgentName, Seq);

impl Timers {
    /// Lets a timer run until that moment.
    pub fn arm(&mut self, at: Timestamp, timer: Timer) {
        self.exact.insert((at, timer));
    }

    /// Stops the timer that was to run until that moment.
    pub fn disarm(&mut self, at: Timestamp, timer: Timer) {
        self.exact.remove(&(at, timer));
    }

    /// Has the first input from that moment on confirm what was read.
    pub fn settle(&mut self, at: Timestamp, handover: HandoverId) {
        self.settling.insert((at, handover));
    }

    /// Forgets that something was to be confirmed from that moment on.
    pub fn unsettle(&mut self, at: Timestamp, handover: HandoverId) {
        self.settling.remove(&(at, handover));
    }

    /// Returns the next hand-over that is to be confirmed by `now`. It is due until it is unsettled.
    pub fn settled(&self, now: Timestamp) -> Option<HandoverId> {
        let (at, handover) = self.settling.first()?;
        (*at <= now).then_some(*handover)
    }

    /// Lets a delivery expire at that moment.
    pub fn expire(&mut self, at: Timestamp, agent: AgentName, seq: Seq) {
        self.expiring.insert((at, agent, seq));
    }

    /// Forgets that a delivery was to expire at that moment.
    pub fn unexpire(&mut self, at: Timestamp, agent: AgentName, seq: Seq) {
        self.expiring.remove(&(at, agent, seq));
    }

    /// Returns the next delivery that has expired by the clock that people read. It is due until it is forgotten.
    pub fn expired(&self, now: Timestamp) -> Option<Deadline> {
        let first = self.expiring.first()?;
        (first.0 <= now).then(|| first.clone())
    }

    /// Returns the next moment at which something ends, and what. The clock that people read is so far ahead.
    pub fn next(&self, wall_ahead_ms: i64) -> Option<(Timestamp, Reason)> {
        let exact = self.exact.first().map(|(at, timer)| match timer {
            Timer::WaitExpires(_) => (*at, Reason::WaitExpires),
            Timer::DoubtEnds(_) => (*at, Reason::DoubtEnds),
            Timer::NodeLapses(_) => (*at, Reason::NodeLapses),
            Timer::DeferralEnds(_) => (*at, Reason::DeferralEnds),
            Timer::InvocationEnds(_) => (*at, Reason::InvocationEnds),
            Timer::PushResumes(_) => (*at, Reason::PushResumes),
            Timer::ProgramGone(_) => (*at, Reason::ProgramGone),
            Timer::WorkerStarts(_) => (*at, Reason::WorkerStarts),
            Timer::WorkerSilent(_) => (*at, Reason::WorkerSilent),
        });
        let settling = self.settling.first();
        let settling = settling.map(|(at, _)| (at.plus_millis(SETTLE_SLACK_MS), Reason::DoubtEnds));
        let expiring = self.expiring.first();
        let expiring = expiring.map(|(at, _, _)| {
            let at = at.plus_millis(wall_ahead_ms.saturating_neg());
            (at, Reason::DeadlinePasses)
        });
        exact.into_iter().chain(settling).chain(expiring).min()
    }

    /// Returns the next timer that has run out by `now`. It runs on until it is disarmed.
    pub fn due(&self, now: Timestamp) -> Option<Timer> {
        let (at, timer) = self.exact.first()?;
        (*at <= now).then(|| timer.clone())
    }

    /// Tells whether these are all timers, and that all that is to be confirmed, for the invariants.
    pub fn are(
        &self,
        exact: &BTreeSet<(Timestamp, Timer)>,
        settling: &BTreeSet<(Timestamp, HandoverId)>,
        expiring: &BTreeSet<Deadline>,
    ) -> bool {
        (&self.exact, &self.settling, &self.expiring) == (exact, settling, expiring)
    }
}

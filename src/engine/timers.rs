//! What ends by itself, and when.

use std::collections::BTreeSet;

use super::names::{CallId, HandoverId, Timestamp};

/// Something that ends by itself. Of what is due at the same moment, waits come first, then lower numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Timer {
    /// A parked read, which ends empty-handed.
    WaitExpires(CallId),
    /// The doubt in a reply that was passed.
    DoubtEnds(HandoverId),
}

/// What the engine waits for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A parked read ends empty-handed.
    WaitExpires,
    /// A reply that was passed has been in doubt for as long as any is.
    DoubtEnds,
}

/// All timers that run, the earliest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timers(BTreeSet<(Timestamp, Timer)>);

impl Timers {
    /// Lets a timer run until that moment.
    pub fn arm(&mut self, at: Timestamp, timer: Timer) {
        self.0.insert((at, timer));
    }

    /// Stops the timer that was to run until that moment.
    pub fn disarm(&mut self, at: Timestamp, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    /// Returns the next moment at which something ends, and what.
    pub fn next(&self) -> Option<(Timestamp, Reason)> {
        let (at, timer) = self.0.first()?;
        let reason = match timer {
            Timer::WaitExpires(_) => Reason::WaitExpires,
            Timer::DoubtEnds(_) => Reason::DoubtEnds,
        };
        Some((*at, reason))
    }

    /// Returns the next timer that has run out by `now`. It runs on until it is disarmed.
    pub fn due(&self, now: Timestamp) -> Option<Timer> {
        let (at, timer) = self.0.first()?;
        (*at <= now).then_some(*timer)
    }

    /// Returns all timers, for the invariants.
    pub fn all(&self) -> &BTreeSet<(Timestamp, Timer)> {
        &self.0
    }
}

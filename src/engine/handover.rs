//! What was handed over and is not known to have arrived: the table of signs, and the hand-overs that stand.
//!
//! A reply travels to a session by a [`Carrier`], and every carrier gives signs of what became of it. [`judge`] is the one
//! place that says what a sign means; a new carrier is a new column of it, and nothing else in the engine knows one from
//! another.
//!
//! | sign | stream | exchange |
//! |---|---|---|
//! | passed to the socket | the doubt begins | the doubt begins |
//! | the peer sent more, behind it | - | confirmed, once passed |
//! | the session's next call | confirmed, once passed | - |
//! | a keep-alive, behind it | confirmed, once the doubt is over | - |
//! | the doubt ends | confirmed, if a keep-alive was written behind it; else that is waited for | confirmed |
//! | an orderly end | undone | confirmed, once passed; else undone |
//! | a broken end | undone | undone |
//! | cancelled, or the reply lost | undone | undone |
//!
//! The doubt of a reply lasts [`DOUBT_MS`] from when it was passed. One whose end is acted on later than
//! [`DOUBT_LATE_MS_MAX`] does not count: the machine was asleep, and so was whoever could have said that the reply was lost.
//! It begins anew, and a keep-alive from before does not count for it.

use std::sync::Arc;

use super::events::Event;
use super::io::{Carrier, Ending, Sign};
use super::limits::{DOUBT_LATE_MS_MAX, DOUBT_MS};
use super::message::Delivery;
use super::names::{AgentName, HandoverId, SessionId, Timestamp};
use super::timers::Timer;
use super::{Engine, Step};

/// Deliveries in a reply that is not known to have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Handover {
    pub session: SessionId,
    pub agent: AgentName,
    /// Shared with the reply.
    pub deliveries: Arc<Vec<Delivery>>,
    /// The reply told of the start.
    pub notice: bool,
    pub passage: Passage,
}

/// How far a reply is known to have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Passage {
    /// The shell has it.
    Written,
    /// The peer's socket has it.
    Passed {
        /// When the doubt ends.
        doubt_ends: Timestamp,
        /// Whether a keep-alive was written behind it.
        kept_alive: bool,
    },
    /// The doubt is over, and only a keep-alive behind it is missing.
    Overdue,
}

impl Passage {
    /// Returns when the doubt ends, if that is still to come.
    pub fn doubt_ends(self) -> Option<Timestamp> {
        match self {
            Self::Passed { doubt_ends, .. } => Some(doubt_ends),
            Self::Written | Self::Overdue => None,
        }
    }
}

/// What a sign means for a hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing: it stands as it stood.
    Stands,
    /// It was passed: its doubt begins.
    DoubtBegins,
    /// It was written to behind the reply while the doubt lasts.
    KeptAlive,
    /// The doubt is over and proves nothing by itself.
    Overdue,
    /// It has arrived.
    Confirmed,
    /// It has not, or nobody can tell.
    Undone,
}

/// The table: what a sign means for a reply that has come so far on such a carrier.
fn judge(carrier: Carrier, passage: Passage, sign: Sign) -> Verdict {
    use Carrier::{Exchange, Stream};
    use Verdict::{Confirmed, DoubtBegins, KeptAlive, Overdue, Stands, Undone};
    match (sign, carrier, passage) {
        (Sign::Cancelled | Sign::Lost | Sign::Ended(Ending::Broken), _, _) => Undone,

        (Sign::Passed, _, Passage::Written) => DoubtBegins,
        (Sign::Passed, _, Passage::Passed { .. } | Passage::Overdue) => Stands,

        // Whatever came before the reply was passed was sent by somebody who had not read it.
        (Sign::CalledAgain | Sign::KeptAlive | Sign::Followed, _, Passage::Written) => Stands,

        (Sign::CalledAgain, Stream, _) => Confirmed,
        (Sign::KeptAlive, Stream, Passage::Passed { .. }) => KeptAlive,
        (Sign::KeptAlive, Stream, Passage::Overdue) => Confirmed,
        (Sign::Followed, Stream, _) => Stands,

        (Sign::Followed, Exchange, _) => Confirmed,
        (Sign::CalledAgain | Sign::KeptAlive, Exchange, _) => Stands,

        (
            Sign::DoubtOver,
            Stream,
            Passage::Passed {
                kept_alive: false, ..
            },
        ) => Overdue,
        (Sign::DoubtOver, _, Passage::Passed { .. }) => Confirmed,
        (Sign::DoubtOver, _, Passage::Written | Passage::Overdue) => Stands,

        (Sign::Ended(Ending::Orderly), Exchange, Passage::Passed { .. } | Passage::Overdue) => Confirmed,
        (Sign::Ended(Ending::Orderly), _, _) => Undone,
    }
}

/// What was taken out of an inbox.
pub(super) struct HandedOver {
    /// The hand-over that stands until the reply is known to have arrived; none if there is nothing in it.
    pub id: Option<HandoverId>,
    /// Oldest first.
    pub deliveries: Arc<Vec<Delivery>>,
    /// The start is to be told of.
    pub notice: bool,
}

impl Engine {
    /// Takes everything out of an inbox for a session's reply.
    pub(super) fn hand_over(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        step: &mut Step<'_>,
    ) -> HandedOver {
        let tells = self.tells(session, agent);
        let inbox = self.inbox_mut(agent);
        let notice = tells && std::mem::take(&mut inbox.notice_due);
        let deliveries = Arc::new(inbox.take_all());
        if deliveries.is_empty() && !notice {
            return HandedOver {
                deliveries,
                notice,
                id: None,
            };
        }
        let id = HandoverId(self.handovers_made);
        self.handovers_made += 1;
        self.session_mut(session).handovers.insert(id);
        let handover = Handover {
            session,
            agent: agent.clone(),
            deliveries: Arc::clone(&deliveries),
            notice,
            passage: Passage::Written,
        };
        self.handovers.insert(id, handover);
        step.note(Event::HandedOver {
            handover: id,
            session,
            agent: agent.clone(),
            deliveries: Arc::clone(&deliveries),
            notice,
        });
        HandedOver {
            deliveries,
            notice,
            id: Some(id),
        }
    }

    /// Takes a sign of what became of a hand-over; nothing if it does not stand any more.
    pub(super) fn sign(&mut self, id: HandoverId, sign: Sign, step: &mut Step<'_>) {
        let Some(handover) = self.handovers.get(&id) else {
            return;
        };
        let carrier = self.sessions[&handover.session].carrier;
        match judge(carrier, handover.passage, sign) {
            Verdict::Stands => {}
            Verdict::DoubtBegins => self.doubt(id, step),
            Verdict::KeptAlive => {
                if let Passage::Passed { kept_alive, .. } = &mut self.handover_mut(id).passage {
                    *kept_alive = true;
                }
            }
            Verdict::Overdue => self.set_passage(id, Passage::Overdue),
            Verdict::Confirmed => self.confirm(id, sign, step),
            Verdict::Undone => self.undo(id, sign, step),
        }
    }

    /// Takes a sign that is about all hand-overs to a session.
    pub(super) fn sign_all(&mut self, session: SessionId, sign: Sign, step: &mut Step<'_>) {
        let Some(state) = self.sessions.get(&session) else {
            return;
        };
        for id in state.handovers.clone() {
            self.sign(id, sign, step);
        }
    }

    /// Ends a doubt whose time has come, or begins it anew if it was slept through.
    pub(super) fn end_doubt(&mut self, id: HandoverId, step: &mut Step<'_>) {
        let doubt_ends = self.handovers[&id].passage.doubt_ends();
        let doubt_ends = doubt_ends.expect("a doubt that ends has a time");
        if doubt_ends.plus_millis(DOUBT_LATE_MS_MAX) < step.now {
            self.doubt(id, step);
        } else {
            self.sign(id, Sign::DoubtOver, step);
        }
    }

    /// Begins the doubt in a reply that was passed, or begins it anew.
    fn doubt(&mut self, id: HandoverId, step: &mut Step<'_>) {
        let passed = Passage::Passed {
            doubt_ends: step.now.plus_millis(DOUBT_MS),
            kept_alive: false,
        };
        self.set_passage(id, passed);
        step.note(Event::Passed { handover: id });
    }

    fn confirm(&mut self, id: HandoverId, by: Sign, step: &mut Step<'_>) {
        let Handover {
            agent, deliveries, ..
        } = self.end_handover(id);
        self.inbox_mut(&agent).release(&deliveries);
        step.note(Event::Confirmed {
            handover: id,
            by,
            deliveries,
        });
    }

    /// Puts everything back to its old place; whoever waits for it is woken at the end of the step.
    fn undo(&mut self, id: HandoverId, by: Sign, step: &mut Step<'_>) {
        let Handover {
            agent,
            deliveries,
            notice,
            ..
        } = self.end_handover(id);
        let inbox = self.inbox_mut(&agent);
        inbox.notice_due |= notice;
        inbox.put_back(Arc::unwrap_or_clone(deliveries));
        step.note(Event::Undone { handover: id, by });
        step.has_news(agent);
    }

    fn end_handover(&mut self, id: HandoverId) -> Handover {
        self.set_passage(id, Passage::Overdue);
        let handover = self.handovers.remove(&id).expect("the hand-over stands");
        self.session_mut(handover.session).handovers.remove(&id);
        handover
    }

    /// Sets how far a reply has come, and the timer of its doubt with it.
    fn set_passage(&mut self, id: HandoverId, passage: Passage) {
        let before = std::mem::replace(&mut self.handover_mut(id).passage, passage);
        if let Some(at) = before.doubt_ends() {
            self.timers.disarm(at, Timer::DoubtEnds(id));
        }
        if let Some(at) = passage.doubt_ends() {
            self.timers.arm(at, Timer::DoubtEnds(id));
        }
    }

    fn handover_mut(&mut self, id: HandoverId) -> &mut Handover {
        self.handovers.get_mut(&id).expect("the hand-over stands")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: Passage = Passage::Passed {
        doubt_ends: Timestamp::from_millis(1),
        kept_alive: false,
    };
    const KEPT_ALIVE: Passage = Passage::Passed {
        doubt_ends: Timestamp::from_millis(1),
        kept_alive: true,
    };

    /// What a sign means for a reply that was written, passed, passed with a keep-alive behind it, and overdue.
    fn row(carrier: Carrier, sign: Sign) -> [Verdict; 4] {
        [Passage::Written, PASSED, KEPT_ALIVE, Passage::Overdue].map(|passage| judge(carrier, passage, sign))
    }

    #[test]
    fn the_table_says_of_a_stream() {
        use Verdict::{Confirmed, DoubtBegins, KeptAlive, Overdue, Stands, Undone};
        let row = |sign| row(Carrier::Stream, sign);
        assert_eq!(row(Sign::Passed), [DoubtBegins, Stands, Stands, Stands]);
        assert_eq!(row(Sign::Followed), [Stands; 4]);
        assert_eq!(row(Sign::CalledAgain), [Stands, Confirmed, Confirmed, Confirmed]);
        assert_eq!(row(Sign::KeptAlive), [Stands, KeptAlive, KeptAlive, Confirmed]);
        assert_eq!(row(Sign::DoubtOver), [Stands, Overdue, Confirmed, Stands]);
        assert_eq!(row(Sign::Ended(Ending::Orderly)), [Undone; 4]);
        for sign in [Sign::Ended(Ending::Broken), Sign::Cancelled, Sign::Lost] {
            assert_eq!(row(sign), [Undone; 4]);
        }
    }

    #[test]
    fn the_table_says_of_an_exchange() {
        use Verdict::{Confirmed, DoubtBegins, Stands, Undone};
        let row = |sign| row(Carrier::Exchange, sign);
        assert_eq!(row(Sign::Passed), [DoubtBegins, Stands, Stands, Stands]);
        assert_eq!(row(Sign::Followed), [Stands, Confirmed, Confirmed, Confirmed]);
        assert_eq!(row(Sign::CalledAgain), [Stands; 4]);
        assert_eq!(row(Sign::KeptAlive), [Stands; 4]);
        assert_eq!(row(Sign::DoubtOver), [Stands, Confirmed, Confirmed, Stands]);
        let orderly = [Undone, Confirmed, Confirmed, Confirmed];
        assert_eq!(row(Sign::Ended(Ending::Orderly)), orderly);
        for sign in [Sign::Ended(Ending::Broken), Sign::Cancelled, Sign::Lost] {
            assert_eq!(row(sign), [Undone; 4]);
        }
    }
}

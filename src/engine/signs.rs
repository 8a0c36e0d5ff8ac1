//! What is seen of a reply on its way, and what that means: the table of signs.
//!
//! A reply travels to a session by a [`Carrier`], and every carrier gives signs of what became of it. [`judge`] is the one
//! place that says what a sign means; a new carrier is a new column of it, and nothing else in the engine knows one from
//! another.
//!
//! | sign | stream | exchange | node | hook | wake | once read |
//! |---|---|---|---|---|---|---|
//! | passed to the socket | the doubt begins | the doubt begins | - | the doubt begins | the doubt begins | - |
//! | the peer sent more, behind it | - | read, once passed | - | - | - | - |
//! | the session's next tool call, or what its program comes to next | read, once passed | - | - | read, once passed | - | - |
//! | acknowledged | - | - | read | - | read | - |
//! | listed by its agent | - | - | - | - | - | a receipt is awaited, if it was a node's |
//! | the model names a message of it as the last that it has seen | confirmed | confirmed | - | confirmed | confirmed | confirmed, if it was no node's |
//! | it names one of an earlier reply | undone | undone | - | undone | undone | undone, if it was no node's |
//! | a receipt | confirmed | confirmed | confirmed | confirmed | confirmed | confirmed |
//! | deferred | held back | held back | held back | held back | held back | held back |
//! | not taken by the target that it was pushed to | - | - | undone | - | - | - |
//! | given up by the one that pushes it | - | - | given up | - | - | - |
//! | a keep-alive, behind it | confirmed, once the doubt is over | - | - | - | - | - |
//! | the doubt ends | confirmed, if a keep-alive was written behind it; else that is waited for | confirmed | - | undone | undone | - |
//! | settled | - | - | - | - | - | confirmed |
//! | an orderly end | undone | read, once passed; else undone | undone | undone | undone | - |
//! | a broken end | undone | undone | undone | undone | undone | - |
//! | the reply lost | undone | undone | undone | undone | undone | - |
//! | the session's agent taken over | undone | undone | undone | undone | undone | - |
//! | cancelled | undone | undone | undone | undone | undone | undone |
//!
//! What was read is confirmed [`CANCEL_GRACE_MS`] later, whatever becomes of its session: a cancellation may have been overtaken
//! by what its client sent next, or by the end of a connection. It is confirmed sooner, the oldest first, where a post needs its
//! room, and where more of its inbox was read than is kept ([`super::limits::Bounds::read_max`]).
//!
//! Once a receipt is awaited, only that ends the hand-over, or that the agent's node lets go of the agent, which undoes it. What is
//! held back is undone when its time has come, and confirmed by a receipt. What is given up is undone when it is to be pushed again, or when the
//! agent's node lets go of the agent, and confirmed by a receipt.
//!
//! The doubt of a reply lasts [`DOUBT_MS`] from when it was passed, of what a program shows its model [`SURFACED_MS`], and of what it was
//! woken with [`WOKEN_MS`]. One whose end is acted on later than
//! [`DOUBT_LATE_MS_MAX`] does not count: the machine was asleep, and so was whoever could have said that the reply was lost.
//! It begins anew, and a keep-alive from before does not count for it. The same holds if the keep-alive that was missing at its
//! end comes later than [`OVERDUE_MS_MAX`] after it.

use super::io::{Carrier, Ending, Sign};
use super::time::Timestamp;

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
    Overdue {
        /// When it ended.
        since: Timestamp,
    },
    /// The peer has read it, if it does not say yet that it threw it away.
    Read {
        /// What said so.
        by: Sign,
        /// When it cannot be cancelled any more.
        settles_at: Timestamp,
    },
    /// The agent has it, and is to give a receipt.
    Awaited,
    /// The agent does not want it yet.
    HeldBack {
        /// When it does.
        until: Timestamp,
    },
    /// The target that it was to be pushed to did not take it.
    GivenUp,
}

impl Passage {
    /// Returns when the doubt ends, if that is still to come.
    pub fn doubt_ends(self) -> Option<Timestamp> {
        match self {
            Self::Passed { doubt_ends, .. } => Some(doubt_ends),
            Self::Written
            | Self::Overdue { .. }
            | Self::Read { .. }
            | Self::Awaited
            | Self::HeldBack { .. }
            | Self::GivenUp => None,
        }
    }

    /// Returns until when the agent does not want it, if it said so.
    pub fn held_back_until(self) -> Option<Timestamp> {
        match self {
            Self::HeldBack { until } => Some(until),
            Self::Written
            | Self::Passed { .. }
            | Self::Overdue { .. }
            | Self::Read { .. }
            | Self::Awaited
            | Self::GivenUp => None,
        }
    }

    /// Tells whether it is on its way still, so that its session has a say in it.
    pub fn is_on_its_way(self) -> bool {
        match self {
            Self::Written | Self::Passed { .. } | Self::Overdue { .. } => true,
            Self::Read { .. } | Self::Awaited | Self::HeldBack { .. } | Self::GivenUp => false,
        }
    }

    /// Returns from when on a reply that was read cannot be cancelled any more.
    pub fn settles_at(self) -> Option<Timestamp> {
        match self {
            Self::Read { settles_at, .. } => Some(settles_at),
            Self::Written
            | Self::Passed { .. }
            | Self::Overdue { .. }
            | Self::Awaited
            | Self::HeldBack { .. }
            | Self::GivenUp => None,
        }
    }
}

/// What a sign means for a hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: it stands as it stood.
    Stands,
    /// It was passed: its doubt begins.
    DoubtBegins,
    /// It was written to behind the reply while the doubt lasts.
    KeptAlive,
    /// The doubt is over and proves nothing by itself.
    Overdue,
    /// It has arrived, if its call is not cancelled in the next moment.
    Read,
    /// Its agent is to give a receipt.
    Awaited,
    /// Its agent does not want it before that moment.
    HeldBack(Timestamp),
    /// It is not pushed any more.
    GivenUp,
    /// It has arrived.
    Confirmed,
    /// It has not, or nobody can tell.
    Undone,
}

/// The table: what a sign means for a reply that has come so far on such a carrier.
pub(super) fn judge(carrier: Carrier, passage: Passage, sign: Sign) -> Verdict {
    use Carrier::{Exchange, Hook, Node, Stream, Wake};
    use Verdict::{
        Awaited, Confirmed, DoubtBegins, GivenUp, HeldBack, KeptAlive, Overdue, Read, Stands, Undone,
    };
    match (sign, carrier, passage) {
        (Sign::Cancelled, _, _) => Undone,

        (Sign::Receipted | Sign::Failed, _, _) => Confirmed,
        (Sign::Deferred(until), _, _) => HeldBack(until),
        (Sign::DeferralOver, _, Passage::HeldBack { .. }) => Undone,
        (Sign::DeferralOver, _, _) | (_, _, Passage::HeldBack { .. }) => Stands,

        (Sign::GivenUp, Node, Passage::Written) => GivenUp,
        (Sign::NotTaken, Node, Passage::Written) => Undone,
        (Sign::NotTaken, _, _) => Stands,
        (Sign::Redriven | Sign::Fenced, _, Passage::GivenUp) => Undone,
        (Sign::GivenUp | Sign::Redriven, _, _) | (_, _, Passage::GivenUp) => Stands,

        (Sign::Fenced, _, Passage::Awaited) => Undone,
        (_, _, Passage::Awaited) => Stands,

        (Sign::Seen | Sign::Unseen, Node, _) => Stands,
        (Sign::Seen, _, _) => Confirmed,
        (Sign::Unseen, _, _) => Undone,

        (Sign::Listed, Node, Passage::Read { .. }) => Awaited,
        (Sign::Settled, _, Passage::Read { .. }) => Confirmed,
        (Sign::Settled | Sign::Listed, _, _) | (_, _, Passage::Read { .. }) => Stands,

        (Sign::Lost | Sign::Fenced | Sign::Ended(Ending::Broken), _, _) => Undone,

        (Sign::Acknowledged, Node | Wake, _) => Read,
        (Sign::Ended(Ending::Orderly), Node, _) => Undone,
        (Sign::Acknowledged, _, _) | (_, Node, _) => Stands,

        (Sign::Passed, _, Passage::Written) => DoubtBegins,
        (Sign::Passed, _, Passage::Passed { .. } | Passage::Overdue { .. }) => Stands,

        // Whatever came before the reply was passed was sent by somebody who had not read it.
        (Sign::CalledAgain | Sign::KeptAlive | Sign::Followed, _, Passage::Written) => Stands,

        (Sign::CalledAgain, Stream | Hook, _) => Read,
        (Sign::CalledAgain, Wake, _) => Stands,
        (Sign::KeptAlive, Stream, Passage::Passed { .. }) => KeptAlive,
        (Sign::KeptAlive, Stream, Passage::Overdue { .. }) => Confirmed,
        (Sign::Followed, Stream | Hook | Wake, _) => Stands,
        (Sign::KeptAlive, Hook | Wake, _) => Stands,

        (Sign::Followed, Exchange, _) => Read,
        (Sign::CalledAgain | Sign::KeptAlive, Exchange, _) => Stands,

        (Sign::DoubtOver, Hook | Wake, Passage::Passed { .. }) => Undone,
        (
            Sign::DoubtOver,
            Stream,
            Passage::Passed {
                kept_alive: false, ..
            },
        ) => Overdue,
        (Sign::DoubtOver, _, Passage::Passed { .. }) => Confirmed,
        (Sign::DoubtOver, _, Passage::Written | Passage::Overdue { .. }) => Stands,

        (Sign::Ended(Ending::Orderly), Exchange, Passage::Passed { .. } | Passage::Overdue { .. }) => Read,
        (Sign::Ended(Ending::Orderly), _, _) => Undone,
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

    const OVERDUE: Passage = Passage::Overdue {
        since: Timestamp::from_millis(1),
    };

    const READ: Passage = Passage::Read {
        by: Sign::CalledAgain,
        settles_at: Timestamp::from_millis(1),
    };

    const HELD_BACK: Passage = Passage::HeldBack {
        until: Timestamp::from_millis(1),
    };

    /// What a sign means for a reply that was written, passed, passed with a keep-alive behind it, overdue, and read.
    fn row(carrier: Carrier, sign: Sign) -> [Verdict; 5] {
        [Passage::Written, PASSED, KEPT_ALIVE, OVERDUE, READ].map(|passage| judge(carrier, passage, sign))
    }

    #[test]
    fn the_table_says_of_a_stream() {
        use Verdict::{Confirmed, DoubtBegins, KeptAlive, Overdue, Read, Stands, Undone};
        let row = |sign| row(Carrier::Stream, sign);
        assert_eq!(row(Sign::Passed), [DoubtBegins, Stands, Stands, Stands, Stands]);
        assert_eq!(row(Sign::Followed), [Stands; 5]);
        assert_eq!(row(Sign::CalledAgain), [Stands, Read, Read, Read, Stands]);
        assert_eq!(
            row(Sign::KeptAlive),
            [Stands, KeptAlive, KeptAlive, Confirmed, Stands]
        );
        assert_eq!(row(Sign::DoubtOver), [Stands, Overdue, Confirmed, Stands, Stands]);
        assert_eq!(row(Sign::Settled), [Stands, Stands, Stands, Stands, Confirmed]);
        for ending in [Ending::Orderly, Ending::Broken] {
            let ended = [Undone, Undone, Undone, Undone, Stands];
            assert_eq!(row(Sign::Ended(ending)), ended);
        }
        for sign in [Sign::Lost, Sign::Fenced] {
            assert_eq!(row(sign), [Undone, Undone, Undone, Undone, Stands]);
        }
        assert_eq!(row(Sign::Cancelled), [Undone; 5]);
    }

    #[test]
    fn the_table_says_of_an_exchange() {
        use Verdict::{Confirmed, DoubtBegins, Read, Stands, Undone};
        let row = |sign| row(Carrier::Exchange, sign);
        assert_eq!(row(Sign::Passed), [DoubtBegins, Stands, Stands, Stands, Stands]);
        assert_eq!(row(Sign::Followed), [Stands, Read, Read, Read, Stands]);
        assert_eq!(row(Sign::CalledAgain), [Stands; 5]);
        assert_eq!(row(Sign::KeptAlive), [Stands; 5]);
        assert_eq!(
            row(Sign::DoubtOver),
            [Stands, Confirmed, Confirmed, Stands, Stands]
        );
        assert_eq!(row(Sign::Settled), [Stands, Stands, Stands, Stands, Confirmed]);
        let orderly = [Undone, Read, Read, Read, Stands];
        assert_eq!(row(Sign::Ended(Ending::Orderly)), orderly);
        let broken = [Undone, Undone, Undone, Undone, Stands];
        assert_eq!(row(Sign::Ended(Ending::Broken)), broken);
        for sign in [Sign::Lost, Sign::Fenced] {
            assert_eq!(row(sign), [Undone, Undone, Undone, Undone, Stands]);
        }
        assert_eq!(row(Sign::Cancelled), [Undone; 5]);
    }

    #[test]
    fn the_table_says_of_a_node() {
        use Verdict::{Awaited, Confirmed, Read, Stands, Undone};
        let row = |sign| row(Carrier::Node, sign);
        for sign in [
            Sign::Passed,
            Sign::Followed,
            Sign::CalledAgain,
            Sign::KeptAlive,
            Sign::DoubtOver,
        ] {
            assert_eq!(row(sign), [Stands; 5], "{sign:?}");
        }
        assert_eq!(row(Sign::Acknowledged), [Read, Read, Read, Read, Stands]);
        assert_eq!(row(Sign::Listed), [Stands, Stands, Stands, Stands, Awaited]);
        assert_eq!(row(Sign::Settled), [Stands, Stands, Stands, Stands, Confirmed]);
        for sign in [
            Sign::Lost,
            Sign::Fenced,
            Sign::Ended(Ending::Broken),
            Sign::Ended(Ending::Orderly),
        ] {
            assert_eq!(row(sign), [Undone, Undone, Undone, Undone, Stands], "{sign:?}");
        }
        assert_eq!(row(Sign::Cancelled), [Undone; 5]);
        // It is pushed, and nothing says how far it has come.
        let given_up = [Verdict::GivenUp, Stands, Stands, Stands, Stands];
        assert_eq!(row(Sign::GivenUp), given_up);
        let not_taken = [Undone, Stands, Stands, Stands, Stands];
        assert_eq!(row(Sign::NotTaken), not_taken);
    }

    #[test]
    fn the_table_says_of_a_hook_and_of_a_wake() {
        use Verdict::{DoubtBegins, Read, Stands, Undone};
        for carrier in [Carrier::Hook, Carrier::Wake] {
            let row = |sign| row(carrier, sign);
            assert_eq!(row(Sign::Passed), [DoubtBegins, Stands, Stands, Stands, Stands]);
            assert_eq!(row(Sign::Followed), [Stands; 5]);
            assert_eq!(row(Sign::KeptAlive), [Stands; 5]);
            assert_eq!(row(Sign::DoubtOver), [Stands, Undone, Undone, Stands, Stands]);
            for sign in [
                Sign::Lost,
                Sign::Fenced,
                Sign::Ended(Ending::Broken),
                Sign::Ended(Ending::Orderly),
            ] {
                assert_eq!(row(sign), [Undone, Undone, Undone, Undone, Stands], "{sign:?}");
            }
            assert_eq!(row(Sign::Cancelled), [Undone; 5]);
        }
        let called_again = row(Carrier::Hook, Sign::CalledAgain);
        assert_eq!(called_again, [Stands, Read, Read, Read, Stands]);
        assert_eq!(row(Carrier::Wake, Sign::CalledAgain), [Stands; 5]);
        assert_eq!(row(Carrier::Hook, Sign::Acknowledged), [Stands; 5]);
        let acknowledged = row(Carrier::Wake, Sign::Acknowledged);
        assert_eq!(acknowledged, [Read, Read, Read, Read, Stands]);
    }

    #[test]
    fn the_table_says_of_what_a_model_has_seen() {
        use Verdict::{Confirmed, Stands, Undone};
        let carriers = [
            (Carrier::Stream, Confirmed, Undone),
            (Carrier::Exchange, Confirmed, Undone),
            (Carrier::Hook, Confirmed, Undone),
            (Carrier::Wake, Confirmed, Undone),
            (Carrier::Node, Stands, Stands),
        ];
        for (carrier, seen, unseen) in carriers {
            assert_eq!(row(carrier, Sign::Seen), [seen; 5], "{carrier:?}");
            assert_eq!(row(carrier, Sign::Unseen), [unseen; 5], "{carrier:?}");
            for passage in [Passage::Awaited, HELD_BACK, Passage::GivenUp] {
                for sign in [Sign::Seen, Sign::Unseen] {
                    assert_eq!(judge(carrier, passage, sign), Stands, "{carrier:?}, {passage:?}");
                }
            }
        }
    }

    #[test]
    fn the_table_says_of_receipts() {
        use Verdict::{Confirmed, HeldBack, Stands, Undone};
        let until = Timestamp::from_millis(9);
        let carriers = [
            Carrier::Stream,
            Carrier::Exchange,
            Carrier::Node,
            Carrier::Hook,
            Carrier::Wake,
        ];
        for carrier in carriers {
            for sign in [Sign::Receipted, Sign::Failed] {
                assert_eq!(row(carrier, sign), [Confirmed; 5]);
            }
            assert_eq!(row(carrier, Sign::Deferred(until)), [HeldBack(until); 5]);
            assert_eq!(row(carrier, Sign::DeferralOver), [Stands; 5]);
            if carrier != Carrier::Node {
                assert_eq!(row(carrier, Sign::Listed), [Stands; 5]);
            }
            if !matches!(carrier, Carrier::Node | Carrier::Wake) {
                assert_eq!(row(carrier, Sign::Acknowledged), [Stands; 5]);
            }
            for (sign, awaited, held_back) in [
                (Sign::Receipted, Confirmed, Confirmed),
                (Sign::Failed, Confirmed, Confirmed),
                (Sign::Deferred(until), HeldBack(until), HeldBack(until)),
                (Sign::DeferralOver, Stands, Undone),
                (Sign::Fenced, Undone, Stands),
                (Sign::Cancelled, Undone, Undone),
                (Sign::Acknowledged, Stands, Stands),
                (Sign::Listed, Stands, Stands),
                (Sign::Settled, Stands, Stands),
                (Sign::Lost, Stands, Stands),
                (Sign::Ended(Ending::Broken), Stands, Stands),
                (Sign::DoubtOver, Stands, Stands),
                (Sign::NotTaken, Stands, Stands),
                (Sign::GivenUp, Stands, Stands),
                (Sign::Redriven, Stands, Stands),
            ] {
                let verdicts = [Passage::Awaited, HELD_BACK].map(|passage| judge(carrier, passage, sign));
                assert_eq!(verdicts, [awaited, held_back], "{sign:?}");
            }
            for (sign, given_up) in [
                (Sign::Receipted, Confirmed),
                (Sign::Failed, Confirmed),
                (Sign::Deferred(until), HeldBack(until)),
                (Sign::DeferralOver, Stands),
                (Sign::NotTaken, Stands),
                (Sign::GivenUp, Stands),
                (Sign::Redriven, Undone),
                (Sign::Fenced, Undone),
                (Sign::Cancelled, Undone),
                (Sign::Acknowledged, Stands),
                (Sign::Listed, Stands),
                (Sign::Settled, Stands),
                (Sign::Lost, Stands),
                (Sign::Ended(Ending::Broken), Stands),
                (Sign::Ended(Ending::Orderly), Stands),
                (Sign::DoubtOver, Stands),
            ] {
                assert_eq!(judge(carrier, Passage::GivenUp, sign), given_up, "{sign:?}");
            }
            assert_eq!(row(carrier, Sign::Redriven), [Stands; 5]);
            if carrier != Carrier::Node {
                assert_eq!(row(carrier, Sign::GivenUp), [Stands; 5]);
                assert_eq!(row(carrier, Sign::NotTaken), [Stands; 5]);
            }
        }
    }
}

//! What must hold between any two inputs. Checked after each of them in debug builds, so in every test.

use std::collections::BTreeSet;

use super::inbox::{Inbox, body_bytes};
use super::timers::Timer;
use super::{AgentName, CallId, Engine, HandoverId, Seq};

impl Engine {
    /// Panics with the broken law, in debug builds; does nothing in release builds.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (agent, inbox) in &self.inboxes {
            self.check_inbox(agent, inbox);
        }
        self.check_sessions();
        self.check_timers();
    }

    fn check_inbox(&self, agent: &AgentName, inbox: &Inbox) {
        let handed = || self.handovers.values().filter(|h| h.agent == *agent);
        assert_eq!(
            inbox.waiting_bytes(),
            body_bytes(inbox.waiting()),
            "an inbox knows the bytes that wait in it"
        );
        let deliveries = || handed().flat_map(|h| h.deliveries.iter());
        assert_eq!(
            inbox.handed_over(),
            (deliveries().count(), body_bytes(deliveries())),
            "an inbox knows the messages and bytes that it handed over"
        );
        assert!(
            inbox.messages() <= self.bounds.inbox_messages_max,
            "an inbox holds no more messages than its bound"
        );
        assert!(
            inbox.bytes() <= self.bounds.inbox_bytes_max,
            "an inbox holds no more bytes than its bound"
        );
        assert!(
            inbox
                .waits
                .iter()
                .all(|call| !self.has_news(self.waits[call].session, agent)),
            "nobody waits for an inbox that has something"
        );
        let all = inbox.waiting().chain(deliveries());
        let mut places: Vec<Seq> = Vec::with_capacity(inbox.messages());
        for delivery in all {
            assert!(delivery.seq < inbox.next_seq(), "a place is given once");
            assert!(
                delivery.message.to == *agent,
                "a message is in its recipient's inbox"
            );
            places.push(delivery.seq);
        }
        places.sort_unstable();
        assert!(
            places.is_sorted_by(|one, next| one < next),
            "a message is in one place at a time"
        );
        let noticed = handed().filter(|h| h.notice).count();
        assert!(
            noticed + usize::from(inbox.notice_due) <= 1,
            "the start is told in one reply at a time"
        );
    }

    fn check_sessions(&self) {
        assert!(
            self.sessions.len() <= self.bounds.sessions_max,
            "no more sessions are open than the bound"
        );
        assert!(
            self.waits.len() <= self.bounds.waits_max,
            "no more reads are parked than the bound"
        );
        let of_sessions: BTreeSet<HandoverId> = self
            .sessions
            .values()
            .flat_map(|s| s.handovers.iter().copied())
            .collect();
        let unread = self.handovers.iter();
        let unread = unread.filter(|(_, handover)| handover.passage.settles_at().is_none());
        assert!(
            of_sessions.iter().eq(unread.map(|(id, _)| id)),
            "a hand-over belongs to an open session until it was read"
        );
        let waits: BTreeSet<CallId> = self
            .sessions
            .values()
            .flat_map(|s| s.waits.iter().copied())
            .collect();
        assert!(
            waits.iter().eq(self.waits.keys()),
            "a wait lasts as long as its session is open"
        );
        let parked: BTreeSet<CallId> = self
            .inboxes
            .values()
            .flat_map(|i| i.waits.iter().copied())
            .collect();
        assert!(parked == waits, "a wait stands in the line of its inbox");
        let next = HandoverId(self.handovers_made);
        assert!(
            self.handovers.keys().next_back().is_none_or(|last| *last < next),
            "a hand-over's number is used once"
        );
    }

    fn check_timers(&self) {
        let waits = self
            .waits
            .iter()
            .map(|(call, wait)| (wait.expires_at, Timer::WaitExpires(*call)));
        let handovers = self.handovers.iter();
        let doubts = handovers
            .clone()
            .filter_map(|(id, h)| Some((h.passage.doubt_ends()?, Timer::DoubtEnds(*id))));
        let exact: BTreeSet<_> = waits.chain(doubts).collect();
        let settling: BTreeSet<_> = handovers
            .filter_map(|(id, h)| Some((h.passage.settles_at()?, *id)))
            .collect();
        assert!(
            self.timers.are(&exact, &settling),
            "whatever ends by itself has its timer, and nothing else has"
        );
    }
}

//! What must hold between any two inputs. Checked after each of them in debug builds, so in every test.

use std::collections::BTreeSet;

use super::inbox::{Inbox, body_bytes};
use super::{AgentName, CallId, Engine, Reason, Seq};

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
        self.check_deadlines();
    }

    fn check_inbox(&self, agent: &AgentName, inbox: &Inbox) {
        let handed = || self.handovers.values().filter(|h| h.agent == *agent);
        let in_order = |pair: (&super::Delivery, &super::Delivery)| pair.0.seq < pair.1.seq;
        let mut pairs = inbox.waiting.iter().zip(inbox.waiting.iter().skip(1));
        assert!(pairs.all(in_order), "an inbox is first in, first out");
        assert_eq!(
            inbox.waiting_bytes,
            body_bytes(&inbox.waiting),
            "an inbox knows the bytes that wait in it"
        );
        assert_eq!(
            inbox.handed_messages,
            handed().map(|h| h.deliveries.len()).sum::<usize>(),
            "an inbox knows the messages that it handed over"
        );
        assert_eq!(
            inbox.handed_bytes,
            handed().map(|h| body_bytes(&h.deliveries)).sum::<usize>(),
            "an inbox knows the bytes that it handed over"
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
        let all = inbox
            .waiting
            .iter()
            .chain(handed().flat_map(|h| h.deliveries.iter()));
        let mut places: Vec<Seq> = Vec::with_capacity(inbox.messages());
        for delivery in all {
            assert!(delivery.seq < inbox.next_seq, "a place is given once");
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
        let handovers: BTreeSet<CallId> = self
            .sessions
            .values()
            .flat_map(|s| s.handovers.iter().copied())
            .collect();
        assert!(
            handovers.iter().eq(self.handovers.keys()),
            "a hand-over stands as long as its session is open"
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
        for call in self.waits.keys() {
            assert!(!self.handovers.contains_key(call), "a call is answered once");
        }
    }

    fn check_deadlines(&self) {
        let waits = self
            .waits
            .iter()
            .map(|(call, w)| (w.expires_at, Reason::WaitExpires, *call));
        let doubts = self
            .handovers
            .iter()
            .filter_map(|(call, h)| h.passage.doubt_ends().map(|at| (at, Reason::DoubtEnds, *call)));
        let due: BTreeSet<_> = waits.chain(doubts).collect();
        assert!(
            due == self.deadlines,
            "whatever ends by itself has its deadline, and nothing else has"
        );
    }
}

//! One agent's queue. Knows order and bounds; knows nothing of sessions, hand-overs or time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::message::{Delivery, Message};
use super::names::{AgentName, CallId, HandoverId, Seq};
use super::time::Timestamp;

/// Which of what waits is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Filter {
    /// What one agent sent; all if none is named.
    pub from: Option<AgentName>,
    /// The oldest of it, so many; all if no number is given.
    pub limit: Option<NonZeroUsize>,
}

/// What waits for one agent, and what was handed over and may come back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Inbox {
    /// Not handed over, by their places: oldest first.
    waiting: BTreeMap<Seq, Delivery>,
    /// Body bytes in `waiting`.
    waiting_bytes: usize,
    /// How many deliveries hand-overs hold.
    handed_messages: usize,
    /// Body bytes that hand-overs hold.
    handed_bytes: usize,
    /// The place of the next message.
    next_seq: Seq,
    /// Hand-overs of its deliveries that were read and can only be cancelled, with until when: their room is given up when it is
    /// needed, of what was read first at first.
    pub read: BTreeSet<(Timestamp, HandoverId)>,
    /// Parked reads, longest waiting first. None for which there are news.
    pub waits: VecDeque<CallId>,
    /// The agent has not been told yet that the relay started.
    pub notice_due: bool,
}

impl Inbox {
    /// Makes the empty inbox of an agent that was told nothing yet.
    pub fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            handed_messages: 0,
            handed_bytes: 0,
            next_seq: Seq(0),
            read: BTreeSet::new(),
            waits: VecDeque::new(),
            notice_due: true,
        }
    }

    /// Returns what waits, oldest first.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        self.waiting.values()
    }

    /// Returns the body bytes of what waits.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Returns how many messages were handed over and may come back, and their body bytes.
    pub fn handed_over(&self) -> (usize, usize) {
        (self.handed_messages, self.handed_bytes)
    }

    /// Returns the place that the next message gets.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// Counts what the bounds count: hand-overs may come back, so they keep their room.
    pub fn messages(&self) -> usize {
        self.waiting.len() + self.handed_messages
    }

    /// Counts the body bytes that the bounds count.
    pub fn bytes(&self) -> usize {
        self.waiting_bytes + self.handed_bytes
    }

    /// Puts a message behind all others.
    pub fn push(&mut self, message: Arc<Message>) {
        self.waiting_bytes += message.body.len();
        let delivery = Delivery {
            seq: self.next_seq,
            message,
            redelivered: false,
        };
        self.waiting.insert(self.next_seq, delivery);
        self.next_seq = Seq(self.next_seq.0 + 1);
    }

    /// Goes through what a filter means of what waits, oldest first.
    pub fn matching(&self, filter: &Filter) -> impl Iterator<Item = &Delivery> {
        let limit = filter.limit.map_or(usize::MAX, NonZeroUsize::get);
        let is_meant = |delivery: &&Delivery| {
            let from = filter.from.as_ref();
            from.is_none_or(|from| delivery.message.from == *from)
        };
        self.waiting.values().filter(is_meant).take(limit)
    }

    /// Takes out what a filter means, oldest first, and keeps its room until [`Self::release`] or [`Self::put_back`].
    pub fn take(&mut self, filter: &Filter) -> Vec<Delivery> {
        let taken: Vec<Delivery> = if *filter == Filter::default() {
            std::mem::take(&mut self.waiting).into_values().collect()
        } else {
            let places: Vec<Seq> = self.matching(filter).map(|delivery| delivery.seq).collect();
            let place = |seq: &Seq| self.waiting.remove(seq).expect("it waits there");
            places.iter().map(place).collect()
        };
        let bytes = body_bytes(&taken);
        self.handed_messages += taken.len();
        self.handed_bytes += bytes;
        self.waiting_bytes -= bytes;
        taken
    }

    /// Gives up the room of deliveries that arrived.
    pub fn release(&mut self, arrived: &[Delivery]) {
        self.handed_messages -= arrived.len();
        self.handed_bytes -= body_bytes(arrived);
    }

    /// Puts deliveries back into their old places, marked as redelivered. Hand-overs may be undone in any order.
    pub fn put_back(&mut self, undone: Vec<Delivery>) {
        self.release(&undone);
        self.waiting_bytes += body_bytes(&undone);
        let redelivered = undone.into_iter().map(|delivery| {
            let redelivered = Delivery {
                redelivered: true,
                ..delivery
            };
            (redelivered.seq, redelivered)
        });
        self.waiting.extend(redelivered);
    }
}

/// Adds up the bodies of some deliveries, in bytes.
pub(super) fn body_bytes<'a>(deliveries: impl IntoIterator<Item = &'a Delivery>) -> usize {
    deliveries.into_iter().map(|d| d.message.body.len()).sum()
}

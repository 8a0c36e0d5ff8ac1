//! One agent's queue. Knows order and bounds; knows nothing of sessions, hand-overs or time.

use std::collections::VecDeque;
use std::sync::Arc;

use super::limits::Bounds;
use super::message::{Delivery, Message};
use super::names::{CallId, Seq};

/// What waits for one agent, and what was handed over and may come back.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Not handed over, oldest first.
    pub waiting: VecDeque<Delivery>,
    /// Body bytes in `waiting`.
    pub waiting_bytes: usize,
    /// How many deliveries hand-overs hold.
    pub handed_messages: usize,
    /// Body bytes that hand-overs hold.
    pub handed_bytes: usize,
    /// The place of the next message.
    pub next_seq: Seq,
    /// Parked reads, longest waiting first. None for which there are news.
    pub waits: VecDeque<CallId>,
    /// The agent has not been told yet that the relay started.
    pub notice_due: bool,
}

impl Inbox {
    /// Makes the empty inbox of an agent that was told nothing yet.
    pub fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            handed_messages: 0,
            handed_bytes: 0,
            next_seq: Seq(0),
            waits: VecDeque::new(),
            notice_due: true,
        }
    }

    /// Counts what the bounds count: hand-overs may come back, so they keep their room.
    pub fn messages(&self) -> usize {
        self.waiting.len() + self.handed_messages
    }

    /// Counts the body bytes that the bounds count.
    pub fn bytes(&self) -> usize {
        self.waiting_bytes + self.handed_bytes
    }

    /// Tells whether a message with a body of that many bytes fits.
    pub fn has_room(&self, body_bytes: usize, bounds: &Bounds) -> bool {
        self.messages() < bounds.inbox_messages_max && self.bytes() + body_bytes <= bounds.inbox_bytes_max
    }

    /// Puts a message behind all others.
    pub fn push(&mut self, message: Arc<Message>) {
        self.waiting_bytes += message.body.len();
        self.waiting.push_back(Delivery {
            seq: self.next_seq,
            message,
            redelivered: false,
        });
        self.next_seq = Seq(self.next_seq.0 + 1);
    }

    /// Takes everything out and keeps its room, until [`Self::release`] or [`Self::take_back`].
    pub fn hand_over(&mut self) -> VecDeque<Delivery> {
        let taken = std::mem::take(&mut self.waiting);
        self.handed_messages += taken.len();
        self.handed_bytes += std::mem::take(&mut self.waiting_bytes);
        taken
    }

    /// Gives up the room of deliveries that arrived.
    pub fn release(&mut self, arrived: &VecDeque<Delivery>) {
        self.handed_messages -= arrived.len();
        self.handed_bytes -= body_bytes(arrived);
    }

    /// Puts deliveries back into their old places, marked as redelivered.
    pub fn take_back(&mut self, undone: VecDeque<Delivery>) {
        self.release(&undone);
        self.waiting_bytes += body_bytes(&undone);
        for mut delivery in undone.into_iter().rev() {
            delivery.redelivered = true;
            self.waiting.push_front(delivery);
        }
        // Hand-overs may be undone in any order; each message goes back to its own place all the same.
        if !self.waiting.iter().is_sorted_by_key(|d| d.seq) {
            self.waiting.make_contiguous().sort_by_key(|d| d.seq);
        }
    }
}

/// Adds up the bodies of some deliveries, in bytes.
pub(super) fn body_bytes(deliveries: &VecDeque<Delivery>) -> usize {
    deliveries.iter().map(|d| d.message.body.len()).sum()
}

//! What was handed over and read, and waits again since its agent has asked for it.

use std::collections::BTreeSet;

use super::super::message::Delivery;
use super::super::names::{HandoverId, MessageId, Seq};
use super::{Became, Inbox, body_bytes};

/// Where a delivery stands among all that was handed over: what was handed over together stands in the order of the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Place {
    /// With what it was handed over, of a message in parts the latest of them.
    pub handover: HandoverId,
    /// Its place in the inbox.
    pub seq: Seq,
}

/// What an agent has asked for again the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct Asked {
    /// The last message that it had seen.
    after: MessageId,
    /// The places of what has come again by that. Whenever it is asked again, those are forgotten of which nothing else is known any
    /// more: no more are kept than an inbox has messages and [`super::super::limits::RECENT_MAX`].
    brought: BTreeSet<Seq>,
}

impl Inbox {
    /// Goes through what has arrived and is kept in mind, whatever its agent did with it, the longest read first.
    pub fn arrived(&self) -> impl Iterator<Item = (Place, &Delivery, Became)> {
        self.recent.iter().filter_map(|recent| {
            let place = Place {
                handover: recent.handover?,
                seq: recent.delivery.seq,
            };
            Some((place, &recent.delivery, recent.became))
        })
    }

    /// Goes through what waits or stands aside and was handed over before, or in part.
    pub fn came_back(&self) -> impl Iterator<Item = &Delivery> {
        let here = self.waiting.values().chain(self.aside.values());
        here.filter(|delivery| delivery.redelivered || self.parts.contains_key(&delivery.seq))
    }

    /// Has what has arrived wait in its old place again, marked as redelivered, and takes its room.
    pub fn bring_back(&mut self, deliveries: Vec<Delivery>) {
        let places: BTreeSet<Seq> = deliveries.iter().map(|delivery| delivery.seq).collect();
        self.recent
            .retain(|recent| recent.handover.is_none() || !places.contains(&recent.delivery.seq));
        self.recent_bytes = body_bytes(self.recent.iter().map(|recent| &recent.delivery));
        self.wait_again(deliveries);
    }

    /// Returns the places of what has come again by asking for what is behind a message, if that was the latest that was asked.
    pub fn brought_after(&self, after: MessageId) -> BTreeSet<Seq> {
        let same = self.asked.iter().filter(|asked| asked.after == after);
        same.flat_map(|asked| asked.brought.iter().copied()).collect()
    }

    /// Takes note of what has come again by that until now.
    pub fn has_asked(&mut self, after: MessageId, brought: BTreeSet<Seq>) {
        self.asked = Some(Asked { after, brought });
    }

    /// Counts what is kept of what has come again, for the invariants.
    pub fn brought(&self) -> usize {
        self.asked.as_ref().map_or(0, |asked| asked.brought.len())
    }
}

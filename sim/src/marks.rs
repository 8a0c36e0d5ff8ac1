//! What must have happened, so that a campaign without a violation means something: every fault bit, and every
//! branch of the contract was reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The marks that a campaign must have reached.
pub const REQUIRED: [&str; 32] = [
    "call unknown: given up",
    "call unknown: the connection broke",
    "call unknown: the stream broke",
    "confirmed: doubt ended",
    "confirmed: next call",
    "confirmed: orderly end",
    "fault bit: box crash",
    "fault bit: crash with a hand-over in doubt",
    "fault bit: crash with parked waits",
    "fault bit: crash with unread messages",
    "fault bit: hold",
    "fault bit: lost replies",
    "fault bit: lost requests",
    "fault bit: partition",
    "fault bit: second crash in a row",
    "notice read",
    "notice undone",
    "read redelivered",
    "refused: inbox full",
    "refused: legal form, illegal call",
    "refused: too many waits",
    "stream came back under its old id",
    "undone: cancelled",
    "undone: exchange broke",
    "undone: reply lost",
    "undone: stream ended",
    "wait cancelled",
    "wait expired",
    "wait superseded",
    "wait woken",
    "wait woken by a redelivery",
    "two calls at once",
];

/// Counts by mark.
#[derive(Clone, Default)]
pub struct Marks(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Marks {
    /// Counts one.
    pub fn hit(&self, mark: &'static str) {
        *self
            .0
            .lock()
            .expect("counting does not panic")
            .entry(mark)
            .or_default() += 1;
    }

    /// Returns the counts.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().expect("counting does not panic").clone()
    }
}

/// Adds counts to others.
pub fn add(sum: &mut BTreeMap<&'static str, u64>, more: &BTreeMap<&'static str, u64>) {
    for (mark, count) in more {
        *sum.entry(mark).or_default() += count;
    }
}

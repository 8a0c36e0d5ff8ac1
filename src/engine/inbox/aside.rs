//! What stands aside in an inbox: it has its place and takes room there, and nobody is handed it. Knows nothing of why it does.

use super::super::message::Delivery;
use super::super::names::Seq;
use super::{Inbox, body_bytes};

impl Inbox {
    /// Returns what stands aside, oldest first.
    pub fn aside(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        self.aside.values()
    }

    /// Has what waits at a place stand aside.
    pub fn set_aside(&mut self, seq: Seq) -> Delivery {
        let delivery = self.remove_here(seq);
        let bytes = delivery.message.bytes();
        self.waiting_bytes -= bytes;
        self.aside_bytes += bytes;
        self.aside.insert(seq, delivery.clone());
        delivery
    }

    /// Has what stands aside at a place wait there again.
    pub fn let_pass(&mut self, seq: Seq) -> Delivery {
        let delivery = self.take_aside(seq);
        self.waiting_bytes += delivery.message.bytes();
        if self.holds(&delivery) {
            self.held.insert(seq);
        } else {
            self.open_from = self.open_from.min(seq);
        }
        self.waiting.insert(seq, delivery.clone());
        delivery
    }

    /// Takes out what stands aside at a place.
    pub fn drop_aside(&mut self, seq: Seq) -> Delivery {
        self.forget_parts(seq);
        self.take_aside(seq)
    }

    fn take_aside(&mut self, seq: Seq) -> Delivery {
        let delivery = self.aside.remove(&seq).expect("it stands aside there");
        self.aside_bytes -= delivery.message.bytes();
        delivery
    }

    /// Takes note that what has that place is not to stand aside any more, as long as it is in the inbox or may come back.
    pub fn allow(&mut self, seq: Seq) {
        self.allowed.insert(seq);
    }

    /// Tells whether that was said of what has that place.
    pub fn is_allowed(&self, seq: Seq) -> bool {
        self.allowed.contains(&seq)
    }

    /// Forgets it of what is not in the inbox any more and does not come back.
    pub(super) fn forget_allowed(&mut self, gone: &[Delivery]) {
        if !self.allowed.is_empty() {
            for delivery in gone {
                self.allowed.remove(&delivery.seq);
            }
        }
    }

    /// Goes through the places of what was allowed, for the invariants.
    pub fn allowed(&self) -> impl Iterator<Item = &Seq> {
        self.allowed.iter()
    }

    /// Counts a byte that is not there, for the tests of the invariants.
    #[cfg(test)]
    pub fn miscount_aside(&mut self) {
        self.aside_bytes += 1;
    }

    /// Tells whether the bytes of what stands aside are counted, for the invariants.
    pub fn knows_bytes_aside(&self) -> bool {
        self.aside_bytes == body_bytes(self.aside())
    }
}

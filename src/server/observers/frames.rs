//! Long frames on their way to observers: all who are told of the same thing share one.

use std::sync::{Arc, Mutex, Weak};

use super::entry::{Entry, What};
use super::journal::Of;
use crate::server::budget::{Budget, ChargedOnce};
use crate::server::limits::SHARED_FRAME_BYTES_MIN;

/// The frames that somebody has.
#[derive(Default)]
pub(in crate::server) struct Frames(Mutex<Vec<(Of, u64, Weak<Frame>)>>);

/// A frame that is counted for as long as anybody has it.
pub(in crate::server) struct Frame {
    pub text: String,
    _charge: ChargedOnce,
}

impl Frames {
    /// Returns the frame of an event, if it may be a long one: one that another observer has, or else a new one. Who comes meanwhile waits for
    /// that, and would make it for as long.
    pub fn share(&self, budget: &Arc<Budget>, entry: &Entry, of: &Of, number: u64) -> Option<Arc<Frame>> {
        if !is_long(entry) {
            return None;
        }
        let mut frames = self.0.lock().expect("nothing panics while it holds them");
        frames.retain(|(_, _, frame)| frame.strong_count() > 0);
        let same = frames.iter().find(|(whose, at, _)| *at == number && whose == of);
        if let Some(frame) = same.and_then(|(_, _, frame)| frame.upgrade()) {
            return Some(frame);
        }
        let text = entry.frame(of, number).to_string();
        let _charge = budget.charge_once(text.len());
        let frame = Arc::new(Frame { text, _charge });
        frames.push((of.clone(), number, Arc::downgrade(&frame)));
        Some(frame)
    }
}

fn is_long(entry: &Entry) -> bool {
    match &entry.what {
        What::Message { message, .. } => message.body.len() >= SHARED_FRAME_BYTES_MIN,
        What::Delivery { .. }
        | What::Read { .. }
        | What::Reacted { .. }
        | What::Agent { .. }
        | What::TakenOver { .. }
        | What::Member { .. }
        | What::Session(_)
        | What::Invocation(_)
        | What::Denied { .. }
        | What::HandedOn { .. }
        | What::Worker(_)
        | What::Node { .. } => false,
    }
}

//! The latest reads, so that a client can cancel one by the id of its request.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::engine::CallId;

/// Remembers reads by session and request id, up to a bound; the oldest is forgotten first.
///
/// An answered read is remembered too: its answer may cross with its cancellation, and a client ignores the
/// answer to a request that it has cancelled.
pub struct RecentReads {
    reads: Mutex<VecDeque<Entry>>,
    count_max: usize,
}

struct Entry {
    session: Box<str>,
    request_id: Box<str>,
    call: CallId,
}

impl RecentReads {
    /// Remembers up to `count_max` reads.
    pub fn new(count_max: usize) -> Self {
        Self {
            reads: Mutex::default(),
            count_max,
        }
    }

    /// Remembers a read by what its transport takes for the session and by its request's id, as it was written.
    pub fn remember(&self, session: &str, request_id: &str, call: CallId) {
        let mut reads = self.lock();
        if reads.len() == self.count_max {
            reads.pop_front();
        }
        reads.push_back(Entry {
            session: session.into(),
            request_id: request_id.into(),
            call,
        });
    }

    /// Forgets the latest read of that session and id, and returns it.
    pub fn forget(&self, session: &str, request_id: &str) -> Option<CallId> {
        let mut reads = self.lock();
        let is_it = |entry: &Entry| *entry.session == *session && *entry.request_id == *request_id;
        let at = reads.iter().rposition(is_it)?;
        reads.remove(at).map(|entry| entry.call)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.reads
            .lock()
            .expect("nothing panics while it holds the latest reads")
    }
}

//! The latest reads, so that a client can cancel one by the id of its request.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::engine::CallId;

/// How many cancellations are remembered that came before the request which they are about.
const EARLY_MAX: usize = 64;

/// Longest session and request id together that is remembered, in bytes: a client that makes them longer cannot cancel.
const KEY_BYTES_MAX: usize = 256;

/// Remembers reads by session and request id, up to a bound; the oldest is forgotten first.
///
/// An answered read is remembered too: its answer may cross with its cancellation, and a client ignores the
/// answer to a request that it has cancelled. And a cancellation may overtake its request, which comes over
/// another connection: such a request is not carried out.
pub struct RecentReads {
    state: Mutex<State>,
    count_max: usize,
}

#[derive(Default)]
struct State {
    reads: VecDeque<(Key, CallId)>,
    cancelled_early: VecDeque<Key>,
}

/// What a transport takes for the session, and the request's id as it was written.
#[derive(PartialEq, Eq)]
struct Key {
    session: Box<str>,
    request_id: Box<str>,
}

impl Key {
    /// Makes a key, unless it is too long.
    fn new(session: &str, request_id: &str) -> Option<Self> {
        (session.len() + request_id.len() <= KEY_BYTES_MAX).then(|| Self {
            session: session.into(),
            request_id: request_id.into(),
        })
    }
}

impl RecentReads {
    /// Remembers up to `count_max` reads.
    pub fn new(count_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            count_max,
        }
    }

    /// Tells whether a request was cancelled before it came, and forgets that it was.
    pub fn was_cancelled(&self, session: &str, request_id: &str) -> bool {
        let early = &mut self.lock().cancelled_early;
        // Almost always there is none, and nothing is compared.
        let is_it = |key: &Key| *key.session == *session && *key.request_id == *request_id;
        let at = early.iter().position(is_it);
        at.is_some_and(|at| early.remove(at).is_some())
    }

    /// Remembers a read.
    pub fn remember(&self, session: &str, request_id: &str, call: CallId) {
        let Some(key) = Key::new(session, request_id) else {
            return;
        };
        let mut state = self.lock();
        if state.reads.len() == self.count_max {
            state.reads.pop_front();
        }
        state.reads.push_back((key, call));
    }

    /// Takes note of a cancellation: returns the read that it is about, or remembers it for a read that is yet to come.
    pub fn cancel(&self, session: &str, request_id: &str) -> Option<CallId> {
        let key = Key::new(session, request_id)?;
        let mut state = self.lock();
        if let Some(at) = state.reads.iter().rposition(|(known, _)| *known == key) {
            return state.reads.remove(at).map(|(_, call)| call);
        }
        if state.cancelled_early.len() == EARLY_MAX {
            state.cancelled_early.pop_front();
        }
        state.cancelled_early.push_back(key);
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds the latest reads")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_finds_the_latest_read_of_its_session_and_id_once() {
        let reads = RecentReads::new(8);
        reads.remember("a", "1", CallId(10));
        reads.remember("b", "1", CallId(11));
        reads.remember("a", "1", CallId(12));
        assert_eq!(reads.cancel("a", "1"), Some(CallId(12)));
        assert_eq!(reads.cancel("a", "1"), Some(CallId(10)));
        assert_eq!(reads.cancel("b", "\"1\""), None, "a text is not a number");
        assert_eq!(reads.cancel("b", "1"), Some(CallId(11)));
    }

    #[test]
    fn a_cancellation_that_overtakes_its_request_is_remembered_once() {
        let reads = RecentReads::new(8);
        assert!(!reads.was_cancelled("a", "1"));
        assert_eq!(reads.cancel("a", "1"), None);
        assert!(!reads.was_cancelled("b", "1"));
        assert!(reads.was_cancelled("a", "1"));
        assert!(!reads.was_cancelled("a", "1"));
    }

    #[test]
    fn the_oldest_is_forgotten_at_the_bound() {
        let reads = RecentReads::new(2);
        for call in 0..3 {
            reads.remember("a", &call.to_string(), CallId(call));
        }
        assert_eq!(reads.cancel("a", "0"), None);
        assert_eq!(reads.cancel("a", "1"), Some(CallId(1)));
        for id in 0..=EARLY_MAX {
            reads.cancel("b", &id.to_string());
        }
        // The first of the early ones is the one of "a" above, the second the first of "b".
        assert!(!reads.was_cancelled("b", "0"));
        assert!(reads.was_cancelled("b", "1"));
    }
}

//! Which call a request is, so that its client can cancel it by the request's id.
//!
//! Plain data: the owner keeps it under the engine's lock, so that a cancellation and the call that it is about cannot
//! miss each other.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rmcp::model::RequestId;
use uuid::Uuid;

use super::limits::{EARLY_MAX, EARLY_MS, REQUEST_ID_BYTES_MAX};
use super::quirks::client_of_session;
use crate::engine::{CallId, HandoverId, Timestamp};
use crate::tools::Client;

/// Within what a request's id means one request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// A stream of HTTP+SSE, which keeps its id when its client opens it anew.
    Stream(Uuid),
    /// What a client of streamable HTTP gives as its session's id, over whatever connection.
    Named(Arc<str>),
}

/// A request's id, however it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Number(i64),
    Text(Box<str>),
}

/// What a request is known by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    scope: Scope,
    id: Id,
}

impl Scope {
    /// Makes the scope of a session's id that a client gives; none for one of a length that relay does not keep in mind.
    pub fn named(session: &str) -> Option<Self> {
        (session.len() <= REQUEST_ID_BYTES_MAX).then(|| Self::Named(session.into()))
    }

    /// Returns what its client calls itself, over whatever connection.
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            Self::Stream(_) => None,
            Self::Named(session) => Some(session),
        }
    }

    /// Returns which client it is, if its session's id says so.
    pub fn client(&self) -> Option<Client> {
        match self {
            Self::Stream(_) => None,
            Self::Named(session) => client_of_session(session),
        }
    }
}

impl RequestKey {
    /// Makes the key of an id as it stands in JSON; none if it is no id that a request may have.
    pub fn of_json(scope: &Scope, id: &str) -> Option<Self> {
        if id.len() > REQUEST_ID_BYTES_MAX {
            return None;
        }
        let id = if id.starts_with('"') {
            let text: Cow<'_, str> = serde_json::from_str(id).ok()?;
            Id::Text(text.into())
        } else {
            Id::Number(id.parse().ok()?)
        };
        let scope = scope.clone();
        Some(Self { scope, id })
    }

    /// Makes the key of an id that rmcp has read.
    pub fn of_rmcp(scope: &Scope, id: &RequestId) -> Self {
        let id = match id {
            RequestId::Number(number) => Id::Number(*number),
            RequestId::String(text) => Id::Text(text.as_ref().into()),
        };
        let scope = scope.clone();
        Self { scope, id }
    }
}

/// Who calls, in a request that can be cancelled by its id. The key is made only when it is needed.
#[derive(Clone, Copy)]
pub enum Request<'a> {
    /// An id as it stands in JSON.
    Json(&'a Scope, &'a str),
    /// An id that rmcp has read.
    Rmcp(&'a Scope, &'a RequestId),
}

impl Request<'_> {
    fn key(self) -> Option<RequestKey> {
        match self {
            Self::Json(scope, id) => RequestKey::of_json(scope, id),
            Self::Rmcp(scope, id) => Some(RequestKey::of_rmcp(scope, id)),
        }
    }
}

/// What a cancellation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// A call that waits.
    Wait(CallId),
    /// The hand-over in the answer to a call.
    Handover(HandoverId),
}

/// Remembers which call a request is: every parked one, and every one with a hand-over in its answer that stands.
#[derive(Debug, Default)]
pub struct Requests {
    /// A call has no hand-over while it waits.
    calls: BTreeMap<(RequestKey, CallId), Option<HandoverId>>,
    /// Those in `calls` that are answered.
    answered: BTreeMap<HandoverId, (RequestKey, CallId)>,
    early: BTreeSet<RequestKey>,
    /// The same, oldest first, with when they came.
    early_order: VecDeque<(Timestamp, RequestKey)>,
}

impl Requests {
    /// Tells whether a request was cancelled before it came, and forgets that it was.
    pub fn was_cancelled(&mut self, now: Timestamp, request: Option<Request<'_>>) -> bool {
        // Almost always there is none, and no key is made.
        if self.early.is_empty() {
            return false;
        }
        self.forget_old(now);
        let Some(key) = request.and_then(Request::key) else {
            return false;
        };
        let known = self.early.remove(&key);
        if known {
            self.early_order.retain(|(_, other)| *other != key);
        }
        known
    }

    /// Remembers a call that waits, until [`Self::answer`] or [`Self::forget`], and returns what it is known by.
    pub fn park(&mut self, request: Option<Request<'_>>, call: CallId) -> Option<RequestKey> {
        let key = request.and_then(Request::key)?;
        self.calls.insert((key.clone(), call), None);
        Some(key)
    }

    /// Remembers a call whose answer is on its way, until [`Self::ended`].
    pub fn answer(&mut self, key: RequestKey, call: CallId, handover: HandoverId) {
        self.calls.insert((key.clone(), call), Some(handover));
        self.answered.insert(handover, (key, call));
    }

    /// The same, for a call that did not wait.
    pub fn answer_at_once(&mut self, request: Option<Request<'_>>, call: CallId, handover: HandoverId) {
        if let Some(key) = request.and_then(Request::key) {
            self.answer(key, call, handover);
        }
    }

    /// Forgets a call that waited.
    pub fn forget(&mut self, key: RequestKey, call: CallId) {
        self.calls.remove(&(key, call));
    }

    /// Forgets the call of a hand-over that does not stand any more.
    pub fn ended(&mut self, handover: HandoverId) {
        if let Some(call) = self.answered.remove(&handover) {
            self.calls.remove(&call);
        }
    }

    /// Takes note of a cancellation: returns what of the latest call it is about, or remembers it for a request that is
    /// yet to come.
    pub fn cancel(&mut self, now: Timestamp, key: RequestKey) -> Option<Cancelled> {
        let all = (key.clone(), CallId(0))..=(key.clone(), CallId(u64::MAX));
        if let Some((&(_, call), &handover)) = self.calls.range(all).next_back() {
            self.calls.remove(&(key, call));
            let Some(handover) = handover else {
                return Some(Cancelled::Wait(call));
            };
            self.answered.remove(&handover);
            return Some(Cancelled::Handover(handover));
        }
        self.forget_old(now);
        if self.early.insert(key.clone()) {
            if self.early_order.len() == EARLY_MAX
                && let Some((_, oldest)) = self.early_order.pop_front()
            {
                self.early.remove(&oldest);
            }
            self.early_order.push_back((now, key));
        }
        None
    }

    /// Forgets cancellations whose requests would have come by now.
    fn forget_old(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.early_order.front()
            && at.plus_millis(EARLY_MS) <= now
        {
            let (_, old) = self.early_order.pop_front().expect("it is the front");
            self.early.remove(&old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(0);

    fn scope(name: &str) -> Scope {
        Scope::Named(name.into())
    }

    fn key(name: &str, id: &str) -> RequestKey {
        RequestKey::of_json(&scope(name), id).expect("an id")
    }

    fn was_cancelled(requests: &mut Requests, name: &str, id: &str) -> bool {
        requests.was_cancelled(NOW, Some(Request::Json(&scope(name), id)))
    }

    #[test]
    fn a_cancellation_finds_the_latest_call_of_its_scope_and_id_once() {
        let mut requests = Requests::default();
        requests.answer(key("a", "1"), CallId(10), HandoverId(10));
        requests.answer(key("b", "1"), CallId(11), HandoverId(11));
        requests.answer(key("a", "1"), CallId(12), HandoverId(12));
        assert_eq!(
            requests.cancel(NOW, key("a", "1")),
            Some(Cancelled::Handover(HandoverId(12)))
        );
        assert_eq!(
            requests.cancel(NOW, key("a", "1")),
            Some(Cancelled::Handover(HandoverId(10)))
        );
        assert_eq!(
            requests.cancel(NOW, key("b", "\"1\"")),
            None,
            "a text is not a number"
        );
        assert_eq!(
            requests.cancel(NOW, key("b", "1")),
            Some(Cancelled::Handover(HandoverId(11)))
        );
        assert!(requests.calls.is_empty() && requests.answered.is_empty());
    }

    #[test]
    fn an_id_is_the_same_however_it_was_written() {
        assert_eq!(key("a", r#""a\u0062\/""#), key("a", r#""ab/""#));
        let text = RequestId::String("ab/".into());
        assert_eq!(key("a", r#""ab/""#), RequestKey::of_rmcp(&scope("a"), &text));
        assert_eq!(
            key("a", "-7"),
            RequestKey::of_rmcp(&scope("a"), &RequestId::Number(-7))
        );
        assert_ne!(key("a", "7"), key("a", "\"7\""));
        for none in ["null", "1.5", "[1]", "{}", "\"", ""] {
            assert_eq!(RequestKey::of_json(&scope("a"), none), None, "{none}");
        }
    }

    #[test]
    fn a_cancellation_that_overtakes_its_request_is_remembered_once() {
        let mut requests = Requests::default();
        assert!(!was_cancelled(&mut requests, "a", "1"));
        assert_eq!(requests.cancel(NOW, key("a", "1")), None);
        assert_eq!(requests.cancel(NOW, key("a", "1")), None, "twice is once");
        assert!(!was_cancelled(&mut requests, "b", "1"));
        assert!(was_cancelled(&mut requests, "a", "1"));
        assert!(!was_cancelled(&mut requests, "a", "1"));
        assert!(requests.early_order.is_empty());
    }

    #[test]
    fn an_answered_call_is_known_as_long_as_its_hand_over_stands() {
        let mut requests = Requests::default();
        for call in 0..3 {
            requests.answer(key("a", &call.to_string()), CallId(call), HandoverId(10 + call));
        }
        requests.ended(HandoverId(11));
        requests.ended(HandoverId(11));
        assert_eq!(requests.cancel(NOW, key("a", "1")), None);
        assert_eq!(
            requests.cancel(NOW, key("a", "0")),
            Some(Cancelled::Handover(HandoverId(10)))
        );
        requests.ended(HandoverId(10));
        requests.ended(HandoverId(12));
        assert!(requests.calls.is_empty() && requests.answered.is_empty());
    }

    #[test]
    fn a_cancellation_whose_request_does_not_come_is_forgotten_in_time() {
        let late = |ms| NOW.plus_millis(EARLY_MS + ms);
        for (ms, known) in [(-1, true), (0, false)] {
            let mut requests = Requests::default();
            requests.cancel(NOW, key("a", "1"));
            requests.cancel(late(-1), key("a", "2"));
            let name = scope("a");
            assert_eq!(
                requests.was_cancelled(late(ms), Some(Request::Json(&name, "1"))),
                known
            );
            assert!(requests.was_cancelled(late(ms), Some(Request::Json(&name, "2"))));
            assert!(requests.early.is_empty() && requests.early_order.is_empty());
        }
    }

    #[test]
    fn of_early_cancellations_the_oldest_is_forgotten_at_the_bound() {
        let mut requests = Requests::default();
        for id in 0..=EARLY_MAX {
            assert_eq!(requests.cancel(NOW, key("a", &id.to_string())), None);
        }
        assert!(!was_cancelled(&mut requests, "a", "0"));
        assert!(was_cancelled(&mut requests, "a", "1"));
    }

    #[test]
    fn an_early_cancellation_that_comes_again_and_again_takes_one_place() {
        let mut requests = Requests::default();
        requests.cancel(NOW, key("a", "1"));
        for _ in 0..EARLY_MAX {
            assert_eq!(requests.cancel(NOW, key("a", "2")), None);
        }
        assert!(was_cancelled(&mut requests, "a", "1"));
    }

    #[test]
    fn a_cancellation_that_comes_again_after_its_time_is_remembered_anew() {
        let mut requests = Requests::default();
        requests.cancel(NOW, key("a", "1"));
        let later = NOW.plus_millis(EARLY_MS);
        requests.cancel(later, key("a", "1"));
        let name = scope("a");
        assert!(requests.was_cancelled(later, Some(Request::Json(&name, "1"))));
        assert!(requests.early.is_empty() && requests.early_order.is_empty());
    }

    #[test]
    fn a_forgotten_call_is_not_found() {
        let mut requests = Requests::default();
        let name = scope("a");
        let key = requests
            .park(Some(Request::Json(&name, "1")), CallId(5))
            .expect("an id");
        requests.forget(key.clone(), CallId(5));
        assert_eq!(requests.cancel(NOW, key), None);
    }
}

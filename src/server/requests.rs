//! Which call a request is, so that its client can cancel it by the request's id.
//!
//! Plain data: the owner keeps it under the engine's lock, so that a cancellation and the call that it is about cannot
//! miss each other.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rmcp::model::RequestId;
use uuid::Uuid;

use super::limits::{ANSWERED_MAX, EARLY_MAX, REQUEST_ID_BYTES_MAX};
use crate::engine::{CallId, HandoverId};

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

/// Remembers which call a request is: every parked one, and the latest of those whose answers handed something over.
#[derive(Debug, Default)]
pub struct Requests {
    /// A call has no hand-over while it waits.
    calls: BTreeMap<(RequestKey, CallId), Option<HandoverId>>,
    /// Those in `calls` that are answered, oldest first.
    answered: VecDeque<(RequestKey, CallId)>,
    early: BTreeSet<RequestKey>,
    /// The same, oldest first.
    early_order: VecDeque<RequestKey>,
}

impl Requests {
    /// Tells whether a request was cancelled before it came, and forgets that it was.
    pub fn was_cancelled(&mut self, request: Option<Request<'_>>) -> bool {
        // Almost always there is none, and no key is made.
        if self.early.is_empty() {
            return false;
        }
        let Some(key) = request.and_then(Request::key) else {
            return false;
        };
        let known = self.early.remove(&key);
        if known {
            self.early_order.retain(|other| *other != key);
        }
        known
    }

    /// Remembers a call that waits, until [`Self::answer`] or [`Self::forget`], and returns what it is known by.
    pub fn park(&mut self, request: Option<Request<'_>>, call: CallId) -> Option<RequestKey> {
        let key = request.and_then(Request::key)?;
        self.calls.insert((key.clone(), call), None);
        Some(key)
    }

    /// Remembers a call whose answer is on its way, as one of the latest.
    pub fn answer(&mut self, key: RequestKey, call: CallId, handover: HandoverId) {
        if self.answered.len() == ANSWERED_MAX
            && let Some(oldest) = self.answered.pop_front()
        {
            self.calls.remove(&oldest);
        }
        self.calls.insert((key.clone(), call), Some(handover));
        self.answered.push_back((key, call));
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

    /// Takes note of a cancellation: returns what of the latest call it is about, or remembers it for a request that is
    /// yet to come.
    pub fn cancel(&mut self, key: RequestKey) -> Option<Cancelled> {
        let all = (key.clone(), CallId(0))..=(key.clone(), CallId(u64::MAX));
        if let Some((&(_, call), &handover)) = self.calls.range(all).next_back() {
            self.calls.remove(&(key, call));
            let Some(handover) = handover else {
                return Some(Cancelled::Wait(call));
            };
            self.answered.retain(|(_, other)| *other != call);
            return Some(Cancelled::Handover(handover));
        }
        if self.early.insert(key.clone()) {
            if self.early_order.len() == EARLY_MAX
                && let Some(oldest) = self.early_order.pop_front()
            {
                self.early.remove(&oldest);
            }
            self.early_order.push_back(key);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(name: &str) -> Scope {
        Scope::Named(name.into())
    }

    fn key(name: &str, id: &str) -> RequestKey {
        RequestKey::of_json(&scope(name), id).expect("an id")
    }

    fn was_cancelled(requests: &mut Requests, name: &str, id: &str) -> bool {
        requests.was_cancelled(Some(Request::Json(&scope(name), id)))
    }

    #[test]
    fn a_cancellation_finds_the_latest_call_of_its_scope_and_id_once() {
        let mut requests = Requests::default();
        requests.answer(key("a", "1"), CallId(10), HandoverId(10));
        requests.answer(key("b", "1"), CallId(11), HandoverId(11));
        requests.answer(key("a", "1"), CallId(12), HandoverId(12));
        assert_eq!(
            requests.cancel(key("a", "1")),
            Some(Cancelled::Handover(HandoverId(12)))
        );
        assert_eq!(
            requests.cancel(key("a", "1")),
            Some(Cancelled::Handover(HandoverId(10)))
        );
        assert_eq!(requests.cancel(key("b", "\"1\"")), None, "a text is not a number");
        assert_eq!(
            requests.cancel(key("b", "1")),
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
        assert_eq!(requests.cancel(key("a", "1")), None);
        assert_eq!(requests.cancel(key("a", "1")), None, "twice is once");
        assert!(!was_cancelled(&mut requests, "b", "1"));
        assert!(was_cancelled(&mut requests, "a", "1"));
        assert!(!was_cancelled(&mut requests, "a", "1"));
        assert!(requests.early_order.is_empty());
    }

    #[test]
    fn of_answered_calls_the_oldest_is_forgotten_at_the_bound_and_of_parked_ones_none() {
        let mut requests = Requests::default();
        let request = scope("parked");
        let parked = requests.park(Some(Request::Json(&request, "0")), CallId(1_000_000));
        for call in 0..=ANSWERED_MAX as u64 {
            requests.answer(key("a", &call.to_string()), CallId(call), HandoverId(call));
        }
        assert_eq!(requests.calls.len(), ANSWERED_MAX + 1);
        assert_eq!(requests.cancel(key("a", "0")), None);
        assert_eq!(
            requests.cancel(key("a", "1")),
            Some(Cancelled::Handover(HandoverId(1)))
        );
        assert_eq!(
            requests.cancel(key("parked", "0")),
            Some(Cancelled::Wait(CallId(1_000_000)))
        );
        assert_eq!(parked, Some(key("parked", "0")));
    }

    #[test]
    fn of_early_cancellations_the_oldest_is_forgotten_at_the_bound() {
        let mut requests = Requests::default();
        for id in 0..=EARLY_MAX {
            assert_eq!(requests.cancel(key("a", &id.to_string())), None);
        }
        assert!(!was_cancelled(&mut requests, "a", "0"));
        assert!(was_cancelled(&mut requests, "a", "1"));
    }

    #[test]
    fn an_early_cancellation_that_comes_again_and_again_takes_one_place() {
        let mut requests = Requests::default();
        requests.cancel(key("a", "1"));
        for _ in 0..EARLY_MAX {
            assert_eq!(requests.cancel(key("a", "2")), None);
        }
        assert!(was_cancelled(&mut requests, "a", "1"));
    }

    #[test]
    fn a_forgotten_call_is_not_found() {
        let mut requests = Requests::default();
        let name = scope("a");
        let key = requests
            .park(Some(Request::Json(&name, "1")), CallId(5))
            .expect("an id");
        requests.forget(key.clone(), CallId(5));
        assert_eq!(requests.cancel(key), None);
    }
}

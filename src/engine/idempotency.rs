//! Posts that are sent again because their answer was lost: one that carries the same key as before adds nothing, and gets the first
//! answer. A key is its sender's own.
//!
//! Of what was posted, no more is kept than a digest: whether a post says the same as the first one is all that is asked.

use std::collections::{BTreeMap, VecDeque};

use sha2::{Digest as _, Sha256};

use super::Engine;
use super::address::Warning;
use super::handling::{Handling, Mode};
use super::limits::{IDEMPOTENCY_KEY_BYTES_MAX, IDEMPOTENCY_MS};
use super::mail::{PostOptions, Refusal, Reply};
use super::message::{Kind, Message};
use super::names::{AgentName, MessageId, Recipient, shown};
use super::time::Timestamp;

/// What a post says, but for how long its call waits: SHA-256 of all of it, each part with its length before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Fingerprint([u8; 32]);

/// A post that has a key, on its way.
pub(super) struct Keyed {
    key: String,
    fingerprint: Fingerprint,
}

impl Keyed {
    /// Reads the key of a post; none if it has none.
    pub fn of(
        to: &str,
        kind: Kind,
        body: &str,
        options: Option<&PostOptions>,
    ) -> Result<Option<Self>, Refusal> {
        let Some(PostOptions {
            thread,
            reply_to,
            metadata,
            await_ms: _,
            room: _,
            idempotency_key: Some(key),
            handling,
        }) = options
        else {
            return Ok(None);
        };
        if !(1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) {
            let given = shown(key);
            return Err(Refusal::InvalidKey { given });
        }
        let mut digest = Sha256::new();
        let parts = [Some(to), Some(kind.as_str()), Some(body)];
        let options = [thread, reply_to, metadata].map(Option::as_deref);
        let Handling {
            mode,
            priority,
            deadline,
        } = handling;
        let deadline = deadline.map(|at| at.to_string());
        let handling = [
            mode.map(Mode::as_str),
            Some(priority.as_str()),
            deadline.as_deref(),
        ];
        for part in parts.into_iter().chain(options).chain(handling) {
            digest.update([u8::from(part.is_some())]);
            let part = part.unwrap_or_default();
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        Ok(Some(Self {
            key: key.clone(),
            fingerprint: Fingerprint(digest.finalize().into()),
        }))
    }
}

/// A post that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct First {
    at: Timestamp,
    /// When that was by the clock that people read.
    ts: Timestamp,
    fingerprint: Fingerprint,
    id: MessageId,
    given: Box<str>,
    to: Recipient,
    thread: Option<Box<str>>,
    warnings: Box<[Warning]>,
}

impl First {
    fn is_over(&self, now: Timestamp) -> bool {
        self.at.plus_millis(IDEMPOTENCY_MS) <= now
    }
}

/// The posts that had a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Idempotency {
    /// By sender and key, as a list where state is written as text.
    #[cfg_attr(feature = "serde", serde(with = "as_list"))]
    posts: BTreeMap<(AgentName, String), First>,
    /// Their keys, oldest first.
    order: VecDeque<(AgentName, String)>,
}

impl Idempotency {
    /// Forgets what a sender that is gone has posted.
    pub fn forget(&mut self, sender: &AgentName) {
        self.order.retain(|(other, _)| other != sender);
        self.posts.retain(|(other, _), _| other != sender);
    }

    /// Tells whether no more is kept than a bound, and all of it in order, for the invariants.
    pub fn is_bounded(&self, posts_max: usize) -> bool {
        let at = |name: &(AgentName, String)| self.posts.get(name).map(|first| first.at);
        let times: Vec<Option<Timestamp>> = self.order.iter().map(at).collect();
        self.posts.len() <= posts_max
            && self.posts.len() == self.order.len()
            && times.iter().all(Option::is_some)
            && times.is_sorted()
    }
}

impl Engine {
    /// Finds the answer to the first post of a key; none if there was none, or it is forgotten.
    pub(super) fn first_answer(
        &self,
        sender: &AgentName,
        keyed: &Keyed,
        now: Timestamp,
    ) -> Result<Option<Reply>, Refusal> {
        let posts = &self.idempotency.posts;
        let first = posts.get(&(sender.clone(), keyed.key.clone()));
        let Some(first) = first.filter(|first| !first.is_over(now)) else {
            return Ok(None);
        };
        if first.fingerprint != keyed.fingerprint {
            let key = shown(&keyed.key);
            return Err(Refusal::OtherContent { key });
        }
        let warnings = first.warnings.iter().cloned();
        Ok(Some(Reply::Posted {
            id: first.id,
            given: first.given.clone(),
            to: first.to.clone(),
            ts: first.ts,
            thread: first.thread.clone(),
            warnings: warnings.chain([Warning::Repeated]).collect(),
            absence: None,
        }))
    }

    /// Keeps the answer to a post for whoever sends it again.
    pub(super) fn keep_answer(
        &mut self,
        message: &Message,
        keyed: Keyed,
        (given, warnings): (&str, &[Warning]),
        now: Timestamp,
    ) {
        let posts_max = self.bounds.idempotency_max;
        let kept = &mut self.idempotency;
        while let Some(oldest) = kept.order.front()
            && (kept.order.len() >= posts_max || kept.posts[oldest].is_over(now))
        {
            let oldest = kept.order.pop_front().expect("it is the first");
            kept.posts.remove(&oldest);
        }
        if posts_max == 0 {
            return;
        }
        let name = (message.from.clone(), keyed.key);
        kept.order.push_back(name.clone());
        let first = First {
            at: now,
            ts: message.ts,
            fingerprint: keyed.fingerprint,
            id: message.id,
            given: given.into(),
            to: message.to.clone(),
            thread: message.thread().map(Box::from),
            warnings: warnings.into(),
        };
        let before = kept.posts.insert(name, first);
        assert!(
            before.is_none(),
            "a key that is still known is not used for another post"
        );
    }
}

/// A map whose keys are no texts, as a list of pairs.
#[cfg(feature = "serde")]
mod as_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::{AgentName, First};

    type Posts = BTreeMap<(AgentName, String), First>;

    pub fn serialize<S: Serializer>(posts: &Posts, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(posts)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Posts, D::Error> {
        let list: Vec<((AgentName, String), First)> = Vec::deserialize(deserializer)?;
        Ok(list.into_iter().collect())
    }
}

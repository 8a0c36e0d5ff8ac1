//! How many times agents take turns in a thread, as far as the clients can know.
//!
//! relay counts on from the latest message that the sender got of the thread, and not where it was the sender's own. The clients know
//! which messages that may be: all of the thread that were sent to it, but those that were certainly there before one that it had
//! certainly read.

use std::collections::{BTreeMap, BTreeSet};

use relay::engine::limits::{RECENT_BYTES_MAX, RECENT_MAX};

use super::team::{NEVER_MS, Span};
use super::{Case, Showing, Verdict, before, broken, describe};
use crate::history::{Asked, Belongs, Outcome, Record, serial};

/// What a refusal says when there were too many turns.
const TOO_MANY: &str = "has gone back and forth";

/// What a refusal says of a message that cannot be answered, which no agent is told.
const UNKNOWN: &str = "unknown message";

/// How many times the senders have taken turns before a message.
#[derive(Debug, Clone, Copy)]
struct Turns {
    /// At least.
    least: u32,
    /// At the most; none if nobody can know.
    most: Option<u32>,
}

/// The messages of which one is the latest that a sender got of a thread.
struct Before<'a> {
    /// At least one of them is there, if nothing is forgotten.
    messages: Vec<&'a Record>,
    /// It may be that none of them is.
    maybe_none: bool,
    /// Nobody can know all of them.
    unsure: bool,
    /// The post may be outside of the thread: relay may not know what it answers, or that is outside of it.
    maybe_outside: bool,
}

/// What a message's thread is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread<'a> {
    /// By its name.
    Named(&'a str),
    /// By the body of its first message.
    Begun(&'a str),
}

impl<'a> Case<'a> {
    /// No message is accepted after more turns than there may be, and none is refused after fewer.
    pub(super) fn turns_are_counted_to_their_limit(&self) -> Verdict {
        let limit = self.plan.params.hops_max;
        let mut posts: Vec<&Record> = self.posts.values().copied().collect();
        posts.sort_by_key(|post| post.sent_ms);
        let mut known = BTreeMap::new();
        let mut outside = BTreeSet::new();
        for post in posts {
            let before = self.before_in_thread(post, &outside);
            if before.as_ref().is_some_and(|before| before.maybe_outside) {
                outside.insert(body(post));
            }
            let turns = count(post, before.as_ref(), &known);
            known.insert(body(post), turns);
            let (what, Turns { least, most }) = (serial(body(post)), turns);
            match &post.outcome {
                Outcome::Refused(text) if text.contains(TOO_MANY) => {
                    if most.is_some_and(|most| most <= limit) {
                        let post = describe(post);
                        return broken(format!(
                            "{what} is refused in {post}, after {most:?} turns of {limit}"
                        ));
                    }
                    let says = [format!("{limit} times; stop"), "ask a person".to_owned()];
                    if let Some(missing) = says.iter().find(|words| !text.contains(*words)) {
                        return broken(format!("{what} is refused without {missing:?}: {text}"));
                    }
                }
                Outcome::Refused(text) if text.contains(UNKNOWN) => {
                    let post = describe(post);
                    return broken(format!(
                        "{what} is refused in {post}, though what is not known any more is answered all the same"
                    ));
                }
                Outcome::Refused(_) => {}
                Outcome::Posted(_)
                | Outcome::Messages { .. }
                | Outcome::Pending(_)
                | Outcome::Grouped
                | Outcome::Greeted { .. }
                | Outcome::Tools(_)
                | Outcome::Unknown(_) => {
                    if least > limit && self.accepted_by(post) < NEVER_MS {
                        let post = describe(post);
                        return broken(format!(
                            "{what} is accepted in {post}, after {least} turns of {limit}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds what a post may be counted on from; none if it belongs to nothing. Some of what went before may be outside of its thread.
    fn before_in_thread(&self, post: &'a Record, outside: &BTreeSet<&str>) -> Option<Before<'a>> {
        let thread = self.thread(post)?;
        let from = sender(post);
        let span = Span {
            from_ms: post.sent_ms,
            until_ms: self.accepted_by(post),
        };
        let got = self.posts.values().copied().filter(|other| {
            let in_thread = self.thread(other) == Some(thread);
            in_thread && !std::ptr::eq(*other, post) && self.may_have_got(from, other, span)
        });
        let got: Vec<&Record> = got.collect();
        let answered = match belongs(post) {
            Belongs::Answer(answered) => self.posts.get(answered.as_str()).copied(),
            Belongs::Nothing | Belongs::Thread(_) => None,
        };
        let has_read = |other: &&Record| self.has_in_mind(from, other, span);
        let read = got.iter().copied().filter(has_read);
        let read = read.filter(|read| !outside.contains(body(read)));
        let latest = answered.or_else(|| read.max_by_key(|read| read.sent_ms));
        let sure = latest.filter(has_read);
        let is_later = |other: &&Record| {
            let there = sure.map(|sure| sure.sent_ms);
            there.is_none_or(|there| !before(self.accepted_by(other), there))
        };
        let mut messages: Vec<&Record> = got.into_iter().filter(is_later).collect();
        messages.extend(answered);
        // Of two that are sent at once, either may come first.
        let crosses = messages.iter().any(|other| other.sent_ms >= post.sent_ms);
        let is_answer = matches!(belongs(post), Belongs::Answer(_));
        let is_outside = |answered: &Record| outside.contains(body(answered));
        Some(Before {
            maybe_outside: is_answer && (sure.is_none() || answered.is_none_or(is_outside)),
            maybe_none: answered.is_none() && sure.is_none(),
            unsure: crosses || span.until_ms >= NEVER_MS || (answered.is_some() && sure.is_none()),
            messages,
        })
    }

    /// Returns what a message's thread is known by; none if it belongs to none.
    fn thread(&self, post: &'a Record) -> Option<Thread<'a>> {
        match belongs(post) {
            Belongs::Nothing => None,
            Belongs::Thread(name) => Some(Thread::Named(name)),
            Belongs::Answer(answered) => {
                let begun = Thread::Begun(answered);
                let before = self.posts.get(answered.as_str()).copied();
                Some(before.and_then(|before| self.thread(before)).unwrap_or(begun))
            }
        }
    }

    /// Returns until when a message was accepted, if it was; later than any run if nobody knows that it was.
    fn accepted_by(&self, post: &Record) -> u64 {
        match post.outcome {
            Outcome::Unknown(_) => {
                let inboxes = self.meant[body(post)].possible.iter();
                let showings = inboxes.filter_map(|of| self.showings.get(&(body(post), of.as_str())));
                let first = showings.flatten().map(|showing| showing.read.ended_ms).min();
                first.unwrap_or(NEVER_MS)
            }
            Outcome::Posted(_)
            | Outcome::Messages { .. }
            | Outcome::Pending(_)
            | Outcome::Grouped
            | Outcome::Greeted { .. }
            | Outcome::Tools(_)
            | Outcome::Refused(_) => post.ended_ms,
        }
    }

    /// Tells whether a message may have been in somebody's inbox before a span was over.
    fn may_have_got(&self, of: &str, post: &Record, span: Span) -> bool {
        self.meant[body(post)].possible.contains(of) && self.may_be_done_before(post, span)
    }

    /// Tells whether somebody had certainly read a message before a span, and relay has it in mind in all of it.
    pub(super) fn has_in_mind(&self, of: &str, post: &Record, span: Span) -> bool {
        // Who reads what is not meant for it is another law's.
        let is_meant = self.meant[body(post)].possible.contains(of);
        let Some(showings) = self.showings.get(&(body(post), of)).filter(|_| is_meant) else {
            return false;
        };
        let Some(first) = showings
            .iter()
            .find(|showing| before(showing.read.ended_ms, span.from_ms))
        else {
            return false;
        };
        let was_read_before = |other: &&Record| {
            let showings = self
                .showings
                .get(&(body(other), of))
                .map_or(&[][..], Vec::as_slice);
            // What came again, or was in doubt still, has been kept in mind since.
            let is_settled = |showing: &Showing<'_>| {
                let confirmed_ms = self.confirmed_ms(showing.read);
                confirmed_ms.is_some_and(|at_ms| before(at_ms, first.read.sent_ms))
            };
            !showings.is_empty() && showings.iter().all(is_settled)
        };
        let since = self
            .posts
            .values()
            .copied()
            .filter(|other| self.may_have_got(of, other, span) && !was_read_before(other));
        let since: Vec<&str> = since.map(body).collect();
        let bytes: usize = since.iter().map(|body| body.len()).sum();
        self.is_done_before(post, span) && since.len() <= RECENT_MAX / 2 && bytes <= RECENT_BYTES_MAX / 2
    }
}

/// Counts the turns before a post.
fn count(post: &Record, before: Option<&Before<'_>>, known: &BTreeMap<&str, Turns>) -> Turns {
    let none = Turns {
        least: 0,
        most: Some(0),
    };
    let Some(before) = before else {
        return none;
    };
    let unknown = Turns { least: 0, most: None };
    if before.unsure {
        return unknown;
    }
    let from = sender(post);
    let after = before.messages.iter().map(|other| {
        let turns = known.get(body(other)).copied().unwrap_or(unknown);
        let turn = u32::from(sender(other) != from);
        Turns {
            least: turns.least + turn,
            most: turns.most.map(|most| most + turn),
        }
    });
    let all: Vec<Turns> = after.chain(before.maybe_none.then_some(none)).collect();
    Turns {
        least: all.iter().map(|turns| turns.least).min().unwrap_or(0),
        most: all
            .iter()
            .map(|turns| turns.most)
            .try_fold(0, |most, turns| Some(most.max(turns?))),
    }
}

/// Tells whether a post says what it belongs to.
pub(super) fn belongs_somewhere(post: &Record) -> bool {
    matches!(&post.asked, Asked::Post { belongs, .. } if *belongs != Belongs::Nothing)
}

/// Tells whether a post was refused for what it belongs to.
pub(super) fn is_about_turns(text: &str) -> bool {
    text.contains(TOO_MANY) || text.contains(UNKNOWN)
}

fn sender(post: &Record) -> &str {
    let Asked::Post { from, .. } = &post.asked else {
        unreachable!("posts are posts");
    };
    from
}

fn body(post: &Record) -> &str {
    let Asked::Post { body, .. } = &post.asked else {
        unreachable!("posts are posts");
    };
    body
}

fn belongs(post: &Record) -> &Belongs {
    let Asked::Post { belongs, .. } = &post.asked else {
        unreachable!("posts are posts");
    };
    belongs
}

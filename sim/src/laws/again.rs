//! What an agent asks for once more, behind a message that it names as the last that it has seen.

use std::collections::BTreeSet;

use super::asks::filter;
use super::takeover::FENCED;
use super::team::{NEVER_MS, Span};
use super::{Case, Showing, Verdict, before, broken, describe, is_unknown, seen_in};
use crate::history::{Asked, Outcome, Record, serial};

impl<'a> Case<'a> {
    /// Returns the reads of an inbox that may have been carried out in a span, and named a message.
    pub(super) fn askers(&self, of: &str, span: Span) -> impl Iterator<Item = &'a Record> {
        let reads = self.reads.get(of).into_iter().flatten().copied();
        reads.filter(move |read| {
            let own = Span::of(read);
            let may_be_done = match &read.outcome {
                // It may have waited before that.
                Outcome::Refused(text) => text.contains(FENCED),
                Outcome::Posted(_)
                | Outcome::Messages { .. }
                | Outcome::Pending(_)
                | Outcome::Grouped
                | Outcome::Greeted { .. }
                | Outcome::Tools(_)
                | Outcome::Unknown(_) => true,
            };
            filter(read).after.is_some()
                && may_be_done
                && own.from_ms <= span.until_ms
                && own.until_ms >= span.from_ms
        })
    }

    /// Tells whether a read may have brought a message again: it was handed over behind the one that the read names, as far as is known.
    pub(super) fn may_bring(&self, asker: &Record, of: &str, body: &str) -> bool {
        let (Some(named), Some(shown)) = (self.last_seen(asker, of), self.showings.get(&(body, of))) else {
            return false;
        };
        named.iter().any(|last| {
            shown
                .iter()
                .any(|shown| match std::ptr::eq(last.read, shown.read) {
                    true => stands_behind(last, shown),
                    false => !before(shown.read.ended_ms, last.read.sent_ms),
                })
        })
    }

    /// Finds where the message was shown that a read names.
    fn last_seen<'b>(&'b self, asker: &Record, of: &'b str) -> Option<&'b [Showing<'b>]> {
        let id = filter(asker).after.as_ref()?;
        let body = self.bodies.get(id.as_str())?;
        self.showings.get(&(*body, of)).map(Vec::as_slice)
    }

    /// Tells whether a message that was shown in a read may have come again in another one since somebody asked for it.
    pub(super) fn may_have_been_asked_for(
        &self,
        of: &str,
        body: &str,
        first: &Record,
        later: &Record,
    ) -> bool {
        let mut askers = self.askers(of, between(first, later));
        askers.any(|asker| self.may_bring(asker, of, body))
    }

    /// Tells whether another agent of an inbox may have confirmed a read's answer: it named a message that it had been shown before, and that
    /// was in that answer once more.
    pub(super) fn is_confirmed_by_another_agent(&self, read: &Record) -> bool {
        let Asked::Read { of, .. } = &read.asked else {
            return false;
        };
        let since = Span {
            from_ms: read.sent_ms,
            until_ms: NEVER_MS,
        };
        let until_then = Span {
            from_ms: 0,
            until_ms: read.ended_ms,
        };
        let mut others = self.askers(of, since).filter(|asker| asker.agent != read.agent);
        others.any(|asker| {
            let shown = self.last_seen(asker, of).unwrap_or_default();
            let mut own = shown.iter().filter(|shown| shown.read.agent == asker.agent);
            own.any(|shown| {
                let mut brought = self.askers(of, until_then);
                shown.read.sent_ms <= read.ended_ms
                    && brought.any(|other| {
                        other.sent_ms <= asker.ended_ms && self.may_bring(other, of, &shown.seen.body)
                    })
            })
        })
    }

    /// What is behind a message that is named comes, if it was handed over behind that and relay has it in mind.
    pub(super) fn what_is_asked_for_behind_a_message_comes(&self) -> Verdict {
        // A small inbox may have no room for it.
        if self.plan.params.inbox_messages_max < 10_000 {
            return Ok(());
        }
        for (of, reads) in &self.reads {
            let answered = |read: &&&Record| matches!(read.outcome, Outcome::Messages { .. });
            for asker in reads.iter().filter(answered) {
                for last in self.last_seen(asker, of).into_iter().flatten() {
                    let shown = reads.iter().flat_map(|read| seen_in(read));
                    let bodies: BTreeSet<&str> = shown.map(|seen| &*seen.body).collect();
                    let missing = bodies.into_iter().find(|body| {
                        let showings = &self.showings[&(*body, *of)];
                        let mut behind = showings.iter().filter(|shown| comes_behind(last, shown));
                        behind.any(|shown| self.is_to_come(asker, of, [last, shown]))
                            && !self.comes(asker, of, showings)
                    });
                    if let Some(body) = missing {
                        let (what, by) = (serial(body), describe(asker));
                        return broken(format!("{what}, asked for again in {by}, never came"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells whether a read certainly has one message come again that was shown behind another one.
    fn is_to_come(&self, asker: &Record, of: &str, shown: [&Showing<'_>; 2]) -> bool {
        let is_known = |shown: &&Showing<'_>| {
            let post = self.posts.get(shown.seen.body.as_str());
            shown.seen.part.is_none()
                && before(shown.read.ended_ms, asker.sent_ms)
                && self.confirmed_ms(shown.read).is_some()
                && post.is_some_and(|post| self.has_in_mind(of, post, Span::of(asker)))
        };
        let is_brought_by = |other: &Record| {
            let mut bodies = shown.iter().map(|shown| shown.seen.body.as_str());
            bodies.any(|body| self.may_bring(other, of, body))
        };
        let first = shown[0].read;
        let others = self.askers(of, between(first, asker));
        let mut others = others.filter(|other| !std::ptr::eq(*other, asker));
        shown.iter().all(is_known)
            && self.boots(first.sent_ms, asker.ended_ms).count() == 1
            && !others.any(is_brought_by)
    }

    /// Tells whether a message was shown since a read asked for it, or may have been lost.
    fn comes(&self, asker: &Record, of: &str, showings: &[Showing<'_>]) -> bool {
        let mut since = showings
            .iter()
            .filter(|showing| !before(showing.read.ended_ms, asker.sent_ms));
        let mut boots = self.boots(asker.sent_ms, asker.ended_ms);
        since.next().is_some()
            || boots.any(|boot| boot.until_ms.is_some())
            || self.excuse_of_inbox(of).is_some()
    }

    /// Tells whether a read was refused for the message that it names, and relay may not remember that.
    pub(super) fn may_be_forgotten(&self, read: &Record, text: &str) -> bool {
        let (Asked::Read { of, .. }, Some(id)) = (&read.asked, &filter(read).after) else {
            return false;
        };
        let is_remembered = |shown: &Showing<'_>| {
            let same_life = self.boots(shown.read.sent_ms, read.ended_ms).count() == 1;
            let post = self.posts.get(shown.seen.body.as_str());
            let in_mind = |post: &&Record| self.has_in_mind(of, post, Span::of(read));
            same_life && before(shown.read.ended_ms, read.sent_ms) && post.is_some_and(in_mind)
        };
        let named = self.last_seen(read, of).unwrap_or_default();
        text.contains(&format!("after is {id:?}")) && !named.iter().any(is_remembered)
    }

    /// A message that came again since one was named does not do so once more by that.
    pub(super) fn what_was_asked_for_comes_once(&self) -> Verdict {
        for ((body, of), showings) in &self.showings {
            for (at, first) in showings.iter().enumerate() {
                let Some(second) = self.next_after_its_confirmation(first, &showings[at..]) else {
                    continue;
                };
                let Some(third) = self.next_after_its_confirmation(second, &showings[at..]) else {
                    continue;
                };
                let askers = self.askers(of, between(first.read, third.read));
                let named: BTreeSet<_> = askers.map(|asker| &filter(asker).after).collect();
                if named.len() == 1 {
                    let (what, reads) = (
                        serial(body),
                        [first, second, third].map(|shown| describe(shown.read)),
                    );
                    return broken(format!(
                        "{what} was read in {reads:?}, and one message alone was named meanwhile"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Finds where a message was shown again when it was known to have arrived.
    fn next_after_its_confirmation<'s>(
        &self,
        first: &Showing<'_>,
        showings: &'s [Showing<'a>],
    ) -> Option<&'s Showing<'a>> {
        let confirmed_ms = self
            .confirmed_ms(first.read)
            .filter(|_| first.seen.part.is_none())?;
        let mut later = showings.iter();
        later.find(|later| before(confirmed_ms, later.read.sent_ms))
    }
}

/// From when a read was sent until another one had ended.
pub(super) fn between(first: &Record, later: &Record) -> Span {
    Span {
        from_ms: first.sent_ms,
        until_ms: if is_unknown(later) {
            NEVER_MS
        } else {
            later.ended_ms
        },
    }
}

/// Tells whether one message was certainly handed over behind another one.
fn comes_behind(first: &Showing<'_>, other: &Showing<'_>) -> bool {
    match std::ptr::eq(first.read, other.read) {
        true => stands_behind(first, other),
        false => before(first.read.ended_ms, other.read.sent_ms),
    }
}

/// Tells whether one message of a reply stands behind another one.
fn stands_behind(first: &Showing<'_>, other: &Showing<'_>) -> bool {
    let place = |showing: &Showing<'_>| {
        let mut seen = seen_in(showing.read).iter();
        seen.position(|seen| std::ptr::eq(seen, showing.seen))
    };
    place(first) < place(other)
}

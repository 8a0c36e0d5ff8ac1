//! What a read may show, how often, in which order, and what it must not leave out.

use std::collections::BTreeSet;

use super::asks::filter;
use super::team::is_name;
use super::{Case, Showing, Verdict, before, broken, describe, is_unknown, overlaps, seen_in};
use crate::history::{Asked, Outcome, Record, Seen, serial};

impl Case<'_> {
    /// Whatever is read was posted so, to this agent, and within one life of the server.
    pub(super) fn nothing_from_thin_air(&self) -> Verdict {
        for Showing { seen, read } in self.showings.values().flatten() {
            let Some(post) = self.posts.get(seen.body.as_str()) else {
                return broken(format!(
                    "{:?} was never posted; {}",
                    serial(&seen.body),
                    describe(read)
                ));
            };
            let Asked::Post { from, kind, .. } = &post.asked else {
                unreachable!("posts are posts");
            };
            let Asked::Read { of, .. } = &read.asked else {
                unreachable!("reads are reads");
            };
            let to = self.address(post);
            // Another law says whether it may be read there, under whatever name.
            let strays = is_name(to) && of != to && self.crosses(post, of);
            let same_to = seen.to.is_empty() || to == seen.to || strays;
            let same = *from == seen.from && same_to && kind.as_str() == seen.kind;
            let is_meant = of == to || !is_name(to) || strays;
            if !same || !is_meant {
                return broken(format!(
                    "{seen:?} was read for {of}, but posted as {:?}",
                    post.asked
                ));
            }
            match &post.outcome {
                Outcome::Posted(id) if *id == seen.id || id.is_empty() || seen.id.is_empty() => {}
                Outcome::Unknown(_) => {}
                other @ (Outcome::Posted(_)
                | Outcome::Messages { .. }
                | Outcome::Pending(_)
                | Outcome::Grouped
                | Outcome::Greeted { .. }
                | Outcome::Tools(_)
                | Outcome::Refused(_)) => {
                    return broken(format!(
                        "{} was read, but its post ended with {other:?}",
                        serial(&seen.body)
                    ));
                }
            }
            let until = if is_unknown(post) {
                read.ended_ms
            } else {
                post.ended_ms
            };
            let mut boots = self.boots(post.sent_ms, until);
            if !boots.any(|boot| overlaps(boot, read.sent_ms, read.ended_ms)) {
                return broken(format!(
                    "{} was read after the server that had it was gone",
                    serial(&seen.body)
                ));
            }
        }
        Ok(())
    }

    pub(super) fn a_message_is_shown_twice_only_if_marked(&self) -> Verdict {
        for showings in self.showings.values() {
            let mut replies = BTreeSet::new();
            for (at, Showing { seen, read }) in showings.iter().enumerate() {
                if !replies.insert(std::ptr::from_ref(*read) as usize) {
                    return broken(format!(
                        "{} stands twice in {}",
                        serial(&seen.body),
                        describe(read)
                    ));
                }
                if at > 0 && !seen.redelivered && before(showings[at - 1].read.ended_ms, read.sent_ms) {
                    return broken(format!(
                        "{} was shown again, unmarked, in {}",
                        serial(&seen.body),
                        describe(read)
                    ));
                }
            }
            let unmarked = showings
                .iter()
                .filter(|showing| !showing.seen.redelivered)
                .count();
            if unmarked > 1 {
                return broken(format!(
                    "{} was shown {unmarked} times unmarked",
                    serial(&showings[0].seen.body)
                ));
            }
            let Showing { seen, read } = &showings[0];
            // Of what was shown in parts, the first may have been shown before, and its reply undone, or to another session.
            let is_new = seen.part.is_none() && unmarked == 0 && !self.was_begun(seen, read);
            if seen.redelivered && is_new && !self.may_have_been_in_doubt(read) {
                return broken(format!(
                    "{} is marked, but no reply before can have held it",
                    serial(&seen.body)
                ));
            }
        }
        Ok(())
    }

    /// Tells whether a part of a message was shown before a read had ended.
    fn was_begun(&self, seen: &Seen, read: &Record) -> bool {
        let Asked::Read { of, .. } = &read.asked else {
            return false;
        };
        let began = |name: &String| {
            let first = self.history.parts.get(&(of.clone(), name.clone(), 1));
            let mut first = first.into_iter().flatten();
            first.any(|part| part.ended_ms <= read.ended_ms && seen.body.starts_with(&part.body))
        };
        began(&seen.id) || began(&seen.from)
    }

    /// Tells whether another read of the same role may have had the same messages before.
    fn may_have_been_in_doubt(&self, read: &Record) -> bool {
        let Asked::Read { of, .. } = &read.asked else {
            return false;
        };
        let others = self.reads[of.as_str()]
            .iter()
            .filter(|other| !std::ptr::eq(**other, read));
        others
            .into_iter()
            .any(|other| is_unknown(other) && !before(read.ended_ms, other.sent_ms))
    }

    pub(super) fn what_is_confirmed_never_comes_back(&self) -> Verdict {
        for ((body, of), showings) in &self.showings {
            // Of what was shown in parts, another reply may be undone still.
            for first in showings.iter().filter(|first| first.seen.part.is_none()) {
                let Some(confirmed_ms) = self.confirmed_ms(first.read) else {
                    continue;
                };
                let asked_for =
                    |other: &Showing<'_>| self.may_have_been_asked_for(of, body, first.read, other.read);
                let later = showings
                    .iter()
                    .find(|other| before(confirmed_ms, other.read.sent_ms) && !asked_for(other));
                if let Some(later) = later {
                    let (what, again) = (serial(&first.seen.body), describe(later.read));
                    let read = describe(first.read);
                    return broken(format!(
                        "{what}, read in {read}, was confirmed by {confirmed_ms} ms, but came back in {again}"
                    ));
                }
            }
        }
        Ok(())
    }

    pub(super) fn a_reply_is_in_the_order_of_acceptance(&self) -> Verdict {
        for read in self.reads.values().flatten() {
            let mut latest_sent_ms = 0;
            for seen in seen_in(read) {
                // One that nobody posted is another law's.
                let Some(post) = self.posts.get(seen.body.as_str()) else {
                    continue;
                };
                if !is_unknown(post) && before(post.ended_ms, latest_sent_ms) {
                    let what = serial(&seen.body);
                    return broken(format!(
                        "{what} stands behind one that was sent after it was accepted, in {}",
                        describe(read)
                    ));
                }
                latest_sent_ms = latest_sent_ms.max(post.sent_ms);
            }
        }
        Ok(())
    }

    /// A message that no reply had before is not shown after one that was sent when it was already accepted.
    pub(super) fn no_message_overtakes_another(&self) -> Verdict {
        for reads in self.reads.values() {
            for later in reads {
                let plain = seen_in(later).iter().filter(|seen| !seen.redelivered);
                for seen in plain {
                    // One that nobody posted is another law's.
                    let Some(post) = self.posts.get(seen.body.as_str()) else {
                        continue;
                    };
                    let boots: Vec<_> = self.boots(post.sent_ms, later.ended_ms).collect();
                    if is_unknown(post) || boots.len() != 1 {
                        continue;
                    }
                    let earlier = reads
                        .iter()
                        .filter(|earlier| before(earlier.ended_ms, later.sent_ms))
                        .filter(|earlier| filter(earlier).answers.is_none() && self.fits(earlier, post));
                    let newer = earlier.flat_map(|earlier| seen_in(earlier)).find(|other| {
                        let sent_later = |newer: &&Record| before(post.ended_ms, newer.sent_ms);
                        !other.redelivered && self.posts.get(other.body.as_str()).is_some_and(sent_later)
                    });
                    if let Some(newer) = newer {
                        let (slow, quick) = (serial(&seen.body), serial(&newer.body));
                        return broken(format!(
                            "{quick} was read before {slow}, which was accepted before it was sent"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// A read shows all that was accepted before it, unless another read has it.
    pub(super) fn nothing_is_hidden_from_a_read(&self) -> Verdict {
        for (role, reads) in &self.reads {
            let unknown: Vec<_> = reads.iter().filter(|read| is_unknown(read)).collect();
            let to_role = self.posts.values().filter(|post| self.address(post) == *role);
            let accepted: Vec<_> = to_role
                .filter_map(|post| match &post.outcome {
                    Outcome::Posted(_) => Some(*post),
                    Outcome::Messages { .. }
                    | Outcome::Pending(_)
                    | Outcome::Grouped
                    | Outcome::Greeted { .. }
                    | Outcome::Tools(_)
                    | Outcome::Refused(_)
                    | Outcome::Unknown(_) => None,
                })
                .collect();
            for read in reads.iter().filter(|read| {
                matches!(read.outcome, Outcome::Messages { is_cut: false, .. })
                    && !has_all_that_it_asked_for(read)
                    && filter(read).answers.is_none()
            }) {
                for post in accepted.iter().filter(|post| self.fits(read, post)) {
                    let Asked::Post { body, .. } = &post.asked else {
                        unreachable!("posts are posts")
                    };
                    let accepted_before = before(post.ended_ms, read.sent_ms);
                    if !accepted_before || self.boots(post.sent_ms, read.ended_ms).count() != 1 {
                        continue;
                    }
                    let shown = self
                        .showings
                        .get(&(body.as_str(), *role))
                        .map_or(&[][..], Vec::as_slice);
                    let has_it = shown
                        .iter()
                        .any(|showing| !before(read.ended_ms, showing.read.sent_ms));
                    let may_have_it = |other: &&&&Record| {
                        let taken_note = other.cancelled_ms.is_some_and(|at| before(at, post.sent_ms));
                        !before(read.ended_ms, other.sent_ms) && !taken_note
                    };
                    if !has_it && unknown.iter().find(may_have_it).is_none() {
                        return broken(format!(
                            "{}, accepted at {} ms, is missing in {}",
                            serial(body),
                            post.ended_ms,
                            describe(read)
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Tells whether a read was answered with as many messages as it asked for.
fn has_all_that_it_asked_for(read: &Record) -> bool {
    matches!(read.asked, Asked::Read { limit: Some(limit), .. } if seen_in(read).len() >= limit)
}

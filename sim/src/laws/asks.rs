//! Calls that wait for an answer, reads that ask for some messages alone, and waits that are to be the only ones.

use super::{Case, SKEW_MS, Verdict, before, broken, describe, is_unknown, seen_in};
use crate::history::{Asked, Filter, Outcome, Record, serial};
use crate::plan::projects::{project_of, whole};

impl<'a> Case<'a> {
    /// Finds the post that a read waits for the answer to.
    pub(super) fn question(&self, read: &Record) -> Option<&'a Record> {
        let Asked::Read { filter, .. } = &read.asked else {
            return None;
        };
        self.posts.get(filter.answers.as_deref()?).copied()
    }

    /// Finds the read that waits for the answer to a post.
    pub(super) fn answer_to(&self, post: &Record) -> Option<&'a Record> {
        let Asked::Post { from, body, .. } = &post.asked else {
            return None;
        };
        let reads = self.reads.get(from.as_str())?;
        let answers = |read: &&&Record| filter(read).answers.as_ref() == Some(body);
        reads.iter().find(answers).copied()
    }

    /// Tells whether two records are the halves of one call, which posts and waits for the answer.
    pub(super) fn are_one_call(&self, one: &Record, other: &Record) -> bool {
        let is_half = |post: &Record, read: &Record| {
            self.question(read)
                .is_some_and(|question| std::ptr::eq(question, post))
        };
        is_half(one, other) || is_half(other, one)
    }

    /// A call that asks gets what one of those whom it asked has sent since, and no other call reads that while it waits.
    pub(super) fn an_awaited_answer_goes_to_who_asked(&self) -> Verdict {
        for read in self.reads.values().flatten() {
            let (Some(question), Asked::Read { of, wait_ms, .. }) = (self.question(read), &read.asked) else {
                continue;
            };
            let Asked::Post { body, .. } = &question.asked else {
                unreachable!("posts are posts");
            };
            let asked = &self.meant[body.as_str()];
            for seen in seen_in(read) {
                let what = serial(&seen.body);
                if !asked.possible.contains(&seen.from) {
                    return broken(format!(
                        "{what} of {} answered {}, who had asked {:?}",
                        seen.from,
                        describe(read),
                        asked.possible
                    ));
                }
                let early =
                    |answer: &&Record| !is_unknown(answer) && before(answer.ended_ms, question.sent_ms);
                if self.posts.get(seen.body.as_str()).is_some_and(early) {
                    return broken(format!(
                        "{what} answered {}, but was there before the question",
                        describe(read)
                    ));
                }
            }
            let Some(waits) = surely_waits(read, *wait_ms) else {
                continue;
            };
            for (answer_body, answer) in &self.posts {
                let Asked::Post { from, .. } = &answer.asked else {
                    unreachable!("posts are posts");
                };
                let meanwhile = answer.sent_ms >= waits.0 && answer.ended_ms <= waits.1;
                if is_unknown(answer) || !meanwhile || !asked.certain.contains(from) {
                    continue;
                }
                let showings = self.showings.get(&(*answer_body, of.as_str()));
                let first = showings.and_then(|showings| showings.first());
                let other = first
                    .filter(|showing| !showing.seen.redelivered && filter(showing.read).answers.is_none());
                if let Some(other) = other {
                    let (what, by) = (serial(answer_body), describe(other.read));
                    return broken(format!(
                        "{what} was read in {by}, though {} waited for it",
                        describe(read)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Tells whether a post is among what a read asks for, as far as it names a sender or a channel.
    pub(super) fn fits(&self, read: &Record, post: &Record) -> bool {
        let (Asked::Read { of, filter, .. }, Asked::Post { from, body, .. }) = (&read.asked, &post.asked)
        else {
            unreachable!("reads are reads, and posts are posts");
        };
        let is = |only: &Option<String>, this: &str| {
            only.as_ref()
                .is_none_or(|only| whole(project_of(of), only) == this)
        };
        is(&filter.from, from) && is(&filter.channel, &self.addresses[body.as_str()])
    }

    /// What a read for some messages alone shows is among them, and no more than it asked for.
    pub(super) fn a_read_shows_what_it_asked_for(&self) -> Verdict {
        for read in self.reads.values().flatten() {
            let shown = seen_in(read);
            if let Asked::Read {
                limit: Some(limit), ..
            } = read.asked
                && shown.len() > limit
            {
                let count = shown.len();
                return broken(format!("{} asked for {limit}, got {count}", describe(read)));
            }
            for seen in shown {
                let post = self.posts.get(seen.body.as_str());
                if post.is_some_and(|post| !self.fits(read, post)) {
                    let what = serial(&seen.body);
                    return broken(format!(
                        "{what} of {} was shown in {}, which asked for {:?}",
                        seen.from,
                        describe(read),
                        filter(read)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Of the waits that are refused where another one waits, no two wait for one inbox.
    pub(super) fn one_call_alone_waits_for_an_inbox(&self) -> Verdict {
        for reads in self.reads.values() {
            let waits: Vec<_> = reads
                .iter()
                .filter(|read| waits_alone(read))
                .filter_map(|read| Some((read, surely_waits(read, wait_ms(read))?)))
                .collect();
            for (one, span) in &waits {
                let arrived = |other: &Record| {
                    let on_its_way_ms = 6 * self.plan.params.latency_ms_max + 100 + self.bridge_ms(other);
                    // What was sent together over one connection is carried out one by one.
                    let alone = self.wait_up_to_ms(other) <= wait_ms(other);
                    let until_ms = other.ended_ms.min(other.sent_ms + on_its_way_ms);
                    (alone && self.is_calm(other)).then_some((other.sent_ms, until_ms))
                };
                let beside = reads.iter().find(|other| {
                    let in_vain = waits.iter().find(|(wait, _)| std::ptr::eq(**wait, **other));
                    let overlaps = |(_, other): &(&&Record, (u64, u64))| other.0 < span.1 && span.0 < other.1;
                    let within = |other: (u64, u64)| span.0 < other.0 && other.1 < span.1;
                    let let_in = matches!(other.outcome, Outcome::Messages { .. })
                        && waits_alone(other)
                        && arrived(other).is_some_and(within);
                    !std::ptr::eq(**other, **one) && (let_in || in_vain.is_some_and(overlaps))
                });
                if let Some(other) = beside {
                    let (one, other) = (describe(one), describe(other));
                    return broken(format!("{other} was let in while {one} waited"));
                }
            }
        }
        Ok(())
    }
}

/// Returns which messages a read asked for.
pub(super) fn filter(read: &Record) -> &Filter {
    let Asked::Read { filter, .. } = &read.asked else {
        unreachable!("reads are reads");
    };
    filter
}

/// Returns from when until when a call was certainly parked that waited for nothing, to its end; none if it did not.
fn surely_waits(read: &Record, wait_ms: u64) -> Option<(u64, u64)> {
    let in_vain = matches!(&read.outcome, Outcome::Messages { seen, notice, is_cut } if seen.is_empty() && notice.is_none() && !is_cut);
    let from_ms = (read.ended_ms + SKEW_MS + 1).checked_sub(wait_ms)?;
    let until_ms = (read.sent_ms + wait_ms).checked_sub(SKEW_MS + 1)?;
    (in_vain && read.ended_ms >= read.sent_ms + wait_ms && from_ms < until_ms).then_some((from_ms, until_ms))
}

/// Tells whether a read waits, and is refused where another one does.
fn waits_alone(read: &Record) -> bool {
    matches!(
        &read.asked,
        Asked::Read {
            wait_ms: 1..,
            limit: Some(_),
            filter: Filter { answers: None, .. },
            ..
        }
    )
}

/// For how long a call waits at the most, in milliseconds.
pub(super) fn wait_ms(call: &Record) -> u64 {
    match call.asked {
        Asked::Read { wait_ms, .. } => wait_ms,
        Asked::Post { .. }
        | Asked::Pending { .. }
        | Asked::Group(_)
        | Asked::Illegal(_)
        | Asked::Greeting(_)
        | Asked::Tools => 0,
    }
}

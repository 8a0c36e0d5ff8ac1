//! Agents that a later instance has taken over.

use relay::engine::limits::DOUBT_MS;

use super::team::{NEVER_MS, Span, is_the_engines};
use super::{Case, SKEW_MS, Verdict, before, broken, describe, is_unknown, seen_in};
use crate::history::{Asked, Outcome, Record, serial};
use crate::plan::Transport;

/// What a refusal says to an instance that was taken over.
pub(super) const FENCED: &str = "was taken over by a session that began later";

impl Case<'_> {
    /// Tells whether an agent's client may have been taken over by then.
    pub(super) fn may_be_fenced(&self, agent: usize, until_ms: u64) -> bool {
        let later = self.plan.agents.iter().filter_map(|agent| agent.mate);
        self.mate(agent).is_some_and(|own| {
            later
                .filter(|later| later.number == own.number && later.instance > own.instance)
                .any(|later| !before(until_ms.min(NEVER_MS), later.starts_ms))
        })
    }

    /// Finds the calls by which an agent's client was certainly taken over.
    fn later_instances(&self, agent: usize) -> Vec<&Record> {
        let Some(own) = self.mate(agent) else {
            return Vec::new();
        };
        let is_later = |call: &&Record| {
            let other = self.mate(call.agent);
            other.is_some_and(|other| other.number == own.number && other.instance > own.instance)
        };
        let calls = self.history.calls.iter().filter(is_later);
        calls.filter(|call| is_the_engines(call)).collect()
    }

    /// Once a later instance had an answer, the one before reads nothing, changes nothing, and is told why.
    pub(super) fn who_was_taken_over_gets_nothing_any_more(&self) -> Verdict {
        for (agent, _) in self.plan.agents.iter().enumerate() {
            let later = self.later_instances(agent);
            let own = self.history.calls.iter().filter(|call| call.agent == agent);
            let answered = own
                .filter(|call| !is_unknown(call) && !matches!(call.asked, Asked::Greeting(_) | Asked::Tools));
            for call in answered {
                let refused = matches!(&call.outcome, Outcome::Refused(text) if text.contains(FENCED));
                if refused {
                    continue;
                }
                if later
                    .iter()
                    .any(|later| self.is_done_before(later, Span::of(call)))
                {
                    let outcome = &call.outcome;
                    return broken(format!(
                        "{} had been taken over, but ended with {outcome:?}",
                        describe(call)
                    ));
                }
                for seen in seen_in(call) {
                    let Some(post) = self.posts.get(seen.body.as_str()) else {
                        continue;
                    };
                    if later
                        .iter()
                        .any(|later| self.is_done_before(later, Span::of(post)))
                    {
                        let what = serial(&seen.body);
                        return broken(format!(
                            "{what} was sent when {} had been taken over",
                            describe(call)
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// What an instance has read and not confirmed when it is taken over comes again.
    pub(super) fn what_is_taken_over_comes_again(&self) -> Verdict {
        for read in self
            .reads
            .values()
            .flatten()
            .filter(|read| !seen_in(read).is_empty())
        {
            let Asked::Read { of, .. } = &read.asked else {
                unreachable!("reads are reads");
            };
            let later = self.later_instances(read.agent);
            let taken_over = later
                .iter()
                .find(|later| self.is_in_doubt_until(read, later.ended_ms));
            let Some(taken_over) = taken_over else {
                continue;
            };
            for seen in seen_in(read) {
                let shown = &self.showings[&(seen.body.as_str(), of.as_str())];
                let again = shown.iter().any(|other| {
                    other.read.agent != read.agent && !before(other.read.ended_ms, read.sent_ms)
                });
                if !again && self.excuse_of_inbox(of).is_none() {
                    let (what, read, by) = (serial(&seen.body), describe(read), describe(taken_over));
                    return broken(format!(
                        "{what}, in doubt in {read}, was taken over by {by}, but never came again"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Tells whether what a read was answered with cannot have been confirmed by then, in a server that was never killed later.
    fn is_in_doubt_until(&self, read: &Record, until_ms: u64) -> bool {
        let Some(incarnation) = read.incarnation else {
            return false;
        };
        let kept = matches!(self.transport(read.agent), Transport::Sse | Transport::Http);
        let (_, closed_ms) = self.history.connections[incarnation.0];
        let is_open = closed_ms.is_none_or(|at| before(until_ms, at));
        let in_time = before(until_ms + 1_000, read.ended_ms + DOUBT_MS.unsigned_abs());
        let other = |call: &&Record| {
            call.agent == read.agent
                && !std::ptr::eq(*call, read)
                && call.ended_ms + SKEW_MS >= read.sent_ms
                && call.sent_ms <= until_ms + SKEW_MS
        };
        let killed = self
            .boots(read.sent_ms, NEVER_MS)
            .any(|boot| boot.until_ms.is_some());
        let is_alone = self.history.calls.iter().find(other).is_none();
        kept && is_open && in_time && is_alone && !killed && !before(until_ms, read.ended_ms)
    }
}

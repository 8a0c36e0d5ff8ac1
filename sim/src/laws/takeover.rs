//! Agents that a later instance has taken over.

use super::team::{NEVER_MS, Span, is_the_engines};
use super::{Case, Verdict, before, broken, describe, is_unknown, seen_in};
use crate::history::{Asked, Outcome, Record, serial};

/// What a refusal says to an instance that was taken over.
pub const FENCED: &str = "was taken over by a session that began later";

impl Case<'_> {
    /// Tells whether an agent's client may have been taken over by then.
    pub(super) fn may_be_fenced(&self, agent: usize, until_ms: u64) -> bool {
        let later = self.plan.agents.iter().filter_map(|agent| agent.mate);
        self.mate(agent).is_some_and(|own| {
            later
                .filter(|later| later.is(own) && later.instance > own.instance)
                .any(|later| !before(until_ms.min(NEVER_MS), later.starts_ms))
        })
    }

    /// Tells whether the client of a later instance of an agent had called by then: that may have come before its call did.
    pub(super) fn has_later_instance(&self, agent: usize, by_ms: u64) -> bool {
        self.of_later_instances(agent).any(|call| call.sent_ms <= by_ms)
    }

    /// Finds the calls by which an agent's client was certainly taken over.
    fn later_instances(&self, agent: usize) -> Vec<&Record> {
        let calls = self.of_later_instances(agent);
        calls.filter(|call| is_the_engines(call)).collect()
    }

    /// Returns the calls of an agent's later instances.
    fn of_later_instances(&self, agent: usize) -> impl Iterator<Item = &Record> {
        let own = self.mate(agent);
        self.history.calls.iter().filter(move |call| {
            let both = own.zip(self.mate(call.agent));
            both.is_some_and(|(own, other)| other.is(own) && other.instance > own.instance)
        })
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
}

//! Where something begins or ends: starts of the server, sessions, the run itself, and what was lost on the way.

use std::collections::BTreeMap;

use relay::engine::limits::DOUBT_MS;

use super::again::between;
use super::team::is_name;
use super::{Case, Report, SKEW_MS, Verdict, before, broken, describe, is_unknown};
use crate::agent::role;
use crate::history::{Asked, BootRecord, Outcome, Record, TOLD, serial};
use crate::plan::team::Mate;
use crate::plan::{AgentPlan, Fault, FaultKind, Transport};

/// Why relay may count an answer as read that its client did not see (docs/CONTRACT.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excuse {
    /// Its session over HTTP+SSE made another call while it waited for the answer.
    ParallelCall,
    /// The client threw the answer away, and the network kept its cancellation from relay until the doubt was over.
    LateCancellation,
    /// The client was gone with the answer unread in its kernel, and the network kept its end from relay.
    UnseenEnd,
}

/// What became of an accepted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A client read it.
    Read,
    /// The server was killed before.
    LostByRestart,
    /// See [`Excuse::ParallelCall`].
    LostByParallelCall,
    /// See [`Excuse::LateCancellation`].
    LostByLateCancellation,
    /// See [`Excuse::UnseenEnd`].
    LostByUnseenEnd,
    /// For no reason.
    Lost,
}

impl Case<'_> {
    pub(super) fn a_start_is_told_once_to_each_role(&self) -> Verdict {
        let text = |boot: &BootRecord| {
            format!(
                "relay started at {}; nothing sent before that is here; send again what was not acknowledged",
                boot.started_at
            )
        };
        let mut calls: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
        for call in &self.history.calls {
            if let Some(told) = &call.notice
                && !self
                    .boots(call.sent_ms, call.ended_ms)
                    .any(|boot| text(boot) == *told)
            {
                return broken(format!("{} says {told:?}, which no start is", describe(call)));
            }
            if let Some(role) = self.speaks_for(call) {
                calls.entry(role).or_default().push(call);
            }
        }
        for (role, calls) in &calls {
            for boot in &self.history.boots {
                let expected = text(boot);
                let told: Vec<_> = calls
                    .iter()
                    .filter(|call| call.notice.as_ref() == Some(&expected))
                    .collect();
                let had_session = self.had_session(role, calls, boot);
                if let Some(first) = told.first().filter(|_| had_session == Some(false)) {
                    let first = describe(first);
                    return broken(format!(
                        "{role} had no session before the start of which it was told in {first}"
                    ));
                }
                for first in &told {
                    let confirmed_ms = self.confirmed_ms(first);
                    // Who names a message of an earlier reply has not seen this one, whoever has.
                    let is_undone =
                        |later: &Record| self.askers(role, between(first, later)).next().is_some();
                    let again = told.iter().find(|later| {
                        confirmed_ms.is_some_and(|at| before(at, later.sent_ms)) && !is_undone(later)
                    });
                    if let Some(again) = again {
                        let (first, again) = (describe(first), describe(again));
                        return broken(format!("{role} was told in {first} and again in {again}"));
                    }
                }
                if had_session != Some(true) {
                    continue;
                }
                let until_ms = boot.until_ms.unwrap_or(u64::MAX);
                let within =
                    |call: &&&Record| before(boot.from_ms, call.sent_ms) && before(call.ended_ms, until_ms);
                let alone = |call: &&&Record| {
                    let early = |other: &&&Record| {
                        !before(call.ended_ms, other.sent_ms) && !before(other.ended_ms, boot.from_ms)
                    };
                    calls.iter().filter(early).count() == 1
                };
                let answered = |call: &&&Record| is_answered(call);
                let first = calls.iter().filter(within).find(alone).filter(answered);
                if let Some(first) = first.filter(|first| first.notice.is_none()) {
                    let first = describe(first);
                    return broken(format!(
                        "the first answer to {role}, in {first}, does not tell of the start"
                    ));
                }
                let excused = calls
                    .iter()
                    .any(|call| is_unknown(call) && self.excuse(call).is_some());
                let answered_at_all = calls.iter().filter(within).any(|call| answered(&call));
                if boot.until_ms.is_none() && told.is_empty() && !excused && answered_at_all {
                    return broken(format!("nobody was told of the last start for {role}"));
                }
            }
        }
        Ok(())
    }

    /// Finds out for whom a call speaks, whose answer may tell of the start.
    fn speaks_for(&self, call: &Record) -> Option<String> {
        match &call.asked {
            Asked::Post { from: of, .. } | Asked::Read { of, .. } | Asked::Pending { of } => Some(of.clone()),
            Asked::Group(_) => self.mate(call.agent).map(Mate::name),
            Asked::Illegal(_) | Asked::Greeting(_) | Asked::Tools => None,
        }
    }

    /// Tells whether somebody certainly had a session before a start that the server knew of, or certainly had none; nothing if
    /// neither is certain.
    fn had_session(&self, name: &str, calls: &[&Record], boot: &BootRecord) -> Option<bool> {
        if !self.history.notes_agents {
            return Some(true);
        }
        if boot.from_ms == self.history.boots[0].from_ms {
            return Some(false);
        }
        let is_transient = self
            .plan
            .agents
            .iter()
            .any(|agent| agent.mate.is_some_and(|mate| mate.name() == name));
        let shows = |call: &Record| match &call.outcome {
            Outcome::Posted(_) => true,
            Outcome::Messages { seen, .. } => call.bound || !seen.is_empty(),
            Outcome::Pending(_) => call.bound,
            Outcome::Grouped
            | Outcome::Greeted { .. }
            | Outcome::Tools(_)
            | Outcome::Refused(_)
            | Outcome::Unknown(_) => false,
        };
        let mut earlier = calls.iter().filter(|call| call.sent_ms < boot.from_ms);
        if !is_transient
            && earlier
                .clone()
                .any(|call| before(call.ended_ms, boot.from_ms) && shows(call))
        {
            return Some(true);
        }
        let is_bound = |agent: &AgentPlan| agent.bound && role(agent.role) == name;
        let has_session = is_transient || self.plan.agents.iter().any(is_bound);
        (earlier.next().is_none() && !has_session).then_some(false)
    }

    pub(super) fn no_session_is_left_over(&self) -> Verdict {
        // turmoil does not repeat a lost FIN, so a server behind a cut never hears of some ends.
        let cut =
            |kind: FaultKind| !matches!(kind, FaultKind::Crash | FaultKind::Stop | FaultKind::Hold { .. });
        if self.plan.faults.iter().any(|fault| cut(fault.kind)) {
            return Ok(());
        }
        match self.history.sessions_at_end {
            None | Some(1) => Ok(()),
            Some(count) => broken(format!("{count} are open when all clients but one are gone")),
        }
    }

    pub(super) fn the_end_is_reached(&self) -> Verdict {
        if self.history.drained {
            return Ok(());
        }
        let last = self.history.calls.last().map(describe).unwrap_or_default();
        broken(format!(
            "the inboxes could not be drained; the last call was {last}"
        ))
    }

    pub(super) fn nothing_is_lost_without_a_reason(&self) -> Verdict {
        for post in self.posts.values() {
            let Asked::Post { body, .. } = &post.asked else {
                unreachable!("posts are posts");
            };
            let to = self.address(post);
            if is_name(to) && self.fate(post, to) == Some(Fate::Lost) {
                let (what, post) = (serial(body), describe(post));
                return broken(format!("{what} for {to}, accepted in {post}, was never read"));
            }
        }
        Ok(())
    }

    /// Counts what the run came to.
    pub(super) fn report(&self) -> Report {
        let calls = &self.history.calls;
        let showings = self.showings.values().flatten();
        let mut report = Report {
            calls: calls.len() as u64,
            unknown: calls.iter().filter(|call| is_unknown(call)).count() as u64,
            attempted: self.posts.len() as u64,
            redelivered: showings.filter(|showing| showing.seen.redelivered).count() as u64,
            ..Report::default()
        };
        let copies = self.meant.iter().flat_map(|(body, meant)| {
            let post = self.posts[body];
            meant.certain.iter().filter_map(|to| self.fate(post, to))
        });
        for fate in copies {
            report.accepted += 1;
            match fate {
                Fate::Read => report.delivered += 1,
                Fate::LostByRestart => report.lost_by_restart += 1,
                Fate::LostByParallelCall => report.lost_by_parallel_call += 1,
                Fate::LostByLateCancellation => report.lost_by_late_cancellation += 1,
                Fate::LostByUnseenEnd => report.lost_by_unseen_end += 1,
                Fate::Lost => {}
            }
        }
        report
    }

    /// Finds what became of somebody's copy of a post; none if it was not accepted.
    fn fate(&self, post: &Record, to: &str) -> Option<Fate> {
        let (Outcome::Posted(_), Asked::Post { body, .. }) = (&post.outcome, &post.asked) else {
            return None;
        };
        if self.showings.contains_key(&(body.as_str(), to)) {
            return Some(Fate::Read);
        }
        if self
            .boots(post.sent_ms, post.ended_ms)
            .any(|boot| boot.until_ms.is_some())
        {
            return Some(Fate::LostByRestart);
        }
        Some(match self.excuse_of_inbox(to) {
            Some(Excuse::ParallelCall) => Fate::LostByParallelCall,
            Some(Excuse::LateCancellation) => Fate::LostByLateCancellation,
            Some(Excuse::UnseenEnd) => Fate::LostByUnseenEnd,
            None => Fate::Lost,
        })
    }

    /// Returns why relay may count as read what nobody saw of an inbox.
    pub(super) fn excuse_of_inbox(&self, of: &str) -> Option<Excuse> {
        let reads = self.reads.get(of).into_iter().flatten();
        let mut unknown = reads.filter(|read| is_unknown(read));
        unknown.find_map(|read| self.excuse(read))
    }

    /// Returns why relay may count a read's answer as read that its client did not see.
    fn excuse(&self, read: &Record) -> Option<Excuse> {
        // It took nothing, as its client was told.
        if read.outcome == Outcome::Unknown(TOLD) {
            return None;
        }
        if self.is_confirmed_by_a_parallel_call(read) || self.is_confirmed_by_another_agent(read) {
            return Some(Excuse::ParallelCall);
        }
        let late = read
            .cancelled_ms
            .is_none_or(|at| at > read.sent_ms + DOUBT_MS.unsigned_abs());
        let thrown_away = read.outcome == Outcome::Unknown("cancelled") && !self.plan.faults.is_empty();
        if thrown_away && late {
            return Some(Excuse::LateCancellation);
        }
        // turmoil sends the news of an end once.
        let unseen = |fault: &Fault| match fault.kind {
            FaultKind::Partition { on } | FaultKind::LoseRequests { on } => {
                let begun = fault.at_ms <= read.ended_ms + self.plan.params.latency_ms_max + SKEW_MS;
                let there = self
                    .plan
                    .agents
                    .get(read.agent)
                    .is_some_and(|agent| agent.on == on);
                there && begun && read.ended_ms <= fault.at_ms + fault.for_ms + SKEW_MS
            }
            FaultKind::Hold { .. }
            | FaultKind::LoseReplies { .. }
            | FaultKind::BoxCrash { .. }
            | FaultKind::Crash
            | FaultKind::Stop => false,
        };
        // An agent on stdio may also die because of what it was not told, and its bridge had read the answer.
        let stdio = self.transport(read.agent) == Transport::Stdio && is_unknown(read);
        let gone = stdio || read.outcome == Outcome::Unknown("given up");
        (gone && self.plan.faults.iter().any(unseen)).then_some(Excuse::UnseenEnd)
    }
}

/// Tells whether a call was carried out, and its client has seen what came of it.
fn is_answered(call: &Record) -> bool {
    matches!(
        call.outcome,
        Outcome::Posted(_) | Outcome::Messages { .. } | Outcome::Pending(_) | Outcome::Grouped
    )
}

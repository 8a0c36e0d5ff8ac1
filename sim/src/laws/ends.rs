//! Where something begins or ends: starts of the server, sessions, the run itself, and what was lost on the way.

use relay::engine::limits::DOUBT_MS;

use super::{Case, Report, Verdict, Violation, before, broken, describe, is_unknown};
use crate::history::{Asked, BootRecord, Outcome, Record, serial};
use crate::plan::{FaultKind, Transport};

/// Why relay may count an answer as read that its client did not see (docs/CONTRACT.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excuse {
    /// Its session over HTTP+SSE made another call while it waited for the answer.
    ParallelCall,
    /// The client threw the answer away, and the network kept its cancellation from relay until the doubt was over.
    LateCancellation,
}

impl<'a> Case<'a> {
    pub(super) fn a_start_is_told_once_to_each_role(&self) -> Verdict {
        const LAW: &str = "a start is told once to each role";
        let notice = |read: &'a Record| match &read.outcome {
            Outcome::Messages { notice, .. } => notice.as_deref(),
            Outcome::Posted(_) | Outcome::Pending(_) | Outcome::Refused(_) | Outcome::Unknown(_) => None,
        };
        let text = |boot: &BootRecord| {
            format!(
                "relay started at {}; nothing sent before that is here; send again what was not acknowledged",
                boot.started_at
            )
        };
        for read in self.reads.values().flatten() {
            let Some(told) = notice(read) else { continue };
            if !self
                .boots(read.sent_ms, read.ended_ms)
                .any(|boot| text(boot) == told)
            {
                return broken(
                    LAW,
                    format!("{} says {told:?}, which no start is", describe(read)),
                );
            }
        }
        for (role, reads) in &self.reads {
            for boot in &self.history.boots {
                let expected = text(boot);
                let told: Vec<_> = reads
                    .iter()
                    .filter(|read| notice(read) == Some(&expected))
                    .collect();
                for first in &told {
                    let confirmed_ms = self.confirmed_ms(first);
                    let again = told
                        .iter()
                        .find(|later| confirmed_ms.is_some_and(|at| before(at, later.sent_ms)));
                    if let Some(again) = again {
                        let (first, again) = (describe(first), describe(again));
                        return broken(LAW, format!("{role} was told in {first} and again in {again}"));
                    }
                }
                let until_ms = boot.until_ms.unwrap_or(u64::MAX);
                let within =
                    |read: &&&Record| before(boot.from_ms, read.sent_ms) && before(read.ended_ms, until_ms);
                let alone = |read: &&&Record| {
                    let early = |other: &&&Record| {
                        !before(read.ended_ms, other.sent_ms) && !before(other.ended_ms, boot.from_ms)
                    };
                    reads.iter().filter(early).count() == 1
                };
                let answered = |read: &&&Record| matches!(read.outcome, Outcome::Messages { .. });
                let first = reads.iter().filter(within).find(alone).filter(answered);
                if let Some(first) = first.filter(|first| notice(first).is_none()) {
                    let first = describe(first);
                    return broken(
                        LAW,
                        format!("the first read of {role}, {first}, does not tell of the start"),
                    );
                }
                let excused = reads
                    .iter()
                    .any(|read| is_unknown(read) && self.excuse(read).is_some());
                let read_at_all = reads.iter().filter(within).any(|read| !is_unknown(read));
                if boot.until_ms.is_none() && told.is_empty() && !excused && read_at_all {
                    return broken(LAW, format!("nobody was told of the last start for {role}"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn no_session_is_left_over(&self) -> Verdict {
        // turmoil does not repeat a lost FIN, so a server behind a cut never hears of some ends.
        let cut = |kind: FaultKind| !matches!(kind, FaultKind::Crash | FaultKind::Hold { .. });
        if self.plan.faults.iter().any(|fault| cut(fault.kind)) {
            return Ok(());
        }
        match self.history.sessions_at_end {
            None | Some(1) => Ok(()),
            Some(count) => broken(
                "no session is left over",
                format!("{count} are open when all clients but one are gone"),
            ),
        }
    }

    pub(super) fn the_end_is_reached(&self) -> Verdict {
        if self.history.drained {
            return Ok(());
        }
        let last = self.history.calls.last().map(describe).unwrap_or_default();
        broken(
            "the end is reached",
            format!("the inboxes could not be drained; the last call was {last}"),
        )
    }

    pub(super) fn nothing_is_lost_without_a_reason(&self) -> Result<Report, Violation> {
        let mut report = Report {
            calls: self.history.calls.len() as u64,
            unknown: self.history.calls.iter().filter(|call| is_unknown(call)).count() as u64,
            attempted: self.posts.len() as u64,
            redelivered: self
                .showings
                .values()
                .flatten()
                .filter(|showing| showing.seen.redelivered)
                .count() as u64,
            ..Report::default()
        };
        for post in self.posts.values() {
            let Outcome::Posted(id) = &post.outcome else {
                continue;
            };
            report.accepted += 1;
            let Asked::Post { to, body, .. } = &post.asked else {
                unreachable!("posts are posts");
            };
            if self.showings.contains_key(id.as_str()) {
                report.delivered += 1;
                continue;
            }
            if self
                .boots(post.sent_ms, post.ended_ms)
                .any(|boot| boot.until_ms.is_some())
            {
                report.lost_by_restart += 1;
                continue;
            }
            let reads = self.reads.get(to.as_str()).into_iter().flatten();
            match reads
                .filter(|read| is_unknown(read))
                .find_map(|read| self.excuse(read))
            {
                Some(Excuse::ParallelCall) => report.lost_by_parallel_call += 1,
                Some(Excuse::LateCancellation) => report.lost_by_late_cancellation += 1,
                None => {
                    let law = "nothing is lost without a reason";
                    let (what, post) = (serial(body), describe(post));
                    return broken(
                        law,
                        format!("{what} for {to}, accepted in {post}, was never read"),
                    );
                }
            }
        }
        Ok(report)
    }

    /// Returns why relay may count a read's answer as read that its client did not see.
    fn excuse(&self, read: &Record) -> Option<Excuse> {
        if self.transport(read.agent) != Transport::Sse {
            return None;
        }
        let meanwhile = |call: &Record| {
            let overlaps = call.ended_ms >= read.sent_ms && call.sent_ms <= read.ended_ms;
            call.agent == read.agent && overlaps && !std::ptr::eq(call, read)
        };
        if self.history.calls.iter().any(meanwhile) {
            return Some(Excuse::ParallelCall);
        }
        let late = read
            .cancelled_ms
            .is_none_or(|at| at > read.sent_ms + DOUBT_MS.unsigned_abs());
        let thrown_away = read.outcome == Outcome::Unknown("cancelled") && !self.plan.faults.is_empty();
        (thrown_away && late).then_some(Excuse::LateCancellation)
    }
}

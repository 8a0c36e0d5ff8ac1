//! The ways to a call and back: handshakes, news of progress, and the orderly end of a server.

use super::{Case, SKEW_MS, Verdict, broken, describe};
use crate::client::STREAM_RETRY;
use crate::history::{Asked, Outcome, Record, TOLD};
use crate::plan::{Dialect, STOP_MS, Transport};

/// When relay first tells of progress, and how often after that, in milliseconds.
const PROGRESS_FIRST_MS: u64 = 1_000;
const PROGRESS_EVERY_MS: u64 = 10_000;

impl Case<'_> {
    pub(super) fn a_handshake_says_what_there_is(&self) -> Verdict {
        for record in &self.history.calls {
            let expected = match &record.asked {
                Asked::Greeting(version) => {
                    let agent = &self.plan.agents[record.agent];
                    Outcome::Greeted {
                        name: "relay".to_owned(),
                        version: (*version).to_owned(),
                        id: agent.transport != Transport::Sse && agent.dialect != Dialect::Modern,
                    }
                }
                Asked::Tools => {
                    let tools = ["post_message", "read_messages", "list_pending"];
                    Outcome::Tools(tools.map(str::to_owned).into())
                }
                Asked::Post { .. }
                | Asked::Read { .. }
                | Asked::Pending { .. }
                | Asked::Group(_)
                | Asked::Illegal(_) => {
                    continue;
                }
            };
            let unknown = matches!(record.outcome, Outcome::Unknown(_));
            if !unknown && record.outcome != expected {
                let got = &record.outcome;
                return broken(format!(
                    "{}: expected {expected:?}, got {got:?}",
                    describe(record)
                ));
            }
        }
        Ok(())
    }

    pub(super) fn progress_is_told_in_time_to_who_asked(&self) -> Verdict {
        if let Some(stray) = self.history.stray_progress.first() {
            return broken(format!("nobody asked for {stray}"));
        }
        for record in &self.history.calls {
            let Some(told_ms) = &record.told_ms else {
                continue;
            };
            let took_ms = record.ended_ms - record.sent_ms;
            // The first comes with the first second, and one more every ten.
            let ticks = |ms: u64| match ms.checked_sub(PROGRESS_FIRST_MS) {
                None => 0,
                Some(later) => 1 + later / PROGRESS_EVERY_MS,
            };
            let most = ticks(took_ms + SKEW_MS + 1) as usize;
            if told_ms.len() > most {
                let told = told_ms.len();
                return broken(format!(
                    "{} was told {told} times of its progress",
                    describe(record)
                ));
            }
            let slack_ms = 12 * self.plan.params.latency_ms_max + 700;
            let least = ticks(took_ms.saturating_sub(slack_ms)) as usize;
            let answered = matches!(record.outcome, Outcome::Messages { .. });
            if answered && self.is_calm(record) && told_ms.len() < least {
                let told = told_ms.len();
                return broken(format!(
                    "{} was told only {told} times of its progress",
                    describe(record)
                ));
            }
        }
        Ok(())
    }

    /// A server that is asked to end answers what waits, and ends.
    pub(super) fn an_orderly_stop_answers_what_waits(&self) -> Verdict {
        for stop in &self.history.stops {
            let asked_ms = stop.asked_ms;
            if stop.ended_ms.is_none_or(|at| at > asked_ms + STOP_MS) {
                return broken(format!(
                    "asked to end at {asked_ms} ms, the server had not ended by itself"
                ));
            }
            let unanswered = self
                .history
                .calls
                .iter()
                .find(|call| self.is_cut_off(call, asked_ms));
            if let Some(call) = unanswered {
                return broken(format!(
                    "{} was not answered by the stop at {asked_ms} ms",
                    describe(call)
                ));
            }
        }
        Ok(())
    }

    /// Tells whether a wait was parked when the server was asked to end, and has no answer.
    fn is_cut_off(&self, call: &Record, asked_ms: u64) -> bool {
        let Asked::Read { wait_ms, .. } = &call.asked else {
            return false;
        };
        // As long as it may take to connect and to be there.
        let on_its_way_ms = 6 * self.plan.params.latency_ms_max + 100;
        let parked = call.sent_ms + on_its_way_ms < asked_ms && call.sent_ms + wait_ms > asked_ms;
        // Under the same life of the server, in which a stream had the time to come back that was refused at first.
        let mut boots = self.boots(call.sent_ms, asked_ms);
        let back_ms = STREAM_RETRY.as_millis() as u64 + on_its_way_ms;
        let is_back = boots.next().is_some_and(|boot| boot.from_ms + back_ms < asked_ms);
        let same_life = is_back && boots.next().is_none();
        let lost = [
            "the connection broke",
            "the stream broke",
            "no answer in time",
            TOLD,
        ];
        let unanswered = matches!(call.outcome, Outcome::Unknown(why) if lost.contains(&why));
        // HTTP has the second of two requests that were written at once wait for the answer to the first.
        let behind = self.transport(call.agent) == Transport::Http
            && self
                .history
                .calls
                .iter()
                .any(|other| stands_before(other, call) && other.ended_ms >= asked_ms);
        // The stream of an instance is not let in again once a later one has come.
        let is_let_in =
            self.transport(call.agent) != Transport::Sse || !self.has_later_instance(call.agent, asked_ms);
        parked
            && same_life
            && unanswered
            && !behind
            && is_let_in
            && self.is_connected(call)
            && call.ended_ms > asked_ms
    }
}

/// Tells whether two requests were written at once over one connection, this one first: both were answered in that order, or none.
fn stands_before(first: &Record, second: &Record) -> bool {
    let at_once =
        (first.agent, first.incarnation, first.sent_ms) == (second.agent, second.incarnation, second.sent_ms);
    first.incarnation.is_some() && at_once && first.ended_ms < second.ended_ms
}

//! Waits over HTTP+SSE whose stream ended, while their clients went on waiting.

use super::{Case, SKEW_MS, Verdict, broken, describe};
use crate::history::Record;

/// How soon a client that came back is told, in milliseconds (docs/CONTRACT.md).
const TOLD_WITHIN_MS: u64 = 2_000;

impl Case<'_> {
    pub(super) fn a_wait_that_lost_its_stream_is_told_of(&self) -> Verdict {
        for record in &self.history.calls {
            for loss in &record.losses {
                let Some(opened_ms) = loss.opened_ms else {
                    continue;
                };
                let told_until_ms =
                    opened_ms + TOLD_WITHIN_MS + 2 * self.plan.params.latency_ms_max + 2 * SKEW_MS;
                if record.ended_ms > told_until_ms
                    && !self.is_disturbed_since_its_return(record, opened_ms, told_until_ms)
                    && !self.is_confirmed_by_a_parallel_call(record)
                {
                    return broken(format!(
                        "{} lost its stream at {} ms, had one again at {opened_ms} ms, and was not told by {told_until_ms} ms",
                        describe(record),
                        loss.broke_ms
                    ));
                }
            }
        }
        Ok(())
    }

    /// Tells whether something went wrong, between a client's return and when it must have been told, that may have kept the
    /// news from it.
    fn is_disturbed_since_its_return(&self, record: &Record, opened_ms: u64, until_ms: u64) -> bool {
        let from_ms = opened_ms.saturating_sub(self.plan.params.latency_ms_max + SKEW_MS);
        let meanwhile = |at_ms: u64| at_ms >= from_ms && at_ms <= until_ms;
        let lost_again = record.losses.iter().any(|loss| meanwhile(loss.broke_ms));
        // An orderly stop has answers of its own.
        let stopped = |at_ms: u64| at_ms >= record.sent_ms && at_ms <= until_ms;
        let stopped = self.history.stops.iter().any(|stop| stopped(stop.asked_ms));
        let mut ends = self.history.boots.iter().filter_map(|boot| boot.until_ms);
        lost_again || stopped || ends.any(meanwhile) || self.is_faulty(record.agent, from_ms, until_ms)
    }
}

//! What must hold of workers between any two inputs.

use std::collections::BTreeSet;

use super::super::Engine;
use super::super::limits::WORKER_DEPTH_MAX;
use super::super::names::{AgentName, MessageId, WorkerId};
use super::super::time::Timestamp;
use super::super::timers::Timer;
use super::Stage;

impl Engine {
    /// Panics with the broken law, if one is.
    pub(in super::super) fn check_workers(&self) {
        let workers = &self.workers;
        assert!(
            workers.all.len() <= self.bounds.workers_max,
            "no more workers live than the bound"
        );
        let living = workers.last.iter().filter(|(_, last)| last.ended.is_none());
        let living: BTreeSet<(WorkerId, &AgentName)> =
            living.map(|(agent, last)| (last.worker, agent)).collect();
        let all = workers.all.iter().map(|(id, worker)| (*id, &worker.agent));
        assert!(
            living == all.collect(),
            "at most one worker of a name lives, and it is the last one"
        );
        for (agent, last) in &workers.last {
            assert!(
                self.agents.contains_key(agent),
                "a worker is an agent that is there: {agent}"
            );
            assert!(
                (1..=WORKER_DEPTH_MAX).contains(&last.above.len()),
                "a worker has a parent, and no more above it than the bound: {agent}"
            );
            assert!(
                last.worker.0 <= workers.made,
                "a worker has a number that was drawn: {agent}"
            );
        }
        for worker in workers.all.values() {
            assert!(
                self.agents[&worker.agent].leaves_at.is_none(),
                "a worker that lives does not go: {}",
                worker.agent
            );
            assert!(
                !self.stopping || worker.stage == Stage::Ending,
                "while the relay stops each worker ends: {}",
                worker.agent
            );
        }
        for agent in &workers.leaving {
            let last = workers.last.get(agent);
            assert!(
                last.is_some_and(
                    |last| last.ended.is_some() || workers.all[&last.worker].stage == Stage::Ending
                ),
                "who was released ends, or has ended: {agent}"
            );
        }
        let calls = workers.all.values().filter_map(|worker| match worker.stage {
            Stage::Starting { call, .. } => call,
            Stage::Runs { .. } | Stage::Ending => None,
        });
        for (call, session) in calls {
            assert!(
                self.sessions.contains_key(&session) && !self.waits.contains_key(&call),
                "who waits for a worker has an open session, and waits for nothing else: {call:?}"
            );
        }
    }

    /// Tells whether a message that was sent to an agent by its name may be in another's inbox: there was a worker, and the agent, if it is
    /// still there, has it no more.
    pub(in super::super) fn was_handed_on(&self, message: MessageId, to: &str) -> bool {
        let inbox = self.inboxes.get(to);
        let waiting = inbox.into_iter().flat_map(|inbox| inbox.waiting());
        let handed = self.handovers.values().filter(|h| h.agent.as_str() == to);
        let handed = handed.flat_map(|h| h.deliveries.iter());
        let mut has = waiting.chain(handed);
        self.workers.made > 0 && has.all(|delivery| delivery.message.id != message)
    }

    /// Returns the timers that workers have.
    pub(in super::super) fn worker_timers(&self) -> impl Iterator<Item = (Timestamp, Timer)> {
        self.workers
            .all
            .iter()
            .filter_map(|(id, worker)| match worker.stage {
                Stage::Starting { until, .. } => Some((until, Timer::WorkerStarts(*id))),
                Stage::Runs { until, .. } => Some((until?, Timer::WorkerSilent(*id))),
                Stage::Ending => None,
            })
    }
}

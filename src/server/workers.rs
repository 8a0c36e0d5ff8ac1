//! Workers as processes: what the engine wants of them is passed on to whoever starts programs on this machine, and what that reports to the
//! engine. Which programs these are, and how they are run, is not known here.

use tokio::sync::mpsc::UnboundedReceiver;

use super::owner::{Owner, Wanted};
use super::sync::Arc;
use crate::engine::workers::{Happened, Start};
use crate::engine::{Input, WorkerId};

/// Starts processes, and ends them. Neither waits for anything: what becomes of a process is [reported](Reports::happened).
pub trait Starter: Send + Sync {
    /// Has a worker started, and its whole life reported by `reports`: that it runs, or was not started; and if it runs, how it has ended, once
    /// nothing of it runs any more. If it is to end before it has started, the last one of these is enough.
    fn start(&self, start: Start, reports: Reports);

    /// Has a worker end that was to be started before: its process is asked to, then made to, with all that it has started. Its end is
    /// reported as any is. Asked for once.
    fn end(&self, worker: WorkerId);
}

/// By which a [`Starter`] reports what becomes of a worker.
#[derive(Clone)]
pub struct Reports {
    owner: Arc<Owner>,
    worker: WorkerId,
}

impl Reports {
    /// Reports that something has happened. Never waits. What is reported behind the end changes nothing.
    pub fn happened(&self, happened: Happened) {
        let worker = self.worker;
        self.owner.report(Input::Worker { worker, happened });
    }
}

/// Starts nothing, and says so.
#[derive(Debug, Clone, Copy)]
pub struct NoStarter;

impl Starter for NoStarter {
    fn start(&self, _: Start, reports: Reports) {
        let reason = "this relay has nothing that starts programs".to_owned();
        reports.happened(Happened::FailedToStart { reason });
    }

    fn end(&self, _: WorkerId) {}
}

/// Passes on what is wanted, in order, for ever.
pub(super) async fn pass_on(
    owner: Arc<Owner>,
    mut wanted: UnboundedReceiver<Wanted>,
    starter: std::sync::Arc<dyn Starter>,
) {
    while let Some(wanted) = wanted.recv().await {
        match wanted {
            Wanted::Start(start) => {
                let (owner, worker) = (Arc::clone(&owner), start.worker);
                starter.start(*start, Reports { owner, worker });
            }
            Wanted::End(worker) => starter.end(worker),
        }
    }
}

//! What the engine wants done about workers, put where the task takes it up that has them started and ended: whoever holds the engine's lock
//! starts no process.

use tokio::sync::{mpsc, watch};

use super::Owner;
use crate::engine::WorkerId;
use crate::engine::workers::{Became, Start, Transition};

/// Something that is to be done about a worker.
#[derive(Debug)]
pub enum Wanted {
    /// It is to be started.
    Start(Box<Start>),
    /// It is to end.
    End(WorkerId),
}

/// Where what is wanted goes, and how many workers live.
#[derive(Default)]
pub(super) struct Wants {
    /// None until somebody takes it up, which is before anything is asked for.
    to: Option<mpsc::UnboundedSender<Wanted>>,
    living: watch::Sender<usize>,
}

impl Wants {
    pub fn start(&self, start: Box<Start>) {
        self.want(Wanted::Start(start));
    }

    pub fn end(&self, worker: WorkerId) {
        self.want(Wanted::End(worker));
    }

    fn want(&self, wanted: Wanted) {
        if let Some(to) = &self.to {
            let _ended = to.send(wanted);
        }
    }

    /// Counts those that live. The engine's bound is on how many that are, and so on what waits here.
    pub fn note(&self, transition: &Transition) {
        match &transition.became {
            Became::Asked { .. } => self.living.send_modify(|living| *living += 1),
            Became::Failed { .. } | Became::Exited { .. } => self.living.send_modify(|living| *living -= 1),
            Became::Started | Became::Ready | Became::Late | Became::Silent | Became::Released { .. } => {}
        }
    }
}

impl Owner {
    /// Has what is wanted about workers go to whoever asks for it, in order, and that one alone from now on.
    pub fn take_up_workers(&self) -> mpsc::UnboundedReceiver<Wanted> {
        let (sender, wanted) = mpsc::unbounded_channel();
        self.with(|state| state.workers.to = Some(sender));
        wanted
    }

    /// Waits until no worker lives.
    pub async fn without_workers(&self) {
        let mut living = self.with(|state| state.workers.living.subscribe());
        let _dropped = living.wait_for(|living| *living == 0).await;
    }
}

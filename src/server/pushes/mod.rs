//! Pushes: relay itself takes the deliveries of agents to the target of their node, one `POST` for each.
//!
//! A task serves each target in the place of a node's connection: the engine sends it frames, and it says of each what became of it.
//! It decides nothing about them: what is tried again, and when, and what is given up, is the engine's to say.

mod auth;
mod network;
mod post;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::network::{Network, Socket, System};
use self::target::AckMode;
pub use self::target::Target;
use super::Shared;
use super::limits::PUSHES_AT_ONCE_MAX;
use super::nodes::{PushBody, pushed_frame, pushed_invocation, pushed_news};
use super::owner::Outgoing;
use crate::engine::nodes::Said;
use crate::engine::{Ending, NodeId, Refusal, SessionId, Timestamp};

/// Whom relay pushes to, and how it reaches them.
pub struct Pushes {
    /// The hosts beside this machine that a target may be on.
    allowed: Vec<String>,
    network: Arc<dyn Network>,
    served: Mutex<BTreeMap<NodeId, Served>>,
}

/// A target that is served.
struct Served {
    target: Arc<Target>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Pushes {
    /// Serves nobody yet.
    pub fn new(allowed: Vec<String>, network: Arc<dyn Network>) -> Self {
        Self {
            allowed,
            network,
            served: Mutex::default(),
        }
    }

    /// Reads where to push and how.
    ///
    /// # Errors
    ///
    /// What is wrong, and what would be accepted.
    pub fn target(&self, delivery: Value) -> Result<Target, String> {
        Target::read(delivery, &self.allowed)
    }

    /// Returns the target of a node as it is shown, without its secrets; none if it has none.
    pub fn shown(&self, node: NodeId) -> Option<Value> {
        let served = self.served.lock().expect("nothing panics while it holds them");
        served.get(&node).map(|served| served.target.shown())
    }

    /// Returns how relay says who it is to the target of a node, as Agent Relay calls it.
    pub fn adapter(&self, node: NodeId) -> Option<&'static str> {
        let served = self.served.lock().expect("nothing panics while it holds them");
        served.get(&node).map(|served| served.target.adapter())
    }
}

impl Shared {
    /// Serves the target of a node from now on; the one before is served no more, and nothing is on its way to it.
    ///
    /// # Errors
    ///
    /// The engine's refusal: too many sessions are open. What was served is served as before.
    pub(super) fn push_to(self: &Arc<Self>, node: NodeId, target: Target) -> Result<(), Refusal> {
        let opened = self.owner.open_node(node)?;
        let target = Arc::new(target);
        let stop = self.stop.child_token();
        let mut served = self
            .pushes
            .served
            .lock()
            .expect("nothing panics while it holds them");
        let before = served.remove(&node);
        if let Some(before) = &before {
            before.stop.cancel();
        }
        let serving = serve(
            Arc::clone(self),
            opened,
            Arc::clone(&target),
            stop.clone(),
            before.map(|before| before.task),
        );
        let task = self.sockets.spawn(serving);
        served.insert(node, Served { target, stop, task });
        Ok(())
    }
}

/// Serves a target until it is stopped.
async fn serve(
    shared: Arc<Shared>,
    (session, mut outgoing): (SessionId, UnboundedReceiver<Outgoing>),
    target: Arc<Target>,
    stop: CancellationToken,
    before: Option<JoinHandle<()>>,
) {
    // One at a time: nothing is posted twice at once.
    if let Some(before) = before {
        let _ended = before.await;
    }
    let serving = Serving {
        shared: Arc::clone(&shared),
        session,
        target,
    };
    serving.say(Said::Registers {
        instance: None,
        names_first: false,
        offers: Vec::new(),
    });
    let mut posts = JoinSet::new();
    loop {
        tokio::select! {
            next = outgoing.recv(), if posts.len() < PUSHES_AT_ONCE_MAX => match next {
                Some(Outgoing::Superseded) | None => break,
                Some(next) => drop(posts.spawn(serving.clone().push(next))),
            },
            Some(_) = posts.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    posts.shutdown().await;
    shared.owner.close(session, Ending::Broken);
}

/// What serves a target.
#[derive(Clone)]
struct Serving {
    shared: Arc<Shared>,
    session: SessionId,
    target: Arc<Target>,
}

impl Serving {
    async fn push(self, next: Outgoing) {
        match next {
            Outgoing::Frame { taken_back, .. } if taken_back.load(std::sync::atomic::Ordering::Relaxed) => {}
            Outgoing::Frame { frame, .. } => {
                let said = match self.post(pushed_frame(&frame, self.now())).await {
                    Ok(()) if self.target.ack == AckMode::Manual => Said::Took {
                        agent: frame.agent.local().to_owned(),
                        number: frame.number,
                    },
                    Ok(()) => Said::Acknowledges {
                        agent: frame.agent.local().to_owned(),
                        up_to: frame.number,
                    },
                    Err(error) => Said::Failed {
                        agent: frame.agent.local().to_owned(),
                        number: frame.number,
                        error,
                    },
                };
                self.say(said);
            }
            Outgoing::News { told, room } => {
                // Nothing depends on it.
                let _untold = self.post(pushed_news(&told, self.now())).await;
                drop::<OwnedSemaphorePermit>(room);
            }
            Outgoing::Invoke(invocation) => {
                let taken = self.post(pushed_invocation(&invocation, self.now())).await;
                self.say(Said::Asked {
                    invocation: invocation.id.to_string(),
                    taken: taken.map_err(String::into_boxed_str),
                });
            }
            Outgoing::Superseded => {}
        }
    }

    async fn post(&self, body: PushBody) -> Result<(), String> {
        post::post(&*self.shared.pushes.network, &self.target, body).await
    }

    fn now(&self) -> Timestamp {
        self.shared.owner.now()
    }

    /// Tells the engine; if the agent is the node's no more, or another serves it, nobody wants to know.
    fn say(&self, said: Said) {
        let _answer = self.shared.owner.call(self.session, said.into(), None);
    }
}

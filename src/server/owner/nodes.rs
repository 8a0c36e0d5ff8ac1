//! The connections of nodes, and where what goes out over them is put.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::{Owner, StepAnswer};
use crate::engine::{Carrier, Frame, Input, NodeId, Refusal, SessionId, Who};

/// What goes out over the connection of a node.
#[derive(Debug)]
pub enum Outgoing {
    /// A frame. The engine sends no more of them than it allows to be unacknowledged.
    Frame(Box<Frame>),
    /// Nothing more: a later connection has taken its place.
    Superseded,
}

impl Owner {
    /// Opens the session of a node. What is to go out over its connection comes in order, until the session is closed.
    ///
    /// # Errors
    ///
    /// The engine's refusal: there is no such node, or too many sessions are open.
    pub fn open_node(&self, node: NodeId) -> Result<(SessionId, mpsc::UnboundedReceiver<Outgoing>), Refusal> {
        let session = SessionId(self.number());
        self.with(|state| {
            let input = Input::Opened {
                session,
                carrier: Carrier::Node,
                who: Who::Node(node),
            };
            let Some(StepAnswer::Opened(result)) = self.step_locked(state, input) else {
                unreachable!("the engine answers every opened session");
            };
            result?;
            let (sender, outgoing) = mpsc::unbounded_channel();
            state.nodes.insert(session, sender);
            Ok((session, outgoing))
        })
    }
}

/// Puts something where the task of a node's connection takes it up. Once that has ended, nobody does; the end of its session is on
/// its way then, and the engine sends it again.
pub(super) fn send(
    nodes: &BTreeMap<SessionId, mpsc::UnboundedSender<Outgoing>>,
    session: SessionId,
    outgoing: Outgoing,
) {
    if let Some(sender) = nodes.get(&session) {
        let _ended = sender.send(outgoing);
    }
}

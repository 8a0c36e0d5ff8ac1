//! The connections of nodes, and where what goes out over them is put.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{Owner, StepAnswer};
use crate::engine::invocations::InvocationView;
use crate::engine::{Carrier, Frame, HandoverId, Input, NodeId, Refusal, SessionId, Told, Who};
use crate::server::limits::NODE_NEWS_MAX;
use crate::server::sync::Arc;

/// What goes out over the connection of a node.
#[derive(Debug)]
pub enum Outgoing {
    /// A frame. The engine sends no more of them than it allows to be unacknowledged.
    Frame {
        /// What to send.
        frame: Box<Frame>,
        /// The engine has taken it back: it is not to go out any more.
        taken_back: Arc<AtomicBool>,
    },
    /// What the handler of an action is to do. The engine lets no more of them be open than its bound.
    Invoke(Box<InvocationView>),
    /// What is no delivery.
    News {
        /// What to tell.
        told: Box<Told>,
        /// Of the room that the connection has for news.
        room: OwnedSemaphorePermit,
    },
    /// Nothing more: a later connection has taken its place.
    Superseded,
}

/// All connections of nodes.
#[derive(Default)]
pub(super) struct Connections {
    /// By their sessions, until these are closed.
    open: BTreeMap<SessionId, Open>,
    /// What becomes true for a frame that is taken back, by its hand-over, until that stands no more.
    sent: BTreeMap<HandoverId, Arc<AtomicBool>>,
}

/// A connection.
struct Open {
    outgoing: mpsc::UnboundedSender<Outgoing>,
    /// For news, which wait for nothing: what there is no room for is not told.
    room: std::sync::Arc<Semaphore>,
}

impl Connections {
    /// Puts a frame where the task of a connection takes it up. Once that has ended, nobody does; the end of its session is on its
    /// way then, and the engine sends it again.
    pub fn deliver(&mut self, session: SessionId, frame: Box<Frame>) {
        let taken_back = Arc::new(AtomicBool::new(false));
        self.sent.insert(frame.handover, Arc::clone(&taken_back));
        self.send(session, Outgoing::Frame { frame, taken_back });
    }

    /// Puts what a handler is to do behind the frames.
    pub fn invoke(&mut self, session: SessionId, invocation: Box<InvocationView>) {
        self.send(session, Outgoing::Invoke(invocation));
    }

    /// Puts news behind the frames, if there is room for it: a node that does not read is told nothing more.
    pub fn tell(&mut self, session: SessionId, told: Box<Told>) {
        let room = self
            .open
            .get(&session)
            .map(|open| std::sync::Arc::clone(&open.room));
        if let Some(Ok(room)) = room.map(Semaphore::try_acquire_owned) {
            self.send(session, Outgoing::News { told, room });
        }
    }

    /// Has a connection end.
    pub fn supersede(&self, session: SessionId) {
        self.send(session, Outgoing::Superseded);
    }

    fn send(&self, session: SessionId, outgoing: Outgoing) {
        if let Some(open) = self.open.get(&session) {
            let _ended = open.outgoing.send(outgoing);
        }
    }

    /// Takes note that a hand-over, of a frame or of anything else, stands no more, and whether it was undone.
    pub fn ended(&mut self, handover: HandoverId, undone: bool) {
        if let Some(taken_back) = self.sent.remove(&handover) {
            taken_back.store(undone, Ordering::Relaxed);
        }
    }

    pub fn closed(&mut self, session: SessionId) {
        self.open.remove(&session);
    }
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
            let open = Open {
                outgoing: sender,
                room: std::sync::Arc::new(Semaphore::new(NODE_NEWS_MAX)),
            };
            state.nodes.open.insert(session, open);
            Ok((session, outgoing))
        })
    }
}

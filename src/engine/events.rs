//! What has happened: one event for every transition of the state. Nothing is decided by them; whoever keeps a log, counts
//! or watches reads them.

use std::sync::Arc;

use super::handling::Mode;
use super::holds::HeldBy;
use super::invocations::InvocationView;
use super::io::{Carrier, Ending, Sign};
use super::message::{Delivery, Message};
use super::names::{AgentName, CallId, ChannelName, HandoverId, MessageId, NodeId, Seq, SessionId, WorkerId};
use super::nodes::NodeView;
use super::programs::Activity;
use super::receipts::Receipt;
use super::room::Part;
use super::time::Timestamp;
use super::workers::Transition;

/// A transition of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session was admitted.
    Opened {
        /// Its number.
        session: SessionId,
        /// How replies travel to it.
        carrier: Carrier,
        /// The agent that it is bound to, if any.
        agent: Option<AgentName>,
        /// It is the person's.
        person: bool,
    },
    /// A session is gone, after all that ended with it.
    Closed {
        /// Its number.
        session: SessionId,
        /// How its connection ended.
        ending: Ending,
    },
    /// A session has registered an agent that was not there.
    Registered {
        /// Its name.
        agent: AgentName,
    },
    /// A later instance has taken an agent over: the sessions of the one before are fenced.
    TakenOver {
        /// Which agent.
        agent: AgentName,
    },
    /// A transient agent is gone, as its sessions are.
    Gone {
        /// Which agent.
        agent: AgentName,
    },
    /// An agent is no member of a channel any more, since it has left it.
    Left {
        /// Which channel.
        channel: ChannelName,
        /// Who.
        agent: AgentName,
    },
    /// An agent has become a member of a channel by using it, or because it asked for that.
    Joined {
        /// Which channel.
        channel: ChannelName,
        /// Who.
        agent: AgentName,
    },
    /// A message is in the inboxes of all whom it is for.
    Accepted {
        /// Shared with the inboxes.
        message: Arc<Message>,
        /// Whose inboxes it is in, in the order of their names: nobody's if it went to a channel without other members.
        agents: Vec<AgentName>,
        /// Its places there, in the same order.
        places: Places,
    },
    /// A message of which its sender did not say how it is to be brought is brought as one of its agents has it, and not as most are.
    BroughtAsItsAgentHasIt {
        /// Which message.
        message: MessageId,
        /// To whom.
        agent: AgentName,
        /// How.
        mode: Mode,
    },
    /// A call waits.
    Parked {
        /// The call.
        call: CallId,
        /// Its session.
        session: SessionId,
        /// For whose inbox it waits.
        agent: AgentName,
        /// When it ends, if nothing comes.
        expires_at: Timestamp,
    },
    /// A call stands by for a program, which can be woken by it.
    StandsBy {
        /// The call.
        call: CallId,
        /// The program's session.
        session: SessionId,
    },
    /// A program does something else than before.
    Does {
        /// Its session.
        session: SessionId,
        /// What.
        activity: Activity,
    },
    /// It is known now whose a program is.
    Recognised {
        /// Its session.
        session: SessionId,
        /// Whose.
        agent: AgentName,
    },
    /// A call waits no more.
    WaitEnded {
        /// The call.
        call: CallId,
        /// Why.
        by: WaitEnd,
    },
    /// Deliveries, or the news of the start, are in a reply.
    HandedOver {
        /// Drawn for it.
        handover: HandoverId,
        /// To whom.
        session: SessionId,
        /// How it travels there.
        carrier: Carrier,
        /// Out of whose inbox.
        agent: AgentName,
        /// The person takes it, be it out of its own inbox.
        person: bool,
        /// Oldest first; may be none where `notice` is true, and are none where there is a part.
        deliveries: Arc<Vec<Delivery>>,
        /// The reply tells of the start.
        notice: bool,
        /// The part of a message that is in the reply. The message is told of as handed over, and as confirmed, by a number of its own
        /// once all of its parts have arrived.
        part: Option<Box<PartOf>>,
    },
    /// The doubt in a reply that was passed to the peer's socket begins, or begins anew after the machine slept.
    Passed {
        /// Which one.
        handover: HandoverId,
    },
    /// A keep-alive was written behind a reply that is in doubt.
    KeptAlive {
        /// Which hand-over's.
        handover: HandoverId,
    },
    /// The doubt in a reply is over, and only a keep-alive behind it is missing.
    Overdue {
        /// Which hand-over's.
        handover: HandoverId,
    },
    /// A reply was read, if its call is not cancelled in the next moment.
    Read {
        /// Which hand-over's.
        handover: HandoverId,
        /// What said so.
        by: Sign,
    },
    /// The agent is to give a receipt for what was read.
    Awaited {
        /// Which hand-over's.
        handover: HandoverId,
    },
    /// The agent does not want what was handed over yet.
    HeldBack {
        /// Which hand-over.
        handover: HandoverId,
        /// When it does.
        until: Timestamp,
    },
    /// The agent has said what became of a delivery, and it is judged by that now.
    Receipt {
        /// Its hand-over.
        handover: HandoverId,
        /// Whose delivery it is.
        agent: AgentName,
        /// The delivery.
        deliveries: Arc<Vec<Delivery>>,
        /// What it said.
        receipt: Receipt,
        /// What else it said of it, as JSON.
        metadata: Option<Box<str>>,
    },
    /// The target of a push did not take a delivery.
    PushFailed {
        /// Its hand-over.
        handover: HandoverId,
        /// Whose it is.
        agent: AgentName,
        /// The delivery.
        deliveries: Arc<Vec<Delivery>>,
        /// Why.
        error: Arc<str>,
        /// When it is tried again; none if it is given up.
        again_at: Option<Timestamp>,
    },
    /// A hand-over is known to have arrived: its messages never appear again.
    Confirmed {
        /// Which one.
        handover: HandoverId,
        /// What said so.
        by: Sign,
        /// To whom.
        agent: AgentName,
        /// What had been handed over. With the last copy of it the messages are freed, which is for the reader to do where
        /// nobody waits for it.
        deliveries: Arc<Vec<Delivery>>,
    },
    /// A hand-over was undone: its messages are back in their old places.
    Undone {
        /// Which one.
        handover: HandoverId,
        /// What said so.
        by: Sign,
        /// In whose inbox they are.
        agent: AgentName,
        /// What had been handed over.
        deliveries: Arc<Vec<Delivery>>,
    },
    /// Deliveries that have arrived wait in their old places again, marked: their agent has asked for what it was handed behind a message.
    AskedAgain {
        /// In whose inbox they are.
        agent: AgentName,
        /// In the order in which they had been handed over.
        deliveries: Arc<Vec<Delivery>>,
        /// The last message that the agent has seen.
        after: MessageId,
    },
    /// Nobody was handed a delivery before its deadline, or before its client was given up, and nobody will be.
    Expired {
        /// In whose inbox it was.
        agent: AgentName,
        /// The delivery.
        delivery: Delivery,
    },
    /// The person has begun to hold deliveries, or holds them no more.
    Holds {
        /// Those to an agent and from it; all if none is named.
        agent: Option<AgentName>,
        /// They are held from now on.
        is_held: bool,
    },
    /// A delivery that waited, or has just come, stands aside: the person holds it.
    Held {
        /// In whose inbox it is.
        agent: AgentName,
        /// The delivery.
        delivery: Delivery,
        /// For which hold.
        by: HeldBy,
    },
    /// The person has let a delivery pass that stood aside: it waits in its old place.
    Allowed {
        /// In whose inbox it is.
        agent: AgentName,
        /// The delivery.
        delivery: Delivery,
    },
    /// The person has dropped a delivery that stood aside: nobody will be handed it.
    Dropped {
        /// In whose inbox it was.
        agent: AgentName,
        /// The delivery.
        delivery: Delivery,
    },
    /// An agent has said that it has read a message.
    Marked {
        /// Which message.
        message: Arc<Message>,
        /// Who.
        agent: AgentName,
    },
    /// An agent has shown how it takes a message.
    Reacted {
        /// Which message.
        message: Arc<Message>,
        /// Who.
        agent: AgentName,
        /// How.
        emoji: Arc<str>,
        /// Or it shows that no more.
        given: bool,
    },
    /// An agent has asked for an action.
    Invoked {
        /// What it asks.
        invocation: Box<InvocationView>,
    },
    /// What an agent has asked of an action has ended.
    InvocationEnded {
        /// How.
        invocation: Box<InvocationView>,
    },
    /// An agent has asked for an action that is not for it.
    ActionDenied {
        /// Its name, in the agent's project.
        action: Arc<str>,
        /// Who.
        caller: AgentName,
    },
    /// A node is connected.
    NodeCame {
        /// Which one.
        node: Box<NodeView>,
        /// By which session.
        session: SessionId,
    },
    /// The connection of a node has ended. It holds its agents for a while.
    NodeLeft {
        /// Which one.
        node: Box<NodeView>,
    },
    /// A node holds its agents no more.
    NodeLapsed {
        /// Which one.
        node: Box<NodeView>,
    },
    /// A node takes the deliveries of an agent.
    Bound {
        /// Which agent.
        agent: AgentName,
        /// Which node.
        node: NodeId,
    },
    /// A node takes the deliveries of an agent no more.
    Unbound {
        /// Which agent.
        agent: AgentName,
        /// Which node.
        node: NodeId,
    },
    /// A call waits until a worker has started.
    SpawnWaits {
        /// The call.
        call: CallId,
        /// Its session.
        session: SessionId,
        /// Which worker.
        worker: WorkerId,
    },
    /// Something has become of a worker.
    Worker(Box<Transition>),
    /// What a worker that was released had not read is in the inbox of another agent now.
    HandedOn {
        /// The message.
        message: Arc<Message>,
        /// Whose inbox it was in.
        from: AgentName,
        /// Whose inbox it is in.
        to: AgentName,
        /// Its place there.
        seq: Seq,
    },
    /// The relay is about to stop.
    Stopping,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PartOf {
    /// Which message.
    pub message: MessageId,
    /// Its place in the inbox, where it waits until its last part is in a reply.
    pub seq: Seq,
    /// Which part of it.
    pub part: Part,
}

/// The places of a message in some inboxes. One of them, as most messages have, takes no memory of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// In the only one.
    One(Seq),
    /// In several, or in none.
    Many(Vec<Seq>),
}

impl Places {
    /// Adds the place in one more inbox.
    pub(super) fn push(&mut self, place: Seq) {
        match self {
            Self::One(first) => *self = Self::Many(vec![*first, place]),
            Self::Many(places) if places.is_empty() => *self = Self::One(place),
            Self::Many(places) => places.push(place),
        }
    }

    /// Returns all of them.
    pub fn as_slice(&self) -> &[Seq] {
        match self {
            Self::One(place) => std::slice::from_ref(place),
            Self::Many(places) => places,
        }
    }
}

impl FromIterator<Seq> for Places {
    fn from_iter<I: IntoIterator<Item = Seq>>(places: I) -> Self {
        let mut all = Self::Many(Vec::new());
        for place in places {
            all.push(place);
        }
        all
    }
}

/// The ways in which a wait ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// There is something to read.
    Woken,
    /// Its time is over, or the relay stops.
    Expired,
    /// Its session waits for the same inbox by a newer call.
    Superseded,
    /// Its client cancelled it, or nobody is left to answer.
    Cancelled,
    /// A later instance has taken its agent over.
    Fenced,
}

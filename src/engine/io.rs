//! All that can happen to the engine, and all that it can want: plain values.

use super::events::Event;
use super::frames::{Frame, Told};
use super::handling::Mode;
use super::invocations::InvocationView;
use super::names::{AgentName, CallId, ClientId, HandoverId, NodeId, RandomBytes, SessionId, WorkerId};
use super::programs::Abilities;
use super::time::Timestamp;
use super::{
    actions, agents, channels, groups, holds, mail, nodes, receipts, records, sessions, surfacing, trace,
    watches, workers,
};

/// Everything that can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Input {
    /// A session appeared. Answered with [`Effect::Opened`].
    Opened {
        /// Not open yet.
        session: SessionId,
        /// What its connections are like.
        carrier: Carrier,
        /// For whom it may speak.
        who: Who,
    },
    /// A session's client says who it is, the same in each of its sessions: it goes on in one with what it was shown in parts in
    /// another. Ignored if the session is not open.
    Named {
        /// Which session.
        session: SessionId,
        /// Its client.
        client: ClientId,
    },
    /// A session is gone: its waits are cancelled, its unconfirmed hand-overs judged. Ignored if it is not open.
    Closed {
        /// Which one.
        session: SessionId,
        /// How its connection ended.
        ending: Ending,
    },
    /// A session calls a tool. Answered with exactly one [`Effect::Reply`], unless it is cancelled or its session closes first.
    Call {
        /// An open session.
        session: SessionId,
        /// Not used before.
        call: CallId,
        /// For the id of what it makes, if it makes something.
        random: RandomBytes,
        /// What is asked for.
        command: Command,
    },
    /// Nobody wants the answer to a parked call any more: its client cancelled it, or is gone. Ignored if it does not wait.
    Cancelled {
        /// The call.
        call: CallId,
    },
    /// A sign of what became of a hand-over. Ignored if it does not stand any more.
    Signed {
        /// The hand-over.
        handover: HandoverId,
        /// What was seen.
        sign: Sign,
    },
    /// A keep-alive was passed to the socket of a [`Carrier::Stream`], behind all that was passed before:
    /// [`Sign::KeptAlive`] for all of its hand-overs. Ignored if the session is not open.
    KeptAlive {
        /// The stream's session.
        session: SessionId,
    },
    /// Something happened to the process of a worker. Ignored if that has ended: what is said late of an earlier worker changes
    /// nothing for a later one of the same name.
    Worker {
        /// Which one.
        worker: WorkerId,
        /// What.
        happened: workers::Happened,
    },
    /// The clock that people read was set. What lasts goes on lasting as long as it was to; what has happened is shown by that clock, and
    /// what has a deadline is past it by that clock.
    WallClock {
        /// How far it is ahead of the time that inputs are handed in with, in milliseconds; 0 until this is told.
        ahead_ms: i64,
    },
    /// The relay is about to stop: every wait expires now, no read waits and no post is accepted from here on, and every worker is to
    /// end.
    Stopping,
}

/// What was seen of a reply that holds a hand-over. [`super::signs`] says what each means on which carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Sign {
    /// The last byte of the reply was passed to the peer's socket.
    Passed,
    /// Bytes came from the peer that were not there yet when the last byte of the reply was passed to its socket: it
    /// has read that reply, since it sends one request at a time.
    Followed,
    /// The session has called a tool again.
    CalledAgain,
    /// The node that it was sent to has acknowledged it, or the turn that it was to begin has begun with it.
    Acknowledged,
    /// A keep-alive was passed to the socket behind the reply.
    KeptAlive,
    /// It has been in doubt for as long as any is, on a connection that lives on.
    DoubtOver,
    /// It was read, and cannot be cancelled any more: its time has passed, its room was needed, or too many were read after it.
    Settled,
    /// The agent was shown it among its deliveries, and will give a receipt for it.
    Listed,
    /// The model has named a message of it as the last that it has seen.
    Seen,
    /// The model has named a message that was handed over before it as the last that it has seen.
    Unseen,
    /// The agent has given a receipt: it is done with it.
    Receipted,
    /// The agent has given a receipt: it failed to do with it what was to be done.
    Failed,
    /// The agent does not want it before that moment.
    Deferred(Timestamp),
    /// That moment has come.
    DeferralOver,
    /// The target that it was pushed to did not take it; it is pushed again.
    NotTaken,
    /// The target that it was to be pushed to did not take it, however often.
    GivenUp,
    /// It is to be pushed again all the same.
    Redriven,
    /// The session is gone.
    Ended(Ending),
    /// A later instance has taken the session's agent over, or a later connection the session's node, or the agent is that node's no
    /// more.
    Fenced,
    /// Its client does not want the answer any more.
    Cancelled,
    /// The reply could not be written, or nobody is left to write it to.
    Lost,
}

/// For whom a session may speak. The shell knows it by the way that the session came in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Who {
    /// One agent alone if it is named, as given and not checked yet; else any that there is.
    Agent(Option<String>),
    /// Nobody, until it asks for what an agent alone may ask for: then one agent, which is given its name.
    Unnamed,
    /// One agent, by a program that shows no model what it is answered: nothing of it tells of the start.
    Api(String),
    /// One agent, which is there from now on.
    Registered(Box<agents::Registration>),
    /// The person, who speaks for itself where it names nobody, and for any agent.
    Person,
    /// A node, which speaks for nobody and takes the deliveries of its agents.
    Node(NodeId),
    /// A program, as its hooks show it.
    Program {
        /// Whose it is, if that is known: as given, and not checked yet.
        agent: Option<String>,
        /// It is nobody else's, whomever its model speaks for.
        is_certain: bool,
        /// The project from which its model names agents.
        project: String,
        /// How its agent is to be brought what its senders say nothing of; as it was if it is left out.
        mode: Option<Mode>,
        /// What it can do.
        abilities: Abilities,
    },
}

/// How replies travel to a session, which decides what its end says about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Carrier {
    /// All replies go into one stream that never ends by itself: an end leaves the latest ones in doubt.
    Stream,
    /// Each reply ends the exchange that asked for it: a connection that its peer closed in order, after the
    /// reply's last byte, has carried it.
    Exchange,
    /// Deliveries go out in frames, which are acknowledged by their numbers: nothing else says anything about them.
    Node,
    /// A program shows its model what its hooks are answered: what it comes to next says that it has.
    Hook,
    /// A program begins a turn with what its waiter was answered, and says which wake has begun it.
    Wake,
}

/// How a session's connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Ending {
    /// The peer closed it in order and left nothing unread, or the relay did so after the last byte of its reply.
    Orderly,
    /// It was reset, timed out, or was dropped half way.
    Broken,
}

/// An operation that a session may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// To post, to read, or to look.
    Mail(mail::Command),
    /// To see who there is.
    Agents(agents::Command),
    /// To make groups, and to see them.
    Groups(groups::Command),
    /// To make, join and leave channels, and to see them.
    Channels(channels::Command),
    /// To be told of changes.
    Watches(watches::Command),
    /// To take deliveries for agents.
    Nodes(nodes::Command),
    /// To offer actions, to ask for them, and to say what came of it.
    Actions(actions::Command),
    /// To list an agent's deliveries, and to say what became of one.
    Receipts(receipts::Command),
    /// To see what happened to a message.
    Trace(trace::Command),
    /// To hold deliveries, to let them pass, and to drop them.
    Holds(holds::Command),
    /// To go back to a message, and to say something about it.
    Records(records::Command),
    /// To say what a program has come to, and to ask what its model is to be shown.
    Surfacing(surfacing::Command),
    /// To start workers, and to end them.
    Workers(workers::Command),
    /// The same as one of the others, asked by a client that reads a resource, beside its agent's calls.
    Resource(Box<Command>),
}

impl Command {
    /// Tells whether it was a tool that was called, or a program has gone on: that shows that the answers before were read. A client that watches
    /// something, or looks at it, does so for itself, whatever its agent has read.
    pub(super) fn is_a_tool_s(&self) -> bool {
        match self {
            Self::Mail(_)
            | Self::Agents(_)
            | Self::Groups(_)
            | Self::Channels(_)
            | Self::Nodes(_)
            | Self::Actions(_)
            | Self::Receipts(_)
            | Self::Trace(_)
            | Self::Holds(_)
            | Self::Workers(_)
            | Self::Records(_) => true,
            Self::Surfacing(surfacing::Command::Comes { to, .. }) => to.goes_on(),
            Self::Surfacing(surfacing::Command::StandsBy | surfacing::Command::StandsIn)
            | Self::Watches(_)
            | Self::Resource(_) => false,
        }
    }
}

/// Everything that the engine can want done, in the order in which it is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Tell a new session whether it was admitted, and to which agent it is bound.
    Opened {
        /// The session of the input.
        session: SessionId,
        /// The agent that it is bound to, if any; or why it was not admitted.
        result: Result<Option<AgentName>, Refusal>,
    },
    /// Answer a call.
    Reply {
        /// The call; never answered before.
        call: CallId,
        /// Its answer.
        result: Result<Reply, Refusal>,
        /// What stands until the reply is known to have arrived: its bytes are to be followed, and what is seen of them
        /// reported by [`Input::Signed`]. None if nothing depends on that.
        handover: Option<HandoverId>,
    },
    /// Tell a session that something which it watches has changed, at the end of the step that has changed it. Until its client
    /// has heard of it, later changes of the same thing need not be told.
    Changed {
        /// An open session.
        session: SessionId,
        /// What.
        what: watches::Watched,
    },
    /// Send a frame over the connection of a node, behind all that was sent before. It will be acknowledged, or sent again over
    /// another connection.
    Deliver {
        /// The node's session.
        session: SessionId,
        /// What to send.
        frame: Box<Frame>,
    },
    /// Send the handler of an action what it is to do, over the connection of its node. It is sent again over another connection, until it
    /// has ended.
    Invoke {
        /// The node's session.
        session: SessionId,
        /// What to do.
        invocation: Box<InvocationView>,
    },
    /// Tell a node what is no delivery, if its connection has room for it. Nothing depends on that.
    Tell {
        /// The node's session.
        session: SessionId,
        /// What to tell.
        told: Box<Told>,
    },
    /// End the connection of a node: a later one has taken its place.
    Superseded {
        /// The node's session.
        session: SessionId,
    },
    /// Start the process of a worker. What becomes of it is reported by [`Input::Worker`]: that it was started or was not, and once it was,
    /// that it has ended.
    StartWorker(Box<workers::Start>),
    /// End the process of a worker, with all that it has started, also if it is only about to start. That it has ended, or was not
    /// started, is reported all the same. Asked for once.
    EndWorker {
        /// Which one.
        worker: WorkerId,
    },
    /// Take note of what has happened. Nothing needs to be done.
    Note(Event),
}

// Both are moved several times a call, and what is larger than this is not moved in place: it cost a hundredth of a call once.
const _: () = assert!(size_of::<Input>() <= 128 && size_of::<Effect>() <= 128);

/// What an operation comes to, if it is not refused: so that a call is answered once.
pub(super) enum Outcome {
    /// It is answered.
    Answered(Answer),
    /// It waits.
    Parked,
}

/// An answer, with the hand-over in it.
pub(super) struct Answer {
    pub reply: Reply,
    pub handover: Option<HandoverId>,
}

/// An answer that hands nothing over.
impl<R: Into<Reply>> From<R> for Outcome {
    fn from(reply: R) -> Self {
        Self::Answered(Answer {
            reply: reply.into(),
            handover: None,
        })
    }
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To a [`Command::Mail`].
    Mail(mail::Reply),
    /// To a [`Command::Agents`].
    Agents(agents::Reply),
    /// To a [`Command::Groups`].
    Groups(groups::Reply),
    /// To a [`Command::Channels`].
    Channels(channels::Reply),
    /// To a [`Command::Watches`].
    Watches(watches::Reply),
    /// To a [`Command::Nodes`].
    Nodes(Box<nodes::Reply>),
    /// To a [`Command::Actions`].
    Actions(Box<actions::Reply>),
    /// To a [`Command::Receipts`].
    Receipts(receipts::Reply),
    /// To a [`Command::Trace`].
    Trace(trace::Reply),
    /// To a [`Command::Holds`].
    Holds(holds::Reply),
    /// To a [`Command::Records`].
    Records(records::Reply),
    /// To a [`Command::Surfacing`].
    Surfacing(surfacing::Reply),
    /// To a [`Command::Workers`].
    Workers(workers::Reply),
    /// One of the others, not [`mail::Reply::Messages`], and the first to its agent since the relay started: it tells of the start.
    AfterStart {
        /// When the relay started.
        started_at: Timestamp,
        /// What the call is answered.
        reply: Box<Reply>,
    },
}

/// Why the engine did not do what was asked. Nothing was changed by it. What a caller reads about it is its toolset's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody may not be named so.
    Agents(agents::Refusal),
    /// There is no room for another session.
    Sessions(sessions::Refusal),
    /// A message cannot be posted, or a read not wait.
    Mail(mail::Refusal),
    /// A group or a channel cannot be so.
    Groups(groups::Refusal),
    /// A node cannot do so.
    Nodes(nodes::Refusal),
    /// An action cannot be so, or an invocation.
    Actions(actions::Refusal),
    /// There is no such delivery.
    Receipts(receipts::Refusal),
    /// Nothing can be shown of a message.
    Trace(trace::Refusal),
    /// The person alone holds, and lets pass what is held.
    Holds(holds::Refusal),
    /// Nothing can be shown or said about a message.
    Records(records::Refusal),
    /// Only a program asks for it.
    Surfacing(surfacing::Refusal),
    /// A worker cannot be started or ended.
    Workers(workers::Refusal),
    /// The relay is about to stop, and what it took now would be gone.
    Stopping,
}

impl Refusal {
    /// Returns what the caller can do about it.
    pub fn class(&self) -> Class {
        match self {
            Self::Agents(refusal) => refusal.class(),
            Self::Sessions(refusal) => refusal.class(),
            Self::Mail(refusal) => refusal.class(),
            Self::Groups(refusal) => refusal.class(),
            Self::Nodes(refusal) => refusal.class(),
            Self::Actions(refusal) => refusal.class(),
            Self::Receipts(refusal) => refusal.class(),
            Self::Trace(refusal) => refusal.class(),
            Self::Holds(refusal) => refusal.class(),
            Self::Records(refusal) => refusal.class(),
            Self::Surfacing(refusal) => refusal.class(),
            Self::Workers(refusal) => refusal.class(),
            Self::Stopping => Class::Full,
        }
    }
}

/// What a caller can do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Ask in another way: it would be refused at any time.
    Bad,
    /// Name something that there is.
    Unknown,
    /// Nothing: somebody else has taken its place.
    Fenced,
    /// Ask again later: there is no room for it now.
    Full,
    /// Do without: it is not offered here.
    Unsupported,
    /// Look again: what is there contradicts it.
    Conflict,
}

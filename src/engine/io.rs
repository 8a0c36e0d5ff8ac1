//! All that can happen to the engine, and all that it can want: plain values.

use std::sync::Arc;

use super::events::Event;
use super::message::{Delivery, Kind};
use super::names::{
    AgentName, CallId, HandoverId, MessageId, PERSON, RandomBytes, Roster, SessionId, Timestamp,
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
    /// The relay is about to stop: every wait expires now, no read waits and no post is accepted from here on.
    Stopping,
}

/// What was seen of a reply that holds a hand-over. [`super::handover`] says what each means on which carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Sign {
    /// The last byte of the reply was passed to the peer's socket.
    Passed,
    /// Bytes came from the peer that were not there yet when the last byte of the reply was passed to its socket: it
    /// has read that reply, since it sends one request at a time.
    Followed,
    /// The session has made another call.
    CalledAgain,
    /// A keep-alive was passed to the socket behind the reply.
    KeptAlive,
    /// It has been in doubt for as long as any is, on a connection that lives on.
    DoubtOver,
    /// The session is gone.
    Ended(Ending),
    /// Its client does not want the answer any more.
    Cancelled,
    /// The reply could not be written, or nobody is left to write it to.
    Lost,
}

/// For whom a session may speak. The shell knows it by the way that the session came in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Who {
    /// One agent alone if it is named, as given and not checked yet; else any of the roster's.
    Agent(Option<String>),
    /// The person, who speaks for itself where it names nobody, and for any of the roster's agents.
    Person,
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

/// An operation that a session may ask for. Names are as given, not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Puts a message into an agent's inbox.
    Post {
        /// The sender; may be left out by a bound session and by the person's.
        from: Option<String>,
        /// The recipient.
        to: String,
        /// What it is for.
        kind: Kind,
        /// The text.
        body: String,
    },
    /// Takes all messages out of an agent's inbox.
    Read {
        /// Whose inbox; may be left out by a bound session and by the person's.
        agent: Option<String>,
        /// How long to wait if there is neither a message nor the start to tell of, in milliseconds; 0 answers at once.
        wait_ms: u32,
    },
    /// Counts what waits in an agent's inbox, and takes nothing.
    Pending {
        /// Whose inbox; may be left out by a bound session and by the person's.
        agent: Option<String>,
    },
    /// Shows what waits in an agent's inbox, and takes nothing.
    Peek {
        /// Whose inbox; may be left out by a bound session and by the person's.
        agent: Option<String>,
    },
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
    /// Take note of what has happened. Nothing needs to be done.
    Note(Event),
}

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
impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            handover: None,
        }
    }
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The message is in the recipient's inbox.
    Posted {
        /// Its identity.
        id: MessageId,
    },
    /// What was in the inbox, oldest first; empty when nothing came in time.
    Messages {
        /// Shared with the hand-over that stands until the reply is known to have arrived.
        deliveries: Arc<Vec<Delivery>>,
        /// Present in the agent's first reply after a start: when the relay started. An agent's news is its own: the
        /// person who reads in its stead does not take it.
        restarted: Option<Timestamp>,
    },
    /// What waits in the inbox, oldest first. Hand-overs that stand are not counted.
    Pending {
        /// One kind a message.
        kinds: Vec<Kind>,
    },
    /// What waits in the inbox, oldest first. Hand-overs that stand are not shown.
    Seen {
        /// All of them stay where they are.
        deliveries: Vec<Delivery>,
    },
}

/// Why the engine did not do what was asked. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A sender, recipient or reader is not in the roster.
    #[error("unknown role {name:?}; known roles: {known}")]
    UnknownAgent {
        /// As given, cut if it is long.
        name: String,
        /// Who there is.
        known: Roster,
    },
    /// A bound session named another agent than its own.
    #[error(
        "{argument:?} is {name:?}, but this session is bound to {bound:?}; leave {argument:?} out or give {bound:?}"
    )]
    NotYou {
        /// The argument: `from` or `for`.
        argument: &'static str,
        /// As given.
        name: String,
        /// The session's agent.
        bound: String,
    },
    /// An agent's session named the person.
    #[error(
        "{argument:?} is {PERSON:?}, which is the person's own inbox and name: only the relay command reads it or speaks for it; known roles: {known}"
    )]
    Persons {
        /// The argument: `from`, `for` or `agent`.
        argument: &'static str,
        /// Who else there is.
        known: Roster,
    },
    /// A session that is not bound did not say who it is.
    #[error("missing argument {argument:?}; give your role, one of: {known}")]
    Anonymous {
        /// The argument: `from` or `for`.
        argument: &'static str,
        /// Who there is.
        known: Roster,
    },
    /// A body is longer than a message may be.
    #[error("body has {bytes} bytes; accepted: at most {bytes_max}")]
    BodyTooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The recipient's inbox has no room for the message.
    #[error(
        "inbox of {agent:?} is full: {messages} messages, {bytes} bytes; accepted: at most {messages_max} messages and {bytes_max} bytes; post again after it was read"
    )]
    InboxFull {
        /// Whose inbox.
        agent: String,
        /// How many it holds.
        messages: usize,
        /// How many body bytes it holds.
        bytes: usize,
        /// The bound on messages.
        messages_max: usize,
        /// The bound on body bytes.
        bytes_max: usize,
    },
    /// The relay is about to stop, and what it took now would be gone.
    #[error("relay is stopping; post again after its next start")]
    Stopping,
    /// Too many reads are parked.
    #[error("as many reads wait already as are accepted: {waits}; read without waiting")]
    TooManyWaits {
        /// How many are parked.
        waits: usize,
    },
    /// Too many sessions are open.
    #[error("as many sessions are open already as are accepted: {sessions}; close one")]
    TooManySessions {
        /// How many are open.
        sessions: usize,
    },
}

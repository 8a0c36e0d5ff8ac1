//! What may be asked about messages, and reading them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::absence::Absence;
use super::address::Warning;
use super::agents::{self, NamedAs, Speaker};
use super::handling::{Handling, Mode};
use super::holds::HeldBy;
use super::idempotency::Keyed;
use super::inbox::Filter;
use super::io::{self, Outcome};
use super::message::{Delivery, Kind, Message};
use super::names::{AgentName, CallId, DEFAULT_PROJECT, MessageId, RELAY, RandomBytes, Recipient, SessionId};
use super::posts::Draft;
use super::reading::Read;
use super::room::{Part, Room};
use super::time::Timestamp;
use super::{Engine, Step};

/// What may be asked about messages. Names are as given, not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Puts a message into the inboxes of all whom an address means, or into none.
    Post {
        /// The sender; may be left out by a bound session and by the person's.
        from: Option<String>,
        /// The address.
        to: String,
        /// What it is for.
        kind: Kind,
        /// The text.
        body: String,
        /// What it belongs to, and what is to be done beside it, if anything.
        options: Option<Box<PostOptions>>,
    },
    /// Takes messages out of an agent's inbox, the oldest first.
    Read {
        /// Whose inbox; may be left out by a bound session and by the person's.
        agent: Option<String>,
        /// Which of them; all if it is left out.
        options: Option<Box<ReadOptions>>,
        /// The room of the answer: as many are taken as fit, or a part of one that does not; all if it is left out.
        room: Option<Room>,
        /// How long to wait if there is neither such a message nor the start to tell of, in milliseconds; 0 answers at once.
        wait_ms: u32,
        /// What it does if it is to wait beside another.
        second: Second,
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
        /// How many of the oldest at the most; all if it is left out.
        limit: Option<NonZeroUsize>,
    },
    /// Shows one message of those that an agent got and that are known still, read or not, and takes nothing.
    Find {
        /// Whose inbox; may be left out by a bound session and by the person's.
        agent: Option<String>,
        /// Its id.
        id: String,
    },
}

/// What a post may say beside where it goes and what it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PostOptions {
    /// The thread that it belongs to.
    pub thread: Option<String>,
    /// The id of the message that it answers.
    pub reply_to: Option<String>,
    /// What else goes with it, as JSON: an object.
    pub metadata: Option<String>,
    /// How long the call waits for an answer, in milliseconds: the next message from whoever got this one, or in its thread. Left
    /// out, the call is answered once the message is accepted.
    pub await_ms: Option<u32>,
    /// The room of the answer to such a call; whatever the message takes if it is left out.
    pub room: Option<Room>,
    /// Two posts of a sender with the same key are one: the second adds nothing, does not wait, and gets the answer of the first.
    pub idempotency_key: Option<String>,
    /// How it is to be brought to whoever gets it.
    pub handling: Handling,
}

/// Which messages a read asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ReadOptions {
    /// Only those that one agent sent, if it is named.
    pub from: Option<String>,
    /// Only those that were sent to a channel, if it is named.
    pub channel: Option<String>,
    /// How many at the most; all if it is left out.
    pub limit: Option<NonZeroUsize>,
    /// The id of the last message that the agent has seen: what was handed over behind it comes again, once.
    pub after: Option<String>,
    /// If those are fewer, the latest that were handed over before are shown as well, as far as they fit.
    pub earlier: bool,
    /// The notice of a start does not end its wait, but comes with whatever does.
    pub waits_past_start: bool,
}

/// What a wait does that is not the only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Second {
    /// It ends the one of its session for the same inbox, empty-handed; waits for other inboxes go on beside it.
    Supersedes,
    /// It is refused where another one waits for the same inbox, whatever session's it is: over streamable HTTP and stdio each call
    /// that waits has one of its own. The person who waits in an agent's stead does not count.
    IsRefused,
}

impl Command {
    /// Makes the command that takes all that is in an inbox.
    pub const fn read_all(agent: Option<String>, wait_ms: u32) -> Self {
        Self::Read {
            agent,
            options: None,
            room: None,
            wait_ms,
            second: Second::Supersedes,
        }
    }
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Mail(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The message is in the inboxes of all whom it was sent to.
    Posted {
        /// Its identity.
        id: MessageId,
        /// The address that it was sent to, as it was given.
        given: Box<str>,
        /// Who was meant by it.
        to: Recipient,
        /// When it was accepted.
        ts: Timestamp,
        /// The thread that it belongs to, if it belongs to one.
        thread: Option<Box<str>>,
        /// What its sender should know.
        warnings: Box<[Warning]>,
        /// Why it may wait for long, if nobody who got it is there.
        absence: Option<Box<Absence>>,
    },
    /// What was asked for of an inbox, oldest first; empty when nothing came in time.
    Messages {
        /// The reader's project, if it is not the default one: names are seen from there.
        project: Option<Box<str>>,
        /// Shared with the hand-over that stands until the reply is known to have arrived.
        deliveries: Arc<Vec<Delivery>>,
        /// Only this part of the only one is handed over: it does not fit whole.
        part: Option<Box<Part>>,
        /// The reply had no room for all that was asked for: the rest waits, in its order.
        is_cut: bool,
        /// Present in the agent's first reply after a start: when the relay started. An agent's news is its own: the
        /// person who reads in its stead does not take it.
        restarted: Option<Timestamp>,
        /// How many messages still wait in the inbox, of any sender.
        remaining: usize,
        /// What was handed over before and asked for again, oldest first.
        earlier: Vec<Delivery>,
        /// How long the call waited, in milliseconds.
        waited_ms: i64,
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
        /// How many more wait, which were not asked for.
        remaining: usize,
        /// What stands aside there, oldest first, with for which hold: shown to the person alone.
        held: Vec<(Delivery, HeldBy)>,
        /// The project of whose inbox it is, if it is not the default one: names are seen from there.
        project: Option<Box<str>>,
    },
    /// The message that was asked for.
    Found {
        /// Shared with the inbox.
        message: Arc<Message>,
    },
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Mail(reply)
    }
}

/// Why a [`Command`] was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A body is longer than a message may be.
    BodyTooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The recipient's inbox has no room for the message.
    InboxFull {
        /// Whose inbox.
        agent: AgentName,
        /// How many it holds.
        messages: usize,
        /// How many body bytes it holds.
        bytes: usize,
        /// The bound on messages.
        messages_max: usize,
        /// The bound on body bytes.
        bytes_max: usize,
    },
    /// A thread's name is empty, too long, or not one line of text.
    InvalidThread {
        /// As given, cut if it is long.
        given: String,
    },
    /// The message that is to be answered is none of the latest that the person was sent or has sent, or is no whole id.
    UnknownMessage {
        /// As given, cut if it is long.
        given: String,
    },
    /// The message that is named as the last that an agent has seen is none that it was handed, or so long ago that it is forgotten.
    NotRemembered {
        /// As given, cut if it is long.
        given: String,
        /// The oldest that may be named; none if the agent was handed nothing yet.
        oldest: Option<MessageId>,
    },
    /// The ids of several messages begin as that of the one that is to be answered.
    AmbiguousMessage {
        /// As given.
        given: String,
    },
    /// A message is to be handed to nobody any more when it is posted.
    DeadlineOver {
        /// Its deadline.
        deadline: Timestamp,
        /// When it was posted.
        now: Timestamp,
    },
    /// Nothing can be brought to an agent in that way: its programs have no such boundary.
    CannotBring {
        /// Which agent.
        agent: AgentName,
        /// In which way.
        mode: Mode,
    },
    /// An idempotency key is empty or too long.
    InvalidKey {
        /// As given, cut if it is long.
        given: String,
    },
    /// A message with the same idempotency key said something else.
    OtherContent {
        /// The key, cut if it is long.
        key: String,
    },
    /// The senders have taken turns so many times that somebody should look at it.
    TooManyHops {
        /// The bound.
        hops_max: u32,
        /// The thread.
        thread: String,
    },
    /// No answer came in time. The message was accepted.
    NoAnswer {
        /// The address that it was sent to, as it was given.
        to: String,
        /// How long the call waited, in milliseconds.
        ms: u32,
    },
    /// Another read waits for the inbox already, and this one was to be the only one.
    AlreadyWaits {
        /// For whose inbox.
        agent: AgentName,
    },
    /// Too many reads are parked.
    TooManyWaits {
        /// How many are parked.
        waits: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::BodyTooLong { .. }
            | Self::InvalidThread { .. }
            | Self::InvalidKey { .. }
            | Self::DeadlineOver { .. } => io::Class::Bad,
            Self::UnknownMessage { .. } | Self::AmbiguousMessage { .. } | Self::NotRemembered { .. } => {
                io::Class::Unknown
            }
            Self::AlreadyWaits { .. } | Self::TooManyHops { .. } | Self::OtherContent { .. } => {
                io::Class::Conflict
            }
            Self::CannotBring { .. } => io::Class::Unsupported,
            Self::InboxFull { .. } | Self::TooManyWaits { .. } | Self::NoAnswer { .. } => io::Class::Full,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Mail(refusal)
    }
}

impl Engine {
    /// Carries a command out.
    pub(super) fn mail(
        &mut self,
        session: SessionId,
        call: CallId,
        random: RandomBytes,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Outcome, io::Refusal> {
        let speaker =
            |engine: &Self, named, given: Option<String>| engine.speaker(session, named, given.as_deref());
        match command {
            Command::Post {
                from,
                to,
                kind,
                body,
                options,
            } => {
                let from = speaker(self, NamedAs::Sender, from)?;
                let keyed = Keyed::of(&to, kind, &body, options.as_deref())?;
                if let Some(keyed) = &keyed
                    && let Some(answer) = self.first_answer(from.agent(), keyed, step.now)?
                {
                    self.acts(session, from.agent(), step);
                    return Ok(answer.into());
                }
                let resolved = self.resolve(from.agent(), &to);
                let resolved = resolved.map_err(agents::Refusal::of_address)?;
                let draft = Draft {
                    from,
                    given: to,
                    to: resolved,
                    kind,
                    body,
                    options,
                    keyed,
                };
                self.post(session, call, draft, random, step)
            }
            Command::Read {
                agent,
                options,
                room,
                wait_ms,
                second,
            } => {
                let reader = speaker(self, NamedAs::Reader, agent)?;
                let ReadOptions {
                    from,
                    channel,
                    limit,
                    after,
                    earlier,
                    waits_past_start,
                } = options.map(|options| *options).unwrap_or_default();
                let project = reader.agent().project();
                let from = from.map(|from| self.sender(reader.agent(), &from));
                let channel = channel.map(|channel| self.known_channel(project, &channel));
                let filter = Filter {
                    from: from.transpose()?,
                    channel: channel.transpose()?,
                    limit,
                    earlier,
                    answers: None,
                    room,
                    waits_past_start,
                };
                let after = after.map(|given| self.last_seen(reader.agent(), &given));
                let asked = Read {
                    filter,
                    after: after.transpose()?,
                    wait_ms,
                    second,
                };
                Ok(self.read(session, call, reader, asked, step)?)
            }
            Command::Pending { agent } => {
                let reader = speaker(self, NamedAs::Reader, agent)?;
                self.acts(session, reader.agent(), step);
                Ok(self.pending(&reader).into())
            }
            Command::Peek { agent, limit } => {
                let reader = speaker(self, NamedAs::Reader, agent)?;
                Ok(self.peek(session, reader.agent(), limit).into())
            }
            Command::Find { agent, id } => {
                let reader = speaker(self, NamedAs::Reader, agent)?;
                let message = Arc::clone(self.find(reader.agent(), &id)?);
                Ok(Reply::Found { message }.into())
            }
        }
    }

    /// Finds whom a reader means by the sender of messages: somebody who is there; relay, though nothing can be sent to it; or one who
    /// has gone, of whom it got something that is known still.
    fn sender(&self, reader: &AgentName, given: &str) -> Result<AgentName, agents::Refusal> {
        let name = given.strip_prefix('@').unwrap_or(given);
        if name == RELAY {
            return Ok(AgentName::relay());
        }
        self.known_in(reader.project(), name).or_else(|unknown| {
            let (project, local) = self.home.parted(reader.project(), name);
            let mut senders = self.got(reader).map(|delivery| &delivery.message.from);
            let gone = senders.find(|from| from.project() == project && from.local() == local);
            gone.cloned().ok_or(unknown)
        })
    }

    fn pending(&self, reader: &Speaker) -> Reply {
        let inbox = &self.inboxes[reader.agent()];
        let waiting = inbox.readable(self.readable_with_tools(reader.agent()));
        let kinds = waiting.map(|delivery| delivery.message.kind).collect();
        Reply::Pending { kinds }
    }

    fn peek(&self, session: SessionId, agent: &AgentName, limit: Option<NonZeroUsize>) -> Reply {
        let inbox = &self.inboxes[agent];
        let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
        let deliveries: Vec<Delivery> = inbox.waiting().take(limit).cloned().collect();
        let held = if self.sessions[&session].person {
            let by = |delivery: &Delivery| self.holds.on(&delivery.message.from, agent);
            let held = |delivery: &Delivery| Some((delivery.clone(), by(delivery)?));
            inbox.aside().filter_map(held).collect()
        } else {
            Vec::new()
        };
        Reply::Seen {
            remaining: inbox.waiting().len() - deliveries.len(),
            deliveries,
            held,
            project: seen_from(agent),
        }
    }
}

/// Returns the project from which names are seen in an agent's inbox, if it is not the default one.
pub(super) fn seen_from(agent: &AgentName) -> Option<Box<str>> {
    (agent.project() != DEFAULT_PROJECT).then(|| agent.project().into())
}

//! Posting and reading.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::agents::{NamedAs, Speaker};
use super::events::{Event, WaitEnd};
use super::handover::HandedOver;
use super::inbox::Filter;
use super::io::{self, Answer, Outcome, Sign};
use super::message::{Delivery, Kind, Message};
use super::names::{AgentName, CallId, MessageId, RandomBytes, SessionId, uuid_v4};
use super::time::Timestamp;
use super::waits::Wait;
use super::{Engine, Step};

/// What may be asked about messages. Names are as given, not checked yet.
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
    /// Takes messages out of an agent's inbox, the oldest first.
    Read {
        /// Whose inbox; may be left out by a bound session and by the person's.
        agent: Option<String>,
        /// Only those that one agent sent, if it is named.
        from: Option<String>,
        /// How many at the most; all if it is left out.
        limit: Option<NonZeroUsize>,
        /// How long to wait if there is neither such a message nor the start to tell of, in milliseconds; 0 answers at once.
        wait_ms: u32,
        /// What it does if it is to wait while its session does already.
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
    },
}

/// What a second wait of a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Second {
    /// It ends the first one for the same inbox, empty-handed; waits for other inboxes go on beside it.
    Supersedes,
    /// It is refused, whatever inbox the first one is for.
    IsRefused,
}

impl Command {
    /// Makes the command that takes all that is in an inbox.
    pub const fn read_all(agent: Option<String>, wait_ms: u32) -> Self {
        Self::Read {
            agent,
            from: None,
            limit: None,
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
    /// The message is in the recipient's inbox.
    Posted {
        /// Its identity.
        id: MessageId,
    },
    /// What was asked for of an inbox, oldest first; empty when nothing came in time.
    Messages {
        /// Shared with the hand-over that stands until the reply is known to have arrived.
        deliveries: Arc<Vec<Delivery>>,
        /// Present in the agent's first reply after a start: when the relay started. An agent's news is its own: the
        /// person who reads in its stead does not take it.
        restarted: Option<Timestamp>,
        /// How many messages still wait in the inbox, of any sender.
        remaining: usize,
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
    /// The session waits already, and the read is one that does not end an older one.
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
            Self::BodyTooLong { .. } => io::Class::Bad,
            Self::AlreadyWaits { .. } => io::Class::Conflict,
            Self::InboxFull { .. } | Self::TooManyWaits { .. } => io::Class::Full,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Mail(refusal)
    }
}

/// How a read waits.
struct Patience {
    wait_ms: u32,
    second: Second,
}

/// A message that is to be posted.
struct Draft {
    from: Speaker,
    to: AgentName,
    kind: Kind,
    body: String,
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
            Command::Post { from, to, kind, body } => {
                let from = speaker(self, NamedAs::Sender, from)?;
                let to = self.known(&to)?;
                self.post(Draft { from, to, kind, body }, random, step)
            }
            Command::Read {
                agent,
                from,
                limit,
                wait_ms,
                second,
            } => {
                let reader = speaker(self, NamedAs::Reader, agent)?;
                let from = from.map(|from| self.known(&from)).transpose()?;
                let filter = Filter { from, limit };
                let patience = Patience { wait_ms, second };
                Ok(self.read(session, call, reader, filter, patience, step)?)
            }
            Command::Pending { agent } => Ok(self.pending(&speaker(self, NamedAs::Reader, agent)?).into()),
            Command::Peek { agent } => Ok(self.peek(&speaker(self, NamedAs::Reader, agent)?).into()),
        }
    }

    /// Puts a message into an inbox. Its id is made of `random`.
    fn post(
        &mut self,
        draft: Draft,
        random: RandomBytes,
        step: &mut Step<'_>,
    ) -> Result<Outcome, io::Refusal> {
        let Draft { from, to, kind, body } = draft;
        if body.len() > self.bounds.body_bytes_max {
            return Err(Refusal::BodyTooLong {
                bytes: body.len(),
                bytes_max: self.bounds.body_bytes_max,
            }
            .into());
        }
        let Some(giving_way) = self.room_for(&to, body.len()) else {
            let inbox = &self.inboxes[&to];
            return Err(Refusal::InboxFull {
                messages: inbox.messages(),
                bytes: inbox.bytes(),
                messages_max: self.bounds.inbox_messages_max,
                bytes_max: self.bounds.inbox_bytes_max,
                agent: to,
            }
            .into());
        };
        if self.stopping {
            return Err(io::Refusal::Stopping);
        }
        for handover in giving_way {
            self.sign(handover, Sign::Settled, step);
        }
        let id = MessageId(uuid_v4(random));
        let message = Arc::new(Message {
            id,
            from: from.into_agent(),
            to: to.clone(),
            kind,
            body,
            ts: step.now,
        });
        self.inbox_mut(&to).push(Arc::clone(&message));
        step.note(Event::Accepted {
            message,
            agent: to.clone(),
        });
        step.wakes(to);
        Ok(Reply::Posted { id }.into())
    }

    /// Answers a read, or parks it if there is nothing to say and it may wait.
    fn read(
        &mut self,
        session: SessionId,
        call: CallId,
        reader: Speaker,
        filter: Filter,
        patience: Patience,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Refusal> {
        let agent = reader.into_agent();
        let Patience { wait_ms, second } = patience;
        if wait_ms == 0 || self.stopping || self.has_news(session, &agent, &filter) {
            return Ok(Outcome::Answered(self.take(session, &agent, &filter, step)));
        }
        let parked = &self.sessions[&session].waits;
        if second == Second::IsRefused
            && let Some(first) = parked.first()
        {
            let agent = self.waits[first].agent.clone();
            return Err(Refusal::AlreadyWaits { agent });
        }
        let superseded = parked.iter().find(|call| self.waits[call].agent == agent);
        let superseded = superseded.copied();
        if superseded.is_none() && self.waits.len() >= self.bounds.waits_max {
            return Err(Refusal::TooManyWaits {
                waits: self.waits.len(),
            });
        }
        if let Some(older) = superseded {
            self.end_wait(older, WaitEnd::Superseded, step);
        }
        let expires_at = step.now.plus_millis(i64::from(wait_ms));
        let wait = Wait {
            session,
            agent,
            filter,
            expires_at,
        };
        self.park(call, wait, step);
        Ok(Outcome::Parked)
    }

    fn pending(&self, reader: &Speaker) -> Reply {
        let waiting = self.inboxes[reader.agent()].waiting();
        let kinds = waiting.map(|delivery| delivery.message.kind).collect();
        Reply::Pending { kinds }
    }

    fn peek(&self, reader: &Speaker) -> Reply {
        let deliveries = self.inboxes[reader.agent()].waiting().cloned().collect();
        Reply::Seen { deliveries }
    }

    /// Takes what a filter means of an inbox into an answer.
    pub(super) fn take(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        filter: &Filter,
        step: &mut Step<'_>,
    ) -> Answer {
        let started_at = self.boot.started_at;
        let HandedOver {
            id,
            deliveries,
            notice,
        } = self.hand_over(session, agent, filter, step);
        Answer {
            reply: Reply::Messages {
                deliveries,
                restarted: notice.then_some(started_at),
                remaining: self.inboxes[agent].waiting().len(),
            }
            .into(),
            handover: id,
        }
    }

    /// Tells whether a read of a session has something to say: a message that it asks for, or that the relay started.
    pub(super) fn has_news(&self, session: SessionId, agent: &AgentName, filter: &Filter) -> bool {
        let inbox = &self.inboxes[agent];
        let is_there = inbox.matching(filter).next().is_some();
        is_there || (inbox.notice_due && self.tells(session, agent))
    }
}

//! What a history is made of: copies, sessions, calls, replies, and what became of them.

use super::wanted::Wanted;
use super::*;

/// A message in an inbox.
pub(super) struct Copy<'a> {
    pub(super) step: usize,
    pub(super) inbox: Inbox<'a>,
    /// The place of its message among those that were accepted.
    pub(super) number: usize,
    pub(super) message: &'a Arc<Message>,
}

impl<'a> Copy<'a> {
    pub(super) fn key(&self) -> (&'a AgentName, MessageId) {
        (self.inbox.0, self.message.id)
    }
}

/// An agent, and how many times it had gone before.
pub(super) type Inbox<'a> = (&'a AgentName, usize);

/// A session that was open.
pub(super) struct Admitted {
    pub(super) carrier: Carrier,
    pub(super) agent: Option<AgentName>,
    pub(super) person: bool,
    pub(super) opened: usize,
    pub(super) closed: Option<usize>,
    /// A later instance has taken its agent over.
    pub(super) fenced: Option<usize>,
}

/// A call, on whatever session.
pub(super) struct Asked<'a> {
    pub(super) step: usize,
    pub(super) session: SessionId,
    pub(super) command: &'a Command,
    /// Without the news of the start.
    pub(super) answers: Vec<(usize, Result<Reply, Refusal>)>,
}

/// An answer to an agent.
pub(super) struct Told<'a> {
    pub(super) step: usize,
    pub(super) inbox: Inbox<'a>,
    pub(super) restarted: Option<Timestamp>,
    /// The person asked, and it is not told in an agent's stead; nor is it told where it does not read.
    pub(super) tells_nobody: bool,
    pub(super) fate: Fate,
}

/// A reply to a read.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    pub(super) step: usize,
    pub(super) call: CallId,
    pub(super) inbox: Inbox<'a>,
    pub(super) agent: AgentName,
    pub(super) wanted: Wanted<'a>,
    pub(super) deliveries: &'a Vec<Delivery>,
    pub(super) remaining: usize,
    pub(super) earlier: &'a Vec<Delivery>,
    pub(super) restarted: Option<Timestamp>,
    /// It answers a read.
    pub(super) is_read: bool,
    /// The person read it, and the inbox is an agent's.
    pub(super) in_stead: bool,
    pub(super) fate: Fate,
    /// In which step the session showed that it had read it, and until when it can be cancelled, if nothing needs its room.
    pub(super) read: Option<(usize, Timestamp)>,
}

impl Shown<'_> {
    /// Tells whether there was anything in it that could be lost.
    pub(super) fn hands_over(&self) -> bool {
        !self.deliveries.is_empty() || self.restarted.is_some()
    }

    /// Returns what orders replies that were read: since when they are, and which came first.
    pub(super) fn age(&self) -> (Option<Timestamp>, usize) {
        (self.read.map(|(_, settles_at)| settles_at), self.step)
    }

    /// Tells whether it was read, and longer ago than another one that was.
    pub(super) fn was_read_before(&self, other: &Self) -> bool {
        self.read.is_some() && self.age() < other.age()
    }

    /// Tells in which step its room was free again.
    pub(super) fn ends(&self) -> usize {
        match self.fate {
            Fate::Open => usize::MAX,
            Fate::Arrived(at) | Fate::Failed(at) => at,
        }
    }

    /// Tells whether it was confirmed early in a step, because its room was needed.
    pub(super) fn gave_way(&self, at: usize, step: &Step) -> bool {
        self.fate == Fate::Arrived(at) && self.read.is_some_and(|(_, settles_at)| step.now < settles_at)
    }
}

/// What the inputs say about a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing yet.
    Open,
    /// It arrived, as of that step.
    Arrived(usize),
    /// It did not arrive, as of that step.
    Failed(usize),
}

//! The latest messages, for whoever goes back to them: what was said where, who has read it, and how they take it.
//!
//! All of it is read out of what [`super::ring`] keeps: what is forgotten there is not found here. Going back to a message
//! takes nothing out of an inbox, and what is said about one here is no sign of what became of its deliveries. An agent for whom the person
//! holds a message, or has dropped it, does not find it here either.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::agents::NamedAs;
use super::events::Event;
use super::frames::News;
use super::io::{self, Sign};
use super::limits::EMOJI_BYTES_MAX;
use super::message::Message;
use super::names::{
    AgentName, ChannelName, DEFAULT_PROJECT, HandoverId, MessageId, SessionId, is_seen, shown,
};
use super::ring::{Trace, What};
use super::time::Timestamp;
use super::trace::ShownTo;
use super::{Engine, Step};

/// What may be asked about the latest messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Shows a message. Only the person may ask.
    Get {
        /// Its id; not checked yet.
        message: String,
        /// In whose stead the person asks.
        shown_to: ShownTo,
    },
    /// Lists the latest messages, the newest first. Only the person may ask.
    List {
        /// Which ones.
        of: Of,
        /// Those between these.
        range: Box<Range>,
        /// In whose stead the person asks.
        shown_to: ShownTo,
    },
    /// The session's agent says that it has read a message.
    Mark {
        /// Its id; not checked yet.
        message: String,
    },
    /// The session's agent shows how it takes a message.
    React {
        /// Its id; not checked yet.
        message: String,
        /// How: 1 to [`EMOJI_BYTES_MAX`] bytes that are seen; not checked yet.
        emoji: String,
        /// Or it shows that no more.
        given: bool,
    },
}

/// A part of the latest messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Of {
    /// All of them.
    All,
    /// What an agent has sent.
    Sender(AgentName),
    /// What was said in a channel but for replies, by its whole address; not checked yet.
    Channel(String),
    /// The replies to a message, by its id; not checked yet.
    Replies(String),
    /// What went from the one to the other, and back, each as a message shows it.
    Between(String, String),
}

/// The same, checked.
enum Meant {
    All,
    Sender(AgentName),
    Channel(ChannelName),
    Replies(MessageId),
    Between(String, String),
}

/// A range of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Range {
    /// Older than this message.
    pub before: Option<String>,
    /// Newer than this message.
    pub after: Option<String>,
    /// So many at the most: the newest of them.
    pub limit: usize,
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Records(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A message.
    Shown(Box<Record>),
    /// Messages, the newest first.
    Listed(Vec<Record>),
    /// Since when the agent has read the message.
    Marked {
        /// The message.
        message: Arc<Message>,
        /// When it said so first, or was known to have got it; its own it has read when it sent it.
        at: Timestamp,
    },
    /// How the agent takes the message.
    Reacted {
        /// The message.
        message: Arc<Message>,
        /// Since when it has shown that, if it shows it.
        since: Option<Timestamp>,
    },
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Records(reply)
    }
}

/// What is known of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What was sent.
    pub message: Arc<Message>,
    /// How many replies to it are known.
    pub replies: usize,
    /// How agents take it, in the order in which somebody first did so.
    pub reactions: Vec<Reaction>,
    /// Who has read it since when, in that order: who said so, and who is known to have read the reply, or the frame, that it was in. Its
    /// sender is not among them.
    pub readers: Vec<(AgentName, Timestamp)>,
}

/// How some agents take a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reaction {
    /// How.
    pub emoji: Arc<str>,
    /// Who, since when, in that order.
    pub agents: Vec<(AgentName, Timestamp)>,
}

/// Why a [`Command`] was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// An agent's session asked what only the person may.
    OnlyThePerson,
    /// It is the id of no message that whoever asks is shown and whose acceptance is kept.
    Unknown {
        /// As given, cut if it is long.
        given: String,
    },
    /// Nothing can be shown so.
    InvalidEmoji {
        /// As given, cut if it is long.
        given: String,
    },
    /// Agents show in so many ways how they take the message that nobody needs another one.
    TooManyReactions {
        /// How many there are.
        reactions: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::OnlyThePerson | Self::InvalidEmoji { .. } => io::Class::Bad,
            Self::Unknown { .. } => io::Class::Unknown,
            Self::TooManyReactions { .. } => io::Class::Conflict,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Records(refusal)
    }
}

impl Engine {
    /// Carries a command out.
    pub(super) fn about_records(
        &mut self,
        session: SessionId,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        // What was settled on the way here has happened.
        self.trace_events(step);
        match command {
            Command::Get { message, shown_to } => {
                self.only_the_person(session)?;
                let (place, _) = self.trace.find(&message, &shown_to)?;
                let record = self.trace.records(&[place]).pop().expect("one is asked for");
                Ok(Reply::Shown(Box::new(record)))
            }
            Command::List { of, range, shown_to } => {
                self.only_the_person(session)?;
                let meant = self.meant(of, &shown_to)?;
                let places = self.trace.listed(&meant, &range, &shown_to)?;
                Ok(Reply::Listed(self.trace.records(&places)))
            }
            Command::Mark { message } => self.mark(session, &message, step),
            Command::React {
                message,
                emoji,
                given,
            } => self.react(session, &message, &emoji, given, step),
        }
    }

    fn only_the_person(&self, session: SessionId) -> Result<(), Refusal> {
        match self.sessions[&session].person {
            true => Ok(()),
            false => Err(Refusal::OnlyThePerson),
        }
    }

    fn meant(&self, of: Of, shown_to: &ShownTo) -> Result<Meant, io::Refusal> {
        Ok(match of {
            Of::All => Meant::All,
            Of::Sender(agent) => Meant::Sender(agent),
            Of::Channel(address) => Meant::Channel(self.known_channel(DEFAULT_PROJECT, &address)?),
            Of::Replies(message) => Meant::Replies(self.trace.find(&message, shown_to)?.1.id),
            Of::Between(one, other) => Meant::Between(one, other),
        })
    }

    fn mark(&mut self, session: SessionId, given: &str, step: &mut Step<'_>) -> Result<Reply, io::Refusal> {
        let agent = self.speaker(session, NamedAs::Session, None)?.into_agent();
        let (place, message) = self.trace.find(given, &ShownTo::Agent(agent.clone()))?;
        let message = Arc::clone(message);
        let record = self.trace.records(&[place]).pop().expect("one is asked for");
        self.acts(session, &agent, step);
        let before = record.readers.iter().find(|(reader, _)| *reader == agent);
        let at = match before {
            Some((_, at)) => *at,
            None if message.from == agent => message.ts,
            None => {
                let news = News::Read {
                    message: Arc::clone(&message),
                    by: agent.clone(),
                };
                self.tell_nodes([&message.from], &news, step);
                step.note(Event::Marked {
                    message: Arc::clone(&message),
                    agent,
                });
                step.wall
            }
        };
        Ok(Reply::Marked { message, at })
    }

    fn react(
        &mut self,
        session: SessionId,
        message: &str,
        emoji: &str,
        given: bool,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        let agent = self.speaker(session, NamedAs::Session, None)?.into_agent();
        if !(1..=EMOJI_BYTES_MAX).contains(&emoji.len()) || !emoji.chars().all(is_seen) {
            let given = shown(emoji);
            return Err(Refusal::InvalidEmoji { given }.into());
        }
        let (place, message) = self.trace.find(message, &ShownTo::Agent(agent.clone()))?;
        let message = Arc::clone(message);
        let all = self.trace.reactions(message.id).iter();
        let reactions = all.clone().map(|reaction| reaction.agents.len()).sum();
        let mut same = all.filter(|reaction| *reaction.emoji == *emoji);
        let before = same.find_map(|same| same.agents.iter().find(|(other, _)| *other == agent));
        let since = before.map(|(_, at)| *at);
        if given && since.is_none() && reactions >= self.bounds.reactions_max {
            return Err(Refusal::TooManyReactions { reactions }.into());
        }
        self.acts(session, &agent, step);
        if since.is_some() == given {
            return Ok(Reply::Reacted { message, since });
        }
        let emoji: Arc<str> = emoji.into();
        let news = News::Reacted {
            message: Arc::clone(&message),
            by: agent.clone(),
            emoji: Arc::clone(&emoji),
            given,
        };
        let recipients: Vec<AgentName> = self.trace.recipients(place).cloned().collect();
        let concerned = recipients.iter().chain([&message.from]);
        self.tell_nodes(concerned.filter(|other| **other != agent), &news, step);
        step.note(Event::Reacted {
            message: Arc::clone(&message),
            agent,
            emoji,
            given,
        });
        let since = given.then_some(step.wall);
        Ok(Reply::Reacted { message, since })
    }
}

/// Going back.
impl Trace {
    /// Returns how agents take a message.
    pub fn reactions(&self, message: MessageId) -> &[Reaction] {
        self.reactions.get(&message).map_or(&[], Vec::as_slice)
    }

    /// Keeps how an agent takes a message, or that it does so no more.
    pub(super) fn react(
        &mut self,
        message: MessageId,
        agent: &AgentName,
        emoji: &Arc<str>,
        given: bool,
        at: Timestamp,
    ) {
        let mut reactions = self.reactions.remove(&message).unwrap_or_default();
        let same = reactions.iter().position(|reaction| reaction.emoji == *emoji);
        let same = same.unwrap_or_else(|| {
            reactions.push(Reaction {
                emoji: Arc::clone(emoji),
                agents: Vec::new(),
            });
            reactions.len() - 1
        });
        let agents = &mut reactions[same].agents;
        agents.retain(|(other, _)| other != agent);
        if given {
            agents.push((agent.clone(), at));
        } else if agents.is_empty() {
            reactions.remove(same);
        }
        if !reactions.is_empty() {
            self.reactions.insert(message, reactions);
        }
    }

    /// Finds a message by its whole id, among those that somebody is shown.
    fn find(&self, given: &str, shown_to: &ShownTo) -> Result<(usize, &Arc<Message>), Refusal> {
        let unknown = || Refusal::Unknown { given: shown(given) };
        let id = MessageId(given.parse().map_err(|_| unknown())?);
        // Most go back to what was said a moment ago.
        let mut latest = self.accepted().rev();
        let found = latest.find(|(_, message)| message.id == id).ok_or_else(unknown)?;
        match self.is_shown(found, shown_to) && !self.kept_from_reader(shown_to).contains(found.1) {
            true => Ok(found),
            false => Err(unknown()),
        }
    }

    /// Tells whether somebody is shown a message: who has sent it, who got it, and all of a project what was said in one of its channels.
    fn is_shown(&self, (place, message): (usize, &Arc<Message>), shown_to: &ShownTo) -> bool {
        let project = match shown_to {
            ShownTo::Person => return true,
            ShownTo::Project(project) => project,
            ShownTo::Agent(agent) => agent.project(),
        };
        let is_in_channel = message.to.is_channel_of(project);
        is_in_channel || shown_to.is(&message.from) || self.recipients(place).any(|agent| shown_to.is(agent))
    }

    /// Finds what is kept from whoever is shown messages, since the person holds it.
    fn kept_from_reader(&self, shown_to: &ShownTo) -> Kept {
        match shown_to {
            ShownTo::Person | ShownTo::Project(_) => Kept::default(),
            ShownTo::Agent(agent) => Kept {
                messages: self.kept_from(agent),
                reader: Some(agent.clone()),
            },
        }
    }

    /// Lists the places of some messages, the newest first.
    fn listed(&self, of: &Meant, range: &Range, shown_to: &ShownTo) -> Result<Vec<usize>, Refusal> {
        let place_of = |given: &Option<String>| match given {
            Some(given) => self.find(given, shown_to).map(|(place, _)| Some(place)),
            None => Ok(None),
        };
        let (before, after) = (place_of(&range.before)?, place_of(&range.after)?);
        let is_meant = |message: &Message| match of {
            Meant::All => true,
            Meant::Sender(agent) => message.from == *agent,
            Meant::Channel(channel) => message.to.is_channel(channel) && message.answers().is_none(),
            Meant::Replies(answered) => message.answers() == Some(*answered),
            Meant::Between(one, other) => {
                let ends = (message.from.as_str(), message.to.as_str());
                ends == (one, other) || ends == (other, one)
            }
        };
        let kept = self.kept_from_reader(shown_to);
        let meant = self.accepted().rev().filter(|found| {
            before.is_none_or(|before| found.0 < before)
                && after.is_none_or(|after| found.0 > after)
                && is_meant(found.1)
                && self.is_shown(*found, shown_to)
                && !kept.contains(found.1)
        });
        Ok(meant.take(range.limit).map(|(place, _)| place).collect())
    }

    /// Shows the messages that were accepted at some places, the newest first.
    fn records(&self, places: &[usize]) -> Vec<Record> {
        let Some(oldest) = places.last() else {
            return Vec::new();
        };
        let mut records: BTreeMap<MessageId, Record> = BTreeMap::new();
        let mut handovers: BTreeMap<HandoverId, Holds<'_>> = BTreeMap::new();
        let mut order = VecDeque::new();
        let mut wanted = places.iter().rev().peekable();
        for (place, entry) in (*oldest..).zip(self.since(*oldest)) {
            match &entry.what {
                What::Accepted(message) | What::Sent { message, .. } => {
                    if let Some(answered) = message.answers()
                        && let Some(record) = records.get_mut(&answered)
                    {
                        record.replies += 1;
                    }
                    if wanted.next_if_eq(&&place).is_some() {
                        order.push_front(message.id);
                        let reactions = self.reactions(message.id).to_vec();
                        records.insert(message.id, Record::of(Arc::clone(message), reactions));
                    }
                }
                What::HandedOver {
                    message,
                    agent,
                    handover,
                    ..
                } => {
                    if records.contains_key(message) {
                        let holds = handovers.entry(*handover).or_insert_with(|| Holds::of(agent));
                        holds.messages.push(*message);
                    }
                }
                What::Read { handover, .. } => {
                    if let Some(holds) = handovers.get_mut(handover) {
                        holds.read_at = Some(entry.at);
                    }
                }
                What::Delivered { handover, by } if *by != Sign::Failed => {
                    if let Some(holds) = handovers.get_mut(handover) {
                        holds.read_at = holds.read_at.or(Some(entry.at));
                    }
                }
                What::Delivered { handover, .. } | What::Undone { handover, .. } => {
                    handovers.remove(handover);
                }
                What::Marked { message, agent } => {
                    if let Some(record) = records.get_mut(message) {
                        record.is_read(agent, entry.at);
                    }
                }
                What::Queued { .. }
                | What::Brought { .. }
                | What::HandedOn { .. }
                | What::AskedAgain { .. }
                | What::Expired { .. }
                | What::Held { .. }
                | What::Allowed { .. }
                | What::Dropped { .. }
                | What::Awaited { .. }
                | What::PushFailed { .. }
                | What::Receipt { .. } => {}
            }
        }
        for holds in handovers.values() {
            for message in &holds.messages {
                if let Some(at) = holds.read_at {
                    let record = records.get_mut(message).expect("it is one of them");
                    record.is_read(holds.agent, at);
                }
            }
        }
        let in_order = order
            .iter()
            .map(|id| records.remove(id).expect("each is there once"));
        in_order.collect()
    }
}

/// What is kept from an agent. What it has sent itself is not.
#[derive(Default)]
struct Kept {
    messages: BTreeSet<MessageId>,
    reader: Option<AgentName>,
}

impl Kept {
    fn contains(&self, message: &Message) -> bool {
        self.messages.contains(&message.id) && self.reader.as_ref() != Some(&message.from)
    }
}

/// What a hand-over holds of some messages.
struct Holds<'a> {
    agent: &'a AgentName,
    messages: Vec<MessageId>,
    read_at: Option<Timestamp>,
}

impl<'a> Holds<'a> {
    fn of(agent: &'a AgentName) -> Self {
        Self {
            agent,
            messages: Vec::new(),
            read_at: None,
        }
    }
}

impl Record {
    fn of(message: Arc<Message>, reactions: Vec<Reaction>) -> Self {
        Self {
            message,
            replies: 0,
            reactions,
            readers: Vec::new(),
        }
    }

    /// Takes note of a reader, at the place that its time has: what was read first counts.
    fn is_read(&mut self, by: &AgentName, at: Timestamp) {
        let before = self.readers.iter().position(|(reader, _)| reader == by);
        if let Some(before) = before {
            if self.readers[before].1 <= at {
                return;
            }
            self.readers.remove(before);
        }
        let place = self
            .readers
            .partition_point(|(reader, read_at)| (*read_at, reader) < (at, by));
        self.readers.insert(place, (by.clone(), at));
    }
}

//! What happened to each message, step by step, for the person who asks what became of one.
//!
//! A reader of the events and of nothing else: [`Trace::record`] takes each of them in once, with its time, so that a new event is
//! one arm more there. It decides nothing about deliveries, and nothing is decided about them by it.
//!
//! The latest steps of all messages are kept, up to [`Bounds::trace_max`], and [`Bounds::trace_bytes_max`] of what they said; of more, the
//! oldest is forgotten first. A message is shown, here and in [`super::records`], while its acceptance is kept. A restart forgets all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

use super::events::{Event, Places};
use super::io::{self, Carrier, Effect, Sign};
use super::limits::{Bounds, ID_DIGITS_MIN};
use super::message::{Kind, Message};
use super::names::{AgentName, HandoverId, MessageId, Recipient, ResolvedBy, Seq, SessionId, shown};
use super::pushes::PushFailed;
use super::receipts::Receipt;
use super::records::Reaction;
use super::time::Timestamp;
use super::{Engine, Step};

/// What may be asked about the trace. Only the person may.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Shows what happened to a message.
    Trace {
        /// Its id, or the first [`ID_DIGITS_MIN`] or more digits of it; not checked yet.
        message: String,
        /// In whose stead the person asks.
        shown_to: ShownTo,
    },
}

/// Who is shown what happened: of what they have sent all, of what they got their own deliveries, of all else nothing. Only the person
/// may name a message by the beginning of its id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ShownTo {
    /// Whoever reads what the person does: all of everything.
    Person,
    /// The agents of a project.
    Project(String),
    /// One agent.
    Agent(AgentName),
}

impl ShownTo {
    pub(super) fn is(&self, agent: &AgentName) -> bool {
        match self {
            Self::Person => true,
            Self::Project(project) => agent.project() == project,
            Self::Agent(own) => agent == own,
        }
    }
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Trace(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// All that happened to the message until now.
    Traced(Box<Traced>),
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Trace(reply)
    }
}

/// What happened to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    /// Its identity.
    pub id: MessageId,
    /// Who sent it.
    pub from: AgentName,
    /// Where it was sent.
    pub to: Recipient,
    /// What it is for.
    pub kind: Kind,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// What happened to its deliveries, in the order in which it did. Empty if it went to nobody.
    pub moments: Vec<Moment>,
}

/// A step of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// When it was.
    pub at: Timestamp,
    /// To whom the delivery goes.
    pub agent: AgentName,
    /// Its place in that inbox.
    pub seq: Seq,
    /// What happened.
    pub what: Happened,
}

/// What happens to a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// It is in the inbox.
    Queued,
    /// It is in a reply.
    HandedOver {
        /// To whom.
        session: SessionId,
        /// How it travels there.
        carrier: Carrier,
    },
    /// The reply was read; it may still be cancelled.
    Read {
        /// What said so.
        by: Sign,
    },
    /// The agent has it, and is to give a receipt.
    Awaited,
    /// The target that it was pushed to did not take it.
    PushFailed(PushFailed),
    /// The agent has said what became of it.
    Receipt(Receipt),
    /// The agent has said that it has read it.
    Marked,
    /// It is back in its old place.
    Undone {
        /// What said that the reply did not arrive.
        by: Sign,
    },
    /// It is known to have arrived.
    Delivered {
        /// What said so: the same as before if the reply was read.
        by: Sign,
    },
}

/// Why nothing is shown of a message. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// An agent's session asked.
    OnlyThePerson,
    /// It is no id, too short to be the beginning of one, or that of no message whose acceptance is kept.
    Unknown {
        /// As given, cut if it is long.
        given: String,
    },
    /// The ids of several messages begin so.
    Ambiguous {
        /// As given.
        given: String,
        /// How many they are.
        messages: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::OnlyThePerson => io::Class::Bad,
            Self::Unknown { .. } | Self::Ambiguous { .. } => io::Class::Unknown,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Trace(refusal)
    }
}

/// The latest steps of all messages, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Trace {
    steps: VecDeque<Entry>,
    /// The bytes of the messages in them.
    bytes: usize,
    /// How agents take those messages, if somebody has said so.
    pub(super) reactions: BTreeMap<MessageId, Vec<Reaction>>,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Entry {
    pub at: Timestamp,
    pub what: What,
}

/// What a step is about: one delivery, or all that are in a hand-over, whichever they are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum What {
    /// A message, and behind it who got it.
    Accepted(Arc<Message>),
    Queued {
        message: MessageId,
        agent: AgentName,
        seq: Seq,
    },
    /// Both of a message to one agent, as most are, by its name: one step.
    Sent {
        message: Arc<Message>,
        agent: AgentName,
        seq: Seq,
    },
    HandedOver {
        message: MessageId,
        agent: AgentName,
        handover: HandoverId,
        session: SessionId,
        carrier: Carrier,
    },
    Read {
        handover: HandoverId,
        by: Sign,
    },
    PushFailed {
        handover: HandoverId,
        failed: Box<PushFailed>,
    },
    Awaited {
        handover: HandoverId,
    },
    Receipt {
        handover: HandoverId,
        receipt: Receipt,
    },
    Undone {
        handover: HandoverId,
        by: Sign,
    },
    Delivered {
        handover: HandoverId,
        by: Sign,
    },
    /// An agent has said that it has read a message, whoever got it.
    Marked {
        message: MessageId,
        agent: AgentName,
    },
}

impl What {
    /// Returns the message that was accepted, if one was.
    pub fn accepted(&self) -> Option<&Arc<Message>> {
        match self {
            Self::Accepted(message) | Self::Sent { message, .. } => Some(message),
            Self::Queued { .. }
            | Self::HandedOver { .. }
            | Self::Read { .. }
            | Self::Awaited { .. }
            | Self::PushFailed { .. }
            | Self::Receipt { .. }
            | Self::Undone { .. }
            | Self::Delivered { .. }
            | Self::Marked { .. } => None,
        }
    }
}

// Every post writes one at least.
const _: () = assert!(size_of::<Entry>() <= 72);

impl Trace {
    /// Takes an event in.
    fn record(&mut self, at: Timestamp, event: &Event, bounds: &Bounds) {
        let mut push = |what: What| {
            self.bytes += what.accepted().map_or(0, |message| message.bytes());
            self.steps.push_back(Entry { at, what });
            while self.steps.len() > bounds.trace_max || self.bytes > bounds.trace_bytes_max {
                let Some(oldest) = self.steps.pop_front() else {
                    break;
                };
                if let Some(message) = oldest.what.accepted() {
                    self.bytes -= message.bytes();
                    self.reactions.remove(&message.id);
                }
            }
        };
        match event {
            Event::Accepted {
                message,
                agents,
                places,
            } => {
                if let ([agent], Places::One(seq)) = (&agents[..], places)
                    && message.to.by() == ResolvedBy::Name
                {
                    push(What::Sent {
                        message: Arc::clone(message),
                        agent: agent.clone(),
                        seq: *seq,
                    });
                    return;
                }
                push(What::Accepted(Arc::clone(message)));
                for (agent, seq) in agents.iter().zip(places.as_slice()) {
                    push(What::Queued {
                        message: message.id,
                        agent: agent.clone(),
                        seq: *seq,
                    });
                }
            }
            Event::HandedOver {
                handover,
                session,
                carrier,
                agent,
                deliveries,
                notice: _,
            } => {
                for delivery in deliveries.iter() {
                    push(What::HandedOver {
                        message: delivery.message.id,
                        agent: agent.clone(),
                        handover: *handover,
                        session: *session,
                        carrier: *carrier,
                    });
                }
            }
            Event::Read { handover, by } => push(What::Read {
                handover: *handover,
                by: *by,
            }),
            Event::Awaited { handover } => push(What::Awaited { handover: *handover }),
            Event::PushFailed {
                handover,
                error,
                again_at,
                ..
            } => push(What::PushFailed {
                handover: *handover,
                failed: Box::new(PushFailed {
                    error: Arc::clone(error),
                    again_at: *again_at,
                }),
            }),
            Event::Receipt {
                handover, receipt, ..
            } => push(What::Receipt {
                handover: *handover,
                receipt: receipt.clone(),
            }),
            Event::Undone { handover, by, .. } => push(What::Undone {
                handover: *handover,
                by: *by,
            }),
            Event::Confirmed { handover, by, .. } => push(What::Delivered {
                handover: *handover,
                by: *by,
            }),
            Event::Marked { message, agent } => push(What::Marked {
                message: message.id,
                agent: agent.clone(),
            }),
            Event::Reacted {
                message,
                agent,
                emoji,
                given,
            } => self.react(message.id, agent, emoji, *given, at),
            Event::Opened { .. }
            | Event::Closed { .. }
            | Event::Registered { .. }
            | Event::TakenOver { .. }
            | Event::Gone { .. }
            | Event::Joined { .. }
            | Event::Left { .. }
            | Event::Parked { .. }
            | Event::WaitEnded { .. }
            | Event::Passed { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::HeldBack { .. }
            | Event::Invoked { .. }
            | Event::InvocationEnded { .. }
            | Event::ActionDenied { .. }
            | Event::NodeCame { .. }
            | Event::NodeLeft { .. }
            | Event::NodeLapsed { .. }
            | Event::Bound { .. }
            | Event::Unbound { .. }
            | Event::Stopping => {}
        }
    }

    /// Checks what is kept against the bounds.
    pub fn check(&self, bounds: &Bounds) {
        let messages = self.steps.iter().filter_map(|entry| entry.what.accepted());
        let bytes: usize = messages.map(|message| message.bytes()).sum();
        assert!(
            self.steps.len() <= bounds.trace_max && bytes <= bounds.trace_bytes_max && self.bytes == bytes,
            "the trace forgets at its bounds"
        );
        for (message, reactions) in &self.reactions {
            let agents = reactions.iter().map(|reaction| reaction.agents.len());
            assert!(
                self.accepted().any(|(_, kept)| kept.id == *message)
                    && agents.clone().all(|agents| agents > 0)
                    && (1..=bounds.reactions_max).contains(&agents.sum()),
                "reactions are to what is kept, and no more than the bound"
            );
        }
    }

    /// Goes through the messages whose acceptance is kept, the latest last, with their places.
    pub fn accepted(&self) -> impl DoubleEndedIterator<Item = (usize, &Arc<Message>)> {
        let places = self.steps.iter().enumerate();
        places.filter_map(|(at, entry)| Some((at, entry.what.accepted()?)))
    }

    /// Goes through who got the message that was accepted at a place.
    pub fn recipients(&self, place: usize) -> impl Iterator<Item = &AgentName> {
        let mut steps = self.steps.range(place..);
        let (one, id) = match steps.next().map(|entry| &entry.what) {
            Some(What::Sent { agent, message, .. }) => (Some(agent), message.id),
            Some(what) => (None, what.accepted().expect("a message was accepted there").id),
            None => unreachable!("the place of a step"),
        };
        let many = steps.map_while(move |entry| {
            let What::Queued { message, agent, .. } = &entry.what else {
                return None;
            };
            (*message == id).then_some(agent)
        });
        one.into_iter().chain(many)
    }

    /// Goes through what has happened since a place.
    pub fn since(&self, place: usize) -> impl Iterator<Item = &Entry> {
        self.steps.range(place..)
    }

    /// Shows what happened to the one message whose id begins so.
    fn of(&self, given: &str) -> Result<Traced, Refusal> {
        let unknown = || Refusal::Unknown { given: shown(given) };
        let begins_so = beginning(given).ok_or_else(unknown)?;
        let mut found = self.accepted().filter(|(_, message)| begins_so(message.id));
        let (place, message) = found.next().ok_or_else(unknown)?;
        let others = found.count();
        if others > 0 {
            return Err(Refusal::Ambiguous {
                given: shown(given),
                messages: 1 + others,
            });
        }
        Ok(Traced {
            id: message.id,
            from: message.from.clone(),
            to: message.to.clone(),
            kind: message.kind,
            accepted_at: message.ts,
            moments: self.moments(place, message.id),
        })
    }

    /// Lists what happened to the deliveries of a message since it was accepted, which is the step at that place.
    fn moments(&self, place: usize, id: MessageId) -> Vec<Moment> {
        let mut places: BTreeMap<&AgentName, Seq> = BTreeMap::new();
        let mut handovers: BTreeMap<HandoverId, &AgentName> = BTreeMap::new();
        let mut moments = Vec::new();
        for entry in self.since(place) {
            let (agent, what) = match &entry.what {
                What::Queued { message, agent, seq } if *message == id => {
                    places.insert(agent, *seq);
                    (agent, Happened::Queued)
                }
                What::Sent { message, agent, seq } if message.id == id => {
                    places.insert(agent, *seq);
                    (agent, Happened::Queued)
                }
                What::HandedOver {
                    message,
                    agent,
                    handover,
                    session,
                    carrier,
                } if *message == id => {
                    handovers.insert(*handover, agent);
                    let (session, carrier) = (*session, *carrier);
                    (agent, Happened::HandedOver { session, carrier })
                }
                What::Marked { message, agent } if *message == id && places.contains_key(agent) => {
                    (agent, Happened::Marked)
                }
                What::Accepted(_)
                | What::Queued { .. }
                | What::Sent { .. }
                | What::HandedOver { .. }
                | What::Marked { .. } => continue,
                What::Read { handover, by } => match handovers.get(handover) {
                    Some(agent) => (*agent, Happened::Read { by: *by }),
                    None => continue,
                },
                What::Awaited { handover } => match handovers.get(handover) {
                    Some(agent) => (*agent, Happened::Awaited),
                    None => continue,
                },
                What::PushFailed { handover, failed } => match handovers.get(handover) {
                    Some(agent) => (*agent, Happened::PushFailed((**failed).clone())),
                    None => continue,
                },
                What::Receipt { handover, receipt } => match handovers.get(handover) {
                    Some(agent) => (*agent, Happened::Receipt(receipt.clone())),
                    None => continue,
                },
                What::Undone { handover, by } => match handovers.get(handover) {
                    Some(agent) => (*agent, Happened::Undone { by: *by }),
                    None => continue,
                },
                // It was told of as a receipt.
                What::Delivered { by: Sign::Failed, .. } => continue,
                What::Delivered { handover, by } => match handovers.get(handover) {
                    Some(agent) => (*agent, Happened::Delivered { by: *by }),
                    None => continue,
                },
            };
            moments.push(Moment {
                at: entry.at,
                agent: agent.clone(),
                seq: *places.get(agent).expect("a delivery is queued first"),
                what,
            });
        }
        moments
    }
}

/// Makes what tells whether an id begins as it was given: in hex digits of either case, with hyphens where they belong or with none; none
/// if no id could be meant.
fn beginning(given: &str) -> Option<impl Fn(MessageId) -> bool> {
    let given = given.to_ascii_lowercase();
    let digits: String = given.chars().filter(|c| *c != '-').collect();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !(ID_DIGITS_MIN..=32).contains(&digits.len()) {
        return None;
    }
    let least = Uuid::try_parse(&format!("{digits:0<32}")).ok()?;
    let is_written_so = given == digits || least.to_string().starts_with(&given);
    let shift = 4 * (32 - digits.len());
    let begins_so = move |id: MessageId| id.0.as_u128() >> shift == least.as_u128() >> shift;
    is_written_so.then_some(begins_so)
}

impl Engine {
    /// Carries a command out.
    pub(super) fn about_trace(
        &mut self,
        session: SessionId,
        command: &Command,
        step: &mut Step<'_>,
    ) -> Result<io::Outcome, Refusal> {
        if !self.sessions[&session].person {
            return Err(Refusal::OnlyThePerson);
        }
        // What was settled on the way here has happened.
        self.trace_events(step);
        let Command::Trace { message, shown_to } = command;
        let unknown = || Refusal::Unknown {
            given: shown(message),
        };
        if *shown_to != ShownTo::Person && Uuid::try_parse(message).is_err() {
            return Err(unknown());
        }
        let mut traced = self.trace.of(message)?;
        if !shown_to.is(&traced.from) {
            traced.moments.retain(|moment| shown_to.is(&moment.agent));
            if traced.moments.is_empty() {
                return Err(unknown());
            }
        }
        Ok(Reply::Traced(Box::new(traced)).into())
    }

    /// Takes the events of a step in that were not taken in yet.
    pub(super) fn trace_events(&mut self, step: &mut Step<'_>) {
        for effect in &step.out[step.traced..] {
            if let Effect::Note(event) = effect {
                self.trace.record(step.now, event, &self.bounds);
            }
        }
        step.traced = step.out.len();
    }
}

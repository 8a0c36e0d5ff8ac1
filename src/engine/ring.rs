//! The latest steps of all messages: a ring of a bounded length.
//!
//! A reader of the events and of nothing else: [`Trace::record`] takes each of them in once, with its time, so that a new event is
//! one arm more there. It decides nothing about deliveries, and nothing is decided about them by it. What is asked of it is asked in
//! [`super::trace`] and [`super::records`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::events::{Event, Places};
use super::handling::Mode;
use super::holds::HeldBy;
use super::io::{Carrier, Sign};
use super::limits::Bounds;
use super::message::Message;
use super::names::{AgentName, HandoverId, MessageId, ResolvedBy, Seq, SessionId};
use super::pushes::PushFailed;
use super::receipts::Receipt;
use super::records::Reaction;
use super::time::Timestamp;

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
    Brought {
        message: MessageId,
        agent: AgentName,
        mode: Mode,
    },
    HandedOver {
        message: MessageId,
        agent: AgentName,
        handover: HandoverId,
        session: SessionId,
        carrier: Carrier,
        person: bool,
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
        said: Box<(Receipt, Option<Box<str>>)>,
    },
    Undone {
        handover: HandoverId,
        by: Sign,
    },
    Delivered {
        handover: HandoverId,
        by: Sign,
    },
    AskedAgain {
        message: MessageId,
        agent: AgentName,
        after: MessageId,
    },
    Expired {
        message: MessageId,
        agent: AgentName,
    },
    Held {
        message: MessageId,
        agent: AgentName,
        by: HeldBy,
    },
    Allowed {
        message: MessageId,
        agent: AgentName,
    },
    Dropped {
        message: MessageId,
        agent: AgentName,
    },
    /// It is in the inbox of another agent now.
    HandedOn {
        message: MessageId,
        from: AgentName,
        agent: AgentName,
        seq: Seq,
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
            | Self::Brought { .. }
            | Self::HandedOver { .. }
            | Self::Read { .. }
            | Self::Awaited { .. }
            | Self::PushFailed { .. }
            | Self::Receipt { .. }
            | Self::Undone { .. }
            | Self::Delivered { .. }
            | Self::AskedAgain { .. }
            | Self::Expired { .. }
            | Self::Held { .. }
            | Self::Allowed { .. }
            | Self::Dropped { .. }
            | Self::HandedOn { .. }
            | Self::Marked { .. } => None,
        }
    }
}

// Every post writes one at least.
const _: () = assert!(size_of::<Entry>() <= 72);

impl Trace {
    /// Takes an event in.
    pub(super) fn record(&mut self, at: Timestamp, event: &Event, bounds: &Bounds) {
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
            Event::BroughtAsItsAgentHasIt { message, agent, mode } => push(What::Brought {
                message: *message,
                agent: agent.clone(),
                mode: *mode,
            }),
            Event::HandedOver {
                handover,
                session,
                carrier,
                agent,
                person,
                deliveries,
                notice: _,
                part: _,
            } => {
                for delivery in deliveries.iter() {
                    push(What::HandedOver {
                        message: delivery.message.id,
                        agent: agent.clone(),
                        handover: *handover,
                        session: *session,
                        carrier: *carrier,
                        person: *person,
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
                handover,
                receipt,
                metadata,
                ..
            } => push(What::Receipt {
                handover: *handover,
                said: Box::new((receipt.clone(), metadata.clone())),
            }),
            Event::Undone { handover, by, .. } => push(What::Undone {
                handover: *handover,
                by: *by,
            }),
            Event::Confirmed { handover, by, .. } => push(What::Delivered {
                handover: *handover,
                by: *by,
            }),
            Event::AskedAgain {
                agent,
                deliveries,
                after,
            } => {
                for delivery in deliveries.iter() {
                    push(What::AskedAgain {
                        message: delivery.message.id,
                        agent: agent.clone(),
                        after: *after,
                    });
                }
            }
            Event::Expired { agent, delivery } => push(What::Expired {
                message: delivery.message.id,
                agent: agent.clone(),
            }),
            Event::Held { agent, delivery, by } => push(What::Held {
                message: delivery.message.id,
                agent: agent.clone(),
                by: *by,
            }),
            Event::Allowed { agent, delivery } => push(What::Allowed {
                message: delivery.message.id,
                agent: agent.clone(),
            }),
            Event::Dropped { agent, delivery } => push(What::Dropped {
                message: delivery.message.id,
                agent: agent.clone(),
            }),
            Event::HandedOn {
                message,
                from,
                to,
                seq,
            } => push(What::HandedOn {
                message: message.id,
                from: from.clone(),
                agent: to.clone(),
                seq: *seq,
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
            | Event::StandsBy { .. }
            | Event::Does { .. }
            | Event::Recognised { .. }
            | Event::Passed { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::HeldBack { .. }
            | Event::Holds { .. }
            | Event::Invoked { .. }
            | Event::InvocationEnded { .. }
            | Event::ActionDenied { .. }
            | Event::NodeCame { .. }
            | Event::NodeLeft { .. }
            | Event::NodeLapsed { .. }
            | Event::Bound { .. }
            | Event::Unbound { .. }
            | Event::SpawnWaits { .. }
            | Event::Worker(_)
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

    /// Finds the messages that an agent is not shown: they were held, and it was not let to have them since. They may be dropped, or
    /// have expired.
    pub fn kept_from(&self, reader: &AgentName) -> BTreeSet<MessageId> {
        let mut kept = BTreeSet::new();
        for entry in &self.steps {
            match &entry.what {
                What::Held { message, agent, .. } if agent == reader => drop(kept.insert(*message)),
                What::Allowed { message, agent } if agent == reader => drop(kept.remove(message)),
                What::Held { .. }
                | What::Allowed { .. }
                | What::Accepted(_)
                | What::Queued { .. }
                | What::Sent { .. }
                | What::Brought { .. }
                | What::HandedOver { .. }
                | What::Read { .. }
                | What::Awaited { .. }
                | What::PushFailed { .. }
                | What::Receipt { .. }
                | What::Undone { .. }
                | What::Delivered { .. }
                | What::AskedAgain { .. }
                | What::Expired { .. }
                | What::Dropped { .. }
                | What::HandedOn { .. }
                | What::Marked { .. } => {}
            }
        }
        kept
    }

    /// Goes through what has happened since a place.
    pub fn since(&self, place: usize) -> impl Iterator<Item = &Entry> {
        self.steps.range(place..)
    }
}

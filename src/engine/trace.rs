//! What happened to each message, step by step, for the person who asks what became of one.
//!
//! A reader of the events and of nothing else: [`Trace::record`] takes each of them in once, with its time, so that a new event is
//! one arm more there. It decides nothing, and nothing is decided by it.
//!
//! The latest steps of all messages are kept, up to [`super::limits::Bounds::trace_max`]; of more, the oldest is forgotten first. A message
//! is shown for as long as its acceptance is kept, and so with all that happened to it. A restart forgets all.

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

use super::events::{Event, Places};
use super::io::{self, Carrier, Effect, Sign};
use super::limits::ID_DIGITS_MIN;
use super::message::Kind;
use super::names::{AgentName, HandoverId, MessageId, Recipient, ResolvedBy, Seq, SessionId, shown};
use super::receipts::Receipt;
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
    fn is(&self, agent: &AgentName) -> bool {
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
    /// The agent has said what became of it.
    Receipt(Receipt),
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
pub(super) struct Trace(VecDeque<Entry>);

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Entry {
    at: Timestamp,
    what: What,
}

/// What a step is about: one delivery, or all that are in a hand-over, whichever they are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum What {
    Accepted {
        message: MessageId,
        from: AgentName,
        to: Recipient,
        kind: Kind,
    },
    Queued {
        message: MessageId,
        agent: AgentName,
        seq: Seq,
    },
    /// Both of a message to one agent, as most are, by its name: one step.
    Sent {
        message: MessageId,
        from: AgentName,
        agent: AgentName,
        seq: Seq,
        kind: Kind,
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
}

// Every post writes one at least.
const _: () = assert!(size_of::<Entry>() <= 72);

impl Trace {
    /// Takes an event in.
    fn record(&mut self, at: Timestamp, event: &Event, entries_max: usize) {
        let mut push = |what| {
            if self.0.len() >= entries_max {
                self.0.pop_front();
            }
            if entries_max > 0 {
                self.0.push_back(Entry { at, what });
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
                        message: message.id,
                        from: message.from.clone(),
                        agent: agent.clone(),
                        seq: *seq,
                        kind: message.kind,
                    });
                    return;
                }
                push(What::Accepted {
                    message: message.id,
                    from: message.from.clone(),
                    to: message.to.clone(),
                    kind: message.kind,
                });
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
            Event::Receipt { handover, receipt } => push(What::Receipt {
                handover: *handover,
                receipt: receipt.clone(),
            }),
            Event::Undone { handover, by } => push(What::Undone {
                handover: *handover,
                by: *by,
            }),
            Event::Confirmed {
                handover,
                by,
                deliveries: _,
            } => push(What::Delivered {
                handover: *handover,
                by: *by,
            }),
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
            | Event::NodeCame { .. }
            | Event::NodeLeft { .. }
            | Event::NodeLapsed { .. }
            | Event::Bound { .. }
            | Event::Unbound { .. }
            | Event::Stopping => {}
        }
    }

    /// Returns how many steps are kept, for the invariants.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Shows what happened to the one message whose id begins so.
    fn of(&self, given: &str) -> Result<Traced, Refusal> {
        let unknown = || Refusal::Unknown { given: shown(given) };
        let begins_so = beginning(given).ok_or_else(unknown)?;
        let mut found = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| match &entry.what {
                What::Accepted {
                    message,
                    from,
                    to,
                    kind,
                } if begins_so(*message) => Some((at, entry.at, *message, from, to.clone(), *kind)),
                What::Sent {
                    message,
                    from,
                    agent,
                    seq: _,
                    kind,
                } if begins_so(*message) => {
                    Some((at, entry.at, *message, from, Recipient::agent(agent), *kind))
                }
                What::Sent { .. }
                | What::Accepted { .. }
                | What::Queued { .. }
                | What::HandedOver { .. }
                | What::Read { .. }
                | What::Awaited { .. }
                | What::Receipt { .. }
                | What::Undone { .. }
                | What::Delivered { .. } => None,
            });
        let (place, accepted_at, id, from, to, kind) = found.next().ok_or_else(unknown)?;
        let others = found.count();
        if others > 0 {
            return Err(Refusal::Ambiguous {
                given: shown(given),
                messages: 1 + others,
            });
        }
        Ok(Traced {
            id,
            from: from.clone(),
            to,
            kind,
            accepted_at,
            moments: self.moments(place, id),
        })
    }

    /// Lists what happened to the deliveries of a message since it was accepted, which is the step at that place.
    fn moments(&self, place: usize, id: MessageId) -> Vec<Moment> {
        let mut places: BTreeMap<&AgentName, Seq> = BTreeMap::new();
        let mut handovers: BTreeMap<HandoverId, &AgentName> = BTreeMap::new();
        let mut moments = Vec::new();
        for entry in self.0.range(place..) {
            let (agent, what) = match &entry.what {
                What::Queued { message, agent, seq }
                | What::Sent {
                    message,
                    agent,
                    seq,
                    from: _,
                    kind: _,
                } if *message == id => {
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
                What::Accepted { .. } | What::Queued { .. } | What::Sent { .. } | What::HandedOver { .. } => {
                    continue;
                }
                What::Read { handover, by } => match handovers.get(handover) {
                    Some(agent) => (*agent, Happened::Read { by: *by }),
                    None => continue,
                },
                What::Awaited { handover } => match handovers.get(handover) {
                    Some(agent) => (*agent, Happened::Awaited),
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
                self.trace.record(step.now, event, self.bounds.trace_max);
            }
        }
        step.traced = step.out.len();
    }
}

//! What happened to each message, step by step, for the person who asks what became of one.
//!
//! All of it is read out of the ring that [`super::ring`] keeps: the latest steps of all messages, up to [`Bounds::trace_max`], and
//! [`Bounds::trace_bytes_max`] of what they said; of more, the oldest is forgotten first. A message is shown, here and in
//! [`super::records`], while its acceptance is kept. A restart forgets all.
//!
//! [`Bounds::trace_max`]: super::limits::Bounds::trace_max
//! [`Bounds::trace_bytes_max`]: super::limits::Bounds::trace_bytes_max

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::handling::{Handling, Mode};
use super::holds::HeldBy;
use super::io::{self, Carrier, Effect, Sign};
use super::limits::ID_DIGITS_MIN;
use super::message::{Kind, Message};
use super::names::{AgentName, HandoverId, MessageId, Recipient, Seq, SessionId, shown};
use super::pushes::PushFailed;
use super::receipts::Receipt;
use super::ring::{Trace, What};
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
    /// Shows a message itself.
    Show {
        /// Its id, or the beginning of it, as for a trace.
        message: String,
    },
}

/// Who is shown what happened: of what they have sent all, of what they got their own deliveries, of all else nothing; an agent also nothing
/// of what the person holds for it, or has dropped. Only the person may name a message by the beginning of its id.
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
    /// The message.
    Shown(Arc<Message>),
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
    /// How it was to be brought.
    pub handling: Handling,
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
    /// Its sender has not said how it is to be brought, and its agent has it so.
    Brought(Mode),
    /// It is in a reply.
    HandedOver {
        /// To whom.
        session: SessionId,
        /// How it travels there.
        carrier: Carrier,
        /// The person takes it, be it out of its own inbox.
        person: bool,
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
    /// The agent has said what became of it, and what else it had to say, as JSON.
    Receipt(Receipt, Option<Box<str>>),
    /// The person holds it: it stands aside in the inbox.
    Held(HeldBy),
    /// The person has let it pass: it waits in its old place.
    Allowed,
    /// The person has dropped it.
    Dropped,
    /// It is back in its old place, though it had arrived: its agent has asked for what it was handed behind a message.
    AskedAgain {
        /// The last message that the agent has seen.
        after: MessageId,
    },
    /// Nobody was handed it before its deadline, or before its client was given up.
    Expired,
    /// It was another agent's, which had not read it and is no more.
    HandedOn {
        /// Whose.
        from: AgentName,
    },
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
    /// The same for who is no person: or it is nothing to who asks.
    NotShown {
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
            Self::Unknown { .. } | Self::NotShown { .. } | Self::Ambiguous { .. } => io::Class::Unknown,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Trace(refusal)
    }
}

impl Trace {
    /// Finds the one message whose id begins so, and the place of its acceptance.
    pub fn named(&self, given: &str) -> Result<(usize, &Arc<Message>), Refusal> {
        let unknown = || Refusal::Unknown { given: shown(given) };
        let begins_so = beginning(given).ok_or_else(unknown)?;
        let mut found = self.accepted().filter(|(_, message)| begins_so(message.id));
        let one = found.next().ok_or_else(unknown)?;
        let others = found.count();
        if others > 0 {
            return Err(Refusal::Ambiguous {
                given: shown(given),
                messages: 1 + others,
            });
        }
        Ok(one)
    }

    /// Shows what happened to the one message whose id begins so.
    fn of(&self, given: &str) -> Result<Traced, Refusal> {
        let (place, message) = self.named(given)?;
        Ok(Traced {
            id: message.id,
            from: message.from.clone(),
            to: message.to.clone(),
            kind: message.kind,
            handling: message.handling(),
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
                What::Brought { message, agent, mode } if *message == id => (agent, Happened::Brought(*mode)),
                What::HandedOver {
                    message,
                    agent,
                    handover,
                    session,
                    carrier,
                    person,
                } if *message == id => {
                    handovers.insert(*handover, agent);
                    let what = Happened::HandedOver {
                        session: *session,
                        carrier: *carrier,
                        person: *person,
                    };
                    (agent, what)
                }
                What::Marked { message, agent } if *message == id && places.contains_key(agent) => {
                    (agent, Happened::Marked)
                }
                What::AskedAgain {
                    message,
                    agent,
                    after,
                } if *message == id => (agent, Happened::AskedAgain { after: *after }),
                What::Expired { message, agent } if *message == id => (agent, Happened::Expired),
                What::Held { message, agent, by } if *message == id => (agent, Happened::Held(*by)),
                What::Allowed { message, agent } if *message == id => (agent, Happened::Allowed),
                What::Dropped { message, agent } if *message == id => (agent, Happened::Dropped),
                What::HandedOn {
                    message,
                    from,
                    agent,
                    seq,
                } if *message == id => {
                    places.insert(agent, *seq);
                    (agent, Happened::HandedOn { from: from.clone() })
                }
                What::Accepted(_)
                | What::AskedAgain { .. }
                | What::Expired { .. }
                | What::Held { .. }
                | What::Allowed { .. }
                | What::Dropped { .. }
                | What::HandedOn { .. }
                | What::Queued { .. }
                | What::Sent { .. }
                | What::Brought { .. }
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
                What::Receipt { handover, said } => match handovers.get(handover) {
                    Some(agent) => {
                        let (receipt, metadata) = &**said;
                        (*agent, Happened::Receipt(receipt.clone(), metadata.clone()))
                    }
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
pub(super) fn beginning(given: &str) -> Option<impl Fn(MessageId) -> bool> {
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
        let (message, shown_to) = match command {
            Command::Trace { message, shown_to } => (message, shown_to),
            Command::Show { message } => {
                let (_, message) = self.trace.named(message)?;
                return Ok(Reply::Shown(Arc::clone(message)).into());
            }
        };
        if *shown_to == ShownTo::Person {
            let traced = self.trace.of(message)?;
            return Ok(Reply::Traced(Box::new(traced)).into());
        }
        let not_shown = || Refusal::NotShown {
            given: shown(message),
        };
        if Uuid::try_parse(message).is_err() {
            return Err(not_shown());
        }
        let mut traced = self.trace.of(message).map_err(|_| not_shown())?;
        if !shown_to.is(&traced.from) {
            traced.moments.retain(|moment| shown_to.is(&moment.agent));
            let is_held = match shown_to {
                ShownTo::Agent(reader) => self.trace.kept_from(reader).contains(&traced.id),
                ShownTo::Person | ShownTo::Project(_) => false,
            };
            if traced.moments.is_empty() || is_held {
                return Err(not_shown());
            }
        }
        Ok(Reply::Traced(Box::new(traced)).into())
    }

    /// Takes the events of a step in that were not taken in yet.
    pub(super) fn trace_events(&mut self, step: &mut Step<'_>) {
        for effect in &step.out[step.traced..] {
            if let Effect::Note(event) = effect {
                self.trace.record(step.wall, event, &self.bounds);
            }
        }
        step.traced = step.out.len();
    }
}

//! What an agent says of its single deliveries: that it is done with one, that it failed, or that it does not want it yet.
//!
//! An agent that has its deliveries listed gives a receipt for each that it was shown. From then on the acknowledgement of the agent's
//! node says of such a delivery only that the agent has it; what became of it is what the receipt says. A receipt that is missing
//! when the node lets go of the agent is as an acknowledgement that is missing: the delivery is back in the inbox.
//!
//! Receipts only move forward. One for what has arrived before says what became of it, and changes nothing; but of what its agent has
//! accepted it may say later that it is done with it, or that it failed. What was read with a tool has
//! arrived or comes back as its reply does: that it is done is taken note of by nobody, and anything else is refused.

use std::sync::Arc;

use super::agents::NamedAs;
use super::events::Event;
use super::handover::Handover;
use super::inbox::Became;
use super::io::{self, Carrier, Sign};
use super::limits::{DEFERRAL_MS_MAX, REASON_BYTES_MAX, RECEIPT_METADATA_BYTES_MAX};
use super::message::Delivery;
use super::names::{AgentName, HandoverId, MessageId, SessionId, shown};
use super::signs::Passage;
use super::time::Timestamp;
use super::{Engine, Step};

/// What may be asked about an agent's own deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Shows those of the session's agent that no receipt was given for, and takes nothing. Of those that are shown a receipt is
    /// awaited.
    List {
        /// How many at the most, the oldest first.
        limit: usize,
    },
    /// Has all that is held for an agent brought to it, as what is not held is.
    Flush {
        /// Which one; may be left out by a bound session and by the person's.
        agent: Option<String>,
    },
    /// Says what became of one.
    Give {
        /// The id of its message.
        message: String,
        /// What became of it.
        receipt: Receipt,
        /// What else the agent says of it, as JSON: an object.
        metadata: Option<Box<str>>,
    },
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Receipts(command)
    }
}

/// What an agent says of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Receipt {
    /// It is done with it.
    Done,
    /// It has taken responsibility for it and has not shown it yet: it is not handed over any more. What becomes of it the agent may say
    /// by another receipt.
    Accepted {
        /// It might be done another time, if nothing comes of it.
        retryable: bool,
    },
    /// It failed to do with it what was to be done.
    Failed {
        /// Why, as the agent says.
        reason: Option<Box<str>>,
        /// It might be done another time.
        retryable: bool,
    },
    /// It does not want it yet.
    Deferred {
        /// From when on it does.
        until: Timestamp,
        /// Why, as the agent says.
        reason: Option<Box<str>>,
    },
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The deliveries, the oldest first.
    Listed(Vec<(Delivery, State)>),
    /// What has become of the delivery.
    Is(State),
    /// How many were held.
    Flushed(usize),
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Receipts(reply)
    }
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is in the inbox, or on its way.
    Queued,
    /// The agent has it.
    Delivered,
    /// The agent does not want it yet.
    Deferred {
        /// From when on it does.
        until: Timestamp,
    },
    /// It was pushed in vain, and is not pushed any more.
    GivenUp,
    /// Nobody was handed it before its deadline.
    Expired,
    /// The agent is done with it.
    Done,
    /// The agent has taken responsibility for it, and has not said what became of it.
    Accepted,
    /// The agent failed to do with it what was to be done.
    Failed,
}

/// Why a [`Command`] was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The agent got no such message, or so long ago that it is forgotten.
    Unknown {
        /// As given, cut if it is long.
        given: String,
    },
    /// It is in the reply of a tool, and failed or deferred it cannot be any more.
    InReply {
        /// As given.
        given: String,
    },
    /// The reason is longer than one may be.
    ReasonTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The metadata is longer than it may be.
    MetadataTooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is deferred for longer than that.
    DeferredForTooLong {
        /// The bound, in milliseconds.
        ms_max: i64,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::Unknown { .. } => io::Class::Unknown,
            Self::InReply { .. } => io::Class::Conflict,
            Self::ReasonTooLong { .. } | Self::MetadataTooLong { .. } | Self::DeferredForTooLong { .. } => {
                io::Class::Bad
            }
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Receipts(refusal)
    }
}

impl Engine {
    /// Carries a command out.
    pub(super) fn about_receipts(
        &mut self,
        session: SessionId,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        let given = match &command {
            Command::Flush { agent } => agent.as_deref(),
            Command::List { .. } | Command::Give { .. } => None,
        };
        let agent = self.speaker(session, NamedAs::Session, given)?.into_agent();
        let reply = match command {
            Command::List { limit } => Reply::Listed(self.list_deliveries(&agent, limit, step)),
            Command::Flush { .. } => Reply::Flushed(self.flush(&agent, step)),
            Command::Give {
                message,
                receipt,
                metadata,
            } => {
                receipt.check(step.wall)?;
                check_metadata(metadata.as_deref())?;
                Reply::Is(self.give(session, &agent, &message, (receipt, metadata), step)?)
            }
        };
        self.acts(session, &agent, step);
        Ok(reply)
    }

    /// Shows what an agent is to give receipts for, and has it give them.
    fn list_deliveries(
        &mut self,
        agent: &AgentName,
        limit: usize,
        step: &mut Step<'_>,
    ) -> Vec<(Delivery, State)> {
        let (inbox, is_held) = (&self.inboxes[agent], self.is_held(agent));
        let standing = inbox.standing.iter().filter_map(|id| {
            let handover = &self.handovers[id];
            let state = match (handover.carrier, handover.passage) {
                // Of what a node that is no more has acknowledged, nobody waits for a receipt.
                (Carrier::Node, Passage::Read { .. }) if !is_held => return None,
                (Carrier::Node, Passage::Read { .. } | Passage::Awaited) => State::Delivered,
                (Carrier::Node, Passage::GivenUp) => State::GivenUp,
                (Carrier::Node, passage) if passage.is_on_its_way() => State::Queued,
                (Carrier::Stream | Carrier::Exchange | Carrier::Node | Carrier::Hook | Carrier::Wake, _) => {
                    return None;
                }
            };
            let delivery = handover.deliveries.first()?;
            Some((delivery.seq, (delivery, state, Some(*id))))
        });
        let waiting = inbox.waiting().filter(|delivery| !inbox.holds(delivery));
        let waiting = waiting.map(|delivery| (delivery.seq, (delivery, State::Queued, None)));
        let mut all: Vec<_> = standing.chain(waiting).collect();
        all.sort_unstable_by_key(|(seq, _)| *seq);
        all.truncate(limit);
        let mut shown = Vec::with_capacity(all.len());
        let mut ids = Vec::new();
        for (_, (delivery, state, id)) in all {
            shown.push((delivery.clone(), state));
            ids.extend(id);
        }
        let inbox = self.inbox_mut(agent);
        inbox
            .listed
            .extend(shown.iter().map(|(delivery, _)| delivery.seq));
        for id in ids {
            self.sign(id, Sign::Listed, step);
        }
        shown
    }

    /// Takes a receipt, and returns what has become of the delivery.
    fn give(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        given: &str,
        (receipt, metadata): (Receipt, Option<Box<str>>),
        step: &mut Step<'_>,
    ) -> Result<State, Refusal> {
        let unknown = || Refusal::Unknown { given: shown(given) };
        let id = MessageId(given.parse().map_err(|_| unknown())?);
        let inbox = &self.inboxes[agent];
        let waiting = inbox.waiting().find(|delivery| delivery.message.id == id);
        let mut standing = inbox
            .standing
            .iter()
            .map(|id| (*id, &self.handovers[id].deliveries));
        let handover = if let Some(seq) = waiting.map(|delivery| delivery.seq) {
            self.gives_up_number(agent, |sent| sent.seq == seq);
            let delivery = self.inbox_mut(agent).take_one(seq);
            self.hand_over_one(session, agent, delivery, step)
        } else if let Some((handover, _)) =
            standing.find(|(_, deliveries)| deliveries.iter().any(|delivery| delivery.message.id == id))
        {
            let Handover { carrier, passage, .. } = &self.handovers[&handover];
            if *carrier != Carrier::Node && passage.held_back_until().is_none() {
                // It was read with a tool, and whatever becomes of the reply becomes of it.
                return match receipt {
                    Receipt::Done | Receipt::Accepted { .. } => Ok(State::Delivered),
                    Receipt::Failed { .. } | Receipt::Deferred { .. } => {
                        let given = shown(given);
                        Err(Refusal::InReply { given })
                    }
                };
            }
            self.gives_up_number(agent, |sent| sent.handover == Some(handover));
            handover
        } else {
            return Ok(match inbox.became(id).ok_or_else(unknown)? {
                Became::Read => State::Done,
                Became::Failed => State::Failed,
                Became::Expired => State::Expired,
                Became::Accepted => self.after_accepted(agent, id, (receipt, metadata), step),
            });
        };
        let (sign, state) = match &receipt {
            Receipt::Done => (Sign::Receipted, State::Done),
            Receipt::Accepted { .. } => (Sign::Receipted, State::Accepted),
            Receipt::Failed { .. } => (Sign::Failed, State::Failed),
            Receipt::Deferred { until, .. } => {
                // As long as it is from now until then.
                let lasts = until.millis_since(step.wall);
                let sign = Sign::Deferred(step.now.plus_millis(lasts));
                (sign, State::Deferred { until: *until })
            }
        };
        step.note(Event::Receipt {
            handover,
            agent: agent.clone(),
            deliveries: Arc::clone(&self.handovers[&handover].deliveries),
            receipt,
            metadata,
        });
        self.sign(handover, sign, step);
        if state == State::Accepted {
            self.inbox_mut(agent).becomes(id, Became::Accepted);
        }
        if matches!(sign, Sign::Deferred(until) if until <= step.now) {
            // That is over already, and whoever reads next is to get it.
            self.sign(handover, Sign::DeferralOver, step);
        }
        // Its number is not waited for any more.
        step.wakes(agent.clone());
        Ok(state)
    }

    /// Takes a receipt for what its agent has accepted: what became of it, if it says that. It is not handed over any more.
    fn after_accepted(
        &mut self,
        agent: &AgentName,
        id: MessageId,
        (receipt, metadata): (Receipt, Option<Box<str>>),
        step: &mut Step<'_>,
    ) -> State {
        let (became, state) = match &receipt {
            Receipt::Done => (Became::Read, State::Done),
            Receipt::Failed { .. } => (Became::Failed, State::Failed),
            Receipt::Accepted { .. } | Receipt::Deferred { .. } => return State::Accepted,
        };
        let (delivery, handover) = self.inbox_mut(agent).becomes(id, became);
        if let Some(handover) = handover {
            step.note(Event::Receipt {
                handover,
                agent: agent.clone(),
                deliveries: Arc::new(vec![delivery]),
                receipt,
                metadata,
            });
        }
        state
    }

    /// Ends all deferrals, so that what was deferred counts as unread.
    pub(super) fn end_deferrals(&mut self, step: &mut Step<'_>) {
        let all = self.handovers.iter();
        let held_back = all.filter(|(_, handover)| handover.passage.held_back_until().is_some());
        for id in held_back.map(|(id, _)| *id).collect::<Vec<HandoverId>>() {
            self.sign(id, Sign::DeferralOver, step);
        }
    }
}

impl Receipt {
    fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        let reason = match self {
            Self::Done | Self::Accepted { .. } => None,
            Self::Failed { reason, .. } | Self::Deferred { reason, .. } => reason.as_deref(),
        };
        let bytes = reason.map_or(0, str::len);
        if bytes > REASON_BYTES_MAX {
            return Err(Refusal::ReasonTooLong { bytes });
        }
        match self {
            Self::Deferred { until, .. } if *until > now.plus_millis(DEFERRAL_MS_MAX) => {
                let ms_max = DEFERRAL_MS_MAX;
                Err(Refusal::DeferredForTooLong { ms_max })
            }
            Self::Done | Self::Accepted { .. } | Self::Failed { .. } | Self::Deferred { .. } => Ok(()),
        }
    }
}

fn check_metadata(metadata: Option<&str>) -> Result<(), Refusal> {
    let bytes = metadata.map_or(0, str::len);
    if bytes > RECEIPT_METADATA_BYTES_MAX {
        return Err(Refusal::MetadataTooLong { bytes });
    }
    Ok(())
}

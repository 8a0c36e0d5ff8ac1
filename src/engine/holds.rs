//! What the person holds: deliveries to an agent or from it, or all of them, until the person lets them pass or drops them.
//!
//! A hold is on a name, whoever has it: it is set by the person alone, stays where its agent is taken over, goes and comes back, and
//! ends with the relay. What it is on is accepted as ever, has its place in the inbox and takes room there, and *stands aside*: no
//! carrier hands it over, and whoever is not the person does not see it. What was handed over before is as it was; it stands aside
//! when it comes back, unless a node that is connected waits for its number, or the agent was shown it among its deliveries.
//!
//! What is let pass is back in its old place, before all that waits behind it. What is dropped is gone for good. A deadline ends what
//! stands aside like anything else. What the person itself sends and gets is never held.

mod laws;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::absence::Absence;
use super::events::Event;
use super::io;
use super::limits::HOLDS_MAX;
use super::message::{Delivery, Message};
use super::names::{AgentName, MessageId, Seq, SessionId, shown};
use super::trace::beginning;
use super::{Engine, Step};

/// What the person may do about deliveries. Nobody else may.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Shows what holds there are, and what stands aside.
    List,
    /// Holds what is sent to an agent, and what it sends; or all there is.
    Hold(Whom),
    /// Holds it no more, and lets pass what stands aside for that alone.
    Lift(Whom),
    /// Lets a message pass, to all for whom it stands aside.
    Allow {
        /// Its id, or the first [`super::limits::ID_DIGITS_MIN`] or more digits of it; not checked yet.
        message: String,
    },
    /// Takes a message out of all inboxes in which it stands aside.
    Drop {
        /// The same.
        message: String,
    },
}

/// Whom a hold is on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Whom {
    /// One agent, by its whole name; not checked yet.
    Agent(String),
    /// All of all projects.
    All,
}

/// Which hold a delivery stands aside for; of several, the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum HeldBy {
    /// The one on all.
    All,
    /// The one on the agent that gets it.
    To,
    /// The one on its sender.
    From,
}

impl HeldBy {
    /// Returns the word that stands for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::To => "to",
            Self::From => "from",
        }
    }
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Holds(command)
    }
}

/// The answer to a [`Command`]. What is counted are deliveries: a message to several agents is as many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// What holds there are, and what stands aside.
    Listed(Box<View>),
    /// How many deliveries stand aside for the hold.
    Holds(usize),
    /// How many deliveries pass that stood aside; none if there was no such hold.
    Lifted(Option<usize>),
    /// The message passes.
    Allowed {
        /// Which one.
        message: Arc<Message>,
        /// To whom, in the order of their names.
        agents: Vec<AgentName>,
    },
    /// The message is dropped.
    Dropped {
        /// Which one.
        message: Arc<Message>,
        /// Out of whose inboxes, in the order of their names.
        agents: Vec<AgentName>,
    },
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Holds(reply)
    }
}

/// What holds there are, and what stands aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// All is held.
    pub all: bool,
    /// Who is, in the order of their names.
    pub agents: Vec<AgentName>,
    /// What stands aside, by when it was accepted; of the same millisecond by its place in the first of its inboxes.
    pub messages: Vec<HeldMessage>,
}

/// A message that stands aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldMessage {
    /// What was sent.
    pub message: Arc<Message>,
    /// For whom it stands aside and for which hold, in the order of their names.
    pub deliveries: Vec<(AgentName, HeldBy)>,
}

/// Why a [`Command`] was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// An agent's session asked.
    OnlyThePerson,
    /// The person is to be held by itself.
    NotThePerson,
    /// It is no id, too short to be the beginning of one, or that of no message that stands aside.
    NotHeld {
        /// As given, cut if it is long.
        given: String,
    },
    /// The ids of several messages that stand aside begin so.
    Ambiguous {
        /// As given.
        given: String,
        /// How many they are.
        messages: usize,
    },
    /// As many agents are held as may be.
    TooMany {
        /// How many there are.
        holds: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::OnlyThePerson | Self::NotThePerson => io::Class::Bad,
            Self::NotHeld { .. } | Self::Ambiguous { .. } => io::Class::Unknown,
            Self::TooMany { .. } => io::Class::Full,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Holds(refusal)
    }
}

/// The holds that there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Holds {
    all: bool,
    /// Who is held: some of them may be gone, and come back.
    agents: BTreeSet<AgentName>,
}

impl Holds {
    fn are_none(&self) -> bool {
        !self.all && self.agents.is_empty()
    }

    /// Tells which hold is on a delivery, if one is.
    pub fn on(&self, from: &AgentName, to: &AgentName) -> Option<HeldBy> {
        if self.are_none() || from.is_person() || to.is_person() {
            return None;
        }
        if self.all {
            return Some(HeldBy::All);
        }
        let to = self.agents.contains(to).then_some(HeldBy::To);
        to.or_else(|| self.agents.contains(from).then_some(HeldBy::From))
    }

    /// Tells whether all is held.
    pub fn on_all(&self) -> bool {
        self.all
    }

    /// Tells whether an agent is held by its name.
    pub fn on_agent(&self, agent: &AgentName) -> bool {
        self.agents.contains(agent)
    }

    /// Sets or lifts one. Tells whether that changes anything.
    fn set(&mut self, agent: Option<&AgentName>, is_held: bool) -> bool {
        match agent {
            None => std::mem::replace(&mut self.all, is_held) != is_held,
            Some(agent) if is_held => self.agents.insert(agent.clone()),
            Some(agent) => self.agents.remove(agent),
        }
    }
}

/// A message, and where it stands aside.
type HeldAt = (Arc<Message>, Vec<(AgentName, Seq)>);

/// What the person asks for.
impl Engine {
    /// Carries a command out.
    pub(super) fn about_holds(
        &mut self,
        session: SessionId,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        if !self.sessions[&session].person {
            return Err(Refusal::OnlyThePerson.into());
        }
        match command {
            Command::List => Ok(Reply::Listed(Box::new(self.view_of_holds()))),
            Command::Hold(whom) => self.hold(whom, step),
            Command::Lift(whom) => self.lift(whom, step),
            Command::Allow { message } => {
                let (message, places) = self.held_message(&message)?;
                let agents = places.iter().map(|(agent, _)| agent.clone()).collect();
                for (agent, seq) in places {
                    self.inbox_mut(&agent).allow(seq);
                    self.let_pass(&agent, seq, step);
                }
                Ok(Reply::Allowed { message, agents })
            }
            Command::Drop { message } => {
                let (message, places) = self.held_message(&message)?;
                let agents = places.iter().map(|(agent, _)| agent.clone()).collect();
                for (agent, seq) in places {
                    let delivery = self.inbox_mut(&agent).drop_aside(seq);
                    self.forget_deadlines(&agent, std::slice::from_ref(&delivery));
                    step.note(Event::Dropped { agent, delivery });
                }
                Ok(Reply::Dropped { message, agents })
            }
        }
    }

    fn hold(&mut self, whom: Whom, step: &mut Step<'_>) -> Result<Reply, io::Refusal> {
        let agent = match whom {
            Whom::All => None,
            Whom::Agent(name) => {
                let agent = self.known(&name)?;
                if agent.is_person() {
                    return Err(Refusal::NotThePerson.into());
                }
                let holds = self.holds.agents.len();
                if holds >= HOLDS_MAX && !self.holds.on_agent(&agent) {
                    return Err(Refusal::TooMany { holds }.into());
                }
                Some(agent)
            }
        };
        if self.holds.set(agent.as_ref(), true) {
            step.note(Event::Holds {
                agent: agent.clone(),
                is_held: true,
            });
            for inbox in self.inboxes.keys().cloned().collect::<Vec<_>>() {
                self.set_aside(&inbox, step);
            }
        }
        let aside = self.aside();
        let is_meant = |to: &AgentName, from: &AgentName| match &agent {
            None => true,
            Some(agent) => to == agent || from == agent,
        };
        let meant = aside.filter(|(to, delivery)| is_meant(to, &delivery.message.from));
        Ok(Reply::Holds(meant.count()))
    }

    fn lift(&mut self, whom: Whom, step: &mut Step<'_>) -> Result<Reply, io::Refusal> {
        let agent = match whom {
            Whom::All => None,
            // It may be gone, and be held still.
            Whom::Agent(name) => match self.holds.agents.get(name.as_str()) {
                Some(agent) => Some(agent.clone()),
                None => Some(self.known(&name)?),
            },
        };
        if !self.holds.set(agent.as_ref(), false) {
            return Ok(Reply::Lifted(None));
        }
        step.note(Event::Holds {
            agent,
            is_held: false,
        });
        let is_free = |(to, delivery): &(&AgentName, &Delivery)| {
            let on = self.holds.on(&delivery.message.from, to);
            on.is_none()
        };
        let free = self.aside().filter(is_free);
        let free: Vec<_> = free.map(|(to, delivery)| (to.clone(), delivery.seq)).collect();
        for (agent, seq) in &free {
            self.let_pass(agent, *seq, step);
        }
        Ok(Reply::Lifted(Some(free.len())))
    }

    /// Goes through what stands aside, by the names of those who get it.
    fn aside(&self) -> impl Iterator<Item = (&AgentName, &Delivery)> {
        let inboxes = self.inboxes.iter();
        inboxes.flat_map(|(agent, inbox)| inbox.aside().map(move |delivery| (agent, delivery)))
    }

    /// Finds the one message that stands aside and whose id begins so, and where it does.
    fn held_message(&self, given: &str) -> Result<HeldAt, Refusal> {
        let not_held = || Refusal::NotHeld { given: shown(given) };
        let begins_so = beginning(given).ok_or_else(not_held)?;
        let mut found: BTreeMap<MessageId, HeldAt> = BTreeMap::new();
        for (agent, Delivery { seq, message, .. }) in self.aside() {
            if begins_so(message.id) {
                let places = found.entry(message.id);
                let (_, places) = places.or_insert_with(|| (Arc::clone(message), Vec::new()));
                places.push((agent.clone(), *seq));
            }
        }
        let messages = found.len();
        if messages > 1 {
            let given = shown(given);
            return Err(Refusal::Ambiguous { given, messages });
        }
        let (_, found) = found.pop_first().ok_or_else(not_held)?;
        Ok(found)
    }

    fn view_of_holds(&self) -> View {
        let mut messages: BTreeMap<MessageId, (Seq, HeldMessage)> = BTreeMap::new();
        for (agent, delivery) in self.aside() {
            let message = &delivery.message;
            let by = self.holds.on(&message.from, agent);
            let by = by.expect("what stands aside is held");
            let (_, held) = messages.entry(message.id).or_insert_with(|| {
                let held = HeldMessage {
                    message: Arc::clone(message),
                    deliveries: Vec::new(),
                };
                (delivery.seq, held)
            });
            held.deliveries.push((agent.clone(), by));
        }
        let mut messages: Vec<(Seq, HeldMessage)> = messages.into_values().collect();
        messages.sort_by_key(|(seq, held)| (held.message.ts, *seq));
        View {
            all: self.holds.all,
            agents: self.holds.agents.iter().cloned().collect(),
            messages: messages.into_iter().map(|(_, held)| held).collect(),
        }
    }
}

/// What becomes of deliveries.
impl Engine {
    /// Has what the person holds of what is in an inbox stand aside.
    pub(super) fn set_aside(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        if self.holds.are_none() {
            return;
        }
        let inbox = &self.inboxes[agent];
        let held: Vec<(Seq, HeldBy)> = inbox
            .waiting()
            .filter_map(|delivery| Some((delivery.seq, self.is_to_stand_aside(agent, delivery)?)))
            .collect();
        if held.is_empty() {
            return;
        }
        for (seq, by) in held {
            // A target that is pushed to waits for no number.
            self.gives_up_number(agent, |sent| sent.seq == seq);
            let delivery = self.inbox_mut(agent).set_aside(seq);
            let agent = agent.clone();
            step.note(Event::Held { agent, delivery, by });
        }
        self.inbox_changes(agent, step);
    }

    /// Tells for which hold what waits in an inbox is to stand aside, if it is to.
    fn is_to_stand_aside(&self, agent: &AgentName, delivery: &Delivery) -> Option<HeldBy> {
        let by = self.holds.on(&delivery.message.from, agent)?;
        let inbox = &self.inboxes[agent];
        let is_shown = inbox.listed.contains(&delivery.seq) || self.is_kept_for_node(agent, delivery.seq);
        (!is_shown && !inbox.is_allowed(delivery.seq)).then_some(by)
    }

    /// Has a delivery that stands aside wait again in its old place.
    fn let_pass(&mut self, agent: &AgentName, seq: Seq, step: &mut Step<'_>) {
        let delivery = self.inbox_mut(agent).let_pass(seq);
        self.inbox_changes(agent, step);
        // Its programs were told of what is behind it, and not of it.
        self.tells_again(agent, seq);
        step.wakes(agent.clone());
        let agent = agent.clone();
        step.note(Event::Allowed { agent, delivery });
    }

    /// Says that what was sent to some agents is held, to at least one of them.
    pub(super) fn held_note(&self, from: &AgentName, agents: &[AgentName]) -> Option<Box<Absence>> {
        if self.holds.are_none() {
            return None;
        }
        let held = |to: &AgentName| Some((to.clone(), self.holds.on(from, to)?));
        let mut held = agents.iter().filter_map(held);
        let (first, mut by) = held.next()?;
        // That its sender is held is true of each, and said where it is true of all that are.
        let others: Vec<HeldBy> = held.map(|(_, by)| by).collect();
        by = others.iter().copied().fold(by, HeldBy::max);
        let agent = if by == HeldBy::From { from.clone() } else { first };
        let others = others.len();
        Some(Box::new(Absence::Held { by, agent, others }))
    }
}

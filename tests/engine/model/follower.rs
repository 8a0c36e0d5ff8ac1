//! Somebody who knows nothing of a relay but its events, and should know from them all that a person may see.

use std::collections::{BTreeMap, BTreeSet};

use relay::engine::{
    AgentName, CallId, Event, HandoverId, InboxView, MessageId, Overview, Roster, SessionId, SessionView,
    Timestamp, WaitView,
};

/// What the events have told.
#[derive(Default)]
pub struct Follower {
    sessions: BTreeMap<SessionId, SessionView>,
    waits: BTreeMap<CallId, (SessionId, WaitView)>,
    /// Who is there beside the roster and the person. Those of the roster are never registered anew.
    registered: BTreeSet<AgentName>,
    /// The messages that are not confirmed, with the hand-over that has each, in the order of acceptance.
    messages: Vec<Followed>,
    /// The parts that are in replies.
    parts: Vec<FollowedPart>,
    /// What the person holds: all, or who.
    holds_all: bool,
    held: BTreeSet<AgentName>,
}

/// What is told of a part of a message.
struct FollowedPart {
    handover: HandoverId,
    message: MessageId,
    agent: AgentName,
}

struct Followed {
    id: MessageId,
    agent: AgentName,
    ts: Timestamp,
    handover: Option<HandoverId>,
    /// All of it is in replies, in parts.
    in_parts: bool,
    /// The person holds it.
    aside: bool,
}

impl Follower {
    /// Takes note of an event.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Opened {
                session,
                carrier,
                agent,
                person,
            } => {
                let view = SessionView {
                    session: *session,
                    carrier: *carrier,
                    agent: agent.clone(),
                    person: *person,
                    waits: Vec::new(),
                    program: None,
                };
                self.sessions.insert(*session, view);
            }
            Event::Closed { session, .. } => {
                self.sessions.remove(session).expect("it was open");
            }
            Event::Accepted { message, agents, .. } => {
                self.messages.extend(agents.iter().map(|agent| Followed {
                    id: message.id,
                    agent: agent.clone(),
                    ts: message.ts,
                    handover: None,
                    in_parts: false,
                    aside: false,
                }))
            }
            Event::Parked {
                call,
                session,
                agent,
                expires_at,
            } => {
                let view = WaitView {
                    agent: agent.clone(),
                    expires_at: *expires_at,
                };
                self.waits.insert(*call, (*session, view));
            }
            Event::WaitEnded { call, .. } => {
                self.waits.remove(call).expect("it waited");
            }
            Event::HandedOver {
                handover,
                agent,
                deliveries,
                part,
                ..
            } => {
                if let Some(of) = part {
                    self.parts.push(FollowedPart {
                        handover: *handover,
                        message: of.message,
                        agent: agent.clone(),
                    });
                    let is_it = |message: &&mut Followed| message.id == of.message && message.agent == *agent;
                    let message = self.messages.iter_mut().find(is_it).expect("it was accepted");
                    message.in_parts = of.part.is_last();
                }
                for delivery in deliveries.iter() {
                    let mut messages = self.messages.iter_mut();
                    let message =
                        messages.find(|message| message.id == delivery.message.id && message.agent == *agent);
                    let message = message.expect("it was accepted");
                    message.in_parts = false;
                    let before = message.handover.replace(*handover);
                    assert_eq!(before, None, "handed over twice");
                    // Whoever has it whole has all of its parts.
                    self.parts
                        .retain(|part| part.message != delivery.message.id || part.agent != *agent);
                }
            }
            Event::Confirmed {
                handover, deliveries, ..
            } => {
                let before = self.messages.len();
                self.messages
                    .retain(|message| message.handover != Some(*handover));
                assert_eq!(before - self.messages.len(), deliveries.len());
            }
            Event::Undone { handover, .. } => {
                if let Some(at) = self.parts.iter().position(|part| part.handover == *handover) {
                    let part = self.parts.remove(at);
                    let is_it =
                        |message: &&mut Followed| message.id == part.message && message.agent == part.agent;
                    if let Some(message) = self.messages.iter_mut().find(is_it) {
                        message.in_parts = false;
                    }
                }
                for message in &mut self.messages {
                    if message.handover == Some(*handover) {
                        message.handover = None;
                    }
                }
            }
            Event::AskedAgain {
                agent, deliveries, ..
            } => {
                for delivery in deliveries.iter() {
                    let id = delivery.message.id;
                    let is_it = |other: &Followed| other.id == id && other.agent == *agent;
                    assert!(!self.messages.iter().any(is_it), "it had arrived");
                    self.messages.push(Followed {
                        id,
                        agent: agent.clone(),
                        ts: delivery.message.ts,
                        handover: None,
                        in_parts: false,
                        aside: false,
                    });
                }
            }
            Event::Holds { agent: None, is_held } => self.holds_all = *is_held,
            Event::Holds {
                agent: Some(agent),
                is_held,
            } => {
                let changed = if *is_held {
                    self.held.insert(agent.clone())
                } else {
                    self.held.remove(agent)
                };
                assert!(changed, "a hold is told once");
            }
            Event::Held { agent, delivery, .. } => {
                let before = std::mem::replace(self.aside(agent, delivery.message.id), true);
                assert!(!before, "held twice");
            }
            Event::Allowed { agent, delivery } => {
                let before = std::mem::replace(self.aside(agent, delivery.message.id), false);
                assert!(before, "it was held");
            }
            Event::Dropped { agent, delivery } => {
                assert!(*self.aside(agent, delivery.message.id), "it was held");
                let is_it = |other: &Followed| other.id == delivery.message.id && other.agent == *agent;
                self.messages.retain(|other| !is_it(other));
            }
            Event::Registered { agent } => {
                let is_new = self.registered.insert(agent.clone());
                assert!(is_new, "registered twice");
            }
            Event::Gone { agent } => {
                assert!(self.registered.remove(agent), "it was there");
                let left = self.messages.iter().any(|message| message.agent == *agent);
                assert!(!left, "its inbox is empty");
            }
            Event::Passed { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::Read { .. }
            | Event::TakenOver { .. }
            | Event::Joined { .. }
            | Event::Awaited { .. }
            | Event::HeldBack { .. }
            | Event::Receipt { .. }
            | Event::Marked { .. }
            | Event::Reacted { .. }
            | Event::Invoked { .. }
            | Event::PushFailed { .. }
            | Event::Expired { .. }
            | Event::InvocationEnded { .. }
            | Event::ActionDenied { .. }
            | Event::StandsBy { .. }
            | Event::BroughtAsItsAgentHasIt { .. }
            | Event::Does { .. }
            | Event::Recognised { .. }
            | Event::NodeCame { .. }
            | Event::NodeLeft { .. }
            | Event::NodeLapsed { .. }
            | Event::Bound { .. }
            | Event::Unbound { .. }
            | Event::SpawnWaits { .. }
            | Event::Worker(_)
            | Event::HandedOn { .. }
            | Event::Left { .. }
            | Event::Stopping => {}
        }
    }

    /// Finds whether a message is held for an agent.
    fn aside(&mut self, agent: &AgentName, id: MessageId) -> &mut bool {
        let mut messages = self.messages.iter_mut();
        let found = messages.find(|message| message.id == id && message.agent == *agent);
        &mut found.expect("it was accepted").aside
    }

    /// Tells what a person should see.
    pub fn sessions_and_inboxes(&self, roster: &Roster) -> (Vec<SessionView>, Vec<InboxView>) {
        let mut sessions = self.sessions.clone();
        for (session, wait) in self.waits.values() {
            let view = sessions.get_mut(session).expect("who waits is there");
            view.waits.push(wait.clone());
        }
        let person = AgentName::person();
        let inbox = |agent: &AgentName| {
            let of_agent = self.messages.iter().filter(|message| message.agent == *agent);
            let held = of_agent.clone().filter(|message| message.aside).count();
            let unread = of_agent
                .clone()
                .filter(|message| message.handover.is_none() && !message.in_parts && !message.aside);
            InboxView {
                agent: agent.clone(),
                unread: unread.clone().count(),
                oldest: unread.map(|message| message.ts).min(),
                held,
                is_held: self.held.contains(agent),
                in_doubt: of_agent
                    .filter(|message| message.handover.is_some() || message.in_parts)
                    .count(),
                mode: relay::engine::handling::Mode::Immediate,
            }
        };
        let names = roster.names().iter().chain(&self.registered).chain([&person]);
        (sessions.into_values().collect(), names.map(inbox).collect())
    }
}

/// Compares what the events have told with what the engine shows.
pub fn assert_told(follower: &Follower, overview: &Overview, roster: &Roster) {
    assert_eq!(overview.holds_all, follower.holds_all);
    let (sessions, inboxes) = follower.sessions_and_inboxes(roster);
    assert_eq!(
        overview.sessions, sessions,
        "sessions: engine left, its events right"
    );
    assert_eq!(
        overview.inboxes, inboxes,
        "inboxes: engine left, its events right"
    );
}

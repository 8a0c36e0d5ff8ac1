//! What is on its way to a node: each delivery of a bound agent in a frame of its own.
//!
//! The frames of an agent are numbered from 1, and no number is ever used for another delivery. They go out in order, at most
//! [`super::limits::FRAMES_MAX`] of them unacknowledged. An acknowledgement is for all frames up to its number, and says that their hand-overs
//! were read; nothing else does, but a receipt of the agent's. When the node's connection ends, what it did not acknowledge goes back to the inbox and keeps its number;
//! over the next connection it is sent again, before anything new. When the node holds the agent no more, the numbers are given up,
//! and the next frame has the number after the last that was ever given out: the node learns it when it binds the agent again
//! ([`super::nodes::BindingView`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::events::Event;
use super::inbox::Inbox;
use super::invocations::InvocationView;
use super::io::{Effect, Sign};
use super::message::{Delivery, Message};
use super::names::{AgentName, HandoverId, NodeId, Seq, SessionId};
use super::nodes::{BindingView, Presence, Refusal};
use super::pushes::Pushing;
use super::time::Timestamp;
use super::{Engine, Step};

/// A delivery on its way to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The hand-over of what is in it. Once that does not stand any more the frame is not to go out.
    pub handover: HandoverId,
    /// Whose it is.
    pub agent: AgentName,
    /// Its number among the frames of the agent, from 1.
    pub number: u64,
    /// What is delivered.
    pub delivery: Delivery,
}

/// What a node is told beside the deliveries of an agent: it has no number, and is not sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Which agent it is for.
    pub agent: AgentName,
    /// When it was.
    pub at: Timestamp,
    /// What it is.
    pub news: News,
}

/// What is no delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// An agent says that it has read a message.
    Read {
        /// Which message.
        message: Arc<Message>,
        /// Who.
        by: AgentName,
    },
    /// An agent shows how it takes a message.
    Reacted {
        /// Which message.
        message: Arc<Message>,
        /// Who.
        by: AgentName,
        /// How.
        emoji: Arc<str>,
        /// Or that it shows that no more.
        given: bool,
    },
    /// What the agent has asked of an action has ended.
    Ended(Box<InvocationView>),
    /// The agent is none of those that may ask for an action.
    Denied {
        /// Its name.
        action: Arc<str>,
    },
}

/// That a node takes an agent's deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Binding {
    pub node: NodeId,
    /// The node has named the agent over its latest connection.
    pub named: bool,
    /// What has a number and is not acknowledged. None while the node does not hold the agent.
    pub frames: BTreeMap<u64, Sent>,
    /// How it goes, if relay itself takes them to a target.
    pub pushing: Pushing,
}

/// A frame that is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Sent {
    /// The place of its delivery.
    pub seq: Seq,
    /// On its way over the node's connection; none while it is back in the inbox, to be sent again.
    pub handover: Option<HandoverId>,
    /// How often a target has not taken it.
    pub attempts: u32,
}

impl Engine {
    /// Tells whether what comes for an agent goes to its node alone.
    pub(super) fn is_held(&self, agent: &AgentName) -> bool {
        self.is_held_at(&self.inboxes[agent])
    }

    /// The same of the agent whose inbox this is.
    pub(super) fn is_held_at(&self, inbox: &Inbox) -> bool {
        let binding = inbox.binding.as_ref();
        binding.is_some_and(|binding| self.nodes.get(binding.node).presence != Presence::Absent)
    }

    /// Binds an agent to a node; the binding before ends.
    pub(super) fn bind(&mut self, node: NodeId, agent: &AgentName, step: &mut Step<'_>) {
        if self.inboxes[agent]
            .binding
            .as_ref()
            .is_some_and(|binding| binding.node == node)
        {
            return;
        }
        let before = self.status_of(agent, step.now);
        self.unbind(agent, step);
        self.nodes.get_mut(node).agents.insert(agent.clone());
        self.inbox_mut(agent).binding = Some(Binding {
            node,
            named: false,
            frames: BTreeMap::new(),
            pushing: Pushing::default(),
        });
        self.stays(agent);
        self.tell_of_status(agent, before, step);
        step.moves_handlers = true;
        let agent = agent.clone();
        step.wakes(agent.clone());
        step.note(Event::Bound { agent, node });
    }

    /// Ends the binding of an agent, if it is bound: what was on its way is back in its inbox.
    pub(super) fn unbind(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        let Some(node) = self.inboxes[agent].binding.as_ref().map(|binding| binding.node) else {
            return;
        };
        let before = self.status_of(agent, step.now);
        self.let_go_of(agent, step);
        self.inbox_mut(agent).binding = None;
        self.nodes.get_mut(node).agents.remove(agent);
        self.tell_of_status(agent, before, step);
        let agent = agent.clone();
        step.wakes(agent.clone());
        step.note(Event::Unbound { agent, node });
    }

    pub(super) fn binding_view(&self, agent: &AgentName) -> BindingView {
        let inbox = &self.inboxes[agent];
        let frames = inbox.binding.as_ref().map(|binding| &binding.frames);
        let first = frames.and_then(|frames| frames.first_key_value());
        BindingView {
            agent: agent.clone(),
            acknowledged: first.map_or(inbox.frames_made, |(number, _)| number - 1),
            failing: inbox
                .binding
                .as_ref()
                .and_then(|binding| binding.pushing.failing.clone()),
            dead: inbox.dead.len(),
        }
    }

    /// Sends what is in an agent's inbox to its node, as far as that is connected and its window open.
    pub(super) fn send_frames(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        let Some(session) = self.takes_frames(agent) else {
            return;
        };
        while let Some((number, seq, attempts)) = self.next_frame(agent) {
            let inbox = self.inbox_mut(agent);
            let delivery = inbox.take_one(seq);
            inbox.frames_made = inbox.frames_made.max(number);
            let handover = self.hand_over_one(session, agent, delivery.clone(), step);
            let sent = Sent {
                seq,
                handover: Some(handover),
                attempts,
            };
            self.frames_mut(agent).insert(number, sent);
            let frame = Frame {
                handover,
                agent: agent.clone(),
                number,
                delivery,
            };
            let frame = Box::new(frame);
            step.out.push(Effect::Deliver { session, frame });
        }
    }

    /// Returns the session to which an agent's frames go, if they may go out now.
    pub(super) fn takes_frames(&self, agent: &AgentName) -> Option<SessionId> {
        let binding = self.inboxes[agent].binding.as_ref()?;
        let node = self.nodes.get(binding.node);
        match node.presence {
            Presence::Live(session) if binding.named || !node.names_first => Some(session),
            Presence::Live(_) | Presence::Gone(_) | Presence::Absent => None,
        }
    }

    /// Tells the nodes of some agents some news, as far as they are connected.
    pub(super) fn tell_nodes<'a>(
        &self,
        agents: impl IntoIterator<Item = &'a AgentName>,
        news: &News,
        step: &mut Step<'_>,
    ) {
        for agent in agents {
            // An agent may be gone, and its inbox with it.
            if !self.inboxes.contains_key(agent) {
                continue;
            }
            if let Some(session) = self.takes_frames(agent) {
                let told = Told {
                    agent: agent.clone(),
                    at: step.wall,
                    news: news.clone(),
                };
                let told = Box::new(told);
                step.out.push(Effect::Tell { session, told });
            }
        }
    }

    /// Has all that is unacknowledged go out again: the node has begun anew with an agent.
    pub(super) fn send_again(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        let on_the_way = self.frames_mut(agent).values().filter_map(|sent| sent.handover);
        for handover in on_the_way.collect::<Vec<_>>() {
            self.sign(handover, Sign::Lost, step);
        }
    }

    /// Sets whether the node has named an agent over its latest connection.
    pub(super) fn set_named(&mut self, agent: &AgentName, named: bool) {
        let binding = self.inbox_mut(agent).binding.as_mut();
        binding.expect("the agent is bound").named = named;
    }

    /// Finds what is to be sent next: first what has a number already. Returns how often it was not taken, too.
    fn next_frame(&mut self, agent: &AgentName) -> Option<(u64, Seq, u32)> {
        let inbox = &self.inboxes[agent];
        let binding = inbox.binding.as_ref()?;
        if Self::is_paused(binding) {
            return None;
        }
        let frames = &binding.frames;
        let mut again = frames.iter().filter(|(_, sent)| sent.handover.is_none());
        if let Some((number, sent)) = again.next() {
            return Some((*number, sent.seq, sent.attempts));
        }
        let window = self.nodes.get(binding.node).window();
        let has_room = frames.len() < window && inbox.awaited.len() < self.bounds.awaited_max;
        let number = inbox.frames_made + 1;
        if !has_room {
            return None;
        }
        let first = self.inbox_mut(agent).first_open()?;
        Some((number, first, 0))
    }

    /// Takes an acknowledgement of all frames up to a number. One that was made before is repeated to no effect.
    pub(super) fn acknowledge(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        up_to: u64,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        let sent = self.inboxes[agent].frames_made;
        if up_to > sent {
            let agent = agent.clone();
            return Err(Refusal::NeverSent { agent, up_to, sent });
        }
        while let Some(entry) = self.frames_mut(agent).first_entry()
            && *entry.key() <= up_to
        {
            let Sent { seq, handover, .. } = entry.remove();
            // It may have come over the connection before, and not have been sent over this one yet.
            let handover = handover.unwrap_or_else(|| {
                let delivery = self.inbox_mut(agent).take_one(seq);
                self.hand_over_one(session, agent, delivery, step)
            });
            self.sign(handover, Sign::Acknowledged, step);
            if self.inboxes[agent].listed.contains(&seq) {
                self.sign(handover, Sign::Listed, step);
            }
        }
        self.push_succeeded(agent);
        step.wakes(agent.clone());
        Ok(())
    }

    /// Takes note that a hand-over to a node was undone: it keeps its number, if its agent is bound as before.
    pub(super) fn frame_undone(&mut self, agent: &AgentName, handover: HandoverId) {
        let Some(binding) = &mut self.inbox_mut(agent).binding else {
            return;
        };
        let mut frames = binding.frames.values_mut();
        if let Some(sent) = frames.find(|sent| sent.handover == Some(handover)) {
            sent.handover = None;
        }
    }

    /// Gives up the numbers of what was not acknowledged, and waits for receipts no more: all that is back in the inbox.
    pub(super) fn let_go_of(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        self.push_succeeded(agent);
        let frames = std::mem::take(self.frames_mut(agent));
        let inbox = self.inbox_mut(agent);
        inbox.listed.clear();
        let awaited = inbox.awaited.iter().copied();
        let dead = inbox.dead.keys().copied();
        let back: Vec<Seq> = frames
            .values()
            .filter(|sent| sent.handover.is_none())
            .map(|sent| sent.seq)
            .collect();
        let sent = frames.into_values().filter_map(|sent| sent.handover);
        for handover in sent.chain(awaited).chain(dead).collect::<Vec<_>>() {
            self.sign(handover, Sign::Fenced, step);
        }
        for seq in back {
            let message = Arc::clone(&self.inboxes[agent].at(seq).message);
            self.mind_deadline(agent, seq, &message);
        }
        self.set_aside(agent, step);
        self.expire(step);
    }

    /// Forgets the number of what has arrived by what its agent says of it, if it has one.
    pub(super) fn gives_up_number(&mut self, agent: &AgentName, is_meant: impl Fn(&Sent) -> bool) {
        if let Some(binding) = &mut self.inbox_mut(agent).binding {
            binding.frames.retain(|_, sent| !is_meant(sent));
        }
    }

    fn frames_mut(&mut self, agent: &AgentName) -> &mut BTreeMap<u64, Sent> {
        let binding = self.inbox_mut(agent).binding.as_mut();
        &mut binding.expect("the agent is bound").frames
    }
}

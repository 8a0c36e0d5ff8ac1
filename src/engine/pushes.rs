//! Pushes: deliveries that relay itself takes to the target of a node, and what becomes of those that the target does not take.
//!
//! A push node is connected while relay serves its target. It takes one frame of an agent at a time, so that what is sent to an
//! agent arrives in order. A frame that the target did not take goes out again after a while, which grows with each failure in a row
//! ([`PUSH_BACKOFF_MS`], up to [`PUSH_BACKOFF_MS_MAX`]) and is spread by chance; what is behind it waits. After [`PUSH_ATTEMPTS_MAX`] attempts the
//! delivery is given up: it is a *dead letter*, out of the way of those behind it, until it is asked for again, its agent says
//! something of it, or the node has the agent no more.

use std::sync::Arc;

use super::events::Event;
use super::frames::Binding;
use super::io::{self, Sign};
use super::limits::{FRAMES_MAX, PUSH_ATTEMPTS_MAX, PUSH_BACKOFF_MS, PUSH_BACKOFF_MS_MAX, REASON_BYTES_MAX};
use super::message::Delivery;
use super::names::{AgentName, NodeId, RandomBytes, SessionId};
use super::nodes::{Node, Refusal, Reply};
use super::time::Timestamp;
use super::timers::Timer;
use super::{Engine, Step};

/// How the pushes of an agent's deliveries go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Pushing {
    /// Since the last one that was taken, if one was not.
    pub failing: Option<Failing>,
}

/// That the target of a push does not take an agent's deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Failing {
    /// Since when.
    pub since: Timestamp,
    /// Why, the last time.
    pub error: Arc<str>,
    /// How many attempts have failed in a row.
    pub attempts: u32,
    /// When the next one is; none while it is under way.
    pub again_at: Option<Timestamp>,
}

/// That a push was in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PushFailed {
    /// Why.
    pub error: Arc<str>,
    /// When it is tried again; none if it is given up.
    pub again_at: Option<Timestamp>,
}

/// A delivery that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Whose it is.
    pub agent: AgentName,
    /// What is to be delivered.
    pub delivery: Delivery,
    /// Why, and when.
    pub given_up: GivenUp,
}

/// Why a delivery was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GivenUp {
    /// When.
    pub at: Timestamp,
    /// Why, the last time.
    pub error: Arc<str>,
}

impl Node {
    /// Returns how many frames of an agent may be unacknowledged.
    pub fn window(&self) -> usize {
        if self.pushes { 1 } else { FRAMES_MAX }
    }
}

impl Engine {
    /// Tells whether nothing is to be pushed to an agent's target for a while.
    pub(super) fn is_paused(binding: &Binding) -> bool {
        let failing = binding.pushing.failing.as_ref();
        failing.is_some_and(|failing| failing.again_at.is_some())
    }

    pub(super) fn check_pushes(&self, node: NodeId) -> Result<(), Refusal> {
        match self.nodes.get(node).pushes {
            true => Ok(()),
            false => Err(Refusal::NotYours),
        }
    }

    /// Takes note that the target has taken a frame, and that the agent will give a receipt for what is in it.
    pub(super) fn push_taken(
        &mut self,
        node: NodeId,
        session: SessionId,
        agent: &AgentName,
        number: u64,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        self.check_pushes(node)?;
        let inbox = self.inbox_mut(agent);
        let binding = inbox.binding.as_ref();
        let sent = binding.and_then(|binding| binding.frames.get(&number));
        if let Some(seq) = sent.map(|sent| sent.seq) {
            inbox.listed.insert(seq);
        }
        self.acknowledge(session, agent, number, step)
    }

    /// Takes note that the target has taken what was pushed to it last.
    pub(super) fn push_succeeded(&mut self, agent: &AgentName) {
        self.end_pause(agent);
        if let Some(binding) = &mut self.inbox_mut(agent).binding {
            binding.pushing.failing = None;
        }
    }

    /// Takes note that the target has not taken a frame: it goes out again later, or is given up.
    pub(super) fn push_failed(
        &mut self,
        node: NodeId,
        agent: &AgentName,
        number: u64,
        error: &str,
        random: RandomBytes,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        self.check_pushes(node)?;
        let error: Arc<str> = clipped(error).into();
        let binding = self
            .inbox_mut(agent)
            .binding
            .as_mut()
            .expect("the agent is bound");
        let Some(sent) = binding.frames.get_mut(&number) else {
            // Its agent has given a receipt for it meanwhile.
            self.forget_failing(agent);
            return Ok(());
        };
        let Some(handover) = sent.handover else {
            return Ok(());
        };
        sent.attempts += 1;
        let is_last = sent.attempts >= PUSH_ATTEMPTS_MAX;
        if is_last {
            binding.frames.remove(&number);
        }
        let before = binding.pushing.failing.as_ref();
        let attempts = before.map_or(0, |failing| failing.attempts).saturating_add(1);
        let again_at = step.now.plus_millis(backoff(attempts, random));
        binding.pushing.failing = Some(Failing {
            since: before.map_or(step.now, |failing| failing.since),
            error: Arc::clone(&error),
            attempts,
            again_at: Some(again_at),
        });
        self.timers.arm(again_at, Timer::PushResumes(agent.clone()));
        step.note(Event::PushFailed {
            handover,
            agent: agent.clone(),
            deliveries: Arc::clone(&self.handovers[&handover].deliveries),
            error: Arc::clone(&error),
            again_at: (!is_last).then_some(again_at),
        });
        if is_last {
            let given_up = GivenUp { at: step.wall, error };
            self.inbox_mut(agent).dead.insert(handover, given_up);
            self.sign(handover, Sign::GivenUp, step);
        } else {
            self.sign(handover, Sign::NotTaken, step);
        }
        Ok(())
    }

    /// Goes on with the pushes to an agent's target.
    pub(super) fn resume(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        self.end_pause(agent);
        self.forget_failing(agent);
        step.wakes(agent.clone());
    }

    /// Counts a target as failing no more if nothing is left to push: nobody finds out whether that would fail still.
    fn forget_failing(&mut self, agent: &AgentName) {
        let inbox = self.inbox_mut(agent);
        let is_idle = inbox.first_open().is_none();
        if let Some(binding) = &mut inbox.binding
            && binding.frames.is_empty()
            && is_idle
        {
            binding.pushing.failing = None;
        }
    }

    pub(super) fn end_pause(&mut self, agent: &AgentName) {
        let binding = self.inbox_mut(agent).binding.as_mut();
        let failing = binding.and_then(|binding| binding.pushing.failing.as_mut());
        if let Some(at) = failing.and_then(|failing| failing.again_at.take()) {
            self.timers.disarm(at, Timer::PushResumes(agent.clone()));
        }
    }

    /// Lists what was given up, of one agent or of all.
    pub(super) fn dead_letters(&self, agent: Option<&str>) -> Result<Reply, io::Refusal> {
        let agent = agent.map(|name| self.known(name)).transpose()?;
        let all = self.inboxes.iter();
        let meant = all.filter(|(name, _)| agent.as_ref().is_none_or(|agent| agent == *name));
        let dead = meant.flat_map(|(agent, inbox)| {
            inbox.dead.iter().map(|(handover, given_up)| DeadLetter {
                agent: agent.clone(),
                delivery: self.handovers[handover].deliveries[0].clone(),
                given_up: given_up.clone(),
            })
        });
        Ok(Reply::DeadLetters(dead.collect()))
    }

    /// Has what was given up go out again at once, of one agent or of all, and what waits for its next attempt.
    pub(super) fn redrive(&mut self, agent: Option<&str>, step: &mut Step<'_>) -> Result<Reply, io::Refusal> {
        let agent = agent.map(|name| self.known(name)).transpose()?;
        let agents: Vec<AgentName> = match agent {
            Some(agent) => vec![agent],
            None => self.inboxes.keys().cloned().collect(),
        };
        let (mut given_up, mut hastened) = (0, 0);
        for agent in agents {
            let inbox = &self.inboxes[&agent];
            hastened += usize::from(inbox.binding.as_ref().is_some_and(Self::is_paused));
            let dead: Vec<_> = inbox.dead.keys().copied().collect();
            given_up += dead.len();
            for handover in dead {
                self.sign(handover, Sign::Redriven, step);
            }
            self.resume(&agent, step);
        }
        Ok(Reply::Redriven { given_up, hastened })
    }
}

/// Returns as much of an error as is kept.
pub(super) fn clipped(error: &str) -> &str {
    let mut end = error.len().min(REASON_BYTES_MAX);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    &error[..end]
}

/// Returns how long to wait after so many failures in a row: between half of it and all of it.
fn backoff(failures: u32, random: RandomBytes) -> i64 {
    let doubled = failures.saturating_sub(1).min(i64::BITS / 2);
    let whole = (PUSH_BACKOFF_MS << doubled).min(PUSH_BACKOFF_MS_MAX);
    let chance = i64::from(u16::from_le_bytes([random[0], random[1]]));
    whole / 2 + whole * chance / (2 * i64::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_longer_after_each_failure_up_to_the_bound() {
        let range = |failures| [[0; 16], [255; 16]].map(|random| backoff(failures, random));
        assert_eq!(range(1), [500, 1_000]);
        assert_eq!(range(2), [1_000, 2_000]);
        assert_eq!(range(9), [128_000, 256_000]);
        assert_eq!(range(10), [150_000, 300_000]);
        assert_eq!(range(u32::MAX), [150_000, 300_000]);
    }
}

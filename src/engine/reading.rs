//! Reading: what of an inbox goes into an answer, and when a read waits.

use std::num::NonZeroUsize;

use super::agents::Speaker;
use super::asking_again::After;
use super::events::WaitEnd;
use super::handover::HandedOver;
use super::inbox::{Filter, Readable};
use super::io::{Answer, Outcome};
use super::mail::{Refusal, Reply, Second, seen_from};
use super::message::Delivery;
use super::names::{AgentName, CallId, SessionId};
use super::room::Room;
use super::waits::Wait;
use super::{Engine, Step};

/// What a read asks for, and how it waits.
pub(super) struct Read {
    pub filter: Filter,
    /// The last message that its agent has seen, if it asks for what it was handed behind that.
    pub after: Option<After>,
    pub wait_ms: u32,
    pub second: Second,
}

impl Engine {
    /// Answers a read, or parks it if there is nothing to say and it may wait. What is asked for again comes first.
    pub(super) fn read(
        &mut self,
        session: SessionId,
        call: CallId,
        reader: Speaker,
        read: Read,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Refusal> {
        let agent = reader.into_agent();
        let is_answered = |engine: &Self, read: &Read| {
            read.wait_ms == 0 || engine.stopping || engine.has_news(session, &agent, &read.filter)
        };
        let superseded = match is_answered(self, &read) {
            true => None,
            false => self.superseded(session, &agent, read.second)?,
        };
        if let Some(after) = &read.after {
            self.ask_again(&agent, after, step);
        }
        if is_answered(self, &read) {
            self.uses(session, &agent, &read.filter, step);
            let answer = self.take(session, &agent, &read.filter, 0, step);
            return Ok(Outcome::Answered(answer));
        }
        if let Some(older) = superseded {
            self.end_wait(older, WaitEnd::Superseded, step);
        }
        self.uses(session, &agent, &read.filter, step);
        let wait = Wait {
            session,
            agent,
            filter: read.filter,
            parked_at: step.now,
            expires_at: step.now.plus_millis(i64::from(read.wait_ms)),
        };
        self.park(call, wait, step);
        Ok(Outcome::Parked)
    }

    /// Finds the wait that a new one of a session for an inbox ends, if there is one.
    fn superseded(
        &self,
        session: SessionId,
        agent: &AgentName,
        second: Second,
    ) -> Result<Option<CallId>, Refusal> {
        let in_line = self.inboxes[agent].waits.iter();
        let mut reads = in_line.filter(|call| self.waits[call].filter.answers.is_none());
        let is_own = |call: &CallId| self.tells(self.waits[call].session, agent);
        if second == Second::IsRefused && reads.clone().any(is_own) {
            let agent = agent.clone();
            return Err(Refusal::AlreadyWaits { agent });
        }
        let superseded = reads.find(|call| self.waits[call].session == session).copied();
        if superseded.is_none() && self.waits.len() >= self.bounds.waits_max {
            return Err(Refusal::TooManyWaits {
                waits: self.waits.len(),
            });
        }
        Ok(superseded)
    }

    /// Takes note of a read that is carried out: the reader is there, and joins the channel that it asks for.
    fn uses(&mut self, session: SessionId, agent: &AgentName, filter: &Filter, step: &mut Step<'_>) {
        self.acts(session, agent, step);
        if let Some(channel) = &filter.channel
            && self.groups.channel(channel, agent, self).1
        {
            self.join(channel.clone(), agent, step);
        }
    }

    /// Takes what a filter means of an inbox into an answer.
    pub(super) fn take(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        filter: &Filter,
        waited_ms: i64,
        step: &mut Step<'_>,
    ) -> Answer {
        let started_at = self.boot.started_at;
        let mut earlier = self.earlier(agent, filter);
        let HandedOver {
            id,
            deliveries,
            part,
            is_cut,
            notice,
            remaining,
        } = self.hand_over(session, agent, filter, step);
        if let Some(room) = &filter.room {
            leave_out(&mut earlier, &deliveries, is_cut || part.is_some(), room);
        }
        Answer {
            reply: Reply::Messages {
                project: seen_from(agent),
                earlier,
                deliveries,
                part: part.map(Box::new),
                is_cut,
                restarted: notice.then_some(started_at),
                remaining,
                waited_ms,
            }
            .into(),
            handover: id,
        }
    }

    /// Returns what a filter means of what was handed over before, the latest of it, oldest first: so many that with what waits
    /// there are no more than it asks for. Nothing, if it does not ask for it.
    fn earlier(&self, agent: &AgentName, filter: &Filter) -> Vec<Delivery> {
        if !filter.earlier {
            return Vec::new();
        }
        let limit = filter.limit.map_or(usize::MAX, NonZeroUsize::get);
        let matching = self.inboxes[agent].matching(filter, filter.readable(self.readable_with_tools(agent)));
        let room = limit.saturating_sub(matching.count());
        // What is on its way to the agent's node is shown by nobody else.
        let numbered = |delivery: &&Delivery| !self.inboxes[agent].has_number(delivery.seq);
        let deferred = self.deferred(agent);
        let before = self.handed_before(agent).filter(numbered);
        let before = before.filter(|delivery| !deferred.contains(&delivery.seq));
        let meant = before.filter(|delivery| filter.has(&delivery.message));
        let mut earlier: Vec<Delivery> = meant.cloned().collect();
        earlier.sort_unstable_by_key(|delivery| delivery.seq);
        earlier.drain(..earlier.len().saturating_sub(room));
        earlier
    }

    /// Tells what of an inbox is read with tools: where a node holds the agent, only what does not go to the node by itself.
    pub(super) fn readable_with_tools(&self, agent: &AgentName) -> Readable {
        match self.is_held(agent) {
            true => Readable::Held,
            false => Readable::All,
        }
    }

    /// Tells whether there is something that a read of a session need not wait for: a message that it asks for, or that the relay
    /// started, unless it waits past that.
    pub(super) fn has_news(&self, session: SessionId, agent: &AgentName, filter: &Filter) -> bool {
        let inbox = &self.inboxes[agent];
        let mut matching = inbox.matching(filter, filter.readable(self.readable_with_tools(agent)));
        let is_there = matching.next().is_some();
        let is_told_alone = filter.answers.is_none() && !filter.waits_past_start;
        is_there || (inbox.notice_due && is_told_alone && self.tells(session, agent))
    }
}

/// Leaves out the oldest of what was handed over before, so that the rest fits beside what was not; all, if there is no room beside that.
fn leave_out(earlier: &mut Vec<Delivery>, new: &[Delivery], is_full: bool, room: &Room) {
    if earlier.is_empty() {
        return;
    }
    let taken = |left: usize, delivery: &Delivery| Some(left - room.taken_by(&delivery.message, left)?);
    let left = new
        .iter()
        .try_fold(room.for_messages(), taken)
        .filter(|_| !is_full);
    let mut left = left.unwrap_or_default();
    let fits = |delivery: &&Delivery| match taken(left, delivery) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let fitting = earlier.iter().rev().take_while(fits).count();
    earlier.drain(..earlier.len() - fitting);
}

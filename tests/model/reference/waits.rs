//! Waits, and what wakes them.

use super::*;

impl Model {
    pub(super) fn unpark(&mut self, call: CallId) -> Option<Parked> {
        let at = self.waits.iter().position(|wait| wait.call == call)?;
        Some(self.waits.remove(at))
    }

    /// Ends all waits, lower call numbers first.
    pub(super) fn stop(&mut self, now: Timestamp) -> Vec<Effect> {
        self.stopping = true;
        let mut waits = std::mem::take(&mut self.waits);
        self.marks.reach_if(waits.len() > 1, Mark::StopWithWaits);
        waits.sort_by_key(|wait| wait.call);
        let answer = |wait: Parked| {
            let waited = now.millis_since(wait.parked_at);
            self.hand_over(wait.session, wait.call, &wait.agent, &wait.wanted, waited)
        };
        waits.into_iter().map(answer).collect()
    }

    /// Tells whether something waits for an agent that a read asks for.
    pub(super) fn has(&self, agent: &AgentName, wanted: &Wanted) -> bool {
        let mut messages = self.messages.iter();
        messages.any(|m| m.waits_for(agent) && m.is_from(wanted))
    }

    /// Tells whether a session's reader of an inbox is still to be told of the start.
    pub(super) fn is_notice_due(&self, session: SessionId, agent: &AgentName) -> bool {
        let mut notices = self.notices.iter();
        let due = notices.any(|notice| notice.agent == *agent && notice.state == State::Waiting);
        due && !self.is_in_stead(session, agent)
    }

    /// Tells whether a session is the person's and the inbox an agent's.
    pub(super) fn is_in_stead(&self, session: SessionId, agent: &AgentName) -> bool {
        let mut sessions = self.sessions.iter();
        let by_person = sessions.any(|open| open.session == session && open.person);
        by_person && agent.as_str() != "user"
    }

    /// Serves every agent that has something, or is still to be told of the start, and is waited for, in the order
    /// of their names.
    pub(super) fn wake_all(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut names = everybody(&self.roster);
        names.sort();
        let mut effects = Vec::new();
        for agent in names {
            while let Some(effect) = self.wake(now, &agent) {
                effects.push(effect);
            }
        }
        effects
    }

    /// Serves whoever has waited for an agent the longest of those whom something can be told.
    pub(super) fn wake(&mut self, now: Timestamp, agent: &AgentName) -> Option<Effect> {
        let waiting = self.messages.iter().filter(|m| m.waits_for(agent));
        let waiting: Vec<bool> = waiting.map(|m| m.delivery.redelivered).collect();
        let in_line: Vec<&Parked> = self.waits.iter().filter(|wait| wait.agent == *agent).collect();
        let noticed = |wait: &&&Parked| !self.is_notice_due(wait.session, agent);
        let wait = in_line
            .iter()
            .find(|wait| self.has(agent, &wait.wanted) || !noticed(wait))?;
        let is_first = wait.call == in_line[0].call;
        let passed_by = in_line.iter().take_while(|other| other.call != wait.call);
        let has_others = passed_by.clone().any(|other| other.wanted.from.is_some());
        let is_in_stead = passed_by.clone().any(|other| other.wanted.from.is_none());
        let noticed = noticed(&wait);
        self.marks.reach(Mark::Wake);
        self.marks.reach_if(waiting.is_empty(), Mark::NoticeWakes);
        self.marks.reach_if(is_in_stead, Mark::NoticePassesThePersonBy);
        self.marks.reach_if(
            has_others && !waiting.is_empty(),
            Mark::MessagePassesByWhoWaitsForAnother,
        );
        self.marks
            .reach_if(!waiting.is_empty() && !noticed, Mark::NoticeWakesWithMessages);
        self.marks
            .reach_if(is_first && in_line.len() > 1, Mark::WakeOfTheLongest);
        self.marks
            .reach_if(wait.expires_at < now, Mark::WakeAfterTheDeadline);
        self.marks
            .reach_if(waiting.contains(&true), Mark::RedeliveredToWait);
        let wait = (**wait).clone();
        self.unpark(wait.call);
        let waited = now.millis_since(wait.parked_at);
        Some(self.hand_over(wait.session, wait.call, agent, &wait.wanted, waited))
    }

    /// Lists all that ends by itself.
    pub(super) fn due(&self) -> Vec<(Timestamp, Reason, CallId)> {
        let waits = self.waits.iter();
        let waits = waits.map(|wait| (wait.expires_at, Reason::WaitExpires, wait.call));
        let doubts = self.doubts.iter();
        let doubts = doubts.filter_map(|doubt| doubt.ends_at().map(|at| (at, Reason::DoubtEnds, doubt.call)));
        waits.chain(doubts).collect()
    }
}

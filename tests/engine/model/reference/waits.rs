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
        waits.iter().map(|wait| self.end_in_vain(now, wait)).collect()
    }

    /// Answers a wait that has ended without what it waited for.
    pub(super) fn end_in_vain(&mut self, now: Timestamp, wait: &Parked) -> Effect {
        self.has_waited(now, wait.session, &wait.agent);
        let Some(asked) = &wait.wanted.answers else {
            let waited = now.millis_since(wait.parked_at);
            let is_told = wait.wanted.waits_past_start && self.is_notice_due(wait.session, &wait.agent);
            self.marks.reach_if(is_told, Mark::NoticeAfterAWait);
            return self.hand_over(wait.session, wait.call, &wait.agent, &wait.wanted, waited);
        };
        if self.stopping {
            self.marks.reach(Mark::StopsWhileItAsks);
            return reply(wait.call, Err(Refusal::Stopping));
        }
        self.marks.reach(Mark::NoAnswer);
        let (to, ms) = (asked.to.clone(), asked.wait_ms);
        reply(wait.call, Err(Refusal::Mail(mail::Refusal::NoAnswer { to, ms })))
    }

    /// Tells whether something waits for an agent that a read asks for.
    pub(super) fn has(&self, agent: &AgentName, wanted: &Wanted) -> bool {
        let mut messages = self.messages.iter();
        messages.any(|m| m.waits_for(agent) && m.is_wanted(wanted))
    }

    /// Tells whether a session's reader of an inbox is still to be told of the start.
    pub(super) fn is_notice_due(&self, session: SessionId, agent: &AgentName) -> bool {
        let mut notices = self.notices.iter();
        let due = notices.any(|notice| notice.agent == *agent && notice.state == State::Waiting);
        due && !self.is_in_stead(session, agent)
    }

    /// Tells whether the start alone is told to a read that asks for this, however long it would wait.
    pub(super) fn notice_ends(&self, session: SessionId, agent: &AgentName, wanted: &Wanted) -> bool {
        let asks = wanted.answers.is_some();
        !asks && !wanted.waits_past_start && self.is_notice_due(session, agent)
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
        let mut names = self.everybody();
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
        let mut in_line: Vec<&Parked> = self.waits.iter().filter(|wait| wait.agent == *agent).collect();
        // Those who ask come before those who wait.
        in_line.sort_by_key(|wait| wait.wanted.answers.is_none());
        let asks = |wait: &Parked| wait.wanted.answers.is_some();
        let noticed = |wait: &&&Parked| !self.notice_ends(wait.session, agent, &wait.wanted);
        let wait = in_line
            .iter()
            .find(|wait| self.has(agent, &wait.wanted) || !noticed(wait))?;
        let is_first = wait.call == in_line[0].call;
        let passed_by = in_line.iter().take_while(|other| other.call != wait.call);
        let has_others = passed_by.clone().any(|other| other.wanted.from.is_some());
        let is_for_all =
            |other: &Wanted| other.from.is_none() && other.channel.is_none() && other.answers.is_none();
        let is_in_stead = passed_by.clone().any(|other| is_for_all(&other.wanted));
        let is_asked_in_vain = passed_by.clone().any(|other| asks(other));
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
        self.marks.reach_if(asks(wait), Mark::Answered);
        let asked = wait.wanted.answers.as_ref();
        let in_thread = |asked: &Asked, m: &Kept| !asked.agents.contains(&m.delivery.message.from);
        let mut answers = self
            .messages
            .iter()
            .filter(|m| m.waits_for(agent) && m.is_wanted(&wait.wanted));
        let by_another = asked.is_some_and(|asked| answers.next().is_some_and(|m| in_thread(asked, m)));
        self.marks.reach_if(by_another, Mark::AnsweredInItsThread);
        let longer = in_line
            .iter()
            .any(|other| !asks(other) && other.parked_at <= wait.parked_at);
        self.marks
            .reach_if(asks(wait) && longer, Mark::AnswerPassesByWhoWaitsLonger);
        self.marks
            .reach_if(is_asked_in_vain, Mark::NoAnswerPassesByWhoAsks);
        let other_channel = passed_by.clone().any(|other| other.wanted.channel.is_some());
        self.marks.reach_if(
            other_channel && !waiting.is_empty(),
            Mark::MessagePassesByWhoWaitsForAChannel,
        );
        self.marks
            .reach_if(wait.expires_at < now, Mark::WakeAfterTheDeadline);
        self.marks
            .reach_if(waiting.contains(&true), Mark::RedeliveredToWait);
        let wait = (**wait).clone();
        self.unpark(wait.call);
        self.has_waited(now, wait.session, agent);
        let waited = now.millis_since(wait.parked_at);
        Some(self.hand_over(wait.session, wait.call, agent, &wait.wanted, waited))
    }

    /// Lists all that ends by itself.
    pub(super) fn due(&self) -> Vec<(Timestamp, Reason, u64, CallId)> {
        let waits = self.waits.iter();
        let waits = waits.map(|wait| (wait.expires_at, Reason::WaitExpires, wait.call.0, wait.call));
        let doubts = self.doubts.iter();
        let doubts = doubts.filter_map(|doubt| {
            let at = doubt.ends_at()?;
            Some((at, Reason::DoubtEnds, doubt.number, doubt.call))
        });
        waits.chain(doubts).collect()
    }
}

//! Sessions: who may open one, and what its end does.

use super::*;

impl Model {
    pub(super) fn open(
        &mut self,
        now: Timestamp,
        session: SessionId,
        carrier: Carrier,
        who: &Who,
    ) -> Vec<Effect> {
        let agent = match self.admit(who) {
            Ok(agent) => agent,
            Err(refusal) => {
                let result = Err(refusal);
                return vec![Effect::Opened { session, result }];
            }
        };
        let mut effects = Vec::new();
        if let (Some(agent), Who::Registered(registration)) = (&agent, who) {
            effects.extend(self.register(now, agent, registration));
        }
        let known = agent.as_ref().and_then(|agent| self.agent(agent));
        let before = known.cloned().map(|agent| self.status_of(now, &agent));
        let known = agent.as_ref().and_then(|agent| self.agent(agent)).cloned();
        let comes_back = known.is_some_and(|agent| self.is_gone(&agent));
        self.marks.reach_if(comes_back, Mark::ComesBack);
        if let Some(agent) = agent.as_ref().and_then(|agent| self.agent(agent)) {
            agent.leaves_at = None;
            agent.has_left = false;
        }
        self.sessions.push(Open {
            client: None,
            session,
            carrier,
            agent: agent.clone(),
            person: *who == Who::Person,
            is_of_process: matches!(who, Who::Registered(registration) if registration.instance.is_some()),
            fenced: false,
        });
        let known = agent.as_ref().and_then(|agent| self.agent(agent));
        if let Some(agent) = known.cloned()
            && before != Some(self.status_of(now, &agent))
        {
            self.changed
                .push(Changed::Agents(agent.name.project().to_owned()));
        }
        let result = Ok(agent);
        effects.push(Effect::Opened { session, result });
        let woken = self.wake_all(now);
        self.marks.reach_if(!woken.is_empty(), Mark::WokenByATakeover);
        effects.extend(woken);
        effects
    }

    /// Judges who comes.
    fn admit(&mut self, who: &Who) -> Result<Option<AgentName>, Refusal> {
        let agent = match who {
            Who::Person | Who::Agent(None) => None,
            Who::Unnamed | Who::Api(_) | Who::Node(_) | Who::Program { .. } => {
                unreachable!("no plan has nodes, programs, the API or sessions that are given names")
            }
            Who::Agent(Some(name)) if name == "user" => {
                self.marks.reach(Mark::PersonAtOpen);
                return Err(self.persons(NamedAs::Session));
            }
            Who::Registered(registration) => Some(self.judge_registration(registration)?),
            Who::Agent(Some(name)) => match self.known(name) {
                Ok(agent) => Some(agent),
                Err(refusal) => {
                    self.marks.reach(Mark::UnknownAtOpen);
                    return Err(refusal);
                }
            },
        };
        let sessions = self.sessions.len();
        if sessions == self.bounds.sessions_max {
            self.marks.reach(Mark::TooManySessions);
            self.marks
                .reach_if(matches!(who, Who::Registered(_)), Mark::TooManySessionsToRegister);
            return Err(Refusal::Sessions(relay::engine::sessions::Refusal::TooMany {
                sessions,
            }));
        }
        Ok(agent)
    }

    pub(super) fn close(&mut self, now: Timestamp, session: SessionId, ending: Ending) -> Vec<Effect> {
        let Some(open) = self.session(session) else {
            self.marks.reach(Mark::CloseOfClosed);
            return Vec::new();
        };
        let waited = self.waits.iter().any(|wait| wait.session == session);
        self.marks.reach_if(waited, Mark::WaitClosed);
        for wait in self.waits.clone() {
            if wait.session == session {
                self.has_waited(now, session, &wait.agent);
            }
        }
        self.waits.retain(|wait| wait.session != session);
        for doubt in self.doubts.clone() {
            if doubt.session != session {
                continue;
            }
            if doubt.read_at.is_some() {
                self.marks.reach(Mark::ReadOutlivesItsSession);
                continue;
            }
            match (open.carrier, ending, doubt.passed) {
                (Carrier::Exchange, Ending::Orderly, Some(_)) => {
                    self.marks.reach(Mark::ReadByOrderlyExchangeEnd);
                    self.has_read(now, doubt.call, Sign::Ended(ending));
                    continue;
                }
                (Carrier::Exchange, Ending::Orderly, None) => {
                    self.marks.reach(Mark::UndoByOrderlyEndUnpassed);
                }
                (Carrier::Stream, Ending::Orderly, passed) => {
                    self.marks
                        .reach_if(passed.is_some(), Mark::UndoByOrderlyStreamEnd);
                }
                (Carrier::Exchange | Carrier::Stream, Ending::Broken, _) => {
                    self.marks.reach(Mark::UndoByBrokenEnd);
                }
                (Carrier::Node | Carrier::Hook | Carrier::Wake, ..) => {
                    unreachable!("no plan has nodes or programs")
                }
            }
            self.marks.reach_if(doubt.is_overdue(), Mark::OverdueUndoneByEnd);
            self.undo(doubt.call, Sign::Ended(ending));
        }
        let before = self.all_statuses(now);
        self.sessions.retain(|other| other.session != session);
        match open.agent {
            Some(_) => self.has_left(now, &open),
            None => self.who_was_spoken_for_has_left(now, &open, &before),
        }
        let effects = self.wake_all(now);
        self.marks
            .reach_if(effects.len() > 1, Mark::RedeliveredToTwoWaits);
        effects
    }

    pub(super) fn session(&self, session: SessionId) -> Option<Open> {
        self.sessions.iter().find(|open| open.session == session).cloned()
    }
}

//! Sessions: who may open one, and what its end does.

use super::*;

impl Model {
    pub(super) fn open(
        &mut self,
        session: SessionId,
        carrier: Carrier,
        who: &Who,
    ) -> Result<Option<AgentName>, Refusal> {
        let agent = match who {
            Who::Person | Who::Agent(None) => None,
            Who::Agent(Some(name)) if name == "user" => {
                self.marks.reach(Mark::PersonAtOpen);
                return Err(self.persons(NamedAs::Session));
            }
            Who::Registered(_) => unreachable!("no plan says so"),
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
            return Err(Refusal::Sessions(relay::engine::sessions::Refusal::TooMany {
                sessions,
            }));
        }
        self.sessions.push(Open {
            session,
            carrier,
            agent: agent.clone(),
            person: *who == Who::Person,
        });
        Ok(agent)
    }

    pub(super) fn close(&mut self, now: Timestamp, session: SessionId, ending: Ending) -> Vec<Effect> {
        let Some(open) = self.session(session) else {
            self.marks.reach(Mark::CloseOfClosed);
            return Vec::new();
        };
        let waited = self.waits.iter().any(|wait| wait.session == session);
        self.marks.reach_if(waited, Mark::WaitClosed);
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
                    self.has_read(now, doubt.call);
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
            }
            self.marks.reach_if(doubt.is_overdue(), Mark::OverdueUndoneByEnd);
            self.undo(doubt.call);
        }
        self.sessions.retain(|other| other.session != session);
        let effects = self.wake_all(now);
        self.marks
            .reach_if(effects.len() > 1, Mark::RedeliveredToTwoWaits);
        effects
    }

    pub(super) fn session(&self, session: SessionId) -> Option<Open> {
        self.sessions.iter().find(|open| open.session == session).cloned()
    }
}

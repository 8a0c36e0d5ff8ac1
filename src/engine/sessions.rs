//! Who is connected, and for whom it may speak.

use std::collections::BTreeSet;

use super::events::Event;
use super::io::{Carrier, Ending, Refusal, Sign, Who};
use super::names::{AgentName, CallId, HandoverId, PERSON, SessionId, shown};
use super::{Engine, Step};

/// An open session, with what ends when it does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Session {
    pub carrier: Carrier,
    pub agent: Option<AgentName>,
    /// It is the person's, and bound to nobody.
    pub person: bool,
    pub handovers: BTreeSet<HandoverId>,
    pub waits: BTreeSet<CallId>,
}

/// An agent for whom a session may speak. Only [`Engine::speaker`] makes one: whoever asks for it has been let through.
#[derive(Debug)]
pub(super) struct Speaker(AgentName);

impl Speaker {
    /// Returns the agent.
    pub fn agent(&self) -> &AgentName {
        &self.0
    }

    /// Returns the agent.
    pub fn into_agent(self) -> AgentName {
        self.0
    }
}

impl Engine {
    pub(super) fn open(
        &mut self,
        session: SessionId,
        carrier: Carrier,
        who: Who,
        step: &mut Step<'_>,
    ) -> Result<Option<AgentName>, Refusal> {
        let (agent, person) = match who {
            Who::Person => (None, true),
            Who::Agent(None) => (None, false),
            Who::Agent(Some(name)) if name == PERSON => return Err(self.persons("agent")),
            Who::Agent(Some(name)) => (Some(self.known(&name)?), false),
        };
        if self.sessions.len() >= self.bounds.sessions_max {
            return Err(Refusal::TooManySessions {
                sessions: self.sessions.len(),
            });
        }
        let state = Session {
            carrier,
            agent: agent.clone(),
            person,
            handovers: BTreeSet::new(),
            waits: BTreeSet::new(),
        };
        let before = self.sessions.insert(session, state);
        assert!(before.is_none(), "a session's number is used once");
        step.note(Event::Opened {
            session,
            carrier,
            agent: agent.clone(),
            person,
        });
        Ok(agent)
    }

    pub(super) fn close(&mut self, session: SessionId, ending: Ending, step: &mut Step<'_>) {
        let Some(state) = self.sessions.get(&session) else {
            return;
        };
        for call in state.waits.clone() {
            self.cancel_wait(call, step);
        }
        self.sign_all(session, Sign::Ended(ending), step);
        self.sessions.remove(&session);
        step.note(Event::Closed { session, ending });
    }

    /// Finds out for whom a session speaks in `argument`. The one gate: what posts or reads asks for the [`Speaker`] that it
    /// gives.
    pub(super) fn speaker(
        &self,
        session: SessionId,
        argument: &'static str,
        given: Option<&str>,
    ) -> Result<Speaker, Refusal> {
        let Session {
            agent: bound, person, ..
        } = &self.sessions[&session];
        if *person {
            return self.known(given.unwrap_or(PERSON)).map(Speaker);
        }
        if given == Some(PERSON) {
            return Err(self.persons(argument));
        }
        match (given, bound) {
            (None, None) => Err(Refusal::Anonymous {
                argument,
                known: self.roster.clone(),
            }),
            (None, Some(bound)) => Ok(Speaker(bound.clone())),
            (Some(name), None) => self.known(name).map(Speaker),
            (Some(name), Some(bound)) => {
                let named = self.known(name)?;
                if named == *bound {
                    return Ok(Speaker(named));
                }
                Err(Refusal::NotYou {
                    argument,
                    name: named.to_string(),
                    bound: bound.to_string(),
                })
            }
        }
    }

    fn persons(&self, argument: &'static str) -> Refusal {
        let known = self.roster.clone();
        Refusal::Persons { argument, known }
    }

    /// Finds the agent of a name, or the person.
    pub(super) fn known(&self, name: &str) -> Result<AgentName, Refusal> {
        match self.inboxes.get_key_value(name) {
            Some((agent, _)) => Ok(agent.clone()),
            None => Err(Refusal::UnknownAgent {
                name: shown(name),
                known: self.roster.clone(),
            }),
        }
    }

    /// Tells whether a reply to a session is one in which an agent is told of the start: the person who reads in an
    /// agent's stead does not take its news.
    pub(super) fn tells(&self, session: SessionId, agent: &AgentName) -> bool {
        !self.sessions[&session].person || agent.is_person()
    }

    pub(super) fn session_mut(&mut self, session: SessionId) -> &mut Session {
        self.sessions
            .get_mut(&session)
            .expect("what belongs to a session ends with it")
    }
}

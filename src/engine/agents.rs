//! For whom a session may speak: the one gate.

use super::Engine;
use super::io;
use super::names::{AgentName, PERSON, Roster, SessionId, shown};
use super::sessions::Session;

/// As what somebody was named, or was to be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedAs {
    /// The one that a message is from.
    Sender,
    /// The one whose inbox is meant.
    Reader,
    /// The one that a session is bound to.
    Session,
}

/// Why somebody may not be named so. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A sender, recipient or reader is not in the roster.
    Unknown {
        /// As given, cut if it is long.
        name: String,
        /// Who there is.
        known: Roster,
    },
    /// A bound session named another agent than its own.
    NotYou {
        /// As what.
        named: NamedAs,
        /// Whom it named.
        name: AgentName,
        /// The session's agent.
        bound: AgentName,
    },
    /// An agent's session named the person.
    Person {
        /// As what.
        named: NamedAs,
        /// Who else there is.
        known: Roster,
    },
    /// A session that is not bound did not say who it is.
    Anonymous {
        /// What it is to say.
        named: NamedAs,
        /// Who there is.
        known: Roster,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::Unknown { .. } => io::Class::Unknown,
            Self::NotYou { .. } | Self::Person { .. } | Self::Anonymous { .. } => io::Class::Bad,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Agents(refusal)
    }
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
    /// Finds out for whom a session speaks. The one gate: what posts or reads asks for the [`Speaker`] that it gives.
    pub(super) fn speaker(
        &self,
        session: SessionId,
        named: NamedAs,
        given: Option<&str>,
    ) -> Result<Speaker, Refusal> {
        let Session {
            agent: bound, person, ..
        } = &self.sessions[&session];
        if *person {
            return self.known(given.unwrap_or(PERSON)).map(Speaker);
        }
        if given == Some(PERSON) {
            return Err(self.refuse_person(named));
        }
        match (given, bound) {
            (None, None) => Err(Refusal::Anonymous {
                named,
                known: self.roster.clone(),
            }),
            (None, Some(bound)) => Ok(Speaker(bound.clone())),
            (Some(name), None) => self.known(name).map(Speaker),
            (Some(name), Some(bound)) => {
                let name = self.known(name)?;
                if name == *bound {
                    return Ok(Speaker(name));
                }
                let bound = bound.clone();
                Err(Refusal::NotYou { named, name, bound })
            }
        }
    }

    pub(super) fn refuse_person(&self, named: NamedAs) -> Refusal {
        let known = self.roster.clone();
        Refusal::Person { named, known }
    }

    /// Finds the agent of a name, or the person.
    pub(super) fn known(&self, name: &str) -> Result<AgentName, Refusal> {
        match self.inboxes.get_key_value(name) {
            Some((agent, _)) => Ok(agent.clone()),
            None => Err(Refusal::Unknown {
                name: shown(name),
                known: self.roster.clone(),
            }),
        }
    }
}

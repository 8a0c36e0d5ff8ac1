//! Agents that were given their names: a session of nobody's whose tools need an agent gets one when it first needs it.
//!
//! It is the agent of all sessions of its client, and goes with them, as one does that nobody has named.

use std::collections::BTreeMap;

use super::agents::{Refusal, Registration};
use super::limits::{TRANSIENT_MS, UNNAMED_MS};
use super::names::{AgentName, ClientId, DEFAULT_PROJECT, SessionId};
use super::sessions::Session;
use super::{Engine, Step};

/// The agents that were given their names and are there still.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Unnamed {
    /// The greatest number that a name has had.
    counted: u64,
    of_clients: BTreeMap<ClientId, AgentName>,
    /// The same, by name.
    clients: BTreeMap<AgentName, ClientId>,
}

impl Unnamed {
    fn is_of(&mut self, client: ClientId, agent: AgentName) {
        self.of_clients.insert(client.clone(), agent.clone());
        self.clients.insert(agent, client);
    }

    /// Forgets an agent that is gone.
    pub fn forget(&mut self, agent: &AgentName) {
        if let Some(client) = self.clients.remove(agent) {
            self.of_clients.remove(&client);
        }
    }

    /// Returns for how long an agent that goes with its sessions is there after the last one, in milliseconds.
    pub fn lasts_ms(&self, agent: &AgentName) -> i64 {
        if self.clients.contains_key(agent) {
            UNNAMED_MS
        } else {
            TRANSIENT_MS
        }
    }
}

impl Session {
    /// Tells whether it is to be given an agent when it needs one.
    pub fn is_to_be_named(&self) -> bool {
        self.unnamed && self.agent.is_none()
    }
}

impl Engine {
    /// Gives a session an agent, and the agent a name that nobody has.
    pub(super) fn give_name(&mut self, session: SessionId, step: &mut Step<'_>) -> Result<(), Refusal> {
        let mut numbers = self.unnamed.counted + 1..;
        let is_free = |number: &u64| self.agent_in(DEFAULT_PROJECT, &numbered(*number)).is_none();
        let number = numbers.find(is_free).expect("there are more numbers than agents");
        let registration = Registration {
            name: numbered(number),
            transient: true,
            ..Registration::default()
        };
        let agent = self.check_registration(&registration)?;
        self.unnamed.counted = number;
        self.register(&agent, registration, step);
        self.is_bound(session, agent, step);
        Ok(())
    }

    /// Gives a session the agent that its client has by another; or takes note that the agent is its client's.
    pub(super) fn goes_on_unnamed(&mut self, session: SessionId, step: &mut Step<'_>) {
        let state = &self.sessions[&session];
        let Some(client) = state.client.as_ref().filter(|_| state.unnamed) else {
            return;
        };
        match (&state.agent, self.unnamed.of_clients.get(client)) {
            (None, Some(agent)) => {
                let agent = agent.clone();
                self.is_bound(session, agent, step);
            }
            (Some(agent), None) => self.unnamed.is_of(client.clone(), agent.clone()),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }

    fn is_bound(&mut self, session: SessionId, agent: AgentName, step: &mut Step<'_>) {
        self.joins(&agent, session, step);
        self.session_mut(session).agent = Some(agent);
        self.goes_on_unnamed(session, step);
    }
}

fn numbered(number: u64) -> String {
    format!("mcp-{number}")
}

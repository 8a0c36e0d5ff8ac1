//! Agents that were given their names: a session of nobody's whose tools need an agent gets one when it first needs it.
//!
//! It is the agent of the client that the session is one of, whatever other sessions that has: a stream that comes back under its old id is
//! the same client, and so is each connection that names the same session. The agent of a stream goes with it as one does that nobody has
//! named, that of connections once they have rested for long. Of a client that says nothing by which it is known again, nobody could ever
//! read what was sent to it: it is given none.

use super::agents::{Refusal, Registration};
use super::events::Event;
use super::io::Carrier;
use super::message::Delivery;
use super::names::{AgentName, DEFAULT_PROJECT, RandomBytes, ResolvedBy, Seq, SessionId};
use super::sessions::Session;
use super::{Engine, Step};

/// The least of the numbers in names. A bridge is called by its process, and those have fewer digits:
/// <https://man7.org/linux/man-pages/man5/proc_sys_kernel.5.html>, `pid_max`.
const NUMBERS_FROM: u32 = 10_000_000;

/// How many numbers a name is drawn from, all of eight digits.
const NUMBERS: u32 = 90_000_000;

impl Session {
    /// Tells whether it is to be given an agent when it needs one.
    pub fn is_to_be_named(&self) -> bool {
        let is_known_again = self.client.is_some() || self.carrier == Carrier::Stream;
        self.unnamed && self.agent.is_none() && is_known_again
    }
}

impl Engine {
    /// Gives a session an agent, and the agent a name that nobody has.
    pub(super) fn give_name(
        &mut self,
        session: SessionId,
        random: RandomBytes,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        let registration = Registration {
            name: self.free_name(random),
            transient: true,
            ..Registration::default()
        };
        let agent = self.check_registration(&registration)?;
        self.register(&agent, registration, step);
        if let Some(client) = self.sessions[&session].client.clone() {
            self.agent_mut(&agent).client = Some(client.clone());
            self.of_clients.insert(client, agent.clone());
        }
        self.is_bound(session, agent, step);
        Ok(())
    }

    /// Gives a session the agent that its client was given in another.
    pub(super) fn goes_on_unnamed(&mut self, session: SessionId, step: &mut Step<'_>) {
        let state = &self.sessions[&session];
        if state.is_to_be_named()
            && let Some(client) = &state.client
            && let Some(agent) = self.of_clients.get(client)
        {
            let agent = agent.clone();
            self.is_bound(session, agent, step);
        }
    }

    /// Takes note that an agent is no client's any more, if it was one's: it is gone, or somebody else's.
    pub(super) fn is_no_clients(&mut self, agent: &AgentName) {
        let state = self.agent_mut(agent);
        state.rests = false;
        if let Some(client) = state.client.take() {
            self.of_clients.remove(&client);
        }
    }

    /// Has what many were sent expire for an agent whose client has not come back. It would keep the agent for good, while what was sent to it
    /// alone may still be asked for.
    pub(super) fn gives_up_what_many_got(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        let is_for_many = |delivery: &&Delivery| match delivery.message.to.by() {
            ResolvedBy::Name | ResolvedBy::List => false,
            ResolvedBy::Role | ResolvedBy::Group | ResolvedBy::Channel | ResolvedBy::Broadcast => true,
        };
        let waiting = self.inboxes[agent].waiting().filter(is_for_many);
        let given_up: Vec<Seq> = waiting.map(|delivery| delivery.seq).collect();
        for seq in given_up {
            let delivery = self.inbox_mut(agent).expire(seq);
            self.forget_deadlines(agent, std::slice::from_ref(&delivery));
            let agent = agent.clone();
            step.note(Event::Expired { agent, delivery });
        }
    }

    fn is_bound(&mut self, session: SessionId, agent: AgentName, step: &mut Step<'_>) {
        self.joins(&agent, session, step);
        self.session_mut(session).agent = Some(agent);
    }

    /// Makes a name that nobody has. No process has its number, and hardly any client had it before a start.
    fn free_name(&self, random: RandomBytes) -> String {
        // Of a message's id, which is made of the same, the first ones are shown.
        let [.., a, b, c, d] = random;
        let first = NUMBERS_FROM + u32::from_be_bytes([a, b, c, d]) % NUMBERS;
        let names = (first..).map(|number| format!("mcp-{number}"));
        let mut free = names.filter(|name| self.agent_in(DEFAULT_PROJECT, name).is_none());
        free.next().expect("there are more numbers than agents")
    }
}

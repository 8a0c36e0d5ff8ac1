//! Looking: who there is, what one is, and in which mode it is brought messages; and retiring one.

use super::{Agent, AgentView, Command, NamedAs, Refusal, Reply, Status, Which};
use crate::engine::names::{AgentName, DEFAULT_PROJECT, SessionId, check_name};
use crate::engine::time::Timestamp;
use crate::engine::{Engine, Step, io};

impl Engine {
    /// Carries a command out.
    pub(in super::super) fn about_agents(
        &mut self,
        session: SessionId,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<io::Outcome, Refusal> {
        self.check_not_fenced(session)?;
        let now = step.now;
        let agent = self.sessions[&session].agent.clone();
        match command {
            Command::List { project, which } => {
                let project = project.filter(|project| !project.is_empty());
                let own = agent.as_ref().map_or(DEFAULT_PROJECT, AgentName::project);
                let asked = self.home.meant(project.as_deref().unwrap_or(own)).to_owned();
                if asked != "*" {
                    check_name("project", &asked)?;
                }
                self.looks(session, agent.as_ref(), step);
                let agents = self.agents.iter();
                let agents = agents.filter(|(name, _)| asked == "*" || name.project() == asked);
                let agents = agents.map(|(name, agent)| self.view(name, agent, now));
                let least = match which {
                    Which::All => Status::Offline,
                    Which::Present => Status::Idle,
                    Which::Active => Status::Active,
                };
                let agents = agents.filter(|agent| agent.status >= least).collect();
                let project = own.to_owned();
                Ok(Reply::Listed { project, agents }.into())
            }
            Command::Find { agent } => {
                let found = self.agents.get(&agent);
                let found = found.map(|found| Box::new(self.view(&agent, found, now)));
                Ok(Reply::Found(found).into())
            }
            Command::WhoAmI => {
                self.looks(session, agent.as_ref(), step);
                let reply = Reply::You {
                    agent,
                    place: self.place.clone(),
                    started_at: self.boot.started_at,
                    now,
                };
                Ok(reply.into())
            }
            Command::Mode { agent, mode } => {
                let agent = self.speaker(session, NamedAs::Session, agent.as_deref())?;
                if mode.is_some() && agent.agent().is_person() {
                    return Err(Refusal::NobodysMode);
                }
                let inbox = self.inbox_mut(agent.agent());
                inbox.mode = mode.unwrap_or(inbox.mode);
                Ok(Reply::Mode(inbox.mode).into())
            }
            Command::Retire { agent } => {
                if !self.sessions[&session].person {
                    return Err(Refusal::NotThePerson);
                }
                let agent = self.known_in(DEFAULT_PROJECT, &agent)?;
                self.retire(&agent, step)?;
                Ok(Reply::Retired { agent }.into())
            }
        }
    }

    /// Takes note that a session looks around, for its agent if it is bound to one.
    fn looks(&mut self, session: SessionId, agent: Option<&AgentName>, step: &mut Step<'_>) {
        if let Some(agent) = agent {
            self.acts(session, agent, step);
        }
    }

    /// Tells whether one of an agent's own sessions waits for something. The person who does so in its stead does not count.
    pub(in super::super) fn itself_waits(&self, agent: &AgentName) -> bool {
        let mut waits = self.inboxes[agent].waits.iter();
        waits.any(|call| self.tells(self.waits[call].session, agent))
    }

    /// Tells whether an agent is there.
    pub(in super::super) fn status_of(&self, name: &AgentName, now: Timestamp) -> Status {
        let agent = &self.agents[name];
        if agent.is_active(now) || self.itself_waits(name) {
            Status::Active
        } else if self.is_connected(name, agent) {
            Status::Idle
        } else {
            Status::Offline
        }
    }

    fn view(&self, name: &AgentName, agent: &Agent, now: Timestamp) -> AgentView {
        let waits = self.itself_waits(name);
        let last_contact = if waits { Some(now) } else { agent.last_contact };
        let status = self.status_of(name, now);
        AgentView {
            name: name.clone(),
            profile: agent.profile.clone(),
            last_contact: last_contact.map(|at| self.on_the_wall(at)),
            status,
        }
    }
}

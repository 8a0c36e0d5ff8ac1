//! What the sessions of nodes say: that one comes, beats and leaves, which agents it has, and what they have got.

use std::collections::BTreeSet;

use super::actions::Offer;
use super::agents::{self, Registration, Status};
use super::events::Event;
use super::io::{self, Effect, Sign};
use super::limits::{INSTANCE_MS, NODE_GONE_MS};
use super::names::{AgentName, NodeId, RandomBytes, SessionId, shown};
use super::nodes::{Command, Node, Presence, Refusal, Reply};
use super::time::Timestamp;
use super::timers::Timer;
use super::{Engine, Step};

/// What the session of a node may say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Said {
    /// It is there, and takes frames from now on.
    Registers {
        /// Which instance of which program it is, if it says so.
        instance: Option<Instance>,
        /// It takes the frames of an agent only once it has named it over this connection, and learned which number comes next.
        names_first: bool,
        /// The actions that it offers, and no others.
        offers: Vec<Offer>,
    },
    /// It is still there.
    Beats,
    /// It leaves, and will acknowledge nothing more.
    Leaves,
    /// An agent runs on it. One that is not there is made.
    Adopts {
        /// Its name.
        agent: String,
    },
    /// An agent runs on it no more.
    Drops {
        /// Its name.
        agent: String,
    },
    /// These agents run on it, and no others.
    Has {
        /// Their names.
        agents: Vec<String>,
    },
    /// An agent has got all frames up to a number.
    Acknowledges {
        /// Its name.
        agent: String,
        /// The number of the last of them.
        up_to: u64,
    },
    /// The target of its pushes has taken a frame, and the agent will give a receipt for it.
    Took {
        /// The name of the agent.
        agent: String,
        /// The number of the frame.
        number: u64,
    },
    /// The target of its pushes has not taken a frame.
    Failed {
        /// The name of the agent.
        agent: String,
        /// The number of the frame.
        number: u64,
        /// Why.
        error: String,
    },
    /// The target of its pushes was asked to do something for an agent.
    Asked {
        /// The id of the invocation.
        invocation: String,
        /// Whether it has taken it, or why not.
        taken: Result<(), Box<str>>,
    },
    /// An invocation has ended that the node was sent.
    Ends {
        /// Its id.
        invocation: String,
        /// What it came to, or why to nothing.
        result: Result<Box<str>, Box<str>>,
    },
}

/// Which instance of which program a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instance {
    /// The program.
    pub provider: String,
    /// The instance.
    pub id: String,
}

impl From<Said> for io::Command {
    fn from(said: Said) -> Self {
        Self::Nodes(Command::Says(said))
    }
}

impl Engine {
    pub(super) fn node_says(
        &mut self,
        session: SessionId,
        said: Said,
        random: RandomBytes,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        let node = self.sessions[&session].node.ok_or(Refusal::NotYours)?;
        let is_live = self.nodes.get(node).presence == Presence::Live(session);
        let reply = match said {
            Said::Registers {
                instance,
                names_first,
                offers,
            } => {
                self.come(node, session, instance, names_first, step)?;
                let offers = self.offer(node, offers, step);
                let view = self.nodes.get(node).view(node);
                Reply::Registered { view, offers }
            }
            Said::Beats
            | Said::Leaves
            | Said::Adopts { .. }
            | Said::Drops { .. }
            | Said::Has { .. }
            | Said::Acknowledges { .. }
            | Said::Took { .. }
            | Said::Failed { .. }
            | Said::Asked { .. }
            | Said::Ends { .. }
                if !is_live =>
            {
                return Err(Refusal::NotRegistered.into());
            }
            Said::Beats => Reply::Noted,
            Said::Leaves => {
                self.withdraw(node);
                self.lapse(node, step);
                Reply::Noted
            }
            Said::Adopts { agent } => {
                let agent = self.adopt(node, &agent, step)?;
                self.send_again(&agent, step);
                self.send_invocations_again(&agent);
                Reply::Bound(self.binding_view(&agent))
            }
            Said::Drops { agent } => {
                self.drop_agent(node, &agent, step)?;
                Reply::Noted
            }
            Said::Has { agents } => self.has_agents(node, &agents, step)?,
            Said::Acknowledges { agent, up_to } => {
                let agent = self.bound_to(node, &agent)?;
                self.acknowledge(session, &agent, up_to, step)?;
                Reply::Noted
            }
            Said::Took { agent, number } => {
                let agent = self.bound_to(node, &agent)?;
                self.push_taken(node, session, &agent, number, step)?;
                Reply::Noted
            }
            Said::Failed { agent, number, error } => {
                let agent = self.bound_to(node, &agent)?;
                self.push_failed(node, &agent, number, &error, random, step)?;
                Reply::Noted
            }
            Said::Asked { invocation, taken } => {
                self.target_was_asked(node, &invocation, taken, step)?;
                Reply::Noted
            }
            Said::Ends { invocation, result } => {
                self.end_as_node(node, &invocation, result, step)?;
                Reply::Noted
            }
        };
        let state = self.nodes.get_mut(node);
        (state.last_contact, state.seen_at) = (Some(step.now), Some(step.wall));
        Ok(reply)
    }

    /// Takes note that a node is connected by a session, which supersedes the one before.
    fn come(
        &mut self,
        id: NodeId,
        session: SessionId,
        instance: Option<Instance>,
        names_first: bool,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        let Node {
            presence,
            instance: before,
            last_contact,
            ..
        } = self.nodes.get(id);
        match *presence {
            Presence::Live(old) if old == session => return Ok(()),
            Presence::Live(old) => {
                let is_another = instance.is_some() && before.is_some() && instance != *before;
                let is_recent = last_contact.is_some_and(|at| step.now < at.plus_millis(INSTANCE_MS));
                if is_another && is_recent {
                    let silent_ms = INSTANCE_MS;
                    return Err(Refusal::InstanceConflict { silent_ms });
                }
                self.sign_all(old, Sign::Fenced, step);
                step.out.push(Effect::Superseded { session: old });
            }
            Presence::Gone(until) => self.timers.disarm(until, Timer::NodeLapses(id)),
            Presence::Absent => {}
        }
        let agents = self.statuses_at(id, step.now);
        let node = self.nodes.get_mut(id);
        node.presence = Presence::Live(session);
        node.instance = instance;
        node.names_first = names_first;
        step.note(Event::NodeCame {
            node: Box::new(node.view(id)),
            session,
        });
        step.moves_handlers = true;
        for (agent, before) in agents {
            self.set_named(&agent, false);
            self.resume(&agent, step);
            self.tell_of_status(&agent, before, step);
        }
        Ok(())
    }

    /// Takes note that a session of a node has ended. Its agents are held for a while.
    pub(super) fn node_closed(&mut self, node: NodeId, session: SessionId, step: &mut Step<'_>) {
        if self.nodes.get(node).presence != Presence::Live(session) {
            return;
        }
        let until = step.now.plus_millis(NODE_GONE_MS);
        self.nodes.get_mut(node).presence = Presence::Gone(until);
        self.timers.arm(until, Timer::NodeLapses(node));
        let node = Box::new(self.nodes.get(node).view(node));
        step.note(Event::NodeLeft { node });
    }

    /// Lets go of the agents of a node: what it did not acknowledge is read with tools.
    pub(super) fn lapse(&mut self, id: NodeId, step: &mut Step<'_>) {
        if let Presence::Gone(until) = self.nodes.get(id).presence {
            self.timers.disarm(until, Timer::NodeLapses(id));
        }
        let agents = self.statuses_at(id, step.now);
        let node = self.nodes.get_mut(id);
        node.presence = Presence::Absent;
        let view = Box::new(node.view(id));
        step.note(Event::NodeLapsed { node: view });
        self.node_is_gone(id, step);
        for (agent, before) in agents {
            self.let_go_of(&agent, step);
            self.tell_of_status(&agent, before, step);
            step.wakes(agent);
        }
    }

    /// Returns the agents of a node, and whether each is there.
    fn statuses_at(&self, node: NodeId, now: Timestamp) -> Vec<(AgentName, Status)> {
        let agents = self.nodes.get(node).agents.iter();
        let statuses = agents.map(|agent| (agent.clone(), self.status_of(agent, now)));
        statuses.collect()
    }

    /// Ends what all nodes hold, so that what they did not acknowledge counts as unread.
    pub(super) fn lapse_all(&mut self, step: &mut Step<'_>) {
        let there = self.nodes.iter();
        let there = there.filter(|(_, node)| node.presence != Presence::Absent);
        for node in there.map(|(id, _)| id).collect::<Vec<_>>() {
            self.lapse(node, step);
        }
    }

    /// Ends the binding of an agent to a node. If no other node for several has the agent, that was done before, and is said again.
    fn drop_agent(&mut self, node: NodeId, agent: &str, step: &mut Step<'_>) -> Result<(), Refusal> {
        let known = self.agent_in(&self.nodes.get(node).project, agent);
        let not_bound = || Refusal::NotBound { agent: shown(agent) };
        let known = known.ok_or_else(not_bound)?;
        match self.inboxes[&known].binding.as_ref().map(|binding| binding.node) {
            Some(bound) if bound == node => self.give_back(&known, step),
            Some(other) if self.nodes.get(other).own.is_none() => return Err(not_bound()),
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Finds the agent that a node means, if it is bound to it.
    pub(super) fn bound_to(&self, node: NodeId, agent: &str) -> Result<AgentName, Refusal> {
        let state = self.nodes.get(node);
        let known = self.agent_in(&state.project, agent);
        let bound = known.filter(|agent| state.agents.contains(agent));
        bound.ok_or_else(|| Refusal::NotBound { agent: shown(agent) })
    }

    /// Binds an agent to the node that it runs on, unless another node holds it.
    fn adopt(&mut self, node: NodeId, agent: &str, step: &mut Step<'_>) -> Result<AgentName, io::Refusal> {
        let agent = self.check_adoption(node, agent)?;
        self.check_room_on(node, &agent)?;
        let registration = Registration {
            project: Some(agent.project().to_owned()),
            name: agent.local().to_owned(),
            ..Registration::default()
        };
        self.register(&agent, registration, step);
        self.bind(node, &agent, step);
        self.set_named(&agent, true);
        step.moves_handlers = true;
        step.wakes(agent.clone());
        Ok(agent)
    }

    /// Checks that an agent may run on a node, and finds its name. Changes nothing.
    fn check_adoption(&self, node: NodeId, agent: &str) -> Result<AgentName, io::Refusal> {
        let registration = Registration {
            project: Some(self.nodes.get(node).project.clone()),
            name: agent.to_owned(),
            ..Registration::default()
        };
        let agent = self.check_registration(&registration)?;
        self.check_own(node, &agent)?;
        let binding = self.inboxes.get(&agent).and_then(|inbox| inbox.binding.as_ref());
        if let Some(binding) = binding
            && binding.node != node
            && self.nodes.get(binding.node).presence != Presence::Absent
        {
            let node = self.nodes.get(binding.node).name.clone();
            return Err(Refusal::Elsewhere { agent, node }.into());
        }
        Ok(agent)
    }

    /// Makes the agents of a node those that it says it has. Those that another node holds are left there.
    fn has_agents(
        &mut self,
        node: NodeId,
        named: &[String],
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        let mut has = BTreeSet::new();
        for agent in named {
            match self.check_adoption(node, agent) {
                Ok(agent) => drop(has.insert(agent)),
                Err(io::Refusal::Nodes(Refusal::Elsewhere { .. })) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        let new = has
            .iter()
            .filter(|agent| !self.agents.contains_key(*agent))
            .count();
        let agents = self.agents.len();
        if new > 0 && agents + new > self.bounds.agents_max {
            return Err(agents::Refusal::TooManyAgents { agents }.into());
        }
        if self.nodes.get(node).agents_max.is_some_and(|max| has.len() > max) {
            let agents = has.len();
            return Err(Refusal::Full { agents }.into());
        }
        let no_more = self.nodes.get(node).agents.difference(&has);
        for agent in no_more.cloned().collect::<Vec<_>>() {
            self.give_back(&agent, step);
        }
        for agent in &has {
            self.adopt(node, agent.local(), step)?;
        }
        let views = has.iter().map(|agent| self.binding_view(agent));
        Ok(Reply::Has(views.collect()))
    }
}

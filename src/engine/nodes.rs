//! Nodes: programs that take the deliveries of agents over one connection, each in a frame with a number, and acknowledge them
//! by that number. Which agents a node has is its bindings; what is on its way to it is in [`super::frames`].
//!
//! A node is made by name, and comes and goes. While it is connected, and for [`super::limits::NODE_GONE_MS`] after its connection has ended,
//! it *holds* its agents: what comes for them goes to the node alone, and reads of their inboxes find nothing but the answers
//! that they wait for, and what is held until its agent asks for it ([`super::handling::Mode::Manual`]). When that time is over, or when the node says that it leaves, its agents are held no more, and what the
//! node did not acknowledge is read with tools, marked as redelivered. When it comes back it holds them again.
//!
//! An agent is bound to one node at the most. A direct node is the agent's own, and has no other.
//!
//! A node is connected once: a later connection supersedes the one before, and what was on its way over that goes out again over
//! the new one. A node that says which instance of which program it is cannot supersede another instance that was heard of within
//! [`super::limits::INSTANCE_MS`]: two of them would take turns for ever.

use std::collections::BTreeSet;

use super::actions;
use super::agents::{self, NamedAs};
use super::io;
use super::limits::NODE_NAME_BYTES_MAX;
use super::names::{AgentName, NodeId, RandomBytes, SessionId, check_name, is_label, shown};
use super::pushes::{DeadLetter, Failing};
use super::time::Timestamp;
use super::{Engine, Step};

pub use super::node_sessions::{Instance, Said};
pub(super) use super::node_table::{Node, Nodes, Presence};

/// What may be asked about nodes. Names are as given, not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Finds or makes the node of the session's own agent.
    Own,
    /// Finds or makes a node for several agents. The person's to ask.
    Create {
        /// Its project.
        project: String,
        /// Its name in it.
        name: String,
        /// By what it calls itself beside its name, if it says so.
        label: Option<String>,
        /// How many agents it takes at the most; any number if it is left out.
        agents_max: Option<usize>,
        /// Relay itself takes its deliveries to a target.
        pushes: bool,
    },
    /// Binds an agent to a node, whichever it was bound to. The person's to ask.
    Bind {
        /// The node.
        node: NodeId,
        /// The agent, as it is written in the node's project.
        agent: String,
    },
    /// Ends the binding of an agent to a node; its own node has it again, if it has one. The person's to ask.
    Unbind {
        /// The node.
        node: NodeId,
        /// The agent, as it is written in the node's project.
        agent: String,
    },
    /// Looks one node up. The person's to ask.
    Find {
        /// Its project.
        project: String,
        /// What is known of it.
        by: By,
    },
    /// Tells how an agent is bound to a node. The person's to ask.
    Binding {
        /// The node.
        node: NodeId,
        /// The agent, as it is written in the node's project.
        agent: String,
    },
    /// Lists the nodes of a project. The person's to ask.
    List {
        /// Which project.
        project: String,
    },
    /// Lists the agents of a node. The person's to ask.
    Bindings {
        /// The node.
        node: NodeId,
    },
    /// Lists what was pushed in vain, of one agent, as the person writes it, or of all. The person's to ask.
    DeadLetters {
        /// Whose.
        agent: Option<String>,
    },
    /// Has it go out again, and what waits for its next attempt. The person's to ask.
    Redrive {
        /// Whose.
        agent: Option<String>,
    },
    /// What the session of a node says.
    Says(Said),
}

/// By what a node is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum By {
    /// The name of one for several agents.
    Name(String),
    /// What it calls itself beside its name; of several the one that was made first.
    Label(String),
    /// The agent of the project whose own it is.
    Owner(String),
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Nodes(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A node, as it is now.
    Node(NodeView),
    /// A node has registered.
    Registered {
        /// As it is now.
        view: NodeView,
        /// The actions that it offers, and why one of them is not taken.
        offers: Vec<(String, Option<actions::Refusal>)>,
    },
    /// An agent is bound to a node.
    Bound(BindingView),
    /// An agent is bound to the node no more, or never was.
    Unbound {
        /// Whether it was.
        was_bound: bool,
    },
    /// The node that was looked up, if there is one.
    Found(Option<NodeView>),
    /// Nodes, in the order in which they were made.
    Listed(Vec<NodeView>),
    /// The agents of a node: of the session's, after it has said which ones it has, or of the one that was asked about.
    Has(Vec<BindingView>),
    /// What was pushed in vain.
    DeadLetters(Vec<DeadLetter>),
    /// It goes out again.
    Redriven {
        /// How many deliveries had been given up.
        given_up: usize,
        /// For how many agents pushes went on that had paused after failures.
        hastened: usize,
    },
    /// It was taken note of.
    Noted,
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Nodes(Box::new(reply))
    }
}

/// A node as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its number.
    pub node: NodeId,
    /// Its project.
    pub project: String,
    /// Its name in it; that of its agent if it is a direct node.
    pub name: String,
    /// The agent whose own it is.
    pub own: Option<AgentName>,
    /// By what it calls itself beside its name, if it said so.
    pub label: Option<String>,
    /// How many agents it takes at the most.
    pub agents_max: Option<usize>,
    /// The agents that are bound to it, in the order of their names.
    pub agents: Vec<AgentName>,
    /// Relay itself takes its deliveries to a target.
    pub pushes: bool,
    /// It is connected.
    pub is_live: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it said something last.
    pub last_contact: Option<Timestamp>,
}

/// The binding of an agent as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingView {
    /// The agent.
    pub agent: AgentName,
    /// How many frames of its have been acknowledged, or will never be sent again: the next one has the number after it.
    pub acknowledged: u64,
    /// The target of its pushes does not take them.
    pub failing: Option<Failing>,
    /// How many of its deliveries were given up.
    pub dead: usize,
}

/// Why a [`Command`] was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is not for this session to ask.
    NotYours,
    /// There is no such node, or none any more.
    Unknown,
    /// The session has not registered as a node, or a later connection of it has.
    NotRegistered,
    /// What is to be the name of a node is none.
    InvalidName {
        /// As given, cut if it is long.
        given: String,
    },
    /// Another instance of the node was heard of a moment ago.
    InstanceConflict {
        /// How long it has to be silent before another may take its place, in milliseconds.
        silent_ms: i64,
    },
    /// The agent runs on another node.
    Elsewhere {
        /// Which agent.
        agent: AgentName,
        /// The name of the other node.
        node: String,
    },
    /// The node is another agent's own.
    AnothersOwn {
        /// Whose.
        owner: AgentName,
    },
    /// The agent is not bound to this node.
    NotBound {
        /// As given, cut if it is long.
        agent: String,
    },
    /// The node has as many agents as it takes.
    Full {
        /// How many.
        agents: usize,
    },
    /// A number was acknowledged that no frame of the agent's has had yet.
    NeverSent {
        /// Which agent.
        agent: AgentName,
        /// The number.
        up_to: u64,
        /// The last number that was given out.
        sent: u64,
    },
    /// A node of that name is there, and calls itself by something else.
    OtherLabel {
        /// By what, if by anything.
        known: Option<String>,
    },
    /// A node of that name is there, and is none that is pushed to, or the other way round.
    OtherKind {
        /// Relay pushes to it.
        pushes: bool,
    },
    /// There are as many nodes as there may be.
    TooMany {
        /// How many there are.
        nodes: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::NotYours | Self::AnothersOwn { .. } | Self::InvalidName { .. } | Self::NeverSent { .. } => {
                io::Class::Bad
            }
            Self::Unknown | Self::NotBound { .. } => io::Class::Unknown,
            Self::NotRegistered => io::Class::Fenced,
            Self::InstanceConflict { .. }
            | Self::Elsewhere { .. }
            | Self::OtherLabel { .. }
            | Self::OtherKind { .. } => io::Class::Conflict,
            Self::Full { .. } | Self::TooMany { .. } => io::Class::Full,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Nodes(refusal)
    }
}

impl Engine {
    /// Carries a command out.
    pub(super) fn about_nodes(
        &mut self,
        session: SessionId,
        command: Command,
        random: RandomBytes,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        match command {
            Command::Own => Ok(Reply::Node(self.own_node(session, step)?)),
            Command::Create {
                project,
                name,
                label,
                agents_max,
                pushes,
            } => {
                self.check_person(session)?;
                Ok(Reply::Node(
                    self.create_node(project, name, label, agents_max, pushes, step)?,
                ))
            }
            Command::Bind { node, agent } => {
                self.check_person(session)?;
                let agent = self.agent_of_node(node, &agent)?;
                self.check_own(node, &agent)?;
                self.check_room_on(node, &agent)?;
                self.bind(node, &agent, step);
                Ok(Reply::Bound(self.binding_view(&agent)))
            }
            Command::Unbind { node, agent } => {
                self.check_person(session)?;
                let agent = self.agent_of_node(node, &agent)?;
                let was_bound = self.nodes.get(node).agents.contains(&agent);
                if was_bound {
                    self.give_back(&agent, step);
                }
                Ok(Reply::Unbound { was_bound })
            }
            Command::Find { project, by } => {
                self.check_person(session)?;
                let found = match by {
                    By::Name(name) => self.nodes.named(&project, &name),
                    By::Label(label) => self.nodes.labelled(&project, &label),
                    By::Owner(agent) => self
                        .agent_in(&project, &agent)
                        .and_then(|agent| self.own_node_of(&agent)),
                };
                Ok(Reply::Found(found.map(|id| self.nodes.get(id).view(id))))
            }
            Command::Binding { node, agent } => {
                self.check_person(session)?;
                if !self.nodes.contains(node) {
                    return Err(Refusal::Unknown.into());
                }
                let agent = self.bound_to(node, &agent)?;
                Ok(Reply::Bound(self.binding_view(&agent)))
            }
            Command::List { project } => {
                self.check_person(session)?;
                let of_project = self.nodes.iter().filter(|(_, node)| node.project == project);
                Ok(Reply::Listed(
                    of_project.map(|(id, node)| node.view(id)).collect(),
                ))
            }
            Command::Bindings { node } => {
                self.check_person(session)?;
                if !self.nodes.contains(node) {
                    return Err(Refusal::Unknown.into());
                }
                let agents = self.nodes.get(node).agents.iter();
                Ok(Reply::Has(agents.map(|agent| self.binding_view(agent)).collect()))
            }
            Command::DeadLetters { agent } => {
                self.check_person(session)?;
                self.dead_letters(agent.as_deref())
            }
            Command::Redrive { agent } => {
                self.check_person(session)?;
                self.redrive(agent.as_deref(), step)
            }
            Command::Says(said) => self.node_says(session, said, random, step),
        }
    }

    /// Ends the binding of an agent: its own node has it again, if it has one.
    pub(super) fn give_back(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        self.unbind(agent, step);
        if let Some(own) = self.own_node_of(agent) {
            self.bind(own, agent, step);
        }
    }

    fn own_node_of(&self, agent: &AgentName) -> Option<NodeId> {
        self.nodes.own_of(agent)
    }

    fn check_person(&self, session: SessionId) -> Result<(), Refusal> {
        match self.sessions[&session].person {
            true => Ok(()),
            false => Err(Refusal::NotYours),
        }
    }

    /// Finds an agent by the name that it has in a node's project.
    fn agent_of_node(&self, node: NodeId, agent: &str) -> Result<AgentName, io::Refusal> {
        if !self.nodes.contains(node) {
            return Err(Refusal::Unknown.into());
        }
        let project = &self.nodes.get(node).project;
        let known = self.agent_in(project, agent);
        Ok(known.ok_or_else(|| self.unknown(project, agent))?)
    }

    fn own_node(&mut self, session: SessionId, step: &mut Step<'_>) -> Result<NodeView, io::Refusal> {
        let agent = self.speaker(session, NamedAs::Session, None)?.into_agent();
        if agent.is_person() {
            return Err(Refusal::NotYours.into());
        }
        if let Some(binding) = &self.inboxes[&agent].binding {
            let (id, node) = (binding.node, self.nodes.get(binding.node));
            if node.own.is_some() {
                return Ok(node.view(id));
            }
            if node.presence != Presence::Absent {
                let node = node.name.clone();
                return Err(Refusal::Elsewhere { agent, node }.into());
            }
        }
        let id = match self.own_node_of(&agent) {
            Some(id) => id,
            None => self.make_node(Node {
                project: agent.project().to_owned(),
                name: agent.local().to_owned(),
                own: Some(agent.clone()),
                label: None,
                agents_max: Some(1),
                agents: BTreeSet::new(),
                pushes: false,
                presence: Presence::Absent,
                instance: None,
                names_first: false,
                created_at: step.wall,
                last_contact: None,
                seen_at: None,
            })?,
        };
        self.bind(id, &agent, step);
        Ok(self.nodes.get(id).view(id))
    }

    fn create_node(
        &mut self,
        project: String,
        name: String,
        label: Option<String>,
        agents_max: Option<usize>,
        pushes: bool,
        step: &Step<'_>,
    ) -> Result<NodeView, io::Refusal> {
        check_name("project", &project).map_err(agents::Refusal::InvalidName)?;
        for given in [Some(&name), label.as_ref()].into_iter().flatten() {
            if !is_label(given, NODE_NAME_BYTES_MAX) {
                let given = shown(given);
                return Err(Refusal::InvalidName { given }.into());
            }
        }
        let id = match self.nodes.named(&project, &name) {
            Some(id) => {
                let Node {
                    label: known,
                    pushes: known_to_push,
                    ..
                } = self.nodes.get(id);
                if pushes != *known_to_push {
                    let pushes = *known_to_push;
                    return Err(Refusal::OtherKind { pushes }.into());
                }
                if label.is_some() && label != *known {
                    let known = known.clone();
                    return Err(Refusal::OtherLabel { known }.into());
                }
                id
            }
            None => self.make_node(Node {
                project,
                name,
                own: None,
                label,
                agents_max,
                agents: BTreeSet::new(),
                pushes,
                presence: Presence::Absent,
                instance: None,
                names_first: false,
                created_at: step.wall,
                last_contact: None,
                seen_at: None,
            })?,
        };
        Ok(self.nodes.get(id).view(id))
    }

    fn make_node(&mut self, node: Node) -> Result<NodeId, Refusal> {
        let nodes = self.nodes.count();
        if nodes >= self.bounds.nodes_max {
            return Err(Refusal::TooMany { nodes });
        }
        Ok(self.nodes.add(node))
    }

    /// Checks that a node is not another agent's own.
    pub(super) fn check_own(&self, node: NodeId, agent: &AgentName) -> Result<(), Refusal> {
        match &self.nodes.get(node).own {
            Some(owner) if owner != agent => Err(Refusal::AnothersOwn { owner: owner.clone() }),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn check_room_on(&self, node: NodeId, agent: &AgentName) -> Result<(), Refusal> {
        let Node {
            agents, agents_max, ..
        } = self.nodes.get(node);
        let count = agents.len();
        if !agents.contains(agent) && agents_max.is_some_and(|max| count >= max) {
            return Err(Refusal::Full { agents: count });
        }
        Ok(())
    }
}

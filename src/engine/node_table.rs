//! All nodes, and by what each is found. It knows nothing of what they hold.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{AgentName, NodeId, SessionId};
use super::nodes::{Instance, NodeView};
use super::time::Timestamp;

/// All nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Nodes {
    all: BTreeMap<NodeId, Node>,
    /// How many there were: the number of the next one.
    made: u64,
    /// Those for several agents, by their projects and names.
    named: BTreeMap<(String, String), NodeId>,
    /// By their projects and labels, the first of each.
    labelled: BTreeMap<(String, String), NodeId>,
    /// By the agents whose own they are.
    own: BTreeMap<AgentName, NodeId>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Node {
    pub project: String,
    pub name: String,
    pub own: Option<AgentName>,
    pub label: Option<String>,
    pub agents_max: Option<usize>,
    pub agents: BTreeSet<AgentName>,
    pub pushes: bool,
    pub presence: Presence,
    pub instance: Option<Instance>,
    /// Over its latest connection it takes an agent's frames only once it has named it.
    pub names_first: bool,
    pub created_at: Timestamp,
    pub last_contact: Option<Timestamp>,
    /// When that was by the clock that people read.
    pub seen_at: Option<Timestamp>,
}

/// Whether a node is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Presence {
    /// It holds nothing.
    Absent,
    /// It is connected.
    Live(SessionId),
    /// Its connection has ended, and it holds its agents until then.
    Gone(Timestamp),
}

impl Node {
    pub fn view(&self, node: NodeId) -> NodeView {
        NodeView {
            node,
            project: self.project.clone(),
            name: self.name.clone(),
            own: self.own.clone(),
            label: self.label.clone(),
            agents_max: self.agents_max,
            agents: self.agents.iter().cloned().collect(),
            pushes: self.pushes,
            is_live: matches!(self.presence, Presence::Live(_)),
            created_at: self.created_at,
            last_contact: self.seen_at,
        }
    }
}

impl Nodes {
    pub fn get(&self, node: NodeId) -> &Node {
        &self.all[&node]
    }

    pub fn contains(&self, node: NodeId) -> bool {
        self.all.contains_key(&node)
    }

    pub fn get_mut(&mut self, node: NodeId) -> &mut Node {
        self.all.get_mut(&node).expect("a node stays")
    }

    /// Goes through all of them, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.all.iter().map(|(id, node)| (*id, node))
    }

    /// Finds one for several agents by its name.
    pub fn named(&self, project: &str, name: &str) -> Option<NodeId> {
        self.named.get(&(project.to_owned(), name.to_owned())).copied()
    }

    /// Finds one by its label; of several the one that was made first.
    pub fn labelled(&self, project: &str, label: &str) -> Option<NodeId> {
        self.labelled
            .get(&(project.to_owned(), label.to_owned()))
            .copied()
    }

    /// Finds an agent's own.
    pub fn own_of(&self, agent: &AgentName) -> Option<NodeId> {
        self.own.get(agent).copied()
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Adds one, which stays.
    pub fn add(&mut self, node: Node) -> NodeId {
        let id = NodeId(self.made);
        self.made += 1;
        let project = &node.project;
        match &node.own {
            Some(agent) => self.own.insert(agent.clone(), id),
            None => self.named.insert((project.clone(), node.name.clone()), id),
        };
        if let Some(label) = &node.label {
            self.labelled
                .entry((project.clone(), label.clone()))
                .or_insert(id);
        }
        self.all.insert(id, node);
        id
    }
}

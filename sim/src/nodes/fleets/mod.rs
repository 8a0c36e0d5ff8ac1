//! Nodes for several agents: their programs speak the frames of the WebSocket themselves, come back with what their disk has, lose and
//! repeat acknowledgements; and their agents go from one to another while frames fly.
//!
//! - [`plan`]: who there is, and who goes where. [`program`]: the nodes. [`moves`]: who has agents go. [`bindings`]: what the tap knows
//!   of whose agents are where.

pub mod bindings;
pub mod moves;
pub mod plan;
pub mod program;

use std::collections::BTreeMap;
use std::sync::Mutex;

use plan::FleetPlan;

/// Names a node for several agents.
pub fn fleet_name(number: usize) -> String {
    format!("fleet-{number}")
}

/// What is known on all machines, whatever becomes of one of them.
#[derive(Debug, Default)]
pub struct Fleets {
    /// Where each agent is to run.
    pub homes: Vec<Mutex<Home>>,
    /// What each node has on its disk: how far it was with each agent when it wrote that down.
    pub disks: Vec<Mutex<BTreeMap<usize, u64>>>,
    /// How many moves were begun.
    pub moved: Mutex<usize>,
}

/// Where an agent is to run.
#[derive(Debug, Clone, Copy)]
pub struct Home {
    /// On which node.
    pub node: usize,
    /// Counts the moves that were begun, and those that are known to be over.
    pub version: u64,
    /// How many moves nobody knows the end of: relay may still carry them out.
    pub open: usize,
}

impl Fleets {
    /// Begins with the plan's.
    pub fn new(plan: &FleetPlan) -> Self {
        let home = |node: &usize| {
            Mutex::new(Home {
                node: *node,
                version: 1,
                open: 0,
            })
        };
        Self {
            homes: plan.agents.iter().map(home).collect(),
            disks: plan.nodes.iter().map(|_| Mutex::default()).collect(),
            moved: Mutex::default(),
        }
    }

    /// Tells where an agent is to run.
    pub fn home(&self, agent: usize) -> Home {
        *self.homes[agent].lock().expect("a run has one thread")
    }
}

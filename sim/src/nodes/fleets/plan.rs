//! Which nodes there are for several agents, and which agent goes where.

use fastrand::Rng;

/// The nodes for several agents of a run; in half of the runs there are none.
#[derive(Debug, Clone, Default)]
pub struct FleetPlan {
    /// The nodes.
    pub nodes: Vec<FleetNode>,
    /// On which of them each agent runs at first.
    pub agents: Vec<usize>,
    /// Who goes where.
    pub moves: Vec<Move>,
    /// On which machine somebody moves them.
    pub mover_on: usize,
}

/// A node for several agents.
#[derive(Debug, Clone, Copy)]
pub struct FleetNode {
    /// On which machine its program runs.
    pub on: usize,
    /// It takes an agent's frames only once it has named it, and learned where they go on.
    pub names_first: bool,
    /// Of ten acknowledgements so many are not sent when they could be.
    pub loses: u32,
    /// Of ten so many are sent again, or with a number that was acknowledged before.
    pub repeats: u32,
    /// It does not say at once that an agent runs elsewhere, and goes on acknowledging.
    pub clings: bool,
}

/// An agent goes from the node that it is on to another.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    /// How long after the one before, in milliseconds.
    pub pause_ms: u64,
    /// Which agent.
    pub agent: usize,
    /// To which node; maybe the one that it is on.
    pub to: usize,
    /// How.
    pub by: By,
}

/// How an agent goes to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The key of the workspace binds it there.
    Key,
    /// The key ends its binding, and the other node names it.
    Removal,
    /// The one node lets go of it, and the other names it.
    Registration,
}

impl FleetPlan {
    /// Draws it for a seed, by numbers of its own.
    pub fn draw(seed: u64, boxes: usize, duration_ms: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x666c_6565_7473_0000);
        if rng.bool() {
            return Self::default();
        }
        let nodes: Vec<FleetNode> = (0..rng.usize(1..=3))
            .map(|_| FleetNode {
                on: rng.usize(..boxes),
                names_first: rng.bool(),
                loses: [0, 3, 7][rng.usize(..3)],
                repeats: [0, 3][rng.usize(..2)],
                clings: rng.bool(),
            })
            .collect();
        let agents: Vec<usize> = (0..rng.usize(1..=3)).map(|_| rng.usize(..nodes.len())).collect();
        let moves = match rng.u32(0..3) {
            0 => 0,
            1 => rng.usize(1..4),
            _ => rng.usize(4..20),
        };
        let pause_ms_max = duration_ms / (moves as u64 + 1) * 2;
        let moves = (0..moves)
            .map(|_| Move {
                pause_ms: rng.u64(..pause_ms_max),
                agent: rng.usize(..agents.len()),
                to: rng.usize(..nodes.len()),
                by: [By::Key, By::Removal, By::Registration][rng.usize(..3)],
            })
            .collect();
        Self {
            nodes,
            agents,
            moves,
            mover_on: rng.usize(..boxes),
        }
    }
}

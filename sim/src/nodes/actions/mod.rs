//! Actions: agents ask nodes for several agents, and the agents on these, for something, and look what comes of it.
//!
//! - [`ActionPlan`]: what is asked. [`caller`]: who asks. [`handler`]: what a node does about it. [`laws`]: what must
//!   hold of it. [`tap`]: what the tap knows.

pub mod caller;
pub mod handler;
pub mod laws;
pub mod tap;

use fastrand::Rng;

use super::fleets::plan::FleetPlan;

/// What is asked in a run; in half of the runs with nodes for several agents it is nothing.
#[derive(Debug, Clone, Default)]
pub struct ActionPlan {
    /// On which machine its caller runs.
    pub caller_on: usize,
    /// What it asks.
    pub asks: Vec<Ask>,
    /// Whether what is asked of a node waits for it while it is away.
    pub queues: Vec<bool>,
}

/// Something that is asked.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// How long after the one before, in milliseconds.
    pub pause_ms: u64,
    /// Whom.
    pub of: Of,
    /// What comes of it.
    pub answer: Answer,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// A node for several agents.
    Node(usize),
    /// One of the agents on these.
    Agent(usize),
}

impl Of {
    /// Names the action.
    pub fn action(self) -> String {
        match self {
            Self::Node(number) => format!("do-{number}"),
            Self::Agent(number) => format!("ask-{number}"),
        }
    }
}

/// What a handler does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It gives an output.
    Output,
    /// It gives an error.
    Error,
    /// It gives an output, and then an error, which is for nothing.
    Twice,
    /// It gives an output by the API, if it can.
    ByCall,
    /// Its connection ends when it hears of it for the first time.
    Gone,
}

impl Answer {
    const ALL: [Self; 5] = [Self::Output, Self::Error, Self::Twice, Self::ByCall, Self::Gone];

    /// Its word in what is asked.
    pub fn word(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Error => "error",
            Self::Twice => "twice",
            Self::ByCall => "by call",
            Self::Gone => "gone",
        }
    }

    /// Reads it.
    pub fn of_word(word: &str) -> Self {
        let all = Self::ALL.into_iter();
        let mut found = all.filter(|answer| answer.word() == word);
        found.next().expect("it was asked here")
    }
}

impl ActionPlan {
    /// Draws it for a seed, by numbers of its own.
    pub fn draw(seed: u64, boxes: usize, duration_ms: u64, fleets: &FleetPlan) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6163_7469_6f6e_7300);
        if fleets.nodes.is_empty() || rng.bool() {
            return Self::default();
        }
        let asks = rng.usize(3..=20);
        let pause_ms_max = duration_ms / asks as u64 * 2;
        let asks = (0..asks)
            .map(|_| Ask {
                pause_ms: rng.u64(..pause_ms_max),
                of: if rng.bool() {
                    Of::Node(rng.usize(..fleets.nodes.len()))
                } else {
                    Of::Agent(rng.usize(..fleets.agents.len()))
                },
                answer: Answer::ALL[rng.usize(..Answer::ALL.len())],
            })
            .collect();
        Self {
            caller_on: rng.usize(..boxes),
            asks,
            queues: fleets.nodes.iter().map(|_| rng.bool()).collect(),
        }
    }
}

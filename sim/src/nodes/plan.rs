//! A seed becomes a plan. What a target will say of a message stands in its text.

use std::fmt;

use fastrand::Rng;

use super::actions::ActionPlan;
use super::fleets::plan::FleetPlan;
use super::holds::HoldsPlan;
use super::listers;

use crate::plan::{Fault, draw_faults, draw_stops};

/// One run, whole.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where it came from.
    pub seed: u64,
    /// How many machines there are.
    pub boxes: usize,
    /// How long is posted, and things go wrong, in milliseconds.
    pub duration_ms: u64,
    /// How long a segment travels at the most, in milliseconds.
    pub latency_ms_max: u64,
    /// Who is delivered to.
    pub nodes: Vec<NodePlan>,
    /// On which machines the web hooks of further agents run.
    pub hooks: Vec<usize>,
    /// The nodes for several agents, and their agents, who come behind those with web hooks.
    pub fleets: FleetPlan,
    /// On which machines further agents run that list their deliveries.
    pub listers: Vec<usize>,
    /// What is asked of actions.
    pub actions: ActionPlan,
    /// What the person holds.
    pub holds: HoldsPlan,
    /// Who posts.
    pub posters: Vec<PosterPlan>,
    /// On which machines somebody looks on.
    pub observers: Vec<usize>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// An agent that is delivered to.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// On which machine its program runs.
    pub on: usize,
    /// On which machine a second instance of it runs, if there is one.
    pub twin_on: Option<usize>,
}

/// An agent that posts.
#[derive(Debug, Clone)]
pub struct PosterPlan {
    /// On which machine it runs.
    pub on: usize,
    /// What it posts.
    pub posts: Vec<PostPlan>,
}

/// A post.
#[derive(Debug, Clone, Copy)]
pub struct PostPlan {
    /// How long the poster waits before it, in milliseconds.
    pub pause_ms: u64,
    /// To which node, or behind them which web hook, or behind those which agent of a node for several, or who lists; to the channel of all if there is none.
    pub to: Option<usize>,
    /// What becomes of it.
    pub fate: Fate,
    /// How long the target is busy with it, in milliseconds.
    pub busy_ms: u64,
    /// After how many milliseconds nobody is to be handed it any more, if ever.
    pub deadline_ms: Option<u64>,
}

/// What a target says of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It shows it.
    Delivered,
    /// It has taken responsibility for it.
    Accepted,
    /// It will not show it.
    Failed,
    /// It wants it so many milliseconds later, the first time.
    Deferred(u64),
    /// It fails by an error so many times.
    Error(u32),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered => f.write_str("delivered 0"),
            Self::Accepted => f.write_str("accepted 0"),
            Self::Failed => f.write_str("failed 0"),
            Self::Deferred(ms) => write!(f, "deferred {ms}"),
            Self::Error(times) => write!(f, "error {times}"),
        }
    }
}

/// Writes a message's text: who posts it, which it is, what becomes of it, and how long that takes.
pub fn text(poster: usize, number: usize, post: &PostPlan) -> String {
    format!("{poster} {number} {} {}", post.fate, post.busy_ms)
}

/// Reads what becomes of a message, and how long that takes in milliseconds.
pub fn fate_of(text: &str) -> (Fate, u64) {
    let words: Vec<&str> = text.split(' ').collect();
    let [_, _, fate, argument, busy_ms] = words[..] else {
        panic!("{text:?} was not posted here");
    };
    let argument: u64 = argument.parse().expect("a number");
    let fate = match fate {
        "delivered" => Fate::Delivered,
        "accepted" => Fate::Accepted,
        "failed" => Fate::Failed,
        "deferred" => Fate::Deferred(argument),
        "error" => Fate::Error(u32::try_from(argument).expect("a few")),
        _ => panic!("{text:?} was not posted here"),
    };
    (fate, busy_ms.parse().expect("a number"))
}

/// Reads which of its poster's messages one is.
pub fn number_of(text: &str) -> usize {
    let number = text.split(' ').nth(1).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{text:?} was not posted here"))
}

/// Names the agent of a node.
pub fn node_name(number: usize) -> String {
    format!("node-{number}")
}

/// Names an agent that posts.
pub fn poster_name(number: usize) -> String {
    format!("poster-{number}")
}

impl Plan {
    /// Returns who is the first agent of the nodes for several.
    pub fn first_of_fleets(&self) -> usize {
        self.nodes.len() + self.hooks.len()
    }

    /// Returns who is the first of those that list.
    pub fn first_of_listers(&self) -> usize {
        self.first_of_fleets() + self.fleets.agents.len()
    }

    /// Draws the plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6e6f_6465_7300_0000);
        let boxes = rng.usize(1..=3);
        let duration_ms = rng.u64(20_000..=90_000);
        let nodes: Vec<NodePlan> = (0..rng.usize(1..=3))
            .map(|_| NodePlan {
                on: rng.usize(..boxes),
                twin_on: (rng.u32(0..6) == 0).then(|| rng.usize(..boxes)),
            })
            .collect();
        // Each seed has only some of them, so that rare combinations get whole runs.
        let fates: Vec<u32> = (0..5).filter(|fate| *fate == 0 || rng.bool()).collect();
        let busy_ms_max = [1, 30, 300][rng.usize(..3)];
        let has_channel = rng.bool();
        let posters = (0..rng.usize(1..=2))
            .map(|_| {
                let pause_ms_max = 2 * duration_ms / 60;
                let post = |rng: &mut Rng| PostPlan {
                    pause_ms: if rng.u32(0..4) == 0 {
                        0
                    } else {
                        rng.u64(..pause_ms_max)
                    },
                    to: (!has_channel || rng.u32(0..5) > 0).then(|| rng.usize(..nodes.len())),
                    fate: match fates[rng.usize(..fates.len())] {
                        1 => Fate::Accepted,
                        2 => Fate::Failed,
                        3 => Fate::Deferred(rng.u64(50..10_000)),
                        4 => Fate::Error(rng.u32(1..=5)),
                        _ => Fate::Delivered,
                    },
                    busy_ms: rng.u64(..busy_ms_max),
                    deadline_ms: None,
                };
                PosterPlan {
                    on: rng.usize(..boxes),
                    posts: (0..rng.usize(10..=60)).map(|_| post(&mut rng)).collect(),
                }
            })
            .collect();
        let mut faults = draw_faults(&mut rng, boxes, duration_ms);
        draw_stops(&mut rng, duration_ms, &mut faults);
        let observers = (0..rng.usize(1..=2)).map(|_| rng.usize(..boxes)).collect();
        // By a number of its own, so that nothing else is drawn for it.
        let mut of_hooks = Rng::with_seed(seed ^ 0x686f_6f6b_7300_0000);
        let hooks: Vec<usize> = (0..of_hooks.usize(0..=2))
            .map(|_| of_hooks.usize(..boxes))
            .collect();
        let mut posters: Vec<PosterPlan> = posters;
        for post in posters.iter_mut().flat_map(|poster| &mut poster.posts) {
            if post.to.is_some() && !hooks.is_empty() && of_hooks.u32(0..3) == 0 {
                post.to = Some(nodes.len() + of_hooks.usize(..hooks.len()));
            }
        }
        // And so is this. Mostly nobody is away for longer than that.
        let mut of_deadlines = Rng::with_seed(seed ^ 0x6465_6164_6c69_6e65);
        if of_deadlines.u32(0..3) == 0 {
            for post in posters.iter_mut().flat_map(|poster| &mut poster.posts) {
                let has_one = of_deadlines.u32(0..2) == 0;
                post.deadline_ms = has_one.then(|| of_deadlines.u64(200..30_000));
            }
        }
        let fleets = FleetPlan::draw(seed, boxes, duration_ms);
        let actions = ActionPlan::draw(seed, boxes, duration_ms, &fleets);
        let mut of_fleets = Rng::with_seed(seed ^ 0x746f_666c_6565_7400);
        for post in posters.iter_mut().flat_map(|poster| &mut poster.posts) {
            if post.to.is_some() && !fleets.agents.is_empty() && of_fleets.u32(0..3) == 0 {
                let agent = of_fleets.usize(..fleets.agents.len());
                post.to = Some(nodes.len() + hooks.len() + agent);
            }
        }
        let mut plan = Self {
            seed,
            listers: listers::draw(seed, boxes),
            fleets,
            actions,
            holds: HoldsPlan::default(),
            hooks,
            observers,
            boxes,
            duration_ms,
            latency_ms_max: [0, 2, 20, 100][rng.usize(..4)],
            nodes,
            posters,
            faults,
        };
        listers::draw_posts(&mut plan);
        let agents = plan.first_of_listers() + plan.listers.len();
        plan.holds = HoldsPlan::draw(seed, boxes, duration_ms, agents, plan.posters.len());
        plan
    }
}

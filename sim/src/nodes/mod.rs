//! Agents that are delivered to: their own nodes, held open by the crate for agents' programs (`relay-sdk`), over simulated TCP
//! and WebSockets, beside faults of the network, of the machines and of the server.
//!
//! - [`plan`]: who there is, what is posted, what its target will say of it, and what goes wrong.
//! - [`world`]: the hosts. [`work`]: what runs on them. [`tap`]: what passes in and out of the engine, and the laws that only it can
//!   see. [`bug`]: the seeded bugs.
//! - [`fleets`]: nodes for several agents. [`actions`]: what is asked of them. [`listers`]: who lists its
//!   deliveries. [`holds`]: what the person holds. [`api`]: how they, and others that are no programs of the crate, ask.
//! - [`hooks`]: programs that are pushed to. [`observers`]: programs that look on. [`history`]: what posters, targets and observers saw. [`laws`]: what must hold of it.

pub mod actions;
pub mod api;
pub mod bug;
pub mod fleets;
pub mod history;
pub mod holds;
pub mod hooks;
pub mod laws;
pub mod listers;
pub mod observers;
pub mod plan;
pub mod tap;
pub mod work;
pub mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::alone::alone;
use crate::laws::{NOTHING_PANICS, Violation};
use crate::marks::add;
use bug::Bug;
use history::History;
use plan::Plan;

/// The marks that a campaign must have reached, and from how many seeds on, by the rule of [`crate::marks::REQUIRED`].
pub const REQUIRED: [(&str, u64); 53] = [
    ("node came", 20),
    ("node came again", 20),
    ("node lapsed", 100),
    ("node superseded", 100),
    ("frame sent again", 50),
    ("frame sent with a new number", 50),
    ("receipt: done", 20),
    ("receipt: deferred", 20),
    ("receipt: failed", 20),
    ("fault bit: process gone with a message in hand", 200),
    ("fault bit: server gone with frames on their way", 200),
    ("handed over again after a restart of its program", 200),
    ("target failed by an error", 20),
    ("post unknown to its sender", 200),
    ("observer went on where it was", 40),
    ("observer missed events", 40),
    ("push failed", 40),
    ("delivery expired", 100),
    ("web hook answered 500", 40),
    ("web hook answered nothing", 40),
    ("web hook answered late", 40),
    ("web hook hung", 40),
    ("node for several came", 40),
    ("node for several left", 100),
    ("inventory synchronised", 40),
    ("agent named again", 40),
    ("node came back with an old cursor", 200),
    ("acknowledged again, or less", 40),
    ("acknowledged by a node that has the agent no more", 200),
    ("refused: the agent is elsewhere", 200),
    ("agent moved by the key", 100),
    ("binding ended by the key", 100),
    ("agent bound to another node", 100),
    ("taken back from a node", 100),
    ("listed again", 40),
    ("deferred from the list", 100),
    ("receipt for what was listed", 40),
    ("invocation waits for its handler", 100),
    ("invocation completed by a call", 100),
    ("handler gone with an invocation in hand", 100),
    ("asked again", 200),
    ("invocation failed with its node", 400),
    ("hold set", 40),
    ("hold lifted", 40),
    ("held with all", 50),
    ("held for its recipient", 50),
    ("held for its sender", 50),
    ("held when it came back", 50),
    ("held message let pass", 50),
    ("several let pass go out", 50),
    ("held message dropped", 60),
    ("expired while it was held", 200),
    ("sender told that the person holds it", 40),
];

/// What a run came to.
pub struct Run {
    /// What the clients saw.
    pub history: History,
    /// What happened.
    pub marks: BTreeMap<&'static str, u64>,
    /// Every law that it broke.
    pub violations: Vec<Violation>,
}

/// Runs one seed.
///
/// # Errors
///
/// The panic that it ended in.
pub fn run_seed(seed: u64, bug: Option<Bug>) -> Result<Run, Violation> {
    let plan = Plan::draw(seed);
    let _alone = alone();
    catch_unwind(AssertUnwindSafe(|| world::run(&plan, bug))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Violation {
            law: NOTHING_PANICS,
            detail: text.unwrap_or("a panic without words").to_owned(),
        }
    })
}

/// What many seeds came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many were run.
    pub seeds: u64,
    /// Posts that were accepted.
    pub accepted: u64,
    /// Times that a target got a message.
    pub handed_over: u64,
    /// Messages that went with a life of the server.
    pub lost_by_restart: u64,
    marks: BTreeMap<&'static str, u64>,
    /// The first violation.
    pub failure: Option<(u64, Violation)>,
}

impl Summary {
    /// Returns the marks that stayed at zero, though they are required of so many seeds.
    pub fn missing(&self) -> Vec<&'static str> {
        let is_missing =
            |(mark, from_seeds): &(&str, u64)| self.seeds >= *from_seeds && !self.marks.contains_key(mark);
        let missing = REQUIRED.into_iter().filter(is_missing);
        missing.map(|(mark, _)| mark).collect()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seeds {}, posts accepted {}, handed over {}, lost by a restart {}",
            self.seeds, self.accepted, self.handed_over, self.lost_by_restart
        )?;
        for (mark, count) in &self.marks {
            writeln!(f, "{count:>9}  {mark}")?;
        }
        Ok(())
    }
}

/// Runs many seeds, one after the other, until the first violation.
pub fn campaign(from: u64, seeds: u64) -> Summary {
    let mut summary = Summary::default();
    for seed in from..from + seeds {
        summary.seeds += 1;
        let broken = match run_seed(seed, None) {
            Ok(run) => {
                add(&mut summary.marks, &run.marks);
                summary.accepted += run.history.accepted() as u64;
                summary.handed_over += run.history.shown.len() as u64;
                summary.lost_by_restart += laws::lost_by_restart(&run.history) as u64;
                run.violations.into_iter().next()
            }
            Err(violation) => Some(violation),
        };
        if let Some(violation) = broken {
            summary.failure = Some((seed, violation));
            break;
        }
    }
    summary
}

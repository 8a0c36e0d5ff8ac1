//! Workers of the whole server: agents and the person ask for workers over the simulated network, and the processes that relay has started
//! come to it over that, beside faults of the network, of the machines and of the server.
//!
//! - [`plan`]: who there is, and what goes wrong. [`world`]: the hosts. [`starter`]: what relay starts and ends. [`people`]: what workers,
//!   their parents and the person do.
//! - [`tap`]: what passes in and out of the engine. [`bug`]: the seeded bugs.
//! - [`history`]: what was done and seen. [`laws`]: what must hold of it.

pub mod bug;
pub mod history;
pub mod laws;
pub mod people;
pub mod plan;
pub mod starter;
pub mod tap;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Run, Summary, campaign_of, panicked};
use crate::alone::alone;
use crate::laws::Violation;
use bug::Bug;
use plan::Plan;

/// The marks that a campaign must have reached, and from how many seeds on, by the rule of [`crate::marks::REQUIRED`].
pub const REQUIRED: [(&str, u64); 33] = [
    ("answered that it does not run", 20),
    ("answered: spawned, or released", 20),
    ("became: exited", 20),
    ("became: exited, as it was told to", 20),
    ("became: failed", 20),
    ("became: late", 200),
    ("became: ready", 20),
    ("became: released", 20),
    ("became: started", 20),
    ("call of an earlier worker refused", 100),
    ("ended as it was told to", 20),
    ("ended as its relay was gone", 100),
    ("ended before it was begun", 40),
    ("ended by itself", 20),
    ("ended with its machine", 200),
    ("given up: nothing was acknowledged", 200),
    ("handed on", 20),
    ("handed over again", 100),
    ("killed with workers", 100),
    ("never spoke", 20),
    ("news handed on", 100),
    ("refused: it ends still", 20),
    ("refused: it lives", 20),
    ("refused: not yours", 20),
    ("refused: too many", 100),
    ("reported behind a later start", 40),
    ("reported what changes nothing", 20),
    ("spawn given up", 40),
    ("spoke before it was said to run", 20),
    ("started again under its name", 20),
    ("stopped while a spawn waited", 200),
    ("stopped with workers", 20),
    ("undone: taken over", 200),
];

/// Runs one seed, with a seeded bug if one is given.
///
/// # Errors
///
/// The panic that it ended in.
pub fn run_seed(seed: u64, bug: Option<Bug>) -> Result<Run, Violation> {
    let plan = Plan::draw(seed);
    let _alone = alone();
    catch_unwind(AssertUnwindSafe(|| world::run(&plan, bug))).map_err(panicked)
}

/// Runs many seeds, until the first violation.
pub fn campaign(from: u64, seeds: u64) -> Summary {
    campaign_of(&REQUIRED, from, seeds, |seed| run_seed(seed, None))
}

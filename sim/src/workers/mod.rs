//! Workers: agents that ask for others, and end them, around the engine alone: there is no network here and no process, but their reports,
//! connections and calls come when they please, in every order and also late, and names are used again at once.
//!
//! - [`world`]: who there is, and what happens. [`laws`]: what must hold of it, counted anew from outside. [`bug`]: the seeded bugs.
//! - [`whole`]: the same around the whole server, with processes that come to it over the simulated network.

pub mod bug;
pub mod laws;
pub mod whole;
pub mod world;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::laws::{NOTHING_PANICS, Violation};
use crate::marks::add;
use bug::Bug;
use world::World;

/// The marks that a campaign must have reached, and from how many seeds on, by the rule of [`crate::marks::REQUIRED`].
pub const REQUIRED: [(&str, u64); 25] = [
    ("a session of an earlier worker was refused", 200),
    ("answered that it does not run", 40),
    ("answered that it runs", 20),
    ("answered: failed", 20),
    ("ended as it was told to", 20),
    ("ended by itself", 20),
    ("failed though nobody waited", 200),
    ("gone while a spawn waited", 400),
    ("handed on", 20),
    ("ran though nobody waited", 100),
    ("refused: it has ended", 40),
    ("refused: it lives", 20),
    ("refused: no worker", 20),
    ("refused: not yours", 40),
    ("refused: too deep", 400),
    ("refused: too many", 40),
    ("released", 20),
    ("released before it ran", 100),
    ("released by who is above its parent", 40),
    ("released while it ended", 100),
    ("reported behind a later start", 40),
    ("reported twice", 20),
    ("spawn cancelled", 40),
    ("started again under its name", 20),
    ("stopped with workers", 20),
];

/// What came of a seed.
pub struct Run {
    /// How often each thing happened.
    pub marks: BTreeMap<&'static str, u64>,
    /// All that happened.
    pub trace: Vec<String>,
    /// What was broken.
    pub violations: Vec<Violation>,
}

/// Runs a seed, with a seeded bug if one is given.
///
/// # Errors
///
/// A panic, as the violation that it is.
pub fn run_seed(seed: u64, bug: Option<Bug>) -> Result<Run, Violation> {
    let run = || {
        let mut world = World::new(seed, bug);
        let violations = world.run();
        Run {
            marks: world.marks,
            trace: world.trace,
            violations,
        }
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(panicked)
}

/// Makes a violation of a panic.
fn panicked(panic: Box<dyn Any + Send>) -> Violation {
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Violation {
        law: NOTHING_PANICS,
        detail: said.unwrap_or_default(),
    }
}

/// What came of many seeds.
pub struct Summary {
    /// How many were run.
    pub seeds: u64,
    /// How often each thing happened.
    pub marks: BTreeMap<&'static str, u64>,
    /// The first seed that broke something, and what.
    pub failure: Option<(u64, Violation)>,
    required: &'static [(&'static str, u64)],
    /// In how many seeds each thing happened.
    reached: BTreeMap<&'static str, u64>,
}

impl Summary {
    /// The marks that were to be reached and were not.
    pub fn missing(&self) -> Vec<&'static str> {
        let due = self.required.iter().filter(|(_, from)| self.seeds >= *from);
        let missing = due.filter(|(mark, _)| !self.marks.contains_key(mark));
        missing.map(|(mark, _)| *mark).collect()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds", self.seeds)?;
        for (mark, count) in &self.marks {
            let seeds = self.reached.get(mark).copied().unwrap_or_default();
            writeln!(f, "  {count:>8}  {mark}, in {seeds} seeds")?;
        }
        for mark in self.missing() {
            writeln!(f, "  not reached: {mark}")?;
        }
        match &self.failure {
            None => Ok(()),
            Some((seed, Violation { law, detail })) => writeln!(f, "seed {seed} breaks {law:?}: {detail}"),
        }
    }
}

/// Runs many seeds, until the first violation.
pub fn campaign(from: u64, seeds: u64) -> Summary {
    campaign_of(&REQUIRED, from, seeds, |seed| run_seed(seed, None))
}

fn campaign_of(
    required: &'static [(&'static str, u64)],
    from: u64,
    seeds: u64,
    run_seed: impl Fn(u64) -> Result<Run, Violation>,
) -> Summary {
    let mut summary = Summary {
        seeds: 0,
        marks: BTreeMap::new(),
        failure: None,
        required,
        reached: BTreeMap::new(),
    };
    for seed in from..from + seeds {
        let violation = match run_seed(seed) {
            Ok(run) => {
                add(&mut summary.marks, &run.marks);
                for mark in run.marks.into_keys() {
                    *summary.reached.entry(mark).or_default() += 1;
                }
                run.violations.into_iter().next()
            }
            Err(violation) => Some(violation),
        };
        summary.seeds += 1;
        if let Some(violation) = violation {
            summary.failure = Some((seed, violation));
            break;
        }
    }
    summary
}

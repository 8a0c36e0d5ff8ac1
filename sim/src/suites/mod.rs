//! The suites, whatever they are about: what can be run by a name and a seed, and the mistakes that each must see.
//!
//! Nothing here knows what a suite simulates; [`crate::job`], the command line and the tests run all of them by these tables.

mod contract;
mod nodes;
mod programs;
mod whole;
mod workers;

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::laws::Violation;

/// All suites.
pub static SUITES: [&Suite; 5] = [&CONTRACT, &NODES, &PROGRAMS, &WORKERS, &WHOLE];

pub use contract::CONTRACT;
pub use nodes::NODES;
pub use programs::PROGRAMS;
pub use whole::WHOLE;
pub use workers::WORKERS;

/// A suite, without the types that are its own.
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// What runs one of its seeds: the subcommand, and the options that print all that happened.
    command: &'static str,
    /// The names of its laws.
    pub laws: fn() -> Vec<&'static str>,
    /// The marks that so many seeds must have reached.
    pub marks: &'static [(&'static str, u64)],
    /// The mistakes that it makes on purpose, in the order in which they are written down.
    pub bugs: fn() -> Vec<String>,
    /// What must come of each of them.
    pub seeded: fn() -> Vec<Seeded>,
    run: fn(u64, Option<&str>) -> Result<Run, NoSuchBug>,
}

/// A mistake that is made on purpose, and what must come of it.
#[derive(Debug, Clone)]
pub struct Seeded {
    /// Its name.
    pub bug: String,
    /// The seed that catches it.
    pub seed: u64,
    /// The laws that may report it with that seed; no other may.
    pub laws: &'static [&'static str],
}

/// What came of a seed.
pub struct Run {
    /// How often each thing happened.
    pub marks: BTreeMap<&'static str, u64>,
    /// All that happened.
    pub trace: Vec<String>,
    /// Every law that was broken.
    pub violations: Vec<Violation>,
}

/// A mistake was named that the suite does not make.
#[derive(Debug)]
pub struct NoSuchBug {
    /// What was asked for.
    pub name: String,
    /// Those that there are.
    pub accepted: Vec<String>,
}

impl std::fmt::Display for NoSuchBug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "there is no bug {:?}; accepted: {}",
            self.name,
            self.accepted.join(", ")
        )
    }
}

impl Suite {
    /// Finds a suite by its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SUITES.into_iter().find(|suite| suite.name == name)
    }

    /// Runs a seed, with a mistake if one is named. A panic is a violation like others.
    ///
    /// # Errors
    ///
    /// When the suite makes no mistake of that name. Nothing was run.
    pub fn run(&self, seed: u64, bug: Option<&str>) -> Result<Run, NoSuchBug> {
        (self.run)(seed, bug)
    }

    /// Returns the line that shows what a seed does.
    pub fn replay(&self, seed: u64, bug: Option<&str>) -> String {
        let bug = bug.map(|bug| format!(" --bug {bug}")).unwrap_or_default();
        format!("cargo run -p sim -- {} --seed {seed}{bug}", self.command)
    }
}

/// A line of a suite's table: a mistake, the seed that catches it, and the laws that may report it.
///
/// A mistake may have several, when a law about it reports it with another seed alone.
type Row<Bug> = (Bug, u64, &'static [&'static str]);

fn seeded<Bug: Debug>(rows: &[Row<Bug>]) -> Vec<Seeded> {
    let seeded = |(bug, seed, laws): &Row<Bug>| Seeded {
        bug: format!("{bug:?}"),
        seed: *seed,
        laws,
    };
    rows.iter().map(seeded).collect()
}

fn names<Bug: Debug>(bugs: &[Bug]) -> Vec<String> {
    bugs.iter().map(|bug| format!("{bug:?}")).collect()
}

/// Runs what is asked for, with the mistake of that name.
fn run_with<Bug: Copy + Debug>(
    bugs: &[Bug],
    name: Option<&str>,
    run: impl FnOnce(Option<Bug>) -> Result<Run, Violation>,
) -> Result<Run, NoSuchBug> {
    let named = |name: &str| {
        let found = bugs.iter().find(|bug| format!("{bug:?}") == name);
        found.copied().ok_or_else(|| NoSuchBug {
            name: name.to_owned(),
            accepted: names(bugs),
        })
    };
    let bug = name.map(named).transpose()?;
    Ok(run(bug).unwrap_or_else(|violation| Run {
        marks: BTreeMap::new(),
        trace: Vec::new(),
        violations: vec![violation],
    }))
}

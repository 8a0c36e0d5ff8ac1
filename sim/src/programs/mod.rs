//! Programs of agents whose models are shown what waits: stand-ins for Claude Code, with hooks that tell relay what they have come
//! to and waiters that wake them, beside faults of the network, of the machines and of the server.
//!
//! - [`plan`]: who there is, what is posted and how it is to be brought, what programs and their persons are like, and what goes wrong.
//! - [`world`]: the hosts. [`places`]: where programs run. [`program`]: a stand-in, turn by turn. [`waiter`]: what wakes it. [`frame`]: what its model reads.
//!   [`calls`]: how they ask. [`senders`]: who posts.
//! - [`tap`]: what passes in and out of the engine, and the laws that only it can see. [`bug`]: the seeded bugs.
//! - [`history`]: what models were shown. [`laws`]: what must hold of it.

pub mod bug;
pub mod calls;
mod doors;
pub mod frame;
pub mod history;
pub mod laws;
pub mod places;
pub mod plan;
pub mod program;
pub mod senders;
pub mod tap;
pub mod waiter;
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
pub const REQUIRED: [(&str, u64); 56] = [
    ("agent taken over", 100),
    ("conversation begun anew", 40),
    ("end of a program told by its waiter", 40),
    ("end of a program told by nobody", 100),
    ("flushed", 50),
    ("found idle by its waiter", 20),
    ("given up: nothing was acknowledged", 100),
    ("hook died with what it was answered", 50),
    ("machine lost power", 40),
    ("notice alone", 100),
    ("notice because of room", 50),
    ("post unknown to its sender", 20),
    ("posted with a tool", 40),
    ("program ended in order", 50),
    ("program killed", 40),
    ("program known by what its model said", 40),
    ("program started with the number of one before", 40),
    ("program's session closed", 20),
    ("read with a tool", 20),
    ("shown again to another program", 100),
    ("shown again to the same program", 40),
    ("shown for the first time, marked", 20),
    ("shown what a program posted", 40),
    ("shown when a person began a turn", 20),
    ("shown when a tool had returned", 20),
    ("shown when a turn began by itself", 500),
    ("shown when a turn ended", 20),
    ("shown with the mark", 20),
    ("shown as its agent has it", 100),
    ("shown: immediate", 20),
    ("shown: manual", 50),
    ("shown: next-message", 40),
    ("shown: next-tool-call", 40),
    ("shown: on-idle", 40),
    ("text for a program that had ended", 200),
    ("told that more is there", 50),
    ("turn begun by a wake", 20),
    ("turn ended by Esc", 40),
    ("turn ended that had gone on", 40),
    ("turn not begun by the wake on its way", 40),
    ("two programs of one agent were shown something", 40),
    ("undone: nothing was heard for long", 200),
    ("undone: taken over", 400),
    ("undone: the end of the program, or of a tool's connection", 200),
    ("waiter came again", 20),
    ("waiter died with its text", 40),
    ("waiter fenced", 100),
    ("waiter gave way while relay was away", 100),
    ("waiter refused", 20),
    ("waiter superseded", 20),
    ("wake came in the midst of a turn", 100),
    ("wake came late", 100),
    ("wake vanished", 40),
    ("woken", 20),
    ("woken by its messaging socket", 100),
    ("woken with the mark", 40),
];

/// What a run came to.
pub struct Run {
    /// What models were shown.
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
    /// Posts that were asked for.
    pub posts: u64,
    /// Times that a model was shown a message.
    pub shown: u64,
    /// Of those, how often it was said that it may have been shown before.
    pub marked: u64,
    /// Messages of the last lives of relays that went with an answer which the network had lost.
    pub lost_on_the_way: u64,
    marks: BTreeMap<&'static str, u64>,
    /// In how many seeds each mark was reached.
    reached: BTreeMap<&'static str, u64>,
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
        let Self {
            seeds,
            posts,
            shown,
            marked,
            lost_on_the_way,
            marks,
            reached,
            failure: _,
        } = self;
        writeln!(
            f,
            "seeds {seeds}, posts {posts}, shown {shown}, of which marked {marked}, lost on the way {lost_on_the_way}"
        )?;
        for (mark, count) in marks {
            let seeds = reached.get(mark).copied().unwrap_or_default();
            writeln!(f, "{count:>9}  {mark}, in {seeds} seeds")?;
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
                for mark in run.marks.keys() {
                    *summary.reached.entry(mark).or_default() += 1;
                }
                let History { posts, shown, .. } = &run.history;
                summary.posts += posts.len() as u64;
                summary.shown += shown.len() as u64;
                summary.marked += shown.iter().filter(|shown| shown.is_marked).count() as u64;
                summary.lost_on_the_way += laws::lost_on_the_way(&Plan::draw(seed), &run.history) as u64;
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

//! Many seeds, with a line of progress, and what they came to.

#![expect(clippy::disallowed_methods, reason = "a campaign takes real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::alone::alone;
use crate::laws::{NOTHING_PANICS, Report, Violation};
use crate::marks::{REQUIRED, add};
use crate::plan::Plan;
use crate::tap::Bug;
use crate::world::run;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// How many seeds.
    pub seeds: u64,
    /// When to stop, if not all seeds are done by then.
    pub time_max: Option<Duration>,
    /// Whether to write a line of progress to stderr.
    pub progress: bool,
}

/// What a campaign came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: u64,
    /// All reports together.
    pub report: Report,
    /// All marks together.
    pub marks: BTreeMap<&'static str, u64>,
    /// How many seeds reached each mark.
    pub reached: BTreeMap<&'static str, u64>,
    /// How much time passed in all runs, in milliseconds.
    pub simulated_ms: u64,
    /// How long it took.
    pub took: Duration,
    /// The first violation that was found, with its seed.
    pub failure: Option<(u64, Violation)>,
}

/// Runs one seed. A panic, of the engine's own assertions for instance, is a violation like others.
pub fn run_seed(seed: u64, bug: Option<Bug>) -> Result<crate::world::Run, Violation> {
    run_plan(&Plan::draw(seed), bug)
}

/// Runs a plan. A panic is a violation like others.
///
/// # Errors
///
/// The panic's message.
pub fn run_plan(plan: &Plan, bug: Option<Bug>) -> Result<crate::world::Run, Violation> {
    let _alone = alone();
    catch_unwind(AssertUnwindSafe(|| run(plan, bug))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Violation {
            law: NOTHING_PANICS,
            detail: text.unwrap_or("a panic without words").to_owned(),
        }
    })
}

/// Runs all seeds, one after the other, or until the first violation.
pub fn campaign(campaign: Campaign) -> Summary {
    let started = Instant::now();
    let mut summary = Summary::default();
    for seed in campaign.from..campaign.from + campaign.seeds {
        if campaign.time_max.is_some_and(|max| started.elapsed() >= max) {
            break;
        }
        let outcome = run_seed(seed, None);
        summary.seeds += 1;
        let verdict = outcome.and_then(|run| {
            let counts = run.marks.counts();
            add(&mut summary.marks, &counts);
            for mark in counts.into_keys() {
                *summary.reached.entry(mark).or_default() += 1;
            }
            summary.simulated_ms += run.simulated_ms;
            summary.report.add(&run.report);
            run.violations.into_iter().next().map_or(Ok(()), Err)
        });
        if let Err(violation) = verdict {
            summary.failure = Some((seed, violation));
            break;
        }
        if campaign.progress && summary.seeds.is_multiple_of(50) {
            let rate = summary.seeds as f64 / started.elapsed().as_secs_f64();
            eprint!(
                "\r{} of {} seeds, {rate:.1} a second, {} calls   ",
                summary.seeds, campaign.seeds, summary.report.calls
            );
        }
    }
    summary.took = started.elapsed();
    summary
}

impl Summary {
    /// Returns the marks that stayed at zero, though they are required of so many seeds.
    pub fn missing(&self) -> Vec<&'static str> {
        REQUIRED
            .into_iter()
            .filter(|(mark, from_seeds)| self.seeds >= *from_seeds && !self.marks.contains_key(mark))
            .map(|(mark, _)| mark)
            .collect()
    }
}

/// Writes the figures and the marks.
impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Report {
            calls,
            unknown,
            attempted,
            accepted,
            delivered,
            redelivered,
            lost_by_restart,
            lost_by_parallel_call,
            lost_by_late_cancellation,
            lost_by_unseen_end,
        } = &self.report;
        let took_s = self.took.as_secs_f64();
        let simulated_s = self.simulated_ms as f64 / 1_000.0;
        writeln!(
            f,
            "seeds {}, {simulated_s:.0} simulated seconds in {took_s:.0} s",
            self.seeds
        )?;
        writeln!(
            f,
            "{:.0} calls per second, {:.0} simulated seconds per second",
            *calls as f64 / took_s,
            simulated_s / took_s
        )?;
        writeln!(f, "calls {calls}, of which unknown to their client {unknown}")?;
        writeln!(
            f,
            "posts {attempted}, accepted {accepted}, read {delivered}, read again {redelivered}"
        )?;
        writeln!(
            f,
            "lost by a restart {lost_by_restart}, by a parallel call {lost_by_parallel_call}, by a late cancellation {lost_by_late_cancellation}, by an unseen end {lost_by_unseen_end}"
        )?;
        let required: BTreeMap<&str, u64> = REQUIRED.into();
        let marks: BTreeSet<&str> = self.marks.keys().chain(required.keys()).copied().collect();
        for mark in marks {
            let count = self.marks.get(mark).copied().unwrap_or_default();
            let reached = self.reached.get(mark).copied().unwrap_or_default();
            write!(f, "{count:>9}  {mark}, in {reached} seeds")?;
            match required.get(mark) {
                None => writeln!(f)?,
                Some(from_seeds) => writeln!(f, "; required from {from_seeds} seeds on")?,
            }
        }
        Ok(())
    }
}

//! Fixed seeds, the seeds that broke a law once, and one that every commit draws for itself.

use sim::campaign::{Campaign, campaign, run_seed};
use sim::tap::Bug;

/// Prints how to see a failure again, and fails.
fn assert_holds(seed: u64) {
    let (violations, trace) = match run_seed(seed, None) {
        Ok(run) => (run.violations, run.history.trace),
        Err(violation) => (vec![violation], Vec::new()),
    };
    if violations.is_empty() {
        return;
    }
    let last = trace.len().saturating_sub(40);
    panic!(
        "{:#?}\n{}\nseed {seed} broke {violations:#?}\nreplay: cargo run -p sim -- run --seed {seed} --trace",
        sim::plan::Plan::draw(seed).params,
        trace[last..].join("\n"),
    );
}

#[test]
fn twenty_fixed_seeds_break_no_law() {
    (0..20).for_each(assert_holds);
}

#[test]
fn seeds_that_broke_a_law_once_break_none_now() {
    let lines = include_str!("../seeds.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let seeds = lines.filter_map(|line| line.split_whitespace().next());
    for seed in seeds {
        assert_holds(seed.parse().expect("a line of seeds.txt begins with a seed"));
    }
}

#[test]
fn the_seed_of_this_commit_breaks_no_law() {
    let git = std::process::Command::new("git")
        .args(["rev-parse", "HEAD"])
        .output();
    let hash = git
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    // Outside of a repository there is no commit, and seed 0 stands for it.
    let seed = hash
        .get(..12)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .unwrap_or(0);
    assert_holds(seed);
}

#[test]
fn a_campaign_of_100_seeds_reaches_the_marks_that_are_required_of_it() {
    let summary = campaign(Campaign {
        from: 1_000,
        seeds: 100,
        time_max: None,
        progress: false,
    });
    assert_eq!(summary.failure, None);
    assert_eq!(summary.missing(), Vec::<&str>::new());
    let rare = sim::marks::REQUIRED
        .iter()
        .filter(|(_, from_seeds)| *from_seeds > 100);
    assert!(
        rare.count() > 0,
        "the rare marks are required of longer campaigns"
    );
}

#[test]
fn a_failure_is_shrunk_to_a_plan_that_breaks_the_same_law() {
    let plan = sim::plan::Plan::draw(3);
    let run = sim::campaign::run_plan(&plan, Some(Bug::Lifo)).expect("no panic");
    let law = run.violations.first().expect("the newest comes first").law;
    let (smaller, violation) = sim::shrink::shrink(&plan, Some(Bug::Lifo)).expect("it fails");
    assert_eq!(violation.law, law);
    let steps = |plan: &sim::plan::Plan| plan.agents.iter().map(|agent| agent.steps.len()).sum::<usize>();
    assert!(
        steps(&smaller) <= 6,
        "two posts and a read are enough: {smaller:#?}"
    );
    assert!(smaller.faults.is_empty());
}

//! Runs of the delivery contract: fixed seeds, the seeds that broke a law once, and one that every commit draws for itself.

use sim::campaign::run_plan;
use sim::plan::Plan;
use sim::shrink::shrink;
use sim::suites::CONTRACT;
use sim::tap::Bug;

use super::pool::cores;
use super::support::{assert_caught, assert_each_has_reported, assert_hold, assert_hold_and_reach_the_marks};

#[test]
fn twenty_fixed_seeds_break_no_law() {
    assert_hold(&CONTRACT, 0..20);
}

#[test]
fn seeds_that_broke_a_law_once_break_none_now() {
    let lines = include_str!("../../seeds.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let seeds = lines.filter_map(|line| line.split_whitespace().next());
    assert_hold(
        &CONTRACT,
        seeds.map(|seed| seed.parse().expect("a line of seeds.txt begins with a seed")),
    );
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
    assert_hold(&CONTRACT, [seed]);
}

#[test]
fn a_campaign_of_100_seeds_reaches_the_marks_that_are_required_of_it() {
    assert_hold_and_reach_the_marks(&CONTRACT, 1_000, 100);
}

#[test]
fn every_seeded_bug_is_caught_by_laws_that_are_about_it_and_every_law_reports_one_alone() {
    assert_each_has_reported(&CONTRACT, &assert_caught(&CONTRACT), true);
}

/// How many runs the smaller plan may take.
const RUNS_MAX: usize = 200;

#[test]
fn a_failure_is_shrunk_to_a_plan_that_breaks_the_same_law() {
    let _core = cores(1);
    let steps = |plan: &Plan| plan.agents.iter().map(|agent| agent.steps.len()).sum::<usize>();
    // Shrinking takes as many runs as there are steps and more, so it begins with few.
    let mut plan = Plan::draw(3);
    plan.agents.truncate(4);
    plan.faults.truncate(2);
    for agent in &mut plan.agents {
        agent.steps.truncate(12);
    }
    let run = run_plan(&plan, Some(Bug::Lifo)).expect("no panic");
    let law = run.violations.first().expect("the newest comes first").law;
    let (smaller, violation) = shrink(&plan, Some(Bug::Lifo), RUNS_MAX).expect("it fails");
    assert_eq!(violation.law, law);
    assert!(
        steps(&smaller) <= 6,
        "two posts and a read are enough: {smaller:#?}"
    );
    assert!(smaller.faults.is_empty());
}

//! Runs in which agents start others and end them, around the engine alone.

use sim::suites::WORKERS;
use sim::workers::run_seed;

use super::pool::cores;
use super::support::{assert_caught, assert_each_has_reported, assert_hold, assert_hold_and_reach_the_marks};

#[test]
fn seeds_break_no_law_and_reach_the_marks_that_are_required_of_them() {
    assert_hold_and_reach_the_marks(&WORKERS, 0, 400);
}

/// Seeds that broke a law once: what two had left who were each other's parents, or of whom one was above the other, lay there; and a parent that
/// left, or came, while its worker ended was judged as it was before.
const BROKE_ONCE: [u64; 5] = [706, 4_440, 21_001_245, 21_002_919, 21_005_876];

#[test]
fn seeds_that_broke_a_law_once_break_none() {
    assert_hold(&WORKERS, BROKE_ONCE);
}

#[test]
fn every_seeded_bug_is_caught_by_laws_that_are_about_it_and_every_law_reports_one() {
    assert_each_has_reported(&WORKERS, &assert_caught(&WORKERS), false);
}

#[test]
fn a_seed_gives_the_same_trace_again() {
    let _core = cores(1);
    for seed in 0..5 {
        let trace = || run_seed(seed, None).ok().map(|run| run.trace);
        let first = trace();
        assert!(
            first.as_ref().is_some_and(|trace| trace.len() > 50),
            "seed {seed} tells what happened"
        );
        assert!(first == trace(), "seed {seed} is not deterministic");
    }
}

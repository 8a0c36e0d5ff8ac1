//! Runs of the whole server in which agents start others and end them.

use sim::suites::WHOLE;
use sim::workers::whole::run_seed;

use super::determinism::{assert_is_the_same_behind_other_tasks, assert_prints_the_same_twice};
use super::support::{assert_caught, assert_each_has_reported, assert_hold_and_reach_the_marks};

#[test]
fn seeds_break_no_law_and_reach_the_marks_that_are_required_of_them() {
    assert_hold_and_reach_the_marks(&WHOLE, 0, 30);
}

#[test]
fn every_seeded_bug_is_caught_by_laws_that_are_about_it_and_every_law_reports_one() {
    assert_each_has_reported(&WHOLE, &assert_caught(&WHOLE), false);
}

#[test]
fn a_seed_gives_the_same_bytes_in_every_process() {
    for seed in [1, 2] {
        assert_prints_the_same_twice(&["workers", "--whole"], seed);
    }
}

#[test]
fn a_seed_gives_the_same_trace_whatever_its_process_runs_besides() {
    assert_is_the_same_behind_other_tasks(&[3, 4], |seed| run_seed(seed, None).expect("no panic").trace);
}

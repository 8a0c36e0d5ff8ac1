//! Runs in which models are shown what waits by the hooks of their programs.

use sim::programs::run_seed;
use sim::suites::PROGRAMS;

use super::determinism::{assert_is_the_same_behind_other_tasks, assert_prints_the_same_twice};
use super::support::{assert_caught, assert_each_has_reported, assert_hold_and_reach_the_marks};

#[test]
fn seeds_break_no_law_and_reach_the_marks_that_are_required_of_them() {
    assert_hold_and_reach_the_marks(&PROGRAMS, 0, 40);
}

#[test]
fn every_seeded_bug_is_caught_by_laws_that_are_about_it_and_every_law_reports_one() {
    assert_each_has_reported(&PROGRAMS, &assert_caught(&PROGRAMS), false);
}

#[test]
fn a_seed_gives_the_same_bytes_in_every_process() {
    for seed in [1, 2, 3, 5] {
        assert_prints_the_same_twice(&["programs"], seed);
    }
}

/// Machines of these seeds lose power with several connections open.
#[test]
fn a_seed_gives_the_same_history_whatever_its_process_runs_besides() {
    assert_is_the_same_behind_other_tasks(&[700_501, 700_505, 700_507, 700_517], |seed| {
        run_seed(seed, None).expect("no panic").history.trace
    });
}

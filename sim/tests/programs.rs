//! Runs in which models are shown what waits by the hooks of their programs: seeds that must hold, mistakes that must be seen, and the
//! same bytes from the same seed.

mod support;

use std::process::Command;

use sim::programs::bug::Bug;
use sim::programs::laws::{
    AGAIN, ASLEEP, BOUNDARY, BUSY, HELD, LOST, MARKED, NAMES, ONE_WAKE, OVERTAKEN, ROOM, THIN_AIR, TRACED,
};
use sim::programs::{campaign, run_seed};
use support::{each_is_caught, each_law_reports_one};

/// How many seeds each test run repeats.
const SEEDS: u64 = 40;

/// The bug, how many seeds it may take, and the laws that may report it with the first seed that catches it.
const BUGS: [(Bug, u64, &[&str]); 15] = [
    (Bug::ShownLost, 10, &[LOST, ASLEEP]),
    (Bug::MarkMissing, 20, &[MARKED, OVERTAKEN]),
    (Bug::ShownAgain, 10, &[MARKED, ROOM, BOUNDARY, TRACED]),
    (Bug::Astray, 20, &[THIN_AIR, LOST, BOUNDARY]),
    (Bug::Overtaken, 20, &[OVERTAKEN]),
    (Bug::WokenTwice, 20, &[ONE_WAKE, MARKED]),
    (Bug::WrongBoundary, 20, &[BOUNDARY, ROOM]),
    (Bug::BusyWoken, 20, &[BUSY]),
    (Bug::RoomForgotten, 40, &[ROOM, BOUNDARY, LOST]),
    (Bug::LeftAsleep, 10, &[ASLEEP, LOST]),
    (Bug::StepLeftOut, 5, &[TRACED]),
    (Bug::GoesOnAgain, 80, &[AGAIN]),
    (Bug::HeldIsShown, 20, &[HELD, BOUNDARY]),
    (Bug::NoticeForgotten, 40, &[ASLEEP, LOST]),
    (Bug::WakeTakenForGranted, 40, &[LOST, ASLEEP]),
];

#[test]
fn seeds_break_no_law_and_reach_the_marks_that_are_required_of_them() {
    let summary = campaign(0, SEEDS);
    println!("{summary}");
    assert_eq!(
        summary.failure, None,
        "replay: cargo run -p sim -- programs --seed SEED"
    );
    assert_eq!(summary.missing(), Vec::<&str>::new());
}

#[test]
fn every_seeded_bug_is_caught_within_its_seeds_by_laws_that_are_about_it() {
    let mut listed = BUGS.map(|(bug, ..)| bug);
    listed.sort();
    assert_eq!(listed, Bug::ALL);
    each_is_caught(&BUGS, |seed, bug| {
        run_seed(seed, Some(bug)).map(|run| run.violations)
    });
}

#[test]
fn every_law_has_a_bug_that_it_reports() {
    each_law_reports_one(&NAMES, &BUGS);
}

#[test]
fn a_seed_gives_the_same_bytes_in_every_process() {
    for seed in [1, 2, 3, 5] {
        let run = || {
            let mut sim = Command::new(env!("CARGO_BIN_EXE_sim"));
            let output = sim
                .args(["programs", "--seed", &seed.to_string()])
                .output()
                .expect("sim runs");
            assert!(output.stdout.len() > 1_000, "seed {seed} tells what happened");
            output.stdout
        };
        assert!(run() == run(), "seed {seed} is not deterministic");
    }
}

/// Machines of these seeds lose power with several connections open.
#[test]
fn a_seed_gives_the_same_history_whatever_its_process_runs_besides() {
    let trace = |seed: u64| run_seed(seed, None).expect("no panic").history.trace;
    for seed in [700_501, 700_505, 700_507, 700_517] {
        let first = trace(seed);
        for tasks in 1..4 {
            other_tasks(tasks);
            assert!(trace(seed) == first, "seed {seed} behind {tasks} tasks");
        }
    }
}

/// Has tokio count some tasks.
fn other_tasks(many: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(async {
        for _ in 0..many {
            tokio::spawn(async {}).await.expect("it does nothing");
        }
    });
}

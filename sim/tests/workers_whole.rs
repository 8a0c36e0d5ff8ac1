//! Runs of the whole server in which agents start others and end them: seeds that must hold, mistakes that must be seen, and the same bytes
//! from the same seed.

mod support;

use std::process::Command;

use sim::workers::whole::bug::Bug;
use sim::workers::whole::laws::{
    ANSWERED, ARRIVES, ENDED, GENERATION, MARKED, MEANT, NAMES, ONE_ALIVE, STOPPED, TOLD,
};
use sim::workers::whole::{campaign, run_seed};
use support::{each_is_caught, each_law_reports_one};

/// How many seeds each test run repeats.
const SEEDS: u64 = 30;

/// The bug, how many seeds it may take, and the laws that may report it with the first seed that catches it.
const BUGS: [(Bug, u64, &[&str]); 12] = [
    (Bug::OldLetIn, 100, &[GENERATION, TOLD]),
    (Bug::EndForgotten, 10, &[TOLD, ENDED, STOPPED]),
    (Bug::EndedTwice, 10, &[ENDED]),
    (Bug::StartedTwice, 10, &[ONE_ALIVE]),
    (Bug::AnsweredEarly, 10, &[ANSWERED, TOLD, ENDED, STOPPED]),
    (Bug::AnswerLost, 10, &[ANSWERED]),
    (Bug::EndUnheard, 10, &[TOLD, ENDED, STOPPED]),
    (
        Bug::LateReportTaken,
        10,
        &[TOLD, ONE_ALIVE, ANSWERED, ENDED, GENERATION],
    ),
    (Bug::LostAtRelease, 10, &[ARRIVES]),
    (Bug::NewsLost, 10, &[ARRIVES]),
    (Bug::MarkMissing, 40, &[MARKED]),
    (Bug::Astray, 20, &[MEANT, MARKED]),
];

#[test]
fn seeds_break_no_law_and_reach_the_marks_that_are_required_of_them() {
    let summary = campaign(0, SEEDS);
    println!("{summary}");
    let failure = summary
        .failure
        .as_ref()
        .map(|(seed, violation)| (seed, &violation.detail));
    assert_eq!(
        failure, None,
        "replay: cargo run -p sim -- workers --whole --seed SEED"
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
    for seed in [1, 2] {
        let run = || {
            let mut sim = Command::new(env!("CARGO_BIN_EXE_sim"));
            let output = sim
                .args(["workers", "--whole", "--seed", &seed.to_string()])
                .output()
                .expect("sim runs");
            assert!(output.stdout.len() > 1_000, "seed {seed} tells what happened");
            output.stdout
        };
        assert!(run() == run(), "seed {seed} is not deterministic");
    }
}

#[test]
fn a_seed_gives_the_same_trace_whatever_its_process_runs_besides() {
    let trace = |seed: u64| run_seed(seed, None).expect("no panic").trace;
    for seed in 3..5 {
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

//! Runs in which agents are delivered to by their own nodes: seeds that must hold, mistakes that must be seen, and the same bytes
//! from the same seed.

mod support;

use std::process::Command;

use sim::nodes::actions::laws::{ASKED, ENDS, ENDS_ONCE, SAID};
use sim::nodes::bug::Bug;
use sim::nodes::laws::{
    ACKNOWLEDGED, AFTER, ELSEWHERE, GAP, HELD, LATE, LISTED, LOST, MARKED, NAMES, NOTED, NUMBERS, OBSERVED,
    OVERTAKEN, PLACE, PUSHED, RECEIPT, SENT_AGAIN, THIN_AIR,
};
use sim::nodes::{campaign, run_seed};
use support::{each_is_caught, each_law_reports_one};

/// How many seeds each test run repeats.
const SEEDS: u64 = 40;

/// The bug, how many seeds it may take, and the laws that may report it with the first seed that catches it.
const BUGS: [(Bug, u64, &[&str]); 29] = [
    (Bug::FrameLost, 5, &[LOST, NUMBERS, GAP]),
    (Bug::SentAfterReceipt, 5, &[AFTER, SENT_AGAIN, NUMBERS]),
    (Bug::MarkMissing, 10, &[MARKED, OVERTAKEN]),
    (Bug::Overtaken, 20, &[OVERTAKEN, NUMBERS, GAP]),
    (Bug::DeferralForgotten, 10, &[RECEIPT, LISTED]),
    (Bug::AcknowledgedTooFar, 40, &[LOST, RECEIPT, ACKNOWLEDGED]),
    (Bug::ReceiptsForgotten, 5, &[AFTER, PUSHED, RECEIPT]),
    (Bug::Astray, 20, &[THIN_AIR, LOST, RECEIPT, MARKED, SENT_AGAIN]),
    (Bug::EventLeftOut, 5, &[OBSERVED]),
    (Bug::EventTwice, 5, &[OBSERVED]),
    (Bug::EventsSwapped, 5, &[OBSERVED]),
    (Bug::PushTakenForGranted, 10, &[LOST, ACKNOWLEDGED]),
    (Bug::PushForgotten, 20, &[PUSHED]),
    (Bug::DeadlineForgotten, 40, &[LATE]),
    (Bug::OldBindingCounts, 20, &[ACKNOWLEDGED]),
    (Bug::SentToOldNode, 20, &[ELSEWHERE, LOST, RECEIPT, GAP]),
    (Bug::ResultForgotten, 5, &[ENDS]),
    (Bug::LaterResultCounts, 10, &[ENDS_ONCE]),
    (Bug::ResultOfAnother, 5, &[SAID]),
    (Bug::AskedWhenEnded, 5, &[ASKED]),
    (Bug::ListedInPart, 20, &[LOST]),
    (Bug::HoldIgnored, 10, &[HELD, NOTED]),
    (Bug::LiftForgotten, 40, &[HELD, NOTED, LOST, RECEIPT]),
    (Bug::DropPasses, 40, &[HELD]),
    (Bug::AllowDrops, 20, &[LOST, RECEIPT]),
    (Bug::AllowLifts, 20, &[HELD, NOTED]),
    (Bug::HeldNoteMissing, 10, &[NOTED]),
    (Bug::AllowedLast, 20, &[PLACE]),
    (Bug::CursorTooLow, 20, &[GAP, LOST]),
];

#[test]
fn seeds_break_no_law_and_reach_the_marks_that_are_required_of_them() {
    let summary = campaign(0, SEEDS);
    println!("{summary}");
    assert_eq!(
        summary.failure, None,
        "replay: cargo run -p sim -- nodes --seed SEED"
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
                .args(["nodes", "--seed", &seed.to_string()])
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
    for seed in [700_501, 700_502, 700_511, 700_533] {
        let first = trace(seed);
        for tasks in 1..4 {
            other_tasks(tasks);
            assert!(trace(seed) == first, "seed {seed} behind {tasks} tasks");
        }
    }
    std::thread::scope(|scope| {
        let other = scope.spawn(|| trace(700_511));
        let first = trace(700_501);
        assert!(other.join().expect("no panic") == trace(700_511));
        assert!(first == trace(700_501));
    });
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

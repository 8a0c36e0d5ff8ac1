//! The same seed, the same bytes: what the other tests find can be replayed only if this holds.

use std::process::{Command, Output, Stdio};
use std::thread;

use super::pool::cores;

/// Of every kind: small, large, with crashes, with cuts. Each is run in two processes of its own, at trace level.
const SEEDS: [u64; 12] = [0, 1, 3, 5, 11, 17, 23, 40, 42, 74, 355, 635];

/// Runs `sim` to its end.
fn printed(arguments: &[&str]) -> Output {
    let mut sim = Command::new(env!("CARGO_BIN_EXE_sim"));
    let sim = sim.args(arguments).stdin(Stdio::null());
    sim.output().expect("sim runs")
}

/// Looks whether a seed prints the same in two processes.
///
/// # Panics
///
/// When it does not.
pub fn assert_prints_the_same_twice(suite: &[&str], seed: u64) {
    let seed = seed.to_string();
    let arguments = [suite, &["--seed", &seed]].concat();
    let _both = cores(2);
    let (one, other) = thread::scope(|scope| {
        let other = scope.spawn(|| printed(&arguments).stdout);
        let one = printed(&arguments).stdout;
        (one, other.join().expect("no panic"))
    });
    assert!(one.len() > 1_000, "seed {seed} tells what happened");
    assert!(one == other, "{suite:?} seed {seed} is not deterministic");
}

#[test]
fn a_seed_gives_the_same_bytes_in_every_process() {
    for seed in SEEDS {
        let _both = cores(2);
        let output = printed(&["meta", "--seed", &seed.to_string()]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn different_seeds_give_different_digests() {
    let _core = cores(1);
    let digest = |seed: u64| {
        let run = sim::campaign::run_seed(seed, None).expect("no panic");
        run.history.digest()
    };
    assert_ne!(digest(1), digest(2));
    assert_eq!(digest(1), digest(1));
}

/// Looks whether a trace of each of these seeds is the same whatever tokio has counted in this process before.
///
/// # Panics
///
/// When one is not.
pub fn assert_is_the_same_behind_other_tasks(seeds: &[u64], trace: impl Fn(u64) -> Vec<String> + Sync) {
    for seed in seeds {
        let _core = cores(1);
        let first = trace(*seed);
        for tasks in 1..4 {
            other_tasks(tasks);
            assert!(trace(*seed) == first, "seed {seed} behind {tasks} tasks");
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

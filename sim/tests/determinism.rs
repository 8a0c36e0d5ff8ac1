//! The same seed, the same bytes. Runs before the other tests: what they find can be replayed only if this holds.

use std::process::Command;

/// Of every kind: small, large, with crashes, with cuts. Each is run in two processes of its own, at trace level.
const SEEDS: [u64; 20] = [
    0, 1, 2, 3, 5, 8, 10, 11, 15, 17, 20, 23, 37, 40, 41, 42, 74, 99, 355, 635,
];

#[test]
fn a_seed_gives_the_same_bytes_in_every_process() {
    for seed in SEEDS {
        let mut meta = Command::new(env!("CARGO_BIN_EXE_sim"));
        let output = meta
            .args(["meta", "--seed", &seed.to_string()])
            .output()
            .expect("sim runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn different_seeds_give_different_digests() {
    let digest = |seed: u64| {
        let run = sim::campaign::run_seed(seed, None).expect("no panic");
        run.history.digest()
    };
    assert_ne!(digest(1), digest(2));
    assert_eq!(digest(1), digest(1));
}

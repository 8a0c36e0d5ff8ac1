//! The simulation sees: every seeded bug is caught within a stated number of seeds, and by a law that is about it.

use sim::campaign::run_seed;
use sim::tap::Bug;

const ORDER: &str = "a reply is in the order of acceptance";
const OVERTAKEN: &str = "no message overtakes another";
const LOST: &str = "nothing is lost without a reason";
const HIDDEN: &str = "nothing is hidden from a read";
const TWICE: &str = "a message is shown twice only if marked";
const BACK: &str = "what is confirmed never comes back";
const START: &str = "a start is told once to each role";
const TIME: &str = "waits and calls are in time";
const THIN_AIR: &str = "nothing from thin air";
const REFUSAL: &str = "the illegal is refused and the legal is not";
const BOUNDS: &str = "bounds are kept and not imagined";
const SESSIONS: &str = "no session is left over";

/// The bug, how many seeds it may take, and the laws that may catch it.
const BUGS: [(Bug, u64, &[&str]); 17] = [
    (Bug::Lifo, 5, &[ORDER]),
    (Bug::DropOnUndo, 10, &[LOST, START]),
    (Bug::DuplicateOnUndo, 10, &[TWICE]),
    (Bug::UndoOutOfOrder, 15, &[ORDER]),
    (Bug::UndoUnmarked, 10, &[TWICE, OVERTAKEN]),
    (Bug::WaitNotCancelled, 100, &[HIDDEN, LOST]),
    (Bug::WaitEndsEarly, 10, &[TIME]),
    (Bug::WakeUpLost, 50, &[TIME, LOST]),
    (Bug::ConfirmedTooEarly, 10, &[LOST, START]),
    (Bug::ConfirmedComesBack, 10, &[TWICE, BACK, ORDER]),
    (Bug::LeakToOtherRole, 10, &[THIN_AIR]),
    (Bug::BindingIgnored, 40, &[THIN_AIR, REFUSAL]),
    (Bug::SilentDropWhenFull, 20, &[LOST, HIDDEN, BOUNDS]),
    (Bug::RefusedButPosted, 15, &[THIN_AIR]),
    (Bug::NoticeMissing, 5, &[START]),
    (Bug::NoticeRepeated, 5, &[START]),
    (Bug::SessionLeak, 20, &[SESSIONS, START, LOST]),
];

/// Finds the first seed that breaks a law.
fn first_violation(bug: Bug, seeds: u64) -> Option<(u64, &'static str)> {
    (0..seeds).find_map(|seed| {
        let violation = match run_seed(seed, Some(bug)) {
            Ok(run) => run.verdict.err(),
            Err(violation) => Some(violation),
        };
        violation.map(|violation| (seed, violation.law))
    })
}

#[test]
fn every_seeded_bug_is_in_the_table() {
    let mut listed = BUGS.map(|(bug, ..)| bug);
    listed.sort();
    assert_eq!(listed, Bug::ALL);
}

#[test]
fn every_seeded_bug_is_caught_within_its_seeds_by_a_law_that_is_about_it() {
    for (bug, seeds, laws) in BUGS {
        let Some((seed, law)) = first_violation(bug, seeds) else {
            panic!("{bug:?} was not caught within {seeds} seeds");
        };
        assert!(
            laws.contains(&law),
            "{bug:?} was caught with seed {seed} by {law:?}"
        );
    }
}

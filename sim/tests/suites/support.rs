//! What the tests of the suites share: that seeds hold, and that each mistake which is made on purpose is seen, by the laws about it.

use std::collections::{BTreeMap, BTreeSet};

use sim::job::{Answer, Job};
use sim::suites::{Seeded, Suite};

use super::pool::{cores_of_the_machine, run_all};

fn job(suite: &Suite, seed: u64, bug: Option<&str>) -> Job {
    Job {
        suite: suite.name.to_owned(),
        seed,
        bug: bug.map(str::to_owned),
    }
}

/// Runs seeds, and returns how often each thing happened in them.
///
/// # Panics
///
/// When one breaks a law; the message says how to see it again.
pub fn assert_hold(suite: &Suite, seeds: impl IntoIterator<Item = u64>) -> BTreeMap<String, u64> {
    let jobs: Vec<_> = seeds.into_iter().map(|seed| job(suite, seed, None)).collect();
    let answers = run_all(&jobs);
    let mut marks = BTreeMap::new();
    for (Job { seed, .. }, answer) in jobs.iter().zip(answers) {
        assert!(
            answer.violations.is_empty(),
            "{}\nseed {seed} broke {:#?}\nreplay: {}",
            answer.last.join("\n"),
            answer.violations,
            suite.replay(*seed, None),
        );
        for (mark, count) in answer.marks {
            *marks.entry(mark).or_default() += count;
        }
    }
    marks
}

/// Runs the seeds from `from` on, and looks whether they reach the marks that are required of so many.
///
/// # Panics
///
/// When one breaks a law, or a mark is missing.
pub fn assert_hold_and_reach_the_marks(suite: &Suite, from: u64, seeds: u64) {
    let marks = assert_hold(suite, from..from + seeds);
    let required = suite.marks.iter().filter(|(_, from_seeds)| seeds >= *from_seeds);
    let missing: Vec<_> = required
        .map(|(mark, _)| *mark)
        .filter(|mark| !marks.contains_key(*mark))
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "required of {seeds} seeds");
}

/// Runs each seeded bug until a seed catches it, its first one before all others, and returns the laws that each was reported by.
///
/// # Panics
///
/// When a bug is in no line of the table, or is not caught within its seeds, or another law reports it.
pub fn assert_caught(suite: &Suite) -> Vec<BTreeSet<String>> {
    let all = (suite.seeded)();
    let mut listed: Vec<_> = all.iter().map(|seeded| seeded.bug.clone()).collect();
    listed.sort();
    listed.dedup();
    let mut bugs = (suite.bugs)();
    bugs.sort();
    assert_eq!(listed, bugs, "the table has all of them");

    let jobs = all
        .iter()
        .map(|seeded| job(suite, seeded.first, Some(&seeded.bug)));
    let answers = run_all(&jobs.collect::<Vec<_>>());
    let mut wrong = Vec::new();
    let reported = all.iter().zip(&answers).map(|(seeded, answer)| {
        let (seed, reported) = match laws(answer) {
            silent if silent.is_empty() => searched(suite, seeded),
            reported => (seeded.first, reported),
        };
        if !is_caught(seeded, &reported) {
            wrong.push(format!(
                "{seeded:?}: with seed {seed} it was reported by {reported:?}"
            ));
        }
        reported
    });
    let reported = reported.collect();
    assert!(wrong.is_empty(), "{}:\n{}", suite.name, wrong.join("\n"));
    reported
}

/// Looks whether each law is among those that may report a bug; with `alone`, whether it is the only one of a bug.
///
/// # Panics
///
/// When one is not.
pub fn assert_each_may_report(suite: &Suite, alone: bool) {
    let all = (suite.seeded)();
    let silent = (suite.laws)().into_iter();
    let silent: Vec<_> = silent
        .filter(|law| {
            let is_of = |seeded: &Seeded| seeded.laws.contains(law) && (!alone || seeded.laws.len() == 1);
            !all.iter().any(is_of)
        })
        .collect();
    assert_eq!(
        silent,
        Vec::<&str>::new(),
        "{}: they may report nothing",
        suite.name
    );
}

/// Looks whether each law was among those that a bug was reported by.
///
/// # Panics
///
/// When one was not.
pub fn assert_each_has_reported(suite: &Suite, reported: &[BTreeSet<String>]) {
    let silent = (suite.laws)().into_iter();
    let silent: Vec<_> = silent
        .filter(|law| !reported.iter().any(|laws| laws.contains(*law)))
        .collect();
    assert_eq!(
        silent,
        Vec::<&str>::new(),
        "{}: no bug was reported by them",
        suite.name
    );
}

fn laws(answer: &Answer) -> BTreeSet<String> {
    answer.violations.iter().map(|(law, _)| law.clone()).collect()
}

fn is_caught(seeded: &Seeded, reported: &BTreeSet<String>) -> bool {
    !reported.is_empty() && reported.iter().all(|law| seeded.laws.contains(&law.as_str()))
}

/// Looks for the first seed that catches a bug, among as many as it may take; the laws are none if there is no such seed.
fn searched(suite: &Suite, seeded: &Seeded) -> (u64, BTreeSet<String>) {
    // As many at once as there are cores. Those behind the one that catches it are run for nothing.
    let seeds: Vec<u64> = (0..seeded.within).collect();
    for seeds in seeds.chunks(cores_of_the_machine()) {
        let jobs: Vec<_> = seeds
            .iter()
            .map(|seed| job(suite, *seed, Some(&seeded.bug)))
            .collect();
        let answers = run_all(&jobs);
        let caught = seeds
            .iter()
            .zip(&answers)
            .map(|(seed, answer)| (*seed, laws(answer)));
        if let Some(caught) = caught.into_iter().find(|(_, laws)| !laws.is_empty()) {
            return caught;
        }
    }
    (seeded.within, BTreeSet::new())
}

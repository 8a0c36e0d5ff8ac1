//! What the tests of the suites share: that seeds hold, and that each mistake which is made on purpose is seen, by the laws about it.

use std::collections::{BTreeMap, BTreeSet};

use sim::job::{Answer, Job};
use sim::suites::{Seeded, Suite};

use super::pool::run_all;

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

/// Runs each seeded bug with its seed, and returns the laws that each was reported by.
///
/// # Panics
///
/// When a bug is in no line of the table, or its seed does not catch it, or another law reports it.
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
        .map(|seeded| job(suite, seeded.seed, Some(&seeded.bug)));
    let answers = run_all(&jobs.collect::<Vec<_>>());
    let reported: Vec<_> = answers.iter().map(laws).collect();
    let wrong: Vec<_> = all
        .iter()
        .zip(&reported)
        .filter(|(seeded, reported)| !is_caught(seeded, reported))
        .map(|(seeded, reported)| format!("{seeded:?}: it was reported by {reported:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}", suite.name, wrong.join("\n"));
    reported
}

/// Looks whether each law was among those that a bug was reported by; with `alone`, whether a bug was reported by it and by no other.
///
/// # Panics
///
/// When one was not.
pub fn assert_each_has_reported(suite: &Suite, reported: &[BTreeSet<String>], alone: bool) {
    let silent = (suite.laws)().into_iter();
    let silent: Vec<_> = silent
        .filter(|law| {
            let is_one = |laws: &BTreeSet<String>| laws.contains(*law) && (!alone || laws.len() == 1);
            !reported.iter().any(is_one)
        })
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

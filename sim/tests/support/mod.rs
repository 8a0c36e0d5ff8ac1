//! What the tests of the suites share: that each mistake which is made on purpose is seen, by the laws about it.

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::laws::Violation;

/// A mistake, how many seeds it may take, and the laws that may report it with the first seed that catches it.
pub type Caught<'a, Bug> = (Bug, u64, &'a [&'a str]);

/// Looks whether each mistake is caught within its seeds, by nothing but its laws; `run` gives back what a seed breaks with it.
///
/// # Panics
///
/// When one is not.
pub fn each_is_caught<Bug: Copy + Debug + Sync>(
    bugs: &[Caught<'_, Bug>],
    run: impl Fn(u64, Bug) -> Result<Vec<Violation>, Violation> + Sync,
) {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let work = || {
        while let Some(&(bug, seeds, laws)) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let caught = (0..seeds).find_map(|seed| {
                let violations = run(seed, bug).unwrap_or_else(|violation| vec![violation]);
                let broken: Vec<_> = violations.iter().map(|violation| violation.law).collect();
                (!broken.is_empty()).then_some((seed, broken))
            });
            println!("{bug:?}: {caught:?}");
            let by_these = |broken: &[&str]| broken.iter().all(|law| laws.contains(law));
            if !caught.as_ref().is_some_and(|(_, broken)| by_these(broken)) {
                let line = format!("{bug:?} within {seeds} seeds by {laws:?}, but: {caught:?}");
                wrong.lock().expect("no panic").push(line);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Looks whether each law has a mistake that it may report.
///
/// # Panics
///
/// When one has none.
pub fn each_law_reports_one<Bug>(laws: &[&str], bugs: &[Caught<'_, Bug>]) {
    for law in laws {
        let is_reported = bugs.iter().any(|(.., laws)| laws.contains(law));
        assert!(is_reported, "{law:?} has none");
    }
}

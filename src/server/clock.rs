//! The time that the engine is given.

#![expect(clippy::disallowed_methods, reason = "the shell is where time comes in")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::engine::Timestamp;

/// Where the time comes from. A simulation hands in its own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How far the system's clock may be ahead before it is followed, in milliseconds.
const LAG_MS_MAX: i64 = 1_000;

/// Returns the clock of this machine: it never goes back, and follows the system's clock forward.
///
/// It runs with the monotonic clock, so a system clock that is set back delays no wait. A system clock that
/// is ahead, after the machine slept or was set right, is followed at once.
pub fn wall_clock() -> Clock {
    let started = Instant::now();
    let wall = Wall::new(wall_ms());
    Arc::new(move || {
        let running_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
        wall.time(running_ms, wall_ms)
    })
}

/// What is added to the time that the monotonic clock has run.
struct Wall {
    offset_ms: AtomicI64,
    /// When the system's clock was looked at, by the monotonic one.
    looked_at_ms: AtomicI64,
}

impl Wall {
    /// Begins with the time of the system's clock.
    fn new(wall_ms: i64) -> Self {
        Self {
            offset_ms: AtomicI64::new(wall_ms),
            looked_at_ms: AtomicI64::new(0),
        }
    }

    /// Returns the time. The system's clock is looked at once a millisecond, which is enough to see whether it is ahead.
    fn time(&self, running_ms: i64, wall_ms: impl FnOnce() -> i64) -> Timestamp {
        let mut offset = self.offset_ms.load(Ordering::Relaxed);
        if self.looked_at_ms.load(Ordering::Relaxed) != running_ms {
            self.looked_at_ms.store(running_ms, Ordering::Relaxed);
            let wall_offset_ms = wall_ms() - running_ms;
            if wall_offset_ms > offset + LAG_MS_MAX {
                let before = self.offset_ms.fetch_max(wall_offset_ms, Ordering::Relaxed);
                offset = before.max(wall_offset_ms);
            }
        }
        Timestamp::from_millis(offset + running_ms)
    }
}

/// The system's clock, in milliseconds since the Unix epoch; 0 before it.
fn wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_runs_with_the_monotonic_clock_and_follows_the_systems_forward() {
        let wall = Wall::new(1_000);
        let time = |running_ms, wall_ms| wall.time(running_ms, || wall_ms).as_millis();
        assert_eq!(time(0, 1_000), 1_000);
        assert_eq!(time(5, 1_005), 1_005);
        assert_eq!(time(6, 0), 1_006, "it was set back");
        assert_eq!(time(7, 1_007 + LAG_MS_MAX), 1_007, "it is not far ahead");
        assert_eq!(time(8, 1_008 + LAG_MS_MAX + 1), 2_009);
        assert_eq!(time(8, 9_000), 2_009, "it was looked at in this millisecond");
        assert_eq!(time(9, 1_009), 2_010);
        assert_eq!(time(10, 9_000), 9_000);
    }

    #[test]
    fn the_clock_of_this_machine_shows_the_systems_time_and_does_not_go_back() {
        let clock = wall_clock();
        let times: Vec<i64> = (0..100_000).map(|_| clock().as_millis()).collect();
        assert!(times.is_sorted());
        let late_ms = wall_ms() - times[0];
        assert!((-1_000..60_000).contains(&late_ms), "{late_ms}");
    }
}

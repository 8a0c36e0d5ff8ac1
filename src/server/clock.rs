//! The time that the engine is given.

#![expect(clippy::disallowed_methods, reason = "the shell is where time comes in")]

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::engine::Timestamp;

/// Where the time comes from: called, it tells by what waits and everything else last, which runs evenly and never goes back. A simulation
/// hands in its own.
#[derive(Clone)]
pub struct Clock {
    running: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    wall_ahead_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Clock {
    /// Makes one that runs evenly, and of which people read another time: so many milliseconds ahead of it.
    pub fn shown_otherwise(
        running: impl Fn() -> Timestamp + Send + Sync + 'static,
        wall_ahead_ms: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            running: Arc::new(running),
            wall_ahead_ms: Arc::new(wall_ahead_ms),
        }
    }

    /// Returns how far the clock that people read is ahead of it, in milliseconds, as far as that was seen when it was called last.
    pub fn wall_ahead_ms(&self) -> i64 {
        (self.wall_ahead_ms)()
    }
}

impl Deref for Clock {
    type Target = dyn Fn() -> Timestamp + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.running
    }
}

/// Makes one of which people read the same time.
impl<F: Fn() -> Timestamp + Send + Sync + 'static> From<F> for Clock {
    fn from(running: F) -> Self {
        Self::shown_otherwise(running, || 0)
    }
}

/// How far the system's clock may be off before it is followed, in milliseconds.
const LAG_MS_MAX: i64 = 1_000;

/// Returns the clock of this machine. It begins with the system's time and runs on while the machine sleeps; people read the system's, which
/// may be set.
pub fn wall_clock() -> Clock {
    let started_ms = awake_and_asleep_ms();
    let wall = Arc::new(Wall::new(wall_ms()));
    let looked_at = Arc::clone(&wall);
    Clock::shown_otherwise(
        move || looked_at.time(awake_and_asleep_ms() - started_ms, wall_ms),
        move || wall.ahead_ms.load(Ordering::Relaxed),
    )
}

/// What the system's clock showed.
struct Wall {
    /// When the running clock began to run.
    began_ms: i64,
    ahead_ms: AtomicI64,
    /// When the system's clock was looked at, by the running one.
    looked_at_ms: AtomicI64,
}

impl Wall {
    /// Begins with the time of the system's clock.
    fn new(wall_ms: i64) -> Self {
        Self {
            began_ms: wall_ms,
            ahead_ms: AtomicI64::new(0),
            looked_at_ms: AtomicI64::new(0),
        }
    }

    /// Returns the time. The system's clock is looked at once a millisecond, which is enough to see whether it was set.
    fn time(&self, running_ms: i64, wall_ms: impl FnOnce() -> i64) -> Timestamp {
        let time_ms = self.began_ms + running_ms;
        // Read before it is written: the threads that ask often leave each other's caches alone.
        let is_new = self.looked_at_ms.load(Ordering::Relaxed) != running_ms;
        if is_new && self.looked_at_ms.swap(running_ms, Ordering::Relaxed) != running_ms {
            let ahead_ms = wall_ms() - time_ms;
            let before = self.ahead_ms.load(Ordering::Relaxed);
            if (ahead_ms - before).abs() > LAG_MS_MAX {
                self.ahead_ms.store(ahead_ms, Ordering::Relaxed);
            }
        }
        Timestamp::from_millis(time_ms)
    }
}

/// How long the machine has run, in milliseconds, with the time for which it slept: what waited then has waited.
fn awake_and_asleep_ms() -> i64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const RUNNING: ClockId = ClockId::Boottime;
    // Here it does not stand still while the machine sleeps.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const RUNNING: ClockId = ClockId::Monotonic;
    let Timespec { tv_sec, tv_nsec } = clock_gettime(RUNNING);
    tv_sec * 1_000 + tv_nsec / 1_000_000
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
    fn the_time_runs_by_itself_and_what_people_read_follows_the_systems() {
        let wall = Wall::new(1_000);
        let time = |running_ms, wall_ms| {
            let time = wall.time(running_ms, || wall_ms).as_millis();
            (time, wall.ahead_ms.load(Ordering::Relaxed))
        };
        assert_eq!(time(0, 1_000), (1_000, 0));
        assert_eq!(time(5, 1_005), (1_005, 0));
        assert_eq!(time(6, 1_006 + LAG_MS_MAX), (1_006, 0), "it is not far ahead");
        assert_eq!(time(7, 1_007 - LAG_MS_MAX), (1_007, 0), "nor far behind");
        assert_eq!(time(8, 3_601_008), (1_008, 3_600_000), "it was set an hour ahead");
        assert_eq!(
            time(8, 0),
            (1_008, 3_600_000),
            "it was looked at in this millisecond"
        );
        assert_eq!(time(9, 3_601_009 + LAG_MS_MAX), (1_009, 3_600_000));
        assert_eq!(time(10, 1_010), (1_010, 0), "it was set right");
        assert_eq!(time(11, 0), (1_011, -1_011), "it was set back");
    }

    #[test]
    fn the_clock_of_this_machine_shows_the_systems_time_and_does_not_go_back() {
        let clock = wall_clock();
        let times: Vec<i64> = (0..100_000).map(|_| clock().as_millis()).collect();
        assert!(times.is_sorted());
        let late_ms = wall_ms() - times[0] - clock.wall_ahead_ms();
        assert!((-1_000..60_000).contains(&late_ms), "{late_ms}");
    }
}

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
    let offset_ms = AtomicI64::new(wall_ms());
    let looked_at_ms = AtomicI64::new(0);
    Arc::new(move || {
        let running_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut offset = offset_ms.load(Ordering::Relaxed);
        // Once a millisecond is enough to see whether the system's clock is ahead.
        if looked_at_ms.load(Ordering::Relaxed) == running_ms {
            return Timestamp::from_millis(offset + running_ms);
        }
        looked_at_ms.store(running_ms, Ordering::Relaxed);
        let wall_offset_ms = wall_ms() - running_ms;
        if wall_offset_ms > offset + LAG_MS_MAX {
            offset = offset_ms
                .fetch_max(wall_offset_ms, Ordering::Relaxed)
                .max(wall_offset_ms);
        }
        Timestamp::from_millis(offset + running_ms)
    })
}

/// The system's clock, in milliseconds since the Unix epoch; 0 before it.
fn wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

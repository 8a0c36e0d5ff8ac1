//! What makes a run depend on its seed alone, whatever else this process has run or is about to.
//!
//! tokio counts the ids of its tasks for the whole process, and keeps the tasks of a runtime in a few lists by their ids; when a
//! machine loses power, its tasks are dropped list by list, and so are their connections. With another run in between, or before, the
//! server would see these end in another order. So a process has one run at a time, and each begins behind an id of the same
//! remainder.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Builder;

/// A multiple of the number of those lists, which is 4 for a runtime of one thread.
const IDS: u64 = 64;

static RUNNING: Mutex<()> = Mutex::new(());

/// Waits until no other run is on its way; none begins until what is returned is dropped.
pub fn alone() -> MutexGuard<'static, ()> {
    // A run that ended by a panic has left nothing behind it.
    let alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Builder::new_current_thread()
        .build()
        .expect("a runtime without a driver");
    runtime.block_on(async {
        loop {
            let task = tokio::spawn(async {});
            let id: u64 = task.id().to_string().parse().expect("an id is a number");
            task.await.expect("it does nothing");
            if id.is_multiple_of(IDS) {
                return;
            }
        }
    });
    alone
}

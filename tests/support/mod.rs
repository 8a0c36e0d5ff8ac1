//! What the tests from outside share: the built relay as a process, connections that show every byte, and MCP sessions.
//!
//! It knows the wire and nothing of relay's code, so that a test sees what any client would. Whatever waits here has
//! [`PATIENCE`] and says what it was waiting for when that ends.

pub mod http;
pub mod process;
pub mod session;
pub mod sse;

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it: far longer than it takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How soon it is looked again for what is waited for: at first, and in the end. Most of it holds within milliseconds; what
/// takes seconds would cost the tests beside it more than the looking is worth.
const LOOK_AGAIN_FIRST: Duration = Duration::from_millis(1);
const LOOK_AGAIN_LAST: Duration = Duration::from_millis(16);

/// Waits until something holds that can be asked for but not awaited.
///
/// # Panics
///
/// When it still does not hold after [`PATIENCE`]; `what` says what it is.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    let mut pause = LOOK_AGAIN_FIRST;
    while !holds() {
        assert!(
            started.elapsed() < PATIENCE,
            "after {PATIENCE:?} still not: {what}"
        );
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK_AGAIN_LAST);
    }
}

//! The server inside the test's own process: what no client can bring about from outside, and what takes long by the clock.

mod clis;
mod doors;
mod panics;
mod patience;

#[expect(
    dead_code,
    clippy::disallowed_methods,
    reason = "its requests are used here, and its connections, which look at the clock, are not"
)]
#[path = "../support/http.rs"]
mod http;
#[path = "../support/in_memory.rs"]
mod in_memory;

use std::time::Duration;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

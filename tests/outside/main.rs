//! relay from outside: the built binary as a process, and what any client, person or agent meets of it.
//!
//! One program, so that tests that wait do so beside all the others. Each folder has a side of relay and what its tests share; what all
//! share is in `tests/support`. Here is nothing that takes so much of the machine that others would notice: `tests/flood.rs` is alone.

#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, reads its output in threads, and plays a server in them"
)]

mod bridge;
mod cli;
mod contract;
mod hostile;
mod log;
mod restart;
mod sdk;
mod start_sh;
mod unix;
mod v1;
mod workers;

#[path = "../support/needs.rs"]
mod needs;
#[path = "../support/mod.rs"]
mod support;

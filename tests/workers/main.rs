//! Workers from outside: a supervisor is given orders as relay gives them, for programs that a test writes.

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, and reads what it says in a thread"
)]

mod attached;
mod doors;
mod ends;
mod logs;
mod scene;
mod starter;
mod starts;

#[expect(dead_code, reason = "each test file uses a part of what they share")]
#[path = "../support/mod.rs"]
mod support;

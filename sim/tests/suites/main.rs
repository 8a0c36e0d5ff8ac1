//! All suites: seeds that must hold, mistakes that must be seen, and the same bytes from the same seed.
//!
//! The runs are handed to as many processes as there are cores ([`pool`]), since a process has one at a time. The few that look at what
//! else a process does are this one's own.

mod contract;
mod determinism;
mod nodes;
mod pool;
mod programs;
mod support;
mod whole;
mod workers;

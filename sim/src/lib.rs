//! Tries to break relay's delivery contract.
//!
//! The production server (axum, rmcp, HTTP+SSE, streamable HTTP, the engine) runs inside turmoil; only the
//! listener, the clock and the sources of random bytes are the simulation's. Simulated agent sessions call it
//! over simulated TCP while faults and restarts happen around them, and what they saw is held against the laws.
//!
//! # The map
//!
//! - [`plan`]: a seed becomes a plan: parameters, what each agent does, which faults happen when.
//! - [`world`]: a plan becomes a run: hosts, network, faults, the end phase.
//! - [`net`]: sockets that know what their kernel would.
//! - [`client`]: MCP sessions over both transports; [`stdio`]: and over the bridge; [`agent`]: who uses them, with
//!   what it has read in [`memory`]; [`team`]: those who register; [`projects`]: where several are.
//! - [`tap`]: what passes in and out of the engine, for the marks; and the seeded bugs.
//! - [`history`]: what every client saw; [`laws`]: a function a law over it; [`marks`]: what must have happened.
//! - [`nodes`]: agents that are delivered to, in runs of their own; [`programs`]: agents whose programs show what waits, likewise; [`workers`]: agents that start others, around the engine alone and around the whole server.
//! - [`campaign`]: many seeds; [`shrink`]: a failing plan made smaller.
//! - [`suites`]: all of these by their names, and what must come of the mistakes that are made on purpose; [`job`]: seeds that another process asks for.

pub mod agent;
pub mod alone;
pub mod campaign;
pub mod client;
pub mod history;
pub mod job;
pub mod laws;
pub mod marks;
pub mod memory;
pub mod net;
pub mod nodes;
pub mod plan;
pub mod programs;
pub mod projects;
pub mod shrink;
pub mod stdio;
pub mod suites;
pub mod tap;
pub mod team;
pub mod workers;
pub mod world;

//! The command line from outside: what it prints, what it refuses and with which exit code, and how a relay begins and ends.

#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, and plays a server in threads"
)]

mod commands;
mod config;
mod definition;
mod desk;
mod doctor;
mod identity;
mod install;
mod life;
#[expect(dead_code, reason = "each test file uses a part of what they share")]
#[path = "../support/needs.rs"]
mod needs;
mod port_in_use;
mod prompts;
mod register;
mod usage;

#[expect(dead_code, reason = "each test file uses a part of what they share")]
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::json;

use support::process::{Process, Relay, free_port, has_ipv6_loopback, relay_command, signal};
use support::session::{Reply, Session, Way};
use support::sse::Seen;
use support::{PATIENCE, until};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes a call of the built binary that ends within [`PATIENCE`] or is killed.
fn relay(arguments: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::from_std(relay_command());
    command.args(arguments).timeout(PATIENCE);
    command
}

//! The command line from outside: what it prints, what it refuses and with which exit code, and how a relay begins and ends.

mod commands;
mod config;
mod definition;
mod desk;
mod doctor;
mod identity;
mod install;
mod life;
mod port_in_use;
mod prompts;
mod register;
mod usage;

use std::time::{Duration, Instant};

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::json;

use crate::support::process::{Process, Relay, free_port, has_ipv6_loopback, relay_command, signal};
use crate::support::session::{Reply, Session, Way};
use crate::support::sse::Seen;
use crate::support::{PATIENCE, until};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes a call of the built binary that ends within [`PATIENCE`] or is killed.
fn relay(arguments: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::from_std(relay_command());
    command.args(arguments).timeout(PATIENCE);
    command
}

//! relay over its unix socket, from outside: where it is and whose, what is delivered over it, and how it is found.

#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, and reads its output in threads"
)]

#[expect(dead_code, reason = "this test uses a part of what the bridge's tests have")]
#[path = "../bridge/agent.rs"]
mod agent;
mod delivery;
mod finding;
mod projects;
mod socket;
#[expect(dead_code, reason = "each test file uses a part of what they share")]
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use agent::Agent;
use support::process::{Relay, relay_command};
use support::session::Way;

/// A command that looks for a relay where a test says, and nowhere else: in a directory that is empty unless a test has put
/// something there.
fn command(directory: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = relay_command();
    command
        .current_dir(directory)
        .envs(variables.iter().copied())
        .env("TZ", "UTC");
    command
}

/// A bridge that looks for a relay where a test says.
fn bridge(directory: &Path, variables: &[(&str, &str)]) -> Agent {
    let mut command = command(directory, variables);
    command.arg("mcp");
    Agent::start_by(command)
}

/// A bridge to the unix socket of a relay.
fn bridge_to(relay: &Relay) -> Agent {
    let socket = relay.socket();
    bridge(relay.runtime.path(), &[("RELAY_SOCKET", text(&socket))])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary directory's name is text")
}

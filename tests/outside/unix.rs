//! relay over its unix socket, from outside: where it is and whose, what is delivered over it, and how it is found.

mod delivery;
mod finding;
mod projects;
mod socket;

use std::path::Path;
use std::process::Command;

use crate::bridge::agent::Agent;
use crate::support::process::{Relay, relay_command};
use crate::support::session::Way;

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
    // The answers are as long as what is in them: nobody shows them to a model.
    command.args(["mcp", "--reply-kb", "100000"]);
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

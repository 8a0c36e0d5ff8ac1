//! The person at the command line: `relay send`, `hook`, `read`, `peek`, `trace`, `tail`, `top`, `status`, `spawn`, `release` and `stop`, what of it is theirs alone, and the addresses that they call.

mod api;
mod directory;
mod environment;
mod flush;
mod gatherings;
mod hold;
mod hook;
mod hook_doors;
mod hook_ends;
mod json;
mod mode;
mod no_relay;
mod peek;
mod person;
mod read;
mod redrive;
mod send;
mod show;
mod status;
mod stop;
mod tail;
mod tokens;
mod top;
mod trace;
mod workers;

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use predicates::str::{ends_with, starts_with};
use serde_json::Value;

use super::*;
use crate::support::http::Request;
use crate::support::session::WAYS;

/// Makes a command that asks the relay on a port, and is killed when it does not end within [`PATIENCE`].
fn ask(port: u16, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::from_std(relay_command());
    command
        .args(arguments)
        .args(["--port", &port.to_string()])
        .env("TZ", "UTC")
        .env("PATH", "")
        .timeout(PATIENCE);
    command
}

fn stdout_of(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).expect("text")
}

/// What the relay says of a role.
fn role(relay: &Relay, name: &str) -> Value {
    let health = relay.health();
    let mut roles = health["roles"].as_array().expect("roles").iter();
    let role = roles.find(|role| role["role"] == name).cloned();
    role.unwrap_or_else(|| panic!("no {name} in {health}"))
}

fn unread(relay: &Relay, name: &str) -> u64 {
    role(relay, name)["unread"].as_u64().expect("a number")
}

/// Has the person told of the start, so that no command says it again.
fn told() -> Relay {
    let relay = Relay::start();
    ask(relay.port, &["read"]).assert().code(3);
    relay.await_sessions(0);
    relay
}

/// Starts a command that asks the relay on a port.
fn begin(port: u16, arguments: &[&str], stdout: Stdio) -> Child {
    let mut command = relay_command();
    command.args(arguments).args(["--port", &port.to_string()]);
    command.stdout(stdout).stderr(Stdio::piped());
    command.spawn().expect("the built relay can be started")
}

/// Waits until a command waits for a message.
fn await_wait(relay: &Relay, role: &str) {
    until("a waiting read", || {
        let health = relay.health();
        let mut sessions = health["connections"].as_array().expect("sessions").iter();
        sessions.any(|session| session["waits"][0]["for"] == role)
    });
}

/// All that asks a relay.
const ASKING: [&[&str]; 17] = [
    &["send", "pm", "x"],
    &["read"],
    &["peek"],
    &["trace", "3f2a91c0"],
    &["show", "3f2a91c0"],
    &["reply", "3f2a91c0", "x"],
    &["group", "make", "crew"],
    &["channel", "remove", "build"],
    &["hold"],
    &["allow", "--all"],
    &["drop", "3f2a91c0"],
    &["tail"],
    &["status"],
    &["key"],
    &["spawn", "w1", "--cli", "claude", "--task", "x"],
    &["release", "w1"],
    &["stop"],
];

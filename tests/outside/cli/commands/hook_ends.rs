//! How hooks and waiters end where something is out of the ordinary.

use std::time::Instant;

use serde_json::json;

use super::hook::{PROCESS, Waiter, event, hook, programs, send, tell};
use super::*;

/// A process that a waiter waits for.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(
            std::process::Command::new("sleep")
                .arg("60")
                .spawn()
                .expect("it starts"),
        )
    }

    fn end(&mut self) {
        self.0.kill().expect("it is this test's own");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _code = self.0.wait();
    }
}

#[test]
fn an_event_is_told_of_however_much_its_tool_has_given() {
    let relay = told();
    tell(&relay, &event("UserPromptSubmit"));
    send(&relay, "look");
    let mut long = event("PostToolUse");
    long["tool_response"] = json!({"stdout": "x".repeat(9 << 20)});
    let assert = hook(&relay, PROCESS, &long).assert().code(0).stderr("");
    assert!(stdout_of(&assert).contains("| look"));
}

#[test]
fn a_hook_does_not_wait_for_an_event_that_does_not_end() {
    let relay = told();
    let started = Instant::now();
    let mut command = relay_command();
    let mut child = command
        .args(["hook", "claude", "--port", &relay.port.to_string()])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stdin = child.stdin.take();
    let output = child.wait_with_output().expect("it ends");
    assert!(started.elapsed() < Duration::from_secs(10));
    drop(stdin);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("it did not end within 1 s"), "{said}");
}

#[test]
fn a_waiter_hands_nothing_to_a_program_that_has_just_ended() {
    let relay = told();
    let mut process = Sleeper::start();
    let number = process.0.id().to_string();
    let waiter = Waiter::start(relay.port, &[("CLAUDE_PID", &number)]);
    until("it stands by", || {
        programs(&relay).iter().any(|(_, can_be_woken)| *can_be_woken)
    });
    process.end();
    send(&relay, "wake up");
    assert_eq!(waiter.end(), (Some(0), String::new()));
    assert_eq!(relay.bodies("dev-a"), ["again: wake up"]);
    assert_eq!(programs(&relay), []);
}

#[test]
fn of_the_waiters_of_a_program_that_wait_for_their_relay_one_stays() {
    let port = free_port();
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let start = || Waiter::start(port, &[("CLAUDE_PID", &number)]);
    let first = start();
    std::thread::sleep(Duration::from_secs(1));
    let mut latest = start();
    let started = Instant::now();
    assert_eq!(first.end(), (Some(0), String::new()));
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "the process has not ended yet"
    );
    assert!(latest.is_waiting());
}

#[test]
fn a_waiter_ends_with_the_session_of_its_program() {
    let relay = told();
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let waiter = Waiter::start(relay.port, &[("CLAUDE_PID", &number)]);
    until("it stands by", || {
        programs(&relay).iter().any(|(_, can_be_woken)| *can_be_woken)
    });
    let ends = event("SessionEnd");
    hook(&relay, &number, &ends)
        .assert()
        .code(0)
        .stdout("")
        .stderr("");
    assert_eq!(waiter.end(), (Some(0), String::new()));
    assert_eq!(programs(&relay), []);
}

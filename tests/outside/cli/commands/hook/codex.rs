//! The waiter of Codex. That Codex itself takes what it is told to queue is seen in `tests/clis`.

use std::path::Path;

use super::*;

/// The conversation that the relay knows the program by.
const THREAD: &str = "s-1";

/// A waiter of a Codex that is another program: whatever it is to queue, it refuses.
struct Refused {
    codex: Child,
    waiter: Child,
}

impl Refused {
    fn stands_by(relay: &Relay) -> Self {
        Self::of_window(relay, None)
    }

    /// The same of a window, which shows the conversation that a file names.
    fn of_window(relay: &Relay, latest: Option<&Path>) -> Self {
        let codex = std::process::Command::new("/bin/sleep")
            .arg("60")
            .spawn()
            .expect("it starts");
        let said = json!({"conversation": THREAD, "process": codex.id().to_string(), "settles_ms": 0, "latest": latest});
        let waiter = start(relay.port, &said);
        until("it stands by", || can_be_woken(relay));
        Self { codex, waiter }
    }
}

impl Drop for Refused {
    fn drop(&mut self) {
        for child in [&mut self.waiter, &mut self.codex] {
            let _ended = child.kill();
            let _code = child.wait();
        }
    }
}

/// Starts a waiter, and tells it something.
fn start(port: u16, said: &Value) -> Child {
    let mut command = relay_command();
    command
        .args(["hook", "codex", "wait", "--port", &port.to_string()])
        .env("RELAY_AGENT", "dev-a")
        .stdin(Stdio::piped());
    let mut waiter = command.spawn().expect("it starts");
    let mut stdin = waiter.stdin.take().expect("it is piped");
    stdin.write_all(said.to_string().as_bytes()).expect("it reads");
    waiter
}

/// Waits for the end of a waiter, and gives its exit code.
fn code_of(waiter: &mut Child) -> Option<i32> {
    let mut ended = None;
    until("the waiter ends", || {
        ended = waiter.try_wait().expect("it is this test's own");
        ended.is_some()
    });
    ended?.code()
}

#[test]
fn what_codex_does_not_take_is_shown_in_the_next_turn() {
    let relay = told();
    let refused = Refused::stands_by(&relay);
    send(&relay, "wake up");
    until("it is back", || unread(&relay, "dev-a") == 1);
    let path = "/hooks/codex?agent=dev-a";
    let said = json!({"hook_event_name": "UserPromptSubmit", "session_id": THREAD, "prompt": "go on"});
    let (status, text) = posted(&relay, path, &said);
    assert_eq!(status, 200);
    assert!(
        text.contains("| wake up") && text.contains("which you may have been shown before"),
        "{text}"
    );
    until("it stands by still", || can_be_woken(&relay));
    drop(refused);
}

#[test]
fn a_waiter_whose_codex_has_ended_says_so_and_ends() {
    let relay = told();
    let mut refused = Refused::stands_by(&relay);
    refused.codex.kill().expect("it runs");
    refused.codex.wait().expect("it ends");
    assert_eq!(code_of(&mut refused.waiter), Some(0));
    until("it is gone", || programs(&relay).is_empty());
}

#[test]
fn a_waiter_ends_once_somebody_speaks_in_another_conversation_of_its_window() {
    let relay = told();
    let latest = tempfile::NamedTempFile::new().expect("there is room");
    let write = |thread: &str| std::fs::write(latest.path(), thread).expect("there is room");
    write(THREAD);
    let mut refused = Refused::of_window(&relay, Some(latest.path()));
    write("s-2");
    assert_eq!(code_of(&mut refused.waiter), Some(0));
    until("it is not woken", || {
        programs(&relay) == [("idle".to_owned(), false)]
    });
}

#[test]
fn a_waiter_that_stands_in_a_hook_ends_at_once() {
    let relay = told();
    let mut waiter = start(
        relay.port,
        &json!({"hook_event_name": "Stop", "session_id": THREAD}),
    );
    assert_eq!(code_of(&mut waiter), Some(0));
    assert_eq!(programs(&relay), []);
}

#[test]
fn a_waiter_whose_codex_has_ended_leaves_no_note_of_its_conversation() {
    let relay = told();
    let folder = tempfile::tempdir().expect("there is room");
    let current = folder.path().join("current");
    std::fs::write(&current, THREAD).expect("there is room");
    let mut refused = Refused::of_window(&relay, Some(&current));
    refused.codex.kill().expect("it runs");
    refused.codex.wait().expect("it ends");
    assert_eq!(code_of(&mut refused.waiter), Some(0));
    assert!(!current.exists());
}

//! The messaging socket of Claude Code, by which a session is woken that no waiter stands by for. When it is, and when not, is in
//! `tests/serving/doors.rs`, where no time passes.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use super::hook::{event, hook, send, tell};
use super::*;

/// A messaging socket, as Claude Code has one.
struct Door {
    listener: UnixListener,
    path: PathBuf,
    _folder: TempDir,
}

impl Door {
    fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("cc-socks");
        std::fs::create_dir(&directory).expect("it is made");
        let own = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&directory, own).expect("it is this test's");
        let path = directory.join("1.sock");
        let listener = UnixListener::bind(&path).expect("it is bound");
        Self {
            listener,
            path,
            _folder: folder,
        }
    }

    /// Tells of an event whose hook has the socket in its environment.
    fn tells(&self, relay: &Relay, event: &Value) -> assert_cmd::Command {
        self.tells_of(relay, &std::process::id().to_string(), event, "default")
    }

    /// The same of the program of a process, which may do so much without asking; nothing is said of that if it is empty.
    fn tells_of(&self, relay: &Relay, process: &str, event: &Value, may: &str) -> assert_cmd::Command {
        let mut event = event.clone();
        if !may.is_empty() {
            event["permission_mode"] = may.into();
        }
        let mut command = hook(relay, process, &event);
        command.env("CLAUDE_CODE_MESSAGING_SOCKET", &self.path);
        command
    }

    /// The text that is said there next.
    fn hears(&self) -> String {
        self.listener.set_nonblocking(true).expect("it may be asked");
        let mut stream = None;
        until("somebody connects", || {
            stream = self.listener.accept().ok();
            stream.is_some()
        });
        let (stream, _) = stream.expect("somebody has connected");
        stream.set_nonblocking(false).expect("it may be asked");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("a line comes");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let text = said["message"]["content"].clone();
        assert_eq!(
            said,
            json!({"type": "user", "message": {"role": "user", "content": text}})
        );
        text.as_str().expect("a text").to_owned()
    }

    /// Tells whether nobody has connected.
    fn is_silent(&self) -> bool {
        self.listener.set_nonblocking(true).expect("it may be asked");
        self.listener.accept().is_err()
    }
}

#[test]
fn an_idle_session_without_a_waiter_is_woken_by_its_messaging_socket() {
    let relay = told();
    let door = Door::open();
    door.tells(&relay, &event("Stop")).assert().code(0).stderr("");
    send(&relay, "wake up");
    let text = door.hears();
    assert!(
        text.starts_with("[relay wake ") && text.contains("\n| wake up\n"),
        "{text}"
    );
    // What Claude Code says to its model then has the mark in it.
    let said = format!("Another Claude session sent a message:\n{text}");
    let begins = json!({"hook_event_name": "UserPromptSubmit", "prompt": said});
    door.tells(&relay, &begins).assert().code(0).stdout("").stderr("");
    assert_eq!(relay.bodies("dev-a"), [""; 0]);
    door.tells(&relay, &event("Stop")).assert().code(0).stdout("");
    send(&relay, "and again");
    assert!(door.hears().contains("\n| and again\n"));
}

#[test]
fn a_turn_that_the_socket_has_begun_is_not_one_that_a_person_begins() {
    let relay = told();
    let door = Door::open();
    door.tells(&relay, &event("Stop")).assert().code(0);
    let next = [
        "send",
        "--from",
        "pm",
        "dev-a",
        "for later",
        "--mode",
        "next-message",
    ];
    ask(relay.port, &next).assert().code(0);
    send(&relay, "wake up");
    let said = format!("Another Claude session sent a message:\n{}", door.hears());
    let begins = json!({"hook_event_name": "UserPromptSubmit", "prompt": said});
    door.tells(&relay, &begins).assert().code(0).stdout("");
    let by_person = json!({"hook_event_name": "UserPromptSubmit", "prompt": "go on"});
    let shown = door.tells(&relay, &by_person).assert().code(0);
    assert!(stdout_of(&shown).contains("| for later"));
}

#[test]
fn of_two_sockets_that_a_session_names_the_later_is_used() {
    let relay = told();
    let (first, later) = (Door::open(), Door::open());
    for door in [&first, &later] {
        door.tells(&relay, &event("Stop")).assert().code(0);
    }
    send(&relay, "wake up");
    assert!(later.hears().contains("\n| wake up\n"));
    assert!(first.is_silent());
}

#[test]
fn a_run_that_nobody_sits_before_names_no_socket() {
    let relay = told();
    let door = Door::open();
    let mut run = door.tells(&relay, &event("Stop"));
    run.env("CLAUDE_CODE_ENTRYPOINT", "sdk-cli").assert().code(0);
    send(&relay, "wake up");
    std::thread::sleep(Duration::from_secs(6));
    assert!(door.is_silent());
    tell(&relay, &event("SessionStart"));
}

#[test]
fn a_socket_is_named_by_its_whole_path_and_for_claude_code_alone() {
    let relay = told();
    for (program, socket, accepted) in [
        ("claude", "cc.sock", "an absolute path"),
        ("codex", "/tmp/cc.sock", "nothing: only Claude Code has one"),
    ] {
        for path in [format!("/hooks/{program}"), format!("/hooks/{program}/wait")] {
            let path = format!("{path}?process=1&socket={socket}");
            let refused = relay
                .connect()
                .exchange(&Request::post(&path, event("Stop").to_string()));
            let reason = format!("socket is {socket:?}; accepted: {accepted}");
            assert_eq!((refused.status, refused.json()), (400, json!({"error": reason})));
        }
    }
}

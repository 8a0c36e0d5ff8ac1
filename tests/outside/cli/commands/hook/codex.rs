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

/// A stand-in for an agent CLI, which has a hook of relay's run for each event that it is given.
pub struct StandIn {
    cli: &'static str,
    port: u16,
    child: Child,
    /// Where its notes are.
    folder: tempfile::TempDir,
}

impl StandIn {
    /// Starts it with more arguments and variables.
    pub fn start(cli: &'static str, port: u16, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let program = folder.path().join(cli);
        std::os::unix::fs::symlink("/bin/bash", &program).expect("a link");
        let script =
            r#"while read -r event; do echo "$event" | "$RELAY" hook "$CLI" --port "$PORT"; echo done; done"#;
        let relay = relay_command();
        let mut command = std::process::Command::new(program);
        command.args(["-c", script]).args(arguments);
        for (name, value) in relay.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .env("RELAY", relay.get_program())
            .env("CLI", cli)
            .env("PORT", port.to_string())
            .env("RELAY_AGENT", "dev-a")
            .env("XDG_RUNTIME_DIR", folder.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Self {
            cli,
            port,
            child: command.spawn().expect("it starts"),
            folder,
        }
    }

    /// Has its hook told of an event of a conversation, which shows nothing.
    pub fn tells(&mut self, event: &Value) {
        let stdin = self.child.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{event}").expect("it reads");
        let mut said = [0; 5];
        let stdout = self.child.stdout.as_mut().expect("it is piped");
        stdout.read_exact(&mut said).expect("it is over");
        assert_eq!(&said, b"done\n");
    }

    /// How many waiters run that its hooks have started.
    pub fn waiters(&self) -> usize {
        let mut ps = std::process::Command::new("ps");
        let output = ps.args(["-A", "-o", "args="]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let waiter = format!("hook {} --port {} wait", self.cli, self.port);
        said.lines().filter(|line| line.ends_with(&waiter)).count()
    }

    /// How many notes there are of what was spoken in last.
    fn notes(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path().join("relay"));
        let names = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with(self.cli))
            .count()
    }

    /// Ends it, and waits until its waiters have ended with it.
    pub fn end(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        until("its waiters end with it", || self.waiters() == 0);
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _code = self.child.wait();
    }
}

#[test]
fn a_hook_starts_a_waiter_where_codex_may_be_idle_next_and_nowhere_else() {
    let relay = told();
    let of = |name: &str| json!({"hook_event_name": name, "session_id": THREAD});
    let mut of_subagent = of("Stop");
    of_subagent["agent_id"] = json!("a-1");
    for (event, arguments, count) in [
        (of("UserPromptSubmit"), vec![], 0),
        (of("PostToolUse"), vec![], 0),
        (of_subagent, vec![], 0),
        (of("Stop"), vec!["exec"], 0),
        (of("SessionStart"), vec![], 1),
        (of("Stop"), vec![], 1),
    ] {
        let mut codex = StandIn::start("codex", relay.port, &arguments, &[]);
        codex.tells(&event);
        assert_eq!(codex.waiters(), count, "{event} {arguments:?}");
        codex.end();
    }
}

#[test]
fn of_the_conversations_of_a_window_the_one_has_a_waiter_in_which_somebody_spoke_last() {
    let relay = told();
    let of = |name: &str, thread: &str| json!({"hook_event_name": name, "session_id": thread});
    let mut codex = StandIn::start("codex", relay.port, &[], &[]);
    codex.tells(&of("UserPromptSubmit", "s-1"));
    codex.tells(&of("Stop", "s-1"));
    assert_eq!(codex.waiters(), 1);
    codex.tells(&of("UserPromptSubmit", "s-2"));
    until("that of the first one ends", || codex.waiters() == 0);
    // A turn of the first one that is over only now.
    codex.tells(&of("Stop", "s-1"));
    until("so does another one", || codex.waiters() == 0);
    assert_eq!(codex.notes(), 1);
    // A daemon has several windows.
    let mut daemon = StandIn::start("codex", relay.port, &["app-server"], &[]);
    daemon.tells(&of("UserPromptSubmit", "s-3"));
    assert_eq!(daemon.notes(), 0);
}

#[test]
fn what_comes_is_queued_in_its_conversation_and_what_comes_after_that_too() {
    let relay = told();
    let folder = tempfile::tempdir().expect("there is room");
    // The shell that stands for Codex takes its subcommand for this file.
    let script = "printf '%s\\n' \"$@\" >queued.new\nmv queued.new queued\n";
    std::fs::write(folder.path().join("queue"), script).expect("there is room");
    let mut codex = std::process::Command::new("bash");
    let codex = codex.args(["-c", "read -r line"]).stdin(Stdio::piped());
    let codex = codex.spawn().expect("it starts");
    let said =
        json!({"conversation": THREAD, "process": codex.id().to_string(), "settles_ms": 0, "latest": null});
    let mut command = relay_command();
    command
        .args(["hook", "codex", "wait", "--port", &relay.port.to_string()])
        .current_dir(folder.path())
        .env("RELAY_AGENT", "dev-a")
        .stdin(Stdio::piped());
    let waiter = command.spawn().expect("it starts");
    // Both are ended with it.
    let mut both = Refused { codex, waiter };
    let mut stdin = both.waiter.stdin.take().expect("it is piped");
    stdin.write_all(said.to_string().as_bytes()).expect("it reads");
    drop(stdin);
    until("it stands by", || can_be_woken(&relay));
    let queued = || std::fs::read_to_string(folder.path().join("queued")).unwrap_or_default();
    for body in ["wake up", "and again"] {
        send(&relay, body);
        until("it is queued", || queued().contains(&format!("\n| {body}\n")));
        let queued = queued();
        let text = queued.strip_prefix(&format!("--thread\n{THREAD}\n--message\n"));
        let text = text.unwrap_or_else(|| panic!("{queued}"));
        for event in [
            json!({"hook_event_name": "UserPromptSubmit", "session_id": THREAD, "prompt": text}),
            json!({"hook_event_name": "Stop", "session_id": THREAD}),
        ] {
            let answer = posted(&relay, "/hooks/codex?agent=dev-a", &event);
            assert_eq!(answer, (204, String::new()));
        }
        until("it is confirmed", || role(&relay, "dev-a")["in_doubt"] == 0);
        assert_eq!(unread(&relay, "dev-a"), 0, "{body}");
    }
}

#[test]
fn a_waiter_leaves_the_session_of_its_hook_and_stands_by_once_its_time_has_passed() {
    let relay = told();
    let mut codex = std::process::Command::new("/bin/sleep");
    let codex = codex.arg("60").spawn().expect("it starts");
    let said =
        json!({"conversation": THREAD, "process": codex.id().to_string(), "settles_ms": 500, "latest": null});
    let started = std::time::Instant::now();
    let waiter = start(relay.port, &said);
    let pid = waiter.id().to_string();
    let _both = Refused { codex, waiter };
    until("it stands by", || can_be_woken(&relay));
    assert!(
        started.elapsed() >= Duration::from_millis(500),
        "{:?}",
        started.elapsed()
    );
    let mut ps = std::process::Command::new("ps");
    let output = ps.args(["-o", "sid=", "-p", &pid]).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), pid);
}

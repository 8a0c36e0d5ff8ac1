//! How hooks and waiters end where something is out of the ordinary.

mod waiters;

use std::io::Read as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::json;

use super::hook::{PROCESS, Waiter, event, hook, programs, send, tell};
use super::*;
use crate::needs;

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

/// A program and its waiter, which stands by.
fn standing_by(relay: &Relay) -> (Sleeper, Waiter) {
    let process = Sleeper::start();
    let number = process.0.id().to_string();
    let waiter = Waiter::start(relay.port, &[("CLAUDE_PID", &number)]);
    until("it stands by", || {
        programs(relay).iter().any(|(_, can_be_woken)| *can_be_woken)
    });
    (process, waiter)
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
    assert!(said.contains("no whole event came within 1 s"), "{said}");
}

/// Runs the hook with what its host writes; stdin stays open until it has ended.
fn with_stdin_open(relay: &Relay, written: &[u8]) -> String {
    let mut child = relay_command()
        .args(["hook", "claude", "--port", &relay.port.to_string()])
        .env("CLAUDE_PID", PROCESS)
        .env("RELAY_AGENT", "dev-a")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(written).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    drop(stdin);
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn an_event_is_carried_though_its_host_leaves_stdin_open_and_whatever_mark_stands_before_it() {
    let relay = told();
    tell(&relay, &event("UserPromptSubmit"));
    for (before, behind) in [("", ""), ("", "\n"), ("\u{feff}", ""), ("\u{feff}", "\n")] {
        send(&relay, "look");
        let written = format!("{before}{}{behind}", event("PostToolUse"));
        let shown = with_stdin_open(&relay, written.as_bytes());
        assert!(shown.contains("| look"), "{shown:?} for {written:?}");
    }
    // So it is where a host carries it there by itself.
    send(&relay, "look");
    let path = format!("/hooks/claude?process={PROCESS}&agent=dev-a");
    let written = format!("\u{feff}{}", event("PostToolUse"));
    let shown = relay.connect().exchange(&Request::post(&path, written));
    assert!(shown.text().contains("| look"), "{shown:?}");
}

#[test]
fn a_hook_whose_stdout_nobody_reads_has_shown_nothing() {
    // A pipe whose reader has gone, and no stdout at all.
    for is_closed in [false, true] {
        let relay = told();
        send(&relay, "look");
        let mut shell = std::process::Command::new("sh");
        let own = relay_command();
        let closing = if is_closed { ">&-" } else { "" };
        let runs = format!("exec \"$0\" hook claude --port \"$1\" {closing}");
        shell.args(["-c", &runs]).arg(own.get_program());
        shell.arg(relay.port.to_string());
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let (reader, writer) = std::io::pipe().expect("the system has room for a pipe");
        drop(reader);
        shell
            .env("CLAUDE_PID", PROCESS)
            .env("RELAY_AGENT", "dev-a")
            .stdin(Stdio::piped())
            .stdout(writer);
        let mut ran = shell.spawn().expect("it starts");
        let mut stdin = ran.stdin.take().expect("it is piped");
        let prompt = event("UserPromptSubmit").to_string();
        stdin.write_all(prompt.as_bytes()).expect("it reads");
        drop(stdin);
        ran.wait().expect("it ends");
        let shown = hook(&relay, PROCESS, &event("PostToolUse")).assert().code(0);
        assert!(stdout_of(&shown).contains("| look"), "closed: {is_closed}");
    }
}

#[test]
fn what_a_program_was_shown_that_was_killed_is_back_at_once() {
    let relay = told();
    let mut process = Sleeper::start();
    let number = process.0.id().to_string();
    hook(&relay, &number, &event("UserPromptSubmit")).assert().code(0);
    send(&relay, "look");
    let shown = hook(&relay, &number, &event("PostToolUse")).assert().code(0);
    assert!(stdout_of(&shown).contains("| look"));
    assert_eq!(unread(&relay, "dev-a"), 0);
    process.end();
    until("it is back", || unread(&relay, "dev-a") == 1);
    assert_eq!(relay.bodies("dev-a"), ["again: look"]);
    assert_eq!(programs(&relay), []);
}

#[test]
fn a_program_that_its_waiter_alone_has_told_of_is_gone_once_both_were_killed() {
    let relay = told();
    let (mut process, waiter) = standing_by(&relay);
    drop(waiter);
    process.end();
    until("it is gone", || programs(&relay).is_empty());
}

/// A process that is named like an agent CLI, with the hook that it has run, and a shell and some who bound its time between.
fn cli_with_a_hook(relay: &Relay, cli: &str, agent: &str, event: &Value) -> Sleeper {
    let between = r#"printf %s "$2" | sh -c 'timeout 60 timeout 60 "$0" hook "$2" --port "$1" >/dev/null; true' "$0" "$1" "$3"; sleep 60"#;
    let mut command = std::process::Command::new("bash");
    let relay_command = relay_command();
    command.args(["-c", r#"exec -a "$3" bash -c "$4" "$0" "$1" "$2" "$3""#]);
    command.arg(relay_command.get_program());
    command.args([&relay.port.to_string(), &event.to_string(), cli, between]);
    for (name, value) in relay_command.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("RELAY_AGENT", agent);
    Sleeper(command.spawn().expect("it starts"))
}

fn codex_with_a_hook(relay: &Relay, event: &Value) -> Sleeper {
    cli_with_a_hook(relay, "codex", "dev-a", event)
}

#[test]
fn what_each_agent_cli_was_shown_that_was_killed_is_back_though_nothing_but_its_hook_names_it() {
    let relay = told();
    let all = [
        ("claude", "PostToolUse", "dev-a"),
        ("codex", "PostToolUse", "dev-b"),
        ("gemini", "AfterTool", "pm"),
    ];
    let mut running = all.map(|(cli, name, agent)| {
        ask(relay.port, &["send", agent, "look"]).assert().code(0);
        cli_with_a_hook(
            &relay,
            cli,
            agent,
            &json!({"session_id": cli, "hook_event_name": name}),
        )
    });
    until("it is shown", || {
        all.iter().all(|(_, _, agent)| unread(&relay, agent) == 0)
    });
    running.iter_mut().for_each(Sleeper::end);
    for (cli, _, agent) in all {
        until(&format!("what {cli} was shown is back"), || {
            unread(&relay, agent) == 1
        });
    }
}

#[test]
fn the_process_of_a_hook_is_that_of_its_agent_cli_and_no_shell_between() {
    let is_of = |cli: &str, returned: &str| {
        let relay = told();
        send(&relay, "look");
        let mut program = cli_with_a_hook(&relay, cli, "dev-a", &event(returned));
        until("it is shown", || unread(&relay, "dev-a") == 0);
        // Long enough for the shell between to be seen gone.
        std::thread::sleep(Duration::from_secs(5));
        assert_eq!(unread(&relay, "dev-a"), 0, "{cli} runs");
        program.end();
        until("it is back", || unread(&relay, "dev-a") == 1);
        assert_eq!(relay.bodies("dev-a"), ["again: look"], "{cli}");
    };
    std::thread::scope(|scope| {
        for (cli, returned) in [
            ("claude", "PostToolUse"),
            ("codex", "PostToolUse"),
            ("gemini", "AfterTool"),
        ] {
            scope.spawn(move || is_of(cli, returned));
        }
    });
}

#[test]
fn a_conversation_that_goes_on_in_another_process_ends_with_that() {
    let relay = told();
    send(&relay, "look");
    let mut first = codex_with_a_hook(&relay, &event("PostToolUse"));
    until("it is shown", || unread(&relay, "dev-a") == 0);
    send(&relay, "and here");
    let mut second = codex_with_a_hook(&relay, &event("PostToolUse"));
    until("it is shown", || unread(&relay, "dev-a") == 0);
    first.end();
    // Long enough for the first to be seen gone.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(unread(&relay, "dev-a"), 0, "the conversation goes on");
    second.end();
    until("it is back", || unread(&relay, "dev-a") > 0);
    assert_eq!(
        relay.bodies("dev-a").last().map(String::as_str),
        Some("again: and here")
    );
}

#[test]
fn of_a_process_in_another_namespace_nothing_is_told() {
    let relay = told();
    let mut process = Sleeper::start();
    let number = process.0.id();
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).expect("it runs");
    let since = stat
        .split_whitespace()
        .nth(21)
        .expect("it is told when it was started");
    let path = format!("/hooks/codex?process=s-1&agent=dev-a&cli={number}-{since}&namespace=elsewhere");
    send(&relay, "look");
    let body = event("PostToolUse").to_string();
    let shown = relay.connect().exchange(&Request::post(&path, body));
    assert!(shown.text().contains("| look"), "{shown:?}");
    process.end();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(unread(&relay, "dev-a"), 0, "only its silence tells");
    let wrong = "/hooks/codex?process=s-1&cli=12&namespace=elsewhere";
    let refused = relay
        .connect()
        .exchange(&Request::post(wrong, event("Stop").to_string()));
    let reason = "cli is \"12\"; accepted: the number of a process, a dash, and when it was started as the system counts that";
    assert_eq!((refused.status, refused.json()), (400, json!({"error": reason})));
}

#[test]
fn where_the_system_gives_no_thread_a_hook_ends_well_and_others_say_so() {
    if !needs::LIMITS.is_met_or_said() {
        return;
    }
    let relay = told();
    let port = relay.port.to_string();
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Root has no such limit, and nobody cannot read where this program lies.
    let program = directory.path().join("relay");
    std::fs::copy(env!("CARGO_BIN_EXE_relay"), &program).expect("a file");
    let modes = [directory.path(), &program];
    for path in modes {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("it is one's own");
    }
    let with_processes = |count: u32, arguments: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        if rustix::process::getuid().is_root() {
            command.args(["--reuid", "65534", "--clear-groups", "--bounding-set=-all"]);
        }
        command
            .arg("prlimit")
            .arg(format!("--nproc={count}"))
            .arg(&program);
        let mut command = assert_cmd::Command::from_std(command);
        command.args(arguments).env("RELAY_PORT", &port).current_dir("/");
        command.timeout(PATIENCE).write_stdin(event("Stop").to_string());
        command
    };
    let without_threads = |arguments: &[&str]| with_processes(0, arguments);
    for arguments in [
        &["hook", "claude"][..],
        &["hook", "codex"],
        &["hook", "gemini"],
        &["hook", "codex", "wait"],
    ] {
        let panics = contains("panicked").not();
        without_threads(arguments)
            .assert()
            .code(0)
            .stdout("")
            .stderr(panics);
    }
    let said = contains("the system gives it no thread: ");
    without_threads(&["hook", "claude"]).assert().stderr(said);
    for arguments in [
        &["read", "dev-a"][..],
        &["status"],
        &["peek"],
        &["send", "dev-a", "x", "--from", "dev-b"],
        &["mcp"],
    ] {
        let told = without_threads(arguments).assert().code(1).stdout("");
        let stderr = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.contains("no thread"), "{arguments:?}: {stderr}");
    }
    // It has one for each core, whatever else a variable says, and four more.
    for processes in 0..=5 {
        let mut serve = with_processes(processes, &["serve", "--port", "45017"]);
        let told = serve.env("TOKIO_WORKER_THREADS", "many").assert();
        let stderr = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
        told.code(1).stdout("");
        assert_eq!(stderr.lines().count(), 1, "{processes}: {stderr}");
        assert!(stderr.contains("no thread"), "{processes}: {stderr}");
    }
}

#[test]
fn a_hook_does_not_wait_for_a_relay_that_does_not_answer() {
    let relay = told();
    relay.signal("STOP");
    let started = Instant::now();
    let event = event("PostToolUse");
    hook(&relay, PROCESS, &event)
        .assert()
        .code(0)
        .stdout("")
        .stderr("");
    let took = started.elapsed();
    relay.signal("CONT");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

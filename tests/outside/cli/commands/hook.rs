//! The hooks of agent CLIs, as their programs run them.

mod codex;
mod tmux;
mod waiters;

use std::io::Read as _;

use serde_json::json;

use super::super::desk::Desk;
use super::*;

/// The number of a program's process. No process can have it, on Linux (below 4,194,304) or macOS (below 100,000): of one that there was
/// while a test runs, the hooks would tell when it began.
pub const PROCESS: &str = "4194305";

/// Runs the hook of Claude Code with an event, as the process of that number.
pub fn hook(relay: &Relay, process: &str, event: &Value) -> assert_cmd::Command {
    let mut command = ask(relay.port, &["hook", "claude"]);
    command
        .env("CLAUDE_PID", process)
        .env("CLAUDE_CODE_ENTRYPOINT", "cli")
        .env("RELAY_AGENT", "dev-a")
        .write_stdin(event.to_string());
    command
}

/// Tells of an event that shows nothing.
pub fn tell(relay: &Relay, event: &Value) {
    hook(relay, PROCESS, event).assert().code(0).stdout("").stderr("");
}

pub fn event(name: &str) -> Value {
    json!({"session_id": "s-1", "hook_event_name": name})
}

/// Tells of an event, and gives the text that it shows.
fn shown(relay: &Relay, name: &str) -> String {
    let assert = hook(relay, PROCESS, &event(name)).assert().code(0).stderr("");
    let answer: Value = serde_json::from_str(&stdout_of(&assert)).expect("JSON");
    let text = answer["hookSpecificOutput"]["additionalContext"].clone();
    let expected = json!({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}});
    assert_eq!(answer, expected);
    text.as_str().expect("a text").to_owned()
}

/// A waiter of the program of a process: this test's own, so that it is alive.
pub struct Waiter(Child);

impl Waiter {
    pub fn start(port: u16, environment: &[(&str, &str)]) -> Self {
        let mut command = relay_command();
        command
            .args(["hook", "claude", "wait", "--port", &port.to_string()])
            .env("CLAUDE_PID", std::process::id().to_string())
            .env("CLAUDE_CODE_ENTRYPOINT", "cli")
            .env("RELAY_AGENT", "dev-a")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        Self(command.spawn().expect("it starts"))
    }

    /// Waits until it stands by.
    pub fn stands_by(relay: &Relay) -> Self {
        let waiter = Self::start(relay.port, &[]);
        until("it stands by", || can_be_woken(relay));
        waiter
    }

    pub fn is_waiting(&mut self) -> bool {
        self.0.try_wait().expect("it is this test's own").is_none()
    }

    /// Its exit code, and what it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        let stderr = self.0.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut said).expect("it is text");
        (self.0.wait().expect("it ends").code(), said)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _code = self.0.wait();
    }
}

/// The programs that the relay knows of: the activity of each, and whether it can be woken.
pub fn programs(relay: &Relay) -> Vec<(String, bool)> {
    let health = relay.health();
    let connections = health["connections"].as_array().expect("connections").iter();
    let programs = connections.filter_map(|connection| connection.get("program"));
    let told = programs.map(|program| {
        let activity = program["activity"].as_str().expect("a word").to_owned();
        (activity, program["can_be_woken"] == true)
    });
    told.collect()
}

fn can_be_woken(relay: &Relay) -> bool {
    programs(relay).iter().any(|(_, can_be_woken)| *can_be_woken)
}

pub fn send(relay: &Relay, text: &str) {
    ask(relay.port, &["send", "--from", "pm", "dev-a", text])
        .assert()
        .code(0);
}

#[test]
fn a_busy_program_shows_a_message_behind_its_tool_and_nobody_else_reads_it() {
    let relay = told();
    tell(&relay, &event("SessionStart"));
    tell(&relay, &event("UserPromptSubmit"));
    send(&relay, "stop at once");
    let text = shown(&relay, "PostToolUse");
    assert!(text.contains("free from the agent pm, "), "{text}");
    assert!(text.contains("\n| stop at once\n"), "{text}");
    tell(&relay, &event("PostToolUse"));
    assert_eq!(relay.bodies("dev-a"), [""; 0]);
    assert_eq!(programs(&relay), [("busy".to_owned(), false)]);
}

#[test]
fn a_hook_whose_answer_nobody_takes_has_shown_nothing() {
    let relay = told();
    tell(&relay, &event("SessionStart"));
    send(&relay, "here");
    let (reader, writer) = std::io::pipe().expect("the system has room for a pipe");
    drop(reader);
    let mut command = relay_command();
    command
        .args(["hook", "claude", "--port", &relay.port.to_string()])
        .env("CLAUDE_PID", PROCESS)
        .env("RELAY_AGENT", "dev-a")
        .stdin(Stdio::piped())
        .stdout(writer);
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin
        .write_all(event("PostToolUse").to_string().as_bytes())
        .expect("it reads");
    drop(stdin);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    until("it is back", || unread(&relay, "dev-a") == 1);
    assert!(shown(&relay, "PostToolUse").contains("which you may have been shown before"));
}

#[test]
fn a_wrong_agent_is_told_to_the_person_when_the_session_starts() {
    let relay = told();
    let start = event("SessionStart");
    let run = |agent: &str, project: &str, event: &Value| {
        let mut command = hook(&relay, PROCESS, event);
        command.env("RELAY_AGENT", agent).env("RELAY_PROJECT", project);
        command.assert().code(0)
    };
    let roles = "known roles: pm, dev-a, dev-b";
    let projects = "there is no project \"other\"; known projects: default";
    for (agent, project, named, known) in [
        ("nobody", "", "nobody", roles),
        ("bad name!", "", "bad name!", roles),
        ("${RELAY_AGENT}", "", "${RELAY_AGENT}", roles),
        ("dev-a", "other", "other:dev-a", projects),
    ] {
        let refusal = format!("unknown role {named:?}; {known}");
        let assert = run(agent, project, &start).stderr(format!("relay hook: {refusal}\n"));
        let answer: Value = serde_json::from_str(&stdout_of(&assert)).expect("JSON");
        let told = format!(
            "relay shows this session no messages: {refusal}; the session's agent is named by RELAY_AGENT, or by --agent in the hook's \
             command, and its project by --project, RELAY_PROJECT or the .relay/config.json that says which relay is asked"
        );
        assert_eq!(answer, json!({"systemMessage": told}));
        run(agent, project, &event("PostToolUse")).stdout("");
    }
    run("dev-a", "", &start).stdout("").stderr("");
}

#[test]
fn a_hook_of_the_plugin_does_nothing_where_relay_is_installed_too() {
    let relay = told();
    let desk = Desk::new();
    let runs = |arguments: &[&str]| {
        send(&relay, "here");
        let mut command = hook(&relay, PROCESS, &event("PostToolUse"));
        command.args(arguments);
        command
            .env("HOME", &desk.home)
            .env("CLAUDE_PROJECT_DIR", &desk.project);
        command.env_remove("CLAUDE_CONFIG_DIR");
        let assert = command.assert().code(0).stderr("");
        !stdout_of(&assert).is_empty()
    };
    assert!(runs(&["--plugin"]), "it is there alone");
    for options in [&[][..], &["--global"]] {
        desk.relay(&[&["install", "--editor", "claude"], options].concat())
            .assert()
            .code(0);
        assert!(!runs(&["--plugin"]), "{options:?}");
        assert!(runs(&[]), "{options:?}");
        desk.relay(&[&["uninstall"], options].concat()).assert().code(0);
        assert!(runs(&["--plugin"]), "{options:?}");
    }
    // As the plugin runs it.
    let plugin: Value =
        serde_json::from_str(include_str!("../../../../plugin/hooks/hooks.json")).expect("JSON");
    let groups = plugin["hooks"].as_object().expect("an object").values();
    for group in groups.flat_map(|groups| groups.as_array().expect("an array")) {
        let command = group["hooks"][0]["command"].as_str().expect("a command");
        assert!(command.ends_with(" --plugin"), "{command}");
    }
}

#[test]
fn a_hook_is_silent_where_no_relay_is_and_says_what_one_refuses() {
    let port = free_port().to_string();
    let mut command = assert_cmd::Command::from_std(relay_command());
    command
        .args(["hook", "claude", "--port", &port])
        .env("CLAUDE_PID", PROCESS)
        .write_stdin("{}");
    command.assert().code(0).stdout("").stderr("");
    let relay = told();
    let refused = "relay hook: unknown role \"qa\"; known roles: pm, dev-a, dev-b\n";
    hook(&relay, PROCESS, &event("Stop"))
        .env("RELAY_AGENT", "qa")
        .assert()
        .code(0)
        .stdout("")
        .stderr(refused);
    hook(&relay, PROCESS, &json!({"session_id": "s-1"}))
        .assert()
        .code(0)
        .stdout("")
        .stderr(contains("\"hook_event_name\""));
}

#[test]
fn what_is_no_hook_is_refused_with_what_is_accepted() {
    let relay = Relay::start();
    let post = |path: &str, body: &str| {
        let response = relay.connect().exchange(&Request::post(path, body));
        (
            response.status,
            response.json()["error"].as_str().expect("a reason").to_owned(),
        )
    };
    for (path, body, reason) in [
        (
            "/hooks/cursor",
            "{}",
            "unknown program \"cursor\"; known programs: claude, codex, gemini, opencode",
        ),
        (
            "/hooks/claude?x=1",
            "{}",
            "unknown query parameter \"x\"; accepted: process, agent, project, mode, socket, cli, namespace",
        ),
        (
            "/hooks/claude",
            r#"{"hook_event_name": "Stop"}"#,
            "nothing says which program it is; accepted: \"session_id\" in the event, or ?process=",
        ),
        (
            "/hooks/claude/wait",
            "",
            "process is \"\"; accepted: 1 to 128 bytes",
        ),
    ] {
        assert_eq!(post(path, body), (400, reason.to_owned()), "{path}");
    }
    let (status, reason) = post("/hooks/claude", "[");
    assert_eq!(status, 400);
    assert!(
        reason.starts_with("an event of a hook is a JSON object with \"hook_event_name\": "),
        "{reason}"
    );
}

#[test]
fn an_event_that_was_cut_within_a_character_is_heard() {
    let relay = told();
    let send = ["send", "dev-a", "the tests are green", "--from", "pm"];
    ask(relay.port, &send).assert().code(0);
    let stop = r#"{"hook_event_name": "Stop", "session_id": "cut", "prompt": "green \ud83d"}"#;
    let answer = relay
        .connect()
        .exchange(&Request::post("/hooks/claude?agent=dev-a", stop));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("the tests are green"), "{}", answer.text());
}

/// Posts an event without the command, and gives the status and what is shown.
fn posted(relay: &Relay, path: &str, event: &Value) -> (u16, String) {
    let response = relay.connect().exchange(&Request::post(path, event.to_string()));
    (response.status, response.text())
}

#[test]
fn the_same_number_of_another_program_s_process_is_another_one() {
    let relay = told();
    for path in [
        "/hooks/claude?process=1",
        "/hooks/claude?process=2&agent=",
        "/hooks/codex?process=1",
        "/hooks/gemini",
        "/hooks/gemini?process=s-1",
    ] {
        let (status, text) = posted(&relay, path, &event("SessionStart"));
        assert_eq!((status, &*text), (204, ""), "{path}");
    }
    assert_eq!(programs(&relay).len(), 4);
    let gone = event("SessionEnd");
    assert_eq!(posted(&relay, "/hooks/codex?process=1", &gone).0, 204);
    assert_eq!(posted(&relay, "/hooks/codex?process=9", &gone).0, 204);
    assert_eq!(programs(&relay).len(), 3);
}

#[test]
fn a_program_that_becomes_another_agent_s_has_one_session_and_keeps_it_where_none_is_named() {
    let relay = told();
    let start = event("SessionStart");
    for agent in ["dev-a", "dev-b"] {
        let path = format!("/hooks/claude?process=1&agent={agent}");
        assert_eq!(posted(&relay, &path, &start).0, 204);
        assert_eq!(programs(&relay).len(), 1, "{agent}");
    }
    ask(relay.port, &["send", "--from", "pm", "dev-b", "here"])
        .assert()
        .code(0);
    let (status, text) = posted(&relay, "/hooks/claude?process=1", &event("PostToolUse"));
    assert!(status == 200 && text.contains("1 message for dev-b"), "{text}");
}

#[test]
fn an_agent_of_another_project_is_named_by_it() {
    let relay = told();
    let unknown = "relay hook: unknown role \"web:qa\"";
    hook(&relay, PROCESS, &event("Stop"))
        .env("RELAY_AGENT", "qa")
        .env("RELAY_PROJECT", "web")
        .assert()
        .code(0)
        .stdout("")
        .stderr(contains(unknown));
}

#[test]
fn a_process_has_a_bounded_name_and_an_event_is_json() {
    let relay = told();
    let path = |bytes: usize| format!("/hooks/claude?process={}", "1".repeat(bytes));
    assert_eq!(posted(&relay, &path(128), &event("SessionStart")).0, 204);
    let (status, text) = posted(&relay, &path(129), &event("SessionStart"));
    assert!(
        status == 400 && text.contains("accepted: 1 to 128 bytes"),
        "{text}"
    );
    let plain = Request::post(&path(1), event("SessionStart").to_string()).with("Content-Type", "text/plain");
    assert_eq!(relay.connect().exchange(&plain).status, 415);
}

#[test]
fn what_is_wrong_with_its_environment_stops_no_turn() {
    let relay = Relay::start();
    for (variable, value) in [("RELAY_TOKEN", "short"), ("RELAY_PROJECT", "a b")] {
        for arguments in [&["hook", "claude"][..], &["hook", "claude", "wait"]] {
            ask(relay.port, arguments)
                .env(variable, value)
                .env("CLAUDE_PID", PROCESS)
                .write_stdin("{}")
                .assert()
                .code(1)
                .stdout("")
                .stderr(contains("error: "));
        }
    }
}

#[test]
fn only_a_program_whose_agent_nobody_knows_for_certain_is_who_it_speaks_as() {
    for (program, reader) in [("claude", "dev-a"), ("codex", "dev-b")] {
        let relay = told();
        let path = format!("/hooks/{program}?agent=dev-a&process={PROCESS}");
        let spoken = json!({
            "hook_event_name": "PostToolUse", "session_id": "s-1", "tool_name": "mcp__relay__post_message",
            "tool_input": {"from": "dev-b", "to": "pm", "kind": "free", "body": "x"},
        });
        assert_eq!(posted(&relay, &path, &spoken).0, 204);
        for agent in ["dev-a", "dev-b"] {
            ask(relay.port, &["send", "--from", "pm", agent, agent])
                .assert()
                .code(0);
        }
        let (_, text) = posted(
            &relay,
            &path,
            &json!({"hook_event_name": "PostToolUse", "session_id": "s-1"}),
        );
        let found = ["dev-a", "dev-b"].map(|agent| text.contains(&format!("| {agent}")));
        assert_eq!(
            found,
            ["dev-a", "dev-b"].map(|agent| agent == reader),
            "{program}: {text}"
        );
    }
}

#[test]
fn an_environment_that_says_far_too_much_is_refused_in_words_or_passed_over() {
    let relay = Relay::start_told();
    let long = "x".repeat(100_000);
    let assert = hook(&relay, PROCESS, &event("Stop"))
        .env("RELAY_AGENT", &long)
        .assert()
        .code(0)
        .stdout("");
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(
        said.starts_with("relay hook: unknown role \"xxx")
            && said.ends_with("known roles: pm, dev-a, dev-b\n"),
        "{said}"
    );
    // What numbers no process is none.
    hook(&relay, &long, &event("SessionStart"))
        .assert()
        .code(0)
        .stderr("");
    hook(&relay, PROCESS, &event("SessionStart"))
        .env("CLAUDE_CODE_MESSAGING_SOCKET", &long)
        .assert()
        .code(0)
        .stderr("");
}

#[test]
fn where_a_worker_has_hooks_of_its_own_no_others_do_anything() {
    let relay = told();
    for (whose, arguments, does) in [
        (None, vec![], true),
        (None, vec!["--worker"], true),
        (Some("worker"), vec![], false),
        (Some("worker"), vec!["--worker"], true),
        (Some("project"), vec![], true),
    ] {
        send(&relay, "here");
        let mut command = hook(&relay, PROCESS, &event("PostToolUse"));
        command.args(&arguments);
        command.envs(whose.map(|whose| ("RELAY_HOOKS", whose)));
        let shown = stdout_of(&command.assert().code(0).stderr(""));
        assert_eq!(shown.contains("| here"), does, "{whose:?} {arguments:?}: {shown}");
    }
}

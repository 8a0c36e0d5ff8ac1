//! `relay mode`: how an agent is brought what its senders say nothing of.

use super::hook::{PROCESS, event, hook, send, tell};
use super::*;

fn mode(relay: &Relay, arguments: &[&str]) -> assert_cmd::assert::Assert {
    ask(relay.port, &[&["mode"], arguments].concat()).assert()
}

#[test]
fn what_a_sender_says_nothing_of_is_brought_as_it_is_set() {
    let relay = told();
    mode(&relay, &["dev-a"]).code(0).stdout("dev-a: immediate\n");
    mode(&relay, &["dev-a", "on-idle"])
        .code(0)
        .stdout("dev-a: on-idle\n");
    mode(&relay, &["dev-a", "--json"])
        .code(0)
        .stdout("{\"mode\":\"on-idle\"}\n");
    mode(&relay, &["pm"]).code(0).stdout("pm: immediate\n");
    tell(&relay, &event("UserPromptSubmit"));
    send(&relay, "once you are done");
    tell(&relay, &event("PostToolUse"));
    let ends = hook(&relay, PROCESS, &event("Stop")).assert().code(0);
    assert!(stdout_of(&ends).contains("| once you are done"));
    let status = stdout_of(&ask(relay.port, &["status"]).assert().code(0));
    assert!(status.contains("dev-a (on-idle)"), "{status}");
}

#[test]
fn the_environment_of_its_hooks_says_it_too() {
    let relay = told();
    hook(&relay, PROCESS, &event("SessionStart"))
        .env("RELAY_MODE", "next-message")
        .assert()
        .code(0)
        .stderr("");
    mode(&relay, &["dev-a"]).code(0).stdout("dev-a: next-message\n");
    hook(&relay, PROCESS, &event("Stop"))
        .env("RELAY_MODE", "later")
        .assert()
        .code(0)
        .stderr(contains("unknown mode \"later\"; known modes: immediate, "));
}

#[test]
fn all_that_is_wrong_with_a_session_is_told_its_person_at_once() {
    let relay = told();
    let mut command = hook(&relay, PROCESS, &event("SessionStart"));
    command.env("RELAY_MODE", "later").env("RELAY_AGENT", "nobody");
    let told: Value = serde_json::from_str(&stdout_of(&command.assert().code(0))).expect("one JSON");
    let told = told["systemMessage"].as_str().expect("a text");
    let both: Vec<&str> = told.lines().collect();
    assert!(
        both.len() == 2
            && both[0].contains("unknown mode \"later\"")
            && both[1].contains("unknown role \"nobody\""),
        "{told}"
    );
}

#[test]
fn hooks_that_say_nothing_of_it_leave_the_session_as_it_is() {
    let relay = told();
    let said = |mode: &str| {
        let mut command = hook(&relay, PROCESS, &event("UserPromptSubmit"));
        command.env("RELAY_MODE", mode).assert().code(0)
    };
    said("immediate");
    send(&relay, "once");
    assert!(stdout_of(&said("")).contains("| once"));
    assert_eq!(stdout_of(&said("immediate")), "");
    assert_eq!(relay.bodies("dev-a"), [""; 0]);
}

#[test]
fn what_is_held_for_its_agent_says_so_to_the_sender_and_in_the_trace() {
    let relay = told();
    mode(&relay, &["dev-a", "manual"]).code(0);
    tell(&relay, &event("UserPromptSubmit"));
    let sent = ask(relay.port, &["send", "--from", "pm", "dev-a", "x", "--json"]);
    let sent: Value = serde_json::from_str(&stdout_of(&{ sent }.assert().code(0))).expect("JSON");
    let note = sent["note"].as_str().expect("a note");
    assert!(
        note.starts_with("dev-a takes messages when it asks for them"),
        "{note}"
    );
    let id = sent["id"].as_str().expect("an id");
    let trace = stdout_of(&ask(relay.port, &["trace", id]).assert().code(0));
    assert!(trace.contains("brought manual, as its agent has it"), "{trace}");
}

#[test]
fn a_mode_that_is_none_and_a_role_that_nobody_has_are_refused() {
    let relay = told();
    let known = "known modes: immediate, next-message, next-tool-call, on-idle, manual";
    mode(&relay, &["dev-a", "later"]).code(2).stderr(contains(known));
    mode(&relay, &["qa"])
        .code(1)
        .stderr(contains("unknown role \"qa\"; known roles: "));
}

#[test]
fn the_person_has_no_mode() {
    let relay = told();
    let refused =
        "\"user\" is the person's, who reads by relay read and is brought nothing; accepted: an agent";
    mode(&relay, &["user", "manual"])
        .code(1)
        .stdout("")
        .stderr(format!("relay mode: {refused}\n"));
    for body in [r#"{"for": "user", "mode": "manual"}"#, r#"{"mode": "manual"}"#] {
        let response = relay.connect().exchange(&Request::post("/api/mode", body));
        let error = response.json()["error"].clone();
        assert_eq!((response.status, error.as_str()), (400, Some(refused)));
    }
    mode(&relay, &["user"]).code(0).stdout("user: immediate\n");
}

#[test]
fn on_its_stdout_no_other_program_than_claude_code_is_told_what_is_wrong() {
    let relay = told();
    for program in ["codex", "gemini"] {
        let mut command = ask(relay.port, &["hook", program]);
        command
            .env("RELAY_AGENT", "nobody")
            .write_stdin(event("SessionStart").to_string());
        let refused = "relay hook: unknown role \"nobody\"; known roles: pm, dev-a, dev-b\n";
        command.assert().code(0).stdout("").stderr(refused);
    }
}

#[test]
fn what_is_wrong_with_something_else_than_the_agent_is_told_without_advice_about_that() {
    let closed = Relay::start_with(&["--token", "0123456789abcdef"], &[]);
    let wanted = format!(
        "relay on 127.0.0.1:{} wants its token; give --token (or RELAY_TOKEN)",
        closed.port
    );
    let open = told();
    let nameless = "nothing says which program it is; accepted: \"session_id\" in the event, or ?process=";
    let mut of_closed = hook(&closed, PROCESS, &event("SessionStart"));
    let mut of_nobody = hook(&open, PROCESS, &json!({"hook_event_name": "SessionStart"}));
    of_nobody.env("RELAY_AGENT", "").env_remove("CLAUDE_PID");
    for (command, reason) in [(&mut of_closed, &*wanted), (&mut of_nobody, nameless)] {
        let said = command.assert().code(0).stderr(format!("relay hook: {reason}\n"));
        let said: Value = serde_json::from_str(&stdout_of(&said)).expect("JSON");
        let expected = format!("relay shows this session no messages: {reason}");
        assert_eq!(said, json!({"systemMessage": expected}));
    }
}

//! What `--json` prints of texts that could steer a terminal, by whatever command.

use std::io::{BufRead as _, BufReader};

use super::hold::sent;
use super::*;
use crate::cli::desk::Desk;

/// Steers a terminal, turns text around, and cannot be seen.
const BODY: &str = "\u{9b}2J\u{202e}\u{e0041}";

/// The subcommands that have `--json`, as the manual names them.
fn with_json(desk: &Desk) -> Vec<String> {
    let pages = desk.home.join("pages");
    let path = pages.to_str().expect("it is text");
    desk.relay(&["man", path]).assert().code(0);
    let pages = pages.read_dir().expect("it is there").flatten();
    let has_json = pages.filter_map(|page| {
        let text = std::fs::read_to_string(page.path()).expect("it is text");
        let name = page.file_name().into_string().expect("it is text");
        let name = name.strip_prefix("relay-")?.strip_suffix(".1")?.to_owned();
        text.contains("\\-\\-json").then_some(name)
    });
    let mut names: Vec<String> = has_json.collect();
    // What is held is let pass later, what is there is taken, and in the end there is nobody to ask.
    names.sort_by_cached_key(|name| {
        let rank = ["", "read", "stop"].iter().position(|last| last == name);
        (name != "hold", rank, name.clone())
    });
    names
}

/// What a subcommand is called with, where something of [`BODY`] is to be printed if it prints any text; `id` is that of a message.
fn arguments<'a>(name: &str, id: &'a str) -> Vec<&'a str> {
    match name {
        "read" | "peek" | "wait" | "hold" | "pending" | "flush" | "status" | "agents" | "groups"
        | "channels" | "key" | "stop" | "doctor" | "config" => vec![],
        "send" => vec!["pm", BODY],
        "reply" => vec![id, BODY],
        "show" | "trace" | "allow" | "drop" => vec![id],
        "mode" | "retire" => vec!["dev-a"],
        "redrive" => vec!["--list"],
        "spawn" => vec!["w1", "--cli", "claude", "--task", BODY],
        "release" | "logs" => vec!["w1"],
        "register" => vec!["tester", "--role", "reviewer"],
        "group-make" => vec!["crew", "--description", BODY],
        "group-join" | "group-leave" => vec!["crew", "pm"],
        "channel-make" => vec!["build", "pm", "--topic", BODY],
        "channel-join" | "channel-leave" => vec!["build", "dev-b"],
        "group-remove" => vec!["crew"],
        "channel-remove" => vec!["build"],
        other => panic!("what is {other} to be called with?"),
    }
}

#[test]
fn nothing_that_a_command_prints_as_json_can_steer_the_terminal() {
    let relay = told();
    let desk = Desk::new();
    let port = relay.port.to_string();
    for _ in 0..3 {
        sent(&relay, "dev-b", "user", BODY);
    }
    ask(relay.port, &["hold", "dev-b"]).assert().code(0);
    let id = sent(&relay, "dev-b", "pm", BODY);
    let escaped = r"\u009b2J\u202e\udb40\udc41";
    let names = with_json(&desk);
    assert!(names.len() > 30, "{names:?}");
    for name in names.iter().filter(|name| *name != "tail") {
        let words = name.split('-').chain(arguments(name, &id)).chain(["--json"]);
        let called = desk
            .relay(&words.collect::<Vec<_>>())
            .env("RELAY_PORT", &port)
            .assert();
        let shown = stdout_of(&called);
        assert!(
            !shown.contains(['\u{9b}', '\u{202e}', '\u{e0041}']),
            "{name}: {shown:?}"
        );
        if ["read", "wait", "peek", "show", "hold"].contains(&name.as_str()) {
            assert!(shown.contains(escaped), "{name}: {shown}");
        }
    }
}

#[test]
fn nothing_that_tail_prints_as_json_can_steer_the_terminal() {
    let relay = told();
    let mut tail = begin(relay.port, &["tail", "--json"], Stdio::piped());
    let stdout = BufReader::new(tail.stdout.take().expect("it is piped"));
    let first = std::thread::spawn(move || stdout.lines().next().expect("a line").expect("it is text"));
    until("an event", || {
        sent(&relay, "dev-b", "pm", BODY);
        first.is_finished()
    });
    tail.kill().expect("it runs");
    tail.wait().expect("it is a child of this test");
    let line = first.join().expect("it has read");
    assert!(line.contains(r"\u009b2J\u202e"), "{line}");
    assert!(!line.contains(['\u{9b}', '\u{202e}', '\u{e0041}']), "{line:?}");
}

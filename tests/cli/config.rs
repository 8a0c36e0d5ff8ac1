//! `relay config`: what the commands would use here.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::*;

fn config(directory: &Path, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = relay(&["config"]);
    command
        .args(arguments)
        .current_dir(directory)
        .env("XDG_DATA_HOME", directory.join("data"));
    command
}

fn json_of(command: &mut assert_cmd::Command) -> Value {
    let assert = command.arg("--json").assert().code(0).stderr("");
    serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
}

/// A directory that a relay's agent works in, of which nothing is known but that.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Whatever is above it does not count.
    for name in [".relay/identities", ".thrum"] {
        fs::create_dir_all(directory.path().join(name)).expect("a directory");
    }
    directory
}

#[test]
fn where_nothing_is_said_the_defaults_are_told() {
    let directory = directory();
    let data = directory.path().join("data/relay");
    let text = format!(
        "relay    127.0.0.1:7331, found by its port\n\
         project  not known before relay is asked\n\
         agent    nobody says; --agent or RELAY_AGENT does\n\
         token    none\n\
         data     {}\n",
        data.display()
    );
    config(directory.path(), &[])
        .assert()
        .code(0)
        .stdout(text)
        .stderr("");
    let told = json_of(&mut config(directory.path(), &[]));
    let relay = json!({"at": "127.0.0.1:7331", "source": "port"});
    assert_eq!(told, json!({"relay": relay, "token": false, "data": data}));
}

#[test]
fn what_is_said_is_told_with_what_says_it() {
    let directory = directory();
    let file = directory.path().join(".relay/config.json");
    fs::write(&file, r#"{"project": "web"}"#).expect("a file");
    let pm = directory.path().join(".relay/identities/pm.json");
    fs::write(pm, r#"{"name": "pm", "role": "director"}"#).expect("a file");
    let mut command = config(directory.path(), &[]);
    let told = json_of(command.env("RELAY_TOKEN", "a-secret-of-20-chars"));
    let data = directory.path().join("data/relay");
    let at = data.join("projects/web/relay.sock");
    let expected = json!({
        "relay": {"at": at, "source": "config", "file": file},
        "project": "web", "agent": "pm (role director)", "token": true, "data": data,
    });
    assert_eq!(told, expected);
    let mut named = config(directory.path(), &["--port", "9"]);
    let told = json_of(named.env("RELAY_AGENT", "qa"));
    assert_eq!(told["relay"], json!({"at": "127.0.0.1:9", "source": "port"}));
    assert_eq!(told["agent"], "qa");
    let mut by_variable = config(directory.path(), &[]);
    let told = json_of(by_variable.env("RELAY_PROJECT", "api"));
    assert_eq!(
        (&told["relay"]["source"], &told["project"]),
        (&json!("RELAY_PROJECT"), &json!("api"))
    );
}

#[test]
fn what_is_said_wrongly_is_an_error() {
    let directory = directory();
    let refused = |command: &mut assert_cmd::Command, reason: &str| {
        let assert = command.assert().code(1).stdout("");
        assert.stderr(contains("relay config: ").and(contains(reason)));
    };
    let mut command = config(directory.path(), &[]);
    refused(command.env("RELAY_AGENT", "a b"), "RELAY_AGENT");
    let mut command = config(directory.path(), &[]);
    refused(command.env("RELAY_PROJECT", "a b"), "RELAY_PROJECT");
    fs::write(directory.path().join(".relay/config.json"), "[]").expect("a file");
    refused(&mut config(directory.path(), &[]), ".relay/config.json");
}

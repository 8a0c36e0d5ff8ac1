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
         data     {}\n\
         workers  claude, codex, gemini, droid, opencode in {}; no .relay/config.json\n",
        data.display(),
        directory.path().display()
    );
    config(directory.path(), &[])
        .assert()
        .code(0)
        .stdout(text)
        .stderr("");
    let told = json_of(&mut config(directory.path(), &[]));
    let relay = json!({"at": "127.0.0.1:7331", "source": "port"});
    let clis = ["claude", "codex", "gemini", "droid", "opencode"].map(|cli| json!({"cli": cli}));
    let workers = json!({"clis": clis, "directories": [directory.path()]});
    assert_eq!(
        told,
        json!({"relay": relay, "token": false, "data": data, "workers": workers})
    );
}

#[test]
fn what_is_said_is_told_with_what_says_it() {
    let directory = directory();
    let file = directory.path().join(".relay/config.json");
    fs::write(&file, r#"{"project": "web"}"#).expect("a file");
    let pm = directory.path().join(".relay/identities/pm.json");
    fs::write(pm, r#"{"name": "pm", "role": "director"}"#).expect("a file");
    let mut command = config(directory.path(), &[]);
    let mut told = json_of(command.env("RELAY_TOKEN", "a-secret-of-20-chars"));
    assert_eq!(told["workers"].take()["file"], json!(file));
    let data = directory.path().join("data/relay");
    let at = data.join("projects/web/relay.sock");
    let expected = json!({
        "relay": {"at": at, "source": "config", "file": file},
        "project": "web", "agent": "pm (role director)", "token": true, "data": data, "workers": null,
    });
    assert_eq!(told, expected);
    let mut named = config(directory.path(), &["--port", "9"]);
    let told = json_of(named.env("RELAY_AGENT", "qa"));
    assert_eq!(told["relay"], json!({"at": "127.0.0.1:9", "source": "port"}));
    assert_eq!(
        (&told["agent"], &told["project"]),
        (&json!("qa"), &Value::Null),
        "no file is asked"
    );
    let mut by_socket = config(directory.path(), &[]);
    let told = json_of(by_socket.env("RELAY_SOCKET", data.join("projects/api/relay.sock")));
    assert_eq!(
        (&told["relay"]["source"], &told["project"]),
        (&json!("RELAY_SOCKET"), &json!("api")),
        "whose socket it is"
    );
    let mut by_variable = config(directory.path(), &[]);
    let told = json_of(by_variable.env("RELAY_PROJECT", "api"));
    assert_eq!(
        (&told["relay"]["source"], &told["project"]),
        (&json!("RELAY_PROJECT"), &json!("api"))
    );
    let both = json!({"project": "web", "socketPath": data.join("projects/api/relay.sock")});
    fs::write(&file, both.to_string()).expect("a file");
    let told = json_of(&mut config(directory.path(), &[]));
    assert_eq!(
        (&told["relay"]["source"], &told["project"]),
        (&json!("config"), &json!("web")),
        "the agent's, and not the one whose socket it is"
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

#[test]
fn how_workers_are_started_is_told_without_what_may_be_a_secret() {
    let directory = directory();
    let file = directory.path().join(".relay/config.json");
    let said = json!({"workers": {
        "directories": ["../other"],
        "claude": {"command": ["claude", "-x"], "env": {"KEY": "secret"}},
        "codex": {"arguments": ["{prompt}"]},
    }});
    fs::write(&file, said.to_string()).expect("a file");
    let top = directory.path().display();
    let text = format!(
        "workers  claude (own command, env), codex (own arguments), gemini, droid, opencode in {top}, {top}/../other; as {} says\n",
        file.display()
    );
    config(directory.path(), &[])
        .assert()
        .code(0)
        .stdout(contains(text));
    let told = json_of(&mut config(directory.path(), &[]));
    let expected = json!({
        "file": file,
        "clis": [
            {"cli": "claude", "command": ["claude", "-x"], "env": ["KEY"]},
            {"cli": "codex", "arguments": ["{prompt}"]},
            {"cli": "gemini"}, {"cli": "droid"}, {"cli": "opencode"},
        ],
        "directories": [directory.path(), directory.path().join("../other")],
    });
    assert_eq!(told["workers"], expected);
    assert!(!told.to_string().contains("secret"));
    // All else is told also where this is wrong.
    fs::write(&file, r#"{"workers": {"cursor": {}}}"#).expect("a file");
    let flaw = format!(
        "{}: workers has \"cursor\"; accepted: directories, claude, codex, gemini, droid, opencode",
        file.display()
    );
    let assert = config(directory.path(), &[]).assert().code(1).stderr("");
    assert.stdout(contains("token    none").and(contains(format!("workers  {flaw}\n"))));
    let assert = config(directory.path(), &["--json"]).assert().code(1).stderr("");
    let told: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    assert_eq!(told["workers"], json!({"file": file, "error": flaw}));
}

#[test]
fn what_says_nothing_or_too_much_is_told_as_what_is_not_known() {
    let directory = directory();
    let identity = |name: &str| directory.path().join(format!(".relay/identities/{name}.json"));
    for name in ["pm", "qa"] {
        let text = json!({"name": name, "role": "tester"}).to_string();
        fs::write(identity(name), text).expect("a file");
    }
    let mut command = config(directory.path(), &[]);
    for variable in [
        "HOME",
        "RELAY_AGENT",
        "RELAY_PROJECT",
        "RELAY_SOCKET",
        "RELAY_TOKEN",
        "XDG_DATA_HOME",
    ] {
        command.env(variable, "");
    }
    let told = "relay    127.0.0.1:7331, found by its port\n\
                project  not known before relay is asked\n\
                agent    nobody says; --agent or RELAY_AGENT does\n\
                token    none\n\
                data     nowhere: neither XDG_DATA_HOME nor HOME is set\n";
    command.assert().code(0).stdout(contains(told)).stderr("");
    fs::remove_file(identity("qa")).expect("it is there");
    fs::write(identity("pm"), "{").expect("a file");
    let broken = contains("relay config: cannot take ").and(contains("pm.json"));
    config(directory.path(), &[])
        .assert()
        .code(1)
        .stdout("")
        .stderr(broken);
}

#[test]
fn a_file_that_cannot_be_read_is_told_of_and_one_that_changes_nothing_is_as_none() {
    let directory = directory();
    let file = directory.path().join(".relay/config.json");
    fs::write(&file, r#"{"workers": {"claude": {}, "codex": {"env": {}}}}"#).expect("a file");
    let text = format!(
        "workers  claude, codex, gemini, droid, opencode in {}; as {} says\n",
        directory.path().display(),
        file.display()
    );
    config(directory.path(), &[])
        .assert()
        .code(0)
        .stdout(contains(text));
    fs::remove_file(&file).expect("it is there");
    fs::create_dir(&file).expect("a directory");
    let flaw = format!("cannot read {}: it is no file", file.display());
    // Where a relay is named no file is asked which it is.
    let assert = config(directory.path(), &["--port", "9"])
        .assert()
        .code(1)
        .stderr("");
    assert.stdout(contains(format!("workers  {flaw}\n")));
    let assert = config(directory.path(), &["--port", "9", "--json"])
        .assert()
        .code(1);
    let told: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    assert_eq!(told["workers"], json!({"file": file, "error": flaw}));
}

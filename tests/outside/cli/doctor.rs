//! `relay doctor`: what it finds out about each editor, and what it says is to be done.

mod entries;
mod hooks;
mod off;
mod several;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use super::desk::{Desk, RELAY};
use super::*;

/// An address by which this machine is reached, and which is none of those by which relay knows it.
const ELSEWHERE: &str = "0.0.0.0";

/// Puts a program on PATH that tells a version, or does what else a script says.
fn put_program(desk: &Desk, name: &str, script: &str) {
    let program = desk.home.join("bin").join(name);
    desk.write(&program, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is one's own");
}

/// What is said of one editor.
fn report(desk: &Desk, editor: &str, code: i32) -> Value {
    let told = desk.relay(&["doctor", "--json"]).assert().code(code).stderr("");
    let told: Value = serde_json::from_slice(&told.get_output().stdout).expect("it is JSON");
    let editors = told["editors"].as_array().expect("an array");
    assert_eq!(editors.len(), 8);
    let found = editors.iter().find(|report| report["editor"] == editor);
    found.expect("it is there").clone()
}

/// What is reported of an entry at whose address this relay answers.
fn reached(file: &Path, url: &str) -> Value {
    json!({"file": file, "leads_to": url, "reachable": VERSION, "error": null, "untried": null})
}

fn install(desk: &Desk, editor: &str, port: u16) {
    let port = port.to_string();
    let arguments = ["install", "--editor", editor, "--port", &port];
    desk.relay(&arguments).assert().code(0);
}

/// Has Gemini CLI trust a folder, or not.
fn answer_gemini(desk: &Desk, folder: &Path, answer: &str) {
    let folders = desk.home.join(".gemini/trustedFolders.json");
    desk.write(
        &folders,
        &format!("// asked\n{}", json!({folder.to_str().expect("text"): answer})),
    );
}

#[test]
fn where_nothing_is_connected_it_says_what_could_be() {
    let desk = Desk::new();
    let absent = "neither found nor connected: Claude Code, Codex, Gemini CLI, OpenCode, Cursor, VS Code, Windsurf, Zed\n";
    desk.relay(&["doctor"]).assert().code(3).stdout(absent).stderr("");
    put_program(&desk, "gemini", "echo 0.61.0");
    let text = format!(
        "Gemini CLI: not connected; connect it with: {RELAY} install --editor gemini\n  program     {} (0.61.0)\n\
         neither found nor connected: Claude Code, Codex, OpenCode, Cursor, VS Code, Windsurf, Zed\n",
        desk.home.join("bin/gemini").display()
    );
    desk.relay(&["doctor"]).assert().code(3).stdout(text).stderr("");
}

#[test]
fn what_is_connected_to_a_relay_that_runs_is_well_until_it_stops() {
    let desk = Desk::new();
    let relay = Relay::start();
    put_program(&desk, "claude", "echo '2.1.330 (Claude Code)'");
    install(&desk, "claude", relay.port);
    let file = desk.project.join(".mcp.json");
    let url = format!("http://localhost:{}/sse?agent=${{RELAY_AGENT:-}}", relay.port);
    let program = desk.home.join("bin/claude");
    let expected = json!({
        "editor": "claude", "name": "Claude Code",
        "found": {"program": program, "version": "2.1.330 (Claude Code)"},
        "configured": [reached(&file, &url)],
        "hooks": "current", "trusted": null, "broken": [], "to_do": [],
    });
    assert_eq!(report(&desk, "claude", 0), expected);
    let text = format!(
        "Claude Code: well\n  program     {} (2.1.330 (Claude Code))\n  configured  {}: {url}\n  reachable   yes, relay {VERSION}\n  hooks       current\n\
         neither found nor connected: Codex, Gemini CLI, OpenCode, Cursor, VS Code, Windsurf, Zed\n",
        program.display(),
        file.display()
    );
    desk.relay(&["doctor"]).assert().code(0).stdout(text).stderr("");

    let port = relay.port;
    drop(relay);
    let report = report(&desk, "claude", 1);
    assert_eq!(report["configured"][0]["reachable"], Value::Null);
    let to_do = format!(
        "{}: relay is not running on localhost:{port}; start it with: {RELAY} serve --port {port}",
        file.display()
    );
    assert_eq!(report["to_do"], json!([to_do]));
}

#[test]
fn gemini_cli_trusts_the_folders_of_which_its_person_has_said_so() {
    let desk = Desk::new();
    let relay = Relay::start();
    let told = contains("Gemini CLI runs servers and a project's hooks only in a folder that you trust: ");
    let port = relay.port.to_string();
    let install = ["install", "--editor", "gemini", "--port", &port];
    desk.relay(&install).assert().code(0).stderr(told.clone());
    desk.relay(&install).assert().code(0).stderr(told.not());
    let said = report(&desk, "gemini", 1);
    assert_eq!(said["trusted"], json!(false));
    let to_do = said["to_do"][0].as_str().expect("something is to be done");
    assert!(
        to_do.starts_with("start gemini here, and trust the folder when it asks"),
        "{to_do}"
    );
    answer_gemini(&desk, &desk.project.join("below"), "TRUST_PARENT");
    assert_eq!(report(&desk, "gemini", 0)["trusted"], json!(true));
    answer_gemini(&desk, &desk.project, "DO_NOT_TRUST");
    assert_eq!(report(&desk, "gemini", 1)["trusted"], json!(false));
    desk.relay(&["doctor"])
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .assert()
        .code(0)
        .stdout(contains("  trusted     yes\n"));
    let off = json!({"security": {"folderTrust": {"enabled": false}}});
    desk.write(&desk.home.join(".gemini/settings.json"), &off.to_string());
    assert_eq!(report(&desk, "gemini", 0)["trusted"], Value::Null);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let desk = Desk::new();
    let file = desk.project.join("opencode.json");
    desk.write(&file, "{\"mcp\": }");
    let broken = format!("{}: line 1, column 9: unexpected close brace", file.display());
    let report = report(&desk, "opencode", 1);
    assert_eq!(report["broken"], json!([broken]));
    assert_eq!(report["to_do"], json!([format!("{broken}; mend that")]));
}

#[test]
fn a_program_that_does_not_tell_its_version_holds_up_nothing() {
    let desk = Desk::new();
    let (started, shell) = (
        desk.home.join("started"),
        r#"echo $$ >"$HOME/started"; while :; do :; done"#,
    );
    put_program(&desk, "zed", shell);
    let report = report(&desk, "zed", 3);
    assert_eq!(
        report["found"],
        json!({"program": desk.home.join("bin/zed"), "version": null})
    );
    let process = fs::read_to_string(started).expect("it was asked");
    let process = Path::new("/proc").join(process.trim());
    until("it is ended", || !process.exists());
}

#[test]
fn of_two_editors_one_that_is_not_well_decides_wherever_it_stands() {
    let desk = Desk::new();
    let relay = Relay::start();
    let editors = [
        ("opencode", desk.project.join("opencode.json")),
        ("cursor", desk.project.join(".cursor/mcp.json")),
    ];
    for (editor, _) in &editors {
        install(&desk, editor, relay.port);
    }
    desk.relay(&["doctor"]).assert().code(0);
    for (editor, file) in &editors {
        let well = fs::read_to_string(file).expect("it is there");
        desk.write(
            file,
            &well.replace(&relay.port.to_string(), &free_port().to_string()),
        );
        for (other, _) in &editors {
            let to_do = report(&desk, other, 1)["to_do"]
                .as_array()
                .expect("an array")
                .len();
            assert_eq!(to_do, usize::from(other == editor), "{other}");
        }
        desk.write(file, &well);
        desk.relay(&["doctor"]).assert().code(0);
    }
}

#[test]
fn of_what_a_program_tells_the_first_line_is_its_version_unless_it_fails() {
    let desk = Desk::new();
    for (editor, name, script, version) in [
        // As VS Code has it.
        (
            "vscode",
            "code",
            "echo ' 1.96.2 '; echo fabdb6a; echo x64",
            json!("1.96.2"),
        ),
        ("cursor", "cursor", "echo; echo 1.96.2", Value::Null),
        ("windsurf", "windsurf", "echo 1.96.2; exit 1", Value::Null),
    ] {
        put_program(&desk, name, script);
        let found = report(&desk, editor, 3)["found"].clone();
        let program = desk.home.join("bin").join(name);
        assert_eq!(found, json!({"program": program, "version": version}), "{script}");
    }
    fs::create_dir(desk.home.join("bin/zed")).expect("a directory");
    assert_eq!(report(&desk, "zed", 3)["found"], Value::Null);
}

#[test]
fn gemini_cli_trusts_a_folder_by_another_path_and_as_its_variables_say() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "gemini", relay.port);
    let link = desk.home.join("link");
    std::os::unix::fs::symlink(&desk.project, &link).expect("a link");
    answer_gemini(&desk, &link, "TRUST_FOLDER");
    let project = desk.project.to_str().expect("text").to_owned();
    desk.write(
        &desk.project.join("folders.json"),
        &json!({project: "DO_NOT_TRUST"}).to_string(),
    );
    for (variable, value, is_trusted) in [
        ("GEMINI_RESTRICTED_MODE", "", true),
        ("GEMINI_RESTRICTED_MODE", "true", false),
        ("GEMINI_CLI_TRUST_WORKSPACE", "false", false),
        ("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "", true),
        ("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "folders.json", false),
    ] {
        let said = if is_trusted { "yes" } else { "no" };
        desk.relay(&["doctor"])
            .env(variable, value)
            .assert()
            .code(i32::from(!is_trusted))
            .stdout(contains(format!("  trusted     {said}\n")));
    }
}

#[test]
fn a_program_that_tells_no_version_is_shown_by_its_path() {
    let desk = Desk::new();
    put_program(&desk, "cursor", "exit 1");
    let text = format!(
        "Cursor: not connected; connect it with: {RELAY} install --editor cursor\n  program     {}\n",
        desk.home.join("bin/cursor").display()
    );
    desk.relay(&["doctor"]).assert().code(3).stdout(contains(text));
}

#[test]
fn where_gemini_cli_is_told_to_ask_for_trust_it_is_as_where_nothing_is_said_of_that() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "gemini", relay.port);
    let on = json!({"security": {"folderTrust": {"enabled": true}}});
    desk.write(&desk.home.join(".gemini/settings.json"), &on.to_string());
    assert_eq!(report(&desk, "gemini", 1)["trusted"], json!(false));
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    assert_eq!(report(&desk, "gemini", 0)["trusted"], json!(true));
}

//! `relay doctor`: what it finds out about each editor, and what it says is to be done.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use super::desk::{Desk, RELAY};
use super::*;

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
        "configured": [{"file": file, "leads_to": url, "reachable": VERSION, "error": null}],
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
fn hooks_that_are_missing_or_other_than_an_installation_would_write_are_told() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "gemini", relay.port);
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    assert_eq!(report(&desk, "gemini", 0)["hooks"], "current");
    let file = desk.project.join(".gemini/settings.json");
    let installed = fs::read_to_string(&file).expect("it is there");
    let told = format!("gemini --port {}\"", relay.port);
    let more = installed.replace(
        &told,
        &format!("{} --agent dev-a\", \"timeout\": 5000", &told[..told.len() - 1]),
    );
    assert_ne!(more, installed);
    desk.write(&file, &more);
    assert_eq!(report(&desk, "gemini", 0)["hooks"], "current", "{more}");
    let again = format!("{RELAY} install --editor gemini --port {}", relay.port);
    for (text, hooks, to_do) in [
        (
            installed.replace("\"AfterTool\"", "\"AfterEach\""),
            "drifted",
            format!("bring its hooks up to date with: {again}"),
        ),
        (
            installed.replace(RELAY, "/old/relay"),
            "drifted",
            format!("bring its hooks up to date with: {again}"),
        ),
        (
            installed.replace("\"hooks\": {", "\"others\": {"),
            "missing",
            format!("put its hooks in with: {again}"),
        ),
    ] {
        desk.write(&file, &text);
        let report = report(&desk, "gemini", 1);
        assert_eq!(
            (&report["hooks"], &report["to_do"]),
            (&json!(hooks), &json!([to_do])),
            "{text}"
        );
        // What it says is to be done makes it well.
        let told = to_do.split_once(RELAY).expect("it names a command").1;
        let told: Vec<&str> = told.split_whitespace().collect();
        desk.relay(&told).assert().code(0);
        assert_eq!(self::report(&desk, "gemini", 0)["hooks"], "current");
    }
}

#[test]
fn of_hooks_in_two_files_each_is_looked_at() {
    let desk = Desk::new();
    let relay = Relay::start();
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    let port = relay.port.to_string();
    install(&desk, "gemini", relay.port);
    let everywhere = ["install", "--editor", "gemini", "--global", "--port", &port];
    desk.relay(&everywhere).assert().code(0);
    assert_eq!(report(&desk, "gemini", 0)["hooks"], "current");
    for directory in [&desk.project, &desk.home] {
        let file = directory.join(".gemini/settings.json");
        let installed = fs::read_to_string(&file).expect("it is there");
        desk.write(&file, &installed.replace("\"AfterTool\"", "\"AfterEach\""));
        assert_eq!(report(&desk, "gemini", 1)["hooks"], "drifted", "{file:?}");
        desk.write(&file, &installed);
    }
}

#[test]
fn an_entry_that_sends_no_token_to_a_relay_that_wants_one_is_not_well_until_it_does() {
    let desk = Desk::new();
    let secret = "a-token-of-some-length";
    let relay = Relay::start_with(&[], &[("RELAY_TOKEN", secret)]);
    let doctor = |arguments: &[&str], code: i32| {
        let told = desk
            .relay(arguments)
            .env("RELAY_TOKEN", secret)
            .assert()
            .code(code);
        String::from_utf8_lossy(&told.get_output().stdout).into_owned()
    };
    for (editor, file, what) in [
        (
            "claude",
            desk.project.join(".mcp.json"),
            "with that in RELAY_TOKEN, have it sent by",
        ),
        (
            "codex",
            desk.home.join(".codex/config.toml"),
            "with that in RELAY_TOKEN, have it sent by",
        ),
        (
            "vscode",
            desk.project.join(".vscode/mcp.json"),
            "give it the header Authorization yourself, or have the bridge send it by",
        ),
    ] {
        let port = relay.port.to_string();
        let install = ["install", "--editor", editor, "--no-hooks", "--port", &port];
        desk.relay(&install).assert().code(0);
        let wanted =
            format!("relay on localhost:{port} wants its token, and this entry sends none; {what}: ");
        let told = doctor(&["doctor"], 1);
        let line = told
            .lines()
            .find(|line| line.contains(&wanted))
            .unwrap_or_else(|| panic!("{told}"));
        assert!(
            line.starts_with(&format!("  to do       {}: ", file.display())),
            "{told}"
        );
        assert!(told.contains("  reachable   no\n"), "{told}");
        // What it says is to be done makes that well.
        let command = line.split_once(&wanted).expect("it is there").1;
        let command: Vec<&str> = command.split(' ').skip(1).collect();
        doctor(&command, 0);
        let told = doctor(&["doctor"], if editor == "codex" { 1 } else { 0 });
        assert!(
            told.contains("  reachable   yes, ") && !told.contains("wants its token"),
            "{told}"
        );
        desk.relay(&["uninstall"]).assert().code(0);
    }
    let other = json!({"type": "http", "url": format!("http://localhost:{}/mcp", relay.port), "headers": {"Authorization": "Bearer another-token-than-that"}});
    desk.write(
        &desk.project.join(".mcp.json"),
        &json!({"mcpServers": {"relay": other}}).to_string(),
    );
    let told = doctor(&["doctor"], 1);
    assert!(
        told.contains("has another token than the one in this entry; with that in RELAY_TOKEN, "),
        "{told}"
    );
}

#[test]
fn a_plugin_that_is_on_beside_what_is_installed_is_named() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "claude", relay.port);
    let settings = desk.home.join(".claude/settings.json");
    let plugins = json!({"enabledPlugins": {"relay@here": true, "other@here": true, "relay@off": false}});
    desk.write(&settings, &plugins.to_string());
    let to_do = format!(
        "its plugin relay@here is on as well, and brings the same tools and hooks; take one of the two out: \
         claude plugin disable relay@here, or {RELAY} uninstall --editor claude"
    );
    assert_eq!(report(&desk, "claude", 1)["to_do"], json!([to_do]));
    // Its hooks are there where those of the settings are not.
    let port = relay.port.to_string();
    let arguments = ["install", "--editor", "claude", "--no-hooks", "--port", &port];
    desk.relay(&arguments).assert().code(0);
    assert_eq!(report(&desk, "claude", 1)["to_do"], json!([to_do]));
    desk.write(
        &desk.project.join(".claude/settings.json"),
        r#"{"enabledPlugins": {"relay@here": false}}"#,
    );
    assert_eq!(report(&desk, "claude", 1)["hooks"], "missing");
    desk.relay(&["install", "--editor", "claude", "--port", &port])
        .assert()
        .code(0);
    assert_eq!(report(&desk, "claude", 0)["to_do"], json!([]));
}

#[test]
fn where_claude_codes_settings_turn_all_hooks_off_it_says_so() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "claude", relay.port);
    let (users, projects) = (
        desk.home.join(".claude/settings.json"),
        desk.project.join(".claude/settings.json"),
    );
    desk.write(&users, r#"{"disableAllHooks": true}"#);
    let to_do = |file: &Path| {
        json!([format!(
            "{}: it says disableAllHooks, so that no hook is run; take that out",
            file.display()
        )])
    };
    assert_eq!(report(&desk, "claude", 1)["to_do"], to_do(&users));
    // What a project's file says counts for more.
    desk.write(&projects, r#"{"disableAllHooks": false}"#);
    assert_eq!(report(&desk, "claude", 0)["to_do"], json!([]));
    desk.write(&projects, r#"{"disableAllHooks": true}"#);
    assert_eq!(report(&desk, "claude", 1)["to_do"], to_do(&projects));
}

#[test]
fn where_claude_code_asks_before_each_of_relays_tools_it_says_so() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "claude", relay.port);
    let settings = desk.project.join(".claude/settings.local.json");
    let installed = fs::read_to_string(&settings).expect("it is there");
    let rule = "\"mcp__relay\"";
    for (instead, asks) in [
        ("\"mcp__relay__*\"", false),
        // What its person allows singly is all that it wants.
        ("\"mcp__relay__post_message\"", false),
        (
            "\"Bash\"], \"defaultMode\": \"bypassPermissions\", \"deny\": [\"Bash\"",
            false,
        ),
        ("\"Bash\"], \"defaultMode\": \"plan\", \"deny\": [\"Bash\"", true),
        // Claude Code does not heed it among what is allowed.
        ("\"mcp__*__post_message\"", true),
        ("\"mcp__relayed\"", true),
    ] {
        desk.write(&settings, &installed.replace(rule, instead));
        let said = report(&desk, "claude", i32::from(asks));
        let to_do = format!(
            "it asks before each of relay's tools; have them allowed by: {RELAY} install --editor claude --port {}",
            relay.port
        );
        let expected = if asks { json!([to_do]) } else { json!([]) };
        assert_eq!(said["to_do"], expected, "{instead}");
    }
    install(&desk, "claude", relay.port);
    assert_eq!(report(&desk, "claude", 0)["to_do"], json!([]));
}

#[test]
fn where_claude_code_is_denied_relays_tools_or_asks_for_them_it_says_so() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "claude", relay.port);
    let denies = "denies RULE in permissions.deny, so that no such tool is called";
    let asks = "asks for RULE in permissions.ask, so that it asks before each such tool";
    for file in [
        desk.home.join(".claude/settings.json"),
        desk.project.join(".claude/settings.json"),
    ] {
        for (list, rule, does) in [
            ("deny", "mcp__relay", Some(denies)),
            ("deny", "mcp__relay__read_messages", Some(denies)),
            ("deny", "mcp__*", Some(denies)),
            ("deny", "mcp__*__read_messages", Some(denies)),
            ("deny", "mcp__relayed", None),
            // Claude Code does not heed it.
            ("deny", "mcp__relay__read_messages(*)", None),
            // That is a decision.
            ("deny", "mcp__relay__relay_spawn", None),
            ("ask", "mcp__relay", Some(asks)),
            ("ask", "mcp__relay__*", Some(asks)),
            ("ask", "mcp__relay__post_message", Some(asks)),
            ("ask", "mcp__relay__relay_spawn", None),
        ] {
            let mut rules = json!({"permissions": {}});
            rules["permissions"][list] = json!([rule]);
            desk.write(&file, &rules.to_string());
            let said = report(&desk, "claude", i32::from(does.is_some()));
            let to_do = does.map(|does| {
                let does = does.replace("RULE", rule);
                format!("{}: it {does}; take that out", file.display())
            });
            assert_eq!(said["to_do"], json!(Vec::from_iter(to_do)), "{list} {rule}");
        }
        fs::remove_file(file).expect("it is there");
    }
}

#[test]
fn of_opencode_its_plugin_is_looked_at() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "opencode", relay.port);
    assert_eq!(report(&desk, "opencode", 0)["hooks"], "current");
    let plugin = desk.project.join(".opencode/plugin/relay.js");
    let installed = fs::read_to_string(&plugin).expect("it is there");
    let again = format!("{RELAY} install --editor opencode --port {}", relay.port);
    for (text, hooks, to_do) in [
        (
            format!("{installed}\n"),
            "drifted",
            "bring its hooks up to date with",
        ),
        ("// mine".to_owned(), "missing", "put its hooks in with"),
    ] {
        desk.write(&plugin, &text);
        let report = report(&desk, "opencode", 1);
        let to_do = format!("{to_do}: {again}");
        assert_eq!(
            (&report["hooks"], &report["to_do"]),
            (&json!(hooks), &json!([to_do])),
            "{text}"
        );
        install(&desk, "opencode", relay.port);
        assert_eq!(self::report(&desk, "opencode", 0)["hooks"], "current");
    }
}

#[test]
fn codex_trusts_hooks_whose_hashes_it_has() {
    let desk = Desk::new();
    let relay = Relay::start();
    let hooks = desk.home.join(".codex/hooks.json");
    desk.write(
        &hooks,
        "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"make\"}]}]}}",
    );
    install(&desk, "codex", relay.port);
    let config = desk.home.join(".codex/config.toml");
    let installed = fs::read_to_string(&config).expect("it is there");
    let said = report(&desk, "codex", 1);
    assert_eq!(said["trusted"], json!(false));
    assert_eq!(
        said["to_do"],
        json!(["start codex, and trust all hooks when it asks"])
    );
    let state = |events: &[&str]| -> String {
        let state = |event: &&str| {
            format!(
                "\n[hooks.state.\"{}:{event}:0\"]\ntrusted_hash = \"sha256:0\"\n",
                hooks.display()
            )
        };
        events.iter().map(state).collect()
    };
    let all = [
        "session_start:0",
        "user_prompt_submit:0",
        "post_tool_use:0",
        "stop:1",
        "session_end:0",
    ];
    desk.write(&config, &format!("{installed}{}", state(&all)));
    assert_eq!(report(&desk, "codex", 0)["trusted"], json!(true));
    let others = [
        "session_start:0",
        "user_prompt_submit:0",
        "post_tool_use:0",
        "stop:0",
        "session_end:0",
    ];
    desk.write(&config, &format!("{installed}{}", state(&others)));
    assert_eq!(report(&desk, "codex", 1)["trusted"], json!(false));
    // Of an event that its person has divided, wherever the parts stand.
    let mut divided = desk.json(&hooks);
    let stop = &mut divided["hooks"]["Stop"];
    let (theirs, mut own) = (stop[0].clone(), stop[1].clone());
    own["matcher"] = json!("x");
    *stop = json!([stop[1], theirs, own]);
    desk.write(&hooks, &divided.to_string());
    let parts = [
        "session_start:0",
        "user_prompt_submit:0",
        "post_tool_use:0",
        "stop:0",
        "stop:2",
        "session_end:0",
    ];
    desk.write(&config, &format!("{installed}{}", state(&parts)));
    assert_eq!(report(&desk, "codex", 0)["trusted"], json!(true));
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
    let shell = "while :; do :; done";
    put_program(&desk, "zed", shell);
    let report = report(&desk, "zed", 3);
    assert_eq!(
        report["found"],
        json!({"program": desk.home.join("bin/zed"), "version": null})
    );
}

#[test]
fn a_bridge_is_well_where_it_finds_its_relay() {
    let desk = Desk::new();
    let relay = Relay::start();
    let port = relay.port.to_string();
    let arguments = [
        "install",
        "--editor",
        "cursor",
        "--transport",
        "stdio",
        "--port",
        &port,
    ];
    desk.relay(&arguments).assert().code(0);
    let said = report(&desk, "cursor", 0);
    let leads_to = format!("{RELAY} mcp --port {port}");
    assert_eq!(said["configured"][0]["leads_to"], json!(leads_to));
    assert_eq!(said["configured"][0]["reachable"], json!(VERSION));
}

#[test]
fn an_entry_that_its_editor_does_not_take_is_told_with_what_writes_it_anew() {
    let desk = Desk::new();
    let relay = Relay::start();
    let url = format!("http://localhost:{}/mcp?agent=", relay.port);
    let (codex, cursor) = (
        desk.home.join(".codex/config.toml"),
        desk.project.join(".cursor/mcp.json"),
    );
    let again = |editor: &str| format!("{RELAY} install --editor {editor} --port {}", relay.port);
    for (text, flaw) in [
        (
            format!("[mcp_servers.relay]\nurl = '{url}'\n[mcp_servers.relay.env]\nA = 'b'\n"),
            "it has an address, and env belongs to a command",
        ),
        (
            format!("[mcp_servers.relay]\nurl = '{url}'\nenv.A = 'b'\n"),
            "it has an address, and env belongs to a command",
        ),
        (
            format!(
                "[mcp_servers.relay]\nurl = '{url}'\nbearer_token_env_var = 'X'\nhttp_headers = {{ authorization = 'y' }}\n"
            ),
            "it sends Authorization beside what bearer_token_env_var has sent",
        ),
    ] {
        desk.write(&codex, &text);
        let said = report(&desk, "codex", 1);
        let line = format!(
            "{}: {flaw}; write it anew by: {}",
            codex.display(),
            again("codex")
        );
        assert_eq!(said["to_do"][0], json!(line), "{text}");
        let entry =
            json!({"command": RELAY, "args": ["mcp", "--port", relay.port.to_string()], "headers": {}});
        desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
        let flaw = "it has a command, and headers belongs to an address";
        let line = format!(
            "{}: {flaw}; write it anew by: {}",
            cursor.display(),
            again("cursor")
        );
        assert_eq!(report(&desk, "cursor", 1)["to_do"], json!([line]));
        for editor in ["codex", "cursor"] {
            install(&desk, editor, relay.port);
            let said = report(&desk, editor, 1);
            let to_do = said["to_do"].to_string();
            assert!(!to_do.contains("write it anew"), "{to_do}");
        }
        fs::remove_dir_all(desk.home.join(".codex")).expect("it is there");
    }
}

#[test]
fn of_two_entries_of_an_editor_each_is_told_that_it_does_not_take() {
    let desk = Desk::new();
    let relay = Relay::start();
    let entry = json!({"command": RELAY, "args": ["mcp", "--port", relay.port.to_string()], "headers": {}});
    let files = [&desk.project, &desk.home].map(|place| place.join(".cursor/mcp.json"));
    for file in &files {
        desk.write(file, &json!({"mcpServers": {"relay": entry}}).to_string());
    }
    let to_do = report(&desk, "cursor", 1)["to_do"].clone();
    let lines = files.iter().zip(["", " --global"]).map(|(file, global)| {
        format!(
            "{}: it has a command, and headers belongs to an address; write it anew by: {RELAY} install --editor cursor{global} --port {}",
            file.display(),
            relay.port
        )
    });
    assert_eq!(to_do, json!(lines.collect::<Vec<_>>()));
}

#[test]
fn an_entry_is_well_that_its_own_editor_takes_and_others_do_not() {
    let desk = Desk::new();
    let relay = Relay::start();
    let entry = json!({
        "type": "stdio", "command": RELAY, "args": ["mcp", "--port", relay.port.to_string()], "env": {"N": 5},
    });
    let vscode = desk.project.join(".vscode/mcp.json");
    desk.write(&vscode, &json!({"servers": {"relay": entry}}).to_string());
    assert_eq!(report(&desk, "vscode", 0)["to_do"], json!([]));
    let cursor = desk.project.join(".cursor/mcp.json");
    desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
    let to_do = report(&desk, "cursor", 1)["to_do"].to_string();
    assert!(
        to_do.contains("env is something else; accepted: an object of texts;"),
        "{to_do}"
    );
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
fn an_address_that_install_takes_for_another_programs_is_told_although_a_relay_is_there() {
    let desk = Desk::new();
    let relay = Relay::start();
    let file = desk.project.join(".cursor/mcp.json");
    let port = relay.port;
    let to_do = format!(
        "{}: install and uninstall take it for another program's; put agent= into the query of its address",
        file.display()
    );
    for (query, to_do) in [
        ("", json!([to_do])),
        ("?tools=thrum", json!([to_do])),
        ("?agent=", json!([])),
    ] {
        let url = format!("http://localhost:{port}/mcp{query}");
        desk.write(&file, &json!({"mcpServers": {"relay": {"url": url}}}).to_string());
        let code = i32::from(query != "?agent=");
        assert_eq!(report(&desk, "cursor", code)["to_do"], to_do);
    }
}

#[test]
fn an_entry_that_counts_for_more_than_relays_is_told() {
    let desk = Desk::new();
    let relay = Relay::start();
    let project = desk.project.to_str().expect("text").to_owned();
    let url = format!("http://localhost:{}/sse", relay.port);
    let local = json!({"mcpServers": {"relay": {"type": "sse", "url": url}}});
    for (editor, file, text, trouble) in [
        (
            "claude",
            desk.home.join(".claude.json"),
            json!({"projects": {project: local}}).to_string(),
            "mcpServers.relay of this project's local scope counts in place of relay's entry; \
             take it out with: claude mcp remove relay -s local",
        ),
        (
            "codex",
            desk.project.join(".codex/config.toml"),
            "[mcp_servers.relay]\ncommand = \"relay\"\n".to_owned(),
            "mcp_servers.relay is mixed with relay's entry, and keeps Codex from starting once it trusts the project: \
             it has both a command and an address; take it out",
        ),
        (
            "opencode",
            desk.project.join(".opencode/opencode.json"),
            json!({"mcp": {"relay": {"enabled": false}}}).to_string(),
            "mcp.relay is mixed with relay's entry, and switches it off: enabled is false; take it out",
        ),
    ] {
        install(&desk, editor, relay.port);
        let to_do = |code| {
            let said = report(&desk, editor, code)["to_do"].clone();
            said.as_array().expect("an array").clone()
        };
        let code = i32::from(editor == "codex");
        let before = to_do(code);
        desk.write(&file, &text);
        let line = json!(format!("{}: {trouble}", file.display()));
        let after = to_do(1);
        assert!(after.contains(&line) && !before.contains(&line), "{after:?}");
        fs::remove_file(file).expect("it is there");
        desk.relay(&["uninstall"]).assert().code(0);
    }
}

#[test]
fn an_entry_that_no_installation_has_written_is_one_that_is_connected() {
    let desk = Desk::new();
    let relay = Relay::start();
    let project = desk.project.to_str().expect("text").to_owned();
    let url = format!("http://localhost:{}/sse", relay.port);
    let local = json!({"mcpServers": {"relay": {"type": "sse", "url": url}}});
    let file = desk.home.join(".claude.json");
    desk.write(&file, &json!({"projects": {project: local}}).to_string());
    let said = report(&desk, "claude", 1);
    let configured = json!([{"file": file, "leads_to": url, "reachable": VERSION, "error": null}]);
    assert_eq!(said["configured"], configured);
}

#[test]
fn what_switches_relays_server_its_tools_or_its_hooks_off_is_told() {
    let desk = Desk::new();
    let relay = Relay::start();
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    let gemini = desk.project.join(".gemini/settings.json");
    let opencode = desk.project.join("opencode.json");
    let in_entry = "/mcpServers/relay";
    for (editor, file, way, member, value, told) in [
        (
            "gemini",
            &gemini,
            "",
            "mcp",
            json!({"excluded": ["relay"]}),
            Some("mcp.excluded names relay, so that its server is not started; take that out"),
        ),
        (
            "gemini",
            &gemini,
            "",
            "mcp",
            json!({"allowed": ["other"]}),
            Some("mcp.allowed does not name relay, so that its server is not started; name it there"),
        ),
        ("gemini", &gemini, "", "mcp", json!({"allowed": ["relay"]}), None),
        (
            "gemini",
            &gemini,
            "",
            "hooksConfig",
            json!({"enabled": false}),
            Some("hooksConfig.enabled is false, so that no hook is run; take that out"),
        ),
        (
            "gemini",
            &gemini,
            "",
            "hooksConfig",
            json!({"disabled": ["relay hook gemini"]}),
            Some("hooksConfig.disabled names a hook of relay's, so that it is not run; take that out"),
        ),
        (
            "gemini",
            &gemini,
            in_entry,
            "excludeTools",
            json!(["read_messages", "other", "relay_spawn"]),
            Some("excludeTools of its entry leaves out read_messages; take that out"),
        ),
        (
            "gemini",
            &gemini,
            in_entry,
            "excludeTools",
            json!(["relay_spawn"]),
            None,
        ),
        (
            "opencode",
            &opencode,
            "",
            "tools",
            json!({"relay*": false}),
            Some("tools has false for \"relay*\", so that such tools are not called; take that out"),
        ),
        (
            "opencode",
            &opencode,
            "",
            "tools",
            json!({"*": false, "relay*": true}),
            None,
        ),
        (
            "opencode",
            &opencode,
            "",
            "permission",
            json!({"relay_read_messages": {"*": "deny"}}),
            Some(
                "permission has deny for \"relay_read_messages\", so that such tools are not called; take that out",
            ),
        ),
        (
            "opencode",
            &opencode,
            "",
            "permission",
            json!({"relay*": "ask"}),
            None,
        ),
    ] {
        install(&desk, editor, relay.port);
        let well = fs::read_to_string(file).expect("it is there");
        let mut settings = desk.json(file);
        settings.pointer_mut(way).expect("it is there")[member] = value;
        desk.write(file, &settings.to_string());
        let line = told.map(|told| format!("{}: {told}", file.display()));
        let said = report(&desk, editor, i32::from(told.is_some()));
        assert_eq!(said["to_do"], json!(Vec::from_iter(line)), "{settings}");
        desk.write(file, &well);
    }
    let codex = desk.home.join(".codex/config.toml");
    install(&desk, "codex", relay.port);
    let well = fs::read_to_string(&codex).expect("it is there");
    for (more, told) in [
        (
            "disabled_tools = [\"post_message\"]\n",
            "disabled_tools of its entry leaves out post_message; take that out",
        ),
        (
            "[features]\nhooks = false\n",
            "features.hooks is false, so that no hook is run; take that out",
        ),
    ] {
        desk.write(&codex, &format!("{well}{more}"));
        let line = json!(format!("{}: {told}", codex.display()));
        let said = report(&desk, "codex", 1);
        assert!(
            said["to_do"].as_array().expect("an array").contains(&line),
            "{said}"
        );
    }
    desk.write(&codex, &well);
    let projects = desk.project.join(".codex/config.toml");
    desk.write(&projects, "[features]\nhooks = false\n");
    let line = json!(format!(
        "{}: features.hooks is false, so that no hook is run; take that out",
        projects.display()
    ));
    let said = report(&desk, "codex", 1);
    assert!(
        said["to_do"].as_array().expect("an array").contains(&line),
        "{said}"
    );
    // Of OpenCode's files, this one counts for more than the one that install writes.
    let own = desk.project.join(".opencode/opencode.json");
    for (value, line) in [
        (
            json!(false),
            Some("tools has false for \"relay*\", so that such tools are not called; take that out"),
        ),
        (json!(true), None),
    ] {
        let mut settings = desk.json(&opencode);
        settings["tools"] = json!({"relay*": value == false});
        desk.write(&opencode, &settings.to_string());
        desk.write(&own, &json!({"tools": {"relay*": value}}).to_string());
        let line = line.map(|line| format!("{}: {line}", own.display()));
        // Codex is not well.
        let said = report(&desk, "opencode", 1);
        assert_eq!(said["to_do"], json!(Vec::from_iter(line)));
    }
}

#[test]
fn an_entry_over_stdio_that_needs_a_name_is_well_once_somebody_is_registered() {
    let desk = Desk::new();
    let relay = Relay::start();
    let port = relay.port.to_string();
    let stdio = [
        "install",
        "--editor",
        "cursor",
        "--transport",
        "stdio",
        "--tools",
        "all",
    ];
    let install = [&stdio[..], &["--port", &port]].concat();
    desk.relay(&install).assert().code(0);
    let to_do = report(&desk, "cursor", 1)["to_do"].clone();
    let line = format!(
        "{}: with these toolsets its bridge does not start without a name: nobody says who this agent is: ",
        desk.project.join(".cursor/mcp.json").display()
    );
    let said = to_do[0].as_str().expect("a line");
    assert!(
        said.starts_with(&line) && said.contains("--agent or RELAY_AGENT"),
        "{said}"
    );
    desk.relay(&["register", "dev-a", "--role", "tester"])
        .assert()
        .code(0);
    assert_eq!(report(&desk, "cursor", 0)["to_do"], json!([]));
}

#[test]
fn of_two_addresses_of_gemini_cli_the_one_is_looked_at_that_it_takes() {
    let desk = Desk::new();
    let relay = Relay::start();
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    install(&desk, "gemini", relay.port);
    let file = desk.project.join(".gemini/settings.json");
    let mut settings = desk.json(&file);
    settings["mcpServers"]["relay"]["url"] = json!("http://localhost:1/sse");
    desk.write(&file, &settings.to_string());
    let leads_to = report(&desk, "gemini", 0)["configured"][0]["leads_to"].clone();
    assert_eq!(leads_to, settings["mcpServers"]["relay"]["httpUrl"]);
}

//! What an installation over an earlier one keeps of what was chosen then.

use std::fs::TryLockError;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::*;

fn install(desk: &Desk, arguments: &[&str]) {
    let arguments = [&["install", "--no-hooks", "--editor"][..], arguments].concat();
    desk.relay(&arguments).assert().code(0);
}

#[test]
fn what_is_not_asked_for_stays_as_it_is_in_relays_entry() {
    let desk = Desk::new();
    let claude = desk.project.join(".mcp.json");
    let entry = |expected: Value| assert_eq!(desk.json(&claude)["mcpServers"]["relay"], expected);
    install(
        &desk,
        &[
            "claude",
            "--transport",
            "http",
            "--tools",
            "thrum",
            "--port",
            "4000",
        ],
    );
    let installed = fs::read_to_string(&claude).expect("it is there");
    desk.write(
        &claude,
        &installed
            .replace("${RELAY_AGENT:-}", "dev-b")
            .replace("thrum", "thrum&x=y"),
    );
    let url = "http://localhost:4000/mcp?agent=dev-b&tools=thrum&x=y";
    install(&desk, &["claude", "--port", "4000"]);
    entry(json!({"type": "http", "url": url}));
    // relay's port is where it is now.
    install(&desk, &["claude", "--tools", "all"]);
    let url = "http://localhost:7331/mcp?agent=dev-b&tools=all&x=y";
    entry(json!({"type": "http", "url": url}));
    install(&desk, &["claude", "--transport", "sse"]);
    let url = "http://localhost:7331/sse?agent=dev-b&tools=all&x=y";
    entry(json!({"type": "sse", "url": url}));
    install(&desk, &["claude", "--transport", "stdio"]);
    let args = json!(["mcp", "--agent", "dev-b", "--tools", "all"]);
    entry(json!({"type": "stdio", "command": RELAY, "args": args}));
    install(&desk, &["claude", "--transport", "sse"]);
    let url = "http://localhost:7331/sse?agent=dev-b&tools=all";
    entry(json!({"type": "sse", "url": url}));
}

#[test]
fn what_stands_behind_relays_command_stays() {
    let desk = Desk::new();
    let opencode = desk.project.join("opencode.json");
    let entry = |command: &[&str]| json!({"mcp": {"relay": {"type": "local", "command": command}}});
    let given = [
        "/old/relay",
        "mcp",
        "--project",
        "web",
        "--tools=thrum",
        "--port=4000",
        "--agent-id",
        "{env:ME}",
    ];
    desk.write(&opencode, &entry(&given).to_string());
    install(&desk, &["opencode"]);
    let kept = [
        RELAY,
        "mcp",
        "--agent",
        "{env:ME}",
        "--tools",
        "thrum",
        "--project",
        "web",
    ];
    assert_eq!(desk.json(&opencode), entry(&kept));
    // A variable is written otherwise in an address.
    install(&desk, &["opencode", "--transport", "http"]);
    let url = "http://localhost:7331/mcp?agent={env:RELAY_AGENT}&tools=thrum";
    let remote = json!({"mcp": {"relay": {"type": "remote", "url": url}}});
    assert_eq!(desk.json(&opencode), remote);
}

#[test]
fn of_an_entry_that_is_not_relays_or_a_transport_that_the_editor_does_not_take_nothing_stays() {
    let desk = Desk::new();
    let (cursor, zed) = (
        desk.project.join(".cursor/mcp.json"),
        desk.home.join(".config/zed/settings.json"),
    );
    for entry in [
        json!({"command": "npx", "args": ["mcp", "--tools", "x"]}),
        json!({"url": "http://localhost:1/other?tools=x&agent=a"}),
    ] {
        desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
        install(&desk, &["cursor"]);
        let entry = json!({"url": "http://localhost:7331/mcp"});
        assert_eq!(desk.json(&cursor), json!({"mcpServers": {"relay": entry}}));
    }
    let entry = json!({"url": "http://localhost:7331/sse?tools=thrum"});
    desk.write(&zed, &json!({"context_servers": {"relay": entry}}).to_string());
    install(&desk, &["zed"]);
    let entry = json!({"url": "http://localhost:7331/mcp?tools=thrum"});
    assert_eq!(desk.json(&zed), json!({"context_servers": {"relay": entry}}));
}

#[test]
fn nothing_is_kept_of_an_entry_that_leads_elsewhere_nor_what_is_no_toolset() {
    let desk = Desk::new();
    let claude = desk.project.join(".mcp.json");
    for given in [
        json!({"type": "http", "url": "https://relay.example/mcp?tools=search&api_key=S"}),
        json!({"type": "http", "url": "http://box:7331/mcp?x=y"}),
        json!({"type": "sse", "url": "http://localhost:9/sse?tools=search"}),
        json!({"type": "stdio", "command": "/old/relay", "args": ["serve"]}),
    ] {
        desk.write(&claude, &json!({"mcpServers": {"relay": given}}).to_string());
        install(&desk, &["claude", "--transport", "sse"]);
        let url = "http://localhost:7331/sse?agent=${RELAY_AGENT:-}";
        assert_eq!(
            desk.json(&claude)["mcpServers"]["relay"],
            json!({"type": "sse", "url": url})
        );
    }
    // Decoded, for it is written otherwise there.
    let url = "http://127.0.0.1:7331/sse?tools=lift%2Cthrum";
    desk.write(
        &claude,
        &json!({"mcpServers": {"relay": {"type": "sse", "url": url}}}).to_string(),
    );
    install(&desk, &["claude", "--transport", "stdio"]);
    let args = json!(["mcp", "--tools", "lift,thrum"]);
    let expected = json!({"type": "stdio", "command": RELAY, "args": args});
    assert_eq!(desk.json(&claude)["mcpServers"]["relay"], expected);
    let args = json!(["mcp", "--host", "10.0.0.5", "--port", "4000"]);
    let given = json!({"mcpServers": {"relay": {"type": "stdio", "command": RELAY, "args": args}}});
    desk.write(&claude, &given.to_string());
    install(&desk, &["claude"]);
    assert_eq!(desk.json(&claude)["mcpServers"]["relay"]["args"], json!(["mcp"]));
}

#[test]
fn an_agent_that_a_command_was_told_by_its_environment_is_in_the_address_that_takes_its_place() {
    let desk = Desk::new();
    let (cursor, opencode) = (
        desk.project.join(".cursor/mcp.json"),
        desk.project.join("opencode.json"),
    );
    let url = |agent: &str| format!("http://localhost:7331/mcp{agent}");
    for (env, args, expected) in [
        (
            json!({"RELAY_AGENT": "dev-b", "A": "b"}),
            json!(["mcp"]),
            url("?agent=dev-b"),
        ),
        (
            json!({"RELAY_AGENT": "dev-b"}),
            json!(["mcp", "--agent", "dev-a"]),
            url("?agent=dev-a"),
        ),
        (json!({"RELAY_AGENT": ""}), json!(["mcp"]), url("")),
        (json!({"RELAY_AGENT": "${ME}"}), json!(["mcp"]), url("")),
        (json!({"RELAY_AGENT": "a&tools=all"}), json!(["mcp"]), url("")),
    ] {
        let entry = json!({"command": "/old/relay", "args": args, "env": env});
        desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
        // As long as it is a command, it is told as before.
        install(&desk, &["cursor"]);
        let kept = json!({"command": RELAY, "args": args, "env": env});
        assert_eq!(desk.json(&cursor), json!({"mcpServers": {"relay": kept}}));
        install(&desk, &["cursor", "--transport", "http"]);
        let kept = json!({"url": expected});
        assert_eq!(desk.json(&cursor), json!({"mcpServers": {"relay": kept}}));
    }
    let entry =
        json!({"type": "local", "command": ["/old/relay", "mcp"], "environment": {"RELAY_AGENT": "dev-b"}});
    desk.write(&opencode, &json!({"mcp": {"relay": entry}}).to_string());
    install(&desk, &["opencode", "--transport", "http"]);
    let kept = json!({"type": "remote", "url": url("?agent=dev-b")});
    assert_eq!(desk.json(&opencode), json!({"mcp": {"relay": kept}}));
}

#[test]
fn what_an_editor_refuses_beside_the_new_way_goes_with_the_old_one_in_each_of_them() {
    /// All that any of them takes, and what none does, beside one way or the other.
    const OF_A_COMMAND: &str =
        r#""args": ["mcp"], "env": {"A": "b"}, "environment": {"A": "b"}, "cwd": "/", "env_vars": ["A"]"#;
    const OF_AN_ADDRESS: &str = r#""headers": {"A": "b"}, "http_headers": {"A": "b"}, "env_http_headers": {"A": "B"}, "bearer_token_env_var": "X", "bearer_token": "x", "oauth": {"scope": "x"}, "oauth_resource": "x""#;
    const OF_BOTH: &str = r#""timeout": 5, "enabled": true"#;
    let desk = Desk::new();
    let both: serde_json::Value = serde_json::from_str(&format!("{{{OF_BOTH}}}")).expect("it is JSON");
    for (editor, file, servers) in [
        ("claude", desk.project.join(".mcp.json"), "mcpServers"),
        ("gemini", desk.project.join(".gemini/settings.json"), "mcpServers"),
        ("opencode", desk.project.join("opencode.json"), "mcp"),
        ("cursor", desk.project.join(".cursor/mcp.json"), "mcpServers"),
        ("vscode", desk.project.join(".vscode/mcp.json"), "servers"),
        (
            "windsurf",
            desk.home.join(".codeium/windsurf/mcp_config.json"),
            "mcpServers",
        ),
        (
            "zed",
            desk.home.join(".config/zed/settings.json"),
            "context_servers",
        ),
    ] {
        for (reached, transport) in [
            (r#""command": "/old/relay""#, "http"),
            (r#""command": ["/old/relay", "mcp"]"#, "http"),
            (r#""url": "http://localhost:7331/mcp""#, "stdio"),
            (r#""httpUrl": "http://localhost:7331/mcp""#, "stdio"),
            (r#""serverUrl": "http://localhost:7331/mcp""#, "stdio"),
        ] {
            // As it would be without what was there.
            desk.write(&file, "{}");
            install(&desk, &[editor, "--transport", transport]);
            let mut expected = desk.json(&file);
            let entry = expected[servers]["relay"].as_object_mut().expect("an object");
            entry.extend(both.as_object().expect("an object").clone());
            if editor == "gemini" {
                // It knows no such member.
                entry.remove("enabled");
            }
            let entry = format!("{{{reached}, {OF_A_COMMAND}, {OF_AN_ADDRESS}, {OF_BOTH}}}");
            desk.write(&file, &format!("{{\"{servers}\": {{\"relay\": {entry}}}}}"));
            install(&desk, &[editor, "--transport", transport]);
            assert_eq!(desk.json(&file), expected, "{editor}: {entry}");
        }
    }
}

#[test]
fn installations_at_the_same_time_wait_for_each_other() {
    let desk = Desk::new();
    let home = fs::File::open(&desk.home).expect("it is there");
    home.lock().expect("nobody has it");
    let mut all = ["cursor", "zed", "windsurf", "codex"].map(|editor| {
        let mut command = std::process::Command::new(RELAY);
        command.args(["install", "--global", "--no-hooks", "--editor", editor]);
        command.args(["--editor", "gemini"]);
        command.current_dir(&desk.project).env_clear();
        command.env("HOME", &desk.home);
        command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped());
        command.spawn().expect("it starts")
    });
    for installation in &mut all {
        let stderr = installation.stderr.as_mut().expect("it is piped");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).expect("it is text");
        assert!(line.contains("another installation is under way"), "{line}");
    }
    assert_eq!(desk.files(), [], "nothing is changed yet");
    // Who only looks waits for nobody.
    let dry = ["install", "--editor", "cursor", "--dry-run"];
    desk.relay(&dry).assert().code(0);
    drop(home);
    for installation in &mut all {
        assert!(installation.wait().expect("it ends").success());
    }
    assert_eq!(desk.files().len(), 5, "a file for each editor");
}

#[test]
fn an_undoing_waits_for_the_end_of_an_installation() {
    let desk = Desk::new();
    install(&desk, &["cursor"]);
    let before = desk.files();
    let home = fs::File::open(&desk.home).expect("it is there");
    home.lock().expect("nobody has it");
    let mut undoing = std::process::Command::new(RELAY);
    undoing.args(["uninstall", "--editor", "cursor"]);
    undoing.current_dir(&desk.project).env_clear();
    undoing.env("HOME", &desk.home);
    undoing
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let mut undoing = undoing.spawn().expect("it starts");
    let stderr = undoing.stderr.as_mut().expect("it is piped");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).expect("it is text");
    assert!(line.contains("another installation is under way"), "{line}");
    assert_eq!(desk.files(), before, "nothing is changed yet");
    drop(home);
    assert!(undoing.wait().expect("it ends").success());
    assert!(!desk.project.join(".cursor/mcp.json").exists());
}

#[test]
fn others_wait_until_an_installation_or_an_undoing_is_over() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    for (subcommand, is_there) in [("install", true), ("uninstall", false)] {
        // Nobody reads what it says of what it has done, and there is no room for that.
        let (reader, mut stdout) = UnixStream::pair().expect("the system has room for a pair");
        stdout.set_nonblocking(true).expect("it is a socket");
        while stdout.write(&[0]).is_ok() {}
        stdout.set_nonblocking(false).expect("it is a socket");
        let mut command = std::process::Command::new(RELAY);
        command.args([subcommand, "--editor", "cursor"]);
        command.current_dir(&desk.project).env_clear();
        command.env("HOME", &desk.home);
        command
            .stdout(OwnedFd::from(stdout))
            .stderr(std::process::Stdio::null());
        let mut child = command.spawn().expect("it starts");
        // Its own end goes with it.
        drop(command);
        until("the file is changed", || file.exists() == is_there);
        let home = fs::File::open(&desk.home).expect("it is there");
        assert!(
            matches!(home.try_lock(), Err(TryLockError::WouldBlock)),
            "{subcommand}"
        );
        drop(reader);
        assert!(child.wait().expect("it ends").success());
        home.try_lock().expect("nobody has it any more");
    }
}

#[test]
fn an_agent_that_cannot_be_kept_is_told_of_with_how_it_is_named() {
    let desk = Desk::new();
    let (claude, cursor) = (
        desk.project.join(".mcp.json"),
        desk.project.join(".cursor/mcp.json"),
    );
    let over = |editor: &str, path: &Path, entry: &Value, transport: &str| {
        desk.write(path, &json!({"mcpServers": {"relay": entry}}).to_string());
        let arguments = [
            "install",
            "--no-hooks",
            "--editor",
            editor,
            "--transport",
            transport,
        ];
        let said = desk.relay(&arguments).assert().code(0);
        String::from_utf8_lossy(&said.get_output().stderr).into_owned()
    };
    let told = |agent: &str| json!({"command": "relay", "args": ["mcp"], "env": {"RELAY_AGENT": agent}});
    let said = over("cursor", &cursor, &told("${ME}"), "http");
    let expected = "Cursor: its entry named the agent as \"${ME}\", which an address cannot hold; put agent=NAME into its address\n";
    assert!(said.contains(expected), "{said}");
    // What means something else in an address.
    for agent in ["a&b", "a#b", "a%41", "a+b", "a?b", "a b", "a\"b", "ä"] {
        let said = over("cursor", &cursor, &told(agent), "http");
        assert!(said.contains("cannot hold"), "{agent}: {said}");
    }
    // Cursor's addresses name no variable, and those of Claude Code the same one.
    let said = over("cursor", &cursor, &told("${env:RELAY_AGENT}"), "http");
    assert!(said.contains("cannot hold"), "{said}");
    let said = over("claude", &claude, &told("${RELAY_AGENT}"), "http");
    assert!(!said.contains("cannot hold"), "{said}");
    let address =
        |agent: &str| json!({"type": "http", "url": format!("http://localhost:7331/mcp?agent={agent}")});
    let said = over("claude", &claude, &address("${ME}"), "stdio");
    let expected = "which a command cannot hold; put --agent NAME into its arguments\n";
    assert!(said.contains(expected), "{said}");
    for named in ["${RELAY_AGENT:-}", "dev-a"] {
        let said = over("claude", &claude, &address(named), "stdio");
        assert!(!said.contains("cannot hold"), "{said}");
    }
}

#[test]
fn an_agent_stays_whatever_its_variable_stood_beside_or_was_called() {
    let desk = Desk::new();
    let (cursor, vscode) = (
        desk.project.join(".cursor/mcp.json"),
        desk.project.join(".vscode/mcp.json"),
    );
    let env = json!({"RELAY_AGENT": "dev-b", "N": 5, "L": []});
    let entry = json!({"command": "/old/relay", "args": ["mcp"], "env": env});
    desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
    desk.write(&vscode, &json!({"servers": {"relay": entry}}).to_string());
    install(&desk, &["cursor", "--editor", "vscode"]);
    let kept = json!({"command": RELAY, "args": ["mcp"], "env": {"RELAY_AGENT": "dev-b"}});
    assert_eq!(desk.json(&cursor), json!({"mcpServers": {"relay": kept}}));
    let env = json!({"RELAY_AGENT": "dev-b", "N": 5});
    let kept = json!({"type": "stdio", "command": RELAY, "args": ["mcp"], "env": env});
    assert_eq!(desk.json(&vscode), json!({"servers": {"relay": kept}}));
    // By the word of another editor.
    let entry = json!({"command": "/old/relay", "args": ["mcp"], "environment": {"RELAY_AGENT": "dev-b"}});
    desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
    install(&desk, &["cursor"]);
    let kept = json!({"command": RELAY, "args": ["mcp", "--agent", "dev-b"]});
    assert_eq!(desk.json(&cursor), json!({"mcpServers": {"relay": kept}}));
}

#[test]
fn an_option_with_nothing_behind_its_sign_takes_no_other_word() {
    let desk = Desk::new();
    let cursor = desk.project.join(".cursor/mcp.json");
    let entry = json!({"command": "/old/relay", "args": ["mcp", "--agent=", "--port", "9", "--tools=", "x"]});
    desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
    install(&desk, &["cursor", "--transport", "http"]);
    let kept = json!({"url": "http://localhost:7331/mcp"});
    assert_eq!(desk.json(&cursor), json!({"mcpServers": {"relay": kept}}));
}

#[test]
fn an_entry_that_is_switched_off_stays_so_and_is_told() {
    let desk = Desk::new();
    let (cursor, codex) = (
        desk.project.join(".cursor/mcp.json"),
        desk.home.join(".codex/config.toml"),
    );
    let entry = json!({"url": "http://localhost:7331/mcp", "disabled": true});
    desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
    desk.write(
        &codex,
        "[mcp_servers.relay]\nurl = \"http://localhost:7331/mcp\"\nenabled = false\n",
    );
    let told = |editor: &str, path: &Path, by: &str| {
        let path = path.display();
        contains(format!(
            "{editor}: the entry in {path} is switched off, {by}; take that out\n"
        ))
    };
    let all = || told("Cursor", &cursor, "disabled is true").and(told("Codex", &codex, "enabled is false"));
    let arguments = ["install", "--editor", "cursor", "--editor", "codex"];
    for port in ["7331", "4000"] {
        let arguments = [&arguments[..], &["--port", port]].concat();
        desk.relay(&arguments).assert().code(0).stderr(all());
    }
    assert_eq!(desk.json(&cursor)["mcpServers"]["relay"]["disabled"], true);
    let doctor = contains(format!(
        "{}: its entry is switched off, enabled is false; take that out\n",
        codex.display()
    ));
    desk.relay(&["doctor"]).assert().code(1).stdout(doctor);
}

#[test]
fn another_programs_entry_may_be_switched_off() {
    let desk = Desk::new();
    let cursor = desk.project.join(".cursor/mcp.json");
    let entry = json!({"command": "other", "disabled": true});
    desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
    let doctor = desk.relay(&["doctor"]).assert();
    doctor.stdout(contains("switched off").not());
}

/// Has an installation find its own hooks as somebody has changed them, and leave them as they were.
#[track_caller]
fn are_there_once(change: impl FnOnce(&mut Value)) {
    let desk = Desk::new();
    let settings = desk.project.join(".claude/settings.local.json");
    let install = ["install", "--editor", "claude"];
    desk.relay(&install).assert().code(0);
    let installed = desk.json(&settings);
    let mut changed = installed.clone();
    change(&mut changed["hooks"]);
    assert_ne!(changed, installed);
    desk.write(&settings, &changed.to_string());
    desk.relay(&install).assert().code(0);
    assert_eq!(desk.json(&settings)["hooks"], installed["hooks"]);
}

#[test]
fn a_group_of_hooks_that_is_there_twice_is_there_once() {
    are_there_once(|hooks| {
        let groups = hooks["SessionStart"].as_array_mut().expect("groups");
        groups.insert(0, groups[0].clone());
    });
}

#[test]
fn a_hook_that_is_there_twice_in_its_group_is_there_once() {
    are_there_once(|hooks| {
        let group = hooks["PostToolUse"][0]["hooks"].as_array_mut().expect("hooks");
        group.push(group[0].clone());
    });
}

#[test]
fn an_entry_whose_members_stand_in_another_order_is_relays_own() {
    let desk = Desk::new();
    let file = desk.project.join(".mcp.json");
    let url = "http://localhost:7331/sse?agent=${RELAY_AGENT:-}";
    let text = format!("{{\"mcpServers\": {{\"relay\": {{\"url\": \"{url}\", \"type\": \"sse\"}}}}}}\n");
    desk.write(&file, &text);
    install(&desk, &["claude"]);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), text);
    let told = contains("with what was added").not();
    desk.relay(&["uninstall"]).assert().code(0).stdout(told);
    assert_eq!(desk.files(), []);
    assert!(!desk.backup(&file).exists(), "nothing was added");
}

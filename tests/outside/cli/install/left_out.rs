//! What is said of what a new entry does not have of the old one.

use super::*;

/// What an installation for Cursor over an entry says on stdout and on stderr.
fn over(entry: &Value, arguments: &[&str]) -> (Desk, String, String) {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
    let arguments = [&["install", "--editor", "cursor"][..], arguments].concat();
    let done = desk.relay(&arguments).assert().code(0);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&done.get_output().stdout), text(&done.get_output().stderr));
    (desk, stdout, stderr)
}

#[test]
fn parts_of_the_old_way_that_are_lost_are_named_and_kept_also_by_a_dry_run_before() {
    let command = |args: &[&str]| json!({"command": "/old/relay", "args": args});
    for (entry, transport, lost) in [
        (
            json!({"url": "http://localhost:7331/mcp", "headers": {"A": "b"}}),
            "stdio",
            "headers",
        ),
        (
            json!({"url": "http://localhost:7331/mcp?x=y&agent=${env:ME}&z"}),
            "stdio",
            "?agent=${env:ME}, ?x=y, ?z",
        ),
        (
            command(&["mcp", "--project", "web", "--agent", "${env:ME}"]),
            "http",
            "--agent ${env:ME}, --project web",
        ),
        (
            command(&["mcp", "--host", "192.0.2.7", "--port", "9"]),
            "stdio",
            "--host 192.0.2.7",
        ),
        (
            json!({"command": "/old/relay", "args": ["mcp"], "env": {"RELAY_AGENT": "${env:ME}"}}),
            "http",
            "env",
        ),
        (
            json!({"command": "/old/relay", "args": ["mcp"], "env": {"RELAY_AGENT": "dev-b", "A": "b"}}),
            "http",
            "env",
        ),
        (
            json!({"url": "http://localhost:7331/mcp?tools=${env:T}"}),
            "http",
            "?tools=${env:T}",
        ),
        (
            command(&["mcp", "--tools", "thrum,all2"]),
            "stdio",
            "--tools thrum,all2",
        ),
        (
            json!({"url": "http://localhost:7331/mcp?agent=a&agent=b&tools=lift&tools=thrum"}),
            "http",
            "?agent=a, ?tools=lift",
        ),
        (
            command(&["mcp", "--agent", "a", "--agent-id=b"]),
            "http",
            "--agent a",
        ),
        (
            json!({"command": "npx", "args": ["-y", "--registry=https://npm.example", "relay-bus@0.1", "mcp"]}),
            "stdio",
            "--registry=https://npm.example relay-bus@0.1",
        ),
    ] {
        let (desk, stdout, _) = over(&entry, &["--transport", transport]);
        let file = desk.project.join(".cursor/mcp.json");
        let kept = desk.backup(&file);
        let told = format!(
            "Cursor: changed {}; as it was: {}; no longer in relay's entry: {lost}\n",
            file.display(),
            kept.display()
        );
        assert_eq!(stdout, told);
        let text = fs::read_to_string(kept).expect("it is kept");
        assert_eq!(text, json!({"mcpServers": {"relay": entry}}).to_string());

        let (desk, stdout, stderr) = over(&entry, &["--transport", transport, "--dry-run"]);
        let file = desk.project.join(".cursor/mcp.json");
        let told = format!(
            "Cursor: {}: would no longer be in relay's entry: {lost}\n",
            file.display()
        );
        assert!(stderr.ends_with(&told), "{stderr}");
        assert!(stdout.starts_with("--- "), "{stdout}");
        assert!(!desk.backup(&file).exists());
    }
}

#[test]
fn what_says_another_way_or_an_agent_that_no_program_has_is_named_and_kept_each_time() {
    let url = "http://localhost:7331/sse?agent=${RELAY_AGENT:-}";
    let desk = Desk::new();
    let file = desk.project.join(".mcp.json");
    for (entry, lost) in [
        (
            json!({"type": "sse", "url": url, "env": {"RELAY_AGENT": "dev-a"}}),
            "env",
        ),
        (
            json!({"type": "stdio", "command": "relay", "args": ["mcp"], "url": "http://localhost:7331/sse?agent=dev-b"}),
            "url",
        ),
        (
            json!({"type": "sse", "url": url, "command": "relay", "args": ["mcp", "--agent", "dev-c"]}),
            "command, args",
        ),
    ] {
        let text = json!({"mcpServers": {"relay": entry}}).to_string();
        desk.write(&file, &text);
        let done = desk
            .relay(&["install", "--editor", "claude", "--no-hooks"])
            .assert()
            .code(0);
        let told = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
        let told = told.lines().find(|line| line.contains("changed")).expect("it is");
        assert!(
            told.ends_with(&format!("; no longer in relay's entry: {lost}")),
            "{told}"
        );
        let kept = told.split("; as it was: ").nth(1).expect("it is kept");
        let kept = kept.split("; ").next().expect("a path");
        assert_eq!(fs::read_to_string(kept).expect("it is there"), text);
    }
}

#[test]
fn comments_in_an_entry_that_is_written_anew_are_told_of() {
    let desk = Desk::new();
    let file = desk.project.join("opencode.jsonc");
    let install = ["install", "--editor", "opencode", "--no-hooks"];
    desk.write(&file, "{\"mine\": 1}");
    desk.relay(&install).assert().code(0);
    let text = fs::read_to_string(&file).expect("it is there");
    let text = text.replace("\"url\"", "/* ours */ \"url\"");
    desk.write(&file, &text);
    let aside = PathBuf::from(format!("{}.1", desk.backup(&file).display()));
    let told = format!(
        "OpenCode: changed {}; as it was: {}; no longer in relay's entry: comments\n",
        file.display(),
        aside.display()
    );
    let elsewhere = [&install[..], &["--port", "4000"]].concat();
    desk.relay(&elsewhere).assert().code(0).stdout(told);
    assert_eq!(fs::read_to_string(aside).expect("it is kept"), text);
}

#[test]
fn a_comment_that_is_lost_is_told_of_also_where_another_one_stays() {
    let desk = Desk::new();
    let file = desk.home.join(".codex/config.toml");
    let text = "[mcp_servers.relay]\nurl = \"http://localhost:7331/mcp\" # mine\nenv = { A = \"b\" } # why\n";
    desk.write(&file, text);
    let told = contains("; no longer in relay's entry: env, comments\n");
    let install = ["install", "--editor", "codex", "--no-hooks"];
    desk.relay(&install).assert().code(0).stdout(told);
    let left = "[mcp_servers.relay]\nurl = \"http://localhost:7331/mcp\" # mine\n";
    assert_eq!(fs::read_to_string(&file).expect("it is there"), left);
    let kept = desk.backup(&file);
    assert_eq!(fs::read_to_string(kept).expect("it is kept"), text);
}

#[test]
fn what_was_added_to_hooks_that_are_taken_out_is_kept() {
    let desk = Desk::new();
    let file = desk.project.join(".gemini/settings.json");
    let install = ["install", "--editor", "gemini"];
    desk.relay(&install).assert().code(0);
    let mut settings = desk.json(&file);
    settings["hooks"]["AfterTool"][0]["matcher"] = json!("mine");
    let text = settings.to_string();
    desk.write(&file, &text);
    let told = contains("what was added to its hooks\n");
    let without = [&install[..], &["--no-hooks"]].concat();
    let dry = [&without[..], &["--dry-run"]].concat();
    desk.relay(&dry).assert().code(0).stderr(told.clone());
    desk.relay(&without).assert().code(0).stdout(told);
    assert_eq!(desk.json(&file).get("hooks"), None);
    assert_eq!(fs::read_to_string(desk.backup(&file)).expect("it is kept"), text);
}

#[test]
fn comments_in_hooks_that_are_written_anew_or_taken_out_are_kept() {
    for (arguments, told) in [
        (
            &["install", "--editor", "claude", "--port", "4000"][..],
            "changed FILE; as it was: KEPT; no longer in relay's hooks: comments\n",
        ),
        (
            &["uninstall"],
            "removed FILE, in which nothing else was; with what was added to relay's hooks: KEPT\n",
        ),
    ] {
        let desk = Desk::new();
        let file = desk.project.join(".claude/settings.local.json");
        desk.relay(&["install", "--editor", "claude"]).assert().code(0);
        let text = fs::read_to_string(&file).expect("it is there");
        let text = text.replacen("\"type\"", "/* ours */ \"type\"", 1);
        desk.write(&file, &text);
        let kept = desk.backup(&file);
        let told = told.replace("FILE", &file.display().to_string());
        let told = contains(told.replace("KEPT", &kept.display().to_string()));
        desk.relay(arguments).assert().code(0).stdout(told);
        assert_eq!(fs::read_to_string(kept).expect("it is kept"), text);
    }
}

#[test]
fn what_is_there_by_another_word_is_not_named() {
    for (entry, transport) in [
        (
            json!({"command": "/old/relay", "args": ["mcp"], "env": {"RELAY_AGENT": "dev-b"}}),
            "http",
        ),
        (
            json!({"command": "/old/relay", "args": ["mcp", "--agent-id", "dev-b"]}),
            "http",
        ),
        (json!({"url": "http://localhost:7331/mcp?agent=dev-b"}), "stdio"),
        (
            json!({"url": "http://localhost:7331/mcp?agent=&tools=all"}),
            "stdio",
        ),
        (
            json!({"url": "http://localhost:7331/mcp?agent=dev-b&agent=dev-b"}),
            "http",
        ),
        (
            json!({"command": "npx", "args": ["-y", "relay-bus", "mcp"]}),
            "stdio",
        ),
    ] {
        for dry in [&[][..], &["--dry-run"]] {
            let arguments = [&["--transport", transport][..], dry].concat();
            let (_, stdout, stderr) = over(&entry, &arguments);
            assert!(
                !stdout.contains("no longer") && !stderr.contains("no longer"),
                "{stdout}{stderr}"
            );
        }
    }
}

/// Installs for Claude Code, and gives back the file of its hooks and what is in it.
fn with_hooks(desk: &Desk) -> (PathBuf, Value) {
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    let file = desk.project.join(".claude/settings.local.json");
    let settings = desk.json(&file);
    (file, settings)
}

#[test]
fn hooks_that_a_person_has_divided_or_joined_stay_so() {
    let desk = Desk::new();
    let (file, mut settings) = with_hooks(&desk);
    let hooks = &mut settings["hooks"];
    let mut edit = hooks["PostToolUse"][0].clone();
    let mut bash = edit.clone();
    edit["matcher"] = json!("Edit");
    bash["matcher"] = json!("Bash");
    bash["hooks"][0]["timeout"] = json!(5);
    hooks["PostToolUse"] = json!([edit, bash]);
    let both = [0, 1].map(|at| hooks["SessionStart"][at]["hooks"][0].clone());
    hooks["SessionStart"] = json!([{"matcher": "startup", "hooks": both}]);
    let text = settings.to_string();
    desk.write(&file, &text);
    let install = ["install", "--editor", "claude"];
    desk.relay(&install)
        .assert()
        .code(0)
        .stdout(contains("no longer").not());
    assert_eq!(fs::read_to_string(&file).expect("it is there"), text);

    let elsewhere = [&install[..], &["--port", "4000"]].concat();
    desk.relay(&elsewhere)
        .assert()
        .code(0)
        .stdout(contains("no longer").not());
    let now = desk.json(&file)["hooks"].clone();
    let command = |what: &str| json!(format!("{RELAY} hook {what} --port 4000"));
    for group in [&mut edit, &mut bash] {
        group["hooks"][0]["command"] = command("claude");
    }
    assert_eq!(now["PostToolUse"], json!([edit, bash]));
    let joined = &now["SessionStart"];
    assert_eq!(joined.as_array().map(Vec::len), Some(1));
    assert_eq!(joined[0]["matcher"], "startup");
    assert_eq!(joined[0]["hooks"][0]["command"], command("claude"));
    assert_eq!(joined[0]["hooks"][1]["command"], command("claude wait"));
}

#[test]
fn what_of_a_persons_hooks_is_in_no_new_one_is_kept_and_told_of() {
    let told = contains("no longer in relay's hooks: what was added to its hooks\n");
    let change: [fn(&mut Value); 3] = [
        |hooks| hooks["SubagentStop"] = hooks["PostToolUse"].clone(),
        |hooks| hooks["PostToolUse"] = hooks["Stop"].clone(),
        |hooks| hooks["Stop"][1]["hooks"][0]["timeout"] = json!(5),
    ];
    for change in change {
        let desk = Desk::new();
        let (file, mut settings) = with_hooks(&desk);
        change(&mut settings["hooks"]);
        let text = settings.to_string();
        desk.write(&file, &text);
        desk.relay(&["install", "--editor", "claude"])
            .assert()
            .code(0)
            .stdout(told.clone());
        assert_eq!(desk.json(&file)["hooks"], claude_hooks(""));
        assert_eq!(fs::read_to_string(desk.backup(&file)).expect("it is kept"), text);
    }
}

#[test]
fn hooks_that_a_person_has_divided_are_kept_when_they_are_taken_out() {
    for (arguments, told) in [
        (
            &["install", "--editor", "claude", "--no-hooks"][..],
            "what was added to its hooks",
        ),
        (&["uninstall"], "with what was added to relay's hooks"),
    ] {
        let desk = Desk::new();
        let (file, mut settings) = with_hooks(&desk);
        let edit = settings["hooks"]["PostToolUse"][0].clone();
        let mut bash = edit.clone();
        bash["matcher"] = json!("Bash");
        settings["hooks"]["PostToolUse"] = json!([edit, bash]);
        let text = settings.to_string();
        desk.write(&file, &text);
        desk.relay(arguments).assert().code(0).stdout(contains(told));
        assert_eq!(fs::read_to_string(desk.backup(&file)).expect("it is kept"), text);
    }
}

#[test]
fn how_an_entry_that_is_not_relays_was_reached_is_named_but_for_its_secrets() {
    for (entry, told) in [
        (
            json!({"url": "http://localhost:9000/mcp?tools=thrum", "timeout": 5}),
            "http://localhost:9000/mcp?tools=thrum, ",
        ),
        (
            json!({"command": "theirs", "args": ["--password", "s3cret-and-long"]}),
            "theirs --password [redacted]",
        ),
    ] {
        let (_desk, stdout, _) = over(&entry, &[]);
        let line = format!("; no longer in relay's entry: {told}");
        assert!(stdout.contains(&line), "{stdout}");
    }
}

#[test]
fn of_hosts_that_are_said_twice_each_is_named_once_and_no_plain_word_of_a_runner_is() {
    let hosts = |first: &str, second: &str| json!({"command": "/old/relay", "args": ["mcp", "--host", first, "--host", second]});
    let runner = |words: &[&str]| json!({"command": "npx", "args": words});
    for (entry, lost) in [
        (
            hosts("192.0.2.7", "192.0.2.8"),
            Some("--host 192.0.2.8, --host 192.0.2.7"),
        ),
        (hosts("192.0.2.7", "192.0.2.7"), Some("--host 192.0.2.7")),
        (runner(&["--yes", "relay-bus", "mcp"]), None),
        (runner(&["relay-bus", "mcp"]), None),
    ] {
        let (_desk, stdout, _) = over(&entry, &[]);
        let line = lost.map(|lost| format!("; no longer in relay's entry: {lost}\n"));
        assert_eq!(stdout.contains("no longer"), lost.is_some(), "{stdout}");
        assert!(stdout.ends_with(&line.unwrap_or_default()), "{stdout}");
    }
}

#[test]
fn a_sign_of_a_comment_in_a_name_or_a_value_is_none() {
    let desk = Desk::new();
    let file = desk.home.join(".codex/config.toml");
    let text = "[mcp_servers.relay]\ncommand = \"x\"\nargs = [\"#1\"]\nenv = { \"A#B\" = \"#\" }\n";
    desk.write(&file, text);
    let told = contains("; no longer in relay's entry: x #1, env\n");
    let install = ["install", "--editor", "codex", "--no-hooks"];
    desk.relay(&install).assert().code(0).stdout(told);
}

#[test]
fn what_was_added_to_hooks_as_relay_itself_would_write_it_is_kept_when_they_are_taken_out() {
    let desk = Desk::new();
    let file = desk.project.join(".gemini/settings.json");
    let install = ["install", "--editor", "gemini"];
    desk.relay(&install).assert().code(0);
    let text = fs::read_to_string(&file).expect("it is there");
    let (head, added) = ("\"type\": \"command\",\n", "            \"timeout\": 5,\n");
    let text = text.replacen(head, &format!("{head}{added}"), 1);
    desk.write(&file, &text);
    let without = [&install[..], &["--no-hooks"]].concat();
    let told = contains("; no longer in relay's entry: what was added to its hooks\n");
    desk.relay(&without).assert().code(0).stdout(told);
    assert_eq!(desk.json(&file).get("hooks"), None);
    assert_eq!(fs::read_to_string(desk.backup(&file)).expect("it is kept"), text);
}

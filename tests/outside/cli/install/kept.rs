//! What installing and uninstalling leave as it is.

use super::*;

/// Files as people have them, each under the names of the editors whose it may be.
const ODD: [&str; 7] = [
    "",
    "{}",
    "{\n}\r\n",
    "\u{feff}{\r\n\t\"a\": 1\r\n}\r\n",
    "// mine\n{\n      \"hooks\": { /* none yet */ },\n\n\n  \"mcpServers\": {}, // empty\n}\n",
    "{\"mcpServers\":{\"other\":{\"url\":\"http://localhost:7331/sse\"}},\"hooks\":{\"Stop\":[]}}",
    "{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"echo relay hook claude\"}]},\n    ],\n  },\n}",
];

#[test]
fn what_was_there_is_there_again_byte_for_byte_after_uninstall() {
    let json = |name: &str, project: bool| (name.to_owned(), project);
    let files = [
        json(".mcp.json", true),
        json(".claude/settings.local.json", true),
        json(".codex/hooks.json", false),
        json(".gemini/settings.json", true),
        json("opencode.jsonc", true),
        json(".opencode/plugin/relay.js", true),
        json(".cursor/mcp.json", true),
        json(".vscode/mcp.json", true),
        json(".codeium/windsurf/mcp_config.json", false),
        json(".config/zed/settings.json", false),
    ];
    let tomls = [
        "",
        "a = 1",
        "# one\r\n[mcp_servers.b]\r\nurl = 'x' # c\r\n",
        "[mcp_servers.relay]\nurl = \"u\"\nenabled = true\n[z]\n",
        "[mcp_servers.relay]\nurl = \"http://relay.example:7331/mcp\"\nbearer_token_env_var = \"TOKEN\"\n",
    ];
    for (at, text) in ODD.iter().enumerate() {
        let desk = Desk::new();
        for (name, is_project) in &files {
            let root = if *is_project { &desk.project } else { &desk.home };
            desk.write(&root.join(name), text);
        }
        desk.write(&desk.home.join(".codex/config.toml"), tomls[at % tomls.len()]);
        let before = desk.files();
        let mut editors = vec!["install"];
        for editor in [
            "claude", "codex", "gemini", "opencode", "cursor", "vscode", "windsurf", "zed",
        ] {
            editors.extend(["--editor", editor]);
        }
        desk.relay(&editors).assert().code(0);
        let installed = desk.files();
        assert_eq!(installed.len(), before.len(), "{text}");
        for (old, new) in before.iter().zip(&installed) {
            assert_ne!(old, new, "{text}");
        }
        desk.relay(&editors).assert().code(0);
        assert_eq!(desk.files(), installed, "{text}");
        let elsewhere = [&editors[..], &["--port", "4000"]].concat();
        desk.relay(&elsewhere).assert().code(0);
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(desk.files(), before, "{text}");
        let kept = desk.backup(&desk.project.join(".mcp.json"));
        assert!(!kept.exists(), "it is the file itself");
    }
}

#[test]
fn what_others_have_changed_since_stays() {
    let desk = Desk::new();
    let file = desk.project.join(".gemini/settings.json");
    let old = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"}\n  }\n}\n";
    desk.write(&file, old);
    desk.relay(&["install", "--editor", "gemini"]).assert().code(0);
    let kept = desk.backup(&file);
    assert_eq!(fs::read_to_string(&kept).expect("it is kept"), old);
    let later = |text: &str| text.replace("\"a\"}", "\"b\", /* new */ \"c\": 1}");
    let theirs = later(&fs::read_to_string(&file).expect("it is there"));
    fs::write(&file, theirs).expect("a file");
    let told = format!(
        "Gemini CLI: changed {}; as it was before install: {}\n",
        file.display(),
        kept.display()
    );
    desk.relay(&["uninstall"]).assert().code(0).stdout(told);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), later(old));
}

#[test]
fn what_is_kept_of_a_file_that_is_gone_is_not_what_was_before_the_next_one() {
    let desk = Desk::new();
    let files = [
        desk.project.join(".mcp.json"),
        desk.project.join(".opencode/plugin/relay.js"),
    ];
    let install = ["install", "--editor", "claude", "--editor", "opencode"];
    for (round, file) in files.iter().cycle().take(4).enumerate() {
        let old = format!("{{\"round\": {round}}}");
        desk.write(file, &old);
        desk.relay(&install).assert().code(0);
        assert_eq!(fs::read_to_string(desk.backup(file)).expect("it is kept"), old);
        // Whatever the person does with it: what is kept stays behind.
        for (path, _) in desk.files() {
            fs::remove_file(path).expect("it is there");
        }
        let aside = PathBuf::from(format!("{}.{}", desk.backup(file).display(), round / 2 + 1));
        let told = format!(
            "made {}; what was kept of an older one: {}\n",
            file.display(),
            aside.display()
        );
        desk.relay(&install).assert().code(0).stdout(contains(told));
        assert_eq!(fs::read_to_string(&aside).expect("it is kept"), old);
        // As when a person adds something of their own for a while.
        if round == 0 {
            let installed = fs::read_to_string(file).expect("it is there");
            desk.write(file, &format!("{installed}\n"));
        }
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(desk.files(), [], "round {round}");
    }
}

#[test]
fn a_hook_of_others_in_relays_group_stays() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.local.json");
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    let mine = json!({"type": "command", "command": "make"});
    let mut settings = desk.json(&file);
    let hooks = settings["hooks"]["Stop"][0]["hooks"]
        .as_array_mut()
        .expect("an array");
    hooks.push(mine.clone());
    desk.write(&file, &settings.to_string());
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.json(&file), json!({"hooks": {"Stop": [{"hooks": [mine]}]}}));
}

#[test]
fn a_hook_of_others_stays_behind_both_of_relays_in_one_group() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.local.json");
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    let mine = json!({"type": "command", "command": "make"});
    let mut settings = desk.json(&file);
    let groups = settings["hooks"]["Stop"].as_array_mut().expect("an array");
    let wait = groups.pop().expect("the group of the waiter");
    let hooks = groups[0]["hooks"].as_array_mut().expect("an array");
    hooks.extend([wait["hooks"][0].clone(), mine.clone()]);
    desk.write(&file, &settings.to_string());
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.json(&file), json!({"hooks": {"Stop": [{"hooks": [mine]}]}}));
}

#[test]
fn a_name_that_stands_twice_among_the_approved_goes_twice() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.local.json");
    desk.relay(&["install", "--editor", "claude", "--no-hooks"])
        .assert()
        .code(0);
    desk.write(&file, r#"{"enabledMcpjsonServers": ["relay", "mine", "relay"]}"#);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.json(&file), json!({"enabledMcpjsonServers": ["mine"]}));
}

#[test]
fn a_token_is_named_by_its_variable_and_one_that_was_copied_goes() {
    let desk = Desk::new();
    let secret = "a-token-of-some-length";
    let file = desk.project.join(".mcp.json");
    let headers = json!({"authorization-of-mine": "x", "Authorization": format!("Bearer {secret}")});
    let entry = json!({"type": "sse", "url": "http://localhost:7331/sse", "headers": headers});
    desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
    let mut install = vec!["install", "--no-hooks"];
    for editor in [
        "claude", "codex", "gemini", "opencode", "cursor", "vscode", "windsurf", "zed",
    ] {
        install.extend(["--editor", editor]);
    }
    let told =
        contains("VS Code gets no token from relay install; accepted: --transport stdio, or its own way ")
            .and(contains("Zed gets no token from relay install; "));
    desk.relay(&install)
        .env("RELAY_TOKEN", secret)
        .assert()
        .code(0)
        .stderr(told);
    for (path, text) in desk.files() {
        assert!(!text.contains(secret), "{}: {text}", path.display());
    }
    let sent = |path: PathBuf, way: &str| desk.json(&path).pointer(way).cloned();
    let header = |variable: &str| Some(json!({"Authorization": format!("Bearer {variable}")}));
    let mut claude = json!({"authorization-of-mine": "x"});
    claude["Authorization"] = json!("Bearer ${RELAY_TOKEN:-}");
    assert_eq!(sent(file, "/mcpServers/relay/headers"), Some(claude));
    let gemini = sent(
        desk.project.join(".gemini/settings.json"),
        "/mcpServers/relay/headers",
    );
    assert_eq!(gemini, header("${RELAY_TOKEN:-}"));
    let opencode = sent(desk.project.join("opencode.json"), "/mcp/relay/headers");
    assert_eq!(opencode, header("{env:RELAY_TOKEN}"));
    let cursor = sent(desk.project.join(".cursor/mcp.json"), "/mcpServers/relay/headers");
    assert_eq!(cursor, header("${env:RELAY_TOKEN}"));
    let windsurf = desk.home.join(".codeium/windsurf/mcp_config.json");
    assert_eq!(
        sent(windsurf, "/mcpServers/relay/headers"),
        header("${env:RELAY_TOKEN}")
    );
    let codex = fs::read_to_string(desk.home.join(".codex/config.toml")).expect("it is there");
    assert!(
        codex.ends_with("\nbearer_token_env_var = \"RELAY_TOKEN\"\n"),
        "{codex}"
    );
}

#[test]
fn a_persons_additions_to_relays_hooks_stay() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.local.json");
    let install = ["install", "--editor", "claude"];
    desk.relay(&install).assert().code(0);
    let added = |port: &str| {
        let mut hooks = claude_hooks(port);
        let tool = &mut hooks["PostToolUse"][0];
        tool["matcher"] = json!("Bash");
        tool["hooks"][0]["timeout"] = json!(5);
        for hook in ["Stop", "SessionStart"].map(|event| format!("/{event}/1/hooks/0/command")) {
            let command = hooks.pointer_mut(&hook).expect("it waits");
            *command = json!(format!("{} --agent dev-a", command.as_str().expect("a text")));
        }
        hooks
    };
    let settings =
        json!({"enabledMcpjsonServers": ["relay"], "permissions": permissions(), "hooks": added("")});
    desk.write(&file, &settings.to_string());
    let before = desk.files();
    let same = contains(format!("Claude Code: {} is as it should be\n", file.display()));
    desk.relay(&install).assert().code(0).stdout(same);
    assert_eq!(desk.files(), before);
    desk.relay(&[&install[..], &["--port", "4000"]].concat())
        .assert()
        .code(0);
    assert_eq!(desk.json(&file)["hooks"], added(" --port 4000"));
    let aside = PathBuf::from(format!("{}.1", desk.backup(&file).display()));
    let told = format!("; with what was added to relay's hooks: {}\n", aside.display());
    let last = fs::read_to_string(&file).expect("it is there");
    desk.relay(&["uninstall"]).assert().code(0).stdout(contains(told));
    assert_eq!(desk.files(), []);
    assert_eq!(fs::read_to_string(aside).expect("it is kept"), last);
}

#[test]
fn a_persons_additions_to_relays_entry_stay_for_as_long_as_they_mean_the_same() {
    let desk = Desk::new();
    let file = desk.project.join(".mcp.json");
    let entry = json!({"type": "sse", "url": "http://localhost:7331/sse", "headers": {"A": "b"}});
    desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
    let install = ["install", "--editor", "claude", "--transport"];
    desk.relay(&[&install[..], &["http"]].concat()).assert().code(0);
    let url = "http://localhost:7331/mcp?agent=${RELAY_AGENT:-}";
    let entry = json!({"type": "http", "url": url, "headers": {"A": "b"}});
    assert_eq!(desk.json(&file), json!({"mcpServers": {"relay": entry}}));
    desk.relay(&[&install[..], &["stdio"]].concat()).assert().code(0);
    let entry = json!({"type": "stdio", "command": RELAY, "args": ["mcp"]});
    assert_eq!(desk.json(&file), json!({"mcpServers": {"relay": entry}}));
}

#[test]
fn a_link_stays_one_and_the_mode_is_kept() {
    let desk = Desk::new();
    let (link, file) = (
        desk.project.join(".mcp.json"),
        desk.home.join("dotfiles/mcp.json"),
    );
    desk.write(&file, "{}\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("it is one's own");
    symlink("../home/dotfiles/mcp.json", &link).expect("a link");
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    assert!(link.is_symlink());
    assert_eq!(mode(&file), 0o640);
    assert_eq!(mode(&desk.backup(&file)), 0o640);
    assert_eq!(desk.json(&file)["mcpServers"]["relay"]["type"], "sse");
    desk.relay(&["uninstall"]).assert().code(0);
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "{}\n");
    assert_eq!(mode(&file), 0o640);
}

#[test]
fn a_file_is_kept_by_the_path_to_which_its_link_leads_as_the_system_goes_it() {
    let desk = Desk::new();
    let file = desk.home.join("dotfiles/mcp.json");
    let settings = desk.home.join("far/away/settings.json");
    fs::create_dir_all(desk.home.join("far/away/claude")).expect("a directory");
    symlink(desk.home.join("far/away/claude"), desk.project.join(".claude")).expect("a link");
    let surplus = "../".repeat(40);
    let to_file = format!("{surplus}{}", &file.display().to_string()[1..]);
    symlink(to_file, desk.project.join(".mcp.json")).expect("a link");
    symlink(
        "../settings.json",
        desk.project.join(".claude/settings.local.json"),
    )
    .expect("a link");
    let old = "{\n  \"mine\": 1\n}\n";
    for file in [&file, &settings] {
        desk.write(file, old);
    }
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    for file in [&file, &settings] {
        assert_ne!(fs::read_to_string(file).expect("it is there"), old);
        assert_eq!(fs::read_to_string(desk.backup(file)).expect("it is kept"), old);
    }
    desk.relay(&["uninstall"]).assert().code(0);
    for file in [&file, &settings] {
        assert_eq!(fs::read_to_string(file).expect("it is there"), old);
        assert!(!desk.backup(file).exists(), "it is the file itself");
    }
}

#[test]
fn what_was_made_below_a_directory_that_is_named_with_dots_is_removed() {
    let desk = Desk::new();
    let config = desk.home.join("config");
    fs::create_dir(&config).expect("a directory");
    let zed = |arguments: &[&str]| {
        let named = desk.project.join("../home/config");
        desk.relay(arguments)
            .env("XDG_CONFIG_HOME", named)
            .assert()
            .code(0);
    };
    zed(&["install", "--editor", "zed"]);
    assert!(config.join("zed/settings.json").exists());
    zed(&["uninstall"]);
    assert!(!config.join("zed").exists(), "it was made for the file alone");
}

#[test]
fn an_entry_of_codex_goes_however_it_is_written() {
    let entry = "{ url = \"http://localhost:7331/mcp\" }";
    for (text, left) in [
        (
            format!("a = 1\n[mcp_servers]\nrelay = {entry}\nother = {{ command = \"x\" }} # mine\n"),
            "a = 1\n[mcp_servers]\nother = { command = \"x\" } # mine\n",
        ),
        (format!("a = 1\nmcp_servers.relay = {entry}\n"), "a = 1\n"),
        (
            "mcp_servers.relay.url = \"http://localhost:7331/mcp\"\nmcp_servers.relay.enabled = true\na = 1\n".to_owned(),
            "a = 1\n",
        ),
        (
            format!("a = 1\nmcp_servers = {{ other = {{ command = \"x\" }}, relay = {entry} }} # mine\n"),
            "a = 1\nmcp_servers = { other = { command = \"x\" } } # mine\n",
        ),
        (format!("a = 1\nmcp_servers = {{ relay = {entry} }}\n"), "a = 1\n"),
    ] {
        let desk = Desk::new();
        let file = desk.home.join(".codex/config.toml");
        desk.write(&file, &text);
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(fs::read_to_string(&file).expect("it is there"), left, "{text}");
    }
}

#[test]
fn of_directories_those_that_install_has_made_go() {
    let desk = Desk::new();
    let (mine, theirs) = (
        [".gemini", ".cursor"].map(|name| desk.project.join(name)),
        [".vscode", ".opencode/plugin", ".opencode"].map(|name| desk.project.join(name)),
    );
    for directory in &mine {
        fs::create_dir(directory).expect("a directory");
    }
    let mut install = vec!["install"];
    for editor in ["gemini", "cursor", "vscode", "opencode"] {
        install.extend(["--editor", editor]);
    }
    desk.relay(&install).assert().code(0);
    assert!(theirs.iter().all(|directory| directory.is_dir()));
    desk.relay(&["uninstall"]).assert().code(0);
    assert!(mine.iter().all(|directory| directory.is_dir()));
    assert!(theirs.iter().all(|directory| !directory.exists()));
    // What is made by hand now stays.
    fs::create_dir(&theirs[0]).expect("a directory");
    desk.relay(&install).assert().code(0);
    desk.relay(&["uninstall"]).assert().code(0);
    assert!(theirs[0].is_dir());
    assert_eq!(desk.files(), []);
}

#[test]
fn a_command_of_ones_own_behind_relays_is_kept_when_what_install_kept_goes() {
    let own = "my-audit-tool --strict";
    for (editor, file, event) in [
        ("gemini", ".gemini/settings.json", "BeforeTool"),
        ("claude", ".claude/settings.local.json", "PreToolUse"),
    ] {
        let desk = Desk::new();
        let file = desk.project.join(file);
        let command = format!("relay hook {editor} && {own}");
        let group = json!({"matcher": "edit", "hooks": [{"type": "command", "command": command}]});
        desk.write(&file, &json!({"hooks": {event: [group]}}).to_string());
        desk.relay(&["install", "--editor", editor]).assert().code(0);
        desk.relay(&["uninstall"]).assert().code(0);
        let kept = fs::read_to_string(desk.backup(&file)).expect("it is kept");
        assert!(kept.contains(own), "{kept}");
    }
}

#[test]
fn hooks_that_install_made_go_with_their_file_when_none_are_wanted() {
    let desk = Desk::new();
    let file = desk.home.join(".codex/hooks.json");
    desk.relay(&["install", "--editor", "codex"]).assert().code(0);
    assert!(file.exists());
    desk.relay(&["install", "--editor", "codex", "--no-hooks"])
        .assert()
        .code(0);
    assert!(!file.exists(), "Codex complains of an empty one");
}

#[test]
fn an_installation_without_hooks_is_not_what_was_before() {
    let desk = Desk::new();
    let settings = desk.project.join(".claude/settings.local.json");
    desk.relay(&["install", "--editor", "claude", "--no-hooks"])
        .assert()
        .code(0);
    let mut there = desk.json(&settings);
    there["mine"] = json!(1);
    desk.write(&settings, &there.to_string());
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    let told = desk.relay(&["uninstall"]).assert().code(0);
    let told = String::from_utf8_lossy(&told.get_output().stdout).into_owned();
    assert_eq!(desk.json(&settings), json!({"mine": 1}), "{told}");
}

#[test]
fn a_byte_order_mark_that_somebody_takes_out_stays_out_and_no_comment_is_lost_behind_one() {
    let changes: [fn(&str) -> String; 2] = [
        |text| text.trim_start_matches('\u{feff}').to_owned(),
        |text| text.replace("\"mine\": 1", "\"mine\": 2"),
    ];
    for change in changes {
        let desk = Desk::new();
        let file = desk.project.join(".cursor/mcp.json");
        let old = "\u{feff}// mine\n{\n  \"mine\": 1\n}\n";
        desk.write(&file, old);
        desk.relay(&["install", "--editor", "cursor"]).assert().code(0);
        let installed = fs::read_to_string(&file).expect("it is there");
        desk.write(&file, &change(&installed));
        let told = format!(
            "Cursor: changed {}; as it was before install: {}\n",
            file.display(),
            desk.backup(&file).display()
        );
        desk.relay(&["uninstall"]).assert().code(0).stdout(told);
        assert_eq!(fs::read_to_string(&file).expect("it is there"), change(old));
    }
}

#[test]
fn hooks_of_an_event_in_another_order_are_nothing_that_was_added() {
    let desk = Desk::new();
    let file = desk.project.join(".claude/settings.local.json");
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    let mut settings = desk.json(&file);
    let groups = settings["hooks"]["Stop"].as_array_mut().expect("an array");
    groups.reverse();
    desk.write(&file, &settings.to_string());
    let untold = contains("what was added").not();
    desk.relay(&["uninstall"]).assert().code(0).stdout(untold);
    assert_eq!(desk.files(), []);
    assert!(
        !desk.backup(&file).exists(),
        "nothing of anybody else's was there"
    );
}

#[test]
fn an_empty_object_of_hooks_that_is_a_persons_stays_where_none_are_wanted() {
    let desk = Desk::new();
    let file = desk.project.join(".gemini/settings.json");
    desk.write(&file, "{\"hooks\": {}, \"theme\": \"dark\"}");
    let install = ["install", "--editor", "gemini", "--no-hooks"];
    desk.relay(&install).assert().code(0);
    assert_eq!(desk.json(&file)["hooks"], json!({}));
}

#[test]
fn a_token_is_sent_over_the_other_way_of_an_address_too_and_a_bridge_lacks_none() {
    let desk = Desk::new();
    let install = |editor: &str, transport: &str| {
        let arguments = [
            "install",
            "--no-hooks",
            "--editor",
            editor,
            "--transport",
            transport,
        ];
        let mut command = desk.relay(&arguments);
        command
            .env("RELAY_TOKEN", "a-token-of-some-length")
            .assert()
            .code(0)
    };
    install("gemini", "sse");
    let gemini = desk.json(&desk.project.join(".gemini/settings.json"));
    let header = json!({"Authorization": "Bearer ${RELAY_TOKEN:-}"});
    assert_eq!(gemini["mcpServers"]["relay"]["headers"], header);
    for editor in ["vscode", "zed"] {
        install(editor, "stdio").stderr(contains("gets no token").not());
    }
}

#[test]
fn what_is_kept_lies_where_nobody_else_looks_and_a_new_file_is_as_any_other() {
    let desk = Desk::new();
    let (old, new) = (
        desk.project.join(".cursor/mcp.json"),
        desk.project.join(".vscode/mcp.json"),
    );
    desk.write(&old, "{}\n");
    let install = ["install", "--editor", "cursor", "--editor", "vscode"];
    desk.relay(&install).assert().code(0);
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    let kept = desk.backup(&old);
    assert_eq!(mode(kept.parent().expect("it lies in a directory")), 0o700);
    let other = desk.project.join("other");
    desk.write(&other, "");
    assert_eq!(mode(&new), mode(&other));
}

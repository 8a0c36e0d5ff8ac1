//! Whose an entry is that is called relay: what install has written goes with uninstall, and what anybody else has written stays, or is kept.

use super::*;

/// Files in which another program's entry has relay's name, each with the editor whose file it is.
fn of_others(desk: &Desk) -> [(&'static str, PathBuf, &'static str); 4] {
    [
        (
            "claude",
            desk.project.join(".mcp.json"),
            r#"{"mcpServers":{"relay":{"command":"npx","args":["-y","@acme/relay-server"],"env":{"KEY":"s3cret"}}}}"#,
        ),
        (
            "codex",
            desk.home.join(".codex/config.toml"),
            "[mcp_servers.relay]\nurl = \"https://relay.acme.example/mcp\"\nbearer_token_env_var = \"s3cret\"\n",
        ),
        (
            "cursor",
            desk.project.join(".cursor/mcp.json"),
            r#"{"mcpServers":{"relay":{"url":"https://relay.acme.example/mcp","headers":{"A":"s3cret"}}}}"#,
        ),
        (
            "gemini",
            desk.project.join(".gemini/settings.json"),
            r#"{"mcpServers":{"relay":{"httpUrl":"https://relay.acme.example/mcp","trust":true,"env":{"A":"s3cret"}}}}"#,
        ),
    ]
}

#[test]
fn another_programs_entry_is_none_of_relays_before_install_and_after_uninstall() {
    let desk = Desk::new();
    let mut install = vec!["install"];
    for (editor, path, text) in of_others(&desk) {
        desk.write(&path, text);
        install.extend(["--editor", editor]);
    }
    // As Claude Code writes it down itself.
    let approved = "{\n  \"enabledMcpjsonServers\": [\n    \"relay\"\n  ]\n}\n";
    desk.write(&desk.project.join(".claude/settings.local.json"), approved);
    let before = desk.files();
    let named = |(_, path, _): &(&str, PathBuf, &str)| {
        format!(
            ": the entry called relay in {} may not be one that install wrote, and stays\n",
            path.display()
        )
    };
    let undo = || {
        let undone = desk.relay(&["uninstall"]).assert().code(3).stdout("");
        let said = String::from_utf8_lossy(&undone.get_output().stderr).into_owned();
        for other in of_others(&desk) {
            assert!(said.contains(&named(&other)), "{said}");
        }
        assert!(
            said.ends_with("nothing of relay's is in the files of these editors\n"),
            "{said}"
        );
        assert_eq!(desk.files(), before);
    };
    undo();
    desk.relay(&install).assert().code(0);
    for (_, path, text) in of_others(&desk) {
        let installed = fs::read_to_string(&path).expect("it is there");
        for theirs in ["s3cret", "trust", "env"] {
            assert!(!installed.contains(theirs), "{installed}");
        }
        assert_eq!(fs::read_to_string(desk.backup(&path)).expect("it is kept"), text);
    }
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), before);
    undo();
}

#[test]
fn a_server_of_somebody_elses_on_this_machine_stays_and_gives_relay_nothing() {
    for (key, way, entry) in [
        ("url", "http://localhost:9000/mcp", json!({})),
        ("url", "http://127.0.0.1:9000/sse?tools=all", json!({})),
        ("url", "http://localhost/mcp", json!({})),
        // An editor starts the program of one that has both.
        ("command", "other", json!({"url": "http://localhost:7331/mcp"})),
    ] {
        let desk = Desk::new();
        let cursor = desk.project.join(".cursor/mcp.json");
        let mut entry = entry;
        entry[key] = json!(way);
        entry["headers"] = json!({"A": "s3cret"});
        entry["trust"] = json!(true);
        let text = json!({"mcpServers": {"relay": entry}}).to_string();
        desk.write(&cursor, &text);
        let stays = contains("may not be one that install wrote, and stays\n");
        let uninstall = ["uninstall", "--editor", "cursor"];
        desk.relay(&uninstall).assert().code(3).stderr(stays.clone());
        assert_eq!(fs::read_to_string(&cursor).expect("it is there"), text);
        let told = contains(format!(
            "; as it was: {}; no longer in relay's entry: {way}, headers, trust\n",
            desk.backup(&cursor).display()
        ));
        let install = ["install", "--editor", "cursor"];
        desk.relay(&install).assert().code(0).stdout(told);
        let entry = json!({"url": "http://localhost:7331/mcp"});
        assert_eq!(desk.json(&cursor), json!({"mcpServers": {"relay": entry}}));
        assert_eq!(
            fs::read_to_string(desk.backup(&cursor)).expect("it is kept"),
            text
        );
        desk.relay(&uninstall).assert().code(0);
        assert_eq!(fs::read_to_string(&cursor).expect("it is there"), text);
    }
}

#[test]
fn an_entry_with_a_program_and_an_address_is_whose_its_type_says() {
    let desk = Desk::new();
    let opencode = desk.project.join("opencode.json");
    for (kind, is_relays) in [("remote", true), ("local", false)] {
        let entry = json!({"type": kind, "url": "http://localhost:7331/mcp", "command": ["other"]});
        desk.write(
            &opencode,
            &json!({"mcp": {"relay": entry}, "mine": 1}).to_string(),
        );
        let uninstall = ["uninstall", "--editor", "opencode"];
        desk.relay(&uninstall)
            .assert()
            .code(if is_relays { 0 } else { 3 });
        assert_eq!(desk.json(&opencode).get("mcp").is_none(), is_relays, "{kind}");
    }
}

#[test]
fn an_entry_of_gemini_cli_with_a_program_and_an_address_is_whose_its_address_says() {
    for (key, program, port, is_relays) in [
        ("httpUrl", "other", 7331, true),
        ("url", "other", 7331, true),
        ("httpUrl", "relay", 9000, false),
        ("url", "relay", 9000, false),
    ] {
        let desk = Desk::new();
        let gemini = desk.project.join(".gemini/settings.json");
        let mut entry = json!({"type": "stdio", "command": program, "args": ["mcp"]});
        entry[key] = json!(format!("http://localhost:{port}/mcp"));
        let settings = json!({"mcpServers": {"relay": entry, "other": {"command": "x"}}});
        desk.write(&gemini, &settings.to_string());
        let uninstall = ["uninstall", "--editor", "gemini"];
        desk.relay(&uninstall)
            .assert()
            .code(if is_relays { 0 } else { 3 });
        let is_left = desk.json(&gemini)["mcpServers"].get("relay").is_some();
        assert_eq!(is_left, !is_relays, "{key} {port}");
    }
}

#[test]
fn what_install_has_written_for_another_port_is_its_own_in_each_editor() {
    for editor in [
        "claude", "codex", "gemini", "opencode", "cursor", "vscode", "windsurf", "zed",
    ] {
        let desk = Desk::new();
        let install = ["install", "--editor", editor, "--transport", "http", "--port"];
        for port in ["4000", "4001", "7331", "4000"] {
            desk.relay(&[&install[..], &[port]].concat()).assert().code(0);
        }
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(desk.files(), [], "{editor}");
        let data = desk.home.join(".local/share/relay");
        assert!(!data.exists(), "{editor}: there was nothing of anybody else's");
    }
}

#[test]
fn what_names_relay_stays_for_another_programs_entry_and_where_no_installation_would_leave_it_alone() {
    let other = r#"{"mcpServers":{"relay":{"command":"npx","args":["-y","@acme/relay-server"]}}}"#;
    let approved = "{\n  \"enabledMcpjsonServers\": [\"relay\"]\n}\n";
    let allowed = "{\n  \"permissions\": {\n    \"allow\": [\"mcp__relay\"]\n  }\n}\n";
    for (servers, settings) in [(other, approved), (other, allowed), ("{}", allowed)] {
        let desk = Desk::new();
        desk.write(&desk.project.join(".mcp.json"), servers);
        // Laid out as relay does it, too.
        desk.write(&desk.project.join(".claude/settings.local.json"), settings);
        let before = desk.files();
        desk.relay(&["uninstall"]).assert().code(3);
        assert_eq!(desk.files(), before);
    }
}

#[test]
fn hooks_go_also_where_another_programs_entry_stays() {
    for (before, is_installed_again) in [("{}", false), ("{}", true), (r#"{"mine": 1}"#, true)] {
        let desk = Desk::new();
        let file = desk.project.join(".gemini/settings.json");
        let install = ["install", "--editor", "gemini"];
        desk.write(&file, before);
        desk.relay(&install).assert().code(0);
        let mut settings = desk.json(&file);
        settings["mcpServers"]["relay"] = json!({"command": "npx"});
        desk.write(&file, &settings.to_string());
        if is_installed_again {
            desk.relay(&install).assert().code(0);
            assert_ne!(desk.json(&file)["mcpServers"]["relay"]["command"], "npx");
        }
        desk.relay(&["uninstall"]).assert().code(0);
        let mut left: Value = serde_json::from_str(before).expect("JSON");
        left["mcpServers"] = json!({"relay": {"command": "npx"}});
        assert_eq!(desk.json(&file), left);
    }
}

#[test]
fn what_was_kept_of_an_earlier_file_is_set_aside_when_the_next_one_is_kept() {
    for at in 0..4 {
        let desk = Desk::new();
        let (editor, path, text) = of_others(&desk)[at].clone();
        desk.write(&path, text);
        let install = ["install", "--no-hooks", "--editor", editor];
        desk.relay(&install).assert().code(0);
        // As when somebody has changed the file since.
        let installed = fs::read_to_string(&path).expect("it is there");
        desk.write(&path, &format!("{installed}\n"));
        desk.relay(&["uninstall"]).assert().code(0);
        let kept = desk.backup(&path);
        assert_eq!(fs::read_to_string(&kept).expect("it is kept"), text);
        let left = if editor == "codex" {
            "a = 1\n"
        } else {
            "{\"a\": 1}"
        };
        desk.write(&path, left);
        let aside = PathBuf::from(format!("{}.1", kept.display()));
        let told = format!(
            "changed {}; as it was: {}; what was kept of an earlier one: {}\n",
            path.display(),
            kept.display(),
            aside.display()
        );
        desk.relay(&install).assert().code(0).stdout(contains(told));
        assert_eq!(fs::read_to_string(&kept).expect("it is kept"), left);
        assert_eq!(fs::read_to_string(&aside).expect("it is kept"), text);
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(fs::read_to_string(&path).expect("it is there"), left);
    }
}

#[test]
fn what_install_has_made_goes_however_often_it_has_run_and_whoever_has_added_something() {
    let timeout = |text: &str| text.replacen("\"url\"", "\"timeout\": 5, \"url\"", 1);
    let other = |text: &str| text.replacen('{', "{\"a\": 1,", 1);
    let servers = |text: &str| text.replacen("\"relay\"", "\"b\": {\"url\": \"x\"}, \"relay\"", 1);
    let changes: [&dyn Fn(&str) -> String; 3] = [&timeout, &other, &servers];
    for (at, change) in changes.iter().enumerate() {
        for editor in ["claude", "opencode", "cursor"] {
            let desk = Desk::new();
            let install = ["install", "--editor", editor];
            desk.relay(&install).assert().code(0);
            let (file, key) = match editor {
                "claude" => (desk.project.join(".mcp.json"), "mcpServers"),
                "opencode" => (desk.project.join("opencode.json"), "mcp"),
                _ => (desk.project.join(".cursor/mcp.json"), "mcpServers"),
            };
            desk.write(&file, &change(&fs::read_to_string(&file).expect("it is there")));
            for port in ["4000", "4001"] {
                let elsewhere = [&install[..], &["--port", port]].concat();
                desk.relay(&elsewhere).assert().code(0);
            }
            desk.relay(&["uninstall"]).assert().code(0);
            if at == 0 {
                assert_eq!(desk.files(), [], "{editor}");
                continue;
            }
            assert_eq!(desk.files().len(), 1, "{editor}");
            let left = desk.json(&file);
            assert_eq!(left[key]["relay"], Value::Null, "{editor}: {left}");
            assert!(left["a"] == 1 || left[key]["b"]["url"] == "x", "{editor}: {left}");
            assert!(!desk.backup(&file).exists(), "all of it is in the file");
            desk.relay(&["uninstall"]).assert().code(3);
        }
    }
}

#[test]
fn an_entry_that_relay_may_have_written_goes_and_what_was_added_to_it_is_kept() {
    for text in [
        "{\"mcpServers\": {\"relay\": {\"type\": \"sse\", \"url\": \"http://localhost:7331/sse?agent=${RELAY_AGENT:-}\", \"timeout\": 5}}}\n",
        // Laid out as relay does it, too.
        "{\n  \"mcpServers\": {\n    \"relay\": {\n      \"type\": \"sse\",\n      \"url\": \"http://localhost:7331/sse?agent=${RELAY_AGENT:-}\",\n      \"timeout\": 5\n    }\n  }\n}\n",
    ] {
        let desk = Desk::new();
        let file = desk.project.join(".mcp.json");
        desk.write(&file, text);
        desk.relay(&["install", "--editor", "claude", "--port", "4000"])
            .assert()
            .code(0);
        assert_eq!(desk.json(&file)["mcpServers"]["relay"]["timeout"], 5);
        let told = contains(format!(
            "removed {}, in which nothing else was; what is kept of it: {}\n",
            file.display(),
            desk.backup(&file).display()
        ));
        desk.relay(&["uninstall"]).assert().code(0).stdout(told);
        assert_eq!(desk.files(), []);
        assert_eq!(fs::read_to_string(desk.backup(&file)).expect("it is kept"), text);
    }
}

#[test]
fn an_entry_for_a_relay_that_somebody_has_written_is_given_back() {
    for port in ["9", "7331"] {
        let text = format!(
            "{{\n  \"mcpServers\": {{\n    \"relay\": {{\n      \"type\": \"sse\",\n      \"url\": \"http://localhost:{port}/sse\"\n    }}\n  }}\n}}\n"
        );
        let desk = Desk::new();
        let file = desk.project.join(".mcp.json");
        desk.write(&file, &text);
        desk.relay(&["install", "--editor", "claude"]).assert().code(0);
        desk.relay(&["uninstall"]).assert().code(0);
        assert_eq!(fs::read_to_string(&file).expect("it is given back"), text);
    }
}

#[test]
fn what_a_new_entry_cannot_hold_of_the_old_one_is_kept_and_told() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    let install = ["install", "--editor", "cursor", "--transport"];
    desk.write(&file, "{\"mine\": 1}");
    desk.relay(&[&install[..], &["http"]].concat()).assert().code(0);
    let mut added = desk.json(&file);
    added["mcpServers"]["relay"]["headers"] = json!({"A": "b"});
    desk.write(&file, &added.to_string());
    let aside = PathBuf::from(format!("{}.1", desk.backup(&file).display()));
    let told = format!(
        "changed {}; as it was: {}; no longer in relay's entry: headers\n",
        file.display(),
        aside.display()
    );
    let stdio = [&install[..], &["stdio"]].concat();
    desk.relay(&stdio).assert().code(0).stdout(contains(told));
    let kept = |path: &Path| fs::read_to_string(path).expect("it is kept");
    assert_eq!(kept(&aside), added.to_string());
    assert_eq!(kept(&desk.backup(&file)), "{\"mine\": 1}");
}

#[test]
fn an_entry_whose_name_is_written_with_escapes_goes_too() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    desk.write(
        &file,
        r#"{"mcpServers": {"re\u006cay": {"url": "http://[::1]:7331/mcp"}, "b": {"url": "x"}}}"#,
    );
    desk.relay(&["install", "--editor", "cursor"]).assert().code(0);
    let filled = fs::read_to_string(&file).expect("it is there");
    let filled = filled.replace("localhost", "127.0.0.1");
    assert!(!filled.contains("relay"), "{filled}");
    desk.write(&file, &filled);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.json(&file), json!({"mcpServers": {"b": {"url": "x"}}}));
}

#[test]
fn an_entry_that_leads_to_relay_in_another_way_than_install_writes_is_relays() {
    for entry in [
        json!({"command": "npx", "args": ["-y", "relay-bus", "mcp", "--agent", "dev-b"]}),
        json!({"command": "bunx", "args": ["relay-bus@latest", "mcp"]}),
        json!({"url": "http://localhost:7331/mcp/?agent=dev-b"}),
        json!({"url": "http://localhost:${RELAY_PORT:-7331}/sse/"}),
        json!({"url": "http://[::1]:7331/mcp"}),
    ] {
        let desk = Desk::new();
        let cursor = desk.project.join(".cursor/mcp.json");
        let servers = json!({"mcpServers": {"relay": entry, "other": {"command": "x"}}});
        desk.write(&cursor, &servers.to_string());
        desk.relay(&["uninstall", "--editor", "cursor"]).assert().code(0);
        let left = json!({"mcpServers": {"other": {"command": "x"}}});
        assert_eq!(desk.json(&cursor), left, "{entry}");
    }
    for entry in [
        json!({"command": "npx", "args": ["-y", "@acme/relay", "mcp"]}),
        json!({"command": "npx", "args": ["-y", "relay-bus", "serve"]}),
        json!({"url": "http://localhost.acme.example:7331/mcp"}),
    ] {
        let desk = Desk::new();
        let cursor = desk.project.join(".cursor/mcp.json");
        desk.write(&cursor, &json!({"mcpServers": {"relay": entry}}).to_string());
        desk.relay(&["uninstall", "--editor", "cursor"]).assert().code(3);
        assert_eq!(desk.json(&cursor)["mcpServers"]["relay"], entry);
    }
}

#[test]
fn an_address_is_relays_by_its_scheme_its_path_and_an_agent_anywhere_in_its_query() {
    for (url, is_relays) in [
        ("http://localhost:9000/mcp?tools=thrum&agent=pm", true),
        ("http://127.0.0.1:9000/sse?agent=", true),
        ("https://localhost:7331/mcp", false),
        ("ws://localhost:7331/mcp?agent=pm", false),
        ("http://localhost:9000/mcp?user_agent=x", false),
        ("http://localhost:7331/mcp/v1", false),
    ] {
        let desk = Desk::new();
        let cursor = desk.project.join(".cursor/mcp.json");
        let servers = json!({"mcpServers": {"relay": {"url": url}}, "mine": 1});
        desk.write(&cursor, &servers.to_string());
        desk.relay(&["uninstall", "--editor", "cursor"])
            .assert()
            .code(if is_relays { 0 } else { 3 });
        assert_eq!(desk.json(&cursor).get("mcpServers").is_none(), is_relays, "{url}");
    }
}

#[test]
fn an_entry_with_relays_command_is_an_installations_whenever_it_was_put_in() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    let entry = json!({"command": "relay", "args": ["mcp"]});
    let text = json!({"mcpServers": {"relay": entry}, "mine": 1}).to_string();
    desk.write(&file, &text);
    let install = ["install", "--editor", "cursor", "--port", "4000"];
    desk.relay(&install).assert().code(0);
    assert_eq!(fs::read_to_string(desk.backup(&file)).expect("it is kept"), text);
    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.json(&file), json!({"mine": 1}));
}

#[test]
fn of_a_file_that_its_owner_has_put_back_uninstall_takes_and_says_nothing() {
    let text = "{\n  \"mcpServers\": {\n    \"relay\": {\n      \"type\": \"sse\",\n      \"url\": \"http://localhost:7331/sse\"\n    }\n  }\n}\n";
    let desk = Desk::new();
    let file = desk.project.join(".mcp.json");
    desk.write(&file, text);
    desk.relay(&["install", "--editor", "claude"]).assert().code(0);
    // As by `git checkout`.
    desk.write(&file, text);
    let untold = contains(".mcp.json").not();
    desk.relay(&["uninstall"]).assert().code(0).stdout(untold);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), text);
    assert!(desk.backup(&file).exists());
}

#[test]
fn what_looks_like_this_machine_and_is_the_user_of_another_one_is_not_relays() {
    for address in [
        "http://localhost:7331@there.example/mcp?agent=dev-a",
        "http://127.0.0.1:7331\\@there.example/mcp?agent=dev-a",
    ] {
        let desk = Desk::new();
        let file = desk.project.join(".mcp.json");
        let entry = json!({"type": "http", "url": address, "headers": {"Authorization": "Bearer theirs"}});
        desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
        let before = desk.files();
        desk.relay(&["uninstall", "--editor", "claude"]).assert().code(3);
        assert_eq!(desk.files(), before, "{address}");
        desk.relay(&["install", "--editor", "claude", "--no-hooks"])
            .assert()
            .code(0)
            .stdout(contains("headers"));
        assert_eq!(desk.json(&file)["mcpServers"]["relay"]["headers"], Value::Null);
    }
}

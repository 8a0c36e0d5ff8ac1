//! What keeps an editor from calling relay's tools or running its hooks, as `relay doctor` tells it.

use super::*;

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
fn what_is_off_is_told_of_a_relay_on_another_machine_and_not_of_another_program_there() {
    let desk = Desk::new();
    let relay = Relay::start_with(&[], &[("RELAY_TOKEN", "a-token-of-some-length")]);
    let (codex, opencode) = (
        desk.home.join(".codex/config.toml"),
        desk.project.join("opencode.json"),
    );
    for (port, query, is_relay, left_out) in [
        (relay.port, "?agent=pm", true, "post_message"),
        // By its answer it is known too.
        (relay.port, "", true, "post_message"),
        (free_port(), "?agent=pm", true, "post_message"),
        (free_port(), "?agent=pm&tools=thrum", true, "send_message"),
        (free_port(), "", false, "post_message"),
    ] {
        let url = format!("http://{ELSEWHERE}:{port}/mcp{query}");
        let of_codex = [
            "its entry is switched off, enabled is false; take that out".to_owned(),
            format!("disabled_tools of its entry leaves out {left_out}; take that out"),
        ];
        let of_opencode = [
            "tools has false for \"relay_*\", so that such tools are not called; take that out".to_owned(),
        ];
        desk.write(
            &codex,
            &format!(
                "[mcp_servers.relay]\nurl = '{url}'\nenabled = false\ndisabled_tools = ['{left_out}']\n"
            ),
        );
        let entry = json!({"type": "remote", "url": url});
        desk.write(
            &opencode,
            &json!({"mcp": {"relay": entry}, "tools": {"relay_*": false}}).to_string(),
        );
        for (editor, file, off) in [
            ("codex", &codex, &of_codex[..]),
            ("opencode", &opencode, &of_opencode),
        ] {
            let said = report(&desk, editor, 1);
            let mut lines = vec![
                said["configured"][0]["error"]
                    .as_str()
                    .expect("a reason")
                    .to_owned(),
            ];
            lines.extend_from_slice(if is_relay { off } else { &[] });
            let lines = lines.iter().map(|line| format!("{}: {line}", file.display()));
            assert_eq!(said["to_do"], json!(Vec::from_iter(lines)), "{url}");
        }
    }
}

#[test]
fn of_gemini_clis_settings_the_projects_count_for_more_than_those_of_its_user() {
    let desk = Desk::new();
    let relay = Relay::start();
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    install(&desk, "gemini", relay.port);
    let of_project = desk.project.join(".gemini/settings.json");
    let of_user = desk.home.join(".gemini/settings.json");
    let well = desk.json(&of_project);
    for (members, on, off) in [
        ("hooksConfig", json!({"enabled": true}), json!({"enabled": false})),
        (
            "mcp",
            json!({"allowed": ["relay"]}),
            json!({"allowed": ["other"]}),
        ),
    ] {
        for (own, users, is_well) in [(&on, &off, true), (&off, &on, false)] {
            let mut settings = well.clone();
            settings[members] = own.clone();
            desk.write(&of_project, &settings.to_string());
            desk.write(&of_user, &json!({members: users}).to_string());
            let said = report(&desk, "gemini", i32::from(!is_well));
            let to_do = said["to_do"].as_array().expect("an array");
            assert_eq!(to_do.is_empty(), is_well, "{said}");
            for line in to_do {
                let line = line.as_str().expect("text");
                assert!(line.starts_with(&of_project.display().to_string()), "{line}");
            }
        }
    }
}

#[test]
fn tools_that_are_not_among_those_that_are_named_or_are_denied_in_one_word_are_told() {
    let desk = Desk::new();
    let relay = Relay::start();
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    let gemini = desk.project.join(".gemini/settings.json");
    let windsurf = desk.home.join(".codeium/windsurf/mcp_config.json");
    let opencode = desk.project.join("opencode.json");
    let in_entry = "/mcpServers/relay";
    for (editor, file, way, member, value, told) in [
        (
            "gemini",
            &gemini,
            in_entry,
            "includeTools",
            json!(["read_messages", "list_pending", "other"]),
            Some("includeTools of its entry leaves out post_message; name them, or take that out"),
        ),
        (
            "gemini",
            &gemini,
            in_entry,
            "includeTools",
            json!(["read_messages", "list_pending", "post_message"]),
            None,
        ),
        (
            "windsurf",
            &windsurf,
            in_entry,
            "disabledTools",
            json!(["read_messages"]),
            Some("disabledTools of its entry leaves out read_messages; take that out"),
        ),
        (
            "opencode",
            &opencode,
            "",
            "permission",
            json!({"relay_*": "deny"}),
            Some("permission has deny for \"relay_*\", so that such tools are not called; take that out"),
        ),
        (
            "opencode",
            &opencode,
            "",
            "permission",
            json!("deny"),
            Some("permission has deny for \"*\", so that such tools are not called; take that out"),
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
}

#[test]
fn each_rule_that_keeps_claude_code_from_relays_tools_is_told() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "claude", relay.port);
    let all = ["mcp__relay", "mcp__relay__read_messages"];
    let rules = json!({"permissions": {"deny": all, "ask": ["mcp__relay"]}});
    let mut lines = Vec::new();
    for place in [&desk.home, &desk.project] {
        let file = place.join(".claude/settings.json");
        desk.write(&file, &rules.to_string());
        let file = file.display();
        lines.extend(all.map(|rule| {
            format!(
                "{file}: it denies {rule} in permissions.deny, so that no such tool is called; take that out"
            )
        }));
        lines.push(format!(
            "{file}: it asks for mcp__relay in permissions.ask, so that it asks before each such tool; take that out"
        ));
    }
    assert_eq!(report(&desk, "claude", 1)["to_do"], json!(lines));
}

#[test]
fn what_is_off_by_the_users_file_by_what_codex_names_and_by_several_rules_is_told() {
    let desk = Desk::new();
    let relay = Relay::start();
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    for editor in ["gemini", "codex", "opencode"] {
        install(&desk, editor, relay.port);
    }
    let users = desk.home.join(".gemini/settings.json");
    for (settings, told) in [
        (
            json!({"mcp": {"excluded": ["relay"]}}),
            "mcp.excluded names relay, so that its server is not started; take that out",
        ),
        (
            json!({"hooksConfig": {"disabled": ["relay hook gemini"]}}),
            "hooksConfig.disabled names a hook of relay's, so that it is not run; take that out",
        ),
    ] {
        desk.write(&users, &settings.to_string());
        let line = format!("{}: {told}", users.display());
        assert_eq!(report(&desk, "gemini", 1)["to_do"], json!([line]));
    }
    let codex = desk.home.join(".codex/config.toml");
    let well = fs::read_to_string(&codex).expect("it is there");
    let more = "enabled_tools = [\"read_messages\", \"list_pending\"]\n";
    desk.write(&codex, &format!("{well}{more}"));
    let line = json!(format!(
        "{}: enabled_tools of its entry leaves out post_message; name them, or take that out",
        codex.display()
    ));
    let said = report(&desk, "codex", 1)["to_do"].clone();
    assert!(said.as_array().expect("an array").contains(&line), "{said}");
    let opencode = desk.project.join("opencode.json");
    let mut settings = desk.json(&opencode);
    settings["tools"] = json!({"relay_read_messages": false, "relay_post_message": false});
    desk.write(&opencode, &settings.to_string());
    let lines = ["post_message", "read_messages"].map(|tool| {
        format!(
            "{}: tools has false for \"relay_{tool}\", so that such tools are not called; take that out",
            opencode.display()
        )
    });
    assert_eq!(report(&desk, "opencode", 1)["to_do"], json!(lines));
}

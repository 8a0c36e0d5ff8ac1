//! The hooks and the plugin of each editor, as `relay doctor` finds them.

use super::*;

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
fn relays_listener_is_none_of_its_hooks() {
    let desk = Desk::new();
    let relay = Relay::start();
    put_program(&desk, "claude", "echo '2.1.330 (Claude Code)'");
    install(&desk, "claude", relay.port);
    let listener = include_str!("../../../../plugin/agents/message-listener.md");
    for text in [listener.to_owned(), format!("{listener}more\n")] {
        desk.write(&desk.project.join(".claude/agents/message-listener.md"), &text);
        assert_eq!(report(&desk, "claude", 0)["hooks"], "current");
    }
}

#[test]
fn hooks_without_an_entry_are_told_with_what_connects_their_editor() {
    let desk = Desk::new();
    install(&desk, "claude", 7331);
    fs::remove_file(desk.project.join(".mcp.json")).expect("it is there");
    let line = format!("it has hooks but no server; connect it with: {RELAY} install --editor claude");
    let said = report(&desk, "claude", 1);
    assert_eq!(
        (&said["configured"], &said["hooks"], &said["to_do"]),
        (&json!([]), &json!("current"), &json!([line]))
    );
    let text = format!(
        "Claude Code: not well\n  program     not on PATH\n  hooks       current\n  to do       {line}\n"
    );
    desk.relay(&["doctor"]).assert().code(1).stdout(contains(text));
}

#[test]
fn of_the_two_files_of_settings_of_a_project_its_persons_own_counts_for_more() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "claude", relay.port);
    let (shared, own) = (
        desk.project.join(".claude/settings.json"),
        desk.project.join(".claude/settings.local.json"),
    );
    for is_on in [false, true] {
        let said = |is_on: bool| json!({"disableAllHooks": is_on, "enabledPlugins": {"relay@here": is_on}});
        desk.write(&shared, &said(!is_on).to_string());
        let mut settings = desk.json(&own);
        for (member, value) in said(is_on).as_object().expect("an object") {
            settings[member] = value.clone();
        }
        desk.write(&own, &settings.to_string());
        let to_do = report(&desk, "claude", i32::from(is_on))["to_do"].to_string();
        for line in ["it says disableAllHooks", "claude plugin disable relay@here"] {
            assert_eq!(to_do.contains(line), is_on, "{to_do}");
        }
    }
}

#[test]
fn codex_trusts_hooks_by_the_path_of_their_link_and_by_that_to_which_it_leads() {
    let desk = Desk::new();
    let relay = Relay::start();
    let (link, file) = (
        desk.home.join(".codex/hooks.json"),
        desk.home.join("dotfiles/hooks.json"),
    );
    desk.write(&file, "{}\n");
    fs::create_dir(desk.home.join(".codex")).expect("a directory");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    install(&desk, "codex", relay.port);
    let config = desk.home.join(".codex/config.toml");
    let installed = fs::read_to_string(&config).expect("it is there");
    for (path, is_trusted) in [(&link, true), (&file, true), (&config, false)] {
        let state = |event: &str| {
            format!(
                "\n[hooks.state.\"{}:{event}:0:0\"]\ntrusted_hash = \"sha256:0\"\n",
                path.display()
            )
        };
        let states: String = [
            "session_start",
            "user_prompt_submit",
            "post_tool_use",
            "stop",
            "session_end",
        ]
        .map(state)
        .concat();
        desk.write(&config, &format!("{installed}{states}"));
        let said = report(&desk, "codex", i32::from(!is_trusted));
        assert_eq!(said["trusted"], json!(is_trusted), "{}", path.display());
    }
}

#[test]
fn each_plugin_that_is_on_is_named_also_beside_hooks_without_a_server() {
    let desk = Desk::new();
    install(&desk, "claude", 7331);
    fs::remove_file(desk.project.join(".mcp.json")).expect("it is there");
    let plugins = json!({"enabledPlugins": {"relay@here": true, "relay@there": true}});
    desk.write(&desk.home.join(".claude/settings.json"), &plugins.to_string());
    let mut lines = vec![format!(
        "it has hooks but no server; connect it with: {RELAY} install --editor claude"
    )];
    lines.extend(["relay@here", "relay@there"].map(|plugin| {
        format!(
            "its plugin {plugin} is on as well, and brings the same tools and hooks; take one of the two out: \
             claude plugin disable {plugin}, or {RELAY} uninstall --editor claude"
        )
    }));
    assert_eq!(report(&desk, "claude", 1)["to_do"], json!(lines));
}

#[test]
fn a_hash_of_codexs_counts_for_one_hook_by_whichever_path_its_file_is_named() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "codex", relay.port);
    let (hooks, kept) = (
        desk.home.join(".codex/hooks.json"),
        desk.home.join("dotfiles/hooks.json"),
    );
    desk.write(&kept, &fs::read_to_string(&hooks).expect("it is there"));
    fs::remove_file(&hooks).expect("it is there");
    std::os::unix::fs::symlink(&kept, &hooks).expect("a link");
    let config = desk.home.join(".codex/config.toml");
    let installed = fs::read_to_string(&config).expect("it is there");
    let events = [
        "session_start",
        "user_prompt_submit",
        "post_tool_use",
        "stop",
        "session_end",
    ];
    for (file, hook, member, is_trusted) in [
        (&hooks, 0, "trusted_hash", true),
        (&kept, 0, "trusted_hash", true),
        (&hooks, 1, "trusted_hash", false),
        (&hooks, 0, "seen_hash", false),
    ] {
        let file = file.display();
        let state = events
            .map(|event| format!("\n[hooks.state.\"{file}:{event}:0:{hook}\"]\n{member} = \"sha256:0\"\n"));
        desk.write(&config, &format!("{installed}{}", state.concat()));
        let said = report(&desk, "codex", i32::from(!is_trusted));
        assert_eq!(said["trusted"], json!(is_trusted), "{file} {hook} {member}");
    }
}

#[test]
fn what_hooks_are_like_is_told_in_words_too() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "gemini", relay.port);
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    let file = desk.project.join(".gemini/settings.json");
    let installed = fs::read_to_string(&file).expect("it is there");
    for (text, hooks, code) in [
        (installed.clone(), "current", 0),
        (installed.replace(RELAY, "/old/relay"), "drifted", 1),
        (installed.replace("\"hooks\": {", "\"others\": {"), "missing", 1),
    ] {
        desk.write(&file, &text);
        let told = contains(format!("\n  hooks       {hooks}\n"));
        desk.relay(&["doctor"]).assert().code(code).stdout(told);
    }
}

//! Which files an installation changes, and what it writes there.

use super::*;

#[test]
fn claude_code_has_its_server_and_its_hooks_where_it_reads_them() {
    let desk = Desk::new();
    let (servers, settings) = (
        desk.project.join(".mcp.json"),
        desk.project.join(".claude/settings.local.json"),
    );
    let made = format!(
        "Claude Code: made {}\nClaude Code: made {}\n",
        servers.display(),
        settings.display()
    );
    let arguments = ["install", "--editor", "claude"];
    desk.relay(&arguments).assert().code(0).stdout(made);
    let url = "http://localhost:7331/sse?agent=${RELAY_AGENT:-}";
    let written = format!(
        "{{\n  \"mcpServers\": {{\n    \"relay\": {{\n      \"type\": \"sse\",\n      \"url\": \"{url}\"\n    }}\n  }}\n}}\n"
    );
    assert_eq!(fs::read_to_string(&servers).expect("it is there"), written);
    let named = json!({"enabledMcpjsonServers": ["relay"], "permissions": permissions()});
    let mut expected = named.clone();
    expected["hooks"] = claude_hooks("");
    assert_eq!(desk.json(&settings), expected);

    let same = format!(
        "Claude Code: {} is as it should be\nClaude Code: {} is as it should be\n",
        servers.display(),
        settings.display()
    );
    let before = desk.files();
    desk.relay(&arguments).assert().code(0).stdout(same).stderr("");
    assert_eq!(desk.files(), before);

    let elsewhere = [
        &arguments[..],
        &["--port", "4000", "--transport", "http", "--tools", "all"],
    ]
    .concat();
    desk.relay(&elsewhere).assert().code(0);
    let entry = json!({"type": "http", "url": "http://localhost:4000/mcp?agent=${RELAY_AGENT:-}&tools=all"});
    assert_eq!(desk.json(&servers), json!({"mcpServers": {"relay": entry}}));
    assert_eq!(desk.json(&settings)["hooks"], claude_hooks(" --port 4000"));

    let bridge = [&arguments[..], &["--transport", "stdio", "--no-hooks"]].concat();
    desk.relay(&bridge).env("RELAY_PORT", "4001").assert().code(0);
    let entry =
        json!({"type": "stdio", "command": RELAY, "args": ["mcp", "--port", "4001", "--tools", "all"]});
    assert_eq!(desk.json(&servers), json!({"mcpServers": {"relay": entry}}));
    assert_eq!(desk.json(&settings), named);

    desk.relay(&["uninstall"]).assert().code(0);
    assert_eq!(desk.files(), []);
    assert!(
        !desk.project.join(".claude").exists(),
        "it was made for the file alone"
    );
    desk.relay(&["uninstall"])
        .assert()
        .code(3)
        .stdout("")
        .stderr("nothing of relay's is in the files of these editors\n");
}

#[test]
fn for_all_projects_claude_code_has_it_in_the_users_files() {
    let desk = Desk::new();
    let arguments = ["install", "--editor", "claude", "--global"];
    desk.relay(&arguments).assert().code(0);
    let (servers, settings) = (
        desk.home.join(".claude.json"),
        desk.home.join(".claude/settings.json"),
    );
    let entry = json!({"type": "sse", "url": "http://localhost:7331/sse?agent=${RELAY_AGENT:-}"});
    assert_eq!(desk.json(&servers), json!({"mcpServers": {"relay": entry}}));
    let expected = json!({"permissions": permissions(), "hooks": claude_hooks("")});
    assert_eq!(desk.json(&settings), expected);
    desk.relay(&["uninstall"]).assert().code(3);
    desk.relay(&["uninstall", "--global"]).assert().code(0);
    assert_eq!(desk.files(), []);

    let own = desk.home.join("other");
    desk.relay(&arguments)
        .env("CLAUDE_CONFIG_DIR", &own)
        .assert()
        .code(0);
    let files: Vec<PathBuf> = desk.files().into_iter().map(|(path, _)| path).collect();
    assert_eq!(files, [own.join(".claude.json"), own.join("settings.json")]);
}

#[test]
fn each_other_editor_has_what_it_reads_where_it_reads_it() {
    let http = "http://localhost:7331/mcp";
    let gemini_hooks = json!({
        "SessionStart": groups(&[("gemini", false)]), "BeforeAgent": groups(&[("gemini", false)]),
        "AfterTool": groups(&[("gemini", false)]), "AfterAgent": groups(&[("gemini", false)]),
        "SessionEnd": groups(&[("gemini", false)]),
    });
    let codex_hooks = json!({
        "SessionStart": groups(&[("codex", false)]), "UserPromptSubmit": groups(&[("codex", false)]),
        "PostToolUse": groups(&[("codex", false)]), "Stop": groups(&[("codex", false)]),
        "SessionEnd": groups(&[("codex", false)]),
    });
    let args = json!(["mcp"]);
    let config = if cfg!(target_os = "macos") {
        "Library/Application Support"
    } else {
        ".config"
    };
    let toml = format!("[mcp_servers.relay]\nurl = \"{http}\"\n");
    let toml_stdio = format!("[mcp_servers.relay]\ncommand = \"{RELAY}\"\nargs = [\"mcp\"]\n");
    let with_agent = format!("{http}?agent=${{RELAY_AGENT:-}}");
    let sse_with_agent = "http://localhost:7331/sse?agent=${RELAY_AGENT:-}";
    let plain = json!({"command": RELAY, "args": args});
    let typed = json!({"type": "stdio", "command": RELAY, "args": args});
    let gemini = |entry: Value| json!({"mcpServers": {"relay": entry}, "hooks": gemini_hooks});
    let opencode = |way: &str| {
        let url = format!("http://localhost:7331/{way}?agent={{env:RELAY_AGENT}}");
        json!({"mcp": {"relay": {"type": "remote", "url": url}}})
    };
    let local = json!({"mcp": {"relay": {"type": "local", "command": [RELAY, "mcp"]}}});
    let named = |table: &str, entry: Value| json!({table: {"relay": entry}});
    let codex = |text: &str| {
        vec![
            (".codex/config.toml".to_owned(), Value::from(text)),
            (".codex/hooks.json".to_owned(), json!({"hooks": codex_hooks})),
        ]
    };
    let one = |path: &str, value: Value| vec![(path.to_owned(), value)];
    let vscode_url = json!({"type": "http", "url": http});
    let in_config = |path: &str| format!("{config}/{path}");
    for (arguments, is_global, expected) in [
        ("codex", false, codex(&toml)),
        ("codex --transport stdio", true, codex(&toml_stdio)),
        (
            "gemini",
            false,
            one(".gemini/settings.json", gemini(json!({"httpUrl": with_agent}))),
        ),
        (
            "gemini --transport sse",
            true,
            one(
                ".gemini/settings.json",
                gemini(json!({"url": sse_with_agent, "type": "sse"})),
            ),
        ),
        (
            "gemini --transport stdio",
            false,
            one(".gemini/settings.json", gemini(plain.clone())),
        ),
        (
            "opencode",
            false,
            vec![
                (
                    ".opencode/plugin/relay.js".to_owned(),
                    Value::from(OPENCODE_PLUGIN),
                ),
                ("opencode.json".to_owned(), opencode("mcp")),
            ],
        ),
        (
            "opencode --transport sse",
            true,
            vec![
                (".config/opencode/opencode.json".to_owned(), opencode("sse")),
                (
                    ".config/opencode/plugin/relay.js".to_owned(),
                    Value::from(OPENCODE_PLUGIN),
                ),
            ],
        ),
        (
            "opencode --transport stdio --no-hooks",
            false,
            one("opencode.json", local),
        ),
        (
            "cursor",
            false,
            one(".cursor/mcp.json", named("mcpServers", json!({"url": http}))),
        ),
        (
            "cursor --transport stdio",
            true,
            one(".cursor/mcp.json", named("mcpServers", plain.clone())),
        ),
        (
            "vscode",
            false,
            one(".vscode/mcp.json", named("servers", vscode_url)),
        ),
        (
            "vscode --transport stdio",
            true,
            one(&in_config("Code/User/mcp.json"), named("servers", typed)),
        ),
        (
            "windsurf",
            false,
            one(
                ".codeium/windsurf/mcp_config.json",
                named("mcpServers", json!({"serverUrl": http})),
            ),
        ),
        (
            "zed",
            false,
            one(
                ".config/zed/settings.json",
                named("context_servers", json!({"url": http})),
            ),
        ),
        (
            "zed --transport stdio",
            true,
            one(
                ".config/zed/settings.json",
                named("context_servers", plain.clone()),
            ),
        ),
    ] {
        let desk = Desk::new();
        let mut given = vec!["install", "--editor"];
        given.extend(arguments.split(' '));
        if is_global {
            given.push("--global");
        }
        desk.relay(&given).assert().code(0);
        let found: Vec<(PathBuf, Value)> = desk
            .files()
            .into_iter()
            .map(|(path, text)| {
                let value = serde_json::from_str(&text).unwrap_or(Value::from(text));
                (path, value)
            })
            .collect();
        let is_users = is_global || ["codex", "windsurf", "zed"].contains(&given[2]);
        let root = if is_users { &desk.home } else { &desk.project };
        let expected: Vec<(PathBuf, Value)> = expected
            .into_iter()
            .map(|(path, value)| (root.join(path), value))
            .collect();
        assert_eq!(found, expected, "{arguments}");
        let mut given = vec!["uninstall"];
        given.extend(is_global.then_some("--global"));
        desk.relay(&given).assert().code(0);
        assert_eq!(desk.files(), [], "{arguments}");
    }
}

#[test]
fn uninstall_says_of_a_file_that_it_counted_for_all_projects() {
    let desk = Desk::new();
    desk.write(&desk.home.join(".codex/config.toml"), "a = 1\n");
    let install = [
        "install", "--editor", "codex", "--editor", "zed", "--editor", "cursor",
    ];
    let config = desk.home.join(".config/zed/settings.json");
    for (uninstall, said) in [
        (&["uninstall"][..], "; it counted for all projects"),
        (&["uninstall", "--global"], ""),
    ] {
        desk.relay(&install).assert().code(0);
        let told = [
            format!(
                "Codex: changed {}, which is as it was before install{said}\n",
                desk.home.join(".codex/config.toml").display()
            ),
            format!(
                "Codex: removed {}, in which nothing else was{said}\n",
                desk.home.join(".codex/hooks.json").display()
            ),
            format!(
                "Zed: removed {}, in which nothing else was{said}\n",
                config.display()
            ),
        ];
        let lines = desk.relay(uninstall).assert().code(0);
        let lines = String::from_utf8_lossy(&lines.get_output().stdout).into_owned();
        let others: Vec<&str> = lines
            .lines()
            .filter(|line| !line.starts_with("Cursor: "))
            .collect();
        assert_eq!(others.join("\n") + "\n", told.concat());
        let projects = lines.lines().find(|line| line.starts_with("Cursor: "));
        assert!(
            projects.is_none_or(|line| line.ends_with("in which nothing else was")),
            "{lines}"
        );
    }
}

#[test]
fn those_are_found_whose_directory_or_program_is_there() {
    let desk = Desk::new();
    let none =
        contains("no editor is found on this machine; name one with --editor: claude, codex, gemini, ");
    desk.relay(&["install"]).assert().code(1).stdout("").stderr(none);
    fs::create_dir(desk.home.join(".gemini")).expect("a directory");
    let program = desk.home.join("bin/claude");
    desk.write(&program, "#!/bin/sh\n");
    let found = |expected: &[&str]| {
        let shown = desk.relay(&["install", "--dry-run"]).assert().code(0);
        let shown = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
        let files: Vec<&str> = shown
            .lines()
            .filter_map(|line| line.strip_prefix("+++ "))
            .collect();
        let expected: Vec<String> = expected
            .iter()
            .map(|name| desk.project.join(name).display().to_string())
            .collect();
        assert_eq!(files, expected);
    };
    found(&[".gemini/settings.json"]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is one's own");
    found(&[
        ".mcp.json",
        ".claude/settings.local.json",
        ".gemini/settings.json",
    ]);
}

#[test]
fn below_the_top_of_a_work_tree_it_says_which_that_is() {
    let desk = Desk::new();
    let install = ["install", "--editor", "cursor"];
    desk.write(&desk.project.join(".git/HEAD"), "");
    let below = desk.project.join("src/deep");
    fs::create_dir_all(&below).expect("a directory");
    let told = |arguments: &[&str]| {
        let told = desk.relay(arguments).current_dir(&below).assert().code(0);
        String::from_utf8_lossy(&told.get_output().stderr).into_owned()
    };
    let line = format!(
        "{} is not the top directory of its git work tree, which is {}: ",
        below.display(),
        desk.project.display()
    );
    assert!(told(&install).starts_with(&line));
    for elsewhere in ["--global", "--editor=zed"] {
        let arguments = ["install", "--editor=zed", elsewhere];
        assert!(!told(&arguments).contains(&line), "{elsewhere}");
    }
    let told = desk.relay(&install).assert().code(0);
    assert!(!String::from_utf8_lossy(&told.get_output().stderr).contains("top directory"));
}

#[test]
fn relay_is_named_alone_where_a_shell_finds_it() {
    let desk = Desk::new();
    let program = desk.home.join("bin/relay");
    fs::create_dir(desk.home.join("bin")).expect("a directory");
    symlink(RELAY, &program).expect("a link");
    desk.relay(&["install", "--editor", "codex"]).assert().code(0);
    let hooks = desk.json(&desk.home.join(".codex/hooks.json"));
    assert_eq!(
        hooks["hooks"]["Stop"][0]["hooks"][0]["command"],
        "relay hook codex"
    );
}

#[test]
fn of_several_files_that_an_editor_reads_the_first_that_is_there_is_changed() {
    for is_global in [false, true] {
        let desk = Desk::new();
        let place = if is_global {
            desk.home.join(".config/opencode")
        } else {
            desk.project.clone()
        };
        let [first, second] = ["opencode.json", "opencode.jsonc"].map(|name| place.join(name));
        for file in [&first, &second] {
            desk.write(file, "{}\n");
        }
        let before = desk.files();
        let mut arguments = vec!["install", "--editor", "opencode", "--no-hooks"];
        arguments.extend(is_global.then_some("--global"));
        desk.relay(&arguments).assert().code(0);
        assert!(
            desk.json(&first)["mcp"]["relay"].is_object(),
            "{}",
            first.display()
        );
        let text = fs::read_to_string(&second).expect("it is there");
        assert_eq!(text, "{}\n", "{}", second.display());
        arguments[0] = "uninstall";
        arguments.retain(|argument| *argument != "--no-hooks");
        desk.relay(&arguments).assert().code(0);
        assert_eq!(desk.files(), before);
    }
}

#[test]
fn what_is_to_be_done_for_hooks_is_said_where_they_are_put_in() {
    let desk = Desk::new();
    let codex = contains("Codex asks once whether its hooks are to be trusted: start codex, and trust all\n");
    let opencode = contains("OpenCode's plugin finds relay by RELAY_PORT: ");
    let install = [
        "install", "--editor", "codex", "--editor", "opencode", "--port", "4000",
    ];
    let without = [&install[..], &["--no-hooks"]].concat();
    let neither = codex.clone().not().and(opencode.clone().not());
    desk.relay(&without).assert().code(0).stderr(neither);
    desk.relay(&install).assert().code(0).stderr(codex.and(opencode));
}

#[test]
fn auto_is_whoever_is_found_beside_whoever_is_named_and_an_empty_token_is_none() {
    let desk = Desk::new();
    fs::create_dir(desk.home.join(".gemini")).expect("a directory");
    let install = ["install", "--editor", "vscode", "--editor", "auto", "--no-hooks"];
    let untold = contains("gets no token").not();
    desk.relay(&install)
        .env("RELAY_TOKEN", "")
        .assert()
        .code(0)
        .stderr(untold);
    let gemini = desk.json(&desk.project.join(".gemini/settings.json"));
    let entry = json!({"httpUrl": "http://localhost:7331/mcp?agent=${RELAY_AGENT:-}"});
    assert_eq!(gemini, json!({"mcpServers": {"relay": entry}}));
    assert!(desk.project.join(".vscode/mcp.json").exists());
    desk.relay(&["uninstall", "--editor", "auto"]).assert().code(0);
    assert_eq!(desk.files(), []);
}

#[test]
fn what_is_said_of_one_editor_is_said_of_no_other_and_only_of_what_is_changed() {
    let again = "sessions that run already see it after they are started again\n";
    for editor in [
        "claude", "codex", "gemini", "opencode", "cursor", "vscode", "windsurf", "zed",
    ] {
        let desk = Desk::new();
        let settings = desk.project.join(".claude/settings.local.json");
        let own = match editor {
            "claude" => format!(
                "Claude Code calls relay's tools without asking: mcp__relay is in permissions.allow of {0}\n\
                 Claude Code asks you before it starts a worker: mcp__relay__relay_spawn is in permissions.ask of {0}\n",
                settings.display()
            ),
            "codex" => {
                "Codex asks once whether its hooks are to be trusted: start codex, and trust all\n".to_owned()
            }
            "gemini" => {
                "Gemini CLI runs servers and a project's hooks only in a folder that you trust: start gemini there, and trust it when it asks\n"
                    .to_owned()
            }
            _ => String::new(),
        };
        let install = ["install", "--editor", editor];
        desk.relay(&install).assert().code(0).stderr(own + again);
        desk.relay(&install).assert().code(0).stderr("");
        // Of several files one is changed.
        let with_tools = [&install[..], &["--tools", "thrum"]].concat();
        let told = predicates::str::ends_with(again);
        desk.relay(&with_tools).assert().code(0).stderr(told);
    }
}

#[test]
fn each_editor_is_found_by_each_of_its_directories_and_by_its_program() {
    const CODE: &str = if cfg!(target_os = "macos") {
        "home/Library/Application Support/Code"
    } else {
        "home/.config/Code"
    };
    for (name, program, traces) in [
        ("Claude Code", "claude", &["home/.claude", "project/.claude"][..]),
        ("Codex", "codex", &["home/.codex"]),
        ("Gemini CLI", "gemini", &["home/.gemini", "project/.gemini"]),
        (
            "OpenCode",
            "opencode",
            &["home/.config/opencode", "project/.opencode"],
        ),
        ("Cursor", "cursor", &["home/.cursor", "project/.cursor"]),
        ("VS Code", "code", &[CODE, "project/.vscode"]),
        ("Windsurf", "windsurf", &["home/.codeium/windsurf"]),
        ("Zed", "zed", &["home/.config/zed"]),
    ] {
        for trace in traces.iter().copied().chain([""]) {
            let desk = Desk::new();
            if trace.is_empty() {
                let file = desk.home.join("bin").join(program);
                desk.write(&file, "#!/bin/sh\n");
                fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is one's own");
            } else {
                let top = desk.home.parent().expect("it has one");
                fs::create_dir_all(top.join(trace)).expect("a directory");
            }
            let told = desk.relay(&["install", "--no-hooks"]).assert().code(0);
            let told = String::from_utf8_lossy(&told.get_output().stdout).into_owned();
            let is_of_it = |line: &str| line.starts_with(&format!("{name}: made "));
            assert!(!told.is_empty() && told.lines().all(is_of_it), "{trace}: {told}");
        }
    }
    let desk = Desk::new();
    desk.write(&desk.home.join(".codex"), "no directory");
    let none = contains("no editor is found on this machine");
    desk.relay(&["install"]).assert().code(1).stderr(none);
}

#[test]
fn variables_say_where_the_files_of_editors_are_unless_they_are_empty() {
    let places = |value: &str| {
        let desk = Desk::new();
        let value = value.replace("HOME", desk.home.to_str().expect("text"));
        let mut install = desk.relay(&["install", "--global", "--no-hooks"]);
        for editor in ["claude", "codex", "zed"] {
            install.args(["--editor", editor]);
        }
        for variable in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"] {
            install.env(variable, &value);
        }
        install.assert().code(0);
        let top = desk.home.parent().expect("it has one");
        let below = |(path, _): &(PathBuf, String)| {
            let below = path.strip_prefix(top).expect("it is below");
            below.display().to_string()
        };
        desk.files().iter().map(below).collect::<Vec<_>>()
    };
    let config = "home/.config/zed/settings.json";
    assert_eq!(
        places(""),
        [
            "home/.claude/settings.json",
            "home/.claude.json",
            "home/.codex/config.toml",
            config
        ]
    );
    // A path that is not absolute counts from the working directory, but for XDG's, which is none then.
    assert_eq!(
        places("own"),
        [
            config,
            "project/own/.claude.json",
            "project/own/config.toml",
            "project/own/settings.json"
        ]
    );
    assert_eq!(
        places("HOME/own"),
        [
            "home/own/.claude.json",
            "home/own/config.toml",
            "home/own/settings.json",
            "home/own/zed/settings.json"
        ]
    );
}

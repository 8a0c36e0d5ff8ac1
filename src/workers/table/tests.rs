use std::path::Path;

use super::*;

fn task(cli: Cli) -> Task {
    Task {
        cli,
        name: "w1".to_owned(),
        instance: Uuid::from_u128(7),
        project: "default".to_owned(),
        parent: "Lead".to_owned(),
        text: "Run the {model} tests\nand {stop}".to_owned(),
        model: None,
        cwd: PathBuf::from("/work tree"),
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 7_331,
        token: None,
        open_files: OpenFiles(Some(1_024)),
        program: "/opt/my relay".to_owned(),
        files: Files::of(Path::new("/data"), "w1"),
    }
}

fn order(task: &Task) -> Order {
    task.order(&Config::default()).expect("it has a place for all")
}

#[test]
fn a_worker_is_told_first_who_it_is_and_then_what_to_do() {
    for cli in Cli::ALL {
        let task = task(cli);
        let prompt = task.prompt();
        assert!(prompt.starts_with("You are w1, a worker that Lead has started over relay"));
        assert!(prompt.contains("relay_send(to=\"Lead\", message=\"ACK: "));
        assert!(prompt.ends_with("Your task:\n\nRun the {model} tests\nand {stop}"));
        assert_eq!(order(&task).argv.last(), Some(&prompt), "{cli}");
    }
}

#[test]
fn a_worker_of_a_relay_at_another_address_of_this_machine_is_told_it() {
    let at = Task {
        host: "::1".parse().expect("it is one"),
        ..task(Cli::Claude)
    };
    let argv = order(&at).argv;
    let mcp: Value = serde_json::from_str(&argv[2]).expect("it is JSON");
    assert_eq!(
        mcp["mcpServers"]["relay"]["args"],
        json!(["mcp", "--tools", "agent-relay", "--host", "::1"])
    );
    let settings: Value = serde_json::from_str(&argv[4]).expect("it is JSON");
    assert_eq!(
        settings["hooks"]["Stop"][1]["hooks"][0]["command"],
        "'/opt/my relay' hook claude wait --worker --host ::1"
    );
}

#[test]
fn what_stands_before_a_model_that_is_left_out_stays_unless_it_is_an_option() {
    let config = r#"{"workers": {"codex": {"arguments": ["exec", "{model}", "-m", "{model}", "{prompt}"]}}}"#;
    let config = Config::parse(Path::new("config.json"), config.as_bytes()).expect("it is one");
    let order = task(Cli::Codex).order(&config).expect("it names no model");
    let prompt = task(Cli::Codex).prompt();
    assert_eq!(order.argv, ["codex", "exec", &prompt]);
}

#[test]
fn no_secret_stands_in_a_command_line() {
    for cli in Cli::ALL {
        let task = Task {
            token: Some("a-secret-of-20-chars".to_owned()),
            ..task(cli)
        };
        let Order { argv, mut env, .. } = order(&task);
        assert!(
            argv.iter().all(|argument| !argument.contains("secret")),
            "{argv:?}"
        );
        assert_eq!(env.remove("RELAY_TOKEN"), Some(task.token));
        let values = env.into_values().flatten();
        assert!(values.into_iter().all(|value| !value.contains("secret")));
    }
}

#[test]
fn claude_code_is_given_relay_its_hooks_and_its_tools_and_nothing_more() {
    let Order { argv, env, .. } = order(&task(Cli::Claude));
    assert_eq!(
        (argv[0].as_str(), argv[1].as_str(), argv[3].as_str(), argv.len()),
        ("claude", "--mcp-config", "--settings", 6)
    );
    let mcp: Value = serde_json::from_str(&argv[2]).expect("it is JSON");
    let args = ["mcp", "--tools", "agent-relay"];
    let relay = json!({"type": "stdio", "command": "/opt/my relay", "args": args});
    assert_eq!(mcp, json!({"mcpServers": {"relay": relay}}));
    let settings: Value = serde_json::from_str(&argv[4]).expect("it is JSON");
    assert_eq!(settings["permissions"], json!({"allow": ["mcp__relay"]}));
    let stop = &settings["hooks"]["Stop"];
    assert_eq!(
        stop[0]["hooks"][0]["command"],
        "'/opt/my relay' hook claude --worker"
    );
    assert_eq!(
        stop[1]["hooks"][0]["command"],
        "'/opt/my relay' hook claude wait --worker"
    );
    let of = |name: &str| env[name].as_deref();
    assert_eq!(
        [
            "RELAY_AGENT",
            "RELAY_PROJECT",
            "RELAY_PARENT",
            "RELAY_INSTANCE",
            "RELAY_PORT",
            "RELAY_HOOKS",
            "TMUX"
        ]
        .map(of),
        [
            Some("w1"),
            Some("default"),
            Some("Lead"),
            Some("7331/default/w1/00000000-0000-0000-0000-000000000007"),
            Some("7331"),
            Some("worker"),
            None
        ]
    );
}

/// What git itself says is of one repository alone.
fn of_repository() -> String {
    let mut git = std::process::Command::new("git");
    let listed = git.args(["rev-parse", "--local-env-vars"]).output();
    let listed = String::from_utf8(listed.expect("git is installed").stdout).expect("it is text");
    assert!(listed.contains("GIT_DIR\n"), "{listed}");
    listed
}

#[test]
fn nothing_of_relays_own_terminal_or_repository_reaches_a_worker() {
    for cli in Cli::ALL {
        let env = order(&task(cli)).env;
        for name in [
            "NO_COLOR",
            "FORCE_COLOR",
            "CLICOLOR_FORCE",
            "COLUMNS",
            "LINES",
            "TERM_PROGRAM",
            "TERM_PROGRAM_VERSION",
            "ITERM_SESSION_ID",
            "KITTY_WINDOW_ID",
            "KONSOLE_VERSION",
            "STY",
            "TMUX",
            "TMUX_PANE",
            "VTE_VERSION",
            "WEZTERM_PANE",
            "WINDOWID",
            "WT_SESSION",
            "ZELLIJ",
            "SSH_TTY",
            "CLAUDE_CODE_SSE_PORT",
            "GEMINI_CLI_IDE_AUTH_TOKEN",
            "GEMINI_CLI_IDE_PID",
            "GEMINI_CLI_IDE_SERVER_PORT",
            "GEMINI_CLI_IDE_WORKSPACE_PATH",
            "VSCODE_INJECTION",
            "VSCODE_IPC_HOOK_CLI",
            "ZED_TERM",
            "NOTIFY_SOCKET",
            "LISTEN_FDS",
            "LISTEN_FDNAMES",
            "LISTEN_PID",
        ] {
            assert_eq!(env.get(name), Some(&None), "{cli}: {name}");
        }
        for name in of_repository().lines() {
            let is_configuration = name.starts_with("GIT_CONFIG");
            let expected = (!is_configuration).then_some(&None);
            assert_eq!(env.get(name), expected, "{cli}: {name}");
        }
        assert_eq!(env["TERM"].as_deref(), Some("xterm-256color"));
    }
    // What a person has set for the worker it has.
    let config = br#"{"workers": {"codex": {"env": {"NO_COLOR": "1"}}}}"#;
    let config = Config::parse(Path::new("/p/.relay/config.json"), config).expect("it is good");
    let codex = task(Cli::Codex).order(&config).expect("it has a place for all");
    assert_eq!(codex.env["NO_COLOR"].as_deref(), Some("1"));
}

#[test]
fn a_model_is_given_where_there_is_a_place_for_one_and_else_refused() {
    for cli in Cli::ALL {
        let task = Task {
            model: Some("fast".to_owned()),
            ..task(cli)
        };
        let order = task.order(&Config::default());
        if cli == Cli::Droid {
            let refused = order.expect_err("it has none");
            assert!(refused.starts_with("model \"fast\": the command line of droid has no place"));
            continue;
        }
        let argv = order.expect("it has one").argv;
        let at = argv
            .iter()
            .position(|argument| argument == "--model")
            .expect("it is there");
        assert_eq!(argv[at + 1], "fast");
    }
    let argv = order(&task(Cli::Codex)).argv;
    assert!(!argv.iter().any(|argument| argument == "--model"));
}

#[test]
fn what_the_configuration_says_stands_in_place_of_the_tables() {
    let config =
        br#"{"workers": {"codex": {"command": ["my-codex", "-x"], "env": {"A": "1", "RELAY_PORT": "2"}},
                      "claude": {"arguments": ["{name}: {prompt} {{unknown}}", "--m", "{model}"]}}}"#;
    let config = Config::parse(Path::new("/p/.relay/config.json"), config).expect("it is good");
    let codex = task(Cli::Codex).order(&config).expect("it has a place for all");
    assert_eq!(codex.argv[..3], ["my-codex", "-x", "--disable"]);
    assert_eq!(codex.env["A"].as_deref(), Some("1"));
    assert_eq!(codex.env["RELAY_PORT"].as_deref(), Some("2"));
    let claude = task(Cli::Claude);
    let said = format!("w1: {} {{unknown}}", claude.prompt());
    assert_eq!(
        claude.order(&config).expect("good").argv,
        ["claude".to_owned(), said]
    );
}

#[test]
fn codex_and_opencode_are_given_an_address_that_names_the_worker() {
    let elsewhere = |cli| Task {
        host: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        project: "web".to_owned(),
        token: Some("a-secret-of-20-chars".to_owned()),
        ..task(cli)
    };
    let instance = "instance=00000000-0000-0000-0000-000000000007";
    let url = format!("http://[::1]:7331/mcp?agent=w1&tools=agent-relay,lift&{instance}&project=web");
    let codex = order(&elsewhere(Cli::Codex)).argv;
    let entry = format!(
        "mcp_servers.relay={{ url = \"{url}\", default_tools_approval_mode = \"approve\", bearer_token_env_var = \"RELAY_TOKEN\" }}"
    );
    assert!(codex.contains(&entry), "{codex:?}");
    let opencode = order(&elsewhere(Cli::Opencode)).env;
    let content = opencode["OPENCODE_CONFIG_CONTENT"].as_deref().expect("it is set");
    let content: Value = serde_json::from_str(content).expect("it is JSON");
    let headers = json!({"Authorization": "Bearer {env:RELAY_TOKEN}"});
    let relay = json!({"type": "remote", "url": url, "enabled": true, "headers": headers});
    assert_eq!(content, json!({"mcp": {"relay": relay}}));
}

#[test]
fn a_cli_is_named_as_its_program_is() {
    for cli in Cli::ALL {
        assert_eq!(cli.as_str().parse(), Ok(cli));
    }
    let refused = "cursor".parse::<Cli>().expect_err("it is none").to_string();
    let accepted = "no agent CLI \"cursor\"; accepted: claude, codex, gemini, droid, opencode";
    assert_eq!(refused, accepted);
}

#[test]
fn what_stands_for_something_within_an_argument_is_put_in_place_or_left_out_with_that_alone() {
    let config = r#"{"workers": {"codex": {"arguments": ["{relay} of {name}", "-x", "--model={model}", "{prompt}"]}}}"#;
    let config = Config::parse(Path::new("config.json"), config.as_bytes()).expect("it is one");
    let codex = task(Cli::Codex);
    let prompt = codex.prompt();
    let order = codex.order(&config).expect("it names no model");
    assert_eq!(order.argv, ["codex", "/opt/my relay of w1", "-x", &prompt]);
    let fast = Task {
        model: Some("fast".to_owned()),
        ..codex
    };
    let order = fast.order(&config).expect("it has a place for one");
    assert_eq!(
        order.argv,
        ["codex", "/opt/my relay of w1", "-x", "--model=fast", &prompt]
    );
}

#[test]
fn nothing_that_says_that_an_agent_calls_or_that_relay_was_told_reaches_a_worker() {
    for cli in Cli::ALL {
        let env = order(&task(cli)).env;
        for name in [
            "CLAUDECODE",
            "CLAUDE_CODE_ENTRYPOINT",
            "CLAUDE_CODE_MESSAGING_SOCKET",
            "CLAUDE_CODE_MESSAGING_TOKEN",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_PID",
            "CODEX_THREAD_ID",
            "GEMINI_CLI",
            "OPENCODE",
            "RELAY_HOOKS",
            "RELAY_MODE",
            "RELAY_PERSON",
            "RELAY_SOCKET",
            "RELAY_TMUX",
        ] {
            let is_set = cli == Cli::Claude && name == "RELAY_HOOKS";
            let expected = is_set.then_some("worker");
            assert_eq!(
                env.get(name).map(Option::as_deref),
                Some(expected),
                "{cli}: {name}"
            );
        }
    }
}

#[test]
fn a_worker_that_nothing_wakes_is_told_to_wait_for_its_answers_and_no_other_one() {
    for cli in Cli::ALL {
        let prompt = task(cli).prompt();
        let waits = prompt.contains("with await_response=true, and wait for the answer");
        let ends = prompt.contains("and end your turn: the answer is shown to you");
        assert_eq!((ends, waits), (cli == Cli::Claude, cli != Cli::Claude), "{cli}");
    }
}

#[test]
fn a_worker_has_a_wide_terminal_with_all_colors() {
    for cli in Cli::ALL {
        let order = order(&task(cli));
        assert_eq!(
            (order.in_terminal, order.rows, order.cols),
            (true, 50, 150),
            "{cli}"
        );
        assert_eq!(order.env["COLORTERM"].as_deref(), Some("truecolor"), "{cli}");
    }
}

#[test]
fn gemini_cli_asks_its_person_about_no_tool_that_it_has_of_relay() {
    let argv = order(&task(Cli::Gemini)).argv;
    assert_eq!(argv[1], "--allowed-tools");
    let toolsets: crate::tools::Toolsets = Cli::Gemini.entry().tools.parse().expect("toolsets");
    let tools = toolsets.names();
    let mut tools: Vec<String> = tools
        .split(", ")
        .map(|name| format!("mcp_relay_{name}"))
        .collect();
    let mut allowed: Vec<&str> = argv[2].split(',').collect();
    tools.sort();
    allowed.sort_unstable();
    assert_eq!(allowed, tools);
}

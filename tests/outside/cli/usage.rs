use super::*;

#[test]
fn the_version_is_the_packages() {
    for option in ["--version", "-V", "-v"] {
        let version = format!("relay {VERSION}\n");
        relay(&[option]).assert().code(0).stdout(version).stderr("");
    }
}

#[test]
fn help_names_every_subcommand() {
    for option in ["--help", "-h", "help"] {
        let assert = relay(&[option]).assert().code(0).stderr("");
        let help = String::from_utf8(assert.get_output().stdout.clone()).expect("text");
        let commands = help.split("Commands:\n").nth(1).expect("commands");
        let commands = commands.split("\n\n").next().expect("their list");
        let names: Vec<&str> = commands
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        let all = [
            "serve",
            "send",
            "reply",
            "show",
            "read",
            "peek",
            "pending",
            "wait",
            "flush",
            "mode",
            "hold",
            "allow",
            "drop",
            "trace",
            "tail",
            "top",
            "redrive",
            "spawn",
            "release",
            "status",
            "agents",
            "retire",
            "groups",
            "channels",
            "group",
            "channel",
            "logs",
            "attach",
            "key",
            "stop",
            "install",
            "uninstall",
            "doctor",
            "config",
            "register",
            "mcp",
            "hook",
            "prompt",
            "completions",
            "man",
            "help",
        ];
        assert_eq!(names, all);
        for line in commands.lines() {
            assert!(line.split_whitespace().count() > 3, "{line:?} says what it does");
        }
    }
}

#[test]
fn help_of_a_subcommand_names_its_options() {
    for (subcommand, options) in [
        (
            "serve",
            vec![
                "--port",
                "--host",
                "--token",
                "--roles",
                "RELAY_TOKEN",
                "7331",
                "pm,dev-a,dev-b",
            ],
        ),
        (
            "mcp",
            vec![
                "--port",
                "--host",
                "--agent",
                "--agent-id",
                "--project",
                "--repo",
                "--tools",
                "--token",
                "RELAY_AGENT",
                "RELAY_PROJECT",
                "RELAY_TOKEN",
                "7331",
            ],
        ),
        (
            "install",
            vec![
                "--editor",
                "--global",
                "--transport",
                "--tools",
                "--port",
                "--no-hooks",
                "--dry-run",
                "7331",
            ],
        ),
        ("doctor", vec!["--json", "--token", "RELAY_TOKEN"]),
        ("uninstall", vec!["--editor", "--global", "--dry-run"]),
        ("register", vec!["<NAME>", "--role", "--module", "--force"]),
        (
            "prompt",
            vec!["--port", "--host", "--roles", "pm,dev-a,dev-b", "7331"],
        ),
    ] {
        let mut assert = relay(&[subcommand, "--help"]).assert().code(0).stderr("");
        for option in options {
            assert = assert.stdout(contains(option));
        }
    }
}

/// As the commands of Agent Relay are called.
#[test]
fn mcp_install_is_install_and_its_options_have_short_names() {
    let empty = tempfile::tempdir().expect("a directory");
    let told = |arguments: &[&str]| {
        let mut install = relay(arguments);
        install.current_dir(empty.path()).env("HOME", empty.path());
        let assert = install.assert().code(0);
        String::from_utf8(assert.get_output().stdout.clone()).expect("text")
    };
    let plain = told(&["install", "--editor", "cursor", "--global", "--dry-run"]);
    assert!(plain.contains("/.cursor/mcp.json"), "{plain}");
    for arguments in [
        vec!["install", "-e", "cursor", "-g", "--dry-run"],
        vec!["mcp", "install", "-e", "cursor", "-g", "--dry-run"],
        vec!["mcp", "install", "--editor", "cursor", "--global", "--dry-run"],
    ] {
        assert_eq!(told(&arguments), plain, "{arguments:?}");
    }
    let there = told(&["mcp", "install", "-ge", "cursor"]);
    assert!(empty.path().join(".cursor/mcp.json").is_file(), "{there}");
    told(&["uninstall", "-ge", "cursor"]);
    assert!(!empty.path().join(".cursor/mcp.json").exists());
}

#[test]
fn help_of_install_says_how_claude_code_gets_the_kickoff_skill() {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let skill = "plugin/skills/multi-agent-kickoff";
    assert!(repository.join(skill).join("SKILL.md").is_file());
    for arguments in [&["install", "--help"][..], &["mcp", "install", "--help"]] {
        let said =
            contains("claude --plugin-dir path/to/relay/plugin").and(contains(format!("copy {skill}")));
        relay(arguments).assert().code(0).stdout(said);
    }
}

#[test]
fn help_does_not_show_a_token() {
    let token = "a-secret-of-20-chars";
    for subcommand in [
        "serve", "send", "read", "peek", "hold", "allow", "drop", "trace", "tail", "top", "redrive",
        "status", "key", "stop", "mcp",
    ] {
        let mut help = relay(&[subcommand, "--help"]);
        help.env("RELAY_TOKEN", token)
            .assert()
            .code(0)
            .stdout(contains(token).not());
    }
}

#[test]
fn nothing_at_all_is_answered_with_help() {
    relay(&[])
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains("Usage: relay <COMMAND>"));
}

#[test]
fn an_unknown_flag_is_named() {
    for arguments in [
        vec!["--frobnicate"],
        vec!["serve", "--frobnicate"],
        vec!["mcp", "--frobnicate"],
        vec!["register", "pm", "--frobnicate"],
        vec!["prompt", "pm", "--frobnicate"],
    ] {
        let named = contains("error: unexpected argument '--frobnicate' found");
        relay(&arguments).assert().code(2).stdout("").stderr(named);
    }
    let similar = contains("a similar argument exists: '--port'");
    relay(&["serve", "--prot", "7331"])
        .assert()
        .code(2)
        .stderr(similar);
}

#[test]
fn an_unknown_subcommand_is_named() {
    let named = contains("error: unrecognized subcommand 'sevre'").and(contains("'serve'"));
    relay(&["sevre"]).assert().code(2).stdout("").stderr(named);
    let named = contains("error: unexpected argument 'extra' found");
    relay(&["serve", "extra"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(named);
}

/// Gives a subcommand ports that are none; to `serve`, 0 is one.
fn refuses_bad_ports(subcommand: &[&str]) {
    let zero = (subcommand != ["serve"]).then_some("0");
    for port in zero
        .into_iter()
        .chain(["65536", "x", "", "-1", "7331x", "99999999999999999999"])
    {
        let option = format!("--port={port}");
        let arguments = [subcommand, &[&option]].concat();
        let named = contains(format!("invalid value '{port}' for '--port <PORT>'"));
        let accepted = contains("1 to 65535").or(contains("1..=65535"));
        relay(&arguments)
            .assert()
            .code(2)
            .stdout("")
            .stderr(named.and(accepted));
    }
}

#[test]
fn a_bad_port_to_serve_is_named_with_what_is_accepted() {
    refuses_bad_ports(&["serve"]);
}

#[test]
fn a_bad_port_to_bridge_to_is_named_with_what_is_accepted() {
    refuses_bad_ports(&["mcp"]);
}

#[test]
fn a_bad_port_of_a_relay_to_ask_is_named_with_what_is_accepted() {
    for subcommand in [
        ["send", "pm"].as_slice(),
        &["read"],
        &["peek"],
        &["status"],
        &["stop"],
    ] {
        refuses_bad_ports(subcommand);
    }
}

#[test]
fn a_bad_port_in_a_prompt_is_named_with_what_is_accepted() {
    refuses_bad_ports(&["prompt", "pm"]);
}

#[test]
fn bad_roles_are_named_with_what_is_accepted() {
    let accepted = "a name has 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starts with a letter or a digit, and does not end with a dot";
    let long = "x".repeat(33);
    let many = (0..33)
        .map(|number| format!("r{number}"))
        .collect::<Vec<_>>()
        .join(",");
    let wide = (10..30)
        .map(|number| format!("{number}{}", "x".repeat(30)))
        .collect::<Vec<_>>()
        .join(",");
    let persons = "role \"user\" is the person's own, who is there beside every roster; leave it out";
    for (roles, reason) in [
        ("pm,user", persons.to_owned()),
        ("P.M.", format!("invalid role name \"P.M.\"; {accepted}")),
        ("pm,,qa", format!("invalid role name \"\"; {accepted}")),
        ("pm,", format!("invalid role name \"\"; {accepted}")),
        ("pm,dev a", format!("invalid role name \"dev a\"; {accepted}")),
        ("-pm", format!("invalid role name \"-pm\"; {accepted}")),
        ("dév", format!("invalid role name \"dév\"; {accepted}")),
        (&long, format!("invalid role name {long:?}; {accepted}")),
        (
            "pm,qa,pm",
            "role \"pm\" is named twice; each role is named once".to_owned(),
        ),
        (
            &many,
            "33 roles with 188 bytes of names are too many; accepted: at most 32 roles".to_owned(),
        ),
        (
            &wide,
            "20 roles with 700 bytes of names are too many; accepted: at most 32 roles and 440 bytes"
                .to_owned(),
        ),
    ] {
        let option = format!("--roles={roles}");
        let named = contains(format!("invalid value '{roles}' for '--roles <ROLES>': {reason}"));
        relay(&["serve", &option])
            .assert()
            .code(2)
            .stdout("")
            .stderr(named);
    }
    relay(&["serve", "--roles", ""])
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains("--roles <ROLES>"));
}

#[test]
fn a_bad_agent_of_the_bridge_is_named() {
    let named = contains("invalid value 'Dev A' for '--agent").and(contains("invalid role name \"Dev A\""));
    relay(&["mcp", "--agent", "Dev A"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(named);
}

#[test]
fn a_refused_token_is_never_printed() {
    const SECRET: &str = "s3cr3t";
    let refused = "invalid value '(not shown)' for '--token <TOKEN>': a token has at least 16 characters";
    for subcommand in ["serve", "mcp"] {
        for token in [
            SECRET,
            "s3cr3t with spaces in it",
            "s3cr3t-é-0123456789",
            "s3cr3t\u{1b}[2J",
        ] {
            let option = format!("--token={token}");
            let by_option = relay(&[subcommand, &option]);
            let by_argument = relay(&[subcommand, "--token", token]);
            let mut by_variable = relay(&[subcommand]);
            by_variable.env("RELAY_TOKEN", token).env("RELAY_LOG", "trace");
            for mut command in [by_option, by_argument, by_variable] {
                let shown = contains(refused).and(contains(SECRET).not());
                command.assert().code(2).stdout("").stderr(shown);
            }
        }
        for arguments in [
            ["--token", "0123456789abcdef", SECRET],
            ["--token", "first", SECRET],
        ] {
            let arguments = [&[subcommand][..], &arguments].concat();
            let hidden = contains("(not shown)").and(contains(SECRET).not());
            relay(&arguments).assert().code(2).stdout("").stderr(hidden);
        }
    }
}

#[test]
fn no_argument_can_steer_the_terminal() {
    const ORDERS: &str = "\u{1b}[2J\u{9b}1m\u{202e}x\u{ad}\u{e0041}";
    const SHOWN: &str = "\\u{1b}[2J\\u{9b}1m\\u{202e}x\\u{ad}\\u{e0041}";
    let option = format!("--{ORDERS}");
    let valued = format!("--port={ORDERS}");
    for arguments in [
        vec![ORDERS],
        vec!["serve", ORDERS],
        vec!["serve", &option],
        vec!["serve", &valued],
        vec!["serve", "--roles", ORDERS],
        vec!["serve", "--host", ORDERS],
        vec!["mcp", "--agent", ORDERS],
        vec!["mcp", "--port", ORDERS],
        vec!["mcp", "--project", ORDERS],
        vec!["mcp", "--tools", ORDERS],
        vec!["register", ORDERS],
        vec!["register", "max", "--role", ORDERS],
        vec!["prompt", ORDERS],
        vec!["prompt", "pm", ORDERS],
    ] {
        let output = relay(&arguments).output().expect("it ends");
        let stderr = String::from_utf8(output.stderr).expect("it is text");
        assert_eq!(
            (output.status.code(), output.stdout),
            (Some(2), vec![]),
            "{arguments:?}"
        );
        assert!(stderr.contains(SHOWN), "{arguments:?}: {stderr:?}");
        let steers = |c: char| (c.is_control() && c != '\n') || ORDERS.contains(c) && !c.is_ascii();
        assert!(!stderr.contains(steers), "{arguments:?}: {stderr:?}");
    }
    let mut mcp = relay(&["mcp"]);
    mcp.env("RELAY_AGENT", ORDERS)
        .assert()
        .code(2)
        .stderr(contains(SHOWN));
}

#[test]
fn an_address_that_others_can_reach_needs_a_token() {
    for host in ["0.0.0.0", "::", "192.0.2.1"] {
        let advice = format!(
            "relay serve: --host {host} can be reached from other machines; give --token (or RELAY_TOKEN) too, \
             which every request must then carry\n"
        );
        let port = free_port().to_string();
        relay(&["serve", "--host", host, "--port", &port])
            .assert()
            .code(1)
            .stdout("")
            .stderr(advice);
    }
    let accepted = contains("an address is an IP address, such as 127.0.0.1, or localhost");
    for subcommand in ["serve", "mcp"] {
        relay(&[subcommand, "--host", "example.com"])
            .assert()
            .code(2)
            .stdout("")
            .stderr(accepted.clone());
    }
}

#[test]
fn an_address_that_is_not_this_machines_is_named() {
    let port = free_port().to_string();
    let arguments = [
        "serve",
        "--host",
        "192.0.2.1",
        "--token",
        "0123456789abcdef",
        "--port",
        &port,
    ];
    let named = contains(format!("relay serve: cannot listen on 192.0.2.1:{port}: "))
        .and(contains("choose another with --port or --host"));
    relay(&arguments).assert().code(1).stdout("").stderr(named);
}

#[test]
fn a_weak_token_is_refused_with_what_is_accepted() {
    let accepted = contains("a token has at least 16 characters, all of them printable ASCII without spaces");
    for subcommand in ["serve", "mcp"] {
        for token in [
            "short",
            "",
            "fifteen-chars-x",
            "with spaces in it, and long",
            "sixteen-chars-é-x",
        ] {
            let option = format!("--token={token}");
            let refused = if token.is_empty() {
                accepted
                    .clone()
                    .or(contains("a value is required for '--token <TOKEN>'"))
                    .boxed()
            } else {
                accepted.clone().boxed()
            };
            relay(&[subcommand, &option])
                .assert()
                .code(2)
                .stdout("")
                .stderr(refused);
        }
    }
    let mut serve = relay(&["serve"]);
    serve
        .env("RELAY_TOKEN", "short")
        .assert()
        .code(2)
        .stdout("")
        .stderr(accepted);
}

#[test]
fn a_variable_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStrExt as _;

    for (variable, arguments, code) in [
        ("RELAY_TOKEN", &["hook", "claude"][..], 1),
        ("RELAY_AGENT", &["hook", "claude"], 1),
        ("RELAY_TOKEN", &["mcp"], 2),
        ("RELAY_AGENT", &["mcp"], 2),
        ("RELAY_TOKEN", &["group", "make", "reviewers"], 2),
    ] {
        let mut command = relay(arguments);
        // The one that the command does not take is not what is wrong.
        let no_text = std::ffi::OsStr::from_bytes(b"\xff");
        command.env("RELAY_A_STRANGER", no_text).env(variable, no_text);
        let named = contains(format!("error: {variable} is no UTF-8\n"));
        command.assert().code(code).stdout("").stderr(named);
    }
}

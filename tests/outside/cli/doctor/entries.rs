//! What `relay doctor` says of entries, each with the relay that it leads to.

use super::*;

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
fn a_token_for_a_relay_elsewhere_is_not_tried_and_that_is_nothing_to_be_done() {
    let desk = Desk::new();
    let relay = Relay::start_with(&[], &[("RELAY_TOKEN", "a-token-of-some-length")]);
    let port = relay.port.to_string();
    let url = format!("http://{ELSEWHERE}:{port}/mcp?agent=pm");
    let with_header = |value: &str| json!({"url": url, "headers": {"Authorization": value}});
    let bridge = json!({"command": RELAY, "args": ["mcp", "--host", ELSEWHERE, "--port", port]});
    let file = desk.project.join(".cursor/mcp.json");
    let of_variable = "which this entry takes from a variable";
    for (entry, has) in [
        (
            with_header("Bearer a-token-of-some-length"),
            Some("and this entry has one"),
        ),
        (with_header("Bearer ${env:RELAY_TOKEN}"), Some(of_variable)),
        (bridge, Some(of_variable)),
        (json!({"url": url}), None),
    ] {
        desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
        let untried = has.map(|has| {
            format!("it wants its token, {has}; that was not tried, as a token is sent to this machine only")
        });
        for token in [None, Some("a-token-of-some-length")] {
            let mut doctor = desk.relay(&["doctor", "--json"]);
            doctor.envs(token.map(|token| ("RELAY_TOKEN", token)));
            let json = doctor.assert().code(i32::from(has.is_none()));
            let told: Value = serde_json::from_slice(&json.get_output().stdout).expect("it is JSON");
            let cursor = told["editors"]
                .as_array()
                .expect("an array")
                .iter()
                .find(|told| told["editor"] == "cursor");
            let configured = &cursor.expect("it is there")["configured"][0];
            assert_eq!(configured["untried"], json!(untried), "{entry}");
            assert_eq!(configured["error"].is_null(), has.is_some(), "{entry}");
        }
        let reachable = untried.map_or("no".to_owned(), |untried| format!("yes; {untried}"));
        desk.relay(&["doctor"])
            .assert()
            .stdout(contains(format!("  reachable   {reachable}\n")));
    }
}

#[test]
fn an_entry_with_a_program_and_an_address_is_asked_as_its_type_says() {
    let desk = Desk::new();
    let relay = Relay::start();
    let url = format!("http://localhost:{}/mcp?agent=", relay.port);
    let args = json!(["mcp", "--project", "not one"]);
    let entry = json!({"type": "http", "url": url, "command": RELAY, "args": args});
    let file = desk.project.join(".mcp.json");
    desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
    let said = report(&desk, "claude", 1);
    assert_eq!(said["configured"], json!([reached(&file, &url)]));
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
    // What install does not take apart.
    for text in [
        format!("[mcp_servers]\nrelay = {{ command = 'relay', args = ['mcp'], url = '{url}' }}\n"),
        format!(
            "mcp_servers.relay.command = 'relay'\nmcp_servers.relay.args = ['mcp']\nmcp_servers.relay.url = '{url}'\n"
        ),
    ] {
        desk.write(&codex, &text);
        let line = format!(
            "{}: it has both a command and an address; take it out of the file, and write it anew by: {RELAY} install --editor codex",
            codex.display()
        );
        let said = report(&desk, "codex", 1);
        let to_do = said["to_do"].as_array().expect("a list");
        assert!(to_do.contains(&json!(line)), "{said}");
    }
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
fn an_entry_that_no_installation_has_written_is_one_that_is_connected() {
    let desk = Desk::new();
    let relay = Relay::start();
    let project = desk.project.to_str().expect("text").to_owned();
    let url = format!("http://localhost:{}/sse", relay.port);
    let local = json!({"mcpServers": {"relay": {"type": "sse", "url": url}}});
    let file = desk.home.join(".claude.json");
    desk.write(&file, &json!({"projects": {project: local}}).to_string());
    let said = report(&desk, "claude", 1);
    assert_eq!(said["configured"], json!([reached(&file, &url)]));
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

#[test]
fn of_a_program_and_an_address_of_gemini_cli_the_address_is_looked_at_which_it_takes() {
    let desk = Desk::new();
    let relay = Relay::start();
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    install(&desk, "gemini", relay.port);
    let file = desk.project.join(".gemini/settings.json");
    let mut settings = desk.json(&file);
    let url = format!("http://localhost:{}/mcp?agent=pm", relay.port);
    settings["mcpServers"]["relay"] =
        json!({"httpUrl": url, "command": "relay-old", "excludeTools": ["read_messages"]});
    desk.write(&file, &settings.to_string());
    let said = report(&desk, "gemini", 1);
    assert_eq!(said["configured"], json!([reached(&file, &url)]));
    let file = file.display();
    let to_do = json!([
        format!(
            "{file}: it has both a command and an address; write it anew by: {RELAY} install --editor gemini --port {}",
            relay.port
        ),
        format!("{file}: excludeTools of its entry leaves out read_messages; take that out"),
    ]);
    assert_eq!(said["to_do"], to_do);
}

#[test]
fn a_command_that_is_not_relays_bridge_is_not_asked_and_install_is_not_offered_for_it() {
    let desk = Desk::new();
    // One that a bridge without options would find.
    let relay = Relay::start();
    let doctor = || {
        let mut doctor = desk.relay(&["doctor", "--json"]);
        doctor.env("RELAY_PORT", relay.port.to_string());
        let told = doctor.assert().code(1);
        let told: Value = serde_json::from_slice(&told.get_output().stdout).expect("it is JSON");
        let claude = told["editors"].as_array().expect("an array")[0].clone();
        assert_eq!(claude["editor"], "claude");
        claude
    };
    let port = relay.port.to_string();
    let file = desk.project.join(".mcp.json");
    // What is said of tools by this name is said of that program's, and only the plugin brings relay's.
    let settings = json!({"permissions": {"deny": ["mcp__relay"]}, "enabledPlugins": {"relay@here": true}});
    desk.write(&desk.project.join(".claude/settings.json"), &settings.to_string());
    let error = "it starts another program than relay mcp";
    for entry in [
        json!({"command": "python3", "args": ["-m", "my_relay"]}),
        json!({"command": "python3", "args": ["-m", "my_relay", "--port", port]}),
        json!({
            "type": "stdio", "command": "my-relay", "args": ["--port", port],
            "url": format!("http://localhost:{port}/mcp"),
        }),
    ] {
        desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
        let said = doctor();
        let configured = &said["configured"][0];
        assert_eq!(
            (&configured["reachable"], &configured["error"]),
            (&Value::Null, &json!(error)),
            "{entry}"
        );
        let line = format!(
            "{}: {error}, in the place of which install would put relay's; give that another name",
            file.display()
        );
        let has_both = entry.get("url").is_some();
        let flaw = format!(
            "{}: it has both a command and an address; mend that",
            file.display()
        );
        let lines = std::iter::once(line).chain(has_both.then_some(flaw));
        assert_eq!(said["to_do"], json!(Vec::from_iter(lines)), "{entry}");
    }
}

#[test]
fn nothing_that_is_to_be_done_leads_an_entry_for_another_machine_here() {
    let relay = Relay::start_with(&[], &[("RELAY_TOKEN", "a-token-of-some-length")]);
    let port = relay.port;
    let url = format!("http://{ELSEWHERE}:{port}/mcp?agent=pm");
    // A relay answers there, by which it is known too.
    let without_agent = format!("http://{ELSEWHERE}:{port}/mcp");
    let headers = json!({"Authorization": "Bearer x"});
    let args = json!(["mcp", "--host", ELSEWHERE, "--port", port.to_string()]);
    let asks = "it asks before each of relay's tools; have them allowed by mcp__relay in permissions.allow of its settings";
    let flaw = "it has a command, and headers belongs to an address; mend that";
    for (editor, key, entry, line) in [
        (
            "claude",
            "mcpServers",
            json!({"type": "http", "url": url, "headers": headers}),
            Some(asks),
        ),
        (
            "claude",
            "mcpServers",
            json!({"type": "stdio", "command": RELAY, "args": args}),
            Some(asks),
        ),
        (
            "gemini",
            "mcpServers",
            json!({"httpUrl": without_agent, "headers": headers}),
            None,
        ),
        (
            "gemini",
            "mcpServers",
            json!({"command": RELAY, "args": args, "headers": {}}),
            Some(flaw),
        ),
        (
            "opencode",
            "mcp",
            json!({"type": "remote", "url": url, "headers": headers}),
            None,
        ),
    ] {
        let desk = Desk::new();
        answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
        let file = desk.project.join(match editor {
            "claude" => ".mcp.json",
            "gemini" => ".gemini/settings.json",
            _ => "opencode.json",
        });
        let line = line.map(|line| match line == flaw {
            true => format!("{}: {line}", file.display()),
            false => line.to_owned(),
        });
        desk.write(&file, &json!({key: {"relay": entry}}).to_string());
        let said = report(&desk, editor, i32::from(line.is_some()));
        let to_do = json!(Vec::from_iter(&line));
        assert_eq!(
            (&said["hooks"], &said["to_do"]),
            (&json!("missing"), &to_do),
            "{entry}"
        );
        // Hooks for a relay here are there, and its tools allowed.
        install(&desk, editor, 4000);
        let mut settings = desk.json(&file);
        settings[key]["relay"] = entry.clone();
        desk.write(&file, &settings.to_string());
        let line = line.filter(|line| line != asks);
        let said = report(&desk, editor, i32::from(line.is_some()));
        let hooks = if editor == "opencode" {
            "current"
        } else {
            "drifted"
        };
        let to_do = json!(Vec::from_iter(line));
        assert_eq!(
            (&said["hooks"], &said["to_do"]),
            (&json!(hooks), &to_do),
            "{entry}"
        );
    }
    let desk = Desk::new();
    let codex =
        format!("[mcp_servers.relay]\nurl = '{url}'\nhttp_headers = {{ Authorization = 'Bearer x' }}\n");
    desk.write(&desk.home.join(".codex/config.toml"), &codex);
    let said = report(&desk, "codex", 0);
    assert_eq!((&said["hooks"], &said["to_do"]), (&json!("missing"), &json!([])));
}

#[test]
fn an_address_at_which_no_relay_is_known_is_none_that_install_is_offered_for() {
    let desk = Desk::new();
    for host in ["localhost", ELSEWHERE] {
        let url = format!("http://{host}:{}/mcp", free_port());
        let file = desk.home.join(".codex/config.toml");
        desk.write(&file, &format!("[mcp_servers.relay]\nurl = '{url}'\n"));
        let said = report(&desk, "codex", 1);
        let line = format!(
            "{}: {}",
            file.display(),
            said["configured"][0]["error"].as_str().expect("a reason")
        );
        assert_eq!(said["to_do"], json!([line]));
    }
}

#[test]
fn an_entry_with_a_variable_as_its_port_is_one_for_this_machine() {
    let desk = Desk::new();
    let file = desk.project.join(".mcp.json");
    let url = "http://localhost:${RELAY_PORT:-7331}/mcp?agent=pm";
    let entry = json!({"type": "http", "url": url});
    desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
    let install = format!("{RELAY} install --editor claude");
    let lines = [
        format!(
            "{}: its address is none; accepted: http://HOST:PORT/sse or /mcp",
            file.display()
        ),
        format!("put its hooks in with: {install}"),
        format!("it asks before each of relay's tools; have them allowed by: {install}"),
    ];
    assert_eq!(report(&desk, "claude", 1)["to_do"], json!(lines));
}

#[test]
fn an_entry_for_another_machine_that_sends_no_token_is_given_one_by_hand() {
    let desk = Desk::new();
    let relay = Relay::start_with(&[], &[("RELAY_TOKEN", "a-token-of-some-length")]);
    let place = format!("{ELSEWHERE}:{}", relay.port);
    let file = desk.project.join(".cursor/mcp.json");
    let entry = json!({"url": format!("http://{place}/mcp?agent=pm")});
    desk.write(&file, &json!({"mcpServers": {"relay": entry}}).to_string());
    let line = format!(
        "{}: relay on {place} wants its token, and this entry sends none; give it the header Authorization yourself",
        file.display()
    );
    assert_eq!(report(&desk, "cursor", 1)["to_do"], json!([line]));
}

#[test]
fn an_entry_that_takes_its_token_from_a_variable_is_not_to_be_written_anew_for_that() {
    let desk = Desk::new();
    let secret = "a-token-of-some-length";
    let relay = Relay::start_with(&[], &[("RELAY_TOKEN", secret)]);
    let port = relay.port.to_string();
    let stdio = [
        "install",
        "--editor",
        "cursor",
        "--transport",
        "stdio",
        "--port",
        &port,
    ];
    desk.relay(&stdio).assert().code(0);
    let file = desk.project.join(".cursor/mcp.json");
    for (arguments, reason) in [
        (vec![], Some("wants its token; give --token (or RELAY_TOKEN)")),
        (
            vec!["--token", "another-token-than-that"],
            Some("has another token than the one in --token (or RELAY_TOKEN)"),
        ),
        (vec!["--token", secret], None),
    ] {
        let arguments = [&["doctor"], &arguments[..]].concat();
        let told = desk.relay(&arguments).assert().code(i32::from(reason.is_some()));
        let told = String::from_utf8_lossy(&told.get_output().stdout).into_owned();
        let to_do = told
            .lines()
            .filter_map(|line| line.strip_prefix("  to do       "));
        let expected = reason.map(|reason| format!("{}: relay on 127.0.0.1:{port} {reason}", file.display()));
        assert_eq!(Vec::from_iter(to_do), Vec::from_iter(expected), "{arguments:?}");
    }
}

#[test]
fn an_entry_that_leads_nowhere_is_told_beside_what_else_is_to_be_done() {
    let desk = Desk::new();
    // One that a bridge without options would find.
    let relay = Relay::start();
    let file = desk.project.join(".mcp.json");
    desk.write(
        &file,
        &json!({"mcpServers": {"relay": {"timeout": 5}}}).to_string(),
    );
    let mut doctor = desk.relay(&["doctor", "--json"]);
    doctor.env("RELAY_PORT", relay.port.to_string());
    let told = doctor.assert().code(1);
    let told: Value = serde_json::from_slice(&told.get_output().stdout).expect("it is JSON");
    let said = &told["editors"][0];
    let error = "it names neither an address nor a command";
    let configured =
        json!({"file": file, "leads_to": "", "reachable": null, "error": error, "untried": null});
    assert_eq!(
        (&said["editor"], &said["configured"]),
        (&json!("claude"), &json!([configured]))
    );
    assert_eq!(said["to_do"][0], json!(format!("{}: {error}", file.display())));
    let hooks = json!(format!("put its hooks in with: {RELAY} install --editor claude"));
    let to_do = said["to_do"].as_array().expect("an array");
    assert!(to_do.contains(&hooks), "{said}");
}

//! What `relay doctor` says where an editor has several entries: of its project, for all projects, and beside those.

use super::*;

#[test]
fn an_entry_of_the_local_scope_is_given_a_token_by_hand_though_install_writes_into_its_file() {
    let desk = Desk::new();
    let relay = Relay::start_with(&[], &[("RELAY_TOKEN", "a-token-of-some-length")]);
    let project = desk.project.to_str().expect("text").to_owned();
    let url = format!("http://localhost:{}/sse?agent=", relay.port);
    let local = json!({"mcpServers": {"relay": {"type": "sse", "url": url}}});
    let file = desk.home.join(".claude.json");
    desk.write(&file, &json!({"projects": {project: local}}).to_string());
    let line = format!(
        "{}: relay on localhost:{} wants its token, and this entry sends none; give it the header Authorization yourself",
        file.display(),
        relay.port
    );
    let to_do = report(&desk, "claude", 1)["to_do"].clone();
    assert_eq!(to_do[0], json!(line), "{to_do}");
}

#[test]
fn of_two_entries_of_an_editor_each_is_told_that_it_does_not_take() {
    let desk = Desk::new();
    let relay = Relay::start();
    let entry = json!({"command": RELAY, "args": ["mcp", "--port", relay.port.to_string()], "headers": {}});
    let files = [&desk.project, &desk.home].map(|place| place.join(".cursor/mcp.json"));
    for file in &files {
        desk.write(file, &json!({"mcpServers": {"relay": entry}}).to_string());
    }
    let to_do = report(&desk, "cursor", 1)["to_do"].clone();
    let lines = files.iter().zip(["", " --global"]).map(|(file, global)| {
        format!(
            "{}: it has a command, and headers belongs to an address; write it anew by: {RELAY} install --editor cursor{global} --port {}",
            file.display(),
            relay.port
        )
    });
    assert_eq!(to_do, json!(lines.collect::<Vec<_>>()));
}

#[test]
fn an_entry_that_counts_for_more_than_relays_is_told() {
    let desk = Desk::new();
    let relay = Relay::start();
    let project = desk.project.to_str().expect("text").to_owned();
    let url = format!("http://localhost:{}/sse", relay.port);
    let local = json!({"mcpServers": {"relay": {"type": "sse", "url": url}}});
    for (editor, file, text, trouble) in [
        (
            "claude",
            desk.home.join(".claude.json"),
            json!({"projects": {project: local}}).to_string(),
            "mcpServers.relay of this project's local scope counts in place of relay's entry; \
             take it out with: claude mcp remove relay -s local",
        ),
        (
            "codex",
            desk.project.join(".codex/config.toml"),
            "[mcp_servers.relay]\ncommand = \"relay\"\n".to_owned(),
            "mcp_servers.relay is mixed with relay's entry, and keeps Codex from starting once it trusts the project: \
             it has both a command and an address; take it out",
        ),
        (
            "opencode",
            desk.project.join(".opencode/opencode.json"),
            json!({"mcp": {"relay": {"enabled": false}}}).to_string(),
            "mcp.relay is mixed with relay's entry, and switches it off: enabled is false; take it out",
        ),
    ] {
        install(&desk, editor, relay.port);
        let to_do = |code| {
            let said = report(&desk, editor, code)["to_do"].clone();
            said.as_array().expect("an array").clone()
        };
        let code = i32::from(editor == "codex");
        let before = to_do(code);
        desk.write(&file, &text);
        let line = json!(format!("{}: {trouble}", file.display()));
        let after = to_do(1);
        assert!(after.contains(&line) && !before.contains(&line), "{after:?}");
        fs::remove_file(file).expect("it is there");
        desk.relay(&["uninstall"]).assert().code(0);
    }
}

#[test]
fn of_several_entries_those_that_count_say_whether_install_is_offered() {
    let [here, elsewhere] = [&[][..], &[("RELAY_TOKEN", "a-token-of-some-length")]]
        .map(|environment| Relay::start_with(&[], environment));
    let port = here.port.to_string();
    let url = format!("http://{ELSEWHERE}:{}/mcp?agent=pm", elsewhere.port);
    let entry = json!({"type": "http", "url": url, "headers": {"Authorization": "Bearer x"}});
    let desk = Desk::new();
    for editor in ["gemini", "claude"] {
        let install = ["install", "--editor", editor, "--no-hooks", "--port", &port];
        desk.relay(&install).assert().code(0);
    }
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    // What the project has hides this one.
    let user = json!({"mcpServers": {"relay": {"httpUrl": url, "headers": entry["headers"]}}});
    desk.write(&desk.home.join(".gemini/settings.json"), &user.to_string());
    let hooks = format!("put its hooks in with: {RELAY} install --editor gemini --port {port}");
    let told = desk.relay(&["doctor"]).assert().code(1);
    told.stdout(contains(hooks));
    // The local scope hides what the project has.
    let project = desk.project.to_str().expect("text").to_owned();
    let local = json!({"projects": {project: {"mcpServers": {"relay": entry}}}});
    desk.write(&desk.home.join(".claude.json"), &local.to_string());
    let to_do = report(&desk, "claude", 1)["to_do"].to_string();
    assert!(to_do.contains("counts in place of relay's entry"), "{to_do}");
    assert!(!to_do.contains("relay install"), "{to_do}");
}

#[test]
fn of_two_entries_each_is_written_anew_for_the_port_to_which_it_leads() {
    let desk = Desk::new();
    let relays = [Relay::start(), Relay::start()];
    let files = [&desk.project, &desk.home].map(|place| place.join(".cursor/mcp.json"));
    for (file, relay) in files.iter().zip(&relays) {
        let entry = json!({"url": format!("http://localhost:{}/mcp?agent=", relay.port), "env": {}});
        desk.write(file, &json!({"mcpServers": {"relay": entry}}).to_string());
    }
    let lines = [(0, ""), (1, " --global")].map(|(at, global)| {
        format!(
            "{}: it has an address, and env belongs to a command; write it anew by: {RELAY} install --editor cursor{global} --port {}",
            files[at].display(),
            relays[at].port
        )
    });
    assert_eq!(report(&desk, "cursor", 1)["to_do"], json!(lines));
}

#[test]
fn what_is_connected_for_all_projects_is_mended_for_all_of_them() {
    let desk = Desk::new();
    let (open, closed) = (
        Relay::start(),
        Relay::start_with(&[], &[("RELAY_TOKEN", "a-token-of-some-length")]),
    );
    let [port, other] = [&open, &closed].map(|relay| relay.port.to_string());
    let install = |editor: &str, port: &str, more: &[&str]| {
        let arguments = [&["install", "--editor", editor, "--port", port][..], more].concat();
        desk.relay(&arguments).assert().code(0);
    };
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    install("gemini", &port, &["--global", "--no-hooks"]);
    let hooks = |global: &str| {
        let line = format!("put its hooks in with: {RELAY} install --editor gemini{global} --port {port}");
        json!([line])
    };
    assert_eq!(report(&desk, "gemini", 1)["to_do"], hooks(" --global"));
    // What the project has counts for more.
    install("gemini", &port, &["--no-hooks"]);
    assert_eq!(report(&desk, "gemini", 1)["to_do"], hooks(""));

    let settings = desk.project.join(".claude/settings.json");
    desk.write(&settings, r#"{"enabledPlugins": {"relay@here": true}}"#);
    install("claude", &port, &["--global"]);
    let line = format!(
        "its plugin relay@here is on as well, and brings the same tools and hooks; take one of the two out: \
         claude plugin disable relay@here, or {RELAY} uninstall --editor claude --global"
    );
    assert_eq!(report(&desk, "claude", 1)["to_do"], json!([line]));

    install("cursor", &other, &["--global"]);
    let line = format!(
        "{}: relay on localhost:{other} wants its token, and this entry sends none; \
         with that in RELAY_TOKEN, have it sent by: {RELAY} install --editor cursor --global --port {other}",
        desk.home.join(".cursor/mcp.json").display()
    );
    assert_eq!(report(&desk, "cursor", 1)["to_do"], json!([line]));
}

#[test]
fn of_opencodes_other_files_those_count_that_it_reads() {
    let desk = Desk::new();
    let relay = Relay::start();
    install(&desk, "opencode", relay.port);
    let file = desk.project.join("opencode.json");
    let url = desk.json(&file)["mcp"]["relay"]["url"].clone();
    let well = json!([reached(&file, url.as_str().expect("text"))]);
    let off = json!({"tools": {"relay*": false}});
    let told = |file: &Path| {
        let line = "tools has false for \"relay*\", so that such tools are not called; take that out";
        json!([format!("{}: {line}", file.display())])
    };
    // The project's entry hides that of a folder above, and not what stands beside that.
    let above = desk.project.parent().expect("it has one").join("opencode.json");
    let elsewhere = format!("http://localhost:{}/mcp?agent=", free_port());
    let mut of_above = off.clone();
    of_above["mcp"] = json!({"relay": {"type": "remote", "url": elsewhere}});
    desk.write(&above, &of_above.to_string());
    let said = report(&desk, "opencode", 1);
    assert_eq!((&said["configured"], &said["to_do"]), (&well, &told(&above)));
    // Nothing is read above the top of a work tree, and all that is in that.
    desk.write(&desk.project.join(".git/HEAD"), "");
    assert_eq!(report(&desk, "opencode", 0)["to_do"], json!([]));
    let own = desk.project.join(".opencode/opencode.json");
    desk.write(&own, &json!({"mcp": {"relay": {"enabled": false}}}).to_string());
    let line = format!(
        "{}: mcp.relay is mixed with relay's entry, and switches it off: enabled is false; take it out",
        own.display()
    );
    assert_eq!(report(&desk, "opencode", 1)["to_do"], json!([line]));
    fs::remove_file(own).expect("it is there");
    for name in [".config/opencode/opencode.json", ".opencode/opencode.json"] {
        let users = desk.home.join(name);
        desk.write(&users, &off.to_string());
        assert_eq!(report(&desk, "opencode", 1)["to_do"], told(&users));
        fs::remove_file(users).expect("it is there");
    }
}

#[test]
fn another_program_of_the_local_scope_is_none_that_install_would_put_relay_in_the_place_of() {
    let desk = Desk::new();
    let project = desk.project.to_str().expect("text").to_owned();
    let local = json!({"mcpServers": {"relay": {"command": "python3", "args": ["-m", "my_relay"]}}});
    let file = desk.home.join(".claude.json");
    desk.write(&file, &json!({"projects": {project: local}}).to_string());
    let line = format!("{}: it starts another program than relay mcp", file.display());
    assert_eq!(report(&desk, "claude", 1)["to_do"], json!([line]));
}

#[test]
fn of_two_entries_hooks_are_to_be_for_the_port_of_the_one_that_counts() {
    let desk = Desk::new();
    let [own, users] = [Relay::start(), Relay::start()];
    answer_gemini(&desk, &desk.project, "TRUST_FOLDER");
    let install = |port: u16, more: &[&str]| {
        let port = port.to_string();
        let arguments = [&["install", "--editor", "gemini", "--port", &port][..], more].concat();
        desk.relay(&arguments).assert().code(0);
    };
    install(users.port, &["--global", "--no-hooks"]);
    install(own.port, &["--no-hooks"]);
    let line = format!(
        "put its hooks in with: {RELAY} install --editor gemini --port {}",
        own.port
    );
    assert_eq!(report(&desk, "gemini", 1)["to_do"], json!([line]));
    install(own.port, &[]);
    assert_eq!(report(&desk, "gemini", 0)["hooks"], "current");
}

//! start.sh --manual: the printed prompts, and the server in the foreground.

use std::{fs, os::unix::fs::symlink};

use predicates::{
    prelude::PredicateBooleanExt,
    str::{contains, starts_with},
};

use super::{
    ROLES,
    place::{Place, START_SH, answers, free_port, health, is_free},
    port_option,
    running::Running,
};

#[test]
fn manual_mode_prints_three_blocks_and_becomes_the_server() {
    let place = Place::new();
    let port = free_port();
    let running = Running::start_sh(&place, &["--manual", "--port", &port.to_string()]);
    for role in ROLES {
        let block = format!(
            "======== {role}: copy from here ========\n{}======== {role}: to here ========\n",
            place.prompt(role, port)
        );
        assert!(
            running.printed.contains(&block),
            "{block} is not in what was printed:\n{}",
            running.printed
        );
    }
    let connect = format!("{}\n", Place::hint(port));
    assert_eq!(
        running.printed.matches(&connect).count(),
        1,
        "{}",
        running.printed
    );
    assert!(answers(port));
    assert_eq!(
        running.terminate(),
        Some(0),
        "the signal reached the server itself"
    );
    assert!(is_free(port));
}

#[test]
fn manual_mode_names_the_newest_prompt_file_of_each_role() {
    let place = Place::new();
    // It is neither the first nor the last by name.
    place.write_prompt("v1-pm-prompt.md", 3, "an old one\n");
    place.write_prompt("v9-pm-prompt.md", 2, "another old one\n");
    let pm = place.write_prompt("v10-pm-prompt.md", 1, "To the user.\n\n---\n\nthe new one\n");
    let dev_a = place.write_prompt("v10-dev-a-prompt.md", 1, "no words to the user\n");
    let port = free_port();
    let mut command = place.command(START_SH);
    command
        .current_dir(place.project().join("deep/down"))
        .args(["--port", &port.to_string()]);
    let running = Running::until_ready(command);

    let printed = &running.printed;
    let pm = format!(
        "======== pm: the prompt stands below the first --- line of this file ========\n{}\n",
        pm.display()
    );
    let dev_a = format!(
        "======== dev-a: the prompt is this file ========\n{}\n",
        dev_a.display()
    );
    for part in [
        pm.as_str(),
        dev_a.as_str(),
        "======== dev-b: copy from here ========",
    ] {
        assert!(
            printed.contains(part),
            "{part} is not in what was printed:\n{printed}"
        );
    }
    for part in ["v1-pm-prompt.md", "v9-pm-prompt.md", "dev-a: copy from here"] {
        assert!(
            !printed.contains(part),
            "{part} is in what was printed:\n{printed}"
        );
    }
}

#[test]
fn outside_a_repository_the_general_prompts_are_printed() {
    let place = Place::new();
    let port = free_port();
    let mut command = place.command(START_SH);
    command
        .current_dir(place.outside())
        .args(["--port", &port.to_string()]);
    let running = Running::until_ready(command);
    assert!(
        running.printed.contains(&place.prompt("dev-b", port)),
        "{}",
        running.printed
    );
}

#[test]
fn a_project_that_is_connected_is_not_told_how() {
    let place = Place::new();
    let port = free_port();
    place.write(
        ".mcp.json",
        &format!(
            "{{\n \"mcpServers\": {{\n  \"relay\": {{ \"type\": \"sse\", \"url\": \"http://localhost:{port}/sse\" }}\n }}\n}}\n"
        ),
    );
    let running = Running::start_sh(&place, &[&port_option(port)]);
    assert!(!running.printed.contains(".mcp.json"), "{}", running.printed);
}

#[test]
fn a_project_that_is_connected_to_another_port_is_told_the_address() {
    let place = Place::new();
    place.write(
        ".mcp.json",
        "{\"mcpServers\":{\"relay\":{\"type\":\"sse\",\"url\":\"http://localhost:7330/sse\"}}}",
    );
    let port = free_port();
    let running = Running::start_sh(&place, &[&port_option(port)]);
    let told =
        format!("on another port; change its url to http://localhost:{port}/sse?agent=${{RELAY_AGENT:-}}\n");
    assert!(running.printed.contains(&told), "{}", running.printed);
}

#[test]
fn a_relay_that_was_added_to_claude_code_is_found() {
    let place = Place::new();
    let port = free_port();
    let project = place.project().display().to_string();
    let settings = format!(
        r#"{{"projects": {{{project:?}: {{"mcpServers": {{"relay": {{"type": "sse", "url": "http://localhost:{port}/sse"}}}}}}}}}}"#
    );
    fs::write(place.home().join(".claude.json"), settings).unwrap();
    let running = Running::start_sh(&place, &[&port_option(port)]);
    assert!(!running.printed.contains("Claude Code"), "{}", running.printed);
}

#[test]
fn an_agents_command_that_brings_its_servers_is_told_nothing() {
    let place = Place::new();
    let mut command = place.command(START_SH);
    command.arg(port_option(free_port()));
    command.env("RELAY_AGENT_COMMAND", "claude --plugin-dir plugin");
    let running = Running::until_ready(command);
    assert!(!running.printed.contains("Claude Code"), "{}", running.printed);
}

#[test]
fn manual_mode_follows_the_roster_the_host_and_the_token() {
    let place = Place::new();
    let port = free_port();
    let token = "a-token-of-some-length";
    let options = [
        "--roles",
        "pm, dev-a,dev-b,qa",
        "--host",
        "localhost",
        "--token",
        token,
    ];
    let running = Running::start_sh(&place, &[&options[..], &[&port_option(port)]].concat());
    for role in ["pm", "dev-a", "dev-b", "qa"] {
        let block = format!(
            "======== {role}: copy from here ========\n{}======== {role}: to here ========\n",
            place.prompt_among(role, "pm,dev-a,dev-b,qa", port)
        );
        assert!(running.printed.contains(&block), "{}", running.printed);
    }
    let told = format!("start each agent with RELAY_PORT={port} and RELAY_TOKEN in its environment");
    assert!(running.printed.contains(&told), "{}", running.printed);
    assert!(!running.printed.contains(token), "{}", running.printed);
    let answer = health("127.0.0.1", port).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert_eq!(
        running.arguments(),
        [
            place.relay().to_str().unwrap(),
            "serve",
            "--port",
            &port.to_string(),
            "--roles",
            "pm,dev-a,dev-b,qa"
        ],
        "the token is not in the list of processes"
    );
}

#[test]
fn a_host_is_handed_on() {
    let place = Place::new();
    let port = free_port();
    let running = Running::start_sh(&place, &["--host", "::1", &port_option(port)]);
    assert!(health("::1", port).is_some_and(|answer| answer.starts_with("HTTP/1.1 200 ")));
    assert!(
        !is_free(port),
        "localhost is either address, and relay is at both"
    );
    let told = format!("(http://[::1]:{port})");
    assert!(running.printed.contains(&told), "{}", running.printed);
}

#[test]
fn the_port_is_taken_from_the_environment_unless_it_is_given() {
    let place = Place::new();
    for given in [false, true] {
        let (port, other) = (free_port(), free_port());
        let mut command = place.command(START_SH);
        if given {
            command
                .arg(port_option(port))
                .env("RELAY_PORT", other.to_string());
        } else {
            command.env("RELAY_PORT", port.to_string());
        }
        let running = Running::until_ready(command);
        assert!(
            running.printed.contains(&format!("server ready on :{port}\n")),
            "{}",
            running.printed
        );
    }
}

#[test]
fn building_is_said_when_something_is_built_and_not_otherwise() {
    for builds in [false, true] {
        let place = Place::new();
        let mut start_sh = place.start_sh(&["--port", &free_port().to_string()]);
        // Without the built relay it ends there.
        fs::remove_file(place.relay()).unwrap();
        start_sh.env("CARGO_TERM_QUIET", "true");
        if builds {
            start_sh.env("STAND_IN_CARGO_BUILDS", "yes");
        }
        let refused = start_sh.assert().failure().code(1).stdout("");
        let building = contains(
            "[relay] building relay; the first time takes a few minutes\n\
             [relay] building: Compiling crate-20 v1.0.0 (20 crates so far)\n\
             [relay] building: Compiling crate-40 v1.0.0 (40 crates so far)\n\
             [relay] built in ",
        );
        if builds {
            refused.stderr(building);
        } else {
            refused.stderr(
                contains("buil")
                    .count(2)
                    .and(starts_with("start.sh: cargo built relay, but not as")),
            );
        }
    }
}

#[test]
fn through_a_link_it_builds_the_repository_that_it_lies_in() {
    let place = Place::new();
    symlink(START_SH, place.bin("real-start")).unwrap();
    symlink("real-start", place.bin("start-lift")).unwrap();
    let port = free_port();
    let mut command = place.command(place.bin("start-lift"));
    command
        .current_dir(place.project().join("deep"))
        .arg(port_option(port));
    let running = Running::until_ready(command);
    let called = fs::read_to_string(place.records().join("cargo")).unwrap();
    let home = fs::canonicalize(env!("CARGO_MANIFEST_DIR")).unwrap();
    assert_eq!(called, format!("{}\nbuild --release --locked\n", home.display()));
    assert!(answers(port));
    drop(running);
}

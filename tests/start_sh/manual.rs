//! start.sh --manual: the printed prompts, and the server in the foreground.

use std::{fs, os::unix::fs::symlink};

use crate::{
    ROLES,
    place::{Place, START_SH, answers, free_port, is_free},
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
    let connect = format!("claude mcp add --transport sse relay http://localhost:{port}/sse\n");
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
    let told = format!("on another port; change its url to http://localhost:{port}/sse\n");
    assert!(running.printed.contains(&told), "{}", running.printed);
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

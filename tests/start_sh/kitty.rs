//! start.sh --kitty, with a kitty that writes down what it is told.

use predicates::{prelude::PredicateBooleanExt, str::contains};

use crate::{
    expected_agent,
    place::{Place, answers, free_port},
    port_option, write_prompts,
};

#[test]
fn kitty_mode_opens_a_tab_for_relay_and_a_window_for_each_agent() {
    let place = Place::new();
    let port = free_port();
    let prompts = write_prompts(&place, port);
    let mut start_sh = place.start_sh(&["--kitty", "--port", &port.to_string()]);
    start_sh
        .env("KITTY_LISTEN_ON", "unix:x")
        .env("RELAY_AGENT_COMMAND", place.agent_command(port));
    start_sh
        .assert()
        .success()
        .stdout(contains("the lift runs in the kitty tab relay-lift"));
    for (role, prompt) in &prompts {
        assert_eq!(place.agent(role), expected_agent(&place, role, prompt));
    }
    assert!(answers(port));

    let calls = place.kitty_calls();
    let until_the_command = |call: &[String]| -> Vec<String> {
        call.iter()
            .take_while(|argument| *argument != "env")
            .cloned()
            .collect()
    };
    let cwd = format!("--cwd={}", place.project().display());
    let expected = [
        vec!["@", "ls"],
        vec![
            "@",
            "launch",
            "--type=tab",
            "--tab-title=relay-lift",
            "--title=relay",
            &cwd,
        ],
        vec!["@", "goto-layout", "--match=window_id:1", "grid"],
        vec![
            "@",
            "launch",
            "--type=window",
            "--match=window_id:1",
            "--title=pm",
            &cwd,
        ],
        vec![
            "@",
            "launch",
            "--type=window",
            "--match=window_id:1",
            "--title=dev-a",
            &cwd,
            "--keep-focus",
        ],
        vec![
            "@",
            "launch",
            "--type=window",
            "--match=window_id:1",
            "--title=dev-b",
            &cwd,
            "--keep-focus",
        ],
    ];
    assert_eq!(
        calls
            .iter()
            .map(|call| until_the_command(call))
            .collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn kitty_mode_leaves_nothing_behind_when_relay_does_not_start() {
    let place = Place::new();
    place.break_relay();
    let port = free_port();
    let mut start_sh = place.start_sh(&["--kitty", "--port", &port.to_string()]);
    start_sh
        .env("KITTY_LISTEN_ON", "unix:x")
        .env("RELAY_AGENT_COMMAND", place.agent_command(port));
    let refused = start_sh.assert().failure().code(1);
    refused.stderr(
        contains("the stand-in relay cannot serve")
            .and(contains(format!("relay did not answer on port {port}"))),
    );
    assert_eq!(
        place.kitty_calls().last().unwrap(),
        &["@", "close-tab", "--match=window_id:1"]
    );
    assert_eq!(place.agents_started(), [""; 0]);
}

#[test]
fn kitty_mode_without_kitty_is_refused() {
    let place = Place::new();
    let port = port_option(free_port());
    let refused = place
        .without("kitty")
        .start_sh(&["--kitty", &port])
        .assert()
        .failure()
        .code(1);
    refused.stdout("").stderr(contains(
        "kitty is not installed. Install it, or run start.sh --manual",
    ));
}

#[test]
fn kitty_mode_outside_kitty_is_refused() {
    let place = Place::new();
    let port = port_option(free_port());
    // The variable alone is inherited by what has no terminal.
    for environment in [vec![], vec![("KITTY_WINDOW_ID", "1")]] {
        let mut start_sh = place.start_sh(&["--kitty", &port]);
        let refused = start_sh.envs(environment).assert().failure().code(1);
        refused
            .stdout("")
            .stderr(contains("Run start.sh --kitty inside kitty"));
    }
    assert!(place.kitty_calls().is_empty());
}

#[test]
fn kitty_mode_without_remote_control_is_refused() {
    let place = Place::new();
    let port = port_option(free_port());
    let mut start_sh = place.start_sh(&["--kitty", &port]);
    start_sh
        .env("KITTY_LISTEN_ON", "unix:x")
        .env("STAND_IN_KITTY_REFUSES", "yes");
    let refused = start_sh.assert().failure().code(1);
    refused
        .stdout("")
        .stderr(contains("Remote control is disabled").and(contains("allow_remote_control yes")));
}

//! start.sh --kitty, with a kitty that writes down what it is told.

use predicates::{prelude::PredicateBooleanExt, str::contains};

use super::{
    expected_agent,
    place::{Place, START_SH, answers, free_port},
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
        .env("RELAY_AGENT_COMMAND", place.agent_command());
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
            "--location=last",
            "--title=pm",
            &cwd,
        ],
        vec![
            "@",
            "launch",
            "--type=window",
            "--match=window_id:1",
            "--location=last",
            "--title=dev-a",
            &cwd,
            "--keep-focus",
        ],
        vec![
            "@",
            "launch",
            "--type=window",
            "--match=window_id:1",
            "--location=last",
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
fn kitty_mode_leaves_nothing_behind_when_relay_does_not_answer() {
    let place = Place::new();
    place.silence_relay();
    let port = free_port();
    let mut start_sh = place.start_sh(&["--kitty", "--port", &port.to_string()]);
    start_sh
        .env("KITTY_LISTEN_ON", "unix:x")
        .env("RELAY_AGENT_COMMAND", place.agent_command());
    let refused = start_sh.assert().failure().code(1);
    refused.stderr(
        contains("the stand-in relay serves nobody")
            .and(contains(format!("relay did not answer on port {port}"))),
    );
    assert_eq!(
        place.kitty_calls().last().unwrap(),
        &["@", "close-tab", "--match=window_id:1"]
    );
    assert_eq!(place.agents_started(), [""; 0]);
}

#[test]
fn the_first_word_of_the_agents_command_is_looked_up_before_anything_is_built() {
    for (command, missing) in [
        ("no-such-agent", Some("no-such-agent")),
        ("no-such-agent; true", Some("no-such-agent")),
        ("A=1 B= no-such-agent 'x y'", Some("no-such-agent")),
        ("'no such agent' --flag", Some("no such agent")),
        ("\"no such agent\" --flag", Some("no such agent")),
        ("~/no-such-agent", Some("/home/no-such-agent")),
        // A function of start.sh is none of the user's.
        ("build", Some("build")),
        ("./deep", Some("./deep")),
        // Found, or for the shell only to tell.
        ("agent --flag", None),
        ("A=1 'agent' --flag", None),
        ("exec agent", None),
        ("A='1 2' no-such-agent", None),
        ("PATH=/elsewhere no-such-agent", None),
        ("$AGENT --flag", None),
        ("\"$AGENT\" --flag", None),
        ("(no-such-agent)", None),
    ] {
        let place = Place::new();
        // With a failing build nothing is opened, and it is seen how far it came.
        let mut start_sh = place.start_sh(&["--kitty", &port_option(free_port())]);
        start_sh
            .env("KITTY_LISTEN_ON", "unix:x")
            .env("STAND_IN_CARGO_FAILS", "so far")
            .env("RELAY_AGENT_COMMAND", command);
        let refused = start_sh.assert().failure().code(1).stdout("");
        match missing {
            Some(word) => {
                let told = format!(
                    "start.sh: the agents are started with \"{command}\", and there is no program \""
                );
                refused.stderr(contains(told).and(contains(format!("{word}\".\n"))));
                assert!(!place.records().join("cargo").exists(), "nothing was built");
            }
            None => drop(refused.stderr(contains("so far"))),
        }
    }
}

#[test]
fn an_agents_command_of_nothing_is_refused() {
    let place = Place::new();
    let mut start_sh = place.start_sh(&["--kitty", &port_option(free_port())]);
    start_sh
        .env("KITTY_LISTEN_ON", "unix:x")
        .env("RELAY_AGENT_COMMAND", "A=1  ");
    let refused = start_sh.assert().failure().code(1).stdout("");
    refused.stderr(contains(
        "RELAY_AGENT_COMMAND is \"A=1  \", which names no command",
    ));
}

#[test]
fn each_role_of_the_roster_has_a_window_and_the_token() {
    let place = Place::new();
    let port = free_port();
    let mut start_sh = place.start_sh(&["--kitty", "--roles=dev-a,pm", &port_option(port)]);
    start_sh
        .env("KITTY_LISTEN_ON", "unix:x")
        .env("RELAY_TOKEN", "a-token-of-some-length")
        .env("RELAY_AGENT_COMMAND", place.agent_command());
    let hint = format!(
        "claude mcp add --transport sse relay 'http://localhost:{port}/sse?agent=${{RELAY_AGENT:-}}' --header 'Authorization: Bearer ${{RELAY_TOKEN}}'"
    );
    start_sh.assert().success().stdout(contains(hint));
    for role in ["dev-a", "pm"] {
        let prompt = place.prompt_among(role, "dev-a,pm", port);
        assert_eq!(place.agent(role), expected_agent(&place, role, prompt.trim_end()));
    }
    let calls = place.kitty_calls();
    let titles = calls
        .iter()
        .map(|call| call.iter().find(|argument| argument.starts_with("--title=")));
    let titles: Vec<&str> = titles.flatten().map(String::as_str).collect();
    assert_eq!(titles, ["--title=relay", "--title=dev-a", "--title=pm"]);
    // The user talks to pm.
    let keeps_focus: Vec<bool> = calls[3..]
        .iter()
        .map(|call| call.contains(&"--keep-focus".to_owned()))
        .collect();
    assert_eq!(keeps_focus, [true, false]);
    assert!(
        calls
            .iter()
            .flatten()
            .all(|argument| !argument.contains("a-token-of-some-length")),
        "{calls:?}"
    );
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
    refused.stdout("").stderr(contains(format!(
        "kitty is not installed. Install it, or run: {START_SH} --manual\n"
    )));
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
            .stderr(contains(format!("Run {START_SH} --kitty inside kitty")));
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

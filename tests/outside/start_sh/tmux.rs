//! start.sh --tmux, in a real tmux.

use std::fs;

use predicates::str::contains;

use super::{
    ROLES, expected_agent,
    place::{Place, START_SH, Terminal, answers, free_port, health, is_free, until, until_shown},
    port_option, write_prompts,
};

const PANES: [&str; 6] = [
    "list-panes",
    "-s",
    "-t",
    "relay-lift",
    "-F",
    "#{window_index} #{pane_title} #{@relay_role} #{pane_active}",
];

#[test]
fn tmux_mode_opens_four_titled_panes_and_gives_each_agent_its_prompt() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let prompts = write_prompts(&place, port);
    let terminal = Terminal::start_sh(&place, port, "--tmux", &place.agent_command());
    for (role, prompt) in &prompts {
        assert_eq!(place.agent(role), expected_agent(&place, role, prompt));
        terminal.until_it_shows(&format!("the stand-in agent is {role}"));
    }
    // How to connect stands where the log does not move it away.
    let hint = Place::hint(port);
    terminal.until_it_shows("─ dev-b ─");
    until_it_ends_with(&terminal, &hint);
    // It is attached, and the roles stand on the borders.
    let screen = terminal.until_it_shows(&format!("server ready on :{port}"));
    for role in ["relay", "pm", "dev-a", "dev-b"] {
        assert!(
            screen.contains(&format!("─ {role} ─")),
            "no border names {role}:\n{screen}"
        );
    }
    let panes = "0 relay relay 0\n0 pm pm 1\n0 dev-a dev-a 0\n0 dev-b dev-b 0";
    assert_eq!(place.tmux_prints(&PANES), panes);
    assert_eq!(
        place.tmux_prints(&["list-sessions", "-F", "#{session_name}"]),
        "relay-lift"
    );

    place.tmux_prints(&["detach-client", "-s", "relay-lift"]);
    let screen = terminal.until_it_shows("exit status 0");
    assert!(
        screen.contains("come back to it with: tmux attach -t relay-lift"),
        "{screen}"
    );
    assert!(
        screen.contains(&format!("install --editor claude --port {port}")),
        "{screen}"
    );
    assert!(answers(port), "the lift goes on without the terminal");

    place.tmux_prints(&["kill-session", "-t", "relay-lift"]);
    until("relay to end with the session", || is_free(port).then_some(()));
}

#[test]
fn inside_tmux_the_client_is_switched_and_the_callers_settings_count() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    // The server was started from elsewhere: it knows neither the tools nor the agent of the caller.
    let mut server = place.command("tmux");
    server
        .env("PATH", "/usr/bin:/bin")
        .env("RELAY_AGENT_COMMAND", "false");
    let made = server.args(["new-session", "-d", "-s", "work"]).status().unwrap();
    assert!(made.success());
    let mut script = String::new();
    for (name, value) in place.environment() {
        script.push_str(&format!("export {name}='{}'\n", value.display()));
    }
    script.push_str(&format!(
        "export RELAY_AGENT_COMMAND=\"{}\"\n",
        place.agent_command()
    ));
    script.push_str(&format!("exec '{START_SH}' --tmux --no-install --port {port}\n"));
    fs::write(place.outside().join("script"), script).unwrap();

    let terminal = Terminal::run(&place, "tmux attach -t work");
    until("the terminal to attach", || {
        (!place.tmux_prints(&["list-clients"]).is_empty()).then_some(())
    });
    terminal.type_line(&format!("sh '{}/script'", place.outside().display()));
    for role in ROLES {
        let prompt = place.prompt(role, port);
        assert_eq!(place.agent(role), expected_agent(&place, role, prompt.trim_end()));
    }
    until("the client to be switched", || {
        (place.tmux_prints(&["list-clients", "-F", "#{client_session}"]) == "relay-lift").then_some(())
    });
    terminal.until_it_shows("the stand-in agent is dev-b");
}

/// Waits until a pane shows a text, and gives what stands after it on its line.
fn pane_says(place: &Place, pane: &str, text: &str) -> String {
    let target = format!("relay-lift:.{pane}");
    let screen = || place.tmux_prints(&["capture-pane", "-p", "-J", "-S", "-", "-t", &target]);
    let screen = until_shown(&format!("pane {pane}"), screen, text);
    let (_before, after) = screen.split_once(text).unwrap();
    after.lines().next().unwrap_or_default().trim().to_owned()
}

fn type_into_pane(place: &Place, pane: &str, line: &str) {
    let target = format!("relay-lift:.{pane}");
    place.tmux_prints(&["send-keys", "-t", &target, "-l", line]);
    place.tmux_prints(&["send-keys", "-t", &target, "Enter"]);
}

#[test]
fn a_pane_stays_and_says_so_when_its_agent_ends_or_is_missing() {
    for (agent_command, told) in [
        ("sh -c 'exit 7'", "\"sh -c 'exit 7'\" has ended with status 7"),
        (
            "exec no-such-agent",
            "\"exec no-such-agent\" has ended with status 127: it was not found; install it, or set",
        ),
    ] {
        let Some(place) = Place::with_tmux() else { return };
        let port = free_port();
        let terminal = Terminal::start_sh(&place, port, "--tmux", agent_command);
        terminal.until_it_shows("server ready");
        for (pane, role) in ["1", "2", "3"].into_iter().zip(ROLES) {
            pane_says(&place, pane, &format!("[relay] {role}: {told}"));
        }
        // The shell that is left has the role, and what the pane says starts the agent again.
        let again = pane_says(&place, "2", "start dev-a again with: ");
        type_into_pane(&place, "2", "echo \"I am $RELAY_AGENT\"");
        // The shell may echo what is typed before its prompt; that has the variable's name.
        pane_says(&place, "2", "I am dev-a");
        place.tmux_prints(&[
            "send-keys",
            "-R",
            "-t",
            "relay-lift:.2",
            ";",
            "clear-history",
            "-t",
            "relay-lift:.2",
        ]);
        type_into_pane(&place, "2", &again);
        pane_says(&place, "2", &format!("[relay] dev-a: {told}"));
    }
}

#[test]
fn ctrl_c_ends_what_runs_in_a_pane_and_the_pane_says_how_to_start_it_again() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let terminal = Terminal::start_sh(&place, port, "--tmux", &place.agent_command());
    terminal.until_it_shows("the stand-in agent is dev-a");
    place.tmux_prints(&["send-keys", "-t", "relay-lift:.2", "C-c"]);
    pane_says(&place, "2", "\" has ended with status 130");

    terminal.until_it_shows("server ready");
    place.tmux_prints(&["send-keys", "-t", "relay-lift:.0", "C-c"]);
    let again = pane_says(
        &place,
        "0",
        "[relay] relay has ended with status 0; start it again with: ",
    );
    assert!(is_free(port));
    type_into_pane(&place, "0", &again);
    until("relay to answer again", || answers(port).then_some(()));
}

#[test]
fn a_build_in_a_terminal_is_one_line_that_changes_and_goes() {
    let Some(place) = Place::with_tmux() else { return };
    let command = format!(
        "STAND_IN_CARGO_BUILDS=slowly '{START_SH}' --no-install --port {}",
        free_port()
    );
    let terminal = Terminal::run(&place, &command);
    // The stand-in waits at its last crate until it is let go, and the seconds go on.
    let seconds = || {
        let screen = terminal.screen();
        let (_, after) = screen.split_once("[relay] building: Compiling crate-40 v1.0.0 (40 crates, ")?;
        after.split_once(" s so far)")?.0.parse::<u32>().ok()
    };
    let first = until("the last crate", seconds);
    until("the seconds to go on", || {
        seconds().filter(|later| *later > first)
    });
    assert_eq!(terminal.screen().lines().count(), 2, "{}", terminal.screen());
    fs::write(place.records().join("go-on"), "").unwrap();
    let screen = terminal.until_it_shows("server ready");
    assert!(!screen.contains("crate-"), "{screen}");
    assert!(screen.contains("[relay] built in "), "{screen}");
}

#[test]
fn how_to_connect_is_shown_whole_in_a_small_terminal_too() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let command = format!(
        "stty rows 24 cols 80; RELAY_AGENT_COMMAND=cat '{START_SH}' --tmux --no-install --port {port}"
    );
    let terminal = Terminal::run(&place, &command);
    terminal.until_it_shows("─ dev-b ─");
    until_it_ends_with(&terminal, &Place::hint(port));
}

/// Waits until a text stands at the bottom, in as many lines as it takes.
fn until_it_ends_with(terminal: &Terminal<'_>, text: &str) {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    until(&format!("the terminal to end with {text:?}"), || {
        dense(&terminal.screen()).ends_with(&dense(text)).then_some(())
    });
}

#[test]
fn each_role_of_the_roster_has_a_pane_with_its_prompt() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let terminal = Terminal::start_sh(
        &place,
        port,
        "--tmux --roles qa,pm,dev-a,ops",
        &place.agent_command(),
    );
    for role in ["qa", "pm", "dev-a", "ops"] {
        let prompt = place.prompt_among(role, "qa,pm,dev-a,ops", port);
        assert_eq!(place.agent(role), expected_agent(&place, role, prompt.trim_end()));
    }
    terminal.until_it_shows("the stand-in agent is ops");
    let panes = "0 relay relay 0\n0 qa qa 0\n0 pm pm 1\n0 dev-a dev-a 0\n0 ops ops 0";
    assert_eq!(place.tmux_prints(&PANES), panes);
    let health = health("127.0.0.1", port).unwrap();
    assert!(health.contains("\"ops\":0"), "{health}");
}

#[test]
fn every_pane_has_the_token_and_no_process_shows_it() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let token = "it's-a-\"$TOKEN\"-of-;-#S";
    fs::write(place.outside().join("token"), token).unwrap();
    // The server was started from elsewhere, with a token of something else.
    let mut server = place.command("tmux");
    server.env("RELAY_TOKEN", "a-token-of-another-relay");
    let made = server.args(["new-session", "-d", "-s", "work"]).status().unwrap();
    assert!(made.success());
    fs::write(place.outside().join("agent-command"), place.agent_command()).unwrap();
    let outside = place.outside();
    let terminal = Terminal::run(
        &place,
        &format!(
            "export RELAY_AGENT_COMMAND=\"$(cat '{0}/agent-command')\"; RELAY_TOKEN=$(cat '{0}/token') '{START_SH}' --tmux --no-install --port {port}",
            outside.display()
        ),
    );
    for role in ROLES {
        let prompt = place.prompt(role, port);
        assert_eq!(place.agent(role), expected_agent(&place, role, prompt.trim_end()));
    }
    terminal.until_it_shows("server ready");
    let answer = health("127.0.0.1", port).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    until("the token's files to be taken", || {
        // relay's own notes are in a directory.
        let mut left = fs::read_dir(place.temporary()).unwrap().flatten();
        left.all(|entry| entry.path().is_dir()).then_some(())
    });
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&command).contains(token));
    }
    // What a pane says starts an agent again with the token.
    place.tmux_prints(&["send-keys", "-t", "relay-lift:.2", "C-c"]);
    let again = pane_says(&place, "2", "start dev-a again with: ");
    fs::remove_file(place.records().join("dev-a")).unwrap();
    type_into_pane(&place, "2", &again);
    assert_eq!(place.agent("dev-a").relay, "up");
}

#[test]
fn without_a_token_a_pane_takes_none_from_the_tmux_server() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let mut server = place.command("tmux");
    server.env("RELAY_TOKEN", "a-token-of-another-relay");
    let made = server.args(["new-session", "-d", "-s", "work"]).status().unwrap();
    assert!(made.success());
    let _terminal = Terminal::start_sh(&place, port, "--tmux", &place.agent_command());
    assert_eq!(place.agent("dev-b").relay, "up");
    assert!(answers(port), "it asks for no token");
}

#[test]
fn the_hooks_of_a_pane_find_what_the_caller_says_of_them() {
    let Some(place) = Place::with_tmux() else { return };
    let mut server = place.command("tmux");
    server.env("RELAY_MODE", "manual");
    let made = server.args(["new-session", "-d", "-s", "work"]).status().unwrap();
    assert!(made.success());
    let says = "sh -c 'echo \"mode <$RELAY_MODE> tmux <$RELAY_TMUX>\"; cat' sh";
    fs::write(place.outside().join("agent-command"), says).unwrap();
    let outside = place.outside();
    let terminal = Terminal::run(
        &place,
        &format!(
            "export RELAY_TMUX=1 RELAY_AGENT_COMMAND=\"$(cat '{}/agent-command')\"; '{START_SH}' --tmux --no-install --port {}",
            outside.display(),
            free_port()
        ),
    );
    terminal.until_it_shows("mode <> tmux <1>");
}

#[test]
fn tmux_mode_with_a_missing_agent_is_refused_before_anything_is_built() {
    let Some(place) = Place::with_tmux() else { return };
    let terminal = Terminal::start_sh(&place, free_port(), "--tmux", "no-such-agent --flag");
    let screen = terminal.until_it_shows("exit status 1");
    let told =
        "the agents are started with \"no-such-agent --flag\", and there is no program \"no-such-agent\"";
    assert!(screen.contains(told), "{screen}");
    assert!(!place.records().join("cargo").exists(), "nothing was built");
    assert!(
        !place.tmux(&["list-sessions"]).status.success(),
        "no tmux server was started"
    );
}

#[test]
fn an_existing_session_is_left_alone() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let pane = ["-P", "-F", "#{session_name} #{pane_id} #{pane_pid}"];
    let made = place.tmux_prints(&[&["new-session", "-d", "-s", "relay-lift"], &pane[..], &["cat"]].concat());
    let terminal = Terminal::start_sh(&place, port, "--tmux", &place.agent_command());
    let screen = terminal.until_it_shows("exit status 1");
    assert!(
        screen.contains("the tmux session relay-lift exists already"),
        "{screen}"
    );
    assert!(screen.contains("tmux attach -t relay-lift"), "{screen}");
    assert!(screen.contains("tmux kill-session -t relay-lift"), "{screen}");
    assert_eq!(place.tmux_prints(&["list-panes", "-a", "-F", pane[2]]), made);
    assert!(is_free(port));
}

#[test]
fn tmux_mode_needs_a_terminal_that_tmux_can_use() {
    let Some(place) = Place::with_tmux() else { return };
    let command = format!("TERM=dumb '{START_SH}' --tmux --port {}", free_port());
    let screen = Terminal::run(&place, &command).until_it_shows("exit status 1");
    assert!(
        screen.contains(&format!("Run it in a terminal, or run: {START_SH} --manual\n")),
        "{screen}"
    );
    assert!(
        !place.tmux(&["list-sessions"]).status.success(),
        "no tmux server was started"
    );
}

#[test]
fn tmux_mode_leaves_nothing_behind_when_the_terminal_is_too_small_for_four_panes() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let command =
        format!("stty rows 4; RELAY_AGENT_COMMAND=true '{START_SH}' --tmux --no-install --port {port}");
    let screen = Terminal::run(&place, &command).until_it_shows("exit status 1");
    assert!(screen.contains("no space for new pane"), "{screen}");
    assert!(
        screen.contains("the lift was not started, and nothing was left running"),
        "{screen}"
    );
    assert!(
        !place.tmux(&["has-session", "-t", "relay-lift"]).status.success(),
        "the session is gone"
    );
    until("relay to end with the session", || is_free(port).then_some(()));
}

#[test]
fn tmux_mode_leaves_nothing_behind_when_relay_does_not_start() {
    let Some(place) = Place::with_tmux() else { return };
    place.break_relay();
    let port = free_port();
    let terminal = Terminal::start_sh(&place, port, "--tmux", &place.agent_command());
    let screen = terminal.until_it_shows("exit status 1");
    assert!(screen.contains("the stand-in relay cannot serve"), "{screen}");
    assert!(
        screen.contains(&format!("relay ended before it answered on port {port}")),
        "{screen}"
    );
    assert!(
        !place.tmux(&["has-session", "-t", "relay-lift"]).status.success(),
        "the session is gone"
    );
    assert_eq!(place.agents_started(), [""; 0]);
}

#[test]
fn an_empty_prompt_is_refused_before_anything_is_opened() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let empty = place.write_prompt("v1-dev-a-prompt.md", 1, "Words to the user.\n\n---\n \n");
    let terminal = Terminal::start_sh(&place, port, "--tmux", &place.agent_command());
    let screen = terminal.until_it_shows("exit status 1");
    assert!(
        screen.contains(&format!("{} holds no prompt", empty.display())),
        "{screen}"
    );
    assert!(
        !place.tmux(&["list-sessions"]).status.success(),
        "no tmux server was started"
    );
}

#[test]
fn tmux_mode_without_a_terminal_is_refused() {
    let Some(place) = Place::with_tmux() else { return };
    let port = port_option(free_port());
    let refused = place.start_sh(&["--tmux", &port]).assert().failure().code(1);
    refused.stdout("").stderr(contains(format!(
        "Run it in a terminal, or run: {START_SH} --manual\n"
    )));
    assert!(
        !place.tmux(&["list-sessions"]).status.success(),
        "no tmux server was started"
    );
}

#[test]
fn tmux_mode_without_tmux_is_refused() {
    let place = Place::new();
    let port = port_option(free_port());
    let refused = place
        .without("tmux")
        .start_sh(&["--tmux", &port])
        .assert()
        .failure()
        .code(1);
    refused.stdout("").stderr(contains(format!(
        "tmux is not installed. Install it, or run: {START_SH} --manual\n"
    )));
}

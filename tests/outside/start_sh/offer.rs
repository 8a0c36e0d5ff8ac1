//! What start.sh asks in a terminal, in a project in which Claude Code has no relay.

use std::fs;

use super::{
    place::{Place, START_SH, Terminal, answers, free_port, until},
    port_option,
    running::Running,
};

const ASKED: &str = "(relay install --editor claude)? [Y/n]";

fn asked<'a>(place: &'a Place, options: &str, port: u16) -> Terminal<'a> {
    Terminal::run(place, &format!("'{START_SH}' {options} --port {port}"))
}

#[test]
fn a_yes_connects_the_project_and_the_lift_goes_on() {
    for yes in ["", "y", "YES"] {
        let Some(place) = Place::with_tmux() else { return };
        let port = free_port();
        let terminal = asked(&place, "--manual", port);
        terminal.until_it_shows(ASKED);
        assert!(!answers(port), "it waits for the answer");
        terminal.type_line(yes);
        let screen = terminal.until_it_shows("server ready");
        let servers = place.project().join(".mcp.json");
        assert!(
            screen.contains(&format!("Claude Code: made {}", servers.display())),
            "{screen}"
        );
        assert!(!screen.contains("connect it once"), "{screen}");
        let servers = fs::read_to_string(servers).unwrap();
        assert!(
            servers.contains(&format!("http://localhost:{port}/sse")),
            "{servers}"
        );
        let settings = fs::read_to_string(place.project().join(".claude/settings.local.json")).unwrap();
        assert!(settings.contains("hook claude wait"), "{settings}");
    }
}

#[test]
fn a_no_changes_nothing_and_what_is_neither_is_asked_again() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let terminal = asked(&place, "--manual", port);
    terminal.until_it_shows(ASKED);
    terminal.type_line("maybe");
    let screen = terminal.until_it_shows("\"maybe\" is no answer; accepted: y or n, or nothing for y");
    assert_eq!(screen.matches(ASKED).count(), 2, "{screen}");
    terminal.type_line("n");
    let screen = terminal.until_it_shows("server ready");
    assert!(screen.contains(&Place::hint(port)), "{screen}");
    assert!(!place.project().join(".mcp.json").exists());
}

#[test]
fn what_stands_in_the_way_is_told_and_the_lift_goes_on() {
    let Some(place) = Place::with_tmux() else { return };
    let settings = place.write(".claude/settings.local.json", "{");
    let port = free_port();
    let terminal = asked(&place, "--manual", port);
    terminal.until_it_shows(ASKED);
    terminal.type_line("y");
    let screen = terminal.until_it_shows("server ready");
    assert!(
        screen.contains(&format!("{}: line 1, column ", settings.display())),
        "{screen}"
    );
    assert!(
        screen.contains("[relay] it was not connected; above is why"),
        "{screen}"
    );
    until("relay to answer", || answers(port).then_some(()));
}

#[test]
fn nothing_is_asked_where_it_is_connected_or_is_not_wanted_or_would_lead_elsewhere() {
    let Some(place) = Place::with_tmux() else { return };
    for (options, is_connected) in [("--no-install", false), ("--host ::1", false), ("--manual", true)] {
        let port = free_port();
        if is_connected {
            let url = format!("http://localhost:{port}/sse");
            place.write(
                ".mcp.json",
                &format!("{{\"mcpServers\": {{\"relay\": {{\"type\": \"sse\", \"url\": \"{url}\"}}}}}}"),
            );
        }
        let screen = asked(&place, options, port).until_it_shows("server ready");
        assert!(!screen.contains("[Y/n]"), "{options}: {screen}");
    }
}

#[test]
fn without_a_terminal_nothing_is_asked_and_a_line_says_how() {
    let place = Place::new();
    let port = free_port();
    let answer = place.outside().join("answer");
    fs::write(&answer, "y\n").unwrap();
    let mut command = place.command(START_SH);
    command
        .arg(port_option(port))
        .stdin(fs::File::open(answer).unwrap());
    let running = Running::until_ready(command);
    assert!(!running.printed.contains("[Y/n]"), "{}", running.printed);
    assert!(
        running.printed.contains(&Place::hint(port)),
        "{}",
        running.printed
    );
    assert!(!place.project().join(".mcp.json").exists());
}

#[test]
fn in_tmux_mode_it_is_asked_before_the_panes_are_opened() {
    let Some(place) = Place::with_tmux() else { return };
    let port = free_port();
    let command = format!("RELAY_AGENT_COMMAND=cat '{START_SH}' --tmux --port {port}");
    let terminal = Terminal::run(&place, &command);
    terminal.until_it_shows(ASKED);
    assert!(
        !place.tmux(&["list-sessions"]).status.success(),
        "nothing was opened yet"
    );
    terminal.type_line("");
    let screen = terminal.until_it_shows("─ dev-b ─");
    assert!(!screen.contains("connect it once"), "{screen}");
    assert!(place.project().join(".mcp.json").exists());
}

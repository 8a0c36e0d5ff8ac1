//! `relay top` in a real terminal, that of tmux.

use super::*;
use crate::needs;

/// A tmux of the test's own, with a shell in it.
pub(super) struct Terminal {
    pub(super) folder: tempfile::TempDir,
}

impl Terminal {
    pub(super) fn open(environment: &[&str]) -> Self {
        let terminal = Self {
            folder: tempfile::tempdir().expect("there is room"),
        };
        let size = ["new-session", "-d", "-s", "top", "-x", "80", "-y", "24"];
        let shell = [
            "env",
            "-u",
            "ENV",
            "-u",
            "RELAY_TOKEN",
            "LC_ALL=C.UTF-8",
            "TZ=UTC",
            "PS1=$ ",
        ];
        terminal.tmux(&[&size[..], &shell, environment, &["sh"]].concat());
        until("the shell is there", || terminal.screen().starts_with("$"));
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = std::process::Command::new("tmux");
        let socket = self.folder.path().join("socket");
        tmux.args(["-u", "-f", "/dev/null", "-S"])
            .arg(socket)
            .args(arguments);
        let output = tmux.env("TERM", "xterm").output().expect("it starts");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "top"])
    }

    /// Returns the same with the orders that colour it.
    fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e", "-t", "top"])
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "top"], keys].concat());
    }

    #[track_caller]
    pub(super) fn shows(&self, words: &str) {
        until(words, || self.screen().contains(words));
    }

    /// Enters a command that says how it has ended.
    pub(super) fn run(&self, command: &str) {
        self.tmux(&[
            "send-keys",
            "-t",
            "top",
            "-l",
            &format!("{command}; echo ended $?"),
        ]);
        self.press(&["Enter"]);
    }

    /// Returns the modes of the terminal that programs change, and how its lines are read.
    fn modes(&self) -> String {
        let flags = "#{alternate_on} #{cursor_flag} #{keypad_flag} #{mouse_any_flag} #{bracket_paste_flag}";
        let flags = self.tmux(&["display-message", "-p", "-t", "top", flags]);
        let mut stty = std::process::Command::new("stty");
        let lines = stty.args(["-F", &self.tty(), "-a"]).output().expect("it starts");
        flags + &String::from_utf8_lossy(&lines.stdout)
    }

    /// Returns the path of the terminal.
    fn tty(&self) -> String {
        let tty = self.tmux(&["display-message", "-p", "-t", "top", "#{pane_tty}"]);
        tty.trim().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn command(relay: &Relay) -> String {
    let relay_command = relay_command();
    let program = relay_command.get_program().to_str().expect("its path is text");
    let unset = "env -u CLAUDECODE -u CODEX_THREAD_ID -u GEMINI_CLI -u OPENCODE";
    format!("{unset} {program} top --port {}", relay.port)
}

fn say(relay: &Relay, from: &str, to: &str, body: &str) {
    ask(relay.port, &["send", to, body, "--from", from])
        .assert()
        .code(0);
}

#[test]
fn two_agents_talk_and_relay_is_killed_and_started_again() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let mut relay = told();
    say(&relay, "pm", "dev-a", "before anybody looked");
    let terminal = Terminal::open(&["TERM=screen-256color"]);
    let before = terminal.modes();
    terminal.run(&command(&relay));
    terminal.shows("before anybody looked");
    say(&relay, "dev-a", "pm", "hello pm\u{1b}[2J");
    say(&relay, "pm", "dev-a", "hello dev-a");
    terminal.shows("hello pm\\u{1b}[2J");
    terminal.shows("3 agents, 3 waiting, 3 messages");
    assert_eq!(relay.bodies("pm").len(), 1);
    until("it has arrived", || {
        let screen = terminal.screen();
        let lines: Vec<&str> = screen.lines().collect();
        let body = lines.iter().position(|line| line.contains("hello pm"));
        body.is_some_and(|body| lines[body - 1].contains("delivered"))
    });
    terminal.press(&["Enter"]);
    terminal.shows("queued");
    terminal.press(&["Escape"]);

    relay.kill();
    terminal.shows("no connection");
    terminal.shows("it goes on as soon as relay answers");
    terminal.press(&["h"]);
    terminal.shows("choose an agent first");
    terminal.shows("it goes on as soon as relay answers");
    relay.restart();
    terminal.shows("relay was started anew; 2 deliveries that had not arrived are gone");
    terminal.shows("connected");
    say(&relay, "dev-b", "pm", "after it");
    terminal.shows("after it");

    terminal.press(&["s"]);
    terminal.shows("a message from you");
    terminal.tmux(&["send-keys", "-t", "top", "-l", "well done"]);
    terminal.press(&["Enter"]);
    terminal.shows("sent to dev-b");
    assert_eq!(relay.bodies("dev-b"), ["well done"]);

    terminal.press(&["q"]);
    terminal.shows("ended 0");
    let screen = terminal.screen();
    assert!(
        screen.starts_with("$ env -u") && !screen.contains("messages"),
        "{screen}"
    );
    assert_eq!(terminal.modes(), before);
}

#[test]
fn what_was_held_before_anybody_looked_is_shown_and_passes_or_is_dropped() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    ask(relay.port, &["hold", "dev-a"]).assert().code(0);
    say(&relay, "pm", "dev-a", "the first");
    say(&relay, "pm", "dev-a", "the second");
    let terminal = Terminal::open(&["TERM=screen-256color"]);
    terminal.run(&command(&relay));
    terminal.shows("2 held");
    terminal.shows("the second");
    terminal.press(&["Enter"]);
    terminal.shows("held: you hold what its agent gets");
    terminal.press(&["Escape"]);
    until("it is closed", || !terminal.screen().contains("queued"));
    terminal.press(&["d"]);
    terminal.shows("y drops it");
    terminal.press(&["y"]);
    terminal.shows("is dropped, and will not come to dev-a");
    terminal.press(&["Up"]);
    terminal.press(&["a"]);
    terminal.shows("passes to dev-a");
    assert_eq!(relay.bodies("dev-a"), ["the first"]);
}

#[test]
fn the_shell_has_the_terminal_back_after_ctrl_z_with_all_of_the_job_until_it_goes_on() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    let terminal = Terminal::open(&["TERM=screen-256color"]);
    let before = terminal.modes();
    // As the package for npm has it: another program is waited for by the shell.
    let launched = format!("sh -c '{}; echo launched $?'", command(&relay));
    for command in [command(&relay), launched] {
        terminal.run(&command);
        terminal.shows("connected");
        // What is drawn comes before the order that hides the cursor.
        until("the cursor is hidden", || terminal.modes().starts_with("1 0 "));
        let during = terminal.modes();
        for body in ["the first", "the second"] {
            terminal.press(&["C-z"]);
            terminal.shows("ended 148");
            assert!(!terminal.screen().contains("connected"));
            assert_eq!(terminal.modes(), before);
            say(&relay, "pm", "dev-a", body);
            terminal.press(&["clear", "Enter"]);
            terminal.run("fg");
            terminal.shows(body);
            terminal.shows("connected");
            until("it has the terminal", || terminal.modes() == during);
        }
        terminal.press(&["q"]);
        terminal.shows("ended 0");
        assert_eq!(terminal.modes(), before);
        terminal.press(&["clear", "Enter"]);
        until("it is empty", || !terminal.screen().contains("ended"));
    }
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was_and_there_is_no_colour_where_none_is_wanted() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let relay = told();
    say(&relay, "pm", "dev-a", "a task");
    let terminal = Terminal::open(&["TERM=screen-256color", "NO_COLOR=1"]);
    let before = terminal.modes();
    terminal.run(&format!(
        "sh -c 'echo $$ >{}/pid; exec {}'",
        terminal.folder.path().display(),
        command(&relay)
    ));
    terminal.shows("a task");
    let coloured = terminal.coloured();
    let is_colour = |order: &str| {
        let numbers = order.split('m').next().unwrap_or_default().split(';');
        numbers
            .flat_map(str::parse::<u8>)
            .any(|number| (30..=49).contains(&number) && number != 39 && number != 49)
    };
    assert!(!coloured.split("\u{1b}[").skip(1).any(is_colour), "{coloured:?}");
    let pid = std::fs::read_to_string(terminal.folder.path().join("pid")).expect("it is written");
    let pid = pid.trim().parse().expect("a process");
    // Whoever let it go on may have had the terminal before.
    std::fs::write(terminal.tty(), "\u{1b}[3;9Hwhat others write").expect("it is there");
    terminal.shows("what others write");
    signal(pid, "CONT");
    until("it is drawn anew", || {
        let screen = terminal.screen();
        !screen.contains("what others") && screen.contains("a task")
    });
    signal(pid, "TERM");
    terminal.shows("relay top: ended by SIGTERM");
    terminal.shows("ended 143");
    assert_eq!(terminal.modes(), before);
}

#[test]
fn it_is_refused_without_a_terminal_and_in_an_agents_shell() {
    let relay = told();
    ask(relay.port, &["top"]).assert().code(2).stdout("").stderr(
        "relay top: stdin is no terminal; without one, relay tail shows what happens and relay status how it stands\n",
    );
    ask(relay.port, &["top"])
        .env("CLAUDECODE", "1")
        .assert()
        .code(2)
        .stdout("")
        .stderr(
            "relay top: this is an agent's own shell (CLAUDECODE is set), and what is sent here is the person's; relay status looks without it\n",
        );
}

#[test]
fn what_is_pasted_is_a_text_and_no_keys_and_that_no_relay_is_there_is_said_where_it_stays() {
    if !needs::TMUX.is_met_or_said() {
        return;
    }
    let mut relay = told();
    say(&relay, "pm", "dev-a", "a task");
    let terminal = Terminal::open(&["TERM=screen-256color"]);
    terminal.run(&command(&relay));
    terminal.shows("a task");
    terminal.press(&["s"]);
    terminal.shows("a message from you");
    terminal.tmux(&["set-buffer", "one\nqtwo"]);
    terminal.tmux(&["paste-buffer", "-p", "-t", "top"]);
    terminal.shows("qtwo");
    terminal.press(&["Enter"]);
    terminal.shows("sent to pm");
    assert_eq!(relay.bodies("pm"), ["one\nqtwo"]);
    terminal.press(&["q"]);
    terminal.shows("ended 0");
    relay.kill();
    terminal.run(&command(&relay));
    terminal.shows("ended 1");
    terminal.shows("relay top: ");
}

//! The log that a person reads in the relay's terminal, and what becomes of the relay when nobody does.

mod nobody_reads;

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::process::{Process, READY, Relay, free_port, relay_command, signal};
use crate::support::session::{QUIET, Session, WAYS, Way};
use crate::support::{PATIENCE, until};

/// Posts a message and returns the time that its line must show, so many minutes east of UTC.
fn post(session: &mut Session, from: &str, to: &str, kind: &str, body: &str, east_minutes: u32) -> String {
    let arguments = json!({"from": from, "to": to, "kind": kind, "body": body});
    session.call("post_message", &arguments).posted();
    let read = session.read(to).messages();
    let ts = read[0]["ts"].as_str().expect("a time");
    let number = |at: usize| ts[at..at + 2].parse::<u32>().expect("a number");
    let minutes = (number(11) * 60 + number(14) + east_minutes) % (24 * 60);
    format!("[{:02}:{:02}:{:02}]", minutes / 60, minutes % 60, number(17))
}

mod lines {
    use super::*;

    #[test]
    fn a_post_is_one_line_with_time_roles_kind_and_body() {
        // Its own name for a zone 5 hours and 30 minutes east, so that no data of zones is needed.
        for (zone, east_minutes) in [("UTC", 0), ("RLY-05:30", 330)] {
            let relay = Relay::start_with(&[], &[("TZ", zone)]);
            let mut session = relay.session(Way::Sse);
            for (from, to, kind, body) in [
                ("dev-b", "pm", "status", "Task P4 DONE, last commit abc1234"),
                ("pm", "dev-b", "directive", "PROCEED to task B1"),
                ("dev-a", "dev-a", "question", ""),
                ("dev-a", "pm", "free", "say \"hi\" \\ ok"),
            ] {
                let time = post(&mut session, from, to, kind, body, east_minutes);
                assert_eq!(relay.line(), format!("{time} {from} → {to} [{kind}] \"{body}\""));
            }
        }
    }

    /// Posts a body and returns how its line shows it.
    fn shown(relay: &Relay, session: &mut Session, body: &str) -> String {
        let time = post(session, "dev-b", "pm", "free", body, 0);
        let line = relay.line();
        let rest = line.strip_prefix(&format!("{time} dev-b → pm [free] \""));
        let shown = rest.and_then(|rest| rest.strip_suffix('"'));
        shown.unwrap_or_else(|| panic!("{line:?} at {time}")).to_owned()
    }

    #[test]
    fn a_body_is_cut_after_60_characters() {
        let relay = Relay::start_with(&[], &[("TZ", "UTC")]);
        let mut session = relay.session(Way::Http);
        for character in ["x", "é", "e\u{301}", "→", "🦀", "👩🏽‍❤️‍💋‍👨🏿", "🇩🇪"]
        {
            let whole = character.repeat(60);
            assert_eq!(shown(&relay, &mut session, &whole), whole);
            let longer = character.repeat(61);
            assert_eq!(shown(&relay, &mut session, &longer), format!("{whole}..."));
            let much_longer = character.repeat(20_000);
            assert_eq!(shown(&relay, &mut session, &much_longer), format!("{whole}..."));
        }
    }

    #[test]
    fn line_breaks_are_spaces_so_that_nobody_forges_a_line() {
        let relay = Relay::start_with(&[], &[("TZ", "UTC")]);
        let mut session = relay.session(Way::Http);
        for (body, expected) in [
            ("## STATUS UPDATE\n\nDone.\n", "## STATUS UPDATE  Done. "),
            ("one\r\ntwo\rthree\tfour", "one two three four"),
            (
                "x\"\n[12:00:00] pm → dev-b [free] \"",
                "x\" [12:00:00] pm → dev-b [free] \"",
            ),
            (
                "one\u{2028}two\u{2029}three\u{85}four",
                "one two three\\u{85}four",
            ),
        ] {
            assert_eq!(shown(&relay, &mut session, body), expected);
        }
    }

    #[test]
    fn nothing_in_a_body_steers_the_terminal() {
        let relay = Relay::start_with(&[], &[("TZ", "UTC")]);
        let mut session = relay.session(Way::Http);
        for (body, expected) in [
            ("\u{1b}[2J\u{1b}[31mred", "\\u{1b}[2J\\u{1b}[31mred"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{9b}31m\u{90}q\u{9c}", "\\u{9b}31m\\u{90}q\\u{9c}"),
            ("a\u{8}b\u{7f}c\0d", "a\\u{8}b\\u{7f}c\\u{0}d"),
            (
                "left\u{202e}thgir\u{2066}x\u{200b}y\u{feff}",
                "left\\u{202e}thgir\\u{2066}x\\u{200b}y\\u{feff}",
            ),
            (
                "so\u{ad}ft \u{34f}\u{180e}\u{3164}\u{2060}\u{2065}\u{e0041}a",
                "so\\u{ad}ft \\u{34f}\\u{180e}\\u{3164}\\u{2060}\\u{2065}\\u{e0041}a",
            ),
        ] {
            assert_eq!(shown(&relay, &mut session, body), expected);
        }
        // Each of them counts as one character, however it is shown.
        let escapes = "\u{1b}".repeat(61);
        let expected = format!("{}...", "\\u{1b}".repeat(60));
        assert_eq!(shown(&relay, &mut session, &escapes), expected);
    }

    #[test]
    fn a_heading_that_the_line_repeats_is_left_out() {
        let relay = Relay::start_with(&[], &[("TZ", "UTC")]);
        let mut session = relay.session(Way::Http);
        for (from, to, kind, heading) in [
            ("dev-a", "pm", "status", "## STATUS UPDATE — DEV-A"),
            ("dev-a", "pm", "question", "## QUESTION TO PM — DEV-A"),
            ("pm", "dev-a", "directive", "## DIRECTIVE TO DEV-A"),
        ] {
            for (body, expected) in [
                (format!("{heading}\nTask: 4\n"), "Task: 4 ".to_owned()),
                (format!("{heading}\nTime: now\nTask: 4"), "Task: 4".to_owned()),
                (format!("{heading}\nTime: now\n"), "Time: now ".to_owned()),
                (heading.to_owned(), heading.to_owned()),
                (format!("{heading} AND ALL\nx"), format!("{heading} AND ALL x")),
            ] {
                let time = post(&mut session, from, to, kind, &body, 0);
                assert_eq!(
                    relay.line(),
                    format!("{time} {from} → {to} [{kind}] \"{expected}\"")
                );
            }
        }
    }

    #[test]
    fn emoji_families_stay_whole() {
        let relay = Relay::start_with(&[], &[("TZ", "UTC")]);
        let mut session = relay.session(Way::Http);
        let scotland = "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}";
        for body in ["👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪 1️⃣", "🏳️‍🌈 🏴‍☠️ 🧑‍⚕️", scotland]
        {
            assert_eq!(shown(&relay, &mut session, body), body);
        }
    }

    #[test]
    fn lines_come_in_the_order_of_the_posts() {
        let relay = Relay::start();
        let mut session = relay.session(Way::Http);
        for number in 0..300 {
            session.post("pm", "dev-a", &format!("{number}."));
        }
        for number in 0..300 {
            let line = relay.line();
            assert!(
                line.ends_with(&format!(" pm → dev-a [free] \"{number}.\"")),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_refused_is_not_shown() {
        let relay = Relay::start();
        let mut session = relay.session(Way::Http);
        let refused = json!({"from": "pm", "to": "nobody", "kind": "free", "body": "refused"});
        assert!(session.call("post_message", &refused).is_error);
        session.post("pm", "dev-a", "accepted");
        assert!(relay.line().ends_with("\"accepted\""));
    }

    #[test]
    fn a_closed_terminal_does_not_end_a_relay_that_was_started_to_stay() {
        let port = free_port();
        let own = relay_command();
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' HUP; exec \"$0\" serve --port \"$1\""])
            .args([env!("CARGO_BIN_EXE_relay"), &port.to_string()])
            .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut process = Process::start(&mut command);
        until("the relay listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let mut session = Session::open(port, Way::Http, None);
        session.post("pm", "dev-a", "before");
        signal(process.child.id(), "HUP");
        session.post("pm", "dev-a", "behind");
        assert_eq!(session.read("dev-a").bodies(), ["before", "behind"]);
        signal(process.child.id(), "TERM");
        assert_eq!(process.exit_status().code(), Some(0));
    }

    #[test]
    fn the_line_of_a_message_whose_sender_waits_for_an_answer_is_there_meanwhile() {
        for way in [Way::Sse, Way::Http] {
            let relay = Relay::start();
            let mut session = Session::open_at(relay.port, way, "?agent=pm&tools=agent-relay");
            let arguments =
                json!({"to": "dev-a", "message": "well?", "await_response": true, "timeout_ms": 60_000});
            let asked = session.begin("relay_send", &arguments);
            assert!(relay.line().ends_with("pm → dev-a [free] \"well?\""));
            let mut answering = Session::open_at(relay.port, Way::Http, "?agent=dev-a&tools=agent-relay");
            answering.call("relay_send", &json!({"to": "pm", "message": "yes"}));
            assert!(session.finish(asked).texts.concat().contains("yes"));
        }
    }

    #[test]
    fn the_lines_of_the_last_posts_are_shown_when_the_relay_ends() {
        let expected: Vec<String> = (0..10).map(|number| format!("\"{number}.\"")).collect();
        for signal in ["TERM", "INT", "HUP"].repeat(5) {
            let mut relay = Relay::start();
            let mut session = relay.session(Way::Http);
            for number in 0..10 {
                session.post("pm", "dev-a", &format!("{number}."));
            }
            relay.signal(signal);
            assert_eq!(relay.exit_status().code(), Some(0));
            let mut shown = relay.last_lines();
            let last = shown.pop();
            assert_eq!(
                last.as_deref(),
                Some("[relay] stopped; unread, now gone: dev-a 10")
            );
            let bodies = shown.iter().map(|line| line.rsplit(' ').next().expect("a body"));
            assert_eq!(bodies.collect::<Vec<_>>(), expected, "after {signal}");
        }
    }
}

mod terminal {
    use super::*;

    /// A relay in a terminal of its own, which `script` or Python provides.
    struct InTerminal {
        terminal: Child,
        relay: u32,
        port: u16,
        lines: Receiver<String>,
    }

    impl InTerminal {
        fn start() -> Self {
            let port = free_port();
            let relay = env!("CARGO_BIN_EXE_relay");
            let serve = format!("echo $$; exec '{relay}' serve --port {port}");
            let has_script = Command::new("script")
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
            let mut command = if has_script {
                let mut script = Command::new("script");
                script.args(["--quiet", "--flush", "--return", "--command", &serve, "/dev/null"]);
                script
            } else {
                let mut python = Command::new("python3");
                python.args([
                    "-c",
                    "import pty, sys; pty.spawn(['sh', '-c', sys.argv[1]])",
                    &serve,
                ]);
                python
            };
            let own = relay_command();
            let mut terminal = command
                .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
                .env("SHELL", "/bin/sh")
                .env("TZ", "UTC")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("script, of util-linux, or python3 is needed for this test; install one");
            let stdout = BufReader::new(terminal.stdout.take().expect("it is piped"));
            let (sender, lines) = channel();
            std::thread::spawn(move || {
                for line in stdout.lines().map_while(Result::ok) {
                    let _ = sender.send(line.trim_end_matches('\r').to_owned());
                }
            });
            let relay = lines.recv_timeout(PATIENCE).expect("the number of the process");
            let in_terminal = Self {
                terminal,
                relay: relay.parse().expect("a number"),
                port,
                lines,
            };
            while in_terminal.line() != READY {}
            in_terminal
        }

        fn line(&self) -> String {
            self.lines.recv_timeout(PATIENCE).expect("a line in the terminal")
        }
    }

    impl Drop for InTerminal {
        fn drop(&mut self) {
            // It may have ended already, and its test with it.
            let _ = Command::new("kill")
                .args(["-s", "KILL", &self.relay.to_string()])
                .stderr(Stdio::null())
                .status();
            let _ = self.terminal.kill();
            let _ = self.terminal.wait();
        }
    }

    const KINDS: [(&str, &str); 4] = [
        ("status", "\u{1b}[32m"),
        ("question", "\u{1b}[33m"),
        ("directive", "\u{1b}[36m"),
        ("free", "\u{1b}[2m"),
    ];

    #[test]
    fn each_kind_has_its_colour_in_a_terminal() {
        if !crate::needs::TERMINAL.is_met_or_said() {
            return;
        }
        let relay = InTerminal::start();
        let mut session = Session::open(relay.port, Way::Http, None);
        for (kind, colour) in KINDS {
            let time = post(&mut session, "pm", "dev-a", kind, "b\u{1b}[31m", 0);
            let expected = format!("{time} pm → dev-a {colour}[{kind}]\u{1b}[0m \"b\\u{{1b}}[31m\"");
            assert_eq!(relay.line(), expected);
        }
    }

    #[test]
    fn there_is_no_colour_in_a_pipe() {
        let relay = Relay::start();
        let mut session = relay.session(Way::Http);
        for (kind, _) in KINDS {
            post(&mut session, "pm", "dev-a", kind, "b", 0);
            assert!(!relay.line().contains('\u{1b}'));
        }
    }
}

mod diagnostics {
    use super::*;

    /// A stderr that no line can be written to: nobody reads it, nobody will ever, or there is no room behind it. With it comes what keeps
    /// it so.
    fn stderrs() -> Vec<(&'static str, Stdio, Option<std::io::PipeReader>)> {
        let pipe = || std::io::pipe().expect("a pipe");
        let (closed, (unread, mut full)) = (pipe().1, pipe());
        rustix::io::ioctl_fionbio(&full, true).expect("a pipe can be told not to block");
        while full.write(&[b'.'; 4_096]).is_ok() {}
        rustix::io::ioctl_fionbio(&full, false).expect("a pipe can be told to block");
        let mut stderrs = vec![
            ("closed", Stdio::from(closed), None),
            ("full", Stdio::from(full), Some(unread)),
        ];
        if cfg!(target_os = "linux") {
            let disk = std::fs::File::options().write(true).open("/dev/full");
            stderrs.push(("full disk", Stdio::from(disk.expect("Linux has one")), None));
        }
        stderrs
    }

    #[test]
    fn a_relay_that_cannot_say_that_it_has_no_files_left_goes_on() {
        for (what, stderr, _kept) in stderrs() {
            let port = free_port();
            let mut command = Command::new("sh");
            let own = relay_command();
            command
                .args(["-c", "ulimit -n 32; exec \"$0\" serve --port \"$1\""])
                .args([env!("CARGO_BIN_EXE_relay"), &port.to_string()])
                .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let mut process = Process::start_with_stderr(&mut command, stderr);
            until("the relay listens", || {
                TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            let mut early = Session::open(port, Way::Sse, None);
            let many: Vec<_> = (0..64)
                .map_while(|_| TcpStream::connect(("127.0.0.1", port)).ok())
                .collect();
            // Whoever was there before them is served meanwhile, and who comes after them later.
            let met = Instant::now();
            while met.elapsed() < Duration::from_millis(500) {
                early.post("pm", "dev-a", "b");
                assert_eq!(early.read("dev-a").bodies(), ["b"], "{what}");
            }
            drop(many);
            Session::open(port, Way::Http, None).post("pm", "dev-b", "b");
            signal(process.child.id(), "TERM");
            assert_eq!(process.exit_status().code(), Some(0), "{what}");
        }
    }

    #[test]
    fn of_a_client_that_leaves_while_it_waits_nothing_is_said() {
        let relay = Relay::start_told();
        let mut sessions = WAYS.map(|way| relay.session(way));
        for session in &mut sessions {
            session.wait_with_progress("pm", 60.0, &json!(1));
        }
        // Once it has told of progress, relay has begun to answer.
        for session in &mut sessions {
            match &session.stream {
                Some(_) => drop(session.heard()),
                None => session.calls.await_unread_bytes(),
            }
        }
        drop(sessions);
        relay.await_sessions(0);
        assert_eq!(relay.into_stderr(), "");
    }

    #[test]
    fn what_is_to_be_shown_and_cannot_be_understood_is_named() {
        for (asked, shown) in [
            ("relay=loud", "\"relay=loud\""),
            ("verbose", "\"verbose\""),
            ("debug,hyper", "\"debug,hyper\""),
            ("de\u{1b}bug=[", "\"de\\u{1b}bug=[\""),
        ] {
            let told = Relay::start_with(&[], &[("RELAY_LOG", asked)]).into_stderr();
            let line = format!(
                " WARN relay::diagnostics: RELAY_LOG is {shown}, which is not used: it takes a level, as \"debug\", or levels of parts, as \"relay=debug,rmcp=off\"\n"
            );
            assert!(told.ends_with(&line) && told.lines().count() == 1, "{told}");
        }
        for asked in ["", "off", "relay=warn,rmcp=off", "error,relay[call]=warn"] {
            assert_eq!(Relay::start_with(&[], &[("RELAY_LOG", asked)]).into_stderr(), "");
        }
    }

    #[test]
    fn a_bridge_whose_diagnostics_nobody_reads_answers_and_says_later_what_is_missing() {
        let relay = Relay::start();
        let (unread, stderr) = std::io::pipe().expect("a pipe");
        let mut command = relay_command();
        command
            .args(["mcp", "--port", &relay.port.to_string()])
            .env("RELAY_LOG", "trace")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::start_with_stderr(&mut command, stderr);
        drop(command);
        let mut stdin = process.child.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"relay-log-tests","version":"1"}}}"#;
        let mut ask = |id: usize, line: &str| {
            writeln!(stdin, "{line}").expect("it is read");
            let answer = lines.recv_timeout(PATIENCE).expect("an answer");
            assert!(answer.contains(&format!("\"id\":{id}")), "{answer}");
        };
        ask(0, initialize);
        for id in 1..3_000 {
            ask(id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        }
        // What waits is written once somebody reads, and how much had no room.
        let said = std::thread::spawn(move || {
            let lines = BufReader::new(unread).lines().map_while(Result::ok);
            lines.filter(|line| line.contains("left out")).collect::<Vec<_>>()
        });
        drop(stdin);
        assert_eq!(process.exit_status().code(), Some(0));
        let said = said.join().expect("reading does not panic");
        let [gap] = &said[..] else { panic!("{said:?}") };
        let count = gap
            .strip_prefix("[relay] ")
            .and_then(|gap| gap.strip_suffix(" lines left out: stderr did not take them"))
            .and_then(|count| count.parse::<u32>().ok());
        assert!(count.is_some_and(|count| count > 100), "{gap}");
    }
}

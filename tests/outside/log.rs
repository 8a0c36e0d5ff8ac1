//! The log that a person reads in the relay's terminal, and what becomes of the relay when nobody does.

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

mod nobody_reads {
    use super::*;

    /// Posts and reads so many messages of which each has a line of more than 200 bytes, all without delay.
    fn post_many(relay: &Relay, count: usize) {
        let body = "🦀".repeat(60);
        let mut session = relay.session(Way::Http);
        for number in 0..count {
            let started = Instant::now();
            session.post("pm", "dev-a", &body);
            if number % 50 == 49 {
                assert_eq!(session.read("dev-a").bodies().len(), 50);
            }
            assert!(
                started.elapsed() < Duration::from_secs(5),
                "{:?}",
                started.elapsed()
            );
        }
    }

    #[test]
    fn a_closed_stdout_stops_nothing() {
        let mut relay = Relay::start_unread(&[], &[]);
        drop(relay.take_stdout());
        post_many(&relay, 400);
        relay.signal("TERM");
        assert_eq!(relay.exit_status().code(), Some(0));
        assert_eq!(relay.into_stderr(), "");
    }

    #[test]
    fn a_stdout_that_nobody_reads_stops_nothing_and_its_gap_is_told() {
        let mut relay = Relay::start_unread(&[], &[]);
        // The pipe is full after some 250 lines, and what waits for it after some 1,000 more, of 256 kB.
        let mut posts = 3_000;
        post_many(&relay, posts);
        relay.read_stdout();
        let (mut shown, mut left_out) = (0, 0);
        let started = Instant::now();
        while shown + left_out < posts {
            assert!(started.elapsed() < PATIENCE, "{shown} and {left_out} of {posts}");
            relay.session(Way::Http).post("pm", "dev-b", "next");
            posts += 1;
            while let Some(line) = relay.line_within(Duration::from_millis(300)) {
                if let Some(rest) = line.strip_prefix("[relay] ") {
                    let count = rest.strip_suffix(" lines left out: stdout did not take them");
                    let count = count.and_then(|count| count.parse::<usize>().ok());
                    left_out += count.expect("a number of lines");
                } else {
                    let crabs = format!(" pm → dev-a [free] \"{}\"", "🦀".repeat(60));
                    let next = " pm → dev-b [free] \"next\"";
                    assert!(line.ends_with(&crabs) || line.ends_with(next), "{line}");
                    shown += 1;
                }
            }
        }
        assert_eq!(shown + left_out, posts);
        assert!(left_out > 0, "the pipe was never full");
        // It is told once.
        relay.session(Way::Http).post("pm", "dev-b", "last");
        assert!(relay.line().ends_with("\"last\""));
        assert_eq!(relay.line_within(QUIET), None);
    }

    #[test]
    fn a_stdout_that_would_block_gets_each_line_once_it_is_read() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        // Another program that shares a terminal with relay may have told it not to block.
        rustix::io::ioctl_fionbio(&writer, true).expect("a pipe can be told not to block");
        let port = free_port();
        let mut command = relay_command();
        let mut process = Process::start(
            command
                .args(["serve", "--port", &port.to_string()])
                .stdout(writer),
        );
        drop(command);
        until("the relay listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let mut session = Session::open(port, Way::Sse, None);
        // Twice what the pipe takes, and half of what waits for it.
        let bodies: Vec<String> = (0..600)
            .map(|number| format!("{number:03} {}", "🦀".repeat(50)))
            .collect();
        for body in &bodies {
            session.post("pm", "dev-a", body);
            assert_eq!(session.read("dev-a").bodies().len(), 1);
        }
        let shown = std::thread::spawn(move || {
            let lines = BufReader::new(reader).lines().map_while(Result::ok);
            lines.skip_while(|line| line != READY).skip(1).collect::<Vec<_>>()
        });
        signal(process.child.id(), "TERM");
        assert_eq!(process.exit_status().code(), Some(0));
        let shown = shown.join().expect("reading does not panic");
        let (last, shown) = shown.split_last().expect("its last line");
        assert_eq!(last, "[relay] stopped");
        let expected = bodies.iter().map(|body| format!(" pm → dev-a [free] \"{body}\""));
        assert_eq!(shown.len(), bodies.len());
        for (line, expected) in shown.iter().zip(expected) {
            assert!(line.ends_with(&expected), "{line}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_waits_for_a_stdout_that_nobody_reads_is_lines_and_not_messages() {
        let mut relay = Relay::start_unread(&[], &[]);
        let mut session = relay.session(Way::Http);
        let body = "🦀".repeat(60) + &"x".repeat(1_000_000);
        let mut post = |count: usize| {
            for _ in 0..count {
                session.post("pm", "dev-a", &body);
                assert_eq!(session.read("dev-a").bodies().len(), 1);
            }
        };
        // What each connection needs is there by then. The pipe is full, and lines wait.
        post(500);
        let before = relay.resident_bytes();
        post(200);
        let more = relay.resident_bytes().saturating_sub(before);
        assert!(more < 64 * 1024 * 1024, "{more} bytes for 200 lines");
        drop(relay.take_stdout());
    }

    #[test]
    fn a_stdout_that_nobody_reads_does_not_hold_up_the_end() {
        let mut relay = Relay::start_unread(&[], &[]);
        post_many(&relay, 2_000);
        let started = Instant::now();
        relay.signal("TERM");
        assert_eq!(relay.exit_status().code(), Some(0));
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "{:?}",
            started.elapsed()
        );
    }

    /// Starts a relay that writes to `stdout` and whose banner nobody sees, and makes sure that it serves a call.
    fn serves_with(stdout: impl Into<Stdio>) {
        let port = free_port();
        let mut command = relay_command();
        command
            .args(["serve", "--port", &port.to_string()])
            .stdout(stdout);
        let _process = Process::start(&mut command);
        until("the relay listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Session::open(port, Way::Sse, None).post("pm", "dev-a", "b");
    }

    /// What was answered is in the log, whatever becomes of the relay then.
    #[test]
    fn the_line_of_a_message_is_written_before_its_sender_has_the_answer() {
        const POSTS: usize = 100;
        for is_file in [false, true] {
            let port = free_port();
            let mut command = relay_command();
            command.args(["serve", "--port", &port.to_string()]);
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let mut file = tempfile::tempfile().expect("the system has room");
            if is_file {
                command.stdout(file.try_clone().expect("the system has room"));
            } else {
                command.stdout(writer);
            }
            let mut process = Process::start(&mut command);
            // It has the writing end of the pipe.
            drop(command);
            until("the relay listens", || {
                TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            let mut session = Session::open(port, Way::Sse, None);
            for number in 0..POSTS {
                session.post("pm", "dev-a", &format!("m{number}."));
            }
            process.child.kill().expect("it runs");
            process.child.wait().expect("it was killed");
            let mut written = String::new();
            if is_file {
                file.rewind().expect("it is a file");
                file.read_to_string(&mut written).expect("text");
            } else {
                reader.read_to_string(&mut written).expect("text");
            }
            let said: Vec<String> = (0..POSTS).map(|number| format!("] \"m{number}.\"")).collect();
            let lines = written.lines().filter(|line| line.contains("pm → dev-a"));
            let lines: Vec<&str> = lines.collect();
            assert_eq!(lines.len(), POSTS, "{written}");
            for (line, said) in lines.iter().zip(said) {
                assert!(line.ends_with(&said), "{line}");
            }
        }
    }

    #[test]
    fn a_stdout_that_is_closed_from_the_start_stops_nothing() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        serves_with(writer);
    }

    #[test]
    fn a_stdout_that_is_full_from_the_start_stops_nothing() {
        const PIPE_BYTES: usize = 64 * 1024;
        let (_reader, mut writer) = std::io::pipe().expect("a pipe");
        writer
            .write_all(&[b'.'; PIPE_BYTES])
            .expect("the pipe takes as much as it holds");
        serves_with(writer);
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

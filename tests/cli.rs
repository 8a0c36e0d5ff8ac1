//! The command line from outside: what it prints, what it refuses and with which exit code, and how a relay begins and ends.

#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, and plays a server in threads"
)]

#[expect(dead_code, reason = "each test file uses a part of what they share")]
mod support;

use std::time::{Duration, Instant};

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::json;

use support::process::{Process, Relay, free_port, relay_command, signal};
use support::session::{Reply, Session, Way};
use support::sse::Seen;
use support::{PATIENCE, until};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes a call of the built binary that ends within [`PATIENCE`] or is killed.
fn relay(arguments: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::from_std(relay_command());
    command.args(arguments).timeout(PATIENCE);
    command
}

mod usage {
    use super::*;

    #[test]
    fn the_version_is_the_packages() {
        for option in ["--version", "-V"] {
            let version = format!("relay {VERSION}\n");
            relay(&[option]).assert().code(0).stdout(version).stderr("");
        }
    }

    #[test]
    fn help_names_every_subcommand() {
        for option in ["--help", "-h", "help"] {
            let assert = relay(&[option]).assert().code(0).stderr("");
            let help = String::from_utf8(assert.get_output().stdout.clone()).expect("text");
            let commands = help.split("Commands:\n").nth(1).expect("commands");
            let commands = commands.split("\n\n").next().expect("their list");
            let names: Vec<&str> = commands
                .lines()
                .filter_map(|line| line.split_whitespace().next())
                .collect();
            assert_eq!(names, ["serve", "mcp", "prompt", "help"]);
            for line in commands.lines() {
                assert!(line.split_whitespace().count() > 3, "{line:?} says what it does");
            }
        }
    }

    #[test]
    fn help_of_a_subcommand_names_its_options() {
        for (subcommand, options) in [
            (
                "serve",
                vec![
                    "--port",
                    "--host",
                    "--token",
                    "--roles",
                    "RELAY_TOKEN",
                    "7331",
                    "pm,dev-a,dev-b",
                ],
            ),
            (
                "mcp",
                vec![
                    "--port",
                    "--agent",
                    "--token",
                    "RELAY_AGENT",
                    "RELAY_TOKEN",
                    "7331",
                ],
            ),
            ("prompt", vec!["--port", "pm", "dev-a", "dev-b", "7331"]),
        ] {
            let mut assert = relay(&[subcommand, "--help"]).assert().code(0).stderr("");
            for option in options {
                assert = assert.stdout(contains(option));
            }
        }
    }

    #[test]
    fn help_does_not_show_a_token() {
        let token = "a-secret-of-20-chars";
        for subcommand in ["serve", "mcp"] {
            let mut help = relay(&[subcommand, "--help"]);
            help.env("RELAY_TOKEN", token)
                .assert()
                .code(0)
                .stdout(contains(token).not());
        }
    }

    #[test]
    fn nothing_at_all_is_answered_with_help() {
        relay(&[])
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains("Usage: relay <COMMAND>"));
    }

    #[test]
    fn an_unknown_flag_is_named() {
        for arguments in [
            vec!["--frobnicate"],
            vec!["serve", "--frobnicate"],
            vec!["mcp", "--frobnicate"],
            vec!["prompt", "pm", "--frobnicate"],
        ] {
            let named = contains("error: unexpected argument '--frobnicate' found");
            relay(&arguments).assert().code(2).stdout("").stderr(named);
        }
        let similar = contains("a similar argument exists: '--port'");
        relay(&["serve", "--prot", "7331"])
            .assert()
            .code(2)
            .stderr(similar);
    }

    #[test]
    fn an_unknown_subcommand_is_named() {
        let named = contains("error: unrecognized subcommand 'sevre'").and(contains("'serve'"));
        relay(&["sevre"]).assert().code(2).stdout("").stderr(named);
        let named = contains("error: unexpected argument 'extra' found");
        relay(&["serve", "extra"])
            .assert()
            .code(2)
            .stdout("")
            .stderr(named);
    }

    /// Gives a subcommand ports that are none.
    fn refuses_bad_ports(subcommand: &[&str]) {
        for port in ["0", "65536", "x", "", "-1", "7331x", "99999999999999999999"] {
            let option = format!("--port={port}");
            let arguments = [subcommand, &[&option]].concat();
            let named = contains(format!("invalid value '{port}' for '--port <PORT>'"));
            let accepted = contains("1 to 65535").or(contains("1..=65535"));
            relay(&arguments)
                .assert()
                .code(2)
                .stdout("")
                .stderr(named.and(accepted));
        }
    }

    #[test]
    fn a_bad_port_to_serve_is_named_with_what_is_accepted() {
        refuses_bad_ports(&["serve"]);
    }

    #[test]
    fn a_bad_port_to_bridge_to_is_named_with_what_is_accepted() {
        refuses_bad_ports(&["mcp"]);
    }

    #[test]
    fn a_bad_port_in_a_prompt_is_named_with_what_is_accepted() {
        refuses_bad_ports(&["prompt", "pm"]);
    }

    #[test]
    fn bad_roles_are_named_with_what_is_accepted() {
        let accepted = "a name has 1 to 32 of a-z, 0-9, - and _, and starts with a letter or a digit";
        let long = "x".repeat(33);
        let many = (0..33)
            .map(|number| format!("r{number}"))
            .collect::<Vec<_>>()
            .join(",");
        let wide = (10..30)
            .map(|number| format!("{number}{}", "x".repeat(30)))
            .collect::<Vec<_>>()
            .join(",");
        for (roles, reason) in [
            ("PM", format!("invalid role name \"PM\"; {accepted}")),
            ("pm,,qa", format!("invalid role name \"\"; {accepted}")),
            ("pm,", format!("invalid role name \"\"; {accepted}")),
            ("pm,dev a", format!("invalid role name \"dev a\"; {accepted}")),
            ("-pm", format!("invalid role name \"-pm\"; {accepted}")),
            ("dév", format!("invalid role name \"dév\"; {accepted}")),
            (&long, format!("invalid role name {long:?}; {accepted}")),
            (
                "pm,qa,pm",
                "role \"pm\" is named twice; each role is named once".to_owned(),
            ),
            (
                &many,
                "33 roles with 188 bytes of names are too many; accepted: at most 32 roles".to_owned(),
            ),
            (
                &wide,
                "20 roles with 700 bytes of names are too many; accepted: at most 32 roles and 440 bytes"
                    .to_owned(),
            ),
        ] {
            let option = format!("--roles={roles}");
            let named = contains(format!("invalid value '{roles}' for '--roles <ROLES>': {reason}"));
            relay(&["serve", &option])
                .assert()
                .code(2)
                .stdout("")
                .stderr(named);
        }
        relay(&["serve", "--roles", ""])
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains("--roles <ROLES>"));
    }

    #[test]
    fn a_bad_agent_of_the_bridge_is_named() {
        let named =
            contains("invalid value 'Dev A' for '--agent").and(contains("invalid role name \"Dev A\""));
        relay(&["mcp", "--agent", "Dev A"])
            .assert()
            .code(2)
            .stdout("")
            .stderr(named);
    }

    #[test]
    fn an_address_that_others_can_reach_needs_a_token() {
        for host in ["0.0.0.0", "::", "192.0.2.1"] {
            let advice = format!(
                "relay serve: --host {host} can be reached from other machines; give --token (or RELAY_TOKEN) too, \
                 which every request must then carry\n"
            );
            let port = free_port().to_string();
            relay(&["serve", "--host", host, "--port", &port])
                .assert()
                .code(1)
                .stdout("")
                .stderr(advice);
        }
        let accepted = contains("an address is an IP address, such as 127.0.0.1, or localhost");
        relay(&["serve", "--host", "example.com"])
            .assert()
            .code(2)
            .stdout("")
            .stderr(accepted);
    }

    #[test]
    fn an_address_that_is_not_this_machines_is_named() {
        let port = free_port().to_string();
        let arguments = [
            "serve",
            "--host",
            "192.0.2.1",
            "--token",
            "0123456789abcdef",
            "--port",
            &port,
        ];
        let named = contains(format!("relay serve: cannot listen on 192.0.2.1:{port}: "))
            .and(contains("choose another with --port or --host"));
        relay(&arguments).assert().code(1).stdout("").stderr(named);
    }

    #[test]
    fn a_weak_token_is_refused_with_what_is_accepted() {
        let accepted =
            contains("a token has at least 16 characters, all of them printable ASCII without spaces");
        for subcommand in ["serve", "mcp"] {
            for token in [
                "short",
                "",
                "fifteen-chars-x",
                "with spaces in it, and long",
                "sixteen-chars-é-x",
            ] {
                let option = format!("--token={token}");
                let refused = if token.is_empty() {
                    accepted
                        .clone()
                        .or(contains("a value is required for '--token <TOKEN>'"))
                        .boxed()
                } else {
                    accepted.clone().boxed()
                };
                relay(&[subcommand, &option])
                    .assert()
                    .code(2)
                    .stdout("")
                    .stderr(refused);
            }
        }
        let mut serve = relay(&["serve"]);
        serve
            .env("RELAY_TOKEN", "short")
            .assert()
            .code(2)
            .stdout("")
            .stderr(accepted);
    }
}

mod prompts {
    use super::*;

    #[test]
    fn a_prompt_is_its_roles_own() {
        for role in ["pm", "dev-a", "dev-b"] {
            let own = contains(format!("read_messages(for=\"{role}\")"))
                .and(contains(format!("post_message(from=\"{role}\"")))
                .and(contains("http://localhost:7331"))
                .and(contains("<<").not());
            relay(&["prompt", role]).assert().code(0).stdout(own).stderr("");
            let at_port = contains("http://localhost:4000").and(contains("7331").not());
            relay(&["prompt", role, "--port", "4000"])
                .assert()
                .code(0)
                .stdout(at_port)
                .stderr("");
        }
    }

    #[test]
    fn an_unknown_role_is_named_with_those_there_are() {
        let named =
            contains("invalid value 'qa' for '<ROLE>'").and(contains("[possible values: pm, dev-a, dev-b]"));
        relay(&["prompt", "qa"]).assert().code(2).stdout("").stderr(named);
        let missing = contains("<ROLE>").and(contains("required"));
        relay(&["prompt"]).assert().code(2).stdout("").stderr(missing);
    }
}

mod port_in_use {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    const NO_RELAY: &str = "something answers there that is not a relay; choose another port with --port";

    /// Tries to start a relay at a port that is taken, with nothing in `PATH`.
    fn try_to_serve(port: u16) -> assert_cmd::assert::Assert {
        let mut serve = relay(&["serve", "--port", &port.to_string()]);
        serve.env("PATH", "").assert()
    }

    fn says(port: u16, found: &str) -> String {
        format!("relay already running? kill it with: kill $(lsof -ti:{port})\nport {port}: {found}\n")
    }

    /// Takes a port and has `answer` deal with whoever connects.
    fn other_program(answer: impl Fn(TcpStream) + Send + 'static) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", free_port())).expect("the port is free");
        let port = listener.local_addr().expect("it listens").port();
        std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
        port
    }

    #[test]
    fn a_running_relay_is_told_by_its_version_and_start() {
        let running = Relay::start();
        let started_at = running.health()["started_at"].clone();
        let started_at = started_at.as_str().expect("a time");
        let found = format!("relay {VERSION} answers there, started at {started_at}");
        try_to_serve(running.port)
            .code(1)
            .stdout("")
            .stderr(says(running.port, &found));
        // The one that runs is not disturbed.
        running.session(Way::Sse).post("pm", "dev-a", "still here");
    }

    #[test]
    fn a_running_relay_with_a_token_is_told_too() {
        let running = Relay::start_with(&["--token", "0123456789abcdef"], &[]);
        let found = "relay with a token answers there, started at an unknown time";
        try_to_serve(running.port)
            .code(1)
            .stdout("")
            .stderr(says(running.port, found));
    }

    #[test]
    fn a_program_that_says_nothing_is_no_relay() {
        let listener = TcpListener::bind(("127.0.0.1", free_port())).expect("the port is free");
        let port = listener.local_addr().expect("it listens").port();
        let started = Instant::now();
        try_to_serve(port).code(1).stdout("").stderr(says(port, NO_RELAY));
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
    }

    #[test]
    fn a_program_that_hangs_up_is_no_relay() {
        let port = other_program(drop);
        try_to_serve(port).code(1).stdout("").stderr(says(port, NO_RELAY));
    }

    #[test]
    fn a_program_that_speaks_another_http_is_no_relay() {
        for body in [
            "hello",
            "{}",
            "[]",
            r#"{"name":"other","version":"1","started_at":"now"}"#,
            r#"{"name":"relay"}"#,
        ] {
            let port = other_program(move |mut stream| {
                let length = body.len();
                let _ = stream.read(&mut [0; 1024]);
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
                );
            });
            try_to_serve(port).code(1).stdout("").stderr(says(port, NO_RELAY));
        }
    }

    #[test]
    fn a_program_that_keeps_its_connections_open_is_no_relay() {
        let port = other_program(|mut stream| {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            // Reads until the other side hangs up.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        try_to_serve(port).code(1).stdout("").stderr(says(port, NO_RELAY));
    }

    #[test]
    fn a_program_that_never_stops_answering_is_no_relay() {
        let port = other_program(|mut stream| {
            let mut answer = "HTTP/1.1 200 OK\r\n\r\n".to_owned();
            while stream.write_all(answer.as_bytes()).is_ok() {
                ".".clone_into(&mut answer);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let started = Instant::now();
        let mut serve = relay(&["serve", "--port", &port.to_string()]);
        serve.timeout(Duration::from_secs(5));
        let output = serve
            .env("PATH", "")
            .output()
            .expect("the built relay can be started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), said),
            (Some(1), says(port, NO_RELAY)),
            "{:?}",
            started.elapsed()
        );
    }
}

mod life {
    use super::*;

    #[test]
    fn the_banner_is_three_lines_and_nothing_else() {
        let port = free_port();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("stdout");
        let stdout = std::fs::File::create(&path).expect("a file");
        let mut command = relay_command();
        command
            .args(["serve", "--port", &port.to_string()])
            .stdout(stdout);
        let mut process = Process::start(&mut command);
        until("the relay answers", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let banner = format!(
            "[relay] server ready on :{port}\n\
             [relay] tools: post_message, read_messages, list_pending\n\
             [relay] waiting for connections — Ctrl-C to stop\n"
        );
        until("the banner", || {
            std::fs::read_to_string(&path).expect("the file") == banner
        });
        signal(process.child.id(), "TERM");
        assert_eq!(process.exit_status().code(), Some(0));
        assert_eq!(process.kill(), "");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), banner);
    }

    #[test]
    fn a_widened_roster_is_who_there_is() {
        let relay = Relay::start_with(&["--roles", "pm, dev-a,dev-b,qa"], &[]);
        let mut session = relay.session(Way::Http);
        session.post("qa", "pm", "hello");
        assert_eq!(relay.pending(), json!({"pm": 1, "dev-a": 0, "dev-b": 0, "qa": 0}));
        let refused = session.read("ops");
        assert_eq!(
            refused,
            Reply::error("unknown role \"ops\"; known roles: pm, dev-a, dev-b, qa")
        );
    }

    /// Opens a session that has heard of the start.
    fn told(relay: &Relay, way: Way) -> Session {
        let mut session = relay.session(way);
        session.read("pm");
        session
    }

    /// Ends a relay in the middle of all that may be open, and starts another at once.
    fn end_in_order(signal: &str) {
        let mut relay = Relay::start();
        let mut idle = [told(&relay, Way::Sse), told(&relay, Way::Sse)];
        let mut waiting = [Way::Sse, Way::Sse, Way::Http].map(|way| told(&relay, way));
        let [first, second, third] = &mut waiting;
        let waits = [
            second.wait("pm", 280.0),
            third.wait("pm", 280.0),
            first.wait_with_progress("pm", 280.0, &json!(1)),
        ];
        waiting.rotate_left(1);
        // It comes after a second: by then all of them wait.
        assert_eq!(waiting[2].heard()["method"], "notifications/progress");

        let started = Instant::now();
        relay.signal(signal);
        for (session, wait) in waiting.iter_mut().zip(waits) {
            assert_eq!(session.finish(wait), Reply::of("[]"));
        }
        for session in idle.iter_mut().chain(&mut waiting) {
            if let Some(stream) = &mut session.stream {
                assert_eq!(stream.next(PATIENCE), Seen::End);
            }
        }
        let status = relay.exit_status();
        let took = started.elapsed();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert!(took < Duration::from_secs(3), "{signal}: {took:?}");
        assert_eq!(relay.last_lines(), Vec::<String>::new());

        // The port is free at once, whoever was connected.
        relay.kill_and_restart();
        relay.session(Way::Http).post("pm", "dev-a", "after");
        assert_eq!(relay.into_stderr(), "");
    }

    #[test]
    fn sigterm_ends_it_in_order_with_open_streams_and_waiting_reads() {
        end_in_order("TERM");
    }

    #[test]
    fn sigint_ends_it_in_order_with_open_streams_and_waiting_reads() {
        end_in_order("INT");
    }

    /// The calls of protocol version 2026-07-28, and those that are told of progress, take another way through relay.
    #[test]
    fn every_kind_of_wait_is_answered_at_the_end() {
        let mut relay = Relay::start();
        let mut modern = told(&relay, Way::Modern);
        modern.wait("pm", 280.0);
        let mut with_progress = told(&relay, Way::Http);
        with_progress.wait_with_progress("pm", 280.0, &json!(1));
        // The first word of progress: both wait.
        with_progress.calls.await_unread_bytes();
        relay.signal("TERM");
        let answer = with_progress.calls.response();
        let modern_answer = modern.calls.response();
        for answer in [answer, modern_answer] {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(answer.text().contains(r#""text":"[]""#), "{answer:?}");
        }
        assert_eq!(relay.exit_status().code(), Some(0));
        assert_eq!(relay.into_stderr(), "");
    }

    #[test]
    fn a_client_that_does_not_read_its_stream_does_not_hold_up_the_end() {
        let mut relay = Relay::start();
        let mut deaf = relay.session(Way::Sse);
        let body = "x".repeat(1024 * 1024);
        for _ in 0..6 {
            relay.session(Way::Http).post("pm", "dev-a", &body);
            deaf.begin("read_messages", &json!({"for": "dev-a"}));
        }
        let started = Instant::now();
        relay.signal("TERM");
        assert_eq!(relay.exit_status().code(), Some(0));
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "{:?}",
            started.elapsed()
        );
    }

    #[test]
    fn a_client_in_the_middle_of_a_call_does_not_hold_up_the_end() {
        let mut relay = Relay::start();
        let mut half = relay.connect();
        half.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{");
        let mut head = relay.connect();
        head.send(b"GET /sse HTT");
        relay.health();
        let started = Instant::now();
        relay.signal("TERM");
        assert_eq!(relay.exit_status().code(), Some(0));
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "{:?}",
            started.elapsed()
        );
    }
}

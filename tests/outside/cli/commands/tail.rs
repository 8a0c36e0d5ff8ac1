use std::io::{BufRead as _, BufReader};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, channel};

use super::*;

/// A `relay tail` that runs.
struct Tail {
    process: Process,
    lines: Receiver<String>,
}

impl Tail {
    /// Starts one, and waits until it is connected.
    fn start(relay: &Relay, arguments: &[&str]) -> Self {
        Self::start_at(relay.port, relay, arguments)
    }

    /// The same at another port, which leads to that relay.
    fn start_at(port: u16, relay: &Relay, arguments: &[&str]) -> Self {
        let mut command = relay_command();
        command.arg("tail").args(arguments);
        command.args(["--port", &port.to_string()]);
        let mut process = Process::start(command.stdout(Stdio::piped()));
        let stdout = process.child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        let tail = Self { process, lines };
        // Nothing else says that it has begun.
        let mut number = 0;
        until("its first line", || {
            number += 1;
            say(relay, &format!("begin {number}"));
            let line = tail.lines.recv_timeout(Duration::from_millis(200));
            let is_news = |line: &String| line.contains("started anew");
            assert!(!line.as_ref().is_ok_and(is_news), "it has known no other");
            line.is_ok()
        });
        std::thread::sleep(Duration::from_millis(200));
        tail.lines.try_iter().for_each(drop);
        tail
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    /// Returns what stands behind the time.
    #[track_caller]
    fn said(&self) -> String {
        let line = self.line();
        let (time, said) = line.split_at("[14:32:01] ".len());
        assert!(time.starts_with('[') && time.ends_with("] "), "{line:?}");
        said.to_owned()
    }
}

fn say(relay: &Relay, text: &str) {
    ask(relay.port, &["send", "pm", text, "--from", "dev-b"])
        .assert()
        .code(0);
}

#[test]
fn messages_and_what_becomes_of_them_are_shown_as_they_happen() {
    let relay = told();
    let tail = Tail::start(&relay, &[]);
    let sent = ask(
        relay.port,
        &[
            "send",
            "dev-a",
            "a task\nin lines \u{1b}[2J",
            "--from",
            "pm",
            "--json",
        ],
    )
    .assert();
    let sent: Value = serde_json::from_str(&stdout_of(&sent.code(0))).expect("JSON");
    let id = &sent["id"].as_str().expect("an id")[..8];
    assert_eq!(
        tail.said(),
        format!("pm → dev-a [free] \"a task in lines \\u{{1b}}[2J\"  {id}")
    );
    let mut session = relay.session(Way::Sse);
    assert_eq!(session.read("dev-a").bodies().len(), 1);
    drop(session);
    assert_eq!(
        tail.said(),
        format!("  dev-a ← pm {id} waits again: its connection broke")
    );
    ask(relay.port, &["read", "dev-a"]).assert().code(0);
    assert_eq!(tail.said(), format!("  dev-a ← pm {id} delivered"));
    let _registered = relay.bound_session(Way::Sse, "alice&role=reviewer");
    assert_eq!(tail.said(), "  alice is there");
    assert!(tail.lines.try_recv().is_err());
}

#[test]
fn json_has_each_event_in_a_line_with_the_next_number() {
    let relay = told();
    let tail = Tail::start(&relay, &["--json"]);
    ask(relay.port, &["send", "dev-a", "task", "--from", "pm"])
        .assert()
        .code(0);
    let events = [tail.line(), tail.line()].map(|line| serde_json::from_str::<Value>(&line).expect("JSON"));
    assert_eq!(events[0]["type"], "dm.received");
    assert_eq!(events[0]["message"]["text"], "task");
    assert_eq!(events[1]["type"], "delivery.accepted");
    let number = |event: &Value| event["seq"].as_u64().expect("a number");
    assert_eq!(number(&events[0]) + 1, number(&events[1]));
}

#[test]
fn it_goes_on_when_relay_is_back() {
    let mut relay = told();
    let tail = Tail::start(&relay, &[]);
    relay.kill();
    ask(relay.port, &["tail"])
        .assert()
        .code(1)
        .stderr(contains("relay is not running"));
    relay.restart();
    assert_eq!(tail.line(), "[relay] relay was started anew");
    ask(relay.port, &["send", "dev-a", "again", "--from", "pm"])
        .assert()
        .code(0);
    assert!(tail.said().starts_with("pm → dev-a [free] \"again\""));
    let mut process = tail.process;
    let said = process.kill();
    assert_eq!(
        said,
        "relay tail: the connection to relay has ended; it goes on as soon as relay answers\n"
    );
}

#[test]
fn it_ends_when_nobody_reads_it() {
    let relay = told();
    let mut command = relay_command();
    command.args(["tail", "--port", &relay.port.to_string()]);
    let mut process = Process::start(command.stdout(Stdio::piped()));
    let stdout: ChildStdout = process.child.stdout.take().expect("it is piped");
    drop(stdout);
    let mut ended = None;
    until("its end", || {
        ask(relay.port, &["send", "pm", "x", "--from", "dev-b"])
            .assert()
            .code(0);
        ended = process.child.try_wait().expect("it is a child of this test");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
    assert_eq!(process.kill(), "");
}

#[test]
fn it_says_why_relay_has_ended_it() {
    let mut relay = told();
    let tail = Tail::start(&relay, &[]);
    ask(relay.port, &["stop"]).assert().code(0);
    relay.restart();
    // By now it has said it.
    assert_eq!(tail.line(), "[relay] relay was started anew");
    let mut process = tail.process;
    assert_eq!(
        process.kill(),
        "relay tail: relay is stopping; it goes on as soon as relay answers\n"
    );
}

#[test]
fn an_agents_own_shell_is_shown_nothing() {
    let relay = told();
    let refused = ask(relay.port, &["tail"]).env("CLAUDECODE", "1").assert();
    refused.code(2).stdout("").stderr(
        "relay tail: this is an agent's own shell (CLAUDECODE is set), and all that is said is shown to the person alone; read your own inbox\n",
    );
}

/// What is open between relay and those who connect to another port.
type Open = std::sync::Arc<std::sync::Mutex<Vec<TcpStream>>>;

/// Breaks off all that is passed on.
fn break_off(open: &Open) {
    for end in open.lock().expect("nobody panics there").drain(..) {
        let _gone = end.shutdown(std::net::Shutdown::Both);
    }
}

/// Passes on what comes in at a port of its own, which it returns with the ends of all that was passed on.
fn between(relay: u16) -> (u16, Open) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it listens").port();
    let open = Open::default();
    let opened = Open::clone(&open);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", relay)) else {
                continue;
            };
            let other = |stream: &TcpStream| stream.try_clone().expect("a socket");
            let ends = [other(&client), other(&server)];
            opened.lock().expect("nobody panics there").extend(ends);
            for (mut from, mut to) in [(other(&client), other(&server)), (server, client)] {
                std::thread::spawn(move || {
                    let _broken = std::io::copy(&mut from, &mut to);
                    let _closed = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (port, open)
}

#[test]
fn what_comes_while_its_connection_is_broken_is_shown_once_and_nothing_is_shown_again() {
    let relay = told();
    let (port, open) = between(relay.port);
    let tail = Tail::start_at(port, &relay, &[]);
    let is_shown = |text: &str| {
        let said = tail.said();
        assert!(
            said.starts_with(&format!("dev-b → pm [free] \"{text}\"")),
            "{said}"
        );
    };
    say(&relay, "before");
    // A line of the beginning may come late.
    while !tail.line().contains("\"before\"") {}
    break_off(&open);
    for text in ["meanwhile", "afterwards"] {
        say(&relay, text);
        is_shown(text);
    }
}

/// Passes on what comes in at a port of its own, which it returns. The first who asks for what is behind an event asks for what is behind
/// one that is still to come; whether somebody will be the first is returned, too.
fn ahead_of(port: u16) -> (u16, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    use std::sync::atomic::{AtomicBool, Ordering};

    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let own = listener.local_addr().expect("it listens").port();
    let is_first = std::sync::Arc::new(AtomicBool::new(true));
    let told = std::sync::Arc::clone(&is_first);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)) else {
                continue;
            };
            let other = |stream: &TcpStream| stream.try_clone().expect("a socket");
            let (mut answers, mut asks) = (other(&server), other(&client));
            std::thread::spawn(move || {
                let _broken = std::io::copy(&mut answers, &mut asks);
                let _closed = asks.shutdown(std::net::Shutdown::Both);
            });
            let is_first = std::sync::Arc::clone(&is_first);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = std::io::Read::read(&mut client, &mut bytes) {
                    let mut asked = bytes[..count].to_vec();
                    let since = b"since=";
                    let found = asked.windows(since.len()).position(|part| part == since);
                    if let Some(found) = found.filter(|_| is_first.swap(false, Ordering::Relaxed)) {
                        asked.insert(found + since.len(), b'9');
                    }
                    if server.write_all(&asked).is_err() {
                        break;
                    }
                }
                let _closed = server.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    (own, told)
}

#[test]
fn a_relay_that_counts_from_a_clock_that_was_set_back_is_followed_on() {
    let relay = told();
    let (port, open) = between(relay.port);
    let (port, is_to_come) = ahead_of(port);
    let tail = Tail::start_at(port, &relay, &[]);
    break_off(&open);
    say(&relay, "afterwards");
    while !tail.line().contains("[free] \"afterwards\"") {}
    let is_to_come = is_to_come.load(std::sync::atomic::Ordering::Relaxed);
    assert!(!is_to_come, "it has asked for what is behind an event");
}

#[test]
fn what_listens_to_nobody_as_a_relay_does_is_told_to_whom_it_answers() {
    let whole = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let health = whole("200 OK", r#"{"name":"relay","version":"1","started_at":"now"}"#);
    let accepts = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: bm8=\r\n\r\n";
    let no_relay = "what listens on 127.0.0.1:PORT does not answer as a relay does; name relay's port with --port, or try again if a relay there is stopped or busy";
    let gone =
        "relay on 127.0.0.1:PORT went away during the call, which may or may not have been carried out";
    for (answer, said) in [
        (String::new(), gone),
        (whole("200 OK", "hello"), no_relay),
        (whole("400 Bad Request", r#"{"error":"not here"}"#), "not here"),
        (accepts.to_owned(), no_relay),
    ] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
        let port = listener.local_addr().expect("it listens").port();
        let health = health.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                for answer in [&health, &answer] {
                    let _asked = std::io::Read::read(&mut stream, &mut [0; 4096]);
                    let _gone = stream.write_all(answer.as_bytes());
                }
            }
        });
        let said = format!("relay tail: {}\n", said.replace("PORT", &port.to_string()));
        ask(port, &["tail"]).assert().code(1).stdout("").stderr(said);
    }
}

#[test]
fn each_end_of_its_connection_is_told_with_its_own_reason() {
    let mut relay = told();
    let tail = Tail::start(&relay, &[]);
    ask(relay.port, &["stop"]).assert().code(0);
    relay.restart();
    assert_eq!(tail.line(), "[relay] relay was started anew");
    relay.kill_and_restart();
    assert_eq!(tail.line(), "[relay] relay was started anew");
    let mut process = tail.process;
    let goes_on = "it goes on as soon as relay answers";
    assert_eq!(
        process.kill(),
        format!(
            "relay tail: relay is stopping; {goes_on}\nrelay tail: the connection to relay has ended; {goes_on}\n"
        )
    );
}

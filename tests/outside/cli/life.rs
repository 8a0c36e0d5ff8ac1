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
    let all = format!("{banner}[relay] stopped\n");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), all);
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
    assert_eq!(relay.last_lines(), ["[relay] stopped"]);

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

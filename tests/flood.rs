//! Connections without end: silent ones, many in a row, more than there are files for. Others get through.

#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, and reads its output in threads"
)]

#[expect(dead_code, reason = "each test file uses a part of what they share")]
mod support;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use support::http::{Arrived, Request};
use support::process::Relay;

/// As many connections as relay accepts at a time, and some.
const FLOOD: usize = 10_200;

/// What a silent connection is given, and what a busy machine takes besides.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(20);

/// Allows this process as many files as the system does, and returns how many connections it can hold.
fn raise_open_files() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the maximum is allowed");
    let files = limit
        .current
        .map_or(usize::MAX, |files| usize::try_from(files).expect("a count"));
    FLOOD.min(files.saturating_sub(100))
}

/// Opens connections that say `first`, and nothing more.
fn flood(relay: &Relay, count: usize, first: &[u8]) -> Vec<TcpStream> {
    let open = |_| {
        let stream = TcpStream::connect(("127.0.0.1", relay.port)).expect("the system takes it");
        std::io::Write::write_all(&mut (&stream), first).expect("the system takes it");
        stream
    };
    (0..count).map(open).collect()
}

/// Asks over a new connection until there is an answer, and returns how long that took.
fn answered_after(relay: &Relay) -> Duration {
    let started = Instant::now();
    let mut connection = relay.connect();
    let response = connection.exchange(&Request::get("/health"));
    assert_eq!(response.status, 200);
    started.elapsed()
}

fn complaints(relay: Relay) -> Vec<String> {
    let stderr = relay.into_stderr();
    stderr
        .lines()
        .filter(|line| line.contains("WARN"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn silent_connections_without_end_cost_a_client_no_more_than_their_patience() {
    let count = raise_open_files();
    let relay = Relay::start();
    for first in [&b""[..], b"POST /mcp HTTP/1.1\r\nHost: local"] {
        let held = flood(&relay, count, first);
        let took = answered_after(&relay);
        assert!(took < HEAD_PATIENCE + SLACK, "{took:?}");
        drop(held);
    }
    let complaints = complaints(relay);
    assert!(complaints.len() <= 1, "{complaints:?}");
}

#[test]
fn a_connection_that_asks_for_nothing_is_closed_and_one_that_did_ask_is_not() {
    let relay = Relay::start();
    let mut asked = relay.connect();
    assert_eq!(asked.exchange(&Request::get("/health")).status, 200);
    let mut silent = relay.connect();
    let mut half = relay.connect();
    half.send(b"GET /health HTTP/1.1\r\n");
    let started = Instant::now();
    assert_eq!(silent.receive(HEAD_PATIENCE + SLACK), Arrived::Closed);
    assert!(started.elapsed() > HEAD_PATIENCE / 2, "{:?}", started.elapsed());
    assert!(matches!(
        half.receive(HEAD_PATIENCE + SLACK),
        Arrived::Closed | Arrived::Reset
    ));
    // It has rested for longer than the others were given.
    assert_eq!(asked.receive(HEAD_PATIENCE), Arrived::Nothing);
    assert_eq!(asked.exchange(&Request::get("/health")).status, 200);
}

#[test]
fn a_head_that_is_begun_on_a_connection_that_has_asked_before_must_end_too() {
    let relay = Relay::start();
    let mut slow = relay.connect();
    assert_eq!(slow.exchange(&Request::get("/health")).status, 200);
    slow.send(b"GET /health HTTP/1.1\r\n");
    assert!(matches!(
        slow.receive(2 * HEAD_PATIENCE + SLACK),
        Arrived::Closed | Arrived::Reset
    ));
}

#[test]
fn connections_that_are_over_make_room_for_others() {
    let relay = Relay::start();
    for _ in 0..FLOOD {
        drop(TcpStream::connect(("127.0.0.1", relay.port)).expect("the system takes it"));
    }
    assert!(answered_after(&relay) < SLACK);
    assert_eq!(complaints(relay), Vec::<String>::new());
}

#[test]
fn a_relay_that_has_run_out_of_files_goes_on_when_there_are_some_again() {
    const FILES: u64 = 40;
    let relay = Relay::start();
    let limit = Rlimit {
        current: Some(FILES),
        maximum: Some(FILES),
    };
    let pid = i32::try_from(relay.pid()).expect("a process id");
    prlimit(Pid::from_raw(pid), Resource::Nofile, limit).expect("it is this user's");
    let held = flood(&relay, 2 * FILES as usize, b"");
    let took = answered_after(&relay);
    assert!(took < 2 * HEAD_PATIENCE + SLACK, "{took:?}");
    drop(held);
    let complaints = complaints(relay);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(
        complaints[0].contains("cannot accept connections for the moment"),
        "{complaints:?}"
    );
}

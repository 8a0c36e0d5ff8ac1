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

use support::http::Request;
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

/// Opens connections that say nothing.
fn flood(relay: &Relay, count: usize) -> Vec<TcpStream> {
    let open = |_| TcpStream::connect(("127.0.0.1", relay.port)).expect("the system takes it");
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
    let held = flood(&relay, count);
    let took = answered_after(&relay);
    assert!(took < HEAD_PATIENCE + SLACK, "{took:?}");
    drop(held);
    let complaints = complaints(relay);
    assert!(complaints.len() <= 1, "{complaints:?}");
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
    // It needs some of them itself.
    let held = flood(&relay, FILES as usize);
    let took = answered_after(&relay);
    assert!(took < HEAD_PATIENCE + SLACK, "{took:?}");
    drop(held);
    let complaints = complaints(relay);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(
        complaints[0].contains("cannot accept connections for the moment"),
        "{complaints:?}"
    );
}

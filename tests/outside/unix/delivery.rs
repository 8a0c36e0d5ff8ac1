//! The delivery contract over the unix socket: what confirms a hand-over there, and what undoes it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::*;
use crate::support::http::Request;

/// A message for `pm` that an agent over the socket has read as its last act, and the id of that call.
fn read_by_an_agent(relay: &Relay) -> (Agent, u64) {
    relay.session(Way::Http).post("dev-a", "pm", "x");
    let mut agent = bridge_to(relay);
    let id = agent.begin("read_messages", &json!({"for": "pm"}));
    assert_eq!(agent.finish(id).bodies(), ["x"]);
    (agent, id)
}

#[test]
fn an_answer_is_read_once_the_agents_next_request_came() {
    let relay = Relay::start_told();
    let (mut agent, _) = read_by_an_agent(&relay);
    // The first may have come before the bridge saw that stdout had taken the answer.
    agent.is_heard();
    agent.is_heard();
    agent.signal("KILL");
    agent.exit_status();
    relay.await_sessions(0);
    assert_eq!(relay.bodies("pm"), [] as [String; 0]);
}

#[test]
fn an_answer_is_read_when_stdin_ends_in_order_after_it() {
    let relay = Relay::start_told();
    let (agent, _) = read_by_an_agent(&relay);
    assert_eq!(agent.end(), [] as [Value; 0]);
    relay.await_sessions(0);
    assert_eq!(relay.bodies("pm"), [] as [String; 0]);
}

#[test]
fn an_answer_is_taken_back_when_the_bridge_is_killed_before_the_agents_next_request() {
    for name in ["KILL", "TERM"] {
        let relay = Relay::start_told();
        let (mut agent, _) = read_by_an_agent(&relay);
        agent.signal(name);
        agent.exit_status();
        relay.await_sessions(0);
        assert_eq!(relay.bodies("pm"), ["again: x"], "{name}");
    }
}

#[test]
fn an_answer_is_taken_back_by_its_cancellation_before_and_behind_the_next_request() {
    for heard in [false, true] {
        let relay = Relay::start_told();
        let (mut agent, id) = read_by_an_agent(&relay);
        if heard {
            agent.is_heard();
            agent.post("dev-a", "dev-b", "y").posted();
        }
        agent.cancel(id);
        assert_eq!(agent.read("pm").bodies(), ["again: x"], "heard: {heard}");
    }
}

#[test]
fn a_cancelled_wait_takes_nothing_and_many_calls_go_over_one_bridge() {
    let relay = Relay::start_told();
    let mut agent = bridge_to(&relay);
    for round in 0..20 {
        let wait = agent.wait("pm", 60.0);
        agent.is_heard();
        agent.cancel(wait);
        let body = format!("round {round}");
        agent.post("dev-a", "pm", &body).posted();
        assert_eq!(agent.read("pm").bodies(), [body]);
    }
    assert_eq!(agent.end(), [] as [Value; 0]);
    relay.await_sessions(0);
    assert_eq!(relay.bodies("pm"), [] as [String; 0]);
}

#[test]
fn an_answer_of_many_megabytes_arrives_whole() {
    let relay = Relay::start_told();
    let mut agent = bridge_to(&relay);
    let sent: Vec<String> = (0..8).map(|n| n.to_string().repeat(1_000_000)).collect();
    for body in &sent {
        agent.post("dev-a", "pm", body).posted();
    }
    assert!(agent.read("pm").bodies() == sent);
    assert!(agent.read("pm").bodies().is_empty());
}

/// Reads for `pm` over a connection of its own, and takes so many bytes less of the answer than there are.
fn read_by_hand(relay: &Relay, unread: usize) -> UnixStream {
    relay.session(Way::Http).post("dev-a", "pm", "x");
    relay.await_sessions(0);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "read_messages", "arguments": {"for": "pm"}}});
    let request = Request::post("/mcp", call.to_string());
    let mut stream = UnixStream::connect(relay.socket()).expect("a relay listens");
    stream.write_all(&request.bytes()).expect("it is taken");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a whole head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("a head is text").to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").parse().expect("a number");
    let mut body = vec![0; length - unread];
    stream.read_exact(&mut body).expect("the body");
    stream
}

#[test]
fn a_client_that_closes_having_read_all_has_read_and_one_that_left_a_byte_has_not() {
    for (unread, expected) in [(0, vec![]), (1, vec!["again: x"])] {
        let relay = Relay::start_told();
        drop(read_by_hand(&relay, unread));
        relay.await_sessions(0);
        assert_eq!(relay.bodies("pm"), expected, "unread: {unread}");
    }
}

#[test]
fn a_client_that_only_sends_no_more_has_read_once_it_has_taken_all() {
    let relay = Relay::start_told();
    let mut stream = read_by_hand(&relay, 1);
    stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    // relay looks again and again while the last byte is not taken.
    let in_doubt = || relay.health()["roles"][0]["in_doubt"].clone();
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!((relay.sessions(), in_doubt()), (1, json!(1)));
    stream.read_exact(&mut [0]).expect("the last byte");
    relay.await_sessions(0);
    drop(stream);
    assert_eq!(relay.bodies("pm"), [] as [String; 0]);
}

//! An agent that is registered is known from its handshake on, and again after relay was started anew.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;

/// How soon a bridge is known to a relay that was started again, at the latest.
const KNOWN_AGAIN: Duration = Duration::from_secs(3);

/// The roles that relay knows, when an agent is among them.
fn known(relay: &Relay, agent: &str) -> bool {
    let health = relay.health();
    let roles = health["roles"].as_array().expect("a list").iter();
    roles.clone().any(|role| role["role"] == agent)
}

fn is_known_in_time(relay: &Relay, agent: &str) -> bool {
    let asked = Instant::now();
    while asked.elapsed() < KNOWN_AGAIN {
        if known(relay, agent) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn an_agent_is_known_from_its_handshake_on_and_again_after_a_restart() {
    let mut relay = Relay::start();
    let arguments = ["--agent", "Alice", "--tools", "agent-relay"];
    let mut alice = Agent::start_with(relay.port, &arguments);
    assert!(is_known_in_time(&relay, "Alice"), "before its first call");
    relay.kill_and_restart();
    assert!(is_known_in_time(&relay, "Alice"), "without a call");
    let mut bob = Agent::start_with(relay.port, &["--agent", "Bob", "--tools", "agent-relay"]);
    let sent = bob.call("relay_send", &json!({"to": "Alice", "message": "hi"}));
    assert_eq!(sent.texts, ["Message sent to Alice"]);
    let read = alice.call("relay_inbox", &json!({}));
    assert!(read.texts[0].ends_with("From Bob:\nhi"), "{read:?}");
    let who = bob.call("relay_who", &json!({}));
    assert!(
        who.texts[0].contains("- Alice (relay-bridge-tests) - active"),
        "{who:?}"
    );
}

#[test]
fn an_agent_is_not_known_before_its_handshake() {
    let relay = Relay::start();
    let mut alice = Agent::start_silent(relay.port, &["--agent", "Alice", "--tools", "agent-relay"]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!known(&relay, "Alice"));
    alice.shake_hands();
    assert!(is_known_in_time(&relay, "Alice"));
}

#[test]
fn a_client_that_makes_no_handshake_is_known_once_it_has_discovered_its_server() {
    let relay = Relay::start();
    let mut alice = Agent::start_silent(relay.port, &["--agent", "Alice", "--tools", "agent-relay"]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a-client", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    alice.write(&request(1, "server/discover", &json!({"_meta": meta})));
    let versions = alice.heard()["result"]["supportedVersions"].clone();
    assert!(
        versions
            .as_array()
            .expect("a list")
            .contains(&json!("2026-07-28")),
        "{versions}"
    );
    assert!(is_known_in_time(&relay, "Alice"), "without a call");
    let mut bob = Agent::start_with(relay.port, &["--agent", "Bob", "--tools", "agent-relay"]);
    let who = bob.call("relay_who", &json!({}));
    assert!(who.texts[0].contains("- Alice (a-client) - active"), "{who:?}");
}

#[test]
fn a_client_that_makes_no_handshake_and_discovers_nothing_is_known_by_its_first_request() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a-client", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({"name": "relay_status", "arguments": {}, "_meta": meta});
    let read = json!({"uri": "relay://project", "_meta": meta});
    let subscribe = json!({"notifications": {"resourceSubscriptions": ["relay://inbox"]}, "_meta": meta});
    for (method, params) in [
        ("tools/call", call),
        ("tools/list", json!({"_meta": meta})),
        ("resources/read", read),
        ("subscriptions/listen", subscribe),
    ] {
        let mut relay = Relay::start();
        let mut alice = Agent::start_silent(relay.port, &["--agent", "Alice", "--tools", "agent-relay"]);
        alice.write(&request(1, method, &params));
        alice.heard();
        assert!(is_known_in_time(&relay, "Alice"), "{method}");
        relay.kill_and_restart();
        assert!(is_known_in_time(&relay, "Alice"), "{method}");
        let mut bob = Agent::start_with(relay.port, &["--agent", "Bob", "--tools", "agent-relay"]);
        let who = bob.call("relay_who", &json!({}));
        assert!(
            who.texts[0].contains("- Alice (a-client) - active"),
            "{method}: {who:?}"
        );
    }
}

/// How often a process has gone to sleep.
#[cfg(target_os = "linux")]
fn sleeps(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of_task = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    tasks.flatten().map(of_task).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn a_bridge_that_rests_is_not_woken() {
    let relay = Relay::start();
    let alice = Agent::start_with(relay.port, &["--agent", "Alice", "--tools", "agent-relay"]);
    assert!(is_known_in_time(&relay, "Alice"));
    std::thread::sleep(Duration::from_millis(500));
    let before = sleeps(alice.pid());
    std::thread::sleep(Duration::from_secs(4));
    let woken = sleeps(alice.pid()) - before;
    assert!(woken < 6, "{woken} times in four seconds");
}

#[test]
fn an_agent_of_the_roster_alone_shows_itself_by_its_calls() {
    let relay = Relay::start();
    let _agent = Agent::start_with(relay.port, &["--agent", "pm"]);
    std::thread::sleep(Duration::from_millis(300));
    let connections = relay.health()["connections"].clone();
    let bound = |connection: &Value| connection["role"] == "pm";
    assert!(
        !connections.as_array().expect("a list").iter().any(bound),
        "{connections}"
    );
}

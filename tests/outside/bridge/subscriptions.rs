//! Subscriptions, which outlive the relay.

use super::*;

const INBOX: &str = "relay://inbox";
const AGENTS: &str = "relay://agents";

/// Long enough to notice that something was said which should not have been.
const QUIET: Duration = Duration::from_millis(300);

fn bridge(port: u16, name: &str) -> Agent {
    Agent::start_with(port, &["--agent", name, "--tools", "agent-relay"])
}

fn updated(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
}

fn done(agent: &mut Agent, method: &str, uri: &str) {
    let id = agent.ask(method, &json!({"uri": uri}));
    assert_eq!(agent.heard(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
}

fn send_to_alice(bob: &mut Agent) {
    let sent = bob.call("relay_send", &json!({"to": "Alice", "message": "hi"}));
    assert_eq!(sent.texts[0], "Message sent to Alice");
}

#[test]
fn a_change_is_told_on_stdout_and_told_again_after_relay_was_killed_and_started_anew() {
    let mut relay = Relay::start();
    let (mut alice, mut bob) = (bridge(relay.port, "Alice"), bridge(relay.port, "Bob"));
    done(&mut alice, "resources/subscribe", INBOX);
    done(&mut alice, "resources/subscribe", INBOX);
    for _ in 0..2 {
        send_to_alice(&mut bob);
        assert_eq!(alice.heard(), updated(INBOX));
    }
    for _ in 0..2 {
        relay.kill_and_restart();
        assert_eq!(alice.heard(), updated(INBOX), "something may have been missed");
        send_to_alice(&mut bob);
        assert_eq!(alice.heard(), updated(INBOX));
    }
    done(&mut alice, "resources/unsubscribe", INBOX);
    done(&mut alice, "resources/unsubscribe", INBOX);
    send_to_alice(&mut bob);
    alice.says_nothing(QUIET);
    assert_eq!(alice.end(), [] as [Value; 0]);
}

#[test]
fn an_unsubscribe_that_overtakes_its_subscribe_holds() {
    let relay = Relay::start();
    let (mut alice, mut bob) = (bridge(relay.port, "Alice"), bridge(relay.port, "Bob"));
    send_to_alice(&mut bob);
    relay.signal("STOP");
    let asked = json!({"uri": INBOX});
    let [subscribe, unsubscribe] =
        ["resources/subscribe", "resources/unsubscribe"].map(|method| alice.ask(method, &asked));
    for id in [unsubscribe, subscribe] {
        assert_eq!(alice.heard(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
        relay.signal("CONT");
    }
    send_to_alice(&mut bob);
    alice.says_nothing(QUIET);
}

#[test]
fn what_is_subscribed_to_while_there_is_no_relay_is_told_of_once_there_is_one() {
    let mut relay = Relay::start();
    relay.kill();
    let mut alice = bridge(relay.port, "Alice");
    done(&mut alice, "resources/subscribe", INBOX);
    relay.restart();
    assert_eq!(alice.heard(), updated(INBOX));
    send_to_alice(&mut bridge(relay.port, "Bob"));
    assert_eq!(alice.heard(), updated(INBOX));
}

#[test]
fn each_resource_is_subscribed_to_by_itself() {
    let relay = Relay::start();
    let mut alice = bridge(relay.port, "Alice");
    for uri in [INBOX, AGENTS, "relay://project"] {
        done(&mut alice, "resources/subscribe", uri);
    }
    let mut bob = bridge(relay.port, "Bob");
    assert_eq!(alice.heard(), updated(AGENTS));
    done(&mut alice, "resources/unsubscribe", AGENTS);
    send_to_alice(&mut bob);
    assert_eq!(alice.heard(), updated(INBOX));
    alice.says_nothing(QUIET);
}

#[test]
fn what_cannot_be_subscribed_to_is_refused_with_what_can() {
    let mut alice = bridge(free_port(), "Alice");
    let known = "known resources: relay://agents, relay://inbox, relay://project";
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        alice.ask(method, &json!({"uri": "relay://other"}));
        let message = format!("unknown resource \"relay://other\"; {known}");
        let error = json!({"code": -32002, "message": message});
        assert_eq!(alice.heard()["error"], error);
    }
    let mut of_lift = Agent::start(free_port());
    of_lift.ask("resources/subscribe", &json!({"uri": INBOX}));
    assert_eq!(of_lift.heard()["error"]["code"], -32601);
}

#[test]
fn an_older_instance_of_an_agent_is_told_why_it_cannot_subscribe() {
    let relay = Relay::start();
    let mut old = bridge(relay.port, "Alice");
    old.call("relay_status", &json!({}));
    let mut new = bridge(relay.port, "Alice");
    new.call("relay_status", &json!({}));
    for _ in 0..2 {
        old.ask("resources/subscribe", &json!({"uri": INBOX}));
        let said = old.heard();
        let reason = said["error"]["message"].as_str().unwrap_or_default();
        assert!(
            reason.contains("\"Alice\" was taken over by a session that began later"),
            "{said}"
        );
    }
}

#[test]
fn the_bridges_of_a_worker_are_of_one_instance_and_take_nothing_from_a_later_one() {
    let [relay, another] = [Relay::start(), Relay::start()];
    let started = |instance: Option<&str>, port: u16, name: &str, project: &str| {
        let mut bridge = relay_command();
        bridge.args([
            "mcp",
            "--port",
            &port.to_string(),
            "--agent",
            name,
            "--tools",
            "agent-relay",
        ]);
        bridge.env("RELAY_PROJECT", project);
        let of_worker = instance.map(|instance| format!("{}/default/Alice/{instance}", relay.port));
        bridge.envs(of_worker.map(|of_worker| ("RELAY_INSTANCE", of_worker)));
        Agent::start_by(bridge)
    };
    let of_worker = |instance: &str, name: &str| started(Some(instance), relay.port, name, "default");
    let [first, later] = [1, 2].map(|number| format!("00000000-0000-7000-8000-00000000000{number}"));
    let agents = ["Alice", "Alice", "Bob"].map(|name| of_worker(&first, name));
    let looks = |agent: &mut Agent| {
        let answer = agent.call("relay_inbox", &json!({}));
        (!answer.is_error).then_some(()).ok_or(answer.texts)
    };
    let [mut one, mut other, mut bob] = agents;
    for agent in [&mut one, &mut other, &mut bob] {
        assert_eq!(looks(agent), Ok(()));
    }
    assert_eq!(looks(&mut one), Ok(()));
    let mut of_later = of_worker(&later, "Alice");
    assert_eq!(looks(&mut of_later), Ok(()));
    // Also one that comes after it.
    for agent in [&mut one, &mut other, &mut of_worker(&first, "Alice")] {
        let refused = looks(agent).expect_err("another worker has its name");
        assert!(refused[0].contains("began later"), "{refused:?}");
    }
    // One that the worker starts for another project or another relay is somebody else, who begins now.
    for (port, project) in [
        (relay.port, "elsewhere"),
        (another.port, "default"),
        (another.port, ""),
    ] {
        let agents = [None, Some(&*first)].map(|instance| {
            let mut agent = started(instance, port, "Alice", project);
            (looks(&mut agent), agent)
        });
        assert_eq!(
            agents.each_ref().map(|(looked, _)| looked.clone()),
            [Ok(()), Ok(())],
            "{project}"
        );
    }
}

/// What a client of 2026-07-28, which makes no handshake, says of itself in each request.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn an_agent_without_a_handshake_listens_and_its_end_holds_nothing_up() {
    let mut relay = Relay::start();
    let mut alice = Agent::start_silent(relay.port, &["--agent", "Alice", "--tools", "agent-relay"]);
    let meta = meta();
    alice.write(&request(1, "server/discover", &json!({"_meta": meta})));
    let discovered = alice.heard();
    let capabilities = &discovered["result"]["capabilities"];
    assert_eq!(
        capabilities["resources"],
        json!({"subscribe": true}),
        "{discovered}"
    );
    let notifications = json!({"resourceSubscriptions": [INBOX, "relay://other"]});
    let params = json!({"notifications": notifications, "_meta": meta});
    alice.write(&request(2, "subscriptions/listen", &params));
    let accepted = alice.heard();
    let expected = json!({"resourceSubscriptions": [INBOX]});
    assert_eq!(accepted["params"]["notifications"], expected, "{accepted}");
    // Relay may have been asked a moment after that was said.
    assert_eq!(alice.heard()["params"]["uri"], INBOX);
    send_to_alice(&mut bridge(relay.port, "Bob"));
    let told = alice.heard();
    assert_eq!(told["params"]["uri"], INBOX);
    assert_eq!(
        told["params"]["_meta"],
        json!({"io.modelcontextprotocol/subscriptionId": 2})
    );
    relay.kill_and_restart();
    assert_eq!(alice.heard()["params"]["uri"], INBOX);
    let asked = Instant::now();
    alice.end();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
}

#[test]
fn an_agent_that_listens_can_call_meanwhile_and_is_told_of_each_resource_after_a_restart() {
    let mut relay = Relay::start();
    let mut alice = Agent::start_silent(relay.port, &["--agent", "Alice", "--tools", "agent-relay"]);
    let meta = meta();
    let params = json!({"notifications": {"resourceSubscriptions": [INBOX, AGENTS]}, "_meta": meta});
    alice.write(&request(1, "subscriptions/listen", &params));
    let accepted = alice.heard();
    assert_eq!(
        accepted["params"]["notifications"]["resourceSubscriptions"],
        json!([INBOX, AGENTS]),
        "{accepted}"
    );
    let is_told_of_both = |alice: &Agent| {
        for uri in [INBOX, AGENTS] {
            assert_eq!(alice.heard()["params"]["uri"], uri);
        }
    };
    is_told_of_both(&alice);
    let call = json!({"name": "relay_status", "arguments": {}, "_meta": meta});
    alice.write(&request(2, "tools/call", &call));
    let answer = alice.heard();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(2), &json!(false))
    );
    relay.kill_and_restart();
    is_told_of_both(&alice);
}

/// A request to be told of the changes of an agent's inbox.
fn listen(id: u64) -> String {
    let params = json!({"notifications": {"resourceSubscriptions": [INBOX]}, "_meta": meta()});
    request(id, "subscriptions/listen", &params)
}

#[test]
fn a_request_to_listen_with_the_id_of_another_is_refused_and_disturbs_neither() {
    let relay = Relay::start();
    let mut alice = Agent::start_silent(relay.port, &["--agent", "Alice", "--tools", "agent-relay"]);
    let told_of_inbox = |alice: &Agent| assert_eq!(alice.heard()["params"]["uri"], INBOX);
    let is_refused = |alice: &mut Agent, line: &str| {
        alice.write(line);
        let refused = alice.heard();
        assert_eq!(
            (&refused["id"], &refused["error"]["code"]),
            (&Value::Null, &json!(-32600)),
            "{refused}"
        );
    };
    let status = json!({"name": "relay_status", "arguments": {}, "_meta": meta()});
    relay.signal("STOP");
    alice.write(&request(1, "tools/call", &status));
    is_refused(&mut alice, &listen(1));
    relay.signal("CONT");
    assert!(!reply_of(&alice.heard()).is_error);
    alice.write(&listen(2));
    assert_eq!(
        alice.heard()["method"],
        "notifications/subscriptions/acknowledged"
    );
    told_of_inbox(&alice);
    is_refused(&mut alice, &listen(2));
    is_refused(
        &mut alice,
        &request(2, "server/discover", &json!({"_meta": meta()})),
    );
    is_refused(&mut alice, r#"{"jsonrpc":"1.0","id":2,"method":"ping"}"#);
    send_to_alice(&mut bridge(relay.port, "Bob"));
    told_of_inbox(&alice);
}

#[test]
fn requests_to_listen_are_bounded_and_make_room_when_they_are_cancelled() {
    let mut alice = Agent::start_silent(free_port(), &["--agent", "Alice", "--tools", "agent-relay"]);
    for id in 1..=512 {
        alice.write(&listen(id));
        assert_eq!(
            alice.heard()["method"],
            "notifications/subscriptions/acknowledged"
        );
    }
    alice.write(&listen(513));
    let refused = alice.heard();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(513), &json!(-32603)),
        "{refused}"
    );
    alice.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
    alice.write(&listen(513));
    assert_eq!(
        alice.heard()["method"],
        "notifications/subscriptions/acknowledged"
    );
}

#[test]
fn whom_a_worker_starts_under_another_name_begins_now() {
    let relay = Relay::start();
    let port = relay.port.to_string();
    let started = |of_worker: Option<&str>| {
        let mut bridge = relay_command();
        bridge.args(["mcp", "--port", &port, "--agent", "Bob", "--tools", "agent-relay"]);
        bridge.envs(of_worker.map(|of_worker| ("RELAY_INSTANCE", of_worker)));
        Agent::start_by(bridge)
    };
    let mut before = started(None);
    let looked = before.call("relay_inbox", &json!({}));
    assert!(!looked.is_error, "{looked:?}");
    let of_worker = format!("{port}/default/Alice/00000000-0000-7000-8000-000000000001");
    let mut later = started(Some(&of_worker));
    let looked = later.call("relay_inbox", &json!({}));
    assert!(!looked.is_error, "{looked:?}");
}

#[test]
fn an_unknown_method_is_refused_with_those_by_which_an_agent_is_told_of_changes() {
    let mut alice = bridge(free_port(), "Alice");
    let id = alice.ask("nonsense", &json!({}));
    let refused = alice.heard();
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(refused["id"], id, "{refused}");
    assert!(
        message.starts_with("unknown method \"nonsense\"; known methods: initialize, ping, ")
            && message.ends_with(", resources/read, resources/subscribe, resources/unsubscribe"),
        "{message}"
    );
}

#[test]
fn who_listens_to_nothing_that_there_is_listens_on() {
    let mut alice = Agent::start_silent(free_port(), &["--agent", "Alice", "--tools", "agent-relay"]);
    for (id, notifications) in [
        (1, json!({"resourceSubscriptions": ["relay://other"]})),
        (2, json!({})),
    ] {
        let params = json!({"notifications": notifications, "_meta": meta()});
        alice.write(&request(id, "subscriptions/listen", &params));
        let accepted = alice.heard();
        assert_eq!(
            accepted["method"], "notifications/subscriptions/acknowledged",
            "{accepted}"
        );
        assert_eq!(accepted["params"]["notifications"], json!({}), "{accepted}");
    }
    alice.says_nothing(QUIET);
}

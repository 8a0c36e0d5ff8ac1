//! Nodes over their WebSocket: an agent's own, and one for several agents.

use tungstenite::Message;

use super::node::{Node, upgrade};
use super::*;

impl World {
    pub fn own_node(&self, token: &str) -> Value {
        self.done("/v1/agent/node-token", token, &json!({}))
    }

    pub fn fleet(&self, more: Value) -> Value {
        let mut asked = json!({"name": "fleet"});
        for (field, value) in more.as_object().expect("an object") {
            asked[field] = value.clone();
        }
        self.done("/v1/nodes", &self.key, &asked)
    }

    fn dm(&self, text: &str) {
        self.done("/v1/dm", &self.alice, &json!({"to": "bob", "text": text}));
    }
}

#[test]
fn an_agents_own_node_gets_what_is_sent_to_it_and_again_what_it_has_not_acknowledged() {
    let world = World::new();
    world.dm("before");
    let made = world.own_node(&world.bob);
    assert_eq!(made["node_id"], "node_direct_agt_web:bob");
    let mut node = Node::connect(&world, &made);
    assert_eq!(node.delivery(), (1, "before".to_owned(), false));
    world.dm("one");
    world.dm("two");
    assert_eq!(node.delivery(), (2, "one".to_owned(), false));
    assert_eq!(node.delivery(), (3, "two".to_owned(), false));
    node.acknowledge("bob", 2);
    // An answer says that what came before it was heard.
    let beat =
        json!({"v": 1, "id": "b", "type": "node.heartbeat", "active_agents": 1, "handlers_live": false});
    assert_eq!(
        node.ask(&beat),
        json!({"v": 1, "type": "reply", "id": "b", "ok": true, "data": {}})
    );
    assert_eq!(world.bodies("web:bob"), [""; 0], "the node holds it");
    drop(node);
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    assert_eq!(node.delivery(), (3, "two".to_owned(), true));
    world.dm("three");
    assert_eq!(node.delivery(), (4, "three".to_owned(), false));
    node.acknowledge("bob", 4);
    assert_eq!(
        node.ask(&json!({"v": 1, "id": "d", "type": "node.deregister"}))["ok"],
        true
    );
    assert_eq!(world.bodies("web:bob"), [""; 0], "all of it was acknowledged");
    world.dm("four");
    assert_eq!(world.bodies("web:bob"), ["four"]);
}

#[test]
fn what_a_node_did_not_acknowledge_is_read_with_tools_when_it_leaves() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    world.dm("one");
    assert_eq!(node.delivery(), (1, "one".to_owned(), false));
    node.ask(&json!({"v": 1, "id": "d", "type": "node.deregister"}));
    assert_eq!(world.bodies("web:bob"), ["one"]);
}

#[test]
fn a_frame_has_what_the_clients_of_agent_relay_read() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    let sent = world.done("/v1/dm", &world.alice, &json!({"to": "bob", "text": "hi"}));
    let id = sent["message"]["id"].as_str().expect("an id");
    let delivery_id = format!("del_{id}_agt_web:bob");
    let news = node.hear();
    assert_eq!(news["agent_ids"], json!(["agt_web:bob"]));
    assert_eq!(
        news["data"],
        json!({"delivery_id": delivery_id, "message_id": id, "reason": "dm"})
    );
    let mut frame = node.hear();
    let at = frame["payload"]["data"]["created_at"].take();
    assert!(at.as_str().is_some_and(|at| at.ends_with('Z')), "{at}");
    let data = json!({
        "conversation_id": sent["conversation_id"],
        "message": {
            "id": id, "agent_id": "agt_web:alice", "agent_name": "alice", "text": "hi", "injection_mode": "wait",
            "attachments": [], "metadata": null,
        },
        "created_at": null, "id": id, "from_agent_id": "agt_web:alice", "to": "bob", "text": "hi",
        "injection_mode": "wait", "attachments": [], "from_name": "alice",
    });
    let expected = json!({
        "v": 1, "type": "deliver", "delivery_id": delivery_id, "agent_id": "agt_web:bob", "agent": "bob", "msg_id": id,
        "seq": 1, "mode": "wait", "payload": {"type": "dm.received", "data": data},
    });
    assert_eq!(frame, expected);
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    world.done("/v1/channels/ops/messages", &world.alice, &json!({"text": "all"}));
    node.hear();
    let frame = node.hear();
    assert_eq!(frame["payload"]["type"], "message.created");
    assert_eq!(frame["payload"]["data"]["channel_name"], "ops");
    assert_eq!(frame["seq"], 2);
}

#[test]
fn a_node_for_several_agents_has_those_that_are_bound_to_it_or_that_it_names() {
    let world = World::new();
    let made = world.fleet(json!({"max_agents": 2}));
    let mut node = Node::connect(&world, &made);
    let bound = world.done(
        "/v1/nodes/fleet/agents",
        &world.key,
        &json!({"agent_name": "bob"}),
    );
    assert_eq!(bound["delivery_ack_seq"], 0);
    world.dm("one");
    assert_eq!(node.delivery(), (1, "one".to_owned(), false));
    let worker = node.ask(&json!({"v": 1, "id": "a", "type": "agent.register", "name": "worker"}));
    assert_eq!(worker["data"]["agent_id"], "agt_web:worker");
    let full = node.ask(&json!({"v": 1, "id": "a", "type": "agent.register", "name": "more"}));
    assert_eq!(
        (&full["ok"], &full["code"]),
        (&json!(false), &json!("node_capacity_exceeded"))
    );
    let listed = world.seen("/v1/nodes/fleet/agents", &world.key);
    assert_eq!(listed.as_array().expect("a list").len(), 2);
    let conflict = world.post("/v1/agent/node-token", &world.bob, &json!({}));
    refused(&conflict, 409, "agent_bound_to_node", "fleet");
    let agents = json!([{"agent_id": "agt_web:bob", "name": "bob"}]);
    let synced = node.ask(&json!({"v": 1, "id": "s", "type": "inventory.sync", "agents": agents}));
    assert_eq!(synced["data"]["rebound_agents"][0]["name"], "bob");
    let unbound = Request::new("DELETE", "/v1/nodes/fleet/agents/bob");
    let unbound = world.relay.connect().exchange(&with(unbound, &world.key));
    assert_eq!(unbound.status, 204, "{unbound:?}");
    assert_eq!(world.bodies("web:bob"), ["one"], "it was not acknowledged");
    node.acknowledge("bob", 1);
    node.hears_nothing();
}

#[test]
fn a_node_that_registers_an_agent_gets_its_token() {
    let world = World::new();
    let made = world.fleet(json!({}));
    let mut node = Node::open(&world, &made);
    let capabilities = json!([{"name": "spawn:claude"}, {"name": "sum"}, {"name": "relay:delivery-cursor-v1", "kind": "capacity"}]);
    let registered = node.register(&json!({"capabilities": capabilities}));
    let accepted = json!([
        {"name": "spawn:claude", "kind": "capacity", "accepted": true},
        {"name": "sum", "kind": "action", "accepted": true},
        {"name": "relay:delivery-cursor-v1", "kind": "capacity", "accepted": true},
    ]);
    assert_eq!(registered["data"]["accepted_capabilities"], accepted);
    assert_eq!(registered["data"].get("provider"), None);
    // It names its agents before it takes their frames.
    world.done(
        "/v1/nodes/fleet/agents",
        &world.key,
        &json!({"agent_name": "bob"}),
    );
    world.dm("one");
    node.hears_nothing();
    let mut answer = node.ask(&json!({"v": 1, "id": "a", "type": "agent.register", "name": "bob"}));
    let token = answer["data"]["token"].take();
    assert_eq!(
        answer["data"],
        json!({"agent_id": "agt_web:bob", "name": "bob", "delivery_ack_seq": 0, "token": null})
    );
    assert_eq!(node.delivery(), (1, "one".to_owned(), false));
    assert_eq!(
        world.seen("/v1/agent", token.as_str().expect("a token"))["name"],
        "bob"
    );
}

#[test]
fn nodes_are_looked_for_by_their_name_and_by_an_action_that_they_offer() {
    let world = World::new();
    let mut fleet = Node::open(&world, &world.fleet(json!({})));
    let capabilities = json!([{"name": "spawn:claude"}, {"name": "sum"}, {"name": "add", "queue": true}]);
    let registered = fleet.register(&json!({"capabilities": capabilities}));
    assert_eq!(registered["ok"], true, "{registered}");
    world.done("/v1/nodes", &world.key, &json!({"name": "other"}));
    let found = |query: &str| {
        let all = world.seen(&format!("/v1/nodes?{query}"), &world.key);
        let all = all.as_array().expect("a list").iter();
        let row = |node: &Value| (node["name"].clone(), node["capabilities"].clone());
        all.map(row).collect::<Vec<_>>()
    };
    let offered = json!([{"name": "add", "kind": "action"}, {"name": "sum", "kind": "action"}]);
    let [fleet, other] = [(json!("fleet"), offered), (json!("other"), json!([]))];
    assert_eq!(found(""), [fleet.clone(), other.clone()]);
    assert_eq!(found("name=fleet"), std::slice::from_ref(&fleet));
    assert_eq!(found("name=other"), [other]);
    assert_eq!(found("name=flee"), []);
    assert_eq!(found("capability=sum"), std::slice::from_ref(&fleet));
    assert_eq!(found("name=other&capability=sum"), []);
    assert_eq!(found("capability=divide"), []);
    assert_eq!(world.seen("/v1/nodes/fleet", &world.key)["capabilities"], fleet.1);
    let made_again = world.done("/v1/nodes", &world.key, &json!({"name": "fleet"}));
    assert_eq!(made_again["capabilities"], fleet.1);
    for capacity in ["spawn:claude", "relay:delivery-cursor-v1", "release"] {
        refused(
            &world.get(&format!("/v1/nodes?capability={capacity}"), &world.key),
            501,
            "not_supported",
            "it keeps the actions of nodes alone",
        );
    }
    refused(
        &world.get("/v1/nodes?label=x", &world.key),
        400,
        "invalid_request",
        "\"label\"; accepted: name, capability",
    );
    // An action may be called like a capacity.
    let named = json!({"name": "spawn:codex", "handler_node": "fleet"});
    world.done("/v1/actions", &world.key, &named);
    let [(name, _)] = &found("capability=spawn:codex")[..] else {
        panic!("one node offers it")
    };
    assert_eq!(name, "fleet");
}

#[test]
fn what_is_said_without_an_id_is_not_answered() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    node.say(&json!({"v": 1, "type": "node.heartbeat", "active_agents": 1, "handlers_live": false}));
    node.hears_nothing();
    let wrong = node.ask(&json!({"v": 1, "type": "node.heartbeat"}));
    assert_eq!(wrong["code"], "invalid_message");
    assert_eq!(wrong["id"], "relay_1");
}

#[test]
fn a_binding_says_what_brokers_want_to_know() {
    let world = World::new();
    world.fleet(json!({}));
    let bind = json!({"agent_name": "bob", "session_ref": "s", "priority": 3});
    let bound = world.done("/v1/nodes/fleet/agents", &world.key, &bind);
    assert_eq!(
        (&bound["session_ref"], &bound["priority"]),
        (&json!("s"), &json!(3))
    );
    let bound = world.done(
        "/v1/nodes/fleet/agents",
        &world.key,
        &json!({"agent_name": "alice"}),
    );
    assert_eq!(
        (&bound["session_ref"], &bound["priority"]),
        (&Value::Null, &json!(0))
    );
    assert_eq!(bound["created_at"], bound["updated_at"]);
    assert!(bound["created_at"].is_string());
}

#[test]
fn an_orderly_end_is_answered_with_one() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    let close = tungstenite::protocol::CloseFrame {
        code: tungstenite::protocol::frame::coding::CloseCode::Normal,
        reason: "done".into(),
    };
    node.socket.close(Some(close.clone())).expect("it is taken");
    let answered = node.socket.read().expect("an end comes");
    assert_eq!(answered, Message::Close(Some(close)));
}

#[test]
fn what_a_slow_node_did_not_read_is_not_written_to_it_once_it_is_somebody_elses() {
    let world = World::new();
    let made = world.fleet(json!({}));
    let mut slow = Node::connect(&world, &made);
    world.done(
        "/v1/nodes/fleet/agents",
        &world.key,
        &json!({"agent_name": "bob"}),
    );
    // More than the sockets have room for.
    let text = "x".repeat(512 * 1024);
    for _ in 0..40 {
        world.dm(&text);
    }
    let deleted = Request::new("DELETE", "/v1/nodes/fleet/agents/bob");
    let deleted = world.relay.connect().exchange(&with(deleted, &world.key));
    assert_eq!(deleted.status, 204);
    assert_eq!(world.bodies("web:bob").len(), 40);
    let heard = slow.deliveries_until_silence();
    assert!(
        heard < 40,
        "{heard} came, where only what its socket had room for was to"
    );
}

#[test]
fn a_later_connection_supersedes_the_one_before() {
    let world = World::new();
    let made = world.fleet(json!({}));
    let mut first = Node::connect(&world, &made);
    let mut second = Node::connect(&world, &made);
    assert!(first.ended().contains("superseded"));
    world.done(
        "/v1/nodes/fleet/agents",
        &world.key,
        &json!({"agent_name": "bob"}),
    );
    world.dm("one");
    assert_eq!(second.delivery(), (1, "one".to_owned(), false));
}

#[test]
fn another_instance_of_a_node_that_was_just_heard_of_is_refused() {
    let world = World::new();
    let made = world.fleet(json!({}));
    let instance = |id: &str| json!({"provider": {"name": "p", "instance_id": id}});
    let mut first = Node::open(&world, &made);
    let provider = json!({"name": "p", "instance_id": "1"});
    assert_eq!(first.register(&instance("1"))["data"]["provider"], provider);
    let mut second = Node::open(&world, &made);
    assert_eq!(
        second.register(&instance("2"))["code"],
        "provider_instance_conflict"
    );
    let frame = json!({"v": 1, "id": "a", "type": "agent.register", "name": "w"});
    assert_eq!(second.ask(&frame)["code"], "node_control_failed");
    assert_eq!(first.ask(&frame)["ok"], true);
}

#[test]
fn what_a_node_may_not_say_is_an_error_and_its_connection_goes_on() {
    let world = World::new();
    let made = world.fleet(json!({}));
    let mut node = Node::open(&world, &made);
    let name = node.name.clone();
    assert_eq!(
        node.register(&json!({"node_id": "node_web_other"}))["code"],
        "node_id_mismatch"
    );
    assert_eq!(
        node.register(&json!({"name": "other"}))["code"],
        "node_name_conflict"
    );
    assert_eq!(
        node.register(&json!({"name": name, "colour": "red"}))["code"],
        "invalid_message"
    );
    assert_eq!(node.register(&json!({"name": name}))["ok"], true);
    node.socket.send(Message::text("no JSON")).expect("it is taken");
    let first = node.hear();
    assert_eq!(
        [&first["code"], &first["id"]],
        ["invalid_message", "relay_1"],
        "an error has an id"
    );
    node.socket
        .send(Message::binary(b"{}".to_vec()))
        .expect("it is taken");
    assert_eq!(node.hear()["code"], "invalid_message");
    let acknowledge =
        |up_to: i64| json!({"v": 1, "type": "delivery.ack", "agent": "bob", "up_to_seq": up_to});
    world.done(
        "/v1/nodes/fleet/agents",
        &world.key,
        &json!({"agent_name": "bob"}),
    );
    let never_sent = node.ask(&acknowledge(1));
    assert_eq!(never_sent["code"], "invalid_message");
    assert!(
        never_sent["message"]
            .as_str()
            .is_some_and(|words| words.contains("never sent"))
    );
    assert_eq!(node.ask(&acknowledge(-1))["code"], "invalid_message");
    let spawn = json!({"v": 1, "id": "s", "type": "node.spawn", "input": {}});
    assert_eq!(node.ask(&spawn)["code"], "not_supported");
    let anothers = json!({"v": 1, "id": "r", "type": "agent.recover", "name": "bob", "expected_agent_id": "agt_web:alice"});
    assert_eq!(node.ask(&anothers)["code"], "agent_not_found");
    world.dm("still there");
    assert_eq!(node.delivery(), (1, "still there".to_owned(), false));
}

#[test]
fn a_frame_that_is_too_long_ends_its_own_connection_alone() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    let mut other = Node::connect(&world, &world.own_node(&world.alice));
    let long = "x".repeat(10 * 1024 * 1024);
    let _ended = node.socket.send(Message::text(long));
    let ended = std::iter::repeat_with(|| node.socket.read()).find(Result::is_err);
    assert!(ended.is_some());
    world.done("/v1/dm", &world.bob, &json!({"to": "alice", "text": "hi"}));
    assert_eq!(other.delivery(), (1, "hi".to_owned(), false));
}

#[test]
fn a_node_that_never_reads_does_not_hold_up_the_others() {
    let world = World::new();
    let silent = Node::connect(&world, &world.own_node(&world.bob));
    let mut other = Node::connect(&world, &world.own_node(&world.alice));
    let text = "x".repeat(256 * 1024);
    for _ in 0..64 {
        world.dm(&text);
    }
    world.done("/v1/dm", &world.bob, &json!({"to": "alice", "text": "hi"}));
    assert_eq!(other.delivery(), (1, "hi".to_owned(), false));
    drop(silent);
}

#[test]
fn only_the_token_of_a_node_opens_its_connection() {
    let world = World::new();
    let made = world.own_node(&world.bob);
    let token = made["token"].as_str().expect("a token").to_owned();
    for bad in ["", "nt_live_0", &world.key, &world.alice] {
        let (status, body) = upgrade(&world, bad).expect_err("it is not a node's");
        assert_eq!(status, 401, "{body}");
        assert!(
            body.contains("unauthorized") && !body.contains("live_0"),
            "{body}"
        );
    }
    // A new token ends the one before, not the connection.
    let mut node = Node::connect(&world, &made);
    world.own_node(&world.bob);
    assert_eq!(upgrade(&world, &token).expect_err("it is old").0, 401);
    world.dm("one");
    assert_eq!(node.delivery(), (1, "one".to_owned(), false));
    let plain = world.get(&format!("/v1/node/ws?token={token}"), &world.key);
    refused(&plain, 401, "unauthorized", "nt_live_");
    let made = world.own_node(&world.bob);
    let nodes = world.get("/v1/nodes", made["token"].as_str().expect("a token"));
    refused(&nodes, 403, "workspace_key_required", "the token of a node");
}

#[test]
fn a_node_of_a_kind_that_is_not_there_is_refused() {
    let world = World::new();
    let asked = json!({"name": "n", "role": "direct"});
    refused(
        &world.post("/v1/nodes", &world.key, &asked),
        400,
        "invalid_request",
        "\"broker\"",
    );
    assert_eq!(world.seen("/v1/nodes", &world.key), json!([]), "nothing was made");
    let named = |id: &str| json!({"name": "n", "node_id": id});
    assert_eq!(world.done("/v1/nodes", &world.key, &named("mine"))["id"], "mine");
    assert_eq!(world.done("/v1/nodes", &world.key, &named("mine"))["id"], "mine");
    let other = world.post("/v1/nodes", &world.key, &named("other"));
    refused(&other, 409, "node_name_conflict", "\"mine\"");
    let bind = json!({"agent_name": "nobody"});
    world.fleet(json!({}));
    refused(
        &world.post("/v1/nodes/fleet/agents", &world.key, &bind),
        404,
        "agent_not_found",
        "nobody",
    );
    refused(
        &world.post("/v1/nodes/none/agents", &world.key, &bind),
        404,
        "node_not_found",
        "none",
    );
    refused(
        &world.post("/v1/nodes/fleet/agents", &world.other_key, &bind),
        404,
        "node_not_found",
        "fleet",
    );
}

#[test]
fn a_binding_says_of_which_kind_its_node_is() {
    let world = World::new();
    world.fleet(json!({}));
    let hook = json!({"name": "hook", "kind": "http_push", "delivery": {"url": "http://127.0.0.1:9/"}});
    world.done("/v1/nodes", &world.key, &hook);
    for (node, agent, kind, role) in [
        ("fleet", "bob", "ws", "broker"),
        ("hook", "alice", "http_push", "direct"),
    ] {
        let path = format!("/v1/nodes/{node}/agents");
        let bound = world.done(&path, &world.key, &json!({"agent_name": agent}));
        let found = ["node_name", "node_kind", "node_role", "status"].map(|name| bound[name].clone());
        assert_eq!(found, [node, kind, role, "active"].map(Value::from));
    }
}

#[test]
fn health_tells_an_agents_own_node_from_one_for_several() {
    let world = World::new();
    world.fleet(json!({}));
    world.own_node(&world.alice);
    let health = world.relay.health();
    let nodes = health["nodes"].as_array().expect("a list").iter();
    let mut kinds: Vec<&str> = nodes.map(|node| node["kind"].as_str().expect("a text")).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["direct", "fleet"]);
}

#[test]
fn what_is_for_several_comes_to_a_node_as_a_message_to_a_group() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    let several = json!({"from": "pm", "to": "web:alice, web:bob", "body": "who can?"});
    let sent = Request::post("/api/send", several.to_string());
    assert_eq!(world.relay.connect().exchange(&sent).status, 200);
    assert_eq!(node.hear()["type"], "context.update");
    let frame = node.hear();
    let payload = &frame["payload"];
    assert_eq!(
        (&payload["type"], &payload["data"]["text"]),
        (&json!("group_dm.received"), &json!("who can?"))
    );
}

#[test]
fn what_is_no_id_and_no_name_of_an_agent_is_refused_to_a_node() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.fleet(json!({})));
    let bob = json!({"agent_name": "bob"});
    world.done("/v1/nodes/fleet/agents", &world.key, &bob);
    let gone = node.ask(&json!({"v": 1, "id": "g", "type": "agent.deregister", "agent_id": "bob"}));
    assert_eq!(
        (&gone["code"], &gone["message"]),
        (
            &json!("agent_not_found"),
            &json!("\"agent_id\" is \"bob\"; accepted: the id of an agent of this node")
        )
    );
    let named = node.ask(&json!({"v": 1, "id": "n", "type": "agent.register", "name": "a b"}));
    assert_eq!(named["code"], "invalid_message");
    world.dm("still there");
    assert_eq!(node.delivery(), (1, "still there".to_owned(), false));
}

//! Actions: registered, offered by nodes, asked for, done, denied.

use std::time::Duration;

use super::node::{Node, upgrade_at};
use super::*;

const ACTIONS: &str = "/v1/actions";
const INVOKE: &str = "/v1/actions/sum/invoke";

/// A world in which bob does `sum`.
fn world() -> World {
    let world = World::new();
    world.done(
        ACTIONS,
        &world.key,
        &json!({"name": "sum", "description": "Adds", "handler_agent": "bob"}),
    );
    world
}

fn own_node(world: &World, token: &str) -> Node {
    Node::connect(world, &world.done("/v1/agent/node-token", token, &json!({})))
}

fn invocations(invoked: &Value) -> String {
    format!(
        "/v1/actions/sum/invocations/{}",
        invoked["invocation_id"].as_str().expect("an id")
    )
}

/// Takes out what is made up.
#[track_caller]
fn without(mut json: Value, made_up: &[&str]) -> Value {
    for name in made_up {
        assert!(
            json[name].is_string() || json[name].is_number(),
            "{name} in {json}"
        );
        json[name].take();
    }
    json
}

#[test]
fn what_is_asked_of_an_agent_comes_over_its_own_node_and_its_caller_is_told_what_came_of_it() {
    let world = world();
    let (mut bob, mut alice) = (own_node(&world, &world.bob), own_node(&world, &world.alice));
    let invoked = world.done(INVOKE, &world.alice, &json!({"input": {"of": [1, 2]}}));
    let id = invoked["invocation_id"].clone();
    let expected = json!({
        "invocation_id": null, "action_name": "sum", "handler_agent_id": "agt_web:bob", "handler_node_id": null,
        "input": {"of": [1, 2]}, "status": "dispatched", "created_at": null,
    });
    assert_eq!(
        without(invoked.clone(), &["invocation_id", "created_at"]),
        expected
    );
    let heard = bob.hear();
    let expected = json!({
        "v": 1, "type": "deliver", "agent_id": "agt_web:bob", "agent": "bob", "seq": 0, "mode": "wait", "msg_id": id,
        "delivery_id": format!("evt_action.invoked_{}_agt_web:bob", id.as_str().expect("a text")),
        "payload": {"type": "action.invoked", "data": {
            "invocation_id": id, "action_name": "sum", "caller_name": "alice", "handler_agent_id": "agt_web:bob",
            "handler_agent_name": "bob", "input": {"of": [1, 2]},
        }},
    });
    assert_eq!(heard, expected);
    let path = invocations(&invoked);
    let completed = world.done(
        &format!("{path}/complete"),
        &world.bob,
        &json!({"output": {"sum": 3}, "duration_ms": 7}),
    );
    let expected = json!({
        "invocation_id": id, "action_name": "sum", "caller_id": "agt_web:alice", "caller_name": "alice",
        "handler_agent_id": "agt_web:bob", "handler_node_id": null, "input": {"of": [1, 2]}, "output": {"sum": 3},
        "status": "completed", "error": null, "duration_ms": null, "created_at": null, "completed_at": null,
    });
    let times = ["duration_ms", "created_at", "completed_at"];
    assert_eq!(without(completed.clone(), &times), expected);
    let told = alice.hear();
    let data = json!({"invocation_id": id, "action_name": "sum", "status": "completed", "output": {"sum": 3}, "error": null, "metadata": {"relay": {"reason": "action-result"}}});
    assert_eq!(told["payload"], json!({"type": "action.completed", "data": data}));
    assert_eq!((&told["seq"], &told["agent"]), (&json!(0), &json!("alice")));
    for token in [&world.alice, &world.bob, &world.key] {
        assert_eq!(world.seen(&path, token), completed);
    }
    // It has ended; what is said later changes nothing.
    let later = world.done(&format!("{path}/complete"), &world.bob, &json!({"error": "no"}));
    assert_eq!(later, completed);
    alice.hears_nothing();
}

#[test]
fn what_is_sent_again_goes_out_before_the_node_is_heard_again() {
    const TIMES: usize = 40;
    let world = world();
    let mut node = Node::connect(&world, &world.fleet(json!({})));
    world.done(
        "/v1/nodes/fleet/agents",
        &world.key,
        &json!({"agent_name": "bob"}),
    );
    world.done(INVOKE, &world.alice, &json!({}));
    assert_eq!(node.hear()["type"], "action.invoke");
    // It says all of it before it reads anything.
    for _ in 0..TIMES {
        node.say(&json!({"v": 1, "id": "a", "type": "agent.register", "name": "bob"}));
    }
    let heard: Vec<Value> = (0..2 * TIMES).map(|_| node.hear()["type"].take()).collect();
    assert_eq!(heard, ["reply", "action.invoke"].repeat(TIMES));
}

#[test]
fn what_a_fleet_s_node_offers_is_asked_of_it_in_frames_and_answered_in_frames() {
    let world = World::new();
    let made = world.fleet(json!({}));
    let mut node = Node::open(&world, &made);
    let registered =
        node.register(&json!({"capabilities": [{"name": "sum", "queue": true}, {"name": "a b"}]}));
    let accepted = registered["data"]["accepted_capabilities"]
        .as_array()
        .expect("a list")
        .clone();
    assert_eq!(
        accepted[0],
        json!({"name": "sum", "kind": "action", "accepted": true})
    );
    assert_eq!((&accepted[1]["accepted"], accepted.len()), (&json!(false), 2));
    let reason = accepted[1]["reason"].as_str().expect("a reason");
    assert!(reason.contains("\"a b\""), "{reason}");
    let listed = world.seen(ACTIONS, &world.alice);
    let expected = json!([{
        "id": "act_sum", "name": "sum", "description": "", "handler_agent": null, "handler_node": "fleet",
        "handler_node_id": made["id"], "input_schema": {}, "output_schema": {}, "available_to": null, "is_active": true,
        "created_at": listed[0]["created_at"],
    }]);
    assert_eq!(listed, expected);
    assert_eq!(world.seen("/v1/actions/sum", &world.key), listed[0]);
    let asks = |status: &str| {
        let invoked = world.done(INVOKE, &world.alice, &json!({"input": 7}));
        assert_eq!(
            (&invoked["status"], &invoked["handler_node_id"]),
            (&json!(status), &made["id"])
        );
        invoked
    };
    let ended = |invoked: &Value| {
        let shown = world.seen(&invocations(invoked), &world.alice);
        (
            shown["status"].clone(),
            shown["output"].clone(),
            shown["error"].clone(),
        )
    };
    let [first, second] = [asks("dispatched"), asks("dispatched")];
    for invoked in [&first, &second] {
        let expected = json!({
            "v": 1, "type": "action.invoke", "invocation_id": invoked["invocation_id"], "action": "sum", "input": 7,
        });
        assert_eq!(node.hear(), expected);
    }
    let result = |invoked: &Value, more: &Value| {
        let mut frame =
            json!({"v": 1, "id": "x", "type": "action.result", "invocation_id": invoked["invocation_id"]});
        let more = more.as_object().expect("an object").clone();
        frame.as_object_mut().expect("an object").extend(more);
        frame
    };
    let answer = node.ask(&result(&first, &json!({"output": null})));
    assert_eq!(
        answer,
        json!({"v": 1, "type": "reply", "id": "x", "ok": true, "data": {}})
    );
    node.ask(&result(&second, &json!({"error": "too large"})));
    assert_eq!(ended(&first), (json!("completed"), Value::Null, Value::Null));
    assert_eq!(ended(&second), (json!("failed"), Value::Null, json!("too large")));
    let unknown = node.ask(&result(&json!({"invocation_id": "inv_1"}), &json!({"output": 1})));
    assert_eq!(
        (&unknown["ok"], &unknown["code"]),
        (&json!(false), &json!("invocation_not_found"))
    );
    // What it was asked and did not answer comes again, behind the answer to its registration.
    let third = asks("dispatched");
    assert_eq!(node.hear()["invocation_id"], third["invocation_id"]);
    drop(node);
    while world.seen("/v1/actions/sum", &world.key)["is_active"] == true {
        std::thread::sleep(Duration::from_millis(10));
    }
    let fourth = asks("invoked");
    let mut node = Node::open(&world, &made);
    let registered = node.register(&json!({"capabilities": [{"name": "sum"}]}));
    assert_eq!(registered["ok"], true, "{registered}");
    let mut again = [node.hear(), node.hear()].map(|frame| frame["invocation_id"].clone());
    let mut expected = [third, fourth].map(|invoked| invoked["invocation_id"].clone());
    again.sort_by_key(Value::to_string);
    expected.sort_by_key(Value::to_string);
    assert_eq!(again, expected);
    // It does not offer to wait for it any more.
    node.ask(&json!({"v": 1, "id": "l", "type": "node.deregister"}));
    let gone = world.post(INVOKE, &world.alice, &json!({}));
    refused(&gone, 404, "action_not_found", "no action \"sum\"");
}

#[test]
fn an_action_is_for_those_that_it_is_available_to_and_whoever_looks_on_is_told() {
    let world = world();
    let mut observer = upgrade_at(&world, &format!("/v1/ws?token={}", world.key)).expect("it is let in");
    let mut heard = || {
        let read = observer.read().expect("an event");
        let event: Value = serde_json::from_str(read.to_text().expect("text")).expect("JSON");
        without(event, &["seq", "created_at"])
    };
    let mut alice = own_node(&world, &world.alice);
    let connected = heard();
    assert_eq!(connected["type"], "node.status.online", "{connected}");
    let only = json!({"name": "sum", "handler_agent": "bob", "available_to": ["pm"]});
    let changed = world.post(ACTIONS, &world.key, &only);
    assert_eq!(
        (changed.status, &data(&changed)["available_to"]),
        (200, &json!(["pm"]))
    );
    let denied = world.post(INVOKE, &world.alice, &json!({"input": {}}));
    refused(&denied, 403, "action_denied", "not available to you");
    let said = "the action \"sum\" is not available to \"alice\"";
    let data = json!({"action_name": "sum", "caller_name": "alice", "error": said, "metadata": {"relay": {"reason": "action-result"}}});
    assert_eq!(
        alice.hear()["payload"],
        json!({"type": "action.denied", "data": data})
    );
    let expected = json!({
        "type": "action.denied", "action_name": "sum", "caller_name": "alice", "error": said, "seq": null, "created_at": null,
    });
    assert_eq!(heard(), expected);
    world.done(
        ACTIONS,
        &world.key,
        &json!({"name": "sum", "handler_agent": "bob", "available_to": ["alice"]}),
    );
    let invoked = world.done(INVOKE, &world.alice, &json!({"input": {"of": 1}}));
    assert_eq!(invoked["status"], "invoked", "bob's node is not connected");
    let expected = json!({
        "type": "action.invoked", "invocation_id": invoked["invocation_id"], "action_name": "sum", "caller_name": "alice",
        "handler_agent_id": "agt_web:bob", "handler_agent_name": "bob", "handler_name": "bob", "input": {"of": 1},
        "seq": null, "created_at": null,
    });
    assert_eq!(heard(), expected);
    world.done(
        &format!("{}/complete", invocations(&invoked)),
        &world.bob,
        &json!({"error": "no"}),
    );
    let expected = json!({
        "type": "action.failed", "invocation_id": invoked["invocation_id"], "action_name": "sum", "caller_name": "alice",
        "handler_name": "bob", "status": "failed", "output": null, "error": "no", "seq": null, "created_at": null,
    });
    assert_eq!(heard(), expected);
    let may = |scope: &str| {
        let asked = json!({"name": scope, "scopes": ["stream:read", scope]});
        let made = world.done("/v1/observer-tokens", &world.key, &asked);
        let events = world.seen("/v1/workspace/events", made["token"].as_str().expect("a token"));
        events["events"].as_array().expect("a list").len()
    };
    assert_eq!((may("activity:read"), may("nodes:read")), (3, 1));
}

#[test]
fn what_is_wrong_about_an_action_is_named() {
    let world = world();
    let bad = |body: &Value, status: u16, code: &str, words: &str| {
        refused(&world.post(ACTIONS, &world.key, body), status, code, words);
    };
    let one_of_them = "\"handler_agent\", the name of an agent, or \"handler_node\"";
    bad(&json!({"name": "x"}), 400, "invalid_request", one_of_them);
    bad(
        &json!({"name": "x", "handler_agent": "bob", "handler_node": "n"}),
        400,
        "invalid_request",
        one_of_them,
    );
    bad(
        &json!({"name": "x", "handler_agent": "carol"}),
        404,
        "agent_not_found",
        "carol",
    );
    bad(
        &json!({"name": "x", "handler_node": "n"}),
        404,
        "node_not_found",
        "no node \"n\"",
    );
    bad(
        &json!({"name": "a b", "handler_agent": "bob"}),
        400,
        "invalid_request",
        "\"a b\"",
    );
    bad(
        &json!({"name": "x", "handler_agent": "bob", "input_schema": 7}),
        400,
        "invalid_request",
        "map",
    );
    bad(
        &json!({"name": "x", "handler_agent": "bob", "colour": 7}),
        400,
        "invalid_request",
        "`colour`",
    );
    bad(
        &json!({"name": "x", "handler_agent": "bob", "available_to": ["no one"]}),
        400,
        "invalid_name",
        "no one",
    );
    let own = json!({"name": "mine", "handler_agent": "alice"});
    assert_eq!(world.post(ACTIONS, &world.alice, &own).status, 201, "its own");
    let another = world.post(
        ACTIONS,
        &world.alice,
        &json!({"name": "x", "handler_agent": "bob"}),
    );
    refused(&another, 400, "invalid_request", "itself");
    let taken = world.post(
        ACTIONS,
        &world.alice,
        &json!({"name": "sum", "handler_agent": "alice"}),
    );
    refused(&taken, 409, "action_already_exists", "bob");
    let unknown = world.post("/v1/actions/diff/invoke", &world.alice, &json!({}));
    refused(&unknown, 404, "action_not_found", "there is mine, sum");
    refused(
        &world.get("/v1/actions/diff", &world.bob),
        404,
        "action_not_found",
        "there is mine, sum",
    );
    refused(
        &world.post(INVOKE, &world.key, &json!({})),
        403,
        "agent_token_required",
        "",
    );
    let long = json!({"input": "x".repeat(70_000)});
    refused(
        &world.post(INVOKE, &world.alice, &long),
        400,
        "invalid_request",
        "70002 bytes; accepted: at most 65536",
    );
    let elsewhere = workspace(&world.relay, "app");
    refused(
        &world.get("/v1/actions/sum", &elsewhere),
        404,
        "action_not_found",
        "nor any other",
    );
    let invoked = world.done(INVOKE, &world.alice, &json!({}));
    let path = invocations(&invoked);
    refused(&world.get(&path, &elsewhere), 404, "invocation_not_found", "inv_");
    let of_another = path.replace("/sum/", "/mine/");
    refused(
        &world.get(&of_another, &world.alice),
        404,
        "invocation_not_found",
        "inv_",
    );
    let complete = format!("{path}/complete");
    refused(
        &world.post(&complete, &world.alice, &json!({"output": 1})),
        404,
        "invocation_not_found",
        "",
    );
    let both = json!({"output": 1, "error": "no"});
    refused(
        &world.post(&complete, &world.bob, &both),
        400,
        "invalid_request",
        "one of them",
    );
    assert_eq!(
        world.done(&complete, &world.bob, &json!({}))["status"],
        "completed"
    );
    let removed = world
        .relay
        .connect()
        .exchange(&with(Request::new("DELETE", "/v1/actions/sum"), &world.key));
    assert_eq!(removed.status, 204);
    let again = world
        .relay
        .connect()
        .exchange(&with(Request::new("DELETE", "/v1/actions/sum"), &world.key));
    refused(&again, 404, "action_not_found", "\"sum\"");
    assert_eq!(
        world.seen(&path, &world.alice)["status"],
        "completed",
        "what was asked is still there"
    );
}

#[test]
fn a_node_posts_for_the_agents_that_it_has() {
    let world = World::new();
    let made = world.fleet(json!({}));
    let token = made["token"].as_str().expect("a token");
    let path = "/v1/channels/ops/messages";
    world.done("/v1/channels/ops/join", &world.alice, &json!({}));
    let from_bob = json!({"text": "from the node", "from": "bob"});
    refused(
        &world.post(path, token, &from_bob),
        404,
        "agent_not_found",
        "\"bob\"",
    );
    world.done(
        "/v1/nodes/fleet/agents",
        &world.key,
        &json!({"agent_name": "bob"}),
    );
    assert_eq!(world.done(path, token, &from_bob)["agent_name"], "bob");
    assert_eq!(world.bodies("web:alice"), ["from the node"]);
    refused(
        &world.post(path, token, &json!({"text": "x"})),
        400,
        "invalid_request",
        "\"from\"",
    );
    let from_itself = json!({"text": "x", "from": "bob"});
    refused(
        &world.post(path, &world.bob, &from_itself),
        400,
        "invalid_request",
        "\"from\"",
    );
}

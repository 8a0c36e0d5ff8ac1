//! How messages are to be brought: modes, priorities and deadlines, as they are given and as they are shown.

use chrono::{SecondsFormat, Utc};

use super::node::{Node, added};
use super::*;

/// A moment so many milliseconds from now.
fn soon(ms: i64) -> String {
    let at = Utc::now() + chrono::Duration::milliseconds(ms);
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

impl World {
    /// Sends bob a message that is to be brought somehow, and returns its id.
    fn brings(&self, text: &str, more: &Value) -> String {
        let mut asked = json!({"to": "bob", "text": text});
        for (field, value) in more.as_object().expect("an object") {
            asked[field] = value.clone();
        }
        let sent = self.done("/v1/dm", &self.alice, &asked);
        sent["message"]["id"].as_str().expect("an id").to_owned()
    }

    fn flushes(&self) -> Value {
        self.done("/v1/deliveries/flush", &self.bob, &json!({}))["flushed"].clone()
    }

    fn steps(&self, id: &str) -> Vec<Value> {
        let trace = self.seen(&format!("/v1/messages/{id}/trace"), &self.alice);
        let steps = trace["steps"].as_array().expect("a list").iter();
        steps.map(|step| step["step"].clone()).collect()
    }
}

#[test]
fn a_node_is_told_the_mode_in_its_own_words_and_in_full_where_there_is_more_to_say() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    let deadline = soon(60_000);
    for (given, wire, mode, priority) in [
        (json!({"mode": "steer"}), "steer", "next-tool-call", "normal"),
        (
            json!({"mode": "next-tool-call"}),
            "steer",
            "next-tool-call",
            "normal",
        ),
        (json!({"mode": "next-message"}), "wait", "next-message", "normal"),
        (json!({"mode": "on-idle"}), "wait", "on-idle", "normal"),
        (json!({"priority": "urgent"}), "wait", "immediate", "urgent"),
        (json!({"deadline": deadline}), "wait", "immediate", "normal"),
    ] {
        world.brings("x", &given);
        node.hear();
        let frame = node.hear();
        assert_eq!(frame["mode"], wire, "{given}");
        assert_eq!(frame["payload"]["data"]["injection_mode"], wire);
        let expected = json!({"mode": mode, "priority": priority, "deadline": given["deadline"]});
        assert_eq!(added(&frame["payload"]["data"])["handling"], expected);
    }
    for given in [
        json!({}),
        json!({"mode": "wait"}),
        json!({"mode": "immediate", "priority": "normal"}),
    ] {
        world.brings("x", &given);
        node.hear();
        let frame = node.hear();
        let metadata = &frame["payload"]["data"]["message"]["metadata"];
        assert_eq!((&frame["mode"], metadata), (&json!("wait"), &Value::Null));
    }
}

#[test]
fn what_is_held_goes_to_the_node_once_its_agent_asks_for_it() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    world.brings("held", &json!({"mode": "manual"}));
    world.brings("now", &json!({}));
    assert_eq!(node.delivery(), (1, "now".to_owned(), false));
    node.hears_nothing();
    assert_eq!(world.flushes(), 1);
    assert_eq!(node.delivery(), (2, "held".to_owned(), false));
    assert_eq!(world.flushes(), 0);
    let row = &world.seen("/v1/deliveries", &world.bob)[0];
    assert_eq!(
        (&row["mode"], &row["priority"], &row["deadline"]),
        (&json!("manual"), &json!("normal"), &Value::Null)
    );
}

#[test]
fn what_is_held_is_not_listed_and_is_read_with_a_tool() {
    let world = World::new();
    let _node = Node::connect(&world, &world.own_node(&world.bob));
    world.brings("held", &json!({"mode": "manual"}));
    assert_eq!(world.seen("/v1/deliveries", &world.bob), json!([]));
    assert_eq!(world.bodies("web:bob"), ["held"]);
}

#[test]
fn what_is_past_its_deadline_is_handed_to_nobody_and_its_sender_finds_out() {
    let world = World::new();
    // Events are kept once somebody looks on.
    world.seen("/v1/workspace/events", &world.key);
    let deadline = soon(700);
    let id = world.brings("late", &json!({"deadline": deadline, "priority": "urgent"}));
    let row = &world.seen("/v1/deliveries", &world.bob)[0];
    assert_eq!(
        (&row["deadline"], &row["priority"]),
        (&json!(deadline), &json!("urgent"))
    );
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while world.steps(&id) != ["queued", "expired"] {
        assert!(std::time::Instant::now() < end, "{:?}", world.steps(&id));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(soon(0) >= deadline, "not before");
    assert_eq!(world.seen("/v1/deliveries", &world.bob), json!([]));
    assert_eq!(world.bodies("web:bob"), Vec::<String>::new());
    let trace = world.seen(&format!("/v1/messages/{id}/trace"), &world.alice);
    assert_eq!(
        (&trace["deadline"], &trace["priority"]),
        (&json!(deadline), &json!("urgent"))
    );
    let late = world.done(
        &format!("/v1/deliveries/del_{id}_agt_web:bob/ack"),
        &world.bob,
        &json!({}),
    );
    assert_eq!(late["status"], "expired");
    let events = world.seen("/v1/workspace/events", &world.key);
    let events = events["events"].as_array().expect("a list");
    let last = events.last().expect("one at least");
    assert_eq!(
        (&last["type"], &last["payload"]["message_id"]),
        (&json!("delivery.expired"), &json!(id))
    );
}

#[test]
fn messages_to_channels_and_replies_are_brought_so_too() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    let urgent = json!({"text": "x", "priority": "urgent"});
    let sent = world.done("/v1/channels/ops/messages", &world.alice, &urgent);
    node.hear();
    assert_eq!(
        added(&node.hear()["payload"]["data"])["handling"]["priority"],
        "urgent"
    );
    let id = sent["id"].as_str().expect("an id");
    world.done(&format!("/v1/messages/{id}/replies"), &world.alice, &urgent);
    node.hear();
    assert_eq!(
        added(&node.hear()["payload"]["data"])["handling"]["priority"],
        "urgent"
    );
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    let world = World::new();
    for (more, code, named) in [
        (
            json!({"mode": "now"}),
            "invalid_request",
            "\"now\"; accepted: wait, steer, immediate, next-message, next-tool-call, on-idle, manual",
        ),
        (
            json!({"priority": "high"}),
            "invalid_request",
            "\"high\"; accepted: normal, urgent",
        ),
        (
            json!({"deadline": "tomorrow"}),
            "invalid_request",
            "\"deadline\" is \"tomorrow\"; accepted: a moment such as",
        ),
        (
            json!({"deadline": "2020-01-01T00:00:00Z"}),
            "deadline_over",
            "deadline is 2020-01-01T00:00:00.000Z, and it is 20",
        ),
        (json!({"deadline": 5}), "invalid_request", "deadline"),
    ] {
        let mut asked = json!({"to": "bob", "text": "x"});
        for (field, value) in more.as_object().expect("an object") {
            asked[field] = value.clone();
        }
        let refused = world.post("/v1/dm", &world.alice, &asked);
        let (status, was, message) = error(&refused);
        assert_eq!((status, was.as_str()), (400, code), "{message}");
        assert!(message.contains(named), "{message}");
    }
    assert_eq!(world.bodies("web:bob"), Vec::<String>::new());
    let by_key = world.post("/v1/deliveries/flush", &world.key, &json!({}));
    assert_eq!(error(&by_key).1, "agent_token_required");
}

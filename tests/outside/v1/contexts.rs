//! Why an agent gets a message, and what its sender gave with it: in frames, in lists and to web hooks alike.

use super::node::{Node, added};
use super::pushes::Hook;
use super::*;

impl World {
    fn keyed(&self, path: &str, body: &Value, key: &str) -> Value {
        let request = with(Request::post(path, body.to_string()), &self.alice).with("Idempotency-Key", key);
        let response = self.relay.connect().exchange(&request);
        assert_eq!(response.status, 201, "{response:?}");
        data(&response)
    }
}

#[test]
fn a_direct_message_has_its_metadata_and_its_key_wherever_it_is_shown() {
    let world = World::new();
    let said = json!({"to": "bob", "text": "hi", "data": {"ticket": 7}});
    let sent = world.keyed("/v1/dm", &said, "key-1");
    assert_eq!(sent["message"]["metadata"], json!({"ticket": 7}));
    let row = &world.seen("/v1/deliveries", &world.bob)[0];
    assert_eq!(row["idempotency_key"], "key-1");
    assert_eq!(row["message"]["metadata"], json!({"ticket": 7}));
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    node.hear();
    let expected = json!({"ticket": 7, "relay": {"idempotency_key": "key-1"}});
    assert_eq!(node.hear()["payload"]["data"]["message"]["metadata"], expected);
    let hook = Hook::start();
    world.pushes(&hook, &json!({"ack_mode": "on_2xx"}));
    let metadata = &hook.next().json["data"]["message"]["metadata"];
    assert_eq!(
        (&metadata["ticket"], &metadata["relay"]["idempotency_key"]),
        (&json!(7), &json!("key-1"))
    );
}

#[test]
fn a_frame_says_why_its_agent_gets_it_where_its_kind_does_not() {
    let world = World::new();
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    let own = world.done(
        "/v1/dm",
        &world.bob,
        &json!({"to": "alice", "text": "how is it?"}),
    );
    let own = own["message"]["id"].as_str().expect("an id").to_owned();
    for (path, body, kind, said, reason) in [
        (
            "/v1/dm".to_owned(),
            json!({"to": "bob", "text": "x"}),
            "dm.received",
            Value::Null,
            "dm",
        ),
        (
            format!("/v1/messages/{own}/replies"),
            json!({"text": "fine"}),
            "dm.received",
            json!("thread-reply"),
            "thread-reply",
        ),
        (
            "/v1/channels/ops/messages".to_owned(),
            json!({"text": "all"}),
            "message.created",
            Value::Null,
            "message",
        ),
        (
            "/v1/channels/ops/messages".to_owned(),
            json!({"text": "look, @bob"}),
            "message.created",
            json!("mention"),
            "mention",
        ),
        (
            "/v1/dm".to_owned(),
            json!({"to": "*", "text": "all"}),
            "group_dm.received",
            Value::Null,
            "message",
        ),
    ] {
        world.done(&path, &world.alice, &body);
        let news = node.hear();
        assert_eq!(news["data"]["reason"], reason, "{news}");
        let payload = node.hear()["payload"].take();
        assert_eq!(
            (&payload["type"], &added(&payload["data"])["reason"]),
            (&json!(kind), &said)
        );
    }
}

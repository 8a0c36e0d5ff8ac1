//! Messages, and what becomes of them in the inboxes.

use super::*;

#[test]
fn a_direct_message_is_read_with_any_tool_and_one_of_a_tool_is_answered_here() {
    let world = World::new();
    let sent = world.done(
        "/v1/dm",
        &world.alice,
        &json!({"to": "bob", "text": "hi", "mode": "steer"}),
    );
    assert_eq!(sent["conversation_id"], "dm_web:alice~web:bob");
    let message = &sent["message"];
    assert_eq!(
        (&message["agent_name"], &message["injection_mode"]),
        (&json!("alice"), &json!("steer"))
    );
    assert_eq!(world.bodies("web:bob"), ["hi"]);
    let reply = format!("/v1/messages/{}/replies", message["id"].as_str().expect("an id"));
    let answer = world.done(&reply, &world.bob, &json!({"text": "hi you"}));
    assert_eq!(
        (&answer["thread_id"], &answer["channel_id"]),
        (&message["id"], &json!("dm_web:alice~web:bob"))
    );
    assert_eq!(world.bodies("web:alice"), ["hi you"], "also after it was read");

    let asked = json!({"from": "pm", "to": "web:alice", "body": "how is it?"});
    let posted = world
        .relay
        .connect()
        .exchange(&Request::post("/api/send", asked.to_string()))
        .json();
    let reply = format!("/v1/messages/{}/replies", posted["id"].as_str().expect("an id"));
    world.done(&reply, &world.alice, &json!({"text": "fine"}));
    assert_eq!(world.bodies("pm"), ["fine"]);
    world.done(
        "/v1/dm",
        &world.alice,
        &json!({"to": "user", "text": "to a person"}),
    );
    assert_eq!(world.bodies("user"), ["to a person"]);
}

#[test]
fn an_answer_to_a_message_for_several_goes_to_who_has_sent_it_and_to_the_others() {
    let world = World::new();
    let asked = json!({"from": "pm", "to": "web:alice, web:bob, dev-b", "body": "who can?"});
    let posted = world
        .relay
        .connect()
        .exchange(&Request::post("/api/send", asked.to_string()))
        .json();
    let reply = format!("/v1/messages/{}/replies", posted["id"].as_str().expect("an id"));
    world.done(&reply, &world.alice, &json!({"text": "I can"}));
    assert_eq!(world.bodies("pm"), ["I can"]);
    assert_eq!(world.bodies("dev-b"), ["who can?", "I can"]);
    assert_eq!(world.bodies("web:bob"), ["who can?", "I can"]);
    assert_eq!(world.bodies("web:alice"), ["who can?"]);
}

#[test]
fn whoever_posts_is_told_why_the_message_may_wait() {
    let world = World::new();
    let warned = |token: &str, asked: Value| {
        let sent = world.done("/v1/dm", token, &asked);
        let warnings = sent["warnings"].as_array().expect("a list").iter();
        let words = warnings.map(|warning| warning.as_str().expect("a text").to_owned());
        words.collect::<Vec<_>>()
    };
    let held = "it is held back (manual): it goes to no node, and is in no list, until its agent asks for it";
    let absent = json!({"to": "default:dev-a", "text": "x", "mode": "manual"});
    let to_absent = warned(&world.alice, absent);
    let [first, second] = &to_absent[..] else {
        panic!("{to_absent:?}")
    };
    assert_eq!(first, held);
    assert!(
        second.starts_with("no agent has read for dev-a since relay started at "),
        "{second}"
    );
    // Alice was there a moment ago.
    assert_eq!(warned(&world.bob, json!({"to": "alice", "text": "x"})), [""; 0]);
    assert_eq!(
        warned(&world.bob, json!({"to": "alice", "text": "x", "mode": "manual"})),
        [held]
    );
}

#[test]
fn a_message_to_a_channel_and_its_replies_go_to_all_who_are_in_it() {
    let world = World::new();
    let alone = world.done(
        "/v1/channels/build/messages",
        &world.alice,
        &json!({"text": "anybody?"}),
    );
    assert_eq!(
        alone["warnings"],
        json!(["nobody had made or joined web:build: nobody got it"])
    );
    world.done("/v1/channels/build/join", &world.bob, &json!({}));
    let blocks = json!([{"type": "text", "text": "b"}]);
    let sent = world.done(
        "/v1/channels/build/messages",
        &world.alice,
        &json!({"text": "one", "blocks": blocks}),
    );
    assert_eq!(
        (&sent["channel_id"], &sent["blocks"], &sent["warnings"]),
        (&json!("ch_web:build"), &blocks, &json!([]))
    );
    let reply = format!("/v1/messages/{}/replies", sent["id"].as_str().expect("an id"));
    let own = world.done(&reply, &world.alice, &json!({"text": "two"}));
    let others = world.done(&reply, &world.bob, &json!({"text": "three"}));
    assert_eq!([&own["thread_id"], &others["thread_id"]], [&sent["id"]; 2]);
    // A reply is one also of who wrote the first message.
    let listed = world.seen("/v1/deliveries", &world.bob);
    let reasons = listed.as_array().expect("a list").iter();
    let reasons: Vec<&Value> = reasons.map(|row| &row["reason"]).collect();
    assert_eq!(reasons, ["message", "thread-reply"]);
    assert_eq!(world.bodies("web:bob"), ["one", "two"]);
    assert_eq!(world.bodies("web:alice"), ["three"]);
}

#[test]
fn a_message_that_is_sent_again_is_there_once() {
    let world = World::new();
    let send = |header: &str, text: &str| {
        let request = Request::post("/v1/dm", json!({"to": "bob", "text": text}).to_string());
        let request = with(request, &world.alice).with(header, "key-1");
        world.relay.connect().exchange(&request)
    };
    let first = send("Idempotency-Key", "hi");
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None));
    let again = send("X-Idempotency-Key", "hi");
    assert_eq!(
        (again.status, again.header("idempotency-replayed")),
        (201, Some("true"))
    );
    assert_eq!(data(&first), data(&again));
    refused(
        &send("Idempotency-Key", "ho"),
        409,
        "idempotency_conflict",
        "\"key-1\"",
    );
    refused(
        &send("Idempotency-Key", ""),
        409,
        "idempotency_conflict",
        "\"key-1\"",
    );
    let differ = Request::post("/v1/dm", json!({"to": "bob", "text": "x"}).to_string());
    let differ = with(differ, &world.alice)
        .with("Idempotency-Key", "a")
        .with("X-Idempotency-Key", "b");
    refused(
        &world.relay.connect().exchange(&differ),
        400,
        "invalid_idempotency_key",
        "differ",
    );
    assert_eq!(world.bodies("web:bob"), ["hi"]);
}

#[test]
fn a_trace_tells_its_sender_all_and_others_what_they_got() {
    let world = World::new();
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    let posted = world.done(
        "/v1/channels/ops/messages",
        &world.alice,
        &json!({"text": "all stop"}),
    );
    let id = posted["id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/messages/{id}/trace");
    assert_eq!(world.bodies("web:bob"), ["all stop"]);
    let traced = world.seen(&path, &world.alice);
    assert_eq!(
        (&traced["id"], &traced["from"], &traced["to"]),
        (&json!(id), &json!("web:alice"), &json!("web:#ops"))
    );
    let steps = |traced: &Value| {
        let steps = traced["steps"].as_array().expect("a list");
        let word = |step: &Value| format!("{} {}", step["agent"], step["step"]).replace('"', "");
        steps.iter().map(word).collect::<Vec<_>>()
    };
    assert_eq!(steps(&traced)[..2], ["web:bob queued", "web:bob handed_over"]);
    for token in [&world.bob, &world.key] {
        assert_eq!(
            steps(&world.seen(&path, token))[..2],
            ["web:bob queued", "web:bob handed_over"]
        );
    }
    // Nobody else is told that there is such a message.
    let made = world.done("/v1/agents", &world.key, &json!({"name": "carol"}));
    let carol = made["token"].as_str().expect("a token");
    let beginning = format!("/v1/messages/{}/trace", &id[..8]);
    let no_id = "/v1/messages/nonsense/trace".to_owned();
    for (path, token) in [
        (&path, carol),
        (&path, &world.other_key),
        (&beginning, &world.alice),
        (&no_id, &world.alice),
    ] {
        refused(&world.get(path, token), 404, "message_not_found", "message");
    }
    refused(
        &world.get(&format!("{path}?x=1"), &world.alice),
        400,
        "invalid_request",
        "x=1",
    );
}

#[test]
fn whoever_writes_to_an_agent_that_is_called_as_a_group_is_told_so() {
    let world = World::new();
    let made = json!({"do": "make", "group": "web:bob"}).to_string();
    let made = world.relay.connect().exchange(&Request::post("/api/group", made));
    assert_eq!(made.status, 200, "{made:?}");
    let sent = world.done("/v1/dm", &world.alice, &json!({"to": "bob", "text": "hi"}));
    let mut warnings = sent["warnings"].as_array().expect("a list").iter();
    let is_told = |warning: &Value| {
        let said = warning.as_str().expect("a text");
        said.ends_with("bob is a group, too; it was not sent to its members")
    };
    assert!(warnings.any(is_told), "{sent}");
}

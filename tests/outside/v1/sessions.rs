//! What agents say of their own sessions.

use super::node::upgrade_at;
use super::*;

const PATH: &str = "/v1/agents/bob/events";

#[test]
fn an_agent_says_what_its_session_does_and_whoever_asks_is_shown_it() {
    let world = World::new();
    let path = format!("/v1/ws?token={}", world.key);
    let mut observer = upgrade_at(&world, &path).expect("it is let in");
    let starting = json!({"type": "session.starting", "payload": {"cli": "cat"}});
    let mut said = world.done(PATH, &world.bob, &starting);
    let at = said["created_at"].take();
    let expected = json!({
        "id": "evt_agt_web:bob_1", "agent_id": "agt_web:bob", "type": "session.starting", "payload": {"cli": "cat"},
        "sequence": 1, "created_at": null,
    });
    assert_eq!(said, expected);
    // The program that runs it has the workspace's key.
    let turn = world.done(PATH, &world.key, &json!({"type": "turn.started"}));
    assert_eq!((&turn["sequence"], &turn["payload"]), (&json!(2), &json!({})));
    let other = world.done(
        "/v1/agents/alice/events",
        &world.alice,
        &json!({"type": "turn.started"}),
    );
    assert_eq!(other["sequence"], 1, "each agent counts for itself");
    let types = |query: &str, token: &str| {
        let listed = world.seen(&format!("{PATH}{query}"), token);
        let rows = listed.as_array().expect("a list").iter();
        rows.map(|row| row["type"].as_str().expect("a type").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(types("", &world.bob), ["turn.started", "session.starting"]);
    assert_eq!(types("?limit=1", &world.key), ["turn.started"]);
    for more in ["", "&limit=1"] {
        let query = format!("?type=session.starting{more}");
        assert_eq!(
            types(&query, &world.bob),
            ["session.starting"],
            "of that type alone"
        );
    }
    assert_eq!(types("?type=none", &world.bob), [""; 0]);
    let mut told = serde_json::from_str::<Value>(observer.read().expect("an event").to_text().expect("text"))
        .expect("JSON");
    assert_eq!(told["created_at"], at);
    for made_up in ["seq", "created_at"] {
        told[made_up].take();
    }
    let expected = json!({
        "type": "harness.session.starting", "agent_id": "agt_web:bob", "agent_name": "bob", "seq": null, "created_at": null,
        "event": {"id": "evt_agt_web:bob_1", "type": "session.starting", "payload": {"cli": "cat"}, "sequence": 1},
    });
    assert_eq!(told, expected);
    // Who may not look at what agents do is not told of it.
    let scopes = json!({"name": "o", "scopes": ["stream:read", "agents:read"]});
    let made = world.done("/v1/observer-tokens", &world.key, &scopes);
    let token = made["token"].as_str().expect("a token");
    let listed = world.seen("/v1/workspace/events", token);
    assert_eq!(listed["events"], json!([]));
    let scopes = json!({"name": "p", "scopes": ["stream:read", "activity:read"], "filters": {"agent_ids": ["agt_web:alice"]}});
    let made = world.done("/v1/observer-tokens", &world.key, &scopes);
    let listed = world.seen("/v1/workspace/events", made["token"].as_str().expect("a token"));
    assert_eq!(listed["events"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_a_session_says_is_told_and_kept_without_its_secrets() {
    let world = World::new();
    let path = format!("/v1/ws?token={}", world.key);
    let mut observer = upgrade_at(&world, &path).expect("it is let in");
    let (key, bob) = (&world.key, &world.bob);
    let payload = json!({"output": format!("my token is {bob}"), "env": [key, "DB_PASSWORD=hunter2hunter2"], "password": "hunter2hunter2"});
    let redacted = json!({"output": "my token is [redacted]", "env": ["[redacted]", "DB_PASSWORD=[redacted]"], "password": "[redacted]"});
    let said = world.done(PATH, bob, &json!({"type": "tool.output", "payload": payload}));
    assert_eq!(said["payload"], redacted);
    assert_eq!(world.seen(PATH, bob)[0]["payload"], redacted);
    let told = observer.read().expect("an event");
    let told: Value = serde_json::from_str(told.to_text().expect("text")).expect("JSON");
    assert_eq!(told["event"]["payload"], redacted);
}

#[test]
fn what_may_not_be_said_of_a_session_is_refused_and_named() {
    let world = World::new();
    let good = json!({"type": "turn.started"});
    refused(
        &world.post(PATH, &world.alice, &good),
        403,
        "agent_mismatch",
        "\"bob\"",
    );
    refused(&world.get(PATH, &world.alice), 403, "agent_mismatch", "\"alice\"");
    let none = world.post("/v1/agents/none/events", &world.key, &good);
    refused(&none, 404, "agent_not_found", "\"none\"");
    refused(
        &world.post(PATH, &world.other_key, &good),
        404,
        "agent_not_found",
        "\"bob\"",
    );
    for (body, words) in [
        (json!({}), "type"),
        (json!({"type": ""}), "1 to 128 bytes"),
        (json!({"type": "a\u{200b}b"}), "nobody sees"),
        (json!({"type": 7}), "integer `7`"),
        (json!({"type": "x", "agent": "bob"}), "agent"),
        (
            json!({"type": "x", "payload": "x".repeat(64 * 1024)}),
            "65538 bytes",
        ),
    ] {
        refused(
            &world.post(PATH, &world.bob, &body),
            400,
            "invalid_request",
            words,
        );
    }
    for (query, words) in [
        ("limit=0", "1 to 500"),
        ("limit=501", "1 to 500"),
        ("since=1", "type, limit"),
    ] {
        refused(
            &world.get(&format!("{PATH}?{query}"), &world.bob),
            400,
            "invalid_request",
            words,
        );
    }
    assert_eq!(world.seen(PATH, &world.bob), json!([]));
}

#[test]
fn the_latest_are_kept_and_no_more_than_the_bound() {
    let world = World::new();
    let payload = "x".repeat(60 * 1024);
    world.done(PATH, &world.bob, &json!({"type": "first"}));
    for _ in 0..70 {
        world.done(
            "/v1/agents/alice/events",
            &world.alice,
            &json!({"type": "x", "payload": payload}),
        );
    }
    assert_eq!(
        world.seen(PATH, &world.bob),
        json!([]),
        "the oldest are forgotten, whoever's"
    );
    let listed = world.seen("/v1/agents/alice/events?limit=500", &world.alice);
    let sequences: Vec<u64> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["sequence"].as_u64().expect("a number"))
        .collect();
    assert_eq!(sequences, (3..=70).rev().collect::<Vec<u64>>());
    let next = world.done(PATH, &world.bob, &json!({"type": "second"}));
    assert_eq!(next["sequence"], 2, "it counts on");
}

#[test]
fn what_a_retired_agent_said_of_its_session_is_not_shown_as_that_of_the_next_of_its_name() {
    let world = World::new();
    for kind in ["first", "second"] {
        world.done(PATH, &world.bob, &json!({"type": kind}));
    }
    let path = "/v1/agents/alice/events";
    world.done(path, &world.alice, &json!({"type": "x"}));
    world.retire("web:bob");
    world.done("/v1/agents", &world.key, &json!({"name": "bob"}));
    assert_eq!(world.seen(PATH, &world.key), json!([]));
    let said = world.done(PATH, &world.key, &json!({"type": "third"}));
    assert_eq!(said["sequence"], 1);
    let others = world.seen(path, &world.alice);
    assert_eq!(others.as_array().map(Vec::len), Some(1), "{others}");
}

//! The search for messages, and the conversations of a whole workspace.

use super::observers::text;
use super::*;

/// What was found, by a text of its own in each message.
fn texts(found: &Value) -> Vec<&str> {
    let found = found.as_array().expect("a list").iter();
    found.map(|one| text(&one["text"])).collect()
}

impl World {
    fn found(&self, query: &str, token: &str) -> Vec<String> {
        let found = self.seen(&format!("/v1/search?{query}"), token);
        texts(&found).into_iter().map(str::to_owned).collect()
    }

    fn posts(&self, path: &str, token: &str, text: &str) -> String {
        let said = self.done(path, token, &json!({"text": text}));
        self::text(&said["id"]).to_owned()
    }

    fn writes(&self, token: &str, to: &str, text: &str) -> String {
        let sent = self.done("/v1/dm", token, &json!({"to": to, "text": text}));
        self::text(&sent["message"]["id"]).to_owned()
    }

    /// Makes one more agent of the workspace, and returns its token.
    fn agent(&self, name: &str) -> String {
        let made = self.done("/v1/agents", &self.key, &json!({"name": name}));
        text(&made["token"]).to_owned()
    }

    /// Makes the token of an observer.
    fn looker(&self, name: &str, scopes: &[&str], filters: &Value) -> String {
        let made = self.observer_token(json!({"name": name, "scopes": scopes, "filters": filters}));
        text(&made["token"]).to_owned()
    }
}

#[test]
fn whoever_may_read_a_message_finds_it_the_newest_first() {
    let world = World::new();
    let carol = world.agent("carol");
    let ops = "/v1/channels/ops/messages";
    let first = world.posts(ops, &world.alice, "The build FAILED: one");
    world.writes(&world.alice, "bob", "build failed: two");
    let replies = format!("/v1/messages/{first}/replies");
    world.posts(&replies, &world.bob, "failed builds: three");
    world.posts(ops, &world.bob, "the build went well");
    let all = [
        "failed builds: three",
        "build failed: two",
        "The build FAILED: one",
    ];
    for token in [&world.alice, &world.bob, &world.key] {
        assert_eq!(world.found("q=Build+failed", token), all);
    }
    assert_eq!(
        world.found("q=build+failed", &carol),
        [all[0], all[2]],
        "a channel is open to all"
    );
    assert_eq!(world.found("q=build", &world.other_key), [""; 0]);
    let found = world.seen("/v1/search?q=one", &carol);
    let mut one = found[0].clone();
    assert!(text(&one["created_at"]).ends_with('Z'));
    one["created_at"].take();
    let expected = json!({
        "id": first, "channel_id": "ch_web:ops", "channel_name": "ops", "conversation_id": null, "agent_id": "agt_web:alice",
        "agent_name": "alice", "text": "The build FAILED: one", "thread_id": null, "created_at": null, "relevance_score": 0,
    });
    assert_eq!((one, found.as_array().map(Vec::len)), (expected, Some(1)));
    let direct = &world.seen("/v1/search?q=two", &world.bob)[0];
    let id = json!("dm_web:alice~web:bob");
    assert_eq!(
        (
            &direct["conversation_id"],
            &direct["channel_id"],
            &direct["channel_name"]
        ),
        (&id, &id, &id)
    );
    let reply = &world.seen("/v1/search?q=three", &world.bob)[0];
    assert_eq!(reply["thread_id"], json!(first));
    assert_eq!(world.bodies("web:carol"), [""; 0]);
    assert_eq!(
        world.bodies("web:bob"),
        ["build failed: two"],
        "it waits as before"
    );
}

#[test]
fn a_search_is_narrowed_to_a_channel_a_sender_and_a_part() {
    let world = World::new();
    let ids: Vec<String> = [("ops", &world.alice), ("dev", &world.bob), ("ops", &world.bob)]
        .map(|(channel, token)| {
            let path = format!("/v1/channels/{channel}/messages");
            world.posts(&path, token, &format!("x {channel}"))
        })
        .into();
    world.writes(&world.bob, "alice", "x direct");
    let found = |query: &str| world.found(&format!("q=x&{query}"), &world.alice);
    assert_eq!(found("channel=ops"), ["x ops", "x ops"]);
    assert_eq!(found("channel=%23ops&from=alice"), ["x ops"]);
    assert_eq!(found("from=bob"), ["x direct", "x ops", "x dev"]);
    assert_eq!(found("from=web:bob&limit=2"), ["x direct", "x ops"]);
    assert_eq!(found("from=app:bob"), [""; 0]);
    assert_eq!(found("from=none"), [""; 0]);
    assert_eq!(found("channel=none"), [""; 0]);
    assert_eq!(found(&format!("before={}", ids[2])), ["x dev", "x ops"]);
    assert_eq!(found(&format!("after={}", ids[1])), ["x direct", "x ops"]);
    for (query, words) in [
        ("", "1 to 16 words"),
        ("q=", "1 to 16 words"),
        ("q=+%20", "1 to 16 words"),
        ("q=a&limit=0", "1 to 200"),
        ("q=a&limit=201", "1 to 200"),
        ("q=a&from=a+b", "a b"),
        ("q=a&channel=app:ops", "names a workspace"),
        ("q=a&channel=", "channel"),
        ("query=a", "accepted: q, channel, from, limit, before, after"),
    ] {
        let refusal = world.get(&format!("/v1/search?{query}"), &world.alice);
        refused(&refusal, 400, "invalid_request", words);
    }
    let long = format!("/v1/search?q={}", "a".repeat(257));
    refused(&world.get(&long, &world.key), 400, "invalid_request", "256 bytes");
    for range in ["before=none", "after=none"] {
        let refusal = world.get(&format!("/v1/search?q=a&{range}"), &world.key);
        refused(&refusal, 404, "message_not_found", "none");
    }
    let node = world.own_node(&world.alice);
    let refusal = world.get("/v1/search?q=a", text(&node["token"]));
    refused(&refusal, 401, "observer_token_required", "nt_live_");
}

#[test]
fn a_search_goes_through_all_that_is_kept() {
    let world = World::new();
    world.writes(&world.alice, "bob", "the needle");
    let nothing = world.writes(&world.bob, "alice", "nothing");
    // More than are looked at in one part.
    for _ in 0..1_100 {
        world.writes(&world.alice, "bob", "hay");
    }
    assert_eq!(world.found("q=NEEDLE", &world.bob), ["the needle"]);
    let newer = format!("q=NEEDLE&after={nothing}");
    assert_eq!(world.found(&newer, &world.bob), [""; 0], "no part goes past it");
    let all = world.seen("/v1/dm/conversations/all", &world.key);
    assert_eq!(
        (&all[0]["message_count"], all.as_array().map(Vec::len)),
        (&json!(1_102), Some(1))
    );
    assert_eq!(world.found("q=hay", &world.bob).len(), 20);
    assert_eq!(world.found("q=hay&limit=100", &world.bob).len(), 100);
}

#[test]
fn an_observer_finds_what_its_token_allows() {
    let world = World::new();
    world.posts("/v1/channels/ops/messages", &world.alice, "x ops");
    world.posts("/v1/channels/dev/messages", &world.bob, "x dev");
    world.writes(&world.alice, "bob", "x direct");
    let dms = json!({"include_dms": true});
    for (name, scopes, filters, expected) in [
        (
            "all",
            &["search:read"] as &[&str],
            json!({}),
            &["x dev", "x ops"] as &[&str],
        ),
        ("no scope", &["search:read"], dms.clone(), &["x dev", "x ops"]),
        (
            "no dms",
            &["search:read", "dms:read"],
            json!({}),
            &["x dev", "x ops"],
        ),
        (
            "dms",
            &["search:read", "dms:read"],
            dms.clone(),
            &["x direct", "x dev", "x ops"],
        ),
        (
            "ops",
            &["search:read"],
            json!({"channel_names": ["ops"]}),
            &["x ops"],
        ),
        (
            "bob",
            &["search:read", "dms:read"],
            json!({"include_dms": true, "agent_ids": ["agt_web:bob"]}),
            &["x direct", "x dev"],
        ),
        (
            "kind",
            &["search:read", "dms:read"],
            json!({"include_dms": true, "event_types": ["dm.received"]}),
            &["x direct"],
        ),
        (
            "future",
            &["search:read"],
            json!({"created_after": "2100-01-01T00:00:00Z"}),
            &[],
        ),
    ] {
        let token = world.looker(name, scopes, &filters);
        assert_eq!(world.found("q=x", &token), expected, "{name}");
    }
    let stream = world.looker("stream", &["stream:read", "messages:read", "dms:read"], &dms);
    let refusal = world.get("/v1/search?q=x", &stream);
    refused(&refusal, 401, "observer_token_forbidden", "search:read");
    let history = world.get("/v1/channels/ops/messages", &stream);
    refused(&history, 401, "observer_token_forbidden", "/v1/search");
}

#[test]
fn all_conversations_of_a_workspace_are_listed_the_latest_first() {
    let world = World::new();
    let carol = world.agent("carol");
    world.writes(&world.alice, "bob", "one");
    world.writes(&carol, "bob", "two");
    world.done("/v1/dm", &carol, &json!({"to": "@everyone", "text": "to all"}));
    let last = world.writes(&world.bob, "alice", "three");
    world.posts("/v1/channels/ops/messages", &world.alice, "in a channel");
    let path = "/v1/dm/conversations/all";
    let listed = world.seen(path, &world.key);
    let ids = |listed: &Value| -> Vec<String> {
        let listed = listed.as_array().expect("a list").iter();
        listed.map(|one| text(&one["id"]).to_owned()).collect()
    };
    let all = [
        "dm_web:alice~web:bob",
        "dm_web:@everyone~web:carol",
        "dm_web:bob~web:carol",
    ];
    assert_eq!(ids(&listed), all);
    let mut latest = listed[0].clone();
    assert!(text(&latest["created_at"]).ends_with('Z'));
    latest["created_at"].take();
    latest["last_message"]["created_at"].take();
    let expected = json!({
        "id": all[0], "channel_id": all[0], "type": "1:1", "name": null, "participants": ["bob", "alice"], "message_count": 2,
        "created_at": null,
        "last_message": {"id": last, "text": "three", "agent_id": "agt_web:bob", "agent_name": "bob", "created_at": null},
    });
    assert_eq!(latest, expected);
    assert_eq!(
        (&listed[1]["type"], &listed[1]["name"], &listed[1]["participants"]),
        (&json!("group"), &json!("web:@everyone"), &json!(["carol"]))
    );
    assert_eq!(ids(&world.seen(&format!("{path}?limit=1"), &world.key)), all[..1]);
    assert_eq!(world.seen(path, &world.other_key), json!([]));
    refused(
        &world.get(&format!("{path}?limit=501"), &world.key),
        400,
        "invalid_request",
        "1 to 500",
    );
    refused(
        &world.get(path, &world.alice),
        403,
        "workspace_key_required",
        "at_live_",
    );
    // Its own messages are read by what it was listed under.
    let messages = world.seen(&format!("/v1/dm/conversations/{}/messages", all[0]), &world.key);
    assert_eq!(texts(&messages), ["three", "one"]);

    let hidden = world.looker("hidden", &["dms:read"], &json!({}));
    assert_eq!(world.seen(path, &hidden), json!([]));
    let one = json!({"include_dms": true, "dm_conversation_ids": [all[2]]});
    let one = world.looker("one", &["dms:read"], &one);
    assert_eq!(ids(&world.seen(path, &one)), all[2..]);
    let none = world.looker("none", &["search:read"], &json!({"include_dms": true}));
    refused(
        &world.get(path, &none),
        401,
        "observer_token_forbidden",
        "dms:read",
    );
}

#[test]
fn what_the_person_has_sent_is_found_by_its_name() {
    let world = World::new();
    let sent = json!({"to": "web:bob", "body": "x of the person"}).to_string();
    let sent = world.relay.connect().exchange(&Request::post("/api/send", sent));
    assert_eq!(sent.status, 200, "{sent:?}");
    world.writes(&world.alice, "bob", "x of alice");
    assert_eq!(world.found("q=x&from=user", &world.bob), ["x of the person"]);
}

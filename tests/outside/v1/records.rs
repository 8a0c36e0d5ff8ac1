//! Going back to messages, and what agents say about one.

use super::node::Node;
use super::*;

/// A message's id, and where it is under the API.
fn id_of(message: &Value) -> (String, String) {
    let id = message["id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/messages/{id}");
    (id, path)
}

impl World {
    /// Has alice write to bob.
    fn written(&self, text: &str) -> (String, String) {
        let sent = self.done("/v1/dm", &self.alice, &json!({"to": "bob", "text": text}));
        id_of(&sent["message"])
    }

    fn in_channel(&self, token: &str, text: &str) -> (String, String) {
        id_of(&self.done("/v1/channels/ops/messages", token, &json!({"text": text})))
    }

    fn texts(&self, path: &str, token: &str) -> Vec<String> {
        let seen = self.seen(path, token);
        let messages = seen.as_array().expect("a list").iter();
        messages
            .map(|message| message["text"].as_str().expect("a text").to_owned())
            .collect()
    }
}

#[test]
fn a_message_is_shown_with_all_that_is_known_of_it() {
    let world = World::new();
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    let data =
        json!({"text": "look, @bob", "data": {"build": 7}, "blocks": [{"type": "text", "text": "look"}]});
    let (id, path) = id_of(&world.done("/v1/channels/ops/messages", &world.alice, &data));
    world.done(&format!("{path}/replies"), &world.bob, &json!({"text": "I do"}));
    world.done(
        &format!("{path}/reactions"),
        &world.bob,
        &json!({"emoji": ":eyes:"}),
    );
    world.done(&format!("{path}/read"), &world.bob, &json!({}));
    let mut shown = world.seen(&path, &world.alice);
    let at = shown["created_at"].take();
    assert!(at.as_str().is_some_and(|at| at.ends_with('Z')), "{at}");
    let expected = json!({
        "id": id, "channel_id": "ch_web:ops", "channel_name": "ops", "agent_id": "agt_web:alice", "agent_name": "alice",
        "text": "look, @bob", "blocks": [{"type": "text", "text": "look"}], "metadata": {"build": 7},
        "has_attachments": false, "thread_id": null, "attachments": [], "created_at": null, "mentions": ["bob"],
        "reply_count": 1, "reactions": [{"emoji": ":eyes:", "count": 1, "agents": ["bob"]}], "read_by_count": 1,
    });
    assert_eq!(shown, expected);
    assert_eq!(world.bodies("web:bob"), ["look, @bob"], "it waits as before");
}

#[test]
fn a_channel_is_gone_back_to_by_all_of_its_workspace_the_newest_first() {
    let world = World::new();
    let ids: Vec<String> = ["one", "two", "three"]
        .map(|text| world.in_channel(&world.alice, text).0)
        .into();
    let replies = format!("/v1/messages/{}/replies", ids[0]);
    world.done(&replies, &world.bob, &json!({"text": "first reply"}));
    world.done(&replies, &world.alice, &json!({"text": "second reply"}));
    let path = "/v1/channels/ops/messages";
    for token in [&world.alice, &world.bob, &world.key] {
        assert_eq!(world.texts(path, token), ["three", "two", "one"]);
    }
    assert_eq!(world.texts(&format!("{path}?limit=1"), &world.bob), ["three"]);
    assert_eq!(
        world.texts(&format!("{path}?before={}", ids[2]), &world.bob),
        ["two", "one"]
    );
    assert_eq!(
        world.texts(&format!("{path}?after={}&limit=1", ids[0]), &world.bob),
        ["three"]
    );
    let thread = world.seen(&replies, &world.key);
    assert_eq!(
        (&thread["parent"]["id"], &thread["parent"]["reply_count"]),
        (&json!(ids[0]), &json!(2))
    );
    let texts = thread["replies"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|reply| &reply["text"]);
    assert_eq!(
        texts.collect::<Vec<_>>(),
        ["first reply", "second reply"],
        "the oldest first"
    );
    refused(
        &world.get(path, &world.other_key),
        404,
        "channel_not_found",
        "#ops",
    );
    refused(
        &world.get("/v1/channels/none/messages", &world.key),
        404,
        "channel_not_found",
        "#none",
    );
    for (query, named) in [
        ("limit=0", "1 to 200"),
        ("limit=201", "1 to 200"),
        ("limit=1&limit=2", "limit"),
        ("since=1", "before, after, limit"),
    ] {
        refused(
            &world.get(&format!("{path}?{query}"), &world.key),
            400,
            "invalid_request",
            named,
        );
    }
    let before = format!("{path}?before=nonsense");
    refused(
        &world.get(&before, &world.key),
        404,
        "message_not_found",
        "nonsense",
    );
}

#[test]
fn what_an_agent_has_neither_sent_nor_got_is_not_shown_to_it() {
    let world = World::new();
    let (_, path) = world.written("between us");
    let made = world.done("/v1/agents", &world.key, &json!({"name": "carol"}));
    let carol = made["token"].as_str().expect("a token");
    for token in [&world.alice, &world.bob, &world.key] {
        assert_eq!(world.seen(&path, token)["text"], "between us");
    }
    for token in [carol, &world.other_key] {
        refused(&world.get(&path, token), 404, "message_not_found", "no message");
        refused(
            &world.get(&format!("{path}/readers"), token),
            404,
            "message_not_found",
            "no message",
        );
        assert_eq!(
            world.texts("/v1/dm/dm_web:alice~web:bob/messages", token),
            [""; 0]
        );
    }
    for path in ["read", "reactions", "replies"].map(|what| format!("{path}/{what}")) {
        let body = match path.rsplit('/').next() {
            Some("reactions") => json!({"emoji": "x"}),
            Some("replies") => json!({"text": "x"}),
            _ => json!({}),
        };
        refused(
            &world.post(&path, carol, &body),
            404,
            "message_not_found",
            "no message",
        );
    }
    assert_eq!(world.seen(&path, &world.alice)["reactions"], json!([]));
}

#[test]
fn a_reaction_is_told_to_the_nodes_of_those_whom_it_concerns() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.alice));
    let (id, path) = world.written("done?");
    let given = world.done(&format!("{path}/reactions"), &world.bob, &json!({"emoji": "👍"}));
    assert_eq!(
        (&given["message_id"], &given["agent_name"], &given["emoji"]),
        (&json!(id), &json!("bob"), &json!("👍"))
    );
    world.done(&format!("{path}/reactions"), &world.bob, &json!({"emoji": "👍"}));
    let mut frame = node.hear();
    let at = frame["payload"]["data"]["created_at"].take();
    assert_eq!(at, given["created_at"]);
    let ids = frame["delivery_id"].take();
    let begins = format!("evt_message.reacted_{id}_agt_web:bob_%F0%9F%91%8D_");
    let is_own = |id: &str| id.starts_with(&begins) && id.ends_with("_agt_web:alice");
    assert!(ids.as_str().is_some_and(is_own), "{ids}");
    let data = json!({
        "message_id": id, "agent_id": "agt_web:bob", "agent_name": "bob", "emoji": "👍", "channel_name": null,
        "action": "added", "created_at": null, "metadata": {"relay": {"reason": "notification"}},
    });
    let expected = json!({
        "v": 1, "type": "deliver",  "delivery_id": null,
        "agent_id": "agt_web:alice", "agent": "alice", "msg_id": id, "seq": 0, "mode": "wait",
        "payload": {"type": "message.reacted", "data": data},
    });
    assert_eq!(frame, expected);
    let of_it = format!("{path}/reactions");
    assert_eq!(
        world.seen(&of_it, &world.key),
        json!([{"emoji": "👍", "count": 1, "agents": ["bob"]}])
    );
    let back = |emoji: &str| {
        let request = with(Request::new("DELETE", &format!("{of_it}/{emoji}")), &world.bob);
        world.relay.connect().exchange(&request)
    };
    for _ in 0..2 {
        let response = back("%F0%9F%91%8D");
        assert_eq!(
            (response.status, response.body.is_empty()),
            (204, true),
            "{response:?}"
        );
    }
    assert_eq!(node.hear()["payload"]["data"]["action"], "removed");
    world.done(&format!("{path}/read"), &world.bob, &json!({}));
    world.done(&format!("{path}/read"), &world.bob, &json!({}));
    let frame = node.hear();
    assert_eq!(frame["payload"]["type"], "message.read");
    assert_eq!(frame["payload"]["data"]["agent_name"], "bob");
    node.acknowledge("alice", 0);
    node.hears_nothing();
    assert_eq!(world.seen(&of_it, &world.key), json!([]));
    refused(
        &world.post(&of_it, &world.bob, &json!(["x"])),
        400,
        "invalid_request",
        "takes a JSON object",
    );
    for emoji in [json!(""), json!("x".repeat(65)), json!("a\nb")] {
        let response = world.post(&of_it, &world.bob, &json!({"emoji": emoji}));
        refused(&response, 400, "invalid_request", "1 to 64 bytes");
    }
}

#[test]
fn who_has_got_a_message_by_any_path_has_read_it() {
    let world = World::new();
    let (id, path) = world.written("by a receipt");
    let readers = |path: &str| world.seen(&format!("{path}/readers"), &world.alice);
    assert_eq!(readers(&path), json!([]));
    world.done(
        &format!("/v1/deliveries/del_{id}_agt_web:bob/ack"),
        &world.bob,
        &json!({}),
    );
    assert_eq!(readers(&path)[0]["agent_name"], "bob");
    let (id, path) = world.written("it failed");
    world.done(
        &format!("/v1/deliveries/del_{id}_agt_web:bob/fail"),
        &world.bob,
        &json!({}),
    );
    let traced = world.seen(&format!("{path}/trace"), &world.alice);
    let steps = traced["steps"].as_array().expect("a list");
    let failed = steps.iter().find(|step| step["step"] == "failed");
    assert_eq!(
        failed.expect("it failed")["retryable"],
        false,
        "it did not say so"
    );
    assert_eq!(readers(&path), json!([]));
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    let (_, path) = world.written("by a node");
    let (number, ..) = node.delivery();
    node.acknowledge("bob", number);
    node.ask(
        &json!({"v": 1, "id": "b", "type": "node.heartbeat", "active_agents": 1, "handlers_live": false}),
    );
    assert_eq!(readers(&path)[0]["agent_id"], "agt_web:bob");
    let own = world.done(&format!("{path}/read"), &world.alice, &json!({}));
    assert_eq!(own["read_at"], world.seen(&path, &world.alice)["created_at"]);
    assert_eq!(
        readers(&path).as_array().map(Vec::len),
        Some(1),
        "its sender is none"
    );
}

#[test]
fn the_members_of_a_channel_have_read_up_to_a_message() {
    let world = World::new();
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    let (first, path) = world.in_channel(&world.alice, "one");
    let (second, _) = world.in_channel(&world.alice, "two");
    world.done(&format!("{path}/read"), &world.bob, &json!({}));
    let status = world.seen("/v1/channels/ops/read-status", &world.alice);
    let last = |at: usize| {
        (
            status[at]["agent_name"].clone(),
            status[at]["last_read_id"].clone(),
        )
    };
    assert_eq!(last(0), (json!("alice"), json!(second)), "its own it has read");
    assert_eq!(last(1), (json!("bob"), json!(first)));
    assert!(status[1]["last_read_at"].is_string());
}

#[test]
fn conversations_are_listed_the_latest_first() {
    let world = World::new();
    let role = json!({"to": "alice", "text": "one"});
    world.done("/v1/dm", &world.bob, &role);
    world.done(
        "/v1/dm",
        &world.bob,
        &json!({"to": "@everyone", "text": "to all"}),
    );
    let (id, _) = world.written("two");
    let listed = world.seen("/v1/dm/conversations", &world.alice);
    let ids: Vec<&Value> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, ["dm_web:alice~web:bob", "dm_web:@everyone~web:bob"]);
    assert_eq!(
        (
            &listed[0]["type"],
            &listed[0]["unread_count"],
            &listed[0]["last_message"]["id"]
        ),
        (&json!("1:1"), &json!(1), &json!(id))
    );
    assert_eq!(
        listed[0]["participants"],
        json!([
            {"agent_id": "agt_web:alice", "agent_name": "alice"},
            {"agent_id": "agt_web:bob", "agent_name": "bob"},
        ])
    );
    assert_eq!(
        (&listed[1]["type"], &listed[1]["name"]),
        (&json!("group"), &json!("web:@everyone"))
    );
    for path in [
        "/v1/dm/dm_web:alice~web:bob/messages",
        "/v1/dm/conversations/dm_web:alice~web:bob/messages",
    ] {
        assert_eq!(world.texts(path, &world.bob), ["two", "one"]);
    }
    assert_eq!(
        world.texts("/v1/dm/dm_web:@everyone~web:bob/messages", &world.alice),
        ["to all"]
    );
    refused(
        &world.get("/v1/dm/ops/messages", &world.alice),
        404,
        "conversation_not_found",
        "/v1/dm/conversations",
    );
}

#[test]
fn an_inbox_tells_what_waits_and_how_others_take_what_was_sent() {
    let world = World::new();
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    world.in_channel(&world.alice, "nothing");
    let (mention, _) = world.in_channel(&world.alice, "@bob, look");
    let (last, _) = world.written("hi");
    let reply = world.done("/v1/dm", &world.bob, &json!({"to": "alice", "text": "hi"}));
    let (own, path) = id_of(&reply["message"]);
    world.done(
        &format!("{path}/reactions"),
        &world.alice,
        &json!({"emoji": ":wave:"}),
    );
    world.done(
        &format!("{path}/reactions"),
        &world.bob,
        &json!({"emoji": ":self:"}),
    );
    let inbox = world.seen("/v1/inbox", &world.bob);
    assert_eq!(
        inbox["unread_channels"],
        json!([{"channel_name": "ops", "unread_count": 2}])
    );
    assert_eq!(
        (
            &inbox["mentions"][0]["id"],
            inbox["mentions"].as_array().map(Vec::len)
        ),
        (&json!(mention), Some(1))
    );
    let dm = &inbox["unread_dms"][0];
    assert_eq!(
        (
            &dm["conversation_id"],
            &dm["from"],
            &dm["unread_count"],
            &dm["last_message"]["id"]
        ),
        (
            &json!("dm_web:alice~web:bob"),
            &json!("alice"),
            &json!(1),
            &json!(last)
        )
    );
    let reactions = inbox["recent_reactions"].as_array().expect("a list");
    assert_eq!(reactions.len(), 1, "its own is none");
    assert_eq!(
        (&reactions[0]["message_id"], &reactions[0]["emoji"]),
        (&json!(own), &json!(":wave:"))
    );
    let deliveries = world.seen("/v1/deliveries", &world.bob);
    let reasons = deliveries
        .as_array()
        .expect("a list")
        .iter()
        .map(|delivery| &delivery["reason"]);
    assert_eq!(reasons.collect::<Vec<_>>(), ["message", "mention", "dm"]);
    assert_eq!(
        world.bodies("web:bob"),
        ["nothing", "@bob, look", "hi"],
        "it stays there"
    );
    let inbox = world.seen("/v1/inbox?limit=1", &world.bob);
    assert_eq!(inbox["unread_dms"], json!([]));
    refused(
        &world.get("/v1/inbox?limit=21", &world.bob),
        400,
        "invalid_request",
        "1 to 20",
    );
}

#[test]
fn a_node_that_takes_its_news_is_told_all_of_them_however_many() {
    let world = World::new();
    let mut node = Node::connect(&world, &world.own_node(&world.alice));
    let (_, path) = world.written("done?");
    let reactions = format!("{path}/reactions");
    // More than may wait at a time. What comes behind each says that it should have come.
    for number in (1..).take(260) {
        let (request, action) = if number % 2 == 1 {
            let given = json!({"emoji": "x"}).to_string();
            (Request::post(&reactions, given), "added")
        } else {
            (Request::new("DELETE", &format!("{reactions}/x")), "removed")
        };
        let answer = world.relay.connect().exchange(&with(request, &world.bob));
        assert!((200..300).contains(&answer.status), "{answer:?}");
        world.done("/v1/dm", &world.bob, &json!({"to": "alice", "text": "behind it"}));
        assert_eq!(node.hear()["payload"]["data"]["action"], action, "news {number}");
        assert_eq!(node.delivery(), (number, "behind it".to_owned(), false));
        node.acknowledge("alice", number);
    }
}

#[test]
fn of_several_the_latest_is_shown_and_the_first_says_since_when() {
    let world = World::new();
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    world.in_channel(&world.alice, "@bob, look");
    let (mention, _) = world.in_channel(&world.alice, "@bob, look again");
    let (_, first) = world.written("one");
    let begun = world.seen(&first, &world.alice)["created_at"].take();
    // Else both might be of the same moment.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let at = chrono::DateTime::parse_from_rfc3339(begun.as_str().expect("a text")).expect("a moment");
    while chrono::Utc::now().timestamp_millis() <= at.timestamp_millis() {
        assert!(std::time::Instant::now() < end);
    }
    let (last, _) = world.written("two");
    let inbox = world.seen("/v1/inbox?limit=1", &world.bob);
    let mentions = inbox["mentions"].as_array().expect("a list");
    assert_eq!((mentions.len(), &mentions[0]["id"]), (1, &json!(mention)));
    let inbox = world.seen("/v1/inbox", &world.bob);
    let dm = &inbox["unread_dms"][0];
    assert_eq!(
        (&dm["unread_count"], &dm["last_message"]["id"]),
        (&json!(2), &json!(last))
    );
    let listed = world.seen("/v1/dm/conversations", &world.alice);
    let (created_at, latest) = (&listed[0]["created_at"], &listed[0]["last_message"]["id"]);
    assert_eq!((created_at, latest), (&begun, &json!(last)));
}

#[test]
fn of_several_reactions_the_latest_is_shown_whichever_message_it_is_to() {
    let world = World::new();
    let [older, newer] = ["one", "two"].map(|text| {
        let sent = world.done("/v1/dm", &world.bob, &json!({"to": "alice", "text": text}));
        id_of(&sent["message"])
    });
    for ((_, path), emoji) in [(&newer, ":first:"), (&older, ":second:")] {
        world.done(
            &format!("{path}/reactions"),
            &world.alice,
            &json!({"emoji": emoji}),
        );
        // Else both might be of the same moment.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let emojis = |query: &str| {
        let inbox = world.seen(&format!("/v1/inbox{query}"), &world.bob);
        let reactions = inbox["recent_reactions"].as_array().expect("a list").iter();
        reactions
            .map(|reaction| reaction["emoji"].as_str().expect("a text").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(emojis(""), [":second:", ":first:"]);
    assert_eq!(emojis("?limit=1"), [":second:"]);
}

//! Observers: the stream of a workspace's events, what is listed of them, and the tokens that open both.

use std::net::TcpStream;

use tungstenite::{Message, WebSocket};

use super::nodes::{Node, upgrade_at};
use super::*;

/// The connection of an observer.
struct Observer(WebSocket<TcpStream>);

impl Observer {
    #[track_caller]
    fn open(world: &World, token: &str, more: &str) -> Self {
        let path = format!("/v1/ws?token={token}&origin_client=test{more}");
        Self(upgrade_at(world, &path).expect("it is let in"))
    }

    /// Returns the next event, or why the relay has ended the stream.
    fn next(&mut self) -> Result<Value, String> {
        loop {
            match self.0.read().expect("something comes") {
                Message::Text(text) => return Ok(serde_json::from_str(&text).expect("JSON")),
                Message::Close(close) => return Err(close.expect("a reason").reason.to_string()),
                Message::Ping(_) | Message::Pong(_) => {}
                other @ (Message::Binary(_) | Message::Frame(_)) => panic!("{other:?}"),
            }
        }
    }

    #[track_caller]
    fn event(&mut self) -> Value {
        self.next().expect("an event")
    }

    /// Returns the types of the next events.
    #[track_caller]
    fn types(&mut self, count: usize) -> Vec<String> {
        let kind = |event: Value| event["type"].as_str().expect("a type").to_owned();
        (0..count).map(|_| kind(self.event())).collect()
    }

    #[track_caller]
    fn ended(&mut self) -> String {
        loop {
            if let Err(reason) = self.next() {
                return reason;
            }
        }
    }
}

impl World {
    #[track_caller]
    fn observer_token(&self, more: Value) -> Value {
        let mut body = json!({"name": "o", "scopes": ["stream:read"]});
        for (field, value) in more.as_object().expect("an object") {
            body[field] = value.clone();
        }
        self.done("/v1/observer-tokens", &self.key, &body)
    }

    fn change(&self, method: &str, path: &str, body: &Value) -> Response {
        let request = Request::post(path, body.to_string()).by(method);
        self.relay.connect().exchange(&with(request, &self.key))
    }

    fn events(&self, query: &str, token: &str) -> Value {
        self.seen(&format!("/v1/workspace/events{query}"), token)
    }

    fn latest(&self) -> u64 {
        let events = self.events("", &self.key);
        events["latest_seq"].as_u64().expect("a number")
    }

    /// Has alice write to bob.
    fn write(&self, text: &str) -> String {
        let sent = self.done("/v1/dm", &self.alice, &json!({"to": "bob", "text": text}));
        sent["message"]["id"].as_str().expect("an id").to_owned()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// What a message and its delivery to one who has a node are told of.
const A_DELIVERY: [&str; 3] = ["dm.received", "delivery.accepted", "delivery.delivered"];

#[test]
fn all_that_happens_in_a_workspace_is_told_once_and_in_order() {
    let world = World::new();
    let mut observer = Observer::open(&world, &world.key, "");
    let before = world.latest();
    let mut node = Node::connect(&world, &world.own_node(&world.bob));
    let online = observer.event();
    assert_eq!(
        (
            &online["type"],
            &online["node"]["name"],
            &online["status"],
            &online["agents"]
        ),
        (
            &json!("node.status.online"),
            &json!("direct-agt_web:bob"),
            &json!("online"),
            &json!(["bob"])
        )
    );
    let id = world.write("hi");
    assert_eq!(node.delivery().1, "hi");
    node.acknowledge("bob", 1);
    let mut said = observer.event();
    for made_up in ["seq", "created_at"] {
        said[made_up].take();
    }
    let expected = json!({
        "type": "dm.received", "id": id, "conversation_id": "dm_web:alice~web:bob", "to": "web:bob", "kind": "free",
        "seq": null, "created_at": null,
        "message": {"id": id, "agent_id": "agt_web:alice", "agent_name": "alice", "text": "hi", "attachments": [], "thread_id": null},
    });
    assert_eq!(said, expected);
    assert_eq!(observer.types(1), A_DELIVERY[1..2]);
    let mut delivered = observer.event();
    for made_up in ["seq", "created_at"] {
        delivered[made_up].take();
    }
    let expected = json!({
        "type": "delivery.delivered", "delivery_id": format!("del_{id}_agt_web:bob"), "message_id": id,
        "channel_id": "dm_web:alice~web:bob", "agent_id": "agt_web:bob", "agent_name": "bob", "from_name": "alice",
        "by": "acknowledged", "seq": null, "created_at": null,
    });
    assert_eq!(delivered, expected);

    // Of another workspace nothing, and of one in both, in both.
    let made = world.done("/v1/agents", &world.other_key, &json!({"name": "eve"}));
    let eve = text(&made["token"]).to_owned();
    world.done("/v1/dm", &eve, &json!({"to": "eve", "text": "secret"}));
    world.done("/v1/dm", &eve, &json!({"to": "web:alice", "text": "open"}));
    let told = observer.event();
    assert_eq!(
        (
            text(&told["message"]["agent_name"]),
            text(&told["message"]["text"])
        ),
        ("app:eve", "open")
    );
    assert_eq!(observer.types(1), A_DELIVERY[1..2]);
    let theirs = world.events("", &world.other_key);
    let texts: Vec<&Value> = theirs["events"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| &event["payload"]["message"]["text"])
        .collect();
    assert!(
        texts.contains(&&json!("secret")) && texts.contains(&&json!("open")),
        "{texts:?}"
    );

    // What is listed is what went over the stream, each with the next number.
    drop(node);
    let left = observer.event();
    assert_eq!(
        (&left["type"], &left["holds_agents"]),
        (&json!("node.status.offline"), &json!(true))
    );
    let listed = world.events(&format!("?since={before}"), &world.key);
    let rows = listed["events"].as_array().expect("a list");
    let numbers: Vec<u64> = rows
        .iter()
        .map(|row| row["seq"].as_u64().expect("a number"))
        .collect();
    assert_eq!(numbers, (before + 1..before + 8).collect::<Vec<u64>>());
    assert_eq!(
        (&listed["latest_seq"], &listed["missed"]),
        (&json!(before + 7), &json!(false))
    );
    assert_eq!(rows[6]["seq"], left["seq"]);
    assert_eq!(rows[6]["payload"]["type"], left["type"]);
}

#[test]
fn what_is_said_about_a_message_and_who_comes_is_told() {
    let world = World::new();
    let mut observer = Observer::open(&world, &world.key, "");
    world.done("/v1/channels/ops/join", &world.bob, &json!({}));
    let sent = world.done(
        "/v1/channels/ops/messages",
        &world.alice,
        &json!({"text": "look"}),
    );
    let id = text(&sent["id"]).to_owned();
    assert_eq!(
        observer.types(4),
        [
            "member.joined",
            "member.joined",
            "message.created",
            "delivery.accepted"
        ]
    );
    let path = format!("/v1/messages/{id}");
    world.done(&format!("{path}/replies"), &world.bob, &json!({"text": "I do"}));
    let reply = observer.event();
    assert_eq!(
        (
            text(&reply["type"]),
            text(&reply["channel"]),
            text(&reply["parent_id"])
        ),
        ("thread.reply", "ops", id.as_str())
    );
    assert_eq!(observer.types(1), ["delivery.accepted"]);
    world.done(&format!("{path}/reactions"), &world.bob, &json!({"emoji": "👀"}));
    let taken = observer.event();
    assert_eq!(
        (
            text(&taken["type"]),
            text(&taken["emoji"]),
            text(&taken["action"]),
            text(&taken["agent_name"])
        ),
        ("message.reacted", "👀", "added", "bob")
    );
    world.done(&format!("{path}/read"), &world.bob, &json!({}));
    let read = observer.event();
    assert_eq!(
        (text(&read["type"]), text(&read["message_id"])),
        ("message.read", id.as_str())
    );
    world.done("/v1/channels/ops/leave", &world.bob, &json!({}));
    let left = observer.event();
    assert_eq!(
        (
            text(&left["type"]),
            text(&left["channel"]),
            text(&left["agent_name"])
        ),
        ("member.left", "ops", "bob")
    );
    world.done("/v1/agents", &world.key, &json!({"name": "carol"}));
    let came = observer.event();
    assert_eq!(
        (text(&came["type"]), text(&came["agent"]["name"])),
        ("agent.status.active", "carol")
    );
}

#[test]
fn what_becomes_of_a_delivery_is_told() {
    let world = World::new();
    let mut observer = Observer::open(&world, &world.key, "");
    let [later, never] = ["later", "never"].map(|text| world.write(text));
    let listed = world.seen("/v1/deliveries", &world.bob);
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    assert_eq!(
        observer
            .types(4)
            .iter()
            .filter(|kind| *kind == "delivery.accepted")
            .count(),
        2
    );
    let id = |message: &str| format!("del_{message}_agt_web:bob");
    let defer = json!({"available_at": "2100-01-01T00:00:00.000Z", "reason": "busy"});
    let refused_at = world.post(
        &format!("/v1/deliveries/{}/defer", id(&later)),
        &world.bob,
        &defer,
    );
    assert_eq!(refused_at.status, 400, "not so late");
    let fail = json!({"error": "no such file", "retryable": true});
    world.done(&format!("/v1/deliveries/{}/fail", id(&never)), &world.bob, &fail);
    let failed = observer.event();
    assert_eq!(
        (
            text(&failed["type"]),
            text(&failed["message_id"]),
            text(&failed["error"]),
            &failed["retryable"]
        ),
        ("delivery.failed", never.as_str(), "no such file", &json!(true))
    );
    let soon = "2000-01-01T00:00:00.000Z";
    world.done(
        &format!("/v1/deliveries/{}/defer", id(&later)),
        &world.bob,
        &json!({"available_at": soon, "reason": "busy"}),
    );
    let deferred = observer.event();
    assert_eq!(
        (
            text(&deferred["type"]),
            text(&deferred["available_at"]),
            text(&deferred["reason"])
        ),
        ("delivery.deferred", soon, "busy")
    );
    let undone = observer.event();
    assert_eq!(
        (text(&undone["type"]), text(&undone["by"])),
        ("delivery.undone", "deferral_over")
    );
}

#[test]
fn an_observer_that_comes_back_goes_on_where_it_was() {
    let world = World::new();
    let mut observer = Observer::open(&world, &world.key, "");
    world.write("one");
    observer.event();
    let had = observer.event()["seq"].as_u64().expect("a number");
    drop(observer);
    world.write("two");
    let mut observer = Observer::open(&world, &world.key, &format!("&since={had}"));
    world.write("three");
    let events: Vec<Value> = (0..4).map(|_| observer.event()).collect();
    let texts: Vec<&Value> = events.iter().map(|event| &event["message"]["text"]).collect();
    assert_eq!(
        texts,
        [&json!("two"), &Value::Null, &json!("three"), &Value::Null]
    );
    let numbers: Vec<u64> = events
        .iter()
        .map(|event| event["seq"].as_u64().expect("a number"))
        .collect();
    assert_eq!(numbers, (had + 1..had + 5).collect::<Vec<u64>>());
    let mut from_the_first = Observer::open(&world, &world.key, "&since=0");
    assert_eq!(from_the_first.event()["message"]["text"], "one");

    let page = world.events(&format!("?since={had}&limit=3"), &world.key);
    assert_eq!(page["next_since"], had + 3);
    let rest = world.events(&format!("?since={}&limit=3", had + 3), &world.key);
    assert_eq!(rest["events"].as_array().map(Vec::len), Some(1));
    let end = world.events(&format!("?since={}", had + 4), &world.key);
    assert_eq!(
        (&end["events"], &end["next_since"]),
        (&json!([]), &json!(had + 4))
    );
    // Of the life of relay before this one nothing is known, and that is said.
    let before = world.events("?since=7", &world.key);
    assert_eq!(
        (&before["missed"], &before["events"][0]["type"]),
        (&json!(true), &json!("dm.received"))
    );
    let mut late = Observer::open(&world, &world.key, "&since=7");
    assert_eq!(late.types(2), ["events.missed", "dm.received"]);
    for (query, code, words) in [
        (
            format!("?since={}", had + 5),
            "since_ahead",
            (had + 4).to_string(),
        ),
        ("?since=x".to_owned(), "invalid_request", "\"x\"".to_owned()),
        ("?since=-1".to_owned(), "invalid_request", "\"-1\"".to_owned()),
        (
            "?limit=1001".to_owned(),
            "invalid_request",
            "1 to 1000".to_owned(),
        ),
        (
            "?until=1".to_owned(),
            "invalid_request",
            "since, limit".to_owned(),
        ),
    ] {
        let listed = world.get(&format!("/v1/workspace/events{query}"), &world.key);
        refused(&listed, 400, code, &words);
        if query.contains("since") {
            let query = query.replace('?', "&");
            let (status, body) =
                upgrade_at(&world, &format!("/v1/ws?token={}{query}", world.key)).expect_err("refused");
            assert!(status == 400 && body.contains(code), "{status} {body}");
        }
    }
}

#[test]
fn who_has_had_nothing_yet_learns_from_where_it_can_go_on() {
    let world = World::new();
    world.latest();
    world.write("one");
    for path in [format!("/v1/ws?token={}", world.key), "/api/tail?".to_owned()] {
        let stream = TcpStream::connect(("127.0.0.1", world.relay.port)).expect("relay is there");
        let url = format!("ws://127.0.0.1:{}{path}", world.relay.port);
        let (socket, answer) = tungstenite::client(url, stream).expect("it is let in");
        drop(socket);
        let behind = answer.headers()["relay-seq"].to_str().expect("text").to_owned();
        world.write("two");
        let path = format!("{path}&since={behind}");
        let mut observer = Observer(upgrade_at(&world, &path).expect("it is let in"));
        assert_eq!(observer.event()["message"]["text"], "two");
    }
}

#[test]
fn a_token_shows_what_its_scopes_and_filters_allow() {
    let world = World::new();
    let all = [
        "stream:read",
        "messages:read",
        "threads:read",
        "dms:read",
        "channels:read",
        "agents:read",
        "deliveries:read",
        "reactions:read",
    ];
    let mut number = 0;
    let mut token = |scopes: &[&str], filters: Value| {
        number += 1;
        let made =
            world.observer_token(json!({"name": format!("o{number}"), "scopes": scopes, "filters": filters}));
        text(&made["token"]).to_owned()
    };
    let dms = token(&["stream:read", "dms:read"], json!({"include_dms": true}));
    let no_dms = token(&all, json!({}));
    let ops = token(&all, json!({"channel_names": ["ops"]}));
    let by_id = token(&all, json!({"channel_ids": ["ch_web:dev"]}));
    let bobs = token(&all, json!({"agent_ids": ["agt_web:bob"], "include_dms": true}));
    let kinds = token(&all, json!({"event_types": ["message.created"]}));
    let other_dm = token(
        &all,
        json!({"include_dms": true, "dm_conversation_ids": ["dm_none"]}),
    );
    let future = token(&all, json!({"created_after": "2100-01-01T00:00:00Z"}));
    let nothing = token(&["messages:read"], json!({}));
    let since = world.latest();
    world.write("hi");
    for channel in ["ops", "dev"] {
        world.done(
            &format!("/v1/channels/{channel}/messages"),
            &world.alice,
            &json!({"text": channel}),
        );
    }
    world.done(
        "/v1/dm",
        &world.alice,
        &json!({"to": "user", "text": "to the person"}),
    );
    let seen = |token: &str| {
        let listed = world.events(&format!("?since={since}"), token);
        let rows = listed["events"].as_array().expect("a list").iter();
        let rows: Vec<String> = rows.map(|row| text(&row["type"]).to_owned()).collect();
        rows.join(" ")
    };
    let in_channels = "member.joined message.created";
    assert_eq!(seen(&dms), "dm.received dm.received");
    assert_eq!(seen(&no_dms), format!("{in_channels} {in_channels}"));
    assert_eq!(seen(&ops), in_channels);
    assert_eq!(seen(&by_id), in_channels);
    assert_eq!(seen(&bobs), "dm.received delivery.accepted");
    assert_eq!(seen(&kinds), "message.created message.created");
    assert_eq!(seen(&other_dm), format!("{in_channels} {in_channels}"));
    assert_eq!(seen(&future), "");
    let refused_at = world.get("/v1/workspace/events", &nothing);
    refused(&refused_at, 401, "observer_token_forbidden", "stream:read");
    // A page ends behind what was looked at, shown or not.
    let page = world.events(&format!("?since={since}"), &future);
    assert_eq!(page["next_since"], page["latest_seq"]);
    // An agent is concerned by what it got, wherever that was sent.
    let later = world.latest();
    world.done("/v1/channels/both/join", &world.bob, &json!({}));
    world.done(
        "/v1/channels/both/messages",
        &world.alice,
        &json!({"text": "both"}),
    );
    let listed = world.events(&format!("?since={later}"), &bobs);
    let rows = listed["events"].as_array().expect("a list").iter();
    let kinds_of_bobs: Vec<&str> = rows.map(|row| text(&row["type"])).collect();
    assert_eq!(
        kinds_of_bobs,
        ["member.joined", "message.created", "delivery.accepted"]
    );
    // The stream shows the same.
    let mut observer = Observer::open(&world, &ops, &format!("&since={since}"));
    assert_eq!(observer.types(2).join(" "), in_channels);
}

#[test]
fn a_token_is_made_shown_changed_rotated_and_revoked() {
    let world = World::new();
    let made =
        world.observer_token(json!({"description": "a dashboard", "expires_at": "2100-01-01T00:00:00Z"}));
    let (id, token) = (text(&made["id"]), text(&made["token"]));
    assert!(token.starts_with("ot_live_") && token.len() == "ot_live_".len() + 64);
    assert_eq!(
        (
            &made["status"],
            &made["scopes"],
            &made["filters"],
            &made["expires_at"]
        ),
        (
            &json!("active"),
            &json!(["stream:read"]),
            &json!({"include_dms": false}),
            &json!("2100-01-01T00:00:00.000Z")
        )
    );
    let path = format!("/v1/observer-tokens/{id}");
    let mut shown = made.clone();
    shown.as_object_mut().expect("an object").remove("token");
    assert_eq!(world.seen(&path, &world.key), shown);
    assert_eq!(world.seen("/v1/observer-tokens", &world.key), json!([shown]));
    assert_eq!(world.seen("/v1/observer-tokens", &world.other_key), json!([]));
    let theirs = world.get(&path, &world.other_key);
    refused(&theirs, 404, "observer_token_not_found", id);
    let again = world.post(
        "/v1/observer-tokens",
        &world.key,
        &json!({"name": "o", "scopes": ["stream:read"]}),
    );
    refused(&again, 409, "observer_token_already_exists", "\"o\"");

    // What is changed holds for the stream that is open.
    let mut observer = Observer::open(&world, token, "");
    world.write("not shown");
    let changed = json!({"name": "p", "description": null, "scopes": ["stream:read", "dms:read"], "filters": {"include_dms": true}, "expires_at": null});
    let changed = data(&world.change("PATCH", &path, &changed));
    assert_eq!(
        (&changed["name"], &changed["description"], &changed["expires_at"]),
        (&json!("p"), &Value::Null, &Value::Null)
    );
    assert!(changed["last_used_at"].is_string());
    world.write("shown");
    assert_eq!(observer.event()["message"]["text"], "shown");

    // A new token ends the one before, and what that has opened.
    let rotated = world.done(&format!("{path}/rotate"), &world.key, &json!({}));
    assert_eq!(observer.ended(), "this token was rotated");
    refused(
        &world.get("/v1/workspace/events", token),
        401,
        "unauthorized",
        "not known",
    );
    let token = text(&rotated["token"]);
    let mut observer = Observer::open(&world, token, "");
    assert_eq!(world.change("DELETE", &path, &json!({})).status, 204);
    assert_eq!(observer.ended(), "this token was revoked");
    refused(
        &world.get("/v1/workspace/events", token),
        401,
        "unauthorized",
        "not known",
    );
    let (status, _) = upgrade_at(&world, &format!("/v1/ws?token={token}")).expect_err("it is not good");
    assert_eq!(status, 401);
    assert_eq!(world.seen(&path, &world.key)["status"], "revoked");
    for (method, path) in [("PATCH", path.clone()), ("POST", format!("{path}/rotate"))] {
        refused(
            &world.change(method, &path, &json!({})),
            409,
            "observer_token_revoked",
            "revoked",
        );
    }
    assert_eq!(
        world.change("DELETE", &path, &json!({})).status,
        204,
        "a second time the same"
    );
    world.observer_token(json!({"name": "p"}));
}

#[test]
fn a_token_that_expires_ends_its_stream() {
    let world = World::new();
    let now = world.seen("/v1/workspace", &world.key);
    assert!(now["created_at"].is_string());
    let soon = chrono::Utc::now() + chrono::Duration::milliseconds(1_500);
    let made = world.observer_token(json!({"expires_at": soon.to_rfc3339()}));
    let mut observer = Observer::open(&world, text(&made["token"]), "");
    assert_eq!(observer.ended(), "this token has expired");
    let path = format!("/v1/observer-tokens/{}", text(&made["id"]));
    assert_eq!(world.seen(&path, &world.key)["status"], "expired");
    let late = world.get("/v1/workspace/events", text(&made["token"]));
    refused(&late, 401, "observer_token_forbidden", "expired");
}

#[test]
fn what_a_token_may_not_be_is_refused_and_named() {
    let world = World::new();
    let good = json!({"name": "o", "scopes": ["stream:read"]});
    for (field, value, words) in [
        ("name", json!(""), "1 to 128 bytes"),
        ("name", json!("a\nb"), "control"),
        ("name", json!(7), "integer `7`"),
        ("scopes", json!([]), "one or more"),
        ("scopes", json!(["write"]), "stream:read"),
        ("filters", json!({"channels": []}), "channels"),
        ("filters", json!({"agent_ids": "x"}), "expected a sequence"),
        ("filters", json!({"created_after": "soon"}), "\"soon\""),
        ("filters", json!({"dm_conversation_ids": ["dm_x"]}), "include_dms"),
        ("filters", json!({"event_types": vec!["x"; 257]}), "257"),
        ("expires_at", json!("2000-01-01T00:00:00Z"), "later than now"),
        ("expires_at", json!("tomorrow"), "\"tomorrow\""),
        ("description", json!("x".repeat(1_025)), "1024"),
        ("token", json!("ot_live_mine"), "token"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let made = world.post("/v1/observer-tokens", &world.key, &body);
        refused(&made, 400, "invalid_request", words);
    }
    assert_eq!(world.seen("/v1/observer-tokens", &world.key), json!([]));
    let by_agent = world.post("/v1/observer-tokens", &world.alice, &good);
    refused(&by_agent, 403, "workspace_key_required", "rk_live_");
    for bad in ["", "ot_live_0", &world.alice] {
        let (status, body) =
            upgrade_at(&world, &format!("/v1/ws?token={bad}")).expect_err("it is no observer's");
        assert!(status == 401 && !body.contains("live_0"), "{status} {body}");
    }
    refused(
        &world.get("/v1/workspace/events", &world.alice),
        401,
        "observer_token_required",
        "ot_live_",
    );
    // It looks on, and does nothing else.
    let made = world.observer_token(json!({}));
    let token = text(&made["token"]);
    for path in ["/v1/dm", "/v1/agents", "/v1/channels", "/v1/observer-tokens"] {
        refused(
            &world.post(path, token, &json!({})),
            401,
            "observer_token_forbidden",
            "GET /v1/ws",
        );
    }
    for path in ["/v1/inbox", "/v1/agents", "/v1/channels", "/v1/deliveries"] {
        refused(
            &world.get(path, token),
            401,
            "observer_token_forbidden",
            "GET /v1/ws",
        );
    }
    let (status, body) =
        upgrade_at(&world, &format!("/v1/node/ws?token={token}")).expect_err("it is no node's");
    assert_eq!(status, 401, "{body}");
    for number in 0..255 {
        world.observer_token(json!({"name": format!("n{number}")}));
    }
    let one_more = json!({"name": "more", "scopes": ["stream:read"]});
    let full = world.post("/v1/observer-tokens", &world.key, &one_more);
    refused(&full, 503, "too_many_observer_tokens", "256");
    let path = format!("/v1/observer-tokens/{}", text(&made["id"]));
    assert_eq!(world.change("DELETE", &path, &json!({})).status, 204);
    world.done("/v1/observer-tokens", &world.key, &one_more);
    refused(
        &world.get(&path, &world.key),
        404,
        "observer_token_not_found",
        "obs_1",
    );
}

#[test]
fn a_slow_observer_is_told_so_and_slows_nobody() {
    let world = World::new();
    let mut slow = Observer::open(&world, &world.key, "");
    let mut other = Observer::open(&world, &world.key, "");
    let long = "x".repeat(512 * 1024);
    for _ in 0..48 {
        world.write(&long);
        assert_eq!(other.types(2), A_DELIVERY[..2]);
    }
    let mut last = 0;
    let reason = loop {
        match slow.next() {
            Ok(event) => last = event["seq"].as_u64().expect("a number"),
            Err(reason) => break reason,
        }
    };
    assert!(reason.starts_with("too slow"), "{reason}");
    let mut again = Observer::open(&world, &world.key, &format!("&since={last}"));
    assert_eq!(again.types(1), ["events.missed"]);
    assert!(again.event()["seq"].as_u64() > Some(last + 1));
    let listed = world.events(&format!("?since={last}"), &world.key);
    assert_eq!(listed["missed"], true);
}

#[test]
fn what_an_observer_says_changes_nothing() {
    let world = World::new();
    let mut observer = Observer::open(&world, &world.key, "");
    for said in [
        "nothing",
        "[]",
        "{}",
        r#"{"type": "delivery.ack", "agent": "bob", "up_to_seq": 9}"#,
    ] {
        observer.0.send(Message::text(said)).expect("it is taken");
    }
    observer
        .0
        .send(Message::text(r#"{"type": "ping"}"#))
        .expect("it is taken");
    assert_eq!(observer.event(), json!({"type": "pong"}));
    world.write("hi");
    assert_eq!(observer.types(2), A_DELIVERY[..2]);
    let mut other = Observer::open(&world, &world.key, "");
    let _ended = other.0.send(Message::text("x".repeat(10 * 1024 * 1024)));
    let ended = std::iter::repeat_with(|| other.0.read()).find(Result::is_err);
    assert!(ended.is_some());
    world.write("again");
    assert_eq!(observer.types(2), A_DELIVERY[..2]);
    let plain = world.get(&format!("/v1/ws?token={}", world.key), &world.key);
    refused(&plain, 400, "not_a_websocket", "");
}

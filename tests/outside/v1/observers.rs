//! Observers: the stream of a workspace's events, what is listed of them, and the tokens that open both.

use std::net::TcpStream;

use tungstenite::{Message, WebSocket};

use super::node::{Node, upgrade_at};
use super::*;

/// The connection of an observer.
pub struct Observer(pub WebSocket<TcpStream>);

impl Observer {
    #[track_caller]
    pub fn open(world: &World, token: &str, more: &str) -> Self {
        let path = format!("/v1/ws?token={token}&origin_client=test{more}");
        Self(upgrade_at(world, &path).expect("it is let in"))
    }

    /// Returns the next event, or why the relay has ended the stream.
    pub fn next(&mut self) -> Result<Value, String> {
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
    pub fn event(&mut self) -> Value {
        self.next().expect("an event")
    }

    /// Returns the types of the next events.
    #[track_caller]
    pub fn types(&mut self, count: usize) -> Vec<String> {
        let kind = |event: Value| event["type"].as_str().expect("a type").to_owned();
        (0..count).map(|_| kind(self.event())).collect()
    }

    /// Waits until what has happened before was shown or not: relay looks at it between two messages that it answers.
    #[track_caller]
    pub fn has_caught_up(&mut self) {
        for _ in 0..2 {
            let ping = Message::text(r#"{"type": "ping"}"#);
            self.0.send(ping).expect("it is taken");
            assert_eq!(self.event(), json!({"type": "pong"}));
        }
    }

    #[track_caller]
    pub fn ended(&mut self) -> String {
        loop {
            if let Err(reason) = self.next() {
                return reason;
            }
        }
    }
}

impl World {
    #[track_caller]
    pub fn observer_token(&self, more: Value) -> Value {
        let mut body = json!({"name": "o", "scopes": ["stream:read"]});
        for (field, value) in more.as_object().expect("an object") {
            body[field] = value.clone();
        }
        self.done("/v1/observer-tokens", &self.key, &body)
    }

    pub fn change(&self, method: &str, path: &str, body: &Value) -> Response {
        let request = Request::post(path, body.to_string()).by(method);
        self.relay.connect().exchange(&with(request, &self.key))
    }

    pub fn events(&self, query: &str, token: &str) -> Value {
        self.seen(&format!("/v1/workspace/events{query}"), token)
    }

    pub fn latest(&self) -> u64 {
        let events = self.events("", &self.key);
        events["latest_seq"].as_u64().expect("a number")
    }

    /// Has alice write to bob.
    pub fn write(&self, text: &str) -> String {
        let sent = self.done("/v1/dm", &self.alice, &json!({"to": "bob", "text": text}));
        sent["message"]["id"].as_str().expect("an id").to_owned()
    }
}

pub fn text(value: &Value) -> &str {
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

#[test]
fn whoever_is_listed_nothing_goes_on_all_the_same() {
    let world = World::new();
    let empty = world.events("", &world.key);
    assert_eq!((&empty["events"], &empty["missed"]), (&json!([]), &json!(false)));
    let next = empty["next_since"].as_u64().expect("a number");
    assert!(next > 0 && empty["next_since"] == empty["latest_seq"], "{empty}");
    // What was asked for is of another life of relay; that is said once.
    let old = world.events(&format!("?since={}", next - 1_000_000), &world.key);
    assert_eq!((&old["missed"], &old["next_since"]), (&json!(true), &json!(next)));
    let page = world.events(&format!("?since={next}"), &world.key);
    assert_eq!(
        (&page["missed"], &page["next_since"]),
        (&json!(false), &json!(next))
    );
    let path = format!("&since={}", next - 1_000_000);
    let missed = Observer::open(&world, &world.key, &path).event();
    assert_eq!(
        (&missed["type"], &missed["seq"]),
        (&json!("events.missed"), &json!(next))
    );
    world.write("one");
    let page = world.events(&format!("?since={next}"), &world.key);
    assert_eq!(
        (&page["missed"], &page["events"][0]["payload"]["message"]["text"]),
        (&json!(false), &json!("one"))
    );
}

#[test]
fn what_is_about_a_channel_is_told_in_the_workspace_of_the_channel() {
    let world = World::new();
    world.done("/v1/agents", &world.other_key, &json!({"name": "zoe"}));
    let (mut own, mut other) = (
        Observer::open(&world, &world.key, ""),
        Observer::open(&world, &world.other_key, ""),
    );
    // The person is in no workspace, and nobody is in the channel.
    let asked = json!({"from": "user", "to": "web:#review", "body": "anybody?"}).to_string();
    assert_eq!(
        world
            .relay
            .connect()
            .exchange(&Request::post("/api/send", asked))
            .status,
        200
    );
    let said = own.event();
    assert_eq!(
        (&said["type"], &said["message"]["text"]),
        (&json!("message.created"), &json!("anybody?"))
    );
    // Somebody of one workspace writes in a channel of another.
    let asked = json!({"from": "web:alice", "to": "app:#ops", "body": "hello"}).to_string();
    assert_eq!(
        world
            .relay
            .connect()
            .exchange(&Request::post("/api/send", asked))
            .status,
        200
    );
    let types = |observer: &mut Observer| {
        let mut types = observer.types(2);
        types.sort();
        types
    };
    for observer in [&mut own, &mut other] {
        assert_eq!(types(observer), ["member.joined", "message.created"]);
    }
}

#[test]
fn that_an_agent_asks_for_what_it_was_handed_again_is_told_with_the_message_it_has_seen() {
    let world = World::new();
    let mut observer = Observer(upgrade_at(&world, "/api/tail").expect("it is let in"));
    let mut session = world.relay.session(crate::support::session::Way::Http);
    let ids = ["m1", "m2"].map(|body| session.post("pm", "dev-a", body));
    session.read("dev-a");
    session.call("read_messages", &json!({"for": "dev-a", "after": ids[0]}));
    session.post("pm", "dev-a", "the end");
    let events = std::iter::repeat_with(|| observer.event());
    let events = events.take_while(|event| event["message"]["text"] != "the end");
    let asked: Vec<Value> = events
        .filter(|event| event["type"] == "delivery.asked_again")
        .collect();
    let [told] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (&told["message_id"], &told["after"]),
        (&json!(ids[1]), &json!(ids[0])),
        "{told}"
    );
}

#[test]
fn what_is_said_about_a_message_is_told_where_it_was_sent_and_where_it_came() {
    let world = World::new();
    let made = world.done("/v1/agents", &world.other_key, &json!({"name": "eve"}));
    let eve = text(&made["token"]).to_owned();
    // Events are kept once somebody looks on.
    world.latest();
    let sent = world.done("/v1/dm", &world.alice, &json!({"to": "app:eve", "text": "look"}));
    let path = format!("/v1/messages/{}", text(&sent["message"]["id"]));
    world.done(&format!("{path}/reactions"), &eve, &json!({"emoji": "👀"}));
    world.done(&format!("{path}/read"), &eve, &json!({}));
    for key in [&world.key, &world.other_key] {
        let listed = world.events("", key);
        let rows = listed["events"].as_array().expect("a list").iter();
        let types = rows.map(|row| text(&row["type"]));
        let about: Vec<&str> = types.filter(|kind| kind.starts_with("message.")).collect();
        assert_eq!(about, ["message.reacted", "message.read"], "{listed}");
    }
}

//! Pushes to web hooks: each ack mode, each way to say who it is, what is tried again, given up, and sent again.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::node::added;
use super::*;

/// How long a push may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

const SILENCE: Duration = Duration::from_millis(300);

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// What a web hook was sent.
pub struct Pushed {
    headers: String,
    pub json: Value,
}

impl Pushed {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines();
        lines.find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn text(&self) -> &str {
        self.json["data"]["text"].as_str().expect("a text")
    }
}

/// A web hook, which answers as it was told, and well once nothing more was said.
pub struct Hook {
    pub port: u16,
    pushed: Receiver<Pushed>,
    pub answers: Arc<Mutex<VecDeque<String>>>,
}

impl Hook {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, pushed) = channel();
        let answers = Arc::new(Mutex::new(VecDeque::new()));
        let told: Arc<Mutex<VecDeque<String>>> = Arc::clone(&answers);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.expect("a connection");
                let pushed = read(&mut socket);
                let answer = told.lock().expect("no panic").pop_front();
                let _gone = socket.write_all(answer.as_deref().unwrap_or(OK).as_bytes());
                if sender.send(pushed).is_err() {
                    return;
                }
            }
        });
        Self {
            port,
            pushed,
            answers,
        }
    }

    pub fn answers(&self, answer: &str) {
        self.answers
            .lock()
            .expect("no panic")
            .push_back(answer.to_owned());
    }

    #[track_caller]
    pub fn next(&self) -> Pushed {
        self.pushed.recv_timeout(PATIENCE).expect("something is pushed")
    }

    #[track_caller]
    pub fn gets_nothing(&self) {
        let next = self.pushed.recv_timeout(SILENCE);
        assert!(next.is_err(), "{:?}", next.map(|pushed| pushed.json));
    }
}

fn read(socket: &mut TcpStream) -> Pushed {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).expect("a head");
        bytes.push(byte[0]);
    }
    let headers = String::from_utf8(bytes).expect("text");
    let mut pushed = Pushed {
        headers,
        json: Value::Null,
    };
    let length = pushed
        .header("content-length")
        .expect("a length")
        .parse()
        .expect("a number");
    let mut body = vec![0; length];
    socket.read_exact(&mut body).expect("a body");
    pushed.json = serde_json::from_slice(&body).expect("JSON");
    pushed
}

impl World {
    /// Has bob's deliveries pushed to a web hook.
    pub fn pushes(&self, hook: &Hook, more: &Value) -> Value {
        let made = self.push_node(hook, more);
        self.done("/v1/nodes/hook/agents", &self.key, &json!({"agent_name": "bob"}));
        // What is told once goes to a node that is there alone.
        let end = std::time::Instant::now() + PATIENCE;
        while self.seen("/v1/nodes/hook", &self.key)["live"] != true {
            assert!(std::time::Instant::now() < end, "it is not served");
        }
        made
    }

    fn push_node(&self, hook: &Hook, more: &Value) -> Value {
        let mut delivery = json!({"url": format!("http://127.0.0.1:{}/hook", hook.port)});
        for (field, value) in more.as_object().expect("an object") {
            delivery[field] = value.clone();
        }
        let asked = json!({"name": "hook", "kind": "http_push", "delivery": delivery});
        self.done("/v1/nodes", &self.key, &asked)
    }

    pub fn says(&self, text: &str) -> String {
        let sent = self.done("/v1/dm", &self.alice, &json!({"to": "bob", "text": text}));
        sent["message"]["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until the trace of a message has a step, and returns the steps.
    pub fn traced(&self, id: &str, wanted: &str) -> Vec<String> {
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let traced = self.seen(&format!("/v1/messages/{id}/trace"), &self.alice);
            let steps = traced["steps"].as_array().expect("a list").iter();
            let steps: Vec<String> = steps
                .map(|step| step["step"].as_str().expect("a step").to_owned())
                .collect();
            if steps.iter().any(|step| step == wanted) {
                return steps;
            }
            assert!(std::time::Instant::now() < end, "{steps:?} has no {wanted}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn rows(&self) -> Vec<(String, String)> {
        let listed = self.seen("/v1/deliveries", &self.bob);
        let rows = listed.as_array().expect("a list").iter();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        rows.map(|row| (text(&row["message"]["text"]), text(&row["status"])))
            .collect()
    }
}

#[test]
fn a_message_is_posted_to_the_web_hook_and_an_answer_that_is_good_says_that_it_has_arrived() {
    let (world, hook) = (World::new(), Hook::start());
    let made = world.pushes(&hook, &json!({"ack_mode": "on_2xx"}));
    let url = format!("http://127.0.0.1:{}/[redacted]", hook.port);
    let shown = json!({"url": url, "ack_mode": "on_2xx", "auth": {"type": "none"}});
    assert_eq!(
        (
            &made["kind"],
            &made["role"],
            &made["delivery"],
            &made["token"],
            &made["max_agents"]
        ),
        (
            &json!("http_push"),
            &json!("direct"),
            &shown,
            &Value::Null,
            &json!(1)
        )
    );
    let id = world.says("hello");
    let pushed = hook.next();
    assert!(
        pushed.headers.starts_with("POST /hook HTTP/1.1\r\n"),
        "{}",
        pushed.headers
    );
    let delivery = format!("del_{id}_agt_web:bob");
    assert_eq!(pushed.header("x-relaycast-event"), Some("dm.received"));
    assert_eq!(pushed.header("x-relaycast-delivery"), Some(delivery.as_str()));
    assert_eq!(pushed.header("content-type"), Some("application/json"));
    assert_eq!(
        pushed.header("host"),
        Some(format!("127.0.0.1:{}", hook.port).as_str())
    );
    let mut json = pushed.json;
    assert_eq!(json["data"]["text"], "hello");
    assert!(json["timestamp"].is_string());
    for varies in ["data", "timestamp"] {
        json[varies].take();
    }
    let expected = json!({
        "type": "dm.received", "workspace_id": "ws_web", "delivery_id": delivery, "message_id": id, "agent_id": "agt_web:bob",
        "agent_name": "bob", "seq": 1, "mode": "wait", "timestamp": null, "data": null,
    });
    assert_eq!(json, expected);
    assert_eq!(world.traced(&id, "read"), ["queued", "handed_over", "read"]);
    // Nobody else reads what is pushed.
    assert_eq!(world.bodies("web:bob"), Vec::<String>::new());
    let own = world.post("/v1/agent/node-token", &world.bob, &json!({}));
    refused(&own, 409, "agent_bound_to_node", "hook");
}

#[test]
fn by_hand_a_receipt_of_the_agent_s_says_that_it_has_arrived() {
    let (world, hook) = (World::new(), Hook::start());
    world.pushes(&hook, &json!({}));
    let [one, two] = [world.says("one"), world.says("two")];
    assert_eq!(
        [hook.next(), hook.next()].map(|pushed| pushed.text().to_owned()),
        ["one", "two"]
    );
    world.traced(&one, "receipt_awaited");
    world.traced(&two, "receipt_awaited");
    let acked = world.done(
        &format!("/v1/deliveries/del_{one}_agt_web:bob/ack"),
        &world.bob,
        &json!({}),
    );
    assert_eq!(acked["status"], "acked");
    assert_eq!(
        world.traced(&one, "delivered")[2..],
        ["read", "receipt_awaited", "receipted", "delivered"]
    );
    assert_eq!(world.rows(), [("two".to_owned(), "delivered".to_owned())]);
    hook.gets_nothing();
}

#[test]
fn in_the_mode_response_the_answer_has_to_say_so() {
    let (world, hook) = (World::new(), Hook::start());
    let says = |kind: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    hook.answers(&says("text/plain", r#"{"ack": true}"#));
    hook.answers(&says("application/json", r#"{"ack": false}"#));
    hook.answers(&says(
        "application/json; charset=utf-8",
        r#"{"delivery_status": "acked"}"#,
    ));
    hook.answers(&says("application/json", r#"{"ack": true, "more": 1}"#));
    world.pushes(&hook, &json!({"ack_mode": "response"}));
    let [one, two] = [world.says("one"), world.says("two")];
    let pushed: Vec<Pushed> = (0..4).map(|_| hook.next()).collect();
    let texts: Vec<&str> = pushed.iter().map(Pushed::text).collect();
    assert_eq!(
        texts,
        ["one", "one", "one", "two"],
        "in order, and what is not taken again"
    );
    let seqs: Vec<&Value> = pushed.iter().map(|pushed| &pushed.json["seq"]).collect();
    assert_eq!(seqs, [1, 1, 1, 2]);
    let again: Vec<bool> = pushed
        .iter()
        .map(|pushed| added(&pushed.json["data"])["redelivered"] == true)
        .collect();
    assert_eq!(again, [false, true, true, false]);
    let steps = world.traced(&one, "read");
    let once = ["push_failed", "undone", "handed_over"];
    assert_eq!(
        steps,
        [&["queued", "handed_over"][..], &once, &once, &["read"]].concat()
    );
    world.traced(&two, "read");
}

#[test]
fn what_is_not_taken_is_said_to_senders_and_to_whoever_asks_and_goes_out_again() {
    let (world, hook) = (World::new(), Hook::start());
    for answer in [
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/secret\r\nContent-Length: 0\r\n\r\n",
        "",
    ] {
        hook.answers(answer);
    }
    world.pushes(
        &hook,
        &json!({"ack_mode": "on_2xx", "auth": {"type": "bearer", "token": "hush"}}),
    );
    let id = world.says("one");
    assert_eq!(hook.next().header("authorization"), Some("Bearer hush"));
    world.traced(&id, "push_failed");
    let warned = world.post(
        "/api/send",
        "",
        &json!({"from": "pm", "to": "web:bob", "body": "two"}),
    );
    let note = warned.json()["note"].as_str().expect("a note").to_owned();
    assert!(
        note.contains("what is pushed to web:bob has not been taken since") && note.contains("HTTP 503"),
        "{note}"
    );
    let agents = world.seen("/v1/nodes/hook/agents", &world.key);
    assert_eq!(
        (&agents[0]["last_dispatch_error"], &agents[0]["dispatch_attempts"]),
        (&json!("HTTP 503"), &json!(1))
    );
    assert!(agents[0]["next_attempt_at"].is_string());
    let texts: Vec<String> = (0..4).map(|_| hook.next().text().to_owned()).collect();
    assert_eq!(texts, ["one", "one", "one", "two"], "nothing overtakes it");
    world.traced(&id, "read");
    let traced = world.seen(&format!("/v1/messages/{id}/trace"), &world.alice);
    let why = traced["steps"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|step| step["reason"].as_str());
    let why: Vec<&str> = why.collect();
    assert_eq!(why[..2], ["HTTP 503", "HTTP 302: relay follows no redirects"]);
    assert!(
        why[2].starts_with("no answer") || why[2].contains("ended"),
        "{why:?}"
    );
    for path in ["/v1/nodes", "/v1/nodes/hook", "/v1/nodes/hook/agents"] {
        assert!(!world.get(path, &world.key).json().to_string().contains("hush"));
    }
    assert_eq!(
        world.seen("/v1/nodes/hook/agents", &world.key)[0]["failing_since"],
        Value::Null
    );
}

#[test]
fn a_new_target_takes_what_the_one_before_did_not() {
    let (world, gone, hook) = (World::new(), Hook::start(), Hook::start());
    gone.answers("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    world.pushes(&gone, &json!({"ack_mode": "on_2xx"}));
    let id = world.says("one");
    world.traced(&id, "push_failed");
    // It is made again, elsewhere; or it is unbound, and a tool reads what is left.
    world.push_node(&hook, &json!({"ack_mode": "on_2xx"}));
    assert_eq!(hook.next().text(), "one");
    world.traced(&id, "read");
    hook.answers("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    let second = world.says("two");
    world.traced(&second, "push_failed");
    let unbound = with(Request::new("DELETE", "/v1/nodes/hook/agents/bob"), &world.key);
    assert_eq!(world.relay.connect().exchange(&unbound).status, 204);
    assert_eq!(world.bodies("web:bob"), ["two"]);
    assert_eq!(hook.next().text(), "two", "it was pushed once before");
    hook.gets_nothing();
}

#[test]
fn reactions_and_what_an_agent_is_asked_are_posted_once_and_are_no_deliveries() {
    let (world, hook) = (World::new(), Hook::start());
    world.pushes(&hook, &json!({"ack_mode": "on_2xx"}));
    let id = world.says("one");
    hook.next();
    world.traced(&id, "read");
    let sent = world.done("/v1/dm", &world.bob, &json!({"to": "alice", "text": "mine"}));
    let own = sent["message"]["id"].as_str().expect("an id");
    world.done(
        &format!("/v1/messages/{own}/reactions"),
        &world.alice,
        &json!({"emoji": "👍"}),
    );
    let reacted = hook.next();
    assert_eq!(reacted.header("x-relaycast-event"), Some("message.reacted"));
    assert_eq!(reacted.header("x-relaycast-delivery"), None);
    assert_eq!(
        (&reacted.json["data"]["emoji"], &reacted.json["seq"]),
        (&json!("👍"), &Value::Null)
    );
    world.done(
        "/v1/actions",
        &world.key,
        &json!({"name": "sum", "handler_agent": "bob"}),
    );
    hook.answers("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    let asked = world.done("/v1/actions/sum/invoke", &world.alice, &json!({"input": 7}));
    let pushed = hook.next();
    assert_eq!(
        (&pushed.json["type"], &pushed.json["data"]["input"]),
        (&json!("action.invoked"), &json!(7))
    );
    let path = format!(
        "/v1/actions/sum/invocations/{}",
        asked["invocation_id"].as_str().expect("an id")
    );
    let end = std::time::Instant::now() + PATIENCE;
    let error = loop {
        let shown = world.seen(&path, &world.alice);
        if let Some(error) = shown["error"].as_str() {
            break error.to_owned();
        }
        assert!(std::time::Instant::now() < end, "{shown}");
    };
    assert!(error.ends_with("did not take it: HTTP 500"), "{error}");
    hook.gets_nothing();
}

#[test]
fn what_is_no_delivery_has_an_id_that_is_signed_as_well_as_any() {
    let (world, hook) = (World::new(), Hook::start());
    let auth = json!({"type": "hmac_sha256", "secret": "aHVzaA==", "signature_scheme": "standard-webhooks"});
    world.pushes(&hook, &json!({"ack_mode": "on_2xx", "auth": auth}));
    let sent = world.done("/v1/dm", &world.bob, &json!({"to": "alice", "text": "mine"}));
    let own = sent["message"]["id"].as_str().expect("an id");
    world.done(
        &format!("/v1/messages/{own}/reactions"),
        &world.alice,
        &json!({"emoji": "👍"}),
    );
    let reacted = hook.next();
    assert_eq!(reacted.json["data"]["emoji"], "👍");
    let id = reacted.header("webhook-id").expect("an id");
    let begins = format!("evt_message.reacted_{own}_agt_web:alice_%F0%9F%91%8D_");
    assert!(id.starts_with(&begins), "{id}");
    for signed in ["webhook-timestamp", "webhook-signature"] {
        assert!(reacted.header(signed).is_some(), "{signed}: {}", reacted.headers);
    }
}

#[test]
fn what_is_wrong_about_a_push_node_is_named() {
    let (world, hook) = (World::new(), Hook::start());
    let bad = |body: &Value, status: u16, code: &str, words: &str| {
        refused(&world.post("/v1/nodes", &world.key, body), status, code, words);
    };
    let delivery = json!({"url": "http://10.0.0.1/x"});
    bad(
        &json!({"name": "x", "kind": "http_push", "delivery": delivery}),
        400,
        "invalid_node_delivery",
        "--push-allow",
    );
    bad(
        &json!({"name": "x", "kind": "http_push"}),
        400,
        "invalid_request",
        "\"delivery\"",
    );
    bad(
        &json!({"name": "x", "delivery": delivery}),
        400,
        "invalid_request",
        "\"delivery\"",
    );
    bad(
        &json!({"name": "x", "kind": "poll"}),
        501,
        "not_supported",
        "poll",
    );
    bad(
        &json!({"name": "x", "kind": "pigeon"}),
        400,
        "invalid_request",
        "\"pigeon\"",
    );
    let local = json!({"url": "http://127.0.0.1:1/"});
    bad(
        &json!({"name": "x", "kind": "http_push", "delivery": local, "role": "broker"}),
        400,
        "invalid_request",
        "\"broker\"",
    );
    world.push_node(&hook, &json!({}));
    bad(
        &json!({"name": "hook"}),
        409,
        "node_name_conflict",
        "to which relay pushes",
    );
    world.fleet(json!({}));
    bad(
        &json!({"name": "fleet", "kind": "http_push", "delivery": local}),
        409,
        "node_name_conflict",
        "connects by itself",
    );
}

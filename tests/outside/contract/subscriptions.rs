//! Resources that a client has subscribed to.

use super::*;

const INBOX: &str = "relay://inbox";
const AGENTS: &str = "relay://agents";
const PROJECT: &str = "relay://project";

/// An agent with the tools of Agent Relay.
fn agent(relay: &Relay, way: Way, name: &str) -> Session {
    Session::open(relay.port, way, Some(&format!("{name}&tools=agent-relay")))
}

fn updated(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
}

fn subscribe(session: &mut Session, uri: &str) {
    let answer = session.ask("resources/subscribe", json!({"uri": uri}));
    assert_eq!(answer["result"], json!({}), "{answer}");
}

fn unsubscribe(session: &mut Session, uri: &str) {
    let answer = session.ask("resources/unsubscribe", json!({"uri": uri}));
    assert_eq!(answer["result"], json!({}), "{answer}");
}

fn refusal(session: &mut Session, method: &str, uri: &str) -> (Value, String) {
    let answer = session.ask(method, json!({"uri": uri}));
    let error = &answer["error"];
    let message = error["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (error["code"].clone(), message.to_owned())
}

#[test]
fn a_change_of_an_inbox_is_told_in_the_stream_of_whoever_has_subscribed_to_it() {
    let relay = Relay::start();
    let mut alice = agent(&relay, Way::Sse, "Alice");
    let mut bob = agent(&relay, Way::Http, "Bob");
    subscribe(&mut alice, INBOX);
    let sent = bob.call("relay_send", &json!({"to": "Alice", "message": "hi"}));
    assert_eq!(sent, Reply::of("Message sent to Alice"));
    assert_eq!(alice.heard(), updated(INBOX));
    let read = alice.ask("resources/read", json!({"uri": INBOX}));
    let text = read["result"]["contents"][0]["text"].as_str().expect("a text");
    assert!(text.contains("\"hi\""), "{read}");
    // What it takes itself is a change too.
    let taken = alice.call("relay_inbox", &json!({}));
    assert!(taken.texts[0].contains("From Bob:\nhi"), "{taken:?}");
    assert_eq!(alice.heard(), updated(INBOX));
    bob.call("relay_send", &json!({"to": "Bob", "message": "not hers"}));
    alice.hears_nothing(QUIET);
    unsubscribe(&mut alice, INBOX);
    unsubscribe(&mut alice, INBOX);
    bob.call("relay_send", &json!({"to": "Alice", "message": "hi"}));
    alice.hears_nothing(QUIET);
}

#[test]
fn who_comes_is_told_of_and_what_never_changes_may_be_subscribed_to_as_well() {
    let relay = Relay::start();
    let mut alice = agent(&relay, Way::Sse, "Alice");
    subscribe(&mut alice, PROJECT);
    subscribe(&mut alice, AGENTS);
    let mut bob = agent(&relay, Way::Http, "Bob");
    bob.call("relay_status", &json!({}));
    assert_eq!(alice.heard(), updated(AGENTS));
    bob.call("relay_send", &json!({"to": "Alice", "message": "hi"}));
    alice.hears_nothing(QUIET);
}

#[test]
fn a_subscription_ends_with_its_stream() {
    let relay = Relay::start();
    let mut alice = agent(&relay, Way::Sse, "Alice");
    subscribe(&mut alice, INBOX);
    let request = Request::get("/sse?agent=Alice&tools=agent-relay").with("Last-Event-ID", alice.id());
    let mut stream = EventStream::open(relay.connect(), &request);
    assert_eq!(stream.event().data.as_deref(), Some(alice.target.as_str()));
    let mut bob = agent(&relay, Way::Http, "Bob");
    bob.call("relay_send", &json!({"to": "Alice", "message": "hi"}));
    assert_eq!(stream.next(QUIET), Seen::Nothing);
}

#[test]
fn subscriptions_are_advertised_where_they_can_be_told_of() {
    let relay = Relay::start();
    let client = json!({"name": "tests", "version": "1.0.0"});
    let shake_hands = |session: &mut Session, version: &str| {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = session.ask("initialize", params);
        answer["result"]["capabilities"]["resources"].clone()
    };
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut over_sse = agent(&relay, Way::Sse, "Alice");
        let told = json!({"subscribe": true});
        assert_eq!(shake_hands(&mut over_sse, version), told, "{version}");
        let mut over_http = agent(&relay, Way::Http, "Alice");
        assert_eq!(shake_hands(&mut over_http, version), json!({}), "{version}");
        let mut of_lift = relay.session(Way::Sse);
        assert_eq!(shake_hands(&mut of_lift, version), Value::Null, "{version}");
    }
    for (way, told) in [
        (Way::Modern, json!({"subscribe": true})),
        (Way::ModernSse, json!({})),
    ] {
        let discovered = agent(&relay, way, "Alice").ask("server/discover", json!({}));
        assert_eq!(discovered["result"]["capabilities"]["resources"], told, "{way:?}");
    }
}

#[test]
fn the_methods_of_subscribers_are_named_where_they_can_be_told() {
    let relay = Relay::start();
    for (way, expected) in [
        (
            Way::Sse,
            "resources/read, resources/subscribe, resources/unsubscribe",
        ),
        (Way::Http, "resources/read"),
        (Way::Modern, "resources/read, subscriptions/listen"),
        (Way::ModernSse, "resources/read"),
    ] {
        let mut session = agent(&relay, way, "Alice");
        let answer = if way == Way::Modern {
            // Over HTTP that version says so by the status, too.
            let request = session.request_of(1, "no/such", json!({}));
            relay.connect().exchange(&request).json()
        } else {
            session.ask("no/such", json!({}))
        };
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(expected), "{way:?}: {answer}");
    }
}

#[test]
fn what_cannot_be_subscribed_to_is_refused_with_what_can() {
    let relay = Relay::start();
    let mut alice = agent(&relay, Way::Sse, "Alice");
    let unknown =
        "unknown resource \"relay://other\"; known resources: relay://agents, relay://inbox, relay://project";
    let mut nobody = Session::open(relay.port, Way::Sse, None);
    let mut over_http = agent(&relay, Way::Http, "Alice");
    let no_stream = "this connection carries nothing but the answers to requests, so its client cannot be told of changes; accepted: resources/subscribe over stdio (relay mcp) and HTTP+SSE (/sse), and subscriptions/listen of 2026-07-28";
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let refused = |session: &mut Session, uri| refusal(session, method, uri);
        assert_eq!(
            refused(&mut alice, "relay://other"),
            (json!(-32002), unknown.into())
        );
        assert_eq!(refused(&mut over_http, INBOX), (json!(-32601), no_stream.into()));
        let unknown_method = format!(
            "unknown method {method:?}; known methods: initialize, ping, tools/list, tools/call, server/discover"
        );
        assert_eq!(refused(&mut nobody, INBOX), (json!(-32601), unknown_method));
    }
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": INBOX}});
    let in_the_words_of_the_resource = |target: &str| {
        let mut stream = EventStream::open(relay.connect(), &Request::get(target));
        let target = stream.event().data.expect("an address");
        let posted = relay
            .connect()
            .exchange(&Request::post(&target, message.to_string()));
        assert_eq!(posted.status, 202);
        let answer = stream.event().data.expect("an answer");
        let words = "this session is nobody's: name its agent where it is opened";
        assert!(answer.contains(words), "{answer}");
        assert!(!answer.contains("Connection error"), "{answer}");
    };
    in_the_words_of_the_resource("/sse?tools=lift,agent-relay");
}

#[test]
fn an_inbox_shows_its_first_fifty_messages_and_which_of_them_come_again() {
    let relay = Relay::start();
    let mut alice = agent(&relay, Way::Sse, "Alice");
    let mut bob = agent(&relay, Way::Http, "Bob");
    for n in 0..51 {
        bob.call("relay_send", &json!({"to": "Alice", "message": n.to_string()}));
    }
    let shown = |alice: &mut Session| -> Vec<Value> {
        let read = alice.ask("resources/read", json!({"uri": INBOX}));
        let text = read["result"]["contents"][0]["text"].as_str().expect("a text");
        serde_json::from_str(text).expect("JSON")
    };
    let marked = |messages: &[Value]| -> Vec<(String, Value)> {
        let marked = |message: &Value| {
            let content = message["content"].as_str().expect("a text").to_owned();
            (content, message["redelivered"].clone())
        };
        messages.iter().map(marked).collect()
    };
    let fifty: Vec<(String, Value)> = (0..50).map(|n| (n.to_string(), Value::Null)).collect();
    assert_eq!(marked(&shown(&mut alice)), fifty);
    alice.call("relay_inbox", &json!({"limit": 1}));
    drop(alice);
    let mut again = agent(&relay, Way::Http, "Alice");
    let mut first = Vec::new();
    crate::support::until("the message is back", || {
        first = marked(&shown(&mut again)[..2]);
        first[0].0 == "0"
    });
    assert_eq!(first, [("0".to_owned(), json!(true)), fifty[1].clone()]);
}

/// The request of a client that listens, in the version that has this instead of subscriptions.
fn listening(uris: &[&str], tools: &str) -> Request {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let notifications = json!({"resourceSubscriptions": uris, "toolsListChanged": true});
    let params = json!({"notifications": notifications, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params});
    Request::post(&format!("/mcp?{tools}"), message.to_string())
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "subscriptions/listen")
}

/// Waits for the next message, whose event has nothing but data.
fn message(stream: &mut EventStream) -> Value {
    loop {
        match stream.next(crate::support::PATIENCE) {
            Seen::Event(event) => match event.data {
                Some(data) => return serde_json::from_str(&data).expect("JSON"),
                None => assert!(event.comment.is_some(), "{event:?}"),
            },
            other @ (Seen::End | Seen::Cut | Seen::Nothing) => panic!("no message, but {other:?}"),
        }
    }
}

const ALICE: &str = "agent=Alice&tools=agent-relay";

#[test]
fn a_client_without_a_handshake_listens_and_is_told_what_it_asked_for_until_relay_stops() {
    let mut relay = Relay::start();
    let asked = [INBOX, "relay://other", PROJECT];
    let mut stream = EventStream::open(relay.connect(), &listening(&asked, ALICE));
    let id = json!({"io.modelcontextprotocol/subscriptionId": 7});
    let acknowledged = json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": {"resourceSubscriptions": [INBOX, PROJECT]}, "_meta": id},
    });
    assert_eq!(message(&mut stream), acknowledged);
    let mut bob = agent(&relay, Way::Modern, "Bob");
    for _ in 0..3 {
        bob.call("relay_send", &json!({"to": "Alice", "message": "hi"}));
        let mut told = updated(INBOX);
        told["params"]["_meta"] = id.clone();
        assert_eq!(message(&mut stream), told);
    }
    assert_eq!(stream.next(QUIET), Seen::Nothing);
    relay.signal("TERM");
    let last = message(&mut stream);
    assert_eq!(
        (&last["id"], &last["result"]["resultType"]),
        (&json!(7), &json!("complete"))
    );
    assert_eq!(stream.next(crate::support::PATIENCE), Seen::End);
    assert_eq!(relay.exit_status().code(), Some(0));
}

#[test]
fn a_listener_has_no_inbox_but_its_agent_s_and_no_resources_without_agent_relay() {
    let relay = Relay::start();
    // Nobody could write to a client that has no session: it is given no name.
    for tools in ["tools=lift,agent-relay", "tools=agent-relay"] {
        let mut nobody = EventStream::open(relay.connect(), &listening(&[AGENTS, INBOX], tools));
        let accepted = &message(&mut nobody)["params"]["notifications"]["resourceSubscriptions"];
        assert_eq!(*accepted, json!([AGENTS]), "{tools}");
    }
    let of_lift = relay.connect().exchange(&listening(&[INBOX], "agent=pm"));
    assert_eq!(
        (of_lift.status, of_lift.json()["error"]["code"].clone()),
        (404, json!(-32601))
    );
    let no_stream = listening(&[INBOX], ALICE).with("Accept", "application/json");
    let no_stream = relay.connect().exchange(&no_stream);
    assert_eq!(no_stream.status, 406);
    let reason =
        "subscriptions/listen is answered by a stream of events; accepted: text/event-stream in Accept";
    assert_eq!(no_stream.json()["error"]["message"], reason);
}

#[test]
fn the_resources_are_listed_with_what_each_of_them_is() {
    let relay = Relay::start();
    for way in [Way::Http, Way::Sse] {
        let mut alice = agent(&relay, way, "Alice");
        let listed = alice.ask("resources/list", json!({}));
        let resources = listed["result"]["resources"].as_array().expect("a list");
        let told: Vec<_> = resources
            .iter()
            .map(|resource| ["uri", "name", "mimeType"].map(|member| resource[member].as_str()))
            .collect();
        let json = Some("application/json");
        assert_eq!(
            told,
            [
                [Some(AGENTS), Some("Online Agents"), json],
                [Some(INBOX), Some("Message Inbox"), json],
                [Some(PROJECT), Some("Project Info"), json],
            ]
        );
    }
}

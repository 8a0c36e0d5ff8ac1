//! No reply is longer than its client shows its model, and what does not fit waits.

use super::*;

/// What is shown by clients of which nothing is known, in bytes.
const LEAST: usize = 9_000;

/// Reads for `dev-a` until nothing waits, and returns the bodies, those in parts put together; every reply is within a bound.
fn read_all(session: &mut Session, bytes_max: usize) -> (Vec<String>, usize) {
    let mut bodies = Vec::new();
    let mut replies = 0;
    let mut begun = String::new();
    loop {
        let reply = session.read("dev-a");
        let content: Vec<Value> = reply
            .texts
            .iter()
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        let bytes = json!(content).to_string().len();
        assert!(bytes <= bytes_max, "{bytes} bytes");
        let messages = reply.messages();
        if messages.is_empty() {
            return (bodies, replies);
        }
        replies += 1;
        for message in messages {
            assert_eq!(message["redelivered"], Value::Null, "{message}");
            begun.push_str(message["body"].as_str().expect("a body"));
            let is_last = match message["part"].as_str() {
                None => true,
                Some(part) => {
                    let (number, of) = part.split_once(" of ").expect("a part");
                    number == of
                }
            };
            if is_last {
                bodies.push(std::mem::take(&mut begun));
            }
        }
        let waiting = session.call("list_pending", &json!({"for": "dev-a"})).json()["count"].clone();
        let says_more = reply.texts[1..]
            .iter()
            .any(|text| text.contains("read_messages again"));
        assert_eq!(says_more, waiting != 0, "{waiting} wait: {:?}", &reply.texts[1..]);
    }
}

fn bodies(count: usize, length: usize) -> Vec<String> {
    let body = |number: usize| format!("{number} {}", "x".repeat(length));
    (0..count).map(body).collect()
}

#[test]
fn a_reply_has_as_much_as_is_shown_and_the_rest_waits() {
    over_each(&WAYS, |relay, way| {
        let mut session = Session::open_at(relay.port, way, "");
        for (sent, replies) in [
            (bodies(20, 10), 1),
            (bodies(26, 3_000), 13),
            (bodies(1, 40_000), 5),
            ([bodies(2, 20), bodies(1, 9_000), bodies(2, 30)].concat(), 4),
        ] {
            for body in &sent {
                session.post("pm", "dev-a", body);
            }
            assert_eq!(read_all(&mut session, LEAST), (sent, replies), "over {way:?}");
        }
    });
}

#[test]
fn a_part_that_is_lost_comes_again() {
    over_each(&WAYS, |relay, way| {
        let body = "ab".repeat(10_000);
        relay.session(way).post("pm", "dev-a", &body);
        let mut reader = Session::open_at(relay.port, way, "");
        let first = reader.read("dev-a").messages().remove(0);
        assert_eq!(first["part"], "1 of 3");
        reader.begin("read_messages", &json!({"for": "dev-a"}));
        if EXCHANGES.contains(&way) {
            reader.calls.await_unread_bytes();
        }
        drop(reader);
        relay.await_sessions(0);
        let mut next = Session::open_at(relay.port, way, "");
        let again = next.read("dev-a").messages().remove(0);
        assert_eq!(again["redelivered"], true, "{again}");
        let begun = if again["part"] == "1 of 3" {
            String::new()
        } else {
            text(&first)
        };
        let mut all = format!("{begun}{}", text(&again));
        while all.len() < body.len() {
            all.push_str(&text(&next.read("dev-a").messages()[0]));
        }
        assert!(all == body);
        assert_eq!(next.read("dev-a").bodies(), Vec::<String>::new());
    });
}

#[test]
fn whoever_is_taken_for_one_that_is_gone_is_told_which_parts_it_was_not_shown() {
    let relay = Relay::start_told();
    relay.session(Way::Http).post("pm", "dev-a", &"x".repeat(20_000));
    let read = |id: u64| {
        let call = json!({"name": "read_messages", "arguments": {"for": "dev-a"}});
        let asked = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
        let mut connection = relay.connect();
        let answer = connection.exchange(&Request::post("/mcp", asked.to_string()));
        drop(connection);
        relay.await_sessions(0);
        let content = answer.json()["result"]["content"].clone();
        let texts = content.as_array().expect("texts").iter();
        let texts: Vec<String> = texts
            .map(|text| text["text"].as_str().expect("a text").to_owned())
            .collect();
        texts[1..].join("\n")
    };
    let first = "this is part 1 of 3 of one message: call read_messages again for part 2, and act on it once you have all";
    assert_eq!([read(1), read(2)], [first, first]);
    assert_eq!(
        read(3),
        "this is part 2 of 3 of one message, whose first part went to a connection that has ended: \
         call read_messages again for part 3, and ask its sender to repeat what you lack"
    );
    relay.session(Way::Http).post("pm", "dev-a", "behind");
    assert_eq!(
        read(4),
        "this was the last part of one message, whose first 2 parts went to connections that have ended: \
         ask its sender to repeat what you lack; \
         1 more message waits: this reply has as many as your client shows whole; call read_messages again"
    );
}

fn text(message: &Value) -> String {
    message["body"].as_str().expect("a body").to_owned()
}

#[test]
fn how_much_is_shown_is_known_of_the_client_or_said_by_the_address() {
    let relay = Relay::start_told();
    let sent = bodies(12, 3_000);
    let replies = |mut session: Session, bytes_max: usize| {
        for body in &sent {
            session.post("pm", "dev-a", body);
        }
        let (read, replies) = read_all(&mut session, bytes_max);
        assert!(read == sent);
        replies
    };
    assert_eq!(
        replies(Session::open_at(relay.port, Way::Http, "?reply_kb=20"), 20_000),
        3
    );
    assert_eq!(
        replies(Session::open_at(relay.port, Way::Sse, "?reply_kb=20"), 20_000),
        3
    );
    for (name, count, bytes_max) in [
        ("claude-code", 1, 40_000),
        ("codex-mcp-client", 6, 9_000),
        ("somebody", 6, 9_000),
    ] {
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": name, "version": "1"},
        });
        let mut stream = Session::open_at(relay.port, Way::Sse, "");
        stream.ask("initialize", hello.clone());
        assert_eq!(replies(stream, bytes_max), count, "{name} over HTTP+SSE");
        let said = Session::open_at(relay.port, Way::Sse, "?reply_kb=9");
        assert_eq!(replies(said, 9_000), 6);
    }
    let refused = relay.connect().exchange(&Request::post("/mcp?reply_kb=1", "{}"));
    assert_eq!(refused.status, 400);
}

/// Over streamable HTTP nothing is kept of a handshake: the id of the session says which client it is, or each request does.
#[test]
fn a_client_is_known_by_its_handshake_or_by_each_request_over_each_transport() {
    let relay = Relay::start_told();
    let sent = bodies(12, 3_000);
    let client = json!({"name": "claude-code", "version": "1"});
    let mut sender = relay.session(Way::Http);
    for way in WAYS {
        // What may wait and is to be told of progress takes another way through relay.
        for may_wait in [false, true] {
            for body in &sent {
                sender.post("pm", "dev-a", body);
            }
            let mut session = Session::open_at(relay.port, way, "");
            let mut params = json!({"name": "read_messages", "arguments": {"for": "dev-a"}});
            if may_wait {
                params["arguments"]["wait_seconds"] = json!(1);
                params["_meta"]["progressToken"] = json!(7);
            }
            let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
            let mut id = None;
            match way {
                Way::Sse => drop(session.ask("initialize", hello)),
                Way::Http => {
                    let shaken = session
                        .calls
                        .exchange(&session.request_of(1, "initialize", hello));
                    id = shaken.header("mcp-session-id").map(str::to_owned);
                    assert!(id.is_some(), "{shaken:?}");
                }
                Way::Modern | Way::ModernSse => {
                    params["_meta"]["io.modelcontextprotocol/clientInfo"] = client.clone();
                }
            }
            let request = session.request_of(2, "tools/call", params);
            let request = match &id {
                Some(id) => request.with("Mcp-Session-Id", id),
                None => request,
            };
            let response = session.calls.exchange(&request);
            let answer = match session.stream {
                Some(_) => session.heard(),
                None => message_of(&response),
            };
            let content = answer["result"]["content"].as_array().expect("a result");
            let read = content[0]["text"].as_str().expect("a text");
            let read: Vec<Value> = serde_json::from_str(read).expect("JSON");
            assert_eq!(
                (read.len(), content.len()),
                (12, 1),
                "over {way:?}, may wait: {may_wait}"
            );
            // Its next call shows that it has got them.
            let next = json!({"name": "list_pending", "arguments": {"for": "pm"}});
            let next = session.calls.exchange(&session.request_of(3, "tools/call", next));
            if session.stream.is_some() {
                session.heard();
            }
            assert!(matches!(next.status, 200 | 202), "{next:?}");
        }
    }
}

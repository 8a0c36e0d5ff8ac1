//! Clients that send slowly, or do not read.

use std::net::TcpStream;

use super::*;
use crate::support::http::Arrived;
use crate::support::until;

#[test]
fn a_call_that_comes_byte_by_byte_holds_up_nobody() {
    let mut scene = Scene::new();
    let targets = scene.targets();
    let mut trickles = targets.map(|target| {
        let bytes = Request::post(&target, POST).bytes();
        (scene.relay.connect(), bytes)
    });
    let longest = trickles.iter().map(|(_, bytes)| bytes.len()).max().expect("two");
    for at in 0..longest {
        for (connection, bytes) in &mut trickles {
            if let Some(byte) = bytes.get(at) {
                connection.send(&[*byte]);
            }
        }
        if at % 16 == 0 {
            scene.bystander.is_unharmed();
        }
    }
    let statuses = trickles.map(|(mut connection, _)| connection.response().status);
    assert_eq!(statuses, [200, 202]);
    assert_eq!(scene.relay.session(Way::Http).read("dev-a").bodies(), ["x", "x"]);
    scene.is_unharmed();
}

#[test]
fn a_call_that_ends_in_the_middle_is_not_carried_out() {
    let mut scene = Scene::new();
    for target in scene.targets() {
        for request in [
            Request::post(&target, POST),
            Request::post(&target, POST).chunked(),
        ] {
            let bytes = request.bytes();
            // A chunked body is over when its last, empty chunk has come.
            for end in [1, 20, bytes.len() - POST.len() / 2, bytes.len() - 1] {
                let mut connection = scene.relay.connect();
                connection.send(&bytes[..end]);
                connection.end_sending();
                let answered = connection.response_or_end();
                assert!(answered.is_none_or(|response| response.status == 400), "{end}");
            }
        }
    }
    scene.is_unharmed();
}

#[test]
fn a_client_that_never_reads_its_stream_is_refused_and_loses_nothing() {
    let mut scene = Scene::new();
    let mut sender = scene.relay.session(Way::Http);
    sender.hear_of_start("dev-a");
    let sessions = scene.relay.sessions();
    let mut deaf = scene.relay.session(Way::Sse);
    let before = scene.relay.resident_bytes();
    let filler = "x".repeat(1024 * 1024 - 4);
    let mut sent = Vec::new();
    let refusal = loop {
        let number = sent.len();
        assert!(
            number < 40,
            "the relay keeps {number} MiB for one that does not read"
        );
        let body = format!("{number:04}{filler}");
        sender.post("pm", "dev-a", &body);
        sent.push(body);
        let read = json!({"name": "read_messages", "arguments": {"for": "dev-a"}});
        let request = deaf.request_of(number as u64, "tools/call", read);
        let response = deaf.calls.exchange(&request);
        if response.status != 202 {
            break response;
        }
    };
    let reason = "this session does not read its stream; read what is in it, then call again";
    assert_eq!(refused(&refusal), (503, json!({"error": reason})));
    assert_eq!(scene.relay.pending(), json!({"pm": 0, "dev-a": 1, "dev-b": 0}));
    let grown = scene.relay.resident_bytes().saturating_sub(before);
    assert!(grown < 64 * MEGABYTE, "{grown} bytes after {} calls", sent.len());
    scene.bystander.is_unharmed();

    drop(deaf);
    scene.relay.await_sessions(sessions);
    let read = scene.relay.session(Way::Http).read("dev-a").bodies();
    // The last call was refused; those before it handed over what its socket did not take.
    let last = sent.pop().expect("at least one");
    let redelivered = read.len() - 1;
    assert!(redelivered >= 8, "only {redelivered} came again");
    let lost = sent.split_off(sent.len() - redelivered);
    let expected: Vec<String> = lost
        .iter()
        .map(|body| format!("again: {body}"))
        .chain([last])
        .collect();
    assert!(read == expected, "{redelivered} of them, but not those");
    scene.is_unharmed();
}

#[test]
fn a_client_that_does_not_read_its_replies_over_http_holds_up_nobody() {
    let mut scene = Scene::new();
    let sessions = scene.relay.sessions();
    let mut deaf = scene.relay.connect();
    let before = scene.relay.resident_bytes();
    // Sent until the relay takes no more: it answers one call of a connection after the other.
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let request = Request::post("/mcp", list).bytes().repeat(100);
    deaf.set_write_patience(Duration::from_millis(200));
    let mut sent = 0;
    while sent < 64 * 1024 * 1024 && deaf.try_send(&request).is_ok() {
        sent += request.len();
    }
    assert!(
        sent < 64 * 1024 * 1024,
        "the relay reads on although nobody takes its answers"
    );
    let grown = scene.relay.resident_bytes().saturating_sub(before);
    assert!(grown < 32 * MEGABYTE, "{grown} bytes");
    scene.is_unharmed();
    drop(deaf);
    scene.relay.await_sessions(sessions);
    scene.is_unharmed();
}

/// A text of a megabyte that is six times as long in JSON.
fn long_text() -> String {
    "\u{1}".repeat(1_000_000)
}

/// Asks over a connection of its own and reads nothing of the answer.
fn asked(relay: &Relay, address: &str, role: &str) -> Connection {
    let mut connection = relay.connect();
    connection.send(&Request::post(address, json!({"for": role}).to_string()).bytes());
    connection.await_unread_bytes();
    connection
}

#[test]
fn many_unread_looks_at_a_full_inbox_cost_little_and_one_that_is_read_has_all() {
    let mut scene = Scene::new();
    let mut sender = scene.relay.session(Way::Http);
    let text = long_text();
    for _ in 0..20 {
        sender.post("pm", "dev-a", &text);
    }
    let before = scene.relay.resident_bytes();
    // Whole, each answer is 120 MB.
    let unread: Vec<Connection> = (0..12)
        .map(|_| asked(&scene.relay, "/api/peek", "dev-a"))
        .collect();
    scene.bystander.is_unharmed();
    let grown = scene.relay.resident_bytes().saturating_sub(before);
    assert!(grown < 160 * MEGABYTE, "{grown} bytes");
    for _ in 0..3 {
        sender.post("dev-a", "pm", &text);
    }
    let peeked = scene.ask(&Request::post("/api/peek", r#"{"for":"pm"}"#)).json();
    let messages = peeked["messages"].as_array().expect("an array");
    assert_eq!(messages.len(), 3);
    assert!(messages.iter().all(|message| message["body"] == text.as_str()));
    drop(unread);
    scene.bystander.is_unharmed();
}

#[test]
fn who_reads_a_large_answer_has_it_whole_though_many_leave_theirs_unread() {
    let scene = Scene::new();
    let mut sender = scene.relay.session(Way::Http);
    let text = long_text();
    for _ in 0..4 {
        sender.post("pm", "dev-a", &text);
    }
    // Some 130 MB may wait, of 6 MB each.
    let unread: Vec<Connection> = (0..24)
        .map(|_| asked(&scene.relay, "/api/peek", "dev-a"))
        .collect();
    // Until it is seen that they take nothing.
    std::thread::sleep(Duration::from_millis(1_100));
    for _ in 0..3 {
        let peeked = scene.ask(&Request::post("/api/peek", r#"{"for":"dev-a"}"#));
        assert_eq!(peeked.status, 200);
        assert!(peeked.text().len() > 24_000_000);
    }
    drop(unread);
}

#[test]
fn those_who_leave_most_unread_are_cut_and_nobody_else_notices() {
    let roles: Vec<String> = (0..24).map(|number| format!("r{number}")).collect();
    let relay = Relay::start_with(&["--roles", &format!("pm,dev-a,dev-b,{}", roles.join(","))], &[]);
    let mut bystander = Bystander::of(&relay);
    let mut sender = relay.session(Way::Http);
    let text = long_text();
    let unread = |relay: &Relay| {
        let pending = relay.pending();
        let waits = |role: &&String| pending[role.as_str()] != 0;
        roles.iter().filter(waits).count()
    };
    let before = relay.resident_bytes();
    for role in &roles {
        sender.post("pm", role, &text);
        sender.post("pm", role, &text);
    }
    // Only now, so that it does not take long: a socket that takes nothing is given up after a while, whatever waits for it.
    let mut slow = Vec::new();
    for role in &roles {
        slow.push(asked(&relay, "/api/read", role));
        // Whoever takes what it is given waits for nobody.
        bystander.is_unharmed();
    }
    // Some 130 MB may wait, of 6 MB each.
    until("some have been cut", || unread(&relay) >= 3);
    assert!(unread(&relay) < 12, "no more than has to be");
    let grown = relay.resident_bytes().saturating_sub(before);
    let bodies = 48 * MEGABYTE;
    assert!(grown < bodies + 220 * MEGABYTE, "{grown} bytes");
    bystander.is_unharmed();
    drop(slow);
    // Nobody has read theirs, so all come back, marked.
    until("all have come back", || unread(&relay) == roles.len());
    let read = relay
        .connect()
        .exchange(&Request::post("/api/read", r#"{"for":"r0"}"#))
        .json();
    let messages = read["messages"].as_array().expect("an array");
    assert_eq!(messages.len(), 2);
    for message in messages {
        assert_eq!(message["redelivered"], true);
        assert!(message["body"] == text.as_str());
    }
    // That is told to the agent itself.
    assert!(read["restarted"].is_null());
}

/// Asks over a connection of its own, as one agent, and takes nothing of the answer.
fn left_unread(relay: &Relay, role: &str, accepts: &str, method: &str, params: &Value) -> Connection {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let target = format!("/mcp?reply_kb=100000&tools=lift,agent-relay&agent={role}");
    let request = Request::post(&target, request.to_string()).with("Accept", accepts);
    let mut connection = relay.connect();
    connection.send(&request.bytes());
    connection
}

#[test]
fn what_waits_in_events_of_answers_that_came_late_is_counted() {
    let roles: Vec<String> = (0..24).map(|number| format!("r{number}")).collect();
    let relay = Relay::start_with(&["--roles", &format!("pm,{}", roles.join(","))], &[]);
    let mut sender = relay.session(Way::Http);
    let accepts = "application/json, text/event-stream";
    let arguments = json!({"wait_seconds": 60});
    let params = json!({"name": "read_messages", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let mut slow = Vec::new();
    for role in &roles {
        sender.hear_of_start(role);
        slow.push(left_unread(&relay, role, accepts, "tools/call", &params));
    }
    // What comes before a stream has begun is no event, and all there at once.
    slow.iter().for_each(Connection::await_unread_bytes);
    // One for all, so that it does not take long: a socket that takes nothing is given up after a while, whatever waits for it.
    sender.post("pm", "*", &long_text());
    let is_cut = |role: &String| relay.pending()[role.as_str()] != 0;
    until("some have been cut", || roles.iter().any(is_cut));
    drop(slow);
    let said = relay.into_stderr();
    assert!(said.contains("leaves much unread was disconnected"), "{said}");
}

#[test]
fn what_waits_of_long_answers_is_counted_if_their_clients_take_events_alone() {
    let relay = Relay::start();
    let mut sender = relay.session(Way::Http);
    for _ in 0..4 {
        sender.post("pm", "dev-a", &long_text());
    }
    let before = relay.resident_bytes();
    let params = json!({"uri": "relay://inbox"});
    let slow: Vec<Connection> = (0..12)
        .map(|_| {
            let slow = left_unread(&relay, "dev-a", "text/event-stream", "resources/read", &params);
            slow.await_unread_bytes();
            slow
        })
        .collect();
    // Of each 28 MB.
    let grown = relay.resident_bytes().saturating_sub(before);
    assert!(grown < 220 * MEGABYTE, "{grown} bytes");
    drop(slow);
}

/// Asks to be told of all that happens; what is told is not read.
fn observing(relay: &Relay) -> Connection {
    let handshake = Request::get("/api/tail")
        .with("Connection", "Upgrade")
        .with("Upgrade", "websocket")
        .with("Sec-WebSocket-Version", "13")
        .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let mut observer = relay.connect();
    observer.send(&handshake.bytes());
    let mut head = None;
    until("the upgrade", || {
        observer.receive(Duration::from_millis(100));
        head = observer.take_head();
        head.is_some()
    });
    assert_eq!(head.map(|head| head.status), Some(101));
    observer
}

/// What it is told it shares with nobody, and is more than each of the others leaves unread.
#[test]
fn an_observer_that_leaves_most_unread_is_cut_and_nobody_who_leaves_less() {
    let roles: Vec<String> = (0..24).map(|number| format!("r{number}")).collect();
    let relay = Relay::start_with(&["--roles", &format!("pm,{}", roles.join(","))], &[]);
    let mut observer = observing(&relay);
    let mut sender = relay.session(Way::Http);
    sender.post("pm", "pm", &long_text());
    observer.await_unread_bytes();
    // One for all, so that it does not take long: a socket that takes nothing is given up after a while, whatever waits for it.
    sender.post("pm", "*", &"\u{1}".repeat(900_000));
    let mut slow = Vec::new();
    for role in &roles {
        slow.push(asked(&relay, "/api/read", role));
    }
    until("the observer is cut", || {
        let arrived = observer.receive(Duration::from_millis(100));
        matches!(arrived, Arrived::Closed | Arrived::Reset)
    });
    let pending = relay.pending();
    assert!(roles.iter().all(|role| pending[role.as_str()] == 0), "{pending}");
}

#[test]
fn observers_that_do_not_read_share_what_they_are_told_and_it_is_given_back() {
    let mut scene = Scene::new();
    let mut observers: Vec<Connection> = (0..100).map(|_| observing(&scene.relay)).collect();
    let stream = TcpStream::connect(("127.0.0.1", scene.relay.port)).expect("it listens");
    let address = format!("ws://localhost:{}/api/tail", scene.relay.port);
    let (mut reader, _) = tungstenite::client(address, stream).expect("a WebSocket");
    let text = long_text();
    let before = scene.relay.resident_bytes();
    scene.relay.session(Way::Http).post("pm", "dev-a", &text);
    for observer in &observers {
        observer.await_unread_bytes();
    }
    let grown = scene.relay.resident_bytes().saturating_sub(before);
    assert!(grown < 120 * MEGABYTE, "{grown} bytes");
    // One that reads is told all.
    let told = loop {
        let told = reader.read().expect("a message");
        if told.len() > 1_000_000 {
            break told.into_text().expect("a text");
        }
    };
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert!(told.to_string().len() > 6_000_000);
    drop(reader);
    observers.clear();
    assert_eq!(scene.relay.bodies("dev-a"), [text]);
    scene.is_unharmed();
    until("it is given back", || {
        scene.relay.resident_bytes().saturating_sub(before) < 40 * MEGABYTE
    });
}

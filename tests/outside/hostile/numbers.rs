//! Very many of something, or something very long.

use super::*;

#[test]
fn a_thousand_streams_opened_and_dropped_leave_nothing_behind() {
    let mut scene = Scene::new();
    let sessions = scene.relay.sessions();
    let before = scene.relay.resident_bytes();
    for _ in 0..2 {
        let streams: Vec<Session> = (0..500).map(|_| scene.relay.session(Way::Sse)).collect();
        assert_eq!(scene.relay.sessions(), sessions + 500);
        scene.is_unharmed();
        drop(streams);
        scene.relay.await_sessions(sessions);
        scene.is_unharmed();
    }
    let grown = scene.relay.resident_bytes().saturating_sub(before);
    assert!(grown < 30 * MEGABYTE, "{grown} bytes");
}

#[test]
fn one_session_too_many_is_refused_until_another_ends() {
    const SESSIONS_MAX: usize = 4_096;
    // A connection has a session for each role that it speaks for, so a few connections are enough.
    let roles: Vec<String> = (0..32).map(|number| format!("r{number}")).collect();
    let relay = Relay::start_with(&["--roles", &roles.join(",")], &[]);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut open = 0;
    let mut connections = Vec::new();
    let refusal = loop {
        assert!(open <= SESSIONS_MAX, "{open} sessions");
        let mut connection = relay.connect();
        let requests = roles
            .iter()
            .map(|role| Request::post(&format!("/mcp?agent={role}"), list).bytes());
        connection.send(&requests.collect::<Vec<_>>().concat());
        let refused = roles
            .iter()
            .map(|_| connection.response())
            .find(|response| response.status != 200);
        connections.push(connection);
        match refused {
            None => open += roles.len(),
            Some(response) => break response,
        }
    };
    assert_eq!(open, SESSIONS_MAX);
    let reason = "as many sessions are open already as are accepted: 4096; close one";
    assert_eq!(refused(&refusal), (503, json!({"error": reason})));
    let stream = relay.connect().exchange(&Request::get("/sse"));
    assert_eq!(refused(&stream), (503, json!({"error": reason})));
    let open_one = Request::post("/mcp?agent=r7", list);
    assert_eq!(
        connections[0].exchange(&open_one).status,
        200,
        "one that is open goes on"
    );
    drop(connections);
    relay.await_sessions(0);
    relay.session(Way::Sse).post("r0", "r1", "there is room again");
}

/// Sends 60 messages with an id of 512 KiB each, takes every answer, and returns by how much the relay has grown.
fn growth_by_long_ids(relay: &Relay, way: Way, message: impl Fn(String) -> Value) -> u64 {
    let mut session = relay.session(way);
    let before = relay.resident_bytes();
    let long = "x".repeat(512 * 1024);
    for number in 0..60 {
        let message = message(format!("{number}{long}"));
        let request = Request::post(&session.target, message.to_string()).with("Mcp-Session-Id", "mine");
        let response = session.calls.exchange(&request);
        if response.status == 202 && message["id"].is_string() && matches!(way, Way::Sse | Way::ModernSse) {
            session.heard();
        }
    }
    relay.resident_bytes().saturating_sub(before)
}

#[test]
fn long_ids_of_calls_are_not_kept_when_the_calls_are_over() {
    let mut scene = Scene::new();
    let params = json!({"name": "read_messages", "arguments": {"for": "pm"}});
    let read = |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    let grown = [Way::Sse, Way::Http].map(|way| growth_by_long_ids(&scene.relay, way, read));
    scene.is_unharmed();
    assert!(
        grown.iter().all(|&grown| grown < 16 * MEGABYTE),
        "grown by {grown:?} bytes"
    );
}

#[test]
fn long_ids_of_cancellations_are_not_kept() {
    let mut scene = Scene::new();
    let cancel = |id| {
        let params = json!({"requestId": id});
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    };
    let grown = [Way::Sse, Way::Http].map(|way| growth_by_long_ids(&scene.relay, way, cancel));
    scene.is_unharmed();
    assert!(
        grown.iter().all(|&grown| grown < 16 * MEGABYTE),
        "grown by {grown:?} bytes"
    );
}

#[test]
fn an_error_does_not_repeat_all_of_a_long_value() {
    let mut scene = Scene::new();
    let long = "\u{1b}é".repeat(50_000);
    for way in [Way::Sse, Way::Http] {
        let mut session = scene.relay.session(way);
        for (tool, arguments) in [
            (long.as_str(), json!({})),
            (
                "post_message",
                json!({"from": long, "to": "pm", "kind": "free", "body": ""}),
            ),
            (
                "post_message",
                json!({"from": "pm", "to": long, "kind": "free", "body": ""}),
            ),
            (
                "post_message",
                json!({"from": "pm", "to": "pm", "kind": long, "body": ""}),
            ),
            ("read_messages", json!({"for": "pm", "wait_seconds": long})),
            ("read_messages", json!({"for": "pm", &*long: 1})),
            ("list_pending", json!({"for": long})),
        ] {
            let reply = session.call(tool, &arguments);
            let length = reply.texts.concat().len();
            assert!(reply.is_error && length < 2_000, "{length} bytes over {way:?}");
        }
    }
    let target = format!("/sse?agent={}", "x".repeat(60_000));
    let response = scene.ask(&Request::get(&target));
    assert_eq!(response.status, 400, "{response:?}");
    assert!(response.body.len() < 2_000, "{response:?}");
    scene.is_unharmed();
}

#[test]
fn requests_in_one_go_are_answered_one_after_the_other() {
    let mut scene = Scene::new();
    let call = |id: u64, tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Request::post("/mcp", message.to_string()).bytes()
    };
    let post = |body: &str| json!({"from": "pm", "to": "dev-a", "kind": "free", "body": body});
    let mut connection = scene.relay.connect();
    connection.send(
        &[
            call(1, "post_message", post("m1")),
            Request::get("/health").bytes(),
            call(2, "post_message", post("m2")),
            Request::get("/nowhere").bytes(),
            call(3, "list_pending", json!({"for": "dev-a"})),
            call(4, "read_messages", json!({"for": "dev-a"})),
            call(5, "read_messages", json!({"for": "dev-a"})),
        ]
        .concat(),
    );
    let answers: Vec<Response> = (0..7).map(|_| connection.response()).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 200, 404, 200, 200, 200]);
    assert_eq!(answers[1].json()["pending"]["dev-a"], 1);
    let text = |answer: &Response| answer.json()["result"]["content"][0]["text"].clone();
    assert_eq!(
        text(&answers[4]),
        json!({"count": 2, "kinds": ["free", "free"]}).to_string()
    );
    let read: Value = serde_json::from_str(text(&answers[5]).as_str().expect("a text")).expect("JSON");
    assert_eq!((&read[0]["body"], &read[1]["body"]), (&json!("m1"), &json!("m2")));
    assert_eq!(text(&answers[6]), "[]");
    scene.is_unharmed();
}

#[test]
fn a_long_head_is_taken_and_a_longer_one_refused() {
    let mut scene = Scene::new();
    let filler = |length: usize| "x".repeat(length);
    let long = Request::get("/health").with("X-Long", &filler(100 * 1024));
    assert_eq!(scene.ask(&long).status, 200);
    scene.is_unharmed();
    let many = (0..200).fold(Request::get("/health"), |request, number| {
        request.with(&format!("X-{number}"), "1")
    });
    for (status, request) in [
        (431, Request::get("/health").with("X-Long", &filler(1024 * 1024))),
        (431, many),
        (414, Request::get(&format!("/{}", filler(100 * 1024)))),
    ] {
        let mut connection = scene.relay.connect();
        // The relay may hang up before it has taken all of it, and with that its answer may be lost.
        let _ = connection.try_send(&request.bytes());
        let answer = connection.response_or_end();
        assert!(
            answer.as_ref().is_none_or(|response| response.status == status),
            "{answer:?}"
        );
        scene.is_unharmed();
    }
}

#[test]
fn a_head_that_can_be_read_in_two_ways_is_carried_out_at_most_once() {
    let mut scene = Scene::new();
    let post = Request::post("/mcp", POST);
    let length = POST.len();
    let in_chunks = |size: &str| {
        let chunks = format!("{size}\r\n{POST}\r\n0\r\n\r\n");
        let request = Request::post("/mcp", chunks).without("Content-Length");
        request.with("Transfer-Encoding", "chunked").bytes()
    };
    let hidden = [b"0\r\n\r\n".to_vec(), post.bytes()].concat();
    for (what, bytes) in [
        ("two lengths", post.clone().and("Content-Length", "5").bytes()),
        (
            "a negative length",
            post.clone().with("Content-Length", "-1").bytes(),
        ),
        (
            "a signed length",
            post.clone().with("Content-Length", &format!("+{length}")).bytes(),
        ),
        (
            "a length in words",
            post.clone().with("Content-Length", "many").bytes(),
        ),
        (
            "an unknown encoding",
            post.clone().with("Transfer-Encoding", "gzip").bytes(),
        ),
        ("a chunk without a size", in_chunks("")),
        ("a chunk of a size in words", in_chunks("many")),
        ("a chunk larger than all memory", in_chunks("ffffffffffffffffff")),
        (
            "a length and chunks",
            Request::post("/mcp", hidden)
                .with("Transfer-Encoding", "chunked")
                .bytes(),
        ),
        ("a name with a space", post.clone().with("X Y", "1").bytes()),
        ("no version", b"POST /mcp\r\n\r\n".to_vec()),
        (
            "an unknown version",
            b"GET /health HTTP/7.1\r\nHost: localhost\r\n\r\n".to_vec(),
        ),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("nothing but NULs", vec![0; 4096]),
    ] {
        let mut connection = scene.relay.connect();
        let _ = connection.try_send(&bytes);
        connection.end_sending();
        let answer = connection.response_or_end();
        assert!(
            answer.as_ref().is_none_or(|response| response.status >= 400),
            "{what}: {answer:?}"
        );
        let next = connection.response_or_end();
        assert!(next.is_none(), "{what} is answered twice: {next:?}");
        scene.is_unharmed();
    }
}

/// rmcp answers those, in tasks of its own.
#[test]
fn waits_of_the_latest_version_whose_streams_broke_leave_nothing_behind() {
    let relay = Relay::start();
    let mut session = relay.session(Way::Http);
    session.hear_of_start("pm");
    drop(session);
    let lose = |count: u32| {
        for _ in 0..count {
            let mut waits = relay.session(Way::ModernSse);
            waits.wait("pm", 60.0);
            drop(waits);
        }
        relay.await_sessions(0);
        relay.resident_bytes()
    };
    let before = lose(50);
    let grown = lose(300).saturating_sub(before);
    assert!(grown < 4 * MEGABYTE, "grown by {grown} bytes");
}

//! Clients that send slowly, or do not read.

use super::*;

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

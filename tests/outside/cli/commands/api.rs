use super::*;

fn post(relay: &Relay, path: &str, body: &str) -> (u16, Value) {
    let response = relay.connect().exchange(&Request::post(path, body));
    (response.status, response.json())
}

#[test]
fn what_is_left_out_is_the_persons() {
    let relay = told();
    let (status, sent) = post(&relay, "/api/send", r#"{"to":"user","body":"note"}"#);
    assert_eq!(status, 200, "{sent}");
    let (status, seen) = post(&relay, "/api/peek", "{}");
    let message = json!({
        "id": sent["id"], "from": "user", "to": "user", "kind": "free", "body": "note",
        "ts": seen["messages"][0]["ts"],
    });
    assert_eq!((status, &seen), (200, &json!({"messages": [message]})));
    let read = post(&relay, "/api/read", "{}");
    assert_eq!(read, (200, json!({"messages": [message], "restarted": null})));
}

#[test]
fn the_news_of_a_start_comes_with_its_time() {
    let mut relay = Relay::start();
    let read = post(&relay, "/api/read", "{}");
    assert_eq!(
        read,
        (200, json!({"messages": [], "restarted": null})),
        "nobody was there before"
    );
    relay.session(Way::Http).post("pm", "user", "gone");
    relay.kill_and_restart();
    let read = post(&relay, "/api/read", "{}");
    let started_at = relay.health()["started_at"].clone();
    assert_eq!(read, (200, json!({"messages": [], "restarted": started_at})));
}

#[test]
fn what_is_not_taken_is_named() {
    let relay = Relay::start();
    for (path, body, reason) in [
        (
            "/api/send",
            r#"{"to":"pm","body":"x","bdy":"y"}"#,
            "/api/send takes the JSON {\"from\": role, \"to\": role, \"kind\": kind, \"body\": text, \"thread\": thread, \"reply_to\": id, \"mode\": mode}: unknown field `bdy`",
        ),
        (
            "/api/read",
            r#"{"for":"pm","for":"dev-a"}"#,
            "/api/read takes the JSON {\"for\": role, \"wait_seconds\": number, \"from\": role, \"limit\": number}: duplicate field `for`",
        ),
        (
            "/api/peek",
            "for=pm",
            "/api/peek takes the JSON {\"for\": role}: expected",
        ),
        (
            "/api/trace",
            "{}",
            "/api/trace takes the JSON {\"message\": id}: missing field `message`",
        ),
        (
            "/api/show",
            "{}",
            "/api/show takes the JSON {\"message\": id}: missing field `message`",
        ),
        (
            "/api/group",
            r#"{"do":"paint"}"#,
            "/api/group takes the JSON {\"do\": \"make\" or \"remove\", \"group\": name, \"description\": text}, or {\"do\": \"join\" or \"leave\", \"group\": name, \"agent\": name or \"role\": role}: unknown variant `paint`",
        ),
        (
            "/api/channel",
            r#"{"do":"paint"}"#,
            "/api/channel takes the JSON {\"do\": \"make\", \"join\", \"leave\" or \"remove\", \"channel\": name, \"topic\": text, \"agents\": [name, …]}: unknown variant `paint`",
        ),
        (
            "/api/agents",
            r#"{"all":true}"#,
            "/api/agents takes the JSON {\"project\": project, \"active_only\": boolean}: unknown field `all`",
        ),
        (
            "/api/retire",
            "{}",
            "/api/retire takes the JSON {\"agent\": name}: missing field `agent`",
        ),
        (
            "/api/groups",
            r#"{"all":true}"#,
            "/api/groups takes the JSON {\"project\": project, \"name\": name}: unknown field `all`",
        ),
        (
            "/api/channels",
            r#"{"all":true}"#,
            "/api/channels takes the JSON {\"project\": project, \"name\": name}: unknown field `all`",
        ),
        (
            "/api/hold",
            r#"{"for":"pm"}"#,
            "/api/hold takes the JSON {\"agent\": role, \"all\": true or false}: unknown field `for`",
        ),
        (
            "/api/allow",
            r#"{"for":"pm"}"#,
            "/api/allow takes the JSON {\"message\": id}, {\"agent\": role}, or {\"all\": true}: unknown field `for`",
        ),
        (
            "/api/drop",
            r#"{"for":"pm"}"#,
            "/api/drop takes the JSON {\"message\": id}: unknown field `for`",
        ),
        (
            "/api/mode",
            r#"{"agent":"pm"}"#,
            "/api/mode takes the JSON {\"for\": role, \"mode\": mode}: unknown field `agent`",
        ),
        (
            "/api/trace",
            r#"{"message":"3f2a91c"}"#,
            "nothing is known of a message \"3f2a91c\"; accepted: the id of one that relay has accepted, or its first 8 or more digits",
        ),
        (
            "/api/send",
            r#"{"to":"pm","body":"x","kind":"shout"}"#,
            "unknown kind \"shout\"; known kinds: status, question, directive, free",
        ),
        (
            "/api/allow",
            r#"{"message":"3f2a91c0","all":true}"#,
            "accepted: one of \"message\", \"agent\" and \"all\"",
        ),
        (
            "/api/allow",
            r#"{"message":"3f2a91c0","agent":"pm"}"#,
            "accepted: one of \"message\", \"agent\" and \"all\"",
        ),
        (
            "/api/read",
            r#"{"wait_seconds":281}"#,
            "\"wait_seconds\" is 281; accepted: 0 to 280",
        ),
        (
            "/api/read",
            r#"{"wait_seconds":-1}"#,
            "\"wait_seconds\" is -1; accepted: 0 to 280",
        ),
        (
            "/api/peek",
            r#"{"for":"qa"}"#,
            "unknown role \"qa\"; known roles: pm, dev-a, dev-b",
        ),
    ] {
        let (status, answer) = post(&relay, path, body);
        let error = answer["error"].as_str().unwrap_or_default();
        assert_eq!(
            (status, error.starts_with(reason)),
            (400, true),
            "{body}: {answer}"
        );
    }
    let form = Request::post("/api/send", r#"{"to":"pm","body":"x"}"#).with("Content-Type", "text/plain");
    let refused = relay.connect().exchange(&form);
    let reason = "content type \"text/plain\" is not accepted; accepted: application/json";
    assert_eq!((refused.status, refused.json()), (415, json!({"error": reason})));
    for path in ["/api/send", "/api/read", "/api/peek", "/api/trace"] {
        let refused = relay.connect().exchange(&Request::get(path));
        assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
        let page = Request::post(path, "{}").with("Origin", "http://evil.example");
        assert_eq!(relay.connect().exchange(&page).status, 403);
    }
    relay.await_sessions(0);
}

#[test]
fn a_next_request_on_the_connection_confirms_a_read_and_a_broken_end_undoes_it() {
    let relay = told();
    relay.session(Way::Sse).post("pm", "user", "one");
    let mut connection = relay.connect();
    let read = Request::post("/api/read", "{}");
    let first = connection.exchange(&read).json();
    assert_eq!(first["messages"][0]["body"], "one");
    assert_eq!(role(&relay, "user")["in_doubt"], 1);
    // On a busy machine the next request may be there before relay has seen that its reply was passed; then the one
    // after it confirms.
    until("the read is confirmed", || {
        let next = connection.exchange(&read).json();
        assert_eq!(next, json!({"messages": [], "restarted": null}));
        role(&relay, "user")["in_doubt"] == 0
    });
    relay.session(Way::Sse).post("pm", "user", "two");
    connection.send(&read.bytes());
    connection.await_unread_bytes();
    // It has not been read, so the kernel answers it with a reset.
    drop(connection);
    until("it is back", || unread(&relay, "user") == 1);
    let again = relay.connect().exchange(&read).json();
    let message = &again["messages"][0];
    assert_eq!(
        [&message["body"], &message["redelivered"]],
        [&json!("two"), &json!(true)]
    );
}

#[test]
fn an_inbox_that_is_shown_in_pieces_has_what_is_held_where_it_stands() {
    let relay = told();
    assert_eq!(post(&relay, "/api/hold", r#"{"agent":"dev-b"}"#).0, 200);
    let long = "x".repeat(100_000);
    for (from, body) in [
        ("pm", "first"),
        ("dev-b", "held"),
        ("pm", &long),
        ("dev-b", &long),
        ("pm", "last"),
    ] {
        let sent = json!({"from": from, "to": "dev-a", "body": body});
        assert_eq!(post(&relay, "/api/send", &sent.to_string()).0, 200);
    }
    let (_, seen) = post(&relay, "/api/peek", r#"{"for":"dev-a"}"#);
    let shown = |message: &Value| (message["body"].clone(), message.get("held").cloned());
    let messages = seen["messages"].as_array().expect("messages");
    let messages: Vec<_> = messages.iter().map(shown).collect();
    let held = Some(json!("from"));
    let [first, is_held, long, last] = ["first", "held", &*long, "last"].map(|body| json!(body));
    let expected = [
        (first, None),
        (is_held, held.clone()),
        (long.clone(), None),
        (long, held),
        (last, None),
    ];
    assert!(
        messages == expected,
        "{:?}",
        messages.iter().map(|(_, held)| held).collect::<Vec<_>>()
    );
}

#[test]
fn what_no_command_of_relays_asks_is_refused_in_the_persons_words() {
    let relay = Relay::start();
    for (path, body, reason) in [
        ("/api/pending", "for=pm", "/api/pending takes the JSON "),
        ("/api/flush", "for=pm", "/api/flush takes the JSON "),
        (
            "/api/mode",
            r#"{"for":"pm","mode":"soon"}"#,
            "unknown mode \"soon\"; known modes: immediate, ",
        ),
    ] {
        let (status, answer) = post(&relay, path, body);
        let said = answer["error"].as_str().unwrap_or_default();
        assert!(status == 400 && said.starts_with(reason), "{path}: {answer}");
    }
    for (query, reason) in [
        (
            "from=0",
            "query parameter \"from\" is not taken; accepted, once: since",
        ),
        (
            "since=0&since=0",
            "query parameter \"since\" is not taken; accepted, once: since",
        ),
        (
            "since=9999999999999999999",
            "\"since\" is ahead of the latest event, ",
        ),
        // It is no WebSocket.
        ("since=0", ""),
    ] {
        let asked = Request::get(&format!("/api/tail?{query}"));
        let answer = relay.connect().exchange(&asked);
        let said = answer.json()["error"].as_str().map(str::to_owned);
        assert!(
            (400..=426).contains(&answer.status) && said.is_some_and(|said| said.starts_with(reason)),
            "{query}: {answer:?}"
        );
    }
}

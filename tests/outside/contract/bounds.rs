use super::*;

const INBOX_MESSAGES_MAX: usize = 10_000;

#[test]
fn a_full_inbox_refuses_until_its_messages_are_read() {
    let relay = Relay::start_told();
    let mut sender = relay.session(Way::Http);
    let post = json!({
        "name": "post_message",
        "arguments": {"from": "pm", "to": "dev-a", "kind": "free", "body": "m"},
    });
    let request = sender.request_of(1, "tools/call", post.clone()).bytes();
    for _ in 0..INBOX_MESSAGES_MAX / 100 {
        sender.calls.send(&request.repeat(100));
        for _ in 0..100 {
            let response = sender.calls.response().text();
            assert!(response.contains(r#""isError":false"#), "{response}");
        }
    }
    let full = Reply::error(
        "inbox of \"dev-a\" is full: 10000 messages, 10000 bytes; accepted: at most 10000 messages and \
         67108864 bytes; post again after it was read; a person can empty it: relay read dev-a",
    );
    let mut others = WAYS.map(|way| relay.session(way));
    for other in &mut others {
        assert_eq!(other.call("post_message", &post["arguments"]), full);
    }
    let send = Request::post("/api/send", r#"{"to":"dev-a","body":"m"}"#);
    assert_eq!(
        relay.connect().exchange(&send).status,
        503,
        "it may be accepted later"
    );
    sender.post("dev-b", "pm", "another inbox has room");
    assert_eq!(relay.pending(), json!({"pm": 1, "dev-a": 10_000, "dev-b": 0}));

    let mut reader = relay.session(Way::Sse);
    let read = reader.read("dev-a");
    assert_eq!(read.bodies(), vec!["m"; INBOX_MESSAGES_MAX]);
    assert_eq!(
        sender.call("post_message", &post["arguments"]),
        full,
        "they may come back"
    );
    // A next call shows that they were read.
    reader.read("pm");
    assert!(!sender.call("post_message", &post["arguments"]).is_error);
    assert_eq!(reader.read("dev-a").bodies(), ["m"]);
    sender.post("pm", "dev-a", "there is room again");
    assert_eq!(reader.read("dev-a").bodies(), ["there is room again"]);
}

#[test]
fn the_longest_body_is_accepted_and_one_more_byte_is_not() {
    const BODY_BYTES_MAX: usize = 1_048_576;
    over_each(&WAYS, |relay, way| {
        let mut session = relay.session(way);
        let long = "é".repeat(BODY_BYTES_MAX / 2);
        let too_long = format!("{long}.");
        let post = json!({"from": "pm", "to": "pm", "kind": "free", "body": too_long});
        let refused = Reply::error("body has 1048577 bytes; accepted: at most 1048576");
        assert_eq!(session.call("post_message", &post), refused);
        assert_eq!(relay.pending()["pm"], 0);
        session.post("pm", "pm", &long);
        assert!(session.read("pm").bodies() == [long], "the body comes back whole");
    });
}

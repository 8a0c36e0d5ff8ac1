//! Streams that are replaced or closed while something is on its way to them.

use super::*;

/// Opens a stream under the id of another.
fn come_back(relay: &Relay, session: &Session) -> EventStream {
    let request = Request::get("/sse").with("Last-Event-ID", session.id());
    let mut stream = EventStream::open(relay.connect(), &request);
    let hello = stream.event();
    assert_eq!(hello.data.as_deref(), Some(session.target.as_str()));
    stream
}

/// Splits a post's request where its body is half there.
fn halves(session: &Session) -> (Vec<u8>, Vec<u8>) {
    let arguments = json!({"from": "pm", "to": "dev-a", "kind": "free", "body": "slow"});
    let params = json!({"name": "post_message", "arguments": arguments});
    let bytes = session.request_of(1, "tools/call", params).bytes();
    let (head, tail) = bytes.split_at(bytes.len() - 40);
    (head.to_vec(), tail.to_vec())
}

/// The design's smoke test shows no more than the first lines of a stream.
#[test]
fn the_first_lines_of_a_stream_say_where_calls_go() {
    use std::io::{BufRead as _, BufReader, Write as _};

    let relay = Relay::start_told();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", relay.port)).expect("it listens");
    stream
        .write_all(b"GET /sse HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .expect("it is taken");
    let lines = BufReader::new(stream).lines().map(|line| line.expect("text"));
    let mut body = lines.skip_while(|line| !line.is_empty()).skip(1);
    assert_eq!(body.next().as_deref(), Some("event: endpoint"));
    let second = body.next().expect("it goes on");
    assert!(second.starts_with("data: /message?sessionId="), "{second}");
}

#[test]
fn the_old_stream_ends_when_its_client_comes_back() {
    let relay = Relay::start_told();
    let mut session = relay.session(Way::Sse);
    let _new = come_back(&relay, &session);
    assert_eq!(
        session
            .stream
            .as_mut()
            .expect("a stream")
            .next(crate::support::PATIENCE),
        Seen::End
    );
    relay.await_sessions(1);
}

#[test]
fn a_post_whose_stream_is_replaced_while_its_body_arrives_is_answered_in_the_new_one() {
    let relay = Relay::start_told();
    let session = relay.session(Way::Sse);
    let (head, tail) = halves(&session);
    let mut slow = relay.connect();
    slow.send(&head);
    let mut new = come_back(&relay, &session);
    slow.send(&tail);
    assert_eq!(slow.response().status, 202);
    let data = new.event().data.expect("an answer");
    let answer: Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!(
        (answer["id"].clone(), answer["result"]["isError"].clone()),
        (json!(1), json!(false))
    );
    assert_eq!(relay.pending()["dev-a"], 1);
}

#[test]
fn a_post_whose_stream_ends_while_its_body_arrives_is_refused_and_not_carried_out() {
    let relay = Relay::start_told();
    let session = relay.session(Way::Sse);
    let (head, tail) = halves(&session);
    let mut slow = relay.connect();
    slow.send(&head);
    let id = session.id().to_owned();
    drop(session);
    relay.await_sessions(0);
    slow.send(&tail);
    let response = slow.response();
    let reason = format!("unknown session {id:?}; GET /sse opens one");
    assert_eq!(
        (response.status, response.json()),
        (404, json!({"error": reason}))
    );
    assert_eq!(relay.pending()["dev-a"], 0);
}

#[test]
fn a_stream_takes_call_after_call_as_long_as_it_is_read() {
    let relay = Relay::start_told();
    let mut session = relay.session(Way::Sse);
    // More than may be unread at a time.
    for _ in 0..1_100 {
        assert_eq!(session.read("pm").bodies(), Vec::<String>::new());
    }
}

/// Its next call said that it had read the answer, and its cancellation was still on its way.
#[test]
fn a_cancellation_that_comes_when_its_client_has_come_back_still_undoes_the_answer() {
    let relay = Relay::start_told();
    let mut reader = relay.session(Way::Sse);
    reader.post("pm", "dev-a", "m1");
    assert_eq!(reader.read("dev-a").bodies(), ["m1"]);
    reader.call("list_pending", &json!({"for": "pm"}));
    let _new = come_back(&relay, &reader);
    relay.await_sessions(1);
    reader.notify("notifications/cancelled", &json!({"requestId": 2}));
    assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), ["again: m1"]);
}

#[test]
fn who_was_given_a_name_has_it_still_when_its_client_comes_back() {
    let relay = Relay::start_told();
    let path = "?tools=agent-relay";
    let mut unnamed = Session::open_at(relay.port, Way::Sse, path);
    unnamed.call("relay_send", &json!({"to": "dev-a", "message": "one"}));
    let mut dev_a = relay.session(Way::Http);
    let name = dev_a.read("dev-a").messages()[0]["from"].clone();
    let name = name.as_str().expect("a name");
    assert!(name.starts_with("mcp-"), "{name}");
    dev_a.post("dev-a", name, "for you alone");
    unnamed.call("relay_inbox", &json!({}));
    let request = Request::get(&format!("/sse{path}")).with("Last-Event-ID", unnamed.id());
    let mut stream = EventStream::open(relay.connect(), &request);
    stream.event();
    unnamed.stream = Some(stream);
    // Once the relay has seen that the old stream is gone.
    until("it is back", || {
        let again = unnamed.call("relay_inbox", &json!({}));
        again.texts[0].contains("for you alone")
    });
    unnamed.call("relay_send", &json!({"to": "dev-a", "message": "two"}));
    assert_eq!(dev_a.read("dev-a").messages()[0]["from"], name);
}

use super::*;
use std::time::Instant;

#[test]
fn a_wait_ends_as_soon_as_there_is_a_message() {
    over_each(&WAYS, |relay, way| {
        let mut reader = relay.session(way);
        let wait = reader.wait("dev-a", 280.0);
        until("the session of the waiting reader", || relay.sessions() == 1);
        relay.session(Way::Http).post("pm", "dev-a", "m1");
        assert_eq!(reader.finish(wait).bodies(), ["m1"]);
    });
}

#[test]
fn a_wait_does_not_wait_for_what_is_there_already() {
    over_each(&WAYS, |relay, way| {
        let mut session = relay.session(way);
        session.post("pm", "dev-a", "m1");
        let started = Instant::now();
        let wait = session.wait("dev-a", 280.0);
        assert_eq!(session.finish(wait).bodies(), ["m1"]);
        assert!(started.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn a_wait_is_answered_at_once_when_it_has_a_start_to_tell_of() {
    for way in WAYS {
        let mut relay = Relay::start_told();
        relay.kill_and_restart();
        let mut session = relay.session(way);
        let started = Instant::now();
        let wait = session.wait("pm", 280.0);
        let reply = session.finish(wait);
        assert_eq!(reply.texts, ["[]".to_owned(), start_notice(&relay)]);
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_wait_without_a_message_ends_empty_handed_after_its_time() {
    over_each(&WAYS, |relay, way| {
        let mut session = relay.session(way);
        let started = Instant::now();
        let wait = session.wait("dev-a", 1.0);
        assert_eq!(session.finish(wait), Reply::of("[]"));
        let waited = started.elapsed();
        assert!(
            (Duration::from_millis(990)..Duration::from_secs(4)).contains(&waited),
            "{waited:?}"
        );
    });
}

#[test]
fn the_reader_that_has_waited_longest_gets_the_message() {
    let relay = Relay::start_told();
    let mut first = relay.session(Way::Sse);
    let mut second = relay.session(Way::Sse);
    let waits = [first.wait("pm", 60.0), second.wait("pm", 60.0)];
    let mut sender = relay.session(Way::Http);
    sender.post("dev-a", "pm", "m1");
    assert_eq!(first.finish(waits[0]).bodies(), ["m1"]);
    second.hears_nothing(QUIET);
    sender.post("dev-a", "pm", "m2");
    assert_eq!(second.finish(waits[1]).bodies(), ["m2"]);
}

#[test]
fn a_second_wait_of_a_session_ends_the_first_empty_handed() {
    let relay = Relay::start_told();
    let mut session = relay.session(Way::Sse);
    let first = session.wait("pm", 60.0);
    let second = session.wait("pm", 60.0);
    assert_eq!(session.finish(first), Reply::of("[]"));
    relay.session(Way::Http).post("dev-a", "pm", "m1");
    assert_eq!(session.finish(second).bodies(), ["m1"]);
}

#[test]
fn a_cancelled_wait_is_not_answered_and_takes_nothing() {
    let relay = Relay::start_told();
    let mut cancelled = relay.session(Way::Sse);
    let wait = cancelled.wait("dev-a", 60.0);
    cancelled.cancel(wait);
    let mut sender = relay.session(Way::Http);
    sender.post("pm", "dev-a", "m1");
    assert_eq!(sender.read("dev-a").bodies(), ["m1"]);
    // The next thing on the stream is the answer to the next call.
    let none = json!({"count": 0, "kinds": []}).to_string();
    assert_eq!(
        cancelled.call("list_pending", &json!({"for": "dev-a"})),
        Reply::of(&none)
    );
}

#[test]
fn a_cancelled_wait_makes_room_for_the_next_in_line() {
    let relay = Relay::start_told();
    let mut first = relay.session(Way::Sse);
    let mut second = relay.session(Way::Sse);
    let cancelled = first.wait("dev-a", 60.0);
    let wait = second.wait("dev-a", 60.0);
    first.cancel(cancelled);
    relay.session(Way::Http).post("pm", "dev-a", "m1");
    assert_eq!(second.finish(wait).bodies(), ["m1"]);
    first.hears_nothing(QUIET);
}

#[test]
fn a_read_that_is_cancelled_after_its_answer_was_written_is_undone() {
    let relay = Relay::start_told();
    let mut reader = relay.session(Way::Sse);
    reader.post("pm", "dev-a", "m1");
    let read = reader.begin("read_messages", &json!({"for": "dev-a"}));
    // An agent that cancels does not look at an answer that comes all the same.
    reader.cancel(read);
    assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), ["again: m1"]);
}

/// Two connections carry the cancellation and the next call, which may overtake each other.
#[test]
fn a_cancellation_that_its_clients_next_call_has_overtaken_still_undoes_the_answer() {
    over_each(&[Way::Sse, Way::ModernSse], |relay, way| {
        let mut reader = relay.session(way);
        let wait = reader.wait("dev-a", 60.0);
        relay.session(Way::Http).post("pm", "dev-a", "m1");
        assert_eq!(reader.finish(wait).bodies(), ["m1"]);
        let pending = reader.call("list_pending", &json!({"for": "dev-a"})).json();
        assert_eq!(pending["count"], 0);
        reader.notify("notifications/cancelled", &json!({"requestId": 1}));
        assert_eq!(reader.read("dev-a").bodies(), ["again: m1"]);
    });
}

/// A forwarder between them makes an orderly end of a connection that was broken off.
#[test]
fn a_cancellation_after_the_orderly_end_of_its_connection_still_undoes_the_answer() {
    over_each(&EXCHANGES, |relay, way| {
        relay.session(Way::Http).post("pm", "dev-a", "m1");
        let mut reader = relay.session(way);
        let read = json!({"name": "read_messages", "arguments": {"for": "dev-a"}});
        let read = reader.request_of(7, "tools/call", read);
        reader.calls.send(&read.with("Mcp-Session-Id", "mine").bytes());
        assert!(reader.calls.response().text().contains("m1"));
        drop(reader);
        relay.await_sessions(0);
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        let cancel = Request::post("/mcp", cancelled.to_string());
        relay.connect().exchange(&cancel.with("Mcp-Session-Id", "mine"));
        assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), ["again: m1"]);
    });
}

#[test]
fn a_wait_over_http_is_cancelled_by_who_names_its_session_id() {
    over_each(&EXCHANGES, |relay, way| {
        let mut waiting = relay.session(way);
        let params = json!({
            "name": "read_messages",
            "arguments": {"for": "dev-a", "wait_seconds": 60},
        });
        let wait = waiting.request_of(7, "tools/call", params);
        waiting.calls.send(&wait.with("Mcp-Session-Id", "mine").bytes());
        until("the session of the waiting reader", || relay.sessions() == 1);
        let cancel = |session_id: &str, id: u64| {
            let params = json!({"requestId": id});
            let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            let request = Request::post("/mcp", cancelled.to_string());
            let response = relay
                .connect()
                .exchange(&request.with("Mcp-Session-Id", session_id));
            assert_eq!((response.status, response.text()), (202, String::new()));
        };
        cancel("another", 7);
        cancel("mine", 8);
        assert_eq!(waiting.calls.receive(QUIET), Arrived::Nothing);
        cancel("mine", 7);
        let response = waiting.calls.response();
        assert!(!response.text().contains("[]"), "{response:?}");
        let mut other = relay.session(way);
        other.post("pm", "dev-a", "m1");
        assert_eq!(other.read("dev-a").bodies(), ["m1"]);
    });
}

#[test]
fn a_cancelled_wait_with_a_progress_token_is_not_answered_in_a_version_that_has_sessions() {
    for (way, told_first) in [
        (Way::Http, false),
        (Way::Http, true),
        (Way::Modern, false),
        (Way::Modern, true),
    ] {
        let relay = Relay::start_told();
        let mut waiting = relay.session(way);
        let params = json!({
            "name": "read_messages",
            "arguments": {"for": "dev-a", "wait_seconds": 60},
            "_meta": {"progressToken": 1},
        });
        let wait = waiting.request_of(7, "tools/call", params);
        waiting.calls.send(&wait.with("Mcp-Session-Id", "mine").bytes());
        until("the session of the waiting reader", || relay.sessions() == 1);
        if told_first {
            waiting.calls.await_unread_bytes();
        }
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        let cancel = Request::post("/mcp", cancelled.to_string());
        relay.connect().exchange(&cancel.with("Mcp-Session-Id", "mine"));
        let response = waiting.calls.response();
        if way == Way::Http && !told_first {
            assert_eq!((response.status, response.text()), (202, String::new()));
        } else {
            let mut messages = messages_of(&response);
            if way == Way::Modern {
                // In this version each request has a response.
                let error = json!({"code": -32_603, "message": "the call was cancelled"});
                let answer = messages.pop().expect("an answer");
                assert_eq!((&answer["id"], &answer["error"]), (&json!(7), &error));
            }
            assert_eq!(messages.len(), usize::from(told_first), "{messages:?}");
            for told in messages {
                assert_eq!(told["method"], "notifications/progress");
            }
        }
        if way == Way::Http && told_first {
            // A client that had no response asks for the rest of the stream, and is told that there is none.
            let text = response.text();
            let mut ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
            let rest = Request::get("/mcp").with("Last-Event-ID", ids.next_back().expect("it has an id"));
            let rest = relay.connect().exchange(&rest.with("Mcp-Session-Id", "mine"));
            assert_eq!(rest.status, 405, "{rest:?}");
        }
        // The connection is as good as before.
        waiting.post("pm", "dev-a", "m1");
        assert_eq!(waiting.read("dev-a").bodies(), ["m1"]);
    }
}

/// Two connections have no common order, so a cancellation may overtake its request.
#[test]
fn a_call_whose_cancellation_came_first_is_not_carried_out() {
    over_each(&WAYS, |relay, way| {
        let mut session = relay.session(way);
        session.post("pm", "dev-a", "m1");
        let cancelled = json!({"requestId": 77});
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled});
        let cancel = Request::post(&session.target, cancelled.to_string());
        let cancel = cancel.with("Mcp-Session-Id", "mine");
        assert_eq!(relay.connect().exchange(&cancel).status, 202);
        let read = json!({"name": "read_messages", "arguments": {"for": "dev-a"}});
        let request = session.request_of(77, "tools/call", read);
        let response = session.calls.exchange(&request.with("Mcp-Session-Id", "mine"));
        assert!(!response.text().contains("m1"), "{response:?}");
        assert_eq!(relay.pending()["dev-a"], 1);
        // The next answer on a stream is the one to the next call.
        assert_eq!(session.read("dev-a").bodies(), ["m1"]);
    });
}

#[test]
fn progress_is_told_on_the_stream_to_who_asked_for_it() {
    let relay = Relay::start_told();
    let mut session = relay.session(Way::Sse);
    let wait = session.wait_with_progress("pm", 60.0, &json!("tok"));
    assert_eq!(
        session.heard(),
        json!({
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": "tok", "progress": 1.0, "message": "waiting for a message"},
        })
    );
    relay.session(Way::Http).post("dev-a", "pm", "m1");
    assert_eq!(session.finish(wait).bodies(), ["m1"]);
}

#[test]
fn progress_is_told_over_http_before_the_answer() {
    over_each(&EXCHANGES, |relay, way| {
        let mut reader = relay.session(way);
        reader.wait_with_progress("pm", 60.0, &json!(9));
        // The first word of progress, which is the same as on the stream.
        reader.calls.await_unread_bytes();
        relay.session(Way::Http).post("dev-a", "pm", "m1");
        let messages = messages_of(&reader.calls.response());
        let [progress @ .., answer] = messages.as_slice() else {
            panic!("no message");
        };
        assert!(!progress.is_empty(), "{messages:?}");
        let params = json!({"progressToken": 9, "progress": 1.0, "message": "waiting for a message"});
        assert_eq!(progress[0]["params"], params);
        for told in progress {
            assert_eq!(told["method"], "notifications/progress");
            assert_eq!(told["params"]["progressToken"], 9);
        }
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains(r#""body":"m1""#), "{answer}");
        // A connection closed in order after its reply was read confirms it, here too.
        drop(reader);
        relay.await_sessions(0);
        assert_eq!(relay.session(Way::Http).read("pm"), Reply::of("[]"));
    });
}

#[test]
fn a_reader_that_hangs_up_while_it_is_told_of_progress_loses_nothing() {
    over_each(&EXCHANGES, |relay, way| {
        let mut reader = relay.session(way);
        reader.wait_with_progress("pm", 60.0, &json!(9));
        reader.calls.await_unread_bytes();
        drop(reader);
        let mut sender = relay.session(Way::Http);
        sender.post("dev-a", "pm", "m1");
        let mut next_reader = relay.session(Way::Http);
        let wait = next_reader.wait("pm", 5.0);
        let bodies = next_reader.finish(wait).bodies();
        assert!(bodies == ["m1"] || bodies == ["again: m1"], "{bodies:?}");
    });
}

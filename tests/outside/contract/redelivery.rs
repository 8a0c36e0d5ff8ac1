use super::*;

#[test]
fn what_a_dropped_stream_has_not_confirmed_comes_first_and_marked() {
    let relay = Relay::start_told();
    let mut sender = relay.session(Way::Http);
    let mut reader = relay.session(Way::Sse);
    for body in ["m1", "m2"] {
        sender.post("pm", "dev-a", body);
    }
    assert_eq!(reader.read("dev-a").bodies(), ["m1", "m2"]);
    sender.post("pm", "dev-a", "m3");
    reader.stream = None;
    relay.await_sessions(1);
    sender.post("pm", "dev-a", "m4");
    let again = relay.session(Way::Sse).read("dev-a");
    assert_eq!(again.bodies(), ["again: m1", "again: m2", "m3", "m4"]);
    assert_eq!(again.texts.len(), 1);
}

#[test]
fn a_redelivered_message_is_the_same_but_for_its_mark() {
    let relay = Relay::start_told();
    let mut reader = relay.session(Way::Sse);
    reader.post("pm", "dev-a", "m1");
    let mut first = reader.read("dev-a").messages();
    drop(reader);
    relay.await_sessions(0);
    first[0]["redelivered"] = json!(true);
    assert_eq!(relay.session(Way::Http).read("dev-a").messages(), first);
}

#[test]
fn a_message_comes_again_as_often_as_its_reader_is_lost() {
    let relay = Relay::start_told();
    relay.session(Way::Http).post("pm", "dev-a", "m1");
    let mut expected = "m1";
    for _ in 0..3 {
        let mut reader = relay.session(Way::Sse);
        assert_eq!(reader.read("dev-a").bodies(), [expected]);
        drop(reader);
        relay.await_sessions(0);
        expected = "again: m1";
    }
    assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), [expected]);
}

#[test]
fn readers_that_are_lost_in_any_order_leave_the_old_order() {
    let relay = Relay::start_told();
    let mut sender = relay.session(Way::Http);
    let mut readers = Vec::new();
    for body in ["m1", "m2", "m3"] {
        sender.post("pm", "dev-a", body);
        let mut reader = relay.session(Way::Sse);
        assert_eq!(reader.read("dev-a").bodies(), [body]);
        readers.push(reader);
    }
    for (lost, left) in [(1, 3), (1, 2), (0, 1)] {
        drop(readers.remove(lost));
        relay.await_sessions(left);
    }
    assert_eq!(
        sender.read("dev-a").bodies(),
        ["again: m1", "again: m2", "again: m3"]
    );
}

/// The next call may come as soon as the reply is there, so each kind of it is tried many times.
#[test]
fn the_next_call_of_a_session_confirms_what_it_has_read() {
    let relay = Relay::start_told();
    let calls = [
        ("list_pending", json!({"for": "pm"})),
        ("read_messages", json!({"for": "dev-a"})),
        (
            "post_message",
            json!({"from": "dev-a", "to": "dev-b", "kind": "free", "body": ""}),
        ),
    ];
    let mut shown_again = Vec::new();
    for number in 0..150 {
        let (next, arguments) = &calls[number % 3];
        let body = format!("{number} before {next}");
        let mut reader = relay.session(Way::Sse);
        reader.post("pm", "dev-a", &body);
        assert_eq!(reader.read("dev-a").bodies(), [body]);
        assert!(!reader.call(next, arguments).is_error);
        drop(reader);
        relay.await_sessions(0);
        let mut next_reader = relay.session(Way::Http);
        shown_again.extend(next_reader.read("dev-a").bodies());
        drop(next_reader);
        relay.await_sessions(0);
    }
    assert_eq!(shown_again, Vec::<String>::new());
}

#[test]
fn a_connection_closed_after_its_reply_was_read_confirms_it() {
    over_each(&EXCHANGES, |relay, way| {
        let mut reader = relay.session(way);
        reader.post("pm", "dev-a", "m1");
        assert_eq!(reader.read("dev-a").bodies(), ["m1"]);
        drop(reader);
        relay.await_sessions(0);
        assert_eq!(relay.session(way).read("dev-a"), Reply::of("[]"));
    });
}

/// Reads over a connection that the relay is asked to close after its reply.
fn begin_last_read(reader: &mut Session) {
    let read = json!({"name": "read_messages", "arguments": {"for": "dev-a"}});
    let request = reader.request_of(1, "tools/call", read);
    reader.calls.send(&request.with("Connection", "close").bytes());
}

#[test]
fn a_connection_closed_by_the_relay_after_its_reply_was_read_confirms_it() {
    over_each(&EXCHANGES, |relay, way| {
        relay.session(way).post("pm", "dev-a", "m1");
        let mut reader = relay.session(way);
        begin_last_read(&mut reader);
        assert!(reader.calls.response().text().contains("m1"));
        assert_eq!(reader.calls.receive(crate::support::PATIENCE), Arrived::Closed);
        drop(reader);
        relay.await_sessions(0);
        assert_eq!(relay.session(way).read("dev-a"), Reply::of("[]"));
    });
}

#[test]
fn a_reply_that_arrived_and_was_not_read_comes_again() {
    over_each(&EXCHANGES, |relay, way| {
        relay.session(way).post("pm", "dev-a", "m1");
        let mut reader = relay.session(way);
        reader.begin("read_messages", &json!({"for": "dev-a"}));
        reader.calls.await_unread_bytes();
        drop(reader);
        relay.await_sessions(0);
        assert_eq!(relay.session(way).read("dev-a").bodies(), ["again: m1"]);
    });
}

#[test]
fn a_last_reply_that_arrived_and_was_not_read_comes_again() {
    over_each(&EXCHANGES, |relay, way| {
        relay.session(way).post("pm", "dev-a", "m1");
        let mut reader = relay.session(way);
        begin_last_read(&mut reader);
        reader.calls.await_unread_bytes();
        drop(reader);
        relay.await_sessions(0);
        assert_eq!(relay.session(way).read("dev-a").bodies(), ["again: m1"]);
    });
}

#[test]
fn a_reply_that_was_read_in_part_comes_again() {
    over_each(&EXCHANGES, |relay, way| {
        let body = "x".repeat(1024 * 1024);
        for _ in 0..2 {
            relay.session(way).post("pm", "dev-a", &body);
        }
        let mut reader = relay.session(way);
        reader.begin("read_messages", &json!({"for": "dev-a"}));
        assert_eq!(reader.calls.receive(crate::support::PATIENCE), Arrived::More);
        drop(reader);
        relay.await_sessions(0);
        let again = relay.session(way).read("dev-a").bodies();
        assert!(
            again == vec![format!("again: {body}"); 2],
            "{} messages",
            again.len()
        );
    });
}

/// Has a hundred readers each read one message and hang up at once, and makes sure that another gets it.
fn hang_up_at_once(relay: &Relay, way: Way, begin_read: impl Fn(&mut Session)) {
    let mut sender = relay.session(way);
    let mut next_reader = relay.session(way);
    for number in 0..100 {
        let body = number.to_string();
        sender.post("pm", "dev-a", &body);
        let mut reader = relay.session(way);
        begin_read(&mut reader);
        drop(reader);
        let wait = next_reader.wait("dev-a", 5.0);
        let bodies = next_reader.finish(wait).bodies();
        let again = format!("again: {body}");
        assert!(
            bodies == [body.clone()] || bodies == [again],
            "{body} became {bodies:?}"
        );
    }
}

#[test]
fn a_reader_that_hangs_up_at_once_loses_nothing() {
    over_each(&EXCHANGES, |relay, way| {
        hang_up_at_once(relay, way, |reader| {
            reader.begin("read_messages", &json!({"for": "dev-a"}));
        });
    });
}

#[test]
fn a_reader_that_asks_the_relay_to_hang_up_and_is_faster_loses_nothing() {
    over_each(&EXCHANGES, |relay, way| {
        hang_up_at_once(relay, way, begin_last_read)
    });
}

#[test]
fn a_waiting_reader_that_hung_up_is_given_nothing() {
    over_each(&WAYS, |relay, way| {
        let mut reader = relay.session(way);
        reader.wait("dev-a", 60.0);
        until("the session of the waiting reader", || relay.sessions() == 1);
        drop(reader);
        relay.await_sessions(0);
        let mut sender = relay.session(way);
        sender.post("pm", "dev-a", "m1");
        assert_eq!(sender.read("dev-a").bodies(), ["m1"]);
    });
}

#[test]
fn a_waiting_reader_that_hangs_up_while_a_message_comes_loses_nothing() {
    over_each(&WAYS, |relay, way| {
        let mut sender = relay.session(Way::Http);
        let mut next_reader = relay.session(Way::Http);
        for session in [&mut sender, &mut next_reader] {
            assert_eq!(session.read("dev-a"), Reply::of("[]"));
        }
        for number in 0..30 {
            let body = number.to_string();
            let mut reader = relay.session(way);
            reader.wait("dev-a", 60.0);
            until("the session of the waiting reader", || relay.sessions() == 3);
            drop(reader);
            sender.post("pm", "dev-a", &body);
            let wait = next_reader.wait("dev-a", 5.0);
            let bodies = next_reader.finish(wait).bodies();
            let again = format!("again: {body}");
            assert!(
                bodies == [body.clone()] || bodies == [again],
                "{body} became {bodies:?}"
            );
            relay.await_sessions(2);
        }
    });
}

#[test]
fn a_waiting_reader_is_given_what_another_has_lost() {
    let relay = Relay::start_told();
    let mut lost = relay.session(Way::Sse);
    lost.post("pm", "dev-a", "m1");
    assert_eq!(lost.read("dev-a").bodies(), ["m1"]);
    let mut waiting = relay.session(Way::Sse);
    let wait = waiting.wait("dev-a", 60.0);
    drop(lost);
    assert_eq!(waiting.finish(wait).bodies(), ["again: m1"]);
}

#[test]
fn a_client_that_says_that_it_sends_no_more_has_not_read_what_it_was_sent() {
    over_each(&EXCHANGES, |relay, way| {
        for (at, unread_first) in [(0, true), (1, false)] {
            relay.session(Way::Http).post("dev-a", "pm", &format!("m{at}"));
            let mut client = relay.session(way);
            let read = json!({"name": "read_messages", "arguments": {"for": "pm"}});
            client
                .calls
                .send(&client.request_of(1, "tools/call", read).bytes());
            if unread_first {
                client.calls.await_unread_bytes();
            }
            client.calls.end_sending();
            // relay sees the end of what it is sent, and has no reason to take it for more.
            until("the read is carried out or given up", || {
                let health = relay.health();
                let mut roles = health["roles"].as_array().expect("roles").iter();
                roles.any(|role| role["role"] == "pm" && (role["in_doubt"] == 1 || role["unread"] == 1))
            });
            std::thread::sleep(Duration::from_millis(100));
            drop(client);
            until("the message is back", || relay.pending()["pm"] == 1);
            let again = relay.session(Way::Http).read("pm");
            assert_eq!(again.bodies().len(), 1, "{again:?}");
            relay.await_sessions(0);
        }
    });
}

#[test]
fn a_client_that_says_that_it_sends_no_more_and_reads_its_answer_has_read_it() {
    let relay = Relay::start_told();
    relay.session(Way::Http).post("dev-a", "pm", "m1");
    let mut client = relay.session(Way::Http);
    assert_eq!(client.read("pm").bodies(), ["m1"]);
    client.calls.end_sending();
    drop(client);
    relay.await_sessions(0);
    assert_eq!(relay.session(Way::Http).read("pm").bodies(), Vec::<String>::new());
}

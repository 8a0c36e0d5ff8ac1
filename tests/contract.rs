//! The delivery contract as a client sees it, over HTTP+SSE and over streamable HTTP: order, once, never lost, told of a start.
//!
//! The sockets are raw so that a test decides when a stream ends, when a reply is read and how a connection closes.

#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for another process by the clock, and reads its output in threads"
)]

#[expect(dead_code, reason = "each test file uses a part of what they share")]
mod support;

use std::time::Duration;

use serde_json::{Value, json};

use support::http::{Arrived, Request};
use support::process::Relay;
use support::session::{QUIET, Reply, Session, WAYS, Way, messages_of};
use support::sse::{Event, EventStream, Seen};
use support::until;

const TOKEN: &str = "0123456789abcdef";

/// Streamable HTTP, whose replies belong to one exchange each.
const EXCHANGES: [Way; 2] = [Way::Http, Way::Modern];

/// A relay whose start has been told to all roles.
fn told_relay() -> Relay {
    let relay = Relay::start();
    let mut session = relay.session(Way::Http);
    for role in ["pm", "dev-a", "dev-b"] {
        session.hear_of_start(role);
    }
    drop(session);
    relay.await_sessions(0);
    relay
}

/// Runs a test over each transport, each time with a relay of its own.
fn over_each(ways: &[Way], test: impl Fn(&Relay, Way)) {
    for &way in ways {
        println!("over {way:?}");
        test(&told_relay(), way);
    }
}

fn start_notice(relay: &Relay) -> String {
    let health = relay.health();
    let started_at = health["started_at"].as_str().expect("a time");
    format!(
        "relay started at {started_at}; nothing sent before that is here; send again what was not acknowledged"
    )
}

mod order {
    use super::*;

    #[test]
    fn messages_come_in_the_order_of_acceptance_from_all_senders_and_transports() {
        let relay = told_relay();
        let mut senders = WAYS.map(|way| relay.session(way));
        let roles = ["pm", "dev-a", "dev-b"];
        let kinds = ["status", "question", "directive", "free"];
        let mut expected = Vec::new();
        for number in 0..24 {
            let (from, kind) = (roles[number % 3], kinds[number % 4]);
            let body = format!("line one of {number}\nline \"two\"");
            let post = json!({"from": from, "to": "dev-a", "kind": kind, "body": body});
            let id = senders[(number / 2) % 3].call("post_message", &post).posted();
            expected.push(json!({"id": id, "from": from, "to": "dev-a", "kind": kind, "body": body}));
        }
        let mut read = relay.session(Way::Sse).read("dev-a").messages();
        let mut last = String::new();
        for message in &mut read {
            let ts = message.as_object_mut().expect("an object").remove("ts");
            let ts = ts.expect("a time").as_str().expect("a text").to_owned();
            assert!(is_utc_with_milliseconds(&ts), "{ts}");
            assert!(last <= ts, "{last} is before {ts}");
            last = ts;
        }
        assert_eq!(read, expected);
        for message in read {
            assert!(is_uuid_v4(message["id"].as_str().expect("a text")), "{message}");
        }
    }

    #[test]
    fn senders_at_the_same_time_each_keep_their_order() {
        const EACH: usize = 60;
        let relay = told_relay();
        let port = relay.port;
        let senders = [Way::Sse, Way::Http, Way::Modern, Way::Http].map(|way| {
            std::thread::spawn(move || {
                let mut session = Session::open(port, way, None);
                (0..EACH)
                    .map(|_| session.post("pm", "dev-b", "b"))
                    .collect::<Vec<String>>()
            })
        });
        let sent = senders.map(|sender| sender.join().expect("the sender's session works"));
        let read = relay.session(Way::Http).read("dev-b").messages();
        let ids: Vec<&str> = read
            .iter()
            .map(|message| message["id"].as_str().expect("a text"))
            .collect();
        assert_eq!(ids.len(), 4 * EACH);
        for sent in sent {
            let own: Vec<&str> = ids
                .iter()
                .copied()
                .filter(|id| sent.iter().any(|s| s == id))
                .collect();
            assert_eq!(own, sent);
        }
    }

    fn is_utc_with_milliseconds(ts: &str) -> bool {
        let shape = ts.bytes().map(|b| if b.is_ascii_digit() { b'0' } else { b });
        shape.eq("0000-00-00T00:00:00.000Z".bytes()) && chrono::DateTime::parse_from_rfc3339(ts).is_ok()
    }

    fn is_uuid_v4(id: &str) -> bool {
        uuid::Uuid::parse_str(id).is_ok_and(|uuid| uuid.get_version_num() == 4 && uuid.to_string() == id)
    }
}

mod once {
    use super::*;

    #[test]
    fn what_was_read_is_not_there_any_more() {
        over_each(&WAYS, |relay, way| {
            let mut sender = relay.session(way);
            sender.post("pm", "dev-a", "m1");
            sender.post("pm", "dev-a", "m2");
            let mut reader = relay.session(way);
            assert_eq!(reader.read("dev-a").bodies(), ["m1", "m2"]);
            assert_eq!(
                relay.session(Way::Http).read("dev-a"),
                Reply::of("[]"),
                "in doubt"
            );
            assert_eq!(reader.read("dev-a"), Reply::of("[]"));
            assert_eq!(
                relay.session(Way::Http).read("dev-a"),
                Reply::of("[]"),
                "confirmed"
            );
        });
    }

    #[test]
    fn readers_at_the_same_time_share_the_messages_and_see_none_twice() {
        const MESSAGES: usize = 200;
        let relay = told_relay();
        let port = relay.port;
        let readers = WAYS.map(|way| {
            std::thread::spawn(move || {
                let mut session = Session::open(port, way, None);
                let mut read: Vec<String> = Vec::new();
                while read.last().is_none_or(|last| last != "end") {
                    let call = session.wait("pm", 20.0);
                    let bodies = session.finish(call).bodies();
                    assert!(!bodies.is_empty(), "a wait has ended with nothing");
                    read.extend(bodies);
                }
                // The last message is for all: whoever has it passes it on.
                session.post("pm", "pm", "end");
                assert_eq!(read.pop().as_deref(), Some("end"));
                read
            })
        });
        let mut sender = relay.session(Way::Http);
        let mut sent: Vec<String> = (0..MESSAGES).map(|number| format!("{number:03}")).collect();
        for body in &sent {
            sender.post("dev-a", "pm", body);
        }
        sender.post("dev-a", "pm", "end");
        let read = readers.map(|reader| reader.join().expect("the reader's session works"));
        for own in &read {
            assert!(own.is_sorted(), "{own:?}");
        }
        let mut read = read.concat();
        read.sort();
        sent.sort();
        assert_eq!(read, sent);
    }

    #[test]
    fn what_was_handed_over_is_not_pending_and_nothing_is_taken_by_looking() {
        over_each(&WAYS, |relay, way| {
            let mut session = relay.session(way);
            for kind in ["question", "status", "question"] {
                let post = json!({"from": "pm", "to": "dev-b", "kind": kind, "body": ""});
                session.call("post_message", &post).posted();
            }
            let look = |session: &mut Session| session.call("list_pending", &json!({"for": "dev-b"}));
            let all = json!({"count": 3, "kinds": ["question", "status", "question"]});
            for _ in 0..2 {
                assert_eq!(look(&mut session), Reply::of(&all.to_string()));
            }
            assert_eq!(relay.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 3}));
            assert_eq!(session.read("dev-b").bodies().len(), 3);
            assert_eq!(relay.pending()["dev-b"], 0, "in doubt");
            let none = Reply::of(&json!({"count": 0, "kinds": []}).to_string());
            assert_eq!(look(&mut relay.session(Way::Http)), none, "in doubt");
            assert_eq!(look(&mut session), none);
            assert_eq!(relay.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 0}));
        });
    }
}

mod restart {
    use super::*;

    #[test]
    fn the_first_read_of_each_role_after_each_start_tells_of_it() {
        let mut relay = Relay::start();
        for _ in 0..2 {
            let notice = start_notice(&relay);
            for (role, way) in ["pm", "dev-a", "dev-b"].into_iter().zip(WAYS) {
                let mut session = relay.session(way);
                let first = Reply {
                    texts: vec!["[]".to_owned(), notice.clone()],
                    is_error: false,
                };
                assert_eq!(session.read(role), first, "{role} over {way:?}");
                assert_eq!(session.read(role), Reply::of("[]"), "{role} over {way:?}");
                assert_eq!(
                    relay.session(way).read(role),
                    Reply::of("[]"),
                    "{role} over {way:?}"
                );
            }
            relay.kill_and_restart();
        }
    }

    #[test]
    fn a_notice_whose_reply_was_lost_is_given_again() {
        let relay = Relay::start();
        let mut lost = relay.session(Way::Http);
        lost.begin("read_messages", &json!({"for": "pm"}));
        lost.calls.await_unread_bytes();
        drop(lost);
        relay.await_sessions(0);
        let read = relay.session(Way::Sse).read("pm");
        assert_eq!(read.texts, ["[]".to_owned(), start_notice(&relay)]);
    }

    #[test]
    fn unread_messages_are_gone_after_a_restart() {
        over_each(&WAYS, |_, way| {
            let mut relay = told_relay();
            relay.session(way).post("pm", "dev-a", "lost");
            assert_eq!(relay.pending()["dev-a"], 1);
            let before = relay.health()["boot"].clone();
            relay.kill_and_restart();
            assert_ne!(relay.health()["boot"], before);
            let read = relay.session(way).read("dev-a");
            assert_eq!(read.texts, ["[]".to_owned(), start_notice(&relay)]);
        });
    }

    #[test]
    fn a_client_on_http_goes_on_over_a_new_connection() {
        for way in EXCHANGES {
            let mut relay = told_relay();
            let mut session = relay.session(way);
            relay.kill_and_restart();
            session.calls = relay.connect();
            session.post("pm", "dev-a", "after");
            assert_eq!(session.read("dev-a").bodies(), ["after"]);
        }
    }

    /// Reopens the stream of a session as a browser's `EventSource` does.
    fn reconnect(relay: &Relay, session: &mut Session) {
        let request = Request::get("/sse").with("Last-Event-ID", session.id());
        let mut stream = EventStream::open(relay.connect(), &request);
        let hello = stream.event();
        assert_eq!(hello.data.as_ref(), Some(&session.target), "the old address");
        assert_eq!(hello.id.as_deref(), Some(session.id()), "the old id");
        session.stream = Some(stream);
    }

    #[test]
    fn a_stream_that_comes_back_finds_its_old_address_working() {
        let mut relay = told_relay();
        let mut session = relay.session(Way::Sse);
        session.post("pm", "dev-a", "before");
        for _ in 0..2 {
            relay.kill_and_restart();
            session.calls = relay.connect();
            reconnect(&relay, &mut session);
            session.post("pm", "dev-a", "after");
            let read = session.read("dev-a");
            assert_eq!((read.bodies(), read.texts.len()), (vec!["after".to_owned()], 2));
            assert_eq!(session.read("dev-a"), Reply::of("[]"));
        }
    }

    #[test]
    fn a_call_that_comes_before_its_stream_is_back_waits_for_it() {
        let mut relay = told_relay();
        let mut session = relay.session(Way::Sse);
        relay.kill_and_restart();
        let mut early = relay.connect();
        let post = json!({
            "name": "post_message",
            "arguments": {"from": "pm", "to": "dev-a", "kind": "free", "body": "early"},
        });
        early.send(&session.request_of(77, "tools/call", post).bytes());
        assert_eq!(
            early.receive(Duration::from_millis(500)),
            Arrived::Nothing,
            "not refused yet"
        );
        assert_eq!(relay.pending()["dev-a"], 0, "not carried out yet");
        reconnect(&relay, &mut session);
        let response = early.response();
        assert_eq!((response.status, response.text()), (202, String::new()));
        assert_eq!(session.heard()["id"], 77);
        assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), ["early"]);
    }

    #[test]
    fn a_stream_that_comes_back_while_the_relay_runs_takes_the_place_of_the_old_one() {
        let relay = told_relay();
        let mut session = relay.session(Way::Sse);
        session.post("dev-a", "pm", "m1");
        assert_eq!(session.read("pm").bodies(), ["m1"]);
        let mut old = session.stream.take().expect("it is open");
        reconnect(&relay, &mut session);
        assert_eq!(old.next(support::PATIENCE), Seen::End);
        relay.await_sessions(1);
        assert_eq!(session.read("pm").bodies(), ["again: m1"]);
    }
}

mod redelivery {
    use super::*;

    #[test]
    fn what_a_dropped_stream_has_not_confirmed_comes_first_and_marked() {
        let relay = told_relay();
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
        let relay = told_relay();
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
        let relay = told_relay();
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
        let relay = told_relay();
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
        let relay = told_relay();
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
    fn a_reply_on_a_stream_that_stays_open_is_confirmed_without_another_call() {
        let relay = told_relay();
        let mut reader = relay.session(Way::Sse);
        reader.post("pm", "dev-a", "m1");
        assert_eq!(reader.read("dev-a").bodies(), ["m1"]);
        // One every 15 seconds; the doubt ends after 20.
        for _ in 0..2 {
            let stream = reader.stream.as_mut().expect("it is open");
            let keep_alive = Event {
                comment: Some("keep-alive".to_owned()),
                ..Event::default()
            };
            assert_eq!(stream.next(support::PATIENCE), Seen::Event(keep_alive));
        }
        drop(reader);
        relay.await_sessions(0);
        assert_eq!(relay.session(Way::Http).read("dev-a"), Reply::of("[]"));
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
            assert_eq!(reader.calls.receive(support::PATIENCE), Arrived::Closed);
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
            assert_eq!(reader.calls.receive(support::PATIENCE), Arrived::More);
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
        let relay = told_relay();
        let mut lost = relay.session(Way::Sse);
        lost.post("pm", "dev-a", "m1");
        assert_eq!(lost.read("dev-a").bodies(), ["m1"]);
        let mut waiting = relay.session(Way::Sse);
        let wait = waiting.wait("dev-a", 60.0);
        drop(lost);
        assert_eq!(waiting.finish(wait).bodies(), ["again: m1"]);
    }
}

mod waiting {
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
        let relay = told_relay();
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
        let relay = told_relay();
        let mut session = relay.session(Way::Sse);
        let first = session.wait("pm", 60.0);
        let second = session.wait("pm", 60.0);
        assert_eq!(session.finish(first), Reply::of("[]"));
        relay.session(Way::Http).post("dev-a", "pm", "m1");
        assert_eq!(session.finish(second).bodies(), ["m1"]);
    }

    #[test]
    fn a_cancelled_wait_is_not_answered_and_takes_nothing() {
        let relay = told_relay();
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
        let relay = told_relay();
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
        let relay = told_relay();
        let mut reader = relay.session(Way::Sse);
        reader.post("pm", "dev-a", "m1");
        let read = reader.begin("read_messages", &json!({"for": "dev-a"}));
        // An agent that cancels does not look at an answer that comes all the same.
        reader.cancel(read);
        assert_eq!(relay.session(Way::Http).read("dev-a").bodies(), ["again: m1"]);
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
                let cancelled =
                    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
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

    /// Two connections have no common order, so a cancellation may overtake its request.
    #[test]
    fn a_call_whose_cancellation_came_first_is_not_carried_out() {
        over_each(&WAYS, |relay, way| {
            let mut session = relay.session(way);
            session.post("pm", "dev-a", "m1");
            let cancelled = json!({"requestId": 77});
            let cancelled =
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled});
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
        let relay = told_relay();
        let mut session = relay.session(Way::Sse);
        let wait = session.wait_with_progress("pm", 60.0, &json!("tok"));
        assert_eq!(
            session.heard(),
            json!({
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": "tok", "progress": 1, "message": "waiting for a message"},
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
            // The first word of progress.
            reader.calls.await_unread_bytes();
            relay.session(Way::Http).post("dev-a", "pm", "m1");
            let messages = messages_of(&reader.calls.response());
            let [progress @ .., answer] = messages.as_slice() else {
                panic!("no message");
            };
            assert!(!progress.is_empty(), "{messages:?}");
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
}

mod bounds {
    use super::*;

    const INBOX_MESSAGES_MAX: usize = 10_000;

    #[test]
    fn a_full_inbox_refuses_until_what_was_read_is_confirmed() {
        let relay = told_relay();
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
             67108864 bytes; post again after it was read",
        );
        let mut others = WAYS.map(|way| relay.session(way));
        for other in &mut others {
            assert_eq!(other.call("post_message", &post["arguments"]), full);
        }
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
        reader.read("pm");
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
}

mod identity {
    use super::*;

    #[test]
    fn a_bound_session_need_not_name_itself() {
        over_each(&WAYS, |relay, way| {
            let mut session = relay.bound_session(way, "dev-a");
            let post = json!({"to": "dev-a", "kind": "status", "body": "to myself"});
            session.call("post_message", &post).posted();
            let named = json!({"from": "dev-a", "to": "dev-a", "kind": "status", "body": "by name"});
            session.call("post_message", &named).posted();
            let two = json!({"count": 2, "kinds": ["status", "status"]}).to_string();
            assert_eq!(session.call("list_pending", &json!({})), Reply::of(&two));
            let read = session.call("read_messages", &json!({}));
            assert_eq!(read.bodies(), ["to myself", "by name"]);
            assert_eq!(read.messages()[0]["from"], "dev-a");
            assert_eq!(session.read("dev-a"), Reply::of("[]"));
        });
    }

    #[test]
    fn a_bound_session_may_not_name_another() {
        over_each(&WAYS, |relay, way| {
            relay.session(Way::Http).post("pm", "dev-b", "not for dev-a");
            let mut session = relay.bound_session(way, "dev-a");
            let refused = |argument: &str| {
                Reply::error(&format!(
                    "\"{argument}\" is \"dev-b\", but this session is bound to \"dev-a\"; \
                     leave \"{argument}\" out or give \"dev-a\""
                ))
            };
            let post = json!({"from": "dev-b", "to": "pm", "kind": "free", "body": ""});
            assert_eq!(session.call("post_message", &post), refused("from"));
            assert_eq!(session.read("dev-b"), refused("for"));
            assert_eq!(
                session.call("list_pending", &json!({"for": "dev-b"})),
                refused("for")
            );
            let unknown = Reply::error("unknown role \"dev-c\"; known roles: pm, dev-a, dev-b");
            assert_eq!(session.read("dev-c"), unknown);
            assert_eq!(relay.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 1}));
        });
    }

    #[test]
    fn a_session_that_is_not_bound_must_say_who_it_is() {
        over_each(&WAYS, |relay, way| {
            let mut session = relay.session(way);
            let missing = |argument: &str| {
                Reply::error(&format!(
                    "missing argument \"{argument}\"; give your role, one of: pm, dev-a, dev-b"
                ))
            };
            let post = json!({"to": "pm", "kind": "free", "body": ""});
            assert_eq!(session.call("post_message", &post), missing("from"));
            assert_eq!(session.call("read_messages", &json!({})), missing("for"));
            assert_eq!(session.call("list_pending", &json!({})), missing("for"));
        });
    }

    #[test]
    fn what_is_wrong_with_a_call_is_named_with_what_is_accepted() {
        let cases = [
            (
                "post_message",
                json!({"from": "pm", "to": "dev-c", "kind": "free", "body": ""}),
                r#"unknown role "dev-c"; known roles: pm, dev-a, dev-b"#,
            ),
            (
                "post_message",
                json!({"from": "dev-c", "to": "pm", "kind": "free", "body": ""}),
                r#"unknown role "dev-c"; known roles: pm, dev-a, dev-b"#,
            ),
            (
                "post_message",
                json!({"from": "pm", "to": "pm", "kind": "shout", "body": ""}),
                r#"unknown kind "shout"; known kinds: status, question, directive, free"#,
            ),
            (
                "post_message",
                json!({"from": "pm", "to": "pm", "kind": "free"}),
                r#"missing argument "body"; post_message takes from, to, kind, body"#,
            ),
            (
                "post_message",
                json!({"from": "pm", "to": "pm", "kind": "free", "body": 5}),
                r#""body" is the number 5; accepted: a string"#,
            ),
            (
                "read_messages",
                json!({"for": "pm", "since": 1}),
                r#"unknown argument "since"; read_messages takes for, wait_seconds"#,
            ),
            (
                "read_messages",
                json!({"for": "pm", "wait_seconds": 281}),
                r#""wait_seconds" is 281; accepted: 0 to 280"#,
            ),
            (
                "peek",
                json!({"for": "pm"}),
                r#"unknown tool "peek"; known tools: post_message, read_messages, list_pending"#,
            ),
        ];
        over_each(&WAYS, |relay, way| {
            let mut session = relay.session(way);
            session.post("dev-a", "pm", "stays");
            for (tool, arguments, reason) in &cases {
                assert_eq!(session.call(tool, arguments), Reply::error(reason), "{tool}");
            }
            assert_eq!(relay.pending(), json!({"pm": 1, "dev-a": 0, "dev-b": 0}));
        });
    }

    #[test]
    fn a_tool_list_is_short_and_asks_a_bound_session_for_less() {
        let relay = Relay::start();
        for way in [Way::Sse, Way::Http] {
            let required = |mut session: Session| -> Vec<Value> {
                let listed = session.ask("tools/list", json!({}))["result"].clone();
                assert!(listed.to_string().len() <= 4_096, "{listed}");
                let tools = listed["tools"].as_array().expect("tools");
                let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
                assert_eq!(names, ["post_message", "read_messages", "list_pending"]);
                tools
                    .iter()
                    .map(|tool| tool["inputSchema"]["required"].clone())
                    .collect()
            };
            assert_eq!(
                required(relay.session(way)),
                [
                    json!(["from", "to", "kind", "body"]),
                    json!(["for"]),
                    json!(["for"])
                ]
            );
            assert_eq!(
                required(relay.bound_session(way, "pm")),
                [json!(["to", "kind", "body"]), json!([]), json!([])]
            );
        }
    }

    #[test]
    fn a_handshake_tells_what_relay_is_and_has() {
        let relay = Relay::start();
        for way in [Way::Sse, Way::Http] {
            for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
                let mut session = relay.session(way);
                let client = json!({"name": "a test", "version": "1"});
                let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
                let result = session.ask("initialize", params)["result"].clone();
                assert_eq!(result["protocolVersion"], version);
                assert_eq!(result["capabilities"], json!({"tools": {}}));
                let info = json!({"name": "relay", "version": env!("CARGO_PKG_VERSION")});
                assert_eq!(result["serverInfo"], info);
                let instructions = result["instructions"].as_str().expect("instructions");
                assert!((1..=1_024).contains(&instructions.len()), "{instructions}");
                session.notify("notifications/initialized", &json!({}));
                session.post("pm", "dev-a", version);
                assert_eq!(session.ask("ping", json!({}))["result"], json!({}));
            }
        }
    }
}

mod token {
    use super::*;

    #[test]
    fn a_relay_with_a_token_asks_it_of_every_request() {
        let by_argument = Relay::start_with(&["--token", TOKEN, "--host", "127.0.0.1"], &[]);
        let by_variable = Relay::start_with(&[], &[("RELAY_TOKEN", TOKEN)]);
        for relay in [by_argument, by_variable] {
            let post = json!({
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {
                    "name": "post_message",
                    "arguments": {"from": "pm", "to": "pm", "kind": "free", "body": "b"},
                },
            });
            let right = format!("Bearer {TOKEN}");
            let stream = Request::get("/sse").with("Authorization", &right);
            let mut stream = EventStream::open(relay.connect(), &stream);
            let address = stream.event().data.expect("an address");
            let requests = [
                Request::get("/health"),
                Request::get("/sse"),
                Request::get("/nowhere"),
                Request::post("/mcp", post.to_string()),
                Request::post(&address, post.to_string()),
            ];
            for request in &requests {
                for wrong in [
                    "",
                    TOKEN,
                    "Bearer",
                    "Bearer 0123456789abcdeF",
                    "Basic 0123456789abcdef",
                ] {
                    let request = match wrong {
                        "" => request.clone(),
                        wrong => request.clone().with("Authorization", wrong),
                    };
                    let response = relay.connect().exchange(&request);
                    let reason = "this relay wants a token; send the header Authorization: Bearer <token>";
                    assert_eq!(
                        (response.status, response.json()),
                        (401, json!({"error": reason})),
                        "{request:?}"
                    );
                }
            }
            let mut connection = relay.connect();
            let mut ask =
                |request: &Request| connection.exchange(&request.clone().with("Authorization", &right));
            let health = ask(&requests[0]);
            assert_eq!((health.status, &health.json()["pending"]["pm"]), (200, &json!(0)));
            assert_eq!(ask(&requests[3]).status, 200);
            assert_eq!(ask(&requests[4]).status, 202);
            assert!(
                stream
                    .event()
                    .data
                    .is_some_and(|data| data.contains(r#""isError":false"#))
            );
            assert_eq!(ask(&requests[0]).json()["pending"]["pm"], 2);
        }
    }
}

//! Workers: what becomes of what one has not read that was released and has ended.

use relay::engine::handling::Handling;
use relay::engine::limits::{TRANSIENT_MS, WORKER_START_MS};
use relay::engine::workers::Happened;
use relay::engine::{NodeId, WorkerId};

use super::workers::*;
use super::*;

#[test]
fn what_a_released_worker_has_not_read_is_its_parent_s_once_it_has_ended() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(B, 3, post(Some("dev-b"), "tester", "two"));
    relay.call(B, 4, post(Some("dev-b"), "@everyone", "for many"));
    let before = relay.waits_for("pm");
    relay.call(A, 5, release("pm", "tester"));
    assert_eq!(relay.waits_for("pm"), before, "it may still read");
    relay.events();
    relay.happens(FIRST, exited(0, ""));
    let follow = "Worker \"tester\" was released, and had not read 2 message(s), which follow.";
    let one = ("dev-a".to_owned(), "one".to_owned());
    let two = ("dev-b".to_owned(), "two".to_owned());
    let handed_on = [from_relay(follow), one, two];
    assert_eq!(relay.waits_for("pm")[before.len()..], handed_on);
    // What is for many is whosever it is.
    let for_many = ("dev-b".to_owned(), "for many".to_owned());
    assert_eq!(relay.waits_for("tester"), [for_many]);
    let places: Vec<_> = relay
        .events()
        .into_iter()
        .filter_map(|event| {
            let Event::HandedOn { from, to, seq, .. } = event else {
                return None;
            };
            Some((from, to, seq.0))
        })
        .collect();
    let first = before.len() as u64 + 1;
    assert_eq!(
        places,
        [first, first + 1].map(|seq| (name("tester"), name("pm"), seq))
    );
}

/// Who has what from whom, but for what relay says.
fn handed_on(relay: &mut Relay) -> Vec<(AgentName, AgentName)> {
    let events = relay.events().into_iter();
    let handed_on = events.filter_map(|event| {
        let Event::HandedOn { from, to, .. } = event else {
            return None;
        };
        Some((from, to))
    });
    handed_on.collect()
}

#[test]
fn what_is_left_where_the_parent_has_left_too_goes_to_the_next_one_above() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, spawn("tester", "helper"));
    relay.happens(SECOND, Happened::Started);
    relay.call(A, 3, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    relay.call(B, 4, post(Some("dev-a"), "helper", "one"));
    relay.call(A, 5, release("pm", "helper"));
    relay.events();
    relay.happens(SECOND, exited(0, ""));
    assert_eq!(handed_on(&mut relay), [(name("helper"), name("pm"))]);
    let one = ("dev-a".to_owned(), "one".to_owned());
    let follow = from_relay("Worker \"helper\" was released, and had not read 1 message(s), which follow.");
    assert!(relay.waits_for("pm").ends_with(&[follow, one]));
}

#[test]
fn where_two_that_have_left_were_each_other_s_parents_nothing_goes_around() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, spawn("tester", "helper"));
    relay.happens(SECOND, Happened::Started);
    // It ends by itself, and its worker starts another one of its name.
    relay.happens(FIRST, exited(0, ""));
    relay.call(B, 3, spawn("helper", "tester"));
    let third = WorkerId(3);
    relay.happens(third, Happened::Started);
    relay.call(B, 4, post(Some("dev-a"), "helper", "one"));
    relay.call(B, 5, post(Some("dev-a"), "tester", "two"));
    relay.call(A, 6, release("pm", "tester"));
    relay.call(A, 7, release("pm", "helper"));
    relay.events();
    relay.happens(third, exited(0, ""));
    let to_helper = (name("tester"), name("helper"));
    assert_eq!(handed_on(&mut relay), vec![to_helper; 3]);
    relay.happens(SECOND, exited(0, ""));
    assert!(
        handed_on(&mut relay)
            .iter()
            .all(|(from, to)| *from == name("helper") && *to == name("pm"))
    );
    relay.call(B, 8, look("dev-a"));
    assert_eq!(handed_on(&mut relay), []);
    let waits = relay.waits_for("pm");
    let said = |body: &str| waits.iter().filter(|(_, said)| said == body).count();
    assert_eq!([said("one"), said("two")], [1, 1]);
}

#[test]
fn what_is_handed_on_wakes_the_parent_and_keeps_its_mark_and_its_deadline() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    let options = mail::PostOptions {
        handling: Handling {
            deadline: Some(START.plus_millis(5_000)),
            ..Handling::default()
        },
        ..mail::PostOptions::default()
    };
    relay.post_with(B, 2, &message(1, 0, "dev-a", "tester"), Some(options));
    relay.open(OF_WORKER, Carrier::Stream, Some("tester"));
    relay.call(OF_WORKER, 3, read("tester"));
    relay.call(A, 4, read("pm"));
    relay.passed(4);
    relay.call(A, 5, release("pm", "tester"));
    // The worker dies before what it was handed has arrived.
    relay.happens(FIRST, exited(0, ""));
    relay.call(A, 6, wait("pm", WAIT_MS));
    let woken = relay.close(OF_WORKER, Ending::Broken);
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
            ..
        },
    ] = &woken[..]
    else {
        panic!("{woken:?}");
    };
    let marks: Vec<bool> = deliveries.iter().map(|delivery| delivery.redelivered).collect();
    assert_eq!(marks, [false, true]);
    // It is not read, and expires where it is now.
    relay.lost(6);
    relay.events();
    relay.timeout_at(5_000);
    let expired = relay.events().into_iter().find_map(|event| {
        let Event::Expired { agent, .. } = event else {
            return None;
        };
        Some(agent)
    });
    assert_eq!(expired, Some(name("pm")));
}

#[test]
fn what_there_is_no_room_for_stays_with_the_worker_until_there_is() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 2,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(B, 3, post(Some("dev-a"), "tester", "two"));
    relay.call(B, 4, post(Some("dev-a"), "pm", "before"));
    relay.call(B, 5, post(Some("dev-a"), "pm", "it"));
    relay.call(A, 6, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    assert_eq!(relay.waits_for("tester").len(), 2);
    let one = Command::Mail(mail::Command::Read {
        agent: Some("pm".to_owned()),
        options: Some(Box::new(mail::ReadOptions {
            limit: std::num::NonZeroUsize::new(1),
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms: 0,
        second: mail::Second::Supersedes,
    });
    relay.call(A, 17, one);
    relay.passed(17);
    relay.call(A, 18, look("pm"));
    relay.settle();
    let it = ("dev-a".to_owned(), "it".to_owned());
    assert_eq!(
        relay.waits_for("pm"),
        [it],
        "there is no room for a message and for what tells of it"
    );
    assert_eq!(relay.waits_for("tester").len(), 2);
    relay.call(A, 7, read("pm"));
    relay.passed(7);
    relay.call(A, 8, look("pm"));
    relay.settle();
    assert_eq!(relay.waits_for("pm").len() + relay.waits_for("tester").len(), 3);
    relay.call(A, 9, read("pm"));
    relay.passed(9);
    relay.call(A, 10, look("pm"));
    relay.settle();
    assert_eq!(relay.waits_for("tester"), []);
}

/// What the parent is told before it gets what a worker had not read.
fn follows() -> (String, String) {
    from_relay("Worker \"tester\" was released, and had not read 1 message(s), which follow.")
}

#[test]
fn nothing_is_said_of_what_is_too_long_for_the_room_that_the_parent_has() {
    let mut relay = Relay::told_within(Bounds {
        inbox_bytes_max: 10_000,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    let long = "x".repeat(6_000);
    relay.call(B, 2, post(Some("dev-a"), "tester", &long));
    relay.call(B, 3, post(Some("dev-a"), "pm", &long));
    relay.call(A, 4, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let it = ("dev-a".to_owned(), long);
    assert_eq!(relay.waits_for("pm"), std::slice::from_ref(&it));
    assert_eq!(relay.waits_for("tester"), std::slice::from_ref(&it));
    relay.call(A, 5, read("pm"));
    relay.passed(5);
    relay.call(A, 6, look("pm"));
    relay.settle();
    assert_eq!(relay.waits_for("pm"), [follows(), it]);
}

/// With a worker that has not started in time, and has not read what it was sent.
fn with_a_late_worker() -> Relay {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.timeout_at(WORKER_START_MS);
    relay
}

#[test]
fn what_a_worker_has_not_read_that_was_late_and_is_released_then_is_its_parent_s_too() {
    let mut relay = with_a_late_worker();
    assert_eq!(
        relay.call(A, 3, release("pm", "tester")),
        [released(3, FIRST, "tester", "pm")]
    );
    relay.happens(FIRST, exited(0, ""));
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("pm"), [follows(), one]);
}

#[test]
fn what_a_worker_has_not_read_that_did_not_start_in_time_says_so() {
    let mut relay = with_a_late_worker();
    relay.happens(FIRST, exited(0, ""));
    let follow = "Worker \"tester\" did not start, and had not read 1 message(s), which follow.";
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("pm"), [from_relay(follow), one]);
}

fn no_program() -> Happened {
    let reason = "no claude".to_owned();
    Happened::FailedToStart { reason }
}

#[test]
fn what_was_for_nobody_but_workers_that_have_never_run_is_their_parent_s_once() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.call(A, 2, spawn("pm", "other"));
    relay.call(B, 3, post(Some("dev-a"), "tester, other", "for both"));
    relay.events();
    for worker in [FIRST, SECOND] {
        relay.happens(worker, no_program());
    }
    let follow = "Worker \"tester\" did not start, and had not read 1 message(s), which follow.";
    let both = ("dev-a".to_owned(), "for both".to_owned());
    assert_eq!(relay.waits_for("pm"), [from_relay(follow), both]);
    let ends = [("tester", "pm"), ("other", "pm")].map(|(from, to)| (name(from), name(to)));
    assert_eq!(handed_on(&mut relay), ends);
}

#[test]
fn what_was_for_many_comes_marked_to_the_parent_of_a_worker_that_has_never_run_where_that_has_read_it() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.call(B, 2, post(Some("dev-a"), "*", "to all"));
    relay.call(A, 3, read("pm"));
    relay.passed(3);
    relay.call(A, 4, read("pm"));
    relay.settle();
    relay.happens(FIRST, no_program());
    let again = relay.call(A, 5, read("pm"));
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
            ..
        },
    ] = &again[..]
    else {
        panic!("{again:?}");
    };
    let said = deliveries
        .iter()
        .map(|delivery| (&*delivery.message.body, delivery.redelivered));
    let follow = "Worker \"tester\" did not start, and had not read 1 message(s), which follow.";
    assert_eq!(said.collect::<Vec<_>>(), [(follow, false), ("to all", true)]);
}

#[test]
fn what_is_held_for_a_worker_that_has_never_run_is_its_parent_s_once_it_is_let_pass() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.open_for_person(nodes::PERSON);
    relay.hold("tester");
    relay.call(B, 2, post(Some("dev-a"), "*", "to all"));
    relay.call(A, 3, read("pm"));
    relay.passed(3);
    relay.call(A, 4, read("pm"));
    relay.settle();
    relay.happens(FIRST, no_program());
    assert_eq!(relay.waits_for("pm"), []);
    relay.allow(1);
    assert_eq!(relay.waits_for("pm").len(), 2);
    // Nothing of it stays.
    relay.now = relay.now.plus_millis(TRANSIENT_MS);
    let unknown = relay.call(B, 5, post(Some("dev-b"), "tester", "are you there?"));
    assert!(
        matches!(&unknown[..], [Effect::Reply { result: Err(_), .. }]),
        "{unknown:?}"
    );
}

#[test]
fn what_was_to_be_handed_on_is_also_once_a_second_start_has_failed() {
    for is_released in [false, true] {
        let mut relay = Relay::told_within(SPACIOUS);
        relay.open_for_person(nodes::PERSON);
        if is_released {
            relay.has_worker(1, FIRST, "tester");
            relay.hold("tester");
            relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
            relay.call(A, 3, release("pm", "tester"));
            relay.happens(FIRST, exited(0, ""));
        } else {
            relay.call(A, 1, spawn("pm", "tester"));
            relay.hold("tester");
            relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
            relay.happens(FIRST, no_program());
        }
        relay.call(A, 4, spawn("pm", "tester"));
        relay.happens(SECOND, no_program());
        assert_eq!(relay.waits_for("pm"), []);
        relay.allow(1);
        let waits: Vec<String> = relay.waits_for("pm").into_iter().map(|(_, body)| body).collect();
        let follow = "Worker \"tester\" did not start, and had not read 1 message(s), which follow.";
        assert_eq!(waits, [follow, "one"], "{is_released}");
    }
}

#[test]
fn what_was_to_be_handed_on_is_a_second_worker_s_own_once_that_has_run() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.open_for_person(nodes::PERSON);
    relay.has_worker(1, FIRST, "tester");
    relay.hold("tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(A, 3, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    relay.call(A, 4, spawn("pm", "tester"));
    relay.happens(SECOND, Happened::Started);
    relay.happens(SECOND, exited(0, ""));
    let before = relay.waits_for("pm");
    relay.allow(1);
    assert_eq!(relay.waits_for("pm"), before);
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("tester"), [one]);
}

#[test]
fn what_a_node_is_to_bring_to_a_released_worker_stays_the_node_s() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.open_for_person(nodes::PERSON);
    relay.create("fleet", None);
    relay.bind(NodeId(0), "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(A, 3, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("tester"), [one]);
    assert_eq!(relay.waits_for("pm"), []);
}

#[test]
fn nothing_is_handed_on_while_the_relay_stops() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(A, 3, release("pm", "tester"));
    relay.handle(Input::Stopping);
    relay.happens(FIRST, exited(0, ""));
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("tester"), [one]);
    assert_eq!(relay.waits_for("pm"), []);
}

#[test]
fn how_many_are_handed_on_is_said_as_it_is_and_how_many_stay() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 4,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    for (call, body) in (2..).zip(["one", "two", "three", "four"]) {
        relay.call(B, call, post(Some("dev-a"), "tester", body));
    }
    relay.call(B, 16, post(Some("dev-a"), "pm", "before"));
    relay.call(A, 6, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let said = "Worker \"tester\" was released, and had not read 4 message(s): 2 follow, and 2 stay in its inbox until yours has room for them.";
    let of = |body: &str| ("dev-a".to_owned(), body.to_owned());
    assert_eq!(
        relay.waits_for("pm")[1..],
        [from_relay(said), of("one"), of("two")]
    );
    assert_eq!(relay.waits_for("tester"), [of("three"), of("four")]);
    relay.call(A, 7, read("pm"));
    relay.passed(7);
    relay.call(A, 8, look("pm"));
    relay.settle();
    let said = "Worker \"tester\" was released, and had not read 2 message(s), which follow.";
    assert_eq!(relay.waits_for("pm"), [from_relay(said), of("three"), of("four")]);
}

#[test]
fn how_many_are_handed_on_is_said_as_it_is_whatever_place_the_number_takes() {
    let said = |count: usize, rest: usize| {
        format!(
            "Worker \"tester\" was released, and had not read 20 message(s): {count} follow, and {rest} stay in its inbox until yours has room for them."
        )
    };
    let metadata = r#"{"worker":"tester","event":"handed_on"}"#;
    // Ten would fit behind the shortest of these, and one digit more leaves room for nine.
    let mut relay = Relay::told_within(Bounds {
        inbox_bytes_max: said(19, 1).len() + metadata.len() + 10 * 10,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    for call in 2..22 {
        relay.call(B, call, post(Some("dev-a"), "tester", "0123456789"));
    }
    assert_eq!(relay.waits_for("tester").len(), 20);
    relay.call(A, 30, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let waits = relay.waits_for("pm");
    assert_eq!((&waits[0], waits.len()), (&from_relay(&said(9, 11)), 1 + 9));
}

#[test]
fn nothing_is_said_to_be_handed_on_where_there_is_room_for_that_alone() {
    let mut relay = Relay::told_within(Bounds {
        inbox_bytes_max: 400,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    let long = "x".repeat(200);
    relay.call(B, 2, post(Some("dev-a"), "tester", &long));
    let before = relay.waits_for("pm");
    relay.call(B, 3, post(Some("dev-a"), "pm", &"y".repeat(150)));
    relay.call(A, 4, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    assert_eq!(relay.waits_for("pm").len(), before.len() + 1);
    assert_eq!(relay.waits_for("tester").len(), 1);
}

#[test]
fn what_the_parent_has_read_makes_room_for_what_is_handed_on_and_for_no_more() {
    let said = "Worker \"tester\" was released, and had not read 5 message(s): 4 follow, and 1 stay in its inbox until yours has room for them.";
    let metadata = r#"{"worker":"tester","event":"handed_on"}"#;
    let text = "0123456789".repeat(10);
    let bytes = said.len() + metadata.len() + 4 * text.len();
    // What tells of it and four messages fit, and not one more, or not one byte more.
    for (inbox_messages_max, inbox_bytes_max) in [(5, SPACIOUS.inbox_bytes_max), (9, bytes)] {
        let mut relay = Relay::told_within(Bounds {
            inbox_messages_max,
            inbox_bytes_max,
            ..SPACIOUS
        });
        relay.has_worker(1, FIRST, "tester");
        for call in 2..7 {
            relay.call(B, call, post(Some("dev-a"), "tester", &text));
        }
        for call in 7..10 {
            relay.call(B, call, post(Some("dev-a"), "pm", "read"));
        }
        relay.call(A, 10, release("pm", "tester"));
        relay.call(A, 11, read("pm"));
        relay.passed(11);
        relay.call(A, 12, look("pm"));
        relay.happens(FIRST, exited(0, ""));
        let waits = relay.waits_for("pm");
        assert_eq!((&waits[0], waits.len()), (&from_relay(said), 1 + 4));
        assert_eq!(relay.waits_for("tester").len(), 1);
    }
}

#[test]
fn the_trace_of_a_message_says_once_that_it_was_handed_on() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.open_for_person(tracing::PERSON);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(B, 3, post(Some("dev-a"), "tester", "two"));
    relay.call(A, 4, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    for n in 1..=2 {
        let moments = tracing::traced(&mut relay, n).expect("it is known").moments;
        let happened = moments
            .into_iter()
            .map(|moment| (moment.agent.to_string(), moment.seq.0, moment.what));
        let (from, place) = (name("tester"), u64::from(n));
        // What tells of them is the first that pm gets.
        assert_eq!(
            happened.collect::<Vec<_>>(),
            [
                ("tester".to_owned(), place - 1, trace::Happened::Queued),
                ("pm".to_owned(), place, trace::Happened::HandedOn { from })
            ]
        );
    }
}

#[test]
fn one_message_and_what_tells_of_it_may_take_the_last_two_places() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 5,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    for call in 3..6 {
        relay.call(B, call, post(Some("dev-a"), "pm", "before"));
    }
    relay.call(A, 6, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("pm")[3..], [follows(), one]);
}

#[test]
fn nothing_is_handed_on_to_places_that_what_was_read_may_come_back_to() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 4,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    for call in 3..6 {
        relay.call(B, call, post(Some("dev-a"), "pm", "before"));
    }
    relay.call(A, 6, release("pm", "tester"));
    relay.call(A, 7, read("pm"));
    relay.passed(7);
    relay.call(A, 8, look("pm"));
    relay.happens(FIRST, exited(0, ""));
    assert_eq!(relay.waits_for("pm"), []);
    relay.settle();
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("pm"), [follows(), one]);
}

//! Reads whose replies have no room for all that waits: as much is taken as fits, and a message that does not fit is shown in parts.

use relay::engine::holds;
use relay::engine::room::{Escapes, Form, Part, Room};

use super::*;

mod clients;

/// A reply takes 100 bytes, and a message from pm to dev-a 123 and its body.
const FORM: Form = Form {
    reply: 100,
    message: 100,
    context: 20,
    part: 10,
    escapes: Escapes::Once,
    has_metadata: true,
    lines_max: None,
};

const LARGE: Bounds = Bounds {
    body_bytes_max: 1_000,
    inbox_bytes_max: 10_000,
    ..ROOMY
};

fn room(bytes: u32) -> Room {
    Room { bytes, form: FORM }
}

fn wait_within(agent: &str, bytes: u32, wait_ms: u32) -> Command {
    let mut read = mail::Command::read_all(Some(agent.to_owned()), wait_ms);
    if let mail::Command::Read { room: within, .. } = &mut read {
        *within = Some(room(bytes));
    }
    read.into()
}

fn read_within(agent: &str, bytes: u32) -> Command {
    wait_within(agent, bytes, 0)
}

/// What a read has shown: bodies, or a part of one, with whether each is marked; which part; how many more wait, and whether for room.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    bodies: Vec<(String, bool)>,
    part: Option<(u32, u32)>,
    remaining: usize,
    is_cut: bool,
}

#[track_caller]
fn shown(effects: &[Effect]) -> Shown {
    let reply = effects.iter().find_map(|effect| {
        let Effect::Reply {
            result: Ok(Reply::Mail(reply @ mail::Reply::Messages { .. })),
            ..
        } = effect
        else {
            return None;
        };
        Some(reply)
    });
    let Some(mail::Reply::Messages {
        deliveries,
        part,
        is_cut,
        remaining,
        ..
    }) = reply
    else {
        panic!("no read is answered: {effects:?}");
    };
    let part: Option<Part> = part.as_deref().copied();
    let body = |delivery: &Delivery| {
        let message = &delivery.message;
        let body = part.map_or(&*message.body, |part| part.body(message));
        let metadata = part.map_or("", |part| part.metadata(message));
        (format!("{body}{metadata}"), delivery.redelivered)
    };
    Shown {
        bodies: deliveries.iter().map(body).collect(),
        part: part.map(|part| (part.number, part.of)),
        remaining: *remaining,
        is_cut: *is_cut,
    }
}

fn whole(bodies: &[(&str, bool)], remaining: usize, is_cut: bool) -> Shown {
    Shown {
        bodies: bodies
            .iter()
            .map(|(body, again)| ((*body).to_owned(), *again))
            .collect(),
        part: None,
        remaining,
        is_cut,
    }
}

fn part(body: &str, again: bool, (number, of): (u32, u32), remaining: usize) -> Shown {
    Shown {
        bodies: vec![(body.to_owned(), again)],
        part: Some((number, of)),
        remaining,
        is_cut: number < of || remaining > 0,
    }
}

/// A relay in which pm has sent these to dev-a, in calls from 1 on.
fn with(bodies: &[&str]) -> Relay {
    let mut relay = Relay::told_within(LARGE);
    for (call, body) in (1..).zip(bodies) {
        relay.call(B, call, post(Some("pm"), "dev-a", body));
    }
    relay.events();
    relay
}

/// A body of three parts of 77 bytes in a room of 310, each of another letter.
fn three() -> [String; 3] {
    ["a", "b", "c"].map(|letter| letter.repeat(77))
}

fn with_three() -> (Relay, [String; 3]) {
    let parts = three();
    (with(&[&parts.concat(), "behind"]), parts)
}

fn ends(events: &[Event]) -> Vec<&'static str> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only what is read comes to such an end"
    )]
    let ends = events.iter().filter_map(|event| match event {
        Event::HandedOver { deliveries, .. } if !deliveries.is_empty() => Some("handed over"),
        Event::Confirmed { deliveries, .. } if !deliveries.is_empty() => Some("confirmed"),
        Event::Undone { deliveries, .. } if !deliveries.is_empty() => Some("undone"),
        _ => None,
    });
    ends.collect()
}

#[test]
fn as_many_are_taken_as_fit_and_the_rest_waits_in_its_order_and_unmarked() {
    let body = "x".repeat(27);
    let bodies = ["1", "2", "3", "4", "5"].map(|n| format!("{n}{body}"));
    let mut relay = with(&bodies.each_ref().map(String::as_str));
    // Two take 302 bytes.
    let [one, two, three, four, five] = &bodies;
    let read = |relay: &mut Relay, call, bytes| {
        let effects = relay.call(A, call, read_within("dev-a", bytes));
        relay.passed(call);
        shown(&effects)
    };
    assert_eq!(
        read(&mut relay, 11, 402),
        whole(&[(one, false), (two, false)], 3, true)
    );
    assert_eq!(relay.pending()[1], 3);
    let kinds = vec![Kind::Free; 3];
    let counted = [reply(12, Ok(Reply::Mail(mail::Reply::Pending { kinds })))];
    assert_eq!(relay.call(A, 12, look("dev-a")), counted);
    assert_eq!(read(&mut relay, 13, 401), whole(&[(three, false)], 2, true));
    assert_eq!(
        read(&mut relay, 14, 402),
        whole(&[(four, false), (five, false)], 0, false)
    );
    assert_eq!(read(&mut relay, 15, 402), whole(&[], 0, false));
}

#[test]
fn what_is_lost_is_taken_first_again_and_no_more_of_it_than_fits() {
    let mut relay = with(&["one", "two", "three"]);
    let all = shown(&relay.call(A, 11, read_within("dev-a", 1_000)));
    assert_eq!(
        all,
        whole(&[("one", false), ("two", false), ("three", false)], 0, false)
    );
    assert_eq!(relay.call(C, 12, wait_within("dev-a", 360, WAIT_MS)), NONE);
    let effects = relay.lost(11);
    assert_eq!(
        shown(&effects),
        whole(&[("one", true), ("two", true)], 1, true),
        "a wait that is woken"
    );
    let last = shown(&relay.call(C, 13, read_within("dev-a", 360)));
    assert_eq!(last, whole(&[("three", true)], 0, false));
}

#[test]
fn a_message_that_does_not_fit_is_shown_in_parts_and_counts_as_delivered_after_the_last() {
    let (mut relay, [a, b, c]) = with_three();
    assert_eq!(
        shown(&relay.call(A, 11, read_within("dev-a", 310))),
        part(&a, false, (1, 3), 2)
    );
    relay.passed(11);
    assert_eq!(
        shown(&relay.call(A, 12, read_within("dev-a", 310))),
        part(&b, false, (2, 3), 2)
    );
    relay.passed(12);
    relay.settle();
    assert_eq!(
        relay.pending()[1],
        2,
        "it waits until its last part is in a reply"
    );
    assert_eq!(ends(&relay.events()), [""; 0]);
    assert_eq!(
        shown(&relay.call(A, 13, read_within("dev-a", 310))),
        part(&c, false, (3, 3), 1)
    );
    assert_eq!(relay.pending()[1], 1);
    relay.passed(13);
    assert_eq!(ends(&relay.events()), [""; 0]);
    let next = shown(&relay.call(A, 14, read_within("dev-a", 310)));
    assert_eq!(next, whole(&[("behind", false)], 0, false));
    relay.settle();
    assert_eq!(ends(&relay.events()), ["handed over", "handed over", "confirmed"]);
    relay.passed(14);
    assert_eq!(
        shown(&relay.call(A, 15, read_within("dev-a", 310))),
        whole(&[], 0, false)
    );
}

#[test]
fn a_part_that_is_lost_is_shown_again_with_all_behind_it_and_marked() {
    let (mut relay, [a, b, c]) = with_three();
    let read = |relay: &mut Relay, call| {
        let effects = relay.call(C, call, read_within("dev-a", 310));
        relay.passed(call);
        shown(&effects)
    };
    assert_eq!(read(&mut relay, 11), part(&a, false, (1, 3), 2));
    assert_eq!(read(&mut relay, 12), part(&b, false, (2, 3), 2));
    relay.lost(12);
    assert_eq!(read(&mut relay, 13), part(&b, true, (2, 3), 2));
    assert_eq!(read(&mut relay, 14), part(&c, true, (3, 3), 1));
    assert_eq!(read(&mut relay, 15), whole(&[("behind", false)], 0, false));
    // Of all that is in replies, only the first part was read by now, and only the last is lost.
    relay.cancelled(14);
    assert_eq!(read(&mut relay, 16), part(&c, true, (3, 3), 0));
    relay.cancelled(13);
    assert_eq!(read(&mut relay, 17), part(&b, true, (2, 3), 1));
    assert_eq!(read(&mut relay, 18), part(&c, true, (3, 3), 0));
    relay.call(C, 19, look("dev-a"));
    relay.settle();
    let ended = ends(&relay.events());
    assert_eq!(ended.iter().filter(|end| **end == "confirmed").count(), 2);
    assert_eq!(read(&mut relay, 20), whole(&[], 0, false));
}

#[test]
fn parts_may_arrive_in_any_order() {
    let (mut relay, [a, b, c]) = with_three();
    relay.open(EXCHANGE, Carrier::Exchange, None);
    let read = |relay: &mut Relay, call| {
        let effects = relay.call(EXCHANGE, call, read_within("dev-a", 310));
        relay.passed(call);
        shown(&effects)
    };
    assert_eq!(read(&mut relay, 11), part(&a, false, (1, 3), 2));
    assert_eq!(read(&mut relay, 12), part(&b, false, (2, 3), 2));
    assert_eq!(read(&mut relay, 13), part(&c, false, (3, 3), 1));
    for call in [13, 12] {
        relay.followed(call);
        relay.settle();
        assert_eq!(ends(&relay.events()), [""; 0]);
    }
    relay.lost(11);
    assert_eq!(read(&mut relay, 14), part(&a, true, (1, 3), 2));
    assert_eq!(read(&mut relay, 15), part(&b, true, (2, 3), 2));
    assert_eq!(read(&mut relay, 16), part(&c, true, (3, 3), 1));
    for (call, told) in [(16, vec![]), (14, vec![]), (15, vec!["handed over", "confirmed"])] {
        relay.followed(call);
        relay.settle();
        assert_eq!(ends(&relay.events()), told);
    }
}

#[test]
fn who_has_room_for_all_gets_the_whole_of_what_was_shown_in_parts_and_marked() {
    let (mut relay, parts) = with_three();
    relay.call(A, 11, read_within("dev-a", 310));
    relay.passed(11);
    let all = parts.concat();
    let effects = relay.call(B, 12, read("dev-a"));
    assert_eq!(
        shown(&effects),
        whole(&[(&all, true), ("behind", false)], 0, false)
    );
    // It is in that reply now, whatever becomes of its part.
    relay.lost(11);
    assert_eq!(relay.pending()[1], 0);
    relay.lost(12);
    let [a, ..] = &parts;
    assert_eq!(
        shown(&relay.call(C, 13, read_within("dev-a", 310))),
        part(a, true, (1, 3), 2)
    );
}

#[test]
fn a_smaller_room_makes_more_parts_of_what_is_left() {
    let (mut relay, [a, b, c]) = with_three();
    let read = |relay: &mut Relay, call, bytes| shown(&relay.call(C, call, read_within("dev-a", bytes)));
    assert_eq!(
        read(&mut relay, 11, 387),
        part(&format!("{a}{b}"), false, (1, 2), 2)
    );
    assert_eq!(read(&mut relay, 12, 273), part(&c[..40], false, (2, 3), 2));
    // However little room there is, a part has a character.
    assert_eq!(read(&mut relay, 13, 0), part("c", false, (3, 39), 2));
}

#[test]
fn what_belongs_to_a_message_takes_room_and_metadata_comes_in_parts_behind_the_body() {
    let mut relay = Relay::told_within(LARGE);
    let metadata = format!("{{\"key\":\"{}\"}}", "m".repeat(80));
    let options = mail::PostOptions {
        thread: Some("t".repeat(10)),
        metadata: Some(metadata.clone()),
        ..mail::PostOptions::default()
    };
    let body = "\n\"é\u{1}".repeat(5);
    let command = mail::Command::Post {
        from: Some("pm".to_owned()),
        to: "dev-a".to_owned(),
        kind: Kind::Free,
        body: body.clone(),
        options: Some(Box::new(options)),
    };
    relay.call(B, 1, command.into());
    // 123 + 20 + 10 for the message, 60 for its body with the escapes, 94 for its metadata with them.
    let bytes = 100 + 153 + 60 + 94;
    let mut copy = Relay::of(relay.engine.clone());
    let fits = shown(&copy.call(A, 2, read_within("dev-a", bytes)));
    assert_eq!(fits, whole(&[(&body, false)], 0, false));
    let text = format!("{body}{metadata}");
    let first = shown(&relay.call(A, 2, read_within("dev-a", bytes - 1)));
    let (head, tail) = text.split_at(first.bodies[0].0.len());
    assert_eq!(first, part(head, false, (1, 2), 1));
    assert_eq!(
        shown(&relay.call(A, 3, read_within("dev-a", bytes - 1))),
        part(tail, false, (2, 2), 0)
    );
}

#[test]
fn an_answer_that_does_not_fit_is_shown_in_parts_whose_rest_is_read() {
    let mut relay = Relay::told_within(LARGE);
    let options = mail::PostOptions {
        await_ms: Some(WAIT_MS),
        room: Some(room(310)),
        ..mail::PostOptions::default()
    };
    let command = mail::Command::Post {
        from: Some("dev-a".to_owned()),
        to: "pm".to_owned(),
        kind: Kind::Question,
        body: "?".to_owned(),
        options: Some(Box::new(options)),
    };
    assert_eq!(relay.call(A, 1, command.into()), NONE);
    let [a, b, c] = three();
    let effects = relay.call(B, 2, post(Some("pm"), "dev-a", &[&*a, &b, &c].concat()));
    assert_eq!(shown(&effects), part(&a, false, (1, 3), 1));
    assert_eq!(
        shown(&relay.call(A, 3, read_within("dev-a", 310))),
        part(&b, false, (2, 3), 1)
    );
}

#[test]
fn what_was_handed_over_before_is_shown_as_far_as_it_fits_beside_the_new() {
    let mut relay = with(&["one", "two", "three"]);
    relay.call(A, 11, read("dev-a"));
    relay.passed(11);
    relay.call(B, 12, post(Some("pm"), "dev-a", "new"));
    let look_back = |bytes| {
        let mut read = read_within("dev-a", bytes);
        if let Command::Mail(mail::Command::Read { options, .. }) = &mut read {
            options.get_or_insert_default().earlier = true;
        }
        read
    };
    let earlier = |effects: &[Effect]| {
        let [
            Effect::Reply {
                result:
                    Ok(Reply::Mail(mail::Reply::Messages {
                        earlier, deliveries, ..
                    })),
                ..
            },
        ] = effects
        else {
            panic!("{effects:?}");
        };
        let all = earlier.iter().chain(&**deliveries);
        all.map(|delivery| delivery.message.body.clone())
            .collect::<Vec<_>>()
    };
    let shown = |bytes| {
        let mut copy = Relay::of(relay.engine.clone());
        earlier(&copy.call(A, 13, look_back(bytes)))
    };
    assert_eq!(shown(100 + 4 * 126 + 2), ["one", "two", "three", "new"]);
    assert_eq!(shown(100 + 4 * 126 + 1), ["two", "three", "new"]);
    assert_eq!(shown(100 + 2 * 126 + 1), ["new"]);
    assert_eq!(shown(100), ["new"], "never less than one that is new");
}

#[test]
fn what_is_held_after_a_part_goes_on_with_the_next_once_it_is_let_pass() {
    let (mut relay, [a, b, _]) = with_three();
    let person = SessionId(9);
    relay.open_for_person(person);
    assert_eq!(
        shown(&relay.call(A, 11, read_within("dev-a", 310))),
        part(&a, false, (1, 3), 2)
    );
    relay.passed(11);
    let hold = holds::Command::Hold(holds::Whom::Agent("dev-a".to_owned()));
    relay.call(person, 12, hold.into());
    assert_eq!(
        shown(&relay.call(A, 13, read_within("dev-a", 310))),
        whole(&[], 0, false)
    );
    let release = holds::Command::Lift(holds::Whom::Agent("dev-a".to_owned()));
    relay.call(person, 14, release.into());
    assert_eq!(
        shown(&relay.call(A, 15, read_within("dev-a", 310))),
        part(&b, false, (2, 3), 2)
    );
}

#[test]
fn a_deadline_that_comes_between_two_parts_ends_the_message() {
    let mut relay = Relay::told_within(LARGE);
    let handling = relay::engine::handling::Handling {
        deadline: Some(START.plus_millis(1_000)),
        ..relay::engine::handling::Handling::default()
    };
    let options = mail::PostOptions {
        handling,
        ..mail::PostOptions::default()
    };
    let command = mail::Command::Post {
        from: Some("pm".to_owned()),
        to: "dev-a".to_owned(),
        kind: Kind::Free,
        body: three().concat(),
        options: Some(Box::new(options)),
    };
    let posted = relay.call(B, 1, command.into());
    assert!(
        matches!(posted[..], [Effect::Reply { result: Ok(_), .. }]),
        "{posted:?}"
    );
    relay.call(A, 2, read_within("dev-a", 310));
    relay.passed(2);
    relay.timeout_at(1_000);
    assert_eq!(
        shown(&relay.call(A, 3, read_within("dev-a", 310))),
        whole(&[], 0, false)
    );
    relay.settle();
    relay.lost(2);
    assert_eq!(relay.pending()[1], 0);
}

#[test]
fn what_one_tool_began_to_show_another_that_shows_less_of_it_ends() {
    let body = "b".repeat(300);
    let (mut relay, bare) = with_metadata(&body);
    let mut shown_before = String::new();
    let mut calls = 2..;
    while !shown_before.contains('{') {
        let call = calls.next().expect("they have no end");
        let next = shown(&relay.call(A, call, read_within("dev-a", 400)));
        assert!(next.is_cut, "{next:?}");
        shown_before.push_str(&next.bodies[0].0);
    }
    let [last, look_at, none] = [(); 3].map(|()| calls.next().expect("they have no end"));
    let end = shown(&relay.call(A, last, bare));
    let (number, of) = end.part.expect("it is one");
    assert_eq!(number, of);
    assert_eq!(end.bodies, [(String::new(), false)]);
    relay.passed(last);
    relay.call(A, look_at, look("pm"));
    relay.settle();
    let rest = relay.call(A, none, read_within("dev-a", 400));
    assert_eq!(shown(&rest), whole(&[], 0, false));
}

#[test]
fn what_one_tool_began_to_show_another_that_has_room_for_what_it_shows_of_it_shows_whole_and_marked() {
    let (mut relay, bare) = with_metadata("body");
    let first = shown(&relay.call(A, 2, read_within("dev-a", 400)));
    assert!(
        first.bodies[0].0.starts_with("body{") && first.is_cut,
        "{first:?}"
    );
    assert_eq!(shown(&relay.call(A, 3, bare)), whole(&[("body", true)], 0, false));
}

/// A relay in which pm has sent dev-a a body with 600 bytes of metadata, and a read by a tool that does not show those.
fn with_metadata(body: &str) -> (Relay, Command) {
    let mut relay = Relay::told_within(LARGE);
    let options = mail::PostOptions {
        metadata: Some(format!("{{\"key\":\"{}\"}}", "m".repeat(600))),
        ..mail::PostOptions::default()
    };
    let command = mail::Command::Post {
        from: Some("pm".to_owned()),
        to: "dev-a".to_owned(),
        kind: Kind::Free,
        body: body.to_owned(),
        options: Some(Box::new(options)),
    };
    relay.call(B, 1, command.into());
    let mut bare = mail::Command::read_all(Some("dev-a".to_owned()), 0);
    if let mail::Command::Read { room: within, .. } = &mut bare {
        let form = Form {
            has_metadata: false,
            ..FORM
        };
        *within = Some(Room { bytes: 400, form });
    }
    (relay, bare.into())
}

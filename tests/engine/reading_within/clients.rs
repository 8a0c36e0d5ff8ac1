//! Several clients that read for one agent: each is shown all parts of a message, and the first that has seen them has it.

use relay::engine::ClientId;
use relay::engine::limits::{IDLE_PARTS, READERS_MAX};

use super::*;

/// Reads with room for one of [`three`], and has what that shows passed to its socket.
fn read_on(relay: &mut Relay, session: SessionId, call: u64) -> Shown {
    let effects = relay.call(session, call, read_within("dev-a", 310));
    relay.passed(call);
    shown(&effects)
}

#[test]
fn each_of_several_readers_is_shown_all_parts_and_the_first_that_has_seen_them_has_the_message() {
    let (mut relay, [a, b, c]) = with_three();
    assert_eq!(read_on(&mut relay, A, 11), part(&a, false, (1, 3), 2));
    assert_eq!(read_on(&mut relay, C, 12), part(&a, true, (1, 3), 2));
    assert_eq!(read_on(&mut relay, C, 13), part(&b, true, (2, 3), 2));
    assert_eq!(read_on(&mut relay, A, 14), part(&b, true, (2, 3), 2));
    assert_eq!(read_on(&mut relay, C, 15), part(&c, true, (3, 3), 1));
    // What it was shown of a message that another has is worth nothing, and does not come back.
    assert_eq!(read_on(&mut relay, A, 16), whole(&[("behind", false)], 0, false));
    relay.close(A, Ending::Broken);
    assert_eq!(relay.pending()[1], 1);
    relay.call(C, 20, look("dev-a"));
    relay.settle();
    assert_eq!(ends(&relay.events())[2..], ["handed over", "confirmed"]);
    assert_eq!(read_on(&mut relay, C, 21), whole(&[("behind", true)], 0, false));
}

#[test]
fn whoever_has_the_last_part_and_loses_one_sees_the_rest_again_and_all_others_see_all() {
    let (mut relay, [a, b, c]) = with_three();
    read_on(&mut relay, A, 11);
    for call in [12, 13, 14] {
        read_on(&mut relay, C, call);
    }
    relay.cancelled(13);
    assert_eq!(read_on(&mut relay, C, 15), part(&b, true, (2, 3), 2));
    assert_eq!(read_on(&mut relay, A, 16), part(&a, true, (1, 3), 2));
    assert_eq!(read_on(&mut relay, C, 17), part(&c, true, (3, 3), 1));
}

#[test]
fn a_client_that_names_itself_goes_on_in_each_of_its_sessions_and_of_the_nameless_each_is_one() {
    let (mut relay, [a, b, c]) = with_three();
    let read = |relay: &mut Relay, session, call| {
        let effects = relay.call(session, call, read_within("dev-a", 310));
        relay.passed(call);
        relay.followed(call);
        shown(&effects)
    };
    let exchanges = [11, 12, 13, 14, 15].map(SessionId);
    for session in exchanges {
        relay.open(session, Carrier::Exchange, None);
    }
    let [own, its_other, of_another, nameless, nameless_too] = exchanges;
    for (session, client) in [(own, "x"), (its_other, "x"), (of_another, "y")] {
        relay.handle(Input::Named {
            session,
            client: ClientId(client.into()),
        });
    }
    assert_eq!(read(&mut relay, own, 21), part(&a, false, (1, 3), 2));
    assert_eq!(read(&mut relay, of_another, 22), part(&a, true, (1, 3), 2));
    assert_eq!(read(&mut relay, nameless, 23), part(&a, true, (1, 3), 2));
    assert_eq!(read(&mut relay, nameless_too, 24), part(&a, true, (1, 3), 2));
    relay.close(own, Ending::Orderly);
    assert_eq!(read(&mut relay, its_other, 25), part(&b, true, (2, 3), 2));
    assert_eq!(read(&mut relay, its_other, 26), part(&c, true, (3, 3), 1));
    assert_eq!(
        read(&mut relay, of_another, 27),
        whole(&[("behind", false)], 0, false)
    );
}

#[test]
fn a_client_with_a_name_for_each_call_goes_on_with_its_third() {
    let (mut relay, parts) = with_three();
    let mut read = |number: u64| {
        let session = SessionId(10 + number);
        relay.open(session, Carrier::Exchange, None);
        let client = ClientId(number.to_string().into());
        relay.handle(Input::Named { session, client });
        let effects = relay.call(session, 20 + number, read_within("dev-a", 310));
        relay.passed(20 + number);
        relay.close(session, Ending::Orderly);
        shown(&effects)
    };
    let [a, b, c] = &parts;
    assert_eq!(read(1), part(a, false, (1, 3), 2));
    assert_eq!(read(2), part(a, true, (1, 3), 2));
    assert_eq!(read(3), part(b, true, (2, 3), 2));
    assert_eq!(read(4), part(c, true, (3, 3), 1));
    assert_eq!(read(5), whole(&[("behind", false)], 0, false));
}

/// So many streams, and what reads for one of them: it returns which part of how many that shows.
fn so_many_readers(count: usize) -> (Vec<SessionId>, impl FnMut(SessionId) -> Option<(u32, u32)>) {
    let mut relay = Relay::told_within(Bounds {
        sessions_max: 2 * READERS_MAX,
        ..LARGE
    });
    relay.call(B, 1, post(Some("pm"), "dev-a", &three().concat()));
    let sessions: Vec<SessionId> = (100..).map(SessionId).take(count).collect();
    for session in &sessions {
        relay.open(*session, Carrier::Stream, None);
    }
    let mut calls = 200..;
    let read = move |session| {
        let call = calls.next().expect("they have no end");
        shown(&relay.call(session, call, read_within("dev-a", 310))).part
    };
    (sessions, read)
}

#[test]
fn of_too_many_that_are_shown_parts_the_one_that_came_least_far_begins_again() {
    let (sessions, mut read) = so_many_readers(READERS_MAX + 1);
    for session in &sessions {
        assert_eq!(read(*session), Some((1, 3)));
    }
    // So that all in turn come to an end.
    let (others, [last, too_many]) = sessions.split_at(READERS_MAX - 1) else {
        unreachable!("they are one too many");
    };
    for session in others {
        assert_eq!(read(*session), Some((2, 3)));
    }
    assert_eq!(read(*last), Some((1, 3)));
    assert_eq!(read(*too_many), Some((1, 3)));
    assert_eq!(read(others[1]), Some((3, 3)));
}

#[test]
fn of_too_many_that_are_shown_parts_those_that_read_no_more_are_forgotten() {
    let (sessions, mut read) = so_many_readers(READERS_MAX + 2);
    let (idle, two) = sessions.split_at(READERS_MAX);
    for session in idle {
        assert_eq!(read(*session), Some((1, 3)));
    }
    // Each takes the other's place, until it is seen that the others do not come.
    let parts: Vec<Option<(u32, u32)>> = (0..)
        .flat_map(|_| two.iter())
        .map(|session| read(*session))
        .take_while(|part| *part != Some((3, 3)))
        .collect();
    let [shown, readers] =
        [parts.len(), READERS_MAX].map(|count| u64::try_from(count).expect("they are few"));
    // The next of the two takes the place of the first that is idle, and not of the other; three parts later one has all.
    assert_eq!(shown, IDLE_PARTS - readers + 4);
}

#[test]
fn a_client_without_a_name_goes_on_over_its_third_connection() {
    let (mut relay, [a, b, c]) = with_three();
    let mut calls = 20..;
    let mut read = |session, ends: bool| {
        if !ends {
            relay.open(session, Carrier::Exchange, None);
        }
        let call = calls.next().expect("they have no end");
        let effects = relay.call(session, call, read_within("dev-a", 310));
        relay.passed(call);
        relay.followed(call);
        if ends {
            relay.close(session, Ending::Orderly);
        }
        shown(&effects)
    };
    for session in [SessionId(11), SessionId(12)] {
        let is_again = session == SessionId(12);
        assert_eq!(read(session, false), part(&a, is_again, (1, 3), 2));
        assert_eq!(read(session, true), part(&b, is_again, (2, 3), 2));
    }
    assert_eq!(read(SessionId(13), false), part(&c, true, (3, 3), 1));
}

#[test]
fn named_clients_that_are_gone_and_were_shown_several_parts_are_not_one_that_comes_then() {
    let (mut relay, [a, ..]) = with_three();
    for (number, client) in [(1, "x"), (2, "y"), (3, "z")] {
        let session = SessionId(10 + number);
        relay.open(session, Carrier::Exchange, None);
        let client = ClientId(client.into());
        relay.handle(Input::Named { session, client });
        for call in [20 + 10 * number, 21 + 10 * number] {
            let effects = relay.call(session, call, read_within("dev-a", 310));
            relay.passed(call);
            relay.followed(call);
            if call == 50 {
                assert_eq!(shown(&effects), part(&a, true, (1, 3), 2));
            }
        }
        relay.close(session, Ending::Orderly);
    }
}

#[test]
fn what_is_whole_in_replies_when_its_agent_is_taken_over_begins_again_if_it_comes_back() {
    const OLD: SessionId = SessionId(4);
    const NEW: SessionId = SessionId(5);
    let parts = three();
    let mut relay = Relay::told_within(LARGE);
    relay.register(OLD, registration("qa", Some(1)));
    relay.call(OLD, 1, read("qa"));
    relay.call(B, 2, post(Some("pm"), "qa", &parts.concat()));
    let [one, two] = [31, 32].map(SessionId);
    for session in [one, two] {
        relay.open(session, Carrier::Exchange, None);
    }
    for call in [11, 12, 13] {
        relay.call(one, call, read_within("qa", 307));
        relay.passed(call);
        if call < 13 {
            relay.followed(call);
        }
    }
    relay.register(NEW, registration("qa", Some(2)));
    relay.close(one, Ending::Broken);
    let effects = relay.call(two, 21, read_within("qa", 307));
    assert_eq!(shown(&effects), part(&parts[0], true, (1, 3), 1));
}

#[test]
fn who_went_on_with_what_others_were_shown_lacks_nothing_once_all_of_it_begins_again() {
    const OLD: SessionId = SessionId(4);
    const NEW: SessionId = SessionId(5);
    let mut relay = Relay::told_within(LARGE);
    relay.register(OLD, registration("qa", Some(1)));
    relay.call(OLD, 1, read("qa"));
    relay.call(B, 2, post(Some("pm"), "qa", &three().concat()));
    let mut calls = 11..;
    let mut read = |relay: &mut Relay, session, is_followed: bool| {
        let call = calls.next().expect("they have no end");
        let effects = relay.call(session, call, read_within("qa", 307));
        relay.passed(call);
        if is_followed {
            relay.followed(call);
        }
        let part = effects.iter().find_map(|effect| {
            let Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Messages { part, .. })),
                ..
            } = effect
            else {
                return None;
            };
            part.as_deref().copied()
        });
        let part: Part = part.expect("it is shown in parts");
        (call, (part.number, part.begun))
    };
    for session in [31, 32].map(SessionId) {
        relay.open(session, Carrier::Exchange, None);
        read(&mut relay, session, true);
        read(&mut relay, session, true);
        relay.close(session, Ending::Orderly);
    }
    let third = SessionId(33);
    relay.open(third, Carrier::Exchange, None);
    let (last, shown) = read(&mut relay, third, false);
    assert_eq!(shown, (3, 3));
    relay.register(NEW, registration("qa", Some(2)));
    relay.cancelled(last);
    assert_eq!(read(&mut relay, third, true).1, (1, 1));
}

#[test]
fn who_was_not_shown_the_first_parts_since_their_stream_is_gone_is_shown_all_of_them_and_marked() {
    let (mut relay, [a, b, c]) = with_three();
    let mut read = |session, call| {
        let effects = relay.call(session, call, read_within("dev-a", 310));
        relay.passed(call);
        if call == 12 {
            relay.call(session, 90, look("pm"));
            relay.settle();
            relay.close(session, Ending::Orderly);
        }
        shown(&effects)
    };
    assert_eq!(read(A, 11), part(&a, false, (1, 3), 2));
    assert_eq!(read(A, 12), part(&b, false, (2, 3), 2));
    for (call, text, number, remaining) in [(13, &a, 1, 2), (14, &b, 2, 2), (15, &c, 3, 1)] {
        assert_eq!(read(C, call), part(text, true, (number, 3), remaining));
    }
    assert_eq!(read(C, 16), whole(&[("behind", false)], 0, false));
}

#[test]
fn a_later_instance_is_shown_all_parts_marked() {
    const OLD: SessionId = SessionId(4);
    const NEW: SessionId = SessionId(5);
    let [a, b, c] = three();
    let mut relay = Relay::told_within(LARGE);
    relay.register(OLD, registration("qa", Some(1)));
    relay.call(OLD, 1, read("qa"));
    relay.call(B, 2, post(Some("pm"), "qa", &[&*a, &*b, &*c].concat()));
    // A name with two letters takes three bytes less than "dev-a".
    let mut read = |session, call| {
        let effects = relay.call(session, call, read_within("qa", 307));
        relay.passed(call);
        if call == 12 {
            relay.register(NEW, registration("qa", Some(2)));
        }
        shown(&effects)
    };
    assert_eq!(read(OLD, 11), part(&a, false, (1, 3), 1));
    assert_eq!(read(OLD, 12), part(&b, false, (2, 3), 1));
    for (call, text, number) in [(13, &a, 1), (14, &b, 2), (15, &c, 3)] {
        let remaining = usize::from(number < 3);
        assert_eq!(read(NEW, call), part(text, true, (number, 3), remaining));
    }
}

//! Several clients that read for one agent: each is shown all parts of a message, and the first that has seen them has it.

use relay::engine::ClientId;
use relay::engine::limits::READERS_MAX;

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
fn a_client_that_names_itself_goes_on_in_each_of_its_sessions_and_the_nameless_are_one() {
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
    assert_eq!(read(&mut relay, nameless_too, 24), part(&b, true, (2, 3), 2));
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

#[test]
fn of_too_many_that_are_shown_parts_the_one_that_read_least_recently_begins_again() {
    let mut relay = Relay::told_within(Bounds {
        sessions_max: 2 * READERS_MAX,
        ..LARGE
    });
    relay.call(B, 1, post(Some("pm"), "dev-a", &three().concat()));
    let readers = u64::try_from(READERS_MAX).expect("they are few");
    let sessions: Vec<SessionId> = (0..=readers).map(|reader| SessionId(100 + reader)).collect();
    for session in &sessions {
        relay.open(*session, Carrier::Stream, None);
    }
    let mut calls = 200..;
    let mut read = |session| {
        let call = calls.next().expect("they have no end");
        shown(&relay.call(session, call, read_within("dev-a", 310))).part
    };
    for session in &sessions {
        assert_eq!(read(*session), Some((1, 3)));
    }
    assert_eq!(read(sessions[1]), Some((2, 3)));
    assert_eq!(read(sessions[0]), Some((1, 3)));
    assert_eq!(read(sessions[2]), Some((1, 3)));
    assert_eq!(read(sessions[1]), Some((3, 3)));
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

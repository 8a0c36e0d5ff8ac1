//! Who is told of the start, and when again.

use super::*;

#[test]
fn each_agent_is_told_of_the_start_in_its_first_reply_and_only_then() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.post(A, 1, &message(1, 0, "pm", "pm"));
    let first = told(2, [message(1, 0, "pm", "pm")]);
    assert_eq!(relay.call(A, 2, read("pm")), [first]);
    assert_eq!(relay.call(A, 3, read("pm")), [nothing(3)]);
    assert_eq!(relay.call(A, 4, read("dev-a")), [told(4, [])]);
    assert_eq!(relay.call(A, 5, read("dev-a")), [nothing(5)]);
}

#[test]
fn a_look_does_not_tell_of_the_start() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    assert_eq!(relay.call(A, 1, look("pm")), [kinds(1, [])]);
    assert_eq!(relay.call(A, 2, read("pm")), [told(2, [])]);
}

#[test]
fn the_start_is_told_again_when_the_reply_was_lost() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    assert_eq!(relay.call(A, 1, read("pm")), [told(1, [])]);
    assert_eq!(relay.lost(1), NONE);
    assert_eq!(relay.call(A, 2, read("pm")), [told(2, [])]);
    relay.close(A, Ending::Broken);
    relay.open(B, Carrier::Stream, None);
    assert_eq!(relay.call(B, 3, read("pm")), [told(3, [])]);
    relay.passed(3);
    assert_eq!(relay.call(B, 4, read("pm")), [nothing(4)]);
    relay.close(B, Ending::Broken);
    relay.open(C, Carrier::Stream, None);
    assert_eq!(relay.call(C, 5, read("pm")), [nothing(5)]);
}

#[test]
fn a_lost_reply_without_the_news_does_not_bring_it_back() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.call(B, 2, read("dev-a"));
    relay.lost(2);
    assert_eq!(relay.call(B, 3, read("dev-a")), [shown(3, [again(&nth(1))])]);
}

/// A fresh relay with the sessions `A`, `B` and `C`, where call 1 of `A` told `pm` of the start.
fn pm_told_by_a() -> Relay {
    let mut relay = Relay::fresh(ROOMY);
    for session in [A, B, C] {
        relay.open(session, Carrier::Stream, None);
    }
    assert_eq!(relay.call(A, 1, read("pm")), [told(1, [])]);
    relay
}

#[test]
fn a_read_does_not_wait_while_the_start_is_still_to_be_told() {
    let mut relay = Relay::fresh(Bounds {
        waits_max: 0,
        ..ROOMY
    });
    relay.open(A, Carrier::Stream, None);
    assert_eq!(relay.call(A, 1, wait("dev-a", WAIT_MS)), [told(1, [])]);
    assert_eq!(relay.engine.poll_timeout(), None);
    let too_many = Refusal::Mail(mail::Refusal::TooManyWaits { waits: 0 });
    assert_eq!(relay.call(A, 2, wait("dev-a", WAIT_MS)), [refused(2, too_many)]);
}

#[test]
fn a_read_that_would_wait_is_told_of_the_start_and_what_is_there_in_one_reply() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.post(A, 1, &nth(1));
    assert_eq!(relay.call(A, 2, wait("dev-a", WAIT_MS)), [told(2, [nth(1)])]);
}

#[test]
fn a_read_waits_while_another_reply_tells_of_the_start() {
    let mut relay = pm_told_by_a();
    assert_eq!(relay.call(B, 2, wait("pm", WAIT_MS)), NONE);
    relay.passed(1);
    assert_eq!(relay.call(A, 3, look("pm")), [kinds(3, [])]);
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [nothing(2)]);
}

#[test]
fn the_start_that_is_to_be_told_again_goes_to_the_read_that_waits_the_longest() {
    let mut relay = pm_told_by_a();
    relay.call(C, 2, wait("pm", WAIT_MS));
    relay.call(B, 3, wait("pm", WAIT_MS));
    assert_eq!(relay.lost(1), [told(2, [])]);
    assert_eq!(relay.close(C, Ending::Orderly), [told(3, [])]);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.cancelled(3), NONE);
    assert_eq!(relay.call(B, 4, wait("pm", WAIT_MS)), [told(4, [])]);
}

#[test]
fn the_start_that_is_to_be_told_again_wakes_nobody_who_waits_for_another_agent() {
    let mut relay = pm_told_by_a();
    relay.call(A, 2, read("dev-a"));
    relay.call(B, 3, wait("dev-a", WAIT_MS));
    assert_eq!(relay.lost(1), NONE);
    assert_eq!(relay.lost(2), [told(3, [])]);
}

#[test]
fn a_closed_session_s_news_of_the_start_goes_to_the_waits_for_each_agent() {
    let mut relay = pm_told_by_a();
    relay.call(A, 2, read("dev-a"));
    relay.call(A, 3, wait("pm", WAIT_MS));
    relay.call(B, 4, wait("pm", WAIT_MS));
    relay.call(C, 5, wait("dev-a", WAIT_MS));
    assert_eq!(relay.close(A, Ending::Broken), [told(5, []), told(4, [])]);
}

#[test]
fn a_lost_reply_with_messages_and_the_start_goes_to_a_wait_whole() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.open(B, Carrier::Stream, None);
    relay.post(A, 1, &nth(1));
    assert_eq!(relay.call(A, 2, read("dev-a")), [told(2, [nth(1)])]);
    assert_eq!(relay.call(B, 3, wait("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.lost(2), [told(3, [again(&nth(1))])]);
}

#[test]
fn the_start_is_told_while_the_relay_stops() {
    let mut relay = pm_told_by_a();
    relay.call(B, 2, wait("pm", WAIT_MS));
    assert_eq!(relay.handle(Input::Stopping), [nothing(2)]);
    assert_eq!(relay.lost(1), NONE);
    assert_eq!(relay.call(B, 3, wait("pm", WAIT_MS)), [told(3, [])]);
}

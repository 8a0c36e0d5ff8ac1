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
    relay.flushed(3);
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

#[test]
fn a_parked_read_tells_of_the_start_when_it_is_answered() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    assert_eq!(relay.call(A, 1, wait("dev-a", WAIT_MS)), NONE);
    let [posted, log] = accepted(2, &nth(1));
    assert_eq!(relay.post(A, 2, &nth(1)), [posted, log, told(1, [nth(1)])]);
    assert_eq!(relay.call(A, 3, wait("pm", WAIT_MS)), NONE);
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [told(3, [])]);
}

#[test]
fn news_of_the_start_alone_wakes_nobody() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.open(B, Carrier::Stream, None);
    relay.call(A, 1, read("pm"));
    relay.call(B, 2, wait("pm", WAIT_MS));
    assert_eq!(relay.lost(1), NONE);
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [told(2, [])]);
}

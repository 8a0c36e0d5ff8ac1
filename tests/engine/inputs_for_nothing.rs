//! Inputs that come late, twice or about nothing do nothing.

use super::*;

#[test]
fn news_of_a_call_or_a_hand_over_that_is_unknown_is_ignored() {
    let mut relay = handed_to(A);
    let before = relay.engine.clone();
    for sign in SIGNS {
        let handover = HandoverId(77);
        assert_eq!(relay.handle(Input::Signed { handover, sign }), NONE);
    }
    for call in [10, 77] {
        assert_eq!(relay.handle(Input::Cancelled { call: CallId(call) }), NONE);
    }
    assert!(before == relay.engine);
}

#[test]
fn a_post_or_a_look_cannot_be_cancelled_any_more() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.call(A, 2, look("dev-a"));
    for call in [1, 2] {
        assert_eq!(relay.cancelled(call), NONE);
    }
    assert_eq!(relay.call(A, 3, read("dev-a")), [shown(3, [nth(1)])]);
}

#[test]
fn good_news_of_a_parked_read_is_ignored() {
    for carrier in [Carrier::Stream, Carrier::Exchange] {
        let mut relay = Relay::told();
        relay.open(EXCHANGE, carrier, None);
        relay.call(EXCHANGE, 1, wait("dev-a", WAIT_MS));
        assert_eq!(relay.passed(1), NONE);
        assert_eq!(relay.followed(1), NONE);
        assert_eq!(relay.kept_alive(EXCHANGE), NONE);
        assert_eq!(relay.timeout_at(5_000), [nothing(1)]);
    }
}

#[test]
fn a_keep_alive_of_a_session_that_is_not_open_is_ignored() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.close(A, Ending::Broken);
    for session in [A, SessionId(77)] {
        assert_eq!(relay.kept_alive(session), NONE);
    }
    assert_undone(relay);
}

#[test]
fn good_news_after_a_cancellation_is_ignored() {
    let mut relay = handed_to(EXCHANGE);
    relay.passed(10);
    relay.cancelled(10);
    assert_eq!(relay.followed(10), NONE);
    assert_eq!(relay.passed(10), NONE);
    assert_eq!(relay.followed(10), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_undone(relay);
}

#[test]
fn repeated_good_news_is_ignored() {
    let mut relay = handed_to(EXCHANGE);
    for _ in 0..2 {
        assert_eq!(relay.passed(10), NONE);
        assert_eq!(relay.followed(10), NONE);
        assert_eq!(relay.engine.poll_timeout(), settles_at(0));
    }
    assert_eq!(relay.settle(), NONE);
    assert_eq!(relay.followed(10), NONE);
    assert_eq!(relay.cancelled(10), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_confirmed(relay);
}

#[test]
fn repeated_bad_news_is_ignored() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.call(A, 2, read("dev-a"));
    for _ in 0..2 {
        assert_eq!(relay.lost(2), NONE);
        assert_eq!(relay.cancelled(2), NONE);
        assert_eq!(relay.passed(2), NONE);
        assert_eq!(relay.followed(2), NONE);
        assert_eq!(relay.kept_alive(A), NONE);
    }
    assert_eq!(relay.engine.poll_timeout(), None);
    let once = shown(3, [again(&nth(1))]);
    assert_eq!(relay.call(A, 3, read("dev-a")), [once]);
    assert_eq!(relay.lost(2), NONE);
    assert_eq!(relay.call(A, 4, read("dev-a")), [nothing(4)]);
}

#[test]
fn a_session_that_is_not_open_gets_no_answer_and_takes_nothing() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.close(B, Ending::Orderly);
    for (call, session) in [(2, B), (12, SessionId(77))] {
        assert_eq!(relay.call(session, call, read("dev-a")), NONE);
        assert_eq!(relay.call(session, call + 1, post(Some("pm"), "pm", "")), NONE);
        assert_eq!(relay.call(session, call + 2, read("nobody")), NONE);
        assert_eq!(relay.call(session, call + 3, wait("pm", WAIT_MS)), NONE);
        assert_eq!(relay.close(session, Ending::Broken), NONE);
    }
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.pending(), [0, 1, 0]);
}

#[test]
fn time_that_passes_while_nothing_is_due_does_nothing() {
    let mut relay = Relay::told();
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.timeout_at(1_000_000_000), NONE);
}

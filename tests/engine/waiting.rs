//! Reads that wait: who is answered first, and how a wait ends.

use super::*;

#[test]
fn a_wait_is_answered_as_soon_as_something_comes() {
    let mut relay = Relay::told();
    assert_eq!(relay.call(B, 1, wait("dev-a", WAIT_MS)), NONE);
    let [posted] = accepted(2, &nth(1));
    let woken = shown(1, [nth(1)]);
    assert_eq!(relay.post(A, 2, &nth(1)), [posted, woken]);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.post(A, 3, &nth(2)), accepted(3, &nth(2)));
}

#[test]
fn a_message_for_another_agent_wakes_nobody() {
    let mut relay = Relay::told();
    relay.call(B, 1, wait("dev-b", WAIT_MS));
    assert_eq!(relay.post(A, 2, &nth(1)), accepted(2, &nth(1)));
}

#[test]
fn a_read_does_not_wait_when_there_is_something() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    assert_eq!(relay.call(B, 2, wait("dev-a", WAIT_MS)), [shown(2, [nth(1)])]);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn a_wait_ends_empty_handed_at_its_deadline_and_not_a_millisecond_before() {
    let mut relay = Relay::told();
    relay.now = START.plus_millis(7);
    relay.call(B, 1, wait("dev-a", WAIT_MS));
    let deadline = START.plus_millis(5_007);
    assert_eq!(relay.engine.poll_timeout(), Some((deadline, Reason::WaitExpires)));
    assert_eq!(relay.timeout_at(5_006), NONE);
    assert_eq!(relay.engine.poll_timeout(), Some((deadline, Reason::WaitExpires)));
    assert_eq!(relay.timeout_at(5_007), [nothing(1)]);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.timeout_at(5_008), NONE);
}

#[test]
fn all_waits_whose_time_has_come_end_earliest_first() {
    let mut relay = Relay::told();
    relay.call(A, 1, wait("dev-a", 30));
    relay.call(B, 2, wait("dev-a", 10));
    relay.call(C, 3, wait("dev-a", 20));
    relay.call(C, 4, wait("dev-b", 40));
    assert_eq!(relay.timeout_at(30), [nothing(2), nothing(3), nothing(1)]);
    assert_eq!(relay.timeout_at(1_000_000), [nothing(4)]);
}

#[test]
fn an_expired_wait_takes_nothing_that_comes_later() {
    let mut relay = Relay::told();
    relay.call(B, 1, wait("dev-a", WAIT_MS));
    relay.timeout_at(5_000);
    let later = posted_at(5_000, &nth(1));
    assert_eq!(relay.post(A, 2, &later), accepted(2, &later));
    assert_eq!(relay.pending(), [0, 1, 0]);
}

#[test]
fn a_newer_wait_of_the_same_session_supersedes_the_older_one() {
    let mut relay = Relay::told();
    relay.call(B, 1, wait("dev-a", 10));
    assert_eq!(relay.call(B, 2, wait("dev-a", 50)), [nothing(1)]);
    assert_eq!(relay.timeout_at(49), NONE);
    assert_eq!(relay.timeout_at(50), [nothing(2)]);
}

#[test]
fn a_wait_supersedes_only_its_own_session_s_wait_for_the_same_agent() {
    let mut relay = Relay::told();
    relay.call(A, 1, wait("dev-a", 10));
    assert_eq!(relay.call(A, 2, wait("dev-b", 20)), NONE);
    assert_eq!(relay.call(B, 3, wait("dev-a", 30)), NONE);
    assert_eq!(relay.call(A, 4, wait("dev-a", 40)), [nothing(1)]);
    assert_eq!(relay.timeout_at(40), [nothing(2), nothing(3), nothing(4)]);
}

#[test]
fn a_read_that_does_not_wait_leaves_a_wait_parked() {
    let mut relay = Relay::told();
    relay.call(B, 1, wait("dev-a", WAIT_MS));
    assert_eq!(relay.call(B, 2, read("dev-a")), [nothing(2)]);
    assert_eq!(relay.call(B, 3, look("dev-a")), [kinds(3, [])]);
    assert_eq!(relay.timeout_at(5_000), [nothing(1)]);
}

#[test]
fn the_longest_waiting_is_woken_and_the_others_stand_in_line() {
    let mut relay = Relay::told();
    relay.call(C, 1, wait("dev-a", 300));
    relay.call(A, 2, wait("dev-a", 100));
    relay.call(B, 3, wait("dev-a", 200));
    let answers = [(4, 1), (5, 2), (6, 3)];
    for (n, (call, woken)) in (1..).zip(answers) {
        let [posted] = accepted(call, &nth(n));
        assert_eq!(relay.post(A, call, &nth(n)), [posted, shown(woken, [nth(n)])]);
    }
}

#[test]
fn a_wait_that_supersedes_goes_to_the_end_of_the_line() {
    let mut relay = Relay::told();
    relay.call(A, 1, wait("dev-a", WAIT_MS));
    relay.call(B, 2, wait("dev-a", WAIT_MS));
    relay.call(A, 3, wait("dev-a", WAIT_MS));
    let [posted] = accepted(4, &nth(1));
    assert_eq!(relay.post(C, 4, &nth(1)), [posted, shown(2, [nth(1)])]);
}

#[test]
fn a_cancelled_wait_is_never_answered() {
    let mut relay = Relay::told();
    relay.call(A, 1, wait("dev-a", WAIT_MS));
    relay.call(B, 2, wait("dev-a", WAIT_MS));
    assert_eq!(relay.cancelled(1), NONE);
    let [posted] = accepted(3, &nth(1));
    assert_eq!(relay.post(C, 3, &nth(1)), [posted, shown(2, [nth(1)])]);
    assert_eq!(relay.timeout_at(5_000), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn a_parked_read_whose_reply_could_not_be_written_is_cancelled() {
    let mut relay = Relay::told();
    relay.call(A, 1, wait("dev-a", WAIT_MS));
    assert_eq!(relay.lost(1), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.post(C, 2, &nth(1)), accepted(2, &nth(1)));
    assert_eq!(relay.pending(), [0, 1, 0]);
}

#[test]
fn a_closed_session_s_waits_are_never_answered() {
    for ending in [Ending::Orderly, Ending::Broken] {
        let mut relay = Relay::told();
        relay.call(B, 1, wait("dev-a", WAIT_MS));
        relay.call(B, 2, wait("dev-b", WAIT_MS));
        assert_eq!(relay.close(B, ending), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        // Who is spoken for by another session is there.
        relay.call(C, 9, look("dev-a"));
        assert_eq!(relay.post(A, 3, &nth(1)), accepted(3, &nth(1)));
        assert_eq!(relay.call(C, 4, read("dev-a")), [shown(4, [nth(1)])]);
    }
}

#[test]
fn a_relay_that_stops_ends_all_waits_and_parks_no_more() {
    let mut relay = Relay::told();
    let kept = message(1, 0, "pm", "dev-b");
    relay.post(C, 9, &kept);
    relay.call(A, 1, wait("dev-a", WAIT_MS));
    relay.call(B, 2, wait("pm", WAIT_MS));
    assert_eq!(relay.handle(Input::Stopping), [nothing(1), nothing(2)]);
    assert_eq!(relay.handle(Input::Stopping), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.call(A, 3, wait("dev-a", WAIT_MS)), [nothing(3)]);
    // What is there can still be read.
    assert_eq!(relay.call(A, 5, wait("dev-b", WAIT_MS)), [shown(5, [kept])]);
}

#[test]
fn a_wait_until_the_end_of_time_is_possible() {
    let mut relay = Relay::told();
    relay.now = Timestamp::from_millis(i64::MAX - 1);
    relay.call(A, 1, wait("dev-a", WAIT_MS));
    let end = Timestamp::from_millis(i64::MAX);
    assert_eq!(relay.engine.poll_timeout(), Some((end, Reason::WaitExpires)));
}

//! How long a passed reply is in doubt, what a keep-alive says about it, and a doubt that was slept through.

use super::*;

const LATEST: i64 = DOUBT_MS + DOUBT_LATE_MS_MAX;

#[test]
fn a_flushed_reply_is_confirmed_on_an_exchange_when_its_doubt_ends_and_not_a_millisecond_before() {
    for (ms, confirmed) in [(DOUBT_MS + 2, false), (DOUBT_MS + 3, true), (LATEST, true)] {
        let mut relay = handed_to(EXCHANGE);
        relay.now = START.plus_millis(3);
        assert_eq!(relay.passed(10), NONE);
        assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS + 3));
        assert_eq!(relay.timeout_at(ms), NONE);
        assert_eq!(relay.engine.poll_timeout().is_none(), confirmed);
        if confirmed {
            assert_confirmed(relay)
        } else {
            assert_in_doubt(relay)
        }
    }
}

#[test]
fn a_flushed_reply_is_confirmed_on_a_stream_by_a_keep_alive_and_the_end_of_its_doubt() {
    for (ms, confirmed) in [(DOUBT_MS + 2, false), (DOUBT_MS + 3, true), (LATEST, true)] {
        let mut relay = handed_to(A);
        relay.now = START.plus_millis(3);
        relay.passed(10);
        assert_eq!(relay.kept_alive(A), NONE);
        assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS + 3));
        assert_eq!(relay.timeout_at(ms), NONE);
        assert_eq!(relay.engine.poll_timeout().is_none(), confirmed);
        if confirmed {
            assert_confirmed(relay)
        } else {
            assert_in_doubt(relay)
        }
    }
}

#[test]
fn the_end_of_the_doubt_alone_confirms_nothing_on_a_stream() {
    let mut relay = handed_to(A);
    relay.passed(10);
    assert_eq!(relay.timeout_at(DOUBT_MS), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.timeout_at(DOUBT_MS * 1_000), NONE);
    assert_in_doubt(relay);
}

#[test]
fn a_keep_alive_after_the_doubt_confirms_at_once() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.timeout_at(LATEST);
    assert_eq!(relay.kept_alive(A), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.lost(10), NONE);
    assert_confirmed(relay);
}

#[test]
fn a_keep_alive_that_was_slept_through_begins_the_doubt_anew() {
    let latest = DOUBT_MS + OVERDUE_MS_MAX;
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.timeout_at(DOUBT_MS);
    relay.now = START.plus_millis(latest);
    relay.kept_alive(A);
    assert_confirmed(relay);

    let mut relay = handed_to(A);
    relay.passed(10);
    relay.timeout_at(DOUBT_MS);
    relay.now = START.plus_millis(latest + 1);
    relay.kept_alive(A);
    let ends_at = latest + 1 + DOUBT_MS;
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(ends_at));
    relay.timeout_at(ends_at);
    assert_eq!(relay.engine.poll_timeout(), None);
    let mut again = Relay::of(relay.engine.clone());
    again.handovers = relay.handovers.clone();
    again.now = relay.now;
    assert_in_doubt(again);
    relay.kept_alive(A);
    assert_confirmed(relay);
}

#[test]
fn a_keep_alive_before_the_flush_does_not_count() {
    let mut relay = handed_to(A);
    assert_eq!(relay.kept_alive(A), NONE);
    relay.passed(10);
    relay.timeout_at(DOUBT_MS);
    assert_in_doubt(relay);
}

#[test]
fn keep_alives_do_not_end_the_doubt_however_many_there_are() {
    let mut relay = handed_to(A);
    relay.passed(10);
    for _ in 0..3 {
        relay.kept_alive(A);
    }
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS));
    assert_in_doubt(relay);
}

#[test]
fn a_keep_alive_counts_once_the_doubt_is_due_even_before_its_end_is_acted_on() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.now = START.plus_millis(DOUBT_MS);
    relay.kept_alive(A);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS));
    relay.timeout_at(DOUBT_MS);
    assert_confirmed(relay);
}

#[test]
fn another_stream_s_keep_alive_confirms_nothing() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.kept_alive(B);
    relay.timeout_at(DOUBT_MS);
    relay.kept_alive(B);
    assert_in_doubt(relay);
}

#[test]
fn a_keep_alive_says_of_each_hand_over_of_its_stream_what_it_can() {
    let mut relay = Relay::told();
    for n in 1..=3 {
        relay.post(C, u64::from(n), &nth(n));
        relay.call(A, 10 + u64::from(n), read("dev-a"));
    }
    relay.passed(11);
    relay.timeout_at(100);
    relay.passed(12);
    relay.timeout_at(DOUBT_MS);
    // The first is overdue, the second in doubt, the third not even flushed.
    relay.kept_alive(A);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS + 100));
    relay.timeout_at(DOUBT_MS + 100);
    relay.passed(13);
    relay.timeout_at(DOUBT_MS * 2 + 100);
    assert_eq!(relay.engine.poll_timeout(), None);
    relay.close(A, Ending::Orderly);
    assert_eq!(relay.call(C, 20, read("dev-a")), [shown(20, [again(&nth(3))])]);
}

#[test]
fn a_keep_alive_confirms_every_hand_over_that_is_overdue() {
    let mut relay = Relay::told();
    for n in 1..=3 {
        relay.post(C, u64::from(n), &nth(n));
        relay.call(A, 10 + u64::from(n), read("dev-a"));
        relay.passed(10 + u64::from(n));
    }
    relay.timeout_at(DOUBT_MS);
    relay.kept_alive(A);
    assert_confirmed(relay);
}

#[test]
fn a_keep_alive_says_nothing_on_an_exchange() {
    let mut relay = handed_to(EXCHANGE);
    assert_eq!(relay.kept_alive(EXCHANGE), NONE);
    relay.passed(10);
    assert_eq!(relay.kept_alive(EXCHANGE), NONE);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS));
    relay.timeout_at(DOUBT_MS - 1);
    assert_eq!(relay.kept_alive(EXCHANGE), NONE);
    assert_in_doubt(relay);
}

#[test]
fn an_overdue_hand_over_is_confirmed_by_its_stream_s_next_call() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.timeout_at(DOUBT_MS);
    relay.call(A, 11, look("pm"));
    assert_confirmed(relay);
}

#[test]
fn an_overdue_hand_over_is_undone_by_any_end_of_its_stream() {
    for ending in [Ending::Orderly, Ending::Broken] {
        let mut relay = handed_to(A);
        relay.passed(10);
        relay.timeout_at(DOUBT_MS);
        assert_eq!(relay.close(A, ending), NONE);
        assert_eq!(relay.kept_alive(A), NONE);
        assert_undone(relay);
    }
}

#[test]
fn an_overdue_hand_over_is_undone_by_a_cancelled_call_or_a_lost_reply() {
    for news in [Relay::cancelled, Relay::lost] {
        let mut relay = handed_to(A);
        relay.passed(10);
        relay.timeout_at(DOUBT_MS);
        assert_eq!(news(&mut relay, 10), NONE);
        assert_eq!(relay.kept_alive(A), NONE);
        assert_undone(relay);
    }
}

#[test]
fn a_reply_that_was_not_flushed_stays_in_doubt_for_ever() {
    for session in [A, EXCHANGE] {
        let mut relay = handed_to(session);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_eq!(relay.timeout_at(DOUBT_MS * 1_000), NONE);
        assert_eq!(relay.kept_alive(session), NONE);
        assert_eq!(relay.timeout_at(DOUBT_MS * 2_000), NONE);
        assert_in_doubt(relay);
    }
}

#[test]
fn a_second_flush_does_not_prolong_the_doubt() {
    let mut relay = handed_to(EXCHANGE);
    relay.passed(10);
    relay.now = START.plus_millis(500);
    relay.passed(10);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS));
    relay.timeout_at(DOUBT_MS);
    assert_eq!(relay.engine.poll_timeout(), None);
    relay.passed(10);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_confirmed(relay);
}

#[test]
fn a_second_flush_takes_nothing_back_that_is_known_of_a_stream() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.kept_alive(A);
    relay.passed(10);
    relay.timeout_at(DOUBT_MS);
    assert_confirmed(relay);

    let mut relay = handed_to(A);
    relay.passed(10);
    relay.timeout_at(DOUBT_MS);
    relay.passed(10);
    assert_eq!(relay.engine.poll_timeout(), None);
    relay.kept_alive(A);
    assert_confirmed(relay);
}

#[test]
fn a_doubt_that_ends_at_the_latest_moment_counts_and_a_millisecond_later_it_begins_anew() {
    for (session, kept_alive) in [(EXCHANGE, false), (A, true)] {
        let mut relay = handed_to(session);
        relay.passed(10);
        if kept_alive {
            relay.kept_alive(session);
        }
        assert_eq!(relay.timeout_at(LATEST), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_confirmed(relay);

        let mut relay = handed_to(session);
        relay.passed(10);
        if kept_alive {
            relay.kept_alive(session);
        }
        assert_eq!(relay.timeout_at(LATEST + 1), NONE);
        assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(LATEST + 1 + DOUBT_MS));
        assert_in_doubt(relay);
    }
}

#[test]
fn a_stream_whose_doubt_ends_at_the_latest_moment_lacks_only_the_keep_alive() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.timeout_at(LATEST);
    assert_eq!(relay.engine.poll_timeout(), None);
    relay.kept_alive(A);
    assert_confirmed(relay);
}

#[test]
fn a_doubt_that_began_anew_takes_its_whole_time_and_may_be_slept_through_again() {
    let mut relay = handed_to(EXCHANGE);
    relay.passed(10);
    relay.timeout_at(100_000);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(120_000));
    relay.passed(10);
    assert_eq!(relay.timeout_at(119_999), NONE);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(120_000));
    relay.timeout_at(125_001);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(145_001));
    relay.timeout_at(145_001);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_confirmed(relay);
}

#[test]
fn a_keep_alive_of_before_the_sleep_does_not_count_after_it() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.kept_alive(A);
    relay.timeout_at(100_000);
    relay.timeout_at(120_000);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_in_doubt(relay);
}

#[test]
fn a_keep_alive_on_waking_does_not_count_before_the_doubt_begins_anew() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.now = START.plus_millis(100_000);
    relay.kept_alive(A);
    relay.timeout_at(100_000);
    relay.timeout_at(120_000);
    assert_in_doubt(relay);
}

#[test]
fn a_keep_alive_after_the_sleep_confirms_with_the_end_of_the_new_doubt_whichever_comes_last() {
    for keep_alive_first in [false, true] {
        let mut relay = handed_to(A);
        relay.passed(10);
        relay.timeout_at(100_000);
        if keep_alive_first {
            relay.kept_alive(A);
            assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(120_000));
        }
        relay.timeout_at(120_000);
        if !keep_alive_first {
            relay.kept_alive(A);
        }
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_confirmed(relay);
    }
}

#[test]
fn a_doubt_that_began_anew_ends_like_any_other() {
    type Sign = fn(&mut Relay) -> Vec<Effect>;
    let confirming: [(SessionId, Sign); 3] = [
        (EXCHANGE, |relay| relay.followed(10)),
        (EXCHANGE, |relay| relay.close(EXCHANGE, Ending::Orderly)),
        (A, |relay| {
            let listed = relay.call(A, 11, look("dev-a"));
            assert_eq!(listed, [kinds(11, [])]);
            Vec::new()
        }),
    ];
    let undoing: [(SessionId, Sign); 4] = [
        (EXCHANGE, |relay| relay.close(EXCHANGE, Ending::Broken)),
        (EXCHANGE, |relay| relay.lost(10)),
        (A, |relay| relay.close(A, Ending::Orderly)),
        (A, |relay| relay.cancelled(10)),
    ];
    let slept = |session| {
        let mut relay = handed_to(session);
        relay.passed(10);
        relay.timeout_at(100_000);
        relay
    };
    for (session, sign) in confirming {
        let mut relay = slept(session);
        assert_eq!(sign(&mut relay), NONE);
        assert_eq!(relay.settle(), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_confirmed(relay);
    }
    for (session, sign) in undoing {
        let mut relay = slept(session);
        assert_eq!(sign(&mut relay), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_undone(relay);
    }
}

#[test]
fn each_doubt_is_late_for_itself() {
    let mut relay = Relay::told();
    relay.open(EXCHANGE, Carrier::Exchange, None);
    for (n, ms) in [(1, 0), (2, 1)] {
        relay.timeout_at(ms);
        let nth = posted_at(ms, &nth(n));
        relay.post(C, u64::from(n), &nth);
        relay.call(EXCHANGE, 10 + u64::from(n), read("dev-a"));
        relay.passed(10 + u64::from(n));
    }
    assert_eq!(relay.timeout_at(LATEST + 1), NONE);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(LATEST + 1 + DOUBT_MS));
    relay.close(EXCHANGE, Ending::Broken);
    assert_eq!(relay.call(C, 20, read("dev-a")), [shown(20, [again(&nth(1))])]);
}

#[test]
fn a_doubt_at_the_end_of_time_ends() {
    let mut relay = handed_to(EXCHANGE);
    relay.passed(10);
    let end_of_time = i64::MAX - START.as_millis();
    assert_eq!(relay.timeout_at(end_of_time), NONE);
    assert_eq!(relay.now, Timestamp::from_millis(i64::MAX));
    assert_confirmed(relay);
}

#[test]
fn of_a_wait_and_a_doubt_the_earlier_one_is_due_first() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.call(B, 11, wait("dev-a", 1_000));
    relay.call(B, 12, wait("dev-b", 30_000));
    let due = |ms, reason| Some((START.plus_millis(ms), reason));
    assert_eq!(relay.engine.poll_timeout(), due(1_000, Reason::WaitExpires));
    assert_eq!(relay.timeout_at(1_000), [nothing(11)]);
    assert_eq!(relay.engine.poll_timeout(), due(DOUBT_MS, Reason::DoubtEnds));
    assert_eq!(relay.timeout_at(DOUBT_MS), NONE);
    assert_eq!(relay.engine.poll_timeout(), due(30_000, Reason::WaitExpires));
}

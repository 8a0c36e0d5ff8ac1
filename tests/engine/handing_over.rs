//! What confirms a reply that was handed over, and what undoes it.

use super::*;

#[test]
fn a_lost_reply_is_read_again_until_it_is_confirmed() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [nth(1)])]);
    assert_eq!(relay.lost(2), NONE);
    for call in 3..6 {
        let shown = shown(call, [again(&nth(1))]);
        assert_eq!(relay.call(B, call, read("dev-a")), [shown]);
        assert_eq!(relay.lost(call), NONE);
    }
    assert_eq!(relay.call(B, 7, read("dev-a")), [shown(7, [again(&nth(1))])]);
    relay.passed(7);
    assert_eq!(relay.call(B, 8, read("dev-a")), [nothing(8)]);
    assert_eq!(relay.lost(7), NONE);
    assert_eq!(relay.call(B, 9, read("dev-a")), [nothing(9)]);
}

/// One call of each kind; the last one is refused.
fn calls() -> [Command; 5] {
    [
        post(Some("pm"), "pm", ""),
        read("pm"),
        wait("pm", WAIT_MS),
        look("dev-b"),
        look("nobody"),
    ]
}

#[test]
fn a_flushed_reply_is_confirmed_by_its_stream_s_next_call() {
    for command in calls() {
        let mut relay = handed_to(A);
        relay.passed(10);
        relay.call(A, 11, command);
        assert_eq!(relay.lost(10), NONE);
        assert_confirmed(relay);
    }
}

#[test]
fn what_is_no_tool_call_confirms_nothing_on_a_stream() {
    let looks = [
        Command::Resource(Box::new(look("pm"))),
        Command::Resource(Box::new(list(None, false))),
        watches::Command::Watch(watches::Watched::Agents).into(),
        watches::Command::Unwatch(watches::Watched::Agents).into(),
    ];
    for command in looks {
        let mut relay = handed_to(A);
        relay.passed(10);
        relay.call(A, 11, command);
        assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS));
        assert_in_doubt(relay);
    }
}

#[test]
fn the_next_call_confirms_nothing_on_an_exchange() {
    for command in calls() {
        let mut relay = handed_to(EXCHANGE);
        relay.passed(10);
        relay.call(EXCHANGE, 11, command);
        relay.cancelled(11);
        assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS));
        assert_in_doubt(relay);
    }
}

#[test]
fn bytes_that_follow_a_flushed_reply_confirm_it_on_an_exchange() {
    let mut relay = handed_to(EXCHANGE);
    relay.passed(10);
    assert_eq!(relay.followed(10), NONE);
    assert_eq!(relay.engine.poll_timeout(), settles_at(0));
    assert_eq!(relay.lost(10), NONE);
    assert_confirmed(relay);
}

/// A client sends its cancellation and its next request over two connections, which may overtake each other.
#[test]
fn a_cancellation_that_was_overtaken_by_the_next_call_undoes_the_reply_all_the_same() {
    for late_ms in [0, CANCEL_GRACE_MS - 1] {
        let mut streamed = handed_to(A);
        streamed.passed(10);
        streamed.call(A, 11, read("pm"));
        let mut gone = handed_to(A);
        gone.passed(10);
        gone.call(A, 11, read("pm"));
        gone.close(A, Ending::Broken);
        let mut followed = handed_to(EXCHANGE);
        followed.passed(10);
        followed.followed(10);
        let mut ended = handed_to(EXCHANGE);
        ended.passed(10);
        ended.close(EXCHANGE, Ending::Orderly);
        for mut relay in [streamed, gone, followed, ended] {
            assert_eq!(relay.timeout_at(late_ms), NONE);
            assert_eq!(relay.cancelled(10), NONE);
            assert_eq!(relay.engine.poll_timeout(), None);
            assert_undone(relay);
        }
    }
}

#[test]
fn a_reply_that_was_read_cannot_be_cancelled_after_a_while() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.call(A, 11, read("pm"));
    assert_eq!(relay.timeout_at(CANCEL_GRACE_MS), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.cancelled(10), NONE);
    assert_confirmed(relay);
}

#[test]
fn a_reply_that_was_read_is_neither_lost_nor_confirmed_again_nor_undone_by_an_end() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.call(A, 11, read("pm"));
    assert_eq!(relay.lost(10), NONE);
    assert_eq!(relay.passed(10), NONE);
    assert_eq!(relay.kept_alive(A), NONE);
    assert_eq!(relay.call(A, 12, read("pm")), [nothing(12)]);
    assert_eq!(relay.engine.poll_timeout(), settles_at(0));
    assert_eq!(relay.close(A, Ending::Broken), NONE);
    assert_eq!(relay.engine.poll_timeout(), settles_at(0));
    assert_eq!(relay.settle(), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_confirmed(relay);
}

#[test]
fn what_was_read_gives_way_to_a_post_that_needs_its_room_the_oldest_first_and_no_more() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 4,
        ..ROOMY
    });
    for (n, call) in [(1, 11), (2, 12), (3, 13)] {
        relay.post(C, u64::from(n), &nth(n));
        relay.call(A, call, read("dev-a"));
        relay.passed(call);
    }
    relay.call(A, 14, read("pm"));
    relay.post(C, 4, &nth(4));
    assert_eq!(relay.post(C, 5, &nth(5)), accepted(5, &nth(5)));
    assert_eq!(relay.cancelled(11), NONE, "it was confirmed");
    assert_eq!(relay.post(C, 6, &nth(6)), accepted(6, &nth(6)));
    assert_eq!(relay.cancelled(12), NONE, "it was confirmed");
    assert_eq!(relay.pending(), [0, 3, 0]);
    relay.cancelled(13);
    assert_eq!(relay.pending(), [0, 4, 0], "its room was not needed");
}

#[test]
fn what_was_read_can_be_cancelled_until_too_many_were_read_after_it() {
    let mut relay = Relay::told_within(Bounds { read_max: 2, ..ROOMY });
    for (n, call) in [(1, 11), (2, 12), (3, 13)] {
        relay.post(C, u64::from(n), &nth(n));
        relay.call(A, call, read("dev-a"));
        relay.passed(call);
    }
    // The call of 13 has shown that 12 was read, so that two may be cancelled.
    assert_eq!(relay.engine.overview().inboxes[1].in_doubt, 3);
    relay.call(A, 14, read("pm"));
    assert_eq!(relay.engine.overview().inboxes[1].in_doubt, 2);
    assert_eq!(relay.cancelled(11), NONE, "it was confirmed");
    assert_eq!(relay.pending(), [0, 0, 0]);
    relay.cancelled(12);
    relay.cancelled(13);
    assert_eq!(relay.pending(), [0, 2, 0]);
}

#[test]
fn what_was_read_last_can_be_cancelled_the_longest_though_it_was_handed_over_first() {
    let mut relay = Relay::told_within(Bounds {
        read_max: 1,
        inbox_messages_max: 3,
        ..ROOMY
    });
    relay.post(C, 1, &nth(1));
    relay.call(A, 11, read("dev-a"));
    relay.passed(11);
    relay.post(C, 2, &nth(2));
    relay.call(B, 12, read("dev-a"));
    relay.passed(12);
    relay.call(B, 13, read("pm"));
    relay.now = START.plus_millis(1);
    relay.call(A, 14, read("pm"));
    assert_eq!(relay.cancelled(12), NONE, "it was confirmed");
    relay.cancelled(11);
    assert_eq!(relay.pending(), [0, 1, 0]);
}

#[test]
fn what_was_read_first_gives_way_first_though_it_was_handed_over_last() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 2,
        ..ROOMY
    });
    for (call, session) in [(11, A), (12, B)] {
        relay.post(
            C,
            call - 10,
            &nth(u8::try_from(call).expect("a small number") - 10),
        );
        relay.call(session, call, read("dev-a"));
        relay.passed(call);
    }
    relay.call(B, 13, read("pm"));
    relay.now = START.plus_millis(1);
    relay.call(A, 14, read("pm"));
    relay.post(C, 3, &nth(3));
    assert_eq!(relay.cancelled(12), NONE, "it was confirmed");
    relay.cancelled(11);
    assert_eq!(relay.pending(), [0, 2, 0]);
}

#[test]
fn what_only_told_of_the_start_gives_way_to_no_post() {
    let mut relay = Relay::fresh(Bounds {
        inbox_messages_max: 1,
        ..ROOMY
    });
    relay.open(A, Carrier::Stream, None);
    assert_eq!(relay.call(A, 10, read("dev-a")), [told(10, [])]);
    relay.passed(10);
    relay.post(A, 1, &nth(1));
    assert_eq!(relay.call(A, 11, read("dev-a")), [shown(11, [nth(1)])]);
    relay.passed(11);
    relay.call(A, 12, look("dev-a"));
    assert_eq!(relay.post(A, 2, &nth(2)), accepted(2, &nth(2)));
    assert_eq!(relay.cancelled(11), NONE, "it was confirmed");
    relay.cancelled(10);
    assert_eq!(relay.call(A, 13, read("dev-a")), [told(13, [nth(2)])]);
}

#[test]
fn what_was_read_does_not_give_way_where_that_is_not_enough() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 2,
        inbox_bytes_max: 12,
        ..ROOMY
    });
    relay.post(C, 1, &nth(1));
    relay.call(A, 10, read("dev-a"));
    relay.passed(10);
    relay.call(A, 11, read("pm"));
    relay.post(C, 2, &nth(2));
    let before = relay.engine.clone();
    let full = relay.call(C, 3, post(Some("pm"), "dev-a", "1234567"));
    assert!(matches!(
        full[..],
        [Effect::Reply {
            result: Err(Refusal::Mail(_)),
            ..
        }]
    ));
    assert_eq!(relay.engine, before);
    relay.handle(Input::Stopping);
    let before = relay.engine.clone();
    assert_eq!(relay.post(C, 4, &nth(3)), [refused(4, Refusal::Stopping)]);
    assert_eq!(relay.engine, before, "there would have been room");
}

#[test]
fn bytes_that_follow_a_reply_before_its_flush_confirm_nothing() {
    let mut relay = handed_to(EXCHANGE);
    assert_eq!(relay.followed(10), NONE);
    relay.passed(10);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS));
    assert_in_doubt(relay);
}

#[test]
fn bytes_that_follow_confirm_nothing_on_a_stream() {
    let mut relay = handed_to(A);
    assert_eq!(relay.followed(10), NONE);
    relay.passed(10);
    assert_eq!(relay.followed(10), NONE);
    assert_eq!(relay.engine.poll_timeout(), doubt_ends_at(DOUBT_MS));
    // Not when only a keep-alive is missing, either.
    relay.timeout_at(DOUBT_MS);
    assert_eq!(relay.followed(10), NONE);
    assert_in_doubt(relay);
}

#[test]
fn bytes_that_follow_one_reply_say_nothing_of_the_others() {
    let mut relay = Relay::told();
    relay.open(EXCHANGE, Carrier::Exchange, None);
    for n in 1..=3 {
        relay.post(C, u64::from(n), &nth(n));
        relay.call(EXCHANGE, 10 + u64::from(n), read("dev-a"));
        relay.passed(10 + u64::from(n));
    }
    assert_eq!(relay.followed(12), NONE);
    relay.close(EXCHANGE, Ending::Broken);
    let others = [again(&nth(1)), again(&nth(3))];
    assert_eq!(relay.call(C, 20, read("dev-a")), [shown(20, others)]);
}

#[test]
fn another_session_s_call_confirms_nothing() {
    let mut relay = handed_to(A);
    relay.passed(10);
    relay.call(B, 11, read("dev-a"));
    relay.close(A, Ending::Broken);
    assert_undone(relay);
}

#[test]
fn a_call_confirms_all_that_was_flushed_to_its_stream() {
    let mut relay = Relay::told();
    for (n, read_call) in [(1, 11), (2, 12), (3, 13)] {
        relay.post(B, read_call + 10, &nth(n));
        relay.call(A, read_call, read("dev-a"));
    }
    for call in 11..=13 {
        relay.passed(call);
    }
    relay.call(A, 14, look("pm"));
    assert_confirmed(relay);
}

#[test]
fn a_reply_that_was_not_flushed_is_not_confirmed_by_the_next_call() {
    let mut relay = handed_to(A);
    relay.call(A, 11, look("dev-a"));
    relay.close(A, Ending::Broken);
    assert_undone(relay);
}

#[test]
fn a_call_before_the_flush_does_not_confirm_after_it() {
    let mut relay = handed_to(A);
    relay.call(A, 11, look("dev-a"));
    relay.passed(10);
    relay.close(A, Ending::Broken);
    assert_undone(relay);
}

#[test]
fn an_orderly_end_after_the_flush_confirms_on_an_exchange() {
    let mut relay = handed_to(EXCHANGE);
    relay.passed(10);
    assert_eq!(relay.close(EXCHANGE, Ending::Orderly), NONE);
    assert_eq!(relay.settle(), NONE);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_confirmed(relay);
}

#[test]
fn an_orderly_end_before_the_flush_undoes_on_an_exchange() {
    let mut relay = handed_to(EXCHANGE);
    assert_eq!(relay.close(EXCHANGE, Ending::Orderly), NONE);
    assert_undone(relay);
}

#[test]
fn a_broken_end_after_the_flush_undoes_on_an_exchange() {
    let mut relay = handed_to(EXCHANGE);
    relay.passed(10);
    relay.close(EXCHANGE, Ending::Broken);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_undone(relay);
}

#[test]
fn any_end_of_a_stream_undoes_what_was_flushed_last() {
    for ending in [Ending::Orderly, Ending::Broken] {
        for flushed in [false, true] {
            let mut relay = handed_to(A);
            if flushed {
                relay.passed(10);
            }
            assert_eq!(relay.close(A, ending), NONE);
            assert_eq!(relay.engine.poll_timeout(), None);
            assert_undone(relay);
        }
    }
}

#[test]
fn an_end_judges_each_hand_over_of_its_session_alone() {
    let mut relay = Relay::told();
    relay.open(EXCHANGE, Carrier::Exchange, None);
    for n in 1..=3 {
        relay.post(C, u64::from(n), &nth(n));
        relay.call(EXCHANGE, 10 + u64::from(n), read("dev-a"));
    }
    relay.passed(11);
    relay.passed(13);
    relay.close(EXCHANGE, Ending::Orderly);
    assert_eq!(relay.call(C, 20, read("dev-a")), [shown(20, [again(&nth(2))])]);
}

#[test]
fn a_session_s_end_leaves_the_hand_overs_of_others_alone() {
    let mut relay = handed_to(A);
    relay.close(B, Ending::Broken);
    assert_eq!(relay.call(C, 11, read("dev-a")), [nothing(11)]);
}

#[test]
fn a_cancelled_call_undoes_its_reply_flushed_or_not() {
    for flushed in [false, true] {
        let mut relay = handed_to(A);
        if flushed {
            relay.passed(10);
        }
        assert_eq!(relay.cancelled(10), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_undone(relay);
    }
}

#[test]
fn a_lost_reply_is_undone_flushed_or_not() {
    for flushed in [false, true] {
        let mut relay = handed_to(A);
        if flushed {
            relay.passed(10);
        }
        assert_eq!(relay.lost(10), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        assert_undone(relay);
    }
}

#[test]
fn undone_messages_go_in_front_of_newer_ones() {
    let mut relay = handed_to(A);
    relay.post(C, 3, &nth(3));
    relay.lost(10);
    let all = [again(&nth(1)), again(&nth(2)), nth(3)];
    assert_eq!(relay.call(B, 11, read("dev-a")), [shown(11, all)]);
}

#[test]
fn hand_overs_undone_in_any_order_keep_the_order_of_acceptance() {
    for order in [[11, 12, 13], [13, 12, 11], [12, 13, 11], [11, 13, 12]] {
        let mut relay = Relay::told();
        for n in 1..=3 {
            relay.post(C, u64::from(n), &nth(n));
            relay.call(A, 10 + u64::from(n), read("dev-a"));
        }
        relay.post(C, 4, &nth(4));
        for call in order {
            relay.lost(call);
        }
        let all = [again(&nth(1)), again(&nth(2)), again(&nth(3)), nth(4)];
        assert_eq!(relay.call(B, 20, read("dev-a")), [shown(20, all)]);
    }
}

#[test]
fn an_undone_message_goes_back_between_older_and_newer_ones() {
    let mut relay = Relay::told();
    relay.post(C, 1, &nth(1));
    relay.call(A, 11, read("dev-a"));
    relay.post(C, 2, &nth(2));
    relay.call(B, 12, read("dev-a"));
    relay.post(C, 3, &nth(3));
    relay.lost(11);
    let outer = [again(&nth(1)), nth(3)];
    assert_eq!(relay.call(A, 13, read("dev-a")), [shown(13, outer)]);
    relay.lost(12);
    relay.lost(13);
    let all = [again(&nth(1)), again(&nth(2)), again(&nth(3))];
    assert_eq!(relay.call(A, 14, read("dev-a")), [shown(14, all)]);
}

#[test]
fn an_undone_message_goes_to_the_read_that_waits_for_it() {
    let mut relay = handed_to(A);
    relay.call(C, 11, wait("dev-a", WAIT_MS));
    relay.call(B, 12, wait("dev-a", WAIT_MS));
    let both = [again(&nth(1)), again(&nth(2))];
    assert_eq!(relay.lost(10), [shown(11, both.clone())]);
    assert_eq!(relay.cancelled(11), [shown(12, both)]);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn a_lost_reply_goes_to_its_own_session_s_wait_too() {
    let mut relay = handed_to(A);
    relay.call(A, 11, wait("dev-a", WAIT_MS));
    let both = [again(&nth(1)), again(&nth(2))];
    assert_eq!(relay.lost(10), [shown(11, both)]);
}

#[test]
fn a_closed_session_s_messages_go_to_others_and_never_to_its_own_waits() {
    let mut relay = handed_to(A);
    relay.call(A, 11, wait("dev-a", WAIT_MS));
    relay.call(B, 12, wait("dev-a", WAIT_MS));
    let both = [again(&nth(1)), again(&nth(2))];
    assert_eq!(relay.close(A, Ending::Broken), [shown(12, both)]);
}

#[test]
fn a_closed_session_s_hand_overs_of_one_inbox_come_back_in_one_reply() {
    let mut relay = Relay::told();
    relay.post(C, 1, &nth(1));
    relay.call(A, 11, read("dev-a"));
    relay.post(C, 2, &nth(2));
    relay.call(A, 12, read("dev-a"));
    relay.post(C, 3, &message(3, 0, "pm", "dev-b"));
    relay.call(A, 13, read("dev-b"));
    relay.call(B, 14, wait("dev-a", WAIT_MS));
    relay.call(B, 15, wait("dev-b", WAIT_MS));
    assert_eq!(
        relay.close(A, Ending::Broken),
        [
            shown(14, [again(&nth(1)), again(&nth(2))]),
            shown(15, [again(&message(3, 0, "pm", "dev-b"))])
        ]
    );
}

#[test]
fn an_answer_with_nothing_in_it_leaves_nothing_in_doubt() {
    let mut relay = Relay::told();
    relay.call(A, 1, read("dev-a"));
    relay.passed(1);
    assert_eq!(relay.engine.poll_timeout(), None);
    relay.call(A, 2, look("dev-a"));
    relay.passed(2);
    relay.post(A, 3, &nth(1));
    relay.passed(3);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn an_undo_leaves_replies_that_were_given_out_as_they_were() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    let given_out = relay.call(B, 2, read("dev-a"));
    relay.lost(2);
    assert_eq!(given_out, [shown(2, [nth(1)])]);
}

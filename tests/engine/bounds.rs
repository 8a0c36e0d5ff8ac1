//! Each bound lets in so much and not one more.

use super::*;

#[test]
fn a_body_of_the_greatest_length_is_accepted_and_one_more_byte_is_not() {
    let mut relay = Relay::told_within(Bounds {
        body_bytes_max: 4,
        ..ROOMY
    });
    let too_long = |call, bytes| {
        let bytes_max = 4;
        [refused(
            call,
            Refusal::Mail(mail::Refusal::BodyTooLong { bytes, bytes_max }),
        )]
    };
    let body = |body: &str| post(Some("pm"), "dev-a", body);
    assert_eq!(relay.call(A, 1, body("12345")), too_long(1, 5));
    assert_eq!(relay.call(A, 2, body("\u{e9}\u{e9}\u{e9}")), too_long(2, 6));
    assert_eq!(relay.pending(), [0, 0, 0]);
    assert_eq!(relay.call(A, 3, body("1234")).len(), 1);
    assert_eq!(relay.call(A, 4, body("")).len(), 1);
    assert_eq!(relay.pending(), [0, 2, 0]);
}

fn full(call: u64, messages: usize, bytes: usize, bounds: Bounds) -> Effect {
    refused(
        call,
        Refusal::Mail(mail::Refusal::InboxFull {
            agent: name("dev-a"),
            messages,
            bytes,
            messages_max: bounds.inbox_messages_max,
            bytes_max: bounds.inbox_bytes_max,
        }),
    )
}

#[test]
fn an_inbox_takes_so_many_messages_and_not_one_more() {
    let bounds = Bounds {
        inbox_messages_max: 2,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    relay.post(A, 1, &nth(1));
    relay.post(A, 2, &nth(2));
    assert_eq!(relay.post(A, 3, &nth(3)), [full(3, 2, 12, bounds)]);
    let other = message(3, 0, "pm", "dev-b");
    assert_eq!(relay.post(A, 4, &other), accepted(4, &other));
    assert_eq!(relay.call(B, 5, read("dev-a")), [shown(5, [nth(1), nth(2)])]);
}

#[test]
fn an_inbox_takes_so_many_bytes_and_not_one_more() {
    let bounds = Bounds {
        inbox_bytes_max: 10,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    let body = |body: &str| post(Some("pm"), "dev-a", body);
    relay.call(A, 1, body("123456"));
    assert_eq!(relay.call(A, 2, body("12345")), [full(2, 1, 6, bounds)]);
    assert_eq!(relay.call(A, 3, body("1234")).len(), 1);
    assert_eq!(relay.call(A, 4, body("1")), [full(4, 2, 10, bounds)]);
    assert_eq!(relay.call(A, 5, body("")).len(), 1);
    assert_eq!(relay.pending(), [0, 3, 0]);
}

#[test]
fn handed_over_messages_keep_their_room_until_they_are_confirmed() {
    let by_messages = Bounds {
        inbox_messages_max: 2,
        ..ROOMY
    };
    let by_bytes = Bounds {
        inbox_bytes_max: 12,
        ..ROOMY
    };
    for bounds in [by_messages, by_bytes] {
        let mut relay = Relay::told_within(bounds);
        relay.post(C, 1, &nth(1));
        relay.post(C, 2, &nth(2));
        relay.call(A, 3, read("dev-a"));
        assert_eq!(relay.post(C, 4, &nth(3)), [full(4, 2, 12, bounds)]);
        relay.passed(3);
        assert_eq!(relay.post(C, 5, &nth(3)), [full(5, 2, 12, bounds)]);
        // A call on their stream shows that they were read.
        assert_eq!(relay.post(A, 6, &nth(3)), accepted(6, &nth(3)));
        assert_eq!(relay.post(A, 7, &nth(4)), accepted(7, &nth(4)));
        assert_eq!(relay.post(A, 8, &nth(5)), [full(8, 2, 12, bounds)]);
    }
}

#[test]
fn a_confirmation_without_a_call_makes_room_too() {
    let bounds = Bounds {
        inbox_messages_max: 1,
        ..ROOMY
    };
    for session in [A, EXCHANGE] {
        let mut relay = Relay::told_within(bounds);
        relay.open(EXCHANGE, Carrier::Exchange, None);
        relay.post(C, 1, &nth(1));
        relay.call(session, 2, read("dev-a"));
        relay.passed(2);
        relay.timeout_at(DOUBT_MS - 1);
        assert_eq!(relay.post(C, 3, &nth(2)), [full(3, 1, 6, bounds)]);
        if session == EXCHANGE {
            relay.followed(2);
        } else {
            relay.timeout_at(DOUBT_MS);
            assert_eq!(relay.post(C, 4, &nth(2)), [full(4, 1, 6, bounds)]);
            relay.kept_alive(A);
        }
        assert_eq!(relay.post(C, 5, &nth(2)).len(), 1);
    }
}

#[test]
fn undone_messages_find_their_room_kept() {
    let bounds = Bounds {
        inbox_messages_max: 2,
        inbox_bytes_max: 12,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    relay.post(C, 1, &nth(1));
    relay.call(A, 2, read("dev-a"));
    relay.post(C, 3, &nth(2));
    relay.lost(2);
    assert_eq!(relay.post(C, 4, &nth(3)), [full(4, 2, 12, bounds)]);
    let both = shown(5, [again(&nth(1)), nth(2)]);
    assert_eq!(relay.call(A, 5, read("dev-a")), [both]);
    relay.passed(5);
    relay.call(A, 6, look("pm"));
    relay.settle();
    let third = posted_at(CANCEL_GRACE_MS, &nth(3));
    assert_eq!(relay.post(A, 7, &third), accepted(7, &third));
}

#[test]
fn so_many_reads_may_wait_and_not_one_more() {
    let mut relay = Relay::told_within(Bounds {
        waits_max: 2,
        ..ROOMY
    });
    let too_many = |call| {
        [refused(
            call,
            Refusal::Mail(mail::Refusal::TooManyWaits { waits: 2 }),
        )]
    };
    assert_eq!(relay.call(A, 1, wait("pm", 10)), NONE);
    assert_eq!(relay.call(A, 2, wait("dev-a", 20)), NONE);
    assert_eq!(relay.call(B, 3, wait("dev-a", 30)), too_many(3));
    assert_eq!(relay.call(A, 4, wait("dev-b", 40)), too_many(4));
    assert_eq!(relay.call(B, 5, read("dev-a")), [nothing(5)]);
    assert_eq!(relay.timeout_at(10), [nothing(1)]);
    assert_eq!(relay.call(B, 6, wait("dev-a", 50)), NONE);
    assert_eq!(relay.timeout_at(20), [nothing(2)]);
    assert_eq!(relay.timeout_at(60), [nothing(6)]);
}

#[test]
fn a_wait_may_supersede_while_no_further_one_is_accepted() {
    let mut relay = Relay::told_within(Bounds {
        waits_max: 1,
        ..ROOMY
    });
    relay.call(A, 1, wait("dev-a", WAIT_MS));
    assert_eq!(relay.call(A, 2, wait("dev-a", WAIT_MS)), [nothing(1)]);
    let too_many = Refusal::Mail(mail::Refusal::TooManyWaits { waits: 1 });
    assert_eq!(relay.call(B, 3, wait("dev-a", WAIT_MS)), [refused(3, too_many)]);
}

#[test]
fn so_many_sessions_may_be_open_and_not_one_more() {
    let mut relay = Relay::fresh(Bounds {
        sessions_max: 2,
        ..ROOMY
    });
    let opened = |session, result| [Effect::Opened { session, result }];
    assert_eq!(relay.open(A, Carrier::Stream, None), opened(A, Ok(None)));
    assert_eq!(relay.open(B, Carrier::Exchange, None), opened(B, Ok(None)));
    assert_eq!(
        relay.open(C, Carrier::Stream, None),
        opened(
            C,
            Err(Refusal::Sessions(sessions::Refusal::TooMany { sessions: 2 }))
        )
    );
    assert_eq!(relay.engine.status().sessions, 2);
    assert_eq!(relay.call(C, 1, look("pm")), NONE);
    assert_eq!(relay.close(C, Ending::Orderly), NONE);
    assert_eq!(relay.engine.status().sessions, 2);
    relay.close(A, Ending::Broken);
    assert_eq!(relay.open(C, Carrier::Stream, None), opened(C, Ok(None)));
}

#[test]
fn the_documented_bounds_are_the_ones_in_force() {
    let bounds = Bounds {
        body_bytes_max: 1_048_576,
        inbox_messages_max: 10_000,
        inbox_bytes_max: 67_108_864,
        read_max: 64,
        awaited_max: 1_000,
        sessions_max: 4_096,
        waits_max: 4_096,
        agents_max: 16_384,
        projects_max: 256,
        groups_max: 1_024,
        members_max: 1_024,
        description_bytes_max: 1_024,
        channels_max: 1_024,
        nodes_max: 16_384,
        actions_max: 1_024,
        invocations_max: 1_024,
        invocations_bytes_max: 4 * 1024 * 1024,
        idempotency_max: 10_000,
        hops_max: 100,
        trace_max: 8_192,
        trace_bytes_max: 4 * 1024 * 1024,
        workers_max: 16,
        reactions_max: 64,
    };
    assert_eq!(Bounds::default(), bounds);
    assert_eq!(DOUBT_MS, 20_000);
    assert_eq!((DOUBT_LATE_MS_MAX, OVERDUE_MS_MAX), (5_000, 25_000));
    assert_eq!((CANCEL_GRACE_MS, SETTLE_SLACK_MS), (2_000, 1_000));
    assert_eq!(relay::engine::limits::WAIT_SECONDS_MAX, 280);
}

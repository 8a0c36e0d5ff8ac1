//! An agent names the last message that it has seen, and gets again what it was handed behind that.

use relay::engine::limits::RECENT_MAX;
use relay::engine::receipts::{self, Receipt};
use relay::engine::room::{Escapes, Form, Room};
use relay::engine::trace::Happened;

use super::nodes::{NODE, frames};
use super::*;

fn given(after: &str, wait_ms: u32) -> Command {
    let mut read = mail::Command::read_all(Some("dev-a".to_owned()), wait_ms);
    if let mail::Command::Read { options, .. } = &mut read {
        options.get_or_insert_default().after = Some(after.to_owned());
    }
    read.into()
}

/// Reads what `dev-a` was handed behind the n-th message, beside what is new.
fn after(n: u8) -> Command {
    given(&id(n).to_string(), 0)
}

/// A relay in which `dev-a` has so many messages, read by `A`, for good.
fn having_read(messages: u8) -> Relay {
    let mut relay = Relay::told();
    hand(&mut relay, 10, 1..=messages);
    confirm(&mut relay, 10);
    relay.events();
    relay
}

/// Has messages of those numbers posted, and read by `A` in a call.
fn hand(relay: &mut Relay, call: u64, numbers: std::ops::RangeInclusive<u8>) {
    for n in numbers.clone() {
        relay.post(C, u64::from(n), &nth(n));
    }
    assert_eq!(
        relay.call(A, call, read("dev-a")),
        [shown(call, numbers.map(nth))]
    );
}

/// Has the reply to a call arrive, as nobody doubts any more.
fn confirm(relay: &mut Relay, call: u64) {
    relay.passed(call);
    relay.call(A, 900, look("pm"));
    relay.settle();
    // What is posted later is posted at the start all the same.
    relay.now = START;
}

/// How the hand-overs of messages ended since the last time, by which signs, and what came again.
fn became(relay: &mut Relay) -> Vec<(&'static str, Option<Sign>, Vec<u64>)> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else ends a hand-over")]
    let became = relay.events().into_iter().filter_map(|event| match event {
        Event::Confirmed { by, deliveries, .. } => Some(("confirmed", Some(by), deliveries)),
        Event::Undone { by, deliveries, .. } => Some(("undone", Some(by), deliveries)),
        Event::AskedAgain { deliveries, .. } => Some(("asked again", None, deliveries)),
        _ => None,
    });
    let places = |deliveries: &[Delivery]| deliveries.iter().map(|delivery| delivery.seq.0).collect();
    became
        .map(|(what, by, deliveries)| (what, by, places(&deliveries)))
        .collect()
}

#[test]
fn what_was_read_behind_the_message_comes_again_in_its_old_order_and_marked() {
    let mut relay = having_read(3);
    let rest = [again(&nth(2)), again(&nth(3))];
    assert_eq!(relay.call(A, 11, after(1)), [shown(11, rest.clone())]);
    let asked = Event::AskedAgain {
        agent: name("dev-a"),
        deliveries: Arc::new(rest.to_vec()),
        after: MessageId(id(1)),
    };
    assert_eq!(relay.events().first(), Some(&asked));
}

#[test]
fn what_comes_again_stands_in_front_of_what_is_new() {
    let mut relay = having_read(2);
    relay.post(C, 3, &nth(3));
    let all = shown(11, [again(&nth(2)), nth(3)]);
    assert_eq!(relay.call(A, 11, after(1)), [all]);
}

#[test]
fn the_last_message_that_was_handed_over_brings_nothing() {
    let mut relay = having_read(3);
    assert_eq!(relay.call(A, 11, after(3)), [nothing(11)]);
    assert_eq!(became(&mut relay), []);
}

#[test]
fn the_same_message_brings_nothing_twice_whether_its_reply_has_arrived_or_not() {
    let mut relay = having_read(3);
    let rest = [again(&nth(2)), again(&nth(3))];
    assert_eq!(relay.call(A, 11, after(1)), [shown(11, rest.clone())]);
    assert_eq!(relay.call(B, 12, after(1)), [nothing(12)]);
    confirm(&mut relay, 11);
    assert_eq!(relay.call(B, 13, after(1)), [nothing(13)]);
    // Another one does, and so does the first after that.
    assert_eq!(relay.call(A, 14, after(2)), [shown(14, [again(&nth(3))])]);
    confirm(&mut relay, 14);
    assert_eq!(relay.call(A, 15, after(1)), [shown(15, rest)]);
}

#[test]
fn a_lost_reply_with_what_came_again_is_read_again_as_any_other() {
    let mut relay = having_read(2);
    assert_eq!(relay.call(A, 11, after(1)), [shown(11, [again(&nth(2))])]);
    assert_eq!(relay.lost(11), NONE);
    assert_eq!(relay.call(A, 12, after(1)), [shown(12, [again(&nth(2))])]);
}

#[test]
fn the_same_message_brings_what_was_handed_over_since() {
    let mut relay = having_read(2);
    assert_eq!(relay.call(A, 11, after(1)), [shown(11, [again(&nth(2))])]);
    confirm(&mut relay, 11);
    hand(&mut relay, 12, 3..=3);
    confirm(&mut relay, 12);
    assert_eq!(relay.call(A, 13, after(1)), [shown(13, [again(&nth(3))])]);
}

#[test]
fn a_message_in_a_reply_that_is_in_doubt_confirms_it_and_brings_what_is_behind_it_there() {
    let mut relay = Relay::told();
    hand(&mut relay, 10, 1..=3);
    relay.events();
    assert_eq!(relay.call(B, 11, after(2)), [shown(11, [again(&nth(3))])]);
    assert_eq!(
        became(&mut relay),
        [
            ("confirmed", Some(Sign::Seen), vec![0, 1, 2]),
            ("asked again", None, vec![2])
        ]
    );
    assert_eq!(relay.lost(10), NONE);
    assert_eq!(relay.call(B, 12, read("dev-a")), [nothing(12)]);
}

#[test]
fn the_replies_behind_it_are_undone_and_those_before_it_stay_in_doubt() {
    let mut relay = Relay::told();
    for (call, n) in [(10, 1), (11, 2), (12, 3)] {
        hand(&mut relay, call, n..=n);
    }
    relay.events();
    assert_eq!(relay.call(B, 13, after(2)), [shown(13, [again(&nth(3))])]);
    assert_eq!(
        became(&mut relay),
        [
            ("confirmed", Some(Sign::Seen), vec![1]),
            ("undone", Some(Sign::Unseen), vec![2])
        ]
    );
    assert_eq!(relay.lost(10), NONE);
    assert_eq!(relay.call(B, 14, read("dev-a")), [shown(14, [again(&nth(1))])]);
}

#[test]
fn a_reply_that_was_read_and_might_be_cancelled_is_undone_too() {
    let mut relay = having_read(1);
    hand(&mut relay, 11, 2..=2);
    relay.passed(11);
    // The call itself shows that the reply before it was read, and its model says that it has not seen it.
    assert_eq!(relay.call(A, 12, after(1)), [shown(12, [again(&nth(2))])]);
    assert_eq!(became(&mut relay), [("undone", Some(Sign::Unseen), vec![1])]);
}

#[test]
fn what_has_come_back_comes_by_itself_with_all_that_is_behind_it() {
    let mut relay = Relay::told();
    hand(&mut relay, 10, 1..=2);
    relay.lost(10);
    let both = shown(11, [again(&nth(1)), again(&nth(2))]);
    assert_eq!(relay.call(A, 11, after(1)), [both]);
}

#[test]
fn what_is_not_remembered_is_refused_with_the_oldest_that_is() {
    let mut relay = Relay::told();
    relay.post(C, 1, &nth(1));
    let first = id(1).to_string();
    for given_as in ["no id", &first, ""] {
        let given = given_as.to_owned();
        let refusal = mail::Refusal::NotRemembered { given, oldest: None };
        assert_eq!(
            relay.call(A, 2, self::given(given_as, 0)),
            [refused(2, refusal.into())]
        );
    }
    let mut relay = having_read(3);
    relay.post(C, 4, &nth(4));
    let other = id(4).to_string();
    let oldest = Some(MessageId(id(1)));
    let refusal = Refusal::from(mail::Refusal::NotRemembered {
        given: other.clone(),
        oldest,
    });
    assert_eq!(refusal.class(), Class::Unknown);
    assert_eq!(relay.call(A, 11, given(&other, WAIT_MS)), [refused(11, refusal)]);
}

#[test]
fn what_the_person_took_in_its_stead_its_agent_does_not_get() {
    const PERSON: SessionId = SessionId(7);
    for arrives in [true, false] {
        let mut relay = having_read(1);
        relay.open_for_person(PERSON);
        relay.post(C, 2, &nth(2));
        let taken = relay.call(PERSON, 20, read("dev-a"));
        assert_eq!(taken, [shown(20, [nth(2)])]);
        relay.passed(20);
        if arrives {
            relay.followed(20);
            relay.settle();
            relay.now = START;
        }
        relay.events();
        assert_eq!(relay.call(A, 21, after(1)), [nothing(21)], "arrives: {arrives}");
        assert_eq!(became(&mut relay), [], "arrives: {arrives}");
        let given = id(2).to_string();
        let oldest = Some(MessageId(id(1)));
        let unknown = mail::Refusal::NotRemembered { given, oldest };
        assert_eq!(relay.call(A, 22, after(2)), [refused(22, unknown.into())]);
    }
}

#[test]
fn a_read_waits_where_nothing_is_behind_the_message_and_is_answered_where_something_is() {
    let mut relay = having_read(2);
    assert_eq!(relay.call(A, 11, given(&id(2).to_string(), WAIT_MS)), NONE);
    let answer = relay.post(C, 3, &nth(3));
    assert!(answer.contains(&shown(11, [nth(3)])), "{answer:?}");
    confirm(&mut relay, 11);
    let rest = shown(12, [again(&nth(2)), again(&nth(3))]);
    assert_eq!(relay.call(A, 12, given(&id(1).to_string(), WAIT_MS)), [rest]);
}

/// [`Relay::handle`] sees that a refusal changes nothing.
#[test]
fn a_read_that_may_not_wait_brings_nothing_back() {
    let mut relay = having_read(2);
    assert_eq!(relay.call(B, 11, wait("dev-a", WAIT_MS)), NONE);
    let mut command = given(&id(1).to_string(), WAIT_MS);
    if let Command::Mail(mail::Command::Read { second, .. }) = &mut command {
        *second = mail::Second::IsRefused;
    }
    let agent = name("dev-a");
    let refusal = mail::Refusal::AlreadyWaits { agent };
    assert_eq!(relay.call(A, 12, command), [refused(12, refusal.into())]);
    assert_eq!(relay.call(A, 13, after(1)), [shown(13, [again(&nth(2))])]);
}

#[test]
fn as_many_as_fit_come_again_and_the_same_message_brings_the_rest_later() {
    let bounds = Bounds {
        inbox_messages_max: 3,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    hand(&mut relay, 10, 1..=3);
    confirm(&mut relay, 10);
    relay.post(C, 4, &nth(4));
    relay.post(C, 5, &nth(5));
    let first = shown(11, [again(&nth(2)), nth(4), nth(5)]);
    assert_eq!(relay.call(A, 11, after(1)), [first]);
    confirm(&mut relay, 11);
    assert_eq!(
        relay.call(A, 12, after(1)),
        [shown(12, [again(&nth(3)), again(&nth(4)), again(&nth(5))])]
    );
}

#[test]
fn all_of_a_large_reply_comes_again_and_the_message_is_remembered_beyond_that() {
    let messages = u8::try_from(RECENT_MAX).expect("a small bound") + 10;
    let mut relay = Relay::told();
    hand(&mut relay, 10, 1..=messages);
    let rest = || (2..=messages).map(|n| again(&nth(n)));
    assert_eq!(relay.call(A, 11, after(1)), [shown(11, rest())]);
    assert_eq!(relay.call(A, 12, after(1)), [nothing(12)]);
}

#[test]
fn what_is_held_stands_aside_when_it_is_asked_for_again() {
    let mut relay = Relay::with_person();
    hand(&mut relay, 10, 1..=2);
    confirm(&mut relay, 10);
    assert_eq!(relay.hold("dev-a"), 0);
    assert_eq!(relay.call(A, 11, after(1)), [nothing(11)]);
    let passed = relay.allow(2);
    assert_eq!(passed, NONE);
    assert_eq!(relay.call(A, 12, read("dev-a")), [shown(12, [again(&nth(2))])]);
}

#[test]
fn what_is_past_its_deadline_does_not_come_again_and_what_is_not_expires_still() {
    let mut relay = Relay::told();
    let with_deadline = |ms| mail::PostOptions {
        handling: relay::engine::handling::Handling {
            deadline: Some(START.plus_millis(ms)),
            ..Default::default()
        },
        ..mail::PostOptions::default()
    };
    relay.post(C, 1, &nth(1));
    relay.post_with(C, 2, &nth(2), Some(with_deadline(CANCEL_GRACE_MS)));
    relay.post_with(C, 3, &nth(3), Some(with_deadline(CANCEL_GRACE_MS + 10)));
    relay.call(A, 10, read("dev-a"));
    confirm(&mut relay, 10);
    relay.timeout_at(CANCEL_GRACE_MS);
    let mut command = after(1);
    if let Command::Mail(mail::Command::Read { options, .. }) = &mut command {
        options.get_or_insert_default().from = Some("pm".to_owned());
    }
    relay.events();
    let effects = relay.call(A, 11, command);
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    let places: Vec<u64> = deliveries.iter().map(|delivery| delivery.seq.0).collect();
    assert_eq!(places, [2]);
    relay.lost(11);
    relay.timeout_at(CANCEL_GRACE_MS + 10);
    assert_eq!(relay.call(A, 12, read("dev-a")), [nothing(12)]);
}

#[test]
fn what_its_agent_failed_to_do_does_not_come_again_and_may_be_named() {
    let mut relay = Relay::told();
    relay.open(EXCHANGE, Carrier::Exchange, Some("dev-a"));
    hand(&mut relay, 10, 1..=1);
    confirm(&mut relay, 10);
    relay.post(C, 2, &nth(2));
    let give = receipts::Command::Give {
        message: id(2).to_string(),
        receipt: Receipt::Failed {
            reason: None,
            retryable: false,
        },
        metadata: None,
    };
    relay.call(EXCHANGE, 11, give.into());
    assert_eq!(relay.call(A, 12, after(1)), [nothing(12)]);
    assert_eq!(relay.call(A, 13, after(2)), [nothing(13)]);
}

#[test]
fn what_its_agent_has_only_accepted_comes_again() {
    let mut relay = Relay::told();
    relay.open(EXCHANGE, Carrier::Exchange, Some("dev-a"));
    hand(&mut relay, 10, 1..=1);
    confirm(&mut relay, 10);
    relay.post(C, 2, &nth(2));
    let give = receipts::Command::Give {
        message: id(2).to_string(),
        receipt: Receipt::Accepted { retryable: false },
        metadata: None,
    };
    relay.call(EXCHANGE, 11, give.into());
    assert_ne!(relay.call(A, 12, after(1)), [nothing(12)]);
}

#[test]
fn what_is_asked_for_again_of_an_agent_that_a_node_holds_goes_to_the_node() {
    let mut relay = Relay::with_node();
    relay.posts(1..=2);
    relay.acknowledge(NODE, "dev-a", 2);
    relay.settle();
    let effects = relay.call(A, 11, after(1));
    assert!(effects.contains(&nothing(11)), "{effects:?}");
    assert_eq!(frames(effects), [(NODE, 3, again(&nth(2)))]);
}

#[test]
fn what_is_on_its_way_to_a_node_stays_there() {
    let mut relay = Relay::with_node();
    relay.posts(1..=2);
    relay.events();
    assert_eq!(relay.call(A, 11, after(1)), [nothing(11)]);
    assert_eq!(became(&mut relay), []);
}

#[test]
fn what_came_again_can_be_looked_back_at_and_answered_as_before() {
    let mut relay = having_read(2);
    relay.call(A, 11, after(1));
    confirm(&mut relay, 11);
    let options = mail::PostOptions {
        reply_to: Some(id(2).to_string()),
        ..mail::PostOptions::default()
    };
    let answer = message(3, 0, "dev-a", "pm");
    let effects = relay.post_with(B, 12, &answer, Some(options));
    assert!(matches!(effects[..], [Effect::Reply { result: Ok(_), .. }]));
}

#[test]
fn the_trace_says_by_which_message_another_came_again() {
    let mut relay = Relay::with_person();
    hand(&mut relay, 10, 1..=2);
    confirm(&mut relay, 10);
    relay.call(A, 11, after(1));
    let handed_over = Happened::HandedOver {
        session: A,
        carrier: Carrier::Stream,
        person: false,
    };
    let by = Sign::CalledAgain;
    assert_eq!(
        relay.happened(2, "dev-a"),
        [
            Happened::Queued,
            handed_over.clone(),
            Happened::Read { by },
            Happened::Delivered { by },
            Happened::AskedAgain {
                after: MessageId(id(1))
            },
            handed_over,
        ]
    );
}

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

/// A relay in which `dev-a` has read a message, and one of two parts is behind it.
fn with_parts() -> Relay {
    let bounds = Bounds {
        body_bytes_max: 1_000,
        inbox_bytes_max: 10_000,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    hand(&mut relay, 10, 1..=1);
    confirm(&mut relay, 10);
    relay.call(C, 2, post(Some("pm"), "dev-a", &"x".repeat(150)));
    relay.events();
    relay
}

/// Reads with room for half of it, and returns which part of how many that shows, and whether it is marked.
fn part(relay: &mut Relay, call: u64, named: Option<u8>) -> Option<(u32, u32, bool)> {
    let mut command = named.map_or_else(|| read("dev-a"), after);
    if let Command::Mail(mail::Command::Read { room, .. }) = &mut command {
        *room = Some(Room {
            bytes: 310,
            form: FORM,
        });
    }
    let effects = relay.call(A, call, command);
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, part, .. })),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    let part = part.as_ref()?;
    Some((part.number, part.of, deliveries[0].redelivered))
}

#[test]
fn a_message_of_which_a_part_has_arrived_begins_again_and_not_twice() {
    let mut relay = with_parts();
    assert_eq!(part(&mut relay, 11, None), Some((1, 2, false)));
    confirm(&mut relay, 11);
    assert_eq!(part(&mut relay, 12, Some(1)), Some((1, 2, true)));
    assert_eq!(part(&mut relay, 13, Some(1)), Some((2, 2, true)));
}

#[test]
fn a_message_of_which_one_part_has_arrived_and_the_next_is_in_doubt_begins_again() {
    let mut relay = with_parts();
    assert_eq!(part(&mut relay, 11, None), Some((1, 2, false)));
    confirm(&mut relay, 11);
    assert_eq!(part(&mut relay, 12, None), Some((2, 2, false)));
    assert_eq!(part(&mut relay, 13, Some(1)), Some((1, 2, true)));
    assert_eq!(part(&mut relay, 14, Some(1)), Some((2, 2, true)));
}

#[test]
fn a_message_all_of_whose_parts_are_in_replies_is_read_by_being_named() {
    let mut relay = with_parts();
    assert_eq!(part(&mut relay, 11, None), Some((1, 2, false)));
    assert_eq!(part(&mut relay, 12, None), Some((2, 2, false)));
    hand(&mut relay, 13, 3..=3);
    relay.events();
    assert_eq!(relay.call(B, 14, after(2)), [shown(14, [again(&nth(3))])]);
    assert_eq!(relay.lost(11), NONE);
    assert_eq!(relay.lost(12), NONE);
    assert_eq!(relay.call(B, 15, read("dev-a")), [nothing(15)]);
}

#[test]
fn what_was_handed_over_behind_the_last_part_comes_again_though_it_was_read_first() {
    let mut relay = with_parts();
    assert_eq!(part(&mut relay, 11, None), Some((1, 2, false)));
    assert_eq!(part(&mut relay, 12, None), Some((2, 2, false)));
    hand(&mut relay, 13, 3..=3);
    for call in [13, 12, 11] {
        confirm(&mut relay, call);
    }
    assert_eq!(relay.call(A, 14, after(2)), [shown(14, [again(&nth(3))])]);
}

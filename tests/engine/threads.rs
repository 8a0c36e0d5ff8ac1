//! What a message belongs to: its thread, the message that it answers, and how many turns were taken.

use relay::engine::address::Warning;
use relay::engine::limits::{RECENT_MAX, THREAD_BYTES_MAX};

use super::*;

fn in_thread(thread: &str) -> mail::PostOptions {
    mail::PostOptions {
        thread: Some(thread.to_owned()),
        ..mail::PostOptions::default()
    }
}

fn reply_to(n: u8) -> mail::PostOptions {
    mail::PostOptions {
        reply_to: Some(id(n).to_string()),
        ..mail::PostOptions::default()
    }
}

fn thread(thread: &str, hops: u32) -> Context {
    Context {
        thread: Some(thread.to_owned()),
        hops,
        ..Context::default()
    }
}

/// A reply to the n-th message, in the thread that begins with the `first`.
fn answer(n: u8, first: u8, hops: u32) -> Context {
    Context {
        reply_to: Some(MessageId(id(n))),
        ..thread(&id(first).to_string(), hops)
    }
}

fn unknown(call: u64, given: &str) -> [Effect; 1] {
    let given = given.to_owned();
    [refused(call, mail::Refusal::UnknownMessage { given }.into())]
}

/// Posts what says that it answers one that is not known, and sees that it goes without a thread and that its sender is told.
#[track_caller]
fn goes_outside_of_threads(relay: &mut Relay, session: SessionId, call: u64, delivery: &Delivery, of: u8) {
    let effects = relay.post_with(session, call, delivery, Some(reply_to(of)));
    let [
        Effect::Reply {
            result:
                Ok(Reply::Mail(mail::Reply::Posted {
                    thread: None,
                    warnings,
                    ..
                })),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(**warnings, [Warning::AnswersForgotten]);
    let message = relay.went_out().map(|(message, _)| message);
    assert_eq!(message.as_deref(), Some(&*delivery.message));
}

/// Posts, and sees that what is accepted is what is here.
#[track_caller]
fn goes(relay: &mut Relay, session: SessionId, call: u64, delivery: &Delivery, options: mail::PostOptions) {
    let effects = relay.post_with(session, call, delivery, Some(options));
    assert_eq!(effects, accepted(call, delivery));
    let message = relay.went_out().map(|(message, _)| message);
    assert_eq!(message.as_deref(), Some(&*delivery.message));
}

#[test]
fn a_message_belongs_to_the_thread_that_its_sender_names() {
    let mut relay = Relay::told();
    let first = within(thread("design", 0), &nth(1));
    goes(&mut relay, A, 1, &first, in_thread("design"));
    assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [first])]);
}

#[test]
fn a_message_without_options_belongs_to_nothing() {
    let mut relay = Relay::told();
    goes(&mut relay, A, 1, &nth(1), mail::PostOptions::default());
    assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [nth(1)])]);
}

#[test]
fn the_first_answer_begins_a_thread_that_has_the_id_of_what_it_answers() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    let second = within(answer(1, 1, 1), &message(2, 0, "dev-a", "pm"));
    goes(&mut relay, B, 2, &second, reply_to(1));
    let third = within(answer(2, 1, 2), &message(3, 1, "pm", "dev-a"));
    goes(&mut relay, A, 3, &third, reply_to(2));
    assert_eq!(relay.call(B, 4, read("dev-a")), [shown(4, [nth(1), third])]);
}

#[test]
fn an_answer_may_go_on_in_another_thread() {
    let mut relay = Relay::told();
    relay.post_with(A, 1, &nth(1), Some(in_thread("one")));
    let options = mail::PostOptions {
        thread: Some("two".to_owned()),
        ..reply_to(1)
    };
    let context = Context {
        thread: Some("two".to_owned()),
        ..answer(1, 1, 1)
    };
    let second = within(context, &message(2, 0, "dev-a", "pm"));
    goes(&mut relay, B, 2, &second, options);
    let third = within(
        Context {
            reply_to: Some(MessageId(id(1))),
            ..thread("one", 1)
        },
        &message(3, 1, "dev-a", "pm"),
    );
    // What is answered has a thread already.
    goes(&mut relay, B, 3, &third, reply_to(1));
}

#[test]
fn what_is_answered_is_found_wherever_it_is_in_the_sender_s_inbox() {
    // It waits, was handed over, was read, is kept in mind.
    for stage in 0..4 {
        let mut relay = Relay::told();
        relay.post(A, 1, &nth(1));
        if stage >= 1 {
            relay.call(B, 2, read("dev-a"));
        }
        if stage >= 2 {
            relay.passed(2);
            relay.call(B, 3, look("dev-b"));
        }
        if stage >= 3 {
            relay.settle();
            relay.now = START;
        }
        let second = within(answer(1, 1, 1), &message(2, 0, "dev-a", "dev-b"));
        goes(&mut relay, A, 4, &second, reply_to(1));
    }
}

#[test]
fn who_sent_a_message_may_go_on_from_it() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    let second = within(answer(1, 1, 0), &nth(2));
    goes(&mut relay, A, 2, &second, reply_to(1));
    // But not to somebody who has not got it.
    let elsewhere = message(3, 0, "pm", "dev-b");
    goes_outside_of_threads(&mut relay, A, 3, &elsewhere, 1);
    let everyone = sent(4, 0, "pm", Recipient::everyone(Some("default")));
    goes_outside_of_threads(&mut relay, A, 4, &everyone, 1);
}

#[test]
fn a_message_that_its_sender_has_not_got_is_not_answered() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    let to_pm = message(2, 0, "dev-b", "pm");
    goes_outside_of_threads(&mut relay, B, 2, &to_pm, 1);
    for (call, given) in [(3, ""), (4, "1"), (5, "no id")] {
        let options = mail::PostOptions {
            reply_to: Some(given.to_owned()),
            ..mail::PostOptions::default()
        };
        let from_dev_a = message(2, 0, "dev-a", "pm");
        assert_eq!(
            relay.post_with(B, call, &from_dev_a, Some(options)),
            unknown(call, given)
        );
    }
    let given = "no id".to_owned();
    let class = Refusal::from(mail::Refusal::UnknownMessage { given }).class();
    assert_eq!(class, Class::Unknown);
}

#[test]
fn what_was_read_long_ago_is_not_known_any_more() {
    let mut relay = Relay::told();
    let body = |call: u64| post(Some("pm"), "dev-a", &call.to_string());
    for call in 0..=u64::try_from(RECENT_MAX).unwrap() {
        relay.call(A, call, body(call));
    }
    relay.call(B, 100, read("dev-a"));
    relay.passed(100);
    relay.call(B, 101, look("dev-b"));
    relay.settle();
    relay.now = START;
    goes_outside_of_threads(&mut relay, B, 102, &message(52, 0, "dev-a", "dev-b"), 1);
    let second = within(answer(2, 2, 1), &message(53, 1, "dev-a", "dev-b"));
    goes(&mut relay, B, 103, &second, reply_to(2));
}

#[test]
fn the_name_of_a_thread_is_one_short_line() {
    let mut relay = Relay::told();
    let long = "t".repeat(THREAD_BYTES_MAX);
    for (call, bad) in [
        (1, String::new()),
        (2, format!("{long}t")),
        (3, "a\nb".to_owned()),
    ] {
        let given = relay::engine::shown(&bad);
        let refusal = mail::Refusal::InvalidThread { given };
        assert_eq!(Refusal::from(refusal.clone()).class(), Class::Bad);
        let effects = relay.post_with(A, call, &nth(1), Some(in_thread(&bad)));
        assert_eq!(effects, [refused(call, refusal.into())]);
    }
    let longest = within(thread(&long, 0), &nth(1));
    goes(&mut relay, A, 4, &longest, in_thread(&long));
}

#[test]
fn metadata_counts_as_the_body_does() {
    let bounds = Bounds {
        body_bytes_max: 10,
        inbox_bytes_max: 20,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    let with = |metadata: &str| mail::PostOptions {
        metadata: Some(metadata.to_owned()),
        ..mail::PostOptions::default()
    };
    let (bytes, bytes_max) = (11, 10);
    let too_long = mail::Refusal::BodyTooLong { bytes, bytes_max };
    assert_eq!(
        relay.post_with(A, 2, &nth(1), Some(with("[1,2]"))),
        [refused(2, too_long.into())]
    );
    let context = Context {
        metadata: Some("{\"\"}".to_owned()),
        ..Context::default()
    };
    let full = |call| {
        let refusal = mail::Refusal::InboxFull {
            agent: name("dev-a"),
            messages: 2,
            bytes: 20,
            messages_max: 100,
            bytes_max: 20,
        };
        [refused(call, refusal.into())]
    };
    for n in [1, 2] {
        let nth = within(context.clone(), &nth(n));
        goes(&mut relay, A, u64::from(n) + 2, &nth, with("{\"\"}"));
    }
    assert_eq!(relay.post_with(A, 5, &nth(3), Some(with(""))), full(5));
    let both = [1, 2].map(|n| within(context.clone(), &nth(n)));
    assert_eq!(relay.call(B, 6, read("dev-a")), [shown(6, both)]);
}

/// Posts in a thread by turns, pm first, and returns the hops of each message, as far as they are accepted.
fn by_turns(relay: &mut Relay, calls: std::ops::Range<u64>) -> Vec<Option<u32>> {
    let turns = calls.map(|call| {
        let (from, to) = if call % 2 == 0 {
            ("pm", "dev-a")
        } else {
            ("dev-a", "pm")
        };
        hops(relay, call, from, to)
    });
    turns.collect()
}

fn hops(relay: &mut Relay, call: u64, from: &str, to: &str) -> Option<u32> {
    relay.events();
    let options = Some(Box::new(in_thread("loop")));
    let command = mail::Command::Post {
        from: Some(from.to_owned()),
        to: to.to_owned(),
        kind: Kind::Free,
        body: String::new(),
        options,
    };
    let session = if from == "user" { SessionId(7) } else { A };
    let effects = relay.call(session, call, command.into());
    let too_many = mail::Refusal::TooManyHops {
        hops_max: 3,
        thread: "loop".to_owned(),
    };
    if effects == [refused(call, too_many.into())] {
        return None;
    }
    relay.went_out().map(|(message, _)| message.hops())
}

#[test]
fn senders_take_turns_in_a_thread_so_many_times_and_not_once_more() {
    let mut relay = Relay::told();
    let turns = by_turns(&mut relay, 0..6);
    let expected = [Some(0), Some(1), Some(2), Some(3), None, Some(3)];
    assert_eq!(turns, expected, "the last one has nothing new to answer");
    assert_eq!(
        hops(&mut relay, 10, "dev-b", "pm"),
        Some(0),
        "who got nothing begins anew"
    );
    let too_many = mail::Refusal::TooManyHops {
        hops_max: 3,
        thread: String::new(),
    };
    assert_eq!(Refusal::from(too_many).class(), Class::Conflict);
}

#[test]
fn turns_are_counted_in_each_thread_by_itself() {
    let mut relay = Relay::told();
    relay.post(A, 100, &nth(1));
    assert_eq!(by_turns(&mut relay, 0..3), [Some(0), Some(1), Some(2)]);
    let other = within(thread("other", 0), &message(5, 1, "dev-a", "pm"));
    goes(&mut relay, A, 10, &other, in_thread("other"));
    let older = within(answer(1, 1, 1), &message(6, 2, "dev-a", "pm"));
    goes(&mut relay, A, 11, &older, reply_to(1));
    let metadata = Some("{}".to_owned());
    let context = Context {
        metadata: metadata.clone(),
        ..Context::default()
    };
    let in_none = within(context, &message(7, 3, "dev-a", "pm"));
    let options = mail::PostOptions {
        metadata,
        ..mail::PostOptions::default()
    };
    goes(&mut relay, A, 12, &in_none, options);
}

#[test]
fn a_sender_that_goes_on_by_itself_takes_no_turns() {
    let mut relay = Relay::told();
    assert_eq!(by_turns(&mut relay, 0..2), [Some(0), Some(1)]);
    for call in 2..9 {
        assert_eq!(hops(&mut relay, call, "pm", "dev-a"), Some(2));
    }
}

#[test]
fn the_person_who_says_something_in_a_thread_has_it_go_on() {
    let mut relay = Relay::told();
    relay.open_for_person(SessionId(7));
    assert_eq!(by_turns(&mut relay, 0..4).last(), Some(&Some(3)));
    assert_eq!(hops(&mut relay, 4, "dev-a", "user"), Some(3));
    assert_eq!(hops(&mut relay, 5, "pm", "dev-a"), None);
    assert_eq!(hops(&mut relay, 6, "user", "pm"), Some(0));
    assert_eq!(by_turns(&mut relay, 8..12), [Some(1), Some(2), Some(3), None]);
}

/// It says that what the person was shown before has arrived, which is a step of that.
#[test]
fn the_person_does_not_answer_what_its_own_call_has_had_forgotten() {
    let person = SessionId(7);
    let mut relay = Relay::told_within(Bounds {
        trace_max: 1,
        ..ROOMY
    });
    relay.handle(Input::Opened {
        session: person,
        carrier: Carrier::Stream,
        who: Who::Person,
    });
    relay.post(A, 1, &nth(1));
    relay.call(person, 2, read("dev-a"));
    relay.passed(2);
    relay.post(A, 3, &nth(2));
    let given = id(2).to_string();
    let refusal = mail::Refusal::UnknownMessage { given };
    let effects = relay.post_with(person, 4, &message(3, 0, "user", "pm"), Some(reply_to(2)));
    assert_eq!(effects, [refused(4, refusal.into())]);
}

#[test]
fn replies_are_counted_along_what_they_answer() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    let ends = [("dev-a", "pm"), ("pm", "dev-a")];
    for n in 1_u8..=4 {
        let (from, to) = ends[usize::from(n - 1) % 2];
        let seq = u64::from(n) / 2;
        let next = within(answer(n, 1, n.into()), &message(n + 1, seq, from, to));
        if n <= 3 {
            goes(&mut relay, A, u64::from(n) + 1, &next, reply_to(n));
            continue;
        }
        let (hops_max, thread) = (3, id(1).to_string());
        let refusal = mail::Refusal::TooManyHops { hops_max, thread };
        let effects = relay.post_with(A, 5, &next, Some(reply_to(n)));
        assert_eq!(effects, [refused(5, refusal.into())]);
    }
}

#[test]
fn who_answers_an_older_message_counts_on_from_the_latest() {
    let mut relay = Relay::told();
    relay.open_for_person(SessionId(7));
    relay.post(A, 1, &nth(1));
    goes(
        &mut relay,
        A,
        2,
        &within(answer(1, 1, 1), &message(2, 0, "dev-a", "pm")),
        reply_to(1),
    );
    goes(
        &mut relay,
        A,
        3,
        &within(answer(2, 1, 2), &message(3, 1, "pm", "dev-a")),
        reply_to(2),
    );
    goes(
        &mut relay,
        A,
        4,
        &within(answer(1, 1, 3), &message(4, 1, "dev-a", "pm")),
        reply_to(1),
    );
    let too_many = || mail::Refusal::TooManyHops {
        hops_max: 3,
        thread: id(1).to_string(),
    };
    let fifth = message(5, 2, "pm", "dev-a");
    assert_eq!(
        relay.post_with(A, 5, &fifth, Some(reply_to(2))),
        [refused(5, too_many().into())]
    );
    let said = sent(5, 2, "user", Recipient::agent(&name("pm")));
    let options = mail::PostOptions {
        thread: Some(id(1).to_string()),
        ..mail::PostOptions::default()
    };
    relay.post_with(SessionId(7), 6, &said, Some(options));
    goes(
        &mut relay,
        A,
        7,
        &within(answer(2, 1, 1), &message(6, 2, "pm", "dev-a")),
        reply_to(2),
    );
}

#[test]
fn what_answers_a_message_or_goes_on_in_its_thread_is_a_reply() {
    let is_reply = |context: Option<Context>| {
        let message = context.map_or(nth(2), |context| within(context, &nth(2))).message;
        (message.is_reply(), message.answers())
    };
    let first = Some(MessageId(id(1)));
    assert_eq!(is_reply(None), (false, None));
    assert_eq!(is_reply(Some(thread("design", 0))), (false, None));
    assert_eq!(is_reply(Some(thread(&id(1).to_string(), 1))), (true, first));
    let in_another = Context {
        thread: Some("design".to_owned()),
        ..answer(1, 1, 1)
    };
    assert_eq!(is_reply(Some(in_another)), (true, first));
}

#[test]
fn what_is_answered_may_be_named_by_the_first_digits_of_its_id() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.call(B, 2, read("dev-a"));
    let whole = id(1).to_string();
    let answer_to = |given: &str| mail::PostOptions {
        reply_to: Some(given.to_owned()),
        ..mail::PostOptions::default()
    };
    let back = |n: u8| within(answer(1, 1, 1), &message(n, 0, "dev-a", "pm"));
    goes(&mut relay, B, 3, &back(2), answer_to(&whole[..8]));
    goes(&mut relay, B, 4, &back(3), answer_to(&whole[..13].to_uppercase()));
    for given in [&whole[..7], "no id", ""] {
        let effects = relay.post_with(B, 5, &back(4), Some(answer_to(given)));
        assert_eq!(effects, unknown(5, given));
    }
}

#[test]
fn a_beginning_that_the_ids_of_several_have_is_refused() {
    let mut relay = Relay::told();
    relay.post_two_that_begin_alike();
    relay.call(B, 3, read("dev-a"));
    let answer_to = |given: &str| mail::PostOptions {
        reply_to: Some(given.to_owned()),
        ..mail::PostOptions::default()
    };
    let back = message(3, 0, "dev-a", "pm");
    let effects = relay.post_with(B, 4, &back, Some(answer_to("ABABABAB")));
    let given = "ABABABAB".to_owned();
    assert_eq!(
        effects,
        [refused(4, mail::Refusal::AmbiguousMessage { given }.into())]
    );
    let whole = "abababab-abab-4bab-abab-ababababab0a";
    let context = Context {
        reply_to: Some(MessageId(whole.parse().expect("an id"))),
        ..thread(whole, 1)
    };
    goes(&mut relay, B, 5, &within(context, &back), answer_to(whole));
}

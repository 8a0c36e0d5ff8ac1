//! Reads that ask for less than all, or for more: of one sender or channel, or so many, or for what was read before, or for no
//! second wait.

use std::num::NonZeroUsize;

use relay::engine::limits::{RECENT_BYTES_MAX, RECENT_MAX};

use super::*;

/// A read of dev-a's inbox.
fn some(from: Option<&str>, limit: Option<usize>, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::Read {
        agent: Some("dev-a".to_owned()),
        options: Some(Box::new(mail::ReadOptions {
            from: from.map(str::to_owned),
            limit: limit.and_then(NonZeroUsize::new),
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms,
        second: mail::Second::Supersedes,
    })
}

/// A read that is refused where its session waits already.
fn alone(agent: &str, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::Read {
        agent: Some(agent.to_owned()),
        options: Some(Box::new(mail::ReadOptions {
            limit: NonZeroUsize::new(1),
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms,
        second: mail::Second::IsRefused,
    })
}

/// A reply that leaves something.
fn shown_of_more(call: u64, deliveries: impl IntoIterator<Item = Delivery>, remaining: usize) -> Effect {
    reply(
        call,
        Ok(Reply::Mail(mail::Reply::Messages {
            deliveries: Arc::new(deliveries.into_iter().collect()),
            restarted: None,
            remaining,
            part: None,
            is_cut: false,
            earlier: Vec::new(),
            waited_ms: 0,
            project: None,
        })),
    )
}

/// Four messages for dev-a, by turns of pm and dev-b.
fn four() -> [Delivery; 4] {
    let from = ["pm", "dev-b", "pm", "dev-b"];
    [1, 2, 3, 4].map(|n| message(n, u64::from(n) - 1, from[usize::from(n) - 1], "dev-a"))
}

/// A relay in which they wait.
fn with_four() -> Relay {
    let mut relay = Relay::told();
    for (call, delivery) in (1..).zip(&four()) {
        relay.post(C, call, delivery);
    }
    relay
}

#[test]
fn a_read_takes_the_oldest_of_what_it_asks_for_and_counts_the_rest() {
    let [first, second, third, fourth] = four();
    let mut relay = with_four();
    let read = relay.call(A, 10, some(None, Some(1), 0));
    assert_eq!(read, [shown_of_more(10, [first], 3)]);
    let read = relay.call(A, 11, some(Some("dev-b"), Some(1), 0));
    assert_eq!(read, [shown_of_more(11, [second], 2)]);
    let read = relay.call(A, 12, some(Some("user"), None, 0));
    assert_eq!(read, [shown_of_more(12, [], 2)]);
    let read = relay.call(A, 13, some(Some("dev-b"), Some(9), 0));
    assert_eq!(read, [shown_of_more(13, [fourth], 1)]);
    assert_eq!(relay.call(A, 14, some(None, None, 0)), [shown(14, [third])]);
    assert_eq!(relay.pending(), [0, 0, 0]);
}

#[test]
fn what_was_taken_from_the_middle_comes_back_to_its_place() {
    let [first, second, third, fourth] = four();
    let mut relay = with_four();
    relay.call(A, 10, some(Some("dev-b"), None, 0));
    relay.cancelled(10);
    let all = [first, again(&second), third, again(&fourth)];
    assert_eq!(relay.call(A, 11, some(None, None, 0)), [shown(11, all)]);
}

#[test]
fn who_asks_for_what_a_stranger_sent_is_told_who_there_is() {
    let mut relay = with_four();
    let refusal = Refusal::Agents(agents::Refusal::Unknown {
        name: "nobody".to_owned(),
        known: Known::from(&Roster::default()),
    });
    let read = relay.call(A, 10, some(Some("nobody"), None, WAIT_MS));
    assert_eq!(read, [refused(10, refusal)]);
    assert_eq!(relay.pending(), [0, 4, 0]);
}

#[test]
fn a_wait_for_one_sender_is_not_woken_by_another() {
    let mut relay = Relay::told();
    assert_eq!(relay.call(A, 10, some(Some("dev-b"), None, WAIT_MS)), NONE);
    assert_eq!(relay.call(B, 11, some(None, Some(1), WAIT_MS)), NONE);
    let from_pm = message(1, 0, "pm", "dev-a");
    let [posted] = accepted(1, &from_pm);
    assert_eq!(
        relay.post(C, 1, &from_pm),
        [posted, shown(11, [from_pm])],
        "who has waited longer asks for another"
    );
    let from_pm = message(2, 1, "pm", "dev-a");
    relay.post(C, 2, &from_pm);
    let from_dev_b = message(3, 2, "dev-b", "dev-a");
    let [posted] = accepted(3, &from_dev_b);
    let read = shown_of_more(10, [from_dev_b.clone()], 1);
    assert_eq!(relay.post(C, 3, &from_dev_b), [posted, read]);
}

#[test]
fn what_a_wait_leaves_wakes_the_next() {
    let mut relay = Relay::told();
    let [first, second, ..] = four();
    relay.post(C, 1, &first);
    relay.post(C, 2, &second);
    relay.call(C, 3, some(None, None, 0));
    relay.call(A, 10, some(None, Some(1), WAIT_MS));
    relay.call(B, 11, some(None, None, WAIT_MS));
    assert_eq!(
        relay.cancelled(3),
        [shown_of_more(10, [again(&first)], 1), shown(11, [again(&second)])]
    );
}

#[test]
fn a_wait_for_one_sender_ends_empty_handed_though_another_has_sent_something() {
    let mut relay = with_four();
    relay.call(A, 10, some(Some("user"), None, WAIT_MS));
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [shown_of_more(10, [], 4)]);
    relay.call(A, 11, some(Some("user"), None, WAIT_MS));
    let newer = relay.call(A, 12, some(Some("user"), None, WAIT_MS));
    assert_eq!(newer, [shown_of_more(11, [], 4)], "superseded");
    let newest = relay.call(A, 13, some(Some("pm"), Some(1), WAIT_MS));
    let [first, ..] = four();
    assert_eq!(
        newest,
        [shown_of_more(13, [first], 3)],
        "nobody has to wait for it"
    );
    assert_eq!(relay.handle(Input::Stopping), [shown_of_more(12, [], 3)]);
}

#[test]
fn a_wait_that_is_to_be_the_only_one_for_an_inbox_is_refused_beside_another() {
    let mut relay = Relay::told();
    let already = |call, agent| {
        let refusal = mail::Refusal::AlreadyWaits { agent: name(agent) };
        [refused(call, Refusal::Mail(refusal))]
    };
    assert_eq!(relay.call(A, 10, alone("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.call(A, 11, alone("dev-a", WAIT_MS)), already(11, "dev-a"));
    assert_eq!(relay.call(B, 12, alone("dev-a", WAIT_MS)), already(12, "dev-a"));
    assert_eq!(
        relay.call(B, 13, alone("dev-a", 0)),
        [nothing(13)],
        "it does not wait"
    );
    assert_eq!(
        relay.call(A, 14, alone("pm", WAIT_MS)),
        NONE,
        "for another inbox it may"
    );
    let [posted] = accepted(1, &nth(1));
    assert_eq!(relay.post(C, 1, &nth(1)), [posted, shown(10, [nth(1)])]);
    assert_eq!(
        relay.call(A, 15, alone("dev-a", WAIT_MS)),
        NONE,
        "the first one is over"
    );
    assert_eq!(
        relay.call(A, 17, wait("dev-a", WAIT_MS)),
        [nothing(15)],
        "superseded"
    );
    let person = SessionId(8);
    relay.open_for_person(person);
    assert_eq!(relay.call(person, 19, wait("dev-b", WAIT_MS)), NONE);
    assert_eq!(
        relay.call(B, 20, alone("dev-b", WAIT_MS)),
        NONE,
        "the person in its stead does not count"
    );
    assert_eq!(relay.call(C, 21, alone("dev-b", WAIT_MS)), already(21, "dev-b"));
}

/// A read of the messages of one channel in dev-a's inbox.
fn of_channel(channel: &str, limit: Option<usize>, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::Read {
        agent: Some("dev-a".to_owned()),
        options: Some(Box::new(mail::ReadOptions {
            channel: Some(channel.to_owned()),
            limit: limit.and_then(NonZeroUsize::new),
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms,
        second: mail::Second::Supersedes,
    })
}

/// The n-th message, from pm to a channel, in dev-a's inbox.
fn in_channel(n: u8, channel: &str) -> Delivery {
    let channel = Recipient::channel(&ChannelName::new(channel).expect("a good name"));
    sent(n, u64::from(n) - 3, "pm", channel)
}

/// A relay where dev-a is in two channels: the first two messages, from dev-b, have made them.
fn with_two_channels() -> Relay {
    let mut relay = Relay::told();
    for (call, channel) in [(901, "#one"), (902, "#two")] {
        relay.call(C, call, post(Some("dev-b"), channel, ""));
        relay.call(C, call + 10, of_channel(channel, None, 0));
    }
    relay
}

#[test]
fn a_read_of_a_channel_takes_what_was_sent_there_and_leaves_the_rest() {
    let mut relay = with_two_channels();
    let sent = [in_channel(3, "one"), in_channel(4, "two"), in_channel(5, "one")];
    for (call, delivery) in (1..).zip(&sent) {
        relay.post(C, call, delivery);
    }
    let direct = message(6, 3, "pm", "dev-a");
    relay.post(C, 4, &direct);
    let [first, second, third] = sent;
    assert_eq!(
        relay.call(A, 10, of_channel("#one", Some(1), WAIT_MS)),
        [shown_of_more(10, [first], 3)]
    );
    assert_eq!(
        relay.call(A, 11, of_channel("one", None, WAIT_MS)),
        [shown_of_more(11, [third], 2)]
    );
    let general = relay.call(A, 12, of_channel("#general", None, 0));
    assert_eq!(general, [shown_of_more(12, [], 2)]);
    let rest = shown(13, [second, direct]);
    assert_eq!(relay.call(A, 13, some(None, None, 0)), [rest]);
}

#[test]
fn a_wait_for_a_channel_is_not_woken_by_another_nor_by_what_is_sent_to_the_agent_alone() {
    let mut relay = with_two_channels();
    relay.call(A, 10, of_channel("#one", None, WAIT_MS));
    relay.post(C, 1, &message(3, 0, "pm", "dev-a"));
    relay.post(C, 2, &at(1, &in_channel(4, "two")));
    let there = at(2, &in_channel(5, "one"));
    let [posted] = accepted(3, &there);
    assert_eq!(relay.post(C, 3, &there), [posted, shown_of_more(10, [there], 2)]);
}

#[test]
fn a_read_of_a_channel_and_a_sender_takes_what_fits_both() {
    let mut relay = with_two_channels();
    let by_pm = in_channel(3, "one");
    let other = message(4, 1, "pm", "dev-a");
    let by_dev_b = Delivery {
        message: Arc::new(Message {
            from: name("dev-b"),
            ..(*in_channel(5, "one").message).clone()
        }),
        ..in_channel(5, "one")
    };
    for (call, delivery) in (1..).zip([&by_pm, &other, &by_dev_b]) {
        relay.post(C, call, delivery);
    }
    let both = mail::Command::Read {
        agent: Some("dev-a".to_owned()),
        options: Some(Box::new(mail::ReadOptions {
            from: Some("@pm".to_owned()),
            channel: Some("#one".to_owned()),
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms: 0,
        second: mail::Second::Supersedes,
    };
    assert_eq!(relay.call(A, 10, both.into()), [shown_of_more(10, [by_pm], 2)]);
}

/// A read of dev-a's inbox that asks for what was read before as well.
fn with_earlier(from: Option<&str>, limit: Option<usize>, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::Read {
        agent: Some("dev-a".to_owned()),
        options: Some(Box::new(mail::ReadOptions {
            from: from.map(str::to_owned),
            earlier: true,
            limit: limit.and_then(NonZeroUsize::new),
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms,
        second: mail::Second::Supersedes,
    })
}

/// A reply with what was read before.
fn shown_with(call: u64, deliveries: &[Delivery], earlier: &[Delivery], remaining: usize) -> Effect {
    reply(
        call,
        Ok(Reply::Mail(mail::Reply::Messages {
            part: None,
            is_cut: false,
            deliveries: Arc::new(deliveries.to_vec()),
            restarted: None,
            remaining,
            earlier: earlier.to_vec(),
            waited_ms: 0,
            project: None,
        })),
    )
}

/// Reads all that is in dev-a's inbox, and lets it be known that it was read.
fn read_through(relay: &mut Relay, call: u64) {
    relay.call(B, call, read("dev-a"));
    relay.passed(call);
    relay.call(B, call + 1, look("dev-b"));
    relay.settle();
    relay.now = START;
}

#[test]
fn what_was_read_is_shown_again_to_who_asks_for_it() {
    let [first, second, third, fourth] = four();
    let mut relay = with_four();
    read_through(&mut relay, 20);
    let next = message(5, 4, "pm", "dev-a");
    relay.post(C, 5, &next);
    let all = [first.clone(), second.clone(), third.clone(), fourth.clone()];
    let new = shown_with(10, std::slice::from_ref(&next), &all, 0);
    assert_eq!(relay.call(A, 10, with_earlier(None, None, WAIT_MS)), [new]);
    assert_eq!(
        relay.call(A, 11, with_earlier(None, Some(2), 0)),
        [shown_with(11, &[], &[fourth.clone(), next.clone()], 0)],
        "the latest of it, of which one may still come back"
    );
    let of_dev_b = [second, fourth];
    assert_eq!(
        relay.call(A, 12, with_earlier(Some("dev-b"), None, 0)),
        [shown_with(12, &[], &of_dev_b, 0)]
    );
    assert_eq!(
        relay.call(A, 13, some(None, None, 0)),
        [nothing(13)],
        "if it asks for it"
    );
    assert_eq!(
        relay.call(A, 14, with_earlier(None, None, WAIT_MS)),
        NONE,
        "nobody waits for it"
    );
    assert_eq!(
        relay.lost(10),
        [shown_with(14, &[again(&next)], &all, 0)],
        "what has come back is shown once"
    );
}

#[test]
fn what_was_read_fills_up_to_the_number_that_is_asked_for() {
    let [_, _, _, fourth] = four();
    let mut relay = with_four();
    read_through(&mut relay, 20);
    let next = [5, 6].map(|n| message(n, u64::from(n) - 1, "pm", "dev-a"));
    for (call, delivery) in (5..).zip(&next) {
        relay.post(C, call, delivery);
    }
    let [fifth, sixth] = next;
    assert_eq!(
        relay.call(A, 10, with_earlier(None, Some(1), 0)),
        [shown_with(10, std::slice::from_ref(&fifth), &[], 1)]
    );
    assert_eq!(
        relay.call(A, 11, with_earlier(None, Some(3), 0)),
        [shown_with(11, &[sixth], &[fourth, fifth], 0)]
    );
}

#[test]
fn what_was_read_is_shown_in_the_order_in_which_it_came() {
    let [first, second, third, fourth] = four();
    let mut relay = with_four();
    relay.call(A, 20, some(None, Some(1), 0));
    relay.call(B, 21, some(None, Some(1), 0));
    for (call, session) in [(21, B), (20, A)] {
        relay.passed(call);
        relay.call(session, call + 10, look("dev-b"));
        relay.settle();
    }
    relay.now = START;
    let new = [third, fourth];
    let both = [first, second.clone()];
    assert_eq!(
        relay.call(C, 10, with_earlier(None, Some(4), 0)),
        [shown_with(10, &new, &both, 0)]
    );
    relay.lost(10);
    assert_eq!(
        relay.call(C, 11, with_earlier(None, Some(3), 0)),
        [shown_with(
            11,
            &new.map(|delivery| again(&delivery)),
            &[second],
            0
        )],
        "of two the one that came last"
    );
}

#[test]
fn a_wait_that_ends_shows_what_was_read_before_as_well() {
    let all = four();
    let mut relay = with_four();
    read_through(&mut relay, 20);
    assert_eq!(relay.call(A, 10, with_earlier(None, None, WAIT_MS)), NONE);
    assert_eq!(
        relay.timeout_at(i64::from(WAIT_MS)),
        [shown_with(10, &[], &all, 0)]
    );
}

/// How many messages a read shows that were read before, and the first of them.
fn kept_in_mind(relay: &mut Relay) -> (usize, Option<u64>) {
    let effects = relay.call(A, 3_000, with_earlier(None, None, 0));
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { earlier, .. })),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    (earlier.len(), earlier.first().map(|first| first.seq.0))
}

#[test]
fn so_many_are_kept_in_mind_and_the_oldest_is_forgotten_first() {
    let mut relay = Relay::told();
    let max = u64::try_from(RECENT_MAX).unwrap();
    let post = |relay: &mut Relay, calls: std::ops::Range<u64>| {
        for call in calls {
            relay.call(C, call, post(Some("pm"), "dev-a", ""));
        }
    };
    post(&mut relay, 0..max);
    read_through(&mut relay, 2_000);
    assert_eq!(kept_in_mind(&mut relay), (RECENT_MAX, Some(0)));
    post(&mut relay, max..max + 1);
    read_through(&mut relay, 2_010);
    assert_eq!(kept_in_mind(&mut relay), (RECENT_MAX, Some(1)));
    post(&mut relay, max + 1..2 * max + 3);
    read_through(&mut relay, 2_020);
    assert_eq!(
        kept_in_mind(&mut relay),
        (RECENT_MAX, Some(max + 3)),
        "of more at once, the latest"
    );
}

#[test]
fn so_many_bytes_are_kept_in_mind_but_for_one_longer_message() {
    let mut relay = Relay::told_within(Bounds {
        body_bytes_max: 2 * RECENT_BYTES_MAX,
        inbox_bytes_max: 4 * RECENT_BYTES_MAX,
        ..ROOMY
    });
    let sized = |relay: &mut Relay, call: u64, bytes: usize| {
        relay.call(C, call, post(Some("pm"), "dev-a", &"x".repeat(bytes)));
        read_through(relay, 1_000 + 10 * call);
        kept_in_mind(relay)
    };
    assert_eq!(sized(&mut relay, 1, RECENT_BYTES_MAX - 1), (1, Some(0)));
    assert_eq!(sized(&mut relay, 2, 1), (2, Some(0)));
    assert_eq!(sized(&mut relay, 3, 1), (2, Some(1)));
    assert_eq!(sized(&mut relay, 4, RECENT_BYTES_MAX + 1), (1, Some(3)));
    assert_eq!(sized(&mut relay, 5, 0), (1, Some(4)));
}

//! Reads that ask for less than all: of one sender, or so many, or for no second wait.

use std::num::NonZeroUsize;

use super::*;

/// A read of dev-a's inbox.
fn some(from: Option<&str>, limit: Option<usize>, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::Read {
        agent: Some("dev-a".to_owned()),
        from: from.map(str::to_owned),
        channel: None,
        earlier: false,
        limit: limit.and_then(NonZeroUsize::new),
        wait_ms,
        second: mail::Second::Supersedes,
    })
}

/// A read that is refused where its session waits already.
fn alone(agent: &str, wait_ms: u32) -> Command {
    Command::Mail(mail::Command::Read {
        agent: Some(agent.to_owned()),
        from: None,
        channel: None,
        earlier: false,
        limit: NonZeroUsize::new(1),
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
fn a_wait_that_is_to_be_the_only_one_of_its_session_is_refused_beside_another() {
    let mut relay = Relay::told();
    let already = |call, agent| {
        let refusal = mail::Refusal::AlreadyWaits { agent: name(agent) };
        [refused(call, Refusal::Mail(refusal))]
    };
    assert_eq!(relay.call(A, 10, alone("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.call(A, 11, alone("dev-a", WAIT_MS)), already(11, "dev-a"));
    assert_eq!(relay.call(A, 12, alone("pm", WAIT_MS)), already(12, "dev-a"));
    assert_eq!(
        relay.call(A, 13, alone("pm", 0)),
        [nothing(13)],
        "it does not wait"
    );
    assert_eq!(
        relay.call(B, 14, alone("dev-a", WAIT_MS)),
        NONE,
        "another session may"
    );
    let [posted] = accepted(1, &nth(1));
    assert_eq!(relay.post(C, 1, &nth(1)), [posted, shown(10, [nth(1)])]);
    assert_eq!(
        relay.call(A, 15, alone("dev-a", WAIT_MS)),
        NONE,
        "the first one is over"
    );
    relay.call(A, 16, wait("pm", WAIT_MS));
    assert_eq!(
        relay.call(A, 17, wait("dev-a", WAIT_MS)),
        [nothing(15)],
        "superseded"
    );
    assert_eq!(relay.call(A, 18, alone("dev-b", WAIT_MS)), already(18, "pm"));
}

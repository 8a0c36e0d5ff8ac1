//! Who is told of the start, and when again.

use relay::engine::WorkerId;
use relay::engine::workers::Happened;

use super::workers::{spawn, spawned};
use super::*;

#[test]
fn each_agent_is_told_of_the_start_in_its_first_reply_and_only_then() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.post(A, 1, &message(1, 0, "dev-b", "pm"));
    let first = told(2, [message(1, 0, "dev-b", "pm")]);
    assert_eq!(relay.call(A, 2, read("pm")), [first]);
    assert_eq!(relay.call(A, 3, read("pm")), [nothing(3)]);
    assert_eq!(relay.call(A, 4, read("dev-a")), [told(4, [])]);
    assert_eq!(relay.call(A, 5, read("dev-a")), [nothing(5)]);
}

#[test]
fn the_first_reply_tells_of_the_start_whatever_it_answers() {
    let list = list(None, false);
    let me = Command::from(agents::Command::WhoAmI);
    let group = Command::from(groups::Command::List { project: None });
    let post = post(None, "dev-b", "body");
    let look = Command::Mail(mail::Command::Pending { agent: None });
    for command in [post, look, list, me, group] {
        let mut relay = Relay::fresh(ROOMY);
        let mut as_ever = Relay::after_sessions_of(ROOMY, &[]);
        for relay in [&mut relay, &mut as_ever] {
            relay.open(A, Carrier::Stream, Some("dev-a"));
        }
        let plain = as_ever.call(A, 1, command.clone());
        let [plain] = &plain[..] else {
            panic!("{plain:?} is no one answer");
        };
        assert_eq!(relay.call(A, 1, command.clone()), [told_beside(plain.clone())]);
        let told = relay.events().into_iter().find_map(|event| {
            let Event::HandedOver {
                agent, notice: true, ..
            } = event
            else {
                return None;
            };
            Some(agent)
        });
        assert_eq!(told, Some(name("dev-a")), "{command:?}");
        // Until it is known to have arrived.
        assert_eq!(relay.lost(1), NONE);
        assert_eq!(
            relay.call(A, 2, Command::Mail(mail::Command::read_all(None, 0))),
            [told_again(2)]
        );
        assert_eq!(
            relay.call(A, 3, Command::Mail(mail::Command::read_all(None, 0))),
            [nothing(3)]
        );
    }
}

/// A reply that tells of the start, and of nothing else.
fn told_again(call: u64) -> Effect {
    told(call, [])
}

#[test]
fn a_refusal_tells_nothing_of_the_start_for_nothing_was_sent() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, Some("dev-a"));
    let refused = relay.call(A, 1, post(None, "nobody", "body"));
    assert!(
        matches!(refused[..], [Effect::Reply { result: Err(_), .. }]),
        "{refused:?}"
    );
    let posted = relay.call(A, 2, post(None, "pm", "body"));
    let tells = |effect: &Effect| {
        matches!(
            effect,
            Effect::Reply {
                result: Ok(Reply::AfterStart { .. }),
                ..
            }
        )
    };
    assert!(posted.iter().any(tells), "{posted:?}");
}

#[test]
fn who_had_no_session_before_the_start_is_not_told_of_it() {
    let mut relay = Relay::after_sessions_of(ROOMY, &["dev-a", "qa"]);
    relay.open(A, Carrier::Stream, None);
    assert_eq!(relay.call(A, 1, read("pm")), [nothing(1)]);
    assert_eq!(relay.call(A, 2, read("dev-a")), [told(2, [])]);
    // Whoever is registered later is known by its name alone.
    relay.register(B, registration("qa", None));
    relay.register(C, registration("ops", None));
    assert_eq!(
        relay.call(B, 3, Command::Mail(mail::Command::read_all(None, 0))),
        [told(3, [])]
    );
    assert_eq!(
        relay.call(C, 4, Command::Mail(mail::Command::read_all(None, 0))),
        [nothing(4)]
    );
    relay.open_for_person(EXCHANGE);
    assert_eq!(relay.call(EXCHANGE, 5, read("user")), [told(5, [])]);
    let mut first = Relay::after_sessions_of(ROOMY, &[]);
    first.open_for_person(EXCHANGE);
    assert_eq!(first.call(EXCHANGE, 1, read("user")), [nothing(1)]);
}

#[test]
fn only_what_a_model_reads_tells_of_the_start() {
    let mut relay = Relay::fresh(ROOMY);
    let api = Input::Opened {
        session: A,
        carrier: Carrier::Exchange,
        who: Who::Api("dev-a".to_owned()),
    };
    assert_eq!(relay.handle(api), [opened(A, "dev-a")]);
    let looks = Command::Mail(mail::Command::Pending { agent: None });
    assert_eq!(relay.call(A, 1, looks), [kinds(1, [])]);
    relay.open(B, Carrier::Stream, Some("dev-a"));
    let resource = Command::Resource(Box::new(list(None, false)));
    let listed = relay.call(B, 2, resource);
    assert!(
        matches!(
            listed[..],
            [Effect::Reply {
                result: Ok(Reply::Agents(_)),
                ..
            }]
        ),
        "{listed:?}"
    );
    relay.open_for_person(EXCHANGE);
    relay.call(EXCHANGE, 3, look("dev-a"));
    assert_eq!(relay.call(B, 4, read("dev-a")), [told(4, [])]);
}

#[test]
fn an_answer_that_is_waited_for_tells_of_the_start_and_no_refusal_does() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, Some("pm"));
    relay.open(B, Carrier::Stream, Some("dev-a"));
    let asks = |ms| {
        Command::Mail(mail::Command::Post {
            from: None,
            to: "dev-a".to_owned(),
            kind: Kind::Free,
            body: "may I?".to_owned(),
            options: Some(Box::new(mail::PostOptions {
                await_ms: Some(ms),
                ..mail::PostOptions::default()
            })),
        })
    };
    assert_eq!(relay.call(A, 1, asks(WAIT_MS)), NONE);
    let late = relay.timeout_at(i64::from(WAIT_MS));
    assert!(
        matches!(late[..], [Effect::Reply { result: Err(_), .. }]),
        "{late:?}"
    );
    assert_eq!(relay.call(A, 2, asks(WAIT_MS)), NONE);
    let answered = relay.call(B, 3, post(None, "pm", "yes"));
    let restarted = answered.iter().find_map(|effect| {
        let Effect::Reply {
            call: CallId(2),
            result: Ok(Reply::Mail(mail::Reply::Messages { restarted, .. })),
            ..
        } = effect
        else {
            return None;
        };
        Some(*restarted)
    });
    assert_eq!(restarted, Some(Some(START)), "{answered:?}");
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
    relay.passed(3);
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

/// A fresh relay with the sessions `A`, `B` and `C`, where call 1 of `A` told `pm` of the start.
fn pm_told_by_a() -> Relay {
    let mut relay = Relay::fresh(ROOMY);
    for session in [A, B, C] {
        relay.open(session, Carrier::Stream, None);
    }
    assert_eq!(relay.call(A, 1, read("pm")), [told(1, [])]);
    relay
}

#[test]
fn a_read_does_not_wait_while_the_start_is_still_to_be_told() {
    let mut relay = Relay::fresh(Bounds {
        waits_max: 0,
        ..ROOMY
    });
    relay.open(A, Carrier::Stream, None);
    assert_eq!(relay.call(A, 1, wait("dev-a", WAIT_MS)), [told(1, [])]);
    assert_eq!(relay.engine.poll_timeout(), None);
    let too_many = Refusal::Mail(mail::Refusal::TooManyWaits { waits: 0 });
    assert_eq!(relay.call(A, 2, wait("dev-a", WAIT_MS)), [refused(2, too_many)]);
}

#[test]
fn a_read_that_would_wait_is_told_of_the_start_and_what_is_there_in_one_reply() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.post(A, 1, &nth(1));
    assert_eq!(relay.call(A, 2, wait("dev-a", WAIT_MS)), [told(2, [nth(1)])]);
}

#[test]
fn a_read_waits_while_another_reply_tells_of_the_start() {
    let mut relay = pm_told_by_a();
    assert_eq!(relay.call(B, 2, wait("pm", WAIT_MS)), NONE);
    relay.passed(1);
    assert_eq!(relay.call(A, 3, look("pm")), [kinds(3, [])]);
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [nothing(2)]);
}

#[test]
fn the_start_that_is_to_be_told_again_goes_to_the_read_that_waits_the_longest() {
    let mut relay = pm_told_by_a();
    relay.call(C, 2, wait("pm", WAIT_MS));
    relay.call(B, 3, wait("pm", WAIT_MS));
    assert_eq!(relay.lost(1), [told(2, [])]);
    assert_eq!(relay.close(C, Ending::Orderly), [told(3, [])]);
    assert_eq!(relay.engine.poll_timeout(), None);
    assert_eq!(relay.cancelled(3), NONE);
    assert_eq!(relay.call(B, 4, wait("pm", WAIT_MS)), [told(4, [])]);
}

#[test]
fn the_start_that_is_to_be_told_again_wakes_nobody_who_waits_for_another_agent() {
    let mut relay = pm_told_by_a();
    relay.call(A, 2, read("dev-a"));
    relay.call(B, 3, wait("dev-a", WAIT_MS));
    assert_eq!(relay.lost(1), NONE);
    assert_eq!(relay.lost(2), [told(3, [])]);
}

#[test]
fn a_closed_session_s_news_of_the_start_goes_to_the_waits_for_each_agent() {
    let mut relay = pm_told_by_a();
    relay.call(A, 2, read("dev-a"));
    relay.call(A, 3, wait("pm", WAIT_MS));
    relay.call(B, 4, wait("pm", WAIT_MS));
    relay.call(C, 5, wait("dev-a", WAIT_MS));
    assert_eq!(relay.close(A, Ending::Broken), [told(5, []), told(4, [])]);
}

#[test]
fn a_lost_reply_with_messages_and_the_start_goes_to_a_wait_whole() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.open(B, Carrier::Stream, None);
    relay.post(A, 1, &nth(1));
    assert_eq!(relay.call(A, 2, read("dev-a")), [told(2, [nth(1)])]);
    assert_eq!(relay.call(B, 3, wait("dev-a", WAIT_MS)), NONE);
    assert_eq!(relay.lost(2), [told(3, [again(&nth(1))])]);
}

#[test]
fn the_start_is_told_while_the_relay_stops() {
    let mut relay = pm_told_by_a();
    relay.call(B, 2, wait("pm", WAIT_MS));
    assert_eq!(relay.handle(Input::Stopping), [nothing(2)]);
    assert_eq!(relay.lost(1), NONE);
    assert_eq!(relay.call(B, 3, wait("pm", WAIT_MS)), [told(3, [])]);
}

#[test]
fn that_a_worker_has_started_tells_its_parent_of_the_start_if_it_is_the_first_to_hear() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    relay.call(A, 1, spawn("pm", "w"));
    let started = Input::Worker {
        worker: WorkerId(1),
        happened: Happened::Started,
    };
    assert_eq!(
        relay.handle(started),
        [told_beside(spawned(1, WorkerId(1), "w", "pm"))]
    );
    assert_eq!(relay.call(A, 2, read("pm")), [nothing(2)]);
}

#[test]
fn an_agent_is_newly_seen_once_and_not_by_what_the_person_does_in_its_stead() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open_for_person(A);
    relay.call(A, 1, post(Some("dev-a"), "pm", "x"));
    relay.call(A, 2, read("pm"));
    assert_eq!(relay.engine.take_newly_seen(), None);
    relay.open(B, Carrier::Stream, None);
    relay.call(B, 3, read("pm"));
    assert_eq!(relay.engine.take_newly_seen(), Some(name("pm")));
    relay.call(B, 4, read("pm"));
    assert_eq!(relay.engine.take_newly_seen(), None);
}

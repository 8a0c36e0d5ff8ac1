//! What holds mean for deadlines, awaited answers, threads, idempotency keys and watches.

use relay::engine::handling::Handling;
use relay::engine::holds::{Command as Asks, HeldBy, Refusal as No, Whom};
use relay::engine::trace::Happened;
use relay::engine::watches::Watched;

use super::handling::until;
use super::*;

#[test]
fn a_deadline_ends_what_is_held() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    relay.sends(until(1_000));
    relay.timeout_at(1_000);
    assert_eq!(relay.pending(), [0, 0, 0]);
    let end = relay.happened(1, "dev-a");
    assert_eq!(
        end,
        [Happened::Queued, Happened::Held(HeldBy::To), Happened::Expired]
    );
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn nothing_is_remembered_of_what_was_allowed_once_all_of_it_has_arrived() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    for n in [1, 2] {
        relay.post(A, u64::from(n), &message(n, 0, "pm", "dev-a"));
        relay.allow(n);
    }
    relay.call(B, 3, read("dev-a"));
    relay.passed(3);
    relay.call(B, 4, look("dev-a"));
    // The invariants look for what is remembered of nothing.
    relay.settle();
    assert_eq!(relay.pending(), [0, 0, 0]);
}

#[test]
fn what_is_allowed_passes_to_all_for_whom_it_is_held() {
    let mut relay = Relay::with_person();
    relay.hold_all();
    let to_all = sent(1, 0, "pm", Recipient::everyone(Some(DEFAULT_PROJECT)));
    relay.post(A, 1, &to_all);
    relay.allow(1);
    for (call, agent) in [(2, "dev-a"), (3, "dev-b")] {
        assert_eq!(relay.call(B, call, read(agent)), [shown(call, [to_all.clone()])]);
    }
}

#[test]
fn of_two_that_are_held_and_whose_ids_begin_alike_none_is_meant() {
    let mut relay = Relay::with_person();
    relay.hold_all();
    relay.post_two_that_begin_alike();
    let given = "abababab".to_owned();
    for asks in [
        |message| Asks::Allow { message },
        |message| Asks::Drop { message },
    ] {
        let (refused, _) = relay.person_asks(asks(given.clone()));
        let (given, messages) = (given.clone(), 2);
        assert_eq!(refused, Err(No::Ambiguous { given, messages }.into()));
    }
    assert_eq!(relay.inbox("dev-a").held, 2);
}

#[test]
fn the_hold_on_one_that_is_gone_is_lifted() {
    let mut relay = Relay::with_person();
    let session = SessionId(30);
    let transient = agents::Registration {
        transient: true,
        ..registration("worker", None)
    };
    relay.register(session, transient);
    relay.hold("worker");
    relay.close(session, Ending::Orderly);
    relay.timeout_at(200_000);
    assert_eq!(others(&relay), Vec::<String>::new());
    assert_eq!(relay.lift(Some("worker")).0, Some(0));
    let whom = Whom::Agent("worker".to_owned());
    let (refused, _) = relay.person_asks(Asks::Lift(whom));
    assert!(matches!(refused, Err(Refusal::Agents(_))), "{refused:?}");
}

#[test]
fn a_dropped_message_has_no_deadline_any_more() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    relay.sends(until(1_000));
    relay.drop_held(1);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn who_awaits_an_answer_gets_it_once_it_passes() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    let options = mail::PostOptions {
        await_ms: Some(WAIT_MS),
        ..mail::PostOptions::default()
    };
    assert_eq!(relay.post_with(A, 1, &nth(1), Some(options)), NONE);
    let answer = message(2, 0, "dev-a", "pm");
    relay.post(B, 2, &answer);
    assert_eq!(relay.call(C, 3, read("pm")), [nothing(3)]);
    assert_eq!(relay.allow(2), [shown(1, [answer])]);
}

#[test]
fn the_sender_of_what_is_held_may_go_on_with_it_in_a_thread() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    relay.post(A, 1, &nth(1));
    let options = || mail::PostOptions {
        reply_to: Some(id(1).to_string()),
        ..mail::PostOptions::default()
    };
    let posted = relay.post_with(A, 2, &nth(2), Some(options()));
    let Effect::Reply { result, .. } = &posted[0] else {
        panic!("{posted:?}")
    };
    let Ok(Reply::Mail(mail::Reply::Posted { thread, .. })) = result else {
        panic!("{result:?}")
    };
    assert_eq!(thread.as_deref(), Some(id(1).to_string().as_str()));
    // Whom it is held for has not got it.
    let by_its_agent = relay.post_with(B, 3, &message(3, 0, "dev-a", "pm"), Some(options()));
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Posted { thread, .. })),
            ..
        },
    ] = &by_its_agent[..]
    else {
        panic!("{by_its_agent:?}")
    };
    assert_eq!(*thread, None);
}

#[test]
fn a_repeated_post_is_the_same_one_though_it_is_held_or_dropped() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    let keyed = || mail::PostOptions {
        idempotency_key: Some("key".to_owned()),
        handling: Handling::default(),
        ..mail::PostOptions::default()
    };
    relay.post_with(A, 1, &nth(1), Some(keyed()));
    relay.post_with(A, 2, &nth(1), Some(keyed()));
    assert_eq!(relay.inbox("dev-a").held, 1);
    relay.drop_held(1);
    relay.post_with(A, 3, &nth(1), Some(keyed()));
    assert_eq!(relay.pending(), [0, 0, 0]);
}

#[test]
fn whoever_watches_an_inbox_is_told_of_what_passes_and_not_of_what_is_held() {
    let mut relay = Relay::with_person();
    let watcher = SessionId(30);
    relay.open(watcher, Carrier::Stream, Some("dev-a"));
    relay.call(watcher, 1, watches::Command::Watch(Watched::Inbox).into());
    let changed = Effect::Changed {
        session: watcher,
        what: Watched::Inbox,
    };
    relay.hold("dev-a");
    assert!(!relay.post(A, 2, &nth(1)).contains(&changed));
    assert_eq!(relay.allow(1), [changed]);
}

#[test]
fn who_awaits_one_answer_gets_one_of_two_that_pass_together() {
    let mut relay = Relay::with_person();
    relay.hold("dev-a");
    let options = mail::PostOptions {
        await_ms: Some(WAIT_MS),
        ..mail::PostOptions::default()
    };
    relay.post_with(A, 1, &nth(1), Some(options));
    let (first, second) = (message(2, 0, "dev-a", "pm"), message(3, 1, "dev-a", "pm"));
    relay.post(B, 2, &first);
    relay.post(B, 3, &second);
    let (_, effects) = relay.lift(Some("dev-a"));
    let [
        Effect::Reply {
            call: CallId(1),
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    assert_eq!(**deliveries, [first]);
    assert_eq!(relay.call(C, 4, read("pm")), [shown(4, [second])]);
}

#[test]
fn whether_all_is_held_is_shown() {
    let mut relay = Relay::with_person();
    assert!(!relay.engine.overview().holds_all);
    relay.hold_all();
    assert!(relay.engine.overview().holds_all);
    relay.lift(None);
    assert!(!relay.engine.overview().holds_all);
}

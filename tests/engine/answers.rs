//! Posts that wait for their answer.

use super::*;

/// A post that waits for its answer, from the sender of a message to its recipient.
fn ask(relay: &mut Relay, session: SessionId, call: u64, delivery: &Delivery) -> Vec<Effect> {
    ask_with(relay, session, call, delivery, mail::PostOptions::default())
}

fn ask_with(
    relay: &mut Relay,
    session: SessionId,
    call: u64,
    delivery: &Delivery,
    options: mail::PostOptions,
) -> Vec<Effect> {
    let options = mail::PostOptions {
        await_ms: Some(WAIT_MS),
        ..options
    };
    relay.post_with(session, call, delivery, Some(options))
}

/// A reply that leaves so many.
fn leaving(remaining: usize, shown: &Effect) -> Effect {
    let mut left = shown.clone();
    let Effect::Reply {
        result: Ok(Reply::Mail(mail::Reply::Messages { remaining: told, .. })),
        ..
    } = &mut left
    else {
        panic!("{shown:?} is no reply to a read");
    };
    *told = remaining;
    left
}

/// The refusal of a post that waited in vain.
fn no_answer(call: u64, to: &str) -> Effect {
    let to = to.to_owned();
    refused(call, mail::Refusal::NoAnswer { to, ms: WAIT_MS }.into())
}

#[test]
fn a_post_that_waits_is_answered_by_the_next_message_of_who_got_it() {
    let mut relay = Relay::told();
    let question = message(1, 0, "pm", "dev-a");
    assert_eq!(ask(&mut relay, A, 1, &question), NONE);
    assert_eq!(
        relay.call(B, 2, read("dev-a")),
        [shown(2, [question])],
        "it was accepted"
    );
    let of_another = message(2, 0, "dev-b", "pm");
    assert_eq!(relay.post(C, 3, &of_another), accepted(3, &of_another));
    let answer = message(3, 1, "dev-a", "pm");
    let [posted] = accepted(4, &answer);
    assert_eq!(
        relay.post(B, 4, &answer),
        [posted, leaving(1, &shown(1, [answer]))],
        "what others sent stays"
    );
    let second = message(4, 2, "dev-a", "pm");
    assert_eq!(
        relay.post(B, 5, &second),
        accepted(5, &second),
        "one answer is all"
    );
    assert_eq!(relay.call(A, 6, read("pm")), [shown(6, [of_another, second])]);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn a_post_to_many_is_answered_by_the_first_of_them() {
    let mut relay = Relay::told();
    let to_all = sent(1, 0, "pm", Recipient::everyone(Some("default")));
    assert_eq!(ask(&mut relay, A, 1, &to_all), NONE);
    let answer = message(2, 0, "dev-b", "pm");
    let [posted] = accepted(2, &answer);
    assert_eq!(relay.post(B, 2, &answer), [posted, shown(1, [answer])]);
}

#[test]
fn a_message_in_its_thread_is_an_answer_whoever_sent_it() {
    let mut relay = Relay::told();
    let in_thread = |thread: &str| mail::PostOptions {
        thread: Some(thread.to_owned()),
        ..mail::PostOptions::default()
    };
    let of_thread = |thread: &str, delivery: &Delivery| {
        let thread = Some(thread.to_owned());
        let context = Context {
            thread,
            ..Context::default()
        };
        within(context, delivery)
    };
    let question = message(1, 0, "pm", "dev-a");
    assert_eq!(ask_with(&mut relay, A, 1, &question, in_thread("one")), NONE);
    let other = of_thread("two", &message(2, 0, "dev-b", "pm"));
    let effects = relay.post_with(C, 2, &other, Some(in_thread("two")));
    assert_eq!(effects, accepted(2, &other));
    let answer = of_thread("one", &message(3, 1, "dev-b", "pm"));
    let effects = relay.post_with(C, 3, &answer, Some(in_thread("one")));
    let [posted] = accepted(3, &answer);
    assert_eq!(effects, [posted, leaving(1, &shown(1, [answer]))]);
}

#[test]
fn an_answer_goes_to_who_asked_before_those_who_have_waited_longer() {
    let mut relay = Relay::told();
    relay.call(B, 1, wait("pm", WAIT_MS));
    assert_eq!(ask(&mut relay, A, 2, &message(1, 0, "pm", "dev-a")), NONE);
    assert_eq!(ask(&mut relay, A, 3, &message(2, 1, "pm", "dev-a")), NONE);
    for (n, waiting) in [(3, 2), (4, 3), (5, 1)] {
        let answer = message(n, u64::from(n) - 3, "dev-a", "pm");
        let call = u64::from(n) + 10;
        let [posted] = accepted(call, &answer);
        assert_eq!(
            relay.post(C, call, &answer),
            [posted, shown(waiting, [answer])],
            "who asked first is answered first"
        );
    }
}

#[test]
fn who_asks_may_read_and_wait_beside_it() {
    let mut relay = Relay::told();
    assert_eq!(ask(&mut relay, A, 1, &message(1, 0, "pm", "dev-a")), NONE);
    let alone = |agent: &str| {
        let mut read = mail::Command::read_all(Some(agent.to_owned()), WAIT_MS);
        if let mail::Command::Read { second, .. } = &mut read {
            *second = mail::Second::IsRefused;
        }
        Command::Mail(read)
    };
    assert_eq!(relay.call(A, 2, alone("pm")), NONE, "it is no second wait");
    assert_eq!(
        relay.call(A, 3, wait("pm", WAIT_MS)),
        [nothing(2)],
        "nor superseded"
    );
    let other = message(2, 0, "dev-b", "pm");
    let [posted] = accepted(4, &other);
    assert_eq!(relay.post(B, 4, &other), [posted, shown(3, [other])]);
    let answer = message(3, 1, "dev-a", "pm");
    let [posted] = accepted(5, &answer);
    assert_eq!(relay.post(B, 5, &answer), [posted, shown(1, [answer])]);
}

#[test]
fn a_message_that_was_there_before_is_no_answer() {
    let mut relay = Relay::told();
    let before = message(1, 0, "dev-a", "pm");
    relay.post(B, 1, &before);
    assert_eq!(ask(&mut relay, A, 2, &message(2, 0, "pm", "dev-a")), NONE);
    relay.call(C, 3, read("pm"));
    assert_eq!(relay.lost(3), NONE, "nor when it comes back");
    let answer = message(3, 1, "dev-a", "pm");
    let [posted] = accepted(4, &answer);
    assert_eq!(
        relay.post(B, 4, &answer),
        [posted, leaving(1, &shown(2, [answer.clone()]))]
    );
    assert_eq!(relay.cancelled(2), NONE);
    let both = shown(5, [again(&before), again(&answer)]);
    assert_eq!(
        relay.call(A, 5, read("pm")),
        [both],
        "an answer that was lost is read"
    );
}

#[test]
fn who_asks_itself_is_answered_by_what_it_says_next() {
    let mut relay = Relay::told();
    let question = message(1, 0, "pm", "pm");
    assert_eq!(ask(&mut relay, A, 1, &question), NONE);
    let answer = message(2, 1, "pm", "pm");
    let [posted] = accepted(2, &answer);
    assert_eq!(
        relay.post(A, 2, &answer),
        [posted, leaving(1, &shown(1, [answer]))]
    );
    assert_eq!(relay.call(A, 3, read("pm")), [shown(3, [question])]);
}

#[test]
fn nobody_is_asked_who_is_not_there() {
    let mut relay = Relay::told();
    let to_nobody = sent(
        1,
        0,
        "pm",
        Recipient::channel(&ChannelName::new("build").expect("a good name")),
    );
    let nobody = agents::Refusal::Nobody {
        to: to_nobody.message.to.clone(),
    };
    relay.events();
    assert_eq!(ask(&mut relay, A, 1, &to_nobody), [refused(1, nobody.into())]);
    assert_eq!(relay.went_out(), None);
}

#[test]
fn who_gets_no_answer_in_time_is_told_so() {
    let mut relay = Relay::told();
    assert_eq!(ask(&mut relay, A, 1, &message(1, 0, "pm", "dev-a")), NONE);
    relay.post(B, 2, &message(2, 0, "dev-b", "pm"));
    let deadline = START.plus_millis(i64::from(WAIT_MS));
    assert_eq!(relay.engine.poll_timeout(), Some((deadline, Reason::WaitExpires)));
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS) - 1), NONE);
    assert_eq!(relay.timeout_at(i64::from(WAIT_MS)), [no_answer(1, "dev-a")]);
    assert_eq!(relay.pending(), [1, 1, 0], "what was accepted stays so");
    let to = "pm".to_owned();
    let refusal = mail::Refusal::NoAnswer { to, ms: 1 };
    assert_eq!(Refusal::from(refusal).class(), Class::Full);
}

#[test]
fn a_post_that_waits_can_be_cancelled_and_ends_with_its_session() {
    for ends in [
        (|relay| relay.cancelled(1)) as fn(&mut Relay) -> Vec<Effect>,
        |relay| relay.lost(1),
        |relay| relay.close(A, Ending::Orderly),
    ] {
        let mut relay = Relay::told();
        assert_eq!(ask(&mut relay, A, 1, &message(1, 0, "pm", "dev-a")), NONE);
        assert_eq!(ends(&mut relay), NONE);
        assert_eq!(relay.engine.poll_timeout(), None);
        // Who is spoken for by another session is there.
        relay.call(C, 9, look("pm"));
        let answer = message(2, 0, "dev-a", "pm");
        assert_eq!(relay.post(B, 2, &answer), accepted(2, &answer));
        assert_eq!(relay.pending(), [1, 1, 0], "the question is there all the same");
    }
}

#[test]
fn a_relay_that_stops_ends_it() {
    let mut relay = Relay::told();
    assert_eq!(ask(&mut relay, A, 1, &message(1, 0, "pm", "dev-a")), NONE);
    assert_eq!(relay.handle(Input::Stopping), [refused(1, Refusal::Stopping)]);
    assert_eq!(relay.engine.poll_timeout(), None);
    let next = message(2, 1, "pm", "dev-a");
    assert_eq!(ask(&mut relay, A, 2, &next), [refused(2, Refusal::Stopping)]);
}

#[test]
fn a_later_instance_ends_it() {
    let mut relay = Relay::told();
    relay.open(SessionId(4), Carrier::Stream, Some("pm"));
    assert_eq!(
        ask(&mut relay, SessionId(4), 1, &message(1, 0, "pm", "dev-a")),
        NONE
    );
    let fenced = Refusal::Agents(agents::Refusal::Fenced { agent: name("pm") });
    assert_eq!(
        relay.register(SessionId(5), registration("pm", Some(1))),
        [refused(1, fenced), opened(SessionId(5), "pm")]
    );
}

#[test]
fn it_counts_among_the_waits() {
    let mut relay = Relay::told_within(Bounds {
        waits_max: 1,
        ..ROOMY
    });
    let question = message(1, 0, "pm", "dev-a");
    assert_eq!(ask(&mut relay, A, 1, &question), NONE);
    let too_many = |call| [refused(call, mail::Refusal::TooManyWaits { waits: 1 }.into())];
    let second = message(2, 1, "pm", "dev-a");
    assert_eq!(ask(&mut relay, B, 2, &second), too_many(2));
    assert_eq!(
        relay.call(A, 3, wait("pm", WAIT_MS)),
        too_many(3),
        "nothing is superseded"
    );
    assert_eq!(
        relay.pending(),
        [0, 1, 0],
        "and a refused question is in no inbox"
    );
}

#[test]
fn the_news_of_the_start_comes_with_an_answer_and_is_none() {
    let mut relay = Relay::fresh(ROOMY);
    relay.open(A, Carrier::Stream, None);
    assert_eq!(
        ask(&mut relay, A, 1, &message(1, 0, "pm", "dev-a")),
        NONE,
        "it is no answer"
    );
    let answer = message(2, 0, "dev-a", "pm");
    let [posted] = accepted(2, &answer);
    let both = [told_beside(posted), told(1, [answer.clone()])];
    assert_eq!(relay.post(A, 2, &answer), both);
    assert_eq!(relay.call(A, 3, read("pm")), [nothing(3)]);
}

#[test]
fn an_answer_is_handed_over_as_what_is_read_is() {
    let mut relay = Relay::told();
    assert_eq!(ask(&mut relay, A, 1, &message(1, 0, "pm", "dev-a")), NONE);
    let answer = message(2, 0, "dev-a", "pm");
    relay.post(B, 2, &answer);
    assert_eq!(relay.call(C, 3, read("pm")), [nothing(3)]);
    relay.close(A, Ending::Broken);
    assert_eq!(relay.call(C, 4, read("pm")), [shown(4, [again(&answer)])]);
}

#[test]
fn the_person_may_ask_too() {
    let mut relay = Relay::told();
    let person = SessionId(7);
    relay.open_for_person(person);
    assert_eq!(ask(&mut relay, person, 1, &message(1, 0, "user", "dev-a")), NONE);
    let answer = message(2, 0, "dev-a", "user");
    let [posted] = accepted(2, &answer);
    assert_eq!(relay.post(B, 2, &answer), [posted, shown(1, [answer])]);
}

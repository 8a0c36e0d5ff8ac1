//! A later instance of an agent takes it over, and fences the sessions of the one before.

use relay::engine::agents::Registration;
use relay::engine::limits::TRANSIENT_MS;

use super::*;

/// Sessions that register an agent, the later one by a later instance of it.
const OLD: SessionId = SessionId(4);
const NEW: SessionId = SessionId(5);
const OTHER: SessionId = SessionId(6);

fn fenced(call: u64, agent: &str) -> Effect {
    let agent = name(agent);
    refused(call, Refusal::Agents(agents::Refusal::Fenced { agent }))
}

/// A relay where qa, registered by its first instance on `OLD`, knows that the relay started.
fn with_qa() -> Relay {
    let mut relay = Relay::told();
    relay.register(OLD, registration("qa", Some(1)));
    relay.call(OLD, 900, read("qa"));
    relay.passed(900);
    relay.call(OLD, 901, look("qa"));
    relay.settle();
    relay.now = START;
    relay.events();
    relay
}

/// The n-th message of a relay whose messages all go from `pm` to `qa`.
fn to_qa(n: u8) -> Delivery {
    message(n, u64::from(n) - 1, "pm", "qa")
}

#[test]
fn sessions_of_one_instance_or_of_none_live_side_by_side() {
    let mut relay = with_qa();
    assert_eq!(
        relay.register(NEW, registration("qa", Some(1))),
        [opened(NEW, "qa")]
    );
    assert_eq!(
        relay.register(OTHER, registration("qa", None)),
        [opened(OTHER, "qa")]
    );
    assert_eq!(
        relay.open(EXTRA, Carrier::Exchange, Some("qa")),
        [opened(EXTRA, "qa")]
    );
    for (call, session) in [(1, OLD), (2, NEW), (3, OTHER), (4, EXTRA)] {
        assert_eq!(relay.call(session, call, read("qa")), [nothing(call)]);
    }
    let taken_over = |event: &Event| matches!(event, Event::TakenOver { .. });
    assert!(!relay.events().iter().any(taken_over));
}

/// One more session.
const EXTRA: SessionId = SessionId(7);

#[test]
fn a_later_instance_takes_the_agent_over() {
    let mut relay = with_qa();
    let second = Second::open(&mut relay);
    relay.post(A, 1, &to_qa(1));
    relay.post(A, 2, &to_qa(2));
    assert_eq!(relay.call(OLD, 3, read("qa")), [shown(3, [to_qa(1), to_qa(2)])]);
    relay.passed(3);
    relay.post(A, 4, &to_qa(3));
    assert_eq!(relay.call(second.0, 5, read("qa")), [shown(5, [to_qa(3)])]);
    relay.call(second.0, 6, wait("qa", WAIT_MS));
    relay.events();

    assert_eq!(
        relay.register(NEW, registration("qa", Some(2))),
        [fenced(6, "qa"), opened(NEW, "qa")]
    );
    let ended = Event::WaitEnded {
        call: CallId(6),
        by: WaitEnd::Fenced,
    };
    let undone = |call: u64, deliveries: &[Delivery]| Event::Undone {
        handover: relay.handovers[&call],
        by: Sign::Fenced,
        agent: name("qa"),
        deliveries: Arc::new(deliveries.to_vec()),
    };
    let expected = [
        Event::TakenOver { agent: name("qa") },
        undone(3, &[to_qa(1), to_qa(2)]),
        ended,
        undone(5, &[to_qa(3)]),
        Event::Opened {
            session: NEW,
            carrier: Carrier::Stream,
            agent: Some(name("qa")),
            person: false,
        },
    ];
    assert_eq!(relay.events(), expected);
    let all = shown(7, [again(&to_qa(1)), again(&to_qa(2)), again(&to_qa(3))]);
    assert_eq!(relay.call(NEW, 7, wait("qa", WAIT_MS)), [all]);
}

/// A second session of an agent's first instance.
struct Second(SessionId);

impl Second {
    fn open(relay: &mut Relay) -> Self {
        let session = SessionId(8);
        relay.register(session, registration("qa", Some(1)));
        Self(session)
    }
}

#[test]
fn what_was_handed_to_the_fenced_goes_to_whoever_waits_for_it_already() {
    let mut relay = with_qa();
    relay.post(A, 1, &to_qa(1));
    relay.call(OLD, 2, read("qa"));
    relay.call(B, 3, wait("qa", WAIT_MS));
    assert_eq!(
        relay.register(NEW, registration("qa", Some(2))),
        [opened(NEW, "qa"), shown(3, [again(&to_qa(1))])],
        "a session that is bound to nobody is not fenced"
    );
}

#[test]
fn what_the_fenced_have_read_stays_read() {
    let mut relay = with_qa();
    relay.post(A, 1, &to_qa(1));
    relay.call(OLD, 2, read("qa"));
    relay.passed(2);
    relay.call(OLD, 3, look("qa"));
    relay.register(NEW, registration("qa", Some(2)));
    assert_eq!(relay.call(NEW, 4, read("qa")), [nothing(4)]);
    relay.close(OLD, Ending::Broken);
    relay.settle();
    assert_eq!(relay.cancelled(2), NONE);
    assert_eq!(relay.call(NEW, 5, read("qa")), [nothing(5)]);
}

#[test]
fn what_the_fenced_threw_away_comes_back_for_as_long_as_that_can_be_said() {
    let mut relay = with_qa();
    relay.post(A, 1, &to_qa(1));
    relay.call(OLD, 2, read("qa"));
    relay.passed(2);
    relay.call(OLD, 3, look("qa"));
    relay.register(NEW, registration("qa", Some(2)));
    relay.call(NEW, 4, wait("qa", WAIT_MS));
    assert_eq!(relay.cancelled(2), [shown(4, [again(&to_qa(1))])]);
}

#[test]
fn a_fenced_session_s_calls_are_refused_and_do_nothing() {
    let mut relay = with_qa();
    let (_, taken) = (relay.post(A, 1, &to_qa(1)), relay.call(OLD, 2, read("qa")));
    assert_eq!(taken, [shown(2, [to_qa(1)])]);
    relay.passed(2);
    relay.register(NEW, registration("qa", Some(2)));
    let before = relay.engine.clone();
    let own = |command: fn(Option<String>) -> mail::Command| Command::Mail(command(None));
    let commands = [
        post(None, "pm", ""),
        post(Some("qa"), "pm", ""),
        own(|agent| mail::Command::read_all(agent, 0)),
        own(|agent| mail::Command::read_all(agent, WAIT_MS)),
        own(|agent| mail::Command::Pending { agent }),
        own(|agent| mail::Command::Peek { agent, limit: None }),
        list(None, false),
        agents::Command::WhoAmI.into(),
        groups::Command::List { project: None }.into(),
    ];
    for (call, command) in (10..).zip(commands) {
        assert_eq!(relay.call(OLD, call, command), [fenced(call, "qa")]);
    }
    assert!(relay.engine == before);
    let fenced = Refusal::Agents(agents::Refusal::Fenced { agent: name("qa") });
    assert_eq!(fenced.class(), Class::Fenced);
}

#[test]
fn a_fenced_session_s_signs_and_cancellations_do_nothing() {
    let mut relay = with_qa();
    relay.post(A, 1, &to_qa(1));
    relay.call(OLD, 2, read("qa"));
    relay.passed(2);
    let second = Second::open(&mut relay);
    relay.call(second.0, 3, wait("qa", WAIT_MS));
    relay.register(NEW, registration("qa", Some(2)));
    let before = relay.engine.clone();
    for sign in SIGNS {
        assert_eq!(relay.sign(2, sign), NONE);
    }
    for session in [OLD, second.0] {
        assert_eq!(relay.kept_alive(session), NONE);
    }
    assert_eq!(relay.cancelled(3), NONE);
    assert!(relay.engine == before);
    assert_eq!(relay.timeout_at(DOUBT_MS), NONE);
    assert_eq!(relay.close(OLD, Ending::Orderly), NONE);
    assert_eq!(relay.call(NEW, 4, read("qa")), [shown(4, [again(&to_qa(1))])]);
}

#[test]
fn an_older_instance_is_refused() {
    let mut relay = Relay::told();
    relay.register(NEW, registration("qa", Some(2)));
    let agent = name("qa");
    let refusal = agents::Refusal::Fenced { agent };
    assert_eq!(
        relay.register(OLD, registration("qa", Some(1))),
        [not_admitted(OLD, refusal.clone())]
    );
    relay.close(NEW, Ending::Orderly);
    assert_eq!(
        relay.register(OLD, registration("qa", Some(1))),
        [not_admitted(OLD, refusal)],
        "also when the later one is gone"
    );
    assert_eq!(
        relay.register(OLD, registration("qa", Some(2))),
        [opened(OLD, "qa")]
    );
}

#[test]
fn an_agent_of_the_roster_can_be_registered_and_taken_over() {
    let mut relay = Relay::told();
    relay.open(OLD, Carrier::Stream, Some("dev-a"));
    relay.post(A, 1, &nth(1));
    relay.call(OLD, 2, read("dev-a"));
    relay.events();
    let registration = Registration {
        transient: true,
        ..registration("dev-a", Some(1))
    };
    assert_eq!(relay.register(NEW, registration), [opened(NEW, "dev-a")]);
    assert_eq!(relay.events()[0], Event::TakenOver { agent: name("dev-a") });
    assert_eq!(relay.call(OLD, 3, read("dev-a")), [fenced(3, "dev-a")]);
    assert_eq!(relay.call(NEW, 4, read("dev-a")), [shown(4, [again(&nth(1))])]);
    relay.close(NEW, Ending::Orderly);
    relay.timeout_at(10 * TRANSIENT_MS);
    relay.call(A, 5, look("pm"));
    assert_eq!(relay.pending(), [0, 1, 0], "and is always there");
}

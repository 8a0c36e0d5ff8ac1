//! Agents that the person retires.

use relay::engine::agents::{Command as Agents, Registration, Use};
use relay::engine::limits::TRANSIENT_MS;

use super::actions::by_agent;
use super::nodes::PERSON;
use super::*;

const QA: SessionId = SessionId(4);
const PERSON_S: SessionId = SessionId(5);

/// A relay with an agent that was registered, and the person's session.
fn with_qa() -> Relay {
    let mut relay = Relay::told();
    relay.register(QA, registration("qa", Some(2)));
    relay.call(QA, 900, read("qa"));
    relay.passed(900);
    relay.call(QA, 901, look("qa"));
    relay.settle();
    relay.open_for_person(PERSON_S);
    relay.events();
    relay
}

fn retire(agent: &str) -> Command {
    let agent = agent.to_owned();
    Command::Agents(Agents::Retire { agent })
}

fn in_use(call: u64, agent: &str, by: Use) -> [Effect; 1] {
    let agent = name(agent);
    [refused(call, agents::Refusal::InUse { agent, by }.into())]
}

#[test]
fn an_agent_that_nothing_uses_is_gone_and_its_name_is_free() {
    let mut relay = with_qa();
    relay.close(QA, Ending::Orderly);
    relay.events();
    let agent = name("qa");
    let retired = agents::Reply::Retired { agent: agent.clone() };
    assert_eq!(
        relay.call(PERSON_S, 1, retire("qa")),
        [reply(1, Ok(retired.into()))]
    );
    assert_eq!(relay.events(), [Event::Gone { agent }]);
    let (name, known) = ("qa".to_owned(), Known::from(&Roster::default()));
    let unknown = agents::Refusal::Unknown {
        name: name.clone(),
        known: known.clone(),
    };
    let nobody = agents::Refusal::UnknownAddress { name, known };
    assert_eq!(
        relay.call(A, 2, post(Some("pm"), "qa", "")),
        [refused(2, nobody.into())]
    );
    assert_eq!(
        relay.call(PERSON_S, 3, retire("qa")),
        [refused(3, unknown.into())]
    );
    assert_eq!(
        relay.register(QA, registration("qa", Some(1))),
        [opened(QA, "qa")],
        "nobody's instance is later"
    );
}

#[test]
fn an_agent_of_a_project_is_named_with_it() {
    let mut relay = Relay::told();
    relay.register(QA, registration("web:ui", None));
    relay.close(QA, Ending::Orderly);
    relay.open_for_person(PERSON_S);
    let agent = name("web:ui");
    let retired = agents::Reply::Retired { agent };
    assert_eq!(
        relay.call(PERSON_S, 1, retire("web:ui")),
        [reply(1, Ok(retired.into()))]
    );
}

#[test]
fn an_agent_that_is_used_stays_and_what_uses_it_is_told() {
    let mut relay = with_qa();
    assert_eq!(
        relay.call(PERSON_S, 1, retire("qa")),
        in_use(1, "qa", Use::Sessions(1))
    );
    relay.close(QA, Ending::Orderly);
    for (call, body) in [(2, 0), (3, 1)] {
        relay.post(A, u64::from(call), &message(call, body, "pm", "qa"));
    }
    assert_eq!(
        relay.call(PERSON_S, 4, retire("qa")),
        in_use(4, "qa", Use::Messages(2))
    );
    relay.call(B, 5, read("qa"));
    assert_eq!(
        relay.call(PERSON_S, 6, retire("qa")),
        in_use(6, "qa", Use::Messages(2)),
        "they may come back"
    );
    relay.passed(5);
    relay.call(B, 7, look("pm"));
    relay.settle();
    relay.call(B, 8, wait("qa", 100_000));
    assert_eq!(relay.call(PERSON_S, 9, retire("qa")), in_use(9, "qa", Use::Wait));
    relay.cancelled(8);
    assert!(matches!(
        relay.call(PERSON_S, 10, retire("qa"))[..],
        [Effect::Reply { result: Ok(_), .. }]
    ));
}

#[test]
fn an_agent_for_which_messages_are_held_stays_until_they_pass_or_are_dropped() {
    let mut relay = with_qa();
    relay.open_for_person(PERSON);
    relay.close(QA, Ending::Orderly);
    relay.hold("qa");
    for n in 1..=2 {
        relay.post(A, u64::from(n), &message(n, u64::from(n) - 1, "pm", "qa"));
    }
    assert_eq!(
        relay.call(PERSON_S, 4, retire("qa")),
        in_use(4, "qa", Use::Held(2))
    );
    relay.allow(1);
    assert_eq!(
        relay.call(PERSON_S, 5, retire("qa")),
        in_use(5, "qa", Use::Messages(1)),
        "what can be read is told first, without what cannot"
    );
    relay.call(B, 6, read("qa"));
    relay.passed(6);
    relay.call(B, 7, look("pm"));
    relay.settle();
    assert_eq!(
        relay.call(PERSON_S, 8, retire("qa")),
        in_use(8, "qa", Use::Held(1))
    );
    relay.drop_held(2);
    assert!(matches!(
        relay.call(PERSON_S, 9, retire("qa"))[..],
        [Effect::Reply { result: Ok(_), .. }]
    ));
}

#[test]
fn a_transient_agent_may_be_retired_before_it_goes_by_itself() {
    let mut relay = Relay::told();
    let temp = Registration {
        transient: true,
        ..registration("temp", None)
    };
    relay.register(QA, temp.clone());
    relay.close(QA, Ending::Orderly);
    relay.open_for_person(PERSON_S);
    relay.call(PERSON_S, 1, retire("temp"));
    relay.register(QA, temp);
    relay.close(QA, Ending::Orderly);
    relay.events();
    relay.now = START.plus_millis(TRANSIENT_MS * 2);
    relay.call(A, 2, look("pm"));
    let gone = |event: &Event| matches!(event, Event::Gone { .. });
    assert_eq!(relay.events().iter().filter(|event| gone(event)).count(), 1);
}

#[test]
fn the_roster_stays_and_so_does_the_person() {
    let mut relay = with_qa();
    assert_eq!(
        relay.call(PERSON_S, 1, retire("pm")),
        in_use(1, "pm", Use::Roster)
    );
    let known = Known {
        names: ["pm", "dev-a", "dev-b", "qa"].map(name).to_vec(),
        count: 4,
    };
    let named = agents::NamedAs::Session;
    let person = agents::Refusal::Person { named, known };
    assert_eq!(
        relay.call(PERSON_S, 2, retire("user")),
        [refused(2, person.into())]
    );
}

#[test]
fn only_the_person_retires() {
    let mut relay = with_qa();
    for session in [A, QA] {
        let not_yours = agents::Refusal::NotThePerson;
        let call = session.0 + 10;
        assert_eq!(
            relay.call(session, call, retire("qa")),
            [refused(call, not_yours.into())]
        );
    }
}

#[test]
fn an_agent_that_handles_an_action_stays() {
    let mut relay = with_qa();
    relay.close(QA, Ending::Orderly);
    relay.registers(PERSON_S, by_agent("test", "qa"));
    let action = "test".to_owned();
    assert_eq!(
        relay.call(PERSON_S, 1, retire("qa")),
        in_use(1, "qa", Use::Action(action))
    );
}

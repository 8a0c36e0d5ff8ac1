//! Sessions of nobody's that are given a name when they first need one.

use relay::engine::limits::{TRANSIENT_MS, UNNAMED_MS};
use relay::engine::{ClientId, agents, holds, mail};

use super::*;

const FIRST: SessionId = SessionId(11);
const SECOND: SessionId = SessionId(12);

fn comes(relay: &mut Relay, session: SessionId, carrier: Carrier) {
    let who = Who::Unnamed;
    let opened = relay.handle(Input::Opened {
        session,
        carrier,
        who,
    });
    let result = Ok(None);
    assert_eq!(opened, [Effect::Opened { session, result }]);
}

fn says(relay: &mut Relay, session: SessionId, client: &str) {
    let client = ClientId(client.into());
    assert_eq!(relay.handle(Input::Named { session, client }), NONE);
}

/// Asks in whose name a session speaks.
fn own_name(relay: &mut Relay, session: SessionId) -> Option<String> {
    let answer = relay.call(session, 9_000, agents::Command::WhoAmI.into());
    let [
        Effect::Reply {
            result: Ok(Reply::Agents(agents::Reply::You { agent, .. })),
            ..
        },
    ] = &answer[..]
    else {
        panic!("{answer:?} tells nobody who it is");
    };
    agent.as_ref().map(ToString::to_string)
}

/// Has a session ask for what an agent alone may ask for.
fn needs_one(relay: &mut Relay, session: SessionId, call: u64) -> Result<(), Refusal> {
    let own = mail::Command::Pending { agent: None };
    let answer = relay.call(session, call, own.into());
    match &answer[..] {
        [Effect::Reply { result, .. }] => result.clone().map(drop),
        other => panic!("{other:?} is no answer"),
    }
}

fn refused(relay: &mut Relay, session: SessionId, call: u64) {
    let refused = needs_one(relay, session, call);
    assert!(
        matches!(refused, Err(Refusal::Agents(agents::Refusal::Anonymous { .. }))),
        "{refused:?}"
    );
}

/// The name that is made of the random bytes of the calls here, and the next two.
const NAMES: [&str; 3] = ["mcp-26843009", "mcp-26843010", "mcp-26843011"];

#[test]
fn a_session_is_given_a_name_that_nobody_has_when_it_first_needs_one() {
    let mut relay = Relay::told();
    relay.register(SessionId(10), registration(NAMES[0], None));
    for session in [FIRST, SECOND] {
        comes(&mut relay, session, Carrier::Stream);
        assert_eq!(own_name(&mut relay, session), None, "who only looks is nobody");
    }
    relay.events();
    assert_eq!(needs_one(&mut relay, SECOND, 1), Ok(()));
    let agent = name(NAMES[1]);
    assert!(relay.events().contains(&Event::Registered { agent }));
    assert_eq!(own_name(&mut relay, SECOND).as_deref(), Some(NAMES[1]));
    assert_eq!(own_name(&mut relay, FIRST), None);
    assert_eq!(needs_one(&mut relay, FIRST, 2), Ok(()));
    assert_eq!(own_name(&mut relay, FIRST).as_deref(), Some(NAMES[2]));
    assert_eq!(needs_one(&mut relay, SECOND, 3), Ok(()));
    assert_eq!(
        own_name(&mut relay, SECOND).as_deref(),
        Some(NAMES[1]),
        "it keeps it"
    );
    // A session of the lift tools says in whose name it speaks, and stays nobody's.
    refused(&mut relay, A, 4);
}

#[test]
fn the_name_is_made_of_the_last_random_bytes() {
    let mut relay = Relay::told();
    comes(&mut relay, FIRST, Carrier::Stream);
    let random = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0xfe, 0xdc, 0x0b, 0xa9];
    let command = mail::Command::Pending { agent: None }.into();
    relay.handle(Input::Call {
        session: FIRST,
        call: CallId(1),
        random,
        command,
    });
    assert_eq!(own_name(&mut relay, FIRST).as_deref(), Some("mcp-55833769"));
}

/// One that names itself may come back by its name.
#[test]
fn an_agent_that_was_given_its_name_goes_with_its_stream() {
    for is_named in [false, true] {
        let mut relay = Relay::told();
        comes(&mut relay, FIRST, Carrier::Stream);
        if is_named {
            says(&mut relay, FIRST, "x");
        }
        assert_eq!(needs_one(&mut relay, FIRST, 1), Ok(()));
        relay.close(FIRST, Ending::Orderly);
        relay.events();
        relay.timeout_at(TRANSIENT_MS - 1);
        assert_eq!(relay.events(), []);
        if is_named {
            comes(&mut relay, SECOND, Carrier::Stream);
            says(&mut relay, SECOND, "x");
            assert_eq!(own_name(&mut relay, SECOND).as_deref(), Some(NAMES[0]));
            relay.events();
            relay.timeout_at(TRANSIENT_MS);
            assert_eq!(relay.events(), [], "it is back");
            relay.close(SECOND, Ending::Orderly);
            relay.events();
            relay.timeout_at(2 * TRANSIENT_MS - 2);
            assert_eq!(relay.events(), []);
        }
        relay.timeout_at(2 * TRANSIENT_MS);
        let agent = name(NAMES[0]);
        assert!(relay.events().contains(&Event::Gone { agent }));
    }
}

#[test]
fn the_connections_of_a_client_have_one_name_also_when_none_is_open_for_a_while() {
    let mut relay = Relay::told();
    let [third, fourth] = [SessionId(13), SessionId(14)];
    for (session, client) in [(FIRST, "x"), (SECOND, "x"), (third, "y")] {
        comes(&mut relay, session, Carrier::Exchange);
        says(&mut relay, session, client);
    }
    assert_eq!(needs_one(&mut relay, SECOND, 1), Ok(()));
    assert_eq!(needs_one(&mut relay, third, 3), Ok(()));
    for (session, expected) in [(FIRST, 0), (SECOND, 0), (third, 1)] {
        let expected = Some(NAMES[expected]);
        assert_eq!(own_name(&mut relay, session).as_deref(), expected);
    }
    comes(&mut relay, fourth, Carrier::Exchange);
    says(&mut relay, fourth, "x");
    assert_eq!(own_name(&mut relay, fourth).as_deref(), Some(NAMES[0]));
    for session in [FIRST, SECOND, third, fourth] {
        relay.close(session, Ending::Orderly);
    }
    relay.events();
    relay.timeout_at(UNNAMED_MS - 1);
    assert_eq!(relay.events(), []);
    for (session, client, expected) in [(15, "y", 1), (16, "x", 0)] {
        let session = SessionId(session);
        comes(&mut relay, session, Carrier::Exchange);
        says(&mut relay, session, client);
        assert_eq!(
            own_name(&mut relay, session).as_deref(),
            Some(NAMES[expected]),
            "{client}"
        );
        relay.close(session, Ending::Orderly);
    }
    relay.events();
    relay.timeout_at(2 * UNNAMED_MS - 2);
    assert_eq!(relay.events(), []);
    relay.timeout_at(2 * UNNAMED_MS - 1);
    let events = relay.events();
    for agent in [NAMES[0], NAMES[1]].map(name) {
        assert!(events.contains(&Event::Gone { agent }), "{events:?}");
    }
    let late = SessionId(17);
    comes(&mut relay, late, Carrier::Exchange);
    says(&mut relay, late, "x");
    assert_eq!(own_name(&mut relay, late), None);
}

#[test]
fn a_stream_that_spoke_for_a_client_s_agent_takes_nothing_of_its_hour_along() {
    let mut relay = Relay::told();
    comes(&mut relay, FIRST, Carrier::Exchange);
    says(&mut relay, FIRST, "x");
    assert_eq!(needs_one(&mut relay, FIRST, 1), Ok(()));
    let other = SessionId(30);
    relay.open(other, Carrier::Stream, None);
    relay.call(other, 2, look(NAMES[0]));
    relay.close(other, Ending::Orderly);
    relay.close(FIRST, Ending::Orderly);
    relay.events();
    relay.timeout_at(UNNAMED_MS - 1);
    assert_eq!(relay.events(), []);
}

/// Its mail would be read by nobody.
#[test]
fn a_client_that_would_not_be_known_again_is_given_no_name() {
    let mut relay = Relay::told();
    comes(&mut relay, FIRST, Carrier::Exchange);
    refused(&mut relay, FIRST, 1);
    says(&mut relay, FIRST, "x");
    assert_eq!(needs_one(&mut relay, FIRST, 2), Ok(()));
}

#[test]
fn a_client_that_has_no_connection_for_a_moment_gets_what_all_get() {
    let mut relay = Relay::told();
    comes(&mut relay, FIRST, Carrier::Exchange);
    says(&mut relay, FIRST, "x");
    assert_eq!(needs_one(&mut relay, FIRST, 1), Ok(()));
    relay.close(FIRST, Ending::Orderly);
    let pending = |relay: &Relay| {
        let status = relay.engine.status();
        let mut pending = status.pending.into_iter();
        let own = pending.find(|(agent, _)| agent.as_str() == NAMES[0]);
        own.map(|(_, messages)| messages)
    };
    relay.call(A, 2, post(Some("pm"), "*", "one"));
    assert_eq!(pending(&relay), Some(1));
    relay.call(A, 3, post(Some("pm"), NAMES[0], "two"));
    // It may never come back, and what many were sent is not to keep it.
    relay.events();
    relay.now = START.plus_millis(UNNAMED_MS);
    relay.call(A, 4, post(Some("pm"), "*", "three"));
    assert_eq!(pending(&relay), Some(1));
    let is_expired = |event: &Event| matches!(event, Event::Expired { agent, delivery } if *agent == name(NAMES[0]) && delivery.message.body == "one");
    let events = relay.events();
    assert!(events.iter().any(is_expired), "{events:?}");
    comes(&mut relay, SECOND, Carrier::Exchange);
    says(&mut relay, SECOND, "x");
    assert_eq!(own_name(&mut relay, SECOND).as_deref(), Some(NAMES[0]));
    relay.call(A, 5, post(Some("pm"), "*", "four"));
    assert_eq!(pending(&relay), Some(2));
}

#[test]
fn what_was_sent_to_it_among_named_ones_waits_for_a_client_that_does_not_come_back_in_time() {
    let mut relay = Relay::told();
    comes(&mut relay, FIRST, Carrier::Exchange);
    says(&mut relay, FIRST, "x");
    assert_eq!(needs_one(&mut relay, FIRST, 1), Ok(()));
    relay.close(FIRST, Ending::Orderly);
    let both = format!("{}, dev-b", NAMES[0]);
    relay.call(A, 2, post(Some("pm"), &both, "one"));
    relay.events();
    relay.timeout_at(UNNAMED_MS);
    assert_eq!(relay.events(), []);
    comes(&mut relay, SECOND, Carrier::Exchange);
    says(&mut relay, SECOND, "x");
    let effects = relay.call(SECOND, 3, read(NAMES[0]));
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    let bodies: Vec<&str> = deliveries
        .iter()
        .map(|delivery| &*delivery.message.body)
        .collect();
    assert_eq!(bodies, ["one"]);
}

#[test]
fn a_client_that_does_not_come_back_leaves_nothing() {
    let mut relay = Relay::told();
    comes(&mut relay, FIRST, Carrier::Exchange);
    says(&mut relay, FIRST, "x");
    assert_eq!(needs_one(&mut relay, FIRST, 1), Ok(()));
    relay.close(FIRST, Ending::Orderly);
    relay.call(A, 2, post(Some("pm"), "*", "one"));
    relay.events();
    relay.timeout_at(UNNAMED_MS);
    let agent = name(NAMES[0]);
    assert!(relay.events().contains(&Event::Gone { agent }));
}

#[test]
fn what_many_were_sent_and_is_let_pass_later_keeps_no_client_that_does_not_come_back() {
    let mut relay = Relay::told();
    let person = SessionId(20);
    relay.open_for_person(person);
    comes(&mut relay, FIRST, Carrier::Exchange);
    says(&mut relay, FIRST, "x");
    assert_eq!(needs_one(&mut relay, FIRST, 1), Ok(()));
    relay.close(FIRST, Ending::Orderly);
    let agent = name(NAMES[0]);
    let whom = || holds::Whom::Agent(NAMES[0].to_owned());
    relay.call(person, 2, holds::Command::Hold(whom()).into());
    relay.call(A, 3, post(Some("pm"), "*", "one"));
    relay.events();
    relay.timeout_at(UNNAMED_MS);
    let gone = Event::Gone { agent };
    assert!(
        !relay.events().contains(&gone),
        "the person holds something for it"
    );
    relay.call(person, 4, holds::Command::Lift(whom()).into());
    relay.timeout_at(UNNAMED_MS + TRANSIENT_MS);
    let events = relay.events();
    assert!(events.contains(&gone), "{events:?}");
}

#[test]
fn a_client_whose_agent_was_taken_over_is_given_another() {
    let mut relay = Relay::told();
    for session in [FIRST, SECOND] {
        comes(&mut relay, session, Carrier::Exchange);
    }
    says(&mut relay, FIRST, "x");
    assert_eq!(needs_one(&mut relay, FIRST, 1), Ok(()));
    relay.register(SessionId(10), registration(NAMES[0], Some(1)));
    says(&mut relay, SECOND, "x");
    assert_eq!(own_name(&mut relay, SECOND), None);
    assert_eq!(needs_one(&mut relay, SECOND, 2), Ok(()));
    assert_eq!(own_name(&mut relay, SECOND).as_deref(), Some(NAMES[1]));
}

#[test]
fn where_no_agent_has_room_none_is_named() {
    let bounds = Bounds {
        agents_max: 3,
        ..ROOMY
    };
    let mut relay = Relay::told_within(bounds);
    comes(&mut relay, FIRST, Carrier::Stream);
    let full = agents::Refusal::TooManyAgents { agents: 3 };
    assert_eq!(needs_one(&mut relay, FIRST, 1), Err(full.into()));
    assert_eq!(own_name(&mut relay, FIRST), None);
}

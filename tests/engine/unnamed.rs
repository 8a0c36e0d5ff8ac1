//! Sessions of nobody's that are given a name when they first need one.

use relay::engine::limits::{TRANSIENT_MS, UNNAMED_MS};
use relay::engine::{ClientId, agents, mail};

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

#[test]
fn a_session_is_given_a_name_that_nobody_has_when_it_first_needs_one() {
    let mut relay = Relay::told();
    relay.register(SessionId(10), registration("mcp-1", None));
    for session in [FIRST, SECOND] {
        comes(&mut relay, session, Carrier::Stream);
        assert_eq!(own_name(&mut relay, session), None, "who only looks is nobody");
    }
    relay.events();
    assert_eq!(needs_one(&mut relay, SECOND, 1), Ok(()));
    let agent = name("mcp-2");
    assert!(relay.events().contains(&Event::Registered { agent }));
    assert_eq!(own_name(&mut relay, SECOND).as_deref(), Some("mcp-2"));
    assert_eq!(own_name(&mut relay, FIRST), None);
    assert_eq!(needs_one(&mut relay, FIRST, 2), Ok(()));
    assert_eq!(own_name(&mut relay, FIRST).as_deref(), Some("mcp-3"));
    assert_eq!(needs_one(&mut relay, SECOND, 3), Ok(()));
    assert_eq!(
        own_name(&mut relay, SECOND).as_deref(),
        Some("mcp-2"),
        "it keeps it"
    );
    // A session of the lift tools says in whose name it speaks, and stays nobody's.
    let refused = needs_one(&mut relay, A, 4);
    assert!(
        matches!(refused, Err(Refusal::Agents(agents::Refusal::Anonymous { .. }))),
        "{refused:?}"
    );
}

#[test]
fn an_agent_that_was_given_its_name_goes_with_its_stream() {
    let mut relay = Relay::told();
    comes(&mut relay, FIRST, Carrier::Stream);
    assert_eq!(needs_one(&mut relay, FIRST, 1), Ok(()));
    relay.close(FIRST, Ending::Orderly);
    relay.events();
    relay.timeout_at(TRANSIENT_MS - 1);
    assert_eq!(relay.events(), []);
    relay.timeout_at(TRANSIENT_MS);
    assert!(relay.events().contains(&Event::Gone { agent: name("mcp-1") }));
}

#[test]
fn the_connections_of_a_client_have_one_name_also_when_none_is_open_for_a_while() {
    let mut relay = Relay::told();
    for session in [FIRST, SECOND] {
        comes(&mut relay, session, Carrier::Exchange);
    }
    says(&mut relay, SECOND, "x");
    assert_eq!(needs_one(&mut relay, SECOND, 1), Ok(()));
    says(&mut relay, FIRST, "x");
    assert_eq!(own_name(&mut relay, FIRST).as_deref(), Some("mcp-1"));
    // A connection may be named before its client is known.
    let third = SessionId(13);
    comes(&mut relay, third, Carrier::Exchange);
    assert_eq!(needs_one(&mut relay, third, 2), Ok(()));
    says(&mut relay, third, "y");
    for session in [FIRST, SECOND, third] {
        relay.close(session, Ending::Orderly);
    }
    relay.events();
    relay.timeout_at(UNNAMED_MS - 1);
    assert_eq!(relay.events(), []);
    for (session, client, expected) in [(14, "y", "mcp-2"), (15, "x", "mcp-1")] {
        let session = SessionId(session);
        comes(&mut relay, session, Carrier::Exchange);
        says(&mut relay, session, client);
        assert_eq!(
            own_name(&mut relay, session).as_deref(),
            Some(expected),
            "{client}"
        );
        relay.close(session, Ending::Orderly);
    }
    relay.events();
    relay.timeout_at(2 * UNNAMED_MS - 2);
    assert_eq!(relay.events(), []);
    relay.timeout_at(2 * UNNAMED_MS - 1);
    let events = relay.events();
    for agent in ["mcp-1", "mcp-2"].map(name) {
        assert!(events.contains(&Event::Gone { agent }), "{events:?}");
    }
    let late = SessionId(16);
    comes(&mut relay, late, Carrier::Exchange);
    says(&mut relay, late, "x");
    assert_eq!(own_name(&mut relay, late), None);
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

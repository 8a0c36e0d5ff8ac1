//! A sender is told that nobody is there to read its message, and only if it is so.

use relay::engine::absence::{Absence, Absent};
use relay::engine::limits::{ACTIVE_MS, NODE_GONE_MS};
use relay::engine::{nodes, receipts};
use serde_json::json;

use relay::engine::handling::Mode;

use super::nodes::{FIRST, NODE};
use super::programs::{P, post_in};
use super::through_the_tools::called_with;
use super::*;

const PERSON: SessionId = SessionId(7);

/// A relay to which nobody has said a word yet, with the unbound session `A`.
fn silent() -> Relay {
    let mut relay = Relay::after_sessions_of(ROOMY, &[]);
    relay.open(A, Carrier::Stream, None);
    relay.open_for_person(PERSON);
    relay
}

/// What the person is told that posts to an address.
fn told_of(relay: &mut Relay, to: &str) -> Option<Absence> {
    let command = Command::Mail(mail::Command::Post {
        from: None,
        to: to.to_owned(),
        kind: Kind::Free,
        body: String::new(),
        options: None,
    });
    let effects = relay.call(PERSON, 1_000, command);
    let Some(Effect::Reply {
        result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
        ..
    }) = effects.first()
    else {
        panic!("{effects:?}");
    };
    absence.as_deref().cloned()
}

fn later(relay: &mut Relay, ms: i64) {
    relay.now = relay.now.plus_millis(ms);
}

fn one(agent: &str) -> Absent {
    Absent::One(name(agent))
}

fn never(who: Absent) -> Option<Absence> {
    let started_at = START;
    Some(Absence::Never { who, started_at })
}

fn gone(who: Absent, ms: i64) -> Option<Absence> {
    let last_contact = START.plus_millis(ms);
    Some(Absence::Gone { who, last_contact })
}

#[test]
fn an_agent_for_whom_nobody_has_read_since_the_start_was_never_there() {
    let mut relay = silent();
    assert_eq!(told_of(&mut relay, "dev-a"), never(one("dev-a")));
    later(&mut relay, ACTIVE_MS);
    assert_eq!(told_of(&mut relay, "@dev-a"), never(one("dev-a")));
    relay.call(A, 1, read("dev-a"));
    assert_eq!(told_of(&mut relay, "dev-a"), None);
    assert_eq!(told_of(&mut relay, "dev-b"), never(one("dev-b")));
}

#[test]
fn an_agent_is_gone_once_the_session_has_ended_that_acted_for_it_last_and_it_is_not_active_any_more() {
    let mut relay = silent();
    later(&mut relay, 10);
    relay.call(A, 1, look("dev-a"));
    // It may be busy for long.
    later(&mut relay, 10 * ACTIVE_MS);
    assert_eq!(told_of(&mut relay, "dev-a"), None);
    relay.close(A, Ending::Broken);
    assert_eq!(told_of(&mut relay, "dev-a"), gone(one("dev-a"), 10));
    // Each call over streamable HTTP may have a session of its own.
    relay.open(B, Carrier::Exchange, None);
    relay.call(B, 2, look("dev-a"));
    relay.close(B, Ending::Orderly);
    later(&mut relay, ACTIVE_MS - 1);
    assert_eq!(told_of(&mut relay, "dev-a"), None);
    later(&mut relay, 1);
    let at = 10 + 10 * ACTIVE_MS;
    assert_eq!(told_of(&mut relay, "dev-a"), gone(one("dev-a"), at));
}

#[test]
fn a_session_that_is_bound_to_an_agent_is_there_until_it_ends_or_is_fenced() {
    let mut relay = silent();
    relay.open(B, Carrier::Stream, Some("dev-a"));
    assert_eq!(told_of(&mut relay, "dev-a"), None);
    relay.close(B, Ending::Orderly);
    assert_eq!(told_of(&mut relay, "dev-a"), never(one("dev-a")));
    relay.register(B, registration("dev-a", Some(1)));
    relay.call(B, 1, look("dev-a"));
    relay.register(C, registration("dev-a", Some(2)));
    relay.close(C, Ending::Orderly);
    later(&mut relay, ACTIVE_MS);
    assert_eq!(told_of(&mut relay, "dev-a"), gone(one("dev-a"), 0));
}

#[test]
fn the_person_is_never_missed_and_stands_in_for_nobody_but_while_it_waits() {
    let mut relay = silent();
    assert_eq!(told_of(&mut relay, "user"), None);
    relay.call(PERSON, 1, read("dev-a"));
    assert_eq!(told_of(&mut relay, "dev-a"), never(one("dev-a")));
    relay.call(PERSON, 2, read("dev-a"));
    let person = SessionId(8);
    relay.open_for_person(person);
    relay.call(person, 3, wait("dev-a", WAIT_MS));
    assert_eq!(told_of(&mut relay, "dev-a"), None);
}

#[test]
fn of_many_nobody_is_missed_while_one_is_there() {
    let mut relay = silent();
    assert_eq!(told_of(&mut relay, "*"), never(Absent::All(3)));
    assert_eq!(told_of(&mut relay, "#general"), never(Absent::All(3)));
    relay.register(B, of_role("worker", registration("ann", None)));
    assert_eq!(told_of(&mut relay, "*"), None);
    assert_eq!(told_of(&mut relay, "@worker"), None);
    relay.close(B, Ending::Orderly);
    later(&mut relay, ACTIVE_MS);
    // The others were never there.
    assert_eq!(told_of(&mut relay, "*"), gone(Absent::All(4), 0));
    assert_eq!(told_of(&mut relay, "@worker"), gone(one("ann"), 0));
    assert_eq!(told_of(&mut relay, "#own"), None);
}

#[test]
fn that_one_is_shown_it_late_is_told_of_the_only_one_that_gets_it() {
    let mut relay = silent();
    relay.open(B, Carrier::Stream, Some("dev-a"));
    relay.has_brought(Some(Mode::Manual));
    let agent = name("dev-a");
    assert_eq!(told_of(&mut relay, "dev-a"), Some(Absence::Holding { agent }));
    assert_eq!(told_of(&mut relay, "*"), None);
}

#[test]
fn each_toolset_has_its_own_place_for_it() {
    let start = "2026-05-02T14:30:00.000Z";
    let never = format!("no agent has read for dev-a since relay started at {start}; the message waits");
    let mut relay = silent();
    relay.open(B, Carrier::Stream, Some("dev-b"));
    let [lift, thrum, agent_relay] =
        ["lift", "thrum", "agent-relay"].map(|set| set.parse().expect("a toolset"));
    let posts = json!({"from": "dev-b", "to": "dev-a", "kind": "free", "body": ""});
    let (texts, data, _) = called_with(&mut relay, lift, B, 1, "post_message", posts.clone());
    let id = "{\"id\":\"01010101-0101-4101-8101-010101010101\"}";
    assert_eq!(
        (texts, data),
        (vec![id.to_owned(), format!("note: {never}")], None)
    );

    let sends = |to: &str| json!({"to": to, "content": "hello"});
    let (texts, data, _) = called_with(&mut relay, thrum, B, 2, "send_message", sends("dev-a"));
    let data = data.expect("it is data");
    let expected = json!({
        "status": "delivered",
        "message_id": "02020202-0202-4202-8202-020202020202",
        "resolved_to": "name",
        "warnings": [],
        "note": never,
    });
    assert_eq!((texts.len(), &data), (1, &expected));

    let sends = json!({"to": "*", "message": "hello"});
    let (texts, _, _) = called_with(&mut relay, agent_relay, B, 3, "relay_send", sends.clone());
    let none = format!(
        "note: no agent has read for any of the 2 recipients since relay started at {start}; the message waits"
    );
    assert_eq!(texts, ["Message sent to *".to_owned(), none]);

    relay.call(A, 4, look("dev-a"));
    relay.close(A, Ending::Orderly);
    later(&mut relay, ACTIVE_MS);
    let (texts, _, _) = called_with(&mut relay, lift, B, 5, "post_message", posts);
    let gone = format!("note: dev-a was last there at {start}, and its session has ended; the message waits");
    assert_eq!(texts[1..], [gone]);
    let (texts, _, _) = called_with(&mut relay, agent_relay, B, 6, "relay_send", sends);
    let none =
        format!("note: none of the 2 recipients is there, the last one was at {start}; the message waits");
    assert_eq!(texts[1..], [none]);
}

/// A relay in which `dev-a` is bound to a node, and may owe two receipts.
fn on_a_node() -> Relay {
    let mut relay = Relay::fresh(Bounds {
        awaited_max: 2,
        ..ROOMY
    });
    relay.open(A, Carrier::Stream, None);
    relay.open_for_person(PERSON);
    relay.create("fleet", None);
    relay.bind(FIRST, "dev-a");
    relay
}

#[test]
fn an_agent_on_a_node_is_gone_once_that_is_and_nobody_else_reads_for_it() {
    let mut relay = on_a_node();
    let node_gone = |last_contact| {
        Some(Absence::NodeGone {
            agent: name("dev-a"),
            last_contact,
        })
    };
    assert_eq!(told_of(&mut relay, "dev-a"), node_gone(None), "it never came");
    relay.connect(NODE, None);
    let came = relay.now;
    assert_eq!(told_of(&mut relay, "dev-a"), None);
    later(&mut relay, 1_000);
    relay.close(NODE, Ending::Broken);
    assert_eq!(told_of(&mut relay, "dev-a"), None, "it may come back");
    later(&mut relay, NODE_GONE_MS);
    relay.engine.handle_timeout(relay.now, &mut Vec::new());
    assert_eq!(told_of(&mut relay, "dev-a"), node_gone(Some(came)));
    relay.call(A, 1, read("dev-a"));
    assert_eq!(told_of(&mut relay, "dev-a"), None, "it reads with a tool");
}

#[test]
fn what_comes_for_an_agent_waits_while_its_node_gets_nothing_for_want_of_receipts() {
    let mut relay = on_a_node();
    relay.connect(NODE, None);
    relay.open(B, Carrier::Exchange, Some("dev-a"));
    for _ in 0..2 {
        assert_eq!(told_of(&mut relay, "dev-a"), None);
    }
    let list = receipts::Command::List { limit: 10 };
    relay.call(B, 1, list.into());
    relay.acknowledge(NODE, "dev-a", 1);
    assert_eq!(told_of(&mut relay, "dev-a"), None, "one more may be missing");
    relay.acknowledge(NODE, "dev-a", 2);
    let missing = Absence::ReceiptsMissing {
        agent: name("dev-a"),
        receipts: 2,
    };
    assert_eq!(told_of(&mut relay, "dev-a"), Some(missing));
    // The first read is of the start.
    relay.call(B, 2, read("dev-a"));
    relay.call(B, 3, wait("dev-a", WAIT_MS));
    assert_eq!(told_of(&mut relay, "dev-a"), None, "somebody waits for its inbox");
}

#[test]
fn what_a_node_shows_waits_for_no_program() {
    let mut relay = Relay::with_node();
    relay.appears(P, Some("dev-a"));
    let told = |relay: &mut Relay| {
        let effects = relay.call(A, 900, post_in(Mode::NextMessage, 1));
        let told = effects.iter().find_map(|effect| {
            let Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
                ..
            } = effect
            else {
                return None;
            };
            Some(absence.as_deref().cloned())
        });
        told.expect("it is posted")
    };
    assert_eq!(told(&mut relay), None);
    relay.close(NODE, Ending::Broken);
    relay.timeout_at(NODE_GONE_MS);
    let gone = told(&mut relay).expect("its node is gone");
    assert!(matches!(gone, Absence::NodeGone { .. }), "{gone:?}");
}

#[test]
fn an_agent_that_its_node_has_had_messages_for_is_not_missed_once_it_is_bound_no_more() {
    let mut relay = on_a_node();
    relay.connect(NODE, None);
    assert_eq!(told_of(&mut relay, "dev-a"), None);
    let unbind = nodes::Command::Unbind {
        node: FIRST,
        agent: "dev-a".to_owned(),
    };
    relay.call(PERSON, 1, unbind.into());
    assert_eq!(told_of(&mut relay, "dev-a"), None);
}

#[test]
fn who_has_just_left_is_not_there() {
    let mut relay = silent();
    relay.open(B, Carrier::Stream, Some("pm"));
    relay.call(B, 1, look("pm"));
    later(&mut relay, 1);
    assert_eq!(told_of(&mut relay, "pm"), None);
    relay.close(B, Ending::Orderly);
    assert_eq!(told_of(&mut relay, "pm"), gone(one("pm"), 0));
}

//! Sessions that are bound to one agent, and what they may leave out.

use super::*;

const DEV_A: SessionId = SessionId(4);

fn with_dev_a() -> Relay {
    let mut relay = Relay::told();
    let opened = Effect::Opened {
        session: DEV_A,
        result: Ok(Some(name("dev-a"))),
    };
    assert_eq!(relay.open(DEV_A, Carrier::Stream, Some("dev-a")), [opened]);
    relay
}

fn not_you(call: u64, named: NamedAs, other: &str) -> Effect {
    refused(
        call,
        Refusal::Agents(agents::Refusal::NotYou {
            named,
            name: name(other),
            bound: name("dev-a"),
        }),
    )
}

#[test]
fn a_bound_session_need_not_name_itself() {
    let mut relay = with_dev_a();
    let to_pm = Delivery {
        message: Arc::new(Message {
            kind: Kind::Free,
            ..(*message(1, 0, "dev-a", "pm").message).clone()
        }),
        ..message(1, 0, "dev-a", "pm")
    };
    assert_eq!(
        relay.call(DEV_A, 1, post(None, "pm", "body 1")),
        accepted(1, &to_pm)
    );
    relay.post(A, 2, &message(2, 0, "pm", "dev-a"));
    let look = Command::Mail(mail::Command::Pending { agent: None });
    assert_eq!(relay.call(DEV_A, 3, look), [kinds(3, [Kind::Status])]);
    let read = Command::Mail(mail::Command::read_all(None, 0));
    let mine = shown(4, [message(2, 0, "pm", "dev-a")]);
    assert_eq!(relay.call(DEV_A, 4, read), [mine]);
}

#[test]
fn a_bound_session_may_name_itself() {
    let mut relay = with_dev_a();
    let to_pm = message(1, 0, "dev-a", "pm");
    assert_eq!(relay.post(DEV_A, 1, &to_pm), accepted(1, &to_pm));
    assert_eq!(relay.call(DEV_A, 2, read("dev-a")), [nothing(2)]);
    assert_eq!(relay.call(DEV_A, 3, look("dev-a")), [kinds(3, [])]);
}

#[test]
fn a_bound_session_may_not_name_another() {
    let mut relay = with_dev_a();
    relay.post(A, 1, &message(1, 0, "dev-b", "pm"));
    assert_eq!(
        relay.call(DEV_A, 2, post(Some("pm"), "dev-b", "")),
        [not_you(2, NamedAs::Sender, "pm")]
    );
    assert_eq!(
        relay.call(DEV_A, 3, read("pm")),
        [not_you(3, NamedAs::Reader, "pm")]
    );
    assert_eq!(
        relay.call(DEV_A, 4, wait("dev-b", WAIT_MS)),
        [not_you(4, NamedAs::Reader, "dev-b")]
    );
    assert_eq!(
        relay.call(DEV_A, 5, look("pm")),
        [not_you(5, NamedAs::Reader, "pm")]
    );
    assert_eq!(relay.pending(), [1, 0, 0]);
}

#[test]
fn a_bound_session_that_names_an_unknown_agent_hears_that_it_is_unknown() {
    let mut relay = with_dev_a();
    let unknown = Refusal::Agents(agents::Refusal::Unknown {
        name: "dev-c".to_owned(),
        known: Known::from(&Roster::default()),
    });
    assert_eq!(relay.call(DEV_A, 1, read("dev-c")), [refused(1, unknown)]);
}

#[test]
fn a_session_cannot_be_bound_to_an_unknown_agent() {
    let mut relay = Relay::told();
    let unknown = Refusal::Agents(agents::Refusal::Unknown {
        name: "dev-c".to_owned(),
        known: Known::from(&Roster::default()),
    });
    let refused = Effect::Opened {
        session: DEV_A,
        result: Err(unknown),
    };
    assert_eq!(relay.open(DEV_A, Carrier::Stream, Some("dev-c")), [refused]);
    assert_eq!(relay.engine.status().sessions, 3);
    assert_eq!(relay.call(DEV_A, 1, read("dev-a")), NONE);
}

#[test]
fn two_sessions_may_be_bound_to_one_agent() {
    let mut relay = with_dev_a();
    let opened = Effect::Opened {
        session: SessionId(5),
        result: Ok(Some(name("dev-a"))),
    };
    assert_eq!(
        relay.open(SessionId(5), Carrier::Exchange, Some("dev-a")),
        [opened]
    );
}

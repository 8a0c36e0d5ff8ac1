//! Posts with a key, which add nothing when they are sent again; and one message looked for by its id.

use relay::engine::address::Warning;
use relay::engine::limits::{IDEMPOTENCY_KEY_BYTES_MAX, IDEMPOTENCY_MS};

use super::*;

fn keyed(key: &str) -> Option<Box<mail::PostOptions>> {
    Some(Box::new(mail::PostOptions {
        idempotency_key: Some(key.to_owned()),
        ..mail::PostOptions::default()
    }))
}

fn say(from: &str, key: &str, body: &str) -> mail::Command {
    mail::Command::Post {
        from: Some(from.to_owned()),
        to: "dev-a".to_owned(),
        kind: Kind::Free,
        body: body.to_owned(),
        options: keyed(key),
    }
}

/// What a post was answered with: an id, and whether it was accepted before; or a refusal.
fn sent(relay: &mut Relay, command: mail::Command) -> Result<(MessageId, bool), Refusal> {
    match &relay.call(A, 1, command.into())[..] {
        [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Posted { id, warnings, .. })),
                ..
            },
        ] => Ok((*id, warnings.contains(&Warning::Repeated))),
        [
            Effect::Reply {
                result: Err(refusal), ..
            },
        ] => Err(refusal.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_has_the_key_of_its_post() {
    let mut relay = Relay::told();
    relay.events();
    sent(&mut relay, say("pm", "k", "hi")).expect("there is room");
    let events = relay.events().into_iter();
    let keys = events.filter_map(|event| {
        let Event::Accepted { message, .. } = event else {
            return None;
        };
        message.idempotency_key().map(str::to_owned)
    });
    assert_eq!(keys.collect::<Vec<_>>(), ["k"]);
}

#[test]
fn a_post_with_the_key_of_the_one_before_adds_nothing_and_gets_its_answer() {
    let mut relay = Relay::told();
    let (first, repeated) = sent(&mut relay, say("pm", "k", "hi")).expect("there is room");
    assert!(!repeated);
    relay.events();
    relay.now = START.plus_millis(5);
    let again = mail::Reply::Posted {
        id: first,
        given: "dev-a".into(),
        to: Recipient::agent(&name("dev-a")),
        ts: START,
        thread: None,
        warnings: Box::new([Warning::Repeated]),
        absence: None,
    };
    let effects = relay.call(B, 2, say("pm", "k", "hi").into());
    assert_eq!(effects, [reply(2, Ok(again.into()))], "over another session, too");
    assert_eq!(relay.went_out(), None);
    assert_eq!(relay.pending(), [0, 1, 0]);
    assert_eq!(
        sent(&mut relay, say("dev-b", "k", "hi")).map(|(_, repeated)| repeated),
        Ok(false)
    );
    assert_eq!(relay.pending(), [0, 2, 0], "a key is its sender's own");
}

#[test]
fn a_post_that_says_something_else_with_the_same_key_is_refused() {
    let mut relay = Relay::told();
    sent(&mut relay, say("pm", "k", "hi")).expect("there is room");
    let other = Err(mail::Refusal::OtherContent { key: "k".to_owned() }.into());
    assert_eq!(sent(&mut relay, say("pm", "k", "ho")), other);
    let change = |change: fn(&mut mail::PostOptions)| {
        let mut options = keyed("k").expect("it has one");
        change(&mut options);
        mail::Command::Post {
            from: Some("pm".to_owned()),
            to: "dev-a".to_owned(),
            kind: Kind::Free,
            body: "hi".to_owned(),
            options: Some(options),
        }
    };
    for command in [
        change(|options| options.thread = Some("t".to_owned())),
        change(|options| options.reply_to = Some(String::new())),
        change(|options| options.metadata = Some(String::new())),
    ] {
        assert_eq!(sent(&mut relay, command), other);
    }
    let [to, kind] = [("dev-b", Kind::Free), ("dev-a", Kind::Status)].map(|(to, kind)| {
        let (to, body) = (to.to_owned(), "hi".to_owned());
        let (from, options) = (Some("pm".to_owned()), keyed("k"));
        mail::Command::Post {
            from,
            to,
            kind,
            body,
            options,
        }
    });
    assert_eq!(
        [sent(&mut relay, to), sent(&mut relay, kind)],
        [other.clone(), other]
    );
    let waits = change(|options| options.await_ms = Some(WAIT_MS));
    assert_eq!(
        sent(&mut relay, waits).map(|(_, repeated)| repeated),
        Ok(true),
        "what was accepted is not waited for"
    );
    assert_eq!(relay.pending(), [0, 1, 0]);
}

#[test]
fn a_refused_post_uses_no_key() {
    let mut relay = Relay::told();
    let long = "x".repeat(101);
    assert!(sent(&mut relay, say("pm", "k", &long)).is_err());
    assert_eq!(
        sent(&mut relay, say("pm", "k", "hi")).map(|(_, repeated)| repeated),
        Ok(false)
    );
}

#[test]
fn a_key_is_of_a_bounded_length() {
    let mut relay = Relay::told();
    let longest = "k".repeat(IDEMPOTENCY_KEY_BYTES_MAX);
    assert!(sent(&mut relay, say("pm", &longest, "hi")).is_ok());
    for (key, shown) in [
        (String::new(), String::new()),
        (longest + "k", "k".repeat(80) + "…"),
    ] {
        let invalid = mail::Refusal::InvalidKey { given: shown };
        assert_eq!(sent(&mut relay, say("pm", &key, "hi")), Err(invalid.into()));
    }
}

#[test]
fn of_more_keys_than_are_kept_the_oldest_is_forgotten_and_each_of_them_after_a_day() {
    let mut relay = Relay::told();
    let is_repeated = |relay: &mut Relay, key: &str| {
        let sent = sent(relay, say("pm", key, "hi"));
        sent.expect("there is room").1
    };
    for key in ["1", "2", "3"] {
        assert!(!is_repeated(&mut relay, key));
    }
    for key in ["1", "2", "3"] {
        assert!(is_repeated(&mut relay, key), "a repeated post keeps nothing");
    }
    assert!(!is_repeated(&mut relay, "4"));
    assert!(is_repeated(&mut relay, "2"));
    assert!(!is_repeated(&mut relay, "1"));
    relay.now = START.plus_millis(IDEMPOTENCY_MS - 1);
    assert!(is_repeated(&mut relay, "4"));
    relay.now = START.plus_millis(IDEMPOTENCY_MS);
    assert!(!is_repeated(&mut relay, "4"));
    assert!(is_repeated(&mut relay, "4"), "it is known anew");
}

#[test]
fn the_key_of_an_agent_that_is_gone_is_not_its_successors() {
    let mut relay = Relay::told();
    let transient = || agents::Registration {
        transient: true,
        ..registration("temp", None)
    };
    relay.register(SessionId(4), transient());
    sent(&mut relay, say("temp", "k", "hi")).expect("there is room");
    relay.close(SessionId(4), Ending::Orderly);
    relay.now = START.plus_millis(relay::engine::limits::TRANSIENT_MS);
    relay.register(SessionId(5), transient());
    assert_eq!(
        sent(&mut relay, say("temp", "k", "ho")).map(|(_, repeated)| repeated),
        Ok(false)
    );
}

#[test]
fn a_message_is_found_by_its_id_by_whoever_got_it_read_or_not() {
    let mut relay = Relay::told();
    let (id, _) = sent(&mut relay, say("pm", "k", "hi")).expect("there is room");
    let look = |agent: &str, id: &str| mail::Command::Find {
        agent: Some(agent.to_owned()),
        id: id.to_owned(),
    };
    let found = |effects: &[Effect]| match effects {
        [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Found { message })),
                ..
            },
        ] => message.body.clone(),
        other => panic!("{other:?}"),
    };
    let id = id.to_string();
    assert_eq!(found(&relay.call(B, 2, look("dev-a", &id).into())), "hi");
    relay.call(B, 3, read("dev-a"));
    relay.passed(3);
    assert_eq!(found(&relay.call(B, 4, look("dev-a", &id).into())), "hi");
    assert_eq!(relay.pending(), [0, 0, 0]);
    for (agent, given) in [("pm", &*id), ("dev-a", "no id")] {
        let given_as = given.to_owned();
        let unknown = mail::Refusal::UnknownMessage { given: given_as };
        assert_eq!(
            relay.call(B, 5, look(agent, given).into()),
            [refused(5, unknown.into())]
        );
    }
}

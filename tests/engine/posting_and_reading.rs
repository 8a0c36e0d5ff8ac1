//! What a post, a read and a look answer, and what they leave behind.

use super::*;

#[test]
fn a_post_is_answered_with_an_id_and_logged() {
    let mut relay = Relay::told();
    relay.now = START.plus_millis(1_234);
    let message = Message {
        id: MessageId(id(1)),
        from: name("pm"),
        to: Recipient::agent(&name("dev-b")),
        kind: Kind::Question,
        body: "caf\u{e9}?\n".to_owned(),
        ts: START.plus_millis(1_234),
        context: None,
    };
    let command = Command::Mail(mail::Command::Post {
        from: Some("pm".to_owned()),
        to: "dev-b".to_owned(),
        kind: Kind::Question,
        body: "caf\u{e9}?\n".to_owned(),
        options: None,
    });
    let posted = Reply::Mail(mail::Reply::Posted {
        id: MessageId(id(1)),
        given: "dev-b".into(),
        to: Recipient::agent(&name("dev-b")),
        ts: START.plus_millis(1_234),
        thread: None,
        warnings: Box::default(),
        absence: None,
    });
    relay.events();
    assert_eq!(relay.call(A, 1, command), [reply(1, Ok(posted))]);
    let accepted = Event::Accepted {
        message: Arc::new(message),
        agents: vec![name("dev-b")],
        places: Places::One(Seq(0)),
    };
    assert_eq!(relay.events(), [accepted]);
    assert_eq!(relay.pending(), [0, 0, 1]);
}

#[test]
fn an_id_is_a_random_uuid() {
    assert_eq!(id(0x11).to_string(), "11111111-1111-4111-9111-111111111111");
    let mut relay = Relay::told();
    assert_eq!(relay.engine.status().boot.id, id(0));
    assert_eq!(relay.post(A, 1, &nth(1)), accepted(1, &nth(1)));
}

#[test]
fn an_inbox_is_first_in_first_out_across_all_senders() {
    let mut relay = Relay::told();
    let sent = [
        message(1, 0, "dev-a", "pm"),
        message(2, 1, "dev-b", "pm"),
        message(3, 2, "dev-a", "pm"),
        message(4, 3, "pm", "pm"),
    ];
    for (call, (session, delivery)) in (1..).zip([B, C, B, A].into_iter().zip(&sent)) {
        relay.post(session, call, delivery);
    }
    assert_eq!(relay.call(A, 9, read("pm")), [shown(9, sent)]);
}

#[test]
fn each_agent_has_its_own_inbox_and_its_own_places() {
    let mut relay = Relay::told();
    let to_a = message(1, 0, "pm", "dev-a");
    let to_b = message(2, 0, "pm", "dev-b");
    relay.post(A, 1, &to_a);
    relay.post(A, 2, &to_b);
    assert_eq!(relay.call(B, 3, read("pm")), [nothing(3)]);
    assert_eq!(relay.call(B, 4, read("dev-b")), [shown(4, [to_b])]);
    assert_eq!(relay.call(B, 5, read("dev-a")), [shown(5, [to_a])]);
}

#[test]
fn a_message_that_was_handed_over_is_seen_by_no_other_read() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    assert_eq!(relay.call(B, 2, read("dev-a")), [shown(2, [nth(1)])]);
    assert_eq!(relay.call(C, 3, read("dev-a")), [nothing(3)]);
    assert_eq!(relay.call(B, 4, read("dev-a")), [nothing(4)]);
    relay.post(A, 5, &nth(2));
    assert_eq!(relay.call(C, 6, read("dev-a")), [shown(6, [nth(2)])]);
}

#[test]
fn a_look_lists_the_kinds_in_order_and_takes_nothing() {
    let mut relay = Relay::told();
    let sent = [Kind::Question, Kind::Free, Kind::Question, Kind::Directive];
    for (call, kind) in (1..).zip(sent) {
        let command = Command::Mail(mail::Command::Post {
            from: Some("pm".to_owned()),
            to: "dev-a".to_owned(),
            kind,
            body: String::new(),
            options: None,
        });
        relay.call(A, call, command);
    }
    assert_eq!(relay.call(B, 11, look("dev-a")), [kinds(11, sent)]);
    assert_eq!(relay.call(B, 12, look("dev-a")), [kinds(12, sent)]);
    assert_eq!(relay.call(B, 13, look("pm")), [kinds(13, [])]);
    assert_eq!(relay.pending(), [0, 4, 0]);
}

#[test]
fn what_was_handed_over_is_not_pending_until_it_is_undone() {
    let mut relay = Relay::told();
    relay.post(A, 1, &nth(1));
    relay.call(B, 2, read("dev-a"));
    assert_eq!(relay.call(C, 3, look("dev-a")), [kinds(3, [])]);
    assert_eq!(relay.pending(), [0, 0, 0]);
    relay.lost(2);
    assert_eq!(relay.call(C, 4, look("dev-a")), [kinds(4, [Kind::Status])]);
    assert_eq!(relay.pending(), [0, 1, 0]);
}

#[test]
fn the_status_counts_sessions_and_what_waits_in_the_roster_s_order() {
    let mut relay = Relay::told();
    relay.post(A, 1, &message(1, 0, "pm", "dev-b"));
    relay.post(A, 2, &message(2, 1, "pm", "dev-b"));
    relay.post(A, 3, &message(3, 0, "dev-a", "pm"));
    relay.close(C, Ending::Orderly);
    let status = Status {
        boot: Boot {
            id: id(0),
            started_at: START,
        },
        sessions: 2,
        pending: vec![
            (name("pm"), 1),
            (name("dev-a"), 0),
            (name("dev-b"), 2),
            (name("user"), 0),
        ],
    };
    assert_eq!(relay.engine.status(), status);
}

#[test]
fn there_is_an_inbox_for_each_agent_of_the_roster_and_no_other() {
    let roster = Roster::new(["qa", "dev-a"]).unwrap();
    let engine = Engine::new(START, roster.clone(), ROOMY, [0; 16]);
    assert_eq!(engine.roster(), &roster);
    let mut relay = Relay::of(engine.after_sessions_of(Some(BTreeSet::new())));
    relay.open(A, Carrier::Stream, None);
    relay.call(A, 3, look("qa"));
    let to_qa = message(1, 0, "dev-a", "qa");
    assert_eq!(relay.post(A, 1, &to_qa), accepted(1, &to_qa));
    assert_eq!(relay.pending(), [1, 0]);
    let unknown = Refusal::Agents(agents::Refusal::Unknown {
        name: "pm".to_owned(),
        known: Known::from(&roster),
    });
    assert_eq!(relay.call(A, 2, read("pm")), [refused(2, unknown)]);
}

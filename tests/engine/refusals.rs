//! What is refused, in which words, and that nothing changes by it.

use relay::tools::DEFAULT;

use super::*;

/// What the caller of a tool reads of a refusal.
fn said(refusal: &Refusal) -> String {
    DEFAULT.refused(refusal)
}

#[test]
fn a_session_of_another_project_is_told_whole_names_of_whom_it_is_not() {
    let of = |project: &str, local: &str| AgentName::in_project(project, local).expect("a name");
    for (name, bound, expected) in [
        (name("pm"), name("dev-a"), ["pm", "dev-a"]),
        (of("api", "x"), name("dev-a"), ["api:x", "dev-a"]),
        (name("dev-a"), of("api", "dev"), ["default:dev-a", "api:dev"]),
        (of("api", "x"), of("api", "dev"), ["api:x", "api:dev"]),
    ] {
        let named = agents::NamedAs::Sender;
        let told = said(&agents::Refusal::NotYou { named, name, bound }.into());
        let [name, bound] = expected;
        let expected = format!(
            "\"from\" is {name:?}, but this session is bound to {bound:?}; leave \"from\" out or give {bound:?}"
        );
        assert_eq!(told, expected);
    }
}

/// Every kind of refused call, on a relay that [`at_its_bounds`] made, and what it says.
fn refused_calls() -> Vec<(SessionId, Command, &'static str)> {
    let dev_b = SessionId(4);
    let anonymous_read = Command::Mail(mail::Command::read_all(None, 0));
    vec![
        (
            C,
            post(Some("dev-c"), "pm", ""),
            "unknown role \"dev-c\"; known roles: pm, dev-a, dev-b",
        ),
        (
            C,
            post(Some("pm"), "PM", ""),
            "unknown role \"PM\"; known roles: pm, dev-a, dev-b; a message may also go to user, @group, #channel, * or @everyone",
        ),
        (C, read(""), "unknown role \"\"; known roles: pm, dev-a, dev-b"),
        (
            C,
            look("a\"\n"),
            "unknown role \"a\\\"\\n\"; known roles: pm, dev-a, dev-b",
        ),
        (
            C,
            post(None, "pm", ""),
            "missing argument \"from\"; give your role, one of: pm, dev-a, dev-b",
        ),
        (
            C,
            anonymous_read,
            "missing argument \"for\"; give your role, one of: pm, dev-a, dev-b",
        ),
        (
            C,
            Command::Mail(mail::Command::Pending { agent: None }),
            "missing argument \"for\"; give your role, one of: pm, dev-a, dev-b",
        ),
        (
            dev_b,
            post(Some("pm"), "pm", ""),
            "\"from\" is \"pm\", but this session is bound to \"dev-b\"; leave \"from\" out or give \"dev-b\"",
        ),
        (
            dev_b,
            read("pm"),
            "\"for\" is \"pm\", but this session is bound to \"dev-b\"; leave \"for\" out or give \"dev-b\"",
        ),
        (
            C,
            post(Some("pm"), "pm", "12345678901"),
            "body has 11 bytes; accepted: at most 10",
        ),
        (
            C,
            post(Some("pm"), "dev-a", ""),
            "inbox of \"dev-a\" is full: 2 messages, 12 bytes; accepted: at most 2 messages and 30 bytes; \
             post again after it was read; a person can empty it: relay read dev-a",
        ),
        (
            C,
            wait("pm", 1),
            "as many reads wait already as are accepted: 1; read without waiting",
        ),
    ]
}

/// A relay that has no room for one more of anything.
fn at_its_bounds() -> Relay {
    let mut relay = Relay::told_within(Bounds {
        body_bytes_max: 10,
        inbox_messages_max: 2,
        inbox_bytes_max: 30,
        read_max: 10,
        sessions_max: 4,
        waits_max: 1,
        ..ROOMY
    });
    relay.open(SessionId(4), Carrier::Stream, Some("dev-b"));
    relay.post(A, 1, &nth(1));
    relay.call(A, 2, read("dev-a"));
    relay.passed(2);
    relay.post(B, 3, &nth(2));
    relay.call(B, 4, wait("dev-b", WAIT_MS));
    relay
}

#[test]
fn a_refusal_names_the_value_and_what_is_accepted() {
    for (session, command, text) in refused_calls() {
        let mut relay = at_its_bounds();
        let effects = relay.call(session, 5, command);
        let [
            Effect::Reply {
                call: CallId(5),
                result: Err(refusal),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}");
        };
        assert_eq!(said(refusal), text);
    }
    let refusal = Refusal::Sessions(sessions::Refusal::TooMany { sessions: 4 });
    assert_eq!(
        said(&refusal),
        "as many sessions are open already as are accepted: 4; close one"
    );
}

#[test]
fn the_class_of_a_refusal_says_what_can_be_done_about_it() {
    let known = Known::from(&Roster::default());
    let (named, dev_a) = (NamedAs::Sender, name("dev-a"));
    let full = mail::Refusal::InboxFull {
        agent: dev_a.clone(),
        messages: 1,
        bytes: 1,
        messages_max: 1,
        bytes_max: 1,
    };
    let too_long = mail::Refusal::BodyTooLong {
        bytes: 2,
        bytes_max: 1,
    };
    let unknown = agents::Refusal::Unknown {
        name: "x".to_owned(),
        known: known.clone(),
    };
    let not_you = agents::Refusal::NotYou {
        named,
        name: name("pm"),
        bound: dev_a,
    };
    let person = agents::Refusal::Person {
        named,
        known: known.clone(),
    };
    let already = mail::Refusal::AlreadyWaits { agent: name("pm") };
    let refusals: [(Refusal, Class); 10] = [
        (unknown.into(), Class::Unknown),
        (not_you.into(), Class::Bad),
        (person.into(), Class::Bad),
        (agents::Refusal::Anonymous { named, known }.into(), Class::Bad),
        (too_long.into(), Class::Bad),
        (full.into(), Class::Full),
        (mail::Refusal::TooManyWaits { waits: 1 }.into(), Class::Full),
        (already.into(), Class::Conflict),
        (sessions::Refusal::TooMany { sessions: 1 }.into(), Class::Full),
        (Refusal::Stopping, Class::Full),
    ];
    for (refusal, class) in refusals {
        assert_eq!(refusal.class(), class, "{refusal:?}");
    }
}

#[test]
fn a_refusal_changes_nothing() {
    for (session, command, text) in refused_calls() {
        let mut relay = at_its_bounds();
        let before = (relay.engine.status(), relay.engine.poll_timeout());
        relay.call(session, 5, command);
        let after = (relay.engine.status(), relay.engine.poll_timeout());
        assert_eq!(before, after, "{text}");
        assert_untouched(relay);
    }
}

#[test]
fn a_refused_session_changes_nothing() {
    for (agent, sessions_are_the_matter) in [(Some("dev-c"), false), (None, true), (Some("pm"), true)] {
        let mut relay = at_its_bounds();
        let before = (relay.engine.status(), relay.engine.poll_timeout());
        let effects = relay.open(SessionId(5), Carrier::Stream, agent);
        let refusal = if sessions_are_the_matter {
            Refusal::Sessions(sessions::Refusal::TooMany { sessions: 4 })
        } else {
            Refusal::Agents(agents::Refusal::Unknown {
                name: "dev-c".to_owned(),
                known: Known::from(&Roster::default()),
            })
        };
        let refused = Effect::Opened {
            session: SessionId(5),
            result: Err(refusal),
        };
        assert_eq!(effects, [refused]);
        let after = (relay.engine.status(), relay.engine.poll_timeout());
        assert_eq!(before, after);
        assert_untouched(relay);
    }
}

/// Shows all that is in a relay that [`at_its_bounds`] made; it must be as it was then.
#[track_caller]
fn assert_untouched(mut relay: Relay) {
    assert_eq!(relay.lost(2), NONE);
    let all = shown(6, [again(&nth(1)), nth(2)]);
    assert_eq!(relay.call(B, 6, read("dev-a")), [all]);
    assert_eq!(relay.call(B, 7, read("pm")), [nothing(7)]);
    assert_eq!(relay.timeout_at(4_999), NONE);
    assert_eq!(relay.timeout_at(5_000), [nothing(4)]);
    // The next id is the one that the refused call did not take.
    relay.passed(6);
    relay.call(B, 9, look("pm"));
    relay.settle();
    let third = posted_at(5_000 + CANCEL_GRACE_MS, &nth(3));
    assert_eq!(relay.post(B, 8, &third), accepted(8, &third));
}

#[test]
fn arguments_are_judged_before_the_state_is() {
    let mut relay = at_its_bounds();
    let unknown = |call, name: &str| {
        [refused(
            call,
            Refusal::Agents(agents::Refusal::Unknown {
                name: name.to_owned(),
                known: Known::from(&Roster::default()),
            }),
        )]
    };
    let long = "12345678901";
    assert_eq!(relay.call(C, 5, post(Some("x"), "y", long)), unknown(5, "x"));
    let nobody = agents::Refusal::UnknownAddress {
        name: "y".to_owned(),
        known: Known::from(&Roster::default()),
    };
    assert_eq!(
        relay.call(C, 6, post(Some("pm"), "y", long)),
        [refused(6, nobody.into())]
    );
    let too_long = Refusal::Mail(mail::Refusal::BodyTooLong {
        bytes: 11,
        bytes_max: 10,
    });
    assert_eq!(
        relay.call(C, 7, post(Some("pm"), "dev-a", long)),
        [refused(7, too_long)]
    );
    assert_eq!(relay.call(C, 8, wait("y", WAIT_MS)), unknown(8, "y"));
}

#[test]
fn nothing_is_posted_while_the_relay_stops() {
    let mut relay = Relay::told();
    relay.handle(Input::Stopping);
    let posted = relay.call(A, 1, post(Some("pm"), "dev-a", "x"));
    assert_eq!(posted, [refused(1, Refusal::Stopping)]);
    assert_eq!(relay.call(A, 2, read("dev-a")), [nothing(2)]);
    let unknown = relay.call(A, 3, post(Some("pm"), "nobody", "x"));
    assert!(matches!(
        &unknown[..],
        [Effect::Reply {
            result: Err(Refusal::Agents(agents::Refusal::UnknownAddress { .. })),
            ..
        }]
    ));
}

//! Agents that sessions register.

use relay::engine::agents::{Profile, Registration};
use relay::engine::limits::PROFILE_BYTES_MAX;

use super::*;

/// Sessions that register agents.
const OLD: SessionId = SessionId(4);
const NEW: SessionId = SessionId(5);
const OTHER: SessionId = SessionId(6);
const EXTRA: SessionId = SessionId(7);

#[test]
fn a_new_agent_is_there_once_a_session_has_registered_it() {
    let mut relay = Relay::told();
    relay.events();
    assert_eq!(
        relay.register(OLD, registration("qa", Some(1))),
        [opened(OLD, "qa")]
    );
    let agent = name("qa");
    let events = [
        Event::Registered { agent: agent.clone() },
        Event::Opened {
            session: OLD,
            carrier: Carrier::Stream,
            agent: Some(agent),
            person: false,
        },
    ];
    assert_eq!(relay.events(), events);
    assert_eq!(others(&relay), ["qa"]);
    let first = message(1, 0, "pm", "qa");
    assert_eq!(relay.post(A, 1, &first), accepted(1, &first));
    let read_all = Command::Mail(mail::Command::read_all(None, 0));
    assert_eq!(
        relay.call(OLD, 2, read_all),
        [shown(2, [first])],
        "it had no session before the start"
    );
    relay.close(OLD, Ending::Broken);
    assert_eq!(others(&relay), ["qa"], "it stays without its session");
    assert_eq!(
        relay.open(NEW, Carrier::Exchange, Some("qa")),
        [opened(NEW, "qa")]
    );
}

#[test]
fn an_agent_of_another_project_has_its_project_in_its_name() {
    let mut relay = Relay::told();
    let web = registration("web:pm", None);
    assert_eq!(relay.register(OLD, web.clone()), [opened(OLD, "web:pm")]);
    let named = Registration {
        project: Some("default".to_owned()),
        ..registration("pm", None)
    };
    assert_eq!(relay.register(NEW, named), [opened(NEW, "pm")]);
    assert_eq!(others(&relay), ["web:pm"]);
    let mine = message(1, 0, "pm", "web:pm");
    relay.post(A, 1, &mine);
    for (call, own) in [(2, "web:pm"), (3, "pm")] {
        assert_eq!(relay.call(OLD, call, look(own)), [kinds(call, [Kind::Status])]);
    }
    let not_you = agents::Refusal::NotYou {
        named: NamedAs::Reader,
        name: name("dev-a"),
        bound: name("web:pm"),
    };
    assert_eq!(relay.call(OLD, 4, look("dev-a")), [refused(4, not_you.into())]);
    let effects = relay.call(OLD, 5, Command::Mail(mail::Command::read_all(None, 0)));
    let messages = mail::Reply::Messages {
        project: Some("web".into()),
        deliveries: Arc::new(vec![mine]),
        restarted: None,
        remaining: 0,
        part: None,
        is_cut: false,
        earlier: Vec::new(),
        waited_ms: 0,
    };
    assert_eq!(effects, [reply(5, Ok(messages.into()))]);
}

#[test]
fn so_many_agents_may_be_there_and_not_one_more() {
    let mut relay = Relay::told_within(Bounds {
        agents_max: 4,
        ..ROOMY
    });
    assert_eq!(relay.register(OLD, registration("qa", None)), [opened(OLD, "qa")]);
    let too_many = agents::Refusal::TooManyAgents { agents: 4 };
    assert_eq!(Refusal::from(too_many.clone()).class(), Class::Full);
    assert_eq!(
        relay.register(NEW, registration("qb", None)),
        [not_admitted(NEW, too_many)]
    );
    assert_eq!(others(&relay), ["qa"]);
    assert_eq!(
        relay.register(NEW, registration("qa", Some(1))),
        [opened(NEW, "qa")],
        "who is there is not one more"
    );
}

#[test]
fn so_many_projects_may_be_there_and_not_one_more() {
    let mut relay = Relay::told_within(Bounds {
        projects_max: 2,
        ..ROOMY
    });
    assert_eq!(
        relay.register(OLD, registration("web:a", None)),
        [opened(OLD, "web:a")]
    );
    let too_many = agents::Refusal::TooManyProjects { projects: 2 };
    assert_eq!(Refusal::from(too_many.clone()).class(), Class::Full);
    assert_eq!(
        relay.register(NEW, registration("app:a", None)),
        [not_admitted(NEW, too_many)]
    );
    assert_eq!(
        relay.register(NEW, registration("web:b", None)),
        [opened(NEW, "web:b")]
    );
    assert_eq!(
        relay.register(OTHER, registration("qa", None)),
        [opened(OTHER, "qa")]
    );
}

#[test]
fn no_agent_is_registered_for_a_session_that_is_one_too_many() {
    let mut relay = Relay::told_within(Bounds {
        sessions_max: 3,
        ..ROOMY
    });
    let result = Err(Refusal::Sessions(sessions::Refusal::TooMany { sessions: 3 }));
    let session = OLD;
    assert_eq!(
        relay.register(OLD, registration("qa", Some(1))),
        [Effect::Opened { session, result }]
    );
    assert_eq!(others(&relay), [""; 0]);
}

#[test]
fn what_is_no_name_is_not_registered() {
    let mut relay = Relay::told();
    for (project, agent, noun, bad) in [
        (None, "", "role", ""),
        (None, "q a", "role", "q a"),
        (None, "web:qa", "role", "web:qa"),
        (Some("we b"), "qa", "project", "we b"),
        (Some(""), "qa", "project", ""),
        (Some("*"), "qa", "project", "*"),
    ] {
        let registration = Registration {
            project: project.map(str::to_owned),
            name: agent.to_owned(),
            ..Registration::default()
        };
        let name = bad.to_owned();
        let refusal = agents::Refusal::InvalidName(InvalidName::Form { noun, name });
        assert_eq!(relay.register(OLD, registration), [not_admitted(OLD, refusal)]);
    }
    for (agent, noun, name) in [("everyone", "role", "everyone"), ("agent:qa", "project", "agent")] {
        let name = name.to_owned();
        let refusal = agents::Refusal::InvalidName(InvalidName::Reserved { noun, name });
        assert_eq!(
            relay.register(OLD, registration(agent, None)),
            [not_admitted(OLD, refusal)]
        );
    }
    for person in ["user", "web:user"] {
        let refusal = agents::Refusal::Person {
            named: NamedAs::Session,
            known: Known::from(&Roster::default()),
        };
        assert_eq!(
            relay.register(OLD, registration(person, None)),
            [not_admitted(OLD, refusal)]
        );
    }
    assert_eq!(others(&relay), [""; 0]);
}

/// What an agent may say of itself, each of it the same text.
fn profile(text: &str) -> Profile {
    let text = || Some(text.to_owned());
    Profile {
        role: text(),
        module: text(),
        cli: text(),
        parent: text(),
        cwd: text(),
    }
}

/// What dev-a says of itself, as a list of the whole relay shows it.
fn said(relay: &mut Relay) -> Profile {
    let effects = relay.call(A, 2_000, list(None, false));
    let mut agents = listed_in(&effects)
        .iter()
        .filter(|agent| agent.name == name("dev-a"));
    agents.next().expect("it is there").profile.clone()
}

#[test]
fn what_an_agent_says_of_itself_is_one_short_line_and_its_role_a_name() {
    let registered = |profile| Registration {
        profile,
        ..registration("dev-a", None)
    };
    let long = "x".repeat(PROFILE_BYTES_MAX);
    for (bad, given) in [
        (format!("{long}x"), format!("{}…", "x".repeat(80))),
        ("two\nlines".to_owned(), "two\nlines".to_owned()),
        ("\u{1b}[31m".to_owned(), "\u{1b}[31m".to_owned()),
    ] {
        let bad = || Some(bad.clone());
        for (field, profile) in [
            (
                "module",
                Profile {
                    module: bad(),
                    ..Profile::default()
                },
            ),
            (
                "cli",
                Profile {
                    cli: bad(),
                    ..Profile::default()
                },
            ),
            (
                "parent",
                Profile {
                    parent: bad(),
                    ..Profile::default()
                },
            ),
            (
                "cwd",
                Profile {
                    cwd: bad(),
                    ..Profile::default()
                },
            ),
        ] {
            let mut relay = Relay::told();
            let given = given.clone();
            let refusal = agents::Refusal::InvalidProfile { field, given };
            assert_eq!(Refusal::from(refusal.clone()).class(), Class::Bad);
            assert_eq!(
                relay.register(OLD, registered(profile)),
                [not_admitted(OLD, refusal)]
            );
        }
    }
    let mut relay = Relay::told();
    let (noun, bad) = ("role", "two words".to_owned());
    let refusal = agents::Refusal::InvalidName(InvalidName::Form { noun, name: bad });
    let role = of_role("two words", registration("dev-a", None));
    assert_eq!(relay.register(OLD, role), [not_admitted(OLD, refusal)]);
    let longest = Profile {
        role: Some("r".repeat(32)),
        ..profile(&long)
    };
    assert_eq!(
        relay.register(OLD, registered(longest.clone())),
        [opened(OLD, "dev-a")]
    );
    assert_eq!(said(&mut relay), longest);
}

#[test]
fn what_an_agent_does_not_say_anew_stays_as_it_was() {
    let mut relay = Relay::told();
    let registered = |profile| Registration {
        profile,
        ..registration("dev-a", None)
    };
    relay.register(OLD, registered(profile("first")));
    relay.register(NEW, registered(Profile::default()));
    assert_eq!(said(&mut relay), profile("first"));
    relay.register(OTHER, registered(profile("")));
    assert_eq!(said(&mut relay), profile("first"), "nor does what is empty");
    let module = Some("second".to_owned());
    let other = Profile {
        module,
        ..Profile::default()
    };
    relay.register(EXTRA, registered(other.clone()));
    let both = Profile {
        module: other.module,
        ..profile("first")
    };
    assert_eq!(said(&mut relay), both);
}

#[test]
fn a_role_is_that_of_whoever_said_so_last() {
    let mut relay = Relay::told();
    let to_role = |relay: &mut Relay, role: &str| {
        relay.events();
        relay.call(A, 1, post(Some("pm"), &format!("@{role}"), ""));
        relay.went_out().map(|(_, agents)| agents).unwrap_or_default()
    };
    relay.register(OLD, of_role("tester", registration("dev-a", None)));
    relay.register(NEW, of_role("tester", registration("dev-b", None)));
    assert_eq!(to_role(&mut relay, "tester"), ["dev-a", "dev-b"].map(name));
    relay.register(OTHER, of_role("writer", registration("dev-a", None)));
    assert_eq!(to_role(&mut relay, "tester"), [name("dev-b")]);
    assert_eq!(to_role(&mut relay, "writer"), [name("dev-a")]);
    relay.register(EXTRA, of_role("writer", registration("dev-b", None)));
    assert_eq!(to_role(&mut relay, "tester"), [], "nobody has it any more");
    assert_eq!(to_role(&mut relay, "writer"), ["dev-a", "dev-b"].map(name));
}

#[test]
fn who_is_to_be_a_new_agent_is_refused_where_there_is_one() {
    let mut relay = Relay::told();
    let new = |agent: &str| Registration {
        is_new: true,
        ..registration(agent, None)
    };
    let opened = relay.register(SessionId(4), new("qa"));
    let result = Ok(Some(name("qa")));
    assert_eq!(
        opened,
        [Effect::Opened {
            session: SessionId(4),
            result
        }]
    );
    for agent in ["qa", "pm"] {
        let exists = agents::Refusal::Exists { agent: name(agent) };
        let opened = relay.register(SessionId(5), new(agent));
        let result = Err(exists.into());
        assert_eq!(
            opened,
            [Effect::Opened {
                session: SessionId(5),
                result
            }]
        );
    }
    let opened = relay.register(SessionId(5), new("web:qa"));
    let result = Ok(Some(name("web:qa")));
    assert_eq!(
        opened,
        [Effect::Opened {
            session: SessionId(5),
            result
        }]
    );
}

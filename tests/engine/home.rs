//! A relay that is one project's own: whoever names that project means the default one, in which all are who name none.

use relay::engine::address::Home;
use relay::engine::limits::TRANSIENT_MS;
use relay::engine::{Abilities, channels, workers};

use super::*;

/// The sessions of pm and of ui, who is of another project.
const PM: SessionId = SessionId(4);
const UI: SessionId = SessionId(5);

/// A relay of which `web` is the own project, or one that is nobody's, with an implementer in the default project and one in `api`.
fn relay(home: Option<&str>) -> Relay {
    let mut relay = Relay::told();
    relay.engine = relay
        .engine
        .clone()
        .at_home_in(home.map_or_else(Home::default, Home::of));
    relay.register(SessionId(6), of_role("implementer", registration("dev-a", None)));
    relay.open(PM, Carrier::Stream, Some("pm"));
    relay.register(UI, of_role("implementer", registration("api:ui", None)));
    relay.events();
    relay
}

/// What somebody says who names a project.
fn said(project: &str) -> Vec<Command> {
    let of = |name: &str| format!("{project}:{name}");
    let named = Some(project.to_owned());
    let mut said: Vec<Command> = Vec::new();
    said.push(
        groups::Command::Create {
            name: of("crew"),
            description: String::new(),
        }
        .into(),
    );
    for member in [of("dev-a"), of("dev-b")] {
        said.push(
            groups::Command::Add {
                group: of("crew"),
                member: groups::Named::Agent(member),
            }
            .into(),
        );
    }
    for name in ["crew", "everyone"] {
        said.push(
            groups::Command::Get {
                name: of(name),
                expand: true,
            }
            .into(),
        );
    }
    said.push(
        channels::Command::Make {
            name: of("#build"),
            topic: String::new(),
        }
        .into(),
    );
    for to in [
        "dev-a",
        "@dev-b",
        "@implementer",
        "agent:implementer:0",
        "crew",
        "#build",
        "#general",
        "*",
        "@everyone",
    ] {
        said.push(post(None, &of(to), "x"));
    }
    said.push(channels::Command::Join { name: of("build") }.into());
    said.push(channels::Command::Get { name: of("#build") }.into());
    said.push(
        channels::Command::List {
            project: named.clone(),
        }
        .into(),
    );
    said.push(channels::Command::Leave { name: of("#build") }.into());
    said.push(
        groups::Command::Remove {
            group: of("crew"),
            member: groups::Named::Agent(of("dev-b")),
        }
        .into(),
    );
    said.push(
        groups::Command::List {
            project: named.clone(),
        }
        .into(),
    );
    said.push(
        agents::Command::List {
            project: named,
            which: Which::All,
        }
        .into(),
    );
    said.push(Command::Mail(mail::Command::Read {
        agent: None,
        options: Some(Box::new(mail::ReadOptions {
            from: Some(of("dev-a")),
            channel: Some(of("#general")),
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms: 0,
        second: mail::Second::Supersedes,
    }));
    said.push(groups::Command::Delete { name: of("crew") }.into());
    said
}

/// Writes effects as they are where the default project is named.
fn shown(effects: &[Effect]) -> String {
    format!("{effects:?}")
        .replace("web:", "default:")
        .replace("\"web\"", "\"default\"")
}

#[test]
fn whoever_names_the_relays_own_project_means_the_default_one() {
    for session in [PM, UI] {
        let (mut home, mut other) = (relay(Some("web")), relay(None));
        for (call, (by_name, by_default)) in (1..).zip(said("web").into_iter().zip(said("default"))) {
            let expected = other.call(session, call, by_default.clone());
            assert!(
                expected
                    .iter()
                    .all(|effect| !matches!(effect, Effect::Reply { result: Err(_), .. })),
                "{by_default:?}: {expected:?}"
            );
            assert_eq!(
                shown(&home.call(session, call, by_name.clone())),
                shown(&expected),
                "{by_name:?}"
            );
            assert_eq!(home.engine.status(), other.engine.status(), "{by_name:?}");
        }
    }
}

#[test]
fn the_default_project_goes_on_being_called_so() {
    let (mut home, mut other) = (relay(Some("web")), relay(None));
    for (call, command) in (1..).zip(said("default")) {
        let expected = other.call(UI, call, command.clone());
        assert_eq!(home.call(UI, call, command), expected);
    }
}

#[test]
fn whoever_comes_from_the_relays_own_project_is_of_the_default_one() {
    let mut relay = relay(Some("web"));
    let program = |agent: Option<&str>| Who::Program {
        agent: agent.map(str::to_owned),
        is_certain: true,
        project: "web".to_owned(),
        mode: None,
        abilities: Abilities::ALL,
    };
    let new = |name: &str| Who::Registered(Box::new(registration(name, None)));
    for (number, who, agent) in [
        (20, Who::Agent(Some("web:dev-a".to_owned())), Some("dev-a")),
        (21, Who::Agent(Some("default:dev-a".to_owned())), Some("dev-a")),
        (22, new("web:ace"), Some("ace")),
        (23, new("api:ace"), Some("api:ace")),
        (24, program(Some("web:dev-a")), Some("dev-a")),
        (25, program(None), None),
    ] {
        let session = SessionId(number);
        let carrier = Carrier::Hook;
        let opened = relay.handle(Input::Opened {
            session,
            carrier,
            who,
        });
        relay.close(session, Ending::Orderly);
        let agent = agent.map(name);
        let result = Ok(agent);
        assert_eq!(opened, [Effect::Opened { session, result }]);
    }
}

#[test]
fn a_program_from_the_relays_own_project_is_known_by_whom_it_speaks_for() {
    for project in ["web", DEFAULT_PROJECT] {
        let mut relay = relay(Some("web"));
        let session = SessionId(20);
        relay.handle(Input::Opened {
            session,
            carrier: Carrier::Hook,
            who: Who::Program {
                agent: None,
                is_certain: false,
                project: project.to_owned(),
                mode: None,
                abilities: Abilities::ALL,
            },
        });
        let speaks = surfacing::Command::Comes {
            to: surfacing::Boundary::Returned,
            speaks_as: Some("dev-a".to_owned()),
            woken_by: None,
        };
        relay.call(session, 1, speaks.into());
        let sessions = relay.engine.overview().sessions;
        let program = sessions.iter().find(|view| view.session == session);
        assert_eq!(program.and_then(|view| view.agent.clone()), Some(name("dev-a")));
    }
}

#[test]
fn an_agent_may_name_itself_with_the_relays_own_project_before_it() {
    let mut relay = relay(Some("web"));
    for (call, from) in [(1, "web:pm"), (2, "default:pm"), (3, "pm")] {
        let effects = relay.call(PM, call, post(Some(from), "dev-a", "x"));
        assert!(
            matches!(&effects[..], [Effect::Reply { result: Ok(_), .. }]),
            "{from}: {effects:?}"
        );
        let (message, _) = relay.went_out().expect("it is accepted");
        assert_eq!(message.from, name("pm"));
    }
    let refused = relay.call(PM, 4, post(Some("web:dev-a"), "dev-b", "x"));
    let not_you = agents::Refusal::NotYou {
        named: NamedAs::Sender,
        name: name("dev-a"),
        bound: name("pm"),
    };
    assert_eq!(refused, [reply(4, Err(Refusal::Agents(not_you)))]);
    // A session that is bound to nobody may name anybody so.
    relay.call(A, 5, post(Some("web:dev-b"), "web:dev-a", "x"));
    let (message, agents) = relay.went_out().expect("it is accepted");
    assert_eq!((&message.from, agents), (&name("dev-b"), vec![name("dev-a")]));
}

#[test]
fn a_reader_names_somebody_who_has_gone_as_it_is_called_there_or_with_the_relays_own_project_before_it() {
    for (by, from) in [
        (PM, "mcp-1"),
        (PM, "web:mcp-1"),
        (PM, "default:mcp-1"),
        (UI, "default:mcp-1"),
        (UI, "web:mcp-1"),
    ] {
        let mut relay = relay(Some("web"));
        let gone = SessionId(21);
        let nameless = agents::Registration {
            transient: true,
            ..registration("mcp-1", None)
        };
        relay.register(gone, nameless);
        relay.call(gone, 1, post(None, "pm", "farewell"));
        relay.call(gone, 2, post(None, "api:ui", "farewell"));
        relay.close(gone, Ending::Orderly);
        relay.now = START.plus_millis(TRANSIENT_MS);
        let read = mail::Command::Read {
            agent: None,
            options: Some(Box::new(mail::ReadOptions {
                from: Some(from.to_owned()),
                ..mail::ReadOptions::default()
            })),
            room: None,
            wait_ms: 0,
            second: mail::Second::Supersedes,
        };
        let effects = relay.call(by, 3, read.into());
        let is_found = effects.iter().any(
            |effect| matches!(effect, Effect::Reply { result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })), .. } if deliveries.len() == 1),
        );
        assert!(is_found, "{from}: {effects:?}");
    }
}

#[test]
fn a_worker_is_named_with_the_relays_own_project_before_it() {
    let mut relay = relay(Some("web"));
    let asked = workers::Asked {
        name: "web:w1".to_owned(),
        cli: "claude".to_owned(),
        task: "x".to_owned(),
        ..workers::Asked::default()
    };
    relay.call(PM, 1, workers::Command::Spawn(Box::new(asked)).into());
    assert_eq!(others(&relay), ["api:ui", "w1"]);
    let release = workers::Command::Release {
        from: None,
        name: "web:w1".to_owned(),
        reason: None,
    };
    let effects = relay.call(PM, 2, release.into());
    let released = effects.iter().any(
        |effect| matches!(effect, Effect::Reply { result: Ok(Reply::Workers(workers::Reply::Released { agent, .. })), .. } if agent.as_str() == "w1"),
    );
    assert!(released, "{effects:?}");
}

#[test]
fn a_relay_that_is_the_default_projects_has_no_other_name() {
    for home in [None, Some(DEFAULT_PROJECT), Some("api")] {
        let mut relay = relay(home);
        let effects = relay.call(PM, 1, post(None, "web:dev-a", "x"));
        assert!(
            matches!(&effects[..], [Effect::Reply { result: Err(_), .. }]),
            "{home:?}: {effects:?}"
        );
        let session = SessionId(20);
        let web = registration("web:dev-a", None);
        assert_eq!(relay.register(session, web), [opened(session, "web:dev-a")]);
    }
}

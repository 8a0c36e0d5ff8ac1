//! Who is there, who is active, and which agents go by themselves.

use relay::engine::agents::{AgentView, Profile, Registration, Status};
use relay::engine::limits::{ACTIVE_MS, TRANSIENT_MS};

use super::channels::names;
use super::*;

/// Sessions that register agents.
const OLD: SessionId = SessionId(4);
const NEW: SessionId = SessionId(5);

/// What a list shows, of which the last contact was so many milliseconds after the start.
fn listed(call: u64, agents: &[(&str, Option<i64>, Status)]) -> [Effect; 1] {
    let view = |(agent, contact, status): &(&str, Option<i64>, Status)| AgentView {
        name: name(agent),
        profile: Profile::default(),
        last_contact: contact.map(|ms| START.plus_millis(ms)),
        status: *status,
    };
    let agents = agents.iter().map(view).collect();
    let project = "default".to_owned();
    [reply(call, Ok(agents::Reply::Listed { project, agents }.into()))]
}

#[test]
fn who_does_something_is_active_for_a_while_and_idle_as_long_as_it_is_there() {
    let mut relay = Relay::told_within(ROOMY);
    relay.engine = Engine::new(START, Roster::default(), ROOMY, [0; 16]);
    relay.open(A, Carrier::Stream, None);
    relay.open(B, Carrier::Stream, None);
    let at = |relay: &mut Relay, ms| relay.now = START.plus_millis(ms);
    let (pm, dev_a, dev_b) = ("pm", "dev-a", "dev-b");
    let unseen = [dev_a, dev_b, pm].map(|agent| (agent, None, Status::Offline));
    assert_eq!(relay.call(A, 1, list(None, false)), listed(1, &unseen));
    at(&mut relay, 10);
    relay.call(A, 2, post(Some("pm"), "dev-b", ""));
    at(&mut relay, 20);
    relay.call(A, 3, read("dev-a"));
    at(&mut relay, 30);
    let seen = [
        (dev_a, Some(20), Status::Active),
        (dev_b, None, Status::Offline),
        (pm, Some(10), Status::Active),
    ];
    assert_eq!(relay.call(A, 4, list(None, false)), listed(4, &seen));
    let there = [seen[0], seen[2]];
    assert_eq!(relay.call(A, 5, list(Some(""), true)), listed(5, &there));
    at(&mut relay, 9 + ACTIVE_MS);
    assert_eq!(relay.call(A, 6, list(None, false)), listed(6, &seen));
    at(&mut relay, 10 + ACTIVE_MS);
    let pm_is_idle = [seen[0], seen[1], (pm, Some(10), Status::Idle)];
    assert_eq!(relay.call(A, 7, list(None, false)), listed(7, &pm_is_idle));
    let refused = relay.call(A, 8, post(Some("pm"), "nobody", ""));
    assert_eq!(refused.len(), 1);
    assert_eq!(
        relay.call(A, 9, list(None, false)),
        listed(9, &pm_is_idle),
        "not by a refusal"
    );
    assert_eq!(
        relay.call(A, 10, list_of(Which::Present)),
        listed(10, &[seen[0], pm_is_idle[2]])
    );
    assert_eq!(relay.call(A, 11, list_of(Which::Active)), listed(11, &[seen[0]]));
    relay.call(A, 12, look("pm"));
    let pm_is_back = [seen[0], seen[1], (pm, Some(10 + ACTIVE_MS), Status::Active)];
    assert_eq!(relay.call(A, 13, list(None, false)), listed(13, &pm_is_back));
    at(&mut relay, 10 + 2 * ACTIVE_MS);
    relay.close(A, Ending::Orderly);
    assert_eq!(
        relay.call(B, 14, list_of(Which::Present)),
        listed(14, &[]),
        "the session that spoke for them has ended"
    );
}

#[test]
fn who_has_left_is_offline_once_what_is_open_besides_has_ended_unless_that_has_done_something() {
    for acts in [false, true] {
        let mut relay = Relay::told();
        let (bridge, connection) = (SessionId(12), SessionId(13));
        relay.register(bridge, registration("bob", Some(1)));
        relay.open(connection, Carrier::Exchange, Some("bob"));
        let is_there = |relay: &mut Relay, call| {
            let effects = relay.call(A, call, list_of(Which::Present));
            let mut there = listed_in(&effects).iter();
            there.any(|view| view.name == name("bob") && view.status == Status::Active)
        };
        relay.close(bridge, Ending::Broken);
        assert!(is_there(&mut relay, 1));
        if acts {
            relay.call(connection, 2, look("bob"));
        }
        relay.close(connection, Ending::Orderly);
        assert_eq!(is_there(&mut relay, 3), acts);
    }
}

#[test]
fn an_agent_whose_last_session_has_ended_is_offline_at_once() {
    let mut relay = Relay::told_within(ROOMY);
    relay.engine = Engine::new(START, Roster::default(), ROOMY, [0; 16]);
    relay.open(A, Carrier::Stream, None);
    let views = |relay: &mut Relay, call| {
        let effects = relay.call(A, call, list_of(Which::Present));
        let views = listed_in(&effects).iter();
        let views = views.map(|view| (view.name.to_string(), view.status));
        views.collect::<Vec<_>>()
    };
    let (stream, process, connection) = (SessionId(11), SessionId(12), SessionId(13));
    relay.open(stream, Carrier::Stream, Some("pm"));
    relay.call(stream, 1, look("pm"));
    relay.register(process, registration("bob", Some(1)));
    relay.open(connection, Carrier::Exchange, Some("dev-a"));
    relay.call(connection, 2, look("dev-a"));
    let active = |names: &[&str]| -> Vec<(String, Status)> {
        let names = names.iter();
        names.map(|name| ((*name).to_owned(), Status::Active)).collect()
    };
    assert_eq!(views(&mut relay, 3), active(&["bob", "dev-a", "pm"]));
    relay.close(stream, Ending::Orderly);
    assert_eq!(views(&mut relay, 4), active(&["bob", "dev-a"]));
    relay.close(process, Ending::Broken);
    assert_eq!(views(&mut relay, 5), active(&["dev-a"]));
    relay.close(connection, Ending::Orderly);
    assert_eq!(
        views(&mut relay, 6),
        active(&["dev-a"]),
        "its client may have a connection for each call"
    );
    relay.register(SessionId(14), registration("bob", Some(1)));
    assert_eq!(views(&mut relay, 7), active(&["bob", "dev-a"]), "it is back");
    relay.close(SessionId(14), Ending::Orderly);
    relay.open(connection, Carrier::Exchange, Some("bob"));
    relay.call(connection, 8, look("bob"));
    relay.close(connection, Ending::Orderly);
    assert_eq!(
        views(&mut relay, 9),
        active(&["bob", "dev-a"]),
        "this connection was none of its process"
    );
}

#[test]
fn who_was_spoken_for_by_a_stream_that_was_bound_to_nobody_is_offline_with_it() {
    let mut relay = Relay::told_within(ROOMY);
    let [stream, looker, own] = [11, 12, 13].map(SessionId);
    relay.open(stream, Carrier::Stream, None);
    relay.open(looker, Carrier::Stream, None);
    relay.open(own, Carrier::Stream, Some("dev-a"));
    let view = |relay: &mut Relay, call| {
        let effects = relay.call(looker, call, list(None, false));
        let views = listed_in(&effects).iter();
        views.map(|view| view.status).collect::<Vec<_>>()
    };
    relay.call(stream, 1, wait("pm", 200_000));
    relay.call(stream, 2, look("dev-a"));
    assert_eq!(view(&mut relay, 3), [Status::Active; 3]);
    let watch = watches::Command::Watch(watches::Watched::Agents);
    relay.call(looker, 4, watch.into());
    let effects = relay.close(stream, Ending::Broken);
    let changed = Effect::Changed {
        session: looker,
        what: watches::Watched::Agents,
    };
    assert_eq!(effects, [changed]);
    let others = [Status::Active, Status::Active, Status::Offline];
    assert_eq!(view(&mut relay, 5), others, "dev-a has another session");
}

#[test]
fn who_looks_around_gives_a_sign_of_life() {
    let mut relay = Relay::told();
    relay.open(SessionId(11), Carrier::Stream, Some("pm"));
    relay.now = START.plus_millis(2 * ACTIVE_MS);
    assert_eq!(
        relay.call(SessionId(11), 1, list_of(Which::Active)),
        listed(1, &[("pm", Some(2 * ACTIVE_MS), Status::Active)])
    );
}

#[test]
fn who_waits_is_active_for_as_long_as_it_waits() {
    let mut relay = Relay::told();
    relay.call(A, 1, wait("dev-a", 200_000));
    relay.now = START.plus_millis(199_999);
    assert_eq!(
        relay.call(B, 2, list(None, true)),
        listed(2, &[("dev-a", Some(199_999), Status::Active)])
    );
    relay.timeout_at(200_000);
    relay.now = START.plus_millis(200_000 + ACTIVE_MS - 1);
    assert_eq!(
        relay.call(B, 3, list(None, true)),
        listed(3, &[("dev-a", Some(200_000), Status::Active)])
    );
    relay.now = START.plus_millis(200_000 + ACTIVE_MS);
    assert_eq!(relay.call(B, 4, list(None, true)), listed(4, &[]));
}

#[test]
fn who_waits_is_active_for_a_while_after_its_wait_is_cancelled() {
    let mut relay = Relay::told();
    relay.call(A, 1, wait("dev-a", 200_000));
    relay.now = START.plus_millis(150_000);
    relay.cancelled(1);
    assert_eq!(
        relay.call(B, 2, list(None, true)),
        listed(2, &[("dev-a", Some(150_000), Status::Active)])
    );
}

#[test]
fn an_agent_is_not_active_because_the_person_waits_in_its_stead() {
    let mut relay = Relay::told();
    let person = SessionId(7);
    relay.open_for_person(person);
    relay.call(person, 1, wait("dev-a", 200_000));
    relay.now = START.plus_millis(ACTIVE_MS);
    assert_eq!(relay.call(B, 2, list(None, true)), listed(2, &[]));
    relay.call(A, 3, wait("dev-a", 200_000));
    assert_eq!(
        relay.call(B, 4, list(None, true)),
        listed(4, &[("dev-a", Some(ACTIVE_MS), Status::Active)])
    );
}

#[test]
fn a_client_that_looks_for_itself_does_not_make_its_agent_active() {
    let mut relay = Relay::after_sessions_of(ROOMY, &[]);
    relay.open(OLD, Carrier::Stream, Some("pm"));
    relay.open(A, Carrier::Stream, None);
    let looks: [Command; 3] = [agents::Command::WhoAmI.into(), list(None, true), look("pm")];
    for (call, command) in (1..).zip(looks) {
        relay.call(OLD, call, Command::Resource(Box::new(command)));
    }
    assert_eq!(
        relay.call(A, 4, list_of(Which::Present)),
        listed(4, &[("pm", None, Status::Idle)])
    );
    relay.call(OLD, 5, agents::Command::WhoAmI.into());
    assert_eq!(
        relay.call(A, 6, list_of(Which::Present)),
        listed(6, &[("pm", Some(0), Status::Active)])
    );
}

/// Its bridge, say, has begun anew meanwhile, and the wait of a connection before ends.
#[test]
fn one_that_has_waited_is_active_though_its_last_session_has_ended() {
    let mut relay = Relay::after_sessions_of(ROOMY, &[]);
    for session in [A, B] {
        relay.open(session, Carrier::Stream, None);
    }
    relay.open(OLD, Carrier::Stream, Some("pm"));
    relay.call(A, 1, wait("pm", 1_000));
    relay.close(OLD, Ending::Orderly);
    relay.timeout_at(1_000);
    assert_eq!(
        relay.call(B, 2, list(None, true)),
        listed(2, &[("pm", Some(1_000), Status::Active)])
    );
}

#[test]
fn a_list_has_the_agents_of_one_project_or_of_all() {
    let mut relay = Relay::told();
    relay.register(OLD, registration("web:ui", None));
    let view = |agent: &str| AgentView {
        name: name(agent),
        profile: Profile::default(),
        last_contact: None,
        status: Status::Offline,
    };
    // The roster's have read.
    let seen = |agent: &str| AgentView {
        last_contact: Some(START),
        status: Status::Active,
        ..view(agent)
    };
    let here = ["dev-a", "dev-b", "pm"].map(seen);
    // It has registered.
    let there = [seen("web:ui")];
    let all: Vec<AgentView> = here.iter().chain(&there).cloned().collect();
    let listed = |call, project: &str, agents: &[AgentView]| {
        let (project, agents) = (project.to_owned(), agents.to_vec());
        [reply(call, Ok(agents::Reply::Listed { project, agents }.into()))]
    };
    assert_eq!(relay.call(A, 1, list(None, false)), listed(1, "default", &here));
    assert_eq!(
        relay.call(A, 2, list(Some("web"), false)),
        listed(2, "default", &there)
    );
    assert_eq!(
        relay.call(A, 3, list(Some("*"), false)),
        listed(3, "default", &all)
    );
    assert_eq!(
        relay.call(A, 4, list(Some("nowhere"), false)),
        listed(4, "default", &[])
    );
    assert_eq!(relay.call(OLD, 5, list(None, false)), listed(5, "web", &there));
    let found = |call, found: Option<&AgentView>| {
        let found = found.cloned().map(Box::new);
        [reply(call, Ok(agents::Reply::Found(found).into()))]
    };
    let find = |agent: &str| agents::Command::Find { agent: name(agent) }.into();
    assert_eq!(relay.call(A, 10, find("web:ui")), found(10, Some(&there[0])));
    assert_eq!(relay.call(A, 11, find("pm")), found(11, Some(&here[2])));
    assert_eq!(relay.call(A, 12, find("ui")), found(12, None));
    assert_eq!(
        relay.call(OLD, 6, list(Some("default"), false)),
        listed(6, "web", &here)
    );
    let (noun, bad) = ("project", "no name".to_owned());
    let refusal = agents::Refusal::InvalidName(InvalidName::Form { noun, name: bad });
    let bad = relay.call(A, 7, list(Some("no name"), false));
    assert_eq!(bad, [refused(7, refusal.into())]);
}

#[test]
fn a_session_may_ask_who_it_is_and_where_the_relay_is() {
    let engine = Engine::new(START, Roster::default(), ROOMY, [0; 16]);
    let engine = engine.reached_at("http://127.0.0.1:7331".to_owned());
    let mut relay = Relay::of(engine.after_sessions_of(Some(BTreeSet::new())));
    relay.open(A, Carrier::Stream, None);
    relay.register(OLD, registration("web:ui", None));
    relay.now = START.plus_millis(5);
    for (call, session, agent) in [(1, A, None), (2, OLD, Some("web:ui"))] {
        let you = agents::Reply::You {
            agent: agent.map(name),
            place: "http://127.0.0.1:7331".to_owned(),
            started_at: START,
            now: START.plus_millis(5),
        };
        let asked = relay.call(session, call, agents::Command::WhoAmI.into());
        assert_eq!(asked, [reply(call, Ok(you.into()))]);
    }
}

/// A relay where the transient agent `temp` has a session, and knows that the relay started.
fn with_temp() -> Relay {
    let mut relay = Relay::told();
    let registered = Registration {
        transient: true,
        ..of_role("helper", registration("temp", Some(1)))
    };
    relay.register(OLD, registered);
    relay.call(OLD, 900, read("temp"));
    relay.passed(900);
    relay.call(OLD, 901, look("temp"));
    relay.settle();
    relay.now = START;
    relay.events();
    relay
}

/// Lets that many milliseconds have passed since the start, and lets something happen.
fn after(relay: &mut Relay, ms: i64) -> Vec<String> {
    relay.now = START.plus_millis(ms);
    relay.call(A, 3_000, look("pm"));
    others(relay)
}

#[test]
fn a_transient_agent_goes_a_while_after_its_last_session() {
    let mut relay = with_temp();
    let beside = Registration {
        transient: true,
        ..registration("temp", None)
    };
    relay.register(NEW, beside);
    assert_eq!(after(&mut relay, TRANSIENT_MS * 2), ["temp"]);
    relay.close(OLD, Ending::Broken);
    assert_eq!(
        after(&mut relay, TRANSIENT_MS * 4),
        ["temp"],
        "it has another session"
    );
    relay.now = START;
    let mut relay = with_temp();
    relay.close(OLD, Ending::Orderly);
    assert_eq!(after(&mut relay, TRANSIENT_MS - 1), ["temp"]);
    relay.events();
    assert_eq!(after(&mut relay, TRANSIENT_MS), [""; 0]);
    assert_eq!(relay.events()[0], Event::Gone { agent: name("temp") });
    let posted = relay.call(A, 1, post(Some("pm"), "temp", ""));
    let unknown = agents::Refusal::UnknownAddress {
        name: "temp".to_owned(),
        known: Known::from(&Roster::default()),
    };
    assert_eq!(posted, [refused(1, unknown.into())]);
    let by_role = relay.call(A, 2, post(Some("pm"), "@helper", ""));
    assert!(matches!(by_role[..], [Effect::Reply { result: Err(_), .. }]));
    assert_eq!(
        relay.register(NEW, registration("temp", None)),
        [opened(NEW, "temp")],
        "its name is free, and nobody's instance is later"
    );
}

#[test]
fn a_transient_agent_that_is_registered_to_stay_stays() {
    let mut relay = with_temp();
    relay.register(NEW, registration("temp", Some(2)));
    for session in [OLD, NEW] {
        relay.close(session, Ending::Orderly);
    }
    assert_eq!(after(&mut relay, TRANSIENT_MS * 2), ["temp"]);
}

#[test]
fn a_transient_agent_comes_back_by_a_new_session() {
    let mut relay = with_temp();
    relay.close(OLD, Ending::Orderly);
    relay.now = START.plus_millis(TRANSIENT_MS - 1);
    let again = Registration {
        transient: true,
        ..registration("temp", Some(1))
    };
    assert_eq!(relay.register(NEW, again), [opened(NEW, "temp")]);
    assert_eq!(after(&mut relay, TRANSIENT_MS * 2), ["temp"]);
    relay.close(NEW, Ending::Orderly);
    assert_eq!(after(&mut relay, TRANSIENT_MS * 3 - 1), ["temp"]);
    assert_eq!(after(&mut relay, TRANSIENT_MS * 3), [""; 0]);
}

#[test]
fn a_transient_agent_stays_while_something_is_in_its_inbox_or_on_its_way() {
    let mut relay = with_temp();
    relay.post(A, 1, &message(1, 0, "pm", "temp"));
    relay.close(OLD, Ending::Orderly);
    assert_eq!(after(&mut relay, TRANSIENT_MS), ["temp"]);
    assert_eq!(
        relay.call(B, 2, read("temp")),
        [shown(2, [message(1, 0, "pm", "temp")])]
    );
    assert_eq!(
        after(&mut relay, TRANSIENT_MS * 2),
        ["temp"],
        "that may come back"
    );
    relay.passed(2);
    relay.call(B, 3, look("temp"));
    assert_eq!(after(&mut relay, TRANSIENT_MS * 3), [""; 0]);

    let mut relay = with_temp();
    relay.close(OLD, Ending::Orderly);
    relay.call(B, 4, wait("temp", 100_000));
    assert_eq!(after(&mut relay, TRANSIENT_MS), ["temp"], "somebody waits there");
    relay.cancelled(4);
    assert_eq!(after(&mut relay, TRANSIENT_MS * 2), [""; 0]);
}

#[test]
fn a_transient_agent_leaves_its_groups_and_channels() {
    let mut relay = with_temp();
    let pm = SessionId(8);
    relay.open(pm, Carrier::Stream, Some("pm"));
    let create = groups::Command::Create {
        name: "crew".to_owned(),
        description: String::new(),
    };
    relay.call(pm, 1, create.into());
    for (call, member) in [(2, "temp"), (3, "dev-a")] {
        let (group, member) = ("crew".to_owned(), groups::Named::Agent(member.to_owned()));
        relay.call(pm, call, groups::Command::Add { group, member }.into());
    }
    relay.call(OLD, 4, post(None, "#own", ""));
    relay.call(OLD, 5, post(None, "#shared", ""));
    relay.call(pm, 6, post(None, "#shared", ""));
    relay.call(OLD, 7, read("temp"));
    relay.passed(7);
    relay.call(OLD, 8, look("temp"));
    relay.close(OLD, Ending::Orderly);
    after(&mut relay, TRANSIENT_MS);
    relay.events();
    let posts = [(9, "@crew", vec![name("dev-a")]), (10, "#shared", Vec::new())];
    for (call, to, expected) in posts {
        relay.call(pm, call, post(None, to, ""));
        let events = relay.events();
        let Some(Event::Accepted { agents, .. }) = events.last() else {
            panic!("{events:?}");
        };
        assert_eq!(*agents, expected);
    }
    let channel = Some("own".to_owned());
    let read = mail::Command::Read {
        agent: None,
        options: Some(Box::new(mail::ReadOptions {
            channel,
            ..mail::ReadOptions::default()
        })),
        room: None,
        wait_ms: 0,
        second: mail::Second::Supersedes,
    };
    let unknown = groups::Refusal::UnknownChannel {
        name: "#own".to_owned(),
        known: ["#general", "#shared"].map(str::to_owned).to_vec(),
    };
    assert_eq!(relay.call(pm, 11, read.into()), [refused(11, unknown.into())]);
}

#[test]
fn a_transient_agent_without_a_session_gets_only_what_is_sent_to_itself() {
    let mut relay = with_temp();
    let went_to = |relay: &mut Relay, to: &str| {
        relay.events();
        relay.call(A, 2_000, post(Some("pm"), to, ""));
        relay.went_out().map(|(_, agents)| agents)
    };
    let (there, gone) = (names(&["dev-a", "dev-b", "temp"]), names(&["dev-a", "dev-b"]));
    relay.call(OLD, 1, post(None, "#own", ""));
    assert_eq!(went_to(&mut relay, "*"), Some(there.clone()));
    assert_eq!(went_to(&mut relay, "#own"), Some(names(&["temp"])));
    relay.close(OLD, Ending::Orderly);
    for to in ["*", "*:*", "#general"] {
        assert_eq!(went_to(&mut relay, to), Some(gone.clone()), "{to}");
    }
    assert_eq!(went_to(&mut relay, "#own"), Some(Vec::new()));
    assert_eq!(went_to(&mut relay, "@helper"), None, "nobody else has that role");
    assert_eq!(went_to(&mut relay, "temp"), Some(names(&["temp"])));
    let again = Registration {
        transient: true,
        ..registration("temp", Some(1))
    };
    relay.register(NEW, again);
    assert_eq!(went_to(&mut relay, "*"), Some(there));
}

#[test]
fn a_fenced_session_may_outlive_its_transient_agent() {
    let mut relay = with_temp();
    let later = Registration {
        transient: true,
        ..registration("temp", Some(2))
    };
    relay.register(NEW, later);
    relay.close(NEW, Ending::Orderly);
    assert_eq!(after(&mut relay, TRANSIENT_MS), [""; 0]);
    assert_eq!(relay.call(OLD, 1, read("temp")).len(), 1);
    assert_eq!(relay.close(OLD, Ending::Orderly), NONE);
    assert_eq!(relay.engine.status().sessions, 3);
}

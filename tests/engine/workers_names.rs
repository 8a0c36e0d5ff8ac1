//! Workers: which names they may have, how many there may be, and that nobody is called as the relay is.

use relay::engine::agents::Status;
use relay::engine::limits::{MODEL_BYTES_MAX, TASK_BYTES_MAX, WORKER_DEPTH_MAX};
use relay::engine::workers::{Asked, Command as Ask, Happened, Refusal as NotDone};
use relay::engine::{RELAY, RandomBytes, WorkerId};

use super::workers::*;
use super::*;

#[test]
fn a_worker_takes_no_name_of_somebody_else() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.register(OF_WORKER, registration("helper", None));
    for (call, taken) in (1..).zip(["dev-a", "helper", "pm"]) {
        let agent = name(taken);
        assert_eq!(
            relay.call(A, call, spawn("pm", taken)),
            [not_done(call, NotDone::NotAWorker { agent })]
        );
    }
    let given = "user".to_owned();
    assert_eq!(
        relay.call(A, 4, spawn("pm", "user")),
        [not_done(4, NotDone::ThePersons { given })]
    );
    let invalid = |name: &str| agents::Refusal::from(check(name));
    for (call, bad) in (5..).zip([RELAY, "-x", ""]) {
        assert_eq!(
            relay.call(A, call, spawn("pm", bad)),
            [refused(call, invalid(bad).into())]
        );
    }
}

fn check(name: &str) -> InvalidName {
    AgentName::new(name).expect_err("no name")
}

fn known(names: &[&str]) -> Known {
    Known {
        names: names.iter().copied().map(name).collect(),
        count: names.len(),
    }
}

#[test]
fn one_worker_of_a_name_lives_at_a_time() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    let lives = |is_ending| NotDone::Lives {
        agent: name("tester"),
        parent: name("pm"),
        is_ending,
    };
    for call in [2, 3] {
        assert_eq!(
            relay.call(B, call, spawn("dev-a", "tester")),
            [not_done(call, lives(false))]
        );
    }
    relay.happens(FIRST, relay::engine::workers::Happened::Started);
    relay.call(A, 4, release("pm", "tester"));
    assert_eq!(
        relay.call(B, 5, spawn("dev-a", "tester")),
        [not_done(5, lives(true))]
    );
    relay.happens(FIRST, exited(0, ""));
    assert_eq!(
        relay.call(B, 6, spawn("dev-a", "tester")),
        [start_again(SECOND, "tester", "dev-a")]
    );
}

#[test]
fn a_name_that_others_have_taken_since_its_worker_ended_is_no_worker_s() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.happens(FIRST, exited(0, ""));
    relay.register(OF_WORKER, registration("tester", Some(u128::MAX)));
    let agent = name("tester");
    assert_eq!(
        relay.call(A, 2, spawn("pm", "tester")),
        [not_done(2, NotDone::NotAWorker { agent })]
    );
    assert_eq!(relay.workers(), []);
}

#[test]
fn a_worker_is_a_new_generation_of_its_name() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    let own = uuid::Builder::from_unix_timestamp_millis(u64::try_from(START.as_millis()).unwrap(), &[1; 10]);
    let own = own.into_uuid().as_u128();
    relay.register(OF_WORKER, registration("tester", Some(own)));
    relay.call(OF_WORKER, 11, read("tester"));
    relay.passed(11);
    relay.call(OF_WORKER, 2, wait("tester", WAIT_MS));
    relay.happens(FIRST, exited(0, ""));
    // Its connection has not ended yet.
    relay.became();
    let effects = relay.call(A, 3, spawn("pm", "tester"));
    let agent = name("tester");
    let fenced = agents::Refusal::Fenced { agent };
    assert_eq!(
        effects,
        [
            refused(2, fenced.clone().into()),
            start_of(own + 1, SECOND, "tester", "pm")
        ]
    );
    assert_eq!(
        relay.call(OF_WORKER, 4, read("tester")),
        [refused(4, fenced.clone().into())]
    );
    // Nor does what its bridge begins anew.
    let late = SessionId(9);
    assert_eq!(
        relay.register(late, registration("tester", Some(own))),
        [not_admitted(late, fenced)]
    );
    relay.happens(SECOND, relay::engine::workers::Happened::Started);
    let later = SessionId(10);
    relay.register(later, registration("tester", Some(own + (1 << 80))));
    relay.became();
    relay.call(later, 5, read("tester"));
    assert_eq!(relay.became().len(), 1, "it is ready");
}

/// Its CLI has the address that it was given, and tells relay no instance of its own: only that one keeps it out.
#[test]
fn a_session_of_an_earlier_worker_is_refused_by_the_instance_that_it_was_started_with() {
    let mut relay = Relay::told_within(SPACIOUS);
    let mut instance = |call, before: Option<WorkerId>| {
        if let Some(before) = before {
            relay.happens(before, Happened::Started);
            relay.happens(before, exited(0, ""));
        }
        let effects = relay.call(A, call, spawn("pm", "tester"));
        let [Effect::StartWorker(start)] = effects.as_slice() else {
            unreachable!("{effects:?}");
        };
        Some(start.instance.as_u128())
    };
    let (first, second) = (instance(1, None), instance(2, Some(FIRST)));
    let agent = name("tester");
    assert_eq!(
        relay.register(OF_WORKER, registration("tester", first)),
        [not_admitted(OF_WORKER, agents::Refusal::Fenced { agent })]
    );
    let later = SessionId(9);
    assert_eq!(
        relay.register(later, registration("tester", second)),
        [opened(later, "tester")]
    );
}

#[test]
fn so_many_workers_live_and_so_deep() {
    let mut relay = Relay::told_within(SPACIOUS);
    let mut parent = "pm".to_owned();
    for depth in 1..=WORKER_DEPTH_MAX {
        let worker = format!("w{depth}");
        relay.call(B, depth as u64, spawn(&parent, &worker));
        parent = worker;
    }
    let workers = 3;
    assert_eq!(
        relay.call(A, 8, spawn("pm", "more")),
        [not_done(8, NotDone::TooMany { workers })]
    );
    relay.happens(FIRST, exited(0, ""));
    let depth = WORKER_DEPTH_MAX;
    assert_eq!(
        relay.call(B, 9, spawn(&parent, "deep")),
        [not_done(9, NotDone::TooDeep { depth })]
    );
    // Names that go round count all the same.
    assert_eq!(
        relay.call(B, 10, spawn("w2", "w1")),
        [start_again(WorkerId(4), "w1", "w2")]
    );
}

#[test]
fn a_relay_that_starts_no_workers_says_so() {
    let mut relay = Relay::told_within(Bounds {
        workers_max: 0,
        ..SPACIOUS
    });
    let effects = relay.call(A, 1, spawn("pm", "tester"));
    assert_eq!(effects, [not_done(1, NotDone::Off)]);
    assert_eq!(Refusal::from(NotDone::Off).class(), Class::Unsupported);
}

#[test]
fn what_a_worker_is_to_be_is_said_in_so_many_lines_of_so_many_bytes() {
    let mut relay = Relay::told_within(SPACIOUS);
    let plain = || asked(Some("pm"), "tester");
    let long = |what, bytes, max| NotDone::TooLong { what, bytes, max };
    let line = |what, given: &str| NotDone::NotALine {
        what,
        given: given.to_owned(),
    };
    let cases = [
        (
            Asked {
                task: " \n".to_owned(),
                ..plain()
            },
            NotDone::Empty { what: "task" },
        ),
        (
            Asked {
                task: "x".repeat(TASK_BYTES_MAX + 1),
                ..plain()
            },
            long("task", TASK_BYTES_MAX + 1, TASK_BYTES_MAX),
        ),
        (
            Asked {
                cli: String::new(),
                ..plain()
            },
            NotDone::Empty { what: "cli" },
        ),
        (
            Asked {
                model: Some("m".repeat(MODEL_BYTES_MAX + 1)),
                ..plain()
            },
            long("model", MODEL_BYTES_MAX + 1, MODEL_BYTES_MAX),
        ),
        (
            Asked {
                cwd: Some("/a\nb".to_owned()),
                ..plain()
            },
            line("cwd", "/a\nb"),
        ),
    ];
    for (call, (asked, refusal)) in (1..).zip(cases) {
        let effects = relay.call(A, call, Ask::Spawn(Box::new(asked)).into());
        assert_eq!(effects, [not_done(call, refusal)]);
    }
    // What a model gives empty is not given.
    let empty = Asked {
        model: Some(String::new()),
        cwd: Some(String::new()),
        ..plain()
    };
    assert_eq!(
        relay.call(A, 9, Ask::Spawn(Box::new(empty)).into()),
        [start(FIRST, "tester", "pm")]
    );
}

#[test]
fn a_worker_is_of_its_parent_s_project_unless_the_person_says_otherwise() {
    let mut relay = Relay::told_within(SPACIOUS);
    let other = NotDone::OtherProject {
        given: "web:tester".to_owned(),
        own: DEFAULT_PROJECT.to_owned(),
    };
    assert_eq!(relay.call(A, 1, spawn("pm", "web:tester")), [not_done(1, other)]);
    relay.open_for_person(PERSONS);
    let command = Ask::Spawn(Box::new(asked(None, "web:tester")));
    assert_eq!(
        relay.call(PERSONS, 2, command.into()),
        [start(FIRST, "web:tester", "user")]
    );
    // An agent sees those of its own project.
    assert_eq!(relay.workers().len(), 1);
    let none = relay.call(A, 3, Ask::List.into());
    let listed = relay::engine::workers::Reply::Listed(Vec::new());
    assert_eq!(none, [reply(3, Ok(listed.into()))]);
}

#[test]
fn nobody_is_called_as_the_relay_is_and_nothing_is_sent_to_it() {
    let mut relay = Relay::told_within(SPACIOUS);
    let relays = |noun| agents::Refusal::InvalidName(InvalidName::Relays { noun });
    let refused_to_open = relay.register(OF_WORKER, registration(RELAY, None));
    assert_eq!(refused_to_open, [not_admitted(OF_WORKER, relays("role"))]);
    assert_eq!(
        relay.call(A, 1, post(Some("pm"), RELAY, "hello")),
        [refused(1, relays("role").into())]
    );
    let unknown = agents::Refusal::Unknown {
        name: RELAY.to_owned(),
        known: known(&["pm", "dev-a", "dev-b"]),
    };
    assert_eq!(
        relay.call(A, 2, post(Some(RELAY), "pm", "hello")),
        [refused(2, unknown.into())]
    );
    // A project may be.
    let agent = "relay:tester";
    assert_eq!(
        relay.register(OF_WORKER, registration(agent, None)),
        [opened(OF_WORKER, agent)]
    );
    assert_eq!(AgentName::relay().seen_from("web"), RELAY);
}

#[test]
fn a_worker_that_has_not_spoken_counts_as_never_there_and_is_not_active() {
    let mut relay = Relay::told_within(SPACIOUS);
    let status = |relay: &mut Relay, call: u64| {
        let agent = name("tester");
        let effects = relay.call(A, call, agents::Command::Find { agent }.into());
        let [
            Effect::Reply {
                result: Ok(Reply::Agents(agents::Reply::Found(Some(found)))),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}");
        };
        (found.status, found.last_contact)
    };
    let note = |relay: &mut Relay, call: u64| {
        let effects = relay.call(A, call, post(Some("pm"), "tester", "there?"));
        let [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Posted { absence, .. })),
                ..
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}");
        };
        absence.clone()
    };
    relay.has_worker(1, FIRST, "tester");
    assert_eq!(status(&mut relay, 2), (Status::Idle, None));
    assert!(note(&mut relay, 3).is_some());
    relay.open(OF_WORKER, Carrier::Stream, Some("tester"));
    relay.call(OF_WORKER, 4, look("tester"));
    assert_eq!(status(&mut relay, 5), (Status::Active, Some(START)));
    assert_eq!(note(&mut relay, 6), None);
    relay.close(OF_WORKER, Ending::Orderly);
    relay.happens(FIRST, exited(1, ""));
    assert_eq!(status(&mut relay, 9), (Status::Offline, Some(START)));
    relay.has_worker(7, SECOND, "tester");
    assert_eq!(
        status(&mut relay, 8),
        (Status::Idle, None),
        "what the one before did is not its own"
    );
}

#[test]
fn what_a_worker_was_started_with_is_what_is_known_of_its_agent() {
    let mut relay = Relay::told_within(SPACIOUS);
    let asked = Asked {
        cwd: Some("/tmp/tests".to_owned()),
        ..asked(Some("pm"), "tester")
    };
    relay.call(A, 1, Ask::Spawn(Box::new(asked)).into());
    let effects = relay.call(A, 2, list(None, false));
    let [
        Effect::Reply {
            result: Ok(Reply::Agents(agents::Reply::Listed { agents, .. })),
            ..
        },
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    let tester = agents.iter().find(|agent| agent.name == name("tester"));
    let profile = agents::Profile {
        cli: Some("claude".to_owned()),
        parent: Some("pm".to_owned()),
        cwd: Some("/tmp/tests".to_owned()),
        ..agents::Profile::default()
    };
    assert_eq!(tester.map(|agent| agent.profile.clone()), Some(profile));
}

#[test]
fn what_relay_says_of_a_worker_has_an_id_of_its_own_whatever_was_drawn() {
    for drawn in [[0; 16], [0xff; 16]] {
        let ids = ids_of_news(drawn);
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1]);
    }
}

/// Has relay say two things of one worker, for which that was drawn, and returns the ids of the messages.
fn ids_of_news(drawn: RandomBytes) -> Vec<MessageId> {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 4,
        ..SPACIOUS
    });
    relay.handle(Input::Call {
        session: A,
        call: CallId(1),
        random: drawn,
        command: spawn("pm", "tester"),
    });
    relay.happens(FIRST, Happened::Started);
    for call in 2..6 {
        relay.call(B, call, post(Some("dev-a"), "tester", "one of four"));
    }
    relay.call(A, 6, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    // There was room for three, and now there is for the fourth.
    relay.call(A, 7, read("pm"));
    relay.passed(7);
    relay.call(A, 8, look("pm"));
    relay.settle();
    let events = relay.events().into_iter();
    events
        .filter_map(|event| {
            let Event::Accepted { message, .. } = event else {
                return None;
            };
            (message.from == AgentName::relay()).then_some(message.id)
        })
        .collect()
}

#[test]
fn a_worker_that_lives_is_shown_with_the_rest_and_no_other() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    let living = relay.engine.overview().workers;
    let agents: Vec<AgentName> = living.into_iter().map(|worker| worker.agent).collect();
    assert_eq!(agents, [name("tester")]);
    relay.happens(FIRST, exited(0, ""));
    assert_eq!(relay.engine.overview().workers, []);
}

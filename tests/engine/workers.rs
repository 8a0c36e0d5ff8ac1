//! Workers: how they are asked for, start, speak, and what their parents are told.

use relay::engine::limits::{
    LAST_LINES_BYTES_MAX, LAST_LINES_MAX, REASON_BYTES_MAX, WORKER_SILENT_MS, WORKER_START_MS,
};
use relay::engine::workers::{
    Asked, Became, Command as Ask, ExitStatus, Happened, Refusal as NotDone, Reply as Answer, Start,
    WorkerState,
};
use relay::engine::{RELAY, WorkerId};

use super::*;

/// Room for what is said of workers.
pub const SPACIOUS: Bounds = Bounds {
    body_bytes_max: 10_000,
    inbox_bytes_max: 100_000,
    ..ROOMY
};

/// The first worker of a relay.
pub const FIRST: WorkerId = WorkerId(1);
pub const SECOND: WorkerId = WorkerId(2);

/// A session that speaks for the first worker.
pub const OF_WORKER: SessionId = SessionId(7);

/// The person's session.
pub const PERSONS: SessionId = SessionId(8);

pub fn asked(from: Option<&str>, worker: &str) -> Asked {
    Asked {
        from: from.map(str::to_owned),
        name: worker.to_owned(),
        cli: "claude".to_owned(),
        task: "run the tests".to_owned(),
        ..Asked::default()
    }
}

pub fn spawn(from: &str, worker: &str) -> Command {
    Ask::Spawn(Box::new(asked(Some(from), worker))).into()
}

pub fn release(from: &str, worker: &str) -> Command {
    let (from, name) = (Some(from.to_owned()), worker.to_owned());
    let reason = None;
    Ask::Release { from, name, reason }.into()
}

/// The instance of the first worker of a name, of a relay that has just started.
pub fn first_instance() -> u128 {
    let millis = u64::try_from(START.as_millis()).expect("it is past");
    let instance = uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]);
    instance.into_uuid().as_u128()
}

/// What is wanted for the first worker of a name.
pub fn start(worker: WorkerId, agent: &str, parent: &str) -> Effect {
    start_of(first_instance(), worker, agent, parent)
}

/// What is wanted for the next one, in the same moment.
pub fn start_again(worker: WorkerId, agent: &str, parent: &str) -> Effect {
    start_of(first_instance() + 1, worker, agent, parent)
}

pub fn start_of(instance: u128, worker: WorkerId, agent: &str, parent: &str) -> Effect {
    Effect::StartWorker(Box::new(Start {
        worker,
        agent: name(agent),
        instance: uuid::Uuid::from_u128(instance),
        parent: name(parent),
        cli: "claude".to_owned(),
        task: "run the tests".to_owned(),
        model: None,
        cwd: None,
        parent_cwd: None,
    }))
}

pub fn spawned(call: u64, worker: WorkerId, agent: &str, parent: &str) -> Effect {
    let (agent, parent) = (name(agent), name(parent));
    let answer = Answer::Spawned {
        agent,
        parent,
        worker,
    };
    reply(call, Ok(answer.into()))
}

pub fn released(call: u64, worker: WorkerId, agent: &str, parent: &str) -> Effect {
    let (agent, parent) = (name(agent), name(parent));
    let answer = Answer::Released {
        agent,
        parent,
        worker,
    };
    reply(call, Ok(answer.into()))
}

pub fn failed(call: u64, reason: &str) -> Effect {
    let reason = reason.to_owned();
    not_done(call, NotDone::Failed { reason })
}

pub fn not_done(call: u64, refusal: NotDone) -> Effect {
    reply(call, Err(refusal.into()))
}

pub fn exited(code: i32, last_lines: &str) -> Happened {
    Happened::Exited {
        status: ExitStatus::Code(code),
        last_lines: last_lines.to_owned(),
    }
}

impl Relay {
    pub fn happens(&mut self, worker: WorkerId, happened: Happened) -> Vec<Effect> {
        self.handle(Input::Worker { worker, happened })
    }

    /// Has pm start a worker, which runs, and may have had others before it.
    pub fn has_worker(&mut self, call: u64, worker: WorkerId, agent: &str) {
        let asked = self.call(A, call, spawn("pm", agent));
        let instance = asked.iter().find_map(|effect| {
            let Effect::StartWorker(start) = effect else {
                return None;
            };
            Some(start.instance.as_u128())
        });
        let instance = instance.expect("it is started");
        assert_eq!(asked, [start_of(instance, worker, agent, "pm")]);
        let runs = self.happens(worker, Happened::Started);
        assert_eq!(runs, [spawned(call, worker, agent, "pm")]);
    }

    /// What waits in an inbox, as who sent it and what it says.
    pub fn waits_for(&mut self, agent: &str) -> Vec<(String, String)> {
        self.open_for_person(SessionId(99));
        let (agent, limit) = (Some(agent.to_owned()), None);
        let seen = self.call(SessionId(99), 9_999, mail::Command::Peek { agent, limit }.into());
        self.close(SessionId(99), Ending::Orderly);
        let [
            Effect::Reply {
                result: Ok(Reply::Mail(mail::Reply::Seen { deliveries, .. })),
                ..
            },
        ] = &seen[..]
        else {
            panic!("{seen:?}");
        };
        let said = |delivery: &Delivery| {
            let message = &delivery.message;
            (message.from.to_string(), message.body.clone())
        };
        deliveries.iter().map(said).collect()
    }

    /// What has become of workers since the last time.
    pub fn became(&mut self) -> Vec<(WorkerId, Became, bool)> {
        let events = self.events().into_iter();
        let of_workers = events.filter_map(|event| {
            let Event::Worker(transition) = event else {
                return None;
            };
            Some((transition.worker, transition.became, transition.told))
        });
        of_workers.collect()
    }

    /// The workers that the person sees.
    pub fn workers(&mut self) -> Vec<(String, String, WorkerState)> {
        self.open_for_person(SessionId(99));
        let listed = self.call(SessionId(99), 9_998, Ask::List.into());
        self.close(SessionId(99), Ending::Orderly);
        let [
            Effect::Reply {
                result: Ok(Reply::Workers(Answer::Listed(workers))),
                ..
            },
        ] = &listed[..]
        else {
            panic!("{listed:?}");
        };
        let view = workers.iter().map(|worker| {
            let (agent, parent) = (worker.agent.to_string(), worker.parent.to_string());
            (agent, parent, worker.state.clone())
        });
        view.collect()
    }
}

pub fn from_relay(body: &str) -> (String, String) {
    (RELAY.to_owned(), body.to_owned())
}

#[test]
fn a_worker_is_started_and_its_parent_is_answered_once_it_runs() {
    let mut relay = Relay::told_within(SPACIOUS);
    let with_all = Asked {
        model: Some("small".to_owned()),
        cwd: Some("/work tree".to_owned()),
        ..asked(Some("pm"), "tester")
    };
    let effects = relay.call(A, 1, Ask::Spawn(Box::new(with_all)).into());
    let Effect::StartWorker(expected) = start(FIRST, "tester", "pm") else {
        unreachable!()
    };
    let expected = Start {
        model: Some("small".to_owned()),
        cwd: Some("/work tree".to_owned()),
        ..*expected
    };
    assert_eq!(effects, [Effect::StartWorker(Box::new(expected))]);
    let cli = "claude".to_owned();
    assert_eq!(relay.became(), [(FIRST, Became::Asked { cli }, false)]);
    let starting = ("tester".to_owned(), "pm".to_owned(), WorkerState::Starting);
    assert_eq!(relay.workers(), [starting]);

    assert_eq!(
        relay.happens(FIRST, Happened::Started),
        [spawned(1, FIRST, "tester", "pm")]
    );
    assert_eq!(relay.became(), [(FIRST, Became::Started, false)]);
    // Said twice it is true once.
    assert_eq!(relay.happens(FIRST, Happened::Started), []);
    assert_eq!(relay.became(), []);
}

#[test]
fn a_worker_is_ready_when_it_first_speaks_and_its_parent_is_told_once() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.became();
    relay.open(OF_WORKER, Carrier::Stream, Some("tester"));
    assert_eq!(relay.became(), [], "to be connected is not to speak");
    relay.call(OF_WORKER, 2, agents::Command::WhoAmI.into());
    assert_eq!(relay.became(), [(FIRST, Became::Ready, true)]);
    assert_eq!(relay.waits_for("pm"), [from_relay("Worker \"tester\" is ready.")]);
    relay.call(OF_WORKER, 3, agents::Command::WhoAmI.into());
    assert_eq!(relay.became(), []);
    // Nobody is told that it is silent.
    assert_eq!(relay.timeout_at(WORKER_SILENT_MS), []);
    assert_eq!(relay.became(), []);
}

#[test]
fn a_worker_that_shares_a_session_is_ready_when_somebody_speaks_for_it() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.became();
    relay.call(B, 2, read("tester"));
    assert_eq!(relay.became(), [(FIRST, Became::Ready, true)]);
}

#[test]
fn a_worker_that_speaks_before_it_is_said_to_run_is_ready_then() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.became();
    relay.call(B, 2, read("tester"));
    assert_eq!(relay.became(), []);
    relay.happens(FIRST, Happened::Started);
    assert_eq!(
        relay.became(),
        [(FIRST, Became::Started, false), (FIRST, Became::Ready, true)]
    );
}

#[test]
fn a_worker_that_has_spoken_and_ends_before_it_is_said_to_run_has_started_and_ended() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.became();
    relay.call(B, 2, read("tester"));
    assert_eq!(
        relay.happens(FIRST, exited(0, "bye")),
        [spawned(1, FIRST, "tester", "pm")]
    );
    let ended = Became::Exited {
        status: ExitStatus::Code(0),
        last_lines: "bye".to_owned(),
        expected: false,
    };
    assert_eq!(
        relay.became(),
        [
            (FIRST, Became::Started, false),
            (FIRST, Became::Ready, true),
            (FIRST, ended, true)
        ]
    );
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn a_worker_that_ends_without_a_word_before_it_is_said_to_run_has_not_started() {
    for (last_lines, reason) in [
        (
            "not logged in\nrun login first",
            "it has ended at once with exit code 3: not logged in / run login first",
        ),
        (
            "",
            "it has ended at once with exit code 3; it has written nothing",
        ),
    ] {
        let mut relay = Relay::told_within(SPACIOUS);
        relay.call(A, 1, spawn("pm", "tester"));
        relay.became();
        assert_eq!(relay.happens(FIRST, exited(3, last_lines)), [failed(1, reason)]);
        let reason = reason.to_owned();
        assert_eq!(relay.became(), [(FIRST, Became::Failed { reason }, false)]);
    }
}

#[test]
fn what_the_person_does_in_a_worker_s_stead_does_not_make_it_ready() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.became();
    relay.open_for_person(PERSONS);
    relay.call(PERSONS, 2, read("tester"));
    assert_eq!(relay.became(), []);
}

#[test]
fn the_parent_is_told_once_of_a_worker_that_says_nothing() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.became();
    assert_eq!(
        relay.engine.poll_timeout(),
        at(WORKER_SILENT_MS, Reason::WorkerSilent)
    );
    relay.timeout_at(WORKER_SILENT_MS);
    assert_eq!(relay.became(), [(FIRST, Became::Silent, true)]);
    let silent = "Worker \"tester\" was started 60 s ago and has not spoken to relay yet; a person sees what it shows by: relay logs tester";
    assert_eq!(relay.waits_for("pm"), [from_relay(silent)]);
    relay.timeout_at(2 * WORKER_SILENT_MS);
    assert_eq!(relay.became(), []);
    // Late is better than never.
    relay.call(B, 2, read("tester"));
    assert_eq!(relay.became(), [(FIRST, Became::Ready, true)]);
}

fn at(ms: i64, reason: Reason) -> Option<(Timestamp, Reason)> {
    Some((START.plus_millis(ms), reason))
}

#[test]
fn whoever_waits_for_a_worker_is_told_why_it_did_not_start() {
    let reason = "no claude in PATH".to_owned();
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.became();
    let happened = Happened::FailedToStart {
        reason: reason.clone(),
    };
    assert_eq!(relay.happens(FIRST, happened), [failed(1, &reason)]);
    let became = Became::Failed { reason };
    assert_eq!(relay.became(), [(FIRST, became, false)]);
    assert_eq!(relay.waits_for("pm"), []);
}

#[test]
fn nothing_stays_of_a_worker_that_has_never_run() {
    let failed = || Happened::FailedToStart {
        reason: "no claude".to_owned(),
    };
    for is_written_to in [false, true] {
        let mut relay = Relay::told_within(SPACIOUS);
        relay.call(A, 1, spawn("pm", "tester"));
        if is_written_to {
            relay.call(B, 2, post(Some("dev-b"), "tester", "welcome"));
            relay.call(B, 5, post(Some("dev-a"), "*", "to all"));
        }
        relay.happens(FIRST, failed());
        assert_eq!(relay.workers(), []);
        let unknown = relay.call(B, 3, post(Some("dev-b"), "tester", "are you there?"));
        assert!(
            matches!(&unknown[..], [Effect::Reply { result: Err(_), .. }]),
            "{unknown:?}"
        );
        // What it was sent, too, does not come once more.
        let handed_on = [
            "to all",
            "Worker \"tester\" did not start, and had not read 1 message(s), which follow.",
            "welcome",
        ];
        let bodies: Vec<String> = relay.waits_for("pm").into_iter().map(|(_, body)| body).collect();
        assert_eq!(bodies, if is_written_to { &handed_on[..] } else { &[] });
        // The name is free at once.
        assert_eq!(
            relay.call(A, 4, spawn("pm", "tester")),
            [start(SECOND, "tester", "pm")]
        );
    }
}

#[test]
fn a_worker_that_has_never_run_leaves_an_earlier_one_of_its_name_what_that_has() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-b"), "tester", "for the first"));
    relay.happens(FIRST, exited(0, ""));
    relay.call(B, 3, spawn("dev-b", "tester"));
    let reason = "not logged in".to_owned();
    relay.happens(SECOND, Happened::FailedToStart { reason });
    assert_eq!(
        relay.waits_for("tester"),
        [("dev-b".to_owned(), "for the first".to_owned())]
    );
    assert_eq!(relay.waits_for("dev-b"), []);
}

#[test]
fn the_parent_is_told_why_a_worker_did_not_start_that_nobody_waits_for_any_more() {
    let told = [from_relay("Worker \"tester\" has not started: no claude")];
    let happened = || Happened::FailedToStart {
        reason: "no\nclaude".to_owned(),
    };
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    assert_eq!(relay.cancelled(1), []);
    assert_eq!(relay.happens(FIRST, happened()), []);
    assert_eq!(relay.waits_for("pm"), told);

    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    assert_eq!(relay.close(A, Ending::Broken), []);
    assert_eq!(relay.happens(FIRST, happened()), []);
    assert_eq!(relay.waits_for("pm"), told);
}

#[test]
fn a_worker_whose_call_is_cancelled_goes_on() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.events();
    relay.cancelled(1);
    let ended = Event::WaitEnded {
        call: CallId(1),
        by: WaitEnd::Cancelled,
    };
    assert_eq!(relay.events(), [ended]);
    assert_eq!(relay.happens(FIRST, Happened::Started), []);
    relay.call(B, 2, read("tester"));
    assert_eq!(relay.waits_for("pm"), [from_relay("Worker \"tester\" is ready.")]);
}

#[test]
fn all_that_wait_for_workers_in_a_session_wait_no_more_once_it_is_closed() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.call(A, 2, spawn("pm", "other"));
    relay.events();
    relay.close(A, Ending::Broken);
    let ended = |call| Event::WaitEnded {
        call: CallId(call),
        by: WaitEnd::Cancelled,
    };
    let events = relay.events();
    assert!(
        [1, 2].iter().all(|call| events.contains(&ended(*call))),
        "{events:?}"
    );
    assert_eq!(relay.happens(FIRST, Happened::Started), []);
    assert_eq!(relay.happens(SECOND, Happened::Started), []);
}

#[test]
fn a_worker_has_so_long_to_start() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.became();
    assert_eq!(
        relay.engine.poll_timeout(),
        at(WORKER_START_MS, Reason::WorkerStarts)
    );
    let late = failed(1, "it has not started within 30 s");
    let end = Effect::EndWorker { worker: FIRST };
    assert_eq!(relay.timeout_at(WORKER_START_MS), [late, end]);
    assert_eq!(relay.became(), [(FIRST, Became::Late, false)]);
    // It has started meanwhile, and ends as it was told to: nobody is told of that.
    assert_eq!(relay.happens(FIRST, Happened::Started), []);
    assert_eq!(relay.happens(FIRST, exited(0, "")), []);
    let became = Became::Exited {
        status: ExitStatus::Code(0),
        last_lines: String::new(),
        expected: true,
    };
    assert_eq!(relay.became(), [(FIRST, became, false)]);
    assert_eq!(relay.waits_for("pm"), []);
}

#[test]
fn the_parent_is_told_how_a_worker_has_ended_with_its_last_lines() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.has_worker(2, SECOND, "other");
    assert_eq!(
        relay.happens(FIRST, exited(1, "thinking\n\u{1b}[31mno credit\u{1b}[0m\r\n")),
        []
    );
    let signal = Happened::Exited {
        status: ExitStatus::Signal(9),
        last_lines: String::new(),
    };
    assert_eq!(relay.happens(SECOND, signal), []);
    let told = [
        from_relay("Worker \"tester\" has ended (exit code 1). Its last lines:\nthinking\n[31mno credit[0m"),
        from_relay("Worker \"other\" has ended (signal 9). It wrote nothing."),
    ];
    assert_eq!(relay.waits_for("pm"), told);
}

#[test]
fn of_what_a_worker_wrote_the_last_lines_are_kept_and_of_a_reason_its_beginning() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.became();
    let lines: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
    relay.happens(FIRST, exited(0, &lines.join("\n")));
    let [(_, Became::Exited { last_lines, .. }, true)] = &relay.became()[..] else {
        panic!("it has exited");
    };
    assert_eq!(*last_lines, lines[100 - LAST_LINES_MAX..].join("\n"));

    relay.has_worker(2, SECOND, "tester");
    relay.became();
    relay.happens(SECOND, exited(0, &"é".repeat(LAST_LINES_BYTES_MAX)));
    let [(_, Became::Exited { last_lines, .. }, true)] = &relay.became()[..] else {
        panic!("it has exited");
    };
    assert_eq!(*last_lines, "é".repeat(LAST_LINES_BYTES_MAX / 2));

    // No part of a character is left of one that is cut.
    relay.has_worker(4, WorkerId(3), "tester");
    relay.became();
    relay.happens(
        WorkerId(3),
        exited(0, &format!("{}x", "é".repeat(LAST_LINES_BYTES_MAX))),
    );
    let [(_, Became::Exited { last_lines, .. }, true)] = &relay.became()[..] else {
        panic!("it has exited");
    };
    assert_eq!(
        *last_lines,
        format!("{}x", "é".repeat(LAST_LINES_BYTES_MAX / 2 - 1))
    );

    relay.call(A, 3, spawn("pm", "tester"));
    let reason = "é".repeat(REASON_BYTES_MAX);
    let effects = relay.happens(WorkerId(4), Happened::FailedToStart { reason });
    assert_eq!(effects, [failed(3, &"é".repeat(REASON_BYTES_MAX / 2))]);
}

#[test]
fn what_has_become_of_a_worker_is_seen_where_its_parent_has_no_room_for_it() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 1,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "pm", "full"));
    relay.became();
    relay.happens(FIRST, exited(0, "bye"));
    let became = Became::Exited {
        status: ExitStatus::Code(0),
        last_lines: "bye".to_owned(),
        expected: false,
    };
    assert_eq!(relay.became(), [(FIRST, became, false)]);
    assert_eq!(relay.waits_for("pm").len(), 1);
}

#[test]
fn what_is_longer_than_a_message_may_be_is_not_told() {
    let mut relay = Relay::told_within(Bounds {
        body_bytes_max: 100,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    relay.became();
    relay.happens(FIRST, exited(0, &"x".repeat(100)));
    let became = Became::Exited {
        status: ExitStatus::Code(0),
        last_lines: "x".repeat(100),
        expected: false,
    };
    assert_eq!(relay.became(), [(FIRST, became, false)]);
    assert_eq!(relay.waits_for("pm"), []);
}

#[test]
fn who_watches_the_agents_is_told_that_a_worker_has_ended() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    let what = watches::Watched::Agents;
    relay.call(A, 2, watches::Command::Watch(what).into());
    let session = A;
    assert_eq!(
        relay.happens(FIRST, exited(0, "")),
        [Effect::Changed { session, what }]
    );
}

#[test]
fn the_messages_of_a_relay_have_ids_of_their_own_and_say_what_they_are_about() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.events();
    relay.call(B, 2, read("tester"));
    let (ready, agents) = relay.went_out().expect("ready");
    relay.happens(FIRST, exited(0, ""));
    let (ended, _) = relay.went_out().expect("ended");
    assert_ne!(ready.id.to_string()[..8], ended.id.to_string()[..8]);
    assert_eq!(agents, [name("pm")]);
    let metadata = |message: &Message| message.context.clone().and_then(|context| context.metadata);
    let about = r#"{"worker":"tester","event":"ready"}"#.to_owned();
    assert_eq!(metadata(&ready), Some(about));
    assert_eq!((ready.kind, ready.from.as_str()), (Kind::Status, RELAY));
}

//! Workers: how they are released, and how they end with the relay.

use relay::engine::workers::{Became, Command as Ask, ExitStatus, Happened, Refusal as NotDone, WorkerState};
use relay::engine::{Abilities, WorkerId};

use super::workers::*;
use super::*;

const END: Effect = Effect::EndWorker { worker: FIRST };

fn ended(expected: bool) -> (WorkerId, Became, bool) {
    let became = Became::Exited {
        status: ExitStatus::Code(0),
        last_lines: String::new(),
        expected,
    };
    (FIRST, became, !expected)
}

#[test]
fn a_parent_releases_its_worker_and_is_answered_at_once() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.became();
    let command = Ask::Release {
        from: Some("pm".to_owned()),
        name: "tester".to_owned(),
        reason: Some("done".to_owned()),
    };
    let effects = relay.call(A, 2, command.into());
    assert_eq!(effects, [END, released(2, FIRST, "tester", "pm")]);
    let became = Became::Released {
        by: name("pm"),
        reason: Some("done".to_owned()),
    };
    assert_eq!(relay.became(), [(FIRST, became, false)]);
    // Again, while it ends.
    let effects = relay.call(A, 3, release("pm", "tester"));
    assert_eq!(effects, [released(3, FIRST, "tester", "pm")]);
    let ending = ("tester".to_owned(), "pm".to_owned(), WorkerState::Ending);
    assert_eq!(relay.workers(), [ending]);
    assert_eq!(relay.became(), []);
    // Its end is no news.
    assert_eq!(relay.happens(FIRST, exited(0, "")), []);
    assert_eq!(relay.became(), [ended(true)]);
    assert_eq!(relay.waits_for("pm"), []);
    let agent = name("tester");
    assert_eq!(
        relay.call(A, 4, release("pm", "tester")),
        [not_done(4, NotDone::Ended { agent })]
    );
}

#[test]
fn a_worker_that_is_released_before_it_has_started_is_answered_for_and_ends() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    let effects = relay.call(B, 2, release("pm", "tester"));
    let why = "it was released by pm before it had started";
    assert_eq!(effects, [END, failed(1, why), released(2, FIRST, "tester", "pm")]);
    assert_eq!(relay.happens(FIRST, Happened::Started), []);
    let reason = "ended".to_owned();
    assert_eq!(relay.happens(FIRST, Happened::FailedToStart { reason }), []);
    assert_eq!(relay.waits_for("pm"), []);
    assert_eq!(relay.engine.poll_timeout(), None);
}

#[test]
fn only_a_parent_who_is_above_it_or_the_person_releases_a_worker() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, spawn("tester", "helper"));
    relay.happens(SECOND, Happened::Started);
    let not_yours = |call, agent: &str, parent: &str| {
        let (agent, parent) = (name(agent), name(parent));
        [not_done(call, NotDone::NotYours { agent, parent })]
    };
    let by_other = relay.call(B, 3, release("dev-a", "tester"));
    assert_eq!(by_other, not_yours(3, "tester", "pm"));
    let by_itself = relay.call(B, 4, release("tester", "tester"));
    assert_eq!(by_itself, not_yours(4, "tester", "pm"));
    let by_child = relay.call(B, 5, release("helper", "tester"));
    assert_eq!(by_child, not_yours(5, "tester", "pm"));
    // The parent's parent may, and the parent is told.
    let end = Effect::EndWorker { worker: SECOND };
    let by_above = relay.call(A, 6, release("pm", "helper"));
    assert_eq!(by_above, [end, released(6, SECOND, "helper", "tester")]);
    assert_eq!(
        relay.waits_for("tester").last(),
        Some(&from_relay("Worker \"helper\" was released by pm"))
    );
    relay.open_for_person(PERSONS);
    let command = Ask::Release {
        from: None,
        name: "tester".to_owned(),
        reason: Some("too dear".to_owned()),
    };
    let by_person = relay.call(PERSONS, 7, command.into());
    assert_eq!(by_person, [END, released(7, FIRST, "tester", "pm")]);
    assert_eq!(
        relay.waits_for("pm").last(),
        Some(&from_relay("Worker \"tester\" was released by user: too dear"))
    );
}

#[test]
fn a_worker_does_not_release_itself_though_one_of_its_name_is_above_it() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, spawn("tester", "helper"));
    relay.happens(SECOND, Happened::Started);
    relay.happens(FIRST, exited(0, ""));
    relay.call(B, 3, spawn("helper", "tester"));
    let (agent, parent) = (name("tester"), name("helper"));
    assert_eq!(
        relay.call(B, 4, release("tester", "tester")),
        [not_done(4, NotDone::NotYours { agent, parent })]
    );
}

#[test]
fn only_a_worker_is_released() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    let agent = name("dev-a");
    assert_eq!(
        relay.call(A, 2, release("pm", "dev-a")),
        [not_done(2, NotDone::NotAWorker { agent })]
    );
    let unknown = NotDone::Unknown {
        given: "testr".to_owned(),
        known: vec!["tester".to_owned()],
    };
    assert_eq!(relay.call(A, 3, release("pm", "testr")), [not_done(3, unknown)]);
}

#[test]
fn the_person_is_told_of_the_workers_of_all_projects_where_it_names_none() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.open_for_person(PERSONS);
    relay.call(PERSONS, 2, Ask::Spawn(Box::new(asked(None, "web:helper"))).into());
    let command = Ask::Release {
        from: None,
        name: "testr".to_owned(),
        reason: None,
    };
    let unknown = |known: &[&str]| NotDone::Unknown {
        given: "testr".to_owned(),
        known: known.iter().map(|&name| name.to_owned()).collect(),
    };
    assert_eq!(
        relay.call(PERSONS, 3, command.into()),
        [not_done(3, unknown(&["tester", "web:helper"]))]
    );
    assert_eq!(
        relay.call(A, 4, release("pm", "testr")),
        [not_done(4, unknown(&["tester"]))]
    );
}

#[test]
fn a_worker_that_ends_by_itself_keeps_what_it_has_not_read_for_the_next_of_its_name() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.happens(FIRST, exited(1, ""));
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("tester"), std::slice::from_ref(&one));
    relay.has_worker(3, SECOND, "tester");
    assert_eq!(relay.waits_for("tester"), [one]);
}

#[test]
fn a_worker_that_has_ended_goes_with_its_sessions() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.open(OF_WORKER, Carrier::Stream, Some("tester"));
    relay.close(OF_WORKER, Ending::Orderly);
    relay.timeout_at(60_000);
    assert_eq!(others(&relay), ["tester"], "it connects again");
    relay.happens(FIRST, exited(0, ""));
    relay.timeout_at(91_000);
    assert_eq!(others(&relay), [""; 0]);
    assert_eq!(relay.workers(), []);
    relay.has_worker(2, SECOND, "tester");
}

fn hook(relay: &mut Relay) {
    relay.handle(Input::Opened {
        session: OF_WORKER,
        carrier: Carrier::Hook,
        who: Who::Program {
            agent: Some("tester".to_owned()),
            is_certain: true,
            project: DEFAULT_PROJECT.to_owned(),
            mode: None,
            abilities: Abilities::ALL,
        },
    });
}

fn comes() -> Command {
    let comes = surfacing::Command::Comes {
        to: surfacing::Boundary::Started,
        speaks_as: None,
        woken_by: None,
    };
    comes.into()
}

#[test]
fn a_worker_is_ready_when_its_hook_first_speaks_and_that_ends_with_it() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.became();
    hook(&mut relay);
    relay.call(OF_WORKER, 2, comes());
    assert_eq!(relay.became(), [(FIRST, Became::Ready, true)]);
    relay.happens(FIRST, exited(0, ""));
    assert_eq!(relay.call(OF_WORKER, 3, comes()), [], "its session is closed");
}

#[test]
fn a_hook_of_an_earlier_worker_does_not_speak_for_a_later_one() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.happens(FIRST, exited(0, ""));
    hook(&mut relay);
    relay.call(OF_WORKER, 2, comes());
    relay.has_worker(3, SECOND, "tester");
    relay.became();
    let agent = name("tester");
    let fenced = agents::Refusal::Fenced { agent };
    assert_eq!(relay.call(OF_WORKER, 4, comes()), [refused(4, fenced.into())]);
    assert_eq!(relay.became(), []);
}

impl Relay {
    /// Has a worker end and another one start under its name.
    fn has_worker_after(&mut self, before: WorkerId, call: u64, worker: WorkerId) {
        self.happens(before, exited(0, ""));
        self.has_worker(call, worker, "tester");
    }
}

#[test]
fn what_is_said_late_of_an_earlier_worker_changes_nothing_for_a_later_one() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.has_worker_after(FIRST, 2, SECOND);
    let before = relay.engine.clone();
    relay.became();
    for happened in [exited(0, ""), Happened::Started] {
        assert_eq!(relay.happens(FIRST, happened), []);
    }
    assert_eq!(relay.became(), []);
    assert!(relay.engine == before);
}

#[test]
fn all_workers_end_with_the_relay_and_whoever_waits_for_one_is_answered() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(A, 2, spawn("pm", "other"));
    relay.has_worker(3, WorkerId(3), "third");
    relay.call(A, 4, release("pm", "third"));
    let effects = relay.handle(Input::Stopping);
    let end = |worker| Effect::EndWorker { worker };
    let stopping = reply(2, Err(Refusal::Stopping));
    assert_eq!(effects, [end(FIRST), end(SECOND), stopping]);
    assert_eq!(
        relay.call(A, 5, spawn("pm", "fourth")),
        [reply(5, Err(Refusal::Stopping))]
    );
    relay.events();
    for worker in [FIRST, SECOND, WorkerId(3)] {
        assert_eq!(relay.happens(worker, exited(0, "")), []);
    }
    assert_eq!(relay.became().len(), 3);
    assert_eq!(relay.waits_for("pm"), []);
}

#[test]
fn what_is_said_of_a_worker_s_end_may_be_as_long_as_any_message() {
    let told = |body_bytes_max: usize| {
        let mut relay = Relay::told_within(Bounds {
            body_bytes_max,
            ..SPACIOUS
        });
        relay.has_worker(1, FIRST, "tester");
        relay.events();
        relay.happens(FIRST, exited(0, ""));
        relay.went_out().map(|(message, _)| message.bytes())
    };
    let bytes = told(SPACIOUS.body_bytes_max).expect("there is room");
    assert_eq!(told(bytes), Some(bytes));
    assert_eq!(told(bytes - 1), None);
}

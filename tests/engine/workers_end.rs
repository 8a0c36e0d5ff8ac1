//! Workers: how they are released, what becomes of what they have not read, and how they end with the relay.

use relay::engine::handling::Handling;
use relay::engine::limits::WORKER_START_MS;
use relay::engine::workers::{Became, Command as Ask, ExitStatus, Happened, Refusal as NotDone, WorkerState};
use relay::engine::{Abilities, NodeId, WorkerId};

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
fn what_a_released_worker_has_not_read_is_its_parent_s_once_it_has_ended() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(B, 3, post(Some("dev-b"), "tester", "two"));
    relay.call(B, 4, post(Some("dev-b"), "@everyone", "for many"));
    let before = relay.waits_for("pm");
    relay.call(A, 5, release("pm", "tester"));
    assert_eq!(relay.waits_for("pm"), before, "it may still read");
    relay.events();
    relay.happens(FIRST, exited(0, ""));
    let follow = "Worker \"tester\" was released, and had not read 2 message(s), which follow.";
    let one = ("dev-a".to_owned(), "one".to_owned());
    let two = ("dev-b".to_owned(), "two".to_owned());
    let handed_on = [from_relay(follow), one, two];
    assert_eq!(relay.waits_for("pm")[before.len()..], handed_on);
    // What is for many is whosever it is.
    let for_many = ("dev-b".to_owned(), "for many".to_owned());
    assert_eq!(relay.waits_for("tester"), [for_many]);
    let places: Vec<_> = relay
        .events()
        .into_iter()
        .filter_map(|event| {
            let Event::HandedOn { from, to, seq, .. } = event else {
                return None;
            };
            Some((from, to, seq.0))
        })
        .collect();
    let first = before.len() as u64 + 1;
    assert_eq!(
        places,
        [first, first + 1].map(|seq| (name("tester"), name("pm"), seq))
    );
}

/// Who has what from whom, but for what relay says.
fn handed_on(relay: &mut Relay) -> Vec<(AgentName, AgentName)> {
    let events = relay.events().into_iter();
    let handed_on = events.filter_map(|event| {
        let Event::HandedOn { from, to, .. } = event else {
            return None;
        };
        Some((from, to))
    });
    handed_on.collect()
}

#[test]
fn what_is_left_where_the_parent_has_left_too_goes_to_the_next_one_above() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, spawn("tester", "helper"));
    relay.happens(SECOND, Happened::Started);
    relay.call(A, 3, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    relay.call(B, 4, post(Some("dev-a"), "helper", "one"));
    relay.call(A, 5, release("pm", "helper"));
    relay.events();
    relay.happens(SECOND, exited(0, ""));
    assert_eq!(handed_on(&mut relay), [(name("helper"), name("pm"))]);
    let one = ("dev-a".to_owned(), "one".to_owned());
    let follow = from_relay("Worker \"helper\" was released, and had not read 1 message(s), which follow.");
    assert!(relay.waits_for("pm").ends_with(&[follow, one]));
}

#[test]
fn where_two_that_have_left_were_each_other_s_parents_nothing_goes_around() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, spawn("tester", "helper"));
    relay.happens(SECOND, Happened::Started);
    // It ends by itself, and its worker starts another one of its name.
    relay.happens(FIRST, exited(0, ""));
    relay.call(B, 3, spawn("helper", "tester"));
    let third = WorkerId(3);
    relay.happens(third, Happened::Started);
    relay.call(B, 4, post(Some("dev-a"), "helper", "one"));
    relay.call(B, 5, post(Some("dev-a"), "tester", "two"));
    relay.call(A, 6, release("pm", "tester"));
    relay.call(A, 7, release("pm", "helper"));
    relay.events();
    relay.happens(third, exited(0, ""));
    let to_helper = (name("tester"), name("helper"));
    assert_eq!(handed_on(&mut relay), vec![to_helper; 3]);
    relay.happens(SECOND, exited(0, ""));
    assert!(
        handed_on(&mut relay)
            .iter()
            .all(|(from, to)| *from == name("helper") && *to == name("pm"))
    );
    relay.call(B, 8, look("dev-a"));
    assert_eq!(handed_on(&mut relay), []);
    let waits = relay.waits_for("pm");
    let said = |body: &str| waits.iter().filter(|(_, said)| said == body).count();
    assert_eq!([said("one"), said("two")], [1, 1]);
}

#[test]
fn what_is_handed_on_wakes_the_parent_and_keeps_its_mark_and_its_deadline() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    let options = mail::PostOptions {
        handling: Handling {
            deadline: Some(START.plus_millis(5_000)),
            ..Handling::default()
        },
        ..mail::PostOptions::default()
    };
    relay.post_with(B, 2, &message(1, 0, "dev-a", "tester"), Some(options));
    relay.open(OF_WORKER, Carrier::Stream, Some("tester"));
    relay.call(OF_WORKER, 3, read("tester"));
    relay.call(A, 4, read("pm"));
    relay.passed(4);
    relay.call(A, 5, release("pm", "tester"));
    // The worker dies before what it was handed has arrived.
    relay.happens(FIRST, exited(0, ""));
    relay.call(A, 6, wait("pm", WAIT_MS));
    let woken = relay.close(OF_WORKER, Ending::Broken);
    let [
        Effect::Reply {
            result: Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })),
            ..
        },
    ] = &woken[..]
    else {
        panic!("{woken:?}");
    };
    let marks: Vec<bool> = deliveries.iter().map(|delivery| delivery.redelivered).collect();
    assert_eq!(marks, [false, true]);
    // It is not read, and expires where it is now.
    relay.lost(6);
    relay.events();
    relay.timeout_at(5_000);
    let expired = relay.events().into_iter().find_map(|event| {
        let Event::Expired { agent, .. } = event else {
            return None;
        };
        Some(agent)
    });
    assert_eq!(expired, Some(name("pm")));
}

#[test]
fn what_there_is_no_room_for_stays_with_the_worker_until_there_is() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 2,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(B, 3, post(Some("dev-a"), "tester", "two"));
    relay.call(B, 4, post(Some("dev-a"), "pm", "before"));
    relay.call(B, 5, post(Some("dev-a"), "pm", "it"));
    relay.call(A, 6, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    assert_eq!(relay.waits_for("tester").len(), 2);
    let one = Command::Mail(mail::Command::Read {
        agent: Some("pm".to_owned()),
        from: None,
        channel: None,
        limit: std::num::NonZeroUsize::new(1),
        earlier: false,
        wait_ms: 0,
        second: mail::Second::Supersedes,
    });
    relay.call(A, 17, one);
    relay.passed(17);
    relay.call(A, 18, look("pm"));
    relay.settle();
    let it = ("dev-a".to_owned(), "it".to_owned());
    assert_eq!(
        relay.waits_for("pm"),
        [it],
        "there is no room for a message and for what tells of it"
    );
    assert_eq!(relay.waits_for("tester").len(), 2);
    relay.call(A, 7, read("pm"));
    relay.passed(7);
    relay.call(A, 8, look("pm"));
    relay.settle();
    assert_eq!(relay.waits_for("pm").len() + relay.waits_for("tester").len(), 3);
    relay.call(A, 9, read("pm"));
    relay.passed(9);
    relay.call(A, 10, look("pm"));
    relay.settle();
    assert_eq!(relay.waits_for("tester"), []);
}

/// What the parent is told before it gets what a worker had not read.
fn follows() -> (String, String) {
    from_relay("Worker \"tester\" was released, and had not read 1 message(s), which follow.")
}

#[test]
fn nothing_is_said_of_what_is_too_long_for_the_room_that_the_parent_has() {
    let mut relay = Relay::told_within(Bounds {
        inbox_bytes_max: 10_000,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    let long = "x".repeat(6_000);
    relay.call(B, 2, post(Some("dev-a"), "tester", &long));
    relay.call(B, 3, post(Some("dev-a"), "pm", &long));
    relay.call(A, 4, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let it = ("dev-a".to_owned(), long);
    assert_eq!(relay.waits_for("pm"), std::slice::from_ref(&it));
    assert_eq!(relay.waits_for("tester"), std::slice::from_ref(&it));
    relay.call(A, 5, read("pm"));
    relay.passed(5);
    relay.call(A, 6, look("pm"));
    relay.settle();
    assert_eq!(relay.waits_for("pm"), [follows(), it]);
}

#[test]
fn what_a_worker_has_not_read_that_was_late_and_is_released_then_is_its_parent_s_too() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.call(A, 1, spawn("pm", "tester"));
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.timeout_at(WORKER_START_MS);
    assert_eq!(
        relay.call(A, 3, release("pm", "tester")),
        [released(3, FIRST, "tester", "pm")]
    );
    relay.happens(FIRST, exited(0, ""));
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("pm"), [follows(), one]);
}

#[test]
fn what_a_node_is_to_bring_to_a_released_worker_stays_the_node_s() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.open_for_person(nodes::PERSON);
    relay.create("fleet", None);
    relay.bind(NodeId(0), "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(A, 3, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("tester"), [one]);
    assert_eq!(relay.waits_for("pm"), []);
}

#[test]
fn nothing_is_handed_on_while_the_relay_stops() {
    let mut relay = Relay::told_within(SPACIOUS);
    relay.has_worker(1, FIRST, "tester");
    relay.call(B, 2, post(Some("dev-a"), "tester", "one"));
    relay.call(A, 3, release("pm", "tester"));
    relay.handle(Input::Stopping);
    relay.happens(FIRST, exited(0, ""));
    let one = ("dev-a".to_owned(), "one".to_owned());
    assert_eq!(relay.waits_for("tester"), [one]);
    assert_eq!(relay.waits_for("pm"), []);
}

#[test]
fn how_many_are_handed_on_is_said_as_it_is_and_how_many_stay() {
    let mut relay = Relay::told_within(Bounds {
        inbox_messages_max: 4,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    for (call, body) in (2..).zip(["one", "two", "three", "four"]) {
        relay.call(B, call, post(Some("dev-a"), "tester", body));
    }
    relay.call(B, 16, post(Some("dev-a"), "pm", "before"));
    relay.call(A, 6, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let said = "Worker \"tester\" was released, and had not read 4 message(s): 2 follow, and 2 stay in its inbox until yours has room for them.";
    let of = |body: &str| ("dev-a".to_owned(), body.to_owned());
    assert_eq!(
        relay.waits_for("pm")[1..],
        [from_relay(said), of("one"), of("two")]
    );
    assert_eq!(relay.waits_for("tester"), [of("three"), of("four")]);
    relay.call(A, 7, read("pm"));
    relay.passed(7);
    relay.call(A, 8, look("pm"));
    relay.settle();
    let said = "Worker \"tester\" was released, and had not read 2 message(s), which follow.";
    assert_eq!(relay.waits_for("pm"), [from_relay(said), of("three"), of("four")]);
}

#[test]
fn how_many_are_handed_on_is_said_as_it_is_whatever_place_the_number_takes() {
    let said = |count: usize, rest: usize| {
        format!(
            "Worker \"tester\" was released, and had not read 20 message(s): {count} follow, and {rest} stay in its inbox until yours has room for them."
        )
    };
    let metadata = r#"{"worker":"tester","event":"handed_on"}"#;
    // Ten would fit behind the shortest of these, and one digit more leaves room for nine.
    let mut relay = Relay::told_within(Bounds {
        inbox_bytes_max: said(19, 1).len() + metadata.len() + 10 * 10,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    for call in 2..22 {
        relay.call(B, call, post(Some("dev-a"), "tester", "0123456789"));
    }
    assert_eq!(relay.waits_for("tester").len(), 20);
    relay.call(A, 30, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    let waits = relay.waits_for("pm");
    assert_eq!((&waits[0], waits.len()), (&from_relay(&said(9, 11)), 1 + 9));
}

#[test]
fn nothing_is_said_to_be_handed_on_where_there_is_room_for_that_alone() {
    let mut relay = Relay::told_within(Bounds {
        inbox_bytes_max: 400,
        ..SPACIOUS
    });
    relay.has_worker(1, FIRST, "tester");
    let long = "x".repeat(200);
    relay.call(B, 2, post(Some("dev-a"), "tester", &long));
    let before = relay.waits_for("pm");
    relay.call(B, 3, post(Some("dev-a"), "pm", &"y".repeat(150)));
    relay.call(A, 4, release("pm", "tester"));
    relay.happens(FIRST, exited(0, ""));
    assert_eq!(relay.waits_for("pm").len(), before.len() + 1);
    assert_eq!(relay.waits_for("tester").len(), 1);
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

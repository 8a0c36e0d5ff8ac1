use super::*;
use crate::engine::limits::Bounds;
use crate::engine::{AgentName, Event, Kind, Message, MessageId, Places as Inboxes, Recipient, Seq};
use crate::server::sync::Arc;

const START: Timestamp = Timestamp::from_millis(1_777_732_321_000);
const BASE: u64 = 1_777_732_321_000_000;

fn name(name: &str) -> AgentName {
    let (project, name) = name.split_once(':').expect("one with its project");
    AgentName::in_project(project, name).expect("a good name")
}

fn workspace(name: &str) -> Of {
    Of::Workspace(name.to_owned())
}

fn registered(agent: &str) -> [Effect; 1] {
    let agent = name(agent);
    [Effect::Note(Event::Registered { agent })]
}

fn accepted(from: AgentName, to: &str, bytes: usize) -> [Effect; 1] {
    let message = Message {
        id: MessageId(uuid::Uuid::nil()),
        from,
        to: Recipient::agent(&name(to)),
        kind: Kind::Free,
        body: "x".repeat(bytes),
        ts: START,
        context: None,
    };
    let accepted = Event::Accepted {
        message: Arc::new(message),
        agents: vec![name(to)],
        places: Inboxes::One(Seq(1)),
    };
    [Effect::Note(accepted)]
}

fn numbers(journal: &Journal, of: &Of, since: u64) -> Vec<u64> {
    let Since { mut cursor, .. } = journal.since(of, since).expect("it was");
    let mut numbers = Vec::new();
    loop {
        let page = journal.read(of, cursor, 3).expect("it is kept");
        numbers.extend(page.entries.iter().map(|(number, _)| *number));
        if !page.more {
            return numbers;
        }
        cursor = page.next;
    }
}

#[test]
fn each_workspace_counts_for_itself_and_one_event_may_be_in_two() {
    let journal = Journal::new(START);
    assert_eq!(journal.latest(&Of::All), BASE - 1);
    for agent in ["web:a", "app:a", "web:b"] {
        journal.note(START, &registered(agent));
    }
    journal.note(START, &accepted(name("web:a"), "app:a", 1));
    journal.note(START, &accepted(AgentName::person(), "app:a", 1));
    let from_base = |count: u64| (BASE..BASE + count).collect::<Vec<u64>>();
    assert_eq!(numbers(&journal, &workspace("web"), 0), from_base(4));
    assert_eq!(numbers(&journal, &workspace("app"), 0), from_base(5));
    assert_eq!(numbers(&journal, &Of::All, 0), from_base(7));
    assert_eq!(
        numbers(&journal, &workspace("default"), 0),
        [0; 0],
        "the person is in none"
    );
    assert_eq!(numbers(&journal, &workspace("app"), BASE + 3), [BASE + 4]);
    let ahead = journal.since(&workspace("web"), BASE + 4);
    assert_eq!(ahead, Err(Ahead { latest: BASE + 3 }));
    assert_eq!(journal.latest(&workspace("none")), BASE - 1);
}

#[test]
fn nothing_is_kept_before_somebody_asks() {
    let journal = Journal::new(START);
    journal.note(START, &registered("web:a"));
    assert_eq!(numbers(&journal, &Of::All, 0), [0; 0]);
    journal.note(START, &registered("web:a"));
    assert_eq!(numbers(&journal, &Of::All, 0), [BASE]);
}

#[test]
fn what_is_forgotten_is_missed_and_whoever_was_about_to_read_it_is_told() {
    let journal = Journal::new(START);
    journal.now(&Of::All);
    let of = workspace("web");
    journal.note(START, &registered("web:a"));
    let first = journal.since(&of, 0).expect("it is there");
    assert!(!first.missed, "all that is kept was asked for");
    let behind = |number| journal.since(&of, number).expect("it was").missed;
    assert!(behind(1), "an event of a relay before this one");
    assert!(!behind(BASE - 1));
    for _ in 0..EVENTS_MAX - 1 {
        journal.note(START, &registered("web:a"));
    }
    assert!(journal.read(&of, first.cursor, 1).is_ok(), "as many are kept");
    journal.note(START, &registered("app:a"));
    assert_eq!(journal.read(&of, first.cursor, 1).err(), Some(Forgotten));
    assert!(!behind(BASE), "the second is kept");
    journal.note(START, &registered("app:a"));
    assert!(behind(BASE));
    assert_eq!(numbers(&journal, &of, 0).len(), EVENTS_MAX - 2);
    for _ in 0..EVENTS_MAX {
        journal.note(START, &registered("app:a"));
    }
    let latest = journal.latest(&of);
    assert!(
        !behind(latest) && behind(latest - 1),
        "of the workspace nothing is kept"
    );
}

#[test]
fn no_more_text_is_kept_than_the_bound_and_it_is_freed() {
    let journal = Journal::new(START);
    journal.now(&Of::All);
    let half = EVENTS_BYTES_MAX / 2;
    let kept = |journal: &Journal| {
        let page = journal.since(&Of::All, 0).expect("it was").cursor;
        journal
            .read(&Of::All, page, EVENTS_MAX)
            .expect("it is kept")
            .entries
            .len()
    };
    journal.note(START, &accepted(name("web:a"), "web:b", half));
    journal.note(START, &accepted(name("web:a"), "web:b", half));
    assert_eq!(kept(&journal), 4);
    journal.note(START, &accepted(name("web:a"), "web:b", 1));
    assert_eq!(kept(&journal), 5, "the first message is forgotten");
    journal.note(START, &accepted(name("web:a"), "web:b", half - 1));
    assert_eq!(kept(&journal), 7, "its text counts no more");
}

#[test]
fn nothing_is_kept_any_more_when_nobody_has_looked_on_for_long_and_who_comes_back_is_told() {
    let journal = Journal::new(START);
    let after = |ms: i64| Timestamp::from_millis(START.as_millis() + ms);
    let all = [Of::All, workspace("web"), workspace("app")];
    let before = all.clone().map(|of| journal.now(&of).behind);
    journal.note(START, &registered("web:a"));
    let reading = journal.reading();
    journal.note(after(9 * EVENTS_IDLE_MS), &registered("web:a"));
    drop(reading);
    // A stream has looked on until now.
    let later = 18 * EVENTS_IDLE_MS;
    journal.note(after(later), &registered("web:a"));
    journal.note(after(later + EVENTS_IDLE_MS), &registered("web:a"));
    assert_eq!(journal.lock().entries.len(), 4);
    journal.note(after(later + EVENTS_IDLE_MS + 1), &registered("web:a"));
    journal.note(after(later + EVENTS_IDLE_MS + 2), &registered("web:a"));
    assert_eq!(journal.lock().entries.len(), 0);
    for (of, before) in all.iter().zip(before) {
        let since = journal.since(of, before).expect("it was");
        assert!(since.missed && since.behind == journal.latest(of), "{of:?}");
    }
    assert!(
        journal
            .since(&workspace("web"), BASE + 3)
            .expect("the latest one")
            .missed
    );
    journal.note(after(later + EVENTS_IDLE_MS + 3), &registered("web:a"));
    let next = journal.latest(&workspace("web"));
    assert_eq!(
        (numbers(&journal, &workspace("web"), next - 1), next),
        (vec![next], BASE + 5)
    );
}

#[test]
fn workspaces_that_come_and_go_are_forgotten_with_all_events() {
    let journal = Journal::new(START);
    journal.now(&Of::All);
    for workspace in 0..EVENT_WORKSPACES_MAX {
        journal.note(START, &registered(&format!("w{workspace}:a")));
    }
    assert_eq!(journal.lock().workspaces.len(), EVENT_WORKSPACES_MAX);
    journal.note(START, &registered("one-more:a"));
    assert_eq!(journal.lock().workspaces.len(), 0);
    assert!(journal.since(&workspace("w0"), BASE).expect("it was").missed);
    journal.note(START, &registered("w0:a"));
    assert_eq!(numbers(&journal, &workspace("w0"), 0).len(), 1);
}

#[tokio::test]
async fn who_waits_is_woken_by_what_came_before_it_waited() {
    let journal = Journal::new(START);
    journal.now(&Of::All);
    let reading = journal.reading();
    let grown = journal.grown();
    journal.note(START, &registered("web:a"));
    grown.await;
    let grown = journal.grown();
    journal.note(START, &[Effect::Note(Event::Stopping)]);
    let waited = tokio::time::timeout(std::time::Duration::from_millis(20), grown).await;
    assert!(waited.is_err(), "nothing that is told");
    drop(reading);
    assert_eq!(journal.streams.load(Ordering::Relaxed), 0);
    let grown = journal.grown();
    journal.wake();
    grown.await;
}

#[test]
fn there_is_room_for_all_that_one_step_may_come_to_and_more() {
    let Bounds {
        inbox_messages_max,
        agents_max,
        ..
    } = Bounds::default();
    assert!(EVENTS_MAX >= inbox_messages_max + agents_max);
}

#[test]
fn no_more_observers_are_let_in_than_the_bound() {
    let journal = Journal::new(START);
    assert_eq!([(); 3].map(|()| journal.admit(2)), [true, true, false]);
    journal.dismiss();
    assert_eq!([(); 2].map(|()| journal.admit(2)), [true, false]);
}

#[test]
fn a_long_frame_is_shared_by_those_who_are_told_the_same_and_by_nobody_else() {
    let journal = Journal::new(START);
    let budget = crate::server::budget::Budget::new(usize::MAX, 0);
    for agent in ["web:a", "app:a"] {
        journal.note(START, &accepted(name(agent), agent, 100_000));
    }
    journal.now(&Of::All);
    for agent in ["web:a", "app:a"] {
        journal.note(START, &accepted(name(agent), agent, 100_000));
    }
    let share = |of: &Of| {
        let Since { cursor, .. } = journal.since(of, 0).expect("it was");
        let page = journal.read(of, cursor, 1_000).expect("it is kept");
        let (number, entry) = page.entries.into_iter().next().expect("one at least");
        let shared = journal.frames().share(&budget, &entry, of, number);
        (number, shared.expect("it is long"))
    };
    let [web, again, app] = ["web", "web", "app"].map(|name| share(&workspace(name)));
    assert!(std::sync::Arc::ptr_eq(&web.1, &again.1));
    assert_eq!(web.0, app.0, "each workspace counts for itself");
    assert_ne!(web.1.text, app.1.text);
}

#[test]
fn each_event_has_its_word_and_is_told_wherever_somebody_has_a_part_in_it() {
    use serde_json::Value;

    use crate::engine::holds::HeldBy;
    use crate::engine::nodes::NodeView;
    use crate::engine::workers::{Became, Transition};
    use crate::engine::{Delivery, HandoverId, NodeId, WorkerId, handling};
    let message = || match accepted(name("web:a"), "app:b", 1) {
        [Effect::Note(Event::Accepted { message, .. })] => message,
        other => panic!("{other:?}"),
    };
    let delivery = || Delivery {
        seq: Seq(1),
        message: message(),
        mode: handling::Mode::Immediate,
        redelivered: false,
    };
    let push_failed = Event::PushFailed {
        handover: HandoverId(1),
        agent: name("app:b"),
        deliveries: Arc::new(vec![delivery()]),
        error: "HTTP 500".into(),
        again_at: None,
    };
    let held = Event::Held {
        agent: name("app:b"),
        delivery: delivery(),
        by: HeldBy::To,
    };
    let handed_on = Event::HandedOn {
        message: message(),
        from: name("app:b"),
        to: name("lab:c"),
        seq: Seq(1),
    };
    let worker = Event::Worker(Box::new(Transition {
        worker: WorkerId(1),
        agent: name("app:b"),
        parent: name("web:a"),
        became: Became::Ready,
        told: false,
    }));
    let node = Box::new(NodeView {
        node: NodeId(1),
        project: "app".to_owned(),
        name: "fleet".to_owned(),
        own: None,
        label: None,
        agents_max: None,
        agents: Vec::new(),
        pushes: false,
        is_live: false,
        created_at: START,
        last_contact: None,
    });
    let (gone, taken_over) = (name("web:a"), name("web:a"));
    let both = &["web", "app"][..];
    for (event, kind, told, more) in [
        (
            push_failed,
            "delivery.failed",
            both,
            ("retryable", Value::from(true)),
        ),
        (held, "delivery.held", both, ("by", Value::from("to"))),
        (
            handed_on,
            "delivery.handed_on",
            &["web", "app", "lab"],
            ("handed_on_by", Value::from("app:b")),
        ),
        (
            worker,
            "worker.ready",
            both,
            ("parent_name", Value::from("web:a")),
        ),
        (
            Event::Gone { agent: gone },
            "agent.status.offline",
            &["web"],
            ("status", Value::from("offline")),
        ),
        (
            Event::TakenOver { agent: taken_over },
            "agent.taken_over",
            &["web"],
            ("type", Value::from("agent.taken_over")),
        ),
        (
            Event::NodeLapsed { node },
            "node.status.offline",
            &["app"],
            ("holds_agents", Value::from(false)),
        ),
    ] {
        let journal = Journal::new(START);
        journal.now(&Of::All);
        journal.note(START, &[Effect::Note(event)]);
        let Since { cursor, .. } = journal.since(&Of::All, 0).expect("it was");
        let page = journal.read(&Of::All, cursor, 2).expect("it is kept");
        let rows = page
            .entries
            .iter()
            .map(|(number, entry)| entry.row(&Of::All, *number));
        let rows: Vec<Value> = rows.collect();
        assert_eq!(rows.len(), 1, "{kind}");
        let (member, value) = more;
        assert_eq!(
            (&rows[0]["type"], &rows[0]["payload"][member]),
            (&Value::from(kind), &value)
        );
        let all = ["web", "app", "lab"].into_iter();
        let found: Vec<&str> = all
            .filter(|project| !numbers(&journal, &workspace(project), 0).is_empty())
            .collect();
        assert_eq!(found, told, "{kind}");
    }
}

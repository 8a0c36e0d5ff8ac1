//! What the tests of the state and of the view look at: a relay with agents who talk.

use super::news::{Agent, Event, Message, News, Step, Traced};
use super::state::State;
use crate::cli::health::Health;
use crate::engine::Timestamp;

/// 14:30:00 of some day.
const BEGIN: i64 = 1_777_732_200_000;

/// Returns a moment, so many seconds behind the start.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(BEGIN + seconds * 1_000)
}

/// Writes the time of day in UTC.
pub fn time(at: Timestamp) -> String {
    let time = chrono::DateTime::from_timestamp_millis(at.as_millis()).unwrap_or_default();
    time.format("%H:%M:%S").to_string()
}

/// What a relay says of itself whose inboxes have so much for `pm`, `dev-a` and `dev-b`.
pub fn health(boot: &str, waiting: [u64; 3], in_doubt: u64) -> Box<Health> {
    let [pm, dev_a, dev_b] = waiting;
    let oldest = |waiting| if waiting > 0 { "65" } else { "null" };
    let json = format!(
        r#"{{"name": "relay", "version": "0.1.0", "started_at": "2026-05-02T14:30:00.000Z", "boot": "{boot}", "uptime_seconds": 7500,
        "roles": [
            {{"role": "pm", "unread": {pm}, "oldest_seconds": {}, "in_doubt": {in_doubt}, "mode": "immediate"}},
            {{"role": "dev-a", "unread": {dev_a}, "oldest_seconds": {}, "in_doubt": 0, "mode": "immediate"}},
            {{"role": "dev-b", "unread": {dev_b}, "oldest_seconds": {}, "in_doubt": 0, "mode": "on-idle"}},
            {{"role": "web:reviewer", "unread": 0, "oldest_seconds": null, "in_doubt": 0, "mode": "immediate",
              "node": {{"kind": "fleet", "live": true, "failing": false}}}},
            {{"role": "user", "unread": 1, "oldest_seconds": 12, "in_doubt": 0, "mode": "immediate"}}
        ],
        "connections": [
            {{"session": 1, "role": "pm", "transport": "hooks", "waits": [], "program": {{"activity": "busy", "can_be_woken": false}}}},
            {{"session": 2, "role": "pm", "transport": "sse", "waits": []}},
            {{"session": 3, "role": "dev-a", "transport": "hooks", "waits": [], "program": {{"activity": "idle", "can_be_woken": true}}}}
        ]}}"#,
        oldest(pm),
        oldest(dev_a),
        oldest(dev_b)
    );
    Box::new(serde_json::from_str(&json).expect("what a relay says"))
}

/// What a relay says of itself to whom nobody is connected.
pub fn empty_health() -> Box<Health> {
    let role = |name| {
        format!(
            r#"{{"role": "{name}", "unread": 0, "oldest_seconds": null, "in_doubt": 0, "mode": "immediate"}}"#
        )
    };
    let roles = ["pm", "dev-a", "dev-b", "user"].map(role).join(", ");
    let json = format!(
        r#"{{"name": "relay", "version": "0.1.0", "started_at": "2026-05-02T14:30:00.000Z", "boot": "b-1", "roles": [{roles}]}}"#
    );
    Box::new(serde_json::from_str(&json).expect("what a relay says"))
}

/// A relay is there.
pub fn connected(health: Box<Health>) -> News {
    News::Connected {
        place: "127.0.0.1:7331".to_owned(),
        health,
        inboxes: Vec::new(),
    }
}

/// A message; its id begins with its number.
pub fn message(number: u32, from: &str, to: &str, kind: &str, body: &str) -> Message {
    Message {
        id: id(number),
        from: from.to_owned(),
        to: to.to_owned(),
        kind: kind.to_owned(),
        body: body.to_owned(),
        at: at(i64::from(number) * 37),
        inbox: None,
    }
}

/// The id of a message.
pub fn id(number: u32) -> String {
    let head = 0x3f2a_91c0_u32.wrapping_add(number.wrapping_mul(0x0101_3377));
    format!("{head:08x}-5d1e-4a7b-9c3d-1f2e3d4c5b6a")
}

/// A message was accepted, and so much has become of it.
pub fn said(state: &mut State, message: Message, steps: &[(&str, Step)]) {
    let id = message.id.clone();
    state.take(News::Event(Event::Message(message)));
    for (agent, step) in steps {
        let (id, agent, step) = (id.clone(), (*agent).to_owned(), *step);
        state.take(News::Event(Event::Became { id, agent, step }));
    }
}

/// Two agents of a few talk.
pub fn talking() -> State {
    let mut state = State::default();
    state.take(connected(health("b-1", [0, 1, 2], 1)));
    let agent = |name: &str, role: Option<&str>, cli: Option<&str>| Agent {
        name: name.to_owned(),
        role: role.map(str::to_owned),
        cli: cli.map(str::to_owned),
        active: false,
        is_worker: false,
    };
    state.take(News::Agents(vec![
        agent("pm", None, Some("claude-code")),
        agent("dev-a", Some("backend"), Some("codex")),
        agent("web:reviewer", Some("reviewer"), None),
    ]));
    let all = |step| [("dev-a", step), ("dev-b", Step::Waits)];
    said(
        &mut state,
        message(
            1,
            "pm",
            "dev-a",
            "directive",
            "PROCEED to task B1: move the parser into its own crate, and keep the old path as a re-export",
        ),
        &[("dev-a", Step::Read)],
    );
    said(
        &mut state,
        message(
            2,
            "dev-a",
            "pm",
            "question",
            "Which error type shall the new crate have?\n\n- thiserror, as in the engine\n- its own",
        ),
        &[("pm", Step::Delivered)],
    );
    said(
        &mut state,
        message(3, "pm", "dev-a", "free", "thiserror"),
        &[("dev-a", Step::Delivered)],
    );
    state.take(News::Event(Event::Note {
        at: at(120),
        text: "web:reviewer is there".to_owned(),
    }));
    said(
        &mut state,
        message(4, "dev-b", "pm", "status", "Task P4 DONE, last commit abc1234"),
        &[("pm", Step::HandedOver)],
    );
    said(
        &mut state,
        message(
            5,
            "pm",
            "@everyone",
            "status",
            "Freeze at 16:00; say what is left",
        ),
        &all(Step::Delivered),
    );
    said(
        &mut state,
        message(
            6,
            "web:reviewer",
            "user",
            "question",
            "May I merge? \u{1b}[2J\u{202e}",
        ),
        &[("user", Step::Waits)],
    );
    said(
        &mut state,
        message(7, "pm", "dev-b", "directive", "Review dev-a's branch"),
        &[("dev-b", Step::Failed)],
    );
    state.wishes();
    state
}

/// What relay answers of the second message.
pub fn traced() -> Traced {
    let text = format!(
        "{}  question  dev-a → pm\n\
         accepted 2026-05-02 14:31:14.000\n  \
         pm #7  14:31:14.000  queued\n         \
         14:31:14.210  handed over to session 12 (hooks)\n         \
         14:31:16.480  read: the session called again\n         \
         14:31:16.480  delivered\n",
        id(2)
    );
    let steps = [("pm".to_owned(), Step::Delivered)].into();
    Traced { text, steps }
}

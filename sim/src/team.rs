//! What registered agents say with thrum's tools, and what the answers mean.

use serde_json::{Value, json};

use crate::history::{Asked, Outcome, Seen};
use crate::plan::team::{GROUP, GroupChange, Mate, Member, TeamCall, crew, mate};

/// The tools of registered agents.
pub const TOOLS: &str = "thrum";

/// Returns what is behind the path of a transport's address.
pub fn query(who: Mate) -> String {
    let (name, role, instance) = (who.name(), crew(who.crew), instance(who));
    format!("?agent={name}&role={role}&instance={instance}&tools={TOOLS}")
}

/// Returns the instance by which relay knows a later one from an earlier one.
pub fn instance(who: Mate) -> uuid::Uuid {
    uuid::Uuid::from_u128(0x0190_163d_8694_7000_8000_0000_0000_0000 + u128::from(who.instance))
}

/// Returns what a call is for the history, and for the wire. `body` makes one of so many bytes.
pub fn spell(who: Mate, call: &TeamCall, body: impl FnOnce(usize) -> String) -> (Asked, &'static str, Value) {
    match call {
        TeamCall::Send { to, bytes } => {
            let (to, body) = (to.to_string(), body(*bytes));
            let arguments = json!({"to": to, "content": body});
            let asked = Asked::Post {
                from: who.name(),
                to,
                kind: relay::engine::Kind::Free,
                body,
            };
            (asked, "send_message", arguments)
        }
        TeamCall::Check { limit } => {
            let asked = Asked::Read {
                of: who.name(),
                wait_ms: 0,
                limit: Some(*limit),
            };
            (asked, "check_messages", json!({"limit": limit}))
        }
        TeamCall::Wait { seconds } => {
            let asked = Asked::Read {
                of: who.name(),
                wait_ms: seconds * 1_000,
                limit: Some(1),
            };
            (asked, "wait_for_message", json!({"timeout": seconds}))
        }
        TeamCall::Group(change) => {
            let (tool, arguments) = match change {
                GroupChange::Create => ("create_group", json!({"name": GROUP})),
                GroupChange::Add(member) => ("add_group_member", membership(*member)),
                GroupChange::Remove(member) => ("remove_group_member", membership(*member)),
            };
            (Asked::Group(*change), tool, arguments)
        }
    }
}

/// Returns how long a call waits, in milliseconds.
pub fn wait_ms(call: &TeamCall) -> u64 {
    match call {
        TeamCall::Wait { seconds } => seconds * 1_000,
        TeamCall::Send { .. } | TeamCall::Check { .. } | TeamCall::Group(_) => 0,
    }
}

fn membership(member: Member) -> Value {
    let (kind, name) = match member {
        Member::Mate(number) => ("agent", mate(number)),
        Member::Crew(number) => ("role", crew(number)),
    };
    json!({"group": GROUP, "member_type": kind, "member_value": name})
}

/// Reads what an inbox's messages mean, of thrum's answers.
pub fn read(of: &str, answer: &Value, notice: Option<String>) -> Outcome {
    let messages = match answer["messages"].as_array() {
        Some(messages) => messages.as_slice(),
        None if answer["message"].is_null() => &[],
        None => std::slice::from_ref(&answer["message"]),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let seen = messages.iter().map(|message| Seen {
        id: text(&message["message_id"]),
        from: text(&message["from"]),
        // It stands there only where it is not the reader's name.
        to: message["to"].as_str().unwrap_or(of).to_owned(),
        kind: relay::engine::Kind::Free.as_str().to_owned(),
        body: text(&message["content"]),
        redelivered: message["redelivered"] == true,
    });
    let seen = seen.collect();
    Outcome::Messages { seen, notice }
}

//! What registered agents say with the tools of Thrum and Agent Relay, and what the answers mean.

use serde_json::{Value, json};

use crate::history::{Asked, Belongs, Filter, History, Outcome, Record, Seen};
use crate::laws::FENCED;
use crate::marks::Marks;
use crate::plan::Call;
use crate::plan::projects::{project, project_of, seen_from, whole};
use crate::plan::team::{
    Address, CHANNEL, GROUP, GroupChange, Mate, Member, THREAD, Target, TeamCall, Tools, crew, mate,
};

/// Returns what is behind the path of a transport's address.
pub fn query(who: Mate) -> String {
    let (name, role, instance) = (mate(who.number), crew(who.crew), instance(who));
    let (tools, project) = (
        who.tools.name(),
        match who.project {
            0 => String::new(),
            number => format!("&project={}", project(number)),
        },
    );
    format!("?agent={name}&role={role}&instance={instance}&tools={tools}{project}")
}

/// Returns the instance by which relay knows a later one from an earlier one.
pub fn instance(who: Mate) -> uuid::Uuid {
    uuid::Uuid::from_u128(0x0190_163d_8694_7000_8000_0000_0000_0000 + u128::from(who.instance))
}

/// Returns what a call is for the history, and for the wire. `latest` is what the agent has read last, and `body` makes a body of
/// so many bytes.
pub fn spell(
    who: Mate,
    call: &TeamCall,
    latest: Option<&Seen>,
    body: impl FnOnce(usize) -> String,
) -> (Asked, &'static str, Value) {
    let read = |wait_ms, limit, filter| Asked::Read {
        of: who.name(),
        wait_ms,
        limit: Some(limit),
        filter,
    };
    match call {
        TeamCall::Send { to, bytes } | TeamCall::Ask { to, bytes, .. } => {
            let (to, body) = (to.to_string(), body(*bytes));
            let (tool, arguments) = match (who.tools, call) {
                (Tools::Thrum, _) => ("send_message", json!({"to": to, "content": body})),
                (Tools::AgentRelay, TeamCall::Ask { wait_ms, .. }) => (
                    "relay_send",
                    json!({"to": to, "message": body, "await_response": true, "timeout_ms": wait_ms}),
                ),
                (Tools::AgentRelay, _) => ("relay_send", json!({"to": to, "message": body})),
            };
            let asked = Asked::Post {
                from: who.name(),
                to,
                kind: relay::engine::Kind::Free,
                body,
                belongs: Belongs::Nothing,
            };
            (asked, tool, arguments)
        }
        TeamCall::Reply { otherwise, bytes } => {
            let body = body(*bytes);
            let own = project(who.project);
            let to = latest.map_or_else(|| otherwise.to_string(), |latest| seen_from(own, &latest.from));
            let (belongs, tool, arguments) = match (who.tools, latest) {
                (Tools::Thrum, Some(latest)) => (
                    Belongs::Answer(latest.body.clone()),
                    "send_message",
                    json!({"to": to, "content": body, "reply_to": latest.id}),
                ),
                (Tools::Thrum, None) => (
                    Belongs::Nothing,
                    "send_message",
                    json!({"to": to, "content": body}),
                ),
                (Tools::AgentRelay, _) => (
                    Belongs::Thread(THREAD),
                    "relay_send",
                    json!({"to": to, "message": body, "thread": THREAD}),
                ),
            };
            let asked = Asked::Post {
                from: who.name(),
                to,
                kind: relay::engine::Kind::Free,
                body,
                belongs,
            };
            (asked, tool, arguments)
        }
        TeamCall::Check { limit } => {
            let tool = match who.tools {
                Tools::Thrum => "check_messages",
                Tools::AgentRelay => "relay_inbox",
            };
            (read(0, *limit, Filter::default()), tool, json!({"limit": limit}))
        }
        TeamCall::Filtered { project, from, limit } => {
            let target = from.map_or(Target::Channel, Target::Mate);
            let only = Address {
                project: *project,
                target,
            };
            let only = only.to_string();
            let (filter, argument) = match from {
                Some(_) => {
                    let from = Some(only.clone());
                    (
                        Filter {
                            from,
                            ..Filter::default()
                        },
                        "from",
                    )
                }
                None => {
                    let channel = Some(only.clone());
                    (
                        Filter {
                            channel,
                            ..Filter::default()
                        },
                        "channel",
                    )
                }
            };
            let mut arguments = json!({"limit": limit});
            arguments[argument] = json!(only);
            (read(0, *limit, filter), "relay_inbox", arguments)
        }
        TeamCall::Wait { seconds } => {
            let asked = read(seconds * 1_000, 1, Filter::default());
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
pub fn wait_ms(call: &Call) -> u64 {
    match call {
        Call::Team(TeamCall::Wait { seconds }) => seconds * 1_000,
        Call::Read { wait_ms, .. } | Call::Team(TeamCall::Ask { wait_ms, .. }) => *wait_ms,
        Call::Team(
            TeamCall::Send { .. }
            | TeamCall::Reply { .. }
            | TeamCall::Check { .. }
            | TeamCall::Filtered { .. }
            | TeamCall::Group(_),
        )
        | Call::Post { .. }
        | Call::Pending { .. }
        | Call::Illegal(_) => 0,
    }
}

/// Returns how long a call waits for the answer to what it posts, in milliseconds; none if it does not.
pub fn asks_ms(call: &Call) -> Option<u64> {
    match call {
        Call::Team(TeamCall::Ask { wait_ms, .. }) => Some(*wait_ms),
        Call::Team(_) | Call::Post { .. } | Call::Read { .. } | Call::Pending { .. } | Call::Illegal(_) => {
            None
        }
    }
}

/// Takes a call apart that posts and waits for the answer: into a post, and a read that is there if the post may have been
/// accepted.
pub fn halves(call: &Record, wait_ms: u64) -> Vec<Record> {
    let Asked::Post { from, body, .. } = &call.asked else {
        unreachable!("who asks posts");
    };
    let accepted = || Outcome::Posted(String::new());
    let empty = || Outcome::Messages {
        seen: Vec::new(),
        notice: None,
        is_cut: false,
    };
    let (post, read) = match &call.outcome {
        Outcome::Messages { .. } => (accepted(), Some(call.outcome.clone())),
        Outcome::Refused(text) if text.contains("Timeout after") => (accepted(), Some(empty())),
        // It may have been accepted, and have waited, before that.
        Outcome::Refused(text) if text.contains(FENCED) => {
            (Outcome::Unknown("taken over"), Some(call.outcome.clone()))
        }
        Outcome::Refused(text) if text.contains("relay is stopping") => {
            (Outcome::Unknown("relay was stopping"), None)
        }
        Outcome::Unknown(_) => (call.outcome.clone(), Some(call.outcome.clone())),
        Outcome::Posted(_)
        | Outcome::Pending(_)
        | Outcome::Grouped
        | Outcome::Greeted { .. }
        | Outcome::Tools(_)
        | Outcome::Refused(_) => (call.outcome.clone(), None),
    };
    let read = read.map(|outcome| Record {
        asked: Asked::Read {
            of: from.clone(),
            wait_ms,
            limit: Some(1),
            filter: Filter {
                answers: Some(body.clone()),
                ..Filter::default()
            },
        },
        outcome,
        ..call.clone()
    });
    let is_told = matches!(call.outcome, Outcome::Posted(_));
    let post = Record {
        outcome: post,
        notice: call.notice.clone().filter(|_| is_told),
        told_ms: None,
        losses: Vec::new(),
        ..call.clone()
    };
    [post].into_iter().chain(read).collect()
}

/// Counts what the history shows to have happened to asks and reads that ask for some messages alone.
pub fn note_marks(history: &History, marks: &Marks) {
    for record in &history.calls {
        marks.hit_if(is_reply(record), "message answered");
        marks.hit_if(
            joins_beside_a_message(record, history),
            "channel joined beside a message to it",
        );
        let (Asked::Read { filter, .. }, Outcome::Messages { seen, .. }) = (&record.asked, &record.outcome)
        else {
            continue;
        };
        let some = !seen.is_empty();
        marks.hit_if(filter.answers.is_some() && some, "answer awaited");
        marks.hit_if(filter.answers.is_some() && !some, "answer awaited in vain");
        marks.hit_if(filter.from.is_some() && some, "read of one sender's");
        marks.hit_if(filter.channel.is_some() && some, "read of a channel's");
    }
}

/// Tells whether a call posted something that belongs to what came before it.
fn is_reply(record: &Record) -> bool {
    let posted = matches!(record.outcome, Outcome::Posted(_));
    posted && matches!(&record.asked, Asked::Post { belongs, .. } if *belongs != Belongs::Nothing)
}

/// Tells whether somebody read the channel for the first time while another one's message to it was under way.
fn joins_beside_a_message(record: &Record, history: &History) -> bool {
    let Some((channel, _)) = user_of_channel(record) else {
        return false;
    };
    let uses_it = |other: &Record| user_of_channel(other).is_some_and(|(other, _)| other == channel);
    let earlier =
        |other: &Record| other.agent == record.agent && other.sent_ms < record.sent_ms && uses_it(other);
    let sent_meanwhile = |other: &Record| {
        matches!(other.asked, Asked::Post { .. })
            && uses_it(other)
            && other.agent != record.agent
            && matches!(other.outcome, Outcome::Posted(_))
            && other.sent_ms <= record.ended_ms
            && other.ended_ms >= record.sent_ms
    };
    matches!(record.asked, Asked::Read { .. })
        && matches!(record.outcome, Outcome::Messages { .. })
        && !history.calls.iter().any(earlier)
        && history.calls.iter().any(sent_meanwhile)
}

/// Returns the whole name of the channel that a call is about, and who becomes a member of it by that: who writes into it, or
/// reads it by its name.
pub fn user_of_channel(record: &Record) -> Option<(String, &str)> {
    let (user, used) = match &record.asked {
        Asked::Post { from, to, .. } => (from, to),
        Asked::Read { of, filter, .. } => (of, filter.channel.as_ref()?),
        Asked::Pending { .. } | Asked::Group(_) | Asked::Illegal(_) | Asked::Greeting(_) | Asked::Tools => {
            return None;
        }
    };
    let is_it = used.ends_with(CHANNEL);
    is_it.then(|| (whole(project_of(user), used), user.as_str()))
}

fn membership(member: Member) -> Value {
    let (kind, name) = match member {
        Member::Mate { project, number } => {
            let target = Target::Mate(number);
            ("agent", Address { project, target }.to_string())
        }
        Member::Crew(number) => ("role", crew(number)),
    };
    json!({"group": GROUP, "member_type": kind, "member_value": name})
}

/// Reads what an inbox's messages mean, of Thrum's answers. Senders are named there as the reader's project calls them.
pub fn read(of: &str, answer: &Value, notice: Option<String>) -> Outcome {
    let messages = match answer["messages"].as_array() {
        Some(messages) => messages.as_slice(),
        None if answer["message"].is_null() => &[],
        None => std::slice::from_ref(&answer["message"]),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let seen = messages.iter().map(|message| Seen {
        id: text(&message["message_id"]),
        from: whole(project_of(of), &text(&message["from"])),
        // It stands there only where it is not the reader's name.
        to: message["to"]
            .as_str()
            .map_or_else(|| of.to_owned(), |to| whole(project_of(of), to)),
        kind: relay::engine::Kind::Free.as_str().to_owned(),
        body: text(&message["content"]),
        redelivered: message["redelivered"] == true,
        part: message["part"].as_str().and_then(which_part),
    });
    let seen = seen.collect();
    Outcome::Messages {
        seen,
        notice,
        is_cut: answer.get("more").is_some(),
    }
}

/// Reads which part of a message is shown: `2 of 5`.
pub fn which_part(text: &str) -> Option<(u32, u32)> {
    let (number, count) = text.split_once(" of ")?;
    Some((number.parse().ok()?, count.parse().ok()?))
}

/// Reads what Agent Relay's answers mean to somebody: texts for models.
pub fn read_words(of: &str, text: &str, notice: Option<String>, is_cut: bool) -> Outcome {
    if text.starts_with("Message sent to ") {
        return Outcome::Posted(String::new());
    }
    if let Some(answer) = text.strip_prefix("Response from ") {
        let (head, body) = answer.split_once(": ").expect("a name and an answer");
        let seen = vec![in_words(of, String::new(), head, body)];
        return Outcome::Messages { seen, notice, is_cut };
    }
    let messages = text.split_once(":\n\n").map(|(_, messages)| messages);
    let seen = messages
        .into_iter()
        .flat_map(|messages| messages.split("\n\n---\n\n"));
    let seen = seen.map(|message| {
        let (head, body) = message.split_once(":\n").expect("a head and a body");
        let (id, head) = head.split_once("] From ").expect("an id and a name");
        in_words(of, id[1..].to_owned(), head, body)
    });
    let seen = seen.collect();
    Outcome::Messages { seen, notice, is_cut }
}

/// Reads a message whose sender, and what else there is about it, stand before it.
fn in_words(of: &str, id: String, head: &str, body: &str) -> Seen {
    let mut words = head.split(' ');
    let from = whole(project_of(of), words.next().unwrap_or_default());
    let channel = words
        .clone()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Seen {
        id,
        from,
        to: channel.map_or_else(String::new, |channel| whole(project_of(of), channel)),
        kind: relay::engine::Kind::Free.as_str().to_owned(),
        body: body.to_owned(),
        redelivered: words.any(|word| word == "(redelivered)"),
        part: head
            .split_once("(part ")
            .and_then(|(_, part)| which_part(part.strip_suffix(')')?)),
    }
}

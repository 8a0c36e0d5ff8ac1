//! The JSON form of messages, the same for every reader: tools, and the person's commands.

use super::text::{Json, Object, Texts};
use crate::engine::absence::{Absence, Absent};
use crate::engine::address::Warning;
use crate::engine::holds::HeldBy;
use crate::engine::room::Part;
use crate::engine::{AgentName, Context, Delivery, GroupName, Message, Role, Timestamp};

/// Room that a message takes beside its body, in bytes: its names, id and time, with the quotes escaped.
const FRAME_BYTES: usize = 320;

/// Writes deliveries as the JSON array of the source design, each `{"id", "from", "to", "kind", "body", "ts"}`, with `"thread"`,
/// `"reply_to"` and `"metadata"` on one that has them, and `"redelivered": true` on one that may have been seen before. `project` is
/// the reader's: names are written so that it can answer to them. Seen from the default one, they are whole.
pub fn write(deliveries: &[Delivery], project: &str, json: &mut Json<'_>) {
    // An eighth more for what has to be escaped in it.
    let room = |body: &str| body.len() + body.len() / 8 + FRAME_BYTES;
    json.reserve(
        deliveries
            .iter()
            .map(|delivery| room(&delivery.message.body))
            .sum(),
    );
    json.array(deliveries, |json, delivery| {
        json.object(|object| write_delivery(delivery, project, object));
    });
}

/// Writes what a read has handed over, in the same form: of one that is shown in parts, `"body"` is a part, and `"part"` says which.
pub fn write_read(deliveries: &[Delivery], part: Option<&Part>, project: &str, json: &mut Json<'_>) {
    match part {
        None => write(deliveries, project, json),
        Some(part) => json.array(deliveries, |json, delivery| {
            json.object(|object| {
                write_part(delivery, part, project, object);
            });
        }),
    }
}

fn write_part(delivery: &Delivery, part: &Part, project: &str, object: &mut Object<'_>) {
    let message = &delivery.message;
    write_head(message, project, object);
    object.member("body").string(part.body(message));
    write_time(message.ts, object.member("ts"));
    if let Some(context) = &message.context {
        write_thread(context, object);
    }
    write_which(part, message, object);
    if delivery.redelivered {
        object.member("redelivered").boolean(true);
    }
}

/// Says which part of a message is shown: `"part": "2 of 5"`, and what of its metadata is in it.
pub fn write_which(part: &Part, message: &Message, object: &mut Object<'_>) {
    let metadata = part.metadata(message);
    if !metadata.is_empty() {
        object.member("metadata_part").string(metadata);
    }
    object.member("part").plain(&which(part));
}

/// Says which part of a message is shown.
pub fn which(part: &Part) -> String {
    format!("{} of {}", part.number, part.of)
}

/// Writes one of them.
pub fn write_delivery(delivery: &Delivery, project: &str, object: &mut Object<'_>) {
    write_message(&delivery.message, project, object);
    if delivery.redelivered {
        object.member("redelivered").boolean(true);
    }
}

/// Writes what was sent, with names as they are called in a project.
pub fn write_message(message: &Message, project: &str, object: &mut Object<'_>) {
    write_head(message, project, object);
    object.member("body").string(&message.body);
    write_time(message.ts, object.member("ts"));
    if let Some(context) = &message.context {
        write_thread(context, object);
        if let Some(metadata) = &context.metadata {
            object.member("metadata").raw(metadata);
        }
    }
}

fn write_head(message: &Message, project: &str, object: &mut Object<'_>) {
    let mut id = uuid::Uuid::encode_buffer();
    object
        .member("id")
        .plain(message.id.0.hyphenated().encode_lower(&mut id));
    object.member("from").plain(&message.from.seen_from(project));
    object.member("to").plain(&message.to.seen_from(project));
    object.member("kind").plain(message.kind.as_str());
}

/// Writes what a message belongs to, as far as it belongs to anything.
pub fn write_thread(context: &Context, object: &mut Object<'_>) {
    if let Some(thread) = &context.thread {
        object.member("thread").string(thread);
    }
    if let Some(reply_to) = &context.reply_to {
        object.member("reply_to").plain(&reply_to.to_string());
    }
}

/// What a reply had no room for.
#[derive(Debug, Clone, Copy)]
pub struct Rest<'a> {
    /// The part that it has, if it has no more of a message than one.
    pub part: Option<&'a Part>,
    /// Something that was asked for is not in it.
    pub is_cut: bool,
    /// How many messages wait, of which some may not have been asked for; one that is shown in parts is one of them until its last.
    pub remaining: usize,
    /// The tool that takes them.
    pub tool: &'static str,
}

/// Tells a reader, in a text of its own, what its reply had no room for and how it gets the rest, if there is a rest.
pub fn tell_of_rest(rest: &Rest<'_>, texts: &mut Texts<'_>) {
    if let Some(said) = rest_text(rest) {
        texts.plain(said);
    }
}

/// The same in the answer's data.
pub fn write_rest(rest: &Rest<'_>, object: &mut Object<'_>) {
    if let Some(said) = rest_text(rest) {
        object.member("more").string(&said);
    }
}

fn rest_text(rest: &Rest<'_>) -> Option<String> {
    let Rest {
        part,
        is_cut,
        remaining,
        tool,
    } = *rest;
    let wait = |count: usize| match count {
        1 => "1 more message waits".to_owned(),
        _ => format!("{count} more messages wait"),
    };
    match part {
        Some(part) if !part.is_last() => {
            let behind = match remaining.saturating_sub(1) {
                0 => String::new(),
                behind => format!("; {} behind it", wait(behind)),
            };
            let (number, next, of) = (part.number, part.number + 1, part.of);
            let (missing, all) = match missing_text(part) {
                Some(missing) => (missing, LACKS),
                None => (String::new(), "act on it once you have all"),
            };
            Some(format!(
                "this is part {number} of {of} of one message{missing}: call {tool} again for part {next}, and {all}{behind}"
            ))
        }
        Some(_) | None => {
            let missing = part.and_then(missing_text);
            let missing =
                missing.map(|missing| format!("this was the last part of one message{missing}: {LACKS}"));
            let rest = is_cut.then(|| {
                format!(
                    "{}: this reply has as many as your client shows whole; call {tool} again",
                    wait(remaining)
                )
            });
            let both: Vec<String> = missing.into_iter().chain(rest).collect();
            (!both.is_empty()).then(|| both.join("; "))
        }
    }
}

/// What becomes of parts that went to somebody else.
const LACKS: &str = "ask its sender to repeat what you lack";

/// Says which parts of a message its reader was not shown, which somebody was who is taken for it.
fn missing_text(part: &Part) -> Option<String> {
    match part.begun - 1 {
        0 => None,
        1 => Some(", whose first part went to a connection that has ended".to_owned()),
        before => Some(format!(
            ", whose first {before} parts went to connections that have ended"
        )),
    }
}

/// Tells a reader of the start of relay, if it is to be told of it: in a text of its own.
pub fn tell_of_start(restarted: Option<Timestamp>, texts: &mut Texts<'_>) {
    if let Some(at) = restarted {
        texts.plain(notice(at));
    }
}

/// Tells of the start in an answer's data too: Claude Code shows its model the data of an answer that has some, and no texts.
pub fn write_notice(restarted: Option<Timestamp>, object: &mut Object<'_>) {
    if let Some(at) = restarted {
        object.member("notice").string(&notice(at));
    }
}

/// Says when relay started, and what that means to who reads it.
pub(super) fn notice(at: Timestamp) -> String {
    format!("relay started at {at}; nothing sent before that is here; send again what was not acknowledged")
}

/// Tells a sender, in a text of its own, that nobody got its message, or that nobody is there to read it, if it is so.
pub fn tell_sender(posted: &Posted<'_>, texts: &mut Texts<'_>) {
    if let Some(note) = note(posted) {
        texts.plain(format_args!("note: {note}"));
    }
}

/// The same in the answer's data.
pub fn write_note(posted: &Posted<'_>, object: &mut Object<'_>) {
    if let Some(note) = note(posted) {
        object.member("note").string(&note);
    }
}

/// What a sender may have to know of its message.
#[derive(Debug, Clone, Copy)]
pub struct Posted<'a> {
    /// The address, as it was given.
    pub given: &'a str,
    /// What else it means.
    pub warnings: &'a [Warning],
    /// Why it may wait for long.
    pub absence: Option<&'a Absence>,
}

fn note(posted: &Posted<'_>) -> Option<String> {
    if posted.warnings.is_empty() && posted.absence.is_none() {
        return None;
    }
    let warned = posted.warnings.iter().filter_map(|warning| match warning {
        Warning::NobodyElse(_) => Some(alone_text(posted.given)),
        Warning::NobodysChannel(_) => Some(nobodys_text(posted.given)),
        Warning::AlsoRole(role) => Some(also_role_text(role)),
        Warning::AlsoGroup(group) => Some(also_group_text(group)),
        Warning::AnswersForgotten => Some(FORGOTTEN_TEXT.to_owned()),
        Warning::Repeated => None,
    });
    let absence = posted.absence.map(absence_text);
    let notes: Vec<String> = warned.chain(absence).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Says that what a message answers is not known.
pub const FORGOTTEN_TEXT: &str =
    "the message that it answers is not known any more: it does not count as its answer";

/// Says that an agent is called as a role of others is.
pub fn also_role_text(role: &Role) -> String {
    format!("{role} is a role of others, too; it was sent to the agent")
}

/// Says that an agent or a role is called as a group is.
pub fn also_group_text(group: &GroupName) -> String {
    format!("{group} is a group, too; it was not sent to its members")
}

/// Says that nobody else is in a channel, by the address that was given.
pub fn alone_text(given: &str) -> String {
    format!("{given} has no other member yet; nobody got the message")
}

/// Says that there was no such channel, by the address that was given.
pub fn nobodys_text(given: &str) -> String {
    format!("nobody had made or joined {given}, so nobody got the message; look at how its name is written")
}

/// Tells in the answer's data that nobody is there to read a message, if it is so.
pub fn write_absence(absence: Option<&Absence>, object: &mut Object<'_>) {
    if let Some(absence) = absence {
        object.member("note").string(&absence_text(absence));
    }
}

/// Says why a message may wait for long.
pub fn absence_text(absence: &Absence) -> String {
    match absence {
        Absence::PushFailing { agent, since, error } => {
            format!("what is pushed to {agent} has not been taken since {since} ({error}); the message waits")
        }
        Absence::Holding { agent } => format!(
            "{agent} takes messages when it asks for them (its mode is manual); the message is held until then, or until somebody flushes them"
        ),
        Absence::Held { by, agent, others } => held_text(*by, agent, *others),
        Absence::Asleep { agent } => format!(
            "the program of {agent} is idle, and nothing can wake it; the message waits until its person says something to it"
        ),
        Absence::Unwoken { agent, mode } => format!(
            "the program of {agent} is idle, and a message with the mode {} wakes nobody; it waits for the next turn",
            mode.as_str()
        ),
        Absence::Asks { agent } => format!(
            "the program of {agent} waits for its person to allow something; the message is shown behind that"
        ),
        Absence::NodeGone { agent, last_contact } => {
            let since = last_contact.map_or_else(
                || "has not been connected".to_owned(),
                |at| format!("was last heard of at {at}, and is not connected any more"),
            );
            format!("the node of {agent} {since}; the message waits")
        }
        Absence::ReceiptsMissing { agent, receipts } => format!(
            "{receipts} receipts are missing for what {agent} was shown, and its node gets nothing more until they are given; the message waits"
        ),
        Absence::Never { who, started_at } => {
            let who = match who {
                Absent::One(agent) => agent.to_string(),
                Absent::All(count) => format!("any of the {count} recipients"),
            };
            format!("no agent has read for {who} since relay started at {started_at}; the message waits")
        }
        Absence::Gone { who, last_contact } => match who {
            Absent::One(agent) => {
                format!(
                    "{agent} was last there at {last_contact}, and its session has ended; the message waits"
                )
            }
            Absent::All(count) => format!(
                "none of the {count} recipients is there, the last one was at {last_contact}; the message waits"
            ),
        },
    }
}

/// Says that a message is held.
fn held_text(by: HeldBy, agent: &AgentName, others: usize) -> String {
    let what = match (by, others) {
        (HeldBy::All, _) => "all messages".to_owned(),
        (HeldBy::From, _) => format!("what {agent} sends"),
        (HeldBy::To, 0) => format!("what is sent to {agent}"),
        (HeldBy::To, 1) => format!("what is sent to {agent} and one other recipient"),
        (HeldBy::To, _) => format!("what is sent to {agent} and {others} other recipients"),
    };
    format!("the person holds {what}, and has not let it pass yet; the message waits until then")
}

/// Writes a time as it is shown everywhere.
pub fn write_time(at: Timestamp, json: &mut Json<'_>) {
    match at.rfc3339() {
        Some(text) => json.plain(std::str::from_utf8(&text).expect("digits are ASCII")),
        None => json.string(&at.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_it_is_shown() {
        for ms in [0, 1_777_732_321_042, -1, i64::MAX, i64::MIN] {
            let at = Timestamp::from_millis(ms);
            let mut json = Vec::new();
            write_time(at, &mut Json::document(&mut json));
            assert_eq!(String::from_utf8(json).expect("UTF-8"), format!("\"{at}\""));
        }
    }
}

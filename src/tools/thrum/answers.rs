//! What Thrum's tools for messages answer.

use super::CHECK_MESSAGES;
use crate::engine::address::Warning;
use crate::engine::room::Part;
use crate::engine::{DEFAULT_PROJECT, Delivery, Recipient, Reply, ResolvedBy, mail};
use crate::tools::messages::{self, Rest};
use crate::tools::text::{Json, Texts};

pub(super) fn sent(reply: &Reply, texts: &mut Texts<'_>) {
    let Reply::Mail(mail::Reply::Posted {
        id,
        to,
        thread,
        warnings,
        absence,
        given,
        ts: _,
    }) = reply
    else {
        unreachable!("a post is answered with an id, not {reply:?}");
    };
    texts.structured(|object| {
        let is_in_vain = warnings.iter().any(Warning::is_in_vain);
        let status = if is_in_vain { "no_recipients" } else { "delivered" };
        object.member("status").plain(status);
        object.member("message_id").plain(&id.to_string());
        object.member("resolved_to").plain(resolved_to(to));
        let matched = matched_role(to, given).into_iter();
        let warned = matched.chain(warnings.iter().map(|warning| warned(warning, given)));
        object
            .member("warnings")
            .array(warned, |json, warning| json.string(&warning));
        messages::write_absence(absence.as_deref(), object);
        if let Some(thread) = thread {
            object.member("thread_id").string(thread);
        }
    });
}

/// Says how the recipient was resolved: to Thrum `@everyone` is a group.
fn resolved_to(to: &Recipient) -> &'static str {
    if to.by() == ResolvedBy::Broadcast && to.as_str() != ALL_PROJECTS {
        return ResolvedBy::Group.as_str();
    }
    to.by().as_str()
}

/// What the agents of all projects are shown as together, which Thrum does not have.
const ALL_PROJECTS: &str = "*:*";

/// Warns that a name after `@` is that of a role.
fn matched_role(to: &Recipient, given: &str) -> Option<String> {
    let name = given.rsplit(':').next().unwrap_or_default();
    let is_mention = name.starts_with('@') && to.by() == ResolvedBy::Role;
    is_mention.then(|| format!("{given} matched a role; it was sent to all of that role"))
}

fn warned(warning: &Warning, given: &str) -> String {
    match warning {
        Warning::AlsoRole(role) => messages::also_role_text(role),
        Warning::AlsoGroup(group) => messages::also_group_text(group),
        Warning::AnswersForgotten => messages::FORGOTTEN_TEXT.to_owned(),
        Warning::Repeated => "it was sent before, and was not sent again".to_owned(),
        Warning::NobodyElse(_) => messages::alone_text(given),
        Warning::NobodysChannel(_) => messages::nobodys_text(given),
    }
}

/// What is not in an answer, and is asked for with `check_messages`.
fn rest(part: Option<&Part>, is_cut: bool, remaining: usize) -> Rest<'_> {
    Rest {
        part,
        is_cut,
        remaining,
        tool: CHECK_MESSAGES.name,
    }
}

pub(super) fn checked(reply: &Reply, texts: &mut Texts<'_>) {
    let Reply::Mail(mail::Reply::Messages {
        deliveries,
        part,
        is_cut,
        restarted,
        remaining,
        project,
        ..
    }) = reply
    else {
        unreachable!("a read is answered with messages, not {reply:?}");
    };
    let status = if deliveries.is_empty() {
        "empty"
    } else {
        "messages"
    };
    let (project, part) = (project.as_deref().unwrap_or(DEFAULT_PROJECT), part.as_deref());
    let rest = rest(part, *is_cut, *remaining);
    texts.structured(|object| {
        object.member("status").plain(status);
        object
            .member("messages")
            .array(deliveries.iter(), |json, delivery| {
                write_message(delivery, part, project, json);
            });
        object.member("remaining").number(*remaining);
        messages::write_rest(&rest, object);
        messages::write_notice(*restarted, object);
    });
    messages::tell_of_start(*restarted, texts);
}

pub(super) fn waited(reply: &Reply, texts: &mut Texts<'_>) {
    let Reply::Mail(mail::Reply::Messages {
        deliveries,
        part,
        is_cut,
        remaining,
        restarted,
        waited_ms,
        project,
        ..
    }) = reply
    else {
        unreachable!("a read is answered with messages, not {reply:?}");
    };
    let (project, part) = (project.as_deref().unwrap_or(DEFAULT_PROJECT), part.as_deref());
    let rest = rest(part, *is_cut, *remaining);
    texts.structured(|object| {
        let first = deliveries.first();
        let status = if first.is_some() {
            "message_received"
        } else {
            "timeout"
        };
        object.member("status").plain(status);
        match first {
            Some(delivery) => write_message(delivery, part, project, object.member("message")),
            None => object.member("message").null(),
        }
        let seconds = usize::try_from(waited_ms / 1_000).unwrap_or_default();
        object.member("waited_seconds").number(seconds);
        messages::write_rest(&rest, object);
        messages::write_notice(*restarted, object);
    });
    messages::tell_of_start(*restarted, texts);
}

/// Writes a message as Thrum has it; what Thrum does not have stands there only where it says something.
fn write_message(delivery: &Delivery, part: Option<&Part>, project: &str, json: &mut Json<'_>) {
    let message = &delivery.message;
    json.object(|object| {
        object.member("message_id").plain(&message.id.to_string());
        object.member("from").plain(&message.from.seen_from(project));
        let body = part.map_or(&*message.body, |part| part.body(message));
        object.member("content").string(body);
        messages::write_time(message.ts, object.member("timestamp"));
        if let Some(context) = &message.context {
            if let Some(thread) = &context.thread {
                object.member("thread_id").string(thread);
            }
            if let Some(reply_to) = &context.reply_to {
                object.member("reply_to").plain(&reply_to.to_string());
            }
            if let Some(metadata) = &context.metadata
                && part.is_none()
            {
                object.member("metadata").raw(metadata);
            }
        }
        if message.to.by() != ResolvedBy::Name {
            object.member("to").plain(&message.to.seen_from(project));
        }
        if let Some(part) = part {
            messages::write_which(part, message, object);
        }
        if delivery.redelivered {
            object.member("redelivered").boolean(true);
        }
    });
}

//! What the resources of Agent Relay show, in JSON.

use std::num::NonZeroUsize;

use super::{VERSION, You, channel, seen_from, you};
use crate::engine::agents::{AgentView, Status};
use crate::engine::room::{Escapes, Form, Room};
use crate::engine::{Command, Reply, agents, mail};
use crate::tools::text::{Json, which_fit};
use crate::tools::{ReplyBytes, messages};

/// How many messages the resource of the inbox shows.
const INBOX_SHOWN: NonZeroUsize = NonZeroUsize::new(50).expect("it is not 0");

pub(super) fn look_at_inbox() -> Command {
    let command = mail::Command::Peek {
        agent: None,
        limit: Some(INBOX_SHOWN),
    };
    command.into()
}

/// Writes the agents; the last one says in `"remaining"` how many more there are, if no more are shown.
pub(super) fn agents_to_json(reply: &Reply, reply_max: ReplyBytes, json: &mut Json<'_>) {
    let Reply::Agents(agents::Reply::Listed { agents, project }) = reply else {
        unreachable!("a look is answered with agents, not {reply:?}");
    };
    let write = |json: &mut Json<'_>, agent: &AgentView, remaining: usize| {
        json.object(|object| {
            object.member("name").plain(&agent.name.seen_from(project));
            let profile = &agent.profile;
            object
                .member("cli")
                .string(profile.cli.as_deref().unwrap_or("unknown"));
            object.member("idle").boolean(agent.status != Status::Active);
            for (name, value) in [
                ("role", &profile.role),
                ("parent", &profile.parent),
                ("cwd", &profile.cwd),
            ] {
                if let Some(value) = value {
                    object.member(name).string(value);
                }
            }
            if remaining > 0 {
                object.member("remaining").number(remaining);
            }
        });
    };
    let left = reply_max.left_beside(BESIDE_BYTES);
    let fitting = which_fit(agents, left, |json, agent| write(json, agent, 0));
    let (count, remaining) = (fitting.len(), agents.len() - fitting.len());
    json.array(fitting.into_iter().enumerate(), |json, (at, agent)| {
        let is_last = at + 1 == count;
        write(json, agent, if is_last { remaining } else { 0 });
    });
}

/// Bytes of a resource beside what it lists.
const BESIDE_BYTES: usize = 256;

/// Writes the oldest messages as the array that the document has; the last one says in `"remaining"` how many more wait, if some do. Of a first one
/// that is not shown whole, it has the beginning, and says in `"part"` how much that is.
pub(super) fn inbox_to_json(reply: &Reply, reply_max: ReplyBytes, json: &mut Json<'_>) {
    let Reply::Mail(mail::Reply::Seen {
        deliveries,
        remaining,
        project,
        ..
    }) = reply
    else {
        unreachable!("a look is answered with messages, not {reply:?}");
    };
    let all = deliveries.len() + remaining;
    let project = seen_from(project.as_deref());
    let room = reply_max.bytes().map(|bytes| Room { bytes, form: FORM });
    let fitting = room.map_or(deliveries.len(), |room| {
        let mut left = room.for_messages();
        let taken = deliveries.iter().map_while(|delivery| {
            left -= room.taken_by(&delivery.message, left)?;
            Some(())
        });
        taken.count()
    });
    let part = match (&deliveries[..], fitting, room) {
        ([first, ..], 0, Some(room)) => Some(room.part(&first.message, 0, (1, None))),
        _ => None,
    };
    let deliveries = &deliveries[..fitting.max(usize::from(part.is_some()))];
    let remaining = all - deliveries.len();
    let last = deliveries.len().saturating_sub(1);
    json.array(deliveries.iter().enumerate(), |json, (at, delivery)| {
        let message = &delivery.message;
        json.object(|object| {
            object.member("id").plain(&message.id.to_string());
            object.member("from").plain(&message.from.seen_from(project));
            let body = part.as_ref().map_or(&*message.body, |part| part.body(message));
            object.member("content").string(body);
            if let Some(channel) = channel(delivery, project) {
                object.member("channel").plain(&channel);
            }
            if let Some(thread) = message.thread() {
                object.member("thread").string(thread);
            }
            match (&part, message.metadata()) {
                (None, Some(metadata)) => object.member("metadata").raw(metadata),
                (Some(part), _) => messages::write_which(part, message, object),
                (None, None) => {}
            }
            messages::write_time(message.ts, object.member("timestamp"));
            if delivery.redelivered {
                object.member("redelivered").boolean(true);
            }
            if at == last && remaining > 0 {
                object.member("remaining").number(remaining);
            }
        });
    });
}

/// How the resource of an inbox is written.
const FORM: Form = Form {
    reply: 128,
    message: 192,
    context: 80,
    part: 64,
    escapes: Escapes::Twice,
    has_metadata: true,
    lines_max: None,
};

pub(super) fn project_to_json(reply: &Reply, _: ReplyBytes, json: &mut Json<'_>) {
    let You { project, place, .. } = you(reply);
    json.object(|object| {
        object.member("project").plain(project);
        object.member("socketPath").string(place);
        object.member("daemonVersion").plain(VERSION);
    });
}

//! What the resources of Agent Relay show, in JSON.

use std::num::NonZeroUsize;

use super::{VERSION, You, channel, seen_from, you};
use crate::engine::{Command, Reply, agents, mail};
use crate::tools::messages;
use crate::tools::text::Json;

/// How many messages the resource of the inbox shows.
const INBOX_SHOWN: NonZeroUsize = NonZeroUsize::new(50).expect("it is not 0");

pub(super) fn look_at_inbox() -> Command {
    let command = mail::Command::Peek {
        agent: None,
        limit: Some(INBOX_SHOWN),
    };
    command.into()
}

pub(super) fn agents_to_json(reply: &Reply, json: &mut Json<'_>) {
    let Reply::Agents(agents::Reply::Listed { agents, project }) = reply else {
        unreachable!("a look is answered with agents, not {reply:?}");
    };
    json.array(agents, |json, agent| {
        json.object(|object| {
            object.member("name").plain(&agent.name.seen_from(project));
            let profile = &agent.profile;
            object
                .member("cli")
                .string(profile.cli.as_deref().unwrap_or("unknown"));
            object.member("idle").boolean(!agent.is_active);
            for (name, value) in [
                ("role", &profile.role),
                ("parent", &profile.parent),
                ("cwd", &profile.cwd),
            ] {
                if let Some(value) = value {
                    object.member(name).string(value);
                }
            }
        });
    });
}

/// Writes the oldest messages as the array that the document has; the last one says in `"remaining"` how many more wait, if some do.
pub(super) fn inbox_to_json(reply: &Reply, json: &mut Json<'_>) {
    let Reply::Mail(mail::Reply::Seen {
        deliveries,
        remaining,
        project,
        ..
    }) = reply
    else {
        unreachable!("a look is answered with messages, not {reply:?}");
    };
    let project = seen_from(project.as_deref());
    let last = deliveries.len().saturating_sub(1);
    json.array(deliveries.iter().enumerate(), |json, (at, delivery)| {
        let message = &delivery.message;
        json.object(|object| {
            object.member("id").plain(&message.id.to_string());
            object.member("from").plain(&message.from.seen_from(project));
            object.member("content").string(&message.body);
            if let Some(channel) = channel(delivery, project) {
                object.member("channel").plain(&channel);
            }
            if let Some(thread) = message.thread() {
                object.member("thread").string(thread);
            }
            if let Some(metadata) = message.metadata() {
                object.member("metadata").raw(metadata);
            }
            messages::write_time(message.ts, object.member("timestamp"));
            if delivery.redelivered {
                object.member("redelivered").boolean(true);
            }
            if at == last && *remaining > 0 {
                object.member("remaining").number(*remaining);
            }
        });
    });
}

pub(super) fn project_to_json(reply: &Reply, json: &mut Json<'_>) {
    let You { project, place, .. } = you(reply);
    json.object(|object| {
        object.member("project").plain(project);
        object.member("socketPath").string(place);
        object.member("daemonVersion").plain(VERSION);
    });
}

//! What the resources of Agent Relay show, in JSON.

use super::{VERSION, You, channel, seen_from, you};
use crate::engine::{Reply, agents, mail};
use crate::tools::messages;
use crate::tools::text::Json;

/// How many messages the resource of the inbox shows.
const INBOX_SHOWN: usize = 50;

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

pub(super) fn inbox_to_json(reply: &Reply, json: &mut Json<'_>) {
    let Reply::Mail(mail::Reply::Seen {
        deliveries, project, ..
    }) = reply
    else {
        unreachable!("a look is answered with messages, not {reply:?}");
    };
    let project = seen_from(project.as_deref());
    json.array(deliveries.iter().take(INBOX_SHOWN), |json, delivery| {
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
            messages::write_time(message.ts, object.member("timestamp"));
            if delivery.redelivered {
                object.member("redelivered").boolean(true);
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

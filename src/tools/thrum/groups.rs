//! What Thrum's tools for groups answer.

use super::{LIST_BYTES, write_left_out};
use crate::engine::groups::{self, GroupView, Member};
use crate::engine::{AgentName, GroupName, Reply, Timestamp};
use crate::tools::messages;
use crate::tools::refusals::member_words;
use crate::tools::text::{Json, Object, Texts, how_long, which_fit};

pub(super) fn grouped(reply: &Reply, texts: &mut Texts<'_>) {
    let Reply::Groups(reply) = reply else {
        unreachable!("a command about groups is answered with groups, not {reply:?}");
    };
    let reply_max = texts.reply_max();
    texts.structured(|object| match reply {
        groups::Reply::Created { name } => {
            object.member("status").plain("created");
            object.member("name").plain(name.local());
        }
        groups::Reply::Deleted { name } => {
            object.member("status").plain("deleted");
            object.member("name").plain(name.local());
        }
        groups::Reply::Added { group, member } => write_membership("added", group, member, object),
        groups::Reply::Removed { group, member } => {
            write_membership("removed", group, member, object);
        }
        groups::Reply::Listed { groups } => {
            let write = |json: &mut Json<'_>, group: &GroupView| {
                json.object(|object| {
                    write_group(group, object);
                    object.member("member_count").number(group.members);
                });
            };
            let fitting = which_fit(groups, reply_max.left_beside(LIST_BYTES), write);
            let left_out = groups.len() - fitting.len();
            object.member("groups").array(fitting, write);
            write_left_out(left_out, object);
        }
        groups::Reply::Seen {
            group,
            members,
            agents,
        } => {
            let write = |json: &mut Json<'_>, member: &Member| {
                let (kind, name) = member_words(member, &group.project);
                json.object(|object| {
                    object.member("type").plain(kind);
                    object.member("id").plain(&name);
                });
            };
            let write_agent = |json: &mut Json<'_>, agent: &AgentName| {
                json.plain(&agent.seen_from(&group.project));
            };
            let beside = how_long(|json| json.object(|object| write_group(group, object)));
            let left = reply_max.left_beside(LIST_BYTES + beside) / 2;
            write_group(group, object);
            let fitting = which_fit(members, left, write);
            let mut left_out = members.len() - fitting.len();
            object.member("members").array(fitting, write);
            if let Some(agents) = agents {
                let fitting = which_fit(agents, left, write_agent);
                left_out += agents.len() - fitting.len();
                object.member("expanded_agents").array(fitting, write_agent);
                object.member("expanded_agents_count").number(agents.len());
            }
            write_left_out(left_out, object);
        }
    });
}

fn write_membership(status: &str, group: &GroupName, member: &Member, object: &mut Object<'_>) {
    let (kind, name) = member_words(member, group.project());
    object.member("status").plain(status);
    object.member("group").plain(group.local());
    object.member("member_type").plain(kind);
    object.member("member_value").plain(&name);
}

fn write_group(group: &GroupView, object: &mut Object<'_>) {
    object.member("name").plain(&group.name);
    object.member("description").string(&group.description);
    let at: Timestamp = group.created_at;
    messages::write_time(at, object.member("created_at"));
    let by = group.created_by.as_ref().map(|by| by.seen_from(&group.project));
    object
        .member("created_by")
        .plain(by.as_deref().unwrap_or("relay"));
}

//! Who there is, as the person may see it: agents, groups and channels. Projects stand before the names of all but the default one's.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::{answer, answer_of, asked, call, object};
use crate::engine::agents::{self, AgentView, Status, Which};
use crate::engine::channels::{self, ChannelView};
use crate::engine::groups::{self, GroupView, Member};
use crate::engine::{AgentName, DEFAULT_PROJECT};
use crate::server::wire::Link;
use crate::server::{Shared, refuse};
use crate::tools::messages;
use crate::tools::text::{Json, Object};

/// What `POST /api/agents` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListAgents {
    /// All projects, if it is left out.
    project: Option<String>,
    #[serde(default)]
    active_only: bool,
}

/// What `POST /api/retire` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retire {
    agent: String,
}

/// What `POST /api/groups` and `POST /api/channels` take.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Look {
    /// The default one, if it is left out; a project before the name says more.
    project: Option<String>,
    /// All of the project, if it is left out.
    name: Option<String>,
}

/// What `POST /api/group` takes.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum ChangeGroup {
    Make {
        group: String,
        #[serde(default)]
        description: String,
    },
    Join {
        group: String,
        agent: Option<String>,
        role: Option<String>,
    },
    Leave {
        group: String,
        agent: Option<String>,
        role: Option<String>,
    },
    Remove {
        group: String,
    },
}

/// What `POST /api/channel` takes.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum ChangeChannel {
    Make {
        channel: String,
        #[serde(default)]
        topic: String,
        agents: Vec<String>,
    },
    Join {
        channel: String,
        agents: Vec<String>,
    },
    Leave {
        channel: String,
        agents: Vec<String>,
    },
    Remove {
        channel: String,
    },
}

/// `POST /api/agents`: answers `{"agents": [{"agent", "role"?, "module"?, "cli"?, "parent"?, "cwd"?, "status", "last_contact"}]}`, in the
/// order of their names; `status` is `active`, `idle` or `offline`, and `last_contact` null where there was none since the start.
pub(in crate::server) async fn list_agents(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let ListAgents { project, active_only } = match asked(request).await {
        Ok(asked) => asked,
        Err(response) => return *response,
    };
    let project = Some(project.unwrap_or_else(|| "*".to_owned()));
    let which = if active_only { Which::Active } else { Which::All };
    answer(&shared, &link, agents::Command::List { project, which }).await
}

/// `POST /api/groups`: answers `{"groups": [{"group", "description", "created_at", "created_by", "members"}]}`, where `members` counts them; of
/// one that is named `{"group", "description", "created_at", "created_by", "members": [{"agent"} or {"role"}], "agents": [agent]}`.
pub(in crate::server) async fn list_groups(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Look { project, name: None }) => answer(&shared, &link, groups::Command::List { project }).await,
        Ok(Look {
            project,
            name: Some(name),
        }) => {
            let name = within(project, name, '@');
            answer(&shared, &link, groups::Command::Get { name, expand: true }).await
        }
        Err(response) => *response,
    }
}

/// `POST /api/channels`: answers `{"channels": [{"channel", "topic", "created_at", "members"}]}`, where `members` counts them; of one that is
/// named `{"channel", "topic", "created_at", "members": [{"agent", "since"}]}`.
pub(in crate::server) async fn list_channels(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Look { project, name: None }) => answer(&shared, &link, channels::Command::List { project }).await,
        Ok(Look {
            project,
            name: Some(name),
        }) => {
            let name = within(project, name, '#');
            answer(&shared, &link, channels::Command::Get { name }).await
        }
        Err(response) => *response,
    }
}

/// `POST /api/group`: makes or removes a group, answering `{"group": name}`, or puts a member in or takes one out, answering
/// `{"group": name, "agent": name}` or `{"group": name, "role": role}`.
pub(in crate::server) async fn change_group(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let named = |agent: Option<String>, role: Option<String>| match (agent, role) {
        (Some(agent), None) => Some(groups::Named::Agent(agent)),
        (None, Some(role)) => Some(groups::Named::Role(role)),
        (Some(_), Some(_)) | (None, None) => None,
    };
    let command = match asked(request).await {
        Ok(ChangeGroup::Make { group, description }) => Some(groups::Command::Create {
            name: group,
            description,
        }),
        Ok(ChangeGroup::Join { group, agent, role }) => {
            named(agent, role).map(|member| groups::Command::Add { group, member })
        }
        Ok(ChangeGroup::Leave { group, agent, role }) => {
            named(agent, role).map(|member| groups::Command::Remove { group, member })
        }
        Ok(ChangeGroup::Remove { group }) => Some(groups::Command::Delete { name: group }),
        Err(response) => return *response,
    };
    match command {
        Some(command) => answer(&shared, &link, command).await,
        None => {
            let reason = "/api/group takes one member: an \"agent\" or a \"role\"";
            refuse(StatusCode::BAD_REQUEST, reason)
        }
    }
}

/// `POST /api/channel`: makes a channel, puts agents into it or takes them out, or ends it; answers `{"channel": name, "members": [agent]}`,
/// where a channel without members is gone.
pub(in crate::server) async fn change_channel(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let (name, change) = match asked(request).await {
        Ok(ChangeChannel::Make {
            channel,
            topic,
            agents,
        }) => (channel, channels::Change::Make { topic, agents }),
        Ok(ChangeChannel::Join { channel, agents }) => (channel, channels::Change::Add { agents }),
        Ok(ChangeChannel::Leave { channel, agents }) => (channel, channels::Change::Take { agents }),
        Ok(ChangeChannel::Remove { channel }) => (channel, channels::Change::End),
        Err(response) => return *response,
    };
    answer(&shared, &link, channels::Command::Change { name, change }).await
}

/// `POST /api/retire`: removes an agent that nothing uses, and answers `{"retired": agent}`.
pub(in crate::server) async fn retire(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Retire { agent }) => {
            let retire = agents::Command::Retire { agent };
            let called = shared.api.retire(|| call(&shared, &link, retire));
            answer_of(&shared, &link, called).await
        }
        Err(response) => *response,
    }
}

/// Puts a project before a name that has none.
fn within(project: Option<String>, name: String, sign: char) -> String {
    match project {
        Some(project) if !name.contains(':') => {
            format!("{project}:{}", name.strip_prefix(sign).unwrap_or(&name))
        }
        Some(_) | None => name,
    }
}

/// Writes an answer that is about agents.
pub(super) fn agents(reply: &agents::Reply) -> Vec<u8> {
    match reply {
        agents::Reply::Listed { agents, .. } => object(|object| {
            let each = object.member("agents");
            each.array(agents, write_agent);
        }),
        agents::Reply::Mode(mode) => object(|object| object.member("mode").plain(mode.as_str())),
        agents::Reply::Retired { agent } => object(|object| object.member("retired").plain(agent.as_str())),
        agents::Reply::Found(_) | agents::Reply::You { .. } => {
            unreachable!("no address here asks for one agent, or who asks")
        }
    }
}

fn write_agent(json: &mut Json<'_>, agent: &AgentView) {
    json.object(|object| {
        object.member("agent").plain(agent.name.as_str());
        let profile = &agent.profile;
        for (field, said) in [
            ("role", &profile.role),
            ("module", &profile.module),
            ("cli", &profile.cli),
            ("parent", &profile.parent),
            ("cwd", &profile.cwd),
        ] {
            if let Some(said) = said {
                object.member(field).string(said);
            }
        }
        let status = match agent.status {
            Status::Active => "active",
            Status::Idle => "idle",
            Status::Offline => "offline",
        };
        object.member("status").plain(status);
        let last_contact = object.member("last_contact");
        match agent.last_contact {
            Some(at) => messages::write_time(at, last_contact),
            None => last_contact.null(),
        }
    });
}

/// Writes an answer that is about groups.
pub(super) fn groups(reply: &groups::Reply) -> Vec<u8> {
    match reply {
        groups::Reply::Listed { groups } => object(|object| {
            let each = object.member("groups");
            each.array(groups, |json, group| {
                json.object(|object| {
                    write_group(group, object);
                    object.member("members").number(group.members);
                });
            });
        }),
        groups::Reply::Seen {
            group,
            members,
            agents,
        } => object(|object| {
            write_group(group, object);
            object.member("members").array(members, write_member);
            let agents = agents.iter().flatten();
            let each = object.member("agents");
            each.array(agents, |json, agent: &AgentName| json.plain(agent.as_str()));
        }),
        groups::Reply::Created { name } | groups::Reply::Deleted { name } => {
            object(|object| object.member("group").plain(name.as_str()))
        }
        groups::Reply::Added { group, member } | groups::Reply::Removed { group, member } => {
            object(|object| {
                object.member("group").plain(group.as_str());
                write_member_in(object, member);
            })
        }
    }
}

fn write_group(group: &GroupView, object: &mut Object<'_>) {
    let name = if group.project == DEFAULT_PROJECT {
        group.name.clone()
    } else {
        format!("{}:{}", group.project, group.name)
    };
    object.member("group").plain(&name);
    object.member("description").string(&group.description);
    messages::write_time(group.created_at, object.member("created_at"));
    let by = group.created_by.as_ref().map_or("relay", AgentName::as_str);
    object.member("created_by").plain(by);
}

fn write_member(json: &mut Json<'_>, member: &Member) {
    json.object(|object| write_member_in(object, member));
}

fn write_member_in(object: &mut Object<'_>, member: &Member) {
    match member {
        Member::Agent(agent) => object.member("agent").plain(agent.as_str()),
        Member::Role(role) => object.member("role").plain(role.as_str()),
    }
}

/// Writes an answer that is about channels.
pub(super) fn channels(reply: &channels::Reply) -> Vec<u8> {
    match reply {
        channels::Reply::Listed { channels } => object(|object| {
            let each = object.member("channels");
            each.array(channels, |json, channel| {
                json.object(|object| {
                    write_channel(channel, object);
                    object.member("members").number(channel.members.len());
                });
            });
        }),
        channels::Reply::Seen { channel } => object(|object| {
            write_channel(channel, object);
            let each = object.member("members");
            each.array(&channel.members, |json, (agent, since)| {
                json.object(|object| {
                    object.member("agent").plain(agent.as_str());
                    messages::write_time(*since, object.member("since"));
                });
            });
        }),
        channels::Reply::Changed { name, members } => object(|object| {
            object.member("channel").plain(name.as_str());
            let each = object.member("members");
            each.array(members, |json, agent: &AgentName| json.plain(agent.as_str()));
        }),
        channels::Reply::Joined { .. } | channels::Reply::Left { .. } => {
            unreachable!("no address here has its own agent join or leave a channel")
        }
    }
}

fn write_channel(channel: &ChannelView, object: &mut Object<'_>) {
    object.member("channel").plain(channel.name.as_str());
    object.member("topic").string(&channel.topic);
    messages::write_time(channel.created_at, object.member("created_at"));
}

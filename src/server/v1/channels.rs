//! Channels of a workspace. Its agents join a channel by posting to it or reading it, too, whatever they do that with.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::asked::Asked;
use super::envelope::{Answer, Data, Failure};
use crate::engine::channels::{ChannelView, Command, Reply};
use crate::engine::{self, AgentName, ChannelName, Who};
use crate::server::nodes;

/// What `POST /v1/channels` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
    topic: Option<String>,
    metadata: Option<Map<String, Value>>,
}

/// `POST /v1/channels`.
pub(super) async fn create(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    let Create {
        name,
        topic,
        metadata,
    } = asked.json()?;
    if metadata.is_some_and(|metadata| !metadata.is_empty()) {
        return Err(Failure::not_supported(
            "metadata of a channel",
            "nothing reads it; say it in the topic",
        ));
    }
    let command = Command::Make {
        name: format!("{}:#{}", agent.project(), bare(&name)?),
        topic: topic.unwrap_or_default(),
    };
    let (channel, _) = joined(asked.call_as(&agent, command).await?);
    Ok(Data::created(shown(&channel)))
}

/// `GET /v1/channels`.
pub(super) async fn list(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    // None is archived, so that both show all.
    asked.one_of("include_archived", &["true", "false"])?;
    let channels = of_workspace(&asked, holder.workspace()).await?;
    let channels: Vec<Value> = channels.iter().map(shown).collect();
    Ok(Data::ok(channels.into()))
}

/// `GET /v1/channels/:name`.
pub(super) async fn get(asked: Asked) -> Answer {
    let channel = seen(&asked).await?;
    let mut json = shown(&channel);
    json["members"] = members_of(&channel);
    Ok(Data::ok(json))
}

/// `GET /v1/channels/:name/members`.
pub(super) async fn members(asked: Asked) -> Answer {
    Ok(Data::ok(members_of(&seen(&asked).await?)))
}

/// `POST /v1/channels/:name/join`.
pub(super) async fn join(asked: Asked) -> Answer {
    let (agent, name) = own(&asked)?;
    let (channel, already) = joined(asked.call_as(&agent, Command::Join { name }).await?);
    Ok(Data::ok(json!({
        "channel": channel.name.local(),
        "agent_id": nodes::agent_id(&agent),
        "already_member": already,
    })))
}

/// `POST /v1/channels/:name/leave`.
pub(super) async fn leave(asked: Asked) -> Answer {
    let (agent, name) = own(&asked)?;
    let reply = asked.call_as(&agent, Command::Leave { name }).await?;
    let engine::Reply::Channels(Reply::Left { name }) = reply else {
        unreachable!("a channel is left, not {reply:?}")
    };
    Ok(Data::ok(json!({
        "channel": name.local(),
        "agent_id": nodes::agent_id(&agent),
    })))
}

/// Returns the agent that asks, and the whole address of the channel that the path names.
pub(super) fn own(asked: &Asked) -> Result<(AgentName, String), Failure> {
    let agent = asked.agent()?;
    asked.nothing()?;
    let name = address(asked, agent.project())?;
    Ok((agent, name))
}

/// Returns the whole address of the channel that the path names in a workspace.
pub(super) fn address(asked: &Asked, workspace: &str) -> Result<String, Failure> {
    Ok(format!("{workspace}:#{}", bare(asked.named_in(workspace)?)?))
}

/// Reads the name of a channel of a workspace, with `#` or without.
pub(super) fn named(given: &str, workspace: &str) -> Result<ChannelName, Failure> {
    ChannelName::in_project(workspace, bare(given)?).map_err(Failure::invalid)
}

/// Takes the `#` off a channel's name, which names no workspace.
fn bare(name: &str) -> Result<&str, Failure> {
    let bare = name.strip_prefix('#').unwrap_or(name);
    if bare.contains(':') {
        let reason = format!(
            "{:?} names a workspace; accepted: the name of a channel of the token's own",
            engine::shown(name)
        );
        return Err(Failure::invalid(reason));
    }
    Ok(bare)
}

pub(super) async fn seen(asked: &Asked) -> Result<ChannelView, Failure> {
    let holder = asked.holder()?;
    asked.nothing()?;
    let name = address(asked, holder.workspace())?;
    let reply = asked.call(Who::Agent(None), Command::Get { name }).await?;
    let engine::Reply::Channels(Reply::Seen { channel }) = reply else {
        unreachable!("a channel is looked at, not {reply:?}")
    };
    Ok(*channel)
}

async fn of_workspace(asked: &Asked, workspace: &str) -> Result<Vec<ChannelView>, Failure> {
    let project = Some(workspace.to_owned());
    let reply = asked.call(Who::Agent(None), Command::List { project }).await?;
    let engine::Reply::Channels(Reply::Listed { channels }) = reply else {
        unreachable!("channels are listed, not {reply:?}")
    };
    Ok(channels)
}

/// Lists the channels that an agent is in, of its own workspace.
pub(super) async fn of_agent(asked: &Asked, agent: &AgentName) -> Result<Value, Failure> {
    let channels = of_workspace(asked, agent.project()).await?;
    let mut joined: Vec<Value> = Vec::new();
    for channel in channels {
        let member = channel.members.iter().find(|(member, _)| member == agent);
        if let Some((_, at)) = member {
            joined.push(json!({
                "id": id(&channel.name),
                "name": channel.name.local(),
                "role": "member",
                "joined_at": at.to_string(),
            }));
        }
    }
    Ok(joined.into())
}

fn joined(reply: engine::Reply) -> (ChannelView, bool) {
    let engine::Reply::Channels(Reply::Joined { channel, already }) = reply else {
        unreachable!("a channel is joined, not {reply:?}")
    };
    (*channel, already)
}

/// Returns the id of a channel.
pub(super) fn id(name: &ChannelName) -> String {
    format!("ch_{name}")
}

fn shown(channel: &ChannelView) -> Value {
    let topic = Some(&channel.topic).filter(|topic| !topic.is_empty());
    json!({
        "id": id(&channel.name),
        "name": channel.name.local(),
        "topic": topic,
        "created_at": channel.created_at.to_string(),
        "is_archived": false,
        "member_count": channel.members.len(),
    })
}

fn members_of(channel: &ChannelView) -> Value {
    let members = channel.members.iter().map(|(agent, at)| {
        json!({
            "agent_id": nodes::agent_id(agent),
            "agent_name": agent.seen_from(channel.name.project()),
            "role": "member",
            "joined_at": at.to_string(),
        })
    });
    members.collect()
}

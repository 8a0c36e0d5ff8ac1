//! The latest messages, for whoever goes back to them, and what agents say about one: that they have read it, and how they take it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::asked::{Asked, limit_of};
use super::channels;
use super::envelope::{Answer, Data, Failure};
use super::tokens::Holder;
use crate::engine::records::{Command, Of, Range, Reaction, Record, Reply};
use crate::engine::trace::ShownTo;
use crate::engine::{self, AgentName, Message, MessageId, ResolvedBy, Timestamp, Who, mail, shown};
use crate::server::limits::{RECORDS_LOOKED_AT_MAX, RECORDS_SHOWN, RECORDS_SHOWN_MAX};
use crate::server::nodes;

/// Most mentions and reactions that an inbox shows, the latest ones.
const INBOX_SHOWN: usize = 20;

/// What `POST /v1/messages/:id/reactions` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct React {
    emoji: String,
}

/// `GET /v1/channels/:name/messages`: the newest first, but for replies.
pub(super) async fn of_channel(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    let range = range(&asked)?;
    let of = Of::Channel(channels::address(&asked, holder.workspace())?);
    listed(&asked, of, range, &holder).await
}

/// `GET /v1/messages/:id`.
pub(super) async fn get(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    asked.nothing()?;
    let record = one(&asked, asked.named(), &holder).await?;
    Ok(Data::ok(message(&record, holder.workspace())))
}

/// `GET /v1/messages/:id/replies`: the message, and its replies, the oldest first.
pub(super) async fn replies(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    let range = range(&asked)?;
    let id = asked.named().to_owned();
    let mut replies = list(&asked, Of::Replies(id.clone()), range, &holder).await?;
    replies.reverse();
    let parent = one(&asked, &id, &holder).await?;
    let shown = |record: &Record| message(record, holder.workspace());
    let replies: Vec<Value> = replies.iter().map(shown).collect();
    Ok(Data::ok(json!({"parent": shown(&parent), "replies": replies})))
}

/// `GET /v1/messages/:id/reactions`.
pub(super) async fn reactions(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    asked.nothing()?;
    let record = one(&asked, asked.named(), &holder).await?;
    Ok(Data::ok(taken(&record, holder.workspace())))
}

/// `POST /v1/messages/:id/reactions`. The same a second time is there once.
pub(super) async fn react(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    let React { emoji } = asked.json()?;
    let command = Command::React {
        message: asked.named().to_owned(),
        emoji: emoji.clone(),
        given: true,
    };
    let engine::Reply::Records(Reply::Reacted { message, since }) = asked.call_as(&agent, command).await?
    else {
        unreachable!("a reaction is given")
    };
    Ok(Data::created(json!({
        "id": format!("re_{}_{}_{emoji}", message.id, nodes::agent_id(&agent)),
        "message_id": message.id.to_string(),
        "agent_id": nodes::agent_id(&agent),
        "agent_name": agent.local(),
        "emoji": emoji,
        "created_at": since.map(|at| at.to_string()),
    })))
}

/// `DELETE /v1/messages/:id/reactions/:emoji`, whether it is there or not.
pub(super) async fn take_back(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    asked.nothing()?;
    let command = Command::React {
        message: asked.named().to_owned(),
        emoji: asked.second().to_owned(),
        given: false,
    };
    asked.call_as(&agent, command).await?;
    Ok(Data::nothing())
}

/// `POST /v1/messages/:id/read`.
pub(super) async fn mark(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    asked.nothing()?;
    let message = asked.named().to_owned();
    let engine::Reply::Records(Reply::Marked { message, at }) =
        asked.call_as(&agent, Command::Mark { message }).await?
    else {
        unreachable!("a message is marked")
    };
    Ok(Data::ok(json!({
        "message_id": message.id.to_string(),
        "agent_id": nodes::agent_id(&agent),
        "read_at": at.to_string(),
    })))
}

/// `GET /v1/messages/:id/readers`.
pub(super) async fn readers(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    asked.nothing()?;
    let record = one(&asked, asked.named(), &holder).await?;
    let readers = record.readers.iter().map(|(agent, at)| {
        json!({
            "agent_id": nodes::agent_id(agent),
            "agent_name": agent.seen_from(holder.workspace()),
            "read_at": at.to_string(),
        })
    });
    Ok(Data::ok(readers.collect()))
}

/// `GET /v1/channels/:name/read-status`: how far each member has read.
pub(super) async fn read_status(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    let channel = channels::seen(&asked).await?;
    let of = Of::Channel(channels::address(&asked, holder.workspace())?);
    let records = list(&asked, of, latest(), &holder).await?;
    let read = |member: &AgentName| -> Option<(MessageId, Timestamp)> {
        records.iter().find_map(|Record { message, readers, .. }| {
            let reader = readers.iter().find(|(reader, _)| reader == member);
            let own = (message.from == *member).then_some(message.ts);
            Some((message.id, reader.map(|(_, at)| *at).or(own)?))
        })
    };
    let members = channel.members.iter().map(|(member, _)| {
        let read = read(member);
        json!({
            "agent_name": member.seen_from(holder.workspace()),
            "last_read_id": read.map(|(id, _)| id.to_string()),
            "last_read_at": read.map(|(_, at)| at.to_string()),
        })
    });
    Ok(Data::ok(members.collect()))
}

/// `GET /v1/dm/conversations`: those of the agent, the latest first.
pub(super) async fn conversations(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    asked.nothing()?;
    let waiting = waiting(&asked, &agent).await?;
    let records = list(&asked, Of::All, latest(), &Holder::Agent(agent.clone())).await?;
    let mut order: Vec<String> = Vec::new();
    let mut latest: BTreeMap<String, &Message> = BTreeMap::new();
    let mut begun: BTreeMap<String, Timestamp> = BTreeMap::new();
    for record in &records {
        let message = &*record.message;
        if message.to.by() == ResolvedBy::Channel {
            continue;
        }
        let id = nodes::conversation_id(message);
        if !latest.contains_key(&id) {
            order.push(id.clone());
            latest.insert(id.clone(), message);
        }
        begun.insert(id, message.ts);
    }
    let shown = order.iter().map(|id| {
        let message = latest[id];
        let is_direct = message.to.by() == ResolvedBy::Name;
        let is_of_it = |waits: &&Message| nodes::conversation_id(waits) == *id;
        let agents = participants(message).map(|other| {
            json!({
                "agent_id": nodes::agent_id(&other),
                "agent_name": other.seen_from(agent.project()),
            })
        });
        json!({
            "id": id,
            "type": if is_direct { "1:1" } else { "group" },
            "name": (!is_direct).then_some(message.to.as_str()),
            "participants": agents.collect::<Vec<Value>>(),
            "last_message": last_message(message),
            "unread_count": waiting.iter().map(|delivery| &*delivery.message).filter(is_of_it).count(),
            "created_at": begun[id].to_string(),
        })
    });
    Ok(Data::ok(shown.collect()))
}

/// `GET /v1/dm/:id/messages`, and the same with `conversations` in it: the newest first.
pub(super) async fn of_conversation(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    let range = range(&asked)?;
    let given = asked.named();
    let ends = given.strip_prefix("dm_").and_then(|ends| ends.split_once('~'));
    let Some((one, other)) = ends else {
        let given = shown(given);
        let reason = format!(
            "no conversation {given:?}; accepted: the id of one, as GET /v1/dm/conversations lists them"
        );
        return Err(Failure::new(
            axum::http::StatusCode::NOT_FOUND,
            "conversation_not_found",
            reason,
        ));
    };
    let of = Of::Between(one.to_owned(), other.to_owned());
    listed(&asked, of, range, &holder).await
}

/// `GET /v1/inbox`: what waits, told by where it was said, and the latest reactions to what the agent has sent.
pub(super) async fn inbox(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    let limit = asked.number("limit", 1..=INBOX_SHOWN)?.unwrap_or(INBOX_SHOWN);
    let waiting = waiting(&asked, &agent).await?;
    let mut of_channels: BTreeMap<&str, usize> = BTreeMap::new();
    let mut of_conversations: BTreeMap<String, (usize, &Message)> = BTreeMap::new();
    let mut mentions = Vec::new();
    for message in waiting.iter().map(|delivery| &*delivery.message) {
        match message.to.channel_name() {
            Some(channel) => *of_channels.entry(channel).or_default() += 1,
            None => {
                let id = nodes::conversation_id(message);
                let (count, latest) = of_conversations.entry(id).or_insert((0, message));
                (*count, *latest) = (*count + 1, message);
            }
        }
        if message.mentions_agent(&agent) {
            mentions.push(json!({
                "id": message.id.to_string(),
                "channel_name": message.to.channel_name(),
                "agent_name": message.from.seen_from(agent.project()),
                "text": message.body,
                "created_at": message.ts.to_string(),
            }));
        }
    }
    let sent = list(
        &asked,
        Of::Sender(agent.clone()),
        latest(),
        &Holder::Agent(agent.clone()),
    )
    .await?;
    mentions.reverse();
    mentions.truncate(limit);
    Ok(Data::ok(json!({
        "unread_channels": of_channels.iter().map(|(name, count)| {
            json!({"channel_name": name, "unread_count": count})
        }).collect::<Vec<Value>>(),
        "mentions": mentions,
        "unread_dms": of_conversations.iter().map(|(id, (count, latest))| {
            json!({
                "conversation_id": id,
                "from": latest.from.seen_from(agent.project()),
                "unread_count": count,
                "last_message": last_message(latest),
            })
        }).collect::<Vec<Value>>(),
        "recent_reactions": recent_reactions(&sent, &agent, limit),
    })))
}

/// Lists the latest reactions of others to what an agent has sent, the newest first.
fn recent_reactions(sent: &[Record], agent: &AgentName, limit: usize) -> Vec<Value> {
    let mut all: Vec<(Timestamp, Value)> = Vec::new();
    for record in sent {
        for Reaction { emoji, agents } in &record.reactions {
            for (by, at) in agents.iter().filter(|(by, _)| by != agent) {
                let shown = json!({
                    "message_id": record.message.id.to_string(),
                    "channel_name": record.message.to.channel_name(),
                    "emoji": emoji,
                    "agent_name": by.seen_from(agent.project()),
                    "created_at": at.to_string(),
                });
                all.push((*at, shown));
            }
        }
    }
    all.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    all.into_iter().take(limit).map(|(_, shown)| shown).collect()
}

fn last_message(message: &Message) -> Value {
    json!({
        "id": message.id.to_string(),
        "text": message.body,
        "agent_id": nodes::agent_id(&message.from),
        "created_at": message.ts.to_string(),
    })
}

/// Goes through those who are known to talk in the conversation that a message is of: who has sent it, and who got it by its name.
pub(super) fn participants(message: &Message) -> impl Iterator<Item = AgentName> {
    std::iter::once(message.from.clone()).chain(message.to.as_agent())
}

/// Looks at what waits for an agent.
async fn waiting(asked: &Asked, agent: &AgentName) -> Result<Vec<engine::Delivery>, Failure> {
    let (agent, limit) = (Some(agent.to_string()), None);
    let reply = asked
        .call(Who::Person, mail::Command::Peek { agent, limit })
        .await?;
    let engine::Reply::Mail(mail::Reply::Seen { deliveries, .. }) = reply else {
        unreachable!("an inbox is looked at")
    };
    Ok(deliveries)
}

/// Finds a message that a token's holder is shown.
pub(super) async fn one(asked: &Asked, id: &str, holder: &Holder) -> Result<Record, Failure> {
    let get = Command::Get {
        message: id.to_owned(),
        shown_to: shown_to(holder),
    };
    let engine::Reply::Records(Reply::Shown(record)) = asked.call(Who::Person, get).await? else {
        unreachable!("a message is asked for")
    };
    Ok(*record)
}

async fn list(asked: &Asked, of: Of, range: Range, holder: &Holder) -> Result<Vec<Record>, Failure> {
    list_for(asked, of, range, shown_to(holder)).await
}

/// Lists messages for whoever asks, in somebody's stead.
pub(super) async fn list_for(
    asked: &Asked,
    of: Of,
    range: Range,
    shown_to: ShownTo,
) -> Result<Vec<Record>, Failure> {
    let range = Box::new(range);
    let list = Command::List { of, range, shown_to };
    let engine::Reply::Records(Reply::Listed(records)) = asked.call(Who::Person, list).await? else {
        unreachable!("messages are asked for")
    };
    Ok(records)
}

async fn listed(asked: &Asked, of: Of, range: Range, holder: &Holder) -> Answer {
    let records = list(asked, of, range, holder).await?;
    let shown = records.iter().map(|record| message(record, holder.workspace()));
    Ok(Data::ok(shown.collect()))
}

/// Returns in whose stead a token asks.
pub(super) fn shown_to(holder: &Holder) -> ShownTo {
    match holder {
        Holder::Workspace(workspace) => ShownTo::Project(workspace.clone()),
        Holder::Agent(agent) => ShownTo::Agent(agent.clone()),
        Holder::Node(_) | Holder::Observer { .. } => unreachable!("such a token is refused"),
    }
}

fn range(asked: &Asked) -> Result<Range, Failure> {
    let accepted = format!("1 to {RECORDS_SHOWN_MAX}");
    let id = "the id of a message";
    let [before, after, limit] = asked.query([("before", id), ("after", id), ("limit", &accepted)])?;
    Ok(Range {
        before,
        after,
        limit: limit_of(limit, RECORDS_SHOWN, RECORDS_SHOWN_MAX)?,
    })
}

/// So many messages as are looked at for an answer that is about several.
pub(super) fn latest() -> Range {
    Range {
        before: None,
        after: None,
        limit: RECORDS_LOOKED_AT_MAX,
    }
}

/// Shows a message as whoever goes back to it reads it.
fn message(record: &Record, project: &str) -> Value {
    let message = &*record.message;
    let context = message.context.as_deref();
    let metadata = context.and_then(|context| context.metadata.as_deref());
    let mut metadata: Map<String, Value> = metadata
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default();
    let blocks = metadata.remove("blocks");
    json!({
        "id": message.id.to_string(),
        "channel_id": nodes::place_of(message),
        "channel_name": message.to.channel_name(),
        "agent_id": nodes::agent_id(&message.from),
        "agent_name": message.from.seen_from(project),
        "text": message.body,
        "blocks": blocks,
        "metadata": metadata,
        "has_attachments": false,
        "thread_id": message.thread(),
        "attachments": [],
        "created_at": message.ts.to_string(),
        "mentions": message.mentions().collect::<Vec<&str>>(),
        "reply_count": record.replies,
        "reactions": taken(record, project),
        "read_by_count": record.readers.len(),
    })
}

fn taken(record: &Record, project: &str) -> Value {
    let reactions = record.reactions.iter().map(|Reaction { emoji, agents }| {
        let names = agents.iter().map(|(agent, _)| agent.seen_from(project));
        json!({
            "emoji": emoji,
            "count": agents.len(),
            "agents": names.collect::<Vec<_>>(),
        })
    });
    reactions.collect()
}

//! Messages, posted as those of any tool are: whatever an agent reads with, it reads these.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::asked::{Asked, moment};
use super::envelope::{Answer, Data, Failure};
use super::tokens::Holder;
use super::{channels, records};
use crate::engine::address::Warning;
use crate::engine::handling::{Handling, Mode, Priority};
use crate::engine::mail::{self, Command, PostOptions};
use crate::engine::{
    self, AgentName, DEFAULT_PROJECT, Kind, Message, MessageId, PERSON, Recipient, ResolvedBy, Timestamp,
    shown,
};
use crate::server::nodes;
use crate::tools::messages::{FORGOTTEN_TEXT, absence_text, also_group_text, also_role_text};

/// What the sender of a message should know that is held.
const HELD: &str =
    "it is held back (manual): it goes to no node, and is in no list, until its agent asks for it";

/// What `POST /v1/dm` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dm {
    to: String,
    text: String,
    mode: Option<String>,
    priority: Option<String>,
    deadline: Option<String>,
    data: Option<Map<String, Value>>,
    attachments: Option<Vec<Value>>,
}

/// What `POST /v1/channels/:name/messages` and `POST /v1/messages/:id/replies` take.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
    mode: Option<String>,
    priority: Option<String>,
    deadline: Option<String>,
    blocks: Option<Vec<Value>>,
    data: Option<Map<String, Value>>,
    attachments: Option<Vec<Value>>,
    /// For which of its agents a node posts.
    from: Option<String>,
}

impl Text {
    /// Reads it, and who posts it.
    async fn read(asked: &Asked) -> Result<(AgentName, Self), Failure> {
        let holder = asked.any_holder()?;
        let Holder::Node(node) = holder else {
            let (agent, text) = (asked.agent()?, asked.json::<Self>()?);
            if text.from.is_some() {
                let reason = "\"from\" is for the token of a node; an agent posts by its own";
                return Err(Failure::invalid(reason));
            }
            return Ok((agent, text));
        };
        let mut text: Self = asked.json()?;
        let from = text.from.take().ok_or_else(|| {
            Failure::invalid("\"from\" is missing; accepted: the name of an agent that is bound to this node")
        })?;
        Ok((super::nodes::agent_of(asked, &node, &from).await?, text))
    }

    /// Makes the message of it that goes to an address.
    fn draft(self, from: AgentName, to: String) -> Result<Draft, Failure> {
        no_attachments(self.attachments)?;
        Ok(Draft {
            from,
            to,
            text: self.text,
            handling: handling(self.mode, self.priority, self.deadline)?,
            blocks: self.blocks,
            data: self.data,
            thread: None,
            reply_to: None,
        })
    }
}

/// A message as it is to be posted.
struct Draft {
    from: AgentName,
    to: String,
    text: String,
    handling: Handling,
    blocks: Option<Vec<Value>>,
    data: Option<Map<String, Value>>,
    thread: Option<String>,
    reply_to: Option<String>,
}

/// A message as it was accepted.
struct Accepted {
    id: MessageId,
    to: Recipient,
    ts: Timestamp,
    thread: Option<String>,
    replayed: bool,
    warnings: Vec<String>,
    draft: Draft,
}

/// A direct message as `POST /v1/dm` answers with it. Written without a tree of JSON in between, which would cost as much as the post.
#[derive(Serialize)]
struct Sent<'a> {
    conversation_id: String,
    message: SentMessage<'a>,
    created_at: String,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct SentMessage<'a> {
    id: String,
    agent_id: String,
    agent_name: &'a str,
    text: &'a str,
    injection_mode: &'static str,
    attachments: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map<String, Value>>,
}

/// `POST /v1/dm`.
pub(super) async fn dm(asked: Asked) -> Answer {
    let from = asked.agent()?;
    let Dm {
        to,
        text,
        mode,
        priority,
        deadline,
        data,
        attachments,
    } = asked.json()?;
    no_attachments(attachments)?;
    if to.contains('#') {
        let to = shown(&to);
        let reason = format!("\"to\" is the channel {to:?}; post to it by POST /v1/channels/NAME/messages");
        return Err(Failure::new(StatusCode::BAD_REQUEST, "invalid_recipient", reason));
    }
    let handling = handling(mode, priority, deadline)?;
    let draft = Draft {
        from,
        to,
        text,
        handling,
        blocks: None,
        data,
        thread: None,
        reply_to: None,
    };
    let accepted = post(&asked, draft).await?;
    let Accepted {
        id,
        ts,
        replayed,
        draft,
        ..
    } = &accepted;
    let sent = Sent {
        conversation_id: nodes::conversation_of(&draft.from, accepted.to.as_str()),
        message: SentMessage {
            id: id.to_string(),
            agent_id: nodes::agent_id(&draft.from),
            agent_name: draft.from.local(),
            text: &draft.text,
            injection_mode: nodes::wire_mode(draft.handling.mode.unwrap_or_default()),
            attachments: [],
            metadata: draft.data.as_ref(),
        },
        created_at: ts.to_string(),
        warnings: &accepted.warnings,
    };
    Ok(Data::created_once(&sent, *replayed))
}

/// `POST /v1/channels/:name/messages`.
pub(super) async fn to_channel(asked: Asked) -> Answer {
    let (from, text) = Text::read(&asked).await?;
    let to = channels::address(&asked, from.project())?;
    Ok(post(&asked, text.draft(from, to)?).await?.answer())
}

/// `POST /v1/messages/:id/replies`: to whoever sent it, or to all whom it went to.
pub(super) async fn reply(asked: Asked) -> Answer {
    let (from, text) = Text::read(&asked).await?;
    let id = asked.named().to_owned();
    let find = Command::Find {
        agent: None,
        id: id.clone(),
    };
    let (to, thread, reply_to) = match asked.call_as(&from, find).await {
        Ok(engine::Reply::Mail(mail::Reply::Found { message })) => {
            (sent_back(&message, &from), None, Some(id))
        }
        Ok(other) => unreachable!("a message is looked for, not {other:?}"),
        // What it has not got it may have sent, or it was said in a channel.
        Err(_) => {
            let message = records::one(&asked, &id, &Holder::Agent(from.clone()))
                .await?
                .message;
            let thread = message
                .thread()
                .map_or_else(|| message.id.to_string(), str::to_owned);
            (whole(message.to.as_str()), Some(thread), None)
        }
    };
    let draft = Draft {
        thread,
        reply_to,
        ..text.draft(from, to)?
    };
    Ok(post(&asked, draft).await?.answer())
}

/// Returns where an agent's answer to a message goes: of several that it was sent to, to the others and to who has sent it.
fn sent_back(message: &Message, answers: &AgentName) -> String {
    match message.to.by() {
        ResolvedBy::Name => whole(message.from.as_str()),
        ResolvedBy::Role | ResolvedBy::Group | ResolvedBy::Channel | ResolvedBy::Broadcast => {
            whole(message.to.as_str())
        }
        ResolvedBy::List => {
            let others = message.to.each();
            let others = others.filter(|other| ![answers.as_str(), message.from.as_str()].contains(other));
            let all: Vec<&str> = std::iter::once(message.from.as_str()).chain(others).collect();
            whole(&all.join(", "))
        }
    }
}

/// Returns an address, or each of several, with its project before it, which stands before all but the person's.
fn whole(address: &str) -> String {
    if let Some((first, others)) = address.split_once(", ") {
        return format!("{}, {}", whole(first), whole(others));
    }
    match address.contains(':') || address == PERSON {
        true => address.to_owned(),
        false => format!("{DEFAULT_PROJECT}:{address}"),
    }
}

async fn post(asked: &Asked, draft: Draft) -> Result<Accepted, Failure> {
    let idempotency_key = asked.idempotency_key()?;
    let mut metadata = draft.data.clone().unwrap_or_default();
    if let Some(blocks) = &draft.blocks {
        metadata.insert("blocks".to_owned(), blocks.clone().into());
    }
    let metadata = (!metadata.is_empty()).then(|| Value::Object(metadata).to_string());
    let command = Command::Post {
        from: None,
        to: draft.to.clone(),
        kind: Kind::Free,
        body: draft.text.clone(),
        options: Some(Box::new(PostOptions {
            thread: draft.thread.clone(),
            reply_to: draft.reply_to.clone(),
            metadata,
            await_ms: None,
            room: None,
            idempotency_key,
            handling: draft.handling,
        })),
    };
    let reply = asked.call_as(&draft.from, command).await?;
    let engine::Reply::Mail(mail::Reply::Posted {
        id,
        to,
        ts,
        thread,
        warnings,
        absence,
        ..
    }) = reply
    else {
        unreachable!("a post is answered with {reply:?}")
    };
    let held = (draft.handling.mode == Some(Mode::Manual)).then(|| HELD.to_owned());
    let absent = absence.as_deref().map(absence_text);
    let warned = warnings.iter().filter_map(warned);
    Ok(Accepted {
        id,
        to,
        ts,
        thread: thread.map(String::from),
        replayed: warnings.contains(&Warning::Repeated),
        warnings: warned.chain(held).chain(absent).collect(),
        draft,
    })
}

impl Accepted {
    /// The message as the API shows one.
    fn answer(self) -> Data {
        let Self {
            id,
            to,
            ts,
            thread,
            replayed,
            warnings,
            draft,
        } = self;
        let channel = match to.by() {
            ResolvedBy::Channel => nodes::channel_id(&to),
            ResolvedBy::Name
            | ResolvedBy::Role
            | ResolvedBy::Group
            | ResolvedBy::Broadcast
            | ResolvedBy::List => nodes::conversation_of(&draft.from, to.as_str()),
        };
        let json = json!({
            "id": id.to_string(),
            "channel_id": channel,
            "agent_id": nodes::agent_id(&draft.from),
            "agent_name": draft.from.local(),
            "text": draft.text,
            "blocks": draft.blocks,
            "metadata": draft.data.unwrap_or_default(),
            "injection_mode": nodes::wire_mode(draft.handling.mode.unwrap_or_default()),
            "has_attachments": false,
            "thread_id": thread,
            "attachments": [],
            "created_at": ts.to_string(),
            "reply_count": 0,
            "reactions": [],
            "read_by_count": 0,
            "warnings": warnings,
        });
        Data::created_once(&json, replayed)
    }
}

/// Says what the sender should know beside that its message was accepted.
fn warned(warning: &Warning) -> Option<String> {
    match warning {
        Warning::AlsoRole(role) => Some(also_role_text(role)),
        Warning::AlsoGroup(group) => Some(also_group_text(group)),
        Warning::NobodyElse(channel) => Some(format!("{channel} has no other member: nobody got it")),
        Warning::NobodysChannel(channel) => {
            Some(format!("nobody had made or joined {channel}: nobody got it"))
        }
        Warning::AnswersForgotten => Some(FORGOTTEN_TEXT.to_owned()),
        Warning::Repeated => None,
    }
}

/// Reads how a message is to be brought: the mode as Agent Relay's clients name it, or by its own name.
fn handling(
    mode: Option<String>,
    priority: Option<String>,
    deadline: Option<String>,
) -> Result<Handling, Failure> {
    let not_one = |field: &str, given: &str, accepted: &[&str]| {
        let (given, accepted) = (shown(given), accepted.join(", "));
        Failure::invalid(format!("\"{field}\" is {given:?}; accepted: {accepted}"))
    };
    let mode = mode.map(|word| {
        let mut on_wire = nodes::WIRE_MODES.into_iter();
        let known = on_wire.find(|(wire, _)| *wire == word).map(|(_, mode)| mode);
        known.or_else(|| Mode::parse(&word)).ok_or_else(|| {
            let words = nodes::WIRE_MODES.map(|(wire, _)| wire).into_iter();
            let words: Vec<&str> = words.chain(Mode::ALL.map(Mode::as_str)).collect();
            not_one("mode", &word, &words)
        })
    });
    let mode = mode.transpose()?;
    let priority = priority.map_or(Ok(Priority::default()), |word| {
        let words = Priority::ALL.map(Priority::as_str);
        Priority::parse(&word).ok_or_else(|| not_one("priority", &word, &words))
    })?;
    let deadline = deadline.map(|given| moment("deadline", &given)).transpose()?;
    Ok(Handling {
        mode,
        priority,
        deadline,
    })
}

fn no_attachments(attachments: Option<Vec<Value>>) -> Result<(), Failure> {
    if attachments.is_none_or(|attachments| attachments.is_empty()) {
        return Ok(());
    }
    Err(Failure::not_supported(
        "a message with attachments",
        "relay keeps no files; put what matters into the text, or name a path",
    ))
}

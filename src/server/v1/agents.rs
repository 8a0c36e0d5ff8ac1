//! Agents of a workspace, and their tokens. An agent that is registered here is one like any other: all toolsets see it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::asked::{Asked, Session};
use super::envelope::{Answer, Data, Failure};
use super::workspaces::of_workspace;
use super::{Api, channels};
use crate::engine::agents::{self, AgentView, Registration, Status};
use crate::engine::{AgentName, Reply, Timestamp, Who, mail, shown};
use crate::server::limits::{AGENT_CARD_BYTES_MAX, AGENT_CARDS_MAX};
use crate::server::nodes::agent_id;
use crate::server::owner::Owner;

/// What agents have said of themselves here; relay itself asks for none of it.
#[derive(Default)]
pub(super) struct Cards(Mutex<BTreeMap<AgentName, Card>>);

/// What one agent said.
#[derive(Clone)]
pub(super) struct Card {
    pub kind: String,
    pub persona: Option<String>,
    pub metadata: Map<String, Value>,
    pub created_at: Timestamp,
}

impl Cards {
    /// Returns the card of an agent, if there is one.
    pub fn of(&self, agent: &AgentName) -> Option<Card> {
        let cards = self.0.lock().expect("nothing panics while it holds them");
        cards.get(agent).cloned()
    }

    /// Forgets a card, if there is one.
    pub fn forget(&self, agent: &AgentName) {
        let mut cards = self.0.lock().expect("nothing panics while it holds them");
        cards.remove(agent);
    }

    /// Keeps a card; at the bound, none: what the agent said of itself is then not shown.
    pub fn keep(&self, agent: &AgentName, card: Card) {
        let mut cards = self.0.lock().expect("nothing panics while it holds them");
        if cards.len() < AGENT_CARDS_MAX || cards.contains_key(agent) {
            cards.insert(agent.clone(), card);
        }
    }
}

const KINDS: [&str; 3] = ["agent", "human", "system"];
const STATUSES: [&str; 4] = ["online", "offline", "away", "all"];

/// What `POST /v1/agents` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    name: String,
    r#type: Option<String>,
    persona: Option<String>,
    metadata: Option<Map<String, Value>>,
    #[serde(rename = "auto_join_general")]
    _auto_join_general: Option<bool>,
}

/// `POST /v1/agents`.
pub(super) async fn register(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    let Register {
        name,
        r#type,
        persona,
        metadata,
        ..
    } = asked.json()?;
    let kind = r#type.unwrap_or_else(|| KINDS[0].to_owned());
    if !KINDS.contains(&kind.as_str()) {
        let (kind, accepted) = (shown(&kind), KINDS.join(", "));
        return Err(Failure::invalid(format!(
            "\"type\" is {kind:?}; accepted: {accepted}"
        )));
    }
    let metadata = metadata.unwrap_or_default();
    let bytes = persona.as_ref().map_or(0, String::len) + Value::Object(metadata.clone()).to_string().len();
    if bytes > AGENT_CARD_BYTES_MAX {
        let reason = format!(
            "\"persona\" and \"metadata\" have {bytes} bytes; accepted: at most {AGENT_CARD_BYTES_MAX}"
        );
        return Err(Failure::invalid(reason));
    }
    let registration = Registration {
        project: Some(workspace.clone()),
        name: name.clone(),
        is_new: true,
        ..Registration::default()
    };
    let shared = &asked.shared;
    let created_at = shared.owner.now();
    let register = || {
        drop(Session::open(
            &shared.owner,
            Who::Registered(Box::new(registration)),
        )?);
        let agent = AgentName::in_project(&workspace, &name).expect("the engine has registered it");
        let card = Card {
            kind,
            persona,
            metadata,
            created_at,
        };
        shared.api.cards.keep(&agent, card);
        Ok::<_, Failure>((agent.clone(), agent))
    };
    let (agent, token) = shared.api.with_token(register)?;
    Ok(Data::created(json!({
        "id": agent_id(&agent),
        "name": agent.local(),
        "token": token,
        "status": "online",
        "created_at": created_at.to_string(),
    })))
}

/// `GET /v1/agents`.
pub(super) async fn list(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    let status = asked
        .one_of("status", &STATUSES)?
        .filter(|status| *status != "all");
    let agents = of_workspace(&asked, holder.workspace()).await?;
    let agents = agents
        .iter()
        .filter(|view| status.is_none_or(|status| status_of(view) == status));
    let agents: Vec<Value> = agents.map(|view| shown_agent(&asked, view)).collect();
    Ok(Data::ok(agents.into()))
}

/// `GET /v1/agents/:name`.
pub(super) async fn get(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    asked.nothing()?;
    let view = named(&asked, holder.workspace()).await?;
    whole(&asked, &view).await
}

/// `GET /v1/agent`: the one whose token it is.
pub(super) async fn me(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    asked.nothing()?;
    let view = view_of(&asked, agent.project(), agent.local()).await?;
    whole(&asked, &view).await
}

/// `POST /v1/agents/:name/rotate-token`.
pub(super) async fn rotate(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    asked.nothing()?;
    let AgentView { name, .. } = named(&asked, &workspace).await?;
    let shared = &asked.shared;
    match rotated(&shared.api, &shared.owner, &name)? {
        Some(token) => Ok(Data::ok(json!({"name": name.local(), "token": token}))),
        None => Err(unknown(&asked, &workspace, name.local()).await),
    }
}

/// Makes a new token of an agent; none if it is not there any more.
pub(super) fn rotated(api: &Api, owner: &Arc<Owner>, agent: &AgentName) -> Result<Option<String>, Failure> {
    // Not one of the agent's, which would be heard of, and in use.
    let session = Session::open(owner, Who::Agent(None))?;
    api.rotate(agent, || session.sees(agent))
}

/// `POST /v1/agents/heartbeat`: the agent is there.
pub(super) async fn heartbeat(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    asked.nothing()?;
    // Whoever asks what waits for it is there.
    asked
        .call_as(&agent, mail::Command::Pending { agent: None })
        .await?;
    presence(&asked, &agent).await
}

/// `POST /v1/agents/disconnect`: there is no connection to end, so the answer says how the agent stands.
pub(super) async fn disconnect(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    asked.nothing()?;
    presence(&asked, &agent).await
}

async fn presence(asked: &Asked, agent: &AgentName) -> Answer {
    let view = view_of(asked, agent.project(), agent.local()).await?;
    Ok(Data::ok(json!({
        "agent_id": agent_id(agent),
        "agent_name": agent.local(),
        "status": status_of(&view),
    })))
}

/// Finds the agent that the path names.
pub(super) async fn named(asked: &Asked, workspace: &str) -> Result<AgentView, Failure> {
    let name = asked.named_in(workspace)?;
    view_of(asked, workspace, name).await
}

async fn view_of(asked: &Asked, workspace: &str, name: &str) -> Result<AgentView, Failure> {
    // What is no name is nobody's.
    if let Ok(agent) = AgentName::in_project(workspace, name) {
        let reply = asked
            .call(Who::Agent(None), agents::Command::Find { agent })
            .await?;
        let Reply::Agents(agents::Reply::Found(found)) = reply else {
            unreachable!("an agent is looked up, not {reply:?}")
        };
        if let Some(view) = found {
            return Ok(*view);
        }
    }
    Err(unknown(asked, workspace, name).await)
}

/// Says that there is no such agent.
async fn unknown(asked: &Asked, workspace: &str, name: &str) -> Failure {
    let known = match of_workspace(asked, workspace).await {
        Ok(known) => known,
        Err(failure) => return failure,
    };
    let known: Vec<&str> = known.iter().map(|view| view.name.local()).take(8).collect();
    let (name, workspace, known) = (shown(name), shown(workspace), known.join(", "));
    let reason = format!("no agent {name:?} in the workspace {workspace:?}; some that there are: {known}");
    Failure::new(StatusCode::NOT_FOUND, "agent_not_found", reason)
}

/// An agent with its channels.
async fn whole(asked: &Asked, view: &AgentView) -> Answer {
    let mut json = shown_agent(asked, view);
    json["channels"] = channels::of_agent(asked, &view.name).await?;
    Ok(Data::ok(json))
}

fn shown_agent(asked: &Asked, view: &AgentView) -> Value {
    let card = asked.shared.api.cards.of(&view.name);
    let created_at = card
        .as_ref()
        .map_or_else(|| asked.shared.made_before(), |card| card.created_at.to_string());
    let (kind, persona, metadata) = match card {
        Some(card) => (card.kind, card.persona, card.metadata),
        None => (KINDS[0].to_owned(), None, Map::new()),
    };
    let last_seen = view
        .last_contact
        .map_or_else(|| created_at.clone(), |at| at.to_string());
    json!({
        "id": agent_id(&view.name),
        "name": view.name.local(),
        "type": kind,
        "status": status_of(view),
        "persona": persona,
        "metadata": metadata,
        "last_seen": last_seen,
        "created_at": created_at,
    })
}

fn status_of(view: &AgentView) -> &'static str {
    match view.status {
        Status::Active => "online",
        Status::Idle => "away",
        Status::Offline => "offline",
    }
}

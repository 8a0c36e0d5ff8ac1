//! What agents say of their own sessions: that one starts, that a turn begins, what a tool does. It is kept for whoever asks, told to
//! observers, both without what looks like a secret, and changes nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asked::{Asked, limit_of};
use super::envelope::{Answer, Data, Failure};
use super::tokens::Holder;
use super::{agents, observers};
use crate::engine::{AgentName, shown};
use crate::redact::redact_json;
use crate::server::limits::{
    SESSION_COUNTERS_MAX, SESSION_EVENT_BYTES_MAX, SESSION_EVENTS_BYTES_MAX, SESSION_EVENTS_MAX,
    SESSION_EVENTS_SHOWN, SESSION_EVENTS_SHOWN_MAX,
};
use crate::server::nodes::agent_id;
use crate::server::observers::SessionEvent;

/// Longest name of a type, in bytes.
const TYPE_BYTES_MAX: usize = 128;

/// The latest events of all agents' sessions.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Said>);

/// What is kept of it.
#[derive(Default)]
pub(super) struct Said {
    /// The oldest first.
    latest: VecDeque<Arc<SessionEvent>>,
    /// The bytes of what they say.
    bytes: usize,
    /// How many each agent has said.
    said: BTreeMap<AgentName, u64>,
    /// How many agents have gone.
    gone: u64,
}

/// What `POST /v1/agents/:name/events` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Say {
    r#type: String,
    payload: Option<Value>,
}

impl Sessions {
    /// Forgets what an agent has said, which has gone.
    pub fn forget(&self, agent: &AgentName) {
        self.said().forget(agent);
    }

    /// Locks what is kept, unless an agent has gone since one was known to be there: it may be that one.
    fn while_there(&self, known: &Known) -> Option<MutexGuard<'_, Said>> {
        Some(self.said()).filter(|said| said.gone == known.gone)
    }

    /// Locks what is kept.
    pub fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().expect("nothing panics while it holds them")
    }
}

impl Said {
    /// Draws the next number of an agent.
    pub fn number(&mut self, agent: &AgentName) -> u64 {
        if self.said.len() >= SESSION_COUNTERS_MAX && !self.said.contains_key(agent) {
            let kept: BTreeSet<&AgentName> = self.latest.iter().map(|event| &event.agent).collect();
            self.said.retain(|other, _| kept.contains(other));
        }
        let number = self.said.entry(agent.clone()).or_default();
        *number += 1;
        *number
    }

    fn keep(&mut self, event: Arc<SessionEvent>) {
        self.bytes += event.bytes();
        self.latest.push_back(event);
        while self.latest.len() > SESSION_EVENTS_MAX || self.bytes > SESSION_EVENTS_BYTES_MAX {
            let Some(oldest) = self.latest.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
        }
    }

    fn forget(&mut self, agent: &AgentName) {
        self.gone += 1;
        // Who has said nothing has no events.
        if self.said.remove(agent).is_some() {
            let Self { latest, bytes, .. } = self;
            latest.retain(|event| {
                let stays = event.agent != *agent;
                *bytes -= if stays { 0 } else { event.bytes() };
                stays
            });
        }
    }
}

/// Refuses a payload that is too long, `as_kept` says in which form.
fn fits(payload: &Value, as_kept: &str) -> Result<(), Failure> {
    let bytes = payload.to_string().len();
    if bytes <= SESSION_EVENT_BYTES_MAX {
        return Ok(());
    }
    let reason =
        format!("\"payload\" has {bytes} bytes{as_kept}; accepted: at most {SESSION_EVENT_BYTES_MAX}");
    Err(Failure::invalid(reason))
}

/// `POST /v1/agents/:name/events`.
pub(super) async fn say(asked: Asked) -> Answer {
    let mut known = known_agent(&asked).await?;
    let Say { r#type, payload } = asked.json()?;
    let kind = observers::checked("type", r#type, TYPE_BYTES_MAX)?;
    let payload = payload.unwrap_or_else(|| json!({}));
    fits(&payload, "")?;
    // Before the lock, which the engine may wait for: all that was said is looked through.
    let payload = redact_json(payload);
    fits(&payload, " where its secrets are left out")?;
    let owner = &asked.shared.owner;
    let at = owner.now();
    let mut said = loop {
        if let Some(said) = asked.shared.api.sessions.while_there(&known) {
            break said;
        }
        known = known_agent(&asked).await?;
    };
    let agent = known.agent;
    let event = Arc::new(SessionEvent {
        number: said.number(&agent),
        agent,
        kind,
        payload,
        at,
    });
    said.keep(Arc::clone(&event));
    // Still under the lock, so that observers are told of them in the order of their numbers.
    owner.journal().tell(&event);
    drop(said);
    Ok(Data::created(row(&event)))
}

/// `GET /v1/agents/:name/events`: the newest first.
pub(super) async fn list(asked: Asked) -> Answer {
    let agent = agent(&asked).await?;
    let accepted = format!("1 to {SESSION_EVENTS_SHOWN_MAX}");
    let [kind, limit] = asked.query([("type", "the type of an event"), ("limit", &accepted)])?;
    let limit = limit_of(limit, SESSION_EVENTS_SHOWN, SESSION_EVENTS_SHOWN_MAX)?;
    let said = asked.shared.api.sessions.said();
    let own = said
        .latest
        .iter()
        .rev()
        .filter(|event| event.agent == agent && kind.as_ref().is_none_or(|kind| *kind == event.kind));
    let own: Vec<Arc<SessionEvent>> = own.take(limit).cloned().collect();
    drop(said);
    Ok(Data::ok(own.iter().map(|event| row(event)).collect()))
}

/// An agent that was there after so many had gone.
struct Known {
    agent: AgentName,
    gone: u64,
}

async fn known_agent(asked: &Asked) -> Result<Known, Failure> {
    let gone = asked.shared.api.sessions.said().gone;
    let agent = agent(asked).await?;
    Ok(Known { agent, gone })
}

/// Returns whose session is meant: its own by an agent's token, any of the workspace by its key.
async fn agent(asked: &Asked) -> Result<AgentName, Failure> {
    let holder = asked.holder()?;
    let view = agents::named(asked, holder.workspace()).await?;
    match holder {
        Holder::Agent(own) if own != view.name => {
            let reason = format!(
                "this is the token of {:?}, and {:?} tells of its own session; use its token, or the key of the workspace",
                shown(own.local()),
                shown(view.name.local())
            );
            Err(Failure::new(StatusCode::FORBIDDEN, "agent_mismatch", reason))
        }
        Holder::Agent(_) | Holder::Workspace(_) | Holder::Node(_) | Holder::Observer { .. } => Ok(view.name),
    }
}

fn row(event: &SessionEvent) -> Value {
    json!({
        "id": event.id(),
        "agent_id": agent_id(&event.agent),
        "type": event.kind,
        "payload": event.payload,
        "sequence": event.number,
        "created_at": event.at.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Timestamp;

    fn agent(n: usize) -> AgentName {
        AgentName::new(&format!("a{n}")).expect("a good name")
    }

    fn kept(agent: AgentName, number: u64) -> SessionEvent {
        SessionEvent {
            agent,
            number,
            kind: "x".to_owned(),
            payload: Value::Null,
            at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn what_an_agent_has_said_is_forgotten_and_makes_room_once_it_has_gone() {
        let mut said = Said::default();
        for (who, number) in [(0, 1), (1, 1), (0, 2)] {
            assert_eq!(said.number(&agent(who)), number);
            said.keep(Arc::new(kept(agent(who), number)));
        }
        said.forget(&agent(0));
        let left: Vec<&AgentName> = said.latest.iter().map(|event| &event.agent).collect();
        assert_eq!(left, [&agent(1)]);
        assert_eq!(said.bytes, kept(agent(1), 1).bytes());
        assert_eq!([0, 1].map(|n| said.number(&agent(n))), [1, 2]);
    }

    #[test]
    fn who_was_there_before_an_agent_went_is_looked_for_once_more() {
        let sessions = Sessions::default();
        let known = |gone| Known {
            agent: agent(0),
            gone,
        };
        assert!(sessions.while_there(&known(0)).is_some());
        // One that has said nothing goes, and may be the one that is about to.
        sessions.forget(&agent(0));
        assert!(sessions.while_there(&known(0)).is_none());
        assert!(sessions.while_there(&known(1)).is_some());
    }

    #[test]
    fn an_agent_of_which_nothing_is_kept_is_forgotten_when_there_are_too_many() {
        let mut said = Said::default();
        for n in 0..SESSION_COUNTERS_MAX {
            assert_eq!(said.number(&agent(n)), 1);
        }
        said.keep(Arc::new(kept(agent(1), 1)));
        assert_eq!(said.number(&agent(0)), 2, "as many are counted");
        assert_eq!(said.number(&agent(SESSION_COUNTERS_MAX)), 1);
        assert_eq!(said.said.len(), 2);
        assert_eq!([0, 1].map(|n| said.number(&agent(n))), [1, 2]);
    }
}

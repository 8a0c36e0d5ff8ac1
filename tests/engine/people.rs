//! Agents as sessions register them, and who there is.

use super::*;

/// An agent as a session registers it, by the instance of that number.
pub fn registration(agent: &str, instance: Option<u128>) -> agents::Registration {
    let (project, name) = agent.split_once(':').unzip();
    agents::Registration {
        project: project.map(str::to_owned),
        name: name.unwrap_or(agent).to_owned(),
        instance: instance.map(uuid::Uuid::from_u128),
        ..agents::Registration::default()
    }
}

/// The same agent, of a role.
pub fn of_role(role: &str, registration: agents::Registration) -> agents::Registration {
    let profile = agents::Profile {
        role: Some(role.to_owned()),
        ..agents::Profile::default()
    };
    agents::Registration {
        profile,
        ..registration
    }
}

pub fn not_admitted(session: SessionId, refusal: agents::Refusal) -> Effect {
    let result = Err(Refusal::Agents(refusal));
    Effect::Opened { session, result }
}

/// Who there is, but the roster.
pub fn others(relay: &Relay) -> Vec<String> {
    let pending = relay.engine.status().pending;
    let others = pending.iter().skip(3).take(pending.len() - 4);
    others.map(|(agent, _)| agent.to_string()).collect()
}

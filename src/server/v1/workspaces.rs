//! Workspaces, each of which is a project of relay's.
//!
//! Whoever may ask relay for anything gets a key of any workspace: the bus belongs to one user of one machine, and each of that
//! user's programs may speak for any agent anyway. A key says whom a request is about; it is no lock between programs.

use std::collections::BTreeMap;
use std::sync::Mutex;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asked::Asked;
use super::envelope::{Answer, Data, Failure};
use super::tokens::Holder;
use crate::engine::{DEFAULT_PROJECT, Reply, Timestamp, Who, agents, check_name, shown};
use crate::server::Shared;
use crate::server::limits::WORKSPACES_MAX;

/// The workspaces that were made here, and when.
#[derive(Default)]
pub(super) struct Workspaces(Mutex<BTreeMap<String, Timestamp>>);

impl Workspaces {
    /// Makes a workspace, unless it is there; returns when it was made.
    fn made(&self, name: &str, now: Timestamp) -> Result<(Timestamp, bool), Failure> {
        let mut made = self.0.lock().expect("nothing panics while it holds them");
        if let Some(at) = made.get(name) {
            return Ok((*at, true));
        }
        if made.len() >= WORKSPACES_MAX {
            let reason = format!(
                "there are as many workspaces already as are accepted: {WORKSPACES_MAX}; use one of them"
            );
            return Err(Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_workspaces",
                reason,
            ));
        }
        made.insert(name.to_owned(), now);
        Ok((now, false))
    }

    fn at(&self, name: &str) -> Option<Timestamp> {
        let made = self.0.lock().expect("nothing panics while it holds them");
        made.get(name).copied()
    }
}

/// What `POST /v1/workspaces` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
}

/// What `POST /api/key` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    workspace: Option<String>,
}

/// `POST /v1/workspaces`.
pub(super) async fn create(asked: Asked) -> Answer {
    let Create { name } = asked.json()?;
    let made = make(&asked, &name).await?;
    let json = json!({
        "workspace_id": id(&made.name),
        "api_key": made.key,
        "created_at": made.at.to_string(),
    });
    Ok(if made.existed {
        Data::ok(json)
    } else {
        Data::created(json)
    })
}

/// `POST /api/key`: the same for the person, `{"workspace": …, "key": …}`.
pub(super) async fn key(asked: Asked) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    let answer = async {
        let Key { workspace } = asked.json()?;
        let workspace = workspace.as_deref().unwrap_or(DEFAULT_PROJECT);
        let made = make(&asked, workspace).await?;
        Ok::<Value, Failure>(json!({"workspace": made.name, "key": made.key}))
    };
    match answer.await {
        Ok(json) => axum::Json(json).into_response(),
        Err(failure) => failure.in_persons_words(),
    }
}

/// A workspace that is there, with a new key.
struct Made {
    name: String,
    key: String,
    at: Timestamp,
    existed: bool,
}

async fn make(asked: &Asked, name: &str) -> Result<Made, Failure> {
    check_name("workspace", name)
        .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, "invalid_name", error))?;
    let name = asked.shared.home.meant(name);
    let there = since(asked, name).await?;
    let (at, existed) = match there {
        Some(at) => (at, true),
        None => asked.shared.api.workspaces.made(name, asked.shared.owner.now())?,
    };
    let key = asked.shared.api.tokens.issue(Holder::Workspace(name.to_owned()));
    Ok(Made {
        name: name.to_owned(),
        key: key.reveal(),
        at,
        existed,
    })
}

/// Returns since when there is a workspace; none if there is none. What an agent has brought counts from the start of the relay.
async fn since(asked: &Asked, name: &str) -> Result<Option<Timestamp>, Failure> {
    if let Some(at) = asked.shared.api.workspaces.at(name) {
        return Ok(Some(at));
    }
    let has_agents = !of_workspace(asked, name).await?.is_empty();
    Ok((has_agents || name == DEFAULT_PROJECT).then(|| asked.shared.started_at))
}

/// Lists the agents of a workspace.
pub(super) async fn of_workspace(asked: &Asked, workspace: &str) -> Result<Vec<agents::AgentView>, Failure> {
    let list = agents::Command::List {
        project: Some(workspace.to_owned()),
        which: agents::Which::All,
    };
    let reply = asked.call(Who::Agent(None), list).await?;
    let Reply::Agents(agents::Reply::Listed { agents, .. }) = reply else {
        unreachable!("a list of agents is asked for, not {reply:?}")
    };
    Ok(agents)
}

/// `GET /v1/workspaces/by-name/:name`.
pub(super) async fn by_name(asked: Asked) -> Answer {
    asked.nothing()?;
    let name = asked.shared.home.meant(asked.named());
    let known = match check_name("workspace", name) {
        Ok(()) => since(&asked, name).await?,
        Err(_) => None,
    };
    let Some(at) = known else {
        let reason = format!(
            "no workspace {:?}; make it by POST /v1/workspaces {{\"name\": …}}",
            shown(name)
        );
        return Err(Failure::new(StatusCode::NOT_FOUND, "workspace_not_found", reason));
    };
    Ok(Data::ok(
        json!({"id": id(name), "name": name, "created_at": at.to_string()}),
    ))
}

/// `GET /v1/workspace`.
pub(super) async fn info(asked: Asked) -> Answer {
    let holder = asked.holder()?;
    asked.nothing()?;
    let name = holder.workspace();
    let at = since(&asked, name).await?.unwrap_or(asked.shared.started_at);
    Ok(Data::ok(json!({
        "id": id(name),
        "name": name,
        "system_prompt": null,
        "plan": "free",
        "created_at": at.to_string(),
        "metadata": {},
    })))
}

fn id(name: &str) -> String {
    format!("ws_{name}")
}

impl Shared {
    /// Tells what the API says of when something was made that it did not make.
    pub(super) fn made_before(&self) -> String {
        self.started_at.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_workspace_more_than_are_accepted_is_refused_and_one_that_is_there_is_had_again() {
        let (workspaces, first) = (Workspaces::default(), Timestamp::from_millis(1));
        let later = Timestamp::from_millis(2);
        for number in 0..WORKSPACES_MAX {
            let made = workspaces.made(&format!("w{number}"), first);
            assert!(matches!(made, Ok((_, false))), "{made:?}");
        }
        let again = workspaces.made("w0", later);
        assert!(matches!(&again, Ok((at, true)) if *at == first), "{again:?}");
        let more = workspaces.made("more", later);
        assert!(
            matches!(&more, Err(failure) if failure.is("too_many_workspaces")),
            "{more:?}"
        );
        assert_eq!(workspaces.at("more"), None);
    }
}

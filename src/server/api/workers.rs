//! What `relay spawn`, `relay release` and whoever lists workers ask for.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;
use serde::Deserialize;

use super::super::Shared;
use super::super::wire::Link;
use super::{answer, asked, object};
use crate::engine::workers::{Asked, Command, Reply, WorkerState, WorkerView};
use crate::tools::messages;
use crate::tools::text::Json;

/// What `POST /api/spawn` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spawn {
    /// The person itself, if it is left out.
    from: Option<String>,
    name: String,
    cli: String,
    task: String,
    model: Option<String>,
    cwd: Option<String>,
}

/// What `POST /api/release` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    /// The person itself, if it is left out.
    from: Option<String>,
    name: String,
    reason: Option<String>,
}

/// What `POST /api/workers` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {}

/// `POST /api/spawn`: starts a worker and answers, once it runs, `{"worker": number, "name": …, "parent": …}`.
pub(in crate::server) async fn spawn(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let Spawn {
        from,
        name,
        cli,
        task,
        model,
        cwd,
    } = match asked(request).await {
        Ok(asked) => asked,
        Err(response) => return *response,
    };
    let asked = Asked {
        from,
        name,
        cli,
        task,
        model,
        cwd,
    };
    answer(&shared, &link, Command::Spawn(Box::new(asked))).await
}

/// `POST /api/release`: ends a worker, and answers at once as [`spawn`] does.
pub(in crate::server) async fn release(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Release { from, name, reason }) => {
            answer(&shared, &link, Command::Release { from, name, reason }).await
        }
        Err(response) => *response,
    }
}

/// `POST /api/workers`: answers `{"workers": [{"worker", "name", "parent", "cli", "spawned_at", "state"}]}` with all that live, and those that
/// have ended and whose agents are still there: `state` is `starting`, `started`, `ready`, `ending`, `failed` with `reason`, or `exited` with
/// `status`.
pub(in crate::server) async fn list(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(List {}) => answer(&shared, &link, Command::List).await,
        Err(response) => *response,
    }
}

/// Writes an answer that is about workers.
pub(super) fn write(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Spawned {
            agent,
            parent,
            worker,
        }
        | Reply::Released {
            agent,
            parent,
            worker,
        } => object(|object| {
            object.member("worker").raw(&worker.0.to_string());
            object.member("name").plain(agent.as_str());
            object.member("parent").plain(parent.as_str());
        }),
        Reply::Listed(workers) => object(|object| object.member("workers").array(workers, write_worker)),
    }
}

fn write_worker(json: &mut Json<'_>, view: &WorkerView) {
    let WorkerView {
        worker,
        agent,
        parent,
        cli,
        spawned_at,
        state,
    } = view;
    json.object(|object| {
        object.member("worker").raw(&worker.0.to_string());
        object.member("name").plain(agent.as_str());
        object.member("parent").plain(parent.as_str());
        match cli {
            Some(cli) => object.member("cli").string(cli),
            None => object.member("cli").null(),
        }
        messages::write_time(*spawned_at, object.member("spawned_at"));
        object.member("state").plain(state.as_str());
        match state {
            WorkerState::Starting | WorkerState::Started | WorkerState::Ready | WorkerState::Ending => {}
            WorkerState::Failed { reason } => object.member("reason").string(reason),
            WorkerState::Exited { status } => object.member("status").plain(&status.to_string()),
        }
    });
}

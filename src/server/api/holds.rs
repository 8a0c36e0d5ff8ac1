//! What `relay hold`, `relay allow` and `relay drop` ask for.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::{answer, asked};
use crate::engine::holds::{Command, Whom};
use crate::server::wire::Link;
use crate::server::{Shared, refuse};

/// What `POST /api/hold` takes: one of both; lists what is held if there is neither.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hold {
    agent: Option<String>,
    #[serde(default)]
    all: bool,
}

/// What `POST /api/allow` takes: one of the three.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allow {
    /// Its id, or the first digits of it.
    message: Option<String>,
    agent: Option<String>,
    #[serde(default)]
    all: bool,
}

/// What `POST /api/drop` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drop {
    /// Its id, or the first digits of it.
    message: String,
}

/// `POST /api/hold`: holds what an agent gets and sends, or all, and answers `{"deliveries": n}`, how many are held for that; or lists
/// what is held. [`crate::tools::holds::write`] writes the answers.
pub(in crate::server) async fn hold(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let command = match asked(request).await {
        Ok(Hold {
            agent: None,
            all: false,
        }) => Command::List,
        Ok(Hold {
            agent: None,
            all: true,
        }) => Command::Hold(Whom::All),
        Ok(Hold {
            agent: Some(agent),
            all: false,
        }) => Command::Hold(Whom::Agent(agent)),
        Ok(Hold { .. }) => {
            let reason = "\"agent\" and \"all\" exclude each other; accepted: one of them, or none to list what is held";
            return refuse(StatusCode::BAD_REQUEST, reason);
        }
        Err(response) => return *response,
    };
    answer(&shared, &link, command).await
}

/// `POST /api/allow`: lets a message pass that is held, or lifts a hold, which lets pass what was held for that alone.
pub(in crate::server) async fn allow(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    let command = match asked(request).await {
        Ok(Allow {
            message: Some(message),
            agent: None,
            all: false,
        }) => Command::Allow { message },
        Ok(Allow {
            message: None,
            agent: Some(agent),
            all: false,
        }) => Command::Lift(Whom::Agent(agent)),
        Ok(Allow {
            message: None,
            agent: None,
            all: true,
        }) => Command::Lift(Whom::All),
        Ok(Allow { .. }) => {
            let reason = "accepted: one of \"message\", \"agent\" and \"all\"";
            return refuse(StatusCode::BAD_REQUEST, reason);
        }
        Err(response) => return *response,
    };
    answer(&shared, &link, command).await
}

/// `POST /api/drop`: takes a message that is held out of all inboxes in which it is, for good.
pub(in crate::server) async fn drop(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(link): ConnectInfo<Link>,
    request: Request,
) -> Response {
    match asked(request).await {
        Ok(Drop { message }) => answer(&shared, &link, Command::Drop { message }).await,
        Err(response) => *response,
    }
}

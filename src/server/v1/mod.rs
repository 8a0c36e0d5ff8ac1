//! The API that Agent Relay's own clients speak, under `/v1`: JSON to commands of the engine, its replies to JSON.
//!
//! It decides nothing about messages: they are posted as those of any tool are, and read with any. It keeps what the engine has
//! no use for: tokens, when workspaces were made, and what an agent says of itself and of its sessions.

mod actions;
mod agents;
mod asked;
mod channels;
mod deliveries;
mod envelope;
mod events;
mod messages;
mod nodes;
mod observers;
mod pushes;
mod records;
mod reference;
mod routes;
mod search;
mod sessions;
mod tokens;
mod trace;
mod unsupported;
mod workspaces;

use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, get, on, post};

use super::Shared;
use super::http::collect_body;
use super::owner::Gone;
use super::random::Random;
use crate::engine::AgentName;
pub(super) use asked::Shown;
pub(super) use envelope::Failure;
pub use reference::reference;
use tokens::{Holder, Tokens};
use unsupported::UNSUPPORTED;

/// What is kept for the API.
pub(super) struct Api {
    tokens: Tokens,
    workspaces: workspaces::Workspaces,
    cards: agents::Cards,
    observers: observers::Observers,
    sessions: sessions::Sessions,
    /// Held while an agent is registered and what is kept of it is made, or while one is retired.
    names: Mutex<()>,
}

impl Api {
    /// Keeps nothing yet; tokens are made of `random`.
    pub fn new(random: Random) -> Self {
        Self {
            tokens: Tokens::new(random),
            workspaces: workspaces::Workspaces::default(),
            cards: agents::Cards::default(),
            observers: observers::Observers::default(),
            sessions: sessions::Sessions::default(),
            names: Mutex::default(),
        }
    }
}

/// For whoever registers agents: programs, and nodes over their connections.
impl Api {
    /// Has an agent registered by `register`, or found, and makes a new token of its; the one before is not good any more. Nobody retires the
    /// agent in between, which would end its token.
    ///
    /// # Errors
    ///
    /// Those of `register`; no token was made then.
    pub fn with_token<R, E>(
        &self,
        register: impl FnOnce() -> Result<(AgentName, R), E>,
    ) -> Result<(R, String), E> {
        let _names = self.names();
        let (agent, registered) = register()?;
        let token = self.tokens.issue(Holder::Agent(agent));
        Ok((registered, token.reveal()))
    }
}

/// For the person, and for whoever runs a workspace.
impl Api {
    /// Makes a new token of an agent that was there, which `is_there` then looks for once more: it may have gone meanwhile, and that ends only
    /// what it had by then. None if it is not there; the token before is not good any more, either way.
    ///
    /// # Errors
    ///
    /// Those of `is_there`; the new token is not good then.
    pub fn rotate<E>(
        &self,
        agent: &AgentName,
        is_there: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Option<String>, E> {
        let _names = self.names();
        let token = self.tokens.issue(Holder::Agent(agent.clone()));
        let looked = is_there();
        if matches!(looked, Ok(true)) {
            return Ok(Some(token.reveal()));
        }
        self.tokens.revoke_of_agent(agent);
        looked.map(|_| None)
    }

    /// Retires an agent by `retire`, not between an agent's registration and its token.
    pub fn retire<R>(&self, retire: impl FnOnce() -> R) -> R {
        let _names = self.names();
        retire()
    }

    /// Makes what forgets all that is kept of an agent, once it goes: nobody who takes its name later has to do with that.
    pub fn forgetting(self: &Arc<Self>) -> Gone {
        let api = Arc::clone(self);
        Box::new(move |agent| {
            api.tokens.revoke_of_agent(agent);
            api.cards.forget(agent);
            api.sessions.forget(agent);
        })
    }

    /// Keeps whoever is registered here, or asked for here to be retired, waiting while this is held.
    fn names(&self) -> MutexGuard<'_, ()> {
        self.names.lock().expect("nothing panics while it holds them")
    }
}

/// Makes the routes, and those by which the person asks for a key, and for what happens.
pub(super) fn routes() -> Router<Arc<Shared>> {
    let routes = routes::all().map(|route| (route.path, (route.to)()));
    let unsupported = UNSUPPORTED.iter().flat_map(|entry| {
        let routes = entry.routes.iter();
        routes.map(|(method, path)| {
            (
                *path,
                on(filter(method), async |request| decline(entry, request).await),
            )
        })
    });
    let all = routes.chain(unsupported);
    let of_person = Router::new()
        .route("/api/key", post(workspaces::key))
        .route("/api/tail", get(events::tail))
        .route("/api/dead-letters", post(pushes::list))
        .route("/api/redrive", post(pushes::redrive));
    all.fold(of_person, |router, (path, to)| router.route(path, to))
}

/// Lists the addresses that want a token, with their methods.
#[cfg(test)]
pub(super) fn paths_that_want_a_token() -> impl Iterator<Item = (&'static str, &'static str)> {
    let wanting = routes::all().filter(|route| route.wants != routes::Wants::Nothing);
    wanting.map(|route| (route.method, route.path))
}

fn filter(method: &str) -> MethodFilter {
    match method {
        "GET" => MethodFilter::GET,
        "POST" => MethodFilter::POST,
        "PUT" => MethodFilter::PUT,
        "PATCH" => MethodFilter::PATCH,
        _ => MethodFilter::DELETE,
    }
}

async fn decline(entry: &unsupported::Unsupported, request: Request) -> Response {
    drain(request).await;
    Failure::not_supported(entry.name, entry.why).into_response()
}

/// Reads what a request brings, so that its connection goes on.
async fn drain(request: Request) {
    drop(collect_body(request.into_body()).await);
}

/// Tells whether an address belongs to the API.
pub(super) fn is_under(uri: &Uri) -> bool {
    uri.path() == "/v1" || uri.path().starts_with("/v1/")
}

/// Answers for an address that is not there.
pub(super) async fn unknown_path(request: Request) -> Response {
    let path = crate::engine::shown(request.uri().path());
    drain(request).await;
    let reason = format!("nothing at {path:?}; docs/API.md lists what there is");
    Failure::new(StatusCode::NOT_FOUND, "not_found", reason).into_response()
}

/// Answers for a method that an address does not have.
pub(super) async fn unknown_method(request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    drain(request).await;
    let routes = routes::all().map(|route| (route.method, route.path));
    let unsupported = UNSUPPORTED.iter().flat_map(|entry| entry.routes.iter().copied());
    let accepted = routes
        .chain(unsupported)
        .filter(|(_, template)| matches(template, &path));
    let accepted: Vec<&str> = accepted.map(|(method, _)| method).collect();
    let accepted = accepted.join(", ");
    let path = crate::engine::shown(&path);
    let method: Method = method;
    Failure::method(
        format!("{method} is not for {path:?}; accepted: {accepted}"),
        accepted,
    )
    .into_response()
}

/// Tells whether a path is one of a template's. A part of the path that has a name goes before one that is a parameter, so that the
/// answer may list a method too many, never one too few.
fn matches(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(part), Some(_)) if part.starts_with("{*") => return true,
            (Some(part), Some(found)) if part.starts_with('{') || part == found => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests;

//! What happens in a workspace, for observers: the stream of its events, and the latest of them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::asked::{Asked, Shown, limit_of, not_accepted};
use super::envelope::{Answer, Data, Failure};
use super::observers::ObserverId;
use super::tokens::{Holder, Kind};
use crate::engine::shown;
use crate::server::Shared;
use crate::server::limits::{
    EVENTS_AT_ONCE, EVENTS_BYTES_MAX, EVENTS_MAX, EVENTS_SHOWN, EVENTS_SHOWN_MAX, OBSERVER_TOKENS_MAX,
    OBSERVERS_MAX,
};
use crate::server::observers::{self, Ahead, Of, Page, Scope, Since, View};
use crate::server::websocket::Upgrade;

/// `GET /v1/workspace/events`: the events behind a number, the oldest first.
pub(super) async fn list(asked: Asked) -> Answer {
    let view = match asked.any_holder()? {
        Holder::Workspace(workspace) => View::all(Of::Workspace(workspace)),
        Holder::Observer { id, turn, .. } => {
            let view = asked
                .shared
                .api
                .observers
                .view(id, turn, Scope::Stream, asked.shared.owner.now());
            view.map_err(forbidden)?
        }
        other @ (Holder::Agent(_) | Holder::Node(_)) => return Err(no_observer(other.kind())),
    };
    let accepted = format!("1 to {EVENTS_SHOWN_MAX}");
    let [since, limit] = asked.query([("since", "the number of an event"), ("limit", &accepted)])?;
    let since = since.as_deref().map_or(Ok(0), number)?;
    let limit = limit_of(limit, EVENTS_SHOWN, EVENTS_SHOWN_MAX)?;
    let journal = asked.shared.owner.journal();
    let Since {
        mut cursor,
        behind: before,
        missed,
    } = behind(journal.since(&view.of, since))?;
    let latest = journal.latest(&view.of);
    let mut rows: Vec<Value> = Vec::new();
    let mut next = before;
    // In parts, so that others are served in between. What is forgotten while it is read is missed by whoever asks for what comes next.
    while let Ok(Page {
        entries,
        next: to,
        more,
    }) = journal.read(&view.of, cursor, EVENTS_AT_ONCE)
    {
        cursor = to;
        let mut entries = entries.into_iter().filter(|(number, _)| *number <= latest);
        let is_full = entries.any(|(number, entry)| {
            if rows.len() == limit {
                return true;
            }
            next = number;
            if view.shows(&entry) {
                rows.push(entry.row(&view.of, number));
            }
            false
        });
        if is_full || !more {
            break;
        }
    }
    Ok(Data::ok(json!({
        "events": rows,
        "latest_seq": latest,
        "next_since": next,
        "missed": missed,
    })))
}

/// `GET /v1/ws`: the stream of a workspace's events.
pub(super) async fn socket(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let in_query = |wanted: &str| {
        let mut query = form_urlencoded::parse(query.as_bytes());
        query
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.into_owned())
    };
    let (token, since) = (in_query("token"), in_query("since"));
    let shown = parts.extensions.get::<Shown>().cloned().unwrap_or_default();
    let token = token.as_deref().map(str::as_bytes).or(shown.token());
    let holder = token.and_then(|token| shared.api.tokens.holder(token));
    let may = match holder {
        Some(Holder::Workspace(workspace)) => {
            let view = View::all(Of::Workspace(workspace));
            May::Always(view)
        }
        Some(Holder::Observer { id, turn, .. }) => May::ByToken { id, turn },
        Some(other @ (Holder::Agent(_) | Holder::Node(_))) => {
            return no_observer(other.kind()).into_response();
        }
        None => {
            let reason = format!(
                "this address wants {}, as ?token= or as Authorization: Bearer; POST /v1/observer-tokens gives one",
                Kind::Observer.words()
            );
            return Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", reason).into_response();
        }
    };
    let view = match may.view(&shared) {
        Ok(view) => view,
        Err(reason) => return forbidden(reason).into_response(),
    };
    let since = match since.map(|since| start(&shared, &view.of, &since)) {
        None => shared.owner.journal().now(&view.of),
        Some(Ok(since)) => since,
        Some(Err(failure)) => return failure.into_response(),
    };
    let Some(admitted) = observers::admit(&shared) else {
        return too_many().into_response();
    };
    match Upgrade::of(&mut parts, &shared).await {
        Ok(upgrade) => observers::upgrade(admitted, since, upgrade, move |shared| may.view(shared)),
        Err(rejection) => {
            Failure::new(rejection.status(), "not_a_websocket", rejection.body_text()).into_response()
        }
    }
}

/// `GET /api/tail`: the stream of all events, for the person.
pub(super) async fn tail(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let mut since = None;
    let query = parts.uri.query().unwrap_or_default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != "since" || since.is_some() {
            let name = shown(&name);
            let reason = format!("query parameter {name:?} is not taken; accepted, once: since");
            return Failure::invalid(reason).in_persons_words();
        }
        since = Some(value.into_owned());
    }
    let since = match since.map(|since| start(&shared, &Of::All, &since)) {
        None => shared.owner.journal().now(&Of::All),
        Some(Ok(since)) => since,
        Some(Err(failure)) => return failure.in_persons_words(),
    };
    let Some(admitted) = observers::admit(&shared) else {
        return too_many().in_persons_words();
    };
    match Upgrade::of(&mut parts, &shared).await {
        Ok(upgrade) => observers::upgrade(admitted, since, upgrade, |_| Ok(View::all(Of::All))),
        Err(rejection) => {
            Failure::new(rejection.status(), "not_a_websocket", rejection.body_text()).in_persons_words()
        }
    }
}

/// Finds where a stream begins that goes on behind a number.
fn start(shared: &Shared, of: &Of, since: &str) -> Result<Since, Failure> {
    let since = number(since)?;
    behind(shared.owner.journal().since(of, since))
}

/// By what somebody may look on.
enum May {
    /// By the key of the workspace.
    Always(View),
    /// By a token, for as long as it is good.
    ByToken { id: ObserverId, turn: u64 },
}

impl May {
    fn view(&self, shared: &Shared) -> Result<View, String> {
        match self {
            Self::Always(view) => Ok(view.clone()),
            Self::ByToken { id, turn } => {
                shared
                    .api
                    .observers
                    .view(*id, *turn, Scope::Stream, shared.owner.now())
            }
        }
    }
}

fn number(given: &str) -> Result<u64, Failure> {
    let wanted = "the number of an event, its \"seq\"; or 0 for all that are kept";
    given.parse().map_err(|_| not_accepted("since", given, wanted))
}

fn behind(since: Result<Since, Ahead>) -> Result<Since, Failure> {
    since.map_err(|Ahead { latest }| {
        let reason = format!(
            "\"since\" is ahead of the latest event, {latest}; relay may have been started anew on a clock that was set back: ask with since=0"
        );
        Failure::new(StatusCode::BAD_REQUEST, "since_ahead", reason)
    })
}

fn too_many() -> Failure {
    let reason = format!("{OBSERVERS_MAX} observers are there, the most that are let in; end one");
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_observers", reason)
}

pub(super) fn forbidden(reason: String) -> Failure {
    Failure::new(StatusCode::UNAUTHORIZED, "observer_token_forbidden", reason)
}

fn no_observer(given: Kind) -> Failure {
    let reason = format!(
        "this address wants {} or {}; this is {}",
        Kind::Observer.words(),
        Kind::Workspace.words(),
        given.words()
    );
    Failure::new(StatusCode::UNAUTHORIZED, "observer_token_required", reason)
}

/// Says how much is kept.
pub(super) fn bounds() -> String {
    let mib = EVENTS_BYTES_MAX / (1024 * 1024);
    format!(
        "| events that can be gone back to | the latest {EVENTS_MAX} of all workspaces, four for each message and agent, and {mib} MiB of text |\n\
         | observers, and `relay tail`, at a time | {OBSERVERS_MAX} |\n\
         | tokens of observers | {OBSERVER_TOKENS_MAX} of a workspace |\n"
    )
}

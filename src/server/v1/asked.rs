//! A request of the API, read whole before anything is refused: with a body unread, its connection could not go on.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::RequestExt as _;
use axum::extract::{FromRequest, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use chrono::DateTime;
use serde::de::DeserializeOwned;

use super::envelope::Failure;
use super::tokens::{Holder, Kind};
use crate::engine::{AgentName, Carrier, Command, Ending, Reply, SessionId, Timestamp, Who, agents, shown};
use crate::server::Shared;
use crate::server::accept::json_body;
use crate::server::http::collect_body;
use crate::server::owner::{Answered, Outcome, Owner};

/// Where a token of the API stands if `Authorization` has the relay's own.
pub(super) const API_KEY: &str = "x-api-key";

const KEYS: [&str; 2] = ["idempotency-key", "x-idempotency-key"];

/// What a request has shown of whom it stands for. Taken out of its headers at the door.
#[derive(Clone, Default)]
pub(crate) struct Shown(Option<Bytes>);

impl Shown {
    /// Takes the token of the API out of a request's headers; `guarded` says that `Authorization` is for the relay's own.
    pub fn take(headers: &mut HeaderMap, guarded: bool) -> Self {
        let own = headers.remove(API_KEY);
        if let Some(own) = own {
            return Self(Some(Bytes::copy_from_slice(own.as_bytes())));
        }
        let bearer = headers.get(header::AUTHORIZATION).filter(|_| !guarded);
        let token = bearer.and_then(|value| {
            let (scheme, rest) = value.as_bytes().split_at_checked("Bearer ".len())?;
            let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer ");
            is_bearer.then(|| Bytes::copy_from_slice(rest.trim_ascii()))
        });
        Self(token)
    }

    /// Returns the token.
    pub fn token(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Keeps the secret out of every log.
impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

/// A request.
pub(super) struct Asked {
    pub shared: Arc<Shared>,
    parts: Parts,
    body: Bytes,
    /// What its path names: at most two things.
    named: Vec<String>,
}

impl FromRequest<Arc<Shared>> for Asked {
    type Rejection = Response;

    async fn from_request(mut request: Request, shared: &Arc<Shared>) -> Result<Self, Response> {
        let params = request.extract_parts::<RawPathParams>().await;
        let (parts, body) = request.into_parts();
        let body = match collect_body(body).await {
            Ok(body) => body,
            Err((status, reason)) => {
                let code = match status {
                    StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
                    _ => "invalid_request",
                };
                return Err(Failure::new(status, code, reason).into_response());
            }
        };
        let Ok(params) = params else {
            return Err(
                Failure::invalid("the path is no UTF-8; accepted: percent-encoded UTF-8").into_response(),
            );
        };
        let named = params.iter().map(|(_, value)| value.to_owned()).collect();
        Ok(Self {
            shared: Arc::clone(shared),
            parts,
            body,
            named,
        })
    }
}

impl Asked {
    /// Returns the workspace or the agent that the request stands for.
    pub fn holder(&self) -> Result<Holder, Failure> {
        match self.any_holder()? {
            holder @ (Holder::Workspace(_) | Holder::Agent(_)) => Ok(holder),
            Holder::Node(_) => Err(wrong_kind("agent_token_required", Kind::Agent, Kind::Node)),
            Holder::Observer { .. } => Err(observes_alone()),
        }
    }

    /// Returns whom the request stands for, whoever it is.
    pub fn any_holder(&self) -> Result<Holder, Failure> {
        let unauthorized = |reason| Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", reason);
        let shown = self.parts.extensions.get::<Shown>();
        let Some(token) = shown.and_then(|shown| shown.0.as_ref()) else {
            return Err(unauthorized(
                "no token of the API; send the header Authorization: Bearer <token>, or X-Api-Key: <token> where relay asks for a token of its own",
            ));
        };
        self.shared.api.tokens.holder(token).ok_or_else(|| {
            unauthorized("this token is not known, or not any more: it was rotated or revoked, its agent has gone, more were made than relay keeps, or relay was started again")
        })
    }

    /// Returns the workspace whose key the request carries.
    pub fn workspace(&self) -> Result<String, Failure> {
        match self.any_holder()? {
            Holder::Workspace(workspace) => Ok(workspace),
            Holder::Observer { .. } => Err(observes_alone()),
            other @ (Holder::Agent(_) | Holder::Node(_)) => Err(wrong_kind(
                "workspace_key_required",
                Kind::Workspace,
                other.kind(),
            )),
        }
    }

    /// Returns the agent whose token the request carries.
    pub fn agent(&self) -> Result<AgentName, Failure> {
        match self.any_holder()? {
            Holder::Agent(agent) => Ok(agent),
            Holder::Observer { .. } => Err(observes_alone()),
            other @ (Holder::Workspace(_) | Holder::Node(_)) => {
                Err(wrong_kind("agent_token_required", Kind::Agent, other.kind()))
            }
        }
    }

    /// Returns what the path names in a workspace: without the workspace's own name before it, if it stands there.
    pub fn named_in(&self, workspace: &str) -> Result<&str, Failure> {
        let named = self.named();
        match named.split_once(':') {
            None => Ok(named),
            Some((project, name)) if self.shared.home.meant(project) == workspace => Ok(name),
            Some((project, _)) => {
                let reason = format!(
                    "{:?} is in the workspace {:?}, and this token is of {workspace:?}; use a token of that workspace",
                    shown(named),
                    shown(project)
                );
                Err(Failure::new(StatusCode::FORBIDDEN, "workspace_mismatch", reason))
            }
        }
    }

    /// Returns what the path names.
    pub fn named(&self) -> &str {
        self.named.first().expect("the route has a parameter")
    }

    /// Returns what the path names behind that.
    pub fn second(&self) -> &str {
        self.named.get(1).expect("the route has two parameters")
    }

    /// Reads the body, which is JSON; no query is taken.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.no_query()?;
        let reason = json_body(&self.parts.headers);
        reason.map_err(|reason| {
            Failure::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                reason,
            )
        })?;
        let path = self.parts.uri.path();
        if self.body.trim_ascii_start().first() == Some(&b'[') {
            // Else it would be taken for the fields of an object in their order.
            let reason = format!("{} takes a JSON object; this is an array", shown(path));
            return Err(Failure::invalid(reason));
        }
        let not_so = |error: &dyn fmt::Display| Failure::invalid(format!("{}: {error}", shown(path)));
        let mut json = serde_json::Deserializer::from_slice(&self.body);
        let value = serde_path_to_error::deserialize(&mut json).map_err(|error| not_so(&error))?;
        json.end().map_err(|error| not_so(&error))?;
        Ok(value)
    }

    /// Sees to it that nothing is said but the address: no query, and no body, or an empty object.
    pub fn nothing(&self) -> Result<(), Failure> {
        self.no_query()?;
        let body = self.body.trim_ascii();
        if body.is_empty()
            || body
                .strip_prefix(b"{")
                .is_some_and(|rest| rest.trim_ascii() == b"}")
        {
            return Ok(());
        }
        let path = shown(self.parts.uri.path());
        Err(Failure::invalid(format!(
            "{path} takes no body; accepted: none, or {{}}"
        )))
    }

    /// Reads a query that may name one parameter, which has one of some values. No body is taken.
    pub fn one_of(&self, parameter: &str, values: &[&'static str]) -> Result<Option<&'static str>, Failure> {
        self.one(parameter, &values.join(", "), |value| {
            values.iter().find(|known| **known == value).copied()
        })
    }

    fn one<T>(
        &self,
        parameter: &str,
        accepted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let [value] = self.query([(parameter, accepted)])?;
        let read = |value: String| read(&value).ok_or_else(|| not_accepted(parameter, &value, accepted));
        value.map(read).transpose()
    }

    /// Reads a query that may name some parameters, each of them once; beside each stands what it accepts. No body is taken.
    pub fn query<const N: usize>(
        &self,
        parameters: [(&str, &str); N],
    ) -> Result<[Option<String>; N], Failure> {
        let query = self.parts.uri.query().unwrap_or_default();
        let mut found = [const { None }; N];
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(at) = parameters.iter().position(|(known, _)| *known == name) else {
                let (name, accepted) = (shown(&name), parameters.map(|(known, _)| known).join(", "));
                let reason = format!("unknown query parameter {name:?}; accepted: {accepted}");
                return Err(Failure::invalid(reason));
            };
            if found[at].is_some() {
                let (parameter, accepted) = parameters[at];
                return Err(not_accepted(parameter, &value, accepted));
            }
            found[at] = Some(value.into_owned());
        }
        if self.body.trim_ascii().is_empty() {
            return Ok(found);
        }
        Err(Failure::invalid("this address takes no body"))
    }

    /// Reads a query that may name one parameter, which is a number. No body is taken.
    pub fn number(&self, parameter: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, Failure> {
        let accepted = format!("{} to {}", range.start(), range.end());
        self.one(parameter, &accepted, |value| {
            value.parse().ok().filter(|number| range.contains(number))
        })
    }

    /// Reads the body, which is JSON or nothing; no query is taken.
    pub fn json_or_nothing<T: DeserializeOwned + Default>(&self) -> Result<T, Failure> {
        if self.body.trim_ascii().is_empty() {
            self.no_query()?;
            return Ok(T::default());
        }
        self.json()
    }

    fn no_query(&self) -> Result<(), Failure> {
        let Some(query) = self.parts.uri.query().filter(|query| !query.is_empty()) else {
            return Ok(());
        };
        let (query, path) = (shown(query), shown(self.parts.uri.path()));
        Err(Failure::invalid(format!(
            "query {query:?} is not taken by {path}"
        )))
    }

    /// Returns the key under which the request may be sent again.
    pub fn idempotency_key(&self) -> Result<Option<String>, Failure> {
        let headers = &self.parts.headers;
        let mut found: Option<&str> = None;
        for value in KEYS.iter().flat_map(|name| headers.get_all(*name)) {
            let Ok(key) = value.to_str() else {
                let reason = "an idempotency key is printable ASCII";
                return Err(Failure::new(
                    StatusCode::BAD_REQUEST,
                    "invalid_idempotency_key",
                    reason,
                ));
            };
            if found.is_some_and(|found| found != key) {
                let reason =
                    "Idempotency-Key and X-Idempotency-Key differ; accepted: one of them, or both the same";
                return Err(Failure::new(
                    StatusCode::BAD_REQUEST,
                    "invalid_idempotency_key",
                    reason,
                ));
            }
            found = Some(key);
        }
        Ok(found.map(str::to_owned))
    }

    /// Asks the engine for something in a session that lasts no longer than that.
    pub async fn call(&self, who: Who, command: impl Into<Command>) -> Result<Reply, Failure> {
        let session = Session::open(&self.shared.owner, who)?;
        let answered = match self.shared.owner.call(session.id, command.into(), None) {
            Some(Outcome::Answered(answered)) => Some(answered),
            Some(Outcome::Parked(mut parked)) => parked.answered().await,
            None => None,
        };
        let Some(Answered { answer, .. }) = answered else {
            return Err(cancelled());
        };
        Ok(answer?)
    }

    /// The same in the name of an agent.
    pub async fn call_as(&self, agent: &AgentName, command: impl Into<Command>) -> Result<Reply, Failure> {
        self.call(Who::Api(agent.to_string()), command).await
    }
}

/// Says what is accepted as a parameter of a query.
pub(super) fn not_accepted(parameter: &str, value: &str, accepted: &str) -> Failure {
    let value = shown(value);
    let reason = format!("query parameter {parameter:?} is {value:?}; accepted, once: {accepted}");
    Failure::invalid(reason)
}

/// Reads how many of something are wanted at the most: so many if nothing says it.
pub(super) fn limit_of(given: Option<String>, without: usize, max: usize) -> Result<usize, Failure> {
    let Some(given) = given else {
        return Ok(without);
    };
    let read = given.parse().ok().filter(|limit| (1..=max).contains(limit));
    read.ok_or_else(|| not_accepted("limit", &given, &format!("1 to {max}")))
}

/// Says that the engine has no answer, as while relay stops.
fn cancelled() -> Failure {
    let reason = "the call was cancelled";
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "cancelled", reason)
}

fn observes_alone() -> Failure {
    let reason = "the token of an observer (ot_live_…) opens GET /v1/ws, /v1/workspace/events, /v1/search and /v1/dm/conversations/all alone";
    Failure::new(StatusCode::UNAUTHORIZED, "observer_token_forbidden", reason)
}

fn wrong_kind(code: &'static str, wanted: Kind, given: Kind) -> Failure {
    let reason = format!("this address wants {}; this is {}", wanted.words(), given.words());
    Failure::new(StatusCode::FORBIDDEN, code, reason)
}

/// Reads a moment that a field names.
pub(super) fn moment(field: &str, given: &str) -> Result<Timestamp, Failure> {
    let moment = DateTime::parse_from_rfc3339(given).map_err(|_| {
        let given = shown(given);
        Failure::invalid(format!(
            "\"{field}\" is {given:?}; accepted: a moment such as \"2026-05-02T14:30:00.000Z\""
        ))
    })?;
    Ok(Timestamp::from_millis(moment.timestamp_millis()))
}

/// A session of the engine's that lasts for one request.
pub(super) struct Session<'a> {
    owner: &'a Arc<Owner>,
    id: SessionId,
}

impl<'a> Session<'a> {
    /// Opens it; an agent that it registers stays.
    pub fn open(owner: &'a Arc<Owner>, who: Who) -> Result<Self, Failure> {
        let (id, _) = owner.open(Carrier::Exchange, who)?;
        Ok(Self { owner, id })
    }

    /// Tells whether an agent is there.
    pub fn sees(&self, agent: &AgentName) -> Result<bool, Failure> {
        let agent = agent.clone();
        let outcome = self
            .owner
            .call(self.id, agents::Command::Find { agent }.into(), None);
        let Some(Outcome::Answered(Answered { answer, .. })) = outcome else {
            return Err(cancelled());
        };
        Ok(!matches!(answer?, Reply::Agents(agents::Reply::Found(None))))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.owner.close(self.id, Ending::Orderly);
    }
}

//! Tokens of observers. What they open is in [`super::events`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::StatusCode;
use chrono::DateTime;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::asked::Asked;
use super::envelope::{Answer, Data, Failure};
use super::tokens::Holder;
use crate::engine::{Timestamp, is_label, shown};
use crate::server::limits::{FILTER_BYTES_MAX, OBSERVER_TOKENS_MAX};
use crate::server::observers::{Filters, Limits, Of, Scope, View};

/// Longest name and description of a token, in bytes.
const NAME_BYTES_MAX: usize = 128;
const DESCRIPTION_BYTES_MAX: usize = 1_024;

/// Most things that a filter lists.
const FILTER_ITEMS_MAX: usize = 256;

/// The number of an observer's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) struct ObserverId(u64);

/// What is known of the tokens of observers, but the tokens themselves.
#[derive(Default)]
pub(super) struct Observers(Mutex<Known>);

#[derive(Default)]
struct Known {
    made: u64,
    all: BTreeMap<ObserverId, Observer>,
}

/// What a token allows, and to whom it was given.
#[derive(Debug, Clone)]
struct Observer {
    workspace: String,
    name: String,
    description: Option<String>,
    /// Shared with the streams that it has opened.
    limits: Arc<Limits>,
    expires_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    /// How many times it was rotated.
    turn: u64,
}

/// What `POST /v1/observer-tokens` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
    description: Option<String>,
    scopes: Vec<Scope>,
    filters: Option<Filters>,
    expires_at: Option<String>,
}

/// What `PATCH /v1/observer-tokens/:id` takes. What is null is taken back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    name: Option<String>,
    #[serde(default, deserialize_with = "given")]
    description: Option<Option<String>>,
    scopes: Option<Vec<Scope>>,
    #[serde(default, deserialize_with = "given")]
    filters: Option<Option<Filters>>,
    #[serde(default, deserialize_with = "given")]
    expires_at: Option<Option<String>>,
}

/// Reads what was given, so that null is something else than nothing.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Observers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("nothing panics while it holds them")
    }

    /// Returns what a token allows now, if it has a scope; or why it allows nothing, or nothing any more.
    pub fn view(&self, id: ObserverId, turn: u64, scope: Scope, now: Timestamp) -> Result<View, String> {
        let mut known = self.known();
        let Some(observer) = known.all.get_mut(&id) else {
            return Err("this token is not known any more".to_owned());
        };
        if observer.revoked_at.is_some() {
            return Err("this token was revoked".to_owned());
        }
        if observer.turn != turn {
            return Err("this token was rotated".to_owned());
        }
        if observer.has_expired(now) {
            return Err("this token has expired".to_owned());
        }
        if !observer.limits.scopes.contains(&scope) {
            return Err(format!("this token has not the scope {}", scope.as_str()));
        }
        observer.last_used_at = Some(now);
        Ok(View {
            of: Of::Workspace(observer.workspace.clone()),
            limits: Some(Arc::clone(&observer.limits)),
        })
    }
}

impl Known {
    /// Finds a token of a workspace.
    fn find(&mut self, workspace: &str, id: &str) -> Result<(ObserverId, &mut Observer), Failure> {
        let number = id.strip_prefix("obs_").and_then(|number| number.parse().ok());
        let found = number.and_then(|number| {
            let observer = self.all.get_mut(&ObserverId(number))?;
            (observer.workspace == workspace).then_some((ObserverId(number), observer))
        });
        found.ok_or_else(|| {
            let reason = format!(
                "no token of an observer {:?} in this workspace; GET /v1/observer-tokens lists them",
                shown(id)
            );
            Failure::new(StatusCode::NOT_FOUND, "observer_token_not_found", reason)
        })
    }

    /// Sees to it that no other token of the workspace that is good has that name.
    fn check_name(
        &self,
        workspace: &str,
        name: &str,
        but: Option<ObserverId>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let is_taken = self.all.iter().any(|(id, other)| {
            Some(*id) != but && other.workspace == workspace && other.name == name && other.is_good(now)
        });
        if !is_taken {
            return Ok(());
        }
        let reason =
            format!("there is a token of the name {name:?}; choose another, revoke that one, or rotate it");
        Err(Failure::new(
            StatusCode::CONFLICT,
            "observer_token_already_exists",
            reason,
        ))
    }

    /// Makes room for one more token of a workspace: one that was revoked, or has expired, is forgotten. Returns it.
    fn make_room(&mut self, workspace: &str, now: Timestamp) -> Result<Option<ObserverId>, Failure> {
        let of_workspace = |(_, other): &(&ObserverId, &Observer)| other.workspace == workspace;
        if self.all.iter().filter(of_workspace).count() < OBSERVER_TOKENS_MAX {
            return Ok(None);
        }
        let revoked = self.all.iter().filter(of_workspace);
        let oldest = revoked
            .filter(|(_, other)| !other.is_good(now))
            .map(|(id, _)| *id);
        let Some(oldest) = oldest.min() else {
            let reason = format!(
                "this workspace has {OBSERVER_TOKENS_MAX} tokens of observers, the most that are kept; revoke one"
            );
            return Err(Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_observer_tokens",
                reason,
            ));
        };
        self.all.remove(&oldest);
        Ok(Some(oldest))
    }
}

impl Observer {
    fn is_good(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && !self.has_expired(now)
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Writes what may be known of it, which is not the token.
    fn shown(&self, id: ObserverId, now: Timestamp) -> Value {
        let at = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let status = match self.revoked_at {
            Some(_) => "revoked",
            None if self.has_expired(now) => "expired",
            None => "active",
        };
        json!({
            "id": format!("obs_{}", id.0),
            "name": self.name,
            "description": self.description,
            "scopes": self.limits.scopes,
            "filters": self.limits.filters,
            "status": status,
            "expires_at": at(self.expires_at),
            "created_at": self.created_at.to_string(),
            "updated_at": self.updated_at.to_string(),
            "revoked_at": at(self.revoked_at),
            "last_used_at": at(self.last_used_at),
        })
    }
}

/// `POST /v1/observer-tokens`: the only time that the token is seen, but when it is rotated.
pub(super) async fn create(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    let Create {
        name,
        description,
        scopes,
        filters,
        expires_at,
    } = asked.json()?;
    let now = asked.shared.owner.now();
    let filters = filters.unwrap_or_default();
    let observer = Observer {
        workspace: workspace.clone(),
        name: checked("name", name, NAME_BYTES_MAX)?,
        description: described(description)?,
        limits: Arc::new(Limits {
            scopes: distinct(scopes)?,
            after: check(&filters)?,
            filters,
        }),
        expires_at: expires_at.map(|at| expiry(&at, now)).transpose()?,
        created_at: now,
        updated_at: now,
        revoked_at: None,
        last_used_at: None,
        turn: 0,
    };
    let mut known = asked.shared.api.observers.known();
    known.check_name(&workspace, &observer.name, None, now)?;
    if let Some(forgotten) = known.make_room(&workspace, now)? {
        asked.shared.api.tokens.revoke(forgotten);
    }
    known.made += 1;
    let id = ObserverId(known.made);
    let mut json = observer.shown(id, now);
    known.all.insert(id, observer);
    json["token"] = issue(&asked, workspace, id, 0).into();
    drop(known);
    Ok(Data::created(json))
}

/// `GET /v1/observer-tokens`.
pub(super) async fn list(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    asked.nothing()?;
    let now = asked.shared.owner.now();
    let known = asked.shared.api.observers.known();
    let own = known
        .all
        .iter()
        .filter(|(_, observer)| observer.workspace == workspace);
    Ok(Data::ok(
        own.map(|(id, observer)| observer.shown(*id, now)).collect(),
    ))
}

/// `GET /v1/observer-tokens/:id`.
pub(super) async fn get(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    asked.nothing()?;
    let now = asked.shared.owner.now();
    let mut known = asked.shared.api.observers.known();
    let (id, observer) = known.find(&workspace, asked.named())?;
    Ok(Data::ok(observer.shown(id, now)))
}

/// `PATCH /v1/observer-tokens/:id`: holds for the streams that are open, too.
pub(super) async fn change(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    let Change {
        name,
        description,
        scopes,
        filters,
        expires_at,
    } = asked.json()?;
    let now = asked.shared.owner.now();
    let name = name
        .map(|name| checked("name", name, NAME_BYTES_MAX))
        .transpose()?;
    let description = description.map(described).transpose()?;
    let scopes = scopes.map(distinct).transpose()?;
    let filters = filters.map(Option::unwrap_or_default);
    let after = filters.as_ref().map(check).transpose()?;
    let expires_at = expires_at
        .map(|at| at.map(|at| expiry(&at, now)).transpose())
        .transpose()?;
    let mut known = asked.shared.api.observers.known();
    let (id, observer) = known.find(&workspace, asked.named())?;
    not_revoked(observer)?;
    // One that has expired may have left its name to another, and be good again from here on.
    let becomes_good = expires_at.is_some().then(|| observer.name.clone());
    if let Some(name) = name.clone().or(becomes_good) {
        known.check_name(&workspace, &name, Some(id), now)?;
    }
    let (id, observer) = known.find(&workspace, asked.named())?;
    if let Some(name) = name {
        observer.name = name;
    }
    if let Some(description) = description {
        observer.description = description;
    }
    if let Some(scopes) = scopes {
        Arc::make_mut(&mut observer.limits).scopes = scopes;
    }
    if let (Some(filters), Some(after)) = (filters, after) {
        let limits = Arc::make_mut(&mut observer.limits);
        (limits.filters, limits.after) = (filters, after);
    }
    if let Some(expires_at) = expires_at {
        observer.expires_at = expires_at;
    }
    observer.updated_at = now;
    let json = observer.shown(id, now);
    drop(known);
    asked.shared.owner.journal().wake();
    Ok(Data::ok(json))
}

/// `DELETE /v1/observer-tokens/:id`: revokes it, and ends the streams that it has opened.
pub(super) async fn revoke(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    asked.nothing()?;
    let now = asked.shared.owner.now();
    let mut known = asked.shared.api.observers.known();
    let (id, observer) = known.find(&workspace, asked.named())?;
    if observer.revoked_at.is_none() {
        observer.revoked_at = Some(now);
        observer.updated_at = now;
    }
    asked.shared.api.tokens.revoke(id);
    drop(known);
    asked.shared.owner.journal().wake();
    Ok(Data::nothing())
}

/// `POST /v1/observer-tokens/:id/rotate`: a new token in the place of the one before.
pub(super) async fn rotate(asked: Asked) -> Answer {
    let workspace = asked.workspace()?;
    asked.nothing()?;
    let now = asked.shared.owner.now();
    let mut known = asked.shared.api.observers.known();
    let (id, observer) = known.find(&workspace, asked.named())?;
    not_revoked(observer)?;
    if observer.has_expired(now) {
        let reason = "this token has expired, and so would a new one; PATCH its \"expires_at\" first";
        return Err(Failure::new(
            StatusCode::CONFLICT,
            "observer_token_expired",
            reason,
        ));
    }
    observer.updated_at = now;
    observer.turn += 1;
    let turn = observer.turn;
    let mut json = observer.shown(id, now);
    json["token"] = issue(&asked, workspace, id, turn).into();
    drop(known);
    asked.shared.owner.journal().wake();
    Ok(Data::ok(json))
}

/// Makes its token, while what is known of it is locked: else another one might be made, or it be revoked, meanwhile.
fn issue(asked: &Asked, workspace: String, id: ObserverId, turn: u64) -> String {
    let holder = Holder::Observer { workspace, id, turn };
    asked.shared.api.tokens.issue(holder).reveal()
}

fn not_revoked(observer: &Observer) -> Result<(), Failure> {
    if observer.revoked_at.is_none() {
        return Ok(());
    }
    let reason = "this token was revoked; make another by POST /v1/observer-tokens";
    Err(Failure::new(
        StatusCode::CONFLICT,
        "observer_token_revoked",
        reason,
    ))
}

/// Checks a text of one line.
pub(super) fn checked(what: &str, text: String, bytes_max: usize) -> Result<String, Failure> {
    if is_label(&text, bytes_max) {
        return Ok(text);
    }
    let reason = format!(
        "\"{what}\" is {:?}; accepted: 1 to {bytes_max} bytes of text without characters that nobody sees",
        shown(&text)
    );
    Err(Failure::invalid(reason))
}

fn described(description: Option<String>) -> Result<Option<String>, Failure> {
    description
        .map(|text| checked("description", text, DESCRIPTION_BYTES_MAX))
        .transpose()
}

fn distinct(mut scopes: Vec<Scope>) -> Result<Vec<Scope>, Failure> {
    scopes.sort_unstable();
    scopes.dedup();
    if scopes.is_empty() {
        let reason =
            "\"scopes\" is empty; accepted: one or more, stream:read among them for the stream of events";
        return Err(Failure::invalid(reason));
    }
    Ok(scopes)
}

/// Checks filters, and returns the moment in them.
fn check(filters: &Filters) -> Result<Option<Timestamp>, Failure> {
    let lists = [
        ("channel_ids", &filters.channel_ids),
        ("channel_names", &filters.channel_names),
        ("dm_conversation_ids", &filters.dm_conversation_ids),
        ("agent_ids", &filters.agent_ids),
        ("event_types", &filters.event_types),
    ];
    for (what, list) in lists {
        let length = list.as_ref().map_or(0, Vec::len);
        if length > FILTER_ITEMS_MAX {
            let reason =
                format!("\"filters.{what}\" lists {length} things; accepted: up to {FILTER_ITEMS_MAX}");
            return Err(Failure::invalid(reason));
        }
    }
    let texts = lists.into_iter().filter_map(|(_, list)| list.as_ref()).flatten();
    let bytes: usize = texts.chain(&filters.created_after).map(String::len).sum();
    if bytes > FILTER_BYTES_MAX {
        let reason =
            format!("the texts of \"filters\" have {bytes} bytes; accepted: up to {FILTER_BYTES_MAX}");
        return Err(Failure::invalid(reason));
    }
    if filters.dm_conversation_ids.is_some() && !filters.include_dms {
        let reason = "\"filters.dm_conversation_ids\" names conversations, and \"filters.include_dms\" is false; accepted: both, or neither";
        return Err(Failure::invalid(reason));
    }
    let after = filters.created_after.as_deref();
    after
        .map(|after| moment("filters.created_after", after))
        .transpose()
}

fn expiry(given: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let at = moment("expires_at", given)?;
    if at > now {
        return Ok(at);
    }
    let reason = format!(
        "\"expires_at\" is {:?}; accepted: a moment later than now, {now}",
        shown(given)
    );
    Err(Failure::invalid(reason))
}

/// Reads a moment.
fn moment(what: &str, given: &str) -> Result<Timestamp, Failure> {
    let read = DateTime::parse_from_rfc3339(given).map_err(|_| {
        let given = shown(given);
        Failure::invalid(format!(
            "\"{what}\" is {given:?}; accepted: a moment such as \"2026-05-02T14:30:00.000Z\""
        ))
    })?;
    Ok(Timestamp::from_millis(read.timestamp_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_expires_later_than_now() {
        let now = Timestamp::from_millis(1_777_732_321_000);
        let at = |ms| expiry(&Timestamp::from_millis(ms).to_string(), now).is_ok();
        assert_eq!(
            [1_777_732_320_999, 1_777_732_321_000, 1_777_732_321_001].map(at),
            [false, false, true]
        );
    }
}

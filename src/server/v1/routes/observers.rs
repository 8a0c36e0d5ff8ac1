//! Observers.

use axum::routing::{delete, get, patch, post};

use super::super::{events, observers};
use super::{Route, Wants};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/v1/ws",
        wants: Wants::Observer,
        takes: "`?token=`, `?since=`, and what else the client says of itself",
        answers: "a WebSocket, over which each event goes out as it comes",
        note: "From now on, or behind the event `since`. [OBSERVERS.md](OBSERVERS.md) lists the events. The token may stand in `Authorization: Bearer` as well.",
        to: || get(events::socket),
    },
    Route {
        method: "GET",
        path: "/v1/workspace/events",
        wants: Wants::Observer,
        takes: "`?since=&limit=`",
        answers: "`{events[{seq, type, channel_id, payload, created_at}], latest_seq, next_since, missed}`",
        note: "The events behind the number `since`, the oldest first: 100, or `limit` of up to 1,000; without `since`, or with 0, all that are kept: none from before anybody asked for events. The next ones are behind `next_since`. `missed` says that some behind `since` are forgotten. 400 `since_ahead`.",
        to: || get(events::list),
    },
    Route {
        method: "POST",
        path: "/v1/observer-tokens",
        wants: Wants::Workspace,
        takes: "`{name, scopes, description?, filters?, expires_at?}`",
        answers: "`{id, name, description, scopes, filters, status, expires_at, created_at, updated_at, revoked_at, last_used_at, token}`",
        note: "201; 409 `observer_token_already_exists`, if one that is good has the name. `scopes` are of `stream:read`, without which no event is shown, and `messages:read`, `threads:read`, `dms:read`, `channels:read`, `agents:read`, `nodes:read`, `deliveries:read`, `reactions:read`, `activity:read`; there are no events of `search:read`, which is for `GET /v1/search`, and of `files:read`, which is for nothing. `filters` are `{channel_ids, channel_names, include_dms, dm_conversation_ids, agent_ids, event_types, created_after}`, each optional; direct messages, and all that is about one, are shown by `dms:read` and `include_dms` together alone.",
        to: || post(observers::create),
    },
    Route {
        method: "GET",
        path: "/v1/observer-tokens",
        wants: Wants::Workspace,
        takes: "",
        answers: "a list of them, without tokens",
        note: "`status` is `active`, `expired` or `revoked`.",
        to: || get(observers::list),
    },
    Route {
        method: "GET",
        path: "/v1/observer-tokens/{id}",
        wants: Wants::Workspace,
        takes: "",
        answers: "one of them",
        note: "",
        to: || get(observers::get),
    },
    Route {
        method: "PATCH",
        path: "/v1/observer-tokens/{id}",
        wants: Wants::Workspace,
        takes: "`{name?, description?, scopes?, filters?, expires_at?}`",
        answers: "the same",
        note: "Holds for the streams that are open, too. Of `description`, `filters` and `expires_at`, null takes back what was said. 409 `observer_token_already_exists`, if another one that is good has the name, also where this one had expired and would be good again: give it another `name` as well; 409 `observer_token_revoked`.",
        to: || patch(observers::change),
    },
    Route {
        method: "DELETE",
        path: "/v1/observer-tokens/{id}",
        wants: Wants::Workspace,
        takes: "",
        answers: "",
        note: "204. Ends the streams that it has opened; it is listed as `revoked`.",
        to: || delete(observers::revoke),
    },
    Route {
        method: "POST",
        path: "/v1/observer-tokens/{id}/rotate",
        wants: Wants::Workspace,
        takes: "",
        answers: "the same, with a new `token`",
        note: "The token before is not good any more, and the streams that it has opened end. 409 `observer_token_revoked`, `observer_token_expired`.",
        to: || post(observers::rotate),
    },
];

//! Actions.

use axum::routing::{delete, get, post};

use super::super::actions;
use super::{Route, Wants};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: "POST",
        path: "/v1/actions",
        wants: Wants::Either,
        takes: "`{name, description?, handler_agent? or handler_node?, input_schema?, output_schema?, available_to?}`",
        answers: "`{id, name, description, handler_agent, handler_node, handler_node_id, input_schema, output_schema, available_to, is_active, created_at}`",
        note: "201; 200 if an action of that name was there, which is changed. With an agent's token it is the agent's own, and that of another handler is not changed: 409 `action_already_exists`. `available_to` are names of agents; without it all of the workspace may ask for it. relay keeps the schemas, of up to 16 KiB each, and checks nothing by them. `is_active` says that its handler is connected. [ACTIONS.md](ACTIONS.md) has the rules.",
        to: || post(actions::register),
    },
    Route {
        method: "GET",
        path: "/v1/actions",
        wants: Wants::Either,
        takes: "",
        answers: "a list of them",
        note: "Those that were registered, and those that nodes offer as capabilities.",
        to: || get(actions::list),
    },
    Route {
        method: "GET",
        path: "/v1/actions/{name}",
        wants: Wants::Either,
        takes: "",
        answers: "one of them",
        note: "",
        to: || get(actions::get),
    },
    Route {
        method: "DELETE",
        path: "/v1/actions/{name}",
        wants: Wants::Workspace,
        takes: "",
        answers: "",
        note: "204. What was asked of it goes on. That of a node is back when the node registers again.",
        to: || delete(actions::remove),
    },
    Route {
        method: "POST",
        path: "/v1/actions/{name}/invoke",
        wants: Wants::Agent,
        takes: "`{input?}`",
        answers: "`{invocation_id, action_name, handler_agent_id, handler_node_id, input, status, created_at}`",
        note: "201. `status` is `dispatched` if it was sent to its handler, `invoked` while it waits for one that is not connected. 403 `action_denied`; 409 `node_offline` if it is a node's that does not wait for it. An input has up to 64 KiB.",
        to: || post(actions::invoke),
    },
    Route {
        method: "GET",
        path: "/v1/actions/{name}/invocations/{id}",
        wants: Wants::Either,
        takes: "",
        answers: "`{invocation_id, action_name, caller_id, caller_name, handler_agent_id, handler_node_id, input, output, status, error, duration_ms, created_at, completed_at}`",
        note: "`status` is `invoked`, `dispatched`, `completed` or `failed`. Its caller is shown it, its handler, and the workspace's key; else 404 `invocation_not_found`, as for what is forgotten.",
        to: || get(actions::show),
    },
    Route {
        method: "POST",
        path: "/v1/actions/{name}/invocations/{id}/complete",
        wants: Wants::Agent,
        takes: "`{output or error, duration_ms?}`",
        answers: "the same",
        note: "Its handler's to say, once: of one that has ended it changes nothing, and the answer says how it did. An output has up to 64 KiB. `duration_ms` is not kept; relay has its own.",
        to: || post(actions::complete),
    },
];

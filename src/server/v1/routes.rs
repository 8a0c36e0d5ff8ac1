//! What the API has: the tables of which the routes and the documents are made.

mod actions;
mod agents;
mod delivery;
mod messages;
mod observers;

use std::sync::Arc;

use axum::routing::MethodRouter;

use crate::server::Shared;

/// Whose token an address wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Nothing,
    Workspace,
    Agent,
    Either,
    /// Either, or an observer's.
    Any,
    Node,
    Observer,
}

/// An address of the API.
pub(super) struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub wants: Wants,
    /// What is sent, as the documents show it.
    pub takes: &'static str,
    /// What is answered as `data`.
    pub answers: &'static str,
    /// What else is to be known.
    pub note: &'static str,
    pub to: fn() -> MethodRouter<Arc<Shared>>,
}

/// Goes through all addresses, in the order in which the documents list them.
pub(super) fn all() -> impl Iterator<Item = &'static Route> {
    let tables = [
        agents::ROUTES,
        messages::ROUTES,
        delivery::ROUTES,
        actions::ROUTES,
        observers::ROUTES,
    ];
    tables.into_iter().flatten()
}

//! The metadata of a message as nodes are shown it: what its sender gave, and what relay adds. A frame, which Agent Relay's strict parser
//! lets have no other fields than its own, has no other place for that.

use serde_json::{Map, Value, json};

use crate::engine::Delivery;
use crate::engine::handling::{Handling, Mode, Priority};

/// What relay adds stands under this name. What a sender gives by it is shown to no node: nobody but relay says what comes again.
const ADDED: &str = "relay";

/// Returns what goes with a delivery; none if nothing does. `reason` is why its agent gets it, where its kind does not say that already.
pub(super) fn shown(delivery: &Delivery, reason: Option<&str>) -> Option<Value> {
    let given = delivery.message.metadata();
    let given = given.and_then(|given| serde_json::from_str(given).ok());
    let mut metadata: Map<String, Value> = given.unwrap_or_default();
    metadata.remove(ADDED);
    let added = added(delivery, reason);
    if !added.is_empty() {
        metadata.insert(ADDED.to_owned(), added.into());
    }
    (!metadata.is_empty()).then(|| metadata.into())
}

/// What relay adds: nothing to most.
fn added(delivery: &Delivery, reason: Option<&str>) -> Map<String, Value> {
    let mut added = Map::new();
    if let Some(reason) = reason {
        added.insert("reason".to_owned(), reason.into());
    }
    if let Some(key) = delivery.message.idempotency_key() {
        added.insert("idempotency_key".to_owned(), key.into());
    }
    if let Some(handling) = handling(delivery) {
        added.insert("handling".to_owned(), handling);
    }
    // The frame, or a reply with what is in it, may have arrived before.
    if delivery.redelivered {
        added.insert("redelivered".to_owned(), true.into());
    }
    added
}

/// Has what is no delivery say why its agent gets it.
pub(super) fn with_reason(mut data: Value, reason: &str) -> Value {
    data["metadata"] = json!({ADDED: {"reason": reason}});
    data
}

/// Shows how a message is to be brought, if there is more to say than that most are.
fn handling(delivery: &Delivery) -> Option<Value> {
    let mode = delivery.mode;
    let Handling {
        mode: _,
        priority,
        deadline,
    } = delivery.message.handling();
    let says_more = mode != Mode::default() || priority != Priority::default() || deadline.is_some();
    says_more.then(|| {
        json!({
            "mode": mode.as_str(),
            "priority": priority.as_str(),
            "deadline": deadline.map(|at| at.to_string()),
        })
    })
}

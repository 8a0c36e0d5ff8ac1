//! The delivery contract as a client sees it, over HTTP+SSE and over streamable HTTP: order, once, never lost, told of a start.
//!
//! The sockets are raw so that a test decides when a stream ends, when a reply is read and how a connection closes.

mod asking_again;
mod bounds;
mod identity;
mod once;
mod order;
mod pipelining;
mod proxies;
mod quirks;
mod redelivery;
mod restart;
mod rooms;
mod short_way;
mod streams;
mod subscriptions;
mod token;
mod waiting;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::http::{Arrived, Request};
use crate::support::process::Relay;
use crate::support::session::{QUIET, Reply, Session, WAYS, Way, message_of, messages_of};
use crate::support::sse::{EventStream, Seen};
use crate::support::until;

const TOKEN: &str = "0123456789abcdef";

/// Streamable HTTP, whose replies belong to one exchange each.
const EXCHANGES: [Way; 2] = [Way::Http, Way::Modern];

/// Runs a test over each transport at once, each time with a relay of its own.
fn over_each(ways: &[Way], test: impl Fn(&Relay, Way) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for &way in ways {
            let over = std::thread::Builder::new().name(format!("over {way:?}"));
            let run = over.spawn_scoped(scope, move || test(&Relay::start_told(), way));
            run.expect("the system has room for a thread");
        }
    });
}

fn start_notice(relay: &Relay) -> String {
    let health = relay.health();
    let started_at = health["started_at"].as_str().expect("a time");
    format!(
        "relay started at {started_at}; nothing sent before that is here; send again what was not acknowledged"
    )
}

//! Keeps an agent known to the relay for as long as its bridge lives: from the handshake on, not only from its first call, and
//! again after the relay was started anew.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::connection::{Connect, Connection};
use super::relay::Relay;

/// How often the relay is asked, over a connection of its own: before it would close one that rests.
const EVERY: Duration = Duration::from_secs(60);

/// How soon it is asked again where it was not there, and how often it is looked whether it is: so long an agent may be unknown after
/// the relay's start.
const RETRY: Duration = Duration::from_secs(5);

/// Asks the relay from time to time, which does nothing but show that the agent is there. Never ends.
pub(super) async fn stay<C: Connect>(relay: Arc<Relay<C>>) {
    relay.introduced().await;
    let (id, nothing) = (RequestId::String("presence".into()), json!({}));
    let mut open = None;
    loop {
        let asked = relay.ask::<Value>(open.take(), &id, "ping", &nothing, Duration::ZERO);
        match asked.await {
            Ok((_, connection)) => {
                // Nothing was handed over in the answer.
                connection.break_off_when_dropped(false);
                open = rested(connection).await;
            }
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// Waits until it is time to ask again; returns the connection if the relay has not closed its end by then.
async fn rested<S: Connection>(connection: S) -> Option<S> {
    let next = Instant::now() + EVERY;
    while Instant::now() < next {
        sleep(RETRY).await;
        if !connection.is_open() {
            return None;
        }
    }
    Some(connection)
}

//! Keeps an agent known to the relay for as long as its bridge lives: from the handshake on, not only from its first call, and
//! again after the relay was started anew.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::connection::Connect;
use super::relay::Relay;

/// How often the relay is asked, over a connection of its own: before it would close one that rests.
const EVERY: Duration = Duration::from_secs(60);

/// How soon it is asked again where it was not there: so long an agent may be unknown after the relay's start.
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
                open = Some(connection);
                sleep(EVERY).await;
            }
            Err(_) => sleep(RETRY).await,
        }
    }
}

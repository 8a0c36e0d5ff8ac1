//! Keeps an agent known to the relay for as long as its bridge lives: from the handshake on, not only from its first call, and
//! again after the relay was started anew.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::connection::{Connect, Connection};
use super::relay::{AskError, Relay};

/// How often the relay is asked, over a connection of its own: before it would close one that rests.
const EVERY: Duration = Duration::from_secs(60);

/// How soon it is asked again where it was a moment ago: so long an agent may be unknown after a restart.
const SOON: Duration = Duration::from_millis(200);

/// How many times it is asked so soon.
const SOON_TIMES: u32 = 50;

/// How soon it is asked again where it has not been there for longer, or closes each connection at once.
const LATER: Duration = Duration::from_secs(1);

/// The same where it was there, and refused: another has taken the agent over, say.
const REFUSED: Duration = Duration::from_secs(5);

/// Asks the relay from time to time, which does nothing but show that the agent is there. Never ends.
pub(super) async fn stay<C: Connect>(relay: Arc<Relay<C>>) {
    relay.introduced().await;
    let (id, nothing) = (RequestId::String("presence".into()), json!({}));
    let mut open = None;
    let mut missed: u32 = 0;
    loop {
        let begun = Instant::now();
        let asked = relay.ask::<Value>(open.take(), &id, "ping", &nothing, Duration::ZERO);
        match asked.await {
            Ok((_, connection)) => {
                // Nothing was handed over in the answer.
                connection.break_off_when_dropped(false);
                open = rested(connection).await;
                if begun.elapsed() > LATER {
                    missed = 0;
                }
            }
            Err(AskError::Answered(_)) => {
                sleep(REFUSED).await;
                continue;
            }
            Err(_) => {}
        }
        if open.is_none() {
            missed = missed.saturating_add(1);
            sleep(if missed <= SOON_TIMES { SOON } else { LATER }).await;
        }
    }
}

/// Waits until it is time to ask again; returns the connection if the relay has not closed its end by then.
async fn rested<S: Connection>(connection: S) -> Option<S> {
    let ended = timeout(EVERY, connection.ended()).await.is_ok();
    (!ended).then_some(connection)
}

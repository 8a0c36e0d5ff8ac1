//! What an agent wants to be told of: each resource in a stream of its own from the relay, opened again whenever it has ended.
//!
//! While a stream was not there a change may have been missed, so the agent is told once of the resource when it is there again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::connection::Connect;
use super::relay::{AskError, Relay};

/// How soon the relay is asked again where it was not there, or ended its stream at once: so long an agent may not hear of a change
/// after the relay's start.
const RETRY: Duration = Duration::from_secs(1);

/// The same where it was there, and refused: another has taken the agent over, say.
const REFUSED_RETRY: Duration = Duration::from_secs(5);

/// How an agent is told.
pub enum Told {
    /// As one that has subscribed to a resource.
    Subscriber(Peer<RoleServer>),
    /// As one that listens, in the version that has this instead.
    Listener(SubscriptionSink),
}

impl Told {
    /// Tells that a resource has changed, and waits until stdout has taken that.
    async fn of(&self, uri: &str) {
        // If it does not take it, everything ends.
        match self {
            Self::Subscriber(peer) => {
                let update = ResourceUpdatedNotificationParam::new(uri);
                drop(peer.notify_resource_updated(update).await);
            }
            Self::Listener(sink) => drop(sink.notify_resource_updated(uri).await),
        }
    }
}

/// The subscriptions of one agent, which end with it.
#[derive(Default)]
pub struct Subscriptions {
    by_uri: Mutex<BTreeMap<&'static str, Subscription>>,
}

/// What an agent wants of one resource.
#[derive(Default)]
struct Subscription {
    /// Tells of it; none while it is not wanted, or the relay has not accepted it yet.
    following: Option<AbortOnDropHandle<()>>,
    /// How often it was not wanted any more.
    ended: u64,
}

impl Subscriptions {
    /// Has the agent told of a resource from now on; a second time changes nothing. While there is no relay it is accepted too.
    ///
    /// # Errors
    ///
    /// What the relay says against it; the agent is not told then.
    pub async fn subscribe<C: Connect>(
        &self,
        relay: &Arc<Relay<C>>,
        uri: &'static str,
        peer: Peer<RoleServer>,
    ) -> Result<(), AskError> {
        let ended = {
            let mut by_uri = self.by_uri();
            let own = by_uri.entry(uri).or_default();
            if own.following.is_some() {
                return Ok(());
            }
            own.ended
        };
        let (first, accepted) = oneshot::channel();
        let relay = Arc::clone(relay);
        let following = tokio::spawn(async move {
            follow(&relay, &[uri.to_owned()], Some(first), &Told::Subscriber(peer)).await;
        });
        let following = AbortOnDropHandle::new(following);
        match accepted.await {
            Ok(Err(refused @ AskError::Answered(_))) => Err(refused),
            Ok(Ok(()) | Err(_)) | Err(_) => {
                let mut by_uri = self.by_uri();
                let own = by_uri.entry(uri).or_default();
                // The agent may have taken it back before the relay has answered.
                if own.ended == ended {
                    own.following = Some(following);
                }
                Ok(())
            }
        }
    }

    /// Has the agent told of a resource no more, also where it was asked for and is not accepted yet.
    pub fn unsubscribe(&self, uri: &'static str) {
        let mut by_uri = self.by_uri();
        let own = by_uri.entry(uri).or_default();
        own.following = None;
        own.ended += 1;
    }

    fn by_uri(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Subscription>> {
        self.by_uri
            .lock()
            .expect("nothing panics while it holds the subscriptions")
    }
}

/// Tells of each change of some resources, for ever. `first` is told what came of the first attempt; without it, what has changed
/// before that may have been missed.
///
/// It waits until what it tells is taken, and the relay puts what changes meanwhile together: nothing is in between but what is in
/// the pipes.
pub async fn follow<C: Connect>(
    relay: &Relay<C>,
    uris: &[String],
    mut first: Option<oneshot::Sender<Result<(), AskError>>>,
    told: &Told,
) {
    let mut may_have_missed = first.is_none();
    loop {
        let listening = relay.listen(uris).await;
        let retry = match &listening {
            Err(AskError::Answered(_)) => REFUSED_RETRY,
            Ok(_) | Err(_) => RETRY,
        };
        let (outcome, updates) = match listening {
            Ok(updates) => (Ok(()), Some(updates)),
            Err(error) => (Err(error), None),
        };
        if may_have_missed && updates.is_some() {
            for uri in uris {
                told.of(uri).await;
            }
        }
        if let Some(first) = first.take() {
            let _ = first.send(outcome);
        }
        may_have_missed = true;
        let Some(mut updates) = updates else {
            sleep(retry).await;
            continue;
        };
        let begun = Instant::now();
        while let Some(message) = updates.next().await {
            let uri = message["params"]["uri"].as_str();
            if message["method"] == "notifications/resources/updated"
                && let Some(uri) = uri.filter(|uri| uris.iter().any(|own| own == uri))
            {
                told.of(uri).await;
            }
        }
        if begun.elapsed() < RETRY {
            sleep(RETRY).await;
        }
    }
}

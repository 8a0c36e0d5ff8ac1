//! What happens to the deliveries of an agent, told to whoever listens in this process. Secrets are taken out of it first.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use serde_json::Value;

use super::redact::{redact, redact_json};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AgentSessionEvent {
    /// The agent's node is connected: deliveries come.
    Connected,
    /// It is not, and will be again by itself.
    Disconnected {
        /// Why.
        reason: String,
    },
    /// The target has taken responsibility for a message.
    Accepted {
        /// The message.
        message_id: String,
        /// Its delivery.
        delivery_id: String,
    },
    /// The target has shown a message.
    Delivered {
        /// The message.
        message_id: String,
        /// Its delivery.
        delivery_id: String,
    },
    /// The target wants a message later, or failed with it and gets it again.
    Deferred {
        /// The message.
        message_id: String,
        /// Its delivery.
        delivery_id: String,
        /// From when on.
        available_at: SystemTime,
        /// Why.
        reason: Option<String>,
    },
    /// A message will not be delivered.
    Failed {
        /// The message.
        message_id: String,
        /// Its delivery.
        delivery_id: String,
        /// Why.
        reason: String,
        /// It may be worth trying elsewhere.
        retryable: bool,
    },
    /// What relay tells beside deliveries, a reaction say. It is told once and not kept.
    Notified {
        /// What it is, in relay's words.
        kind: String,
        /// What is said of it.
        data: Value,
    },
}

impl AgentSessionEvent {
    /// Takes secrets out of what it says.
    fn redacted(self) -> Self {
        let clean = |text: String| redact(&text).into_owned();
        match self {
            Self::Disconnected { reason } => Self::Disconnected {
                reason: clean(reason),
            },
            Self::Deferred {
                message_id,
                delivery_id,
                available_at,
                reason,
            } => Self::Deferred {
                message_id,
                delivery_id,
                available_at,
                reason: reason.map(clean),
            },
            Self::Failed {
                message_id,
                delivery_id,
                reason,
                retryable,
            } => Self::Failed {
                message_id,
                delivery_id,
                reason: clean(reason),
                retryable,
            },
            Self::Notified { kind, data } => Self::Notified {
                kind,
                data: redact_json(data),
            },
            Self::Connected | Self::Accepted { .. } | Self::Delivered { .. } => self,
        }
    }
}

type Handler = Arc<dyn Fn(&AgentSessionEvent) + Send + Sync>;

/// Whoever listens.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Listeners>>);

#[derive(Default)]
struct Listeners {
    next: u64,
    handlers: BTreeMap<u64, Handler>,
}

impl Events {
    /// Tells a handler of each event from now on, until the subscription is dropped. The handler is called in the midst of the work: it
    /// must not block.
    #[must_use = "the handler is told nothing more once the subscription is dropped"]
    pub fn subscribe(&self, handler: impl Fn(&AgentSessionEvent) + Send + Sync + 'static) -> Subscription {
        let mut listeners = self.0.lock().expect("nothing panics while it holds them");
        let number = listeners.next;
        listeners.next += 1;
        listeners.handlers.insert(number, Arc::new(handler));
        Subscription {
            listeners: Arc::downgrade(&self.0),
            number,
        }
    }

    /// Tells all.
    pub(crate) fn emit(&self, event: AgentSessionEvent) {
        let handlers: Vec<Handler> = {
            let listeners = self.0.lock().expect("nothing panics while it holds them");
            listeners.handlers.values().cloned().collect()
        };
        if handlers.is_empty() {
            return;
        }
        let event = event.redacted();
        for handler in handlers {
            handler(&event);
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// A handler listens for as long as this lives.
pub struct Subscription {
    listeners: Weak<Mutex<Listeners>>,
    number: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(listeners) = self.listeners.upgrade() {
            let mut listeners = listeners.lock().expect("nothing panics while it holds them");
            let handler = listeners.handlers.remove(&self.number);
            drop(listeners);
            // What it has with it may be a subscription, whose end needs the listeners too.
            drop(handler);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_hear_what_is_told_while_they_listen_without_secrets() {
        let events = Events::default();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listening = {
            let heard = Arc::clone(&heard);
            events.subscribe(move |event| heard.lock().expect("no panic").push(event.clone()))
        };
        let data = serde_json::json!({"texts": ["at_live_0123456789", 1]});
        let kind = "message.read".to_owned();
        events.emit(AgentSessionEvent::Notified {
            kind: kind.clone(),
            data,
        });
        let reason = "Bearer 0123456789abcdef0".to_owned();
        events.emit(AgentSessionEvent::Disconnected { reason });
        drop(listening);
        events.emit(AgentSessionEvent::Connected);
        let data = serde_json::json!({"texts": ["[redacted]", 1]});
        let reason = "[redacted]".to_owned();
        assert_eq!(
            *heard.lock().expect("no panic"),
            [
                AgentSessionEvent::Notified { kind, data },
                AgentSessionEvent::Disconnected { reason },
            ]
        );
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "nobody but a second thread sees that one is stuck"
    )]
    fn a_handler_that_has_a_subscription_with_it_can_be_dropped() {
        let events = Events::default();
        let inner = events.subscribe(|_| {});
        let outer = events.subscribe(move |_| {
            let _kept = &inner;
        });
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(outer);
            done.send(()).expect("it is waited for");
        });
        let waited = is_done.recv_timeout(std::time::Duration::from_secs(30));
        assert_eq!(waited, Ok(()), "it has not locked itself out");
        let listeners = events.0.lock().expect("no panic");
        assert!(listeners.handlers.is_empty());
    }
}

//! What takes deliveries: adapters and sessions, and the receipts that they give.

use std::fmt;
use std::future::Future;
use std::time::SystemTime;

use serde_json::Value;

use super::message::{MessageContext, RelayMessage};

/// Why a target could not say what became of a message. It gets the message again, up to five times. `?` makes one of any error.
#[derive(Debug)]
pub struct AdapterFailure(Box<dyn std::error::Error + Send + Sync>);

impl AdapterFailure {
    /// Makes one of an error, or of words.
    pub fn new(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }

    /// What it was made of.
    pub fn as_error(&self) -> &(dyn std::error::Error + 'static) {
        &*self.0
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for AdapterFailure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl fmt::Display for AdapterFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MessageReceipt {
    /// The target has taken responsibility for it and has not shown it yet. It does not come again; [`crate::Agent::acknowledge`] and
    /// [`crate::Agent::fail`] say later what became of it.
    Accepted {
        /// It might be done another time, if nothing comes of it: the trace of the message says so.
        retryable: bool,
        /// What else there is to say, an object: for whoever listens, and in the trace of the message. Null if nothing.
        metadata: Value,
    },
    /// The target has shown it.
    Delivered {
        /// What else there is to say, as above.
        metadata: Value,
    },
    /// The target cannot take it before that moment: it comes again then, and what comes after it passes.
    Deferred {
        /// At most a day from now.
        available_at: SystemTime,
        /// Why.
        reason: Option<String>,
        /// What else there is to say, as above.
        metadata: Value,
    },
    /// The target will not show it. It does not come again.
    Failed {
        /// Why.
        reason: String,
        /// It may be worth trying elsewhere: the trace of the message says so.
        retryable: bool,
        /// What else there is to say, as above.
        metadata: Value,
    },
}

impl MessageReceipt {
    /// The target has taken responsibility for it.
    pub const fn accepted() -> Self {
        Self::Accepted {
            retryable: false,
            metadata: Value::Null,
        }
    }

    /// The target has shown it.
    pub const fn delivered() -> Self {
        Self::Delivered {
            metadata: Value::Null,
        }
    }

    /// The target wants it later.
    pub fn deferred(available_at: SystemTime, reason: impl Into<String>) -> Self {
        let reason = Some(reason.into());
        Self::Deferred {
            available_at,
            reason,
            metadata: Value::Null,
        }
    }

    /// The target will not show it.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed {
            reason: reason.into(),
            retryable: false,
            metadata: Value::Null,
        }
    }

    /// The same, with what else there is to say. Relay takes an object of up to 1,024 bytes as JSON; anything else is for whoever listens.
    #[must_use]
    pub fn with_metadata(mut self, said: Value) -> Self {
        match &mut self {
            Self::Accepted { metadata, .. }
            | Self::Delivered { metadata }
            | Self::Deferred { metadata, .. }
            | Self::Failed { metadata, .. } => *metadata = said,
        }
        self
    }
}

/// What an adapter can do beside taking messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryCapabilities {
    /// It can interrupt what its runtime does.
    pub interrupt: bool,
}

/// Gets messages into a runtime, whatever that is.
pub trait AgentDeliveryAdapter: Send + Sync + 'static {
    /// Names it, for whoever reads about it.
    fn id(&self) -> &str;

    /// What it can do beside.
    fn capabilities(&self) -> DeliveryCapabilities {
        DeliveryCapabilities::default()
    }

    /// Called once before the first message.
    fn connect(&self) -> impl Future<Output = Result<(), AdapterFailure>> + Send {
        async { Ok(()) }
    }

    /// Called once after the last message.
    fn disconnect(&self) -> impl Future<Output = Result<(), AdapterFailure>> + Send {
        async { Ok(()) }
    }

    /// Takes a message, and says what became of it. The next one comes after that.
    ///
    /// # Errors
    ///
    /// Whatever kept it from saying: it gets the same message again after a while.
    fn inject(
        &self,
        message: &RelayMessage,
        context: &MessageContext,
    ) -> impl Future<Output = Result<MessageReceipt, AdapterFailure>> + Send;
}

/// Who a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentIdentity {
    /// The agent's name.
    pub name: String,
}

/// A session of an agent, which takes messages and can be let go.
pub trait AgentSession: Send + Sync + 'static {
    /// Who it is.
    fn identity(&self) -> &AgentIdentity;

    /// What it can do beside.
    fn capabilities(&self) -> DeliveryCapabilities {
        DeliveryCapabilities::default()
    }

    /// Takes a message, and says what became of it. The next one comes after that.
    ///
    /// # Errors
    ///
    /// Whatever kept it from saying: it gets the same message again after a while.
    fn receive_message(
        &self,
        message: &RelayMessage,
        context: &MessageContext,
    ) -> impl Future<Output = Result<MessageReceipt, AdapterFailure>> + Send;

    /// Called once after the last message.
    fn release(&self, reason: Option<&str>) -> impl Future<Output = Result<(), AdapterFailure>> + Send {
        let _ = reason;
        async { Ok(()) }
    }
}

/// A session as an adapter: it is let go at the end.
#[derive(Debug)]
pub struct SessionAdapter<S>(pub S);

impl<S: AgentSession> AgentDeliveryAdapter for SessionAdapter<S> {
    fn id(&self) -> &str {
        &self.0.identity().name
    }

    fn capabilities(&self) -> DeliveryCapabilities {
        self.0.capabilities()
    }

    async fn disconnect(&self) -> Result<(), AdapterFailure> {
        self.0.release(Some("the delivery runner has stopped")).await
    }

    async fn inject(
        &self,
        message: &RelayMessage,
        context: &MessageContext,
    ) -> Result<MessageReceipt, AdapterFailure> {
        self.0.receive_message(message, context).await
    }
}

/// A function as an adapter.
pub struct FromFn<F> {
    id: String,
    inject: F,
}

/// Makes an adapter of a function that takes a message.
pub fn adapter<F, R>(id: impl Into<String>, inject: F) -> FromFn<F>
where
    F: Fn(RelayMessage, MessageContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<MessageReceipt, AdapterFailure>> + Send,
{
    let id = id.into();
    FromFn { id, inject }
}

impl<F, R> AgentDeliveryAdapter for FromFn<F>
where
    F: Fn(RelayMessage, MessageContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<MessageReceipt, AdapterFailure>> + Send,
{
    fn id(&self) -> &str {
        &self.id
    }

    fn inject(
        &self,
        message: &RelayMessage,
        context: &MessageContext,
    ) -> impl Future<Output = Result<MessageReceipt, AdapterFailure>> + Send {
        (self.inject)(message.clone(), context.clone())
    }
}

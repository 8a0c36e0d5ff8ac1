//! What an agent's own program uses to be a part of relay: it sends messages, and takes what is delivered to its agent with a
//! receipt for each.
//!
//! ```no_run
//! use relay_sdk::{Client, DeliveryRunner, MessageReceipt, adapter};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let relay = Client::new("http://127.0.0.1:7331")?;
//! let worker = relay.workspace("default").await?.agent("worker").await?;
//! let answering = worker.clone();
//! let target = adapter("worker", move |message, _context| {
//!     let answering = answering.clone();
//!     async move {
//!         answering.send(&message.from, &format!("You said: {}", message.text)).await?;
//!         Ok(MessageReceipt::delivered())
//!     }
//! });
//! let running = DeliveryRunner::new(worker, target).start().await?;
//! // ...
//! running.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! An [`Agent`] posts and gives receipts. A [`DeliveryRunner`] holds the agent's own node open, hands what comes to an
//! [`AgentDeliveryAdapter`] or an [`AgentSession`], one message after the other, and tells relay what became of each. It
//! connects again by itself, and hands no delivery over twice that it knows the end of.

mod agent;
mod client;
mod connect;
mod delivery;
mod error;
mod events;
mod message;
mod node;
#[path = "../../src/redact.rs"]
mod redact;
mod runner;

pub use agent::{Agent, Posted};
pub use client::{Client, Workspace};
pub use connect::{BoxedIo, Connect, Io, Tcp};
pub use delivery::{
    AdapterFailure, AgentDeliveryAdapter, AgentIdentity, AgentSession, DeliveryCapabilities, FromFn,
    MessageReceipt, SessionAdapter, adapter,
};
pub use error::{CapabilityError, Error};
pub use events::{AgentSessionEvent, Events, Subscription};
pub use message::{DeliveryMode, Handling, MessageContext, Priority, Reason, RelayMessage};
pub use redact::redact;
pub use runner::{DeliveryRunner, Running};

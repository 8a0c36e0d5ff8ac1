//! `relay mcp`: a bridge from an agent's stdio to a running relay.
//!
//! It answers the handshake by itself, and the tool list too while there is no relay, so an agent that starts before
//! the relay, or outlives it, needs no restart: a call says that relay is not running, and the next one goes through
//! once it is.
//!
//! # One call
//!
//! [`stdio`] reads a line and notes its request in [`calls`]; rmcp's service hands it to [`bridge`], which waits for
//! the call's turn and asks the [`relay`] over a [`connection`] that is broken off unless it is told to close in order.
//! The answer goes back through rmcp to [`stdio`], which tells [`calls`] when stdout has taken it. Only the agent's next
//! request, or an orderly end, then lets the connection be used again or closed in order, which is what tells the relay
//! that the answer was read. Everything else breaks it off, and the relay takes back what it had handed over.
//!
//! # Order
//!
//! Calls are carried out in the order of their lines: one is begun when the one before is answered. Only a call with
//! `wait_seconds` lets the next one begin after a moment, so that an agent can post while it waits.

mod bridge;
mod calls;
mod connection;
mod lines;
mod relay;
mod stdio;
mod system;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use uuid::Uuid;

pub use connection::{Connect, Connection};

use super::place::DEFAULT_PORT;
use crate::engine::{AgentName, InvalidName};
use crate::server::Token;
use bridge::Bridge;
use calls::Calls;
use relay::Relay;
use stdio::Stdio;

/// `relay mcp`.
#[derive(Debug, clap::Args)]
pub struct Mcp {
    /// The port of the relay, 1 to 65535.
    #[arg(long, env = "RELAY_PORT", default_value_t = DEFAULT_PORT, value_parser = super::port)]
    port: u16,

    /// The address of the relay.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = super::serve::host)]
    host: IpAddr,

    /// The role that this agent has; it need not name itself then, and may not name another.
    #[arg(
        long,
        value_name = "ROLE",
        env = "RELAY_AGENT",
        default_value = "",
        hide_default_value = true
    )]
    agent: BoundRole,

    /// The secret that the relay asks for.
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    token: Option<Token>,
}

/// The role of the bridge's agent, if it has one of its own.
#[derive(Debug, Clone)]
struct BoundRole(Option<AgentName>);

impl std::str::FromStr for BoundRole {
    type Err = InvalidName;

    /// Takes a role; an empty one, from a variable that is not set, is none.
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        AgentName::new(text).map(|agent| Self(Some(agent)))
    }
}

/// What a bridge is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the relay is, as requests and errors name it.
    pub address: SocketAddr,
    /// The role that the agent is bound to.
    pub agent: Option<AgentName>,
    /// What the relay asks for.
    pub token: Option<Token>,
    /// The command that is this program, as errors name it.
    pub program: String,
    /// What tells the relay whose request a cancellation is about; nobody else may have the same.
    pub session: Uuid,
}

/// Bridges this process's stdio until stdin ends.
///
/// # Errors
///
/// The system's, when stdio or the runtime fails.
pub(super) fn main(args: Mcp) -> io::Result<()> {
    // A closed stdout looks like one that takes everything, and answers with messages in them would be thrown away.
    super::messages::check_stdout().map_err(|error| {
        io::Error::other(format!(
            "cannot write to stdout: {error}; nothing was read from stdin"
        ))
    })?;
    let mut random = super::serve::system_random()?;
    let settings = Settings {
        address: SocketAddr::new(args.host, args.port),
        agent: args.agent.0,
        token: args.token,
        program: super::ourselves(),
        session: uuid::Builder::from_random_bytes(random()).into_uuid(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connect = system::Tcp(settings.address);
    let bridging = run(tokio::io::stdin(), system::Stdout::new(), settings, connect);
    let result = runtime.block_on(bridging);
    // A read of stdin that never returns holds up nothing.
    runtime.shutdown_background();
    result
}

/// Bridges an agent to a relay until the agent's end: whatever was read before that is carried out and answered.
///
/// It opens no socket and touches no stdio of the process but through its arguments. `stdout` reports in its flush
/// whether anybody can still read what was written to it.
///
/// # Errors
///
/// `stdout`'s, when it does not take the answers any more; they are taken back then. And the protocol's, when the
/// agent's first request makes no handshake possible.
pub async fn run<C: Connect>(
    stdin: impl AsyncRead + Send + Unpin + 'static,
    stdout: impl AsyncWrite + Send + Unpin + 'static,
    settings: Settings,
    connect: C,
) -> io::Result<()> {
    let calls = Arc::new(Calls::default());
    let relay = Arc::new(Relay::new(settings, connect));
    let (stdio, writing) = Stdio::new(stdin, stdout, Arc::clone(&calls), Arc::clone(&relay));
    let bridge = Bridge::new(Arc::clone(&calls), relay);
    let served = match bridge.serve(stdio).await {
        Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
        // An agent that leaves before its handshake has done nothing wrong.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    };
    match writing.finish().await {
        Ok(()) => calls.end_in_order(),
        Err(error) => {
            calls.break_off();
            return Err(error);
        }
    }
    served
}

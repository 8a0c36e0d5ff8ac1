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
//! An agent that is registered is so from its handshake on: [`presence`] keeps a connection of its own for that. What it has
//! subscribed to it hears of by [`subscriptions`], over one connection each, which also outlive the relay.
//!
//! # Order
//!
//! Calls are carried out in the order of their lines: one is begun when the one before is answered. Only a call that
//! may wait lets the next one begin after a moment, so that an agent can post meanwhile.

mod bridge;
mod calls;
mod connection;
mod found;
mod held;
mod introduction;
mod lines;
mod presence;
mod relay;
mod stdio;
mod subscriptions;
mod system;
#[cfg(test)]
mod tests;
mod updates;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::ArgAction;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

pub use super::identity::{Identity, InvalidLabel, Label};
pub use super::project::Project;
pub use connection::{Connect, Connection};

use super::identity::choice::{Identities, UnknownAgent};
use super::install::{self, Install};
use super::or_none::OrNone;
use super::place::{DEFAULT_PORT, Place};
use super::{End, Failure};
use crate::engine::{AgentName, RandomBytes, Timestamp};
use crate::server::{Token, wall_clock};
use crate::terminal::visible;
use crate::tools::{ReplyBytes, Toolsets};
use bridge::Bridge;
use calls::Calls;
use relay::Relay;
use stdio::Stdio;

/// `relay mcp`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Mcp {
    #[command(flatten)]
    serve: Serve,

    #[command(subcommand)]
    command: Option<McpCommand>,
}

/// What the commands of Thrum and of Agent Relay have behind `mcp`.
#[derive(Debug, clap::Subcommand)]
pub enum McpCommand {
    /// The same as relay mcp, as those who come from Thrum or Agent Relay call it.
    Serve(Box<Serve>),
    /// The same as relay install, as those who come from Agent Relay call it.
    #[command(after_help = super::KICKOFF)]
    Install(Install),
}

/// How a bridge is started.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The port of the relay, 1 to 65535 [default: 7331, where no other relay is found].
    #[arg(long, env = "RELAY_PORT", value_parser = super::port)]
    port: Option<u16>,

    /// The address of the relay [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_parser = super::serve::host)]
    host: Option<IpAddr>,

    /// The name that this agent has; it need not name itself then, and may not name another.
    #[arg(
        long,
        visible_alias = "agent-id",
        value_name = "NAME",
        env = "RELAY_AGENT",
        default_value = "",
        hide_default_value = true,
        action = ArgAction::Append
    )]
    agent: Vec<OrNone<AgentName>>,

    /// The project that the agent belongs to, and whose own relay it asks, unless a port, a host or RELAY_SOCKET names another.
    #[arg(long, env = "RELAY_PROJECT", default_value = "", hide_default_value = true)]
    project: OrNone<Project>,

    /// The tools that the agent has: lift, thrum, agent-relay, or several with commas between them, or all.
    #[arg(long, default_value = "lift")]
    tools: Toolsets,

    /// The secret that the relay asks for.
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    token: Option<Token>,

    /// The repository that the agent works in, as if the bridge were started there [default: .].
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,

    /// How much of a reply the agent's program shows its model, in kB, 6 to 100000 [default: what is known of the program, else 9].
    #[arg(long, value_name = "KB")]
    reply_kb: Option<ReplyBytes>,
}

/// What a bridge is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the relay is, as requests and errors name it; one that is found over a unix socket is not there.
    pub address: SocketAddr,
    /// Who the agent is, if it is bound to a name.
    pub identity: Option<Identity>,
    /// The project that the agent belongs to, where [`Connect`] finds out none; the relay's own one if it is none.
    pub project: Option<Project>,
    /// The tools that the agent asks for.
    pub toolsets: Toolsets,
    /// The directory that the agent works in, if its path is text.
    pub directory: Option<String>,
    /// This start of the bridge, or the worker that it is of, by which the relay tells two agents of one name apart.
    pub instance: Uuid,
    /// What the relay asks for.
    pub token: Option<Token>,
    /// How much of a reply the agent's program shows its model; what is known of the program if it is none.
    pub reply_max: Option<ReplyBytes>,
    /// The command that is this program, as errors name it.
    pub program: String,
    /// What tells the relay whose request a cancellation is about; nobody else may have the same.
    pub session: Uuid,
}

/// Why a bridge was not started, or what ended it.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The agent was given two names; nothing was read from stdin.
    #[error(
        "the agent is named twice, {first:?} and {second:?}, by --agent or --agent-id; accepted: one name"
    )]
    TwoNames {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// There is no such repository; nothing was read from stdin.
    #[error("--repo is {}: {error}; accepted: a directory", visible(&path.to_string_lossy()))]
    Repo {
        /// As it was given.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// It is not known who the agent is; nothing was read from stdin.
    #[error(transparent)]
    UnknownAgent(#[from] UnknownAgent),
    /// stdio or the runtime fails.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<McpError> for Failure {
    fn from(error: McpError) -> Self {
        let text = format!("relay mcp: {error}");
        match error {
            McpError::TwoNames { .. } | McpError::Repo { .. } => Self::usage(text),
            McpError::UnknownAgent(unknown) if unknown.is_bad_usage() => Self::usage(text),
            McpError::UnknownAgent(_) | McpError::System(_) => Self::error(text),
        }
    }
}

/// Bridges this process's stdio until stdin ends, or installs.
pub(super) fn main(args: Mcp) -> Result<End, Failure> {
    let serve = match args.command {
        None => args.serve,
        Some(McpCommand::Serve(serve)) => *serve,
        Some(McpCommand::Install(args)) => return install::run(&args),
    };
    bridge_stdio(serve)?;
    Ok(End::Done)
}

fn bridge_stdio(args: Serve) -> Result<(), McpError> {
    // A closed stdout looks like one that takes everything, and answers with messages in them would be thrown away.
    super::messages::check_stdout().map_err(|error| {
        io::Error::other(format!(
            "cannot write to stdout: {error}; nothing was read from stdin"
        ))
    })?;
    let program = super::ourselves();
    if let Some(path) = args.repo {
        std::env::set_current_dir(&path).map_err(|error| McpError::Repo { path, error })?;
    }
    let identity = identity(args.agent, args.tools, &program)?;
    let mut random = super::serve::system_random()?;
    let is_named = args.host.is_some() || args.port.is_some();
    let host = args.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let address = SocketAddr::new(host, args.port.unwrap_or(DEFAULT_PORT));
    let asked = found::Asked {
        place: is_named.then(|| Place::from(address)),
        project: args.project.0,
    };
    let of_worker = identity.as_ref().and_then(|identity| {
        let named = is_named.then_some(address);
        instance_of_worker(&identity.name, asked.project.as_ref(), named)
    });
    let instance = of_worker.unwrap_or_else(|| instance(wall_clock()(), random()));
    let settings = Settings {
        address,
        identity,
        project: None,
        toolsets: args.tools,
        directory: working_directory(),
        instance,
        token: args.token,
        reply_max: args.reply_kb,
        program,
        session: uuid::Builder::from_random_bytes(random()).into_uuid(),
    };
    let runtime = super::runtime(&mut tokio::runtime::Builder::new_current_thread(), 1)?;
    let connect = found::Finder::new(asked, address, settings.program.clone());
    let bridging = run(tokio::io::stdin(), system::Stdout::new(), settings, connect);
    let result = runtime.block_on(bridging);
    // A read of stdin that never returns holds up nothing.
    runtime.shutdown_background();
    Ok(result?)
}

/// Finds out who the agent is. With lift's tools alone a session needs no name, and no file names it; but one of a name that is given
/// says its role.
fn identity(
    given: Vec<OrNone<AgentName>>,
    tools: Toolsets,
    program: &str,
) -> Result<Option<Identity>, McpError> {
    let named = one_name(given)?;
    if tools == Toolsets::default() && named.is_none() {
        return Ok(None);
    }
    let directory = std::env::current_dir().map_err(|error| {
        let reason = format!("cannot tell the working directory: {error}");
        io::Error::new(error.kind(), reason)
    })?;
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let identities = Identities::seen_from(&directory, program.to_owned());
    match identities.choose(named, variable) {
        Err(UnknownAgent::NoIdentity { .. } | UnknownAgent::Several { .. }) if !tools.need_agent() => {
            Ok(Some(Identity::of_process(std::process::id())))
        }
        chosen => Ok(Some(chosen?)),
    }
}

/// Takes the name that was given, which may be repeated.
fn one_name(given: Vec<OrNone<AgentName>>) -> Result<Option<AgentName>, McpError> {
    let mut names = given.into_iter().filter_map(|name| name.0);
    let first = names.next();
    let other = names.find(|name| Some(name) != first.as_ref());
    match (first, other) {
        (Some(first), Some(second)) => Err(McpError::TwoNames {
            first: first.to_string(),
            second: second.to_string(),
        }),
        (first, _) => Ok(first),
    }
}

/// Returns the directory that the process works in, if its path is text.
fn working_directory() -> Option<String> {
    let directory = std::env::current_dir().ok()?;
    directory.into_os_string().into_string().ok()
}

/// Finds the instance that relay has given the processes of a worker, if this is its bridge to that relay: not one that is somebody else under it, or
/// that is in another project or asks another relay, where what has begun before the worker counts for no less. A bridge that comes late, of a
/// worker of a relay that was killed, takes nothing from a later worker of its name.
fn instance_of_worker(
    name: &AgentName,
    project: Option<&Project>,
    relay: Option<SocketAddr>,
) -> Option<Uuid> {
    let of_worker = std::env::var_os("RELAY_INSTANCE")?;
    let mut parts = of_worker.to_str()?.split('/');
    let [port, of_project, worker, instance] = std::array::from_fn(|_| parts.next());
    let port: u16 = port?.parse().ok()?;
    let is_its_relay = relay.is_none_or(|relay| relay.ip().is_loopback() && relay.port() == port);
    let is_its_project = project.is_none_or(|project| Some(project.as_str()) == of_project);
    let is_its = is_its_relay && is_its_project && worker == Some(name.local());
    instance.filter(|_| is_its)?.parse().ok()
}

/// Makes a uuid of version 7, of which a later one is greater.
/// <https://www.rfc-editor.org/rfc/rfc9562#section-5.7>
fn instance(now: Timestamp, random: RandomBytes) -> Uuid {
    let random = std::array::from_fn(|at| random[at]);
    let now_ms = u64::try_from(now.as_millis()).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(now_ms, &random).into_uuid()
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
    let presence = relay
        .registers()
        .then(|| tokio::spawn(presence::stay(Arc::clone(&relay))));
    let _presence = presence.map(AbortOnDropHandle::new);
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

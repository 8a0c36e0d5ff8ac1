//! `relay stop`: ends the relay on a port in order, and nothing else that is connected to it.

use std::io;
use std::time::Duration;

use listeners::{Protocol, SocketState};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::client::{At, Client, ClientError};
use super::messages::{json_line, write_stdout};
use super::person::{NotThePerson, require_no_agent};
use super::{End, Failure, block_on, unread_text};

/// How long the relay may take: five seconds for its workers, two for its connections, and as much again on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// `relay stop`.
#[derive(Debug, clap::Args)]
pub struct Stop {
    /// Print what was ended as JSON: {"pid": 4711, "unread": {"pm": 2}, "workers": ["w1"]}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// Why the relay was not ended.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// An agent runs it, and it would end what all others work with.
    #[error("{0}, and it ends relay for everybody; ask your person")]
    NotThePerson(NotThePerson),
    /// No relay answers.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The relay is older than this command.
    #[error("relay {version} on {place} does not tell its process; end it with Ctrl-C where it runs")]
    NoPid {
        /// Of the relay.
        version: String,
        /// Where it is.
        place: String,
    },
    /// The process that the relay names is not the one that listens here: the relay is on another machine, in a
    /// container, or another user's.
    #[error(
        "relay on {place} says that it is process {pid}, and no such process of yours listens here; stop it where it runs, as who runs it"
    )]
    NotHere {
        /// Where it was asked.
        place: String,
        /// What it says.
        pid: i32,
    },
    /// The system does not tell who listens.
    #[error(
        "cannot tell whether process {pid} is the relay on {place}: {reason}; if it is, end it with: kill {pid}"
    )]
    Unknown {
        /// Where the relay is.
        place: String,
        /// What it says.
        pid: i32,
        /// The system's reason.
        reason: String,
    },
    /// The system does not let this user end it.
    #[error("cannot end process {pid}: {error}")]
    Signal {
        /// The relay's.
        pid: i32,
        /// The system's reason.
        error: io::Error,
    },
}

impl From<StopError> for Failure {
    fn from(error: StopError) -> Self {
        let text = format!("relay stop: {error}");
        match error {
            StopError::NotThePerson(_) => Self::usage(text),
            StopError::Client(_)
            | StopError::NoPid { .. }
            | StopError::NotHere { .. }
            | StopError::Unknown { .. }
            | StopError::Signal { .. } => Self::error(text),
        }
    }
}

/// Stops.
pub fn run(args: &Stop) -> Result<End, Failure> {
    require_no_agent().map_err(StopError::NotThePerson)?;
    Ok(block_on(stop(args))??)
}

async fn stop(args: &Stop) -> Result<End, StopError> {
    let client = Client::find(&args.at).await?;
    let place = client.place().to_string();
    let (peer, local, health) = (client.peer, client.local, client.health.clone());
    // Its end would wait for this connection.
    client.done();
    let named = health.pid.and_then(|pid| Some((pid, Pid::from_raw(pid)?)));
    let Some((pid, process)) = named.filter(|(pid, _)| *pid > 1) else {
        return Err(StopError::NoPid {
            version: health.version,
            place,
        });
    };
    let here = peer.ip().is_loopback() || peer.ip() == local.ip();
    if !(here && listens(process, peer.port()).map_err(|reason| unknown(&place, pid, reason))?) {
        return Err(StopError::NotHere { place, pid });
    }
    kill_process(process, Signal::TERM).map_err(|error| StopError::Signal {
        pid,
        error: error.into(),
    })?;
    let unread: Vec<(&str, u64)> = health
        .roles
        .iter()
        // What is held waits, too.
        .map(|role| (role.role.as_str(), role.unread + role.held))
        .filter(|(_, count)| *count > 0)
        .collect();
    let workers: Vec<&str> = health.workers.iter().map(|worker| worker.name.as_str()).collect();
    if !ended(process, peer).await {
        super::say(&format!(
            "relay stop: process {pid} was asked to end and still listens on {place} after {} s",
            PATIENCE.as_secs()
        ));
        return Ok(End::TimedOut);
    }
    let told = if args.json {
        let unread: serde_json::Map<_, _> = unread
            .iter()
            .map(|(role, count)| ((*role).to_owned(), json!(count)))
            .collect();
        json_line(&json!({"pid": pid, "unread": unread, "workers": workers}).to_string())
    } else {
        format!(
            "relay on {place} (pid {pid}) stopped{}{}\n",
            unread_text(unread.into_iter()),
            workers_text(&workers)
        )
    };
    // It has ended, whoever reads that.
    let _ = write_stdout(&told);
    Ok(End::Done)
}

/// Says which workers have ended with it, in a half sentence; nothing if there were none.
fn workers_text(workers: &[&str]) -> String {
    let names = workers.join(", ");
    match workers {
        [] => String::new(),
        [_] => format!("; 1 worker ended with it: {names}"),
        many => format!("; {} workers ended with it: {names}", many.len()),
    }
}

fn unknown(place: &str, pid: i32, reason: String) -> StopError {
    StopError::Unknown {
        place: place.to_owned(),
        pid,
        reason,
    }
}

/// Tells whether a process of this machine listens on a port: the number alone says nothing, since the port may be a
/// tunnel to another machine's relay.
fn listens(process: Pid, port: u16) -> Result<bool, String> {
    let pid = u32::try_from(process.as_raw_nonzero().get()).unwrap_or_default();
    let all = listeners::get_all().map_err(|error| error.to_string())?;
    Ok(all.iter().any(|listener| {
        listener.process.pid == pid
            && listener.socket.port() == port
            && listener.protocol == Protocol::TCP
            && listener.state == SocketState::Listen
    }))
}

/// Waits until nothing is connected to any more there, or the process is gone.
async fn ended(process: Pid, peer: std::net::SocketAddr) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let free = match timeout(PATIENCE, TcpStream::connect(peer)).await {
            Ok(Ok(_)) | Err(_) => false,
            Ok(Err(error)) => error.kind() == io::ErrorKind::ConnectionRefused,
        };
        if free || test_kill_process(process) == Err(rustix::io::Errno::SRCH) {
            return true;
        }
        sleep(LOOK_EVERY).await;
    }
    false
}

//! `relay serve`: the relay itself, in the foreground.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::engine::limits::Bounds;
use crate::engine::{Engine, InvalidRoster, RandomBytes, Roster};
use crate::server::{Config, Guard, Token, serve, stdout_log, wall_clock};
use crate::tools::lift;

/// How often an idle stream is written to.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a program that has the port may take to say something, and how many times it is listened to: a relay
/// says all in one or two.
const PROBE_PATIENCE: Duration = Duration::from_millis(250);
const PROBE_READS_MAX: usize = 8;

/// `relay serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The port to listen on, 1 to 65535.
    #[arg(long, default_value_t = 7331, value_parser = super::port)]
    port: u16,

    /// The address to listen on; any other than this machine's own needs --token.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = host)]
    host: IpAddr,

    /// A secret that every request must carry as "Authorization: Bearer TOKEN".
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    token: Option<Token>,

    /// The roles that may post and read, separated by commas.
    #[arg(long, value_name = "ROLES", default_value = "pm,dev-a,dev-b", value_parser = roster)]
    roles: Roster,
}

/// Why the relay could not be started, or what ended it.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another address than this machine's own would let in everybody who can reach it.
    #[error(
        "relay serve: --host {host} can be reached from other machines; give --token (or RELAY_TOKEN) too, which every request must then carry"
    )]
    NeedsToken {
        /// As given.
        host: IpAddr,
    },
    /// Something listens there already.
    #[error("relay already running? kill it with: kill $(lsof -ti:{port})\nport {port}: {found}")]
    PortInUse {
        /// The port.
        port: u16,
        /// What answers there.
        found: String,
    },
    /// The system does not let relay listen there.
    #[error("relay serve: cannot listen on {address}: {error}; choose another with --port or --host")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The system failed.
    #[error("relay serve: {0}")]
    System(#[from] std::io::Error),
}

/// Runs the relay until Ctrl-C or SIGTERM.
///
/// # Errors
///
/// [`ServeError`], before anything was served.
pub fn run(args: Serve) -> Result<(), ServeError> {
    if !args.host.is_loopback() && args.token.is_none() {
        return Err(ServeError::NeedsToken { host: args.host });
    }
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(listen_and_serve(args));
    // A log line that is still being written to a stdout that nobody reads holds up nothing.
    runtime.shutdown_background();
    result
}

async fn listen_and_serve(args: Serve) -> Result<(), ServeError> {
    let address = SocketAddr::new(args.host, args.port);
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| refused_address(address, error))?;
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone())?);
    let clock = wall_clock();
    let engine = Engine::new(clock(), args.roles.clone(), Bounds::default(), system_random()?);
    let banner = format!(
        "[relay] server ready on :{}\n[relay] tools: {}\n[relay] waiting for connections — Ctrl-C to stop\n",
        args.port,
        lift::TOOLS.join(", ")
    );
    let (log, log_end) = stdout_log(banner);
    let config = Config {
        engine: Box::new(engine),
        clock,
        stream_random: system_random()?,
        log,
        guard: Guard {
            port: args.port,
            token: args.token,
        },
        roster: args.roles,
        keep_alive: KEEP_ALIVE,
    };
    serve(listener, config, stop).await?;
    log_end.wait();
    Ok(())
}

/// Makes the future that asks for an orderly end at Ctrl-C or SIGTERM.
fn stop_on_signal(stop: CancellationToken) -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stop.cancel();
    })
}

fn refused_address(address: SocketAddr, error: std::io::Error) -> ServeError {
    if error.kind() != std::io::ErrorKind::AddrInUse {
        return ServeError::Listen { address, error };
    }
    let found = match probe(address) {
        Some((version, since)) => format!("relay {version} answers there, started at {since}"),
        None => "something answers there that is not a relay; choose another port with --port".to_owned(),
    };
    ServeError::PortInUse {
        port: address.port(),
        found,
    }
}

/// Asks what listens at an address; returns a relay's version and start.
fn probe(address: SocketAddr) -> Option<(String, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_PATIENCE).ok()?;
    stream.set_read_timeout(Some(PROBE_PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PROBE_PATIENCE)).ok()?;
    stream
        .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut answer = Vec::new();
    for _ in 0..PROBE_READS_MAX {
        let mut bytes = [0; 8 * 1024];
        match stream.read(&mut bytes).ok()? {
            0 => break,
            count => answer.extend_from_slice(&bytes[..count]),
        }
    }
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if head.starts_with("HTTP/1.1 401") && body.contains("this relay wants a token") {
        return Some(("with a token".to_owned(), "an unknown time".to_owned()));
    }
    let health: serde_json::Value = serde_json::from_str(body).ok()?;
    let field = |name: &str| health.get(name)?.as_str().map(str::to_owned);
    (field("name")? == "relay").then_some(())?;
    Some((field("version")?, field("started_at")?))
}

/// Makes a source of random bytes, seeded by the system.
fn system_random() -> std::io::Result<RandomBytes> {
    let mut random = StdRng::try_from_rng(&mut SysRng).map_err(std::io::Error::other)?;
    Ok(Box::new(move || {
        let mut bytes = [0; 16];
        random.fill_bytes(&mut bytes);
        bytes
    }))
}

/// Allows as many open connections as the system does at the most: each stream is one.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}

fn host(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse()
        .map_err(|_| "an address is an IP address, such as 127.0.0.1, or localhost".to_owned())
}

fn roster(text: &str) -> Result<Roster, InvalidRoster> {
    Roster::new(text.split(',').map(str::trim))
}

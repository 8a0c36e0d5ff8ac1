//! `relay serve`: the relay itself, in the foreground.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod memory;
mod taken;
mod workers;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Command, Stdio};

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};
use rustix::process::{Resource, Signal, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::discover::{DiscoverError, project_here};
use super::or_none::OrNone;
use super::place::DEFAULT_PORT;
use super::project::{DataDirectory, Project};
use super::{own_program, unread_text};
use crate::engine::address::Home;
use crate::engine::limits::Bounds;
use crate::engine::{AgentName, Engine, InvalidRoster, Roster};
use crate::process::ignores;
use crate::server::{
    Broken, Config, Doors, FileNotes, Guard, KEEP_ALIVE, KnownAgents, Notes, Random, SocketFile,
    SocketFileError, System, Token, serve, stdout_log, wall_clock,
};
use crate::tools;
use crate::workers::OpenFiles;
use taken::{Holder, taken};

/// How many connections may wait to be accepted; Linux takes no more than `net.core.somaxconn`, 4,096 by default.
const BACKLOG: u32 = 4_096;

/// How many threads it has beside one for each core: for its lines, for files, and for what waits.
const THREADS_BESIDE: usize = 4;

/// How many ports of the system's choice are tried until one is free at both loopback addresses.
const PORTS_TRIED_MAX: u32 = 16;

/// `relay serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The port to listen on, 1 to 65535; 0 for any that is free.
    #[arg(long, env = "RELAY_PORT", default_value_t = DEFAULT_PORT, value_parser = port)]
    port: u16,

    /// The address to listen on; any other than this machine's own needs --token. 127.0.0.1 and ::1 are listened on together.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = host)]
    host: IpAddr,

    /// A secret that every request must carry as "Authorization: Bearer TOKEN".
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    token: Option<Token>,

    /// The roles that may post and read, separated by commas.
    #[arg(long, value_name = "ROLES", default_value = "pm,dev-a,dev-b", value_parser = roster)]
    roles: Roster,

    /// The project whose own relay it is: its unix socket is listened on beside the port, and it means those who name no project
    /// [default: that of the nearest .relay/config.json, or else default].
    #[arg(
        long,
        value_name = "PROJECT",
        env = "RELAY_PROJECT",
        default_value = "",
        hide_default_value = true
    )]
    project: OrNone<Project>,

    /// How many times agents may answer each other in a thread before you have to say something in it, by relay send --thread.
    #[arg(long, value_name = "TURNS", default_value_t = Bounds::default().hops_max)]
    hops_max: u32,

    /// A host beside this machine that nodes of kind http_push may be on; may be given several times.
    #[arg(long, value_name = "HOST")]
    push_allow: Vec<String>,
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
    /// It is not known which project's own relay it is.
    #[error("relay serve: {0}")]
    Project(#[from] DiscoverError),
    /// Something listens there already.
    #[error("{}{found}", holder.hint(*port))]
    PortInUse {
        /// The port.
        port: u16,
        /// Who has it.
        holder: Holder,
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
    /// The engine failed while it ran.
    #[error("relay serve: {0}")]
    Broken(#[from] Broken),
    /// The system failed.
    #[error("relay serve: {0}")]
    System(#[from] std::io::Error),
}

/// Has freed memory go back to the system, by starting this program once more where that takes it. To be called before anything is written or begun.
pub fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    memory::give_back();
}

/// Runs the relay until Ctrl-C, SIGTERM or SIGHUP.
///
/// # Errors
///
/// [`ServeError`], before anything was served.
pub fn run(args: Serve) -> Result<(), ServeError> {
    if !args.host.is_loopback() && args.token.is_none() {
        return Err(ServeError::NeedsToken { host: args.host });
    }
    let project = project_here(args.project.0.as_ref())?.unwrap_or_default();
    let open_files = raise_open_files();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // Not as many as a variable says, which tokio would panic at if it is no number.
    builder.worker_threads(cores);
    let runtime = super::runtime(&mut builder, cores + THREADS_BESIDE)?;
    let result = runtime.block_on(listen_and_serve(args, project, open_files));
    // A log line that is still being written to a stdout that nobody reads holds up nothing.
    runtime.shutdown_background();
    result
}

async fn listen_and_serve(args: Serve, project: Project, open_files: OpenFiles) -> Result<(), ServeError> {
    let listeners = listeners(&args, listen).await?;
    let port = listeners[0].local_addr()?.port();
    let address = SocketAddr::new(args.host, port);
    let data = DataDirectory::by(|name| std::env::var_os(name));
    let is_first = data.as_ref().is_some_and(|data| !data.project(&project).exists());
    let local = local(data, &project);
    let place = match &local {
        Some((socket, _)) => socket.path().display().to_string(),
        None => address.to_string(),
    };
    let (agents, had_sessions) = known_agents(local.as_ref().map(|(socket, _)| socket), is_first).await;
    let doors = Doors::new(listeners, local);
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone())?);
    let Some(notes) = stop.run_until_cancelled(notes(address)).await else {
        return Ok(());
    };
    let clock = wall_clock();
    let mut message_random = system_random()?;
    let bounds = Bounds {
        hops_max: args.hops_max,
        // Whoever reaches it could run programs here.
        workers_max: if args.host.is_loopback() {
            Bounds::default().workers_max
        } else {
            0
        },
        ..Bounds::default()
    };
    let engine = Engine::new(clock(), args.roles.clone(), bounds, message_random())
        .reached_at(place)
        .at_home_in(Home::of(project.as_str()))
        .after_sessions_of(had_sessions);
    let banner = format!(
        "[relay] server ready on :{port}\n[relay] tools: {}\n[relay] waiting for connections — Ctrl-C to stop\n",
        tools::DEFAULT.names()
    );
    let (log, log_end) = stdout_log(&banner);
    let processes = workers::Processes::of(workers::Relay {
        host: args.host,
        port,
        token: args.token.clone(),
        project,
        directory: std::env::current_dir().ok(),
        open_files,
        program: own_program(),
    });
    let config = Config {
        engine: Box::new(engine),
        clock,
        message_random,
        stream_random: system_random()?,
        token_random: system_random()?,
        log,
        notes,
        agents,
        guard: Guard {
            port,
            token: args.token,
        },
        roster: args.roles,
        keep_alive: KEEP_ALIVE,
        network: std::sync::Arc::new(System),
        messaging: std::sync::Arc::new(System),
        push_allow: args.push_allow,
        starter: std::sync::Arc::new(processes),
    };
    let unread = serve(doors, config, stop).await?;
    let unread = unread.into_iter().map(|(agent, count)| (agent, count as u64));
    log_end.write(&format!("[relay] stopped{}", unread_text(unread)));
    Ok(())
}

/// Why there is no unix socket beside the port.
#[derive(Debug, thiserror::Error)]
enum NoSocket {
    /// Nothing says where it would be.
    #[error("neither XDG_DATA_HOME nor HOME says where its unix socket is; set one of them")]
    NoData,
    /// The system, or another relay, does not allow it.
    #[error(transparent)]
    File(#[from] SocketFileError),
}

/// Listens on the unix socket of a project; if that is not possible, says why, and relay serves its port alone.
fn local(data: Option<DataDirectory>, project: &Project) -> Option<(SocketFile, UnixListener)> {
    let listening = data
        .ok_or(NoSocket::NoData)
        .and_then(|data| Ok(SocketFile::listen(&data.socket(project))?));
    listening
        .inspect_err(|reason| tracing::warn!("relay is reached by its port alone: {reason}"))
        .ok()
}

/// Listens, with as long a queue of connections that wait to be accepted as the system allows.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // A relay that was killed a moment ago has left connections behind that are not quite over.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Opens the notes on which calls wait; without them, a client whose call waits when relay is killed waits on.
async fn notes(address: SocketAddr) -> Box<dyn Notes> {
    match FileNotes::open(address).await {
        Ok(notes) => Box::new(notes),
        Err(error) => {
            tracing::warn!(%error, "cannot note which calls wait");
            Box::new(String::new())
        }
    }
}

/// Takes up the notes on which agents have had a session, beside the socket of the project's relay, and returns who had one before. Without
/// them everybody is told of each start.
async fn known_agents(
    socket: Option<&SocketFile>,
    is_first: bool,
) -> (KnownAgents, Option<BTreeSet<AgentName>>) {
    let Some(directory) = socket.and_then(|socket| socket.path().parent()) else {
        return (KnownAgents::default(), None);
    };
    match FileNotes::open_agents(directory).await {
        Ok(notes) => KnownAgents::take_up(Box::new(notes), is_first),
        Err(error) => {
            tracing::warn!(%error, "cannot note which agents have had a session");
            (KnownAgents::default(), None)
        }
    }
}

/// Makes the future that asks for an orderly end at Ctrl-C, SIGTERM, or when the terminal is closed.
fn stop_on_signal(stop: CancellationToken) -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Who has started relay by nohup wants it to go on.
    let mut hang_up = match ignores(Signal::HUP).or_else(ignores_hang_up_when_tried) {
        Some(false) | None => Some(signal(SignalKind::hangup())?),
        Some(true) => None,
    };
    Ok(async move {
        let hung_up = async {
            match &mut hang_up {
                Some(hang_up) => drop(hang_up.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = hung_up => {}
        }
        stop.cancel();
    })
}

/// Tells whether this process was started so that SIGHUP does nothing, by trying it with a program, which ignores what relay does; none where that
/// does not run.
fn ignores_hang_up_when_tried() -> Option<bool> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "kill -HUP $$"]);
    let tried = shell
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.ok().map(|status| status.success())
}

/// Listens where it is to: at both loopback addresses if it is one of them, since `localhost` is either, and at one port.
///
/// # Errors
///
/// [`ServeError::PortInUse`], also if only one of the two is free; [`ServeError::Listen`].
async fn listeners(
    args: &Serve,
    listen: impl Fn(SocketAddr) -> std::io::Result<TcpListener>,
) -> Result<Vec<TcpListener>, ServeError> {
    let mut tries = 1..=PORTS_TRIED_MAX;
    loop {
        let address = SocketAddr::new(args.host, args.port);
        let listener = match listen(address) {
            Ok(listener) => listener,
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(taken(args, address).await),
            Err(error) => return Err(ServeError::Listen { address, error }),
        };
        let Some(other) = other_loopback(args.host) else {
            return Ok(vec![listener]);
        };
        let other = SocketAddr::new(other, listener.local_addr()?.port());
        match listen(other) {
            Ok(second) => return Ok(vec![listener, second]),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                // The system has given a port that is free at one address only.
                let tries_again = args.port == 0 && tries.next().is_some();
                if !tries_again {
                    return Err(taken(args, other).await);
                }
            }
            Err(error) => {
                tracing::warn!("relay is not reached at {other}: {error}");
                return Ok(vec![listener]);
            }
        }
    }
}

/// Returns this machine's other loopback address.
fn other_loopback(host: IpAddr) -> Option<IpAddr> {
    match host {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => Some(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// Makes a source of random bytes, seeded by the system.
pub(super) fn system_random() -> std::io::Result<Random> {
    let mut random = StdRng::try_from_rng(&mut SysRng).map_err(std::io::Error::other)?;
    Ok(Box::new(move || {
        let mut bytes = [0; 16];
        random.fill_bytes(&mut bytes);
        bytes
    }))
}

/// Allows as many open connections as the system does at the most: each stream is one. Returns how many files it might have open before.
fn raise_open_files() -> OpenFiles {
    let mut limit = getrlimit(Resource::Nofile);
    let before = OpenFiles(limit.current);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
    before
}

/// Takes a port, or 0 for any that is free.
fn port(text: &str) -> Result<u16, String> {
    if text == "0" {
        return Ok(0);
    }
    super::port(text).map_err(|reason| format!("{reason}, or 0 for any that is free"))
}

/// Takes an IP address, or `localhost`.
pub(super) fn host(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse()
        .map_err(|_| "an address is an IP address, such as 127.0.0.1, or localhost".to_owned())
}

/// Takes roles, separated by commas.
pub(super) fn roster(text: &str) -> Result<Roster, InvalidRoster> {
    Roster::new(text.split(',').map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_tried_is_what_the_system_tells() {
        let told = ignores(Signal::HUP);
        assert!(told.is_some());
        assert_eq!(ignores_hang_up_when_tried(), told);
    }

    #[tokio::test]
    async fn a_machine_without_ipv6_has_a_relay_at_its_other_address() {
        let args = Serve {
            port: 0,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            token: None,
            roles: Roster::default(),
            project: OrNone(None),
            hops_max: 1,
            push_allow: Vec::new(),
        };
        for kind in [ErrorKind::AddrNotAvailable, ErrorKind::Unsupported] {
            let without_ipv6 = |address: SocketAddr| match address {
                SocketAddr::V4(_) => listen(address),
                SocketAddr::V6(_) => Err(kind.into()),
            };
            let listeners = listeners(&args, without_ipv6).await.expect("it listens");
            assert_eq!(listeners.len(), 1, "{kind}");
        }
    }

    #[tokio::test]
    async fn a_port_of_the_systems_choice_alone_is_chosen_again_where_the_other_address_has_it() {
        let serve = |port| Serve {
            port,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            token: None,
            roles: Roster::default(),
            project: OrNone(None),
            hops_max: 1,
            push_allow: Vec::new(),
        };
        let tried = &std::cell::Cell::new(0);
        let free_behind = move |times: u32| {
            tried.set(0);
            move |address: SocketAddr| match address {
                SocketAddr::V4(_) => listen(address),
                SocketAddr::V6(_) => {
                    tried.set(tried.get() + 1);
                    if tried.get() > times {
                        // Some machines have no IPv6.
                        return listen((Ipv4Addr::LOCALHOST, 0).into());
                    }
                    Err(ErrorKind::AddrInUse.into())
                }
            }
        };
        let found = listeners(&serve(0), free_behind(2)).await.expect("it listens");
        assert_eq!((found.len(), tried.get()), (2, 3));
        let port = found[0].local_addr().expect("it listens").port();
        drop(found);
        let refused = listeners(&serve(port), free_behind(1)).await;
        assert!(matches!(refused, Err(ServeError::PortInUse { .. })));
        let refused = listeners(&serve(0), free_behind(u32::MAX)).await;
        assert!(matches!(refused, Err(ServeError::PortInUse { .. })));
        assert_eq!(tried.get(), PORTS_TRIED_MAX + 1);
    }
}

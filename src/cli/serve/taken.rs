//! Who has a port that a relay is to listen on, and what ends that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use listeners::{Listener, Protocol, SocketState};

use super::super::client::{Client, ClientError};
use super::super::health::Health;
use super::super::ourselves;
use super::super::place::Place;
use super::{Serve, ServeError};

/// Who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A relay, and no other process here has to do with the port.
    RelayAlone,
    /// A relay, and processes of this machine are connected to it, or it cannot be told whether any is.
    RelayWithClients,
    /// A relay, and something else has the same port at another address, or for UDP.
    RelayAmongOthers,
    /// Something else.
    Stranger,
}

impl Holder {
    /// Says what ends a relay there and nothing else, in the source design's words as long as they do that: `lsof` lists both ends of a
    /// connection, and whatever else has the number of the port.
    pub fn hint(self, port: u16) -> String {
        let hint = |listens| {
            format!("relay already running? kill it with: kill $(lsof -ti:{port}{listens})\nport {port}: ")
        };
        match self {
            Self::RelayAlone => hint(""),
            Self::RelayWithClients => hint(" -sTCP:LISTEN"),
            Self::RelayAmongOthers | Self::Stranger => format!("relay serve: port {port} is taken: "),
        }
    }
}

/// Finds out who has the port at an address.
pub async fn taken(args: &Serve, address: SocketAddr) -> ServeError {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    let port = address.port();
    let place = Place::from(SocketAddr::new(host, port));
    let stop = place.stop_command(&ourselves());
    let (is_relay, found) = match Client::connect(&place, args.token.clone()).await {
        Ok(client) => {
            let Health {
                version, started_at, ..
            } = &client.health;
            let token = args.token.as_ref().map_or("", |_| " (with RELAY_TOKEN set to its token)");
            (true, format!("relay {version} answers there, started at {started_at}; choose another port with --port; this ends it alone{token}: {stop}"))
        }
        Err(ClientError::TokenWanted { .. } | ClientError::TokenRefused { .. }) => {
            (true, format!("a relay with another token answers there; choose another port with --port; this ends it alone: {stop} --token TOKEN"))
        }
        Err(
            ClientError::NotRunning { .. }
            | ClientError::NoneAtSocket { .. }
            | ClientError::Elsewhere { .. }
            | ClientError::NoPort { .. }
            | ClientError::Unknown(_)
            | ClientError::Unreachable { .. }
            | ClientError::NoRelay { .. }
            | ClientError::Refused { .. }
            | ClientError::NotNow { .. }
            | ClientError::WentAway { .. }
            | ClientError::NoAnswer { .. },
        ) => (false, "something has it that does not answer as a relay does, unless it is one that is stopped or busy; choose another port with --port".to_owned()),
    };
    let holder = match is_relay {
        false => Holder::Stranger,
        true => around(port),
    };
    ServeError::PortInUse { port, holder, found }
}

/// Finds out who else of this machine has to do with the port of a relay.
fn around(port: u16) -> Holder {
    let mut sockets = listeners::get_all().unwrap_or_default();
    sockets.retain(|socket| socket.socket.port() == port);
    let listens = |socket: &&Listener| socket.state == SocketState::Listen;
    let relay = sockets.iter().find(listens).map(|socket| socket.process.pid);
    let is_others =
        |socket: &&Listener| socket.protocol == Protocol::UDP || Some(socket.process.pid) != relay;
    let others: Vec<&Listener> = sockets.iter().filter(is_others).collect();
    let has_port = |socket: &&Listener| socket.protocol == Protocol::UDP || listens(socket);
    if others.iter().any(has_port) {
        return Holder::RelayAmongOthers;
    }
    if others.is_empty() && are_others_connected(port) == Some(false) {
        return Holder::RelayAlone;
    }
    Holder::RelayWithClients
}

/// Tells whether another process of this machine has a connection to a port, wherever that is; nothing where the system does not tell.
#[cfg(target_os = "linux")]
fn are_others_connected(port: u16) -> Option<bool> {
    use procfs::process::{FDTarget, Process};

    let own = Process::myself().and_then(|own| own.fd()).ok()?;
    let own: Vec<u64> = own
        .flatten()
        .filter_map(|open| {
            if let FDTarget::Socket(inode) = open.target {
                return Some(inode);
            }
            None
        })
        .collect();
    let (over_v4, over_v6) = (procfs::net::tcp().ok()?, procfs::net::tcp6().unwrap_or_default());
    // One that no process has any more has no inode.
    let is_others = |entry: &procfs::net::TcpNetEntry| {
        entry.remote_address.port() == port && entry.inode != 0 && !own.contains(&entry.inode)
    };
    Some(over_v4.iter().chain(&over_v6).any(is_others))
}

#[cfg(not(target_os = "linux"))]
fn are_others_connected(_port: u16) -> Option<bool> {
    None
}

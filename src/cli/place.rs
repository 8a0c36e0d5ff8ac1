//! Where a relay is, as requests, errors and command lines name it. It must not know whether one is there.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The port of a relay that was given no other.
pub const DEFAULT_PORT: u16 = 7331;

/// Where a relay is. It is shown as in a URL: `127.0.0.1:7331`, `[::1]:7331`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Place {
    /// The port of the relay, 1 to 65535.
    #[arg(long, env = "RELAY_PORT", default_value_t = DEFAULT_PORT, value_parser = super::port)]
    pub port: u16,

    /// The address or the name of the machine that the relay runs on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = host)]
    pub host: String,
}

/// Where a relay is, if that is said.
#[derive(Debug, Clone, clap::Args)]
pub struct MaybePlace {
    /// The port of the relay, 1 to 65535 [default: 7331, where no other relay is found].
    #[arg(long, env = "RELAY_PORT", value_parser = super::port)]
    port: Option<u16>,

    /// The address or the name of the machine that the relay runs on [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_parser = host)]
    host: Option<String>,
}

impl MaybePlace {
    /// What is named where these two are.
    pub fn of(port: Option<u16>, host: Option<String>) -> Self {
        Self { port, host }
    }

    /// Returns the place if a part of it is named.
    pub fn named(&self) -> Option<Place> {
        if self.port.is_none() && self.host.is_none() {
            return None;
        }
        let here = Place::default();
        Some(Place {
            port: self.port.unwrap_or(here.port),
            host: self.host.clone().unwrap_or(here.host),
        })
    }
}

impl Default for Place {
    /// The place of a relay that was given no other.
    fn default() -> Self {
        Self {
            port: DEFAULT_PORT,
            host: "127.0.0.1".to_owned(),
        }
    }
}

impl Place {
    /// Writes the command that starts a relay at this place; the token not.
    pub fn serve_command(&self, program: &str) -> String {
        let command = self.with_host(format!("{program} serve"));
        if self.port == DEFAULT_PORT {
            return command;
        }
        format!("{command} --port {}", self.port)
    }

    /// Writes the command that ends the relay at this place; the token not. It names the port, whichever it is: without one, a relay
    /// is looked for, and another might be found.
    pub fn stop_command(&self, program: &str) -> String {
        let command = self.with_host(format!("{program} stop"));
        format!("{command} --port {}", self.port)
    }

    fn with_host(&self, command: String) -> String {
        if self.host == "127.0.0.1" || self.host == "localhost" {
            return command;
        }
        format!("{command} --host {}", self.host)
    }

    /// Tells whether the place is this machine, by an address that only it has.
    pub fn is_this_machine(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self {
            port: address.port(),
            host: address.ip().to_string(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => SocketAddr::from((address, self.port)).fmt(f),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// What names a machine.
pub const HOSTS: &str = "an IP address, such as 127.0.0.1, or the name of a machine";

/// Takes an address or the name of a machine.
pub fn host(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let text = bare.unwrap_or(text);
    let is_name = |text: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        !text.is_empty() && !text.starts_with('-') && text.bytes().all(good)
    };
    if text.parse::<IpAddr>().is_ok() || is_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!("a host is {HOSTS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_as_in_a_url_and_by_the_options_that_lead_there() {
        for (host, port, shown, serve, stop) in [
            ("127.0.0.1", 7331, "127.0.0.1:7331", "", " --port 7331"),
            ("localhost", 7331, "localhost:7331", "", " --port 7331"),
            ("127.0.0.1", 9, "127.0.0.1:9", " --port 9", " --port 9"),
            (
                "::1",
                7331,
                "[::1]:7331",
                " --host ::1",
                " --host ::1 --port 7331",
            ),
            (
                "box.lan",
                9,
                "box.lan:9",
                " --host box.lan --port 9",
                " --host box.lan --port 9",
            ),
        ] {
            let place = Place {
                port,
                host: host.to_owned(),
            };
            assert_eq!(place.to_string(), shown);
            assert_eq!(place.serve_command("relay"), format!("relay serve{serve}"));
            assert_eq!(place.stop_command("relay"), format!("relay stop{stop}"));
        }
    }

    #[test]
    fn an_address_that_only_this_machine_has_is_this_machine() {
        for (address, expected) in [
            ("127.0.0.2:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("192.0.2.1:1", false),
        ] {
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(Place::from(address).is_this_machine(), expected, "{address}");
        }
    }

    #[test]
    fn a_host_is_an_address_or_the_name_of_a_machine() {
        for (text, taken) in [
            ("127.0.0.1", Some("127.0.0.1")),
            ("::1", Some("::1")),
            ("[::1]", Some("::1")),
            ("box.lan", Some("box.lan")),
            ("my_box-2", Some("my_box-2")),
            ("", None),
            ("[]", None),
            ("[::1", None),
            ("-x", None),
            ("a b", None),
            ("a/b", None),
            ("a:9", None),
        ] {
            assert_eq!(host(text).ok().as_deref(), taken, "{text:?}");
        }
    }
}

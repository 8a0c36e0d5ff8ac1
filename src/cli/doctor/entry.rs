//! Where an entry for relay among the servers of an editor leads, and whether a relay answers there. It must not know whose file it is in.

use std::path::PathBuf;

use serde::Serialize;

use super::Seen;
use crate::cli::client::{ClientError, health_of};
use crate::cli::discover::{Found, Way, discover_here};
use crate::cli::install::json::Json;
use crate::cli::place::{DEFAULT_PORT, Place};
use crate::server::Token;

/// An entry for relay among the servers of an editor.
#[derive(Debug, Serialize)]
pub struct Configured {
    /// Where it stands.
    pub file: PathBuf,
    /// The address, or the command.
    pub leads_to: String,
    /// The relay's version, if it answers there.
    pub reachable: Option<String>,
    /// Why not.
    pub error: Option<String>,
    /// The port to which it leads, if it leads to one.
    #[serde(skip)]
    pub port: Option<u16>,
}

/// Asks the relay to which an entry leads.
pub async fn configured(seen: &Seen, server: &Json, token: Option<&Token>) -> Configured {
    let file = seen.target.path.clone();
    let (leads_to, place) = way(server);
    let answer = match &place {
        Ok(place) => ask(place.clone(), token).await,
        Err(reason) => Err(reason.clone()),
    };
    let (reachable, error) = match answer {
        Ok(version) => (Some(version), None),
        Err(error) => (None, Some(error)),
    };
    let port = place
        .ok()
        .map(|place| place.map_or(DEFAULT_PORT, |place| place.port));
    Configured {
        file,
        leads_to,
        reachable,
        error,
        port,
    }
}

/// Returns where an entry leads, in words and as a place; none is for the bridge to find.
fn way(server: &Json) -> (String, Result<Option<Place>, String>) {
    let address = ["url", "httpUrl", "serverUrl"]
        .iter()
        .find_map(|key| server.get(key)?.as_text());
    if let Some(address) = address {
        let place = place(address).map(Some);
        let place =
            place.ok_or_else(|| "its address is none; accepted: http://HOST:PORT/sse or /mcp".to_owned());
        return (address.to_owned(), place);
    }
    let program = server.get("command");
    let words = |value: Option<&Json>| -> Vec<String> {
        let texts = value.and_then(Json::as_list).unwrap_or_default().iter();
        texts
            .filter_map(|word| word.as_text().map(str::to_owned))
            .collect()
    };
    let mut command: Vec<String> = program
        .and_then(Json::as_text)
        .map(str::to_owned)
        .into_iter()
        .collect();
    command.extend(words(program));
    command.extend(words(server.get("args")));
    if command.is_empty() {
        return (
            String::new(),
            Err("it names neither an address nor a command".to_owned()),
        );
    }
    let named = command.iter().skip_while(|word| *word != "--port").nth(1);
    let place = match named.map(|port| port.parse()) {
        None => Ok(None),
        Some(Ok(port)) => Ok(Some(Place {
            port,
            ..Place::default()
        })),
        Some(Err(_)) => Err("its --port is none; accepted: a number from 1 to 65535".to_owned()),
    };
    (command.join(" "), place)
}

/// Reads the host and the port of an address, whatever variables are in its query.
fn place(address: &str) -> Option<Place> {
    let address = address.split('?').next().unwrap_or_default();
    let uri: hyper::Uri = address.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(80);
    (uri.scheme_str() == Some("http")).then_some(Place { port, host })
}

/// Asks a relay for its version.
async fn ask(place: Option<Place>, token: Option<&Token>) -> Result<String, String> {
    let found = match place {
        Some(place) => Found::at(place),
        None => discover_here(None).map_err(|error| error.to_string())?,
    };
    // Where a file of the project leads is not where the person's secret is to go.
    let is_here = match &found.way {
        Way::Tcp(place) => place.is_this_machine(),
        Way::Unix(_) => true,
    };
    let health = health_of(&found, token.filter(|_| is_here).cloned()).await;
    let health = health.map(|(health, _)| health.version);
    health.map_err(|error: ClientError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_leads_to_a_place_or_lets_the_bridge_find_one() {
        let at = |host: &str, port| {
            Ok(Some(Place {
                port,
                host: host.to_owned(),
            }))
        };
        let text = |text: &str| Json::text(text);
        let list = |words: &[&str]| Json::List(words.iter().map(|word| text(word)).collect());
        for (entry, leads_to, place) in [
            (
                Json::object([("url", text("http://localhost:4000/sse?agent=${RELAY_AGENT:-}"))]),
                "http://localhost:4000/sse?agent=${RELAY_AGENT:-}",
                at("localhost", 4000),
            ),
            (
                Json::object([("httpUrl", text("http://[::1]:9/mcp"))]),
                "http://[::1]:9/mcp",
                at("::1", 9),
            ),
            (
                Json::object([("serverUrl", text("http://box/mcp"))]),
                "http://box/mcp",
                at("box", 80),
            ),
            (
                Json::object([
                    ("command", text("relay")),
                    ("args", list(&["mcp", "--port", "4000"])),
                ]),
                "relay mcp --port 4000",
                at("127.0.0.1", 4000),
            ),
            (
                Json::object([("command", list(&["relay", "mcp"]))]),
                "relay mcp",
                Ok(None),
            ),
            (
                Json::object([("url", text("localhost"))]),
                "localhost",
                Err("its address is none; accepted: http://HOST:PORT/sse or /mcp".to_owned()),
            ),
            (
                Json::object([]),
                "",
                Err("it names neither an address nor a command".to_owned()),
            ),
        ] {
            assert_eq!(way(&entry), (leads_to.to_owned(), place));
        }
    }
}

//! Where an entry for relay among the servers of an editor leads, and whether a relay answers there. It must not know which files an editor has.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::client::{ClientError, health_of};
use crate::cli::discover::{Found, Way, discover_with};
use crate::cli::install::editors::Id;
use crate::cli::install::json::Json;
use crate::cli::install::members::{self, address, command};
use crate::cli::install::said::{is_relays, is_relays_anywhere};
use crate::cli::or_none::OrNone;
use crate::cli::place::{self, HOSTS, MaybePlace, Place};
use crate::cli::project::Project;
use crate::engine::InvalidName;
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
    /// What was not tried, where a relay answers there and does not tell its version.
    pub untried: Option<String>,
    /// The port to which it leads, if it leads to one.
    #[serde(skip)]
    pub port: Option<u16>,
    /// Whose place that is.
    #[serde(skip)]
    pub stands: Stands,
    /// To what it leads.
    #[serde(skip)]
    pub leads: Leads,
    /// The relay wants a token, and the entry sends none, or another one that is written there.
    #[serde(skip)]
    pub lacks_token: bool,
}

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// Where install writes for a project.
    InProject,
    /// Where it writes for all projects.
    ForAll,
    /// Where it writes nothing, maybe in a file into which it writes elsewhere.
    Beside,
}

/// To what an entry leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    /// To a relay on this machine, or nowhere yet: an installation may write it anew.
    Here,
    /// To a relay on another machine, to which no installation leads.
    Elsewhere,
    /// To what may be another program, in the place of which an installation would put relay.
    ToOther,
    /// To another program, which it starts.
    StartsOther,
}

/// The token that an entry sends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    None,
    /// The one in the environment of its program.
    Variable,
    /// This one, which is written there.
    Written(String),
}

/// What comes of asking where an entry leads.
enum Answer {
    /// A relay has told its version.
    Version(String),
    /// A relay wants a token, and the entry's is not sent there.
    Untried(String),
    /// As the entry asks, a relay lets nobody in.
    LacksToken(String),
    /// A relay lets nobody in that asks as doctor did.
    Refused(String),
    /// No relay has told that it is there.
    None(String),
}

impl Configured {
    /// Tells whether it leads to a relay, as far as is known.
    pub fn leads_to_relay(&self) -> bool {
        match self.leads {
            Leads::Here | Leads::Elsewhere => true,
            Leads::ToOther | Leads::StartsOther => false,
        }
    }
}

/// Asks the relay to which an entry leads, as that would.
pub async fn configured(
    file: &Path,
    stands: Stands,
    server: &Json,
    editor: Id,
    token: Option<&Token>,
) -> Configured {
    let (leads_to, place) = self::way(server, editor);
    let way = members::Way::of(server, editor);
    let starts_other = way == Some(members::Way::Command) && !is_relays(server, editor);
    let place = if starts_other {
        Err("it starts another program than relay mcp".to_owned())
    } else {
        place
    };
    let answer = match &place {
        Ok(place) => ask(place.clone(), server, editor, token).await,
        Err(reason) => Answer::None(reason.clone()),
    };
    let lacks_token = matches!(answer, Answer::LacksToken(_));
    let has_answered = !matches!(answer, Answer::None(_));
    let (reachable, untried, error) = match answer {
        Answer::Version(version) => (Some(version), None, None),
        Answer::Untried(untried) => (None, Some(untried), None),
        Answer::LacksToken(error) | Answer::Refused(error) | Answer::None(error) => (None, None, Some(error)),
    };
    let leads = match way {
        None => Leads::Here,
        Some(_) if starts_other => Leads::StartsOther,
        Some(_) if !has_answered && !is_relays_anywhere(server, editor) => Leads::ToOther,
        Some(_) if is_here(server, editor) => Leads::Here,
        Some(_) => Leads::Elsewhere,
    };
    let place = place.ok().map(Option::unwrap_or_default);
    let port = place.filter(Place::is_this_machine).map(|place| place.port);
    Configured {
        file: file.to_owned(),
        leads_to,
        reachable,
        error,
        untried,
        port,
        stands,
        leads,
        lacks_token,
    }
}

/// Returns where an entry leads, in words and as a place; none is for the bridge to find.
fn way(server: &Json, editor: Id) -> (String, Result<Option<Place>, String>) {
    if let Some(address) = leading_address(server, editor) {
        let place = place(address).map(Some);
        let place =
            place.ok_or_else(|| "its address is none; accepted: http://HOST:PORT/sse or /mcp".to_owned());
        return (address.to_owned(), place);
    }
    let command = command(server);
    if command.is_empty() {
        return (
            String::new(),
            Err("it names neither an address nor a command".to_owned()),
        );
    }
    let by_option = option(&command, "--port").map(|port| ("--port", port));
    let by_variable = || Some(("RELAY_PORT", variable(server, "RELAY_PORT")?));
    let port = by_option.or_else(|| by_variable().filter(|(_, port)| !port.is_empty()));
    let port = port.map(|(name, port)| {
        let none = || format!("its {name} is none; accepted: a number from 1 to 65535");
        crate::cli::port(port).map_err(|_| none())
    });
    let host = option(&command, "--host").map(|host| {
        let none = || format!("its --host is none; accepted: {HOSTS}");
        place::host(host).map_err(|_| none())
    });
    let place = port.transpose().and_then(|port| {
        let named = MaybePlace::of(port, host.transpose()?).named();
        Ok(named)
    });
    (command.join(" "), place)
}

/// Tells whether an entry that leads to a relay leads to this machine.
fn is_here(server: &Json, editor: Id) -> bool {
    let is_this_machine = |host: String| {
        let place = Place {
            host,
            ..Place::default()
        };
        place.is_this_machine()
    };
    let Some(address) = leading_address(server, editor) else {
        let command = command(server);
        return option(&command, "--host").is_none_or(|host| is_this_machine(host.to_owned()));
    };
    // One with a variable as its port is no address yet.
    is_relays(server, editor) || place(address).is_some_and(|place| is_this_machine(place.host))
}

/// Returns the address of an entry, unless that reaches its server by a program.
fn leading_address(server: &Json, editor: Id) -> Option<&str> {
    let is_address = members::Way::of(server, editor) == Some(members::Way::Address);
    address(server).filter(|_| is_address)
}

/// Returns the project that the bridge of an entry is told.
fn project(server: &Json, editor: Id) -> Result<Option<Project>, InvalidName> {
    if leading_address(server, editor).is_some() {
        return Ok(None);
    }
    let command = command(server);
    let said = option(&command, "--project").map(str::parse::<OrNone<Project>>);
    Ok(said.transpose()?.and_then(|project| project.0))
}

/// Returns what stands behind an option: `--name VALUE` or `--name=VALUE`.
fn option<'a>(command: &'a [String], name: &str) -> Option<&'a str> {
    let mut words = command.iter().map(String::as_str);
    words
        .by_ref()
        .find_map(|word| match word.strip_prefix(name)? {
            "" => Some(None),
            rest => rest.strip_prefix('=').map(Some),
        })?
        .or_else(|| words.next())
}

/// Returns what an entry gives its program as a variable, unless that is for the editor to fill in.
fn variable<'a>(server: &'a Json, name: &str) -> Option<&'a str> {
    let mut variables = ["env", "environment"].iter().filter_map(|key| server.get(key));
    let said = variables.find_map(|variables| variables.get(name))?.as_text()?;
    (!said.contains(['$', '{'])).then_some(said)
}

/// Reads the host and the port of an address, whatever variables are in its query.
fn place(address: &str) -> Option<Place> {
    let address = address.split('?').next().unwrap_or_default();
    let uri: hyper::Uri = address.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(80);
    (uri.scheme_str() == Some("http")).then_some(Place { port, host })
}

/// Returns which token an entry sends.
fn sent(server: &Json, editor: Id) -> Sent {
    let is_remote = leading_address(server, editor).is_some();
    let names_variable = |key: &str| server.get(key).is_some();
    // The bridge takes it from its environment.
    if !is_remote || names_variable("bearer_token_env_var") {
        return Sent::Variable;
    }
    let header = |headers: &str| match server.get(headers)? {
        Json::Object(members) => {
            let mut named = members
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
            named.next()?.1.as_text().map(str::to_owned)
        }
        Json::Plain(_) | Json::Text(_) | Json::List(_) => None,
    };
    if header("env_http_headers").is_some() {
        return Sent::Variable;
    }
    match header("headers").or_else(|| header("http_headers")) {
        None => Sent::None,
        Some(value) if value.contains(['$', '{']) => Sent::Variable,
        Some(value) => Sent::Written(value.strip_prefix("Bearer ").unwrap_or(&value).to_owned()),
    }
}

/// Asks the relay that an entry means for its version, with the token that it sends; `token` is the one that its program would find in its environment.
async fn ask(place: Option<Place>, server: &Json, editor: Id, token: Option<&Token>) -> Answer {
    let found = match found(place, server, editor) {
        Ok(found) => found,
        Err(reason) => return Answer::None(reason),
    };
    let sent = sent(server, editor);
    let token = match &sent {
        Sent::None => None,
        Sent::Variable => token.cloned(),
        Sent::Written(written) => written.parse().ok(),
    };
    // Where a file of the project leads is not where the person's secret is to go.
    let is_here = match &found.way {
        Way::Tcp(place) => place.is_this_machine(),
        Way::Unix(_) => true,
    };
    let health = health_of(&found, token.filter(|_| is_here)).await;
    let error = match health {
        Ok((health, _)) => return Answer::Version(health.version),
        Err(error) => error,
    };
    match (&error, sent) {
        (ClientError::TokenWanted { place }, Sent::None) => {
            let reason = format!("relay on {place} wants its token, and this entry sends none");
            if is_here {
                Answer::LacksToken(reason)
            } else {
                // An installation would lead the entry to this machine.
                Answer::Refused(format!("{reason}; give it the header Authorization yourself"))
            }
        }
        (ClientError::TokenWanted { .. }, sent) if !is_here => {
            let has = if sent == Sent::Variable {
                "which this entry takes from a variable"
            } else {
                "and this entry has one"
            };
            Answer::Untried(format!(
                "it wants its token, {has}; that was not tried, as a token is sent to this machine only"
            ))
        }
        (ClientError::TokenWanted { place } | ClientError::TokenRefused { place }, Sent::Written(_)) => {
            Answer::LacksToken(format!(
                "relay on {place} has another token than the one in this entry"
            ))
        }
        (ClientError::TokenWanted { .. } | ClientError::TokenRefused { .. }, _) => {
            Answer::Refused(error.to_string())
        }
        (error, _) => Answer::None(error.to_string()),
    }
}

/// Finds the relay that an entry means: at its place, or as its bridge would.
fn found(place: Option<Place>, server: &Json, editor: Id) -> Result<Found, String> {
    // With a project that is none the bridge does not start.
    let project = project(server, editor).map_err(|error| error.to_string())?;
    let Some(place) = place else {
        let given = |name: &str| variable(server, name).map(OsString::from);
        let variable = |name: &str| given(name).or_else(|| std::env::var_os(name));
        return discover_with(project.as_ref(), &variable).map_err(|error| error.to_string());
    };
    Ok(Found::at(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_sends_the_token_that_it_names_or_that_is_written_there() {
        let text = |text: &str| Json::text(text);
        let url = ("url", text("http://localhost:7331/mcp"));
        let headers = |name: &str, value: &str| Json::object([(name, text(value))]);
        for (entry, expected) in [
            (Json::object([url.clone()]), Sent::None),
            (Json::object([("command", text("relay"))]), Sent::Variable),
            (
                Json::object([url.clone(), ("bearer_token_env_var", text("RELAY_TOKEN"))]),
                Sent::Variable,
            ),
            (
                Json::object([
                    url.clone(),
                    ("headers", headers("authorization", "Bearer ${RELAY_TOKEN:-}")),
                ]),
                Sent::Variable,
            ),
            (
                Json::object([
                    url.clone(),
                    ("headers", headers("Authorization", "Bearer {env:RELAY_TOKEN}")),
                ]),
                Sent::Variable,
            ),
            (
                Json::object([
                    url.clone(),
                    ("env_http_headers", headers("Authorization", "BEARER")),
                ]),
                Sent::Variable,
            ),
            (
                Json::object([
                    url.clone(),
                    ("http_headers", headers("Authorization", "Bearer x")),
                ]),
                Sent::Written("x".to_owned()),
            ),
            (
                Json::object([url.clone(), ("headers", headers("X-Mine", "Bearer x"))]),
                Sent::None,
            ),
            // The address is not where it leads.
            (
                Json::object([
                    url.clone(),
                    ("type", text("stdio")),
                    ("command", text("relay")),
                    ("headers", headers("Authorization", "Bearer x")),
                ]),
                Sent::Variable,
            ),
        ] {
            assert_eq!(sent(&entry, Id::Claude), expected, "{entry:?}");
        }
        let of_both = Json::object([url, ("command", text("relay"))]);
        for (editor, expected) in [(Id::Cursor, Sent::Variable), (Id::Gemini, Sent::None)] {
            assert_eq!(sent(&of_both, editor), expected, "{editor:?}");
        }
    }

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
        let variables = |port: &str| Json::object([("RELAY_PORT", text(port))]);
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
                Json::object([
                    ("command", text("relay")),
                    ("args", list(&["mcp", "--host", "192.0.2.7", "--port", "4000"])),
                ]),
                "relay mcp --host 192.0.2.7 --port 4000",
                at("192.0.2.7", 4000),
            ),
            (
                Json::object([("command", list(&["relay", "mcp", "--host=localhost"]))]),
                "relay mcp --host=localhost",
                at("localhost", 7331),
            ),
            (
                Json::object([("command", list(&["relay", "mcp", "--host=a b"]))]),
                "relay mcp --host=a b",
                Err("its --host is none; accepted: an IP address, such as 127.0.0.1, or the name of a machine".to_owned()),
            ),
            (
                Json::object([
                    ("command", text("relay")),
                    ("args", list(&["mcp", "--port=4000"])),
                    ("env", variables("4001")),
                ]),
                "relay mcp --port=4000",
                at("127.0.0.1", 4000),
            ),
            (
                Json::object([("command", list(&["relay", "mcp"])), ("env", variables("4001"))]),
                "relay mcp",
                at("127.0.0.1", 4001),
            ),
            (
                Json::object([
                    ("command", list(&["relay", "mcp", "--port", "no"])),
                    ("env", variables("4001")),
                ]),
                "relay mcp --port no",
                Err("its --port is none; accepted: a number from 1 to 65535".to_owned()),
            ),
            (
                Json::object([("command", list(&["relay", "mcp"])), ("env", variables("no"))]),
                "relay mcp",
                Err("its RELAY_PORT is none; accepted: a number from 1 to 65535".to_owned()),
            ),
            (
                Json::object([
                    ("command", list(&["relay", "mcp"])),
                    ("environment", variables("4001")),
                ]),
                "relay mcp",
                at("127.0.0.1", 4001),
            ),
            (
                Json::object([
                    ("command", list(&["relay", "mcp"])),
                    ("environment", variables("${PORT}")),
                ]),
                "relay mcp",
                Ok(None),
            ),
            (
                Json::object([("command", list(&["relay", "mcp"])), ("env", variables(""))]),
                "relay mcp",
                Ok(None),
            ),
            (
                Json::object([("command", list(&["relay", "mcp", "--ports=4000"]))]),
                "relay mcp --ports=4000",
                Ok(None),
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
            assert_eq!(way(&entry, Id::Claude), (leads_to.to_owned(), place));
        }
    }

    #[test]
    fn what_an_editor_is_to_fill_in_says_nothing_and_https_is_no_way_to_a_relay() {
        let text = |text: &str| Json::text(text);
        for filled in ["$RELAY_PORT", "{env:RELAY_PORT}"] {
            let entry = Json::object([
                ("command", Json::List(vec![text("relay"), text("mcp")])),
                ("environment", Json::object([("RELAY_PORT", text(filled))])),
            ]);
            assert_eq!(way(&entry, Id::Opencode).1, Ok(None), "{filled}");
        }
        for filled in ["Bearer $RELAY_TOKEN", "Bearer {env:RELAY_TOKEN}"] {
            let entry = Json::object([
                ("url", text("http://localhost:7331/mcp")),
                ("headers", Json::object([("Authorization", text(filled))])),
            ]);
            assert_eq!(sent(&entry, Id::Claude), Sent::Variable, "{filled}");
        }
        let secure = Json::object([("url", text("https://localhost:7331/mcp"))]);
        assert!(way(&secure, Id::Claude).1.is_err());
    }
}

//! What an entry of relay's says of how relay is reached, and for whom: an installation that is asked for nothing else keeps that.

use super::command::is_relay;
use super::editors::{Connection, Transport};
use super::json::Json;
use crate::tools::Toolsets;

/// The names of this machine in an address.
const HERE: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// What an entry says. The host and the port are not in it: those are of the relay to which it is to lead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// How; nothing if it is not as relay is reached.
    pub transport: Option<Transport>,
    /// The toolsets.
    tools: Option<String>,
    /// Whose sessions these are, as it is written there.
    agent: Option<String>,
    /// The same, as its program is told by a variable.
    agent_in_environment: Option<String>,
    /// What else stands in the query of its address, or behind its command.
    others: Vec<String>,
}

impl Said {
    /// Reads it; nothing is in it if the entry is not one that leads to a relay on this machine.
    pub fn of(entry: &Json) -> Self {
        let address = ["url", "httpUrl", "serverUrl"]
            .iter()
            .find_map(|key| entry.get(key)?.as_text());
        let said = match address {
            Some(address) => Self::of_address(address),
            None => Self::of_command(entry),
        };
        said.unwrap_or_default()
    }

    fn of_address(address: &str) -> Option<Self> {
        let (way, query) = address.split_once('?').unwrap_or((address, ""));
        let (host, way) = way.strip_prefix("http://")?.split_once('/')?;
        let host = host.rsplit_once(':').map_or(host, |(host, _port)| host);
        if !HERE.contains(&host) {
            return None;
        }
        let transport = match way {
            "sse" => Transport::Sse,
            "mcp" => Transport::Http,
            _ => return None,
        };
        let mut said = Self {
            transport: Some(transport),
            ..Self::default()
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("tools", _)) => {
                    let tools = form_urlencoded::parse(part.as_bytes()).next();
                    said.tools = tools.and_then(|(_, tools)| toolsets(&tools));
                }
                Some(("agent", agent)) => {
                    said.agent = Some(agent.to_owned()).filter(|agent| !agent.is_empty())
                }
                Some(_) | None => said.others.push(part.to_owned()),
            }
        }
        Some(said)
    }

    fn of_command(entry: &Json) -> Option<Self> {
        let command = entry.get("command")?;
        let program = command.as_text();
        let listed = [Some(command), entry.get("args")].into_iter().flatten();
        let listed = listed.flat_map(|words| words.as_list().unwrap_or_default());
        let mut words = program.into_iter().chain(listed.filter_map(Json::as_text));
        if !is_relay(words.next()?) || words.next()? != "mcp" {
            return None;
        }
        let variables = ["env", "environment"].iter().filter_map(|key| entry.get(key));
        let agents = variables.filter_map(|variables| variables.get("RELAY_AGENT")?.as_text());
        let mut said = Self {
            transport: Some(Transport::Stdio),
            agent_in_environment: agents.map(str::to_owned).find(|agent| !agent.is_empty()),
            ..Self::default()
        };
        while let Some(word) = words.next() {
            let (option, joined) = word.split_once('=').unwrap_or((word, ""));
            let mut value = || {
                if joined.is_empty() {
                    words.next()
                } else {
                    Some(joined)
                }
            };
            match option {
                "--port" | "--host" => drop(value()),
                "--tools" => said.tools = value().and_then(toolsets),
                "--agent" | "--agent-id" => said.agent = value().map(str::to_owned),
                _ => said.others.push(word.to_owned()),
            }
        }
        Some(said)
    }

    /// Adds to a connection what nothing else is asked for.
    pub fn keep(self, connection: &mut Connection) {
        let over_stdio = |transport| transport == Transport::Stdio;
        let same_kind = self.transport.map(over_stdio) == Some(over_stdio(connection.transport));
        connection.tools = connection.tools.take().or(self.tools);
        if same_kind {
            // The environment stays where it is.
            connection.agent = self.agent;
            connection.others = self.others;
            return;
        }
        // How a variable is written in an address is not how it is written elsewhere.
        let is_name =
            |agent: &String| !agent.contains(|c: char| !c.is_ascii_graphic() || "${}&#+%?\"".contains(c));
        connection.agent = self.agent.or(self.agent_in_environment).filter(is_name);
    }
}

/// Takes the names of toolsets, if they are some.
fn toolsets(names: &str) -> Option<String> {
    names.parse::<Toolsets>().is_ok().then(|| names.to_owned())
}

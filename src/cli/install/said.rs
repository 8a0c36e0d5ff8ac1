//! What an entry of relay's says of how relay is reached, and for whom: an installation that is asked for nothing else keeps that.

use super::command::is_relay;
use super::editors::{Connection, Id, Transport};
use super::json::Json;
use super::members::{self, Way, address};
use crate::cli::place::DEFAULT_PORT;
use crate::tools::Toolsets;

/// The names of this machine in an address.
const HERE: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The package by which npx and others start relay.
const PACKAGE: &str = "relay-bus";

/// What such a program is told by everybody: the newest of the package, without asking.
const PLAIN: [&str; 3] = [PACKAGE, "-y", "--yes"];

/// The variable that names the agent.
const AGENT: &str = "RELAY_AGENT";

/// The variable that names the port.
const PORT: &str = "RELAY_PORT";

/// Tells whether relay may have written an entry of an editor, whatever was added to it since: it leads to this machine by one of relay's own paths, at
/// relay's own port or with an agent in its query, or starts `relay mcp`. An entry of relay's name that does neither is another program's:
/// many listen on this machine, and most of them at `/mcp`.
pub fn is_relays(entry: &Json, editor: Id) -> bool {
    Said::of(entry, editor).transport.is_some()
}

/// Tells whether an entry leads to a relay, be it on another machine: as [`is_relays`], or by an address with an agent in its query.
pub fn is_relays_anywhere(entry: &Json, editor: Id) -> bool {
    let names_agent = || {
        address(entry)
            .and_then(Address::of)
            .is_some_and(|address| address.names_agent())
    };
    is_relays(entry, editor) || Said::anywhere(entry, editor).transport.is_some() && names_agent()
}

/// The parts of an address.
struct Address<'a> {
    scheme: &'a str,
    /// With its port.
    host: &'a str,
    path: &'a str,
    query: &'a str,
}

impl<'a> Address<'a> {
    fn of(address: &'a str) -> Option<Self> {
        let (scheme, rest) = address.split_once("://")?;
        let (way, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = way.split_once('/')?;
        Some(Self {
            scheme,
            host,
            path: path.strip_suffix('/').unwrap_or(path),
            query,
        })
    }

    fn names_agent(&self) -> bool {
        self.query.split('&').any(|part| part.starts_with("agent="))
    }
}

/// What an entry says. Its host and its port are of the relay to which it has led.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// How; nothing if it is not as relay is reached.
    pub transport: Option<Transport>,
    /// The toolsets.
    pub tools: Option<String>,
    /// Whose sessions these are, as it is written there.
    agent: Option<String>,
    /// The same, as its program is told by a variable: by which member of the entry, and how.
    agents_in_environment: Vec<(&'static str, String)>,
    /// What else stands in the query of its address, or behind its command.
    others: Vec<String>,
    /// What no installation keeps: toolsets that are none, what is said once more later, and what a runner of packages is told.
    dropped: Vec<String>,
    /// The port, where it is a number.
    pub port: Option<u16>,
    /// The host that its program is told.
    host: Option<String>,
}

impl Said {
    /// Reads it as an editor does; nothing is in it if the entry is not one that leads to a relay on this machine.
    pub fn of(entry: &Json, editor: Id) -> Self {
        let said = match Way::of(entry, editor) {
            Some(Way::Command) => Self::of_command(entry),
            Some(Way::Address) => address(entry).and_then(Address::of).and_then(Self::of_address),
            None => None,
        };
        said.unwrap_or_default()
    }

    /// Reads it, be it one that leads to another machine, or to another program that has one of relay's paths.
    pub fn anywhere(entry: &Json, editor: Id) -> Self {
        let said = Self::of(entry, editor);
        if said.transport.is_some() || Way::of(entry, editor) != Some(Way::Address) {
            return said;
        }
        let address = address(entry).and_then(Address::of);
        let address = address.filter(|address| ["http", "https"].contains(&address.scheme));
        let said = address.and_then(|address| Self::of_path(&address, None));
        said.unwrap_or_default()
    }

    fn of_address(address: Address<'_>) -> Option<Self> {
        // A port may be a variable with a value for where it is not set, in which there are colons, too.
        let port = HERE.iter().find_map(|here| address.host.strip_prefix(here))?;
        if address.scheme != "http" || !port.is_empty() && !port.starts_with(':') {
            return None;
        }
        // What looks like a host and its port is the name of a user of another host.
        if port.contains(['@', '\\']) {
            return None;
        }
        let port_of_relay = port.strip_prefix(':').unwrap_or_default();
        let port = port_of_relay.parse().ok();
        if port != Some(DEFAULT_PORT) && !address.names_agent() && !port_of_relay.contains(PORT) {
            return None;
        }
        Self::of_path(&address, port)
    }

    fn of_path(address: &Address<'_>, port: Option<u16>) -> Option<Self> {
        let transport = match address.path {
            "sse" => Transport::Sse,
            "mcp" => Transport::Http,
            _ => return None,
        };
        let mut said = Self {
            transport: Some(transport),
            port,
            ..Self::default()
        };
        for part in address.query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("tools", _)) => {
                    let tools = form_urlencoded::parse(part.as_bytes()).next();
                    let tools = tools.map(|(_, tools)| tools.into_owned());
                    said.say_tools(tools, &format!("?{part}"), "?tools=");
                }
                Some(("agent", agent)) => said.say_agent(Some(agent), "?agent="),
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
        let mut runner = Vec::new();
        if !is_relay(words.next()?) {
            // A runner of packages is given its own options before the package.
            let is_package = |word: &&str| word.split('@').next() == Some(PACKAGE);
            while runner.last().is_none_or(|word| !is_package(word)) {
                runner.push(words.next()?);
            }
        }
        if words.next()? != "mcp" {
            return None;
        }
        runner.retain(|word| !PLAIN.contains(word));
        let agents = ["env", "environment"].into_iter().filter_map(|key| {
            let agent = entry.get(key)?.get(AGENT)?.as_text()?;
            (!agent.is_empty()).then(|| (key, agent.to_owned()))
        });
        let mut said = Self {
            transport: Some(Transport::Stdio),
            agents_in_environment: agents.collect(),
            dropped: (!runner.is_empty())
                .then(|| runner.join(" "))
                .into_iter()
                .collect(),
            ..Self::default()
        };
        while let Some(word) = words.next() {
            let (option, joined) = word
                .split_once('=')
                .map_or((word, None), |(option, value)| (option, Some(value)));
            let mut value = || joined.or_else(|| words.next());
            match option {
                "--port" => said.port = value().and_then(|port| port.parse().ok()),
                "--host" => {
                    let before = said.host.take();
                    said.host = value().map(str::to_owned);
                    said.drop(before, said.host.clone(), "--host ");
                }
                "--tools" => {
                    let tools = value().map(str::to_owned);
                    let written = format!("--tools {}", tools.as_deref().unwrap_or_default());
                    said.say_tools(tools, &written, "--tools ");
                }
                "--agent" | "--agent-id" => said.say_agent(value(), "--agent "),
                _ => said.others.push(word.to_owned()),
            }
        }
        Some(said)
    }

    /// Returns the toolsets that its sessions have.
    pub fn toolsets(&self) -> Toolsets {
        let named = self.tools.as_ref().and_then(|tools| tools.parse().ok());
        named.unwrap_or_default()
    }

    /// Tells whether its bridge does not start without a name, and it says none.
    pub fn needs_name(&self) -> bool {
        let is_named = self.agent.is_some() || !self.agents_in_environment.is_empty();
        self.transport == Some(Transport::Stdio) && self.toolsets().need_agent() && !is_named
    }

    /// Takes the toolsets, which count more than those before them.
    fn say_tools(&mut self, tools: Option<String>, written: &str, option: &str) {
        let before = self.tools.take();
        let tools = tools.filter(|tools| !tools.is_empty());
        self.tools = tools.as_deref().and_then(toolsets);
        if self.tools.is_none() && tools.is_some() {
            self.dropped.push(written.to_owned());
        }
        self.drop(before, self.tools.clone(), option);
    }

    /// Takes the agent, which counts more than the one before it.
    fn say_agent(&mut self, agent: Option<&str>, option: &str) {
        let before = self.agent.take();
        self.agent = agent.filter(|agent| !agent.is_empty()).map(str::to_owned);
        self.drop(before, self.agent.clone(), option);
    }

    fn drop(&mut self, before: Option<String>, now: Option<String>, option: &str) {
        let before = before.filter(|before| now.as_ref() != Some(before));
        self.dropped
            .extend(before.map(|before| format!("{option}{before}")));
    }

    /// Tells whether all that another entry says beside where its relay is, and how that is reached, is in this one, which says nothing else of what an
    /// installation keeps.
    pub fn same_beside_way(&self, other: &Self) -> bool {
        let beside_way = |said: &Self| Self {
            transport: None,
            port: None,
            host: None,
            dropped: Vec::new(),
            ..said.clone()
        };
        let mut dropped = other.dropped.iter();
        dropped.all(|dropped| self.dropped.contains(dropped)) && beside_way(self) == beside_way(other)
    }

    /// Adds to a connection what nothing else is asked for; `entry` is what becomes of a connection. Returns whose sessions these were, as it was
    /// written, where that cannot be written there.
    pub fn keep(self, connection: &mut Connection, entry: fn(&Connection) -> Json) -> Option<String> {
        let over_stdio = |transport| transport == Transport::Stdio;
        let same_kind = self.transport.map(over_stdio) == Some(over_stdio(connection.transport));
        connection.tools = connection.tools.take().or(self.tools);
        if same_kind {
            connection.others = self.others;
            connection.agent = self.agent.clone();
        }
        let new = entry(connection);
        let own = members::environment(&new);
        let stays = same_kind && self.agents_in_environment.iter().any(|(key, _)| *key == own);
        if connection.agent.is_some() || stays {
            return None;
        }
        let in_environment = self.agents_in_environment.into_iter().next();
        let agent = self.agent.or(in_environment.map(|(_, agent)| agent))?;
        // How a variable is written in one place is not how it is written in another.
        let is_name = !agent.contains(|c: char| !c.is_ascii_graphic() || "${}&#+%?\"".contains(c));
        if is_name {
            connection.agent = Some(agent);
            return None;
        }
        // A command has the variable in its environment, and the addresses of some editors name it.
        let has_variable =
            over_stdio(connection.transport) || address(&new).is_some_and(|address| address.contains(AGENT));
        (!(has_variable && agent.contains(AGENT))).then_some(agent)
    }
}

/// Returns what of how an entry of relay's reached it, and for whom, is not in the one that takes its place, each as it was written.
pub fn left_out(new: &Json, old: &Json, editor: Id) -> Vec<String> {
    let (now, was) = (Said::of(new, editor), Said::of(old, editor));
    let written = |option: &str, value: &str| match was.transport {
        Some(Transport::Stdio) => format!("--{option} {value}"),
        Some(Transport::Sse | Transport::Http) | None => format!("?{option}={value}"),
    };
    let agent = was.agent.as_ref().filter(|_| !keeps_agent(new, old, editor));
    let agent = agent.map(|agent| written("agent", agent));
    let host = was.host.as_ref().map(|host| written("host", host));
    let others = was.others.iter().filter(|other| !now.others.contains(other));
    let others: Vec<&str> = others.map(String::as_str).collect();
    let others = match was.transport {
        Some(Transport::Stdio) if !others.is_empty() => vec![others.join(" ")],
        Some(_) | None => others.iter().map(|other| format!("?{other}")).collect(),
    };
    let dropped = was.dropped.clone();
    let parts = agent.into_iter().chain(host).chain(others);
    parts.chain(dropped).collect()
}

/// Tells whether the agent whose sessions an entry's are is that of the one that takes its place, by whichever word.
fn keeps_agent(new: &Json, old: &Json, editor: Id) -> bool {
    let (now, was) = (Said::of(new, editor), Said::of(old, editor));
    let in_environment = |said: &Said| said.agents_in_environment.first().map(|(_, agent)| agent.clone());
    let Some(agent) = was.agent.clone().or_else(|| in_environment(&was)) else {
        return true;
    };
    // A command has the variable in its environment.
    let has_variable = now.transport == Some(Transport::Stdio)
        || now.agent.as_ref().is_some_and(|agent| agent.contains(AGENT));
    has_variable && agent.contains(AGENT) || now.agent.clone().or_else(|| in_environment(&now)) == Some(agent)
}

/// Tells whether an environment holds nothing but the agent, which the entry that takes the place of this one names otherwise.
pub fn is_agent_alone(new: &Json, old: &Json, environment: &Json, editor: Id) -> bool {
    let is_agent = |(name, _): &(String, Json)| name == AGENT;
    let is_alone = matches!(environment, Json::Object(members) if members.iter().all(is_agent));
    is_alone
        && is_relays(old, editor)
        && keeps_agent(new, old, editor)
        && keeps_agent_beside_address(new, old, environment, editor)
}

/// Tells whether the agent in an environment that stands beside an address, where no program has it, is that of the new entry.
fn keeps_agent_beside_address(new: &Json, old: &Json, environment: &Json, editor: Id) -> bool {
    if Way::of(old, editor) == Some(Way::Command) {
        return true;
    }
    let agent = environment.get(AGENT).and_then(Json::as_text).unwrap_or_default();
    let now = Said::of(new, editor);
    agent.is_empty() || agent.contains(AGENT) || now.agent.as_deref() == Some(agent)
}

/// Takes the names of toolsets, if they are some.
fn toolsets(names: &str) -> Option<String> {
    names.parse::<Toolsets>().is_ok().then(|| names.to_owned())
}

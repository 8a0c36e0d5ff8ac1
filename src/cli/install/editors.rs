//! The editors that relay can be put into: one value for each, with its files, their format, and what stands in them.
//!
//! Which file a program really reads was tried with the programs themselves (Claude Code 2.1.330, Codex 0.169, Gemini CLI 0.61,
//! OpenCode 1.18); for the others it is what their makers' documents say.

mod all;

use clap::ValueEnum;

use super::json::Json;
use super::members;
use super::parts::{Listed, NAME};
use super::said::Said;
use super::whole::What;
use crate::tools::{DEFAULT, Toolsets};
use crate::workers::WAIT_SECONDS;

pub use self::all::EDITORS;

/// The editors by the names that the command line has for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Id {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    Opencode,
    /// Cursor.
    Cursor,
    /// VS Code.
    Vscode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
}

/// How an editor reaches relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// HTTP+SSE, at `/sse`.
    Sse,
    /// Streamable HTTP, at `/mcp`.
    Http,
    /// `relay mcp`.
    Stdio,
}

impl Transport {
    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

/// An editor.
#[derive(Debug)]
pub struct Editor {
    /// On the command line.
    pub id: Id,
    /// For a person.
    pub name: &'static str,
    /// The program that is looked for on `PATH`.
    pub program: &'static str,
    /// What is there where it is used.
    pub traces: &'static [Place],
    /// How it can reach relay; the first unless another is asked for.
    pub transports: &'static [Transport],
    /// Where its MCP servers stand.
    pub servers: Files,
    /// In which format.
    pub format: Format,
    /// What stands there for relay.
    pub entry: fn(&Connection) -> Json,
    /// Where its hooks stand, if it has some.
    pub hooks: Option<Hooks>,
    /// What does for it what hooks do, if it runs no command.
    pub own: Option<Own>,
}

/// A file, by the directory that it counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(pub Root, pub &'static str);

/// What the path of a file counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The directory that the command is called in.
    Project,
    /// `~`.
    Home,
    /// `$CLAUDE_CONFIG_DIR`, else `~`: Claude Code keeps one file beside its directory.
    BesideClaude,
    /// `$CLAUDE_CONFIG_DIR`, else `~/.claude`.
    Claude,
    /// `$CODEX_HOME`, else `~/.codex`.
    Codex,
    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    Config,
    /// The same, but on macOS `~/Library/Application Support`.
    Application,
}

/// The files for a project and for the user. Of several, it is the first one that is there, else the first.
#[derive(Debug)]
pub struct Files {
    /// For a project; none where it has no file of its own.
    pub project: Option<&'static [Place]>,
    /// For all that the user does.
    pub user: &'static [Place],
}

/// The format of the file of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON with a member for each server in this object.
    Json(&'static str),
    /// TOML with a table for each server below this one.
    Toml(&'static str),
}

/// The hooks of an agent CLI.
#[derive(Debug)]
pub struct Hooks {
    /// Where they stand, as JSON in the member `hooks`.
    pub files: Files,
    /// The CLI's name in `relay hook`.
    pub cli: &'static str,
    /// The events that relay is told of.
    pub events: &'static [Event],
    /// Where relay is named in a project's file.
    pub listed_in_project: &'static [Listed],
    /// Where it is named in the user's.
    pub listed_for_user: &'static [Listed],
}

/// The servers of a project that its person has approved.
pub const APPROVED: Listed = Listed {
    list: &["enabledMcpjsonServers"],
    name: NAME,
    is_always: true,
};

/// The tools that are called without asking the person: this is all of relay's.
pub const ALLOWED: Listed = Listed {
    list: &["permissions", "allow"],
    name: "mcp__relay",
    is_always: true,
};

/// The tools before which the person is asked although they are allowed: this one starts a process. Claude Code looks at what it denies
/// first, then at what it asks for, and at what it allows last; which rule says more does not count. Where its person has decided, it is not written.
pub const ASKED: Listed = Listed {
    list: &["permissions", "ask"],
    name: "mcp__relay__relay_spawn",
    is_always: false,
};

/// A file that is relay's as a whole.
#[derive(Debug)]
pub struct Own {
    /// What it is.
    pub what: What,
    /// Where the editor looks for it.
    pub files: Files,
    /// What is in it.
    pub text: &'static str,
}

/// An event of an agent CLI.
#[derive(Debug)]
pub struct Event {
    /// As the CLI calls it.
    pub name: &'static str,
    /// A waiter is started that can wake the session later.
    pub waits: bool,
}

const fn told(name: &'static str) -> Event {
    Event { name, waits: false }
}

const fn waited(name: &'static str) -> Event {
    Event { name, waits: true }
}

/// How relay is to be reached.
#[derive(Debug, Clone)]
pub struct Connection {
    /// How.
    pub transport: Transport,
    /// Where it listens on this machine.
    pub port: u16,
    /// The toolsets, if they are not those that it has otherwise.
    pub tools: Option<String>,
    /// The program that is relay.
    pub program: String,
    /// The agent whose sessions they are, if a person has named it.
    pub agent: Option<String>,
    /// What else stands behind the address, or the command.
    pub others: Vec<String>,
    /// It wants the token that is in `RELAY_TOKEN`. That itself is written into no file.
    pub has_token: bool,
}

/// Tells whether toolsets have the tool that relay's listener waits with.
pub fn can_listen(tools: Option<&str>) -> bool {
    let toolsets = tools.map_or(Ok(DEFAULT), str::parse::<Toolsets>);
    toolsets.is_ok_and(|toolsets| toolsets.find("wait_for_message").is_ok())
}

impl Connection {
    /// Returns the address; `agent` is how the editor writes the variable that names the session's agent, and its empty value names none.
    /// At another port than relay's own one there is always an agent, by which the address is known as relay's.
    fn url(&self, agent: Option<&str>) -> String {
        let way = if self.transport == Transport::Sse {
            "sse"
        } else {
            "mcp"
        };
        let none = (self.port != crate::cli::place::DEFAULT_PORT).then_some("");
        let agent = self.agent.as_deref().or(agent).or(none);
        let agent = agent.map(|agent| format!("agent={agent}"));
        let tools = self.tools.as_ref().map(|tools| format!("tools={tools}"));
        let query = agent.into_iter().chain(tools).chain(self.others.clone());
        let query: Vec<String> = query.collect();
        let mark = if query.is_empty() { "" } else { "?" };
        format!("http://localhost:{}/{way}{mark}{}", self.port, query.join("&"))
    }

    /// Tells whether relay's listener can wait in its sessions.
    pub fn can_listen(&self) -> bool {
        can_listen(self.tools.as_deref())
    }

    /// Returns the arguments of `relay mcp`.
    fn arguments(&self) -> Vec<Json> {
        let named = [
            ("--port", self.named_port()),
            ("--agent", self.agent.clone()),
            ("--tools", self.tools.clone()),
        ];
        let named = named
            .into_iter()
            .filter_map(|(option, value)| Some((option, value?)));
        let named = named.flat_map(|(option, value)| [option.to_owned(), value]);
        let all = std::iter::once("mcp".to_owned()).chain(named);
        all.chain(self.others.clone()).map(Json::Text).collect()
    }

    fn named_port(&self) -> Option<String> {
        (self.port != crate::cli::place::DEFAULT_PORT).then(|| self.port.to_string())
    }

    /// Adds to an entry that the token is sent, as far as relay wants one; `token` is how the editor writes the variable that holds it.
    fn with_token(&self, entry: Json, token: &str) -> Json {
        let header = Json::Text(format!("Bearer {token}"));
        self.with_member(entry, "headers", Json::object([("Authorization", header)]))
    }

    fn with_member(&self, entry: Json, key: &str, value: Json) -> Json {
        match entry {
            Json::Object(mut members) if self.has_token => {
                members.push((key.to_owned(), value));
                Json::Object(members)
            }
            Json::Plain(_) | Json::Text(_) | Json::List(_) | Json::Object(_) => entry,
        }
    }

    fn command(&self) -> Json {
        Json::object([
            ("command", Json::text(&self.program)),
            ("args", Json::List(self.arguments())),
        ])
    }

    fn command_of_type(&self) -> Json {
        let (program, arguments) = (Json::text(&self.program), Json::List(self.arguments()));
        Json::object([
            ("type", Json::text("stdio")),
            ("command", program),
            ("args", arguments),
        ])
    }
}

impl Hooks {
    /// Returns the groups of each event, for a relay at a port; `program` is the word by which a shell finds relay.
    pub fn groups(&self, program: &str, port: u16) -> Vec<(String, Vec<Json>)> {
        let port = (port != crate::cli::place::DEFAULT_PORT).then(|| format!(" --port {port}"));
        let port = port.unwrap_or_default();
        let group = |hook: Json| Json::object([("hooks", Json::List(vec![hook]))]);
        let command = |what: &str| Json::text(format!("{program} hook {}{what}{port}", self.cli));
        let plain = Json::object([("type", Json::text("command")), ("command", command(""))]);
        let wait = Json::object([
            ("type", Json::text("command")),
            ("command", command(" wait")),
            ("asyncRewake", Json::Plain("true".to_owned())),
            ("timeout", Json::Plain(WAIT_SECONDS.to_string())),
        ]);
        let groups = |event: &Event| {
            let mut groups = vec![group(plain.clone())];
            groups.extend(event.waits.then(|| group(wait.clone())));
            (event.name.to_owned(), groups)
        };
        self.events.iter().map(groups).collect()
    }
}

/// How Claude Code and Gemini CLI write the variable that names the agent.
pub const SHELL_AGENT: &str = "${RELAY_AGENT:-}";

impl Editor {
    /// Tells whether it sends no token, although relay wants one: nothing is known of how it would take that from the environment.
    pub fn lacks_token(&self, connection: &Connection) -> bool {
        let without = Connection {
            has_token: false,
            ..connection.clone()
        };
        let is_remote = connection.transport != Transport::Stdio;
        connection.has_token && is_remote && (self.entry)(connection) == (self.entry)(&without)
    }

    /// Tells whether an entry of it with an address can name the token by its variable.
    pub fn can_send_token(&self) -> bool {
        !self.lacks_token(&any_connection(self.transports[0], true))
    }

    /// Tells whether an entry of relay's says of an address what no installation writes there: somebody has written it by hand.
    pub fn is_by_hand(&self, entry: &Json) -> bool {
        let said = Said::of(entry, self.id);
        let Some(transport) = said.transport.filter(|transport| *transport != Transport::Stdio) else {
            return false;
        };
        let mut connection = any_connection(transport, false);
        connection.port = said.port.unwrap_or(connection.port);
        said.keep(&mut connection, self.entry);
        let written = (self.entry)(&connection);
        let query = |entry: &Json| {
            let address = members::address(entry)?;
            Some(address.split_once('?').map_or("", |(_, query)| query).to_owned())
        };
        query(entry) != query(&written)
    }

    /// Tells whether an entry of relay's says more, or otherwise, than an installation writes that is told its way and its port alone.
    pub fn has_additions(&self, entry: &Json) -> bool {
        let said = Said::of(entry, self.id);
        let is_as_written = |transport| {
            [true, false].into_iter().any(|has_token| {
                let mut connection = any_connection(transport, has_token);
                connection.port = said.port.unwrap_or(connection.port);
                connection.program = members::program(entry).unwrap_or_default().to_owned();
                entry.same(&(self.entry)(&connection))
            })
        };
        !said.transport.is_some_and(is_as_written)
    }

    /// Tells whether the same is added to two entries of relay's.
    pub fn has_same_additions(&self, entry: &Json, other: &Json) -> bool {
        let said = |entry| Said::of(entry, self.id);
        said(entry).same_beside_way(&said(other)) && members::same_beside_way(entry, other)
    }
}

fn any_connection(transport: Transport, has_token: bool) -> Connection {
    Connection {
        transport,
        port: crate::cli::place::DEFAULT_PORT,
        tools: None,
        agent: None,
        others: Vec::new(),
        program: String::new(),
        has_token,
    }
}

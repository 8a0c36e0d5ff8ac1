//! What a relay says at `/health` of itself and of what is in it, as the subcommands read it: what an older one does not say is left out.

use serde::Deserialize;

/// What a relay says of itself at `/health`.
#[derive(Debug, Clone, Deserialize)]
pub struct Health {
    /// `relay`, or it is another program.
    pub name: String,
    /// Of the relay's package.
    pub version: String,
    /// When it was started, in ISO 8601.
    pub started_at: String,
    /// Its process on its machine.
    pub pid: Option<i32>,
    /// The port that it listens on.
    pub port: Option<u16>,
    /// This start of it.
    pub boot: Option<String>,
    /// How long it has run.
    #[serde(default)]
    pub uptime_seconds: u64,
    /// The person holds all messages.
    #[serde(default)]
    pub holds_all: bool,
    /// One for each inbox.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// The open sessions.
    #[serde(default)]
    pub connections: Vec<Connection>,
    /// The nodes.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// The workers that have not ended.
    #[serde(default)]
    pub workers: Vec<Worker>,
}

/// What a relay says of an inbox.
#[derive(Debug, Clone, Deserialize)]
pub struct Role {
    /// Whose it is.
    pub role: String,
    /// How many messages wait in it.
    pub unread: u64,
    /// The age of the first of them.
    pub oldest_seconds: Option<u64>,
    /// How many the person holds in it.
    #[serde(default)]
    pub held: u64,
    /// The person holds what it gets and sends.
    #[serde(default)]
    pub is_held: bool,
    /// How many were handed over and are not confirmed.
    pub in_doubt: u64,
    /// How it is brought what its senders say nothing of.
    #[serde(default)]
    pub mode: Option<String>,
    /// The node that its agent is on, if it is on one.
    pub node: Option<OnNode>,
}

/// What a relay says of the node that an agent is on.
#[derive(Debug, Clone, Deserialize)]
pub struct OnNode {
    /// It is connected; none for a web hook.
    pub live: Option<bool>,
    /// The agent's target does not take what is pushed.
    pub failing: bool,
}

/// What a relay says of an open session.
#[derive(Debug, Clone, Deserialize)]
pub struct Connection {
    /// Its number.
    pub session: u64,
    /// The role that it is bound to, if any.
    pub role: Option<String>,
    /// It is a `relay` command's.
    #[serde(default)]
    pub person: bool,
    /// `sse`, `http`, or `hooks`.
    pub transport: String,
    /// Its reads that wait.
    pub waits: Vec<Wait>,
    /// The program whose hooks it is, if it is one's.
    pub program: Option<Program>,
}

/// What a relay says of a program.
#[derive(Debug, Clone, Deserialize)]
pub struct Program {
    /// `idle`, `busy`, or `asks`.
    pub activity: String,
    /// It can be woken.
    pub can_be_woken: bool,
}

/// What a relay says of a node.
#[derive(Debug, Clone, Deserialize)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// Its project.
    pub project: String,
    /// `direct`, `fleet` or `http_push`.
    pub kind: String,
    /// It is connected; none for a web hook.
    pub live: Option<bool>,
    /// How many it has.
    pub agents: u64,
    /// How many of them have a target that does not take what is pushed.
    pub failing: u64,
    /// How many deliveries were given up.
    pub dead_letters: u64,
}

/// What a relay says of a worker that has not ended.
#[derive(Debug, Clone, Deserialize)]
pub struct Worker {
    /// Its name, with its project before it unless that is the default one.
    pub name: String,
    /// Who has asked for it.
    pub parent: String,
    /// Which agent CLI it is.
    pub cli: Option<String>,
    /// How long ago it was asked for.
    pub seconds: u64,
    /// `starting`, `started`, `ready` or `ending`.
    pub state: String,
}

/// What a relay says of a read that waits.
#[derive(Debug, Clone, Deserialize)]
pub struct Wait {
    /// Whose inbox it waits for.
    #[serde(rename = "for")]
    pub role: String,
    /// How long it still does.
    pub seconds_left: u64,
}

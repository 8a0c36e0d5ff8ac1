//! Who there is, and for whom a session may speak: the one gate.
//!
//! The roster's agents are always there. Another one is there once a session has registered it ([`Who::Registered`]), and stays;
//! but a transient one goes with its last session, once nothing is in its inbox.
//!
//! Sessions that register an agent say by which instance of it they are: a process, say. Those of one instance live side by
//! side. Those of a later one take the agent over: a new generation begins, and the sessions of the one before are fenced. They
//! can neither read nor acknowledge any more; what they waited for is ended, and what was handed over to them is undone.
//!
//! [`Who::Registered`]: super::Who::Registered

mod looking;

use std::collections::BTreeSet;

use uuid::Uuid;

use super::Engine;
use super::address::InvalidAddress;
use super::handling::Mode;
use super::io;
use super::limits::{ACTIVE_MS, AGENT_NAME_BYTES_MAX, KNOWN_NEAREST, KNOWN_SHOWN_MAX};
use super::names::{
    AgentName, ClientId, DEFAULT_PROJECT, InvalidName, PERSON, Recipient, Role, SessionId, shown,
};
use super::roster::Known;
use super::sessions::Session;
use super::time::Timestamp;

/// What may be asked about agents.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Lists the agents of a project.
    List {
        /// The session's own if it is left out; all projects if it is `*`.
        project: Option<String>,
        /// Which of them.
        which: Which,
    },
    /// Looks one agent up.
    Find {
        /// Its name.
        agent: AgentName,
    },
    /// Tells what a session's agent may know of itself and of the relay.
    WhoAmI,
    /// Tells in which mode an agent is brought what its senders say nothing of.
    Mode {
        /// Which agent; may be left out by a bound session and by the person's.
        agent: Option<String>,
        /// How it is to be from now on; as it is if it is left out. What has come stays as it is.
        mode: Option<Mode>,
    },
    /// Removes an agent that is not used any more, and frees its name. The person's to ask.
    Retire {
        /// Its name.
        agent: String,
    },
}

/// Which agents are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Which {
    /// All that there are.
    All,
    /// Those that are not [`Status::Offline`].
    Present,
    /// Those that are [`Status::Active`].
    Active,
}

/// Whether an agent is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nobody has spoken for it since the start, or nothing of it is there any more.
    Offline,
    /// A session, a worker or a node of it is there, and it has done nothing for [`ACTIVE_MS`].
    Idle,
    /// It has done something since, and not left, or it waits for something.
    Active,
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Agents(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Agents, in the order of their names.
    Listed {
        /// The project from which they are seen.
        project: String,
        /// One for each.
        agents: Vec<AgentView>,
    },
    /// The agent that was looked up, if there is one.
    Found(Option<Box<AgentView>>),
    /// Who asked, and whom.
    You {
        /// The session's agent, if it is bound to one.
        agent: Option<AgentName>,
        /// Where the relay is reached, as it is shown.
        place: String,
        /// When it started.
        started_at: Timestamp,
        /// When it was asked.
        now: Timestamp,
    },
    /// In which mode the agent is brought what its senders say nothing of.
    Mode(Mode),
    /// The agent is gone.
    Retired {
        /// Which.
        agent: AgentName,
    },
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Agents(reply)
    }
}

/// An agent as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentView {
    /// Its name.
    pub name: AgentName,
    /// What it said of itself.
    pub profile: Profile,
    /// When a session last did something in its name; none since the start.
    pub last_contact: Option<Timestamp>,
    /// Whether it is there.
    pub status: Status,
}

/// What an agent says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Profile {
    /// What it is: a name that others may share.
    pub role: Option<String>,
    /// What it works on.
    pub module: Option<String>,
    /// The program that it is.
    pub cli: Option<String>,
    /// The agent that it works for.
    pub parent: Option<String>,
    /// Where it works.
    pub cwd: Option<String>,
}

/// An agent as a session registers it. Nothing of it is checked yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Registration {
    /// The project; the default one if it is left out.
    pub project: Option<String>,
    /// The name in it.
    pub name: String,
    /// What is left out stays as it was.
    pub profile: Profile,
    /// Which instance of the agent the session belongs to. A greater one is a later one: a UUID of version 7, say. None joins
    /// whichever is there.
    pub instance: Option<Uuid>,
    /// The agent is to go with its sessions.
    pub transient: bool,
    /// There must be no such agent yet.
    pub is_new: bool,
}

/// An agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Agent {
    pub profile: Profile,
    pub last_contact: Option<Timestamp>,
    /// Which session that was, open or not, bound to it or not; none while none did.
    pub last_session: Option<SessionId>,
    /// The one that has taken it over last, if any has.
    pub instance: Option<Uuid>,
    /// It goes with its last session.
    pub transient: bool,
    /// The sessions that are bound to it and not fenced.
    pub sessions: BTreeSet<SessionId>,
    /// Something that was there of it has ended since the last contact, as far as its end is one: a client that has a connection for each call
    /// ends those all the time. It is gone once no session is left.
    pub has_left: bool,
    /// When it goes, unless a session comes or something is in its inbox.
    pub leaves_at: Option<Timestamp>,
    /// The client that it was given to, if it was, whose connections come and go.
    pub client: Option<ClientId>,
    /// Until it goes it gets what many are sent: its client may only have no connection for a moment.
    pub rests: bool,
}

impl Agent {
    /// Tells whether it has done something a moment ago, and has not left.
    pub fn is_active(&self, now: Timestamp) -> bool {
        let is_gone = self.has_left && self.sessions.is_empty();
        !is_gone && self.last_contact.is_some_and(|at| is_recent(at, now))
    }
}

/// As what somebody was named, or was to be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedAs {
    /// The one that a message is from.
    Sender,
    /// The one whose inbox is meant.
    Reader,
    /// The one that a session is bound to.
    Session,
}

/// What uses an agent, so that it cannot be retired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// It is one of the roster, and always there.
    Roster,
    /// So many messages are in its inbox, or were handed over and are not confirmed.
    Messages(usize),
    /// So many messages are held for it, and that is all there is for it.
    Held(usize),
    /// Somebody waits for its inbox.
    Wait,
    /// So many sessions are bound to it.
    Sessions(usize),
    /// It is on a node of that name, or that is its own.
    Node(String),
    /// It handles an action of that name.
    Action(String),
    /// It is a worker that lives.
    Worker,
}

/// Why somebody may not be named so, or nobody is meant. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such agent.
    Unknown {
        /// As given, cut if it is long.
        name: String,
        /// Who there is.
        known: Known,
    },
    /// Nobody is meant by an address: no agent, role or group is called so.
    UnknownAddress {
        /// As given, cut if it is long.
        name: String,
        /// Who there is.
        known: Known,
    },
    /// There is no such agent, nor any other of its project.
    UnknownProject {
        /// As given, cut if it is long.
        name: String,
        /// Which project was meant.
        project: String,
        /// Which there are, in the order of their names.
        known: Vec<String>,
    },
    /// A bound session named another agent than its own.
    NotYou {
        /// As what.
        named: NamedAs,
        /// Whom it named.
        name: AgentName,
        /// The session's agent.
        bound: AgentName,
    },
    /// An agent's session named the person.
    Person {
        /// As what.
        named: NamedAs,
        /// Who else there is.
        known: Known,
    },
    /// How the person is brought something was to be set, which is brought nothing.
    NobodysMode,
    /// A session that is not bound did not say who it is.
    Anonymous {
        /// What it is to say.
        named: NamedAs,
        /// Who there is.
        known: Known,
    },
    /// The session's agent was taken over by a later instance.
    Fenced {
        /// Which agent.
        agent: AgentName,
    },
    /// Whoever could be meant is the sender itself.
    Nobody {
        /// The address.
        to: Recipient,
    },
    /// What is to be a name is none.
    InvalidName(InvalidName),
    /// What is to be an address is none.
    InvalidAddress(InvalidAddress),
    /// Something that an agent says of itself is too long, or not one line of text.
    InvalidProfile {
        /// What.
        field: &'static str,
        /// As given, cut if it is long.
        given: String,
    },
    /// An agent that was to be retired is used still.
    InUse {
        /// Its name.
        agent: AgentName,
        /// By what.
        by: Use,
    },
    /// An agent's session asked for what only the person may.
    NotThePerson,
    /// An agent that was to be a new one is there already.
    Exists {
        /// Its name.
        agent: AgentName,
    },
    /// There are as many agents as there may be.
    TooManyAgents {
        /// How many there are.
        agents: usize,
    },
    /// There are as many projects as there may be.
    TooManyProjects {
        /// How many there are.
        projects: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::Unknown { .. }
            | Self::UnknownAddress { .. }
            | Self::UnknownProject { .. }
            | Self::Nobody { .. } => io::Class::Unknown,
            Self::NotYou { .. }
            | Self::Person { .. }
            | Self::NobodysMode
            | Self::NotThePerson
            | Self::Anonymous { .. }
            | Self::InvalidName(_)
            | Self::InvalidAddress(_)
            | Self::InvalidProfile { .. } => io::Class::Bad,
            Self::Fenced { .. } => io::Class::Fenced,
            Self::Exists { .. } | Self::InUse { .. } => io::Class::Conflict,
            Self::TooManyAgents { .. } | Self::TooManyProjects { .. } => io::Class::Full,
        }
    }

    /// The refusal of an address that was to mean somebody.
    pub(super) fn of_address(self) -> Self {
        if let Self::Unknown { name, known } = self {
            Self::UnknownAddress { name, known }
        } else {
            self
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Agents(refusal)
    }
}

/// An agent for whom a session may speak. Only [`Engine::speaker`] makes one: whoever asks for it has been let through.
#[derive(Debug)]
pub(super) struct Speaker(AgentName);

impl Speaker {
    /// Returns the agent.
    pub fn agent(&self) -> &AgentName {
        &self.0
    }

    /// Returns the agent.
    pub fn into_agent(self) -> AgentName {
        self.0
    }
}

/// The gate.
impl Engine {
    /// Finds out for whom a session speaks. The one gate: what posts or reads asks for the [`Speaker`] that it gives.
    pub(super) fn speaker(
        &self,
        session: SessionId,
        named: NamedAs,
        given: Option<&str>,
    ) -> Result<Speaker, Refusal> {
        let Session {
            agent: bound,
            person,
            fenced,
            ..
        } = &self.sessions[&session];
        if *person {
            return self.known(given.unwrap_or(PERSON)).map(Speaker);
        }
        if given == Some(PERSON) {
            return Err(self.refuse_person(named));
        }
        let Some(bound) = bound else {
            let Some(name) = given else {
                let known = self.all_known();
                return Err(Refusal::Anonymous { named, known });
            };
            return self.known(name).map(Speaker);
        };
        if let Some(name) = given
            && name != bound.as_str()
            && name != bound.local()
        {
            let name = self.known(name)?;
            if name != *bound {
                let bound = bound.clone();
                return Err(Refusal::NotYou { named, name, bound });
            }
        }
        if *fenced {
            let agent = bound.clone();
            return Err(Refusal::Fenced { agent });
        }
        Ok(Speaker(bound.clone()))
    }

    /// Refuses what a session asks for whose agent was taken over.
    pub(super) fn check_not_fenced(&self, session: SessionId) -> Result<(), Refusal> {
        match &self.sessions[&session] {
            Session {
                fenced: true,
                agent: Some(agent),
                ..
            } => Err(Refusal::Fenced { agent: agent.clone() }),
            Session { .. } => Ok(()),
        }
    }

    pub(super) fn refuse_person(&self, named: NamedAs) -> Refusal {
        let known = self.all_known();
        Refusal::Person { named, known }
    }

    /// Finds the agent of a whole name, or the person.
    pub(super) fn known(&self, name: &str) -> Result<AgentName, Refusal> {
        if let Some((agent, _)) = self.inboxes.get_key_value(name) {
            return Ok(agent.clone());
        }
        self.known_in(DEFAULT_PROJECT, name)
    }

    /// Finds the agent of a name that somebody in a project has written, or the person. The name of an agent of another project has
    /// that before it.
    pub(super) fn known_in(&self, project: &str, name: &str) -> Result<AgentName, Refusal> {
        if name == PERSON {
            return Ok(AgentName::person());
        }
        // No project is called `agent`, which stands before a role.
        let (meant, local) = self.home.parted(project, name);
        let project = if meant == "agent" { project } else { meant };
        let agent = self.agent_in(meant, local);
        agent.ok_or_else(|| self.unknown(project, name))
    }

    /// Finds the agent of a name without a project.
    pub(super) fn agent_in(&self, project: &str, name: &str) -> Option<AgentName> {
        let full = AgentName::in_project(project, name).ok()?;
        self.agents.contains_key(&full).then_some(full)
    }

    fn all_known(&self) -> Known {
        self.known_like(DEFAULT_PROJECT, "")
    }

    /// Refuses a name that was written so: nobody in the project that is meant is called that.
    pub(super) fn unknown(&self, project: &str, name: &str) -> Refusal {
        let projects = self.projects();
        // Of its own project somebody who is the first one there is not told that it is none.
        if name.contains(':') && !projects.contains(project) {
            return Refusal::UnknownProject {
                name: shown(name),
                project: shown(project),
                known: projects.into_iter().map(str::to_owned).collect(),
            };
        }
        Refusal::Unknown {
            known: self.known_like(project, name),
            name: shown(name),
        }
    }

    /// Names those who are there: of the roster first, then of the project.
    fn known_like(&self, project: &str, name: &str) -> Known {
        let of_roster = self.roster.names().iter();
        let others = self.agents.keys();
        let others = others.filter(|agent| self.roster.find(agent.as_str()).is_none());
        let of_project = of_roster.chain(others).filter(|agent| agent.project() == project);
        let names: Vec<&AgentName> = of_project.collect();
        let count = names.len();
        let names = if count > KNOWN_SHOWN_MAX {
            nearest(&names, name.rsplit(':').next().unwrap_or(name))
        } else {
            names
        };
        Known {
            names: names.into_iter().cloned().collect(),
            count,
        }
    }

    /// Goes through the agents of a project, in the order of their names.
    pub(super) fn of_project(&self, project: &str) -> impl Iterator<Item = AgentName> {
        self.agents
            .keys()
            .filter(move |agent| agent.project() == project)
            .cloned()
    }

    /// Returns the agents of a role; none if there are none.
    pub(super) fn of_role(&self, role: &Role) -> Option<Vec<AgentName>> {
        let agents = self.roles.get(role)?;
        Some(agents.iter().cloned().collect())
    }
}

/// Tells whether an agent that was there at that time counts as active.
pub(super) fn is_recent(last_contact: Timestamp, now: Timestamp) -> bool {
    now < last_contact.plus_millis(ACTIVE_MS)
}

/// Finds the names that differ the least from what was asked for, the nearest first.
fn nearest<'a>(names: &[&'a AgentName], asked: &str) -> Vec<&'a AgentName> {
    let asked = asked.to_ascii_lowercase();
    let asked = &asked.as_bytes()[..asked.len().min(AGENT_NAME_BYTES_MAX)];
    let mut nearest: Vec<(usize, &AgentName)> = Vec::with_capacity(KNOWN_NEAREST + 1);
    for name in names {
        let farthest = match nearest.last() {
            Some((farthest, _)) if nearest.len() == KNOWN_NEAREST => *farthest,
            Some(_) | None => usize::MAX,
        };
        if let Some(distance) = distance(name.local(), asked, farthest) {
            let place = nearest.partition_point(|(other, _)| *other <= distance);
            nearest.insert(place, (distance, name));
            nearest.truncate(KNOWN_NEAREST);
        }
    }
    nearest.into_iter().map(|(_, name)| name).collect()
}

/// Counts the letters that make two names differ; none if there are as many as a number, or more.
fn distance(name: &str, asked: &[u8], fewer_than: usize) -> Option<usize> {
    let mut row: Vec<usize> = (0..=asked.len()).collect();
    for (at, letter) in name.bytes().enumerate() {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (to, wanted) in asked.iter().enumerate() {
            let changed = before + usize::from(letter.to_ascii_lowercase() != *wanted);
            before = row[to + 1];
            row[to + 1] = changed.min(before + 1).min(row[to] + 1);
        }
        // It grows from row to row.
        if row.iter().min().is_none_or(|least| *least >= fewer_than) {
            return None;
        }
    }
    let distance = row[asked.len()];
    (distance < fewer_than).then_some(distance)
}

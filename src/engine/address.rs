//! Where a message may be sent: the one parser of addresses, and who is meant by one.
//!
//! | address | who is meant |
//! |---|---|
//! | `name`, `@name` | the agent of that name; else all agents of that role; else the members of that group |
//! | `agent:role:hash` | all agents of the role, as Thrum has it |
//! | `#channel` | the members of the channel |
//! | `*`, `@everyone` | all agents of the project |
//! | `*:*` | all agents of all projects |
//! | `a, b` | whoever is meant by one of them: names of agents, roles and groups; each gets it once |
//!
//! Each of them but the last may have `project:` before it; without, the sender's own project is meant. Where a relay is one project's
//! own, the name of that project means the default one ([`Home`]). Of anything but a message
//! to one agent its sender gets no copy, and neither do transient agents whose sessions have ended. The person gets what is sent to
//! `user` and nothing else.

use std::collections::BTreeSet;
use std::fmt;

use super::Engine;
use super::agents;
use super::finger::Finger;
use super::limits::ADDRESSES_MAX;
use super::names::{
    AgentName, ChannelName, DEFAULT_PROJECT, GroupName, InvalidName, PERSON, Recipient, ResolvedBy, Role,
    check_name, shown,
};

/// An address as it was written, taken apart. Nothing says yet that there is anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Which project is meant; the sender's own if none is named.
    pub project: Option<String>,
    /// Who in it.
    pub target: Target,
}

/// Who is meant in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `name` or `@name`: an agent, a role or a group.
    Name(String),
    /// `agent:role:hash`: a role.
    Role(String),
    /// `#name`.
    Channel(String),
    /// `*` or `@everyone`.
    Everyone,
    /// `*:*`.
    AllProjects,
}

/// Which project a relay is the own one of, if it is one's: whoever names that project to it means the default one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Home(Option<Box<str>>);

impl Home {
    /// The relay is this project's.
    pub fn of(project: &str) -> Self {
        Self(Some(project.into()))
    }

    /// Returns the project that is meant where one is named.
    pub fn meant<'a>(&self, project: &'a str) -> &'a str {
        match self.0.as_deref() {
            Some(own) if own == project => DEFAULT_PROJECT,
            Some(_) | None => project,
        }
    }

    /// Takes what somebody in the project `own` has written apart: the project that is meant, his own if none is named, and what stands
    /// behind its name.
    pub fn parted<'a>(&self, own: &'a str, written: &'a str) -> (&'a str, &'a str) {
        let (project, name) = written.split_once(':').unwrap_or((own, written));
        (self.meant(project), name)
    }
}

/// Stands between several addresses.
const SEPARATOR: char = ',';

/// What stands in an address that is more than a name.
const MARKS: [char; 4] = [':', '@', '#', '*'];

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid address {given:?}; accepted: name, @role, @group, agent:role:hash, #channel, * or @everyone, each with project: before it, and *:*; or up to {ADDRESSES_MAX} names, @roles and @groups with commas between them"
)]
pub struct InvalidAddress {
    /// The text as it was given, cut if it is long.
    pub given: String,
}

impl std::str::FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        parse(text).ok_or_else(|| InvalidAddress { given: shown(text) })
    }
}

fn parse(text: &str) -> Option<Address> {
    let mut parts = text.split(':');
    let (first, second, third, more) = (parts.next()?, parts.next(), parts.next(), parts.next());
    let (project, target) = match (first, second, third, more) {
        ("*", Some("*"), None, None) => (None, Target::AllProjects),
        (target, None, None, None) => (None, parse_target(target)?),
        ("agent", Some(role), Some(hash), None) => (None, composite(role, hash)?),
        (project, Some(target), None, None) => (Some(project), parse_target(target)?),
        (project, Some("agent"), Some(role), Some(hash)) if parts.next().is_none() => {
            (Some(project), composite(role, hash)?)
        }
        _ => return None,
    };
    let project = project.map(|project| is_name("project", project).then(|| project.to_owned()));
    let project = match project {
        Some(named) => Some(named?),
        None => None,
    };
    Some(Address { project, target })
}

fn parse_target(text: &str) -> Option<Target> {
    if text == "*" || text == "@everyone" {
        return Some(Target::Everyone);
    }
    if let Some(channel) = text.strip_prefix('#') {
        return is_name("channel", channel).then(|| Target::Channel(channel.to_owned()));
    }
    let name = text.strip_prefix('@').unwrap_or(text);
    is_name("role", name).then(|| Target::Name(name.to_owned()))
}

fn composite(role: &str, hash: &str) -> Option<Target> {
    (is_name("role", role) && is_name("", hash)).then(|| Target::Role(role.to_owned()))
}

/// Tells whether a text has the form of a name. That nothing is sent to the relay itself is said where it is looked for.
fn is_name(noun: &'static str, text: &str) -> bool {
    match check_name(noun, text) {
        Ok(()) | Err(InvalidName::Relays { .. }) => true,
        Err(InvalidName::Form { .. } | InvalidName::Reserved { .. }) => false,
    }
}

/// Writes the address so that it is read as the same.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(project) = &self.project {
            write!(f, "{project}:")?;
        }
        match &self.target {
            Target::Name(name) => f.write_str(name),
            Target::Role(role) => write!(f, "agent:{role}:0"),
            Target::Channel(channel) => write!(f, "#{channel}"),
            Target::Everyone => f.write_str("@everyone"),
            Target::AllProjects => f.write_str("*:*"),
        }
    }
}

/// Who is meant by an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    /// As it is shown.
    pub to: Recipient,
    /// Each once, in the order of their names; never the sender, unless it was named itself.
    pub agents: Vec<AgentName>,
    /// A channel that the sender joins by this.
    pub joins: Option<ChannelName>,
    /// What else could have been meant.
    pub warnings: Vec<Warning>,
}

/// What a sender is told beside that its message was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Warning {
    /// The name of the agent is a role as well, of others.
    AlsoRole(Role),
    /// The name is a group as well.
    AlsoGroup(GroupName),
    /// The channel has no other member yet: nobody got the message.
    NobodyElse(ChannelName),
    /// Nobody had made or joined the channel: nobody got the message.
    NobodysChannel(ChannelName),
    /// The message that it answers is not among the latest that either side got: it belongs to no thread by that.
    AnswersForgotten,
    /// It was accepted before, with the same idempotency key: this is the answer of that time, and nothing was added.
    Repeated,
}

impl Warning {
    /// Tells whether it says that nobody got the message.
    pub fn is_in_vain(&self) -> bool {
        match self {
            Self::NobodyElse(_) | Self::NobodysChannel(_) => true,
            Self::AlsoRole(_) | Self::AlsoGroup(_) | Self::AnswersForgotten | Self::Repeated => false,
        }
    }
}

impl Engine {
    /// Finds out who is meant by an address that `from` has written.
    ///
    /// # Errors
    ///
    /// When it is no address, or there is nobody whom it could mean.
    pub(super) fn resolve(&self, from: &AgentName, to: &str) -> Result<Resolved, agents::Refusal> {
        if to == PERSON {
            return Ok(one(AgentName::person()));
        }
        if let Some(agent) = self.plainly(from, to) {
            return Ok(one(agent));
        }
        if to.contains(SEPARATOR) {
            return self.resolve_list(from, to);
        }
        let Address { project, target } = match to.parse::<Address>() {
            Ok(address) => address,
            // What looks like a name that is misspelt is answered with those that there are.
            Err(_) if !to.contains(MARKS) => return Err(self.unknown(from.project(), to)),
            Err(invalid) => return Err(invalid.into()),
        };
        let project = self.home.meant(project.as_deref().unwrap_or(from.project()));
        let (to, mut agents, joins) = match target {
            Target::Name(name) => return self.resolve_name(from, project, &name, to),
            Target::Role(role) => {
                let role = Role::in_project(project, &role)?;
                let agents = self.of_role(&role).ok_or_else(|| self.unknown(project, to))?;
                (Recipient::role(&role), agents, None)
            }
            Target::Channel(name) => {
                return self.resolve_channel(from, ChannelName::in_project(project, &name)?, to);
            }
            Target::Everyone => {
                let agents = self.of_project(project).collect::<Vec<_>>();
                if agents.is_empty() {
                    return Err(self.unknown(project, to));
                }
                (Recipient::everyone(Some(project)), agents, None)
            }
            Target::AllProjects => (
                Recipient::everyone(None),
                self.agents.keys().cloned().collect(),
                None,
            ),
        };
        self.keep_others(from, &mut agents);
        let warnings = Vec::new();
        somebody(Resolved {
            to,
            agents,
            joins,
            warnings,
        })
    }

    /// Finds the agent that is meant by its name and by nothing else: as most are, without a look at the rest.
    fn plainly(&self, from: &AgentName, to: &str) -> Option<AgentName> {
        let (agent, _) = self.agents.get_key_value(to)?;
        let is_plain = !self.roles.contains_key(to) && !self.groups.has_group(to);
        (is_plain && (from.project() == DEFAULT_PROJECT || to.contains(':'))).then(|| agent.clone())
    }

    /// Finds out who is meant by several addresses, each of which has to mean somebody. A channel is written to by itself, since what is said in
    /// it is said to nobody else.
    fn resolve_list(&self, from: &AgentName, list: &str) -> Result<Resolved, agents::Refusal> {
        let invalid = || InvalidAddress { given: shown(list) };
        let list = list.trim_end();
        let list = list.strip_suffix(SEPARATOR).unwrap_or(list);
        let addresses: Vec<&str> = list.split(SEPARATOR).map(str::trim).collect();
        if addresses.len() > ADDRESSES_MAX {
            return Err(invalid().into());
        }
        let (mut to, mut agents, mut warnings) = (Vec::new(), BTreeSet::new(), Vec::new());
        for address in addresses {
            if address.is_empty() {
                return Err(invalid().into());
            }
            let resolved = self.resolve(from, address)?;
            match resolved.to.by() {
                ResolvedBy::Name | ResolvedBy::Role | ResolvedBy::Group => {}
                ResolvedBy::Channel | ResolvedBy::Broadcast | ResolvedBy::List => {
                    return Err(invalid().into());
                }
            }
            if !to.contains(&resolved.to) {
                to.push(resolved.to);
                warnings.extend(resolved.warnings);
            }
            agents.extend(resolved.agents);
        }
        if to.len() > 1 {
            agents.remove(from);
        }
        somebody(Resolved {
            to: Recipient::list(to),
            agents: agents.into_iter().collect(),
            joins: None,
            warnings,
        })
    }

    fn resolve_name(
        &self,
        from: &AgentName,
        project: &str,
        name: &str,
        given: &str,
    ) -> Result<Resolved, agents::Refusal> {
        let agent = self.agent_in(project, name);
        let (role, group) = (
            Role::in_project(project, name)?,
            GroupName::in_project(project, name)?,
        );
        let of_role = self.of_role(&role);
        let of_group = self.groups.members(&group, self);
        let also_group = of_group.is_some().then(|| Warning::AlsoGroup(group.clone()));
        if let Some(agent) = agent {
            let others = of_role.is_some_and(|agents| agents.iter().any(|other| *other != agent));
            let also_role = others.then_some(Warning::AlsoRole(role));
            let warnings = also_role.into_iter().chain(also_group).collect();
            return Ok(Resolved {
                warnings,
                ..one(agent)
            });
        }
        let (to, mut agents, warnings) = match (of_role, of_group) {
            (Some(agents), _) => (Recipient::role(&role), agents, also_group.into_iter().collect()),
            (None, Some(agents)) => (Recipient::group(&group), agents, Vec::new()),
            (None, None) => return Err(self.unknown(project, given)),
        };
        self.keep_others(from, &mut agents);
        somebody(Resolved {
            to,
            agents,
            joins: None,
            warnings,
        })
    }

    fn resolve_channel(
        &self,
        from: &AgentName,
        channel: ChannelName,
        given: &str,
    ) -> Result<Resolved, agents::Refusal> {
        let project = channel.project();
        let (members, joins) = self.groups.channel(&channel, from, self);
        let is_strange = members.is_empty() && project != from.project();
        if is_strange && self.of_project(project).next().is_none() {
            return Err(self.unknown(project, given));
        }
        let mut agents: Vec<AgentName> = members.into_iter().collect();
        self.keep_others(from, &mut agents);
        let nobody = agents
            .is_empty()
            .then(|| match self.groups.has_channel(&channel) {
                true => Warning::NobodyElse(channel.clone()),
                false => Warning::NobodysChannel(channel.clone()),
            });
        Ok(Resolved {
            to: Recipient::channel(&channel),
            agents,
            joins: joins.then_some(channel),
            warnings: nobody.into_iter().collect(),
        })
    }

    /// Leaves out whoever gets no copy of what many are meant by: the sender, and those that are about to go and will not come back, who
    /// would only fill their inboxes.
    fn keep_others(&self, from: &AgentName, agents: &mut Vec<AgentName>) {
        let mut all = Finger::new(&self.agents);
        agents.retain(|agent| {
            let state = all
                .find(agent)
                .expect("whoever is meant by a role, a group or all is an agent");
            agent != from && (state.leaves_at.is_none() || state.rests)
        });
    }
}

fn one(agent: AgentName) -> Resolved {
    Resolved {
        to: Recipient::agent(&agent),
        agents: vec![agent],
        joins: None,
        warnings: Vec::new(),
    }
}

fn somebody(resolved: Resolved) -> Result<Resolved, agents::Refusal> {
    if resolved.agents.is_empty() {
        let to = resolved.to;
        return Err(agents::Refusal::Nobody { to });
    }
    Ok(resolved)
}

impl From<InvalidName> for agents::Refusal {
    fn from(error: InvalidName) -> Self {
        Self::InvalidName(error)
    }
}

impl From<InvalidAddress> for agents::Refusal {
    fn from(error: InvalidAddress) -> Self {
        Self::InvalidAddress(error)
    }
}

//! Groups, which somebody makes and fills with agents and roles; and which channels there are.
//!
//! Who is in one is looked up when a message is accepted, never later. `@everyone` is a group that is always there and has all
//! agents of its project; `#general` is such a channel.

use std::collections::{BTreeMap, BTreeSet};

use super::agents::{self, NamedAs};
use super::channels::Channel;
use super::io::{self, Outcome};
use super::names::{
    AgentName, ChannelName, GroupName, InvalidName, PERSON, Role, SessionId, check_name, shown,
};
use super::time::Timestamp;
use super::{Engine, Step};

/// The group that has all agents.
pub const EVERYONE: &str = "everyone";

/// The channel that has all agents.
pub const GENERAL: &str = "general";

/// What may be asked about groups. Names are as given, not checked yet; a `@` before a group's is passed over. It is always the
/// caller's own project that is meant, or the one that stands before a group's name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Makes a group without members.
    Create {
        /// Its name.
        name: String,
        /// What it is for; empty if nothing is said.
        description: String,
    },
    /// Ends a group.
    Delete {
        /// Its name.
        name: String,
    },
    /// Adds a member to a group; nothing if it is one.
    Add {
        /// The group.
        group: String,
        /// Whom.
        member: Named,
    },
    /// Takes a member out of a group.
    Remove {
        /// The group.
        group: String,
        /// Whom.
        member: Named,
    },
    /// Lists the groups of a project.
    List {
        /// The session's own if it is left out.
        project: Option<String>,
    },
    /// Looks at one group.
    Get {
        /// Its name.
        name: String,
        /// Which agents are in it is looked up, too.
        expand: bool,
    },
}

/// A member as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Named {
    /// An agent of that name.
    Agent(String),
    /// All agents of that role, whoever they are at the time.
    Role(String),
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Groups(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The group is there.
    Created {
        /// Its name.
        name: GroupName,
    },
    /// The group is gone.
    Deleted {
        /// Its name.
        name: GroupName,
    },
    /// The member is in the group.
    Added {
        /// The group.
        group: GroupName,
        /// Who.
        member: Member,
    },
    /// The member is not in the group any more.
    Removed {
        /// The group.
        group: GroupName,
        /// Who.
        member: Member,
    },
    /// The groups, in the order of their names; [`EVERYONE`] comes first.
    Listed {
        /// One for each.
        groups: Vec<GroupView>,
    },
    /// One group.
    Seen {
        /// What is known of it.
        group: Box<GroupView>,
        /// Its members, agents first.
        members: Vec<Member>,
        /// The agents that are in it by either way, each once, if that was asked for.
        agents: Option<Vec<AgentName>>,
    },
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Groups(reply)
    }
}

/// A group as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// The project that it belongs to.
    pub project: String,
    /// Its name in that project.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it; the relay itself if nobody did.
    pub created_by: Option<AgentName>,
    /// How many members it has; a role counts as one.
    pub members: usize,
}

/// Who is in a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Member {
    /// An agent.
    Agent(AgentName),
    /// All agents of a role.
    Role(Role),
}

/// Why a [`Command`] was not carried out, or a channel is not to be used. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such group.
    UnknownGroup {
        /// As given, cut if it is long.
        name: String,
        /// The groups of the project.
        known: Vec<String>,
    },
    /// There is no such channel.
    UnknownChannel {
        /// As given, cut if it is long.
        name: String,
        /// The channels of the project.
        known: Vec<String>,
    },
    /// There is such a group already.
    Exists {
        /// Its name.
        name: GroupName,
    },
    /// It is the group of all agents, which cannot be changed.
    Protected,
    /// Who was to be taken out of a group is not in it.
    NoMember {
        /// The group.
        group: GroupName,
        /// Who.
        member: Member,
    },
    /// A description is too long.
    DescriptionTooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// There are as many groups as there may be.
    TooManyGroups {
        /// How many.
        groups: usize,
    },
    /// The group has as many members as one may have.
    TooManyMembers {
        /// How many.
        members: usize,
    },
    /// There is such a channel already.
    ChannelExists {
        /// Its name.
        name: ChannelName,
    },
    /// It is a channel of all agents, which nobody leaves.
    ChannelOfAll {
        /// Its name.
        name: ChannelName,
    },
    /// Who was to leave a channel is not in it.
    NotInChannel {
        /// The channel.
        name: ChannelName,
        /// Who.
        agent: AgentName,
    },
    /// An agent's session asked for what only the person may.
    OnlyThePerson,
    /// A channel was to be made with nobody in it.
    NobodyIn {
        /// Its name.
        name: ChannelName,
    },
    /// There are as many channels as there may be.
    TooManyChannels {
        /// How many.
        channels: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::UnknownGroup { .. } | Self::UnknownChannel { .. } => io::Class::Unknown,
            Self::Exists { .. }
            | Self::NoMember { .. }
            | Self::ChannelExists { .. }
            | Self::NotInChannel { .. } => io::Class::Conflict,
            Self::Protected
            | Self::ChannelOfAll { .. }
            | Self::DescriptionTooLong { .. }
            | Self::OnlyThePerson
            | Self::NobodyIn { .. } => io::Class::Bad,
            Self::TooManyGroups { .. } | Self::TooManyMembers { .. } | Self::TooManyChannels { .. } => {
                io::Class::Full
            }
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Groups(refusal)
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Group {
    description: String,
    created_at: Timestamp,
    created_by: AgentName,
    members: BTreeSet<Member>,
}

/// All groups and channels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Groups {
    groups: BTreeMap<GroupName, Group>,
    /// All but [`GENERAL`].
    channels: BTreeMap<ChannelName, Channel>,
}

impl Groups {
    /// Tells whether there is a group of that whole name.
    pub fn has_group(&self, name: &str) -> bool {
        self.groups.contains_key(name)
    }

    /// Returns the agents of a group, each once; none if there is no such group.
    pub fn members(&self, name: &GroupName, engine: &Engine) -> Option<Vec<AgentName>> {
        let group = self.groups.get(name)?;
        let mut agents = BTreeSet::new();
        for member in &group.members {
            match member {
                Member::Agent(agent) => {
                    agents.insert(agent.clone());
                }
                Member::Role(role) => agents.extend(engine.of_role(role).unwrap_or_default()),
            }
        }
        Some(agents.into_iter().collect())
    }

    /// Returns the members of a channel, and whether `from` becomes one by using it, as the person never does.
    pub fn channel(&self, name: &ChannelName, from: &AgentName, engine: &Engine) -> (Vec<AgentName>, bool) {
        if name.local() == GENERAL {
            return (engine.of_project(name.project()).collect(), false);
        }
        let members = self.channels.get(name).map(|channel| &channel.members);
        let joins = !from.is_person() && members.is_none_or(|members| !members.contains_key(from));
        (
            members.into_iter().flat_map(BTreeMap::keys).cloned().collect(),
            joins,
        )
    }

    /// Tells whether there is such a channel.
    pub fn has_channel(&self, name: &ChannelName) -> bool {
        name.local() == GENERAL || self.channels.contains_key(name)
    }

    /// Returns how many channels there are, beside those that are always there.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// Makes an agent a member of a channel, which is made if it is not there.
    pub fn join(&mut self, channel: ChannelName, agent: AgentName, now: Timestamp) {
        let channel = self.channels.entry(channel).or_insert_with(|| Channel::new(now));
        channel.members.insert(agent, now);
    }

    /// Takes an agent out of a channel; one that nobody is left in is gone.
    pub fn leave(&mut self, name: &ChannelName, agent: &AgentName) {
        self.channels.retain(|other, channel| {
            if other == name {
                channel.members.remove(agent);
            }
            !channel.members.is_empty()
        });
    }

    /// Returns a channel that somebody has made; none if it is not there, or the one of all agents.
    pub fn channel_named(&self, name: &ChannelName) -> Option<&Channel> {
        self.channels.get(name)
    }

    /// The same, to change it.
    ///
    /// # Panics
    ///
    /// When it is not there.
    pub fn channel_mut(&mut self, name: &ChannelName) -> &mut Channel {
        self.channels.get_mut(name).expect("somebody has joined it")
    }

    /// Goes through the channels of a project but the one of all agents, in the order of their names.
    pub fn channels_of(&self, project: &str) -> impl Iterator<Item = (&ChannelName, &Channel)> {
        let channels = self.channels.iter();
        channels.filter(move |(name, _)| name.project() == project)
    }

    /// Forgets an agent that is gone; a channel that nobody is left in is gone too.
    pub fn forget(&mut self, agent: &AgentName) {
        for group in self.groups.values_mut() {
            group.members.remove(&Member::Agent(agent.clone()));
        }
        self.channels.retain(|_, channel| {
            channel.members.remove(agent);
            !channel.members.is_empty()
        });
    }

    /// Tells whether all that is named in groups and channels is one of these agents, for the invariants.
    pub fn know_only(&self, is_known: impl Fn(&AgentName) -> bool) -> bool {
        let members = self.groups.values().flat_map(|group| &group.members);
        let agents = members.filter_map(|member| match member {
            Member::Agent(agent) => Some(agent),
            Member::Role(_) => None,
        });
        let of_channels = self.channels.values().map(|channel| &channel.members);
        let nobody_left = of_channels.clone().any(BTreeMap::is_empty);
        let mut all = agents.chain(of_channels.flat_map(BTreeMap::keys));
        all.all(is_known) && !nobody_left
    }
}

impl Engine {
    /// Carries a command out.
    pub(super) fn about_groups(
        &mut self,
        session: SessionId,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Outcome, io::Refusal> {
        let speaker = self.speaker(session, NamedAs::Sender, None)?;
        let by = speaker.agent();
        let reply = match command {
            Command::Create { name, description } => self.create(by, &name, description, step.wall)?,
            Command::Delete { name } => {
                let name = self.group(by, &name)?;
                self.groups.groups.remove(&name);
                Reply::Deleted { name }
            }
            Command::Add { group, member } => {
                let (group, member) = (self.group(by, &group)?, self.member(by, member)?);
                let members_max = self.bounds.members_max;
                let members = &mut self.groups.groups.get_mut(&group).expect("it was found").members;
                if !members.contains(&member) && members.len() >= members_max {
                    let members = members.len();
                    return Err(Refusal::TooManyMembers { members }.into());
                }
                members.insert(member.clone());
                Reply::Added { group, member }
            }
            Command::Remove { group, member } => {
                let group = self.group(by, &group)?;
                let member = self.named(by, member)?;
                let members = &mut self.groups.groups.get_mut(&group).expect("it was found").members;
                if !members.remove(&member) {
                    return Err(Refusal::NoMember { group, member }.into());
                }
                Reply::Removed { group, member }
            }
            Command::List { project } => {
                let project = self.home.meant(project.as_deref().unwrap_or(by.project()));
                check_name("project", project).map_err(agents::Refusal::from)?;
                let of_project = self.groups.groups.iter();
                let of_project = of_project.filter(|(name, _)| name.project() == project);
                let groups = of_project.map(|(name, group)| group.view(name));
                let groups = [self.everyone(project)].into_iter().chain(groups).collect();
                Reply::Listed { groups }
            }
            Command::Get { name, expand } => self.look(by, &name, expand)?,
        };
        let by = speaker.into_agent();
        self.acts(session, &by, step);
        Ok(reply.into())
    }

    fn create(
        &mut self,
        by: &AgentName,
        name: &str,
        description: String,
        now: Timestamp,
    ) -> Result<Reply, io::Refusal> {
        let name = self.group_name(by, name)?;
        if name.local() == PERSON {
            // What is sent to @user is to reach the person, or nobody.
            let (noun, name) = ("group", PERSON.to_owned());
            return Err(agents::Refusal::from(InvalidName::Reserved { noun, name }).into());
        }
        if self.groups.has_group(name.as_str()) {
            return Err(Refusal::Exists { name }.into());
        }
        if description.len() > self.bounds.description_bytes_max {
            return Err(Refusal::DescriptionTooLong {
                bytes: description.len(),
                bytes_max: self.bounds.description_bytes_max,
            }
            .into());
        }
        let groups = self.groups.groups.len();
        if groups >= self.bounds.groups_max {
            return Err(Refusal::TooManyGroups { groups }.into());
        }
        let group = Group {
            description,
            created_at: now,
            created_by: by.clone(),
            members: BTreeSet::new(),
        };
        self.groups.groups.insert(name.clone(), group);
        Ok(Reply::Created { name })
    }

    fn look(&self, by: &AgentName, name: &str, expand: bool) -> Result<Reply, io::Refusal> {
        if let (project, EVERYONE) = self.parted(by, name) {
            check_name("project", project).map_err(agents::Refusal::from)?;
            let agents: Vec<AgentName> = self.of_project(project).collect();
            return Ok(Reply::Seen {
                group: Box::new(self.everyone(project)),
                members: agents.iter().cloned().map(Member::Agent).collect(),
                agents: expand.then_some(agents),
            });
        }
        let name = self.group(by, name)?;
        let group = &self.groups.groups[&name];
        Ok(Reply::Seen {
            group: Box::new(group.view(&name)),
            members: group.members.iter().cloned().collect(),
            agents: expand.then(|| self.groups.members(&name, self).unwrap_or_default()),
        })
    }

    fn everyone(&self, project: &str) -> GroupView {
        GroupView {
            project: project.to_owned(),
            name: EVERYONE.to_owned(),
            description: "All agents".to_owned(),
            created_at: self.boot.started_at,
            created_by: None,
            members: self.of_project(project).count(),
        }
    }

    /// Finds a group that may be changed.
    fn group(&self, by: &AgentName, name: &str) -> Result<GroupName, io::Refusal> {
        let group = self.group_name(by, name)?;
        if self.groups.has_group(group.as_str()) {
            return Ok(group);
        }
        let known = self.groups.groups.keys();
        let known = known.filter(|name| name.project() == group.project());
        let refusal = Refusal::UnknownGroup {
            name: shown(name),
            known: known.map(|name| name.local().to_owned()).collect(),
        };
        Err(refusal.into())
    }

    /// Checks the name of a group that is to be changed, and makes it whole.
    fn group_name(&self, by: &AgentName, name: &str) -> Result<GroupName, io::Refusal> {
        let (project, name) = self.parted(by, name);
        if name == EVERYONE {
            return Err(Refusal::Protected.into());
        }
        let name = GroupName::in_project(project, name);
        Ok(name.map_err(agents::Refusal::from)?)
    }

    /// Takes a group's name apart: its project, or else the caller's own, and what is left without the `@`.
    fn parted<'a>(&self, by: &'a AgentName, name: &'a str) -> (&'a str, &'a str) {
        let (project, name) = self.home.parted(by.project(), name);
        (project, name.strip_prefix('@').unwrap_or(name))
    }

    /// Finds whom a new member means: an agent has to be there.
    fn member(&self, by: &AgentName, member: Named) -> Result<Member, agents::Refusal> {
        match member {
            Named::Agent(name) => {
                let name = name.strip_prefix('@').unwrap_or(&name);
                let agent = self.known_in(by.project(), name)?;
                if agent.is_person() {
                    return Err(self.refuse_person(NamedAs::Sender));
                }
                Ok(Member::Agent(agent))
            }
            role @ Named::Role(_) => self.named(by, role),
        }
    }

    /// Finds whom a member means, who may have gone.
    fn named(&self, by: &AgentName, member: Named) -> Result<Member, agents::Refusal> {
        match member {
            Named::Agent(name) => {
                let name = name.strip_prefix('@').unwrap_or(&name);
                let (project, name) = self.home.parted(by.project(), name);
                Ok(Member::Agent(AgentName::in_project(project, name)?))
            }
            Named::Role(role) => {
                let role = role.strip_prefix('@').unwrap_or(&role);
                Ok(Member::Role(Role::in_project(by.project(), role)?))
            }
        }
    }

    /// Finds a channel that somebody in a project has written, which must be there.
    pub(super) fn known_channel(&self, project: &str, name: &str) -> Result<ChannelName, io::Refusal> {
        let channel = self.channel_name(project, name)?;
        if self.groups.has_channel(&channel) {
            return Ok(channel);
        }
        let known = self.groups.channels_of(channel.project());
        let known = known.map(|(known, _)| known.local());
        let known = [GENERAL].into_iter().chain(known);
        let refusal = Refusal::UnknownChannel {
            name: format!("#{}", channel.local()),
            known: known.map(|name| format!("#{name}")).collect(),
        };
        Err(refusal.into())
    }
}

impl Group {
    fn view(&self, name: &GroupName) -> GroupView {
        GroupView {
            project: name.project().to_owned(),
            name: name.local().to_owned(),
            description: self.description.clone(),
            created_at: self.created_at,
            created_by: Some(self.created_by.clone()),
            members: self.members.len(),
        }
    }
}

//! Channels, for whoever asks for one by name: to make, join or leave it, and to see who is in it. A channel is joined by its use
//! as well: by a post to it, and by a read of it.

use std::collections::{BTreeMap, BTreeSet};

use super::agents::{self, NamedAs};
use super::events::Event;
use super::groups::{GENERAL, Refusal};
use super::io::{self, Outcome};
use super::names::{AgentName, ChannelName, DEFAULT_PROJECT, SessionId, check_name};
use super::time::Timestamp;
use super::{Engine, Step};

/// What may be asked about channels. Names are as given, not checked yet: `name`, `#name`, `project:name` or `project:#name`;
/// without a project, the session's own is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Makes a channel that is not there, with the session's agent as its first member.
    Make {
        /// Its name.
        name: String,
        /// What it is about; empty if nothing is said.
        topic: String,
    },
    /// Makes the session's agent a member, of a channel that is made if it is not there; nothing if it is one.
    Join {
        /// The channel.
        name: String,
    },
    /// Takes the session's agent out of a channel, which is gone if nobody is left in it.
    Leave {
        /// The channel.
        name: String,
    },
    /// Changes who is in a channel in their stead. Only the person may, who is in none itself.
    Change {
        /// The channel.
        name: String,
        /// How.
        change: Change,
    },
    /// Lists the channels of a project.
    List {
        /// The session's own if it is left out.
        project: Option<String>,
    },
    /// Looks at one channel.
    Get {
        /// Its name.
        name: String,
    },
}

/// What the person makes of a channel. Agents are as given, not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Change {
    /// Makes one that is not there.
    Make {
        /// What it is about; empty if nothing is said.
        topic: String,
        /// Its first members, at least one.
        agents: Vec<String>,
    },
    /// Puts agents into one that is there; who is in it stays.
    Add {
        /// Whom.
        agents: Vec<String>,
    },
    /// Takes agents out of one, which is gone if nobody is left in it.
    Take {
        /// Whom.
        agents: Vec<String>,
    },
    /// Takes all out of it.
    End,
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Channels(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The session's agent is in the channel.
    Joined {
        /// The channel as it is now.
        channel: Box<ChannelView>,
        /// It was in it before.
        already: bool,
    },
    /// The session's agent is in the channel no more.
    Left {
        /// The channel.
        name: ChannelName,
    },
    /// The channel is as the person has made it.
    Changed {
        /// The channel.
        name: ChannelName,
        /// Who is in it now; without anybody it is gone.
        members: Vec<AgentName>,
    },
    /// Channels, in the order of their names; the one of all agents is the first.
    Listed {
        /// One for each.
        channels: Vec<ChannelView>,
    },
    /// The channel that was asked for.
    Seen {
        /// As it is.
        channel: Box<ChannelView>,
    },
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Channels(reply)
    }
}

/// A channel as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelView {
    /// Its name.
    pub name: ChannelName,
    /// What it is about; empty if nobody said.
    pub topic: String,
    /// When it was made: for the one of all agents, the start of the relay.
    pub created_at: Timestamp,
    /// Who is in it and since when, in the order of their names.
    pub members: Vec<(AgentName, Timestamp)>,
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Channel {
    pub topic: String,
    pub created_at: Timestamp,
    /// Since when each is in it; never nobody.
    pub members: BTreeMap<AgentName, Timestamp>,
}

impl Channel {
    /// Makes one that nobody is in yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            topic: String::new(),
            created_at: now,
            members: BTreeMap::new(),
        }
    }

    fn view(&self, name: &ChannelName) -> ChannelView {
        ChannelView {
            name: name.clone(),
            topic: self.topic.clone(),
            created_at: self.created_at,
            members: self
                .members
                .iter()
                .map(|(agent, at)| (agent.clone(), *at))
                .collect(),
        }
    }
}

impl Engine {
    /// Carries a command out.
    pub(super) fn about_channels(
        &mut self,
        session: SessionId,
        command: Command,
        step: &mut Step<'_>,
    ) -> Result<Outcome, io::Refusal> {
        match command {
            Command::Make { name, topic } => {
                let agent = self.member_to_be(session)?;
                let name = self.channel_name(agent.project(), &name)?;
                if self.groups.has_channel(&name) {
                    return Err(Refusal::ChannelExists { name }.into());
                }
                let (bytes, bytes_max) = (topic.len(), self.bounds.description_bytes_max);
                if bytes > bytes_max {
                    return Err(Refusal::DescriptionTooLong { bytes, bytes_max }.into());
                }
                self.room_for_channel(&name)?;
                self.join(name.clone(), &agent, step);
                self.groups.channel_mut(&name).topic = topic;
                self.acts(session, &agent, step);
                Ok(self.joined(&name, false).into())
            }
            Command::Join { name } => {
                let agent = self.member_to_be(session)?;
                let name = self.channel_name(agent.project(), &name)?;
                self.room_for_channel(&name)?;
                let already = !self.groups.channel(&name, &agent, self).1;
                if !already {
                    self.join(name.clone(), &agent, step);
                }
                self.acts(session, &agent, step);
                Ok(self.joined(&name, already).into())
            }
            Command::Leave { name } => {
                let agent = self.member_to_be(session)?;
                let name = self.known_channel(agent.project(), &name)?;
                if name.local() == GENERAL {
                    return Err(Refusal::ChannelOfAll { name }.into());
                }
                if self.groups.channel(&name, &agent, self).1 {
                    return Err(Refusal::NotInChannel { name, agent }.into());
                }
                self.groups.leave(&name, &agent);
                step.note(Event::Left {
                    channel: name.clone(),
                    agent: agent.clone(),
                });
                self.acts(session, &agent, step);
                Ok(Reply::Left { name }.into())
            }
            Command::Change { name, change } => Ok(self.change_channel(session, &name, change, step)?.into()),
            Command::List { project } => {
                let project = self.project_asked(session, project)?;
                let channels = self.groups.channels_of(&project);
                let views = channels.map(|(name, channel)| channel.view(name));
                let channels = [self.general(&project)?].into_iter().chain(views).collect();
                Ok(Reply::Listed { channels }.into())
            }
            Command::Get { name } => {
                let project = self.project_asked(session, None)?;
                let name = self.known_channel(&project, &name)?;
                let channel = Box::new(self.channel_view(&name)?);
                Ok(Reply::Seen { channel }.into())
            }
        }
    }

    /// Changes who is in a channel as the person says.
    fn change_channel(
        &mut self,
        session: SessionId,
        name: &str,
        change: Change,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        if !self.sessions[&session].person {
            return Err(Refusal::OnlyThePerson.into());
        }
        let name = match change {
            Change::Make { .. } => self.channel_name(DEFAULT_PROJECT, name)?,
            Change::Add { .. } | Change::Take { .. } | Change::End => {
                self.known_channel(DEFAULT_PROJECT, name)?
            }
        };
        match change {
            Change::Make { topic, agents } => {
                if self.groups.has_channel(&name) {
                    return Err(Refusal::ChannelExists { name }.into());
                }
                let (bytes, bytes_max) = (topic.len(), self.bounds.description_bytes_max);
                if bytes > bytes_max {
                    return Err(Refusal::DescriptionTooLong { bytes, bytes_max }.into());
                }
                let agents = self.agents_named(&name, &agents)?;
                if agents.is_empty() {
                    return Err(Refusal::NobodyIn { name }.into());
                }
                self.room_for_channel(&name)?;
                for agent in &agents {
                    self.join(name.clone(), agent, step);
                }
                self.groups.channel_mut(&name).topic = topic;
            }
            Change::Add { agents } => {
                for agent in self.agents_named(&name, &agents)? {
                    if self.groups.channel(&name, &agent, self).1 {
                        self.join(name.clone(), &agent, step);
                    }
                }
            }
            Change::Take { agents } => {
                let agents = self.agents_named(&name, &agents)?;
                self.take_out(&name, agents, step)?;
            }
            Change::End => {
                let members = self.channel_view(&name)?.members.into_iter();
                self.take_out(&name, members.map(|(agent, _)| agent).collect(), step)?;
            }
        }
        self.acts(session, &AgentName::person(), step);
        let members = match self.groups.has_channel(&name) {
            true => self.channel_view(&name)?.members,
            false => Vec::new(),
        };
        let members = members.into_iter().map(|(agent, _)| agent).collect();
        Ok(Reply::Changed { name, members })
    }

    /// Takes agents out of a channel, if all of them are in it and it is not the one of all.
    fn take_out(
        &mut self,
        name: &ChannelName,
        agents: BTreeSet<AgentName>,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        if name.local() == GENERAL {
            return Err(Refusal::ChannelOfAll { name: name.clone() });
        }
        let is_missing = |agent: &&AgentName| self.groups.channel(name, agent, self).1;
        if let Some(agent) = agents.iter().find(is_missing) {
            return Err(Refusal::NotInChannel {
                name: name.clone(),
                agent: agent.clone(),
            });
        }
        for agent in agents {
            self.groups.leave(name, &agent);
            let channel = name.clone();
            step.note(Event::Left { channel, agent });
        }
        Ok(())
    }

    /// Finds the agents that somebody has named for a channel, each once; the person is none.
    fn agents_named(
        &self,
        channel: &ChannelName,
        given: &[String],
    ) -> Result<BTreeSet<AgentName>, agents::Refusal> {
        let named = given.iter().map(|given| {
            let agent = self.known_in(channel.project(), given.strip_prefix('@').unwrap_or(given))?;
            if agent.is_person() {
                return Err(self.refuse_person(NamedAs::Sender));
            }
            Ok(agent)
        });
        named.collect()
    }

    /// Finds the agent that a session is bound to, since nobody else can be in a channel.
    fn member_to_be(&self, session: SessionId) -> Result<AgentName, agents::Refusal> {
        let agent = self.speaker(session, NamedAs::Sender, None)?.into_agent();
        if agent.is_person() {
            return Err(self.refuse_person(NamedAs::Sender));
        }
        Ok(agent)
    }

    /// Finds the project that a look is about.
    fn project_asked(&self, session: SessionId, project: Option<String>) -> Result<String, agents::Refusal> {
        self.check_not_fenced(session)?;
        let own = self.sessions[&session].agent.as_ref();
        let own = own.map_or(DEFAULT_PROJECT, AgentName::project);
        let project = self.home.meant(project.as_deref().unwrap_or(own));
        check_name("project", project)?;
        Ok(project.to_owned())
    }

    /// Makes an agent a member of a channel that is there or may be made.
    pub(super) fn join(&mut self, channel: ChannelName, agent: &AgentName, step: &mut Step<'_>) {
        self.groups.join(channel.clone(), agent.clone(), step.wall);
        let agent = agent.clone();
        step.note(Event::Joined { channel, agent });
    }

    /// Sees to it that a channel is there, or can be made.
    pub(super) fn room_for_channel(&self, name: &ChannelName) -> Result<(), Refusal> {
        let channels = self.groups.channels();
        if self.groups.has_channel(name) || channels < self.bounds.channels_max {
            return Ok(());
        }
        Err(Refusal::TooManyChannels { channels })
    }

    fn joined(&self, name: &ChannelName, already: bool) -> Reply {
        let channel = self.channel_view(name).expect("its member has just joined it");
        let channel = Box::new(channel);
        Reply::Joined { channel, already }
    }

    /// Reads the name of a channel as somebody in a project has written it.
    pub(super) fn channel_name(&self, project: &str, given: &str) -> Result<ChannelName, agents::Refusal> {
        let bare = given.strip_prefix('#').unwrap_or(given);
        let (project, bare) = match bare.contains(':') {
            true => {
                let (project, name) = self.home.parted(project, bare);
                (project, name.strip_prefix('#').unwrap_or(name))
            }
            false => (project, bare),
        };
        check_name("channel", bare)?;
        Ok(ChannelName::in_project(project, bare)?)
    }

    fn channel_view(&self, name: &ChannelName) -> Result<ChannelView, agents::Refusal> {
        match self.groups.channel_named(name) {
            Some(channel) => Ok(channel.view(name)),
            None => self.general(name.project()),
        }
    }

    /// Shows the channel of all agents of a project.
    fn general(&self, project: &str) -> Result<ChannelView, agents::Refusal> {
        let created_at = self.boot.started_at;
        Ok(ChannelView {
            name: ChannelName::in_project(project, GENERAL)?,
            topic: String::new(),
            created_at,
            members: self
                .of_project(project)
                .map(|agent| (agent, created_at))
                .collect(),
        })
    }
}

//! Who gets a message is settled when it is accepted: by who there is then, what they said of themselves, and the groups and
//! channels as they are.

use relay::engine::groups::{Member, Reply as Answer};

use super::entries::Admitted;
use super::*;

/// What is known of those who are there.
#[derive(Default)]
struct World<'a> {
    /// The role of each agent that has one.
    roles: BTreeMap<&'a AgentName, String>,
    /// The members of each group, by the text of its address.
    groups: BTreeMap<String, BTreeSet<Member>>,
    /// The members of each channel, by the text of its address.
    channels: BTreeMap<String, BTreeSet<&'a AgentName>>,
    /// The agents that a session has registered.
    registered: BTreeSet<&'a AgentName>,
    /// Those of them that stay without one.
    durable: BTreeSet<&'a AgentName>,
}

impl History<'_> {
    pub(super) fn who_gets_a_message_is_who_was_meant_when_it_was_accepted(&self) -> Verdict {
        let mut world = World::default();
        for (at, step) in self.steps.iter().enumerate() {
            for effect in &step.all_effects {
                world.note(step, effect);
                let Effect::Note(relay::engine::Event::Accepted { message, agents, .. }) = effect else {
                    continue;
                };
                let there: Vec<&AgentName> = step.after.pending.iter().map(|(name, _)| name).collect();
                let mut meant = world.meant(message, &there);
                let by_name = message.to.by() == ResolvedBy::Name;
                if !by_name {
                    let several = message.to.as_str().split(", ");
                    let named: Vec<&str> = several.filter(|_| message.to.by() == ResolvedBy::List).collect();
                    meant.retain(|agent| {
                        **agent != message.from
                            && (named.contains(&agent.as_str()) || !self.is_going(&world, agent, at))
                    });
                }
                holds(at, agents.iter().collect::<Vec<_>>() == meant, || {
                    format!("{message:?} went to {agents:?}, not to {meant:?}")
                })?;
                let channel = message.to.by() == ResolvedBy::Channel;
                holds(at, channel || !agents.is_empty(), || {
                    "a message went to nobody".to_owned()
                })?;
            }
        }
        Ok(())
    }

    /// Tells whether an agent goes with its last session, and that one has ended.
    fn is_going(&self, world: &World<'_>, agent: &AgentName, at: usize) -> bool {
        let is_there = |session: &Admitted| {
            let ended = [session.closed, session.fenced].into_iter().flatten().min();
            session.opened < at && ended.is_none_or(|ended| ended > at)
        };
        let mut sessions = self.sessions.values();
        let is_transient = world.registered.contains(agent) && !world.durable.contains(agent);
        is_transient && !sessions.any(|session| session.agent.as_ref() == Some(agent) && is_there(session))
    }
}

impl<'a> World<'a> {
    fn note(&mut self, step: &'a Step, effect: &'a Effect) {
        match effect {
            Effect::Opened {
                result: Ok(Some(agent)),
                ..
            } => {
                if let Event::Input(Input::Opened {
                    who: Who::Registered(registration),
                    ..
                }) = &step.event
                {
                    if let Some(role) = registration.profile.role.clone().filter(|role| !role.is_empty()) {
                        self.roles.insert(agent, role);
                    }
                    if !registration.transient {
                        self.durable.insert(agent);
                    }
                }
            }
            Effect::Note(relay::engine::Event::Registered { agent }) => {
                self.registered.insert(agent);
            }
            Effect::Note(relay::engine::Event::Joined { channel, agent }) => {
                let channel = Recipient::channel(channel).to_string();
                self.channels.entry(channel).or_default().insert(agent);
            }
            Effect::Note(relay::engine::Event::Left { channel, agent }) => {
                let channel = Recipient::channel(channel).to_string();
                let left = self.channels.entry(channel).or_default().remove(agent);
                assert!(left, "who leaves a channel was in it");
            }
            Effect::Note(relay::engine::Event::Gone { agent }) => {
                self.roles.remove(agent);
                self.registered.remove(agent);
                self.durable.remove(agent);
                for members in self.channels.values_mut() {
                    members.remove(agent);
                }
                for members in self.groups.values_mut() {
                    members.remove(&Member::Agent(agent.clone()));
                }
            }
            Effect::Reply {
                result: Ok(reply), ..
            } => {
                let reply = if let Reply::AfterStart { reply, .. } = reply {
                    reply
                } else {
                    reply
                };
                if let Reply::Groups(answer) = reply {
                    self.note_group(answer);
                }
            }
            Effect::Opened { .. }
            | Effect::Reply { .. }
            | Effect::Changed { .. }
            | Effect::Deliver { .. }
            | Effect::Tell { .. }
            | Effect::Invoke { .. }
            | Effect::Superseded { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. }
            | Effect::Note(_) => {}
        }
    }

    fn note_group(&mut self, answer: &Answer) {
        let text = |name| Recipient::group(name).to_string();
        match answer {
            Answer::Created { name } => {
                self.groups.insert(text(name), BTreeSet::new());
            }
            Answer::Deleted { name } => {
                self.groups.remove(&text(name));
            }
            Answer::Added { group, member } => {
                let members = self.groups.entry(text(group)).or_default();
                members.insert(member.clone());
            }
            Answer::Removed { group, member } => {
                let members = self.groups.entry(text(group)).or_default();
                members.remove(member);
            }
            Answer::Listed { .. } | Answer::Seen { .. } => {}
        }
    }

    /// Lists whom a message means by where it was sent, in the order of their names.
    fn meant(&self, message: &Message, there: &[&'a AgentName]) -> Vec<&'a AgentName> {
        if message.to.by() == ResolvedBy::List {
            return self.meant_by_several(message, there);
        }
        self.meant_by(message.to.as_str(), message.to.by(), there)
    }

    /// A part that begins with `@` is a role if anybody has that, else a group.
    fn meant_by_several(&self, message: &Message, there: &[&'a AgentName]) -> Vec<&'a AgentName> {
        let mut meant = BTreeSet::new();
        for to in message.to.as_str().split(", ") {
            let local = to.split_once(':').map_or(to, |(_, local)| local);
            let by_role = || self.meant_by(to, ResolvedBy::Role, there);
            meant.extend(match local.starts_with('@') {
                false => self.meant_by(to, ResolvedBy::Name, there),
                true if by_role().is_empty() => self.meant_by(to, ResolvedBy::Group, there),
                true => by_role(),
            });
        }
        meant.into_iter().collect()
    }

    fn meant_by(&self, to: &str, by: ResolvedBy, there: &[&'a AgentName]) -> Vec<&'a AgentName> {
        let (project, local) = to.split_once(':').unwrap_or(("default", to));
        let has_role = |agent: &AgentName, project: &str, role: &str| {
            agent.project() == project && self.roles.get(agent).is_some_and(|own| own == role)
        };
        let is_meant = |agent: &AgentName| match by {
            ResolvedBy::Name => agent.as_str() == to,
            ResolvedBy::Role => has_role(agent, project, &local[1..]),
            ResolvedBy::Group => self
                .groups
                .get(to)
                .into_iter()
                .flatten()
                .any(|member| match member {
                    Member::Agent(member) => agent == member,
                    Member::Role(role) => has_role(agent, role.project(), role.local()),
                }),
            ResolvedBy::Channel if local == "#general" => agent.project() == project,
            ResolvedBy::Channel => self
                .channels
                .get(to)
                .is_some_and(|members| members.contains(agent)),
            ResolvedBy::Broadcast => to == "*:*" || agent.project() == project,
            ResolvedBy::List => unreachable!("each of several is one of the others"),
        };
        let by_name = by == ResolvedBy::Name;
        let meant = there
            .iter()
            .copied()
            .filter(|agent| by_name || !agent.is_person());
        let mut meant: Vec<&AgentName> = meant.filter(|agent| is_meant(agent)).collect();
        meant.sort();
        meant
    }
}

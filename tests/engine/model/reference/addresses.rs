//! Whom an address means: the table of `engine::address`, row by row.

use relay::engine::address::{InvalidAddress, Warning};

use super::*;

/// Who is meant.
pub(super) struct Meant {
    pub(super) to: Recipient,
    /// In the order of their names.
    pub(super) agents: Vec<AgentName>,
    pub(super) warnings: Vec<Warning>,
    /// The channel, if it is one.
    pub(super) channel: Option<ChannelName>,
}

impl Model {
    pub(super) fn meant(&mut self, from: &AgentName, address: &str) -> Result<Meant, Refusal> {
        if address == "user" {
            self.marks.reach(Mark::PostToPerson);
            return Ok(alone(AgentName::person()));
        }
        if address.contains(',') {
            return self.several(from, address);
        }
        let parts: Vec<&str> = address.split(':').collect();
        let (project, whom) = match parts[..] {
            ["*", "*"] => {
                self.marks.reach(AddressMark::ToAllProjects);
                let all = self.agents.iter().map(|agent| agent.name.clone()).collect();
                return self.many(from, Recipient::everyone(None), all);
            }
            [whom] => (from.project(), vec![whom]),
            ["agent", role, hash] => (from.project(), vec!["agent", role, hash]),
            [project, whom] => (project, vec![whom]),
            [project, "agent", role, hash] => (project, vec!["agent", role, hash]),
            _ => return Err(self.no_address(from, address)),
        };
        self.marks
            .reach_if(self.home == Some(project), AddressMark::ToHomeByItsName);
        let project = self.project(project);
        let has_project = parts.len() == 2 || parts.len() == 4;
        if has_project && !is_name("project", project) {
            return Err(self.no_address(from, address));
        }
        self.marks.reach_if(
            has_project && project != from.project(),
            AddressMark::ToAnotherProject,
        );
        match whom[..] {
            ["*" | "@everyone"] => {
                let agents = self.of_project(project);
                if agents.is_empty() {
                    self.marks.reach(Mark::UnknownRecipient);
                    return Err(self.unknown(project, address));
                }
                self.marks.reach(AddressMark::ToEveryone);
                self.many(from, Recipient::everyone(Some(project)), agents)
            }
            ["agent", role, hash] if is_name("role", role) && is_name("", hash) => {
                let role = Role::in_project(project, role).expect("it is a name");
                let agents = self.of_role(&role);
                if agents.is_empty() {
                    self.marks.reach(Mark::UnknownRecipient);
                    return Err(self.unknown(project, address));
                }
                self.marks.reach(AddressMark::ToRoleAlone);
                self.many(from, Recipient::role(&role), agents)
            }
            [whom]
                if whom
                    .strip_prefix('#')
                    .is_some_and(|name| is_name("channel", name)) =>
            {
                let channel = ChannelName::in_project(project, &whom[1..]).expect("it is a name");
                self.by_channel(from, channel, address)
            }
            [whom] if is_name("role", whom.strip_prefix('@').unwrap_or(whom)) => {
                self.by_name(from, project, whom.strip_prefix('@').unwrap_or(whom), address)
            }
            _ => Err(self.no_address(from, address)),
        }
    }

    /// Each of several has to mean somebody, and is an agent, a role or a group.
    fn several(&mut self, from: &AgentName, address: &str) -> Result<Meant, Refusal> {
        // A comma may stand behind the last one.
        let listed = address.trim_end().strip_suffix(',').unwrap_or(address);
        let parts: Vec<&str> = listed.split(',').map(str::trim).collect();
        let mut all = Meant {
            to: Recipient::everyone(None),
            agents: Vec::new(),
            warnings: Vec::new(),
            channel: None,
        };
        let mut to = Vec::new();
        for part in parts {
            let meant = match part {
                "" => return Err(self.no_list(address)),
                part => self.meant(from, part)?,
            };
            if [ResolvedBy::Channel, ResolvedBy::Broadcast].contains(&meant.to.by()) {
                return Err(self.no_list(address));
            }
            all.agents.extend(meant.agents);
            if to.contains(&meant.to) {
                self.marks.reach(AddressMark::NamedTwice);
            } else {
                all.warnings.extend(meant.warnings);
                to.push(meant.to);
            }
        }
        all.agents.sort();
        all.agents.dedup();
        if to.len() > 1 {
            self.marks.reach(AddressMark::ToSeveral);
            self.marks
                .reach_if(all.agents.contains(from), AddressMark::SenderIsAmongThem);
            all.agents.retain(|agent| agent != from);
        }
        all.to = Recipient::list(to);
        if all.agents.is_empty() {
            let to = all.to;
            return Err(Refusal::Agents(agents::Refusal::Nobody { to }));
        }
        Ok(all)
    }

    fn no_list(&mut self, address: &str) -> Refusal {
        self.marks.reach(AddressMark::NoList);
        let given = address.to_owned();
        Refusal::Agents(InvalidAddress { given }.into())
    }

    /// Returns the project that is meant by a name of one: on its own relay that of all who name none.
    pub(super) fn project<'a>(&self, named: &'a str) -> &'a str {
        if self.home == Some(named) {
            "default"
        } else {
            named
        }
    }

    fn no_address(&mut self, from: &AgentName, address: &str) -> Refusal {
        if address.chars().any(|mark| ":@#*".contains(mark)) {
            self.marks.reach(AddressMark::NoAddress);
            let given = address.to_owned();
            return Refusal::Agents(InvalidAddress { given }.into());
        }
        self.marks.reach(Mark::UnknownRecipient);
        self.unknown(from.project(), address)
    }

    /// An agent goes before a role, and a role before a group.
    fn by_name(
        &mut self,
        from: &AgentName,
        project: &str,
        name: &str,
        address: &str,
    ) -> Result<Meant, Refusal> {
        let agent = AgentName::in_project(project, name).expect("it is a name");
        let role = Role::in_project(project, name).expect("it is a name");
        let group = GroupName::in_project(project, name).expect("it is a name");
        let of_role = self.of_role(&role);
        let is_group = self.groups.iter().any(|other| other.name == group);
        let also_group = is_group.then(|| Warning::AlsoGroup(group.clone()));
        if self.agents.iter().any(|other| other.name == agent) {
            let others = of_role.iter().any(|other| *other != agent);
            self.marks.reach_if(others, AddressMark::AgentBeforeRole);
            self.marks.reach_if(is_group, AddressMark::AgentBeforeGroup);
            self.marks.reach_if(agent == *from, AddressMark::ToItself);
            let also_role = others.then_some(Warning::AlsoRole(role));
            return Ok(Meant {
                warnings: also_role.into_iter().chain(also_group).collect(),
                ..alone(agent)
            });
        }
        if !of_role.is_empty() {
            self.marks.reach(AddressMark::ToRole);
            self.marks.reach_if(is_group, AddressMark::RoleBeforeGroup);
            let meant = self.many(from, Recipient::role(&role), of_role)?;
            return Ok(Meant {
                warnings: also_group.into_iter().collect(),
                ..meant
            });
        }
        if is_group {
            self.marks.reach(AddressMark::ToGroup);
            let agents = self.of_group(&group);
            return self.many(from, Recipient::group(&group), agents);
        }
        self.marks.reach(Mark::UnknownRecipient);
        Err(self.unknown(project, address))
    }

    fn by_channel(
        &mut self,
        from: &AgentName,
        channel: ChannelName,
        address: &str,
    ) -> Result<Meant, Refusal> {
        let is_there =
            channel.local() == "general" || self.channels.iter().any(|other| other.name == channel);
        let project = channel.project();
        let is_empty = self.of_project(project).is_empty();
        if is_empty && project != from.project() && (!is_there || channel.local() == "general") {
            self.marks.reach(AddressMark::ChannelOfNoProject);
            return Err(self.unknown(project, address));
        }
        let mut agents = self.of_channel(&channel);
        self.leave_out(from, &mut agents);
        self.marks.reach(AddressMark::ToChannel);
        self.marks
            .reach_if(channel.local() == "general", AddressMark::ToGeneral);
        self.marks
            .reach_if(agents.is_empty(), AddressMark::ToEmptyChannel);
        self.marks
            .reach_if(agents.is_empty() && !is_there, AddressMark::ToNobodysChannel);
        let nobody = agents.is_empty().then(|| match is_there {
            true => Warning::NobodyElse(channel.clone()),
            false => Warning::NobodysChannel(channel.clone()),
        });
        Ok(Meant {
            to: Recipient::channel(&channel),
            agents,
            warnings: nobody.into_iter().collect(),
            channel: Some(channel),
        })
    }

    /// Who sends to many gets no copy, nor does a transient agent without a session.
    fn leave_out(&mut self, from: &AgentName, agents: &mut Vec<AgentName>) {
        agents.retain(|agent| agent != from);
        agents.sort();
        let all = agents.len();
        let going = self.agents.iter().filter(|agent| agent.leaves_at.is_some());
        let going: Vec<AgentName> = going.map(|agent| agent.name.clone()).collect();
        agents.retain(|agent| !going.contains(agent));
        self.marks
            .reach_if(agents.len() < all, AddressMark::NoCopyForWhoGoes);
    }

    /// There has to be somebody else.
    fn many(
        &mut self,
        from: &AgentName,
        to: Recipient,
        mut agents: Vec<AgentName>,
    ) -> Result<Meant, Refusal> {
        self.marks
            .reach_if(agents.contains(from), AddressMark::SenderIsAmongThem);
        self.leave_out(from, &mut agents);
        if agents.is_empty() {
            self.marks.reach(AddressMark::NobodyIsMeant);
            return Err(Refusal::Agents(agents::Refusal::Nobody { to }));
        }
        Ok(Meant {
            to,
            agents,
            warnings: Vec::new(),
            channel: None,
        })
    }

    /// Lists the members of a channel: all agents of the project, or who has used it.
    pub(super) fn of_channel(&self, channel: &ChannelName) -> Vec<AgentName> {
        if channel.local() == "general" {
            return self.of_project(channel.project());
        }
        let mut channels = self.channels.iter();
        let found = channels.find(|other| other.name == *channel);
        let members = found.into_iter().flat_map(|channel| &channel.members);
        members.map(|(member, _)| member.clone()).collect()
    }

    /// Makes an agent a member of a channel, if it is not and may be one.
    pub(super) fn joins(&mut self, now: Timestamp, channel: &ChannelName, agent: &AgentName) {
        if channel.local() == "general" || agent.is_person() {
            return;
        }
        let Some(found) = self.channels.iter_mut().find(|other| other.name == *channel) else {
            self.marks.reach(Mark::ChannelMade);
            self.channels.push(Channel {
                name: channel.clone(),
                topic: String::new(),
                created_at: now,
                members: vec![(agent.clone(), now)],
            });
            return;
        };
        if !found.members.iter().any(|(member, _)| member == agent) {
            self.marks.reach(Mark::ChannelJoined);
            found.members.push((agent.clone(), now));
        }
    }
}

fn alone(agent: AgentName) -> Meant {
    Meant {
        to: Recipient::agent(&agent),
        agents: vec![agent],
        warnings: Vec::new(),
        channel: None,
    }
}

/// Tells whether a text can be the name of anything.
pub(super) fn is_name(noun: &'static str, text: &str) -> bool {
    why_no_name(noun, text).is_none()
}

/// Says why a text cannot be a name of something.
pub(super) fn why_no_name(noun: &'static str, text: &str) -> Option<InvalidName> {
    let name = text.to_owned();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric();
    let others = if matches!(noun, "role" | "group") {
        "-_."
    } else {
        "-_"
    };
    let is_good = (1..=32).contains(&text.len())
        && text
            .chars()
            .all(|letter| is_letter(letter) || others.contains(letter))
        && text.chars().next().is_some_and(is_letter)
        && !text.ends_with('.');
    if !is_good {
        return Some(InvalidName::Form { noun, name });
    }
    let is_taken = text == "everyone" || text == "agent";
    is_taken.then_some(InvalidName::Reserved { noun, name })
}

/// Takes the first of the names apart that is none.
pub(super) fn names(them: &[(&'static str, &str)]) -> Result<(), Refusal> {
    let mut bad = them.iter().filter_map(|(noun, text)| why_no_name(noun, text));
    match bad.next() {
        Some(bad) => Err(Refusal::Agents(agents::Refusal::InvalidName(bad))),
        None => Ok(()),
    }
}

//! Groups, and what they are asked for; and who leaves them and the channels.

use relay::engine::groups::{Command as Ask, GroupView, Member, Named, Refusal as No, Reply as Answer};

use super::addresses::names;
use super::*;

impl Model {
    pub(super) fn about_groups(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        command: Ask,
    ) -> Result<Vec<Effect>, Refusal> {
        let by = self.speaker(open, NamedAs::Sender, None)?;
        let answer = match command {
            Ask::Create { name, description } => {
                let name = self.group_name(&by, &name)?;
                self.create(now, &by, name, description)?
            }
            Ask::Delete { name } => {
                let group = self.group(&by, &name)?;
                self.groups.retain(|other| other.name != group);
                self.marks.reach(Mark::GroupDeleted);
                Answer::Deleted { name: group }
            }
            Ask::Add { group, member } => {
                let group = self.group(&by, &group)?;
                let member = self.member(&by, member)?;
                self.add(group, member)?
            }
            Ask::Remove { group, member } => {
                let group = self.group(&by, &group)?;
                let member = self.former_member(&by, member)?;
                let of_group = self.members_of(&group);
                if !of_group.contains(&member) {
                    self.marks.reach(Mark::NoMember);
                    return Err(Refusal::Groups(No::NoMember { group, member }));
                }
                of_group.retain(|other| *other != member);
                self.marks.reach(Mark::MemberRemoved);
                Answer::Removed { group, member }
            }
            Ask::List { project } => {
                let project = self.project(project.as_deref().unwrap_or(by.project()));
                names(&[("project", project)])?;
                let mut of_project = self.groups.clone();
                of_project.retain(|group| group.name.project() == project);
                of_project.sort_by(|one, other| one.name.cmp(&other.name));
                let views = of_project.iter().map(view);
                Answer::Listed {
                    groups: [self.everyone(project)].into_iter().chain(views).collect(),
                }
            }
            Ask::Get { name, expand } => self.look(&by, &name, expand)?,
        };
        self.contact(now, open.session, &by);
        Ok(vec![self.answer(open, call, Reply::Groups(answer))])
    }

    fn create(
        &mut self,
        now: Timestamp,
        by: &AgentName,
        name: GroupName,
        description: String,
    ) -> Result<Answer, Refusal> {
        if self.groups.iter().any(|group| group.name == name) {
            self.marks.reach(Mark::GroupExists);
            return Err(Refusal::Groups(No::Exists { name }));
        }
        let (bytes, bytes_max) = (description.len(), self.bounds.description_bytes_max);
        if bytes > bytes_max {
            self.marks.reach(Mark::DescriptionTooLong);
            return Err(Refusal::Groups(No::DescriptionTooLong { bytes, bytes_max }));
        }
        let groups = self.groups.len();
        if groups >= self.bounds.groups_max {
            self.marks.reach(Mark::TooManyGroups);
            return Err(Refusal::Groups(No::TooManyGroups { groups }));
        }
        self.marks
            .reach_if(name.project() != by.project(), Mark::GroupOfAnotherProject);
        self.groups.push(Group {
            name: name.clone(),
            description,
            created_at: now,
            created_by: by.clone(),
            members: Vec::new(),
        });
        Ok(Answer::Created { name })
    }

    fn add(&mut self, group: GroupName, member: Member) -> Result<Answer, Refusal> {
        let members_max = self.bounds.members_max;
        let of_group = self.members_of(&group);
        let members = of_group.len();
        if of_group.contains(&member) {
            self.marks.reach(Mark::MemberTwice);
        } else if members >= members_max {
            self.marks.reach(Mark::TooManyMembers);
            return Err(Refusal::Groups(No::TooManyMembers { members }));
        } else {
            of_group.push(member.clone());
            self.marks.reach(Mark::MemberAdded);
        }
        Ok(Answer::Added { group, member })
    }

    fn look(&mut self, by: &AgentName, name: &str, expand: bool) -> Result<Answer, Refusal> {
        let (project, local) = self.parts(by, name);
        if local == "everyone" {
            names(&[("project", project)])?;
            let agents = self.of_project(project);
            return Ok(Answer::Seen {
                group: Box::new(self.everyone(project)),
                members: agents.iter().cloned().map(Member::Agent).collect(),
                agents: expand.then_some(agents),
            });
        }
        let name = self.group(by, name)?;
        let agents = self.of_group(&name);
        let mut groups = self.groups.iter();
        let group = groups.find(|group| group.name == name).expect("it was found");
        let mut members = group.members.clone();
        members.sort_by_key(|member| match member {
            Member::Agent(agent) => (0, agent.to_string()),
            Member::Role(role) => (1, role.to_string()),
        });
        let in_two_ways = members.len() > agents.len() && !agents.is_empty();
        self.marks.reach_if(expand && in_two_ways, Mark::MemberInTwoWays);
        Ok(Answer::Seen {
            group: Box::new(view(group)),
            members,
            agents: expand.then_some(agents),
        })
    }

    fn everyone(&self, project: &str) -> GroupView {
        GroupView {
            project: project.to_owned(),
            name: "everyone".to_owned(),
            description: "All agents".to_owned(),
            created_at: self.boot.started_at,
            created_by: None,
            members: self.of_project(project).len(),
        }
    }

    /// Finds a group that can be changed.
    fn group(&mut self, by: &AgentName, given: &str) -> Result<GroupName, Refusal> {
        let name = self.group_name(by, given)?;
        if self.groups.iter().any(|group| group.name == name) {
            return Ok(name);
        }
        self.marks.reach(Mark::UnknownGroup);
        let of_project = self.groups.iter().map(|group| &group.name);
        let of_project = of_project.filter(|other| other.project() == name.project());
        let mut known: Vec<String> = of_project.map(|name| name.local().to_owned()).collect();
        known.sort();
        let name = given.to_owned();
        Err(Refusal::Groups(No::UnknownGroup { name, known }))
    }

    fn group_name(&mut self, by: &AgentName, given: &str) -> Result<GroupName, Refusal> {
        let (project, local) = self.parts(by, given);
        if local == "everyone" {
            self.marks.reach(Mark::EveryoneIsProtected);
            return Err(Refusal::Groups(No::Protected));
        }
        names(&[("project", project), ("group", local)])?;
        Ok(GroupName::in_project(project, local).expect("both are names"))
    }

    /// Finds who is to be a member: an agent that is there, or any role.
    fn member(&self, by: &AgentName, member: Named) -> Result<Member, Refusal> {
        match member {
            Named::Agent(name) => {
                let bare = name.strip_prefix('@').unwrap_or(&name);
                let agent = self.known_from(by.project(), bare)?;
                if agent.is_person() {
                    return Err(self.persons(NamedAs::Sender));
                }
                Ok(Member::Agent(agent))
            }
            Named::Role(_) => self.former_member(by, member),
        }
    }

    /// Finds who may have been a member.
    fn former_member(&self, by: &AgentName, member: Named) -> Result<Member, Refusal> {
        match member {
            Named::Agent(name) => {
                let (project, local) = self.parts(by, name.strip_prefix('@').unwrap_or(&name));
                names(&[("project", project), ("role", local)])?;
                let agent = AgentName::in_project(project, local).expect("both are names");
                Ok(Member::Agent(agent))
            }
            Named::Role(role) => {
                let local = role.strip_prefix('@').unwrap_or(&role);
                names(&[("role", local)])?;
                let role = Role::in_project(by.project(), local).expect("both are names");
                Ok(Member::Role(role))
            }
        }
    }

    fn members_of(&mut self, name: &GroupName) -> &mut Vec<Member> {
        let mut groups = self.groups.iter_mut();
        let group = groups.find(|group| group.name == *name).expect("it was found");
        &mut group.members
    }

    /// Lists the agents of a group, each once, in the order of their names: of a role those that have it now.
    pub(super) fn of_group(&self, name: &GroupName) -> Vec<AgentName> {
        let groups = self.groups.iter().filter(|group| group.name == *name);
        let mut agents = Vec::new();
        for member in groups.flat_map(|group| &group.members) {
            match member {
                Member::Agent(agent) => agents.push(agent.clone()),
                Member::Role(role) => agents.extend(self.of_role(role)),
            }
        }
        agents.sort();
        agents.dedup();
        agents
    }

    /// The project that stands before a name, or else the caller's own, and the name without its `@`.
    fn parts<'a>(&self, by: &'a AgentName, given: &'a str) -> (&'a str, &'a str) {
        let (project, name) = match given.split_once(':') {
            Some((project, name)) => (self.project(project), name),
            None => (by.project(), given),
        };
        (project, name.strip_prefix('@').unwrap_or(name))
    }

    /// Takes an agent that is gone out of all groups and channels.
    pub(super) fn leave_all(&mut self, name: &AgentName) {
        let member = Member::Agent(name.clone());
        for group in &mut self.groups {
            let before = group.members.len();
            group.members.retain(|other| *other != member);
            self.marks
                .reach_if(group.members.len() < before, Mark::TransientLeavesItsGroup);
        }
        let before = self.channels.len();
        for channel in &mut self.channels {
            channel.members.retain(|(other, _)| other != name);
        }
        self.channels.retain(|channel| !channel.members.is_empty());
        self.marks
            .reach_if(self.channels.len() < before, Mark::ChannelEndsWithItsLast);
    }
}

fn view(group: &Group) -> GroupView {
    GroupView {
        project: group.name.project().to_owned(),
        name: group.name.local().to_owned(),
        description: group.description.clone(),
        created_at: group.created_at,
        created_by: Some(group.created_by.clone()),
        members: group.members.len(),
    }
}

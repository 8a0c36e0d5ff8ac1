//! Channels that are asked for by name.

use relay::engine::channels::{ChannelView, Command as Ask, Reply as Answer};
use relay::engine::groups::Refusal as No;

use super::addresses::names;
use super::*;

impl Model {
    pub(super) fn about_channels(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        command: Ask,
    ) -> Result<Vec<Effect>, Refusal> {
        let answer = match command {
            Ask::Make { name, topic } => {
                let agent = self.member_to_be(open)?;
                let name = self.written(agent.project(), &name)?;
                if self.is_channel(&name) {
                    self.marks.reach(Mark::ChannelExists);
                    return Err(Refusal::Groups(No::ChannelExists { name }));
                }
                let (bytes, bytes_max) = (topic.len(), self.bounds.description_bytes_max);
                if bytes > bytes_max {
                    self.marks.reach(Mark::TopicTooLong);
                    return Err(Refusal::Groups(No::DescriptionTooLong { bytes, bytes_max }));
                }
                self.judge_channel(&agent, Some(&name))?;
                self.joins(now, &name, &agent);
                let mut made = self.channels.iter_mut().filter(|channel| channel.name == name);
                made.next().expect("it was made").topic = topic;
                self.marks.reach(Mark::ChannelMadeByName);
                self.contact(now, open.session, &agent);
                let channel = Box::new(self.channel_view(&name));
                Answer::Joined {
                    channel,
                    already: false,
                }
            }
            Ask::Join { name } => {
                let agent = self.member_to_be(open)?;
                let name = self.written(agent.project(), &name)?;
                self.judge_channel(&agent, Some(&name))?;
                let already = self.of_channel(&name).contains(&agent) || name.local() == "general";
                self.marks.reach_if(already, Mark::ChannelJoinedAgain);
                self.joins(now, &name, &agent);
                self.contact(now, open.session, &agent);
                let channel = Box::new(self.channel_view(&name));
                Answer::Joined { channel, already }
            }
            Ask::Leave { name } => {
                let agent = self.member_to_be(open)?;
                let name = self.channel_to_read(agent.project(), &name)?;
                if name.local() == "general" {
                    self.marks.reach(Mark::NobodyLeavesAll);
                    return Err(Refusal::Groups(No::ChannelOfAll { name }));
                }
                if !self.of_channel(&name).contains(&agent) {
                    self.marks.reach(Mark::LeavesWhereItIsNot);
                    return Err(Refusal::Groups(No::NotInChannel { name, agent }));
                }
                for channel in self.channels.iter_mut().filter(|channel| channel.name == name) {
                    channel.members.retain(|(member, _)| *member != agent);
                }
                self.channels.retain(|channel| !channel.members.is_empty());
                self.marks.reach(Mark::ChannelLeft);
                self.contact(now, open.session, &agent);
                Answer::Left { name }
            }
            Ask::Change { .. } => unreachable!("no plan has the person change a channel"),
            Ask::List { project } => {
                if open.fenced {
                    return Err(self.fenced(open));
                }
                let project = project.unwrap_or_else(|| own_project(open));
                let project = self.project(&project);
                names(&[("project", project)])?;
                let of_project = self.channels.iter().map(|channel| &channel.name);
                let of_project = of_project.filter(|name| name.project() == project).cloned();
                let mut of_project: Vec<ChannelName> = of_project.collect();
                of_project.sort();
                self.marks.reach_if(of_project.len() > 1, Mark::ChannelsListed);
                let general = ChannelName::in_project(project, "general").expect("a name");
                of_project.insert(0, general);
                Answer::Listed {
                    channels: of_project.iter().map(|name| self.channel_view(name)).collect(),
                }
            }
            Ask::Get { name } => {
                if open.fenced {
                    return Err(self.fenced(open));
                }
                let name = self.channel_to_read(&own_project(open), &name)?;
                let channel = Box::new(self.channel_view(&name));
                self.marks
                    .reach_if(!channel.topic.is_empty(), Mark::ChannelSeenWithTopic);
                Answer::Seen { channel }
            }
        };
        Ok(vec![self.answer(open, call, Reply::Channels(answer))])
    }

    /// The person is in no channel, and neither is a session that is not bound.
    fn member_to_be(&mut self, open: &Open) -> Result<AgentName, Refusal> {
        let agent = self.speaker(open, NamedAs::Sender, None)?;
        if agent.is_person() {
            self.marks.reach(Mark::PersonInNoChannel);
            return Err(self.persons(NamedAs::Sender));
        }
        Ok(agent)
    }

    pub(super) fn is_channel(&self, name: &ChannelName) -> bool {
        name.local() == "general" || self.channels.iter().any(|channel| channel.name == *name)
    }

    fn channel_view(&self, name: &ChannelName) -> ChannelView {
        let started_at = self.boot.started_at;
        let (topic, created_at, mut members) = match self.channels.iter().find(|other| other.name == *name) {
            Some(channel) => (channel.topic.clone(), channel.created_at, channel.members.clone()),
            None => {
                let agents = self.of_project(name.project());
                let members = agents.into_iter().map(|agent| (agent, started_at));
                (String::new(), started_at, members.collect())
            }
        };
        members.sort();
        ChannelView {
            name: name.clone(),
            topic,
            created_at,
            members,
        }
    }

    /// Finds a channel that has to be there, as somebody in a project has written it.
    pub(super) fn channel_to_read(&mut self, project: &str, given: &str) -> Result<ChannelName, Refusal> {
        let channel = self.written(project, given)?;
        if self.is_channel(&channel) {
            return Ok(channel);
        }
        self.marks.reach(Mark::UnknownChannel);
        let of_project = self.channels.iter().map(|channel| &channel.name);
        let of_project = of_project.filter(|other| other.project() == channel.project());
        let mut known: Vec<String> = of_project.map(|name| format!("#{}", name.local())).collect();
        known.sort();
        known.insert(0, "#general".to_owned());
        let name = format!("#{}", channel.local());
        Err(Refusal::Groups(No::UnknownChannel { name, known }))
    }

    /// Makes the name of a channel whole.
    fn written(&self, project: &str, given: &str) -> Result<ChannelName, Refusal> {
        let bare = given.strip_prefix('#').unwrap_or(given);
        let (project, local) = match bare.split_once(':') {
            Some((project, local)) => (self.project(project), local.strip_prefix('#').unwrap_or(local)),
            None => (project, bare),
        };
        names(&[("channel", local), ("project", project)])?;
        Ok(ChannelName::in_project(project, local).expect("both are names"))
    }
}

fn own_project(open: &Open) -> String {
    let agent = open.agent.as_ref();
    agent.map_or("default", |agent| agent.project()).to_owned()
}

//! What calls ask for.

use super::*;

/// What a call asks for of an inbox.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    from: Option<AgentName>,
    channel: Option<Recipient>,
    pub(super) limit: usize,
    pub(super) earlier: bool,
    pub(super) waits_past_start: bool,
    /// The message that it waits to have answered: its place among those that were accepted, and who got it.
    pub(super) question: Option<(usize, &'a Message, &'a [AgentName])>,
}

impl Wanted<'_> {
    pub(super) fn has(&self, number: usize, message: &Message) -> bool {
        let is_answer = self.question.is_none_or(|(asked, question, agents)| {
            let in_thread = question.thread().is_some() && question.thread() == message.thread();
            number > asked && (in_thread || agents.contains(&message.from))
        });
        is_answer
            && self.from.as_ref().is_none_or(|from| message.from == *from)
            && self.channel.as_ref().is_none_or(|channel| message.to == *channel)
    }

    pub(super) fn is_all(&self) -> bool {
        self.from.is_none() && self.channel.is_none() && self.question.is_none()
    }
}

impl<'a> History<'a> {
    /// Finds out what a call asks for that was made in a step.
    pub(super) fn wanted(&self, step: usize, session: SessionId, command: &Command) -> Wanted<'a> {
        let project = self.speaker(session, command);
        let project = project.as_ref().map_or("default", |agent| agent.project());
        let mut wanted = Wanted {
            from: None,
            channel: None,
            limit: usize::MAX,
            earlier: false,
            waits_past_start: false,
            question: None,
        };
        let everything = mail::ReadOptions::default();
        match command {
            Command::Mail(mail::Command::Read { options, .. }) => {
                let mail::ReadOptions {
                    from,
                    channel,
                    limit,
                    after: _,
                    earlier,
                    waits_past_start,
                } = options.as_deref().unwrap_or(&everything);
                let from = from.as_deref().map(|from| from.strip_prefix('@').unwrap_or(from));
                wanted.from = from.and_then(|from| match from {
                    "user" => Some(AgentName::person()),
                    "relay" => Some(AgentName::relay()),
                    from => agent_of(project, from),
                });
                wanted.channel = channel
                    .as_deref()
                    .and_then(|channel| channel_of(project, channel));
                wanted.limit = limit.map_or(usize::MAX, NonZeroUsize::get);
                wanted.earlier = *earlier;
                wanted.waits_past_start = *waits_past_start;
            }
            Command::Mail(mail::Command::Post { .. }) => {
                wanted.limit = 1;
                let number = self.posted.iter().position(|(at, ..)| *at == step);
                wanted.question =
                    number.map(|number| (number, &**self.posted[number].1, self.posted[number].2));
            }
            Command::Mail(_)
            | Command::Agents(_)
            | Command::Groups(_)
            | Command::Channels(_)
            | Command::Watches(_)
            | Command::Resource(_)
            | Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Trace(_)
            | Command::Workers(_)
            | Command::Surfacing(_)
            | Command::Actions(_)
            | Command::Holds(_)
            | Command::Records(_) => {}
        }
        wanted
    }
}

/// Returns how long a call may wait: a read, or a post for its answer.
pub(super) fn wait_ms(command: &Command) -> Option<u32> {
    match command {
        Command::Mail(mail::Command::Read { wait_ms, .. }) => Some(*wait_ms).filter(|ms| *ms > 0),
        Command::Mail(mail::Command::Post { options, .. }) => options.as_ref()?.await_ms,
        Command::Mail(_)
        | Command::Agents(_)
        | Command::Groups(_)
        | Command::Channels(_)
        | Command::Watches(_)
        | Command::Resource(_)
        | Command::Nodes(_)
        | Command::Receipts(_)
        | Command::Trace(_)
        | Command::Workers(_)
        | Command::Surfacing(_)
        | Command::Actions(_)
        | Command::Holds(_)
        | Command::Records(_) => None,
    }
}

/// Finds whom a name means for somebody in a project.
pub(super) fn agent_of(project: &str, name: &str) -> Option<AgentName> {
    let (project, local) = name.split_once(':').unwrap_or((project, name));
    AgentName::in_project(project, local).ok()
}

/// Finds which channel a name means for somebody in a project.
fn channel_of(project: &str, name: &str) -> Option<Recipient> {
    let name = name.replace('#', "");
    let (project, local) = name.split_once(':').unwrap_or((project, &name));
    let channel = ChannelName::in_project(project, local).ok()?;
    Some(Recipient::channel(&channel))
}

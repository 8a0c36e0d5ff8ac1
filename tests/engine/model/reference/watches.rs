//! Who watches what, and what has changed in a step.

use relay::engine::watches::{Command, Reply, Watched};

use super::*;

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    Inbox(AgentName),
    /// Who there is in a project.
    Agents(String),
}

impl Model {
    pub(super) fn about_watches(
        &mut self,
        open: &Open,
        call: CallId,
        command: Command,
    ) -> Result<Vec<Effect>, Refusal> {
        if open.fenced {
            return Err(self.fenced(open));
        }
        let answer = match command {
            Command::Watch(what) => {
                match what {
                    Watched::Inbox => {
                        self.speaker(open, NamedAs::Reader, None)?;
                    }
                    Watched::Agents => {}
                }
                let watch = (open.session, what);
                let again = self.watches.contains(&watch);
                self.marks.reach_if(again, Mark::WatchesAgain);
                if !again {
                    self.watches.push(watch);
                }
                Reply::Watching
            }
            Command::Unwatch(what) => {
                let before = self.watches.len();
                self.watches.retain(|watch| *watch != (open.session, what));
                self.marks
                    .reach_if(before > self.watches.len(), Mark::WatchesNoMore);
                Reply::Unwatched
            }
        };
        Ok(vec![reply(call, Ok(answer.into()))])
    }

    /// Tells all who watched it before the step, and still do, of what has changed: once of each thing, lower session numbers first, the inbox before the agents.
    pub(super) fn tell_of_changes(&mut self, mut watches: Vec<(SessionId, Watched)>) -> Vec<Effect> {
        let changed = std::mem::take(&mut self.changed);
        let open = |session: &SessionId| self.sessions.iter().find(|open| open.session == *session);
        watches.retain(|watch| self.watches.contains(watch));
        watches.retain(|(session, what)| {
            let Some(open) = open(session).filter(|open| !open.fenced) else {
                return false;
            };
            let project = open.agent.as_ref().map_or("default", AgentName::project);
            let own = open.agent.clone().unwrap_or_else(AgentName::person);
            let seen = match what {
                Watched::Inbox => Changed::Inbox(own),
                Watched::Agents => Changed::Agents(project.to_owned()),
            };
            changed.contains(&seen)
        });
        watches.sort();
        for (_, what) in &watches {
            self.marks.reach(match what {
                Watched::Inbox => Mark::ToldOfItsInbox,
                Watched::Agents => Mark::ToldOfAgents,
            });
        }
        self.marks.reach_if(watches.len() > 1, Mark::ToldOfMuch);
        let told = watches.into_iter();
        told.map(|(session, what)| Effect::Changed { session, what })
            .collect()
    }
}

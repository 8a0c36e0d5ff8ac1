//! Sessions that are told when something that they look at has changed. What has changed they see when they look again.
//!
//! A session may watch the inbox of its agent, and who there is in its project: two watches at the most. At the end of a step it is told once of each
//! thing that has changed in it, however often. Its watches end with it, and when its agent is taken over.
//!
//! An inbox changes when a message is accepted into it, taken out of it or put back. Who there is changes when an agent comes, goes,
//! says something else of itself, does something after it was idle, or is offline or is not any more because a session, a worker or a node
//! of it has come or ended. That one becomes idle is no change: it does so by doing nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::agents::{NamedAs, Refusal};
use super::io::{self, Effect};
use super::names::{AgentName, DEFAULT_PROJECT, SessionId};
use super::{Engine, Step};

/// What a session may watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Watched {
    /// The inbox of its own agent.
    Inbox,
    /// Who there is in its project, as [`super::agents::Command::List`] lists them.
    Agents,
}

/// What may be asked about watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Begins to watch. Watching already, the session goes on.
    Watch(Watched),
    /// Watches no more. Nothing if it did not.
    Unwatch(Watched),
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Watches(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// From the next step on the session is told of each change.
    Watching,
    /// It is told of none any more.
    Unwatched,
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Watches(reply)
    }
}

/// Who watches what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Watches {
    /// Whose inbox is watched, and by which sessions: one at least.
    pub inboxes: BTreeMap<AgentName, BTreeSet<SessionId>>,
    /// Of which project it is watched who there is, and by which sessions: one at least.
    pub agents: BTreeMap<String, BTreeSet<SessionId>>,
}

impl Watches {
    fn are_none(&self) -> bool {
        self.inboxes.is_empty() && self.agents.is_empty()
    }

    /// Has those told who watch an inbox that has changed.
    pub fn inbox_changes(&self, agent: &AgentName, step: &mut Step<'_>) {
        if let Some(sessions) = self.inboxes.get(agent) {
            let told = sessions.iter().map(|session| (*session, Watched::Inbox));
            step.changes.extend(told);
        }
    }

    /// Goes through all of them, for the invariants.
    pub fn all(&self) -> impl Iterator<Item = (SessionId, Watched)> {
        let inboxes = self.inboxes.values().flatten();
        let agents = self.agents.values().flatten();
        let inboxes = inboxes.map(|session| (*session, Watched::Inbox));
        inboxes.chain(agents.map(|session| (*session, Watched::Agents)))
    }

    /// Tells whether each thing that is watched is so by somebody, for the invariants.
    pub fn are_somebodys(&self) -> bool {
        let mut sessions = self.inboxes.values().chain(self.agents.values());
        sessions.all(|sessions| !sessions.is_empty())
    }
}

/// Watching.
impl Engine {
    /// Carries a command out.
    pub(super) fn about_watches(
        &mut self,
        session: SessionId,
        command: Command,
    ) -> Result<io::Outcome, Refusal> {
        self.check_not_fenced(session)?;
        match command {
            Command::Watch(what) => {
                self.watch(session, what)?;
                Ok(Reply::Watching.into())
            }
            Command::Unwatch(what) => {
                self.unwatch(session, what);
                Ok(Reply::Unwatched.into())
            }
        }
    }

    fn watch(&mut self, session: SessionId, what: Watched) -> Result<(), Refusal> {
        let sessions = match what {
            Watched::Inbox => {
                let agent = self.speaker(session, NamedAs::Reader, None)?.into_agent();
                self.watches.inboxes.entry(agent).or_default()
            }
            Watched::Agents => {
                let project = self.project_of(session).to_owned();
                self.watches.agents.entry(project).or_default()
            }
        };
        sessions.insert(session);
        Ok(())
    }

    fn unwatch(&mut self, session: SessionId, what: Watched) {
        match what {
            Watched::Inbox => {
                let agent = self.inbox_of(session);
                let agent = agent.filter(|agent| self.watches.inboxes.contains_key(agent));
                if let Some(agent) = agent {
                    forget(&mut self.watches.inboxes, &agent, session);
                }
            }
            Watched::Agents => {
                let project = self.project_of(session).to_owned();
                forget(&mut self.watches.agents, &project, session);
            }
        }
    }

    /// Ends the watches of a session that is closed or fenced.
    pub(super) fn unwatch_all(&mut self, session: SessionId) {
        if self.watches.are_none() {
            return;
        }
        self.unwatch(session, Watched::Inbox);
        self.unwatch(session, Watched::Agents);
    }

    /// Tells whether a session watches something.
    pub(super) fn watches(&self, session: SessionId, what: Watched) -> bool {
        let sessions = match what {
            Watched::Inbox => {
                let agent = self.inbox_of(session);
                agent.and_then(|agent| self.watches.inboxes.get(&agent))
            }
            Watched::Agents => self.watches.agents.get(self.project_of(session)),
        };
        sessions.is_some_and(|sessions| sessions.contains(&session))
    }

    /// Returns whose inbox a session may watch.
    fn inbox_of(&self, session: SessionId) -> Option<AgentName> {
        let state = self.sessions.get(&session)?;
        let person = state.person.then(AgentName::person);
        state.agent.clone().or(person)
    }

    /// Returns the project from which a session sees who there is.
    fn project_of(&self, session: SessionId) -> &str {
        let state = self.sessions.get(&session);
        let agent = state.and_then(|state| state.agent.as_ref());
        agent.map_or(DEFAULT_PROJECT, AgentName::project)
    }
}

/// Telling.
impl Engine {
    /// As [`Watches::inbox_changes`].
    pub(super) fn inbox_changes(&self, agent: &AgentName, step: &mut Step<'_>) {
        self.watches.inbox_changes(agent, step);
    }

    /// Has those told who watch a project whose agents are others now, or other than before.
    pub(super) fn agents_change(&self, project: &str, step: &mut Step<'_>) {
        if let Some(sessions) = self.watches.agents.get(project) {
            let told = sessions.iter().map(|session| (*session, Watched::Agents));
            step.changes.extend(told);
        }
    }

    /// Tells of all that has changed in a step, whoever still watches it.
    pub(super) fn tell_of_changes(&self, step: &mut Step<'_>) {
        let mut changes = std::mem::take(&mut step.changes);
        changes.sort_unstable();
        changes.dedup();
        for (session, what) in changes {
            if self.watches(session, what) {
                step.out.push(Effect::Changed { session, what });
            }
        }
    }
}

/// Takes a session out of those that watch something.
fn forget<K: Ord>(watched: &mut BTreeMap<K, BTreeSet<SessionId>>, what: &K, session: SessionId) {
    if let Some(sessions) = watched.get_mut(what) {
        sessions.remove(&session);
        if sessions.is_empty() {
            watched.remove(what);
        }
    }
}

//! Actions: what an agent or a node does when another agent asks for it by name, and what is asked and answered. How an invocation
//! goes on is in [`super::invocations`].
//!
//! An action belongs to a project and has one handler: an agent, reached over the node that it is bound to, or a node itself, which says
//! what it offers when it registers. Whoever registers an action again changes it; that of another handler is changed by the person
//! alone. What is asked and answered is text that the engine does not read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::agents::{self, NamedAs};
use super::invocations::{Invocation, InvocationView};
use super::io;
use super::limits::{ACTION_NAME_BYTES_MAX, SCHEMA_BYTES_MAX};
use super::names::{
    AgentName, InvocationId, NodeId, RandomBytes, SessionId, check_name, is_seen, shown, uuid_v4,
};
use super::nodes::{self, NodeView, Presence};
use super::time::Timestamp;
use super::{Engine, Step};

/// What may be asked about actions. Names are as given, not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Makes an action, or changes it. The person's to ask, or its own handler's.
    Register(Box<Description>),
    /// Removes an action; what was asked of it goes on. The person's to ask.
    Remove {
        /// Its project.
        project: String,
        /// Its name in it.
        name: String,
    },
    /// Lists the actions of a project. The person's to ask.
    List {
        /// Which project.
        project: String,
    },
    /// Shows an action. The person's to ask.
    Get {
        /// Its project.
        project: String,
        /// Its name in it.
        name: String,
    },
    /// Asks for an action of the session's agent's project.
    Invoke {
        /// Its name.
        action: String,
        /// What its handler is to know.
        input: Box<str>,
    },
    /// Shows an invocation. Its caller's to ask, its handler's, and the person's.
    Show {
        /// The project that its caller is in.
        project: String,
        /// Which one.
        invocation: String,
    },
    /// Says what came of one. Its handler's to say.
    End {
        /// Which one.
        invocation: String,
        /// What it came to, or why to nothing.
        result: Result<Box<str>, Box<str>>,
    },
}

/// What is to be known of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Description {
    /// Its project.
    pub project: String,
    /// Its name in it.
    pub name: String,
    /// What it does.
    pub text: String,
    /// Who does it.
    pub handler: Named,
    /// What its input is to be.
    pub input_schema: Option<Box<str>>,
    /// What its output will be.
    pub output_schema: Option<Box<str>>,
    /// The agents of the project that may ask for it; all of them if it is left out.
    pub available_to: Option<Vec<String>>,
}

/// A handler as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Named {
    /// An agent of the project.
    Agent(String),
    /// A node of the project, which does it itself.
    Node(NodeId),
}

/// An action that a node offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// It may be asked for while the node is not there, and waits for it.
    pub queues: bool,
}

impl From<Command> for io::Command {
    fn from(command: Command) -> Self {
        Self::Actions(command)
    }
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// An action is registered.
    Registered {
        /// As it is now.
        action: ActionView,
        /// It was not there before.
        is_new: bool,
    },
    /// It is removed.
    Removed,
    /// An action.
    Is(ActionView),
    /// Actions, in the order of their names.
    Listed(Vec<ActionView>),
    /// An invocation, as it is now.
    Invocation(InvocationView),
}

impl From<Reply> for io::Reply {
    fn from(reply: Reply) -> Self {
        Self::Actions(Box::new(reply))
    }
}

/// An action as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub text: String,
    /// Who does it.
    pub handler: HandlerView,
    /// What its input is to be.
    pub input_schema: Option<Arc<str>>,
    /// What its output will be.
    pub output_schema: Option<Arc<str>>,
    /// The agents that may ask for it; all of the project if there is none.
    pub available_to: Option<Vec<AgentName>>,
    /// Its handler takes invocations now.
    pub is_live: bool,
    /// When it was registered first.
    pub created_at: Timestamp,
}

/// A handler as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerView {
    /// An agent.
    Agent(AgentName),
    /// A node.
    Node(Box<NodeView>),
}

/// Why a [`Command`] was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is not for this session to ask.
    NotYours,
    /// There is no such action.
    Unknown {
        /// As given, cut if it is long.
        given: String,
        /// The names of those that there are, a handful.
        known: Vec<String>,
    },
    /// There is no such invocation that this session is shown, or not any more.
    UnknownInvocation {
        /// As given, cut if it is long.
        given: String,
    },
    /// What is to be the name of an action is none.
    InvalidName {
        /// As given, cut if it is long.
        given: String,
    },
    /// Another handler has an action of that name.
    Taken {
        /// Its name.
        action: String,
        /// Which handler.
        by: String,
    },
    /// Relay pushes to the node that is to do it, which can answer nothing.
    NeverAnswers {
        /// The name of the node.
        node: String,
    },
    /// The agent is none of those that may ask for it.
    Denied {
        /// Its name.
        action: String,
    },
    /// The node that does it is not there.
    Away {
        /// Its name.
        action: String,
        /// The name of the node.
        node: String,
    },
    /// A text is longer than it may be.
    TooLong {
        /// Which one.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// More agents are named that may ask for it than may be.
    TooManyNames {
        /// How many.
        names: usize,
        /// How many there may be.
        max: usize,
    },
    /// There are as many actions as there may be.
    TooMany {
        /// How many there are.
        actions: usize,
    },
    /// As many invocations as may be have not ended, or as much text.
    TooManyOpen {
        /// How many there are.
        open: usize,
    },
}

impl Refusal {
    pub(super) fn class(&self) -> io::Class {
        match self {
            Self::NotYours
            | Self::InvalidName { .. }
            | Self::TooLong { .. }
            | Self::TooManyNames { .. }
            | Self::NeverAnswers { .. }
            | Self::Denied { .. } => io::Class::Bad,
            Self::Unknown { .. } | Self::UnknownInvocation { .. } => io::Class::Unknown,
            Self::Taken { .. } | Self::Away { .. } => io::Class::Conflict,
            Self::TooMany { .. } | Self::TooManyOpen { .. } => io::Class::Full,
        }
    }
}

impl From<Refusal> for io::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self::Actions(refusal)
    }
}

/// All actions, and what was asked of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Actions {
    /// By their projects and names.
    pub all: BTreeMap<(String, String), Action>,
    pub invocations: BTreeMap<InvocationId, Invocation>,
    /// Those that have ended, in the order in which they did.
    pub ended: VecDeque<InvocationId>,
    /// Bytes of what was asked and answered.
    pub bytes: usize,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Action {
    text: String,
    pub handler: Handler,
    input_schema: Option<Arc<str>>,
    output_schema: Option<Arc<str>>,
    pub available_to: Option<BTreeSet<AgentName>>,
    /// It may be asked for while its handler is not there.
    pub queues: bool,
    /// It is there because a node offers it, and only as long.
    is_offered: bool,
    created_at: Timestamp,
}

impl Action {
    fn is_offered_by(&self, node: NodeId) -> bool {
        self.is_offered && self.handler == Handler::Node(node)
    }
}

/// Who does an action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Handler {
    Agent(AgentName),
    Node(NodeId),
}

/// How many actions a refusal names.
const KNOWN_MAX: usize = 8;

impl Engine {
    /// Carries a command out.
    pub(super) fn about_actions(
        &mut self,
        session: SessionId,
        command: Command,
        random: RandomBytes,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        match command {
            Command::Register(description) => self.register_action(session, *description, step),
            Command::Remove { project, name } => {
                self.check_asks_for_all(session)?;
                let unknown = self.unknown_action(&project, &name);
                let removed = self.actions.all.remove(&(project, name));
                removed.map(|_| Reply::Removed).ok_or(unknown.into())
            }
            Command::List { project } => {
                self.check_asks_for_all(session)?;
                let all = self.of_actions(&project);
                Ok(Reply::Listed(
                    all.map(|(name, action)| self.action_view(name, action)).collect(),
                ))
            }
            Command::Get { project, name } => {
                self.check_asks_for_all(session)?;
                let known = self.of_actions(&project).find(|(known, _)| *known == name);
                let known = known.map(|(name, action)| self.action_view(name, action));
                let known = known.ok_or_else(|| self.unknown_action(&project, &name))?;
                Ok(Reply::Is(known))
            }
            Command::Invoke { action, input } => {
                if self.stopping {
                    return Err(io::Refusal::Stopping);
                }
                let caller = self.speaker(session, NamedAs::Session, None)?.into_agent();
                let invocation =
                    self.invoke(InvocationId(uuid_v4(random)), &caller, &action, &input, step)?;
                self.acts(session, &caller, step);
                Ok(Reply::Invocation(self.invocation_view(invocation)))
            }
            Command::Show { project, invocation } => {
                let id = self.find_invocation(&invocation)?;
                let unknown = || Refusal::UnknownInvocation {
                    given: shown(&invocation),
                };
                let Invocation { caller, handler, .. } = &self.actions.invocations[&id];
                if self.sessions[&session].person {
                    if caller.project() != project {
                        return Err(unknown().into());
                    }
                    return Ok(Reply::Invocation(self.invocation_view(id)));
                }
                let agent = self.speaker(session, NamedAs::Session, None)?.into_agent();
                if *caller != agent && *handler != Handler::Agent(agent.clone()) {
                    return Err(unknown().into());
                }
                self.acts(session, &agent, step);
                Ok(Reply::Invocation(self.invocation_view(id)))
            }
            Command::End { invocation, result } => {
                let agent = self.speaker(session, NamedAs::Session, None)?.into_agent();
                let is_handler = |handler: &Handler| *handler == Handler::Agent(agent.clone());
                let id = self.end_as(&invocation, result, is_handler, step)?;
                self.acts(session, &agent, step);
                Ok(Reply::Invocation(self.invocation_view(id)))
            }
        }
    }

    fn check_asks_for_all(&self, session: SessionId) -> Result<(), Refusal> {
        match self.sessions[&session].person {
            true => Ok(()),
            false => Err(Refusal::NotYours),
        }
    }

    fn register_action(
        &mut self,
        session: SessionId,
        description: Description,
        step: &mut Step<'_>,
    ) -> Result<Reply, io::Refusal> {
        let Description {
            project,
            name,
            text,
            handler,
            input_schema,
            output_schema,
            available_to,
        } = description;
        let is_person = self.sessions[&session].person;
        check_name("project", &project).map_err(agents::Refusal::InvalidName)?;
        check_action_name(&name)?;
        let schemas = [("input_schema", &input_schema), ("output_schema", &output_schema)];
        let schemas = schemas.map(|(what, schema)| (what, schema.as_ref().map_or(0, |schema| schema.len())));
        let texts = [("description", text.len(), self.bounds.description_bytes_max)];
        let texts = texts
            .into_iter()
            .chain(schemas.map(|(what, bytes)| (what, bytes, SCHEMA_BYTES_MAX)));
        for (what, bytes, max) in texts {
            if bytes > max {
                return Err(Refusal::TooLong { what, bytes, max }.into());
            }
        }
        let (names, max) = (available_to.as_ref().map_or(0, Vec::len), self.bounds.members_max);
        if names > max {
            return Err(Refusal::TooManyNames { names, max }.into());
        }
        let handler = match handler {
            Named::Agent(name) => {
                let known = self.agent_in(&project, &name);
                Handler::Agent(known.ok_or_else(|| self.unknown(&project, &name))?)
            }
            Named::Node(node) if !self.nodes.contains(node) => return Err(nodes::Refusal::Unknown.into()),
            Named::Node(node) if self.nodes.get(node).pushes => {
                let node = self.nodes.get(node).name.clone();
                return Err(Refusal::NeverAnswers { node }.into());
            }
            Named::Node(node) => Handler::Node(node),
        };
        if !is_person {
            let agent = self.speaker(session, NamedAs::Session, None)?.into_agent();
            if handler != Handler::Agent(agent) {
                return Err(Refusal::NotYours.into());
            }
            self.check_not_taken(&project, &name, &handler)?;
        }
        let available_to = available_to.map(|names| {
            let named = names.iter().map(|name| AgentName::in_project(&project, name));
            named.collect::<Result<BTreeSet<AgentName>, _>>()
        });
        let available_to = available_to.transpose().map_err(agents::Refusal::InvalidName)?;
        let known = self.actions.all.get(&(project.clone(), name.clone()));
        let queues = match &handler {
            Handler::Agent(_) => true,
            // Whether it waits for a node is for that to say.
            Handler::Node(_) => known.is_some_and(|known| known.handler == handler && known.queues),
        };
        let action = Action {
            text,
            handler,
            input_schema: input_schema.map(Arc::from),
            output_schema: output_schema.map(Arc::from),
            available_to,
            queues,
            // What the key says of it, whom it is for above all, is not to be gone with what the node says.
            is_offered: false,
            created_at: step.wall,
        };
        let (key, handler) = ((project, name), action.handler.clone());
        let is_new = self.keep_action(key.clone(), action)?;
        if let Handler::Agent(agent) = handler {
            self.stays(&agent);
        }
        let action = self.action_view(&key.1, &self.actions.all[&key]);
        Ok(Reply::Registered { action, is_new })
    }

    /// Makes the actions of a node those that it offers, and returns which of them it does not get, and why.
    pub(super) fn offer(
        &mut self,
        node: NodeId,
        offers: Vec<Offer>,
        step: &Step<'_>,
    ) -> Vec<(String, Option<Refusal>)> {
        let project = self.nodes.get(node).project.clone();
        let handler = Handler::Node(node);
        let is_named = |name: &str| offers.iter().any(|offer| offer.name == name);
        self.actions
            .all
            .retain(|(_, name), action| !action.is_offered_by(node) || is_named(name));
        let mut answers = Vec::with_capacity(offers.len());
        for Offer { name, queues } in offers {
            let checked =
                check_action_name(&name).and_then(|()| self.check_not_taken(&project, &name, &handler));
            let kept = checked.and_then(|()| {
                let known = self.actions.all.get(&(project.clone(), name.clone()));
                let action = match known {
                    // What the person has said of it stays.
                    Some(known) if known.handler == handler => Action {
                        queues,
                        ..known.clone()
                    },
                    Some(_) | None => Action {
                        text: String::new(),
                        handler: handler.clone(),
                        input_schema: None,
                        output_schema: None,
                        available_to: None,
                        queues,
                        is_offered: true,
                        created_at: step.wall,
                    },
                };
                self.keep_action((project.clone(), name.clone()), action)
            });
            answers.push((name, kept.err()));
        }
        answers
    }

    /// Removes the actions that a node offers.
    pub(super) fn withdraw(&mut self, node: NodeId) {
        self.actions.all.retain(|_, action| !action.is_offered_by(node));
    }

    /// Keeps an action, and tells whether it was not there before.
    fn keep_action(&mut self, key: (String, String), mut action: Action) -> Result<bool, Refusal> {
        let actions = self.actions.all.len();
        match self.actions.all.get(&key) {
            Some(known) => action.created_at = known.created_at,
            None if actions >= self.bounds.actions_max => return Err(Refusal::TooMany { actions }),
            None => {}
        }
        Ok(self.actions.all.insert(key, action).is_none())
    }

    /// Checks that no other handler has an action of that name: what a node offered that is not there any more is to be had.
    fn check_not_taken(&self, project: &str, name: &str, handler: &Handler) -> Result<(), Refusal> {
        let Some(known) = self.actions.all.get(&(project.to_owned(), name.to_owned())) else {
            return Ok(());
        };
        let by = match &known.handler {
            same if same == handler => return Ok(()),
            Handler::Agent(agent) => agent.to_string(),
            Handler::Node(node) if known.is_offered && self.nodes.get(*node).presence == Presence::Absent => {
                return Ok(());
            }
            Handler::Node(node) => self.nodes.get(*node).name.clone(),
        };
        let action = name.to_owned();
        Err(Refusal::Taken { action, by })
    }

    pub(super) fn unknown_action(&self, project: &str, given: &str) -> Refusal {
        let known = self.of_actions(project).map(|(name, _)| name.to_owned());
        Refusal::Unknown {
            given: shown(given),
            known: known.take(KNOWN_MAX).collect(),
        }
    }

    fn of_actions(&self, project: &str) -> impl Iterator<Item = (&str, &Action)> {
        let all = self.actions.all.iter();
        let own = all.filter(move |((of, _), _)| of == project);
        own.map(|((_, name), action)| (name.as_str(), action))
    }

    fn action_view(&self, name: &str, action: &Action) -> ActionView {
        ActionView {
            name: name.to_owned(),
            text: action.text.clone(),
            handler: self.handler_view(&action.handler),
            input_schema: action.input_schema.clone(),
            output_schema: action.output_schema.clone(),
            available_to: action
                .available_to
                .as_ref()
                .map(|to| to.iter().cloned().collect()),
            is_live: self.connection_of(&action.handler).is_some(),
            created_at: action.created_at,
        }
    }

    /// Finds an action that an agent handles, by its name.
    pub(super) fn action_of(&self, agent: &AgentName) -> Option<String> {
        let mut actions = self.actions.all.iter();
        let handled = actions.find(|(_, action)| action.handler == Handler::Agent(agent.clone()));
        handled.map(|((_, name), _)| name.clone())
    }

    pub(super) fn handler_view(&self, handler: &Handler) -> HandlerView {
        match handler {
            Handler::Agent(agent) => HandlerView::Agent(agent.clone()),
            Handler::Node(node) => HandlerView::Node(Box::new(self.nodes.get(*node).view(*node))),
        }
    }
}

fn check_action_name(name: &str) -> Result<(), Refusal> {
    if (1..=ACTION_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_seen) {
        return Ok(());
    }
    Err(Refusal::InvalidName { given: shown(name) })
}

//! Invocations: what an agent asks of an action, and what comes of it.
//!
//! - An invocation ends once: its handler says what came of it; or it takes longer than [`INVOCATION_MS`]; or its node leaves or
//!   does not come back, unless the action waits for its node; or the relay stops. What is said of one that has ended changes nothing.
//! - It goes out over the connection of its handler's node as soon as there is one, and again over each later one until it has ended:
//!   a handler may get it more than once, and knows it by its id. What relay pushes goes out to a target until that has taken it. If
//!   no other target has taken it before, it ends when a target does not.
//! - The node of the caller is told how it has ended, if it is connected. Whoever is told nothing asks.
//! - Of those that have ended the latest are kept.

use std::sync::Arc;

use super::actions::{Handler, HandlerView, Refusal};
use super::events::Event;
use super::frames::News;
use super::io::{self, Effect};
use super::limits::{INVOCATION_BYTES_MAX, INVOCATION_MS};
use super::names::{AgentName, InvocationId, NodeId, SessionId, shown};
use super::nodes::Presence;
use super::pushes::clipped;
use super::time::Timestamp;
use super::timers::Timer;
use super::{Engine, Step};

/// What an agent has asked of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Invocation {
    action: Arc<str>,
    pub caller: AgentName,
    pub handler: Handler,
    /// It waits for its handler, however long that is away.
    queues: bool,
    input: Arc<str>,
    pub progress: Progress,
    /// The node whose target has taken it, if one has: the latest.
    taken_by: Option<NodeId>,
    made_at: Timestamp,
}

impl Invocation {
    pub fn has_ended(&self) -> bool {
        matches!(self.progress, Progress::Ended { .. })
    }

    /// Returns when it ends by itself.
    pub fn until(&self) -> Timestamp {
        self.made_at.plus_millis(INVOCATION_MS)
    }

    /// Returns the bytes of what was asked and answered.
    pub fn bytes(&self) -> usize {
        self.action.len() + self.input.len() + self.progress.bytes()
    }
}

/// An invocation as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationView {
    /// Its id.
    pub id: InvocationId,
    /// The name of its action.
    pub action: Arc<str>,
    /// Who has asked.
    pub caller: AgentName,
    /// Who was asked.
    pub handler: HandlerView,
    /// What the handler is to know.
    pub input: Arc<str>,
    /// How far it has come.
    pub progress: Progress,
    /// When it was asked for.
    pub made_at: Timestamp,
}

impl InvocationView {
    /// Returns the bytes of what was asked and answered.
    pub fn bytes(&self) -> usize {
        self.action.len() + self.input.len() + self.progress.bytes()
    }
}

/// How far an invocation has come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Progress {
    /// It waits for its handler.
    Waits,
    /// It was sent to its handler.
    Sent {
        /// Over whose connection it went last.
        session: SessionId,
    },
    /// It has ended.
    Ended {
        /// When.
        at: Timestamp,
        /// What it came to, or why to nothing.
        result: Result<Arc<str>, Failed>,
    },
}

impl Progress {
    /// Returns the bytes of the answer.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Ended {
                result: Ok(text) | Err(Failed::Said(text) | Failed::NotTaken(text)),
                ..
            } => text.len(),
            Self::Ended {
                result: Err(Failed::TimedOut | Failed::NodeGone | Failed::Stopped),
                ..
            }
            | Self::Waits
            | Self::Sent { .. } => 0,
        }
    }
}

/// Why an invocation came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Failed {
    /// As its handler says.
    Said(Arc<str>),
    /// The target that it was pushed to has not taken it, and why.
    NotTaken(Arc<str>),
    /// Its handler has said nothing for [`INVOCATION_MS`].
    TimedOut,
    /// The node that was to do it has left, or does not come back.
    NodeGone,
    /// The relay stops.
    Stopped,
}

impl Engine {
    /// Takes an invocation, and sends it to its handler if that is there.
    pub(super) fn invoke(
        &mut self,
        id: InvocationId,
        caller: &AgentName,
        name: &str,
        input: &str,
        step: &mut Step<'_>,
    ) -> Result<InvocationId, Refusal> {
        let project = caller.project();
        let action = self.actions.all.get(&(project.to_owned(), name.to_owned()));
        let action = action.ok_or_else(|| self.unknown_action(project, name))?;
        let (handler, queues) = (action.handler.clone(), action.queues);
        if action
            .available_to
            .as_ref()
            .is_some_and(|to| !to.contains(caller))
        {
            let action: Arc<str> = name.into();
            step.note(Event::ActionDenied {
                action: Arc::clone(&action),
                caller: caller.clone(),
            });
            self.tell_nodes([caller], &News::Denied { action }, step);
            let action = name.to_owned();
            return Err(Refusal::Denied { action });
        }
        if let Handler::Node(node) = handler {
            let node = self.nodes.get(node);
            if node.presence == Presence::Absent && !queues {
                let (action, node) = (name.to_owned(), node.name.clone());
                return Err(Refusal::Away { action, node });
            }
        }
        check_length("input", input)?;
        let invocation = Invocation {
            action: name.into(),
            caller: caller.clone(),
            handler,
            queues,
            input: input.into(),
            progress: Progress::Waits,
            taken_by: None,
            made_at: step.now,
        };
        self.make_room_for(&invocation)?;
        self.timers.arm(invocation.until(), Timer::InvocationEnds(id));
        self.actions.bytes += invocation.bytes();
        let before = self.actions.invocations.insert(id, invocation);
        assert!(before.is_none(), "an id is drawn once");
        step.note(Event::Invoked {
            invocation: Box::new(self.invocation_view(id)),
        });
        self.send_invocation(id, step);
        Ok(id)
    }

    /// Forgets what has ended until there is room for one more.
    fn make_room_for(&mut self, new: &Invocation) -> Result<(), Refusal> {
        let actions = &self.actions;
        let open = actions.invocations.len() - actions.ended.len();
        let ended = actions.ended.iter().map(|id| actions.invocations[id].bytes());
        let of_open = actions.bytes - ended.sum::<usize>();
        let bounds = &self.bounds;
        if open >= bounds.invocations_max || of_open + new.bytes() > bounds.invocations_bytes_max {
            return Err(Refusal::TooManyOpen { open });
        }
        self.forget_ended(1, new.bytes());
        Ok(())
    }

    /// Forgets those that ended first, until so many more, of so many bytes, are within the bounds.
    fn forget_ended(&mut self, more: usize, bytes: usize) {
        let actions = &mut self.actions;
        while actions.invocations.len() + more > self.bounds.invocations_max
            || actions.bytes + bytes > self.bounds.invocations_bytes_max
        {
            let Some(oldest) = actions.ended.pop_front() else {
                return;
            };
            let forgotten = actions.invocations.remove(&oldest);
            actions.bytes -= forgotten.map_or(0, |forgotten| forgotten.bytes());
        }
    }

    /// Returns the session over which a handler is sent what it is to do, if it is there.
    pub(super) fn connection_of(&self, handler: &Handler) -> Option<SessionId> {
        match handler {
            Handler::Agent(agent) => self.takes_frames(agent),
            Handler::Node(node) => match self.nodes.get(*node).presence {
                Presence::Live(session) => Some(session),
                Presence::Gone(_) | Presence::Absent => None,
            },
        }
    }

    /// Sends what has not ended over the connections that are there now and were not when it was sent last.
    pub(super) fn send_invocations(&mut self, step: &mut Step<'_>) {
        let all = self.actions.invocations.iter();
        let open = all.filter(|(_, invocation)| !invocation.has_ended());
        for id in open.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.send_invocation(id, step);
        }
    }

    fn send_invocation(&mut self, id: InvocationId, step: &mut Step<'_>) {
        let invocation = &self.actions.invocations[&id];
        let Some(session) = self.connection_of(&invocation.handler) else {
            return;
        };
        let sent = Progress::Sent { session };
        if invocation.progress == sent {
            return;
        }
        let node = self.sessions[&session].node;
        let invocation = self.actions.invocations.get_mut(&id).expect("it is there");
        invocation.progress = sent;
        // Its target works on it.
        if invocation.taken_by.is_some() && invocation.taken_by == node {
            return;
        }
        let invocation = Box::new(self.invocation_view(id));
        step.out.push(Effect::Invoke { session, invocation });
    }

    /// Has what was sent to an agent go out again: its node has begun anew with it.
    pub(super) fn send_invocations_again(&mut self, agent: &AgentName) {
        for invocation in self.actions.invocations.values_mut() {
            let is_its = matches!(&invocation.handler, Handler::Agent(handler) if handler == agent);
            if is_its && !invocation.has_ended() {
                invocation.progress = Progress::Waits;
            }
        }
    }

    /// Finds an invocation by its id.
    pub(super) fn find_invocation(&self, given: &str) -> Result<InvocationId, Refusal> {
        let id = given.parse().ok();
        let known = id.filter(|id| self.actions.invocations.contains_key(id));
        known.ok_or_else(|| Refusal::UnknownInvocation { given: shown(given) })
    }

    /// Takes what a handler says of an invocation, if it is the handler of it.
    pub(super) fn end_as(
        &mut self,
        given: &str,
        result: Result<Box<str>, Box<str>>,
        is_handler: impl FnOnce(&Handler) -> bool,
        step: &mut Step<'_>,
    ) -> Result<InvocationId, Refusal> {
        let id = self.find_invocation(given)?;
        let invocation = &self.actions.invocations[&id];
        if !is_handler(&invocation.handler) {
            return Err(Refusal::UnknownInvocation { given: shown(given) });
        }
        match &result {
            Ok(output) => check_length("output", output)?,
            Err(error) => check_length("error", error)?,
        }
        if !invocation.has_ended() {
            let result = result.map(Arc::from).map_err(|error| Failed::Said(error.into()));
            self.end_invocation(id, result, step);
        }
        Ok(id)
    }

    /// The same of a node: for itself, or for an agent that is bound to it.
    pub(super) fn end_as_node(
        &mut self,
        node: NodeId,
        given: &str,
        result: Result<Box<str>, Box<str>>,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        let agents = self.nodes.get(node).agents.clone();
        let is_handler = |handler: &Handler| match handler {
            Handler::Agent(agent) => agents.contains(agent),
            Handler::Node(own) => *own == node,
        };
        self.end_as(given, result, is_handler, step)?;
        Ok(())
    }

    /// Takes note whether the target of a node that relay pushes to has taken an invocation.
    pub(super) fn target_was_asked(
        &mut self,
        node: NodeId,
        given: &str,
        taken: Result<(), Box<str>>,
        step: &mut Step<'_>,
    ) -> Result<(), io::Refusal> {
        self.check_pushes(node)?;
        let id = self.find_invocation(given)?;
        let is_its = match &self.actions.invocations[&id].handler {
            Handler::Agent(agent) => self.nodes.get(node).agents.contains(agent),
            Handler::Node(own) => *own == node,
        };
        if !is_its {
            return Err(Refusal::UnknownInvocation { given: shown(given) }.into());
        }
        let invocation = self.actions.invocations.get_mut(&id).expect("it is there");
        match taken {
            Ok(()) => invocation.taken_by = Some(node),
            Err(error) if invocation.taken_by.is_none() && !invocation.has_ended() => {
                let error = clipped(&error).into();
                self.end_invocation(id, Err(Failed::NotTaken(error)), step);
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Ends an invocation that nobody has answered in time.
    pub(super) fn time_out(&mut self, id: InvocationId, step: &mut Step<'_>) {
        self.end_invocation(id, Err(Failed::TimedOut), step);
    }

    /// Ends what a node was to do that is gone, unless it waits for the node.
    pub(super) fn node_is_gone(&mut self, node: NodeId, step: &mut Step<'_>) {
        let is_its =
            |invocation: &Invocation| invocation.handler == Handler::Node(node) && !invocation.queues;
        self.end_all(is_its, &Failed::NodeGone, step);
    }

    /// Ends all of them.
    pub(super) fn end_invocations(&mut self, step: &mut Step<'_>) {
        self.end_all(|_| true, &Failed::Stopped, step);
    }

    fn end_all(&mut self, is_meant: impl Fn(&Invocation) -> bool, why: &Failed, step: &mut Step<'_>) {
        let all = self.actions.invocations.iter();
        let open = all.filter(|(_, invocation)| !invocation.has_ended() && is_meant(invocation));
        for id in open.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end_invocation(id, Err(why.clone()), step);
        }
    }

    fn end_invocation(&mut self, id: InvocationId, result: Result<Arc<str>, Failed>, step: &mut Step<'_>) {
        let invocation = self.actions.invocations.get_mut(&id).expect("it is there");
        self.timers.disarm(invocation.until(), Timer::InvocationEnds(id));
        let before = invocation.bytes();
        let at = step.wall;
        invocation.progress = Progress::Ended { at, result };
        self.actions.bytes += invocation.bytes() - before;
        // It is not forgotten for its own sake.
        self.forget_ended(0, 0);
        self.actions.ended.push_back(id);
        let invocation = Box::new(self.invocation_view(id));
        let news = News::Ended(invocation.clone());
        self.tell_nodes([&invocation.caller], &news, step);
        step.note(Event::InvocationEnded { invocation });
    }

    pub(super) fn invocation_view(&self, id: InvocationId) -> InvocationView {
        let invocation = &self.actions.invocations[&id];
        InvocationView {
            id,
            action: Arc::clone(&invocation.action),
            caller: invocation.caller.clone(),
            handler: self.handler_view(&invocation.handler),
            input: Arc::clone(&invocation.input),
            progress: invocation.progress.clone(),
            made_at: self.on_the_wall(invocation.made_at),
        }
    }
}

fn check_length(what: &'static str, text: &str) -> Result<(), Refusal> {
    let (bytes, max) = (text.len(), INVOCATION_BYTES_MAX);
    match bytes <= max {
        true => Ok(()),
        false => Err(Refusal::TooLong { what, bytes, max }),
    }
}

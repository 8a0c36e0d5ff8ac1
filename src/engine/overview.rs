//! The whole state as a person may see it. Looks and changes nothing; knows nothing of how it is shown.

use super::address::Home;
use super::handling::Mode;
use super::nodes::{BindingView, NodeView};
use super::programs::Activity;
use super::workers::WorkerView;
use super::{AgentName, Boot, Carrier, Engine, SessionId, Timestamp};

/// Who is connected, and what is on its way to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// This start.
    pub boot: Boot,
    /// Which project's own the relay is.
    pub home: Home,
    /// All that are open, in the order of their numbers.
    pub sessions: Vec<SessionView>,
    /// One for each agent, in the order of the roster, then of the names, and then the person's.
    pub inboxes: Vec<InboxView>,
    /// The person holds all deliveries.
    pub holds_all: bool,
    /// All nodes, in the order in which they were made, with the bindings of their agents.
    pub nodes: Vec<(NodeView, Vec<BindingView>)>,
    /// The workers that live, in the order of their names.
    pub workers: Vec<WorkerView>,
    /// How far the clock by which messages and workers are dated is ahead of the one by which waits end, in milliseconds.
    pub wall_ahead_ms: i64,
}

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Its number.
    pub session: SessionId,
    /// How replies travel to it.
    pub carrier: Carrier,
    /// The agent that it is bound to, if any.
    pub agent: Option<AgentName>,
    /// It is the person's.
    pub person: bool,
    /// Its parked reads, in the order of their calls.
    pub waits: Vec<WaitView>,
    /// The program whose hooks it is, if it is one's.
    pub program: Option<ProgramView>,
}

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramView {
    /// What it does.
    pub activity: Activity,
    /// It can be woken.
    pub stands_by: bool,
}

/// A parked read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitView {
    /// Whose inbox it waits for.
    pub agent: AgentName,
    /// When it ends, if nothing comes.
    pub expires_at: Timestamp,
}

/// An agent's inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxView {
    /// Whose it is.
    pub agent: AgentName,
    /// How many messages wait in it and may be read.
    pub unread: usize,
    /// How many stand aside in it, since the person holds them.
    pub held: usize,
    /// The person holds what comes for the agent, and what it sends, by its name.
    pub is_held: bool,
    /// When the first was accepted of those that may be read; none if there is none.
    pub oldest: Option<Timestamp>,
    /// How many messages were handed over and are not confirmed.
    pub in_doubt: usize,
    /// How it is brought what its senders say nothing of.
    pub mode: Mode,
}

impl Engine {
    /// Returns the whole state as a person may see it. Goes through all sessions: not for every call.
    pub fn overview(&self) -> Overview {
        let sessions = self.sessions.iter().map(|(session, state)| SessionView {
            session: *session,
            carrier: state.carrier,
            agent: state.agent.clone(),
            person: state.person,
            waits: state.waits.iter().map(|call| self.wait_view(call)).collect(),
            program: state.program.as_ref().map(|program| ProgramView {
                activity: program.activity,
                stands_by: program.waiter.is_some(),
            }),
        });
        let inboxes = self.inboxes_in_order().map(|(agent, inbox)| InboxView {
            agent: agent.clone(),
            unread: inbox.waiting().len(),
            held: inbox.aside().len(),
            is_held: self.holds.on_agent(agent),
            oldest: inbox.waiting().next().map(|first| first.message.ts),
            in_doubt: inbox.handed_over().0,
            mode: inbox.mode,
        });
        let nodes = self.nodes.iter().map(|(number, node)| {
            let bindings = node.agents.iter().map(|agent| self.binding_view(agent));
            (node.view(number), bindings.collect())
        });
        Overview {
            boot: self.boot,
            home: self.home.clone(),
            sessions: sessions.collect(),
            inboxes: inboxes.collect(),
            holds_all: self.holds.on_all(),
            nodes: nodes.collect(),
            workers: self.living_workers(),
            wall_ahead_ms: self.wall_ahead_ms,
        }
    }

    fn wait_view(&self, call: &super::CallId) -> WaitView {
        let wait = &self.waits[call];
        WaitView {
            agent: wait.agent.clone(),
            expires_at: wait.expires_at,
        }
    }
}

//! Whether anybody is there to read a message: what its sender is told if nobody is.
//!
//! An agent is there if a session that is bound to it is open, if the one that last acted in its name is, if that was a moment ago and it has not left, or if
//! somebody waits for its inbox. One that is on a node is there while the node is, but where relay pushes to it in vain, or waits for too many
//! receipts. One whose program is idle is there if it can be woken; it may be there and be shown a message late all the same. Of one that was on a node nothing is said. The person comes and goes as it likes, and is never missed.

use std::sync::Arc;

use super::Engine;
use super::agents::Agent;
use super::finger::Finger;
use super::handling::Mode;
use super::holds::HeldBy;
use super::inbox::Inbox;
use super::limits::ASLEEP_MS;
use super::names::{AgentName, SessionId};
use super::nodes::Presence;
use super::programs::{Activity, Program};
use super::pushes::Failing;
use super::time::Timestamp;

/// Why a message may wait for long: none of those who got it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// No session of theirs has read, looked or posted for any of them since the relay started.
    Never {
        /// Of whom.
        who: Absent,
        /// When the relay started.
        started_at: Timestamp,
    },
    /// One did, and has ended.
    Gone {
        /// Of whom.
        who: Absent,
        /// When it last did so; of several, the one that did so last.
        last_contact: Timestamp,
    },
    /// Its node is not connected any more.
    NodeGone {
        /// Whose.
        agent: AgentName,
        /// When the node last said something; none if it never did.
        last_contact: Option<Timestamp>,
    },
    /// Its node gets nothing more until the agent has given receipts for what it was shown.
    ReceiptsMissing {
        /// Whose.
        agent: AgentName,
        /// How many are missing.
        receipts: usize,
    },
    /// It takes what is sent to it when it asks for it ([`Mode::Manual`]), unless its senders say otherwise.
    Holding {
        /// Whose.
        agent: AgentName,
    },
    /// The person holds it, for some of those who got it at least.
    Held {
        /// For which hold; [`HeldBy::From`] only where it is so for one of them.
        by: HeldBy,
        /// Its sender, if that is why; else the first of those for whom it is held.
        agent: AgentName,
        /// For how many more it is held.
        others: usize,
    },
    /// Its program is idle, and nothing can wake it.
    Asleep {
        /// Whose.
        agent: AgentName,
    },
    /// Its program is idle, and is not woken for what is to be brought so.
    Unwoken {
        /// Whose.
        agent: AgentName,
        /// How the message is to be brought: [`Mode::NextMessage`] or [`Mode::NextToolCall`].
        mode: Mode,
    },
    /// Its program waits for its person to allow something.
    Asks {
        /// Whose.
        agent: AgentName,
    },
    /// Its node is one that relay pushes to, and does not take what is pushed.
    PushFailing {
        /// Whose.
        agent: AgentName,
        /// Since when.
        since: Timestamp,
        /// Why, the last time.
        error: Arc<str>,
    },
}

impl Engine {
    /// Says why what comes for an agent that is on a node may wait for long; nothing if it will not, or if the agent is on none.
    fn node_absence(&self, agent: &AgentName) -> Option<Absence> {
        let inbox = self.inboxes.get(agent)?;
        let binding = inbox.binding.as_ref()?;
        let agent = agent.clone();
        if let Some(Failing { since, error, .. }) = &binding.pushing.failing {
            return Some(Absence::PushFailing {
                agent,
                since: self.on_the_wall(*since),
                error: Arc::clone(error),
            });
        }
        let node = self.nodes.get(binding.node);
        if node.presence == Presence::Absent {
            return Some(Absence::NodeGone {
                agent,
                last_contact: node.seen_at,
            });
        }
        let receipts = inbox.awaited.len();
        (receipts >= self.bounds.awaited_max).then_some(Absence::ReceiptsMissing { agent, receipts })
    }
}

/// Who is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absent {
    /// The only one who got the message.
    One(AgentName),
    /// All of so many who got it.
    All(usize),
}

impl Engine {
    /// Says why a message to some agents may wait for long: because none of them is there, or because the only one that gets it is
    /// there and may be shown it late. Nothing otherwise, and nothing if the person is among them. `asked` is how its sender wants it to
    /// be brought, if that is said.
    pub(super) fn absence(
        &self,
        agents: &[AgentName],
        asked: Option<Mode>,
        now: Timestamp,
    ) -> Option<Box<Absence>> {
        let mut states = Finger::new(&self.agents);
        let mut inboxes = Finger::new(&self.inboxes);
        for agent in agents {
            // The person is no agent, and looks when it likes to.
            let state = states.find(agent)?;
            let inbox = inboxes.find(agent).expect("each agent has an inbox");
            if self.is_there(agent, state, inbox, now) {
                let is_only = agents.len() == 1;
                let delay = is_only.then(|| self.delay(agent, state, inbox, asked));
                return delay.flatten().map(Box::new);
            }
        }
        self.all_absent(agents, now).map(Box::new)
    }

    /// Says why nobody is there, of agents that all are not; nothing if there are none.
    fn all_absent(&self, agents: &[AgentName], now: Timestamp) -> Option<Absence> {
        let (first, others) = agents.split_first()?;
        if let Some(absence) = agents.iter().find_map(|agent| self.node_absence(agent)) {
            return Some(absence);
        }
        if let Some(agent) = agents
            .iter()
            .find(|agent| self.is_asleep(&self.agents[*agent], now))
        {
            let agent = agent.clone();
            return Some(Absence::Asleep { agent });
        }
        let who = if others.is_empty() {
            Absent::One(first.clone())
        } else {
            Absent::All(agents.len())
        };
        let contacts = agents.iter().filter_map(|agent| self.agents[agent].last_contact);
        Some(match contacts.max() {
            Some(last_contact) => {
                let last_contact = self.on_the_wall(last_contact);
                Absence::Gone { who, last_contact }
            }
            None => Absence::Never {
                who,
                started_at: self.boot.started_at,
            },
        })
    }

    /// Says why the only agent that gets a message may be shown it late although it is there. Nobody waits long for what somebody waits for.
    fn delay(&self, name: &AgentName, state: &Agent, inbox: &Inbox, asked: Option<Mode>) -> Option<Absence> {
        if !inbox.waits.is_empty() {
            return None;
        }
        let is_idle =
            |session, program: &Program| program.activity == Activity::Idle && !self.is_being_woken(session);
        let asks = |_, program: &Program| program.activity == Activity::Asks;
        let agent = || name.clone();
        match asked.unwrap_or(inbox.mode) {
            // Who says so knows it.
            Mode::Manual => asked.is_none().then(|| Absence::Holding { agent: agent() }),
            // It is shown by the node.
            _ if self.is_held_at(inbox) => None,
            mode @ (Mode::NextMessage | Mode::NextToolCall) => self
                .all_programs(state, is_idle)
                .then(|| Absence::Unwoken { agent: agent(), mode }),
            Mode::Immediate | Mode::OnIdle => self
                .all_programs(state, asks)
                .then(|| Absence::Asks { agent: agent() }),
        }
    }

    /// Tells whether an agent has programs, and something is true of them all.
    fn all_programs(&self, agent: &Agent, is: impl Fn(SessionId, &Program) -> bool) -> bool {
        let mut programs = self.programs_of(agent).peekable();
        programs.peek().is_some() && programs.all(|(session, program)| is(session, program))
    }

    /// Tells whether all programs of an agent, if it has any, have been idle for a while and none can be woken, or is being.
    fn is_asleep(&self, agent: &Agent, now: Timestamp) -> bool {
        self.all_programs(agent, |session, program| {
            program.activity == Activity::Idle
                && program.waiter.is_none()
                && program.silent_since.plus_millis(ASLEEP_MS) <= now
                && !self.is_being_woken(session)
        })
    }

    /// Tells whether something of an agent is there, however long it has been silent: a session that has not ended, a worker that lives, or the node
    /// that it is on.
    pub(super) fn is_connected(&self, agent: &AgentName, state: &Agent) -> bool {
        !state.sessions.is_empty()
            || state.last_session.is_some_and(|session| self.is_open(session))
            || self.living(agent).is_some()
            || self.is_held_at(&self.inboxes[agent])
    }

    fn is_open(&self, session: SessionId) -> bool {
        let session = self.sessions.get(&session);
        session.is_some_and(|session| !session.fenced)
    }

    fn is_there(&self, agent: &AgentName, state: &Agent, inbox: &Inbox, now: Timestamp) -> bool {
        if self.is_held_at(inbox) {
            return self.node_absence(agent).is_none() || !inbox.waits.is_empty();
        }
        if self.is_asleep(state, now) {
            return !inbox.waits.is_empty();
        }
        // What a node does for an agent is no act of its own.
        let was_on_node = inbox.binding.is_none() && inbox.frames_made > 0;
        was_on_node
            || !state.sessions.is_empty()
            || state.is_active(now)
            || state.last_session.is_some_and(|session| self.is_open(session))
            || !inbox.waits.is_empty()
    }
}

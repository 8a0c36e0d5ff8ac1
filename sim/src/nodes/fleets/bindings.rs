//! What the tap knows of bindings: which node has which agent, over which connection it is there, and what went to it.

use std::collections::BTreeMap;

use relay::engine::nodes::Said;
use relay::engine::{
    AgentName, Command, Effect, Event, Frame, HandoverId, Input, NodeId, SessionId, Sign, Who, nodes,
};

use crate::laws::Violation;
use crate::marks::Marks;
use crate::nodes::bug::Bug;
use crate::nodes::laws::{ACKNOWLEDGED, ELSEWHERE};

/// The bindings of a life of the server.
#[derive(Default)]
pub struct Bindings {
    /// Whose connections there are.
    sessions: BTreeMap<SessionId, NodeId>,
    /// Over which each node is there.
    live: BTreeMap<NodeId, SessionId>,
    bound: BTreeMap<AgentName, NodeId>,
    /// Which node had an agent before.
    before: BTreeMap<AgentName, NodeId>,
    /// What each stands for that went out in a frame.
    sent: BTreeMap<HandoverId, (AgentName, u64)>,
    /// What is acknowledged in this step.
    now: Option<Acknowledgement>,
}

/// An acknowledgement, as its node has sent it.
struct Acknowledgement {
    from: Option<NodeId>,
    agent: String,
    up_to: u64,
}

impl Bindings {
    /// Looks at what comes in, and breaks it. `highest` is the last number of an agent's frames.
    pub fn look(
        &mut self,
        input: &mut Input,
        bug: Option<Bug>,
        highest: impl Fn(&AgentName) -> u64,
        marks: &Marks,
    ) {
        self.now = None;
        match input {
            Input::Opened {
                session,
                who: Who::Node(node),
                ..
            } => drop(self.sessions.insert(*session, *node)),
            Input::Closed { session, .. } => drop(self.sessions.remove(session)),
            Input::Call {
                session,
                command: Command::Nodes(nodes::Command::Says(Said::Acknowledges { agent, up_to })),
                ..
            } => {
                let from = self.sessions.get(session).copied();
                self.now = Some(Acknowledgement {
                    from,
                    agent: agent.clone(),
                    up_to: *up_to,
                });
                let bound = self.bound.iter().find(|(name, _)| name.local() == agent);
                let Some((name, node)) = bound.filter(|(_, node)| from != Some(**node)) else {
                    return;
                };
                marks.hit("acknowledged by a node that has the agent no more");
                if bug == Some(Bug::OldBindingCounts)
                    && let Some(other) = self.live.get(node)
                {
                    *session = *other;
                    *up_to = highest(name);
                }
            }
            Input::Opened { .. }
            | Input::Named { .. }
            | Input::Call { .. }
            | Input::Cancelled { .. }
            | Input::Signed { .. }
            | Input::Worker { .. }
            | Input::KeptAlive { .. }
            | Input::WallClock { .. }
            | Input::Stopping => {}
        }
    }

    /// Returns to which connection of a node that had the agent before a frame goes, if there is one.
    pub fn of_before(&self, frame: &Frame) -> Option<SessionId> {
        let node = self.before.get(&frame.agent)?;
        self.live.get(node).copied()
    }

    /// Looks at what goes out.
    pub fn see(&mut self, effect: &Effect, marks: &Marks) -> Option<Violation> {
        match effect {
            Effect::Deliver { session, frame } => {
                let Frame {
                    handover,
                    agent,
                    number,
                    ..
                } = &**frame;
                self.sent.insert(*handover, (agent.clone(), *number));
                let (to, has) = (self.sessions.get(session), self.bound.get(agent));
                (to != has).then(|| Violation {
                    law: ELSEWHERE,
                    detail: format!("frame {number} of {agent} went to {to:?}, and {has:?} has it"),
                })
            }
            Effect::Note(Event::NodeCame { node, session }) => {
                self.live.insert(node.node, *session);
                None
            }
            Effect::Note(Event::NodeLeft { node } | Event::NodeLapsed { node }) => {
                self.live.remove(&node.node);
                None
            }
            Effect::Note(Event::Bound { agent, node }) => {
                let is_another = self.before.get(agent).is_some_and(|before| before != node);
                marks.hit_if(is_another, "agent bound to another node");
                self.bound.insert(agent.clone(), *node);
                None
            }
            Effect::Note(Event::Unbound { agent, node }) => {
                self.bound.remove(agent);
                self.before.insert(agent.clone(), *node);
                None
            }
            Effect::Note(Event::Undone { handover, by, .. }) => {
                let was_sent = self.sent.remove(handover).is_some();
                marks.hit_if(was_sent && *by == Sign::Fenced, "taken back from a node");
                None
            }
            Effect::Note(Event::Read {
                handover,
                by: Sign::Acknowledged,
            }) => self.acknowledged(*handover),
            Effect::Opened { .. }
            | Effect::Reply { .. }
            | Effect::Changed { .. }
            | Effect::Invoke { .. }
            | Effect::Tell { .. }
            | Effect::Superseded { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. }
            | Effect::Note(_) => None,
        }
    }

    /// Judges that a frame counts as acknowledged.
    fn acknowledged(&mut self, handover: HandoverId) -> Option<Violation> {
        // What came over an earlier connection may be acknowledged before it goes out again.
        let (agent, number) = self.sent.remove(&handover)?;
        let has = self.bound.get(&agent).copied();
        let is_good = self.now.as_ref().is_some_and(|now| {
            now.agent == agent.local() && now.from.is_some() && now.from == has && number <= now.up_to
        });
        (!is_good).then(|| Violation {
            law: ACKNOWLEDGED,
            detail: format!("frame {number} of {agent} was not"),
        })
    }
}

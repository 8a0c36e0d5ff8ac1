//! How the engine's events become those that observers are told of.

use super::super::entry::{About, Places, Step, What};
use super::Kept;
use crate::engine::actions::HandlerView;
use crate::engine::nodes::NodeView;
use crate::engine::receipts::Receipt;
use crate::engine::workers::Transition;
use crate::engine::{AgentName, ChannelName, Event, Message, Sign, Timestamp};

/// Tells whether observers are told of an event.
pub(super) fn is_told(event: &Event) -> bool {
    match event {
        Event::Accepted { .. }
        | Event::Undone { .. }
        | Event::AskedAgain { .. }
        | Event::Receipt { .. }
        | Event::Expired { .. }
        | Event::Held { .. }
        | Event::Allowed { .. }
        | Event::Dropped { .. }
        | Event::Marked { .. }
        | Event::Reacted { .. }
        | Event::Registered { .. }
        | Event::Gone { .. }
        | Event::TakenOver { .. }
        | Event::Joined { .. }
        | Event::Left { .. }
        | Event::Invoked { .. }
        | Event::InvocationEnded { .. }
        | Event::ActionDenied { .. }
        | Event::NodeCame { .. }
        | Event::NodeLeft { .. }
        | Event::NodeLapsed { .. }
        | Event::Worker(_)
        | Event::HandedOn { .. } => true,
        // What is tried again is undone, which is told.
        Event::PushFailed { again_at, .. } => again_at.is_none(),
        // What has failed its agent has said in a receipt.
        Event::Confirmed { by, .. } => *by != Sign::Failed,
        Event::Opened { .. }
        | Event::Closed { .. }
        | Event::Parked { .. }
        | Event::WaitEnded { .. }
        | Event::SpawnWaits { .. }
        | Event::StandsBy { .. }
        | Event::BroughtAsItsAgentHasIt { .. }
        | Event::Does { .. }
        | Event::Recognised { .. }
        | Event::HandedOver { .. }
        | Event::Passed { .. }
        | Event::KeptAlive { .. }
        | Event::Overdue { .. }
        | Event::Read { .. }
        | Event::Awaited { .. }
        | Event::HeldBack { .. }
        | Event::Holds { .. }
        | Event::Bound { .. }
        | Event::Unbound { .. }
        | Event::Stopping => false,
    }
}

impl Kept {
    /// Takes in an event that is told of.
    pub fn take_in(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::Accepted { message, agents, .. } => {
                let all = std::iter::once(&message.from).chain(agents);
                let what = What::Message {
                    message: message.clone(),
                    agents: agents.clone(),
                };
                self.push(at, what, all);
                for agent in agents {
                    self.push_step(at, message, agent, Step::Accepted);
                }
            }
            Event::Confirmed {
                by,
                agent,
                deliveries,
                ..
            } => {
                for delivery in deliveries.iter() {
                    self.push_step(at, &delivery.message, agent, Step::Delivered { by: *by });
                }
            }
            Event::Undone {
                by,
                agent,
                deliveries,
                ..
            } => {
                for delivery in deliveries.iter() {
                    self.push_step(at, &delivery.message, agent, Step::Undone { by: *by });
                }
            }
            Event::AskedAgain {
                agent,
                deliveries,
                after,
            } => {
                for delivery in deliveries.iter() {
                    self.push_step(at, &delivery.message, agent, Step::AskedAgain { after: *after });
                }
            }
            Event::PushFailed {
                agent,
                deliveries,
                error,
                ..
            } => {
                for delivery in deliveries.iter() {
                    let step = Step::Failed {
                        reason: Some(error.as_ref().into()),
                        retryable: true,
                    };
                    self.push_step(at, &delivery.message, agent, step);
                }
            }
            Event::Receipt {
                agent,
                deliveries,
                receipt,
                ..
            } => {
                for delivery in deliveries.iter() {
                    self.push_receipt(at, &delivery.message, agent, receipt);
                }
            }
            Event::Expired { agent, delivery } => {
                self.push_step(at, &delivery.message, agent, Step::Expired);
            }
            Event::Held { agent, delivery, by } => {
                self.push_step(at, &delivery.message, agent, Step::Held { by: *by });
            }
            Event::Allowed { agent, delivery } => {
                self.push_step(at, &delivery.message, agent, Step::Allowed);
            }
            Event::Dropped { agent, delivery } => {
                self.push_step(at, &delivery.message, agent, Step::Dropped);
            }
            Event::Marked { message, agent } => {
                let what = What::Read {
                    of: About::from(&**message),
                    by: agent.clone(),
                };
                self.push(at, what, [&message.from, agent]);
            }
            Event::Reacted {
                message,
                agent,
                emoji,
                given,
            } => {
                let what = What::Reacted {
                    of: About::from(&**message),
                    by: agent.clone(),
                    emoji: emoji.clone(),
                    given: *given,
                };
                self.push(at, what, [&message.from, agent]);
            }
            Event::Registered { agent } => self.push_agent(at, agent, true),
            Event::Gone { agent } => self.push_agent(at, agent, false),
            Event::TakenOver { agent } => {
                let what = What::TakenOver { agent: agent.clone() };
                self.push(at, what, [agent]);
            }
            Event::Joined { channel, agent } => self.push_member(at, channel, agent, true),
            Event::Left { channel, agent } => self.push_member(at, channel, agent, false),
            Event::Invoked { invocation } | Event::InvocationEnded { invocation } => {
                let handler = match &invocation.handler {
                    HandlerView::Agent(agent) => Some(agent),
                    HandlerView::Node(_) => None,
                };
                let concerned = std::iter::once(&invocation.caller).chain(handler);
                self.push(at, What::Invocation(invocation.clone()), concerned);
            }
            Event::ActionDenied { action, caller } => {
                let what = What::Denied {
                    action: action.clone(),
                    caller: caller.clone(),
                };
                self.push(at, what, [caller]);
            }
            Event::HandedOn {
                message, from, to, ..
            } => {
                let what = What::HandedOn {
                    of: About::from(&**message),
                    from: from.clone(),
                    to: to.clone(),
                };
                self.push(at, what, [&message.from, from, to]);
            }
            Event::Worker(transition) => {
                let Transition { agent, parent, .. } = &**transition;
                self.push(at, What::Worker(transition.clone()), [agent, parent]);
            }
            Event::NodeCame { node, .. } | Event::NodeLeft { node } => self.push_node(at, node, true),
            Event::NodeLapsed { node } => self.push_node(at, node, false),
            Event::Opened { .. }
            | Event::Closed { .. }
            | Event::Parked { .. }
            | Event::WaitEnded { .. }
            | Event::SpawnWaits { .. }
            | Event::StandsBy { .. }
            | Event::BroughtAsItsAgentHasIt { .. }
            | Event::Does { .. }
            | Event::Recognised { .. }
            | Event::HandedOver { .. }
            | Event::Passed { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::Read { .. }
            | Event::Awaited { .. }
            | Event::HeldBack { .. }
            | Event::Holds { .. }
            | Event::Bound { .. }
            | Event::Unbound { .. }
            | Event::Stopping => {}
        }
    }

    fn push_step(&mut self, at: Timestamp, message: &Message, agent: &AgentName, step: Step) {
        let what = What::Delivery {
            of: About::from(message),
            agent: agent.clone(),
            step,
        };
        self.push(at, what, [&message.from, agent]);
    }

    fn push_receipt(&mut self, at: Timestamp, message: &Message, agent: &AgentName, receipt: &Receipt) {
        let step = match receipt {
            // That it has arrived says it.
            Receipt::Done | Receipt::Accepted { .. } => return,
            Receipt::Failed { reason, retryable } => Step::Failed {
                reason: reason.clone(),
                retryable: *retryable,
            },
            Receipt::Deferred { until, reason } => Step::Deferred {
                until: *until,
                reason: reason.clone(),
            },
        };
        self.push_step(at, message, agent, step);
    }

    fn push_agent(&mut self, at: Timestamp, agent: &AgentName, is_there: bool) {
        let what = What::Agent {
            agent: agent.clone(),
            is_there,
        };
        self.push(at, what, [agent]);
    }

    fn push_member(&mut self, at: Timestamp, channel: &ChannelName, agent: &AgentName, is_in: bool) {
        let what = What::Member {
            channel: channel.clone(),
            agent: agent.clone(),
            is_in,
        };
        self.push(at, what, [agent]);
    }

    fn push_node(&mut self, at: Timestamp, node: &NodeView, is_held: bool) {
        let what = What::Node {
            node: Box::new(node.clone()),
            is_held,
        };
        let place = self.place(&node.project);
        self.keep(at, what, Places::One(place));
    }
}

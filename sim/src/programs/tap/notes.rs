//! What the engine says has happened, put down for the law that is about what relay says of it, and for the marks.

use relay::engine::{Carrier, Ending, Event, HandoverId, MessageId, Sign, WaitEnd};

use super::ProgramTap;
use crate::client::now_ms;
use crate::programs::history::{Accepted, Handed, StepSeen};
use crate::programs::plan::key_of;

impl ProgramTap {
    fn step(&self, handover: HandoverId, step: &'static str, by: Option<Sign>, over: Option<Carrier>) {
        let mut history = self.log.history();
        for id in self.handed.get(&handover).into_iter().flatten() {
            let seen = StepSeen {
                step,
                over: over.map(over_word),
                by: by.map(by_word),
            };
            history.steps.entry(*id).or_default().push(seen);
        }
    }

    pub(super) fn note(&mut self, event: &Event) {
        if self.log.history().is_over {
            return;
        }
        let line = format!("{event:?}");
        self.log
            .trace(now_ms(), line.chars().take(240).collect::<String>());
        match event {
            Event::Accepted {
                message,
                agents,
                places,
            } => {
                let mut history = self.log.history();
                for (agent, place) in agents.iter().zip(places.as_slice()) {
                    let number = agent.local().strip_prefix("dev-");
                    let number = number.and_then(|number| number.parse().ok());
                    let (Some(agent), Some(key)) = (number, key_of(&message.body)) else {
                        continue;
                    };
                    history.accepted.push(Accepted {
                        id: message.id,
                        key,
                        agent,
                        place: place.0,
                        given: message.handling().mode,
                        mode: message.handling().mode.unwrap_or_default(),
                        bytes: message.body.len(),
                    });
                    let step = StepSeen {
                        step: "queued",
                        over: None,
                        by: None,
                    };
                    history.steps.entry(message.id).or_default().push(step);
                }
            }
            Event::BroughtAsItsAgentHasIt { message, mode, .. } => {
                let mut history = self.log.history();
                let brought = history
                    .accepted
                    .iter_mut()
                    .filter(|accepted| accepted.id == *message);
                brought.for_each(|accepted| accepted.mode = *mode);
                let step = StepSeen {
                    step: "mode_of_agent",
                    over: None,
                    by: None,
                };
                history.steps.entry(*message).or_default().push(step);
            }
            Event::HandedOver {
                handover,
                carrier,
                deliveries,
                ..
            } => {
                let ids: Vec<MessageId> = deliveries.iter().map(|delivery| delivery.message.id).collect();
                let handed = ids.iter().map(|id| Handed {
                    id: *id,
                    at_ms: now_ms(),
                    is_undone: false,
                    handover: handover.0,
                });
                self.log.history().handed.extend(handed);
                self.handed.insert(*handover, ids);
                self.step(*handover, "handed_over", None, Some(*carrier));
            }
            Event::Read { handover, by } => self.step(*handover, "read", Some(*by), None),
            Event::Confirmed { handover, by, .. } => {
                self.step(*handover, "delivered", Some(*by), None);
            }
            Event::Undone { handover, by, .. } => {
                self.step(*handover, "undone", Some(*by), None);
                self.log
                    .history()
                    .handed
                    .iter_mut()
                    .filter(|handed| handed.handover == handover.0)
                    .for_each(|handed| handed.is_undone = true);
                let known = self
                    .programs
                    .values_mut()
                    .find(|known| known.wake.is_some_and(|(wake, _)| wake == *handover));
                // What keeps the engine from waking is said by the table of signs; that a program was taken over, by nothing else.
                if let Some(known) = known.filter(|_| *by == Sign::Fenced) {
                    known.wake = None;
                }
                self.marks.hit(match by {
                    Sign::DoubtOver => "undone: nothing was heard for long",
                    Sign::Lost => "undone: lost, or another turn has begun",
                    Sign::Fenced => "undone: taken over",
                    Sign::Ended(_) => "undone: the end of the program, or of a tool's connection",
                    Sign::Passed
                    | Sign::Followed
                    | Sign::CalledAgain
                    | Sign::Acknowledged
                    | Sign::KeptAlive
                    | Sign::Settled
                    | Sign::Listed
                    | Sign::Receipted
                    | Sign::Failed
                    | Sign::Deferred(_)
                    | Sign::DeferralOver
                    | Sign::NotTaken
                    | Sign::GivenUp
                    | Sign::Redriven
                    | Sign::Seen
                    | Sign::Unseen
                    | Sign::Cancelled => "undone: else",
                });
            }
            Event::TakenOver { .. } => self.marks.hit("agent taken over"),
            Event::Recognised { .. } => self.marks.hit("program known by what its model said"),
            Event::WaitEnded {
                by: WaitEnd::Fenced, ..
            } => self.marks.hit("waiter fenced"),
            Event::Opened { .. }
            | Event::Closed { .. }
            | Event::Registered { .. }
            | Event::Gone { .. }
            | Event::Left { .. }
            | Event::Joined { .. }
            | Event::Parked { .. }
            | Event::StandsBy { .. }
            | Event::Does { .. }
            | Event::WaitEnded { .. }
            | Event::Passed { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::Awaited { .. }
            | Event::Holds { .. }
            | Event::Held { .. }
            | Event::Allowed { .. }
            | Event::Dropped { .. }
            | Event::HeldBack { .. }
            | Event::Receipt { .. }
            | Event::PushFailed { .. }
            | Event::Expired { .. }
            | Event::AskedAgain { .. }
            | Event::Marked { .. }
            | Event::Reacted { .. }
            | Event::Invoked { .. }
            | Event::InvocationEnded { .. }
            | Event::ActionDenied { .. }
            | Event::NodeCame { .. }
            | Event::NodeLeft { .. }
            | Event::NodeLapsed { .. }
            | Event::Bound { .. }
            | Event::Unbound { .. }
            | Event::SpawnWaits { .. }
            | Event::Worker(_)
            | Event::HandedOn { .. }
            | Event::Stopping => {}
        }
    }
}

fn over_word(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Stream => "sse",
        Carrier::Exchange => "http",
        Carrier::Node => "node",
        Carrier::Hook => "hook",
        Carrier::Wake => "wake",
    }
}

fn by_word(sign: Sign) -> &'static str {
    match sign {
        Sign::Followed => "followed",
        Sign::CalledAgain => "called_again",
        Sign::Acknowledged => "acknowledged",
        Sign::DoubtOver => "doubt_over",
        Sign::Ended(Ending::Orderly) => "ended",
        Sign::Ended(Ending::Broken) => "broken",
        Sign::Fenced => "taken_over",
        Sign::Cancelled => "cancelled",
        Sign::Lost => "lost",
        Sign::Passed
        | Sign::KeptAlive
        | Sign::Settled
        | Sign::Listed
        | Sign::Receipted
        | Sign::Failed
        | Sign::Deferred(_)
        | Sign::DeferralOver
        | Sign::NotTaken
        | Sign::GivenUp
        | Sign::Redriven
        | Sign::Seen
        | Sign::Unseen => "a sign that says nothing here",
    }
}

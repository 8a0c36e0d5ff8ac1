//! Calls that wait. A wait is state, not a future: it is parked, and ends in exactly five ways ([`WaitEnd`]).

use std::num::NonZeroUsize;

use super::events::{Event, WaitEnd};
use super::inbox::{Answers, Filter};
use super::io::{Answer, Effect, Refusal};
use super::mail;
use super::message::Message;
use super::names::{AgentName, CallId, SessionId};
use super::room::Room;
use super::time::Timestamp;
use super::timers::Timer;
use super::{Engine, Step};

/// A parked read, or a post that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Wait {
    pub session: SessionId,
    pub agent: AgentName,
    /// What it waits for.
    pub filter: Filter,
    pub parked_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Wait {
    /// Waits for what answers a message.
    pub fn for_answer(
        session: SessionId,
        message: &Message,
        answers: Answers,
        now: Timestamp,
        (ms, room): (u32, Option<Room>),
    ) -> Self {
        Self {
            session,
            agent: message.from.clone(),
            filter: Filter {
                limit: NonZeroUsize::new(1),
                answers: Some(answers),
                room,
                ..Filter::default()
            },
            parked_at: now,
            expires_at: now.plus_millis(i64::from(ms)),
        }
    }
}

impl Engine {
    pub(super) fn park(&mut self, call: CallId, wait: Wait, step: &mut Step<'_>) {
        let Wait {
            session,
            agent,
            expires_at,
            ..
        } = wait.clone();
        self.timers.arm(expires_at, Timer::WaitExpires(call));
        self.session_mut(session).waits.insert(call);
        let in_line = self.inboxes[&agent].waits.iter();
        let place = match wait.filter.answers {
            Some(_) => in_line
                .take_while(|other| self.waits[other].filter.answers.is_some())
                .count(),
            None => in_line.len(),
        };
        self.inbox_mut(&agent).waits.insert(place, call);
        let before = self.waits.insert(call, wait);
        assert!(before.is_none(), "a call waits once");
        step.note(Event::Parked {
            call,
            session,
            agent,
            expires_at,
        });
    }

    pub(super) fn unpark(&mut self, call: CallId, by: WaitEnd, step: &mut Step<'_>) -> Wait {
        let wait = self.waits.remove(&call).expect("the call is parked");
        self.timers.disarm(wait.expires_at, Timer::WaitExpires(call));
        self.session_mut(wait.session).waits.remove(&call);
        self.inbox_mut(&wait.agent).waits.retain(|other| *other != call);
        step.note(Event::WaitEnded { call, by });
        wait
    }

    /// Ends a wait and answers it with what is there.
    pub(super) fn end_wait(&mut self, call: CallId, by: WaitEnd, step: &mut Step<'_>) {
        let Wait {
            session,
            agent,
            filter,
            parked_at,
            expires_at,
        } = self.unpark(call, by, step);
        self.has_waited(session, &agent, step.now);
        if let Some(answers) = &filter.answers
            && by == WaitEnd::Expired
        {
            let refusal = if self.stopping {
                Refusal::Stopping
            } else {
                let ms = expires_at.millis_since(parked_at);
                let ms = u32::try_from(ms).expect("it was one");
                let to = answers.to.clone();
                mail::Refusal::NoAnswer { to, ms }.into()
            };
            step.out.push(Effect::Reply {
                call,
                result: Err(refusal),
                handover: None,
            });
            return;
        }
        let waited_ms = step.now.millis_since(parked_at);
        let Answer { reply, handover } = self.take(session, &agent, &filter, waited_ms, step);
        step.out.push(Effect::Reply {
            call,
            result: Ok(reply),
            handover,
        });
    }

    /// Tells whether there is something for a call that waits.
    pub(super) fn has_news_for(&self, call: CallId) -> bool {
        let Wait {
            session,
            agent,
            filter,
            ..
        } = &self.waits[&call];
        self.has_news(*session, agent, filter)
    }

    /// Ends a wait that nobody wants answered; nothing if the call does not wait.
    pub(super) fn cancel_wait(&mut self, call: CallId, step: &mut Step<'_>) {
        if self.waits.contains_key(&call) {
            let Wait { session, agent, .. } = self.unpark(call, WaitEnd::Cancelled, step);
            self.has_waited(session, &agent, step.now);
        } else if let Some(&session) = self.waiters.get(&call) {
            self.unpark_waiter(session, WaitEnd::Cancelled, step);
        } else {
            self.cancel_spawn(call, step);
        }
    }

    /// Gives what is in an inbox to the call that has waited for it the longest, those first that wait for an answer, and what that
    /// leaves to the next: what it did not ask for, or the news of the start, which the person does not take in an agent's stead.
    pub(super) fn wake(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        loop {
            let mut waits = self.inboxes[agent].waits.iter();
            let news = |call: &&CallId| self.has_news_for(**call);
            let Some(&call) = waits.find(news) else {
                return;
            };
            self.end_wait(call, WaitEnd::Woken, step);
        }
    }
}

//! Posting and reading.

use std::sync::Arc;

use super::events::{Event, WaitEnd};
use super::handover::HandedOver;
use super::io::{Answer, Outcome, Refusal, Reply};
use super::message::{Kind, Message};
use super::names::{AgentName, CallId, MessageId, RandomBytes, SessionId, uuid_v4};
use super::sessions::Speaker;
use super::waits::Wait;
use super::{Engine, Step};

/// A message that is to be posted.
pub(super) struct Draft {
    pub from: Speaker,
    pub to: AgentName,
    pub kind: Kind,
    pub body: String,
}

impl Engine {
    /// Puts a message into an inbox. Its id is made of `random`.
    pub(super) fn post(
        &mut self,
        draft: Draft,
        random: RandomBytes,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Refusal> {
        let Draft { from, to, kind, body } = draft;
        if body.len() > self.bounds.body_bytes_max {
            return Err(Refusal::BodyTooLong {
                bytes: body.len(),
                bytes_max: self.bounds.body_bytes_max,
            });
        }
        let inbox = self.inboxes.get_mut(&to).expect("each agent has an inbox");
        if !inbox.has_room(body.len(), &self.bounds) {
            return Err(Refusal::InboxFull {
                agent: to.to_string(),
                messages: inbox.messages(),
                bytes: inbox.bytes(),
                messages_max: self.bounds.inbox_messages_max,
                bytes_max: self.bounds.inbox_bytes_max,
            });
        }
        if self.stopping {
            return Err(Refusal::Stopping);
        }
        let id = MessageId(uuid_v4(random));
        let message = Arc::new(Message {
            id,
            from: from.into_agent(),
            to: to.clone(),
            kind,
            body,
            ts: step.now,
        });
        inbox.push(Arc::clone(&message));
        step.note(Event::Accepted {
            message,
            agent: to.clone(),
        });
        step.has_news(to);
        Ok(Outcome::Answered(Reply::Posted { id }.into()))
    }

    /// Answers a read, or parks it if there is nothing to say and it may wait.
    pub(super) fn read(
        &mut self,
        session: SessionId,
        call: CallId,
        reader: Speaker,
        wait_ms: u32,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Refusal> {
        let agent = reader.into_agent();
        if wait_ms == 0 || self.stopping || self.has_news(session, &agent) {
            return Ok(Outcome::Answered(self.take(session, &agent, step)));
        }
        let parked = &self.sessions[&session].waits;
        let superseded = parked.iter().find(|call| self.waits[call].agent == agent);
        let superseded = superseded.copied();
        if superseded.is_none() && self.waits.len() >= self.bounds.waits_max {
            return Err(Refusal::TooManyWaits {
                waits: self.waits.len(),
            });
        }
        if let Some(older) = superseded {
            self.end_wait(older, WaitEnd::Superseded, step);
        }
        let expires_at = step.now.plus_millis(i64::from(wait_ms));
        let wait = Wait {
            session,
            agent,
            expires_at,
        };
        self.park(call, wait, step);
        Ok(Outcome::Parked)
    }

    pub(super) fn pending(&self, reader: &Speaker) -> Outcome {
        let waiting = self.inboxes[reader.agent()].waiting();
        let kinds = waiting.map(|delivery| delivery.message.kind).collect();
        Outcome::Answered(Reply::Pending { kinds }.into())
    }

    pub(super) fn peek(&self, reader: &Speaker) -> Outcome {
        let deliveries = self.inboxes[reader.agent()].waiting().cloned().collect();
        Outcome::Answered(Reply::Seen { deliveries }.into())
    }

    /// Takes all that is in an inbox into an answer.
    pub(super) fn take(&mut self, session: SessionId, agent: &AgentName, step: &mut Step<'_>) -> Answer {
        let started_at = self.boot.started_at;
        let HandedOver {
            id,
            deliveries,
            notice,
        } = self.hand_over(session, agent, step);
        Answer {
            reply: Reply::Messages {
                deliveries,
                restarted: notice.then_some(started_at),
            },
            handover: id,
        }
    }

    /// Tells whether a read of a session has something to say: a message, or that the relay started.
    pub(super) fn has_news(&self, session: SessionId, agent: &AgentName) -> bool {
        let inbox = &self.inboxes[agent];
        inbox.waiting().len() > 0 || (inbox.notice_due && self.tells(session, agent))
    }
}

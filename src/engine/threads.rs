//! What a message belongs to: a thread, the message that it answers, and how many times its senders have taken turns.
//!
//! Nothing is kept about threads but what stands in the messages themselves. What a sender answers is found among what it got: what
//! waits for it, what was handed over to it, and the latest that it has read; or else in the inbox of the one to whom it writes.
//!
//! The first answer to a message that belongs to no thread begins one, whose name is the id of that message.

use std::sync::Arc;

use super::address::Warning;
use super::handling::Handling;
use super::limits::THREAD_BYTES_MAX;
use super::mail::{PostOptions, Refusal};
use super::message::{Context, Delivery, Message};
use super::names::{AgentName, MessageId, shown};
use super::time::Timestamp;
use super::trace::beginning;
use super::{Engine, Seq};

impl Engine {
    /// Finds out what a message belongs to that is about to be sent, and how it is to be brought; none if there is nothing to say. What it
    /// answers may be forgotten: then it does not belong to that, and `warnings` says so.
    pub(super) fn context(
        &self,
        from: &AgentName,
        to: &[AgentName],
        options: PostOptions,
        now: Timestamp,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<Box<Context>>, Refusal> {
        let PostOptions {
            thread,
            reply_to,
            metadata,
            await_ms: _,
            room: _,
            idempotency_key,
            handling,
        } = options;
        handling.check(now)?;
        let idempotency_key = idempotency_key.map(String::into_boxed_str);
        let is_plain = metadata.is_none() && idempotency_key.is_none() && handling == Handling::default();
        if thread.is_none() && reply_to.is_none() && is_plain {
            return Ok(None);
        }
        if let Some(thread) = &thread {
            check_thread(thread)?;
        }
        let answered = match &reply_to {
            None => None,
            Some(given) => self.answered(from, to, given)?,
        };
        if reply_to.is_some() && answered.is_none() {
            warnings.push(Warning::AnswersForgotten);
            if thread.is_none() && is_plain {
                return Ok(None);
            }
        }
        let thread = thread.or_else(|| {
            let answered = answered?;
            let thread = answered.thread().map(str::to_owned);
            Some(thread.unwrap_or_else(|| answered.id.to_string()))
        });
        let before = match &thread {
            Some(thread) if !from.is_person() => self.latest(from, thread, answered),
            Some(_) | None => None,
        };
        let hops = before.map_or(0, |before| before.hops() + u32::from(before.from != *from));
        if hops > self.bounds.hops_max {
            return Err(Refusal::TooManyHops {
                hops_max: self.bounds.hops_max,
                thread: thread.unwrap_or_default(),
            });
        }
        Ok(Some(Box::new(Context {
            reply_to: answered.map(|message| message.id),
            thread,
            metadata,
            idempotency_key,
            hops,
            handling,
        })))
    }

    /// Finds the message that is answered, by its id or the beginning of it: among what either side got, and for the person among all that
    /// is remembered; none if an agent names one by its id that is not among those, which it may have got long ago.
    fn answered(&self, from: &AgentName, to: &[AgentName], given: &str) -> Result<Option<&Message>, Refusal> {
        let unknown = || Refusal::UnknownMessage { given: shown(given) };
        let other = match to {
            [other] => Some(other),
            _ => None,
        };
        let got = [from].into_iter().chain(other).flat_map(|agent| self.got(agent));
        // Its sender may go on with what is held, which nobody got.
        let held = other.into_iter().flat_map(|other| self.inboxes[other].aside());
        let held = held.filter(|delivery| delivery.message.from == *from);
        let messages = got.chain(held).map(|delivery| &*delivery.message);
        let is_person = from.is_person();
        let remembered = self.trace.accepted().rev().map(|(_, message)| &**message);
        let mut messages = messages.chain(remembered.filter(move |_| is_person));
        if let Ok(id) = given.parse().map(MessageId) {
            let found = messages.find(|message| message.id == id);
            return match found {
                None if is_person => Err(unknown()),
                found => Ok(found),
            };
        }
        let begins_so = beginning(given).ok_or_else(unknown)?;
        let mut meant = messages.filter(|message| begins_so(message.id));
        let found = meant.next().ok_or_else(unknown)?;
        match meant.all(|other| other.id == found.id) {
            true => Ok(Some(found)),
            false => Err(Refusal::AmbiguousMessage { given: shown(given) }),
        }
    }

    /// Finds the message from which the turns are counted on: the latest that somebody got of a thread, the answered one included.
    /// Answering an older one does not count back; a message of the person's does, for it begins anew.
    fn latest<'a>(
        &'a self,
        agent: &AgentName,
        thread: &str,
        answered: Option<&'a Message>,
    ) -> Option<&'a Message> {
        let is_meant = |message: &Message| {
            message.thread() == Some(thread) || answered.is_some_and(|answered| answered.id == message.id)
        };
        let meant = self.got(agent).filter(|delivery| is_meant(&delivery.message));
        let latest = meant.max_by_key(|delivery| -> Seq { delivery.seq });
        latest.map(|delivery| &*delivery.message).or(answered)
    }

    /// Finds a message by its id, among what somebody got.
    pub(super) fn find(&self, agent: &AgentName, given: &str) -> Result<&Arc<Message>, Refusal> {
        let unknown = || Refusal::UnknownMessage { given: shown(given) };
        let id = MessageId(given.parse().map_err(|_| unknown())?);
        let mut messages = self.got(agent).map(|delivery| &delivery.message);
        messages.find(|message| message.id == id).ok_or_else(unknown)
    }

    /// Goes through all that is known of what somebody got.
    pub(super) fn got(&self, agent: &AgentName) -> impl Iterator<Item = &Delivery> {
        self.inboxes[agent].waiting().chain(self.handed_before(agent))
    }
}

fn check_thread(thread: &str) -> Result<(), Refusal> {
    let is_good = (1..=THREAD_BYTES_MAX).contains(&thread.len()) && !thread.chars().any(char::is_control);
    if is_good {
        return Ok(());
    }
    let given = shown(thread);
    Err(Refusal::InvalidThread { given })
}

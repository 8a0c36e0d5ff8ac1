//! What a message belongs to.

use relay::engine::address::Warning;

use super::*;

impl Model {
    /// Finds out what a message belongs to, from what its sender says of it.
    pub(super) fn belongs_to(
        &mut self,
        from: &AgentName,
        to: &[AgentName],
        options: &mail::PostOptions,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<Box<Context>>, Refusal> {
        let mail::PostOptions {
            thread,
            reply_to,
            metadata,
            idempotency_key,
            ..
        } = options;
        if (thread, reply_to, metadata, idempotency_key) == (&None, &None, &None, &None) {
            return Ok(None);
        }
        if let Some(thread) = thread {
            let is_bad =
                thread.is_empty() || thread.len() > THREAD_BYTES_MAX || thread.contains(char::is_control);
            if is_bad {
                self.marks.reach(Mark::BadThread);
                let given: String = thread.chars().take(80).collect();
                let cut = if thread.chars().count() > 80 {
                    "\u{2026}"
                } else {
                    ""
                };
                let given = given + cut;
                return Err(Refusal::Mail(mail::Refusal::InvalidThread { given }));
            }
            self.marks.reach(Mark::InThread);
        }
        let answered = match reply_to {
            None => None,
            Some(given) => match self
                .message_to_answer(from, to, given)
                .or_else(|| self.remembered_by(from, given))
            {
                Some(message) => {
                    self.marks.reach(Mark::Reply);
                    Some(message)
                }
                None if uuid::Uuid::parse_str(given).is_ok() && !from.is_person() => {
                    self.marks.reach(Mark::ReplyToForgotten);
                    warnings.push(Warning::AnswersForgotten);
                    if (thread, metadata, idempotency_key) == (&None, &None, &None) {
                        return Ok(None);
                    }
                    None
                }
                None => {
                    self.marks.reach(Mark::ReplyToUnknown);
                    let given = given.clone();
                    return Err(Refusal::Mail(mail::Refusal::UnknownMessage { given }));
                }
            },
        };
        let thread = match (thread, &answered) {
            (Some(thread), _) => Some(thread.clone()),
            (None, None) => None,
            (None, Some(answered)) => match answered.thread() {
                Some(thread) => Some(thread.to_owned()),
                None => {
                    self.marks.reach(Mark::ThreadBegins);
                    Some(answered.id.to_string())
                }
            },
        };
        let answered_id = answered.as_ref().map(|message| message.id);
        let counts = |m: &&&Kept| {
            let message = &m.delivery.message;
            let in_thread = thread.is_some() && message.thread() == thread.as_deref();
            in_thread || Some(message.id) == answered_id
        };
        let got = self.known_to(from);
        let latest = got.iter().filter(counts).max_by_key(|m| m.number);
        let latest = latest.map(|m| Arc::clone(&m.delivery.message));
        self.marks.reach_if(
            answered_id.is_some()
                && latest
                    .as_ref()
                    .is_some_and(|message| Some(message.id) != answered_id),
            Mark::ReplyToAnOlderOne,
        );
        let hops = match latest.or(answered.clone()) {
            Some(_) if from.is_person() => {
                self.marks.reach(Mark::PersonEndsTheHops);
                0
            }
            Some(before) if before.from == *from => before.hops(),
            Some(before) => before.hops() + 1,
            None => 0,
        };
        let hops_max = self.bounds.hops_max;
        if hops > hops_max {
            self.marks.reach(Mark::TooManyHops);
            let thread = thread.expect("there was something before it");
            return Err(Refusal::Mail(mail::Refusal::TooManyHops { hops_max, thread }));
        }
        self.marks.reach_if(hops > 1, Mark::SeveralHops);
        Ok(Some(Box::new(Context {
            thread,
            reply_to: answered.map(|message| message.id),
            metadata: metadata.clone(),
            idempotency_key: idempotency_key.as_deref().map(Box::from),
            hops,
            handling: relay::engine::handling::Handling::default(),
        })))
    }

    /// Lists what somebody got and is known of it: what is not known to have been read, and the latest of what was.
    pub(super) fn known_to(&self, agent: &AgentName) -> Vec<&Kept> {
        let recent = self.recent(agent);
        let is_known = |m: &&Kept| match m.state {
            State::Waiting | State::Handed(_) | State::InParts => true,
            State::Read => recent.iter().any(|r| r.number == m.number),
            State::Aside | State::Dropped => false,
        };
        self.messages
            .iter()
            .filter(|m| m.is_for(agent))
            .filter(is_known)
            .collect()
    }

    /// Finds a message that its sender got, or the only one to whom it writes.
    pub(super) fn message_to_answer(
        &mut self,
        from: &AgentName,
        to: &[AgentName],
        given: &str,
    ) -> Option<Arc<Message>> {
        let find = |agent: &AgentName| {
            let got = self.known_to(agent);
            let found = got.iter().find(|m| m.delivery.message.id.to_string() == given);
            found.map(|m| (Arc::clone(&m.delivery.message), m.state))
        };
        if let Some((message, state)) = find(from) {
            self.marks.reach(match state {
                State::Waiting => Mark::ReplyToUnread,
                State::Handed(_) | State::InParts => Mark::ReplyToDoubted,
                State::Read => Mark::ReplyToRead,
                State::Aside | State::Dropped => unreachable!("nobody got it"),
            });
            return Some(message);
        }
        let [other] = to else { return None };
        if let Some((message, _)) = find(other) {
            self.marks.reach(Mark::ReplyToOwn);
            return Some(message);
        }
        // Nobody got it, but its sender knows it.
        let mut aside = self.messages.iter().filter(|m| m.is_aside_for(other));
        let held = aside.find(|m| {
            let message = &m.delivery.message;
            message.from == *from && message.id.to_string() == given
        })?;
        let message = Arc::clone(&held.delivery.message);
        self.marks.reach(HoldMark::ReplyToHeldOwn);
        Some(message)
    }

    /// Finds a message whose acceptance is remembered, for the person alone.
    fn remembered_by(&self, from: &AgentName, given: &str) -> Option<Arc<Message>> {
        let told = self.told.iter().skip(self.forgotten());
        let mut accepted = told.filter_map(|(_, told)| {
            let (Told::Accepted(message) | Told::Sent(message, ..)) = told else {
                return None;
            };
            Some(message)
        });
        let found = accepted.find(|message| message.id.to_string() == given);
        found.filter(|_| from.is_person()).map(Arc::clone)
    }

    /// Forgets what somebody has read but the latest of it.
    pub(super) fn forget(&mut self, agent: &AgentName) {
        let kept: Vec<u64> = self.recent(agent).iter().map(|m| m.number).collect();
        for m in &mut self.messages {
            m.forgotten |= m.is_for(agent) && m.state == State::Read && !kept.contains(&m.number);
        }
    }

    /// Lists the latest of what somebody has read, the latest last: so many, and so many bytes.
    pub(super) fn recent(&self, agent: &AgentName) -> Vec<&Kept> {
        let read = self.messages.iter();
        let mut read: Vec<&Kept> = read
            .filter(|m| m.is_for(agent) && m.state == State::Read && !m.forgotten)
            .collect();
        read.sort_by_key(|m| (m.read_with, m.number));
        let bytes = |read: &[&Kept]| read.iter().map(|m| m.bytes()).sum::<usize>();
        while read.len() > RECENT_MAX || (bytes(&read) > RECENT_BYTES_MAX && read.len() > 1) {
            read.remove(0);
        }
        read
    }
}

//! Messages that no reply has room for: they are shown in parts.

use super::*;

impl Model {
    /// Whoever was shown some parts of what waits for an agent is not shown the others.
    pub(super) fn begin_parts_anew(
        &mut self,
        agent: &AgentName,
        reads_no_more: impl Fn(Option<SessionId>) -> bool,
        mark: Mark,
    ) {
        for kept in &mut self.messages {
            let begun = kept.parts.as_ref().filter(|_| kept.state != State::InParts);
            if kept.agent == *agent && begun.is_some_and(|parts| reads_no_more(parts.stream)) {
                kept.parts = None;
                kept.delivery.redelivered = true;
                self.marks.reach(mark);
            }
        }
    }

    /// A part has arrived with a reply. Returns the message, and whose it is, if it was the last that was missing.
    pub(super) fn all_parts_arrive(&mut self, call: CallId) -> Option<(MessageId, AgentName)> {
        let kept = self.messages.iter_mut().find(|m| m.has_part_in(call))?;
        let parts = kept.parts.as_mut()?;
        parts.standing.retain(|(other, _)| *other != call);
        if !parts.standing.is_empty() {
            return None;
        }
        if kept.state != State::InParts {
            if parts.next.0 == 0 {
                kept.parts = None;
            }
            return None;
        }
        kept.parts = None;
        kept.state = State::Read;
        kept.read_with = self.confirmed;
        Some((kept.delivery.message.id, kept.agent.clone()))
    }
}

impl Kept {
    /// Tells whether the reply to a call has a part of it that counts.
    pub(super) fn has_part_in(&self, call: CallId) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|parts| parts.standing.iter().any(|(other, _)| *other == call))
    }

    /// Takes its next part for the reply to a call, and tells whether it is the last.
    pub(super) fn show_part(
        &mut self,
        (call, stream): (CallId, Option<SessionId>),
        room: &Room,
        marks: &mut Marks,
    ) -> (Part, bool) {
        let none = Parts {
            next: (0, 1),
            stream,
            standing: Vec::new(),
        };
        let parts = self.parts.get_or_insert(none);
        let (from, number) = parts.next;
        let part = room.part(&self.delivery.message, from, (number, None));
        parts.standing.push((call, parts.next));
        parts.next = (part.to, number + 1);
        parts.stream = stream;
        marks.reach(Mark::ShownInParts);
        marks.reach_if(self.delivery.redelivered, Mark::PartShownAgain);
        if part.is_last() {
            self.state = State::InParts;
        }
        (part, part.is_last())
    }

    /// The part in the reply to a call has not arrived: from there on it is shown again. Tells whether none of it waited; nothing if there is
    /// no such part.
    pub(super) fn part_returns(&mut self, call: CallId) -> Option<bool> {
        if !self.has_part_in(call) {
            return None;
        }
        let parts = self.parts.as_mut()?;
        let at = parts.standing.iter().position(|(other, _)| *other == call)?;
        let (_, start) = parts.standing.remove(at);
        parts.next = parts.next.min(start);
        if parts.next.0 == 0 && parts.standing.is_empty() {
            self.parts = None;
        }
        self.delivery.redelivered = true;
        let is_whole = self.state == State::InParts;
        if is_whole {
            self.state = State::Waiting;
        }
        Some(is_whole)
    }
}

//! Messages that no reply has room for: they are shown in parts, to each reader from the first on.

use super::*;

impl Model {
    /// Whoever was shown some parts of what waits for an agent is not shown the others.
    pub(super) fn begin_parts_anew(&mut self, agent: &AgentName) {
        for kept in &mut self.messages {
            let waits = kept.agent == *agent && kept.state != State::InParts;
            if waits && !kept.parts.is_empty() {
                kept.parts.clear();
                kept.delivery.redelivered = true;
                self.marks.reach(Mark::PartsBegunAnewForALaterInstance);
            }
        }
    }

    /// A session is about to read: of what waits for the agent, streams that are gone are not shown the rest, and an exchange may go on
    /// where one stopped that is gone.
    pub(super) fn parts_go_on(&mut self, agent: &AgentName, open: &Open) {
        let sessions: BTreeSet<SessionId> = self.sessions.iter().map(|open| open.session).collect();
        let is_gone = |parts: &Parts| !sessions.contains(&parts.session);
        for kept in &mut self.messages {
            if kept.agent != *agent || kept.state == State::InParts {
                continue;
            }
            let ends = |parts: &Parts| is_gone(parts) && parts.carrier != Carrier::Exchange;
            if kept.parts.iter().any(ends) {
                kept.parts.retain(|parts| !ends(parts));
                kept.delivery.redelivered = true;
                self.marks.reach(Mark::PartsBegunAnewForAnotherStream);
            }
            if open.carrier != Carrier::Exchange || kept.parts_for(open.session).is_some() {
                continue;
            }
            let mut left: Vec<&mut Parts> = kept.parts.iter_mut().filter(|parts| is_gone(parts)).collect();
            left.retain(|parts| parts.session.0 < open.session.0);
            left.sort_by_key(|parts| parts.next);
            if let Some(parts) = left.pop() {
                parts.session = open.session;
                self.marks.reach(Mark::PartsGoneOnByAnotherExchange);
            }
        }
    }

    /// A part has arrived with a reply. Returns the message, and whose it is, if it was the last that was missing.
    pub(super) fn all_parts_arrive(&mut self, call: CallId) -> Option<(MessageId, AgentName)> {
        let kept = self.messages.iter_mut().find(|m| m.has_part_in(call))?;
        for parts in &mut kept.parts {
            parts.standing.retain(|(other, _)| *other != call);
        }
        kept.parts
            .retain(|parts| parts.next.0 > 0 || !parts.standing.is_empty());
        let is_missing = kept.parts.iter().any(|parts| !parts.standing.is_empty());
        if kept.state != State::InParts || is_missing {
            return None;
        }
        kept.parts.clear();
        kept.state = State::Read;
        kept.read_with = self.confirmed;
        Some((kept.delivery.message.id, kept.agent.clone()))
    }
}

impl Kept {
    /// Tells whether the reply to a call has a part of it that counts.
    pub(super) fn has_part_in(&self, call: CallId) -> bool {
        let mut standing = self.parts.iter().flat_map(|parts| &parts.standing);
        standing.any(|(other, _)| *other == call)
    }

    /// Returns how far it was shown to a session.
    pub(super) fn parts_for(&self, session: SessionId) -> Option<&Parts> {
        self.parts.iter().find(|parts| parts.session == session)
    }

    /// Takes its next part for the reply to a call, and tells whether it is the last.
    pub(super) fn show_part(
        &mut self,
        call: CallId,
        open: &Open,
        room: &Room,
        marks: &mut Marks,
    ) -> (Part, bool) {
        if self.parts_for(open.session).is_none() {
            marks.reach_if(!self.parts.is_empty(), Mark::ShownInPartsToAnotherAsWell);
            self.delivery.redelivered |= !self.parts.is_empty();
            self.parts.push(Parts {
                session: open.session,
                carrier: open.carrier,
                next: (0, 1),
                standing: Vec::new(),
            });
        }
        let mut own = self.parts.iter_mut();
        let own = own.find(|parts| parts.session == open.session);
        let own = own.expect("it is shown to this one");
        let (from, number) = own.next;
        let part = room.part(&self.delivery.message, from, (number, None));
        own.standing.push((call, own.next));
        own.next = (part.to, number + 1);
        marks.reach(Mark::ShownInParts);
        marks.reach_if(self.delivery.redelivered, Mark::PartShownAgain);
        if part.is_last() {
            self.state = State::InParts;
            marks.reach_if(self.parts.len() > 1, Mark::ShownWholeToTheFirst);
            self.parts.retain(|parts| parts.session == open.session);
        }
        (part, part.is_last())
    }

    /// The part in the reply to a call has not arrived: from there on it is shown again. Tells whether none of it waited; nothing if there is
    /// no such part.
    pub(super) fn part_returns(&mut self, call: CallId) -> Option<bool> {
        if !self.has_part_in(call) {
            return None;
        }
        for parts in &mut self.parts {
            let standing = std::mem::take(&mut parts.standing);
            let (gone, standing) = standing.into_iter().partition(|(other, _)| *other == call);
            parts.standing = standing;
            let gone: Vec<(CallId, (usize, u32))> = gone;
            for (_, start) in gone {
                parts.next = parts.next.min(start);
            }
        }
        self.parts
            .retain(|parts| parts.next.0 > 0 || !parts.standing.is_empty());
        self.delivery.redelivered = true;
        let is_whole = self.state == State::InParts;
        if is_whole {
            self.state = State::Waiting;
        }
        Some(is_whole)
    }
}

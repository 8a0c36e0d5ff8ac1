//! Messages that no reply has room for: they are shown in parts, to each reader from the first on.

use super::*;

impl Model {
    /// Whoever was shown some parts of what is for an agent is not shown the others.
    pub(super) fn begin_parts_anew(&mut self, agent: &AgentName) {
        for kept in self.messages.iter_mut().filter(|kept| kept.agent == *agent) {
            if kept.state == State::InParts {
                kept.parts
                    .iter_mut()
                    .for_each(|parts| (parts.next, parts.begun) = ((0, 1), 1));
            } else if !kept.parts.is_empty() {
                kept.parts.clear();
                kept.delivery.redelivered = true;
                self.marks.reach(Mark::PartsBegunAnewForALaterInstance);
            }
        }
    }

    /// Of what waits for an agent, streams that are gone are not shown the rest.
    pub(super) fn forget_streams(&mut self, agent: &AgentName) {
        let open: BTreeSet<SessionId> = self.sessions.iter().map(|open| open.session).collect();
        let is_gone = |parts: &Parts| matches!(parts.to, Reads::Stream(stream) if !open.contains(&stream));
        for kept in &mut self.messages {
            let waits = kept.agent == *agent && kept.state != State::InParts;
            if waits && kept.parts.iter().any(is_gone) {
                kept.parts.retain(|parts| !is_gone(parts));
                kept.delivery.redelivered = true;
                self.marks.reach(Mark::PartsBegunAnewForAnotherStream);
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

    /// Takes its next part for the reply to a call, and tells whether it is the last.
    pub(super) fn show_part(
        &mut self,
        call: CallId,
        (open, (clients, sessions)): (&Open, &(BTreeSet<ClientId>, BTreeSet<SessionId>)),
        room: &Room,
        marks: &mut Marks,
    ) -> (Part, bool) {
        let to = open.reads();
        if self.parts.is_empty() {
            self.parts_shown = 0;
        }
        let others = self.parts.iter().filter(|parts| parts.to != to).count();
        let own = self.parts.iter().position(|parts| parts.to == to);
        let mut gone: Vec<usize> = (0..self.parts.len()).collect();
        gone.retain(|at| {
            let Parts { to: other, shown, .. } = &self.parts[*at];
            match (&to, other) {
                (Reads::Client(_), Reads::Client(client)) => *shown == 1 && !clients.contains(client),
                (Reads::Connection(_), Reads::Connection(session)) => !sessions.contains(session),
                (_, _) => false,
            }
        });
        let is_the_same = own.is_none() && gone.len() >= GONE_MIN;
        gone.sort_by_key(|at| self.parts[*at].next);
        let left = gone.pop().filter(|_| is_the_same);
        marks.reach_if(own.is_none() && others > 0, Mark::ShownInPartsToAnotherAsWell);
        let mut own = match own.or(left) {
            Some(at) => self.parts.remove(at),
            None => Parts {
                to: to.clone(),
                shown: 0,
                next: (0, 1),
                begun: 1,
                at: 0,
                standing: Vec::new(),
            },
        };
        if left.is_some() {
            (own.to, own.shown, own.begun) = (to.clone(), 0, own.next.1);
        }
        if self.parts.len() == READERS_MAX {
            let least = self.parts.iter().map(|parts| parts.next.0).min();
            let last = self.parts.iter().rposition(|parts| Some(parts.next.0) == least);
            let is_idle = self.parts[0].at + IDLE_PARTS <= self.parts_shown;
            self.parts
                .remove(if is_idle { 0 } else { last.expect("they are many") });
        }
        self.parts_shown += 1;
        own.shown += 1;
        own.at = self.parts_shown;
        self.parts.push(own);
        let own = self.parts.last_mut().expect("it was put there");
        self.delivery.redelivered |= others > 0;
        let (from, number) = own.next;
        marks.reach_if(
            number > 1 && open.client.is_some(),
            Mark::PartsGoneOnByTheirClient,
        );
        let mut part = room.part(&self.delivery.message, from, (number, None));
        part.begun = own.begun;
        own.standing.push((call, own.next));
        own.next = (part.to, number + 1);
        marks.reach(Mark::ShownInParts);
        marks.reach_if(self.delivery.redelivered, Mark::PartShownAgain);
        if part.is_last() {
            self.state = State::InParts;
            marks.reach_if(others > 0, Mark::ShownWholeToTheFirst);
            self.parts.retain(|parts| parts.to == to);
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
                parts.begun = parts.begun.min(start.1);
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

impl Open {
    /// Returns who goes on with the next part in this session.
    fn reads(&self) -> Reads {
        match (&self.client, self.carrier) {
            (Some(client), _) => Reads::Client(client.clone()),
            (None, Carrier::Stream) => Reads::Stream(self.session),
            (None, _) => Reads::Connection(self.session),
        }
    }
}

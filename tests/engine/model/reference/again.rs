//! What an agent asks for again, by naming the last message that it has seen.

use super::*;

/// The last message that an agent has seen.
pub(super) struct LastSeen {
    id: MessageId,
    /// With the how-manieth reply it was handed over, and its place in the inbox; none if it came back.
    at: Option<(u64, Seq)>,
}

/// What came again by asking for what was behind a message, the latest time that an agent did so.
#[derive(Debug)]
pub(super) struct AskedFor {
    pub(super) agent: AgentName,
    after: MessageId,
    brought: BTreeSet<Seq>,
}

impl Kept {
    /// Tells whether its agent was handed it, and that is known still.
    fn is_handed_to(&self, agent: &AgentName) -> bool {
        let is_known = match self.state {
            State::Handed(_) | State::InParts => true,
            State::Read => !self.forgotten,
            State::Waiting | State::Aside | State::Dropped => false,
        };
        self.is_for(agent) && is_known && !self.in_stead
    }

    fn has_come_back_to(&self, agent: &AgentName) -> bool {
        let is_here = matches!(self.state, State::Waiting | State::Aside);
        self.is_for(agent) && is_here && (self.delivery.redelivered || !self.parts.is_empty())
    }

    fn at(&self) -> (u64, Seq) {
        (self.handed_with, self.delivery.seq)
    }
}

impl Model {
    pub(super) fn last_seen(&mut self, agent: &AgentName, given: &str) -> Result<LastSeen, Refusal> {
        let is_it = |m: &&Kept| m.delivery.message.id.to_string() == given;
        let handed = self.messages.iter().filter(|m| m.is_handed_to(agent));
        if let Some(found) = handed.clone().find(is_it) {
            return Ok(LastSeen {
                id: found.delivery.message.id,
                at: Some(found.at()),
            });
        }
        let mut back = self.messages.iter().filter(|m| m.has_come_back_to(agent));
        if let Some(found) = back.clone().find(is_it) {
            let id = found.delivery.message.id;
            self.marks.reach(Mark::AfterWhatCameBack);
            return Ok(LastSeen { id, at: None });
        }
        let oldest = handed.min_by_key(|m| m.at()).or_else(|| back.next());
        let oldest = oldest.map(|m| m.delivery.message.id);
        self.marks.reach(match oldest {
            Some(_) => Mark::AfterUnknown,
            None => Mark::AfterNothing,
        });
        let given = given.to_owned();
        Err(Refusal::Mail(mail::Refusal::NotRemembered { given, oldest }))
    }

    pub(super) fn ask_again(&mut self, agent: &AgentName, last: &LastSeen) {
        let Some(seen) = last.at else { return };
        let place = self.asked_for.iter().position(|asked| asked.agent == *agent);
        let before = place.map(|place| self.asked_for.remove(place));
        let is_same = before.as_ref().is_some_and(|before| before.after == last.id);
        let mut brought = before
            .filter(|_| is_same)
            .map_or_else(BTreeSet::new, |before| before.brought);
        let brought_before = brought.clone();
        let read = self.messages.iter().enumerate().filter(|(_, m)| {
            let is_behind = m.state == State::Read && m.is_handed_to(agent) && m.at() > seen;
            is_behind && !brought.contains(&m.delivery.seq)
        });
        let mut behind: Vec<usize> = read.map(|(at, _)| at).collect();
        self.marks
            .reach_if(!behind.is_empty(), Mark::AfterBringsWhatWasRead);
        behind.extend(self.shows_that_it_has_seen(agent, seen, &brought));
        self.shows_that_it_has_not(agent, seen, &mut brought);
        for kept in &mut self.messages {
            let is_here = kept.is_for(agent) && matches!(kept.state, State::Waiting | State::Aside);
            let is_behind = kept.handed_with > seen.0 && kept.delivery.seq != seen.1;
            if is_here && !kept.parts.is_empty() && is_behind && !brought_before.contains(&kept.delivery.seq)
            {
                kept.parts.clear();
                kept.delivery.redelivered = true;
                brought.insert(kept.delivery.seq);
                self.marks.reach(Mark::AfterBeginsPartsAgain);
            }
        }
        self.come_again(agent, last.id, behind, &mut brought);
        let is_known = |seq: &Seq| {
            let mut messages = self.messages.iter();
            messages.any(|m| {
                let is_here = m.is_for(agent) && matches!(m.state, State::Waiting | State::Aside);
                m.delivery.seq == *seq && (is_here || m.is_handed_to(agent))
            })
        };
        brought.retain(is_known);
        self.asked_for.push(AskedFor {
            agent: agent.clone(),
            after: last.id,
            brought,
        });
    }

    /// The reply with the message has arrived. Takes what is behind it there out of that reply, and returns where it is.
    fn shows_that_it_has_seen(
        &mut self,
        agent: &AgentName,
        seen: (u64, Seq),
        brought: &BTreeSet<Seq>,
    ) -> Vec<usize> {
        let mut messages = self.messages.iter();
        let kept = messages.find(|m| m.is_for(agent) && m.delivery.seq == seen.1);
        let kept = kept.expect("it was found");
        let parts = kept.parts.iter().flat_map(|parts| parts.standing.iter());
        let mut parts: Vec<CallId> = parts.map(|(call, _)| *call).collect();
        let whole = match kept.state {
            State::Handed(call) => Some(call),
            State::Waiting | State::Aside | State::InParts | State::Read | State::Dropped => None,
        };
        parts.sort_by_key(|call| {
            self.doubts
                .iter()
                .find(|doubt| doubt.call == *call)
                .map(|doubt| doubt.number)
        });
        for call in parts {
            self.marks.reach(Mark::AfterConfirmsParts);
            self.confirm(call, Sign::Seen);
        }
        let Some(call) = whole else {
            return Vec::new();
        };
        let mut behind = Vec::new();
        for (at, kept) in self.messages.iter_mut().enumerate() {
            let seq = kept.delivery.seq;
            if kept.state == State::Handed(call) && seq > seen.1 && !brought.contains(&seq) {
                // It is nowhere until it waits again.
                kept.state = State::Dropped;
                behind.push(at);
            }
        }
        self.marks.reach(Mark::AfterConfirms);
        self.marks.reach_if(!behind.is_empty(), Mark::AfterInTheMiddle);
        self.confirm(call, Sign::Seen);
        behind
    }

    /// The replies behind it have not, but for those by which something came again.
    fn shows_that_it_has_not(&mut self, agent: &AgentName, seen: (u64, Seq), brought: &mut BTreeSet<Seq>) {
        let later = self.doubts.iter();
        let later = later.filter(|doubt| doubt.agent == *agent && doubt.number > seen.0 && !doubt.in_stead);
        let mut later: Vec<Doubt> = later.cloned().collect();
        later.sort_by_key(|doubt| doubt.number);
        let before = brought.clone();
        for doubt in later {
            let call = doubt.call;
            let in_it = self
                .messages
                .iter()
                .filter(|m| m.state == State::Handed(call) || m.has_part_in(call));
            let in_it: Vec<Seq> = in_it.map(|m| m.delivery.seq).collect();
            if in_it.iter().any(|seq| before.contains(seq)) {
                self.marks.reach(Mark::AfterLeavesWhatCameAgain);
                continue;
            }
            self.marks.reach(Mark::AfterUndoes);
            self.marks
                .reach_if(doubt.read_at.is_some(), Mark::AfterUndoesWhatWasRead);
            self.undo(call, Sign::Unseen);
            brought.extend(in_it);
        }
    }

    /// Has what is at some places of the list wait again, as far as there is room: what was handed over first comes first.
    fn come_again(
        &mut self,
        agent: &AgentName,
        after: MessageId,
        mut behind: Vec<usize>,
        brought: &mut BTreeSet<Seq>,
    ) {
        behind.sort_by_key(|at| self.messages[*at].at());
        let others = self.messages.iter().enumerate();
        let others = others.filter(|(at, m)| m.has_room_in(agent) && !behind.contains(at));
        let (mut messages, mut bytes) = (0, 0);
        for (_, m) in others {
            messages += 1;
            bytes += m.bytes();
        }
        let fitting = behind.iter().take_while(|at| {
            messages += 1;
            bytes += self.messages[**at].bytes();
            messages <= self.bounds.inbox_messages_max && bytes <= self.bounds.inbox_bytes_max
        });
        let fitting = fitting.count();
        self.marks.reach_if(fitting < behind.len(), Mark::AfterLacksRoom);
        behind.truncate(fitting);
        for at in &behind {
            let kept = &mut self.messages[*at];
            kept.state = State::Waiting;
            kept.delivery.redelivered = true;
            kept.allowed = false;
            brought.insert(kept.delivery.seq);
            let id = kept.delivery.message.id;
            self.tell(Told::AskedAgain(id, agent.clone(), after));
        }
        if !behind.is_empty() {
            self.changed.push(Changed::Inbox(agent.clone()));
            self.set_aside(agent, HoldMark::HeldWhenAskedAgain);
        }
    }
}

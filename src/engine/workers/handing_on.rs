//! What becomes of what a worker has not read that was released and has ended, or that has never run.

use std::collections::BTreeMap;

use super::super::events::Event;
use super::super::inbox::Inbox;
use super::super::io::Sign;
use super::super::message::Delivery;
use super::super::names::{AgentName, MessageId, ResolvedBy, Seq};
use super::super::{Engine, Step};
use super::Last;
use super::lives::news_metadata;

impl Engine {
    /// Puts what workers that were released and have ended, or have never run, have not read into the inbox of [whose it is then](Self::heir), in its order, as
    /// far as there is room; what there is none for stays where it is. So does what a released one was sent with many: whoever else that is for
    /// has it. Of one that has never run that goes as well, since its name goes: it may have been for nobody else, or for others that have
    /// never run. What comes back later, of replies that have not arrived, goes the same way, and so does what the person lets pass.
    pub(in super::super) fn hand_on(&mut self, step: &mut Step<'_>) {
        let leaving = self.workers.leaving.iter();
        let ended = leaving.filter(|agent| self.has_left(agent));
        for agent in ended.cloned().collect::<Vec<_>>() {
            self.hand_on_of(&agent, step);
        }
    }

    /// Tells whether an agent was a worker that was released, or has never run, and has ended.
    fn has_left(&self, agent: &AgentName) -> bool {
        self.workers.leaving.contains(agent) && self.workers.last[agent].ended.is_some()
    }

    /// Returns whose is what a worker that has left has not read: its parent's, or where that is gone or has left too, the next one's above.
    /// Nobody who has left is handed anything, so nothing goes around in a circle of names that were used again.
    fn heir(&self, agent: &AgentName) -> Option<AgentName> {
        let above = self.workers.last[agent].above.iter();
        let mut there = above.filter(|above| self.inboxes.contains_key(*above) && !self.has_left(above));
        there.next().cloned()
    }

    fn hand_on_of(&mut self, agent: &AgentName, step: &mut Step<'_>) {
        let inbox = &self.inboxes[agent];
        let Some(heir) = self.heir(agent) else {
            return;
        };
        // What a node has is the node's to bring.
        if inbox.binding.is_some() {
            return;
        }
        let Last {
            leaves_nothing,
            is_released,
            ..
        } = self.workers.last[agent];
        let end = if is_released {
            "was released"
        } else {
            "did not start"
        };
        let is_its = |delivery: &&Delivery| leaves_nothing || delivery.message.to.by() == ResolvedBy::Name;
        let places_in = |inbox: &Inbox| -> Vec<Seq> {
            let its = inbox.waiting().filter(is_its);
            its.map(|delivery| delivery.seq).collect()
        };
        let places = places_in(inbox);
        let fits = |seq: &Seq| self.room_for(&heir, inbox.at(*seq).message.bytes()).is_some();
        // What says that they come takes a place, too, and is no use without one of them.
        let has_two = self.inboxes[&heir].messages() + 2 <= self.bounds.inbox_messages_max;
        if self.stopping || !has_two || !places.first().is_some_and(fits) {
            return;
        }
        if leaves_nothing {
            self.leave_to_heir(agent, &heir, step);
        }
        let inbox = &self.inboxes[agent];
        let places = places_in(inbox);
        let all = places.len();
        let name = agent.seen_from(heir.project());
        let fit = |count: usize| {
            let head = handed_on_text(&name, end, all, count).len() + news_metadata(agent, "handed_on").len();
            let bytes = places.iter().map(|seq| inbox.at(*seq).message.bytes());
            let bytes = std::iter::once(head).chain(bytes);
            self.how_many_fit(&heir, bytes).saturating_sub(1)
        };
        // That some stay takes more words, and how many digits those take depends on how many it is.
        let mut count = fit(all);
        while count > 0 && fit(count) < count {
            count -= 1;
        }
        if count == 0 {
            return;
        }
        self.put_from_relay(
            agent,
            heir.clone(),
            "handed_on",
            |name| handed_on_text(name, end, all, count),
            step,
        );
        for seq in places.into_iter().take(count) {
            let bytes = self.inboxes[agent].at(seq).message.bytes();
            let Some(giving_way) = self.room_for(&heir, bytes) else {
                return;
            };
            for handover in giving_way {
                self.sign(handover, Sign::Settled, step);
            }
            self.hand_on_one(agent, &heir, seq, step);
        }
    }

    /// Takes out of an inbox what was sent to many, its heir among them, and is there still: it does not come there once more.
    fn leave_to_heir(&mut self, agent: &AgentName, heir: &AgentName, step: &mut Step<'_>) {
        let there = self.places(heir);
        let waiting = self.inboxes[agent].waiting();
        let to_many = waiting.filter(|delivery| delivery.message.to.by() != ResolvedBy::Name);
        let both = to_many.filter_map(|delivery| Some((delivery.seq, *there.get(&delivery.message.id)?)));
        for (seq, there) in both.collect::<Vec<_>>() {
            let Delivery { message, .. } = self.give_up(agent, seq, step);
            step.note(Event::HandedOn {
                message,
                from: agent.clone(),
                to: heir.clone(),
                seq: there,
            });
        }
    }

    /// Returns the places of the messages in an agent's inbox, or in replies that may come back to it.
    fn places(&self, agent: &AgentName) -> BTreeMap<MessageId, Seq> {
        let inbox = &self.inboxes[agent];
        let handed = self
            .handovers
            .values()
            .filter(|handover| handover.agent == *agent);
        let handed = handed.flat_map(|handover| handover.deliveries.iter());
        let all = inbox.waiting().chain(inbox.aside()).chain(handed);
        all.map(|delivery| (delivery.message.id, delivery.seq)).collect()
    }

    /// Takes a message out of an inbox, which somebody else has now.
    fn give_up(&mut self, agent: &AgentName, seq: Seq, step: &mut Step<'_>) -> Delivery {
        let delivery = self.inbox_mut(agent).give(seq);
        if let Some(deadline) = delivery.message.handling().deadline {
            self.timers.unexpire(deadline, agent.clone(), seq);
        }
        self.inbox_changes(agent, step);
        delivery
    }

    fn hand_on_one(&mut self, from: &AgentName, to: &AgentName, seq: Seq, step: &mut Step<'_>) {
        let Delivery {
            message, redelivered, ..
        } = self.give_up(from, seq, step);
        // What was sent to many its heir may have read.
        let is_marked = redelivered || message.to.by() != ResolvedBy::Name;
        let (seq, told) = self.put(to, &message, step);
        if is_marked {
            self.inbox_mut(to).mark_redelivered(seq);
        }
        step.note(Event::HandedOn {
            message,
            from: from.clone(),
            to: to.clone(),
            seq,
        });
        told.note(step);
    }
}

/// Says how many messages a worker has not read, of which so many follow.
fn handed_on_text(name: &str, end: &str, all: usize, count: usize) -> String {
    let unread = format!("Worker {name:?} {end}, and had not read {all} message(s)");
    match all - count {
        0 => format!("{unread}, which follow."),
        rest => {
            format!("{unread}: {count} follow, and {rest} stay in its inbox until yours has room for them.")
        }
    }
}

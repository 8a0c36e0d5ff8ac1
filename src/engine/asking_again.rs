//! What an agent asks for again: it names the last message that it has seen, since its client cut, dropped or timed out what came
//! behind that.
//!
//! That is an acknowledgement by the model itself. The reply in which the message was has arrived; those behind it have not, as far as
//! they are not known to have. Of what is known to have, whatever is kept in mind waits again, marked, as far as the inbox has room. What came
//! before the message stays as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::events::Event;
use super::inbox::{Became, Place};
use super::io::Sign;
use super::mail::Refusal;
use super::message::{Delivery, Message};
use super::names::{AgentName, HandoverId, MessageId, Seq, shown};
use super::signs::{Verdict, judge};
use super::time::Timestamp;
use super::{Engine, Step};

/// The last message that an agent has seen.
pub(super) struct After {
    id: MessageId,
    /// Where it was handed over; none if it waits to be handed over again, and so does what is behind it.
    place: Option<Place>,
}

impl Engine {
    /// Finds the message that an agent names as the last that it has seen, among what it was handed, as far as that is kept in mind.
    pub(super) fn last_seen(&self, agent: &AgentName, given: &str) -> Result<After, Refusal> {
        let not_remembered = || Refusal::NotRemembered {
            given: shown(given),
            oldest: self.oldest_handed(agent),
        };
        let id = MessageId(given.parse().map_err(|_| not_remembered())?);
        let is_it = |delivery: &Delivery| delivery.message.id == id;
        let mut handed = self.handed_to(agent).filter(|(_, delivery)| is_it(delivery));
        if let Some((place, _)) = handed.next() {
            let place = Some(place);
            return Ok(After { id, place });
        }
        match self.inboxes[agent].came_back().any(is_it) {
            true => Ok(After { id, place: None }),
            false => Err(not_remembered()),
        }
    }

    /// Goes through what an agent was handed and is kept in mind, but for what has come back.
    fn handed_to(&self, agent: &AgentName) -> impl Iterator<Item = (Place, &Delivery)> {
        let inbox = &self.inboxes[agent];
        let standing = inbox.standing.iter();
        let standing = standing.filter(|id| !self.handovers[id].in_stead);
        let standing = standing.flat_map(|id| {
            let deliveries = self.handovers[id].deliveries.iter();
            deliveries.map(|delivery| (at(*id, delivery), delivery))
        });
        let in_parts = inbox.shown_in_parts();
        let in_parts = in_parts.filter_map(|shown| Some((at(shown.latest, shown.whole?), shown.whole?)));
        let arrived = inbox.arrived().map(|(place, delivery, _)| (place, delivery));
        standing.chain(in_parts).chain(arrived)
    }

    /// Finds the oldest message that may be named: of what was handed over what was at first, or else the first of what has come back.
    fn oldest_handed(&self, agent: &AgentName) -> Option<MessageId> {
        let oldest = self.handed_to(agent).min_by_key(|(place, _)| *place);
        let oldest = oldest.map(|(_, delivery)| delivery);
        let first = || {
            self.inboxes[agent]
                .came_back()
                .min_by_key(|delivery| delivery.seq)
        };
        oldest.or_else(first).map(|delivery| delivery.message.id)
    }

    /// Has what was handed over behind the last message that an agent has seen come again. What has come again by that message before
    /// does not.
    pub(super) fn ask_again(&mut self, agent: &AgentName, after: &After, step: &mut Step<'_>) {
        let Some(seen) = after.place else {
            return;
        };
        let brought_before = self.inboxes[agent].brought_after(after.id);
        let mut brought = brought_before.clone();
        let mut behind = self.arrived_behind(agent, seen, &brought, step.wall);
        behind.extend(self.confirm_seen(agent, seen, &brought, step));
        self.undo_unseen(agent, seen, &mut brought, step);
        let begun = self.inbox_mut(agent).begin_parts_again(seen, &brought_before);
        brought.extend(begun);
        behind.sort_unstable_by_key(|(place, _)| *place);
        let fitting = self.how_many_come_again(agent, &behind);
        behind.truncate(fitting);
        brought.extend(behind.iter().map(|(place, _)| place.seq));
        let deliveries = behind.into_iter().map(|(_, delivery)| Delivery {
            redelivered: true,
            ..delivery
        });
        let deliveries: Vec<Delivery> = deliveries.collect();
        self.bring_back(agent, after.id, deliveries, step);
        let known = self.known_places(agent);
        brought.retain(|seq| known.contains(seq));
        self.inbox_mut(agent).has_asked(after.id, brought);
    }

    /// Lists what has arrived behind a message, was not done in vain, and is worth something still.
    fn arrived_behind(
        &self,
        agent: &AgentName,
        seen: Place,
        not: &BTreeSet<Seq>,
        now: Timestamp,
    ) -> Vec<(Place, Delivery)> {
        let arrived = self.inboxes[agent].arrived();
        let behind = arrived.filter(|(place, delivery, became)| {
            let was_taken = matches!(became, Became::Read | Became::Accepted);
            *place > seen
                && was_taken
                && !not.contains(&place.seq)
                && !is_past_deadline(&delivery.message, now)
        });
        let behind = behind.map(|(place, delivery, _)| (place, delivery.clone()));
        behind.collect()
    }

    /// The reply with the message has arrived, if that was not known. Returns what of it is behind the message, and comes again.
    fn confirm_seen(
        &mut self,
        agent: &AgentName,
        seen: Place,
        not: &BTreeSet<Seq>,
        step: &mut Step<'_>,
    ) -> Vec<(Place, Delivery)> {
        let standing = self.inboxes[agent].standing.iter().copied();
        let parts = standing.filter(|id| self.part_in(*id) == Some(seen.seq));
        for id in parts.collect::<Vec<_>>() {
            self.sign(id, Sign::Seen, step);
        }
        let Some(handover) = self.handovers.get(&seen.handover) else {
            return Vec::new();
        };
        if judge(handover.carrier, handover.passage, Sign::Seen) != Verdict::Confirmed {
            return Vec::new();
        }
        let behind = handover.deliveries.iter().filter(|delivery| {
            let is_behind = delivery.seq > seen.seq && !not.contains(&delivery.seq);
            is_behind && !is_past_deadline(&delivery.message, step.wall)
        });
        let behind: Vec<Delivery> = behind.cloned().collect();
        self.confirm(seen.handover, Sign::Seen, &behind, step);
        let placed = behind.into_iter();
        placed
            .map(|delivery| (at(seen.handover, &delivery), delivery))
            .collect()
    }

    /// The replies behind the one with the message have not arrived, as far as that is not known, but for those by which something has
    /// come again already.
    fn undo_unseen(
        &mut self,
        agent: &AgentName,
        seen: Place,
        brought: &mut BTreeSet<Seq>,
        step: &mut Step<'_>,
    ) {
        let later = self.inboxes[agent].standing.iter().copied();
        let later: Vec<HandoverId> = later.filter(|id| *id > seen.handover).collect();
        let before = brought.clone();
        for id in later {
            let Some(handover) = self.handovers.get(&id).filter(|handover| !handover.in_stead) else {
                continue;
            };
            let part = self.part_in(id);
            let places = handover.deliveries.iter().map(|delivery| delivery.seq);
            let places: Vec<Seq> = places.chain(part).collect();
            if places.iter().any(|seq| before.contains(seq)) {
                continue;
            }
            self.sign(id, Sign::Unseen, step);
            if !self.handovers.contains_key(&id) {
                brought.extend(places);
            }
        }
    }

    /// Finds the place of the message of which a hand-over has a part that counts.
    fn part_in(&self, id: HandoverId) -> Option<Seq> {
        let handover = &self.handovers[&id];
        let seq = handover.part.as_ref()?.seq;
        self.inboxes[&handover.agent].has_part(seq, id).then_some(seq)
    }

    /// Counts how many of the oldest fit beside what is there.
    fn how_many_come_again(&self, agent: &AgentName, behind: &[(Place, Delivery)]) -> usize {
        let inbox = &self.inboxes[agent];
        let (mut messages, mut bytes) = (inbox.messages(), inbox.bytes());
        let fits = |(_, delivery): &&(Place, Delivery)| {
            messages += 1;
            bytes += delivery.message.bytes();
            messages <= self.bounds.inbox_messages_max && bytes <= self.bounds.inbox_bytes_max
        };
        behind.iter().take_while(fits).count()
    }

    /// Has what has arrived wait in its old place again, marked.
    fn bring_back(
        &mut self,
        agent: &AgentName,
        after: MessageId,
        deliveries: Vec<Delivery>,
        step: &mut Step<'_>,
    ) {
        let Some(first) = deliveries.iter().map(|delivery| delivery.seq).min() else {
            return;
        };
        self.inbox_changes(agent, step);
        for delivery in &deliveries {
            self.mind_deadline(agent, delivery.seq, &delivery.message);
        }
        self.tells_again(agent, first);
        self.inbox_mut(agent).bring_back(deliveries.clone());
        step.wakes(agent.clone());
        step.note(Event::AskedAgain {
            agent: agent.clone(),
            deliveries: Arc::new(deliveries),
            after,
        });
        self.set_aside(agent, step);
    }

    /// Returns the places of all that is in an inbox, may come back, or is kept in mind.
    fn known_places(&self, agent: &AgentName) -> BTreeSet<Seq> {
        let inbox = &self.inboxes[agent];
        let here = inbox.waiting().chain(inbox.aside()).map(|delivery| delivery.seq);
        let handed = self.handed_to(agent).map(|(place, _)| place.seq);
        here.chain(handed).collect()
    }
}

/// Returns where a delivery of a hand-over stands.
fn at(handover: HandoverId, delivery: &Delivery) -> Place {
    Place {
        handover,
        seq: delivery.seq,
    }
}

fn is_past_deadline(message: &Message, now: Timestamp) -> bool {
    message
        .handling()
        .deadline
        .is_some_and(|deadline| deadline <= now)
}

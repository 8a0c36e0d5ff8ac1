//! Each inbox is first in, first out; nothing is lost, and nothing repeated that arrived.

use super::*;

impl History<'_> {
    pub(super) fn nothing_comes_from_thin_air(&self) -> Verdict {
        let accepted: BTreeMap<_, _> = self.accepted.iter().map(|copy| (copy.key(), copy)).collect();
        holds(0, accepted.len() == self.accepted.len(), || {
            "somebody got two copies".to_owned()
        })?;
        for shown in &self.shown {
            for delivery in shown.deliveries {
                let copy = accepted.get(&(shown.inbox.0, delivery.message.id));
                let known = copy.is_some_and(|copy| copy.step <= shown.step && copy.inbox == shown.inbox);
                holds(shown.step, known, || {
                    format!("{delivery:?} was never accepted for {}", shown.agent)
                })?;
                let same = copy.is_some_and(|copy| **copy.message == *delivery.message);
                holds(shown.step, same, || {
                    format!("{delivery:?} is not what was accepted")
                })?;
            }
        }
        Ok(())
    }

    /// A read shows the oldest of what it asks for, so many as it asks for, in order, and counts what it leaves.
    pub(super) fn inboxes_are_first_in_first_out(&self) -> Verdict {
        // What was not shown yet, or in a reply that failed in that step, in the order of the places.
        let mut inboxes: BTreeMap<Inbox, BTreeMap<Seq, (usize, &Copy)>> = BTreeMap::new();
        let mut places: BTreeMap<Inbox, u64> = BTreeMap::new();
        for copy in &self.accepted {
            let place = places.entry(copy.inbox).or_default();
            let left = inboxes.entry(copy.inbox).or_default();
            left.insert(Seq(*place), (copy.step, copy));
            *place += 1;
        }
        for shown in self.shown.iter().filter(|shown| shown.is_read) {
            let left = inboxes.entry(shown.inbox).or_default();
            let waits = left.iter().filter(|(_, (since, _))| *since <= shown.step);
            let asked_for = waits
                .clone()
                .filter(|(_, (_, copy))| shown.wanted.has(copy.number, copy.message));
            let expected: Vec<Seq> = asked_for.map(|(seq, _)| *seq).take(shown.wanted.limit).collect();
            let seqs: Vec<Seq> = shown.deliveries.iter().map(|d| d.seq).collect();
            holds(shown.step, seqs == expected, || {
                format!("{seqs:?} were shown to {}, not {expected:?}", shown.agent)
            })?;
            let remaining = waits.count() - seqs.len();
            holds(shown.step, shown.remaining == remaining, || {
                format!("{remaining} remain for {}, not {}", shown.agent, shown.remaining)
            })?;
            for delivery in shown.deliveries {
                let (_, copy) = left.remove(&delivery.seq).expect("it was to be shown");
                holds(shown.step, copy.message.id == delivery.message.id, || {
                    format!("{delivery:?} is in the place of {:?}", copy.message)
                })?;
                if let Fate::Failed(at) = shown.fate {
                    left.insert(delivery.seq, (at, copy));
                }
            }
        }
        Ok(())
    }

    /// What is shown that was handed over before was, and is not back; it is asked for, and is shown if it is asked for and there is
    /// room.
    pub(super) fn what_is_shown_as_read_was_read(&self) -> Verdict {
        for shown in self
            .shown
            .iter()
            .filter(|shown| shown.wanted.earlier || !shown.earlier.is_empty())
        {
            // What was handed over in the same step was so before or after.
            let handed = |latest: usize| {
                let replies = self.shown.iter().filter(|other| other.inbox == shown.inbox);
                let replies = replies.filter(|other| other.call != shown.call);
                let replies = replies.filter(move |other| {
                    let came_back = matches!(other.fate, Fate::Failed(at) if at <= shown.step);
                    other.step <= latest && !came_back
                });
                replies.flat_map(|reply| reply.deliveries)
            };
            let is_meant = |delivery: &&Delivery| {
                let by_place = shown.wanted.question.is_none();
                by_place && shown.wanted.has(0, &delivery.message)
            };
            for delivery in shown.earlier {
                let known = handed(shown.step).any(|other| other == delivery);
                holds(shown.step, known && is_meant(&delivery), || {
                    format!("{delivery:?} is shown as read")
                })?;
            }
            holds(
                shown.step,
                shown.earlier.is_sorted_by(|one, next| one.seq < next.seq),
                || "what was read is not shown in order".to_owned(),
            )?;
            let room = shown.wanted.limit.saturating_sub(shown.deliveries.len());
            let room = if shown.wanted.earlier { room } else { 0 };
            holds(shown.step, shown.earlier.len() <= room, || {
                "more is shown as read than is asked for".to_owned()
            })?;
            let before = shown.step.saturating_sub(1);
            let bytes: usize = handed(shown.step).map(|d| d.message.bytes()).sum();
            let all_are_kept = handed(shown.step).count() <= RECENT_MAX && bytes <= RECENT_BYTES_MAX;
            let least = handed(before).filter(is_meant).count().min(room);
            holds(shown.step, !all_are_kept || shown.earlier.len() >= least, || {
                format!("{least} were handed over, and {} are shown", shown.earlier.len())
            })?;
        }
        Ok(())
    }

    pub(super) fn a_message_is_repeated_only_after_an_undone_reply_and_says_so(&self) -> Verdict {
        let mut last: BTreeMap<(&AgentName, MessageId), Fate> = BTreeMap::new();
        for shown in &self.shown {
            for delivery in shown.deliveries {
                let before = last.insert((shown.inbox.0, delivery.message.id), shown.fate);
                let right = match before {
                    None => !delivery.redelivered,
                    Some(Fate::Failed(at)) => delivery.redelivered && at <= shown.step,
                    Some(Fate::Open | Fate::Arrived(_)) => false,
                };
                holds(shown.step, right, || {
                    format!("{delivery:?} is shown after {before:?}")
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn the_start_is_told_until_it_is_known_to_have_arrived(&self) -> Verdict {
        let mut last: BTreeMap<Inbox, Fate> = BTreeMap::new();
        for shown in &self.told {
            let due = match last.get(&shown.inbox) {
                _ if shown.tells_nobody => false,
                None => self.may_have_lost_something(shown.inbox.0),
                Some(Fate::Failed(at)) => *at <= shown.step,
                Some(Fate::Open | Fate::Arrived(_)) => false,
            };
            let started_at = self.steps[0].before.boot.started_at;
            holds(shown.step, shown.restarted == due.then_some(started_at), || {
                format!("{} is told of {:?}", shown.inbox.0, shown.restarted)
            })?;
            if shown.restarted.is_some() {
                last.insert(shown.inbox, shown.fate);
            }
        }
        Ok(())
    }

    /// At the end every inbox is read, so that what was accepted arrived before or is in the last reply.
    pub(super) fn nothing_is_lost(&self) -> Verdict {
        let mut last: BTreeMap<(&AgentName, MessageId), (usize, Fate)> = BTreeMap::new();
        for shown in &self.shown {
            for delivery in shown.deliveries {
                last.insert((shown.inbox.0, delivery.message.id), (shown.step, shown.fate));
            }
        }
        let is_read = |step: &&Step| matches!(step.event, Event::Input(Input::Call { .. }));
        let reads = self.steps.iter().rev().take_while(is_read).count();
        let end = self.steps.len();
        for copy in &self.accepted {
            let there = match last.get(&copy.key()) {
                Some((_, Fate::Arrived(_))) => true,
                Some((step, Fate::Open)) => *step >= end - reads,
                Some((_, Fate::Failed(_))) | None => false,
            };
            holds(copy.step, there, || {
                let Copy { message, inbox, .. } = copy;
                format!("{message:?} is lost to {inbox:?}; {:?}", last.get(&copy.key()))
            })?;
        }
        Ok(())
    }
}

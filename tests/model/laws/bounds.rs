//! The bounds hold, and nothing is refused for which there is room.

use super::*;

/// What a message takes up, from its acceptance to its arrival.
struct Held<'a> {
    from: usize,
    to: usize,
    message: &'a Message,
}

impl History<'_> {
    pub(super) fn bounds_hold_and_inboxes_use_all_their_room(&self, bounds: &Bounds) -> Verdict {
        for (at, step) in self.steps.iter().enumerate() {
            holds(at, step.after.sessions <= bounds.sessions_max, || {
                "more sessions than the bound".to_owned()
            })?;
        }
        let arrived = self.shown.iter().filter_map(|shown| match shown.fate {
            Fate::Arrived(at) => Some((at, shown)),
            Fate::Open | Fate::Failed(_) => None,
        });
        let arrived: BTreeMap<MessageId, usize> = arrived
            .flat_map(|(at, shown)| shown.deliveries.iter().map(move |d| (d.message.id, at)))
            .collect();
        let held = self.accepted.iter().map(|(from, message)| Held {
            from: *from,
            to: arrived.get(&message.id).copied().unwrap_or(usize::MAX),
            message,
        });
        let held: Vec<Held> = held.collect();
        for asked in self.calls.values() {
            let Command::Mail(mail::Command::Post { to, body, .. }) = asked.command else {
                continue;
            };
            let Some((at, answer)) = asked.answers.first() else {
                continue;
            };
            let there = held
                .iter()
                .filter(|h| h.from < *at && *at < h.to && h.message.to.as_str() == to);
            let (messages, bytes) = size(there.clone().map(|h| h.message));
            let short = body.len() <= bounds.body_bytes_max;
            let fits = |messages: usize, bytes: usize| {
                messages < bounds.inbox_messages_max && bytes + body.len() <= bounds.inbox_bytes_max
            };
            self.only_the_oldest_gave_way(*at, to, bounds, |more| fits(messages + more.0, bytes + more.1))?;
            // What was read gives way, if that is enough.
            let unread = there.filter(|h| !self.was_read(*at, h.message.id));
            let (unread, unread_bytes) = size(unread.map(|h| h.message));
            let room = fits(unread, unread_bytes);
            let mut earlier = self.steps[..*at].iter();
            let stopping = earlier.any(|step| step.event == Event::Input(Input::Stopping));
            let right = match answer {
                Ok(_) => short && fits(messages, bytes) && !stopping,
                Err(Refusal::Stopping) => short && room && stopping,
                Err(Refusal::Mail(mail::Refusal::BodyTooLong { .. })) => !short,
                Err(Refusal::Mail(mail::Refusal::InboxFull {
                    messages: messages_told,
                    bytes: bytes_told,
                    ..
                })) => !room && (*messages_told, *bytes_told) == (messages, bytes),
                Err(Refusal::Mail(_) | Refusal::Agents(_) | Refusal::Groups(_) | Refusal::Sessions(_)) => {
                    true
                }
            };
            holds(*at, right, || {
                format!("{body:?} met {messages} messages and {bytes} bytes, and was answered {answer:?}")
            })?;
        }
        Ok(())
    }
}

impl History<'_> {
    /// Tells whether a message stood in a reply, when a step was done, that was read and could only be cancelled any more.
    fn was_read(&self, at: usize, message: MessageId) -> bool {
        let read = |shown: &&Shown| {
            shown.read.is_some_and(|(read, _)| read <= at)
                && at < shown.ends()
                && shown.deliveries.iter().any(|d| d.message.id == message)
        };
        self.shown.iter().rfind(read).is_some()
    }

    /// Goes through the replies to an agent that were read when a step was done, and could only be cancelled any more.
    fn may_be_cancelled(&self, at: usize, agent: &AgentName) -> impl Iterator<Item = &Shown<'_>> {
        self.shown.iter().filter(move |shown| {
            shown.agent == *agent
                && shown.hands_over()
                && shown.read.is_some_and(|(read, _)| read <= at)
                && at < shown.ends()
        })
    }

    /// Of one agent, only so many replies may be cancelled that were read: the oldest is confirmed early if there is one more.
    pub(super) fn only_so_many_may_be_cancelled(&self, bounds: &Bounds) -> Verdict {
        for shown in self.shown.iter().filter(|shown| shown.hands_over()) {
            if let Some((read, _)) = shown.read {
                let count = self.may_be_cancelled(read, &shown.agent).count();
                holds(read, count <= bounds.read_max, || {
                    format!("{count} replies of {} can be cancelled", shown.agent)
                })?;
            }
            let at = shown.ends();
            let Some(step) = self.steps.get(at) else {
                continue;
            };
            let posts =
                |effect: &Effect| matches!(effect, Effect::Note(relay::engine::Event::Accepted { .. }));
            if !shown.gave_way(at, step) || step.all_effects.iter().any(posts) {
                continue;
            }
            let mut left = self.may_be_cancelled(at, &shown.agent);
            let older = left.find(|left| left.was_read_before(shown));
            holds(at, older.is_none(), || {
                format!("{shown:?} was confirmed early before {older:?}")
            })?;
            let count = self.may_be_cancelled(at, &shown.agent).count();
            holds(at, count == bounds.read_max, || {
                format!("{shown:?} was confirmed early, and {count} replies can be cancelled")
            })?;
        }
        Ok(())
    }

    /// What was read is confirmed early if a post needs its room: the oldest first, and none for which there would have been room.
    fn only_the_oldest_gave_way(
        &self,
        at: usize,
        to: &str,
        bounds: &Bounds,
        fits: impl Fn((usize, usize)) -> bool,
    ) -> Verdict {
        let of_agent = || {
            self.shown
                .iter()
                .filter(|s| s.agent.as_str() == to && !s.deliveries.is_empty())
        };
        let gave_way = of_agent().filter(|shown| shown.gave_way(at, &self.steps[at]));
        let Some(last) = gave_way.max_by_key(|shown| shown.age()) else {
            return Ok(());
        };
        let one_too_many = self.may_be_cancelled(at, &last.agent).count() == bounds.read_max;
        let needed = one_too_many || !fits(size(last.deliveries.iter().map(|d| &*d.message)));
        holds(at, needed, || {
            format!("{last:?} was confirmed early, and its room was not needed")
        })?;
        let older = of_agent().find(|shown| {
            shown.was_read_before(last) && shown.read.is_some_and(|(read, _)| read <= at) && at < shown.ends()
        });
        holds(at, older.is_none(), || {
            format!("{last:?} was confirmed early before {older:?}")
        })
    }
}

/// Counts messages and the bytes of their bodies.
fn size<'a>(messages: impl Iterator<Item = &'a Message>) -> (usize, usize) {
    messages.fold((0, 0), |(messages, bytes), message| {
        (messages + 1, bytes + message.body.len())
    })
}

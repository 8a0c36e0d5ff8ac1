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
            let agents = step.after.pending.len() - 1;
            let of_roster = self.steps[0].before.pending.len() - 1;
            holds(at, agents <= bounds.agents_max.max(of_roster), || {
                "more agents than the bound".to_owned()
            })?;
            let agents = step.after.pending.iter();
            let projects: BTreeSet<&str> = agents.map(|(name, _)| name.project()).collect();
            holds(at, projects.len() <= bounds.projects_max, || {
                "more projects than the bound".to_owned()
            })?;
        }
        let arrived = self.shown.iter().filter_map(|shown| match shown.fate {
            Fate::Arrived(at) => Some((at, shown)),
            Fate::Open | Fate::Failed(_) => None,
        });
        let arrived: BTreeMap<(&AgentName, MessageId), usize> = arrived
            .flat_map(|(at, shown)| {
                let deliveries = shown.deliveries.iter();
                deliveries.map(move |d| ((shown.inbox.0, d.message.id), at))
            })
            .collect();
        let mut held: BTreeMap<&AgentName, Vec<Held>> = BTreeMap::new();
        for copy in &self.accepted {
            held.entry(copy.inbox.0).or_default().push(Held {
                from: copy.step,
                to: arrived.get(&copy.key()).copied().unwrap_or(usize::MAX),
                message: copy.message,
            });
        }
        for asked in self.calls.values() {
            let Command::Mail(mail::Command::Post { body, options, .. }) = asked.command else {
                continue;
            };
            let metadata = options.as_ref().and_then(|options| options.metadata.as_ref());
            let more = body.len() + metadata.map_or(0, String::len);
            let at = asked.step;
            let accepted = self.posted.iter().find(|(step, ..)| *step == at);
            let mut earlier = self.steps[..at].iter();
            let stopping = earlier.any(|step| step.event == Event::Input(Input::Stopping));
            if let Some((.., agents)) = accepted {
                let short = more <= bounds.body_bytes_max;
                holds(at, short && !stopping, || format!("{body:?} was accepted"))?;
                for agent in *agents {
                    let (messages, bytes) = size(there(&held, agent, at));
                    let fits =
                        |left: (usize, usize)| is_room(bounds, messages + left.0, bytes + left.1 + more);
                    self.only_the_oldest_gave_way(at, agent, bounds, fits)?;
                    holds(at, fits((0, 0)), || {
                        format!("{body:?} met {messages} messages and {bytes} bytes")
                    })?;
                }
                continue;
            }
            let Some((_, Err(refusal))) = asked.answers.first() else {
                continue;
            };
            let right = match refusal {
                Refusal::Stopping => stopping && more <= bounds.body_bytes_max,
                Refusal::Mail(mail::Refusal::BodyTooLong { bytes, .. }) => {
                    *bytes == more && more > bounds.body_bytes_max
                }
                Refusal::Mail(mail::Refusal::InboxFull {
                    agent,
                    messages,
                    bytes,
                    ..
                }) => {
                    // What was read gives way, if that is enough.
                    let all = size(there(&held, agent, at));
                    let unread = there(&held, agent, at).filter(|m| !self.was_read(at, agent, m.id));
                    let (unread, unread_bytes) = size(unread);
                    (*messages, *bytes) == all && !is_room(bounds, unread, unread_bytes + more)
                }
                Refusal::Mail(_)
                | Refusal::Agents(_)
                | Refusal::Groups(_)
                | Refusal::Nodes(_)
                | Refusal::Receipts(_)
                | Refusal::Trace(_)
                | Refusal::Workers(_)
                | Refusal::Surfacing(_)
                | Refusal::Actions(_)
                | Refusal::Holds(_)
                | Refusal::Records(_)
                | Refusal::Sessions(_) => true,
            };
            holds(at, right, || format!("{body:?} was refused: {refusal:?}"))?;
        }
        Ok(())
    }
}

impl History<'_> {
    /// Tells whether a message stood in a reply, when a step was done, that was read and could only be cancelled any more.
    fn was_read(&self, at: usize, agent: &AgentName, message: MessageId) -> bool {
        let read = |shown: &&Shown| {
            shown.agent == *agent
                && shown.read.is_some_and(|(read, _)| read <= at)
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
        to: &AgentName,
        bounds: &Bounds,
        fits: impl Fn((usize, usize)) -> bool,
    ) -> Verdict {
        let of_agent = || {
            self.shown
                .iter()
                .filter(|s| s.agent == *to && !s.deliveries.is_empty())
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

/// Goes through what an inbox held in a step.
fn there<'a>(
    held: &BTreeMap<&'a AgentName, Vec<Held<'a>>>,
    agent: &AgentName,
    at: usize,
) -> impl Iterator<Item = &'a Message> {
    let held = held.get(agent).into_iter().flatten();
    held.filter(move |held| held.from < at && at < held.to)
        .map(|held| held.message)
}

fn is_room(bounds: &Bounds, messages: usize, bytes_with_it: usize) -> bool {
    messages < bounds.inbox_messages_max && bytes_with_it <= bounds.inbox_bytes_max
}

/// Counts messages, and the bytes of their bodies and metadata.
fn size<'a>(messages: impl Iterator<Item = &'a Message>) -> (usize, usize) {
    messages.fold((0, 0), |(messages, bytes), message| {
        (messages + 1, bytes + message.bytes())
    })
}

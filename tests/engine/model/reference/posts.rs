//! Posts.

use relay::engine::absence::{Absence, Absent};

use super::addresses::Meant;
use super::keys::said;
use super::*;

/// A post as it was asked for.
pub(super) struct Post {
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) kind: Kind,
    pub(super) body: String,
    pub(super) options: mail::PostOptions,
}

impl Model {
    pub(super) fn post(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        random: [u8; 16],
        post: Post,
    ) -> Result<Vec<Effect>, Refusal> {
        let from = self.speaker(open, NamedAs::Sender, post.from.as_deref())?;
        if let Some(answer) = self.answer_before(now, &from, &post)? {
            self.contact(now, open.session, &from);
            return Ok(vec![self.answer(open, call, Reply::Mail(answer))]);
        }
        let said = said(&post);
        let Post {
            to: given,
            kind,
            body,
            options,
            ..
        } = post;
        let Meant {
            to,
            agents,
            mut warnings,
            channel,
        } = self.meant(&from, &given).map_err(of_address)?;
        let context = self.belongs_to(&from, &agents, &options, &mut warnings)?;
        if options.await_ms.is_some() && agents.is_empty() {
            self.marks.reach(AddressMark::AsksNobody);
            return Err(Refusal::Agents(agents::Refusal::Nobody { to }));
        }
        self.judge_body(&body, options.metadata.as_ref().map_or(0, String::len))?;
        let message = Arc::new(Message {
            id: MessageId(version_4(random)),
            from,
            to,
            kind,
            body,
            ts: now,
            context,
        });
        let giving_way = self.judge_all_rooms(&agents, &message)?;
        self.judge_channel(&message.from, channel.as_ref())?;
        let waits = self.waits.len();
        if options.await_ms.is_some() && waits >= self.bounds.waits_max {
            self.marks.reach(Mark::TooManyWaitsToAsk);
            return Err(Refusal::Mail(mail::Refusal::TooManyWaits { waits }));
        }
        if self.stopping {
            self.marks.reach(Mark::PostWhileStopping);
            return Err(Refusal::Stopping);
        }
        for read in giving_way {
            self.marks.reach(Mark::ReadGivesWay);
            self.confirm(read, Sign::Settled);
        }
        if let Some(channel) = &channel {
            self.joins(now, channel, &message.from);
        }
        self.contact(now, open.session, &message.from);
        let note = self.held_note(&message.from, &agents);
        let absence = note.or_else(|| self.absence(now, &agents));
        let seqs = self.accept(&message, &agents);
        let mut effects = vec![Effect::Note(relay::engine::Event::Accepted {
            message: Arc::clone(&message),
            agents: agents.clone(),
            places: seqs.into_iter().collect(),
        })];
        let posted = mail::Reply::Posted {
            id: message.id,
            given: given.clone().into(),
            to: message.to.clone(),
            ts: now,
            thread: message.thread().map(Box::from),
            warnings: warnings.into(),
            absence,
        };
        self.keep_answer(&message, options.idempotency_key, said, &posted);
        match options.await_ms {
            Some(wait_ms) => {
                let asked = Asked {
                    number: self.accepted,
                    to: given,
                    agents,
                    thread: message.thread().map(str::to_owned),
                    wait_ms,
                    room: options.room,
                };
                self.ask(now, open, call, &message.from, asked);
            }
            None => effects.push(self.answer(open, call, Reply::Mail(posted))),
        }
        effects.extend(self.wake_all(now));
        Ok(effects)
    }

    /// Says that none of those who get a message is there, if it is so.
    fn absence(&mut self, now: Timestamp, to: &[AgentName]) -> Option<Box<Absence>> {
        if to.is_empty() || to.iter().any(|agent| self.is_there(now, agent)) {
            return None;
        }
        let who = match to {
            [one] => Absent::One(one.clone()),
            several => Absent::All(several.len()),
        };
        let agents = self.agents.iter().filter(|agent| to.contains(&agent.name));
        let contacts: Vec<Option<Timestamp>> = agents.map(|agent| agent.last_contact).collect();
        let last = contacts.iter().copied().max().flatten();
        self.marks.reach(match (&who, last) {
            (Absent::One(_), None) => Mark::NeverThere,
            (Absent::One(_), Some(_)) => Mark::Gone,
            (Absent::All(_), None) => Mark::NoneWasEverThere,
            (Absent::All(_), Some(_)) => Mark::AllAreGone,
        });
        let some_never = contacts.contains(&None);
        self.marks
            .reach_if(last.is_some() && some_never, Mark::SomeGoneAndOthersNeverThere);
        let started_at = self.boot.started_at;
        Some(Box::new(match last {
            None => Absence::Never { who, started_at },
            Some(last_contact) => Absence::Gone { who, last_contact },
        }))
    }

    /// Tells whether somebody may read for an agent before long; whether the person does is its own affair.
    fn is_there(&mut self, now: Timestamp, name: &AgentName) -> bool {
        let Some(agent) = self.agents.iter().find(|agent| agent.name == *name) else {
            return true;
        };
        let is_recent = |at| now.millis_since(at) < ACTIVE_MS;
        let recent = agent.last_contact.is_some_and(is_recent) && !self.is_gone(agent);
        let waited_for = self.waits.iter().any(|wait| wait.agent == *name);
        let mut open = self.sessions.iter().filter(|open| !open.fenced);
        let bound = open.clone().any(|open| open.agent.as_ref() == Some(name));
        let acted = open.any(|open| Some(open.session) == agent.last_session);
        self.marks.reach_if(
            acted && !bound && !recent && !waited_for,
            Mark::ThereThoughUnboundAndIdle,
        );
        self.marks.reach_if(
            waited_for && !bound && !recent && !acted,
            Mark::ThereByThePersonWhoWaits,
        );
        recent || waited_for || bound || acted
    }

    /// Puts a message into all inboxes that it is for, and returns its places there.
    fn accept(&mut self, message: &Arc<Message>, agents: &[AgentName]) -> Vec<Seq> {
        self.accepted += 1;
        self.tell(Told::Accepted(Arc::clone(message)));
        let by_name = message.to.by() == ResolvedBy::Name;
        let mut seqs = Vec::new();
        let by = message.to.by();
        let group = self
            .groups
            .iter()
            .find(|group| Recipient::group(&group.name) == message.to);
        let by_itself = |agent: &&AgentName| {
            let member = groups::Member::Agent((*agent).clone());
            group.is_some_and(|group| group.members.contains(&member))
        };
        let by_themselves = agents.iter().filter(by_itself).count();
        self.marks.reach_if(
            group.is_some() && (1..agents.len()).contains(&by_themselves),
            AddressMark::ToGroupWithRole,
        );
        self.marks
            .reach_if(by != ResolvedBy::Name && agents.len() > 1, Mark::SeveralCopies);
        for agent in agents {
            if self.held_by(&message.from, agent).is_none() {
                self.changed.push(Changed::Inbox(agent.clone()));
            }
            let before = self.messages.iter().filter(|m| m.is_for(agent)).count();
            let seq = Seq(before as u64);
            seqs.push(seq);
            if by_name {
                let accepted = Arc::clone(message);
                *self.told.last_mut().expect("it was accepted") =
                    (self.now, Told::Sent(accepted, agent.clone(), seq));
            } else {
                self.tell(Told::Queued(message.id, agent.clone(), seq));
            }
            self.messages.push(Kept {
                agent: agent.clone(),
                number: self.accepted,
                delivery: Delivery {
                    seq,
                    message: Arc::clone(message),
                    mode: relay::engine::handling::Mode::Immediate,
                    redelivered: false,
                },
                state: State::Waiting,
                parts: Vec::new(),
                parts_shown: 0,
                handed_with: 0,
                forgotten: false,
                read_with: 0,
                allowed: false,
                in_stead: false,
            });
        }
        for agent in agents {
            self.set_aside(agent, HoldMark::HeldAtOnce);
        }
        seqs
    }

    /// Has a post wait for its answer.
    fn ask(&mut self, now: Timestamp, open: &Open, call: CallId, agent: &AgentName, asked: Asked) {
        self.marks.reach(Mark::Asks);
        let from_these = |m: &&Kept| m.waits_for(agent) && asked.agents.contains(&m.delivery.message.from);
        let there = self.messages.iter().filter(from_these);
        let there = there.filter(|m| m.number < asked.number).count();
        self.marks.reach_if(there > 0, Mark::AsksThoughSomethingIsThere);
        let others = self.waits.iter().filter(|wait| wait.agent == *agent);
        let others: Vec<bool> = others.map(|wait| wait.wanted.answers.is_some()).collect();
        self.marks
            .reach_if(others.contains(&false), Mark::AsksBeforeAWait);
        self.marks
            .reach_if(others.contains(&true), Mark::AsksBehindAQuestion);
        let expires_at = now.plus_millis(i64::from(asked.wait_ms));
        let wanted = Wanted {
            from: None,
            channel: None,
            limit: 1,
            earlier: false,
            room: asked.room,
            answers: Some(asked),
            waits_past_start: false,
        };
        self.waits.push(Parked {
            call,
            session: open.session,
            agent: agent.clone(),
            wanted,
            parked_at: now,
            expires_at,
        });
    }

    /// Finds what must give way in all inboxes; the first that has no room all the same is named.
    fn judge_all_rooms(&mut self, agents: &[AgentName], message: &Message) -> Result<Vec<CallId>, Refusal> {
        let metadata = message
            .context
            .as_ref()
            .and_then(|context| context.metadata.as_ref());
        let bytes = message.body.len() + metadata.map_or(0, String::len);
        let mut giving_way = Vec::new();
        for (at, agent) in agents.iter().enumerate() {
            match self.judge_room(agent, bytes) {
                Ok(more) => giving_way.extend(more),
                Err(refusal) => {
                    self.marks.reach_if(at > 0, Mark::FullForOneOfMany);
                    self.marks
                        .reach_if(!giving_way.is_empty(), Mark::NothingGivesWayForNothing);
                    return Err(refusal);
                }
            }
        }
        Ok(giving_way)
    }

    /// A channel that is not there is made, if there is room for one more and not the person writes.
    pub(super) fn judge_channel(
        &mut self,
        from: &AgentName,
        channel: Option<&ChannelName>,
    ) -> Result<(), Refusal> {
        let Some(channel) = channel else { return Ok(()) };
        let is_there = self.channels.iter().any(|other| other.name == *channel);
        if is_there || channel.local() == "general" || from.is_person() {
            return Ok(());
        }
        let channels = self.channels.len();
        if channels < self.bounds.channels_max {
            return Ok(());
        }
        self.marks.reach(Mark::TooManyChannels);
        Err(Refusal::Groups(groups::Refusal::TooManyChannels { channels }))
    }

    fn judge_body(&mut self, body: &str, metadata: usize) -> Result<(), Refusal> {
        let bytes_max = self.bounds.body_bytes_max;
        let bytes = body.len() + metadata;
        self.marks.reach_if(bytes == bytes_max, Mark::BodyAtLimit);
        if bytes <= bytes_max {
            return Ok(());
        }
        self.marks.reach_if(bytes == bytes_max + 1, Mark::BodyOneOver);
        self.marks
            .reach_if(body.len() <= bytes_max, Mark::TooLongByItsMetadata);
        self.marks.reach_if(
            body.chars().count() + metadata <= bytes_max,
            Mark::BodyTooLongInBytesOnly,
        );
        Err(Refusal::Mail(mail::Refusal::BodyTooLong { bytes, bytes_max }))
    }

    /// Counts what was accepted and is not known to have been read, and returns the replies that must give way: of those that
    /// were read and may still be cancelled, the oldest.
    fn judge_room(&mut self, to: &AgentName, more_bytes: usize) -> Result<Vec<CallId>, Refusal> {
        let held = self.messages.iter();
        let held = held.filter(|m| m.has_room_in(to));
        let messages = held.clone().count();
        let bytes = held.clone().map(Kept::bytes).sum::<usize>();
        let waiting = held.filter(|m| m.state == State::Waiting);
        let messages_waiting = waiting.clone().count();
        let bytes_waiting = waiting.map(Kept::bytes).sum::<usize>();
        let Bounds {
            inbox_messages_max: messages_max,
            inbox_bytes_max: bytes_max,
            ..
        } = self.bounds;
        let fits = |messages: usize, bytes: usize| messages < messages_max && bytes + more_bytes <= bytes_max;
        if fits(messages, bytes) {
            self.marks
                .reach_if(bytes + more_bytes == bytes_max, Mark::InboxFilledToTheByte);
            self.marks
                .reach_if(messages + 1 == messages_max, Mark::InboxFilledToThePlace);
            return Ok(Vec::new());
        }
        let (mut messages_left, mut bytes_left) = (messages, bytes);
        let mut giving_way = Vec::new();
        for doubt in self.longest_read(to) {
            let of_reply = self.messages.iter();
            let of_reply = of_reply.filter(|m| m.is_for(to) && m.state == State::Handed(doubt.call));
            let (count, size) = (of_reply.clone().count(), of_reply.map(Kept::bytes).sum::<usize>());
            if count == 0 {
                continue;
            }
            messages_left -= count;
            bytes_left -= size;
            giving_way.push(doubt.call);
            if fits(messages_left, bytes_left) {
                self.marks
                    .reach_if(giving_way.len() > 1, Mark::ReadGivesWayTogether);
                return Ok(giving_way);
            }
        }
        self.marks
            .reach_if(!giving_way.is_empty(), Mark::InboxFullThoughRead);
        let full_of = if messages == messages_max {
            Mark::InboxFullOfMessages
        } else {
            Mark::InboxFullOfBytes
        };
        self.marks.reach(full_of);
        let aside = self.messages.iter().filter(|m| m.is_aside_for(to)).count();
        self.marks.reach_if(aside == messages, HoldMark::FullOfHeld);
        self.marks
            .reach_if(fits(messages_waiting, bytes_waiting), Mark::InboxFullOfHandovers);
        Err(Refusal::Mail(mail::Refusal::InboxFull {
            agent: to.clone(),
            messages,
            bytes,
            messages_max,
            bytes_max,
        }))
    }
}

/// The refusal of an address that was to mean somebody.
fn of_address(refusal: Refusal) -> Refusal {
    if let Refusal::Agents(agents::Refusal::Unknown { name, known }) = refusal {
        Refusal::Agents(agents::Refusal::UnknownAddress { name, known })
    } else {
        refusal
    }
}

//! Calls, and whom a session speaks for.

use super::*;

impl Model {
    pub(super) fn call(
        &mut self,
        now: Timestamp,
        session: SessionId,
        call: CallId,
        random: [u8; 16],
        command: Command,
    ) -> Vec<Effect> {
        let Some(open) = self.session(session) else {
            self.marks.reach(Mark::CallOnClosed);
            return Vec::new();
        };
        let mut confirmed = false;
        for doubt in self.doubts.clone() {
            if doubt.session != session || doubt.read_at.is_some() {
                continue;
            }
            if doubt.passed.is_none() {
                self.marks.reach(Mark::UnpassedAtCall);
                continue;
            }
            match open.carrier {
                // The next request may have been sent before the reply came.
                Carrier::Exchange => self.marks.reach(Mark::CallOnExchange),
                Carrier::Stream => {
                    confirmed = true;
                    self.marks.reach(Mark::ReadByCall);
                    self.marks
                        .reach_if(doubt.is_overdue(), Mark::OverdueConfirmedByCall);
                    self.has_read(now, doubt.call);
                }
            }
        }
        let done = match command {
            Command::Mail(mail::Command::Post {
                from, to, kind, body, ..
            }) => self.post(now, &open, call, random, from.as_deref(), &to, kind, body),
            Command::Mail(mail::Command::Read {
                agent,
                from,
                limit,
                wait_ms,
                second,
                ..
            }) => {
                let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
                let (agent, from) = (agent.as_deref(), from.as_deref());
                self.read(now, &open, call, agent, from, limit, wait_ms, second)
            }
            Command::Mail(mail::Command::Pending { agent }) => self.pending(&open, call, agent.as_deref()),
            Command::Mail(mail::Command::Peek { agent }) => self.peek(&open, call, agent.as_deref()),
            Command::Agents(_) | Command::Groups(_) => unreachable!("no plan says so"),
        };
        match done {
            Ok(effects) => effects,
            Err(refusal) => {
                self.marks.reach_if(confirmed, Mark::ReadByRefusedCall);
                vec![reply(call, Err(refusal))]
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a post has four of its own")]
    pub(super) fn post(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        random: [u8; 16],
        from: Option<&str>,
        to: &str,
        kind: Kind,
        body: String,
    ) -> Result<Vec<Effect>, Refusal> {
        let from = self.speaker(open, NamedAs::Sender, from)?;
        let to = match self.known(to) {
            Ok(to) => to,
            Err(refusal) => {
                self.marks.reach(Mark::UnknownRecipient);
                return Err(refusal);
            }
        };
        self.judge_body(&body)?;
        let giving_way = self.judge_room(&to, body.len())?;
        if self.stopping {
            self.marks.reach(Mark::PostWhileStopping);
            return Err(Refusal::Stopping);
        }
        for read in giving_way {
            self.marks.reach(Mark::ReadGivesWay);
            self.confirm(read);
        }
        let message = Arc::new(Message {
            id: MessageId(version_4(random)),
            from,
            to: Recipient::agent(&to),
            kind,
            body,
            ts: now,
            context: None,
        });
        self.marks.reach_if(to.as_str() == "user", Mark::PostToPerson);
        let before = self.messages.iter().filter(|m| m.is_for(&to)).count();
        self.messages.push(Kept {
            delivery: Delivery {
                seq: Seq(before as u64),
                message: Arc::clone(&message),
                redelivered: false,
            },
            state: State::Waiting,
        });
        let id = message.id;
        let accepted = Effect::Note(relay::engine::Event::Accepted {
            message,
            agents: vec![to.clone()],
        });
        let posted = mail::Reply::Posted {
            id,
            given: to.to_string(),
            to: Recipient::agent(&to),
            thread: None,
            warnings: Vec::new(),
        };
        let mut effects = vec![accepted, reply(call, Ok(Reply::Mail(posted)))];
        effects.extend(self.wake_all(now));
        Ok(effects)
    }

    pub(super) fn judge_body(&mut self, body: &str) -> Result<(), Refusal> {
        let bytes_max = self.bounds.body_bytes_max;
        self.marks.reach_if(body.len() == bytes_max, Mark::BodyAtLimit);
        if body.len() <= bytes_max {
            return Ok(());
        }
        self.marks
            .reach_if(body.len() == bytes_max + 1, Mark::BodyOneOver);
        self.marks
            .reach_if(body.chars().count() <= bytes_max, Mark::BodyTooLongInBytesOnly);
        Err(Refusal::Mail(mail::Refusal::BodyTooLong {
            bytes: body.len(),
            bytes_max,
        }))
    }

    /// Counts what was accepted and is not known to have been read, and returns the replies that must give way: of those that
    /// were read and may still be cancelled, the oldest.
    pub(super) fn judge_room(&mut self, to: &AgentName, more_bytes: usize) -> Result<Vec<CallId>, Refusal> {
        let held = self.messages.iter();
        let held = held.filter(|m| m.is_for(to) && m.state != State::Read);
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

    #[expect(clippy::too_many_arguments, reason = "a read has five of its own")]
    pub(super) fn read(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        agent: Option<&str>,
        from: Option<&str>,
        limit: usize,
        wait_ms: u32,
        second: mail::Second,
    ) -> Result<Vec<Effect>, Refusal> {
        let agent = self.speaker(open, NamedAs::Reader, agent)?;
        let from = match from.map(|from| self.known(from)) {
            None => None,
            Some(Ok(from)) => Some(from),
            Some(Err(refusal)) => {
                self.marks.reach(Mark::ReadFromUnknown);
                return Err(refusal);
            }
        };
        let wanted = Wanted { from, limit };
        let empty = !self.has(&agent, &wanted);
        let others = self.messages.iter().any(|m| m.waits_for(&agent));
        let noticed = !self.is_notice_due(open.session, &agent);
        self.marks.reach_if(
            wait_ms > 0 && empty && noticed && self.stopping,
            Mark::ReadWhileStopping,
        );
        self.marks.reach_if(
            wait_ms > 0 && empty && !noticed && !self.stopping,
            Mark::NoticeInsteadOfWait,
        );
        if wait_ms == 0 || !empty || !noticed || self.stopping {
            return Ok(vec![self.hand_over(open.session, call, &agent, &wanted, 0)]);
        }
        let of_session = self.waits.iter().filter(|wait| wait.session == open.session);
        if let Some(first) = of_session.min_by_key(|wait| wait.call)
            && second == mail::Second::IsRefused
        {
            self.marks.reach(Mark::AlreadyWaits);
            self.marks
                .reach_if(first.agent != agent, Mark::AlreadyWaitsForAnother);
            let agent = first.agent.clone();
            return Err(Refusal::Mail(mail::Refusal::AlreadyWaits { agent }));
        }
        self.marks.reach_if(others, Mark::WaitsForOneAlone);
        let same = |wait: &&Parked| wait.session == open.session && wait.agent == agent;
        let older = self.waits.iter().find(same).map(|wait| wait.call);
        let waits = self.waits.len();
        let at_the_bound = waits == self.bounds.waits_max;
        let mut effects = Vec::new();
        match older {
            Some(older) => {
                self.marks.reach(Mark::Supersede);
                self.marks.reach_if(at_the_bound, Mark::SupersedeAtTheBound);
                let older = self.unpark(older).expect("it waits");
                let waited = now.millis_since(older.parked_at);
                effects.push(self.hand_over(open.session, older.call, &agent, &older.wanted, waited));
            }
            None if at_the_bound => {
                self.marks.reach(Mark::TooManyWaits);
                return Err(Refusal::Mail(mail::Refusal::TooManyWaits { waits }));
            }
            None => {}
        }
        let in_line = self.waits.iter().any(|wait| wait.agent == agent);
        self.marks.reach_if(in_line, Mark::StandsInLine);
        let elsewhere = self.waits.iter().any(|wait| wait.session == open.session);
        self.marks.reach_if(elsewhere, Mark::WaitsForTwo);
        self.waits.push(Parked {
            call,
            session: open.session,
            agent,
            wanted,
            parked_at: now,
            expires_at: now.plus_millis(i64::from(wait_ms)),
        });
        Ok(effects)
    }

    pub(super) fn pending(
        &mut self,
        open: &Open,
        call: CallId,
        agent: Option<&str>,
    ) -> Result<Vec<Effect>, Refusal> {
        let agent = self.speaker(open, NamedAs::Reader, agent)?;
        let waiting = self.messages.iter().filter(|m| m.waits_for(&agent));
        let kinds = waiting.map(|m| m.delivery.message.kind).collect();
        Ok(vec![reply(call, Ok(Reply::Mail(mail::Reply::Pending { kinds })))])
    }

    pub(super) fn peek(
        &mut self,
        open: &Open,
        call: CallId,
        agent: Option<&str>,
    ) -> Result<Vec<Effect>, Refusal> {
        let agent = self.speaker(open, NamedAs::Reader, agent)?;
        let waiting = self.messages.iter().filter(|m| m.waits_for(&agent));
        let deliveries: Vec<Delivery> = waiting.map(|m| m.delivery.clone()).collect();
        self.marks.reach_if(!deliveries.is_empty(), Mark::PeekOfSomething);
        Ok(vec![reply(
            call,
            Ok(Reply::Mail(mail::Reply::Seen { deliveries })),
        )])
    }

    pub(super) fn speaker(
        &mut self,
        open: &Open,
        named: NamedAs,
        given: Option<&str>,
    ) -> Result<AgentName, Refusal> {
        let posting = named == NamedAs::Sender;
        if given == Some("user") && !open.person {
            self.marks.reach(if posting {
                Mark::PersonNamedPosting
            } else {
                Mark::PersonNamedReading
            });
            return Err(self.persons(named));
        }
        if open.person && given.is_none() {
            self.marks.reach(Mark::PersonLeftOut);
            return Ok(AgentName::person());
        }
        let Some(name) = given else {
            let Some(bound) = &open.agent else {
                self.marks.reach(if posting {
                    Mark::AnonymousPost
                } else {
                    Mark::AnonymousRead
                });
                return Err(Refusal::Agents(agents::Refusal::Anonymous {
                    named,
                    known: Known::from(&self.roster),
                }));
            };
            self.marks.reach(Mark::BoundLeftOut);
            return Ok(bound.clone());
        };
        let agent = match self.known(name) {
            Ok(agent) => agent,
            Err(refusal) => {
                self.marks.reach(if posting {
                    Mark::UnknownSender
                } else {
                    Mark::UnknownReader
                });
                return Err(refusal);
            }
        };
        let Some(bound) = &open.agent else {
            return Ok(agent);
        };
        if agent == *bound {
            self.marks.reach(Mark::BoundNamedItself);
            return Ok(agent);
        }
        self.marks.reach(if posting {
            Mark::NotYouPosting
        } else {
            Mark::NotYouReading
        });
        Err(Refusal::Agents(agents::Refusal::NotYou {
            named,
            name: agent,
            bound: bound.clone(),
        }))
    }

    pub(super) fn persons(&self, named: NamedAs) -> Refusal {
        let known = Known::from(&self.roster);
        Refusal::Agents(agents::Refusal::Person { named, known })
    }

    pub(super) fn known(&self, name: &str) -> Result<AgentName, Refusal> {
        let mut names = everybody(&self.roster).into_iter();
        let found = names.find(|agent| agent.as_str() == name);
        found.ok_or(Refusal::Agents(agents::Refusal::Unknown {
            name: name.to_owned(),
            known: Known::from(&self.roster),
        }))
    }
}

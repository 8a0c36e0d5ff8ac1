//! Calls: what a call itself shows, and reads.

use super::posts::Post;
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
        let of_tool = !matches!(command, Command::Watches(_) | Command::Resource(_));
        for doubt in self.doubts.clone() {
            if doubt.session != session || doubt.read_at.is_some() {
                continue;
            }
            if !of_tool {
                self.marks.reach(Mark::LookConfirmsNothing);
                continue;
            }
            if doubt.passed.is_none() {
                self.marks.reach(Mark::UnpassedAtCall);
                continue;
            }
            match open.carrier {
                // The next request may have been sent before the reply came.
                Carrier::Exchange => self.marks.reach(Mark::CallOnExchange),
                Carrier::Node | Carrier::Hook | Carrier::Wake => {
                    unreachable!("no plan has nodes or programs")
                }
                Carrier::Stream => {
                    confirmed = true;
                    self.marks.reach(Mark::ReadByCall);
                    self.marks
                        .reach_if(doubt.is_overdue(), Mark::OverdueConfirmedByCall);
                    self.has_read(now, doubt.call, Sign::CalledAgain);
                }
            }
        }
        self.is_tools = of_tool;
        self.spoke_for = None;
        let done = self.carry_out_call(now, &open, call, random, command);
        match done {
            Ok(effects) => effects,
            Err(refusal) => {
                self.marks.reach_if(confirmed, Mark::ReadByRefusedCall);
                vec![reply(call, Err(refusal))]
            }
        }
    }

    fn carry_out_call(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        random: [u8; 16],
        command: Command,
    ) -> Result<Vec<Effect>, Refusal> {
        match command {
            Command::Mail(mail::Command::Post {
                from,
                to,
                kind,
                body,
                options,
            }) => {
                let post = Post {
                    from,
                    to,
                    kind,
                    body,
                    options: options.map_or_else(mail::PostOptions::default, |options| *options),
                };
                self.post(now, open, call, random, post)
            }
            Command::Mail(read @ mail::Command::Read { .. }) => self.read(now, open, call, read),
            Command::Mail(mail::Command::Pending { agent }) => {
                self.pending(now, open, call, agent.as_deref())
            }
            Command::Mail(mail::Command::Peek { agent, limit }) => {
                self.peek(open, call, agent.as_deref(), limit)
            }
            Command::Mail(mail::Command::Find { agent, id }) => self.find(open, call, agent.as_deref(), &id),
            Command::Agents(command) => self.about_agents(now, open, call, command),
            Command::Groups(command) => self.about_groups(now, open, call, command),
            Command::Channels(command) => self.about_channels(now, open, call, command),
            Command::Watches(command) => self.about_watches(open, call, command),
            Command::Resource(command) => self.carry_out_call(now, open, call, random, *command),
            Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Actions(_)
            | Command::Surfacing(_)
            | Command::Workers(_) => {
                unreachable!("no plan has nodes")
            }
            Command::Holds(command) => self.about_holds(now, open, call, command),
            Command::Trace(command) => self.about_trace(open, call, &command),
            Command::Records(command) => self.about_records(now, open, call, command),
        }
    }

    pub(super) fn read(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        command: mail::Command,
    ) -> Result<Vec<Effect>, Refusal> {
        let mail::Command::Read {
            agent,
            options,
            room,
            wait_ms,
            second,
        } = command
        else {
            unreachable!("it is a read")
        };
        let mail::ReadOptions {
            from,
            channel,
            limit,
            after,
            earlier,
            waits_past_start,
        } = options.map(|options| *options).unwrap_or_default();
        let agent = self.speaker(open, NamedAs::Reader, agent.as_deref())?;
        let wanted = Wanted {
            from: self.sender_to_read(&agent, from.as_deref())?,
            channel: match channel {
                Some(channel) => Some(self.channel_to_read(agent.project(), &channel)?),
                None => None,
            },
            limit: limit.map_or(usize::MAX, NonZeroUsize::get),
            earlier,
            room,
            answers: None,
            waits_past_start,
        };
        let last = match after {
            Some(given) => Some(self.last_seen(&agent, &given)?),
            None => None,
        };
        if !self.answers_at_once(open.session, &agent, &wanted, wait_ms) {
            self.may_wait(open, &agent, second)?;
        }
        let has_asked = last.is_some();
        if let Some(last) = last {
            self.ask_again(&agent, &last);
        }
        let empty = !self.has(&agent, &wanted);
        let others = self.messages.iter().any(|m| m.waits_for(&agent));
        let noticed = !self.is_notice_due(open.session, &agent);
        self.marks.reach_if(
            wait_ms > 0 && empty && noticed && self.stopping,
            Mark::ReadWhileStopping,
        );
        let news_of_start = wait_ms > 0 && empty && !noticed && !self.stopping;
        self.marks
            .reach_if(news_of_start && !waits_past_start, Mark::NoticeInsteadOfWait);
        self.marks
            .reach_if(news_of_start && waits_past_start, Mark::WaitsPastTheStart);
        if self.answers_at_once(open.session, &agent, &wanted, wait_ms) {
            self.uses(now, open.session, &agent, &wanted);
            let mut effects = vec![self.hand_over(open.session, call, &agent, &wanted, 0)];
            if has_asked {
                effects.extend(self.wake_all(now));
            }
            return Ok(effects);
        }
        self.marks.reach_if(has_asked, Mark::AfterWaits);
        let of_session = self.waits.iter().filter(|wait| wait.session == open.session);
        let (reads, asks): (Vec<_>, Vec<_>) = of_session
            .cloned()
            .partition(|wait| wait.wanted.answers.is_none());
        self.marks.reach_if(
            !asks.is_empty() && second == mail::Second::IsRefused,
            Mark::WaitsBesideItsQuestion,
        );
        self.marks.reach_if(others, Mark::WaitsForOneAlone);
        let older = reads.iter().find(|wait| wait.agent == agent);
        let at_the_bound = self.waits.len() == self.bounds.waits_max;
        let mut effects = Vec::new();
        if let Some(older) = older {
            self.marks.reach(Mark::Supersede);
            self.marks.reach_if(at_the_bound, Mark::SupersedeAtTheBound);
            let older = self.unpark(older.call).expect("it waits");
            effects.push(self.end_in_vain(now, &older));
        }
        let in_line = self.waits.iter().any(|wait| wait.agent == agent);
        self.marks.reach_if(in_line, Mark::StandsInLine);
        let elsewhere = self.waits.iter().any(|wait| wait.session == open.session);
        self.marks.reach_if(elsewhere, Mark::WaitsForTwo);
        self.uses(now, open.session, &agent, &wanted);
        self.waits.push(Parked {
            call,
            session: open.session,
            agent,
            wanted,
            parked_at: now,
            expires_at: now.plus_millis(i64::from(wait_ms)),
        });
        if has_asked {
            effects.extend(self.wake_all(now));
        }
        Ok(effects)
    }

    /// Tells whether a read has something to say, or may not wait.
    fn answers_at_once(&self, session: SessionId, agent: &AgentName, wanted: &Wanted, wait_ms: u32) -> bool {
        let has_news = self.has(agent, wanted) || self.notice_ends(session, agent, wanted);
        wait_ms == 0 || has_news || self.stopping
    }

    /// Refuses a read that cannot wait.
    fn may_wait(&mut self, open: &Open, agent: &AgentName, second: mail::Second) -> Result<(), Refusal> {
        let beside = self.waits.iter().filter(|wait| wait.agent == *agent);
        let mut beside: Vec<Parked> = beside
            .filter(|wait| wait.wanted.answers.is_none())
            .cloned()
            .collect();
        let is_superseded = beside.iter().any(|wait| wait.session == open.session);
        beside.retain(|wait| !self.is_in_stead(wait.session, agent));
        if let Some(first) = beside.first()
            && second == mail::Second::IsRefused
        {
            self.marks.reach(Mark::AlreadyWaits);
            self.marks
                .reach_if(first.session != open.session, Mark::AlreadyWaitsElsewhere);
            let agent = agent.clone();
            return Err(Refusal::Mail(mail::Refusal::AlreadyWaits { agent }));
        }
        let waits = self.waits.len();
        if !is_superseded && waits == self.bounds.waits_max {
            self.marks.reach(Mark::TooManyWaits);
            return Err(Refusal::Mail(mail::Refusal::TooManyWaits { waits }));
        }
        Ok(())
    }

    /// Finds whose messages a read asks for.
    fn sender_to_read(&mut self, by: &AgentName, given: Option<&str>) -> Result<Option<AgentName>, Refusal> {
        let Some(given) = given else { return Ok(None) };
        let name = given.strip_prefix('@').unwrap_or(given);
        if name == "relay" {
            return Ok(Some(AgentName::relay()));
        }
        let known = self.known_from(by.project(), name).or_else(|unknown| {
            let got = self.known_to(by);
            let mut senders = got.iter().map(|m| &m.delivery.message.from);
            let (project, local) = match name.split_once(':') {
                Some((other, local)) => (self.project(other), local),
                None => (by.project(), name),
            };
            let gone = senders.find(|from| from.project() == project && from.local() == local);
            gone.cloned().ok_or(unknown)
        });
        let is_gone = known.as_ref().is_ok_and(|from| !self.everybody().contains(from));
        self.marks.reach_if(is_gone, Mark::ReadFromGone);
        self.marks.reach_if(known.is_err(), Mark::ReadFromUnknown);
        known.map(Some)
    }

    /// A read is carried out: its agent is there, and uses the channel that it reads.
    fn uses(&mut self, now: Timestamp, session: SessionId, agent: &AgentName, wanted: &Wanted) {
        self.contact(now, session, agent);
        if let Some(channel) = &wanted.channel {
            self.marks.reach(Mark::ReadOfChannel);
            self.joins(now, channel, agent);
        }
    }

    pub(super) fn pending(
        &mut self,
        now: Timestamp,
        open: &Open,
        call: CallId,
        agent: Option<&str>,
    ) -> Result<Vec<Effect>, Refusal> {
        let agent = self.speaker(open, NamedAs::Reader, agent)?;
        self.contact(now, open.session, &agent);
        let waiting = self.messages.iter().filter(|m| m.waits_for(&agent));
        let kinds = waiting.map(|m| m.delivery.message.kind).collect();
        Ok(vec![self.answer(
            open,
            call,
            Reply::Mail(mail::Reply::Pending { kinds }),
        )])
    }

    /// Shows a message that an agent got.
    fn find(
        &mut self,
        open: &Open,
        call: CallId,
        agent: Option<&str>,
        id: &str,
    ) -> Result<Vec<Effect>, Refusal> {
        let agent = self.speaker(open, NamedAs::Reader, agent)?;
        let got = self.known_to(&agent);
        let found = got.iter().find(|m| m.delivery.message.id.to_string() == id);
        let Some(message) = found.map(|m| Arc::clone(&m.delivery.message)) else {
            let given = id.to_owned();
            return Err(Refusal::Mail(mail::Refusal::UnknownMessage { given }));
        };
        self.marks.reach(Mark::Found);
        Ok(vec![reply(call, Ok(Reply::Mail(mail::Reply::Found { message })))])
    }

    pub(super) fn peek(
        &mut self,
        open: &Open,
        call: CallId,
        agent: Option<&str>,
        limit: Option<NonZeroUsize>,
    ) -> Result<Vec<Effect>, Refusal> {
        let agent = self.speaker(open, NamedAs::Reader, agent)?;
        let waiting = self.messages.iter().filter(|m| m.waits_for(&agent));
        let mut deliveries: Vec<Delivery> = waiting.map(|m| m.delivery.clone()).collect();
        let all = deliveries.len();
        deliveries.truncate(limit.map_or(all, NonZeroUsize::get));
        let remaining = all - deliveries.len();
        self.marks.reach_if(remaining > 0, Mark::PeekLeavesMore);
        self.marks.reach_if(!deliveries.is_empty(), Mark::PeekOfSomething);
        let held = if open.person {
            self.held_in(&agent)
        } else {
            Vec::new()
        };
        self.marks.reach_if(!held.is_empty(), HoldMark::PeeksAtHeld);
        let seen = mail::Reply::Seen {
            deliveries,
            remaining,
            held,
            project: (agent.project() != relay::engine::DEFAULT_PROJECT).then(|| agent.project().into()),
        };
        Ok(vec![reply(call, Ok(Reply::Mail(seen)))])
    }
}

//! What becomes of a reply.

use super::*;

impl Model {
    pub(super) fn passed(&mut self, now: Timestamp, call: CallId) {
        let Some(doubt) = self.doubts.iter_mut().find(|doubt| doubt.call == call) else {
            let parked = self.waits.iter().any(|wait| wait.call == call);
            self.marks.reach_if(parked, Mark::PassedWhileParked);
            self.marks.reach(Mark::PassedForNothing);
            return;
        };
        if doubt.passed.is_some() {
            self.marks.reach(Mark::PassedAgain);
            self.marks
                .reach_if(doubt.is_overdue(), Mark::PassedAgainWhenOverdue);
            return;
        }
        doubt.passed = Some(Passed {
            doubted_from: now,
            outlived: None,
            kept_alive: false,
            anew: false,
        });
    }

    /// Bytes came behind a reply: they prove it on the connection that carried it, if the reply was gone by then.
    pub(super) fn followed(&mut self, now: Timestamp, call: CallId) {
        let Some(doubt) = self.doubts.iter().find(|doubt| doubt.call == call) else {
            let parked = self.waits.iter().any(|wait| wait.call == call);
            self.marks.reach_if(parked, Mark::FollowedWhileParked);
            self.marks.reach(Mark::FollowedForNothing);
            return;
        };
        if doubt.read_at.is_some() {
            self.marks.reach(Mark::FollowedWhenRead);
            return;
        }
        match (doubt.carrier, doubt.passed) {
            (Carrier::Stream, passed) => {
                self.marks.reach_if(passed.is_some(), Mark::FollowedOnStream);
                self.marks
                    .reach_if(doubt.is_overdue(), Mark::FollowedOnStreamWhenOverdue);
            }
            (Carrier::Node | Carrier::Hook | Carrier::Wake, _) => {
                unreachable!("no plan has nodes or programs")
            }
            (Carrier::Exchange, None) => self.marks.reach(Mark::FollowedUnpassed),
            (Carrier::Exchange, Some(passed)) => {
                self.marks.reach(Mark::ReadByFollowed);
                self.marks.reach_if(passed.anew, Mark::AnewConfirmed);
                self.has_read(now, call, Sign::Followed);
            }
        }
    }

    /// A session has shown that it has read a reply. That counts if it does not cancel the call soon.
    pub(super) fn has_read(&mut self, now: Timestamp, call: CallId, by: Sign) {
        let mut doubts = self.doubts.iter_mut();
        let doubt = doubts.find(|doubt| doubt.call == call).expect("it stands");
        doubt.read_at = Some(now);
        doubt.read_by = Some(by);
        let agent = doubt.agent.clone();
        self.tell(Told::Read(call, by));
        // Of one agent, only so many may be cancelled.
        let read = self.longest_read(&agent);
        let oldest = read[0].call;
        if read.len() > self.bounds.read_max {
            self.marks.reach(Mark::ReadGivesWayToRead);
            self.marks.reach_if(oldest == call, Mark::ReadGivesWayAtOnce);
            self.confirm(oldest, Sign::Settled);
        }
    }

    /// Lists what was read of an inbox and may still be cancelled, the longest first; of what was read in the same moment what was
    /// handed over first.
    pub(super) fn longest_read(&self, agent: &AgentName) -> Vec<Doubt> {
        let doubts = self.doubts.iter();
        let read = doubts.filter(|doubt| doubt.agent == *agent && doubt.read_at.is_some());
        let mut read: Vec<Doubt> = read.cloned().collect();
        read.sort_by_key(|doubt| doubt.read_at);
        read
    }

    /// Confirms what was read so long ago that it cannot be cancelled any more: whatever happens, that is looked at first.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let mut doubts = self.doubts.clone();
        doubts.sort_by_key(|doubt| doubt.read_at);
        for doubt in doubts {
            if doubt
                .read_at
                .is_some_and(|at| at.plus_millis(CANCEL_GRACE_MS) <= now)
            {
                self.marks.reach(Mark::ReadSettles);
                self.confirm(doubt.call, Sign::Settled);
            }
        }
    }

    /// A keep-alive was written to a stream, behind every reply that was passed before.
    pub(super) fn kept_alive(&mut self, now: Timestamp, session: SessionId) {
        let Some(open) = self.session(session) else {
            self.marks.reach(Mark::KeptAliveOnClosed);
            return;
        };
        let of_session = self.doubts.iter_mut();
        let of_session = of_session.filter(|doubt| doubt.session == session && doubt.read_at.is_none());
        let (mut over, mut still_doubted, mut unpassed) = (Vec::new(), 0, 0);
        for doubt in of_session {
            let Some(passed) = &mut doubt.passed else {
                unpassed += 1;
                continue;
            };
            if open.carrier == Carrier::Exchange {
                self.marks.reach(Mark::KeptAliveOnExchange);
                continue;
            }
            if let Some(at) = passed.outlived
                && now > at.plus_millis(DOUBT_MS + DOUBT_LATE_MS_MAX)
            {
                self.marks.reach(Mark::KeptAliveTooLate);
                *passed = Passed {
                    doubted_from: now,
                    outlived: None,
                    kept_alive: false,
                    anew: true,
                };
                continue;
            }
            self.marks.reach_if(passed.kept_alive, Mark::KeptAliveAgain);
            passed.kept_alive = true;
            if doubt.is_over() {
                over.push(doubt.clone());
            } else {
                still_doubted += 1;
            }
        }
        let streamed = open.carrier == Carrier::Stream;
        self.marks
            .reach_if(streamed && unpassed > 0, Mark::KeptAliveUnpassed);
        self.marks.reach_if(still_doubted > 0, Mark::KeptAliveInDoubt);
        self.marks.reach_if(still_doubted > 1, Mark::KeptAliveForSeveral);
        self.marks
            .reach_if(over.len() > 1, Mark::ConfirmSeveralByKeepAlive);
        self.marks.reach_if(
            !over.is_empty() && still_doubted > 0,
            Mark::KeptAliveForOverdueAndDoubted,
        );
        for doubt in over {
            self.marks.reach(Mark::ConfirmByKeepAlive);
            self.marks.reach_if(doubt.began_anew(), Mark::AnewConfirmed);
            self.confirm(doubt.call, Sign::KeptAlive);
        }
    }

    /// The end of a doubt counts if it is acted on in time, and begins the doubt anew if it is not: who slept
    /// through it could not say that the reply was lost.
    pub(super) fn doubt_ends(&mut self, now: Timestamp, call: CallId) {
        let mut doubts = self.doubts.iter_mut();
        let doubt = doubts.find(|doubt| doubt.call == call).expect("it is due");
        let ends_at = doubt.ends_at().expect("it is due");
        let latest = ends_at.plus_millis(DOUBT_LATE_MS_MAX);
        let passed = doubt.passed.as_mut().expect("it is due");
        if now > latest {
            self.marks.reach(Mark::DoubtAnew);
            self.marks
                .reach_if(now == latest.plus_millis(1), Mark::DoubtAnewByAMillisecond);
            self.marks.reach_if(passed.anew, Mark::DoubtAnewAgain);
            self.marks
                .reach_if(passed.kept_alive, Mark::DoubtAnewForgetsKeepAlive);
            *passed = Passed {
                doubted_from: now,
                outlived: None,
                kept_alive: false,
                anew: true,
            };
            return;
        }
        self.marks.reach_if(now == latest, Mark::DoubtEndsAtTheLatest);
        passed.outlived = Some(now);
        if !doubt.is_over() {
            self.marks.reach(Mark::Overdue);
            return;
        }
        self.marks.reach(match doubt.carrier {
            Carrier::Stream => Mark::ConfirmByDoubtEndOnStream,
            Carrier::Exchange => Mark::ConfirmByDoubtEndOnExchange,
            Carrier::Node | Carrier::Hook | Carrier::Wake => {
                unreachable!("no plan has nodes or programs")
            }
        });
        self.marks.reach_if(doubt.began_anew(), Mark::AnewConfirmed);
        self.confirm(call, Sign::DoubtOver);
    }

    pub(super) fn cancelled(&mut self, now: Timestamp, call: CallId) -> Vec<Effect> {
        if let Some(wait) = self.unpark(call) {
            self.has_waited(now, wait.session, &wait.agent);
            self.marks.reach(Mark::WaitCancelled);
            return Vec::new();
        }
        let marks = (Mark::UndoByCancel, Mark::CancelledForNothing);
        self.fail(now, call, Sign::Cancelled, marks)
    }

    /// A parked call has no reply yet; that it could not be written ends the wait all the same.
    pub(super) fn lost(&mut self, now: Timestamp, call: CallId) -> Vec<Effect> {
        if let Some(wait) = self.unpark(call) {
            self.has_waited(now, wait.session, &wait.agent);
            self.marks.reach(Mark::WaitLost);
            return Vec::new();
        }
        let read = |doubt: &Doubt| doubt.call == call && doubt.read_at.is_some();
        if self.doubts.iter().any(read) {
            self.marks.reach(Mark::LostWhenRead);
            return Vec::new();
        }
        self.fail(now, call, Sign::Lost, (Mark::UndoByLoss, Mark::LostForNothing))
    }

    /// The first mark is for a reply that was undone, the second one for none.
    fn fail(
        &mut self,
        now: Timestamp,
        call: CallId,
        sign: Sign,
        (undone, nothing): (Mark, Mark),
    ) -> Vec<Effect> {
        let Some(doubt) = self.doubts.iter().find(|doubt| doubt.call == call) else {
            self.marks.reach(nothing);
            return Vec::new();
        };
        self.marks.reach(undone);
        self.marks
            .reach_if(doubt.passed.is_some(), Mark::UndoAfterPassing);
        self.marks.reach_if(
            doubt.is_overdue() && doubt.read_at.is_none(),
            Mark::OverdueUndoneByNews,
        );
        self.marks.reach_if(doubt.read_at.is_some(), Mark::UndoWhenRead);
        self.undo(call, sign);
        self.wake_all(now)
    }

    pub(super) fn hand_over(
        &mut self,
        session: SessionId,
        call: CallId,
        agent: &AgentName,
        wanted: &Wanted,
        waited_ms: i64,
    ) -> Effect {
        let open = self.session(session).expect("who reads is open").clone();
        self.forget_streams(agent);
        let clients: BTreeSet<ClientId> = self
            .sessions
            .iter()
            .filter_map(|open| open.client.clone())
            .collect();
        let sessions: BTreeSet<SessionId> = self.sessions.iter().map(|open| open.session).collect();
        let there = (clients, sessions);
        let mut deliveries = Vec::new();
        let mut part = None;
        let mut is_cut = false;
        let mut left = wanted.room.map_or(usize::MAX, |room| room.for_messages());
        let number = self.handed_over + 1;
        let in_stead = self.is_in_stead(session, agent);
        for kept in &mut self.messages {
            if !kept.waits_for(agent) {
                continue;
            }
            if !kept.is_wanted(wanted) {
                self.marks.reach(Mark::ReadLeavesOthers);
                self.marks
                    .reach_if(wanted.channel.is_some(), Mark::ReadLeavesOtherChannels);
                continue;
            }
            if deliveries.len() == wanted.limit {
                self.marks.reach(Mark::ReadLeavesMore);
                continue;
            }
            if is_cut || part.is_some() {
                is_cut = true;
                continue;
            }
            let taken = match wanted.room {
                Some(room) => room.taken_by(&kept.delivery.message, left),
                None => Some(0),
            };
            match taken {
                Some(taken) => {
                    left -= taken;
                    kept.state = State::Handed(call);
                    kept.handed_with = number;
                    kept.in_stead = in_stead;
                    self.changed.push(Changed::Inbox(agent.clone()));
                    if !std::mem::take(&mut kept.parts).is_empty() {
                        self.marks.reach(Mark::PartsGoneOnWhole);
                        kept.delivery.redelivered = true;
                    }
                    deliveries.push(kept.delivery.clone());
                }
                None if deliveries.is_empty() => {
                    let room = wanted.room.expect("it does not fit");
                    kept.handed_with = number;
                    kept.in_stead = false;
                    let (shown, is_last) = kept.show_part(call, (&open, &there), &room, &mut self.marks);
                    if is_last {
                        self.changed.push(Changed::Inbox(agent.clone()));
                    }
                    is_cut = !is_last;
                    part = Some(shown);
                    deliveries.push(kept.delivery.clone());
                }
                None => {
                    self.marks.reach(Mark::ReadCutForItsRoom);
                    is_cut = true;
                }
            }
        }
        let remaining = self.messages.iter().filter(|m| m.waits_for(agent)).count();
        let mut restarted = None;
        for notice in &mut self.notices {
            if notice.agent == *agent && notice.state == State::Waiting {
                // The person hears of it when it reads.
                if wanted.answers.is_some() && agent.as_str() == "user" {
                    continue;
                }
                if in_stead {
                    self.marks.reach(Mark::NoticeLeftToTheAgent);
                    continue;
                }
                notice.state = State::Handed(call);
                restarted = Some(self.boot.started_at);
                self.marks.reach(Mark::NoticeTold);
                self.marks
                    .reach_if(wanted.answers.is_some(), Mark::NoticeInAnAnswer);
                self.marks.reach_if(deliveries.is_empty(), Mark::NoticeAlone);
                self.marks.reach_if(notice.undone, Mark::NoticeToldAgain);
            }
        }
        if !deliveries.is_empty() || restarted.is_some() {
            self.handed_over += 1;
            self.doubts.push(Doubt {
                call,
                in_stead,
                number: self.handed_over,
                session,
                agent: agent.clone(),
                carrier: open.carrier,
                passed: None,
                read_at: None,
                read_by: None,
            });
            // What is shown in parts is told of once all of it has arrived.
            let told = if part.is_some() { &[] } else { &deliveries[..] };
            for delivery in told {
                self.tell(Told::HandedOver {
                    message: delivery.message.id,
                    agent: agent.clone(),
                    call,
                    session,
                    carrier: open.carrier,
                    person: open.person,
                });
            }
        }
        let is_full = is_cut || part.is_some();
        let earlier = self.earlier(call, agent, wanted, (deliveries.len(), left, is_full));
        let deliveries = Arc::new(deliveries);
        let project = agent.project();
        reply(
            call,
            Ok(Reply::Mail(mail::Reply::Messages {
                deliveries,
                part: part.map(Box::new),
                is_cut,
                restarted,
                remaining,
                earlier,
                waited_ms,
                project: (project != "default").then(|| project.into()),
            })),
        )
    }

    /// Answers a call of a tool that hands nothing over. The first answer to an agent tells it of the start.
    pub(super) fn answer(&mut self, open: &Open, call: CallId, answer: Reply) -> Effect {
        let spoke_for = self.spoke_for.take().filter(|_| self.is_tools && !open.person);
        let notice = self
            .notices
            .iter_mut()
            .find(|notice| spoke_for.as_ref() == Some(&notice.agent));
        let Some(notice) = notice else {
            return reply(call, Ok(answer));
        };
        if notice.state != State::Waiting {
            return reply(call, Ok(answer));
        }
        notice.state = State::Handed(call);
        let agent = notice.agent.clone();
        let is_post = matches!(answer, Reply::Mail(mail::Reply::Posted { .. }));
        self.marks.reach(if is_post {
            Mark::NoticeBesideAPost
        } else {
            Mark::NoticeBesideAnotherAnswer
        });
        self.handed_over += 1;
        let in_stead = self.is_in_stead(open.session, &agent);
        self.doubts.push(Doubt {
            call,
            in_stead,
            number: self.handed_over,
            session: open.session,
            agent,
            carrier: open.carrier,
            passed: None,
            read_at: None,
            read_by: None,
        });
        let after_start = Reply::AfterStart {
            started_at: self.boot.started_at,
            reply: Box::new(answer),
        };
        reply(call, Ok(after_start))
    }

    /// Lists the latest of what was handed over before and is asked for, up to the number that is asked for in all.
    fn earlier(
        &mut self,
        call: CallId,
        agent: &AgentName,
        wanted: &Wanted,
        (shown, left, is_cut): (usize, usize, bool),
    ) -> Vec<Delivery> {
        if !wanted.earlier {
            return Vec::new();
        }
        let recent = self.recent(agent);
        let is_full = recent.len() == RECENT_MAX;
        let in_order = recent.is_sorted_by_key(|m| m.delivery.seq);
        let in_doubt = self.messages.iter().filter(|m| match m.state {
            State::Handed(by) => by != call && m.agent == *agent && m.is_wanted(wanted),
            State::InParts => !m.has_part_in(call) && m.agent == *agent && m.is_wanted(wanted),
            State::Waiting | State::Aside | State::Read | State::Dropped => false,
        });
        let mut meant: Vec<&Kept> = recent.into_iter().filter(|m| m.is_wanted(wanted)).collect();
        meant.extend(in_doubt);
        meant.sort_by_key(|m| m.delivery.seq);
        let room = wanted.limit.saturating_sub(shown);
        let left_out = meant.len().saturating_sub(room);
        let meant = &meant[left_out..];
        let mut left = if is_cut { 0 } else { left };
        let fits = |m: &&&Kept| match wanted.room {
            None => true,
            Some(room) => match room.taken_by(&m.delivery.message, left) {
                Some(taken) => {
                    left -= taken;
                    true
                }
                None => false,
            },
        };
        let fitting = meant.iter().rev().take_while(fits).count();
        let meant = &meant[meant.len() - fitting..];
        let earlier: Vec<Delivery> = meant.iter().map(|m| m.delivery.clone()).collect();
        let shows_doubted = meant.iter().any(|m| m.state != State::Read);
        self.marks.reach_if(!in_order, Mark::EarlierReadInAnotherOrder);
        self.marks.reach_if(shows_doubted, Mark::EarlierInDoubt);
        self.marks.reach_if(!earlier.is_empty(), Mark::EarlierShown);
        self.marks
            .reach_if(!earlier.is_empty() && shown > 0, Mark::EarlierBesideNew);
        self.marks
            .reach_if(left_out > 0 && room > 0, Mark::EarlierLeavesTheOldest);
        self.marks.reach_if(is_full, Mark::EarlierForgotten);
        earlier
    }

    /// A reply has arrived, as a sign says, or as one said before.
    pub(super) fn confirm(&mut self, call: CallId, by: Sign) {
        self.confirmed += 1;
        let read_by = self.doubts.iter().find(|doubt| doubt.call == call);
        let read_by = read_by.and_then(|doubt| doubt.read_by);
        let by = read_by.filter(|_| by == Sign::Settled).unwrap_or(by);
        self.tell(Told::Delivered(call, by));
        let doubt = self.doubts.iter().find(|doubt| doubt.call == call);
        let whole = doubt.map(|doubt| (doubt.session, doubt.carrier));
        let agent = doubt.map(|doubt| doubt.agent.clone());
        self.doubts.retain(|doubt| doubt.call != call);
        if let (Some(id), Some((session, carrier))) = (self.all_parts_arrive(call), whole) {
            // No other call has this one's number.
            let arrived = CallId(u64::MAX - call.0);
            let (message, agent) = id;
            let person = self.session(session).is_some_and(|open| open.person);
            self.tell(Told::HandedOver {
                message,
                agent,
                person,
                call: arrived,
                session,
                carrier,
            });
            self.tell(Told::Delivered(arrived, by));
            self.marks.reach(Mark::AllPartsArrived);
        }
        for kept in &mut self.messages {
            if kept.state == State::Handed(call) {
                kept.state = State::Read;
                kept.read_with = self.confirmed;
            }
        }
        for notice in &mut self.notices {
            if notice.state == State::Handed(call) {
                notice.state = State::Read;
            }
        }
        if let Some(agent) = agent {
            self.forget(&agent);
        }
    }

    pub(super) fn undo(&mut self, call: CallId, by: Sign) {
        self.tell(Told::Undone(call, by));
        self.mark_places(call);
        let mut doubts = self.doubts.iter();
        let anew = doubts.any(|doubt| doubt.call == call && doubt.began_anew());
        self.marks.reach_if(anew, Mark::AnewUndone);
        let mut doubts = self.doubts.iter();
        let agent = doubts
            .find(|doubt| doubt.call == call)
            .map(|doubt| doubt.agent.clone());
        self.doubts.retain(|doubt| doubt.call != call);
        for kept in &mut self.messages {
            if kept.state == State::Handed(call) {
                kept.state = State::Waiting;
                self.changed.push(Changed::Inbox(kept.agent.clone()));
                self.marks.reach_if(kept.delivery.redelivered, Mark::UndoAgain);
                kept.delivery.redelivered = true;
            }
            if let Some(is_whole) = kept.part_returns(call) {
                self.marks.reach(Mark::PartReturned);
                self.marks.reach_if(is_whole, Mark::LastPartReturned);
                if is_whole {
                    self.changed.push(Changed::Inbox(kept.agent.clone()));
                }
            }
        }
        for notice in &mut self.notices {
            if notice.state == State::Handed(call) {
                notice.state = State::Waiting;
                notice.undone = true;
            }
        }
        if let Some(agent) = agent {
            self.set_aside(&agent, HoldMark::HeldWhenItCameBack);
        }
    }

    /// Looks where the messages of a hand-over that is about to be undone will go.
    pub(super) fn mark_places(&mut self, call: CallId) {
        let handed = self.messages.iter().filter(|m| m.state == State::Handed(call));
        let undone: Vec<Seq> = handed.clone().map(|m| m.delivery.seq).collect();
        let Some(agent) = handed.map(|m| m.agent.clone()).next() else {
            return;
        };
        let waiting = self.messages.iter().filter(|m| m.waits_for(&agent));
        let waiting: Vec<Seq> = waiting.map(|m| m.delivery.seq).collect();
        let in_front = !waiting.is_empty() && waiting.iter().all(|w| undone.iter().all(|u| u < w));
        let behind = waiting.iter().any(|w| undone.iter().any(|u| u > w));
        let between = |w: &Seq| undone.iter().any(|u| u < w) && undone.iter().any(|u| u > w);
        let interleaves = waiting.iter().any(between);
        self.marks.reach_if(in_front, Mark::UndoInFront);
        self.marks.reach_if(behind, Mark::UndoBehind);
        self.marks.reach_if(interleaves, Mark::UndoInterleaves);
    }
}

//! What was handed over and is not known to have arrived: the hand-overs that stand, and what becomes of them by the signs that
//! [`super::signs`] judges.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::events::{Event, PartOf};
use super::inbox::{Became, Filter, Fit, Reader};
use super::io::{Answer, Carrier, Reply, Sign};
use super::limits::{CANCEL_GRACE_MS, DOUBT_LATE_MS_MAX, DOUBT_MS, OVERDUE_MS_MAX, SURFACED_MS, WOKEN_MS};
use super::message::Delivery;
use super::names::{AgentName, HandoverId, Seq, SessionId};
use super::room::{Part, Room};
use super::signs::{Passage, Verdict, judge};
use super::timers::Timer;
use super::{Engine, Step};

/// Deliveries in a reply that is not known to have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Handover {
    /// Open, or gone since the reply was read.
    pub session: SessionId,
    pub carrier: Carrier,
    pub agent: AgentName,
    /// Shared with the reply.
    pub deliveries: Arc<Vec<Delivery>>,
    /// The person took it, in the agent's stead.
    pub in_stead: bool,
    /// The reply told of the start.
    pub notice: bool,
    /// The part of a message that is in the reply, which is none of the deliveries.
    pub part: Option<Box<PartOf>>,
    pub passage: Passage,
}

/// What was taken out of an inbox.
pub(super) struct HandedOver {
    /// The hand-over that stands until the reply is known to have arrived; none if there is nothing in it.
    pub id: Option<HandoverId>,
    /// Oldest first.
    pub deliveries: Arc<Vec<Delivery>>,
    /// Only this part is handed over, of the only delivery.
    pub part: Option<Part>,
    /// The reply had no room for all that was asked for.
    pub is_cut: bool,
    /// The start is to be told of.
    pub notice: bool,
    /// How many messages are left.
    pub remaining: usize,
}

/// What a reply has.
pub(super) enum Content {
    /// Whole messages, or none.
    Deliveries(Arc<Vec<Delivery>>),
    /// A part of one.
    Part(PartOf),
}

impl Engine {
    /// Takes what a filter means out of an inbox for a session's reply.
    pub(super) fn hand_over(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        filter: &Filter,
        step: &mut Step<'_>,
    ) -> HandedOver {
        // The person hears of it when it reads.
        let is_read = filter.answers.is_none() || !self.sessions[&session].person;
        let tells = is_read && self.tells(session, agent);
        let left = self.readable_with_tools(agent);
        let readable = filter.readable(left);
        let (inboxes, sessions) = (&mut self.inboxes, &self.sessions);
        let inbox = inboxes.get_mut(agent).expect("whoever is read for has an inbox");
        inbox.forget_streams(|stream| sessions.contains_key(&stream));
        let notice = tells && std::mem::take(&mut inbox.notice_due);
        let fit = filter
            .room
            .map_or(Fit::All, |room| inbox.fit(filter, readable, &room));
        if let (Fit::Part(seq), Some(room)) = (fit, filter.room) {
            return self.hand_over_part(session, agent, filter, (seq, &room, notice), step);
        }
        let (deliveries, is_cut) = match fit {
            Fit::All | Fit::Part(_) => (inbox.take(filter, readable), false),
            Fit::Oldest(count) => (inbox.take_oldest(count, filter, readable), true),
        };
        let deliveries = Arc::new(deliveries);
        let remaining = inbox.unread(left);
        let id = (!deliveries.is_empty() || notice).then(|| {
            let carrier = self.sessions[&session].carrier;
            let content = Content::Deliveries(Arc::clone(&deliveries));
            self.stand(session, carrier, agent, content, notice, step)
        });
        HandedOver {
            deliveries,
            part: None,
            is_cut,
            notice,
            remaining,
            id,
        }
    }

    /// Takes the next part of a message for a session's reply.
    fn hand_over_part(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        filter: &Filter,
        (seq, room, notice): (Seq, &Room, bool),
        step: &mut Step<'_>,
    ) -> HandedOver {
        let left = self.readable_with_tools(agent);
        let carrier = self.sessions[&session].carrier;
        let reader = self.reader(session);
        let (inboxes, sessions) = (&mut self.inboxes, &self.sessions);
        let inbox = inboxes.get_mut(agent).expect("whoever is read for has an inbox");
        let is_gone = |reader: &Reader| match reader {
            Reader::Client(client) => !sessions.values().any(|open| open.client.as_ref() == Some(client)),
            Reader::Stream(session) | Reader::Connection(session) => !sessions.contains_key(session),
        };
        let (delivery, part) = inbox.take_part(seq, room, &reader, is_gone);
        let remaining = inbox.unread(left);
        let wants_more = filter.limit != NonZeroUsize::new(1);
        let is_cut =
            !part.is_last() || (wants_more && inbox.matching(filter, filter.readable(left)).next().is_some());
        let deliveries = Arc::new(vec![delivery]);
        if part.is_last() {
            self.inbox_changes(agent, step);
            self.forget_deadlines(agent, &deliveries);
        }
        let of = PartOf {
            message: deliveries[0].message.id,
            seq,
            part,
        };
        let id = self.stand(session, carrier, agent, Content::Part(of), notice, step);
        self.inbox_mut(agent).part_stands(seq, id);
        HandedOver {
            deliveries,
            part: Some(part),
            is_cut,
            notice,
            remaining,
            id: Some(id),
        }
    }

    /// Has an answer tell its agent of the start, if it is the first to it: what is sent behind it is sent in that knowledge.
    pub(super) fn tell_of_start(
        &mut self,
        session: SessionId,
        answer: Answer,
        step: &mut Step<'_>,
    ) -> Answer {
        let Some(agent) = step.to_tell.take() else {
            return answer;
        };
        // Another session has taken the agent over by what this call did.
        if self.sessions.get(&session).is_none_or(|session| session.fenced) {
            return answer;
        }
        let Some(inbox) = self.inboxes.get_mut(&agent) else {
            return answer;
        };
        // A read has told of it already.
        if !std::mem::take(&mut inbox.notice_due) {
            return answer;
        }
        let Answer { reply, handover } = answer;
        assert!(
            handover.is_none(),
            "what hands something over tells of the start itself"
        );
        let carrier = self.sessions[&session].carrier;
        let id = self.stand(
            session,
            carrier,
            &agent,
            Content::Deliveries(Arc::default()),
            true,
            step,
        );
        Answer {
            reply: Reply::AfterStart {
                started_at: self.boot.started_at,
                reply: Box::new(reply),
            },
            handover: Some(id),
        }
    }

    /// Tells whether a message of an agent's may be gone with an earlier run of relay.
    pub(super) fn may_have_lost_something(&self, agent: &AgentName) -> bool {
        let had_sessions = self.had_sessions.as_ref();
        had_sessions.is_none_or(|names| {
            if agent.is_person() {
                !names.is_empty()
            } else {
                names.contains(agent)
            }
        })
    }

    /// Hands over one delivery that was taken out of an inbox: for a frame to a node, or for a receipt.
    pub(super) fn hand_over_one(
        &mut self,
        session: SessionId,
        agent: &AgentName,
        delivery: Delivery,
        step: &mut Step<'_>,
    ) -> HandoverId {
        let carrier = self.sessions[&session].carrier;
        let content = Content::Deliveries(Arc::new(vec![delivery]));
        self.stand(session, carrier, agent, content, false, step)
    }

    /// Has a hand-over of what was taken out of an inbox stand until it is known to have arrived, or not to.
    pub(super) fn stand(
        &mut self,
        session: SessionId,
        carrier: Carrier,
        agent: &AgentName,
        content: Content,
        notice: bool,
        step: &mut Step<'_>,
    ) -> HandoverId {
        let (deliveries, part) = match content {
            Content::Deliveries(deliveries) => (deliveries, None),
            Content::Part(of) => (Arc::default(), Some(Box::new(of))),
        };
        let id = HandoverId(self.handovers_made);
        self.handovers_made += 1;
        self.inbox_mut(agent).standing.push_back(id);
        if !deliveries.is_empty() {
            self.inbox_changes(agent, step);
        }
        self.forget_deadlines(agent, &deliveries);
        self.session_mut(session).handovers.push_back(id);
        let handover = Handover {
            session,
            carrier,
            agent: agent.clone(),
            deliveries: Arc::clone(&deliveries),
            in_stead: self.sessions[&session].person && !agent.is_person(),
            notice,
            part: part.clone(),
            passage: Passage::Written,
        };
        self.handovers.insert(id, handover);
        step.note(Event::HandedOver {
            handover: id,
            session,
            carrier,
            agent: agent.clone(),
            person: self.sessions[&session].person,
            deliveries,
            notice,
            part,
        });
        id
    }

    /// Goes through what was handed over of an agent's inbox: what is not known to have arrived, and the latest of what was read.
    pub(super) fn handed_before(&self, agent: &AgentName) -> impl Iterator<Item = &Delivery> {
        let inbox = &self.inboxes[agent];
        let standing = inbox.standing.iter();
        let standing = standing.flat_map(|id| self.handovers[id].deliveries.iter());
        standing.chain(inbox.whole_in_parts()).chain(inbox.recent())
    }

    /// Returns the numbers of what an agent does not want yet, and so is shown by nothing.
    pub(super) fn deferred(&self, agent: &AgentName) -> BTreeSet<Seq> {
        let standing = self.inboxes[agent].standing.iter().map(|id| &self.handovers[id]);
        let deferred = standing.filter(|handover| handover.passage.held_back_until().is_some());
        let deliveries = deferred.flat_map(|handover| handover.deliveries.iter());
        deliveries.map(|delivery| delivery.seq).collect()
    }

    /// Takes a sign of what became of a hand-over; nothing if it does not stand any more.
    pub(super) fn sign(&mut self, id: HandoverId, sign: Sign, step: &mut Step<'_>) {
        let Some(handover) = self.handovers.get(&id) else {
            return;
        };
        match judge(handover.carrier, handover.passage, sign) {
            Verdict::Stands => {}
            Verdict::DoubtBegins => self.doubt(id, step),
            Verdict::KeptAlive => {
                if let Passage::Passed { kept_alive, .. } = &mut self.handover_mut(id).passage {
                    *kept_alive = true;
                }
                step.note(Event::KeptAlive { handover: id });
            }
            Verdict::Overdue => {
                self.set_passage(id, Passage::Overdue { since: step.now });
                step.note(Event::Overdue { handover: id });
            }
            Verdict::Read => self.settles_soon(id, sign, step),
            Verdict::Awaited => {
                self.set_passage(id, Passage::Awaited);
                step.note(Event::Awaited { handover: id });
            }
            Verdict::HeldBack(until) => {
                self.set_passage(id, Passage::HeldBack { until });
                step.note(Event::HeldBack { handover: id, until });
            }
            Verdict::GivenUp => self.set_passage(id, Passage::GivenUp),
            Verdict::Confirmed => self.confirm(id, sign, &[], step),
            Verdict::Undone => self.undo(id, sign, step),
        }
    }

    /// Takes note that a keep-alive was passed to a session's stream, behind all of its replies.
    pub(super) fn keep_alive(&mut self, session: SessionId, step: &mut Step<'_>) {
        let mut last = None;
        while let Some(id) = self.handover_behind(session, last) {
            last = Some(id);
            match self.handovers[&id].passage {
                Passage::Overdue { since } if since.plus_millis(OVERDUE_MS_MAX) < step.now => {
                    self.doubt(id, step);
                }
                Passage::Written
                | Passage::Passed { .. }
                | Passage::Overdue { .. }
                | Passage::Read { .. }
                | Passage::Awaited
                | Passage::HeldBack { .. }
                | Passage::GivenUp => self.sign(id, Sign::KeptAlive, step),
            }
        }
    }

    /// Takes a sign that is about all hand-overs to a session.
    pub(super) fn sign_all(&mut self, session: SessionId, sign: Sign, step: &mut Step<'_>) {
        let mut last = None;
        while let Some(id) = self.handover_behind(session, last) {
            last = Some(id);
            self.sign(id, sign, step);
        }
    }

    /// Returns the next of a session's hand-overs behind one, or the first. Each may end while they are gone through.
    fn handover_behind(&self, session: SessionId, last: Option<HandoverId>) -> Option<HandoverId> {
        let handovers = &self.sessions.get(&session)?.handovers;
        let place = last.map_or(0, |last| handovers.partition_point(|id| *id <= last));
        handovers.get(place).copied()
    }

    /// Ends a doubt whose time has come, or begins it anew if it was slept through.
    pub(super) fn end_doubt(&mut self, id: HandoverId, step: &mut Step<'_>) {
        match self.handovers[&id].passage.doubt_ends() {
            Some(doubt_ends) if doubt_ends.plus_millis(DOUBT_LATE_MS_MAX) < step.now => self.doubt(id, step),
            Some(_) | None => self.sign(id, Sign::DoubtOver, step),
        }
    }

    /// Begins the doubt in a reply that was passed, or begins it anew.
    fn doubt(&mut self, id: HandoverId, step: &mut Step<'_>) {
        let lasts = doubt_ms(self.handovers[&id].carrier);
        let passed = Passage::Passed {
            doubt_ends: step.now.plus_millis(lasts),
            kept_alive: false,
        };
        self.set_passage(id, passed);
        step.note(Event::Passed { handover: id });
    }

    /// Nothing that its session does says any more about a reply that was read.
    fn settles_soon(&mut self, id: HandoverId, by: Sign, step: &mut Step<'_>) {
        let settles_at = step.now.plus_millis(CANCEL_GRACE_MS);
        self.set_passage(id, Passage::Read { by, settles_at });
        step.note(Event::Read { handover: id, by });
        let Handover { agent, carrier, .. } = &self.handovers[&id];
        let read_max = match carrier {
            Carrier::Stream | Carrier::Exchange | Carrier::Hook | Carrier::Wake => self.bounds.read_max,
            Carrier::Node => self.bounds.awaited_max,
        };
        let read = &self.inboxes[agent].read;
        let beyond = read.len().saturating_sub(read_max);
        for (_, oldest) in read.iter().take(beyond).copied().collect::<Vec<_>>() {
            self.sign(oldest, Sign::Settled, step);
        }
    }

    /// It has arrived; some of it is asked for again by the same sign, and is not kept in mind.
    pub(super) fn confirm(&mut self, id: HandoverId, by: Sign, again: &[Delivery], step: &mut Step<'_>) {
        let Handover {
            agent,
            deliveries,
            passage,
            part,
            session,
            carrier,
            in_stead,
            ..
        } = self.end_handover(id);
        let by = match passage {
            Passage::Read { by: read_by, .. } if by == Sign::Settled => read_by,
            Passage::Written
            | Passage::Passed { .. }
            | Passage::Overdue { .. }
            | Passage::Read { .. }
            | Passage::Awaited
            | Passage::HeldBack { .. }
            | Passage::GivenUp => by,
        };
        let became = if by == Sign::Failed {
            Became::Failed
        } else {
            Became::Read
        };
        // What the person took in its stead, its agent was not handed.
        let handed = (!in_stead).then_some(id);
        let inbox = self.inbox_mut(&agent);
        if again.is_empty() {
            inbox.release(&deliveries, became, handed);
        } else {
            let again: BTreeSet<Seq> = again.iter().map(|delivery| delivery.seq).collect();
            let read = deliveries
                .iter()
                .filter(|delivery| !again.contains(&delivery.seq));
            inbox.give_up(&deliveries);
            inbox.keep_in_mind(&read.cloned().collect::<Vec<_>>(), became, handed);
        }
        step.note(Event::Confirmed {
            handover: id,
            by,
            agent: agent.clone(),
            deliveries,
        });
        if let Some(whole) = part.and_then(|of| self.inbox_mut(&agent).part_arrived(of.seq, id)) {
            self.arrive_in_parts(whole, agent, (session, carrier, by), step);
        }
    }

    /// A message has arrived of which every part has: only now it is told of as handed over, and read.
    fn arrive_in_parts(
        &mut self,
        (whole, latest): (Delivery, HandoverId),
        agent: AgentName,
        (session, carrier, by): (SessionId, Carrier, Sign),
        step: &mut Step<'_>,
    ) {
        let handover = HandoverId(self.handovers_made);
        self.handovers_made += 1;
        let deliveries = Arc::new(vec![whole]);
        self.inbox_mut(&agent)
            .release(&deliveries, Became::Read, Some(latest));
        step.note(Event::HandedOver {
            handover,
            session,
            carrier,
            agent: agent.clone(),
            person: self.sessions.get(&session).is_some_and(|session| session.person),
            deliveries: Arc::clone(&deliveries),
            notice: false,
            part: None,
        });
        step.note(Event::Confirmed {
            handover,
            by,
            agent,
            deliveries,
        });
    }

    /// Puts everything back to its old place; whoever waits for it is woken at the end of the step.
    fn undo(&mut self, id: HandoverId, by: Sign, step: &mut Step<'_>) {
        let Handover {
            agent,
            deliveries,
            notice,
            part,
            carrier,
            session,
            ..
        } = self.end_handover(id);
        match carrier {
            Carrier::Node => self.frame_undone(&agent, id),
            Carrier::Wake if by == Sign::DoubtOver => {
                let program = self.program_mut(session);
                program.wakes_in_vain = program.wakes_in_vain.saturating_add(1);
            }
            Carrier::Stream | Carrier::Exchange | Carrier::Hook | Carrier::Wake => {}
        }
        let inbox = self.inbox_mut(&agent);
        inbox.notice_due |= notice;
        let in_parts = part.and_then(|of| inbox.part_returned(of.seq, id, of.part));
        let returned: Vec<Delivery> = deliveries.iter().cloned().chain(in_parts).collect();
        if !returned.is_empty() {
            self.inbox_changes(&agent, step);
        }
        for delivery in &returned {
            self.mind_deadline(&agent, delivery.seq, &delivery.message);
        }
        self.tells_again(&agent, returned.first().map_or(Seq(0), |first| first.seq));
        self.inbox_mut(&agent).put_back(returned);
        step.wakes(agent.clone());
        step.note(Event::Undone {
            handover: id,
            by,
            agent: agent.clone(),
            deliveries,
        });
        self.set_aside(&agent, step);
        self.expire(step);
    }

    fn end_handover(&mut self, id: HandoverId) -> Handover {
        let handover = self.handovers.remove(&id).expect("the hand-over stands");
        take_out(&mut self.inbox_mut(&handover.agent).standing, id);
        self.leave_row(id, handover.session, &handover.agent, handover.passage);
        self.stop_timer(id, handover.passage);
        handover
    }

    /// Sets how far a reply has come: with its timer, and with the row in which it stands by that.
    fn set_passage(&mut self, id: HandoverId, passage: Passage) {
        let handover = self.handover_mut(id);
        let before = std::mem::replace(&mut handover.passage, passage);
        self.stop_timer(id, before);
        if !(before.is_on_its_way() && passage.is_on_its_way()) {
            let Handover { session, agent, .. } = self.handover_mut(id);
            let (session, agent) = (*session, agent.clone());
            self.leave_row(id, session, &agent, before);
            match passage {
                Passage::Written | Passage::Passed { .. } | Passage::Overdue { .. } => {
                    unreachable!("what was read is on its way no more")
                }
                Passage::Read { settles_at, .. } => {
                    put_in(&mut self.inbox_mut(&agent).read, (settles_at, id));
                }
                Passage::Awaited => drop(self.inbox_mut(&agent).awaited.insert(id)),
                Passage::HeldBack { .. } | Passage::GivenUp => {}
            }
        }
        if let Some(at) = passage.doubt_ends() {
            self.timers.arm(at, Timer::DoubtEnds(id));
        }
        if let Some(at) = passage.settles_at() {
            self.timers.settle(at, id);
        }
        if let Some(at) = passage.held_back_until() {
            self.timers.arm(at, Timer::DeferralEnds(id));
        }
    }

    /// Takes a hand-over out of the row in which it stands by how far it has come.
    fn leave_row(&mut self, id: HandoverId, session: SessionId, agent: &AgentName, passage: Passage) {
        match passage {
            Passage::Written | Passage::Passed { .. } | Passage::Overdue { .. } => {
                take_out(&mut self.session_mut(session).handovers, id);
            }
            Passage::Read { settles_at, .. } => take_out(&mut self.inbox_mut(agent).read, (settles_at, id)),
            Passage::Awaited => drop(self.inbox_mut(agent).awaited.remove(&id)),
            Passage::HeldBack { .. } => {}
            Passage::GivenUp => drop(self.inbox_mut(agent).dead.remove(&id)),
        }
    }

    fn stop_timer(&mut self, id: HandoverId, passage: Passage) {
        if let Some(at) = passage.doubt_ends() {
            self.timers.disarm(at, Timer::DoubtEnds(id));
        }
        if let Some(at) = passage.settles_at() {
            self.timers.unsettle(at, id);
        }
        if let Some(at) = passage.held_back_until() {
            self.timers.disarm(at, Timer::DeferralEnds(id));
        }
    }

    /// Confirms what was read and cannot be cancelled any more.
    pub(super) fn settle(&mut self, step: &mut Step<'_>) {
        while let Some(id) = self.timers.settled(step.now) {
            self.sign(id, Sign::Settled, step);
        }
    }

    fn handover_mut(&mut self, id: HandoverId) -> &mut Handover {
        self.handovers.get_mut(&id).expect("the hand-over stands")
    }
}

/// Returns how long a reply that was passed stays in doubt, in milliseconds.
const fn doubt_ms(carrier: Carrier) -> i64 {
    match carrier {
        Carrier::Stream | Carrier::Exchange | Carrier::Node => DOUBT_MS,
        Carrier::Hook => SURFACED_MS,
        Carrier::Wake => WOKEN_MS,
    }
}

/// Puts something into a row in which it stands in order.
fn put_in<T: Ord>(row: &mut VecDeque<T>, what: T) {
    let place = row.partition_point(|other| *other < what);
    row.insert(place, what);
}

/// Takes something out of a row in which it stands, in order; mostly it is the first.
fn take_out<T: Ord>(row: &mut VecDeque<T>, what: T) {
    let place = row.binary_search(&what).expect("it stands there");
    row.remove(place);
}

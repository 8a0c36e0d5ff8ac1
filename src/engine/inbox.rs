//! One agent's queue. Knows order and bounds; knows nothing of sessions, hand-overs or time.

mod again;
mod aside;
mod parts;
mod recent;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::Engine;
use super::frames::Binding;
use super::handling::Mode;
use super::message::{Delivery, Message};
use super::names::{AgentName, CallId, ChannelName, HandoverId, Seq, SessionId};
use super::pushes::GivenUp;
use super::room::Room;
use super::time::Timestamp;
pub(super) use again::{Asked, Place};
use parts::InParts;
pub(super) use parts::{Fit, Reader};
pub(super) use recent::Became;
use recent::Recent;

/// Which of what waits is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Filter {
    /// What one agent sent; all if none is named.
    pub from: Option<AgentName>,
    /// What was sent to one channel; all if none is named.
    pub channel: Option<ChannelName>,
    /// The oldest of it, so many; all if no number is given.
    pub limit: Option<NonZeroUsize>,
    /// If that is less, the latest of what was handed over before is shown as well.
    pub earlier: bool,
    /// What answers a message; all if it is not about one.
    pub answers: Option<Answers>,
    /// The oldest of it that fit into the reply; all if it has room for whatever comes.
    pub room: Option<Room>,
    /// A wait for it goes on though the start is to be told of.
    pub waits_past_start: bool,
}

/// What counts as an answer to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Answers {
    /// What comes from one of these.
    from: Vec<AgentName>,
    /// Or belongs to this thread.
    thread: Option<String>,
    /// From this place on.
    since: Seq,
    /// The address that the message was sent to, as it was given.
    pub to: String,
}

impl Answers {
    /// What answers a message that is about to be put into the inboxes of some agents.
    pub fn to(message: &Message, given: &str, agents: &[AgentName], engine: &Engine) -> Self {
        let own = &engine.inboxes[&message.from];
        let its_own = usize::from(agents.contains(&message.from)) as u64;
        Self {
            from: agents.to_vec(),
            thread: message.thread().map(str::to_owned),
            since: Seq(own.next_seq.0 + its_own),
            to: given.to_owned(),
        }
    }

    fn has(&self, message: &Message) -> bool {
        let in_thread = self.thread.is_some() && message.thread() == self.thread.as_deref();
        in_thread || self.from.contains(&message.from)
    }
}

impl Filter {
    /// Tells whether a message is meant, apart from how many are.
    pub fn has(&self, message: &Message) -> bool {
        let Self {
            from,
            channel,
            answers,
            limit: _,
            earlier: _,
            room: _,
            waits_past_start: _,
        } = self;
        from.as_ref().is_none_or(|from| message.from == *from)
            && channel
                .as_ref()
                .is_none_or(|channel| message.to.is_channel(channel))
            && answers.as_ref().is_none_or(|answers| answers.has(message))
    }

    /// Tells what it may take, where reads with tools take that: an answer that is waited for goes to nobody else.
    pub fn readable(&self, with_tools: Readable) -> Readable {
        match self.answers {
            Some(_) => Readable::All,
            None => with_tools,
        }
    }

    fn is_all(&self) -> bool {
        matches!(
            self,
            Self {
                from: None,
                channel: None,
                limit: None,
                answers: None,
                earlier: _,
                room: _,
                waits_past_start: _,
            }
        )
    }

    fn since(&self) -> Seq {
        self.answers.as_ref().map_or(Seq(0), |answers| answers.since)
    }
}

/// What of an inbox a read may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readable {
    /// Whatever waits.
    All,
    /// What is held: the agent's node has the rest.
    Held,
}

/// What waits for one agent, and what was handed over and may come back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Inbox {
    /// Not handed over, by their places: oldest first.
    waiting: BTreeMap<Seq, Delivery>,
    /// Body bytes in `waiting`.
    waiting_bytes: usize,
    /// What stands aside, by its place: nobody is handed it.
    aside: BTreeMap<Seq, Delivery>,
    /// Body bytes in `aside`.
    aside_bytes: usize,
    /// The places of what is not to stand aside any more.
    allowed: BTreeSet<Seq>,
    /// What is shown in parts, by its place.
    parts: BTreeMap<Seq, InParts>,
    /// How many deliveries hand-overs hold.
    handed_messages: usize,
    /// Body bytes that hand-overs hold.
    handed_bytes: usize,
    /// What was read, or has expired, the latest last: so many, and so many bytes, as are kept in mind.
    recent: VecDeque<Recent>,
    /// Body bytes in `recent`.
    recent_bytes: usize,
    /// What the agent has asked for again the latest, by naming the last message that it had seen.
    asked: Option<Asked>,
    /// The place of the next message.
    next_seq: Seq,
    /// What has a place before this one is not held, whatever its mode.
    flushed: Seq,
    /// The places of what waits and is held.
    held: BTreeSet<Seq>,
    /// What waits before this place is held, so that nobody looks through it again for what is not.
    open_from: Seq,
    /// Hand-overs of what was in it, and of its news, that stand: in the order in which they were made.
    pub standing: VecDeque<HandoverId>,
    /// Those of them that were read and can only be cancelled, with until when: their room is given up when it is
    /// needed, of what was read first at first.
    pub read: VecDeque<(Timestamp, HandoverId)>,
    /// Those of them for which the agent is to give a receipt.
    pub awaited: BTreeSet<HandoverId>,
    /// What was pushed in vain and is not pushed any more.
    pub dead: BTreeMap<HandoverId, GivenUp>,
    /// The places of what the agent was shown among its deliveries, and has given no receipt for.
    pub listed: BTreeSet<Seq>,
    /// Parked reads, longest waiting first. None for which there are news.
    pub waits: VecDeque<CallId>,
    /// The sessions of the agent's programs that can be woken.
    pub waiters: BTreeSet<SessionId>,
    /// How what comes is brought to the agent, unless its sender says so.
    pub mode: Mode,
    /// The agent has not been told yet that the relay started.
    pub notice_due: bool,
    /// The node that takes the agent's deliveries, if one does.
    pub binding: Option<Binding>,
    /// The last number that a frame of the agent's has had; 0 before the first.
    pub frames_made: u64,
}

impl Inbox {
    /// Makes the empty inbox of an agent that was told nothing yet.
    pub fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            aside: BTreeMap::new(),
            aside_bytes: 0,
            allowed: BTreeSet::new(),
            parts: BTreeMap::new(),
            handed_messages: 0,
            handed_bytes: 0,
            recent: VecDeque::new(),
            recent_bytes: 0,
            asked: None,
            next_seq: Seq(0),
            flushed: Seq(0),
            held: BTreeSet::new(),
            open_from: Seq(0),
            standing: VecDeque::new(),
            read: VecDeque::new(),
            awaited: BTreeSet::new(),
            dead: BTreeMap::new(),
            listed: BTreeSet::new(),
            waits: VecDeque::new(),
            waiters: BTreeSet::new(),
            mode: Mode::default(),
            notice_due: true,
            binding: None,
            frames_made: 0,
        }
    }

    /// Returns what waits, oldest first.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        self.waiting.values()
    }

    /// Returns what waits at a place.
    pub fn at(&self, seq: Seq) -> &Delivery {
        self.waiting.get(&seq).expect("it waits there")
    }

    /// Returns the body bytes of what waits.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Returns how many messages were handed over and may come back, and their body bytes.
    pub fn handed_over(&self) -> (usize, usize) {
        (self.handed_messages, self.handed_bytes)
    }

    /// Returns the place that the next message gets.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// Counts what the bounds count: hand-overs may come back, so they keep their room, as what stands aside does.
    pub fn messages(&self) -> usize {
        self.waiting.len() + self.aside.len() + self.handed_messages
    }

    /// Counts the body bytes that the bounds count.
    pub fn bytes(&self) -> usize {
        self.waiting_bytes + self.aside_bytes + self.handed_bytes
    }

    /// Puts a message behind all others, and returns its place.
    pub fn push(&mut self, message: Arc<Message>) -> Seq {
        self.waiting_bytes += message.bytes();
        let seq = self.next_seq;
        let delivery = Delivery {
            seq,
            mode: message.handling().mode.unwrap_or(self.mode),
            message,
            redelivered: false,
        };
        if self.holds(&delivery) {
            self.held.insert(seq);
        }
        self.waiting.insert(seq, delivery);
        self.next_seq = Seq(seq.0 + 1);
        seq
    }

    /// Goes through what a filter means of what waits and may be read, oldest first.
    pub fn matching(&self, filter: &Filter, readable: Readable) -> impl Iterator<Item = &Delivery> {
        let limit = filter.limit.map_or(usize::MAX, NonZeroUsize::get);
        self.readable_from(filter.since(), readable)
            .filter(move |delivery| filter.has(&delivery.message) && !self.has_number(delivery.seq))
            .take(limit)
    }

    /// Goes through what waits and may be read, oldest first.
    pub fn readable(&self, readable: Readable) -> impl Iterator<Item = &Delivery> {
        self.readable_from(Seq(0), readable)
    }

    /// The same from a place on.
    fn readable_from(&self, since: Seq, readable: Readable) -> impl Iterator<Item = &Delivery> {
        let (all, held) = match readable {
            Readable::All => (Some(self.waiting.range(since..)), None),
            Readable::Held => (None, Some(self.held.range(since..))),
        };
        let all = all.into_iter().flatten().map(|(_, delivery)| delivery);
        let held = held.into_iter().flatten().map(move |seq| self.at(*seq));
        all.chain(held)
    }

    /// Finds the place of the first that waits and is not held.
    pub fn first_open(&mut self) -> Option<Seq> {
        let mut places = self.waiting.range(self.open_from..).map(|(seq, _)| *seq);
        let found = places.find(|seq| !self.held.contains(seq));
        self.open_from = found.unwrap_or(self.next_seq);
        found
    }

    /// Tells whether what is kept of what is held is so, for the invariants.
    pub fn knows_what_is_held(&self) -> bool {
        let held = self.waiting().filter(|delivery| self.holds(delivery));
        let mut before = self.waiting.range(..self.open_from);
        held.map(|delivery| &delivery.seq).eq(&self.held) && before.all(|(_, delivery)| self.holds(delivery))
    }

    /// Counts what waits and may be read.
    pub fn unread(&self, readable: Readable) -> usize {
        match readable {
            Readable::All => self.waiting.len(),
            Readable::Held => self.held.len(),
        }
    }

    /// Tells whether a delivery is held until its agent asks for it.
    pub fn holds(&self, delivery: &Delivery) -> bool {
        delivery.seq >= self.flushed && delivery.mode == Mode::Manual
    }

    /// Holds nothing any more of what is there. Returns how much it was.
    pub fn flush(&mut self) -> usize {
        let held = std::mem::take(&mut self.held);
        self.flushed = self.next_seq;
        self.open_from = Seq(0);
        held.len()
    }

    /// Takes out the delivery of one place, which nobody is to be handed any more.
    pub fn expire(&mut self, seq: Seq) -> Delivery {
        if self.aside.contains_key(&seq) {
            return self.drop_aside(seq);
        }
        let delivery = self.remove(seq);
        self.waiting_bytes -= delivery.message.bytes();
        self.listed.remove(&seq);
        self.forget_allowed(std::slice::from_ref(&delivery));
        self.keep_in_mind(std::slice::from_ref(&delivery), Became::Expired, None);
        delivery
    }

    /// Takes out the delivery of one place, which is put into another inbox.
    pub fn give(&mut self, seq: Seq) -> Delivery {
        let delivery = self.remove(seq);
        self.waiting_bytes -= delivery.message.bytes();
        self.listed.remove(&seq);
        self.forget_allowed(std::slice::from_ref(&delivery));
        delivery
    }

    /// Marks what is at a place as handed over before: it was, out of another inbox.
    pub fn mark_redelivered(&mut self, seq: Seq) {
        let here = self.waiting.get_mut(&seq).or(self.aside.get_mut(&seq));
        here.expect("it is there").redelivered = true;
    }

    /// Tells whether a delivery is on its way to a node, or to be sent to it again.
    pub fn has_number(&self, seq: Seq) -> bool {
        let binding = self.binding.as_ref();
        binding.is_some_and(|binding| binding.frames.values().any(|sent| sent.seq == seq))
    }

    /// Takes out what a filter means, oldest first, and keeps its room until [`Self::release`] or [`Self::put_back`].
    pub fn take(&mut self, filter: &Filter, readable: Readable) -> Vec<Delivery> {
        if !(filter.is_all() && readable == Readable::All && self.parts.is_empty()) {
            return self.take_oldest(usize::MAX, filter, readable);
        }
        self.held.clear();
        let taken: Vec<Delivery> = std::mem::take(&mut self.waiting).into_values().collect();
        self.hand(&taken);
        taken
    }

    /// The same of no more than so many of the oldest.
    pub fn take_oldest(&mut self, count: usize, filter: &Filter, readable: Readable) -> Vec<Delivery> {
        let matching = self.matching(filter, readable).take(count);
        let places: Vec<Seq> = matching.map(|delivery| delivery.seq).collect();
        let taken: Vec<Delivery> = places.into_iter().map(|seq| self.remove(seq)).collect();
        self.hand(&taken);
        taken
    }

    /// Counts what was taken out as handed over.
    fn hand(&mut self, taken: &[Delivery]) {
        let bytes = body_bytes(taken);
        self.handed_messages += taken.len();
        self.handed_bytes += bytes;
        self.waiting_bytes -= bytes;
    }

    /// Takes out the delivery of one place, and keeps its room as [`Self::take`] does.
    pub fn take_one(&mut self, seq: Seq) -> Delivery {
        let taken = self.remove(seq);
        self.hand(std::slice::from_ref(&taken));
        taken
    }

    fn remove(&mut self, seq: Seq) -> Delivery {
        let mut delivery = self.remove_here(seq);
        delivery.redelivered |= self.forget_parts(seq);
        delivery
    }

    /// The same of what may be shown in parts still.
    fn remove_here(&mut self, seq: Seq) -> Delivery {
        self.held.remove(&seq);
        self.waiting.remove(&seq).expect("it waits there")
    }

    fn free(&mut self, handed: &[Delivery]) {
        self.handed_messages -= handed.len();
        self.handed_bytes -= body_bytes(handed);
    }

    /// Puts deliveries back into their old places, marked as redelivered. Hand-overs may be undone in any order.
    pub fn put_back(&mut self, undone: Vec<Delivery>) {
        self.free(&undone);
        self.wait_again(undone);
    }

    /// Has deliveries wait in their old places, marked as redelivered.
    fn wait_again(&mut self, back: Vec<Delivery>) {
        self.waiting_bytes += body_bytes(&back);
        for delivery in &back {
            if self.holds(delivery) {
                self.held.insert(delivery.seq);
            } else {
                self.open_from = self.open_from.min(delivery.seq);
            }
        }
        let redelivered = back.into_iter().map(|delivery| {
            let redelivered = Delivery {
                redelivered: true,
                ..delivery
            };
            (redelivered.seq, redelivered)
        });
        self.waiting.extend(redelivered);
    }
}

/// Adds up the bodies of some deliveries, in bytes.
pub(super) fn body_bytes<'a>(deliveries: impl IntoIterator<Item = &'a Delivery>) -> usize {
    deliveries.into_iter().map(|d| d.message.bytes()).sum()
}

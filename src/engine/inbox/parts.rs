//! What of an inbox a reply has room for, and messages that are shown in parts, since no reply has room for one of them: such a message
//! waits in its place until its last part is in a reply, and has arrived once all of its parts have.

use std::collections::BTreeSet;

use super::super::limits::{GONE_MIN, IDLE_PARTS, NEVER_FEWER, READERS_MAX};
use super::super::message::Delivery;
use super::super::names::{ClientId, HandoverId, Seq, SessionId};
use super::super::room::{Part, Room};
use super::{Engine, Filter, Inbox, Place, Readable};

/// Whoever is shown parts of messages: it goes on with the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) enum Reader {
    /// A client that gives this name in all of its sessions.
    Client(ClientId),
    /// The client of a stream, as long as that is open.
    Stream(SessionId),
    /// A client that gives no name, by its connection, of which it may have several, one after the other.
    Connection(SessionId),
}

/// A message that is shown in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct InParts {
    /// To whom, each from its first part on: who has read last comes last.
    shown: Vec<Shown>,
    /// The latest of all hand-overs of its parts.
    latest: Option<HandoverId>,
    /// The message, once its last part is in a reply to the only reader that is left: it waits no more.
    whole: Option<Delivery>,
    /// How many parts of it were shown, to whomever.
    count: u64,
}

/// How far a message has been shown to one reader.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Shown {
    to: Reader,
    /// How many parts this one was shown; what went on where another had stopped counts from there.
    parts: u32,
    /// The first byte that is to be shown next.
    next: usize,
    /// The number of the part that begins there.
    number: u32,
    /// How many there are if the next ones have so much room, too: they are counted once.
    of: Option<(Room, u32)>,
    /// The first part that it was shown.
    begun: u32,
    /// How many parts of the message had been shown when it was shown the last of its own.
    at: u64,
    /// The hand-overs of its parts that stand.
    standing: BTreeSet<HandoverId>,
}

impl Shown {
    fn is_nothing(&self) -> bool {
        self.next == 0 && self.standing.is_empty()
    }

    /// From here on the message is to be shown again.
    fn goes_back(&mut self, next: usize, number: u32) {
        (self.next, self.number, self.of) = (next, number, None);
        self.begun = self.begun.min(number);
    }
}

impl InParts {
    /// Returns how far it was shown to a reader, which is nothing for a new one. One that comes where [`GONE_MIN`] clients are gone that
    /// were shown one part each is the same client, which has a name for each call; and so is one without a name where so many connections
    /// are gone: it goes on. Of more than [`READERS_MAX`] one is shown it from the beginning, too, so that the others come to its end: one that
    /// reads no more, or else the one that has come least far.
    fn shown_to(&mut self, reader: &Reader, is_gone: impl Fn(&Reader) -> bool) -> &mut Shown {
        let known = self.shown.iter().position(|shown| shown.to == *reader);
        let shown = match known.or_else(|| self.left_to(reader, is_gone)) {
            Some(place) => self.shown.remove(place),
            None => Shown {
                to: reader.clone(),
                parts: 0,
                next: 0,
                number: 1,
                of: None,
                begun: 1,
                at: 0,
                standing: BTreeSet::new(),
            },
        };
        if self.shown.len() == READERS_MAX {
            // Who has read last comes last.
            let is_idle = self.shown[0].at + IDLE_PARTS <= self.count;
            let places = (0..READERS_MAX).rev();
            let least = places.min_by_key(|place| self.shown[*place].next);
            let begins_again = if is_idle { Some(0) } else { least };
            self.shown.remove(begins_again.expect("they are many"));
        }
        let goes_on = shown.to == *reader;
        self.count += 1;
        self.shown.push(Shown {
            to: reader.clone(),
            parts: if goes_on { shown.parts } else { 0 },
            begun: if goes_on { shown.begun } else { shown.number },
            at: self.count,
            ..shown
        });
        self.shown.last_mut().expect("it was put there")
    }

    /// Finds the one of those that are gone which came furthest, if a reader that was shown nothing is likely to be it.
    fn left_to(&self, reader: &Reader, is_gone: impl Fn(&Reader) -> bool) -> Option<usize> {
        let is_left = |shown: &Shown| match (reader, &shown.to) {
            (Reader::Client(_), Reader::Client(_)) => shown.parts == 1 && is_gone(&shown.to),
            (Reader::Connection(_), Reader::Connection(_)) => is_gone(&shown.to),
            _ => false,
        };
        let left = self.shown.iter().enumerate();
        let left: Vec<(usize, &Shown)> = left.filter(|(_, shown)| is_left(shown)).collect();
        let furthest = left.iter().max_by_key(|(_, shown)| shown.next);
        furthest
            .filter(|_| left.len() >= GONE_MIN)
            .map(|(place, _)| *place)
    }

    fn shown_by(&mut self, handover: HandoverId) -> Option<&mut Shown> {
        self.shown
            .iter_mut()
            .find(|shown| shown.standing.contains(&handover))
    }

    fn standing(&self) -> impl Iterator<Item = &HandoverId> {
        self.shown.iter().flat_map(|shown| &shown.standing)
    }
}

/// What of what is asked for a reply has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Fit {
    /// All of it.
    All,
    /// So many of the oldest.
    Oldest(usize),
    /// A part of the oldest, which waits at that place.
    Part(Seq),
}

/// A message that is shown in parts.
pub(in super::super) struct ShownInParts<'a> {
    /// Its place in the inbox.
    pub seq: Seq,
    /// The latest hand-over of a part.
    pub latest: HandoverId,
    /// The message, if all of its parts are in replies.
    pub whole: Option<&'a Delivery>,
}

impl Inbox {
    /// Finds what a reply has room for of what a filter means. Whoever has been shown some parts of what it has room for now is shown all of
    /// it again.
    pub fn fit(&self, filter: &Filter, readable: Readable, room: &Room) -> Fit {
        let messages = self.matching(filter, readable).map(|delivery| &*delivery.message);
        if room.takes_any(messages) {
            return Fit::All;
        }
        let mut left = room.for_messages();
        for (count, delivery) in self.matching(filter, readable).enumerate() {
            match room.taken_by(&delivery.message, left) {
                Some(taken) => left -= taken,
                None if count < NEVER_FEWER => return Fit::Part(delivery.seq),
                None => return Fit::Oldest(count),
            }
        }
        Fit::All
    }

    /// Takes the next part of what waits at a place for a reply with so much room to a reader. With its last part the message waits no
    /// more, and keeps its room: whoever else has seen a part of it is not shown the others.
    pub fn take_part(
        &mut self,
        seq: Seq,
        room: &Room,
        reader: &Reader,
        is_gone: impl Fn(&Reader) -> bool,
    ) -> (Delivery, Part) {
        let in_parts = self.parts.entry(seq).or_default();
        if in_parts.shown.iter().any(|shown| shown.to != *reader) {
            self.mark_redelivered(seq);
        }
        let delivery = self.at(seq).clone();
        let in_parts = self.parts.get_mut(&seq).expect("it is shown in parts");
        let shown = in_parts.shown_to(reader, is_gone);
        let of = shown.of.filter(|(counted, _)| counted == room);
        let number = (shown.number, of.map(|(_, of)| of));
        let part = Part {
            begun: shown.begun,
            ..room.part(&delivery.message, shown.next, number)
        };
        shown.of = Some((*room, part.of));
        shown.next = part.to;
        shown.number = part.number + 1;
        shown.parts += 1;
        if part.is_last() {
            in_parts.shown.retain(|shown| shown.to == *reader);
            in_parts.whole = Some(delivery.clone());
            let taken = self.remove_here(seq);
            self.hand(std::slice::from_ref(&taken));
        }
        (delivery, part)
    }

    /// Takes note of the hand-over of the part that was taken last.
    pub fn part_stands(&mut self, seq: Seq, handover: HandoverId) {
        let in_parts = self.parts.get_mut(&seq).expect("a part of it was taken");
        in_parts.latest = Some(handover);
        let shown = in_parts.shown.last_mut().expect("somebody was shown it");
        shown.standing.insert(handover);
    }

    /// Tells whether a hand-over has a part that counts of what has that place.
    pub fn has_part(&self, seq: Seq, handover: HandoverId) -> bool {
        let in_parts = self.parts.get(&seq);
        in_parts.is_some_and(|in_parts| in_parts.standing().any(|standing| *standing == handover))
    }

    /// A part has arrived. Returns the message if all of it has, which is to be released, and with which hand-over the latest part
    /// was handed over; nothing if it is not shown in parts any more.
    pub fn part_arrived(&mut self, seq: Seq, handover: HandoverId) -> Option<(Delivery, HandoverId)> {
        let in_parts = self.parts.get_mut(&seq)?;
        let shown = in_parts.shown_by(handover)?;
        shown.standing.remove(&handover);
        if !shown.standing.is_empty() {
            return None;
        }
        let whole = in_parts.whole.take();
        let latest = in_parts.latest.expect("a part of it was handed over");
        match whole {
            Some(_) => drop(self.parts.remove(&seq)),
            None => self.forget_who_was_shown_nothing(seq),
        }
        whole.map(|whole| (whole, latest))
    }

    /// A part has not arrived: from it on the message is to be shown again, marked. Returns the message if it does not wait any more, which is to
    /// be put back; nothing if it is not shown in parts any more.
    pub fn part_returned(&mut self, seq: Seq, handover: HandoverId, part: Part) -> Option<Delivery> {
        let in_parts = self.parts.get_mut(&seq)?;
        let shown = in_parts.shown_by(handover)?;
        shown.standing.remove(&handover);
        if part.from < shown.next {
            shown.goes_back(part.from, part.number);
        }
        let whole = in_parts.whole.take();
        self.forget_who_was_shown_nothing(seq);
        if whole.is_none() {
            self.mark_redelivered(seq);
        }
        whole
    }

    fn forget_who_was_shown_nothing(&mut self, seq: Seq) {
        let Some(in_parts) = self.parts.get_mut(&seq) else {
            return;
        };
        in_parts.shown.retain(|shown| !shown.is_nothing());
        if in_parts.shown.is_empty() {
            self.parts.remove(&seq);
        }
    }

    /// Shows nothing more to whoever had a stream that is gone: what waits is marked, since some of it has been shown.
    pub fn forget_streams(&mut self, is_open: impl Fn(SessionId) -> bool) {
        if self.parts.is_empty() {
            return;
        }
        let is_gone = |shown: &Shown| matches!(shown.to, Reader::Stream(stream) if !is_open(stream));
        let mut left = Vec::new();
        for (seq, in_parts) in self.parts.iter_mut().filter(|(_, shown)| shown.whole.is_none()) {
            if in_parts.shown.iter().any(is_gone) {
                in_parts.shown.retain(|shown| !is_gone(shown));
                left.push(*seq);
            }
        }
        for seq in left {
            self.forget_who_was_shown_nothing(seq);
            self.mark_redelivered(seq);
        }
    }

    /// Shows what is shown in parts from its beginning, marked, whoever reads: what waits, and what does not wait any more if it comes back.
    pub fn begin_parts_anew(&mut self) {
        let wholes = self.parts.values_mut().filter(|shown| shown.whole.is_some());
        for shown in wholes.flat_map(|in_parts| &mut in_parts.shown) {
            shown.goes_back(0, 1);
        }
        let begun = self.parts.iter().filter(|(_, shown)| shown.whole.is_none());
        let begun: Vec<Seq> = begun.map(|(seq, _)| *seq).collect();
        self.begin_again(&begun);
    }

    /// Shows what is at a place in parts no more. Returns whether some of it has been shown.
    pub(super) fn forget_parts(&mut self, seq: Seq) -> bool {
        !self.parts.is_empty() && self.parts.remove(&seq).is_some()
    }

    /// Goes through what is shown in parts.
    pub fn shown_in_parts(&self) -> impl Iterator<Item = ShownInParts<'_>> {
        self.parts.iter().filter_map(|(seq, shown)| {
            Some(ShownInParts {
                seq: *seq,
                latest: shown.latest?,
                whole: shown.whole.as_ref(),
            })
        })
    }

    /// Shows what is here and was shown in parts behind a hand-over from its beginning again, marked, but for what is at some places.
    /// Returns where it is.
    pub fn begin_parts_again(&mut self, behind: Place, not: &BTreeSet<Seq>) -> Vec<Seq> {
        let shown = self.shown_in_parts().filter(|shown| {
            let is_behind = shown.latest > behind.handover && shown.seq != behind.seq;
            is_behind && shown.whole.is_none() && !not.contains(&shown.seq)
        });
        let places: Vec<Seq> = shown.map(|shown| shown.seq).collect();
        self.begin_again(&places);
        places
    }

    fn begin_again(&mut self, places: &[Seq]) {
        for seq in places {
            self.forget_parts(*seq);
            self.mark_redelivered(*seq);
        }
    }

    /// Goes through what does not wait any more and has not arrived, all of it in parts.
    pub fn whole_in_parts(&self) -> impl Iterator<Item = &Delivery> {
        self.parts.values().filter_map(|shown| shown.whole.as_ref())
    }

    /// Tells whether what is shown in parts waits or stands aside, or is in hand-overs that stand.
    fn knows_what_is_in_parts(&self, is_of: impl Fn(Seq, HandoverId) -> bool) -> bool {
        self.parts.iter().all(|(seq, shown)| {
            let is_here = self.waiting.contains_key(seq) || self.aside.contains_key(seq);
            let have_begun = shown.shown.iter().all(|shown| !shown.is_nothing());
            let stands = shown.standing().all(|handover| is_of(*seq, *handover));
            let is_known = have_begun && stands && is_here == shown.whole.is_none();
            let is_whole = shown.shown.len() == 1 && shown.standing().next().is_some();
            is_known && (1..=READERS_MAX).contains(&shown.shown.len()) && (is_here || is_whole)
        })
    }
}

impl Engine {
    /// Panics if what is shown in parts is nowhere, for the invariants.
    pub(in super::super) fn check_parts(&self, inbox: &Inbox) {
        let is_part_of = |seq: Seq, handover: HandoverId| {
            let of = self.handovers.get(&handover).and_then(|h| h.part.as_ref());
            of.is_some_and(|of| of.seq == seq)
        };
        assert!(
            inbox.knows_what_is_in_parts(is_part_of),
            "what is shown in parts is there, or every part of it is in a reply"
        );
    }
}

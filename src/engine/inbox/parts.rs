//! What of an inbox a reply has room for, and messages that are shown in parts, since no reply has room for one of them: such a message
//! waits in its place until its last part is in a reply, and has arrived once all of its parts have.

use std::collections::BTreeSet;

use super::super::limits::NEVER_FEWER;
use super::super::message::Delivery;
use super::super::names::{HandoverId, Seq, SessionId};
use super::super::room::{Part, Room};
use super::{Engine, Filter, Inbox, Place, Readable};

/// How far a message has been shown in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct InParts {
    /// The first byte that is to be shown next.
    next: usize,
    /// The number of the part that begins there.
    number: u32,
    /// How many there are if the next ones have so much room, too: they are counted once.
    of: Option<(Room, u32)>,
    /// The stream whose client was shown the latest part; none if it was another client, which may have a session for each call.
    stream: Option<SessionId>,
    /// The hand-overs of its parts that stand.
    standing: BTreeSet<HandoverId>,
    /// The latest of all hand-overs of its parts.
    latest: Option<HandoverId>,
    /// The message, once its last part is in a reply: it waits no more.
    whole: Option<Delivery>,
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
    /// Finds what a reply has room for of what a filter means.
    pub fn fit(&self, filter: &Filter, readable: Readable, room: &Room) -> Fit {
        let messages = self.matching(filter, readable).map(|delivery| &*delivery.message);
        if self.parts.is_empty() && room.takes_any(messages) {
            return Fit::All;
        }
        let mut left = room.for_messages();
        for (count, delivery) in self.matching(filter, readable).enumerate() {
            let has_begun = self.parts.get(&delivery.seq).is_some_and(|shown| shown.next > 0);
            let taken = match has_begun {
                true => None,
                false => room.taken_by(&delivery.message, left),
            };
            match taken {
                Some(taken) => left -= taken,
                None if count < NEVER_FEWER => return Fit::Part(delivery.seq),
                None => return Fit::Oldest(count),
            }
        }
        Fit::All
    }

    /// Takes the next part of what waits at a place for a reply with so much room, to a stream or to another client. With its last part the
    /// message waits no more, and keeps its room.
    pub fn take_part(&mut self, seq: Seq, room: &Room, stream: Option<SessionId>) -> (Delivery, Part) {
        let delivery = self.at(seq).clone();
        let shown = self.parts.entry(seq).or_insert(InParts {
            next: 0,
            number: 1,
            of: None,
            stream,
            standing: BTreeSet::new(),
            latest: None,
            whole: None,
        });
        let of = shown.of.filter(|(counted, _)| counted == room);
        let part = room.part(
            &delivery.message,
            shown.next,
            (shown.number, of.map(|(_, of)| of)),
        );
        shown.of = Some((*room, part.of));
        shown.stream = stream;
        shown.next = part.to;
        shown.number = part.number + 1;
        if part.is_last() {
            shown.whole = Some(delivery.clone());
            let taken = self.remove_here(seq);
            self.hand(std::slice::from_ref(&taken));
        }
        (delivery, part)
    }

    /// Takes note of the hand-over of a part that was taken.
    pub fn part_stands(&mut self, seq: Seq, handover: HandoverId) {
        let shown = self.parts.get_mut(&seq).expect("a part of it was taken");
        shown.standing.insert(handover);
        shown.latest = Some(handover);
    }

    /// Tells whether a hand-over has a part that counts of what has that place.
    pub fn has_part(&self, seq: Seq, handover: HandoverId) -> bool {
        let shown = self.parts.get(&seq);
        shown.is_some_and(|shown| shown.standing.contains(&handover))
    }

    /// A part has arrived. Returns the message if all of it has, which is to be released, and with which hand-over the latest part
    /// was handed over; nothing if it is not shown in parts any more.
    pub fn part_arrived(&mut self, seq: Seq, handover: HandoverId) -> Option<(Delivery, HandoverId)> {
        let shown = self.parts.get_mut(&seq)?;
        if !shown.standing.remove(&handover) || !shown.standing.is_empty() {
            return None;
        }
        let latest = shown.latest.expect("a part of it was handed over");
        let whole = shown.whole.take();
        if whole.is_some() || shown.next == 0 {
            self.parts.remove(&seq);
        }
        whole.map(|whole| (whole, latest))
    }

    /// A part has not arrived: from it on the message is to be shown again, marked. Returns the message if it does not wait any more, which is to
    /// be put back; nothing if it is not shown in parts any more.
    pub fn part_returned(&mut self, seq: Seq, handover: HandoverId, part: Part) -> Option<Delivery> {
        let shown = self.parts.get_mut(&seq)?;
        if !shown.standing.remove(&handover) {
            return None;
        }
        if part.from < shown.next {
            (shown.next, shown.number) = (part.from, part.number);
            shown.of = None;
        }
        let whole = shown.whole.take();
        if shown.next == 0 && shown.standing.is_empty() {
            self.parts.remove(&seq);
        }
        if whole.is_none() {
            self.mark_redelivered(seq);
        }
        whole
    }

    /// Shows what waits in parts from its beginning, marked, where whoever was shown the latest part will not be shown the next: one of that
    /// stream, or whoever it was.
    pub fn begin_parts_anew(&mut self, reads_no_more: impl Fn(Option<SessionId>) -> bool) {
        let begun = self.parts.iter().filter(|(_, shown)| shown.whole.is_none());
        let begun = begun.filter(|(_, shown)| reads_no_more(shown.stream));
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
            let has_begun = shown.next > 0 || !shown.standing.is_empty();
            let stands = shown.standing.iter().all(|handover| is_of(*seq, *handover));
            has_begun && stands && is_here == shown.whole.is_none() && (is_here || !shown.standing.is_empty())
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

//! What of an inbox a reply has room for, and messages that are shown in parts, since no reply has room for one of them: such a message
//! waits in its place until its last part is in a reply, and has arrived once all of its parts have.

use std::collections::BTreeSet;

use super::super::io::Carrier;
use super::super::limits::NEVER_FEWER;
use super::super::message::Delivery;
use super::super::names::{HandoverId, Seq, SessionId};
use super::super::room::{Part, Room};
use super::{Engine, Filter, Inbox, Place, Readable};

/// A message that is shown in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct InParts {
    /// Whoever is shown it, each from its first part on.
    readers: Vec<Reader>,
    /// The latest of all hand-overs of its parts.
    latest: Option<HandoverId>,
    /// The message, once its last part is in a reply to the only reader that is left: it waits no more.
    whole: Option<Delivery>,
}

/// How far a message has been shown to one reader.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Reader {
    /// Whose replies have its parts.
    session: SessionId,
    /// Its client may have a session for each call.
    is_exchange: bool,
    /// The first byte that is to be shown next.
    next: usize,
    /// The number of the part that begins there.
    number: u32,
    /// How many there are if the next ones have so much room, too: they are counted once.
    of: Option<(Room, u32)>,
    /// The hand-overs of its parts that stand.
    standing: BTreeSet<HandoverId>,
}

impl Reader {
    fn has_nothing(&self) -> bool {
        self.next == 0 && self.standing.is_empty()
    }

    /// Tells whether a session that has been shown nothing may be the client of this one, whose session is gone: it goes on then.
    fn may_be(&self, session: SessionId) -> bool {
        self.is_exchange && self.session < session
    }
}

impl InParts {
    fn reader(&mut self, session: SessionId) -> Option<&mut Reader> {
        self.readers.iter_mut().find(|reader| reader.session == session)
    }

    fn reader_of(&mut self, handover: HandoverId) -> Option<&mut Reader> {
        let mut readers = self.readers.iter_mut();
        readers.find(|reader| reader.standing.contains(&handover))
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
    /// Finds what a reply to a session has room for of what a filter means.
    pub fn fit(&self, session: SessionId, filter: &Filter, readable: Readable, room: &Room) -> Fit {
        let messages = self.matching(filter, readable).map(|delivery| &*delivery.message);
        if self.parts.is_empty() && room.takes_any(messages) {
            return Fit::All;
        }
        let mut left = room.for_messages();
        for (count, delivery) in self.matching(filter, readable).enumerate() {
            let taken = match self.has_begun(delivery.seq, session) {
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

    fn has_begun(&self, seq: Seq, session: SessionId) -> bool {
        let shown = self.parts.get(&seq);
        let mut readers = shown.into_iter().flat_map(|shown| &shown.readers);
        readers.any(|reader| reader.session == session && reader.next > 0)
    }

    /// Takes the next part of what waits at a place for a reply with so much room to a session. With its last part the message waits no
    /// more, and keeps its room: whoever else has seen a part of it is not shown the others.
    pub fn take_part(
        &mut self,
        seq: Seq,
        room: &Room,
        session: SessionId,
        carrier: Carrier,
    ) -> (Delivery, Part) {
        let shown = self.parts.entry(seq).or_default();
        if shown.reader(session).is_none() {
            let is_shown = !shown.readers.is_empty();
            shown.readers.push(Reader {
                session,
                is_exchange: carrier == Carrier::Exchange,
                next: 0,
                number: 1,
                of: None,
                standing: BTreeSet::new(),
            });
            if is_shown {
                self.mark_redelivered(seq);
            }
        }
        let delivery = self.at(seq).clone();
        let shown = self.parts.get_mut(&seq).expect("it has a reader");
        let reader = shown.reader(session).expect("it was put in if it was not there");
        let of = reader.of.filter(|(counted, _)| counted == room);
        let part = room.part(
            &delivery.message,
            reader.next,
            (reader.number, of.map(|(_, of)| of)),
        );
        reader.of = Some((*room, part.of));
        reader.next = part.to;
        reader.number = part.number + 1;
        if part.is_last() {
            shown.readers.retain(|reader| reader.session == session);
            shown.whole = Some(delivery.clone());
            let taken = self.remove_here(seq);
            self.hand(std::slice::from_ref(&taken));
        }
        (delivery, part)
    }

    /// Takes note of the hand-over to a session of a part that was taken.
    pub fn part_stands(&mut self, seq: Seq, session: SessionId, handover: HandoverId) {
        let shown = self.parts.get_mut(&seq).expect("a part of it was taken");
        shown.latest = Some(handover);
        let reader = shown.reader(session).expect("a part was taken for it");
        reader.standing.insert(handover);
    }

    /// Tells whether a hand-over has a part that counts of what has that place.
    pub fn has_part(&self, seq: Seq, handover: HandoverId) -> bool {
        let shown = self.parts.get(&seq);
        let mut readers = shown.into_iter().flat_map(|shown| &shown.readers);
        readers.any(|reader| reader.standing.contains(&handover))
    }

    /// A part has arrived. Returns the message if all of it has, which is to be released, and with which hand-over the latest part
    /// was handed over; nothing if it is not shown in parts any more.
    pub fn part_arrived(&mut self, seq: Seq, handover: HandoverId) -> Option<(Delivery, HandoverId)> {
        let shown = self.parts.get_mut(&seq)?;
        let reader = shown.reader_of(handover)?;
        reader.standing.remove(&handover);
        if !reader.standing.is_empty() {
            return None;
        }
        let whole = shown.whole.take();
        let latest = shown.latest.expect("a part of it was handed over");
        self.forget_readers_of_nothing(seq);
        if whole.is_some() {
            self.forget_parts(seq);
        }
        whole.map(|whole| (whole, latest))
    }

    /// A part has not arrived: from it on the message is to be shown again, marked. Returns the message if it does not wait any more, which is to
    /// be put back; nothing if it is not shown in parts any more.
    pub fn part_returned(&mut self, seq: Seq, handover: HandoverId, part: Part) -> Option<Delivery> {
        let shown = self.parts.get_mut(&seq)?;
        let reader = shown.reader_of(handover)?;
        reader.standing.remove(&handover);
        if part.from < reader.next {
            (reader.next, reader.number) = (part.from, part.number);
            reader.of = None;
        }
        let whole = shown.whole.take();
        self.forget_readers_of_nothing(seq);
        if whole.is_none() {
            self.mark_redelivered(seq);
        }
        whole
    }

    fn forget_readers_of_nothing(&mut self, seq: Seq) {
        let Some(shown) = self.parts.get_mut(&seq) else {
            return;
        };
        shown.readers.retain(|reader| !reader.has_nothing());
        if shown.readers.is_empty() {
            self.parts.remove(&seq);
        }
    }

    /// A session is about to be shown something. Whoever's stream is gone is shown no more; whoever has a session for each call may be
    /// the one that reads now.
    pub fn is_read_by(&mut self, session: SessionId, carrier: Carrier, is_open: impl Fn(SessionId) -> bool) {
        if self.parts.is_empty() {
            return;
        }
        let begun = self.parts.iter_mut().filter(|(_, shown)| shown.whole.is_none());
        let mut left = Vec::new();
        for (seq, shown) in begun {
            let before = shown.readers.len();
            shown
                .readers
                .retain(|reader| reader.is_exchange || is_open(reader.session));
            if shown.readers.len() < before {
                left.push(*seq);
            }
            if carrier == Carrier::Exchange && shown.reader(session).is_none() {
                let gone = shown.readers.iter_mut().filter(|reader| !is_open(reader.session));
                let gone = gone.filter(|reader| reader.may_be(session));
                if let Some(furthest) = gone.max_by_key(|reader| reader.next) {
                    furthest.session = session;
                }
            }
        }
        for seq in left {
            self.forget_readers_of_nothing(seq);
            self.mark_redelivered(seq);
        }
    }

    /// Shows what waits in parts from its beginning, marked, whoever reads.
    pub fn begin_parts_anew(&mut self) {
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
            let standing = || shown.readers.iter().flat_map(|reader| &reader.standing);
            let have_begun = shown.readers.iter().all(|reader| !reader.has_nothing());
            let stands = standing().all(|handover| is_of(*seq, *handover));
            let is_known = have_begun && stands && is_here == shown.whole.is_none();
            is_known
                && !shown.readers.is_empty()
                && (is_here || (shown.readers.len() == 1 && standing().next().is_some()))
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

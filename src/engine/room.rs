//! How much of a reply a client shows its model, and how much of that a message takes. Knows nothing of inboxes, and no tool: how one
//! writes a message is told in numbers.

use super::message::Message;
use super::names::PROJECT_SEEN_BYTES;

/// The room that a reply has: what its client shows whole, and how the reply is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Room {
    /// Most bytes of the reply, as it is sent: with what stands around its messages, and with all escapes.
    pub bytes: u32,
    /// How it is written.
    pub form: Form,
}

/// How a tool writes messages into a reply, as far as it takes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Form {
    /// Bytes of a reply without its messages, at the most: what stands around them, and all notes beside them.
    pub reply: u16,
    /// Bytes of a message without its texts and names, at the most.
    pub message: u16,
    /// Further bytes of one that belongs to something: a thread, a message that it answers.
    pub context: u16,
    /// Further bytes of a part of one.
    pub part: u16,
    /// How its texts are escaped.
    pub escapes: Escapes,
    /// Its metadata is shown as well.
    pub has_metadata: bool,
    /// Most lines that a client shows whole, where those of a body are lines of the reply.
    pub lines_max: Option<u16>,
}

/// How often a text is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Escapes {
    /// It is a string of a JSON document, or a part of one.
    Once,
    /// It is a string of JSON that is itself a string of a JSON document.
    Twice,
}

/// A part of a message that does not fit into the room of a reply: of its body, and of its metadata behind that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Part {
    /// Which one, from 1 on.
    pub number: u32,
    /// Of how many, as long as the next replies have the same room.
    pub of: u32,
    /// Its first byte.
    pub from: usize,
    /// The byte behind its last.
    pub to: usize,
    /// The first part that its reader was shown: those before it were shown over connections that are gone, and to whom nobody knows.
    pub begun: u32,
}

impl Part {
    /// Tells whether nothing of the message follows.
    pub fn is_last(&self) -> bool {
        self.number == self.of
    }

    /// Returns what of the message's body it has.
    pub fn body<'a>(&self, message: &'a Message) -> &'a str {
        let end = message.body.len();
        &message.body[self.from.min(end)..self.to.min(end)]
    }

    /// Returns what it has of the message's metadata, as it was written: nothing, if it ends before that.
    pub fn metadata<'a>(&self, message: &'a Message) -> &'a str {
        let body = message.body.len();
        let metadata = message.metadata().unwrap_or_default();
        &metadata[self.from.saturating_sub(body)..self.to.saturating_sub(body)]
    }
}

/// Bytes that a text takes for each of its bytes, at the most.
const ESCAPED_MAX: usize = 7;

/// How many bytes of a text are looked at before it is seen whether it is too long.
const LOOKED_AT_BYTES: usize = 1_024;

const ONCE: [u8; 256] = costs(Escapes::Once);
const TWICE: [u8; 256] = costs(Escapes::Twice);

/// How many bytes of a text are looked at together.
const PIECE_BYTES: usize = 256;

/// Tells whether a byte takes more than one. Without a table, so that the bytes of a piece are looked at together.
const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Says how many bytes each byte of a text takes.
const fn costs(escapes: Escapes) -> [u8; 256] {
    let mut costs = [1; 256];
    let mut byte = 0;
    while byte < 128 {
        if is_escaped(byte) {
            costs[byte as usize] = match (escapes, byte) {
                (Escapes::Once, 0x22 | 0x5c | 0x08 | 0x09 | 0x0a | 0x0c | 0x0d) => 2,
                (Escapes::Once, _) => 6,
                (Escapes::Twice, 0x22 | 0x5c) => 4,
                (Escapes::Twice, 0x08 | 0x09 | 0x0a | 0x0c | 0x0d) => 3,
                (Escapes::Twice, _) => 7,
            };
        }
        byte += 1;
    }
    costs
}

impl Room {
    /// Tells, without a look at what their texts say, that messages fit, however they are written. Others may fit as well.
    pub fn takes_any<'a>(&self, mut messages: impl Iterator<Item = &'a Message>) -> bool {
        let each = ESCAPED_MAX + self.line();
        let left = |left: usize, message: &Message| {
            left.checked_sub(self.frame(message) + each * self.length(message))
        };
        messages.try_fold(self.for_messages(), left).is_some()
    }

    /// Returns the room for messages in a reply that has none yet.
    pub fn for_messages(&self) -> usize {
        self.bytes().saturating_sub(usize::from(self.form.reply))
    }

    /// Returns the bytes that a message takes, no fewer than it does; none if there are more than a number.
    pub fn taken_by(&self, message: &Message, max: usize) -> Option<usize> {
        let mut taken = self.frame(message);
        for text in [Some(&*message.body), self.metadata_of(message)]
            .into_iter()
            .flatten()
        {
            for bytes in text.as_bytes().chunks(LOOKED_AT_BYTES) {
                taken += self.escaped(bytes);
                if taken > max {
                    return None;
                }
            }
        }
        (taken <= max).then_some(taken)
    }

    /// Returns the part of a message that begins at a byte, and is to have a number: of so many, if that is known.
    pub fn part(&self, message: &Message, from: usize, (number, of): (u32, Option<u32>)) -> Part {
        // Another tool, which shows more of a message, may have shown it up to there.
        let length = self.length(message).max(from);
        let to = self.cut(message, from, length);
        let of = of.unwrap_or_else(|| {
            let (mut of, mut end) = (number, to);
            while end < length {
                end = self.cut(message, end, length);
                of += 1;
            }
            of
        });
        Part {
            number,
            of,
            from,
            to,
            begun: 1,
        }
    }

    /// Returns how many bytes of a message are shown in parts.
    fn length(&self, message: &Message) -> usize {
        message.body.len() + self.metadata_of(message).map_or(0, str::len)
    }

    /// Returns where a part ends that begins at a byte, of so many: one character further at least, if there is one.
    fn cut(&self, message: &Message, from: usize, length: usize) -> usize {
        if from == length {
            return from;
        }
        let frame = self.frame(message) + usize::from(self.form.part);
        let room = self.for_messages().saturating_sub(frame);
        let body = &message.body;
        let metadata = self.metadata_of(message).unwrap_or_default();
        let rest = body[from.min(body.len())..]
            .chars()
            .chain(metadata[from.saturating_sub(body.len())..].chars());
        let (mut to, mut taken) = (from, 0);
        for c in rest {
            taken += self.escaped(c.encode_utf8(&mut [0; 4]).as_bytes());
            if taken > room && to > from {
                break;
            }
            to += c.len_utf8();
        }
        to
    }

    fn metadata_of<'a>(&self, message: &'a Message) -> Option<&'a str> {
        message.metadata().filter(|_| self.form.has_metadata)
    }

    /// Returns the bytes that a message takes beside its body and metadata.
    fn frame(&self, message: &Message) -> usize {
        let names = message.from.as_str().len() + PROJECT_SEEN_BYTES + message.to.bytes_seen_max();
        let thread = message.thread().unwrap_or_default().as_bytes();
        let context = message
            .context
            .as_ref()
            .map_or(0, |_| usize::from(self.form.context));
        usize::from(self.form.message) + context + names + self.escaped(thread)
    }

    /// Returns the bytes that those of a text take.
    fn escaped(&self, bytes: &[u8]) -> usize {
        // Most pieces have none of them, and are not looked at byte by byte.
        let is_plain = |piece: &[u8]| !piece.iter().fold(false, |found, byte| found | is_escaped(*byte));
        let taken = bytes.chunks(PIECE_BYTES).map(|piece| {
            if is_plain(piece) {
                piece.len()
            } else {
                self.escaped_singly(piece)
            }
        });
        taken.sum()
    }

    fn escaped_singly(&self, bytes: &[u8]) -> usize {
        let costs = match self.form.escapes {
            Escapes::Once => &ONCE,
            Escapes::Twice => &TWICE,
        };
        let escaped = bytes.iter().map(|byte| usize::from(costs[usize::from(*byte)]));
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        escaped.sum::<usize>() + self.line() * lines
    }

    /// Returns what the end of a line takes beside its bytes, so that there are no more lines than are shown.
    fn line(&self) -> usize {
        self.form
            .lines_max
            .map_or(0, |max| self.bytes() / usize::from(max))
    }

    fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

//! Writing JSON in one pass: a document, or the texts of an answer, which are strings inside another document.
//!
//! A tool's answer is JSON within a string of the response's JSON, so what stands in it is escaped twice. Both are done
//! here at once, while it is written: there is no text in between, nor a tree of values.

use std::fmt::{self, Write as _};

use serde::Deserialize;

use super::ReplyBytes;

/// The text blocks of an answer, written as the items of MCP's `content`: `{"type":"text","text":"…"}`, with commas
/// between them.
#[derive(Debug)]
pub struct Texts<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
    /// How much of them is shown.
    reply_max: ReplyBytes,
    /// The answer as data, a JSON document, if it is one.
    structured: Option<Vec<u8>>,
    /// What the answer's data tells of beside all else, if it has any.
    notice: Option<String>,
}

impl<'a> Texts<'a> {
    /// What stands before the text in its block.
    pub const BEFORE_TEXT: &'static [u8] = br#"{"type":"text","text":""#;

    /// Begins to write behind what is in `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            is_first: true,
            reply_max: ReplyBytes::UNBOUNDED,
            structured: None,
            notice: None,
        }
    }

    /// Says how much of them is shown. What is no message is cut by whoever writes it, which is told by this how long it may be.
    pub fn keep_within(&mut self, reply_max: ReplyBytes) {
        self.reply_max = reply_max;
    }

    /// Returns how much of them is shown.
    pub fn reply_max(&self) -> ReplyBytes {
        self.reply_max
    }

    /// Adds a text as it reads.
    pub fn plain(&mut self, text: impl fmt::Display) {
        self.block(|out| write!(Escaped(out), "{text}").expect("memory takes it"));
    }

    /// Adds a text that is JSON.
    pub fn json(&mut self, write: impl FnOnce(&mut Json<'_>)) {
        let level = Level::InText;
        self.block(|out| write(&mut Json { out, level }));
    }

    /// Has the answer's data tell of something beside all else: Claude Code shows its model the data of an answer that has some, and
    /// no texts.
    pub(super) fn tell_in_data(&mut self, notice: String) {
        self.notice = Some(notice);
    }

    /// Adds a text that is JSON, and gives the same as the answer's data, too.
    pub fn structured(&mut self, write: impl FnOnce(&mut Object<'_>)) {
        let mut document = Vec::new();
        let notice = self.notice.take();
        Json::document(&mut document).object(|object| {
            write(object);
            if let Some(notice) = notice {
                object.member("notice").string(&notice);
            }
        });
        let text = std::str::from_utf8(&document).expect("what is written here is UTF-8");
        self.plain(text);
        self.structured = Some(document);
    }

    /// Returns the answer's data, if it has any.
    pub fn into_structured(self) -> Option<Vec<u8>> {
        self.structured
    }

    fn block(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        self.out.extend_from_slice(Self::BEFORE_TEXT);
        write(self.out);
        self.out.extend_from_slice(br#""}"#);
    }
}

/// Returns the texts that `write` writes, read back out of what they are wrapped into.
pub(super) fn unwrapped(write: impl FnOnce(&mut Texts<'_>)) -> (Vec<String>, Option<serde_json::Value>) {
    #[derive(Deserialize)]
    struct Block {
        text: String,
    }
    let mut content = vec![b'['];
    let mut texts = Texts::new(&mut content);
    write(&mut texts);
    let structured = texts.into_structured();
    content.push(b']');
    let blocks: Vec<Block> = serde_json::from_slice(&content).expect("what is written here is JSON");
    let structured =
        structured.map(|json| serde_json::from_slice(&json).expect("what is written here is JSON"));
    (blocks.into_iter().map(|block| block.text).collect(), structured)
}

/// Counts how many of some items fit into so many bytes one behind the other, each with a comma, in JSON that is a text.
pub fn how_many_fit<T>(
    items: impl IntoIterator<Item = T>,
    bytes_max: usize,
    mut write: impl FnMut(&mut Json<'_>, T),
) -> usize {
    let mut written = Vec::new();
    let mut count = 0;
    for item in items {
        let (out, level) = (&mut written, Level::InText);
        write(&mut Json { out, level }, item);
        written.push(b',');
        if written.len() > bytes_max {
            break;
        }
        count += 1;
    }
    count
}

/// Finds those of some items that fit into so many bytes one behind the other, as [`how_many_fit`] counts them: one that is too long
/// itself is left out.
pub fn which_fit<T: Copy>(
    items: impl IntoIterator<Item = T>,
    bytes_max: usize,
    mut write: impl FnMut(&mut Json<'_>, T),
) -> Vec<T> {
    let mut left = bytes_max;
    let fits = |item: &T| match left.checked_sub(how_long(|json| write(json, *item)) + 1) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    items.into_iter().filter(fits).collect()
}

/// Returns how many bytes something takes in JSON that is a text.
pub fn how_long(write: impl FnOnce(&mut Json<'_>)) -> usize {
    let mut written = Vec::new();
    let (out, level) = (&mut written, Level::InText);
    write(&mut Json { out, level });
    written.len()
}

/// Returns the bytes of a text where it is escaped in a document.
pub fn escaped_bytes(text: &str) -> usize {
    let special = text.bytes().filter(|byte| is_special(*byte));
    let more = special.map(|byte| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 1,
        _ => 5,
    });
    text.len() + more.sum::<usize>()
}

/// A place for one JSON value.
#[derive(Debug)]
pub struct Json<'a> {
    out: &'a mut Vec<u8>,
    level: Level,
}

/// What JSON is written into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Nothing: it is a document.
    Document,
    /// A string of another document, where its quotes and backslashes are escaped once more.
    InText,
}

impl<'a> Json<'a> {
    /// Begins a document behind what is in `out`.
    pub fn document(out: &'a mut Vec<u8>) -> Self {
        let level = Level::Document;
        Self { out, level }
    }

    /// Makes room for that many bytes that are about to be written.
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Writes an object.
    pub fn object(&mut self, write: impl FnOnce(&mut Object<'_>)) {
        self.out.push(b'{');
        write(&mut Object {
            json: Json {
                out: self.out,
                level: self.level,
            },
            is_first: true,
        });
        self.out.push(b'}');
    }

    /// Writes an array with an item for each of `items`.
    pub fn array<T>(&mut self, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Json<'_>, T)) {
        self.out.push(b'[');
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            write(self, item);
        }
        self.out.push(b']');
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.quote();
        escape(self.out, text, self.level);
        self.quote();
    }

    /// Writes a string in which nothing has to be escaped, as in a name, an id or a time: nothing is looked for in it.
    pub fn plain(&mut self, text: &str) {
        debug_assert!(
            next_special(text.as_bytes()).is_none(),
            "something has to be escaped in {text:?}"
        );
        self.quote();
        self.out.extend_from_slice(text.as_bytes());
        self.quote();
    }

    /// Writes a number.
    pub fn number(&mut self, number: usize) {
        write!(Escaped(self.out), "{number}").expect("memory takes it");
    }

    /// Writes `true` or `false`.
    pub fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes what is JSON already.
    pub fn raw(&mut self, json: &str) {
        match self.level {
            Level::Document => self.out.extend_from_slice(json.as_bytes()),
            Level::InText => escape(self.out, json, Level::Document),
        }
    }

    /// Writes `null`.
    pub fn null(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    fn quote(&mut self) {
        match self.level {
            Level::Document => self.out.push(b'"'),
            Level::InText => self.out.extend_from_slice(br#"\""#),
        }
    }
}

/// An object that is being written.
#[derive(Debug)]
pub struct Object<'a> {
    json: Json<'a>,
    is_first: bool,
}

impl<'a> Object<'a> {
    /// Writes a name, in which nothing has to be escaped, and returns the place for its value, which must be filled.
    pub fn member(&mut self, name: &'static str) -> &mut Json<'a> {
        if !std::mem::take(&mut self.is_first) {
            self.json.out.push(b',');
        }
        self.json.plain(name);
        self.json.out.push(b':');
        &mut self.json
    }
}

/// Takes text and puts it into a string of a document.
struct Escaped<'a>(&'a mut Vec<u8>);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(self.0, text, Level::Document);
        Ok(())
    }
}

/// How many bytes are looked at together for one that has to be escaped.
const TOGETHER: usize = 16;

/// How many of a short text's.
const WORD: usize = size_of::<u64>();

/// Writes a text as the content of a string, with the escapes that serde_json writes.
fn escape(out: &mut Vec<u8>, text: &str, level: Level) {
    let mut rest = text.as_bytes();
    while let Some(at) = next_special(rest) {
        out.extend_from_slice(&rest[..at]);
        escape_byte(out, rest[at], level);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Finds the next byte that has to be escaped.
pub(crate) fn next_special(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks();
    // Most texts, and what stands before the quote that ends one, are shorter than what is worth the wide look.
    let few = words.len().min(TOGETHER / WORD);
    for (at, word) in words[..few].iter().enumerate() {
        if let Some(within) = special_of_word(*word) {
            return Some(at * WORD + within);
        }
    }
    if words.len() == few {
        special_of_end(bytes)
    } else {
        special_of_long(bytes)
    }
}

fn special_of_long(bytes: &[u8]) -> Option<usize> {
    let (chunks, _) = bytes.as_chunks::<TOGETHER>();
    // Without a branch for each byte, so that the compiler looks at all of them at once.
    let plain = chunks
        .iter()
        .take_while(|chunk| !chunk.iter().fold(false, |found, byte| found | is_special(*byte)));
    let plain = plain.count() * TOGETHER;
    let (words, _) = bytes[plain..].as_chunks();
    let mut marked = words.iter().enumerate();
    marked
        .find_map(|(at, word)| Some(plain + at * WORD + special_of_word(*word)?))
        .or_else(|| special_of_end(bytes))
}

/// Finds it behind the last whole word of a text, before which there is none.
fn special_of_end(bytes: &[u8]) -> Option<usize> {
    match bytes.last_chunk() {
        Some(word) => Some(bytes.len() - WORD + special_of_word(*word)?),
        None => bytes.iter().position(|byte| is_special(*byte)),
    }
}

/// Finds the first byte of a word that has to be escaped, by marks in the highest bits of its bytes:
/// <https://graphics.stanford.edu/~seander/bithacks.html#ZeroInWord>. A borrow may mark a byte wrongly, but only one behind
/// another that is marked.
fn special_of_word(word: [u8; WORD]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; WORD]);
    const HIGHEST: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word & HIGHEST;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let marks = below(word, b' ') | equal(b'"') | equal(b'\\');
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

/// Tells whether a byte has to be escaped.
const fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

fn escape_byte(out: &mut Vec<u8>, byte: u8, level: Level) {
    // The backslash of the escape is itself escaped in a text, and so is a quote or backslash behind it.
    let in_text = level == Level::InText;
    out.extend_from_slice(if in_text { br"\\" } else { br"\" });
    let short = match byte {
        b'"' | b'\\' => {
            if in_text {
                out.push(b'\\');
            }
            byte
        }
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        control => {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            out.extend_from_slice(&[b'u', b'0', b'0', digit(control >> 4), digit(control & 0xf)]);
            return;
        }
    };
    out.push(short);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> String {
        let mut out = Vec::new();
        Json::document(&mut out).string(text);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_string_is_written_as_serde_json_writes_it_in_a_document_and_in_a_text() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let length = random.usize(0..80);
            let text: String = (0..length)
                .map(|_| match random.u8(0..8) {
                    0 => '"',
                    1 => '\\',
                    2 => char::from(random.u8(0..0x20)),
                    3 => random.char(..),
                    _ => char::from(random.u8(0x20..0x80)),
                })
                .collect();
            let json = serde_json::to_string(&text).expect("JSON");
            assert_eq!(document(&text), json);
            assert_eq!(unwrapped(|texts| texts.json(|json| json.string(&text))).0, [json]);
            assert_eq!(unwrapped(|texts| texts.plain(&text)).0, [text]);
        }
    }

    #[test]
    fn every_place_of_a_byte_that_is_escaped_is_found() {
        for length in 0..3 * TOGETHER {
            for at in 0..length {
                for special in ["\"", "\\", "\u{1f}", "\n"] {
                    let mut text = "x".repeat(length);
                    text.replace_range(at..=at, special);
                    assert_eq!(next_special(text.as_bytes()), Some(at), "{text:?}");
                }
            }
            for plain in ["\u{7f}", "!", "#", "[", "]", " ", "é"] {
                assert_eq!(next_special(plain.repeat(length).as_bytes()), None, "{plain:?}");
            }
        }
    }

    #[test]
    fn values_stand_in_one_another() {
        let mut out = b"before ".to_vec();
        Json::document(&mut out).object(|object| {
            object
                .member("a")
                .array([1, 22], |json, number| json.number(number));
            object.member("b").array([(); 0], |_, ()| ());
            object
                .member("c")
                .object(|object| object.member("d").boolean(false));
            object.member("e").object(|_| ());
            object.member("f").null();
            object.member("g").boolean(true);
        });
        let expected = r#"before {"a":[1,22],"b":[],"c":{"d":false},"e":{},"f":null,"g":true}"#;
        assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
    }

    #[test]
    fn texts_come_one_after_the_other() {
        let mut out = Vec::new();
        let mut texts = Texts::new(&mut out);
        texts.json(|json| json.array(["x"], |json, text| json.string(text)));
        texts.plain("a \"b\"\n");
        let expected = r#"{"type":"text","text":"[\"x\"]"},{"type":"text","text":"a \"b\"\n"}"#;
        assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
    }
}

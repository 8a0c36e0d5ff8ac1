//! JSON, read from its beginning to its end by whoever knows what has to stand there, without a copy of what was written plainly.
//!
//! What is read here is what most clients write most often: objects, and texts without escapes. For all else it asks serde_json, and
//! takes nothing that serde_json does not take. Knows nothing of JSON-RPC, and has no words for what is wrong.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_json::value::RawValue;

use super::json::{Any, PassedOver};
use crate::tools::text::next_special;

/// What has at most so many opening brackets is nested less deeply than serde_json reads, wherever it stands.
const BRACKETS_MAX: usize = 64;

/// Reads one document. What it returns nothing for is no JSON, or something else than what was asked for; then nothing of the document
/// can be used.
pub(super) struct Reader<'a> {
    document: &'a str,
    /// How many bytes of it were read; whole characters.
    read: usize,
}

impl<'a> Reader<'a> {
    /// Begins to read.
    pub fn new(document: &'a str) -> Self {
        Self { document, read: 0 }
    }

    /// Reads the end of the document.
    pub fn end(mut self) -> Option<()> {
        self.next_byte().is_none().then_some(())
    }

    /// Reads an object: `member` gets each key, and reads its value. Two keys may be equal.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>) -> Option<()> {
        self.mark(b'{')?;
        if self.next_byte()? == b'}' {
            return self.mark(b'}');
        }
        loop {
            let key = self.text()?;
            self.mark(b':')?;
            member(self, key)?;
            match self.next_byte()? {
                b',' => self.read += 1,
                _ => return self.mark(b'}'),
            }
        }
    }

    /// Reads a text, without a copy if it was written without escapes.
    pub fn text(&mut self) -> Option<Cow<'a, str>> {
        if self.next_byte()? != b'"' {
            return None;
        }
        let inner = &self.document[self.read + 1..];
        match next_special(inner.as_bytes()) {
            Some(length) if inner.as_bytes()[length] == b'"' => {
                self.read += length + 2;
                Some(Cow::Borrowed(&inner[..length]))
            }
            Some(_) | None => self.escaped_text(),
        }
    }

    /// Passes over a text that is written like this, without escapes.
    pub fn exactly(&mut self, text: &str) -> Option<()> {
        self.mark(b'"')?;
        let rest = self.rest().strip_prefix(text)?;
        // In a text, a space stands for itself.
        rest.starts_with('"').then(|| self.read += text.len() + 1)
    }

    /// Reads any value, with no key twice in it; none either if it may be nested too deeply.
    pub fn value(&mut self) -> Option<Value> {
        let mut reader = serde_json::Deserializer::from_str(self.shallow()?.get());
        Any.deserialize(&mut reader).ok()
    }

    /// Passes over a value that [`Self::value`] would read.
    pub fn pass_over(&mut self) -> Option<()> {
        let mut reader = serde_json::Deserializer::from_str(self.shallow()?.get());
        PassedOver.deserialize(&mut reader).ok()
    }

    /// Reads any value as it was written, whatever stands in it.
    pub fn raw(&mut self) -> Option<&'a RawValue> {
        self.next_byte()?;
        self.by_serde()
    }

    /// Returns the first byte of what comes next.
    pub fn next_byte(&mut self) -> Option<u8> {
        loop {
            match *self.document.as_bytes().get(self.read)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.read += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Passes over one of the marks between the values, if it comes next.
    fn mark(&mut self, mark: u8) -> Option<()> {
        (self.next_byte()? == mark).then(|| self.read += 1)
    }

    fn shallow(&mut self) -> Option<&'a RawValue> {
        let raw = self.raw()?;
        let brackets = raw.get().bytes().filter(|byte| matches!(byte, b'[' | b'{'));
        (brackets.count() <= BRACKETS_MAX).then_some(raw)
    }

    #[cold]
    fn escaped_text(&mut self) -> Option<Cow<'a, str>> {
        self.by_serde().map(Cow::Owned)
    }

    fn by_serde<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter();
        let value = values.next()?.ok()?;
        self.read += values.byte_offset();
        Some(value)
    }

    fn rest(&self) -> &'a str {
        &self.document[self.read..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a whole document.
    fn read<'a, T>(document: &'a str, read: impl FnOnce(&mut Reader<'a>) -> Option<T>) -> Option<T> {
        let mut reader = Reader::new(document);
        let value = read(&mut reader)?;
        reader.end().map(|()| value)
    }

    #[test]
    fn a_text_is_read_as_serde_json_reads_it_and_copied_only_if_it_has_escapes() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let length = random.usize(0..64);
            let plain = ["a", "b", "é"];
            let others = ["\\n", "\\\"", "\\u00e9", "\\ud800", "\u{1f}", "\""];
            let inner: String = (0..length)
                .map(|_| match random.u8(..32) {
                    0 => others[random.usize(..others.len())],
                    _ => plain[random.usize(..plain.len())],
                })
                .collect();
            let document = format!(" \"{inner}\"\n");
            let text = read(&document, Reader::text);
            assert_eq!(
                text.as_deref(),
                serde_json::from_str::<String>(&document).ok().as_deref()
            );
            let is_copy = matches!(text, Some(Cow::Owned(_)));
            assert_eq!(is_copy, text.is_some() && inner.contains('\\'), "{document}");
        }
        for open in ["", "\"", "\"a", "\"\\\"", "5"] {
            assert_eq!(read(open, Reader::text), None, "{open}");
        }
    }

    #[test]
    fn a_text_that_is_known_is_passed_over_if_nothing_follows_in_it() {
        let known = |document| read(document, |reader| reader.exactly("2.0"));
        assert_eq!(known(" \"2.0\"\n"), Some(()));
        for other in [
            "",
            "2.0",
            "\"2.0",
            "\"2.0x",
            "\"2.0,",
            "\" 2.0\"",
            "\"2.0 \"",
            "\"2.\\u0030\"",
        ] {
            assert_eq!(known(other), None, "{other}");
        }
    }

    #[test]
    fn an_object_has_commas_between_its_members_and_none_behind_them() {
        let keys = |document: &str| {
            let mut keys = Vec::new();
            let object = |reader: &mut Reader<'_>| {
                reader.object(|reader, key| {
                    keys.push(key.into_owned());
                    reader.pass_over()
                })
            };
            read(document, object).map(|()| keys)
        };
        assert_eq!(keys("{}"), Some(vec![]));
        assert_eq!(keys(" { } "), Some(vec![]));
        let two = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(keys(r#"{"a":{"c":[]},"b":"}"}"#), two);
        assert_eq!(keys("\t{ \"a\"\r: 1 ,\n\"\\u0062\": null } "), two);
        for broken in [
            "",
            "{",
            "}",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1"#,
            r#"{"a":1 "b":2}"#,
            "{a:1}",
            r#"{"a":1}}"#,
            r#"{"a":1}x"#,
            r#"{"a":01}"#,
            "[]",
            "\u{a0}{}",
        ] {
            assert_eq!(keys(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_value_means_one_thing_only_and_is_not_nested_deeply() {
        for document in ["null", "-5", "1.5e3", r#""\u00e9""#, r#"[1,{"a":[{}]}]"#] {
            let value = serde_json::from_str(document).expect("JSON");
            assert_eq!(read(document, Reader::value), Some(value));
            assert_eq!(read(document, Reader::pass_over), Some(()));
            assert_eq!(read(document, Reader::raw).map(RawValue::get), Some(document));
        }
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(BRACKETS_MAX), Reader::value).is_some());
        assert!(read(&nested(BRACKETS_MAX), Reader::pass_over).is_some());
        for document in [
            &nested(BRACKETS_MAX + 1),
            r#"{"a":1,"a":1}"#,
            r#"["\ud800"]"#,
            "1e999",
            "nul",
            "[1",
        ] {
            assert_eq!(read(document, Reader::value), None, "{document}");
            assert_eq!(read(document, Reader::pass_over), None, "{document}");
        }
    }
}

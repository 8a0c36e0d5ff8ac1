//! The id of the request that bytes were to be which are no JSON, or are too many to be kept: whoever has asked waits for an answer with it.
//!
//! Looks at the members of the outermost object alone, keeps none of what it passes over, and knows nothing of JSON-RPC but their names.

use serde_json::value::RawValue;

use super::json_rpc::is_id;
use super::limits::REQUEST_ID_BYTES_MAX;

/// What some hosts write before a text: <https://www.rfc-editor.org/rfc/rfc3629#section-6>
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// More bytes than any name has that matters.
const KEY_BYTES_MAX: usize = 8;

/// Looks for the id while the bytes come.
#[derive(Debug)]
pub struct IdFinder {
    at: At,
    /// How many objects and arrays are open.
    depth: usize,
    is_escaped: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    id: Option<Vec<u8>>,
    is_ambiguous: bool,
    has_method: bool,
    is_response: bool,
}

/// Where in the object the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    BeforeKey,
    Key,
    BeforeColon,
    BeforeValue,
    Text,
    Bare,
    Nested,
    NestedText,
    BehindValue,
    /// Behind the object, or where nothing can be made out any more.
    End,
}

/// Finds the id in bytes that are all there.
pub fn find(bytes: &[u8]) -> Option<Box<RawValue>> {
    let mut finder = IdFinder::new();
    finder.push(bytes);
    finder.id()
}

impl IdFinder {
    /// Has seen nothing yet.
    pub fn new() -> Self {
        Self {
            at: At::Start,
            depth: 0,
            is_escaped: false,
            key: Vec::new(),
            value: Vec::new(),
            id: None,
            is_ambiguous: false,
            has_method: false,
            is_response: false,
        }
    }

    /// Looks at the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = match self.at == At::Start {
            true => bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes),
            false => bytes,
        };
        for &byte in bytes {
            if self.at == At::End {
                return;
            }
            self.look(byte);
        }
    }

    /// Returns the id as it was written; none if there is none, or two, or what was seen is no request.
    pub fn id(self) -> Option<Box<RawValue>> {
        // Of one that breaks off, the method may be what is missing.
        let may_be_request = !self.is_response && (self.has_method || !self.is_whole());
        if self.is_ambiguous || !may_be_request {
            return None;
        }
        let raw = RawValue::from_string(String::from_utf8(self.id?).ok()?).ok()?;
        (is_id(&raw) && raw.get().len() <= REQUEST_ID_BYTES_MAX).then_some(raw)
    }

    fn is_whole(&self) -> bool {
        self.at == At::End && self.depth == 0
    }

    fn look(&mut self, byte: u8) {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at = match self.at {
            At::Start | At::BeforeKey | At::BeforeColon | At::BeforeValue | At::BehindValue if is_space => {
                return;
            }
            At::End => return,
            At::Start if byte == b'{' => {
                self.depth = 1;
                At::BeforeKey
            }
            At::BeforeKey | At::BehindValue if byte == b'}' => {
                self.depth = 0;
                At::End
            }
            At::BeforeKey if byte == b'"' => {
                self.key.clear();
                At::Key
            }
            At::Key => return self.look_in_text(byte, At::BeforeColon),
            At::BeforeColon if byte == b':' => {
                self.value.clear();
                At::BeforeValue
            }
            At::BeforeValue => match byte {
                b'"' => {
                    self.value.push(byte);
                    At::Text
                }
                b'{' | b'[' => {
                    self.value.push(byte);
                    self.depth = 2;
                    At::Nested
                }
                _ => {
                    self.value.push(byte);
                    At::Bare
                }
            },
            At::Text => return self.look_in_text(byte, At::BehindValue),
            At::Bare if is_space || matches!(byte, b',' | b'}') => {
                self.ends_value();
                self.at = At::BehindValue;
                return self.look(byte);
            }
            At::Bare => {
                self.keep(byte);
                At::Bare
            }
            At::Nested => match byte {
                b'"' => At::NestedText,
                b'{' | b'[' => {
                    self.depth += 1;
                    At::Nested
                }
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth > 1 {
                        At::Nested
                    } else {
                        self.ends_value();
                        At::BehindValue
                    }
                }
                _ => At::Nested,
            },
            At::NestedText => return self.look_in_text(byte, At::Nested),
            At::BehindValue if byte == b',' => At::BeforeKey,
            At::Start | At::BeforeKey | At::BeforeColon | At::BehindValue => At::End,
        };
    }

    /// Looks at a byte of a text, behind whose end it goes on at `behind`.
    fn look_in_text(&mut self, byte: u8, behind: At) {
        let is_end = byte == b'"' && !self.is_escaped;
        self.is_escaped = byte == b'\\' && !self.is_escaped;
        if self.at == At::Key && !is_end && self.key.len() < KEY_BYTES_MAX {
            self.key.push(byte);
        }
        if self.at == At::Text {
            self.keep(byte);
        }
        if is_end {
            if self.at == At::Text {
                self.ends_value();
            }
            self.at = behind;
        }
    }

    /// Keeps a byte of a value, if that may be the id.
    fn keep(&mut self, byte: u8) {
        if self.key == b"id" && self.value.len() <= REQUEST_ID_BYTES_MAX {
            self.value.push(byte);
        }
    }

    fn ends_value(&mut self) {
        match &*self.key {
            b"id" => self.is_ambiguous |= self.id.replace(std::mem::take(&mut self.value)).is_some(),
            b"method" => self.has_method = true,
            b"result" | b"error" => self.is_response = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        let whole = find(text.as_bytes()).map(|id| id.get().to_owned());
        let mut by_bytes = IdFinder::new();
        for byte in text.trim_start_matches('\u{feff}').bytes() {
            by_bytes.push(&[byte]);
        }
        assert_eq!(by_bytes.id().map(|id| id.get().to_owned()), whole, "{text}");
        whole
    }

    #[test]
    fn an_id_is_found_before_and_behind_what_is_broken_and_too_long() {
        let long = "x".repeat(100_000);
        for (text, id) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"#,
                "7",
            ),
            (r#"{"jsonrpc":"2.0","id":"a\"b","method":"to"#, r#""a\"b""#),
            (
                r#"{"method":"a","params":{"b":NaN,"id":8,"c":["}",{"id":9}]},"jsonrpc":"2.0","id":-3}"#,
                "-3",
            ),
            (
                "{\"method\":\"a\",\"params\":{\"b\":\"a\nb\u{1}\\\"}\"}, \"id\" : 5 }",
                "5",
            ),
            ("\u{feff} {\"id\":5,\"method\":\"a\",", "5"),
            (
                &format!(r#"{{"method":"a","params":{{"id":1,"body":"{long}"}},"id":6}}"#),
                "6",
            ),
            (&format!(r#"{{"params":"{long}","method":"{long}","id":6}}"#), "6"),
            (r#"{"id":7,"method":"a"} {"id":8,"method":"b"}"#, "7"),
        ] {
            assert_eq!(found(text).as_deref(), Some(id), "{text}");
        }
    }

    #[test]
    fn no_id_is_made_up() {
        for text in [
            "",
            "hello",
            "[{\"id\":7,\"method\":\"a\"}]",
            r#"{"id":12"#,
            r#"{"id":"12"#,
            r#"{"method":"a","id":1.0}"#,
            r#"{"method":"a","id":-0}"#,
            r#"{"method":"a","id":1e2}"#,
            r#"{"method":"a","id":null}"#,
            r#"{"method":"a","id":{"id":7}}"#,
            r#"{"method":"a","id":99999999999999999999}"#,
            r#"{"method":"a","id":"\ud800"}"#,
            r#"{"method":"a","id":1,"id":1}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"id":1,"error":{"code":1}"#,
            r#"{"id":1,"a":2}"#,
            r#"{"method":"a","params":{"id":7}}"#,
            r#"{"id" 7}"#,
            r#"{"method":"a" "id":7}"#,
            &format!(r#"{{"method":"a","id":"{}"}}"#, "x".repeat(255)),
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        assert_eq!(
            found(&format!(r#"{{"method":"a","id":"{}"}}"#, "x".repeat(254))).map(|id| id.len()),
            Some(256)
        );
    }
}

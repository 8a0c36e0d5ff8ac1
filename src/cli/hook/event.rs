//! The event that a hook is given on stdin: complete when its JSON value is, whether stdin ends behind it or not.

use std::io::{self, Read};

use serde::Deserialize as _;
use serde::de::IgnoredAny;

use crate::json_halves::readable;
use crate::server::json_id::BYTE_ORDER_MARK;

/// Reads an event, without the byte order mark before it, or all of stdin if that is no JSON. What of it is no character is an unknown one.
///
/// # Errors
///
/// The system's.
pub(super) fn read(mut stdin: impl Read) -> io::Result<Vec<u8>> {
    let mut mark = Vec::new();
    while mark.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&mark) {
        if (&mut stdin).take(1).read_to_end(&mut mark)? == 0 {
            break;
        }
    }
    let begun = if mark == BYTE_ORDER_MARK { &[] } else { &mark[..] };
    let mut heard = Heard {
        from: begun.chain(stdin),
        bytes: Vec::new(),
    };
    // It is read byte by byte, and no byte behind the value is.
    let value = IgnoredAny::deserialize(&mut serde_json::Deserializer::from_reader(&mut heard));
    if let Err(error) = value {
        if error.is_io() {
            return Err(error.into());
        }
        heard.from.read_to_end(&mut heard.bytes)?;
    }
    let text = String::from_utf8_lossy(&heard.bytes);
    Ok(readable(&text).into_owned().into_bytes())
}

/// A reader that keeps what it has read.
struct Heard<R> {
    from: R,
    bytes: Vec<u8>,
}

impl<R: Read> Read for Heard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stdin that never ends: whoever reads on behind what is there fails.
    struct Open<'a>(&'a [u8]);

    impl Read for Open<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("nothing comes any more")),
                count => Ok(count),
            }
        }
    }

    #[test]
    fn an_event_is_complete_when_its_value_is() {
        for event in [r#"{"a": "}", "b": {"c": [1, "\"}"]}}"#, "{}", r#"["x"]"#] {
            for mark in ["", "\u{feff}"] {
                let stdin = format!("{mark}{event}");
                let read = read(Open(stdin.as_bytes())).expect("it is whole");
                assert_eq!(String::from_utf8(read).expect("UTF-8"), event);
            }
        }
        let cut_within_characters = read(Open(b"{\"a\": \"\\ud83d\", \"b\": \"\xf0\x9f\"}"));
        let read_anyway = String::from_utf8(cut_within_characters.expect("it is whole"));
        assert_eq!(
            read_anyway.expect("UTF-8"),
            "{\"a\": \"\\ufffd\", \"b\": \"\u{fffd}\"}"
        );
        let cut = read(Open(br#"{"a": "b"#)).expect_err("it is not whole");
        assert_eq!(cut.to_string(), "nothing comes any more");
    }

    #[test]
    fn what_is_no_event_is_read_to_its_end() {
        for text in ["", "no {json} at all", r#"{"a": "#, "\u{fec0}x", "{} and more"] {
            let read = read(text.as_bytes()).expect("it ends");
            let expected = if text.starts_with("{}") { "{}" } else { text };
            assert_eq!(String::from_utf8(read).expect("UTF-8"), expected);
        }
    }
}

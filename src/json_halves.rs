//! Halves of characters that stand alone in a text of JSON: JavaScript writes one where it cuts a text within an emoji, and reads it again,
//! but the library that reads JSON here refuses it.

use std::borrow::Cow;

/// Returns a text as the library reads it, each byte in its place: a half of a character that stands alone is one that is unknown.
pub fn readable(text: &str) -> Cow<'_, str> {
    let half = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        let code = u16::from_str_radix(digits, 16).ok()?;
        Some((matches!(code, 0xd800..=0xdbff), matches!(code, 0xdc00..=0xdfff)))
    };
    let mut alone = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find('\\') {
        at += next;
        let is_low_at = |at| half(at).is_some_and(|(_, is_low)| is_low);
        at += match half(at) {
            Some((true, _)) if is_low_at(at + 6) => 12,
            Some((is_high, is_low)) => {
                if is_high || is_low {
                    alone.push(at);
                }
                6
            }
            // What is escaped may be a backslash, or of any length.
            None => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
    }
    if alone.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut readable = text.to_owned();
    for at in alone {
        readable.replace_range(at..at + 6, "\\ufffd");
    }
    Cow::Owned(readable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_that_stands_alone_is_read_as_an_unknown_character_and_all_else_as_it_is() {
        for (text, expected) in [
            (r#"{"a": "\ud83d"}"#, r#"{"a": "\ufffd"}"#),
            (r#"{"a": "\uDE00\ud83d x"}"#, r#"{"a": "\ufffd\ufffd x"}"#),
            (r#"{"a": "\ud83d\ud83d\ude00"}"#, r#"{"a": "\ufffd\ud83d\ude00"}"#),
            (r#"{"a": "\ud83d\n"}"#, r#"{"a": "\ufffd\n"}"#),
        ] {
            assert_eq!(readable(text), expected);
        }
        for whole in [
            r#"{"a": "\ud83d\ude00 \u00e4 \n"}"#,
            r#"{"a": "\\ud83d"}"#,
            "\\",
            "\\é\\u",
            "\\u12é",
        ] {
            assert!(matches!(readable(whole), Cow::Borrowed(_)), "{whole}");
        }
    }
}

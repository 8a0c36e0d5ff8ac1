//! What a person's terminal is shown of text that came from outside: all that is there can be seen, and nothing steers.
//!
//! Characters that cannot be seen are written as `\u{e0041}`; they hide words from a reader and not from a model, turn
//! text around, or are orders to the terminal. What they are a rightful part of stays whole: an emoji of several.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use unicode_properties::{GeneralCategory, UnicodeEmoji as _, UnicodeGeneralCategory as _};
use unicode_segmentation::UnicodeSegmentation as _;

/// How many code points may be shown as one character: more than the longest emoji has, which is a kiss with two skin
/// tones, of 10. A pile of accents is more than one character then.
const CLUSTER_CHARS_MAX: usize = 16;

/// Code points that are not to be seen although their category does not say so, and those that have no meaning yet and
/// will not be seen when they have one.
/// <https://www.unicode.org/Public/17.0.0/ucd/DerivedCoreProperties.txt>, `Default_Ignorable_Code_Point`
const IGNORABLE: [RangeInclusive<char>; 15] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fff8}',
    '\u{e0000}'..='\u{e0fff}',
];

const ZERO_WIDTH_JOINER: char = '\u{200d}';
const EMOJI_SELECTOR: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';
const BLACK_FLAG: char = '\u{1f3f4}';
const SKIN_TONES: RangeInclusive<char> = '\u{1f3fb}'..='\u{1f3ff}';
const TAG_END: char = '\u{e007f}';

/// Shows a text whole, line breaks too as what they are.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    pieces(text).for_each(|piece| show(piece, &mut shown));
    Cow::Owned(shown)
}

/// Shows a text of several lines, each as [`visible`] does.
pub(crate) fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Writes JSON so that a terminal can show it: what is beyond ASCII and cannot be seen is an escape, `\u202e`, which means the same.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    // Beyond ASCII, and as DEL, a character stands only in a string.
    let is_escaped = |c: char| c >= '\u{7f}' && is_invisible(c);
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + json.len() / 8);
    for c in json.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Shows the beginning of a text in one line, behind what is in `shown` already: line breaks and tabs are spaces, and what is
/// left out after so many characters is `...`. A character is what a reader takes for one, or one code point that cannot be
/// seen.
pub(crate) fn preview(text: &str, characters_max: usize, shown: &mut String) {
    let bytes = text.as_bytes();
    if is_plain(&bytes[..bytes.len().min(characters_max + 1)]) {
        match text.get(..characters_max) {
            Some(head) if text.len() > characters_max => {
                shown.push_str(head);
                shown.push_str("...");
            }
            Some(_) | None => shown.push_str(text),
        }
        return;
    }
    // Two characters more than can be shown, so that an endless one at the end is seen to be one.
    let window = text.char_indices().nth((characters_max + 2) * CLUSTER_CHARS_MAX);
    let text = window.map_or(text, |(end, _)| &text[..end]);
    for (count, piece) in pieces(text).enumerate() {
        if count == characters_max {
            shown.push_str("...");
            break;
        }
        match piece {
            "\n" | "\r" | "\r\n" | "\t" | "\u{2028}" | "\u{2029}" => shown.push(' '),
            piece => show(piece, shown),
        }
    }
}

/// Tells whether all bytes are ASCII that can be seen, as most are.
fn is_plain(bytes: &[u8]) -> bool {
    // Without a way out before the end the compiler takes many bytes at a time.
    bytes
        .iter()
        .fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'))
}

/// Writes one piece of a text.
fn show(piece: &str, shown: &mut String) {
    let mut chars = piece.chars();
    let is_one = chars.next().is_some() && chars.next().is_none();
    if is_one || piece == "\r\n" {
        for c in piece.chars() {
            if is_invisible(c) {
                let _ = write!(shown, "{}", c.escape_unicode());
            } else {
                shown.push(c);
            }
        }
    } else {
        shown.push_str(piece);
    }
}

/// Takes a text apart into what a reader takes for one character each
/// (<https://www.unicode.org/reports/tr29/#Grapheme_Cluster_Boundaries>), and those of which a part cannot be seen into
/// their code points.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.graphemes(true).flat_map(|cluster| {
        let whole = if is_whole(cluster) { cluster.len() } else { 0 };
        let (whole, apart) = cluster.split_at(whole);
        let apart = apart.char_indices().map(|(at, c)| &apart[at..at + c.len_utf8()]);
        Some(whole)
            .filter(|whole| !whole.is_empty())
            .into_iter()
            .chain(apart)
    })
}

fn is_whole(cluster: &str) -> bool {
    let is_short = cluster.chars().nth(CLUSTER_CHARS_MAX).is_none();
    is_short && (!cluster.chars().any(is_invisible) || cluster == "\r\n" || is_emoji(cluster))
}

/// Tells whether a character cannot be seen, or is none.
fn is_invisible(c: char) -> bool {
    matches!(
        c.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::Unassigned
    ) || IGNORABLE.iter().any(|range| range.contains(&c))
}

/// Tells whether a cluster is an emoji of several code points that is put together as it should be: a keycap, the flag
/// of a region, or pictures joined to one, each with its selector or skin tone.
/// <https://www.unicode.org/reports/tr51/#Emoji_Sequences>
fn is_emoji(cluster: &str) -> bool {
    if let Some(region) = cluster.strip_prefix(BLACK_FLAG)
        && let Some(region) = region.strip_suffix(TAG_END)
    {
        return is_region(region);
    }
    let mut chars = cluster.chars();
    if chars.next().is_some_and(|c| matches!(c, '0'..='9' | '#' | '*')) {
        return chars.eq([EMOJI_SELECTOR, KEYCAP]);
    }
    cluster.split(ZERO_WIDTH_JOINER).all(is_picture)
}

/// Tells whether tag characters name a part of a country, `gbsct`: two letters, then one to four letters or digits.
fn is_region(tags: &str) -> bool {
    let tag = |c: char| char::from_u32(u32::from(c).wrapping_sub(0xe_0000));
    let count = tags.chars().count();
    (3..=6).contains(&count)
        && tags
            .chars()
            .enumerate()
            .all(|(at, c)| tag(c).is_some_and(|c| c.is_ascii_lowercase() || (at >= 2 && c.is_ascii_digit())))
}

/// Tells whether a part of an emoji is one picture.
fn is_picture(part: &str) -> bool {
    let mut chars = part.chars();
    let is_base = chars.next().is_some_and(|c| c.is_emoji_char() && !c.is_ascii());
    let is_modified = chars
        .next()
        .is_none_or(|c| c == EMOJI_SELECTOR || SKIN_TONES.contains(&c));
    is_base && is_modified && chars.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(text: &str, characters_max: usize) -> String {
        let mut shown = String::new();
        super::preview(text, characters_max, &mut shown);
        shown
    }

    /// What stays as it is: scripts with marks, and each way in which an emoji is put together.
    const WHOLE: [&str; 18] = [
        "ASCII ~ and \\ and \"",
        "é e\u{301} ñ ü",
        "हिन्दी",
        "한국어 日本語 العربية עברית ไทย",
        "a\u{a0}b\u{3000}c",
        "→ — … ✓ ∀",
        "🦀",
        "👍🏽",
        "👩‍👩‍👧‍👦",
        "👩🏽‍❤️‍💋‍👨🏿",
        "🧑‍⚕️",
        "❤️",
        "🏳️‍🌈",
        "🏴‍☠️",
        "🇩🇪🇫🇷",
        "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
        "1️⃣#️⃣*️⃣",
        "©️ ™️",
    ];

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        for text in WHOLE {
            assert_eq!(visible(text), text);
            assert_eq!(preview(text, 60), text);
        }
    }

    #[test]
    fn a_flag_of_tags_is_one_whose_first_two_are_letters() {
        let flag = |tags: &str| {
            let tag = |c| char::from_u32(0xe_0000 + u32::from(c)).expect("a tag");
            let tags: String = tags.chars().map(tag).collect();
            format!("🏴{tags}\u{e007f}")
        };
        for (tags, is_one) in [
            ("usca", true),
            ("fr75", true),
            ("1fr", false),
            ("f1r", false),
            ("fr", false),
        ] {
            let flag = flag(tags);
            assert_eq!(visible(&flag) == flag, is_one, "{tags}");
        }
    }

    #[test]
    fn whatever_cannot_be_seen_is_escaped() {
        let ranges = [
            0x00..=0x1f,
            0x7f..=0x9f,
            0xad..=0xad,
            0x34f..=0x34f,
            0x61c..=0x61c,
            0x115f..=0x1160,
            0x17b4..=0x17b5,
            0x180b..=0x180f,
            0x200b..=0x200f,
            0x2028..=0x202e,
            0x2060..=0x206f,
            0x3164..=0x3164,
            0xfe00..=0xfe0f,
            0xfeff..=0xfeff,
            0xffa0..=0xffa0,
            0xfff0..=0xfffb,
            0xfffe..=0xffff,
            0x1_bca0..=0x1_bca3,
            0x1_d173..=0x1_d17a,
            0xe_0000..=0xe_0fff,
            0x10_ffff..=0x10_ffff,
        ];
        for code in ranges.into_iter().flatten() {
            let c = char::from_u32(code).expect("a scalar value");
            for (before, after) in [("", ""), ("a", "b"), ("é", "é"), ("", "\u{301}")] {
                let text = format!("{before}{c}{after}");
                let expected = format!("{before}\\u{{{code:x}}}{after}");
                assert_eq!(visible(&text), expected, "U+{code:04X}");
            }
        }
    }

    #[test]
    fn nothing_hides_in_what_only_looks_like_an_emoji() {
        for (text, expected) in [
            ("a\u{200d}b", "a\\u{200d}b"),
            ("👩\u{200d}", "👩\\u{200d}"),
            ("👩\u{200d}a", "👩\\u{200d}a"),
            ("👩\u{200d}\u{200d}👩", "👩\\u{200d}\\u{200d}👩"),
            ("a\u{fe0f}", "a\\u{fe0f}"),
            ("1\u{fe0f}", "1\\u{fe0f}"),
            ("a\u{fe0f}\u{20e3}", "a\\u{fe0f}\u{20e3}"),
            ("❤\u{fe0f}\u{fe0f}", "❤\\u{fe0f}\\u{fe0f}"),
            ("❤\u{fe0e}", "❤\\u{fe0e}"),
            // A tag sequence that is not ended, is no region, or is on another base.
            (
                "🏴\u{e0067}\u{e0062}\u{e0073}",
                "🏴\\u{e0067}\\u{e0062}\\u{e0073}",
            ),
            (
                "🏴\u{e0067}\u{e0062}\u{e007f}",
                "🏴\\u{e0067}\\u{e0062}\\u{e007f}",
            ),
            (
                "🏴\u{e0067}\u{e0020}\u{e0062}\u{e007f}",
                "🏴\\u{e0067}\\u{e0020}\\u{e0062}\\u{e007f}",
            ),
            (
                "🦀\u{e0067}\u{e0062}\u{e0073}\u{e007f}",
                "🦀\\u{e0067}\\u{e0062}\\u{e0073}\\u{e007f}",
            ),
            ("🇩\u{200d}🇪", "🇩\\u{200d}🇪"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
        let hidden: String = "ignore"
            .chars()
            .filter_map(|c| char::from_u32(0xe_0000 + u32::from(c)))
            .collect();
        assert_eq!(visible(&format!("ok{hidden}")).matches("\\u{e00").count(), 6);
        // Seven tags are no region.
        let flag = format!("🏴{hidden}\u{e0031}\u{e007f}");
        assert_eq!(visible(&flag).matches("\\u{e00").count(), 8);
    }

    #[test]
    fn a_preview_is_cut_between_characters_as_a_reader_counts_them() {
        for character in ["x", "é", "e\u{301}", "🦀", "👩🏽‍❤️‍💋‍👨🏿", "🇩🇪", "1️⃣", "हि"]
        {
            let whole = character.repeat(60);
            assert_eq!(preview(&whole, 60), whole);
            assert_eq!(preview(&format!("{whole}{character}"), 60), format!("{whole}..."));
            assert_eq!(preview(&character.repeat(100_000), 60), format!("{whole}..."));
        }
        // A mark that follows the sixtieth belongs to it.
        let marked = format!("{}e\u{301}", "x".repeat(59));
        assert_eq!(preview(&format!("{marked}y"), 60), format!("{marked}..."));
    }

    #[test]
    fn what_is_escaped_counts_one_each_and_a_pile_of_marks_does_too() {
        let escaped = |count| "\\u{1b}".repeat(count);
        assert_eq!(preview(&"\u{1b}".repeat(61), 60), format!("{}...", escaped(60)));
        let tags = format!("a{}", "\u{e0041}".repeat(100_000));
        assert_eq!(preview(&tags, 3), "a\\u{e0041}\\u{e0041}...");
        let pile = format!("a{}", "\u{301}".repeat(100_000));
        assert_eq!(preview(&pile, 3), "a\u{301}\u{301}...");
    }

    #[test]
    fn json_means_the_same_and_has_nothing_beyond_ascii_that_cannot_be_seen() {
        let hidden = [
            '\u{7f}', '\u{80}', '\u{85}', '\u{9b}', '\u{9f}', '\u{ad}', '\u{200f}', '\u{2028}',
        ];
        let more = [
            '\u{202a}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{e0041}',
            '\u{1d173}',
        ];
        for c in hidden.into_iter().chain(more) {
            let value = serde_json::json!({"body": format!("a{c}b\n\u{1b}é{c}"), "n": [1, true]});
            let json = value.to_string();
            let shown = visible_json(&json);
            assert!(!shown.contains(c), "U+{:04X}: {shown}", u32::from(c));
            let read: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
            assert_eq!(read, value);
        }
        assert_eq!(
            visible_json("{\"a\":\"\u{9b}2J\u{e0041}\"}"),
            r#"{"a":"\u009b2J\udb40\udc41"}"#
        );
        let plain = r#"{"a":"é 日本語 🦀\n"}"#;
        assert!(matches!(visible_json(plain), Cow::Borrowed(same) if same == plain));
    }

    #[test]
    fn line_breaks_are_spaces_in_a_preview_and_escaped_elsewhere() {
        assert_eq!(
            preview("a\nb\r\nc\rd\te\u{2028}f\u{2029}g\u{85}", 60),
            "a b c d e f g\\u{85}"
        );
        assert_eq!(visible("a\nb\r\nc"), "a\\u{a}b\\u{d}\\u{a}c");
        assert_eq!(visible_lines("a\nb\r\n\u{1b}[2J\n"), "a\nb\\u{d}\n\\u{1b}[2J\n");
    }

    #[test]
    fn a_flag_of_tags_has_three_to_six_of_them() {
        for (tags, is_one) in [("us", false), ("us1", true), ("usabc1", true), ("usabcd1", false)] {
            let tags = tags
                .chars()
                .filter_map(|c| char::from_u32(0xe_0000 + u32::from(c)));
            let flag = format!("🏴{}\u{e007f}", tags.collect::<String>());
            assert_eq!(visible(&flag) == flag, is_one, "{flag:?}");
        }
    }
}

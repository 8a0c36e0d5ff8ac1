//! Text as it fits into columns of a terminal. All of it came from outside: nothing leaves here that could steer.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr;

use crate::terminal::{preview, visible};

/// What a tab is shown as.
const TAB: &str = "    ";

/// Returns how many columns a text takes.
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Shows the first line of a text in which something is said.
pub fn first_line(text: &str, characters_max: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    let mut shown = String::new();
    preview(line.unwrap_or_default().trim(), characters_max, &mut shown);
    shown
}

/// Shows a text of several lines.
pub fn lines(text: &str) -> Vec<String> {
    text.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line).replace('\t', TAB))
        .map(|line| visible(&line).into_owned())
        .collect()
}

/// Cuts a text to so many columns, between words if one ends near there, and puts `…` for what is left out.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let head = head(text, columns.saturating_sub(1));
    let near = head.len() - head.len() / 3;
    let between = head.rfind(' ').filter(|space| *space >= near);
    let head = between.map_or(head, |space| &head[..space]).trim_end();
    Cow::Owned(if columns == 0 {
        String::new()
    } else {
        format!("{head}…")
    })
}

/// Cuts a name to so many columns, wherever that is: names have no words.
pub fn cut_name(name: &str, columns: usize) -> Cow<'_, str> {
    if width(name) <= columns {
        return Cow::Borrowed(name);
    }
    Cow::Owned(match columns {
        0 => String::new(),
        _ => format!("{}…", head(name, columns - 1)),
    })
}

/// Breaks a line into lines of at most so many columns: between words, and within those that are longer. What begins a line stands before
/// those that go on with it too.
pub fn wrap(line: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    if width(line) <= columns {
        return vec![line.to_owned()];
    }
    let indent = &line[..line.len() - line.trim_start().len()];
    let indent = if width(indent) * 2 < columns { indent } else { "" };
    let mut lines = Vec::new();
    let mut rest = line;
    loop {
        let before = if lines.is_empty() { "" } else { indent };
        let room = columns - width(before);
        if width(rest) <= room {
            lines.push(format!("{before}{rest}"));
            return lines;
        }
        let mut taken = head(rest, room);
        if taken.is_empty() {
            // One character that is wider than all there is.
            taken = rest.graphemes(true).next().unwrap_or(rest);
        }
        let ends_a_word = rest[taken.len()..].starts_with(' ');
        if !ends_a_word
            && let Some(space) = taken.rfind(' ')
            && !taken[..space].trim().is_empty()
        {
            taken = &taken[..space];
        }
        lines.push(format!("{before}{}", taken.trim_end()));
        rest = rest[taken.len()..].trim_start();
        if rest.is_empty() {
            return lines;
        }
    }
}

/// Returns the longest beginning that fits.
fn head(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    for (at, piece) in text.grapheme_indices(true) {
        taken += piece.width();
        if taken > columns {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_words_and_a_name_where_the_room_ends() {
        assert_eq!(cut("Task P4 DONE, last commit", 25), "Task P4 DONE, last commit");
        assert_eq!(cut("Task P4 DONE, last commit", 24), "Task P4 DONE, last…");
        assert_eq!(cut("Task P4 DONE, last commit", 4), "Tas…");
        assert_eq!(cut("averylongwordindeed", 8), "averylo…");
        assert_eq!(cut("語語語", 5), "語語…");
        assert_eq!(cut("x", 0), "");
        assert_eq!(cut_name("a name", 4), "a n…");
    }

    #[test]
    fn a_line_is_wrapped_between_words_and_goes_on_under_its_beginning() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(wrap("    one two", 7), ["    one", "two"]);
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrap("語語語", 4), ["語語", "語"]);
        assert_eq!(wrap("語語", 1), ["語", "語"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("trailing      ", 9), ["trailing"]);
    }

    #[test]
    fn nothing_that_steers_is_left_in_a_text() {
        assert_eq!(
            lines("a\tb\r\n\u{1b}[2Jc\u{202e}"),
            ["a    b", "\\u{1b}[2Jc\\u{202e}"]
        );
        assert_eq!(first_line("\n \n  one\u{7}\ttwo\nthree", 40), "one\\u{7} two");
    }
}

//! What the person writes: a text with a cursor in it. One of one line has no line breaks, whatever is pasted.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a terminal knows more keys than are used here"
)]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation as _;

/// Most bytes of what is written: more than any relay takes is not pasted by intent.
const BYTES_MAX: usize = 1024 * 1024;

/// A text that is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    /// Before which byte the cursor stands, between characters.
    at: usize,
    has_lines: bool,
}

impl Line {
    /// Begins with some text, and the cursor behind it.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: text.len(),
            has_lines: false,
        }
    }

    /// Begins one of several lines.
    pub fn with_lines() -> Self {
        Self {
            has_lines: true,
            ..Self::default()
        }
    }

    /// Returns what is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what stands before the cursor.
    pub fn before(&self) -> &str {
        &self.text[..self.at]
    }

    /// Returns what stands behind the cursor.
    pub fn behind(&self) -> &str {
        &self.text[self.at..]
    }

    /// Puts a text where the cursor is. Of what does not fit, nothing is taken.
    pub fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = if self.has_lines {
            text
        } else {
            text.replace('\n', " ")
        };
        if self.text.len() + text.len() > BYTES_MAX {
            return;
        }
        self.text.insert_str(self.at, &text);
        self.at += text.len();
    }

    /// Takes a key that writes or moves the cursor; tells whether it is one.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => self.take_from(self.line_start()),
            KeyCode::Char('w') if control => self.take_from(self.word_start()),
            KeyCode::Char('a') if control => self.at = self.line_start(),
            KeyCode::Char('e') if control => self.at = self.line_end(),
            KeyCode::Char('h') if control => self.take_from(self.previous()),
            KeyCode::Char('j') if control && self.has_lines => self.insert("\n"),
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.insert(c.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace => self.take_from(self.previous()),
            KeyCode::Delete => {
                let next = self.next();
                self.text.replace_range(self.at..next, "");
            }
            KeyCode::Left => self.at = self.previous(),
            KeyCode::Right => self.at = self.next(),
            KeyCode::Home => self.at = self.line_start(),
            KeyCode::End => self.at = self.line_end(),
            _ => return false,
        }
        true
    }

    fn take_from(&mut self, start: usize) {
        self.text.replace_range(start..self.at, "");
        self.at = start;
    }

    fn previous(&self) -> usize {
        let last = self.before().grapheme_indices(true).next_back();
        last.map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        let next = self.behind().graphemes(true).next();
        self.at + next.map_or(0, str::len)
    }

    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.behind()
            .find('\n')
            .map_or(self.text.len(), |at| self.at + at)
    }

    fn word_start(&self) -> usize {
        let before = self.before().trim_end();
        let space = before.char_indices().rfind(|(_, c)| c.is_whitespace());
        space.map_or(0, |(at, c)| at + c.len_utf8())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(line: &mut Line, keys: &[(KeyCode, KeyModifiers)]) {
        for (code, modifiers) in keys {
            assert!(line.press(KeyEvent::new(*code, *modifiers)), "{code:?}");
        }
    }

    #[test]
    fn what_is_written_is_changed_where_the_cursor_is_character_by_character() {
        const PLAIN: KeyModifiers = KeyModifiers::NONE;
        const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
        let mut line = Line::new("a👩‍👩‍👧‍👦c");
        pressed(&mut line, &[(KeyCode::Left, PLAIN), (KeyCode::Backspace, PLAIN)]);
        assert_eq!((line.before(), line.behind()), ("a", "c"));
        pressed(
            &mut line,
            &[(KeyCode::Char('b'), PLAIN), (KeyCode::Char(' '), PLAIN)],
        );
        assert_eq!(line.text(), "ab c");
        pressed(&mut line, &[(KeyCode::End, PLAIN), (KeyCode::Char('w'), CONTROL)]);
        assert_eq!(line.text(), "ab ");
        pressed(&mut line, &[(KeyCode::Home, PLAIN), (KeyCode::Delete, PLAIN)]);
        assert_eq!(line.text(), "b ");
        pressed(&mut line, &[(KeyCode::End, PLAIN), (KeyCode::Char('u'), CONTROL)]);
        assert_eq!(line.text(), "");
        assert!(!line.press(KeyEvent::new(KeyCode::Up, PLAIN)));
    }

    #[test]
    fn the_keys_of_a_shell_go_to_either_end_and_take_what_is_before_the_cursor() {
        let mut line = Line::new("ab");
        let press = |line: &mut Line, key| pressed(line, &[(KeyCode::Char(key), KeyModifiers::CONTROL)]);
        press(&mut line, 'a');
        assert_eq!((line.before(), line.behind()), ("", "ab"));
        press(&mut line, 'e');
        assert_eq!((line.before(), line.behind()), ("ab", ""));
        press(&mut line, 'h');
        assert_eq!((line.before(), line.behind()), ("a", ""));
        assert!(!line.press(KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL)));
        for key in ['a', 'e', 'h', 'j', 'u', 'w'] {
            let before = line.text().to_owned();
            pressed(&mut line, &[(KeyCode::Char(key), KeyModifiers::NONE)]);
            assert_eq!(line.text(), format!("{before}{key}"));
        }
    }

    #[test]
    fn a_paste_has_line_breaks_only_where_there_are_lines() {
        let mut one = Line::default();
        one.insert("a\r\nb\rc");
        assert_eq!(one.text(), "a b c");
        let mut several = Line::with_lines();
        several.insert("a\r\nb\rc");
        assert_eq!(several.text(), "a\nb\nc");
        pressed(
            &mut several,
            &[
                (KeyCode::Char('a'), KeyModifiers::CONTROL),
                (KeyCode::Char('j'), KeyModifiers::CONTROL),
            ],
        );
        assert_eq!(several.text(), "a\nb\n\nc");
        let before = several.text().to_owned();
        several.insert(&"x".repeat(BYTES_MAX));
        assert_eq!(several.text(), before);
    }

    #[test]
    fn a_word_is_taken_with_the_spaces_behind_it_and_each_line_has_its_own_ends() {
        let plain = |code| (code, KeyModifiers::NONE);
        let mut line = Line::new("one two  ");
        pressed(&mut line, &[(KeyCode::Char('w'), KeyModifiers::CONTROL)]);
        assert_eq!(line.text(), "one ");
        let mut line = Line::with_lines();
        line.insert("ab\ncd\nef");
        for (key, before) in [
            (KeyCode::Home, "ab\ncd\n"),
            (KeyCode::Left, "ab\ncd"),
            (KeyCode::Home, "ab\n"),
            (KeyCode::End, "ab\ncd"),
            (KeyCode::Right, "ab\ncd\n"),
            (KeyCode::End, "ab\ncd\nef"),
        ] {
            pressed(&mut line, &[plain(key)]);
            assert_eq!(line.before(), before, "{key:?}");
        }
    }

    #[test]
    fn the_arrows_go_by_a_character_as_it_is_seen_and_no_further_than_the_text() {
        let mut line = Line::new("a👩‍👩‍👧‍👦c");
        let mut before = |key| {
            pressed(&mut line, &[(key, KeyModifiers::NONE)]);
            line.before().to_owned()
        };
        assert_eq!(before(KeyCode::Home), "");
        let right = [(); 4].map(|()| before(KeyCode::Right));
        assert_eq!(right, ["a", "a👩‍👩‍👧‍👦", "a👩‍👩‍👧‍👦c", "a👩‍👩‍👧‍👦c"]);
        assert_eq!(before(KeyCode::Left), "a👩‍👩‍👧‍👦");
    }
}

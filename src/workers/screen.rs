//! What a terminal shows of what a program writes: its screen, and the lines that have left it at the top.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use vt100::capture::{BasicFormattedCaptureState, RowContents, basic_formatted_to_plain};

use super::limits::{
    KEPT_LINES, KITTY_KEYS_MAX, LAST_LINE_CHARACTERS, LAST_LINES, LINE_BYTES_MAX, SIDE_MAX, SIZED_CELLS,
    SIZED_CELLS_A_BYTE,
};
use crate::terminal::preview;

/// A terminal that nobody sits at. It answers what programs ask their terminal: without that some do not begin.
pub struct Screen {
    parser: vt100::Parser<Above>,
}

/// What is above the screen.
#[derive(Clone)]
struct Above {
    /// Lines, the last of which may go on.
    lines: VecDeque<String>,
    /// The next row begins another line.
    ended: bool,
    lines_max: usize,
    /// What the program is to be answered.
    answers: Vec<u8>,
    /// Which of kitty's keys it wants, in the order in which it said so.
    keys: Vec<u16>,
    /// The size that it wants its terminal to have.
    wanted: Option<(u16, u16)>,
}

impl Above {
    fn push(&mut self, text: &str, goes_on: bool) {
        // A program that never ends its line has it ended here.
        let goes_on_before = |last: &&mut String| !self.ended && last.len() < LINE_BYTES_MAX;
        match self.lines.back_mut().filter(goes_on_before) {
            Some(last) => last.push_str(text),
            None => self.lines.push_back(text.to_owned()),
        }
        self.ended = !goes_on;
        if self.lines.len() > self.lines_max {
            self.lines.pop_front();
        }
    }
}

impl vt100::Callbacks for Above {
    fn on_scroll(&mut self, row: RowContents<'_>, is_alternate: bool) {
        if is_alternate {
            return;
        }
        let mut state = BasicFormattedCaptureState::new();
        let mut text = String::new();
        // The second one is empty, and tells whether the line has ended.
        let mut written = row.write_formatted_basic(&mut text, &mut state);
        let length = text.len();
        written = written.and_then(|()| row.write_formatted_basic(&mut text, &mut state));
        let goes_on = written.is_ok() && !text[length..].starts_with('\n');
        text.truncate(length);
        let plain: String = basic_formatted_to_plain(&text).collect();
        self.push(plain.trim_end(), goes_on);
    }

    fn resize(&mut self, _: &mut vt100::Screen, wanted: (u16, u16)) {
        self.wanted = Some(wanted);
    }

    /// Answers where the cursor is, that all is well, that this is a VT100 with what it had, which one it is, and which of kitty's keys are
    /// wanted of it: whatever a program has asked for, though keys come as they always did.
    /// <https://vt100.net/docs/vt510-rm/chapter4.html>, <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        let param = |at: usize| params.get(at).and_then(|param| param.first()).copied();
        let answer = match (first, param(0).unwrap_or_default(), c) {
            (None, 5, 'n') => "\u{1b}[0n".to_owned(),
            (None, 6, 'n') => {
                let (row, col) = screen.cursor_position();
                format!("\u{1b}[{};{}R", row + 1, col + 1)
            }
            (None, 0, 'c') => "\u{1b}[?1;2c".to_owned(),
            (Some(b'>'), 0, 'c') => "\u{1b}[>0;0;0c".to_owned(),
            (Some(b'?'), _, 'u') => format!("\u{1b}[?{}u", self.keys.last().unwrap_or(&0)),
            (Some(b'>'), keys, 'u') => {
                if self.keys.len() == KITTY_KEYS_MAX {
                    self.keys.remove(0);
                }
                return self.keys.push(keys);
            }
            (Some(b'<'), count, 'u') => {
                let left = self.keys.len().saturating_sub(usize::from(count.max(1)));
                return self.keys.truncate(left);
            }
            (Some(b'='), keys, 'u') => {
                let was = self.keys.pop().unwrap_or_default();
                let keys = match param(1) {
                    Some(2) => was | keys,
                    Some(3) => was & !keys,
                    Some(_) | None => keys,
                };
                return self.keys.push(keys);
            }
            (_, _, _) => return,
        };
        self.answers.extend_from_slice(answer.as_bytes());
    }

    /// Answers which colors it has: light text on black, as most terminals of those who program.
    /// <https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h3-Operating-System-Commands>
    fn unhandled_osc(&mut self, _: &mut vt100::Screen, params: &[&[u8]]) {
        let [first, asked @ ..] = params else { return };
        // Each further question is about the next number.
        let first = match *first {
            b"10" => 10,
            b"11" => 11,
            b"12" => 12,
            _ => return,
        };
        for (number, asked) in (first..=12).zip(asked) {
            let color = if number == 11 {
                "0000/0000/0000"
            } else {
                "ffff/ffff/ffff"
            };
            if *asked == b"?" {
                let answer = format!("\u{1b}]{number};rgb:{color}\u{1b}\\");
                self.answers.extend_from_slice(answer.as_bytes());
            }
        }
    }
}

/// Takes a length of a side that a terminal can have.
fn side(length: u16) -> NonZeroU16 {
    NonZeroU16::new(length.min(SIDE_MAX)).unwrap_or(NonZeroU16::MIN)
}

impl Screen {
    /// An empty one of so many rows and columns.
    pub fn new(size: (u16, u16)) -> Self {
        Self::keeping(size, KEPT_LINES)
    }

    fn keeping((rows, cols): (u16, u16), lines_max: usize) -> Self {
        let above = Above {
            lines: VecDeque::new(),
            ended: true,
            lines_max,
            answers: Vec::new(),
            keys: Vec::new(),
            wanted: None,
        };
        let parser = vt100::Parser::new_with_callbacks(side(rows), side(cols), 0, above);
        Self { parser }
    }

    /// Takes what the program writes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
    }

    /// Has another size from now on.
    pub fn resize(&mut self, (rows, cols): (u16, u16)) {
        self.parser.set_size(side(rows), side(cols));
    }

    /// Takes what the program is to be answered.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().answers)
    }

    /// Returns what it shows now.
    pub fn shown(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Returns all lines that are kept, and those on the screen; without the empty ones at the end.
    fn lines(&self) -> Vec<String> {
        let shown = self.parser.screen();
        let (_, cols) = shown.size();
        let mut above = self.parser.callbacks().clone();
        above.lines_max = usize::MAX;
        for (text, row) in shown.rows(0, cols.get()).zip(0..) {
            above.push(text.trim_end(), shown.row_wrapped(row));
        }
        let mut lines: Vec<String> = above.lines.into();
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        lines
    }

    /// Returns the last lines, as a person may be shown them. Of blank ones that follow each other there is one: a screen that is drawn at its
    /// lower end is blank above that.
    pub fn last_lines(&self) -> Vec<String> {
        let mut lines = self.lines();
        let is_blank = |line: &str| line.trim().is_empty();
        lines.dedup_by(|line, before| is_blank(line) && is_blank(before));
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        let shown = |line: &String| {
            let mut shown = String::new();
            preview(line, LAST_LINE_CHARACTERS, &mut shown);
            shown
        };
        last.iter().map(shown).collect()
    }
}

/// What a log shows, as far as it was read: by a terminal of the size that it tells itself.
///
/// A size takes as long as it has cells. Of several that follow each other the last counts, and where a log has far more of them than text,
/// some are passed over: it is read in a time that grows with its length.
pub(crate) struct Transcript {
    screen: Screen,
    /// The size that it has from what is written next on.
    size: Option<(u16, u16)>,
    /// How many cells may be given to other sizes.
    cells: u64,
}

impl Transcript {
    /// Of which nothing was read yet.
    pub fn new() -> Self {
        Self {
            screen: Screen::keeping((24, 80), usize::MAX),
            size: None,
            cells: SIZED_CELLS,
        }
    }

    /// Reads on.
    pub fn write(&mut self, log: &[u8]) {
        // A size counts from where it is told.
        for part in log.split_inclusive(|byte| *byte == b't') {
            self.cells += SIZED_CELLS_A_BYTE * part.len() as u64;
            if !is_size(part) {
                self.resize();
            }
            self.screen.write(part);
            let wanted = &mut self.screen.parser.callbacks_mut().wanted;
            self.size = wanted.take().or(self.size);
        }
        self.resize();
    }

    fn resize(&mut self) {
        let Some(size) = self.size else { return };
        let (rows, cols) = (side(size.0), side(size.1));
        let shown = self.screen.shown().size();
        let cells = u64::from(rows.get()) * u64::from(cols.get())
            + u64::from(shown.0.get()) * u64::from(shown.1.get());
        if cells <= self.cells {
            self.cells -= cells;
            self.screen.resize(size);
            self.size = None;
        }
    }

    /// Returns the lines that it shows, but for those that are [gone](Self::let_go); without the empty ones at the end.
    pub fn lines(&self) -> Vec<String> {
        self.screen.lines()
    }

    /// Tells whether the last of the lines may still be being written: the cursor is in it.
    pub fn is_in_last_line(&self) -> bool {
        let shown = self.screen.shown();
        let (_, cols) = shown.size();
        let is_written = |(_, text): &(u16, String)| !text.trim().is_empty();
        let last = (0..).zip(shown.rows(0, cols.get())).filter(is_written).last();
        last.is_some_and(|(row, _)| row == shown.cursor_position().0)
    }

    /// Keeps no more of its first lines, at the most so many, that have left the screen and will not change. Returns how many that were.
    pub fn let_go(&mut self, most: usize) -> usize {
        let above = self.screen.parser.callbacks_mut();
        let whole = above.lines.len().saturating_sub(usize::from(!above.ended));
        let count = whole.min(most);
        drop(above.lines.drain(..count));
        count
    }
}

/// Tells whether a part of a log does nothing but say a size, as the log itself and programs do.
fn is_size(part: &[u8]) -> bool {
    let sides = part
        .strip_prefix(b"\x1b[8;")
        .and_then(|rest| rest.strip_suffix(b"t"));
    sides.is_some_and(|sides| sides.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';')))
}

/// Returns the lines that a log shows when it is read from its beginning.
#[cfg(test)]
pub(super) fn lines_of(log: &[u8]) -> Vec<String> {
    let mut transcript = Transcript::new();
    transcript.write(log);
    transcript.lines()
}

/// Turns the line ends of a program without a terminal into those that a terminal takes.
pub fn with_returns(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() + bytes.len() / 16);
    for byte in bytes {
        if *byte == b'\n' {
            text.push(b'\r');
        }
        text.push(*byte);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Vec<String> {
        lines_of(text.as_bytes())
    }

    #[test]
    fn of_the_lines_above_the_screen_no_more_are_kept_than_may_be() {
        let mut screen = Screen::keeping((2, 10), 3);
        screen.write(b"1\r\n2\r\n3\r\n4\r\n5\r\n6");
        assert_eq!(screen.lines(), ["2", "3", "4", "5", "6"]);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "what took 95 s is to take no more than a moment"
    )]
    fn a_log_of_nothing_but_sizes_is_read_as_fast_as_one_of_text() {
        for (one, other) in [("", ""), ("x", "y")] {
            let sizes = format!("\u{1b}[8;1000;1000t{one}\u{1b}[8;24;80t{other}");
            let mut text = sizes.repeat(440_000 / sizes.len());
            text.push_str("\r\nthe end\u{1b}[8;24;80t");
            let started = std::time::Instant::now();
            let lines = log(&text);
            assert_eq!(lines.last().map(String::as_str), Some("the end"));
            assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        }
    }

    #[test]
    fn the_more_text_a_log_has_the_more_sizes_are_followed() {
        let mut transcript = Transcript::new();
        transcript.cells = 0;
        let cols = |transcript: &Transcript| transcript.screen.shown().size().1.get();
        transcript.write(b"\x1b[8;24;81t");
        assert_eq!(cols(&transcript), 80);
        transcript.write(&[b'x'; 300]);
        assert_eq!(cols(&transcript), 81);
        let left = SIZED_CELLS_A_BYTE * 310 - 24 * (80 + 81);
        assert_eq!((transcript.cells, transcript.size), (left, None));
    }

    #[test]
    fn of_sizes_that_follow_each_other_the_last_counts_and_from_where_it_is_told() {
        let mut transcript = Transcript::new();
        for (text, cols) in [
            ("\u{1b}[8;2;4t\u{1b}[8;2;6t", 6),
            ("\u{1b}[8;2;", 6),
            ("5t", 5),
            ("x\u{1b}[8;2;7t", 7),
        ] {
            transcript.write(text.as_bytes());
            assert_eq!(transcript.screen.shown().size().1.get(), cols, "{text:?}");
        }
        let lines = log("\u{1b}[8;2;4t\u{1b}[8;2;6tabcdef\r\n1\r\n2");
        assert_eq!(lines, ["abcdef", "1", "2"]);
    }

    #[test]
    fn a_log_is_read_as_its_terminal_showed_it() {
        for (text, lines) in [
            ("", vec![]),
            ("\u{1b}_relay log 7 0\u{1b}\\first", vec!["first"]),
            ("one\r\ntwo\r\n\r\n", vec!["one", "two"]),
            (
                "\u{1b}[1mbold\u{1b}[0m \u{1b}]0;title\u{7}text",
                vec!["bold text"],
            ),
            ("working 1\rworking 2\rdone     \r\n", vec!["done"]),
            (
                "\u{1b}[8;2;4tabcdef\r\n1\r\n2\r\n3",
                vec!["abcdef", "1", "2", "3"],
            ),
        ] {
            assert_eq!(log(text), lines, "{text:?}");
        }
        let many: Vec<String> = (0..1_000).map(|line| line.to_string()).collect();
        assert_eq!(log(&many.join("\r\n")), many);
    }

    #[test]
    fn a_log_that_is_read_bit_by_bit_shows_the_same_and_what_is_let_go_is_not_kept() {
        let many: Vec<String> = (0..300).map(|line| format!("\u{1b}[1mline {line} too")).collect();
        let text = format!("\u{1b}[8;5;9t{}", many.join("\r\n"));
        let expected = log(&text);
        let (mut transcript, mut gone) = (Transcript::new(), Vec::new());
        for part in text.as_bytes().chunks(7) {
            transcript.write(part);
            let lines = transcript.lines();
            let count = transcript.let_go(lines.len().min(2));
            gone.extend(lines.into_iter().take(count));
            assert!(transcript.lines().len() <= 20);
        }
        gone.extend(transcript.lines());
        assert_eq!(gone, expected);
    }

    #[test]
    fn a_line_in_which_the_cursor_is_may_be_being_written() {
        for (text, is_open) in [
            ("", false),
            ("one", true),
            ("one\r", true),
            ("one\r\n", false),
            ("one\r\ntwo", true),
            ("one\r\ntwo\u{1b}[H", false),
        ] {
            let mut transcript = Transcript::new();
            transcript.write(text.as_bytes());
            assert_eq!(transcript.is_in_last_line(), is_open, "{text:?}");
        }
    }

    #[test]
    fn what_a_program_shows_on_a_screen_of_its_own_goes_with_it() {
        let lines = log("before\r\n\u{1b}[?1049h\u{1b}[Hwhole\r\nscreen\u{1b}[?1049lafter\r\n");
        assert_eq!(lines, ["before", "after"]);
    }

    #[test]
    fn the_last_lines_are_few_and_short_and_steer_nothing() {
        let mut screen = Screen::new((10, 80));
        for line in 0..100 {
            screen.write(format!("\u{1b}[31mline {line}\u{202e}\r\n").as_bytes());
        }
        screen.write("x".repeat(1_000).as_bytes());
        let lines = screen.last_lines();
        assert_eq!(lines.len(), LAST_LINES);
        assert_eq!(lines[18], "line 99\\u{202e}");
        assert_eq!(lines[19], format!("{}...", "x".repeat(LAST_LINE_CHARACTERS)));
    }

    #[test]
    fn what_is_blank_on_a_screen_takes_the_place_of_no_last_line() {
        let mut screen = Screen::new((50, 80));
        screen.write(b"the task\x1b[45;1Hthe state\r\nthe prompt");
        assert_eq!(screen.last_lines(), ["the task", "", "the state", "the prompt"]);
    }

    #[test]
    fn a_line_without_an_end_is_ended() {
        let mut screen = Screen::new((24, 80));
        for _ in 0..64 {
            screen.write(&[b'x'; 4 * 1024]);
        }
        let lines = screen.lines();
        assert!(lines.len() > 8, "{}", lines.len());
        assert!(lines.iter().all(|line| line.len() < LINE_BYTES_MAX + 4 * 1024));
    }

    #[test]
    fn a_program_is_answered_what_it_asks_its_terminal() {
        let mut screen = Screen::new((24, 80));
        screen.write(b"ab\r\nc\x1b[6n\x1b[c\x1b[5n");
        assert_eq!(screen.take_answers(), b"\x1b[2;2R\x1b[?1;2c\x1b[0n");
        assert_eq!(screen.take_answers(), b"");
        for (asked, answer) in [
            ("\x1b[>c", "\x1b[>0;0;0c"),
            ("\x1b[>0c", "\x1b[>0;0;0c"),
            ("\x1b]10;?\x07", "\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
            ("\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
            (
                "\x1b]10;?;?\x1b\\",
                "\x1b]10;rgb:ffff/ffff/ffff\x1b\\\x1b]11;rgb:0000/0000/0000\x1b\\",
            ),
            (
                "\x1b]11;?;?\x1b\\",
                "\x1b]11;rgb:0000/0000/0000\x1b\\\x1b]12;rgb:ffff/ffff/ffff\x1b\\",
            ),
            ("\x1b]12;?;?\x07", "\x1b]12;rgb:ffff/ffff/ffff\x1b\\"),
            // It is told another color, which is no question.
            ("\x1b]11;#fff\x07", ""),
            ("\x1b]4;1;?\x07", ""),
            ("\x1b[?u", "\x1b[?0u"),
            ("\x1b[>5u\x1b[?u", "\x1b[?5u"),
            ("\x1b[>1u\x1b[?u", "\x1b[?1u"),
            ("\x1b[=2;2u\x1b[?u", "\x1b[?3u"),
            ("\x1b[=1;3u\x1b[?u", "\x1b[?2u"),
            ("\x1b[=8u\x1b[?u", "\x1b[?8u"),
            ("\x1b[<u\x1b[?u", "\x1b[?5u"),
            ("\x1b[<9u\x1b[?u", "\x1b[?0u"),
        ] {
            screen.write(asked.as_bytes());
            let answers = String::from_utf8(screen.take_answers()).expect("it is text");
            assert_eq!(answers, answer, "{asked:?}");
        }
        screen.write("\x1b[>1u".repeat(1_000).as_bytes());
        assert_eq!(screen.parser.callbacks().keys.len(), KITTY_KEYS_MAX);
        let wanted: String = (1..=20).map(|keys| format!("\u{1b}[>{keys}u")).collect();
        screen.write(format!("{wanted}\u{1b}[<15u\u{1b}[?u").as_bytes());
        assert_eq!(screen.take_answers(), b"\x1b[?5u", "the first ones are forgotten");
    }

    #[test]
    fn whatever_is_written_is_taken() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let mut screen = Screen::new((random.u16(0..40), random.u16(0..100)));
            for _ in 0..20 {
                let mut bytes = Vec::new();
                for _ in 0..200 {
                    bytes.push(match random.u8(0..4) {
                        0 => 0x1b,
                        1 => random.u8(b'['..b'~'),
                        2 => random.u8(b'0'..b'<'),
                        _ => random.u8(..),
                    });
                }
                screen.write(&bytes);
                screen.resize((random.u16(..), random.u16(0..200)));
            }
            drop(screen.last_lines());
        }
    }

    #[test]
    fn what_scrolls_on_a_screen_of_its_own_is_no_line_of_the_log() {
        let many = "gone\r\n".repeat(100);
        let lines = log(&format!("before\r\n\u{1b}[?1049h{many}\u{1b}[?1049lafter\r\n"));
        assert_eq!(lines, ["before", "after"]);
    }

    #[test]
    fn a_last_line_of_300_characters_is_shown_whole() {
        let mut screen = Screen::new((24, 80));
        screen.write("x".repeat(300).as_bytes());
        assert_eq!(screen.last_lines(), ["x".repeat(300)]);
    }
}

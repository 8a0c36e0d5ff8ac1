//! How a worker's screen is drawn in a window: from what that shows to what it is to show.
//!
//! A window that is as wide as the screen can be given what [`vt100`] makes of it, in which a line that is longer than a row goes on by
//! itself. In any other one each row is put where it belongs, and what does not fit is left out.

use std::fmt::Write as _;

use super::clients::Size;

/// What a window shows.
pub struct Drawn {
    /// Of which screen.
    pub screen: vt100::Screen,
    /// Of which size the window is; that of the screen if it has not said so.
    pub window: Option<Size>,
}

/// Returns what a terminal is to be given; nothing if it is as it should be.
pub fn draw(now: &Drawn, before: Option<&Drawn>) -> String {
    let before =
        before.filter(|before| before.screen.size() == now.screen.size() && before.window == now.window);
    let before = before.map(|before| &before.screen);
    let (rows, cols) = now.screen.size();
    match (now.window, before) {
        (Some(window), before) if window.1 != cols.get() || window.0 < rows.get() => {
            by_rows(&now.screen, window, before)
        }
        (_, Some(before)) => now.screen.state_diff(before),
        (_, None) => format!("\u{1b}[0m\u{1b}[2J{}", now.screen.state_formatted()),
    }
}

fn by_rows(now: &vt100::Screen, window: Size, before: Option<&vt100::Screen>) -> String {
    let mut text = String::new();
    if before.is_none() {
        text += "\u{1b}[0m\u{1b}[2J";
        text += &now.input_mode_formatted();
    }
    let shown = before.map(|before| rows(before, window)).unwrap_or_default();
    for (place, row) in rows(now, window).iter().enumerate() {
        if shown.get(place) != Some(row) {
            let _into_text = write!(text, "\u{1b}[{};1H\u{1b}[0m\u{1b}[2K{row}", place + 1);
        }
    }
    if let Some(before) = before {
        text += &now.input_mode_diff(before);
        let rest = |screen: &vt100::Screen| (screen.cursor_position(), screen.hide_cursor());
        if text.is_empty() && rest(now) == rest(before) {
            return text;
        }
    }
    let (row, col) = now.cursor_position();
    let (row, col) = (row.min(window.0 - 1) + 1, col.min(window.1 - 1) + 1);
    let cursor = if now.hide_cursor() { 'l' } else { 'h' };
    let _into_text = write!(text, "\u{1b}[0m\u{1b}[{row};{col}H\u{1b}[?25{cursor}");
    text
}

/// Returns the rows that fit into a window, as far as they do.
fn rows(screen: &vt100::Screen, window: Size) -> Vec<String> {
    let (_, cols) = screen.size();
    // With its own width each row would be written as what the one before goes on with.
    let width = if window.1 < cols.get() { window.1 } else { u16::MAX };
    screen
        .rows_formatted(0, width)
        .take(usize::from(window.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn terminal((rows, cols): Size) -> vt100::Parser {
        let side = |length| NonZeroU16::new(length).expect("it is one");
        vt100::Parser::new(side(rows), side(cols), 0)
    }

    /// What a window shows of a screen of 4 rows and 10 columns, after each part is written.
    fn shown(parts: &[&str], window: Size) -> vt100::Screen {
        let mut worker = terminal((4, 10));
        let mut person = terminal(window);
        let mut before = None;
        for part in parts {
            worker.process(part.as_bytes());
            let screen = worker.screen().clone();
            let now = Drawn {
                screen,
                window: Some(window),
            };
            person.process(draw(&now, before.as_ref()).as_bytes());
            assert_eq!(draw(&now, Some(&now)), "", "nothing has changed");
            before = Some(now);
        }
        person.screen().clone()
    }

    /// A line that is longer than a row, colours, a change in the middle, and a cursor that is hidden.
    const PARTS: [&str; 4] = [
        "\u{1b}[31mred\u{1b}[0m\r\nabcdefghijklm",
        "\u{1b}[1;2HXY",
        "\u{1b}[4;1H\u{1b}[7mstate     \u{1b}[0m\u{1b}[2;5H",
        "\u{1b}[?25l\u{1b}[?2004h",
    ];

    #[test]
    fn a_window_of_another_size_shows_each_row_in_its_place() {
        for (window, rows) in [
            ((4, 10), ["rXY", "abcdefghij", "klm", "state"]),
            ((6, 20), ["rXY", "abcdefghij", "klm", "state"]),
            ((6, 10), ["rXY", "abcdefghij", "klm", "state"]),
            ((4, 5), ["rXY", "abcde", "klm", "state"]),
            ((3, 7), ["rXY", "abcdefg", "klm", ""]),
            ((3, 10), ["rXY", "abcdefghij", "klm", ""]),
        ] {
            let screen = shown(&PARTS, window);
            let found: Vec<String> = screen
                .rows(0, 20)
                .take(4)
                .map(|row| row.trim_end().to_owned())
                .collect();
            let expected: Vec<&str> = rows.into_iter().take(usize::from(window.0)).collect();
            assert_eq!(found, expected, "{window:?}");
            assert!(screen.hide_cursor() && screen.bracketed_paste(), "{window:?}");
            let cursor = (1, 4.min(window.1 - 1));
            assert_eq!(screen.cursor_position(), cursor, "{window:?}");
            let color = |col| screen.cell(0, col).expect("it is there").fgcolor();
            assert_eq!(
                (color(0), color(1)),
                (vt100::Color::Idx(1), vt100::Color::Default)
            );
        }
    }

    #[test]
    fn a_window_that_becomes_another_is_drawn_anew() {
        let mut worker = terminal((4, 10));
        worker.process(b"abcdefghijklm");
        let of = |window| Drawn {
            screen: worker.screen().clone(),
            window,
        };
        let before = of(Some((4, 10)));
        let text = draw(&of(Some((6, 20))), Some(&before));
        assert!(text.starts_with("\u{1b}[0m\u{1b}[2J"), "{text:?}");
        assert_eq!(draw(&of(Some((4, 10))), Some(&before)), "");
    }

    #[test]
    fn a_cursor_that_goes_elsewhere_is_followed_and_one_that_stays_is_put_back() {
        for window in [(6, 20), (3, 7)] {
            for (part, cursor) in [("\u{1b}[1;2H", (0, 1)), ("\u{1b}[1;1HX\u{1b}[2;4H", (1, 3))] {
                let screen = shown(&["abc\r\ndef", part], window);
                assert_eq!(screen.cursor_position(), cursor, "{window:?} {part:?}");
            }
        }
    }

    #[test]
    fn a_row_has_no_color_of_the_one_above_it() {
        for window in [(6, 20), (4, 5)] {
            let screen = shown(&["\u{1b}[41mred\r\n\u{1b}[0mplain"], window);
            let color = |(row, col)| screen.cell(row, col).expect("it is there").bgcolor();
            assert_eq!(
                [(0, 2), (1, 0), (1, 4)].map(color),
                [vt100::Color::Idx(1), vt100::Color::Default, vt100::Color::Default],
                "{window:?}"
            );
        }
    }
}

//! What is over the panes: the keys, and what the person writes.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear};
use unicode_segmentation::UnicodeSegmentation as _;

use super::super::line;
use super::super::state::{Draft, Field, KEYS, State};
use super::super::text::{width, wrap};
use super::look::Look;
use super::padded;
use crate::engine::Kind;
use crate::terminal::visible;

/// How wide the keys are told.
const HELP_COLUMNS: u16 = 72;

/// How wide a message is written.
const DRAFT_COLUMNS: u16 = 76;

/// How many rows of it there are.
const DRAFT_ROWS: u16 = 8;

/// Makes a box in the middle, as high as there is room.
fn boxed(
    frame: &mut Frame<'_>,
    area: Rect,
    (columns, rows): (u16, u16),
    [title, below]: [&str; 2],
    look: &Look,
) -> Rect {
    let (width, height) = (columns.min(area.width - 2), rows.min(area.height));
    let area = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let mut block = Block::bordered()
        .title(Span::styled(format!(" {title} "), look.title(true)))
        .border_style(look.rule(true));
    if !below.is_empty() {
        let below = Line::styled(format!(" {below} "), look.title(true));
        block = block.title_bottom(below.right_aligned());
    }
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    Rect {
        x: inner.x + 1,
        width: inner.width - 2,
        ..inner
    }
}

/// Draws the keys; tells how many lines have room in it, and how many may be above them.
pub fn draw_help(frame: &mut Frame<'_>, area: Rect, scroll: usize, look: &Look) -> (usize, usize) {
    let columns = HELP_COLUMNS.min(area.width - 2);
    let keys = KEYS.iter().map(|(key, _)| width(key)).max().unwrap_or(0) + 2;
    let room = usize::from(columns - 4).saturating_sub(keys);
    let mut lines = Vec::new();
    for (key, what) in KEYS {
        for (place, what) in wrap(what, room).into_iter().enumerate() {
            let key = padded(if place == 0 { key } else { "" }, keys);
            lines.push(Line::from(vec![Span::styled(key, look.key()), Span::raw(what)]));
        }
    }
    // Above and below is the box.
    let rows = lines.len().min(usize::from(area.height.saturating_sub(2)));
    let scroll_max = lines.len() - rows;
    let scroll = scroll.min(scroll_max);
    let more = match (scroll > 0, scroll < scroll_max) {
        (false, false) => "",
        (false, true) => ", more below",
        (true, false) => ", more above",
        (true, true) => ", more above and below",
    };
    let below = match scroll_max {
        0 => String::new(),
        _ => format!("{} to {} of {}{more}", scroll + 1, scroll + rows, lines.len()),
    };
    let size = (columns, u16::try_from(rows + 2).unwrap_or(area.height));
    let inner = boxed(frame, area, size, ["keys", &below], look);
    for (y, line) in (inner.y..inner.bottom()).zip(lines.into_iter().skip(scroll)) {
        frame.render_widget(
            line,
            Rect {
                y,
                height: 1,
                ..inner
            },
        );
    }
    (rows, scroll_max)
}

/// Draws a message that is being written.
pub fn draw_draft(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &State,
    draft: &Draft,
    has_cursor: bool,
    look: &Look,
) {
    let size = (DRAFT_COLUMNS, DRAFT_ROWS + 5);
    let inner = boxed(frame, area, size, ["a message from you", ""], look);
    let row = |place: u16| Rect {
        y: inner.y + place,
        height: 1,
        ..inner
    };
    let label = |text: &'static str, field| {
        let style = if draft.field == field {
            look.key()
        } else {
            look.dim()
        };
        Span::styled(padded(text, 6), style)
    };
    let room = usize::from(inner.width) - 6;
    let known = if state.agents.iter().any(|row| row.name == draft.to.text()) {
        ""
    } else {
        "a name, @role, @group, #channel or *"
    };
    let left = room.saturating_sub(width(known));
    let (to, cursor) = fitted(&draft.to, left.saturating_sub(2));
    let gap = left.min(room / 2).saturating_sub(width(&to)).max(2);
    let known = Span::styled(format!("{}{known}", " ".repeat(gap)), look.dim());
    frame.render_widget(
        Line::from(vec![label("to", Field::To), Span::raw(to), known]),
        row(0),
    );
    let kinds = Kind::ALL.iter().flat_map(|kind| {
        let is_it = *kind == draft.kind;
        let text = if is_it {
            format!("[{}]", kind.as_str())
        } else {
            format!(" {} ", kind.as_str())
        };
        let style = if is_it { look.bold() } else { look.dim() };
        [Span::styled(text, style), Span::raw(" ")]
    });
    let kinds = std::iter::once(label("kind", Field::Kind)).chain(kinds);
    frame.render_widget(Line::from_iter(kinds), row(1));
    let rule = "─".repeat(usize::from(inner.width));
    frame.render_widget(Line::styled(rule, look.rule(draft.field == Field::Body)), row(2));
    let body = Rect {
        y: inner.y + 3,
        height: inner.height.saturating_sub(3),
        ..inner
    };
    let (text, (x, y)) = laid_out(&draft.body, usize::from(body.width));
    let first = (y + 1).saturating_sub(usize::from(body.height));
    for (y, line) in (body.y..body.bottom()).zip(text.iter().skip(first)) {
        frame.render_widget(line.as_str(), Rect { y, height: 1, ..body });
    }
    if !has_cursor {
        return;
    }
    let column = |columns: usize| u16::try_from(columns).unwrap_or(0);
    let position = match draft.field {
        Field::To => Position::new(inner.x + 6 + column(cursor), inner.y),
        Field::Kind => return,
        Field::Body => Position::new(body.x + column(x), body.y + column(y - first)),
    };
    frame.set_cursor_position(position);
}

/// Draws a line that is being written in one row, and what there is to say of it if nothing is written.
pub fn draw_prompt(
    frame: &mut Frame<'_>,
    area: Rect,
    before: &str,
    line: &line::Line,
    about: &str,
    look: &Look,
) {
    let room = usize::from(area.width).saturating_sub(width(before) + 2);
    let (text, cursor) = fitted(line, room);
    let gap = if about.is_empty() { 0 } else { 2 };
    let left = room.saturating_sub(width(&text) + gap);
    let about = if width(about) <= left { about } else { "" };
    let spans = vec![
        Span::styled(before.to_owned(), look.key()),
        Span::raw(text),
        Span::styled(format!("{}{about}", " ".repeat(gap)), look.dim()),
    ];
    frame.render_widget(Line::from(spans), area);
    let x = area.x + u16::try_from(width(before) + cursor).unwrap_or(0);
    frame.set_cursor_position(Position::new(x, area.y));
}

/// Shows as much of a line as fits, with the cursor in it, and says in which column that is.
fn fitted(line: &line::Line, columns: usize) -> (String, usize) {
    let before = visible(line.before());
    let mut taken = 0;
    let mut start = before.len();
    for (at, piece) in before.grapheme_indices(true).rev() {
        taken += width(piece);
        if taken >= columns {
            break;
        }
        start = at;
    }
    let before = &before[start..];
    let behind = visible(line.behind());
    let mut text = before.to_owned();
    for piece in behind.graphemes(true) {
        if width(&text) + width(piece) > columns {
            break;
        }
        text.push_str(piece);
    }
    (text, width(before))
}

/// Lays a text of several lines out in so many columns, and says where its cursor is. What is longer goes on in the next row, wherever
/// that is: so the cursor is where the next character goes.
fn laid_out(line: &line::Line, columns: usize) -> (Vec<String>, (usize, usize)) {
    let mut rows = vec![String::new()];
    let mut cursor = (0, 0);
    let put = |text: &str, rows: &mut Vec<String>| {
        for piece in text.graphemes(true) {
            if piece == "\n" {
                rows.push(String::new());
                continue;
            }
            let shown = match piece {
                "\t" => "    ".into(),
                piece => visible(piece),
            };
            let last = rows.last().expect("there is one");
            if width(last) + width(&shown) > columns {
                rows.push(String::new());
            }
            rows.last_mut().expect("there is one").push_str(&shown);
        }
    };
    put(line.before(), &mut rows);
    if let Some(last) = rows.last() {
        cursor = (width(last), rows.len() - 1);
    }
    if cursor.0 >= columns {
        rows.push(String::new());
        cursor = (0, rows.len() - 1);
    }
    put(line.behind(), &mut rows);
    (rows, cursor)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::cli::top::view::look::Colours;

    /// Draws a prompt in a row of so many columns; returns what it shows, and the column of the cursor.
    fn prompt(columns: u16, text: &str, about: &str) -> (String, u16) {
        let look = Look {
            colours: Colours::Plain,
            time: |_| String::new(),
        };
        let mut terminal = Terminal::new(TestBackend::new(columns, 1)).expect("it is in memory");
        let drawn = terminal.draw(|frame| {
            draw_prompt(
                frame,
                frame.area(),
                " agent: ",
                &line::Line::new(text),
                about,
                &look,
            );
        });
        let buffer = drawn.expect("it is in memory").buffer.clone();
        let cells = buffer.content().iter().map(ratatui::buffer::Cell::symbol);
        let shown = cells.collect::<String>().trim_end().to_owned();
        let cursor = terminal.get_cursor_position().expect("it is in memory");
        (shown, cursor.x)
    }

    #[test]
    fn what_there_is_to_say_of_a_prompt_is_said_where_it_has_room_beside_the_line() {
        for (columns, text, about, shown, cursor) in [
            (19, "ab", "names", " agent: ab  names", 10),
            (18, "ab", "names", " agent: ab", 10),
            (19, "abcdefgh", "", " agent: abcdefgh", 16),
            (18, "abcdefgh", "", " agent: bcdefgh", 15),
        ] {
            assert_eq!(
                prompt(columns, text, about),
                (shown.to_owned(), cursor),
                "{columns}"
            );
        }
    }

    #[test]
    fn the_cursor_is_where_the_next_character_goes() {
        let mut line = line::Line::with_lines();
        line.insert("ab\ncdefg");
        assert_eq!(
            laid_out(&line, 3),
            (vec!["ab".to_owned(), "cde".to_owned(), "fg".to_owned()], (2, 2))
        );
        line.insert("h");
        let (rows, cursor) = laid_out(&line, 3);
        assert_eq!((rows.len(), cursor), (4, (0, 3)));
        let line = line::Line::new("abcdefgh");
        assert_eq!(fitted(&line, 5), ("efgh".to_owned(), 4));
        assert_eq!(fitted(&line, 20), ("abcdefgh".to_owned(), 8));
    }

    #[test]
    fn what_stands_behind_the_cursor_is_shown_as_far_as_it_fits() {
        use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
        let mut line = line::Line::new("abcdefgh");
        for _ in 0..3 {
            line.press(KeyEvent::new(KeyCode::Left, KeyModifiers::NONE));
        }
        for (columns, shown, cursor) in [(20, "abcdefgh", 5), (7, "abcdefg", 5), (4, "cdef", 3)] {
            assert_eq!(fitted(&line, columns), (shown.to_owned(), cursor));
        }
    }

    #[test]
    fn the_cursor_of_a_message_is_in_the_field_that_is_written() {
        let look = Look {
            colours: Colours::Plain,
            time: |_| String::new(),
        };
        let state = crate::cli::top::scene::talking();
        let mut draft = Draft {
            to: line::Line::new("dev-a"),
            kind: Kind::Free,
            body: line::Line::with_lines(),
            field: Field::To,
        };
        draft.body.insert("one\ntwo!");
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("it is in memory");
        let mut cursor = |field| {
            draft.field = field;
            let drawn = terminal.draw(|frame| draw_draft(frame, frame.area(), &state, &draft, true, &look));
            drawn.expect("it is in memory");
            let cursor = terminal.get_cursor_position().expect("it is in memory");
            (cursor.x, cursor.y)
        };
        assert_eq!([cursor(Field::To), cursor(Field::Body)], [(15, 6), (8, 10)]);
    }
}

//! The message that is open: all of its text, and what has become of it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::news::Message;
use super::super::state::{Open, Pane, State};
use super::super::stream::Entry;
use super::super::text::{lines, wrap};
use super::draw_title;
use super::look::{Colours, Look};
use super::messages::found;
use crate::engine::limits::ID_DIGITS_MIN;
use crate::terminal::visible;

/// What stands before each line of a body, so that none is taken for anything else.
const BODY: &str = "│ ";

/// Draws the pane; tells how many lines have room in it, and how many may be above them.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, open: &Open, look: &Look) -> (usize, usize) {
    let text = text(
        message_of(state, open),
        open,
        search_of(state),
        columns(area.width),
        look,
    );
    let rows = usize::from(area.height.saturating_sub(1));
    let scroll_max = text.len().saturating_sub(rows);
    let scroll = open.scroll.min(scroll_max);
    let id: String = open.id.chars().take(ID_DIGITS_MIN).collect();
    let title = format!("message {}", visible(&id));
    let right = match (scroll_max, scroll) {
        (0, _) => "Esc closes".to_owned(),
        _ => format!("{} to {} of {} lines", scroll + 1, scroll + rows, text.len()),
    };
    draw_title(frame, area, &title, &right, state.pane == Pane::Trace, look);
    let shown = text.into_iter().skip(scroll).take(rows);
    for (y, line) in (area.y + 1..area.bottom()).zip(shown) {
        let area = Rect {
            x: area.x + 2,
            y,
            width: area.width - 2,
            height: 1,
        };
        frame.render_widget(line, area);
    }
    (rows, scroll_max)
}

/// Counts the lines that there are in so many columns.
pub fn rows(state: &State, open: &Open, width: u16) -> usize {
    let look = Look {
        colours: Colours::Plain,
        time: |_| String::new(),
    };
    text(message_of(state, open), open, "", columns(width), &look).len()
}

fn message_of<'a>(state: &'a State, open: &Open) -> Option<&'a Message> {
    let message = state.stream.find(&open.id).and_then(Entry::message);
    message.map(|(message, _)| message)
}

fn search_of(state: &State) -> &str {
    &state.stream.filter().search
}

fn columns(width: u16) -> usize {
    usize::from(width).saturating_sub(3)
}

/// Writes who sent it to whom, the text, and what has become of it.
fn text<'a>(
    message: Option<&Message>,
    open: &Open,
    search: &str,
    columns: usize,
    look: &Look,
) -> Vec<Line<'a>> {
    let mut text = Vec::new();
    let put = |text: &mut Vec<Line<'a>>, line: &str, style| {
        let wrapped = wrap(line, columns).into_iter();
        text.extend(wrapped.map(|line| Line::styled(line, style)));
    };
    // relay trace says in its first line what the message is.
    let traced = match &open.trace {
        Some(Ok(traced)) => traced.as_str(),
        Some(Err(_)) | None => "",
    };
    let mut traced = traced.lines();
    match (traced.next(), message) {
        (Some(head), _) => put(&mut text, head, look.bold()),
        (
            None,
            Some(Message {
                id, from, to, kind, ..
            }),
        ) => {
            let head = [id, kind, from, to].map(|text| visible(text));
            let [id, kind, from, to] = head;
            put(&mut text, &format!("{id}  {kind}  {from} → {to}"), look.bold());
        }
        (None, None) => {}
    }
    match message {
        Some(message) => {
            for line in lines(message.body.trim_end()) {
                for line in wrap(&line, columns.saturating_sub(2)) {
                    let before = Span::styled(BODY, look.dim());
                    let line = found(&line, search, look.plain(), look);
                    text.push(Line::from_iter(std::iter::once(before).chain(line)));
                }
            }
        }
        None => put(&mut text, "its text is not kept here any more", look.dim()),
    }
    match &open.trace {
        None => put(&mut text, "asking what has become of it …", look.dim()),
        Some(Err(reason)) => put(&mut text, &visible(reason), look.trouble()),
        Some(Ok(_)) => {
            for line in traced {
                put(&mut text, line, look.plain());
            }
        }
    }
    text
}

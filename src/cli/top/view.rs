//! What is shown of the state: a frame of a terminal. Changes nothing, and asks nobody.

mod agents;
mod dialogs;
mod foot;
mod look;
mod messages;
mod trace;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

pub use look::{Colours, Look};

use self::foot::Foot;
use super::state::{Link, Over, Pane, Room, State};
use super::text::{cut, cut_name, width};
use crate::terminal::visible;

/// The least columns and rows in which something can be told.
const LEAST: (u16, u16) = (60, 12);

/// From so many rows on there is room for agents beside a trace.
const ROWS_FOR_ALL: u16 = 36;

/// From so many columns on a message takes one row.
const COLUMNS_FOR_ONE_ROW: u16 = 110;

/// How many rows a trace has at the least, so that the others do not move when it comes.
const TRACE_ROWS_MIN: u16 = 10;

/// Draws all of it, and tells how much room there was.
pub fn draw(frame: &mut Frame<'_>, state: &State, look: &Look) -> Room {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        frame.render_widget(too_small(area.width, area.height), area);
        return Room::default();
    }
    let below = Foot::of(state, usize::from(area.width));
    let [head, agents, messages, trace, foot] = parts(area, state, below.rows(area.height));
    frame.render_widget(header(state, look, area.width), head);
    if agents.height > 0 {
        agents::draw(frame, agents, state, look);
    }
    let mut room = Room {
        messages: messages::draw(frame, messages, state, look),
        ..Room::default()
    };
    if let Some(open) = &state.open {
        (room.trace, room.scroll_max) = trace::draw(frame, trace, state, open, look);
    }
    let between = Rect {
        y: head.bottom(),
        height: foot.y - head.bottom(),
        ..area
    };
    match &state.over {
        Over::Help(scroll) => {
            (room.help, room.help_scroll_max) = dialogs::draw_help(frame, between, *scroll, look);
        }
        Over::Draft(draft) => dialogs::draw_draft(frame, between, state, draft, true, look),
        Over::Discard(draft) => dialogs::draw_draft(frame, between, state, draft, false, look),
        Over::Nothing | Over::Search { .. } | Over::Filter { .. } | Over::Drop(_) | Over::Release(_) => {}
    }
    below.draw(frame, foot, state, room.help_scroll_max > 0, look);
    room
}

/// Says that so many columns and rows are too few, as long as there is room for it.
fn too_small(columns: u16, rows: u16) -> String {
    let needs = format!("{} x {}", LEAST.0, LEAST.1);
    let texts = [
        format!("{columns} x {rows} is too small; relay top needs {needs}"),
        format!("too small; it needs {needs}"),
        format!("needs {needs}"),
        needs,
        "small".to_owned(),
        "…".to_owned(),
    ];
    let fits = |text: &String| width(text) <= usize::from(columns);
    texts.into_iter().find(fits).unwrap_or_default()
}

/// Divides the rows: the header, the agents, the messages, the message that is open, and so many for the foot.
fn parts(area: Rect, state: &State, foot: u16) -> [Rect; 5] {
    let rows = area.height - 1 - foot;
    let is_open = state.open.is_some();
    let agents_max = if !is_open || area.height >= ROWS_FOR_ALL {
        (rows / 3).max(4)
    } else if state.pane == Pane::Agents {
        rows / 3
    } else {
        0
    };
    // A title and a head.
    let agents_wanted = u16::try_from(state.agents.len() + 2).unwrap_or(u16::MAX);
    let agents = agents_wanted.min(agents_max);
    let left = rows - agents;
    let trace_max = match agents {
        0 => left - left / 3,
        _ => left / 2,
    };
    let trace = state.open.as_ref().map_or(0, |open| {
        let wanted = trace::rows(state, open, area.width) + 1;
        let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
        wanted.max(TRACE_ROWS_MIN).min(trace_max)
    });
    let heights = [1, agents, left - trace, trace, foot];
    let mut y = area.y;
    heights.map(|height| {
        let part = Rect { y, height, ..area };
        y += height;
        part
    })
}

/// Says where the relay is, since when, and what is in it.
fn header(state: &State, look: &Look, columns: u16) -> Line<'static> {
    let columns = usize::from(columns);
    let Link {
        place,
        started_at,
        uptime,
        lost,
        ..
    } = &state.link;
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let waiting: u64 = state.agents.iter().map(|row| row.waiting).sum();
    // The person is none of them.
    let agents = state.agents.len().saturating_sub(1);
    let mut right = format!(
        "{}, {waiting} waiting, {} ",
        count(agents, "agent"),
        count(state.stream.count(), "message")
    );
    let connected = match lost {
        None => "connected",
        Some(_) => "no connection",
    };
    let days = uptime / 86_400;
    let since = match (days, started_at) {
        _ if lost.is_some() => String::new(),
        (0, Some(at)) => format!(", since {}", &(look.time)(*at)[..5]),
        (0, None) => String::new(),
        (1, _) => ", up for a day".to_owned(),
        (_, _) => format!(", up for {days} days"),
    };
    let mut left = format!(" relay {}  {connected}{since}", visible(place));
    if width(&left) + width(&right) + 1 > columns {
        left = format!(" {}  {connected}{since}", visible(place));
    }
    if width(&left) + width(&right) + 1 > columns {
        left = format!(" {}  {connected}", visible(place));
    }
    if width(&left) + width(&right) + 1 > columns {
        right = format!("{waiting} waiting ");
    }
    let left = cut_name(&left, columns.saturating_sub(width(&right) + 1)).into_owned();
    let gap = columns.saturating_sub(width(&left) + width(&right));
    let style = if lost.is_some() {
        look.header_lost()
    } else {
        look.header()
    };
    Line::styled(format!("{left}{}{right}", " ".repeat(gap)), style)
}

/// Draws the title of a pane: a rule with words at both ends.
fn draw_title(frame: &mut Frame<'_>, area: Rect, words: &str, right: &str, is_chosen: bool, look: &Look) {
    let columns = usize::from(area.width);
    let right = if right.is_empty() {
        String::new()
    } else {
        format!(" {} ", cut(right, columns / 2))
    };
    let room = columns.saturating_sub(width(&right) + 6);
    let words = format!(" {} ", cut(words, room));
    let mark = if is_chosen { "━" } else { "─" };
    let rule = columns.saturating_sub(width(&words) + width(&right) + 3);
    let style = look.rule(is_chosen);
    let line = Line::from(vec![
        Span::styled(mark.repeat(2), style),
        Span::styled(words, look.title(is_chosen)),
        Span::styled(mark.repeat(rule), style),
        Span::styled(right, look.title(is_chosen)),
        Span::styled(mark, style),
    ]);
    frame.render_widget(line, Rect { height: 1, ..area });
}

/// Writes a number of seconds in its greatest unit.
fn age(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3_600, seconds / 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, _) => format!("{hours} h"),
        (days, _, _) => format!("{days} d"),
    }
}

/// Fills a text up to so many columns.
fn padded(text: &str, columns: usize) -> String {
    let text = cut_name(text, columns);
    let gap = columns - width(&text);
    format!("{text}{}", " ".repeat(gap))
}

#[cfg(test)]
mod tests;

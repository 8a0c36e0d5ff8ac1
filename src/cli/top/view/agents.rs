//! The agents, as a table.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::agents::Row;
use super::super::state::{Pane, State};
use super::super::text::{cut, width};
use super::look::Look;
use super::{COLUMNS_FOR_ONE_ROW, age, draw_title, padded};
use crate::terminal::visible;

/// What stands before a row that is chosen, and before one that is not.
pub(super) const MARKS: [&str; 2] = ["▸ ", "  "];

/// A column of the table.
struct Column {
    head: &'static str,
    /// How wide it may become.
    columns_max: usize,
    cell: fn(&Row) -> String,
    style: fn(&Look, &Row) -> Style,
}

fn plain(look: &Look, _: &Row) -> Style {
    look.plain()
}

/// Returns the columns for so many columns of a terminal.
fn columns(is_wide: bool, rows: &[Row]) -> Vec<Column> {
    let name = Column {
        head: "agent",
        columns_max: if is_wide { 34 } else { 22 },
        cell: |row| match row.is_held {
            true => format!("{} (held)", visible(&row.name)),
            false => visible(&row.name).into_owned(),
        },
        style: |look, _| look.bold(),
    };
    let about = Column {
        head: "role, program",
        columns_max: if is_wide { 36 } else { 18 },
        cell: |row| visible(&row.about).into_owned(),
        style: |look, _| look.dim(),
    };
    let state = Column {
        head: "state",
        columns_max: 6,
        cell: |row| row.doing.as_str().to_owned(),
        style: |look, row| look.doing(row.doing),
    };
    let waiting = Column {
        head: "waiting",
        columns_max: 22,
        cell: |row| {
            let waiting = match (row.waiting, row.oldest) {
                (0, _) if row.held == 0 => "-".to_owned(),
                (0, _) => String::new(),
                (waiting, None) => waiting.to_string(),
                (waiting, Some(oldest)) => format!("{waiting}, {}", age(oldest)),
            };
            match (row.held, waiting.as_str()) {
                (0, _) => waiting,
                (held, "") => format!("{held} held"),
                (held, _) => format!("{waiting}, {held} held"),
            }
        },
        style: |look, row| {
            if row.held > 0 {
                look.step(Some(super::super::news::Step::Held))
            } else if row.waiting > 0 {
                look.step(Some(super::super::news::Step::Waits))
            } else {
                look.dim()
            }
        },
    };
    let in_doubt = Column {
        head: "handed over",
        columns_max: 11,
        cell: |row| match row.in_doubt {
            0 => "-".to_owned(),
            in_doubt => in_doubt.to_string(),
        },
        style: |look, row| {
            if row.in_doubt > 0 {
                look.plain()
            } else {
                look.dim()
            }
        },
    };
    let mode = Column {
        head: "brought",
        columns_max: 14,
        cell: |row| visible(row.mode.as_deref().unwrap_or("-")).into_owned(),
        style: plain,
    };
    let reached_by = Column {
        head: "reached by",
        columns_max: usize::MAX,
        cell: |row| visible(&row.reached_by).into_owned(),
        style: |look, row| {
            if row.reached_by == "nobody" {
                look.dim()
            } else {
                look.plain()
            }
        },
    };
    let mut columns = vec![name];
    if rows.iter().any(|row| !row.about.is_empty()) {
        columns.push(about);
    }
    columns.extend([state, waiting]);
    if is_wide {
        columns.push(in_doubt);
        if rows.iter().any(|row| row.mode.is_some()) {
            columns.push(mode);
        }
    }
    columns.push(reached_by);
    columns
}

/// Draws the pane.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, look: &Look) {
    let is_chosen = state.pane == Pane::Agents;
    let rows = &state.agents;
    let room = usize::from(area.height.saturating_sub(2));
    let chosen = state
        .agent()
        .and_then(|agent| rows.iter().position(|row| row.name == agent.name));
    let first = chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(room));
    let last = (first + room).min(rows.len());
    let right = if state.link.holds_all {
        "you hold all messages".to_owned()
    } else if room < rows.len() {
        format!("{} to {last} of {}", first + 1, rows.len())
    } else {
        String::new()
    };
    draw_title(frame, area, "agents", &right, is_chosen, look);
    let is_wide = area.width >= COLUMNS_FOR_ONE_ROW;
    let columns = columns(is_wide, rows);
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            let cells = rows.iter().map(|row| width(&(column.cell)(row)));
            let widest = cells.max().unwrap_or(0).max(column.head.len());
            widest.min(column.columns_max)
        })
        .collect();
    let before: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
    let room_of_last = usize::from(area.width).saturating_sub(before + 3);
    let cell = |text: &str, place: usize| {
        if place + 1 == widths.len() {
            cut(text, room_of_last).into_owned()
        } else {
            padded(text, widths[place]) + "  "
        }
    };
    let heads = columns.iter().enumerate();
    let heads = heads.map(|(place, column)| Span::styled(cell(column.head, place), look.dim()));
    let head = Line::from_iter(std::iter::once(Span::raw(MARKS[1])).chain(heads));
    let mut y = area.y + 1;
    let mut put = |line: Line<'_>| {
        if y < area.bottom() {
            frame.render_widget(line, Rect { y, height: 1, ..area });
        }
        y += 1;
    };
    put(head);
    for (place, row) in rows.iter().enumerate().take(last).skip(first) {
        let is_it = chosen == Some(place) && is_chosen;
        let mark = Span::styled(MARKS[usize::from(!is_it)], look.mark(is_chosen));
        let cells = columns.iter().enumerate();
        let cells = cells
            .map(|(place, column)| Span::styled(cell(&(column.cell)(row), place), (column.style)(look, row)));
        put(Line::from_iter(std::iter::once(mark).chain(cells)));
    }
}

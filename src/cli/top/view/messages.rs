//! The messages, the latest at the bottom: a row for each where that is wide enough, else two.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::news::{Message, Step};
use super::super::state::{Pane, State};
use super::super::stream::{Entry, What};
use super::super::text::{cut, cut_name, first_line, width, wrap};
use super::agents::MARKS;
use super::look::Look;
use super::{COLUMNS_FOR_ONE_ROW, draw_title, padded};
use crate::engine::limits::ID_DIGITS_MIN;
use crate::terminal::visible;

/// How many columns the kind, the short id and the state take.
const KIND: usize = 9;
const ID: usize = 8;
const STATE: usize = 11;

/// From so many columns on there is room for the short id beside the names.
const COLUMNS_FOR_ID: usize = 80;

/// How many columns the mark and the time take.
const BEFORE: usize = 12;

/// Most rows of a note: a name in it may be of any length.
const NOTE_ROWS_MAX: usize = 3;

/// How many columns two names take.
const NAMES: std::ops::RangeInclusive<usize> = 14..=34;

/// Draws the pane, and tells how many messages have room in it.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, look: &Look) -> usize {
    let is_pane = state.pane == Pane::Messages;
    draw_title(frame, area, "messages", &filtered(state), is_pane, look);
    let area = Rect {
        y: area.y + 1,
        height: area.height - 1,
        ..area
    };
    let is_wide = area.width >= COLUMNS_FOR_ONE_ROW;
    let rows = usize::from(area.height);
    let shown: Vec<&Entry> = state.stream.shown().collect();
    if shown.is_empty() {
        draw_nothing(frame, area, state, look);
    }
    let chosen = state.stream.chosen().map(|entry| entry.number);
    let columns = usize::from(area.width);
    let window = window(&shown, chosen, |entry| height(entry, columns, is_wide), rows);
    let names = window.iter().filter_map(|entry| entry.message());
    let names = names.map(|(message, _)| width(&names_of(message))).max();
    let names = names.unwrap_or(0).clamp(*NAMES.start(), *NAMES.end());
    let mut y = area.y;
    for entry in window {
        let is_chosen = chosen == Some(entry.number);
        let row = Row {
            entry,
            mark: Span::styled(MARKS[usize::from(!is_chosen)], look.mark(is_pane)),
            is_chosen: is_chosen && is_pane,
            columns: usize::from(area.width),
            names,
            search: &state.stream.filter().search,
            look,
        };
        for line in row.lines(is_wide) {
            if y < area.bottom() {
                frame.render_widget(line, Rect { y, height: 1, ..area });
            }
            y += 1;
        }
    }
    if is_wide { rows } else { rows / 2 }
}

/// Says what is left out, and whether what comes is followed.
fn filtered(state: &State) -> String {
    let filter = state.stream.filter();
    let mut words = Vec::new();
    if let Some(agent) = &filter.agent {
        words.push(format!("agent {}", visible(agent)));
    }
    if !filter.search.is_empty() {
        words.push(format!("\"{}\"", visible(&filter.search)));
    }
    if !words.is_empty() {
        let (shown, all) = (state.stream.messages().count(), state.stream.count());
        words.push(format!("{shown} of {all}"));
    }
    let newer = state.stream.newer();
    if newer > 0 && state.open.is_none() {
        words.push(format!("{newer} newer below"));
    }
    words.join(", ")
}

fn draw_nothing(frame: &mut Frame<'_>, area: Rect, state: &State, look: &Look) {
    let is_filtered = state.stream.filter() != &super::super::stream::Filter::default();
    let texts: &[&str] = if is_filtered {
        &["Nothing of what has come is so.", "Esc shows all."]
    } else {
        &[
            "No messages yet.",
            "What agents say to each other appears here as they say it;",
            "s sends one of them a message from you.",
        ]
    };
    let top = area.y
        + area
            .height
            .saturating_sub(u16::try_from(texts.len()).unwrap_or(0))
            / 2;
    for (y, text) in (top..area.bottom()).zip(texts) {
        let line = Line::styled(*text, look.dim()).centered();
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
}

/// Returns the entries for which there is room: the latest ones, or those about the chosen one.
fn window<'a>(
    shown: &[&'a Entry],
    chosen: Option<u64>,
    height: impl Fn(&Entry) -> usize,
    rows: usize,
) -> Vec<&'a Entry> {
    // From `end` upwards, as many as there is room for.
    let from = |end: usize, rows: usize| {
        let mut left = rows;
        let mut start = end;
        while start > 0 && height(shown[start - 1]) <= left {
            start -= 1;
            left -= height(shown[start]);
        }
        start
    };
    let start = from(shown.len(), rows);
    let place = chosen.and_then(|chosen| shown.iter().position(|entry| entry.number == chosen));
    let (mut start, mut end) = (start, shown.len());
    if let Some(place) = place.filter(|place| *place < start) {
        start = from(place + 1, rows / 2);
        start = start.min(place);
        end = start;
        let mut left = rows;
        while end < shown.len() && height(shown[end]) <= left {
            left -= height(shown[end]);
            end += 1;
        }
    }
    shown[start..end].to_vec()
}

/// Returns how many rows an entry takes.
fn height(entry: &Entry, columns: usize, is_wide: bool) -> usize {
    match &entry.what {
        What::Message { .. } if is_wide => 1,
        What::Message { .. } => 2,
        What::Note(text) => note(text, columns).len(),
    }
}

/// Lays a note out behind its time.
fn note(text: &str, columns: usize) -> Vec<String> {
    let room = columns.saturating_sub(BEFORE + 1);
    let mut lines = wrap(&visible(text), room);
    if lines.len() > NOTE_ROWS_MAX {
        lines.truncate(NOTE_ROWS_MAX);
        let last = &mut lines[NOTE_ROWS_MAX - 1];
        *last = cut(&format!("{last} …"), room).into_owned();
    }
    lines
}

fn names_of(message: &Message) -> String {
    format!("{} → {}", visible(&message.from), visible(&message.to))
}

/// Says how far a message has come, and how that looks.
pub(super) fn state_of(steps: &BTreeMap<String, Step>) -> (String, Option<Step>) {
    let steps = steps.values().copied();
    let steps: Vec<Step> = steps.filter(|step| *step != Step::HandedOn).collect();
    let Some(first) = steps.first() else {
        return ("-".to_owned(), None);
    };
    if steps.iter().all(|step| step == first) {
        return (first.as_str().to_owned(), Some(*first));
    }
    let count = |is: fn(Step) -> bool| steps.iter().filter(|step| is(**step)).count();
    let failed = count(|step| matches!(step, Step::Failed | Step::Expired));
    if failed > 0 {
        return (format!("{failed}/{} failed", steps.len()), Some(Step::Failed));
    }
    let held = count(|step| step == Step::Held);
    if held > 0 {
        return (format!("{held}/{} held", steps.len()), Some(Step::Held));
    }
    let arrived = count(|step| matches!(step, Step::Delivered | Step::Read));
    let least = steps.iter().copied().min();
    (format!("{arrived}/{} arrived", steps.len()), least)
}

/// What is drawn of an entry.
struct Row<'a> {
    entry: &'a Entry,
    mark: Span<'static>,
    is_chosen: bool,
    columns: usize,
    /// How many columns the names take.
    names: usize,
    search: &'a str,
    look: &'a Look,
}

impl<'a> Row<'a> {
    fn lines(self, is_wide: bool) -> Vec<Line<'a>> {
        let look = self.look;
        let time = Span::styled(format!("{}  ", (look.time)(self.entry.at)), look.dim());
        match &self.entry.what {
            What::Note(text) => {
                let mut before = vec![Span::raw(MARKS[1]), time];
                let lines = note(text, self.columns).into_iter().map(|line| {
                    before.push(Span::styled(line, look.dim()));
                    Line::from(std::mem::replace(
                        &mut before,
                        vec![Span::raw(" ".repeat(BEFORE))],
                    ))
                });
                lines.collect()
            }
            What::Message { message, steps } if is_wide => vec![self.in_one(time, message, steps)],
            What::Message { message, steps } => self.in_two(time, message, steps),
        }
    }

    fn in_one(&self, time: Span<'a>, message: &Message, steps: &BTreeMap<String, Step>) -> Line<'a> {
        let look = self.look;
        let before = BEFORE + self.names + 2 + KIND + 2;
        let room = self.columns.saturating_sub(before + self.behind());
        let body = self.body(message, room);
        let gap = room.saturating_sub(body.iter().map(|span| width(&span.content)).sum());
        let mut spans = vec![self.mark.clone(), time];
        spans.extend(self.names(message, self.names));
        spans.push(Span::raw("  "));
        spans.push(self.kind(message));
        spans.push(Span::raw("  "));
        spans.extend(body);
        spans.push(Span::raw(" ".repeat(gap + 2)));
        spans.extend(self.end(message, steps));
        Line::from(spans).style(look.plain())
    }

    fn in_two(&self, time: Span<'a>, message: &Message, steps: &BTreeMap<String, Step>) -> Vec<Line<'a>> {
        let room = self.columns.saturating_sub(BEFORE + 2 + KIND + self.behind());
        let names = self.names(message, self.names.min(room));
        let gap = room.saturating_sub(self.names);
        let mut first = vec![self.mark.clone(), time];
        first.extend(names);
        first.push(Span::raw("  "));
        first.push(self.kind(message));
        first.push(Span::raw(" ".repeat(gap + 2)));
        first.extend(self.end(message, steps));
        let mut second = vec![Span::raw(" ".repeat(BEFORE))];
        second.extend(self.body(message, self.columns.saturating_sub(BEFORE + 1)));
        vec![Line::from(first), Line::from(second)]
    }

    /// Writes both names, filled up to so many columns.
    fn names(&self, message: &Message, columns: usize) -> Vec<Span<'a>> {
        let [from, to] = [&message.from, &message.to].map(|name| visible(name).into_owned());
        let room = columns.saturating_sub(3);
        let (mut from_room, mut to_room) = (width(&from), width(&to));
        if from_room + to_room > room {
            let half = room / 2;
            from_room = from_room.min(half.max(room.saturating_sub(to_room)));
            to_room = room.saturating_sub(from_room);
        }
        let (from, to) = (
            cut_name(&from, from_room).into_owned(),
            cut_name(&to, to_room).into_owned(),
        );
        let gap = room.saturating_sub(width(&from) + width(&to));
        let bold = self.look.bold();
        let mut spans = self.found(from, bold);
        spans.push(Span::styled(" → ", self.look.dim()));
        spans.extend(self.found(to, bold));
        spans.push(Span::raw(" ".repeat(gap)));
        spans
    }

    fn kind(&self, message: &Message) -> Span<'a> {
        let kind = visible(&message.kind);
        Span::styled(padded(&kind, KIND), self.look.kind(&message.kind))
    }

    fn body(&self, message: &Message, columns: usize) -> Vec<Span<'a>> {
        let line = first_line(&message.body, columns + 1);
        let has_more = message.body.trim_end().lines().nth(1).is_some() && !line.ends_with("...");
        let line = line.strip_suffix("...").unwrap_or(&line);
        let line = if has_more && width(line) < columns {
            format!("{line} …")
        } else {
            line.to_owned()
        };
        let style = if self.is_chosen {
            self.look.bold()
        } else {
            self.look.plain()
        };
        self.found(cut(&line, columns).into_owned(), style)
    }

    /// Returns how many columns the end of a row takes, with those before it and behind it.
    fn behind(&self) -> usize {
        let id = if self.has_id() { ID + 2 } else { 0 };
        2 + id + STATE + 1
    }

    fn has_id(&self) -> bool {
        self.columns >= COLUMNS_FOR_ID
    }

    fn end(&self, message: &Message, steps: &BTreeMap<String, Step>) -> Vec<Span<'a>> {
        let (state, step) = state_of(steps);
        let mut spans = Vec::new();
        if self.has_id() {
            let id: String = message.id.chars().take(ID_DIGITS_MIN).collect();
            spans.push(Span::styled(padded(&visible(&id), ID), self.look.dim()));
            spans.push(Span::raw("  "));
        }
        spans.push(Span::styled(padded(&state, STATE), self.look.step(step)));
        spans
    }

    /// Marks what is searched for.
    fn found(&self, text: String, style: Style) -> Vec<Span<'a>> {
        found(&text, self.search, style, self.look)
    }
}

/// Marks in a text what is searched for, whatever its case.
pub(super) fn found<'a>(text: &str, search: &str, style: Style, look: &Look) -> Vec<Span<'a>> {
    let mut spans = Vec::new();
    let mut rest = text;
    let lower = |c: char| c.to_lowercase();
    let length = |at: &str| {
        // As much of it as has the same small letters.
        let mut wanted = search.chars().flat_map(lower).peekable();
        let mut bytes = 0;
        for c in at.chars() {
            if wanted.peek().is_none() {
                break;
            }
            if !lower(c).all(|c| wanted.next() == Some(c)) {
                return None;
            }
            bytes += c.len_utf8();
        }
        wanted.peek().is_none().then_some(bytes)
    };
    let mut from = 0;
    while !search.is_empty() && from < rest.len() {
        let next = rest[from..].chars().next().map_or(1, char::len_utf8);
        match length(&rest[from..]).filter(|length| *length > 0) {
            None => from += next,
            Some(length) => {
                if from > 0 {
                    spans.push(Span::styled(rest[..from].to_owned(), style));
                }
                spans.push(Span::styled(rest[from..from + length].to_owned(), look.found()));
                rest = &rest[from + length..];
                from = 0;
            }
        }
    }
    if !rest.is_empty() {
        spans.push(Span::styled(rest.to_owned(), style));
    }
    spans
}

//! The foot: what is being written, or what there is to say, or the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::news::Step;
use super::super::state::{Over, Pane, State};
use super::super::stream::Entry;
use super::super::text::{cut, width, wrap};
use super::dialogs;
use super::look::Look;
use crate::engine::limits::ID_DIGITS_MIN;
use crate::terminal::visible;

/// Most rows in which something is said: more is cut, so that what it is about stays in sight.
const ROWS_MAX: usize = 6;

/// What stands below.
pub enum Foot {
    /// What is being written.
    Prompt,
    /// What is asked, or was said.
    Said {
        /// In lines.
        lines: Vec<String>,
        /// Something is not well.
        is_trouble: bool,
    },
    /// The keys.
    Keys,
}

impl Foot {
    /// Finds out what it is, in so many columns.
    pub fn of(state: &State, columns: usize) -> Self {
        let short = |id: &str| id.chars().take(ID_DIGITS_MIN).collect::<String>();
        let asks = match &state.over {
            Over::Search { .. } | Over::Filter { .. } => return Self::Prompt,
            Over::Drop(id) => Some(format!(
                "Drop {}? Nobody for whom it is held gets it. y drops it",
                short(id)
            )),
            Over::Release(name) => Some(format!("End the worker {name}? What it is at is lost. y ends it")),
            Over::Discard(_) => {
                Some("Discard what you have written? y discards it, any other key goes back".to_owned())
            }
            Over::Nothing | Over::Help(_) | Over::Draft(_) => None,
        };
        let asks = asks.map(|text| (text, true));
        let said = state.said.as_ref();
        let said = said.map(|said| (said.text.clone(), said.is_trouble));
        let lost = state.link.lost.as_ref();
        let lost = lost.map(|reason| (format!("{reason}; it goes on as soon as relay answers"), true));
        let Some((text, is_trouble)) = asks.or(said).or(lost) else {
            return Self::Keys;
        };
        Self::Said {
            lines: wrap(&visible(&text), columns - 2),
            is_trouble,
        }
    }

    /// Returns how many rows it takes of so many.
    pub fn rows(&self, of: u16) -> u16 {
        let lines = match self {
            Self::Said { lines, .. } => lines.len().min(ROWS_MAX),
            Self::Prompt | Self::Keys => 1,
        };
        u16::try_from(lines).unwrap_or(of).min(of / 3)
    }

    /// Draws it, with the keys of help if that is shown.
    pub fn draw(self, frame: &mut Frame<'_>, area: Rect, state: &State, help_scrolls: bool, look: &Look) {
        match self {
            Self::Prompt => draw_prompt(frame, area, state, look),
            Self::Said { lines, is_trouble } => {
                let style = if is_trouble { look.trouble() } else { look.said() };
                let rows = usize::from(area.height);
                for (place, (y, line)) in (area.y..area.bottom()).zip(&lines).enumerate() {
                    let is_cut = place + 1 == rows && lines.len() > rows;
                    let line = if is_cut {
                        format!("{line} …")
                    } else {
                        line.clone()
                    };
                    let room = usize::from(area.width) - 2;
                    let line = Line::styled(format!(" {}", cut(&line, room)), style);
                    frame.render_widget(line, Rect { y, height: 1, ..area });
                }
            }
            Self::Keys => draw_keys(frame, area, state, help_scrolls, look),
        }
    }
}

/// Draws what is being written below.
fn draw_prompt(frame: &mut Frame<'_>, area: Rect, state: &State, look: &Look) {
    match &state.over {
        Over::Search { line, .. } => dialogs::draw_prompt(frame, area, " search: ", line, "", look),
        Over::Filter { line } => {
            let names = "Tab completes a name; none shows all";
            dialogs::draw_prompt(frame, area, " agent: ", line, names, look);
        }
        Over::Nothing
        | Over::Help(_)
        | Over::Draft(_)
        | Over::Discard(_)
        | Over::Drop(_)
        | Over::Release(_) => {}
    }
}

/// Draws the keys that do something here.
fn draw_keys(frame: &mut Frame<'_>, area: Rect, state: &State, help_scrolls: bool, look: &Look) {
    let columns = usize::from(area.width);
    let keys: &[(&str, &str)] = if let Over::Help(_) = state.over {
        if help_scrolls {
            &[("↑ ↓  PgUp PgDn", "scroll"), ("any other key", "closes")]
        } else {
            &[("any key", "closes")]
        }
    } else if let Over::Draft(_) = state.over {
        &[
            ("Enter", "send"),
            ("Alt-Enter", "new line"),
            ("Tab", "next field"),
            ("Esc", "close"),
        ]
    } else if state.pane == Pane::Agents {
        let is_worker = state.agent().is_some_and(|row| row.is_worker);
        let search = if is_worker {
            ("x", "end worker")
        } else {
            ("/", "search")
        };
        &[
            ("Tab", "pane"),
            ("Enter", "filter"),
            ("h", "hold"),
            search,
            ("s", "send"),
            ("?", "help"),
            ("q", "quit"),
        ]
    } else if is_held(state) {
        &[
            ("Tab", "pane"),
            ("Enter", "trace"),
            ("a", "allow"),
            ("d", "drop"),
            ("s", "send"),
            ("?", "help"),
            ("q", "quit"),
        ]
    } else {
        let enter = match state.pane {
            Pane::Agents | Pane::Messages => "trace",
            Pane::Trace => "",
        };
        &[
            ("Tab", "pane"),
            ("Enter", enter),
            ("/", "search"),
            ("f", "filter"),
            ("s", "send"),
            ("?", "help"),
            ("q", "quit"),
        ]
    };
    let keys = keys.iter().filter(|(_, what)| !what.is_empty());
    let mut keys: Vec<_> = keys
        .map(|(key, what)| (format!(" {key}"), format!(" {what} ")))
        .collect();
    // Where there is no room for all, those stay that tell the others, and how to leave.
    while keys.len() > 2
        && keys
            .iter()
            .map(|(key, what)| width(key) + width(what))
            .sum::<usize>()
            > columns
    {
        keys.remove(keys.len() - 3);
    }
    let keys = keys
        .into_iter()
        .flat_map(|(key, what)| [Span::styled(key, look.key()), Span::styled(what, look.dim())]);
    frame.render_widget(Line::from_iter(keys), area);
}

/// Tells whether the chosen message is held.
fn is_held(state: &State) -> bool {
    let chosen = state.stream.chosen().and_then(Entry::message);
    chosen.is_some_and(|(_, steps)| steps.values().any(|step| *step == Step::Held))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::cli::top::scene::talking;
    use crate::cli::top::view::look::Colours;

    fn keys(columns: u16) -> String {
        let look = Look {
            colours: Colours::Plain,
            time: |_| String::new(),
        };
        let mut terminal = Terminal::new(TestBackend::new(columns, 1)).expect("it is in memory");
        let drawn = terminal.draw(|frame| draw_keys(frame, frame.area(), &talking(), false, &look));
        let buffer = drawn.expect("it is in memory").buffer.clone();
        let cells = buffer.content().iter().map(ratatui::buffer::Cell::symbol);
        cells.collect()
    }

    #[test]
    fn all_keys_are_told_where_they_just_have_room_and_else_without_those_that_others_tell() {
        let all = " Tab pane  Enter trace  / search  f filter  s send  ? help  q quit ";
        assert_eq!(keys(67), all);
        assert_eq!(keys(66).trim_end(), all.replace(" s send ", "").trim_end());
        assert_eq!(keys(10), " ? help  q", "and how to leave");
    }
}

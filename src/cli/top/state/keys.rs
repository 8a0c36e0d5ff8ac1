//! What each key does.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a terminal knows more keys than are used here"
)]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Draft, Field, Over, Pane, Room, Said, State, Wish};
use crate::cli::top::actions::Action;
use crate::cli::top::line::Line;
use crate::cli::top::news::Step;
use crate::cli::top::stream::Entry;
use crate::engine::Kind;

/// The keys, as help tells them.
pub const KEYS: [(&str, &str); 17] = [
    ("↑ ↓  k j", "choose an agent or a message, or scroll"),
    ("PgUp PgDn", "a page of them"),
    ("Home End  g G", "the first; the last, and follow what comes"),
    ("Tab", "the next pane"),
    ("Enter", "what became of a message; the messages of an agent"),
    ("/", "search: show the messages in which something stands"),
    ("f", "filter: show what is from an agent or for it"),
    ("s", "send a message, from you"),
    ("h  H", "hold an agent, or all messages; once more ends it"),
    ("a  d", "let a message pass that you hold; drop it"),
    ("x", "end a worker"),
    ("Esc", "close the trace, then end search and filter"),
    ("?", "these keys"),
    ("q  Ctrl-C", "quit"),
    ("Ctrl-Z", "to the shell for a while; fg comes back"),
    ("", ""),
    ("in a message", "Tab next field, Enter send, Alt-Enter new line"),
];

impl State {
    /// Takes a key.
    pub fn press(&mut self, key: KeyEvent) {
        self.said = None;
        let is_end = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match std::mem::take(&mut self.over) {
            Over::Nothing if is_end => self.is_over = true,
            Over::Nothing => self.press_in_panes(key),
            Over::Help(_) if is_end => self.is_over = true,
            Over::Help(scroll) => self.press_in_help(scroll, key),
            Over::Search { .. } | Over::Filter { .. } if is_end => self.is_over = true,
            Over::Search { line, before } => self.press_in_search(line, before, key),
            Over::Filter { line } => self.press_in_filter(line, key),
            Over::Draft(draft) => self.press_in_draft(draft, key, is_end),
            Over::Release(_) if is_end => self.is_over = true,
            Over::Release(name) => {
                if let KeyCode::Char('y' | 'Y') = key.code {
                    self.act(Action::Release(name));
                }
            }
            Over::Drop(_) if is_end => self.is_over = true,
            Over::Drop(id) => {
                if let KeyCode::Char('y' | 'Y') = key.code {
                    self.act(Action::Drop(id));
                }
            }
            Over::Discard(draft) => match key.code {
                KeyCode::Char('y' | 'Y') => {}
                _ if is_end => self.is_over = true,
                _ => self.over = Over::Draft(draft),
            },
        }
        self.show_refused();
    }

    /// Takes what was pasted: where nothing is being written it is nothing, and no keys either.
    pub fn paste(&mut self, text: &str) {
        match &mut self.over {
            Over::Search { line, .. } => {
                line.insert(text);
                let search = line.text().to_owned();
                self.search_for(&search);
            }
            Over::Filter { line } => line.insert(text),
            Over::Draft(Draft { to, body, field, .. }) => match field {
                Field::To => to.insert(text),
                Field::Body => body.insert(text),
                Field::Kind => {}
            },
            Over::Nothing | Over::Help(_) | Over::Drop(_) | Over::Release(_) | Over::Discard(_) => {}
        }
    }

    fn press_in_panes(&mut self, key: KeyEvent) {
        if key
            .modifiers
            .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
        {
            return;
        }
        match key.code {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?') => self.over = Over::Help(0),
            KeyCode::Char('/') => {
                let before = self.stream.filter().search.clone();
                let line = Line::new(&before);
                self.over = Over::Search { line, before };
            }
            KeyCode::Char('f') => {
                let by = self.stream.filter().agent.clone();
                let chosen = self.agent().filter(|_| self.pane == Pane::Agents);
                let name = by
                    .or_else(|| chosen.map(|row| row.name.clone()))
                    .unwrap_or_default();
                let line = Line::new(&name);
                self.over = Over::Filter { line };
            }
            KeyCode::Char('s') => self.over = Over::Draft(self.draft()),
            KeyCode::Char('h') => self.hold_chosen(),
            KeyCode::Char('H') => self.act(match self.link.holds_all {
                false => Action::Hold(None),
                true => Action::Lift(None),
            }),
            KeyCode::Char('a') => {
                if let Some(id) = self.held() {
                    self.act(Action::Allow(id));
                }
            }
            KeyCode::Char('d') => {
                if let Some(id) = self.held() {
                    self.over = Over::Drop(id);
                }
            }
            KeyCode::Char('x') => self.release_chosen(),
            KeyCode::Tab => self.pane = self.next_pane(),
            KeyCode::BackTab => {
                let next = self.next_pane();
                self.pane = if self.open.is_some() {
                    // Of three, the one after the next is the one before.
                    self.pane = next;
                    self.next_pane()
                } else {
                    next
                };
            }
            KeyCode::Enter => self.enter(),
            KeyCode::Esc => self.escape(),
            code => {
                let rows = match self.pane {
                    Pane::Agents => self.agents.len(),
                    Pane::Messages => self.room.messages,
                    Pane::Trace => self.room.trace,
                };
                if let Some(by) = moved(code, rows) {
                    self.go(by);
                }
            }
        }
    }

    /// Scrolls where there is more than what is shown; any other key closes help.
    fn press_in_help(&mut self, scroll: usize, key: KeyEvent) {
        let Room {
            help,
            help_scroll_max,
            ..
        } = self.room;
        if help_scroll_max > 0
            && let Some(by) = moved(key.code, help)
        {
            let scroll = scroll.min(help_scroll_max).saturating_add_signed(by);
            self.over = Over::Help(scroll.min(help_scroll_max));
        }
    }

    fn act(&mut self, action: Action) {
        // It is said until it is known what came of it.
        self.said = Some(Said {
            text: action.begun(),
            is_trouble: false,
            until: None,
        });
        self.wishes.push(Wish::Act(action));
    }

    /// Holds what the chosen agent gets and sends, or ends that.
    fn hold_chosen(&mut self) {
        let chosen = self.agent().filter(|_| self.pane == Pane::Agents);
        let Some((name, is_held)) = chosen.map(|row| (row.name.clone(), row.is_held)) else {
            self.say("choose an agent first: Tab goes to the agents");
            return;
        };
        self.act(if is_held {
            Action::Lift(Some(name))
        } else {
            Action::Hold(Some(name))
        });
    }

    /// Asks whether the chosen agent is to end, if it is a worker.
    fn release_chosen(&mut self) {
        let chosen = self.agent().filter(|_| self.pane == Pane::Agents);
        match chosen.map(|row| (row.name.clone(), row.is_worker)) {
            None => self.say("choose a worker first: Tab goes to the agents"),
            Some((name, false)) => self.say(&format!("{name} is no worker that relay has started")),
            Some((name, true)) => self.over = Over::Release(name),
        }
    }

    /// Returns the id of the chosen message if it is held; says so if it is not.
    fn held(&mut self) -> Option<String> {
        let chosen = self.stream.chosen().and_then(Entry::message);
        let (message, steps) = chosen.filter(|_| self.pane != Pane::Agents)?;
        if steps.values().any(|step| *step == Step::Held) {
            return Some(message.id.clone());
        }
        let id: String = message.id.chars().take(8).collect();
        self.say(&format!("{id} is not held"));
        None
    }

    fn next_pane(&self) -> Pane {
        match self.pane {
            Pane::Agents => Pane::Messages,
            Pane::Messages if self.open.is_some() => Pane::Trace,
            Pane::Messages | Pane::Trace => Pane::Agents,
        }
    }

    fn go(&mut self, by: isize) {
        match self.pane {
            Pane::Agents => self.choose_agent(by),
            Pane::Messages => {
                self.stream.choose(by);
                if self.open.is_some() {
                    self.stream.hold();
                    self.show_chosen();
                }
            }
            Pane::Trace => {
                let scroll_max = self.room.scroll_max;
                if let Some(open) = &mut self.open {
                    open.scroll = open
                        .scroll
                        .min(scroll_max)
                        .saturating_add_signed(by)
                        .min(scroll_max);
                }
            }
        }
    }

    fn enter(&mut self) {
        match self.pane {
            Pane::Agents => {
                let agent = self.agent().map(|row| row.name.clone());
                let is_set = self.stream.filter().agent == agent;
                self.filter_by(agent.filter(|_| !is_set));
            }
            Pane::Messages => {
                self.stream.hold();
                self.show_chosen();
            }
            Pane::Trace => {}
        }
    }

    fn escape(&mut self) {
        if self.open.take().is_some() {
            if self.pane == Pane::Trace {
                self.pane = Pane::Messages;
            }
            return;
        }
        self.filter_by(None);
        self.search_for("");
    }

    fn press_in_search(&mut self, mut line: Line, before: String, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.pane = Pane::Messages,
            KeyCode::Esc => self.search_for(&before),
            _ => {
                line.press(key);
                self.search_for(line.text());
                self.over = Over::Search { line, before };
            }
        }
    }

    fn press_in_filter(&mut self, mut line: Line, key: KeyEvent) {
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Enter => {
                let name = line.text().trim().to_owned();
                self.filter_by(Some(name).filter(|name| !name.is_empty()));
                self.pane = Pane::Messages;
            }
            KeyCode::Tab => {
                if let Some(name) = self.completed(line.text()) {
                    line = Line::new(&name);
                }
                self.over = Over::Filter { line };
            }
            _ => {
                line.press(key);
                self.over = Over::Filter { line };
            }
        }
    }

    /// Returns the next agent whose name begins so; the one behind it if it is the name of one.
    fn completed(&self, begun: &str) -> Option<String> {
        let mut names = self.agents.iter().map(|row| &row.name);
        if let Some(place) = names.clone().position(|name| name == begun) {
            return names.cycle().nth(place + 1).cloned();
        }
        names.find(|name| name.starts_with(begun)).cloned()
    }

    fn press_in_draft(&mut self, mut draft: Draft, key: KeyEvent, is_end: bool) {
        let new_line = key
            .modifiers
            .intersects(KeyModifiers::ALT | KeyModifiers::SHIFT | KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return self.give_up(draft),
            _ if is_end => return self.give_up(draft),
            KeyCode::Tab => {
                let is_known = self.agents.iter().any(|row| row.name == draft.to.text());
                let completed = (draft.field == Field::To && !is_known && !draft.to.text().is_empty())
                    .then(|| self.completed(draft.to.text()));
                match completed.flatten() {
                    Some(name) => draft.to = Line::new(&name),
                    None => draft.field = draft.field.next(),
                }
            }
            KeyCode::BackTab => draft.field = draft.field.next().next(),
            KeyCode::Enter if draft.field != Field::Body => draft.field = draft.field.next(),
            KeyCode::Enter if new_line => draft.body.insert("\n"),
            KeyCode::Enter => return self.send(draft),
            _ => match draft.field {
                Field::To => drop(draft.to.press(key)),
                Field::Body => drop(draft.body.press(key)),
                Field::Kind => draft.kind = turned(draft.kind, key.code),
            },
        }
        self.over = Over::Draft(draft);
    }

    /// Closes a draft in which something is written only once that is confirmed.
    fn give_up(&mut self, draft: Draft) {
        if !draft.body.text().trim().is_empty() {
            self.over = Over::Discard(draft);
        }
    }

    fn send(&mut self, mut draft: Draft) {
        let missing = if draft.to.text().trim().is_empty() {
            draft.field = Field::To;
            "say who gets it"
        } else if draft.body.text().is_empty() {
            "the message is empty"
        } else {
            self.act(Action::Send(draft));
            return;
        };
        self.over = Over::Draft(draft);
        self.say_for_a_while(missing.to_owned(), true);
    }
}

impl Field {
    fn next(self) -> Self {
        match self {
            Self::To => Self::Kind,
            Self::Kind => Self::Body,
            Self::Body => Self::To,
        }
    }
}

/// Returns by how many rows a key moves where so many are shown, if it moves: of a page, one was seen before.
fn moved(key: KeyCode, rows: usize) -> Option<isize> {
    let page = isize::try_from(rows.saturating_sub(1))
        .unwrap_or(isize::MAX)
        .max(1);
    Some(match key {
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::PageUp => -page,
        KeyCode::PageDown | KeyCode::Char(' ') => page,
        KeyCode::Home | KeyCode::Char('g') => isize::MIN,
        KeyCode::End | KeyCode::Char('G') => isize::MAX,
        _ => return None,
    })
}

/// Returns the kind that a key chooses, beside another.
fn turned(kind: Kind, key: KeyCode) -> Kind {
    let all = Kind::ALL;
    let place = all.iter().position(|other| *other == kind).unwrap_or(0);
    let by = match key {
        KeyCode::Right | KeyCode::Down | KeyCode::Char(' ') => 1,
        KeyCode::Left | KeyCode::Up => all.len() - 1,
        _ => 0,
    };
    all[(place + by) % all.len()]
}

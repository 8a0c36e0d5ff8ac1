//! How it looks: colours, or without them.

use ratatui::style::{Color, Modifier, Style};

use super::super::agents::Doing;
use super::super::news::Step;
use crate::engine::Timestamp;

/// What a terminal can show beside characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// Colours, those of the person's own theme.
    All,
    /// Bold, dim and reversed characters alone.
    None,
    /// Nothing at all.
    Plain,
}

impl Colours {
    /// Finds out what is wanted, by `NO_COLOR` (<https://no-color.org>) and the name of the terminal.
    pub fn of(no_color: Option<&str>, terminal: Option<&str>) -> Self {
        let terminal = terminal.unwrap_or_default();
        if matches!(terminal, "" | "dumb" | "unknown") {
            return Self::Plain;
        }
        let has_none = terminal.ends_with("-m") || terminal.ends_with("-mono") || terminal.starts_with("vt");
        if has_none || no_color.is_some_and(|value| !value.is_empty()) {
            Self::None
        } else {
            Self::All
        }
    }
}

/// How it looks.
pub struct Look {
    /// With which colours.
    pub colours: Colours,
    /// Writes the time of day, `14:32:01`.
    pub time: fn(Timestamp) -> String,
}

impl Look {
    fn style(&self, colour: Option<Color>, modifier: Modifier) -> Style {
        match (self.colours, colour) {
            (Colours::Plain, _) => Style::new(),
            (Colours::All, Some(colour)) => Style::new().fg(colour).add_modifier(modifier),
            (Colours::All, None) | (Colours::None, _) => Style::new().add_modifier(modifier),
        }
    }

    pub fn header(&self) -> Style {
        self.style(None, Modifier::REVERSED | Modifier::BOLD)
    }

    pub fn header_lost(&self) -> Style {
        self.style(Some(Color::Red), Modifier::REVERSED | Modifier::BOLD)
    }

    pub fn rule(&self, is_chosen: bool) -> Style {
        if is_chosen {
            self.style(Some(Color::Cyan), Modifier::empty())
        } else {
            self.dim()
        }
    }

    pub fn title(&self, is_chosen: bool) -> Style {
        if is_chosen {
            self.style(Some(Color::Cyan), Modifier::BOLD)
        } else {
            self.dim()
        }
    }

    pub fn plain(&self) -> Style {
        Style::new()
    }

    pub fn dim(&self) -> Style {
        self.style(None, Modifier::DIM)
    }

    pub fn bold(&self) -> Style {
        self.style(None, Modifier::BOLD)
    }

    pub fn key(&self) -> Style {
        self.style(Some(Color::Cyan), Modifier::BOLD)
    }

    pub fn said(&self) -> Style {
        self.style(Some(Color::Green), Modifier::empty())
    }

    pub fn trouble(&self) -> Style {
        self.style(Some(Color::Red), Modifier::BOLD)
    }

    /// What is searched for, where it stands.
    pub fn found(&self) -> Style {
        self.style(Some(Color::Yellow), Modifier::REVERSED)
    }

    /// The mark before what is chosen.
    pub fn mark(&self, is_pane_chosen: bool) -> Style {
        if is_pane_chosen {
            self.style(Some(Color::Cyan), Modifier::BOLD)
        } else {
            self.dim()
        }
    }

    pub fn doing(&self, doing: Doing) -> Style {
        match doing {
            Doing::Asks => self.style(Some(Color::Magenta), Modifier::BOLD),
            Doing::Busy => self.style(Some(Color::Yellow), Modifier::empty()),
            Doing::Waits | Doing::Idle | Doing::There => self.style(Some(Color::Green), Modifier::empty()),
            Doing::Away => self.dim(),
            Doing::You => self.plain(),
        }
    }

    /// The kind of a message, in the colours that the log of `relay serve` has.
    pub fn kind(&self, kind: &str) -> Style {
        match kind {
            "status" => self.style(Some(Color::Green), Modifier::empty()),
            "question" => self.style(Some(Color::Yellow), Modifier::empty()),
            "directive" => self.style(Some(Color::Cyan), Modifier::empty()),
            _ => self.dim(),
        }
    }

    pub fn step(&self, step: Option<Step>) -> Style {
        match step {
            Some(Step::Waits | Step::Deferred) => self.style(Some(Color::Yellow), Modifier::empty()),
            Some(Step::Held) => self.style(Some(Color::Magenta), Modifier::BOLD),
            Some(Step::Dropped | Step::HandedOn) => self.dim(),
            Some(Step::HandedOver) => self.style(Some(Color::Cyan), Modifier::empty()),
            Some(Step::Delivered | Step::Read) => self.style(Some(Color::Green), Modifier::empty()),
            Some(Step::Expired | Step::Failed) => self.trouble(),
            None => self.dim(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted_or_not_there() {
        for (no_color, terminal, colours) in [
            (None, Some("xterm-256color"), Colours::All),
            (Some(""), Some("xterm"), Colours::All),
            (Some("1"), Some("xterm"), Colours::None),
            (None, Some("screen-mono"), Colours::None),
            (None, Some("xterm-mono"), Colours::None),
            (None, Some("linux-m"), Colours::None),
            (None, Some("vt100"), Colours::None),
            (None, Some("dumb"), Colours::Plain),
            (None, None, Colours::Plain),
        ] {
            assert_eq!(Colours::of(no_color, terminal), colours, "{terminal:?}");
        }
    }
}

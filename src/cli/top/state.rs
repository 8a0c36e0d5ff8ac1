//! What is shown, and how it changes: news and keys in, wishes out. Knows of no terminal and no connection, and is told the time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::actions::Action;
use super::agents::{Row, rows};
use super::line::Line;
use super::news::{Agent, Event, News, Traced};
use super::stream::{Filter, Stream};
use crate::cli::health::Health;
use crate::engine::{Kind, PERSON, RELAY, Timestamp};

mod keys;

pub use keys::KEYS;

/// How long it is said what came of something: so that a few lines of it can be read, and the keys are told again soon.
pub const SAID_FOR: Duration = Duration::from_secs(10);

/// How many messages that wait are asked about at a time: whether they are handed over is in no event.
const LOOKS_MAX: usize = 8;

/// All of it.
#[derive(Debug, Default)]
pub struct State {
    /// The relay, and whether it is there.
    pub link: Link,
    /// Its agents.
    pub agents: Vec<Row>,
    /// The messages.
    pub stream: Stream,
    /// Where the keys go.
    pub pane: Pane,
    /// The chosen agent; the first one if it is none of them.
    pub chosen_agent: String,
    /// The message whose trace is shown.
    pub open: Option<Open>,
    /// What is over it all and takes the keys.
    pub over: Over,
    /// What there is to say.
    pub said: Option<Said>,
    /// How much room there was for it when it was shown last.
    pub room: Room,
    /// It is to end.
    pub is_over: bool,
    /// For how long it is shown already.
    now: Duration,
    said_of_agents: BTreeMap<String, Agent>,
    health: Option<Box<Health>>,
    wishes: Vec<Wish>,
    /// The number of the message that was asked about last, since it may be handed over.
    looked: u64,
    /// What the relay did not take and could not be shown again yet, and why it was not taken.
    refused: VecDeque<(Draft, String)>,
}

/// The relay that is followed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Where it is.
    pub place: String,
    /// This start of it.
    pub boot: Option<String>,
    /// When that was.
    pub started_at: Option<Timestamp>,
    /// For how long it has run, in seconds.
    pub uptime: u64,
    /// The person holds all messages.
    pub holds_all: bool,
    /// Why it is not there, if it is not.
    pub lost: Option<String>,
}

/// A part of what is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pane {
    /// The agents.
    Agents,
    /// The messages.
    #[default]
    Messages,
    /// The message that is open.
    Trace,
}

/// The message that is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Open {
    /// Its id.
    pub id: String,
    /// What has become of it, in lines; none while that is not known.
    pub trace: Option<Result<String, String>>,
    /// How many lines of it are above what is shown.
    pub scroll: usize,
}

/// What takes the keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// The panes.
    #[default]
    Nothing,
    /// The keys are told; so many lines of that are above what is shown.
    Help(usize),
    /// What is searched for is written; what it was before.
    Search {
        /// What is written.
        line: Line,
        /// What is filtered by if it is given up.
        before: String,
    },
    /// The agent is written that is filtered by.
    Filter {
        /// What is written.
        line: Line,
    },
    /// A message is written.
    Draft(Draft),
    /// A message is about to be lost: its id.
    Drop(String),
    /// A worker is about to end: its name.
    Release(String),
    /// What was written is about to be lost.
    Discard(Draft),
}

/// A message that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Who gets it.
    pub to: Line,
    /// What it is for.
    pub kind: Kind,
    /// The text.
    pub body: Line,
    /// What is being written of it.
    pub field: Field,
}

/// A part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Who gets it.
    To,
    /// What it is for.
    Kind,
    /// The text.
    Body,
}

/// What there is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// In words.
    pub text: String,
    /// Something did not go well.
    pub is_trouble: bool,
    /// When it is said no more; none if something else will be said in its place.
    until: Option<Duration>,
}

/// How much room there was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// How many messages there were at a time.
    pub messages: usize,
    /// How many lines of the trace there were.
    pub trace: usize,
    /// How many lines of it may be above what is shown.
    pub scroll_max: usize,
    /// How many lines of help there were.
    pub help: usize,
    /// How many lines of it may be above what is shown.
    pub help_scroll_max: usize,
}

/// Something that is wanted of the relay.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// To be told what has become of a message.
    Trace(String),
    /// To have something done.
    Act(Action),
}

impl State {
    /// Takes in what has come.
    pub fn take(&mut self, news: News) {
        match news {
            News::Connected {
                place,
                health,
                inboxes,
            } => {
                self.begin(place, &health);
                for message in inboxes {
                    self.stream.take(message);
                }
                self.heard(health);
                self.refresh();
            }
            News::Health(health) => self.heard(health),
            News::Agents(agents) => {
                let agents = agents.into_iter().map(|agent| (agent.name.clone(), agent));
                self.said_of_agents = agents.collect();
                self.show_agents();
            }
            News::Event(event) => self.happened(event),
            News::Lost(reason) => self.link.lost = Some(reason),
            News::Traced { id, answer } => self.traced(&id, answer),
            News::Done { action, outcome } => self.done(action, outcome),
        }
    }

    /// Takes note of the time: for how long it is shown already.
    pub fn pass(&mut self, now: Duration) {
        self.now = now;
        self.said
            .take_if(|said| said.until.is_some_and(|until| until <= now));
    }

    /// Returns when there is less to say, unless something happens before.
    pub fn next_change(&self) -> Option<Duration> {
        self.said.as_ref().and_then(|said| said.until)
    }

    /// Takes the wishes that there are.
    pub fn wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// Begins with a relay: another start of it has nothing of what was before.
    fn begin(&mut self, place: String, health: &Health) {
        let is_another = self.link.boot.is_some() && self.link.boot != health.boot;
        if is_another {
            let gone = self.stream.open();
            self.stream.clear();
            self.agents.clear();
            self.said_of_agents.clear();
            self.open = None;
            self.pane = Pane::Messages;
            let text = match gone {
                0 => "relay was started anew; what was before is gone".to_owned(),
                1 => "relay was started anew; one delivery that had not arrived is gone".to_owned(),
                _ => format!("relay was started anew; {gone} deliveries that had not arrived are gone"),
            };
            self.stream.note(super::news::moment(&health.started_at), text);
        }
        self.link = Link {
            place,
            boot: health.boot.clone(),
            started_at: Some(super::news::moment(&health.started_at)),
            uptime: health.uptime_seconds,
            holds_all: health.holds_all,
            lost: None,
        };
    }

    fn heard(&mut self, health: Box<Health>) {
        self.link.uptime = health.uptime_seconds;
        self.link.holds_all = health.holds_all;
        let in_doubt = |agent: &str| {
            let mut roles = health.roles.iter();
            roles.any(|role| role.role == agent && role.in_doubt > 0)
        };
        // Each in its turn: one of which it is asked whether it is handed over may wait for long.
        let unclear = self.stream.waiting_for(in_doubt);
        let (next, had): (Vec<_>, Vec<_>) = unclear.partition(|(number, _)| *number > self.looked);
        for (number, id) in next.into_iter().chain(had).take(LOOKS_MAX) {
            self.looked = number;
            self.wishes.push(Wish::Trace(id.to_owned()));
        }
        self.health = Some(health);
        self.show_agents();
    }

    fn show_agents(&mut self) {
        if let Some(health) = &self.health {
            self.agents = rows(health, &self.said_of_agents);
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Message(message) => self.stream.take(message),
            Event::Became { id, agent, step } => {
                self.stream.became(&id, &agent, step);
                self.has_news(&id);
            }
            Event::HandedOn { id, from, to } => {
                self.stream.handed_on(&id, &from, &to);
                self.has_news(&id);
            }
            Event::Note { at, text } => self.stream.note(at, text),
            Event::Missed => self.say("some of what has happened is forgotten, and not shown"),
        }
    }

    /// Asks once more for the trace that is shown, if it is that of a message that something became of.
    fn has_news(&mut self, id: &str) {
        if self.open.as_ref().is_some_and(|open| open.id == id) {
            self.refresh();
        }
    }

    fn traced(&mut self, id: &str, answer: Result<Traced, String>) {
        if let Ok(traced) = &answer {
            self.stream.traced(id, &traced.steps);
        }
        if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
            open.trace = Some(answer.map(|traced| traced.text));
        }
    }

    fn done(&mut self, action: Action, outcome: Result<String, String>) {
        let is_trouble = outcome.is_err();
        let (Ok(text) | Err(text)) = outcome;
        self.say_for_a_while(text.clone(), is_trouble);
        if let Action::Send(draft) = action
            && is_trouble
        {
            self.refused.push_back((draft, text));
            self.show_refused();
        }
    }

    /// Shows again what was not sent, so that it can be changed and sent: as soon as nothing else is in the way, and before all is over.
    fn show_refused(&mut self) {
        if self.over == Over::Nothing
            && let Some((draft, reason)) = self.refused.pop_front()
        {
            self.is_over = false;
            self.over = Over::Draft(draft);
            self.say_for_a_while(reason, true);
        }
    }

    fn say(&mut self, text: &str) {
        self.say_for_a_while(text.to_owned(), false);
    }

    fn say_for_a_while(&mut self, text: String, is_trouble: bool) {
        let until = Some(self.now + SAID_FOR);
        self.said = Some(Said {
            text,
            is_trouble,
            until,
        });
    }

    /// Asks again what has become of the message that is open.
    fn refresh(&mut self) {
        if let Some(open) = &self.open {
            let wish = Wish::Trace(open.id.clone());
            if !self.wishes.contains(&wish) {
                self.wishes.push(wish);
            }
        }
    }

    /// Opens the chosen message; the one that is open already stays as it is.
    fn show_chosen(&mut self) {
        let chosen = self.stream.chosen().and_then(super::stream::Entry::message);
        let Some(id) = chosen.map(|(message, _)| message.id.clone()) else {
            return;
        };
        if self.open.as_ref().is_some_and(|open| open.id == id) {
            return;
        }
        self.open = Some(Open {
            id,
            ..Open::default()
        });
        self.refresh();
    }

    /// Returns the chosen agent.
    pub fn agent(&self) -> Option<&Row> {
        let mut agents = self.agents.iter();
        let chosen = agents.find(|row| row.name == self.chosen_agent);
        chosen.or(self.agents.first())
    }

    fn choose_agent(&mut self, by: isize) {
        let Some(last) = self.agents.len().checked_sub(1) else {
            return;
        };
        let mut agents = self.agents.iter();
        let now = agents.position(|row| row.name == self.chosen_agent).unwrap_or(0);
        let place = now.saturating_add_signed(by).min(last);
        self.chosen_agent = self.agents[place].name.clone();
    }

    fn filter_by(&mut self, agent: Option<String>) {
        let search = self.stream.filter().search.clone();
        self.stream.set_filter(Filter { agent, search });
    }

    fn search_for(&mut self, search: &str) {
        let agent = self.stream.filter().agent.clone();
        let search = search.to_owned();
        self.stream.set_filter(Filter { agent, search });
    }

    /// Begins a message: to the chosen agent, or to who sent the chosen message, or to whom if nobody can be written to who did.
    fn draft(&self) -> Draft {
        let to = match self.pane {
            Pane::Agents => self.agent().map(|row| row.name.clone()),
            Pane::Messages | Pane::Trace => {
                self.stream
                    .chosen()
                    .and_then(super::stream::Entry::message)
                    .map(|(message, _)| {
                        if [PERSON, RELAY].contains(&message.from.as_str()) {
                            message.to.clone()
                        } else {
                            message.from.clone()
                        }
                    })
            }
        };
        let to = to.filter(|to| to != PERSON).unwrap_or_default();
        Draft {
            field: if to.is_empty() { Field::To } else { Field::Body },
            to: Line::new(&to),
            kind: Kind::Free,
            body: Line::with_lines(),
        }
    }
}

#[cfg(test)]
mod tests;

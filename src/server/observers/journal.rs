//! The latest events of all workspaces, in order: what observers read, each at its own pace.
//!
//! It begins when somebody first asks for it: until then nothing is kept, and it costs nothing. It is written under the engine's lock, and holds what is needed to tell of an event, not the words: these are made where somebody
//! reads it. Nobody waits for a reader: who falls so far behind that events are forgotten before it has read them is told so.

mod taking_in;

use std::collections::VecDeque;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::entry::{Entry, Place, Places, SessionEvent, What, Whose};
use super::frames::Frames;
use crate::engine::{AgentName, DEFAULT_PROJECT, Effect, Timestamp};
use crate::server::limits::{EVENT_WORKSPACES_MAX, EVENTS_BYTES_MAX, EVENTS_IDLE_MS, EVENTS_MAX};
use crate::server::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// The latest events.
pub(in crate::server) struct Journal {
    kept: Mutex<Kept>,
    /// Somebody has asked for it, and not too long ago. Changed while it is locked.
    begun: AtomicBool,
    /// Somebody has asked for it since the latest event.
    looked: AtomicBool,
    /// How many streams are open: nobody else is woken.
    streams: AtomicU64,
    /// How many observers are there, or about to be.
    observers: AtomicU64,
    grown: Notify,
    frames: Frames,
}

/// That a stream is open, until it is dropped.
pub(in crate::server) struct Reading<'a>(&'a Journal);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.looked.store(true, Ordering::Relaxed);
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Kept {
    /// The number of the first entry: how many there were before it, and what the first one of all is counted from.
    first: u64,
    entries: VecDeque<Entry>,
    /// The bytes of the messages in them.
    bytes: usize,
    /// Those that have had an event.
    workspaces: Vec<Workspace>,
    /// Whose event the latest one was: most often the next one's, too.
    latest_place: usize,
    /// Until when somebody is known to have looked on.
    looked_at: Timestamp,
    /// What numbers are counted from, here and in each workspace.
    base: u64,
}

/// A workspace that has had an event.
struct Workspace {
    name: Box<str>,
    /// The number of the latest one.
    latest: u64,
}

/// Whose events are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) enum Of {
    /// Everybody's, numbered by all that has happened.
    All,
    /// Those of a workspace, numbered by what has happened in it.
    Workspace(String),
}

/// Where a reader goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Cursor(u64);

/// What was read.
pub(in crate::server) struct Page {
    /// With their numbers.
    pub entries: Vec<(u64, Entry)>,
    /// Behind all that was looked at.
    pub next: Cursor,
    /// There is more.
    pub more: bool,
}

/// Some of what was to be read is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Forgotten;

/// No event has had that number yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Ahead {
    /// The number of the latest one.
    pub latest: u64,
}

/// Where the events behind a number begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Since {
    pub cursor: Cursor,
    /// The number of the event before them.
    pub behind: u64,
    /// Some of them are forgotten.
    pub missed: bool,
}

impl Journal {
    /// Begins one. Numbers are counted from the microseconds of its start, so that they go on growing over a restart: an observer that
    /// comes back goes on behind what it has read, whichever relay told of that.
    pub fn new(now: Timestamp) -> Self {
        let base = u64::try_from(now.as_millis())
            .unwrap_or(0)
            .saturating_mul(1_000)
            .max(1);
        Self {
            kept: Mutex::new(Kept {
                first: base,
                entries: VecDeque::new(),
                bytes: 0,
                workspaces: Vec::new(),
                latest_place: 0,
                looked_at: now,
                base,
            }),
            begun: AtomicBool::new(false),
            looked: AtomicBool::new(false),
            streams: AtomicU64::new(0),
            observers: AtomicU64::new(0),
            grown: Notify::new(),
            frames: Frames::default(),
        }
    }

    /// Takes in what a step has come to.
    pub fn note(&self, at: Timestamp, effects: &[Effect]) {
        if !self.begun.load(Ordering::Acquire) {
            return;
        }
        // It is locked, and who reads is woken, once for all of them, and not at all for what nobody is told of, as most steps are.
        let mut kept: Option<MutexGuard<'_, Kept>> = None;
        for effect in effects {
            if let Effect::Note(event) = effect
                && taking_in::is_told(event)
            {
                if kept.is_none() {
                    kept = self.lock_to_add(at);
                }
                let Some(kept) = &mut kept else {
                    return;
                };
                kept.take_in(at, event);
            }
        }
        if kept.is_none() {
            return;
        }
        drop(kept);
        // A stream that has read before this was written was counted before that.
        if self.streams.load(Ordering::Relaxed) > 0 {
            self.grown.notify_waiters();
        }
    }

    /// Takes in what an agent says of its session.
    pub fn tell(&self, event: &std::sync::Arc<SessionEvent>) {
        if !self.begun.load(Ordering::Acquire) {
            return;
        }
        let Some(mut kept) = self.lock_to_add(event.at) else {
            return;
        };
        let what = What::Session(std::sync::Arc::clone(event));
        kept.push(event.at, what, [&event.agent]);
        drop(kept);
        self.grown.notify_waiters();
    }

    /// Counts one more observer, unless as many are there as may be.
    pub fn admit(&self, max: u64) -> bool {
        let before = self.observers.fetch_add(1, Ordering::Relaxed);
        if before >= max {
            self.dismiss();
        }
        before < max
    }

    /// Counts one less.
    pub fn dismiss(&self) {
        self.observers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a stream that reads from now on, so that it is woken.
    pub fn reading(&self) -> Reading<'_> {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Reading(self)
    }

    /// Completes when something more was taken in, while somebody is [`Self::reading`], or [`Self::wake`] was called, after it was made.
    pub fn grown(&self) -> Notified<'_> {
        self.grown.notified()
    }

    /// Returns the long frames that are on their way.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Has all who read look again, since something else has changed for them.
    pub fn wake(&self) {
        self.grown.notify_waiters();
    }

    /// Finds where the events that are yet to come begin.
    pub fn now(&self, of: &Of) -> Since {
        let kept = self.kept();
        Since {
            cursor: kept.end(),
            behind: kept.latest(of),
            missed: false,
        }
    }

    /// Returns the number of the latest of some events.
    pub fn latest(&self, of: &Of) -> u64 {
        self.kept().latest(of)
    }

    /// Finds where the events behind a number begin; behind 0, all that are kept.
    ///
    /// # Errors
    ///
    /// There is no event with that number yet.
    pub fn since(&self, of: &Of, number: u64) -> Result<Since, Ahead> {
        let kept = self.kept();
        let latest = kept.latest(of);
        if number > latest {
            return Err(Ahead { latest });
        }
        let mut numbers = kept.numbers(of);
        let next = numbers.find(|(_, other)| *other > number);
        let (cursor, next) = match next {
            Some((at, next)) => (Cursor(at), next),
            None => (kept.end(), latest + 1),
        };
        let missed = number > 0 && next > number + 1;
        let behind = next.saturating_sub(1);
        Ok(Since {
            cursor,
            behind,
            missed,
        })
    }

    /// Reads on, and looks at no more than some events.
    ///
    /// # Errors
    ///
    /// Some of what comes next is forgotten.
    pub fn read(&self, of: &Of, from: Cursor, looked_at_max: usize) -> Result<Page, Forgotten> {
        let kept = self.kept();
        if from.0 < kept.first {
            return Err(Forgotten);
        }
        let (end, whose) = (kept.end(), kept.whose(of));
        let to = Cursor(end.0.min(from.0.saturating_add(looked_at_max as u64)));
        let numbered = |(at, entry): (u64, &Entry)| Some((entry.number(whose?, at)?, entry.clone()));
        Ok(Page {
            entries: kept.between(from, to).filter_map(numbered).collect(),
            next: to,
            more: to != end,
        })
    }

    /// Returns what is kept, for somebody who asks for it.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        let kept = self.lock();
        self.begun.store(true, Ordering::Release);
        self.looked.store(true, Ordering::Relaxed);
        kept
    }

    /// Returns what is kept, for an event of that time; none if it is not kept, since nobody has looked on for too long.
    fn lock_to_add(&self, at: Timestamp) -> Option<MutexGuard<'_, Kept>> {
        let mut kept = self.lock();
        if !self.begun.load(Ordering::Acquire) {
            return None;
        }
        let is_looked_at =
            self.looked.swap(false, Ordering::Relaxed) || self.streams.load(Ordering::Relaxed) > 0;
        if is_looked_at {
            kept.looked_at = at;
        } else if at.as_millis() - kept.looked_at.as_millis() > EVENTS_IDLE_MS {
            kept.forget();
            self.begun.store(false, Ordering::Release);
            return None;
        }
        Some(kept)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept
            .lock()
            .expect("nothing panics while it holds the journal")
    }
}

impl Kept {
    fn end(&self) -> Cursor {
        Cursor(self.first + self.entries.len() as u64)
    }

    fn latest(&self, of: &Of) -> u64 {
        match of {
            // The first one has the number that is counted from.
            Of::All => self.end().0.saturating_sub(1),
            Of::Workspace(name) => {
                let workspace = self.workspaces.iter().find(|other| *other.name == **name);
                workspace.map_or(self.base.saturating_sub(1), |workspace| workspace.latest)
            }
        }
    }

    /// Returns whose events they are; none if there has been no such one.
    fn whose(&self, of: &Of) -> Option<Whose> {
        match of {
            Of::All => Some(None),
            Of::Workspace(name) => {
                let place = self.workspaces.iter().position(|other| *other.name == **name);
                place.map(Some)
            }
        }
    }

    /// Goes through the entries between two places, with their places.
    fn between(&self, from: Cursor, to: Cursor) -> impl Iterator<Item = (u64, &Entry)> {
        let place = |cursor: Cursor| usize::try_from(cursor.0 - self.first).unwrap_or(usize::MAX);
        let places = place(from).min(self.entries.len())..place(to).min(self.entries.len());
        (from.0..).zip(self.entries.range(places))
    }

    /// Goes through some of the entries: their places and their numbers.
    fn numbers(&self, of: &Of) -> impl Iterator<Item = (u64, u64)> {
        let whose = self.whose(of);
        let all = self.between(Cursor(self.first), self.end());
        all.filter_map(move |(at, entry)| Some((at, entry.number(whose?, at)?)))
    }

    /// Keeps an event that is told in the workspace of the channel that it is about, if it is about one, and in those of some agents;
    /// the person is in none.
    fn push<'a>(&mut self, at: Timestamp, what: What, agents: impl IntoIterator<Item = &'a AgentName>) {
        let agents = agents.into_iter().filter(|agent| !agent.is_person());
        let channel = what.channel_project();
        let projects = agents.map(|agent| {
            let project: &str = agent.project();
            project
        });
        let mut agents = channel.as_deref().into_iter().chain(projects);
        // What the person tells itself.
        let first = agents.next().unwrap_or(DEFAULT_PROJECT);
        let mut others: Vec<&str> = agents.filter(|project| *project != first).collect();
        let place = self.place(first);
        if others.is_empty() {
            return self.keep(at, what, Places::One(place));
        }
        others.sort_unstable();
        others.dedup();
        let others = others.into_iter().map(|project| self.place(project));
        let places = std::iter::once(place).chain(others).collect();
        self.keep(at, what, Places::Many(places));
    }

    /// Draws the next number of a workspace.
    fn place(&mut self, project: &str) -> Place {
        let is_it = |workspace: &Workspace| *workspace.name == *project;
        let known = if self.workspaces.get(self.latest_place).is_some_and(is_it) {
            Some(self.latest_place)
        } else {
            self.workspaces.iter().position(is_it)
        };
        let workspace = known.unwrap_or_else(|| {
            self.workspaces.push(Workspace {
                name: project.into(),
                latest: self.base.saturating_sub(1),
            });
            self.workspaces.len() - 1
        });
        self.latest_place = workspace;
        let latest = &mut self.workspaces[workspace].latest;
        *latest += 1;
        let number = *latest;
        Place { workspace, number }
    }

    /// Forgets all. Numbers go on behind all that were given, and one is left out everywhere, so that whoever comes back is told.
    fn forget(&mut self) {
        self.first = self.end().0 + 1;
        let latest = self.workspaces.iter().map(|workspace| workspace.latest).max();
        self.base = latest.map_or(self.base, |latest| latest + 1) + 1;
        self.entries = VecDeque::new();
        self.bytes = 0;
        self.workspaces.clear();
        self.latest_place = 0;
    }

    fn keep(&mut self, at: Timestamp, what: What, places: Places) {
        let entry = Entry { at, what, places };
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.entries.len() > EVENTS_MAX || self.bytes > EVENTS_BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
            self.first += 1;
        }
        if self.workspaces.len() > EVENT_WORKSPACES_MAX {
            self.forget();
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "interleavings"))]
mod tests;

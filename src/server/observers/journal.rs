//! The latest events of all workspaces, in order: what observers read, each at its own pace.
//!
//! It begins when somebody first asks for it: until then nothing is kept, and it costs nothing. It is written under the engine's lock, and holds what is needed to tell of an event, not the words: these are made where somebody
//! reads it. Nobody waits for a reader: who falls so far behind that events are forgotten before it has read them is told so.

use std::collections::VecDeque;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::engine::nodes::NodeView;
use crate::engine::receipts::Receipt;
use crate::engine::{
    AgentName, ChannelName, DEFAULT_PROJECT, Effect, Event, Message, MessageId, Recipient, Sign, Timestamp,
};
use crate::server::limits::{EVENTS_BYTES_MAX, EVENTS_MAX};
use crate::server::sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// The latest events.
pub(in crate::server) struct Journal {
    kept: Mutex<Kept>,
    /// Somebody has asked for it.
    begun: AtomicBool,
    /// How many streams are open: nobody else is woken.
    streams: AtomicU64,
    grown: Notify,
}

/// That a stream is open, until it is dropped.
pub(in crate::server) struct Reading<'a>(&'a Journal);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
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
    /// What numbers are counted from, here and in each workspace.
    base: u64,
}

/// A workspace that has had an event.
struct Workspace {
    name: Box<str>,
    /// The number of the latest one.
    latest: u64,
}

/// An event.
#[derive(Debug, Clone)]
pub(in crate::server) struct Entry {
    /// When it was.
    pub at: Timestamp,
    /// What it was.
    pub what: What,
    /// In which workspaces it is told, and its number there.
    places: Places,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// The place of the workspace among all.
    workspace: usize,
    number: u64,
}

#[derive(Debug, Clone)]
enum Places {
    One(Place),
    Many(Arc<[Place]>),
}

/// What has happened.
#[derive(Debug, Clone)]
pub(in crate::server) enum What {
    /// A message was accepted.
    Message {
        message: std::sync::Arc<Message>,
        /// Whose inboxes it is in.
        agents: Vec<AgentName>,
    },
    /// Something became of a delivery.
    Delivery { of: About, agent: AgentName, step: Step },
    /// An agent has said that it has read a message.
    Read { of: About, by: AgentName },
    /// An agent has shown how it takes a message, or shows it no more.
    Reacted {
        of: About,
        by: AgentName,
        emoji: std::sync::Arc<str>,
        given: bool,
    },
    /// An agent is there that was not, or the other way round.
    Agent { agent: AgentName, is_there: bool },
    /// A later instance has taken an agent over.
    TakenOver { agent: AgentName },
    /// An agent is in a channel, or not any more.
    Member {
        channel: ChannelName,
        agent: AgentName,
        is_in: bool,
    },
    /// A node is connected, or not any more, or holds its agents no more.
    Node { node: Box<NodeView>, is_held: bool },
}

/// The message that an event is about, without its text.
#[derive(Debug, Clone)]
pub(in crate::server) struct About {
    pub id: MessageId,
    pub from: AgentName,
    pub to: Recipient,
}

impl From<&Message> for About {
    fn from(message: &Message) -> Self {
        Self {
            id: message.id,
            from: message.from.clone(),
            to: message.to.clone(),
        }
    }
}

/// What became of a delivery.
#[derive(Debug, Clone)]
pub(in crate::server) enum Step {
    /// It is in the inbox.
    Accepted,
    /// It is known to have arrived.
    Delivered { by: Sign },
    /// It is back in the inbox.
    Undone { by: Sign },
    /// Its agent does not want it yet.
    Deferred {
        until: Timestamp,
        reason: Option<Box<str>>,
    },
    /// Its agent could not do what was to be done.
    Failed {
        reason: Option<Box<str>>,
        retryable: bool,
    },
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

/// Whose events are read: of one workspace, by its place, or of all.
type Whose = Option<usize>;

impl Entry {
    /// Returns the number that it has for whoever reads those events; none if it is not one of them. `number` is the one that it has
    /// among all.
    fn number(&self, whose: Whose, number: u64) -> Option<u64> {
        let Some(workspace) = whose else {
            return Some(number);
        };
        let places = match &self.places {
            Places::One(place) => std::slice::from_ref(place),
            Places::Many(places) => places,
        };
        let place = places.iter().find(|place| place.workspace == workspace);
        place.map(|place| place.number)
    }

    fn bytes(&self) -> usize {
        match &self.what {
            What::Message { message, .. } => message.bytes(),
            What::Delivery { .. }
            | What::Read { .. }
            | What::Reacted { .. }
            | What::Agent { .. }
            | What::TakenOver { .. }
            | What::Member { .. }
            | What::Node { .. } => 0,
        }
    }
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
                base,
            }),
            begun: AtomicBool::new(false),
            streams: AtomicU64::new(0),
            grown: Notify::new(),
        }
    }

    /// Takes in what a step has come to.
    pub fn note(&self, at: Timestamp, effects: &[Effect]) {
        if !self.begun.load(Ordering::Acquire) {
            return;
        }
        // It is locked, and who reads is woken, once for all of them, and not at all for what nobody is told of, as most steps are.
        let mut kept = None;
        for effect in effects {
            if let Effect::Note(event) = effect
                && is_told(event)
            {
                kept.get_or_insert_with(|| self.lock()).take_in(at, event);
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

    /// Counts a stream that reads from now on, so that it is woken.
    pub fn reading(&self) -> Reading<'_> {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Reading(self)
    }

    /// Completes when something more was taken in, while somebody is [`Self::reading`], or [`Self::wake`] was called, after it was made.
    pub fn grown(&self) -> Notified<'_> {
        self.grown.notified()
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
        self.begun.store(true, Ordering::Release);
        self.lock()
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

    /// Takes in an event that is told of.
    fn take_in(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::Accepted { message, agents, .. } => {
                let all = std::iter::once(&message.from).chain(agents);
                let what = What::Message {
                    message: message.clone(),
                    agents: agents.clone(),
                };
                self.push(at, what, all);
                for agent in agents {
                    self.push_step(at, message, agent, Step::Accepted);
                }
            }
            Event::Confirmed {
                by,
                agent,
                deliveries,
                ..
            } => {
                for delivery in deliveries.iter() {
                    self.push_step(at, &delivery.message, agent, Step::Delivered { by: *by });
                }
            }
            Event::Undone {
                by,
                agent,
                deliveries,
                ..
            } => {
                for delivery in deliveries.iter() {
                    self.push_step(at, &delivery.message, agent, Step::Undone { by: *by });
                }
            }
            Event::Receipt {
                agent,
                deliveries,
                receipt,
                ..
            } => {
                for delivery in deliveries.iter() {
                    self.push_receipt(at, &delivery.message, agent, receipt);
                }
            }
            Event::Marked { message, agent } => {
                let what = What::Read {
                    of: About::from(&**message),
                    by: agent.clone(),
                };
                self.push(at, what, [&message.from, agent]);
            }
            Event::Reacted {
                message,
                agent,
                emoji,
                given,
            } => {
                let what = What::Reacted {
                    of: About::from(&**message),
                    by: agent.clone(),
                    emoji: emoji.clone(),
                    given: *given,
                };
                self.push(at, what, [&message.from, agent]);
            }
            Event::Registered { agent } => self.push_agent(at, agent, true),
            Event::Gone { agent } => self.push_agent(at, agent, false),
            Event::TakenOver { agent } => {
                let what = What::TakenOver { agent: agent.clone() };
                self.push(at, what, [agent]);
            }
            Event::Joined { channel, agent } => self.push_member(at, channel, agent, true),
            Event::Left { channel, agent } => self.push_member(at, channel, agent, false),
            Event::NodeCame { node, .. } | Event::NodeLeft { node } => self.push_node(at, node, true),
            Event::NodeLapsed { node } => self.push_node(at, node, false),
            Event::Opened { .. }
            | Event::Closed { .. }
            | Event::Parked { .. }
            | Event::WaitEnded { .. }
            | Event::HandedOver { .. }
            | Event::Passed { .. }
            | Event::KeptAlive { .. }
            | Event::Overdue { .. }
            | Event::Read { .. }
            | Event::Awaited { .. }
            | Event::HeldBack { .. }
            | Event::Bound { .. }
            | Event::Unbound { .. }
            | Event::Stopping => {}
        }
    }

    fn push_step(&mut self, at: Timestamp, message: &Message, agent: &AgentName, step: Step) {
        let what = What::Delivery {
            of: About::from(message),
            agent: agent.clone(),
            step,
        };
        self.push(at, what, [&message.from, agent]);
    }

    fn push_receipt(&mut self, at: Timestamp, message: &Message, agent: &AgentName, receipt: &Receipt) {
        let step = match receipt {
            // That it has arrived says it.
            Receipt::Done => return,
            Receipt::Failed { reason, retryable } => Step::Failed {
                reason: reason.clone(),
                retryable: *retryable,
            },
            Receipt::Deferred { until, reason } => Step::Deferred {
                until: *until,
                reason: reason.clone(),
            },
        };
        self.push_step(at, message, agent, step);
    }

    fn push_agent(&mut self, at: Timestamp, agent: &AgentName, is_there: bool) {
        let what = What::Agent {
            agent: agent.clone(),
            is_there,
        };
        self.push(at, what, [agent]);
    }

    fn push_member(&mut self, at: Timestamp, channel: &ChannelName, agent: &AgentName, is_in: bool) {
        let what = What::Member {
            channel: channel.clone(),
            agent: agent.clone(),
            is_in,
        };
        self.push(at, what, [agent]);
    }

    fn push_node(&mut self, at: Timestamp, node: &NodeView, is_held: bool) {
        let what = What::Node {
            node: Box::new(node.clone()),
            is_held,
        };
        let place = self.place(&node.project);
        self.keep(at, what, Places::One(place));
    }

    /// Keeps an event that is told in the workspaces of some agents; the person is in none.
    fn push<'a>(&mut self, at: Timestamp, what: What, agents: impl IntoIterator<Item = &'a AgentName>) {
        let agents = agents.into_iter().filter(|agent| !agent.is_person());
        let mut agents = agents.map(AgentName::project);
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
    }
}

/// Tells whether observers are told of an event.
fn is_told(event: &Event) -> bool {
    match event {
        Event::Accepted { .. }
        | Event::Undone { .. }
        | Event::Receipt { .. }
        | Event::Marked { .. }
        | Event::Reacted { .. }
        | Event::Registered { .. }
        | Event::Gone { .. }
        | Event::TakenOver { .. }
        | Event::Joined { .. }
        | Event::Left { .. }
        | Event::NodeCame { .. }
        | Event::NodeLeft { .. }
        | Event::NodeLapsed { .. } => true,
        // What has failed its agent has said in a receipt.
        Event::Confirmed { by, .. } => *by != Sign::Failed,
        Event::Opened { .. }
        | Event::Closed { .. }
        | Event::Parked { .. }
        | Event::WaitEnded { .. }
        | Event::HandedOver { .. }
        | Event::Passed { .. }
        | Event::KeptAlive { .. }
        | Event::Overdue { .. }
        | Event::Read { .. }
        | Event::Awaited { .. }
        | Event::HeldBack { .. }
        | Event::Bound { .. }
        | Event::Unbound { .. }
        | Event::Stopping => false,
    }
}

#[cfg(test)]
#[cfg(not(feature = "interleavings"))]
mod tests {
    use super::*;
    use crate::engine::{Kind, Places as Inboxes, Seq};

    const START: Timestamp = Timestamp::from_millis(1_777_732_321_000);
    const BASE: u64 = 1_777_732_321_000_000;

    fn name(name: &str) -> AgentName {
        let (project, name) = name.split_once(':').expect("one with its project");
        AgentName::in_project(project, name).expect("a good name")
    }

    fn workspace(name: &str) -> Of {
        Of::Workspace(name.to_owned())
    }

    fn registered(agent: &str) -> [Effect; 1] {
        let agent = name(agent);
        [Effect::Note(Event::Registered { agent })]
    }

    fn accepted(from: AgentName, to: &str, bytes: usize) -> [Effect; 1] {
        let message = Message {
            id: MessageId(uuid::Uuid::nil()),
            from,
            to: Recipient::agent(&name(to)),
            kind: Kind::Free,
            body: "x".repeat(bytes),
            ts: START,
            context: None,
        };
        let accepted = Event::Accepted {
            message: Arc::new(message),
            agents: vec![name(to)],
            places: Inboxes::One(Seq(1)),
        };
        [Effect::Note(accepted)]
    }

    fn numbers(journal: &Journal, of: &Of, since: u64) -> Vec<u64> {
        let Since { mut cursor, .. } = journal.since(of, since).expect("it was");
        let mut numbers = Vec::new();
        loop {
            let page = journal.read(of, cursor, 3).expect("it is kept");
            numbers.extend(page.entries.iter().map(|(number, _)| *number));
            if !page.more {
                return numbers;
            }
            cursor = page.next;
        }
    }

    #[test]
    fn each_workspace_counts_for_itself_and_one_event_may_be_in_two() {
        let journal = Journal::new(START);
        assert_eq!(journal.latest(&Of::All), BASE - 1);
        for agent in ["web:a", "app:a", "web:b"] {
            journal.note(START, &registered(agent));
        }
        journal.note(START, &accepted(name("web:a"), "app:a", 1));
        journal.note(START, &accepted(AgentName::person(), "app:a", 1));
        let from_base = |count: u64| (BASE..BASE + count).collect::<Vec<u64>>();
        assert_eq!(numbers(&journal, &workspace("web"), 0), from_base(4));
        assert_eq!(numbers(&journal, &workspace("app"), 0), from_base(5));
        assert_eq!(numbers(&journal, &Of::All, 0), from_base(7));
        assert_eq!(
            numbers(&journal, &workspace("default"), 0),
            [0; 0],
            "the person is in none"
        );
        assert_eq!(numbers(&journal, &workspace("app"), BASE + 3), [BASE + 4]);
        let ahead = journal.since(&workspace("web"), BASE + 4);
        assert_eq!(ahead, Err(Ahead { latest: BASE + 3 }));
        assert_eq!(journal.latest(&workspace("none")), BASE - 1);
    }

    #[test]
    fn nothing_is_kept_before_somebody_asks() {
        let journal = Journal::new(START);
        journal.note(START, &registered("web:a"));
        assert_eq!(numbers(&journal, &Of::All, 0), [0; 0]);
        journal.note(START, &registered("web:a"));
        assert_eq!(numbers(&journal, &Of::All, 0), [BASE]);
    }

    #[test]
    fn what_is_forgotten_is_missed_and_whoever_was_about_to_read_it_is_told() {
        let journal = Journal::new(START);
        journal.now(&Of::All);
        let of = workspace("web");
        journal.note(START, &registered("web:a"));
        let first = journal.since(&of, 0).expect("it is there");
        assert!(!first.missed, "all that is kept was asked for");
        let behind = |number| journal.since(&of, number).expect("it was").missed;
        assert!(behind(1), "an event of a relay before this one");
        assert!(!behind(BASE - 1));
        for _ in 0..EVENTS_MAX - 1 {
            journal.note(START, &registered("web:a"));
        }
        assert!(journal.read(&of, first.cursor, 1).is_ok(), "as many are kept");
        journal.note(START, &registered("app:a"));
        assert_eq!(journal.read(&of, first.cursor, 1).err(), Some(Forgotten));
        assert!(!behind(BASE), "the second is kept");
        journal.note(START, &registered("app:a"));
        assert!(behind(BASE));
        assert_eq!(numbers(&journal, &of, 0).len(), EVENTS_MAX - 2);
        for _ in 0..EVENTS_MAX {
            journal.note(START, &registered("app:a"));
        }
        let latest = journal.latest(&of);
        assert!(
            !behind(latest) && behind(latest - 1),
            "of the workspace nothing is kept"
        );
    }

    #[test]
    fn no_more_text_is_kept_than_the_bound_and_it_is_freed() {
        let journal = Journal::new(START);
        journal.now(&Of::All);
        let half = EVENTS_BYTES_MAX / 2;
        let kept = |journal: &Journal| {
            let page = journal.since(&Of::All, 0).expect("it was").cursor;
            journal
                .read(&Of::All, page, EVENTS_MAX)
                .expect("it is kept")
                .entries
                .len()
        };
        journal.note(START, &accepted(name("web:a"), "web:b", half));
        journal.note(START, &accepted(name("web:a"), "web:b", half));
        assert_eq!(kept(&journal), 4);
        journal.note(START, &accepted(name("web:a"), "web:b", 1));
        assert_eq!(kept(&journal), 5, "the first message is forgotten");
        journal.note(START, &accepted(name("web:a"), "web:b", half - 1));
        assert_eq!(kept(&journal), 7, "its text counts no more");
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_what_came_before_it_waited() {
        let journal = Journal::new(START);
        journal.now(&Of::All);
        let reading = journal.reading();
        let grown = journal.grown();
        journal.note(START, &registered("web:a"));
        grown.await;
        let grown = journal.grown();
        journal.note(START, &[Effect::Note(Event::Stopping)]);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), grown).await;
        assert!(waited.is_err(), "nothing that is told");
        drop(reading);
        assert_eq!(journal.streams.load(Ordering::Relaxed), 0);
        let grown = journal.grown();
        journal.wake();
        grown.await;
    }
}

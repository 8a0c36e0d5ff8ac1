//! The messages that are shown, and how far each has come. The latest ones are kept; what is older is forgotten here, and nowhere else.

use std::collections::{BTreeMap, VecDeque};

use super::news::{Message, Step};
use crate::engine::Timestamp;

/// Most entries that are kept: more than anybody scrolls through, and found in no time.
pub const ENTRIES_MAX: usize = 2_000;

/// Most bytes of their texts, so that a few thousand of the longest bodies do not take all memory.
pub const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The how-manieth it is.
    pub number: u64,
    /// When it was.
    pub at: Timestamp,
    /// What it was.
    pub what: What,
    /// It is let through by the filter and the search.
    is_shown: bool,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A message.
    Message {
        /// It.
        message: Message,
        /// How far it has come, for each of its recipients.
        steps: BTreeMap<String, Step>,
    },
    /// Something else, in words.
    Note(String),
}

impl Entry {
    /// Returns the message, if it is one.
    pub fn message(&self) -> Option<(&Message, &BTreeMap<String, Step>)> {
        match &self.what {
            What::Message { message, steps } => Some((message, steps)),
            What::Note(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        match &self.what {
            What::Message { message, .. } => message.body.len(),
            What::Note(text) => text.len(),
        }
    }
}

/// Which entries are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those that are from an agent or for it.
    pub agent: Option<String>,
    /// Those in which this stands, whatever its case; all if it is empty.
    pub search: String,
}

impl Filter {
    fn shows(&self, what: &What) -> bool {
        let search = self.search.to_lowercase();
        let has = |text: &str| search.is_empty() || text.to_lowercase().contains(&search);
        match what {
            What::Note(text) => self.agent.is_none() && has(text),
            What::Message { message, steps } => {
                let Message {
                    id,
                    from,
                    to,
                    kind,
                    body,
                    ..
                } = message;
                let is_about =
                    |agent: &String| agent == from || agent == to || steps.contains_key(agent.as_str());
                self.agent.as_ref().is_none_or(is_about)
                    && [id, from, to, kind, body].into_iter().any(|text| has(text))
            }
        }
    }
}

/// The entries, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    entries: VecDeque<Entry>,
    next: u64,
    bytes: usize,
    filter: Filter,
    /// The message that is chosen; the latest one that is shown if it is none.
    chosen: Option<u64>,
}

impl Stream {
    /// Forgets all entries, and keeps what is filtered by.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.chosen = None;
    }

    /// Returns what is filtered by.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Changes what is filtered by.
    pub fn set_filter(&mut self, filter: Filter) {
        for entry in &mut self.entries {
            entry.is_shown = filter.shows(&entry.what);
        }
        self.filter = filter;
        let is_there = |number| self.messages().any(|entry| entry.number == number);
        self.chosen = self.chosen.filter(|chosen| is_there(*chosen));
    }

    /// Takes a message in, where it belongs by its time; one that is there already only tells in whose inbox it is.
    pub fn take(&mut self, message: Message) {
        let inbox = message.inbox.clone();
        let id = message.id.clone();
        if self.find(&id).is_none() {
            let steps = BTreeMap::new();
            self.push(message.at, What::Message { message, steps });
        }
        if let Some((agent, step)) = inbox {
            self.became(&id, &agent, step);
        }
    }

    /// Takes something else in.
    pub fn note(&mut self, at: Timestamp, text: String) {
        self.push(at, What::Note(text));
    }

    fn push(&mut self, at: Timestamp, what: What) {
        let number = self.next;
        self.next += 1;
        let entry = Entry {
            number,
            at,
            is_shown: self.filter.shows(&what),
            what,
        };
        self.bytes += entry.bytes();
        let later = self.entries.iter().rev().take_while(|other| other.at > at);
        let place = self.entries.len() - later.count();
        self.entries.insert(place, entry);
        while self.entries.len() > ENTRIES_MAX || self.bytes > TEXT_BYTES_MAX && self.entries.len() > 1 {
            let Some(oldest) = self.entries.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes();
            self.chosen = self.chosen.filter(|chosen| *chosen != oldest.number);
        }
    }

    /// Takes note of how far a message has come.
    pub fn became(&mut self, id: &str, agent: &str, step: Step) {
        let filter = &self.filter;
        let Some(entry) = Self::find_in(&mut self.entries, id) else {
            return;
        };
        if let What::Message { steps, .. } = &mut entry.what {
            // What was read may be said to have arrived behind that.
            let is_read = steps.get(agent) == Some(&Step::Read) && step == Step::Delivered;
            if !is_read {
                steps.insert(agent.to_owned(), step);
            }
            entry.is_shown = filter.shows(&entry.what);
        }
    }

    /// Takes note of who a message waits for instead of another.
    pub fn handed_on(&mut self, id: &str, from: &str, to: &str) {
        let Some(entry) = Self::find_in(&mut self.entries, id) else {
            return;
        };
        if let What::Message { steps, .. } = &mut entry.what {
            steps.insert(from.to_owned(), Step::HandedOn);
            let step = Step::of_heir(steps.get(to).copied());
            steps.insert(to.to_owned(), step);
            entry.is_shown = self.filter.shows(&entry.what);
        }
    }

    /// Takes note of what a trace says, which may be older than what is known from events: it tells alone what these do not.
    pub fn traced(&mut self, id: &str, traced: &BTreeMap<String, Step>) {
        let Some(entry) = Self::find_in(&mut self.entries, id) else {
            return;
        };
        if let What::Message { steps, .. } = &mut entry.what {
            for (agent, step) in traced {
                let known = steps.get(agent);
                if known.is_none_or(|known| known.is_open()) {
                    steps.insert(agent.clone(), *step);
                }
            }
        }
    }

    fn find_in<'a>(entries: &'a mut VecDeque<Entry>, id: &str) -> Option<&'a mut Entry> {
        let is_it = |entry: &&mut Entry| entry.message().is_some_and(|(message, _)| message.id == id);
        entries.iter_mut().rev().find(is_it)
    }

    /// Returns a message.
    pub fn find(&self, id: &str) -> Option<&Entry> {
        let is_it = |entry: &&Entry| entry.message().is_some_and(|(message, _)| message.id == id);
        self.entries.iter().rev().find(is_it)
    }

    /// Returns what is shown, the oldest first.
    pub fn shown(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_shown)
    }

    /// Returns the messages of it.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.shown().filter(|entry| entry.message().is_some())
    }

    /// Counts all messages that are kept, shown or not.
    pub fn count(&self) -> usize {
        let messages = self.entries.iter().filter(|entry| entry.message().is_some());
        messages.count()
    }

    /// Counts the deliveries that are not at their end.
    pub fn open(&self) -> usize {
        let messages = self.entries.iter().filter_map(Entry::message);
        messages
            .map(|(_, steps)| steps.values().filter(|step| step.is_open()).count())
            .sum()
    }

    /// Returns the numbers and ids of the messages, the oldest first, that wait for one of some agents as far as is known.
    pub fn waiting_for<'a>(
        &'a self,
        is_one: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = (u64, &'a str)> {
        let waits = move |steps: &BTreeMap<String, Step>| {
            let mut steps = steps.iter();
            steps.any(|(agent, step)| matches!(step, Step::Waits | Step::Deferred) && is_one(agent))
        };
        self.entries.iter().filter_map(move |entry| {
            let (message, steps) = entry.message()?;
            waits(steps).then_some((entry.number, message.id.as_str()))
        })
    }

    /// Returns the chosen message.
    pub fn chosen(&self) -> Option<&Entry> {
        match self.chosen {
            None => self.messages().next_back(),
            Some(chosen) => self.messages().find(|entry| entry.number == chosen),
        }
    }

    /// Counts the messages that are shown below the chosen one; none where the latest one is chosen, whichever comes.
    pub fn newer(&self) -> usize {
        self.chosen.map_or(0, |chosen| {
            let messages = self.messages().rev();
            messages.take_while(|entry| entry.number != chosen).count()
        })
    }

    /// Chooses another message, so many further down; none is chosen beyond the first and the last.
    pub fn choose(&mut self, by: isize) {
        let numbers: Vec<u64> = self.messages().map(|entry| entry.number).collect();
        let Some(last) = numbers.len().checked_sub(1) else {
            return;
        };
        let now = self
            .chosen
            .and_then(|chosen| numbers.iter().position(|number| *number == chosen));
        let place = now.unwrap_or(last).saturating_add_signed(by).min(last);
        self.chosen = (place < last).then(|| numbers[place]);
    }

    /// Keeps the chosen message chosen, whatever comes.
    pub fn hold(&mut self) {
        self.chosen = self.chosen().map(|entry| entry.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: u64, body: &str) -> Message {
        Message {
            id: format!("id-{id}"),
            from: "dev-b".to_owned(),
            to: "pm".to_owned(),
            kind: "status".to_owned(),
            body: body.to_owned(),
            at: Timestamp::from_millis(i64::try_from(id).expect("it is small")),
            inbox: None,
        }
    }

    fn ids(stream: &Stream) -> Vec<&str> {
        let messages = stream.messages().filter_map(Entry::message);
        messages.map(|(message, _)| message.id.as_str()).collect()
    }

    #[test]
    fn the_latest_are_kept_by_number_and_by_bytes() {
        let mut stream = Stream::default();
        for id in 0..=ENTRIES_MAX as u64 {
            stream.take(message(id, "x"));
        }
        assert_eq!(stream.count(), ENTRIES_MAX);
        assert!(stream.find("id-0").is_none() && stream.find("id-1").is_some());
        let half = "x".repeat(TEXT_BYTES_MAX / 2);
        stream.take(message(10_000, &half));
        stream.take(message(10_001, &half));
        assert_eq!(ids(&stream), ["id-10000", "id-10001"]);
        stream.take(message(10_002, &"x".repeat(TEXT_BYTES_MAX + 1)));
        assert_eq!(ids(&stream), ["id-10002"]);
    }

    #[test]
    fn each_message_is_there_once_in_the_order_of_their_times() {
        let mut stream = Stream::default();
        for id in [2, 1, 3, 2] {
            stream.take(message(id, "x"));
        }
        assert_eq!(ids(&stream), ["id-1", "id-2", "id-3"]);
    }

    #[test]
    fn a_filter_lets_through_what_is_about_an_agent_and_has_the_words() {
        let mut stream = Stream::default();
        stream.take(message(1, "Task DONE"));
        stream.take(Message {
            from: "dev-a".to_owned(),
            to: "@everyone".to_owned(),
            ..message(2, "hello")
        });
        stream.became("id-2", "dev-c", Step::Waits);
        stream.note(Timestamp::from_millis(3), "dev-a is there".to_owned());
        let mut shown = |agent: Option<&str>, search: &str| {
            stream.set_filter(Filter {
                agent: agent.map(str::to_owned),
                search: search.to_owned(),
            });
            let shown: Vec<u64> = stream.shown().map(|entry| entry.number).collect();
            shown
        };
        assert_eq!(shown(None, ""), [0, 1, 2]);
        assert_eq!(shown(Some("pm"), ""), [0]);
        assert_eq!(shown(Some("dev-c"), ""), [1]);
        assert_eq!(shown(None, "task d"), [0]);
        assert_eq!(shown(None, "DEV-A"), [1, 2]);
        assert_eq!(shown(Some("pm"), "hello"), [] as [u64; 0]);
    }

    #[test]
    fn what_is_chosen_stays_while_others_come_and_the_last_one_moves_on() {
        let mut stream = Stream::default();
        for id in 1..=3 {
            stream.take(message(id, "x"));
        }
        let chosen = |stream: &Stream| stream.chosen().map(|entry| entry.number);
        assert_eq!(chosen(&stream), Some(2));
        stream.take(message(4, "x"));
        assert_eq!(chosen(&stream), Some(3));
        stream.choose(-1);
        stream.take(message(5, "x"));
        assert_eq!((chosen(&stream), stream.newer()), (Some(2), 2));
        stream.choose(-100);
        assert_eq!(chosen(&stream), Some(0));
        stream.choose(100);
        assert_eq!((chosen(&stream), stream.newer()), (Some(4), 0));
        stream.take(message(6, "x"));
        assert_eq!(chosen(&stream), Some(5));
        stream.hold();
        stream.take(message(7, "x"));
        assert_eq!((chosen(&stream), stream.newer()), (Some(5), 1));
        stream.choose(isize::MAX);
        assert_eq!(chosen(&stream), Some(6));
    }

    #[test]
    fn a_trace_tells_nothing_of_what_is_at_its_end() {
        let mut stream = Stream::default();
        stream.take(message(1, "x"));
        for (agent, step) in [("pm", Step::Waits), ("dev-a", Step::Delivered)] {
            stream.became("id-1", agent, step);
        }
        let handed_over = ["pm", "dev-a"].map(|agent| (agent.to_owned(), Step::HandedOver));
        stream.traced("id-1", &handed_over.into());
        let steps = |stream: &Stream| match &stream.find("id-1").expect("it is there").what {
            What::Message { steps, .. } => steps.values().copied().collect::<Vec<_>>(),
            What::Note(_) => Vec::new(),
        };
        assert_eq!(steps(&stream), [Step::Delivered, Step::HandedOver]);
        assert_eq!(stream.open(), 1);
        stream.became("id-1", "pm", Step::Read);
        stream.became("id-1", "pm", Step::Delivered);
        assert_eq!(steps(&stream), [Step::Delivered, Step::Read]);
    }

    #[test]
    fn what_was_handed_on_waits_for_its_heir_alone_whatever_is_told_late() {
        let mut stream = Stream::default();
        stream.take(message(1, "one"));
        stream.became("id-1", "w1", Step::Waits);
        stream.handed_on("id-1", "w1", "pm");
        let late = [("w1".to_owned(), Step::Waits)].into();
        stream.traced("id-1", &late);
        stream.became("id-1", "dev-b", Step::Held);
        stream.handed_on("id-1", "w1", "dev-b");
        let What::Message { steps, .. } = &stream.find("id-1").expect("it is there").what else {
            panic!("it is a message");
        };
        let expected = [("dev-b", Step::Held), ("pm", Step::Waits), ("w1", Step::HandedOn)];
        assert_eq!(
            *steps,
            expected.map(|(agent, step)| (agent.to_owned(), step)).into()
        );
    }

    #[test]
    fn a_message_to_many_is_let_through_once_it_is_known_whom_it_comes_to() {
        let mut stream = Stream::default();
        stream.set_filter(Filter {
            agent: Some("dev-c".to_owned()),
            search: String::new(),
        });
        stream.take(Message {
            to: "@everyone".to_owned(),
            ..message(1, "hello")
        });
        assert_eq!(ids(&stream), [] as [&str; 0]);
        stream.became("id-1", "dev-c", Step::Waits);
        assert_eq!(ids(&stream), ["id-1"]);
    }

    #[test]
    fn what_was_forgotten_takes_no_room() {
        let mut stream = Stream::default();
        stream.take(message(1, &"x".repeat(TEXT_BYTES_MAX)));
        stream.clear();
        stream.take(message(2, "x"));
        stream.take(message(3, "x"));
        assert_eq!(ids(&stream), ["id-2", "id-3"]);
    }

    #[test]
    fn the_latest_one_is_chosen_again_once_what_was_is_not_shown_or_forgotten() {
        let mut stream = Stream::default();
        for (id, body) in [(1, "x"), (2, "two"), (3, "x")] {
            stream.take(message(id, body));
        }
        let chosen = |stream: &Stream| stream.chosen().map(|entry| entry.number);
        let search = |search: &str| Filter {
            agent: None,
            search: search.to_owned(),
        };
        stream.choose(-1);
        stream.set_filter(search("two"));
        assert_eq!(chosen(&stream), Some(1));
        stream.set_filter(search("x"));
        assert_eq!((chosen(&stream), stream.newer()), (Some(2), 0));
        stream.set_filter(Filter::default());
        stream.choose(isize::MIN);
        assert_eq!(chosen(&stream), Some(0));
        stream.take(message(4, &"x".repeat(TEXT_BYTES_MAX)));
        assert_eq!(chosen(&stream), Some(3));
    }

    #[test]
    fn a_search_finds_what_stands_in_any_part_of_a_message() {
        let mut stream = Stream::default();
        stream.take(message(1, "done"));
        stream.take(Message {
            from: "dev-a".to_owned(),
            to: "@everyone".to_owned(),
            kind: "question".to_owned(),
            ..message(2, "hello")
        });
        for (agent, search, found) in [
            (None, "id-2", &["id-2"][..]),
            (None, "DEV-B", &["id-1"]),
            (None, "@every", &["id-2"]),
            (None, "quest", &["id-2"]),
            (None, "hell", &["id-2"]),
            (None, "nothing", &[]),
            (Some("dev-a"), "", &["id-2"]),
            (Some("dev-a"), "id-1", &[]),
        ] {
            stream.set_filter(Filter {
                agent: agent.map(str::to_owned),
                search: search.to_owned(),
            });
            assert_eq!(ids(&stream), found, "{agent:?} {search}");
        }
    }
}

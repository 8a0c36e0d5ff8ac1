//! What every client saw, in the order in which it happened. The only thing that the laws may look at.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use relay::engine::Kind;

use crate::plan::Illegal;
use crate::plan::team::GroupChange;

/// One connection of a client that the server takes for a session, for as long as it lasts. Numbered over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub usize);

/// What a call asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A post.
    Post {
        /// The sender, by its whole name.
        from: String,
        /// The recipient, or the address that stands for several, as the sender has written it.
        to: String,
        /// The kind.
        kind: Kind,
        /// The body; no other post of the run has the same.
        body: String,
        /// What it belongs to.
        belongs: Belongs,
    },
    /// A read.
    Read {
        /// Whose inbox, by its whole name.
        of: String,
        /// How long it was to wait, in milliseconds.
        wait_ms: u64,
        /// How many messages it asked for at the most; all if there is no number.
        limit: Option<usize>,
        /// Which of them it asked for.
        filter: Filter,
    },
    /// A look.
    Pending {
        /// Whose inbox.
        of: String,
    },
    /// Something that must be refused.
    Illegal(Illegal),
    /// A change of the group.
    Group(GroupChange),
    /// A handshake of this version, or what stands for it.
    Greeting(&'static str),
    /// The list of tools.
    Tools,
}

/// What a post belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Belongs {
    /// To nothing that its sender names.
    Nothing,
    /// To what the message of this body belongs to, which it answers.
    Answer(String),
    /// To a thread of this name.
    Thread(&'static str),
}

/// Which messages a read asks for; all by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of one sender, as the reader has written it.
    pub from: Option<String>,
    /// Those to one channel, as the reader has written it.
    pub channel: Option<String>,
    /// The answer to the post of this body, whose call waits for it: a call that asks is noted as a post and as a read.
    pub answers: Option<String>,
    /// And, before that, what the agent was handed behind the message of this id once more.
    pub after: Option<String>,
}

/// A message as a reader saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its id; empty where the tools do not tell it.
    pub id: String,
    /// Its sender, by its whole name.
    pub from: String,
    /// Its recipient; empty where the tools do not tell it.
    pub to: String,
    /// Its kind.
    pub kind: String,
    /// Its body.
    pub body: String,
    /// It was marked as redelivered.
    pub redelivered: bool,
    /// Which part of it was shown, of how many, if it was shown in parts. The last has all of it in the history, where the others are
    /// left out.
    pub part: Option<(u32, u32)>,
}

/// A part of a message, as it was shown.
#[derive(Debug, Clone)]
pub struct PartShown {
    /// To which agent.
    pub agent: usize,
    /// By a call of which relay cannot tell whose it is.
    pub nameless: bool,
    /// When that ended for its client.
    pub ended_ms: u64,
    /// What it has of the body.
    pub body: String,
    /// It was marked as redelivered.
    pub redelivered: bool,
}

/// How a call ended for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A post was accepted, with this id; empty where the tools do not tell it.
    Posted(String),
    /// A read was answered.
    Messages {
        /// In the order of the reply.
        seen: Vec<Seen>,
        /// The text that told of a start.
        notice: Option<String>,
        /// The reply said that it had no room for all.
        is_cut: bool,
    },
    /// A look was answered.
    Pending(Vec<String>),
    /// A change of the group was carried out.
    Grouped,
    /// A greeting was answered.
    Greeted {
        /// Who answered.
        name: String,
        /// The version that is spoken from now on.
        version: String,
        /// An id for the session was given out.
        id: bool,
    },
    /// The names of all tools.
    Tools(Vec<String>),
    /// The call was refused.
    Refused(String),
    /// No answer came, or the client did not wait for it.
    Unknown(&'static str),
}

/// What a call ends with that was answered by the news that its stream was lost, and nothing taken by it.
pub const TOLD: &str = "told that its stream was lost";

/// How a wait lost its stream, and its client went on waiting.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// When its client knew that the server had the call, in milliseconds.
    pub accepted_ms: u64,
    /// When its client saw the stream end.
    pub broke_ms: u64,
    /// When its client had a stream again, and read it; none if it never did.
    pub opened_ms: Option<u64>,
}

/// One call.
#[derive(Debug, Clone)]
pub struct Record {
    /// Who called; the last number is the one that drains the inboxes in the end phase.
    pub agent: usize,
    /// Over which connection; none if there was none.
    pub incarnation: Option<Incarnation>,
    /// Nothing says to relay whose its connection is: it goes over HTTP, and has no session's id.
    pub nameless: bool,
    /// Its session is bound to its role.
    pub bound: bool,
    /// What it asked for.
    pub asked: Asked,
    /// When it was sent, in milliseconds.
    pub sent_ms: u64,
    /// When it ended for its client.
    pub ended_ms: u64,
    /// When the server acknowledged its cancellation, if it did.
    pub cancelled_ms: Option<u64>,
    /// When it was told of progress; none if it did not ask for that.
    pub told_ms: Option<Vec<u64>>,
    /// Each time that it lost its stream while it waited.
    pub losses: Vec<Loss>,
    /// The text that told of a start, whatever it was an answer to.
    pub notice: Option<String>,
    /// How long the content of the answer was, in bytes.
    pub reply_bytes: usize,
    /// How it ended.
    pub outcome: Outcome,
}

/// One start of the server.
#[derive(Debug, Clone)]
pub struct BootRecord {
    /// When it was started, in milliseconds.
    pub from_ms: u64,
    /// When it was killed; none for the last one.
    pub until_ms: Option<u64>,
    /// The time that its notices name.
    pub started_at: String,
}

/// One orderly stop of the server.
#[derive(Debug, Clone)]
pub struct StopRecord {
    /// When it was asked to end, in milliseconds.
    pub asked_ms: u64,
    /// When it had ended, if it did.
    pub ended_ms: Option<u64>,
}

/// All of a run.
#[derive(Debug, Default)]
pub struct History {
    /// The server knows from one start to the next which agents had a session.
    pub notes_agents: bool,
    /// Every call, in the order in which they ended.
    pub calls: Vec<Record>,
    /// When each connection was opened and closed, by its number.
    pub connections: Vec<(u64, Option<u64>)>,
    /// Every start of the server.
    pub boots: Vec<BootRecord>,
    /// Every orderly stop of the server.
    pub stops: Vec<StopRecord>,
    /// Answers to calls that had one already, or were never made.
    pub stray_answers: Vec<String>,
    /// News of progress that nobody asked for.
    pub stray_progress: Vec<String>,
    /// How many sessions the server counted at the end, the one that asked included.
    pub sessions_at_end: Option<u64>,
    /// The end phase came to its end.
    pub drained: bool,
    /// The parts of messages that were shown, by the inbox, the message's id (or else its sender), and the part's number: the latest last.
    pub parts: BTreeMap<(String, String, u32), Vec<PartShown>>,
    /// Who was shown the last part of a message, but not all before it: the inbox, the message, and the agent if it can be told
    /// from others. A read that has one of those may end later.
    pub parts_to_come: BTreeSet<(String, String, Option<usize>)>,
    /// What happened, a line each.
    pub trace: Vec<String>,
}

/// The history of a run in progress.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<History>>);

impl Log {
    /// Gives access to it.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.0.lock().expect("a run has one thread")
    }

    /// Adds a line to the trace.
    pub fn trace(&self, at_ms: u64, line: impl std::fmt::Display) {
        tracing::debug!(at_ms, "{line}");
        self.history().trace.push(format!("{at_ms:>7} {line}"));
    }

    /// Numbers a new connection.
    pub fn opened(&self, at_ms: u64) -> Incarnation {
        let mut history = self.history();
        history.connections.push((at_ms, None));
        Incarnation(history.connections.len() - 1)
    }

    /// Remembers the end of a connection, the first time it is told.
    pub fn closed(&self, at_ms: u64, incarnation: Incarnation) {
        self.history().connections[incarnation.0].1.get_or_insert(at_ms);
    }

    /// Adds a call that has ended.
    pub fn ended(&self, mut record: Record) {
        let parts = self.history().join(&mut record);
        let mut line = format!("agent {}", record.agent);
        if let Some(Incarnation(number)) = record.incarnation {
            let _ = write!(line, " over {number}");
        }
        let _ = write!(
            line,
            " since {}: {:?} -> {:?}",
            record.sent_ms,
            Short(&record.asked),
            Shown(&record.outcome)
        );
        line += &parts;
        if let Some(told_ms) = record.told_ms.as_ref().filter(|told| !told.is_empty()) {
            let _ = write!(line, ", told of progress at {told_ms:?}");
        }
        for Loss {
            broke_ms, opened_ms, ..
        } in &record.losses
        {
            let _ = write!(
                line,
                ", lost its stream at {broke_ms}, had one again at {opened_ms:?}"
            );
        }
        self.trace(record.ended_ms, line);
        self.history().calls.push(record);
    }
}

/// A call without the bulk of its body.
struct Short<'a>(&'a Asked);

impl std::fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Asked::Post {
                from,
                to,
                kind,
                body,
                belongs,
            } => {
                let bytes = body.len();
                write!(f, "post {} {from} to {to} ({kind}, {bytes} bytes)", serial(body))?;
                match belongs {
                    Belongs::Nothing => Ok(()),
                    Belongs::Answer(body) => write!(f, " in answer to {}", serial(body)),
                    Belongs::Thread(name) => write!(f, " in {name}"),
                }
            }
            Asked::Read {
                of,
                wait_ms,
                limit,
                filter,
            } => {
                write!(f, "read {of} wait {wait_ms}")?;
                limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))?;
                let Filter {
                    from,
                    channel,
                    answers,
                    after,
                } = filter;
                let answers = answers
                    .as_deref()
                    .map(|body| format!("an answer to {}", serial(body)));
                let after = after.as_deref().map(|id| format!("what comes again after {id}"));
                let only = [
                    from.as_deref(),
                    channel.as_deref(),
                    answers.as_deref(),
                    after.as_deref(),
                ];
                only.into_iter()
                    .flatten()
                    .try_for_each(|only| write!(f, " only {only}"))
            }
            Asked::Pending { of } => write!(f, "pending {of}"),
            Asked::Group(change) => write!(f, "group {change:?}"),
            Asked::Illegal(illegal) => write!(f, "illegal {illegal:?}"),
            Asked::Greeting(version) => write!(f, "greeting {version}"),
            Asked::Tools => write!(f, "tools"),
        }
    }
}

/// An outcome without the bulk of its bodies.
struct Shown<'a>(&'a Outcome);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Outcome::Messages { seen, notice, is_cut } => {
                let mark = |seen: &Seen| if seen.redelivered { "again " } else { "" };
                let seen: Vec<String> = seen
                    .iter()
                    .map(|s| format!("{}{}", mark(s), serial(&s.body)))
                    .collect();
                let notice = if notice.is_some() { " and notice" } else { "" };
                let cut = if *is_cut { " and more" } else { "" };
                write!(f, "[{}]{notice}{cut}", seen.join(", "))
            }
            other @ (Outcome::Posted(_)
            | Outcome::Pending(_)
            | Outcome::Grouped
            | Outcome::Greeted { .. }
            | Outcome::Tools(_)
            | Outcome::Refused(_)
            | Outcome::Unknown(_)) => {
                write!(f, "{other:?}")
            }
        }
    }
}

/// The part of a body that no other has.
pub fn serial(body: &str) -> &str {
    body.split(' ').next().unwrap_or_default()
}

impl History {
    /// Puts a message together where its last part is shown, and leaves out what is not the last: each agent is shown all of them, but for
    /// those which relay cannot tell apart, of which one may be shown what follows on what another was shown. Nothing is shown of a message
    /// of which a part never was. Returns what the trace says of it.
    fn join(&mut self, record: &mut Record) -> String {
        let mut line = String::new();
        let (Asked::Read { of, .. }, Outcome::Messages { seen, .. }) = (&record.asked, &mut record.outcome)
        else {
            return line;
        };
        let (agent, nameless) = (record.agent, record.nameless);
        let is_its = |part: &&PartShown| match nameless {
            true => part.nameless,
            false => part.agent == agent && !part.nameless,
        };
        for shown in seen.iter_mut() {
            let Some((number, count)) = shown.part else {
                continue;
            };
            let key = |name: &str, number| (of.clone(), name.to_owned(), number);
            let name = if shown.id.is_empty() {
                &shown.from
            } else {
                &shown.id
            };
            let part = PartShown {
                agent,
                nameless,
                ended_ms: record.ended_ms,
                body: std::mem::take(&mut shown.body),
                redelivered: shown.redelivered,
            };
            let again = if part.redelivered { "again " } else { "" };
            let _ = write!(line, ", {again}part {number} of {count} of {name}");
            let before = self.parts.entry(key(name, number)).or_default();
            let is_first = !before.iter().any(|part| is_its(&part));
            before.push(part);
            let message = (of.clone(), name.clone(), Some(agent).filter(|_| !nameless));
            // Shown once more, the first part begins anew.
            let is_awaited = self.parts_to_come.remove(&message) && (number > 1 || is_first);
            if number < count && !is_awaited {
                continue;
            }
            let parts = (1..=count).map(|number| {
                // The first may have been the answer that somebody waited for, which has no id.
                let mut known = [name, &shown.from]
                    .map(|name| self.parts.get(&key(name, number)))
                    .into_iter();
                known.find_map(|known| known?.iter().rfind(is_its))
            });
            let Some(parts) = parts.collect::<Option<Vec<_>>>() else {
                self.parts_to_come.insert(message);
                continue;
            };
            shown.body = parts.iter().map(|part| &*part.body).collect();
            shown.redelivered = parts.iter().any(|part| part.redelivered);
        }
        seen.retain(|shown| !(shown.part.is_some() && shown.body.is_empty()));
        line
    }

    /// A number that differs when the trace does.
    pub fn digest(&self) -> u64 {
        // FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
        let bytes = self.trace.iter().flat_map(|line| line.bytes().chain([b'\n']));
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

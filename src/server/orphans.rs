//! Calls over HTTP+SSE that lost the stream on which their answer would have come.
//!
//! Such a client opens its stream anew by itself, without a handshake, and goes on waiting for the old request: for
//! minutes, or for ever. So relay notes which requests wait, also where a next life of it finds them, and answers them by
//! an error in the stream of a client that came back. Which client that is, it often cannot tell, and need not: no request
//! that a client made before its stream opened will be answered otherwise, and an answer to a request that it
//! does not have open is ignored (seen with the SDKs and with Claude Code).
//!
//! An answer that was passed to a stream may be lost with it. So a call that was answered, by this news too, is kept until
//! its client has shown that it read the answer, and a client that names its old stream is told of it. Others are told only
//! of calls that surely had no answer.
//!
//! It must not know what is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use uuid::Uuid;

use super::limits::{ORPHANS_MAX, RETURN_PATIENCE, STALE_BYTES_MAX};
use crate::engine::limits::DOUBT_MS;

/// How long it is in doubt whether an answer was read that was passed to a stream which stays open.
const DOUBT: Duration = Duration::from_millis(DOUBT_MS.unsigned_abs());

/// Where notes are kept over the end of a relay. What cannot be kept is not: nothing fails because of it.
pub trait Notes: Send {
    /// Returns all that was written, in order.
    fn read(&mut self) -> String;

    /// Writes more behind it; at once, so that a relay that is killed has written it.
    fn append(&mut self, text: &str);

    /// Writes this instead of all before.
    fn rewrite(&mut self, text: &str);
}

/// Notes that end with the relay.
impl Notes for String {
    fn read(&mut self) -> String {
        self.clone()
    }

    fn append(&mut self, text: &str) {
        self.push_str(text);
    }

    fn rewrite(&mut self, text: &str) {
        text.clone_into(self);
    }
}

/// All calls that wait, those whose answers may not have been read, and those that lost their stream.
pub struct Orphans {
    state: Mutex<State>,
    /// Some answers may not have been read. Spares the lock on every call while there are none.
    in_doubt: AtomicBool,
}

struct State {
    calls: BTreeMap<u64, Call>,
    /// All of `calls`, by their streams.
    by_stream: BTreeMap<Uuid, BTreeSet<u64>>,
    /// How many of `calls` are answered.
    in_doubt: usize,
    /// Those of `calls` that lost their stream, by when that was found.
    orphans: BTreeSet<(Instant, u64)>,
    next: u64,
    notes: Box<dyn Notes>,
    noted_bytes: usize,
    /// How many bytes were noted when they were written anew last.
    bytes_at_rewrite: usize,
}

#[derive(Clone)]
struct Call {
    stream: Uuid,
    /// The agent that the stream's client asked to be bound to.
    agent: Option<String>,
    /// The request's id as it was written.
    id: Box<RawValue>,
    stage: Stage,
    /// An answer was passed to a stream.
    was_answered: bool,
    /// How it first lost a stream, if it has.
    why: Option<Why>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was passed to its stream that answers it.
    Waits,
    /// The answer was passed at that time.
    Answered(Instant),
    /// Its stream was found to be lost at that time.
    Lost(Instant),
}

/// What is told to a client that came back.
pub struct News {
    /// The request's id as it was written.
    pub id: Box<RawValue>,
    /// What became of it.
    pub why: Why,
    /// Goes with the news to the client whose request it is for sure.
    pub ticket: Option<Ticket>,
}

/// How a call lost its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// With the relay that it was made to.
    Restart,
    /// Alone.
    StreamEnd,
}

impl Why {
    /// Tells what happened, and what to do.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "relay was restarted while this call was under way; call again",
            Self::StreamEnd => "the connection broke while this call was under way; call again",
        }
    }
}

/// Calls whose answers were passed to a stream.
pub struct Passed(Vec<u64>);

/// One call that is not answered. Dropped before [`Ticket::passed`] or [`Ticket::settled`], the call has lost its stream.
pub struct Ticket {
    orphans: Arc<Orphans>,
    number: u64,
}

impl Ticket {
    /// Says that the answer was passed to the stream's socket.
    pub fn passed(self) {
        self.orphans.answer(self.number);
        // What is left is only the drop, which finds a call that does not wait any more.
    }

    /// Says that the client wants no answer.
    pub fn settled(self) {
        self.orphans.state().end(self.number);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.orphans.state();
        let call = state.calls.get(&self.number);
        if call.is_some_and(|call| call.stage == Stage::Waits) {
            state.lose(self.number, Why::StreamEnd);
        }
    }
}

impl Orphans {
    /// Reads what a relay before has noted.
    pub fn new(mut notes: Box<dyn Notes>) -> Self {
        let noted = notes.read();
        let mut state = State {
            calls: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            in_doubt: 0,
            orphans: BTreeSet::new(),
            next: 0,
            notes,
            noted_bytes: 0,
            bytes_at_rewrite: 0,
        };
        for (was_answered, (stream, agent, id)) in noted_in(&noted) {
            let number = state.insert(Call {
                stream,
                agent,
                id,
                stage: Stage::Waits,
                was_answered,
                why: None,
            });
            state.lose(number, Why::Restart);
        }
        state.rewrite();
        Self {
            state: Mutex::new(state),
            in_doubt: AtomicBool::new(false),
        }
    }

    /// Tells whether there is anybody whom something is to be told.
    pub fn is_empty(&self) -> bool {
        let mut state = self.state();
        state.forget_some();
        state.orphans.is_empty()
    }

    /// Notes that a call waits.
    pub fn wait(self: &Arc<Self>, stream: Uuid, agent: Option<String>, id: &RawValue) -> Ticket {
        let call = Call {
            stream,
            agent,
            id: id.to_owned(),
            stage: Stage::Waits,
            was_answered: false,
            why: None,
        };
        self.ticket(&mut self.state(), call)
    }

    /// Returns which answers have been passed to a stream until now, and may not have been read.
    pub fn passed(&self, stream: Uuid) -> Passed {
        if !self.in_doubt.load(Ordering::Acquire) {
            return Passed(Vec::new());
        }
        let state = self.state();
        let numbers = state.of_stream(stream).into_iter();
        let is_answered = |number: &u64| matches!(state.calls[number].stage, Stage::Answered(_));
        Passed(numbers.filter(is_answered).collect())
    }

    /// Says that these were read.
    pub fn read(&self, passed: Passed) {
        self.confirm(passed, |_| true);
    }

    /// Says that a stream is still open, and a keep-alive is due again.
    pub fn stays_open(&self, stream: Uuid) {
        self.confirm(self.passed(stream), |passed_at| passed_at.elapsed() >= DOUBT);
    }

    /// Says that a stream is gone, whose calls may not have noticed yet.
    pub fn lose_stream(&self, stream: Uuid) {
        let mut state = self.state();
        for number in state.of_stream(stream) {
            state.lose(number, Why::StreamEnd);
        }
        self.tell_doubt(&state);
    }

    /// Returns what a client that came back may be waiting for. Who names the old stream gets what is that stream's, and
    /// gets it until it has read it.
    pub fn of_client(self: &Arc<Self>, stream: Option<Uuid>, agent: Option<&str>) -> Vec<News> {
        let mut state = self.state();
        state.forget_some();
        let lost = state.orphans.iter().map(|(_, number)| *number);
        let is_told = |number: &u64| {
            let call = &state.calls[number];
            match stream {
                Some(stream) => call.stream == stream,
                None => !call.was_answered && call.agent.as_deref() == agent,
            }
        };
        let numbers: Vec<u64> = lost.filter(is_told).collect();
        let mut told = BTreeMap::new();
        // Of several with the same id, the latest.
        for number in numbers.into_iter().rev() {
            let Call { id, why, .. } = &state.calls[&number];
            let (id, why) = (id.clone(), why.expect("an orphan has lost its stream"));
            let is_first = !told.contains_key(id.get());
            let ticket = stream.filter(|_| is_first).map(|_| {
                // Under a new number, of which nothing knows that belongs to the old stream.
                let call = state.calls[&number].clone();
                let stage = Stage::Waits;
                self.ticket(&mut state, Call { stage, ..call })
            });
            if stream.is_some() {
                state.end(number);
            }
            if is_first {
                told.insert(Box::<str>::from(id.get()), News { id, why, ticket });
            }
        }
        told.into_values().collect()
    }

    /// Forgets all that have lost their stream: who comes back after an orderly end was told what there was to tell.
    pub fn forget_lost(&self) {
        let mut state = self.state();
        let lost: Vec<u64> = state.orphans.iter().map(|(_, number)| *number).collect();
        lost.into_iter().for_each(|number| state.end(number));
    }

    fn answer(&self, number: u64) {
        let mut state = self.state();
        let Some(call) = state
            .calls
            .get_mut(&number)
            .filter(|call| call.stage == Stage::Waits)
        else {
            return;
        };
        call.stage = Stage::Answered(Instant::now());
        call.was_answered = true;
        state.in_doubt += 1;
        state.write(&format!("={number}\n"));
        self.tell_doubt(&state);
    }

    /// Ends those whose answers are shown to have been read, if their stream is not lost by now.
    fn confirm(&self, Passed(numbers): Passed, is_shown: impl Fn(Instant) -> bool) {
        if numbers.is_empty() {
            return;
        }
        let mut state = self.state();
        for number in numbers {
            let call = state.calls.get(&number);
            if call.is_some_and(|call| matches!(call.stage, Stage::Answered(at) if is_shown(at))) {
                state.end(number);
            }
        }
        self.tell_doubt(&state);
    }

    fn tell_doubt(&self, state: &State) {
        self.in_doubt.store(state.in_doubt > 0, Ordering::Release);
    }

    /// Takes a call, and notes it.
    fn ticket(self: &Arc<Self>, state: &mut State, call: Call) -> Ticket {
        let number = state.insert(call);
        let line = state.calls[&number].note(number);
        state.write(&line);
        Ticket {
            orphans: Arc::clone(self),
            number,
        }
    }

    /// A panic over one call leaves the others as they are. A second one in a [`Ticket`]'s drop would end the process.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// Writes that the call waits, or is answered.
    fn note(&self, number: u64) -> String {
        let call = serde_json::to_string(&(self.stream, &self.agent, &self.id)).expect("memory takes it");
        let answered = if self.was_answered {
            format!("={number}\n")
        } else {
            String::new()
        };
        format!("+{number} {call}\n{answered}")
    }
}

impl State {
    fn insert(&mut self, call: Call) -> u64 {
        let number = self.next;
        self.next += 1;
        self.by_stream.entry(call.stream).or_default().insert(number);
        self.calls.insert(number, call);
        number
    }

    fn end(&mut self, number: u64) {
        let Some(call) = self.calls.remove(&number) else {
            return;
        };
        match call.stage {
            Stage::Waits => {}
            Stage::Answered(_) => self.in_doubt -= 1,
            Stage::Lost(at) => {
                self.orphans.remove(&(at, number));
            }
        }
        if let Some(of_stream) = self.by_stream.get_mut(&call.stream) {
            of_stream.remove(&number);
            if of_stream.is_empty() {
                self.by_stream.remove(&call.stream);
            }
        }
        self.write(&format!("-{number}\n"));
    }

    fn of_stream(&self, stream: Uuid) -> Vec<u64> {
        let numbers = self.by_stream.get(&stream).into_iter().flatten();
        numbers.copied().collect()
    }

    /// Notes that a call has lost its stream, unless that is known already.
    fn lose(&mut self, number: u64, why: Why) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        match call.stage {
            Stage::Waits => {}
            Stage::Answered(_) => self.in_doubt -= 1,
            Stage::Lost(_) => return,
        }
        let at = Instant::now();
        call.stage = Stage::Lost(at);
        call.why.get_or_insert(why);
        self.orphans.insert((at, number));
        self.forget_some();
    }

    /// Forgets the orphans whose clients do not come back any more, and those over the bound.
    fn forget_some(&mut self) {
        let now = Instant::now();
        while let Some(&(lost_at, oldest)) = self.orphans.first() {
            if self.orphans.len() <= ORPHANS_MAX && now < lost_at + RETURN_PATIENCE {
                return;
            }
            self.end(oldest);
        }
    }

    fn write(&mut self, text: &str) {
        self.noted_bytes += text.len();
        // More has come by then than was written anew last, so what is written anew stays in proportion to what comes.
        if self.noted_bytes > STALE_BYTES_MAX + 2 * self.bytes_at_rewrite {
            self.rewrite();
        } else {
            self.notes.append(text);
        }
    }

    fn rewrite(&mut self) {
        let mut text = String::new();
        for (number, call) in &self.calls {
            text.push_str(&call.note(*number));
        }
        self.noted_bytes = text.len();
        self.bytes_at_rewrite = text.len();
        self.notes.rewrite(&text);
    }
}

/// What is noted of a call: its stream, the agent that the stream's client asked to be bound to, the request's id.
type Noted = (Uuid, Option<String>, Box<RawValue>);

/// Reads which calls waited when the last note was written, or were answered and not yet read. Lines that are no notes, such
/// as a last one that was cut off, say nothing.
fn noted_in(notes: &str) -> Vec<(bool, Noted)> {
    let mut noted = BTreeMap::new();
    // By number, not by the text of it: they come back in the order in which they were made.
    let number = |text: &str| text.parse::<u64>().ok();
    for line in notes
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
    {
        if let Some(number) = line.strip_prefix('-').and_then(number) {
            noted.remove(&number);
        } else if let Some(number) = line.strip_prefix('=').and_then(number) {
            noted
                .entry(number)
                .and_modify(|(was_answered, _)| *was_answered = true);
        } else if let Some((text, call)) = line.strip_prefix('+').and_then(|line| line.split_once(' '))
            && let (Some(number), Ok(call)) = (number(text), serde_json::from_str(call))
        {
            noted.insert(number, (false, call));
        }
    }
    noted.into_values().collect()
}

#[cfg(test)]
mod tests;

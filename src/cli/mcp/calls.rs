//! What became of each request of the agent, from its line on stdin to the sign that its answer was read.
//!
//! It knows no protocol. Whoever takes a connection out of it decides what the relay is told: dropped here, it is
//! broken off, unless the agent has shown that it read the answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::model::RequestId;
use serde_json::Value;
use tokio::io::ReadBuf;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use crate::engine::limits::CANCEL_GRACE_MS;

/// Most requests under way: an agent has a handful, and each holds a connection.
pub const UNDER_WAY_MAX: usize = 512;

/// Most connections whose answers the agent has not yet shown to have read. The oldest is closed in order beyond that:
/// only an agent that sends many calls without waiting for answers gets there.
const KEPT_MAX: usize = 16;

/// How long after the sign that an answer was read the relay is still told that its call was cancelled: as long as the
/// relay undoes by it what the answer carried.
const CANCEL_GRACE: Duration = Duration::from_millis(CANCEL_GRACE_MS.unsigned_abs());

/// How long a call that waits may go on waiting once stdin has ended.
const WAIT_GRACE: Duration = Duration::from_millis(1500);

/// How long the relay may take to answer any other call by then.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// The requests of one agent.
pub struct Calls<S> {
    state: Mutex<State<S>>,
    /// Says that a request was settled.
    settled: Notify,
    /// Says that a call lets the next one begin.
    passed: Notify,
    /// When stdin ended.
    ended: watch::Sender<Option<Instant>>,
    /// Nobody reads the answers any more.
    over: CancellationToken,
}

struct State<S> {
    under_way: BTreeMap<String, Call<S>>,
    /// The requests to listen that were neither answered nor cancelled.
    listens: BTreeSet<String>,
    /// Of answers that stdout has taken, the oldest first.
    kept: VecDeque<Kept<S>>,
    /// The latest requests whose answers count as read, the oldest first: [`KEPT_MAX`] at the most.
    confirmed: VecDeque<Confirmed>,
    /// Carries the next call.
    idle: Option<S>,
    /// How many reads of stdin have brought bytes.
    reads: u64,
    /// How many requests were noted.
    count: u64,
}

/// A request whose answer was not written yet.
struct Call<S> {
    stage: Stage<S>,
    /// Its place in the order of the lines.
    number: u64,
    /// The next one may not begin yet.
    holds_up: bool,
}

enum Stage<S> {
    /// The relay has heard nothing of it.
    Read,
    /// The relay is being asked.
    Asked,
    /// The answer is on its way to stdout.
    Answered(S),
}

/// An answer that stdout has taken, and the connection that it came over.
struct Kept<S> {
    key: String,
    connection: S,
    /// How many reads of stdin came before.
    reads: u64,
}

/// A request whose answer counts as read.
struct Confirmed {
    key: String,
    at: Instant,
}

/// Why a request is not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// Another request has the same id.
    IdInUse,
    /// There are [`UNDER_WAY_MAX`] already.
    TooMany,
}

impl<S> Default for Calls<S> {
    fn default() -> Self {
        let state = State {
            under_way: BTreeMap::new(),
            listens: BTreeSet::new(),
            kept: VecDeque::new(),
            confirmed: VecDeque::new(),
            idle: None,
            reads: 0,
            count: 0,
        };
        Self {
            state: Mutex::new(state),
            settled: Notify::new(),
            passed: Notify::new(),
            ended: watch::Sender::new(None),
            over: CancellationToken::new(),
        }
    }
}

impl<S: Connection> Calls<S> {
    /// Notes that stdin has brought bytes.
    pub fn stdin_read(&self) {
        self.lock().reads += 1;
    }

    /// Notes a request, in the order of the lines. Its arrival shows that the agent has read what stdout had taken
    /// before these bytes came.
    ///
    /// # Errors
    ///
    /// Why the request cannot be carried out; nothing was noted.
    pub fn begin(&self, id: &RequestId) -> Result<(), Unusable> {
        let mut state = self.lock();
        let key = state.admit(id)?;
        state.count += 1;
        let call = Call {
            stage: Stage::Read,
            number: state.count,
            holds_up: true,
        };
        state.under_way.insert(key, call);
        Ok(())
    }

    /// Notes a request to listen, as [`Calls::begin`] does another. It is under way until the agent cancels it or leaves:
    /// it has no turn, and nothing waits for its answer.
    ///
    /// # Errors
    ///
    /// As of [`Calls::begin`].
    pub fn begin_to_listen(&self, id: &RequestId) -> Result<(), Unusable> {
        let mut state = self.lock();
        let key = state.admit(id)?;
        state.listens.insert(key);
        Ok(())
    }

    /// Tells whether an id is that of a request which is not answered yet.
    pub fn is_under_way(&self, id: &Value) -> bool {
        self.lock().is_under_way(&id.to_string())
    }

    /// Waits until the calls of the lines before are answered, then notes that the relay is asked. Returns a connection
    /// that is open, if there is one. A call that was cancelled has no turn.
    ///
    /// A call that waits gets no connection. It is the one that is likely to be broken off, and a reset can overtake the
    /// bytes of the call, which would have told the relay that the answer before was read.
    pub async fn turn(&self, id: &RequestId, waits: bool) -> Option<S> {
        let key = key(id);
        loop {
            let mut passed = pin!(self.passed.notified());
            passed.as_mut().enable();
            if self.lock().begins(&key) {
                break;
            }
            passed.await;
        }
        let idle = self.lock().idle.take();
        let connection = idle.filter(|idle| !waits && idle.is_open())?;
        connection.break_off_when_dropped(true);
        Some(connection)
    }

    /// Lets the next call begin before this one is answered.
    pub fn pass_turn(&self, id: &RequestId) {
        if let Some(call) = self.lock().under_way.get_mut(&key(id)) {
            call.holds_up = false;
            self.passed.notify_waiters();
        }
    }

    /// Takes the connection that an answer came over; breaks it off if nobody wants the answer any more.
    pub fn answered(&self, id: &RequestId, connection: S) {
        if let Some(call) = self.lock().under_way.get_mut(&key(id)) {
            call.stage = Stage::Answered(connection);
            call.holds_up = false;
            self.passed.notify_waiters();
        }
    }

    /// Notes that stdout has taken the answer to a request.
    pub fn written(&self, id: &RequestId) {
        let key = key(id);
        let mut state = self.lock();
        let Some(call) = state.under_way.remove(&key) else {
            state.listens.remove(&key);
            return;
        };
        if let Stage::Answered(connection) = call.stage {
            let reads = state.reads;
            state.kept.push_back(Kept {
                key,
                connection,
                reads,
            });
        }
        if state.kept.len() > KEPT_MAX {
            state.confirm_oldest();
        }
        self.settled.notify_one();
        self.passed.notify_waiters();
    }

    /// Breaks off the connection of a request that the agent does not want answered any more. Returns whether the relay
    /// has to be told: it may have heard of the request, and can undo what the answer carried.
    pub fn cancel(&self, id: &RequestId) -> bool {
        let key = key(id);
        let mut state = self.lock();
        if state.listens.remove(&key) {
            return false;
        }
        if let Some(call) = state.under_way.remove(&key) {
            self.settled.notify_one();
            self.passed.notify_waiters();
            return !matches!(call.stage, Stage::Read);
        }
        if let Some(at) = state.kept.iter().rposition(|kept| kept.key == key) {
            return state.kept.remove(at).is_some();
        }
        let at = state.confirmed.iter().rposition(|read| read.key == key);
        let read = at.and_then(|at| state.confirmed.remove(at));
        read.is_some_and(|read| read.at.elapsed() < CANCEL_GRACE)
    }

    /// Notes that stdin has ended.
    pub fn stdin_ended(&self) {
        self.ended.send_replace(Some(Instant::now()));
    }

    /// Waits until stdout has taken the answers to all requests but those to listen, or until nothing more can be expected.
    pub async fn all_settled(&self) {
        let ended = self.ended.borrow().unwrap_or_else(Instant::now);
        // Answers that say so are still written.
        let late = tokio::time::sleep_until(ended + END_PATIENCE + WAIT_GRACE);
        let settled = async {
            while !self.lock().under_way.is_empty() {
                self.settled.notified().await;
            }
        };
        tokio::select! {
            () = settled => {}
            () = late => {}
            () = self.over.cancelled() => {}
        }
    }

    /// Waits until stdin has ended.
    pub async fn ended(&self) {
        let ended = self.ended.subscribe().wait_for(Option::is_some).await.map(drop);
        ended.expect("its sender lives as long as this call");
    }

    /// Waits until stdin has ended so long ago that a call is given up.
    pub async fn given_up(&self, waits: bool) {
        let mut ended = self.ended.subscribe();
        let at = ended.wait_for(Option::is_some).await.ok().and_then(|at| *at);
        let at = at.expect("its sender lives as long as this call");
        let patience = if waits { WAIT_GRACE } else { END_PATIENCE };
        tokio::time::sleep_until(at + patience).await;
    }

    /// Breaks everything off, because nobody reads the answers any more.
    pub fn break_off(&self) {
        let mut state = self.lock();
        self.over.cancel();
        state.under_way.clear();
        state.kept.clear();
    }

    /// Waits until nobody reads the answers any more.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Closes in order what the agent may have read, and breaks off the rest.
    pub fn end_in_order(&self) {
        let mut state = self.lock();
        while !state.kept.is_empty() {
            state.confirm_oldest();
        }
        state.under_way.clear();
    }

    /// Waits until the relay has closed a connection that carries nothing, and closes it too.
    pub async fn closed_by_relay(&self) {
        std::future::poll_fn(|cx| self.lock().poll_closed(cx)).await;
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state
            .lock()
            .expect("nothing panics while it holds the calls")
    }
}

impl<S: Connection> State<S> {
    /// Takes the arrival of a request for the sign that it is, and returns the request's key.
    ///
    /// # Errors
    ///
    /// Why the request cannot be carried out.
    fn admit(&mut self, id: &RequestId) -> Result<String, Unusable> {
        self.confirm_read();
        let key = key(id);
        if self.is_under_way(&key) {
            return Err(Unusable::IdInUse);
        }
        if self.under_way.len() + self.listens.len() == UNDER_WAY_MAX {
            return Err(Unusable::TooMany);
        }
        Ok(key)
    }

    fn is_under_way(&self, key: &str) -> bool {
        self.under_way.contains_key(key) || self.listens.contains(key)
    }

    /// Notes that the relay is asked, if it is the call's turn.
    fn begins(&mut self, key: &str) -> bool {
        let Some(number) = self.under_way.get(key).map(|call| call.number) else {
            return false;
        };
        let mut before = self.under_way.values().filter(|call| call.number < number);
        if before.any(|call| call.holds_up) {
            return false;
        }
        if let Some(call) = self.under_way.get_mut(key) {
            call.stage = Stage::Asked;
        }
        true
    }

    /// Confirms the answers that stdout had taken before the latest bytes came from stdin.
    fn confirm_read(&mut self) {
        while self.kept.front().is_some_and(|kept| kept.reads < self.reads) {
            self.confirm_oldest();
        }
    }

    /// Keeps a connection for the next call; closes it in order if there is another.
    fn confirm_oldest(&mut self) {
        let Some(kept) = self.kept.pop_front() else {
            return;
        };
        kept.connection.break_off_when_dropped(false);
        self.idle.get_or_insert(kept.connection);
        if self.confirmed.len() == KEPT_MAX {
            self.confirmed.pop_front();
        }
        self.confirmed.push_back(Confirmed {
            key: kept.key,
            at: Instant::now(),
        });
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let before = self.kept.len() + usize::from(self.idle.is_some());
        let mut closed = |connection: &mut S| {
            let mut byte = [0];
            let read = Pin::new(&mut *connection).poll_read(cx, &mut ReadBuf::new(&mut byte));
            if read.is_ready() {
                connection.break_off_when_dropped(false);
            }
            read.is_ready()
        };
        self.kept.retain_mut(|kept| !closed(&mut kept.connection));
        if self.idle.as_mut().is_some_and(closed) {
            self.idle = None;
        }
        if self.kept.len() + usize::from(self.idle.is_some()) < before {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// An id as it is written, so that 1 and "1" are two.
fn key(id: &RequestId) -> String {
    serde_json::to_string(id).expect("an id is JSON")
}

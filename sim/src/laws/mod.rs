//! The contract, a function a law, over what the clients saw. Nothing here may look into the server.
//!
//! A law must be true of every correct relay, whatever the network did: where a client cannot know, it says nothing.

mod calls;
mod ends;
mod messages;

use std::collections::BTreeMap;

use relay::engine::limits::DOUBT_MS;

use crate::history::{Asked, BootRecord, History, Outcome, Record, Seen};
use crate::plan::{Plan, Transport};

/// How far the clocks of two hosts may be apart, in milliseconds: hosts take turns within one tick of the simulation.
const SKEW_MS: u64 = 10;

/// A broken law.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub law: &'static str,
    /// What broke it.
    pub detail: String,
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// All calls.
    pub calls: u64,
    /// Calls whose end their client does not know.
    pub unknown: u64,
    /// Posts.
    pub attempted: u64,
    /// Posts that were answered with an id.
    pub accepted: u64,
    /// Accepted messages that a client read.
    pub delivered: u64,
    /// Messages that were read again, marked.
    pub redelivered: u64,
    /// Accepted messages that nobody read, because the server was killed before.
    pub lost_by_restart: u64,
    /// Accepted messages that nobody read, because a session vouched for a reply with a call that it made in parallel.
    pub lost_by_parallel_call: u64,
    /// Accepted messages that nobody read, because a client threw the answer away and its cancellation came too late.
    pub lost_by_late_cancellation: u64,
}

impl Report {
    /// Adds another run.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.attempted += other.attempted;
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.redelivered += other.redelivered;
        self.lost_by_restart += other.lost_by_restart;
        self.lost_by_parallel_call += other.lost_by_parallel_call;
        self.lost_by_late_cancellation += other.lost_by_late_cancellation;
    }
}

/// Judges a run.
///
/// # Errors
///
/// The first law that it broke.
pub fn judge(plan: &Plan, history: &History) -> Result<Report, Violation> {
    let case = Case::new(plan, history);
    case.nothing_from_thin_air()?;
    case.a_message_is_shown_twice_only_if_marked()?;
    case.what_is_confirmed_never_comes_back()?;
    case.a_reply_is_in_the_order_of_acceptance()?;
    case.no_message_overtakes_another()?;
    case.nothing_is_hidden_from_a_read()?;
    case.each_call_is_answered_once()?;
    case.waits_and_calls_are_in_time()?;
    case.the_illegal_is_refused_and_the_legal_is_not()?;
    case.bounds_are_kept_and_not_imagined()?;
    case.a_start_is_told_once_to_each_role()?;
    case.no_session_is_left_over()?;
    case.the_end_is_reached()?;
    case.nothing_is_lost_without_a_reason()
}

type Verdict = Result<(), Violation>;

/// Where a message was shown.
struct Showing<'a> {
    seen: &'a Seen,
    read: &'a Record,
}

struct Case<'a> {
    plan: &'a Plan,
    history: &'a History,
    /// All posts, by their bodies.
    posts: BTreeMap<&'a str, &'a Record>,
    /// All reads by role, in the order in which they ended.
    reads: BTreeMap<&'a str, Vec<&'a Record>>,
    /// All showings by message id, in the order in which their replies ended.
    showings: BTreeMap<&'a str, Vec<Showing<'a>>>,
}

impl<'a> Case<'a> {
    fn new(plan: &'a Plan, history: &'a History) -> Self {
        let mut case = Self {
            plan,
            history,
            posts: BTreeMap::new(),
            reads: BTreeMap::new(),
            showings: BTreeMap::new(),
        };
        for record in &history.calls {
            match &record.asked {
                Asked::Post { body, .. } => drop(case.posts.insert(body, record)),
                Asked::Read { of, .. } => case.reads.entry(of).or_default().push(record),
                Asked::Pending { .. } | Asked::Illegal(_) => {}
            }
            for seen in seen_in(record) {
                case.showings
                    .entry(&seen.id)
                    .or_default()
                    .push(Showing { seen, read: record });
            }
        }
        case
    }

    /// Returns when a read's hand-over was confirmed at the latest; none if its client cannot be sure of it.
    fn confirmed_ms(&self, read: &Record) -> Option<u64> {
        let incarnation = read.incarnation?;
        let answered = |call: &&Record| {
            let reached_the_engine = matches!(
                call.outcome,
                Outcome::Posted(_) | Outcome::Messages { .. } | Outcome::Pending(_)
            );
            call.incarnation == Some(incarnation) && call.sent_ms > read.ended_ms && reached_the_engine
        };
        let next_call = self
            .history
            .calls
            .iter()
            .filter(answered)
            .map(|call| call.ended_ms)
            .min();
        if next_call.is_some() || !self.plan.faults.is_empty() {
            return next_call;
        }
        let (_, closed_ms) = self.history.connections[incarnation.0];
        let under_way_ms = 2 * self.plan.params.latency_ms_max + 50;
        let doubt_ms = DOUBT_MS.unsigned_abs();
        let doubt_ended_ms = read.ended_ms + doubt_ms + under_way_ms;
        match closed_ms {
            Some(closed_ms) if closed_ms < doubt_ended_ms => {
                // A call that its client gives up breaks its connection off.
                let gives_up = |call: &Record| {
                    call.agent == read.agent
                        && is_unknown(call)
                        && call.ended_ms >= read.ended_ms
                        && call.sent_ms <= closed_ms
                };
                let broken_off = self.history.calls.iter().any(gives_up);
                let orderly = self.transport(read.agent) != Transport::Sse && !broken_off;
                orderly.then_some(closed_ms + under_way_ms)
            }
            Some(_) | None => Some(doubt_ended_ms),
        }
    }

    fn transport(&self, agent: usize) -> Transport {
        self.plan
            .agents
            .get(agent)
            .map_or(Transport::Http, |agent| agent.transport)
    }

    /// Returns the lives of the server that a span of time touches.
    fn boots(&self, from_ms: u64, until_ms: u64) -> impl Iterator<Item = &'a BootRecord> {
        self.history
            .boots
            .iter()
            .filter(move |boot| overlaps(boot, from_ms, until_ms))
    }
}

/// Tells whether something was over before something else began, wherever both happened.
fn before(ended_ms: u64, sent_ms: u64) -> bool {
    ended_ms + SKEW_MS < sent_ms
}

fn overlaps(boot: &BootRecord, from_ms: u64, until_ms: u64) -> bool {
    !before(until_ms, boot.from_ms) && boot.until_ms.is_none_or(|end| !before(end, from_ms))
}

fn broken<T>(law: &'static str, detail: String) -> Result<T, Violation> {
    Err(Violation { law, detail })
}

fn seen_in(record: &Record) -> &[Seen] {
    match &record.outcome {
        Outcome::Messages { seen, .. } => seen,
        Outcome::Posted(_) | Outcome::Pending(_) | Outcome::Refused(_) | Outcome::Unknown(_) => &[],
    }
}

fn is_unknown(record: &Record) -> bool {
    matches!(record.outcome, Outcome::Unknown(_))
}

fn describe(record: &Record) -> String {
    let Record {
        agent,
        sent_ms,
        ended_ms,
        ..
    } = record;
    format!("the call of agent {agent} from {sent_ms} to {ended_ms} ms")
}

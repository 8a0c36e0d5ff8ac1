//! The contract, a function a law, over what the clients saw. Nothing here may look into the server.
//!
//! A law must be true of every correct relay, whatever the network did: where a client cannot know, it says nothing.

mod again;
mod asks;
mod calls;
mod ends;
mod losses;
mod messages;
mod projects;
mod takeover;
mod team;
mod turns;
mod ways;

use std::collections::BTreeMap;

use relay::engine::limits::DOUBT_MS;

use crate::history::{Asked, BootRecord, History, Incarnation, Outcome, Record, Seen};
pub use takeover::FENCED;
use team::Meant;

use crate::plan::{FaultKind, Plan, Transport};

/// How far the clocks of two hosts may be apart, in milliseconds: hosts take turns within one tick of the simulation.
const SKEW_MS: u64 = 10;

/// How long the bridge may pass on a cancellation before it hears the next line, in milliseconds, and some.
const BRIDGE_MS: u64 = 1_500;

/// How long a fault may go on to show after its end, in milliseconds: the server's kernel gives a peer up by then.
const AFTERMATH_MS: u64 = 12_000;

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
    /// Copies of posts that were answered with an id.
    pub accepted: u64,
    /// Accepted copies that a client read.
    pub delivered: u64,
    /// Messages that were read again, marked.
    pub redelivered: u64,
    /// Accepted copies that nobody read, because the server was killed before.
    pub lost_by_restart: u64,
    /// Accepted copies that nobody read, because a session confirmed a reply by a call that it made in parallel, or another one of the same
    /// agent by naming a message in it.
    pub lost_by_parallel_call: u64,
    /// Accepted copies that nobody read, because a client threw the answer away and its cancellation came too late.
    pub lost_by_late_cancellation: u64,
    /// Accepted copies that nobody read, because a client was gone without having read the answer that its kernel had,
    /// and its end did not come through.
    pub lost_by_unseen_end: u64,
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
        self.lost_by_unseen_end += other.lost_by_unseen_end;
    }
}

/// What a panic breaks, which leaves nothing to judge.
pub const NOTHING_PANICS: &str = "nothing panics";

/// Why a law is broken, if it is.
type Verdict = Result<(), String>;

/// A law's name, and the function that finds whether it was kept.
type Law<'a> = (&'static str, fn(&Case<'a>) -> Verdict);

/// All laws but [`NOTHING_PANICS`].
fn laws<'a>() -> [Law<'a>; 29] {
    [
        ("nothing from thin air", Case::nothing_from_thin_air),
        (
            "a message goes to all or to none",
            Case::a_message_goes_to_all_or_to_none,
        ),
        (
            "only who is meant gets a copy",
            Case::only_who_is_meant_gets_a_copy,
        ),
        (
            "a message reaches the project it is for alone",
            Case::a_message_reaches_the_project_it_is_for_alone,
        ),
        (
            "who was taken over gets nothing any more",
            Case::who_was_taken_over_gets_nothing_any_more,
        ),
        (
            "a message is shown twice only if marked",
            Case::a_message_is_shown_twice_only_if_marked,
        ),
        (
            "what is confirmed never comes back",
            Case::what_is_confirmed_never_comes_back,
        ),
        (
            "what is asked for behind a message comes",
            Case::what_is_asked_for_behind_a_message_comes,
        ),
        (
            "what was asked for behind a message comes once",
            Case::what_was_asked_for_comes_once,
        ),
        (
            "a reply is in the order of acceptance",
            Case::a_reply_is_in_the_order_of_acceptance,
        ),
        ("no message overtakes another", Case::no_message_overtakes_another),
        (
            "nothing is hidden from a read",
            Case::nothing_is_hidden_from_a_read,
        ),
        (
            "an awaited answer goes to who asked",
            Case::an_awaited_answer_goes_to_who_asked,
        ),
        (
            "a read shows what it asked for",
            Case::a_read_shows_what_it_asked_for,
        ),
        (
            "one call alone waits for an inbox",
            Case::one_call_alone_waits_for_an_inbox,
        ),
        (
            "turns are counted to their limit",
            Case::turns_are_counted_to_their_limit,
        ),
        ("each call is answered once", Case::each_call_is_answered_once),
        ("waits and calls are in time", Case::waits_and_calls_are_in_time),
        (
            "the illegal is refused and the legal is not",
            Case::the_illegal_is_refused_and_the_legal_is_not,
        ),
        (
            "no reply is longer than its client shows",
            Case::no_reply_is_longer_than_its_client_shows,
        ),
        (
            "bounds are kept and not imagined",
            Case::bounds_are_kept_and_not_imagined,
        ),
        (
            "a start is told once to each role",
            Case::a_start_is_told_once_to_each_role,
        ),
        (
            "a handshake says what there is",
            Case::a_handshake_says_what_there_is,
        ),
        (
            "progress is told in time to who asked",
            Case::progress_is_told_in_time_to_who_asked,
        ),
        (
            "an orderly stop answers what waits",
            Case::an_orderly_stop_answers_what_waits,
        ),
        (
            "a wait that lost its stream is told of",
            Case::a_wait_that_lost_its_stream_is_told_of,
        ),
        ("no session is left over", Case::no_session_is_left_over),
        ("the end is reached", Case::the_end_is_reached),
        (
            "nothing is lost without a reason",
            Case::nothing_is_lost_without_a_reason,
        ),
    ]
}

/// Returns the names of all laws.
pub fn names() -> Vec<&'static str> {
    let judged = laws().into_iter().map(|(name, _)| name);
    judged.chain([NOTHING_PANICS]).collect()
}

/// Judges a run: returns its figures and every law that it broke, in the order of [`names`].
pub fn judge(plan: &Plan, history: &History) -> (Report, Vec<Violation>) {
    let case = Case::new(plan, history);
    let broken = laws().into_iter().filter_map(|(law, keeps)| {
        let detail = keeps(&case).err()?;
        Some(Violation { law, detail })
    });
    let violations = broken.collect();
    (case.report(), violations)
}

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
    /// All calls by their connection, in the order in which they ended.
    calls: BTreeMap<Incarnation, Vec<&'a Record>>,
    /// All reads by role, in the order in which they ended.
    reads: BTreeMap<&'a str, Vec<&'a Record>>,
    /// All showings by the message's body and whose inbox it was in, in the order in which their replies ended.
    showings: BTreeMap<(&'a str, &'a str), Vec<Showing<'a>>>,
    /// The bodies of all that was shown with its id.
    bodies: BTreeMap<&'a str, &'a str>,
    /// The whole address of each post, by its body.
    addresses: BTreeMap<&'a str, String>,
    /// Who is meant by each post, by its body.
    meant: BTreeMap<&'a str, Meant>,
}

impl<'a> Case<'a> {
    fn new(plan: &'a Plan, history: &'a History) -> Self {
        let mut case = Self {
            plan,
            history,
            posts: BTreeMap::new(),
            calls: BTreeMap::new(),
            reads: BTreeMap::new(),
            showings: BTreeMap::new(),
            bodies: BTreeMap::new(),
            addresses: BTreeMap::new(),
            meant: BTreeMap::new(),
        };
        for record in &history.calls {
            if let Some(incarnation) = record.incarnation {
                case.calls.entry(incarnation).or_default().push(record);
            }
            match &record.asked {
                Asked::Post { body, .. } => drop(case.posts.insert(body, record)),
                Asked::Read { of, .. } => case.reads.entry(of).or_default().push(record),
                Asked::Pending { .. }
                | Asked::Group(_)
                | Asked::Illegal(_)
                | Asked::Greeting(_)
                | Asked::Tools => {}
            }
            let Asked::Read { of, .. } = &record.asked else {
                continue;
            };
            for seen in seen_in(record) {
                case.bodies.insert(&seen.id, &seen.body);
                case.showings
                    .entry((&seen.body, of))
                    .or_default()
                    .push(Showing { seen, read: record });
            }
        }
        let posts = case.posts.iter();
        case.addresses = posts
            .map(|(body, post)| (*body, projects::address(post)))
            .collect();
        let posts = case.posts.iter();
        case.meant = posts.map(|(body, post)| (*body, case.find_meant(post))).collect();
        case
    }

    /// Returns when a read's hand-over was confirmed at the latest; none if its client cannot be sure of it.
    fn confirmed_ms(&self, read: &Record) -> Option<u64> {
        let incarnation = read.incarnation?;
        let answered = |call: &&'a Record| {
            let reached_the_engine = matches!(
                call.outcome,
                Outcome::Posted(_) | Outcome::Messages { .. } | Outcome::Pending(_) | Outcome::Grouped
            );
            call.sent_ms > read.ended_ms && reached_the_engine
        };
        let next_call = self.calls[&incarnation].iter().copied().find(answered);
        let next_call = next_call.map(|call| call.ended_ms);
        let under_way_ms = 2 * self.plan.params.latency_ms_max + 50 + self.bridge_ms(read);
        let may_be_fenced = self.may_be_fenced(read.agent, u64::MAX);
        if let Some(next_call_ms) = next_call.filter(|_| self.transport(read.agent) == Transport::Stdio) {
            // The bridge may have made it over another connection, while it closed the one of the read.
            let sure_ms = next_call_ms + under_way_ms;
            let is_sure = !self.is_disturbed(read, sure_ms) && !self.may_be_fenced(read.agent, sure_ms);
            return is_sure.then_some(sure_ms);
        }
        if next_call.is_some() || !self.plan.faults.is_empty() || may_be_fenced {
            return next_call;
        }
        let (_, closed_ms) = self.history.connections[incarnation.0];
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
                let orderly = match self.transport(read.agent) {
                    Transport::Sse => false,
                    Transport::Http | Transport::HttpOnce => !broken_off,
                    // When the time is over, agents die without an end of stdin that is in order.
                    Transport::Stdio => !broken_off && closed_ms + SKEW_MS < self.plan.params.duration_ms,
                };
                orderly.then_some(closed_ms + under_way_ms)
            }
            Some(_) | None => Some(doubt_ended_ms),
        }
    }

    /// Returns how much longer than others a call of this agent's may take, because it goes over the bridge.
    fn bridge_ms(&self, record: &Record) -> u64 {
        match self.transport(record.agent) {
            Transport::Stdio => BRIDGE_MS,
            Transport::Sse | Transport::Http | Transport::HttpOnce => 0,
        }
    }

    /// Tells whether something on the way between a read's machine and the server may have gone wrong from when it was sent
    /// until then.
    fn is_disturbed(&self, read: &Record, until_ms: u64) -> bool {
        self.is_faulty(read.agent, read.sent_ms.saturating_sub(AFTERMATH_MS), until_ms)
    }

    /// Tells whether something was wrong with an agent's network or machine in a span of time.
    fn is_faulty(&self, agent: usize, from_ms: u64, until_ms: u64) -> bool {
        let Some(agent) = self.plan.agents.get(agent) else {
            return false;
        };
        self.plan.faults.iter().any(|fault| {
            let there = match fault.kind {
                FaultKind::Hold { on }
                | FaultKind::Partition { on }
                | FaultKind::LoseRequests { on }
                | FaultKind::LoseReplies { on }
                | FaultKind::BoxCrash { on } => on == agent.on,
                FaultKind::Crash | FaultKind::Stop => false,
            };
            there && fault.at_ms <= until_ms && fault.at_ms + fault.for_ms >= from_ms
        })
    }

    /// Tells whether a session over HTTP+SSE made another call before a call was answered, which says that it has read all
    /// that was passed to its stream.
    fn is_confirmed_by_a_parallel_call(&self, call: &Record) -> bool {
        let meanwhile = |other: &Record| {
            let overlaps = other.ended_ms >= call.sent_ms && other.sent_ms <= call.ended_ms;
            other.agent == call.agent
                && overlaps
                && !std::ptr::eq(other, call)
                && !self.are_one_call(other, call)
        };
        self.transport(call.agent) == Transport::Sse && self.history.calls.iter().any(meanwhile)
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

fn broken(detail: String) -> Verdict {
    Err(detail)
}

fn seen_in(record: &Record) -> &[Seen] {
    match &record.outcome {
        Outcome::Messages { seen, .. } => seen,
        Outcome::Posted(_)
        | Outcome::Pending(_)
        | Outcome::Grouped
        | Outcome::Greeted { .. }
        | Outcome::Tools(_)
        | Outcome::Refused(_)
        | Outcome::Unknown(_) => &[],
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

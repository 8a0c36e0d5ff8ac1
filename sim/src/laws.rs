//! The contract, a function a law, over what the clients saw. Nothing here may look into the server.
//!
//! A law must be true of every correct relay, whatever the network did: where a client cannot know, it says nothing.

use std::collections::{BTreeMap, BTreeSet};

use relay::engine::limits::DOUBT_MS;

use crate::history::{Asked, BootRecord, History, Outcome, Record, Seen, serial};
use crate::plan::{Action, FaultKind, Illegal, Plan, Transport};

/// How far the clocks of two hosts may be apart, in milliseconds: hosts take turns within one tick of the simulation.
const SKEW_MS: u64 = 10;

/// Tells whether something was over before something else began, wherever both happened.
fn before(ended_ms: u64, sent_ms: u64) -> bool {
    ended_ms + SKEW_MS < sent_ms
}

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

/// Why relay may count an answer as read that its client did not see (docs/CONTRACT.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excuse {
    /// Its session over HTTP+SSE made another call while it waited for the answer.
    ParallelCall,
    /// The client threw the answer away, and the network kept its cancellation from relay until the doubt was over.
    LateCancellation,
}

type Verdict = Result<(), Violation>;

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

    /// Whatever is read was posted so, to this role, and within one life of the server.
    fn nothing_from_thin_air(&self) -> Verdict {
        const LAW: &str = "nothing from thin air";
        for Showing { seen, read } in self.showings.values().flatten() {
            let Some(post) = self.posts.get(seen.body.as_str()) else {
                return broken(
                    LAW,
                    format!("{:?} was never posted; {}", serial(&seen.body), describe(read)),
                );
            };
            let Asked::Post { from, to, kind, .. } = &post.asked else {
                unreachable!("posts are posts");
            };
            let Asked::Read { of, .. } = &read.asked else {
                unreachable!("reads are reads");
            };
            let same = *from == seen.from && *to == seen.to && kind.as_str() == seen.kind;
            if !same || of != to {
                return broken(
                    LAW,
                    format!("{seen:?} was read for {of}, but posted as {:?}", post.asked),
                );
            }
            match &post.outcome {
                Outcome::Posted(id) if *id == seen.id => {}
                Outcome::Unknown(_) => {}
                other @ (Outcome::Posted(_)
                | Outcome::Messages { .. }
                | Outcome::Pending(_)
                | Outcome::Refused(_)) => {
                    return broken(
                        LAW,
                        format!(
                            "{} was read, but its post ended with {other:?}",
                            serial(&seen.body)
                        ),
                    );
                }
            }
            let until = if is_unknown(post) {
                read.ended_ms
            } else {
                post.ended_ms
            };
            let mut boots = self.boots(post.sent_ms, until);
            if !boots.any(|boot| overlaps(boot, read.sent_ms, read.ended_ms)) {
                return broken(
                    LAW,
                    format!(
                        "{} was read after the server that had it was gone",
                        serial(&seen.body)
                    ),
                );
            }
        }
        Ok(())
    }

    fn a_message_is_shown_twice_only_if_marked(&self) -> Verdict {
        const LAW: &str = "a message is shown twice only if marked";
        for showings in self.showings.values() {
            let mut replies = BTreeSet::new();
            for (at, Showing { seen, read }) in showings.iter().enumerate() {
                if !replies.insert(std::ptr::from_ref(*read) as usize) {
                    return broken(
                        LAW,
                        format!("{} stands twice in {}", serial(&seen.body), describe(read)),
                    );
                }
                if at > 0 && !seen.redelivered && before(showings[at - 1].read.ended_ms, read.sent_ms) {
                    return broken(
                        LAW,
                        format!(
                            "{} was shown again, unmarked, in {}",
                            serial(&seen.body),
                            describe(read)
                        ),
                    );
                }
            }
            let unmarked = showings
                .iter()
                .filter(|showing| !showing.seen.redelivered)
                .count();
            if unmarked > 1 {
                return broken(
                    LAW,
                    format!(
                        "{} was shown {unmarked} times unmarked",
                        serial(&showings[0].seen.body)
                    ),
                );
            }
            let Showing { seen, read } = &showings[0];
            if seen.redelivered && unmarked == 0 && !self.may_have_been_in_doubt(read) {
                return broken(
                    LAW,
                    format!(
                        "{} is marked, but no reply before can have held it",
                        serial(&seen.body)
                    ),
                );
            }
        }
        Ok(())
    }

    /// Tells whether another read of the same role may have had the same messages before.
    fn may_have_been_in_doubt(&self, read: &Record) -> bool {
        let Asked::Read { of, .. } = &read.asked else {
            return false;
        };
        let others = self.reads[of.as_str()]
            .iter()
            .filter(|other| !std::ptr::eq(**other, read));
        others
            .into_iter()
            .any(|other| is_unknown(other) && !before(read.ended_ms, other.sent_ms))
    }

    fn what_is_confirmed_never_comes_back(&self) -> Verdict {
        const LAW: &str = "what is confirmed never comes back";
        for showings in self.showings.values() {
            for first in showings {
                let Some(confirmed_ms) = self.confirmed_ms(first.read) else {
                    continue;
                };
                let later = showings
                    .iter()
                    .find(|other| before(confirmed_ms, other.read.sent_ms));
                if let Some(later) = later {
                    let (what, again) = (serial(&first.seen.body), describe(later.read));
                    let read = describe(first.read);
                    return broken(
                        LAW,
                        format!(
                            "{what}, read in {read}, was confirmed by {confirmed_ms} ms, but came back in {again}"
                        ),
                    );
                }
            }
        }
        Ok(())
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

    fn a_reply_is_in_the_order_of_acceptance(&self) -> Verdict {
        const LAW: &str = "a reply is in the order of acceptance";
        for read in self.reads.values().flatten() {
            let mut latest_sent_ms = 0;
            for seen in seen_in(read) {
                let post = self.posts[seen.body.as_str()];
                if !is_unknown(post) && before(post.ended_ms, latest_sent_ms) {
                    let what = serial(&seen.body);
                    return broken(
                        LAW,
                        format!(
                            "{what} stands behind one that was sent after it was accepted, in {}",
                            describe(read)
                        ),
                    );
                }
                latest_sent_ms = latest_sent_ms.max(post.sent_ms);
            }
        }
        Ok(())
    }

    /// A message that no reply had before is not shown after one that was sent when it was already accepted.
    fn no_message_overtakes_another(&self) -> Verdict {
        const LAW: &str = "no message overtakes another";
        for reads in self.reads.values() {
            for later in reads {
                let plain = seen_in(later).iter().filter(|seen| !seen.redelivered);
                for seen in plain {
                    let post = self.posts[seen.body.as_str()];
                    let boots: Vec<_> = self.boots(post.sent_ms, later.ended_ms).collect();
                    if is_unknown(post) || boots.len() != 1 {
                        continue;
                    }
                    let earlier = reads
                        .iter()
                        .filter(|earlier| before(earlier.ended_ms, later.sent_ms));
                    let newer = earlier.flat_map(|earlier| seen_in(earlier)).find(|other| {
                        !other.redelivered && before(post.ended_ms, self.posts[other.body.as_str()].sent_ms)
                    });
                    if let Some(newer) = newer {
                        let (slow, quick) = (serial(&seen.body), serial(&newer.body));
                        return broken(
                            LAW,
                            format!("{quick} was read before {slow}, which was accepted before it was sent"),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// A read shows all that was accepted before it, unless another read has it.
    fn nothing_is_hidden_from_a_read(&self) -> Verdict {
        const LAW: &str = "nothing is hidden from a read";
        for (role, reads) in &self.reads {
            let unknown: Vec<_> = reads.iter().filter(|read| is_unknown(read)).collect();
            let to_role = self
                .posts
                .values()
                .filter(|post| matches!(&post.asked, Asked::Post { to, .. } if to == role));
            let accepted: Vec<_> = to_role
                .filter_map(|post| match &post.outcome {
                    Outcome::Posted(id) => Some((*post, id.as_str())),
                    Outcome::Messages { .. }
                    | Outcome::Pending(_)
                    | Outcome::Refused(_)
                    | Outcome::Unknown(_) => None,
                })
                .collect();
            for read in reads
                .iter()
                .filter(|read| matches!(read.outcome, Outcome::Messages { .. }))
            {
                for (post, id) in &accepted {
                    let accepted_before = before(post.ended_ms, read.sent_ms);
                    if !accepted_before || self.boots(post.sent_ms, read.ended_ms).count() != 1 {
                        continue;
                    }
                    let shown = self.showings.get(id).map_or(&[][..], Vec::as_slice);
                    let has_it = shown
                        .iter()
                        .any(|showing| !before(read.ended_ms, showing.read.sent_ms));
                    let may_have_it = |other: &&&&Record| {
                        let taken_note = other.cancelled_ms.is_some_and(|at| before(at, post.sent_ms));
                        !before(read.ended_ms, other.sent_ms) && !taken_note
                    };
                    if !has_it && unknown.iter().find(may_have_it).is_none() {
                        let Asked::Post { body, .. } = &post.asked else {
                            unreachable!("posts are posts")
                        };
                        return broken(
                            LAW,
                            format!(
                                "{}, accepted at {} ms, is missing in {}",
                                serial(body),
                                post.ended_ms,
                                describe(read)
                            ),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn each_call_is_answered_once(&self) -> Verdict {
        match self.history.stray_answers.first() {
            None => Ok(()),
            Some(stray) => broken("each call is answered once", format!("nobody waits for {stray}")),
        }
    }

    fn waits_and_calls_are_in_time(&self) -> Verdict {
        const LAW: &str = "waits and calls are in time";
        for record in &self.history.calls {
            let (empty, wait_ms) = match (&record.asked, &record.outcome) {
                (Asked::Read { wait_ms, .. }, Outcome::Messages { seen, .. }) => (seen.is_empty(), *wait_ms),
                // An answer to a call that overtook the news of its stream's end went into the old stream.
                (_, Outcome::Unknown("no answer in time"))
                    if self.plan.faults.is_empty() && !self.stalls(record.agent) =>
                {
                    return broken(
                        LAW,
                        format!("{} has no answer, and nothing went wrong", describe(record)),
                    );
                }
                _ => (false, 0),
            };
            let took_ms = record.ended_ms - record.sent_ms;
            // relay counts whole milliseconds, by a clock of its own.
            if empty && took_ms + SKEW_MS + 1 < wait_ms && !self.is_superseded(record) {
                return broken(
                    LAW,
                    format!(
                        "{} waited {took_ms} of {wait_ms} ms, for nothing",
                        describe(record)
                    ),
                );
            }
            let slack_ms = 12 * self.plan.params.latency_ms_max + 700;
            let answered = !is_unknown(record) && record.incarnation.is_some();
            if self.plan.faults.is_empty()
                && answered
                && !self.stalls(record.agent)
                && took_ms > wait_ms + slack_ms
            {
                return broken(
                    LAW,
                    format!("{} took {took_ms} ms, with {wait_ms} to wait", describe(record)),
                );
            }
        }
        Ok(())
    }

    /// Tells whether the same agent began another wait for the same role meanwhile.
    fn is_superseded(&self, record: &Record) -> bool {
        let Asked::Read { of, .. } = &record.asked else {
            return false;
        };
        self.reads[of.as_str()].iter().any(|other| {
            let waits = matches!(other.asked, Asked::Read { wait_ms: 1.., .. });
            let meanwhile = other.sent_ms >= record.sent_ms && other.sent_ms <= record.ended_ms;
            waits && meanwhile && other.agent == record.agent && !std::ptr::eq(*other, record)
        })
    }

    fn stalls(&self, agent: usize) -> bool {
        let Some(agent) = self.plan.agents.get(agent) else {
            return false;
        };
        // A reconnection, too, makes the next call wait for its stream.
        agent
            .steps
            .iter()
            .any(|step| matches!(step.action, Action::Stall(..) | Action::Reconnect))
    }

    fn the_illegal_is_refused_and_the_legal_is_not(&self) -> Verdict {
        const LAW: &str = "the illegal is refused and the legal is not";
        for record in &self.history.calls {
            let bounds = &self.plan.params;
            let reason = match (&record.asked, &record.outcome) {
                (_, Outcome::Unknown(_)) => continue,
                (Asked::Illegal(illegal), outcome) => match outcome {
                    Outcome::Refused(text) if text.contains(must_say(*illegal, record.bound)) => continue,
                    Outcome::Posted(_)
                    | Outcome::Messages { .. }
                    | Outcome::Pending(_)
                    | Outcome::Refused(_)
                    | Outcome::Unknown(_) => format!("{illegal:?} ended with {outcome:?}"),
                },
                (Asked::Post { body, .. }, Outcome::Refused(text)) => {
                    let full = text.contains("is full") && bounds.inbox_messages_max < 10_000;
                    let long = text.contains("body has") && body.len() > bounds.body_bytes_max;
                    if full || long {
                        continue;
                    }
                    text.clone()
                }
                (Asked::Read { wait_ms: 1.., .. }, Outcome::Refused(text))
                    if text.contains("as many reads wait already") =>
                {
                    continue;
                }
                (Asked::Read { .. } | Asked::Pending { .. }, Outcome::Refused(text)) => text.clone(),
                (_, Outcome::Posted(_) | Outcome::Messages { .. } | Outcome::Pending(_)) => continue,
            };
            return broken(LAW, format!("{}: {reason}", describe(record)));
        }
        Ok(())
    }

    fn bounds_are_kept_and_not_imagined(&self) -> Verdict {
        const LAW: &str = "bounds are kept and not imagined";
        let params = &self.plan.params;
        if params.inbox_messages_max >= 10_000 {
            return Ok(());
        }
        for post in self.posts.values() {
            let Asked::Post { to, body, .. } = &post.asked else {
                unreachable!("posts are posts");
            };
            let others = || {
                let to_same =
                    |other: &&&Record| matches!(&other.asked, Asked::Post { to: role, .. } if role == to);
                self.posts
                    .values()
                    .filter(to_same)
                    .filter(|other| !std::ptr::eq(**other, *post))
            };
            let size = |record: &Record| match &record.asked {
                Asked::Post { body, .. } => body.len(),
                Asked::Read { .. } | Asked::Pending { .. } | Asked::Illegal(_) => 0,
            };
            match &post.outcome {
                Outcome::Refused(text) if text.contains("is full") => {
                    let sent_before: Vec<_> = others()
                        .filter(|other| !before(post.ended_ms, other.sent_ms))
                        .collect();
                    let bytes: usize = sent_before.iter().map(|other| size(other)).sum();
                    if sent_before.len() < params.inbox_messages_max
                        && bytes + body.len() <= params.inbox_bytes_max
                    {
                        return broken(
                            LAW,
                            format!("{} is refused, but the inbox had room", describe(post)),
                        );
                    }
                }
                Outcome::Posted(_) if self.boots(0, post.ended_ms).count() == 1 => {
                    let nobody_reads = self
                        .reads
                        .get(to.as_str())
                        .is_none_or(|reads| reads.iter().all(|read| before(post.ended_ms, read.sent_ms)));
                    let waiting = others().filter(|o| {
                        matches!(o.outcome, Outcome::Posted(_)) && before(o.ended_ms, post.sent_ms)
                    });
                    if nobody_reads && waiting.count() >= params.inbox_messages_max {
                        return broken(LAW, format!("{} is accepted by a full inbox", describe(post)));
                    }
                }
                Outcome::Posted(_)
                | Outcome::Messages { .. }
                | Outcome::Pending(_)
                | Outcome::Refused(_)
                | Outcome::Unknown(_) => {}
            }
        }
        Ok(())
    }

    fn a_start_is_told_once_to_each_role(&self) -> Verdict {
        const LAW: &str = "a start is told once to each role";
        let notice = |read: &'a Record| match &read.outcome {
            Outcome::Messages { notice, .. } => notice.as_deref(),
            Outcome::Posted(_) | Outcome::Pending(_) | Outcome::Refused(_) | Outcome::Unknown(_) => None,
        };
        let text = |boot: &BootRecord| {
            format!(
                "relay started at {}; nothing sent before that is here; send again what was not acknowledged",
                boot.started_at
            )
        };
        for read in self.reads.values().flatten() {
            let Some(told) = notice(read) else { continue };
            if !self
                .boots(read.sent_ms, read.ended_ms)
                .any(|boot| text(boot) == told)
            {
                return broken(
                    LAW,
                    format!("{} says {told:?}, which no start is", describe(read)),
                );
            }
        }
        for (role, reads) in &self.reads {
            for boot in &self.history.boots {
                let expected = text(boot);
                let told: Vec<_> = reads
                    .iter()
                    .filter(|read| notice(read) == Some(&expected))
                    .collect();
                for first in &told {
                    let confirmed_ms = self.confirmed_ms(first);
                    let again = told
                        .iter()
                        .find(|later| confirmed_ms.is_some_and(|at| before(at, later.sent_ms)));
                    if let Some(again) = again {
                        let (first, again) = (describe(first), describe(again));
                        return broken(LAW, format!("{role} was told in {first} and again in {again}"));
                    }
                }
                let until_ms = boot.until_ms.unwrap_or(u64::MAX);
                let within =
                    |read: &&&Record| before(boot.from_ms, read.sent_ms) && before(read.ended_ms, until_ms);
                let alone = |read: &&&Record| {
                    let early = |other: &&&Record| {
                        !before(read.ended_ms, other.sent_ms) && !before(other.ended_ms, boot.from_ms)
                    };
                    reads.iter().filter(early).count() == 1
                };
                let answered = |read: &&&Record| matches!(read.outcome, Outcome::Messages { .. });
                let first = reads.iter().filter(within).find(alone).filter(answered);
                if let Some(first) = first.filter(|first| notice(first).is_none()) {
                    let first = describe(first);
                    return broken(
                        LAW,
                        format!("the first read of {role}, {first}, does not tell of the start"),
                    );
                }
                let excused = reads
                    .iter()
                    .any(|read| is_unknown(read) && self.excuse(read).is_some());
                let read_at_all = reads.iter().filter(within).any(|read| !is_unknown(read));
                if boot.until_ms.is_none() && told.is_empty() && !excused && read_at_all {
                    return broken(LAW, format!("nobody was told of the last start for {role}"));
                }
            }
        }
        Ok(())
    }

    fn no_session_is_left_over(&self) -> Verdict {
        // turmoil does not repeat a lost FIN, so a server behind a cut never hears of some ends.
        let cut = |kind: FaultKind| !matches!(kind, FaultKind::Crash | FaultKind::Hold { .. });
        if self.plan.faults.iter().any(|fault| cut(fault.kind)) {
            return Ok(());
        }
        match self.history.sessions_at_end {
            None | Some(1) => Ok(()),
            Some(count) => broken(
                "no session is left over",
                format!("{count} are open when all clients but one are gone"),
            ),
        }
    }

    fn the_end_is_reached(&self) -> Verdict {
        if self.history.drained {
            return Ok(());
        }
        let last = self.history.calls.last().map(describe).unwrap_or_default();
        broken(
            "the end is reached",
            format!("the inboxes could not be drained; the last call was {last}"),
        )
    }

    fn nothing_is_lost_without_a_reason(&self) -> Result<Report, Violation> {
        let mut report = Report {
            calls: self.history.calls.len() as u64,
            unknown: self.history.calls.iter().filter(|call| is_unknown(call)).count() as u64,
            attempted: self.posts.len() as u64,
            redelivered: self
                .showings
                .values()
                .flatten()
                .filter(|showing| showing.seen.redelivered)
                .count() as u64,
            ..Report::default()
        };
        for post in self.posts.values() {
            let Outcome::Posted(id) = &post.outcome else {
                continue;
            };
            report.accepted += 1;
            let Asked::Post { to, body, .. } = &post.asked else {
                unreachable!("posts are posts");
            };
            if self.showings.contains_key(id.as_str()) {
                report.delivered += 1;
                continue;
            }
            if self
                .boots(post.sent_ms, post.ended_ms)
                .any(|boot| boot.until_ms.is_some())
            {
                report.lost_by_restart += 1;
                continue;
            }
            let reads = self.reads.get(to.as_str()).into_iter().flatten();
            match reads
                .filter(|read| is_unknown(read))
                .find_map(|read| self.excuse(read))
            {
                Some(Excuse::ParallelCall) => report.lost_by_parallel_call += 1,
                Some(Excuse::LateCancellation) => report.lost_by_late_cancellation += 1,
                None => {
                    let law = "nothing is lost without a reason";
                    let (what, post) = (serial(body), describe(post));
                    return broken(
                        law,
                        format!("{what} for {to}, accepted in {post}, was never read"),
                    );
                }
            }
        }
        Ok(report)
    }

    /// Returns why relay may count a read's answer as read that its client did not see.
    fn excuse(&self, read: &Record) -> Option<Excuse> {
        if self.transport(read.agent) != Transport::Sse {
            return None;
        }
        let meanwhile = |call: &Record| {
            let overlaps = call.ended_ms >= read.sent_ms && call.sent_ms <= read.ended_ms;
            call.agent == read.agent && overlaps && !std::ptr::eq(call, read)
        };
        if self.history.calls.iter().any(meanwhile) {
            return Some(Excuse::ParallelCall);
        }
        let late = read
            .cancelled_ms
            .is_none_or(|at| at > read.sent_ms + DOUBT_MS.unsigned_abs());
        let thrown_away = read.outcome == Outcome::Unknown("cancelled") && !self.plan.faults.is_empty();
        (thrown_away && late).then_some(Excuse::LateCancellation)
    }

    /// Returns the lives of the server that a span of time touches.
    fn boots(&self, from_ms: u64, until_ms: u64) -> impl Iterator<Item = &'a BootRecord> {
        self.history
            .boots
            .iter()
            .filter(move |boot| overlaps(boot, from_ms, until_ms))
    }
}

fn overlaps(boot: &BootRecord, from_ms: u64, until_ms: u64) -> bool {
    !before(until_ms, boot.from_ms) && boot.until_ms.is_none_or(|end| !before(end, from_ms))
}

/// What a refusal must contain: it names the value, or what would be accepted.
fn must_say(illegal: Illegal, bound: bool) -> &'static str {
    match illegal {
        Illegal::UnknownRole => "unknown role \"nobody\"; known roles: role-0",
        Illegal::UnknownKind => "unknown kind \"shout\"; known kinds: status",
        Illegal::UnknownTool => "unknown tool \"peek_messages\"; known tools: post_message",
        Illegal::Missing => "missing argument \"body\"; post_message takes",
        Illegal::TooLong => "body has",
        Illegal::NotYou if bound => "but this session is bound to",
        Illegal::NotYou => "missing argument \"from\"; give your role, one of: role-0",
    }
}

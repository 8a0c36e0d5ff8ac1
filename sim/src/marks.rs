//! What must have happened, so that a campaign without a violation means something: every fault bit, and every
//! branch of the contract was reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::history::{BootRecord, History, Outcome, Record, TOLD};
use crate::plan::{Dialect, FaultKind, Plan, Transport};
use crate::stdio::is_trouble;
use crate::{projects, team};

/// The marks that a campaign must have reached, and from how many seeds on.
///
/// A mark that one seed in `n` reaches is required from `10 n` seeds on, rounded up: one campaign in twenty thousand of that
/// length misses it by chance.
pub const REQUIRED: [(&str, u64); 96] = [
    ("asked for again", 100),
    ("confirmed: seen, as its reader says", 100),
    ("undone: not seen, as its reader says", 100),
    ("refused: behind what is forgotten", 100),
    ("agent registered", 100),
    ("agent taken over", 200),
    ("answer awaited", 200),
    ("answer awaited in vain", 200),
    ("answered after its id was told of", 100_000),
    ("agent of another project put into a group", 100),
    ("answer awaited from another project", 500),
    ("channel of another project's read", 1_000),
    ("read of another project's agent", 100),
    ("refused: a name that another project has", 500),
    ("sent to a channel of another project", 200),
    ("sent to a channel of one project of several", 100),
    ("sent to a group of another project", 200),
    ("sent to a group of one project of several", 200),
    ("sent to a role of another project", 200),
    ("sent to all of another project", 100),
    ("sent to all of one project of several", 100),
    ("sent to all projects", 100),
    ("sent to an agent of another project", 100),
    ("sent to one of several of that name", 100),
    ("sent to the channel of all in a project", 100),
    ("several projects", 100),
    ("read of a channel's", 2_000),
    ("read of one sender's", 200),
    ("reply without room for all", 100),
    ("message shown in parts", 100),
    ("refused: another call waits", 200),
    ("call unknown: given up", 100),
    ("call unknown: the connection broke", 100),
    ("call unknown: the stream broke", 200),
    ("cancelled over HTTP: crossed with the answer", 5_000),
    ("cancelled over HTTP: what it has", 100),
    ("cancelled over HTTP: no answer", 500),
    ("cancelled over HTTP: the end of its stream", 1_000),
    ("confirmed: doubt ended", 200),
    ("confirmed: next bytes", 100),
    ("confirmed: next call", 100),
    ("confirmed: orderly end", 100),
    ("fault bit: box crash", 200),
    ("fault bit: crash with a hand-over in doubt", 200),
    ("fault bit: crash with parked waits", 200),
    ("fault bit: crash with unread messages", 200),
    ("fault bit: clock set while somebody waits", 100),
    ("fault bit: hold", 100),
    ("fault bit: lost replies", 100),
    ("fault bit: lost requests", 100),
    ("fault bit: orderly stop", 100),
    ("fault bit: partition", 100),
    ("fault bit: second crash in a row", 200),
    ("given up: nothing was acknowledged", 100),
    ("notice beside another answer", 100),
    ("notice read", 100),
    ("notice undone", 100),
    ("progress told", 200),
    ("progress told over HTTP", 500),
    ("read redelivered", 100),
    ("channel joined", 200),
    ("message answered", 200),
    ("sent to a channel", 200),
    ("sent to a group", 200),
    ("sent to a role", 200),
    ("sent to all", 200),
    ("refused: inbox full", 100),
    ("refused: legal form, illegal call", 100),
    ("refused: taken over", 500),
    ("refused: too many turns", 2_000),
    ("refused: too many waits", 200),
    ("stdio agent died with an answer unread", 500),
    ("stdio agent went over a restart", 500),
    ("stdio call", 100),
    ("stdio call cancelled", 200),
    ("stream came back under its old id", 100),
    ("told after a kill that a wait lost its stream", 200),
    ("told in the same life that a wait lost its stream", 1_000),
    ("told of a call that lost its stream", 200),
    ("undone: cancelled", 500),
    ("undone: exchange broke", 100),
    ("undone: reply lost", 5_000),
    ("undone: stream ended", 100),
    ("wait answered by a stop", 500),
    ("wait cancelled", 100),
    ("wait expired", 100),
    ("wait superseded", 500),
    ("wait woken", 100),
    ("wait woken by a redelivery", 500),
    ("two calls at once", 100),
    ("two requests pipelined", 100),
    ("handshake over HTTP", 100),
    ("handshake over HTTP+SSE", 100),
    ("2026-07-28 discovered", 200),
    ("read with 2026-07-28", 200),
    ("tools listed", 100),
];

/// Counts by mark.
#[derive(Clone, Default)]
pub struct Marks(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Marks {
    /// Counts one.
    pub fn hit(&self, mark: &'static str) {
        *self
            .0
            .lock()
            .expect("counting does not panic")
            .entry(mark)
            .or_default() += 1;
    }

    /// Counts one if it is so.
    pub fn hit_if(&self, so: bool, mark: &'static str) {
        if so {
            self.hit(mark);
        }
    }

    /// Returns the counts.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().expect("counting does not panic").clone()
    }
}

/// Adds counts to others.
pub fn add(sum: &mut BTreeMap<&'static str, u64>, more: &BTreeMap<&'static str, u64>) {
    for (mark, count) in more {
        *sum.entry(mark).or_default() += count;
    }
}

/// Counts what the history of a run shows to have happened.
pub fn note_history(plan: &Plan, history: &History, marks: &Marks) {
    for record in &history.calls {
        match &record.outcome {
            Outcome::Greeted { .. } => {
                let agent = &plan.agents[record.agent];
                marks.hit(match (agent.dialect, agent.transport) {
                    (Dialect::Modern, _) => "2026-07-28 discovered",
                    (_, Transport::Sse) => "handshake over HTTP+SSE",
                    (_, Transport::Http | Transport::HttpOnce) => "handshake over HTTP",
                    (_, Transport::Stdio) => continue,
                });
            }
            Outcome::Tools(_) => marks.hit("tools listed"),
            Outcome::Unknown("given up") => marks.hit("call unknown: given up"),
            Outcome::Unknown("the connection broke") => marks.hit("call unknown: the connection broke"),
            Outcome::Unknown("the stream broke") => marks.hit("call unknown: the stream broke"),
            Outcome::Unknown(TOLD) if !record.losses.is_empty() => {
                let kill = |boot: &BootRecord| boot.until_ms.is_some_and(|at| at > record.sent_ms);
                let killed = history
                    .boots
                    .iter()
                    .any(|boot| kill(boot) && boot.from_ms < record.ended_ms);
                marks.hit(if killed {
                    "told after a kill that a wait lost its stream"
                } else {
                    "told in the same life that a wait lost its stream"
                });
            }
            Outcome::Posted(_)
            | Outcome::Messages { .. }
            | Outcome::Pending(_)
            | Outcome::Grouped
            | Outcome::Refused(_)
            | Outcome::Unknown(_) => {}
        }
        if let Outcome::Messages { seen, is_cut, .. } = &record.outcome {
            marks.hit_if(*is_cut, "reply without room for all");
            let in_parts = seen.iter().any(|seen| seen.part.is_some());
            marks.hit_if(in_parts, "message shown in parts");
        }
        let modern = plan.agents.get(record.agent);
        let modern = modern.is_some_and(|agent| agent.dialect == Dialect::Modern);
        if modern && matches!(record.outcome, Outcome::Messages { .. }) {
            marks.hit("read with 2026-07-28");
        }
    }
    note_stdio_restarts(history, marks);
    team::note_marks(history, marks);
    projects::note_marks(plan, history, marks);
    for fault in &plan.faults {
        let (on, mark) = match fault.kind {
            FaultKind::Hold { on } => (on, "fault bit: hold"),
            FaultKind::Partition { on } => (on, "fault bit: partition"),
            FaultKind::LoseRequests { on } => (on, "fault bit: lost requests"),
            FaultKind::LoseReplies { on } => (on, "fault bit: lost replies"),
            FaultKind::BoxCrash { on } => (on, "fault bit: box crash"),
            FaultKind::Crash | FaultKind::Stop => continue,
        };
        // A fault has bitten when a call of that machine was under way in it, and came late or not at all.
        let end_ms = fault.at_ms + fault.for_ms;
        let bitten = |record: &&Record| {
            let there = plan.agents.get(record.agent).is_some_and(|agent| agent.on == on);
            let under_way = record.sent_ms < end_ms && record.ended_ms > fault.at_ms;
            let late = record.sent_ms < fault.at_ms + fault.for_ms / 2 && record.ended_ms >= end_ms;
            there && under_way && (late || matches!(record.outcome, Outcome::Unknown(_)))
        };
        if history.calls.iter().any(|record| bitten(&record)) {
            marks.hit(mark);
        }
    }
}

/// Counts the bridges that told of a trouble and, after another start of the server, had an answer again.
fn note_stdio_restarts(history: &History, marks: &Marks) {
    for lost in &history.calls {
        if !matches!(lost.outcome, Outcome::Unknown(why) if is_trouble(why)) {
            continue;
        }
        let answered = |later: &&Record| {
            later.incarnation == lost.incarnation
                && later.sent_ms >= lost.ended_ms
                && !matches!(later.outcome, Outcome::Unknown(_))
        };
        let Some(later) = history.calls.iter().find(answered) else {
            continue;
        };
        let restarted = |boot: &BootRecord| boot.from_ms > lost.sent_ms && boot.from_ms <= later.ended_ms;
        if history.boots.iter().any(restarted) {
            marks.hit("stdio agent went over a restart");
        }
    }
}

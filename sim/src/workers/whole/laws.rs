//! What must hold of workers, seen from outside of relay: by the processes, by who asks for them, and by who is written to.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Accepted, By, Came, History, How, Process, What, number_of};
use super::plan::{GRACE_MS, Plan, REPORT_MS};
use crate::laws::Violation;
use crate::plan::{FaultKind, STOP_MS};

/// Nothing that a worker is sent is lost but with relay.
pub const ARRIVES: &str = "what a worker is sent arrives, there or at its parent";
/// Nobody else reads it.
pub const MEANT: &str = "a message is read by who is meant, or by who is above it";
/// Nothing is shown twice unmarked.
pub const MARKED: &str = "what is read again is marked";
/// A later worker of a name has nothing to do with what an earlier one does.
pub const GENERATION: &str = "nothing of an earlier worker acts on a later one";
/// At most one process of a name runs, as far as relay knows.
pub const ONE_ALIVE: &str = "one worker of a name lives";
/// Each spawn is answered, by what is so.
pub const ANSWERED: &str = "a spawn is answered once, and truly";
/// A parent hears once of what becomes of its worker.
pub const TOLD: &str = "a parent is told once what becomes of its worker";
/// Who was released ends, and is told that once.
pub const ENDED: &str = "a worker is told to end once, and ends";
/// Relay ends behind its workers, and soon.
pub const STOPPED: &str = "relay ends its workers, and then itself";

/// All of them.
pub const NAMES: [&str; 9] = [
    ARRIVES, MEANT, MARKED, GENERATION, ONE_ALIVE, ANSWERED, TOLD, ENDED, STOPPED,
];

/// How far two clocks of a run may seem to be apart, in milliseconds.
const SKEW_MS: u64 = 100;

/// How long a worker may say nothing before its parent is told, in milliseconds.
const SILENT_MS: u64 = 60_000;

/// How long what the network does may tell afterwards, in milliseconds.
const AFTER_MS: u64 = 25_000;

type Verdict = Result<(), String>;

/// A law's name, and the function that finds whether it was kept.
type Law<'a> = (&'static str, fn(&Case<'a>) -> Verdict);

/// Judges a run: returns every law that it broke.
pub fn judge(plan: &Plan, history: &History, strays: &[String]) -> Vec<Violation> {
    let case = Case {
        plan,
        history,
        strays,
    };
    let laws: [Law<'_>; 9] = [
        (ARRIVES, Case::what_is_sent_arrives),
        (MEANT, Case::a_message_is_read_by_who_is_meant),
        (MARKED, Case::what_is_read_again_is_marked),
        (GENERATION, Case::nothing_of_an_earlier_worker_acts),
        (ONE_ALIVE, Case::one_worker_of_a_name_lives),
        (ANSWERED, Case::a_spawn_is_answered_once),
        (TOLD, Case::a_parent_is_told_once),
        (ENDED, Case::a_worker_is_told_to_end_once),
        (STOPPED, Case::relay_ends_its_workers),
    ];
    let broken = laws.into_iter().filter_map(|(law, keeps)| {
        let detail = keeps(&case).err()?;
        Some(Violation { law, detail })
    });
    broken.collect()
}

struct Case<'a> {
    plan: &'a Plan,
    history: &'a History,
    strays: &'a [String],
}

impl Case<'_> {
    fn last_boot(&self) -> usize {
        self.history.boots.len() - 1
    }

    /// Returns an agent, and all who may have been above it.
    fn above(&self, name: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::from([name.to_owned()]);
        loop {
            let above = self.history.processes.iter();
            let above = above.filter(|process| all.contains(&process.name));
            let above: BTreeSet<String> = above.map(|process| process.parent.clone()).collect();
            if above.is_subset(&all) {
                return all;
            }
            all.extend(above);
        }
    }

    /// On which machine somebody is.
    fn on(&self, by: By) -> usize {
        match by {
            By::Person | By::Lead(_) => 0,
            By::Worker(number) => self.history.processes[number].on,
        }
    }

    fn has_fault(&self, from_ms: u64, until_ms: u64, is_meant: impl Fn(FaultKind) -> bool) -> bool {
        let mut faults = self.plan.faults.iter().filter(|fault| is_meant(fault.kind));
        faults.any(|fault| fault.at_ms <= until_ms && fault.at_ms + fault.for_ms + AFTER_MS >= from_ms)
    }

    /// Tells whether nobody may have seen what was in an inbox: an answer that has it was still under way when the inboxes were emptied; or
    /// relay takes it for read, since who had the answer was gone, or gave it up, and the network kept that from relay, to which turmoil says
    /// it once.
    fn is_on_the_way_or_lost(&self, readers: &BTreeSet<String>, drained_ms: u64) -> bool {
        self.history.calls.iter().any(|call| {
            let reads = matches!(call.what, What::Read | What::Ask) && call.came == Came::Unknown;
            let is_one = reads && readers.contains(&self.history.name(call.by));
            let ended_ms = call.ended_ms.or_else(|| match call.by {
                By::Worker(number) => self.history.processes[number].ended.map(|(at_ms, _)| at_ms),
                By::Person | By::Lead(_) => None,
            });
            let is_under_way = call.sent_ms < drained_ms && ended_ms.is_none_or(|at_ms| at_ms >= drained_ms);
            let on = self.on(call.by);
            let cuts = |kind| kind == FaultKind::Partition { on } || kind == FaultKind::LoseRequests { on };
            is_one && (is_under_way || self.has_fault(call.sent_ms, ended_ms.unwrap_or(u64::MAX), cuts))
        })
    }

    fn is_shown(&self, accepted: &Accepted) -> bool {
        let mut shown = self.history.shown.iter();
        shown.any(|shown| shown.id == accepted.id || shown.id.is_empty() && shown.body == accepted.body)
    }

    fn what_is_sent_arrives(&self) -> Verdict {
        let drained_ms = self.history.drained_ms.ok_or("the inboxes were not emptied")?;
        let last = self.last_boot();
        let all = self.history.accepted.iter();
        // What its workers come to then, nobody reads any more.
        for accepted in all.filter(|accepted| accepted.boot == last && accepted.at_ms < drained_ms) {
            if !self.is_shown(accepted) && !self.is_on_the_way_or_lost(&self.above(&accepted.to), drained_ms)
            {
                return Err(format!("{accepted:?} was never read"));
            }
        }
        Ok(())
    }

    fn a_message_is_read_by_who_is_meant(&self) -> Verdict {
        for shown in &self.history.shown {
            let is_it = |accepted: &&Accepted| {
                accepted.body == shown.body && (shown.id.is_empty() || accepted.id == shown.id)
            };
            let Some(accepted) = self.history.accepted.iter().find(is_it) else {
                return Err(format!("{shown:?} was never accepted"));
            };
            if !self.above(&accepted.to).contains(&shown.of) {
                return Err(format!("{shown:?} was {accepted:?}"));
            }
        }
        Ok(())
    }

    fn what_is_read_again_is_marked(&self) -> Verdict {
        let mut unmarked = BTreeSet::new();
        let plain = self.history.shown.iter().filter(|shown| !shown.is_marked);
        for shown in plain {
            // relay's own news have the same words again and again, and always an id.
            let key = if number_of(&shown.body).is_some() {
                &shown.body
            } else {
                &shown.id
            };
            if !unmarked.insert(key) {
                return Err(format!("{shown:?} was read before"));
            }
        }
        Ok(())
    }

    fn nothing_of_an_earlier_worker_acts(&self) -> Verdict {
        let History {
            accepted,
            shown,
            processes,
            posts,
            ..
        } = self.history;
        for accepted in accepted {
            let by = number_of(&accepted.body).map(|number| posts[number]);
            let Some(By::Worker(number)) = by else { continue };
            let process = &processes[number];
            let latest = accepted.from_worker;
            // Its relay was killed, and the next one has its name to itself; or the name went with a later one, and is anybody's.
            let is_free = latest.is_none_or(|latest| latest.is_gone);
            let is_own = latest.is_some_and(|latest| latest.worker == process.worker);
            let is_latest = is_free || is_own && accepted.boot == process.boot;
            if !is_latest {
                return Err(format!("{accepted:?} is of process {number}, {process:?}"));
            }
        }
        for shown in shown {
            let By::Worker(number) = shown.to else { continue };
            let process = &processes[number];
            let is_it = |accepted: &&Accepted| {
                accepted.body == shown.body && (shown.id.is_empty() || accepted.id == shown.id)
            };
            let Some(accepted) = accepted
                .iter()
                .find(is_it)
                .filter(|accepted| accepted.to == process.name)
            else {
                continue;
            };
            let is_later = accepted
                .to_worker
                .is_some_and(|latest| match accepted.boot == process.boot {
                    true => latest.worker > process.worker && !latest.is_gone,
                    false => !latest.is_gone,
                });
            if is_later {
                return Err(format!("{shown:?} was {accepted:?}, and went to {process:?}"));
            }
        }
        Ok(())
    }

    fn one_worker_of_a_name_lives(&self) -> Verdict {
        let mut last: BTreeMap<(usize, &str), &Process> = BTreeMap::new();
        for process in &self.history.processes {
            let before = last.insert((process.boot, &process.name), process);
            let lives = |before: &&Process| before.reported_ms.is_none_or(|at_ms| at_ms > process.asked_ms);
            if let Some(before) = before.filter(lives) {
                return Err(format!("{process:?} beside {before:?}"));
            }
        }
        Ok(())
    }

    fn a_spawn_is_answered_once(&self) -> Verdict {
        if let Some(stray) = self.strays.first() {
            return Err(format!("{stray} was answered to nobody"));
        }
        let mut answered = BTreeSet::new();
        for call in &self.history.calls {
            let What::Spawn(name) = &call.what else { continue };
            let ended_ms = call.ended_ms.unwrap_or(u64::MAX);
            let parent = self.history.name(call.by);
            let on = self.on(call.by);
            match &call.came {
                Came::Done => {
                    let mut all = self.history.processes.iter().enumerate();
                    let has_started = |(number, process): &(usize, &Process)| {
                        process.name == *name
                            && process.parent == parent
                            && process.asked_ms + SKEW_MS >= call.sent_ms
                            && process
                                .started_ms
                                // One that has called and ended before it was reported to run has run.
                                .or(process.said_ms.filter(|_| process.reported_ms.is_some()))
                                .is_some_and(|at_ms| at_ms <= ended_ms.saturating_add(SKEW_MS))
                            && !answered.contains(number)
                    };
                    let Some((number, _)) = all.find(has_started) else {
                        return Err(format!("{call:?}, of no worker that ran"));
                    };
                    answered.insert(number);
                }
                // It was given up, or something may have kept the answer from it.
                Came::Unknown if call.ended_ms.is_none() => {}
                Came::Unknown if ended_ms < call.sent_ms + 40_000 => {}
                Came::Unknown => {
                    let is_meant = |kind: FaultKind| match kind {
                        FaultKind::Hold { on: at }
                        | FaultKind::Partition { on: at }
                        | FaultKind::LoseRequests { on: at }
                        | FaultKind::LoseReplies { on: at }
                        | FaultKind::BoxCrash { on: at } => at == on,
                        FaultKind::Crash | FaultKind::Stop => true,
                    };
                    if !self.has_fault(call.sent_ms, ended_ms, is_meant) {
                        return Err(format!("{call:?} was not answered"));
                    }
                }
                Came::Refused(text) => {
                    let mut all = self.history.processes.iter().enumerate();
                    let is_early = |(number, process): &(usize, &Process)| {
                        let is_told = ends_with_number(text, *number);
                        is_told && process.reported_ms.is_none_or(|at_ms| at_ms > ended_ms + SKEW_MS)
                    };
                    if let Some((_, process)) = all.find(is_early) {
                        return Err(format!("{call:?}, of {process:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn a_parent_is_told_once(&self) -> Verdict {
        let news: Vec<&Accepted> = self
            .history
            .accepted
            .iter()
            .filter(|accepted| accepted.from == "relay")
            .collect();
        for (number, process) in self.history.processes.iter().enumerate() {
            let is_its = |news: &&&Accepted| ends_with_number(&news.body, number);
            let told = news.iter().filter(is_its).count();
            let answered = self
                .history
                .calls
                .iter()
                .any(|call| matches!(&call.came, Came::Refused(text) if ends_with_number(text, number)));
            let is_alone = process.told_ms.is_empty() && !answered;
            let most = usize::from(is_alone && process.reported_ms.is_some());
            let ended_alone = is_alone && process.started_ms.is_some();
            let least = usize::from(ended_alone && self.is_to_be_told(process, process.reported_ms));
            if !(least..=most).contains(&told) {
                return Err(format!(
                    "{told} times of the end of process {number}, {process:?}"
                ));
            }
        }
        // What relay says of them in the same words, by who is told.
        let mut bounds: BTreeMap<(usize, &str, &str, &str), (usize, usize)> = BTreeMap::new();
        for process in &self.history.processes {
            for (what, [least, most]) in [
                ("is ready", self.ready(process)),
                ("not spoken", self.silent(process)),
            ] {
                let key = (process.boot, process.name.as_str(), process.parent.as_str(), what);
                let bound = bounds.entry(key).or_default();
                bound.0 += usize::from(least);
                bound.1 += usize::from(most);
            }
        }
        for ((boot, name, parent, what), (least, most)) in bounds {
            let begin = format!("Worker {name:?} ");
            let is_it = |news: &&&Accepted| {
                news.boot == boot
                    && news.to == parent
                    && news.body.starts_with(&begin)
                    && news.body.contains(what)
            };
            let told = news.iter().filter(is_it).count();
            if !(least..=most).contains(&told) {
                let bound = format!("{least} to {most}");
                return Err(format!(
                    "{parent} was told {told} times, not {bound}, that {name} {what}"
                ));
            }
        }
        Ok(())
    }

    /// Tells whether the parent of a process hears of what happened to it at that time: it is there, and relay does not end.
    fn is_to_be_told(&self, process: &Process, at_ms: Option<u64>) -> bool {
        let boot = &self.history.boots[process.boot];
        let end_ms = boot.asked_ms.or(boot.killed_ms).unwrap_or(u64::MAX);
        let is_there = !process.parent.starts_with('w');
        is_there && at_ms.is_some_and(|at_ms| at_ms + SKEW_MS < end_ms)
    }

    /// When relay knows at the latest that a process is to be no more.
    fn until_ms(process: &Process) -> u64 {
        let told_ms = process.told_ms.first().copied().unwrap_or(u64::MAX);
        told_ms.min(process.reported_ms.unwrap_or(u64::MAX))
    }

    /// Whether its parent must be told that it is ready, and whether it may.
    fn ready(&self, process: &Process) -> [bool; 2] {
        // Also one that ended before it was reported to run.
        let may = process.started_ms.or(process.reported_ms).is_some() && process.said_ms.is_some();
        let ready_ms = process.started_ms.zip(process.heard_ms);
        let ready_ms = ready_ms.map(|(started_ms, heard_ms)| started_ms.max(heard_ms));
        let is_in_time = ready_ms.is_some_and(|at_ms| at_ms + SKEW_MS < Self::until_ms(process));
        [is_in_time && self.is_to_be_told(process, ready_ms), may]
    }

    /// Whether its parent must be told that it is silent, and whether it may.
    fn silent(&self, process: &Process) -> [bool; 2] {
        let Some(silent_ms) = process.started_ms.map(|at_ms| at_ms + SILENT_MS) else {
            return [false, false];
        };
        let may = process.heard_ms.is_none_or(|at_ms| at_ms + SKEW_MS > silent_ms);
        let is_mute = process.said_ms.is_none_or(|at_ms| at_ms > silent_ms + SKEW_MS);
        let is_in_time = silent_ms + SKEW_MS < Self::until_ms(process);
        let is_told = is_mute && is_in_time && self.is_to_be_told(process, Some(silent_ms));
        [is_told, may]
    }

    fn a_worker_is_told_to_end_once(&self) -> Verdict {
        for process in &self.history.processes {
            let [first, others @ ..] = process.told_ms.as_slice() else {
                continue;
            };
            let ended_ms = process.ended.map_or(u64::MAX, |(at_ms, _)| at_ms);
            if !others.is_empty() || ended_ms > first + GRACE_MS + SKEW_MS {
                return Err(format!("{process:?}"));
            }
        }
        let releases = self.history.calls.iter().filter(|call| call.came == Came::Done);
        for call in releases {
            let What::Release(name) = &call.what else { continue };
            let ended_ms = call.ended_ms.unwrap_or(u64::MAX);
            let mut all = self.history.processes.iter();
            let is_it = |process: &Process| {
                process.name == *name
                    && process.asked_ms <= ended_ms.saturating_add(SKEW_MS)
                    && process
                        .reported_ms
                        .is_none_or(|at_ms| at_ms + SKEW_MS >= call.sent_ms)
                    && process
                        .told_ms
                        .first()
                        .is_some_and(|at_ms| *at_ms <= ended_ms.saturating_add(SKEW_MS))
            };
            if !all.any(is_it) {
                return Err(format!("{call:?}, and no worker was told to end"));
            }
        }
        Ok(())
    }

    fn relay_ends_its_workers(&self) -> Verdict {
        for (number, boot) in self.history.boots.iter().enumerate() {
            let Some(asked_ms) = boot.asked_ms else { continue };
            let end_ms = asked_ms + GRACE_MS + REPORT_MS + STOP_MS;
            let is_late = boot
                .ended_ms
                .or(boot.killed_ms)
                .is_none_or(|at_ms| at_ms > end_ms + SKEW_MS);
            if is_late {
                return Err(format!("{boot:?}"));
            }
            let Some(ended_ms) = boot.ended_ms else { continue };
            let own = self
                .history
                .processes
                .iter()
                .filter(|process| process.boot == number);
            for process in own {
                if process.ended.is_none_or(|(at_ms, _)| at_ms > ended_ms) {
                    return Err(format!("{process:?} outlives {boot:?}"));
                }
            }
        }
        // Nor does one outlive a relay that was killed, for long.
        for process in &self.history.processes {
            let killed_ms = self.history.boots[process.boot].killed_ms;
            let outlives = |at_ms: u64| {
                process
                    .ended
                    .is_none_or(|(end_ms, how)| end_ms > at_ms + GRACE_MS + SKEW_MS && how != How::Machine)
            };
            if killed_ms.is_some_and(outlives) {
                return Err(format!("{process:?} outlives relay"));
            }
        }
        Ok(())
    }
}

/// Tells whether a text ends with what a process has written last, or with why it was not started.
fn ends_with_number(text: &str, number: usize) -> bool {
    [format!("bye {number}"), format!("no program {number}")]
        .iter()
        .any(|last| text.ends_with(last.as_str()))
}

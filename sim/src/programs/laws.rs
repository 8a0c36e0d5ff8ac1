//! What must hold of what models were shown.

use std::collections::BTreeMap;

use relay::engine::handling::Mode;
use serde_json::Value;

use super::history::{Accepted, At, History, Post, Showing, StepSeen};
use super::plan::{Plan, agent_name};
use crate::laws::Violation;
use crate::plan::FaultKind;

/// Nobody loses a message but with a life of the server.
pub const LOST: &str = "what was accepted is shown";
/// Nothing is shown twice unmarked.
pub const MARKED: &str = "what is shown again is marked";
/// Nothing is shown that nobody posted, or to somebody else.
pub const THIN_AIR: &str = "a model is shown what was sent to its agent";
/// What is brought in one way comes in order.
pub const OVERTAKEN: &str = "no message overtakes another that is brought like it";
/// The table.
pub const BOUNDARY: &str = "each mode is shown at its boundaries and nowhere else";
/// Manual.
pub const HELD: &str = "what is held is shown by no hook before it was asked for";
/// Nothing waits for ever.
pub const ASLEEP: &str = "nothing waits for ever on a program that can be woken";
/// The trace.
pub const TRACED: &str = "what relay says happened to a message is what did";
/// The tap's.
pub const ONE_WAKE: &str = "no program is woken while a wake of it is on its way";
/// The tap's.
pub const BUSY: &str = "no busy program is woken";
/// The tap's.
pub const ROOM: &str = "a model is shown no more than so much in a turn";
/// The tap's.
pub const AGAIN: &str = "a turn that goes on at its end does not do so again without a tool";

/// All of them.
pub const NAMES: [&str; 12] = [
    LOST, MARKED, THIN_AIR, OVERTAKEN, BOUNDARY, HELD, ASLEEP, TRACED, ONE_WAKE, BUSY, ROOM, AGAIN,
];

/// Whether a law was kept, or what broke it.
pub type Verdict = Result<(), String>;

/// A law's name, and the function that finds whether it was kept.
type Law<'a> = (&'static str, fn(&Case<'a>) -> Verdict);

/// Judges a run: returns every law that it broke.
pub fn judge(plan: &Plan, history: &History) -> Vec<Violation> {
    let laws: [Law<'_>; 8] = [
        (LOST, Case::what_was_accepted_is_shown),
        (MARKED, Case::what_is_shown_again_is_marked),
        (THIN_AIR, Case::a_model_is_shown_what_was_sent_to_its_agent),
        (OVERTAKEN, Case::no_message_overtakes_another),
        (BOUNDARY, Case::each_mode_is_shown_at_its_boundaries),
        (HELD, Case::what_is_held_is_shown_by_no_hook_before),
        (ASLEEP, Case::nothing_waits_for_ever),
        (TRACED, Case::what_relay_says_happened_did),
    ];
    let case = Case { plan, history };
    let broken = laws.into_iter().filter_map(|(law, keeps)| {
        let detail = keeps(&case).err()?;
        Some(Violation { law, detail })
    });
    let mut broken: Vec<_> = broken.collect();
    broken.extend(history.seen_by_tap.first().cloned());
    broken
}

/// Lists what programs are to be woken for, and were not.
pub fn asleep(plan: &Plan, history: &History) -> Vec<String> {
    let case = Case { plan, history };
    case.unseen(|accepted| matches!(accepted.mode, Mode::Immediate | Mode::OnIdle))
}

/// Lists what was accepted and never shown.
pub fn missing(plan: &Plan, history: &History) -> Vec<String> {
    Case { plan, history }.unseen(|_| true)
}

/// Counts what went with an answer that the network lost.
pub fn lost_on_the_way(plan: &Plan, history: &History) -> usize {
    let case = Case { plan, history };
    let all = history.accepted.iter();
    all.filter(|accepted| !case.is_shown(accepted) && case.is_lost_on_the_way(accepted))
        .count()
}

struct Case<'a> {
    plan: &'a Plan,
    history: &'a History,
}

impl Case<'_> {
    fn is_shown(&self, accepted: &Accepted) -> bool {
        let id = accepted.id.to_string();
        let mut shown = self.history.shown.iter();
        shown.any(|shown| shown.id == id && shown.agent == accepted.agent)
    }

    fn unseen(&self, is_meant: impl Fn(&Accepted) -> bool) -> Vec<String> {
        let all = self.history.accepted.iter();
        all.filter(|accepted| {
            is_meant(accepted) && !self.is_shown(accepted) && !self.is_lost_on_the_way(accepted)
        })
        .map(|accepted| format!("{accepted:?}"))
        .collect()
    }

    /// Tells whether an answer that had it was lost by the network, and counts as heard since its program went on; or is in doubt still, since
    /// the network has lost the end of the program, too: on one machine, that cannot be.
    fn is_lost_on_the_way(&self, accepted: &Accepted) -> bool {
        let mut handed = self.history.handed.iter();
        handed.any(|handed| {
            handed.id == accepted.id
                && !handed.is_undone
                && self.history.unheard.iter().any(|unheard| {
                    unheard.agent == accepted.agent
                        && (unheard.from_ms..=unheard.until_ms).contains(&handed.at_ms)
                        && self.has_network_fault(unheard.from_ms, unheard.until_ms)
                })
        })
    }

    fn has_network_fault(&self, from_ms: u64, until_ms: u64) -> bool {
        self.plan.faults.iter().any(|fault| {
            let is_it = match fault.kind {
                FaultKind::Hold { .. }
                | FaultKind::Partition { .. }
                | FaultKind::LoseRequests { .. }
                | FaultKind::LoseReplies { .. }
                | FaultKind::BoxCrash { .. } => true,
                FaultKind::Crash | FaultKind::Stop => false,
            };
            is_it && fault.at_ms <= until_ms && fault.at_ms + fault.for_ms >= from_ms
        })
    }

    fn what_was_accepted_is_shown(&self) -> Verdict {
        let missing = self
            .history
            .missing
            .as_ref()
            .ok_or("it did not come to its end")?;
        missing.first().map_or(Ok(()), |first| {
            Err(format!("{} never came, as {first}", missing.len()))
        })
    }

    fn nothing_waits_for_ever(&self) -> Verdict {
        let asleep = self.history.asleep.as_ref().ok_or("it did not come to its end")?;
        asleep
            .first()
            .map_or(Ok(()), |first| Err(format!("{} wait, as {first}", asleep.len())))
    }

    fn what_is_shown_again_is_marked(&self) -> Verdict {
        let mut before: BTreeMap<(usize, &str), Vec<&Showing>> = BTreeMap::new();
        for shown in &self.history.shown {
            let others = before.entry((shown.agent, &shown.id)).or_default();
            if !shown.is_marked
                && let Some(other) = others
                    .iter()
                    .find(|other| !other.is_marked || !has_crossed(other, shown))
            {
                return Err(format!("{other:?}, and then {shown:?}"));
            }
            others.push(shown);
        }
        Ok(())
    }

    fn a_model_is_shown_what_was_sent_to_its_agent(&self) -> Verdict {
        for shown in &self.history.shown {
            let post = shown.key.and_then(|key| self.history.posts.get(&key));
            if post.is_none_or(|post| post.to != shown.agent) {
                return Err(format!("{shown:?} is of {post:?}"));
            }
        }
        Ok(())
    }

    /// Of those that are shown for the first time, to one program: what comes again comes when it can.
    fn no_message_overtakes_another(&self) -> Verdict {
        let mut latest: BTreeMap<(usize, u64, ByMode), (u64, &Showing)> = BTreeMap::new();
        for shown in &self.history.shown {
            let of_it = |accepted: &&Accepted| accepted.id.to_string() == shown.id;
            let accepted = self.history.accepted.iter().find(of_it);
            // A wake that came late was overtaken by the turn.
            let Some(accepted) = accepted.filter(|_| !shown.is_marked && shown.at != At::LateWake) else {
                continue;
            };
            let place = (shown.agent, shown.run, ByMode(accepted.mode as usize));
            if let Some((before, first)) = latest.insert(place, (accepted.place, shown))
                && before > accepted.place
            {
                return Err(format!("{shown:?} came behind {first:?}"));
            }
        }
        Ok(())
    }

    fn each_mode_is_shown_at_its_boundaries(&self) -> Verdict {
        for shown in &self.history.shown {
            let Some((post, mode)) = self.mode_of(shown) else {
                continue;
            };
            if !self.may_be(post, mode) {
                return Err(format!("{mode:?}: {post:?}"));
            }
            let is_right = match shown.at {
                At::Tool => true,
                At::Said => matches!(mode, Mode::Immediate | Mode::Manual | Mode::NextMessage),
                At::Begun => matches!(mode, Mode::Immediate | Mode::Manual),
                At::Returned => matches!(mode, Mode::Immediate | Mode::Manual | Mode::NextToolCall),
                At::Ended | At::Wake | At::LateWake => {
                    matches!(mode, Mode::Immediate | Mode::Manual | Mode::OnIdle)
                }
                At::Elsewhere => false,
            };
            if !is_right {
                return Err(format!("{mode:?}: {shown:?}"));
            }
        }
        Ok(())
    }

    /// Finds the post of what was shown, and how it is brought.
    fn mode_of(&self, shown: &Showing) -> Option<(&Post, Mode)> {
        let post = self.history.posts.get(&shown.key?)?;
        let accepted = || {
            let mut all = self.history.accepted.iter();
            all.find(|accepted| accepted.id.to_string() == shown.id)
        };
        let mode = post.mode.or_else(|| Some(accepted()?.mode))?;
        Some((post, mode))
    }

    /// Tells whether a post may be brought so: as its sender has said, else as the programs of its agent have, or as most are.
    fn may_be(&self, post: &Post, mode: Mode) -> bool {
        let own = self
            .plan
            .programs
            .iter()
            .filter(|program| program.agent == post.to);
        let mut own = own.filter_map(|program| program.mode);
        post.mode.map_or_else(
            || mode == Mode::Immediate || own.any(|own| own == mode),
            |said| said == mode,
        )
    }

    fn what_is_held_is_shown_by_no_hook_before(&self) -> Verdict {
        for shown in self.history.shown.iter().filter(|shown| shown.at != At::Tool) {
            let Some((post, Mode::Manual)) = self.mode_of(shown) else {
                continue;
            };
            let was_asked = self.history.flushes.iter().any(|flush| {
                flush.agent == shown.agent
                    && flush.from_ms <= shown.at_ms
                    && flush.until_ms.is_none_or(|until_ms| until_ms >= post.sent_ms)
            });
            if !was_asked {
                return Err(format!("{shown:?} of {post:?}"));
            }
        }
        Ok(())
    }

    fn what_relay_says_happened_did(&self) -> Verdict {
        for accepted in &self.history.accepted {
            let trace = self.history.traces.iter().find(|trace| trace.id == accepted.id);
            let Some(trace) = trace else {
                return Err(format!("nothing was said of {accepted:?}"));
            };
            let agent = agent_name(accepted.agent);
            let mode = accepted.given.map(Mode::as_str);
            let id = accepted.id.to_string();
            let said = trace.said["steps"].as_array().into_iter().flatten();
            let said: Vec<&Value> = said.collect();
            let agrees = |seen: &StepSeen, said: &Value| {
                said["step"] == seen.step
                    && said["agent"] == agent.as_str()
                    && said["over"].as_str() == seen.over
                    && said["by"].as_str() == seen.by
                    && said["seq"] == accepted.place
            };
            let is_true = trace.said["id"] == id.as_str()
                && trace.said["mode"].as_str() == mode
                && said.len() == trace.seen.len()
                && trace
                    .seen
                    .iter()
                    .zip(&said)
                    .all(|(seen, said)| agrees(seen, said));
            if !is_true {
                return Err(format!("{accepted:?}: {}, but {:?}", trace.said, trace.seen));
            }
        }
        // And what had been shown was handed over as it says.
        for shown in &self.history.shown {
            let Some(trace) = self
                .history
                .traces
                .iter()
                .find(|trace| trace.id.to_string() == shown.id && shown.at_ms <= trace.asked_ms)
            else {
                continue;
            };
            let over = match shown.at {
                At::Tool => "http",
                At::Wake | At::LateWake => "wake",
                At::Said | At::Begun | At::Returned | At::Ended | At::Elsewhere => "hook",
            };
            let said = trace.said["steps"].as_array();
            let mut said = said.into_iter().flatten();
            if !said.any(|step| step["over"] == over) {
                return Err(format!("{shown:?}, but {}", trace.said));
            }
        }
        Ok(())
    }
}

/// What a mode is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ByMode(usize);

/// Longer than the network holds an answer, in milliseconds.
const CROSSING_MS: u64 = 20_000;

/// Tells whether one showing, which was marked, may be that of a later hand-over than the other's, which it has overtaken: the other
/// was with a waiter, or on its way there, maybe until the turn was over that had begun without it; or on its way to another program.
fn has_crossed(marked: &Showing, unmarked: &Showing) -> bool {
    let was_on_its_way = unmarked.asked_ms < marked.at_ms && unmarked.at_ms < marked.at_ms + CROSSING_MS;
    let of_waiter = unmarked.at == At::LateWake || unmarked.at == At::Wake && was_on_its_way;
    of_waiter || marked.run != unmarked.run
}

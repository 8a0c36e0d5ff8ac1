//! What must hold of what is asked of actions.

use std::collections::BTreeMap;

use super::Of;
use crate::nodes::history::{History, Seen};
use crate::nodes::laws::Verdict;
use crate::nodes::plan::Plan;

/// Nothing that is said later changes what an invocation came to.
pub const ENDS_ONCE: &str = "an invocation ends once";
/// It comes to what its handler says, or to nothing for one of relay's reasons.
pub const SAID: &str = "an invocation comes to what its handler says";
/// A handler that comes back answers it.
pub const ENDS: &str = "an invocation ends";
/// The tap's.
pub const ASKED: &str = "nothing is asked that has ended";

/// Judges that all who look see the same.
pub fn ends_once(history: &History) -> Verdict {
    let mut ends: BTreeMap<&str, &Seen> = BTreeMap::new();
    for seen in &history.seen {
        let Some(first) = ends.get(seen.id.as_str()) else {
            if seen.result.is_some() {
                ends.insert(&seen.id, seen);
            }
            continue;
        };
        if (&first.status, &first.result) != (&seen.status, &seen.result) {
            return Err(format!("{first:?}, and later {seen:?}"));
        }
    }
    Ok(())
}

/// Judges whose words they are.
pub fn comes_to_what_is_said(plan: &Plan, history: &History) -> Verdict {
    for seen in &history.seen {
        let Some(result) = &seen.result else { continue };
        let mut said = history.said.iter();
        if said.any(|said| said.id == seen.id && said.result == *result && said.is_of(&seen.status)) {
            continue;
        }
        let asked = history.invocations.iter().find(|asked| asked.id == seen.id);
        let of = asked.expect("it was accepted").of;
        let waits = match of {
            Of::Node(node) => plan.actions.queues[node],
            Of::Agent(_) => true,
        };
        let is_relay_s = seen.status == "failed"
            && (result == "relay has stopped" || !waits && result.starts_with("the node that was to do it"));
        if !is_relay_s {
            return Err(format!("{seen:?}, which nobody has said"));
        }
    }
    Ok(())
}

/// Judges that those have ended which were asked for in the last life of the server.
pub fn ends(history: &History) -> Verdict {
    let from_ms = history.boots.last().map_or(0, |(from_ms, _)| *from_ms);
    let mut of_this_life = history
        .invocations
        .iter()
        .filter(|asked| asked.asked_ms >= from_ms);
    let has_ended = |id: &str| {
        let mut seen = history.seen.iter();
        seen.any(|seen| seen.id == id && seen.result.is_some())
    };
    match of_this_life.find(|asked| !has_ended(&asked.id)) {
        Some(asked) => Err(format!("{asked:?} has not")),
        None => Ok(()),
    }
}

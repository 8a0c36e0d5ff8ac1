//! What must hold of what posters and targets saw.

use std::collections::BTreeMap;

use super::actions::laws::{ASKED, ENDS, ENDS_ONCE, SAID, comes_to_what_is_said, ends, ends_once};
use super::history::{Given, History, Listed, Numbered, Observed, Post, Posted, Shown, Step};
use super::plan::{Plan, node_name};
use crate::laws::Violation;
use crate::plan::FaultKind;

/// Nobody loses a message but with a life of the server.
pub const LOST: &str = "what was accepted is handed over";
/// Each message ends with a receipt.
pub const RECEIPT: &str = "each delivery has a receipt in the end";
/// Nothing is handed over after it.
pub const AFTER: &str = "nothing is handed over after its receipt";
/// Nothing comes twice unmarked.
pub const MARKED: &str = "what comes again is marked";
/// Posts of one sender come in their order.
pub const OVERTAKEN: &str = "no message overtakes another on its way to a node";
/// Nothing is handed over that nobody posted, or to somebody else.
pub const THIN_AIR: &str = "a node gets what was sent to it";
/// Observers see all that happens.
pub const OBSERVED: &str = "an observer is told of each event once and in order";
/// The tap's: numbers have no gap, and are used once.
pub const NUMBERS: &str = "frames are numbered without a gap";
/// The tap's: relay waits for ten seconds for a target, and no longer.
pub const PUSHED: &str = "of each push it is known in time what became of it";
/// The tap's.
pub const LATE: &str = "nobody is handed anything past its deadline";
/// The tap's: no number is acknowledged that the node did not acknowledge.
pub const SENT_AGAIN: &str = "no frame goes out after its receipt";
/// A node that asks where the frames of an agent go on gets them from there.
pub const GAP: &str = "frames go on where a node was told that they do";
/// The tap's: the binding of an agent says where its frames go.
pub const ELSEWHERE: &str = "frames of an agent go to the node that has it";
/// The tap's: it is for what went to its node, up to its number.
pub const ACKNOWLEDGED: &str = "nothing counts as acknowledged but by the node that has it";

/// The tap's.
pub const HELD: &str = "nobody is handed what the person holds or has dropped, and nothing else is held";
/// The tap's.
pub const NOTED: &str = "a sender is told where the person holds its message, and only there";
/// The tap's: of frames with new numbers, since what had one keeps it.
pub const PLACE: &str = "what the person lets pass goes out before what is behind it";

/// Nobody is shown what it does not want yet.
pub const LISTED: &str = "what is deferred is in no list before its time";

/// All of them.
pub const NAMES: [&str; 22] = [
    LOST,
    RECEIPT,
    AFTER,
    MARKED,
    OVERTAKEN,
    THIN_AIR,
    OBSERVED,
    NUMBERS,
    SENT_AGAIN,
    LATE,
    PUSHED,
    GAP,
    ELSEWHERE,
    ACKNOWLEDGED,
    ENDS_ONCE,
    SAID,
    ENDS,
    ASKED,
    LISTED,
    HELD,
    NOTED,
    PLACE,
];

/// Whether a law was kept, or what broke it.
pub type Verdict = Result<(), String>;

/// A law's name, and the function that finds whether it was kept.
type Law<'a> = (&'static str, fn(&Case<'a>) -> Verdict);

/// Judges a run: returns every law that it broke.
pub fn judge(plan: &Plan, history: &History) -> Vec<Violation> {
    let laws: [Law<'_>; 12] = [
        (LOST, Case::what_was_accepted_is_handed_over),
        (RECEIPT, Case::each_delivery_has_a_receipt),
        (AFTER, Case::nothing_is_handed_over_after_its_receipt),
        (MARKED, Case::what_comes_again_is_marked),
        (OVERTAKEN, Case::no_message_overtakes_another),
        (THIN_AIR, Case::a_node_gets_what_was_sent_to_it),
        (OBSERVED, Case::an_observer_is_told_of_each_event),
        (GAP, Case::frames_go_on_where_a_node_was_told),
        (LISTED, Case::what_is_deferred_is_in_no_list),
        (ENDS_ONCE, |case| ends_once(case.history)),
        (SAID, |case| comes_to_what_is_said(case.plan, case.history)),
        (ENDS, |case| ends(case.history)),
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

/// Counts the messages that were accepted and nobody got, since the server's life ended before.
pub fn lost_by_restart(history: &History) -> usize {
    let lost = |post: &&Post| {
        post.outcome == Posted::Accepted
            && post.to.is_some()
            && !history.shown.iter().any(|shown| shown.text == post.text)
            && !history.expired.iter().any(|(text, _)| *text == post.text)
    };
    history.posts.iter().filter(lost).count()
}

/// Tells whether all that web hooks are to get has arrived or has expired: relay waits for minutes after several failures in a row.
pub fn all_is_pushed(plan: &Plan, history: &History) -> bool {
    let case = Case { plan, history };
    let mut pushed = case
        .in_the_last_life()
        .filter(|(_, node)| (plan.nodes.len()..plan.first_of_fleets()).contains(node));
    pushed.all(|(post, node)| {
        let mut shown = case.showings(&post.text).filter(|shown| shown.node == node);
        case.has_expired(post, node) || shown.any(|shown| history.arrived.contains(&shown.delivery))
    })
}

struct Case<'a> {
    plan: &'a Plan,
    history: &'a History,
}

impl Case<'_> {
    /// The posts to one node that were accepted in the last life of the server.
    fn in_the_last_life(&self) -> impl Iterator<Item = (&Post, usize)> {
        let from_ms = self.history.boots.last().map_or(0, |(from_ms, _)| *from_ms);
        let accepted = move |post: &&Post| post.outcome == Posted::Accepted && post.sent_ms >= from_ms;
        let posts = self.history.posts.iter().filter(accepted);
        posts.filter_map(|post| Some((post, post.to?)))
    }

    fn showings<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a Shown> {
        self.history.shown.iter().filter(move |shown| shown.text == text)
    }

    /// Tells whether nobody is to get it any more: it has expired, or was dropped.
    fn has_expired(&self, post: &Post, node: usize) -> bool {
        let mut gone = self.history.expired.iter().chain(&self.history.dropped);
        gone.any(|(text, agent)| *text == post.text && *agent == node_name(node))
    }

    fn has_twin(&self, node: usize) -> bool {
        let plan = self.plan.nodes.get(node);
        plan.is_some_and(|plan| plan.twin_on.is_some())
    }

    /// Tells whether two showings of one message may have crossed: an agent that moves from node to node was sent it over one binding,
    /// and then over another, and the network may have held the first.
    fn may_have_crossed(&self, one: &Shown, other: &Shown) -> bool {
        let agents = self.plan.first_of_fleets()..self.plan.first_of_fleets() + self.plan.fleets.agents.len();
        agents.contains(&one.node) && one.process != other.process
    }

    /// Tells whether it is the first push of a message, and came behind a later one: relay broke it off when its web hook was made anew,
    /// and the network, or its target, had it already. It alone has no mark.
    fn is_first_push_late(&self, shown: &Shown) -> bool {
        let all = self.history.shown.iter();
        let mut all = all.filter(|other| other.node == shown.node && other.delivery == shown.delivery);
        !shown.redelivered
            && self.history.broken_off.contains(&shown.delivery)
            && all.next().is_some_and(|first| first.redelivered)
            && all.filter(|other| !other.redelivered).count() == 1
    }

    fn what_was_accepted_is_handed_over(&self) -> Verdict {
        for (post, node) in self.in_the_last_life() {
            let is_shown = self.showings(&post.text).any(|shown| shown.node == node);
            if !is_shown && !self.has_expired(post, node) {
                return Err(format!(
                    "{:?}, accepted at {} ms, never came",
                    post.text, post.ended_ms
                ));
            }
        }
        Ok(())
    }

    fn each_delivery_has_a_receipt(&self) -> Verdict {
        for (post, node) in self.in_the_last_life() {
            // Its program may have gone before it heard that relay has the receipt.
            let given = |shown: &Shown| {
                let receipts = self.history.receipts.iter();
                receipts
                    .filter(|given| given.is_final)
                    .any(|given| given.node == node && given.delivery == shown.delivery)
                    || self.history.settled.contains(&shown.delivery)
                    // A web hook gives none but its answer.
                    || node >= self.plan.nodes.len() && self.history.arrived.contains(&shown.delivery)
            };
            // What was deferred, or lost with its program, may have expired when it came back.
            if let Some(shown) = self.showings(&post.text).find(|shown| shown.node == node)
                && !given(shown)
                && !self.has_expired(post, node)
            {
                return Err(format!(
                    "{:?}, handed over at {} ms, has none",
                    post.text, shown.at_ms
                ));
            }
        }
        Ok(())
    }

    fn nothing_is_handed_over_after_its_receipt(&self) -> Verdict {
        for Given { node, delivery, .. } in self.history.receipts.iter().filter(|given| given.is_final) {
            // A second instance may have it in hand already.
            if self.has_twin(*node) {
                continue;
            }
            let of_it = |shown: &&Shown| shown.node == *node && shown.delivery == *delivery;
            let given = self.history.receipts.iter().filter(|given| given.is_final);
            let first_ms = given
                .filter(|given| given.node == *node && given.delivery == *delivery)
                .map(|given| given.at_ms)
                .min();
            let mut of_receipt = self.history.shown.iter().filter(of_it);
            let of_receipt =
                of_receipt.rfind(|shown| first_ms.is_some_and(|first_ms| shown.at_ms <= first_ms));
            let later = |shown: &&Shown| {
                first_ms.is_some_and(|first_ms| shown.at_ms > first_ms)
                    && !of_receipt.is_some_and(|before| self.may_have_crossed(before, shown))
            };
            if let Some(shown) = self.history.shown.iter().filter(of_it).find(later) {
                return Err(format!("{:?} came again at {} ms", shown.text, shown.at_ms));
            }
        }
        Ok(())
    }

    fn what_comes_again_is_marked(&self) -> Verdict {
        let mut before: BTreeMap<(usize, &str), &Shown> = BTreeMap::new();
        for shown in &self.history.shown {
            let first = before.insert((shown.node, &shown.delivery), shown);
            if let Some(first) = first
                && !shown.redelivered
                && !self.has_twin(shown.node)
                && !self.may_have_crossed(first, shown)
                && !self.is_first_push_late(shown)
            {
                let Shown { text, at_ms, .. } = shown;
                let first_ms = first.at_ms;
                return Err(format!(
                    "{text:?} came at {first_ms} ms, and unmarked at {at_ms} ms"
                ));
            }
        }
        Ok(())
    }

    /// Of those that come for the first time: what comes again comes when it can.
    fn no_message_overtakes_another(&self) -> Verdict {
        let mut latest: BTreeMap<(usize, u64, &str), usize> = BTreeMap::new();
        let first = |shown: &&Shown| !shown.redelivered && !self.is_first_push_late(shown);
        for shown in self.history.shown.iter().filter(first) {
            let mut words = shown.text.split(' ');
            let poster = words.next().unwrap_or_default();
            let number: usize = words.next().and_then(|number| number.parse().ok()).unwrap_or(0);
            let is_known = |post: &&Post| post.text == shown.text && post.outcome == Posted::Accepted;
            // What nobody knows may be accepted long after it was sent, and what went to a channel went another way.
            let post = self.history.posts.iter().find(is_known);
            // What was held comes when the person lets it pass.
            let name = (shown.text.clone(), node_name(shown.node));
            if post.is_none_or(|post| post.to.is_none()) || self.history.held.contains(&name) {
                continue;
            }
            let before = latest.insert((shown.node, shown.process, poster), number);
            if let Some(before) = before
                && before > number
            {
                return Err(format!(
                    "{:?} came behind number {before} of its sender",
                    shown.text
                ));
            }
        }
        Ok(())
    }

    fn a_node_gets_what_was_sent_to_it(&self) -> Verdict {
        for shown in &self.history.shown {
            let is_it = |post: &&Post| post.text == shown.text && post.to.is_none_or(|to| to == shown.node);
            if !self.history.posts.iter().any(|post| is_it(&post)) && !self.is_under_way(shown) {
                return Err(format!("node {} got {:?}", shown.node, shown.text));
            }
        }
        Ok(())
    }

    fn an_observer_is_told_of_each_event(&self) -> Verdict {
        let lives = &self.history.told;
        for (number, life) in lives.iter().enumerate() {
            let is_last = number + 1 == lives.len();
            let next = lives.get(number + 1).map_or(u64::MAX, |next| next.base);
            let in_it = |observed: &&Observed| (life.base..next).contains(&observed.seq);
            let all: Vec<&Observed> = self.history.observed.iter().filter(in_it).collect();
            // Nothing is kept before somebody looks on, so that it is not known how many of the first ones nobody is told of: as many as may be.
            let agrees = |before: &usize| {
                all.iter().all(|observed| {
                    let place = usize::try_from(observed.seq - life.base).unwrap_or(usize::MAX);
                    life.events.get(before.saturating_add(place)) == Some(&observed.what)
                })
            };
            let Some(before) = (0..=life.events.len()).rev().find(agrees) else {
                return Err(format!("in life {number} it was told of something else: {all:?}"));
            };
            let end = life.base + life.settled.saturating_sub(before) as u64;
            for observer in 0..self.plan.observers.len() {
                let own = all.iter().filter(|observed| observed.observer == observer);
                let own: Vec<u64> = own.map(|observed| observed.seq).collect();
                if let Some(pair) = own.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
                    return Err(format!(
                        "observer {observer} was told of {pair:?}, one behind the other"
                    ));
                }
                let had_before = self
                    .history
                    .observed
                    .iter()
                    .any(|observed| observed.observer == observer && observed.seq < life.base);
                if had_before && own.first().is_some_and(|first| *first != life.base) {
                    return Err(format!(
                        "observer {observer} began life {number} with {:?}",
                        own.first()
                    ));
                }
                let has_looked_on = !own.is_empty() || had_before;
                let has_all = own.last().is_some_and(|last| last + 1 >= end);
                if is_last && !all.is_empty() && has_looked_on && !has_all {
                    let last = own.last();
                    return Err(format!(
                        "observer {observer} was told of {last:?} at the last, not of {}",
                        end - 1
                    ));
                }
            }
        }
        Ok(())
    }

    /// A node that names its agents later may have had one before that, as far as it has not been told.
    fn frames_go_on_where_a_node_was_told(&self) -> Verdict {
        let mut latest: BTreeMap<(u64, usize), u64> = BTreeMap::new();
        for numbered in &self.history.numbered {
            let key = (numbered.connection, numbered.agent);
            let Numbered {
                names_first, at_ms, ..
            } = *numbered;
            let number = match numbered.step {
                Step::Named(number) => number,
                Step::Frame(number) => {
                    let before = latest.get(&key).copied();
                    let is_wrong = match before {
                        Some(before) if names_first => number != before + 1,
                        Some(before) => number <= before,
                        None => names_first,
                    };
                    if is_wrong {
                        return Err(format!(
                            "number {number} of agent {} came behind {before:?} at {at_ms} ms",
                            numbered.agent
                        ));
                    }
                    number
                }
            };
            latest.insert(key, number);
        }
        Ok(())
    }

    fn what_is_deferred_is_in_no_list(&self) -> Verdict {
        // A relay that is told to stop ends all deferrals, so that they count as unread, and answers for a moment more.
        let stops = |from_ms: u64, to_ms: u64| {
            let mut stops = self
                .plan
                .faults
                .iter()
                .filter(|fault| fault.kind == FaultKind::Stop);
            stops.any(|stop| (from_ms..=to_ms).contains(&stop.at_ms))
        };
        for deferral in &self.history.deferrals {
            let too_soon = |listed: &&Listed| {
                listed.delivery == deferral.delivery
                    && listed.asked_ms > deferral.from_ms
                    && listed.at_ms < deferral.until_ms
                    && !stops(deferral.from_ms, listed.at_ms)
            };
            if let Some(listed) = self.history.listed.iter().find(too_soon) {
                return Err(format!("{deferral:?}, but {listed:?}"));
            }
        }
        Ok(())
    }

    /// Tells whether a post was cut off with its poster's machine: then the history does not have it.
    fn is_under_way(&self, shown: &Shown) -> bool {
        let numbers: Vec<usize> = shown
            .text
            .split(' ')
            .take(2)
            .filter_map(|word| word.parse().ok())
            .collect();
        let [poster, number] = numbers[..] else {
            return false;
        };
        let post = self
            .plan
            .posters
            .get(poster)
            .and_then(|poster| poster.posts.get(number));
        post.is_some_and(|post| {
            super::plan::text(poster, number, post) == shown.text && post.to.is_none_or(|to| to == shown.node)
        })
    }
}

//! How a call is answered: once, in time, and with a refusal only where one is due.

use super::asks::wait_ms;
use super::takeover::FENCED;
use super::team::{Span, is_name};
use super::turns::{belongs_somewhere, is_about_turns};
use super::{Case, SKEW_MS, Verdict, before, broken, describe, is_unknown};
use crate::history::{Asked, Filter, Outcome, Record};
use crate::plan::projects::{parted, project_of, whole};
use crate::plan::{Action, Fault, FaultKind, Illegal, Step, Transport};

impl Case<'_> {
    pub(super) fn each_call_is_answered_once(&self) -> Verdict {
        match self.history.stray_answers.first() {
            None => Ok(()),
            Some(stray) => broken(format!("nobody waits for {stray}")),
        }
    }

    pub(super) fn no_reply_is_longer_than_its_client_shows(&self) -> Verdict {
        let bytes_max = self.plan.params.reply_max.bytes();
        for record in self
            .history
            .calls
            .iter()
            .filter(|record| record.agent < self.plan.agents.len())
        {
            if bytes_max.is_some_and(|max| record.reply_bytes > max as usize) {
                let bytes = record.reply_bytes;
                return broken(format!("{} was answered with {bytes} bytes", describe(record)));
            }
        }
        Ok(())
    }

    pub(super) fn waits_and_calls_are_in_time(&self) -> Verdict {
        for record in &self.history.calls {
            let (empty, wait_ms) = match (&record.asked, &record.outcome) {
                // News of a start is not waited with.
                (Asked::Read { wait_ms, .. }, Outcome::Messages { seen, notice, is_cut }) => {
                    (seen.is_empty() && notice.is_none() && !is_cut, *wait_ms)
                }
                // Whoever is taken over is told so in the middle of its wait.
                (Asked::Read { wait_ms, .. }, Outcome::Refused(text)) if text.contains(FENCED) => {
                    (false, *wait_ms)
                }
                // What drains the inboxes has a law of its own. An answer to a call that overtook the news of its stream's end went into the old stream.
                (_, Outcome::Unknown("no answer in time"))
                    if record.agent < self.plan.agents.len() && self.is_calm(record) =>
                {
                    return broken(format!(
                        "{} has no answer, and nothing went wrong",
                        describe(record)
                    ));
                }
                _ => (false, 0),
            };
            let took_ms = record.ended_ms - record.sent_ms;
            // relay counts whole milliseconds, by a clock of its own.
            if empty
                && took_ms + SKEW_MS + 1 < wait_ms
                && !self.is_superseded(record)
                && !self.is_stopped(record)
            {
                return broken(format!(
                    "{} waited {took_ms} of {wait_ms} ms, for nothing",
                    describe(record)
                ));
            }
            let slack_ms = 12 * self.plan.params.latency_ms_max + 700 + self.bridge_ms(record);
            let answered = !is_unknown(record) && record.incarnation.is_some();
            let wait_ms = wait_ms.max(self.wait_up_to_ms(record)).max(self.asks_ms(record));
            if answered && self.is_calm(record) && took_ms > wait_ms + slack_ms {
                return broken(format!(
                    "{} took {took_ms} ms, with {wait_ms} to wait",
                    describe(record)
                ));
            }
        }
        Ok(())
    }

    /// Returns how long the requests may wait that were sent together over one connection, up to this one: each is carried
    /// out when the one before is answered.
    pub(super) fn wait_up_to_ms(&self, record: &Record) -> u64 {
        if !matches!(
            self.transport(record.agent),
            Transport::Http | Transport::HttpOnce
        ) {
            return 0;
        }
        let together = |other: &&Record| {
            other.agent == record.agent
                && other.incarnation == record.incarnation
                && other.sent_ms == record.sent_ms
                && other.ended_ms <= record.ended_ms
        };
        let others = self.history.calls.iter().filter(together);
        others.map(wait_ms).sum()
    }

    /// Returns how long a call may wait for the answer to what it posts, in milliseconds.
    fn asks_ms(&self, record: &Record) -> u64 {
        let read = self.answer_to(record).map(|read| &read.asked);
        match read {
            Some(Asked::Read { wait_ms, .. }) => *wait_ms,
            _ => 0,
        }
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

    /// Tells whether the server was asked to end meanwhile, which answers all waits.
    fn is_stopped(&self, record: &Record) -> bool {
        let meanwhile = |at_ms: u64| !before(at_ms, record.sent_ms) && !before(record.ended_ms, at_ms);
        self.history.stops.iter().any(|stop| meanwhile(stop.asked_ms))
    }

    /// Tells whether the server was ending meanwhile, which takes no messages any more.
    fn is_stopping(&self, record: &Record) -> bool {
        self.history.stops.iter().any(|stop| {
            let over = stop.ended_ms.is_some_and(|at_ms| before(at_ms, record.sent_ms));
            !over && !before(record.ended_ms, stop.asked_ms)
        })
    }

    /// Tells whether nothing had gone wrong before a call ended that could hold it up. What a fault does to connections
    /// lasts longer than the fault.
    pub(super) fn is_calm(&self, record: &Record) -> bool {
        let server = |fault: &Fault| matches!(fault.kind, FaultKind::Crash | FaultKind::Stop);
        let faults = &mut self.plan.faults.iter();
        !faults.any(|fault| server(fault) && fault.at_ms <= record.ended_ms) && self.is_connected(record)
    }

    /// Tells whether nothing had gone wrong with the network and the machine of a call's agent, and it reads what comes.
    pub(super) fn is_connected(&self, record: &Record) -> bool {
        let Some(agent) = self.plan.agents.get(record.agent) else {
            return self.plan.faults.is_empty();
        };
        let cut = |fault: &Fault| match fault.kind {
            FaultKind::Hold { on }
            | FaultKind::Partition { on }
            | FaultKind::LoseRequests { on }
            | FaultKind::LoseReplies { on }
            | FaultKind::BoxCrash { on } => on == agent.on && fault.at_ms <= record.ended_ms,
            FaultKind::Crash | FaultKind::Stop => false,
        };
        // A reconnection, too, makes the next call wait for its stream.
        let stalls = |step: &Step| matches!(step.action, Action::Stall(..) | Action::Reconnect);
        !self.plan.faults.iter().any(cut) && !agent.steps.iter().any(stalls)
    }

    pub(super) fn the_illegal_is_refused_and_the_legal_is_not(&self) -> Verdict {
        for record in &self.history.calls {
            let bounds = &self.plan.params;
            let reason = match (&record.asked, &record.outcome) {
                (_, Outcome::Unknown(_)) | (Asked::Greeting(_) | Asked::Tools, _) => continue,
                (_, Outcome::Refused(text))
                    if text.contains(FENCED) && self.may_be_fenced(record.agent, record.ended_ms) =>
                {
                    continue;
                }
                (Asked::Illegal(illegal), outcome) => match outcome {
                    Outcome::Refused(text) if text.contains(must_say(*illegal, record.bound)) => continue,
                    Outcome::Posted(_)
                    | Outcome::Messages { .. }
                    | Outcome::Pending(_)
                    | Outcome::Grouped
                    | Outcome::Greeted { .. }
                    | Outcome::Tools(_)
                    | Outcome::Refused(_)
                    | Outcome::Unknown(_) => format!("{illegal:?} ended with {outcome:?}"),
                },
                (Asked::Post { body, .. }, Outcome::Refused(text)) => {
                    let full = text.contains("is full") && bounds.inbox_messages_max < 10_000;
                    let long = text.contains("body has") && body.len() > bounds.body_bytes_max;
                    let late = text.contains("relay is stopping") && self.is_stopping(record);
                    // An agent registers when its session begins, and nobody is meant while nobody has.
                    let unknown = ["unknown agent", "Agent not found", "nobody but you is meant"]
                        .iter()
                        .any(|words| text.contains(words));
                    let unknown = unknown && self.may_be_nobody(record);
                    let waits = text.contains("as many reads wait already") && bounds.waits_max < 4_096;
                    // Another law's.
                    let turns = belongs_somewhere(record) && is_about_turns(text);
                    if full || long || late || unknown || waits || turns {
                        continue;
                    }
                    text.clone()
                }
                (Asked::Read { wait_ms: 1.., .. }, Outcome::Refused(text))
                    if text.contains("as many reads wait already") =>
                {
                    continue;
                }
                (Asked::Read { limit: Some(_), .. }, Outcome::Refused(text))
                    if text.contains("is waiting already") && self.may_wait_already(record) =>
                {
                    continue;
                }
                (Asked::Read { of, .. }, Outcome::Refused(text))
                    if text.contains(&format!("unknown role {of:?}")) && self.may_be_away(of, record) =>
                {
                    continue;
                }
                (Asked::Read { filter, .. }, Outcome::Refused(text))
                    if self.is_unknown_to(filter, record, text) =>
                {
                    continue;
                }
                (Asked::Read { .. }, Outcome::Refused(text)) if self.may_be_forgotten(record, text) => {
                    continue;
                }
                (Asked::Group(_), Outcome::Refused(text)) if is_about_groups(text) => continue,
                (Asked::Read { .. } | Asked::Pending { .. } | Asked::Group(_), Outcome::Refused(text)) => {
                    text.clone()
                }
                (
                    _,
                    Outcome::Posted(_)
                    | Outcome::Messages { .. }
                    | Outcome::Pending(_)
                    | Outcome::Grouped
                    | Outcome::Greeted { .. }
                    | Outcome::Tools(_),
                ) => continue,
            };
            return broken(format!("{}: {reason}", describe(record)));
        }
        Ok(())
    }

    /// Tells whether a read was refused for a sender, or a channel, that may not have been there.
    fn is_unknown_to(&self, filter: &Filter, read: &Record, text: &str) -> bool {
        let Asked::Read { of, .. } = &read.asked else {
            return false;
        };
        let whole = |written: &str| whole(project_of(of), written);
        match (&filter.from, &filter.channel) {
            (Some(from), _) => {
                text.contains(&format!("Agent not found: {from};")) && self.may_be_away(&whole(from), read)
            }
            (None, Some(channel)) => {
                let channel = whole(channel);
                let used = || !self.users_of_channel(&channel, Span::of(read)).certain.is_empty();
                text.contains(&format!("Channel not found: {};", parted(&channel).1)) && !used()
            }
            (None, None) => false,
        }
    }

    /// Tells whether nobody may have been there whom a post means.
    fn may_be_nobody(&self, post: &Record) -> bool {
        let Asked::Post { body, .. } = &post.asked else {
            return false;
        };
        let to = self.address(post);
        if to.split(", ").all(is_name) {
            return to.split(", ").any(|name| self.may_be_away(name, post));
        }
        self.meant[body.as_str()].certain.is_empty()
    }

    /// Tells whether an agent may not have registered before a call; the roster's need not.
    fn may_be_away(&self, name: &str, call: &Record) -> bool {
        self.roster().all(|role| role != name) && !self.is_there(name, call)
    }

    /// Tells whether another wait of the same agent's may still have been there.
    fn may_wait_already(&self, read: &Record) -> bool {
        self.history.calls.iter().any(|other| {
            let waits = matches!(other.asked, Asked::Read { wait_ms: 1.., .. });
            waits && other.agent == read.agent && other.sent_ms <= read.ended_ms && !std::ptr::eq(other, read)
        })
    }

    pub(super) fn bounds_are_kept_and_not_imagined(&self) -> Verdict {
        let params = &self.plan.params;
        if params.inbox_messages_max >= 10_000 {
            return Ok(());
        }
        for post in self.posts.values() {
            let Asked::Post { body, .. } = &post.asked else {
                unreachable!("posts are posts");
            };
            let others = |to: &str| {
                let to_same = |(other, _): &(&&str, &&Record)| self.meant[**other].possible.contains(to);
                let to_same: Vec<&Record> = self
                    .posts
                    .iter()
                    .filter(to_same)
                    .map(|(_, other)| *other)
                    .filter(|other| !std::ptr::eq(*other, *post))
                    .collect();
                to_same
            };
            let size = |record: &Record| match &record.asked {
                Asked::Post { body, .. } => body.len(),
                Asked::Read { .. }
                | Asked::Pending { .. }
                | Asked::Group(_)
                | Asked::Illegal(_)
                | Asked::Greeting(_)
                | Asked::Tools => 0,
            };
            match &post.outcome {
                Outcome::Refused(text) if text.contains("is full") => {
                    let to = text.split('"').nth(1).unwrap_or_default();
                    if !self.meant[body.as_str()].possible.contains(to) {
                        return broken(format!(
                            "{} is refused, for an inbox that is not meant",
                            describe(post)
                        ));
                    }
                    let sent_before: Vec<_> = others(to)
                        .into_iter()
                        .filter(|other| !before(post.ended_ms, other.sent_ms))
                        .collect();
                    let bytes: usize = sent_before.iter().map(|other| size(other)).sum();
                    if sent_before.len() < params.inbox_messages_max
                        && bytes + body.len() <= params.inbox_bytes_max
                    {
                        return broken(format!("{} is refused, but the inbox had room", describe(post)));
                    }
                }
                Outcome::Posted(_) if self.boots(0, post.ended_ms).count() == 1 => {
                    for to in &self.meant[body.as_str()].certain {
                        let nobody_reads = self
                            .reads
                            .get(to.as_str())
                            .is_none_or(|reads| reads.iter().all(|read| before(post.ended_ms, read.sent_ms)));
                        let waiting = others(to).into_iter().filter(|o| {
                            matches!(o.outcome, Outcome::Posted(_))
                                && before(o.ended_ms, post.sent_ms)
                                && matches!(&o.asked, Asked::Post { body, .. } if self.meant[body.as_str()].certain.contains(to))
                        });
                        if nobody_reads && waiting.count() >= params.inbox_messages_max {
                            return broken(format!("{} is accepted by a full inbox", describe(post)));
                        }
                    }
                }
                Outcome::Posted(_)
                | Outcome::Messages { .. }
                | Outcome::Pending(_)
                | Outcome::Grouped
                | Outcome::Greeted { .. }
                | Outcome::Tools(_)
                | Outcome::Refused(_)
                | Outcome::Unknown(_) => {}
            }
        }
        Ok(())
    }
}

/// Tells whether a change of a group was refused for what the group is, which depends on what others do with it.
fn is_about_groups(text: &str) -> bool {
    let reasons = [
        "there is a group",
        "unknown group",
        "is not a member",
        "unknown agent",
    ];
    reasons.iter().any(|reason| text.contains(reason))
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

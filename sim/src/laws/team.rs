//! Who is meant by an address, as far as the clients can know; and that all of them get a copy, and nobody else.

use std::collections::BTreeSet;

use super::{Case, Verdict, before, broken, describe, is_unknown, overlaps};
use crate::history::{Asked, BootRecord, Outcome, Record, serial};
use crate::plan::projects::{parted, project, whole};
use crate::plan::team::{CHANNEL, GENERAL, GROUP, GroupChange, Mate, Member, crew, mate};
use crate::team::user_of_channel;

/// Later than any run, with room for what is added to it.
pub(super) const NEVER_MS: u64 = u64::MAX / 2;

/// Who gets a copy of a message, if it is accepted.
#[derive(Debug, Default)]
pub(super) struct Meant {
    /// Each of them does.
    pub certain: BTreeSet<String>,
    /// Nobody else does.
    pub possible: BTreeSet<String>,
}

/// When a message may have been accepted, or a member been there.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub from_ms: u64,
    pub until_ms: u64,
}

impl Span {
    /// What nobody knows the end of may be carried out at any time.
    pub fn of(record: &Record) -> Self {
        Self {
            from_ms: record.sent_ms,
            until_ms: if is_unknown(record) {
                NEVER_MS
            } else {
                record.ended_ms
            },
        }
    }
}

impl Case<'_> {
    /// Finds out who is meant by a post.
    pub(super) fn find_meant(&self, post: &Record) -> Meant {
        let Asked::Post { from, body, .. } = &post.asked else {
            unreachable!("posts are posts");
        };
        let to = self.addresses[body.as_str()].as_str();
        let (project, target) = parted(to);
        let span = Span::of(post);
        if to.contains(BETWEEN) {
            let named = || to.split(BETWEEN).map(str::to_owned).filter(|name| name != from);
            return Meant {
                certain: named().collect(),
                possible: named().collect(),
            };
        }
        let registered = self.mates_there(span);
        let mut meant = if ["@everyone", GENERAL, "*"].contains(&target) {
            Meant {
                certain: self.of_project(project, self.roster().chain(registered)),
                possible: self.of_project(project, self.plan.inboxes()),
            }
        } else if target.strip_prefix('@') == Some(GROUP) {
            Meant {
                certain: self.members(project, span, &registered),
                possible: self.possible_members(project, span),
            }
        } else if target == CHANNEL {
            self.users_of_channel(to, span)
        } else if let Some(crew) = target.strip_prefix('@') {
            let mates = self.crew(project, crew);
            Meant {
                certain: mates.intersection(&registered).cloned().collect(),
                possible: mates,
            }
        } else {
            let one = || BTreeSet::from([to.to_owned()]);
            return Meant {
                certain: one(),
                possible: one(),
            };
        };
        meant.certain.remove(from);
        meant.possible.remove(from);
        meant
    }

    /// Returns the one life of the server in which all of a span is; none if it is more.
    fn life(&self, span: Span) -> Option<&BootRecord> {
        let mut boots = self.boots(span.from_ms, span.until_ms);
        let boot = boots.next()?;
        boots.next().is_none().then_some(boot)
    }

    /// Tells whether something was carried out before a span, and in the same life of the server.
    pub(super) fn is_done_before(&self, record: &Record, span: Span) -> bool {
        let from_ms = record.sent_ms;
        before(record.ended_ms, span.from_ms) && self.life(Span { from_ms, ..span }).is_some()
    }

    /// Tells whether something may have been carried out in a life of the server that a span touches, before the span was over.
    pub(super) fn may_be_done_before(&self, record: &Record, span: Span) -> bool {
        let done = Span::of(record);
        let same_life = |boot: &BootRecord| overlaps(boot, done.from_ms, done.until_ms.min(span.until_ms));
        !before(span.until_ms, record.sent_ms)
            && self.boots(span.from_ms, span.until_ms).any(same_life)
            && !matches!(record.outcome, Outcome::Refused(_))
    }

    /// Returns who had certainly registered by then.
    fn mates_there(&self, span: Span) -> BTreeSet<String> {
        let there = self.history.calls.iter().filter_map(|record| {
            let mate = self.mate(record.agent)?;
            (is_the_engines(record) && self.is_done_before(record, span)).then(|| mate.name())
        });
        there.collect()
    }

    /// Tells whether an agent had certainly registered before a call.
    pub(super) fn is_there(&self, name: &str, call: &Record) -> bool {
        self.mates_there(Span::of(call)).contains(name)
    }

    pub(super) fn mate(&self, agent: usize) -> Option<Mate> {
        self.plan.agents.get(agent)?.mate
    }

    fn crew(&self, project: &str, name: &str) -> BTreeSet<String> {
        let mates = self.plan.agents.iter().filter_map(|agent| agent.mate);
        let of_crew = mates.filter(|mate| crew(mate.crew) == name);
        self.of_project(project, of_crew.map(Mate::name))
    }

    /// Finds all changes of a project's group, with who became a member by them or was one no more.
    fn changes(&self, group_of: &str) -> impl Iterator<Item = (&Record, Member, bool)> {
        self.history.calls.iter().filter_map(move |record| {
            let (member, is_added) = match record.asked {
                Asked::Group(GroupChange::Add(member)) => (member, true),
                Asked::Group(GroupChange::Remove(member)) => (member, false),
                Asked::Group(GroupChange::Create)
                | Asked::Post { .. }
                | Asked::Read { .. }
                | Asked::Pending { .. }
                | Asked::Illegal(_)
                | Asked::Greeting(_)
                | Asked::Tools => return None,
            };
            let own = self.mate(record.agent)?.project;
            (project(own) == group_of).then(|| (record, member.of_project(own), is_added))
        })
    }

    fn members(&self, project: &str, span: Span, registered: &BTreeSet<String>) -> BTreeSet<String> {
        let mut certain = BTreeSet::new();
        for (added, member, _) in self.changes(project).filter(|(_, _, is_added)| *is_added) {
            let was_removed = self.changes(project).any(|(removed, other, is_added)| {
                !is_added
                    && other == member
                    && !matches!(removed.outcome, Outcome::Refused(_))
                    && !before(span.until_ms, removed.sent_ms)
                    && !before(Span::of(removed).until_ms, added.sent_ms)
            });
            if added.outcome == Outcome::Grouped && !was_removed && self.is_done_before(added, span) {
                certain.extend(self.named(project, member));
            }
        }
        certain.intersection(registered).cloned().collect()
    }

    fn possible_members(&self, project: &str, span: Span) -> BTreeSet<String> {
        let mut possible = BTreeSet::new();
        for (added, member, _) in self.changes(project).filter(|(_, _, is_added)| *is_added) {
            let was_removed = self.changes(project).any(|(removed, other, is_added)| {
                !is_added
                    && other == member
                    && removed.outcome == Outcome::Grouped
                    && before(Span::of(added).until_ms, removed.sent_ms)
                    && before(removed.ended_ms, span.from_ms)
            });
            if !was_removed && self.may_be_done_before(added, span) {
                possible.extend(self.named(project, member));
            }
        }
        possible
    }

    fn named(&self, group_of: &str, member: Member) -> BTreeSet<String> {
        match member {
            Member::Mate { project: of, number } => {
                let of = of.map(project).unwrap_or(group_of);
                BTreeSet::from([whole(of, &mate(number))])
            }
            Member::Crew(number) => self.crew(group_of, &crew(number)),
        }
    }

    /// Whoever writes into a channel, or reads it by its name, is in it from then on.
    pub(super) fn users_of_channel(&self, channel: &str, span: Span) -> Meant {
        let mut meant = Meant::default();
        for record in &self.history.calls {
            let Some((_, from)) = user_of_channel(record).filter(|(used, _)| used == channel) else {
                continue;
            };
            if is_the_engines(record) && self.is_done_before(record, span) {
                meant.certain.insert(from.to_owned());
            }
            if self.may_be_done_before(record, span) {
                meant.possible.insert(from.to_owned());
            }
        }
        meant
    }

    /// A message that was accepted, or that somebody was shown, was shown to everybody who was meant.
    pub(super) fn a_message_goes_to_all_or_to_none(&self) -> Verdict {
        for (body, post) in &self.posts {
            let (meant, to) = (&self.meant[body], self.address(post));
            let is_shown = |name: &String| self.showings.contains_key(&(*body, name.as_str()));
            let is_accepted =
                matches!(post.outcome, Outcome::Posted(_)) || meant.possible.iter().any(is_shown);
            let span = Span::of(post);
            let killed = |boot: &BootRecord| boot.until_ms.is_some();
            if is_name(to) || !is_accepted || self.boots(span.from_ms, span.until_ms).any(killed) {
                continue;
            }
            // Another law has the others.
            let is_its_own = |name: &String| is_for_members(parted(to).1) || !self.crosses(post, name);
            let left_out = meant
                .certain
                .iter()
                .find(|name| is_its_own(name) && !is_shown(name) && self.excuse_of_inbox(name).is_none());
            if let Some(name) = left_out {
                let (what, post) = (serial(body), describe(post));
                return broken(format!("{what} for {to}, of {post}, was never read by {name}"));
            }
        }
        Ok(())
    }

    /// Whoever is shown a message was meant by its address when it was accepted.
    pub(super) fn only_who_is_meant_gets_a_copy(&self) -> Verdict {
        for (body, name) in self.showings.keys() {
            let (Some(meant), Some(post)) = (self.meant.get(body), self.posts.get(body)) else {
                continue;
            };
            let to = self.address(post);
            if !is_name(to) && !self.crosses(post, name) && !meant.possible.contains(*name) {
                let (what, post) = (serial(body), describe(post));
                return broken(format!(
                    "{what} for {to}, of {post}, was read by {name}; meant were {:?}",
                    meant.possible
                ));
            }
        }
        Ok(())
    }
}

/// What stands between the names of several.
const BETWEEN: &str = ", ";

/// Tells whether a whole address names one agent.
pub(super) fn is_name(to: &str) -> bool {
    !to.contains(BETWEEN) && !parted(to).1.starts_with(['@', '#', '*'])
}

/// Tells whether an address, without its project, means those whom somebody has made members, or who have.
pub(super) fn is_for_members(target: &str) -> bool {
    target == CHANNEL || target.strip_prefix('@') == Some(GROUP)
}

/// Tells whether the engine answered, in whose eyes the caller had registered by then.
pub(super) fn is_the_engines(record: &Record) -> bool {
    matches!(
        record.outcome,
        Outcome::Posted(_) | Outcome::Messages { .. } | Outcome::Grouped
    )
}

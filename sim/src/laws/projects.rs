//! What crosses from one project to another: what is sent there, and what somebody reads there.
//!
//! What is sent within a project, and read within it, is for the laws of `messages` and `team` alone, which know one project as they
//! know several.

use std::collections::BTreeSet;

use super::team::{Span, is_for_members, is_name};
use super::{Case, Verdict, broken, describe};
use crate::agent::role;
use crate::history::{Asked, BootRecord, Outcome, Record, serial};
use crate::plan::projects::{parted, project_of, whole};

impl Case<'_> {
    /// Returns the whole address of a post: what its sender has written means its own project, but where it names one.
    pub(super) fn address(&self, post: &Record) -> &str {
        let Asked::Post { body, .. } = &post.asked else {
            unreachable!("posts are posts");
        };
        &self.addresses[body.as_str()]
    }

    /// A message that goes to another project reaches all there who are meant, and nobody who is not; and one that goes to none
    /// reaches none.
    pub(super) fn a_message_reaches_the_project_it_is_for_alone(&self) -> Verdict {
        for (body, name) in self.showings.keys() {
            let (Some(meant), Some(post)) = (self.meant.get(body), self.posts.get(body)) else {
                continue;
            };
            if self.crosses(post, name) && !meant.possible.contains(*name) {
                let (what, to, post) = (serial(body), self.address(post), describe(post));
                return broken(format!(
                    "{what} for {to}, of {post}, was read by {name}; meant were {:?}",
                    meant.possible
                ));
            }
        }
        for (body, post) in &self.posts {
            let (meant, to) = (&self.meant[body], self.address(post));
            let is_shown = |name: &String| self.showings.contains_key(&(*body, name.as_str()));
            let is_accepted =
                matches!(post.outcome, Outcome::Posted(_)) || meant.possible.iter().any(is_shown);
            let span = Span::of(post);
            let killed = |boot: &BootRecord| boot.until_ms.is_some();
            if !is_of_all(to) || !is_accepted || self.boots(span.from_ms, span.until_ms).any(killed) {
                continue;
            }
            let left_out = meant.certain.iter().find(|name| {
                self.crosses(post, name) && !is_shown(name) && self.excuse_of_inbox(name).is_none()
            });
            if let Some(name) = left_out {
                let (what, post) = (serial(body), describe(post));
                return broken(format!("{what} for {to}, of {post}, was never read by {name}"));
            }
        }
        Ok(())
    }

    /// Tells whether somebody's copy of a post is this law's: the post was sent to another project, or is read in one. The copy
    /// that a sender of many gets is not.
    pub(super) fn crosses(&self, post: &Record, name: &str) -> bool {
        let Asked::Post { from, body, .. } = &post.asked else {
            unreachable!("posts are posts");
        };
        let own = project_of(from);
        let to = self.addresses[body.as_str()].as_str();
        (name != from || is_name(to)) && (project_of(to) != own || project_of(name) != own)
    }

    /// Returns those of some names that are of a project; all if it is `*`.
    pub(super) fn of_project(
        &self,
        project: &str,
        names: impl IntoIterator<Item = String>,
    ) -> BTreeSet<String> {
        let names = names.into_iter();
        names
            .filter(|name| project == "*" || project_of(name) == project)
            .collect()
    }

    /// Returns the roster, who are all of the first project.
    pub(super) fn roster(&self) -> impl Iterator<Item = String> {
        (0..self.plan.params.roles).map(role)
    }
}

/// Returns the whole address of a post.
pub(super) fn address(post: &Record) -> String {
    let Asked::Post { from, to, .. } = &post.asked else {
        unreachable!("posts are posts");
    };
    whole(project_of(from), to)
}

/// Tells whether an address means all who are there, by a role of theirs or by none, and nobody has to have done anything for it.
fn is_of_all(to: &str) -> bool {
    !is_name(to) && !is_for_members(parted(to).1)
}

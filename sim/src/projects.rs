//! What happened between projects, as the history of a run shows it.

use std::collections::BTreeSet;

use crate::history::{Asked, History, Outcome};
use crate::marks::Marks;
use crate::plan::Plan;
use crate::plan::projects::{parted, project_of, whole};
use crate::plan::team::{CHANNEL, GENERAL, GROUP, GroupChange, Member};

/// Counts what crossed from one project to another, and what could have and did not.
pub fn note_marks(plan: &Plan, history: &History, marks: &Marks) {
    let inboxes = plan.inboxes();
    let projects: BTreeSet<&str> = inboxes.iter().map(|name| project_of(name)).collect();
    if projects.len() == 1 {
        return;
    }
    marks.hit("several projects");
    for record in &history.calls {
        match (&record.asked, &record.outcome) {
            (Asked::Post { from, to, .. }, Outcome::Posted(_)) => {
                if let Some(mark) = mark_of_post(project_of(from), to, &inboxes) {
                    marks.hit(mark);
                }
            }
            (Asked::Post { from, to, .. }, Outcome::Refused(_)) => {
                let elsewhere = |name: &String| parted(name).1 == to;
                let is_not_own = !inboxes.contains(&whole(project_of(from), to));
                marks.hit_if(
                    is_not_own && inboxes.iter().any(elsewhere),
                    "refused: a name that another project has",
                );
            }
            (Asked::Read { of, filter, .. }, Outcome::Messages { seen, .. }) => {
                let own = project_of(of);
                let crossed = seen.iter().filter(|seen| project_of(&seen.from) != own);
                crossed.for_each(|_| marks.hit("read of another project's agent"));
                let foreign = |name: &Option<String>| {
                    name.as_ref()
                        .is_some_and(|name| project_of(&whole(own, name)) != own)
                };
                marks.hit_if(foreign(&filter.channel), "channel of another project's read");
                let answers = filter.answers.is_some();
                marks.hit_if(
                    answers && seen.iter().any(|seen| project_of(&seen.from) != own),
                    "answer awaited from another project",
                );
            }
            (Asked::Group(GroupChange::Add(Member::Mate { project, .. })), Outcome::Grouped) => {
                let own = plan.agents.get(record.agent).and_then(|agent| agent.mate);
                let foreign = project.is_some_and(|other| own.is_some_and(|own| own.project != other));
                marks.hit_if(foreign, "agent of another project put into a group");
            }
            (
                Asked::Post { .. }
                | Asked::Read { .. }
                | Asked::Pending { .. }
                | Asked::Group(_)
                | Asked::Illegal(_)
                | Asked::Greeting(_)
                | Asked::Tools,
                _,
            ) => {}
        }
    }
}

/// Names what was sent; none for what has nothing to do with projects.
fn mark_of_post(own: &str, to: &str, inboxes: &[String]) -> Option<&'static str> {
    let address = whole(own, to);
    let (project, target) = parted(&address);
    let is_own = project == own;
    match (target, target.strip_prefix('@')) {
        ("*", _) => Some("sent to all projects"),
        ("@everyone", _) if !is_own => Some("sent to all of another project"),
        ("@everyone", _) => Some("sent to all of one project of several"),
        (GENERAL, _) => Some("sent to the channel of all in a project"),
        (CHANNEL, _) => Some(if is_own {
            "sent to a channel of one project of several"
        } else {
            "sent to a channel of another project"
        }),
        (_, Some(GROUP)) => Some(if is_own {
            "sent to a group of one project of several"
        } else {
            "sent to a group of another project"
        }),
        (_, Some(_)) => (!is_own).then_some("sent to a role of another project"),
        (_, None) if !is_own => Some("sent to an agent of another project"),
        (_, None) => {
            let others = inboxes.iter().filter(|name| project_of(name) != own);
            let has_namesake = others.map(|name| parted(name).1).any(|name| name == target);
            has_namesake.then_some("sent to one of several of that name")
        }
    }
}

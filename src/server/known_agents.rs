//! Which agents have had a session, in notes that outlive the relay: only they may have lost something when it starts again.
//!
//! It must not know what they said.

use std::collections::BTreeSet;

use super::limits::KNOWN_AGENTS_MAX;
use super::orphans::Notes;
use crate::engine::{AgentName, DEFAULT_PROJECT, Event};

/// Begins the notes, also where nobody has had a session yet.
const HEAD: &str = "agents that have had a session, 1\n";

/// The agents that have had a session since the notes began, but for transient ones that have gone.
pub struct KnownAgents {
    names: BTreeSet<AgentName>,
    notes: Box<dyn Notes>,
}

/// They are noted nowhere.
impl Default for KnownAgents {
    fn default() -> Self {
        Self {
            names: BTreeSet::new(),
            notes: Box::new(String::new()),
        }
    }
}

impl KnownAgents {
    /// Takes up the notes of the run before, and returns who had a session then; none if they do not tell. Empty notes tell only
    /// where there was no run before, `is_first`.
    pub fn take_up(mut notes: Box<dyn Notes>, is_first: bool) -> (Self, Option<BTreeSet<AgentName>>) {
        let text = notes.read();
        let had_sessions = match text.as_str() {
            "" => is_first.then(BTreeSet::new),
            text => names_in(text).filter(|names| names.len() <= KNOWN_AGENTS_MAX),
        };
        let names = had_sessions.clone().unwrap_or_default();
        let lines = names.iter().map(|agent| line('+', agent));
        let kept: String = std::iter::once(HEAD.to_owned()).chain(lines).collect();
        if kept != text {
            notes.rewrite(&kept);
        }
        (Self { names, notes }, had_sessions)
    }

    /// Notes that an agent has a session. The user has none, and neither has relay itself.
    pub(super) fn has_session(&mut self, agent: &AgentName) {
        if agent.is_person() || self.names.contains(agent) || *agent == AgentName::relay() {
            return;
        }
        self.names.insert(agent.clone());
        self.notes.append(&line('+', agent));
    }

    /// Notes that an agent has gone for good.
    pub(super) fn is_gone(&mut self, agent: &AgentName) {
        if self.names.remove(agent) {
            self.notes.append(&line('-', agent));
        }
    }
}

/// Finds to which agent an event shows that a session is bound. Of one that says with each call for whom it speaks the engine tells
/// ([`crate::engine::Engine::take_newly_seen`]), and what the user does in an agent's stead shows nothing of it.
pub(super) fn to_whom_one_is_bound(event: &Event) -> Option<&AgentName> {
    let Event::Opened {
        agent, person: false, ..
    } = event
    else {
        return None;
    };
    agent.as_ref()
}

fn line(sign: char, agent: &AgentName) -> String {
    format!("{sign}{}:{}\n", agent.project(), agent.local())
}

/// Reads the names in notes; none if a line is no note, as the last one may be after a loss of power.
fn names_in(text: &str) -> Option<BTreeSet<AgentName>> {
    let mut names = BTreeSet::new();
    for line in text.strip_prefix(HEAD)?.split_inclusive('\n') {
        let line = line.strip_suffix('\n')?;
        let (project, name) = line.get(1..)?.split_once(':')?;
        let agent = match project {
            DEFAULT_PROJECT => AgentName::new(name),
            project => AgentName::in_project(project, name),
        };
        let agent = agent.ok()?;
        match line.as_bytes()[0] {
            b'+' => names.insert(agent),
            b'-' => names.remove(&agent),
            _ => return None,
        };
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Notes that the next run finds.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<String>>);

    impl Notes for Kept {
        fn read(&mut self) -> String {
            self.0.lock().expect("one thread").clone()
        }

        fn append(&mut self, text: &str) {
            self.0.lock().expect("one thread").push_str(text);
        }

        fn rewrite(&mut self, text: &str) {
            text.clone_into(&mut self.0.lock().expect("one thread"));
        }
    }

    fn names(names: &[&str]) -> BTreeSet<AgentName> {
        let name = |name: &&str| match name.split_once(':') {
            Some((project, name)) => AgentName::in_project(project, name),
            None => AgentName::new(name),
        };
        names.iter().map(|text| name(text).expect("a name")).collect()
    }

    #[test]
    fn the_next_run_knows_who_had_a_session() {
        let kept = Kept::default();
        let (mut first, before) = KnownAgents::take_up(Box::new(kept.clone()), true);
        assert_eq!(before, Some(names(&[])));
        for agent in names(&["pm", "dev-a", "web:pm", "temp"]) {
            first.has_session(&agent);
            first.has_session(&agent);
        }
        first.has_session(&AgentName::person());
        first.has_session(&AgentName::relay());
        first.is_gone(&AgentName::new("temp").expect("a name"));
        first.is_gone(&AgentName::new("dev-b").expect("a name"));
        assert_eq!(kept.clone().read().lines().count(), 6);
        drop(first);
        for _ in 0..2 {
            let (_, before) = KnownAgents::take_up(Box::new(kept.clone()), false);
            assert_eq!(before, Some(names(&["pm", "dev-a", "web:pm"])));
            assert_eq!(kept.clone().read().lines().count(), 4);
        }
    }

    #[test]
    fn a_run_in_which_nobody_had_a_session_tells_so() {
        let kept = Kept::default();
        for is_first in [true, false, false] {
            let (_, before) = KnownAgents::take_up(Box::new(kept.clone()), is_first);
            assert_eq!(before, Some(names(&[])));
        }
    }

    #[test]
    fn notes_that_do_not_tell_are_begun_anew() {
        let many: String = (0..=KNOWN_AGENTS_MAX)
            .map(|n| format!("+default:a{n}\n"))
            .collect();
        for text in [
            "",
            "+default:pm",
            "+default:pm\n+def",
            "pm\n",
            "+default:\n",
            "*web:pm\n",
            "\n",
            &many,
        ] {
            let kept = Kept::default();
            if !text.is_empty() {
                kept.clone().append(&format!("{HEAD}{text}"));
            }
            let (mut agents, before) = KnownAgents::take_up(Box::new(kept.clone()), false);
            assert_eq!(before, None, "{text:?}");
            agents.has_session(&AgentName::new("pm").expect("a name"));
            drop(agents);
            let (_, before) = KnownAgents::take_up(Box::new(kept), false);
            assert_eq!(before, Some(names(&["pm"])), "{text:?}");
        }
    }
}

//! The agents as they are shown: what each does, what waits for it, and how it can be reached. Made of what the relay says of itself.

use std::collections::BTreeMap;

use super::news::Agent;
use crate::cli::health::{Connection, Health, OnNode, Role};
use crate::engine::PERSON;
use crate::engine::handling::Mode;

/// What an agent does, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Its program waits for its person.
    Asks,
    /// Its model has a turn.
    Busy,
    /// It waits for a message.
    Waits,
    /// Its program does nothing.
    Idle,
    /// It is connected, and what it does is not known.
    There,
    /// Nobody is there for it.
    Away,
    /// It is the person.
    You,
}

impl Doing {
    /// Returns the word that stands for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asks => "asks",
            Self::Busy => "busy",
            Self::Waits => "waits",
            Self::Idle => "idle",
            Self::There => "there",
            Self::Away => "away",
            Self::You => "you",
        }
    }
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it is and which program, as far as it has said that.
    pub about: String,
    /// What it does.
    pub doing: Doing,
    /// How many messages wait for it.
    pub waiting: u64,
    /// The age of the first of them, in seconds.
    pub oldest: Option<u64>,
    /// Relay has started it as a worker, and can end it.
    pub is_worker: bool,
    /// How many the person holds of what it gets.
    pub held: u64,
    /// The person holds what it gets and sends.
    pub is_held: bool,
    /// How many were handed over and are not confirmed.
    pub in_doubt: u64,
    /// How it is brought what its senders say nothing of, if that is out of the ordinary.
    pub mode: Option<String>,
    /// How it can be reached.
    pub reached_by: String,
}

/// Makes a row for each inbox.
pub fn rows(health: &Health, said: &BTreeMap<String, Agent>) -> Vec<Row> {
    let row = |role: &Role| row(role, health, said.get(&role.role));
    health.roles.iter().map(row).collect()
}

fn row(role: &Role, health: &Health, said: Option<&Agent>) -> Row {
    let Role {
        role: name,
        unread,
        oldest_seconds,
        held,
        is_held,
        in_doubt,
        mode,
        node,
    } = role;
    let is_worker = said.is_some_and(|said| said.is_worker);
    let worker = is_worker.then_some("worker");
    let about = said.map(|said| [said.role.as_deref(), said.cli.as_deref(), worker]);
    let about = about.into_iter().flatten().flatten().collect::<Vec<_>>();
    let mode = mode.clone().filter(|mode| mode != Mode::Immediate.as_str());
    let is_person = name == PERSON;
    let active = said.is_some_and(|said| said.active);
    let (doing, reached_by) = if is_person {
        (Doing::You, vec!["relay read".to_owned()])
    } else {
        let ways = ways(name, health, node.as_ref(), active);
        (doing(name, health, node.as_ref(), active), ways)
    };
    Row {
        name: name.clone(),
        about: about.join(", "),
        doing,
        waiting: *unread,
        oldest: *oldest_seconds,
        is_worker,
        held: *held,
        is_held: *is_held,
        in_doubt: *in_doubt,
        mode,
        reached_by: if reached_by.is_empty() {
            "nobody".to_owned()
        } else {
            reached_by.join(", ")
        },
    }
}

fn is_own(connection: &Connection, name: &str) -> bool {
    !connection.person && connection.role.as_deref() == Some(name)
}

fn is_waited(connection: &Connection, name: &str) -> bool {
    !connection.person && connection.waits.iter().any(|wait| wait.role == name)
}

fn doing(name: &str, health: &Health, node: Option<&OnNode>, active: bool) -> Doing {
    let own = || health.connections.iter().filter(|one| is_own(one, name));
    let programs: Vec<&str> = own()
        .filter_map(|one| one.program.as_ref())
        .map(|program| program.activity.as_str())
        .collect();
    if programs.contains(&"asks") {
        return Doing::Asks;
    }
    if programs.contains(&"busy") {
        return Doing::Busy;
    }
    if health.connections.iter().any(|one| is_waited(one, name)) {
        return Doing::Waits;
    }
    if !programs.is_empty() {
        return Doing::Idle;
    }
    let is_on_node = node.is_some_and(|node| node.live != Some(false) && !node.failing);
    if is_on_node || active || own().next().is_some() {
        Doing::There
    } else {
        Doing::Away
    }
}

fn ways(name: &str, health: &Health, node: Option<&OnNode>, active: bool) -> Vec<String> {
    let mut ways: Vec<String> = Vec::new();
    let mut add = |way: String| {
        if !ways.contains(&way) {
            ways.push(way);
        }
    };
    if let Some(OnNode { live, failing, .. }) = node {
        add(match (live, failing) {
            (None, true) => "push fails".to_owned(),
            (None, false) => "push".to_owned(),
            (Some(true), _) => "node".to_owned(),
            (Some(false), _) => "node is gone".to_owned(),
        });
    }
    let programs = health.connections.iter().filter(|one| is_own(one, name));
    for program in programs.filter_map(|one| one.program.as_ref()) {
        add(if program.can_be_woken { "wake" } else { "hook" }.to_owned());
    }
    for connection in &health.connections {
        let is_its_own = is_own(connection, name) && connection.program.is_none();
        if is_its_own || is_waited(connection, name) {
            add(connection.transport.clone());
        }
    }
    if ways.is_empty() && active {
        // A session that is bound to nobody speaks for it; which one, the relay does not say.
        let unbound = health
            .connections
            .iter()
            .filter(|one| !one.person && one.role.is_none());
        for connection in unbound {
            let way = format!("unbound {}", connection.transport);
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(roles: &str, connections: &str) -> Health {
        let json = format!(
            r#"{{"name": "relay", "version": "0.1.0", "started_at": "some day", "roles": [{roles}], "connections": [{connections}]}}"#
        );
        serde_json::from_str(&json).expect("what a relay says")
    }

    fn program(role: &str, activity: &str, wakes: bool) -> String {
        format!(
            r#"{{"session": 1, "role": "{role}", "transport": "hooks", "waits": [], "program": {{"activity": "{activity}", "can_be_woken": {wakes}}}}}"#
        )
    }

    fn session(role: &str, transport: &str, waits: &str) -> String {
        let role = if role.is_empty() {
            "null".to_owned()
        } else {
            format!("{role:?}")
        };
        let waits = if waits.is_empty() {
            String::new()
        } else {
            format!(r#"{{"for": "{waits}", "seconds_left": 9}}"#)
        };
        format!(r#"{{"session": 2, "role": {role}, "transport": "{transport}", "waits": [{waits}]}}"#)
    }

    /// Returns what `pm` does and how it is reached, beside some connections.
    fn shown(node: &str, connections: &[String], active: bool) -> (Doing, String) {
        let role = format!(r#"{{"role": "pm", "unread": 0, "oldest_seconds": null, "in_doubt": 0{node}}}"#);
        let said = Agent {
            active,
            ..Agent::default()
        };
        let said = BTreeMap::from([("pm".to_owned(), said)]);
        let mut rows = rows(&health(&role, &connections.join(", ")), &said);
        let row = rows.pop().expect("a row");
        (row.doing, row.reached_by)
    }

    #[test]
    fn an_agent_is_shown_as_its_programs_and_sessions_show_it() {
        let is = |connections: &[String], doing: Doing, ways: &str| {
            assert_eq!(
                shown("", connections, false),
                (doing, ways.to_owned()),
                "{connections:?}"
            );
        };
        is(&[], Doing::Away, "nobody");
        is(&[session("dev-a", "sse", "dev-a")], Doing::Away, "nobody");
        is(&[session("pm", "sse", "")], Doing::There, "sse");
        is(&[session("", "http", "pm")], Doing::Waits, "http");
        is(&[program("pm", "idle", true)], Doing::Idle, "wake");
        is(
            &[program("pm", "busy", false), session("pm", "http", "")],
            Doing::Busy,
            "hook, http",
        );
        is(
            &[program("pm", "busy", false), program("pm", "asks", true)],
            Doing::Asks,
            "hook, wake",
        );
        is(
            &[program("pm", "idle", false), session("pm", "sse", "pm")],
            Doing::Waits,
            "hook, sse",
        );
    }

    #[test]
    fn one_on_a_node_is_reached_by_it_and_one_without_a_session_by_those_of_nobody() {
        let node = |live: &str, failing: bool| {
            format!(r#", "node": {{"kind": "fleet", "live": {live}, "failing": {failing}}}"#)
        };
        for (node, doing, way) in [
            (node("true", false), Doing::There, "node"),
            (node("false", false), Doing::Away, "node is gone"),
            (node("null", false), Doing::There, "push"),
            (node("null", true), Doing::Away, "push fails"),
        ] {
            assert_eq!(shown(&node, &[], false), (doing, way.to_owned()));
        }
        let unbound = [session("", "sse", "")];
        assert_eq!(
            shown("", &unbound, true),
            (Doing::There, "unbound sse".to_owned())
        );
        assert_eq!(shown("", &unbound, false), (Doing::Away, "nobody".to_owned()));
    }

    #[test]
    fn what_the_person_waits_for_is_no_wait_of_the_agents() {
        let waits = r#"{"session": 3, "role": null, "person": true, "transport": "http", "waits": [{"for": "pm", "seconds_left": 9}]}"#;
        for (active, doing) in [(false, Doing::Away), (true, Doing::There)] {
            let is = shown("", &[waits.to_owned()], active);
            assert_eq!(is, (doing, "nobody".to_owned()));
        }
    }

    #[test]
    fn those_of_others_do_not_reach_an_agent_and_each_way_is_told_once() {
        for (connections, active, ways) in [
            (vec![session("dev-a", "sse", "")], true, "nobody"),
            (
                ["sse", "http", "sse"].map(|way| session("", way, "")).into(),
                true,
                "unbound sse, unbound http",
            ),
            (
                ["sse", "sse"].map(|way| session("pm", way, "")).into(),
                false,
                "sse",
            ),
        ] {
            let is = shown("", &connections, active);
            assert_eq!(is, (Doing::There, ways.to_owned()), "{connections:?}");
        }
    }
}

//! `GET /health`: what the relay is and what is in it, as JSON. `relay status` shows the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde::{Serialize, Serializer};

use super::{Shared, nodes};
use crate::engine::nodes::{BindingView, NodeView};
use crate::engine::workers::WorkerView;
use crate::engine::{AgentName, Carrier, InboxView, Overview, SessionView, Timestamp};

/// Answers one request.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> axum::Json<Health> {
    let (now, overview) = shared.owner.overview();
    axum::Json(Health::new(now, &overview, shared.guard.port))
}

/// What is answered. `relay stop` ends the process that `pid` names, so that name stays.
#[derive(Serialize)]
pub(super) struct Health {
    name: &'static str,
    version: &'static str,
    pid: u32,
    port: u16,
    boot: uuid::Uuid,
    started_at: String,
    uptime_seconds: i64,
    sessions: usize,
    /// The person holds all messages.
    holds_all: bool,
    pending: Pending,
    roles: Vec<Role>,
    connections: Vec<Connection>,
    nodes: Vec<Node>,
    workers: Vec<Worker>,
}

/// How many messages wait for each agent of the roster, in its order.
struct Pending(Vec<(AgentName, usize)>);

/// An inbox; the person's is the last one.
#[derive(Serialize)]
struct Role {
    role: String,
    unread: usize,
    /// The age of the first unread message; null if there is none.
    oldest_seconds: Option<i64>,
    /// Held by the person.
    held: usize,
    /// The person holds what comes for it and what it sends, by its name.
    is_held: bool,
    /// Handed over and not confirmed.
    in_doubt: usize,
    /// How it is brought what its senders say nothing of.
    mode: &'static str,
    /// The node that its agent is on; left out if it is on none.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<OnNode>,
}

/// The node that an agent is on.
#[derive(Serialize)]
struct OnNode {
    kind: &'static str,
    live: Option<bool>,
    /// Its target does not take what is pushed for this agent.
    failing: bool,
}

/// An open session.
#[derive(Serialize)]
struct Connection {
    session: u64,
    /// The role that it is bound to; null if it is bound to none.
    role: Option<String>,
    /// It is a `relay` command's.
    person: bool,
    transport: &'static str,
    waits: Vec<Wait>,
    /// The program whose hooks it is; left out if it is no program's.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<Program>,
}

/// A program, as its hooks show it.
#[derive(Serialize)]
struct Program {
    /// `idle`, `busy`, or `asks`.
    activity: &'static str,
    /// Its waiter stands by.
    can_be_woken: bool,
}

/// A node.
#[derive(Serialize)]
struct Node {
    node: String,
    project: String,
    /// `direct`, `fleet`, or `http_push`.
    kind: &'static str,
    /// It is connected; null for a web hook, which never is.
    live: Option<bool>,
    /// How many it has.
    agents: usize,
    /// How many of them have a target that does not take what is pushed.
    failing: usize,
    /// How many deliveries were pushed in vain and given up.
    dead_letters: usize,
}

/// A worker that has not ended.
#[derive(Serialize)]
struct Worker {
    worker: u64,
    name: String,
    parent: String,
    /// Null where nothing says it.
    cli: Option<String>,
    spawned_at: String,
    /// How long ago that was.
    seconds: i64,
    /// `starting`, `started`, `ready`, or `ending`.
    state: &'static str,
}

/// A read that waits.
#[derive(Serialize)]
struct Wait {
    #[serde(rename = "for")]
    agent: String,
    seconds_left: i64,
}

impl Health {
    fn new(now: Timestamp, overview: &Overview, port: u16) -> Self {
        let Overview {
            boot,
            home: _,
            sessions,
            inboxes,
            holds_all,
            nodes,
            workers,
            wall_ahead_ms,
        } = overview;
        let wall = now.plus_millis(*wall_ahead_ms);
        let agents = inboxes.iter().filter(|inbox| !inbox.agent.is_person());
        let bound = nodes.iter().flat_map(|(node, bindings)| {
            let bound = bindings.iter();
            bound.map(move |binding| (&binding.agent, OnNode::new(node, binding)))
        });
        let mut on: BTreeMap<&AgentName, OnNode> = bound.collect();
        Self {
            name: "relay",
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            port,
            boot: boot.id,
            started_at: boot.started_at.to_string(),
            uptime_seconds: seconds_between(boot.started_at, now),
            sessions: sessions.len(),
            holds_all: *holds_all,
            pending: Pending(agents.map(|inbox| (inbox.agent.clone(), inbox.unread)).collect()),
            roles: inboxes
                .iter()
                .map(|inbox| Role::new(wall, inbox, on.remove(&inbox.agent)))
                .collect(),
            connections: sessions
                .iter()
                .map(|session| Connection::new(now, session))
                .collect(),
            nodes: nodes
                .iter()
                .map(|(node, bindings)| Node::new(node, bindings))
                .collect(),
            workers: workers.iter().map(|worker| Worker::new(wall, worker)).collect(),
        }
    }
}

impl Role {
    fn new(now: Timestamp, inbox: &InboxView, node: Option<OnNode>) -> Self {
        Self {
            role: inbox.agent.to_string(),
            unread: inbox.unread,
            oldest_seconds: inbox.oldest.map(|oldest| seconds_between(oldest, now)),
            held: inbox.held,
            is_held: inbox.is_held,
            in_doubt: inbox.in_doubt,
            mode: inbox.mode.as_str(),
            node,
        }
    }
}

impl OnNode {
    fn new(node: &NodeView, binding: &BindingView) -> Self {
        Self {
            kind: kind(node),
            live: is_live(node),
            failing: binding.failing.is_some(),
        }
    }
}

impl Connection {
    fn new(now: Timestamp, session: &SessionView) -> Self {
        let waits = session.waits.iter().map(|wait| Wait {
            agent: wait.agent.to_string(),
            seconds_left: seconds_between(now, wait.expires_at),
        });
        Self {
            session: session.session.0,
            role: session.agent.as_ref().map(ToString::to_string),
            person: session.person,
            transport: match session.carrier {
                Carrier::Stream => "sse",
                Carrier::Exchange => "http",
                Carrier::Node => "node",
                Carrier::Hook | Carrier::Wake => "hooks",
            },
            waits: waits.collect(),
            program: session.program.map(|program| Program {
                activity: program.activity.as_str(),
                can_be_woken: program.stands_by,
            }),
        }
    }
}

impl Node {
    fn new(node: &NodeView, bindings: &[BindingView]) -> Self {
        Self {
            node: nodes::node_name(node),
            project: node.project.clone(),
            kind: kind(node),
            live: is_live(node),
            agents: bindings.len(),
            failing: bindings
                .iter()
                .filter(|binding| binding.failing.is_some())
                .count(),
            dead_letters: bindings.iter().map(|binding| binding.dead).sum(),
        }
    }
}

impl Worker {
    fn new(now: Timestamp, view: &WorkerView) -> Self {
        Self {
            worker: view.worker.0,
            name: view.agent.to_string(),
            parent: view.parent.to_string(),
            cli: view.cli.clone(),
            spawned_at: view.spawned_at.to_string(),
            seconds: seconds_between(view.spawned_at, now),
            state: view.state.as_str(),
        }
    }
}

fn kind(node: &NodeView) -> &'static str {
    match (node.pushes, &node.own) {
        (true, _) => "http_push",
        (false, Some(_)) => "direct",
        (false, None) => "fleet",
    }
}

fn is_live(node: &NodeView) -> Option<bool> {
    (!node.pushes).then_some(node.is_live)
}

impl Serialize for Pending {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(agent, count)| (agent.as_str(), count)))
    }
}

/// Counts the whole seconds from one moment to a later one; 0 if it is not later.
fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_millis() - from.as_millis()).max(0) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::handling::Mode;
    use crate::engine::limits::{AGENT_NAME_BYTES_MAX, Bounds, NODE_NAME_BYTES_MAX, PROFILE_BYTES_MAX};
    use crate::server::limits::HEALTH_BYTES_MAX;

    /// Counts the bytes of a row, and of what stands between it and the next one.
    fn bytes(row: &impl Serialize) -> usize {
        serde_json::to_string(row).expect("it is plain data").len() + 1
    }

    #[test]
    fn a_node_that_connects_says_whether_it_is_there_and_a_web_hook_does_not() {
        let node = |pushes, is_live| NodeView {
            node: crate::engine::NodeId(1),
            project: "web".to_owned(),
            name: "fleet".to_owned(),
            own: None,
            label: None,
            agents_max: None,
            agents: Vec::new(),
            pushes,
            is_live,
            created_at: Timestamp::from_millis(0),
            last_contact: None,
        };
        for is_there in [true, false] {
            assert_eq!(is_live(&node(false, is_there)), Some(is_there));
            assert_eq!(is_live(&node(true, is_there)), None);
        }
    }

    #[test]
    fn whole_seconds_are_counted_and_none_before_their_time() {
        let between = |from, to| seconds_between(Timestamp::from_millis(from), Timestamp::from_millis(to));
        assert_eq!(between(1_000, 8_999), 7);
        assert_eq!(between(1_000, 1_999), 0);
        assert_eq!(between(9_000, 1_000), 0);
    }

    #[test]
    fn a_relay_that_is_full_is_within_the_bound() {
        let bounds = Bounds::default();
        let (name, project) = ("x".repeat(AGENT_NAME_BYTES_MAX), "x".repeat(AGENT_NAME_BYTES_MAX));
        let agent = AgentName::in_project(&project, &name).expect("a name");
        let (many, ages) = (bounds.inbox_messages_max, i64::from(u32::MAX));
        let role = Role {
            role: agent.to_string(),
            unread: many,
            oldest_seconds: Some(ages),
            held: many,
            is_held: false,
            in_doubt: many,
            mode: Mode::NextToolCall.as_str(),
            node: Some(OnNode {
                kind: "http_push",
                live: Some(false),
                failing: false,
            }),
        };
        let node = Node {
            // Of all that may stand in it, it takes twice its bytes in JSON.
            node: "\"".repeat(NODE_NAME_BYTES_MAX),
            project,
            kind: "http_push",
            live: Some(false),
            agents: bounds.agents_max,
            failing: bounds.agents_max,
            dead_letters: many * bounds.agents_max,
        };
        let connection = Connection {
            session: u64::from(u32::MAX),
            role: Some(agent.to_string()),
            person: false,
            transport: "hooks",
            waits: Vec::new(),
            program: Some(Program {
                activity: "asks",
                can_be_woken: false,
            }),
        };
        let wait = Wait {
            agent: agent.to_string(),
            seconds_left: ages,
        };
        let worker = Worker {
            worker: u64::from(u32::MAX),
            name: agent.to_string(),
            parent: agent.to_string(),
            cli: Some("\"".repeat(PROFILE_BYTES_MAX)),
            spawned_at: "2026-05-02T14:30:00.000Z".to_owned(),
            seconds: ages,
            state: "starting",
        };
        let inboxes = bytes(&role) + bytes(&Pending(vec![(agent, many)]));
        let all = bounds.agents_max * inboxes
            + bounds.nodes_max * bytes(&node)
            + bounds.sessions_max * bytes(&connection)
            + bounds.waits_max * bytes(&wait)
            + bounds.workers_max * bytes(&worker);
        let head = 1_024;
        assert!(head + all <= HEALTH_BYTES_MAX, "{all}");
    }

    #[test]
    fn the_ages_of_messages_and_workers_are_by_the_clock_that_dates_them() {
        const HOUR_MS: i64 = 3_600_000;
        let now = crate::server::recorder::NOW;
        let mut overview = crate::server::recorder::engine(now).overview();
        overview.wall_ahead_ms = HOUR_MS;
        let dated = now.plus_millis(HOUR_MS);
        overview.inboxes[0].oldest = Some(dated);
        let agent = AgentName::new("w1").expect("a name");
        // A wait lasts by the clock that runs evenly.
        let wait = crate::engine::WaitView {
            agent: agent.clone(),
            expires_at: now.plus_millis(65_000),
        };
        overview.sessions.push(SessionView {
            session: crate::engine::SessionId(1),
            carrier: Carrier::Exchange,
            agent: None,
            person: false,
            waits: vec![wait],
            program: None,
        });
        overview.workers.push(WorkerView {
            worker: crate::engine::WorkerId(1),
            parent: agent.clone(),
            agent,
            cli: None,
            spawned_at: dated,
            state: crate::engine::workers::WorkerState::Starting,
        });
        let health = Health::new(now.plus_millis(5_000), &overview, 7331);
        assert_eq!(health.roles[0].oldest_seconds, Some(5));
        assert_eq!(health.connections[0].waits[0].seconds_left, 60);
        assert_eq!((health.workers[0].seconds, health.uptime_seconds), (5, 5));
    }
}

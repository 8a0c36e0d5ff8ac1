//! `GET /health`: what the relay is and what is in it, as JSON. `relay status` shows the same.

use std::sync::Arc;

use axum::extract::State;
use serde::{Serialize, Serializer};

use super::{Shared, nodes};
use crate::engine::nodes::{BindingView, NodeView};
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
    pending: Pending,
    roles: Vec<Role>,
    connections: Vec<Connection>,
    nodes: Vec<Node>,
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
    /// Handed over and not confirmed.
    in_doubt: usize,
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
            sessions,
            inboxes,
            nodes,
        } = overview;
        let agents = inboxes.iter().filter(|inbox| !inbox.agent.is_person());
        Self {
            name: "relay",
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            port,
            boot: boot.id,
            started_at: boot.started_at.to_string(),
            uptime_seconds: seconds_between(boot.started_at, now),
            sessions: sessions.len(),
            pending: Pending(agents.map(|inbox| (inbox.agent.clone(), inbox.unread)).collect()),
            roles: inboxes.iter().map(|inbox| Role::new(now, inbox)).collect(),
            connections: sessions
                .iter()
                .map(|session| Connection::new(now, session))
                .collect(),
            nodes: nodes
                .iter()
                .map(|(node, bindings)| Node::new(node, bindings))
                .collect(),
        }
    }
}

impl Role {
    fn new(now: Timestamp, inbox: &InboxView) -> Self {
        Self {
            role: inbox.agent.to_string(),
            unread: inbox.unread,
            oldest_seconds: inbox.oldest.map(|oldest| seconds_between(oldest, now)),
            in_doubt: inbox.in_doubt,
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
            },
            waits: waits.collect(),
        }
    }
}

impl Node {
    fn new(node: &NodeView, bindings: &[BindingView]) -> Self {
        Self {
            node: nodes::node_name(node),
            project: node.project.clone(),
            kind: match (node.pushes, &node.own) {
                (true, _) => "http_push",
                (false, Some(_)) => "direct",
                (false, None) => "fleet",
            },
            live: (!node.pushes).then_some(node.is_live),
            agents: bindings.len(),
            failing: bindings
                .iter()
                .filter(|binding| binding.failing.is_some())
                .count(),
            dead_letters: bindings.iter().map(|binding| binding.dead).sum(),
        }
    }
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

//! Nodes over WebSocket, at `/v1/node/ws`: programs that take the deliveries of agents in frames and acknowledge them.
//!
//! It turns frames into what the engine is told and what the engine wants sent into frames, and decides nothing about either. What
//! a frame looks like is Agent Relay's: docs/DELIVERY.md.

mod incoming;
mod outgoing;

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message as Text, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior};

use self::incoming::{Incoming, Misunderstood, What};
use super::Shared;
use super::limits::{NODE_FRAME_BYTES_MAX, NODE_PING_EVERY, NODE_SILENCE, NODE_WRITE_PATIENCE};
use super::owner::{Answered, Outcome, Outgoing};
use crate::engine::nodes::{Instance, NodeView, Refusal, Reply, Said};
use crate::engine::{self, AgentName, Ending, Message, NodeId, SessionId, agents};
use crate::tools;

/// What stands before an agent's name in its id.
const AGENT: &str = "agt_";

/// Returns the id of an agent.
pub(super) fn agent_id(agent: &AgentName) -> String {
    format!("{AGENT}{agent}")
}

/// Returns the name of the agent of an id, in whatever project it is.
pub(super) fn agent_of(id: &str) -> Option<&str> {
    let name = id.strip_prefix(AGENT)?;
    Some(name.rsplit(':').next().unwrap_or(name))
}

/// Returns the id of the delivery of a message to an agent.
pub(super) fn delivery_id(message: &Message, agent: &AgentName) -> String {
    format!("del_{}_{}", message.id, agent_id(agent))
}

/// Returns the id of the conversation that a message belongs to: the same for both who talk to each other.
pub(super) fn conversation_id(message: &Message, agent: &AgentName) -> String {
    conversation_of(&message.from, agent.as_str())
}

/// Makes the id of a conversation of the names of those who talk, in either order the same. Nothing else is kept of one.
pub(super) fn conversation_of(one: &AgentName, other: &str) -> String {
    let one = one.as_str();
    format!("dm_{}~{}", one.min(other), one.max(other))
}

/// Returns the id of a node.
pub(super) fn node_id(view: &NodeView) -> String {
    match &view.own {
        Some(agent) => format!("node_direct_{}", agent_id(agent)),
        None => format!("node_{}_{}", view.project, view.name),
    }
}

/// Returns the name of a node.
pub(super) fn node_name(view: &NodeView) -> String {
    match &view.own {
        Some(agent) => format!("direct-{}", agent_id(agent)),
        None => view.name.clone(),
    }
}

/// A node, as the token that its connection brings names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// Its number.
    node: NodeId,
    /// Its project.
    project: String,
    /// Its id on the wire.
    id: String,
    /// Its name on the wire.
    name: String,
    /// It is an agent's own: its client is told of each delivery before the frame.
    is_own: bool,
}

impl From<&NodeView> for Named {
    fn from(view: &NodeView) -> Self {
        Self {
            node: view.node,
            project: view.project.clone(),
            id: node_id(view),
            name: node_name(view),
            is_own: view.own.is_some(),
        }
    }
}

impl Named {
    /// Returns its number.
    pub fn number(&self) -> NodeId {
        self.node
    }

    /// Returns its project.
    pub fn project(&self) -> &str {
        &self.project
    }
}

/// Shows a node as whoever asks about it reads it.
pub(super) fn shown_node(view: &NodeView) -> Value {
    outgoing::node(view)
}

/// Takes a connection of a node.
pub(super) fn upgrade(shared: Arc<Shared>, named: Named, socket: WebSocketUpgrade) -> Response {
    socket
        .max_message_size(NODE_FRAME_BYTES_MAX)
        .max_frame_size(NODE_FRAME_BYTES_MAX)
        .on_upgrade(move |socket| async move {
            match shared.owner.open_node(named.node) {
                Ok((session, outgoing)) => {
                    let mut connection = Connection {
                        shared: &shared,
                        session,
                        named,
                        socket,
                    };
                    let ending = connection.serve(outgoing).await;
                    shared.owner.close(session, ending);
                }
                Err(refusal) => {
                    let mut socket = socket;
                    let reason = tools::DEFAULT.refused(&refusal);
                    let _gone = socket.send(close(close_code::AGAIN, &reason)).await;
                }
            }
        })
}

fn close(code: u16, reason: &str) -> Text {
    // A close frame has room for 123 bytes of it.
    let end = (0..=reason.len().min(123)).rfind(|end| reason.is_char_boundary(*end));
    let reason = &reason[..end.unwrap_or_default()];
    Text::Close(Some(CloseFrame {
        code,
        reason: reason.into(),
    }))
}

/// The connection of a node.
struct Connection<'a> {
    shared: &'a Arc<Shared>,
    session: SessionId,
    named: Named,
    socket: WebSocket,
}

/// That a connection is at its end.
type Ended = Ending;

impl Connection<'_> {
    /// Serves it to its end.
    async fn serve(&mut self, mut outgoing: UnboundedReceiver<Outgoing>) -> Ended {
        let stop = self.shared.stop.clone();
        let mut heard = Instant::now();
        let mut pings = tokio::time::interval_at(heard + NODE_PING_EVERY, NODE_PING_EVERY);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let step = tokio::select! {
                next = outgoing.recv() => self.send(next).await,
                said = self.socket.recv() => {
                    heard = Instant::now();
                    match said {
                        Some(Ok(Text::Text(text))) => self.hear(&text).await,
                        Some(Ok(Text::Binary(_))) => {
                            let told = outgoing::error(None, "invalid_message", "a frame is text: a JSON object");
                            self.write([told]).await
                        }
                        Some(Ok(Text::Ping(_) | Text::Pong(_))) => ControlFlow::Continue(()),
                        Some(Ok(Text::Close(_))) | None => ControlFlow::Break(Ending::Orderly),
                        Some(Err(error)) => {
                            tracing::debug!(%error, "the connection of a node broke");
                            ControlFlow::Break(Ending::Broken)
                        }
                    }
                }
                _ = pings.tick() => self.ping(heard).await,
                () = stop.cancelled() => {
                    let away = close(close_code::AWAY, "relay is stopping");
                    let _gone = self.write_all([away]).await;
                    ControlFlow::Break(Ending::Orderly)
                }
            };
            if let ControlFlow::Break(ending) = step {
                return ending;
            }
        }
    }

    /// Sends what the engine wants sent.
    async fn send(&mut self, next: Option<Outgoing>) -> ControlFlow<Ended> {
        match next {
            Some(Outgoing::Frame(frame)) => {
                let accepted = self.named.is_own.then(|| outgoing::accepted(&frame));
                self.write(accepted.into_iter().chain([outgoing::deliver(&frame)]))
                    .await
            }
            Some(Outgoing::Superseded) | None => {
                let superseded = close(
                    close_code::NORMAL,
                    "superseded by a later connection of this node",
                );
                let _gone = self.write_all([superseded]).await;
                ControlFlow::Break(Ending::Orderly)
            }
        }
    }

    async fn ping(&mut self, heard: Instant) -> ControlFlow<Ended> {
        if heard.elapsed() > NODE_SILENCE {
            tracing::debug!("a node said nothing for too long");
            return ControlFlow::Break(Ending::Broken);
        }
        self.write_all([Text::Ping(bytes::Bytes::new())]).await
    }

    async fn write(&mut self, texts: impl IntoIterator<Item = String>) -> ControlFlow<Ended> {
        self.write_all(texts.into_iter().map(|text| Text::Text(text.into())))
            .await
    }

    /// Writes some messages; a node that does not take them in time has ended.
    async fn write_all(&mut self, messages: impl IntoIterator<Item = Text>) -> ControlFlow<Ended> {
        let writing = async {
            for message in messages {
                self.socket.send(message).await?;
            }
            Ok::<_, axum::Error>(())
        };
        match tokio::time::timeout(NODE_WRITE_PATIENCE, writing).await {
            Ok(Ok(())) => ControlFlow::Continue(()),
            Ok(Err(_)) | Err(_) => ControlFlow::Break(Ending::Broken),
        }
    }

    /// Has the engine hear what the node says, and answers it.
    async fn hear(&mut self, text: &str) -> ControlFlow<Ended> {
        let Incoming { id, what } = match incoming::read(text) {
            Ok(incoming) => incoming,
            Err(Misunderstood { id, code, message }) => {
                return self.write([outgoing::error(id.as_deref(), code, &message)]).await;
            }
        };
        let told = match self.carry_out(what) {
            None => return ControlFlow::Continue(()),
            Some(Ok(data)) => outgoing::reply(id.as_deref(), &data),
            Some(Err((code, message))) => outgoing::error(id.as_deref(), code, &message),
        };
        self.write([told]).await
    }

    /// Returns the data of the answer; nothing if there is to be none.
    fn carry_out(&self, what: What) -> Option<Result<Value, (&'static str, String)>> {
        match what {
            What::Acknowledges(said) => match self.say(said) {
                Ok(_) => None,
                // Of an agent that is bound elsewhere by now, an acknowledgement may still be on its way.
                Err(engine::Refusal::Nodes(Refusal::NotBound { .. })) => None,
                Err(refusal) => Some(Err(told(&refusal))),
            },
            What::Says(said) => Some(
                self.say(said)
                    .map(|reply| data(&reply))
                    .map_err(|refusal| told(&refusal)),
            ),
            What::Registers {
                name,
                node_id,
                instance,
                capabilities,
            } => Some(self.register(&name, &node_id, instance, &capabilities)),
        }
    }

    fn register(
        &self,
        name: &str,
        id: &str,
        instance: Option<Instance>,
        capabilities: &[(String, &'static str)],
    ) -> Result<Value, (&'static str, String)> {
        let provider = instance.as_ref().map(|instance| instance.provider.clone());
        if id != self.named.id {
            let (given, own) = (engine::shown(id), &self.named.id);
            let message = format!("\"node_id\" is {given:?}; this token is for {own:?}");
            return Err(("node_id_mismatch", message));
        }
        if name != self.named.name {
            let (given, own) = (engine::shown(name), &self.named.name);
            let message = format!("\"name\" is {given:?}; this node is called {own:?}");
            return Err(("node_name_conflict", message));
        }
        let said = Said::Registers { instance };
        let reply = self.say(said).map_err(|refusal| told(&refusal))?;
        let mut data = data(&reply);
        let accepted = capabilities.iter().map(|(name, kind)| {
            json!({
                "name": name,
                "kind": kind,
                "accepted": kind == &"capacity",
                "reason": (kind == &"action").then_some("relay does not hand out actions yet"),
            })
        });
        data["accepted_capabilities"] = accepted.collect();
        data["provider"] = json!(provider);
        Ok(data)
    }

    fn say(&self, said: Said) -> Result<Reply, engine::Refusal> {
        let outcome = self.shared.owner.call(self.session, said.into(), None);
        match outcome {
            Some(Outcome::Answered(Answered { answer, .. })) => match answer? {
                engine::Reply::Nodes(reply) => Ok(*reply),
                other @ (engine::Reply::Mail(_)
                | engine::Reply::Agents(_)
                | engine::Reply::Groups(_)
                | engine::Reply::Channels(_)
                | engine::Reply::Trace(_)
                | engine::Reply::Watches(_)) => unreachable!("a node is answered with {other:?}"),
            },
            Some(Outcome::Parked(_)) => unreachable!("nothing that a node says waits"),
            None => Err(Refusal::NotRegistered.into()),
        }
    }
}

/// Shows the answer to what a node said.
fn data(reply: &Reply) -> Value {
    match reply {
        Reply::Node(view) => outgoing::node(view),
        Reply::Bound(view) => outgoing::binding(view),
        Reply::Has(views) => {
            let rebound: Vec<Value> = views.iter().map(outgoing::binding).collect();
            json!({
                "rebound_agents": rebound,
                "open_invocations": [],
                "completed_invocations": [],
                "rescheduled_invocations": [],
            })
        }
        Reply::Unbound { .. } | Reply::Listed(_) | Reply::Noted => json!({}),
    }
}

/// Returns what a program and what a person reads of a refusal.
fn told(refusal: &engine::Refusal) -> (&'static str, String) {
    let code = match refusal {
        engine::Refusal::Nodes(refusal) => code_of(refusal),
        engine::Refusal::Agents(agents::Refusal::InvalidName(_)) => "invalid_message",
        engine::Refusal::Agents(_)
        | engine::Refusal::Sessions(_)
        | engine::Refusal::Mail(_)
        | engine::Refusal::Groups(_)
        | engine::Refusal::Trace(_)
        | engine::Refusal::Stopping => "node_control_failed",
    };
    (code, tools::DEFAULT.refused(refusal))
}

/// Returns the word for a refusal that programs read.
pub(super) fn code_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::InstanceConflict { .. } => "provider_instance_conflict",
        Refusal::Elsewhere { .. } => "agent_location_conflict",
        Refusal::NotBound { .. } => "agent_not_found",
        Refusal::Full { .. } => "node_capacity_exceeded",
        Refusal::NeverSent { .. } => "invalid_message",
        Refusal::NotYours
        | Refusal::Unknown
        | Refusal::NotRegistered
        | Refusal::InvalidName { .. }
        | Refusal::TooMany { .. } => "node_control_failed",
    }
}

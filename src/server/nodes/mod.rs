//! Nodes over WebSocket, at `/v1/node/ws`: programs that take the deliveries of agents in frames and acknowledge them.
//!
//! It turns frames into what the engine is told and what the engine wants sent into frames, and decides nothing about either. What
//! a frame looks like is Agent Relay's: docs/DELIVERY.md.

mod incoming;
pub(super) mod invocations;
mod metadata;
mod outgoing;
mod pushed;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::ws::{Message as Text, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior};

pub(super) use self::incoming::{ACTION, is_capacity};
use self::incoming::{Capability, Incoming, Misunderstood, What};
pub(super) use self::outgoing::{WIRE_MODES, reason, wire_mode};
pub(super) use self::pushed::{PushBody, pushed_frame, pushed_invocation, pushed_news};
use super::Shared;
use super::budget::Account;
use super::limits::{
    NODE_FRAME_BYTES_MAX, NODE_FRAMES_AT_ONCE, SOCKET_BYTES_AT_ONCE, SOCKET_PING_EVERY, SOCKET_READ_BYTES,
    SOCKET_SILENCE,
};
use super::owner::{Answered, Outcome, Outgoing};
use super::websocket::{self, Gone, close};
use super::wire::Link;
use crate::engine::nodes::{By, Instance, NodeView, Refusal, Reply, Said};
use crate::engine::{
    self, AgentName, Ending, Message, MessageId, NodeId, Recipient, ResolvedBy, SessionId, actions, agents,
};
use crate::tools;

/// With this capability a node takes an agent's frames only once it has named it and learned where they go on.
const CURSOR: &str = "relay:delivery-cursor-v1";

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
    delivery_of(message.id, agent)
}

/// The same of a message that is not at hand.
pub(super) fn delivery_of(message: MessageId, agent: &AgentName) -> String {
    format!("del_{message}_{}", agent_id(agent))
}

/// Returns the id of the message of an agent's delivery, if the delivery is one of its.
pub(super) fn message_of<'a>(delivery: &'a str, agent: &AgentName) -> Option<&'a str> {
    let rest = delivery.strip_prefix("del_")?.strip_suffix(&agent_id(agent))?;
    rest.strip_suffix('_')
}

/// Returns the id of the channel that a message was sent to, or else of the conversation that it belongs to.
pub(super) fn place_of(message: &Message) -> String {
    match message.to.by() {
        ResolvedBy::Channel => channel_id(&message.to),
        ResolvedBy::Name
        | ResolvedBy::Role
        | ResolvedBy::Group
        | ResolvedBy::Broadcast
        | ResolvedBy::List => conversation_id(message),
    }
}

/// Returns the id of the channel that was meant.
pub(super) fn channel_id(to: &Recipient) -> String {
    format!("ch_{}", to.as_str().replacen('#', "", 1))
}

/// Returns the id of the conversation that a message belongs to: the same for both who talk to each other.
pub(super) fn conversation_id(message: &Message) -> String {
    conversation_of(&message.from, message.to.as_str())
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
        None => match &view.label {
            Some(given) => given.clone(),
            None => format!("node_{}_{}", view.project, view.name),
        },
    }
}

/// Returns the name of a node.
pub(super) fn node_name(view: &NodeView) -> String {
    match &view.own {
        Some(agent) => format!("direct-{}", agent_id(agent)),
        None => view.name.clone(),
    }
}

/// Returns by what a node may be looked up that has a name or an id on the wire.
pub(super) fn named_by(project: &str, given: &str) -> impl Iterator<Item = By> {
    let own = given
        .strip_prefix("direct-")
        .or(given.strip_prefix("node_direct_"));
    let owner = own.and_then(agent_of).map(str::to_owned);
    let name = given.strip_prefix(&format!("node_{project}_")).map(str::to_owned);
    let whole = [By::Name(given.to_owned()), By::Label(given.to_owned())];
    whole
        .into_iter()
        .chain(name.map(By::Name))
        .chain(owner.map(By::Owner))
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
pub(super) fn upgrade(shared: Arc<Shared>, named: Named, link: &Link, socket: WebSocketUpgrade) -> Response {
    let account = Arc::clone(link.account());
    // Once it is a WebSocket, its connection is waited for here alone.
    let under_way = shared.sockets.token();
    socket
        .read_buffer_size(SOCKET_READ_BYTES)
        .max_message_size(NODE_FRAME_BYTES_MAX)
        .max_frame_size(NODE_FRAME_BYTES_MAX)
        .on_upgrade(move |mut socket| async move {
            match shared.owner.open_node(named.node) {
                Ok((session, outgoing)) => {
                    let mut connection = Connection {
                        shared,
                        session,
                        named,
                        socket,
                        account,
                        registered: false,
                        errors: 0,
                        ending: Ending::Broken,
                    };
                    connection.ending = connection.serve(outgoing).await;
                }
                Err(refusal) => {
                    let reason = tools::DEFAULT.refused(&refusal);
                    let _gone = socket.send(close(close_code::AGAIN, &reason)).await;
                }
            }
            drop(under_way);
        })
}

/// The connection of a node.
struct Connection {
    shared: Arc<Shared>,
    session: SessionId,
    named: Named,
    socket: WebSocket,
    /// What waits for it.
    account: Arc<Account>,
    registered: bool,
    /// How many errors were about no frame with an id.
    errors: u64,
    /// How it ended, once it has.
    ending: Ending,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.owner.close(self.session, self.ending);
    }
}

/// That a connection is at its end.
type Ended = Ending;

impl Connection {
    /// Serves it to its end.
    async fn serve(&mut self, mut outgoing: UnboundedReceiver<Outgoing>) -> Ended {
        let stop = self.shared.stop.clone();
        let mut heard = Instant::now();
        let mut pings = tokio::time::interval_at(heard + SOCKET_PING_EVERY, SOCKET_PING_EVERY);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = Vec::new();
        loop {
            let step = tokio::select! {
                _ = outgoing.recv_many(&mut due, NODE_FRAMES_AT_ONCE) => self.send(&mut due).await,
                said = self.socket.recv() => {
                    let step = match said {
                        Some(Ok(Text::Text(text))) => self.hear(&text).await,
                        Some(Ok(Text::Binary(_))) => {
                            let told = outgoing::error(&self.error_id(), "invalid_message", "a frame is text: a JSON object");
                            self.write([told]).await
                        }
                        // An end is answered when the next thing is read, which is nothing.
                        Some(Ok(Text::Ping(_) | Text::Pong(_) | Text::Close(_))) => ControlFlow::Continue(()),
                        None => ControlFlow::Break(Ending::Orderly),
                        Some(Err(error)) => {
                            tracing::debug!(%error, "the connection of a node broke");
                            ControlFlow::Break(Ending::Broken)
                        }
                    };
                    // What a node says may have more sent again: that goes out before it is heard again, so that it is not kept many
                    // times over for one that says much and reads little.
                    let step = match step {
                        ControlFlow::Continue(()) => self.send_all(&mut outgoing, &mut due).await,
                        ended @ ControlFlow::Break(_) => ended,
                    };
                    // While it was written to it could not be heard.
                    heard = Instant::now();
                    step
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

    /// Sends what waits to go out now, unless relay stops meanwhile.
    async fn send_all(
        &mut self,
        outgoing: &mut UnboundedReceiver<Outgoing>,
        due: &mut Vec<Outgoing>,
    ) -> ControlFlow<Ended> {
        let mut left = outgoing.len();
        while left > 0 && !self.shared.stop.is_cancelled() {
            let next = std::iter::from_fn(|| outgoing.try_recv().ok());
            due.extend(next.take(left.min(NODE_FRAMES_AT_ONCE)));
            if due.is_empty() {
                break;
            }
            left -= due.len();
            self.send(due).await?;
        }
        ControlFlow::Continue(())
    }

    /// Sends what the engine wants sent, which is nothing more if there is nothing: all that is due goes out in one write, but for what
    /// is long.
    async fn send(&mut self, due: &mut Vec<Outgoing>) -> ControlFlow<Ended> {
        let mut ends = due.is_empty();
        let mut texts = Vec::new();
        let mut rooms = Vec::new();
        for next in due.drain(..) {
            match next {
                Outgoing::Frame { taken_back, .. } if taken_back.load(Ordering::Relaxed) => {}
                Outgoing::Frame { frame, .. } => {
                    if self.named.is_own {
                        texts.push(outgoing::accepted(&frame));
                    }
                    texts.push(outgoing::deliver(&frame));
                }
                Outgoing::Invoke(invocation) => texts.push(outgoing::invoke(&invocation, self.named.is_own)),
                Outgoing::News { told, room } => {
                    texts.push(outgoing::news(&told));
                    rooms.push(room);
                }
                Outgoing::Superseded => {
                    ends = true;
                    break;
                }
            }
            if texts.iter().map(String::len).sum::<usize>() >= SOCKET_BYTES_AT_ONCE {
                self.write(texts.drain(..)).await?;
                rooms.clear();
            }
        }
        self.write(texts).await?;
        drop(rooms);
        if !ends {
            return ControlFlow::Continue(());
        }
        let superseded = close(
            close_code::NORMAL,
            "superseded by a later connection of this node",
        );
        let _gone = self.write_all([superseded]).await;
        ControlFlow::Break(Ending::Orderly)
    }

    async fn ping(&mut self, heard: Instant) -> ControlFlow<Ended> {
        if heard.elapsed() >= SOCKET_SILENCE || !self.registered {
            tracing::debug!("a node said nothing for too long, or has not registered");
            return ControlFlow::Break(Ending::Broken);
        }
        self.write_all([Text::Ping(bytes::Bytes::new())]).await
    }

    async fn write(&mut self, texts: impl IntoIterator<Item = String>) -> ControlFlow<Ended> {
        self.write_all(texts.into_iter().map(|text| Text::Text(text.into())))
            .await
    }

    async fn write_all(&mut self, messages: impl IntoIterator<Item = Text>) -> ControlFlow<Ended> {
        match websocket::write(&mut self.socket, &self.account, messages).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(Gone) => ControlFlow::Break(Ending::Broken),
        }
    }

    /// Has the engine hear what the node says, and answers it. What was carried out of a frame without an id is not answered, for nobody
    /// could tell what the answer is about; an error has an id of its own then.
    async fn hear(&mut self, text: &str) -> ControlFlow<Ended> {
        let (id, answer) = match incoming::read(text) {
            Ok(Incoming { id, what }) => (id, self.carry_out(what)),
            Err(Misunderstood { id, code, message }) => (id, Some(Err((code, message)))),
        };
        let told = match (answer, id) {
            (None, _) | (Some(Ok(_)), None) => return ControlFlow::Continue(()),
            (Some(Ok(data)), Some(id)) => outgoing::reply(&id, &data),
            (Some(Err((code, message))), id) => {
                let id = id.unwrap_or_else(|| self.error_id());
                outgoing::error(&id, code, &message)
            }
        };
        self.write([told]).await
    }

    /// Makes the id of an error that is about no frame with an id.
    fn error_id(&mut self) -> String {
        self.errors += 1;
        format!("relay_{}", self.errors)
    }

    /// Returns the data of the answer; nothing if there is to be none.
    fn carry_out(&mut self, what: What) -> Option<Result<Value, (&'static str, String)>> {
        match what {
            What::Acknowledges(said) => match self.say(said) {
                Ok(_) => None,
                // Of an agent that is bound elsewhere by now, an acknowledgement may still be on its way.
                Err(engine::Refusal::Nodes(Refusal::NotBound { .. })) => None,
                Err(refusal) => Some(Err(told(&refusal))),
            },
            What::Adopts { agent } => Some(self.adopt(agent).map_err(|refusal| told(&refusal))),
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
            } => Some(self.register(&name, &node_id, instance, capabilities)),
        }
    }

    fn register(
        &mut self,
        name: &str,
        id: &str,
        instance: Option<Instance>,
        capabilities: Vec<Capability>,
    ) -> Result<Value, (&'static str, String)> {
        let provider = instance
            .as_ref()
            .map(|instance| json!({"name": instance.provider, "instance_id": instance.id}));
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
        let actions = capabilities.iter().filter(|capability| capability.is_action());
        let said = Said::Registers {
            instance,
            names_first: capabilities.iter().any(|capability| capability.name == CURSOR),
            offers: actions.map(Capability::offer).collect(),
        };
        let reply = self.say(said).map_err(|refusal| told(&refusal))?;
        let Reply::Registered { offers, .. } = &reply else {
            unreachable!("a node registers, and is answered with {reply:?}")
        };
        self.registered = true;
        let mut data = data(&reply);
        let accepted = capabilities.iter().map(|Capability { name, kind, .. }| {
            let mut accepted = json!({"name": name, "kind": kind, "accepted": true});
            let refused = offers.iter().filter(|(offered, _)| offered == name);
            if let Some(refusal) = refused.filter_map(|(_, refusal)| refusal.clone()).next() {
                accepted["accepted"] = false.into();
                accepted["reason"] = tools::DEFAULT.refused(&refusal.into()).into();
            }
            accepted
        });
        data["accepted_capabilities"] = accepted.collect();
        if let Some(provider) = provider {
            data["provider"] = provider;
        }
        Ok(data)
    }

    /// Binds an agent, and answers with a new token of its.
    fn adopt(&self, agent: String) -> Result<Value, engine::Refusal> {
        let adopt = || {
            let reply = self.say(Said::Adopts { agent })?;
            let Reply::Bound(view) = &reply else {
                unreachable!("an agent is bound, not {reply:?}")
            };
            Ok::<_, engine::Refusal>((view.agent.clone(), outgoing::binding(view)))
        };
        let (mut data, token) = self.shared.api.with_token(adopt)?;
        data["token"] = token.into();
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
                | engine::Reply::Actions(_)
                | engine::Reply::Receipts(_)
                | engine::Reply::Trace(_)
                | engine::Reply::Holds(_)
                | engine::Reply::Surfacing(_)
                | engine::Reply::Workers(_)
                | engine::Reply::AfterStart { .. }
                | engine::Reply::Records(_)
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
        Reply::Node(view) | Reply::Registered { view, .. } => outgoing::node(view),
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
        Reply::Unbound { .. }
        | Reply::Found(_)
        | Reply::Listed(_)
        | Reply::DeadLetters(_)
        | Reply::Redriven { .. }
        | Reply::Noted => json!({}),
    }
}

/// Returns what a program and what a person reads of a refusal.
fn told(refusal: &engine::Refusal) -> (&'static str, String) {
    let code = match refusal {
        engine::Refusal::Nodes(refusal) => code_of(refusal),
        engine::Refusal::Actions(actions::Refusal::UnknownInvocation { .. }) => "invocation_not_found",
        engine::Refusal::Actions(actions::Refusal::TooLong { .. })
        | engine::Refusal::Agents(agents::Refusal::InvalidName(_)) => "invalid_message",
        engine::Refusal::Agents(_)
        | engine::Refusal::Sessions(_)
        | engine::Refusal::Mail(_)
        | engine::Refusal::Groups(_)
        | engine::Refusal::Actions(_)
        | engine::Refusal::Receipts(_)
        | engine::Refusal::Trace(_)
        | engine::Refusal::Holds(_)
        | engine::Refusal::Surfacing(_)
        | engine::Refusal::Workers(_)
        | engine::Refusal::Records(_)
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
        Refusal::OtherLabel { .. } | Refusal::OtherKind { .. } => "node_name_conflict",
        Refusal::NeverSent { .. } => "invalid_message",
        Refusal::AnothersOwn { .. } => "node_capacity_exceeded",
        Refusal::NotYours
        | Refusal::Unknown
        | Refusal::NotRegistered
        | Refusal::InvalidName { .. }
        | Refusal::TooMany { .. } => "node_control_failed",
    }
}

//! The program of a node for several agents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::plan::FleetNode;
use super::{Fleets, Home, fleet_name};
use crate::client::{SERVER, now_ms};
use crate::marks::Marks;
use crate::net::ClientIo;
use crate::nodes::actions::Of;
use crate::nodes::actions::handler::Handler;
use crate::nodes::api::Api;
use crate::nodes::history::{Given, Log, Numbered, Shown, Step, is_redelivered};
use crate::nodes::plan::node_name;

/// A connection over which nothing came for so long is broken: each heartbeat is answered.
const SILENCE: Duration = Duration::from_secs(40);

/// How long it waits before it comes back.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// How often it does what is to be done, at the least and at the most, in milliseconds.
const TICK_MS: std::ops::Range<u64> = 200..2_500;

/// How often it asks which agents it has.
const ASKS_EVERY: u64 = 6;

/// With this it takes an agent's frames only once it has named it.
const CURSOR: &str = "relay:delivery-cursor-v1";

/// A start of the program of a node.
pub struct Program {
    /// Which node's.
    pub number: usize,
    /// What it is like.
    pub plan: FleetNode,
    /// Who is the first agent of all such nodes.
    pub first_agent: usize,
    /// Which start of a program it is.
    pub process: u64,
    /// What it draws from.
    pub rng: Rng,
    /// Whether what is asked of it waits for it, if it offers an action.
    pub offers: Option<bool>,
    /// What it was asked.
    pub handler: Handler,
    /// What is known on all machines.
    pub fleets: Arc<Fleets>,
    /// How it asks.
    pub api: Api,
    /// Where it is written down what it got.
    pub log: Log,
    /// Where it is counted what happened.
    pub marks: Marks,
    /// Counts connections.
    pub connections: Arc<AtomicU64>,
}

impl Program {
    /// Runs until its machine is gone.
    pub async fn runs(mut self) {
        // Which agents it has named, and which move of theirs that was for.
        let mut named = BTreeMap::new();
        loop {
            if let Some(mut connection) = self.connect(&mut named).await {
                let _ended = connection.serve().await;
            }
            let pause = ASK_AGAIN + Duration::from_millis(self.rng.u64(..1_000));
            sleep(pause).await;
        }
    }

    fn name(&self) -> String {
        fleet_name(self.number)
    }

    async fn connect<'a>(&'a mut self, named: &'a mut BTreeMap<usize, u64>) -> Option<Connection<'a>> {
        let key = self.api.key().await?;
        let asked = json!({"name": self.name(), "role": "broker"});
        let made = self.api.ask(Method::POST, "/v1/nodes", &key, Some(asked)).await?;
        let token = made.data["token"].as_str()?.to_owned();
        let url = format!("ws://localhost:{}/v1/node/ws?token={token}", SERVER.1);
        let io = ClientIo::connect_from_anywhere(SERVER, self.api.0.clone())
            .await
            .ok()?;
        let (socket, _) = timeout(SILENCE, client_async(url, io)).await.ok()?.ok()?;
        let mut connection = Connection {
            id: self.connections.fetch_add(1, Ordering::Relaxed),
            program: self,
            named,
            socket,
            key,
            agents: BTreeMap::new(),
            ticks: 0,
            beats: BTreeMap::new(),
            syncs: BTreeMap::new(),
        };
        let bound = connection.bound().await?;
        let mut capabilities = Vec::new();
        if connection.program.plan.names_first {
            capabilities.push(json!({"name": CURSOR}));
        }
        if let Some(queues) = connection.program.offers {
            let action = Of::Node(connection.program.number).action();
            capabilities.push(json!({"name": action, "queue": queues}));
        }
        connection
            .say(&json!({
                "id": "register", "type": "node.register", "node_id": made.data["id"], "name": connection.program.name(),
                "capabilities": capabilities, "max_agents": 0, "tags": [], "version": "1",
            }))
            .await?;
        for agent in bound {
            let home = connection.program.fleets.home(agent);
            // Whoever names first does so over each connection.
            let is_known = connection.named.get(&agent) == Some(&home.version);
            let version = (is_known && !connection.program.plan.names_first).then_some(home.version);
            connection.agents.entry(agent).or_default().version = version;
        }
        Some(connection)
    }
}

/// A connection of a node.
struct Connection<'a> {
    /// Which one of all.
    id: u64,
    program: &'a mut Program,
    named: &'a mut BTreeMap<usize, u64>,
    socket: WebSocketStream<ClientIo>,
    key: String,
    /// The agents that it has, as far as it knows.
    agents: BTreeMap<usize, Has>,
    ticks: u64,
    /// What was acknowledged before a heartbeat that is not answered yet.
    beats: BTreeMap<String, Vec<Acknowledged>>,
    /// For which moves agents were named by an inventory that is not answered yet.
    syncs: BTreeMap<String, BTreeMap<usize, u64>>,
}

/// An acknowledgement that was sent.
struct Acknowledged {
    agent: usize,
    version: u64,
    up_to: u64,
}

/// What a node knows of one of its agents over a connection.
#[derive(Default)]
struct Has {
    /// For which move it was named.
    version: Option<u64>,
    /// It was named over this connection.
    is_named: bool,
    /// The number of the latest frame that was shown.
    cursor: Option<u64>,
    acknowledged: u64,
    /// What was shown, and is not known to be acknowledged.
    shown: BTreeMap<u64, String>,
    /// Frames came before it was named, and are not acknowledged by themselves: it is to be named once more.
    was_early: bool,
}

/// That a connection is at its end, if there is nothing.
type Goes = Option<()>;

impl Connection<'_> {
    async fn serve(&mut self) -> Goes {
        let mut heard = Instant::now();
        let mut tick = heard;
        loop {
            let next = tokio::select! {
                biased;
                next = self.socket.next() => Some(next?.ok()?),
                () = sleep_until(tick) => None,
            };
            match next {
                Some(frame) => {
                    heard = Instant::now();
                    if let Frame::Text(text) = frame {
                        let frame = serde_json::from_str(&text).expect("a frame is JSON");
                        self.hear(&frame).await?;
                    }
                }
                None => {
                    if heard.elapsed() > SILENCE {
                        return None;
                    }
                    self.tick().await?;
                    tick = Instant::now() + Duration::from_millis(self.program.rng.u64(TICK_MS));
                }
            }
        }
    }

    async fn say(&mut self, frame: &Value) -> Goes {
        let mut frame = frame.clone();
        frame["v"] = 1.into();
        let saying = self.socket.send(Frame::text(frame.to_string()));
        timeout(SILENCE, saying).await.ok()?.ok()
    }

    /// Asks which agents it has.
    async fn bound(&self) -> Option<BTreeSet<usize>> {
        let path = format!("/v1/nodes/{}/agents", self.program.name());
        let answer = self.program.api.ask(Method::GET, &path, &self.key, None).await?;
        let agents = answer.data.as_array()?.iter();
        Some(
            agents
                .filter_map(|agent| self.number_of(&agent["agent_name"]))
                .collect(),
        )
    }

    fn number_of(&self, name: &Value) -> Option<usize> {
        let number: usize = name.as_str()?.strip_prefix("node-")?.parse().ok()?;
        number.checked_sub(self.program.first_agent)
    }

    fn agent(&self, number: usize) -> String {
        node_name(self.program.first_agent + number)
    }

    fn is_mine(&self, home: Home) -> bool {
        home.node == self.program.number
    }

    async fn tick(&mut self) -> Goes {
        self.ticks += 1;
        if self.ticks.is_multiple_of(ASKS_EVERY)
            && let Some(bound) = self.bound().await
        {
            for (agent, has) in &mut self.agents {
                if !bound.contains(agent) {
                    has.version = None;
                }
            }
            for agent in bound {
                self.agents.entry(agent).or_default();
            }
        }
        self.name_agents().await?;
        self.acknowledge().await?;
        for said in self.program.handler.says().await {
            self.say(&said).await?;
        }
        let id = format!("beat-{}", self.ticks);
        let beat = json!({"id": id, "type": "node.heartbeat", "active_agents": self.agents.len(), "handlers_live": true});
        self.say(&beat).await?;
        if self.program.rng.u32(0..60) == 0 {
            self.program.marks.hit("node for several left");
            self.say(&json!({"type": "node.deregister"})).await?;
            // It comes back at once.
            return None;
        }
        Some(())
    }

    /// Names the agents that are to run here, and lets go of the others.
    async fn name_agents(&mut self) -> Goes {
        let homes: Vec<(usize, Home)> = (0..self.program.fleets.homes.len())
            .map(|agent| (agent, self.program.fleets.home(agent)))
            .collect();
        let mine: BTreeMap<usize, u64> = homes
            .iter()
            .filter(|(_, home)| self.is_mine(*home))
            .map(|(agent, home)| (*agent, home.version))
            .collect();
        let is_new = |agent: &usize| self.agents.get(agent).is_none_or(|has| !has.is_named);
        let is_there = |agent: &usize, version: &u64| {
            let has = self.agents.get(agent);
            has.is_some_and(|has| has.version == Some(*version))
        };
        // An inventory says nothing of where the frames of an agent go on that was named before.
        let may_sync = mine
            .iter()
            .all(|(agent, version)| is_new(agent) || is_there(agent, version));
        if may_sync && mine.keys().any(is_new) && self.program.rng.bool() {
            let id = format!("sync-{}", self.ticks);
            let agents: Vec<Value> = mine
                .keys()
                .map(|agent| json!({"agent_id": format!("agt_{}", self.agent(*agent)), "name": self.agent(*agent)}))
                .collect();
            self.syncs.insert(id.clone(), mine);
            return self
                .say(&json!({"id": id, "type": "inventory.sync", "agents": agents}))
                .await;
        }
        for (agent, home) in homes {
            if self.is_mine(home) {
                let version = home.version;
                let is_there = self
                    .agents
                    .get(&agent)
                    .is_some_and(|has| has.version == Some(version) && !has.was_early);
                if !is_there || self.program.rng.u32(0..15) == 0 {
                    let id = format!("name {agent} {version}");
                    let name = self.agent(agent);
                    self.say(&json!({"id": id, "type": "agent.register", "name": name}))
                        .await?;
                }
            } else if let Some(has) = self.agents.get(&agent) {
                // What it does not know yet: that the agent is elsewhere.
                if let Some(cursor) = has.cursor {
                    self.acknowledge_one(agent, cursor).await?;
                }
                if self.program.plan.clings && self.program.rng.u32(0..4) > 0 {
                    continue;
                }
                let (name, agent_id) = (self.agent(agent), format!("agt_{}", self.agent(agent)));
                self.say(&json!({"type": "agent.deregister", "agent_id": agent_id, "name": name}))
                    .await?;
                self.agents.remove(&agent);
                self.named.remove(&agent);
            }
        }
        Some(())
    }

    /// Acknowledges what was shown, but for what is lost on the way to that; and some of it twice.
    async fn acknowledge(&mut self) -> Goes {
        let mut known = Vec::new();
        let agents: Vec<usize> = self.agents.keys().copied().collect();
        for agent in agents {
            let FleetNode { loses, repeats, .. } = self.program.plan;
            let rng = &mut self.program.rng;
            let has = self.agents.get_mut(&agent).expect("it is there");
            let Some(cursor) = has.cursor else { continue };
            let mut sent = Vec::new();
            if cursor > has.acknowledged && rng.u32(0..10) >= loses {
                has.acknowledged = rng.u64(has.acknowledged + 1..=cursor);
                sent.push(has.acknowledged);
            }
            if has.acknowledged > 0 && rng.u32(0..10) < repeats {
                let again = has.acknowledged;
                sent.push(again - rng.u64(0..3).min(again));
                self.program.marks.hit("acknowledged again, or less");
            }
            if rng.u32(0..3) == 0 {
                let mut disk = self.program.fleets.disks[self.program.number]
                    .lock()
                    .expect("a run has one thread");
                disk.insert(agent, cursor);
            }
            if let Some(version) = has.version {
                let up_to = has.acknowledged;
                known.push(Acknowledged {
                    agent,
                    version,
                    up_to,
                });
            }
            for up_to in sent {
                self.acknowledge_one(agent, up_to).await?;
            }
        }
        self.beats.insert(format!("beat-{}", self.ticks), known);
        Some(())
    }

    async fn acknowledge_one(&mut self, agent: usize, up_to: u64) -> Goes {
        let name = self.agent(agent);
        let (node, at_ms) = (self.program.number, now_ms());
        let line = format_args!("fleet {node} acknowledges {name} up to {up_to}").to_string();
        self.program.log.trace(at_ms, line);
        self.say(&json!({"type": "delivery.ack", "agent": name, "up_to_seq": up_to}))
            .await
    }

    async fn hear(&mut self, frame: &Value) -> Goes {
        let id = frame["id"].as_str().unwrap_or_default();
        match frame["type"].as_str() {
            Some("deliver") if frame["seq"] != 0 => self.take(frame).await,
            Some("action.invoke") => self.program.handler.hear(frame, &mut self.program.rng),
            Some("reply") if id == "register" => {
                self.program.marks.hit("node for several came");
                Some(())
            }
            Some("reply") if id.starts_with("beat-") => {
                self.know(id);
                Some(())
            }
            Some("reply") if id.starts_with("sync-") => {
                self.program.marks.hit("inventory synchronised");
                let versions = self.syncs.remove(id).unwrap_or_default();
                let rebound = frame["data"]["rebound_agents"].as_array()?;
                let rebound: Vec<(usize, u64)> = rebound
                    .iter()
                    .filter_map(|bound| {
                        Some((
                            self.number_of(&bound["name"])?,
                            bound["delivery_ack_seq"].as_u64()?,
                        ))
                    })
                    .collect();
                self.agents
                    .retain(|agent, _| rebound.iter().any(|(rebound, _)| rebound == agent));
                for (agent, acknowledged) in rebound {
                    let has = self.agents.entry(agent).or_default();
                    let goes_on = has.is_named && has.cursor.is_some_and(|cursor| cursor >= acknowledged);
                    if !goes_on && let Some(version) = versions.get(&agent) {
                        self.begin(agent, *version, acknowledged).await?;
                    }
                }
                Some(())
            }
            Some("reply") => {
                let mut words = id.split(' ').skip(1).map(|word| word.parse().expect("a number"));
                let (Some(agent), Some(version)) = (words.next(), words.next()) else {
                    return Some(());
                };
                let agent = usize::try_from(agent).expect("a few");
                let acknowledged = frame["data"]["delivery_ack_seq"].as_u64()?;
                if let Some(token) = frame["data"]["token"].as_str() {
                    let name = self.agent(agent);
                    self.program.handler.tokens.insert(name, token.to_owned());
                }
                self.begin(agent, version, acknowledged).await
            }
            Some("error") => {
                let node = self.program.number;
                self.program
                    .log
                    .trace(now_ms(), format_args!("fleet {node} is told {frame}"));
                match frame["code"].as_str() {
                    Some("agent_location_conflict") => {
                        self.program.marks.hit("refused: the agent is elsewhere");
                    }
                    Some("invalid_message") => {
                        self.program.marks.hit("refused: a number that was never sent");
                    }
                    _ => {}
                }
                Some(())
            }
            _ => Some(()),
        }
    }

    /// Begins with an agent, or begins anew: its frames go on behind what is acknowledged.
    async fn begin(&mut self, agent: usize, version: u64, acknowledged: u64) -> Goes {
        let has = self.agents.get(&agent);
        let was_early = has.is_some_and(|has| !has.is_named && has.cursor > Some(acknowledged));
        let before = self.agents.insert(
            agent,
            Has {
                version: Some(version),
                is_named: true,
                cursor: Some(acknowledged),
                acknowledged,
                shown: BTreeMap::new(),
                was_early,
            },
        );
        self.named.insert(agent, version);
        self.number(agent, Step::Named(acknowledged));
        if before.is_some_and(|has| has.is_named) {
            self.program.marks.hit("agent named again");
            return Some(());
        }
        let disks = &self.program.fleets.disks[self.program.number];
        let on_disk = disks.lock().expect("a run has one thread").get(&agent).copied();
        match on_disk {
            // What it knew before its machine was gone it says again.
            Some(on_disk) if self.program.rng.bool() => {
                self.program
                    .marks
                    .hit_if(on_disk < acknowledged, "node came back with an old cursor");
                self.acknowledge_one(agent, on_disk).await
            }
            _ => Some(()),
        }
    }

    fn number(&self, agent: usize, step: Step) {
        let numbered = Numbered {
            connection: self.id,
            names_first: self.program.plan.names_first,
            agent: self.program.first_agent + agent,
            step,
            at_ms: now_ms(),
        };
        self.program.log.trace(now_ms(), format_args!("{numbered:?}"));
        self.program.log.history().numbered.push(numbered);
    }

    /// Takes a frame, as Agent Relay's broker does.
    async fn take(&mut self, frame: &Value) -> Goes {
        let agent = self.number_of(&frame["agent"])?;
        let number = frame["seq"].as_u64()?;
        self.number(agent, Step::Frame(number));
        let names_first = self.program.plan.names_first;
        let has = self.agents.entry(agent).or_default();
        let is_next = has.cursor.is_none_or(|cursor| {
            if names_first {
                number == cursor + 1
            } else {
                number > cursor
            }
        });
        if !is_next {
            // It has it, or has not what comes before it.
            let up_to = has.cursor.unwrap_or(0);
            return self.acknowledge_one(agent, up_to).await;
        }
        has.cursor = Some(number);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let delivery = text(&frame["delivery_id"]);
        has.shown.insert(number, delivery.clone());
        let shown = Shown {
            node: self.program.first_agent + agent,
            process: self.program.process,
            text: text(&frame["payload"]["data"]["text"]),
            delivery,
            redelivered: is_redelivered(&frame["payload"]["data"]),
            attempts: 0,
            at_ms: now_ms(),
        };
        self.program.log.trace(now_ms(), format_args!("{shown:?}"));
        self.program.log.history().shown.push(shown);
        Some(())
    }

    /// A heartbeat was answered, and so relay has heard what was acknowledged before it.
    fn know(&mut self, beat: &str) {
        for Acknowledged {
            agent,
            version,
            up_to,
        } in self.beats.remove(beat).unwrap_or_default()
        {
            let home = self.program.fleets.home(agent);
            let Some(has) = self.agents.get_mut(&agent) else {
                continue;
            };
            // An acknowledgement of an earlier binding is for nothing.
            let is_of_it = has.version == Some(version) && home.version == version && home.open == 0;
            if !is_of_it || home.node != self.program.number {
                continue;
            }
            let left = has.shown.split_off(&(up_to + 1));
            for delivery in std::mem::replace(&mut has.shown, left).into_values() {
                let given = Given {
                    node: self.program.first_agent + agent,
                    delivery,
                    is_final: true,
                    at_ms: now_ms(),
                };
                self.program.log.trace(now_ms(), format_args!("{given:?}"));
                self.program.log.history().receipts.push(given);
            }
        }
    }
}

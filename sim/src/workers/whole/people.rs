//! What workers, those who ask for them and the person do.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use hyper::Method;
use relay::server::KEEP_ALIVE;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::history::{By, Came, Showing, What, lead_name};
use super::plan::WORKER_NAMES;
use super::starter::Running;
use super::world::Shared;
use crate::agent::understand;
use crate::client::{Ask, Losses, PATIENCE, ROOM_FOR_ALL, Session, Settings};
use crate::history::{Asked, Belongs, Filter, Outcome};
use crate::nodes::api::Api;
use crate::plan::{Dialect, Transport};

/// Longer than relay lets a worker take to start.
const SPAWN_PATIENCE: Duration = Duration::from_secs(45);

/// How long an answer is waited for that another agent is to give, in milliseconds.
const ANSWER_MS: u64 = 4_000;

/// How often one reads that does nothing else any more, in milliseconds.
const QUIET_PAUSE_MS: u64 = 3_000;

/// How soon one asks again for a worker of a name that it has released, in milliseconds.
const AGAIN_PAUSE_MS: u64 = 200;

/// An agent with the tools of Agent Relay.
struct Caller {
    shared: Shared,
    by: By,
    name: String,
    /// Whose worker it is, if it is one.
    parent: Option<String>,
    session: Session,
    /// Whom it has asked for last.
    own: Option<String>,
    /// The name that it has released, and asks for again.
    again: Option<String>,
    rng: Rng,
}

/// A worker: comes to relay or does not, does this and that, and ends at any moment, or goes on until it is ended.
pub async fn works(shared: Shared, running: Arc<Running>, mut rng: Rng) {
    let start = &running.start;
    let lives = if rng.u8(..3) == 0 {
        Duration::from_millis(rng.u64(100..shared.plan.lives_ms_max))
    } else {
        Duration::MAX
    };
    let comes_ms = if rng.u8(..4) == 0 { 10_000 } else { 500 };
    let comes_ms = rng.u64(..comes_ms);
    let never_comes = rng.u8(..10) == 0;
    let name = start.agent.to_string();
    let work = async {
        if never_comes {
            shared.marks.hit("never spoke");
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_millis(comes_ms)).await;
        // As its bridge says it, or as its address in the configuration of its CLI does.
        let of_bridge = if rng.bool() { "&role=&cli=claude" } else { "" };
        let instance = start.instance;
        let transport = a_transport(&mut rng);
        let query = format!("agent={name}&tools=agent-relay&instance={instance}{of_bridge}");
        let session = shared.session(transport, query);
        let caller = Caller {
            shared: shared.clone(),
            by: By::Worker(running.number),
            name: name.clone(),
            parent: Some(start.parent.to_string()),
            session,
            own: None,
            again: None,
            rng,
        };
        caller.acts().await;
    };
    tokio::select! {
        biased;
        () = sleep(lives.min(Duration::from_secs(100_000))) => {}
        () = work => {}
    }
}

/// An agent that asks for workers, as long as its machine is there.
pub async fn leads(shared: Shared, number: usize, life: u64) {
    let mut rng = shared.rng((number as u64 + 1) << 48 ^ life << 40);
    let transport = a_transport(&mut rng);
    let name = lead_name(number);
    let caller = Caller {
        session: shared.session(transport, format!("agent={name}&tools=agent-relay")),
        shared,
        by: By::Lead(number),
        name,
        parent: None,
        own: None,
        again: None,
        rng,
    };
    caller.acts().await;
}

impl Shared {
    fn session(&self, transport: Transport, address: String) -> Session {
        Session::open(Settings {
            transport,
            dialect: Dialect::Bare,
            bound_to: None,
            mate: None,
            address: Some(address),
            reply_max: ROOM_FOR_ALL,
            mute_max: 3 * KEEP_ALIVE,
            ledger: self.ledger.clone(),
            log: self.log.sessions.clone(),
            marks: self.marks.clone(),
            bug: None,
        })
    }
}

fn a_transport(rng: &mut Rng) -> Transport {
    [Transport::Http, Transport::Http, Transport::HttpOnce][rng.usize(..3)]
}

/// Tells whether a worker was not asked for since one of its name ends still.
fn is_too_early(came: &Came) -> bool {
    matches!(came, Came::Refused(text) if text.contains("is ending"))
}

fn a_worker_name(rng: &mut Rng) -> String {
    format!("w{}", rng.u64(..WORKER_NAMES))
}

impl Caller {
    /// Does one thing after the other, for ever.
    async fn acts(mut self) {
        loop {
            let is_quiet = self.shared.is_quiet();
            let is_lead = self.parent.is_none();
            let pause_ms = match (is_quiet, &self.again) {
                (true, _) => QUIET_PAUSE_MS,
                (false, None) if is_lead => self.shared.plan.pause_ms_max,
                (false, None) => self.shared.plan.pause_ms_max / 4,
                (false, Some(_)) => AGAIN_PAUSE_MS,
            };
            let ms = self.rng.u64(..pause_ms);
            sleep(Duration::from_millis(ms)).await;
            if let Some(name) = self.again.take() {
                self.spawns(name).await;
                continue;
            }
            match self.rng.u8(..12) {
                _ if is_quiet => self.reads().await,
                0 | 1 if is_lead || self.rng.u8(..4) == 0 => {
                    let name = a_worker_name(&mut self.rng);
                    self.spawns(name).await;
                }
                2 if is_lead || self.rng.u8(..3) == 0 => self.releases().await,
                3 | 4 => {
                    let to = a_worker_name(&mut self.rng);
                    self.posts(to).await;
                }
                5 | 6 => {
                    let to = self.parent.clone();
                    let to = to.unwrap_or_else(|| a_worker_name(&mut self.rng));
                    self.posts(to).await;
                }
                7 => self.asks().await,
                8 if self.rng.bool() => self.session.reconnect(),
                _ => self.reads().await,
            }
        }
    }

    async fn calls(
        &self,
        what: What,
        tool: &str,
        arguments: Value,
        asked: &Asked,
        patience: Duration,
    ) -> Came {
        let place = self.shared.log.calls(self.by, what.clone());
        let ask = Ask {
            id: self.session.next_id(),
            method: "tools/call",
            params: json!({"name": tool, "arguments": arguments}),
            patience,
            told: None,
            losses: Losses::default(),
        };
        let (_, answer) = self.session.ask(&ask).await;
        let came = match understand(asked, &answer, false) {
            Outcome::Messages { seen, .. } => {
                for message in seen {
                    self.shared.log.shown(Showing {
                        to: self.by,
                        of: self.name.clone(),
                        id: message.id,
                        body: message.body,
                        is_marked: message.redelivered,
                    });
                }
                Came::Done
            }
            Outcome::Refused(text) => Came::Refused(text),
            Outcome::Unknown(why) => {
                self.shared.log.trace(format_args!("call {place}: {why}"));
                Came::Unknown
            }
            Outcome::Posted(_)
            | Outcome::Pending(_)
            | Outcome::Grouped
            | Outcome::Greeted { .. }
            | Outcome::Tools(_) => Came::Done,
        };
        self.shared.log.came(place, came.clone());
        came
    }

    fn read(&self) -> Asked {
        Asked::Read {
            of: self.name.clone(),
            wait_ms: 0,
            limit: None,
            filter: Filter::default(),
        }
    }

    fn post(&self, to: &str, body: &str) -> Asked {
        Asked::Post {
            from: self.name.clone(),
            to: to.to_owned(),
            kind: relay::engine::Kind::Free,
            body: body.to_owned(),
            belongs: Belongs::Nothing,
        }
    }

    async fn reads(&self) {
        let asked = self.read();
        self.calls(What::Read, "relay_inbox", json!({}), &asked, PATIENCE)
            .await;
    }

    async fn posts(&self, to: String) {
        let body = self.shared.log.writes(self.by);
        let arguments = json!({"to": to, "message": body});
        self.calls(
            What::Post,
            "relay_send",
            arguments,
            &self.post(&to, &body),
            PATIENCE,
        )
        .await;
    }

    /// Asks its parent, or a worker, and waits for the answer.
    async fn asks(&mut self) {
        let to = self.parent.clone();
        let to = to.unwrap_or_else(|| a_worker_name(&mut self.rng));
        let body = self.shared.log.writes(self.by);
        let arguments = json!({"to": to, "message": body, "await_response": true, "timeout_ms": ANSWER_MS});
        let patience = PATIENCE + Duration::from_millis(ANSWER_MS);
        self.calls(
            What::Ask,
            "relay_send",
            arguments,
            &self.post(&to, &body),
            patience,
        )
        .await;
    }

    async fn spawns(&mut self, name: String) {
        let arguments = json!({"name": name, "cli": "claude", "task": "a part"});
        // One in eight does not wait for it.
        let patience = match self.rng.u8(..8) {
            0 => Duration::from_millis(self.rng.u64(1..3_000)),
            _ => SPAWN_PATIENCE,
        };
        let what = What::Spawn(name.clone());
        let came = self
            .calls(what, "relay_spawn", arguments, &self.read(), patience)
            .await;
        let is_too_early = is_too_early(&came);
        if came == Came::Done {
            self.own = Some(name.clone());
        }
        self.again = is_too_early.then_some(name);
    }

    async fn releases(&mut self) {
        let own = self.own.take();
        let name = own.unwrap_or_else(|| a_worker_name(&mut self.rng));
        let arguments = json!({"name": name});
        let what = What::Release(name.clone());
        let came = self
            .calls(what, "relay_release", arguments, &self.read(), PATIENCE)
            .await;
        self.again = (came == Came::Done && self.rng.u8(..4) > 0).then_some(name);
    }
}

/// The person, by its own commands.
pub struct Person {
    shared: Shared,
    api: Api,
}

impl Person {
    /// Makes the person of a run.
    pub fn new(shared: Shared) -> Self {
        let api = Api(shared.ledger.clone());
        Self { shared, api }
    }

    /// Does this and that until all is quiet.
    pub async fn acts(self, life: u64) {
        let mut rng = self.shared.rng(1 << 62 ^ life << 40);
        let mut again: Option<String> = None;
        while !self.shared.is_quiet() {
            let pause_ms = match again {
                Some(_) => AGAIN_PAUSE_MS,
                None => 2 * self.shared.plan.pause_ms_max,
            };
            sleep(Duration::from_millis(rng.u64(..pause_ms))).await;
            if let Some(name) = again.take() {
                let came = self.spawns(&name).await;
                again = is_too_early(&came).then_some(name);
                continue;
            }
            let name = a_worker_name(&mut rng);
            match rng.u8(..6) {
                0 => drop(self.spawns(&name).await),
                1 | 2 => {
                    let is_done = self.releases(&name).await == Came::Done;
                    again = (is_done && rng.bool()).then_some(name);
                }
                3 | 4 => {
                    let body = self.shared.log.writes(By::Person);
                    let asked = json!({"to": name, "body": body});
                    self.calls(What::Post, "/api/send", asked).await;
                }
                _ => drop(self.reads("user").await),
            }
        }
    }

    async fn calls(&self, what: What, path: &str, asked: Value) -> (Came, Value) {
        let place = self.shared.log.calls(By::Person, what);
        let answer = self.api.ask(Method::POST, path, "", Some(asked)).await;
        let (came, said) = match answer {
            None => (Came::Unknown, Value::Null),
            Some(answer) if answer.is_ok() => (Came::Done, answer.data),
            Some(answer) => {
                let text = answer.data["error"].as_str().unwrap_or_default();
                (Came::Refused(text.to_owned()), Value::Null)
            }
        };
        self.shared.log.came(place, came.clone());
        (came, said)
    }

    async fn spawns(&self, name: &str) -> Came {
        let asked = json!({"name": name, "cli": "codex", "task": "a part"});
        let what = What::Spawn(name.to_owned());
        self.calls(what, "/api/spawn", asked).await.0
    }

    /// Releases a worker.
    pub async fn releases(&self, name: &str) -> Came {
        let what = What::Release(name.to_owned());
        let asked = json!({"name": name});
        self.calls(what, "/api/release", asked).await.0
    }

    /// Reads all of an inbox. Returns how much that was; none if nobody knows.
    pub async fn reads(&self, of: &str) -> Option<usize> {
        let (_, said) = self.calls(What::Read, "/api/read", json!({"for": of})).await;
        let messages = said["messages"].as_array()?;
        for message in messages {
            let word = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
            self.shared.log.shown(Showing {
                to: By::Person,
                of: of.to_owned(),
                id: word("id"),
                body: word("body"),
                is_marked: message["redelivered"] == true,
            });
        }
        Some(messages.len())
    }
}

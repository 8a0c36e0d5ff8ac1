//! Who asks for actions, and looks again and again what came of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use hyper::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{ActionPlan, Of};
use crate::client::now_ms;
use crate::marks::Marks;
use crate::nodes::api::Api;
use crate::nodes::history::{Invocation, Log, Seen};
use crate::nodes::plan::node_name;

/// The name of who asks.
const NAME: &str = "caller";

/// How often it looks, at the least and at the most, in milliseconds.
const LOOKS_MS: std::ops::Range<u64> = 300..3_000;

/// How often it looks at what has ended.
const LOOKS_AGAIN: u32 = 3;

/// What is on the disk of who asks.
#[derive(Debug, Default)]
pub struct Disk {
    /// How much was asked.
    asked: usize,
    /// What is looked at still: its action, its id, and how often it was seen to have ended.
    open: Vec<(String, String, u32)>,
}

/// Who asks.
pub struct Caller {
    /// What.
    pub plan: ActionPlan,
    /// Who is the first agent of the nodes for several.
    pub first_agent: usize,
    /// What it draws from.
    pub rng: Rng,
    /// What it knows when its machine comes back.
    pub disk: Arc<Mutex<Disk>>,
    /// How it asks.
    pub api: Api,
    /// Where it is written down what it saw.
    pub log: Log,
    /// Where it is counted what happened.
    pub marks: Marks,
}

impl Caller {
    /// Asks until all is asked, and looks until nothing is open.
    pub async fn runs(mut self) {
        let mut token = None;
        let mut next = self.pause();
        loop {
            sleep(Duration::from_millis(self.rng.u64(LOOKS_MS))).await;
            let Some(with) = &token else {
                token = self.api.agent_token(NAME).await;
                continue;
            };
            if next.is_some_and(|next| next <= Instant::now()) {
                let ask = self.disk().asked;
                self.disk().asked += 1;
                self.ask(ask, with).await;
                next = self.pause();
            }
            if self.look(with).await.is_none() {
                token = None;
            }
        }
    }

    fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.disk.lock().expect("a run has one thread")
    }

    /// Returns when the next thing is to be asked, if there is one.
    fn pause(&self) -> Option<Instant> {
        let ask = self.plan.asks.get(self.disk().asked)?;
        Some(Instant::now() + Duration::from_millis(ask.pause_ms))
    }

    async fn ask(&self, number: usize, token: &str) {
        let ask = self.plan.asks[number];
        let asked_ms = now_ms();
        let action = ask.of.action();
        let path = format!("/v1/actions/{action}/invoke");
        let asked = json!({"input": {"number": number, "answer": ask.answer.word()}});
        let answer = self
            .api
            .ask(Method::POST, &path, token, Some(asked.clone()))
            .await;
        let unknown = answer.as_ref().is_some_and(|answer| answer.status == 404);
        let answer = match ask.of {
            // Whoever has the key registers the actions of agents.
            Of::Agent(agent) if unknown => {
                let Some(key) = self.api.key().await else { return };
                let handler = node_name(self.first_agent + agent);
                let made = json!({"name": action, "handler_agent": handler});
                self.api.ask(Method::POST, "/v1/actions", &key, Some(made)).await;
                self.api.ask(Method::POST, &path, token, Some(asked)).await
            }
            Of::Agent(_) | Of::Node(_) => answer,
        };
        self.log.trace(now_ms(), format_args!("{ask:?} {answer:?}"));
        let Some(answer) = answer else { return };
        if answer.data["code"] == "node_offline" {
            self.marks.hit("refused: the node is away");
        }
        if let (true, Some(id)) = (answer.is_ok(), answer.data["invocation_id"].as_str()) {
            self.marks.hit_if(
                answer.data["status"] == "invoked",
                "invocation waits for its handler",
            );
            self.disk().open.push((action, id.to_owned(), 0));
            self.log.history().invocations.push(Invocation {
                id: id.to_owned(),
                of: ask.of,
                asked_ms,
            });
        }
    }

    /// Looks at what is open. Nothing comes back where its token is not good any more.
    async fn look(&self, token: &str) -> Option<()> {
        // It stays on the disk meanwhile: the machine may lose power.
        let open = self.disk().open.clone();
        let mut left = Vec::new();
        let mut is_good = true;
        for (action, id, times) in open {
            let path = format!("/v1/actions/{action}/invocations/{id}");
            let answer = self.api.ask(Method::GET, &path, token, None).await;
            let Some(answer) = answer else {
                left.push((action, id, times));
                continue;
            };
            match answer.status {
                401 => {
                    is_good = false;
                    left.push((action, id, times));
                }
                200 => {
                    let seen = Seen::read(&id, &answer.data, now_ms());
                    self.log.trace(now_ms(), format_args!("{seen:?}"));
                    let has_ended = seen.result.is_some();
                    self.log.history().seen.push(seen);
                    if !has_ended || times + 1 < LOOKS_AGAIN {
                        left.push((action, id, times + u32::from(has_ended)));
                    }
                }
                // A restart of relay has forgotten it.
                _ => {}
            }
        }
        self.disk().open = left;
        is_good.then_some(())
    }
}

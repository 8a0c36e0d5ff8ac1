//! Clients that list their deliveries: agents without a node, which ask again and again what there is for them, and say over HTTP what
//! became of each.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use hyper::Method;
use relay::engine::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::api::Api;
use super::history::{Deferral, Given, Listed, Log, Shown};
use super::plan::{Fate, Plan, fate_of, node_name};
use crate::client::now_ms;
use crate::marks::Marks;

/// How often one lists, at the least and at the most, in milliseconds.
const LISTS_MS: std::ops::Range<u64> = 300..3_000;

/// What is on the disk of one.
#[derive(Debug, Default)]
pub struct Disk {
    /// Which deliveries it has shown.
    shown: BTreeSet<String>,
    /// For which of them relay has its last word.
    settled: BTreeSet<String>,
}

/// A start of the program of such an agent.
pub struct Lister {
    /// Which agent.
    pub agent: usize,
    /// Which start of a program it is.
    pub process: u64,
    /// What it draws from.
    pub rng: Rng,
    /// What it knows when its machine comes back.
    pub disk: Arc<Mutex<Disk>>,
    /// How it asks.
    pub api: Api,
    /// Where it is written down what it got.
    pub log: Log,
    /// Where it is counted what happened.
    pub marks: Marks,
}

/// Draws on which machines they run, by numbers of their own: in two runs of three there are none.
pub fn draw(seed: u64, boxes: usize) -> Vec<usize> {
    let mut rng = Rng::with_seed(seed ^ 0x6c69_7374_6572_7300);
    if rng.u32(0..3) > 0 {
        return Vec::new();
    }
    (0..rng.usize(1..=2)).map(|_| rng.usize(..boxes)).collect()
}

/// Sends some of the posts to them.
pub fn draw_posts(plan: &mut Plan) {
    let mut rng = Rng::with_seed(plan.seed ^ 0x746f_6c69_7374_7300);
    let (first, many) = (plan.first_of_listers(), plan.listers.len());
    for post in plan.posters.iter_mut().flat_map(|poster| &mut poster.posts) {
        if post.to.is_some() && many > 0 && rng.u32(0..3) == 0 {
            post.to = Some(first + rng.usize(..many));
        }
    }
}

impl Lister {
    /// Lists until its machine is gone.
    pub async fn runs(mut self) {
        let mut token = None;
        loop {
            sleep(Duration::from_millis(self.rng.u64(LISTS_MS))).await;
            match &token {
                None => token = self.api.agent_token(&node_name(self.agent)).await,
                Some(with) => {
                    if self.list(with).await.is_none() {
                        token = None;
                    }
                }
            }
        }
    }

    fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.disk.lock().expect("a run has one thread")
    }

    /// Lists, and says what became of each. Nothing comes back where its token is not good any more.
    async fn list(&mut self, token: &str) -> Option<()> {
        let asked_ms = now_ms();
        let Some(answer) = self.api.ask(Method::GET, "/v1/deliveries", token, None).await else {
            return Some(());
        };
        if answer.status == 401 {
            return None;
        }
        for row in answer.data.as_array().into_iter().flatten() {
            let delivery = row["id"].as_str()?.to_owned();
            let listed = Listed {
                delivery: delivery.clone(),
                asked_ms,
                at_ms: now_ms(),
            };
            self.log.history().listed.push(listed);
            let is_new = self.disk().shown.insert(delivery.clone());
            // What is listed until there is a receipt is shown once.
            if is_new || self.disk().settled.contains(&delivery) {
                self.show(row, &delivery, is_new);
            } else {
                self.marks.hit("listed again");
            }
            self.give(row, &delivery, is_new, token).await;
        }
        Some(())
    }

    fn show(&self, row: &Value, delivery: &str, is_new: bool) {
        let shown = Shown {
            node: self.agent,
            process: self.process,
            text: row["message"]["text"].as_str().unwrap_or_default().to_owned(),
            delivery: delivery.to_owned(),
            redelivered: !is_new || row["redelivered"] == true,
            attempts: 0,
            at_ms: now_ms(),
        };
        self.log.trace(now_ms(), format_args!("listed {shown:?}"));
        self.log.history().shown.push(shown);
    }

    /// Says what became of a delivery.
    async fn give(&mut self, row: &Value, delivery: &str, is_new: bool, token: &str) {
        let (fate, _) = fate_of(row["message"]["text"].as_str().unwrap_or_default());
        let now = SystemTime::UNIX_EPOCH + turmoil::since_epoch().unwrap_or_default();
        let (verb, body, until_ms) = match fate {
            Fate::Error(_) if is_new => return,
            Fate::Failed => ("fail", json!({"error": "it is not wanted"}), None),
            Fate::Deferred(ms) if is_new => {
                let until = now + Duration::from_millis(ms);
                let since = until.duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
                let millis = i64::try_from(since.as_millis()).expect("it is soon");
                let at = Timestamp::from_millis(millis).to_string();
                ("defer", json!({"available_at": at}), Some(now_ms() + ms))
            }
            Fate::Delivered | Fate::Accepted | Fate::Deferred(_) | Fate::Error(_) => ("ack", json!({}), None),
        };
        let path = format!("/v1/deliveries/{delivery}/{verb}");
        let answer = self.api.ask(Method::POST, &path, token, Some(body)).await;
        self.log
            .trace(now_ms(), format_args!("{verb} {delivery} {answer:?}"));
        if !answer.is_some_and(|answer| answer.is_ok()) {
            return;
        }
        let at_ms = now_ms();
        let is_final = until_ms.is_none();
        if let Some(until_ms) = until_ms {
            self.marks.hit("deferred from the list");
            self.log.history().deferrals.push(Deferral {
                delivery: delivery.to_owned(),
                from_ms: at_ms,
                until_ms,
            });
        } else {
            self.marks.hit("receipt for what was listed");
            self.disk().settled.insert(delivery.to_owned());
        }
        let given = Given {
            node: self.agent,
            delivery: delivery.to_owned(),
            is_final,
            at_ms,
        };
        self.log.trace(at_ms, format_args!("{given:?}"));
        self.log.history().receipts.push(given);
    }
}

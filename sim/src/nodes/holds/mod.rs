//! The person holds agents, or all there is, looks, lets some of it pass and drops some. In the end it holds nothing any more.

pub mod tap;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::api::Api;
use super::history::Log;
use super::plan::{node_name, poster_name};
use crate::client::now_ms;

/// How often the person looks in the end whether something is held, in milliseconds: what it asked for may have been on the way for long.
const LOOKS_MS: u64 = 2_000;

/// What the person does; nothing in two runs of three.
#[derive(Debug, Clone, Default)]
pub struct HoldsPlan {
    /// On which machine.
    pub on: usize,
    /// What, one after the other.
    pub steps: Vec<Step>,
}

/// Something that the person does.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// How long after the one before, in milliseconds.
    pub pause_ms: u64,
    /// What.
    pub what: What,
}

/// What it does.
#[derive(Debug, Clone, Copy)]
pub enum What {
    /// Holds all.
    HoldAll,
    /// Holds who is delivered to.
    HoldAgent(usize),
    /// Holds who posts.
    HoldPoster(usize),
    /// Lets one of the messages pass that are held.
    Allow,
    /// Drops one of them.
    Drop,
    /// Ends one of the holds.
    Lift,
}

impl HoldsPlan {
    /// Draws it for a seed, by numbers of its own.
    pub fn draw(seed: u64, boxes: usize, duration_ms: u64, agents: usize, posters: usize) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x686f_6c64_7300_0000);
        if rng.u32(0..3) > 0 {
            return Self::default();
        }
        let many = rng.usize(6..=30);
        let pause_ms_max = 2 * duration_ms / many as u64;
        let what = |rng: &mut Rng| match rng.u32(0..12) {
            0 => What::HoldAll,
            1..=3 => What::HoldAgent(rng.usize(..agents)),
            4..=5 => What::HoldPoster(rng.usize(..posters)),
            6..=7 => What::Allow,
            8 => What::Drop,
            _ => What::Lift,
        };
        let step = |rng: &mut Rng| Step {
            pause_ms: rng.u64(..pause_ms_max),
            what: what(rng),
        };
        Self {
            on: rng.usize(..boxes),
            steps: (0..many).map(|_| step(&mut rng)).collect(),
        }
    }
}

/// The person, on its machine.
pub struct Person {
    /// What it does.
    pub plan: HoldsPlan,
    /// Which step is the next; a machine that comes back goes on from there.
    pub next: Arc<AtomicUsize>,
    /// What it draws from.
    pub seed: u64,
    /// How it asks.
    pub api: Api,
    /// Where it is written down.
    pub log: Log,
}

impl Person {
    /// Does all that is planned, and holds nothing from then on.
    pub async fn runs(self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(step) = self.plan.steps.get(number) else {
                break;
            };
            sleep(Duration::from_millis(step.pause_ms)).await;
            let mut rng = Rng::with_seed(self.seed ^ ((number as u64 + 1) << 32));
            self.does(step.what, &mut rng).await;
        }
        loop {
            for (path, body) in lifts(&self.list().await) {
                self.asks(path, body).await;
            }
            sleep(Duration::from_millis(LOOKS_MS)).await;
        }
    }

    async fn does(&self, what: What, rng: &mut Rng) {
        let one = |mut all: Vec<(&'static str, Value)>, rng: &mut Rng| {
            let is_there = !all.is_empty();
            is_there.then(|| all.swap_remove(rng.usize(..all.len())))
        };
        let asked = match what {
            What::HoldAll => Some(("/api/hold", json!({"all": true}))),
            What::HoldAgent(agent) => Some(("/api/hold", json!({"agent": node_name(agent)}))),
            What::HoldPoster(poster) => Some(("/api/hold", json!({"agent": poster_name(poster)}))),
            What::Allow => one(messages(&self.list().await, "/api/allow"), rng),
            What::Drop => one(messages(&self.list().await, "/api/drop"), rng),
            What::Lift => one(lifts(&self.list().await), rng),
        };
        if let Some((path, body)) = asked {
            self.asks(path, body).await;
        }
    }

    async fn list(&self) -> Value {
        let answer = self.asks("/api/hold", json!({})).await;
        answer.unwrap_or_default()
    }

    async fn asks(&self, path: &str, body: Value) -> Option<Value> {
        let answer = self.api.ask(Method::POST, path, "", Some(body.clone())).await;
        self.log.trace(now_ms(), format_args!("{path} {body} {answer:?}"));
        answer.map(|answer| answer.data)
    }
}

/// What is to be asked about each message that is held, by the beginning of its id.
fn messages(list: &Value, path: &'static str) -> Vec<(&'static str, Value)> {
    let all = list["messages"].as_array().into_iter().flatten();
    let ids = all.filter_map(|message| message["id"].as_str()?.get(..8));
    ids.map(|id| (path, json!({"message": id}))).collect()
}

/// What is to be asked for so that each hold ends.
fn lifts(list: &Value) -> Vec<(&'static str, Value)> {
    let agents = list["agents"].as_array().into_iter().flatten();
    let mut lifts: Vec<_> = agents
        .map(|agent| ("/api/allow", json!({"agent": agent})))
        .collect();
    if list["all"] == true {
        lifts.push(("/api/allow", json!({"all": true})));
    }
    lifts
}

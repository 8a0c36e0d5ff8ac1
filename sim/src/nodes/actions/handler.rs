//! What a node for several agents does about what it is asked.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use hyper::Method;
use serde_json::{Value, json};

use super::Answer;
use crate::client::now_ms;
use crate::marks::Marks;
use crate::nodes::api::Api;
use crate::nodes::history::{Log, SaidOf};

/// What a start of a node's program knows of what it was asked.
pub struct Handler {
    /// How it asks.
    pub api: Api,
    /// Where it is written down what it said.
    pub log: Log,
    /// Where it is counted what happened.
    pub marks: Marks,
    /// The tokens of its agents, as it was told last.
    pub tokens: BTreeMap<String, String>,
    /// Which ones it has heard of.
    heard: BTreeSet<String>,
    /// What it does, and how many ticks later it says so.
    doing: Vec<(Asked, u64)>,
    /// Counts what it says, so that no two answers are the same.
    said: u64,
    /// Which start of a program it is.
    process: u64,
}

/// What it was asked.
struct Asked {
    id: String,
    action: String,
    agent: Option<String>,
    answer: Answer,
}

impl Handler {
    /// Begins with nothing.
    pub fn new(api: Api, log: Log, marks: Marks, process: u64) -> Self {
        Self {
            api,
            log,
            marks,
            tokens: BTreeMap::new(),
            heard: BTreeSet::new(),
            doing: Vec::new(),
            said: 0,
            process,
        }
    }

    /// Hears what it is asked. Nothing comes back if its connection ends with that.
    pub fn hear(&mut self, frame: &Value, rng: &mut Rng) -> Option<()> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let id = text(&frame["invocation_id"])?;
        self.log.trace(now_ms(), format_args!("asked {frame}"));
        let is_new = self.heard.insert(id.clone());
        self.marks.hit_if(!is_new, "asked again");
        let answer = Answer::of_word(frame["input"]["answer"].as_str().unwrap_or_default());
        if answer == Answer::Gone && is_new {
            self.marks.hit("handler gone with an invocation in hand");
            return None;
        }
        let asked = Asked {
            id,
            action: text(&frame["action"])?,
            agent: text(&frame["agent_name"]),
            answer,
        };
        self.doing.push((asked, rng.u64(0..4)));
        Some(())
    }

    /// Returns what it says now over its connection; what it says by the API is said with that.
    pub async fn says(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.doing)
            .into_iter()
            .partition(|(_, ticks)| *ticks == 0);
        self.doing = later
            .into_iter()
            .map(|(asked, ticks)| (asked, ticks - 1))
            .collect();
        for (asked, _) in due {
            let token = asked
                .agent
                .as_ref()
                .and_then(|agent| self.tokens.get(agent))
                .cloned();
            match (asked.answer, token) {
                (Answer::Error, _) => frames.push(self.say(&asked, "error")),
                (Answer::Twice, _) => {
                    frames.push(self.say(&asked, "output"));
                    frames.push(self.say(&asked, "error"));
                }
                (Answer::ByCall, Some(token)) => {
                    let body = self.say(&asked, "output");
                    let body = json!({"output": body["output"]});
                    let path = format!("/v1/actions/{}/invocations/{}/complete", asked.action, asked.id);
                    let answer = self.api.ask(Method::POST, &path, &token, Some(body)).await;
                    let is_taken = answer.as_ref().is_some_and(super::super::api::Answer::is_ok);
                    self.marks.hit_if(is_taken, "invocation completed by a call");
                    if !is_taken {
                        // Nobody knows, or the agent has another token by now.
                        let again = Answer::Output;
                        self.doing.push((
                            Asked {
                                answer: again,
                                ..asked
                            },
                            1,
                        ));
                    }
                }
                (Answer::Output | Answer::ByCall | Answer::Gone, _) => {
                    frames.push(self.say(&asked, "output"))
                }
            }
        }
        frames
    }

    fn say(&mut self, asked: &Asked, kind: &str) -> Value {
        self.said += 1;
        let text = format!("{kind} {} of {}", self.said, self.process);
        let said = SaidOf {
            id: asked.id.clone(),
            result: text.clone(),
        };
        self.log.trace(now_ms(), format_args!("{said:?}"));
        self.log.history().said.push(said);
        json!({"type": "action.result", "invocation_id": asked.id, kind: text})
    }
}

//! Who posts, and who asks for what is held.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::history::{Flush, Post};
use super::plan::{Key, agent_name, sender_name, text};
use super::world::{Phase, Shared};
use crate::client::now_ms;
use crate::nodes::api::Api;

/// How long one waits before it asks again for what it cannot do without.
const ASK_AGAIN: Duration = Duration::from_millis(700);

/// How often all that is held is asked for in the end.
const LAST_FLUSHES: Duration = Duration::from_secs(4);

/// A token that no agent has.
const NONE: &str = "";

/// Posts what a sender has to, from where it was.
pub async fn sends(shared: Shared, sender: usize) {
    let api = Api(shared.ledger.clone());
    let plan = &shared.plan;
    let mut token = NONE.to_owned();
    loop {
        let number = shared.next_posts[sender].fetch_add(1, Ordering::Relaxed);
        let Some(post) = plan.senders[sender].posts.get(number) else {
            return;
        };
        sleep(Duration::from_millis(post.pause_ms)).await;
        if now_ms() >= plan.duration_ms {
            return;
        }
        let key = Key { sender, number };
        let priority = if post.is_urgent { "urgent" } else { "normal" };
        let mut asked = json!({
            "to": agent_name(post.to),
            "text": text(key, post.to, post.mode, post.bytes),
            "priority": priority,
        });
        if let Some(mode) = post.mode {
            asked["mode"] = mode.as_str().into();
        }
        let record = Post {
            to: post.to,
            mode: post.mode,
            bytes: post.bytes,
            sent_ms: now_ms(),
            id: None,
            refused: None,
        };
        shared.log.history().posts.insert(key, record);
        let answer = loop {
            if token == NONE {
                match api.agent_token(&sender_name(sender)).await {
                    Some(new) => token = new,
                    None if now_ms() >= plan.duration_ms => return,
                    None => sleep(ASK_AGAIN).await,
                }
                continue;
            }
            match api.ask(Method::POST, "/v1/dm", &token, Some(asked.clone())).await {
                // It went with a life of relay.
                Some(answer) if answer.status == 401 => token = NONE.to_owned(),
                answer => break answer,
            }
        };
        let mut history = shared.log.history();
        let record = history.posts.get_mut(&key).expect("it was put there");
        match answer {
            Some(answer) if answer.is_ok() => {
                record.id = answer.data["message"]["id"].as_str().map(str::to_owned);
            }
            Some(answer) if answer.status < 500 => record.refused = Some(answer.data.to_string()),
            Some(_) | None => shared.marks.hit("post unknown to its sender"),
        }
        let line = format!("post {key:?} {record:?}");
        drop(history);
        shared.log.trace(now_ms(), line);
    }
}

/// Asks for what is held for an agent, again and again.
pub async fn flushes(shared: Shared, agent: usize) {
    let api = Api(shared.ledger.clone());
    let mut token = NONE.to_owned();
    loop {
        let every_ms = shared.plan.habits.flushes_ms;
        let pause = match shared.phase() {
            Phase::Faulty if every_ms > 0 => Duration::from_millis(every_ms),
            Phase::Faulty | Phase::Quiet => {
                sleep(ASK_AGAIN).await;
                continue;
            }
            Phase::Last => LAST_FLUSHES,
        };
        sleep(pause).await;
        if token == NONE {
            token = api.agent_token(&agent_name(agent)).await.unwrap_or_default();
            continue;
        }
        let from_ms = now_ms();
        let until_ms = None;
        let flush = Flush {
            agent,
            from_ms,
            until_ms,
        };
        shared.log.trace(from_ms, format_args!("{flush:?}"));
        let place = {
            let mut history = shared.log.history();
            history.flushes.push(flush);
            history.flushes.len() - 1
        };
        let path = "/v1/deliveries/flush";
        let answer = api.ask(Method::POST, path, &token, Some(json!({}))).await;
        if answer.is_some() {
            shared.log.history().flushes[place].until_ms = Some(now_ms());
        }
        match answer {
            Some(answer) if answer.status == 401 => token = NONE.to_owned(),
            Some(answer) if answer.data["flushed"].as_u64() > Some(0) => shared.marks.hit("flushed"),
            Some(_) | None => {}
        }
    }
}

/// Asks relay what happened to a message.
pub async fn traced(shared: &Shared, id: &str) -> Option<Value> {
    let asked = json!({"message": id}).to_string();
    let answer = super::calls::post(&shared.ledger, "/api/trace", asked, super::calls::PATIENCE).await?;
    let said = answer.body.clone();
    answer.done();
    Some(said)
}

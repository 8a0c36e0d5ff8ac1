//! What was pushed in vain, for the person: `relay redrive`.

use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::asked::Asked;
use super::envelope::Failure;
use crate::engine::nodes::{Command, Reply};
use crate::engine::pushes::DeadLetter;
use crate::engine::{self, Who};

/// What `POST /api/dead-letters` and `POST /api/redrive` take.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whose {
    agent: Option<String>,
}

/// `POST /api/dead-letters`: `{"dead_letters": […]}`.
pub(super) async fn list(asked: Asked) -> Response {
    in_persons_words(async {
        let Whose { agent } = asked.json_or_nothing()?;
        let Reply::DeadLetters(all) = call(&asked, Command::DeadLetters { agent }).await? else {
            unreachable!("what was given up is asked for")
        };
        Ok(json!({"dead_letters": all.iter().map(row).collect::<Vec<Value>>()}))
    })
    .await
}

/// `POST /api/redrive`: `{"redriven", "hastened"}`: how many deliveries had been given up, and for how many agents pushes had paused.
pub(super) async fn redrive(asked: Asked) -> Response {
    in_persons_words(async {
        let Whose { agent } = asked.json_or_nothing()?;
        let Reply::Redriven { given_up, hastened } = call(&asked, Command::Redrive { agent }).await? else {
            unreachable!("what was given up is asked for again")
        };
        Ok(json!({"redriven": given_up, "hastened": hastened}))
    })
    .await
}

async fn in_persons_words(answer: impl Future<Output = Result<Value, Failure>>) -> Response {
    match answer.await {
        Ok(json) => axum::Json(json).into_response(),
        Err(failure) => failure.in_persons_words(),
    }
}

async fn call(asked: &Asked, command: Command) -> Result<Reply, Failure> {
    let engine::Reply::Nodes(reply) = asked.call(Who::Person, command).await? else {
        unreachable!("nodes are asked about")
    };
    Ok(*reply)
}

fn row(dead: &DeadLetter) -> Value {
    let message = &dead.delivery.message;
    json!({
        "agent": dead.agent.as_str(),
        "id": message.id.to_string(),
        "from": message.from.as_str(),
        "kind": message.kind.as_str(),
        "given_up_at": dead.given_up.at.to_string(),
        "error": dead.given_up.error,
        "body": message.body,
    })
}

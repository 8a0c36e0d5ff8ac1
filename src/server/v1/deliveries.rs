//! The deliveries of an agent, and its receipts for them.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::asked::{Asked, limit_of, moment};
use super::envelope::{Answer, Data, Failure};
use crate::engine::handling::Handling;
use crate::engine::receipts::{Command, Receipt, Refusal, Reply, State};
use crate::engine::{self, AgentName, Delivery, shown};
use crate::server::limits::DELIVERIES_SHOWN_MAX;
use crate::server::nodes;

/// What `POST /v1/deliveries/:id/ack` takes.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ack {
    status: Option<String>,
    retryable: Option<bool>,
    metadata: Option<Map<String, Value>>,
}

/// What `POST /v1/deliveries/:id/fail` takes.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    error: Option<String>,
    retryable: Option<bool>,
    metadata: Option<Map<String, Value>>,
}

/// What `POST /v1/deliveries/:id/defer` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Defer {
    available_at: String,
    reason: Option<String>,
    metadata: Option<Map<String, Value>>,
}

/// `GET /v1/deliveries`: what the agent has given no receipt for.
pub(super) async fn list(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    let accepted = format!("1 to {DELIVERIES_SHOWN_MAX}");
    let [limit, status] = asked.query([("limit", &accepted), ("status", "nothing")])?;
    if status.is_some() {
        // What is listed counts as shown, so that nothing of it may be left out behind that.
        let why = "what no receipt was given for is listed, and each says its status";
        return Err(Failure::not_supported("to list deliveries by their status", why));
    }
    let limit = limit_of(limit, DELIVERIES_SHOWN_MAX, DELIVERIES_SHOWN_MAX)?;
    let reply = asked.call_as(&agent, Command::List { limit }).await?;
    let engine::Reply::Receipts(Reply::Listed(all)) = reply else {
        unreachable!("a list of deliveries is asked for")
    };
    let rows = all.iter().map(|(delivery, state)| row(&agent, delivery, *state));
    Ok(Data::ok(rows.collect()))
}

/// `POST /v1/deliveries/:id/ack`.
pub(super) async fn ack(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    let Ack {
        status,
        retryable,
        metadata,
    } = asked.json_or_nothing()?;
    let receipt = match (status.as_deref(), retryable) {
        (Some("accepted"), _) => Receipt::Accepted {
            retryable: retryable.unwrap_or(false),
        },
        (None | Some("delivered"), None) => Receipt::Done,
        (None | Some("delivered"), Some(_)) => {
            let reason = "\"retryable\" is for the status \"accepted\"; what is delivered is done";
            return Err(Failure::invalid(reason));
        }
        (Some(given), _) => {
            let given = shown(given);
            return Err(Failure::invalid(format!(
                "\"status\" is {given:?}; accepted: delivered, accepted"
            )));
        }
    };
    give(&asked, &agent, receipt, metadata).await
}

/// `POST /v1/deliveries/:id/fail`.
pub(super) async fn fail(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    let Fail {
        error,
        retryable,
        metadata,
    } = asked.json_or_nothing()?;
    let receipt = Receipt::Failed {
        reason: error.map(String::into_boxed_str),
        retryable: retryable.unwrap_or(false),
    };
    give(&asked, &agent, receipt, metadata).await
}

/// `POST /v1/deliveries/:id/defer`.
pub(super) async fn defer(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    let Defer {
        available_at,
        reason,
        metadata,
    } = asked.json()?;
    let receipt = Receipt::Deferred {
        until: moment("available_at", &available_at)?,
        reason: reason.map(String::into_boxed_str),
    };
    give(&asked, &agent, receipt, metadata).await
}

/// `POST /v1/deliveries/flush`: has what is held go to the agent's node, and listed.
pub(super) async fn flush(asked: Asked) -> Answer {
    let agent = asked.agent()?;
    asked.nothing()?;
    let engine::Reply::Receipts(Reply::Flushed(flushed)) =
        asked.call_as(&agent, Command::Flush { agent: None }).await?
    else {
        unreachable!("what is held is flushed")
    };
    Ok(Data::ok(json!({"flushed": flushed})))
}

async fn give(
    asked: &Asked,
    agent: &AgentName,
    receipt: Receipt,
    metadata: Option<Map<String, Value>>,
) -> Answer {
    let delivery = asked.named();
    let Some(message) = nodes::message_of(delivery, agent).map(str::to_owned) else {
        let given = shown(delivery);
        return Err(engine::Refusal::from(Refusal::Unknown { given }).into());
    };
    let give = Command::Give {
        message: message.clone(),
        receipt,
        metadata: metadata.map(|metadata| Value::from(metadata).to_string().into_boxed_str()),
    };
    let engine::Reply::Receipts(Reply::Is(state)) = asked.call_as(agent, give).await? else {
        unreachable!("a receipt is given")
    };
    let (status, available_at) = words(state);
    Ok(Data::ok(json!({
        "id": delivery,
        "message_id": message,
        "agent_id": nodes::agent_id(agent),
        "status": status,
        "available_at": available_at,
    })))
}

fn row(agent: &AgentName, delivery: &Delivery, state: State) -> Value {
    let message = &delivery.message;
    let (status, available_at) = words(state);
    let place = nodes::place_of(message);
    let given: Option<Value> = message
        .metadata()
        .and_then(|given| serde_json::from_str(given).ok());
    let Handling {
        mode: _,
        priority,
        deadline,
    } = message.handling();
    json!({
        "id": nodes::delivery_id(message, agent),
        "message_id": message.id.to_string(),
        "channel_id": place,
        "agent_id": nodes::agent_id(agent),
        "status": status,
        "redelivered": delivery.redelivered,
        "mode": delivery.mode.as_str(),
        "priority": priority.as_str(),
        "deadline": deadline.map(|at| at.to_string()),
        "reason": nodes::reason(message, agent),
        "idempotency_key": message.idempotency_key(),
        "available_at": available_at,
        "created_at": message.ts.to_string(),
        "message": {
            "id": message.id.to_string(),
            "channel_id": place,
            "agent_id": nodes::agent_id(&message.from),
            "agent_name": message.from.seen_from(agent.project()),
            "text": message.body,
            "thread_id": message.thread(),
            "metadata": given,
            "created_at": message.ts.to_string(),
        },
    })
}

/// Returns the word for how far a delivery has come, and from when on its agent wants it.
fn words(state: State) -> (&'static str, Option<String>) {
    match state {
        State::Queued => ("queued", None),
        State::Delivered => ("delivered", None),
        State::Deferred { until } => ("deferred", Some(until.to_string())),
        State::GivenUp => ("dead_lettered", None),
        State::Expired => ("expired", None),
        State::Done => ("acked", None),
        State::Accepted => ("accepted", None),
        State::Failed => ("failed", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Timestamp;

    #[test]
    fn how_far_a_delivery_has_come_is_said_in_the_words_of_agent_relay() {
        for (state, word) in [
            (State::Queued, "queued"),
            (State::Delivered, "delivered"),
            (State::GivenUp, "dead_lettered"),
            (State::Expired, "expired"),
            (State::Done, "acked"),
            (State::Accepted, "accepted"),
            (State::Failed, "failed"),
        ] {
            assert_eq!(words(state), (word, None));
        }
        let until = Timestamp::from_millis(0);
        let told = Some("1970-01-01T00:00:00.000Z".to_owned());
        assert_eq!(words(State::Deferred { until }), ("deferred", told));
    }
}

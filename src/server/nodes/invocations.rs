//! What actions are asked, and what comes of it, as JSON: the same over the connections of nodes, to observers and in the API.

use serde_json::{Value, json};

use super::agent_id;
use crate::engine::AgentName;
use crate::engine::actions::HandlerView;
use crate::engine::invocations::{Failed, InvocationView, Progress};
use crate::engine::limits::INVOCATION_MS;

/// Reads what was asked or answered: it is JSON, as whoever gave it has said.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Says what is asked of an action.
pub fn invoked(invocation: &InvocationView) -> Value {
    let handler = match &invocation.handler {
        HandlerView::Agent(agent) => Some(agent),
        HandlerView::Node(_) => None,
    };
    json!({
        "invocation_id": invocation.id.to_string(),
        "action_name": invocation.action,
        "caller_name": invocation.caller.local(),
        // Clients want a text there.
        "handler_agent_id": handler.map(agent_id).unwrap_or_default(),
        "handler_agent_name": handler.map(AgentName::local),
        "input": json(&invocation.input),
    })
}

/// Returns the event of an invocation that has ended, and says how it did.
pub fn ended(invocation: &InvocationView) -> (&'static str, Value) {
    let status = status(&invocation.progress);
    let event = match status {
        "failed" => "action.failed",
        _ => "action.completed",
    };
    let (output, error) = result(&invocation.progress);
    let data = json!({
        "invocation_id": invocation.id.to_string(),
        "action_name": invocation.action,
        "status": status,
        "output": output,
        "error": error,
    });
    (event, data)
}

/// Says that an action is not available to an agent.
pub fn denied(action: &str, caller: &AgentName) -> Value {
    json!({
        "action_name": action,
        "caller_name": caller.local(),
        "error": format!("the action {action:?} is not available to {:?}", caller.local()),
    })
}

/// Returns the word for how far an invocation has come.
pub fn status(progress: &Progress) -> &'static str {
    match progress {
        Progress::Waits => "invoked",
        Progress::Sent { .. } => "dispatched",
        Progress::Ended { result: Ok(_), .. } => "completed",
        Progress::Ended { result: Err(_), .. } => "failed",
    }
}

/// Returns what an invocation has come to, and why to nothing.
pub fn result(progress: &Progress) -> (Option<Value>, Option<String>) {
    match progress {
        Progress::Waits | Progress::Sent { .. } => (None, None),
        Progress::Ended {
            result: Ok(output), ..
        } => (Some(json(output)), None),
        Progress::Ended {
            result: Err(failed), ..
        } => (None, Some(why(failed))),
    }
}

/// Says why an invocation has come to nothing.
fn why(failed: &Failed) -> String {
    match failed {
        Failed::Said(error) => error.to_string(),
        Failed::NotTaken(error) => format!("the target of its pushes did not take it: {error}"),
        Failed::TimedOut => format!("no answer within {} minutes", INVOCATION_MS / 60_000),
        Failed::NodeGone => "the node that was to do it is not connected any more".to_owned(),
        Failed::Stopped => "relay has stopped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Timestamp;

    #[test]
    fn what_has_come_to_nothing_says_why_and_what_is_under_way_says_nothing() {
        assert_eq!(result(&Progress::Waits), (None, None));
        for (failed, why) in [
            (Failed::Said("no such file".into()), "no such file"),
            (
                Failed::NotTaken("HTTP 500".into()),
                "the target of its pushes did not take it: HTTP 500",
            ),
            (Failed::TimedOut, "no answer within 60 minutes"),
            (
                Failed::NodeGone,
                "the node that was to do it is not connected any more",
            ),
            (Failed::Stopped, "relay has stopped"),
        ] {
            let ended = Progress::Ended {
                at: Timestamp::from_millis(0),
                result: Err(failed),
            };
            assert_eq!(result(&ended), (None, Some(why.to_owned())));
            assert_eq!(status(&ended), "failed");
        }
    }
}

//! What became of a message, for its sender and for those who got it.

use serde_json::Value;

use super::asked::Asked;
use super::envelope::{Answer, Data};
use super::tokens::Holder;
use crate::engine::trace::{Command, Reply, ShownTo};
use crate::engine::{self, Who};
use crate::tools::text::Json;
use crate::tools::traces;

/// `GET /v1/messages/:id/trace`.
pub(super) async fn trace(asked: Asked) -> Answer {
    let shown_to = match asked.holder()? {
        Holder::Workspace(workspace) => ShownTo::Project(workspace),
        Holder::Agent(agent) => ShownTo::Agent(agent),
        Holder::Node(_) | Holder::Observer { .. } => unreachable!("such a token is refused"),
    };
    asked.nothing()?;
    let message = asked.named().to_owned();
    let command = Command::Trace { message, shown_to };
    let engine::Reply::Trace(Reply::Traced(traced)) = asked.call(Who::Person, command).await? else {
        unreachable!("a trace is asked for")
    };
    let mut bytes = Vec::new();
    Json::document(&mut bytes).object(|object| traces::write(&traced, object));
    let written: Value = serde_json::from_slice(&bytes).expect("it was just written");
    Ok(Data::ok(written))
}

//! The JSON form of what the person holds. The person reads it, who is in the default project: names are whole.

use super::messages;
use super::text::{Json, Object};
use crate::engine::holds::{HeldBy, HeldMessage, Reply, View};
use crate::engine::{AgentName, DEFAULT_PROJECT, Delivery, Message};

/// Writes the answer to what the person asks about holds: `{"all", "agents", "messages"}`, where each message has `"held"`, a list of
/// `{"agent", "by"}`; or `{"deliveries": n}`, with `"lifted"` if a hold was to be lifted; or `{"id", "agents"}` of one message that was let
/// pass, or dropped.
pub fn write(reply: &Reply, object: &mut Object<'_>) {
    match reply {
        Reply::Listed(view) => write_view(view, object),
        Reply::Holds(deliveries) => object.member("deliveries").number(*deliveries),
        Reply::Lifted(deliveries) => {
            object.member("lifted").boolean(deliveries.is_some());
            object.member("deliveries").number(deliveries.unwrap_or(0));
        }
        Reply::Allowed { message, agents } | Reply::Dropped { message, agents } => {
            write_one(message, agents, object);
        }
    }
}

/// Writes what an inbox holds, oldest first, as [`messages::write`] does, with `"held"` and the word for the hold where one stands aside.
pub fn write_inbox(waiting: &[Delivery], held: &[(Delivery, HeldBy)], json: &mut Json<'_>) {
    let waiting = waiting.iter().map(|delivery| (delivery, None));
    let held = held.iter().map(|(delivery, by)| (delivery, Some(*by)));
    let mut all: Vec<(&Delivery, Option<HeldBy>)> = waiting.chain(held).collect();
    all.sort_by_key(|(delivery, _)| delivery.seq);
    json.array(all, |json, (delivery, by)| {
        json.object(|object| write_waiting(delivery, by, object));
    });
}

/// Writes one of them.
pub fn write_waiting(delivery: &Delivery, held: Option<HeldBy>, object: &mut Object<'_>) {
    messages::write_delivery(delivery, DEFAULT_PROJECT, object);
    if let Some(by) = held {
        object.member("held").plain(by.as_str());
    }
}

fn write_view(view: &View, object: &mut Object<'_>) {
    let View {
        all,
        agents,
        messages,
    } = view;
    object.member("all").boolean(*all);
    write_agents(agents, object);
    object.member("messages").array(messages, |json, held| {
        let HeldMessage { message, deliveries } = held;
        json.object(|object| {
            messages::write_message(message, DEFAULT_PROJECT, object);
            object.member("held").array(deliveries, |json, (agent, by)| {
                json.object(|object| {
                    object.member("agent").plain(agent.as_str());
                    object.member("by").plain(by.as_str());
                });
            });
        });
    });
}

fn write_one(message: &Message, agents: &[AgentName], object: &mut Object<'_>) {
    object.member("id").plain(&message.id.to_string());
    write_agents(agents, object);
}

fn write_agents(agents: &[AgentName], object: &mut Object<'_>) {
    let write = |json: &mut Json<'_>, agent: &AgentName| json.plain(agent.as_str());
    object.member("agents").array(agents, write);
}

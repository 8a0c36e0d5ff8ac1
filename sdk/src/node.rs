//! The connection of an agent's own node: what is delivered comes over it, and it comes back by itself.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message};

use super::agent::{Agent, NodeToken};
use super::client::text;
use super::connect::BoxedIo;
use super::error::Error;
use super::events::AgentSessionEvent;
use super::message::{Handling, MessageContext, Reason, RelayMessage};

/// How long is waited before a connection is made again, at the least and at the most; twice as long each time.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// How long the upgrade and the registration may take.
const REGISTER_PATIENCE: Duration = Duration::from_secs(15);

/// How often the node says that it is there. relay lets go of one that is silent for 45 s.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A connection over which nothing came for so long is broken: each heartbeat is answered.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// How long a connection may take to end, with what is said before.
const END_PATIENCE: Duration = Duration::from_secs(1);

type Socket = WebSocketStream<BoxedIo>;

/// What has come, in order.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Default)]
struct Waiting {
    /// Which connection they came over: each sends again what was not acknowledged over the one before.
    connection: u64,
    /// relay sends no more than 64 that were not acknowledged.
    arrived: VecDeque<Arrived>,
    is_closed: bool,
}

/// A delivery.
pub(crate) struct Arrived {
    pub connection: u64,
    pub number: u64,
    pub message: RelayMessage,
    pub context: MessageContext,
}

impl Queue {
    /// Begins with a new connection.
    fn begin(&self) -> u64 {
        let mut waiting = self.waiting();
        waiting.arrived.clear();
        waiting.connection += 1;
        waiting.connection
    }

    fn push(&self, arrived: Arrived) {
        self.waiting().arrived.push_back(arrived);
        self.more.notify_one();
    }

    /// Waits for the next one; none once it is closed.
    pub async fn next(&self) -> Option<Arrived> {
        loop {
            let next = {
                let mut waiting = self.waiting();
                if waiting.is_closed {
                    return None;
                }
                waiting.arrived.pop_front()
            };
            match next {
                Some(arrived) => return Some(arrived),
                None => self.more.notified().await,
            }
        }
    }

    /// Lets nothing more out.
    pub fn close(&self) {
        self.waiting().is_closed = true;
        self.more.notify_one();
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics while it holds it")
    }
}

/// What the two halves of a runner share.
#[derive(Default)]
pub(crate) struct Shared {
    pub queue: Queue,
    /// Up to which number all is done, and over which connection those numbers came.
    pub done: watch::Sender<(u64, u64)>,
    /// Which connection is to be made again, so that what was not acknowledged over it comes again.
    pub again: watch::Sender<u64>,
    /// The target gets nothing more.
    pub closing: watch::Sender<bool>,
    /// Nothing more is wanted.
    pub stop: watch::Sender<bool>,
}

/// Waits until one of them is said.
pub(crate) async fn stopped(stop: &watch::Sender<bool>) {
    let mut stop = stop.subscribe();
    // It is shared with whoever waits, and so not gone.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Holds the connection until it is told to stop. Where another program, or another runner, has the agent, relay refuses this one
/// until that one is gone.
pub(crate) async fn hold(agent: Agent, shared: &Shared) {
    let mut pause = PAUSE;
    let instance = format!("{:016x}", agent.draw());
    loop {
        let connecting = timeout(REGISTER_PATIENCE, connect(&agent, &instance));
        let connected = tokio::select! {
            biased;
            () = stopped(&shared.stop) => return,
            connected = connecting => connected,
        };
        let reason = match connected {
            Ok(Ok(socket)) => {
                pause = PAUSE;
                agent.events().emit(AgentSessionEvent::Connected);
                match serve(&agent, socket, shared).await {
                    Some(reason) => reason,
                    None => return,
                }
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", REGISTER_PATIENCE.as_secs()),
        };
        agent.events().emit(AgentSessionEvent::Disconnected { reason });
        // Many agents do not come back in the same moment.
        let jitter = pause.mul_f64((agent.draw() % 1000) as f64 / 1000.0);
        tokio::select! {
            biased;
            () = stopped(&shared.stop) => return,
            () = sleep(pause / 2 + jitter) => {}
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Connects and registers as an instance, which stays the same over its connections.
async fn connect(agent: &Agent, instance: &str) -> Result<Socket, Error> {
    let node = agent.node_token().await?;
    let client = agent.client();
    let broken = |error: tungstenite::Error| {
        if let tungstenite::Error::Http(response) = error {
            let status = response.status();
            return Error::Refused {
                status: status.as_u16(),
                code: "upgrade_refused".to_owned(),
                message: format!("relay does not take the connection of a node: {status}"),
            };
        }
        Error::Unreachable {
            authority: client.authority().to_owned(),
            source: std::io::Error::other(error),
        }
    };
    let url = format!("ws://{}/v1/node/ws", client.authority());
    let mut request = url.into_client_request().map_err(broken)?;
    let authorized = client.authorize(request.headers_mut(), Some(&node.token));
    authorized.map_err(|_| not_understood("the token of the node is no header"))?;
    let upgraded = tokio_tungstenite::client_async(request, client.connect().await?).await;
    let (mut socket, _) = upgraded.map_err(broken)?;
    let NodeToken { id, name, .. } = node;
    let register = json!({
        "v": 1, "id": "register", "type": "node.register", "node_id": id, "name": name, "capabilities": [],
        "provider": {"name": "relay-sdk", "instance_id": instance}, "max_agents": 1, "tags": ["relay-sdk"],
        "version": env!("CARGO_PKG_VERSION"),
    });
    socket
        .send(Message::text(register.to_string()))
        .await
        .map_err(broken)?;
    loop {
        let frame = match socket.next().await {
            Some(Ok(Message::Text(frame))) => frame,
            Some(Ok(Message::Close(_))) | None => return Err(broken(tungstenite::Error::ConnectionClosed)),
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(broken(error)),
        };
        let frame: Value = serde_json::from_str(&frame).map_err(|_| not_understood("it is no JSON"))?;
        match frame["type"].as_str() {
            Some("reply") => return Ok(socket),
            Some("error") => {
                return Err(Error::Refused {
                    status: 409,
                    code: text(&frame, "code", "node.register")?,
                    message: text(&frame, "message", "node.register")?,
                });
            }
            _ => {}
        }
    }
}

fn not_understood(reason: &str) -> Error {
    Error::Answer {
        call: "node.register".to_owned(),
        reason: reason.to_owned(),
    }
}

/// Moves frames until the connection ends, and says why it did; none if it was to end.
async fn serve(agent: &Agent, mut socket: Socket, shared: &Shared) -> Option<String> {
    let connection = shared.queue.begin();
    let mut done = shared.done.subscribe();
    let mut again = shared.again.subscribe();
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.tick().await;
    let mut heard_at = Instant::now();
    loop {
        // What is waited for here has its senders in `shared`, which is there.
        let said = tokio::select! {
            biased;
            () = stopped(&shared.stop) => {
                // What is done is said before the end, if relay reads. Otherwise it comes again.
                let (of, number) = *done.borrow();
                let _ = timeout(END_PATIENCE, async {
                    if of == connection && number > 0 {
                        socket.send(acknowledgement(agent, number)).await?;
                    }
                    socket.close(None).await
                }).await;
                return None;
            }
            () = is_to_be_made_again(&mut again, connection) => return Some("a receipt could not be given".to_owned()),
            _ = done.changed() => {
                let (of, number) = *done.borrow_and_update();
                if of != connection {
                    continue;
                }
                acknowledgement(agent, number)
            }
            _ = heartbeat.tick() => {
                if heard_at.elapsed() > SILENCE_MAX {
                    return Some(format!("nothing came for {} s", SILENCE_MAX.as_secs()));
                }
                let alive = json!({
                    "v": 1, "id": "heartbeat", "type": "node.heartbeat", "load": 0, "active_agents": 1,
                    "handlers_live": false,
                });
                Message::text(alive.to_string())
            }
            came = socket.next() => {
                heard_at = Instant::now();
                match came {
                    Some(Ok(Message::Text(frame))) => {
                        take(agent, &frame, connection, &shared.queue);
                        continue;
                    }
                    Some(Ok(Message::Close(close))) => {
                        let reason = close.map(|close| close.reason.to_string());
                        return Some(format!("relay has closed it: {}", reason.unwrap_or_default()));
                    }
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => return Some(error.to_string()),
                    None => return Some("the connection has ended".to_owned()),
                }
            }
        };
        let sent = tokio::select! {
            biased;
            sent = timeout(SILENCE_MAX, socket.send(said)) => sent,
            () = stopped(&shared.stop) => continue,
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(error.to_string()),
            Err(_) => return Some("relay does not read".to_owned()),
        }
    }
}

async fn is_to_be_made_again(again: &mut watch::Receiver<u64>, connection: u64) {
    // The sender is there for as long as the runner.
    let _ = again.wait_for(|of| *of == connection).await;
}

fn acknowledgement(agent: &Agent, number: u64) -> Message {
    let frame = json!({"v": 1, "type": "delivery.ack", "agent": agent.name(), "up_to_seq": number});
    Message::text(frame.to_string())
}

/// Takes in what relay says.
fn take(agent: &Agent, frame: &str, connection: u64, queue: &Queue) {
    let Ok(frame) = serde_json::from_str::<Value>(frame) else {
        return;
    };
    let notify = |kind: &Value, data: &Value| {
        let kind = kind.as_str().unwrap_or_default().to_owned();
        let data = data.clone();
        agent.events().emit(AgentSessionEvent::Notified { kind, data });
    };
    match frame["type"].as_str() {
        Some("deliver") => match arrived(&frame, connection) {
            Some(arrived) => queue.push(arrived),
            None => notify(&frame["payload"]["type"], &frame["payload"]["data"]),
        },
        // The frame itself comes right behind it.
        Some("context.update") if frame["event"] == "delivery.accepted" => {}
        Some("context.update") => notify(&frame["event"], &frame["data"]),
        Some("error") => notify(&frame["type"], &frame),
        _ => {}
    }
}

/// Reads a frame that has a number; the others are news, and have none.
fn arrived(frame: &Value, connection: u64) -> Option<Arrived> {
    let number = frame["seq"].as_u64().filter(|number| *number > 0)?;
    let payload = &frame["payload"];
    let data = &payload["data"];
    let said = |value: &Value| value.as_str().map(str::to_owned);
    let of_whom = if data["message"].is_object() {
        &data["message"]
    } else {
        data
    };
    let kind = payload["type"].as_str()?;
    let (metadata, added) = metadata(&of_whom["metadata"]);
    let message = RelayMessage {
        id: said(&frame["msg_id"])?,
        from: said(&data["from_name"])?,
        channel: said(&data["channel_name"]),
        thread: said(&data["thread_id"]),
        text: said(&data["text"])?,
        metadata: metadata.clone(),
        created_at: said(&data["created_at"])?,
    };
    let Handling {
        mode,
        priority,
        deadline,
    } = Handling::read(frame, &added);
    let context = MessageContext {
        id: said(&frame["delivery_id"])?,
        mode,
        priority,
        deadline,
        reason: Reason::read(kind, &added),
        idempotency_key: said(&added["idempotency_key"]),
        metadata,
        redelivered: added["redelivered"] == true,
        attempts: 0,
    };
    Some(Arrived {
        connection,
        number,
        message,
        context,
    })
}

/// Takes what relay adds to the metadata of a message out of what its sender gave. Both are null where there is nothing.
fn metadata(shown: &Value) -> (Value, Value) {
    let Some(shown) = shown.as_object() else {
        return (Value::Null, Value::Null);
    };
    let mut given = shown.clone();
    let added = given.remove("relay").unwrap_or_default();
    let given = if given.is_empty() {
        Value::Null
    } else {
        given.into()
    };
    (given, added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_relay_adds_is_no_metadata_of_the_sender_s() {
        for (shown, given, added) in [
            (json!(null), json!(null), json!(null)),
            (json!({"a": 1}), json!({"a": 1}), json!(null)),
            (
                json!({"a": 1, "relay": {"redelivered": true}}),
                json!({"a": 1}),
                json!({"redelivered": true}),
            ),
            (
                json!({"relay": {"redelivered": true}}),
                json!(null),
                json!({"redelivered": true}),
            ),
        ] {
            assert_eq!(metadata(&shown), (given, added), "{shown}");
        }
    }
}

//! What the wire alone costs: axum, the same routes, a post read as far as its recipient, and canned frames and answers of the same size.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use futures_util::SinkExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::text;

/// How many bytes of a WebSocket are read at a time, as in relay. They are cleared before each read, and with the 128 kB that are usual that
/// costs more than all else.
const READ_BYTES: usize = 8 * 1024;

/// Where what goes to an agent is put, by its name.
type Nodes = Arc<Mutex<BTreeMap<String, mpsc::UnboundedSender<()>>>>;

#[derive(Deserialize)]
struct Post<'a> {
    to: &'a str,
    #[serde(rename = "text")]
    _text: &'a str,
}

#[derive(Deserialize)]
struct Acknowledge<'a> {
    r#type: &'a str,
    up_to_seq: Option<u64>,
}

#[derive(Deserialize)]
struct Connects {
    token: String,
}

/// Serves until the process is ended.
pub async fn serve(port: u16) {
    let router = Router::new()
        .route(
            "/v1/workspaces",
            post(async || made(&json!({"api_key": "rk_live_bench"}))),
        )
        .route("/v1/agents", post(agent))
        .route("/v1/agent/node-token", post(node_token))
        .route("/v1/node/ws", get(connect))
        .route("/v1/dm", post(dm))
        .with_state(Nodes::default());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port))
        .await
        .expect("the port is free");
    println!("ready");
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a TCP socket"));
    axum::serve(listener, router).await.expect("axum serves");
}

fn made(data: &Value) -> Response {
    (StatusCode::CREATED, Json(json!({"ok": true, "data": data}))).into_response()
}

/// The token of an agent is its name.
async fn agent(Json(asked): Json<Value>) -> Response {
    made(&json!({"token": asked["name"]}))
}

async fn node_token(headers: HeaderMap) -> Response {
    let token = headers[header::AUTHORIZATION].to_str().expect("ASCII");
    let agent = token.strip_prefix("Bearer ").expect("a token");
    made(&json!({"token": agent, "node_id": agent, "node_name": agent}))
}

async fn dm(State(nodes): State<Nodes>, body: Bytes) -> Response {
    let Post { to, .. } = serde_json::from_slice(&body).expect("a post");
    let _gone = nodes.lock().expect("nothing panics")[to].send(());
    let answer = format!(
        r#"{{"ok":true,"data":{{"conversation_id":"dm_bench:p0~bench:w0","created_at":"2026-11-21T22:17:28.675Z","message":{{"agent_id":"agt_bench:p0","agent_name":"p0","attachments":[],"id":"d7d1e478-f68a-4a40-a3c8-c0d1197d47cc","injection_mode":"wait","text":"{}"}},"warnings":[]}}}}"#,
        text()
    );
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::CREATED, json, answer).into_response()
}

async fn connect(
    State(nodes): State<Nodes>,
    Query(Connects { token }): Query<Connects>,
    socket: WebSocketUpgrade,
) -> Response {
    let (sender, posts) = mpsc::unbounded_channel();
    nodes
        .lock()
        .expect("nothing panics")
        .insert(token.clone(), sender);
    socket
        .read_buffer_size(READ_BYTES)
        .on_upgrade(|socket| serve_node(socket, token, posts))
}

async fn serve_node(mut socket: WebSocket, agent: String, mut posts: mpsc::UnboundedReceiver<()>) {
    let (mut sent, mut acknowledged) = (0, 0);
    loop {
        let served = tokio::select! {
            Some(()) = posts.recv() => {
                sent += 1;
                let [accepted, deliver] = frames(&agent, sent);
                socket.feed(Message::text(accepted)).await.and(socket.send(Message::text(deliver)).await)
            }
            said = socket.recv() => {
                let Some(Ok(Message::Text(said))) = said else {
                    return;
                };
                let said: Acknowledge<'_> = serde_json::from_str(&said).expect("a frame");
                match said.up_to_seq {
                    Some(up_to) => {
                        acknowledged = up_to.max(acknowledged);
                        Ok(())
                    }
                    None => {
                        assert_eq!(said.r#type, "node.register");
                        socket.send(Message::text(r#"{"id":"r","ok":true}"#)).await
                    }
                }
            }
        };
        if served.is_err() {
            return;
        }
    }
}

/// What goes out for a post: that it is on its way, and the delivery.
fn frames(agent: &str, seq: u64) -> [String; 2] {
    let text = text();
    let accepted = format!(
        r#"{{"agent_ids":["agt_bench:{agent}"],"channel_id":null,"data":{{"delivery_id":"del_d7d1e478-f68a-4a40-a3c8-c0d1197d47cc_agt_bench:{agent}","message_id":"d7d1e478-f68a-4a40-a3c8-c0d1197d47cc","reason":"dm"}},"event":"delivery.accepted","topic":"agent","type":"context.update","v":1}}"#
    );
    let message = format!(
        r#"{{"id":"d7d1e478-f68a-4a40-a3c8-c0d1197d47cc","agent_id":"agt_bench:p0","agent_name":"p0","text":"{text}","injection_mode":"wait","attachments":[],"metadata":null}}"#
    );
    let data = format!(
        r#"{{"conversation_id":"dm_bench:p0~bench:{agent}","message":{message},"created_at":"2026-11-21T22:17:28.675Z","id":"d7d1e478-f68a-4a40-a3c8-c0d1197d47cc","from_agent_id":"agt_bench:p0","to":"{agent}","text":"{text}","injection_mode":"wait","attachments":[],"from_name":"p0"}}"#
    );
    let deliver = format!(
        r#"{{"v":1,"type":"deliver","delivery_id":"del_d7d1e478-f68a-4a40-a3c8-c0d1197d47cc_agt_bench:{agent}","agent_id":"agt_bench:{agent}","agent":"{agent}","msg_id":"d7d1e478-f68a-4a40-a3c8-c0d1197d47cc","seq":{seq},"mode":"wait","payload":{{"type":"dm.received","data":{data}}}}}"#
    );
    [accepted, deliver]
}

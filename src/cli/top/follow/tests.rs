use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{State, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser as _;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc::channel;

use super::*;
use crate::cli::top::news::Step;

/// What a relay that is not one answers to those who look into an inbox, in this order.
type Peeks = Arc<Mutex<BTreeMap<String, Vec<(StatusCode, Value)>>>>;

#[derive(clap::Parser)]
struct Arguments {
    #[command(flatten)]
    at: At,
}

async fn health() -> Json<Value> {
    let role = |name: &str, unread: u64, held: u64| json!({"role": name, "unread": unread, "held": held, "in_doubt": 0});
    Json(json!({
        "name": "relay", "version": "0.1.0", "started_at": "1970-01-01T00:00:00Z", "boot": "b-1",
        "roles": [role("gone", 1, 0), role("pm", 1, 0), role("dev-a", 0, 1), role("dev-b", 0, 0)],
    }))
}

async fn tail(upgrade: WebSocketUpgrade) -> Response {
    let mut response = upgrade.on_upgrade(|mut socket| async move { while socket.recv().await.is_some() {} });
    response
        .headers_mut()
        .insert("relay-seq", "7".parse().expect("a number"));
    response
}

async fn peek(State(peeks): State<Peeks>, Json(asked): Json<Value>) -> Response {
    let name = asked["for"].as_str().expect("a name").to_owned();
    let mut peeks = peeks.lock().expect("nobody has panicked");
    let answers = peeks.get_mut(&name).expect("nobody else's inbox is looked into");
    let (status, answer) = answers.remove(0);
    (status, Json(answer)).into_response()
}

/// Answers as a relay does, and returns where.
async fn relay(peeks: Peeks) -> At {
    let router = Router::new()
        .route("/health", get(health))
        .route("/api/tail", get(tail))
        .route("/api/peek", post(peek))
        .with_state(peeks);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    Arguments::parse_from(["top", "--port", &port]).at
}

fn message(id: &str, held: Option<&str>) -> Value {
    json!({"id": id, "from": "dev-b", "to": "x", "kind": "free", "body": "one", "ts": "1970-01-01T00:00:00Z", "held": held})
}

#[tokio::test]
async fn what_is_in_the_inboxes_is_looked_for_until_it_is_known_and_one_that_is_gone_is_left_out() {
    let gone = || (StatusCode::NOT_FOUND, json!({"error": "unknown agent gone"}));
    let has = |message: Value| (StatusCode::OK, json!({"messages": [message]}));
    let stops = (StatusCode::SERVICE_UNAVAILABLE, json!({"error": "relay stops"}));
    let peeks = [
        ("gone", vec![gone(), gone()]),
        ("pm", vec![has(message("a", None)), has(message("a", None))]),
        ("dev-a", vec![stops, has(message("b", Some("to")))]),
    ];
    let peeks = peeks.map(|(name, answers)| (name.to_owned(), answers));
    let at = relay(Arc::new(Mutex::new(peeks.into()))).await;
    let (news, _heard) = channel(1);
    let had = Had::default();
    let mut follow = Follow { at, had, news };
    assert!(matches!(follow.find().await, Err(ClientError::NotNow { .. })));
    let found = |found: Found| {
        let inboxes = found.inboxes.into_iter();
        let inboxes: Vec<_> = inboxes.map(|message| (message.id, message.inbox)).collect();
        (found.is_another, inboxes)
    };
    let expected = [("a", "pm", Step::Waits), ("b", "dev-a", Step::Held)];
    let expected = expected.map(|(id, agent, step)| (id.to_owned(), Some((agent.to_owned(), step))));
    let first = follow.find().await.expect("it is there");
    assert_eq!(found(first), (true, expected.into()));
    assert_eq!(follow.had.seq, Some(7));
    // Of the same start all of it is known.
    let again = follow.find().await.expect("it is there");
    assert_eq!(found(again), (false, Vec::new()));
}

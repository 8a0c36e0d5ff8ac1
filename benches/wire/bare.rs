//! What the wire alone costs: axum, the same routes, JSON-RPC read as far as the id, canned answers of the same size.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use http_body_util::StreamBody;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

type Frame = Result<http_body::Frame<Bytes>, Infallible>;
type Streams = Arc<Mutex<(u64, BTreeMap<u64, mpsc::UnboundedSender<Frame>>)>>;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    name: &'a str,
    /// A client of 2026-07-28 sends it in every request.
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Session {
    #[serde(rename = "sessionId")]
    id: u64,
}

/// Serves until the process is ended.
pub async fn serve(port: u16) {
    let router = Router::new()
        .route("/sse", get(sse))
        .route("/message", post(message))
        .route(
            "/mcp",
            post(|body: Bytes| async move { ([(header::CONTENT_TYPE, "application/json")], answer(&body)) }),
        )
        .with_state(Streams::default());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port))
        .await
        .expect("the port is free");
    println!("ready");
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a TCP socket"));
    axum::serve(listener, router).await.expect("axum serves");
}

/// The answer of a post, or that of a read of three messages.
fn answer(body: &[u8]) -> Vec<u8> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).expect("a call");
    let text = match envelope.params.name {
        "read_messages" => {
            let one = r#"{\"id\":\"d7d1e478-f68a-4a40-a3c8-c0d1197d47cc\",\"from\":\"pm\",\"to\":\"dev-a\",\"kind\":\"status\",\"body\":\"BODY\",\"ts\":\"2026-11-21T22:17:28.675Z\"}"#;
            let one = one.replace("BODY", &"b".repeat(200));
            format!("[{one},{one},{one}]")
        }
        _ => r#"{\"id\":\"d7d1e478-f68a-4a40-a3c8-c0d1197d47cc\"}"#.to_owned(),
    };
    let id = envelope.id;
    let kind = match envelope.params.meta {
        Some(_) => r#""resultType":"complete","#,
        None => "",
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#)
        .into_bytes()
}

async fn sse(State(streams): State<Streams>) -> Response {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let id = {
        let mut streams = streams.lock().expect("nothing panics");
        streams.0 += 1;
        let id = streams.0;
        let hello = format!("event: endpoint\ndata: /message?sessionId={id}\n\n");
        let _ = sender.send(Ok(http_body::Frame::data(hello.into())));
        streams.1.insert(id, sender);
        id
    };
    let _ = id;
    let frames = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::new(StreamBody::new(frames)),
    )
        .into_response()
}

async fn message(State(streams): State<Streams>, Query(session): Query<Session>, body: Bytes) -> StatusCode {
    let sender = streams
        .lock()
        .expect("nothing panics")
        .1
        .get(&session.id)
        .cloned();
    let mut event = b"event: message\ndata: ".to_vec();
    event.extend(answer(&body));
    event.extend(b"\n\n");
    let _ = sender
        .expect("the stream is open")
        .send(Ok(http_body::Frame::data(event.into())));
    StatusCode::ACCEPTED
}

//! What the relay waits for, and for how long. The clock is paused: what is not on time by the millisecond shows.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::PATIENCE;
use super::http::Request;
use super::in_memory::{Connection, End, Heard, Relay};

/// What a silent connection is given.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// How often an idle stream is written to.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// As many connections as the relay accepts at a time, and some.
const FLOOD: usize = 10_200;

pub fn health() -> Vec<u8> {
    Request::get("/health").bytes()
}

pub fn call(target: &str, tool: &str, arguments: Value) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    Request::post(target, message.to_string()).bytes()
}

fn read(target: &str) -> Vec<u8> {
    call(target, "read_messages", json!({"for": "dev-a"}))
}

/// What is in the content of a tool's result, each block's text.
pub fn texts(message: &str) -> Vec<String> {
    let message: Value = serde_json::from_str(message).expect("a message is JSON");
    let content = message["result"]["content"].as_array();
    let content = content.unwrap_or_else(|| panic!("no result of a tool: {message}"));
    let texts = content.iter().map(|block| block["text"].as_str());
    texts.map(|text| text.expect("a text").to_owned()).collect()
}

pub async fn heard(connection: &mut Connection, text: &str) -> String {
    match connection.hear(text, PATIENCE).await {
        Heard::Text(heard) => heard,
        other @ (Heard::End(_) | Heard::Silence(_)) => panic!("not {text:?}, but {other:?}"),
    }
}

/// How many sessions are open.
async fn sessions(relay: &Relay) -> Value {
    let (status, health) = relay.connect().exchange(&health()).await;
    assert_eq!(status, 200, "{health}");
    let health: Value = serde_json::from_str(&health).expect("JSON");
    health["sessions"].clone()
}

/// Reads what waits for `dev-a` over a connection of its own, which is closed when all was read.
async fn read_apart(relay: &Relay) -> Vec<String> {
    let (status, answer) = relay.connect().exchange(&read("/mcp")).await;
    assert_eq!(status, 200, "{answer}");
    texts(&answer)
}

/// Has a client read a message over a stream of its own, and returns the stream.
async fn read_over_a_stream(relay: &Relay) -> Connection {
    assert_eq!(read_apart(relay).await.len(), 2, "the start is told");
    let arguments = json!({"from": "pm", "to": "dev-a", "kind": "free", "body": "m1"});
    let (_, posted) = relay
        .connect()
        .exchange(&call("/mcp", "post_message", arguments))
        .await;
    assert!(texts(&posted)[0].contains("id"), "{posted}");
    let mut stream = relay.connect();
    stream.send(&Request::get("/sse").bytes()).await;
    heard(&mut stream, "event: endpoint\ndata: ").await;
    let target = heard(&mut stream, "\n").await;
    heard(&mut stream, "\n\n").await;
    let (status, _) = relay.connect().exchange(&read(target.trim_end())).await;
    assert_eq!(status, 202);
    heard(&mut stream, "data: ").await;
    let answer = texts(&heard(&mut stream, "\n").await);
    assert!(answer[0].contains(r#""body":"m1""#), "{answer:?}");
    // The end of the event, and of the chunk that carries it.
    heard(&mut stream, "\n\r\n").await;
    stream
}

/// Waits for a keep-alive and for nothing else, and returns how long that took.
async fn await_keep_alive(stream: &mut Connection) -> Duration {
    let before = Instant::now();
    // A chunk of 14 bytes.
    let chunk = heard(stream, "\n\n\r\n").await;
    assert_eq!(chunk, "E\r\n: keep-alive\n\n\r\n");
    before.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_reply_on_a_stream_that_stays_open_is_confirmed_without_another_call() {
    let relay = Relay::start();
    let mut stream = read_over_a_stream(&relay).await;
    // The doubt ends between the two, after 20 seconds.
    for _ in 0..2 {
        assert_eq!(await_keep_alive(&mut stream).await, KEEP_ALIVE);
    }
    drop(stream);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(sessions(&relay).await, 0);
    assert_eq!(read_apart(&relay).await, ["[]"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_on_a_stream_that_ends_before_the_doubt_does_comes_again() {
    let relay = Relay::start();
    let mut stream = read_over_a_stream(&relay).await;
    assert_eq!(await_keep_alive(&mut stream).await, KEEP_ALIVE);
    assert_eq!(
        stream.hear("\n", Duration::from_millis(4_990)).await,
        Heard::Silence(String::new())
    );
    drop(stream);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(sessions(&relay).await, 0);
    let again = read_apart(&relay).await;
    assert!(again[0].contains(r#""redelivered":true"#), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_for_nothing_is_closed_and_one_that_did_ask_is_not() {
    let relay = Relay::start();
    let mut asked = relay.connect();
    assert_eq!(asked.exchange(&health()).await.0, 200);
    let mut silent = relay.connect();
    let mut half = relay.connect();
    half.send(b"GET /health HTTP/1.1\r\n").await;
    let started = Instant::now();
    let closed = Heard::End(String::new());
    assert_eq!(silent.hear("\n", PATIENCE).await, closed);
    assert_eq!(half.hear("\n", PATIENCE).await, closed);
    assert_eq!(started.elapsed(), HEAD_PATIENCE);
    // It rests for far longer than the others were given.
    let rested = asked.hear("\n", Duration::from_secs(280)).await;
    assert_eq!(rested, Heard::Silence(String::new()));
    assert_eq!(asked.exchange(&health()).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_begun_on_a_connection_that_has_asked_before_must_end_too() {
    let relay = Relay::start();
    let mut slow = relay.connect();
    assert_eq!(slow.exchange(&health()).await.0, 200);
    let started = Instant::now();
    slow.send(b"GET /health HTTP/1.1\r\n").await;
    assert_eq!(slow.hear("\n", PATIENCE).await, Heard::End(String::new()));
    assert!(started.elapsed() <= 2 * HEAD_PATIENCE, "{:?}", started.elapsed());
}

/// What is told to the person.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_begin_and_go_no_further_cost_a_client_no_more_than_their_patience() {
    let told = Told::default();
    let writer = told.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .finish();
    let _told = tracing::subscriber::set_default(subscriber);
    let relay = Relay::start();
    for first in [&b""[..], b"POST /mcp HTTP/1.1\r\nHost: local"] {
        let mut held = Vec::new();
        for _ in 0..FLOOD {
            let mut connection = relay.connect();
            connection.send(first).await;
            held.push(connection);
        }
        let started = Instant::now();
        assert_eq!(relay.connect().exchange(&health()).await.0, 200);
        assert_eq!(started.elapsed(), HEAD_PATIENCE);
        drop(held);
    }
    let told = told.0.lock().expect("no panic");
    let told = String::from_utf8_lossy(&told);
    let warnings: Vec<&str> = told.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("10000 connections are open, as many as are accepted; new ones wait"),
        "{warnings:?}"
    );
}

/// How long an observer may say nothing, not even in answer to a ping.
const SILENCE: Duration = Duration::from_secs(45);

/// Opens the stream of an observer.
async fn observer(relay: &Relay) -> WebSocketStream<End> {
    let key = Request::post("/api/key", "{}").bytes();
    let (status, answer) = relay.connect().exchange(&key).await;
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let key = answer["key"].as_str().expect("a key");
    let address = format!("ws://127.0.0.1:7331/v1/ws?token={key}");
    let opened = client_async(address, relay.connect().into_end()).await;
    opened.expect("it is let in").0
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_only_answers_pings_stays() {
    let relay = Relay::start();
    let mut observer = observer(&relay).await;
    let until = Instant::now() + 4 * SILENCE;
    let mut pings = 0;
    // Whoever reads answers the pings by that.
    while let Ok(said) = timeout_at(until, observer.next()).await {
        match said {
            Some(Ok(Message::Ping(_))) => pings += 1,
            other => panic!("no ping, but {other:?}"),
        }
    }
    assert!(pings > 8, "{pings} pings");
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_take_longer_for_a_longer_message() {
    let relay = Relay::start();
    let mut observer = observer(&relay).await;
    let body = "x".repeat(1_000_000);
    let arguments = json!({"from": "pm", "to": "dev-a", "kind": "free", "body": body});
    let post = call("/mcp", "post_message", arguments);
    let (status, posted) = relay.connect().exchange(&post).await;
    assert_eq!(status, 200, "{posted}");
    let mut taken = 0;
    let mut part = [0; 40_000];
    // 25 seconds, where one of its frames alone had 14.
    while taken < body.len() {
        match observer.get_mut().read(&mut part).await {
            Ok(count) if count > 0 => taken += count,
            other => panic!("{other:?} after {taken} bytes"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_says_nothing_at_all_is_cut_off() {
    let relay = Relay::start();
    let mut observer = observer(&relay).await;
    tokio::time::sleep(2 * SILENCE).await;
    let mut pings = 0;
    while let Some(Ok(Message::Ping(_))) = observer.next().await {
        pings += 1;
    }
    assert!(pings <= 3, "{pings} pings");
}

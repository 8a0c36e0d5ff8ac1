//! The bridge between in-memory pipes and a relay of a few lines, which notes how each connection ended.

mod late;
mod listens;
mod presence;
mod stream;
mod told;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter, DuplexStream, Lines,
    ReadBuf, ReadHalf, WriteHalf, duplex, split,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::calls::{Calls, UNDER_WAY_MAX, Unusable};
use super::relay::{AskError, Relay};
use super::*;
use crate::tools::Toolsets;

/// Longer than anything may take.
const HOUR: Duration = Duration::from_secs(3600);

/// More than all that a test writes.
const ROOM: usize = 1 << 20;

/// A tool that may wait; the relay of these tests never answers it.
const WAIT: &str = "read_messages";

/// What a connection carried and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fact {
    Asked(usize, String),
    InOrder(usize),
    BrokenOff(usize),
}

/// A relay that answers each call with its tool's name, but a call of `wait` or `hang` never.
#[derive(Clone, Default)]
struct FakeRelay {
    facts: Arc<Mutex<Vec<Fact>>>,
    count: Arc<Mutex<usize>>,
    away: Arc<AtomicBool>,
    /// Ends the connections that carry nothing.
    closes: watch::Sender<bool>,
}

impl FakeRelay {
    fn note(&self, fact: Fact) {
        self.facts.lock().expect("no test panics there").push(fact);
    }

    fn facts(&self) -> Vec<Fact> {
        self.facts.lock().expect("no test panics there").clone()
    }

    /// Waits until a fact is noted.
    async fn noted(&self, fact: Fact) {
        for _ in 0..10_000 {
            if self.facts().contains(&fact) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{fact:?} is not among {:?}", self.facts());
    }

    async fn answer(&self, number: usize, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let session = settings("127.0.0.1:7331").session.to_string();
        if request
            .headers()
            .get("mcp-session-id")
            .is_none_or(|id| *id != *session)
        {
            self.note(Fact::Asked(number, "without its session".to_owned()));
        }
        let body = request.into_body().collect().await.expect("a whole request");
        let message: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
        let Some(tool) = message["params"]["name"].as_str() else {
            self.note(Fact::Asked(number, message["method"].to_string()));
            return Response::default();
        };
        self.note(Fact::Asked(number, tool.to_owned()));
        if tool == WAIT || tool == "hang" {
            std::future::pending::<()>().await;
        }
        let content = json!([{"type": "text", "text": tool}]);
        let result = json!({"content": content, "isError": false});
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        Response::new(answer.to_string().into())
    }
}

impl Connect for FakeRelay {
    type Connection = Wire;

    async fn connect(&self) -> io::Result<Wire> {
        if self.away.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let number = {
            let mut count = self.count.lock().expect("no test panics there");
            *count += 1;
            *count
        };
        let (stream, theirs) = duplex(ROOM);
        let (relay, mut closes) = (self.clone(), self.closes.subscribe());
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let relay = relay.clone();
                async move { Ok::<_, Infallible>(relay.answer(number, request).await) }
            });
            let serving =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(theirs), service);
            tokio::select! {
                _ = serving => {}
                _ = closes.wait_for(|&closes| closes) => {}
            }
        });
        Ok(Wire {
            stream,
            number,
            relay: self.clone(),
            breaks_off: AtomicBool::new(true),
        })
    }
}

/// The bridge's end of a connection.
struct Wire {
    stream: DuplexStream,
    number: usize,
    relay: FakeRelay,
    breaks_off: AtomicBool,
}

impl Drop for Wire {
    fn drop(&mut self) {
        let breaks_off = *self.breaks_off.get_mut();
        let fact = if breaks_off {
            Fact::BrokenOff
        } else {
            Fact::InOrder
        };
        self.relay.note(fact(self.number));
    }
}

impl Connection for Wire {
    fn break_off_when_dropped(&self, yes: bool) {
        self.breaks_off.store(yes, Ordering::Relaxed);
    }

    fn is_open(&self) -> bool {
        !*self.relay.closes.borrow()
    }

    async fn ended(&self) {
        let mut closes = self.relay.closes.subscribe();
        drop(closes.wait_for(|&closes| closes).await);
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn settings(address: &str) -> Settings {
    Settings {
        address: address.parse().expect("an address"),
        identity: None,
        project: None,
        toolsets: Toolsets::default(),
        directory: None,
        instance: Uuid::from_u128(8),
        token: None,
        reply_max: None,
        program: "relay".to_owned(),
        session: Uuid::from_u128(7),
    }
}

/// An agent with a bridge to a fake relay.
struct Agent {
    stdin: Option<WriteHalf<DuplexStream>>,
    stdout: Lines<BufReader<ReadHalf<DuplexStream>>>,
    bridge: JoinHandle<io::Result<()>>,
}

impl Agent {
    /// Starts a bridge whose stdout holds so many bytes, and makes the handshake.
    async fn start(relay: &FakeRelay, stdout_bytes: usize) -> Self {
        Self::start_with(settings("127.0.0.1:7331"), relay.clone(), stdout_bytes).await
    }

    /// The same with other settings, and any relay.
    async fn start_with(settings: Settings, relay: impl Connect, stdout_bytes: usize) -> Self {
        let (stdin, bridge_stdin) = duplex(ROOM);
        let (stdout, bridge_stdout) = duplex(stdout_bytes);
        // As that of a process, it takes anything, and nothing has left before it is flushed.
        let bridge_stdout = BufWriter::with_capacity(ROOM, bridge_stdout);
        let bridging = run(bridge_stdin, bridge_stdout, settings, relay);
        let mut agent = Self {
            stdin: Some(split(stdin).1),
            stdout: BufReader::new(split(stdout).0).lines(),
            bridge: tokio::spawn(bridging),
        };
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        agent.ask(0, "initialize", &params).await;
        agent.hears(0).await;
        agent
    }

    async fn write(&mut self, lines: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(lines.as_bytes()).await.expect("it is read");
    }

    async fn ask(&mut self, id: u64, method: &str, params: &Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&format!("{request}\n")).await;
    }

    async fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        self.write(&format!("{message}\n")).await;
    }

    /// Waits for the next line, which must come within an hour.
    async fn hears_any(&mut self) -> Value {
        let line = timeout(HOUR, self.stdout.next_line()).await;
        let line = line.expect("a line within an hour").expect("stdout is open");
        serde_json::from_str(&line.expect("an answer")).expect("JSON")
    }

    /// Waits for the next line, which must be the answer to a request.
    async fn hears(&mut self, id: u64) -> Value {
        let answer = self.hears_any().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Makes sure that the bridge has noted that stdout took all answers so far.
    async fn is_heard(&mut self) {
        self.ask(999, "ping", &json!({})).await;
        self.hears(999).await;
    }
}

fn tool_call(id: u64, tool: &str) -> String {
    let arguments = if tool == WAIT {
        json!({"wait_seconds": 60})
    } else {
        json!({})
    };
    let params = json!({"name": tool, "arguments": arguments});
    format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    )
}

fn asked(connection: usize, what: &str) -> Fact {
    Fact::Asked(connection, what.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_connection_carries_the_next_call_once_its_answer_was_read() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    agent.write(&tool_call(1, "a")).await;
    agent.hears(1).await;
    agent.is_heard().await;
    agent.write(&tool_call(2, "b")).await;
    agent.hears(2).await;
    agent.stdin = None;
    agent.bridge.await.expect("no panic").expect("an orderly end");
    assert_eq!(relay.facts(), [asked(1, "a"), asked(1, "b"), Fact::InOrder(1)]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_came_before_an_answer_was_taken_do_not_show_that_it_was_read() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    agent
        .write(&(tool_call(1, "a") + &tool_call(2, "b") + &tool_call(3, "c")))
        .await;
    for id in 1..=3 {
        agent.hears(id).await;
    }
    assert_eq!(relay.facts(), [asked(1, "a"), asked(2, "b"), asked(3, "c")]);
    agent.cancel(2).await;
    relay.noted(asked(4, "\"notifications/cancelled\"")).await;
    assert_eq!(relay.facts()[3], Fact::BrokenOff(2));
}

#[tokio::test(start_paused = true)]
async fn of_many_answers_that_may_be_unread_the_latest_can_be_taken_back() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    let lines: String = (1..=20).map(|id| tool_call(id, "a")).collect();
    agent.write(&lines).await;
    for id in 1..=20 {
        agent.hears(id).await;
    }
    // The first closed one carries others again.
    let facts = relay.facts();
    assert!(
        !facts.iter().any(|fact| matches!(fact, Fact::BrokenOff(_))),
        "{facts:?}"
    );
    agent.cancel(4).await;
    agent.cancel(20).await;
    agent.is_heard().await;
    let is_taken_back = |fact: &Fact| matches!(fact, Fact::BrokenOff(_));
    let is_told = |fact: &Fact| matches!(fact, Fact::Asked(_, what) if what.contains("cancelled"));
    let facts = relay.facts();
    let count = |is: &dyn Fn(&Fact) -> bool| facts.iter().filter(|fact| is(fact)).count();
    // Of the fourth, which counts as read by then, relay is told too.
    assert_eq!((count(&is_taken_back), count(&is_told)), (1, 2), "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn of_two_answers_with_the_same_id_a_cancellation_takes_the_latest_back() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    // The lines between are answered one by one, which takes longer than the call.
    let noise = "no JSON\n".repeat(100);
    agent
        .write(&(tool_call(1, "a") + &noise + &tool_call(1, "b")))
        .await;
    for _ in 0..102 {
        agent.hears_any().await;
    }
    assert_eq!(relay.facts(), [asked(1, "a"), asked(2, "b")]);
    agent.cancel(1).await;
    relay.noted(asked(3, "\"notifications/cancelled\"")).await;
    assert_eq!(relay.facts()[2], Fact::BrokenOff(2));
}

#[tokio::test(start_paused = true)]
async fn a_wait_lets_the_next_call_begin_after_a_moment_and_gets_a_connection_of_its_own() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    agent.write(&tool_call(1, "a")).await;
    agent.hears(1).await;
    agent.is_heard().await;
    let started = tokio::time::Instant::now();
    agent.write(&(tool_call(2, WAIT) + &tool_call(3, "b"))).await;
    agent.hears(3).await;
    assert_eq!(started.elapsed().as_millis() / 10, 10);
    let expected = [asked(1, "a"), Fact::InOrder(1), asked(2, WAIT), asked(3, "b")];
    assert_eq!(relay.facts(), expected);
    agent.cancel(2).await;
    relay.noted(Fact::BrokenOff(2)).await;
    relay.noted(asked(4, "\"notifications/cancelled\"")).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_before_its_turn_is_not_carried_out_and_lets_nobody_past() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    let lines = [tool_call(1, "hang"), tool_call(2, "b"), tool_call(3, "c")].concat();
    agent.write(&lines).await;
    relay.noted(asked(1, "hang")).await;
    agent.cancel(2).await;
    agent.is_heard().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(relay.facts(), [asked(1, "hang")]);
    agent.cancel(1).await;
    agent.hears(3).await;
    let carried_out: Vec<Fact> = relay
        .facts()
        .into_iter()
        .filter(|fact| matches!(fact, Fact::Asked(_, tool) if !tool.contains("cancelled")))
        .collect();
    assert!(matches!(&carried_out[..], [Fact::Asked(1, _), Fact::Asked(_, c)] if c == "c"));
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_given_up_some_time_after_the_end_of_stdin() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    agent.write(&tool_call(1, WAIT)).await;
    relay.noted(asked(1, WAIT)).await;
    let started = tokio::time::Instant::now();
    agent.stdin = None;
    let answer = agent.hears(1).await;
    let text = "Error: stdin ended while the call waited; nothing was taken";
    assert_eq!(answer["result"]["content"][0]["text"], text);
    assert_eq!(started.elapsed().as_millis() / 10, 150);
    agent.bridge.await.expect("no panic").expect("an orderly end");
    let cancelled = asked(2, "\"notifications/cancelled\"");
    assert_eq!(
        relay.facts(),
        [asked(1, WAIT), Fact::BrokenOff(1), cancelled, Fact::InOrder(2)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stdout_that_is_not_read_keeps_the_answer_from_being_confirmed() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, 64).await;
    agent.write(&tool_call(1, "a")).await;
    relay.noted(asked(1, "a")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    agent.ask(2, "ping", &json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    agent.stdin = None;
    let started = tokio::time::Instant::now();
    let ended = agent
        .bridge
        .await
        .expect("no panic")
        .expect_err("stdout takes nothing");
    assert_eq!(ended.to_string(), "stdout does not take the answers");
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(relay.facts(), [asked(1, "a"), Fact::BrokenOff(1)]);
}

/// A stdout that takes everything and has no reader.
struct Deaf;

impl AsyncWrite for Deaf {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn everything_ends_at_once_when_stdin_ends_and_stdout_has_no_reader() {
    let relay = FakeRelay::default();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": WAIT, "arguments": {"wait_seconds": 60}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (mut stdin, bridge_stdin) = duplex(ROOM);
    let bridge = tokio::spawn(run(bridge_stdin, Deaf, settings("127.0.0.1:7331"), relay.clone()));
    stdin
        .write_all(format!("{call}\n").as_bytes())
        .await
        .expect("it is read");
    relay.noted(asked(1, WAIT)).await;
    let started = tokio::time::Instant::now();
    drop(stdin);
    let ended = bridge.await.expect("no panic").expect_err("nobody reads");
    assert_eq!(ended.kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(relay.facts(), [asked(1, WAIT), Fact::BrokenOff(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_relay_closes_is_closed_too() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    agent.write(&tool_call(1, "a")).await;
    agent.hears(1).await;
    agent.is_heard().await;
    agent.write(&tool_call(2, "b")).await;
    agent.hears(2).await;
    relay.closes.send_replace(true);
    relay.noted(Fact::InOrder(1)).await;
    relay.closes.send_replace(false);
    agent.write(&tool_call(3, "c")).await;
    agent.hears(3).await;
    let expected = [asked(1, "a"), asked(1, "b"), Fact::InOrder(1), asked(2, "c")];
    assert_eq!(relay.facts(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_relay_closes_while_it_carries_nothing_is_closed_too() {
    let relay = FakeRelay::default();
    let mut agent = Agent::start(&relay, ROOM).await;
    agent.write(&tool_call(1, "a")).await;
    agent.hears(1).await;
    agent.is_heard().await;
    relay.closes.send_replace(true);
    relay.noted(Fact::InOrder(1)).await;
    assert_eq!(relay.facts(), [asked(1, "a"), Fact::InOrder(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_already_carries_no_call() {
    let calls = Calls::default();
    let relay = FakeRelay::default();
    for id in [1, 2] {
        calls.begin(&RequestId::Number(id)).expect("it is new");
        assert!(calls.turn(&RequestId::Number(id), false).await.is_none());
        calls.answered(
            &RequestId::Number(id),
            relay.connect().await.expect("it is there"),
        );
        calls.written(&RequestId::Number(id));
        calls.stdin_read();
        relay.closes.send_replace(true);
    }
    assert_eq!(relay.facts(), [Fact::InOrder(1)]);
    drop(calls);
    assert_eq!(relay.facts(), [Fact::InOrder(1), Fact::BrokenOff(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_shows_nothing_of_an_answer_that_was_taken_after_its_bytes_had_come() {
    let calls = Calls::default();
    let relay = FakeRelay::default();
    let [first, second, third] = [1, 2, 3].map(RequestId::Number);
    calls.stdin_read();
    assert_eq!(calls.begin(&first), Ok(()));
    calls.answered(&first, relay.connect().await.expect("it is there"));
    calls.written(&first);
    assert_eq!(calls.begin(&second), Ok(()));
    assert!(calls.turn(&second, true).await.is_none());
    assert_eq!(relay.facts(), []);
    calls.stdin_read();
    assert_eq!(calls.begin(&third), Ok(()));
    calls.pass_turn(&second);
    assert!(calls.turn(&third, true).await.is_none());
    assert_eq!(relay.facts(), [Fact::InOrder(1)]);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_under_way_are_refused() {
    let calls: Calls<Wire> = Calls::default();
    for id in 0..UNDER_WAY_MAX {
        let id = RequestId::Number(i64::try_from(id).expect("it is small"));
        assert_eq!(calls.begin(&id), Ok(()));
    }
    let text = RequestId::String("0".into());
    assert_eq!(calls.begin(&text), Err(Unusable::TooMany));
    assert_eq!(calls.begin(&RequestId::Number(0)), Err(Unusable::IdInUse));
    calls.written(&RequestId::Number(0));
    assert_eq!(calls.begin(&text), Ok(()));
}

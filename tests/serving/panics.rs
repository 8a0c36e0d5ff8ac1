//! A panic in the engine, whose state nobody can trust from then on.

use std::sync::Arc;
use std::time::Duration;

use relay::engine::limits::Bounds;
use relay::engine::{Command, Effect, Engine, Input, Overview, Reason, Roster, Status, Timestamp, mail};
use relay::server::{Broken, Config, Guard, Machine, serve, wall_clock};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// An engine that panics when somebody looks what is pending; and also, if it is so, when it is told what became of a reply.
struct Fragile(Engine, bool);

impl Machine for Fragile {
    fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Effect>) {
        let looks = matches!(
            &input,
            Input::Call {
                command: Command::Mail(mail::Command::Pending { .. }),
                ..
            }
        );
        let reports = matches!(&input, Input::Signed { .. }) && self.1;
        assert!(!looks && !reports, "this engine is broken on purpose");
        self.0.handle(now, input, out);
    }

    fn poll_timeout(&self) -> Option<(Timestamp, Reason)> {
        self.0.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        self.0.handle_timeout(now, out);
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn overview(&self) -> Overview {
        self.0.overview()
    }

    fn take_newly_seen(&mut self) -> Option<relay::engine::AgentName> {
        self.0.take_newly_seen()
    }
}

fn config(port: u16, panics_at_a_sign: bool) -> Config {
    let clock = wall_clock();
    let engine = Engine::new(clock(), Roster::default(), Bounds::default(), [7; 16]);
    Config {
        engine: Box::new(Fragile(engine, panics_at_a_sign)),
        roster: Roster::default(),
        clock,
        message_random: Box::new(|| [8; 16]),
        stream_random: Box::new(|| [9; 16]),
        token_random: Box::new(|| [10; 16]),
        log: Box::new(relay::server::NoLog),
        notes: Box::new(String::new()),
        agents: relay::server::KnownAgents::default(),
        guard: Guard { port, token: None },
        keep_alive: Duration::from_secs(15),
        network: Arc::new(relay::server::System),
        messaging: std::sync::Arc::new(relay::server::System),
        push_allow: Vec::new(),
        starter: Arc::new(relay::server::NoStarter),
    }
}

fn call_of(tool: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"for":"pm"}}}}}}"#
    );
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_engine_ends_the_relay_rather_than_leaving_one_that_answers_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let serving = tokio::spawn(serve(
        listener,
        config(address.port(), false),
        CancellationToken::new(),
    ));
    let mut connection = TcpStream::connect(address).await.expect("it listens");
    connection
        .write_all(&call_of("read_messages"))
        .await
        .expect("it is taken");
    connection.readable().await.expect("an answer");
    assert!(!serving.is_finished(), "a read does no harm");
    let mut connection = TcpStream::connect(address).await.expect("it listens");
    connection
        .write_all(&call_of("list_pending"))
        .await
        .expect("it is taken");
    let ended = tokio::time::timeout(Duration::from_secs(30), serving).await;
    let result = ended.expect("the relay ends").expect("it does not panic itself");
    assert_eq!(result.err(), Some(Broken));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_engine_at_what_a_connection_reports_ends_the_relay_in_the_same_way() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let config = config(address.port(), true);
    let serving = tokio::spawn(serve(listener, config, CancellationToken::new()));
    let mut connection = TcpStream::connect(address).await.expect("it listens");
    // Its reply tells of the start, so that its arrival matters.
    connection
        .write_all(&call_of("read_messages"))
        .await
        .expect("it is taken");
    let ended = tokio::time::timeout(Duration::from_secs(30), serving).await;
    let result = ended.expect("the relay ends").expect("it does not panic itself");
    assert_eq!(result.err(), Some(Broken));
}

//! How many deliveries are pushed to web hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::AGENTS;
use crate::compare::{ROUNDS, median};
use crate::incoming::Incoming;
use crate::program::{Program, Server, runtime};
use crate::workspace::{Poster, Workspace, ask};

/// How many messages to an agent may be on their way: they are pushed one after the other, and there is always one to push.
const ON_THE_WAY: usize = 8;

/// Measures pushes per second to so many agents, each with a web hook of its own, of each program that pushes.
pub fn rate(round: Duration, programs: &[Program]) {
    println!(
        "\n{:<24} {:>12} {:>12}",
        "pushes per second", "relay", "other relay"
    );
    let relays: Vec<&Program> = programs
        .iter()
        .filter(|program| matches!(program, Program::Relay(_)))
        .collect();
    for agents in AGENTS {
        let mut rates = vec![Vec::new(); relays.len()];
        for first in 0..ROUNDS {
            for turn in 0..relays.len() {
                let at = (first + turn) % relays.len();
                rates[at].push(pushes_per_second(&Server::of(relays[at]), agents, round));
            }
        }
        print!("{:<24}", if agents == 1 { "1 agent" } else { "32 agents" });
        for rates in rates {
            print!(" {:>12.0}", median(rates));
        }
        println!();
    }
}

/// Posts to agents in a closed loop, and counts what is pushed.
fn pushes_per_second(server: &Server, agents: usize, round: Duration) -> f64 {
    let port = server.port;
    runtime().block_on(async {
        let workspace = Workspace::make(port, agents).await;
        let pushed: Arc<AtomicUsize> = Arc::default();
        let stop: Arc<AtomicBool> = Arc::default();
        let mut posters = Vec::new();
        for agent in &workspace.agents {
            let room = Arc::new(Semaphore::new(ON_THE_WAY));
            let hook = Hook {
                room: Arc::clone(&room),
                pushed: Arc::clone(&pushed),
            };
            hook.bind(port, &workspace.key, &agent.name).await;
            let mut poster = Poster::connect(port, agent).await;
            let stop = Arc::clone(&stop);
            posters.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    room.acquire().await.expect("it is not closed").forget();
                    poster.send().await;
                    poster.answer().await;
                }
            }));
        }
        // The first fifth warms up.
        tokio::time::sleep(round / 5).await;
        let (before, started) = (pushed.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(round).await;
        let rate = (pushed.load(Ordering::Relaxed) - before) as f64 / started.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for poster in posters {
            poster.await.expect("a poster ends well");
        }
        rate
    })
}

/// The web hook of an agent: it takes all that is pushed.
#[derive(Clone)]
struct Hook {
    /// Of what may be on its way to it.
    room: Arc<Semaphore>,
    /// How much was pushed, to any.
    pushed: Arc<AtomicUsize>,
}

impl Hook {
    /// Listens, and has a relay push an agent's deliveries there.
    async fn bind(self, port: u16, key: &str, agent: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!(
            "http://{}/hook",
            listener.local_addr().expect("it has an address")
        );
        tokio::spawn(self.listen(listener));
        let mut connection = Incoming::connect(port).await;
        let node = json!({"name": format!("hook-{agent}"), "kind": "http_push", "delivery": {"url": url, "ack_mode": "on_2xx"}});
        ask(&mut connection, "/v1/nodes", key, &node).await;
        let path = format!("/v1/nodes/hook-{agent}/agents");
        ask(&mut connection, &path, key, &json!({"agent_name": agent})).await;
    }

    async fn listen(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection comes");
            stream.set_nodelay(true).expect("a TCP socket");
            tokio::spawn(self.clone().serve(stream));
        }
    }

    /// Answers what comes over a connection until it ends.
    async fn serve(self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        while take_request(&mut stream, &mut bytes).await.is_some() {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            if stream.write_all(answer).await.is_err() {
                return;
            }
            self.pushed.fetch_add(1, Ordering::Relaxed);
            self.room.add_permits(1);
        }
    }
}

/// Reads a request and throws it away; `bytes` are those that have come and were not read yet. There is none if the connection ends.
async fn take_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    loop {
        if let Some(length) = memchr::memmem::find(bytes, b"\r\n\r\n") {
            let (head, body) = bytes.split_at(length + 4);
            let head = std::str::from_utf8(head).expect("a head is ASCII");
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
            if body.len() >= length {
                bytes.drain(..head.len() + length);
                return Some(());
            }
        }
        let count = stream.read_buf(bytes).await.ok()?;
        if count == 0 {
            return None;
        }
    }
}

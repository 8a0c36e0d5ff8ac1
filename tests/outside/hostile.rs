//! Hostile and broken input: the relay refuses it, stays up, keeps its memory bounded, and others notice nothing.
//!
//! After each hostile act a [`Bystander`] on connections of its own posts and reads as before.

mod addresses;
mod bodies;
mod doors;
mod noise;
mod numbers;
mod slowness;
mod unreadable;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::http::{Connection, Request, Response};
use crate::support::process::Relay;
use crate::support::session::{Session, WAYS, Way};

const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
const MEGABYTE: u64 = 1024 * 1024;

/// A post of one byte from `pm` to `dev-a`, as every test here sends it when it must not be carried out.
const POST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"post_message","arguments":{"from":"pm","to":"dev-a","kind":"free","body":"x"}}}"#;

/// Well-behaved sessions, one for each way to call a relay. They use the inbox of `dev-b`.
struct Bystander {
    sessions: [Session; WAYS.len()],
    rounds: usize,
}

impl Bystander {
    fn of(relay: &Relay) -> Self {
        let mut sessions = WAYS.map(|way| relay.session(way));
        sessions[0].hear_of_start("dev-b");
        let mut bystander = Self { sessions, rounds: 0 };
        bystander.is_unharmed();
        bystander
    }

    /// Posts over each way, reads over the next, and waits for no answer long.
    fn is_unharmed(&mut self) {
        for way in 0..self.sessions.len() {
            self.rounds += 1;
            let started = Instant::now();
            let body = format!("round {}", self.rounds);
            self.sessions[way].post("dev-b", "dev-b", &body);
            let read = self.sessions[(way + 1) % 3].read("dev-b");
            assert_eq!((read.bodies(), read.texts.len()), (vec![body], 1));
            assert!(
                started.elapsed() < Duration::from_secs(5),
                "{:?}",
                started.elapsed()
            );
        }
    }
}

/// A relay, one who uses it well, and an open stream for calls that are not well.
struct Scene {
    relay: Relay,
    bystander: Bystander,
    stream: Session,
}

impl Scene {
    fn new() -> Self {
        let relay = Relay::start();
        let bystander = Bystander::of(&relay);
        let stream = relay.session(Way::Sse);
        Self {
            relay,
            bystander,
            stream,
        }
    }

    /// Where calls go, over both transports.
    fn targets(&self) -> [String; 2] {
        ["/mcp".to_owned(), self.stream.target.clone()]
    }

    /// Sends a request over a connection of its own.
    fn ask(&self, request: &Request) -> Response {
        self.relay.connect().exchange(request)
    }

    /// Nothing was posted, and all goes on.
    fn is_unharmed(&mut self) {
        assert_eq!(self.relay.pending(), json!({"pm": 0, "dev-a": 0, "dev-b": 0}));
        self.bystander.is_unharmed();
    }
}

fn refused(response: &Response) -> (u16, Value) {
    (response.status, response.json())
}

//! Requests written back to back, before any reply is read: what hyper's client never does.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{Answer, SERVER, Settings, now_ms};
use crate::history::{Incarnation, Log};
use crate::net::ClientIo;

/// A connection that has requests under way.
pub struct Pipe {
    io: ClientIo,
    /// What was read, and belongs to a reply that is not whole yet.
    read: Vec<u8>,
    /// Which connection it is.
    pub incarnation: Incarnation,
    log: Log,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.log.closed(now_ms(), self.incarnation);
    }
}

impl Pipe {
    /// Connects, and writes all requests at once.
    pub(super) async fn open(
        settings: &Settings,
        path: &str,
        headers: &[(&'static str, String)],
        messages: &[Value],
    ) -> Option<Self> {
        let mut io = ClientIo::connect(SERVER, settings.ledger.clone()).await.ok()?;
        let mut requests = String::new();
        for message in messages {
            let body = message.to_string();
            requests += &format!("POST {path} HTTP/1.1\r\nhost: localhost:7331\r\n");
            requests += "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
            for (name, value) in headers {
                requests += &format!("{name}: {value}\r\n");
            }
            requests += &format!("content-length: {}\r\n\r\n{body}", body.len());
        }
        let incarnation = settings.log.opened(now_ms());
        io.write_all(requests.as_bytes()).await.ok()?;
        Some(Self {
            io,
            read: Vec::new(),
            incarnation,
            log: settings.log.clone(),
        })
    }

    /// Reads the next reply.
    pub async fn next(&mut self, patience: Duration) -> Answer {
        match timeout(patience, self.reply()).await {
            Ok(answer) => answer,
            Err(_) => Err("no answer in time"),
        }
    }

    /// Goes without having read what its kernel has.
    pub fn abandon(self) {
        self.io.process().abort();
    }

    async fn reply(&mut self) -> Answer {
        loop {
            if let Some((status, from, until)) = whole(&self.read) {
                let body = serde_json::from_slice(&self.read[from..until]);
                self.read.drain(..until);
                return match (status, body) {
                    (200, Ok(message)) => Ok(message),
                    (200, Err(_)) => Err("no JSON"),
                    _ => Err("not accepted"),
                };
            }
            let read = self.io.read_buf(&mut self.read).await;
            if !matches!(read, Ok(1..)) {
                return Err("the connection broke");
            }
        }
    }
}

/// Finds the first reply, if all of it is there: its status, and where its body begins and ends.
fn whole(bytes: &[u8]) -> Option<(u16, usize, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(from) = response.parse(bytes).expect("relay speaks HTTP/1.1") else {
        return None;
    };
    let status = response.code.expect("a whole head has a status");
    let length = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .map_or("0", |header| std::str::from_utf8(header.value).expect("a number"));
    let until = from + length.parse::<usize>().expect("a number");
    (until <= bytes.len()).then_some((status, from, until))
}

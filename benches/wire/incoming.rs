//! A connection, read and written as it costs least.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes that come in, cut where their reader says.
pub struct Incoming {
    /// Where they come from, and requests go.
    pub stream: TcpStream,
    /// Those that have come and were not read yet.
    pub bytes: Vec<u8>,
}

impl Incoming {
    /// Connects to a server.
    pub async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port))
            .await
            .expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        Self {
            stream,
            bytes: Vec::new(),
        }
    }

    /// Reads up to and including `end` and returns what was before it.
    pub async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut seen = 0;
        loop {
            let from = seen - seen.min(end.len());
            if let Some(at) = memchr::memmem::find(&self.bytes[from..], end) {
                let rest = self.bytes.split_off(from + at + end.len());
                let mut head = std::mem::replace(&mut self.bytes, rest);
                head.truncate(from + at);
                return head;
            }
            seen = self.bytes.len();
            self.more().await;
        }
    }

    async fn more(&mut self) {
        let count = self
            .stream
            .read_buf(&mut self.bytes)
            .await
            .expect("the connection holds");
        assert!(count > 0, "the server closed the connection");
    }

    /// Posts JSON; `headers` are those beside the ones that every client sends, each with its line end.
    pub async fn post(&mut self, path: &str, headers: &str, json: &[u8]) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n",
            json.len()
        );
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(json);
        self.stream.write_all(&bytes).await.expect("the connection holds");
    }

    /// Reads a response and returns its body.
    pub async fn response(&mut self) -> Vec<u8> {
        let head = self.until(b"\r\n\r\n").await;
        let head = std::str::from_utf8(&head).expect("a head is ASCII");
        assert!(head.starts_with("HTTP/1.1 20"), "{head}");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
        while self.bytes.len() < length {
            self.more().await;
        }
        let rest = self.bytes.split_off(length);
        std::mem::replace(&mut self.bytes, rest)
    }
}

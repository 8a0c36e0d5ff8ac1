//! HTTP/1.1 by hand: what is sent is exactly what a test says, and what comes back is all that there is.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::PATIENCE;

/// How much of a body a failed test shows, in bytes.
const SHOWN_BYTES: usize = 300;

/// A request.
#[derive(Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request with a good `Host` and nothing else.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: vec![("Host".to_owned(), "localhost".to_owned())],
            body: Vec::new(),
        }
    }

    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// The same with another method.
    pub fn by(self, method: &str) -> Self {
        Self {
            method: method.to_owned(),
            ..self
        }
    }

    /// A `POST` of JSON as an MCP client sends it.
    pub fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let request = Self::new("POST", target)
            .with("Content-Type", "application/json")
            .with("Accept", "application/json, text/event-stream")
            .with("Content-Length", &body.len().to_string());
        Self { body, ..request }
    }

    /// Sets a header, in place of what it was before.
    #[must_use]
    pub fn with(self, name: &str, value: &str) -> Self {
        self.without(name).and(name, value)
    }

    /// Adds a header, even if it is there already.
    #[must_use]
    pub fn and(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    /// Sends the body as one chunk instead of announcing its length.
    #[must_use]
    pub fn chunked(self) -> Self {
        let mut body = format!("{:x}\r\n", self.body.len()).into_bytes();
        body.extend_from_slice(&self.body);
        body.extend_from_slice(b"\r\n0\r\n\r\n");
        let request = self
            .without("Content-Length")
            .with("Transfer-Encoding", "chunked");
        Self { body, ..request }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            method,
            target,
            headers,
            body,
        } = self;
        write!(f, "{method} {target} {headers:?} {}", shown(body))
    }
}

/// A response, whole.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The response without the header that tells the time.
    #[must_use]
    pub fn undated(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "date");
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            headers,
            body,
        } = self;
        write!(f, "{status} {headers:?} {}", shown(body))
    }
}

fn shown(body: &[u8]) -> String {
    let cut = &body[..body.len().min(SHOWN_BYTES)];
    format!("{:?} ({} bytes)", String::from_utf8_lossy(cut), body.len())
}

/// What came of waiting for bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrived {
    /// There are more bytes than before.
    More,
    /// The peer has closed the connection in order.
    Closed,
    /// The connection was reset.
    Reset,
    /// Nothing came in time.
    Nothing,
}

/// A connection to a relay.
pub struct Connection {
    stream: TcpStream,
    /// Received and not yet taken.
    unread: Vec<u8>,
}

impl Connection {
    pub fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the relay accepts connections");
        stream.set_nodelay(true).expect("it is a TCP stream");
        stream.set_write_timeout(Some(PATIENCE)).expect("it is not zero");
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Sends bytes.
    ///
    /// # Panics
    ///
    /// When the connection does not take them.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the connection takes the bytes");
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Gives up sending when nothing is taken for so long.
    pub fn set_write_patience(&self, patience: Duration) {
        self.stream
            .set_write_timeout(Some(patience))
            .expect("it is not zero");
    }

    /// Tells the peer that no more will be sent.
    pub fn end_sending(&self) {
        // A peer that is gone already needs no telling.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    pub fn exchange(&mut self, request: &Request) -> Response {
        self.send(&request.bytes());
        self.response()
    }

    /// Waits for the next response.
    ///
    /// # Panics
    ///
    /// When there is none, or not all of it.
    pub fn response(&mut self) -> Response {
        let response = self.response_or_end();
        let unread = shown(&self.unread);
        response.unwrap_or_else(|| panic!("the connection has ended; received: {unread}"))
    }

    /// Waits for the next response, or for the end of the connection.
    pub fn response_or_end(&mut self) -> Option<Response> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(response) = self.take_response() {
                return Some(response);
            }
            let arrived = self.receive(PATIENCE);
            if matches!(arrived, Arrived::Closed | Arrived::Reset) {
                return None;
            }
            let unread = shown(&self.unread);
            assert!(
                arrived == Arrived::More && Instant::now() < deadline,
                "neither a whole response nor an end; received: {unread}"
            );
        }
    }

    /// Waits for more bytes.
    pub fn receive(&mut self, patience: Duration) -> Arrived {
        self.stream
            .set_read_timeout(Some(patience))
            .expect("it is not zero");
        let mut bytes = [0; 64 * 1024];
        match uninterrupted(|| self.stream.read(&mut bytes)) {
            Ok(0) => Arrived::Closed,
            Ok(count) => {
                self.unread.extend_from_slice(&bytes[..count]);
                Arrived::More
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Arrived::Nothing
            }
            Err(_) => Arrived::Reset,
        }
    }

    /// Waits until the system has bytes for this connection, and leaves them there.
    pub fn await_unread_bytes(&self) {
        self.stream
            .set_read_timeout(Some(PATIENCE))
            .expect("it is not zero");
        let waiting = uninterrupted(|| self.stream.peek(&mut [0])).expect("the connection stands");
        assert_eq!(waiting, 1, "the connection has ended");
    }

    /// Takes the head of a response once it is there whole.
    pub fn take_head(&mut self) -> Option<Response> {
        let length = memchr::memmem::find(&self.unread, b"\r\n\r\n")? + 4;
        let head: Vec<u8> = self.unread.drain(..length).collect();
        Some(parse_head(&head))
    }

    /// Takes one chunk of a chunked body once it is there whole; the last one is empty.
    pub fn take_chunk(&mut self) -> Option<Vec<u8>> {
        let (from, to) = chunk_at(&self.unread, 0)?;
        let chunk = self.unread[from..to].to_vec();
        self.unread.drain(..to + 2);
        Some(chunk)
    }

    /// Takes a response once it is there whole.
    fn take_response(&mut self) -> Option<Response> {
        let head_length = memchr::memmem::find(&self.unread, b"\r\n\r\n")? + 4;
        let mut response = parse_head(&self.unread[..head_length]);
        let end = if response.header("transfer-encoding") == Some("chunked") {
            let mut at = head_length;
            loop {
                let (from, to) = chunk_at(&self.unread, at)?;
                response.body.extend_from_slice(&self.unread[from..to]);
                at = to + 2;
                if from == to {
                    break at;
                }
            }
        } else {
            let length = response.header("content-length").unwrap_or("0");
            let end = head_length + length.parse::<usize>().expect("a length");
            response.body = self.unread.get(head_length..end)?.to_vec();
            end
        };
        self.unread.drain(..end);
        Some(response)
    }
}

/// Reads until no signal comes in between: a process that this one has started may end at any moment.
fn uninterrupted(mut read: impl FnMut() -> std::io::Result<usize>) -> std::io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Finds where the bytes of the chunk at `at` begin and end; none while it is not there whole.
fn chunk_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let size_length = memchr::memmem::find(bytes.get(at..)?, b"\r\n")?;
    let size = std::str::from_utf8(&bytes[at..at + size_length]).expect("a chunk's size is text");
    let size = usize::from_str_radix(size, 16).expect("a chunk's size is a number");
    let from = at + size_length + 2;
    (bytes.len() >= from + size + 2).then_some((from, from + size))
}

fn parse_head(head: &[u8]) -> Response {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.filter_map(|line| line.split_once(": "));
    Response {
        status: status
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("no status in {head:?}")),
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        body: Vec::new(),
    }
}

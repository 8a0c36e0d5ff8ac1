//! A client that costs as little as it can, so that the server is what is measured.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::incoming::Incoming;

/// Calls a tool and waits for its answer.
pub trait Caller: Send + Sized + 'static {
    /// What a request's parameters say beside the tool and its arguments.
    const META: &str = "";

    /// Opens what a session needs.
    fn connect(port: u16) -> impl Future<Output = Self> + Send;

    /// Sends a JSON-RPC request and waits for its response.
    fn call(&mut self, call: &Call) -> impl Future<Output = ()> + Send;
}

/// A tool call as a client of one kind sends it.
pub struct Call {
    tool: &'static str,
    /// The JSON-RPC request.
    pub request: Vec<u8>,
}

pub fn post<C: Caller>(from: &str, to: &str, body: &str) -> Call {
    call::<C>(
        "post_message",
        &format!(r#"{{"from":"{from}","to":"{to}","kind":"status","body":"{body}"}}"#),
    )
}

pub fn read<C: Caller>(agent: &str) -> Call {
    call::<C>("read_messages", &format!(r#"{{"for":"{agent}"}}"#))
}

pub fn read_waiting<C: Caller>(agent: &str) -> Call {
    call::<C>(
        "read_messages",
        &format!(r#"{{"for":"{agent}","wait_seconds":280}}"#),
    )
}

fn call<C: Caller>(tool: &'static str, arguments: &str) -> Call {
    let meta = C::META;
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}{meta}}}}}"#
    );
    Call {
        tool,
        request: request.into_bytes(),
    }
}

/// Counts the reads that wait in a server.
pub async fn waits(port: u16) -> usize {
    let mut health = Incoming::connect(port).await;
    let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let sent = health.stream.write_all(request).await;
    sent.expect("the connection holds");
    let read = health.stream.read_to_end(&mut health.bytes).await;
    read.expect("the connection holds");
    memchr::memmem::find_iter(&health.bytes, "seconds_left").count()
}

/// A session over streamable HTTP: one connection.
pub struct HttpCaller {
    connection: Incoming,
    path: String,
}

impl HttpCaller {
    /// Opens a session whose address says more than that of others.
    pub async fn connect_to(port: u16, path: &str) -> Self {
        Self {
            connection: Incoming::connect(port).await,
            path: path.to_owned(),
        }
    }

    /// Sends a request.
    pub async fn send(&mut self, call: &Call) {
        self.connection.post(&self.path, "", &call.request).await;
    }

    /// Waits for its response.
    pub async fn answer(&mut self) {
        assert_accepted(&self.connection.response().await);
    }
}

impl Caller for HttpCaller {
    async fn connect(port: u16) -> Self {
        Self::connect_to(port, "/mcp").await
    }

    async fn call(&mut self, call: &Call) {
        self.send(call).await;
        self.answer().await;
    }
}

/// A client of protocol version 2026-07-28, which makes no handshake and says in every request who it is: what Claude Code is
/// over streamable HTTP.
pub struct ModernCaller(Incoming);

impl Caller for ModernCaller {
    const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

    async fn connect(port: u16) -> Self {
        Self(Incoming::connect(port).await)
    }

    async fn call(&mut self, Call { tool, request }: &Call) {
        let headers =
            format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
        self.0.post("/mcp", &headers, request).await;
        assert_accepted(&self.0.response().await);
    }
}

/// A session over HTTP+SSE: a stream and a connection for calls.
pub struct SseCaller {
    stream: Incoming,
    calls: Incoming,
    path: String,
}

impl SseCaller {
    /// Opens a stream alone and returns what keeps it open.
    pub async fn open_stream(port: u16) -> impl Send {
        Self::stream(port).await
    }

    async fn stream(port: u16) -> (Incoming, String) {
        let mut stream = Incoming::connect(port).await;
        let request = b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
        stream
            .stream
            .write_all(request)
            .await
            .expect("the connection holds");
        stream.until(b"event: endpoint\ndata: ").await;
        let path = stream.until(b"\n").await;
        (stream, String::from_utf8(path).expect("a path is ASCII"))
    }

    /// Sends a request and waits until it was accepted.
    pub async fn send(&mut self, call: &Call) {
        self.calls.post(&self.path, "", &call.request).await;
        assert_accepted(&self.calls.response().await);
    }

    /// Waits for the next response in the stream.
    pub async fn answer(&mut self) {
        self.stream.until(b"\ndata: ").await;
        assert_accepted(&self.stream.until(b"\n").await);
    }
}

/// A call that is refused costs a server less than one that is carried out.
fn assert_accepted(response: &[u8]) {
    let is_refused = response.ends_with(br#""isError":true}}"#);
    assert!(!is_refused, "{}", String::from_utf8_lossy(response));
}

impl Caller for SseCaller {
    async fn connect(port: u16) -> Self {
        let (stream, path) = Self::stream(port).await;
        let calls = Incoming::connect(port).await;
        Self { stream, calls, path }
    }

    async fn call(&mut self, call: &Call) {
        self.send(call).await;
        self.answer().await;
    }
}

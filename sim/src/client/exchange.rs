//! Connections for one exchange at a time.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::{PATIENCE, SERVER, Settings, Task, now_ms};
use crate::history::{Incarnation, Log};
use crate::net::{ClientIo, Process};

/// A connection for one exchange at a time.
pub(super) struct Exchanger {
    pub sender: SendRequest<Full<Bytes>>,
    pub incarnation: Incarnation,
    pub process: Process,
    log: Log,
    _task: Task,
}

impl Drop for Exchanger {
    fn drop(&mut self) {
        self.log.closed(now_ms(), self.incarnation);
    }
}

/// What came of an exchange, but for its messages.
pub(super) struct Exchanged {
    pub status: u16,
    /// The session's id, if the reply gives one.
    pub session: Option<String>,
}

impl Exchanger {
    pub async fn connect(settings: &Settings) -> Option<Self> {
        let io = ClientIo::connect(SERVER, settings.ledger.clone()).await.ok()?;
        let process = io.process();
        let (sender, connection) = handshake(TokioIo::new(io)).await.ok()?;
        let task = spawn_local(async move {
            let _ = connection.await;
        });
        Some(Self {
            sender,
            incarnation: settings.log.opened(now_ms()),
            process,
            log: settings.log.clone(),
            _task: Task(task),
        })
    }

    /// Posts a message, and hands on what comes back as it comes: one message, or the events of a stream.
    pub async fn post(
        &mut self,
        path: &str,
        headers: &[(&'static str, String)],
        message: &Value,
        mut hear: impl FnMut(Value),
    ) -> Option<Exchanged> {
        let mut request = Request::post(path)
            .header("host", "localhost:7331")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let body = Full::new(Bytes::from(message.to_string()));
        let request = request.body(body).expect("a request");
        let response = self.sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let header = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let session = header("mcp-session-id");
        let is_stream = header("content-type").is_some_and(|kind| kind == "text/event-stream");
        let mut body = response.into_body();
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.ok()?.into_data() else {
                continue;
            };
            text.push_str(std::str::from_utf8(&data).expect("relay writes whole characters at once"));
            while is_stream && let Some((event, rest)) = text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data:"));
                let message = data.and_then(|data| serde_json::from_str(data.trim()).ok());
                message.into_iter().for_each(&mut hear);
                text = rest.to_owned();
            }
        }
        if !is_stream && !text.is_empty() {
            hear(serde_json::from_str(&text).ok()?);
        }
        Some(Exchanged { status, session })
    }

    /// Asks for the server's health.
    async fn health(&mut self) -> Option<Value> {
        let request = Request::get("/health")
            .header("host", "localhost:7331")
            .body(Full::default())
            .expect("a request");
        let response = self.sender.send_request(request).await.ok()?;
        let body = response.into_body().collect().await.ok()?;
        serde_json::from_slice(&body.to_bytes()).ok()
    }
}

/// Asks a server for its health over a connection of its own.
pub async fn health(settings: &Settings) -> Option<Value> {
    let mut exchanger = Exchanger::connect(settings).await?;
    timeout(PATIENCE, exchanger.health()).await.ok().flatten()
}

/// Says that a connection's process is gone without having read what its kernel has; drop it then.
pub(super) struct Abort(pub Option<Process>);

impl Drop for Abort {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            process.abort();
        }
    }
}

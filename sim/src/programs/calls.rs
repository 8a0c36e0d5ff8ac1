//! What hooks, waiters and tools ask relay, over one connection each; who asks may be gone at any moment.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::{Connection, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::timeout;

use crate::client::SERVER;
use crate::net::{ClientIo, Ledger, Process};

/// How long an answer is waited for that does not wait by itself.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Longer than a run.
pub const FOR_EVER: Duration = Duration::from_secs(100_000);

/// A process that is gone before it says that it is done has read nothing, whatever it had.
struct Abort(Option<Process>);

impl Drop for Abort {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            process.abort();
        }
    }
}

/// An answer that has come whole. It counts as unread unless it is said to be [`Answer::done`].
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Value,
    // Before the connection is.
    abort: Abort,
    _connection: Pin<Box<Connection<TokioIo<ClientIo>, Full<Bytes>>>>,
}

impl Answer {
    /// Closes the connection in order: what was read has arrived.
    pub fn done(mut self) {
        self.abort.0 = None;
    }
}

/// Asks once. Nothing comes back where no answer came whole, and nobody knows what became of it.
pub async fn post(ledger: &Ledger, path: &str, body: String, patience: Duration) -> Option<Answer> {
    let asking = async {
        let io = ClientIo::connect_from_anywhere(SERVER, ledger.clone())
            .await
            .ok()?;
        let process = io.process();
        let (mut sender, connection) = handshake(TokioIo::new(io)).await.ok()?;
        let mut connection = Box::pin(connection);
        // Behind the connection, so that it is dropped before it.
        let abort = Abort(Some(process));
        let request = Request::post(path)
            .header("host", format!("localhost:{}", SERVER.1))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Full::new(Bytes::from(body)))
            .expect("the parts are plain");
        let (status, bytes) = {
            let answering = async {
                let response = sender.send_request(request).await.ok()?;
                let status = response.status().as_u16();
                let bytes = response.into_body().collect().await.ok()?.to_bytes();
                Some((status, bytes))
            };
            tokio::pin!(answering);
            tokio::select! {
                biased;
                answer = &mut answering => answer,
                _ = &mut connection => answering.await,
            }
        }?;
        Some(Answer {
            status,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            abort,
            _connection: connection,
        })
    };
    timeout(patience, asking).await.ok().flatten()
}

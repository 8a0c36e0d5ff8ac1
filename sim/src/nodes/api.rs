//! Calls to relay's API over simulated connections, one connection each: what is asked may be carried out though nobody hears the answer.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client::SERVER;
use crate::net::{ClientIo, Ledger};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who asks.
#[derive(Clone)]
pub struct Api(pub Ledger);

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its `data`, or its `error`; null if it has neither.
    pub data: Value,
}

impl Answer {
    /// Tells whether it was done.
    pub fn is_ok(&self) -> bool {
        self.status < 300
    }
}

impl Api {
    /// Asks once. Nothing comes back where nobody knows what became of it.
    pub async fn ask(&self, method: Method, path: &str, token: &str, body: Option<Value>) -> Option<Answer> {
        let asking = async {
            let io = ClientIo::connect_from_anywhere(SERVER, self.0.clone())
                .await
                .ok()?;
            let (mut sender, connection) = handshake(TokioIo::new(io)).await.ok()?;
            let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("host", format!("localhost:{}", SERVER.1))
                .header("content-type", "application/json")
                .header("authorization", format!("Bearer {token}"))
                .body(Full::new(body))
                .expect("the parts are plain");
            let answering = async {
                let response = sender.send_request(request).await.ok()?;
                let status = response.status().as_u16();
                let bytes = response.into_body().collect().await.ok()?.to_bytes();
                let mut data: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                // The person's answers have nothing around them.
                if path.starts_with("/api/") {
                    return Some(Answer { status, data });
                }
                let field = if data["ok"] == true { "data" } else { "error" };
                Some(Answer {
                    status,
                    data: data[field].take(),
                })
            };
            tokio::pin!(answering);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                biased;
                answer = &mut answering => answer,
                _ = &mut connection => answering.await,
            }
        };
        timeout(PATIENCE, asking).await.ok().flatten()
    }

    /// Makes an agent, or comes to it: it has a new token then.
    pub async fn agent_token(&self, name: &str) -> Option<String> {
        let key = self.key().await?;
        let asked = json!({"name": name});
        let made = self.ask(Method::POST, "/v1/agents", &key, Some(asked)).await?;
        let made = if made.is_ok() {
            made
        } else {
            let path = format!("/v1/agents/{name}/rotate-token");
            self.ask(Method::POST, &path, &key, None).await?
        };
        made.data["token"].as_str().map(str::to_owned)
    }

    /// Gets a key of the workspace that all are in.
    pub async fn key(&self) -> Option<String> {
        let asked = json!({"name": "default"});
        let answer = self.ask(Method::POST, "/v1/workspaces", "", Some(asked)).await?;
        answer.data["api_key"].as_str().map(str::to_owned)
    }
}

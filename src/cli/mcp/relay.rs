//! The running relay, as seen from the bridge: what it is asked, and what is told when it does not answer.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use rmcp::model::{CallToolResult, ContentBlock, RequestId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Settings;
use super::connection::{Answer, Connect, Connection, ExchangeError, exchange};
use crate::cli::client::{ANSWER_BYTES_MAX, ANSWER_PATIENCE};
use crate::cli::place::Place;
use crate::tools::ToolResult;

/// The protocol version that the bridge speaks to the relay.
const VERSION: &str = "2025-11-25";

/// How long the relay may take to hear of a cancellation. The connection of the call is broken off before.
const CANCEL_PATIENCE: Duration = Duration::from_secs(1);

/// The running relay.
pub struct Relay<C> {
    connect: C,
    settings: Settings,
}

/// Why a call did not get its answer.
#[derive(Debug)]
pub enum AskError {
    /// Nothing listens.
    NotRunning,
    /// There may be a relay, but no way to it.
    Unreachable(io::Error),
    /// The connection broke after the call was sent.
    WentAway,
    /// The answer did not come within this time.
    NoAnswer(Duration),
    /// Something answered, but not with a result.
    Answered(String),
    /// The agent's end came first, and the call was taken back.
    StdinEnded,
    /// The agent's end came long ago.
    TooLate,
}

impl AskError {
    /// Tells a relay that is not there from one that cannot be reached.
    fn of_connecting(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            Self::NotRunning
        } else {
            Self::Unreachable(error)
        }
    }
}

impl<C: Connect> Relay<C> {
    /// Asks nothing yet.
    pub fn new(settings: Settings, connect: C) -> Self {
        Self { connect, settings }
    }

    /// Returns where the relay is, and for whom it is asked.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks, over a connection that is open or over a new one, for something that the relay may take `wait` to answer, and
    /// returns the connection with the result: what was handed over with it is taken back unless the connection is told to
    /// close in order.
    ///
    /// # Errors
    ///
    /// Why there is no result; the connection is broken off.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        open: Option<C::Connection>,
        id: &RequestId,
        method: &str,
        params: &Value,
        wait: Duration,
    ) -> Result<(T, C::Connection), AskError> {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let patience = ANSWER_PATIENCE + wait;
        let asked = timeout(patience, self.send(open, message.to_string().into()));
        let answer = asked.await.map_err(|_| AskError::NoAnswer(patience))??;
        let result = result_of(answer.status, &answer.body)?;
        Ok((result, answer.connection))
    }

    /// Tells the relay, over a connection of its own and as well as it can, that nobody wants the answer to a call any more.
    pub async fn cancel(&self, id: &RequestId) {
        let params = json!({"requestId": id});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        let telling = self.send(None, message.to_string().into());
        if let Ok(Ok(told)) = timeout(CANCEL_PATIENCE, telling).await {
            told.connection.break_off_when_dropped(false);
        }
    }

    async fn send(
        &self,
        open: Option<C::Connection>,
        message: Bytes,
    ) -> Result<Answer<C::Connection>, AskError> {
        let connection = match open {
            Some(connection) => connection,
            None => self.connect.connect().await.map_err(AskError::of_connecting)?,
        };
        let exchanged = exchange(connection, self.request(message), ANSWER_BYTES_MAX);
        exchanged.await.map_err(|error| match error {
            ExchangeError::Broken(error) => {
                tracing::debug!(%error, "the connection to relay broke");
                AskError::WentAway
            }
            ExchangeError::TooLong => {
                let length = format!("its answer has more than {ANSWER_BYTES_MAX} bytes");
                AskError::Answered(no_relay(&length))
            }
        })
    }

    fn request(&self, message: Bytes) -> Request<Full<Bytes>> {
        let Settings {
            address: _,
            program: _,
            agent,
            token,
            session,
        } = &self.settings;
        let query = agent
            .as_ref()
            .map(|agent| format!("?agent={agent}"))
            .unwrap_or_default();
        let mut request = Request::post(format!("/mcp{query}"))
            .header(HOST, self.authority())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-session-id", session.to_string());
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token.header());
        }
        request
            .body(Full::new(message))
            .expect("the parts of the request are checked when the bridge starts")
    }

    /// The address and port that requests are for.
    fn authority(&self) -> String {
        self.settings.address.to_string()
    }

    /// Tells an agent what went wrong and what to do.
    pub fn tell(&self, trouble: &AskError) -> CallToolResult {
        let address = self.settings.address;
        let text = match trouble {
            AskError::NotRunning => Cow::from(self.not_running()),
            AskError::Unreachable(error) => {
                Cow::from(format!("Error: relay cannot be reached at {address}: {error}"))
            }
            AskError::WentAway => Cow::from(
                "Error: relay went away during the call, which may or may not have been carried out; call again",
            ),
            AskError::NoAnswer(patience) => Cow::from(format!(
                "Error: relay has not answered within {} s, so the call may or may not have been carried out",
                patience.as_secs()
            )),
            AskError::Answered(reason) => Cow::from(ToolResult::error(reason).texts().concat()),
            AskError::StdinEnded => Cow::from("Error: stdin ended while the call waited; nothing was taken"),
            AskError::TooLate => Cow::from(
                "Error: stdin ended and relay did not answer, so the call may or may not have been carried out",
            ),
        };
        CallToolResult::error(vec![ContentBlock::text(text)])
    }

    fn not_running(&self) -> String {
        let place = Place::from(self.settings.address);
        let command = place.command(&self.settings.program, "serve");
        if place.is_this_machine() {
            return format!("Relay is not running on {place}. Start it with: {command}");
        }
        format!("Relay is not running on {place}. Start it there with: {command} --token TOKEN")
    }
}

/// Reads what the relay, or whatever has its port, answered.
fn result_of<T: DeserializeOwned>(status: StatusCode, body: &[u8]) -> Result<T, AskError> {
    #[derive(Deserialize)]
    struct Said<T> {
        result: Option<T>,
        error: Option<Value>,
    }
    match serde_json::from_slice(body) {
        Ok(Said {
            result: Some(result), ..
        }) if status.is_success() => Ok(result),
        Ok(Said {
            error: Some(error), ..
        }) => {
            let message = error.get("message").unwrap_or(&error);
            let message = message
                .as_str()
                .map_or_else(|| message.to_string(), str::to_owned);
            Err(AskError::Answered(message))
        }
        Ok(_) | Err(_) => {
            let reason = no_relay(&format!("status {status}"));
            Err(AskError::Answered(reason))
        }
    }
}

/// Says that what has the relay's port is something else, and what shows it.
fn no_relay(sign: &str) -> String {
    format!("what answers at the relay's port is no relay ({sign})")
}

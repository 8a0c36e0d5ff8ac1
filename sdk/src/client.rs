//! Calls to relay: one connection for each, JSON there and back.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue,
};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::agent::Agent;
use super::connect::{BoxedIo, Connect, Tcp};
use super::error::Error;

/// Where a token of the API stands if relay's own is in `Authorization`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// How long a call may take.
const CALL_PATIENCE: Duration = Duration::from_secs(30);

/// How often a call is tried that can be repeated.
const TRIES: u32 = 3;

/// How long is waited before it is tried again; twice as long the next time.
const PAUSE: Duration = Duration::from_millis(250);

/// What an answer may have, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A relay, by its address.
#[derive(Clone)]
pub struct Client {
    address: Arc<Address>,
    /// What relay asks every request for, if it was started with `--token`.
    guard: Option<HeaderValue>,
}

struct Address {
    /// Host and port.
    authority: String,
    connect: Box<dyn Connect>,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

/// A call, and who makes it.
pub(crate) struct Call<'a> {
    pub method: Method,
    pub path: String,
    /// A token, or a key.
    pub token: Option<&'a str>,
    /// Two calls with the same key are one.
    pub key: Option<String>,
    pub body: Option<Value>,
    /// It may be tried again where nobody knows whether it was carried out.
    pub may_be_repeated: bool,
}

impl<'a> Call<'a> {
    pub fn get(path: impl Into<String>, token: &'a str) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            token: Some(token),
            key: None,
            body: None,
            may_be_repeated: true,
        }
    }

    pub fn post(path: impl Into<String>, token: &'a str, body: Value) -> Self {
        Self {
            method: Method::POST,
            body: Some(body),
            ..Self::get(path, token)
        }
    }

    /// Makes it one that adds only once, however often it is tried.
    pub fn once(self, key: String) -> Self {
        let key = Some(key);
        Self { key, ..self }
    }

    /// Makes it one that is tried a single time: its answer says what the first one has done.
    pub fn unrepeated(self) -> Self {
        let may_be_repeated = false;
        Self {
            may_be_repeated,
            ..self
        }
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl Client {
    /// Makes the client of the relay at `base_url`, `http://127.0.0.1:7331` say. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] where it is no such address.
    pub fn new(base_url: &str) -> Result<Self, Error> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the program's clock, unless it gives another"
        )]
        Self::with(base_url, Tcp, SystemTime::now)
    }

    /// The same with connections and a clock of the caller's own.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] where it is no such address.
    pub fn with(
        base_url: &str,
        connect: impl Connect,
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let unusable = || Error::Address {
            given: base_url.to_owned(),
        };
        let rest = base_url.strip_prefix("http://").ok_or_else(unusable)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let parsed: hyper::http::uri::Authority = authority.parse().map_err(|_| unusable())?;
        if parsed.port_u16().is_none() || parsed.host().is_empty() || authority.contains('@') {
            return Err(unusable());
        }
        let address = Address {
            authority: authority.to_owned(),
            connect: Box::new(connect),
            clock: Box::new(clock),
        };
        Ok(Self {
            address: Arc::new(address),
            guard: None,
        })
    }

    /// Has every request bring the token that relay was started with (`--token`, `RELAY_TOKEN`). What was made by the client before
    /// does not bring it.
    ///
    /// # Errors
    ///
    /// [`Error::Token`] where it can be in no header.
    pub fn with_token(self, token: &str) -> Result<Self, Error> {
        let guard = Some(bearer(token).map_err(|_| Error::Token)?);
        Ok(Self { guard, ..self })
    }

    /// Makes a workspace, or comes to the one that is there: a workspace is a project of relay.
    ///
    /// # Errors
    ///
    /// Relay's, and those of the connection.
    pub async fn workspace(&self, name: &str) -> Result<Workspace, Error> {
        let call = Call {
            token: None,
            ..Call::post("/v1/workspaces", "", json!({"name": name}))
        };
        let data = self.call(call).await?;
        Ok(Workspace {
            client: self.clone(),
            key: text(&data, "api_key", "POST /v1/workspaces")?,
            name: Some(name.to_owned()),
        })
    }

    /// Comes to the workspace of a key, which `relay key` prints.
    pub fn workspace_by_key(&self, key: impl Into<String>) -> Workspace {
        Workspace {
            client: self.clone(),
            key: key.into(),
            name: None,
        }
    }

    /// The agent of a token that was given out elsewhere.
    pub fn agent_by_token(&self, name: impl Into<String>, token: impl Into<String>) -> Agent {
        Agent::new(self.clone(), name.into(), Some(token.into()), None)
    }

    /// An agent without a token: it can do nothing but say so.
    pub fn agent_without_token(&self, name: impl Into<String>) -> Agent {
        Agent::new(self.clone(), name.into(), None, None)
    }

    /// Host and port.
    pub fn authority(&self) -> &str {
        &self.address.authority
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.address.clock)()
    }

    pub(crate) async fn connect(&self) -> Result<BoxedIo, Error> {
        let connecting = self.address.connect.connect(&self.address.authority);
        let connected = timeout(CALL_PATIENCE, connecting).await;
        connected
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|source| self.unreachable(source))
    }

    pub(crate) fn unreachable(&self, source: io::Error) -> Error {
        let authority = self.address.authority.clone();
        Error::Unreachable { authority, source }
    }

    /// Makes a call, and returns the data of its answer; null if it has none.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Value, Error> {
        let mut pause = PAUSE;
        for tried in 1.. {
            let answered = match timeout(CALL_PATIENCE, self.exchange(&call)).await {
                Ok(answered) => answered,
                Err(_) => Err(self.unreachable(io::ErrorKind::TimedOut.into())),
            };
            match answered {
                Err(error) if error.is_passing() && call.may_be_repeated && tried < TRIES => {
                    sleep(pause).await;
                    pause *= 2;
                }
                answered => return answered,
            }
        }
        unreachable!("it is tried a few times")
    }

    async fn exchange(&self, call: &Call<'_>) -> Result<Value, Error> {
        let broken = |error: hyper::Error| self.unreachable(io::Error::other(error));
        let io = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.map_err(broken)?;
        let answering = async {
            let response = sender.send_request(self.request(call)?).await.map_err(broken)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
                .collect()
                .await;
            let body = body.map_err(|error| self.unreachable(io::Error::other(error)))?;
            data_of(call, status, &body.to_bytes())
        };
        // The connection moves the bytes, and ends with the answer.
        tokio::pin!(answering);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            answer = &mut answering => answer,
            _ = &mut connection => answering.await,
        }
    }

    fn request(&self, call: &Call<'_>) -> Result<Request<Full<Bytes>>, Error> {
        let not_sent = |reason: hyper::http::Error| Error::Answer {
            call: call.name(),
            reason: format!("it cannot be asked: {reason}"),
        };
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header(HOST, &self.address.authority);
        if let Some(key) = &call.key {
            request = request.header("idempotency-key", key);
        }
        let body = match &call.body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        let mut request = request.body(Full::new(body)).map_err(not_sent)?;
        let authorized = self.authorize(request.headers_mut(), call.token);
        authorized.map_err(|error| not_sent(error.into()))?;
        Ok(request)
    }

    /// Adds the tokens to a request: relay's own, and the one that says for whom it is.
    pub(crate) fn authorize(
        &self,
        headers: &mut HeaderMap,
        token: Option<&str>,
    ) -> Result<(), InvalidHeaderValue> {
        let Some(guard) = &self.guard else {
            if let Some(token) = token {
                headers.insert(AUTHORIZATION, bearer(token)?);
            }
            return Ok(());
        };
        headers.insert(AUTHORIZATION, guard.clone());
        if let Some(token) = token {
            headers.insert(API_KEY, secret(token)?);
        }
        Ok(())
    }
}

fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    secret(&format!("Bearer {token}"))
}

/// A value that no log shows.
fn secret(value: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(value)?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.address.authority).finish()
    }
}

/// Reads an answer in the envelope that all of them have.
fn data_of(call: &Call<'_>, status: StatusCode, body: &[u8]) -> Result<Value, Error> {
    if status == StatusCode::NO_CONTENT {
        return Ok(Value::Null);
    }
    let not_understood = |reason: String| Error::Answer {
        call: call.name(),
        reason,
    };
    let mut answer: Value = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(_) if status.is_server_error() || status.is_client_error() => {
            return Err(Error::Refused {
                status: status.as_u16(),
                code: status.to_string(),
                message: String::from_utf8_lossy(body).chars().take(300).collect(),
            });
        }
        Err(error) => return Err(not_understood(format!("{status}, and no JSON: {error}"))),
    };
    if answer["ok"] == true {
        return Ok(answer["data"].take());
    }
    let said = |field: &str| answer["error"][field].as_str().map(str::to_owned);
    match (said("code"), said("message")) {
        (Some(code), Some(message)) => Err(Error::Refused {
            status: status.as_u16(),
            code,
            message,
        }),
        _ => Err(not_understood(format!(
            "{status}, and neither \"data\" nor \"error\""
        ))),
    }
}

/// Takes a text out of the data of an answer.
pub(crate) fn text(data: &Value, field: &str, call: &str) -> Result<String, Error> {
    let text = data[field].as_str().map(str::to_owned);
    text.ok_or_else(|| Error::Answer {
        call: call.to_owned(),
        reason: format!("\"{field}\" is missing"),
    })
}

/// Makes one segment of a path of a text.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A workspace, with its key.
#[derive(Clone)]
pub struct Workspace {
    client: Client,
    key: String,
    /// Known if it was asked for by its name: then it can be made again after a restart of relay.
    name: Option<String>,
}

impl Workspace {
    /// Registers an agent, or comes to the one that is there: it has a new token then, and the one before is not good any more.
    ///
    /// # Errors
    ///
    /// Relay's, and those of the connection.
    pub async fn agent(&self, name: &str) -> Result<Agent, Error> {
        let token = self.token(name).await?;
        let origin = Some(self.clone());
        Ok(Agent::new(
            self.client.clone(),
            name.to_owned(),
            Some(token),
            origin,
        ))
    }

    /// Has relay push what comes for an agent to a web hook, and counts it as delivered when the web hook answers with 2xx. It is signed as
    /// Standard Webhooks has it: with `secret`, which is base64, `whsec_` before it or not.
    ///
    /// The web hook is on relay's own machine, or on a host that relay was started with as `--push-allow`. What is set again is
    /// changed by it. A restart of relay forgets it.
    ///
    /// # Errors
    ///
    /// Relay's, and those of the connection.
    pub async fn web_hook(&self, agent: &str, url: &str, secret: &str) -> Result<(), Error> {
        let name = format!("hook-{agent}");
        let auth = json!({"type": "hmac_sha256", "secret": secret, "signature_scheme": "standard-webhooks"});
        let delivery = json!({"url": url, "ack_mode": "on_2xx", "auth": auth});
        let node = json!({"name": name, "kind": "http_push", "delivery": delivery});
        self.client.call(Call::post("/v1/nodes", &self.key, node)).await?;
        let path = format!("/v1/nodes/{}/agents", segment(&name));
        let call = Call::post(path, &self.key, json!({"agent_name": agent}));
        self.client.call(call).await?;
        Ok(())
    }

    async fn token(&self, name: &str) -> Result<String, Error> {
        let call = Call::post("/v1/agents", &self.key, json!({"name": name}));
        match self.client.call(call).await {
            Ok(data) => text(&data, "token", "POST /v1/agents"),
            Err(Error::Refused { code, .. }) if code == "agent_already_exists" => {
                let path = format!("/v1/agents/{}/rotate-token", segment(name));
                let data = self.client.call(Call::post(&path, &self.key, json!({}))).await?;
                text(&data, "token", &path)
            }
            Err(error) => Err(error),
        }
    }

    /// Gets an agent a token where the one before is not good any more, as after a restart of relay.
    pub(crate) async fn token_again(&self, name: &str) -> Result<String, Error> {
        match (self.token(name).await, &self.name) {
            (Err(error), Some(workspace)) if error.is_unauthorized() => {
                Box::pin(self.client.workspace(workspace).await?.token(name)).await
            }
            (token, _) => token,
        }
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_a_port() {
        for good in [
            "http://127.0.0.1:7331",
            "http://localhost:1/",
            "http://[::1]:7331",
        ] {
            assert!(Client::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:7331",
            "https://127.0.0.1:7331",
            "http://127.0.0.1",
            "http://:7331",
            "http://a:b@c:1",
            "http://127.0.0.1:7331/v1",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:7331?x",
        ] {
            let refused = Client::new(bad).expect_err(bad).to_string();
            assert!(
                refused.contains(&format!("{bad:?}")) && refused.contains("http://HOST:PORT"),
                "{refused}"
            );
        }
    }

    #[test]
    fn answers_are_read_out_of_their_envelope() {
        let call = Call::get("/v1/agent", "t");
        let read = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            data_of(&call, status, body.as_bytes()).map_err(|error| error.to_string())
        };
        assert_eq!(read(204, ""), Ok(Value::Null));
        assert_eq!(read(200, r#"{"ok":true,"data":{"a":1}}"#), Ok(json!({"a": 1})));
        let refused = r#"{"ok":false,"error":{"code":"c","message":"m"}}"#;
        assert_eq!(read(404, refused), Err("m (c)".to_owned()));
        assert_eq!(read(403, "no"), Err("no (403 Forbidden)".to_owned()));
        let strange = "what was answered to GET /v1/agent is not understood: 200 OK, and ";
        let reason = read(200, "{}").expect_err("no envelope");
        assert_eq!(reason, format!("{strange}neither \"data\" nor \"error\""));
        assert!(
            read(200, "x")
                .expect_err("no JSON")
                .starts_with(&format!("{strange}no JSON"))
        );
    }

    #[test]
    fn a_name_is_one_segment_of_a_path() {
        assert_eq!(segment("a/b ?#é"), "a%2Fb%20%3F%23%C3%A9");
    }
}

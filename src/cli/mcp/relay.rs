//! The running relay, as seen from the bridge: what it is asked, and what is told when it does not answer.

use std::io;
use std::sync::RwLock;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use rmcp::model::{CallToolResult, ContentBlock, RequestId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connection::{Answer, Connect, Connection, ExchangeError, Sought, exchange};
use super::found::NoneFound;
use super::introduction::Introduction;
use super::updates::{self, Opened, Updates};
use super::{Identity, Label, Project, Settings};
use crate::cli::client::{ANSWER_BYTES_MAX, ANSWER_PATIENCE};
use crate::cli::place::Place;
use crate::engine::DEFAULT_PROJECT;
use crate::tools::{Client, ToolResult, Toolset, Toolsets, Unconnected};

/// The protocol version that the bridge speaks to the relay.
const VERSION: &str = "2025-11-25";

/// The one in which it asks to be told of changes, since a response may go on for ever then.
const LISTENING_VERSION: &str = "2026-07-28";

/// Asks for that.
const LISTEN: &str = "subscriptions/listen";

/// How long the relay may take to hear of a cancellation. The connection of the call is broken off before.
const CANCEL_PATIENCE: Duration = Duration::from_secs(1);

/// Longest path of a working directory that the relay is told, in bytes.
const DIRECTORY_BYTES_MAX: usize = 1_024;

/// The running relay.
pub struct Relay<C> {
    connect: C,
    settings: Settings,
    /// What the agent's program has said of itself, once it has.
    introduction: RwLock<Introduction>,
    /// The agent's program has said what it is.
    introduced: CancellationToken,
}

/// Why a call did not get its answer.
#[derive(Debug)]
pub enum AskError {
    /// Nothing listens.
    NotRunning,
    /// None was found that can be asked; it is said why, and what is to be done.
    NoneFound(NoneFound),
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
    /// Tells whether no relay was reached.
    fn is_absence(&self) -> bool {
        match self {
            Self::NotRunning | Self::NoneFound(_) | Self::Unreachable(_) => true,
            Self::WentAway | Self::NoAnswer(_) | Self::Answered(_) | Self::StdinEnded | Self::TooLate => {
                false
            }
        }
    }

    /// Tells a relay that is not there from one that cannot be reached.
    fn of_connecting(error: io::Error) -> Self {
        let none_found = error
            .get_ref()
            .and_then(|reason| reason.downcast_ref::<NoneFound>());
        if let Some(none_found) = none_found {
            return Self::NoneFound(none_found.clone());
        }
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
        Self {
            connect,
            introduction: RwLock::default(),
            introduced: CancellationToken::new(),
            settings,
        }
    }

    /// Tells whether requests make the agent known to the relay.
    pub fn registers(&self) -> bool {
        registered(&self.settings).is_some()
    }

    /// Takes note of which program the agent is, as it calls itself in its handshake.
    pub fn introduce(&self, program: &str) {
        let introduction = Introduction::of(program, self.registers());
        let mut known = self
            .introduction
            .write()
            .expect("nothing panics while it holds the name");
        *known = introduction;
        drop(known);
        self.introduced.cancel();
    }

    /// Tells whether it has said so.
    pub fn is_introduced(&self) -> bool {
        self.introduced.is_cancelled()
    }

    /// Waits for that.
    pub async fn introduced(&self) {
        self.introduced.cancelled().await;
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
        exchanged.await.map_err(of_exchange)
    }

    /// Asks, over a connection of its own, to be told of the changes of some resources, and returns the stream in which that is
    /// done, once the relay has said that it tells of all of them.
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions>
    ///
    /// # Errors
    ///
    /// Why there is no such stream; the connection is broken off.
    pub async fn listen(&self, uris: &[String]) -> Result<Updates, AskError> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": LISTENING_VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "relay mcp", "version": env!("CARGO_PKG_VERSION")},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"notifications": {"resourceSubscriptions": uris}, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": LISTEN, "method": LISTEN, "params": params});
        let asked = timeout(ANSWER_PATIENCE, self.open(message.to_string().into(), uris));
        asked.await.map_err(|_| AskError::NoAnswer(ANSWER_PATIENCE))?
    }

    async fn open(&self, message: Bytes, uris: &[String]) -> Result<Updates, AskError> {
        let connection = self.connect.connect().await.map_err(AskError::of_connecting)?;
        let mut request = self.request(message);
        let headers = request.headers_mut();
        headers.insert(
            "mcp-protocol-version",
            HeaderValue::from_static(LISTENING_VERSION),
        );
        headers.insert("mcp-method", HeaderValue::from_static(LISTEN));
        let opened = updates::open(connection, request, ANSWER_BYTES_MAX).await;
        let mut updates = match opened.map_err(of_exchange)? {
            Opened::Stream(updates) => updates,
            Opened::Whole(status, body) => {
                let answered = result_of::<Value>(status, &body);
                let nothing = || AskError::Answered(no_relay(&format!("status {status}")));
                return Err(answered.err().unwrap_or_else(nothing));
            }
        };
        let said = updates.next().await.ok_or(AskError::WentAway)?;
        let accepted = &said["params"]["notifications"]["resourceSubscriptions"];
        let is_accepted = |uri: &&String| {
            accepted
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == *uri))
        };
        match uris.iter().find(|uri| !is_accepted(uri)) {
            None => Ok(updates),
            Some(uri) => Err(AskError::Answered(format!(
                "relay does not tell this session of the changes of {uri:?}"
            ))),
        }
    }

    fn request(&self, message: Bytes) -> Request<Full<Bytes>> {
        let Settings { token, session, .. } = &self.settings;
        let mut request = Request::post(self.target())
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

    /// What a request is for that is sent now.
    fn target(&self) -> Uri {
        let project = self.connect.project().or_else(|| self.settings.project.clone());
        let known = self
            .introduction
            .read()
            .expect("nothing panics while it holds the name");
        let target = target_text(&self.settings, project.as_ref(), &known).parse();
        target.expect("whatever is not plain in a query is percent-encoded, and nothing in it is long")
    }

    /// The address and port that requests are for.
    fn authority(&self) -> String {
        self.settings.address.to_string()
    }

    /// Tells an agent what went wrong and what to do, in the words of the toolset whose tool it has called. A tool that tells of the
    /// connection says that there is none, and what to do behind it.
    pub fn tell(&self, trouble: &AskError, toolset: &Toolset, tool: &str) -> CallToolResult {
        let words = self.words(trouble, toolset);
        let Some(status) = self.unconnected(trouble, toolset, tool) else {
            return CallToolResult::error(vec![ContentBlock::text(words)]);
        };
        let advice = words.strip_prefix("Error: ").unwrap_or(&words);
        CallToolResult::success(vec![ContentBlock::text(status), ContentBlock::text(advice)])
    }

    /// Returns what a tool answers because there is no relay, if it answers then.
    fn unconnected(&self, trouble: &AskError, toolset: &Toolset, tool: &str) -> Option<String> {
        let says = toolset.unconnected.filter(|_| trouble.is_absence())?;
        let Settings {
            address,
            identity,
            project,
            ..
        } = &self.settings;
        let sought = self.connect.sought().unwrap_or_else(|| Sought {
            place: Some(address.to_string()),
            project: project.clone(),
        });
        let at_home = sought.place.as_ref().map(|_| DEFAULT_PROJECT);
        let own = Unconnected {
            agent: identity.as_ref().map(|identity| identity.name.local()),
            project: sought.project.as_ref().map(Project::as_str).or(at_home),
            place: sought.place.as_deref(),
        };
        says(tool, &own)
    }

    /// Says what went wrong and what to do.
    pub fn words(&self, trouble: &AskError, toolset: &Toolset) -> String {
        let reason = match trouble {
            AskError::NotRunning => return self.not_running(toolset),
            AskError::NoneFound(NoneFound::NotRunning { reason, start }) => {
                return match toolset.not_running {
                    Some(words) => words(start),
                    None => reason.clone(),
                };
            }
            AskError::NoneFound(NoneFound::NoWay(reason)) => reason.clone(),
            AskError::Unreachable(error) => {
                let address = self.settings.address;
                format!("relay cannot be reached at {address}: {error}")
            }
            AskError::WentAway => {
                "relay went away during the call, which may or may not have been carried out; call again"
                    .to_owned()
            }
            AskError::NoAnswer(patience) => format!(
                "relay has not answered within {} s, so the call may or may not have been carried out",
                patience.as_secs()
            ),
            AskError::Answered(reason) => return ToolResult::error(reason).texts().concat(),
            AskError::StdinEnded => {
                return "Error: stdin ended while the call waited; nothing was taken".to_owned();
            }
            AskError::TooLate => {
                return "Error: stdin ended and relay did not answer, so the call may or may not have been carried out"
                    .to_owned();
            }
        };
        match toolset.unreachable {
            Some(words) => words(&reason),
            None => format!("Error: {reason}"),
        }
    }

    fn not_running(&self, toolset: &Toolset) -> String {
        let place = Place::from(self.settings.address);
        let mut command = place.serve_command(&self.settings.program);
        let there = if place.is_this_machine() {
            ""
        } else {
            command.push_str(" --token TOKEN");
            " there"
        };
        match toolset.not_running {
            Some(words) => words(&command),
            None => format!("Relay is not running on {place}. Start it{there} with: {command}"),
        }
    }
}

/// Says what became of a call without an answer.
fn of_exchange(error: ExchangeError) -> AskError {
    match error {
        ExchangeError::Broken(error) => {
            tracing::debug!(%error, "the connection to relay broke");
            AskError::WentAway
        }
        ExchangeError::TooLong => {
            let length = format!("its answer has more than {ANSWER_BYTES_MAX} bytes");
            AskError::Answered(no_relay(&length))
        }
    }
}

/// Returns who is made known to the relay, if anybody is.
fn registered(settings: &Settings) -> Option<&Identity> {
    let known = |own: &&Identity| settings.toolsets.register() || own.role.is_some() || own.transient;
    settings.identity.as_ref().filter(known)
}

/// Writes what requests are for: who asks, and for which tools. An agent with a role, one that is transient and one with the tools of
/// agent-relay are registered by it, with what tells them apart from others of the name.
fn target_text(settings: &Settings, project: Option<&Project>, introduction: &Introduction) -> String {
    let Introduction { cli, client } = introduction;
    let Settings {
        identity,
        toolsets,
        directory,
        instance,
        ..
    } = settings;
    let mut query = form_urlencoded::Serializer::new(String::new());
    let mut add = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            query.append_pair(key, value);
        }
    };
    let registers_all = toolsets.register();
    let registered = registered(settings);
    if let Some(Identity {
        name, role, module, ..
    }) = identity
    {
        add("agent", Some(name.as_str()));
        let unknown = registers_all.then_some("");
        add("role", role.as_ref().map(Label::as_str).or(unknown));
        add("module", module.as_ref().map(Label::as_str));
    }
    // Who has no name of its own says whole names.
    let of_agent = project.filter(|_| identity.is_some());
    add("project", of_agent.map(Project::as_str));
    if *toolsets != Toolsets::default() {
        add("tools", Some(&toolsets.to_string()));
    }
    if let Some(Identity { transient, .. }) = registered {
        add("instance", Some(&instance.to_string()));
        add("transient", transient.then_some("1"));
        add("cli", cli.as_deref());
        // The relay refuses whoever tells another.
        let can_be_told =
            |path: &&str| path.len() <= DIRECTORY_BYTES_MAX && !path.chars().any(char::is_control);
        add("cwd", directory.as_deref().filter(can_be_told));
    }
    let shown = client.map(|client| Client::reply_max(Some(client)));
    if let Some(reply_max) = settings.reply_max.or(shown) {
        add("reply_kb", Some(&reply_max.to_string()));
    }
    let query = query.finish();
    if query.is_empty() {
        return "/mcp".to_owned();
    }
    format!("/mcp?{query}")
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

#[cfg(test)]
mod tests;

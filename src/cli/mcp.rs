//! `relay mcp`: a bridge from an agent's stdio to the relay that runs on this machine.
//!
//! It answers the handshake and the tool list by itself, so an agent that starts before the relay, or outlives
//! it, needs no restart: a call says that relay is not running, and the next one goes through once it is.

use std::borrow::Cow;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ResultType, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServiceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::{AgentName, InvalidName, Roster};
use crate::server::Token;
use crate::server::rpc::{progress, progress_ticks, server_info, tools_for};
use crate::tools::ToolResult;

/// The protocol version that the bridge speaks to the relay.
const VERSION: &str = "2025-11-25";

/// `relay mcp`.
#[derive(Debug, clap::Args)]
pub struct Mcp {
    /// The port of the relay, 1 to 65535.
    #[arg(long, default_value_t = 7331, value_parser = super::port)]
    port: u16,

    /// The role that this agent has; it need not name itself then, and may not name another.
    #[arg(
        long,
        value_name = "ROLE",
        env = "RELAY_AGENT",
        default_value = "",
        hide_default_value = true
    )]
    agent: Own,

    /// The secret that the relay asks for.
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    token: Option<Token>,
}

/// The role of the bridge's agent, if it has one of its own.
#[derive(Debug, Clone)]
struct Own(Option<AgentName>);

impl std::str::FromStr for Own {
    type Err = InvalidName;

    /// Takes a role; an empty one, from a variable that is not set, is none.
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        AgentName::new(text).map(|agent| Self(Some(agent)))
    }
}

/// Bridges until stdin ends.
///
/// # Errors
///
/// The system's, when stdio or the runtime fails.
pub fn run(args: Mcp) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(bridge(args));
    // A read of stdin that never returns holds up nothing.
    runtime.shutdown_background();
    result
}

async fn bridge(args: Mcp) -> io::Result<()> {
    let relay = Arc::new(Relay::new(args.port, args.agent.0, args.token));
    let stdout = Reported {
        stdout: tokio::io::stdout(),
        relay: Arc::clone(&relay),
    };
    let left = CancellationToken::new();
    let stdin = Watched {
        stdin: tokio::io::stdin(),
        left: left.clone(),
    };
    let serving = Bridge { relay, left }.serve((stdin, stdout)).await;
    match serving {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // An agent that leaves before its handshake has done nothing wrong.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// What an agent's requests come to.
struct Bridge {
    relay: Arc<Relay>,
    /// Cancelled when the agent has closed stdin: nobody waits for answers any more.
    left: CancellationToken,
}

impl ServerHandler for Bridge {
    fn get_info(&self) -> ServerConfig {
        server_info()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.relay.tools().await))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let started = Instant::now();
        let mut ticks = progress_ticks();
        let token = context.meta.get_progress_token();
        let arguments = request.arguments.unwrap_or_default();
        let call = self.relay.call(&request.name, Value::Object(arguments));
        tokio::pin!(call);
        loop {
            tokio::select! {
                biased;
                result = &mut call => {
                    let mut result = result.unwrap_or_else(|trouble| self.relay.tell(&trouble));
                    // The relay was asked in a version that does not have it; rmcp strips it for agents that do not either.
                    result.result_type = Some(ResultType::COMPLETE);
                    return Ok(CallToolResponse::from(result));
                }
                // Dropping the call closes its connection, which cancels it.
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the call was cancelled", None));
                }
                () = self.left.cancelled() => {
                    return Err(ErrorData::internal_error("the client is gone", None));
                }
                _ = ticks.tick(), if token.is_some() => {
                    let token = token.clone().expect("a tick is for a token");
                    let told = context.peer.notify_progress(progress(token, started.elapsed())).await;
                    if told.is_err() {
                        return Err(ErrorData::internal_error("the client is gone", None));
                    }
                }
            }
        }
    }
}

/// The running relay, as seen from here.
struct Relay {
    client: Client<Connect, Full<Bytes>>,
    sockets: Arc<Sockets>,
    address: SocketAddr,
    agent: Option<AgentName>,
    token: Option<Token>,
    ids: AtomicU64,
}

/// Why a call did not get its answer.
#[derive(Debug)]
enum Trouble {
    /// Nothing listens.
    NotRunning,
    /// The connection broke after the call was sent.
    WentAway,
    /// Something answered, but not with a result.
    Answered(String),
}

impl Relay {
    fn new(port: u16, agent: Option<AgentName>, token: Option<Token>) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let sockets = Arc::new(Sockets::default());
        let connect = Connect {
            address,
            sockets: Arc::clone(&sockets),
        };
        Self {
            client: Client::builder(TokioExecutor::new()).build(connect),
            sockets,
            address,
            agent,
            token,
            ids: AtomicU64::new(0),
        }
    }

    /// Returns the tools of the running relay; while there is none, those of a relay with the default roles.
    async fn tools(&self) -> Vec<Tool> {
        #[derive(Deserialize)]
        struct Listed {
            tools: Vec<Tool>,
        }
        let listed: Result<Listed, Trouble> = self.ask("tools/list", json!({})).await;
        match listed {
            Ok(listed) => listed.tools,
            Err(_) => tools_for(&Roster::default(), self.agent.as_ref()),
        }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, Trouble> {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
            .await
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, Trouble> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self
            .client
            .request(self.request(&message))
            .await
            .map_err(|error| trouble(&error))?;
        let status = response.status();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|_| Trouble::WentAway)?
            .to_bytes();
        result_of(status, &body)
    }

    fn request(&self, message: &Value) -> Request<Full<Bytes>> {
        let query = self
            .agent
            .as_ref()
            .map(|agent| format!("?agent={agent}"))
            .unwrap_or_default();
        let mut request = Request::post(format!("http://{}/mcp{query}", self.address))
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.header());
        }
        let body = Full::new(message.to_string().into());
        request
            .body(body)
            .expect("the parts of the request are checked when the bridge starts")
    }

    /// Tells an agent what went wrong and what to do.
    fn tell(&self, trouble: &Trouble) -> CallToolResult {
        let text = match trouble {
            Trouble::NotRunning if self.address.port() == 7331 => {
                Cow::from("Relay is not running. Start it with: relay serve")
            }
            Trouble::NotRunning => Cow::from(format!(
                "Relay is not running. Start it with: relay serve --port {}",
                self.address.port()
            )),
            Trouble::WentAway => Cow::from(
                "Error: relay went away during the call, which may or may not have been carried out; call again",
            ),
            Trouble::Answered(reason) => {
                let result = ToolResult::error(reason);
                Cow::from(result.texts.concat())
            }
        };
        CallToolResult::error(vec![ContentBlock::text(text)])
    }
}

/// Tells a relay that is not there from one that went away.
fn trouble(error: &ClientError) -> Trouble {
    if error.is_connect() {
        Trouble::NotRunning
    } else {
        Trouble::WentAway
    }
}

/// Reads what the relay, or whatever has its port, answered.
fn result_of<T: serde::de::DeserializeOwned>(status: StatusCode, body: &[u8]) -> Result<T, Trouble> {
    #[derive(Deserialize)]
    struct Answer<T> {
        result: Option<T>,
        error: Option<Value>,
    }
    match serde_json::from_slice(body) {
        Ok(Answer {
            result: Some(result), ..
        }) if status.is_success() => Ok(result),
        Ok(Answer {
            error: Some(error), ..
        }) => {
            let message = error.get("message").unwrap_or(&error);
            let message = message
                .as_str()
                .map_or_else(|| message.to_string(), str::to_owned);
            Err(Trouble::Answered(message))
        }
        Ok(_) | Err(_) => {
            let reason = format!("what answers at the relay's port is no relay (status {status})");
            Err(Trouble::Answered(reason))
        }
    }
}

/// The open connections to the relay, so that they can be broken off.
#[derive(Default)]
struct Sockets(Mutex<Vec<socket2::Socket>>);

impl Sockets {
    fn watch(&self, stream: &TcpStream) -> io::Result<()> {
        let socket = socket2::SockRef::from(stream).try_clone()?;
        let mut open = self.0.lock().expect("nothing panics while it holds the sockets");
        open.retain(|socket| socket.peer_addr().is_ok());
        open.push(socket);
        Ok(())
    }

    /// Makes the end of this process break the connections off, so that the relay takes back what it handed over last.
    fn break_off(&self) {
        let open = self.0.lock().expect("nothing panics while it holds the sockets");
        for socket in open.iter() {
            let _ = socket.set_linger(Some(std::time::Duration::ZERO));
        }
    }
}

/// Connects to the relay.
#[derive(Clone)]
struct Connect {
    address: SocketAddr,
    sockets: Arc<Sockets>,
}

impl tower::Service<Uri> for Connect {
    type Response = Socket;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Socket>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let Self { address, sockets } = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            sockets.watch(&stream)?;
            Ok(Socket(TokioIo::new(stream)))
        })
    }
}

/// A connection to the relay, as hyper's client wants it.
struct Socket(TokioIo<TcpStream>);

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// stdout, watched: when the agent does not take a reply, the relay must not count it as read.
struct Reported {
    stdout: tokio::io::Stdout,
    relay: Arc<Relay>,
}

impl Reported {
    fn report<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(_)) = &polled {
            self.relay.sockets.break_off();
        }
        polled
    }
}

impl AsyncWrite for Reported {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stdout).poll_write(cx, buf);
        self.report(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stdout).poll_flush(cx);
        self.report(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stdout).poll_shutdown(cx);
        self.report(polled)
    }
}

/// stdin, watched: when the agent closes it, nothing needs to be waited for.
struct Watched {
    stdin: tokio::io::Stdin,
    left: CancellationToken,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stdin).poll_read(cx, buf);
        let ended = match &polled {
            Poll::Ready(Ok(())) => buf.remaining() > 0 && buf.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if ended {
            self.left.cancel();
        }
        polled
    }
}

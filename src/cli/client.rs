//! The client of all subcommands but `relay mcp`, which has one of its own: finds a relay, asks it at its port, in JSON, and
//! says in words what came of it. What a relay is and what is in it is asked over its unix socket too.
//!
//! Whatever has the port may answer anything, too slowly, without end or not at all: every answer is bounded in time
//! and bytes, and nothing is asked of it before it has said at `/health` that it is a relay.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role as End;

use super::discover::{DiscoverError, Found, Source, Way, discover_here};
use super::health::Health;
use super::ourselves;
use super::place::{MaybePlace, Place};
use super::socket::{connect_to_socket, is_nobody};
use crate::server::{HEALTH_BYTES_MAX, Token};

/// How long a connection may take: to another machine it goes over a network.
pub(super) const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long what has the port may take to say what it is.
const HEALTH_PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer may take on top of what the relay was asked to wait.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// Most bytes of an answer: an inbox full of messages, 64 MiB of bodies that take six bytes for each of their own in
/// JSON and seven in the text of an MCP result, which is JSON within JSON, with the heads of 10,000 messages.
pub(super) const ANSWER_BYTES_MAX: usize = 7 * 64 * 1024 * 1024 + 10_000 * 512;

/// The relay that a subcommand asks.
#[derive(Debug, Clone, clap::Args)]
pub struct At {
    #[command(flatten)]
    place: MaybePlace,

    /// The secret that the relay asks for.
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    token: Option<Token>,
}

impl At {
    /// Returns the relay's place, if it is named.
    pub fn named(&self) -> Option<Place> {
        self.place.named()
    }

    /// Returns the secret that the relay asks for, if it is given.
    pub fn token(&self) -> Option<Token> {
        self.token.clone()
    }
}

/// Why the relay was not asked, or did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens on this machine's port.
    #[error("relay is not running on {place}; start it with: {start}")]
    NotRunning {
        /// Where it was looked for.
        place: Way,
        /// The command that starts it there.
        start: String,
    },
    /// Nothing listens on the unix socket.
    #[error("relay is not running on {place}, named by {found_by}; {advice}")]
    NoneAtSocket {
        /// Where it was looked for.
        place: Way,
        /// What said so.
        found_by: Source,
        /// What is to be done.
        advice: String,
    },
    /// It is not known which relay is meant.
    #[error(transparent)]
    Unknown(#[from] DiscoverError),
    /// A relay was found by its socket, and what is at its port on this machine is not it.
    #[error(
        "relay runs on {socket}, but at {place} {there}; name the address that it listens on: --host ADDRESS --port {}",
        place.port
    )]
    Elsewhere {
        /// Its socket.
        socket: Way,
        /// Where it was looked for.
        place: Place,
        /// What is there in its stead.
        there: &'static str,
    },
    /// A relay was found by its socket, and does not tell its port.
    #[error("relay on {socket} does not tell its port; name it with --port")]
    NoPort {
        /// Its socket.
        socket: Way,
    },
    /// There is no way to the place.
    #[error("cannot reach {place}: {error}")]
    Unreachable {
        /// Where the relay was looked for.
        place: Way,
        /// The system's reason.
        error: io::Error,
    },
    /// Something else than a relay has the port.
    #[error(
        "what listens on {place} does not answer as a relay does; name relay's port with --port, or try again if a relay there is stopped or busy"
    )]
    NoRelay {
        /// Where the relay was looked for.
        place: Way,
    },
    /// The relay was started with a token, and none was given.
    #[error("relay on {place} wants its token; give --token (or RELAY_TOKEN)")]
    TokenWanted {
        /// Where the relay is.
        place: Way,
    },
    /// The relay was started with another token than the one that was given.
    #[error("relay on {place} has another token than the one in --token (or RELAY_TOKEN)")]
    TokenRefused {
        /// Where the relay is.
        place: Way,
    },
    /// The relay refused what it was asked for, and changed nothing.
    #[error("{reason}")]
    Refused {
        /// In the relay's words.
        reason: String,
    },
    /// The relay could not do it just now, as when it stops: it may do the same later.
    #[error("{reason}")]
    NotNow {
        /// In the relay's words.
        reason: String,
    },
    /// The connection broke before the answer was there.
    #[error("relay on {place} went away during the call, which may or may not have been carried out")]
    WentAway {
        /// Where the relay was.
        place: Way,
    },
    /// The answer did not come in time.
    #[error("relay on {place} has not answered within {} s", patience.as_secs())]
    NoAnswer {
        /// Where the relay is.
        place: Way,
        /// How long was waited.
        patience: Duration,
    },
}

impl ClientError {
    /// Tells whether a relay that starts, or comes back, may answer another time.
    pub fn is_away(&self) -> bool {
        match self {
            Self::NotRunning { .. }
            | Self::NoneAtSocket { .. }
            | Self::Unknown(_)
            | Self::Elsewhere { .. }
            | Self::NoPort { .. }
            | Self::Unreachable { .. }
            | Self::NoRelay { .. }
            | Self::NotNow { .. }
            | Self::WentAway { .. }
            | Self::NoAnswer { .. } => true,
            Self::TokenWanted { .. } | Self::TokenRefused { .. } | Self::Refused { .. } => false,
        }
    }
}

/// A connection to a relay.
///
/// Until [`Self::done`] is called, its end breaks it off, however this process ends, so that the relay takes back what
/// it handed over.
pub struct Client {
    asked: Asked,
    sender: SendRequest<Full<Bytes>>,
    /// Runs the connection.
    connection: JoinHandle<()>,
    /// Shares the socket with the task that runs the connection.
    socket: socket2::Socket,
    /// Where the relay is, as the system knows it.
    pub peer: SocketAddr,
    /// The address that the relay is seen from.
    pub local: SocketAddr,
    /// What it said of itself.
    pub health: Health,
}

impl Client {
    /// Finds the relay that is meant, and connects to its port: one that is found by its socket says which that is, and is the one
    /// that answers there.
    ///
    /// # Errors
    ///
    /// As [`Self::reach`]; or that it is not known which relay is meant.
    pub async fn find(at: &At) -> Result<Self, ClientError> {
        Self::reach(discover_here(at.named(), None)?, at.token()).await
    }

    /// Connects to the port of a relay that was found.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`]; or that it is not at its port on 127.0.0.1.
    pub async fn reach(found: Found, token: Option<Token>) -> Result<Self, ClientError> {
        if let Way::Tcp(place) = &found.way {
            return Self::connect(place, token).await;
        }
        let (health, _) = health_of(&found, token.clone()).await?;
        let socket = found.way;
        let Some(port) = health.port else {
            return Err(ClientError::NoPort { socket });
        };
        let place = Place {
            port,
            ..Place::default()
        };
        // The port says nothing of the address: another relay may have it here.
        let there = match Self::connect(&place, token).await {
            Ok(client) if client.health.boot.is_some() && client.health.boot == health.boot => {
                return Ok(client);
            }
            Ok(_) => "another relay listens",
            Err(ClientError::NotRunning { .. }) => "nothing listens",
            Err(ClientError::NoRelay { .. }) => "something else listens",
            Err(other) => return Err(other),
        };
        Err(ClientError::Elsewhere { socket, place, there })
    }

    /// Connects, and makes sure that it is a relay.
    ///
    /// # Errors
    ///
    /// Any [`ClientError`] but [`ClientError::WentAway`] and [`ClientError::NoAnswer`]: nothing was asked for yet. What is
    /// refused is to be asked at all, under the name of the host for instance.
    pub async fn connect(place: &Place, token: Option<Token>) -> Result<Self, ClientError> {
        Self::connect_and_look(place, token)
            .await
            .map(|(client, _)| client)
    }

    /// Connects, and returns with the connection the JSON of what the relay said of itself.
    async fn connect_and_look(place: &Place, token: Option<Token>) -> Result<(Self, String), ClientError> {
        let stream = match timeout(
            CONNECT_PATIENCE,
            TcpStream::connect((place.host.as_str(), place.port)),
        )
        .await
        {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(not_connected(place, error)),
            Err(_) => return Err(not_connected(place, io::ErrorKind::TimedOut.into())),
        };
        let asked = Asked {
            way: Way::Tcp(place.clone()),
            token,
        };
        let unreachable = |error| ClientError::Unreachable {
            place: asked.way.clone(),
            error,
        };
        let (peer, local, socket) = prepared(&stream).map_err(unreachable)?;
        let (mut sender, connection) = asked.begin(stream).await?;
        let (health, json) = asked.look(&mut sender).await?;
        let client = Self {
            asked,
            sender,
            connection,
            socket,
            peer,
            local,
            health,
        };
        Ok((client, json))
    }

    /// Asks for something that the relay may take `wait` to answer, and returns the JSON of the answer.
    ///
    /// # Errors
    ///
    /// The relay's refusal; or that it did not answer, or not as a relay does.
    pub async fn ask(&mut self, path: &str, what: &Value, wait: Duration) -> Result<Bytes, ClientError> {
        self.post(path, what.to_string().into(), wait).await
    }

    /// The same, with JSON that is written already.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn post(&mut self, path: &str, what: Bytes, wait: Duration) -> Result<Bytes, ClientError> {
        let place = self.asked.way.clone();
        let request = self.asked.request("POST", path, what);
        let patience = ANSWER_PATIENCE + wait;
        let asked = gather(self.sender.send_request(request), ANSWER_BYTES_MAX);
        match timeout(patience, asked).await {
            Err(_) => Err(ClientError::NoAnswer { place, patience }),
            Ok(Err(_)) => Err(ClientError::WentAway { place }),
            Ok(Ok((status, body))) if status.is_success() => Ok(body),
            Ok(Ok((status, body))) => {
                let refusal = self.asked.refusal(status, &body);
                Err(refusal.unwrap_or(ClientError::NoRelay { place }))
            }
        }
    }

    /// Makes the connection a WebSocket, whose end is an orderly one however it comes; returns with it the number behind which its events
    /// begin, if the relay says so.
    ///
    /// # Errors
    ///
    /// The relay's refusal; or that it did not answer, or not as a relay does.
    pub async fn listen(
        mut self,
        path: &str,
    ) -> Result<(WebSocketStream<TokioIo<Upgraded>>, Option<u64>), ClientError> {
        let place = self.asked.way.clone();
        let key = generate_key();
        let mut request = self.asked.request("GET", path, Bytes::new());
        let headers = request.headers_mut();
        headers.remove(CONTENT_TYPE);
        for (name, value) in [
            (CONNECTION, "Upgrade"),
            (UPGRADE, "websocket"),
            (SEC_WEBSOCKET_VERSION, "13"),
            (SEC_WEBSOCKET_KEY, &key),
        ] {
            headers.insert(name, value.parse().expect("it is printable ASCII"));
        }
        let asked = timeout(ANSWER_PATIENCE, self.sender.send_request(request)).await;
        let mut response = match asked {
            Err(_) => {
                let patience = ANSWER_PATIENCE;
                return Err(ClientError::NoAnswer { place, patience });
            }
            Ok(Err(_)) => return Err(ClientError::WentAway { place }),
            Ok(Ok(response)) => response,
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let answer = timeout(ANSWER_PATIENCE, gather(async { Ok(response) }, HEALTH_BYTES_MAX)).await;
            let refusal = match answer {
                Ok(Ok((status, body))) => self.asked.refusal(status, &body),
                Ok(Err(_)) | Err(_) => None,
            };
            return Err(refusal.unwrap_or(ClientError::NoRelay { place }));
        }
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accept.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(ClientError::NoRelay { place });
        }
        let seq = response.headers().get("relay-seq");
        let seq = seq.and_then(|seq| seq.to_str().ok()?.parse().ok());
        let upgraded = hyper::upgrade::on(&mut response).await;
        let upgraded = upgraded.map_err(|_| ClientError::WentAway { place })?;
        self.done();
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), End::Client, None).await;
        Ok((socket, seq))
    }

    /// Where the relay is.
    pub fn place(&self) -> &Way {
        &self.asked.way
    }

    /// Says that an answer is not what a relay answers.
    pub fn not_understood(&self) -> ClientError {
        self.asked.no_relay()
    }

    /// Breaks the connection off, and returns once it is: what was not confirmed the relay takes back.
    pub async fn break_off(self) {
        drop((self.sender, self.socket));
        self.connection.abort();
        let _aborted = self.connection.await;
    }

    /// Lets the end of this process close the connection in order: what was read has arrived.
    pub fn done(self) {
        if let Err(error) = self.socket.set_linger(None) {
            tracing::debug!(%error, "cannot take back SO_LINGER");
        }
    }
}

/// Asks a relay what it is and what is in it; returns that, and the JSON as it came.
///
/// # Errors
///
/// As [`Client::connect`].
pub async fn health_of(found: &Found, token: Option<Token>) -> Result<(Health, String), ClientError> {
    let socket = match &found.way {
        Way::Tcp(place) => {
            let asked = Client::connect_and_look(place, token).await?;
            return Ok((asked.0.health, asked.1));
        }
        Way::Unix(socket) => socket,
    };
    let stream = connect_to_socket(socket).await.map_err(|error| {
        let place = found.way.clone();
        if !is_nobody(&error) {
            return ClientError::Unreachable { place, error };
        }
        ClientError::NoneAtSocket {
            place,
            found_by: found.source.clone(),
            advice: found.advice(&ourselves()),
        }
    })?;
    let way = found.way.clone();
    let asked = Asked { way, token };
    let (mut sender, _) = asked.begin(stream).await?;
    asked.look(&mut sender).await
}

/// Which relay is asked, and with which secret.
struct Asked {
    way: Way,
    token: Option<Token>,
}

impl Asked {
    /// Begins to speak over a connection.
    async fn begin(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(SendRequest<Full<Bytes>>, JoinHandle<()>), ClientError> {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|_| self.no_relay())?;
        let connection = connection.with_upgrades();
        let connection = tokio::spawn(async {
            // Whoever asks is told so too.
            let _broken = connection.await;
        });
        Ok((sender, connection))
    }

    /// Asks for `/health`.
    async fn look(&self, sender: &mut SendRequest<Full<Bytes>>) -> Result<(Health, String), ClientError> {
        let request = self.request("GET", "/health", Bytes::new());
        let asked = gather(sender.send_request(request), HEALTH_BYTES_MAX);
        let Ok(Ok((status, body))) = timeout(HEALTH_PATIENCE, asked).await else {
            return Err(self.no_relay());
        };
        if !status.is_success() {
            return Err(self.refusal(status, &body).unwrap_or_else(|| self.no_relay()));
        }
        let health: Option<Health> = serde_json::from_slice(&body).ok();
        let health = health.filter(|health| health.name == "relay");
        let health = health.ok_or_else(|| self.no_relay())?;
        Ok((health, String::from_utf8_lossy(&body).into_owned()))
    }

    fn request(&self, method: &str, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let host = match &self.way {
            Way::Tcp(place) => place.to_string(),
            Way::Unix(_) => "localhost".to_owned(),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.header());
        }
        request
            .body(Full::new(body))
            .expect("host and token are checked when the command line is read")
    }

    fn no_relay(&self) -> ClientError {
        ClientError::NoRelay {
            place: self.way.clone(),
        }
    }

    /// Reads a relay's reason out of an answer that is no success; none if it is not a relay's.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> Option<ClientError> {
        #[derive(Deserialize)]
        struct Answer {
            error: String,
        }
        let Answer { error: reason } = serde_json::from_slice(body).ok()?;
        let place = self.way.clone();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Some(ClientError::NotNow { reason });
        }
        if status != StatusCode::UNAUTHORIZED {
            return Some(ClientError::Refused { reason });
        }
        if !reason.contains("relay") {
            return None;
        }
        Some(match &self.token {
            None => ClientError::TokenWanted { place },
            Some(_) => ClientError::TokenRefused { place },
        })
    }
}

/// Makes the end of a connection break it off, and returns its ends with another handle on it.
fn prepared(stream: &TcpStream) -> io::Result<(SocketAddr, SocketAddr, socket2::Socket)> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream).try_clone()?;
    socket.set_linger(Some(Duration::ZERO))?;
    Ok((stream.peer_addr()?, stream.local_addr()?, socket))
}

fn not_connected(at: &Place, error: io::Error) -> ClientError {
    let place = Way::Tcp(at.clone());
    if error.kind() != io::ErrorKind::ConnectionRefused || !at.is_this_machine() {
        return ClientError::Unreachable { place, error };
    }
    let start = at.serve_command(&ourselves());
    ClientError::NotRunning { place, start }
}

/// Waits for all of a response, up to a bound.
async fn gather(
    response: impl Future<Output = hyper::Result<Response<Incoming>>>,
    bytes_max: usize,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let response = response.await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), bytes_max).collect().await?;
    Ok((status, body.to_bytes()))
}

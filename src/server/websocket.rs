//! What all WebSockets of relay have in common, whoever is at the other end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{self, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};

use super::Shared;
use super::budget::Account;
use super::limits::{
    FRAGMENT_BYTES, OBSERVER_MESSAGE_BYTES_MAX, SOCKET_BYTES_PER_MS_MIN, SOCKET_READ_BYTES,
    SOCKET_WRITE_PATIENCE,
};
use super::wire::Link;

/// Nobody takes what is written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// Makes what ends a connection, with a reason for people.
pub(super) fn close(code: u16, reason: &str) -> Message {
    Message::Close(Some(CloseFrame {
        code,
        reason: cut(reason).into(),
    }))
}

/// Cuts a reason: a close frame has room for 123 bytes of it.
fn cut(reason: &str) -> &str {
    &reason[..boundary(reason, 123)]
}

/// Returns where the last character ends that does within so many bytes.
fn boundary(text: &str, bytes: usize) -> usize {
    let end = (0..=text.len().min(bytes)).rfind(|end| text.is_char_boundary(*end));
    end.unwrap_or_default()
}

/// Writes some messages at once, one behind the other. What waits is counted.
///
/// # Errors
///
/// The connection is broken, or its other end did not take them in time: the more there is of them, the longer it may take; or it was cut.
pub(super) async fn write(
    socket: &mut WebSocket,
    account: &Arc<Account>,
    messages: impl IntoIterator<Item = Message>,
) -> Result<(), Gone> {
    let messages: Vec<Message> = messages.into_iter().collect();
    let bytes: usize = messages.iter().map(bytes).sum();
    let _waiting = account.charge(bytes);
    let written = async {
        for message in messages {
            socket.feed(message).await?;
        }
        socket.flush().await
    };
    in_time(account, bytes, written).await
}

/// Bounds how long the other end may take for so many bytes that are written to it.
async fn in_time<E>(
    account: &Account,
    bytes: usize,
    written: impl Future<Output = Result<(), E>>,
) -> Result<(), Gone> {
    tokio::select! {
        biased;
        () = account.cut().cancelled() => Err(Gone),
        written = tokio::time::timeout(patience(bytes), written) => match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        },
    }
}

/// Returns how long its other end may take for so many bytes.
fn patience(bytes: usize) -> Duration {
    SOCKET_WRITE_PATIENCE + Duration::from_millis((bytes / SOCKET_BYTES_PER_MS_MIN) as u64)
}

/// Returns how long a message is.
fn bytes(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => 0,
    }
}

/// A connection that is to become a [`Socket`].
pub(super) struct Upgrade {
    key: HeaderValue,
    upgraded: OnUpgrade,
    account: Arc<Account>,
}

impl Upgrade {
    /// Takes it out of a request, if that asks for a WebSocket.
    ///
    /// # Errors
    ///
    /// axum's, which looks whether it does.
    pub async fn of(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, WebSocketUpgradeRejection> {
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY).cloned();
        let upgraded = parts.extensions.get::<OnUpgrade>().cloned();
        let link = parts.extensions.get::<ConnectInfo<Link>>().cloned();
        let _all_is_there = WebSocketUpgrade::from_request_parts(parts, shared).await?;
        Ok(Self {
            key: key.expect("axum has found it"),
            upgraded: upgraded.expect("axum has found it"),
            account: Arc::clone(
                link.expect("each request has the link of its connection")
                    .0
                    .account(),
            ),
        })
    }

    /// Answers the request, and hands the WebSocket on once it is one.
    pub fn then<F>(self, serve: impl FnOnce(Socket) -> F + Send + 'static) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let Self {
            key,
            upgraded,
            account,
        } = self;
        tokio::spawn(async move {
            let upgraded = match upgraded.await {
                Ok(upgraded) => TokioIo::new(upgraded),
                Err(error) => {
                    tracing::debug!(%error, "a connection broke before it was a WebSocket");
                    return;
                }
            };
            let config = WebSocketConfig::default()
                .read_buffer_size(SOCKET_READ_BYTES)
                .max_message_size(Some(OBSERVER_MESSAGE_BYTES_MAX))
                .max_frame_size(Some(OBSERVER_MESSAGE_BYTES_MAX));
            let stream = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
            serve(Socket { stream, account }).await;
        });
        let headers = [
            (header::CONNECTION, HeaderValue::from_static("upgrade")),
            (header::UPGRADE, HeaderValue::from_static("websocket")),
            (
                header::SEC_WEBSOCKET_ACCEPT,
                HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("base64 is ASCII"),
            ),
        ];
        (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
    }
}

/// A WebSocket over which long texts go out in fragments, so that many can be given the same one without a copy for each.
pub(super) struct Socket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    account: Arc<Account>,
}

impl Socket {
    /// Returns the account of what waits for its other end.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Waits for what its other end says; none once it says nothing any more.
    pub async fn recv(&mut self) -> Option<Result<tungstenite::Message, tungstenite::Error>> {
        self.stream.next().await
    }

    /// Writes a message.
    ///
    /// # Errors
    ///
    /// As [`write`].
    pub async fn write(&mut self, message: tungstenite::Message) -> Result<(), Gone> {
        let bytes = message.len();
        let _waiting = self.account.charge(bytes);
        in_time(&self.account, bytes, self.stream.send(message)).await
    }

    /// Writes what ends it, with a reason for people.
    ///
    /// # Errors
    ///
    /// As [`write`].
    pub async fn close(&mut self, code: u16, reason: &str) -> Result<(), Gone> {
        let reason = Utf8Bytes::from(cut(reason));
        let code = code.into();
        self.write(tungstenite::Message::Close(Some(protocol::CloseFrame {
            code,
            reason,
        })))
        .await
    }

    /// Writes a text of which somebody else has the memory: a part of it is copied at a time.
    ///
    /// # Errors
    ///
    /// As [`write`].
    pub async fn write_shared(&mut self, text: &str) -> Result<(), Gone> {
        let _waiting = self.account.charge(text.len().min(FRAGMENT_BYTES));
        let stream = &mut self.stream;
        let written = async {
            let (mut rest, mut kind) = (text, Data::Text);
            loop {
                let (part, behind) = rest.split_at(boundary(rest, FRAGMENT_BYTES));
                let frame = Frame::message(part.as_bytes().to_vec(), OpCode::Data(kind), behind.is_empty());
                stream.send(tungstenite::Message::Frame(frame)).await?;
                if behind.is_empty() {
                    return Ok::<_, tungstenite::Error>(());
                }
                (rest, kind) = (behind, Data::Continue);
            }
        };
        in_time(&self.account, text.len(), written).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_may_take_longer_for_more_bytes_and_no_longer_than_for_those() {
        assert_eq!(patience(0), SOCKET_WRITE_PATIENCE);
        let second = Duration::from_secs(1);
        assert_eq!(
            patience(1_000 * SOCKET_BYTES_PER_MS_MIN),
            SOCKET_WRITE_PATIENCE + second
        );
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(
            [0, 1, 2, 3, 4, 9].map(|bytes| boundary("aé🦀", bytes)),
            [0, 1, 1, 3, 3, 7]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_cut_writes_no_more_and_waits_for_nothing() {
        let account = crate::server::budget::Budget::new(1, 0).open();
        let _too_much = account.charge(2);
        let begun = tokio::time::Instant::now();
        let never = std::future::pending::<Result<(), ()>>();
        assert_eq!(in_time(&account, 0, never).await, Err(Gone));
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[test]
    fn a_reason_is_cut_to_what_a_frame_that_closes_has_room_for() {
        assert_eq!(cut(&"x".repeat(200)), "x".repeat(123));
        assert_eq!(cut(&"é".repeat(100)), "é".repeat(61));
        assert_eq!(cut("relay is stopping"), "relay is stopping");
    }
}

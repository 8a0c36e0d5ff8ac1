//! What all WebSockets of relay have in common, whoever is at the other end.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};

use super::limits::{SOCKET_BYTES_PER_MS_MIN, SOCKET_WRITE_PATIENCE};

/// Nobody takes what is written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// Makes what ends a connection, with a reason for people.
pub(super) fn close(code: u16, reason: &str) -> Message {
    // A close frame has room for 123 bytes of it.
    let end = (0..=reason.len().min(123)).rfind(|end| reason.is_char_boundary(*end));
    let reason = &reason[..end.unwrap_or_default()];
    Message::Close(Some(CloseFrame {
        code,
        reason: reason.into(),
    }))
}

/// Writes some messages, one after the other.
///
/// # Errors
///
/// The connection is broken, or its other end did not take one in time.
pub(super) async fn write(
    socket: &mut WebSocket,
    messages: impl IntoIterator<Item = Message>,
) -> Result<(), Gone> {
    for message in messages {
        let patience = patience(&message);
        match tokio::time::timeout(patience, socket.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(Gone),
        }
    }
    Ok(())
}

/// Returns how long the other end may take for a message: the more there is of it, the longer.
fn patience(message: &Message) -> Duration {
    let bytes = match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => 0,
    };
    SOCKET_WRITE_PATIENCE + Duration::from_millis((bytes / SOCKET_BYTES_PER_MS_MIN) as u64)
}

//! What all WebSockets of relay have in common, whoever is at the other end.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::SinkExt as _;

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

/// Writes some messages at once, one behind the other.
///
/// # Errors
///
/// The connection is broken, or its other end did not take them in time: the more there is of them, the longer it may take.
pub(super) async fn write(
    socket: &mut WebSocket,
    messages: impl IntoIterator<Item = Message>,
) -> Result<(), Gone> {
    let messages: Vec<Message> = messages.into_iter().collect();
    let bytes: usize = messages.iter().map(bytes).sum();
    let written = async {
        for message in messages {
            socket.feed(message).await?;
        }
        socket.flush().await
    };
    match tokio::time::timeout(patience(bytes), written).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Gone),
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
}

//! What a supervisor and who is attached say to each other: a letter, a length of four bytes (most significant first), and so many bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::limits::FRAME_BYTES_MAX;

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// To the supervisor: what was typed.
    Keys(Vec<u8>),
    /// To the supervisor: how many rows and columns there are to show it in.
    Size(u16, u16),
    /// To who is attached: what brings the terminal from what it shows to what the worker's does.
    Shown(Vec<u8>),
    /// To who is attached: how the worker has ended.
    Ended(String),
    /// To who wants to be attached: why it is not.
    Refused(String),
}

impl Frame {
    /// Returns the bytes by which it is said.
    ///
    /// # Errors
    ///
    /// It is longer than its length can say.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let (kind, bytes) = match self {
            Self::Keys(bytes) => (b'k', bytes.clone()),
            Self::Size(rows, cols) => (b's', [rows.to_be_bytes(), cols.to_be_bytes()].concat()),
            Self::Shown(bytes) => (b'o', bytes.clone()),
            Self::Ended(text) => (b'e', text.clone().into_bytes()),
            Self::Refused(text) => (b'r', text.clone().into_bytes()),
        };
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        Ok([&[kind], length.to_be_bytes().as_slice(), &bytes].concat())
    }
}

/// Reads what is said; none at the end.
///
/// # Errors
///
/// The connection's; [`io::ErrorKind::InvalidData`] for what is no frame.
pub(crate) async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let mut head = [0; 5];
    match from.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let [kind, length @ ..] = head;
    let none = || io::Error::new(io::ErrorKind::InvalidData, "it is no frame of relay's");
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| none())?;
    if length > FRAME_BYTES_MAX {
        return Err(none());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await?;
    let frame = match kind {
        b'k' => Frame::Keys(bytes),
        b's' => {
            let [a, b, c, d] = <[u8; 4]>::try_from(bytes).map_err(|_| none())?;
            Frame::Size(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        }
        b'o' => Frame::Shown(bytes),
        b'e' => Frame::Ended(String::from_utf8_lossy(&bytes).into_owned()),
        b'r' => Frame::Refused(String::from_utf8_lossy(&bytes).into_owned()),
        _ => return Err(none()),
    };
    Ok(Some(frame))
}

/// Says something.
///
/// # Errors
///
/// The connection's.
pub(crate) async fn write_frame(to: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.bytes()?).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_said_is_heard_and_what_is_no_frame_is_refused() {
        let (mut one, mut other) = tokio::io::duplex(1024);
        for frame in [
            Frame::Keys(b"\x1b[A".to_vec()),
            Frame::Size(24, 1_000),
            Frame::Shown(Vec::new()),
            Frame::Ended("exit code 1".to_owned()),
            Frame::Refused("it is full".to_owned()),
        ] {
            write_frame(&mut one, &frame).await.expect("there is room");
            assert_eq!(read_frame(&mut other).await.expect("a frame"), Some(frame));
        }
        drop(one);
        assert_eq!(read_frame(&mut other).await.expect("an end"), None);
        for bad in [b"x\0\0\0\0".as_slice(), b"s\0\0\0\x01a", b"k\xff\xff\xff\xff"] {
            let refused = read_frame(&mut &*bad).await.expect_err("it is none");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        }
    }
}

//! A connection over a unix socket that is broken off unless it is told to close in order.
//!
//! A unix socket has no reset that its owner could ask for: Linux makes one when a process closes it, or dies, with bytes
//! unread. So the last byte of what came is used, but left in the socket until the connection may close in order.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

use super::connection::Connection;

/// Most bytes that are taken at once.
const CHUNK: usize = 16 * 1024;

/// Whether the system breaks a connection off that is closed with bytes unread. Elsewhere relay takes every end for a break,
/// unless bytes came before it: [`NOTHING`].
const UNREAD_BREAKS_OFF: bool = cfg!(target_os = "linux");

/// What is said before an orderly end that by itself says nothing: an empty line, which HTTP passes over.
/// <https://www.rfc-editor.org/rfc/rfc9112#section-2.2>
const NOTHING: &[u8] = b"\r\n";

/// The bridge's end of a connection.
pub struct Held {
    stream: UnixStream,
    breaks_off: AtomicBool,
    /// The one byte that is left in the socket was used already.
    holds: AtomicBool,
}

impl Held {
    /// Takes a connection that was just made; it is broken off when it is dropped.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            breaks_off: AtomicBool::new(true),
            holds: AtomicBool::new(false),
        }
    }

    /// Reads what has come and leaves its last byte in the socket.
    fn read_and_hold(&self, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        // Looked for before the bytes: all that was sent before the end is there then.
        let ended = has_ended(&self.stream);
        let held = usize::from(self.holds.load(Ordering::Relaxed));
        let mut chunk = [0; CHUNK + 1];
        let room = buf.remaining().min(CHUNK) + held;
        let (_, there) = recv(&self.stream, &mut chunk[..room], RecvFlags::PEEK)?;
        if there <= held {
            // Without a byte that is held, there being none is the end.
            let is_end = ended || held == 0;
            return is_end
                .then_some(())
                .ok_or_else(|| io::ErrorKind::WouldBlock.into());
        }
        buf.put_slice(&chunk[held..there]);
        self.holds.store(true, Ordering::Relaxed);
        self.take_out(there - 1)
    }

    /// Takes bytes out of the socket that are there and were used.
    fn take_out(&self, mut bytes: usize) -> io::Result<()> {
        let mut used = [0; CHUNK];
        while bytes > 0 {
            let most = bytes.min(CHUNK);
            let (_, taken) = recv(&self.stream, &mut used[..most], RecvFlags::empty())?;
            bytes -= taken;
        }
        Ok(())
    }
}

/// Tells whether the other end has sent its last byte.
#[cfg(target_os = "linux")]
fn has_ended(stream: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
    let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(ends)
}

#[cfg(not(target_os = "linux"))]
fn has_ended(_stream: &UnixStream) -> bool {
    false
}

impl Connection for Held {
    fn break_off_when_dropped(&self, yes: bool) {
        self.breaks_off.store(yes, Ordering::Relaxed);
        if yes || !self.holds.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.take_out(1) {
            tracing::debug!(%error, "cannot read the last byte");
        }
    }

    fn is_open(&self) -> bool {
        let peeked = recv(&self.stream, &mut [0], RecvFlags::PEEK);
        peeked.is_err_and(|error| error == rustix::io::Errno::WOULDBLOCK)
    }

    async fn ended(&self) {
        let looked = || match self.is_open() {
            true => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            false => Ok(()),
        };
        let stream = &self.stream;
        while stream.readable().await.is_ok() && stream.try_io(Interest::READABLE, looked).is_err() {}
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !UNREAD_BREAKS_OFF && !*self.breaks_off.get_mut() {
            // A relay that is gone wants to know nothing.
            let _ = self.stream.try_write(NOTHING);
        }
    }
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !UNREAD_BREAKS_OFF || !self.breaks_off.load(Ordering::Relaxed) {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let read = self.stream.try_io(Interest::READABLE, || self.read_and_hold(buf));
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }
}

impl AsyncWrite for Held {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pair() -> (Held, UnixStream) {
        let (own, relay) = UnixStream::pair().expect("a pair of sockets");
        (Held::new(own), relay)
    }

    /// How relay sees the end of a connection over which it has sent a reply, all of which was read.
    async fn end(ending: impl FnOnce(Held)) -> io::Result<usize> {
        let (mut own, mut relay) = pair();
        relay.write_all(b"reply").await.expect("it is taken");
        own.read_exact(&mut [0; 5]).await.expect("it is there");
        ending(own);
        relay.read(&mut [0]).await
    }

    #[tokio::test]
    async fn a_dropped_connection_is_broken_off_and_one_that_may_close_in_order_does() {
        let error = end(drop).await.expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let in_order = end(|own| own.break_off_when_dropped(false)).await;
        assert_eq!(in_order.expect("an orderly end"), 0);
    }

    #[tokio::test]
    async fn a_connection_that_goes_on_after_a_reply_that_was_read_breaks_off_the_next_one() {
        let (mut own, mut relay) = pair();
        for round in 0..3 {
            relay.write_all(b"reply").await.expect("it is taken");
            own.read_exact(&mut [0; 5]).await.expect("it is there");
            assert!(!own.is_open(), "a byte is held");
            own.break_off_when_dropped(false);
            assert!(own.is_open(), "round {round}");
            own.break_off_when_dropped(true);
        }
        relay.write_all(b"reply").await.expect("it is taken");
        own.read_exact(&mut [0; 5]).await.expect("it is there");
        drop(own);
        assert!(relay.read(&mut [0]).await.is_err());
    }

    #[tokio::test]
    async fn bytes_that_come_later_are_read_once_each_and_then_the_end() {
        let (mut own, mut relay) = pair();
        let sent: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            for (piece, size) in sent.chunks(997).zip([1, 2, 997].into_iter().cycle()) {
                for part in piece.chunks(size) {
                    relay.write_all(part).await.expect("it is taken");
                }
                tokio::task::yield_now().await;
            }
        });
        let mut read = Vec::new();
        own.read_to_end(&mut read).await.expect("an orderly end");
        assert!(read == expected);
        sending.await.expect("no panic");
    }

    #[tokio::test]
    async fn the_end_is_noticed_when_it_comes_and_not_before() {
        let (own, relay) = pair();
        {
            let mut ended = Box::pin(own.ended());
            assert!(futures_util::poll!(&mut ended).is_pending());
            drop(relay);
            let patience = std::time::Duration::from_secs(10);
            tokio::time::timeout(patience, ended)
                .await
                .expect("it is noticed");
        }
        assert!(!own.is_open());
    }

    #[tokio::test]
    async fn with_a_byte_held_nothing_is_there_until_more_comes() {
        let (mut own, mut relay) = pair();
        relay.write_all(b"a").await.expect("it is taken");
        assert_eq!(own.read_u8().await.expect("it is there"), b'a');
        let mut next = Box::pin(own.read_u8());
        assert!(futures_util::poll!(&mut next).is_pending());
        relay.write_all(b"b").await.expect("it is taken");
        assert_eq!(next.await.expect("it is there"), b'b');
        drop(relay);
        let ended = own.read_u8().await.expect_err("the end");
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }
}

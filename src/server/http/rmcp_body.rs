//! What rmcp answers, on its way to the connection: a body of JSON, or a stream of events.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Interval;

use super::super::limits::FREE_BYTES;
use super::super::rpc::Caller;
use super::super::wire::{Link, Sent};

/// The last event of a stream whose call was cancelled: nothing, under an id that is no call's. A client that asks for the rest of
/// the stream, since it had no response, is told then that there is none.
const NO_REST: &[u8] = b"id: cancelled\ndata:\n\n";

/// A body that rmcp writes. Once hyper has taken all of it, the receipt that its call has left goes to the connection.
pub(super) struct RmcpBody<B> {
    pub(super) inner: B,
    /// Goes before the first bytes.
    pub(super) first: Option<Bytes>,
    /// In a stream of events, which is silent for long. rmcp would keep it alive by another clock than tokio's.
    pub(super) keep_alive: Option<Interval>,
    /// Ends without the error that rmcp writes for a cancelled request.
    pub(super) in_session: bool,
    pub(super) is_over: bool,
    pub(super) caller: Caller,
    pub(super) link: Link,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for RmcpBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if self.in_session && self.caller.is_cancelled() && polled.is_ready() {
            self.is_over = true;
            let has_begun = self.keep_alive.is_some() && self.first.is_none();
            return Poll::Ready(has_begun.then(|| Ok(Frame::data(Bytes::from_static(NO_REST)))));
        }
        let ended = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.inner.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if ended && let Some(receipt) = self.caller.take_receipt() {
            self.link.sent(Sent::Reply(receipt));
        }
        match (&polled, &mut self.keep_alive) {
            (Poll::Ready(_), Some(keep_alive)) => keep_alive.reset(),
            (Poll::Pending, Some(keep_alive)) => {
                ready!(keep_alive.poll_tick(cx));
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))));
            }
            (_, None) => {}
        }
        let is_event = self.keep_alive.is_some();
        polled.map_ok(|frame| {
            frame.map_data(|data| {
                let data = match self.first.take() {
                    None => data,
                    Some(first) => [first, data].concat().into(),
                };
                // One that is no event was all there at once, and is counted already.
                match is_event && data.len() > FREE_BYTES {
                    true => self.link.account().charged(data),
                    false => data,
                }
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

//! An answer with messages in it that is made in pieces, as its client takes it: whole, it may be many times what the messages are.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use http_body::Frame;

use super::limits::PIECE_BYTES;
use super::owner::Receipt;
use super::wire::{Link, Sent};
use crate::engine::Delivery;
use crate::engine::holds::HeldBy;
use crate::tools::holds;
use crate::tools::text::Json;

/// A message, and by which hold it stands aside if it does.
pub type Waiting = (Delivery, Option<HeldBy>);

/// The answer `{"messages": […], …}`.
pub struct Pieces {
    /// What is yet to be written.
    messages: std::vec::IntoIter<Waiting>,
    /// What stands behind them, up to the end.
    end: Vec<u8>,
    has_begun: bool,
    is_over: bool,
    /// Goes to the connection with the last piece.
    receipt: Option<Receipt>,
    link: Link,
}

impl Pieces {
    /// Tells whether messages are better written so.
    pub fn are_for(messages: &[Waiting]) -> bool {
        let bodies = messages.iter().map(|(delivery, _)| delivery.message.body.len());
        bodies.sum::<usize>() > PIECE_BYTES
    }

    /// Makes the response; `end` is what stands behind the array, from its comma on, up to the end of the object.
    pub fn response(
        messages: Vec<Waiting>,
        end: &[u8],
        receipt: Option<Receipt>,
        link: &Link,
    ) -> Response<Body> {
        let pieces = Self {
            messages: messages.into_iter(),
            end: [b"]", end].concat(),
            has_begun: false,
            is_over: false,
            receipt,
            link: link.clone(),
        };
        let mut response = Response::new(Body::new(pieces));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let mut piece = Vec::new();
        if !self.has_begun {
            piece.extend_from_slice(br#"{"messages":["#);
        }
        while piece.len() < PIECE_BYTES {
            let Some((delivery, held)) = self.messages.next() else {
                piece.append(&mut self.end);
                self.is_over = true;
                break;
            };
            if std::mem::replace(&mut self.has_begun, true) {
                piece.push(b',');
            }
            Json::document(&mut piece).object(|object| holds::write_waiting(&delivery, held, object));
        }
        if self.is_over
            && let Some(receipt) = self.receipt.take()
        {
            self.link.sent(Sent::Reply(receipt));
        }
        let piece = self.link.account().charged(piece);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

/// Returns what waits in an inbox and what is held there, in its order.
pub fn inbox(waiting: &[Delivery], held: &[(Delivery, HeldBy)]) -> Vec<Waiting> {
    let waiting = waiting.iter().map(|delivery| (delivery.clone(), None));
    let held = held.iter().map(|(delivery, by)| (delivery.clone(), Some(*by)));
    let mut all: Vec<Waiting> = waiting.chain(held).collect();
    all.sort_by_key(|(delivery, _)| delivery.seq);
    all
}

/// Returns what was taken, in the order in which it was.
pub fn taken(deliveries: &[Delivery]) -> Vec<Waiting> {
    let taken = deliveries.iter();
    taken.map(|delivery| (delivery.clone(), None)).collect()
}

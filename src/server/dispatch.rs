//! A connection's requests: what calls tools goes to its transport at once, everything else through axum's router.
//!
//! For each request the router clones itself and boxes a future and a body, which takes longer than a step of the engine. So
//! `POST /mcp` and `POST /message` pass it by. It knows nothing of what they bring.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use tower::Service as _;

use super::budget::Charge;
use super::http::{self, RmcpService, Unread, collect_message};
use super::limits::{FREE_BYTES, REQUEST_BYTES_MAX};
use super::owner::Receipt;
use super::wire::{Link, Sent};
use super::{Shared, guard, sse};

/// Where requests go.
pub(super) struct Dispatch {
    shared: Arc<Shared>,
    rmcp: RmcpService,
    /// Made by the first request that needs it, which no `POST /mcp` does that is let in. To make it at the start would more than
    /// double what relay does until it is ready, and would bring the code of all routes into memory, which lies far apart.
    router: OnceLock<Router>,
}

impl Dispatch {
    /// Puts the ways together.
    pub fn new(shared: Arc<Shared>, rmcp: RmcpService) -> Self {
        Self {
            shared,
            rmcp,
            router: OnceLock::new(),
        }
    }

    /// Answers one request. What waits of a long answer for its client is counted.
    pub async fn answer(
        self: Arc<Self>,
        link: Link,
        mut request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let mut response = match self.by_short_way(&link, &request) {
            Some(Short::Exchange) => {
                guard::hide_token(request.headers_mut());
                http::exchange(&self.shared, &self.rmcp, &link, request).await
            }
            Some(Short::Message) => {
                guard::hide_token(request.headers_mut());
                let response = sse::message(&self.shared, request).await;
                response.map(ResponseBody::routed)
            }
            // Boxed, so that the future of a tool call does not have room for it.
            None => Box::pin(self.route(link.clone(), request)).await,
        };
        response.body_mut().charge(&link);
        response
    }

    /// Tells which request passes the router by. Who is not let in is told so behind that.
    fn by_short_way(&self, link: &Link, request: &Request<Incoming>) -> Option<Short> {
        if request.method() != Method::POST {
            return None;
        }
        let short = match request.uri().path() {
            "/mcp" | "/mcp/" => Short::Exchange,
            "/message" => Short::Message,
            _ => return None,
        };
        let guard = &self.shared.guard;
        let refusal = guard.refusal(request.uri(), request.headers(), link.is_own_user());
        refusal.is_none().then_some(short)
    }

    async fn route(&self, link: Link, request: Request<Incoming>) -> Response<ResponseBody> {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(link));
        let router = self
            .router
            .get_or_init(|| super::router(Arc::clone(&self.shared)));
        let Ok(response) = router.clone().call(request).await;
        response.map(ResponseBody::routed)
    }
}

/// What passes the router by.
enum Short {
    /// `POST /mcp`.
    Exchange,
    /// `POST /message`.
    Message,
}

/// The body of a response.
pub(super) enum ResponseBody {
    /// Bytes that are known. The receipt goes to the connection once hyper has taken them.
    Whole {
        bytes: Option<Bytes>,
        receipt: Option<(Receipt, Link)>,
    },
    /// What came through the router or from rmcp. One that is whole already is counted until its bytes are.
    Routed { body: Body, charge: Option<Charge> },
}

impl ResponseBody {
    /// Takes what came through the router or from rmcp.
    pub fn routed(body: Body) -> Self {
        Self::Routed { body, charge: None }
    }

    /// Counts what is there of it, until the client has it; an answer is all that a connection has waiting, so a short one is free. Whoever
    /// makes the rest later counts that.
    fn charge(&mut self, link: &Link) {
        let account = link.account();
        match self {
            Self::Whole { bytes, .. } => {
                if let Some(long) = bytes.take_if(|bytes| bytes.len() > FREE_BYTES) {
                    *bytes = Some(account.charged(long));
                }
            }
            Self::Routed { body, charge } => {
                let length = body.size_hint().exact();
                let length = length.filter(|length| *length > FREE_BYTES as u64);
                *charge =
                    length.map(|length| account.charge(usize::try_from(length).unwrap_or(usize::MAX / 2)));
            }
        }
    }

    /// Makes a response of JSON, and follows its bytes if something is handed over in them. Its headers take the room of the
    /// request's, which nobody needs any more.
    pub fn json(bytes: Bytes, receipt: Option<Receipt>, link: &Link, headers: HeaderMap) -> Response<Self> {
        let mut headers = emptied(headers);
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let mut response = Response::new(Self::Whole {
            bytes: Some(bytes),
            receipt: receipt.map(|receipt| (receipt, link.clone())),
        });
        *response.headers_mut() = headers;
        response
    }
}

impl ResponseBody {
    /// Makes an event of a body that is one message of JSON, written in one line.
    pub fn into_event(self) -> Self {
        match self {
            Self::Whole { bytes, receipt } => {
                let bytes = bytes.map(|bytes| [BEFORE_EVENT, &*bytes, BEHIND_EVENT].concat().into());
                Self::Whole { bytes, receipt }
            }
            Self::Routed { body, charge } => {
                let body = Body::new(AsEvent {
                    message: body,
                    before: Some(BEFORE_EVENT),
                    is_over: false,
                });
                Self::Routed { body, charge }
            }
        }
    }
}

const BEFORE_EVENT: &[u8] = b"event: message\ndata: ";
const BEHIND_EVENT: &[u8] = b"\n\n";

/// A message, as an event.
struct AsEvent {
    message: Body,
    before: Option<&'static [u8]>,
    is_over: bool,
}

impl http_body::Body for AsEvent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut self.message).poll_frame(cx)) {
            Some(frame) => frame?.into_data().unwrap_or_default(),
            None => Bytes::new(),
        };
        // With the last bytes of the message: what is handed over in it has not arrived before this has.
        self.is_over = self.message.is_end_stream() || frame.is_empty();
        let before = self.before.take().unwrap_or_default();
        let behind = if self.is_over { BEHIND_EVENT } else { b"" };
        Poll::Ready(Some(Ok(Frame::data([before, &*frame, behind].concat().into()))))
    }

    fn size_hint(&self) -> SizeHint {
        let before = self.before.unwrap_or_default().len();
        let around = (before + BEHIND_EVENT.len()) as u64;
        let message = self.message.size_hint().exact().filter(|_| !self.is_over);
        message.map_or_else(SizeHint::default, |message| {
            SizeHint::with_exact(message + around)
        })
    }
}

/// Takes all headers out, and leaves their room to those of the response; hyper reads the next request's into the same.
pub(super) fn emptied(mut headers: HeaderMap) -> HeaderMap {
    headers.clear();
    headers
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut *self {
            Self::Whole { bytes, receipt } => {
                if let Some((receipt, link)) = receipt.take() {
                    link.sent(Sent::Reply(receipt));
                }
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Routed { body, charge } => {
                let polled = Pin::new(body).poll_frame(cx);
                polled.map_ok(|frame| {
                    frame.map_data(|bytes| match charge.take() {
                        Some(charge) => charge.on(bytes),
                        None => bytes,
                    })
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole { bytes, .. } => bytes.is_none(),
            Self::Routed { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { bytes, .. } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Routed { body, .. } => body.size_hint(),
        }
    }
}

/// Gathers a request's body within its bounds of length and time. One that has come with the head, as most have, is taken as it
/// is, and no clock is set.
///
/// # Errors
///
/// [`Unread`].
pub(super) async fn read(mut body: Incoming) -> Result<Bytes, Unread> {
    let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
    let first = match first {
        Poll::Ready(None) => return Ok(Bytes::new()),
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(bytes) if body.is_end_stream() && bytes.len() <= REQUEST_BYTES_MAX => return Ok(bytes),
            Ok(bytes) => Some(Ok(Frame::data(bytes))),
            Err(trailers) => Some(Ok(trailers)),
        },
        Poll::Ready(Some(Err(error))) => Some(Err(error)),
        Poll::Pending => None,
    };
    Box::pin(collect_message(Body::new(Begun { first, rest: body }))).await
}

/// A body whose first frame has been taken out.
struct Begun {
    first: Option<Result<Frame<Bytes>, hyper::Error>>,
    rest: Incoming,
}

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    /// What is still to come, and the first frame, which may be a little of it.
    fn size_hint(&self) -> SizeHint {
        let mut hint = self.rest.size_hint();
        if let Some(Ok(first)) = &self.first {
            let bytes = first.data_ref().map_or(0, |data| data.len() as u64);
            if let Some(upper) = hint.upper() {
                hint.set_upper(upper + bytes);
            }
            hint.set_lower(hint.lower() + bytes);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::limits::WAITING_BYTES_MAX;
    use crate::server::recorder::recorded;
    use crate::server::wire::Wire;

    /// With what another connection holds it is too much, so that this one is cut.
    #[test]
    fn what_waits_of_an_answer_is_counted_whatever_way_it_was_made() {
        let answers: [fn() -> ResponseBody; 3] = [
            || ResponseBody::routed(Body::from(vec![b'x'; FREE_BYTES + 100])),
            || ResponseBody::routed(Body::from(vec![b'x'; FREE_BYTES + 100])).into_event(),
            || ResponseBody::Whole {
                bytes: Some(Bytes::from(vec![b'x'; FREE_BYTES + 100])),
                receipt: None,
            },
        ];
        for answer in answers {
            let (owner, _) = recorded();
            let link = Wire::new(tokio::io::duplex(64).0, Arc::clone(&owner)).link();
            let other = owner.budget().open();
            let held = other.charge(FREE_BYTES + WAITING_BYTES_MAX - 99);
            let mut answer = answer();
            answer.charge(&link);
            drop(answer);
            assert!(other.cut().is_cancelled(), "it was counted");
            drop(held);
            let whole = owner.budget().open();
            let _held = whole.charge(FREE_BYTES + WAITING_BYTES_MAX);
            assert!(!whole.cut().is_cancelled(), "it is counted no more");
        }
    }
}

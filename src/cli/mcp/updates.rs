//! A response of the relay that goes on: the messages in a stream of server-sent events, as they come.
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::timeout;

use super::connection::{Connection, ExchangeError, whole};
use crate::server::KEEP_ALIVE;

/// How long the relay may say nothing before it counts as gone: several times as long as its keep-alives are apart.
const SILENCE_MAX: Duration = Duration::from_secs(4 * KEEP_ALIVE.as_secs());

/// Most bytes of an event, which tells of a change: a few hundred.
const EVENT_BYTES_MAX: usize = 64 * 1024;

/// What came back.
pub(super) enum Opened {
    /// Events.
    Stream(Updates),
    /// Something else, which is over.
    Whole(StatusCode, Bytes),
}

/// A stream that is open. Dropped, it drops the connection.
pub(super) struct Updates {
    body: Incoming,
    /// What has come of the next event.
    text: Vec<u8>,
    driver: Driver,
    /// As long as it lives, hyper closes nothing by itself.
    _sender: SendRequest<Full<Bytes>>,
}

/// Moves the bytes of a connection until it ends.
struct Driver(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Driver {
    /// Ends when the connection does, and never after that: what has come may still be read.
    async fn drive(&mut self) {
        if let Some(driver) = &mut self.0 {
            driver.await;
            self.0 = None;
        }
        std::future::pending().await
    }

    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            done = work => done,
            () = self.drive() => unreachable!("it goes on for ever"),
        }
    }
}

/// Sends a request over a connection of its own and waits for the head of the response, and, if that is no stream of events, for
/// all of it: so many bytes at the most.
///
/// # Errors
///
/// [`ExchangeError`], when the connection breaks first or the response is longer.
pub(super) async fn open(
    connection: impl Connection,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<Opened, ExchangeError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
    let connection = async {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the stream of relay's broke");
        }
    };
    let mut driver = Driver(Some(Box::pin(connection)));
    let (head, body) = driver.beside(sender.send_request(request)).await?.into_parts();
    let kind = head.headers.get(CONTENT_TYPE);
    if head.status.is_success() && kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
    {
        return Ok(Opened::Stream(Updates {
            body,
            text: Vec::new(),
            driver,
            _sender: sender,
        }));
    }
    let body = driver.beside(whole(body, bytes_max)).await?;
    Ok(Opened::Whole(head.status, body))
}

impl Updates {
    /// Waits for the next message; none if the stream has ended, or the relay is silent for so long that it is gone.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some(event) = self.take_event() {
                if let Ok(message) = serde_json::from_slice(&event) {
                    return Some(message);
                }
            }
            if self.text.len() > EVENT_BYTES_MAX {
                return None;
            }
            let frame = timeout(SILENCE_MAX, self.driver.beside(self.body.frame()));
            let frame = frame.await.ok()??.ok()?;
            if let Ok(bytes) = frame.into_data() {
                self.text.extend_from_slice(&bytes);
            }
        }
    }

    /// Takes the data of an event that has come whole; empty if it has none, as that of a keep-alive.
    fn take_event(&mut self) -> Option<Vec<u8>> {
        let end = self.text.windows(2).position(|two| two == b"\n\n")?;
        let event: Vec<u8> = self.text.drain(..end + 2).collect();
        let lines = event.split(|byte| *byte == b'\n');
        let data = lines.filter_map(|line| line.strip_prefix(b"data:"));
        Some(data.collect::<Vec<_>>().join(&b'\n'))
    }
}

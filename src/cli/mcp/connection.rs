//! Connections to the relay, and one exchange over one of them. It must not know what is asked.

use std::io;
use std::pin::pin;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Makes connections to the relay.
pub trait Connect: Send + Sync + 'static {
    /// What it makes.
    type Connection: Connection;

    /// Connects.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ConnectionRefused`] when nothing listens; any other when the relay cannot be reached.
    fn connect(&self) -> impl Future<Output = io::Result<Self::Connection>> + Send;
}

/// A connection to the relay. A new one is broken off when it ends, however the process ends: the relay then takes back
/// what it has handed over last.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Says whether dropping the connection breaks it off or closes it in order, which tells the relay that its last
    /// reply was read.
    fn break_off_when_dropped(&self, yes: bool);

    /// Tells whether the relay has kept its end open and has sent nothing that was not read.
    fn is_open(&self) -> bool;
}

/// What came back.
pub(super) struct Answer<S> {
    pub status: StatusCode,
    pub body: Bytes,
    /// Carries another exchange, if the relay has kept it open.
    pub connection: S,
}

/// Sends a request and takes the whole response. Dropped before that, it drops the connection.
///
/// # Errors
///
/// hyper's, when the connection breaks first.
pub(super) async fn exchange<S: Connection>(
    connection: S,
    request: Request<Full<Bytes>>,
) -> Result<Answer<S>, hyper::Error> {
    // As long as the sender lives, hyper closes nothing by itself.
    let (mut sender, mut driver) = http1::handshake(TokioIo::new(connection)).await?;
    let (status, body) = {
        let mut answer = pin!(async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, hyper::Error>((head.status, body))
        });
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            // The connection has ended; the answer may be there all the same.
            _ = &mut driver => answer.await,
        }?
    };
    let connection = driver.into_parts().io.into_inner();
    Ok(Answer {
        status,
        body,
        connection,
    })
}

//! Connections to the relay, and one exchange over one of them. It must not know what is asked.

use std::io;
use std::pin::pin;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Project;

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

    /// Returns the project that the agent belongs to, if it was found out when the relay was.
    fn project(&self) -> Option<Project> {
        None
    }

    /// Returns where a relay would be asked now, if that is looked for.
    fn sought(&self) -> Option<Sought> {
        None
    }
}

/// Where a relay would be asked that is not there; nothing of what is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought {
    /// As it is shown.
    pub place: Option<String>,
    /// The project that the agent belongs to, or whose relay it is.
    pub project: Option<Project>,
}

/// A connection to the relay. A new one is broken off when it ends, however the process ends: the relay then takes back
/// what it has handed over last.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Says whether dropping the connection breaks it off or closes it in order, which tells the relay that its last
    /// reply was read.
    fn break_off_when_dropped(&self, yes: bool);

    /// Tells whether the relay has kept its end open and has sent nothing that was not read.
    fn is_open(&self) -> bool;

    /// Waits until it is not open any more. Nothing wakes it before.
    fn ended(&self) -> impl Future<Output = ()> + Send;
}

/// What came back.
pub(super) struct Answer<S> {
    pub status: StatusCode,
    pub body: Bytes,
    /// Carries another exchange, if the relay has kept it open.
    pub connection: S,
}

/// Why nothing came back; the connection is broken off.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The connection broke first.
    Broken(hyper::Error),
    /// The response has more bytes than were to be taken.
    TooLong,
}

impl From<hyper::Error> for ExchangeError {
    fn from(error: hyper::Error) -> Self {
        Self::Broken(error)
    }
}

/// Sends a request and takes the whole response, whose body may have so many bytes. Dropped before that, it drops the
/// connection.
///
/// # Errors
///
/// [`ExchangeError`], when the connection breaks first or the response is longer.
pub(super) async fn exchange<S: Connection>(
    connection: S,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<Answer<S>, ExchangeError> {
    // As long as the sender lives, hyper closes nothing by itself.
    let (mut sender, mut driver) = http1::handshake(TokioIo::new(connection)).await?;
    let (status, body) = {
        let mut answer = pin!(async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = whole(body, bytes_max).await?;
            Ok::<_, ExchangeError>((head.status, body))
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

/// Takes a whole body; one that is said to be longer is not begun.
///
/// # Errors
///
/// [`ExchangeError`], as [`exchange`] has it.
pub(super) async fn whole(body: Incoming, bytes_max: usize) -> Result<Bytes, ExchangeError> {
    let said = body.size_hint().lower();
    if usize::try_from(said).map_or(true, |said| said > bytes_max) {
        return Err(ExchangeError::TooLong);
    }
    match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ExchangeError::TooLong),
        Err(error) => Err(ExchangeError::Broken(
            *error.downcast().expect("all other errors are hyper's"),
        )),
    }
}

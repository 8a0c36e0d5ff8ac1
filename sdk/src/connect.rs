//! How a connection to relay is made.

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection, whatever carries it.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// A connection of a kind that only its maker knows.
pub type BoxedIo = Box<dyn Io>;

/// Makes connections. [`Tcp`] is the one for everyday use; a simulation has another.
pub trait Connect: Send + Sync + 'static {
    /// Connects to `authority`, a host with a port.
    ///
    /// # Errors
    ///
    /// The system's.
    fn connect<'a>(
        &'a self,
        authority: &'a str,
    ) -> Pin<Box<dyn Future<Output = io::Result<BoxedIo>> + Send + 'a>>;
}

/// Connects over TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Connect for Tcp {
    fn connect<'a>(
        &'a self,
        authority: &'a str,
    ) -> Pin<Box<dyn Future<Output = io::Result<BoxedIo>> + Send + 'a>> {
        Box::pin(async move {
            let stream = TcpStream::connect(authority).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as BoxedIo)
        })
    }
}

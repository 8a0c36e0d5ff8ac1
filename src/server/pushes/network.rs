//! How relay reaches the targets of pushes: an argument, so that the simulation has its own.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection.
pub trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// How other hosts are reached.
pub trait Network: Send + Sync + 'static {
    /// Finds the addresses of a host.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Later<'a, Vec<SocketAddr>>;

    /// Connects to one.
    fn connect(&self, address: SocketAddr) -> Later<'_, Box<dyn Socket>>;
}

/// That of the system.
pub struct System;

impl Network for System {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Later<'a, Vec<SocketAddr>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }

    fn connect(&self, address: SocketAddr) -> Later<'_, Box<dyn Socket>> {
        Box::pin(async move {
            let socket = tokio::net::TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            Ok(Box::new(socket) as Box<dyn Socket>)
        })
    }
}

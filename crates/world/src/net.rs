//! Sockets: TCP listeners and streams, with the non-blocking moves that a batching server needs.

mod async_io;

use bytes::BytesMut;
use std::io::{self, IoSlice};
use std::net::SocketAddr;

/// A bound TCP port.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "world is the door to the outside")]
pub struct Listener(tokio::net::TcpListener);

impl Listener {
    /// Binds `address`; port 0 takes a free one. To be called within a tokio runtime.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        #[allow(clippy::disallowed_types, reason = "world is the door to the outside")]
        tokio::net::TcpListener::bind(address).await.map(Self)
    }

    /// The address that was bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection and who made it.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (stream, peer) = self.0.accept().await?;
        // Answers are gathered into one write already; Nagle's algorithm would only delay them.
        stream.set_nodelay(true)?;
        Ok((Stream(stream), peer))
    }
}

/// A TCP connection.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "world is the door to the outside")]
pub struct Stream(tokio::net::TcpStream);

impl Stream {
    /// Connects to `address`, without Nagle's delay.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        #[allow(clippy::disallowed_types, reason = "world is the door to the outside")]
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// This end's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The other end's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Waits until [`try_read`](Self::try_read) has something to tell. Cancel safe.
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Waits until [`try_write`](Self::try_write) may take something. Cancel safe.
    pub async fn writable(&self) -> io::Result<()> {
        self.0.writable().await
    }

    /// Appends what has arrived, up to the spare capacity of `buffer`. `Ok(None)`: nothing yet. `Ok(Some(0))`: the
    /// other end has closed.
    pub fn try_read(&self, buffer: &mut BytesMut) -> io::Result<Option<usize>> {
        would_block(self.0.try_read_buf(buffer))
    }

    /// Writes what the socket takes now of `data`. `Ok(None)`: nothing for the moment.
    pub fn try_write(&self, data: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        would_block(self.0.try_write_vectored(data))
    }
}

fn would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

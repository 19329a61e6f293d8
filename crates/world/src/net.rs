//! Sockets: TCP listeners and streams, with the moves that a batching server needs.

mod async_io;

use bytes::BytesMut;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

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

    /// Lets the connection end at once when it is dropped, or its process dies (RST): what was written and has not yet
    /// been sent, or received, is not delivered later by a kernel that goes on trying.
    pub fn abort_when_dropped(&self) -> io::Result<()> {
        self.0.set_zero_linger()
    }

    /// This end's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The other end's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Appends what has arrived, up to the spare capacity of `buffer`, which must not be nothing; `Ready(Ok(0))` is the
    /// end of the stream. After a read that did not fill the buffer the next poll costs no system call.
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        // `read_buf` keeps no state between polls, so a new future for each is the same as one.
        pin!(self.0.read_buf(buffer)).poll(context)
    }

    /// Writes what the socket takes now of `data`.
    pub fn poll_write(&mut self, context: &mut Context<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, data)
    }

    /// Reads into `buffer`: for clients that wait for one thing at a time.
    pub async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        self.0.read_buf(buffer).await
    }

    /// Writes all of `data`.
    pub async fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        self.0.write_all(data).await
    }

    /// Tells the other end that nothing more comes.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

//! Sockets: TCP listeners and streams, with the moves that a batching server needs.

mod async_io;

use bytes::BytesMut;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
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

    /// Lets the connection end when what was written is not acknowledged for so long (RFC 5482), whole milliseconds: a kernel
    /// goes on trying for a quarter of an hour, also while its process is stopped.
    pub fn give_up_after(&self, time: Duration) -> io::Result<()> {
        set_user_timeout(self.0.as_raw_fd(), time)
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

#[allow(unsafe_code, reason = "rustix is built without its sockets")]
fn set_user_timeout(socket: RawFd, time: Duration) -> io::Result<()> {
    let millis = libc::c_uint::try_from(time.as_millis()).unwrap_or(libc::c_uint::MAX);
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT);
    // SAFETY: the pointer and the length are those of `millis`, which lives longer than the call.
    let outcome = unsafe {
        let size = size_of_val(&millis) as libc::socklen_t;
        libc::setsockopt(socket, level, option, (&raw const millis).cast(), size)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unsafe_code, reason = "as above")]
    fn user_timeout(stream: &Stream) -> libc::c_uint {
        let (mut millis, mut size): (libc::c_uint, _) = (0, size_of::<libc::c_uint>() as libc::socklen_t);
        // SAFETY: both pointers are those of variables that live longer than the call, and `size` tells the first one's size.
        let outcome = unsafe {
            let (socket, value) = (stream.0.as_raw_fd(), (&raw mut millis).cast());
            libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, value, &raw mut size)
        };
        assert_eq!(outcome, 0);
        millis
    }

    #[tokio::test]
    async fn a_connection_is_told_how_long_it_may_go_unheard() {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let stream = Stream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert_eq!(user_timeout(&stream), 0);
        stream.give_up_after(Duration::from_millis(2500)).unwrap();
        assert_eq!(user_timeout(&stream), 2500);
    }
}

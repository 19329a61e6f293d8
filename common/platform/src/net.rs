//! TCP listeners and streams, with the operations that a batching server needs, and Unix sockets.

mod async_io;
mod datagram;
mod local;

pub use datagram::{resolve, resolve_all, send_datagram};
pub use local::{LocalListener, LocalStream, LocalUser, connect_local};

use bytes::BytesMut;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A TCP listener.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "only this crate may access the outside")]
pub struct Listener(tokio::net::TcpListener);

impl Listener {
    /// Binds `address`; port 0 selects a free port. Must be called within a tokio runtime.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        #[allow(clippy::disallowed_types, reason = "only this crate may access the outside")]
        tokio::net::TcpListener::bind(address).await.map(Self)
    }

    /// The bound address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Waits for the next connection; returns it with the peer's address.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (stream, peer) = self.0.accept().await?;
        // Responses are already gathered into one write; Nagle's algorithm would only delay them.
        stream.set_nodelay(true)?;
        Ok((Stream(stream), peer))
    }
}

/// A TCP connection.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "only this crate may access the outside")]
pub struct Stream(tokio::net::TcpStream);

impl Stream {
    /// Connects to `address` with Nagle's algorithm disabled.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        #[allow(clippy::disallowed_types, reason = "only this crate may access the outside")]
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Makes the connection end with RST when it is dropped or its process dies. Data not yet sent
    /// or acknowledged is discarded, so the kernel does not deliver it later.
    pub fn abort_when_dropped(&self) -> io::Result<()> {
        self.0.set_zero_linger()
    }

    /// Ends the connection if sent data stays unacknowledged for `time` (TCP_USER_TIMEOUT, RFC
    /// 5482), in whole milliseconds. By default the kernel retries for about 15 minutes, even while
    /// the process is stopped.
    pub fn set_user_timeout(&self, time: Duration) -> io::Result<()> {
        set_user_timeout(self.0.as_raw_fd(), time)
    }

    /// The local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Appends received bytes, up to the spare capacity of `buffer`, which must not be 0.
    /// `Ready(Ok(0))` is the end of the stream. If a read did not fill the buffer, the next poll
    /// makes no system call.
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        // `read_buf` keeps no state between polls, so each poll may use a new future.
        pin!(self.0.read_buf(buffer)).poll(context)
    }

    /// Writes as much of `data` as the socket accepts now.
    pub fn poll_write(&mut self, context: &mut Context<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, data)
    }

    /// Reads into `buffer`, for clients that wait for one event at a time.
    pub async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        self.0.read_buf(buffer).await
    }

    /// Writes all of `data`.
    pub async fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        self.0.write_all(data).await
    }

    /// Closes the sending direction.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

/// Returns the address that limits count for a peer: an IPv6 address without its last 64 bits,
/// because one machine may use any of them. An IPv4 address remains as it is.
pub fn counted_source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[allow(unsafe_code, reason = "rustix is built without its sockets")]
fn set_user_timeout(socket: RawFd, time: Duration) -> io::Result<()> {
    let millis = libc::c_uint::try_from(time.as_millis()).unwrap_or(libc::c_uint::MAX);
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT);
    // SAFETY: pointer and length describe `millis`, which lives longer than the call.
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
        // SAFETY: both pointers refer to variables that live longer than the call; `size` is the
        // size of the first.
        let outcome = unsafe {
            let (socket, value) = (stream.0.as_raw_fd(), (&raw mut millis).cast());
            libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, value, &raw mut size)
        };
        assert_eq!(outcome, 0);
        millis
    }

    #[test]
    fn ipv6_sources_are_counted_by_network() {
        let counted = |text: &str| counted_source(text.parse().unwrap()).to_string();
        assert_eq!(counted("192.0.2.1"), "192.0.2.1");
        assert_eq!(counted("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[tokio::test]
    async fn user_timeout_of_a_connection_is_set() {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let stream = Stream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert_eq!(user_timeout(&stream), 0);
        stream.set_user_timeout(Duration::from_millis(2500)).unwrap();
        assert_eq!(user_timeout(&stream), 2500);
    }
}

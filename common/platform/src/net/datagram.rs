//! Datagrams, and the addresses of named machines.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns the first address of `host`, a name or an address, with `port`.
///
/// # Errors
/// The name does not exist, or the name service does not answer.
pub async fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let addresses = resolve_all(host, port).await?;
    addresses.first().copied().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

/// Returns all addresses of `host` with `port`, for a client that tries one after another.
///
/// # Errors
/// The name does not exist, or the name service does not answer.
pub async fn resolve_all(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let unbracketed = host.trim_start_matches('[').trim_end_matches(']');
    Ok(tokio::net::lookup_host((unbracketed, port)).await?.collect())
}

/// Sends one UDP datagram. An answer is not awaited, so its loss is not noticed.
pub async fn send_datagram(address: SocketAddr, data: &[u8]) -> io::Result<()> {
    let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = tokio::net::UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.send_to(data, address).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[allow(clippy::disallowed_types, reason = "a test receives a datagram")]
    async fn datagram_arrives_at_a_named_machine() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let address = resolve("127.0.0.1", port).await.unwrap();
        send_datagram(address, b"one message").await.unwrap();
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"one message");
        assert_eq!(resolve("[::1]", 7).await.unwrap().to_string(), "[::1]:7");
        assert!(resolve("no such name", 7).await.is_err());
    }
}

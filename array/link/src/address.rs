//! Addresses of links: `HOST`, `HOST:PORT` or `[IPv6]:PORT`.

use crate::error::LinkError;
use std::net::{Ipv6Addr, SocketAddr};

/// Port of links if none is given.
pub const DEFAULT_PORT: u16 = 8117;

/// Parses an address. A host is a name, an IPv4 address, or an IPv6 address, which has brackets
/// before a port.
pub(crate) fn parse(text: &str) -> Result<(String, u16), LinkError> {
    let invalid = || LinkError::Address(text.chars().filter(|c| !c.is_control()).take(80).collect());
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok((address.to_string(), DEFAULT_PORT));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, port.parse::<u16>().map_err(|_| invalid())?),
        _ => (text, DEFAULT_PORT),
    };
    let unbracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_valid = match unbracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            (1..=253).contains(&host.len()) && host.bytes().all(is_name)
        }
    };
    match is_valid && port != 0 {
        true => Ok((unbracketed.unwrap_or(host).to_owned(), port)),
        false => Err(invalid()),
    }
}

/// Returns the addresses of the machine.
pub(crate) async fn resolve(text: &str) -> Result<Vec<SocketAddr>, LinkError> {
    let (host, port) = parse(text)?;
    let found = platform::net::resolve_all(&host, port).await;
    let addresses = found.map_err(|error| LinkError::Resolve(host.clone(), error))?;
    match addresses.is_empty() {
        true => Err(LinkError::Resolve(host, std::io::Error::other("the name has no address"))),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_a_port() {
        let parsed = |text: &str| parse(text).map(|(host, port)| format!("{host} {port}")).ok();
        assert_eq!(parsed("beta.example").as_deref(), Some("beta.example 8117"));
        assert_eq!(parsed("192.0.2.1:99").as_deref(), Some("192.0.2.1 99"));
        assert_eq!(parsed("2001:db8::1").as_deref(), Some("2001:db8::1 8117"));
        assert_eq!(parsed("[2001:db8::1]").as_deref(), Some("2001:db8::1 8117"));
        assert_eq!(parsed("[2001:db8::1]:99").as_deref(), Some("2001:db8::1 99"));
        for text in ["", ":99", "a:b", "a:0", "a:70000", "https://a", "[x]:1", "a b", "a:1:2"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}

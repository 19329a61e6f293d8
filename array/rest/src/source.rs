//! Sources of connections, for which limits count.

use platform::net::{LocalUser, counted_source};
use std::fmt;
use std::net::IpAddr;

/// The source of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// An IPv4 address or an IPv6 network of 64 bits.
    Network(IpAddr),
    /// A user of this machine, over the Unix socket.
    Local(LocalUser),
}

impl Source {
    /// Returns the source of a TCP connection.
    pub(crate) fn network(peer: IpAddr) -> Self {
        Self::Network(counted_source(peer))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => address.fmt(f),
            Self::Local(user) => write!(f, "local user {}", user.0),
        }
    }
}

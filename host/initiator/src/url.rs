//! iSCSI URLs of logical units, in the notation that user-space initiators share.
//!
//! `iscsi://[user%password@]host[:port]/target-iqn/lun[?target_user=…&target_password=…]`

use scsi::Lun;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use thiserror::Error;

/// Default iSCSI port (RFC 7143 4.2.6.1).
const DEFAULT_PORT: u16 = 3260;

/// CHAP credentials for one direction.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// CHAP_N.
    pub user: String,
    /// Shared secret; never printed.
    pub secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A portal: a host name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// Host name, or address without IPv6 brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Portal {
    /// Resolves the host; returns its first socket address.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        (self.host.as_str(), self.port)
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, format!("'{}' has no address", self.host)))
    }
}

impl fmt::Display for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The URL of a logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Portal to connect to.
    pub portal: Portal,
    /// iSCSI name of the target. Empty in a URL that names only a portal, for discovery.
    pub target: String,
    /// Logical unit number; 0 if the URL has none.
    pub lun: Lun,
    /// The initiator's CHAP credentials.
    pub credentials: Option<Credentials>,
    /// CHAP credentials that the target must present (mutual CHAP).
    pub target_credentials: Option<Credentials>,
}

/// Why a text is not an iSCSI URL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// The text does not begin with `iscsi://`.
    #[error("'{0}' does not begin with iscsi://")]
    Scheme(String),
    /// No host between `//` and the first `/`.
    #[error("URL has no host: write iscsi://host[:port]/target-iqn/lun")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("'{0}' is not a TCP port")]
    Port(String),
    /// The logical unit number is not from 0 to 16383, the range of flat space addressing (SAM-5
    /// 4.7.7).
    #[error("'{0}' is not a logical unit number from 0 to 16383")]
    Lun(String),
    /// A user without a `%password`.
    #[error("URL has a user but no password: write user%password@host")]
    Password,
    /// An unknown parameter after `?`.
    #[error("unknown URL parameter '{0}': use target_user and target_password")]
    Parameter(String),
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let rest = text.strip_prefix("iscsi://").ok_or_else(|| UrlError::Scheme(text.to_owned()))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A password may contain '@' but a host cannot, so the last one separates them.
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(parse_credentials(login)?), host),
            None => (None, authority),
        };
        let (target, lun) = path.split_once('/').unwrap_or((path, ""));
        Ok(Self {
            portal: parse_portal(host)?,
            target: target.to_owned(),
            lun: parse_lun(lun)?,
            credentials,
            target_credentials: parse_query(query)?,
        })
    }
}

fn parse_credentials(login: &str) -> Result<Credentials, UrlError> {
    let (user, secret) = login.split_once('%').ok_or(UrlError::Password)?;
    Ok(Credentials { user: user.to_owned(), secret: secret.to_owned() })
}

fn parse_portal(text: &str) -> Result<Portal, UrlError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(UrlError::Host)?;
            (host, after.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(UrlError::Host);
    }
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(|| UrlError::Port(port.to_owned()))?,
        None => DEFAULT_PORT,
    };
    Ok(Portal { host: host.to_owned(), port })
}

fn parse_lun(text: &str) -> Result<Lun, UrlError> {
    if text.is_empty() {
        return Ok(Lun::default());
    }
    text.parse().ok().and_then(Lun::new).ok_or_else(|| UrlError::Lun(text.to_owned()))
}

fn parse_query(query: &str) -> Result<Option<Credentials>, UrlError> {
    let (mut user, mut secret) = (None, None);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("target_user", value)) => user = Some(value.to_owned()),
            Some(("target_password", value)) => secret = Some(value.to_owned()),
            _ => return Err(UrlError::Parameter(parameter.to_owned())),
        }
    }
    match (user, secret) {
        (Some(user), Some(secret)) => Ok(Some(Credentials { user, secret })),
        (None, None) => Ok(None),
        _ => Err(UrlError::Password),
    }
}

impl Url {
    /// Formats the URL with its secrets, so that it can be parsed again. Store it only in files
    /// readable by the owner; never log it.
    pub fn with_secrets(&self) -> String {
        let login = self.credentials.as_ref().map_or(String::new(), |own| format!("{}%{}@", own.user, own.secret));
        let query = self
            .target_credentials
            .as_ref()
            .map_or(String::new(), |target| format!("?target_user={}&target_password={}", target.user, target.secret));
        format!("iscsi://{login}{}/{}/{}{query}", self.portal, self.target, self.lun)
    }
}

impl fmt::Display for Url {
    /// Formats the URL without secrets, for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iscsi://{}/{}/{}", self.portal, self.target, self.lun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_url_parses_into_its_parts() {
        let url: Url =
            "iscsi://me%p@ss%word@host:3261/iqn.2026-11.org:array/7?target_user=you&target_password=s".parse().unwrap();
        assert_eq!(url.portal, Portal { host: "host".into(), port: 3261 });
        assert_eq!((url.target.as_str(), url.lun.number()), ("iqn.2026-11.org:array", 7));
        assert_eq!(url.credentials, Some(Credentials { user: "me".into(), secret: "p@ss%word".into() }));
        assert_eq!(url.target_credentials, Some(Credentials { user: "you".into(), secret: "s".into() }));
        assert_eq!(url.to_string(), "iscsi://host:3261/iqn.2026-11.org:array/7");
        assert!(!format!("{url:?}").contains("p@ss"));
        assert_eq!(url.with_secrets().parse(), Ok(url));
    }

    #[test]
    fn short_url_uses_defaults() {
        let url: Url = "iscsi://[::1]".parse().unwrap();
        assert_eq!(url.portal, Portal { host: "::1".into(), port: 3260 });
        assert_eq!((url.target.as_str(), url.lun.number(), url.credentials), ("", 0, None));
        assert_eq!(url.portal.to_string(), "[::1]:3260");
    }

    #[test]
    fn malformed_url_error_names_the_wrong_part() {
        for (text, error) in [
            ("http://h/t/0", UrlError::Scheme("http://h/t/0".into())),
            ("iscsi:///t/0", UrlError::Host),
            ("iscsi://[::1/t/0", UrlError::Host),
            ("iscsi://h:0/t/0", UrlError::Port("0".into())),
            ("iscsi://h:x/t/0", UrlError::Port("x".into())),
            ("iscsi://h/t/16384", UrlError::Lun("16384".into())),
            ("iscsi://h/t/-1", UrlError::Lun("-1".into())),
            ("iscsi://me@h/t/0", UrlError::Password),
            ("iscsi://h/t/0?target_user=you", UrlError::Password),
            ("iscsi://h/t/0?x=1", UrlError::Parameter("x=1".into())),
        ] {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
    }
}

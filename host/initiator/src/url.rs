//! Where a logical unit is, in the one notation that initiators in user space share:
//! `iscsi://[user%password@]host[:port]/target-iqn/lun[?target_user=…&target_password=…]`.

use scsi::Lun;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use thiserror::Error;

/// The port of iSCSI (RFC 7143 4.2.6.1: the default of a TargetAddress without one).
const DEFAULT_PORT: u16 = 3260;

/// A name and a shared secret, one direction of CHAP.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// CHAP_N.
    pub user: String,
    /// The shared secret. Never printed.
    pub secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A portal, as text: a host name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// Name or address, without the brackets of an IPv6 address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Portal {
    /// The first socket address that the name stands for.
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

/// A logical unit behind a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Where to connect.
    pub portal: Portal,
    /// The target's iSCSI name. Empty in a URL that only names a portal, which serves for discovery.
    pub target: String,
    /// Logical unit number; 0 when the URL names none.
    pub lun: Lun,
    /// What this end proves itself with.
    pub credentials: Option<Credentials>,
    /// What the target must prove itself with (mutual CHAP).
    pub target_credentials: Option<Credentials>,
}

/// Why a text is no iSCSI URL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// It does not begin with `iscsi://`.
    #[error("'{0}' does not begin with iscsi://")]
    Scheme(String),
    /// The part between `//` and the first `/` names no host.
    #[error("no host in the URL: write iscsi://host[:port]/target-iqn/lun")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("'{0}' is not a TCP port")]
    Port(String),
    /// The logical unit is not a number from 0 to 16383, what flat space addressing can carry (SAM-5 4.7.7).
    #[error("'{0}' is not a logical unit number from 0 to 16383")]
    Lun(String),
    /// A user without a `%password`.
    #[error("the URL has a user and no password: write user%password@host")]
    Password,
    /// A parameter behind `?` that is not known.
    #[error("'{0}' is not a parameter of the URL: known are target_user and target_password")]
    Parameter(String),
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let rest = text.strip_prefix("iscsi://").ok_or_else(|| UrlError::Scheme(text.to_owned()))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A password may hold '@', a host cannot: the last one separates.
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
    /// The URL with its secrets, which reads back as the same: for a file of the owner's, never for a log.
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
    /// The URL without secrets: what may stand in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iscsi://{}/{}/{}", self.portal, self.target, self.lun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_url_is_taken_apart() {
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
    fn what_is_left_out_has_its_default() {
        let url: Url = "iscsi://[::1]".parse().unwrap();
        assert_eq!(url.portal, Portal { host: "::1".into(), port: 3260 });
        assert_eq!((url.target.as_str(), url.lun.number(), url.credentials), ("", 0, None));
        assert_eq!(url.portal.to_string(), "[::1]:3260");
    }

    #[test]
    fn each_wrong_part_is_named() {
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

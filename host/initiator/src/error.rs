//! How sessions fail.

use crate::request::CommandRefusal;
use crate::url::Portal;
use iscsi::initiator_connection::{CloseReason, LoginError};
use iscsi::pdu::{AsyncEvent, RejectReason};
use std::io;
use thiserror::Error;

/// Why there is no session.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The portal's name has no address.
    #[error("{portal}: {error}")]
    Resolve {
        /// The portal.
        portal: Portal,
        /// Why.
        error: io::Error,
    },
    /// No TCP connection.
    #[error("cannot connect to {portal}: {error}")]
    Connect {
        /// The portal.
        portal: Portal,
        /// Why.
        error: io::Error,
    },
    /// The connection was lost before the login ended.
    #[error("the connection to {portal} was lost during the login: {error}")]
    Lost {
        /// The portal.
        portal: Portal,
        /// Why.
        error: io::Error,
    },
    /// The login was not done in time.
    #[error("the login to {portal} took too long")]
    Timeout {
        /// The portal.
        portal: Portal,
    },
    /// The target refused, or could not prove itself.
    #[error("login to {portal}: {error}")]
    Login {
        /// The portal.
        portal: Portal,
        /// Why.
        error: LoginError,
    },
    /// The session was made and ended before it answered.
    #[error("the session with {portal} ended: {error}")]
    Session {
        /// The portal.
        portal: Portal,
        /// Why.
        error: SessionError,
    },
    /// No randomness for names and challenges.
    #[error("no random numbers: {0}")]
    Random(io::Error),
}

impl ConnectError {
    /// What the user may do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Resolve { .. } => "check the host name in the URL",
            Self::Connect { .. } => "check that the array runs and listens on this address and port",
            Self::Lost { .. } | Self::Timeout { .. } | Self::Session { .. } => {
                "check that an iSCSI target listens on this port, and its log"
            }
            // RFC 7143 11.13.5.
            Self::Login { error: LoginError::Refused(0x0201), .. } => "check the user and the password in the URL",
            Self::Login { error: LoginError::Refused(0x0202), .. } => {
                "the array does not know this initiator: add its IQN to a host, or choose another with --initiator"
            }
            Self::Login { error: LoginError::Refused(0x0203), .. } => {
                "ibid-host targets URL lists the targets of a portal"
            }
            Self::Login { error: LoginError::Refused(0x0200), .. } => {
                "with CHAP, try --chap-md5; else the target's log says more"
            }
            Self::Login { error: LoginError::Authentication(_), .. } => {
                "check target_user and target_password in the URL"
            }
            Self::Login { .. } => "the log of the array says more",
            Self::Random(_) => "the operating system gives no random numbers",
        }
    }
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The target closed the connection.
    #[error("the target closed the connection")]
    Closed,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(io::ErrorKind),
    /// The target broke the protocol.
    #[error(transparent)]
    Broken(#[from] CloseReason),
    /// The target rejected a PDU of ours.
    #[error("the target rejected a PDU: {0:?}")]
    Rejected(RejectReason),
    /// The target asks to leave, or drops the connection (RFC 7143 11.9.1).
    #[error("the target ends the session: {0:?}")]
    Dismissed(AsyncEvent),
    /// The answer took too long.
    #[error("no answer in time")]
    Timeout,
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind())
    }
}

/// How a command that was waited for failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The target turned it down.
    #[error(transparent)]
    Refused(#[from] CommandRefusal),
    /// The session ended: it is not known whether the command was done.
    #[error(transparent)]
    Session(#[from] SessionError),
}

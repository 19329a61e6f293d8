//! Errors of connections, sessions and commands.

use crate::request::CommandRefusal;
use crate::url::Portal;
use iscsi::initiator_connection::{CloseReason, LoginError};
use iscsi::pdu::{AsyncEvent, RejectReason};
use std::io;
use thiserror::Error;

/// Why a session could not be established.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The host name of the portal could not be resolved.
    #[error("cannot resolve {portal}: {error}")]
    Resolve {
        /// Portal.
        portal: Portal,
        /// Cause.
        error: io::Error,
    },
    /// The TCP connection failed.
    #[error("cannot connect to {portal}: {error}")]
    Connect {
        /// Portal.
        portal: Portal,
        /// Cause.
        error: io::Error,
    },
    /// The connection was lost during the login.
    #[error("connection to {portal} lost during login: {error}")]
    Lost {
        /// Portal.
        portal: Portal,
        /// Cause.
        error: io::Error,
    },
    /// The login timed out.
    #[error("login to {portal} timed out")]
    Timeout {
        /// Portal.
        portal: Portal,
    },
    /// The login failed.
    #[error("login to {portal} failed: {error}")]
    Login {
        /// Portal.
        portal: Portal,
        /// Cause.
        error: LoginError,
    },
    /// The session ended before it returned an answer.
    #[error("session with {portal} ended: {error}")]
    Session {
        /// Portal.
        portal: Portal,
        /// Cause.
        error: SessionError,
    },
    /// The operating system provides no random numbers.
    #[error("no random numbers available: {0}")]
    Random(io::Error),
}

impl ConnectError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Resolve { .. } => "check the host name in the URL",
            Self::Connect { .. } => "check that the array runs and listens on this address and port",
            Self::Lost { .. } | Self::Timeout { .. } | Self::Session { .. } => {
                "check that an iSCSI target listens on this port, and read its log"
            }
            // RFC 7143 11.13.5.
            Self::Login { error: LoginError::Refused(0x0201), .. } => "check the user and the password in the URL",
            Self::Login { error: LoginError::Refused(0x0202), .. } => {
                "add the IQN of this initiator to a host on the array, or choose another with --initiator"
            }
            Self::Login { error: LoginError::Refused(0x0203), .. } => {
                "run `ibid-host targets URL` to list the targets of a portal"
            }
            Self::Login { error: LoginError::Refused(0x0200), .. } => {
                "with CHAP, try --chap-md5; otherwise read the log of the target"
            }
            Self::Login { error: LoginError::Authentication(_), .. } => {
                "check target_user and target_password in the URL"
            }
            Self::Login { .. } => "read the log of the array",
            Self::Random(_) => "check that the operating system provides random numbers",
        }
    }
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The target closed the connection.
    #[error("connection closed by target")]
    Closed,
    /// The connection failed.
    #[error("connection failed: {0}")]
    Io(io::ErrorKind),
    /// The target violated the protocol.
    #[error(transparent)]
    Protocol(#[from] CloseReason),
    /// The target rejected a PDU.
    #[error("PDU rejected by target: {0:?}")]
    Rejected(RejectReason),
    /// The target requested a logout or dropped the connection (RFC 7143 11.9.1).
    #[error("session ended by target: {0:?}")]
    EndedByTarget(AsyncEvent),
    /// The target did not answer in time.
    #[error("target did not answer in time")]
    Timeout,
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind())
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The target refused the command.
    #[error(transparent)]
    Refused(#[from] CommandRefusal),
    /// The session ended. It is unknown whether the command was executed.
    #[error(transparent)]
    Session(#[from] SessionError),
}

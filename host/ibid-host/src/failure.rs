//! How a verb fails, and what the shell and the user are told: exit code 2 when it could not begin (wrong usage, no
//! connection, login refused), 1 when commands or checks failed on the way.

use esxi_host::HostError;
use initiator::{CommandRefusal, ConnectError, RunError, SessionError, UrlError};
use multipath::OpenError;
use thiserror::Error;

/// Why a verb did not end well.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The command line asks for something impossible.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// No session with the target.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A URL is wrong.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The simulated host could not do it.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The session ended.
    #[error("session ended: {0}")]
    Session(#[from] SessionError),
    /// A command was refused.
    #[error("{what}: {refusal}")]
    Refused {
        /// The command, and where.
        what: String,
        /// The target's answer.
        refusal: CommandRefusal,
    },
    /// Data or counts are not what they should be.
    #[error("{0}")]
    Wrong(String),
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

impl Failure {
    /// A usage error with its hint.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    /// A command that was refused, or whose session ended.
    pub(crate) fn command(what: impl Into<String>) -> impl FnOnce(RunError) -> Self {
        |error| match error {
            RunError::Refused(refusal) => Self::Refused { what: what.into(), refusal },
            RunError::Session(error) => Self::Session(error),
        }
    }

    /// The exit code of the program.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::Connect(_) | Self::Url(_) | Self::File { .. } => 2,
            Self::Host(HostError::Disk { .. }) => 1,
            Self::Host(_) => 2,
            Self::Session(_) | Self::Refused { .. } | Self::Wrong(_) => 1,
        }
    }

    /// What the user may do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } => Some(hint.clone()),
            Self::Connect(error) => Some(error.hint().to_owned()),
            Self::Url(_) => Some("use iscsi://[user%password@]host[:port]/target-iqn/lun".to_owned()),
            Self::Host(HostError::NoDevice(_)) => {
                Some("run `ibid-host claim iscsi://PORTAL` to find devices".to_owned())
            }
            Self::Host(HostError::Connect(error)) => Some(error.hint().to_owned()),
            Self::Host(HostError::Open { error: OpenError::Connect(error), .. }) => Some(error.hint().to_owned()),
            Self::Host(_) => None,
            Self::Session(_) => Some("check whether the array stopped, and read its log".to_owned()),
            Self::Refused { refusal, .. } if refusal.is_conflict() => {
                Some("release the reservation that another initiator holds on the unit".to_owned())
            }
            Self::Refused { refusal, .. } if refusal.is_unknown_command() => {
                Some("choose another method; the target does not support this command".to_owned())
            }
            Self::Refused { .. } | Self::Wrong(_) | Self::File { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::Status;

    #[test]
    fn scripts_can_tell_a_wrong_start_from_a_wrong_end() {
        let refused =
            Failure::Refused { what: "WRITE".into(), refusal: CommandRefusal::Status(Status::ReservationConflict) };
        assert_eq!(refused.exit_code(), 1);
        assert!(refused.hint().is_some_and(|hint| hint.contains("reservation")));
        assert_eq!(Failure::usage("a", "b").exit_code(), 2);
        assert_eq!(Failure::Url(UrlError::Host).exit_code(), 2);
        assert_eq!(Failure::Session(SessionError::Closed).exit_code(), 1);
    }
}

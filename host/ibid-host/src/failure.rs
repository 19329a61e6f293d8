//! Errors of verbs, their exit codes and hints.
//! Exit code 2 means that the verb could not start (usage, connection, login); 1 means that
//! commands or checks failed; 130 that a signal stopped it.

use esxi_host::HostError;
use initiator::{CommandRefusal, ConnectError, RunError, SessionError, UrlError};
use multipath::OpenError;
use thiserror::Error;

/// Why a verb failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The command line is invalid.
    #[error("{message}")]
    Usage { message: String, hint: String },
    /// The session with the target could not be established.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A URL is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The simulated host failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The session ended unexpectedly.
    #[error("session ended: {0}")]
    Session(#[from] SessionError),
    /// The target rejected a command.
    #[error("{what}: {refusal}")]
    Refused {
        /// The command and its address.
        what: String,
        refusal: CommandRefusal,
    },
    /// Data or counters differ from the expected values, or an internal step failed.
    #[error("{0}")]
    Wrong(String),
    /// A signal asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    File { path: String, error: std::io::Error },
}

impl Failure {
    /// Creates a usage error with its hint.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    /// Returns a function that converts the error of a command; `what` names the command.
    pub(crate) fn command(what: impl Into<String>) -> impl FnOnce(RunError) -> Self {
        |error| match error {
            RunError::Refused(refusal) => Self::Refused { what: what.into(), refusal },
            RunError::Session(error) => Self::Session(error),
        }
    }

    /// Returns the exit code of the program.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::Connect(_) | Self::Url(_) | Self::File { .. } => 2,
            Self::Host(HostError::Disk { .. }) => 1,
            Self::Host(_) => 2,
            Self::Session(_) | Self::Refused { .. } | Self::Wrong(_) => 1,
            // As shells report SIGINT.
            Self::Interrupted => 130,
        }
    }

    /// Returns what the user can do about the failure.
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
            Self::Refused { .. } | Self::Wrong(_) | Self::File { .. } | Self::Interrupted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::Status;

    #[test]
    fn exit_codes_separate_start_and_run_failures() {
        let refused =
            Failure::Refused { what: "WRITE".into(), refusal: CommandRefusal::Status(Status::ReservationConflict) };
        assert_eq!(refused.exit_code(), 1);
        assert!(refused.hint().is_some_and(|hint| hint.contains("reservation")));
        assert_eq!(Failure::usage("a", "b").exit_code(), 2);
        assert_eq!(Failure::Url(UrlError::Host).exit_code(), 2);
        assert_eq!(Failure::Session(SessionError::Closed).exit_code(), 1);
    }
}

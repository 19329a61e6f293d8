//! Errors of calls.

use api::ApiError;
use thiserror::Error;

/// The error of a call.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The URL is malformed.
    #[error("'{0}' is not the address of an array")]
    BadUrl(String),
    /// The server cannot be reached.
    #[error("{url}: {reason}")]
    Unreachable {
        /// The URL that was called.
        url: String,
        /// The cause.
        reason: String,
    },
    /// The certificate of the server is not trusted, or the trust settings cannot be used.
    #[error("{url}: {reason}")]
    Untrusted {
        /// The URL that was called.
        url: String,
        /// The cause.
        reason: String,
    },
    /// The API token is not valid.
    #[error("API token not accepted by the array")]
    Unauthorized,
    /// The array refuses the request, with one error per object.
    #[error("{}", text(.0))]
    Refused(Vec<ApiError>),
    /// The server does not speak this API.
    #[error("unexpected answer (HTTP status {status}): {reason}")]
    NotUnderstood {
        /// HTTP status, or 0 if no request was sent.
        status: u16,
        /// The cause.
        reason: String,
    },
}

fn text(errors: &[ApiError]) -> String {
    let line = |error: &ApiError| match &error.context {
        Some(context) => format!("{context}: {}", error.message),
        None => error.message.clone(),
    };
    errors.iter().map(line).collect::<Vec<_>>().join("\n")
}

//! Why a call did not succeed.

use api::ApiError;
use thiserror::Error;

/// Why a call did not succeed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address is not one.
    #[error("'{0}' is not the address of an array: write HOST:PORT or https://HOST:PORT")]
    BadUrl(String),
    /// The array cannot be reached, or not trusted.
    #[error("{url}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// The array does not take the token.
    #[error("the array does not accept the API token")]
    Unauthorized,
    /// The array refuses, with its reasons: one for each object concerned.
    #[error("{}", words(.0))]
    Refused(Vec<ApiError>),
    /// What answered does not speak the dialect.
    #[error("the answer was not understood (status {status}): {reason}")]
    NotUnderstood {
        /// The HTTP status.
        status: u16,
        /// What was not understood.
        reason: String,
    },
}

fn words(errors: &[ApiError]) -> String {
    let word = |error: &ApiError| match &error.context {
        Some(context) => format!("{context}: {}", error.message),
        None => error.message.clone(),
    };
    errors.iter().map(word).collect::<Vec<_>>().join("\n")
}

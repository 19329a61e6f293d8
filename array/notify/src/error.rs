//! Errors of a delivery.

use std::io;
use thiserror::Error;

/// A notice could not be sent.
#[derive(Debug, Error)]
pub enum SendError {
    /// The name of the machine has no address.
    #[error("cannot resolve {0}: {1}")]
    Resolve(String, io::Error),
    /// The machine refuses the connection or does not answer.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, io::Error),
    /// The certificate is not trusted, or the handshake failed.
    #[error("TLS with {0} failed: {1}")]
    Tls(String, String),
    /// The connection ended.
    #[error("cannot send to {0}: {1}")]
    Send(String, io::Error),
    /// The mail server refused the mail, or cannot be reached.
    #[error("mail server: {0}")]
    Mail(String),
    /// The web hook answered with an error.
    #[error("web hook answered with status {0}")]
    Status(u16),
    /// The answer of the web hook is not HTTP.
    #[error("web hook: {0}")]
    Http(String),
    /// The destination did not take the notice in time.
    #[error("no answer within {0} s")]
    Timeout(u64),
    /// A setting is missing or wrong.
    #[error("{0}")]
    Setting(&'static str),
}

/// The key of a stored secret is missing.
pub(crate) const LOCKED: SendError = SendError::Setting("its secret cannot be read: the key is missing");

//! TLS 1.3 between programs that know each other's certificate: self-signed certificates, settings
//! of both sides, and places for connections whose certificate is not known yet.
#![forbid(unsafe_code)]

mod config;
mod identity;
mod strangers;

pub use config::{client, server, server_name};
pub use identity::{Fingerprint, IdentityError, IdentityNames, TlsIdentity, fingerprint};
pub use strangers::{Stranger, Strangers};

//! A typed, blocking client of the REST API, which verifies the array's certificate.
#![forbid(unsafe_code)]

mod client;
mod error;
mod transport;
mod trust;

pub use client::{Client, HostsAndVolumes, Listing};
pub use error::ClientError;
pub use trust::{Trust, TrustError};

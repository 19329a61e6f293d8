//! A client of the REST interface: typed, blocking, and particular about whom it speaks with.
#![forbid(unsafe_code)]

mod client;
mod error;
mod transport;
mod trust;

pub use client::{Client, HostsAndVolumes, Listing};
pub use error::ClientError;
pub use trust::{Trust, TrustError};

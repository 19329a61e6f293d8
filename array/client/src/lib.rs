//! A typed, blocking client of the REST API. It verifies the array's certificate, or uses the
//! array's Unix socket.
#![forbid(unsafe_code)]

mod client;
mod error;
mod local;
mod transport;
mod trust;

pub use client::{AlertDestination, Client, HostsAndVolumes, Listing, Monitored};
pub use error::ClientError;
pub use trust::{Trust, TrustError};

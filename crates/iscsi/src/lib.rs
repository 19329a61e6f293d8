//! iSCSI (RFC 7143) for both ends: bytes in, actions out.
#![forbid(unsafe_code)]

mod digest;
mod output;
pub mod pdu;

pub use digest::Digests;
pub use output::Output;

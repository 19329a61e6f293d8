//! Write-ahead log: encodes logical records into groups, places the groups in a ring, and replays
//! them after a crash.
//!
//! The crate performs no I/O and reads no clock. The builder returns bytes to write; the reader
//! asks its caller for bytes.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod group;
mod record;
mod replay;
mod ring;
#[cfg(test)]
mod tests;

pub use group::{Chain, GROUP_ALIGNMENT, GroupBuilder, SealedGroup};
pub use record::{FillValue, LogOp, MalformedRecord, StreamEntry, decode_ops, encode_ops};
pub use replay::{LogLoss, Replay, ReplayError};
pub use ring::Ring;

//! The log: logical records, gathered into groups, written into a ring, read back after a crash.
//!
//! No I/O, no clock: the builder gives bytes to write, the reader asks for bytes.
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod group;
mod record;
mod replay;
mod ring;
#[cfg(test)]
mod tests;

pub use group::{Chain, GROUP_ALIGNMENT, GroupBuilder, SealedGroup};
pub use record::{FillValue, LogOp, MalformedRecord};
pub use replay::{Replay, ReplayError};
pub use ring::Ring;

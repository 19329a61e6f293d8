//! The log: logical records, gathered into groups, written into a ring, read back after a crash.
//!
//! No I/O, no clock: the builder gives bytes to write, the reader asks for bytes.
#![forbid(unsafe_code)]

mod group;
mod record;
mod replay;
mod ring;
#[cfg(test)]
mod tests;

pub use group::{Chain, GROUP_ALIGNMENT, GroupBuilder, SealedGroup};
pub use record::{Fill, LogOp, MalformedRecord};
pub use replay::{Replay, ReplayError};
pub use ring::Ring;

/// Feeds bytes from outside to the reader of records; it must neither panic nor reserve more than it was given.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_record(data: &[u8]) {
    let mut body = bytes::Bytes::copy_from_slice(data);
    if let Ok(record) = record::decode(&mut body) {
        let mut parts = Vec::new();
        let length = record::encode(&record, &mut parts);
        assert_eq!(length, parts.iter().map(|part| part.len()).sum::<usize>());
    }
}

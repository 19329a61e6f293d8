//! Typed quantities of the array, so that a count of blocks is never used as a count of bytes.
//!
//! Plain values: no I/O, no clock, no allocation.
#![forbid(unsafe_code)]

mod capacity;
mod cast;
pub mod hex;
mod range;
mod request;
mod stream;
mod time;

pub use capacity::{CapacityError, format_capacity, parse_capacity};
pub use cast::to_usize;
pub use range::{BlockRange, RangeError};
pub use request::{RequestId, Source};
pub use stream::{Period, Position, StreamId};
pub use time::utc_time;

use serde::{Deserialize, Serialize};

/// Bytes in one logical block: the unit of every LBA that a host sends.
pub const LBA_BYTES: u64 = 512;
/// Bytes in one block: the unit of the engine's map and of its references.
pub const BLOCK_BYTES: u64 = 4096;
/// Logical blocks in one block.
pub const LBAS_PER_BLOCK: u64 = BLOCK_BYTES / LBA_BYTES;
/// Bytes in one sector: the unit of allocation within a segment of the drive.
pub const SECTOR_BYTES: u64 = 512;
/// The largest volume: 4 PiB, the limit of the REST API.
pub const MAX_VOLUME_BYTES: u64 = 4 << 50;

/// A logical block address: the index of a 512-byte block within a volume, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// The engine's id of a volume. Never reused, never shown to hosts. To the catalog it is the id of
/// the content of a volume or snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VolumeId(pub u64);

/// Identity of a volume or snapshot in the catalog of one array. Never changes, never reused, never
/// shown to hosts, which see the NAA identifier made from its serial number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId(pub u64);

/// Sequence number of a log record: dense, ascending, from 1 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl std::fmt::Display for VolumeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.volume_of_delta() {
            Some(volume) => write!(f, "the delta of vol{}", volume.0),
            None => write!(f, "vol{}", self.0),
        }
    }
}

impl std::fmt::Display for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "object{}", self.0)
    }
}

impl std::fmt::Display for Lba {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

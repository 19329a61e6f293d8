//! Nothing is stored twice: fingerprints, the index of what is stored already, and compression.
//!
//! Pure: no I/O, no clock, no threads. Everything here is either a hint (the index may forget and may be wrong: whoever shares a block
//! compares its bytes first) or checked when it is read ([`unpack`] refuses what [`pack`] did not make).
#![forbid(unsafe_code)]

mod fingerprint;
mod group;
mod index;
mod neighbours;
mod probe;

pub use fingerprint::fingerprint;
pub use group::{DamagedGroup, GROUP_HEADER_BYTES, MAX_GROUP_BLOCKS, Scratch, is_packed, pack, pack_dense, unpack};
pub use index::{Candidates, Index, IndexCounters, is_sample};
pub use neighbours::Neighbours;
pub use probe::looks_compressible;

/// Length of a block of data, the unit that is fingerprinted, shared and referenced.
pub const BLOCK_LEN: usize = types::BLOCK_BYTES as usize;

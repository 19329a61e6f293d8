//! Data reduction: block fingerprints, the fingerprint index and compression.
//!
//! The crate performs no I/O, reads no clock and starts no threads. Results of the index are only
//! hints, so callers compare the bytes before they share a block. Compressed data are validated
//! when read: [`unpack`] rejects anything that [`pack`] did not create.
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

/// Length of a data block in bytes. Blocks are fingerprinted, shared and referenced as a whole.
pub const BLOCK_LEN: usize = types::BLOCK_BYTES as usize;

//! On-disk format: drive geometry, superblock, segments and their summaries.
//!
//! `docs/format.md` describes every structure byte by byte.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

mod codec;
mod geometry;
mod key_block;
mod location;
mod manifest;
mod owner;
mod patch;
mod summary;
mod superblock;
mod writer;

pub use geometry::{ArrayGeometry, GeometryError, SUPERBLOCK_AREA_BYTES};
pub use key_block::{KEY_BLOCK_BYTES, KEY_BLOCK_COPIES, KeyBlock, KeyCost, key_block_offset};
pub use location::{DIRECTORY_PAGE_BYTES, LOCATIONS_PER_PAGE, PageLocation};
pub use manifest::{
    Manifest, ManifestSegment, ManifestStream, ManifestTail, ManifestVolume, SlotSums, WHOLE_VOLUME_BLOCKS,
    append_lists, encode_manifest, manifest_stream_bytes, manifest_value_bytes,
};
pub use owner::{OWNER_BYTES, OWNER_OFFSET, OwnerBlock};
pub use patch::{
    MAX_PATCH_LISTS, MAX_PATCH_PART_BYTES, PATCH_HEADER_BYTES, Patch, PatchEntries, PatchIndex, PatchList, PatchPart,
    PatchParts, PatchWriter, PatchedPage, decode_patch,
};
pub use summary::{SummaryEntry, SummaryId, SummaryItem, decode_summary, encode_summary, summary_bytes};
pub use superblock::{
    LogPosition, MAX_MANIFEST_RUNS, ManifestRun, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SUPERBLOCK_QUORUM, Superblock,
    SuperblockError, superblock_offset,
};
/// Unit of space allocation within a segment.
pub use types::SECTOR_BYTES;
pub use writer::{CHUNK_BYTES, Chunk, SegmentFill, SegmentWriter};

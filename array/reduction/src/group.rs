//! Compression groups: up to eight blocks of one write, compressed together.
//!
//! A group is stored in whole sectors: a header of eight bytes, the compressed stream, zeros. A
//! block stored uncompressed has no header. The slot distinguishes the two: one block in eight
//! sectors is uncompressed.

use crate::BLOCK_LEN;
use crate::probe::looks_compressible;
use bytes::{Bytes, BytesMut};
use lz4_flex::block::CompressTable;
use std::cell::RefCell;
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Maximum number of blocks in a compression group.
pub const MAX_GROUP_BLOCKS: usize = 8;
/// Length of the header before the compressed stream.
pub const GROUP_HEADER_BYTES: usize = size_of::<HeaderBytes>();

const SECTOR_LEN: usize = types::SECTOR_BYTES as usize;
const BLOCK_SECTORS: usize = BLOCK_LEN / SECTOR_LEN;
const MAX_GROUP_BYTES: usize = MAX_GROUP_BLOCKS * BLOCK_LEN;
const CODEC_LZ4: u8 = 1;
const CODEC_ZSTD: u8 = 2;
const DENSE_LEVEL: i32 = 3;
/// Size of the shared allocation for finished groups.
const READY_BYTES: usize = 64 << 10;
const _: () = assert!(READY_BYTES >= MAX_GROUP_BYTES);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    codec: u8,
    blocks: u8,
    /// Length of header and stream in bytes. The rest of the last sector is zero.
    length: U16,
    reserved: U32,
}

const _: () = assert!(size_of::<HeaderBytes>() == 8);

/// Reasons why a stored compression group cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DamagedGroup {
    /// The header is invalid or contradicts the slot.
    #[error("compression group has an invalid header")]
    Header,
    /// The stream does not decompress to the blocks stated in the header.
    #[error("compression group cannot be decompressed")]
    Stream,
}

/// Working memory of [`pack`]. Each packing thread needs one.
pub struct Scratch {
    plain: Vec<u8>,
    packed: Vec<u8>,
    /// Buffer for finished groups. Several groups share one allocation, which is freed with the
    /// last of them.
    ready: BytesMut,
    table: CompressTable,
    dense: Option<zstd::bulk::Compressor<'static>>,
}

impl Default for Scratch {
    fn default() -> Self {
        let packed = GROUP_HEADER_BYTES + lz4_flex::block::get_maximum_output_size(MAX_GROUP_BYTES);
        Self {
            plain: Vec::with_capacity(MAX_GROUP_BYTES),
            packed: vec![0; packed],
            ready: BytesMut::new(),
            table: CompressTable::large(),
            dense: None,
        }
    }
}

/// Compresses one to eight blocks of 4096 bytes with LZ4.
///
/// Returns the group as stored, in whole sectors. Returns `None` if compression would not save a
/// sector, or if a sample of the data indicates so. The blocks are then stored uncompressed.
pub fn pack(blocks: &[Bytes], scratch: &mut Scratch) -> Option<Bytes> {
    if !looks_compressible(blocks) {
        return None;
    }
    let plain = gather(blocks, &mut scratch.plain);
    let stream = &mut scratch.packed[GROUP_HEADER_BYTES..];
    let length = lz4_flex::block::compress_into_with_table(plain, stream, &mut scratch.table).ok()?;
    finish(CODEC_LZ4, blocks.len(), length, scratch)
}

/// Compresses one to eight blocks with zstd. The result is smaller than with LZ4, at several times
/// the CPU cost.
///
/// Intended for data that have not been written for a long time. Returns `None` as [`pack`] does,
/// but never skips data because of a sample.
pub fn pack_dense(blocks: &[Bytes], scratch: &mut Scratch) -> Option<Bytes> {
    if scratch.dense.is_none() {
        scratch.dense = zstd::bulk::Compressor::new(DENSE_LEVEL).ok();
    }
    let compressor = scratch.dense.as_mut()?;
    let plain = gather(blocks, &mut scratch.plain);
    // An error means that the stream would be longer than the blocks.
    let length = compressor.compress_to_buffer(plain, &mut scratch.packed[GROUP_HEADER_BYTES..]).ok()?;
    finish(CODEC_ZSTD, blocks.len(), length, scratch)
}

/// Concatenates the blocks.
fn gather<'a>(blocks: &'a [Bytes], plain: &'a mut Vec<u8>) -> &'a [u8] {
    assert!((1..=MAX_GROUP_BLOCKS).contains(&blocks.len()) && blocks.iter().all(|block| block.len() == BLOCK_LEN));
    if let [block] = blocks {
        return block;
    }
    plain.clear();
    blocks.iter().for_each(|block| plain.extend_from_slice(block));
    plain
}

/// Adds the header and pads the group to whole sectors.
///
/// A group has at least as many sectors as blocks, because each block accounts for its share of the
/// sectors. A block with a share of 0 could be in a segment that counts as empty.
fn finish(codec: u8, blocks: usize, stream: usize, scratch: &mut Scratch) -> Option<Bytes> {
    let packed = &mut scratch.packed;
    let length = GROUP_HEADER_BYTES + stream;
    let sectors = length.div_ceil(SECTOR_LEN).max(blocks);
    if sectors >= blocks * BLOCK_SECTORS {
        return None;
    }
    let header = HeaderBytes { codec, blocks: blocks as u8, length: (length as u16).into(), reserved: U32::ZERO };
    packed[..GROUP_HEADER_BYTES].copy_from_slice(header.as_bytes());
    packed[length..sectors * SECTOR_LEN].fill(0);
    if scratch.ready.capacity() < sectors * SECTOR_LEN {
        scratch.ready = BytesMut::with_capacity(READY_BYTES);
    }
    scratch.ready.extend_from_slice(&packed[..sectors * SECTOR_LEN]);
    Some(scratch.ready.split().freeze())
}

/// Returns true if this number of blocks and sectors denotes a compression group, false for an
/// uncompressed block.
pub fn is_packed(blocks: usize, sectors: usize) -> bool {
    sectors < blocks * BLOCK_SECTORS
}

/// Decompresses a stored group of `blocks` blocks and returns their concatenation.
///
/// Accepts arbitrary bytes. It never allocates more memory than the blocks need.
///
/// # Errors
///
/// Fails if the bytes are not a valid group of `blocks` blocks.
pub fn unpack(stored: &[u8], blocks: usize) -> Result<Bytes, DamagedGroup> {
    let (header, _) = HeaderBytes::ref_from_prefix(stored).map_err(|_| DamagedGroup::Header)?;
    let is_valid = (1..=MAX_GROUP_BLOCKS).contains(&blocks)
        && usize::from(header.blocks) == blocks
        && header.reserved == U32::ZERO;
    let stream = stored.get(GROUP_HEADER_BYTES..usize::from(header.length.get())).ok_or(DamagedGroup::Header)?;
    if !is_valid {
        return Err(DamagedGroup::Header);
    }
    let mut plain = vec![0; blocks * BLOCK_LEN];
    let length = match header.codec {
        CODEC_LZ4 => lz4_flex::block::decompress_into(stream, &mut plain).map_err(|_| DamagedGroup::Stream)?,
        CODEC_ZSTD => decompress_dense(stream, &mut plain)?,
        _ => return Err(DamagedGroup::Header),
    };
    if length == plain.len() { Ok(plain.into()) } else { Err(DamagedGroup::Stream) }
}

thread_local! {
    /// Decompressor of each reader thread. Creating one takes longer than a decompression.
    static DENSE: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decompress_dense(stream: &[u8], plain: &mut [u8]) -> Result<usize, DamagedGroup> {
    DENSE.with_borrow_mut(|dense| {
        if dense.is_none() {
            *dense = zstd::bulk::Decompressor::new().ok();
        }
        let decompressor = dense.as_mut().ok_or(DamagedGroup::Stream)?;
        decompressor.decompress_to_buffer(stream, plain).map_err(|_| DamagedGroup::Stream)
    })
}

#[cfg(test)]
pub(crate) mod tests;

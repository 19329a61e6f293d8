//! Units: up to eight blocks of one write, compressed together.
//!
//! A unit is stored in whole sectors: a header of eight bytes, the compressed stream, zeros. A block that is stored as it is has no header; the
//! slot tells the two apart (one block in eight sectors is raw).

use crate::BLOCK_LEN;
use crate::probe::looks_compressible;
use bytes::{Bytes, BytesMut};
use lz4_flex::block::CompressTable;
use std::cell::RefCell;
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Blocks in a unit, at most.
pub const MAX_GROUP_BLOCKS: usize = 8;
/// Bytes before the compressed stream.
pub const GROUP_HEADER_BYTES: usize = size_of::<HeaderBytes>();

const SECTOR_LEN: usize = types::SECTOR_BYTES as usize;
const BLOCK_SECTORS: usize = BLOCK_LEN / SECTOR_LEN;
const MAX_GROUP_BYTES: usize = MAX_GROUP_BLOCKS * BLOCK_LEN;
const CODEC_LZ4: u8 = 1;
const CODEC_ZSTD: u8 = 2;
const DENSE_LEVEL: i32 = 3;
/// Memory that units which are ready share.
const READY_BYTES: usize = 64 << 10;
const _: () = assert!(READY_BYTES >= MAX_GROUP_BYTES);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    codec: u8,
    blocks: u8,
    /// Header and stream, in bytes; what follows in the last sector is zero.
    length: U16,
    reserved: U32,
}

const _: () = assert!(size_of::<HeaderBytes>() == 8);

/// Why a stored unit cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DamagedGroup {
    /// The header is not one, or it contradicts the slot.
    #[error("the header of a compressed unit is damaged")]
    Header,
    /// The stream does not give the blocks that the header promises.
    #[error("a compressed unit cannot be decompressed")]
    Stream,
}

/// Memory that [`pack`] works in: made once for each thread that packs.
pub struct Scratch {
    plain: Vec<u8>,
    packed: Vec<u8>,
    /// Where units are put that are ready: several share one piece of memory, which goes back with the last of them.
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

/// Compresses one to eight blocks of 4096 bytes with LZ4. Gives the unit as it is stored, in whole sectors; `None` when it would not save a
/// sector, or when a sample says that trying is not worth it: then the blocks are stored as they are.
pub fn pack(blocks: &[Bytes], scratch: &mut Scratch) -> Option<Bytes> {
    if !looks_compressible(blocks) {
        return None;
    }
    let plain = gather(blocks, &mut scratch.plain);
    let stream = &mut scratch.packed[GROUP_HEADER_BYTES..];
    let length = lz4_flex::block::compress_into_with_table(plain, stream, &mut scratch.table).ok()?;
    finish(CODEC_LZ4, blocks.len(), length, scratch)
}

/// Compresses one to eight blocks with zstd: smaller, and several times the work. For data that have not been written for long. `None` as in
/// [`pack`], but nothing is skipped by a sample.
pub fn pack_dense(blocks: &[Bytes], scratch: &mut Scratch) -> Option<Bytes> {
    if scratch.dense.is_none() {
        scratch.dense = zstd::bulk::Compressor::new(DENSE_LEVEL).ok();
    }
    let compressor = scratch.dense.as_mut()?;
    let plain = gather(blocks, &mut scratch.plain);
    // An error is a stream longer than the blocks: they are stored as they are.
    let length = compressor.compress_to_buffer(plain, &mut scratch.packed[GROUP_HEADER_BYTES..]).ok()?;
    finish(CODEC_ZSTD, blocks.len(), length, scratch)
}

/// The blocks one after the other.
fn gather<'a>(blocks: &'a [Bytes], plain: &'a mut Vec<u8>) -> &'a [u8] {
    assert!((1..=MAX_GROUP_BLOCKS).contains(&blocks.len()) && blocks.iter().all(|block| block.len() == BLOCK_LEN));
    if let [block] = blocks {
        return block;
    }
    plain.clear();
    blocks.iter().for_each(|block| plain.extend_from_slice(block));
    plain
}

/// Puts the header before the stream and cuts it to sectors, of which there are as many as blocks at least: each block answers for
/// its share of the unit's sectors, and one that answered for none could live in a segment that counts nothing alive.
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

/// True when so many blocks in so many sectors are a packed unit; false for a block that is stored as it is.
pub fn is_packed(blocks: usize, sectors: usize) -> bool {
    sectors < blocks * BLOCK_SECTORS
}

/// Decompresses a stored unit of that many blocks, as the slot says, and gives them one after the other. Takes any bytes: what is
/// not a unit of so many blocks is refused, and no more memory is taken than the blocks need.
pub fn unpack(stored: &[u8], blocks: usize) -> Result<Bytes, DamagedGroup> {
    let (header, _) = HeaderBytes::ref_from_prefix(stored).map_err(|_| DamagedGroup::Header)?;
    let is_sound = (1..=MAX_GROUP_BLOCKS).contains(&blocks)
        && usize::from(header.blocks) == blocks
        && header.reserved == U32::ZERO;
    let stream = stored.get(GROUP_HEADER_BYTES..usize::from(header.length.get())).ok_or(DamagedGroup::Header)?;
    if !is_sound {
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
    /// A decompressor for each thread that reads: it takes longer to make than to use.
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

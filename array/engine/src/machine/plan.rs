//! Read plans: what a read found in the map at one instant, to be executed later without the core.
//!
//! A plan pins the segments that it names, so that the sectors keep their bytes although the blocks
//! may be overwritten.

use super::group::{CacheKey, GroupCache, GroupError, Keep, Read, StoredGroup, block};
use super::pool::Pool;
use super::span::{Place, PlaceRead, Spans, join};
use crate::service::{OpError, Reply, Tag};
use buffers::Buffer;
use bytes::{Bytes, BytesMut};
use platform::{Disk, DiskError, Durability};
use smallvec::SmallVec;
use std::sync::Arc;
use types::{BLOCK_BYTES, BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba};

const BLOCK_LEN: usize = BLOCK_BYTES as usize;
const LBA_LEN: usize = LBA_BYTES as usize;
/// Longest read whose bytes go into the read cache. Longer ones are parts of scans.
const MAX_KEPT_BYTES: u64 = 256 << 10;
/// Bytes between two places that one read-ahead covers.
const AHEAD_GAP: u64 = 32 << 10;
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Adjacent uncompressed 4 KiB blocks on the drive.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    offset: u64,
    /// Which use of their segment.
    usage: u64,
    crcs: SmallVec<[u32; 2]>,
}

/// A part of a plan. Parts follow each other without gaps.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// A repeated word; 0 for zeros.
    Word(u32),
    /// Bytes in memory, one whole block.
    Memory(Bytes),
    /// A block whose stored bytes were lost when it was partly overwritten.
    Damaged,
    /// Uncompressed blocks on the drive.
    Disk(Run),
    /// Blocks of a compressed group.
    Group {
        /// The group.
        group: StoredGroup,
        /// Index of the first block to read in the group.
        first: u8,
        /// Number of blocks to read.
        blocks: u8,
    },
    /// A block on the drive, some of whose 512-byte sectors are newer in memory.
    Patched {
        /// The group of the block below.
        group: StoredGroup,
        /// Index of the block below in its group.
        index: u8,
        /// The newer bytes: 4 KiB; only the sectors in `mask` are valid.
        newer: Bytes,
        /// Bit `n` set: sector `n` is taken from `newer`.
        mask: u8,
    },
}

#[derive(Clone, Debug)]
struct Piece {
    /// First byte within the read.
    at: usize,
    /// Bytes of the read that it fills.
    length: usize,
    /// Bytes of its first block before the read begins.
    skip: usize,
    part: Part,
}

/// A read of a range of a volume.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    tag: Tag,
    range: BlockRange,
    pieces: SmallVec<[Piece; 1]>,
    cache: Arc<GroupCache>,
    /// Pinned segments.
    pins: SmallVec<[(u32, Arc<()>); 1]>,
}

impl ReadPlan {
    pub(crate) fn new(tag: Tag, range: BlockRange, cache: Arc<GroupCache>) -> Self {
        Self { tag, range, pieces: SmallVec::new(), cache, pins: SmallVec::new() }
    }

    /// Keeps the segment of a group from being reused while the plan exists.
    pub(crate) fn pin(&mut self, group: &StoredGroup, pool: &Pool) {
        if self.pins.last().is_none_or(|(last, _)| *last != group.segment) {
            self.pins.push((group.segment, pool.pin(group.segment)));
        }
    }

    /// Returns the tag of the request.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Adds what the map holds for the 4 KiB blocks from `block` on. Parts are added in order and
    /// without gaps.
    pub(crate) fn push(&mut self, block: u64, blocks: u64, part: Part) {
        let (start, end) = (block * LBAS_PER_BLOCK, (block + blocks) * LBAS_PER_BLOCK);
        let from = start.max(self.range.start().0);
        let to = end.min(self.range.end().0);
        let at = ((from - self.range.start().0) * LBA_BYTES) as usize;
        let length = ((to - from) * LBA_BYTES) as usize;
        let skip = ((from - start) * LBA_BYTES) as usize;
        if let (Some(Piece { part: Part::Disk(last), length: grown, .. }), Part::Disk(next)) =
            (self.pieces.last_mut(), &part)
            && last.offset + last.bytes() as u64 == next.offset
            && last.usage == next.usage
        {
            last.crcs.extend_from_slice(&next.crcs);
            *grown += length;
            return;
        }
        if let (
            Some(Piece { part: Part::Group { group, first, blocks }, length: grown, .. }),
            Part::Group { group: next, first: index, .. },
        ) = (self.pieces.last_mut(), &part)
            && group == next
            && *first + *blocks == *index
        {
            *blocks += 1;
            *grown += length;
            return;
        }
        self.pieces.push(Piece { at, length, skip, part });
    }

    /// True if the plan needs no drive.
    pub fn is_in_memory(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece.part, Part::Word(_) | Part::Memory(_) | Part::Damaged))
    }

    /// True if the plan needs bytes that are not in a cache of the engine.
    pub(crate) fn needs_drive(&self) -> bool {
        let is_on_drive = |piece: &Piece| matches!(&piece.part, Part::Disk(run) if !self.holds_run(run));
        self.pieces.iter().any(is_on_drive) || self.groups_to_read().next().is_some()
    }

    /// True if the bytes that the plan reads from the drive go into the read cache.
    pub(crate) fn is_kept(&self) -> bool {
        self.cache.keeps_stored() && self.keep() == Keep::Stored
    }

    fn keep(&self) -> Keep {
        if self.range.bytes() <= MAX_KEPT_BYTES { Keep::Stored } else { Keep::Nothing }
    }

    /// True if the read cache has all blocks of a run.
    fn holds_run(&self, run: &Run) -> bool {
        self.cache.keeps_stored() && run.keys().all(|key| self.cache.holds_block(&key))
    }

    /// Executes the plan. Blocks while it reads from the drive.
    pub fn execute(&self, disk: &dyn Disk) -> Result<Reply, OpError> {
        let read = |offset: u64, buffer: &mut [u8]| disk.read_at(offset, buffer).map(|()| true);
        self.gather(&read).map(|data| Reply::Data(data.unwrap_or_default()))
    }

    /// Executes the plan unless that would block: then `None`.
    pub fn try_execute(&self, disk: &dyn Disk) -> Option<Result<Reply, OpError>> {
        let read = |offset: u64, buffer: &mut [u8]| disk.try_read_at(offset, buffer);
        self.gather(&read).map(|data| data.map(Reply::Data)).transpose()
    }

    /// Returns the places on the drive that the plan needs.
    pub(crate) fn places(&self) -> SmallVec<[Place; 4]> {
        let mut places = join(self.groups_to_read());
        places.extend(self.pieces.iter().filter_map(|piece| match &piece.part {
            Part::Disk(run) if !self.holds_run(run) => Some(Place::whole(run.offset, run.bytes())),
            _ => None,
        }));
        places
    }

    /// Executes the plan with the bytes of its [places](Self::places). `None` if some of them are
    /// missing: a group has left the cache, or only some groups of a place can be read. The plan
    /// must then be executed as a whole.
    pub(crate) fn finish(&self, mut reads: Vec<PlaceRead>) -> Option<Result<Reply, OpError>> {
        if let ([Piece { length, skip: 0, part: Part::Disk(run), .. }], [(_, Ok(bytes))]) =
            (self.pieces.as_slice(), reads.as_mut_slice())
            && *length == bytes.len()
        {
            let checked = self.check_run(0, run, bytes);
            return Some(checked.map(|()| {
                let bytes = Bytes::from(std::mem::take(bytes));
                self.keep_run(run, &bytes);
                Reply::Data(bytes)
            }));
        }
        let spans = Spans::from_reads(reads);
        let read = |offset: u64, buffer: &mut [u8]| spans.copy_to(offset, buffer);
        let data = self.gather_one(&read).unwrap_or_else(|| self.gather_all(&read));
        data.map(|data| data.map(Reply::Data)).transpose()
    }

    /// Executes the plan if it needs no drive.
    pub(crate) fn execute_in_memory(&self) -> Option<Result<Reply, OpError>> {
        self.is_in_memory().then(|| self.execute(&NoDisk))
    }

    /// Issues read-ahead hints for what the plan will read. Does not block.
    pub(crate) fn read_ahead(&self, disk: &dyn Disk) {
        let place = |piece: &Piece| match &piece.part {
            Part::Disk(run) if !self.holds_run(run) => Some((run.offset, run.bytes() as u64)),
            Part::Group { group, .. } | Part::Patched { group, .. } if !self.cache.holds(group) => {
                Some((group.offset, group.bytes() as u64))
            }
            _ => None,
        };
        let mut places: Vec<(u64, u64)> = self.pieces.iter().filter_map(place).collect();
        places.sort_unstable();
        let mut stretch: Option<(u64, u64)> = None;
        for (offset, bytes) in places {
            match &mut stretch {
                Some((_, end)) if offset <= *end + AHEAD_GAP => *end = (*end).max(offset + bytes),
                _ => {
                    if let Some((start, end)) = stretch.replace((offset, offset + bytes)) {
                        disk.will_read(start, end - start);
                    }
                }
            }
        }
        if let Some((start, end)) = stretch {
            disk.will_read(start, end - start);
        }
    }

    fn gather(&self, read: &Read<'_>) -> Result<Option<Bytes>, OpError> {
        if let Some(data) = self.gather_one(read) {
            return data;
        }
        let Some(spans) = Spans::read(self.groups_to_read(), read) else { return Ok(None) };
        let read = |offset: u64, buffer: &mut [u8]| {
            if spans.copy_to(offset, buffer)? { Ok(true) } else { read(offset, buffer) }
        };
        self.gather_all(&read)
    }

    /// Gathers a plan of one part without copying its bytes. `None` for other plans.
    fn gather_one(&self, read: &Read<'_>) -> Option<Result<Option<Bytes>, OpError>> {
        let total = self.range.bytes() as usize;
        let [piece] = self.pieces.as_slice() else { return None };
        match &piece.part {
            Part::Memory(bytes) => Some(Ok(Some(bytes.slice(piece.skip..piece.skip + total)))),
            Part::Group { group, first, .. } => Some(match group.load(&self.cache, self.keep(), read) {
                Ok(blocks) => {
                    let from = usize::from(*first) * BLOCK_LEN + piece.skip;
                    Ok(Some(blocks.slice(from..from + total)))
                }
                Err(GroupError::WouldBlock) => Ok(None),
                Err(GroupError::Medium) => Err(self.medium_error(0)),
            }),
            Part::Disk(run) if run.crcs.len() == 1 => {
                let block = self.cache.block(&(run.offset, run.usage))?;
                Some(Ok(Some(block.slice(piece.skip..piece.skip + total))))
            }
            Part::Word(0) if total <= ZEROS.len() => Some(Ok(Some(Bytes::from_static(&ZEROS).slice(..total)))),
            _ => None,
        }
    }

    fn gather_all(&self, read: &Read<'_>) -> Result<Option<Bytes>, OpError> {
        let mut out = Buffer::zeroed(self.range.bytes() as usize);
        for piece in &self.pieces {
            if !self.fill(piece, &mut out[piece.at..piece.at + piece.length], read)? {
                return Ok(None);
            }
        }
        Ok(Some(out.into()))
    }

    /// Returns the groups of the plan that are not cached.
    fn groups_to_read(&self) -> impl Iterator<Item = StoredGroup> + '_ {
        let group = |piece: &Piece| match &piece.part {
            Part::Group { group, .. } | Part::Patched { group, .. } => Some(*group),
            _ => None,
        };
        self.pieces.iter().filter_map(group).filter(|group| !self.cache.holds(group))
    }

    fn fill(&self, piece: &Piece, out: &mut [u8], read: &Read<'_>) -> Result<bool, OpError> {
        match &piece.part {
            Part::Word(0) => {}
            Part::Damaged => return Err(self.medium_error(piece.at)),
            Part::Word(word) => out.chunks_exact_mut(4).for_each(|chunk| chunk.copy_from_slice(&word.to_le_bytes())),
            Part::Memory(bytes) => out.copy_from_slice(&bytes[piece.skip..piece.skip + piece.length]),
            Part::Disk(run) if self.copy_run(run, piece.skip, out) => {}
            Part::Disk(run) if out.len() == run.bytes() => {
                return self.read_run(piece.at, run, out, read);
            }
            Part::Disk(run) => {
                let mut whole = vec![0; run.bytes()];
                if !self.read_run(piece.at, run, &mut whole, read)? {
                    return Ok(false);
                }
                out.copy_from_slice(&whole[piece.skip..piece.skip + piece.length]);
            }
            Part::Group { group, first, .. } => match group.load(&self.cache, self.keep(), read) {
                Ok(blocks) => {
                    let from = usize::from(*first) * BLOCK_LEN + piece.skip;
                    out.copy_from_slice(&blocks[from..from + piece.length]);
                }
                Err(GroupError::WouldBlock) => return Ok(false),
                Err(GroupError::Medium) => return Err(self.medium_error(piece.at)),
            },
            Part::Patched { group, index, newer, mask } => {
                let blocks = match group.load(&self.cache, self.keep(), read) {
                    Ok(blocks) => blocks,
                    Err(GroupError::WouldBlock) => return Ok(false),
                    Err(GroupError::Medium) => return Err(self.medium_error(piece.at)),
                };
                let mut whole = BytesMut::from(&block(&blocks, *index)[..]);
                patch(&mut whole, newer, *mask);
                out.copy_from_slice(&whole[piece.skip..piece.skip + piece.length]);
            }
        }
        Ok(true)
    }

    /// Returns the error for the block at byte `at` of the read.
    fn medium_error(&self, at: usize) -> OpError {
        let lba = self.range.start().0 + (at / LBA_LEN) as u64;
        OpError::MediumError { lba: Lba(lba.min(self.range.end().0.saturating_sub(1))) }
    }

    /// Reads whole blocks and compares each with the checksum of its slot.
    fn read_run(&self, at: usize, run: &Run, buffer: &mut [u8], read: &Read<'_>) -> Result<bool, OpError> {
        match read(run.offset, buffer) {
            Ok(true) => {
                self.check_run(at, run, buffer)?;
                self.keep_run(run, buffer);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(_) => Err(self.medium_error(at)),
        }
    }

    /// Copies the bytes of a run from byte `skip` on out of the read cache. False if it lacks some.
    fn copy_run(&self, run: &Run, skip: usize, out: &mut [u8]) -> bool {
        if !self.holds_run(run) {
            return false;
        }
        let (mut done, mut skip) = (0, skip);
        for key in run.keys() {
            let left = out.len() - done;
            if left == 0 {
                break;
            }
            if skip >= BLOCK_LEN {
                skip -= BLOCK_LEN;
                continue;
            }
            let Some(block) = self.cache.block(&key) else { return false };
            let length = left.min(BLOCK_LEN - skip);
            out[done..done + length].copy_from_slice(&block[skip..skip + length]);
            (done, skip) = (done + length, 0);
        }
        true
    }

    /// Puts the blocks of a run, whose checksums have been compared, into the read cache.
    fn keep_run(&self, run: &Run, bytes: &[u8]) {
        if !self.is_kept() {
            return;
        }
        for (key, block) in run.keys().zip(bytes.chunks_exact(BLOCK_LEN)) {
            if !self.cache.holds_block(&key) {
                self.cache.keep(key, Bytes::copy_from_slice(block));
            }
        }
    }

    /// Compares each block with the checksum of its slot.
    fn check_run(&self, at: usize, run: &Run, bytes: &[u8]) -> Result<(), OpError> {
        match bytes.chunks_exact(BLOCK_LEN).zip(&run.crcs).position(|(block, crc)| crc_fast::crc32_iscsi(block) != *crc)
        {
            Some(block) => Err(self.medium_error(at + block * BLOCK_LEN)),
            None => Ok(()),
        }
    }
}

impl Run {
    /// A group that is one uncompressed block.
    pub(crate) fn new(group: &StoredGroup) -> Self {
        Self { offset: group.offset, usage: group.usage, crcs: SmallVec::from_slice(&[group.crc]) }
    }

    /// Returns the keys of its blocks in the read cache.
    fn keys(&self) -> impl Iterator<Item = CacheKey> + '_ {
        (0..self.crcs.len()).map(|block| (self.offset + (block * BLOCK_LEN) as u64, self.usage))
    }

    fn bytes(&self) -> usize {
        self.crcs.len() * BLOCK_LEN
    }
}

/// Copies the sectors of `mask` from `newer` into `block`.
pub(crate) fn patch(block: &mut [u8], newer: &[u8], mask: u8) {
    for sector in (0..LBAS_PER_BLOCK as usize).filter(|sector| mask & (1 << sector) != 0) {
        let range = sector * LBA_LEN..(sector + 1) * LBA_LEN;
        block[range.clone()].copy_from_slice(&newer[range]);
    }
}

/// A drive for plans that need none: every read fails.
struct NoDisk;

impl Disk for NoDisk {
    fn size(&self) -> u64 {
        0
    }
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), DiskError> {
        Err(DiskError::Io("plan in memory read from the drive".into()))
    }
    fn write_at(&self, _: u64, _: &[&[u8]], _: Durability) -> Result<(), DiskError> {
        Err(DiskError::Io("plan wrote to the drive".into()))
    }
    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }
    fn allocate(&self, _: u64, _: u64) -> Result<(), DiskError> {
        Err(DiskError::Full)
    }
}

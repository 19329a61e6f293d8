//! The content of a virtual disk in its flat file. Unwritten blocks read as zeros and are zeroed
//! before their first write.

use crate::descriptor::SECTOR_BYTES;
use crate::error::{Result, VirtualDiskError};
use crate::flat::{FileRun, FlatFile};
use crate::format::DiskFormat;
use crate::layout::Placed;
use crate::locks::{Mode, RangeGuard, RangeLocks};
use crate::map::{BlockMap, Piece, State};
use crate::mover::{Advance, Mover, MoverSettings};
use crate::run_ahead::RunAhead;
use crate::transfer::pieces;
use bytes::{Bytes, BytesMut};
use datastore::DatastoreError;
use multipath::SharedDisk;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes per read and write of blocks that a disk of changes gets from its parent.
const FILL_BYTES: u64 = 256 << 10;

/// The content of one disk. Several tasks may call it at once.
pub(crate) struct Content {
    file: Arc<dyn FlatFile>,
    bytes: u64,
    map: Mutex<BlockMap>,
    /// Reads and writes of guests hold ranges shared; removal of blocks holds them exclusively.
    users: RangeLocks,
    /// Ranges that a task is preparing for their first write.
    first_writes: RangeLocks,
    run_ahead: Mutex<RunAhead>,
    mover: Mover,
    /// The content of blocks that this disk has not written; without one, they are zeros.
    parent: Option<Arc<Content>>,
    /// Set when the disk has moved to another file.
    retired: AtomicBool,
}

impl Content {
    /// Opens the content of an open file; `bytes` is the size of the disk.
    pub(crate) async fn open(file: Arc<dyn FlatFile>, bytes: u64, settings: MoverSettings) -> Result<Self> {
        Self::open_above(file, bytes, settings, None).await
    }

    /// Opens the changes of a disk since it had the content `parent`.
    pub(crate) async fn open_above(
        file: Arc<dyn FlatFile>,
        bytes: u64,
        settings: MoverSettings,
        parent: Option<Arc<Self>>,
    ) -> Result<Self> {
        let sector = file.disk().identity().block_bytes;
        if u64::from(sector) != SECTOR_BYTES {
            return Err(VirtualDiskError::SectorSize(sector));
        }
        let mut map = BlockMap::new(file.block_bytes() / SECTOR_BYTES);
        for run in file.runs().await? {
            map.insert(run.first, run.blocks, run.lba, run.state);
        }
        Ok(Self {
            file,
            bytes,
            map: Mutex::new(map),
            users: RangeLocks::default(),
            first_writes: RangeLocks::default(),
            run_ahead: Mutex::default(),
            mover: Mover::new(settings),
            parent,
            retired: AtomicBool::new(false),
        })
    }

    // The map stays valid if a task panics while holding it: each change is one call.
    fn map(&self) -> MutexGuard<'_, BlockMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Each change of the state is one call.
    fn run_ahead(&self) -> MutexGuard<'_, RunAhead> {
        self.run_ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows the allocation of blocks before the guest writes them. Must not be called while a
    /// copier writes to this disk, because the copier chooses the blocks itself.
    pub(crate) fn enable_run_ahead(&self) {
        self.run_ahead().enable();
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the device.
    pub(crate) fn disk(&self) -> &dyn SharedDisk {
        self.file.disk().as_ref()
    }

    /// Returns the flat file.
    pub(crate) fn file(&self) -> &Arc<dyn FlatFile> {
        &self.file
    }

    /// Returns the data mover of this disk.
    pub(crate) fn mover(&self) -> &Mover {
        &self.mover
    }

    /// Returns the current format. A thick disk with all blocks zeroed counts as eager-zeroed.
    pub(crate) fn format(&self, thin: bool) -> DiskFormat {
        match (thin, self.map().count().1) {
            (true, _) => DiskFormat::Thin,
            (false, 0) => DiskFormat::EagerZeroedThick,
            (false, _) => DiskFormat::ZeroedThick,
        }
    }

    /// Returns the number of allocated blocks, and how many of them are not zeroed yet.
    pub(crate) fn allocated(&self) -> (u64, u64) {
        self.map().count()
    }

    /// Returns all blocks of the disk.
    pub(crate) fn all(&self) -> Range<u64> {
        self.blocks(0..self.bytes)
    }

    /// Returns the end of the last block in bytes.
    pub(crate) fn end(&self) -> u64 {
        self.all().end * self.file.block_bytes()
    }

    /// Returns the blocks that contain any of these bytes.
    pub(crate) fn blocks(&self, bytes: Range<u64>) -> Range<u64> {
        let block = self.file.block_bytes();
        bytes.start / block..bytes.end.div_ceil(block)
    }

    /// Checks that a request consists of whole sectors within the disk, and returns its range.
    fn range(&self, offset: u64, bytes: u64) -> Result<Range<u64>> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes);
        let whole = offset.is_multiple_of(SECTOR_BYTES) && bytes.is_multiple_of(SECTOR_BYTES) && bytes > 0;
        end.filter(|_| whole).map(|end| offset..end).ok_or(VirtualDiskError::Range { offset, bytes })
    }

    /// Returns the written runs of a range, cut to the range.
    fn written(&self, range: &Range<u64>) -> Vec<Placed> {
        let runs = self.placed(self.blocks(range.clone()), |state| state == State::Written);
        let cut = |run: Placed| {
            let begin = run.offset.max(range.start);
            run.part(begin, range.end.min(run.end()).saturating_sub(begin), SECTOR_BYTES)
        };
        runs.into_iter().map(cut).collect()
    }

    /// Returns the runs of blocks whose state is chosen.
    pub(crate) fn placed(&self, blocks: Range<u64>, chosen: impl Fn(State) -> bool) -> Vec<Placed> {
        self.map().placed(blocks, self.file.block_bytes(), chosen)
    }

    /// Returns the runs of written blocks, without those that were only prepared for a guest.
    pub(crate) fn used(&self, blocks: Range<u64>) -> Vec<Placed> {
        let block = self.file.block_bytes();
        let written = self.placed(blocks, |state| state == State::Written);
        let ahead = self.run_ahead();
        if ahead.is_empty() {
            return written;
        }
        let mut runs: Vec<Placed> = Vec::new();
        for run in written {
            for (at, bytes) in pieces(run.bytes, block) {
                let (offset, lba) = (run.offset + at, run.lba + at / SECTOR_BYTES);
                if ahead.is_unused(offset / block) {
                    continue;
                }
                match runs.last_mut().filter(|last| at > 0 && last.end() == offset) {
                    Some(last) => last.bytes += bytes,
                    None => runs.push(Placed { offset, bytes, lba }),
                }
            }
        }
        runs
    }

    /// Returns the contents of a disk of changes, from itself to its last parent, each with the
    /// runs of blocks that the disk has from it.
    pub(crate) fn layers(&self, bytes: Range<u64>) -> Vec<(&Self, Vec<Placed>)> {
        let own = self.used(self.blocks(bytes.clone()));
        let below = self.parent.as_deref().map(|parent| parent.layers(bytes)).unwrap_or_default();
        let below = below.into_iter().map(|(content, runs)| (content, subtract(&runs, &own))).collect::<Vec<_>>();
        std::iter::once((self, own)).chain(below).collect()
    }

    /// Reads a range that this disk has not written from its parent; zeros without one, and beyond
    /// the end of the parent.
    async fn read_below(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        let inside = self.parent.as_ref().map_or(0, |parent| parent.bytes.saturating_sub(offset).min(bytes));
        let mut data = BytesMut::new();
        if let Some(parent) = self.parent.as_ref().filter(|_| inside > 0) {
            data.extend_from_slice(&Box::pin(parent.read(offset, inside)).await?);
        }
        data.resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
        Ok(data.freeze())
    }

    /// Locks a range against removal of its blocks.
    async fn user(&self, range: Range<u64>) -> Result<RangeGuard<'_>> {
        let guard = self.users.lock(range, Mode::Shared).await;
        if self.retired.load(Ordering::Acquire) { Err(VirtualDiskError::Retired) } else { Ok(guard) }
    }

    /// Waits for running reads and writes, and refuses all later ones.
    pub(crate) async fn retire(&self) {
        let _alone = self.users.lock(0..u64::MAX, Mode::Exclusive).await;
        self.retired.store(true, Ordering::Release);
    }

    /// Reads a range; unwritten blocks read as zeros.
    pub(crate) async fn read(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        let range = self.range(offset, bytes)?;
        let _user = self.user(range.clone()).await?;
        let runs = self.written(&range);
        let most = u64::from(self.disk().limits().transfer_blocks);
        if let [run] = runs.as_slice()
            && run.offset == offset
            && run.bytes == bytes
            && bytes / SECTOR_BYTES <= most
        {
            return Ok(self.disk().read(run.lba, sectors(bytes)).await?);
        }
        let mut data = match self.parent {
            Some(_) => BytesMut::from(self.read_below(offset, bytes).await?),
            None => BytesMut::zeroed(usize::try_from(bytes).unwrap_or(usize::MAX)),
        };
        for run in runs {
            for (at, count) in pieces(run.bytes / SECTOR_BYTES, most) {
                let part = self.disk().read(run.lba + at, sectors(count * SECTOR_BYTES)).await?;
                let begin = usize::try_from(run.offset - offset + at * SECTOR_BYTES).unwrap_or(usize::MAX);
                if let Some(place) = data.get_mut(begin..begin.saturating_add(part.len())) {
                    place.copy_from_slice(&part);
                }
            }
        }
        Ok(data.freeze())
    }

    /// Writes a range. Returns when the data and the metadata of the file are durable.
    pub(crate) async fn write(&self, offset: u64, data: Bytes) -> Result<()> {
        let range = self.range(offset, data.len() as u64)?;
        let _user = self.user(range.clone()).await?;
        self.prepare(self.blocks(range.clone())).await?;
        let most = u64::from(self.disk().limits().transfer_blocks);
        for run in self.written(&range) {
            for (at, count) in pieces(run.bytes / SECTOR_BYTES, most) {
                let begin = usize::try_from(run.offset - offset + at * SECTOR_BYTES).unwrap_or(usize::MAX);
                let end = begin.saturating_add(usize::try_from(count * SECTOR_BYTES).unwrap_or(usize::MAX));
                self.disk().write(run.lba + at, data.slice(begin..end)).await?;
            }
        }
        Ok(())
    }

    fn is_written(&self, blocks: Range<u64>) -> bool {
        self.map().pieces(blocks).iter().all(|piece| matches!(piece.place, Some((_, State::Written))))
    }

    /// Allocates and zeroes the blocks of a range that are not ready for writes, and some after it
    /// if the guest writes new blocks in sequence. If another task prepares them, waits for it.
    async fn prepare(&self, blocks: Range<u64>) -> Result<()> {
        if !self.is_written(blocks.clone()) {
            let planned = self.run_ahead().planned(&blocks);
            let _first = self.first_writes.lock(blocks.start..blocks.end + planned, Mode::Exclusive).await;
            if !self.is_written(blocks.clone()) {
                self.prepare_with(blocks.clone(), planned).await?;
            }
        }
        self.run_ahead().note_used(&blocks);
        Ok(())
    }

    /// Prepares a range and at most `planned` blocks after it. The caller has locked both against
    /// other first writes.
    async fn prepare_with(&self, blocks: Range<u64>, planned: u64) -> Result<()> {
        let block = self.file.block_bytes();
        let mut ahead = self.unwritten_from(blocks.end, planned);
        // A lock is not waited for: its holder may wait for the range that this write has locked.
        let users = self.users.try_lock(ahead.start * block..ahead.end * block, Mode::Shared);
        if users.is_none() {
            ahead = blocks.end..blocks.end;
        }
        self.run_ahead().note_prepared(&blocks, &ahead);
        let all = blocks.start..ahead.end;
        match self.allocate(all.clone()).await {
            Err(VirtualDiskError::Datastore(DatastoreError::NoSpace)) if !ahead.is_empty() => {
                // The file may have got some of the blocks.
                for hole in self.holes(all) {
                    self.file.punch(hole).await?;
                }
                self.run_ahead().note_used(&ahead);
                self.allocate(blocks.clone()).await?;
                self.zero_rest(blocks, &|_| ()).await
            }
            Err(error) => Err(error),
            Ok(()) => self.zero_rest(all, &|_| ()).await,
        }
    }

    /// Returns the first blocks of a range that are not written; at most `count`.
    fn unwritten_from(&self, start: u64, count: u64) -> Range<u64> {
        let range = start..start.saturating_add(count).min(self.all().end).max(start);
        let pieces = self.map().pieces(range.clone());
        let written = pieces.iter().find(|piece| matches!(piece.place, Some((_, State::Written))));
        start..written.map_or(range.end, |piece| piece.first)
    }

    /// Returns the unallocated parts of a range.
    fn holes(&self, blocks: Range<u64>) -> Vec<Range<u64>> {
        let pieces = self.map().pieces(blocks);
        pieces.iter().filter(|piece| piece.place.is_none()).map(Piece::range).collect()
    }

    /// Frees the blocks of a thin disk that were prepared but not written. They contain zeros and
    /// read as zeros afterwards.
    pub(crate) async fn free_unused(&self) -> Result<()> {
        let unused = self.run_ahead().take_unused();
        for blocks in unused {
            self.free_blocks(blocks, false).await?;
        }
        Ok(())
    }

    /// Allocates the unallocated blocks of a range.
    pub(crate) async fn allocate(&self, blocks: Range<u64>) -> Result<()> {
        for hole in self.holes(blocks) {
            let runs = self.file.allocate(hole).await?;
            let mut map = self.map();
            for FileRun { first, blocks, lba, state } in runs {
                map.insert(first, blocks, lba, state);
            }
        }
        Ok(())
    }

    /// Zeroes the allocated blocks of a range that are not zeroed yet, and marks them written. A
    /// disk of changes gets the content of its parent there.
    pub(crate) async fn zero_rest(&self, blocks: Range<u64>, advance: Advance<'_>) -> Result<()> {
        let rest = self.placed(blocks.clone(), |state| state == State::ToBeZeroed);
        if rest.is_empty() {
            return Ok(());
        }
        if self.parent.is_some() {
            for run in &rest {
                for (at, bytes) in pieces(run.bytes, FILL_BYTES) {
                    let data = self.read_below(run.offset + at, bytes).await?;
                    self.disk().write(run.lba + at / SECTOR_BYTES, data).await?;
                }
            }
            return self.note_written(rest).await;
        }
        let runs: Vec<_> = rest.iter().map(|run| (run.lba, run.bytes / SECTOR_BYTES)).collect();
        self.mover.zero(self.disk(), &runs, advance).await?;
        self.note_written(rest).await
    }

    /// Marks runs of blocks as written.
    pub(crate) async fn note_written(&self, runs: Vec<Placed>) -> Result<()> {
        // Runs that are apart on the device may be adjacent in the file; they need one change.
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for run in runs {
            let blocks = self.blocks(run.offset..run.end());
            match ranges.last_mut().filter(|last| last.end == blocks.start) {
                Some(last) => last.end = blocks.end,
                None => ranges.push(blocks),
            }
        }
        for range in ranges {
            self.file.set_written(range.clone()).await?;
            self.map().set_written(range);
        }
        Ok(())
    }

    /// Zeroes all allocated blocks. Unallocated blocks already read as zeros.
    pub(crate) async fn zero_all(&self, advance: Advance<'_>) -> Result<()> {
        let _alone = self.users.lock(0..self.bytes, Mode::Exclusive).await;
        let all = self.placed(self.all(), |_| true);
        let runs: Vec<_> = all.iter().map(|run| (run.lba, run.bytes / SECTOR_BYTES)).collect();
        self.mover.zero(self.disk(), &runs, advance).await?;
        self.note_written(self.placed(self.all(), |state| state == State::ToBeZeroed)).await
    }

    /// Handles UNMAP from a guest: frees the whole blocks within the range and ignores partial
    /// blocks at its ends. The array is unmapped too if `/VMFS3/EnableBlockDelete` is 1. Returns
    /// the number of blocks.
    pub(crate) async fn unmap(&self, offset: u64, bytes: u64) -> Result<u64> {
        let range = self.range(offset, bytes)?;
        let block = self.file.block_bytes();
        // If the range reaches the end of the disk, a partial last block counts as whole.
        let end = if range.end == self.bytes { self.all().end } else { range.end / block };
        self.free_blocks(range.start.div_ceil(block)..end, self.mover.settings().block_delete).await
    }

    /// Frees blocks of the disk, and unmaps them on the array if `unmap` is set. Returns the number
    /// of blocks.
    pub(crate) async fn free_blocks(&self, blocks: Range<u64>, unmap: bool) -> Result<u64> {
        if blocks.is_empty() {
            return Ok(0);
        }
        let block = self.file.block_bytes();
        let _alone = self.users.lock(blocks.start * block..blocks.end * block, Mode::Exclusive).await;
        self.run_ahead().note_used(&blocks);
        let pieces = self.map().pieces(blocks);
        let mut given = 0;
        for piece in pieces {
            let Some((lba, _)) = piece.place else { continue };
            if unmap {
                // Unmap before another file can get the blocks. If the array refuses, it only keeps
                // the space.
                self.mover.unmap(self.disk(), &[(lba, piece.blocks * block / SECTOR_BYTES)]).await?;
            }
            // Remove from the map first: if the reply of the file is lost, no later access reaches
            // blocks of another file.
            self.map().remove(piece.range());
            self.file.punch(piece.range()).await?;
            given += piece.blocks;
        }
        Ok(given)
    }
}

/// Returns the parts of runs that are outside all of the others. Both are in order.
fn subtract(runs: &[Placed], others: &[Placed]) -> Vec<Placed> {
    let mut left = Vec::new();
    for run in runs {
        let mut at = run.offset;
        for other in others.iter().filter(|other| other.offset < run.end() && other.end() > run.offset) {
            if at < other.offset {
                left.push(run.part(at, other.offset - at, SECTOR_BYTES));
            }
            at = at.max(other.end());
        }
        if at < run.end() {
            left.push(run.part(at, run.end() - at, SECTOR_BYTES));
        }
    }
    left
}

/// Converts bytes to a count of sectors in a command.
fn sectors(bytes: u64) -> u32 {
    u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests;

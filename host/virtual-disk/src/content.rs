//! The bytes of a virtual disk on its flat file: what was never written reads as zeros, and is zeroed before the first
//! write to it.

use crate::descriptor::SECTOR_BYTES;
use crate::error::{Error, Result};
use crate::flat::{FileRun, FlatFile};
use crate::format::Format;
use crate::layout::Placed;
use crate::locks::{Mode, RangeGuard, RangeLocks};
use crate::map::{BlockMap, State};
use crate::mover::{Advance, Mover, MoverSettings};
use crate::transfer::pieces;
use bytes::{Bytes, BytesMut};
use multipath::SharedDisk;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of one disk. All calls may be made by many tasks at once.
pub(crate) struct Content {
    file: Arc<dyn FlatFile>,
    bytes: u64,
    map: Mutex<BlockMap>,
    /// Guests' reads and writes share; who takes blocks away has them for himself.
    users: RangeLocks,
    /// Blocks that somebody is preparing for their first write.
    first_writes: RangeLocks,
    mover: Mover,
    /// Set when the disk has moved elsewhere.
    retired: AtomicBool,
}

impl Content {
    /// The content of a file that is open; `bytes` is the disk's size.
    pub(crate) async fn open(file: Arc<dyn FlatFile>, bytes: u64, settings: MoverSettings) -> Result<Self> {
        let sector = file.disk().identity().block_bytes;
        if u64::from(sector) != SECTOR_BYTES {
            return Err(Error::SectorSize(sector));
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
            mover: Mover::new(settings),
            retired: AtomicBool::new(false),
        })
    }

    // A task that panicked with the map in its hands left one that is still true: each change is one call.
    fn map(&self) -> MutexGuard<'_, BlockMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device.
    pub(crate) fn disk(&self) -> &dyn SharedDisk {
        self.file.disk().as_ref()
    }

    /// The file.
    pub(crate) fn file(&self) -> &Arc<dyn FlatFile> {
        &self.file
    }

    /// What moves data for this disk.
    pub(crate) fn mover(&self) -> &Mover {
        &self.mover
    }

    /// The format that the blocks show: a thick disk whose blocks are all zeroed is an eagerly zeroed one.
    pub(crate) fn format(&self, thin: bool) -> Format {
        match (thin, self.map().count().1) {
            (true, _) => Format::Thin,
            (false, 0) => Format::EagerZeroedThick,
            (false, _) => Format::ZeroedThick,
        }
    }

    /// Blocks that are allocated, and how many of those are not zeroed yet.
    pub(crate) fn allocated(&self) -> (u64, u64) {
        self.map().count()
    }

    /// All blocks of the disk.
    pub(crate) fn all(&self) -> Range<u64> {
        self.blocks(0..self.bytes)
    }

    /// The blocks that hold any of these bytes.
    pub(crate) fn blocks(&self, bytes: Range<u64>) -> Range<u64> {
        let block = self.file.block_bytes();
        bytes.start / block..bytes.end.div_ceil(block)
    }

    /// The bytes of a request, if it is one of whole sectors within the disk.
    fn range(&self, offset: u64, bytes: u64) -> Result<Range<u64>> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes);
        let whole = offset.is_multiple_of(SECTOR_BYTES) && bytes.is_multiple_of(SECTOR_BYTES) && bytes > 0;
        end.filter(|_| whole).map(|end| offset..end).ok_or(Error::Range { offset, bytes })
    }

    /// Where the bytes of a range that were written lie, cut to the range.
    fn written(&self, range: &Range<u64>) -> Vec<Placed> {
        let runs = self.placed(self.blocks(range.clone()), |state| state == State::Written);
        let cut = |run: Placed| {
            let begin = run.offset.max(range.start);
            run.part(begin, range.end.min(run.end()).saturating_sub(begin), SECTOR_BYTES)
        };
        runs.into_iter().map(cut).collect()
    }

    /// Runs of blocks as told.
    pub(crate) fn placed(&self, blocks: Range<u64>, chosen: impl Fn(State) -> bool) -> Vec<Placed> {
        self.map().placed(blocks, self.file.block_bytes(), chosen)
    }

    /// Waits until nobody takes these bytes away, and keeps them from being taken.
    async fn user(&self, range: Range<u64>) -> Result<RangeGuard<'_>> {
        let guard = self.users.lock(range, Mode::Shared).await;
        if self.retired.load(Ordering::Acquire) { Err(Error::Retired) } else { Ok(guard) }
    }

    /// Lets whoever reads or writes end, and nobody begin.
    pub(crate) async fn retire(&self) {
        let _alone = self.users.lock(0..u64::MAX, Mode::Exclusive).await;
        self.retired.store(true, Ordering::Release);
    }

    /// Reads; what was never written is zeros.
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
        let mut data = BytesMut::zeroed(usize::try_from(bytes).unwrap_or(usize::MAX));
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

    /// Writes. Answered when the data, and that they are the file's, are durable.
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

    /// Allocates and zeroes the blocks of a range that are not ready to be written. Who comes second waits for the first.
    async fn prepare(&self, blocks: Range<u64>) -> Result<()> {
        if self.is_written(blocks.clone()) {
            return Ok(());
        }
        let _first = self.first_writes.lock(blocks.clone(), Mode::Exclusive).await;
        self.allocate(blocks.clone()).await?;
        self.zero_rest(blocks, &|_| ()).await
    }

    /// Allocates the blocks of a range that are not.
    pub(crate) async fn allocate(&self, blocks: Range<u64>) -> Result<()> {
        let holes: Vec<_> = self.map().pieces(blocks).into_iter().filter(|piece| piece.place.is_none()).collect();
        for hole in holes {
            let runs = self.file.allocate(hole.range()).await?;
            let mut map = self.map();
            for FileRun { first, blocks, lba, state } in runs {
                map.insert(first, blocks, lba, state);
            }
        }
        Ok(())
    }

    /// Zeroes the allocated blocks of a range that are still to be, and notes that they are.
    pub(crate) async fn zero_rest(&self, blocks: Range<u64>, advance: Advance<'_>) -> Result<()> {
        let rest = self.placed(blocks.clone(), |state| state == State::ToBeZeroed);
        if rest.is_empty() {
            return Ok(());
        }
        let runs: Vec<_> = rest.iter().map(|run| (run.lba, run.bytes / SECTOR_BYTES)).collect();
        self.mover.zero(self.disk(), &runs, advance).await?;
        self.note_written(rest).await
    }

    /// Notes that runs of blocks hold the file's bytes.
    pub(crate) async fn note_written(&self, runs: Vec<Placed>) -> Result<()> {
        // Runs that lie apart on the device may still be neighbours in the file: one note for all of them.
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

    /// Zeroes all that is allocated, written or not; what is not allocated reads as zeros already.
    pub(crate) async fn zero_all(&self, advance: Advance<'_>) -> Result<()> {
        let _alone = self.users.lock(0..self.bytes, Mode::Exclusive).await;
        let all = self.placed(self.all(), |_| true);
        let runs: Vec<_> = all.iter().map(|run| (run.lba, run.bytes / SECTOR_BYTES)).collect();
        self.mover.zero(self.disk(), &runs, advance).await?;
        self.note_written(self.placed(self.all(), |state| state == State::ToBeZeroed)).await
    }

    /// UNMAP from a guest: whole blocks within the range are given back, what is left at its ends is not looked at. They
    /// reach the array too when `/VMFS3/EnableBlockDelete` says so. Gives the number of blocks.
    pub(crate) async fn unmap(&self, offset: u64, bytes: u64) -> Result<u64> {
        let range = self.range(offset, bytes)?;
        let block = self.file.block_bytes();
        // The last block of a disk of no whole blocks is whole when the range reaches the end of the disk.
        let end = if range.end == self.bytes { self.all().end } else { range.end / block };
        self.give_back(range.start.div_ceil(block)..end, self.mover.settings().block_delete).await
    }

    /// Takes blocks from the disk.
    pub(crate) async fn give_back(&self, blocks: Range<u64>, unmap: bool) -> Result<u64> {
        if blocks.is_empty() {
            return Ok(0);
        }
        let block = self.file.block_bytes();
        let _alone = self.users.lock(blocks.start * block..blocks.end * block, Mode::Exclusive).await;
        let pieces = self.map().pieces(blocks);
        let mut given = 0;
        for piece in pieces {
            let Some((lba, _)) = piece.place else { continue };
            if unmap {
                // Before another file can have them. An array that does not take it keeps the data, and no more.
                self.mover.unmap(self.disk(), &[(lba, piece.blocks * block / SECTOR_BYTES)]).await?;
            }
            // Forgotten first: when the answer of the file is lost, nothing is read or written in a block of another.
            self.map().remove(piece.range());
            self.file.punch(piece.range()).await?;
            given += piece.blocks;
        }
        Ok(given)
    }
}

/// A number of sectors as a command takes it.
fn sectors(bytes: u64) -> u32 {
    u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests;

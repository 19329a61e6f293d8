//! An open file: its map of blocks, and how it grows and shrinks.

use crate::layout::descriptor::{Descriptor, Reader};
use crate::layout::geometry::Resource;
use crate::layout::lock::LockOwner;
use crate::layout::page::POINTERS;
use crate::layout::{FS_BLOCK_SECTORS, SECTOR_BYTES};
use crate::map::Map;
use crate::mounted::Mounted;
use crate::transaction::allocate::{NumberRun, push_run};
use crate::transaction::{Hold, Transaction};
use crate::tree::{FileId, Node, read_descriptor, read_map, sector_of};
use crate::{DatastoreError, Result};
use bytes::{Bytes, BytesMut};
use multipath::DeviceError;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// Maximum blocks per transaction, limited by the size of the journal, in whole pages of pointers.
const STEP_PAGES: [u32; 2] = [12, 64];
/// Maximum clusters per transaction whose blocks are freed.
const STEP_CLUSTERS: usize = 24;
/// Maximum blocks freed and allocated by one transaction: both fit in the smallest journal.
const EXCHANGED_BLOCKS: u64 = 4 * POINTERS as u64;

/// Access mode of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Reading, shared with readers on any host.
    Read,
    /// Reading and writing, exclusive.
    Write,
}

/// Content of newly allocated blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFill {
    /// Old data of the device. The file reads as zeros there; a writer zeroes a block first and
    /// then marks it written.
    ToBeZeroed,
    /// Data of the file.
    Written,
}

/// State of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// Not allocated; reads as zeros.
    Hole,
    /// Allocated from this sector of the device, but without data of the file; reads as zeros.
    ToBeZeroed {
        /// First sector on the device.
        lba: u64,
    },
    /// Data of the file, from this sector of the device.
    Written {
        /// First sector on the device.
        lba: u64,
    },
}

/// A range of blocks of a file with one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// First block within the file.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// State of the blocks.
    pub state: ExtentState,
}

/// Position of a walk over the free space; starts at the first block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(u32);

struct Content {
    size: u64,
    map: Map,
    /// A change failed, so the map may differ from the disk.
    stale: bool,
    open: bool,
}

struct Shared {
    mounted: Arc<Mounted>,
    file: FileId,
    sector: u64,
    access: FileAccess,
    content: Mutex<Content>,
    /// Serialises changes.
    change_lock: tokio::sync::Mutex<()>,
}

/// An open file. Dropping it closes it in the background and ignores errors.
pub struct File(Arc<Shared>);

impl Drop for File {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.0);
        if shared.content.lock().open {
            let runtime = Arc::clone(&shared.mounted.io.runtime);
            runtime.spawn(Box::pin(async move {
                // No caller is left to report to. The lock is released after the next heartbeat or
                // with the slot.
                let _ = shared.close().await;
            }));
        }
    }
}

impl File {
    /// Opens a file that this mount has just created and locked.
    pub(crate) async fn created(mounted: &Arc<Mounted>, file: FileId) -> Result<Self> {
        let sector = sector_of(&mounted.superblock, file.descriptor)?;
        let content = Content { size: 0, map: Map::default(), stale: false, open: true };
        Ok(Self::with(mounted, file, sector, FileAccess::Write, content))
    }

    fn with(mounted: &Arc<Mounted>, file: FileId, sector: u64, access: FileAccess, content: Content) -> Self {
        let change_lock = tokio::sync::Mutex::new(());
        Self(Arc::new(Shared {
            mounted: Arc::clone(mounted),
            file,
            sector,
            access,
            content: Mutex::new(content),
            change_lock,
        }))
    }

    /// Opens a file.
    pub(crate) async fn open(mounted: &Arc<Mounted>, file: FileId, access: FileAccess) -> Result<Self> {
        let sector = sector_of(&mounted.superblock, file.descriptor)?;
        let work = move |mounted: Arc<Mounted>| async move {
            mounted.retry_while_locked(|| acquire(&mounted, file, sector, access)).await?;
            let stale = Content { size: 0, map: Map::default(), stale: true, open: true };
            let opened = Self::with(&mounted, file, sector, access, stale);
            opened.0.reload().await?;
            Ok(opened)
        };
        mounted.run_detached(work).await
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> u64 {
        self.0.content.lock().size
    }

    /// Returns the bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.0.mounted.geometry().block_bytes()
    }

    /// Returns the length in blocks, rounded up.
    pub fn blocks(&self) -> u64 {
        self.size().div_ceil(self.block_bytes())
    }

    /// Returns the descriptor number: the identity of the file as long as it exists.
    pub fn descriptor(&self) -> u32 {
        self.0.file.descriptor
    }

    /// Returns the number of allocated blocks.
    pub fn allocated(&self) -> u64 {
        self.0.content.lock().map.leaves()
    }

    /// Returns the extents of a range of blocks without gaps, limited to the length of the file.
    pub fn extents(&self, blocks: Range<u64>) -> Vec<FileExtent> {
        let content = self.0.content.lock();
        let end = blocks.end.min(content.size.div_ceil(self.block_bytes())) as u32;
        let start = blocks.start.min(u64::from(end)) as u32;
        let mut extents = Vec::new();
        let mut at = start;
        let mut push = |block: u32, blocks: u32, state| {
            if blocks > 0 {
                extents.push(FileExtent { block: block.into(), blocks: blocks.into(), state });
            }
        };
        for (first, run) in content.map.within(start..end) {
            push(at, first - at, ExtentState::Hole);
            let lba = self.0.lba(run.target);
            push(
                first,
                run.length,
                if run.to_be_zeroed { ExtentState::ToBeZeroed { lba } } else { ExtentState::Written { lba } },
            );
            at = first + run.length;
        }
        push(at, end - at, ExtentState::Hole);
        extents
    }

    /// Sets the length. New space is a hole; blocks beyond the new end are freed.
    pub async fn set_size(&self, bytes: u64) -> Result<()> {
        let blocks = u32::try_from(bytes.div_ceil(self.block_bytes())).map_err(|_| DatastoreError::TooLarge)?;
        if bytes < self.size() {
            self.punch_from(blocks).await?;
        }
        self.0
            .change(move |transaction, node, _| {
                Box::pin(async move {
                    node.descriptor.size = bytes.into();
                    node.descriptor.modified = transaction.mounted.io.runtime.unix_millis().into();
                    node.put(transaction);
                    Ok(())
                })
            })
            .await
    }

    /// Allocates the holes in a range of blocks within the file, in several transactions if
    /// necessary.
    ///
    /// # Errors
    /// [`DatastoreError::NoSpace`] if the datastore is full; some blocks may be allocated.
    pub async fn allocate(&self, blocks: Range<u64>, fill: BlockFill) -> Result<()> {
        let mut range = self.within(blocks)?;
        while let Some(hole) = self.first_hole(&range) {
            let end = hole.end.min(hole.start.saturating_add(self.0.step()));
            self.0
                .change(move |transaction, node, map| {
                    Box::pin(async move {
                        let runs = transaction.take(Resource::Blocks, end - hole.start).await?;
                        map.grow_to(end - 1)?;
                        map.fill(hole.start..end, &runs, fill == BlockFill::ToBeZeroed);
                        node.store(transaction, map).await
                    })
                })
                .await?;
            range.start = hole.start;
        }
        Ok(())
    }

    fn first_hole(&self, range: &Range<u32>) -> Option<Range<u32>> {
        self.0.content.lock().map.holes(range.clone()).into_iter().next()
    }

    /// Marks blocks as written after they were zeroed or completely written.
    pub async fn mark_written(&self, blocks: Range<u64>) -> Result<()> {
        let range = self.within(blocks)?;
        let step = self.0.step();
        for start in (range.start..range.end).step_by(step as usize) {
            let end = range.end.min(start.saturating_add(step));
            let unwritten = self.0.content.lock().map.within(start..end).iter().any(|(_, run)| run.to_be_zeroed);
            if unwritten {
                self.0
                    .change(move |transaction, node, map| {
                        Box::pin(async move {
                            map.mark_written(start..end);
                            node.store(transaction, map).await
                        })
                    })
                    .await?;
            }
        }
        Ok(())
    }

    /// Turns a range into a hole, frees its blocks and returns them as (first sector on the device,
    /// sectors).
    ///
    /// Unmap the blocks before, not after the call: afterwards they may belong to another file.
    pub async fn punch(&self, blocks: Range<u64>) -> Result<Vec<(u64, u64)>> {
        let range = self.within(blocks)?;
        let mut given = Vec::new();
        let mut end = range.end;
        // Starts at the end, so an error or a crash leaves the front of the file.
        while let Some(start) = self.0.start_of_step(range.start..end) {
            let gave = self.0.change(move |transaction, node, map| {
                Box::pin(async move {
                    let leaves = map.punch(start..end);
                    transaction.free_items(Resource::Blocks, &leaves).await?;
                    node.store(transaction, map).await?;
                    Ok(leaves)
                })
            });
            given.extend(
                gave.await?
                    .iter()
                    .map(|(first, length)| (self.0.lba(*first), u64::from(*length) * self.0.block_sectors())),
            );
            end = start;
        }
        Ok(given)
    }

    async fn punch_from(&self, block: u32) -> Result<()> {
        let end = self.0.content.lock().map.end();
        if block < end { self.punch(block.into()..end.into()).await.map(|_| ()) } else { Ok(()) }
    }

    /// Frees all blocks before the file is removed.
    pub(crate) async fn free_all_blocks(&self) -> Result<()> {
        self.punch_from(0).await
    }

    /// Returns the identity of the file.
    pub(crate) fn id(&self) -> FileId {
        self.0.file
    }

    /// Closes the handle of a file that was removed together with its lock.
    pub(crate) fn note_removed(&self) {
        self.0.content.lock().open = false;
    }

    /// Allocates at most `blocks` free blocks from the cursor on and appends them to the file.
    /// Returns them as (first sector on the device, sectors); none at the end. Skips clusters
    /// locked by other hosts.
    pub async fn take_free(&self, blocks: u64, cursor: &mut Cursor) -> Result<Vec<(u64, u64)>> {
        self.take_free_from(blocks, cursor, false).await
    }

    /// Frees the blocks of the file and then takes free blocks like [`File::take_free`], in one
    /// transaction if both are small.
    pub async fn exchange_free(&self, blocks: u64, cursor: &mut Cursor) -> Result<Vec<(u64, u64)>> {
        let held = self.within(0..self.blocks())?;
        let is_small = u64::from(held.end).max(blocks) <= EXCHANGED_BLOCKS;
        let at_once =
            is_small && self.0.start_of_step(held) == Some(0) && cursor.0 < self.0.mounted.geometry().block_numbers();
        if !at_once {
            self.punch(0..self.blocks()).await?;
        }
        self.take_free_from(blocks, cursor, at_once).await
    }

    async fn take_free_from(&self, blocks: u64, cursor: &mut Cursor, mut gives: bool) -> Result<Vec<(u64, u64)>> {
        let mut taken: Vec<NumberRun> = Vec::new();
        let all = self.0.mounted.geometry().block_numbers();
        let mut missing = u32::try_from(blocks).unwrap_or(u32::MAX);
        while missing > 0 && cursor.0 < all {
            let (from, most) = (cursor.0, missing.min(self.0.step()));
            let first = std::mem::take(&mut gives);
            let (runs, next) = self
                .0
                .change(move |transaction, node, map| {
                    Box::pin(take_free_step(transaction, node, map, first, (from, most)))
                })
                .await?;
            cursor.0 = next;
            missing -= runs.iter().map(|run| run.1).sum::<u32>();
            runs.into_iter().for_each(|run| push_run(&mut taken, run));
        }
        Ok(taken
            .iter()
            .map(|(first, length)| (self.0.lba(*first), u64::from(*length) * self.0.block_sectors()))
            .collect())
    }

    /// Reads bytes up to the end of the file. For small files; virtual disks use [`File::extents`].
    pub async fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let end = self.size().min(offset.saturating_add(bytes));
        let block = self.block_bytes();
        let mut data = Vec::with_capacity(end.saturating_sub(offset) as usize);
        for extent in self.extents(offset / block..end.div_ceil(block)) {
            let begin = extent.block * block;
            let (from, to) = (offset.max(begin), end.min(begin + extent.blocks * block));
            match extent.state {
                ExtentState::Hole | ExtentState::ToBeZeroed { .. } => data.resize(data.len() + (to - from) as usize, 0),
                ExtentState::Written { lba } => data.extend(self.0.read_bytes(lba, from - begin..to - begin).await?),
            }
        }
        Ok(data)
    }

    /// Writes bytes within the file. Allocates and zeroes missing blocks. For small files.
    pub async fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset
            .checked_add(bytes.len() as u64)
            .filter(|end| *end <= self.size())
            .ok_or(DatastoreError::OutOfRange)?;
        let block = self.block_bytes();
        let blocks = offset / block..end.div_ceil(block);
        self.allocate(blocks.clone(), BlockFill::ToBeZeroed).await?;
        for extent in self.extents(blocks.clone()) {
            let begin = extent.block * block;
            let lba = match extent.state {
                ExtentState::Written { lba } => lba,
                ExtentState::ToBeZeroed { lba } => {
                    self.0.zero(lba, extent.blocks * self.0.block_sectors()).await?;
                    lba
                }
                ExtentState::Hole => return Err(DatastoreError::OutOfRange),
            };
            let (from, to) = (offset.max(begin), end.min(begin + extent.blocks * block));
            let part = &bytes[(from - offset) as usize..(to - offset) as usize];
            self.0.write_bytes(lba, from - begin, part).await?;
        }
        self.mark_written(blocks).await
    }

    /// Closes the file, so that other hosts may open it.
    pub async fn close(&self) -> Result<()> {
        let shared = Arc::clone(&self.0);
        self.0.mounted.run_detached(move |_| async move { shared.close().await }).await
    }

    fn within(&self, blocks: Range<u64>) -> Result<Range<u32>> {
        if blocks.start <= blocks.end && blocks.end <= self.blocks() {
            Ok(blocks.start as u32..blocks.end as u32)
        } else {
            Err(DatastoreError::OutOfRange)
        }
    }
}

/// Allocates blocks from a cursor on until there are enough or enough clusters are locked. Returns
/// the runs and the next position. If `gives`, frees the blocks of the file first.
async fn take_free_step(
    transaction: &mut Transaction,
    node: &mut Node,
    map: &mut Map,
    gives: bool,
    (from, most): (u32, u32),
) -> Result<(Vec<NumberRun>, u32)> {
    if gives {
        let leaves = map.punch(0..map.end());
        transaction.free_items(Resource::Blocks, &leaves).await?;
    }
    let geometry = *transaction.mounted.geometry();
    let (per, mut locked) = (geometry.blocks_per_cluster, 0);
    let (mut runs, mut missing, mut at) = (Vec::new(), most, from);
    // Locks as many clusters at once as should suffice.
    let mut expected = 0;
    let estimate = &transaction.state.free_estimate(Resource::Blocks).free;
    let ahead = estimate.iter().enumerate().skip((from / per) as usize).take(STEP_CLUSTERS).take_while(|(_, free)| {
        let is_wanted = expected < most;
        expected += **free;
        is_wanted
    });
    let ahead: Vec<u64> = ahead.map(|(index, _)| geometry.cluster_sector(Resource::Blocks, index as u32)).collect();
    transaction.lock_all(&ahead).await?;
    while at < geometry.block_numbers() && missing > 0 && locked < STEP_CLUSTERS {
        let found = transaction.take_in(Resource::Blocks, at / per, at % per, missing).await?.unwrap_or_default();
        at = match found.last() {
            // The cluster may have more free blocks.
            Some((first, length)) if missing == found.iter().map(|run| run.1).sum::<u32>() => first + length,
            _ => (at / per + 1) * per,
        };
        missing -= found.iter().map(|run| run.1).sum::<u32>();
        found.into_iter().for_each(|run| push_run(&mut runs, run));
        locked += 1;
    }
    let (first, count) = (map.end(), most - missing);
    if count > 0 {
        map.grow_to(first + count - 1)?;
        map.fill(first..first + count, &runs, true);
    }
    if count > 0 || gives {
        node.descriptor.size = (u64::from(first + count) * geometry.block_bytes()).into();
        node.store(transaction, map).await?;
        node.put(transaction);
    }
    Ok((runs, at))
}

type Change<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl Shared {
    /// Returns the first sector of a block on the device.
    fn lba(&self, block: u32) -> u64 {
        self.mounted.io.partition + self.mounted.geometry().block_sector(block)
    }

    fn block_sectors(&self) -> u64 {
        self.mounted.geometry().block_sectors.into()
    }

    /// Returns the maximum number of blocks that one transaction changes.
    fn step(&self) -> u32 {
        STEP_PAGES[usize::from(self.mounted.geometry().journal_sectors >= 1024)] * POINTERS as u32
    }

    /// Returns the start of the last part of a range that one transaction can free; `None` if
    /// nothing is left.
    fn start_of_step(&self, range: Range<u32>) -> Option<u32> {
        let content = self.content.lock();
        let per = self.mounted.geometry().blocks_per_cluster;
        let least = range.end.saturating_sub(self.step()).max(range.start);
        let runs = content.map.within(range.clone());
        let (last_first, last) = runs.last().copied()?;
        if last_first + last.length <= least {
            // Skips a hole at the end.
            return Some((last_first + last.length).max(range.start)).filter(|start| *start < range.end);
        }
        let mut clusters = std::collections::BTreeSet::new();
        let mut start = range.end;
        for (first, run) in runs.iter().rev().filter(|(first, run)| first + run.length > least) {
            let from = (*first).max(least);
            let target = run.target + (from - first);
            let needed = target / per..=(run.target + run.length - 1) / per;
            // Frees at least one run, however many clusters it spans: the step is short enough.
            if start < range.end && clusters.len() + needed.clone().count() > STEP_CLUSTERS {
                return Some(start);
            }
            clusters.extend(needed);
            start = from;
        }
        Some(least)
    }

    /// Changes map and descriptor in one transaction.
    async fn change<T, F>(self: &Arc<Self>, body: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Transaction, &'a mut Node, &'a mut Map) -> Change<'a, T> + Send + Sync + 'static,
    {
        if self.access == FileAccess::Read {
            return Err(DatastoreError::ReadOnly);
        }
        let shared = Arc::clone(self);
        let work = move |mounted: Arc<Mounted>| async move {
            let _turn = shared.change_lock.lock().await;
            mounted.retry_while_busy(|| shared.change_once(&body)).await
        };
        self.mounted.run_detached(work).await
    }

    async fn change_once<T, F>(self: &Arc<Self>, body: &F) -> Result<T>
    where
        F: for<'a> Fn(&'a mut Transaction, &'a mut Node, &'a mut Map) -> Change<'a, T>,
    {
        if !self.content.lock().open {
            return Err(DatastoreError::Closed);
        }
        let mut transaction = Transaction::begin(&self.mounted).await?;
        if self.content.lock().stale {
            self.reload().await?;
        }
        // Changes a copy: readers need a complete map at all times.
        let mut map = self.content.lock().map.clone();
        let guard = transaction.lock(self.sector).await?;
        let mut node = Node::of(&transaction, guard, self.file)?;
        let done = body(&mut transaction, &mut node, &mut map).await;
        let done = transaction.finish(done).await;
        let mut content = self.content.lock();
        match &done {
            Ok(_) => {
                content.map = map;
                content.size = node.descriptor.size.get();
            }
            Err(DatastoreError::Busy) => {}
            Err(_) => content.stale = true,
        }
        done
    }

    /// Reads descriptor and map again.
    async fn reload(&self) -> Result<()> {
        let mounted = &self.mounted;
        let descriptor = read_descriptor(&mounted.io, &mounted.superblock, self.file.descriptor).await?;
        if descriptor.kind().is_none() || descriptor.file_id.get() != self.file.id {
            return Err(DatastoreError::NotFound);
        }
        let map = read_map(&mounted.io, &mounted.superblock, self.file.descriptor, &descriptor).await?;
        let mut content = self.content.lock();
        content.size = descriptor.size.get();
        content.map = map;
        content.stale = false;
        Ok(())
    }

    async fn close(self: &Arc<Self>) -> Result<()> {
        if !std::mem::replace(&mut self.content.lock().open, false) {
            return Ok(());
        }
        let _turn = self.change_lock.lock().await;
        self.mounted.wait_for_abandoned().await;
        self.mounted.retry_while_busy(|| self.release()).await
    }

    async fn release(&self) -> Result<()> {
        let mut transaction = Transaction::begin(&self.mounted).await?;
        let given = match self.access {
            FileAccess::Write if transaction.state.held.contains_key(&self.sector) => {
                transaction.lock(self.sector).await.map(|guard| transaction.keep(guard, false))
            }
            FileAccess::Write => Ok(()),
            FileAccess::Read => self.leave_readers(&mut transaction).await,
        };
        transaction.finish(given).await
    }

    async fn leave_readers(&self, transaction: &mut Transaction) -> Result<()> {
        let index = self.file.descriptor;
        match transaction.state.readers.get_mut(&index) {
            Some(count) if *count > 1 => {
                *count -= 1;
                return Ok(());
            }
            _ => {}
        }
        let guard = transaction.lock(self.sector).await?;
        let mut node = Node::of(transaction, guard, self.file)?;
        let me = reader_of(&self.mounted);
        node.descriptor.retain_readers(|reader| reader != me);
        node.put(transaction);
        transaction.state.readers.remove(&index);
        Ok(())
    }

    async fn read_bytes(&self, lba: u64, range: Range<u64>) -> Result<Vec<u8>> {
        let sector = lba - self.mounted.io.partition + range.start / SECTOR_BYTES as u64;
        let skip = (range.start % SECTOR_BYTES as u64) as usize;
        let length = (range.end - range.start) as usize;
        let bytes = self.mounted.io.read(sector, (skip + length).div_ceil(SECTOR_BYTES) as u64).await?;
        Ok(bytes[skip..skip + length].to_vec())
    }

    async fn write_bytes(&self, lba: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let sector = lba - self.mounted.io.partition + offset / SECTOR_BYTES as u64;
        let skip = (offset % SECTOR_BYTES as u64) as usize;
        let sectors = (skip + bytes.len()).div_ceil(SECTOR_BYTES);
        let whole = skip == 0 && bytes.len().is_multiple_of(SECTOR_BYTES);
        let mut buffer = if whole {
            BytesMut::zeroed(sectors * SECTOR_BYTES)
        } else {
            BytesMut::from(&self.mounted.io.read(sector, sectors as u64).await?[..])
        };
        buffer[skip..skip + bytes.len()].copy_from_slice(bytes);
        self.mounted.io.write(sector, buffer.freeze()).await
    }

    /// Zeroes sectors, by WRITE SAME if the device supports it.
    async fn zero(&self, lba: u64, sectors: u64) -> Result<()> {
        let disk = &self.mounted.io.disk;
        let step = disk.limits().write_same_blocks.clamp(1, FS_BLOCK_SECTORS);
        let mut at = lba;
        while at < lba + sectors {
            let length = step.min(lba + sectors - at);
            self.mounted.io.await_permission(self.mounted.io.runtime.now()).await?;
            match disk.write_same(at, length, Bytes::from_static(&[0; SECTOR_BYTES])).await {
                Ok(()) => {}
                Err(DeviceError::OutOfSpace) => return Err(DeviceError::OutOfSpace.into()),
                // Falls back to plain writes, with their retries.
                Err(_) => {
                    let zeros = Bytes::from(vec![0; length as usize * SECTOR_BYTES]);
                    self.mounted.io.write(at - self.mounted.io.partition, zeros).await?;
                }
            }
            at += length;
        }
        Ok(())
    }
}

fn reader_of(mounted: &Mounted) -> Reader {
    let owner = mounted.owner();
    Reader { slot: owner.slot, incarnation: owner.incarnation }
}

/// Acquires a file for a handle: its lock, or an entry in its list of readers.
async fn acquire(mounted: &Arc<Mounted>, file: FileId, sector: u64, access: FileAccess) -> Result<()> {
    let mut transaction = Transaction::begin(mounted).await?;
    let taken = take_in(&mut transaction, file, sector, access).await;
    transaction.finish(taken).await
}

async fn take_in(transaction: &mut Transaction, file: FileId, sector: u64, access: FileAccess) -> Result<()> {
    if access == FileAccess::Read
        && let Some(count) = transaction.state.readers.get_mut(&file.descriptor)
    {
        *count += 1;
        return Ok(());
    }
    let hold = if access == FileAccess::Write { Hold::File } else { Hold::Transaction };
    let guard = transaction.lock_file(sector, hold).await?;
    let mut node = Node::of(transaction, guard, file)?;
    match access {
        FileAccess::Write => {
            let before = node.descriptor.clone();
            drop_dead_readers(transaction, &mut node.descriptor).await?;
            if node.descriptor != before {
                node.put(transaction);
            }
            transaction.keep(guard, true);
        }
        FileAccess::Read => {
            let most = transaction.mounted.superblock.mode.readers();
            let me = reader_of(&transaction.mounted);
            let full = |descriptor: &Descriptor| descriptor.readers().count() >= most;
            if full(&node.descriptor) {
                retain_live_readers(transaction, &mut node.descriptor).await?;
            }
            if full(&node.descriptor) || !node.descriptor.add_reader(me) {
                return Err(DatastoreError::TooManyReaders);
            }
            node.put(transaction);
            transaction.state.readers.insert(file.descriptor, 1);
        }
    }
    Ok(())
}

/// Removes dead readers from the list.
///
/// # Errors
/// [`DatastoreError::Locked`] with a live reader, if there is one.
async fn drop_dead_readers(transaction: &Transaction, descriptor: &mut Descriptor) -> Result<()> {
    match retain_live_readers(transaction, descriptor).await? {
        Some(owner) => Err(transaction.mounted.locked_by(owner).await),
        None => Ok(()),
    }
}

/// Removes dead readers from the list. Returns the first live one.
async fn retain_live_readers(transaction: &Transaction, descriptor: &mut Descriptor) -> Result<Option<LockOwner>> {
    let mounted = &transaction.mounted;
    let (mut alive, mut first) = (Vec::new(), None);
    for reader in descriptor.readers().collect::<Vec<_>>() {
        if let Some(owner) = mounted.live_reader(reader).await? {
            alive.push(reader);
            first.get_or_insert(owner);
        }
    }
    descriptor.retain_readers(|reader| alive.contains(&reader));
    Ok(first)
}

//! Disks in the hosted sparse formats of VMware's desktop products: files with grains of 64 KiB and
//! tables of their positions. `2gbsparse` has a file for every 2047 MiB, `monosparse` a single one
//! with the descriptor in it.
//!
//! A grain is written before the table refers to it. An interrupted write leaves unused space at
//! the end of the file, which the next writer uses.

mod header;
mod image;
mod tables;

use crate::descriptor::{CreateType, Descriptor, DescriptorExtent, SECTOR_BYTES};
use crate::error::{Result, VirtualDiskError};
use crate::flat::{FileAnswer, FileRun, FlatFile};
use crate::map::State;
use crate::mover::{Mover, MoverSettings};
use datastore::{BlockFill, DatastoreError, ExtentState, File, FileAccess, FileExtent};
pub use header::SparseError;
use header::SparseHeader;
pub use image::SparseImage;
use multipath::SharedDisk;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tables::GrainTables;
use tokio::sync::Mutex;

/// Bytes that a file grows by: not every mebibyte changes the metadata of the datastore.
const GROWTH_BYTES: u64 = 16 << 20;

/// Returns whether a file starts like a hosted sparse file.
pub(crate) fn is_sparse(bytes: &[u8]) -> bool {
    SparseHeader::is_start_of(bytes)
}

/// Returns the descriptor in the first bytes of a hosted sparse file, whose name replaces that in
/// the descriptor: the file may have been renamed.
pub(crate) fn embedded(name: &str, bytes: &[u8]) -> Result<Descriptor> {
    let header = SparseHeader::parse(name, bytes)?;
    let byte = |sectors: u64| usize::try_from(sectors * SECTOR_BYTES).unwrap_or(usize::MAX);
    let (at, sectors) = header.descriptor;
    let text = bytes.get(byte(at)..byte(at + sectors)).unwrap_or_default();
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(text).map_err(|_| VirtualDiskError::NotText(name.to_owned()))?;
    let mut descriptor = Descriptor::parse(text)?;
    if descriptor.create_type != CreateType::MonolithicSparse {
        return Err(VirtualDiskError::Kind);
    }
    descriptor.extents = vec![DescriptorExtent { sectors: header.capacity, file: name.to_owned() }];
    Ok(descriptor)
}

/// Positions in a file, and the grains without an entry in its tables.
struct Layout {
    tables: GrainTables,
    /// First sectors of grains that are not written yet.
    reserved: BTreeMap<u64, u32>,
    /// First sector after all grains.
    end: u64,
    /// Sectors of the file that grains can use; 0 before the first change.
    ready: u64,
}

/// One file of a disk.
struct Extent {
    file: File,
    /// Its first grain in the disk, and their number.
    first: u64,
    grains: u64,
    /// Size of its part of the disk.
    sectors: u64,
    layout: Mutex<Layout>,
}

/// The files of a disk in a hosted sparse format.
pub(crate) struct SparseFiles {
    disk: Arc<dyn SharedDisk>,
    /// Sectors of a grain, equal in all files.
    grain: u64,
    extents: Vec<Extent>,
    mover: Mover,
}

impl SparseFiles {
    /// Creates the content of a disk without files.
    pub(crate) fn new(disk: Arc<dyn SharedDisk>, settings: MoverSettings) -> Self {
        Self { disk, grain: 0, extents: Vec::new(), mover: Mover::new(settings) }
    }

    /// Returns the number of files.
    pub(crate) fn count(&self) -> usize {
        self.extents.len()
    }

    /// Adds a new, empty file for the next `sectors` sectors of the disk. [`FlatFile::embed`]
    /// completes it.
    pub(crate) async fn add_new(&mut self, file: File, sectors: u64, with_descriptor: bool) -> Result<()> {
        let header = SparseHeader::new(sectors, with_descriptor)?;
        self.push(file, GrainTables::new(header.clone()))?;
        let Some(Extent { file, .. }) = self.extents.last() else { return Ok(()) };
        self.extend(file, 0..header.overhead).await?;
        for at in header.redundant.into_iter().chain([header.directory]) {
            file.write(at * SECTOR_BYTES, &header.new_directory(at)).await?;
        }
        Ok(())
    }

    /// Adds an open file with the next part of the disk. Closes it after an error.
    pub(crate) async fn add(&mut self, file: File, part: &DescriptorExtent, access: FileAccess) -> Result<()> {
        let loaded = async {
            let tables = GrainTables::load(&part.file, &file).await?;
            if tables.header.capacity != part.sectors {
                return Err(VirtualDiskError::from(SparseError::Field("capacity")));
            }
            if access == FileAccess::Write {
                repair(&file, &tables).await?;
            }
            Ok::<_, VirtualDiskError>(tables)
        };
        match loaded.await {
            Ok(tables) => self.push(file, tables),
            Err(error) => {
                // The error of reading is returned.
                let _ = file.close().await;
                Err(error)
            }
        }
    }

    /// Adds the next file.
    fn push(&mut self, file: File, tables: GrainTables) -> Result<()> {
        let SparseHeader { grain, capacity, .. } = tables.header;
        let first = self.extents.last().map_or(0, |last| last.first + last.grains);
        let follows = |last: &Extent| self.grain == grain && last.sectors.is_multiple_of(grain);
        if !self.extents.last().is_none_or(follows) {
            return Err(SparseError::Field("grainSize or capacity").into());
        }
        self.grain = grain;
        let (grains, end) = (tables.header.grains(), tables.end());
        let layout = Mutex::new(Layout { tables, reserved: BTreeMap::new(), end, ready: 0 });
        self.extents.push(Extent { file, first, grains, sectors: capacity, layout });
        Ok(())
    }

    /// Returns the files with a part of a range of grains, and the grains of each in the file.
    fn parts(&self, grains: Range<u64>) -> impl Iterator<Item = (&Extent, Range<u64>)> {
        self.extents.iter().filter_map(move |extent| {
            let inside = |grain: u64| grain.saturating_sub(extent.first).min(extent.grains);
            let part = inside(grains.start)..inside(grains.end);
            (!part.is_empty()).then_some((extent, part))
        })
    }

    /// Extends a file with zeros to the end of a range of sectors, if it is shorter. The range
    /// begins where the file has no data yet.
    async fn extend(&self, file: &File, sectors: Range<u64>) -> Result<()> {
        let block = file.block_bytes();
        let blocks = sectors.start * SECTOR_BYTES / block..(sectors.end * SECTOR_BYTES).div_ceil(block);
        if file.blocks() < blocks.end {
            file.set_size(blocks.end * block).await?;
        }
        file.allocate(blocks.clone(), BlockFill::ToBeZeroed).await?;
        let zeroed = |extent: &FileExtent| match extent.state {
            ExtentState::ToBeZeroed { lba } => Some((lba, extent.blocks * block / SECTOR_BYTES)),
            _ => None,
        };
        let runs: Vec<_> = file.extents(blocks.clone()).iter().filter_map(zeroed).collect();
        self.mover.zero(self.disk.as_ref(), &runs, &|_| ()).await?;
        Ok(file.mark_written(blocks).await?)
    }

    /// Reserves positions for grains of one file.
    async fn reserve(&self, extent: &Extent, grains: Range<u64>) -> Result<Vec<FileRun>> {
        let mut layout = extent.layout.lock().await;
        let fresh: Vec<u64> = grains.clone().filter(|grain| !layout.reserved.contains_key(grain)).collect();
        let (begin, end) = (layout.end, layout.end + fresh.len() as u64 * self.grain);
        if u32::try_from(end).is_err() {
            return Err(SparseError::TooLarge.into());
        }
        if end > layout.ready {
            layout.ready = match self.extend(&extent.file, begin..end + GROWTH_BYTES / SECTOR_BYTES).await {
                Ok(()) => end + GROWTH_BYTES / SECTOR_BYTES,
                Err(VirtualDiskError::Datastore(DatastoreError::NoSpace)) => {
                    self.extend(&extent.file, begin..end).await?;
                    end
                }
                Err(error) => return Err(error),
            };
        }
        for (grain, sector) in fresh.into_iter().zip((begin..end).step_by(self.grain as usize)) {
            // Checked above to be small enough.
            layout.reserved.insert(grain, u32::try_from(sector).unwrap_or(u32::MAX));
        }
        layout.end = end;
        let sectors = || layout.reserved.range(grains.clone()).map(|(_, sector)| u64::from(*sector));
        let within = sectors().min().unwrap_or(0)..sectors().max().map_or(0, |last| last + self.grain);
        let placed = Placement::of(&extent.file, within);
        let place = |grain: u64| placed.lba(u64::from(*layout.reserved.get(&grain)?));
        let run = |grain: u64| {
            Some(FileRun { first: extent.first + grain, blocks: 1, lba: place(grain)?, state: State::ToBeZeroed })
        };
        Ok(merged(grains.filter_map(run), self.grain))
    }
}

impl Extent {
    /// Returns the grains with data on the device.
    async fn runs(&self, grain: u64) -> Result<Vec<FileRun>> {
        let layout = self.layout.lock().await;
        let placed = Placement::of(&self.file, 0..u64::MAX);
        let mut runs = Vec::new();
        for index in 0..self.grains {
            let Some(sector) = layout.tables.grain(index) else { continue };
            if (sector + grain) * SECTOR_BYTES > self.file.blocks() * self.file.block_bytes() {
                return Err(SparseError::Entry(u32::try_from(sector).unwrap_or(u32::MAX)).into());
            }
            // A hole in the file reads as zeros, like a grain without data.
            if let Some(lba) = placed.lba(sector) {
                runs.push(FileRun { first: self.first + index, blocks: 1, lba, state: State::Written });
            }
        }
        Ok(merged(runs.into_iter(), grain))
    }

    /// Sets the entries of grains in the tables of the file: to their reserved positions, or to
    /// none.
    async fn store(&self, grains: Range<u64>, is_written: bool) -> Result<()> {
        let mut layout = self.layout.lock().await;
        let changed: Vec<(u64, u32)> = match is_written {
            true => layout.reserved.range(grains).map(|(grain, sector)| (*grain, *sector)).collect(),
            false => grains.map(|grain| (grain, 0)).collect(),
        };
        let (Some((first, _)), Some((last, _))) = (changed.first(), changed.last()) else { return Ok(()) };
        for (grain, sector) in &changed {
            layout.tables.set(*grain, *sector);
        }
        for (offset, bytes) in layout.tables.sectors(*first, *last)? {
            self.file.write(offset, &bytes).await?;
        }
        // A failed write is repeated with the same position.
        for (grain, _) in &changed {
            layout.reserved.remove(grain);
        }
        Ok(())
    }

    /// Frees the unused end of the file, and closes it.
    async fn close(&self) -> Result<()> {
        let layout = self.layout.lock().await;
        let bytes = (layout.end * SECTOR_BYTES).next_multiple_of(self.file.block_bytes());
        let trimmed =
            if layout.ready > 0 && bytes < self.file.size() { self.file.set_size(bytes).await } else { Ok(()) };
        Ok(trimmed.and(self.file.close().await)?)
    }
}

impl FlatFile for SparseFiles {
    fn disk(&self) -> &Arc<dyn SharedDisk> {
        &self.disk
    }

    fn block_bytes(&self) -> u64 {
        self.grain * SECTOR_BYTES
    }

    fn is_sparse(&self) -> bool {
        true
    }

    fn runs(&self) -> FileAnswer<'_, Vec<FileRun>> {
        Box::pin(async move {
            let mut runs = Vec::new();
            for extent in &self.extents {
                runs.extend(extent.runs(self.grain).await?);
            }
            Ok(runs)
        })
    }

    fn allocate(&self, blocks: Range<u64>) -> FileAnswer<'_, Vec<FileRun>> {
        Box::pin(async move {
            let mut runs = Vec::new();
            for (extent, grains) in self.parts(blocks) {
                runs.extend(self.reserve(extent, grains).await?);
            }
            Ok(runs)
        })
    }

    fn set_written(&self, blocks: Range<u64>) -> FileAnswer<'_, ()> {
        Box::pin(async move {
            for (extent, grains) in self.parts(blocks) {
                extent.store(grains, true).await?;
            }
            Ok(())
        })
    }

    fn grow(&self, _: u64) -> FileAnswer<'_, ()> {
        Box::pin(async { Err(VirtualDiskError::Hosted) })
    }

    fn punch(&self, blocks: Range<u64>) -> FileAnswer<'_, ()> {
        Box::pin(async move {
            for (extent, grains) in self.parts(blocks) {
                extent.store(grains, false).await?;
            }
            Ok(())
        })
    }

    fn embed(&self, descriptor: &Descriptor) -> FileAnswer<'_, bool> {
        let text = descriptor.to_string();
        Box::pin(async move {
            let mut embedded = false;
            for extent in &self.extents {
                let header = extent.layout.lock().await.tables.header.clone();
                let (at, sectors) = header.descriptor;
                if sectors > 0 {
                    extent.file.write(at * SECTOR_BYTES, text.as_bytes()).await?;
                    embedded = true;
                }
                // The header is last: without it, the file is no disk.
                extent.file.write(0, &header.encode()).await?;
            }
            Ok(embedded)
        })
    }

    fn close(&self) -> FileAnswer<'_, ()> {
        Box::pin(async move {
            let mut closed = Ok(());
            for extent in &self.extents {
                closed = closed.and(extent.close().await);
            }
            closed
        })
    }
}

/// The extents of a file on its datastore.
struct Placement {
    extents: Vec<FileExtent>,
    block_sectors: u64,
}

impl Placement {
    /// Returns the extents with a range of sectors of the file.
    fn of(file: &File, sectors: Range<u64>) -> Self {
        let block_sectors = file.block_bytes() / SECTOR_BYTES;
        let blocks = sectors.start / block_sectors..sectors.end.div_ceil(block_sectors).min(file.blocks());
        Self { extents: file.extents(blocks), block_sectors }
    }

    /// Returns the position of a sector of the file on the device; `None` if it is not written.
    fn lba(&self, sector: u64) -> Option<u64> {
        let block = sector / self.block_sectors;
        let extent = self.extents.get(self.extents.partition_point(|extent| extent.block + extent.blocks <= block))?;
        match extent.state {
            ExtentState::Written { lba } => Some(lba + sector - extent.block * self.block_sectors),
            ExtentState::Hole | ExtentState::ToBeZeroed { .. } => None,
        }
    }
}

/// Merges runs of adjacent grains.
fn merged(runs: impl Iterator<Item = FileRun>, grain: u64) -> Vec<FileRun> {
    let mut merged: Vec<FileRun> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if last.first + last.blocks == run.first && last.lba + last.blocks * grain == run.lba => {
                last.blocks += run.blocks;
            }
            _ => merged.push(run),
        }
    }
    merged
}

/// Makes the redundant tables equal to the others: an interrupted write leaves them different.
async fn repair(file: &File, tables: &GrainTables) -> Result<()> {
    let Some(last) = tables.header.grains().checked_sub(1).filter(|_| tables.header.redundant.is_some()) else {
        return Ok(());
    };
    for first in (0..=last).step_by(header::TABLE_ENTRIES as usize) {
        // A missing table is reported when it is needed.
        let Ok(writes) = tables.sectors(first, last.min(first + header::TABLE_ENTRIES - 1)) else { continue };
        for (offset, bytes) in writes {
            if file.read(offset, bytes.len() as u64).await? != bytes {
                file.write(offset, &bytes).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The grain tables of a hosted sparse file in memory.

use super::header::{ENTRY_BYTES, SparseError, SparseHeader, TABLE_ENTRIES, entries};
use crate::descriptor::SECTOR_BYTES;
use crate::error::{Result, VirtualDiskError};
use crate::flat::FileAnswer;
use datastore::File;
use platform::LocalFile;

/// Entries up to this one refer to no grain: 0 is unallocated, and 1 is a grain of zeros.
const NO_GRAIN: u32 = 1;

/// A file on a datastore or of this system.
pub(crate) trait ReadBytes: Sync {
    /// Reads bytes up to the end of the file.
    fn bytes_at(&self, offset: u64, bytes: u64) -> FileAnswer<'_, Vec<u8>>;
}

impl ReadBytes for File {
    fn bytes_at(&self, offset: u64, bytes: u64) -> FileAnswer<'_, Vec<u8>> {
        Box::pin(async move { Ok(self.read(offset, bytes).await?) })
    }
}

impl ReadBytes for LocalFile {
    fn bytes_at(&self, offset: u64, bytes: u64) -> FileAnswer<'_, Vec<u8>> {
        let read = self.size().and_then(|size| {
            let inside = size.saturating_sub(offset).min(bytes);
            self.read_at(offset, usize::try_from(inside).unwrap_or(usize::MAX))
        });
        Box::pin(async move { read.map_err(VirtualDiskError::Local) })
    }
}

/// The header and the grain tables of a file.
pub(crate) struct GrainTables {
    pub(crate) header: SparseHeader,
    /// Sectors of the tables, and of those of the redundant directory; 0 for a missing one.
    tables: Vec<u32>,
    redundant: Vec<u32>,
    /// First sector of each grain, in whole tables.
    entries: Vec<u32>,
}

impl GrainTables {
    /// Creates the tables of a new file.
    pub(crate) fn new(header: SparseHeader) -> Self {
        let tables = entries(&header.new_directory(header.directory));
        let redundant = header.redundant.map(|at| entries(&header.new_directory(at))).unwrap_or_default();
        let empty = vec![0; usize::try_from(header.tables() * TABLE_ENTRIES).unwrap_or(0)];
        Self { header, tables, redundant, entries: empty }
    }

    /// Reads the tables of a file; its name is for errors.
    pub(crate) async fn load(name: &str, file: &dyn ReadBytes) -> Result<Self> {
        let header = SparseHeader::parse(name, &file.bytes_at(0, SECTOR_BYTES).await?)?;
        let tables = directory(file, &header, header.directory, "gdOffset").await?;
        let redundant = match header.redundant {
            Some(at) => directory(file, &header, at, "rgdOffset").await?,
            None => Vec::new(),
        };
        let mut all = Vec::new();
        for sector in &tables {
            let mut table = match sector {
                0 => Vec::new(),
                at => entries(&file.bytes_at(u64::from(*at) * SECTOR_BYTES, TABLE_ENTRIES * ENTRY_BYTES).await?),
            };
            table.resize(TABLE_ENTRIES as usize, 0);
            all.extend(table);
        }
        let loaded = Self { header, tables, redundant, entries: all };
        loaded.check()?;
        Ok(loaded)
    }

    /// Checks that each grain is aligned, after the metadata, and in use once.
    fn check(&self) -> std::result::Result<(), SparseError> {
        let mut used: Vec<u32> = self.entries.iter().copied().filter(|entry| *entry > NO_GRAIN).collect();
        used.sort_unstable();
        let (grain, first) = (self.header.grain, self.header.overhead);
        let wrong = |entry: &&u32| !u64::from(**entry).is_multiple_of(grain) || u64::from(**entry) < first;
        if let Some(entry) = used.iter().find(wrong) {
            return Err(SparseError::Entry(*entry));
        }
        match used.windows(2).find(|pair| pair.first() == pair.last()) {
            Some(pair) => Err(SparseError::Shared(pair.first().copied().unwrap_or(0))),
            None => Ok(()),
        }
    }

    /// Returns the first sector of a grain in the file; `None` if it reads as zeros.
    pub(crate) fn grain(&self, grain: u64) -> Option<u64> {
        let entry = self.entries.get(usize::try_from(grain).ok()?)?;
        (*entry > NO_GRAIN).then(|| u64::from(*entry))
    }

    /// Sets the first sector of a grain; 0 for none.
    pub(crate) fn set(&mut self, grain: u64, sector: u32) {
        if let Some(entry) = usize::try_from(grain).ok().and_then(|grain| self.entries.get_mut(grain)) {
            *entry = sector;
        }
    }

    /// Returns the first sector after all grains.
    pub(crate) fn end(&self) -> u64 {
        let last = self.entries.iter().copied().max().filter(|last| *last > NO_GRAIN);
        last.map_or(self.header.overhead.next_multiple_of(self.header.grain), |last| {
            u64::from(last) + self.header.grain
        })
    }

    /// Returns the sectors of the tables that contain the entries of these grains, as (offset in
    /// bytes, content): first those of the redundant directory, so that the other one never refers
    /// to a grain that a reader does not find.
    ///
    /// # Errors
    /// [`SparseError::NoTable`] if a table is missing.
    pub(crate) fn sectors(&self, first: u64, last: u64) -> std::result::Result<Vec<(u64, Vec<u8>)>, SparseError> {
        const PER_SECTOR: u64 = SECTOR_BYTES / ENTRY_BYTES;
        let mut writes = Vec::new();
        for tables in [&self.redundant, &self.tables] {
            if tables.is_empty() {
                continue;
            }
            for table in first / TABLE_ENTRIES..=last / TABLE_ENTRIES {
                let at = tables.get(usize::try_from(table).unwrap_or(usize::MAX)).copied().filter(|at| *at > 0);
                let begin = table * TABLE_ENTRIES;
                let from = first.max(begin) / PER_SECTOR * PER_SECTOR;
                let to = (last + 1).min(begin + TABLE_ENTRIES).next_multiple_of(PER_SECTOR);
                let range = usize::try_from(from).unwrap_or(usize::MAX)..usize::try_from(to).unwrap_or(usize::MAX);
                let bytes = self.entries.get(range).unwrap_or_default().iter().flat_map(|entry| entry.to_le_bytes());
                let offset = u64::from(at.ok_or(SparseError::NoTable)?) * SECTOR_BYTES + (from - begin) * ENTRY_BYTES;
                writes.push((offset, bytes.collect()));
            }
        }
        Ok(writes)
    }
}

/// Reads a grain directory.
async fn directory(file: &dyn ReadBytes, header: &SparseHeader, at: u64, field: &'static str) -> Result<Vec<u32>> {
    let bytes = header.tables() * ENTRY_BYTES;
    let read = entries(&file.bytes_at(at * SECTOR_BYTES, bytes).await?);
    if read.len() as u64 == header.tables() { Ok(read) } else { Err(SparseError::Field(field).into()) }
}

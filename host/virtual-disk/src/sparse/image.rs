//! Hosted sparse files of this system, as a source of imports.

use super::header::SparseHeader;
use super::tables::GrainTables;
use crate::descriptor::SECTOR_BYTES;
use crate::error::{Result, VirtualDiskError};
use platform::LocalFile;

/// A disk in a single hosted sparse file (`monolithicSparse`), for example of `qemu-img`.
pub struct SparseImage<'a> {
    file: &'a LocalFile,
    tables: GrainTables,
}

impl<'a> SparseImage<'a> {
    /// Opens a file; `None` if it does not start like a hosted sparse file. Its name is for errors.
    pub async fn open(name: &str, file: &'a LocalFile) -> Result<Option<Self>> {
        let start = file.size().map_err(VirtualDiskError::Local)?.min(SECTOR_BYTES);
        let start = file.read_at(0, usize::try_from(start).unwrap_or(0)).map_err(VirtualDiskError::Local)?;
        if !SparseHeader::is_start_of(&start) {
            return Ok(None);
        }
        Ok(Some(Self { file, tables: GrainTables::load(name, file).await? }))
    }

    /// Returns the size of the disk in bytes.
    pub fn bytes(&self) -> u64 {
        self.tables.header.capacity * SECTOR_BYTES
    }

    /// Reads bytes of the disk.
    pub fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let (grain_bytes, end) = (self.tables.header.grain * SECTOR_BYTES, offset + bytes);
        let (mut data, mut at) = (Vec::new(), offset);
        while at < end {
            let (index, skipped) = (at / grain_bytes, at % grain_bytes);
            let count = usize::try_from((grain_bytes - skipped).min(end - at)).unwrap_or(0);
            match self.tables.grain(index) {
                Some(sector) => {
                    let read = self.file.read_at(sector * SECTOR_BYTES + skipped, count);
                    data.extend(read.map_err(VirtualDiskError::Local)?);
                }
                None => data.resize(data.len() + count, 0),
            }
            at += count as u64;
        }
        Ok(data)
    }
}

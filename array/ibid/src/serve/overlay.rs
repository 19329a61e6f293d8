//! A disk whose writes go to a file, so that a damaged array can be opened without changing it.

use platform::{Disk, DiskError, Durability, FileDisk};
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

/// Unit of writes in bytes.
const UNIT: u64 = 4096;
/// Most units that the file holds: 8 GiB, four times the largest log.
const MAX_UNITS: usize = 2 << 20;

/// A disk, and the changes since it was opened.
pub(super) struct OverlayDisk {
    base: Arc<FileDisk>,
    changes: FileDisk,
    /// Units that the changes hold.
    changed: RwLock<BTreeSet<u64>>,
}

impl OverlayDisk {
    /// Keeps changes of `base` in `changes`, a new file of the same size.
    pub(super) fn new(base: Arc<FileDisk>, changes: FileDisk) -> Self {
        Self { base, changes, changed: RwLock::default() }
    }

    fn read(&self, changed: &BTreeSet<u64>, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let mut at = 0;
        while at < buffer.len() {
            let unit = (offset + at as u64) / UNIT;
            let is_changed = changed.contains(&unit);
            // The range up to the next unit whose bytes are on the other disk.
            let last = (offset + buffer.len() as u64 - 1) / UNIT;
            let end = match is_changed {
                true => (unit..=last).find(|unit| !changed.contains(unit)),
                false => changed.range(unit..=last).next().copied(),
            };
            let end = end.map_or(buffer.len(), |unit| (unit * UNIT - offset) as usize);
            let disk: &dyn Disk = if is_changed { &self.changes } else { &*self.base };
            disk.read_at(offset + at as u64, &mut buffer[at..end])?;
            at = end;
        }
        Ok(())
    }
}

impl Disk for OverlayDisk {
    fn size(&self) -> u64 {
        self.base.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.read(&self.changed.read().unwrap_or_else(PoisonError::into_inner), offset, buffer)
    }

    fn try_read_at(&self, _: u64, _: &mut [u8]) -> Result<bool, DiskError> {
        // The lock may be held during a write.
        Ok(false)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], _: Durability) -> Result<(), DiskError> {
        let bytes = parts.concat();
        if bytes.is_empty() {
            return Ok(());
        }
        let (first, end) = (offset / UNIT, (offset + bytes.len() as u64).div_ceil(UNIT));
        let mut changed = self.changed.write().unwrap_or_else(PoisonError::into_inner);
        if changed.len() + (end - first) as usize > MAX_UNITS {
            return Err(DiskError::Full);
        }
        let mut units = vec![0; ((end - first) * UNIT) as usize];
        let start = (offset - first * UNIT) as usize;
        // The first and the last unit keep their other bytes. The size of the disk need not be a
        // multiple of the unit.
        let size = (self.size() - first * UNIT).min(units.len() as u64) as usize;
        if start > 0 || start + bytes.len() < size {
            self.read(&changed, first * UNIT, &mut units[..size])?;
        }
        let target = units.get_mut(start..start + bytes.len()).ok_or_else(|| DiskError::Io("write beyond".into()))?;
        target.copy_from_slice(&bytes);
        self.changes.write_at(first * UNIT, &[&units[..size]], Durability::Volatile)?;
        changed.extend(first..end);
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        // Nothing of it is needed after this process.
        Ok(())
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), DiskError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    #[test]
    fn overlay_returns_changes_and_keeps_the_base() {
        let directory = TemporaryDirectory::new(None, "ibid-overlay").unwrap();
        let size = 16 * UNIT;
        let base = Arc::new(FileDisk::create(&directory.path().join("base"), size).unwrap());
        let mut expected: Vec<u8> = (0..size).map(|at| (at / 7) as u8).collect();
        base.write_at(0, &[&expected], Durability::Volatile).unwrap();
        let changes = FileDisk::create(&directory.path().join("changes"), size).unwrap();
        let overlay = OverlayDisk::new(base.clone(), changes);
        let before = expected.clone();
        for (offset, length) in [(512, 512), (3 * 4096, 8192), (9 * 4096 - 512, 1024), (15 * 4096, 4096), (0, 512)] {
            let data = vec![offset as u8 | 1; length];
            overlay.write_at(offset as u64, &[&data[..100], &data[100..]], Durability::Durable).unwrap();
            expected[offset..offset + length].copy_from_slice(&data);
            for (from, to) in [(0, size as usize), (500, 5000), (4096 * 8, 4096 * 10)] {
                let mut read = vec![0; to - from];
                overlay.read_at(from as u64, &mut read).unwrap();
                assert!(read == expected[from..to], "{offset} {from}");
            }
        }
        let mut read = vec![0; size as usize];
        base.read_at(0, &mut read).unwrap();
        assert!(read == before);
    }
}

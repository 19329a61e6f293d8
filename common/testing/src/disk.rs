//! The disk in memory.

use parking_lot::{Mutex, MutexGuard};
use platform::{Disk, DiskError, Durability};
use std::sync::atomic::{AtomicBool, Ordering};

/// A disk in memory. Every write is durable at once. Access beyond the end returns an error.
#[derive(Debug)]
pub struct MemoryDisk {
    bytes: Mutex<Vec<u8>>,
    full: AtomicBool,
}

impl MemoryDisk {
    /// Creates a disk of `size` bytes, all 0.
    pub fn new(size: u64) -> Self {
        Self::filled(size, 0)
    }

    /// Creates a disk of `size` bytes, each set to `byte`. Any other value than 0 also makes the
    /// system provide all memory now, so that a benchmark does not measure page faults.
    pub fn filled(size: u64, byte: u8) -> Self {
        Self::from_image(vec![byte; usize::try_from(size).unwrap_or(usize::MAX)])
    }

    /// Creates a disk that holds `image`.
    pub fn from_image(image: Vec<u8>) -> Self {
        Self { bytes: Mutex::new(image), full: AtomicBool::new(false) }
    }

    /// Returns a copy of all bytes.
    pub fn image(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    /// Locks the bytes so that a test can change them directly. Other access blocks until then.
    pub fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock()
    }

    /// Sets whether [`Disk::allocate`] fails with [`DiskError::Full`].
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }
}

fn beyond_the_end() -> DiskError {
    DiskError::Io("access beyond the end of the disk".into())
}

/// The index after `length` bytes from `offset`, if it is at most `size`.
fn end(offset: u64, length: usize, size: usize) -> Result<(usize, usize), DiskError> {
    let from = usize::try_from(offset).map_err(|_| beyond_the_end())?;
    let to = from.checked_add(length).filter(|to| *to <= size).ok_or_else(beyond_the_end)?;
    Ok((from, to))
}

impl Disk for MemoryDisk {
    fn size(&self) -> u64 {
        self.bytes.lock().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let bytes = self.bytes.lock();
        let (from, to) = end(offset, buffer.len(), bytes.len())?;
        buffer.copy_from_slice(&bytes[from..to]);
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], _: Durability) -> Result<(), DiskError> {
        let mut bytes = self.bytes.lock();
        let (mut at, _) = end(offset, parts.iter().map(|part| part.len()).sum(), bytes.len())?;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), DiskError> {
        if self.full.load(Ordering::Relaxed) { Err(DiskError::Full) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_parts_are_read_back() {
        let disk = MemoryDisk::new(8);
        disk.write_at(2, &[b"ab", b"", b"cde"], Durability::Durable).unwrap();
        let mut buffer = [1; 8];
        disk.read_at(0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"\0\0abcde\0");
        assert_eq!(disk.image(), buffer);
    }

    #[test]
    fn access_beyond_the_end_is_an_error() {
        let disk = MemoryDisk::new(8);
        assert!(disk.read_at(7, &mut [0; 2]).is_err());
        assert!(disk.read_at(u64::MAX, &mut [0; 2]).is_err());
        assert!(disk.write_at(4, &[b"abc", b"de"], Durability::Volatile).is_err());
        assert_eq!(disk.image(), [0; 8], "a refused write changes nothing");
    }

    #[test]
    fn full_disk_refuses_allocation() {
        let disk = MemoryDisk::new(8);
        disk.set_full(true);
        assert_eq!(disk.allocate(0, 4), Err(DiskError::Full));
        disk.set_full(false);
        assert_eq!(disk.allocate(0, 4), Ok(()));
    }
}

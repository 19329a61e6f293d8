//! A drive that encrypts everything after the superblock area.

use crate::cipher::{UNIT_BYTES, XtsCipher};
use crate::key::ArrayKey;
use ondisk::SUPERBLOCK_AREA_BYTES;
use platform::{DirectRead, Disk, DiskError, Durability};
use std::sync::{Arc, OnceLock};

/// Data unit of the cipher in bytes. A drive writes a sector as a whole, so a write that power
/// failure cuts leaves each unit as it was or as it will be.
const UNIT: u64 = UNIT_BYTES as u64;
/// Bytes that one key encrypts: 1 TiB, as IEEE 1619 recommends (2^36 blocks of the cipher).
const REGION: u64 = 1 << 40;
/// Most regions: 256 TiB, twice the largest array.
const MOST_REGIONS: u64 = 256;

/// A drive that encrypts all writes after the superblock area, and decrypts reads of them.
///
/// A unit of zeros on the drive below reads as zeros. Space that was never written and space that
/// was discarded therefore look as on a drive without encryption. A unit that encrypts to zeros is
/// as probable as guessing a key of 4096 bits.
pub struct EncryptedDisk {
    disk: Arc<dyn Disk>,
    ciphers: Arc<Ciphers>,
}

/// The ciphers of the regions, each made when it is used first.
struct Ciphers {
    key: ArrayKey,
    regions: Box<[OnceLock<XtsCipher>]>,
}

impl EncryptedDisk {
    /// Encrypts the drive with this key.
    pub fn new(disk: Arc<dyn Disk>, key: ArrayKey) -> Self {
        let regions = (0..MOST_REGIONS).map(|_| OnceLock::new()).collect();
        Self { disk, ciphers: Arc::new(Ciphers { key, regions }) }
    }

    /// Reads with `read`, which returns false if it would wait, and decrypts.
    fn read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        read: impl Fn(u64, &mut [u8]) -> Result<bool, DiskError>,
    ) -> Result<bool, DiskError> {
        let clear = clear_bytes(offset, buffer.len());
        let (first, buffer) = buffer.split_at_mut(clear);
        if !first.is_empty() && !read(offset, first)? {
            return Ok(false);
        }
        if buffer.is_empty() {
            return Ok(true);
        }
        let from = offset + clear as u64;
        let to = from + buffer.len() as u64;
        let (start, end) = (from / UNIT * UNIT, to.div_ceil(UNIT) * UNIT);
        if (start, end) == (from, to) {
            let is_read = read(from, buffer)?;
            if is_read {
                self.ciphers.decrypt(from, buffer)?;
            }
            return Ok(is_read);
        }
        let mut units = vec![0; (end - start) as usize];
        let is_read = read(start, &mut units)?;
        if is_read {
            self.ciphers.decrypt(start, &mut units)?;
            let skipped = (from - start) as usize;
            buffer.copy_from_slice(&units[skipped..skipped + buffer.len()]);
        }
        Ok(is_read)
    }
}

impl Ciphers {
    /// Calls `run` with each unit of `bytes`, its cipher, and its number in the region. `offset` is
    /// the place of `bytes` on the drive. Both consist of whole units.
    fn for_units(
        &self,
        offset: u64,
        bytes: &mut [u8],
        run: impl Fn(&XtsCipher, u64, &mut [u8; UNIT_BYTES]),
    ) -> Result<(), DiskError> {
        let mut at = offset;
        for unit in bytes.as_chunks_mut().0 {
            let region = at / REGION;
            let cipher = usize::try_from(region).ok().and_then(|region| self.regions.get(region));
            let Some(cipher) = cipher else {
                return Err(DiskError::Io(format!("encryption ends at {} TiB", MOST_REGIONS)));
            };
            let cipher = cipher.get_or_init(|| self.key.cipher(region));
            run(cipher, at % REGION / UNIT, unit);
            at += UNIT;
        }
        Ok(())
    }

    fn decrypt(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        self.for_units(offset, bytes, |cipher, number, unit| {
            if *unit != [0; UNIT_BYTES] {
                cipher.decrypt(number, unit);
            }
        })
    }

    fn encrypt(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        self.for_units(offset, bytes, XtsCipher::encrypt)
    }
}

/// Returns how many of `bytes` at `offset` are in the superblock area.
fn clear_bytes(offset: u64, bytes: usize) -> usize {
    usize::try_from(SUPERBLOCK_AREA_BYTES.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes)
}

impl Disk for EncryptedDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.read(offset, buffer, |offset, buffer| self.disk.read_at(offset, buffer).map(|()| true)).map(drop)
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, DiskError> {
        self.read(offset, buffer, |offset, buffer| self.disk.try_read_at(offset, buffer))
    }

    fn start_read(&self, read: DirectRead) -> bool {
        let DirectRead { offset, bytes, done } = read;
        let is_whole = offset.is_multiple_of(UNIT) && (bytes as u64).is_multiple_of(UNIT);
        if !is_whole || clear_bytes(offset, bytes) > 0 {
            return false;
        }
        let ciphers = self.ciphers.clone();
        let decrypted = move |mut read: Vec<u8>| ciphers.decrypt(offset, &mut read).is_ok().then_some(read);
        let done = move |read: Option<Vec<u8>>| done(read.and_then(decrypted));
        self.disk.start_read(DirectRead { offset, bytes, done: Box::new(done) })
    }

    fn parallel_reads(&self) -> usize {
        self.disk.parallel_reads()
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        self.disk.will_read(offset, bytes);
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        let mut bytes = parts.concat();
        let clear = clear_bytes(offset, bytes.len());
        let from = offset + clear as u64;
        let secret = &mut bytes[clear..];
        let is_whole = from.is_multiple_of(UNIT) && (secret.len() as u64).is_multiple_of(UNIT);
        if !(secret.is_empty() || is_whole) {
            return Err(DiskError::Io(format!("a write of {} bytes at {from} is not of whole sectors", secret.len())));
        }
        self.ciphers.encrypt(from, secret)?;
        self.disk.write_at(offset, &[&bytes], durability)
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.disk.flush()
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.disk.allocate(offset, bytes)
    }

    fn discard(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.disk.discard(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::{MemoryDisk, SplitMix64};

    const BYTES: u64 = 1 << 20;
    const AREA: usize = SUPERBLOCK_AREA_BYTES as usize;

    fn disks() -> (Arc<MemoryDisk>, EncryptedDisk) {
        let below = Arc::new(MemoryDisk::new(BYTES));
        (below.clone(), EncryptedDisk::new(below, ArrayKey::random().unwrap()))
    }

    #[test]
    fn reads_return_what_was_written() {
        let (below, disk) = disks();
        let plain = MemoryDisk::new(BYTES);
        let mut random = SplitMix64::new(16);
        for _ in 0..300 {
            let units = 1 + random.below(64);
            let offset = random.below(BYTES / UNIT - units) * UNIT;
            let bytes: Vec<u8> = (0..units * UNIT).map(|_| random.next_u64() as u8).collect();
            // The parts of a write end anywhere.
            let (first, second) = bytes.split_at(random.below(units * UNIT) as usize);
            for disk in [&disk as &dyn Disk, &plain] {
                disk.write_at(offset, &[first, second], Durability::Volatile).unwrap();
            }
            let length = 1 + random.below(9000);
            let offset = random.below(BYTES - length);
            let (mut found, mut expected) = (vec![1; length as usize], vec![2; length as usize]);
            disk.read_at(offset, &mut found).unwrap();
            plain.read_at(offset, &mut expected).unwrap();
            assert_eq!(found, expected, "{length} bytes at {offset}");
            assert!(disk.try_read_at(offset, &mut found).unwrap());
            assert_eq!(found, expected);
        }
        let (below, plain) = (below.image(), plain.image());
        assert_eq!(below[..AREA], plain[..AREA], "the superblock area stays readable");
        let is_hidden = |(at, unit): (usize, &[u8])| unit != &plain[AREA + at * 512..][..512] || *unit == [0; 512];
        assert!(below[AREA..].chunks(512).enumerate().all(is_hidden));
    }

    #[test]
    fn equal_sectors_differ_on_the_drive() {
        let (below, disk) = disks();
        disk.write_at(AREA as u64, &[&[7; 8192]], Durability::Durable).unwrap();
        let mut units: Vec<Vec<u8>> = below.image()[AREA..AREA + 8192].chunks(512).map(<[u8]>::to_vec).collect();
        units.sort();
        units.dedup();
        assert_eq!(units.len(), 16);
    }

    #[test]
    fn space_never_written_reads_as_zeros() {
        let (below, disk) = disks();
        disk.write_at(AREA as u64, &[&[0; 512]], Durability::Durable).unwrap();
        assert_ne!(below.image()[AREA..AREA + 512], [0; 512], "zeros that are written are encrypted");
        let mut found = vec![1; 4096];
        disk.read_at(AREA as u64, &mut found).unwrap();
        assert_eq!(found, [0; 4096]);
    }

    #[test]
    fn write_of_a_part_of_a_sector_is_refused() {
        let (_, disk) = disks();
        for (offset, length) in [(AREA + 1, 512), (AREA, 511), (AREA - 512, 513)] {
            let refused = disk.write_at(offset as u64, &[&vec![1; length]], Durability::Volatile);
            assert!(matches!(refused, Err(DiskError::Io(_))), "{length} bytes at {offset}");
        }
    }

    #[test]
    fn regions_beyond_the_last_key_are_refused() {
        let (_, disk) = disks();
        let mut unit = [1; 512];
        assert!(disk.ciphers.decrypt(MOST_REGIONS * REGION, &mut unit).is_err());
        assert!(disk.ciphers.decrypt(MOST_REGIONS * REGION - UNIT, &mut unit).is_ok());
    }
}

//! A large disk of incompressible blocks in little memory.

use parking_lot::Mutex;
use platform::{Disk, DiskError, Durability};
use std::collections::HashMap;
use testing::{MemoryDisk, SplitMix64};

const SECTOR_LEN: usize = 512;
const BLOCK_LEN: usize = 4096;
const SECTORS_PER_BLOCK: u64 = 8;

type Sector = [u8; SECTOR_LEN];

/// Returns the 4 KiB block of a seed: the seed, then its noise. The seed has at most 60 bits.
pub fn noise_block(seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let words = (1..BLOCK_LEN / 8).map(|_| random.next_u64());
    std::iter::once(seed).chain(words).flat_map(u64::to_le_bytes).collect()
}

/// A disk that keeps the seed of each [`noise_block`] in place of its bytes. Its first part, which
/// holds the log, and all other sectors are stored as they are.
pub struct NoiseDisk {
    /// Bytes before `start`.
    head: MemoryDisk,
    start: u64,
    size: u64,
    body: Mutex<Body>,
}

struct Body {
    /// For each sector from `start` on: seed of its block, times 8, plus its position in it; 0 for
    /// a sector of other bytes.
    seeds: Vec<u64>,
    /// Other sectors; all others are zeros.
    others: HashMap<u64, Box<Sector>>,
}

impl NoiseDisk {
    /// Creates a disk of `size` bytes, all 0. Bytes before `start` are stored as they are.
    pub fn new(size: u64, start: u64) -> Self {
        let sectors = (size - start).div_ceil(SECTOR_LEN as u64) as usize;
        let body = Body { seeds: vec![0; sectors], others: HashMap::new() };
        Self { head: MemoryDisk::new(start), start, size, body: Mutex::new(body) }
    }

    /// Returns the first sector after `start` of a range, if the range is inside the disk.
    fn first_sector(&self, offset: u64, bytes: usize) -> Result<u64, DiskError> {
        let is_inside = offset + bytes as u64 <= self.size;
        let is_aligned = (offset - self.start).is_multiple_of(SECTOR_LEN as u64);
        if is_inside && is_aligned {
            return Ok((offset - self.start) / SECTOR_LEN as u64);
        }
        Err(DiskError::Io("access beyond the end of the disk, or inside a sector".into()))
    }
}

impl Body {
    fn read(&self, first: u64, buffer: &mut [u8]) {
        let mut block: Option<(u64, Vec<u8>)> = None;
        for (sector, target) in (first..).zip(buffer.chunks_mut(SECTOR_LEN)) {
            let key = self.seeds[sector as usize];
            let source: &[u8] = if key != 0 {
                let seed = key / SECTORS_PER_BLOCK;
                let (_, bytes) = match block.take() {
                    Some(known) if known.0 == seed => block.insert(known),
                    _ => block.insert((seed, noise_block(seed))),
                };
                &bytes[(key % SECTORS_PER_BLOCK) as usize * SECTOR_LEN..]
            } else {
                self.others.get(&sector).map_or(&[0; SECTOR_LEN][..], |bytes| &bytes[..])
            };
            target.copy_from_slice(&source[..target.len()]);
        }
    }

    /// Stores a 4 KiB block that is noise by its seed. False for other bytes.
    fn write_noise(&mut self, first: u64, bytes: &[u8]) -> bool {
        let Some(seed) = bytes.first_chunk().map(|seed| u64::from_le_bytes(*seed)) else { return false };
        if seed == 0 || seed >= 1 << 60 || noise_block(seed) != bytes {
            return false;
        }
        for part in 0..SECTORS_PER_BLOCK {
            self.seeds[(first + part) as usize] = seed * SECTORS_PER_BLOCK + part;
            self.others.remove(&(first + part));
        }
        true
    }

    fn write_sector(&mut self, sector: u64, bytes: &[u8]) {
        let mut whole = [0; SECTOR_LEN];
        if bytes.len() < SECTOR_LEN {
            self.read(sector, &mut whole);
        }
        whole[..bytes.len()].copy_from_slice(bytes);
        self.seeds[sector as usize] = 0;
        self.others.insert(sector, Box::new(whole));
    }
}

impl Disk for NoiseDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        if offset < self.start {
            return self.head.read_at(offset, buffer);
        }
        let first = self.first_sector(offset, buffer.len())?;
        self.body.lock().read(first, buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        if offset < self.start {
            return self.head.write_at(offset, parts, durability);
        }
        let mut sector = self.first_sector(offset, parts.iter().map(|part| part.len()).sum())?;
        let mut body = self.body.lock();
        let mut gathered = Vec::new();
        for part in parts {
            if gathered.is_empty() && part.len() == BLOCK_LEN && body.write_noise(sector, part) {
                sector += SECTORS_PER_BLOCK;
                continue;
            }
            gathered.extend_from_slice(part);
            let whole = gathered.len() / SECTOR_LEN * SECTOR_LEN;
            for bytes in gathered.drain(..whole).as_slice().chunks(SECTOR_LEN) {
                body.write_sector(sector, bytes);
                sector += 1;
            }
        }
        if !gathered.is_empty() {
            body.write_sector(sector, &gathered);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), DiskError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_and_other_bytes_are_read_back() {
        let disk = NoiseDisk::new(1 << 20, 4096);
        let (one, two, text) = (noise_block(1), noise_block(2), vec![7; 700]);
        let parts: [&[u8]; 4] = [&one, &text, &[0; 324], &two];
        disk.write_at(4096 + 512, &parts, Durability::Volatile).unwrap();
        let mut found = vec![1; 4096 + 1024 + 4096];
        disk.read_at(4096 + 512, &mut found).unwrap();
        assert_eq!(found, parts.concat());
        disk.write_at(4096 + 1024, &[&text], Durability::Volatile).unwrap();
        disk.read_at(4096 + 512, &mut found).unwrap();
        assert_eq!((&found[..512], &found[512..1212], &found[1212..4096]), (&one[..512], &text[..], &one[1212..]));
    }
}

//! The I/O of a booting guest: many small, scattered reads and few writes.

use crate::disk::VirtualDisk;
use crate::error::Result;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use testing::SplitMix64;

/// The parameters of a boot. The same seed reads the same ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootWorkload {
    /// Reads of 4 to 64 KiB.
    pub reads: u32,
    /// Writes of 4 KiB to the first megabytes of the disk, as to logs and the registry.
    pub writes: u32,
    /// Concurrent requests.
    pub depth: usize,
    /// Seed of the offsets.
    pub seed: u64,
}

impl Default for BootWorkload {
    /// A small guest: about 8 MB read, 256 KB written.
    fn default() -> Self {
        Self { reads: 240, writes: 64, depth: 4, seed: 1 }
    }
}

/// Returns a random number determined by `number`.
fn random(number: u64) -> u64 {
    SplitMix64::new(number).next_u64()
}

/// The first bytes of the disk, which a booting guest writes to.
const WRITTEN_BYTES: u64 = 16 << 20;
const WRITE_BYTES: u64 = 4096;

impl BootWorkload {
    /// Performs the reads and writes; returns the number of bytes.
    pub(crate) async fn run(&self, disk: &VirtualDisk) -> Result<u64> {
        let size = disk.bytes();
        let reads = (0..self.reads).map(|index| self.read(index.into(), size));
        let done = stream::iter(reads.map(|(offset, bytes)| async move {
            disk.read(offset, bytes).await?;
            Ok::<u64, crate::VirtualDiskError>(bytes)
        }));
        let read = done.buffer_unordered(self.depth.max(1)).try_fold(0, |sum, bytes| async move { Ok(sum + bytes) });
        let mut total = read.await?;
        let data = Bytes::from(vec![0x55; WRITE_BYTES as usize]);
        for index in 0..u64::from(self.writes) {
            let pages = WRITTEN_BYTES.min(size) / WRITE_BYTES;
            if pages > 0 {
                disk.write(random(self.seed ^ index << 32) % pages * WRITE_BYTES, data.clone()).await?;
                total += WRITE_BYTES;
            }
        }
        Ok(total)
    }

    /// Returns offset and length of a read within a disk of `size` bytes.
    fn read(&self, index: u64, size: u64) -> (u64, u64) {
        let chance = random(self.seed.rotate_left(17) ^ index);
        let bytes = (4096 << (chance % 5)).min(size);
        let places = (size - bytes) / 4096 + 1;
        ((chance >> 8) % places * 4096, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn boot_reads_stay_within_the_disk(seed: u64, index in 0u64..1000, sectors in 1u64..1 << 40) {
            let size = sectors * 512;
            let (offset, bytes) = BootWorkload { seed, ..BootWorkload::default() }.read(index, size);
            prop_assert!(offset + bytes <= size && bytes > 0 && bytes.is_multiple_of(512));
        }
    }
}

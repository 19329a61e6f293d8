//! Damage on the medium: flipped bits and unreadable sectors. It survives crashes and ends when the
//! bytes are written again.

use super::{DriveBug, Inner, SECTOR, SimDisk};
use testing::Rng;

/// Kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The drive returns wrong bytes without an error.
    Rot,
    /// The drive returns an error for each sector of the range.
    BadSectors,
}

impl SimDisk {
    /// Damages the bytes from `from` to `to`, in the cache and on the medium. Ignores bytes that
    /// are not on the drive.
    pub fn damage(&self, (from, to): (u64, u64), kind: DamageKind) {
        let inner = &mut *self.lock();
        inner.damage(from, to, kind);
        if let Some(DriveBug::Mirror(distance)) = inner.faults.bug {
            inner.damage(from + distance, to + distance, kind);
            if from >= distance {
                inner.damage(from - distance, to - distance, kind);
            }
        }
    }

    /// Returns the number of bytes on the drive that cannot be read.
    pub fn unreadable_bytes(&self) -> u64 {
        self.lock().bad_sectors.len() as u64 * SECTOR as u64
    }
}

impl Inner {
    /// Makes the blocks of 4 KiB unreadable that hold the first or last bytes of an unstable write
    /// and other bytes.
    pub(super) fn lose_neighbours(&mut self) {
        const BLOCK: u64 = 4096;
        let whole = self.pending.iter().filter(|write| !write.is_lost);
        let ends: Vec<u64> = whole.flat_map(|write| [write.bytes.0, write.bytes.1]).collect();
        for end in ends.into_iter().filter(|end| !end.is_multiple_of(BLOCK)) {
            let first = end / BLOCK * BLOCK / SECTOR as u64;
            self.bad_sectors.extend(first..first + BLOCK / SECTOR as u64);
        }
    }

    /// Returns whether a sector of the byte range cannot be read.
    pub(super) fn is_bad(&self, from: u64, to: u64) -> bool {
        let sectors = from / SECTOR as u64..to.div_ceil(SECTOR as u64).max(from / SECTOR as u64);
        self.bad_sectors.range(sectors).next().is_some()
    }

    fn damage(&mut self, from: u64, to: u64, kind: DamageKind) {
        let (from, to) = (from.min(self.size), to.min(self.size));
        if from >= to {
            return;
        }
        match kind {
            DamageKind::BadSectors => {
                self.bad_sectors.extend(from / SECTOR as u64..to.div_ceil(SECTOR as u64));
            }
            DamageKind::Rot => {
                let mut flips = vec![0; (to - from) as usize];
                let mut rng = Rng::new(self.rng.next_u64());
                // At least one bit in each sector, so that the damage hits all structures there.
                for part in flips.chunks_mut(SECTOR) {
                    (0..rng.size(4)).for_each(|_| part[rng.index(part.len())] ^= 1 << rng.below(8));
                    part[0] |= 1;
                }
                for image in [&mut self.visible, &mut self.stable] {
                    let mut bytes = vec![0; flips.len()];
                    image.read(from, &mut bytes);
                    bytes.iter_mut().zip(&flips).for_each(|(byte, flip)| *byte ^= flip);
                    image.write(from, &bytes);
                }
                for write in &mut self.pending {
                    let start = write.sector * SECTOR as u64;
                    for (byte, at) in write.data.iter_mut().zip(start..) {
                        if (from..to).contains(&at) {
                            *byte ^= flips[(at - from) as usize];
                        }
                    }
                }
            }
        }
    }
}

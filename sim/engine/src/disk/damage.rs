//! Damage on the medium: flipped bits and unreadable sectors. It survives crashes and ends when the
//! bytes are written again.

use super::{DriveBug, Inner, SECTOR, SimDisk};
use std::collections::HashSet;
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
        if inner.faults.bug == Some(DriveBug::EqualSectors) {
            inner.equal_sectors(from, to).into_iter().for_each(|at| inner.damage(at, at + SECTOR as u64, kind));
        }
        inner.damage(from, to, kind);
    }

    /// Returns the number of bytes on the drive that cannot be read.
    pub fn unreadable_bytes(&self) -> u64 {
        self.lock().bad_sectors.len() as u64 * SECTOR as u64
    }
}

impl Inner {
    /// Returns the offsets of sectors outside of a range that equal one inside of it.
    fn equal_sectors(&self, from: u64, to: u64) -> Vec<u64> {
        let (first, end) = (from / SECTOR as u64 * SECTOR as u64, to.div_ceil(SECTOR as u64) * SECTOR as u64);
        let mut inside = vec![0; (end - first) as usize];
        self.visible.read(first, &mut inside);
        let inside: HashSet<&[u8]> = inside.chunks(SECTOR).filter(|sector| *sector != [0; SECTOR]).collect();
        let mut found = Vec::new();
        let mut part = vec![0; 1 << 20];
        for start in (0..self.size).step_by(part.len()) {
            self.visible.read(start, &mut part);
            let equal = part.chunks(SECTOR).zip(0..).filter(|(sector, _)| inside.contains(sector));
            found.extend(equal.map(|(_, number)| start + number * SECTOR as u64));
        }
        found.retain(|at| !(first..end).contains(at));
        found
    }

    /// Makes the blocks unreadable that hold the first or last bytes of an unstable write and other
    /// bytes: a drive writes whole blocks of its unit, and without protection against power loss it
    /// may lose one that it is writing.
    pub(super) fn lose_neighbours(&mut self) {
        let is_bug = self.faults.bug == Some(DriveBug::Neighbours);
        let block = if is_bug { 8192 } else { self.unit * SECTOR as u64 };
        let whole = self.pending.iter().filter(|write| !write.is_lost);
        let ends: Vec<u64> = whole.flat_map(|write| [write.bytes.0, write.bytes.1]).collect();
        for end in ends.into_iter().filter(|end| !end.is_multiple_of(block)) {
            let first = end / block * block / SECTOR as u64;
            self.bad_sectors.extend(first..first + block / SECTOR as u64);
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

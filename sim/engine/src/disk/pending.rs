//! Writes that are not stable yet, and the effect of a crash on them.

use super::image::{Image, SECTOR};
use std::collections::HashMap;
use testing::Rng;

/// One write in whole units: the first sector, and the content of all sectors after the write.
pub(super) struct Pending {
    pub(super) id: u64,
    pub(super) sector: u64,
    pub(super) data: Vec<u8>,
    /// Bytes that the caller wrote (from, to).
    pub(super) bytes: (u64, u64),
    pub(super) is_durable: bool,
    /// The caller has the result. Only such a write is covered by a flush.
    pub(super) is_finished: bool,
    /// The write or a flush after it failed: no later flush makes it stable.
    pub(super) is_lost: bool,
    /// Sector ranges (from, to) whose later version is already stable.
    pub(super) superseded: Vec<(u64, u64)>,
}

impl Pending {
    pub(super) fn end(&self) -> u64 {
        self.sector + (self.data.len() / SECTOR) as u64
    }

    fn is_superseded(&self, sector: u64) -> bool {
        self.superseded.iter().any(|(from, to)| (*from..*to).contains(&sector))
    }

    fn store(&self, stable: &mut Image) {
        stable.write(self.sector * SECTOR as u64, &self.data);
    }
}

/// Makes the chosen writes stable and removes them. Older versions of those sectors in other writes
/// can no longer reappear.
pub(super) fn settle(pending: &mut Vec<Pending>, stable: &mut Image, chosen: impl Fn(&Pending) -> bool) {
    let mut settled: Vec<(u64, u64, u64)> = Vec::new();
    pending.retain(|write| {
        if !chosen(write) {
            return true;
        }
        if write.superseded.is_empty() {
            write.store(stable);
        } else {
            for sector in (write.sector..write.end()).filter(|sector| !write.is_superseded(*sector)) {
                let at = (sector - write.sector) as usize * SECTOR;
                stable.write(sector * SECTOR as u64, &write.data[at..at + SECTOR]);
            }
        }
        settled.push((write.id, write.sector, write.end()));
        false
    });
    for write in pending {
        let (id, start, end) = (write.id, write.sector, write.end());
        let later = settled.iter().filter(|(settled, from, to)| *settled > id && *from < end && start < *to);
        write.superseded.extend(later.map(|(_, from, to)| (*from, *to)));
    }
}

/// How much of the cache a crash loses.
enum Loss {
    All,
    Nothing,
    /// Each unit is kept with this probability, in percent.
    Sectors(u64),
    /// Each write is kept as a whole with this probability, in percent.
    Writes(u64),
    /// The first n writes are kept, and some units of the next one.
    After(usize),
    /// This write is lost; the others are kept.
    One(usize),
}

/// Stores a random selection of the pending units of `unit` sectors, in any version.
pub(super) fn lose(pending: &[Pending], unit: u64, stable: &mut Image, rng: &mut Rng) {
    let loss = match rng.below(7) {
        0 => Loss::All,
        1 => Loss::Nothing,
        2 => Loss::Sectors(rng.pick(&[3, 30, 50, 70, 97])),
        3 => Loss::Writes(rng.pick(&[10, 50, 90])),
        4 | 5 => Loss::After(rng.index(pending.len() + 1)),
        _ => Loss::One(rng.index(pending.len())),
    };
    let mut kept: HashMap<u64, (usize, usize)> = HashMap::new();
    for (index, write) in pending.iter().enumerate() {
        let percent = match loss {
            Loss::All => 0,
            Loss::Nothing => 100,
            Loss::Sectors(percent) => percent,
            Loss::Writes(percent) => u64::from(rng.percent(percent)) * 100,
            Loss::After(first) if index < first => 100,
            Loss::After(first) if index > first => 0,
            Loss::After(_) => 50,
            Loss::One(lost) => u64::from(index != lost) * 100,
        };
        if percent == 0 {
            continue;
        }
        for first in (write.sector..write.end()).step_by(unit as usize) {
            let keeps = (percent == 100 || rng.percent(percent)) && !write.is_superseded(first);
            // An earlier version may be the last to reach the medium.
            if keeps && !(kept.contains_key(&first) && rng.percent(20)) {
                let sectors = first..(first + unit).min(write.end());
                kept.extend(sectors.map(|sector| (sector, (index, (sector - write.sector) as usize * SECTOR))));
            }
        }
    }
    for (sector, (index, at)) in kept {
        stable.write(sector * SECTOR as u64, &pending[index].data[at..at + SECTOR]);
    }
}

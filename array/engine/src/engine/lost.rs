//! Blocks that hosts could not read: remembered until a scrub has looked at everything after them.

use crate::service::{Damage, OpError};
use std::collections::BTreeSet;
use types::{LBAS_PER_BLOCK, VolumeId};

/// The most blocks that are remembered. Who has lost more will scrub.
const MOST_BLOCKS: usize = 1000;

/// Blocks of 4 KiB that somebody wanted to read and could not have.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost(BTreeSet<(VolumeId, u64)>);

impl Lost {
    /// Remembers the block that an answer to a request on `volume` names as unreadable, if it does.
    pub(super) fn note(&mut self, volume: VolumeId, error: &OpError) {
        if let OpError::MediumError { lba } = error
            && self.0.len() < MOST_BLOCKS
        {
            self.0.insert((volume, lba.0 / LBAS_PER_BLOCK));
        }
    }

    /// Forgets what was known before a scrub that has told what there is.
    pub(super) fn forget(&mut self, known: &Self) {
        self.0.retain(|block| !known.0.contains(block));
    }

    /// One piece of damage for each volume.
    pub(super) fn told(&self) -> Vec<Damage> {
        let mut volumes: Vec<(VolumeId, u64, Vec<(u64, u64)>)> = Vec::new();
        for (volume, block) in &self.0 {
            match volumes.last_mut() {
                Some((last, blocks, runs)) if last == volume => {
                    *blocks += 1;
                    match runs.last_mut() {
                        Some((start, length)) if *start + *length == *block => *length += 1,
                        _ => runs.push((*block, 1)),
                    }
                }
                _ => volumes.push((*volume, 1, vec![(*block, 1)])),
            }
        }
        volumes.into_iter().map(|(volume, blocks, runs)| unreadable(volume, blocks, &runs)).collect()
    }
}

/// So many blocks of a volume cannot be read; `runs` are the first of them, as first block and length.
pub(super) fn unreadable(volume: VolumeId, blocks: u64, runs: &[(u64, u64)]) -> Damage {
    let runs: Vec<String> = runs.iter().map(|(start, blocks)| format!("{start}+{blocks}")).collect();
    let plural = if blocks == 1 { "block" } else { "blocks" };
    let what = format!("{blocks} {plural} of 4 KiB cannot be read: {} (first block + blocks)", runs.join(" "));
    Damage { volume: Some(volume), what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Lba;

    #[test]
    fn what_reads_could_not_have_is_told_by_volume_until_a_scrub_has_looked() {
        let mut lost = Lost::default();
        let at = |lba| OpError::MediumError { lba: Lba(lba) };
        for (volume, lba) in [(2, 80), (1, 8), (1, 16), (1, 23), (1, 800)] {
            lost.note(VolumeId(volume), &at(lba));
        }
        lost.note(VolumeId(3), &OpError::NoSpace);
        let told: Vec<_> = lost.told().into_iter().map(|damage| (damage.volume.unwrap().0, damage.what)).collect();
        assert_eq!(
            told,
            [
                (1, "3 blocks of 4 KiB cannot be read: 1+2 100+1 (first block + blocks)".to_owned()),
                (2, "1 block of 4 KiB cannot be read: 10+1 (first block + blocks)".to_owned()),
            ]
        );
        let known = lost.clone();
        lost.note(VolumeId(7), &at(0));
        lost.forget(&known);
        assert_eq!(lost.told(), [unreadable(VolumeId(7), 1, &[(0, 1)])]);
        (0..2 * MOST_BLOCKS as u64).for_each(|block| lost.note(VolumeId(1), &at(block * 8)));
        assert_eq!(lost.0.len(), MOST_BLOCKS);
    }
}

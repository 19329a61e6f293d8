//! Blocks that reads could not return, kept until a scrub has checked everything after them.

use crate::service::{Damage, OpError};
use fsck::UnreadableRanges;
use std::collections::BTreeSet;
use types::{LBAS_PER_BLOCK, VolumeId};

/// Most blocks that are kept. A host that loses more should start a scrub.
const MAX_BLOCKS: usize = 1000;

/// 4 KiB blocks that a request needed and that could not be read.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadErrors(BTreeSet<(VolumeId, u64)>);

impl ReadErrors {
    /// Adds the block that the error of a request on `volume` names as unreadable, if any.
    pub(super) fn note(&mut self, volume: VolumeId, error: &OpError) {
        if let OpError::MediumError { lba } = error
            && self.0.len() < MAX_BLOCKS
        {
            self.0.insert((volume, lba.0 / LBAS_PER_BLOCK));
        }
    }

    /// Removes the errors known before a scrub, which the result of the scrub replaces.
    pub(super) fn forget(&mut self, known: &Self) {
        self.0.retain(|block| !known.0.contains(block));
    }

    /// Returns one entry for each volume.
    pub(super) fn damage(&self) -> Vec<Damage> {
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

/// Describes `blocks` unreadable blocks of a volume or of its delta. `runs` are the first of them,
/// as first block and length.
pub(super) fn unreadable(volume: VolumeId, blocks: u64, runs: &[(u64, u64)]) -> Damage {
    let runs: Vec<String> = runs.iter().map(|(start, blocks)| format!("{start}+{blocks}")).collect();
    let plural = if blocks == 1 { "block" } else { "blocks" };
    let (volume, part) = volume.volume_of_delta().map_or((volume, ""), |owner| (owner, " of its delta"));
    let runs = runs.join(" ");
    let description = format!("{blocks} {plural} of 4 KiB{part} cannot be read: {runs} (first block + blocks)");
    Damage { volume: Some(volume), description }
}

/// Describes the unreadable ranges of a volume, which fsck counts in blocks of 512 bytes.
pub(super) fn described(volume: VolumeId, ranges: &UnreadableRanges) -> Damage {
    let in_blocks = |(start, blocks): &(u64, u64)| (start / LBAS_PER_BLOCK, blocks / LBAS_PER_BLOCK);
    let runs: Vec<_> = ranges.runs.iter().map(in_blocks).collect();
    unreadable(volume, ranges.blocks / LBAS_PER_BLOCK, &runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Lba;

    #[test]
    fn damage_of_a_delta_names_its_volume() {
        let volume = types::StreamId::new(5).unwrap().volume(3);
        let ranges = UnreadableRanges { blocks: 16, runs: vec![(80, 16)] };
        let found = described(volume.delta().unwrap(), &ranges);
        let description = "2 blocks of 4 KiB of its delta cannot be read: 10+2 (first block + blocks)".to_owned();
        assert_eq!(found, Damage { volume: Some(volume), description });
    }

    #[test]
    fn read_errors_are_kept_by_volume_until_a_scrub() {
        let mut errors = ReadErrors::default();
        let at = |lba| OpError::MediumError { lba: Lba(lba) };
        for (volume, lba) in [(2, 80), (1, 8), (1, 16), (1, 23), (1, 800)] {
            errors.note(VolumeId(volume), &at(lba));
        }
        errors.note(VolumeId(3), &OpError::NoSpace);
        let found: Vec<_> =
            errors.damage().into_iter().map(|damage| (damage.volume.unwrap().0, damage.description)).collect();
        assert_eq!(
            found,
            [
                (1, "3 blocks of 4 KiB cannot be read: 1+2 100+1 (first block + blocks)".to_owned()),
                (2, "1 block of 4 KiB cannot be read: 10+1 (first block + blocks)".to_owned()),
            ]
        );
        let known = errors.clone();
        errors.note(VolumeId(7), &at(0));
        errors.forget(&known);
        assert_eq!(errors.damage(), [unreadable(VolumeId(7), 1, &[(0, 1)])]);
        (0..2 * MAX_BLOCKS as u64).for_each(|block| errors.note(VolumeId(1), &at(block * 8)));
        assert_eq!(errors.0.len(), MAX_BLOCKS);
    }
}

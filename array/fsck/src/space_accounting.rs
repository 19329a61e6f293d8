//! What belongs to whom: every stored byte of data goes to the family that alone holds it, or is divided equally among those that
//! hold it together.
//!
//! The trees are walked level by level from the top, each page once: by the time a page is entered, all that name it have been seen, and
//! so it is known who holds it: one family (its volume, or only its snapshots), or a set of families. A slot remembers that in two bytes, as a number
//! of the sets that have come up. Where more sets come up than have numbers, what the rest hold is divided by what each family has written.

mod count;
mod divide;
mod sets;

use crate::checkpoint::{Checkpoint, CheckpointError};
use count::Count;
use std::collections::BTreeMap;
use types::{BLOCK_BYTES, VolumeId};

/// Bytes of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyBytes {
    /// What its volume has mapped, before reduction.
    pub written: u64,
    /// As stored: held by its volume, and by no other family.
    pub volume: u64,
    /// As stored: held by its snapshots only.
    pub snapshots: u64,
    /// As stored: its part of what several families hold.
    pub shared: u64,
}

/// The data of an array, by who holds them. All stored bytes together are [`Checkpoint::data_bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceBreakdown {
    /// By family.
    pub families: BTreeMap<VolumeId, FamilyBytes>,
    /// Held by nobody any more, and not given back yet.
    pub released: u64,
}

/// Counts the data of a checkpoint. `owner` tells the family of a volume, and whether it is a snapshot in it. `go_on` is asked
/// now and then, and ends the count.
pub fn account_space(
    checkpoint: &Checkpoint<'_>,
    owner: &dyn Fn(VolumeId) -> (VolumeId, bool),
    go_on: &dyn Fn() -> bool,
) -> Result<SpaceBreakdown, CheckpointError> {
    let volumes = &checkpoint.manifest.volumes;
    let owned: Vec<_> = volumes.iter().map(|(name, volume)| (owner(*name), volume.root)).collect();
    let mut shares = SpaceBreakdown::default();
    for ((family, is_snapshot), root) in &owned {
        let share = shares.families.entry(*family).or_default();
        if !is_snapshot {
            share.written = share.written.saturating_add(root.mapped.saturating_mul(BLOCK_BYTES));
        }
    }
    let families: Vec<VolumeId> = shares.families.keys().copied().collect();
    if families.len() > sets::MOST_FAMILIES {
        return Err(CheckpointError(format!("more than {} families cannot be told apart", sets::MOST_FAMILIES)));
    }
    let roots: Vec<count::Root> = owned
        .into_iter()
        .map(|((family, is_snapshot), root)| {
            let family = families.partition_point(|other| *other < family);
            count::Root { family, is_snapshot, reference: root.reference, height: root.height }
        })
        .collect();
    let mut count = Count::new(checkpoint, families.len())?;
    count.walk(&roots, go_on)?;
    let sums = count.sums(families.len())?;
    let written: Vec<f64> = shares.families.values().map(|share| share.written as f64).collect();
    let several = divide::divide(sums.several, &written);
    for ((share, held), several) in shares.families.values_mut().zip(sums.families).zip(several) {
        (share.volume, share.snapshots, share.shared) = (held.volume, held.snapshots, held.shared + several);
    }
    shares.released = sums.released;
    Ok(shares)
}

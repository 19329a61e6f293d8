//! Space accounting: attributes every stored byte of data to one family, or divides it equally
//! among the families that share it.
//!
//! A family is a volume with its snapshots. The trees are walked level by level from the top, and
//! each page is read once. When a page is entered, all references to it have been seen, so its
//! owner is known: one family (its volume, or only its snapshots) or a set of families.
//!
//! Each slot records its owner as a number of two bytes. If more sets occur than numbers exist, the
//! remaining data are divided in proportion to what each family has written.

mod count;
mod divide;
mod sets;

use crate::checkpoint::{Checkpoint, CheckpointError};
use count::Accounting;
use std::collections::BTreeMap;
use types::{BLOCK_BYTES, VolumeId};

/// Bytes of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyBytes {
    /// Bytes mapped by the volume, before data reduction.
    pub written: u64,
    /// Stored bytes that the volume and no other family references.
    pub volume: u64,
    /// Stored bytes that only the snapshots reference.
    pub snapshots: u64,
    /// This family's part of stored bytes that several families share.
    pub shared: u64,
}

/// Stored data of an array by family. The sum of all stored bytes equals
/// [`Checkpoint::data_bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceBreakdown {
    /// Bytes by family.
    pub families: BTreeMap<VolumeId, FamilyBytes>,
    /// Bytes without references that are not freed yet.
    pub released: u64,
}

/// Accounts for the data of a checkpoint.
///
/// `owner` returns the family of a volume and whether it is a snapshot in that family.
/// `should_continue` is called for each part; returning false cancels the accounting.
///
/// # Errors
///
/// Fails if the checkpoint cannot be read or if the accounting is cancelled.
pub fn account_space(
    checkpoint: &Checkpoint<'_>,
    owner: &dyn Fn(VolumeId) -> (VolumeId, bool),
    should_continue: &dyn Fn() -> bool,
) -> Result<SpaceBreakdown, CheckpointError> {
    if let Some(problem) = &checkpoint.patches.problem {
        return Err(CheckpointError(problem.clone()));
    }
    let volumes = &checkpoint.manifest.volumes;
    // Deltas hold no data, and stages belong to no family.
    let volumes = volumes.iter().filter(|(name, _)| !name.is_delta() && !name.is_stage());
    let owned: Vec<_> = volumes.map(|(name, volume)| (owner(*name), volume.root)).collect();
    let mut shares = SpaceBreakdown::default();
    for ((family, is_snapshot), root) in &owned {
        let share = shares.families.entry(*family).or_default();
        if !is_snapshot {
            share.written = share.written.saturating_add(root.mapped.saturating_mul(BLOCK_BYTES));
        }
    }
    let families: Vec<VolumeId> = shares.families.keys().copied().collect();
    if families.len() > sets::MAX_FAMILIES {
        return Err(CheckpointError(format!("more than {} families are not supported", sets::MAX_FAMILIES)));
    }
    let roots: Vec<count::Root> = owned
        .into_iter()
        .map(|((family, is_snapshot), root)| {
            let family = families.partition_point(|other| *other < family);
            count::Root { family, is_snapshot, reference: root.reference, height: root.height }
        })
        .collect();
    let mut count = Accounting::new(checkpoint, families.len(), should_continue)?;
    count.walk(&roots, should_continue)?;
    let sums = count.sums(families.len(), should_continue)?;
    let written: Vec<f64> = shares.families.values().map(|share| share.written as f64).collect();
    let untracked = divide::divide(sums.untracked, &written);
    for ((share, held), untracked) in shares.families.values_mut().zip(sums.families).zip(untracked) {
        (share.volume, share.snapshots, share.shared) = (held.volume, held.snapshots, held.shared + untracked);
    }
    shares.released = sums.released;
    Ok(shares)
}
